//! What the servers that share a database know of each other: how many they are, how far the tasks
//! are that others run, which market data all are to use.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::config::Config;
use crate::db::{Holder, Server};
use crate::exec::attempt::boot_id;
use crate::hex::hex;

/// How often others are heard.
const HEAR: Duration = Duration::from_secs(1);
/// How often this server shows that it is there.
const SHOW: Duration = Duration::from_secs(5);
/// How often all progress is heard anew: what has ended says no more.
const ANEW: Duration = Duration::from_secs(60);

/// How long it is watched whether a server of the same name is still there.
const PATIENCE: Duration = Duration::from_secs(11);

/// Takes the place of this server among the others: at once where its last process is known to be
/// gone.
///
/// # Errors
///
/// Also when another process has it, as that of a copy of the data folder.
pub(crate) async fn enter(app: &App) -> Result<()> {
    if !app.db.is_shared() {
        return Ok(());
    }
    let since = Instant::now();
    let (mut first, mut gone): (Option<Holder>, _) = (None, None);
    loop {
        let (id, process) = (app.server_id.clone(), this_process());
        let found = app.db.be_server(id, process, gone.take(), app.now()).await?;
        let Some(holder) = found else { break };
        let lives = holder.process.as_deref().and_then(is_alive);
        if lives == Some(true) || first.as_ref().is_some_and(|first| *first != holder) {
            bail!(
                "another server with the name of {} works on {}: where the data folder is a copy, \
                 remove `server` from it",
                app.config.data.display(),
                app.db.place()
            );
        }
        first = Some(holder.clone());
        if lives == Some(false) || since.elapsed() > PATIENCE {
            gone = Some(holder);
        } else {
            tokio::time::sleep(HEAR).await;
        }
    }
    let settings = serde_json::to_string(&digests(&app.config)?)?;
    Ok(app.db.announce_settings(app.server_id.clone(), settings).await?)
}

/// The settings that all servers are to have alike, each by a digest: what they are is nobody's
/// business.
fn digests(config: &Config) -> Result<BTreeMap<String, String>> {
    let digest = |value: &str| hex(&Sha256::digest(value.as_bytes())[..4]);
    let alike = config.alike()?.into_iter();
    Ok(alike.map(|(name, value)| (name, digest(&value))).collect())
}

/// This process, by what is never another's: the run of the machine, who numbers its processes, its
/// number, and when it began.
pub(crate) fn this_process() -> String {
    let id = std::process::id();
    let began = began(&id.to_string()).unwrap_or_default();
    format!("{} {id} {began}", machine())
}

fn machine() -> String {
    let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot_id().unwrap_or_default(), numbers.display())
}

/// Whether such a process lives; none where that cannot be told from here.
pub(crate) fn is_alive(process: &str) -> Option<bool> {
    let (machine, began) = process.rsplit_once(' ')?;
    let (machine, id) = machine.rsplit_once(' ')?;
    (machine == self::machine()).then(|| self::began(id).as_deref() == Some(began))
}

/// When a process began that has not ended, in ticks of the machine.
fn began(id: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    fields.next().filter(|state| *state != "Z")?;
    fields.nth(18).map(str::to_owned)
}

/// Meets the others as long as the service runs. Who is alone on its database meets nobody.
pub(crate) async fn meet(app: Arc<App>) {
    if !app.db.is_shared() {
        return;
    }
    let mut ear = Ear::default();
    loop {
        if let Err(error) = ear.hear(&app).await {
            // The next look tries again.
            tracing::warn!(cause = format!("{error:#}"), "hear the other servers");
        }
        tokio::time::sleep(HEAR).await;
    }
}

/// Tells the others that this server ends.
pub(crate) async fn leave(app: &App) {
    if !app.db.is_shared() {
        return;
    }
    if let Err(error) = app.db.be_gone(app.server_id.clone()).await {
        // They notice.
        tracing::warn!(%error, "tell the other servers that this one ends");
    }
}

/// What has been heard so far.
#[derive(Default)]
struct Ear {
    /// From when on progress has not been heard.
    since: Option<Timestamp>,
    anew: Option<Instant>,
    shown: Option<Instant>,
    /// Whether another process goes by the name of this server.
    has_double: bool,
    /// Digest of the market data in use when the others were last told.
    market: Option<String>,
    /// Digest of market data that was asked for and could not be taken, and when it was tried.
    refused: Option<(String, Instant)>,
}

fn is_due(last: Option<Instant>, every: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= every)
}

impl Ear {
    async fn hear(&mut self, app: &Arc<App>) -> Result<()> {
        self.follow_market(app).await?;
        let market = app.market.digest();
        if is_due(self.shown, SHOW) || market != self.market {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let own = Server { id: app.server_id.clone(), version, market: market.clone() };
            if !app.db.be_seen(own, this_process(), app.now()).await? && !self.has_double {
                tracing::error!(
                    "another server goes by the name of this one: see `server` of both data folders"
                );
                self.has_double = true;
            }
            app.count_servers(app.db.servers(app.now()).await?.len());
            (self.shown, self.market) = (Some(Instant::now()), market);
        }
        let is_all = is_due(self.anew, ANEW);
        let since = self.since.filter(|_| !is_all);
        let (said, next) = app.db.progress_since(since, app.now()).await?;
        app.hear_progress(said, is_all);
        self.since = Some(next);
        if is_all {
            self.anew = Some(Instant::now());
        }
        Ok(())
    }

    /// Takes the market data that was asked for on any server.
    async fn follow_market(&mut self, app: &Arc<App>) -> Result<()> {
        let asked = app.db.asked_market().await?;
        let Some(digest) = asked.filter(|digest| app.market.digest().as_ref() != Some(digest))
        else {
            return Ok(());
        };
        let refused = self.refused.as_ref().filter(|(refused, _)| *refused == digest);
        if refused.is_some_and(|(_, tried)| tried.elapsed() < ANEW) {
            return Ok(());
        }
        let (taking, wanted) = (app.clone(), digest.clone());
        let taken =
            tokio::task::spawn_blocking(move || taking.market.take(&taking.config, &wanted));
        match taken.await? {
            Ok(()) => {
                tracing::info!(sha256 = digest, "market data reloaded");
                app.market.announce(&app.config, app.now())?;
            }
            Err(error) => {
                tracing::error!(
                    cause = format!("{error:#}"),
                    "market data not reloaded; the old stays in use"
                );
                // The folder may be a copy that is still to come.
                self.refused = Some((digest, Instant::now()));
            }
        }
        Ok(())
    }
}
