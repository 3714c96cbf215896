-- The object that holds a file's content. Each upload has one of its own, which never changes: what was
-- checked when the file was registered is what is served. It is the last that arrived while the file is
-- pending, and stays once it is ready.
alter table file add column object text;
-- Content used to have the name of its file. Whether a pending one has any is seen when it is registered.
update file set object = 'files/' || id;

-- JSON: warnings about the request itself. What a task noticed while it ran stands in its outcome.
alter table file add column warnings text not null default '[]';
alter table task add column warnings text not null default '[]';

-- Headers of the answer, JSON: pairs of name and value.
alter table idempotency add column headers text not null default '[["content-type","application/json"]]';
update idempotency
set headers = json_extract(body, '$.headers'), body = json_extract(body, '$.body')
where operation = 'margin_submit';
