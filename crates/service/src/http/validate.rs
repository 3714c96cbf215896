//! Requests against the document: what it says about parameters and bodies, as a table that is
//! walked over the request. All violations are found at once, and said as FastAPI says them.
//!
//! What is accepted follows the document strictly: a string is no number. What is refused is
//! told apart as pydantic's lax mode does (`"abc"` is `float_parsing`, `-1` is
//! `greater_than_equal`), for these are the answers that clients of the interface know.

use std::collections::HashMap;

use molbox::workflow::types::{LocItem, ValidationError};
use molbox::{Allowed, Measure};
use molbox_codegen::follow;
use regress::Regex;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::http::json::Json;

/// The document that the service serves and keeps to.
pub(crate) const DOCUMENT: &str = include_str!("../../../../openapi/openapi.json");
/// The tag of operations whose bodies have passwords.
const SIGNING_IN: &str = "session";
/// The tag of operations that are for administrators alone.
const ADMINISTRATION: &str = "admin";
/// The header by which a caller names a request.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// An answer lists this many violations; a request with more has one cause.
const MAX_VIOLATIONS: usize = 100;
/// A refused value is repeated in the answer up to this size, in bytes of JSON.
const MAX_INPUT_BYTES: usize = 200;

/// What the document says about the requests of each operation.
pub(crate) struct Contract {
    operations: HashMap<String, Operation>,
}

/// What the document says about the requests of one operation.
pub(crate) struct Operation {
    /// Whether it takes a key.
    pub(crate) takes_key: bool,
    /// Whether it takes the session of one who has signed in.
    pub(crate) takes_session: bool,
    /// Whether it is for administrators alone.
    pub(crate) is_for_admins: bool,
    /// Whether its body has a password: no answer repeats a part of it.
    is_secret: bool,
    parameters: Vec<Parameter>,
    body: Option<Schema>,
    takes_more_than_json: bool,
}

struct Parameter {
    name: String,
    place: Place,
    required: bool,
    schema: Schema,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Query,
    Header,
}

/// The part of a schema that a request is checked against.
#[derive(Clone)]
enum Schema {
    Any,
    Nullable(Box<Self>),
    /// With values or a range that the document states beside the type.
    Stated(Box<Self>, Allowed),
    String {
        min: usize,
        max: usize,
        pattern: Option<(String, Regex)>,
        values: Vec<String>,
    },
    Number {
        bound: Option<(f64, bool)>,
    },
    Integer {
        minimum: Option<i64>,
    },
    Boolean,
    Array(Box<Self>),
    Object {
        members: Vec<Member>,
        others: Option<Box<Self>>,
    },
}

#[derive(Clone)]
struct Member {
    name: String,
    required: bool,
    schema: Schema,
}

impl Contract {
    /// Reads the document, which the build has checked against its rules.
    pub(crate) fn of_document() -> Self {
        let document = &serde_json::from_str::<Value>(DOCUMENT).expect("the build has read it");
        let mut operations = HashMap::new();
        for item in document["paths"].as_object().into_iter().flat_map(|paths| paths.values()) {
            for operation in item.as_object().into_iter().flat_map(|item| item.values()) {
                let Some(id) = operation["operationId"].as_str() else { continue };
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let content = &operation["requestBody"]["content"];
                let body = &content["application/json"]["schema"];
                let ways = operation.get("security").unwrap_or(&document["security"]);
                let takes = |scheme| {
                    ways.as_array().into_iter().flatten().any(|way| way.get(scheme).is_some())
                };
                let operation = Operation {
                    takes_key: takes("ApiKey"),
                    takes_session: takes("Session"),
                    is_for_admins: operation["tags"][0] == ADMINISTRATION,
                    is_secret: operation["tags"][0] == SIGNING_IN,
                    parameters: parameters
                        .map(|p| Parameter::new(document, follow(document, p)))
                        .collect(),
                    body: body.is_object().then(|| Schema::new(document, body)),
                    takes_more_than_json: content
                        .as_object()
                        .is_some_and(|content| content.len() > 1),
                };
                operations.insert(id.to_owned(), operation);
            }
        }
        Self { operations }
    }

    /// The operation with this id.
    pub(crate) fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.get(id)
    }
}

impl Parameter {
    fn new(document: &Value, value: &Value) -> Self {
        Self {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            place: match value["in"].as_str() {
                Some("path") => Place::Path,
                Some("query") => Place::Query,
                _ => Place::Header,
            },
            required: value["required"] == true,
            schema: Schema::new(document, &value["schema"]).stated(value),
        }
    }
}

