//! What the document allows is what the service takes: every value that it lists, both sides of
//! every end that it names, posted to a running service. The client refuses the same.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use molbox::workflow::types::{
    AccountChange, AccountRequest, AnalysisRequest, FileRegistration, InvitationAcceptance,
    InvitationCheck, JobCreateParams, JobExtension, KeyRequest, PasswordChange, SignIn,
    SystemBuildRequest,
};
use molbox::{InvalidRequest, margin};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::accounts::{Headers, signed_in};
use crate::common::Service;
use crate::sessions::{Browser, PASSWORD};
use crate::work::water;

/// Keywords that allow some values and not others.
const KEYWORDS: [&str; 8] =
    ["enum", "x-values", "minLength", "maxLength", "minimum", "x-from", "x-above", "x-to"];

/// Limits that are too large to be posted: their places, and the number that the code has.
const TOO_LARGE: [(&str, usize); 2] = [
    ("#/components/schemas/Portfolio/properties/futures", molbox_margin::MAX_POSITIONS),
    ("#/components/schemas/NamedPortfolio/properties/futures", molbox_margin::MAX_POSITIONS),
];

/// A part of a request: a parameter, or a value in the body.
#[derive(Clone)]
struct Field {
    /// Where the document has it.
    pointer: String,
    /// Where a violation has it: `body`, `equilibration`, 0, `time`.
    loc: Vec<Value>,
    /// What the document says of it, `x-` keys of parameters included.
    schema: Map<String, Value>,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.pointer, Value::Array(self.loc.clone()))
    }
}

/// The keywords of a schema that this test is about, with null left out of nullable references.
fn keywords(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let is_null = |value: &Value| value == &json!([null]);
    let known =
        move |(key, value): &(&String, &Value)| KEYWORDS.contains(&key.as_str()) && !is_null(value);
    schema.iter().filter(known).map(|(key, _)| key.as_str())
}

/// Every value that the document allows or not, whether it does, and the values it was made of.
fn probes(field: &Field) -> Vec<(Value, bool)> {
    let Field { schema, .. } = field;
    let is_whole = schema["type"] == "integer" || field.pointer.ends_with("/downsample_frames");
    let mut values: Vec<Value> = Vec::new();
    for keyword in keywords(schema) {
        match (keyword, schema["type"].as_str().unwrap()) {
            ("enum" | "x-values", _) => {
                for value in schema[keyword].as_array().unwrap() {
                    values.push(value.clone());
                    // What is beside open values is another field's test: whether a file is called
                    // so.
                    if !schema.contains_key("x-open") {
                        values.push(json!(format!("{}x", value.as_str().unwrap())));
                    }
                }
            }
            (_, "string") => {
                let end = schema[keyword].as_f64().unwrap() as usize;
                values.extend(
                    [end.saturating_sub(1), end, end + 1].map(|length| json!("a".repeat(length))),
                );
            }
            (_, "array") => {
                let end = schema[keyword].as_f64().unwrap() as usize;
                let items = |length| (0..length).map(|index| item(field, index)).collect();
                values.extend([end.saturating_sub(1), end, end + 1].map(items));
            }
            (_, "integer" | "number") => {
                let end = schema[keyword].as_f64().unwrap();
                // Of large whole numbers doubles have every second one.
                let step = match end {
                    _ if is_whole => (end * f64::EPSILON).max(1.0),
                    0.0 => 0.01,
                    _ => end.abs() * 0.01,
                };
                let number = |value: f64| if is_whole { json!(value as i64) } else { json!(value) };
                values.extend([end - step, end, end + step].map(number));
            }
            (keyword, kind) => panic!("{field}: {keyword} of {kind}"),
        }
    }
    let mut unique: Vec<(Value, bool)> = Vec::new();
    for value in values {
        if unique.iter().all(|(other, _)| *other != value) {
            let is_allowed = keywords(schema).all(|keyword| allows(schema, keyword, &value));
            unique.push((value, is_allowed));
        }
    }
    unique
}

