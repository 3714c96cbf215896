//! The rules that the document obeys; `openapi/README.md` gives the reason of each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::document::{Document, Part, escape, reference, referred_name};
use crate::generate::NUMBERS;
use crate::parts::{is_extension, parse};
use crate::violation::Violation;

type Object = Map<String, Value>;

impl Document {
    /// Every violation of the rules, in the order of the document.
    pub fn violations(&self) -> Vec<Violation> {
        let mut check = Check { document: self, out: Vec::new() };
        check.version();
        check.unknown_keys();
        check.servers();
        check.extensions(&self.value, "");
        check.operations();
        check.components();
        check.schemas();
        check.answers();
        check.out
    }

    /// The same. The build script of `molbox` 0.1.0 calls it, and takes any 0.1 of this package.
    #[deprecated(note = "use `violations`")]
    pub fn problems(&self) -> Vec<Violation> {
        self.violations()
    }
}

struct Check<'a> {
    document: &'a Document,
    out: Vec<Violation>,
}

impl<'a> Check<'a> {
    fn fail(&mut self, at: impl Into<String>, message: impl Into<String>) {
        self.out.push(Violation::new(at, message));
    }

    fn version(&mut self) {
        if self.document.value["openapi"] != "3.0.3" {
            self.fail("/openapi", "must be 3.0.3, the version that progenitor reads");
        }
    }

    /// openapiv3 drops keys that it does not know without a word, so a `minimun` would be no
    /// bound at all: what does not survive a round trip is an error.
    fn unknown_keys(&mut self) {
        let written = self.document.without_extensions();
        let read = match parse(written.clone()) {
            Ok(read) => serde_json::to_value(read).expect("the document came from JSON"),
            Err(violation) => return self.out.push(violation),
        };
        self.dropped(&written, &read, "");
    }

    fn dropped(&mut self, written: &Value, read: &Value, at: &str) {
        match (written, read) {
            (Value::Object(written), Value::Object(read)) => {
                for (key, value) in written {
                    let at = format!("{at}/{}", escape(key));
                    match read.get(key) {
                        Some(read) => self.dropped(value, read, &at),
                        // Written out although it is the default.
                        None if *value == Value::Bool(false)
                            || *value == Value::Array(Vec::new()) => {}
                        None if key.starts_with("x-") => {}
                        None => {
                            self.fail(at, "not a key that OpenAPI 3.0 has here; is it misspelled?")
                        }
                    }
                }
            }
            (Value::Array(written), Value::Array(read)) => {
                for (index, (written, read)) in written.iter().zip(read).enumerate() {
                    self.dropped(written, read, &format!("{at}/{index}"));
                }
            }
            _ => {}
        }
    }

    fn servers(&mut self) {
        let document = self.document;
        for operation in document.operations().filter(|op| op.value.get("servers").is_some()) {
            self.fail(operation.pointer(), "put `servers` on the path, not on the operation");
        }
        for part in Part::ALL {
            if !document.operations().any(|operation| operation.part == part) {
                self.fail("/paths", format!("no path belongs to the {} client", part.module()));
            }
        }
        let servers = document.value["servers"].as_array();
        if !servers.is_some_and(|s| s.len() == 1 && s[0]["url"].is_string()) {
            self.fail("/servers", "must be one server, that of the simulation workflow");
        }
    }

    /// Extensions are of known names and values, and never stand beside a `$ref`, where
    /// OpenAPI 3.0 ignores them.
    fn extensions(&mut self, value: &Value, at: &str) {
        match value {
            Value::Object(map) => {
                // Response headers have names that look like extensions.
                let names = at.ends_with("/headers") || at.ends_with("/properties");
                for (key, value) in map {
                    let at = format!("{at}/{}", escape(key));
                    if key.starts_with("x-") && !names {
                        let fine = match key.as_str() {
                            "x-origin" => value == "molbox",
                            "x-choice" | "x-unit" => value.is_string(),
                            "x-from" | "x-above" | "x-to" => value.is_number(),
                            "x-open" => value == true && map.contains_key("x-values"),
                            "x-values" => value.as_array().is_some_and(|values| !values.is_empty()),
                            "x-release" => at == "/info/x-release" && value.is_string(),
                            _ => is_extension(key),
                        };
                        if !fine {
                            self.fail(
                                &at,
                                "not an extension of this document; see openapi/README.md",
                            );
                        } else if map.contains_key("$ref") {
                            self.fail(&at, "beside a $ref nothing is read; mark the component");
                        }
                    }
                    self.extensions(value, &at);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.extensions(item, &format!("{at}/{index}"));
                }
            }
            _ => {}
        }
    }

