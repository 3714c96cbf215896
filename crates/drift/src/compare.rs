//! Two documents compared: operations, parameters, bodies, responses, security, servers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::finding::{Direction, Effect, Finding, Verdict, merged};
use crate::shape::{Api, Kind, canonical};
use crate::values::{Values, changed};

const METHODS: [&str; 9] =
    ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// Every change from `old` to `new`, the worst first.
pub(crate) fn compare(old: &Api, new: &Api) -> Vec<Finding> {
    let changed = changed(old, new);
    let mut walk = Walk {
        old,
        new,
        changed: &changed,
        operation: String::new(),
        flipped: false,
        findings: Vec::new(),
    };
    walk.document();
    let before = operations(old, "paths");
    let after = operations(new, "paths");
    walk.operations(&before, &after);
    let before = operations(old, "webhooks");
    let after = operations(new, "webhooks");
    walk.flipped = true;
    walk.operations(&before, &after);
    merged(walk.findings)
}

/// An operation and the path item that it stands in.
#[derive(Clone, Copy)]
struct Operation<'a> {
    path: &'a str,
    item: &'a Value,
    value: &'a Value,
}

impl<'a> Operation<'a> {
    fn id(&self) -> Option<&'a str> {
        self.value["operationId"].as_str()
    }

    /// The base addresses of the operation or its path, where these are not the document's.
    fn own_servers(&self) -> Option<&'a Value> {
        self.value.get("servers").or_else(|| self.item.get("servers"))
    }
}

type Operations<'a> = BTreeMap<(String, &'a str), Operation<'a>>;

/// The operations by their path, whatever their parameters are called, and method.
fn operations<'a>(api: &'a Api, section: &str) -> Operations<'a> {
    in_paths(api, &api.value[section])
}

fn in_paths<'a>(api: &'a Api, paths: &'a Value) -> Operations<'a> {
    let mut out = Operations::new();
    for (path, item) in paths.as_object().into_iter().flatten() {
        let item = api.follow(item);
        for (method, value) in item.as_object().into_iter().flatten() {
            if METHODS.contains(&method.as_str()) {
                out.insert((anonymous(path), method.as_str()), Operation { path, item, value });
            }
        }
    }
    out
}

/// A path without the names of its parameters.
fn anonymous(path: &str) -> String {
    let mut parts = path.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        format!("{text}{{}}{}", part.split_once('}').map_or("", |(_, rest)| rest))
    })
}

struct Walk<'a> {
    old: &'a Api,
    new: &'a Api,
    /// Components that are not the same in both.
    changed: &'a BTreeSet<&'a str>,
    operation: String,
    /// In callbacks the service sends the requests.
    flipped: bool,
    findings: Vec<Finding>,
}

impl<'a> Walk<'a> {
    fn say(
        &mut self,
        at: &str,
        rule: &'static str,
        verdict: Verdict,
        code: Verdict,
        message: impl Into<String>,
    ) {
        let operations =
            if self.operation.is_empty() { Vec::new() } else { vec![self.operation.clone()] };
        self.findings.push(Finding {
            operations,
            at: at.to_owned(),
            direction: None,
            rule,
            message: message.into(),
            verdict,
            code,
            effect: None,
        });
    }

    fn breaking(&mut self, at: &str, rule: &'static str, message: impl Into<String>) {
        self.say(at, rule, Verdict::Breaking, Verdict::Breaking, message);
    }

    fn compatible(&mut self, at: &str, rule: &'static str, message: impl Into<String>) {
        self.say(at, rule, Verdict::Compatible, Verdict::Compatible, message);
    }

    fn cosmetic(&mut self, at: &str, rule: &'static str, message: impl Into<String>) {
        self.say(at, rule, Verdict::Cosmetic, Verdict::Cosmetic, message);
    }

    fn direction(&self, direction: Direction) -> Direction {
        if self.flipped { direction.flipped() } else { direction }
    }

