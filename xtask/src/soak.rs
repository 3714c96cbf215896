//! The live service against the document, by schemathesis, and under random kills.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::service::Service;
use crate::{cargo, python, root, run, target};

/// An address with the operations that are on it.
enum Operations {
    Workflow,
    Margin,
}

/// What takes long and finds what short tests do not: the engine's long tests, half an hour
/// or so; then for half the time random requests, for half random kills of service and workers.
pub fn soak(minutes: u64) -> Result<()> {
    let seconds = minutes * 60 / 2;
    let python = python::environment()?;
    run(Command::new(&python)
        .current_dir(root().join("worker"))
        .args(["-m", "pytest", "--quiet", "-m", "soak", "--dist", "load"]))?;
    conformance(seconds)?;
    run(cargo()
        .args(["test", "--package", "molbox-service", "--test", "service", "kills", "--", "--nocapture"])
        .env("MOLBOX_TEST_PYTHON", &python)
        .env("MOLBOX_SOAK_SECONDS", seconds.to_string()))
}

/// Every fuzz target in turn; see `fuzz/README.md`.
pub fn fuzz(seconds: u64) -> Result<()> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets"))? {
        targets.push(entry?.path().file_stem().context("a target has a name")?.to_owned());
    }
    targets.sort();
    for target in targets {
        let mut fuzz = cargo();
        fuzz.args(["fuzz", "run", "--sanitizer", "none"])
            .arg(&target)
            .arg("--")
            .args([&format!("-max_total_time={seconds}"), "-timeout=10", "-rss_limit_mb=2048", "-verbosity=0"])
            // Its instrumentation is not in the stable compiler's options.
            .env("RUSTC_BOOTSTRAP", "1");
        run(&mut fuzz).context("cargo-fuzz is installed by `cargo install cargo-fuzz`")?;
        println!("{}: nothing found in {seconds} s", target.display());
    }
    Ok(())
}

/// Random requests, good and bad, to every operation of a service of its own: every answer has to
/// be one that the document has.
pub fn conformance(seconds: u64) -> Result<()> {
    let out = target().join("conformance");
    let settings = ["limits.requests_per_minute=0", "limits.open_tasks=50", "worker.slots=1"];
    let service = Service::start(&out, &python::environment()?, &settings)?;
    let key = service.key("schemathesis")?;
    let said = || format!("random requests; the service's log is {}", out.join("molboxd.log").display());
    requests(&service.base_url, &Operations::Workflow, &key, seconds * 3 / 4).with_context(said)?;
    requests(&service.margin_url, &Operations::Margin, &key, seconds / 4).with_context(said)?;
    service.stop()
}

/// The same for a service that runs elsewhere.
pub fn live(base_url: &str, margin_url: Option<&str>, key: &str, seconds: u64) -> Result<()> {
    requests(base_url, &Operations::Workflow, key, seconds)?;
    margin_url.map_or(Ok(()), |url| requests(url, &Operations::Margin, key, seconds))
}

fn requests(address: &str, operations: &Operations, key: &str, seconds: u64) -> Result<()> {
    let folder = root().join("xtask/conformance");
    let tools = python::tools("conformance-env", &folder.join("requirements.txt"))?;
    let choose = match operations {
        Operations::Workflow => "--exclude-path-regex",
        Operations::Margin => "--include-path-regex",
    };
    let out = target().join("conformance");
    fs::create_dir_all(&out)?;
    let mut command = Command::new(tools.with_file_name("schemathesis"));
    command
        // It keeps what it learned where it runs.
        .current_dir(&out)
        .arg("--config-file")
        .arg(folder.join("schemathesis.toml"))
        .arg("run")
        .arg(root().join("openapi/openapi.json"))
        .args(["--url", address, choose, "^/margin/", "--header", &format!("x-api-key: {key}")])
        .args(["--max-time", &seconds.to_string(), "--request-timeout", "30", "--continue-on-failure"])
        .args(["--warnings", "off", "--no-color"]);
    run_without_key(&mut command, key)
}

/// Runs a command; what is said of its failure does not show the key.
fn run_without_key(command: &mut Command, key: &str) -> Result<()> {
    run(command).map_err(|error| anyhow::anyhow!(format!("{error:#}").replace(key, "…")))
}
