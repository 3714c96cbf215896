//! Verdicts against what schemas do to values: random schemas, all small values, and a validator
//! that knows nothing of how the comparison works.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and may say how much it tried"
)]

use openapi_drift::{Api, Report, Verdict};
use serde_json::{Map, Value, json};

/// Random numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn is_lucky(&mut self) -> bool {
        self.roll(3) == 0
    }

    fn schema(&mut self, depth: usize) -> Value {
        let sides = if depth == 0 { 5 } else { 11 };
        let mut out = match self.roll(sides) {
            0 => json!({"type": "boolean"}),
            1 | 2 => self.number(),
            3 | 4 => self.text(),
            5 => self.array(depth),
            6 => self.object(depth),
            7 => json!({"anyOf": [self.schema(depth - 1), self.schema(depth - 1)]}),
            8 => json!({}),
            9 => {
                let number = self.number();
                json!({"anyOf": [{"type": "boolean"}, number, self.text(), self.array(depth), self.object(depth)]})
            }
            _ => json!({"oneOf": [{"type": "boolean"}, self.text()]}),
        };
        if out.get("type").is_some() && self.roll(5) == 0 {
            out["nullable"] = json!(true);
        }
        out
    }

    fn number(&mut self) -> Value {
        let mut out = json!({"type": if self.is_lucky() { "integer" } else { "number" }});
        for (key, flag) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
            if self.is_lucky() {
                out[key] = json!(self.roll(3));
                out[flag] = json!(self.is_lucky());
            }
        }
        out
    }

    fn text(&mut self) -> Value {
        let mut out = json!({"type": "string"});
        match self.roll(4) {
            0 => out["minLength"] = json!(self.roll(3)),
            1 => out["maxLength"] = json!(self.roll(3)),
            2 => out["enum"] = if self.is_lucky() { json!(["a"]) } else { json!(["ab", "a"]) },
            _ => {}
        }
        out
    }

    fn array(&mut self, depth: usize) -> Value {
        let mut out = json!({"type": "array", "items": self.schema(depth - 1)});
        if self.is_lucky() {
            out["minItems"] = json!(1);
        }
        out
    }

    /// Closed, since a property that an open object gains may have held anything before; by
    /// convention that is no break.
    fn object(&mut self, depth: usize) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for name in ["a", "b"] {
            if !self.is_lucky() {
                properties.insert(name.to_owned(), self.schema(depth - 1));
                if self.is_lucky() {
                    required.push(name);
                }
            }
        }
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// The schema with something in it made anew.
    fn mutation(&mut self, schema: &Value, depth: usize) -> Value {
        let children = ["/items", "/properties/a", "/properties/b", "/anyOf/0", "/anyOf/1"];
        let mut out = schema.clone();
        let at = children[self.roll(children.len())];
        match schema.pointer(at) {
            Some(child) if depth > 0 => {
                *out.pointer_mut(at).unwrap() = self.mutation(child, depth - 1)
            }
            _ => out = self.schema(depth),
        }
        out
    }
}

/// Whether a schema admits a value, read off the keywords.
fn admits(schema: &Value, value: &Value) -> bool {
    if value.is_null() && schema["nullable"] == true {
        return true;
    }
    if *schema == json!({}) {
        return true;
    }
    let branches = |key: &str| {
        schema[key].as_array().map(|all| all.iter().filter(|s| admits(s, value)).count())
    };
    if let Some(count) = branches("anyOf") {
        return count > 0;
    }
    if let Some(count) = branches("oneOf") {
        return count == 1;
    }
    let limit = |key: &str| schema[key].as_f64();
    let within = |size: usize, least: &str, most: &str| {
        limit(least).is_none_or(|n| size as f64 >= n)
            && limit(most).is_none_or(|n| size as f64 <= n)
    };
    match (schema["type"].as_str().unwrap(), value) {
        ("boolean", Value::Bool(_)) => true,
        (kind @ ("number" | "integer"), Value::Number(number)) => {
            let x = number.as_f64().unwrap();
            (kind == "number" || x.fract() == 0.0)
                && limit("minimum")
                    .is_none_or(|n| if schema["exclusiveMinimum"] == true { x > n } else { x >= n })
                && limit("maximum")
                    .is_none_or(|n| if schema["exclusiveMaximum"] == true { x < n } else { x <= n })
        }
        ("string", Value::String(text)) => {
            within(text.len(), "minLength", "maxLength")
                && schema["enum"].as_array().is_none_or(|values| values.contains(value))
        }
        ("array", Value::Array(items)) => {
            within(items.len(), "minItems", "maxItems")
                && items.iter().all(|item| admits(&schema["items"], item))
        }
        ("object", Value::Object(map)) => {
            let properties = schema["properties"].as_object().unwrap();
            let required = schema["required"].as_array().unwrap();
            required.iter().all(|name| map.contains_key(name.as_str().unwrap()))
                && map.iter().all(|(name, value)| {
                    properties.get(name).is_some_and(|schema| admits(schema, value))
                })
        }
        _ => false,
    }
}

/// Every small value: scalars, and lists and objects of them, and of some of these.
fn values() -> Vec<Value> {
    let mut out = vec![json!(null), json!(true)];
    out.extend([-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5].map(Value::from));
    out.extend(["", "a", "b", "ab", "abc"].map(Value::from));
    for _ in 0..2 {
        let inner: Vec<Value> = out.iter().step_by(1 + out.len() / 40).cloned().collect();
        out.extend([json!([]), json!({})]);
        for x in &inner {
            out.extend([json!([x]), json!({"a": x}), json!({"b": x})]);
            out.extend(inner.iter().step_by(5).map(|y| json!({"a": x, "b": y})));
        }
    }
    out
}

fn document(schema: &Value) -> Api {
    Api::new(json!({
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1.0.0"},
        "paths": {"/x": {"post": {
            "requestBody": {"content": {"application/json": {"schema": schema}}},
            "responses": {},
        }}},
    }))
}

#[test]
fn what_is_refused_anew_is_breaking() {
    let mut dice = Dice(20);
    let values = values();
    let (mut narrowed, mut alarms) = (0, 0);
    for _ in 0..2000 {
        let old = dice.schema(2);
        let new = dice.mutation(&old, 2);
        let findings = Report::new(&document(&old), &document(&new)).findings;
        let is_breaking = findings.iter().any(|finding| finding.verdict == Verdict::Breaking);
        let lost = values.iter().find(|value| admits(&old, value) && !admits(&new, value));
        let gained = values.iter().find(|value| !admits(&old, value) && admits(&new, value));
        let shown = format!("{old}\n{new}\n{findings:#?}");
        match (lost, gained) {
            (Some(lost), _) => {
                assert!(is_breaking, "{lost} is lost unnoticed:\n{shown}");
                narrowed += 1;
            }
            (None, Some(gained)) => {
                assert!(!findings.is_empty(), "{gained} is new unnoticed:\n{shown}")
            }
            (None, None) => {}
        }
        alarms += usize::from(is_breaking && lost.is_none());
    }
    assert!(narrowed > 1000, "the schemas are too dull: {narrowed}");
    // A comparison by parts cannot know that two alternatives exclude each other, or that a part is
    // empty; what it cannot know it must call breaking.
    println!("{narrowed} narrowed, {alarms} alarms without a small value to show for it");
}