    fn values(&mut self, direction: Direction, compare: impl FnOnce(&mut Values<'a>)) {
        let direction = self.direction(direction);
        let mut values = Values::new(self.old, self.new, self.changed, &self.operation, direction);
        compare(&mut values);
        let findings = values.findings;
        self.findings.extend(findings);
    }

    fn document(&mut self) {
        let old = &self.old.value;
        let new = &self.new.value;
        for (at, key) in [("openapi", "/openapi"), ("info.version", "/info/version")] {
            let [before, after] = [old, new]
                .map(|value| value.pointer(key).and_then(Value::as_str).unwrap_or("none"));
            if before != after {
                self.cosmetic(at, "version", format!("{before} became {after}"));
            }
        }
        if document_texts(old) != document_texts(new) {
            self.cosmetic("info", "wording", "texts of the document differ");
        }
        // Where the service is deployed is the caller's to say.
        if without_texts(&old["servers"]) != without_texts(&new["servers"]) {
            self.compatible("servers", "servers", "the servers of the document differ");
        }
        self.unused_components();
    }

    /// Components that nothing refers to are no matter on the wire, but are types in some clients.
    fn unused_components(&mut self) {
        for name in unused_schemas(self.new).difference(&schemas(self.old)) {
            self.say(
                name,
                "unused-schema",
                Verdict::Cosmetic,
                Verdict::Compatible,
                "is new, and nothing refers to it",
            );
        }
        for name in unused_schemas(self.old).difference(&schemas(self.new)) {
            self.say(
                name,
                "unused-schema",
                Verdict::Cosmetic,
                Verdict::Breaking,
                "is gone; nothing referred to it",
            );
        }
    }

    fn operations(&mut self, old: &Operations<'a>, new: &Operations<'a>) {
        let new_ids: BTreeSet<&str> = new.values().filter_map(Operation::id).collect();
        for (key, before) in old {
            self.operation = format!("{} {}", key.1.to_uppercase(), before.path);
            match new.get(key) {
                Some(after) => self.operation(before, after),
                None => {
                    // Its method in generated code stays when another path has its name.
                    let is_moved = before.id().is_some_and(|id| new_ids.contains(id));
                    let code = if is_moved { Verdict::Compatible } else { Verdict::Breaking };
                    let other = other_slash(&key.0);
                    let hint = match new.get(&(other, key.1)) {
                        Some(after) => format!("is gone; {} is another path", after.path),
                        None if is_moved => "is gone; its operationId has moved".to_owned(),
                        None => "is gone".to_owned(),
                    };
                    self.say("operation", "operation-removed", Verdict::Breaking, code, hint);
                }
            }
        }
        for (key, after) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
            self.operation = format!("{} {}", key.1.to_uppercase(), after.path);
            self.compatible("operation", "operation-added", "is new");
        }
        self.operation.clear();
    }

    fn operation(&mut self, old: &Operation<'a>, new: &Operation<'a>) {
        let [before, after] = [old, new].map(|operation| operation.id().unwrap_or("none"));
        if before != after {
            let message = format!("{before} became {after}");
            self.say(
                "operationId",
                "operation-name",
                Verdict::Cosmetic,
                Verdict::Breaking,
                message,
            );
        }
        if old.value["tags"] != new.value["tags"] {
            self.say("tags", "tags", Verdict::Cosmetic, Verdict::Breaking, "tags differ");
        }
        match (old.value["deprecated"] == true, new.value["deprecated"] == true) {
            (false, true) => self.compatible("operation", "deprecated", "is deprecated"),
            (true, false) => self.compatible("operation", "deprecated", "is no longer deprecated"),
            _ => {}
        }
        if texts(old.value) != texts(new.value) {
            self.cosmetic("operation", "wording", "texts or extensions differ");
        }
        self.parameters(old, new);
        self.body(old.value.get("requestBody"), new.value.get("requestBody"));
        self.responses(&old.value["responses"], &new.value["responses"]);
        self.security(old.value, new.value);
        self.servers(old, new);
        self.callbacks(&old.value["callbacks"], &new.value["callbacks"]);
    }

