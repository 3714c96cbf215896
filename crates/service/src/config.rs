//! Configuration: a TOML file, over it the environment, over it the command line.
//!
//! A key `a.b` is `[a] b = …` in the file, `MOLBOXD_A__B` in the environment and `--set a.b=…` on
//! the command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Everything that an operator can choose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Folder for database, files and results. Default: `molbox-data`.
    pub(crate) data: PathBuf,
    /// Address of the simulation workflow; port 0 takes a free one. Default: `127.0.0.1:8080`.
    pub(crate) listen: SocketAddr,
    /// Address of the margin endpoint. Default: `127.0.0.1:8081`.
    pub(crate) margin_listen: SocketAddr,
    /// Deployment stage, the last segment of the base address. Default: `local`.
    pub(crate) stage: String,
    /// Base address as clients see it, without the stage; upload links begin with it. Default:
    /// `http://` and the address that is listened on.
    pub(crate) public_url: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) worker: Worker,
}

/// What requests may ask for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Largest request body, in bytes. Default: 1 MiB.
    pub(crate) body_bytes: u64,
    /// Largest uploaded file, in bytes. Default: 5 GiB.
    pub(crate) upload_bytes: u64,
    /// Most atoms of a system. Default: 1 000 000.
    pub(crate) atoms: u64,
}

/// The worker and what it may use.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Worker {
    /// Python interpreter of the worker's environment. Default: `python3`.
    pub(crate) python: PathBuf,
    /// CPU cores that all workers share; one worker takes as many as are free, or its part of them
    /// when others wait. Default: all of the machine.
    pub(crate) cpus: usize,
    /// OpenMM platform. Default: the best that the machine has.
    pub(crate) platform: Option<String>,
    /// Longest time between two checkpoints of a simulation, in seconds. Default: 60.
    pub(crate) checkpoint_seconds: u64,
    /// How often a task is started before it counts as failed. Default: 3.
    pub(crate) attempts: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "molbox-data".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            margin_listen: SocketAddr::from(([127, 0, 0, 1], 8081)),
            stage: "local".to_owned(),
            public_url: None,
            limits: Limits::default(),
            worker: Worker::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 1 << 20, upload_bytes: 5 << 30, atoms: 1_000_000 }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            python: "python3".into(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            platform: None,
            checkpoint_seconds: 60,
            attempts: 3,
        }
    }
}

const PREFIX: &str = "MOLBOXD_";

impl Config {
    /// Reads the file, if one is named, the environment, and `key=value` settings, later ones over
    /// earlier ones.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        settings: &[(String, String)],
    ) -> Result<Self> {
        let mut table = match file {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
                text.parse().with_context(|| format!("read {}", path.display()))?
            }
            None => toml::Table::new(),
        };
        for (name, value) in environment {
            if let Some(key) = name.strip_prefix(PREFIX) {
                set(&mut table, &key.to_lowercase().replace("__", "."), &value)?;
            }
        }
        for (key, value) in settings {
            set(&mut table, key, value)?;
        }
        let config: Self = table.try_into().context("configuration")?;
        if config.stage.is_empty() || !config.stage.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            bail!("configuration: stage {:?} must be letters, digits, - and _", config.stage);
        }
        if config.worker.cpus == 0 {
            bail!("configuration: worker.cpus must be at least 1");
        }
        Ok(config)
    }
}

/// Puts a value at a dotted key; what is no TOML value is a string.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<()> {
    let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("v"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let (path, last) = key.rsplit_once('.').map_or((None, key), |(path, last)| (Some(path), last));
    let mut table = table;
    for step in path.into_iter().flat_map(|path| path.split('.')) {
        let entry = table.entry(step).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = entry.as_table_mut().with_context(|| format!("configuration: {key}: {step} is no section"))?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("molboxd.toml");
        std::fs::write(&file, "stage = 'a'\n[worker]\ncpus = 1\nattempts = 9\n").unwrap();
        let environment = [("MOLBOXD_STAGE", "b"), ("MOLBOXD_WORKER__CPUS", "2"), ("PATH", "/bin")];
        let environment = environment.map(|(k, v)| (k.to_owned(), v.to_owned()));
        let settings = [("worker.cpus".to_owned(), "3".to_owned())];
        let config = Config::load(Some(&file), environment.into_iter(), &settings).unwrap();
        assert_eq!((config.stage.as_str(), config.worker.cpus, config.worker.attempts), ("b", 3, 9));
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let settings = [("worker.cpu".to_owned(), "3".to_owned())];
        let error = Config::load(None, std::iter::empty(), &settings).unwrap_err();
        assert!(format!("{error:#}").contains("unknown field `cpu`"), "{error:#}");
    }
}
