//! The database, and the only SQL: an embedded SQLite file.
//!
//! Reads run where they are asked for, on a connection of a small pool: they take microseconds.
//! Writes go to one thread, which puts those that wait together into one transaction and one
//! fsync; a write is on disk when its `await` returns.

mod account;
mod file;
mod idempotency;
mod task;

use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anyhow::{Context, Result, anyhow};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction};
use tokio::sync::oneshot;

pub(crate) use account::{KeyRow, NewKey};
pub(crate) use file::{Arrival, FileRow, Unregistered};
pub(crate) use idempotency::{Answer, Before, Claim, Once};
pub(crate) use task::{Deletion, End, Lane, Requeue, TaskRow, Unqueued};

const MIGRATIONS: [&str; 3] = [include_str!("0001.sql"), include_str!("0002.sql"), include_str!("0003.sql")];
/// Prepared statements that a connection keeps: all that there are.
const STATEMENTS: usize = 200;
/// Writes that are put into one transaction at most.
const MAX_BATCH: usize = 256;

type Write = Box<dyn FnOnce(&Transaction<'_>) -> Finish + Send>;
/// Called with whether the transaction was committed.
type Finish = Box<dyn FnOnce(bool) + Send>;

/// The database.
pub(crate) struct Db {
    readers: Mutex<Vec<Connection>>,
    path: std::path::PathBuf,
    writer: mpsc::Sender<Write>,
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
    /// Opens the database, makes it when it is not there, and brings it up to date.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut connection = Connection::open(path).with_context(|| format!("open {}", path.display()))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        keep_statements(&connection)?;
        migrate(&mut connection).with_context(|| format!("bring {} up to date", path.display()))?;
        let (writer, writes) = mpsc::channel();
        thread::Builder::new()
            .name("database".to_owned())
            .spawn(move || write_all(connection, &writes))
            .context("start the database's thread")?;
        Ok(Self { readers: Mutex::default(), path: path.to_owned(), writer })
    }

    /// Whether the file is whole.
    pub(crate) fn check(&self) -> Result<()> {
        let verdict: String = self.read(|db| db.query_row("pragma quick_check", (), |row| row.get(0)))?;
        if verdict == "ok" { Ok(()) } else { Err(anyhow!(verdict)) }
    }

    /// Reads; `query` must be short, for it runs on the caller's thread.
    fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let pooled = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match pooled {
            Some(connection) => connection,
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = Connection::open_with_flags(&self.path, flags)?;
                keep_statements(&connection)?;
                connection.busy_timeout(std::time::Duration::from_secs(10))?;
                connection
            }
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
            let result = within_savepoint(transaction, change);
            Box::new(move |committed| {
                let result = match result {
                    Ok(value) if committed => Ok(value),
                    Ok(_) => Err(anyhow!("the transaction was not committed")),
                    Err(error) => Err(error.into()),
                };
                // Nobody waits any more when the request was dropped.
                let _ = answer.send(result);
            })
        });
        self.writer.send(write).map_err(|_| anyhow!("the database's thread has ended"))?;
        result.await.context("the database's thread has ended")?
    }
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
    transaction.execute_batch("savepoint one")?;
    let result = change(transaction);
    transaction.execute_batch(if result.is_ok() { "release one" } else { "rollback to one; release one" })?;
    result
}

/// The database's thread: ends when the last `Db` is gone.
fn write_all(mut connection: Connection, writes: &mpsc::Receiver<Write>) {
    while let Ok(first) = writes.recv() {
        let mut finishes = Vec::new();
        let committed =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).and_then(|transaction| {
                finishes.push(first(&transaction));
                while finishes.len() < MAX_BATCH
                    && let Ok(write) = writes.try_recv()
                {
                    finishes.push(write(&transaction));
                }
                transaction.commit()
            });
        if let Err(error) = &committed {
            tracing::error!(%error, "database transaction failed");
        }
        for finish in finishes {
            finish(committed.is_ok());
        }
    }
}

fn migrate(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    let sql = "select user_version from pragma_user_version";
    let version = transaction.query_row(sql, (), |row| row.get::<_, u32>(0))? as usize;
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
