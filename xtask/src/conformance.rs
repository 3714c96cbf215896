//! The live service against the document, by schemathesis.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::python;
use crate::service::Service;
use crate::shell::{root, run, target};

/// An address with the operations that are on it.
#[derive(Clone, Copy)]
pub enum Operations {
    Workflow,
    Margin,
}

/// Those of a service that is sent random requests.
pub const SETTINGS: [&str; 3] =
    ["limits.requests_per_minute=0", "limits.open_tasks=50", "worker.slots=1"];

/// Random requests, good and bad, to every operation of a service of its own: every answer has to
/// be one that the document has.
pub fn conformance(seconds: u64) -> Result<()> {
    let out = target().join("conformance");
    let service = Service::start(&out, &python::environment()?, &SETTINGS)?;
    let key = service.key("schemathesis")?;
    let context =
        || format!("random requests; the service's log is {}", out.join("molboxd.log").display());
    requests(&service.base_url, Operations::Workflow, &key, seconds * 3 / 4)
        .with_context(context)?;
    requests(&service.margin_url, Operations::Margin, &key, seconds / 4).with_context(context)?;
    service.stop()
}

/// The same for a service that runs elsewhere.
pub fn live(base_url: &str, margin_url: Option<&str>, key: &str, seconds: u64) -> Result<()> {
    requests(base_url, Operations::Workflow, key, seconds)?;
    margin_url.map_or(Ok(()), |url| requests(url, Operations::Margin, key, seconds))
}

fn requests(address: &str, operations: Operations, key: &str, seconds: u64) -> Result<()> {
    let out = target().join("conformance");
    fs::create_dir_all(&out)?;
    run_without_key(&mut schemathesis(&out, address, operations, key, seconds)?, key)
}

/// What sends requests to an address, and keeps in `out` what it learned.
pub fn schemathesis(
    out: &Path,
    address: &str,
    operations: Operations,
    key: &str,
    seconds: u64,
) -> Result<Command> {
    let folder = root().join("xtask/conformance");
    let tools = python::tools("conformance-env", &folder.join("requirements.txt"))?;
    let choose = match operations {
        Operations::Workflow => "--exclude-path-regex",
        Operations::Margin => "--include-path-regex",
    };
    let mut command = Command::new(tools.with_file_name("schemathesis"));
    command
        .current_dir(out)
        .arg("--config-file")
        .arg(folder.join("schemathesis.toml"))
        .arg("run")
        .arg(root().join("openapi/openapi.json"))
        .args(["--url", address, choose, "^/margin/", "--header", &format!("x-api-key: {key}")])
        .args([
            "--max-time",
            &seconds.to_string(),
            "--request-timeout",
            "30",
            "--continue-on-failure",
        ])
        .args(["--warnings", "off", "--no-color"]);
    Ok(command)
}

/// Runs a command; the error of its failure does not show the key.
fn run_without_key(command: &mut Command, key: &str) -> Result<()> {
    run(command).map_err(|error| anyhow::anyhow!(format!("{error:#}").replace(key, "…")))
}
