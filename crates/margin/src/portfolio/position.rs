//! Positions as they are read, one after another, whatever the format.

use serde_json::Value;

use crate::Date;
use crate::check::{self, Place, ValueError, Violations};
use crate::error::{Error, Loc};
use crate::store::Store;
use crate::unknown::UnknownFields;

/// A portfolio of more positions than this is refused.
pub const MAX_POSITIONS: usize = 1_000_000;

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
    pub(crate) lines: Lines,
}

/// The lines of a file that positions stand on, where it has lines: who wrote it counts those, and
/// not positions from zero.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u32>);

impl Lines {
    /// Adds the line, from 1, of the next position.
    pub(super) fn add(&mut self, line: usize) {
        if self.0.len() < MAX_POSITIONS {
            self.0.push(u32::try_from(line).unwrap_or(u32::MAX));
        }
    }

    /// A refusal with the line in front of what is wrong with a position. Where it stands in the
    /// request remains.
    pub(crate) fn named(&self, error: Error) -> Error {
        let Error::Refused(mut violations) = error else { return error };
        for violation in &mut violations {
            if let [_, Loc::Field("portfolio"), Loc::Field("futures"), Loc::Index(index), ..] =
                violation.loc[..]
                && let Some(line) = self.0.get(index)
            {
                violation.msg = format!("line {line}: {}", violation.msg);
            }
        }
        Error::Refused(violations)
    }
}

impl<'s> Positions<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        Self {
            store,
            accepted: Vec::new(),
            n_read: 0,
            violations: Violations::default(),
            unknown: UnknownFields::default(),
            lines: Lines::default(),
        }
    }

    /// Counts a position that cannot be one, for the reason in its field `tail`.
    pub(super) fn refuse(&mut self, tail: &[Loc], error: ValueError) {
        self.violations.add(Place::Position(self.n_read), tail, error);
        self.n_read += 1;
    }

    /// Counts a position, and accepts it if its fields are in order.
    pub(super) fn push(&mut self, fields: &Value) {
        let index = self.n_read;
        self.n_read += 1;
        if index == MAX_POSITIONS {
            let msg = format!("more than {MAX_POSITIONS} positions");
            self.violations.add(
                Place::Portfolio,
                &["futures".into()],
                ValueError::new("value_error.too_large", msg),
            );
        }
        if index >= MAX_POSITIONS {
            return;
        }
        let place = Place::Position(index);
        if !fields.is_object() {
            return self.violations.add(
                place,
                &[],
                ValueError::new("type_error", "must be an object"),
            );
        }
        let contract = self.violations.field(place, "ticker", fields, |v| {
            contract(self.store, check::required(v, check::text)?)
        });
        let side = self
            .violations
            .field(place, "type", fields, |v| side(check::required(v, check::text)?));
        let quantity = self
            .violations
            .field(place, "quantity", fields, |v| quantity(check::required(v, check::number)?));
        let entry_date =
            self.violations.field(place, "entryDate", fields, |v| check::optional(v, check::date));
        let entry_price = self
            .violations
            .field(place, "entryPrice", fields, |v| check::optional(v, check::number));
        if let (Some(contract), Some(side), Some(quantity), Some(entry_date), Some(entry_price)) =
            (contract, side, quantity, entry_date, entry_price)
        {
            self.accepted.push(Position {
                index,
                contract,
                side,
                quantity,
                entry_date,
                entry_price,
            });
        }
    }
}

fn contract(store: &Store, ticker: &str) -> Result<usize, ValueError> {
    store.find(ticker).ok_or_else(|| {
        let mut listed = store.contracts().iter().map(|contract| &contract.ticker);
        let alike = listed.find(|known| known.eq_ignore_ascii_case(ticker.trim()));
        let hint = alike.map(|known| format!("; did you mean {known:?}?")).unwrap_or_default();
        ValueError::new("value_error.unknown_ticker", format!("unknown ticker {ticker:?}{hint}"))
    })
}

fn side(text: &str) -> Result<Side, ValueError> {
    [Side::Long, Side::Short]
        .into_iter()
        .find(|side| check::is_word(text, side.as_str()))
        .ok_or_else(|| ValueError::new("type_error.enum", "must be long or short"))
}

fn quantity(quantity: f64) -> Result<f64, ValueError> {
    if quantity >= 0.0 { Ok(quantity) } else { Err(ValueError::number("must be at least 0")) }
}

/// The error of something that is called as positions are, where none are read. A remark would not
/// do: the margin without them looks like one.
pub(crate) fn uncounted(name: &str) -> ValueError {
    let msg = format!(
        "{name} stands where no positions are read, and would not count: each position belongs into \
         futures, within the portfolio"
    );
    ValueError::new("value_error", msg)
}

pub(crate) fn unreadable(msg: impl Into<String>) -> ValueError {
    ValueError::new("value_error.document", msg)
}
