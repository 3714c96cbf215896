//! The database as a whole, to be looked through: everything of every account. Nothing is written, also
//! while a service uses it.

use std::collections::HashSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, Row};

use super::{MIGRATIONS, reader, version};
use crate::folder::{self, DATABASE};

/// So many lines of one check of the database are kept.
const MAX_LINES: u32 = 100;

/// A database that is looked through.
pub(crate) struct Whole(Connection);

/// Copies the database of a data folder, as it is at one moment, to a new file. Whoever writes is not kept
/// from it.
pub(crate) fn snapshot(data: &Path, to: &Path) -> Result<()> {
    let copy = || -> rusqlite::Result<()> {
        let from = reader(&data.join(DATABASE))?;
        let mut copy = Connection::open(to)?;
        // All pages at once: one after another would begin anew with each write.
        while Backup::new(&from, &mut copy)?.step(-1)? != StepResult::Done {
            thread::sleep(PAUSE);
        }
        // One file, without a log beside it.
        copy.pragma_update(None, "journal_mode", "delete")
    };
    copy().with_context(|| format!("copy the database to {}", to.display()))
}

/// How long to wait for who holds the database.
const PAUSE: Duration = Duration::from_millis(50);

/// A registered file and what its content has to be.
pub(crate) struct Content {
    pub(crate) id: String,
    pub(crate) object: Option<String>,
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl Whole {
    /// Opens the database of a data folder.
    pub(crate) fn open(data: &Path) -> Result<Self> {
        folder::check_database(data)?;
        Self::at(&data.join(DATABASE))
    }

    /// Opens a database by its file.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let connection = reader(path).with_context(|| format!("open {}", path.display()))?;
        let found = version(&connection).with_context(|| format!("read {}", path.display()))?;
        if found != MIGRATIONS.len() {
            bail!(
                "{} has version {found}, this molboxd reads {}: `molboxd migrate` brings an older one up to date",
                path.display(),
                MIGRATIONS.len()
            );
        }
        Ok(Self(connection))
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.0
    }

    /// What is wrong with the file itself; empty when nothing is.
    pub(crate) fn damage(&self) -> rusqlite::Result<Vec<String>> {
        let mut query = self.0.prepare(&format!("pragma integrity_check({MAX_LINES})"))?;
        let mut lines: Vec<String> = query.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
        lines.retain(|line| line != "ok");
        let mut query =
            self.0.prepare("select \"table\", parent, count(*) from pragma_foreign_key_check group by 1, 2")?;
        let strays = query.query_map((), |row| {
            let (table, parent, count): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(format!("{count} rows of {table} refer to none of {parent}"))
        })?;
        lines.extend(strays.collect::<Result<Vec<_>, _>>()?);
        Ok(lines)
    }

    /// Every registered file.
    pub(crate) fn contents(&self) -> rusqlite::Result<Vec<Content>> {
        let sql = "select id, object, coalesce(size, 0), coalesce(sha256, '') from file where status = 'ready'";
        let mut query = self.0.prepare(sql)?;
        let content = |row: &rusqlite::Row<'_>| {
            let size: i64 = row.get(2)?;
            Ok(Content { id: row.get(0)?, object: row.get(1)?, size: size.unsigned_abs(), sha256: row.get(3)? })
        };
        query.query_map((), content)?.collect()
    }

    /// Every file that has an object, registered or not.
    pub(crate) fn file_objects(&self) -> rusqlite::Result<Vec<(String, String)>> {
        let sql = "select id, object from file where object is not null";
        self.0.prepare(sql)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Whether a file has this object, registered or not.
    pub(crate) fn refers_to(&self, id: &str, object: &str) -> rusqlite::Result<bool> {
        self.0.prepare_cached("select 1 from file where id = ? and object = ?")?.exists((id, object))
    }

    /// Every task.
    pub(crate) fn tasks(&self) -> rusqlite::Result<Vec<String>> {
        self.texts("select id from task order by seq")
    }

    /// Every task that has a bundle.
    pub(crate) fn bundled(&self) -> rusqlite::Result<Vec<String>> {
        self.texts("select id from task where bundle is not null order by seq")
    }

    /// Layout of the bundle of a task that has ended: the objects of one that is extended are replaced
    /// before its bundle is.
    pub(crate) fn bundle(&self, id: &str) -> rusqlite::Result<Option<String>> {
        let mut query =
            self.0.prepare_cached("select bundle from task where id = ? and status not in ('queued', 'running')")?;
        let mut rows = query.query([id])?;
        rows.next()?.map_or(Ok(None), |row| row.get(0))
    }

    /// Whether a registered file has this object.
    pub(crate) fn has_content(&self, id: &str, object: Option<&str>) -> rusqlite::Result<bool> {
        let sql = "select 1 from file where id = ? and status = 'ready' and object is ?";
        self.0.prepare_cached(sql)?.exists((id, object))
    }

    /// Tasks that have ended, with the bytes that are counted for them.
    pub(crate) fn measured_tasks(&self) -> rusqlite::Result<Vec<(String, u64)>> {
        let sql = "select id, bytes from task where status not in ('queued', 'running') and bytes is not null";
        self.0.prepare(sql)?.query_map((), |row| Ok((row.get(0)?, unsigned(row, 1)?)))?.collect()
    }

    /// Whether so much is counted for a task that has ended.
    pub(crate) fn is_measured_as(&self, id: &str, bytes: u64) -> rusqlite::Result<bool> {
        let sql = "select 1 from task where id = ? and status not in ('queued', 'running') and bytes = ?";
        self.0.prepare_cached(sql)?.exists((id, bytes as i64))
    }

    /// Files whose content has arrived, with its object and the bytes that are counted for it, but for what an
    /// earlier version has not counted.
    pub(crate) fn arrived_files(&self) -> rusqlite::Result<Vec<(String, String, u64)>> {
        let sql = "select id, object, bytes from file where status = 'pending' and object is not null and bytes > 0";
        self.0.prepare(sql)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?, unsigned(row, 2)?)))?.collect()
    }

    /// Whether a file has this object, for which so much is counted.
    pub(crate) fn has_arrived_as(&self, id: &str, object: &str, bytes: u64) -> rusqlite::Result<bool> {
        let sql = "select 1 from file where id = ? and object = ? and bytes = ?";
        self.0.prepare_cached(sql)?.exists((id, object, bytes as i64))
    }

    /// Accounts for which not the sum of their files and tasks is counted: name, count and sum.
    pub(crate) fn miscounted_accounts(&self) -> rusqlite::Result<Vec<(String, i64, i64)>> {
        let sql = "
            select name, bytes, held from (
                select name, bytes,
                       (select coalesce(sum(bytes), 0) from file where account = account.id)
                       + (select coalesce(sum(bytes), 0) from task where account = account.id) as held
                from account
            ) where bytes <> held";
        self.0.prepare(sql)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
    }

    /// Keys and prefixes of all objects that are known: those of files and tasks, and those that are to
    /// be removed or are being written.
    pub(crate) fn known_objects(&self) -> rusqlite::Result<HashSet<String>> {
        // One statement sees one moment: an upload that ends between two would be in neither.
        let sql = "select object from file where object is not null
            union all select 'tasks/' || id from task
            union all select prefix from garbage";
        self.0.prepare(sql)?.query_map((), |row| row.get(0))?.collect()
    }

    fn texts(&self, sql: &str) -> rusqlite::Result<Vec<String>> {
        self.0.prepare(sql)?.query_map((), |row| row.get(0))?.collect()
    }
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}
