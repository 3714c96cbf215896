//! Results that are kept for a time: it is announced when they are deleted, and they are deleted only then.

use jiff::Timestamp;

use super::audit::note;
use super::garbage::discard_object;
use super::task::needed_by;
use super::webhook::{Report, report};
use super::words::has_ended;
use super::{Db, Deed, Result, Scope, values};
use crate::record::{Kind, Retention};

/// A result that may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) account: i64,
    /// Name of the account.
    pub(crate) account_name: String,
    pub(crate) kind: Kind,
    pub(crate) id: String,
}

impl Db {
    /// Puts off what was announced by a shorter time, and takes it back when nothing is deleted any
    /// more. What was announced later than it would be now stays: people count on it.
    pub(crate) async fn put_off_expiry(&self, retention: Option<Retention>) -> Result<()> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let Some(Retention { kept, .. }) = retention else {
                let sql = "
                    update task set expires_at = null, announced_at = null
                    where expires_at is not null";
                return tx.execute(sql, &[]).map(drop);
            };
            let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX / 4);
            let sql = "
                update task set expires_at = finished_at + ?1
                where expires_at is not null and expires_at < finished_at + ?1";
            tx.execute(sql, values![kept]).map(drop)
        })
        .await
    }

    /// Announces results that are soon kept long enough, so many at most: in their records, and to
    /// who is reported to. A system is not while a job has it. How many there were.
    pub(crate) async fn announce_expiry(
        &self,
        retention: Retention,
        now: Timestamp,
        limit: usize,
    ) -> Result<usize> {
        let Retention { kept, warned } = retention;
        let before = now.checked_sub(kept - warned).unwrap_or(Timestamp::MIN);
        let sql = format!(
            "select id, account, finished_at from task
             where finished_at <= ?1 and finished_at is not null and expires_at is null and {}
                 and not exists
                     (select 1 from task as job where job.parent = task.id and job.kind = ?2)
             order by finished_at limit ?3",
            has_ended()
        );
        let limit = limit as i64;
        let values = values![before, Kind::Job, limit];
        let found: Vec<(String, i64, Timestamp)> = self
            .read(|tx| tx.all(&sql, values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
            .await?;
        let n_found = found.len();
        for (id, account, finished_at) in found {
            let in_time = now.checked_add(warned).unwrap_or(Timestamp::MAX);
            let expires_at = finished_at.checked_add(kept).unwrap_or(Timestamp::MAX).max(in_time);
            self.write_also_when_full(Scope::Account(account), move |tx| {
                // Another server was first, or it is queued again.
                let sql = "
                    update task set expires_at = ?1, announced_at = ?2
                    where id = ?3 and finished_at = ?4 and expires_at is null";
                if tx.execute(sql, values![expires_at, now, id, finished_at])? == 1 {
                    report(tx, &id, now, Report::Expires { finished_at, expires_at })?;
                }
                Ok(())
            })
            .await?;
        }
        Ok(n_found)
    }

    /// Results whose time has come, so many at most.
    pub(crate) async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<Expired>> {
        let sql = "
            select task.account, account.name, kind, task.id
            from task join account on account.id = task.account
            where expires_at <= ?1 order by expires_at, seq limit ?2";
        self.read(|tx| {
            tx.all(sql, values![now, limit as i64], |row| {
                Ok(Expired {
                    account: row.get(0)?,
                    account_name: row.get(1)?,
                    kind: row.get(2)?,
                    id: row.get(3)?,
                })
            })
        })
        .await
    }

    /// Deletes a result whose time has come; its objects become garbage. False when something needs
    /// it, or its time has been put off.
    pub(crate) async fn delete_expired(
        &self,
        id: String,
        account: i64,
        garbage: String,
        deed: Deed,
    ) -> Result<bool> {
        let kept = self.kept;
        self.write_also_when_full(Scope::Account(account), move |tx| {
            if needed_by(tx, &id)?.is_some() {
                return Ok(false);
            }
            let sql =
                format!("delete from task where id = ?1 and expires_at <= ?2 and {}", has_ended());
            if tx.execute(&sql, values![id, deed.at])? == 0 {
                return Ok(false);
            }
            note(tx, &deed, &id)?;
            discard_object(tx, &garbage, kept, deed.at)?;
            Ok(true)
        })
        .await
    }
}
