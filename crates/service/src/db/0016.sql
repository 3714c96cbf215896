-- What is to be stopped, found without looking at what only waits or has ended.
create index task_cancelled on task (status) where is_cancelled = 1;
-- An account that is disabled has nothing open; before, the runner saw to it.
update task set is_cancelled = 1
where status in ('queued', 'running')
    and account in (select id from account where disabled_at is not null);
