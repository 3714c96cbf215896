//! The database as a whole, to be looked through: everything of every account. Nothing is written,
//! also while a service uses it.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, bail};

use super::postgres::{self, Session};
use super::sqlite::{Read, VERSION};
use super::words::{has_ended, is_open};
use super::{Result, Row, Tx, values};
use crate::config::Config;
use crate::folder::{self, DATABASE};
use crate::record::{FileStatus, Status};

/// So many lines of one check of the database are kept.
const MAX_LINES: u32 = 100;

/// A database that is looked through.
pub(crate) struct Whole(Engine);

enum Engine {
    Sqlite(Read),
    Postgres(Box<Session>),
}

/// Copies the database of a data folder, as it is at one moment, to a new file. Whoever writes is
/// not kept from it.
pub(crate) fn snapshot(data: &Path, to: &Path) -> anyhow::Result<()> {
    Read::open(&data.join(DATABASE))
        .and_then(|from| from.copy(to))
        .with_context(|| format!("copy the database to {}", to.display()))
}

/// Whether a service or a command has opened the database of a data folder, as who may write there,
/// since it was copied to its place: from then on it has a log beside it.
pub(crate) fn is_used(data: &Path) -> anyhow::Result<bool> {
    let path = data.join(DATABASE);
    Read::open(&path)
        .and_then(|copy| copy.has_log())
        .with_context(|| format!("read {}", path.display()))
}

/// A registered file and what its content has to be.
pub(crate) struct Content {
    pub(crate) id: String,
    pub(crate) object: Option<String>,
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl Whole {
    /// Opens the database that the configuration names.
    pub(crate) fn of(config: &Config) -> anyhow::Result<Self> {
        match postgres::target(&config.database)? {
            Some(target) => {
                let session =
                    Session::to_read(&target).with_context(|| postgres::place(&config.database))?;
                Ok(Self(Engine::Postgres(Box::new(session))))
            }
            None => Self::open(&config.data),
        }
    }

    /// Opens the database of a data folder.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        folder::check_database(data)?;
        Self::at(&data.join(DATABASE))
    }

    /// Opens a database by its file.
    pub(crate) fn at(path: &Path) -> anyhow::Result<Self> {
        let read = Read::open(path).with_context(|| format!("open {}", path.display()))?;
        let found = read.version().with_context(|| format!("read {}", path.display()))?;
        if found != VERSION {
            bail!(
                "{} has version {found}, this molboxd reads {VERSION}: `molboxd migrate` brings an older one up to date",
                path.display(),
            );
        }
        Ok(Self(Engine::Sqlite(read)))
    }

