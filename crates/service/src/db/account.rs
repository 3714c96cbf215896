//! Accounts and their keys.

use std::fmt;

use jiff::Timestamp;
use molbox::workflow::types;

use super::audit::note;
use super::task::cancel_all;
use super::words::is_open;
use super::{Db, Deed, Result, Row, Scope, SessionRow, Tx, values};
use crate::record::Role;

/// A key with its account, as a request finds it.
#[derive(Clone, Debug)]
pub(crate) struct KeyRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) hash: [u8; 32],
    pub(crate) account: i64,
    pub(crate) account_name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
    pub(crate) last_used_at: Option<Timestamp>,
    pub(crate) account_disabled_at: Option<Timestamp>,
}

/// A key to be made.
pub(crate) struct NewKey {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) hash: [u8; 32],
    pub(crate) expires_at: Option<Timestamp>,
}

/// Why a key was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// The session has ended, or its account is disabled.
    SignedOut,
    /// The account has as many as it may.
    TooMany,
}

/// What an account uses of what it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) open_tasks: i64,
    /// Also those that wait for their content.
    pub(crate) files: i64,
    pub(crate) bytes: i64,
    /// Limits of its own; none where those of the service hold.
    pub(crate) most_open_tasks: Option<i64>,
    pub(crate) most_bytes: Option<i64>,
    pub(crate) most_hours: Option<i64>,
}

/// An account, as those who manage it see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) created_at: Timestamp,
    pub(crate) disabled_at: Option<Timestamp>,
    pub(crate) has_password: bool,
    /// When its invitation expires, if it has one.
    pub(crate) invited_until: Option<Timestamp>,
    pub(crate) used: Used,
    /// How much of the machine it has beside others.
    pub(crate) weight: i64,
}

impl AccountRow {
    fn is_good_admin(&self) -> bool {
        self.role == Role::Admin && self.disabled_at.is_none()
    }
}

/// Why an account was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unchanged {
    /// There is none of this name.
    NotFound,
    /// Nobody would be left who manages accounts.
    LastAdmin,
}

impl fmt::Display for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "there is no account of this name",
            Self::LastAdmin => "no administrator would be left; make or enable another one first",
        })
    }
}

const KEY: &str = "
    select api_key.id, api_key.name, hash, account, account.name, api_key.created_at, expires_at,
           revoked_at, last_used_at, disabled_at
    from api_key join account on account.id = api_key.account";

fn key_row(row: &Row<'_>) -> Result<KeyRow> {
    Ok(KeyRow {
        id: row.get(0)?,
        name: row.get(1)?,
        hash: row.get(2)?,
        account: row.get(3)?,
        account_name: row.get(4)?,
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
        revoked_at: row.get(7)?,
        last_used_at: row.get(8)?,
        account_disabled_at: row.get(9)?,
    })
}

/// What every account uses and may, and what else there is to say about it.
fn accounts() -> String {
    format!(
        "select (select count(*) from task where account = account.id and {} and lane in (0, 1)),
                (select count(*) from file where account = account.id),
                bytes, most_open_tasks, most_bytes, most_hours, id, name, role, created_at, disabled_at,
                password is not null, invitation_expires_at, weight
         from account",
        is_open()
    )
}

fn used(row: &Row<'_>) -> Result<Used> {
    Ok(Used {
        open_tasks: row.get(0)?,
        files: row.get(1)?,
        bytes: row.get(2)?,
        most_open_tasks: row.get(3)?,
        most_bytes: row.get(4)?,
        most_hours: row.get(5)?,
    })
}

fn account_row(row: &Row<'_>) -> Result<AccountRow> {
    Ok(AccountRow {
        id: row.get(6)?,
        name: row.get(7)?,
        role: row.get(8)?,
        created_at: row.get(9)?,
        disabled_at: row.get(10)?,
        has_password: row.get(11)?,
        invited_until: row.get(12)?,
        used: used(row)?,
        weight: row.get(13)?,
    })
}

fn named(tx: &Tx<'_>, name: &str) -> Result<Option<AccountRow>> {
    tx.first(&format!("{} where name = ?1", accounts()), values![name], account_row)
}

/// Notes a change of one row; whether there was any.
fn noted(tx: &Tx<'_>, changed: usize, deed: &Deed, subject: &str) -> Result<bool> {
    if changed == 1 {
        note(tx, deed, subject)?;
    }
    Ok(changed == 1)
}

