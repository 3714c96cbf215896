-- As that of SQLite.
create or replace function oldest_queued(wanted_lane bigint, wanted_account bigint) returns bigint language sql stable as $$
    select min(seq) from task
    where status = 'queued' and is_cancelled = 0 and lane = wanted_lane and account = wanted_account
$$;

create or replace function keep_turn() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into turn (lane, account, oldest, running)
        values (
            new.lane, new.account, case when new.status = 'queued' and new.is_cancelled = 0 then new.seq end,
            (new.status = 'running')::int
        )
        on conflict (lane, account) do update set
            oldest = least(turn.oldest, excluded.oldest), running = turn.running + excluded.running;
    elsif tg_op = 'UPDATE' then
        update turn set
            oldest = oldest_queued(new.lane, new.account),
            running = running + (new.status = 'running')::int - (old.status = 'running')::int
        where lane = new.lane and account = new.account;
    else
        update turn set
            oldest = oldest_queued(old.lane, old.account), running = running - (old.status = 'running')::int
        where lane = old.lane and account = old.account;
    end if;
    return null;
end $$;
drop trigger turn_changed on task;
create trigger turn_changed after update of status, is_cancelled on task
    for each row when (new.status <> old.status or new.is_cancelled <> old.is_cancelled) execute function keep_turn();
update turn set oldest = oldest_queued(lane, account)
where (lane, account) in (select lane, account from task where status = 'queued' and is_cancelled = 1);

alter table task add column queued_at bigint;
