//! Looking at the document: its rules, its changes, what is ours in it.

mod check;
mod compare;
mod diff;
pub mod examples;
mod finding;
mod lines;
pub mod openapi31;
#[cfg(test)]
mod oracle;
mod served;
pub mod shape;
mod source;
#[cfg(test)]
mod tests;
mod values;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::Value;

use crate::regenerate::document;
use crate::{lint, root, soak};

#[derive(Subcommand)]
pub enum Spec {
    /// Check the document against its rules, its examples, the service, and what is derived from it.
    ///
    /// Ends with 0 when all is fine, with 4 when `cargo xtask regenerate` mends it, else with 1.
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare two versions of the document, or another document with it.
    ///
    /// Ends with 0, or with 3 for a breaking change that `info.version` does not announce.
    Diff {
        /// A git revision, a file, or an address such as http://127.0.0.1:8000/openapi.json; the last
        /// release when left out.
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
            let Some(old) = old.clone().or_else(source::last_release) else {
                println!("skipped: no tag of a release (v…) comes before this commit");
                return Ok(0);
            };
            let new = new.as_deref().map_or_else(source::working_tree, source::read)?;
            return diff::diff(&source::read(&old)?, &new, *json, *all);
        }
        Spec::Live { url, margin_url, seconds } => {
            let url = url.trim_end_matches('/');
            let published = source::read(&format!("{url}/openapi.json"))?;
            let code = diff::diff(&source::working_tree()?, &published, false, false)?;
            if *seconds > 0 {
                let key = std::env::var("MOLBOX_API_KEY").context("MOLBOX_API_KEY is not set")?;
                soak::live(url, margin_url.as_deref(), &key, *seconds)?;
            }
            return Ok(code);
        }
        Spec::Lint => lint::lint()?,
        Spec::Ours => ours(&document()?.value, ""),
    }
    Ok(0)
}

/// Compares with the document of the last release.
pub fn since_release() -> Result<()> {
    match run(&Spec::Diff { old: None, new: None, json: false, all: false })? {
        0 => Ok(()),
        _ => bail!("the document has breaking changes that its version does not announce"),
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
            map.iter().for_each(|(key, value)| ours(value, &format!("{at}/{}", key.replace('/', "~1"))));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| ours(item, &format!("{at}/{index}")));
        }
        _ => {}
    }
}
