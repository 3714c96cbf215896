-- Where the ends of an account's tasks are reported to.
create table webhook (
    account integer primary key references account,
    url text not null,
    -- Signs what is sent.
    secret text not null
);

-- Reports that nobody has taken yet.
create table delivery (
    id text primary key,
    account integer not null references account,
    task text not null,
    -- What is sent, JSON.
    body text not null,
    -- Not before this moment.
    due_at integer not null,
    tries integer not null default 0
);
create index delivery_due on delivery (due_at);
