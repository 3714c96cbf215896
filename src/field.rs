//! Values of request fields: what a builder's setter takes, and how it says what is wrong.

use std::fmt;
use std::num::NonZeroU64;

/// Why a value is not allowed in a field of a request.
///
/// Reads `equilibration[1].time: must be a number >= 0, got -0.5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// `[1].time: must be …`, or `: must be …` when the value itself is meant.
    rest: String,
}

impl FieldError {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { rest: format!(": {message}") }
    }

    /// An error that a builder inside of this one has kept, path first.
    pub(crate) fn nested(text: impl fmt::Display) -> Self {
        Self { rest: format!(".{text}") }
    }

    pub(crate) fn element(self, index: usize) -> Self {
        Self { rest: format!("[{index}]{}", self.rest) }
    }

    /// The whole text, for the field `name`.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{name}{}", self.rest)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rest.trim_start_matches([':', ' ', '.']))
    }
}

impl std::error::Error for FieldError {}

/// A value that a field of type `T` can be set from.
///
/// A field takes its own type; an optional one the type without `Option`; a bounded number any
/// number, which is checked; a checked string or an enumeration a `&str`, which is parsed; a
/// struct its builder; a list an array, also of builders.
pub trait Field<T> {
    /// The field's value.
    ///
    /// # Errors
    ///
    /// [`FieldError`] when the document does not allow the value.
    fn into_field(self) -> Result<T, FieldError>;
}

impl<T> Field<T> for T {
    fn into_field(self) -> Result<T, FieldError> {
        Ok(self)
    }
}

impl<T> Field<Option<T>> for T {
    fn into_field(self) -> Result<Option<T>, FieldError> {
        Ok(Some(self))
    }
}

impl<T, const N: usize> Field<Vec<T>> for [T; N] {
    fn into_field(self) -> Result<Vec<T>, FieldError> {
        Ok(self.into())
    }
}

impl<T, const N: usize> Field<Option<Vec<T>>> for [T; N] {
    fn into_field(self) -> Result<Option<Vec<T>>, FieldError> {
        Ok(Some(self.into()))
    }
}

impl<const N: usize> Field<Vec<String>> for [&str; N] {
    fn into_field(self) -> Result<Vec<String>, FieldError> {
        Ok(self.map(str::to_owned).into())
    }
}

/// `Field` of `$to`, bare and optional, from values that convert with certainty or with a check.
macro_rules! from {
    ($to:ty: $($from:ty),+; |$value:ident| $make:expr) => {
        $(
            impl $crate::Field<$to> for $from {
                fn into_field(self) -> Result<$to, $crate::FieldError> {
                    let $value = self;
                    $make
                }
            }
            impl $crate::Field<Option<$to>> for $from {
                fn into_field(self) -> Result<Option<$to>, $crate::FieldError> {
                    $crate::Field::<$to>::into_field(self).map(Some)
                }
            }
        )+
    };
}
pub(crate) use from;

from!(String: &str, &String; |value| Ok(value.to_owned()));
// Whole numbers without a suffix are i32.
from!(u64: i32, i64; |value| value.try_into().map_err(|_| FieldError::new(format!("must be an integer >= 0, got {value}"))));
from!(u64: u32, usize; |value| Ok(value as u64));
from!(i64: i32, u32; |value| Ok(value.into()));
from!(NonZeroU64: i32, u32, u64; |value| {
    let number = u64::try_from(value as i128).ok().and_then(NonZeroU64::new);
    number.ok_or_else(|| FieldError::new(format!("must be an integer >= 1, got {value}")))
});

/// Strings with a pattern or a length, and enumerations: parsed from text.
macro_rules! parsed {
    ($($name:ident),* $(,)?) => {
        $(
            $crate::field::from!($name: &str, &String, String; |value| {
                value.parse().map_err($crate::FieldError::new)
            });
            impl $crate::Field<$name> for &$name {
                fn into_field(self) -> Result<$name, $crate::FieldError> {
                    Ok(self.clone())
                }
            }
        )*
    };
}
pub(crate) use parsed;

/// Structs with a builder: set from it, alone or in a list.
macro_rules! built {
    ($($name:ident),* $(,)?) => {
        $(
            $crate::field::from!($name: builder::$name; |value| {
                value.try_into().map_err($crate::FieldError::nested)
            });
            impl<const N: usize> $crate::Field<Option<Vec<$name>>> for [builder::$name; N] {
                fn into_field(self) -> Result<Option<Vec<$name>>, $crate::FieldError> {
                    Vec::from(self).into_field()
                }
            }
            impl<const N: usize> $crate::Field<Vec<$name>> for [builder::$name; N] {
                fn into_field(self) -> Result<Vec<$name>, $crate::FieldError> {
                    Vec::from(self).into_field()
                }
            }
            $crate::field::from!(Vec<$name>: Vec<builder::$name>; |value| {
                let built = value.into_iter().enumerate();
                built.map(|(index, item)| $crate::Field::<$name>::into_field(item).map_err(|e| e.element(index))).collect()
            });
            impl $crate::Field<builder::$name> for $name {
                fn into_field(self) -> Result<builder::$name, $crate::FieldError> {
                    Ok(self.into())
                }
            }
        )*
    };
}
pub(crate) use built;
