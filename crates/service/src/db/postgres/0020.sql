-- As that of SQLite.
create table webhook (
    account bigint primary key references account,
    url text not null,
    secret text not null
);

create table delivery (
    id text primary key,
    account bigint not null references account,
    task text not null,
    body text not null,
    due_at bigint not null,
    tries bigint not null default 0
);
create index delivery_due on delivery (due_at);
