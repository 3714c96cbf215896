-- How fast tasks were, from which the time of others is estimated. No foreign key: a measurement outlives its task.
create table speed (
    task text primary key,
    kind text not null,
    -- OpenMM's; empty for the build of a system.
    platform text not null,
    threads integer not null,
    atoms integer not null,
    cutoff_pm integer not null,
    -- Of a step of dynamics.
    step_ns integer,
    -- What it took besides, and all that a build took.
    rest_ms integer,
    at integer not null
) without rowid;
create index speed_newest on speed (kind, at);
