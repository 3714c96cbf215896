//! Whether the contents of a store elsewhere are those of this server's database, or of another of
//! which that is a copy.
//!
//! A copy of a database, or one that was restored, knows nothing of what came after. On the store of
//! the original it would remove what it does not know, and end jobs of which it has no record. So
//! database and store go steps together, a new one every few seconds: first in the database, then
//! in the store. Whoever finds the store at a step that its own database has not gone does nothing
//! there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use jiff::{SignedDuration, Timestamp};
use tokio::task::spawn_blocking;

use crate::app::{App, refuse_foreign};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Db, Noted, Step, Tenure};
use crate::folder;
use crate::hex::hex;
use crate::objects::Objects;
use crate::random;
use crate::servers::{is_alive, this_process};

/// How often a step is gone, and it is looked whether the store is still ours.
const STEP: SignedDuration = SignedDuration::from_secs(10);
/// How long nobody may have gone one until all servers of a database are gone.
const GONE: SignedDuration = SignedDuration::from_secs(30);
/// How often it is looked whether a step is due, or awaited.
const LOOK: Duration = Duration::from_secs(1);
/// The same while a server waits to begin.
const WAIT: Duration = Duration::from_millis(200);

/// What store and database have noted.
struct Seen {
    there: Option<Step>,
    here: Option<Tenure>,
    now: Timestamp,
}

impl Seen {
    async fn of(db: &Db, objects: &Arc<Objects>, now: Timestamp) -> Result<Self> {
        // The store first: other servers of this database may go on between the two.
        let there = noted(objects).await?;
        let (here, now) = db.tenure(now).await?;
        Ok(Self { there, here, now })
    }

    fn is_ours(&self) -> bool {
        is_ours(self.there.as_ref(), self.here.as_ref())
    }

    /// For how long nobody has gone a step.
    fn age(&self) -> SignedDuration {
        self.here.as_ref().map_or(SignedDuration::MAX, |here| self.now.duration_since(here.at))
    }

    /// Whether nobody goes steps any more.
    fn is_over(&self) -> bool {
        let Some(here) = &self.here else { return true };
        let has_ended = match &here.noted.process {
            None => true,
            Some(process) => is_alive(process) == Some(false),
        };
        has_ended || self.age() > GONE
    }

    /// The last step of the database.
    fn last(&self) -> Option<&Step> {
        self.here.as_ref().and_then(Tenure::last)
    }

    /// Goes another step; false where another server was first.
    async fn step(self, db: &Db, objects: &Arc<Objects>, process: Option<String>) -> Result<bool> {
        let token = hex(&random::bytes::<8>());
        let noted = Noted::next(self.here.as_ref(), self.there.as_ref(), token, process);
        if !db.set_tenure(self.here, noted, self.now).await? {
            return Ok(false);
        }
        let (here, _) = db.tenure(self.now).await?;
        note(objects, here.as_ref().and_then(Tenure::last)).await?;
        Ok(true)
    }
}

/// Whether a store at this step, if at any, is that of a database.
fn is_ours(there: Option<&Step>, here: Option<&Tenure>) -> bool {
    there.is_none_or(|there| here.is_some_and(|here| here.knows(there)))
}

async fn noted(objects: &Arc<Objects>) -> Result<Option<Step>> {
    let objects = objects.clone();
    let found = spawn_blocking(move || objects.tenure()).await??;
    found.map(|text| text.parse()).transpose()
}

async fn note(objects: &Arc<Objects>, step: Option<&Step>) -> Result<()> {
    let Some(text) = step.map(Step::to_string) else { return Ok(()) };
    let objects = objects.clone();
    spawn_blocking(move || objects.set_tenure(&text)).await?
}

/// The refusal of a database whose store goes with another.
fn foreign(store: &str, database: &str) -> anyhow::Error {
    anyhow!(
        "{store} has gone on without {database}, which is a copy of another database or was restored \
         from a backup: give a copy a bucket of its own in objects.url; if it is to take the place of \
         the other for good, stop all servers of that, and run `molboxd take-over`"
    )
}

/// Refuses a database that is not the one by which the contents of a store are known.
pub(crate) async fn check(db: &Db, objects: &Arc<Objects>, now: Timestamp) -> Result<()> {
    if objects.folder().is_some() || Seen::of(db, objects, now).await?.is_ours() {
        return Ok(());
    }
    Err(foreign(&objects.place(), db.place()))
}

/// The same for one that is only looked through.
pub(crate) fn check_read(here: Option<&Tenure>, objects: &Objects, database: &str) -> Result<()> {
    let there: Option<Step> = objects.tenure()?.map(|text| text.parse()).transpose()?;
    if is_ours(there.as_ref(), here) { Ok(()) } else { Err(foreign(&objects.place(), database)) }
}

/// A server by whose database the contents are known.
pub(crate) struct Tenant {
    app: Arc<App>,
    /// What the database had noted when it was looked at last.
    known: Option<Tenure>,
    looked: Instant,
}