    fn parameters(&mut self, old: &Operation<'a>, new: &Operation<'a>) {
        let before = parameters(self.old, old);
        let after = parameters(self.new, new);
        for (key, old) in &before {
            let at = format!("{} parameter {}", key.0, old["name"].as_str().unwrap_or_default());
            let Some(new) = after.get(key) else {
                self.breaking(&at, "parameter-removed", "is gone");
                continue;
            };
            if old["name"] != new["name"] && key.0 == "path" {
                let message = format!("is called {}", new["name"].as_str().unwrap_or_default());
                self.say(&at, "parameter-name", Verdict::Cosmetic, Verdict::Breaking, message);
            }
            self.parameter(old, new, &at);
        }
        for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
            let at = format!("{} parameter {}", key.0, new["name"].as_str().unwrap_or_default());
            if is_required(new) {
                self.breaking(&at, "parameter-added", "is new and required");
            } else {
                self.compatible(&at, "parameter-added", "is new");
            }
        }
    }

    fn parameter(&mut self, old: &'a Value, new: &'a Value, at: &str) {
        match (is_required(old), is_required(new)) {
            (false, true) => self.breaking(at, "parameter-required", "is now required"),
            (true, false) => {
                self.say(
                    at,
                    "parameter-required",
                    Verdict::Compatible,
                    Verdict::Breaking,
                    "is no longer required",
                );
            }
            _ => {}
        }
        if texts(old) != texts(new) {
            self.cosmetic(at, "wording", "texts, examples or extensions differ");
        }
        self.spelling(old, new, at);
        for (key, word) in
            [("allowEmptyValue", "may be empty"), ("allowReserved", "may hold reserved characters")]
        {
            match (old[key] == true, new[key] == true) {
                (true, false) => self.breaking(at, "parameter-style", format!("no longer {word}")),
                (false, true) => self.compatible(at, "parameter-style", word),
                _ => {}
            }
        }
        match (old.get("schema"), new.get("schema")) {
            (None, None) => {
                self.contents(old.get("content"), new.get("content"), at, Direction::Request)
            }
            (Some(before), Some(after)) => self.values(Direction::Request, |values| {
                values.meaning(&[old, before], &[new, after], at);
                values.schema(&[before], &[after], at);
            }),
            _ => self.breaking(at, "parameter-style", "is written in another way"),
        }
    }

    /// How a list or an object is written; a single value is written the same in all styles.
    fn spelling(&mut self, old: &Value, new: &Value, at: &str) {
        let before = style(old);
        let after = style(new);
        let matters = !is_single(self.old, old) || is_prefixed(before.0) || is_prefixed(after.0);
        if before != after && matters {
            self.breaking(at, "parameter-style", format!("style {} became {}", before.0, after.0));
        }
    }

    fn body(&mut self, old: Option<&'a Value>, new: Option<&'a Value>) {
        let (old, new) =
            (old.map(|body| self.old.follow(body)), new.map(|body| self.new.follow(body)));
        match (old, new) {
            (None, None) => {}
            (Some(_), None) => self.breaking("body", "body-removed", "is gone"),
            (None, Some(new)) if new["required"] == true => {
                self.breaking("body", "body-added", "is new and required")
            }
            (None, Some(_)) => {
                self.say("body", "body-added", Verdict::Compatible, Verdict::Breaking, "is new")
            }
            (Some(old), Some(new)) => {
                match (old["required"] == true, new["required"] == true) {
                    (false, true) => self.breaking("body", "body-required", "is now required"),
                    (true, false) => {
                        let message = "is no longer required";
                        self.say(
                            "body",
                            "body-required",
                            Verdict::Compatible,
                            Verdict::Breaking,
                            message,
                        );
                    }
                    _ => {}
                }
                if texts(old) != texts(new) {
                    self.cosmetic("body", "wording", "texts or extensions differ");
                }
                self.contents(old.get("content"), new.get("content"), "body", Direction::Request);
            }
        }
    }

    /// Media types and their schemas.
    fn contents(
        &mut self,
        old: Option<&'a Value>,
        new: Option<&'a Value>,
        at: &str,
        direction: Direction,
    ) {
        let before = media_types(old);
        let after = media_types(new);
        for (media, old) in &before {
            match covering(&after, media) {
                Some(new) if media.contains("json") => self.media_type(old, new, at, direction),
                Some(new) => self.media_type(old, new, &format!("{at} {media}"), direction),
                None => self.breaking(at, "media-type-removed", format!("{media} is gone")),
            }
        }
        for media in after.keys().filter(|media| !before.contains_key(*media)) {
            self.compatible(at, "media-type-added", format!("{media} is new"));
        }
    }

    fn media_type(&mut self, old: &'a Value, new: &'a Value, at: &str, direction: Direction) {
        if ["example", "examples"].iter().any(|key| canonical(&old[*key]) != canonical(&new[*key]))
        {
            self.cosmetic(at, "wording", "examples differ");
        }
        if canonical(&old["encoding"]) != canonical(&new["encoding"]) {
            let verdict = Effect::Changed.verdict(direction);
            self.say(
                at,
                "encoding",
                verdict,
                Verdict::Compatible,
                "the encoding of its parts differs",
            );
        }
        self.values(direction, |values| values.schema(&schema(old), &schema(new), at));
    }

    fn responses(&mut self, old: &'a Value, new: &'a Value) {
        let before = by_status(old);
        let after = by_status(new);
        for (status, old) in &before {
            let at = format!("response {status}");
            let range = format!("{}XX", status.chars().next().unwrap_or_default());
            let within = after
                .iter()
                .filter(|(other, _)| *status == range && other.starts_with(&status[..1]));
            let covering = [after.get(&range), after.get("DEFAULT")].into_iter().flatten().next();
            let others: Vec<&Value> =
                match within.map(|(_, response)| *response).collect::<Vec<_>>() {
                    within if within.is_empty() => covering.into_iter().copied().collect(),
                    within => within,
                };
            let old = self.old.follow(old);
            if let Some(new) = after.get(status) {
                self.response(old, self.new.follow(new), &at);
            } else if !others.is_empty() {
                self.compatible(&at, "response-removed", "is gone, others stand for it");
                others.iter().for_each(|new| self.response(old, self.new.follow(new), &at));
            } else if is_success(status) {
                self.breaking(&at, "response-removed", "is gone");
            } else {
                // Clients expect any failure, and one that no longer comes is none.
                self.compatible(&at, "response-removed", "is gone");
            }
        }
        for (status, new) in after.iter().filter(|(status, _)| !before.contains_key(*status)) {
            let at = format!("response {status}");
            let range = format!("{}XX", status.chars().next().unwrap_or_default());
            // Clients were told of it by what stood for it.
            let covering = [&range, "DEFAULT"].into_iter().find_map(|key| before.get(key));
            if let Some(old) = covering {
                self.compatible(&at, "response-added", "is new, and others stood for it");
                self.response(self.old.follow(old), self.new.follow(new), &at);
            } else if is_success(status) {
                self.breaking(&at, "response-added", "is new, and no failure");
            } else {
                // Clients expect any failure.
                self.compatible(&at, "response-added", "is new");
            }
        }
    }

    fn response(&mut self, old: &'a Value, new: &'a Value, at: &str) {
        if texts(old) != texts(new) {
            self.cosmetic(at, "wording", "texts or extensions differ");
        }
        let before = headers(self.old, old);
        let after = headers(self.new, new);
        for (name, old) in &before {
            let at = format!("{at} header {name}");
            let Some(new) = after.get(name) else {
                self.breaking(&at, "header-removed", "is gone");
                continue;
            };
            match (old["required"] == true, new["required"] == true) {
                (true, false) => self.breaking(&at, "header-required", "may be absent"),
                (false, true) => self.compatible(&at, "header-required", "is always there"),
                _ => {}
            }
            if texts(old) != texts(new) {
                self.cosmetic(&at, "wording", "texts or extensions differ");
            }
            self.values(Direction::Response, |values| {
                values.meaning(&with_schema(old), &with_schema(new), &at);
                values.schema(&schema(old), &schema(new), &at);
            });
        }
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            self.compatible(&format!("{at} header {name}"), "header-added", "is new");
        }
        self.contents(old.get("content"), new.get("content"), at, Direction::Response);
    }

    /// Every way in must stay; a way in is a set of credentials, whatever the schemes are called.
    fn security(&mut self, old: &'a Value, new: &'a Value) {
        let before = ways_in(self.old, old);
        let after = ways_in(self.new, new);
        for way in &before {
            if !after.iter().any(|other| other.is_subset(way)) {
                let message = format!("{} no longer suffices", shown_way(way));
                self.say("security", "security", Verdict::Breaking, Verdict::Compatible, message);
            }
        }
        for way in &after {
            if !before.iter().any(|other| other.is_subset(way)) {
                self.compatible(
                    "security",
                    "security",
                    format!("{} suffices; look at it twice", shown_way(way)),
                );
            }
        }
    }

    /// Servers of an operation or a path take the call to another base address in every client.
    fn servers(&mut self, old: &Operation<'a>, new: &Operation<'a>) {
        let before = old.own_servers();
        let after = new.own_servers();
        if before.is_none() && after.is_none() {
            return;
        }
        let before = before.unwrap_or(&self.old.value["servers"]);
        let after = after.unwrap_or(&self.new.value["servers"]);
        let old_urls = urls(before);
        let new_urls = urls(after);
        if !old_urls.is_subset(&new_urls) {
            self.breaking("servers", "servers", "lives on another base address");
        } else if old_urls != new_urls {
            self.compatible("servers", "servers", "has another base address besides");
        } else if without_texts(before) != without_texts(after) {
            self.compatible("servers", "servers", "variables of its base address differ");
        }
    }

    fn callbacks(&mut self, old: &'a Value, new: &'a Value) {
        let operation = self.operation.clone();
        let flipped = self.flipped;
        self.flipped = !flipped;
        self.operations(&in_callbacks(self.old, old), &in_callbacks(self.new, new));
        (self.operation, self.flipped) = (operation, flipped);
    }
}

