//! A service in a folder of its own, for the demo and for tests from outside.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{program, run, target};

/// How long a service may take until it listens.
pub const START_LIMIT: Duration = Duration::from_secs(30);
/// How long tasks that were cancelled may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// What runs simulations: the same on any machine, whatever else is installed.
pub const ENGINE: &str = "worker.engine=\"openmm\"";

/// A running service; it ends with the value.
pub struct Service {
    child: Child,
    data: PathBuf,
    pub base_url: String,
    pub margin_url: String,
}

impl Service {
    /// Starts the service as built, with sample market data, in `out`, which is made anew.
    pub fn start(out: &Path, python: &Path, settings: &[&str]) -> Result<Self> {
        if out.exists() {
            fs::remove_dir_all(out)?;
        }
        fs::create_dir_all(out)?;
        program("molboxd")?;
        let data = out.join("data");
        run(molboxd(&data).args(["market", "sample"]).stdout(Stdio::null()))?;
        let log = File::create(out.join("molboxd.log"))?;
        let mut command = molboxd(&data);
        command
            .args(["--set", "listen=\"127.0.0.1:0\"", "--set", "margin_listen=\"127.0.0.1:0\""])
            .args(["--set", &format!("worker.python={:?}", python.display().to_string())])
            .args(["--set", ENGINE]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        let mut child = command
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start molboxd")?;
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                bail!("molboxd ended ({status}); its log is {}", out.join("molboxd.log").display());
            }
            if let Ok(text) = fs::read_to_string(data.join("addresses.json")) {
                let addresses: Value = serde_json::from_str(&text)?;
                let base_url = address(&addresses, "base_url")?;
                let margin_url = address(&addresses, "margin_base_url")?;
                return Ok(Self { child, data, base_url, margin_url });
            }
            if start.elapsed() > START_LIMIT {
                bail!("molboxd does not listen after {} s", START_LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A key of a new account.
    pub fn key(&self, account: &str) -> Result<String> {
        run(molboxd(&self.data).args(["account", "create", account]).stdout(Stdio::null()))?;
        let output =
            molboxd(&self.data).args(["key", "create", account]).stderr(Stdio::null()).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Cancels the tasks of the service, which would outlive it, and ends it as an operator would.
    pub fn stop(mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            let tasks = self.tasks()?;
            if tasks.is_empty() {
                break;
            }
            if start.elapsed() > STOP_LIMIT {
                bail!("{tasks:?} do not end when they are cancelled");
            }
            run(molboxd(&self.data).args(["task", "cancel"]).args(&tasks).stdout(Stdio::null()))?;
            std::thread::sleep(Duration::from_millis(200));
        }
        run(Command::new("kill").arg(self.child.id().to_string()))?;
        self.child.wait()?;
        Ok(())
    }

    /// Those that are queued or run.
    fn tasks(&self) -> Result<Vec<String>> {
        let listed = molboxd(&self.data).args(["task", "list", "--json"]).output()?;
        anyhow::ensure!(listed.status.success(), "molboxd task list: {}", listed.status);
        let lines = std::str::from_utf8(&listed.stdout)?.lines();
        lines
            .map(|line| {
                let task: Value = serde_json::from_str(line)?;
                task["task_id"].as_str().context("the identifier of a task").map(str::to_owned)
            })
            .collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Only what `stop` did not reach; the process may be gone.
        let _ = self.child.kill();
    }
}

fn molboxd(data: &Path) -> Command {
    let mut command = Command::new(target().join("debug/molboxd"));
    command.arg("--data").arg(data);
    command
}

fn address(addresses: &Value, name: &str) -> Result<String> {
    addresses[name].as_str().context("the service's address").map(str::to_owned)
}
