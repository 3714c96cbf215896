//! `molboxd doctor`: whether everything is there that the service needs, and what to do if not.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::geteuid;
use serde_json::Value;

use crate::config::{Config, Sandbox};
use crate::db::Db;
use crate::folder;
use crate::handlers::portal;
use crate::objects::Objects;
use crate::runner::environment;

/// One check: what it is about, and what was found or is wrong.
pub(crate) struct Finding {
    pub(crate) about: &'static str,
    pub(crate) result: Result<Found>,
}

/// What a check found.
pub(crate) enum Found {
    Sound(String),
    /// The service works, but with less protection than it could have.
    Weak(String),
}

/// Runs every check.
pub(crate) async fn examine(config: &Config) -> Vec<Finding> {
    let (workers, sandbox) = workers(config).await;
    vec![
        Finding { about: "data folder", result: data(config).map(Found::Sound) },
        Finding { about: "database", result: database(config).await.map(Found::Sound) },
        Finding { about: "workers", result: workers.map(Found::Sound) },
        Finding { about: "sandbox", result: sandbox },
        Finding { about: "pdb mirror", result: mirror(config).await.map(Found::Sound) },
        Finding { about: "addresses", result: addresses(config).await.map(Found::Sound) },
        Finding { about: "portal", result: Ok(Found::Sound(portal())) },
    ]
}

fn data(config: &Config) -> Result<String> {
    folder::make(&config.data)?;
    let objects = Objects::open(&config.data)?;
    let probe = config.data.join("doctor.tmp");
    std::fs::write(&probe, "written")
        .with_context(|| format!("write in {}", config.data.display()))?;
    std::fs::remove_file(&probe)?;
    let free = objects.free_bytes()?;
    if free < config.limits.free_disk_bytes {
        bail!("{} MiB are free, less than limits.free_disk_bytes; make room", free >> 20);
    }
    Ok(format!("{}, {} GiB free", config.data.display(), free >> 30))
}

async fn database(config: &Config) -> Result<String> {
    let db = Db::open(&config.data)?;
    db.check(Duration::MAX)?;
    let accounts = db.accounts().await?.len();
    if accounts == 0 {
        return Ok("sound; there is no account yet, make one with `molboxd account create NAME`"
            .to_owned());
    }
    Ok(format!("sound, {accounts} accounts"))
}

/// Whether workers work, and how they are confined.
async fn workers(config: &Config) -> (Result<String>, Result<Found>) {
    let gpus = &config.worker.gpus;
    let gpus: Vec<_> =
        if gpus.is_empty() { vec![None] } else { gpus.iter().copied().map(Some).collect() };
    let mut found = Value::Null;
    for gpu in gpus {
        let name = gpu.map_or_else(String::new, |gpu| format!("GPU {gpu}: "));
        match environment::check(config, gpu).await {
            Ok(checked) => found = checked,
            Err(broken) => {
                let unknown = anyhow!("not known as long as workers do not start");
                return (Err(anyhow!("{name}{}", broken.cause)), Err(unknown));
            }
        }
    }
    (Ok(versions(config, &found)), Ok(sandbox(config, &found)))
}

fn versions(config: &Config, found: &Value) -> String {
    let platforms: Vec<&str> =
        found["platforms"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let version = |name: &str| found["versions"][name].as_str().unwrap_or("?");
    let ligands = match found["ligand_tools"] == true {
        true => "",
        false => {
            "; without the programs for charges of ligands, whose builds fail: install worker/requirements.txt"
        }
    };
    format!(
        "Python {}, OpenMM {} with {}; {} slots on {} CPUs{ligands}",
        version("python"),
        version("openmm"),
        platforms.join(", "),
        config.slots(),
        config.cpus(),
    )
}

/// How workers are confined, as a worker's log has it.
fn sandbox(config: &Config, found: &Value) -> Found {
    let confined = found["sandbox"].as_str().unwrap_or("unknown");
    let is_root = geteuid().is_root() && config.worker.user == 0;
    let root = "; the service is root: start it as a user of its own, or set worker.user";
    let text = format!("{confined}{}", if is_root { root } else { "" });
    let is_weak =
        is_root || confined.starts_with("without") || config.worker.sandbox == Sandbox::Off;
    if is_weak { Found::Weak(text) } else { Found::Sound(text) }
}

async fn mirror(config: &Config) -> Result<String> {
    let mirror = &config.pdb.mirror;
    if mirror.is_empty() {
        return Ok("none; entries cannot be asked for by pdb_id".to_owned());
    }
    let place = mirror.replace("{id}", "1l2y").replace("{ID}", "1L2Y");
    if !place.starts_with("http") {
        if !Path::new(&place).exists() {
            bail!("{place} is not there");
        }
        return Ok(format!("{place} is there"));
    }
    let limit = Duration::from_secs(config.pdb.timeout_seconds);
    let answer = tokio::time::timeout(limit, crate::pdb::client()?.head(&place).send()).await;
    let status = answer.with_context(|| format!("{place} does not answer"))??.status();
    if !status.is_success() {
        bail!("{place} answers {status}");
    }
    Ok(format!("{place} answers"))
}

async fn addresses(config: &Config) -> Result<String> {
    for address in [config.listen, config.margin_listen] {
        match tokio::net::TcpListener::bind(address).await {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                return Ok(format!("{address} is in use, by molboxd itself if it runs"));
            }
            Err(error) => return Err(error).with_context(|| format!("listen on {address}")),
        }
    }
    Ok(format!("{} and {} are free", config.listen, config.margin_listen))
}

fn portal() -> String {
    let text = if portal::is_built() { "built in" } else { portal::MISSING };
    text.to_owned()
}
