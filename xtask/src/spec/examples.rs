//! The examples: where each belongs in the document, and whether its schema admits it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use molbox_codegen::Violation;
use openapi_drift::{Api, violations};
use serde_json::{Map, Value, json};

/// The folder of the examples in the repository.
pub const FOLDER: &str = "openapi/examples";

/// The examples, by file name: `<operation>.request.<name>.json`, `<operation>.<status>.<name>.*`,
/// and `<Response>.json` for a response that operations share.
pub struct Examples(pub BTreeMap<String, Value>);

/// A media type of the document, and how the names of its examples begin and end.
struct Place {
    prefix: String,
    extension: &'static str,
    /// JSON pointer of the media type.
    pointer: String,
}

impl Examples {
    pub fn read(folder: &Path) -> Result<Self> {
        let mut examples = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry?.path();
            let name =
                path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let text = fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
            let value = match path.extension().and_then(|e| e.to_str()) {
                Some("json") => {
                    serde_json::from_str(&text).with_context(|| format!("read {name}"))?
                }
                _ => Value::String(text),
            };
            examples.insert(name, value);
        }
        Ok(Self(examples))
    }

    /// Puts the examples where the document has their media types.
    pub fn put_into(&self, document: &mut Value) {
        for place in places(document) {
            for (name, value) in self.of(&place.prefix, place.extension) {
                if let Some(media) = document.pointer_mut(&place.pointer) {
                    media["examples"][name] = json!({ "value": value });
                }
            }
        }
    }

    /// The examples whose file names begin with `prefix` and have this extension, with the names
    /// between them.
    pub fn of<'a>(
        &'a self,
        prefix: &'a str,
        extension: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter().filter_map(move |(file, value)| Some((name(file, prefix, extension)?, value)))
    }

    /// Examples that have no place or that their schema refuses, and places without an example:
    /// what is wrong in each file, also in one that is missing, by path in the example.
    pub fn violations(&self, api: &Api) -> Vec<(String, Violation)> {
        let mut out = Vec::new();
        let places = places(&api.value);
        for place in &places {
            let media = api.value.pointer(&place.pointer).unwrap_or(&Value::Null);
            let mut count = 0;
            for (file, value) in self.0.iter().filter(|(file, _)| place.has(file)) {
                let found = violations(api, &media["schema"], value).into_iter();
                out.extend(found.map(|(at, message)| (file.clone(), Violation { at, message })));
                count += 1;
            }
            if count == 0 {
                let file = format!("{}{}", place.prefix, place.extension);
                out.push((file, of_the_file("there is no example")));
            }
        }
        let lost = self.0.keys().filter(|file| !places.iter().any(|place| place.has(file)));
        out.extend(lost.map(|file| {
            (file.clone(), of_the_file("has no place in the document; is its name right?"))
        }));
        out
    }
}

fn of_the_file(message: &str) -> Violation {
    Violation { at: String::new(), message: message.to_owned() }
}

impl Place {
    fn has(&self, file: &str) -> bool {
        name(file, &self.prefix, self.extension).is_some()
    }
}

/// What a file name has between a prefix and an extension; `example` when there is nothing.
fn name<'a>(file: &'a str, prefix: &str, extension: &str) -> Option<&'a str> {
    let name = file.strip_prefix(prefix)?.strip_suffix(extension)?;
    if name.is_empty() { Some("example") } else { name.strip_suffix('.') }
}

/// The extension of a media type's examples; none for archives and arbitrary bytes, of which an
/// example would say nothing.
pub fn extension(media: &str) -> Option<&'static str> {
    match media {
        "application/json" => Some("json"),
        "text/csv" => Some("csv"),
        "application/xml" => Some("xml"),
        "application/yaml" => Some("yaml"),
        "text/plain" | "text/event-stream" => Some("txt"),
        _ => None,
    }
}

/// Every media type that has examples: the first of each body, all of each response.
fn places(document: &Value) -> Vec<Place> {
    let mut out = Vec::new();
    let mut add = |prefix: String, pointer: String, most: usize| {
        let content = document.pointer(&pointer).and_then(Value::as_object);
        for media in content.into_iter().flat_map(Map::keys).take(most) {
            if let Some(extension) = extension(media) {
                let pointer = format!("{pointer}/{}", escape(media));
                out.push(Place { prefix: prefix.clone(), extension, pointer });
            }
        }
    };
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let Some(id) = operation["operationId"].as_str() else { continue };
            let at = format!("/paths/{}/{method}", escape(path));
            add(format!("{id}.request."), format!("{at}/requestBody/content"), 1);
            for status in operation["responses"].as_object().into_iter().flat_map(Map::keys) {
                add(
                    format!("{id}.{status}."),
                    format!("{at}/responses/{status}/content"),
                    usize::MAX,
                );
            }
        }
    }
    for name in document["components"]["responses"].as_object().into_iter().flat_map(Map::keys) {
        add(
            format!("{name}."),
            format!("/components/responses/{}/content", escape(name)),
            usize::MAX,
        );
    }
    out
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
