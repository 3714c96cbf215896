-- What an account holds, in bytes: the content of its files, pending ones too, and the objects of its tasks. An open
-- task holds what it may come to write; none of a task means that nobody has looked yet. Triggers keep the sum, so that
-- it changes in the transaction of what it counts.
alter table account add column bytes integer not null default 0;
alter table file add column bytes integer not null default 0;
alter table task add column bytes integer;
update file set bytes = coalesce(size, 0);
update account set bytes = (select coalesce(sum(bytes), 0) from file where account = account.id);

create trigger file_made after insert on file when new.bytes <> 0 begin
    update account set bytes = bytes + new.bytes where id = new.account;
end;
create trigger file_changed after update of bytes on file when new.bytes <> old.bytes begin
    update account set bytes = bytes + new.bytes - old.bytes where id = new.account;
end;
create trigger file_deleted after delete on file when old.bytes <> 0 begin
    update account set bytes = bytes - old.bytes where id = old.account;
end;
create trigger task_made after insert on task when new.bytes <> 0 begin
    update account set bytes = bytes + new.bytes where id = new.account;
end;
create trigger task_changed after update of bytes on task when coalesce(new.bytes, 0) <> coalesce(old.bytes, 0) begin
    update account set bytes = bytes + coalesce(new.bytes, 0) - coalesce(old.bytes, 0) where id = new.account;
end;
create trigger task_deleted after delete on task when old.bytes <> 0 begin
    update account set bytes = bytes - old.bytes where id = old.account;
end;

create index task_unmeasured on task (id) where bytes is null;
create index file_pending on file (created_at) where status = 'pending';
