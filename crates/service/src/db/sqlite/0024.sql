-- What was cancelled has no turn any more: who hears of it ends it, and whatever keeps that from being done keeps
-- nothing else waiting.
drop trigger turn_began;
create trigger turn_began after insert on task begin
    insert into turn (lane, account, oldest, running)
    values (
        new.lane, new.account, case when new.status = 'queued' and new.is_cancelled = 0 then new.seq end,
        new.status = 'running'
    )
    on conflict do update set
        oldest = min(coalesce(oldest, excluded.oldest), coalesce(excluded.oldest, oldest)),
        running = running + excluded.running;
end;
drop trigger turn_changed;
create trigger turn_changed after update of status, is_cancelled on task
when old.status <> new.status or old.is_cancelled <> new.is_cancelled begin
    update turn set
        oldest = (
            select min(seq) from task
            where status = 'queued' and is_cancelled = 0 and lane = new.lane and account = new.account
        ),
        running = running + (new.status = 'running') - (old.status = 'running')
    where lane = new.lane and account = new.account;
end;
drop trigger turn_left;
create trigger turn_left after delete on task when old.status in ('queued', 'running') begin
    update turn set
        oldest = (
            select min(seq) from task
            where status = 'queued' and is_cancelled = 0 and lane = old.lane and account = old.account
        ),
        running = running - (old.status = 'running')
    where lane = old.lane and account = old.account;
end;
update turn set oldest = (
    select min(seq) from task
    where status = 'queued' and is_cancelled = 0 and lane = turn.lane and account = turn.account
)
where exists (
    select 1 from task
    where status = 'queued' and is_cancelled = 1 and lane = turn.lane and account = turn.account
);

-- Since when a task waits for its present attempt; null of one that an earlier program has queued.
alter table task add column queued_at integer;