/// The operations of all callbacks of an operation.
fn in_callbacks<'a>(api: &'a Api, callbacks: &'a Value) -> Operations<'a> {
    let mut out = Operations::new();
    for (name, callback) in callbacks.as_object().into_iter().flatten() {
        for ((path, method), operation) in in_paths(api, api.follow(callback)) {
            out.insert((format!("{name} {path}"), method), operation);
        }
    }
    out
}

/// The parameters of an operation and its path, by place and name: header names in lower case,
/// path parameters by position. The three headers that OpenAPI gives other places are not among
/// them.
fn parameters<'a>(
    api: &'a Api,
    operation: &Operation<'a>,
) -> BTreeMap<(&'a str, String), &'a Value> {
    let written = [operation.item, operation.value]
        .map(|holder| holder["parameters"].as_array().into_iter().flatten());
    let mut out = BTreeMap::new();
    for parameter in written.into_iter().flatten() {
        let parameter = api.follow(parameter);
        let place = parameter["in"].as_str().unwrap_or_default();
        let name = parameter["name"].as_str().unwrap_or_default();
        let key = match place {
            "header" => name.to_ascii_lowercase(),
            "path" => operation.path.find(&format!("{{{name}}}")).map_or_else(
                || name.to_owned(),
                |at| format!("{:03}", operation.path[..at].matches('{').count()),
            ),
            _ => name.to_owned(),
        };
        if place != "header" || !["accept", "content-type", "authorization"].contains(&key.as_str())
        {
            out.insert((place, key), parameter);
        }
    }
    out
}

fn is_required(parameter: &Value) -> bool {
    parameter["required"] == true || parameter["in"] == "path"
}

fn headers<'a>(api: &'a Api, response: &'a Value) -> BTreeMap<String, &'a Value> {
    let entries = response["headers"].as_object().into_iter().flatten();
    let named = entries.map(|(name, header)| (name.to_ascii_lowercase(), api.follow(header)));
    named.filter(|(name, _)| name != "content-type").collect()
}

/// Media types in lower case, without the character set.
fn media_types(content: Option<&Value>) -> BTreeMap<String, &Value> {
    let entries = content.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(media, value)| (without_charset(media), value)).collect()
}

