//! Sessions of people who have signed in, and how they come to have one.

use jiff::Timestamp;

use super::audit::note;
use super::{Db, Deed, Result, Row, Scope, Tx, values};
use crate::record::Role;

/// A session with its account, as a request finds it.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub(crate) id: String,
    pub(crate) account: i64,
    pub(crate) account_name: String,
    pub(crate) role: Role,
    pub(crate) created_at: Timestamp,
    pub(crate) seen_at: Timestamp,
    /// At the latest.
    pub(crate) expires_at: Timestamp,
    pub(crate) account_disabled_at: Option<Timestamp>,
}

/// A session to be made.
#[derive(Clone)]
pub(crate) struct NewSession {
    pub(crate) id: String,
    pub(crate) hash: [u8; 32],
    pub(crate) expires_at: Timestamp,
    /// What the browser says it is.
    pub(crate) browser: String,
    pub(crate) address: Option<String>,
}

/// An account, as one who signs in names it.
pub(crate) struct Named {
    pub(crate) account: i64,
    /// A PHC string; none when none was chosen yet.
    pub(crate) password: Option<String>,
}

/// An invitation that can be accepted.
pub(crate) struct Invited {
    /// Its name.
    pub(crate) account: String,
    pub(crate) expires_at: Timestamp,
}

const SESSION: &str = "
    select session.id, account, account.name, role, session.created_at, seen_at,
           session.expires_at, disabled_at
    from session join account on account.id = session.account";

fn session_row(row: &Row<'_>) -> Result<SessionRow> {
    Ok(SessionRow {
        id: row.get(0)?,
        account: row.get(1)?,
        account_name: row.get(2)?,
        role: row.get(3)?,
        created_at: row.get(4)?,
        seen_at: row.get(5)?,
        expires_at: row.get(6)?,
        account_disabled_at: row.get(7)?,
    })
}

/// A session as its owner is shown it.
pub(crate) struct SeenSession {
    pub(crate) row: SessionRow,
    pub(crate) browser: String,
    pub(crate) address: Option<String>,
}

/// Somebody, as an identity provider knows them.
pub(crate) struct Identity {
    pub(crate) issuer: String,
    /// The provider's name for a person, which it gives to nobody else.
    pub(crate) subject: String,
}

/// Who was unlinked from an account.
pub(crate) struct Unlinked {
    pub(crate) identities: Vec<Identity>,
    /// Whether the account has a password, or somebody else who is linked to it.
    pub(crate) has_way_in: bool,
}

/// Why nobody was unlinked from an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLinked {
    /// There is none of this name.
    NoAccount,
    Nobody,
}

/// Why somebody whom an identity provider knows was not signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unadmitted {
    /// Without an account, and not to get one.
    Unknown,
    Disabled,
}

/// Why an account was not invited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uninvited {
    /// There is none of this name.
    NotFound,
    Disabled,
}

fn named(row: &Row<'_>) -> Result<Named> {
    Ok(Named { account: row.get(0)?, password: row.get(1)? })
}

fn invited(row: &Row<'_>) -> Result<Invited> {
    Ok(Invited { account: row.get(0)?, expires_at: row.get(1)? })
}

/// Sessions that an account may have at a time.
const MOST: i64 = 100;

/// Makes a session, ends the oldest where an account has too many, and notes it.
fn start(tx: &Tx<'_>, account: i64, session: &NewSession, deed: &Deed) -> Result<SessionRow> {
    let NewSession { id, hash, expires_at, browser, address } = session;
    let sql = "
        insert into session (id, account, hash, created_at, seen_at, expires_at, browser, address)
        values (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)";
    tx.execute(sql, values![id, account, hash, deed.at, expires_at, browser, address])?;
    // Not the new one, whatever the clock did.
    let sql = "
        delete from session where account = ?1 and id <> ?2 and id not in (
            select id from session where account = ?1 and id <> ?2
            order by created_at desc, id desc limit ?3
        )";
    tx.execute(sql, values![account, id, MOST - 1])?;
    let row = tx.one(&format!("{SESSION} where session.id = ?1"), values![id], session_row)?;
    let deed = Deed { account: Some(row.account_name.clone()), ..deed.clone() };
    note(tx, &deed, id)?;
    Ok(row)
}

/// Makes an account of this name, or the first free one of it with a number; never an account that
/// is there.
fn create_free(tx: &Tx<'_>, name: &str, deed: &Deed) -> Result<i64> {
    let mut free = name.to_owned();
    for number in 2.. {
        let sql = "
            insert into account (name, role, created_at) values (?1, ?2, ?3)
            on conflict do nothing returning id";
        if let Some(account) =
            tx.first(sql, values![free, Role::User, deed.at], |row| row.get(0))?
        {
            let deed =
                Deed { account: Some(free.clone()), action: "account_create", ..deed.clone() };
            note(tx, &deed, &free)?;
            return Ok(account);
        }
        free = format!("{name}-{number}");
    }
    unreachable!("there are fewer accounts than numbers")
}

