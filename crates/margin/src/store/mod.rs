//! Market data in memory: contracts, their settlement prices, and exchange rates.
//!
//! A [`Store`] never changes. Whoever reloads market data makes a new one and exchanges the
//! [`Arc`](std::sync::Arc); a request keeps the one that it was read with.

mod load;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::Date;

pub use load::File;

/// A price or rate older than this many calendar days says nothing about the day it is wanted for.
pub(crate) const MAX_AGE_DAYS: i32 = 7;

/// Contracts, settlement prices and exchange rates, checked.
#[derive(Debug)]
pub struct Store {
    contracts: Vec<Contract>,
    by_ticker: HashMap<Arc<str>, usize>,
    rates: BTreeMap<String, Series>,
    base_currency: Arc<str>,
    sha256: String,
}

/// How the daily moves of a contract are measured and applied to its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReturnType {
    /// Ln of the ratio of two settlements; for prices that are above zero.
    Log,
    /// Difference of two settlements; for rates, spreads and prices that can be zero or less.
    Absolute,
}

/// A futures contract.
#[derive(Debug)]
pub struct Contract {
    /// Its name in portfolios.
    pub ticker: Arc<str>,
    /// Currency of its price.
    pub currency: Arc<str>,
    /// Multiplier: value of one contract per unit of price.
    pub size: f64,
    /// How its moves are measured.
    pub return_type: ReturnType,
    /// Ticker whose moves it has, as a rule its own.
    pub risk_factor: Arc<str>,
    /// After this day there is nothing left to value.
    pub last_trade_date: Option<Date>,
    /// Settlement prices.
    pub settlements: Series,
    /// Daily returns of its risk factor, which may be another contract.
    pub(crate) returns: Arc<Series>,
    /// Days on which that has a price without a logarithm, where returns are logarithms: they are
    /// missing before and after it.
    pub(crate) no_logarithm: Arc<[Date]>,
}

/// Values on days in ascending order.
#[derive(Debug)]
pub struct Series {
    /// The same array in all series of a store that have the same days.
    days: Arc<[Date]>,
    values: Vec<f64>,
}

impl Store {
    /// All contracts, in the order of the file.
    pub fn contracts(&self) -> &[Contract] {
        &self.contracts
    }

    /// Index of a ticker in [`Self::contracts`].
    pub fn find(&self, ticker: &str) -> Option<usize> {
        self.by_ticker.get(ticker).copied()
    }

    /// The currency that exchange rates count in, for portfolios of more than one currency.
    pub fn base_currency(&self) -> &Arc<str> {
        &self.base_currency
    }

    /// SHA-256 of the bytes of contracts.csv, the price files and fx.csv, one after another, in
    /// hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Base currency per unit of `currency`: the last rate up to `date`, none if that is more than
    /// 7 calendar days old.
    pub fn rate(&self, currency: &str, date: Date) -> Option<f64> {
        if currency == &*self.base_currency {
            return Some(1.0);
        }
        let rates = self.rates.get(currency)?;
        rates.fresh(date).map(|i| rates.values[i])
    }

    /// Exchange rates of a currency; none of the base currency.
    pub(crate) fn rates(&self, currency: &str) -> Option<&Series> {
        self.rates.get(currency).filter(|_| currency != &*self.base_currency)
    }
}

impl Series {
    /// The days that have a value, ascending.
    pub fn days(&self) -> &[Date] {
        &self.days
    }

    /// The values, one per day.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Day and value at an index.
    pub(crate) fn at(&self, index: usize) -> (Date, f64) {
        (self.days[index], self.values[index])
    }

    /// Days and values up to `date`.
    pub(crate) fn until(&self, date: Date) -> (&[Date], &[f64]) {
        let n = self.days.partition_point(|&day| day <= date);
        (&self.days[..n], &self.values[..n])
    }

    /// Index of the last value on or before `date`.
    pub(crate) fn last(&self, date: Date) -> Option<usize> {
        self.days.partition_point(|&day| day <= date).checked_sub(1)
    }

    /// Index of the last value on or before `date`, none if it is more than 7 calendar days old.
    pub(crate) fn fresh(&self, date: Date) -> Option<usize> {
        self.last(date).filter(|&i| date.days_since(self.days[i]) <= MAX_AGE_DAYS)
    }
}
