//! The database, and the only SQL: SQLite in a file of the data folder, or PostgreSQL. Which it is,
//! `sqlite.rs` and `postgres.rs` alone know; a statement is written once and runs on both. What
//! makes room is possible on a full disk.

mod account;
mod audit;
mod error;
mod file;
mod garbage;
mod hours;
mod idempotency;
mod postgres;
mod progress;
mod queue;
mod quota;
mod retention;
mod runner;
mod scope;
mod served;
mod server;
mod session;
mod speed;
mod sqlite;
#[cfg(test)]
mod suite;
mod task;
mod tenure;
mod transfer;
mod tx;
mod value;
mod webhook;
mod whole;
mod words;
mod write;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use jiff::SignedDuration;
use molbox::workflow::types;

use crate::config::Config;
use crate::folder::failure::is_damage;
use crate::folder::reserve::Reserve;
use crate::folder::{self, DATABASE, Displaced, Folder};

pub(crate) use account::{AccountRow, KeyRow, NewKey, NoKey, Unchanged, Used};
pub(crate) use audit::{Deed, Entry, Search};
pub(crate) use error::{Error, Result};
pub(crate) use file::{Arrival, FileRow, Pending, Unmade, Unregistered};
pub(crate) use garbage::UNDER_WAY;
pub(crate) use hours::{OverHours, Period};
pub(crate) use idempotency::{Answer, Before, IdempotentWrite, Once};
pub(crate) use queue::{Mark, Queued};
pub(crate) use quota::OverQuota;
pub(crate) use retention::Expired;
pub(crate) use runner::{End, LEASE, Lease, Requeue};
pub(crate) use served::elapsed;
pub(crate) use server::{Holder, Server};
pub(crate) use session::{
    Identity, NewSession, NotLinked, SeenSession, SessionRow, Unadmitted, Uninvited, Unlinked,
};
pub(crate) use task::{Allowance, Deletion, Extended, Listed, Reads, Unqueued, Waiting};
pub(crate) use tenure::{Noted, Step, Tenure};
pub(crate) use transfer::{refuse as refuse_transfer, transfer, transferred};
pub(crate) use webhook::Delivery;
pub(crate) use whole::{Content, Whole, is_used, snapshot};

use postgres::Postgres;
use scope::Scope;
use sqlite::{Opened, Sqlite};
use tx::{Row, Tx};
use value::{Value, values};

/// The database.
pub(crate) struct Db {
    engine: Engine,
    place: String,
    reserve: Reserve,
    /// How long the objects are kept of what was deleted.
    kept: SignedDuration,
    /// Where the service watches its folder, what it watches: nothing is committed elsewhere.
    folder: Arc<OnceLock<Folder>>,
}

