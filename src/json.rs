//! Requests written by people.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Request, allowed, unknown_fields};

/// Why a text is not a request: everything that was found.
///
/// Reads like its violations, one after the other, with semicolons between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRequest {
    /// What is wrong; not empty.
    pub violations: Vec<Violation>,
}

/// Something wrong with a request.
///
/// Reads `equilibration[1].time: must be a number >= 0, got -0.5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field; empty when the text as a whole is meant.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.violations.iter().enumerate() {
            write!(f, "{}{violation}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

impl std::error::Error for InvalidRequest {}

/// Reads a request from JSON text and says where it is wrong, misspelt fields included:
/// `equilibration[1].time: must be a number >= 0, got -0.5 at line 3 column 12`.
///
/// ```
/// use molbox::workflow::types::JobCreateParams;
///
/// let text = r#"{"temprature": 310, "equilibration": [{"time": 0.1}, {"time": -0.5}]}"#;
/// let error = molbox::from_json::<JobCreateParams>(text).unwrap_err();
/// assert_eq!(error.violations[0].to_string(), "temprature: no such field; did you mean temperature?");
/// assert!(error.violations[1].to_string().starts_with("equilibration[1].time: must be a number >= 0, got -0.5"));
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
        violations.extend(unknown.listed.iter().map(|field| Violation {
            path: field.path(),
            message: field.question().map_or_else(|| NONE.to_owned(), |question| format!("{NONE}; {question}")),
        }));
        if unknown.more > 0 {
            let message = format!("{} more fields that there are not", unknown.more);
            violations.push(Violation { path: String::new(), message });
        }
        violations.extend(allowed::violations(T::SCHEMA, &value));
    }
    match read(text) {
        Ok(value) if violations.is_empty() => return Ok(value),
        Ok(_) => {}
        Err(violation) => violations.push(violation),
    }
    Err(InvalidRequest { violations })
}

const NONE: &str = "no such field";

/// Reads JSON text; what is wrong, and where.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Violation> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        Violation { path, message: error.into_inner().to_string() }
    })?;
    deserializer.end().map_err(|error| Violation { path: String::new(), message: error.to_string() })?;
    Ok(value)
}
