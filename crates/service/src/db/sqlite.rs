//! SQLite: the one place that knows which database this is.
//!
//! Reads run where they are asked for, on a connection of a small pool: they take microseconds.
//! Writes go to one thread, which puts those that wait together into one transaction and one
//! fsync; a write is on disk when its `await` returns.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, ToSql, Transaction, TransactionBehavior, params_from_iter,
};

use super::error::{Error, Result};
use super::value::Value;
use super::write::{Done, Write, told};

const MIGRATIONS: [&str; 24] = [
    include_str!("sqlite/0001.sql"),
    include_str!("sqlite/0002.sql"),
    include_str!("sqlite/0003.sql"),
    include_str!("sqlite/0004.sql"),
    include_str!("sqlite/0005.sql"),
    include_str!("sqlite/0006.sql"),
    include_str!("sqlite/0007.sql"),
    include_str!("sqlite/0008.sql"),
    include_str!("sqlite/0009.sql"),
    include_str!("sqlite/0010.sql"),
    include_str!("sqlite/0011.sql"),
    include_str!("sqlite/0012.sql"),
    include_str!("sqlite/0013.sql"),
    include_str!("sqlite/0014.sql"),
    include_str!("sqlite/0015.sql"),
    include_str!("sqlite/0016.sql"),
    include_str!("sqlite/0017.sql"),
    include_str!("sqlite/0018.sql"),
    include_str!("sqlite/0019.sql"),
    include_str!("sqlite/0020.sql"),
    include_str!("sqlite/0021.sql"),
    include_str!("sqlite/0022.sql"),
    include_str!("sqlite/0023.sql"),
    include_str!("sqlite/0024.sql"),
];
/// The version of the schema that this program reads and writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// Prepared statements that a connection keeps: all that there are.
const STATEMENTS: usize = 200;
/// Writes that are put into one transaction at most.
const MAX_BATCH: usize = 256;

/// How long another program may hold the database.
const BUSY: Duration = Duration::from_secs(10);
/// How long to wait for who holds a database that is copied.
const PAUSE: Duration = Duration::from_millis(50);

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        let cause = Arc::new(error);
        match code {
            Some(ErrorCode::DiskFull) => Self::Full(cause),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(cause),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(cause),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly(cause)
            }
            Some(ErrorCode::SystemIoFailure) => Self::Io(cause),
            Some(ErrorCode::OutOfMemory) => Self::NoMemory(cause),
            Some(ErrorCode::OperationInterrupted) => Self::Interrupted(cause),
            _ => Self::Other(cause),
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A row that is read, as long as it is the present one.
pub(super) struct Row<'a>(&'a rusqlite::Row<'a>);

impl Row<'_> {
    /// The value of a column, or what is wrong with it.
    pub(super) fn value(&self, column: usize) -> Result<Result<Value<'_>, String>> {
        Ok(match self.0.get_ref(column)? {
            ValueRef::Null => Ok(Value::Null),
            ValueRef::Integer(number) => Ok(Value::Int(number)),
            ValueRef::Text(text) => {
                str::from_utf8(text).map(Value::Text).map_err(|error| error.to_string())
            }
            ValueRef::Blob(bytes) => Ok(Value::Bytes(bytes)),
            ValueRef::Real(number) => Err(format!("is a fraction: {number}")),
        })
    }

    pub(super) fn name(&self, column: usize) -> &str {
        self.0.as_ref().column_name(column).unwrap_or_default()
    }
}

/// The columns of a table, but those that are made of others.
pub(super) const COLUMNS: &str = "select name from pragma_table_info(?1) order by cid";

/// The query of the highest number that a column has had.
pub(super) fn highest(table: &str, column: &str) -> String {
    format!(
        "select max(coalesce((select max({column}) from {table}), 0),
                    coalesce((select seq from sqlite_sequence where name = '{table}'), 0))"
    )
}

/// A connection while it is used: what statements run in.
#[derive(Clone, Copy)]
pub(super) struct Session<'a>(&'a Connection);

