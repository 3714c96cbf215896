//! Requests written by people.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::workflow::types::LocItem;
use crate::{InvalidRequest, Request, UnknownField, allowed, unknown_fields};

/// Reads a request from JSON text and says where it is wrong, misspelt fields included:
/// `equilibration[1].time: must be a number >= 0, got -0.5 at line 3 column 12`.
///
/// ```
/// use molbox::workflow::types::JobCreateParams;
///
/// let text = r#"{"temprature": 310, "equilibration": [{"time": 0.1}, {"time": -0.5}]}"#;
/// let error = molbox::from_json::<JobCreateParams>(text).unwrap_err();
/// let [unknown, negative] = [0, 1].map(|at| error.violations[at].to_string());
/// assert_eq!(unknown, "temprature: no such field; did you mean temperature?");
/// assert!(negative.starts_with("equilibration[1].time: must be a number >= 0, got -0.5"));
/// ```
///
/// # Errors
///
/// Every field that the document does not have, with the one that was probably meant; every value
/// outside of what it states; and the first one that is of another type.
pub fn from_json<T: Request>(text: &str) -> Result<T, InvalidRequest> {
    let mut violations = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let unknown = unknown_fields::<T>(&value);
        for field in unknown.listed {
            violations.extend(unknown_field(field).violations);
        }
        if unknown.more > 0 {
            let message = format!("{} more fields that there are not", unknown.more);
            violations.extend(InvalidRequest::new(NO_FIELD, message).violations);
        }
        violations.extend(allowed::violations(T::SCHEMA, &value));
    }
    match read(text) {
        Ok(value) if violations.is_empty() => Ok(value),
        Ok(_) => Err(InvalidRequest { violations }),
        Err(invalid) => {
            violations.extend(invalid.violations);
            Err(InvalidRequest { violations })
        }
    }
}

const NO_FIELD: &str = "unknown_field";

fn unknown_field(field: UnknownField) -> InvalidRequest {
    let question = field.question().map_or_else(String::new, |question| format!("; {question}"));
    let loc = field.loc.into_iter().rev();
    loc.fold(
        InvalidRequest::new(NO_FIELD, format!("no such field{question}")),
        InvalidRequest::within,
    )
}

/// Reads JSON text; what is wrong, and where.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, InvalidRequest> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().clone();
        // An enum's variant and what is unknown are no steps of a request.
        let steps = path.iter().rev().filter_map(|step| match step {
            Segment::Seq { index } => Some(LocItem::Int64(*index as i64)),
            Segment::Map { key } => Some(LocItem::String(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let message = in_words(&error.into_inner().to_string());
        steps.fold(InvalidRequest::new("value_error", message), InvalidRequest::within)
    })?;
    deserializer.end().map_err(|error| InvalidRequest::new("json_invalid", error))?;
    Ok(value)
}

/// A message without the names of this language's numbers.
fn in_words(message: &str) -> String {
    message
        .replace("expected u64", "expected a whole number >= 0")
        .replace("expected i64", "expected a whole number")
        .replace("expected f64", "expected a number")
        .replace("expected a sequence", "expected an array")
        .replace("expected a map", "expected an object")
        .replace("invalid type: sequence,", "invalid type: array,")
        .replace("invalid type: map,", "invalid type: object,")
}