enum Engine {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
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
    /// Opens the database that the configuration names. That of a data folder is made when the
    /// folder is new, and brought up to date; PostgreSQL's only when it is empty.
    ///
    /// # Errors
    ///
    /// Also when there is content in the folder that no database knows of.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        Self::open_or_migrate(config, false)
    }

    /// The same; an older schema is brought up to date, whichever database it is in.
    pub(crate) fn migrate(config: &Config) -> anyhow::Result<Self> {
        Self::open_or_migrate(config, true)
    }

    fn open_or_migrate(config: &Config, migrates: bool) -> anyhow::Result<Self> {
        let folder: Arc<OnceLock<Folder>> = Arc::default();
        let watched = folder.clone();
        let check = move || watched.get().map_or(Ok(()), Folder::check).map_err(Error::Displaced);
        let place = place(config);
        let engine = match postgres::target(&config.database)? {
            Some(target) => {
                let connections = config.database.connections;
                let opened = Postgres::open(target, connections, migrates, check);
                Engine::Postgres(Box::new(opened.with_context(|| place.clone())?))
            }
            None => Engine::Sqlite(
                open_sqlite(&config.data)?.serve(check).context("start the database's thread")?,
            ),
        };
        let kept = SignedDuration::from_hours(24 * i64::from(config.objects.keep_deleted_days));
        Ok(Self { engine, place, reserve: Reserve::of(&config.data), kept, folder })
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Whether the objects are kept for a while of what was deleted.
    pub(crate) fn keeps_deleted(&self) -> bool {
        !self.kept.is_zero()
    }

    /// Whether it has never known of a file or a task, nor of a data folder.
    pub(crate) fn is_unused(&self) -> Result<bool> {
        match &self.engine {
            Engine::Sqlite(sqlite) => sqlite.is_unused(),
            Engine::Postgres(postgres) => postgres.is_unused(),
        }
    }

    /// Ties a database of a server to this data folder, which is known by `folder`, and refuses one
    /// that is tied to another: its records are about what lies there.
    pub(crate) fn belong_to(&self, data: &Path, folder: &str) -> anyhow::Result<()> {
        let Engine::Postgres(postgres) = &self.engine else { return Ok(()) };
        // Another server may have been first.
        if postgres.tie(folder)? { Ok(()) } else { self.refuse_foreign(data, folder) }
    }

    /// Refuses a database that is tied to another data folder than this one, or to none although there
    /// are contents here, and ties none.
    pub(crate) fn refuse_foreign(&self, data: &Path, folder: &str) -> anyhow::Result<()> {
        let Engine::Postgres(postgres) = &self.engine else { return Ok(()) };
        match postgres.owner()? {
            Some(tied) if tied == folder => Ok(()),
            Some(tied) if postgres::is_moved(&tied) => bail!(
                "a `molboxd move` has brought the records of {} elsewhere: name the place in database.url",
                self.place
            ),
            Some(_) => bail!(
                "{} is that of another data folder than {}: name the one that is meant, or a new database",
                self.place,
                data.display()
            ),
            None => folder::stray(data).map_or(Ok(()), |stray| {
                bail!(
                    "{} has contents in {} but {} knows of none: name the database or the folder that is meant",
                    data.display(),
                    stray.strip_prefix(data).unwrap_or(&stray).display(),
                    self.place
                )
            }),
        }
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

    /// Clears what the database keeps for itself.
    pub(crate) async fn tidy(&self) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(postgres) => postgres.forget_marks().await,
        }
    }

    /// Whether the file of the database is whole; false when that could not be told in `limit`. A
    /// server looks after its own files.
    pub(crate) fn check(&self, limit: Duration) -> anyhow::Result<bool> {
        let Engine::Sqlite(sqlite) = &self.engine else { return Ok(true) };
        match sqlite.damage(limit) {
            Ok(None) => Ok(true),
            Ok(Some(verdict)) => Err(anyhow!(verdict).context(damaged(sqlite.path()))),
            Err(Error::Interrupted(_)) => Ok(false),
            Err(error) => Err(name_damage(sqlite.path(), error.into())),
        }
    }

    /// Reads; `query` must be short, for it runs on the caller's thread.
    async fn read<T>(&self, query: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        match &self.engine {
            Engine::Sqlite(sqlite) => sqlite.read(|session| query(&Tx::Sqlite(*session))),
            Engine::Postgres(postgres) => {
                postgres.read(|session| query(&Tx::Postgres(session))).await
            }
        }
    }

    /// Writes; when this returns, it is on disk. An error undoes this write alone.
    async fn write<T: Send + 'static>(
        &self,
        scope: Scope,
        change: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &self.engine {
            Engine::Sqlite(sqlite) => {
                sqlite.write(move |session| change(&Tx::Sqlite(session))).await
            }
            Engine::Postgres(postgres) => {
                postgres.write(scope, move |session| change(&Tx::Postgres(session))).await
            }
        }
    }

    /// The same for what makes room, or ends what takes it: on a full disk with the room that is
    /// kept for it.
    async fn write_also_when_full<T: Send + 'static>(
        &self,
        scope: Scope,
        change: impl FnOnce(&Tx<'_>) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        match self.write(scope, change.clone()).await {
            Err(Error::Full(_)) if self.reserve.release() => self.write(scope, change).await,
            done => done,
        }
    }
}

/// Where the database is that the configuration names, for people.
pub(crate) fn place(config: &Config) -> String {
    match config.database.url.is_empty() {
        true => config.data.join(DATABASE).display().to_string(),
        false => postgres::place(&config.database),
    }
}

/// The database of a data folder, up to date.
fn open_sqlite(data: &Path) -> anyhow::Result<Opened> {
    folder::check_database(data)?;
    let path = data.join(DATABASE);
    // A log beside the database, and an index of it, are made when it is opened.
    let opened =
        Reserve::of(data).with(|| up_to_date(&path)).map_err(|error| name_damage(&path, error))?;
    if opened.is_unused()?
        && let Some(stray) = folder::stray(data)
    {
        folder::refuse(data, &stray, "a database that is empty")?;
    }
    Ok(opened)
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
