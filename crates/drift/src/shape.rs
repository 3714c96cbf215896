//! What a schema admits, whatever its spelling: OpenAPI 3.0 and 3.1, `nullable` and `type` arrays,
//! references, `allOf`, `anyOf` and `oneOf` all become a list of alternatives of one type each.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

/// An OpenAPI document that is compared or looked at.
#[derive(Debug)]
pub struct Api {
    /// The document as read, in the order of the file.
    pub value: Value,
    /// OpenAPI 3.0 reads nothing beside a `$ref`; later versions do.
    siblings: bool,
    /// The Rust generated of it, once for all comparisons.
    #[cfg(feature = "rust")]
    pub(crate) surface: std::sync::OnceLock<Result<crate::surface::Surface, String>>,
}

/// Schemas that hold at the same time, as written; none at all admits anything.
pub(crate) type Schema<'a> = Vec<&'a Value>;

/// References that lead in a circle end here.
const DEPTH_LIMIT: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Boolean, Self::Number, Self::String, Self::Array, Self::Object];

    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Self::Boolean),
            Value::Number(_) => Some(Self::Number),
            Value::String(_) => Some(Self::String),
            Value::Array(_) => Some(Self::Array),
            Value::Object(_) => Some(Self::Object),
        }
    }

    /// The kinds that a keyword is about; most say nothing.
    fn hinted(key: &str) -> Option<Self> {
        Some(match key {
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                Self::Number
            }
            "minLength" | "maxLength" | "pattern" | "contentEncoding" | "contentMediaType" => {
                Self::String
            }
            "items" | "minItems" | "maxItems" | "uniqueItems" | "prefixItems" | "contains" => {
                Self::Array
            }
            "properties"
            | "required"
            | "additionalProperties"
            | "minProperties"
            | "maxProperties"
            | "patternProperties"
            | "propertyNames"
            | "unevaluatedProperties" => Self::Object,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value, if self.exclusive { " (exclusive)" } else { "" })
    }
}

/// One type and what restricts it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alternative<'a> {
    pub(crate) kind: Kind,
    /// Of numbers: integers alone.
    pub(crate) whole: bool,
    /// An enumeration, by canonical text.
    pub(crate) values: Option<BTreeSet<String>>,
    pub(crate) lower: Option<Limit>,
    pub(crate) upper: Option<Limit>,
    /// Length, number of items or of properties.
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
    pub(crate) unique: bool,
    pub(crate) patterns: BTreeSet<&'a str>,
    pub(crate) format: Option<&'a str>,
    pub(crate) items: Schema<'a>,
    pub(crate) properties: BTreeMap<&'a str, Schema<'a>>,
    pub(crate) required: BTreeSet<&'a str>,
    /// What properties without a name of their own must be.
    pub(crate) others: Schema<'a>,
    /// Keywords that are compared as they are written.
    pub(crate) opaque: BTreeMap<&'a str, String>,
    /// The component that it comes from.
    pub(crate) name: Option<&'a str>,
}

impl Alternative<'_> {
    fn any(kind: Kind) -> Self {
        Self {
            kind,
            whole: false,
            values: None,
            lower: None,
            upper: None,
            least: 0,
            most: None,
            unique: false,
            patterns: BTreeSet::new(),
            format: None,
            items: Vec::new(),
            properties: BTreeMap::new(),
            required: BTreeSet::new(),
            others: Vec::new(),
            opaque: BTreeMap::new(),
            name: None,
        }
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Boolean => "boolean",
            Kind::Number if self.whole => "integer",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// Everything that a schema admits.
#[derive(Clone, Debug)]
pub(crate) struct Shape<'a> {
    pub(crate) null: bool,
    pub(crate) alternatives: Vec<Alternative<'a>>,
    /// Some values match two alternatives of a `oneOf`, as far as one can tell, and are refused.
    pub(crate) is_exclusive: bool,
}

impl<'a> Shape<'a> {
    fn anything() -> Self {
        Self {
            null: true,
            alternatives: Kind::ALL.map(Alternative::any).into(),
            is_exclusive: false,
        }
    }

    fn nothing() -> Self {
        Self { null: false, alternatives: Vec::new(), is_exclusive: false }
    }

