//! The database as a whole, to be looked through: everything of every account. Nothing is written, also
//! while a service uses it.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rusqlite::Connection;

use super::{MIGRATIONS, reader, version};
use crate::folder::{self, DATABASE};

/// So many lines of one check of the database are kept.
const MAX_LINES: u32 = 100;

/// A database that is looked through.
pub(crate) struct Whole(Connection);

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
        let path = data.join(DATABASE);
        let connection = reader(&path).with_context(|| format!("open {}", path.display()))?;
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

    /// Keys and prefixes of all objects that are known: those of files and tasks, and those that are to
    /// be removed or are being written.
    pub(crate) fn known_objects(&self) -> rusqlite::Result<HashSet<String>> {
        let mut known: HashSet<String> = HashSet::new();
        for sql in [
            "select object from file where object is not null",
            "select 'tasks/' || id from task",
            "select prefix from garbage",
        ] {
            known.extend(self.texts(sql)?);
        }
        Ok(known)
    }

    fn texts(&self, sql: &str) -> rusqlite::Result<Vec<String>> {
        self.0.prepare(sql)?.query_map((), |row| row.get(0))?.collect()
    }
}
