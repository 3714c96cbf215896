//! What accounts may hold.

use super::{Result, Tx, values};

/// More than an account may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverQuota {
    /// What it holds, in bytes.
    pub(crate) held: u64,
    /// What it may hold.
    pub(crate) max: u64,
}

/// Refuses what would have an account hold more than it may: `max` bytes, if it has no limit of its
/// own; 0 is no limit. What adds nothing yet is refused when there is no room for anything.
pub(super) fn has_quota(
    tx: &Tx<'_>,
    account: i64,
    added: i64,
    max: u64,
) -> Result<Result<(), OverQuota>> {
    let sql = "select bytes, coalesce(most_bytes, ?2) from account where id = ?1";
    let (held, max): (i64, i64) =
        tx.one(sql, values![account, most_bytes(max)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(fits(held, added, max))
}

/// A limit as rows have it.
pub(super) fn most_bytes(max: u64) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

/// The same of an account of which it is known what it holds and may.
pub(super) fn fits(held: i64, added: i64, max: i64) -> Result<(), OverQuota> {
    let is_over = max > 0 && held.saturating_add(added.max(1)) > max;
    let over = OverQuota { held: held.unsigned_abs(), max: max.unsigned_abs() };
    if is_over { Err(over) } else { Ok(()) }
}
