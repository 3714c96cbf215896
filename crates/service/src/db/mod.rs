//! The database, and the only SQL. Which database it is stands in `sqlite.rs` alone. The statements
//! of the other files have run on SQLite only: they avoid what it alone has, but types of
//! parameters, for one, are not told. What makes room is possible on a full disk.

mod account;
mod audit;
mod error;
mod file;
mod idempotency;
mod queue;
mod quota;
mod served;
mod session;
mod speed;
mod sqlite;
#[cfg(test)]
mod suite;
mod task;
mod value;
mod whole;
mod words;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow};
use molbox::workflow::types;

use crate::folder::failure::is_damage;
use crate::folder::reserve::Reserve;
use crate::folder::{self, DATABASE, Displaced, Folder};

pub(crate) use account::{AccountRow, KeyRow, NewKey, Unchanged, Used};
pub(crate) use audit::{Deed, Entry, Search};
pub(crate) use error::{Error, Result};
pub(crate) use file::{Arrival, FileRow, Pending, Unregistered};
pub(crate) use idempotency::{Answer, Before, IdempotentWrite, Once};
pub(crate) use queue::{Mark, Queued};
pub(crate) use quota::OverQuota;
pub(crate) use served::elapsed;
pub(crate) use session::{
    Identity, NewSession, NotLinked, SeenSession, SessionRow, Unadmitted, Uninvited, Unlinked,
};
pub(crate) use task::{
    Allowance, Deletion, End, Extended, Listed, Reads, Requeue, Unqueued, Waiting,
};
pub(crate) use whole::{Content, Whole, snapshot};

use sqlite::{Opened, Row, Sqlite, Tx};
use value::values;

/// The database.
pub(crate) struct Db {
    sqlite: Sqlite,
    reserve: Reserve,
    /// Where the service watches its folder, what it watches: nothing is committed elsewhere.
    folder: Arc<OnceLock<Folder>>,
}

/// What a listing shows: one page of an account's items, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only items older than the one with this number.
    pub(crate) before: Option<i64>,
    pub(crate) status: Option<types::Status>,
    pub(crate) name: Option<String>,
}

impl Filter {
    /// The word of the status, as rows have it.
    fn status(&self) -> Option<String> {
        self.status.map(|status| status.to_string())
    }
}

impl Db {
    /// Opens the database of a data folder, makes it when the folder is new, and brings it up to
    /// date.
    ///
    /// # Errors
    ///
    /// Also when there is content in the folder that no database knows of.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        folder::check_database(data)?;
        let (path, reserve) = (data.join(DATABASE), Reserve::of(data));
        // A log beside the database, and an index of it, are made when it is opened.
        let opened =
            reserve.with(|| up_to_date(&path)).map_err(|error| name_damage(&path, error))?;
        if opened.is_unused()?
            && let Some(stray) = folder::stray(data)
        {
            folder::refuse(data, &stray, "a database that is empty")?;
        }
        let folder: Arc<OnceLock<Folder>> = Arc::default();
        let watched = folder.clone();
        let check = move || watched.get().map_or(Ok(()), Folder::check).map_err(Error::Displaced);
        let sqlite = opened.serve(check).context("start the database's thread")?;
        Ok(Self { sqlite, reserve, folder })
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
    pub(crate) fn check(&self, limit: Duration) -> anyhow::Result<bool> {
        match self.sqlite.damage(limit) {
            Ok(None) => Ok(true),
            Ok(Some(verdict)) => Err(anyhow!(verdict).context(damaged(self.sqlite.path()))),
            Err(Error::Interrupted(_)) => Ok(false),
            Err(error) => Err(name_damage(self.sqlite.path(), error.into())),
        }
    }

    /// Reads; `query` must be short, for it runs on the caller's thread.
    async fn read<T>(&self, query: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        self.sqlite.read(query)
    }

    /// Writes; when this returns, it is on disk. An error undoes this write alone.
    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.sqlite.write(change).await
    }

    /// The same for what makes room, or ends what takes it: on a full disk with the room that is
    /// kept for it.
    async fn write_also_when_full<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Tx<'_>) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        match self.write(change.clone()).await {
            Err(Error::Full(_)) if self.reserve.release() => self.write(change).await,
            done => done,
        }
    }
}

fn up_to_date(path: &Path) -> anyhow::Result<Opened> {
    let opened = Opened::open(path).with_context(|| format!("open {}", path.display()))?;
    opened.migrate().with_context(|| format!("bring {} up to date", path.display()))
}

/// An error, with the file and the remedy if the file is damaged.
fn name_damage(path: &Path, error: anyhow::Error) -> anyhow::Error {
    if is_damage(&error) { error.context(damaged(path)) } else { error }
}

fn damaged(path: &Path) -> String {
    format!("{} is damaged; restore it from a backup", path.display())
}
