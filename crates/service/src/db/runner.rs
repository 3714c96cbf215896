//! Who runs tasks: a right that one server has at a time, and that another takes when it is not
//! renewed. What is written by one that has lost it is refused, however late it comes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::queue::next;
use super::served::serve;
use super::task::{COLUMNS, task, transition};
use super::webhook::{Report, report};
use super::{Db, Engine, Error, Result, Scope, Tx, values};
use crate::record::{Lane, Status, Task};

/// How long a lease lasts that is not renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// The right to run tasks under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Empty for the only runner of a database.
    name: String,
    token: i64,
}

impl Lease {
    /// That of a database with one server.
    fn only() -> Self {
        Self { name: String::new(), token: 0 }
    }

    fn is_only(&self) -> bool {
        self.name.is_empty()
    }

    /// A condition for tasks, and that they are run under this lease's name, `?1`.
    fn own(&self, condition: &str) -> String {
        let whose = if self.is_only() { "cast(?1 as text) = ''" } else { "runner = ?1" };
        format!("{condition} and {whose}")
    }

    /// Refuses the present write when another has taken the right: none can before it is committed.
    pub(super) fn check(&self, tx: &Tx<'_>) -> Result<()> {
        if self.is_only() {
            return Ok(());
        }
        let sql = "update runner set token = ?2 where name = ?1 and token = ?2";
        match tx.execute(sql, values![self.name, self.token])? {
            1 => Ok(()),
            _ => Err(self.superseded()),
        }
    }

    fn superseded(&self) -> Error {
        let cause = format!("another server runs the tasks of {}", self.name);
        Error::Superseded(std::sync::Arc::from(Box::from(cause)))
    }
}

/// What is behind a task that is queued for another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// An attempt that brought it further.
    Progressed,
    /// An attempt that brought it no further.
    Fruitless,
    /// An attempt that ended through no fault of the task's.
    Interrupted,
    /// An attempt that could not work, or a claim after which none was begun: as if it had not been.
    NotBegun,
}

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) status: Status,
    /// What there is to say about it, JSON.
    pub(crate) outcome: String,
    /// Layout of its bundle, JSON; without one it keeps what it had before it was retried.
    pub(crate) bundle: Option<String>,
    /// What its objects take.
    pub(crate) bytes: u64,
}

fn later(now: Timestamp, by: Duration) -> Result<Timestamp> {
    let by = SignedDuration::try_from(by).map_err(Error::other)?;
    now.checked_add(by).map_err(Error::other)
}

/// The moment so long ago, by the clock of all servers.
pub(super) fn ago(tx: &Tx<'_>, by: Duration, now: Timestamp) -> Result<Timestamp> {
    let by = SignedDuration::try_from(by).map_err(Error::other)?;
    tx.now(now)?.checked_sub(by).map_err(Error::other)
}