fn link(tx: &Tx<'_>, identity: &Identity, account: i64, at: Timestamp) -> Result<()> {
    let sql = "
        insert into identity (issuer, subject, account, created_at) values (?1, ?2, ?3, ?4)
        on conflict (issuer, subject) do update set account = ?3, created_at = ?4";
    let Identity { issuer, subject } = identity;
    tx.execute(sql, values![issuer, subject, account, at]).map(drop)
}

impl Db {
    /// Has an account be taken by who has a token with this SHA-256; an earlier invitation ends.
    pub(crate) async fn invite(
        &self,
        name: String,
        token: [u8; 32],
        expires_at: Timestamp,
        deed: Deed,
    ) -> Result<Result<(), Uninvited>> {
        self.write(Scope::Rows, move |tx| {
            let sql = "
                update account set invitation = ?1, invitation_expires_at = ?2
                where name = ?3 and disabled_at is null";
            if tx.execute(sql, values![token, expires_at, name])? == 1 {
                note(tx, &deed, &name)?;
                return Ok(Ok(()));
            }
            let is_there = tx.exists("select 1 from account where name = ?1", values![name])?;
            Ok(Err(if is_there { Uninvited::Disabled } else { Uninvited::NotFound }))
        })
        .await
    }

    /// The account of this name, unless it is disabled.
    pub(crate) async fn account_named(&self, name: &str) -> Result<Option<Named>> {
        let sql = "select id, password from account where disabled_at is null and name = ?1";
        self.read(|tx| tx.first(sql, values![name], named)).await
    }

    /// The invitation of the token with this SHA-256, unless it is not good any more.
    pub(crate) async fn invited(&self, token: [u8; 32], now: Timestamp) -> Result<Option<Invited>> {
        let sql = "
            select name, invitation_expires_at from account
            where disabled_at is null and invitation = ?1 and invitation_expires_at > ?2";
        self.read(|tx| tx.first(sql, values![token, now], invited)).await
    }

    /// Gives the account that is invited a password and a session, ends those that it had, and the
    /// invitation; none when it is not good any more.
    pub(crate) async fn accept_invitation(
        &self,
        token: [u8; 32],
        password: String,
        session: NewSession,
        deed: Deed,
    ) -> Result<Option<SessionRow>> {
        self.write(Scope::Rows, move |tx| {
            let sql = "select id from account where invitation = ?1";
            let account: Option<i64> = tx.first(sql, values![token], |row| row.get(0))?;
            let Some(account) = account else { return Ok(None) };
            // A session that is begun by the password of before is there by then, or is not begun.
            tx.lock(Scope::Account(account))?;
            let sql = "
                update account
                set password = ?1, invitation = null, invitation_expires_at = null
                where invitation = ?2 and invitation_expires_at > ?3 and disabled_at is null
                returning id";
            let account: Option<i64> =
                tx.first(sql, values![password, token, deed.at], |row| row.get(0))?;
            let Some(account) = account else { return Ok(None) };
            tx.execute("delete from session where account = ?1", values![account])?;
            start(tx, account, &session, &deed).map(Some)
        })
        .await
    }

    /// Signs in to an account whose password is still this one; none when it is not, or the
    /// account is disabled.
    pub(crate) async fn start_session(
        &self,
        account: i64,
        password: String,
        session: NewSession,
        deed: Deed,
    ) -> Result<Option<SessionRow>> {
        self.write(Scope::Account(account), move |tx| {
            let sql = "
                select 1 from account where id = ?1 and password = ?2 and disabled_at is null";
            if !tx.exists(sql, values![account, password])? {
                return Ok(None);
            }
            start(tx, account, &session, &deed).map(Some)
        })
        .await
    }

