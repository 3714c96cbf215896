-- Layouts of bundles apart from their tasks: they are the most of what a task says, and a page of tasks would read past
-- each of them.
create table bundle (
    task text primary key references task (id) on delete cascade,
    -- JSON.
    layout text not null
);
insert into bundle (task, layout) select id, bundle from task where bundle is not null;
alter table task drop column bundle;