impl Db {
    /// Whether several servers may work on it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.engine, Engine::Postgres(_))
    }

    /// Takes the right to run tasks under a name for the server `holder`; none while another has it.
    pub(crate) async fn take_lease(
        &self,
        name: String,
        holder: String,
        now: Timestamp,
    ) -> Result<Option<Lease>> {
        if !self.is_shared() {
            return Ok(Some(Lease::only()));
        }
        self.write(Scope::Rows, move |tx| {
            let now = tx.now(now)?;
            // Nor does the same server, as far as another process goes by its name.
            let sql = "
                insert into runner (name, holder, token, expires_at) values (?1, ?2, 1, ?3)
                on conflict (name) do update
                    set holder = excluded.holder, token = runner.token + 1,
                        expires_at = excluded.expires_at
                    where runner.expires_at <= ?4
                returning token";
            let until = later(now, LEASE)?;
            let token = tx.first(sql, values![name, holder, until, now], |row| row.get(0))?;
            let Some(token) = token else { return Ok(None) };
            // Of before there were several: they are taken over by who is first.
            let sql = "update task set runner = ?1 where status = ?2 and runner = ''";
            tx.execute(sql, values![name, Status::Running])?;
            Ok(Some(Lease { name, token }))
        })
        .await
    }

    /// Has a lease last longer; false when another has taken it, or what was run by it.
    pub(crate) async fn renew_lease(&self, lease: Lease, now: Timestamp) -> Result<bool> {
        self.until(lease, LEASE, now).await
    }

    /// The same before something is done that no transaction undoes: refused when it is not ours.
    pub(crate) async fn affirm_lease(&self, lease: Lease, now: Timestamp) -> Result<()> {
        match self.until(lease.clone(), LEASE, now).await? {
            true => Ok(()),
            false => Err(lease.superseded()),
        }
    }

    /// Lets others take a lease at once.
    pub(crate) async fn give_back_lease(&self, lease: Lease, now: Timestamp) -> Result<()> {
        self.until(lease, Duration::ZERO, now).await.map(drop)
    }

    async fn until(&self, lease: Lease, lasts: Duration, now: Timestamp) -> Result<bool> {
        if lease.is_only() {
            return Ok(true);
        }
        self.write(Scope::Rows, move |tx| {
            let expires_at = later(tx.now(now)?, lasts)?;
            let sql = "update runner set expires_at = ?3 where name = ?1 and token = ?2";
            Ok(tx.execute(sql, values![lease.name, lease.token, expires_at])? == 1)
        })
        .await
    }

    /// Claims the task of a lane whose turn it is: it counts as running, and nobody else begins it. And
    /// how many were waiting, it among them, counted to `enough`.
    pub(crate) async fn claim(
        &self,
        lease: Lease,
        lane: Lane,
        enough: usize,
        now: Timestamp,
    ) -> Result<Option<(Task, usize)>> {
        // It is asked all the time, and a write costs more.
        let sql = "
            select 1 from task where status = ?1 and lane = ?2 and is_cancelled = 0 limit 1";
        let number = lane as i64;
        if !self.read(|tx| tx.exists(sql, values![Status::Queued, number])).await? {
            return Ok(None);
        }
        self.write(Scope::Lane(lane), move |tx| {
            let Some((task, waiting)) = next(tx, lane, enough, now)? else { return Ok(None) };
            tx.lock(Scope::Account(task.account))?;
            lease.check(tx)?;
            // None when it has been cancelled meanwhile; the next look finds another.
            Ok(take(tx, &lease, &task.id, now)?.map(|task| (task, waiting)))
        })
        .await
    }

    /// Claims a queued task that was cancelled, to end it; false when another does so, or it is not
    /// queued any longer.
    pub(crate) async fn claim_cancelled(
        &self,
        lease: Lease,
        account: i64,
        id: String,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Account(account), move |tx| {
            lease.check(tx)?;
            let sql = "
                update task set runner = ?1
                where id = ?2 and status = ?3 and is_cancelled = 1 and runner in ('', ?1)";
            Ok(tx.execute(sql, values![lease.name, id, Status::Queued])? == 1)
        })
        .await
    }

    /// Counts another attempt of a task that was claimed; false when it does not run any longer.
    pub(crate) async fn begin_attempt(
        &self,
        lease: Lease,
        account: i64,
        id: String,
        now: Timestamp,
    ) -> Result<bool> {
        self.write(Scope::Account(account), move |tx| {
            lease.check(tx)?;
            let sql = "
                update task set attempts = attempts + 1, has_begun = 1,
                    started_at = coalesce(started_at, ?1)
                where id = ?2 and status = ?3";
            Ok(tx.execute(sql, values![now, id, Status::Running])? == 1)
        })
        .await
    }

    /// Puts tasks back that were claimed under this lease's name and not begun, by who died over it.
    pub(crate) async fn put_back_unbegun(&self, lease: Lease, now: Timestamp) -> Result<()> {
        let unbegun = lease.own(&format!(
            "select account, id from task where status = '{}' and has_begun = 0",
            Status::Running
        ));
        let found: Vec<(i64, String)> = self
            .read(|tx| tx.all(&unbegun, values![lease.name], |row| Ok((row.get(0)?, row.get(1)?))))
            .await?;
        for (account, id) in found {
            self.requeue_task(lease.clone(), account, id, Requeue::NotBegun, now).await?;
        }
        Ok(())
    }

    /// Tasks that are running as far as is known, oldest first.
    pub(crate) async fn running_tasks(&self, lease: &Lease) -> Result<Vec<Task>> {
        let running = Status::Running;
        let sql = lease.own(&format!("select {COLUMNS} from task where status = '{running}'"));
        self.read(|tx| tx.all(&format!("{sql} order by seq"), values![lease.name], task)).await
    }

    /// Whether a task is running under this lease's name, or queued; none when it is neither.
    pub(crate) async fn status_here(&self, lease: &Lease, id: &str) -> Result<Option<Status>> {
        let running = lease.own(&format!("status = '{}'", Status::Running));
        let sql = format!(
            "select status from task where id = ?2 and (status = '{}' or {running})",
            Status::Queued
        );
        self.read(|tx| tx.first(&sql, values![lease.name, id], |row| row.get(0))).await
    }

    /// Puts a running task back into the queue, for another attempt.
    pub(crate) async fn requeue_task(
        &self,
        lease: Lease,
        account: i64,
        id: String,
        behind: Requeue,
        now: Timestamp,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Account(account), move |tx| {
            lease.check(tx)?;
            requeue(tx, &id, behind, now, now)
        })
        .await
    }

    /// Notes that a running task has had its slot until a moment that is past, and no longer.
    pub(crate) async fn end_slot(
        &self,
        lease: Lease,
        account: i64,
        id: String,
        until: Timestamp,
    ) -> Result<()> {
        self.write_also_when_full(Scope::Account(account), move |tx| {
            lease.check(tx)?;
            serve(tx, &id, until)?;
            let sql = "update task set attempt_at = null where id = ?1 and status = ?2";
            tx.execute(sql, values![id, Status::Running]).map(drop)
        })
        .await
    }

    /// Ends a task; false when it has ended already.
    pub(crate) async fn end_task(
        &self,
        lease: Lease,
        account: i64,
        id: String,
        end: End,
        now: Timestamp,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Account(account), move |tx| {
            lease.check(tx)?;
            serve(tx, &id, now)?;
            if !transition(tx, &id, &[Status::Running, Status::Queued], end.status)? {
                return Ok(false);
            }
            tx.execute("delete from progress where task = ?1", values![id])?;
            let sql = "
                update task set finished_at = ?1, outcome = ?2, bytes = ?3 where id = ?4";
            tx.execute(sql, values![now, end.outcome, end.bytes as i64, id])?;
            report(tx, &id, now, Report::Ended)?;
            if let Some(layout) = end.bundle {
                let sql = "
                    insert into bundle (task, layout) values (?1, ?2)
                    on conflict (task) do update set layout = excluded.layout";
                tx.execute(sql, values![id, layout])?;
            }
            Ok(true)
        })
        .await
    }

    /// Queues the tasks again of runners that nobody has held for so long: their machines are lost.
    /// Which they are.
    pub(crate) async fn requeue_orphans(
        &self,
        lost_for: Duration,
        now: Timestamp,
    ) -> Result<Vec<String>> {
        if !self.is_shared() {
            return Ok(Vec::new());
        }
        let orphaned = "
            status = ?1 and runner <> ''
            and runner not in (select name from runner where expires_at > ?2)";
        let sql = format!("select account, id from task where {orphaned} order by seq");
        let (since, found) = self
            .read(|tx| {
                let since = ago(tx, lost_for, now)?;
                let values = values![Status::Running, since];
                let found: Vec<(i64, String)> =
                    tx.all(&sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok((since, found))
            })
            .await?;
        self.write(Scope::Rows, move |tx| {
            // What one of them was about to end, another ends.
            let sql = format!("update task set runner = '' where {orphaned} and is_cancelled = 1");
            tx.execute(&sql, values![Status::Queued, since]).map(drop)
        })
        .await?;
        let mut requeued = Vec::new();
        let sql = format!(
            "select (select expires_at from runner where name = task.runner)
             from task where id = ?3 and {orphaned}"
        );
        for (account, id) in found {
            let (sql, of) = (sql.clone(), id.clone());
            let done = self.write_also_when_full(Scope::Account(account), move |tx| {
                // Its server may only have stood still: what it writes when it goes on is refused.
                let fence = "
                    update runner set token = token + 1
                    where expires_at <= ?2
                        and name = (select runner from task where id = ?3 and status = ?1)";
                let values = values![Status::Running, since, of];
                tx.execute(fence, values)?;
                let seen: Option<Option<Timestamp>> = tx.first(&sql, values, |row| row.get(0))?;
                let Some(seen) = seen else { return Ok(false) };
                // Until then it ran, and what came after is nobody's time.
                let until = seen.map_or(now, |seen| seen.min(now));
                requeue(tx, &of, Requeue::Interrupted, until, now)
            });
            if done.await? {
                requeued.push(id);
            }
        }
        Ok(requeued)
    }
}

