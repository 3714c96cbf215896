//! Objects that no row refers to: those that are on their way, and those of what was deleted.

use jiff::{SignedDuration, Timestamp};

use super::{Db, Error, Result, Scope, Tx, values};

/// How long an object may be on its way until a row refers to it.
pub(crate) const UNDER_WAY: SignedDuration = SignedDuration::from_hours(48);

impl Db {
    /// Notes the key of an object before it is written. Until a row refers to it, it is garbage: so
    /// whatever ends a service in between, the next start removes it; where there are several
    /// servers, one of them after a while.
    pub(crate) async fn announce_object(&self, key: String, now: Timestamp) -> Result<()> {
        let is_shared = self.is_shared();
        self.write(Scope::Rows, move |tx| {
            let due_at = match is_shared {
                true => tx.now(now)?.checked_add(UNDER_WAY).map_err(Error::other)?.as_microsecond(),
                false => 0,
            };
            let sql = "insert into garbage (prefix, due_at) values (?1, ?2)";
            tx.execute(sql, values![key, due_at]).map(drop)
        })
        .await
    }

    /// Prefixes of objects that are to be removed by now. Of a database with one server those that
    /// are on their way are no more when it starts.
    pub(crate) async fn garbage(&self, now: Timestamp, is_start: bool) -> Result<Vec<String>> {
        let least = i64::from(!is_start && !self.is_shared());
        let sql = "select prefix from garbage where due_at between ?1 and ?2";
        self.read(|tx| tx.all(sql, values![least, tx.now(now)?], |row| row.get(0))).await
    }

    /// Forgets a prefix whose objects have been removed.
    pub(crate) async fn forget_garbage(&self, prefix: String) -> Result<()> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            tx.execute("delete from garbage where prefix = ?1", values![prefix]).map(drop)
        })
        .await
    }
}

/// A row refers to an object that was announced.
pub(super) fn keep_object(tx: &Tx<'_>, key: &str) -> Result<bool> {
    Ok(tx.execute("delete from garbage where prefix = ?1", values![key])? == 1)
}

/// No row refers to an object any more, which is kept for so long.
pub(super) fn discard_object(
    tx: &Tx<'_>,
    key: &str,
    kept: SignedDuration,
    now: Timestamp,
) -> Result<()> {
    let due_at = match kept.is_zero() {
        // At once, and again later when that fails; 0 is for what is on its way.
        true => 1,
        false => tx.now(now)?.checked_add(kept).map_err(Error::other)?.as_microsecond(),
    };
    let sql = "insert into garbage (prefix, due_at) values (?1, ?2) on conflict do nothing";
    tx.execute(sql, values![key, due_at]).map(drop)
}