    /// Whether every value is admitted: of every type, without restriction.
    pub(crate) fn is_anything(&self) -> bool {
        let is_free = |a: &Alternative<'a>| {
            Alternative { name: None, ..a.clone() } == Alternative::any(a.kind)
        };
        self.null && !self.is_exclusive && Kind::ALL.iter().all(|kind| self.of(*kind).any(is_free))
    }

    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Alternative<'a>> {
        self.alternatives.iter().filter(move |alternative| alternative.kind == kind)
    }

    pub(crate) fn type_names(&self) -> String {
        if self.is_anything() {
            return "anything".to_owned();
        }
        let names: BTreeSet<&str> = self.alternatives.iter().map(Alternative::type_name).collect();
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.into_iter().collect::<Vec<_>>().join(" or ")
        }
    }
}

impl Api {
    /// Takes a document that is known to be one; [`Self::checked`] looks at it first.
    pub fn new(value: Value) -> Self {
        let siblings = !value["openapi"].as_str().unwrap_or_default().starts_with("3.0");
        Self {
            value,
            siblings,
            #[cfg(feature = "rust")]
            surface: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn reads_siblings(&self) -> bool {
        self.siblings
    }

    pub(crate) fn target(&self, reference: &str) -> Option<&Value> {
        self.value.pointer(&without_percents(reference.strip_prefix('#')?)?)
    }

    /// The object itself or what its reference leads to.
    pub fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..DEPTH_LIMIT {
            match value["$ref"].as_str().and_then(|reference| self.target(reference)) {
                Some(target) => value = target,
                None => break,
            }
        }
        value
    }

    /// What `schema` admits.
    pub(crate) fn shape<'a>(&'a self, schema: &[&'a Value]) -> Shape<'a> {
        schema.iter().fold(Shape::anything(), |shape, written| {
            both(shape, self.written(written, &mut Vec::new()))
        })
    }

    /// `open` are the references that led here: one of them again adds nothing to a union.
    fn written<'a>(&'a self, schema: &'a Value, open: &mut Vec<&'a str>) -> Shape<'a> {
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(false) => return Shape::nothing(),
            _ => return Shape::anything(),
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            if open.contains(&reference) {
                return Shape::nothing();
            }
            open.push(reference);
            let mut shape = self
                .target(reference)
                .map_or_else(Shape::anything, |target| self.written(target, open));
            open.pop();
            let name = reference.rsplit('/').next();
            // In a union each has the name of its own.
            shape
                .alternatives
                .iter_mut()
                .for_each(|alternative| alternative.name = alternative.name.or(name));
            return if self.siblings { both(shape, self.keywords(map, open)) } else { shape };
        }
        self.keywords(map, open)
    }

    fn keywords<'a>(&'a self, map: &'a Map<String, Value>, open: &mut Vec<&'a str>) -> Shape<'a> {
        let mut shape = plain(map);
        for part in list(map, "allOf") {
            shape = both(shape, self.written(part, open));
        }
        for key in ["anyOf", "oneOf"] {
            if map.contains_key(key) {
                let parts: Vec<Shape<'a>> =
                    list(map, key).map(|part| self.written(part, open)).collect();
                let is_exclusive = key == "oneOf"
                    && (1..parts.len())
                        .any(|i| parts[..i].iter().any(|other| self.overlap(&parts[i], other)));
                let mut union = parts.into_iter().fold(Shape::nothing(), either);
                union.is_exclusive |= is_exclusive;
                shape = both(shape, union);
            }
        }
        // What `nullable` means beside a composition is disputed; its authors mean that null is
        // fine.
        shape.null |= map.get("nullable") == Some(&Value::Bool(true));
        shape
    }

    /// Whether some value may match both.
    fn overlap(&self, a: &Shape<'_>, b: &Shape<'_>) -> bool {
        a.null && b.null
            || a.alternatives.iter().any(|x| b.of(x.kind).any(|y| !self.are_disjoint(x, y)))
    }

    fn are_disjoint(&self, a: &Alternative<'_>, b: &Alternative<'_>) -> bool {
        // A property that both need and that distinguishes them.
        let is_tag =
            |property: &&&str| match (a.properties.get(**property), b.properties.get(**property)) {
                (Some(a), Some(b)) => {
                    match (
                        self.shape(a).alternatives.as_slice(),
                        self.shape(b).alternatives.as_slice(),
                    ) {
                        ([a], [b]) => a.kind != b.kind || are_apart(&a.values, &b.values),
                        _ => false,
                    }
                }
                _ => false,
            };
        are_apart(&a.values, &b.values)
            || self.is_foreign(a, b)
            || self.is_foreign(b, a)
            || a.required.intersection(&b.required).any(|property| is_tag(&property))
    }

    /// Whether an object needs what the other does not name. An open object may hold anything, but
    /// by convention nobody sends what it does not name.
    fn is_foreign(&self, a: &Alternative<'_>, b: &Alternative<'_>) -> bool {
        let others = self.shape(&b.others);
        let names_all =
            !b.properties.is_empty() && (others.is_anything() || others.alternatives.is_empty());
        names_all && a.required.iter().any(|property| !b.properties.contains_key(property))
    }

    /// A keyword of a schema or of what its reference leads to; the schema's own comes first.
    pub(crate) fn keyword<'a>(&'a self, schema: &[&'a Value], key: &str) -> Option<&'a Value> {
        schema.iter().find_map(|written| {
            let own = written.get(key).filter(|_| self.siblings || written.get("$ref").is_none());
            own.or_else(|| self.follow(written).get(key))
        })
    }
}

