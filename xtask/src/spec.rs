//! Looking at the document.

use anyhow::{Result, bail};
use clap::Subcommand;
use molbox_codegen::Document;
use serde_json::Value;

use crate::regenerate::{document, regenerate};

#[derive(Subcommand)]
pub enum Spec {
    /// Check the document against its rules, and what is derived from it.
    Check,
    /// List what is ours in it: additions to the interface, and choices that it left open.
    Ours,
}

pub fn run(spec: &Spec) -> Result<()> {
    let document = document()?;
    match spec {
        Spec::Check => check(&document),
        Spec::Ours => {
            ours(&document.value, "");
            Ok(())
        }
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
