//! Whether a schema admits a value, and if not, why.

use serde_json::{Map, Value};

use crate::shape::{Alternative, Api, Kind, canonical};

/// Why `schema` refuses `value`: pairs of a JSON pointer into the value, and what is wrong there.
///
/// Stricter than the schema in one thing: where it names some properties and admits any others, a
/// property that it does not name is a violation. That is for examples, which show what is
/// documented.
pub fn violations(api: &Api, schema: &Value, value: &Value) -> Vec<(String, String)> {
    let mut check = Check { api, faults: Vec::new() };
    check.value(&[schema], value, "");
    check.faults
}

/// Whether a value of the alternative's type keeps its bounds.
pub(crate) fn is_admitted<'a>(api: &'a Api, schema: &Alternative<'a>, value: &Value) -> bool {
    let mut check = Check { api, faults: Vec::new() };
    check.alternative(schema, value, "");
    check.faults.is_empty()
}

/// A value against a schema.
struct Check<'a> {
    api: &'a Api,
    faults: Vec<(String, String)>,
}

impl<'a> Check<'a> {
    fn say(&mut self, at: &str, message: impl Into<String>) {
        self.faults.push((at.to_owned(), message.into()));
    }

    fn value(&mut self, schema: &[&'a Value], value: &Value, at: &str) {
        let shape = self.api.shape(schema);
        if value.is_null() {
            if !shape.null {
                self.say(at, "may not be null");
            }
            return;
        }
        let trials = shape
            .alternatives
            .iter()
            .filter(|alternative| Some(alternative.kind) == Kind::of(value));
        let trials = trials.map(|alternative| {
            let mut trial = Check { api: self.api, faults: Vec::new() };
            trial.alternative(alternative, value, at);
            trial.faults
        });
        match trials.min_by_key(Vec::len) {
            Some(faults) => self.faults.extend(faults),
            None => self.say(at, format!("must be {}", shape.type_names())),
        }
    }

    fn alternative(&mut self, schema: &Alternative<'a>, value: &Value, at: &str) {
        if let Some(values) = &schema.values
            && !values.contains(&canonical(value).to_string())
        {
            self.say(
                at,
                format!("must be one of {}", values.iter().cloned().collect::<Vec<_>>().join(", ")),
            );
        }
        match value {
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default(), at),
            Value::String(text) => self.text(schema, text, at),
            Value::Array(items) => {
                self.size(schema, items.len(), at);
                for (index, item) in items.iter().enumerate() {
                    self.value(&schema.items, item, &format!("{at}/{index}"));
                }
            }
            Value::Object(map) => self.object(schema, map, at),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn number(&mut self, schema: &Alternative<'_>, number: f64, at: &str) {
        if schema.whole && number.fract() != 0.0 {
            self.say(at, "must be an integer");
        }
        if let Some(limit) = schema.lower
            && (number < limit.value || limit.exclusive && number == limit.value)
        {
            self.say(at, format!("must be at least {limit}"));
        }
        if let Some(limit) = schema.upper
            && (number > limit.value || limit.exclusive && number == limit.value)
        {
            self.say(at, format!("must be at most {limit}"));
        }
    }

    fn text(&mut self, schema: &Alternative<'_>, text: &str, at: &str) {
        self.size(schema, text.chars().count(), at);
        for pattern in &schema.patterns {
            match regress::Regex::new(pattern) {
                Ok(regex) if regex.find(text).is_some() => {}
                Ok(_) => self.say(at, format!("must match {pattern}")),
                Err(error) => self.say(at, format!("{pattern} is no pattern: {error}")),
            }
        }
    }

    fn object(&mut self, schema: &Alternative<'a>, map: &Map<String, Value>, at: &str) {
        self.size(schema, map.len(), at);
        for name in schema.required.iter().filter(|name| !map.contains_key(**name)) {
            self.say(at, format!("needs {name}"));
        }
        for (name, value) in map {
            let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            match schema.properties.get(name.as_str()) {
                Some(property) => self.value(property, value, &at),
                // Records admit what they do not name, but an example shows what is documented. Of
                // this document itself the schema names one property, the rest is OpenAPI's to say.
                None if schema.properties.len() > 1
                    && self.api.shape(&schema.others).is_anything() =>
                {
                    self.say(&at, "is not in the schema; is it misspelled?");
                }
                None => self.value(&schema.others, value, &at),
            }
        }
    }

    fn size(&mut self, schema: &Alternative<'_>, size: usize, at: &str) {
        let size = size as u64;
        if size < schema.least {
            self.say(at, format!("is too short: {size}, at least {}", schema.least));
        }
        if let Some(most) = schema.most.filter(|most| size > *most) {
            self.say(at, format!("is too long: {size}, at most {most}"));
        }
    }
}