/// Has a queued task run under a lease's name; none when it is not queued, or was cancelled.
pub(super) fn take(tx: &Tx<'_>, lease: &Lease, id: &str, now: Timestamp) -> Result<Option<Task>> {
    let sql = "select 1 from task where id = ?1 and is_cancelled = 0";
    if !tx.exists(sql, values![id])? || !transition(tx, id, &[Status::Queued], Status::Running)? {
        return Ok(None);
    }
    let sql = "update task set attempt_at = ?1, runner = ?2, has_begun = 0 where id = ?3";
    tx.execute(sql, values![now, lease.name, id])?;
    let sql = format!("select {COLUMNS} from task where id = ?1");
    tx.one(&sql, values![id], task).map(Some)
}

/// Puts a running task back into the queue, which had its slot until a moment; false when it does not
/// run.
fn requeue(
    tx: &Tx<'_>,
    id: &str,
    behind: Requeue,
    until: Timestamp,
    now: Timestamp,
) -> Result<bool> {
    // What was claimed and not begun may be put back days later, by the next start of the service.
    let has_begun = tx.exists("select 1 from task where id = ?1 and has_begun = 1", values![id])?;
    if has_begun || behind != Requeue::NotBegun {
        serve(tx, id, until)?;
    }
    if !transition(tx, id, &[Status::Running], Status::Queued)? {
        return Ok(false);
    }
    let change = match behind {
        Requeue::Progressed => "queued_at = ?2, fruitless = 0",
        Requeue::Fruitless => "queued_at = ?2, fruitless = fruitless + 1",
        Requeue::Interrupted => "queued_at = ?2",
        Requeue::NotBegun => "queued_at = coalesce(queued_at, ?2), attempts = attempts - has_begun",
    };
    let sql = format!("update task set {change}, runner = '' where id = ?1");
    tx.execute(&sql, values![id, now])?;
    Ok(true)
}
