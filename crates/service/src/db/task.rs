//! Systems, jobs and analyses: work that is queued, runs and ends.

use jiff::Timestamp;

use super::audit::note;
use super::garbage::discard_object;
use super::hours::has_hours;
use super::quota::{fits, most_bytes};
use super::webhook::{Report, report};
use super::words::{has_ended, is_open};
use super::{
    Answer, Db, Deed, Filter, IdempotentWrite, Once, OverHours, OverQuota, Period, Result, Row,
    Scope, Tx, values,
};
use crate::record::{Ended, FileStatus, Kind, NewTask, Status, Task};

/// A task of a listing.
pub(crate) enum Listed<K> {
    /// One that has ended, by what was known of it, with its `seq`.
    Known(i64, K),
    Read(Box<Task>),
}

impl<K> Listed<K> {
    pub(crate) fn seq(&self) -> i64 {
        match self {
            Self::Known(seq, _) => *seq,
            Self::Read(task) => task.seq,
        }
    }
}

/// What changes of a task that is extended.
#[derive(Clone, Debug)]
pub(crate) struct Extended {
    pub(crate) parameters: String,
    pub(crate) warnings: String,
    /// What it may come to write in all.
    pub(crate) bytes: i64,
}

/// Why a task was not queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unqueued {
    /// The account has so many tasks that have not ended, as many as it may.
    TooMany(i64),
    /// The account would hold more than it may.
    OverQuota(OverQuota),
    /// The account was served as long as it may be.
    OverHours(OverHours),
    /// This task is in this state by now, which does not allow it.
    InState(String, Status),
    /// This file or task, which it reads or is itself, has been deleted in the meantime.
    Deleted(String),
    /// The account has been disabled.
    Disabled,
}

/// What became of a request to delete something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    Done,
    NotFound,
    /// It is in this state, which does not allow it.
    InState(Status),
    /// It was cancelled, and has not ended yet.
    Cancelling,
    /// This still needs it.
    NeededBy(String),
}

/// A task that has not ended, of any account, without what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) seq: i64,
    pub(crate) id: String,
    /// Name of the account.
    pub(crate) account: String,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    pub(crate) is_cancelled: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
}

const WAITING: &str = "
    select seq, task.id, account.name, kind, status, is_cancelled, task.created_at, started_at
    from task join account on account.id = task.account";

fn waiting(row: &Row<'_>) -> Result<Waiting> {
    Ok(Waiting {
        seq: row.get(0)?,
        id: row.get(1)?,
        account: row.get(2)?,
        kind: row.get(3)?,
        status: row.get(4)?,
        is_cancelled: row.get(5)?,
        created_at: row.get(6)?,
        started_at: row.get(7)?,
    })
}

/// The query of a page of the queue. What is open is found first: SQLite would look through all
/// tasks in their order for those that are.
pub(super) fn queue_listing(filter: &Filter) -> String {
    let status = match filter.status {
        Some(_) => "status = ?3".to_owned(),
        None => format!("{} and cast(?3 as text) is null", is_open()),
    };
    format!(
        "{WAITING} where seq in (select seq from task where {status} and lane in (0, 1))
             and seq < coalesce(?1, 9223372036854775807)
         order by seq desc limit ?2"
    )
}

pub(super) const COLUMNS: &str = "seq, id, account, kind, name, parent, status, request, parameters, seed, attempts, created_at, \
                       started_at, finished_at, is_cancelled, outcome, warnings, fruitless, \
                       coalesce(bytes, 0), priority, expires_at";

/// Places among them.
const SEQ: usize = 0;
const ID: usize = 1;
const FINISHED_AT: usize = 13;
const EXPIRES_AT: usize = 20;

pub(super) fn task(row: &Row<'_>) -> Result<Task> {
    Ok(Task {
        seq: row.get(SEQ)?,
        id: row.get(ID)?,
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
        finished_at: row.get(FINISHED_AT)?,
        is_cancelled: row.get(14)?,
        outcome: row.get(15)?,
        warnings: row.get(16)?,
        fruitless: row.get(17)?,
        bytes: row.get(18)?,
        priority: row.get(19)?,
        expires_at: row.get(EXPIRES_AT)?,
    })
}

