-- Who of an identity provider signs in to which account.
create table identity (
    issuer text not null,
    -- The provider's name for a person, which it gives to nobody else.
    subject text not null,
    account integer not null references account,
    created_at integer not null,
    primary key (issuer, subject)
) without rowid;