/// The media type itself or a range that it is in.
fn covering<'a>(content: &BTreeMap<String, &'a Value>, media: &str) -> Option<&'a Value> {
    let group = media.split('/').next().unwrap_or_default();
    [media, &format!("{group}/*"), "*/*"].iter().find_map(|key| content.get(*key).copied())
}

/// The sets of credentials that each open an operation; an empty set is open to all.
fn ways_in(api: &Api, operation: &Value) -> Vec<BTreeSet<String>> {
    let written = operation.get("security").or_else(|| api.value.get("security"));
    let requirements: Vec<&Map<String, Value>> = written
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    if requirements.is_empty() {
        return vec![BTreeSet::new()];
    }
    requirements.iter().flat_map(|requirement| ways_of(api, requirement)).collect()
}

/// The ways that meet a requirement: all of its schemes, each in one of its forms.
fn ways_of(api: &Api, requirement: &Map<String, Value>) -> Vec<BTreeSet<String>> {
    requirement.iter().fold(vec![BTreeSet::new()], |ways, (name, scopes)| {
        let forms = credentials(api, name);
        let scopes: Vec<&str> =
            scopes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        ways.iter()
            .flat_map(|way| forms.iter().map(|form| with(way, form, &scopes)).collect::<Vec<_>>())
            .collect()
    })
}

