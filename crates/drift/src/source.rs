//! Where a document comes from: a file, or a revision of a git repository.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use serde_json::Value;

use crate::shape::Api;

/// Why a document cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read {name}")]
    Read {
        /// The file.
        name: String,
        /// What the system reports.
        #[source]
        source: io::Error,
    },
    /// There is no such file, and no `REVISION:PATH` of that name.
    #[error("{name} is neither a file nor a REVISION:PATH of a git repository here{}", colon(.reason))]
    NotFound {
        /// What was asked for.
        name: String,
        /// What git reports; empty when it was not asked.
        reason: String,
    },
    /// Neither JSON nor YAML; the message has line and column.
    #[error("not JSON or YAML: {0}")]
    Syntax(String),
    /// Some other document.
    #[error("not an OpenAPI 3 document: `openapi` must be 3.0.x or 3.1.x and `paths` an object")]
    NotOpenApi,
    /// Without what the reference leads to, a verdict would be a guess.
    #[error(
        "{0} leads nowhere; references to other files are not followed: bundle the document first"
    )]
    Dangling(String),
}

fn colon(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

impl Api {
    /// Reads JSON or YAML, OpenAPI 3.0 or 3.1.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`], [`Error::NotOpenApi`], [`Error::Dangling`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::checked(serde_saphyr::from_str(text).map_err(|e| Error::Syntax(e.to_string()))?)
    }

    /// Takes a document that was read already.
    ///
    /// # Errors
    ///
    /// [`Error::NotOpenApi`], [`Error::Dangling`].
    pub fn checked(value: Value) -> Result<Self, Error> {
        let version = value["openapi"].as_str().unwrap_or_default();
        let sections = ["paths", "webhooks", "components"];
        let is_known =
            version.starts_with("3.") && sections.iter().any(|key| value[*key].is_object());
        if !is_known || value.get("paths").is_some_and(|paths| !paths.is_object()) {
            return Err(Error::NotOpenApi);
        }
        let api = Self::new(value);
        match dangling(&api.value, &api).map(str::to_owned) {
            Some(reference) => Err(Error::Dangling(reference)),
            None => Ok(api),
        }
    }
}

/// The document that `name` leads to: a file, or a `REVISION:PATH` of the repository that the
/// current folder is in.
///
/// # Errors
///
/// [`Error::Read`] and [`Error::NotFound`], and those of [`Api::parse`].
pub fn read(name: &str) -> Result<Api, Error> {
    if Path::new(name).exists() {
        let text = fs::read_to_string(name);
        return Api::parse(&text.map_err(|source| Error::Read { name: name.to_owned(), source })?);
    }
    if !name.contains(':') {
        return Err(Error::NotFound { name: name.to_owned(), reason: String::new() });
    }
    Api::parse(&at_revision(Path::new("."), name)?)
}

/// The text of a `REVISION:PATH` of the git repository that `folder` is in.
///
/// # Errors
///
/// [`Error::NotFound`] with git's words.
pub fn at_revision(folder: &Path, name: &str) -> Result<String, Error> {
    show(folder, name).map_err(|reason| Error::NotFound { name: name.to_owned(), reason })
}

fn show(folder: &Path, name: &str) -> Result<String, String> {
    let mut git = Command::new("git");
    // A name that begins with a dash would be an option, such as `--output`, which writes a file.
    git.current_dir(folder).args(["show", "--end-of-options", name]);
    let output = git.output().map_err(|error| format!("start git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// A reference in `value` that leads nowhere in the document.
fn dangling<'a>(value: &'a Value, api: &Api) -> Option<&'a str> {
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            let inner = map.iter().filter(|(key, _)| !is_data(key));
            reference
                .filter(|to| api.target(to).is_none())
                .or_else(|| inner.into_iter().find_map(|(_, value)| dangling(value, api)))
        }
        Value::Array(items) => items.iter().find_map(|value| dangling(value, api)),
        _ => None,
    }
}

/// Whether what a key of the document leads to is a value, not a schema.
fn is_data(key: &str) -> bool {
    ["example", "examples", "default", "enum", "const"].contains(&key) || key.starts_with("x-")
}
