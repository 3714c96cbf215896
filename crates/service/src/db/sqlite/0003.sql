-- Attempts in a row that brought a task no further, through a fault of its own or of the program: what makes
-- it count as failed. Attempts that committed something, or ended with the machine, are none.
alter table task add column fruitless integer not null default 0;
