-- What SQLite's migrations have come to; what the tables and columns are for stands there.

create table schema_version (
    version bigint not null,
    -- The oldest version of a program that works with it.
    oldest bigint not null
);

-- What every write leaves. Where a connection breaks during a commit, it tells whether that came about.
create table commit_mark (
    id text primary key,
    at timestamptz not null default now()
);

-- What holds for the installation as a whole.
create table setting (
    name text primary key,
    value text not null
);

create table account (
    id bigint generated always as identity primary key,
    name text not null unique,
    created_at bigint not null,
    disabled_at bigint,
    bytes bigint not null default 0,
    role text not null default 'user' check (role in ('user', 'admin')),
    password text,
    invitation bytea,
    invitation_expires_at bigint,
    most_open_tasks bigint,
    most_bytes bigint
);

create table api_key (
    id text primary key,
    account bigint not null references account,
    name text not null,
    hash bytea not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint
);

create table file (
    seq bigint generated always as identity primary key,
    id text not null unique,
    account bigint not null references account,
    name text not null,
    kind text not null,
    format text not null,
    status text not null check (status in ('pending', 'ready')),
    size bigint,
    sha256 text,
    pdb_id text,
    created_at bigint not null,
    object text,
    warnings text not null default '[]',
    bytes bigint not null default 0
);
create unique index file_name on file (account, name) where status = 'ready';
create index file_list on file (account, seq);
create index file_list_status on file (account, status, seq);
create index file_list_name on file (account, name, seq);
create index file_list_status_name on file (account, status, name, seq);
create index file_pending on file (created_at) where status = 'pending';

create table task (
    seq bigint generated always as identity primary key,
    id text not null unique,
    account bigint not null references account,
    kind text not null check (kind in ('system', 'job', 'analysis')),
    lane bigint not null generated always as ((kind = 'analysis')::int) stored,
    name text,
    parent text,
    status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    request text not null,
    parameters text not null,
    seed bigint not null,
    attempts bigint not null default 0,
    created_at bigint not null,
    started_at bigint,
    finished_at bigint,
    is_cancelled bigint not null default 0,
    outcome text,
    warnings text not null default '[]',
    fruitless bigint not null default 0,
    bytes bigint,
    attempt_at bigint
);
create index task_list on task (account, kind, seq);
create index task_list_status on task (account, kind, status, seq);
create index task_list_name on task (account, kind, name, seq);
create index task_list_status_name on task (account, kind, status, name, seq);
create index task_status on task (status, lane, account, seq);
create index task_parent on task (parent) where parent is not null;
create index task_unmeasured on task (id) where bytes is null;
create index task_ended on task (account, finished_at) where finished_at is not null;
create index task_cancelled on task (status) where is_cancelled = 1;

create table task_input (
    task text not null references task (id) on delete cascade,
    file text not null,
    primary key (file, task)
);
-- A key of another table is no index here.
create index task_input_of on task_input (task);

create table task_reference (
    task text primary key references task (id) on delete cascade,
    reference text not null
);
create index task_reference_needed on task_reference (reference);

create table bundle (
    task text primary key references task (id) on delete cascade,
    layout text not null
);

create table garbage (
    prefix text primary key
);

create table idempotency (
    account bigint not null references account,
    key text not null,
    operation text not null,
    fingerprint bytea not null,
    body text not null,
    created_at bigint not null,
    headers text not null default '[["content-type","application/json"]]',
    primary key (account, key)
);
create index idempotency_age on idempotency (created_at);

create table audit (
    seq bigint generated always as identity primary key,
    at bigint not null,
    account text,
    key text,
    operator text,
    address text,
    request text,
    action text not null,
    subject text not null
);

create table session (
    id text primary key,
    account bigint not null references account,
    hash bytea not null unique,
    created_at bigint not null,
    seen_at bigint not null,
    expires_at bigint not null,
    browser text not null,
    address text
);
create index session_list on session (account, created_at, id);

create table identity (
    issuer text not null,
    subject text not null,
    account bigint not null references account,
    created_at bigint not null,
    primary key (issuer, subject)
);

create table speed (
    task text primary key,
    kind text not null,
    platform text not null,
    threads bigint not null,
    atoms bigint not null,
    cutoff_pm bigint not null,
    step_ns bigint,
    rest_ms bigint,
    at bigint not null,
    minimise_step_ns bigint,
    minimise_steps bigint
);
create index speed_newest on speed (kind, at);

create table served (
    account bigint not null references account,
    lane bigint not null,
    ms bigint not null,
    at bigint not null,
    primary key (account, lane)
);

create table task_count (
    account bigint not null references account,
    kind text not null,
    status text not null,
    n bigint not null,
    primary key (account, kind, status)
);

create function count_file() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' and old.bytes <> 0 then
        update account set bytes = bytes - old.bytes where id = old.account;
    end if;
    if tg_op <> 'DELETE' and new.bytes <> 0 then
        update account set bytes = bytes + new.bytes where id = new.account;
    end if;
    return null;
end $$;
create trigger file_made after insert on file for each row execute function count_file();
create trigger file_changed after update of bytes on file
    for each row when (new.bytes <> old.bytes) execute function count_file();
create trigger file_deleted after delete on file for each row execute function count_file();

create function count_task() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' then
        update account set bytes = bytes - old.bytes where id = old.account and old.bytes <> 0;
        update task_count set n = n - 1
        where account = old.account and kind = old.kind and status = old.status;
    end if;
    if tg_op <> 'DELETE' then
        update account set bytes = bytes + new.bytes where id = new.account and new.bytes <> 0;
        insert into task_count values (new.account, new.kind, new.status, 1)
        on conflict (account, kind, status) do update set n = task_count.n + 1;
    end if;
    return null;
end $$;
create trigger task_made after insert on task for each row execute function count_task();
create trigger task_changed after update of bytes, status on task
    for each row when (new.bytes is distinct from old.bytes or new.status <> old.status)
    execute function count_task();
create trigger task_deleted after delete on task for each row execute function count_task();
