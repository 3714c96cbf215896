//! Where a document to compare comes from: a file, a URL, a git revision.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use molbox_codegen::Document;

use super::shape::Api;
use crate::root;

/// The document's path in the repository.
pub const PATH: &str = "openapi/molbox.yaml";

/// The document that `name` leads to: an address, a file, or a revision of this repository.
pub fn read(name: &str) -> Result<Api> {
    let text = if name.starts_with("http://") || name.starts_with("https://") {
        output(Command::new("curl").args([
            "--fail",
            "--silent",
            "--show-error",
            "--location",
            "--max-time",
            "30",
            name,
        ]))?
    } else if Path::new(name).is_file() {
        fs::read_to_string(name).with_context(|| format!("read {name}"))?
    } else {
        output(Command::new("git").current_dir(root()).args(["show", &format!("{name}:{PATH}")]))
            .with_context(|| format!("{name} is neither a file nor a revision that has {PATH}"))?
    };
    parse(&text).with_context(|| format!("read {name}"))
}

pub fn parse(text: &str) -> Result<Api> {
    let document = Document::read(text)?;
    let version = document.value["openapi"].as_str().unwrap_or_default();
    if !version.starts_with("3.") {
        bail!("not an OpenAPI 3 document");
    }
    Ok(Api::new(document.value))
}

/// The newest tag of a release that this commit comes after; none before the first.
pub fn last_release() -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]);
    output(&mut git).ok().map(|tag| tag.trim().to_owned())
}

fn output(command: &mut Command) -> Result<String> {
    let shown = crate::shown(command);
    let output = command.output().with_context(|| format!("start {shown}"))?;
    if !output.status.success() {
        bail!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