/// Whether one keyword allows a value.
fn allows(schema: &Map<String, Value>, keyword: &str, value: &Value) -> bool {
    let end = &schema[keyword];
    if keyword == "enum" || (keyword == "x-values" && schema.get("x-open") != Some(&json!(true))) {
        return end.as_array().unwrap().contains(value);
    }
    let size = match value {
        Value::String(text) => text.chars().count() as f64,
        Value::Array(items) => items.len() as f64,
        other => other.as_f64().unwrap(),
    };
    let is_exclusive = schema.get("exclusiveMinimum") == Some(&json!(true));
    match keyword {
        "x-above" => size > end.as_f64().unwrap(),
        "minimum" if is_exclusive => size > end.as_f64().unwrap(),
        "minimum" | "minLength" | "x-from" => size >= end.as_f64().unwrap(),
        "maxLength" | "x-to" => size <= end.as_f64().unwrap(),
        "x-values" => true,
        other => panic!("{other}"),
    }
}

/// An item of a list whose length is tried, by its place.
fn item(field: &Field, index: usize) -> Value {
    match field.pointer.rsplit('/').next().unwrap() {
        "ligands" => json!("ligand"),
        "built" => json!("file"),
        "equilibration" => json!({}),
        "items" if field.pointer.contains("rmsd_masks") => json!("@CA"),
        "addedDates" | "excludedDates" => json!("2024-11-29"),
        "portfolios" => json!({ "name": index.to_string(), "futures": [] }),
        other => panic!("{field}: nothing is known of an item of {other}"),
    }
}

fn follow<'a>(document: &'a Value, value: &'a Value, pointer: &mut String) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => {
            reference.clone_into(pointer);
            document.pointer(&reference[1..]).unwrap()
        }
        None => value,
    }
}

/// Every value below a schema, the first item standing for a list's.
fn collect(document: &Value, schema: &Value, pointer: &str, loc: &[Value], out: &mut Vec<Field>) {
    let mut pointer = pointer.to_owned();
    let mut schema = follow(document, schema, &mut pointer);
    if let Some(first) = schema["anyOf"].get(0) {
        pointer += "/anyOf/0";
        schema = follow(document, first, &mut pointer);
    }
    out.push(Field {
        pointer: pointer.clone(),
        loc: loc.to_vec(),
        schema: schema.as_object().unwrap().clone(),
    });
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let at = [loc, &[json!(name)]].concat();
        collect(document, property, &format!("{pointer}/properties/{name}"), &at, out);
    }
    if let Some(items) = schema.get("items") {
        collect(document, items, &format!("{pointer}/items"), &[loc, &[json!(0)]].concat(), out);
    }
}

/// Places of every keyword below a value, by all references.
fn places(document: &Value, value: &Value, pointer: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                return places(
                    document,
                    document.pointer(&reference[1..]).unwrap(),
                    reference,
                    out,
                );
            }
            for keyword in keywords(map) {
                out.insert(format!("{pointer}/{keyword}"));
            }
            let inner = map.iter().filter(|(key, _)| !KEYWORDS.contains(&key.as_str()));
            inner.for_each(|(key, value)| {
                places(document, value, &format!("{pointer}/{}", escaped(key)), out)
            });
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| {
                places(document, item, &format!("{pointer}/{index}"), out)
            });
        }
        _ => {}
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// One operation of the document.
struct Operation {
    id: String,
    method: Method,
    path: String,
    is_margin: bool,
    takes_key: bool,
    fields: Vec<Field>,
}

