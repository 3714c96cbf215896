//! The live service against the document, by schemathesis, and under random kills.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::service::Service;
use crate::{cargo, python, root, run, target};

/// What takes long and finds what short tests do not: half the time for random requests, half for
/// random kills of service and workers.
pub fn soak(minutes: u64) -> Result<()> {
    let seconds = minutes * 60 / 2;
    conformance(seconds)?;
    let python = python::environment()?;
    run(cargo()
        .args(["test", "--package", "molbox-service", "--test", "service", "kills", "--", "--nocapture"])
        .env("MOLBOX_TEST_PYTHON", &python)
        .env("MOLBOX_SOAK_SECONDS", seconds.to_string()))
}

/// Random requests, good and bad, to every operation of a live service: every answer has to be one
/// that the document has.
pub fn conformance(seconds: u64) -> Result<()> {
    let requirements = root().join("xtask/conformance/requirements.txt");
    let tools = python::tools("conformance-env", &requirements)?;
    let out = target().join("conformance");
    let service = Service::start(
        &out,
        &python::environment()?,
        &["limits.requests_per_minute=0", "limits.open_tasks=50", "worker.slots=1"],
    )?;
    let key = service.key("schemathesis")?;
    let check = |address: &str, choose: &str, seconds: u64| {
        let mut command = Command::new(tools.with_file_name("schemathesis"));
        command
            .current_dir(&out)
            .args(["--config-file", &root().join("xtask/conformance/schemathesis.toml").display().to_string()])
            .args(["run", &root().join("openapi/openapi.json").display().to_string()])
            .args(["--url", address, choose, "^/margin/", "--header", &format!("x-api-key: {key}")])
            .args(["--max-time", &seconds.to_string(), "--request-timeout", "30", "--continue-on-failure"])
            .args(["--warnings", "off", "--no-color"]);
        run(&mut command).with_context(|| log(&out))
    };
    check(&service.base_url, "--exclude-path-regex", seconds * 3 / 4)?;
    check(&service.margin_url, "--include-path-regex", seconds / 4)?;
    service.stop()
}

fn log(out: &Path) -> String {
    format!("requests to the live service; its log is {}", out.join("molboxd.log").display())
}
