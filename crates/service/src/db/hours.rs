//! How long tasks of accounts had slots, day by day, and how long they may.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Db, Result, Tx, Value, values};
use crate::config::MOST_DAYS;
use crate::record::Status;

const DAY_US: i64 = 86_400_000_000;

/// Days of the calendar in UTC that are counted, the present one the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) now: Timestamp,
    pub(crate) days: u32,
}

impl Period {
    fn today(self) -> i64 {
        day_of(self.now)
    }

    fn first(self) -> i64 {
        self.today() - i64::from(self.days) + 1
    }
}

/// More time than tasks of an account may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverHours {
    pub(crate) ms: i64,
    pub(crate) most_hours: i64,
    /// How many days are counted.
    pub(crate) days: u32,
    /// The moment from which less is counted than it may have, if nothing else runs.
    pub(crate) until: Timestamp,
}

fn day_of(at: Timestamp) -> i64 {
    at.as_microsecond().div_euclid(DAY_US)
}

fn start_of(day: i64) -> Timestamp {
    Timestamp::from_microsecond(day.saturating_mul(DAY_US)).unwrap_or(Timestamp::MAX)
}

/// Notes that a task of an account has had a slot from one moment to another.
pub(super) fn count(tx: &Tx<'_>, account: i64, from: Timestamp, to: Timestamp) -> Result<()> {
    let sql = "
        insert into slot_time (account, day, ms) values (?1, ?2, ?3)
        on conflict (account, day) do update set ms = slot_time.ms + excluded.ms";
    let last = day_of(to);
    for day in day_of(from).max(last - i64::from(MOST_DAYS))..=last {
        let (start, end) = (from.max(start_of(day)), to.min(start_of(day + 1)));
        let ms = (end.as_microsecond() - start.as_microsecond()) / 1000;
        if ms > 0 {
            tx.execute(sql, values![account, day, ms])?;
        }
    }
    let sql = "delete from slot_time where account = ?1 and day < ?2";
    tx.execute(sql, values![account, last - i64::from(MOST_DAYS)]).map(drop)
}

/// What accounts were served on each day of a period, with what runs, in ms: of one, or of all.
fn by_day(
    tx: &Tx<'_>,
    account: Option<i64>,
    period: Period,
) -> Result<BTreeMap<i64, BTreeMap<i64, i64>>> {
    let (whose, mut values): (&str, Vec<Value<'_>>) = match account {
        Some(account) => {
            ("account = ?2 and", vec![Value::Int(period.first()), Value::Int(account)])
        }
        None => ("", vec![Value::Int(period.first())]),
    };
    // A clock that was ahead once has counted days that are to come.
    let today = period.today();
    let sql = format!(
        "select account, day, ms from slot_time where {whose} day >= ?1 and day <= {today}"
    );
    let mut all: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    let counted: Vec<(i64, i64, i64)> =
        tx.all(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (account, day, ms) in counted {
        all.entry(account).or_default().insert(day, ms);
    }
    values[0] = Value::Text(Status::Running.name());
    let sql = format!(
        "select account, attempt_at from task
         where {whose} status = ?1 and lane in (0, 1) and attempt_at is not null"
    );
    let running: Vec<(i64, Timestamp)> =
        tx.all(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (account, since) in running {
        let since = since.max(start_of(period.first()));
        let ms = (period.now.as_microsecond() - since.as_microsecond()).max(0) / 1000;
        *all.entry(account).or_default().entry(period.today()).or_default() += ms;
    }
    Ok(all)
}

/// Refuses another task of an account that was served as long as it may be: so many hours; 0 is no
/// limit.
pub(super) fn has_hours(
    tx: &Tx<'_>,
    account: i64,
    most_hours: i64,
    period: Period,
) -> Result<Result<(), OverHours>> {
    if most_hours <= 0 {
        return Ok(Ok(()));
    }
    let most_ms = most_hours.saturating_mul(3_600_000);
    let mut days = by_day(tx, Some(account), period)?.remove(&account).unwrap_or_default();
    let ms: i64 = days.values().sum();
    if ms < most_ms {
        return Ok(Ok(()));
    }
    let (mut left, mut last) = (ms, period.first());
    while left >= most_ms
        && let Some((day, ms)) = days.pop_first()
    {
        (left, last) = (left - ms, day);
    }
    // A day counts no more when as many have passed after it as are counted.
    let until = start_of(last + i64::from(period.days));
    Ok(Err(OverHours { ms, most_hours, days: period.days, until }))
}

impl Db {
    /// How long tasks of an account had slots in a period, with what runs, in ms.
    pub(crate) async fn slot_ms(&self, account: i64, period: Period) -> Result<i64> {
        let all = self.read(|tx| by_day(tx, Some(account), period)).await?;
        Ok(all.values().flat_map(BTreeMap::values).sum())
    }

    /// The same of all accounts, by their numbers; none of those of which nothing had a slot.
    pub(crate) async fn all_slot_ms(&self, period: Period) -> Result<BTreeMap<i64, i64>> {
        let all = self.read(|tx| by_day(tx, None, period)).await?;
        Ok(all.into_iter().map(|(account, days)| (account, days.values().sum())).collect())
    }
}
