//! Numbers that cannot be out of range: the build script puts them in the place of `f64`
//! wherever the document has a number.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use crate::{InvalidRequest, field};

/// A number that the document does not allow.
///
/// Reads `must be a number >= 0, got -0.5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfRange {
    value: f64,
    rule: &'static str,
    /// Kind of the violation, and name of the limit, which is 0.
    limit: Option<(&'static str, &'static str)>,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be {}, got {}", self.rule, self.value)
    }
}

impl std::error::Error for OutOfRange {}

impl From<OutOfRange> for InvalidRequest {
    fn from(error: OutOfRange) -> Self {
        match error.limit.filter(|_| error.value.is_finite()) {
            Some((kind, name)) => Self::new(kind, error).limit(name, 0),
            None => Self::new("finite_number", error),
        }
    }
}

macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident, $rule:literal, $limit:expr, |$value:ident| $holds:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            /// The number, if it is allowed.
            ///
            /// # Errors
            ///
            /// [`OutOfRange`] otherwise, and for NaN and the infinities.
            pub fn new($value: f64) -> Result<Self, OutOfRange> {
                if $value.is_finite() && $holds {
                    Ok(Self($value))
                } else {
                    Err(OutOfRange { value: $value, rule: $rule, limit: $limit })
                }
            }

            /// The number itself.
            pub fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = OutOfRange;

            fn try_from(value: f64) -> Result<Self, OutOfRange> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let value: f64 = text.parse().map_err(|_| format!("must be {}, got {text:?}", $rule))?;
                Self::new(value).map_err(|e| e.to_string())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(f64::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        field::from!($name: f64, f32, i32, i64, u32, u64, usize; |value| {
            $name::new(value as f64).map_err(InvalidRequest::from)
        });
    };
}

bounded!(
    /// A finite number that is zero or more.
    NonNegative, "a number >= 0", Some(("greater_than_equal", "ge")), |value| value >= 0.0
);
bounded!(
    /// A finite number above zero.
    Positive, "a number > 0", Some(("greater_than", "gt")), |value| value > 0.0
);
bounded!(
    /// A finite number.
    Finite, "a finite number", None, |_value| true
);