    fn operations(&mut self) {
        let document = self.document;
        let tags: BTreeSet<&str> = document.value["tags"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tag| tag["name"].as_str())
            .collect();
        for operation in document.operations() {
            let at = operation.pointer();
            let value = operation.value;
            if !value["operationId"].as_str().is_some_and(is_snake_case) {
                self.fail(&at, "needs an operationId in snake_case, noun_verb");
            }
            if !matches!(value["tags"].as_array().map(Vec::as_slice), Some([tag]) if tag.as_str().is_some_and(|t| tags.contains(t)))
            {
                self.fail(&at, "needs one tag of the document's list");
            }
            if !value["summary"].is_string() {
                self.fail(&at, "needs a summary");
            }
            self.described(value, &at);
            self.parameters(operation.path, value, &at);
            self.request_body(value, &at);
            self.responses(value, &at);
            self.paging(value, &at);
        }
    }

    fn described(&mut self, value: &Value, at: &str) {
        if value["description"].as_str().is_none_or(|text| text.trim().is_empty()) {
            self.fail(at, "needs a description");
        }
    }

    fn parameters(&mut self, path: &str, operation: &'a Value, at: &str) {
        let document = self.document;
        let mut in_path = BTreeSet::new();
        for (index, parameter) in
            operation["parameters"].as_array().into_iter().flatten().enumerate()
        {
            let at = format!("{at}/parameters/{index}");
            let Some(parameter) = self.follow(parameter, &at) else { continue };
            let name = parameter["name"].as_str().unwrap_or_default();
            match parameter["in"].as_str() {
                Some("path") => {
                    in_path.insert(name);
                    if parameter["required"] != true {
                        self.fail(
                            &at,
                            "a path parameter is `required: true`: without it there is no path",
                        );
                    }
                    // `..` and the empty string would lead to another operation.
                    let named =
                        Some(&parameter["schema"]).filter(|schema| referred_name(schema).is_some());
                    let schema = named.map(|schema| document.follow(schema));
                    if !schema
                        .is_some_and(|s| s.get("pattern").is_some() || s.get("enum").is_some())
                    {
                        self.fail(
                            &at,
                            "a path parameter needs a named schema with a pattern or an enum",
                        );
                    }
                }
                Some("header") if name.eq_ignore_ascii_case("x-api-key") => {
                    self.fail(&at, "the key is a security scheme, not a parameter of every method");
                }
                _ => {}
            }
        }
        for name in path.split('/').filter_map(|s| s.strip_prefix('{')?.strip_suffix('}')) {
            if !in_path.contains(name) {
                self.fail(at, format!("path parameter {name} is not declared"));
            }
        }
    }

    fn request_body(&mut self, operation: &'a Value, at: &str) {
        let Some(body) = operation.get("requestBody") else { return };
        let at = format!("{at}/requestBody");
        let Some(body) = self.follow(body, &at) else { return };
        let mut content = body["content"].as_object().into_iter().flatten();
        if content.next().is_none_or(|(media, _)| media != "application/json") {
            self.fail(&at, "must be application/json first, which the Rust client sends");
        }
        for (media, value) in content {
            let is_form = media == "multipart/form-data" && value["schema"]["$ref"].is_string();
            if !is_form && value["schema"]["format"] != "binary" {
                self.fail(
                    &at,
                    format!(
                        "{media} must be a string of format binary, or a form with a named schema"
                    ),
                );
            }
        }
        if body["required"] != true {
            self.fail(&at, "must be required; progenitor takes an optional body for required");
        }
        self.described(body, &at);
        if !body["content"]["application/json"]["schema"]["$ref"].is_string() {
            self.fail(&at, "needs a named schema");
        }
    }

