-- How much of the machine an account has beside others: the time that its tasks have slots counts divided by it.
alter table account add column weight integer not null default 1;