/// Makes a key for the account of this name; false when there is none.
fn insert_key(tx: &Tx<'_>, account: &str, key: &NewKey, deed: &Deed) -> Result<bool> {
    let sql = "
        insert into api_key (id, account, name, hash, created_at, expires_at)
        select ?1, id, ?2, ?3, ?4, ?5 from account where name = ?6";
    let NewKey { id, name, hash, expires_at } = key;
    let made = tx.execute(sql, values![id, name, hash, deed.at, expires_at, account])?;
    noted(tx, made, deed, id)
}

/// Writes what has changed of an account, and notes it.
fn store(tx: &Tx<'_>, before: &AccountRow, after: &AccountRow, deed: &Deed) -> Result<()> {
    let AccountRow { id, role, disabled_at, used, .. } = after;
    let sql = "
        update account
        set role = ?1, disabled_at = ?2, most_open_tasks = ?3, most_bytes = ?4, most_hours = ?5
        where id = ?6";
    let Used { most_open_tasks, most_bytes, most_hours, .. } = used;
    tx.execute(sql, values![role, disabled_at, most_open_tasks, most_bytes, most_hours, id])?;
    let (was_disabled, is_disabled) = (before.disabled_at.is_some(), disabled_at.is_some());
    if is_disabled && !was_disabled {
        cancel_all(tx, *id, deed.at)?;
        tx.execute("delete from session where account = ?1", values![id])?;
        let sql = "
            update account set invitation = null, invitation_expires_at = null where id = ?1";
        tx.execute(sql, values![id])?;
    }
    let limits = |used: &Used| (used.most_open_tasks, used.most_bytes, used.most_hours);
    let actions = [
        ("account_disable", is_disabled && !was_disabled),
        ("account_enable", was_disabled && !is_disabled),
        ("account_make_admin", *role == Role::Admin && before.role != Role::Admin),
        ("account_make_user", *role == Role::User && before.role != Role::User),
        ("account_limit", limits(used) != limits(&before.used)),
    ];
    for (action, is_done) in actions {
        if is_done {
            note(tx, &Deed { action, ..deed.clone() }, &after.name)?;
        }
    }
    Ok(())
}

impl Db {
    /// Makes an account; none when there is one of this name.
    pub(crate) async fn create_account(
        &self,
        name: String,
        role: Role,
        deed: Deed,
    ) -> Result<Option<AccountRow>> {
        self.write(Scope::Rows, move |tx| {
            let sql = "
                insert into account (name, role, created_at) values (?1, ?2, ?3)
                on conflict do nothing";
            let made = tx.execute(sql, values![name, role, deed.at])?;
            if noted(tx, made, &deed, &name)? { named(tx, &name) } else { Ok(None) }
        })
        .await
    }

    /// So many accounts, newest first, of those before the one with this number.
    pub(crate) async fn accounts(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AccountRow>> {
        let sql = format!(
            "{} where id < coalesce(?1, 9223372036854775807) order by id desc limit ?2",
            accounts()
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(|tx| tx.all(&sql, values![before, limit], account_row)).await
    }

    /// How many accounts there are.
    pub(crate) async fn n_accounts(&self) -> Result<i64> {
        self.read(|tx| tx.one("select count(*) from account", &[], |row| row.get(0))).await
    }

    /// The accounts that hold most, and what they hold.
    pub(crate) async fn largest_accounts(&self, limit: i64) -> Result<Vec<(String, i64)>> {
        let sql = "
            select name, bytes from account where bytes > 0 order by bytes desc, id limit ?1";
        self.read(|tx| tx.all(sql, values![limit], |row| Ok((row.get(0)?, row.get(1)?)))).await
    }

    /// What an account uses of what it may.
    pub(crate) async fn used(&self, account: i64) -> Result<Used> {
        let sql = format!("{} where id = ?1", accounts());
        self.read(|tx| tx.one(&sql, values![account], used)).await
    }

    /// Changes an account. One that is disabled loses its sessions and its invitation, and what it
    /// has open is cancelled. Each change is an entry of the audit log, `account_disable` for
    /// example.
    pub(crate) async fn change_account(
        &self,
        name: String,
        change: types::AccountChange,
        deed: Deed,
    ) -> Result<Result<AccountRow, Unchanged>> {
        self.write_also_when_full(Scope::Accounts, move |tx| {
            let Some(before) = named(tx, &name)? else { return Ok(Err(Unchanged::NotFound)) };
            tx.lock(Scope::Account(before.id))?;
            let mut after = before.clone();
            if let Some(role) = change.role {
                after.role = role.into();
            }
            if let Some(is_disabled) = change.disabled {
                let since = before.disabled_at.unwrap_or(deed.at);
                after.disabled_at = is_disabled.then_some(since);
            }
            if let Some(types::AccountLimits { open_tasks, bytes, hours }) = &change.limits {
                let own =
                    |limit: &Option<u64>| limit.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
                after.used.most_open_tasks = own(open_tasks);
                after.used.most_bytes = own(bytes);
                after.used.most_hours = own(hours);
            }
            if before.is_good_admin() && !after.is_good_admin() {
                let sql =
                    "select 1 from account where role = ?1 and disabled_at is null and id <> ?2";
                if !tx.exists(sql, values![Role::Admin, before.id])? {
                    return Ok(Err(Unchanged::LastAdmin));
                }
            }
            store(tx, &before, &after, &deed)?;
            Ok(Ok(named(tx, &name)?.expect("it was just changed")))
        })
        .await
    }

    /// An account by its name.
    pub(crate) async fn account(&self, name: &str) -> Result<Option<AccountRow>> {
        self.read(|tx| named(tx, name)).await
    }

    /// Gives an account a weight; false when there is no such account.
    pub(crate) async fn weigh_account(
        &self,
        name: String,
        weight: i64,
        deed: Deed,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let changed = tx
                .execute("update account set weight = ?1 where name = ?2", values![weight, name])?;
            noted(tx, changed, &deed, &name)
        })
        .await
    }

