//! Looking at the document: its rules, its changes, what is ours in it.

mod check;
pub mod examples;
mod interface;
mod lines;
#[cfg(test)]
mod mutations;
pub mod openapi31;
pub mod published;
mod served;
mod since;
mod source;

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use openapi_drift::Api;
use serde_json::Value;

pub use served::STATUSES;
pub use since::{RELEASED, last_release, numbers};

use crate::regenerate::document;
use crate::shell::root;
use crate::{conformance, lint};

#[derive(Subcommand)]
pub enum Spec {
    /// Check the document against its rules, the interface, the service's routes, its examples, the
    /// last commit, and what is derived from it.
    ///
    /// Ends with 0 when all is fine; with 1 when something is broken; with 3 when something breaks
    /// clients or demands less than at the last commit, which somebody has to want; with 4 when
    /// `cargo xtask regenerate` is all that it needs.
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare two versions of the document, or another document with it.
    ///
    /// Ends with 0, or with 3 for a breaking change, on the wire or in the generated Rust, that
    /// `info.x-release` does not announce.
    Diff {
        /// A git revision, a file, or an address such as http://127.0.0.1:8000/openapi.json; the
        /// last release in openapi/released/ when left out.
        old: Option<String>,
        /// The same; the document of the working tree when left out.
        new: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Print what is cosmetic too.
        #[arg(long)]
        all: bool,
    },
    /// Compare a running service with the document: what it publishes, and how it behaves.
    ///
    /// Its key is taken from MOLBOX_API_KEY. Sends random requests, some of which submit work: not
    /// for a service that people depend on. Ends like `diff`.
    Live {
        /// Its base address, for example http://127.0.0.1:8080/local.
        url: String,
        /// Its margin address.
        #[arg(long)]
        margin_url: Option<String>,
        /// How long requests are sent to each address; 0 to compare what is published only.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Lint the document with Spectral, Redocly and openapi-spec-validator.
    Lint,
    /// List what is ours in it: additions to the interface, and choices that it left open.
    Ours,
}

/// Runs a command on the document; its exit code.
pub fn run(spec: &Spec) -> Result<u8> {
    match spec {
        Spec::Check { json } => return check::check(&root(), *json),
        Spec::Diff { old, new, json, all } => {
            let new = new.as_deref().map_or_else(source::working_tree, source::read)?;
            return match old {
                Some(old) => diff(&source::read(old)?, &new, *json, *all),
                None => diff_release(&root(), &new, *json, *all),
            };
        }
        Spec::Live { url, margin_url, seconds } => {
            let url = url.trim_end_matches('/');
            let published = source::read(&format!("{url}/openapi.json"))?;
            let code = diff(&source::working_tree()?, &published, false, false)?;
            if *seconds > 0 {
                let key = std::env::var("MOLBOX_API_KEY").context("MOLBOX_API_KEY is not set")?;
                conformance::live(url, margin_url.as_deref(), &key, *seconds)?;
            }
            return Ok(code);
        }
        Spec::Lint => lint::lint()?,
        Spec::Ours => ours(&document()?.value, ""),
    }
    Ok(0)
}

/// Compares, prints, and returns the exit code: 0, or 3 for a breaking change that the version does
/// not announce.
fn diff(old: &Api, new: &Api, json: bool, all: bool) -> Result<u8> {
    let report = since::report(old, new);
    crate::shell::print(&if json {
        serde_json::to_string_pretty(&report.json())? + "\n"
    } else {
        report.text(all)
    })?;
    Ok(if report.is_announced() { 0 } else { 3 })
}

fn diff_release(root: &Path, new: &Api, json: bool, all: bool) -> Result<u8> {
    match since::last_release(root)? {
        Some((_, old)) => diff(&old, new, json, all),
        None => {
            println!(
                "{} holds no document: nothing was released, and nothing is compared",
                since::RELEASED
            );
            Ok(0)
        }
    }
}

/// Compares with the document of the last release.
pub fn since_release() -> Result<()> {
    match diff_release(&root(), &source::working_tree()?, false, false)? {
        0 => Ok(()),
        _ => bail!("the document has breaking changes that info.x-release does not announce"),
    }
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
            map.iter()
                .for_each(|(key, value)| ours(value, &format!("{at}/{}", key.replace('/', "~1"))));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| ours(item, &format!("{at}/{index}")));
        }
        _ => {}
    }
}