/// Whether both are enumerations that share no value.
fn are_apart(a: &Option<BTreeSet<String>>, b: &Option<BTreeSet<String>>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a.is_disjoint(b))
}

/// A reference is an address: `%7B` in it is a brace.
fn without_percents(fragment: &str) -> Option<Cow<'_, str>> {
    if !fragment.contains('%') {
        return Some(Cow::Borrowed(fragment));
    }
    let mut parts = fragment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn list<'a>(map: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    map.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The keywords of one schema but for those that combine schemas.
fn plain(map: &Map<String, Value>) -> Shape<'_> {
    let mut shape = types(map);
    for alternative in &mut shape.alternatives {
        restrict(alternative, map);
    }
    let values =
        map.get("enum").and_then(Value::as_array).map(|values| values.iter().collect::<Vec<_>>());
    if let Some(values) = values.or_else(|| map.get("const").map(|value| vec![value])) {
        shape.null &= values.iter().any(|value| value.is_null());
        shape.alternatives.retain_mut(|alternative| {
            let mine: BTreeSet<String> = values
                .iter()
                .filter(|value| Kind::of(value) == Some(alternative.kind))
                .map(|value| canonical(value).to_string())
                .collect();
            let some = !mine.is_empty();
            alternative.values = Some(mine);
            some
        });
    }
    shape
}

/// The types of a schema: as stated, or as its keywords have it.
fn types(map: &Map<String, Value>) -> Shape<'_> {
    let stated: Vec<&str> = match map.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => {
            let hinted: BTreeSet<Kind> = map.keys().filter_map(|key| Kind::hinted(key)).collect();
            let mut shape = Shape::anything();
            if !hinted.is_empty() {
                shape.null = false;
                shape.alternatives.retain(|alternative| hinted.contains(&alternative.kind));
            }
            return shape;
        }
    };
    let mut shape = Shape::nothing();
    let number = stated.contains(&"number");
    for name in stated {
        let kind = match name {
            "null" => {
                shape.null = true;
                continue;
            }
            "boolean" => Kind::Boolean,
            "integer" if number => continue,
            "integer" | "number" => Kind::Number,
            "string" => Kind::String,
            "array" => Kind::Array,
            _ => Kind::Object,
        };
        shape.alternatives.push(Alternative { whole: name == "integer", ..Alternative::any(kind) });
    }
    shape
}