    /// Makes a key of an account; false when there is no such account.
    pub(crate) async fn create_key(
        &self,
        account: String,
        key: NewKey,
        deed: Deed,
    ) -> Result<bool> {
        self.write(Scope::Rows, move |tx| insert_key(tx, &account, &key, &deed)).await
    }

    /// Makes a key for who has signed in, whose account may have so many good ones.
    pub(crate) async fn create_key_in_session(
        &self,
        session: SessionRow,
        key: NewKey,
        most: usize,
        deed: Deed,
    ) -> Result<Result<(), NoKey>> {
        self.write(Scope::Account(session.account), move |tx| {
            let sql = "
                select 1 from session join account on account.id = session.account
                where session.id = ?1 and account.id = ?2 and disabled_at is null";
            if !tx.exists(sql, values![session.id, session.account])? {
                return Ok(Err(NoKey::SignedOut));
            }
            let sql = "
                select count(*) from api_key
                where account = ?1 and revoked_at is null
                    and (expires_at is null or expires_at > ?2)";
            let good: Option<i64> =
                tx.first(sql, values![session.account, deed.at], |row| row.get(0))?;
            if good.is_some_and(|good| good >= most as i64) {
                return Ok(Err(NoKey::TooMany));
            }
            insert_key(tx, &session.account_name, &key, &deed)?;
            Ok(Ok(()))
        })
        .await
    }

    /// The key with this public identifier.
    pub(crate) async fn key(&self, id: &str) -> Result<Option<KeyRow>> {
        let sql = format!("{KEY} where api_key.id = ?1");
        self.read(|tx| tx.first(&sql, values![id], key_row)).await
    }

    /// All keys of an account, oldest first.
    pub(crate) async fn keys(&self, account: &str) -> Result<Vec<KeyRow>> {
        let sql = format!("{KEY} where account.name = ?1 order by api_key.created_at");
        self.read(|tx| tx.all(&sql, values![account], key_row)).await
    }

    /// Revokes a key for good; false when there is none with this identifier, of this account if
    /// one is given.
    pub(crate) async fn revoke_key(
        &self,
        id: String,
        account: Option<i64>,
        deed: Deed,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let sql = "
                update api_key set revoked_at = coalesce(revoked_at, ?1)
                where id = ?2 and account = coalesce(?3, account)
                returning (select name from account where account.id = api_key.account)";
            let name: Option<String> =
                tx.first(sql, values![deed.at, id, account], |row| row.get(0))?;
            let changed = usize::from(name.is_some());
            noted(tx, changed, &Deed { account: name, ..deed }, &id)
        })
        .await
    }

    /// Notes that a key was used.
    pub(crate) async fn touch_key(&self, id: String, now: Timestamp) -> Result<()> {
        self.write(Scope::Rows, move |tx| {
            tx.execute("update api_key set last_used_at = ?1 where id = ?2", values![now, id])
                .map(drop)
        })
        .await
    }
}
