-- Limits of an account's own, in place of those of the configuration; 0 is no limit.
alter table account add column most_open_tasks integer;
alter table account add column most_bytes integer;
