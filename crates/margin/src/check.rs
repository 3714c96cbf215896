//! Fields of a request as they came, and what is wrong with them.

use serde_json::Value;

use crate::Date;
use crate::error::{Error, Loc, MAX_COMPLAINTS, Violation};

/// Everything wrong with a request so far.
#[derive(Debug, Default)]
pub(crate) struct Violations(Vec<Violation>);

/// Something wrong with a value, wherever it stands.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    msg: String,
    kind: &'static str,
}

/// Where a field stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Body,
    Settings,
    Portfolio,
    Position(usize),
}

impl Place {
    pub(crate) fn path(self, tail: &[Loc]) -> Vec<Loc> {
        let mut path = vec![Loc::Field("body")];
        match self {
            Self::Body => {}
            Self::Settings => path.push(Loc::Field("settings")),
            Self::Portfolio => path.push(Loc::Field("portfolio")),
            Self::Position(index) => path.extend([Loc::Field("portfolio"), Loc::Field("futures"), Loc::Index(index)]),
        }
        path.extend_from_slice(tail);
        path
    }
}

impl Violations {
    pub(crate) fn add(&mut self, place: Place, tail: &[Loc], fault: Fault) {
        if self.0.len() < MAX_COMPLAINTS {
            self.0.push(Violation { loc: place.path(tail), msg: fault.msg, kind: fault.kind });
        }
    }

    /// What `check` makes of a field; nothing, and a violation, if it finds fault.
    pub(crate) fn field<'v, T>(
        &mut self,
        place: Place,
        name: &'static str,
        fields: &'v Value,
        check: impl FnOnce(&'v Value) -> Result<T, Fault>,
    ) -> Option<T> {
        let value = fields.get(name).unwrap_or(&Value::Null);
        check(value).map_err(|fault| self.add(place, &[name.into()], fault)).ok()
    }

    pub(crate) fn append(&mut self, later: Self) {
        let room = MAX_COMPLAINTS - self.0.len();
        self.0.extend(later.0.into_iter().take(room));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_error(self) -> Error {
        Error::Refused(self.0)
    }
}

impl Fault {
    pub(crate) fn new(kind: &'static str, msg: impl Into<String>) -> Self {
        Self { msg: msg.into(), kind }
    }

    pub(crate) fn missing() -> Self {
        Self::new("value_error.missing", "field required")
    }

    /// The error of a request in which nothing but this can be said, about the whole.
    pub(crate) fn of_body(self) -> Error {
        let mut violations = Violations::default();
        violations.add(Place::Body, &[], self);
        violations.into_error()
    }

    pub(crate) fn number(msg: impl Into<String>) -> Self {
        Self::new("value_error.number", msg)
    }
}

pub(crate) fn required<'v, T>(value: &'v Value, check: impl FnOnce(&'v Value) -> Result<T, Fault>) -> Result<T, Fault> {
    if value.is_null() { Err(Fault::missing()) } else { check(value) }
}

pub(crate) fn optional<T>(value: &Value, check: impl FnOnce(&Value) -> Result<T, Fault>) -> Result<Option<T>, Fault> {
    if value.is_null() { Ok(None) } else { check(value).map(Some) }
}

pub(crate) fn or<T>(default: T, value: &Value, check: impl FnOnce(&Value) -> Result<T, Fault>) -> Result<T, Fault> {
    Ok(optional(value, check)?.unwrap_or(default))
}

pub(crate) fn text(value: &Value) -> Result<&str, Fault> {
    value.as_str().ok_or_else(|| Fault::new("type_error", "must be a string"))
}

/// Whether a text is the word, which is in lower case, but for case and separators.
pub(crate) fn is_word(text: &str, word: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).eq(word.chars())
}

pub(crate) fn date(value: &Value) -> Result<Date, Fault> {
    let not_a_date = |kind| Fault::new(kind, "must be a date YYYY-MM-DD");
    let text = value.as_str().ok_or_else(|| not_a_date("type_error"))?;
    text.parse().map_err(|_| not_a_date("value_error.date"))
}

pub(crate) fn number(value: &Value) -> Result<f64, Fault> {
    let number = value.as_f64().filter(|number| number.is_finite());
    number.ok_or_else(|| Fault::new("type_error", "must be a finite number"))
}

/// A number without a fractional part, 10.0 as well as 10, from 1 to `most`.
pub(crate) fn count(value: &Value, most: u32) -> Result<usize, Fault> {
    let number = number(value)?;
    if number < 1.0 || number > f64::from(most) {
        return Err(Fault::number(format!("must be from 1 to {most}")));
    }
    if number.fract() == 0.0 { Ok(number as usize) } else { Err(Fault::number("must be a whole number")) }
}
