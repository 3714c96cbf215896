-- Which of an account's tasks is next: the one with the highest, of equal ones the oldest. Between accounts it
-- decides nothing, so a turn goes on by the number of the oldest.
alter table task add column priority integer not null default 50;
create index task_next on task (lane, account, priority desc, seq) where status = 'queued';
