-- What servers that share a database know of each other. With a database that is a file there is one, which
-- needs none of it.

-- Who may run tasks.
create table runner (
    name text primary key,
    -- Identifier of the server that holds it.
    holder text not null,
    -- Raised each time that it is taken: what is written by an older one is refused.
    token integer not null,
    expires_at integer not null
);

create table server (
    id text primary key,
    version text not null,
    -- Digest of the market data in use.
    market text,
    seen_at integer not null
);

-- What running tasks last said of themselves, JSON.
create table progress (
    task text primary key,
    said text not null,
    at integer not null
);
create index progress_at on progress (at);

-- The runner that has started it last; empty for the only one there is.
alter table task add column runner text not null default '';
-- Whether an attempt was begun since it was claimed; one that was not is put back.
alter table task add column has_begun integer not null default 1;
-- Not before this moment: until then somebody may be about to refer to it.
alter table garbage add column due_at integer not null default 0;
