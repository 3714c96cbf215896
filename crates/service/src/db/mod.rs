//! The database, and the only SQL: an embedded SQLite file.
//!
//! Reads run where they are asked for, on a connection of a small pool: they take microseconds.
//! Writes go to one thread, which puts those that wait together into one transaction and one
//! fsync; a write is on disk when its `await` returns. What makes room is possible on a full disk.

mod account;
mod audit;
mod file;
mod idempotency;
mod task;
mod whole;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use crate::error::{is_damage, is_full};
use crate::folder::{self, DATABASE, Displaced, Folder};
use crate::reserve::Reserve;

pub(crate) use account::{KeyRow, NewKey, OverQuota};
pub(crate) use audit::{Deed, Entry, Search};
pub(crate) use file::{Arrival, FileRow, Pending, Unregistered};
pub(crate) use idempotency::{Answer, Before, Claim, Once};
pub(crate) use task::{Allowance, Deletion, End, Extended, Lane, Requeue, TaskRow, Unqueued};
pub(crate) use whole::{Content, Whole, snapshot};

const MIGRATIONS: [&str; 6] = [
    include_str!("0001.sql"),
    include_str!("0002.sql"),
    include_str!("0003.sql"),
    include_str!("0004.sql"),
    include_str!("0005.sql"),
    include_str!("0006.sql"),
];
/// Prepared statements that a connection keeps: all that there are.
const STATEMENTS: usize = 200;
/// Writes that are put into one transaction at most.
const MAX_BATCH: usize = 256;

/// How long another program may hold the database.
const BUSY: Duration = Duration::from_secs(10);

/// Called with the transaction, or with why there is none; the error of this write comes back.
type Write = Box<dyn FnOnce(Result<&Transaction<'_>, NotWritten>) -> (Finish, Option<NotWritten>) + Send>;
/// Called with whether the transaction was committed.
type Finish = Box<dyn FnOnce(Result<(), NotWritten>) + Send>;

/// The database.
pub(crate) struct Db {
    readers: Mutex<Vec<Connection>>,
    path: PathBuf,
    writer: mpsc::Sender<Write>,
    reserve: Reserve,
    /// Where the service watches its folder, what it watches: nothing is committed elsewhere.
    folder: Arc<OnceLock<Folder>>,
}

/// Why nothing of a transaction was written, for all whose writes were in it.
#[derive(Clone, Debug)]
pub(crate) enum NotWritten {
    Sqlite(Arc<rusqlite::Error>),
    Displaced(Displaced),
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write to the database")
    }
}

impl std::error::Error for NotWritten {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Sqlite(error) => Some(&**error),
            Self::Displaced(displaced) => Some(displaced),
        }
    }
}

impl From<rusqlite::Error> for NotWritten {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

/// What a listing shows: one page of an account's items, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only items older than the one with this number.
    pub(crate) before: Option<i64>,
    pub(crate) status: Option<String>,
    pub(crate) name: Option<String>,
}

impl Db {
    /// Opens the database of a data folder, makes it when the folder is new, and brings it up to date.
    ///
    /// # Errors
    ///
    /// Also when there is content in the folder that no database knows of.
    pub(crate) fn open(data: &Path) -> Result<Self> {
        folder::check_database(data)?;
        let (path, reserve) = (data.join(DATABASE), Reserve::of(data));
        // A log beside the database, and an index of it, are made when it is opened.
        let connection = reserve.with(|| connect(&path)).map_err(|error| name_damage(&path, error))?;
        if is_unused(&connection)?
            && let Some(stray) = folder::stray(data)
        {
            folder::refuse(data, &stray, "a database that is empty")?;
        }
        let (writer, writes) = mpsc::channel();
        let watched = Arc::new(OnceLock::new());
        let folder = watched.clone();
        thread::Builder::new()
            .name("database".to_owned())
            .spawn(move || write_all(connection, &writes, &watched))
            .context("start the database's thread")?;
        Ok(Self { readers: Mutex::default(), path, writer, reserve, folder })
    }

    /// Has nothing be written from now on unless the folder is in its place.
    pub(crate) fn watch(&self, folder: Folder) {
        // There is one for each process.
        let _ = self.folder.set(folder);
    }

