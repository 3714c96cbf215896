//! Words of types as columns hold them.

use super::value::{FromValue, ToValue, Value, text};
use crate::formats::Format;
use crate::record::{FileStatus, Kind, Role, Status};

macro_rules! column {
    ($($name:ident),+) => {$(
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Text(self.name())
            }
        }

        impl FromValue for $name {
            fn from_value(value: Value<'_>) -> Result<Self, String> {
                let word = text(value)?;
                Self::named(word)
                    .ok_or_else(|| format!("{word:?} is none of {}", stringify!($name)))
            }
        }
    )+};
}

column!(FileStatus, Format, Kind, Role, Status);

/// A list of SQL of the words of states. They are part of a statement where an index is of some of
/// them alone, which is not used for values that are bound.
pub(super) fn list(states: &[Status]) -> String {
    let words: Vec<String> = states.iter().map(|state| format!("'{state}'")).collect();
    format!("({})", words.join(", "))
}

/// The condition of a task that has not ended.
pub(super) fn is_open() -> String {
    format!("status in {}", list(&[Status::Queued, Status::Running]))
}

/// The condition of one that has.
pub(super) fn has_ended() -> String {
    format!("status in {}", list(&[Status::Succeeded, Status::Failed, Status::Cancelled]))
}
