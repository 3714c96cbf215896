//! Systems, jobs and analyses: work that is queued, runs and ends.

use anyhow::Result;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::account::has_quota;
use super::audit::note;
use super::{Answer, Claim, Db, Deed, Filter, Once, OverQuota};

/// A system, job or analysis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskRow {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) account: i64,
    /// `system`, `job` or `analysis`.
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) status: String,
    pub(crate) request: String,
    pub(crate) parameters: String,
    pub(crate) seed: i64,
    pub(crate) attempts: i64,
    /// Attempts in a row that brought it no further.
    pub(crate) fruitless: i64,
    pub(crate) created_at: i64,
    pub(crate) started_at: Option<i64>,
    pub(crate) finished_at: Option<i64>,
    pub(crate) is_cancelled: bool,
    pub(crate) outcome: Option<String>,
    /// Warnings about the request itself, JSON.
    pub(crate) warnings: String,
    /// What it has written, or may come to write as long as it is open.
    pub(crate) bytes: i64,
}

/// What changes of a task that is extended.
#[derive(Clone, Debug)]
pub(crate) struct Extended {
    pub(crate) parameters: String,
    pub(crate) warnings: String,
    /// What it may come to write in all.
    pub(crate) bytes: i64,
}

/// Which tasks wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Systems and jobs, which take a worker.
    Workers = 0,
    /// Analyses, which need not wait for days until a simulation has ended.
    Analyses = 1,
}

impl Lane {
    /// Where tasks of a kind wait.
    pub(crate) fn of(kind: &str) -> Self {
        if kind == "analysis" { Self::Analyses } else { Self::Workers }
    }
}

/// Why a task was not queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unqueued {
    /// The account has as many tasks that have not ended as it may.
    TooMany,
    /// The account would hold more than it may.
    OverQuota(OverQuota),
    /// This task is in this state by now, which does not allow it.
    InState(String, String),
    /// This file or task, which it reads or is itself, has been deleted in the meantime.
    Deleted(String),
}

/// What became of a request to delete something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    Done,
    NotFound,
    /// It is in this state, which does not allow it.
    InState(String),
    /// This still needs it.
    NeededBy(String),
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
    /// An attempt that could not begin: as if it had not been.
    NotBegun,
}

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// `succeeded`, `failed` or `cancelled`.
    pub(crate) status: &'static str,
    /// What there is to say about it, JSON.
    pub(crate) outcome: String,
    /// Layout of its bundle, JSON; without one it keeps what it had before it was retried.
    pub(crate) bundle: Option<String>,
    /// What its objects take.
    pub(crate) bytes: u64,
}

const COLUMNS: &str = "seq, id, account, kind, name, parent, status, request, parameters, seed, attempts, created_at, \
                       started_at, finished_at, is_cancelled, outcome, warnings, fruitless, \
                       coalesce(bytes, 0)";

fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow {
        seq: row.get(0)?,
        id: row.get(1)?,
        account: row.get(2)?,
        kind: row.get(3)?,
        name: row.get(4)?,
        parent: row.get(5)?,
        status: row.get(6)?,
        request: row.get(7)?,
        parameters: row.get(8)?,
        seed: row.get(9)?,
        attempts: row.get(10)?,
        created_at: row.get(11)?,
        started_at: row.get(12)?,
        finished_at: row.get(13)?,
        is_cancelled: row.get(14)?,
        outcome: row.get(15)?,
        warnings: row.get(16)?,
        fruitless: row.get(17)?,
        bytes: row.get(18)?,
    })
}