    /// progenitor allows one type for all successes and one for all failures of an operation. Of
    /// several media types of a success the Rust client takes the first.
    fn responses(&mut self, operation: &'a Value, at: &str) {
        let mut successes = BTreeSet::new();
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let at = format!("{at}/responses/{status}");
            let Some(response) = self.follow(response, &at) else { continue };
            self.described(response, &at);
            if status.parse::<u16>().is_err() {
                self.fail(
                    &at,
                    "write a status in full; progenitor cannot tell a range or `default` apart",
                );
                continue;
            }
            let content = response["content"].as_object();
            let json = content.and_then(|c| c.get("application/json"));
            if status.starts_with('2') {
                successes.insert(match content.and_then(|content| content.iter().next()) {
                    None => "nothing".to_owned(),
                    Some((media, value)) if media == "application/json" => {
                        value["schema"]["$ref"].as_str().unwrap_or_default().to_owned()
                    }
                    Some(_) => "bytes".to_owned(),
                });
                for (media, value) in
                    content.into_iter().flatten().filter(|(media, _)| *media != "application/json")
                {
                    // Events are text; a client that is told binary waits for the end of the stream
                    // to make a file.
                    let (format, needs) = match media.as_str() {
                        "text/event-stream" => (None, "a string without a format: events are text"),
                        _ => (Some("binary"), "a string of format binary, so that it is streamed"),
                    };
                    if value["schema"]["type"] != "string"
                        || value["schema"]["format"].as_str() != format
                    {
                        self.fail(&at, format!("{media} must be {needs}"));
                    }
                }
            } else if json.is_none_or(|json| {
                json["schema"]["$ref"] != "#/components/schemas/HTTPValidationError"
            }) {
                self.fail(&at, "every error has the body HTTPValidationError");
            }
            if json.is_some_and(|json| !json["schema"]["$ref"].is_string()) {
                self.fail(&at, "a JSON response needs a named schema");
            }
        }
        if successes.len() != 1 {
            self.fail(at, format!("needs one kind of success, has {}", successes.len()));
        }
    }

    /// `x-dropshot-pagination` gives the Rust client `stream()`, silently none if anything of
    /// this is missing.
    fn paging(&mut self, operation: &'a Value, at: &str) {
        if operation.get("x-dropshot-pagination").is_none() {
            return;
        }
        let names: BTreeSet<String> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|p| self.follow(p, at))
            .filter(|p| p["required"] != true)
            .filter_map(|p| p["name"].as_str().map(str::to_owned))
            .collect();
        if !names.contains("limit") || !names.contains("page_token") {
            self.fail(at, "a paged list needs the optional parameters limit and page_token");
        }
        let page = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let page = self.document.follow(page)["properties"].as_object();
        if !page
            .is_some_and(|p| p.len() == 2 && p.contains_key("items") && p.contains_key("next_page"))
        {
            self.fail(at, "a page has the properties items and next_page and no other");
        }
    }

    /// Components are used.
    fn components(&mut self) {
        let document = self.document;
        let used = document.reachable();
        for (kind, entries) in document.value["components"].as_object().into_iter().flatten() {
            for name in entries.as_object().into_iter().flatten().map(|(name, _)| name) {
                if kind != "securitySchemes"
                    && !used.contains(&format!("#/components/{kind}/{name}"))
                {
                    self.fail(format!("/components/{kind}/{}", escape(name)), "is used nowhere");
                }
            }
        }
    }

    /// What is read is open, so that a client survives a service of years later. Values and ranges
    /// of requests get wider then; held against what a record has of a request they would make
    /// every older client fail on that record, and on the whole list that it is in.
    fn answers(&mut self) {
        let document = self.document;
        let asked = document.asked_schemas();
        for name in document.answer_schemas() {
            let schema = &document.value["components"]["schemas"][&name];
            let at = format!("/components/schemas/{}", escape(&name));
            if asked.contains(&name) {
                self.fail(
                    &at,
                    "is part of requests and of answers; give the answer a schema of its own",
                );
            }
            if ["enum", "pattern", "minLength", "maxLength"]
                .iter()
                .any(|key| schema.get(key).is_some())
            {
                self.fail(&at, "an answer holds plain texts; name their values in the description");
            }
            let properties: Vec<&String> =
                schema["properties"].as_object().into_iter().flatten().map(|p| p.0).collect();
            let is_page = properties == ["items", "next_page"];
            if !properties.is_empty() && !is_page && schema.get("additionalProperties").is_none() {
                self.fail(&at, "an answer is open: `additionalProperties: {}`");
            }
        }
    }

    /// The object itself or the target of its reference.
    fn follow(&mut self, value: &'a Value, at: &str) -> Option<&'a Value> {
        let Some(reference) = reference(value) else { return Some(value) };
        let target = self.document.resolve(reference);
        if target.is_none() {
            self.fail(at, format!("{reference} does not exist"));
        }
        target
    }

    fn schemas(&mut self) {
        let document = self.document;
        for (name, schema) in
            document.value["components"]["schemas"].as_object().into_iter().flatten()
        {
            let at = format!("/components/schemas/{}", escape(name));
            self.described(schema, &at);
            self.schema(schema, &at, Place::Named);
        }
        for (name, parameter) in
            document.value["components"]["parameters"].as_object().into_iter().flatten()
        {
            self.parameter(parameter, &format!("/components/parameters/{}", escape(name)));
        }
        for operation in document.operations() {
            for (index, parameter) in
                operation.value["parameters"].as_array().into_iter().flatten().enumerate()
            {
                if parameter.get("$ref").is_none() {
                    self.parameter(
                        parameter,
                        &format!("{}/parameters/{index}", operation.pointer()),
                    );
                }
            }
        }
    }

    fn parameter(&mut self, parameter: &'a Value, at: &str) {
        self.described(parameter, at);
        self.texts(parameter.as_object().expect("described"), at);
        self.schema(&parameter["schema"], &format!("{at}/schema"), Place::Inline);
    }

    fn schema(&mut self, schema: &'a Value, at: &str, place: Place) {
        let Some(map) = schema.as_object() else { return self.fail(at, "is no schema") };
        if map.contains_key("$ref") {
            if map.len() > 1 {
                self.fail(at, "beside a $ref nothing is read");
            }
            self.follow(schema, at);
            return;
        }
        self.composition(map, at, place);
        self.keywords(map, at, place);
        self.texts(map, at);
        for (name, property) in
            map.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let at = format!("{at}/properties/{}", escape(name));
            if property.get("$ref").is_none() {
                self.described(property, &at);
            }
            self.schema(property, &at, Place::Inline);
        }
        if let Some(items) = map.get("items") {
            self.schema(items, &format!("{at}/items"), Place::Inline);
        }
        if let Some(values) = map.get("additionalProperties").filter(|v| v.is_object()) {
            self.schema(values, &format!("{at}/additionalProperties"), Place::Inline);
        }
    }

    /// What generators make of `allOf`, `anyOf`, `oneOf` and null differs; these forms are read
    /// alike by all.
    fn composition(&mut self, map: &'a Object, at: &str, place: Place) {
        if map.contains_key("allOf") || map.contains_key("not") {
            self.fail(at, "allOf and not are read differently by different generators");
        }
        if let Some(any) = map.get("anyOf") {
            let nullable = any.as_array().is_some_and(|any| {
                matches!(any.as_slice(), [named, null] if named.get("$ref").is_some() && *null == serde_json::json!({"enum": [null]}))
            });
            if !nullable || map.contains_key("type") || map.contains_key("nullable") {
                self.fail(
                    at,
                    "anyOf is only for a nullable reference: [{$ref: …}, {enum: [null]}]",
                );
            }
        }
        if let Some(one) = map.get("oneOf") {
            if place != Place::Named {
                self.fail(at, "oneOf needs a name of its own");
            }
            for (index, schema) in one.as_array().into_iter().flatten().enumerate() {
                self.schema(schema, &format!("{at}/oneOf/{index}"), Place::Inline);
            }
        }
        if map.contains_key("nullable") && !map.contains_key("type") {
            self.fail(at, "nullable without a type means nothing; use anyOf with {enum: [null]}");
        }
    }

    /// Every bound has a Rust type that enforces it.
    fn keywords(&mut self, map: &'a Object, at: &str, place: Place) {
        let kind = map.get("type").and_then(Value::as_str);
        let has = |key: &str| map.contains_key(key);
        let mut allowed: Vec<&str> = vec!["type", "description", "nullable", "oneOf", "anyOf"];
        match kind {
            Some("number" | "integer") => {
                allowed.extend(["format", "minimum", "exclusiveMinimum"]);
                let exclusive = map.get("exclusiveMinimum") == Some(&Value::Bool(true));
                let minimum = map.get("minimum").and_then(Value::as_f64);
                let known = NUMBERS.iter().any(|number| {
                    let schema = (number.schema)(Default::default());
                    let minimum_matches = number.minimum == minimum;
                    let exclusive_matches = number.exclusive == exclusive;
                    let format =
                        schema.format.as_deref() == map.get("format").and_then(Value::as_str);
                    format
                        && minimum_matches
                        && exclusive_matches
                        && (kind == Some("number")) == (schema.format.as_deref() == Some("double"))
                });
                if !known {
                    self.fail(
                        at,
                        "no Rust type enforces this; a number is `format: double` with minimum 0, \
                         exclusive or not, or none, an integer `format: int64` with minimum 0 or \
                         1 or none",
                    );
                }
            }
            Some("string") => {
                allowed.extend(["format", "minLength", "maxLength", "pattern", "enum"]);
                if !matches!(map.get("format").and_then(Value::as_str), None | Some("binary")) {
                    self.fail(
                        at,
                        "formats of strings other than binary bring in crates or mean nothing",
                    );
                }
                if ["minLength", "maxLength", "pattern", "enum"].into_iter().any(has)
                    && place != Place::Named
                {
                    self.fail(at, "a restricted string needs a name of its own");
                }
                if let Some(values) = map.get("enum").and_then(Value::as_array) {
                    self.enumeration(values, at);
                }
                if let Some(pattern) = map.get("pattern").and_then(Value::as_str)
                    && !(pattern.starts_with('^') && pattern.ends_with('$'))
                {
                    self.fail(at, "a pattern must be anchored at both ends");
                }
            }
            Some("array") => {
                allowed.push("items");
                if !has("items") {
                    self.fail(at, "an array needs items");
                }
            }
            Some("object") => {
                allowed.extend(["properties", "required", "additionalProperties"]);
                if map.get("additionalProperties").is_some_and(|v| !v.is_object()) {
                    self.fail(
                        at,
                        "write `additionalProperties: {}`; true makes the Rust client drop what \
                         it does not know",
                    );
                }
                let properties = map.get("properties").and_then(Value::as_object);
                for name in map
                    .get("required")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                {
                    if !properties.is_some_and(|p| p.contains_key(name)) {
                        self.fail(at, format!("requires {name}, which it does not have"));
                    }
                }
            }
            Some("boolean") | None => {}
            Some(other) => self.fail(at, format!("{other} is no type")),
        }
        for key in map.keys().filter(|key| !is_extension(key) && !allowed.contains(&key.as_str())) {
            self.fail(at, format!("nothing in the generated code honours `{key}` here"));
        }
    }

    fn enumeration(&mut self, values: &'a [Value], at: &str) {
        let mut folded = BTreeMap::new();
        for value in values {
            let Some(text) = value.as_str() else {
                self.fail(
                    at,
                    "an enumeration holds strings; a null goes into anyOf beside the reference",
                );
                continue;
            };
            let plain: String = text
                .chars()
                .filter(|c| c.is_ascii_alphanumeric())
                .collect::<String>()
                .to_lowercase();
            if let Some(other) = folded.insert(plain, text) {
                self.fail(
                    at,
                    format!("{other} and {text} become one identifier, on which typify panics"),
                );
            }
        }
    }

    /// Units, defaults and allowed values stand in the description for people and beside it for
    /// machines.
    fn texts(&mut self, map: &'a Object, at: &str) {
        let text = map.get("description").and_then(Value::as_str).unwrap_or_default();
        if let Some(unit) = map.get("x-unit").and_then(Value::as_str)
            && !text.contains(unit)
        {
            self.fail(at, format!("the description does not name the unit {unit}"));
        }
        if let Some(default) = map.get("x-default") {
            let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
            if !text.contains(&format!("Default: {default}")) {
                self.fail(at, format!("the description does not say `Default: {default}`"));
            }
        }
        let values = map.get("x-values").and_then(Value::as_array);
        for value in values.into_iter().flatten() {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !text.contains(&format!("`{shown}`")) {
                self.fail(
                    at,
                    format!("the description does not name `{shown}`, which x-values has"),
                );
            }
        }
        let mut folded = BTreeSet::new();
        for text in values.into_iter().flatten().filter_map(Value::as_str) {
            if !folded.insert(
                text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase(),
            ) {
                self.fail(
                    at,
                    format!("{text} is another of x-values when case and separators are left out"),
                );
            }
        }
        if map.contains_key("x-from") && map.contains_key("x-above") {
            self.fail(at, "begins with x-from or with x-above, not with both");
        }
        for key in ["x-from", "x-above", "x-to"] {
            if let Some(end) = map.get(key)
                && !numbers(text).any(|number| Some(number) == end.as_f64())
            {
                self.fail(at, format!("the description does not name {end}, which is {key}"));
            }
        }
        if let Some(default) = map.get("x-default") {
            let is_unlisted = values.is_some_and(|values| !values.contains(default));
            let is_outside = default.as_f64().is_some_and(|default| is_outside(map, default));
            if is_unlisted || is_outside {
                self.fail(
                    at,
                    format!("x-default {default} is none of the values that are allowed"),
                );
            }
        }
    }
}

fn is_outside(map: &Object, number: f64) -> bool {
    let end = |key: &str| map.get(key).and_then(Value::as_f64);
    end("x-from").is_some_and(|from| number < from)
        || end("x-above").is_some_and(|above| number <= above)
        || end("x-to").is_some_and(|to| number > to)
}

/// The numbers of a text.
fn numbers(text: &str) -> impl Iterator<Item = f64> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    words.filter_map(|word| word.trim_end_matches('.').parse().ok())
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Under a name in the components.
    Named,
    /// Inside of something else.
    Inline,
}

fn is_snake_case(name: &str) -> bool {
    name.contains('_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
