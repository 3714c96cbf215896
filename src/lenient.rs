//! How answers are read: what means the same is read, in whichever form a later service writes it.
//! The generated types of answers name these functions.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::{Map, Value};

/// A whole number, `1` or `1.0`: JSON has no other kind, and some writers know no integers.
struct Whole<T>(T);

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor(PhantomData))
    }
}

struct WholeVisitor<T>(PhantomData<T>);

impl<T: TryFrom<i128>> Visitor<'_> for WholeVisitor<T> {
    type Value = Whole<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Whole<T>, E> {
        T::try_from(value.into())
            .map(Whole)
            .map_err(|_| E::custom(format!("{value} is out of range")))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Whole<T>, E> {
        T::try_from(value.into())
            .map(Whole)
            .map_err(|_| E::custom(format!("{value} is out of range")))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Whole<T>, E> {
        if value.fract() != 0.0 {
            return Err(E::custom(format!("{value} is no integer")));
        }
        // What is too large for an i128 becomes its end, which no field holds.
        T::try_from(value as i128)
            .map(Whole)
            .map_err(|_| E::custom(format!("{value} is out of range")))
    }
}

pub(crate) fn integer<'de, T: TryFrom<i128>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Whole::deserialize(deserializer).map(|whole| whole.0)
}

pub(crate) fn optional_integer<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: TryFrom<i128>,
    D: Deserializer<'de>,
{
    Ok(Option::<Whole<T>>::deserialize(deserializer)?.map(|whole| whole.0))
}

/// Integers by name; a null is none.
pub(crate) fn integers<'de, T, D>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    T: TryFrom<i128>,
    D: Deserializer<'de>,
{
    let integers =
        Option::<BTreeMap<String, Whole<T>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(integers.into_iter().map(|(name, whole)| (name, whole.0)).collect())
}

/// A list; a null is an empty one, as writers have it whose empty lists are null.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Lists of integers; a null is an empty one.
pub(crate) fn integer_lists<'de, T, D>(deserializer: D) -> Result<Vec<Vec<T>>, D::Error>
where
    T: TryFrom<i128>,
    D: Deserializer<'de>,
{
    let lists: Vec<Vec<Whole<T>>> = list(deserializer)?;
    Ok(lists.into_iter().map(|list| list.into_iter().map(|whole| whole.0).collect()).collect())
}

/// An object; a null is an empty one.
pub(crate) fn object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
