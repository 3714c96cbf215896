//! What waits for a slot.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::served::{elapsed, served};
use super::task::{COLUMNS, task};
use super::{Db, Result, Tx, values};
use crate::queue::Claim;
use crate::record::{Kind, Lane, Status, Task};

/// A task in the queue of a lane, or that has a slot there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Queued {
    pub(crate) id: String,
    pub(crate) account: i64,
    pub(crate) kind: Kind,
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

    /// What runs and waits in a lane, of what waits the oldest.
    pub(crate) async fn queue_of_lane(
        &self,
        lane: Lane,
        limit: usize,
        now: Timestamp,
    ) -> Result<Queue> {
        let sql = "
            select id, account, kind from task
            where status = ?1 and lane = ?2 and is_cancelled = 0
            order by seq limit ?3";
        let (number, limit) = (lane as i64, limit as i64);
        self.read(|tx| {
            let values = values![Status::Queued, number, limit];
            let waiting = tx.all(sql, values, |row| {
                Ok(Queued { id: row.get(0)?, account: row.get(1)?, kind: row.get(2)? })
            })?;
            Ok(Queue { waiting, running: running(tx, lane)?, served: served(tx, lane, now)? })
        })
        .await
    }
}

/// The task of a lane that is to start next, and how many are waiting, counted to `enough`.
pub(super) fn next(
    tx: &Tx<'_>,
    lane: Lane,
    enough: usize,
    now: Timestamp,
) -> Result<Option<(Task, usize)>> {
    let queued = Status::Queued;
    // One step per account that has something queued, however much that is.
    let sql = format!(
        "with recursive waiting (account) as (
             select min(account) from task where status = '{queued}' and lane = ?1
             union all
             select (select min(account) from task
                     where status = '{queued}' and lane = ?1 and account > waiting.account)
             from waiting where account is not null
         )
         select account, (select min(seq) from task
                 where status = '{queued}' and lane = ?1 and account = waiting.account)
         from waiting where account is not null"
    );
    let number = lane as i64;
    let accounts: Vec<(i64, i64)> =
        tx.all(&sql, values![number], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let served = served(tx, lane, now)?;
    let running = running(tx, lane)?;
    let claims = accounts.into_iter().map(|(account, oldest)| {
        let own = running.iter().filter(|(task, _)| task.account == account);
        let elapsed = own.map(|(_, since)| elapsed(*since, now));
        Claim::new(served.get(&account).copied().unwrap_or(0.0), elapsed, oldest)
    });
    let Some(next) = claims.min_by(Claim::order) else { return Ok(None) };
    let sql = format!("select {COLUMNS} from task where seq = ?1");
    let task = tx.one(&sql, values![next.oldest], task)?;
    let sql = "
        select count(*) from
            (select 1 from task where status = ?1 and lane = ?2 limit ?3) as counted";
    let waiting: i64 = tx.one(sql, values![queued, number, enough as i64], |row| row.get(0))?;
    Ok(Some((task, waiting as usize)))
}

fn running(tx: &Tx<'_>, lane: Lane) -> Result<Vec<(Queued, Option<Timestamp>)>> {
    let sql = "select id, account, kind, attempt_at from task where status = ?1 and lane = ?2";
    tx.all(sql, values![Status::Running, lane as i64], |row| {
        let task = Queued { id: row.get(0)?, account: row.get(1)?, kind: row.get(2)? };
        Ok((task, row.get(3)?))
    })
}
