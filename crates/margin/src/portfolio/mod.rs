//! Portfolios: positions in futures, written in five formats.
//!
//! Every reader hands over one position after another, its fields as they came, and all are checked
//! in one place, so that the same mistake is the same violation in every format.

mod csv;
mod fpml;
mod tree;
mod xml;

use serde::de::DeserializeSeed as _;
use serde_json::Value;

use crate::Date;
use crate::check::{self, Fault, Place, Violations};
use crate::error::Loc;
use crate::schema::Part;
use crate::store::Store;
use crate::unknown::UnknownFields;

pub(crate) use tree::Tree;

/// A document larger than this, 64 MiB, is refused.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// A portfolio of more positions than this is refused.
pub const MAX_POSITIONS: usize = 1_000_000;

/// Notations of a portfolio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFormat {
    /// Trades in futures of an `FpML` 5 document, any view.
    Fpml,
    /// Lines under a header `ticker,type,quantity[,entryDate,entryPrice]`, in any order.
    Csv,
    /// `{"futures": [{"ticker": …, "type": …, "quantity": …}]}`.
    Json,
    /// `<portfolio><futures><future>…` with child elements or attributes.
    Xml,
    /// The same as JSON, in YAML.
    Yaml,
}

/// Which way a position gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Gains when the price rises.
    Long,
    /// Gains when the price falls.
    Short,
}

impl Side {
    /// `long` or `short`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Short => "short",
        }
    }

    pub(crate) fn sign(self) -> f64 {
        match self {
            Self::Long => 1.0,
            Self::Short => -1.0,
        }
    }
}

/// A position whose fields are in order by themselves.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// Place in the portfolio, from 0.
    pub(crate) index: usize,
    /// Index of the contract in the store.
    pub(crate) contract: usize,
    pub(crate) side: Side,
    /// Contracts, zero or more.
    pub(crate) quantity: f64,
    pub(crate) entry_date: Option<Date>,
    pub(crate) entry_price: Option<f64>,
}

/// Where readers put positions, and what is wrong with them.
#[derive(Debug)]
pub(crate) struct Positions<'s> {
    pub(crate) store: &'s Store,
    pub(crate) accepted: Vec<Position>,
    pub(crate) n_read: usize,
    pub(crate) violations: Violations,
    pub(crate) unknown: UnknownFields,
}

impl<'s> Positions<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        Self {
            store,
            accepted: Vec::new(),
            n_read: 0,
            violations: Violations::default(),
            unknown: UnknownFields::default(),
        }
    }

    /// Counts a position that cannot be one, for the reason in its field `tail`.
    fn refuse(&mut self, tail: &[Loc], fault: Fault) {
        self.violations.add(Place::Position(self.n_read), tail, fault);
        self.n_read += 1;
    }

    /// Counts a position, and accepts it if its fields are in order.
    fn push(&mut self, fields: &Value) {
        let index = self.n_read;
        self.n_read += 1;
        if index == MAX_POSITIONS {
            let msg = format!("more than {MAX_POSITIONS} positions");
            self.violations.add(Place::Portfolio, &["futures".into()], Fault::new("value_error.too_large", msg));
        }
        if index >= MAX_POSITIONS {
            return;
        }
        let place = Place::Position(index);
        if !fields.is_object() {
            return self.violations.add(place, &[], Fault::new("type_error", "must be an object"));
        }
        let contract =
            self.violations.field(place, "ticker", fields, |v| contract(self.store, check::required(v, check::text)?));
        let side = self.violations.field(place, "type", fields, |v| side(check::required(v, check::text)?));
        let quantity =
            self.violations.field(place, "quantity", fields, |v| quantity(check::required(v, check::number)?));
        let entry_date = self.violations.field(place, "entryDate", fields, |v| check::optional(v, check::date));
        let entry_price = self.violations.field(place, "entryPrice", fields, |v| check::optional(v, check::number));
        if let (Some(contract), Some(side), Some(quantity), Some(entry_date), Some(entry_price)) =
            (contract, side, quantity, entry_date, entry_price)
        {
            self.accepted.push(Position { index, contract, side, quantity, entry_date, entry_price });
        }
    }
}

fn contract(store: &Store, ticker: &str) -> Result<usize, Fault> {
    store.find(ticker).ok_or_else(|| Fault::new("value_error.unknown_ticker", format!("unknown ticker {ticker:?}")))
}

fn side(text: &str) -> Result<Side, Fault> {
    [Side::Long, Side::Short]
        .into_iter()
        .find(|side| check::is_word(text, side.as_str()))
        .ok_or_else(|| Fault::new("type_error.enum", "must be long or short"))
}

fn quantity(quantity: f64) -> Result<f64, Fault> {
    if quantity >= 0.0 { Ok(quantity) } else { Err(Fault::number("must be at least 0")) }
}

/// Reads a document, its positions into `positions`, and returns what else there is: an object
/// with `futures` for a portfolio, or with `portfolio` for a whole job, which XML and YAML can hold.
pub(crate) fn read(document: &[u8], format: DataFormat, positions: &mut Positions<'_>) -> Result<Value, Fault> {
    let text = decode(document)?;
    match format {
        DataFormat::Csv => csv::read(text, positions),
        DataFormat::Json => read_json(text, Part::Document, positions),
        DataFormat::Yaml => read_yaml(text, positions),
        DataFormat::Xml => xml::read(text, positions),
        DataFormat::Fpml => fpml::read(text, positions),
    }
}

pub(crate) fn read_json(text: &str, part: Part, positions: &mut Positions<'_>) -> Result<Value, Fault> {
    let mut json = serde_json::Deserializer::from_str(text);
    let rest = Tree { part, positions }.deserialize(&mut json).and_then(|rest| json.end().map(|()| rest));
    rest.map_err(|error| unreadable(format!("JSON: {error}")))
}

fn read_yaml(text: &str, positions: &mut Positions<'_>) -> Result<Value, Fault> {
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
    let read = |yaml: serde_saphyr::Deserializer<'_, '_>| Tree { part: Part::Document, positions }.deserialize(yaml);
    serde_saphyr::with_deserializer_from_str_with_options(text, options, read)
        .map_err(|error| unreadable(format!("YAML: {error}")))
}

/// The text of a document: UTF-8, with or without a byte order mark.
pub(crate) fn decode(document: &[u8]) -> Result<&str, Fault> {
    if document.len() > MAX_DOCUMENT_BYTES {
        let msg = format!("the document is larger than {MAX_DOCUMENT_BYTES} bytes");
        return Err(Fault::new("value_error.too_large", msg));
    }
    if document.starts_with(&[0xFF, 0xFE]) || document.starts_with(&[0xFE, 0xFF]) {
        return Err(unreadable("the document is UTF-16 or UTF-32, it must be UTF-8"));
    }
    let document = document.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(document);
    std::str::from_utf8(document)
        .map_err(|error| unreadable(format!("the document is not UTF-8 at byte {}", error.valid_up_to())))
}

pub(crate) fn unreadable(msg: impl Into<String>) -> Fault {
    Fault::new("value_error.document", msg)
}
