-- As that of SQLite.
alter table account add column weight bigint not null default 1;
