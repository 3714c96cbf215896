//! What of a document belongs to one base address, to requests, and to answers.

use std::collections::{BTreeMap, BTreeSet};

use openapiv3::OpenAPI;
use serde_json::{Map, Value};

use crate::document::{Document, Part, reached, references, referred_name};
use crate::violation::Violation;

impl Document {
    /// Reads YAML (or JSON, which is YAML).
    ///
    /// # Errors
    ///
    /// A [`Violation`] with line and column when the text is not YAML.
    pub fn read(text: &str) -> Result<Self, Violation> {
        let value = serde_saphyr::from_str(text).map_err(|e| Violation::new("", e.to_string()))?;
        Ok(Self { value })
    }

    /// The part's paths and the components that they reach.
    ///
    /// progenitor ignores `servers` at every level, so this is what keeps the base addresses
    /// apart: a call on the wrong one cannot be written.
    pub(crate) fn part(&self, part: Part) -> Result<OpenAPI, Violation> {
        let mut value = self.without_extensions();
        let Some(Value::Object(paths)) = value.get_mut("paths") else {
            return Err(Violation::new("/paths", "missing"));
        };
        paths.retain(|_, item| {
            part == if item.get("servers").is_some() { Part::Margin } else { Part::Workflow }
        });
        // progenitor takes one media type of each body. Of requests that is JSON; one without it is
        // left for progenitor to judge. Of answers it is the first, which the service sends to whom
        // asks for none.
        for (_, operation) in
            paths.values_mut().flat_map(|item| item.as_object_mut().into_iter().flatten())
        {
            let content =
                operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut);
            if let Some(content) =
                content.filter(|content| content.contains_key("application/json"))
            {
                content.retain(|media, _| media == "application/json");
            }
            let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
            for response in responses.into_iter().flat_map(Map::values_mut) {
                if let Some(content) = response.get_mut("content").and_then(Value::as_object_mut) {
                    let mut is_first = true;
                    content.retain(|_, _| std::mem::take(&mut is_first));
                }
            }
        }

        let reached = reached(&self.value, references(&value["paths"]));
        if let Some(Value::Object(components)) = value.get_mut("components") {
            for (kind, entries) in
                components.iter_mut().filter(|(kind, _)| *kind != "securitySchemes")
            {
                if let Value::Object(entries) = entries {
                    entries
                        .retain(|name, _| reached.contains(&format!("#/components/{kind}/{name}")));
                }
            }
        }
        parse(value)
    }

    /// Every reference that can be followed from an operation.
    pub(crate) fn reachable(&self) -> BTreeSet<String> {
        reached(&self.value, references(&self.value["paths"]))
    }

    /// Where each parameter of an operation stands and how a refusal spells it, by its name in
    /// Rust.
    pub(crate) fn parameters(&self) -> BTreeMap<String, (String, String)> {
        let parameters = self
            .operations()
            .flat_map(|op| op.value["parameters"].as_array().into_iter().flatten());
        let places = parameters.map(|parameter| self.follow(parameter)).filter_map(|parameter| {
            let name = parameter["name"].as_str()?;
            let place = parameter["in"].as_str()?;
            let spelt = if place == "header" { name.to_lowercase() } else { name.to_owned() };
            Some((name.to_lowercase().replace('-', "_"), (place.to_owned(), spelt)))
        });
        places.collect()
    }

    /// Names of the schemas that answers are made of, errors included.
    pub(crate) fn answer_schemas(&self) -> BTreeSet<String> {
        self.schemas_of(self.operations().map(|op| &op.value["responses"]))
    }

    /// Names of the schemas that parameters and bodies of requests are made of.
    pub(crate) fn asked_schemas(&self) -> BTreeSet<String> {
        self.schemas_of(
            self.operations().flat_map(|op| [&op.value["parameters"], &op.value["requestBody"]]),
        )
    }

    fn schemas_of<'a>(&self, values: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
        let reached = reached(&self.value, values.flat_map(references).collect());
        reached
            .iter()
            .filter_map(|r| r.strip_prefix("#/components/schemas/"))
            .map(str::to_owned)
            .collect()
    }

    /// Names of the schemas that request bodies are made of.
    pub(crate) fn request_schemas(&self) -> BTreeSet<String> {
        self.schemas_of(
            self.operations().map(|op| &op.value["requestBody"]["content"]["application/json"]),
        )
    }

    /// Rust source of a table: the name of each schema that request bodies are made of, and its
    /// fields as name, schema of the object that the field holds (empty for a plain value), whether
    /// it holds a list of them, and what is allowed of its value as JSON text: one object for the
    /// field itself, then one for each level of lists in it.
    pub fn fields(&self) -> String {
        let mut table = String::from("&[\n");
        for name in self.request_schemas() {
            let schema = &self.value["components"]["schemas"][&name];
            let Some(properties) = schema["properties"].as_object() else { continue };
            table.push_str(&format!("    ({name:?}, &[\n"));
            for (field, property) in properties {
                let (holds, is_list) = self.object_of(property);
                let allowed = Value::Array(self.allowed(property)).to_string();
                table.push_str(&format!(
                    "        ({field:?}, {holds:?}, {is_list}, {allowed:?}),\n"
                ));
            }
            table.push_str("    ]),\n");
        }
        table.push_str("]\n");
        table
    }

    /// Name of the object schema that a property is a reference to, or a list of references.
    fn object_of(&self, property: &Value) -> (String, bool) {
        if property["type"] == "array" {
            return (self.object_of(&property["items"]).0, true);
        }
        let property = property["anyOf"].get(0).unwrap_or(property);
        let is_object = self.follow(property)["type"] == "object";
        let name = referred_name(property).filter(|_| is_object);
        (name.unwrap_or_default().to_owned(), false)
    }

    /// What a property states for machines of its value, and of the items of its lists.
    fn allowed(&self, property: &Value) -> Vec<Value> {
        let stated = property.as_object().into_iter().flatten();
        let stated = stated.filter(|(key, _)| ALLOWED.contains(&key.as_str()) || *key == "x-unit");
        let own = Value::Object(stated.map(|(key, value)| (key.clone(), value.clone())).collect());
        let items = property.get("items").map(|items| self.allowed(items));
        std::iter::once(own).chain(items.into_iter().flatten()).collect()
    }

    /// The document without its `x-` keys, but for the one that progenitor reads. They would
    /// keep a bounded number from matching its Rust type.
    pub(crate) fn without_extensions(&self) -> Value {
        fn strip(value: &mut Value) {
            match value {
                Value::Object(map) => {
                    map.retain(|key, _| !is_extension(key) || key == "x-dropshot-pagination");
                    map.values_mut().for_each(strip);
                }
                Value::Array(items) => items.iter_mut().for_each(strip),
                _ => {}
            }
        }
        let mut value = self.value.clone();
        strip(&mut value);
        value
    }
}

/// The keys that state what is allowed where a schema cannot.
const ALLOWED: [&str; 5] = ["x-values", "x-open", "x-from", "x-above", "x-to"];

/// Whether a key of the document is a specification extension.
pub(crate) fn is_extension(key: &str) -> bool {
    const OTHERS: [&str; 6] =
        ["x-origin", "x-choice", "x-unit", "x-default", "x-dropshot-pagination", "x-release"];
    ALLOWED.contains(&key) || OTHERS.contains(&key)
}

/// The parts of a document that the operations of one base address reach, as progenitor reads it.
pub(crate) fn parse(value: Value) -> Result<OpenAPI, Violation> {
    serde_json::from_value(value).map_err(|e| Violation::new("", e.to_string()))
}