/// Applies the keywords that are about the alternative's type.
fn restrict<'a>(alternative: &mut Alternative<'a>, map: &'a Map<String, Value>) {
    let size = |key: &str| map.get(key).and_then(Value::as_u64);
    match alternative.kind {
        Kind::Boolean => {}
        Kind::Number => {
            alternative.lower = limit(map, "minimum", "exclusiveMinimum", f64::max);
            alternative.upper = limit(map, "maximum", "exclusiveMaximum", f64::min);
            alternative.format = map.get("format").and_then(Value::as_str);
            if alternative.whole {
                round(alternative);
            }
            // Integers are multiples of 1 anyway.
            if !alternative.whole || size("multipleOf") != Some(1) {
                opaque(alternative, map, &["multipleOf"]);
            }
        }
        Kind::String => {
            alternative.least = size("minLength").unwrap_or(0);
            alternative.most = size("maxLength");
            alternative.patterns = map.get("pattern").and_then(Value::as_str).into_iter().collect();
            alternative.format = map.get("format").and_then(Value::as_str).or_else(|| content(map));
        }
        Kind::Array => {
            alternative.least = size("minItems").unwrap_or(0);
            alternative.most = size("maxItems");
            alternative.unique = map.get("uniqueItems") == Some(&Value::Bool(true));
            alternative.items = map.get("items").into_iter().collect();
            opaque(
                alternative,
                map,
                &["prefixItems", "contains", "minContains", "maxContains", "unevaluatedItems"],
            );
        }
        Kind::Object => {
            alternative.least = size("minProperties").unwrap_or(0);
            alternative.most = size("maxProperties");
            alternative.required = list(map, "required").filter_map(Value::as_str).collect();
            let properties = map.get("properties").and_then(Value::as_object).into_iter().flatten();
            alternative.properties =
                properties.map(|(name, schema)| (name.as_str(), vec![schema])).collect();
            alternative.others = map
                .get("additionalProperties")
                .or_else(|| map.get("unevaluatedProperties"))
                .into_iter()
                .collect();
            opaque(
                alternative,
                map,
                &["patternProperties", "propertyNames", "dependentRequired", "dependentSchemas"],
            );
        }
    }
    opaque(alternative, map, &["not", "if", "then", "else"]);
}

fn opaque<'a>(alternative: &mut Alternative<'a>, map: &'a Map<String, Value>, keys: &[&'a str]) {
    let written = keys.iter().filter_map(|key| Some((*key, canonical(map.get(*key)?).to_string())));
    alternative.opaque.extend(written);
}

/// A string whose content is described as OpenAPI 3.1 has it, in the words of 3.0.
fn content(map: &Map<String, Value>) -> Option<&'static str> {
    if map.contains_key("contentEncoding") {
        return Some("byte");
    }
    (map.get("contentMediaType")? == "application/octet-stream").then_some("binary")
}

/// A limit in either spelling: a flag beside the limit, or a limit of its own.
fn limit(
    map: &Map<String, Value>,
    plain: &str,
    exclusive: &str,
    tighter: fn(f64, f64) -> f64,
) -> Option<Limit> {
    let value = map.get(plain).and_then(Value::as_f64);
    let flag = map.get(exclusive) == Some(&Value::Bool(true));
    let inclusive = value.map(|value| Limit { value, exclusive: flag });
    let strict =
        map.get(exclusive).and_then(Value::as_f64).map(|value| Limit { value, exclusive: true });
    tightest(inclusive, strict, tighter)
}

fn tightest(a: Option<Limit>, b: Option<Limit>, tighter: fn(f64, f64) -> f64) -> Option<Limit> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    if a.value == b.value {
        return Some(Limit { value: a.value, exclusive: a.exclusive || b.exclusive });
    }
    Some(if tighter(a.value, b.value) == a.value { a } else { b })
}

/// Limits of an integer as the integers that are still admitted: above 0 is from 1.
fn round(alternative: &mut Alternative<'_>) {
    if let Some(limit) = &mut alternative.lower {
        let value = if limit.exclusive { limit.value.floor() + 1.0 } else { limit.value.ceil() };
        *limit = Limit { value, exclusive: false };
    }
    if let Some(limit) = &mut alternative.upper {
        let value = if limit.exclusive { limit.value.ceil() - 1.0 } else { limit.value.floor() };
        *limit = Limit { value, exclusive: false };
    }
}

