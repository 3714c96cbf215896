//! What waits for a slot.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::served::{elapsed, served};
use super::task::{COLUMNS, task};
use super::{Db, Result, Row, Tx, values};
use crate::queue::{Claim, Served};
use crate::record::{Kind, Lane, Status, Task};

/// A task in the queue of a lane, or that has a slot there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Queued {
    pub(crate) id: String,
    pub(crate) account: i64,
    pub(crate) kind: Kind,
    /// Among those of its account.
    pub(crate) priority: i64,
}

fn queued(row: &Row<'_>) -> Result<Queued> {
    Ok(Queued { id: row.get(0)?, account: row.get(1)?, kind: row.get(2)?, priority: row.get(3)? })
}

/// A lane as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Oldest first.
    pub(crate) waiting: Vec<Queued>,
    /// With the time at which each got its slot.
    pub(crate) running: Vec<(Queued, Option<Timestamp>)>,
    /// What accounts were served, in s, without what runs.
    pub(crate) served: BTreeMap<i64, f64>,
    /// Weights of accounts, where they are not 1.
    pub(crate) weights: BTreeMap<i64, f64>,
}

/// By which one sees that a queue has changed: how many wait, and the number of the newest.
pub(crate) type Mark = (i64, Option<i64>);

impl Db {
    /// Changes with what waits in a lane.
    pub(crate) async fn queue_mark(&self, lane: Lane) -> Result<Mark> {
        let sql = "
            select count(*), max(seq) from task
            where status = ?1 and lane = ?2 and is_cancelled = 0";
        let lane = lane as i64;
        self.read(|tx| {
            tx.one(sql, values![Status::Queued, lane], |row| Ok((row.get(0)?, row.get(1)?)))
        })
        .await
    }

    /// Since when a task waits in a lane, of all the longest.
    pub(crate) async fn oldest_queued(&self, lane: Lane) -> Result<Option<Timestamp>> {
        let sql = "
            select min(coalesce(queued_at, created_at)) from task
            where status = ?1 and lane = ?2 and is_cancelled = 0";
        let lane = lane as i64;
        self.read(|tx| tx.one(sql, values![Status::Queued, lane], |row| row.get(0))).await
    }

    /// Simulations that run or are queued, and the systems that they are of.
    pub(crate) async fn open_jobs(&self) -> Result<(Vec<Task>, Vec<Task>)> {
        let open = "kind = ?1 and status in (?2, ?3)";
        let jobs = format!("select {COLUMNS} from task where {open}");
        let systems = format!(
            "select {COLUMNS} from task where id in (select parent from task where {open})"
        );
        let values = values![Kind::Job, Status::Queued, Status::Running];
        self.read(|tx| Ok((tx.all(&jobs, values, task)?, tx.all(&systems, values, task)?))).await
    }

    /// Simulations that have a slot.
    pub(crate) async fn running_jobs(&self) -> Result<Vec<String>> {
        let sql = "select id from task where status = ?1 and kind = ?2 order by id";
        self.read(|tx| tx.all(sql, values![Status::Running, Kind::Job], |row| row.get(0))).await
    }

    /// What runs and waits in a lane, of what waits the oldest.
    pub(crate) async fn queue_of_lane(
        &self,
        lane: Lane,
        limit: usize,
        now: Timestamp,
    ) -> Result<Queue> {
        let sql = "
            select id, account, kind, priority from task
            where status = ?1 and lane = ?2 and is_cancelled = 0
            order by seq limit ?3";
        let (number, limit) = (lane as i64, limit as i64);
        self.read(|tx| {
            let values = values![Status::Queued, number, limit];
            Ok(Queue {
                waiting: tx.all(sql, values, queued)?,
                running: running(tx, lane)?,
                served: served(tx, lane, now)?,
                weights: weights(tx)?,
            })
        })
        .await
    }
}

/// The query of the task of an account that is next in a lane.
pub(super) fn next_of() -> String {
    format!(
        "select {COLUMNS} from task
         where lane = ?1 and account = ?2 and status = '{}' and is_cancelled = 0
         order by priority desc, seq limit 1",
        Status::Queued
    )
}