impl Schema {
    fn new(document: &Value, value: &Value) -> Self {
        let value = follow(document, value);
        if let Some(any) = value["anyOf"].as_array() {
            return Self::Nullable(Box::new(Self::new(document, &any[0])));
        }
        let size = |key: &str, default| value[key].as_u64().map_or(default, |n| n as usize);
        let plain = match value["type"].as_str() {
            Some("string") => Self::String {
                min: size("minLength", 0),
                max: size("maxLength", usize::MAX),
                pattern: value["pattern"]
                    .as_str()
                    .map(|p| (p.to_owned(), Regex::new(p).expect("checked by the build"))),
                values: value["enum"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            },
            Some("number") => Self::Number {
                bound: value["minimum"]
                    .as_f64()
                    .map(|min| (min, value["exclusiveMinimum"] == true)),
            },
            Some("integer") => Self::Integer { minimum: value["minimum"].as_i64() },
            Some("boolean") => Self::Boolean,
            Some("array") => Self::Array(Box::new(Self::new(document, &value["items"]))),
            Some("object") => Self::Object {
                members: value["properties"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, schema)| Member {
                        name: name.clone(),
                        required: value["required"]
                            .as_array()
                            .is_some_and(|r| r.iter().any(|n| n == name)),
                        schema: Self::new(document, schema),
                    })
                    .collect(),
                others: value
                    .get("additionalProperties")
                    .map(|schema| Box::new(Self::new(document, schema))),
            },
            _ => Self::Any,
        };
        let stated = plain.stated(value);
        if value["nullable"] == true { Self::Nullable(Box::new(stated)) } else { stated }
    }

    /// The schema with what a part of the document states of its values.
    fn stated(self, part: &Value) -> Self {
        let allowed = Allowed::deserialize(part).expect("the build has checked the keys");
        let ends = [allowed.from, allowed.above, allowed.to];
        if allowed.values.is_empty() && ends.iter().all(Option::is_none) {
            return self;
        }
        Self::Stated(Box::new(self), allowed)
    }
}

impl Operation {
    /// Whether the operation has a request body.
    pub(crate) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Names of the parameters in the query.
    pub(crate) fn query_parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().filter(|p| p.place == Place::Query).map(|p| p.name.as_str())
    }

    /// Whether a repeated request is answered as the first one.
    pub(crate) fn takes_idempotency_key(&self) -> bool {
        self.parameters
            .iter()
            .any(|p| p.place == Place::Header && p.name.eq_ignore_ascii_case(IDEMPOTENCY_KEY))
    }

    /// Whether the body may be something else than JSON.
    pub(crate) fn takes_more_than_json(&self) -> bool {
        self.takes_more_than_json
    }

    /// Every violation by the parameters of a request. Those of the path are left out but for
    /// enumerations: an identifier that cannot be one is not found, like any other. Values of the
    /// query are brought into the document's form.
    pub(crate) fn check_parameters(
        &self,
        path: &[(String, String)],
        query: &mut [(String, String)],
        header: impl Fn(&str) -> Option<String>,
    ) -> Vec<ValidationError> {
        let mut out = Violations::default();
        for place in [Place::Path, Place::Query, Place::Header] {
            for parameter in self.parameters.iter().filter(|p| p.place == place) {
                let (name, value) = match place {
                    Place::Path => ("path", last_of(path, &parameter.name)),
                    Place::Query => ("query", last_of(query, &parameter.name)),
                    Place::Header => ("header", header(&parameter.name)),
                };
                out.loc = vec![loc(name), loc(parameter.name.clone())];
                match value {
                    None if parameter.required => {
                        out.add("missing", "Field required", &Json::Null, None)
                    }
                    None => {}
                    Some(text) => {
                        let is_id = matches!(&parameter.schema, Schema::String { values, .. } if values.is_empty());
                        if place == Place::Path && is_id {
                            continue;
                        }
                        let mut value = Json::Str(text);
                        check(&parameter.schema, &mut value, true, &mut out);
                        if let (Place::Query, Json::Str(text)) = (place, value) {
                            let mut given = query.iter_mut().rev();
                            if let Some((_, given)) = given.find(|(k, _)| *k == parameter.name) {
                                *given = text;
                            }
                        }
                    }
                }
            }
        }
        out.found
    }

    /// Every violation by a body, which is brought into the document's form: `10.0` becomes `10`
    /// where an integer is meant, `popc` becomes `POPC`.
    pub(crate) fn check_body(&self, body: &mut Json) -> BodyCheck {
        let mut out = Violations { loc: vec![loc("body")], ..Violations::default() };
        if let Some(schema) = &self.body {
            check(schema, body, false, &mut out);
        }
        if self.is_secret {
            out.found.iter_mut().for_each(|violation| violation.input = None);
        }
        BodyCheck { is_readable: !out.is_broken, violations: out.found }
    }
}

