-- Times are microseconds since 1970, UTC.

create table account (
    id integer primary key,
    name text not null unique,
    created_at integer not null,
    disabled_at integer
);

-- The id is the public part of the key; of the secret only its SHA-256 is kept.
create table api_key (
    id text primary key,
    account integer not null references account,
    name text not null,
    hash blob not null,
    created_at integer not null,
    expires_at integer,
    revoked_at integer,
    last_used_at integer
) without rowid;

-- seq orders a listing without ties, and is what its cursor holds.
create table file (
    seq integer primary key autoincrement,
    id text not null unique,
    account integer not null references account,
    name text not null,
    kind text not null,
    format text not null,
    status text not null check (status in ('pending', 'ready')),
    size integer,
    sha256 text,
    pdb_id text,
    created_at integer not null
);
create unique index file_name on file (account, name) where status = 'ready';
create index file_list on file (account, seq);
create index file_list_status on file (account, status, seq);
create index file_list_name on file (account, name, seq);
create index file_list_status_name on file (account, status, name, seq);

-- Systems, jobs and analyses are all work that is queued, runs and ends.
create table task (
    seq integer primary key autoincrement,
    id text not null unique,
    account integer not null references account,
    kind text not null check (kind in ('system', 'job', 'analysis')),
    -- Tasks of one lane wait for each other: 0 for workers, 1 for analyses.
    lane integer not null as (kind = 'analysis') stored,
    -- box_name of a system, batch_name of a job.
    name text,
    -- System of a job, job of an analysis. No foreign key: the data of an analysis outlives its job.
    parent text,
    status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    -- As submitted, and with defaults; both JSON of the wire types.
    request text not null,
    parameters text not null,
    seed integer not null,
    attempts integer not null default 0,
    created_at integer not null,
    started_at integer,
    finished_at integer,
    -- Whether a running task has been asked to stop for good.
    is_cancelled integer not null default 0,
    -- JSON: what the worker said at the end, or why there was none.
    outcome text,
    -- JSON: layout of the bundle.
    bundle text
);
create index task_list on task (account, kind, seq);
create index task_list_status on task (account, kind, status, seq);
create index task_list_name on task (account, kind, name, seq);
create index task_list_status_name on task (account, kind, status, name, seq);
create index task_status on task (status, lane, account, seq);
create index task_parent on task (parent) where parent is not null;

-- Files that a task reads when it starts.
create table task_input (
    task text not null references task (id) on delete cascade,
    file text not null,
    primary key (file, task)
) without rowid;

-- Prefixes of objects whose record is gone; they are removed after it, at the next start at the latest.
create table garbage (
    prefix text primary key
) without rowid;

-- First answers, so that a repeated request does nothing again.
create table idempotency (
    account integer not null references account,
    key text not null,
    operation text not null,
    fingerprint blob not null,
    body text not null,
    created_at integer not null,
    primary key (account, key)
) without rowid;
create index idempotency_age on idempotency (created_at);
