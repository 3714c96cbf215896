//! The main job on a real protein: a service on free ports, the client's example, a picture.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cargo, python, root, run, target};

const START_LIMIT: Duration = Duration::from_secs(30);

pub fn demo() -> Result<()> {
    let python = python::environment()?;
    eprintln!("building");
    run(cargo().args([
        "build",
        "--quiet",
        "--package",
        "molbox-service",
        "--package",
        "molbox",
        "--example",
        "demo",
        "--bin",
        "molboxd",
    ]))?;
    let out = target().join("demo");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    let start = Instant::now();
    let service = Service::start(&out, &python)?;
    let key = service.key()?;
    let example = target().join("debug/examples/demo");
    let mut command = Command::new(example);
    command
        .arg(root().join("examples/1vii.pdb"))
        .arg(&out)
        .env("MOLBOX_BASE_URL", &service.base_url)
        .env("MOLBOX_API_KEY", key);
    run(&mut command).with_context(|| format!("the service's log is {}", out.join("molboxd.log").display()))?;
    service.stop()?;
    println!("done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// A service in a folder of its own.
pub(crate) struct Service {
    child: Child,
    data: PathBuf,
    pub(crate) base_url: String,
}

impl Service {
    pub(crate) fn start(out: &Path, python: &Path) -> Result<Self> {
        let data = out.join("data");
        let log = File::create(out.join("molboxd.log"))?;
        let mut child = molboxd(&data)
            .args(["--set", "listen=\"127.0.0.1:0\"", "--set", "margin_listen=\"127.0.0.1:0\""])
            .args(["--set", &format!("worker.python={:?}", python.display().to_string())])
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start molboxd")?;
        let addresses = data.join("addresses.json");
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                bail!("molboxd ended ({status}); its log is {}", out.join("molboxd.log").display());
            }
            if let Ok(text) = fs::read_to_string(&addresses) {
                let addresses: Value = serde_json::from_str(&text)?;
                let base_url = addresses["base_url"].as_str().context("the service's address")?.to_owned();
                return Ok(Self { child, data, base_url });
            }
            if start.elapsed() > START_LIMIT {
                bail!("molboxd does not listen after {} s", START_LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A key of a new account.
    pub(crate) fn key(&self) -> Result<String> {
        run(molboxd(&self.data).args(["account", "create", "demo"]).stdout(Stdio::null()))?;
        let output = molboxd(&self.data).args(["key", "create", "demo"]).stderr(Stdio::null()).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    pub(crate) fn stop(mut self) -> Result<()> {
        run(Command::new("sh").args(["-c", &format!("kill {}", self.child.id())]))?;
        self.child.wait()?;
        Ok(())
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