    /// Whether the folder is in its place, as far as it is watched.
    pub(crate) fn check_folder(&self) -> Result<(), Displaced> {
        self.folder.get().map_or(Ok(()), Folder::check)
    }

    /// Whether the file is whole; false when that could not be told in `limit`.
    pub(crate) fn check(&self, limit: Duration) -> Result<bool> {
        let end = Instant::now().checked_add(limit);
        let mut connection = reader(&self.path)?;
        // Asked every some ten thousand steps of SQLite's machine, which take less than a millisecond.
        connection.progress_handler(10_000, Some(move || end.is_some_and(|end| Instant::now() > end)))?;
        match connection.query_row("pragma quick_check(5)", (), |row| row.get::<_, String>(0)) {
            Ok(verdict) if verdict == "ok" => Ok(true),
            Ok(verdict) => Err(anyhow!(verdict).context(damaged(&self.path))),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(false),
            Err(error) => Err(name_damage(&self.path, error.into())),
        }
    }

    /// Reads; `query` must be short, for it runs on the caller's thread.
    fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let pooled = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match pooled {
            Some(connection) => connection,
            None => reader(&self.path)?,
        };
        let result = query(&connection);
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        result
    }

    /// Writes; when this returns, it is on disk. An error undoes this write alone.
    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, result) = oneshot::channel();
        let write: Write = Box::new(move |transaction| {
            let result = transaction.and_then(|tx| within_savepoint(tx, change).map_err(NotWritten::from));
            let error = result.as_ref().err().cloned();
            // Nobody waits any more when the request was dropped.
            let finish = move |committed: Result<(), NotWritten>| {
                drop(answer.send(result.and_then(|value| committed.map(|()| value))));
            };
            (Box::new(finish) as Finish, error)
        });
        self.writer.send(write).map_err(|_| anyhow!("the database's thread has ended"))?;
        Ok(result.await.context("the database's thread has ended")??)
    }

    /// The same for what makes room, or ends what takes it: on a full disk with the room that is kept
    /// for it.
    async fn write_also_when_full<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        match self.write(change.clone()).await {
            Err(error) if is_full(&error) && self.reserve.release() => self.write(change).await,
            done => done,
        }
    }
}

/// An error, with the file and the remedy if the file is damaged.
fn name_damage(path: &Path, error: anyhow::Error) -> anyhow::Error {
    if is_damage(&error) { error.context(damaged(path)) } else { error }
}

fn damaged(path: &Path) -> String {
    format!("{} is damaged; restore it from a backup", path.display())
}

/// A connection that writes, to a database that is up to date.
fn connect(path: &Path) -> Result<Connection> {
    let mut connection = Connection::open(path).with_context(|| format!("open {}", path.display()))?;
    connection.busy_timeout(BUSY)?;
    let opened = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        keep_statements(&connection)
    };
    opened().with_context(|| format!("open {}", path.display()))?;
    migrate(&mut connection).with_context(|| format!("bring {} up to date", path.display()))?;
    Ok(connection)
}

/// A connection that reads.
fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    keep_statements(&connection)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Whether a database has never held anything but accounts: a number was never drawn for a file or a
/// task.
fn is_unused(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "select not exists (select 1 from sqlite_sequence where name in ('file', 'task'))";
    connection.query_row(sql, (), |row| row.get(0))
}

/// Has a connection keep its statements as they were planned. SQLite would plan again for each new
/// value, which takes longer than most queries; every query here has the index that it needs.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn within_savepoint<T>(
    transaction: &Transaction<'_>,
    change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // Kept prepared: parsing them took longer than running them.
    let run = |sql| transaction.prepare_cached(sql)?.execute(());
    run("savepoint one")?;
    let result = change(transaction);
    if result.is_ok() {
        run("release one")?;
    } else if let Err(error) = run("rollback to one").and_then(|_| run("release one")) {
        // The whole transaction is undone already; the first error is the one that counts.
        tracing::debug!(%error, "undo a write");
    }
    result
}

/// The database's thread: ends when the last `Db` is gone.
fn write_all(mut connection: Connection, writes: &mpsc::Receiver<Write>, folder: &OnceLock<Folder>) {
    while let Ok(first) = writes.recv() {
        let (finishes, committed) = write_batch(&mut connection, first, writes, folder);
        if let Err(error) = &committed {
            tracing::error!(cause = format!("{:#}", anyhow!(error.clone())), "database transaction failed");
        }
        for finish in finishes {
            finish(committed.clone());
        }
    }
}