    /// Refuses a database of which this program does not know all that there is to copy.
    pub(super) fn refuse_additions(&self) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(session) => session.refuse_additions(),
        }
    }

    pub(super) fn tx(&self) -> Tx<'_> {
        match &self.0 {
            Engine::Sqlite(read) => Tx::Sqlite(read.session()),
            Engine::Postgres(session) => Tx::Postgres(session),
        }
    }

    /// What is wrong with the file itself; empty when nothing is. A server looks after its own.
    pub(crate) fn damage(&self) -> Result<Vec<String>> {
        match &self.0 {
            Engine::Sqlite(read) => read.damage(MAX_LINES),
            Engine::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Every registered file.
    pub(crate) fn contents(&self) -> Result<Vec<Content>> {
        let sql = "
            select id, object, coalesce(size, 0), coalesce(sha256, '') from file
            where status = ?1";
        self.tx().all(sql, values![FileStatus::Ready], |row| {
            Ok(Content {
                id: row.get(0)?,
                object: row.get(1)?,
                size: unsigned(row, 2)?,
                sha256: row.get(3)?,
            })
        })
    }

    /// Every file that has an object, registered or not.
    pub(crate) fn file_objects(&self) -> Result<Vec<(String, String)>> {
        let sql = "select id, object from file where object is not null";
        self.tx().all(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Whether a file has this object, registered or not.
    pub(crate) fn refers_to(&self, id: &str, object: &str) -> Result<bool> {
        self.tx().exists("select 1 from file where id = ?1 and object = ?2", values![id, object])
    }

    /// Every task.
    pub(crate) fn tasks(&self) -> Result<Vec<String>> {
        self.texts("select id from task order by seq")
    }

    /// Every task that has a bundle.
    pub(crate) fn bundled(&self) -> Result<Vec<String>> {
        self.texts("select id from task join bundle on bundle.task = task.id order by seq")
    }

    /// Layout of the bundle of a task that has ended: the objects of one that is extended are
    /// replaced before its bundle is.
    pub(crate) fn bundle(&self, id: &str) -> Result<Option<String>> {
        let sql = format!(
            "select layout from task join bundle on bundle.task = task.id where id = ?1 and {}",
            has_ended()
        );
        self.tx().first(&sql, values![id], |row| row.get(0))
    }

    /// Every open task that had a bundle before it was extended or tried again, with that bundle's layout.
    pub(crate) fn earlier_bundles(&self) -> Result<Vec<(String, String)>> {
        let sql = format!(
            "select id, layout from task join bundle on bundle.task = task.id where {}",
            is_open()
        );
        self.tx().all(&sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// The layout of such a bundle, as long as its task is open.
    pub(crate) fn earlier_bundle(&self, id: &str) -> Result<Option<String>> {
        let sql = format!(
            "select layout from task join bundle on bundle.task = task.id where id = ?1 and {}",
            is_open()
        );
        self.tx().first(&sql, values![id], |row| row.get(0))
    }

    /// Whether a task waits for an attempt.
    pub(crate) fn is_waiting(&self, id: &str) -> Result<bool> {
        let sql = "select 1 from task where id = ?1 and status = ?2 and is_cancelled = 0";
        self.tx().exists(sql, values![id, Status::Queued])
    }

    /// Whether a registered file has this object.
    pub(crate) fn has_content(&self, id: &str, object: Option<&str>) -> Result<bool> {
        let sql = "
            select 1 from file where id = ?1 and status = ?2 and object is not distinct from ?3";
        self.tx().exists(sql, values![id, FileStatus::Ready, object])
    }

    /// Tasks that have ended, with the bytes that are counted for them.
    pub(crate) fn measured_tasks(&self) -> Result<Vec<(String, u64)>> {
        let sql = format!("select id, bytes from task where {} and bytes is not null", has_ended());
        self.tx().all(&sql, &[], |row| Ok((row.get(0)?, unsigned(row, 1)?)))
    }

    /// Whether so much is counted for a task that has ended.
    pub(crate) fn is_measured_as(&self, id: &str, bytes: u64) -> Result<bool> {
        let sql = format!("select 1 from task where id = ?1 and {} and bytes = ?2", has_ended());
        self.tx().exists(&sql, values![id, bytes as i64])
    }

    /// Files whose content has arrived, with its object and the bytes that are counted for it, but
    /// for what an earlier version has not counted.
    pub(crate) fn arrived_files(&self) -> Result<Vec<(String, String, u64)>> {
        let sql = "
            select id, object, bytes from file
            where status = ?1 and object is not null and bytes > 0";
        self.tx().all(sql, values![FileStatus::Pending], |row| {
            Ok((row.get(0)?, row.get(1)?, unsigned(row, 2)?))
        })
    }

    /// Whether a file has this object, for which so much is counted.
    pub(crate) fn has_arrived_as(&self, id: &str, object: &str, bytes: u64) -> Result<bool> {
        let sql = "select 1 from file where id = ?1 and object = ?2 and bytes = ?3";
        self.tx().exists(sql, values![id, object, bytes as i64])
    }

    /// Accounts for which not the sum of their files and tasks is counted: name, count and sum.
    pub(crate) fn miscounted_accounts(&self) -> Result<Vec<(String, i64, i64)>> {
        let sql = "
            select name, bytes, held from (
                select name, bytes,
                       cast((select coalesce(sum(bytes), 0) from file where account = account.id)
                       + (select coalesce(sum(bytes), 0) from task where account = account.id)
                       as bigint) as held
                from account
            ) as counted where bytes <> held";
        self.tx().all(sql, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    }

    /// Keys and prefixes of all objects that are known: those of files and tasks, and those that
    /// are to be removed or are being written.
    pub(crate) fn known_objects(&self) -> Result<HashSet<String>> {
        // One statement sees one moment: an upload that ends between two would be in neither.
        let sql = "select object from file where object is not null
            union all select 'tasks/' || id from task
            union all select prefix from garbage";
        Ok(self.texts(sql)?.into_iter().collect())
    }

    fn texts(&self, sql: &str) -> Result<Vec<String>> {
        self.tx().all(sql, &[], |row| row.get(0))
    }
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    row.get::<i64>(column).map(i64::unsigned_abs)
}