impl Tenant {
    /// Waits until it is known that no server of another database has the store.
    ///
    /// # Errors
    ///
    /// When one has it, or had it since.
    pub(crate) async fn enter(app: &Arc<App>) -> Result<Self> {
        let (db, objects) = (&app.db, &app.objects);
        let since = Instant::now();
        let mut awaited: Option<Step> = None;
        while objects.folder().is_none() {
            let seen = Seen::of(db, objects, app.now()).await?;
            if !seen.is_ours() {
                return Err(foreign(&objects.place(), db.place()));
            }
            if seen.is_over() || since.elapsed() > GONE.unsigned_abs() {
                if seen.step(db, objects, Some(this_process())).await? {
                    break;
                }
                continue;
            }
            // Somebody has gone a step of late. Who goes the next in this database, and in the store,
            // is one of our own; who does so in the store alone works with another.
            let last = seen.last().cloned();
            if awaited.is_none() {
                awaited.clone_from(&last);
            }
            if awaited != last && seen.there == last {
                break;
            }
            if let Some(here) = seen.here.filter(|here| !here.noted.is_awaited && awaited == last) {
                let asked = here.noted.awaited();
                db.set_tenure(Some(here), asked, app.now()).await?;
            }
            tokio::time::sleep(WAIT).await;
        }
        Ok(Self { app: app.clone(), known: None, looked: Instant::now() })
    }

    /// Goes on as long as the store is ours; why it is not any more.
    pub(crate) async fn hold(&mut self) -> anyhow::Error {
        let mut is_failing = false;
        loop {
            tokio::time::sleep(LOOK).await;
            match self.look().await {
                Ok(Some(lost)) => return lost,
                Ok(None) => is_failing = false,
                Err(error) if !is_failing => {
                    // Nothing is concluded from it. The next look tries again.
                    tracing::warn!(
                        cause = format!("{error:#}"),
                        "look whether the contents are still those of this database"
                    );
                    is_failing = true;
                }
                Err(_) => {}
            }
        }
    }

    /// Why the store is not ours any more, if it is not.
    async fn look(&mut self) -> Result<Option<anyhow::Error>> {
        let App { db, objects, .. } = &*self.app;
        if objects.folder().is_some() {
            return Ok(None);
        }
        let (here, now) = db.tenure(self.app.now()).await?;
        let is_due = here
            .as_ref()
            .is_none_or(|here| here.noted.is_awaited || now.duration_since(here.at) >= STEP);
        if !is_due && self.looked.elapsed() < STEP.unsigned_abs() {
            return Ok(None);
        }
        let seen = Seen::of(db, objects, self.app.now()).await?;
        let is_behind = !seen.is_ours();
        if is_behind && !is_ours(seen.there.as_ref(), self.known.as_ref()) {
            return Ok(Some(foreign(&objects.place(), db.place())));
        }
        if is_behind {
            tracing::error!(
                "{} has lost what it had acknowledged; a standby that takes over for it has to be \
                 synchronous",
                db.place()
            );
        }
        if is_due || is_behind {
            seen.step(db, objects, Some(this_process())).await?;
        } else if seen.there.as_ref() != seen.last() {
            // Who has gone that step has not noted it there.
            note(objects, seen.last()).await?;
        }
        (self.known, _) = db.tenure(now).await?;
        self.looked = Instant::now();
        Ok(None)
    }

    /// Lets the next server of this database begin at once.
    pub(crate) async fn leave(self) {
        let left = async {
            let App { db, objects, .. } = &*self.app;
            let now = self.app.now();
            if objects.folder().is_some() || (db.is_shared() && !db.servers(now).await?.is_empty())
            {
                return Ok(());
            }
            let seen = Seen::of(db, objects, now).await?;
            if seen.is_ours() {
                seen.step(db, objects, None).await?;
            }
            Ok::<_, anyhow::Error>(())
        };
        if let Err(error) = left.await {
            // The next waits until that is certain.
            tracing::warn!(cause = format!("{error:#}"), "note that this server ends");
        }
    }
}

/// Has the contents be known by the database that the configuration names, which is behind them; says
/// what it does.
///
/// # Errors
///
/// Also when a server of the other one works.
pub(crate) async fn take_over(config: &Config, clock: &Clock, say: impl Fn(&str)) -> Result<()> {
    let _lock = folder::lock(&config.data)?;
    let db = Db::open(config)?;
    let objects = Arc::new(Objects::of(config)?);
    if objects.folder().is_some() {
        bail!(
            "the contents are in the data folder, which nobody else can have: just start the service"
        );
    }
    refuse_foreign(config, &db, &objects)?;
    let first = Seen::of(&db, &objects, clock.now()).await?;
    if first.is_ours() {
        say(&format!("{} goes with {} already", objects.place(), db.place()));
        return Ok(());
    }
    say(&format!("watching for {} s whether another server works on it", GONE.as_secs()));
    let since = Instant::now();
    while since.elapsed() <= GONE.unsigned_abs() {
        tokio::time::sleep(LOOK).await;
        if noted(&objects).await? != first.there {
            bail!(
                "a server of another database works on {}: stop all of them first, or name a bucket of \
                 its own for this one in objects.url",
                objects.place()
            );
        }
    }
    let seen = Seen::of(&db, &objects, clock.now()).await?;
    if seen.is_ours() || !seen.step(&db, &objects, None).await? {
        bail!("a server works on {} already", db.place());
    }
    say(&format!("{} goes with {} from now on", objects.place(), db.place()));
    Ok(())
}
