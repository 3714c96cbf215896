//! On which line of a YAML file something stands.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The line of each place, by JSON pointer.
pub struct Lines(BTreeMap<String, u64>);

impl Lines {
    pub fn read(text: &str) -> Result<Self> {
        let node: Node = serde_saphyr::from_str(text)?;
        let mut lines = BTreeMap::new();
        node.put_into(&mut lines, String::new());
        Ok(Self(lines))
    }

    /// The line of a place, or of the nearest that it lies in.
    pub fn of(&self, pointer: &str) -> u64 {
        let mut at = pointer;
        loop {
            if let Some(line) = self.0.get(at) {
                return *line;
            }
            match at.rsplit_once('/') {
                Some((parent, _)) => at = parent,
                None => return 1,
            }
        }
    }
}

/// A value with the lines of its parts.
enum Node {
    Scalar,
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Node)>),
}

impl Node {
    fn put_into(self, lines: &mut BTreeMap<String, u64>, at: String) {
        match self {
            Self::Scalar => {}
            Self::List(items) => {
                for (index, item) in items.into_iter().enumerate() {
                    let at = format!("{at}/{index}");
                    lines.insert(at.clone(), item.referenced.line());
                    item.value.put_into(lines, at);
                }
            }
            Self::Map(entries) => {
                for (key, value) in entries {
                    let at = format!("{at}/{}", key.value.replace('~', "~0").replace('/', "~1"));
                    lines.insert(at.clone(), key.referenced.line());
                    value.put_into(lines, at);
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_str<E>(self, _: &str) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
                IgnoredAny::deserialize(deserializer).map(|_| Node::Scalar)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = access.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = access.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Map(entries))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn a_place_has_the_line_of_its_key() {
        let lines =
            Lines::read("a: 1\nb:\n  c/d: [x, y]\n  e:\n    - f: true\n      g: ~\n").unwrap();
        let places = [
            "/a",
            "/b",
            "/b/c~1d",
            "/b/c~1d/1",
            "/b/e/0/f",
            "/b/e/0/g",
            "/b/e/0/g/h",
            "/nowhere",
            "",
        ];
        assert_eq!(places.map(|place| lines.of(place)), [1, 2, 3, 3, 5, 6, 6, 1, 1]);
    }
}
