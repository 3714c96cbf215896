//! What statements are given and columns hold, in types that any database has.

use jiff::Timestamp;

/// A value, borrowed from what is written or from the row that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// The same of its own, of any column.
#[derive(Debug)]
pub(super) enum Any {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Value<'_>> for Any {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int(number) => Self::Int(number),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_owned()),
        }
    }
}

impl FromValue for Any {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        Ok(value.into())
    }
}

impl ToValue for Any {
    fn to_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::Int(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// What a statement can be given.
pub(super) trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

/// What a column can be read as.
pub(super) trait FromValue: Sized {
    /// # Errors
    ///
    /// What is wrong with the value, after the name of its column.
    fn from_value(value: Value<'_>) -> Result<Self, String>;
}

/// The values of a statement, `?1` first.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::db::value::ToValue::to_value(&$value)),*]
    };
}
pub(super) use values;

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
}

impl ToValue for i64 {
    fn to_value(&self) -> Value<'_> {
        Value::Int(*self)
    }
}

/// In microseconds since 1970.
impl ToValue for Timestamp {
    fn to_value(&self) -> Value<'_> {
        Value::Int(self.as_microsecond())
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for [u8; 32] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        if value == Value::Null { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

impl FromValue for i64 {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match value {
            Value::Int(number) => Ok(number),
            other => Err(format!("is no number: {other:?}")),
        }
    }
}

impl FromValue for Timestamp {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        i64::from_value(value)
            .and_then(|number| Self::from_microsecond(number).map_err(|error| error.to_string()))
    }
}

/// Kept as 0 and 1.
impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl FromValue for String {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        text(value).map(str::to_owned)
    }
}

impl FromValue for [u8; 32] {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match value {
            Value::Bytes(bytes) => bytes.try_into().map_err(|_| "is no digest".to_owned()),
            _ => Err("is no digest".to_owned()),
        }
    }
}

pub(super) fn text(value: Value<'_>) -> Result<&str, String> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(format!("is no text: {other:?}")),
    }
}
