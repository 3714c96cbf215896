-- Whose turn it is, kept as it changes: to look at every account that waits took as long as there were accounts.

-- By which accounts of whom nothing runs are in the order of what they were served, at any time; null when an
-- earlier program served last.
alter table served add column rank integer;

-- Of every account that has or had a task in a lane.
create table turn (
    lane integer not null,
    account integer not null references account,
    -- Number of the oldest task that is queued.
    oldest integer,
    running integer not null default 0,
    -- That of `served`; 0 for one that was never served.
    rank integer default 0,
    primary key (lane, account)
) without rowid;
create index turn_idle on turn (lane, rank, oldest)
where oldest is not null and running = 0 and rank is not null;
create index turn_busy on turn (lane, oldest)
where oldest is not null and (running > 0 or rank is null);

insert into turn (lane, account, oldest, running)
select lane, account, min(case when status = 'queued' then seq end), sum(status = 'running')
from task group by lane, account;
insert into turn (lane, account, rank) select lane, account, null from served where true
on conflict do update set rank = null;

create trigger turn_began after insert on task begin
    insert into turn (lane, account, oldest, running)
    values (new.lane, new.account, case when new.status = 'queued' then new.seq end, new.status = 'running')
    on conflict do update set
        oldest = min(coalesce(oldest, excluded.oldest), coalesce(excluded.oldest, oldest)),
        running = running + excluded.running;
end;
create trigger turn_changed after update of status on task when old.status <> new.status begin
    update turn set
        oldest = (
            select min(seq) from task
            where status = 'queued' and lane = new.lane and account = new.account
        ),
        running = running + (new.status = 'running') - (old.status = 'running')
    where lane = new.lane and account = new.account;
end;
create trigger turn_left after delete on task when old.status in ('queued', 'running') begin
    update turn set
        oldest = (
            select min(seq) from task
            where status = 'queued' and lane = old.lane and account = old.account
        ),
        running = running - (old.status = 'running')
    where lane = old.lane and account = old.account;
end;
create trigger turn_served_first after insert on served begin
    insert into turn (lane, account, rank) values (new.lane, new.account, new.rank)
    on conflict do update set rank = excluded.rank;
end;
create trigger turn_served after update on served begin
    -- An earlier program leaves the rank as it was.
    insert into turn (lane, account, rank)
    values (new.lane, new.account, case when new.rank is not old.rank then new.rank end)
    on conflict do update set rank = excluded.rank;
end;
