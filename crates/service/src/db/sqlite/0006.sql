-- Who made, changed, revoked, downloaded and deleted what. Names, not references: an entry outlives what it is about.
-- Never keys, their secrets, or contents.
create table audit (
    seq integer primary key autoincrement,
    at integer not null,
    -- The account whose key did it, or to which a command did it.
    account text,
    -- Public part of the key; none for an upload link, a command, and the service itself.
    key text,
    -- The user of this machine who gave the command; `molboxd` for the service itself.
    operator text,
    -- Where the request came from.
    address text,
    -- The `x-request-id` of the answer, with which the log has it.
    request text,
    action text not null,
    -- Identifier of what it was done to.
    subject text not null
);
