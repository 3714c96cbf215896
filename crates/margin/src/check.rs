//! Fields of a request as they came, and what is wrong with them.

use serde_json::Value;

use crate::Date;
use crate::error::{Error, Loc, MAX_LISTED, Violation};

/// Everything wrong with a request so far.
#[derive(Debug, Default)]
pub(crate) struct Violations(Vec<Violation>);

/// Something wrong with a value, wherever it stands.
#[derive(Clone, Debug)]
pub(crate) struct ValueError {
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
            Self::Position(index) => {
                path.extend([Loc::Field("portfolio"), Loc::Field("futures"), Loc::Index(index)])
            }
        }
        path.extend_from_slice(tail);
        path
    }
}

impl Violations {
    pub(crate) fn add(&mut self, place: Place, tail: &[Loc], error: ValueError) {
        if self.0.len() < MAX_LISTED {
            self.0.push(Violation { loc: place.path(tail), msg: error.msg, kind: error.kind });
        }
    }

    /// What `check` makes of a field; nothing, and a violation, if it gives an error.
    pub(crate) fn field<'v, T>(
        &mut self,
        place: Place,
        name: &'static str,
        fields: &'v Value,
        check: impl FnOnce(&'v Value) -> Result<T, ValueError>,
    ) -> Option<T> {
        let value = fields.get(name).unwrap_or(&Value::Null);
        check(value).map_err(|error| self.add(place, &[name.into()], error)).ok()
    }

    pub(crate) fn append(&mut self, later: Self) {
        let room = MAX_LISTED - self.0.len();
        self.0.extend(later.0.into_iter().take(room));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_error(self) -> Error {
        Error::Refused(self.0)
    }
}

impl ValueError {
    pub(crate) fn new(kind: &'static str, msg: impl Into<String>) -> Self {
        Self { msg: msg.into(), kind }
    }

    pub(crate) fn missing() -> Self {
        Self::new("value_error.missing", "field required")
    }

    /// The error of a request as a whole, in which nothing else can be checked.
    pub(crate) fn of_body(self) -> Error {
        let mut violations = Violations::default();
        violations.add(Place::Body, &[], self);
        violations.into_error()
    }

    pub(crate) fn number(msg: impl Into<String>) -> Self {
        Self::new("value_error.number", msg)
    }
}

pub(crate) fn required<'v, T>(
    value: &'v Value,
    check: impl FnOnce(&'v Value) -> Result<T, ValueError>,
) -> Result<T, ValueError> {
    if value.is_null() { Err(ValueError::missing()) } else { check(value) }
}

pub(crate) fn optional<'v, T>(
    value: &'v Value,
    check: impl FnOnce(&'v Value) -> Result<T, ValueError>,
) -> Result<Option<T>, ValueError> {
    if value.is_null() { Ok(None) } else { check(value).map(Some) }
}

pub(crate) fn or<T>(
    default: T,
    value: &Value,
    check: impl FnOnce(&Value) -> Result<T, ValueError>,
) -> Result<T, ValueError> {
    Ok(optional(value, check)?.unwrap_or(default))
}

pub(crate) fn text(value: &Value) -> Result<&str, ValueError> {
    value.as_str().ok_or_else(|| ValueError::new("type_error", "must be a string"))
}

/// Whether a text is the word, which is in lower case, but for case and separators.
pub(crate) fn is_word(text: &str, word: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).eq(word.chars())
}

pub(crate) fn date(value: &Value) -> Result<Date, ValueError> {
    let text = value.as_str().ok_or_else(|| not_a_date("type_error"))?;
    text.parse().map_err(|_| not_a_date("value_error.date"))
}

pub(crate) fn number(value: &Value) -> Result<f64, ValueError> {
    let number = value.as_f64().filter(|number| number.is_finite());
    number.ok_or_else(|| ValueError::new("type_error", "must be a finite number"))
}

pub(crate) fn flag(value: &Value) -> Result<bool, ValueError> {
    value.as_bool().ok_or_else(|| ValueError::new("type_error", "must be true or false"))
}

/// A number from `least` to `most`.
pub(crate) fn within(value: &Value, least: f64, most: f64) -> Result<f64, ValueError> {
    let number = number(value)?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(ValueError::number(format!("must be from {least} to {most}")))
    }
}

/// A number without a fractional part, 10.0 as well as 10, from 1 to `most`.
pub(crate) fn count(value: &Value, most: u32) -> Result<usize, ValueError> {
    let number = number(value)?;
    if number < 1.0 || number > f64::from(most) {
        return Err(ValueError::number(format!("must be from 1 to {most}")));
    }
    if number.fract() == 0.0 {
        Ok(number as usize)
    } else {
        Err(ValueError::number("must be a whole number"))
    }
}

fn not_a_date(kind: &'static str) -> ValueError {
    ValueError::new(kind, "must be a date YYYY-MM-DD")
}
