//! Where a document to compare comes from: a file, an address, a git revision.

use std::process::Command;

use anyhow::{Context, Result, bail};
use openapi_drift::{Api, at_revision};

use super::examples::{Examples, FOLDER};
use crate::regenerate::document;
use crate::shell::root;

/// The document's path in the repository.
pub const PATH: &str = "openapi/molbox.yaml";

/// The document with its examples; at a revision that is what it comes to.
pub const WITH_EXAMPLES: &str = "openapi/openapi.json";

/// The document of the working tree, with its examples.
pub fn working_tree() -> Result<Api> {
    let mut document = document()?.value;
    Examples::read(&root().join(FOLDER))?.put_into(&mut document);
    Ok(Api::new(document))
}

/// The document that `name` leads to: an address, a file, a `REVISION:PATH`, or a revision of this
/// repository.
pub fn read(name: &str) -> Result<Api> {
    let api = if name.starts_with("http://") || name.starts_with("https://") {
        Api::parse(&fetched(name)?)
    } else if std::path::Path::new(name).exists() || name.contains(':') {
        openapi_drift::read(name)
    } else {
        at_revision(&root(), &format!("{name}:{WITH_EXAMPLES}")).and_then(|text| Api::parse(&text))
    };
    api.with_context(|| format!("read {name}"))
}

fn fetched(address: &str) -> Result<String> {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--show-error", "--location", "--max-time", "30", address]);
    let shown = crate::shell::shown(&curl);
    let output = curl.output().with_context(|| format!("start {shown}"))?;
    if !output.status.success() {
        bail!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
