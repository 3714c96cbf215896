//! Market data of the margin endpoint: loaded at start, exchanged as a whole on request.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use molbox_margin::{Store, sample};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::error::ApiError;
use crate::files;
use crate::folder::is_served;
use crate::http::slots::Slots;

/// How long a reload may take before the command that asked for it gives up.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// What margin calculations need and share.
pub(crate) struct Market {
    loaded: RwLock<Loaded>,
    /// Calculations that may run at a time.
    pub(crate) slots: Arc<Slots>,
}

/// The market data that there is.
#[derive(Clone)]
enum Loaded {
    Nothing,
    /// It cannot be read; see the log.
    Broken,
    Data(Arc<Store>),
}

impl Market {
    /// Loads the market data, if its folder is there. When it is broken, margins are refused until
    /// it is repaired and reloaded; simulations have nothing to do with it.
    pub(crate) fn open(config: &Config) -> Self {
        let folder = folder(config);
        let loaded = if folder.exists() { first(config) } else { Loaded::Nothing };
        match &loaded {
            Loaded::Data(store) => {
                tracing::info!(folder = %folder.display(), sha256 = store.sha256(), "market data loaded");
            }
            Loaded::Nothing => {
                tracing::info!(folder = %folder.display(), "no market data; the margin endpoint answers 503");
            }
            Loaded::Broken => {}
        }
        Self { loaded: RwLock::new(loaded), slots: Slots::new(config.margin.calculations) }
    }

    /// The market data of this moment; a calculation keeps to what it began with.
    pub(crate) fn store(&self) -> Result<Arc<Store>, ApiError> {
        match self.loaded() {
            Loaded::Data(store) => Ok(store),
            Loaded::Broken => Err(broken()),
            Loaded::Nothing => {
                let cause = anyhow!("margin.market names no folder with market data");
                Err(ApiError::unavailable_as_set_up("the service has no market data yet", cause))
            }
        }
    }

    /// Whether the market data, if there is any, can be used.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if matches!(self.loaded(), Loaded::Broken) { Err(broken()) } else { Ok(()) }
    }

    fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loads the market data anew; when it is broken, what was there stays.
    pub(crate) fn reload(&self, config: &Config) -> Result<()> {
        let store = load(config)?;
        tracing::info!(sha256 = store.sha256(), "market data reloaded");
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) =
            Loaded::Data(Arc::new(store));
        Ok(())
    }

    /// Digest of the market data in use.
    pub(crate) fn digest(&self) -> Option<String> {
        match self.loaded() {
            Loaded::Data(store) => Some(store.sha256().to_owned()),
            Loaded::Nothing | Loaded::Broken => None,
        }
    }

    /// Takes the market data with this digest; what was there stays when the folder has other data.
    pub(crate) fn take(&self, config: &Config, digest: &str) -> Result<()> {
        let store = load(config)?;
        if store.sha256() != digest {
            bail!(
                "{} holds market data with the digest {}, and not {digest}, which was asked for",
                folder(config).display(),
                store.sha256()
            );
        }
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) =
            Loaded::Data(Arc::new(store));
        Ok(())
    }

    /// Writes to a file which market data is in use, for who asked for a reload.
    pub(crate) fn announce(&self, config: &Config, now: Timestamp) -> Result<()> {
        let announced = serde_json::json!({ "sha256": self.digest(), "at": now.as_microsecond() });
        let path = announcement(config);
        files::write(&path, announced.to_string().as_bytes())
            .with_context(|| format!("write {}", path.display()))
    }
}

fn first(config: &Config) -> Loaded {
    match load(config) {
        Ok(store) => Loaded::Data(Arc::new(store)),
        Err(error) => {
            tracing::error!(
                cause = format!("{error:#}"),
                "market data is broken; the margin endpoint answers 503 until `molboxd market reload`"
            );
            Loaded::Broken
        }
    }
}

fn broken() -> ApiError {
    let cause = anyhow!("`molboxd market check` names what is wrong with it");
    ApiError::unavailable_as_set_up("the service's market data is broken", cause)
}

