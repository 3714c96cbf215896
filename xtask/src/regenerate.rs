//! Everything that is derived: from the document, as JSON, as OpenAPI 3.1, its surface, the
//! reference, the models of the Python client; from the table of errors, its page and what the
//! programs have of it; and from the programs, what they print of themselves and what others can
//! use of the client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use molbox_codegen::{Document, referred_name};
use serde_json::Value;

use crate::docs::markdown;
use crate::errors::Errors;
use crate::packages::surface;
use crate::python;
use crate::shell::{self, root, run, shown};
use crate::spec::examples::{Examples, FOLDER};
use crate::spec::published::{Address, published};

/// Files that programs print: command, where it goes.
const PRINTED: [([&str; 2], &str); 2] =
    [(["molbox", "reference"], "docs/cli.md"), (["molboxd", "config"], "docs/configuration.toml")];

/// The document as its author wrote it.
pub fn document() -> Result<Document> {
    let path = root().join("openapi/molbox.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Document::read(&text).with_context(|| format!("read {}", path.display()))
}

/// Writes the derived files, or fails when one is stale.
pub fn regenerate(check: bool) -> Result<()> {
    let mut stale = write(of_the_document()?, check)?;
    stale.extend(write(Errors::read(&root())?.derived(), check)?);
    // The programs have the document and the table of errors in them.
    stale.extend(write(printed()?, check)?);
    stale.extend(write(vec![surface()?], check)?);
    if check { current(&stale) } else { python_client() }
}

/// What the Python client has of the document. Its generator is a program of Python: the client's
/// own tests find what is stale, so that nobody needs it who changes nothing.
fn python_client() -> Result<()> {
    let mut generate = Command::new(python::client()?);
    run(generate.current_dir(root().join("python")).arg("generate.py"))
}

/// Fails when something that is derived from the document is stale.
pub fn check_document() -> Result<()> {
    current(&write(of_the_document()?, true)?)
}

fn current(stale: &[String]) -> Result<()> {
    if !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask regenerate`", stale.join(", "));
    }
    Ok(())
}

/// Writes what is stale, unless it is only to be found; what that is.
pub fn write(files: Vec<(PathBuf, String)>, check: bool) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    for (path, text) in files {
        let file = root().join(&path);
        if stale_from(&file, &text).is_none() {
            continue;
        }
        stale.push(path.display().to_string());
        if !check {
            fs::create_dir_all(file.parent().expect("a file lies in a folder"))?;
            fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
            println!("{}", path.display());
        }
    }
    Ok(stale)
}

/// The first line of a file that is not as in `text`; none when it is current.
pub fn stale_from(file: &Path, text: &str) -> Option<u64> {
    // What cannot be read is not current.
    let written = fs::read(file).unwrap_or_default();
    let same = written.iter().zip(text.as_bytes()).take_while(|(a, b)| a == b).map(|(a, _)| *a);
    let same: Vec<u8> = same.collect();
    let is_current = same.len() == written.len() && same.len() == text.len() && file.exists();
    (!is_current).then(|| 1 + same.iter().filter(|byte| **byte == b'\n').count() as u64)
}

fn of_the_document() -> Result<Vec<(PathBuf, String)>> {
    derived(&document()?, &Examples::read(&root().join(FOLDER))?)
}

/// What the programs say of themselves, as they are built now.
pub fn printed() -> Result<Vec<(PathBuf, String)>> {
    let printed = PRINTED.into_iter().map(|([program, argument], path)| {
        let mut command = Command::new(shell::program(program)?);
        // Whoever runs this has settings of their own, of which none belongs into what is
        // committed.
        let output = command
            .arg(argument)
            .env_clear()
            .output()
            .with_context(|| format!("start {}", shown(&command)))?;
        if !output.status.success() {
            bail!("{} failed: {}", shown(&command), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok((PathBuf::from(path), String::from_utf8(output.stdout)?))
    });
    printed.collect()
}

/// Every file that is derived from the document, with its text.
pub fn derived(document: &Document, examples: &Examples) -> Result<Vec<(PathBuf, String)>> {
    let mut value = document.value.clone();
    examples.put_into(&mut value);
    let mut files = vec![
        (PathBuf::from("openapi/openapi.json"), json(&value)?),
        (PathBuf::from("openapi/surface.txt"), outline(document)),
    ];
    for address in Address::BOTH {
        files.push((PathBuf::from(address.file()), json(&published(&value, address))?));
    }
    files.extend(markdown::pages(&document.value, examples));
    Ok(files)
}

fn json(value: &Value) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// One line per operation and per property, for reviews: what changed at a glance.
fn outline(document: &Document) -> String {
    let mut lines = vec![
        "# Generated by `cargo xtask regenerate`. The surface of openapi/molbox.yaml.".to_owned(),
    ];
    for operation in document.operations() {
        let value = operation.value;
        let parameters = value["parameters"].as_array().into_iter().flatten().map(|parameter| {
            let parameter = document.follow(parameter);
            let optional = if parameter["required"] == true { "" } else { "?" };
            let name = parameter["name"].as_str().unwrap_or_default();
            format!("{name}{optional}: {}", type_name(&parameter["schema"]))
        });
        let parameters: Vec<String> = parameters.collect();
        let body = &value["requestBody"]["content"]["application/json"]["schema"];
        let body =
            if body.is_null() { String::new() } else { format!(" body {}", type_name(body)) };
        let responses =
            value["responses"].as_object().into_iter().flatten().map(|(status, response)| {
                let response = document.follow(response);
                let media: Vec<String> = response["content"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(media, value)| {
                        if media == "application/json" {
                            type_name(&value["schema"])
                        } else {
                            media.clone()
                        }
                    })
                    .collect();
                if media.is_empty() || !status.starts_with('2') {
                    status.clone()
                } else {
                    format!("{status} {}", media.join(" | "))
                }
            });
        let responses: Vec<String> = responses.collect();
        lines.push(format!(
            "{} {} {}({}){body} -> {}",
            operation.method.to_uppercase(),
            operation.path,
            value["operationId"].as_str().unwrap_or_default(),
            parameters.join(", "),
            responses.join(", "),
        ));
    }
    for (name, schema) in document.value["components"]["schemas"].as_object().into_iter().flatten()
    {
        let Some(properties) = schema["properties"].as_object() else {
            lines.push(format!("{name}: {}", type_name(schema)));
            continue;
        };
        for (property, value) in properties {
            let required =
                schema["required"].as_array().is_some_and(|r| r.iter().any(|n| n == property));
            lines.push(format!(
                "{name}.{property}{}: {}",
                if required { "" } else { "?" },
                type_name(value)
            ));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A schema in a few characters.
fn type_name(schema: &Value) -> String {
    if let Some(name) = referred_name(schema) {
        return name.to_owned();
    }
    let alternatives = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    if let Some(alternatives) = alternatives {
        let names: Vec<String> = alternatives.iter().map(type_name).collect();
        return names.join(" | ");
    }
    let mut text = match schema["type"].as_str() {
        Some("array") => format!("[{}]", type_name(&schema["items"])),
        Some("object") => "object".to_owned(),
        Some(kind) => kind.to_owned(),
        None if schema["enum"].is_array() => "null".to_owned(),
        None => "any".to_owned(),
    };
    if let Some(minimum) = schema["minimum"].as_f64() {
        text +=
            &format!(" {} {minimum}", if schema["exclusiveMinimum"] == true { ">" } else { ">=" });
    }
    for (key, word) in [("minLength", "length >="), ("maxLength", "length <=")] {
        if let Some(length) = schema[key].as_u64() {
            text += &format!(" {word} {length}");
        }
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        text += &format!(" /{pattern}/");
    }
    if let Some(values) = schema["enum"].as_array().filter(|_| schema["type"] == "string") {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        text = values.join("|");
    }
    if schema["nullable"] == true {
        text += " | null";
    }
    text
}