/// The one place where a task's state changes. States move forward: queued, running, an end;
/// back to queued only for another attempt, to be extended or to be retried.
pub(super) fn transition(tx: &Tx<'_>, id: &str, from: &[Status], to: Status) -> Result<bool> {
    let sql = "update task set status = ?1 where id = ?2 and status = ?3";
    for state in from {
        if tx.execute(sql, values![to, id, state])? == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The query of what was cancelled and has not ended.
pub(super) fn cancelled() -> String {
    format!("select {COLUMNS} from task where {} and is_cancelled = 1", is_open())
}

/// Cancels what an account has open.
pub(super) fn cancel_all(tx: &Tx<'_>, account: i64, now: Timestamp) -> Result<()> {
    let sql = format!(
        "select id from task where account = ?1 and {} and lane in (0, 1) and is_cancelled = 0",
        is_open()
    );
    let ids: Vec<String> = tx.all(&sql, values![account], |row| row.get(0))?;
    ids.iter().try_for_each(|id| cancel(tx, id, now))
}

/// Ends a task that is queued for the first time, and marks any other that is open, for its
/// attempts have left something.
fn cancel(tx: &Tx<'_>, id: &str, now: Timestamp) -> Result<()> {
    let sql = "
        select attempts > 0 or exists (select 1 from bundle where task = ?1)
        from task where id = ?1";
    let has_left: bool = tx.one(sql, values![id], |row| row.get(0))?;
    if !has_left && transition(tx, id, &[Status::Queued], Status::Cancelled)? {
        let sql = "update task set finished_at = ?1, outcome = '{}', bytes = 0 where id = ?2";
        tx.execute(sql, values![now, id])?;
        report(tx, id, now, Report::Ended)?;
    }
    let sql = format!("update task set is_cancelled = 1 where id = ?1 and {}", is_open());
    tx.execute(&sql, values![id])?;
    Ok(())
}

/// What an account may have that has no limits of its own; 0 is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Tasks that have not ended.
    pub(crate) open_tasks: u32,
    /// What it may hold.
    pub(crate) bytes: u64,
    /// How long its tasks may have slots, in h, in so many days.
    pub(crate) hours: u32,
    pub(crate) hours_days: u32,
}

impl Allowance {
    /// Refuses another open task that adds so many bytes. Tasks are counted as far as it matters.
    fn has_room(
        self,
        tx: &Tx<'_>,
        account: i64,
        added: i64,
        now: Timestamp,
    ) -> Result<Result<(), Unqueued>> {
        let own = "
            select coalesce(most_open_tasks, ?2), coalesce(most_hours, ?3), bytes,
                coalesce(most_bytes, ?4)
            from account where id = ?1 and disabled_at is null";
        let [tasks, hours] = [self.open_tasks, self.hours].map(i64::from);
        let own: Option<(i64, i64, i64, i64)> =
            tx.first(own, values![account, tasks, hours, most_bytes(self.bytes)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
        let Some((tasks, hours, held, bytes)) = own else { return Ok(Err(Unqueued::Disabled)) };
        let sql = format!(
            "select 1 from task where account = ?1 and {} and lane in (0, 1) limit 1 offset ?2",
            is_open()
        );
        if tasks > 0 && tx.exists(&sql, values![account, tasks - 1])? {
            return Ok(Err(Unqueued::TooMany(tasks)));
        }
        let period = Period { now, days: self.hours_days };
        if let Err(over) = has_hours(tx, account, hours, period)? {
            return Ok(Err(Unqueued::OverHours(over)));
        }
        Ok(fits(held, added, bytes).map_err(Unqueued::OverQuota))
    }
}

/// Queues a task that has ended, when it is in one of these states and its account has room for the
/// bytes that it may come to write.
fn queue_again(
    tx: &Tx<'_>,
    id: &str,
    from: &[Status],
    bytes: i64,
    allowance: Allowance,
    now: Timestamp,
) -> Result<Result<(), Unqueued>> {
    let sql = "select account, status, coalesce(bytes, 0) from task where id = ?1";
    let found: Option<(i64, Status, i64)> =
        tx.first(sql, values![id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let Some((account, status, held)) = found else {
        return Ok(Err(Unqueued::Deleted(id.to_owned())));
    };
    if !from.contains(&status) {
        return Ok(Err(Unqueued::InState(id.to_owned(), status)));
    }
    if let Err(reason) = allowance.has_room(tx, account, bytes - held, now)? {
        return Ok(Err(reason));
    }
    transition(tx, id, from, Status::Queued)?;
    let sql = "update task set bytes = ?1, queued_at = ?2 where id = ?3";
    tx.execute(sql, values![bytes.max(held), now, id])?;
    use_again(tx, id)?;
    Ok(Ok(()))
}

/// Takes back that something is deleted, for it is used again.
fn use_again(tx: &Tx<'_>, id: &str) -> Result<()> {
    let sql = "
        update task set expires_at = null, announced_at = null
        where id = ?1 and expires_at is not null";
    tx.execute(sql, values![id]).map(drop)
}

/// What still needs a task. Jobs need their system for good, an analysis what it reads only while
/// it runs.
pub(super) fn needed_by(tx: &Tx<'_>, id: &str) -> Result<Option<String>> {
    let sql = format!(
        "select id from task
         where parent = ?1 and (kind = ?2 or {open})
            or id in (select task from task_reference where reference = ?1) and {open}
         order by seq limit 1",
        open = is_open()
    );
    tx.first(&sql, values![id, Kind::Job], |row| row.get(0))
}

/// What a task reads.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Registered files.
    pub(crate) files: Vec<String>,
    /// A job or a system, besides its parent.
    pub(crate) reference: Option<String>,
}

impl Db {
    /// Queues a task that reads these.
    pub(crate) async fn create_task(
        &self,
        task: NewTask,
        reads: Reads,
        allowance: Allowance,
        write: IdempotentWrite,
        answer: Answer,
    ) -> Result<Once<Unqueued>> {
        let now = write.now;
        self.write_once(write, answer, Some(task.id.clone()), move |tx| {
            if let Err(reason) = allowance.has_room(tx, task.account, task.bytes, now)? {
                return Ok(Err(reason));
            }
            for needed in task.parent.iter().chain(&reads.reference) {
                let sql = "select expires_at is not null from task where id = ?1";
                match tx.first(sql, values![needed], |row| row.get(0))? {
                    None => return Ok(Err(Unqueued::Deleted(needed.clone()))),
                    Some(true) => use_again(tx, needed)?,
                    Some(false) => {}
                }
            }
            for file in &reads.files {
                let sql = "select 1 from file where id = ?1 and status = ?2";
                if !tx.exists(sql, values![file, FileStatus::Ready])? {
                    return Ok(Err(Unqueued::Deleted(file.clone())));
                }
            }
            let sql = "
                insert into task
                    (id, account, kind, name, parent, status, request, parameters, seed, created_at,
                     warnings, bytes, priority, queued_at)
                values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?10)";
            let values = values![
                task.id,
                task.account,
                task.kind,
                task.name,
                task.parent,
                Status::Queued,
                task.request,
                task.parameters,
                task.seed,
                task.created_at,
                task.warnings,
                task.bytes,
                task.priority,
            ];
            tx.execute_later(sql, values)?;
            for file in &reads.files {
                let sql =
                    "insert into task_input (task, file) values (?1, ?2) on conflict do nothing";
                tx.execute_later(sql, values![task.id, file])?;
            }
            if let Some(reference) = &reads.reference {
                let sql = "insert into task_reference (task, reference) values (?1, ?2)";
                tx.execute_later(sql, values![task.id, reference])?;
            }
            Ok(Ok(()))
        })
        .await
    }

    /// The account's task of this kind with this identifier.
    pub(crate) async fn task(&self, account: i64, kind: Kind, id: &str) -> Result<Option<Task>> {
        self.read(|tx| find(tx, account, kind, id)).await
    }

    /// The task that the account submitted last.
    pub(crate) async fn latest_task(&self, account: i64, kind: Kind) -> Result<Option<Task>> {
        let filter = Filter::default();
        Ok(self.tasks(account, kind, &filter, 1).await?.pop())
    }

    /// The analysis of a job that was submitted last, among those with this status.
    pub(crate) async fn latest_analysis(
        &self,
        account: i64,
        job: &str,
        status: Option<Status>,
    ) -> Result<Option<Task>> {
        let sql = format!(
            "select {COLUMNS} from task
             where parent = ?1 and account = ?2 and kind = ?4
                 and (cast(?3 as text) is null or status = ?3)
             order by seq desc limit 1"
        );
        self.read(|tx| tx.first(&sql, values![job, account, status, Kind::Analysis], task)).await
    }

    /// A page of the account's tasks of a kind, newest first.
    pub(crate) async fn tasks(
        &self,
        account: i64,
        kind: Kind,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Task>> {
        self.read(|tx| page(tx, account, kind, filter, limit, task)).await
    }

    /// The same; of one that has ended what `known` has of it since then, if it has it.
    pub(crate) async fn tasks_or<K>(
        &self,
        account: i64,
        kind: Kind,
        filter: &Filter,
        limit: usize,
        known: impl Fn(&str, Ended) -> Option<K>,
    ) -> Result<Vec<Listed<K>>> {
        let listed = |row: &Row<'_>| {
            let finished_at: Option<Timestamp> = row.get(FINISHED_AT)?;
            let known = match finished_at {
                Some(finished_at) => {
                    let ended = Ended { finished_at, expires_at: row.get(EXPIRES_AT)? };
                    known(&row.get::<String>(ID)?, ended)
                }
                None => None,
            };
            Ok(match known {
                Some(known) => Listed::Known(row.get(SEQ)?, known),
                None => Listed::Read(Box::new(task(row)?)),
            })
        };
        self.read(|tx| page(tx, account, kind, filter, limit, listed)).await
    }

    /// The account's tasks of all kinds that are open, and those that ended at this time or after it
    /// or of which it was announced then that they are deleted, oldest first.
    pub(crate) async fn open_and_ended(&self, account: i64, since: Timestamp) -> Result<Vec<Task>> {
        let (open, ended) = (is_open(), has_ended());
        let sql = format!(
            "select {COLUMNS} from task where account = ?1 and {open} and lane in (0, 1)
             union all
             select {COLUMNS} from task where account = ?1 and finished_at >= ?2 and {ended}
             union all
             select {COLUMNS} from task
             where account = ?1 and announced_at >= ?2 and finished_at < ?2 and {ended}
             order by 1"
        );
        self.read(|tx| tx.all(&sql, values![account, since], task)).await
    }

    /// Layout of a task's bundle, JSON; none when there is no such task, and none within while there
    /// is nothing to download.
    pub(crate) async fn bundle(&self, id: &str) -> Result<Option<Option<String>>> {
        let sql = "
            select layout from task left join bundle on bundle.task = task.id where task.id = ?1";
        self.read(|tx| tx.first(sql, values![id], |row| row.get(0))).await
    }

    /// Whether a task is queued or runs.
    pub(crate) async fn is_open(&self, id: &str) -> Result<bool> {
        let sql = "select 1 from task where id = ?1 and status in (?2, ?3)";
        self.read(|tx| tx.exists(sql, values![id, Status::Queued, Status::Running])).await
    }

    /// Open tasks that were cancelled, and are to be ended.
    pub(crate) async fn cancelled_tasks(&self) -> Result<Vec<Task>> {
        self.read(|tx| tx.all(&cancelled(), &[], task)).await
    }

    /// Queues a task that has succeeded once more, with other parameters and warnings; it keeps its
    /// bundle until it has another.
    pub(crate) async fn extend_task(
        &self,
        id: String,
        extended: Extended,
        allowance: Allowance,
        write: IdempotentWrite,
        answer: Answer,
    ) -> Result<Once<Unqueued>> {
        let now = write.now;
        self.write_once(write, answer, Some(id.clone()), move |tx| {
            let Extended { parameters, warnings, bytes } = extended;
            let from = [Status::Succeeded];
            if let Err(reason) = queue_again(tx, &id, &from, bytes, allowance, now)? {
                return Ok(Err(reason));
            }
            let sql = "
                update task
                set parameters = ?1, warnings = ?2, fruitless = 0, is_cancelled = 0,
                    finished_at = null, outcome = null
                where id = ?3";
            tx.execute(sql, values![parameters, warnings, id])?;
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
        write: IdempotentWrite,
        answer: Answer,
    ) -> Result<Once<Unqueued>> {
        let now = write.now;
        self.write_once(write, answer, Some(id.clone()), move |tx| {
            let from = [Status::Failed, Status::Cancelled];
            if let Err(reason) = queue_again(tx, &id, &from, bytes, allowance, now)? {
                return Ok(Err(reason));
            }
            let sql = "
                update task
                set fruitless = 0, is_cancelled = 0, finished_at = null, outcome = null
                where id = ?1";
            tx.execute(sql, values![id])?;
            Ok(Ok(()))
        })
        .await
    }

    /// Cancels a task: one that is queued for the first time ends, any other that is open is
    /// marked, for its attempts have left something. Returns it as it is then; none when there is
    /// no such task.
    pub(crate) async fn cancel_task(
        &self,
        account: i64,
        kind: Kind,
        id: String,
        deed: Deed,
    ) -> Result<Option<Task>> {
        self.write_also_when_full(Scope::Account(account), move |tx| {
            let Some(before) = find(tx, account, kind, &id)? else { return Ok(None) };
            cancel(tx, &id, deed.at)?;
            // To cancel what has ended, or once more, does nothing.
            if before.status.is_open() && !before.is_cancelled {
                note(tx, &deed, &id)?;
            }
            find(tx, account, kind, &id)
        })
        .await
    }

    /// A page of what is queued and runs, of all accounts, what was submitted last first.
    pub(crate) async fn queue(&self, filter: &Filter, limit: usize) -> Result<Vec<Waiting>> {
        let sql = queue_listing(filter);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(|tx| tx.all(&sql, values![filter.before, limit, filter.status()], waiting)).await
    }

    /// Cancels a task of any account, as [`Self::cancel_task`] does.
    pub(crate) async fn cancel_of_any(&self, id: String, deed: Deed) -> Result<Option<Waiting>> {
        self.write_also_when_full(Scope::Rows, move |tx| {
            let sql = "select account from task where id = ?1";
            let account: Option<i64> = tx.first(sql, values![id], |row| row.get(0))?;
            let Some(account) = account else { return Ok(None) };
            tx.lock(Scope::Account(account))?;
            let sql = format!("{WAITING} where task.id = ?1");
            let Some(before) = tx.first(&sql, values![id], waiting)? else { return Ok(None) };
            cancel(tx, &id, deed.at)?;
            if before.status.is_open() && !before.is_cancelled {
                note(tx, &deed, &id)?;
            }
            tx.first(&sql, values![id], waiting)
        })
        .await
    }

    /// Deletes a task that has ended; its objects become garbage. Returns why not, if it was not
    /// deleted: what depends on it, or its own state.
    pub(crate) async fn delete_task(
        &self,
        account: i64,
        kind: Kind,
        id: String,
        garbage: String,
        deed: Deed,
    ) -> Result<Deletion> {
        let kept = self.kept;
        self.write_also_when_full(Scope::Account(account), move |tx| {
            let sql = "
                select status, is_cancelled from task where id = ?1 and account = ?2 and kind = ?3";
            let found: Option<(Status, bool)> =
                tx.first(sql, values![id, account, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((status, is_cancelled)) = found else { return Ok(Deletion::NotFound) };
            if status.is_open() && is_cancelled {
                return Ok(Deletion::Cancelling);
            }
            if status.is_open() {
                return Ok(Deletion::InState(status));
            }
            if let Some(dependent) = needed_by(tx, &id)? {
                return Ok(Deletion::NeededBy(dependent));
            }
            tx.execute("delete from task where id = ?1", values![id])?;
            note(tx, &deed, &id)?;
            discard_object(tx, &garbage, kept, deed.at)?;
            Ok(Deletion::Done)
        })
        .await
    }

    /// Tasks that have ended, and whose objects nobody has measured: those of earlier versions.
    pub(crate) async fn unmeasured_tasks(&self) -> Result<Vec<String>> {
        let sql = format!("select id from task where bytes is null and {}", has_ended());
        self.read(|tx| tx.all(&sql, &[], |row| row.get(0))).await
    }

    /// Notes what the objects of such a task take.
    pub(crate) async fn set_task_bytes(&self, id: String, bytes: u64) -> Result<()> {
        self.write(Scope::Rows, move |tx| {
            let sql = format!(
                "update task set bytes = ?1 where id = ?2 and bytes is null and {}",
                has_ended()
            );
            tx.execute(&sql, values![bytes as i64, id]).map(drop)
        })
        .await
    }

    /// How many tasks there are, by kind and status.
    pub(crate) async fn task_counts(&self) -> Result<Vec<(Kind, Status, i64)>> {
        let sql = "
            select kind, status, cast(sum(n) as bigint) from task_count
            group by kind, status order by kind, status";
        self.read(|tx| tx.all(sql, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))).await
    }
}

fn find(tx: &Tx<'_>, account: i64, kind: Kind, id: &str) -> Result<Option<Task>> {
    let sql = format!("select {COLUMNS} from task where id = ?1 and account = ?2 and kind = ?3");
    tx.first(&sql, values![id, account, kind], task)
}

/// A page, of whose rows no more is read than is asked for.
fn page<T>(
    tx: &Tx<'_>,
    account: i64,
    kind: Kind,
    filter: &Filter,
    limit: usize,
    of_row: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let Filter { before, name, .. } = filter;
    let (sql, limit) = (listing(filter), limit as i64);
    tx.all(&sql, values![account, kind, before, limit, filter.status(), name], of_row)
}

/// The query of a page. It has the conditions that are asked for only, so that each has its index.
pub(super) fn listing(filter: &Filter) -> String {
    let status = if filter.status.is_some() { "status = ?5" } else { "cast(?5 as text) is null" };
    let name = if filter.name.is_some() { "name = ?6" } else { "cast(?6 as text) is null" };
    format!(
        "select {COLUMNS} from task
         where account = ?1 and kind = ?2 and seq < coalesce(?3, 9223372036854775807)
             and {status} and {name}
         order by seq desc limit ?4"
    )
}
