//! All records of a database in another one of the other kind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::postgres::{self, Postgres, Session, is_moved, moved_from};
use super::scope::Scope;
use super::sqlite::Opened;
use super::tenure;
use super::tx::{Row, Tx};
use super::value::{Any, ToValue, Value};
use super::{Error, Result, Whole, values};
use crate::config::{Config, Database};
use crate::files;
use crate::folder::{DATABASE, MOVED, PARTIAL};

/// Every table, those that others refer to first. What is counted of tasks counts itself.
pub(super) const TABLES: [&str; 17] = [
    "account",
    "api_key",
    "file",
    "task",
    "task_input",
    "task_reference",
    "bundle",
    "garbage",
    "idempotency",
    "audit",
    "session",
    "identity",
    "speed",
    "served",
    "slot_time",
    "webhook",
    "delivery",
];
/// Columns that number rows: no number is given twice, also not that of a row that is gone.
const NUMBERED: [(&str, &str); 4] =
    [("account", "id"), ("file", "seq"), ("task", "seq"), ("audit", "seq")];

/// How many rows a table has, and what they hold, in whatever order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    rows: u64,
    digest: u128,
}

impl Contents {
    fn add(&mut self, row: &[Any]) {
        let mut digest = Sha256::new();
        for value in row {
            let (kind, bytes): (u8, &[u8]) = match value {
                Any::Null => (0, &[]),
                Any::Int(number) => (1, &number.to_be_bytes()),
                Any::Text(text) => (2, text.as_bytes()),
                Any::Bytes(bytes) => (3, bytes),
            };
            digest.update([kind]);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        let digest = digest.finalize();
        let half = digest.first_chunk().expect("it is longer");
        self.rows += 1;
        self.digest = self.digest.wrapping_add(u128::from_be_bytes(*half));
    }
}

/// How many rows of which tables there are.
pub(crate) type Rows = Vec<(&'static str, u64)>;

/// The rows that an earlier move has brought to where the other configuration has them, if one has:
/// from then on they are there alone.
pub(crate) fn transferred(
    from: &Config,
    to: &Config,
    folder: &str,
) -> anyhow::Result<Option<Rows>> {
    let file = to.data.join(DATABASE);
    let owner_of = |database: &Database, target| {
        Session::owner(&target).with_context(|| postgres::place(database))
    };
    let has_moved = match (postgres::target(&from.database)?, postgres::target(&to.database)?) {
        (None, Some(target)) if !file.exists() && beside(&file, MOVED).exists() => {
            owner_of(&to.database, target)?.is_some_and(|owner| owner == folder)
        }
        (Some(source), None) if file.exists() => {
            owner_of(&from.database, source)?.is_some_and(|owner| owner == moved_from(folder))
        }
        _ => false,
    };
    if !has_moved {
        return Ok(None);
    }
    let whole = Whole::of(to)?;
    let count = |table| {
        let sql = format!("select count(*) from {table}");
        whole.tx().one(&sql, &[], |row| row.get(0)).map(|rows: i64| (table, rows.unsigned_abs()))
    };
    Ok(Some(TABLES.into_iter().map(count).collect::<Result<_>>()?))
}

/// Refuses what [`transfer`] would refuse, before anything is written.
pub(crate) fn refuse(from: &Config, to: &Config, folder: &str) -> anyhow::Result<()> {
    let source = Whole::of(from)?;
    source.refuse_additions().with_context(|| postgres::place(&from.database))?;
    match (postgres::target(&from.database)?, postgres::target(&to.database)?) {
        (None, Some(target)) => {
            let place = || postgres::place(&to.database);
            let owner = Session::owner(&target).with_context(place)?;
            let is_other = |owner: &String| owner != folder && !is_moved(owner);
            if owner.as_ref().is_some_and(is_other) {
                bail!("{} is that of another data folder: name an empty one", place());
            }
            if Session::has_schema(&target).with_context(place)? {
                let whole = Whole::of(to)?;
                if !is_empty(&whole.tx())? {
                    compare(&source.tx(), &whole.tx(), false).with_context(place)?;
                }
            }
        }
        (Some(server), None) => {
            let file = to.data.join(DATABASE);
            if file.exists() {
                bail!("there is {} already", file.display());
            }
            let place = || postgres::place(&from.database);
            let owner = Session::owner(&server).with_context(place)?;
            if owner.is_some_and(|owner| owner != folder && owner != moved_from(folder)) {
                bail!("{} is that of another data folder than {}", place(), from.data.display());
            }
        }
        _ => bail!(
            "one of the configurations has to name PostgreSQL in database.url, the other not; copies of \
             PostgreSQL are made with its own programs"
        ),
    }
    Ok(())
}

/// Copies all records from the database that one configuration names to that of another, which is
/// of the other kind and empty, and leaves the first unusable, so that nothing is written there any
/// more. A copy that was cut off is done again. The rows of each table.
///
/// # Errors
///
/// Also when the copy is not what it was made of. What [`refuse`] refuses is to have been refused.
pub(crate) fn transfer(from: &Config, to: &Config, folder: &str) -> anyhow::Result<Rows> {
    let source = Whole::of(from)?;
    let file = to.data.join(DATABASE);
    Ok(match (postgres::target(&from.database)?, postgres::target(&to.database)?) {
        (None, Some(target)) => {
            let place = postgres::place(&to.database);
            // Beside those that earlier moves have left.
            let numbered = (1..).map(|number| beside(&file, &format!("{MOVED}.{number}")));
            let mut names = std::iter::once(beside(&file, MOVED)).chain(numbered);
            let retired = names.find(|name| !name.exists()).context("name the old database")?;
            let server = Postgres::open(target, 1, false, || Ok(())).context(place.clone())?;
            let copied = server.now(Scope::Accounts, |session| {
                session.without_timeout()?;
                session.take(folder)?;
                copy(&source.tx(), &Tx::Postgres(session))
            });
            let rows = copied.context(place)?;
            drop(source);
            // So that one rename is all of it.
            Opened::open(&file).and_then(Opened::fold)?;
            files::rename(&file, &retired)?;
            remove_logs(&file)?;
            rows
        }
        (Some(server), None) => {
            let partial = to.data.join(PARTIAL);
            remove(&partial)?;
            remove_logs(&partial)?;
            let mut opened = Opened::open(&partial)
                .and_then(Opened::migrate)
                .with_context(|| format!("make {}", partial.display()))?;
            let rows = opened.now(|session| {
                let to = Tx::Sqlite(*session);
                let rows = copy(&source.tx(), &to)?;
                // There is one server here, which has all tasks.
                to.execute("update task set runner = '' where runner <> ''", &[])?;
                Ok(rows)
            })?;
            opened.fold()?;
            drop(source);
            // Before the other can be used: at no moment can both.
            Postgres::open(server, 1, false, || Ok(()))?.retire(folder)?;
            remove_logs(&file)?;
            files::rename(&partial, &file)?;
            rows
        }
        _ => unreachable!("it has been refused"),
    })
}

/// Removes the log of a database that is not there, which another in its place would take for its own.
fn remove_logs(file: &Path) -> io::Result<()> {
    ["wal", "shm"]
        .iter()
        .try_for_each(|suffix| remove(Path::new(&format!("{}-{suffix}", file.display()))))
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn beside(file: &Path, extension: &str) -> PathBuf {
    PathBuf::from(format!("{}.{extension}", file.display()))
}

/// The rows of each table, if the copy is as what it was made of.
fn copy(from: &Tx<'_>, to: &Tx<'_>) -> Result<Vec<(&'static str, u64)>> {
    let is_new = is_empty(to)?;
    if is_new {
        for table in TABLES {
            insert(from, to, table, &from.columns(table)?)?;
        }
        // It has been counted while files and tasks were inserted.
        from.each("select id, bytes from account", &[], |row| {
            let (id, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
            to.execute("update account set bytes = ?1 where id = ?2", values![bytes, id]).map(drop)
        })?;
        for (table, column) in NUMBERED {
            to.go_on_after(table, column, from.highest(table, column)?)?;
        }
        // A store elsewhere, which stays, is to know the copy.
        tenure::pass_on(from, to)?;
    }
    compare(from, to, is_new)
}

fn is_empty(tx: &Tx<'_>) -> Result<bool> {
    for table in TABLES {
        if tx.exists(&format!("select 1 from {table}"), &[])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The rows of each table, if both have the same; `is_copied` if they should.
fn compare(from: &Tx<'_>, to: &Tx<'_>, is_copied: bool) -> Result<Rows> {
    let mut rows = Vec::new();
    for table in TABLES {
        let columns = from.columns(table)?;
        let contents = contents(from, table, &columns)?;
        if contents != self::contents(to, table, &columns)? {
            let what = match is_copied {
                true => "was not copied as it is; nothing was changed",
                false => {
                    "has other rows already; nothing was changed: name a new one in database.url"
                }
            };
            return Err(Error::other(format!("the table {table} {what}")));
        }
        rows.push((table, contents.rows));
    }
    Ok(rows)
}

fn each_row(
    tx: &Tx<'_>,
    table: &str,
    columns: &[String],
    mut take: impl FnMut(Vec<Any>) -> Result<()>,
) -> Result<()> {
    let sql = format!("select {} from {table}", columns.join(", "));
    let values = |row: &Row<'_>| -> Result<Vec<Any>> {
        (0..columns.len()).map(|column| row.get(column)).collect()
    };
    tx.each(&sql, &[], |row| take(values(row)?))
}

fn insert(from: &Tx<'_>, to: &Tx<'_>, table: &str, columns: &[String]) -> Result<()> {
    let places: Vec<String> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
    let sql = format!(
        "insert into {table} ({}) {} values ({})",
        columns.join(", "),
        to.with_given_numbers(),
        places.join(", ")
    );
    each_row(from, table, columns, |row| {
        let values: Vec<Value<'_>> = row.iter().map(ToValue::to_value).collect();
        to.execute(&sql, &values).map(drop)
    })
}

fn contents(tx: &Tx<'_>, table: &str, columns: &[String]) -> Result<Contents> {
    let mut contents = Contents::default();
    each_row(tx, table, columns, |row| {
        contents.add(&row);
        Ok(())
    })?;
    Ok(contents)
}