    /// Signs in somebody whom an identity provider knows. One who is not known here gets an account
    /// of the name that is given, with a number if it is taken; without a name, none.
    pub(crate) async fn start_session_of(
        &self,
        identity: Identity,
        newcomer: Option<String>,
        session: NewSession,
        deed: Deed,
    ) -> Result<Result<SessionRow, Unadmitted>> {
        self.write(Scope::Accounts, move |tx| {
            let sql = "
                select account, disabled_at is not null
                from identity join account on account.id = account
                where issuer = ?1 and subject = ?2";
            let Identity { issuer, subject } = &identity;
            let known: Option<(i64, bool)> =
                tx.first(sql, values![issuer, subject], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let account = match (known, &newcomer) {
                (Some((_, true)), _) => return Ok(Err(Unadmitted::Disabled)),
                (Some((account, false)), _) => account,
                (None, None) => return Ok(Err(Unadmitted::Unknown)),
                (None, Some(name)) => {
                    let account = create_free(tx, name, &deed)?;
                    link(tx, &identity, account, deed.at)?;
                    account
                }
            };
            start(tx, account, &session, &deed).map(Ok)
        })
        .await
    }

    /// Has somebody whom an identity provider knows sign in to the account of this name; false when
    /// there is none. Whichever account they had before keeps what it has.
    pub(crate) async fn link_identity(
        &self,
        name: String,
        identity: Identity,
        deed: Deed,
    ) -> Result<bool> {
        self.write(Scope::Accounts, move |tx| {
            let sql = "select id from account where name = ?1";
            let account: Option<i64> = tx.first(sql, values![name], |row| row.get(0))?;
            let Some(account) = account else { return Ok(false) };
            link(tx, &identity, account, deed.at)?;
            note(tx, &deed, &identity.subject)?;
            Ok(true)
        })
        .await
    }

    /// Has nobody whom an identity provider knows sign in to the account of this name any more, or
    /// nobody of this subject; the sessions of the account end, of which nobody knows how they
    /// began.
    pub(crate) async fn unlink_identities(
        &self,
        name: String,
        subject: Option<String>,
        deed: Deed,
    ) -> Result<Result<Unlinked, NotLinked>> {
        self.write(Scope::Accounts, move |tx| {
            let sql = "select id, password is not null from account where name = ?1";
            let found: Option<(i64, bool)> =
                tx.first(sql, values![name], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((account, has_password)) = found else {
                return Ok(Err(NotLinked::NoAccount));
            };
            let sql = "
                select issuer, subject from identity
                where account = ?1 and subject = coalesce(?2, subject) order by issuer, subject";
            let identities = tx.all(sql, values![account, subject], |row| {
                Ok(Identity { issuer: row.get(0)?, subject: row.get(1)? })
            })?;
            if identities.is_empty() {
                return Ok(Err(NotLinked::Nobody));
            }
            for Identity { issuer, subject } in &identities {
                let sql = "delete from identity where issuer = ?1 and subject = ?2";
                tx.execute(sql, values![issuer, subject])?;
                note(tx, &deed, subject)?;
            }
            tx.execute("delete from session where account = ?1", values![account])?;
            let sql = "select 1 from identity where account = ?1";
            let has_way_in = has_password || tx.exists(sql, values![account])?;
            Ok(Ok(Unlinked { identities, has_way_in }))
        })
        .await
    }

    /// The session whose token has this SHA-256.
    pub(crate) async fn session_of(&self, token: [u8; 32]) -> Result<Option<SessionRow>> {
        let sql = format!("{SESSION} where hash = ?1");
        self.read(|tx| tx.first(&sql, values![token], session_row)).await
    }

    /// The session with this identifier.
    pub(crate) async fn session(&self, id: &str) -> Result<Option<SessionRow>> {
        let sql = format!("{SESSION} where session.id = ?1");
        self.read(|tx| tx.first(&sql, values![id], session_row)).await
    }

    /// All sessions of an account, oldest first; also such as were not used for too long.
    pub(crate) async fn sessions(&self, account: i64) -> Result<Vec<SeenSession>> {
        let sql = "
            select session.id, account, account.name, role, session.created_at, seen_at,
                   session.expires_at, disabled_at, browser, address
            from session join account on account.id = session.account
            where account = ?1 order by session.created_at, session.id";
        self.read(|tx| {
            tx.all(sql, values![account], |row| {
                let (browser, address) = (row.get(8)?, row.get(9)?);
                Ok(SeenSession { row: session_row(row)?, browser, address })
            })
        })
        .await
    }

    /// Changes the password of an account when it still is `kept`, ends its sessions but the one
    /// that does it, and its invitation; false when the password has changed meanwhile, or the
    /// session has ended.
    pub(crate) async fn change_password(
        &self,
        session: SessionRow,
        kept: String,
        password: String,
        deed: Deed,
    ) -> Result<bool> {
        self.write(Scope::Account(session.account), move |tx| {
            let sql = "
                update account
                set password = ?1, invitation = null, invitation_expires_at = null
                where id = ?2 and password = ?3 and disabled_at is null
                    and exists (select 1 from session where id = ?4 and account = ?2)";
            let (account, id) = (session.account, session.id);
            if tx.execute(sql, values![password, account, kept, id])? == 0 {
                return Ok(false);
            }
            let sql = "delete from session where account = ?1 and id <> ?2";
            tx.execute(sql, values![account, id])?;
            note(tx, &deed, &session.account_name)?;
            Ok(true)
        })
        .await
    }

    /// Ends a session of an account; false when there is none with this identifier.
    pub(crate) async fn end_session(&self, account: i64, id: String, deed: Deed) -> Result<bool> {
        self.write_also_when_full(Scope::Account(account), move |tx| {
            let sql = "delete from session where account = ?1 and id = ?2";
            let ended = tx.execute(sql, values![account, id])?;
            if ended == 1 {
                note(tx, &deed, &id)?;
            }
            Ok(ended == 1)
        })
        .await
    }

    /// Forgets sessions that have expired, so many at most; whether there may be more.
    pub(crate) async fn forget_sessions(&self, now: Timestamp, limit: usize) -> Result<bool> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let sql = "
                delete from session where id in
                    (select id from session where expires_at <= ?1 limit ?2)";
            Ok(tx.execute(sql, values![now, limit as i64])? == limit)
        })
        .await
    }

    /// Notes that a session was used.
    pub(crate) async fn touch_session(&self, id: String, now: Timestamp) -> Result<()> {
        self.write(Scope::Rows, move |tx| {
            tx.execute("update session set seen_at = ?1 where id = ?2", values![now, id]).map(drop)
        })
        .await
    }
}