impl Session<'_> {
    /// Tables that do not give a number twice remember the last one.
    pub(super) fn go_on_after(&self, table: &str, number: i64) -> Result<()> {
        let sql = "update sqlite_sequence set seq = ?1 where name = ?2 and seq < ?1";
        self.execute(sql, &[Value::Int(number), Value::Text(table)]).map(drop)
    }

    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize> {
        Ok(self.0.prepare_cached(sql)?.execute(params_from_iter(values))?)
    }

    pub(super) fn rows<E: From<Error>>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut take: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut query = self.0.prepare_cached(sql).map_err(Error::from)?;
        let mut rows = query.query(params_from_iter(values)).map_err(Error::from)?;
        while let Some(row) = rows.next().map_err(Error::from)? {
            if take(&Row(row))?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A database that is up to date, and is not served yet.
pub(super) struct Opened {
    connection: Connection,
    path: PathBuf,
}

impl Opened {
    /// Opens the database in a file, makes it when there is none, and brings it up to date.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // What undoes one write of many is more than SQLite keeps of it in memory; it would make a
        // file for each.
        connection.pragma_update(None, "temp_store", "memory")?;
        keep_statements(&connection)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Brings it to the version of this program.
    pub(super) fn migrate(mut self) -> Result<Self> {
        // Nothing is written to a database that is up to date, also on a full disk.
        if version(&self.connection)? == VERSION {
            return Ok(self);
        }
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        let found = version(&transaction)?;
        let missing = MIGRATIONS.get(found..).ok_or_else(|| {
            Error::other(format!("it was made by a newer molboxd (version {found})"))
        })?;
        for sql in missing {
            transaction.execute_batch(sql)?;
        }
        transaction.pragma_update(None, "user_version", VERSION as u32)?;
        transaction.commit()?;
        Ok(self)
    }

    /// Writes, before it is served.
    pub(super) fn now<T>(&mut self, change: impl FnOnce(&Session<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.connection.transaction()?;
        let value = change(&Session(&transaction))?;
        transaction.commit()?;
        Ok(value)
    }

    /// Leaves all of it in its one file: what is in the log beside it is put there.
    pub(super) fn fold(self) -> Result<()> {
        let sql = "pragma wal_checkpoint(truncate)";
        let is_held: bool = self.connection.query_row(sql, (), |row| row.get(0))?;
        if is_held {
            return Err(Error::Busy(Arc::from(Box::from("another program reads the database"))));
        }
        self.connection.close().map_err(|(_, error)| error.into())
    }

    /// Whether it has never held anything but accounts: a number was never drawn for a file or a
    /// task.
    pub(super) fn is_unused(&self) -> Result<bool> {
        is_unused(&Session(&self.connection))
    }

    /// Starts the thread that writes. A transaction is committed as long as `check` allows it.
    pub(super) fn serve(
        self,
        check: impl Fn() -> Result<()> + Send + 'static,
    ) -> std::io::Result<Sqlite> {
        let Self { connection, path } = self;
        let (writer, writes) = mpsc::channel();
        thread::Builder::new()
            .name("database".to_owned())
            .spawn(move || write_all(connection, &writes, &check))?;
        Ok(Sqlite { readers: Mutex::default(), path, writer })
    }
}

/// A database that is read and written.
pub(super) struct Sqlite {
    readers: Mutex<Vec<Connection>>,
    path: PathBuf,
    writer: mpsc::Sender<Write<Connection>>,
}

fn is_unused(session: &Session<'_>) -> Result<bool> {
    let sql = "select 1 from sqlite_sequence where name in ('file', 'task')";
    let mut is_unused = true;
    session.rows(sql, &[], |_| {
        is_unused = false;
        Ok::<_, Error>(ControlFlow::Break(()))
    })?;
    Ok(is_unused)
}

impl Sqlite {
    /// The same of one that is served.
    pub(super) fn is_unused(&self) -> Result<bool> {
        self.read(is_unused)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads, on the caller's thread.
    pub(super) fn read<T>(&self, query: impl FnOnce(&Session<'_>) -> Result<T>) -> Result<T> {
        let pooled = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match pooled {
            Some(connection) => connection,
            None => reader(&self.path)?,
        };
        let result = query(&Session(&connection));
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        result
    }

    /// Writes; when this returns, it is on disk. An error undoes this write alone.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(Session<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (write, mut outcome) = Write::new(|connection| change(Session(connection)));
        // Where its thread has ended, so has what would tell.
        drop(self.writer.send(write));
        told(&mut outcome).await
    }

    /// What is wrong with the file, if anything is.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] when that could not be told in `limit`.
    pub(super) fn damage(&self, limit: Duration) -> Result<Option<String>> {
        let end = Instant::now().checked_add(limit);
        let mut connection = reader(&self.path)?;
        // Asked every some ten thousand steps of SQLite's machine, which take less than a
        // millisecond.
        connection
            .progress_handler(10_000, Some(move || end.is_some_and(|end| Instant::now() > end)))?;
        let verdict: String =
            connection.query_row("pragma quick_check(5)", (), |row| row.get(0))?;
        Ok(Some(verdict).filter(|verdict| verdict != "ok"))
    }
}

/// A database in a file that is only read, also while a service uses it.
pub(super) struct Read(Connection);

impl Read {
    pub(super) fn open(path: &Path) -> Result<Self> {
        reader(path).map(Self)
    }

    pub(super) fn version(&self) -> Result<usize> {
        version(&self.0)
    }

    pub(super) fn session(&self) -> Session<'_> {
        Session(&self.0)
    }

    /// What is wrong with the file, in so many lines at most, and rows that refer to none.
    pub(super) fn damage(&self, max_lines: u32) -> Result<Vec<String>> {
        let mut query = self.0.prepare(&format!("pragma integrity_check({max_lines})"))?;
        let mut lines: Vec<String> =
            query.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
        lines.retain(|line| line != "ok");
        let sql = "select \"table\", parent, count(*) from pragma_foreign_key_check group by 1, 2";
        let mut query = self.0.prepare(sql)?;
        let strays = query.query_map((), |row| {
            let (table, parent, count): (String, String, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(format!("{count} rows of {table} refer to none of {parent}"))
        })?;
        lines.extend(strays.collect::<Result<Vec<_>, _>>()?);
        Ok(lines)
    }

    /// Whether it is written with a log beside it.
    pub(super) fn has_log(&self) -> Result<bool> {
        let mode: String = self.0.query_row("pragma journal_mode", (), |row| row.get(0))?;
        Ok(mode == "wal")
    }

    /// Copies it, as it is at one moment, to a new file. Whoever writes is not kept from it.
    pub(super) fn copy(&self, to: &Path) -> Result<()> {
        let mut copy = Connection::open(to)?;
        // All pages at once: one after another would begin anew with each write.
        while Backup::new(&self.0, &mut copy)?.step(-1)? != StepResult::Done {
            thread::sleep(PAUSE);
        }
        // One file, without a log beside it.
        Ok(copy.pragma_update(None, "journal_mode", "delete")?)
    }
}

/// A connection that reads.
fn reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    keep_statements(&connection)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Has a connection keep its statements as they were planned. SQLite would plan again for each new
/// value, which takes longer than most queries; every query here has the index that it needs.
fn keep_statements(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn version(connection: &Connection) -> Result<usize> {
    let sql = "select user_version from pragma_user_version";
    let version: i64 = connection.query_row(sql, (), |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// The database's thread: ends when nobody can write any more.
fn write_all(
    mut connection: Connection,
    writes: &mpsc::Receiver<Write<Connection>>,
    check: &dyn Fn() -> Result<()>,
) {
    while let Ok(first) = writes.recv() {
        let (all, committed) = write_batch(&mut connection, first, writes, check);
        if let Err(error) = &committed {
            tracing::error!(cause = %error, "database transaction failed");
        }
        for done in all {
            done.finish(committed.clone());
        }
    }
}

/// Puts the writes that wait into one transaction; who is to be told, and what.
fn write_batch(
    connection: &mut Connection,
    first: Write<Connection>,
    writes: &mpsc::Receiver<Write<Connection>>,
    check: &dyn Fn() -> Result<()>,
) -> (Vec<Done>, Result<()>) {
    let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(transaction) => transaction,
        Err(error) => {
            // Those that wait have waited, too.
            let error = Error::from(error);
            let all = [first].into_iter().chain(writes.try_iter());
            return (all.map(|write| write.fail(&error)).collect(), Err(error));
        }
    };
    let mut all = Vec::new();
    let mut next = Some(first);
    while let Some(write) = next.take() {
        let done = write_one(&transaction, write);
        // SQLite undoes the whole transaction by itself on some errors, a full disk among them.
        // What followed would be committed one by one, and be reported as not written.
        let undone = transaction.is_autocommit().then(|| {
            done.error.clone().unwrap_or_else(|| Error::other("the transaction was undone"))
        });
        all.push(done);
        if let Some(error) = undone {
            return (all, Err(error));
        }
        if all.len() < MAX_BATCH {
            next = writes.try_recv().ok();
        }
    }
    (all, commit(transaction, check))
}

/// Does a write so that an error undoes it alone.
fn write_one(connection: &Connection, write: Write<Connection>) -> Done {
    // Kept prepared: parsing them took longer than running them.
    let run = |sql| Session(connection).execute(sql, &[]).map(drop);
    if let Err(error) = run("savepoint one") {
        return write.fail(&error);
    }
    let done = write.run(connection, |_| run("release one"));
    if done.error.is_some()
        && let Err(error) = run("rollback to one").and_then(|()| run("release one"))
    {
        // The whole transaction is undone already; the first error is the one that counts.
        tracing::debug!(%error, "undo a write");
    }
    done
}

/// Commits a transaction, unless it may not be: it is undone as it is dropped.
fn commit(transaction: Transaction<'_>, check: &dyn Fn() -> Result<()>) -> Result<()> {
    check()?;
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use molbox::workflow::types;
    use rusqlite::Connection;

    use super::super::queue::{Turns, next_of};
    use super::super::{Filter, file, task};
    use super::MIGRATIONS;

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
    fn what_is_cancelled_is_found_however_much_is_queued_or_has_ended() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&MIGRATIONS.concat()).unwrap();
        let steps = plan(&db, &task::cancelled());
        assert!(steps[0].contains("INDEX task_cancelled (status=?)"), "{steps:?}");
    }

    #[test]
    fn the_queue_is_found_by_what_is_open_however_much_has_ended() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&MIGRATIONS.concat()).unwrap();
        for status in [None, Some(types::Status::Running)] {
            let steps = plan(&db, &task::queue_listing(&Filter { status, ..Filter::default() }));
            let finds_open =
                |step: &String| step.contains("INDEX task_status (status=? AND lane=?");
            assert!(steps.iter().any(finds_open), "{steps:?}");
            assert!(!steps.iter().any(|step| step.starts_with("SCAN task")), "{steps:?}");
        }
    }

    #[test]
    fn whose_turn_it_is_is_found_without_a_look_at_every_account() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&MIGRATIONS.concat()).unwrap();
        for (turns, index) in [
            (Turns::First, "INDEX turn_idle (lane=? AND rank>?)"),
            (Turns::Others, "INDEX turn_busy (lane=? AND oldest>?)"),
        ] {
            let steps = plan(&db, &turns.query());
            assert!(steps.iter().any(|step| step.ends_with(index)), "{steps:?}");
            assert!(!steps.iter().any(|step| step.contains("SORT")), "{steps:?}");
        }
        let steps = plan(&db, &next_of());
        assert_eq!(steps.len(), 1, "{steps:?}");
        assert!(steps[0].ends_with("INDEX task_next (lane=? AND account=?)"), "{steps:?}");
    }

    #[test]
    fn a_page_of_a_listing_costs_the_same_however_much_there_is() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&MIGRATIONS.concat()).unwrap();
        for (status, name) in [(false, false), (true, false), (false, true), (true, true)] {
            let (status_asked, name_asked) =
                (status.then_some(types::Status::Ready), name.then(String::new));
            let filter = Filter { before: None, status: status_asked, name: name_asked };
            for (table, sql) in [("file", file::listing(&filter)), ("task", task::listing(&filter))]
            {
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
                assert!(
                    steps[0].starts_with(&format!("SEARCH {table} USING INDEX {table}_list")),
                    "{steps:?}"
                );
                assert!(steps[0].ends_with(&format!("({})", wanted.join(" AND "))), "{steps:?}");
            }
        }
    }
}
