//! The examples: where each belongs in the document, and whether its schema admits it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use openapi_drift::{Api, violations};
use serde_json::{Map, Value, json};

/// The folder of the examples in the repository.
pub const FOLDER: &str = "openapi/examples";

/// The examples, by file name: `<operation>.request.<name>.json`, `<operation>.<status>.<name>.*`,
/// and `<Response>.json` for a response that operations share.
pub struct Examples(pub BTreeMap<String, Value>);

/// A media type of the document and how the names of its examples begin.
struct Place {
    prefix: String,
    /// JSON pointer of the media type.
    pointer: String,
}

/// Something wrong with an example.
pub struct Fault {
    /// The example's file, or that which is missing.
    pub file: String,
    /// Path in the example.
    pub at: String,
    pub message: String,
}

impl Examples {
    pub fn read(folder: &Path) -> Result<Self> {
        let mut examples = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let text = fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
            let value = match path.extension().and_then(|e| e.to_str()) {
                Some("json") => serde_json::from_str(&text).with_context(|| format!("read {name}"))?,
                _ => Value::String(text),
            };
            examples.insert(name, value);
        }
        Ok(Self(examples))
    }

    /// Puts the examples where the document has their media types.
    pub fn put_into(&self, document: &mut Value) {
        for place in places(document) {
            for (name, value) in self.of(&place.prefix) {
                if let Some(media) = document.pointer_mut(&place.pointer) {
                    media["examples"][name] = json!({ "value": value });
                }
            }
        }
    }

    /// The examples whose file names begin with `prefix`, with the names that they have from there.
    pub fn of<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter().filter_map(move |(file, value)| {
            // What is left is an extension, or a name and an extension.
            let rest = file.strip_prefix(prefix)?;
            Some((rest.split_once('.').map_or("example", |(name, _)| name), value))
        })
    }

    /// Examples that have no place or that their schema refuses, and places without an example.
    pub fn faults(&self, api: &Api) -> Vec<Fault> {
        let mut faults = Vec::new();
        let places = places(&api.value);
        for place in &places {
            let media = api.value.pointer(&place.pointer).unwrap_or(&Value::Null);
            let schema = &media["schema"];
            // Archives and arbitrary bytes have no example that says anything.
            if schema["format"] == "binary" {
                continue;
            }
            let mine = self.0.iter().filter(|(file, _)| file.starts_with(&place.prefix));
            let mut count = 0;
            for (file, value) in mine {
                let found = violations(api, schema, value).into_iter();
                faults.extend(found.map(|(at, message)| Fault { file: file.clone(), at, message }));
                count += 1;
            }
            if count == 0 {
                let file = format!("{}json", place.prefix);
                faults.push(Fault { file, at: String::new(), message: "there is no example".to_owned() });
            }
        }
        let lost = self.0.keys().filter(|file| !places.iter().any(|place| file.starts_with(&place.prefix)));
        faults.extend(lost.map(|file| Fault {
            file: file.clone(),
            at: String::new(),
            message: "has no place in the document; is its name right?".to_owned(),
        }));
        faults
    }
}

/// Every media type that may have examples: the first of each body and response.
fn places(document: &Value) -> Vec<Place> {
    let mut out = Vec::new();
    let mut add = |prefix: String, pointer: String| {
        let content = document.pointer(&pointer).and_then(Value::as_object);
        if let Some(media) = content.and_then(|content| content.keys().next()) {
            out.push(Place { prefix, pointer: format!("{pointer}/{}", escape(media)) });
        }
    };
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let Some(id) = operation["operationId"].as_str() else { continue };
            let at = format!("/paths/{}/{method}", escape(path));
            add(format!("{id}.request."), format!("{at}/requestBody/content"));
            for status in operation["responses"].as_object().into_iter().flat_map(Map::keys) {
                add(format!("{id}.{status}."), format!("{at}/responses/{status}/content"));
            }
        }
    }
    for name in document["components"]["responses"].as_object().into_iter().flat_map(Map::keys) {
        add(format!("{name}."), format!("/components/responses/{}/content", escape(name)));
    }
    out
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