/// The task of a lane that is to start next, and how many are waiting, counted to `enough`.
pub(super) fn next(
    tx: &Tx<'_>,
    lane: Lane,
    enough: usize,
    now: Timestamp,
) -> Result<Option<(Task, usize)>> {
    let first = waiting(tx, lane, Turns::First, now)?;
    let others = waiting(tx, lane, Turns::Others, now)?;
    let mut elapsed_of: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    if !others.is_empty() {
        for (task, since) in running(tx, lane)? {
            elapsed_of.entry(task.account).or_default().push(elapsed(since, now));
        }
    }
    let weights = if others.is_empty() { BTreeMap::new() } else { weights(tx)? };
    let claims = first.into_iter().chain(others).map(|waits| {
        let running = elapsed_of.get(&waits.account).into_iter().flatten().copied();
        let weight = weights.get(&waits.account).copied().unwrap_or(1.0);
        (Claim::new(waits.served, running, weight, waits.oldest), waits.account)
    });
    let turn = claims.min_by(|(one, _), (other, _)| one.order(other));
    let Some((_, account)) = turn else { return Ok(None) };
    let Some(task) = tx.first(&next_of(), values![lane as i64, account], task)? else {
        return Ok(None);
    };
    let sql = "
        select count(*) from
            (select 1 from task where status = ?1 and lane = ?2 limit ?3) as counted";
    let (lane, enough) = (lane as i64, enough as i64);
    let waiting: i64 = tx.one(sql, values![Status::Queued, lane, enough], |row| row.get(0))?;
    Ok(Some((task, waiting as usize)))
}

/// An account that has something queued.
struct Waits {
    account: i64,
    /// Number of its oldest task.
    oldest: i64,
    /// What it was served, in s, without what runs.
    served: f64,
}

/// Accounts that wait in a lane: of those of whom nothing runs the first in order, or all others.
#[derive(Clone, Copy)]
pub(super) enum Turns {
    First,
    Others,
}

impl Turns {
    pub(super) fn query(self) -> String {
        let chosen = match self {
            Self::First => "running = 0 and rank is not null order by rank, oldest limit 1",
            Self::Others => "(running > 0 or rank is null)",
        };
        // A number is compared with rather than null, lest SQLite looks at all accounts there are.
        format!(
            "with chosen as (
                 select lane, account, oldest from turn where lane = ?1 and oldest > 0 and {chosen}
             )
             select chosen.account, oldest, ms, at from chosen
             left join served on served.account = chosen.account and served.lane = chosen.lane"
        )
    }
}

fn waiting(tx: &Tx<'_>, lane: Lane, turns: Turns, now: Timestamp) -> Result<Vec<Waits>> {
    let sql = turns.query();
    tx.all(&sql, values![lane as i64], |row| {
        let (ms, at): (Option<i64>, Option<Timestamp>) = (row.get(2)?, row.get(3)?);
        let served = ms.zip(at).map(|(ms, at)| Served { seconds: ms as f64 / 1e3, at });
        let served = served.map_or(0.0, |served| served.seconds_at(now));
        Ok(Waits { account: row.get(0)?, oldest: row.get(1)?, served })
    })
}

fn weights(tx: &Tx<'_>) -> Result<BTreeMap<i64, f64>> {
    let sql = "select id, weight from account where weight <> 1";
    let all: Vec<(i64, f64)> =
        tx.all(sql, &[], |row| Ok((row.get(0)?, row.get::<i64>(1)? as f64)))?;
    Ok(all.into_iter().collect())
}

fn running(tx: &Tx<'_>, lane: Lane) -> Result<Vec<(Queued, Option<Timestamp>)>> {
    let sql = "
        select id, account, kind, priority, attempt_at from task where status = ?1 and lane = ?2";
    tx.all(sql, values![Status::Running, lane as i64], |row| Ok((queued(row)?, row.get(4)?)))
}
