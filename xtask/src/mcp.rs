//! `molbox mcp` against a service, by the official client of the protocol.

use std::process::Command;

use anyhow::Result;

use crate::python;
use crate::service::Service;
use crate::shell::{program, root, run, target};

/// Lists and calls the tools as assistants do.
pub fn assistant() -> Result<()> {
    let molbox = program("molbox")?;
    let tests = root().join("crates/cli/tests/mcp");
    let client = python::tools("mcp/env", &tests.join("requirements.txt"))?;
    let service = Service::start(&target().join("mcp/service"), &python::environment()?, &[])?;
    let mut pytest = Command::new(client);
    pytest
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .arg(tests)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MOLBOX", molbox)
        .env("MOLBOX_STRUCTURE", root().join("examples/1vii.pdb"))
        .env("MOLBOX_BASE_URL", &service.base_url)
        .env("MOLBOX_MARGIN_URL", &service.margin_url)
        .env("MOLBOX_API_KEY", service.key("assistant")?);
    run(&mut pytest)?;
    service.stop()
}
