//! Reading JSON with the errors that FastAPI gives: the message of CPython's parser and the
//! place in characters. No crate reports these, and clients of the interface know them.
//!
//! Accepted is what CPython accepts: NaN and the infinities, any number, lone surrogates (as
//! U+FFFD), the last of repeated members. What the document does not allow of it is refused
//! later, with its path.

use std::collections::HashMap;

use molbox::workflow::types::LocItem;

use crate::hex;

/// A JSON value with its numbers as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number without fraction and exponent, as its digits.
    Int(String),
    Float(f64),
    Str(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Why a body is not JSON.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// Not UTF-8, nested too deeply, or a number of too many digits.
    Unreadable,
    /// More values than are read.
    TooMany,
    /// Not JSON: what CPython says, and at which character.
    Syntax { message: &'static str, at: usize },
}

const MAX_DEPTH: usize = 200;
const MAX_DIGITS: usize = 4300;

/// Parses a whole body of at most so many values.
pub(crate) fn parse(body: &[u8], max_values: usize) -> Result<Json, JsonError> {
    let text = std::str::from_utf8(body).map_err(|_| JsonError::Unreadable)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser { text: text.as_bytes(), depth: 0, values_left: max_values };
    let start = parser.space(0);
    parser
        .value(start)
        .and_then(|(value, end)| {
            let end = parser.space(end);
            if end == text.len() { Ok(value) } else { Err(Fail::At("Extra data", end)) }
        })
        .map_err(|fail| match fail {
            Fail::Unreadable => JsonError::Unreadable,
            Fail::TooMany => JsonError::TooMany,
            Fail::At(message, byte) => {
                JsonError::Syntax { message, at: text[..byte].chars().count() }
            }
        })
}

/// What went wrong, at which byte.
enum Fail {
    Unreadable,
    TooMany,
    At(&'static str, usize),
}

type Parsed<T> = Result<(T, usize), Fail>;

struct Parser<'a> {
    text: &'a [u8],
    depth: usize,
    values_left: usize,
}

impl Parser<'_> {
    fn at(&self, i: usize) -> Option<u8> {
        self.text.get(i).copied()
    }

    fn space(&self, mut i: usize) -> usize {
        while matches!(self.at(i), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            i += 1;
        }
        i
    }

    fn value(&mut self, i: usize) -> Parsed<Json> {
        const WORDS: [(&[u8], Json); 6] = [
            (b"null", Json::Null),
            (b"true", Json::Bool(true)),
            (b"false", Json::Bool(false)),
            (b"NaN", Json::Float(f64::NAN)),
            (b"Infinity", Json::Float(f64::INFINITY)),
            (b"-Infinity", Json::Float(f64::NEG_INFINITY)),
        ];
        self.values_left = self.values_left.checked_sub(1).ok_or(Fail::TooMany)?;
        match self.at(i) {
            Some(b'"') => self.string(i + 1).map(|(text, end)| (Json::Str(text), end)),
            Some(open @ (b'{' | b'[')) => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(Fail::Unreadable);
                }
                let result = if open == b'{' { self.object(i + 1) } else { self.array(i + 1) };
                self.depth -= 1;
                result
            }
            _ => match WORDS
                .iter()
                .find(|(word, _)| self.text[i.min(self.text.len())..].starts_with(word))
            {
                Some((word, value)) => Ok((value.clone(), i + word.len())),
                None => self.number(i),
            },
        }
    }

    fn number(&self, start: usize) -> Parsed<Json> {
        let first = start + usize::from(self.at(start) == Some(b'-'));
        let mut end = if self.at(first) == Some(b'0') { first + 1 } else { self.digits(first) };
        if end == first {
            return Err(Fail::At("Expecting value", start));
        }
        if end - first > MAX_DIGITS {
            return Err(Fail::Unreadable);
        }
        let mut is_float = false;
        if self.at(end) == Some(b'.') && self.digits(end + 1) > end + 1 {
            end = self.digits(end + 1);
            is_float = true;
        }
        if matches!(self.at(end), Some(b'e' | b'E')) {
            let exponent = end + 1 + usize::from(matches!(self.at(end + 1), Some(b'+' | b'-')));
            if self.digits(exponent) > exponent {
                end = self.digits(exponent);
                is_float = true;
            }
        }
        let text = std::str::from_utf8(&self.text[start..end]).expect("digits and signs");
        let value = if is_float {
            Json::Float(text.parse().expect("a number by its grammar"))
        } else {
            Json::Int(if text == "-0" { "0".to_owned() } else { text.to_owned() })
        };
        Ok((value, end))
    }

    /// Where digits that begin here end.
    fn digits(&self, begin: usize) -> usize {
        let mut end = begin;
        while matches!(self.at(end), Some(b'0'..=b'9')) {
            end += 1;
        }
        end
    }

    /// The string that begins before `begin`.
    fn string(&self, begin: usize) -> Parsed<String> {
        let unterminated = Fail::At("Unterminated string starting at", begin - 1);
        let mut out = Vec::new();
        let mut i = begin;
        loop {
            let plain = self.text[i.min(self.text.len())..]
                .iter()
                .take_while(|byte| **byte != b'"' && **byte != b'\\' && **byte > 0x1f)
                .count();
            out.extend_from_slice(&self.text[i.min(self.text.len())..][..plain]);
            i += plain;
            match self.at(i) {
                None => return Err(unterminated),
                Some(b'"') => return Ok((String::from_utf8(out).expect("pieces of UTF-8"), i + 1)),
                Some(b'\\') => {
                    let Some(escape) = self.at(i + 1) else { return Err(unterminated) };
                    let plain = match escape {
                        b'"' | b'\\' | b'/' => escape,
                        b'b' => 0x08,
                        b'f' => 0x0c,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'u' => {
                            let (character, end) = self.unicode(i)?;
                            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                            i = end;
                            continue;
                        }
                        _ => return Err(Fail::At("Invalid \\escape", i)),
                    };
                    out.push(plain);
                    i += 2;
                }
                Some(_) => return Err(Fail::At("Invalid control character at", i)),
            }
        }
    }

    /// The `\uXXXX` at `i`, or the pair of them that make one character.
    fn unicode(&self, i: usize) -> Parsed<char> {
        let high = self.hex(i + 2).ok_or(Fail::At("Invalid \\uXXXX escape", i + 1))?;
        let low = if self.at(i + 6) == Some(b'\\') && self.at(i + 7) == Some(b'u') {
            self.hex(i + 8)
        } else {
            None
        };
        if let (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) = (high, low) {
            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return Ok((char::from_u32(code).expect("a pair of surrogates"), i + 12));
        }
        Ok((char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), i + 6))
    }

    fn hex(&self, i: usize) -> Option<u32> {
        let digits = self.text.get(i..i + 4)?;
        digits.iter().try_fold(0, |value, digit| Some(value * 16 + u32::from(hex::digit(*digit)?)))
    }

    fn object(&mut self, i: usize) -> Parsed<Json> {
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut i = self.space(i);
        if self.at(i) == Some(b'}') {
            return Ok((Json::Object(members), i + 1));
        }
        loop {
            if self.at(i) != Some(b'"') {
                return Err(Fail::At("Expecting property name enclosed in double quotes", i));
            }
            let (key, end) = self.string(i + 1)?;
            i = self.space(end);
            if self.at(i) != Some(b':') {
                return Err(Fail::At("Expecting ':' delimiter", i));
            }
            let start = self.space(i + 1);
            let (value, end) = self.value(start)?;
            members.push((key, value));
            i = self.space(end);
            match self.at(i) {
                Some(b'}') => return Ok((Json::Object(members), i + 1)),
                Some(b',') => i = self.space(i + 1),
                _ => return Err(Fail::At("Expecting ',' delimiter", i)),
            }
        }
    }

    fn array(&mut self, i: usize) -> Parsed<Json> {
        let mut items = Vec::new();
        let mut i = self.space(i);
        if self.at(i) == Some(b']') {
            return Ok((Json::Array(items), i + 1));
        }
        loop {
            let (value, end) = self.value(i)?;
            items.push(value);
            i = self.space(end);
            match self.at(i) {
                Some(b']') => return Ok((Json::Array(items), i + 1)),
                Some(b',') => i = self.space(i + 1),
                _ => return Err(Fail::At("Expecting ',' delimiter", i)),
            }
        }
    }
}

