-- How many tasks there are, kept as they change: to count them anew for each look at the metrics took as
-- long as there were tasks, and others waited meanwhile.
create table task_count (
    kind text not null,
    status text not null,
    n integer not null,
    primary key (kind, status)
) without rowid;

insert into task_count select kind, status, count(*) from task group by kind, status;

create trigger task_counted after insert on task begin
    insert into task_count values (new.kind, new.status, 1) on conflict do update set n = n + 1;
end;
create trigger task_counted_again after update of status on task when old.status <> new.status begin
    update task_count set n = n - 1 where kind = old.kind and status = old.status;
    insert into task_count values (new.kind, new.status, 1) on conflict do update set n = n + 1;
end;
create trigger task_discounted after delete on task begin
    update task_count set n = n - 1 where kind = old.kind and status = old.status;
end;
