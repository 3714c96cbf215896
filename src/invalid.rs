//! What is wrong with a request, in the words of the service's own refusals.

use std::fmt;

use serde_json::{Map, Value};

use crate::unknown;
use crate::workflow::types::{LocItem, ValidationError};

/// A value or a request that the document does not allow: everything that was found.
///
/// Reads like its violations, one after the other, with semicolons between.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidRequest {
    /// What is wrong, as the service would answer it; not empty. `loc` begins with `body`, `path`,
    /// `query` or `header` when an operation was called, with the field when a value was read or
    /// built.
    pub violations: Vec<ValidationError>,
}

impl InvalidRequest {
    pub(crate) fn new(kind: &str, message: impl fmt::Display) -> Self {
        let violation = ValidationError {
            loc: Vec::new(),
            msg: message.to_string(),
            type_: kind.to_owned(),
            input: None,
            ctx: Map::new(),
            extra: Map::new(),
        };
        Self { violations: vec![violation] }
    }

    /// With name and value of the limit that was broken.
    pub(crate) fn limit(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        for violation in &mut self.violations {
            violation.ctx.insert(name.to_owned(), value.clone());
        }
        self
    }

    pub(crate) fn missing() -> Self {
        Self::new("missing", "required, but not given")
    }

    /// A text that is none of those that are allowed.
    pub(crate) fn one_of(values: &[&str], text: &str) -> Self {
        let message = format!("must be one of {}, got {text:?}", values.join(", "));
        Self::new("enum", message).limit("expected", values.to_vec())
    }

    /// The same of what contains the value: its place begins with this step.
    pub(crate) fn within(mut self, step: impl Into<LocItem>) -> Self {
        let step = step.into();
        for violation in &mut self.violations {
            violation.loc.insert(0, step.clone());
        }
        self
    }

    /// Nothing, or all of these together.
    pub(crate) fn all<'a>(errors: impl IntoIterator<Item = Option<&'a Self>>) -> Result<(), Self> {
        let violations: Vec<ValidationError> = errors
            .into_iter()
            .flatten()
            .flat_map(|error| error.violations.iter().cloned())
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(Self { violations }) }
    }
}

impl From<&str> for LocItem {
    fn from(name: &str) -> Self {
        Self::String(name.to_owned())
    }
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.violations.iter().enumerate() {
            write!(f, "{}{violation}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidRequest {}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        if path.is_empty() { f.write_str(&self.msg) } else { write!(f, "{path}: {}", self.msg) }
    }
}

impl ValidationError {
    /// Path of what was refused, `equilibration[1].time`; of anything but the body with its place
    /// in front, `header x-api-key`.
    pub fn path(&self) -> String {
        use LocItem::String as Name;
        let mut loc = self.loc.as_slice();
        let mut path = String::new();
        match loc {
            [Name(place), rest @ ..] if place == "body" && !rest.is_empty() => loc = rest,
            [Name(place), rest @ ..] if ["path", "query", "header"].contains(&place.as_str()) => {
                path.push_str(place);
                path.push(' ');
                loc = rest;
            }
            _ => {}
        }
        path.push_str(&unknown::path(loc));
        path
    }
}
