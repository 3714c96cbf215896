//! Portfolios: positions in futures, written in five formats.
//!
//! Every reader hands over one position after another, its fields as they came, and all are checked
//! in one place, so that the same mistake is the same violation in every format.

mod csv;
mod fpml;
mod position;
mod tree;
mod xml;

use serde::de::DeserializeSeed as _;
use serde_json::Value;

use crate::check::ValueError;
use crate::schema::Part;

pub(crate) use position::{Lines, Position, Positions, unreadable};
pub use position::{MAX_POSITIONS, Side};
pub(crate) use tree::Tree;

/// A document larger than this, 64 MiB, is refused.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// Notations of a portfolio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFormat {
    /// Trades in futures of an `FpML` 5 document, any view.
    Fpml,
    /// Lines under a header `ticker,type,quantity[,entryDate,entryPrice]`, in any order, with commas,
    /// semicolons or tabs between them. With semicolons numbers may have decimal commas.
    Csv,
    /// `{"futures": [{"ticker": …, "type": …, "quantity": …}]}`.
    Json,
    /// `<portfolio><futures><future>…` with child elements or attributes.
    Xml,
    /// The same as JSON, in YAML.
    Yaml,
}

/// Reads a document, its positions into `positions`, and returns what else there is: an object
/// with `futures` for a portfolio, or with `portfolio` for a whole job, which XML and YAML can
/// hold.
pub(crate) fn read(
    document: &[u8],
    format: DataFormat,
    positions: &mut Positions<'_>,
) -> Result<Value, ValueError> {
    let text = decode(document)?;
    match format {
        DataFormat::Csv => csv::read(text, positions),
        DataFormat::Json => read_json(text, Part::Document, positions),
        DataFormat::Yaml => read_yaml(text, positions),
        DataFormat::Xml => xml::read(text, positions),
        DataFormat::Fpml => fpml::read(text, positions),
    }
}

pub(crate) fn read_json(
    text: &str,
    part: Part,
    positions: &mut Positions<'_>,
) -> Result<Value, ValueError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let rest =
        Tree { part, positions }.deserialize(&mut json).and_then(|rest| json.end().map(|()| rest));
    rest.map_err(|error| unreadable(format!("JSON: {error}")))
}

fn read_yaml(text: &str, positions: &mut Positions<'_>) -> Result<Value, ValueError> {
    let options = serde_saphyr::options! {
        // Enough for the largest portfolio; the defaults are for configuration files.
        budget: serde_saphyr::budget! {
            max_events: 16 * MAX_POSITIONS,
            max_nodes: 16 * MAX_POSITIONS,
            max_total_scalar_bytes: MAX_DOCUMENT_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Tree { part: Part::Document, positions }.deserialize(yaml)
    })
    .map_err(|error| unreadable(format!("YAML: {error}")))
}

/// The text of a document: UTF-8, with or without a byte order mark.
pub(crate) fn decode(document: &[u8]) -> Result<&str, ValueError> {
    if document.len() > MAX_DOCUMENT_BYTES {
        let msg = format!("the document is larger than {MAX_DOCUMENT_BYTES} bytes");
        return Err(ValueError::new("value_error.too_large", msg));
    }
    if document.starts_with(&[0xFF, 0xFE]) || document.starts_with(&[0xFE, 0xFF]) {
        return Err(unreadable(
            "the document is UTF-16 or UTF-32, it must be UTF-8 (of a spreadsheet: \"CSV UTF-8\")",
        ));
    }
    let document = document.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(document);
    std::str::from_utf8(document).map_err(|error| {
        let line = 1 + document[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        unreadable(format!(
            "line {line} is not UTF-8, at byte {} of the document (of a spreadsheet: save it as \"CSV UTF-8\")",
            error.valid_up_to()
        ))
    })
}
