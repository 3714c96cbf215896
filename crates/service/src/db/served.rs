//! How long accounts had slots.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Result, Tx, hours, values};
use crate::queue::Served;
use crate::record::{Lane, Status};

/// What accounts were served of a lane, in s, without what runs.
pub(super) fn served(tx: &Tx<'_>, lane: Lane, now: Timestamp) -> Result<BTreeMap<i64, f64>> {
    let sql = "select account, ms, at from served where lane = ?1";
    let all: Vec<(i64, f64)> = tx.all(sql, values![lane as i64], |row| {
        let served = Served { seconds: row.get::<i64>(1)? as f64 / 1e3, at: row.get(2)? };
        Ok((row.get(0)?, served.seconds_at(now)))
    })?;
    Ok(all.into_iter().collect())
}

/// Seconds that a task has had its slot. One that was started by an earlier version is new.
pub(crate) fn elapsed(since: Option<Timestamp>, now: Timestamp) -> f64 {
    since.map_or(0.0, |since| now.duration_since(since).as_secs_f64().max(0.0))
}

/// Notes that a running task has had a slot, which it gives back: its time, divided by the weight of
/// the account.
pub(super) fn serve(tx: &Tx<'_>, id: &str, now: Timestamp) -> Result<()> {
    let sql = "
        select task.account, task.lane, attempt_at, served.ms, served.at, weight
        from task join account on account.id = task.account
                  left join served on served.account = task.account and served.lane = task.lane
        where task.id = ?1 and status = ?2";
    type Found = (i64, i64, Option<Timestamp>, Option<i64>, Option<Timestamp>, i64);
    let found: Option<Found> = tx.first(sql, values![id, Status::Running], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    })?;
    let Some((account, lane, since, ms, at, weight)) = found else { return Ok(()) };
    let before =
        ms.zip(at).map_or(0.0, |(ms, at)| Served { seconds: ms as f64 / 1e3, at }.seconds_at(now));
    // By the weight at the end: what was served before stays as it was counted.
    if let Some(since) = since {
        hours::count(tx, account, since, now)?;
    }
    let seconds = before + elapsed(since, now) / weight as f64;
    let (ms, rank) = ((seconds * 1e3).round() as i64, Served { seconds, at: now }.rank());
    let sql = "
        insert into served (account, lane, ms, at, rank) values (?1, ?2, ?3, ?4, ?5)
        on conflict (account, lane) do update
        set ms = excluded.ms, at = excluded.at, rank = excluded.rank";
    tx.execute(sql, values![account, lane, ms, now, rank]).map(drop)
}