fn announcement(config: &Config) -> PathBuf {
    config.data.join("market.json")
}

/// Folder of the market data.
fn folder(config: &Config) -> PathBuf {
    let named = &config.margin.market;
    if named.as_os_str().is_empty() { config.data.join("market") } else { named.clone() }
}

fn load(config: &Config) -> Result<Store> {
    Ok(Store::load(&folder(config), &config.margin.base_currency)?)
}

/// `molboxd market check`: loads the data and says what is in it.
pub(crate) fn check(config: &Config) -> Result<String> {
    let store = load(config)?;
    let days = store.contracts().iter().flat_map(|contract| contract.settlements.days());
    let prices = days.clone().count();
    let first = days.clone().min();
    let span = first.zip(days.max()).map(|(first, last)| format!(" from {first} to {last}"));
    Ok(format!(
        "{}: {} contracts, {prices} settlement prices{}, sha256 {}",
        folder(config).display(),
        store.contracts().len(),
        span.unwrap_or_default(),
        store.sha256()
    ))
}

/// `molboxd market sample`: writes the sample data where there is none.
pub(crate) fn write_sample(config: &Config) -> Result<String> {
    let folder = folder(config);
    if folder.exists() {
        bail!("{} is there already", folder.display());
    }
    // All of it or nothing: a service that starts meanwhile must not find half.
    let partial = folder.with_extension("partial");
    fs::create_dir_all(&partial).with_context(|| format!("make {}", partial.display()))?;
    for (name, text) in sample::files() {
        let path = partial.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    files::rename(&partial, &folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(format!("sample market data written to {}", folder.display()))
}

/// `molboxd market reload`: has the running service load the data anew, once it is found good; of
/// several servers all.
pub(crate) async fn ask_to_reload(config: &Config, clock: &Clock) -> Result<String> {
    let store = load(config)?;
    if config.database.url.is_empty() {
        ask_one(config, &store).await?;
    } else {
        ask_all(&Db::open(config)?, clock, &store).await?;
    }
    Ok(format!("{} contracts in use, sha256 {}", store.contracts().len(), store.sha256()))
}

/// Has every server of a database take market data, each from the folder as it sees it.
async fn ask_all(db: &Db, clock: &Clock, store: &Store) -> Result<()> {
    db.ask_for_market(store.sha256().to_owned()).await?;
    let start = Instant::now();
    loop {
        let mut servers = db.servers(clock.now()).await?;
        if servers.is_empty() {
            bail!("no service runs on {}", db.place());
        }
        servers.retain(|server| server.market.as_deref() != Some(store.sha256()));
        if servers.is_empty() {
            return Ok(());
        }
        if start.elapsed() > RELOAD_TIMEOUT {
            let named: Vec<_> = servers.into_iter().map(|server| server.id).collect();
            bail!("these servers did not take the data, see their logs: {}", named.join(", "));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Has the one service of a data folder take market data.
async fn ask_one(config: &Config, store: &Store) -> Result<()> {
    let path = config.data.join("addresses.json");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("no service has run on {}", config.data.display()))?;
    let addresses: Value =
        serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
    let pid = addresses["pid"]
        .as_i64()
        .and_then(|pid| Pid::from_raw(pid as i32))
        .context("no process is named")?;
    if !is_served(&config.data)? {
        bail!("no service runs on {}", config.data.display());
    }
    let before = fs::read(announcement(config)).unwrap_or_default();
    kill_process(pid, Signal::HUP).context("signal the service")?;
    let answered = async {
        loop {
            match fs::read(announcement(config)) {
                Ok(said) if said != before => break said,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let said = tokio::time::timeout(RELOAD_TIMEOUT, answered)
        .await
        .context("the service does not answer; see its log")?;
    let said: Value = serde_json::from_slice(&said).context("read what the service says")?;
    if said["sha256"] != store.sha256() {
        bail!("the service did not take the data; see its log");
    }
    Ok(())
}
