//! Values of request fields: what a builder's setter takes, and how it says what is wrong.

use std::fmt::Display;
use std::num::NonZeroU64;

use crate::InvalidRequest;

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
    /// [`InvalidRequest`] when the document does not allow the value.
    fn into_field(self) -> Result<T, InvalidRequest>;
}

impl<T> Field<T> for T {
    fn into_field(self) -> Result<T, InvalidRequest> {
        Ok(self)
    }
}

impl<T> Field<Option<T>> for T {
    fn into_field(self) -> Result<Option<T>, InvalidRequest> {
        Ok(Some(self))
    }
}

impl<T, const N: usize> Field<Vec<T>> for [T; N] {
    fn into_field(self) -> Result<Vec<T>, InvalidRequest> {
        Ok(self.into())
    }
}

impl<T, const N: usize> Field<Option<Vec<T>>> for [T; N] {
    fn into_field(self) -> Result<Option<Vec<T>>, InvalidRequest> {
        Ok(Some(self.into()))
    }
}

impl<const N: usize> Field<Vec<String>> for [&str; N] {
    fn into_field(self) -> Result<Vec<String>, InvalidRequest> {
        Ok(self.map(str::to_owned).into())
    }
}

/// `Field` of `$to`, bare and optional, from values that convert with certainty or with a check.
macro_rules! from {
    ($to:ty: $($from:ty),+; |$value:ident| $make:expr) => {
        $(
            impl $crate::Field<$to> for $from {
                fn into_field(self) -> Result<$to, $crate::InvalidRequest> {
                    let $value = self;
                    $make
                }
            }
            impl $crate::Field<Option<$to>> for $from {
                fn into_field(self) -> Result<Option<$to>, $crate::InvalidRequest> {
                    $crate::Field::<$to>::into_field(self).map(Some)
                }
            }
        )+
    };
}
pub(crate) use from;

from!(String: &str, &String; |value| Ok(value.to_owned()));
// Whole numbers without a suffix are i32.
from!(u64: i32, i64; |value| {
    value.try_into().map_err(|_| too_low(0, value))
});
from!(u64: u32, usize; |value| Ok(value as u64));
from!(i64: i32, u32; |value| Ok(value.into()));
from!(NonZeroU64: i32, u32, u64; |value| {
    // i128 has every value of the three types, so the cast loses nothing.
    let number = u64::try_from(value as i128).ok().and_then(NonZeroU64::new);
    number.ok_or_else(|| too_low(1, value))
});

fn too_low(least: u64, value: impl Display) -> InvalidRequest {
    let message = format!("must be an integer >= {least}, got {value}");
    InvalidRequest::new("greater_than_equal", message).limit("ge", least)
}

/// Strings with a pattern or a length, and enumerations: parsed from text.
macro_rules! parsed {
    ($($name:ident),* $(,)?) => {
        $(
            $crate::field::from!($name: &str, &String, String; |value| {
                value.parse()
            });
            impl $crate::Field<$name> for &$name {
                fn into_field(self) -> Result<$name, $crate::InvalidRequest> {
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
                value.try_into()
            });
            impl<const N: usize> $crate::Field<Option<Vec<$name>>> for [builder::$name; N] {
                fn into_field(self) -> Result<Option<Vec<$name>>, $crate::InvalidRequest> {
                    Vec::from(self).into_field()
                }
            }
            impl<const N: usize> $crate::Field<Vec<$name>> for [builder::$name; N] {
                fn into_field(self) -> Result<Vec<$name>, $crate::InvalidRequest> {
                    Vec::from(self).into_field()
                }
            }
            $crate::field::from!(Vec<$name>: Vec<builder::$name>; |value| {
                let built = value.into_iter().enumerate();
                built.map(|(index, item)| $crate::Field::<$name>::into_field(item).map_err(|e| e.within(index as i64))).collect()
            });
            impl $crate::Field<builder::$name> for $name {
                fn into_field(self) -> Result<builder::$name, $crate::InvalidRequest> {
                    Ok(self.into())
                }
            }
        )*
    };
}
pub(crate) use built;
