-- The minimisation of a job: time of a step, and how many it took; none where its limit ended it.
alter table speed add column minimise_step_ns integer;
alter table speed add column minimise_steps integer;
-- What jobs took besides had it in it.
update speed set rest_ms = null where kind = 'job';
