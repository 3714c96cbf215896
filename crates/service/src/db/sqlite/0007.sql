-- What deviations of an analysis are measured from: a job or a system, needed until the analysis has ended. No foreign
-- key to it: the data of an analysis outlives it.
create table task_reference (
    task text primary key references task (id) on delete cascade,
    reference text not null
) without rowid;
create index task_reference_needed on task_reference (reference);
