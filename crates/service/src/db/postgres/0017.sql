-- As that of SQLite.
create table runner (
    name text primary key,
    holder text not null,
    token bigint not null,
    expires_at bigint not null
);

create table server (
    id text primary key,
    version text not null,
    market text,
    seen_at bigint not null
);

-- A picture of the moment, which nobody misses after a crash.
create unlogged table progress (
    task text primary key,
    said text not null,
    at bigint not null
);
create index progress_at on progress (at);

alter table task add column runner text not null default '';
alter table task add column has_begun bigint not null default 1;
alter table garbage add column due_at bigint not null default 0;