/// Puts the writes that wait into one transaction; who is to be told, and what.
fn write_batch(
    connection: &mut Connection,
    first: Write,
    writes: &mpsc::Receiver<Write>,
    folder: &OnceLock<Folder>,
) -> (Vec<Finish>, Result<(), NotWritten>) {
    let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(transaction) => transaction,
        Err(error) => {
            // Those that wait have waited, too.
            let error = NotWritten::from(error);
            let all = [first].into_iter().chain(writes.try_iter());
            return (all.map(|write| write(Err(error.clone())).0).collect(), Err(error));
        }
    };
    let mut finishes = Vec::new();
    let mut next = Some(first);
    while let Some(write) = next.take() {
        let (finish, error) = write(Ok(&transaction));
        finishes.push(finish);
        // SQLite undoes the whole transaction by itself on some errors, a full disk among them. What
        // followed would be committed one by one, and be reported as not written.
        if transaction.is_autocommit() {
            let error = error.unwrap_or_else(|| NotWritten::from(rusqlite::Error::InvalidQuery));
            return (finishes, Err(error));
        }
        if finishes.len() < MAX_BATCH {
            next = writes.try_recv().ok();
        }
    }
    let in_place = folder.get().map_or(Ok(()), Folder::check);
    let committed = match in_place {
        Ok(()) => transaction.commit().map_err(NotWritten::from),
        // Undone as it is dropped.
        Err(displaced) => Err(NotWritten::Displaced(displaced)),
    };
    (finishes, committed)
}

fn migrate(connection: &mut Connection) -> Result<()> {
    // Nothing is written to a database that is up to date, also on a full disk.
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let version = version(&transaction)?;
    if version > MIGRATIONS.len() {
        anyhow::bail!("it was made by a newer molboxd (version {version})");
    }
    for sql in &MIGRATIONS[version..] {
        transaction.execute_batch(sql)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as u32)?;
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let sql = "select user_version from pragma_user_version";
    Ok(connection.query_row(sql, (), |row| row.get::<_, u32>(0))? as usize)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{Filter, MIGRATIONS, file, task};

    /// Every step of the plan of a query.
    fn plan(db: &Connection, sql: &str) -> Vec<String> {
        let mut query = db.prepare(&format!("explain query plan {sql}")).unwrap();
        // Without values: they only matter once the query runs.
        let mut rows = query.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get(3).unwrap());
        }
        steps
    }

    #[test]
    fn tasks_of_disabled_accounts_are_found_by_their_account_however_many_are_queued() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&MIGRATIONS.concat()).unwrap();
        let steps = plan(&db, task::OF_DISABLED);
        assert!(steps[0].starts_with("SCAN account"), "{steps:?}");
        assert!(steps[1].contains("(status=? AND lane=? AND account=?)"), "{steps:?}");
    }

    #[test]
    fn a_page_of_a_listing_costs_the_same_however_much_there_is() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&MIGRATIONS.concat()).unwrap();
        for (status, name) in [(false, false), (true, false), (false, true), (true, true)] {
            let text = |is_given: bool| is_given.then(String::new);
            let filter = Filter { before: None, status: text(status), name: text(name) };
            for (table, sql) in [("file", file::listing(&filter)), ("task", task::listing(&filter))] {
                let steps = plan(&db, &sql);
                // One search that comes in the right order: neither a scan nor a sort. Every
                // equality that is asked for is part of the search.
                assert_eq!(steps.len(), 1, "{steps:?}");
                let wanted = [
                    Some("account=?"),
                    (table == "task").then_some("kind=?"),
                    status.then_some("status=?"),
                    name.then_some("name=?"),
                    Some("seq<?"),
                ];
                let wanted: Vec<&str> = wanted.into_iter().flatten().collect();
                assert!(steps[0].starts_with(&format!("SEARCH {table} USING INDEX {table}_list")), "{steps:?}");
                assert!(steps[0].ends_with(&format!("({})", wanted.join(" AND "))), "{steps:?}");
            }
        }
    }
}
