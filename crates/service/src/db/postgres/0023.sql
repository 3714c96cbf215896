-- As that of SQLite.
alter table task add column priority bigint not null default 50;
create index task_next on task (lane, account, priority desc, seq) where status = 'queued';