fn with(way: &BTreeSet<String>, form: &str, scopes: &[&str]) -> BTreeSet<String> {
    let scopes = scopes.iter().map(|scope| format!("{form}, scope {scope}"));
    way.iter().cloned().chain([form.to_owned()]).chain(scopes).collect()
}

/// A scheme as a client sees it; of OAuth any of its flows.
fn credentials(api: &Api, name: &str) -> Vec<String> {
    let scheme = api.follow(&api.value["components"]["securitySchemes"][name]);
    let text = |key: &str| scheme[key].as_str().unwrap_or_default();
    vec![match scheme["type"].as_str() {
        Some("apiKey") if scheme["in"] == "header" => {
            format!("header {}", text("name").to_ascii_lowercase())
        }
        Some("apiKey") => format!("{} {}", text("in"), text("name")),
        Some("http") => format!("http {}", text("scheme").to_ascii_lowercase()),
        Some("openIdConnect") => format!("openIdConnect {}", text("openIdConnectUrl")),
        Some("oauth2") if scheme["flows"].as_object().is_some_and(|flows| !flows.is_empty()) => {
            let flows = scheme["flows"].as_object().into_iter().flatten();
            return flows.map(|(name, flow)| shown_flow(name, flow)).collect();
        }
        _ => name.to_owned(),
    }]
}

/// A flow of OAuth 2 and its addresses.
fn shown_flow(name: &str, flow: &Value) -> String {
    let urls = ["authorizationUrl", "tokenUrl"].into_iter().filter_map(|key| flow[key].as_str());
    ["oauth2", name].into_iter().chain(urls).collect::<Vec<_>>().join(" ")
}

/// What stands somewhere for people, links between operations, and the extensions.
fn texts(value: &Value) -> Vec<(&str, Value)> {
    const TEXTS: [&str; 6] =
        ["summary", "description", "externalDocs", "example", "examples", "links"];
    let entries = value.as_object().into_iter().flatten();
    let mut texts: Vec<(&str, Value)> = entries
        .filter(|(key, _)| TEXTS.contains(&key.as_str()) || key.starts_with("x-"))
        .map(|(key, value)| (key.as_str(), canonical(value)))
        .collect();
    texts.sort_by_key(|(key, _)| *key);
    texts
}

