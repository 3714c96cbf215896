//! Looking at the document: its rules, its changes, what is ours in it.

mod compare;
mod diff;
mod finding;
mod shape;
mod source;
#[cfg(test)]
mod tests;
mod values;

use anyhow::{Result, bail};
use clap::Subcommand;
use molbox_codegen::Document;
use serde_json::Value;

use self::shape::Api;
use crate::regenerate::{document, regenerate};

#[derive(Subcommand)]
pub enum Spec {
    /// Check the document against its rules, and what is derived from it.
    Check,
    /// Compare two versions of the document, or another document with it.
    ///
    /// Ends with 0, or with 3 for a breaking change that `info.version` does not announce.
    Diff {
        /// A git revision, a file, or an address such as http://127.0.0.1:8000/openapi.json.
        old: String,
        /// The same; the document of the working tree when left out.
        new: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Print what is cosmetic too.
        #[arg(long)]
        all: bool,
    },
    /// List what is ours in it: additions to the interface, and choices that it left open.
    Ours,
}

/// Runs a command on the document; its exit code.
pub fn run(spec: &Spec) -> Result<u8> {
    match spec {
        Spec::Check => check(&document()?)?,
        Spec::Diff { old, new, json, all } => {
            let new = new.as_deref().map_or_else(|| Ok(Api::new(document()?.value)), source::read)?;
            return diff::diff(&source::read(old)?, &new, *json, *all);
        }
        Spec::Ours => ours(&document()?.value, ""),
    }
    Ok(0)
}

/// Compares with the document of the last release.
pub fn since_release() -> Result<()> {
    let Some(tag) = source::last_release() else {
        println!("skipped: there is no release yet");
        return Ok(());
    };
    match diff::diff(&source::read(&tag)?, &Api::new(document()?.value), false, false)? {
        0 => Ok(()),
        _ => bail!("breaking changes since {tag} that the version does not announce"),
    }
}

fn check(document: &Document) -> Result<()> {
    let problems = document.problems();
    for problem in &problems {
        eprintln!("openapi/molbox.yaml: {problem}");
    }
    if !problems.is_empty() {
        bail!("{} breaches of the rules in openapi/README.md", problems.len());
    }
    regenerate(true)
}

fn ours(value: &Value, at: &str) {
    match value {
        Value::Object(map) => {
            if map.contains_key("x-origin") {
                println!("{at}");
            }
            if let Some(choice) = map.get("x-choice").and_then(Value::as_str) {
                println!("{at}: {choice}");
            }
            map.iter().for_each(|(key, value)| ours(value, &format!("{at}/{}", key.replace('/', "~1"))));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| ours(item, &format!("{at}/{index}")));
        }
        _ => {}
    }
}