/// What is wrong with a body by the document.
pub(crate) struct BodyCheck {
    pub(crate) violations: Vec<ValidationError>,
    /// Whether all values have their types, so that what else is wrong can be looked for.
    pub(crate) is_readable: bool,
}

/// Violations, and after them those of other fields.
pub(crate) fn joined(
    mut first: Vec<ValidationError>,
    others: Vec<ValidationError>,
) -> Vec<ValidationError> {
    let of_others =
        others.into_iter().filter(|other| first.iter().all(|violation| violation.loc != other.loc));
    let of_others: Vec<_> = of_others.collect();
    first.extend(of_others);
    first
}

/// A step of a path by name.
pub(crate) fn loc(name: impl Into<String>) -> LocItem {
    LocItem::String(name.into())
}

/// One violation.
pub(crate) fn violation(kind: &str, loc: Vec<LocItem>, msg: impl Into<String>) -> ValidationError {
    ValidationError {
        loc,
        msg: msg.into(),
        type_: kind.to_owned(),
        input: None,
        ctx: Map::new(),
        extra: Map::new(),
    }
}

/// What is wrong with a label in a field of the body, which is shown in lists and logs, a line
/// each.
pub(crate) fn unprintable(label: Option<&str>, field: &str) -> Option<ValidationError> {
    let label = label.filter(|label| label.chars().any(is_unprintable))?;
    let msg = format!("must have no control characters, got {label:?}");
    Some(violation("value_error", vec![loc("body"), loc(field)], msg))
}

/// Whether a character commands what shows it, a terminal or a list, turns round what follows it
/// there, begins another line, or is not seen, so that names that differ look alike. Joiners and
/// direction marks, which some scripts are written with, are none of them.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[derive(Default)]
struct Violations {
    loc: Vec<LocItem>,
    found: Vec<ValidationError>,
    /// Whether a value has not its type.
    is_broken: bool,
}

impl Violations {
    fn add(
        &mut self,
        kind: &str,
        msg: impl Into<String>,
        input: &Json,
        ctx: Option<(&str, Value)>,
    ) {
        self.is_broken = true;
        self.push(kind, msg, input, ctx);
    }

    fn push(
        &mut self,
        kind: &str,
        msg: impl Into<String>,
        input: &Json,
        ctx: Option<(&str, Value)>,
    ) {
        if self.found.len() == MAX_VIOLATIONS {
            return;
        }
        let mut error = violation(kind, self.loc.clone(), msg);
        error.input = small(input);
        error.ctx.extend(ctx.map(|(key, value)| (key.to_owned(), value)));
        self.found.push(error);
    }
}

/// The value, when repeating it costs little.
fn small(input: &Json) -> Option<Value> {
    fn cost(value: &Json, left: &mut usize) -> bool {
        let own = match value {
            Json::Int(text) | Json::Str(text) => text.len(),
            _ => 4,
        };
        *left = left.saturating_sub(own);
        *left > 0
            && match value {
                Json::Array(items) => items.iter().all(|item| cost(item, left)),
                Json::Object(members) => members.iter().all(|(_, item)| cost(item, left)),
                _ => true,
            }
    }
    cost(input, &mut MAX_INPUT_BYTES.clone()).then(|| input.clone().into_serde())
}

/// Checks a value and brings it into the document's form. Text of a parameter stands for a
/// number; in JSON it does not.
fn check(schema: &Schema, value: &mut Json, is_text: bool, out: &mut Violations) {
    match schema {
        Schema::Any => {}
        Schema::Nullable(schema) => {
            if *value != Json::Null {
                check(schema, value, is_text, out);
            }
        }
        Schema::Stated(schema, allowed) => {
            let before = out.found.len();
            check(schema, value, is_text, out);
            if out.found.len() == before {
                stated(schema, allowed, value, out);
            }
        }
        Schema::String { min, max, pattern, values } => {
            string(*min, *max, pattern.as_ref(), values, value, out)
        }
        Schema::Number { bound } => number(*bound, value, is_text, out),
        Schema::Integer { minimum } => integer(*minimum, value, is_text, out),
        Schema::Boolean => boolean(value, is_text, out),
        Schema::Array(schema) => match value {
            Json::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    out.loc.push(LocItem::Int64(index as i64));
                    check(schema, item, is_text, out);
                    out.loc.pop();
                }
            }
            _ => out.add("list_type", "Input should be a valid list", value, None),
        },
        Schema::Object { members, others } => object(members, others.as_deref(), value, out),
    }
}

