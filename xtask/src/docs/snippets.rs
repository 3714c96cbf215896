//! How an operation is called: with curl, and with the clients in Rust, Python and TypeScript.

use serde_json::{Map, Value};

/// An operation as an example calls it.
pub struct Call<'a> {
    pub id: &'a str,
    pub tag: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    pub is_margin: bool,
    pub needs_key: bool,
    /// The parameters that must be given, with values.
    pub parameters: Vec<Argument<'a>>,
    pub body: Option<Value>,
    pub body_name: Option<&'a str>,
    /// What the answer is written to, if it is a file.
    pub download: Option<&'static str>,
}

pub struct Argument<'a> {
    pub name: &'a str,
    pub place: &'a str,
    pub value: String,
    /// The name of the enumeration that it is of.
    pub enumeration: Option<&'a str>,
}

/// Every language with its name for highlighting and its text; `generated` is the call as the
/// clients that other generators make have it.
pub fn snippets(
    call: &Call<'_>,
    generated: &Call<'_>,
) -> [(&'static str, &'static str, String); 4] {
    [
        ("curl", "sh", curl(call)),
        ("Rust", "rust", rust(call)),
        ("Python", "python", python(generated)),
        ("TypeScript", "ts", typescript(generated)),
    ]
}

/// A path with the values of its parameters.
fn path(call: &Call<'_>) -> String {
    let in_path = call.parameters.iter().filter(|parameter| parameter.place == "path");
    in_path.fold(call.path.to_owned(), |path, parameter| {
        path.replace(&format!("{{{}}}", parameter.name), &parameter.value)
    })
}

fn curl(call: &Call<'_>) -> String {
    let base = if call.is_margin { "$MOLBOX_MARGIN_URL" } else { "$MOLBOX_BASE_URL" };
    let query: Vec<String> = call
        .parameters
        .iter()
        .filter(|parameter| parameter.place == "query")
        .map(|parameter| format!("{}={}", parameter.name, parameter.value))
        .collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let mut lines = vec![format!("curl --fail-with-body \"{base}{}{query}\"", path(call))];
    if call.method != "get" && call.body.is_none() {
        lines[0] =
            lines[0].replace("curl ", &format!("curl --request {} ", call.method.to_uppercase()));
    }
    if call.needs_key {
        lines.push("--header \"x-api-key: $MOLBOX_API_KEY\"".to_owned());
    }
    if let Some(body) = &call.body {
        lines.push("--header \"content-type: application/json\"".to_owned());
        lines.push(format!("--data '{}'", pretty(body).replace('\'', "'\\''")));
    }
    if let Some(file) = call.download {
        lines.push(format!("--output {file}"));
    }
    lines.join(" \\\n  ")
}

fn rust(call: &Call<'_>) -> String {
    let module = if call.is_margin { "margin" } else { "workflow" };
    let mut lines = vec![format!("let molbox = molbox::{module}::Client::from_env()?;")];
    let mut chain = vec![format!("molbox.{}()", call.id)];
    chain.extend(call.parameters.iter().map(|parameter| {
        let setter = if parameter.name == "type" { "type_" } else { parameter.name };
        format!(".{setter}({:?})", parameter.value)
    }));
    if let (Some(body), Some(name)) = (&call.body, call.body_name) {
        lines.push(format!(
            "let body: molbox::{module}::types::{name} = serde_json::from_str(r#\"{}\"#)?;",
            pretty(body)
        ));
        chain.push(".body(body)".to_owned());
    }
    chain.extend([".send()".to_owned(), ".await?;".to_owned()]);
    lines.push(format!("let answer = {}", chain.concat()));
    lines.join("\n")
}

fn python(call: &Call<'_>) -> String {
    let package = if call.is_margin { "molbox_margin" } else { "molbox_workflow" };
    let mut lines = Vec::new();
    lines.push(format!("from {package}.api.{} import {}", call.tag, call.id));
    if let Some(name) = call.body_name.filter(|_| call.body.is_some()) {
        lines.push(format!("from {package}.models import {name}"));
    }
    let enumerations = call.parameters.iter().filter_map(|parameter| parameter.enumeration);
    lines.extend(enumerations.map(|name| format!("from {package}.models import {name}")));
    lines.push(String::new());
    let client = if call.is_margin { "margin" } else { "molbox" };
    let mut arguments: Vec<String> = call
        .parameters
        .iter()
        .map(|parameter| match parameter.enumeration {
            Some(name) => format!("{}={name}({:?})", parameter.name, parameter.value),
            None => format!("{}={:?}", parameter.name, parameter.value),
        })
        .collect();
    arguments.push(format!("client={client}"));
    if let (Some(body), Some(name)) = (&call.body, call.body_name) {
        arguments.push(format!("body={name}.from_dict({})", python_value(body, 0)));
    }
    lines.push(format!("answer = {}.sync_detailed({})", call.id, arguments.join(", ")));
    lines.join("\n")
}

fn typescript(call: &Call<'_>) -> String {
    let client = if call.is_margin { "margin" } else { "molbox" };
    let mut options = Vec::new();
    let mut places = Map::new();
    for parameter in &call.parameters {
        let place = places.entry(parameter.place).or_insert_with(|| Value::Object(Map::new()));
        place[parameter.name] = Value::from(parameter.value.as_str());
    }
    if !places.is_empty() {
        options.push(format!("params: {}", inline(&Value::Object(places))));
    }
    if let Some(body) = &call.body {
        options.push(format!("body: {}", pretty(body)));
    }
    if call.download.is_some() {
        options.push("parseAs: \"blob\"".to_owned());
    }
    let options =
        if options.is_empty() { String::new() } else { format!(", {{ {} }}", options.join(", ")) };
    format!(
        "const {{ data, error }} = await {client}.{}({:?}{options});",
        call.method.to_uppercase(),
        call.path
    )
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value is JSON")
}

/// A value on one line, as people write it.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}: {}", inline(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        value => value.to_string(),
    }
}

fn python_value(value: &Value, depth: usize) -> String {
    let indent = "    ".repeat(depth + 1);
    let end = "    ".repeat(depth);
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) if items.is_empty() => "[]".to_owned(),
        Value::Array(items) => {
            let items =
                items.iter().map(|item| format!("{indent}{},\n", python_value(item, depth + 1)));
            format!("[\n{}{end}]", items.collect::<String>())
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| {
                format!("{indent}{key:?}: {},\n", python_value(value, depth + 1))
            });
            format!("{{\n{}{end}}}", members.collect::<String>())
        }
        value => value.to_string(),
    }
}
