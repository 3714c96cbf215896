-- As that of SQLite.
create table slot_time (
    account bigint not null references account,
    day bigint not null,
    ms bigint not null,
    primary key (account, day)
);

insert into slot_time
select account, finished_at / 86400000000, cast(sum(finished_at - attempt_at) / 1000 as bigint) from task
where finished_at > attempt_at group by account, finished_at / 86400000000;

alter table account add column most_hours bigint;