/// Holds a value that has its type against what is stated beside it.
fn stated(schema: &Schema, allowed: &Allowed, value: &mut Json, out: &mut Violations) {
    let measure = match &*value {
        Json::Int(digits) => Measure::Number(digits.parse().expect("digits")),
        Json::Float(number) => Measure::Number(*number),
        Json::Str(text) if matches!(schema, Schema::Number { .. }) => {
            Measure::Number(python_float(text).expect("a number of its type"))
        }
        Json::Str(text) => Measure::Text(text),
        Json::Array(items) => Measure::Items(items.len()),
        _ => return,
    };
    if let Some(problem) = allowed.problem(&measure) {
        out.push(problem.kind, problem.message, value, Some(problem.limit));
    } else if let Json::Str(text) = value
        // Of an open list, something else may be called almost the same.
        && !allowed.is_open
        && let Some(listed) = allowed.listed(text)
    {
        *text = listed.to_owned();
    }
}

fn object(members: &[Member], others: Option<&Schema>, value: &mut Json, out: &mut Violations) {
    let Json::Object(present) = value else {
        let msg = "Input should be a valid dictionary or object to extract fields from";
        return out.add("model_attributes_type", msg, value, None);
    };
    for member in members {
        out.loc.push(loc(member.name.clone()));
        // The last of repeated members counts.
        match present.iter_mut().rev().find(|(name, _)| *name == member.name) {
            Some((_, value)) => check(&member.schema, value, false, out),
            None if member.required => {
                let input = Json::Object(present.clone());
                out.add("missing", "Field required", &input, None);
            }
            None => {}
        }
        out.loc.pop();
    }
    if let Some(schema) = others {
        for (name, value) in
            present.iter_mut().filter(|(name, _)| members.iter().all(|m| m.name != *name))
        {
            out.loc.push(loc(name.clone()));
            check(schema, value, false, out);
            out.loc.pop();
        }
    }
}

fn string(
    min: usize,
    max: usize,
    pattern: Option<&(String, Regex)>,
    values: &[String],
    value: &Json,
    out: &mut Violations,
) {
    let Json::Str(text) = value else {
        return if values.is_empty() {
            out.add("string_type", "Input should be a valid string", value, None);
        } else {
            enumeration(values, value, out);
        };
    };
    if !values.is_empty() {
        if !values.contains(text) {
            enumeration(values, value, out);
        }
        return;
    }
    let length = text.chars().count();
    if length < min {
        let msg = format!("String should have at least {min} character{}", plural(min));
        out.add("string_too_short", msg, value, Some(("min_length", json!(min))));
    } else if length > max {
        let msg = format!("String should have at most {max} character{}", plural(max));
        out.add("string_too_long", msg, value, Some(("max_length", json!(max))));
    } else if let Some((text_of_pattern, regex)) = pattern
        && regex.find(text).is_none()
    {
        let msg = format!("String should match pattern '{text_of_pattern}'");
        out.add("string_pattern_mismatch", msg, value, Some(("pattern", json!(text_of_pattern))));
    }
}

fn enumeration(values: &[String], value: &Json, out: &mut Violations) {
    let quoted: Vec<String> = values.iter().map(|v| format!("'{v}'")).collect();
    let expected = match quoted.as_slice() {
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
        [] => String::new(),
    };
    out.add(
        "enum",
        format!("Input should be {expected}"),
        value,
        Some(("expected", json!(expected))),
    );
}

fn number(bound: Option<(f64, bool)>, value: &Json, is_text: bool, out: &mut Violations) {
    let (number, is_number) = match value {
        Json::Float(number) => (*number, true),
        Json::Int(digits) => (digits.parse().expect("digits"), true),
        Json::Bool(truth) => (f64::from(u8::from(*truth)), false),
        Json::Str(text) => match python_float(text) {
            Some(number) => (number, is_text),
            None => {
                let msg = "Input should be a valid number, unable to parse string as a number";
                return out.add("float_parsing", msg, value, None);
            }
        },
        _ => return out.add("float_type", "Input should be a valid number", value, None),
    };
    match bound {
        // NaN fails every bound.
        Some((min, false)) if number.is_nan() || number < min => {
            let msg = format!("Input should be greater than or equal to {min}");
            out.add("greater_than_equal", msg, value, Some(("ge", json!(min))));
        }
        Some((min, true)) if number.is_nan() || number <= min => {
            out.add(
                "greater_than",
                format!("Input should be greater than {min}"),
                value,
                Some(("gt", json!(min))),
            );
        }
        _ if !is_number => out.add("float_type", "Input should be a valid number", value, None),
        _ if !number.is_finite() => {
            out.add("finite_number", "Input should be a finite number", value, None)
        }
        _ => {}
    }
}

