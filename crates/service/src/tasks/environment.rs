//! Whether workers can carry out tasks at all: interpreter, packages, sandbox, platform, GPU.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::config::Config;
use crate::tasks::failure::Fault;
use crate::tasks::last_lines;

/// How long a check may take; on an idle machine it takes a second.
const LIMIT: Duration = Duration::from_secs(120);
/// Code of everything that is wrong and has no code of its own.
pub(crate) const BROKEN: &str = "environment_broken";

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) code: String,
    /// For the operator; it may name paths.
    pub(crate) cause: String,
}

/// Has a worker carry out the task that every environment can, where and as the others are; returns
/// what there is.
pub(crate) async fn check(config: &Config, gpu: Option<u32>) -> Result<Value, Broken> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = Folder(config.data.join("check").join(name));
    let python = config.worker.python.display();
    let wrong = |cause: String| Broken { code: BROKEN.to_owned(), cause };
    let written = write_task(config, gpu, &folder.0);
    let log = written.map_err(|error| wrong(format!("write {}: {error}", folder.0.display())))?;
    let mut command = Command::new(&config.worker.python);
    command.args(["-m", "molbox_worker"]).arg(&folder.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let started = command.kill_on_drop(true).spawn();
    let mut child = started.map_err(|error| wrong(format!("start {python}; set worker.python: {error}")))?;
    let status = match tokio::time::timeout(LIMIT, child.wait()).await {
        Ok(status) => status.map_err(|error| wrong(format!("wait for {python}: {error}")))?,
        Err(_) => return Err(wrong(format!("{python} has not answered for {} s", LIMIT.as_secs()))),
    };
    result(&folder.0, status).map_err(|broken| Broken { cause: format!("{python}: {}", broken.cause), ..broken })
}

fn result(folder: &Path, status: ExitStatus) -> Result<Value, Broken> {
    let result: Option<Value> =
        fs::read(folder.join("result.json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(result) = result else {
        let last = last_lines(folder).pop().unwrap_or_default();
        let cause = format!("{status}: {last}; install worker/requirements.txt and ./worker into it");
        return Err(Broken { code: BROKEN.to_owned(), cause });
    };
    if result["status"] == "succeeded" {
        return Ok(result);
    }
    let text = |member: &str| result["error"][member].as_str().unwrap_or_default().to_owned();
    let is_known = matches!(Fault::of(&text("code")), Fault::Machine | Fault::Operator);
    Err(Broken { code: if is_known { text("code") } else { BROKEN.to_owned() }, cause: text("message") })
}

fn write_task(config: &Config, gpu: Option<u32>, folder: &Path) -> std::io::Result<File> {
    fs::create_dir_all(folder)?;
    let task = json!({
        "kind": "environment",
        "id": "environment",
        "attempt": 0,
        "plan": {},
        "seed": 1,
        "platform": Some(&config.worker.platform).filter(|name| !name.is_empty()),
        "threads": 1,
        "device": gpu,
        "cache": folder.join("cache"),
        "sandbox": config.worker.sandbox,
    });
    fs::write(folder.join("task.json"), task.to_string())?;
    File::create(folder.join("log.txt"))
}

/// The folder of a check, which goes with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What a check leaves is cleared when the service starts.
        let _ = fs::remove_dir_all(&self.0);
    }
}