fn both<'a>(a: Shape<'a>, b: Shape<'a>) -> Shape<'a> {
    if a.is_free() {
        return Shape { null: a.null && b.null, ..b };
    }
    if b.is_free() {
        return Shape { null: a.null && b.null, ..a };
    }
    let mut alternatives = Vec::new();
    for x in &a.alternatives {
        alternatives.extend(
            b.alternatives.iter().filter(|y| y.kind == x.kind).filter_map(|y| intersection(x, y)),
        );
    }
    Shape { null: a.null && b.null, alternatives, is_exclusive: a.is_exclusive || b.is_exclusive }
}

impl<'a> Shape<'a> {
    /// Whether intersecting with it changes nothing but perhaps the null.
    fn is_free(&self) -> bool {
        self.alternatives.len() == Kind::ALL.len()
            && self.alternatives.iter().all(Alternative::is_free)
    }
}

impl Alternative<'_> {
    fn is_free(&self) -> bool {
        !self.whole
            && self.values.is_none()
            && self.lower.is_none()
            && self.upper.is_none()
            && self.least == 0
            && self.most.is_none()
            && !self.unique
            && self.patterns.is_empty()
            && self.format.is_none()
            && self.items.is_empty()
            && self.properties.is_empty()
            && self.required.is_empty()
            && self.others.is_empty()
            && self.opaque.is_empty()
    }

    /// Whether it is a list of values and nothing else.
    fn is_enumeration(&self) -> bool {
        self.values.is_some()
            && Alternative { values: None, whole: false, format: None, ..self.clone() }.is_free()
    }
}

/// What either admits. Enumerations of one type become one; beside a type without restrictions the
/// others of that type say nothing.
fn either<'a>(mut a: Shape<'a>, b: Shape<'a>) -> Shape<'a> {
    a.null |= b.null;
    a.is_exclusive |= b.is_exclusive;
    for new in b.alternatives {
        if new.is_free() {
            a.alternatives.retain(|old| old.kind != new.kind);
        } else if a.of(new.kind).any(Alternative::is_free) {
            continue;
        }
        let mut peers =
            a.alternatives.iter_mut().filter(|old| old.kind == new.kind && old.is_enumeration());
        match peers.next().filter(|_| new.is_enumeration()) {
            Some(old) => old.values.get_or_insert_default().extend(new.values.unwrap_or_default()),
            None => a.alternatives.push(new),
        }
    }
    a
}

fn intersection<'a>(a: &Alternative<'a>, b: &Alternative<'a>) -> Option<Alternative<'a>> {
    let values = match (&a.values, &b.values) {
        (Some(a), Some(b)) => Some(a & b),
        (a, b) => a.clone().or_else(|| b.clone()),
    };
    if values.as_ref().is_some_and(BTreeSet::is_empty) {
        return None;
    }
    let mut properties = a.properties.clone();
    for (name, schema) in &b.properties {
        let own = properties.entry(name).or_default();
        for written in schema.iter().filter(|written| !own.contains(written)).collect::<Vec<_>>() {
            own.push(written);
        }
    }
    let mut result = Alternative {
        whole: a.whole || b.whole,
        values,
        lower: tightest(a.lower, b.lower, f64::max),
        upper: tightest(a.upper, b.upper, f64::min),
        least: a.least.max(b.least),
        most: a.most.into_iter().chain(b.most).min(),
        unique: a.unique || b.unique,
        patterns: &a.patterns | &b.patterns,
        format: a.format.or(b.format),
        items: a.items.iter().chain(&b.items).copied().collect(),
        properties,
        required: &a.required | &b.required,
        others: a.others.iter().chain(&b.others).copied().collect(),
        opaque: a
            .opaque
            .iter()
            .chain(&b.opaque)
            .map(|(key, value)| (*key, value.clone()))
            .collect(),
        name: a.name.filter(|name| b.name == Some(*name)),
        kind: a.kind,
    };
    if result.whole {
        round(&mut result);
    }
    Some(result)
}

/// A value in a spelling that equal values share: numbers as floats, keys in order.
pub(crate) fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            Value::Object(
                sorted.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect(),
            )
        }
        _ => value.clone(),
    }
}
