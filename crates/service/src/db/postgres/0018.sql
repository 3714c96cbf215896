-- As that of SQLite.
alter table served add column rank bigint;

create table turn (
    lane bigint not null,
    account bigint not null references account,
    oldest bigint,
    running bigint not null default 0,
    rank bigint default 0,
    primary key (lane, account)
);
create index turn_idle on turn (lane, rank, oldest)
where oldest is not null and running = 0 and rank is not null;
create index turn_busy on turn (lane, oldest)
where oldest is not null and (running > 0 or rank is null);

insert into turn (lane, account, oldest, running)
select lane, account, min(case when status = 'queued' then seq end), sum((status = 'running')::int)
from task group by lane, account;
insert into turn (lane, account, rank) select lane, account, null from served
on conflict (lane, account) do update set rank = null;

-- Of what an account has queued in a lane, the number of the oldest.
create function oldest_queued(wanted_lane bigint, wanted_account bigint) returns bigint language sql stable as $$
    select min(seq) from task
    where status = 'queued' and lane = wanted_lane and account = wanted_account
$$;

create function keep_turn() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into turn (lane, account, oldest, running)
        values (
            new.lane, new.account, case when new.status = 'queued' then new.seq end, (new.status = 'running')::int
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
create trigger turn_began after insert on task for each row execute function keep_turn();
create trigger turn_changed after update of status on task
    for each row when (new.status <> old.status) execute function keep_turn();
create trigger turn_left after delete on task
    for each row when (old.status in ('queued', 'running')) execute function keep_turn();

create function keep_rank() returns trigger language plpgsql as $$
begin
    insert into turn (lane, account, rank) values (new.lane, new.account, new.rank)
    on conflict (lane, account) do update set rank = excluded.rank;
    return null;
end $$;
create trigger turn_served_first after insert on served for each row execute function keep_rank();
-- An earlier program leaves the rank as it was.
create function forget_rank() returns trigger language plpgsql as $$
begin
    if new.rank is not distinct from old.rank then new.rank := null; end if;
    return new;
end $$;
create trigger served_by_an_earlier_program before update on served
    for each row execute function forget_rank();
create trigger turn_served after update on served for each row execute function keep_rank();
