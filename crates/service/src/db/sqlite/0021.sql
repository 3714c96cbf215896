-- When a result that is kept for a time is deleted, and when that was announced: without both it stays.
alter table task add column expires_at integer;
alter table task add column announced_at integer;
create index task_kept on task (finished_at) where finished_at is not null and expires_at is null;
create index task_expires on task (expires_at) where expires_at is not null;
create index task_announced on task (account, announced_at) where announced_at is not null;
