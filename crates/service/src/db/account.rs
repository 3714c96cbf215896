//! Accounts and their keys.

use jiff::Timestamp;

use super::audit::note;
use super::words::is_open;
use super::{Db, Deed, Result, Row, Tx, values};
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

/// More than an account may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverQuota {
    /// What it holds, in bytes.
    pub(crate) held: u64,
}

/// Refuses what would have an account hold more than `max` bytes; 0 is no limit. What adds nothing
/// yet is refused when there is no room for anything.
pub(super) fn has_quota(
    tx: &Tx<'_>,
    account: i64,
    added: i64,
    max: u64,
) -> Result<Result<(), OverQuota>> {
    let sql = "select bytes from account where id = ?1";
    let held: i64 = tx.one(sql, values![account], |row| row.get(0))?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let is_over = max > 0 && held.saturating_add(added.max(1)) > max;
    Ok(if is_over { Err(OverQuota { held: held.unsigned_abs() }) } else { Ok(()) })
}

/// What an account uses of what it may.
pub(crate) struct Used {
    pub(crate) open_tasks: i64,
    /// Also those that wait for their content.
    pub(crate) files: i64,
    pub(crate) bytes: i64,
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

/// Notes a change of one row; whether there was any.
fn noted(tx: &Tx<'_>, changed: usize, deed: &Deed, subject: &str) -> Result<bool> {
    if changed == 1 {
        note(tx, deed, subject)?;
    }
    Ok(changed == 1)
}

impl Db {
    /// Makes an account; false when there is one of this name.
    pub(crate) async fn create_account(
        &self,
        name: String,
        role: Role,
        deed: Deed,
    ) -> Result<bool> {
        self.write(move |tx| {
            let sql = "
                insert into account (name, role, created_at) values (?1, ?2, ?3)
                on conflict do nothing";
            let made = tx.execute(sql, values![name, role, deed.at])?;
            noted(tx, made, &deed, &name)
        })
        .await
    }

    /// Every account: name, when made, when disabled.
    pub(crate) async fn accounts(&self) -> Result<Vec<(String, Timestamp, Option<Timestamp>)>> {
        self.read(|tx| {
            let sql = "select name, created_at, disabled_at from account order by name";
            tx.all(sql, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        })
        .await
    }

    /// What an account uses of what it may.
    pub(crate) async fn used(&self, account: i64) -> Result<Used> {
        let sql = format!(
            "select (select count(*) from task where account = ?1 and {} and lane in (0, 1)),
                    (select count(*) from file where account = ?1), bytes
             from account where id = ?1",
            is_open()
        );
        self.read(|tx| {
            tx.one(&sql, values![account], |row| {
                Ok(Used { open_tasks: row.get(0)?, files: row.get(1)?, bytes: row.get(2)? })
            })
        })
        .await
    }

    /// Disables an account for good; false when there is none of this name.
    pub(crate) async fn disable_account(&self, name: String, deed: Deed) -> Result<bool> {
        self.write_also_when_full(move |tx| {
            let sql = "update account set disabled_at = coalesce(disabled_at, ?1) where name = ?2";
            let disabled = tx.execute(sql, values![deed.at, name])?;
            noted(tx, disabled, &deed, &name)
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
        self.write(move |tx| {
            let sql = "
                insert into api_key (id, account, name, hash, created_at, expires_at)
                select ?1, id, ?2, ?3, ?4, ?5 from account where name = ?6";
            let made = tx.execute(
                sql,
                values![key.id, key.name, key.hash, deed.at, key.expires_at, account],
            )?;
            noted(tx, made, &deed, &key.id)
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
        self.write_also_when_full(move |tx| {
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
        self.write(move |tx| {
            tx.execute("update api_key set last_used_at = ?1 where id = ?2", values![now, id])
                .map(drop)
        })
        .await
    }
}
