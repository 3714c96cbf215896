//! JSON and YAML, and JSON that somebody else has parsed.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::position::Positions;
use crate::check::Place;
use crate::model::MAX_DATES;
use crate::schema::Part;

/// Reads what the schema knows of a value, each key at most once. Positions go to `positions` one
/// by one and leave an empty array behind, of portfolios only whether there are any is kept, and of
/// a list or an object where there should be none only that: a value takes no more memory than its
/// part of the document.
#[derive(Debug)]
pub(crate) struct Tree<'p, 's> {
    pub(crate) part: Part,
    pub(crate) positions: &'p mut Positions<'s>,
}

impl Tree<'_, '_> {
    /// Where the fields of an object stand; none when there should be no object.
    fn place(&self) -> Option<Place> {
        match self.part {
            Part::Job | Part::Document => Some(Place::Body),
            Part::Settings => Some(Place::Settings),
            Part::Portfolio => Some(Place::Portfolio),
            Part::Position => Some(Place::Position(self.positions.n_read)),
            Part::Portfolios
            | Part::Futures
            | Part::Dates
            | Part::Text
            | Part::Number
            | Part::Flag => None,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        match self.part {
            Part::Portfolios => {
                while elements.next_element::<IgnoredAny>()?.is_some() {
                    // Whether there are any is all that matters.
                    if kept.is_empty() {
                        kept.push(Value::Null);
                    }
                }
            }
            Part::Futures => {
                while let Some(position) = elements
                    .next_element_seed(Tree { part: Part::Position, positions: self.positions })?
                {
                    self.positions.push(&position);
                }
            }
            Part::Dates => {
                while let Some(date) = elements
                    .next_element_seed(Tree { part: Part::Text, positions: self.positions })?
                {
                    // One more than are allowed is enough to be refused.
                    if kept.len() <= MAX_DATES {
                        kept.push(date);
                    }
                }
            }
            _ => while elements.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let Some((name, part)) = self.part.field(&name) else {
                fields.next_value::<IgnoredAny>()?;
                if let Some(place) = self.place() {
                    self.positions.unknown.add(place, &[], &name);
                }
                continue;
            };
            let value = fields.next_value_seed(Tree { part, positions: self.positions })?;
            if map.insert(name.to_owned(), value).is_some() {
                return Err(A::Error::custom(format_args!("{name} is given twice")));
            }
        }
        Ok(map.into())
    }
}
