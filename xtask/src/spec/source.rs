//! Where a document to compare comes from: a file, a URL, a git revision.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use molbox_codegen::Document;
use serde_json::Value;

use super::examples::{Examples, FOLDER};
use super::shape::Api;
use crate::regenerate::document;
use crate::root;

/// The document's path in the repository.
pub const PATH: &str = "openapi/molbox.yaml";

/// The document with its examples; at a revision that is what it comes to.
const WITH_EXAMPLES: &str = "openapi/openapi.json";

/// The document of the working tree, with its examples.
pub fn working_tree() -> Result<Api> {
    let mut document = document()?.value;
    Examples::read(&root().join(FOLDER))?.put_into(&mut document);
    Ok(Api::new(document))
}

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
        output(Command::new("git").current_dir(root()).args(["show", &format!("{name}:{WITH_EXAMPLES}")]))
            .with_context(|| format!("{name} is neither a file nor a revision that has {WITH_EXAMPLES}"))?
    };
    parse(&text).with_context(|| format!("read {name}"))
}

pub fn parse(text: &str) -> Result<Api> {
    let document = Document::read(text)?;
    let version = document.value["openapi"].as_str().unwrap_or_default();
    if !version.starts_with("3.") {
        bail!("not an OpenAPI 3 document");
    }
    if let Some(reference) = dangling(&document.value, &document.value) {
        bail!("{reference} leads nowhere; references to other files are not followed");
    }
    Ok(Api::new(document.value))
}

/// A reference in `value` that leads nowhere in `document`; without what it leads to, a verdict would be
/// a guess.
fn dangling<'a>(value: &'a Value, document: &Value) -> Option<&'a str> {
    // Values, not schemas.
    let is_data =
        |key: &str| ["example", "examples", "default", "enum", "const"].contains(&key) || key.starts_with("x-");
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            let leads_nowhere =
                |to: &&str| to.strip_prefix('#').is_none_or(|pointer| document.pointer(pointer).is_none());
            let inner = map.iter().filter(|(key, _)| !is_data(key));
            reference
                .filter(leads_nowhere)
                .or_else(|| inner.into_iter().find_map(|(_, value)| dangling(value, document)))
        }
        Value::Array(items) => items.iter().find_map(|value| dangling(value, document)),
        _ => None,
    }
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
