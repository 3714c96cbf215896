-- What an account's streams ask for twice a second: which of its tasks have ended of late.
create index task_ended on task (account, finished_at) where finished_at is not null;
