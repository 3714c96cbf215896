//! `molbox example`: a request with comments.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::schema;

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Noun {
    System,
    Job,
    Analysis,
    Margin,
}

impl Noun {
    /// Its schema, and the example of the document that is shown.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Self::System => (
                "SystemBuildRequest",
                include_str!(
                    "../../../../openapi/examples/system_submit.request.protein_and_ligand.json"
                ),
            ),
            Self::Job => (
                "JobCreateParams",
                include_str!("../../../../openapi/examples/job_submit.request.full.json"),
            ),
            Self::Analysis => (
                "AnalysisRequest",
                include_str!("../../../../openapi/examples/analysis_submit.request.full.json"),
            ),
            Self::Margin => (
                "MarginJobRequest",
                include_str!("../../../../openapi/examples/margin_submit.request.hedged.json"),
            ),
        }
    }
}

pub(crate) fn run(context: &Context, noun: Noun) -> Result<(), Failure> {
    let (schema, example) = noun.source();
    let example: Value = serde_json::from_str(example).map_err(anyhow::Error::from)?;
    let name = format!("{noun:?}").to_lowercase();
    let mut text = format!(
        "# A request for `molbox {name} submit --file`. Every field can be left out, or given as \
         a flag.\n"
    );
    object(&mut text, schema::named(schema), &example, 0, true);
    // People and files read it alike, so it is YAML also when nobody looks.
    context.output.text(&text)
}

/// The members of an object; those that the example lacks in comments, when `all` are wanted.
fn object(text: &mut String, schema: &'static Value, example: &Value, depth: usize, all: bool) {
    let indent = "  ".repeat(depth);
    for (name, field) in schema::fields(schema) {
        let value = example.get(name).filter(|value| !value.is_null());
        if value.is_none() && !all {
            continue;
        }
        for line in wrapped(&schema::description(field), 96) {
            let _ = writeln!(text, "{indent}# {line}");
        }
        match value {
            None => {
                let default =
                    field.get("x-default").map_or_else(String::new, |value| format!(" {value}"));
                let _ = writeln!(text, "{indent}# {name}:{default}");
            }
            Some(value @ Value::Object(_)) => {
                let _ = writeln!(text, "{indent}{name}:");
                object(text, field, value, depth + 1, true);
            }
            Some(Value::Array(items)) if items.first().is_some_and(Value::is_object) => {
                let _ = writeln!(text, "{indent}{name}:");
                let inner = &schema::resolved(field)["items"];
                for (index, item) in items.iter().enumerate() {
                    let mut lines = String::new();
                    object(&mut lines, inner, item, depth + 2, index == 0);
                    // The first line that is no comment has the dash.
                    let dash = format!("{}- ", "  ".repeat(depth + 1));
                    let start = lines.lines().position(|line| !line.trim_start().starts_with('#'));
                    for (number, line) in lines.lines().enumerate() {
                        let line = if Some(number) == start {
                            format!("{dash}{}", line.trim_start())
                        } else {
                            line.to_owned()
                        };
                        let _ = writeln!(text, "{line}");
                    }
                }
            }
            Some(value) => {
                let _ = writeln!(text, "{indent}{name}: {value}");
            }
        }
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
