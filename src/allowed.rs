//! What the document allows of values beside their types: lists of texts, and ranges.
//!
//! The client refuses by it before it sends, the service when it receives; both read the same
//! words.

use serde::Deserialize;
use serde_json::Value;

use crate::InvalidRequest;
use crate::unknown::{fields, folded};
use crate::workflow::types::{LocItem, ValidationError};

/// What is allowed of a value, as the document's `x-` keys state it.
///
/// A range is of a number itself, of a text's characters, or of a list's items.
///
/// ```
/// let schema = r#"{"x-from": 0, "x-to": 5, "x-unit": "mol/L"}"#;
/// let concentration: molbox::Allowed = serde_json::from_str(schema)?;
/// let problem = concentration.problem(&molbox::Measure::Number(7.0)).unwrap();
/// assert_eq!(problem.message, "must be from 0 to 5 mol/L, got 7");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Allowed {
    /// Texts that are allowed, read without regard to case and separators; empty for any.
    #[serde(default, rename = "x-values")]
    pub values: Vec<String>,
    /// Whether other texts are allowed, too.
    #[serde(default, rename = "x-open")]
    pub is_open: bool,
    /// Least value.
    #[serde(rename = "x-from")]
    pub from: Option<f64>,
    /// What the value must be above; it stands in the place of `from`.
    #[serde(rename = "x-above")]
    pub above: Option<f64>,
    /// Largest value.
    #[serde(rename = "x-to")]
    pub to: Option<f64>,
    /// Unit of a number.
    #[serde(rename = "x-unit")]
    pub unit: Option<String>,
}

/// That of a value which is held against what is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure<'a> {
    /// A text: itself, or its characters.
    Text(&'a str),
    /// A number.
    Number(f64),
    /// The items of a list.
    Items(usize),
}

/// Why a value is not allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Machine-readable kind, for example `less_than_equal`.
    pub kind: &'static str,
    /// What is wrong, for people.
    pub message: String,
    /// Name and value of what is broken, `le` and 5.
    pub limit: (&'static str, Value),
}

impl Allowed {
    /// The listed text that is meant by this one: case and separators do not matter, `popc` is
    /// `POPC`.
    pub fn listed(&self, text: &str) -> Option<&str> {
        self.values.iter().find(|value| folded(value) == folded(text)).map(String::as_str)
    }

    /// What is wrong with a value, if anything is.
    pub fn problem(&self, measure: &Measure<'_>) -> Option<Problem> {
        if let Measure::Text(text) = measure
            && !self.values.is_empty()
        {
            return (!self.is_open && self.listed(text).is_none()).then(|| Problem {
                kind: "enum",
                message: format!("must be one of {}, got {text:?}", self.values.join(", ")),
                limit: ("expected", self.values.clone().into()),
            });
        }
        let (size, [short, low, long], of) = match measure {
            Measure::Number(number) => {
                (*number, ["greater_than", "greater_than_equal", "less_than_equal"], "")
            }
            Measure::Text(text) => {
                let kinds = ["string_too_short", "string_too_short", "string_too_long"];
                (text.chars().count() as f64, kinds, "character")
            }
            Measure::Items(count) => {
                (*count as f64, ["too_short", "too_short", "too_long"], "item")
            }
        };
        let (kind, limit) = match (self.above, self.from, self.to) {
            // NaN is in no range.
            (Some(above), _, _) if size <= above || size.is_nan() => (short, ("gt", above.into())),
            (_, Some(from), _) if size < from || size.is_nan() => (low, ("ge", from.into())),
            (_, _, Some(to)) if size > to || size.is_nan() => (long, ("le", to.into())),
            _ => return None,
        };
        let message = if of.is_empty() {
            let unit = self.unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
            format!("must be {}{unit}, got {}", self.range(), readable(size))
        } else {
            format!("must have {} {of}s, has {size}", self.range())
        };
        Some(Problem { kind, message, limit })
    }

    /// `from 0 to 5`, `above 0 and at most 10`.
    fn range(&self) -> String {
        match (self.above, self.from, self.to) {
            (Some(above), _, Some(to)) => format!("above {above} and at most {to}"),
            (Some(above), _, None) => format!("above {above}"),
            (None, Some(from), Some(to)) => format!("from {from} to {to}"),
            (None, Some(from), None) => format!("at least {from}"),
            (None, None, Some(to)) => format!("at most {to}"),
            (None, None, None) => "anything".to_owned(),
        }
    }
}

/// A number without hundreds of zeros.
fn readable(number: f64) -> String {
    let is_plain = number == 0.0 || (1e-6..1e15).contains(&number.abs());
    if is_plain { number.to_string() } else { format!("{number:e}") }
}

/// Every value of a request that is not allowed, whatever else may be wrong with it.
pub(crate) fn violations(schema: &str, value: &Value) -> Vec<ValidationError> {
    let mut out = Vec::new();
    of_object(schema, value, &mut Vec::new(), &mut out);
    out
}

fn of_object(schema: &str, value: &Value, loc: &mut Vec<LocItem>, out: &mut Vec<ValidationError>) {
    for (name, holds, _, allowed) in fields(schema) {
        let Some(member) = value.get(*name) else { continue };
        let allowed: Vec<Allowed> =
            serde_json::from_str(allowed).expect("written by the build script");
        loc.push(LocItem::String((*name).to_owned()));
        of_value(holds, &allowed, member, loc, out);
        loc.pop();
    }
}

/// `allowed` is of the value, then of the items of its lists, level by level.
fn of_value(
    holds: &str,
    allowed: &[Allowed],
    value: &Value,
    loc: &mut Vec<LocItem>,
    out: &mut Vec<ValidationError>,
) {
    let (own, of_items) = match allowed.split_first() {
        Some((own, rest)) => (Some(own), rest),
        None => (None, allowed),
    };
    let measure = match value {
        Value::String(text) => Some(Measure::Text(text)),
        Value::Number(number) => number.as_f64().map(Measure::Number),
        Value::Array(items) => Some(Measure::Items(items.len())),
        _ => None,
    };
    if let Some(problem) = own.zip(measure).and_then(|(own, measure)| own.problem(&measure)) {
        let (name, limit) = problem.limit;
        let invalid = InvalidRequest::new(problem.kind, problem.message).limit(name, limit);
        out.extend(loc.iter().rev().cloned().fold(invalid, InvalidRequest::within).violations);
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                loc.push(LocItem::Int64(index as i64));
                of_value(holds, of_items, item, loc, out);
                loc.pop();
            }
        }
        Value::Object(_) if !holds.is_empty() => of_object(holds, value, loc, out),
        _ => {}
    }
}