/// Every operation with the fields of its requests, and the places of all keywords in them.
fn operations(document: &Value) -> (Vec<Operation>, BTreeSet<String>) {
    let (mut operations, mut stated) = (Vec::new(), BTreeSet::new());
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(id) = operation["operationId"].as_str() else { continue };
            let at = format!("#/paths/{}/{method}", escaped(path));
            let mut fields = Vec::new();
            for (index, parameter) in
                operation["parameters"].as_array().into_iter().flatten().enumerate()
            {
                let mut pointer = format!("{at}/parameters/{index}");
                places(document, parameter, &pointer, &mut stated);
                let parameter = follow(document, parameter, &mut pointer);
                let loc = [parameter["in"].clone(), parameter["name"].clone()];
                let mut of_schema = Vec::new();
                collect(
                    document,
                    &parameter["schema"],
                    &format!("{pointer}/schema"),
                    &loc,
                    &mut of_schema,
                );
                let beside = keywords(parameter.as_object().unwrap()).map(str::to_owned);
                let own: Map<_, _> =
                    beside.map(|keyword| (keyword.clone(), parameter[&keyword].clone())).collect();
                if !own.is_empty() {
                    let mut schema = own;
                    schema.insert("type".to_owned(), of_schema[0].schema["type"].clone());
                    fields.push(Field { pointer, loc: loc.to_vec(), schema });
                }
                fields.extend(of_schema);
            }
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            if body.is_object() {
                places(document, body, &at, &mut stated);
                collect(document, body, &at, &[json!("body")], &mut fields);
            }
            fields.retain(|field| keywords(&field.schema).next().is_some());
            let is_margin = item.get("servers").is_some();
            let ways = operation.get("security").unwrap_or(&document["security"]);
            let takes_key = ways.as_array().unwrap().iter().any(|way| way.get("ApiKey").is_some());
            let method = method.to_uppercase().parse().unwrap();
            operations.push(Operation {
                id: id.to_owned(),
                method,
                path: path.clone(),
                is_margin,
                takes_key,
                fields,
            });
        }
    }
    (operations, stated)
}

/// A request that is fine with the value in its place.
#[derive(Clone, Debug)]
struct Request {
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Option<Value>,
    /// In place of the JSON body.
    csv: Option<&'static str>,
    /// What is answered when all is well.
    status: u16,
}

/// The service with what requests refer to.
struct World {
    service: Service,
    key: String,
    /// Headers of a browser, for what takes no key.
    signed_in: Headers,
    http: reqwest::Client,
    system: String,
    pending: String,
}