/// The one place where a task's state changes. States move forward: `queued`, `running`, an end;
/// back to `queued` only for another attempt, to be extended or to be retried.
fn transition(tx: &Transaction<'_>, id: &str, from: &[&str], to: &str) -> rusqlite::Result<bool> {
    let sql = "update task set status = ? where id = ? and status = ?";
    for state in from {
        if tx.prepare_cached(sql)?.execute(params![to, id, state])? == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Open tasks of disabled accounts that are not to be cancelled yet. Accounts first: SQLite would look
/// through everything that is queued.
pub(super) const OF_DISABLED: &str = "
    select task.id from account cross join task on task.account = account.id
    where disabled_at is not null and status in ('queued', 'running') and lane in (0, 1) and is_cancelled = 0";

/// Ends a task that is queued for the first time, and marks any other that is open, for its attempts have
/// left something; whether it has ended.
fn cancel(tx: &Transaction<'_>, id: &str, now: i64) -> rusqlite::Result<bool> {
    let sql = "select attempts > 0 or bundle is not null from task where id = ?";
    let has_left: bool = tx.prepare_cached(sql)?.query_row([id], |row| row.get(0))?;
    if !has_left && transition(tx, id, &["queued"], "cancelled")? {
        let sql = "update task set finished_at = ?, outcome = '{}', bytes = 0 where id = ?";
        tx.prepare_cached(sql)?.execute(params![now, id])?;
    }
    let sql = "update task set is_cancelled = 1 where id = ? and status in ('queued', 'running')";
    Ok(tx.prepare_cached(sql)?.execute([id])? == 0)
}

/// What an account may have; 0 is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Tasks that have not ended.
    pub(crate) open_tasks: u32,
    /// What it may hold.
    pub(crate) bytes: u64,
}

impl Allowance {
    /// Refuses another open task that adds so many bytes. Tasks are counted as far as it matters.
    fn has_room(self, tx: &Transaction<'_>, account: i64, added: i64) -> rusqlite::Result<Result<(), Unqueued>> {
        let sql = "
            select 1 from task
            where account = ? and status in ('queued', 'running') and lane in (0, 1) limit 1 offset ?";
        if self.open_tasks > 0 && tx.prepare_cached(sql)?.exists(params![account, self.open_tasks - 1])? {
            return Ok(Err(Unqueued::TooMany));
        }
        Ok(has_quota(tx, account, added, self.bytes)?.map_err(Unqueued::OverQuota))
    }
}

/// Queues a task that has ended, when it is in one of these states and its account has room for the bytes
/// that it may come to write.
fn queue_again(
    tx: &Transaction<'_>,
    id: &str,
    from: &[&str],
    bytes: i64,
    allowance: Allowance,
) -> rusqlite::Result<Result<(), Unqueued>> {
    let sql = "select account, status, coalesce(bytes, 0) from task where id = ?";
    let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found = tx.prepare_cached(sql)?.query_row([id], found).optional()?;
    let Some((account, status, held)): Option<(i64, String, i64)> = found else {
        return Ok(Err(Unqueued::Deleted(id.to_owned())));
    };
    if !from.contains(&status.as_str()) {
        return Ok(Err(Unqueued::InState(id.to_owned(), status)));
    }
    if let Err(reason) = allowance.has_room(tx, account, bytes - held)? {
        return Ok(Err(reason));
    }
    transition(tx, id, from, "queued")?;
    tx.prepare_cached("update task set bytes = ? where id = ?")?.execute(params![bytes.max(held), id])?;
    Ok(Ok(()))
}

impl Db {
    /// Queues a task that reads these files; `seq` and the times of its run are ignored.
    pub(crate) async fn create_task(
        &self,
        task: TaskRow,
        inputs: Vec<String>,
        allowance: Allowance,
        claim: Claim,
        answer: Answer,
    ) -> Result<Once<Unqueued>> {
        self.write_once(claim, answer, Some(task.id.clone()), move |tx| {
            if let Err(reason) = allowance.has_room(tx, task.account, task.bytes)? {
                return Ok(Err(reason));
            }
            if let Some(parent) = &task.parent
                && !tx.prepare_cached("select 1 from task where id = ?")?.exists([parent])?
            {
                return Ok(Err(Unqueued::Deleted(parent.clone())));
            }
            for file in &inputs {
                if !tx.prepare_cached("select 1 from file where id = ? and status = 'ready'")?.exists([file])? {
                    return Ok(Err(Unqueued::Deleted(file.clone())));
                }
            }
            let sql = "
                insert into task
                    (id, account, kind, name, parent, status, request, parameters, seed, created_at, warnings, bytes)
                values (?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?)";
            let values = params![
                task.id,
                task.account,
                task.kind,
                task.name,
                task.parent,
                task.request,
                task.parameters,
                task.seed,
                task.created_at,
                task.warnings,
                task.bytes,
            ];
            tx.prepare_cached(sql)?.execute(values)?;
            for file in &inputs {
                let sql = "insert or ignore into task_input (task, file) values (?, ?)";
                tx.prepare_cached(sql)?.execute(params![task.id, file])?;
            }
            Ok(Ok(()))
        })
        .await
    }

    /// The account's task of this kind with this identifier.
    pub(crate) fn task(&self, account: i64, kind: &str, id: &str) -> rusqlite::Result<Option<TaskRow>> {
        self.read(|db| {
            let sql = format!("select {COLUMNS} from task where id = ? and account = ? and kind = ?");
            db.prepare_cached(&sql)?.query_row(params![id, account, kind], task_row).optional()
        })
    }

    /// The task that the account submitted last.
    pub(crate) fn latest_task(&self, account: i64, kind: &str) -> rusqlite::Result<Option<TaskRow>> {
        let filter = Filter::default();
        Ok(self.tasks(account, kind, &filter, 1)?.pop())
    }

    /// The analysis of a job that was submitted last, among those with this status.
    pub(crate) fn latest_analysis(
        &self,
        account: i64,
        job: &str,
        status: Option<&str>,
    ) -> rusqlite::Result<Option<TaskRow>> {
        self.read(|db| {
            let sql = format!(
                "select {COLUMNS} from task
                 where parent = ?1 and account = ?2 and kind = 'analysis' and (?3 is null or status = ?3)
                 order by seq desc limit 1"
            );
            db.prepare_cached(&sql)?.query_row(params![job, account, status], task_row).optional()
        })
    }

    /// A page of the account's tasks of a kind, newest first.
    pub(crate) fn tasks(
        &self,
        account: i64,
        kind: &str,
        filter: &Filter,
        limit: usize,
    ) -> rusqlite::Result<Vec<TaskRow>> {
        self.read(|db| {
            let values = params![account, kind, filter.before, limit as i64, filter.status, filter.name];
            db.prepare_cached(&listing(filter))?.query_map(values, task_row)?.collect()
        })
    }

    /// Layout of a task's bundle, JSON; none while there is nothing to download.
    pub(crate) fn bundle(&self, id: &str) -> rusqlite::Result<Option<String>> {
        self.read(|db| db.prepare_cached("select bundle from task where id = ?")?.query_row([id], |row| row.get(0)))
    }

    /// Tasks that are running as far as is known, oldest first.
    pub(crate) fn running_tasks(&self) -> rusqlite::Result<Vec<TaskRow>> {
        self.read(|db| {
            let sql = format!("select {COLUMNS} from task where status = 'running' order by seq");
            db.prepare_cached(&sql)?.query_map((), task_row)?.collect()
        })
    }

    /// Tasks that were cancelled while they were queued, and are to be ended.
    pub(crate) fn cancelled_queued_tasks(&self) -> rusqlite::Result<Vec<TaskRow>> {
        self.read(|db| {
            let sql = format!("select {COLUMNS} from task where status = 'queued' and is_cancelled = 1 order by seq");
            db.prepare_cached(&sql)?.query_map((), task_row)?.collect()
        })
    }

    /// The task of a lane that is to start next: that of the account with the fewest running, the
    /// oldest of these, none of a disabled one; and how many are waiting, counted to `enough`.
    pub(crate) fn next_queued(&self, lane: Lane, enough: usize) -> rusqlite::Result<Option<(TaskRow, usize)>> {
        self.read(|db| {
            // One step per account that has something queued, however much that is.
            let sql = format!(
                "with recursive waiting (account) as (
                     select min(account) from task where status = 'queued' and lane = ?1
                     union all
                     select (select min(account) from task
                             where status = 'queued' and lane = ?1 and account > waiting.account)
                     from waiting where account is not null
                 )
                 select {COLUMNS} from task
                 where seq = (
                     select (select min(seq) from task
                             where status = 'queued' and lane = ?1 and account = waiting.account)
                     from waiting join account on account.id = waiting.account
                     where disabled_at is null
                     order by (select count(*) from task
                               where status = 'running' and lane = ?1 and account = waiting.account), 1
                     limit 1
                 )"
            );
            let lane = lane as i64;
            let Some(task) = db.prepare_cached(&sql)?.query_row([lane], task_row).optional()? else { return Ok(None) };
            let count = "select count(*) from (select 1 from task where status = 'queued' and lane = ? limit ?)";
            let waiting: i64 = db.prepare_cached(count)?.query_row([lane, enough as i64], |row| row.get(0))?;
            Ok(Some((task, waiting as usize)))
        })
    }

    /// Marks a queued task as started once more; false when it is not queued any longer.
    pub(crate) async fn start_task(&self, id: String, now: i64) -> Result<bool> {
        self.write(move |tx| {
            if !transition(tx, &id, &["queued"], "running")? {
                return Ok(false);
            }
            let sql = "update task set attempts = attempts + 1, started_at = coalesce(started_at, ?) where id = ?";
            tx.prepare_cached(sql)?.execute(params![now, id])?;
            Ok(true)
        })
        .await
    }

    /// Queues a task that has succeeded once more, with other parameters and warnings; it keeps its
    /// bundle until it has another.
    pub(crate) async fn extend_task(
        &self,
        id: String,
        extended: Extended,
        allowance: Allowance,
        claim: Claim,
        answer: Answer,
    ) -> Result<Once<Unqueued>> {
        self.write_once(claim, answer, Some(id.clone()), move |tx| {
            let Extended { parameters, warnings, bytes } = extended;
            if let Err(reason) = queue_again(tx, &id, &["succeeded"], bytes, allowance)? {
                return Ok(Err(reason));
            }
            let sql = "
                update task
                set parameters = ?, warnings = ?, attempts = 0, fruitless = 0, is_cancelled = 0, finished_at = null,
                    outcome = null
                where id = ?";
            tx.prepare_cached(sql)?.execute(params![parameters, warnings, id])?;
            Ok(Ok(()))
        })
        .await
    }

    /// Queues a task that has failed or was cancelled once more; what it had come to stays.
    pub(crate) async fn retry_task(
        &self,
        id: String,
        bytes: i64,
        allowance: Allowance,
        claim: Claim,
        answer: Answer,
    ) -> Result<Once<Unqueued>> {
        self.write_once(claim, answer, Some(id.clone()), move |tx| {
            if let Err(reason) = queue_again(tx, &id, &["failed", "cancelled"], bytes, allowance)? {
                return Ok(Err(reason));
            }
            let sql =
                "update task set fruitless = 0, is_cancelled = 0, finished_at = null, outcome = null where id = ?";
            tx.prepare_cached(sql)?.execute([id])?;
            Ok(Ok(()))
        })
        .await
    }

    /// Puts a running task back into the queue, for another attempt.
    pub(crate) async fn requeue_task(&self, id: String, behind: Requeue) -> Result<bool> {
        self.write_also_when_full(move |tx| {
            if !transition(tx, &id, &["running"], "queued")? {
                return Ok(false);
            }
            let sql = match behind {
                Requeue::Progressed => "update task set fruitless = 0 where id = ?",
                Requeue::Fruitless => "update task set fruitless = fruitless + 1 where id = ?",
                Requeue::Interrupted => return Ok(true),
                Requeue::NotBegun => "update task set attempts = attempts - 1 where id = ?",
            };
            tx.prepare_cached(sql)?.execute([id])?;
            Ok(true)
        })
        .await
    }

    /// Cancels a task: one that is queued for the first time ends, any other that is open is marked, for its
    /// attempts have left something. Returns it as it is then; none when there is no such task.
    pub(crate) async fn cancel_task(
        &self,
        account: i64,
        kind: &'static str,
        id: String,
        deed: Deed,
    ) -> Result<Option<TaskRow>> {
        self.write_also_when_full(move |tx| {
            let sql = format!("select {COLUMNS} from task where id = ? and account = ? and kind = ?");
            let find = |tx: &Transaction<'_>| {
                tx.prepare_cached(&sql)?.query_row(params![id, account, kind], task_row).optional()
            };
            let Some(before) = find(tx)? else { return Ok(None) };
            cancel(tx, &id, deed.at)?;
            // To cancel what has ended, or once more, does nothing.
            if ["queued", "running"].contains(&before.status.as_str()) && !before.is_cancelled {
                note(tx, &deed, &id)?;
            }
            find(tx)
        })
        .await
    }

    /// Whether a disabled account has tasks that are open, and not to be cancelled yet.
    pub(crate) fn has_tasks_of_disabled(&self) -> rusqlite::Result<bool> {
        self.read(|db| db.prepare_cached(OF_DISABLED)?.exists(()))
    }

    /// Cancels the tasks that disabled accounts have open; those that have not ended with it.
    pub(crate) async fn cancel_tasks_of_disabled(&self, now: i64) -> Result<Vec<String>> {
        self.write_also_when_full(move |tx| {
            let mut query = tx.prepare_cached(OF_DISABLED)?;
            let ids: Vec<String> = query.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
            let mut open = Vec::new();
            for id in ids {
                if !cancel(tx, &id, now)? {
                    open.push(id);
                }
            }
            Ok(open)
        })
        .await
    }

    /// Deletes a task that has ended; its objects become garbage. Returns why not, if it was not
    /// deleted: what depends on it, or its own state.
    pub(crate) async fn delete_task(
        &self,
        account: i64,
        kind: &'static str,
        id: String,
        garbage: String,
        deed: Deed,
    ) -> Result<Deletion> {
        self.write_also_when_full(move |tx| {
            let sql = "select status from task where id = ? and account = ? and kind = ?";
            let status: Option<String> =
                tx.prepare_cached(sql)?.query_row(params![id, account, kind], |row| row.get(0)).optional()?;
            let Some(status) = status else { return Ok(Deletion::NotFound) };
            if ["queued", "running"].contains(&status.as_str()) {
                return Ok(Deletion::InState(status));
            }
            // Jobs need their system for good, an analysis its job only while it runs.
            let sql = "
                select id from task
                where parent = ? and (kind = 'job' or status in ('queued', 'running')) order by seq limit 1";
            let dependent: Option<String> = tx.prepare_cached(sql)?.query_row([&id], |row| row.get(0)).optional()?;
            if let Some(dependent) = dependent {
                return Ok(Deletion::NeededBy(dependent));
            }
            tx.execute("delete from task where id = ?", [&id])?;
            note(tx, &deed, &id)?;
            tx.execute("insert or ignore into garbage (prefix) values (?)", [garbage])?;
            Ok(Deletion::Done)
        })
        .await
    }

    /// Tasks that have ended, and whose objects nobody has measured: those of earlier versions.
    pub(crate) fn unmeasured_tasks(&self) -> rusqlite::Result<Vec<String>> {
        self.read(|db| {
            let sql = "select id from task where bytes is null and status not in ('queued', 'running')";
            db.prepare(sql)?.query_map((), |row| row.get(0))?.collect()
        })
    }

    /// Notes what the objects of such a task take.
    pub(crate) async fn set_task_bytes(&self, id: String, bytes: u64) -> Result<()> {
        self.write(move |tx| {
            let sql = "
                update task set bytes = ? where id = ? and bytes is null and status not in ('queued', 'running')";
            tx.prepare_cached(sql)?.execute(params![bytes as i64, id]).map(drop)
        })
        .await
    }

    /// Prefixes of objects that are to be removed.
    pub(crate) fn garbage(&self) -> rusqlite::Result<Vec<String>> {
        self.read(|db| db.prepare("select prefix from garbage")?.query_map((), |row| row.get(0))?.collect())
    }

    /// Forgets a prefix whose objects have been removed.
    pub(crate) async fn forget_garbage(&self, prefix: String) -> Result<()> {
        self.write_also_when_full(move |tx| tx.execute("delete from garbage where prefix = ?", [prefix]).map(drop))
            .await
    }

    /// How many tasks there are, by kind and status.
    pub(crate) fn task_counts(&self) -> rusqlite::Result<Vec<(String, String, i64)>> {
        self.read(|db| {
            let sql = "select kind, status, n from task_count order by kind, status";
            db.prepare_cached(sql)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
    }

    /// Ends a task; false when it has ended already.
    pub(crate) async fn end_task(&self, id: String, end: End, now: i64) -> Result<bool> {
        self.write_also_when_full(move |tx| {
            if !transition(tx, &id, &["running", "queued"], end.status)? {
                return Ok(false);
            }
            let sql =
                "update task set finished_at = ?, outcome = ?, bundle = coalesce(?, bundle), bytes = ? where id = ?";
            tx.prepare_cached(sql)?.execute(params![now, end.outcome, end.bundle, end.bytes as i64, id])?;
            Ok(true)
        })
        .await
    }
}

/// The query of a page. It has the conditions that are asked for only, so that each has its index.
pub(super) fn listing(filter: &Filter) -> String {
    let status = if filter.status.is_some() { "status = ?5" } else { "?5 is null" };
    let name = if filter.name.is_some() { "name = ?6" } else { "?6 is null" };
    format!(
        "select {COLUMNS} from task
         where account = ?1 and kind = ?2 and seq < coalesce(?3, 9223372036854775807) and {status} and {name}
         order by seq desc limit ?4"
    )
}
