-- How long accounts had slots of a lane, in milliseconds as they counted at a time: who was served least is next.
create table served (
    account integer not null references account (id),
    lane integer not null,
    ms integer not null,
    at integer not null,
    primary key (account, lane)
) without rowid;
-- When a task last got a slot.
alter table task add column attempt_at integer;
