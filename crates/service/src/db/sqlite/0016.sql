-- What is to be stopped, found without looking at what only waits or has ended.
create index task_cancelled on task (status) where is_cancelled = 1;
-- An account that is disabled has nothing open; before, the runner saw to it.
update task set is_cancelled = 1
where status in ('queued', 'running')
    and account in (select id from account where disabled_at is not null);

-- How many tasks there are, by account: where many write at a time, nobody waits for the count of another.
drop trigger task_counted;
drop trigger task_counted_again;
drop trigger task_discounted;
drop table task_count;
create table task_count (
    account integer not null references account,
    kind text not null,
    status text not null,
    n integer not null,
    primary key (account, kind, status)
) without rowid;

insert into task_count select account, kind, status, count(*) from task group by account, kind, status;

create trigger task_counted after insert on task begin
    insert into task_count values (new.account, new.kind, new.status, 1) on conflict do update set n = n + 1;
end;
create trigger task_counted_again after update of status on task when old.status <> new.status begin
    update task_count set n = n - 1
    where account = old.account and kind = old.kind and status = old.status;
    insert into task_count values (new.account, new.kind, new.status, 1) on conflict do update set n = n + 1;
end;
create trigger task_discounted after delete on task begin
    update task_count set n = n - 1
    where account = old.account and kind = old.kind and status = old.status;
end;