fn integer(minimum: Option<i64>, value: &mut Json, is_text: bool, out: &mut Violations) {
    let too_large = "Unable to parse input string as an integer, exceeded maximum size";
    // The digits of the integer, and whether it was one.
    let (digits, is_integer) = match &*value {
        Json::Int(digits) => (digits.clone(), true),
        Json::Float(number) if !number.is_finite() => {
            return out.add("finite_number", "Input should be a finite number", value, None);
        }
        Json::Float(number) if number.fract() != 0.0 => {
            let msg = "Input should be a valid integer, got a number with a fractional part";
            return out.add("int_from_float", msg, value, None);
        }
        Json::Float(number) if !(i64::MIN as f64..i64::MAX as f64).contains(number) => {
            return out.add("int_parsing_size", too_large, value, None);
        }
        Json::Float(number) => ((*number as i64).to_string(), true),
        Json::Bool(truth) => (u8::from(*truth).to_string(), false),
        Json::Str(text) => match python_int(text) {
            Some(digits) => (digits, is_text),
            None => {
                let msg = "Input should be a valid integer, unable to parse string as an integer";
                return out.add("int_parsing", msg, value, None);
            }
        },
        _ => return out.add("int_type", "Input should be a valid integer", value, None),
    };
    let is_negative = digits.starts_with('-');
    let small = digits.parse::<i64>().ok();
    let is_low = minimum.is_some_and(|min| small.map_or(is_negative, |number| number < min));
    if let Some(min) = minimum.filter(|_| is_low) {
        let msg = format!("Input should be greater than or equal to {min}");
        out.add("greater_than_equal", msg, value, Some(("ge", json!(min))));
    } else if !is_integer {
        out.add("int_type", "Input should be a valid integer", value, None);
    } else if small.is_none() {
        // The document's int64, and the limit of other languages' clients.
        out.add("int_parsing_size", too_large, value, None);
    } else {
        *value = Json::Int(digits);
    }
}

fn boolean(value: &Json, is_text: bool, out: &mut Violations) {
    const WORDS: [&str; 12] =
        ["0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"];
    let parsing = "Input should be a valid boolean, unable to interpret input";
    match value {
        Json::Bool(_) => {}
        // Beside a body there is nothing but text.
        Json::Str(text) if is_text && WORDS.contains(&text.to_lowercase().as_str()) => {}
        Json::Str(text) if !WORDS.contains(&text.to_lowercase().as_str()) => {
            out.add("bool_parsing", parsing, value, None)
        }
        Json::Int(digits) if digits != "0" && digits != "1" && digits.parse::<i64>().is_ok() => {
            out.add("bool_parsing", parsing, value, None);
        }
        Json::Float(number)
            if number.fract() == 0.0 && number.abs() > 1.0 && number.abs() < i64::MAX as f64 =>
        {
            out.add("bool_parsing", parsing, value, None);
        }
        _ => out.add("bool_type", "Input should be a valid boolean", value, None),
    }
}

/// The digits of what Python takes for an integer: blanks around, a sign, single underscores
/// between digits, a fraction of zeros.
pub(super) fn python_int(text: &str) -> Option<String> {
    let text = text.trim();
    let (whole, fraction) =
        text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    if fraction.is_some_and(|f| f.is_empty() || f.bytes().any(|b| b != b'0')) {
        return None;
    }
    let whole = without_underscores(whole)?;
    let (sign, digits) = match whole.as_bytes().first()? {
        b'-' => ("-", &whole[1..]),
        b'+' => ("", &whole[1..]),
        _ => ("", whole.as_str()),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") })
}

/// What Python takes for a number.
fn python_float(text: &str) -> Option<f64> {
    let text = without_underscores(text.trim())?.to_ascii_lowercase();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let is_word = matches!(digits, "inf" | "infinity" | "nan");
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-'));
    if is_word || is_number { text.parse().ok() } else { None }
}

/// Python reads `1_000`, with underscores between digits and nowhere else.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let fine = bytes.iter().enumerate().all(|(i, byte)| *byte != b'_' || between_digits(bytes, i));
    fine.then(|| text.replace('_', ""))
}

fn between_digits(bytes: &[u8], i: usize) -> bool {
    i > 0 && bytes[i - 1].is_ascii_digit() && bytes.get(i + 1).is_some_and(u8::is_ascii_digit)
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// The value of a parameter. Of repeated ones the last counts.
fn last_of(pairs: &[(String, String)], name: &str) -> Option<String> {
    pairs.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}
