-- People sign in: with a password, which an invitation lets them choose, for a session.
alter table account add column role text not null default 'user' check (role in ('user', 'admin'));
-- A PHC string: a slow hash with its salt and its parameters.
alter table account add column password text;
-- SHA-256 of the token of an invitation that has not been accepted.
alter table account add column invitation blob;
alter table account add column invitation_expires_at integer;
create table session (
    id text primary key,
    account integer not null references account,
    -- SHA-256 of the token that the browser has.
    hash blob not null unique,
    created_at integer not null,
    seen_at integer not null,
    -- At the latest; before, if it is not used.
    expires_at integer not null,
    browser text not null,
    address text
) without rowid;
create index session_list on session (account, created_at, id);
