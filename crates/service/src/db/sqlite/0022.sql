-- How long tasks of an account had slots on each day, which are counted from 1970 in UTC.
create table slot_time (
    account integer not null references account,
    day integer not null,
    ms integer not null,
    primary key (account, day)
) without rowid;

-- Of what has ended before it was counted, the last attempt is known.
insert into slot_time
select account, finished_at / 86400000000, sum(finished_at - attempt_at) / 1000 from task
where finished_at > attempt_at group by account, finished_at / 86400000000;

-- How long they may in the days that are counted, in hours; 0 for any time, null for that of the service.
alter table account add column most_hours integer;