impl Json {
    /// Places of members that are there more than once in one object, each once, `at_most` so many.
    pub(crate) fn repeated(&self, at_most: usize) -> Vec<Vec<LocItem>> {
        let mut found = Vec::new();
        self.look_for_repeated(&mut Vec::new(), at_most, &mut found);
        found
    }

    fn look_for_repeated(
        &self,
        at: &mut Vec<LocItem>,
        at_most: usize,
        found: &mut Vec<Vec<LocItem>>,
    ) {
        match self {
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    at.push(LocItem::Int64(index as i64));
                    item.look_for_repeated(at, at_most, found);
                    at.pop();
                }
            }
            Self::Object(members) => {
                let mut times = HashMap::new();
                for (name, value) in members {
                    at.push(LocItem::String(name.clone()));
                    let times = times.entry(name).or_insert(0);
                    *times += 1;
                    if *times == 2 && found.len() < at_most {
                        found.push(at.clone());
                    }
                    value.look_for_repeated(at, at_most, found);
                    at.pop();
                }
            }
            _ => {}
        }
    }

    /// The same value in serde's form. A number that JSON cannot hold becomes null; the
    /// document's own check has refused it wherever it means something.
    pub(crate) fn into_serde(self) -> serde_json::Value {
        use serde_json::{Number, Value};
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(digits) => match digits.parse::<i64>() {
                Ok(value) => Value::from(value),
                Err(_) => digits
                    .parse::<f64>()
                    .ok()
                    .and_then(Number::from_f64)
                    .map_or(Value::Null, Value::Number),
            },
            Self::Float(value) => Number::from_f64(value).map_or(Value::Null, Value::Number),
            Self::Str(text) => Value::String(text),
            Self::Array(items) => items.into_iter().map(Self::into_serde).collect(),
            Self::Object(members) => Value::Object(
                members.into_iter().map(|(key, value)| (key, value.into_serde())).collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written() {
        let text = r#" {"a": [1, -0, 2.5e3, "x\u00e9\ud83d\ude00\n", true, null], "a": {}} "#;
        let Json::Object(members) = parse(text.as_bytes(), usize::MAX).unwrap() else {
            panic!("no object")
        };
        let expected = vec![
            Json::Int("1".to_owned()),
            Json::Int("0".to_owned()),
            Json::Float(2500.0),
            Json::Str("xé😀\n".to_owned()),
            Json::Bool(true),
            Json::Null,
        ];
        assert_eq!(members[0].1, Json::Array(expected));
        assert_eq!(
            Json::Object(members).into_serde(),
            serde_json::json!({"a": {}}),
            "the last of two members counts"
        );
    }

    #[test]
    fn places_are_counted_in_characters() {
        let error = parse("{\"é\": nul}".as_bytes(), usize::MAX).unwrap_err();
        assert_eq!(error, JsonError::Syntax { message: "Expecting value", at: 6 });
    }

    #[test]
    fn depth_and_digits_are_bounded() {
        assert_eq!(parse("[".repeat(100_000).as_bytes(), usize::MAX), Err(JsonError::Unreadable));
        assert_eq!(parse("9".repeat(5000).as_bytes(), usize::MAX), Err(JsonError::Unreadable));
        assert_eq!(parse(b"\xff", usize::MAX), Err(JsonError::Unreadable));
        assert_eq!(parse(b"[1, {}]", 2), Err(JsonError::TooMany));
        assert!(parse(b"[1, {}]", 3).is_ok());
    }
}