impl World {
    /// A request that would be answered well, but for the value that is tried.
    fn request(&self, operation: &Operation, field: &Field, value: &Value) -> Request {
        let last = field.loc.last().unwrap();
        let is = |name: &str| last == name;
        let future = json!({"ticker": "XEQ1", "type": "long", "quantity": 2});
        let (body, status) = match operation.id.as_str() {
            "file_register" => {
                // The content has not arrived: that is looked at last.
                let mut body = json!({ "file_id": self.pending });
                if is("type") {
                    let formats = [
                        ("ligand", "sdf"),
                        ("force_field", "xml"),
                        ("trajectory", "dcd"),
                        ("system", "prmtop"),
                    ];
                    let format = formats
                        .iter()
                        .find(|(kind, _)| value == kind)
                        .map_or("pdb", |&(_, format)| format);
                    body["format"] = json!(format);
                }
                (Some(body), 409)
            }
            "system_submit" | "system_check" => {
                let of_charmm = ["tip3p-pme-b", "tip3p-pme-f", "tip4p2005", "tip5p", "tip5pew"];
                let mut body = json!({});
                if is("water_type") && of_charmm.iter().any(|name| value == name) {
                    body["force_field"] = json!("charmm36");
                }
                if field
                    .loc
                    .get(1)
                    .is_some_and(|name| name.as_str().unwrap().starts_with("ligand_"))
                {
                    body["ligands"] = json!(["ligand"]);
                }
                // Files are looked for when all else is well, and there are none of the name.
                (Some(body), if is("built") { 404 } else { 200 })
            }
            "job_submit" | "job_check" => {
                let mut body = json!({ "box_id": self.system, "equilibration": [] });
                if field.loc.get(1) == Some(&json!("equilibration")) {
                    body["equilibration"] = json!([{}]);
                }
                if is("restraint_force") {
                    body["equilibration"] = json!([{ "restraint_mask": "@O" }]);
                }
                // Nothing is called so, and a system without a membrane has no surface tension.
                let has_tension = is("surface_tension") && value.as_f64() > Some(0.0);
                (
                    Some(body),
                    if is("box_id") {
                        404
                    } else if has_tension {
                        422
                    } else {
                        200
                    },
                )
            }
            "analysis_submit" | "analysis_check" => {
                (Some(json!({ "topology": "atoms", "trajectory": "frames" })), 200)
            }
            "job_extend" => (Some(json!({ "time": 1 })), 404),
            "session_create" => (Some(json!({ "account": "nobody", "password": "wrong" })), 401),
            "invitation_check" => (Some(json!({ "token": "none" })), 401),
            "invitation_accept" => (Some(json!({ "token": "none", "password": PASSWORD })), 401),
            // Of a wrong password, so that it stays as it is.
            "password_change" => {
                (Some(json!({ "password": "wrong", "new_password": PASSWORD })), 422)
            }
            "key_create" => (Some(json!({ "name": "laptop" })), 200),
            // Another name each time.
            "account_create" => (Some(json!({ "account": format!("made {value}") })), 200),
            "account_change" => (Some(json!({})), 200),
            "margin_submit" if field.loc[0] == "query" && !is("shape") => (None, 200),
            "margin_submit" => {
                let mut body = json!({
                    "marginDate": "2024-12-31", "numScenarios": 100, "portfolio": { "futures": [future] },
                });
                if is("encoding") {
                    // {"futures": []}
                    body["portfolio"] = json!({ "data": "eyJmdXR1cmVzIjogW119" });
                }
                if field.loc.get(1) == Some(&json!("portfolios")) {
                    let fields = body.as_object_mut().unwrap();
                    let mut named = fields.remove("portfolio").unwrap();
                    named["name"] = json!("desk");
                    fields.insert("portfolios".to_owned(), json!([named]));
                }
                if is("stressWeight") {
                    let [first, last] = ["2008-09-01", "2009-03-31"];
                    body["settings"] = json!({ "stressStartDate": first, "stressEndDate": last });
                }
                (Some(body), 200)
            }
            id if operation.method == Method::POST => {
                (None, if id.contains('_') { 404 } else { 200 })
            }
            _ => (None, if operation.path.contains('{') { 404 } else { 200 }),
        };
        let mut request = Request {
            path: operation.path.clone(),
            query: Vec::new(),
            headers: Vec::new(),
            csv: None,
            body,
            status,
        };
        if operation.id == "upload_url_create" && !is("filetype") {
            request.query.push(("filetype".to_owned(), "pdb".to_owned()));
        }
        if operation.id == "margin_submit" && request.body.is_none() {
            request.csv = Some("ticker,type,quantity\nXEQ1,long,2\n");
            request.path = request.path.replace("{data_format}", "csv");
            request.query.push(("marginDate".to_owned(), "2024-12-31".to_owned()));
            if is("stressWeight") {
                let stress = [("stressStartDate", "2008-09-01"), ("stressEndDate", "2009-03-31")];
                request.query.extend(stress.map(|(name, day)| (name.to_owned(), day.to_owned())));
            }
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = last.as_str().unwrap_or_default();
        match field.loc[0].as_str().unwrap() {
            "path" => request.path = request.path.replace(&format!("{{{name}}}"), &text),
            "query" => request.query.push((name.to_owned(), text)),
            "header" => request.headers.push((name.to_owned(), text)),
            _ => put(request.body.as_mut().unwrap(), &field.loc[1..], value),
        }
        let ids =
            [("job_id", "job"), ("system_id", "box"), ("analysis_id", "ana"), ("file_id", "file")];
        for (parameter, prefix) in ids {
            request.path = request
                .path
                .replace(&format!("{{{parameter}}}"), &format!("{prefix}_{}", "0".repeat(20)));
        }
        request.path = request.path.replace("{data_format}", "json").replace("{account}", "linus");
        request
    }

    /// Status of the answer, and the places that it complains of.
    async fn send(&self, operation: &Operation, request: &Request) -> (u16, Vec<Value>, String) {
        let base =
            if operation.is_margin { &self.service.margin_url } else { &self.service.base_url };
        let url =
            reqwest::Url::parse_with_params(&format!("{base}{}", request.path), &request.query)
                .unwrap();
        let mut sent = self.http.request(operation.method.clone(), url);
        if operation.takes_key {
            sent = sent.header("x-api-key", &self.key);
        } else {
            for (name, value) in &self.signed_in {
                sent = sent.header(*name, value);
            }
        }
        for (name, value) in &request.headers {
            sent = sent.header(name, value);
        }
        if let Some(text) = request.csv {
            sent = sent.header("content-type", "text/csv").body(text);
        } else if let Some(body) = &request.body {
            sent = sent.json(body);
        }
        let answer = sent.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let detail = body["detail"].as_array().into_iter().flatten();
        (status, detail.map(|violation| violation["loc"].clone()).collect(), text)
    }
}

/// Puts a value at a path; objects and lists on the way are made.
fn put(body: &mut Value, path: &[Value], value: &Value) {
    let Some((step, rest)) = path.split_first() else {
        *body = value.clone();
        return;
    };
    match step {
        Value::String(name) => {
            if !body.is_object() {
                *body = json!({});
            }
            put(&mut body[name], rest, value);
        }
        _ => {
            if body.as_array().is_none_or(Vec::is_empty) {
                *body = json!([null]);
            }
            put(&mut body[0], rest, value);
        }
    }
}

/// Paths of what the client refuses to send; none for an operation without a body.
fn refused_by_client(operation: &str, body: &Value) -> Option<Vec<String>> {
    fn paths<T>(read: Result<T, InvalidRequest>) -> Vec<String> {
        let violations = read.err().into_iter().flat_map(|invalid| invalid.violations);
        violations.map(|violation| violation.path()).collect()
    }
    let text = body.to_string();
    Some(match operation {
        "file_register" => paths(molbox::from_json::<FileRegistration>(&text)),
        "system_submit" | "system_check" => paths(molbox::from_json::<SystemBuildRequest>(&text)),
        "job_submit" | "job_check" => paths(molbox::from_json::<JobCreateParams>(&text)),
        "job_extend" => paths(molbox::from_json::<JobExtension>(&text)),
        "analysis_submit" | "analysis_check" => paths(molbox::from_json::<AnalysisRequest>(&text)),
        "margin_submit" => paths(molbox::from_json::<margin::types::MarginJobRequest>(&text)),
        "session_create" => paths(molbox::from_json::<SignIn>(&text)),
        "invitation_check" => paths(molbox::from_json::<InvitationCheck>(&text)),
        "invitation_accept" => paths(molbox::from_json::<InvitationAcceptance>(&text)),
        "password_change" => paths(molbox::from_json::<PasswordChange>(&text)),
        "key_create" => paths(molbox::from_json::<KeyRequest>(&text)),
        "account_create" => paths(molbox::from_json::<AccountRequest>(&text)),
        "account_change" => paths(molbox::from_json::<AccountChange>(&text)),
        other => panic!("{other}: nothing is known of its body"),
    })
}

/// `equilibration[0].time`.
fn path_of(loc: &[Value]) -> String {
    let mut path = String::new();
    for step in loc {
        match step.as_str() {
            Some(name) if path.is_empty() => path += name,
            Some(name) => path += &format!(".{name}"),
            None => path += &format!("[{step}]"),
        }
    }
    path
}

const METHANE: &str = "methane\n  molbox          3D\n\n  1  0  0  0  0  0            999 V2000\n    \
    0.1000    0.2000    0.3000 C   0  0\nM  END\n$$$$\n";

/// A service that has what requests refer to, and whose workers cannot start.
async fn world(folder: &Path) -> World {
    let data = folder.join("data");
    let mut service = Service::start_in(&data, &[]);
    service.command(&["market", "sample"]);
    let key = service.key("ada");
    Browser::of(&service, "grace").await;
    service.command(&["account", "change", "grace", "--role", "admin"]);
    service.command(&["account", "create", "linus"]);
    let molbox = service.client_with(&key);
    let test_data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analysis/tests/data");
    fs::write(folder.join("ligand.sdf"), METHANE).unwrap();
    molbox.upload(folder.join("ligand.sdf")).name("ligand").await.unwrap();
    molbox.upload(test_data.join("mini_tri.dcd")).name("frames").await.unwrap();
    molbox.upload(test_data.join("mini_tri.pdb")).name("atoms").await.unwrap();
    let pending =
        molbox.upload_url_create().filetype("pdb").send().await.unwrap().file_id.to_string();
    let system = water(&molbox).await.system_id.to_string();
    service.stop();
    let settings = [
        "worker.python=\"/nonexistent/python\"",
        "limits.open_tasks=0",
        "limits.requests_per_minute=0",
        "limits.body_bytes=33554432",
        "sessions.tries_per_minute=0",
        "sessions.tries_per_minute_from_address=0",
    ];
    let service = Service::start_in(&data, &settings);
    let signed_in = signed_in(&service, "grace").await;
    World { service, key, signed_in, http: reqwest::Client::new(), system, pending }
}

#[tokio::test]
async fn what_the_document_allows_is_what_the_service_takes() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path()).await;
    let document: Value =
        serde_json::from_str(include_str!("../../../../openapi/openapi.json")).unwrap();
    let (operations, stated) = operations(&document);
    let mut tried = BTreeSet::new();
    let mut wrong = Vec::new();
    for operation in &operations {
        for field in &operation.fields {
            let before = tried.len();
            tried.extend(
                keywords(&field.schema).map(|keyword| format!("{}/{keyword}", field.pointer)),
            );
            let is_new = tried.len() > before;
            if let Some((_, number)) =
                TOO_LARGE.iter().find(|(pointer, _)| *pointer == field.pointer)
            {
                assert_eq!(field.schema["x-to"], json!(number), "{field}");
                continue;
            }
            // Parameters that operations share are tried once; a body's fields have places of their
            // own.
            if field.loc[0] != "body" && !is_new {
                continue;
            }
            for (value, is_allowed) in probes(field) {
                let request = world.request(operation, field, &value);
                let (status, places, text) = world.send(operation, &request).await;
                let at = Value::Array(field.loc.clone());
                let names_it = places.contains(&at);
                let is_right =
                    if is_allowed { status == request.status } else { status == 422 && names_it };
                let shown: String = value.to_string().chars().take(60).collect();
                let said: String = text.chars().take(300).collect();
                if !is_right {
                    wrong.push(format!(
                        "{} {field} = {shown}: allowed {is_allowed}, got {status} {said}",
                        operation.id
                    ));
                }
                let Some(body) = request.body.as_ref().filter(|_| field.loc[0] == "body") else {
                    continue;
                };
                let refused = refused_by_client(&operation.id, body).unwrap();
                if refused.is_empty() != is_allowed
                    || (!is_allowed && !refused.contains(&path_of(&field.loc[1..])))
                {
                    wrong.push(format!(
                        "{} {field} = {shown}: allowed {is_allowed}, client: {refused:?}",
                        operation.id
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let missed: Vec<&String> = stated.difference(&tried).collect();
    assert!(missed.is_empty(), "stated by the document, and not tried: {missed:?}");
}