/// Servers without their descriptions.
fn without_texts(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_texts).collect(),
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| *key != "description");
            Value::Object(kept.map(|(key, value)| (key.clone(), without_texts(value))).collect())
        }
        _ => canonical(value),
    }
}

/// The path with its final slash, or without.
fn other_slash(path: &str) -> String {
    path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned)
}

/// Names of the schemas that something refers to.
fn references(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) = map
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|r| r.strip_prefix("#/components/schemas/"))
            {
                out.insert(name.to_owned());
            }
            map.values().for_each(|value| references(value, out));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, out)),
        _ => {}
    }
}

/// Texts of the document as a whole; its version is compared by itself.
fn document_texts(document: &Value) -> [Value; 3] {
    let mut info = document["info"].clone();
    if let Some(map) = info.as_object_mut() {
        map.remove("version");
    }
    [canonical(&info), canonical(&document["tags"]), canonical(&document["externalDocs"])]
}

/// How a parameter is written, and whether each item of a list is written by itself.
fn style(parameter: &Value) -> (&str, bool) {
    let style = parameter["style"].as_str().unwrap_or(match parameter["in"].as_str() {
        Some("query" | "cookie") => "form",
        _ => "simple",
    });
    (style, parameter["explode"].as_bool().unwrap_or(style == "form"))
}

/// Whether a parameter is one value, neither a list nor an object.
fn is_single(api: &Api, parameter: &Value) -> bool {
    let shape = api.shape(&schema(parameter));
    shape.alternatives.iter().all(|a| !matches!(a.kind, Kind::Array | Kind::Object))
}

fn is_prefixed(style: &str) -> bool {
    matches!(style, "label" | "matrix")
}

/// Whether clients take an answer of this status for what they asked for.
fn is_success(status: &str) -> bool {
    status.starts_with(['1', '2', '3'])
}

fn by_status(responses: &Value) -> BTreeMap<String, &Value> {
    let entries =
        responses.as_object().into_iter().flatten().filter(|(status, _)| !status.starts_with("x-"));
    entries.map(|(status, response)| (status.to_ascii_uppercase(), response)).collect()
}

/// What it takes to get in.
fn shown_way(way: &BTreeSet<String>) -> String {
    let words: Vec<&str> = way.iter().map(String::as_str).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(" and ") }
}

/// Addresses of servers; without any it is where the document is.
fn urls(servers: &Value) -> BTreeSet<String> {
    let servers = servers.as_array().into_iter().flatten();
    let urls: BTreeSet<String> =
        servers.filter_map(|s| s["url"].as_str().map(str::to_owned)).collect();
    if urls.is_empty() { BTreeSet::from(["/".to_owned()]) } else { urls }
}

fn without_charset(media: &str) -> String {
    let parts = media
        .split(';')
        .map(str::trim)
        .filter(|part| !part.to_ascii_lowercase().starts_with("charset="));
    parts.collect::<Vec<_>>().join(";").to_ascii_lowercase()
}

/// Names of the components that are schemas.
fn schemas(api: &Api) -> BTreeSet<&str> {
    let schemas = api.value["components"]["schemas"].as_object().into_iter().flatten();
    schemas.map(|(name, _)| name.as_str()).collect()
}

fn unused_schemas(api: &Api) -> BTreeSet<&str> {
    let mut used = BTreeSet::new();
    references(&api.value, &mut used);
    schemas(api).into_iter().filter(|name| !used.contains(*name)).collect()
}

/// The schema of a parameter, a header or a media type, if it has one.
fn schema(value: &Value) -> Vec<&Value> {
    value.get("schema").into_iter().collect()
}

fn with_schema(header: &Value) -> Vec<&Value> {
    std::iter::once(header).chain(header.get("schema")).collect()
}
