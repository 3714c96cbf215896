//! The portfolio on the day of the valuation: what its contracts are worth, and what its positions
//! were entered at.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::Date;
use crate::check::{Place, ValueError, Violations};
use crate::model::Model;
use crate::portfolio::{Position, Side};
use crate::returns;
use crate::store::{Contract, MAX_AGE_DAYS, ReturnType, Series, Store};

/// The largest daily return that is calculated with: squares of more may be infinite, and a
/// variance that is would make the days after it look calm.
const MAX_RETURN: f64 = 1e150;

/// Tickers × scenarios × days of the largest calculation.
const MAX_STEPS: f64 = 2e10;

/// A portfolio that can be valued.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Day of the valuation; none without positions and without a date.
    pub(crate) date: Option<Date>,
    /// Currency of sums over positions; none without positions.
    pub(crate) currency: Option<Arc<str>>,
    /// In the order of the request.
    pub(crate) positions: Vec<Held>,
    /// One per ticker, in the order in which the positions first name them.
    pub(crate) tickers: Vec<Valued>,
}

/// A position with its entry.
#[derive(Debug)]
pub(crate) struct Held {
    /// Index in [`Book::tickers`].
    pub(crate) ticker: usize,
    pub(crate) side: Side,
    pub(crate) quantity: f64,
    pub(crate) entry_date: Date,
    pub(crate) entry_price: f64,
}

/// A contract on the day of the valuation.
#[derive(Debug)]
pub(crate) struct Valued {
    /// Index of the contract in the store.
    pub(crate) contract: usize,
    /// Last settlement, in the currency of the contract.
    pub(crate) price: f64,
    /// Units of [`Book::currency`] per unit of the contract's.
    pub(crate) fx: f64,
    /// Long less short contracts of all positions in it.
    pub(crate) net: f64,
}

/// The day that the market data of a portfolio reaches to.
pub(crate) fn latest_settlement(store: &Store, positions: &[Position]) -> Option<Date> {
    let contracts = positions.iter().map(|position| &store.contracts()[position.contract]);
    contracts.filter_map(|contract| contract.settlements.days().last()).max().copied()
}

/// Days on which every contract of the positions has a settlement, ascending.
pub(crate) fn trading_days(store: &Store, positions: &[Position]) -> Vec<Date> {
    let contracts: BTreeSet<usize> = positions.iter().map(|position| position.contract).collect();
    let mut days: Option<BTreeSet<Date>> = None;
    for contract in contracts {
        let own = store.contracts()[contract].settlements.days().iter();
        days = Some(match days {
            None => own.copied().collect(),
            Some(days) => own.filter(|day| days.contains(day)).copied().collect(),
        });
    }
    days.unwrap_or_default().into_iter().collect()
}

impl Book {
    /// Values positions on `date`, and adds what stands in the way of it to `violations`. `model`
    /// is missing when it has violations of its own.
    pub(crate) fn new(
        store: &Store,
        positions: &[Position],
        date: Option<Date>,
        model: Option<Model>,
        result_currency: Option<&str>,
        violations: &mut Violations,
    ) -> Self {
        let Some(date) = date else { return Self::default() };
        let mut currencies =
            positions.iter().map(|position| &store.contracts()[position.contract].currency);
        let first = currencies.next();
        let is_mixed = currencies.any(|currency| Some(currency) != first);
        let common = first.filter(|_| !is_mixed);
        let currency = first.map(|_| match result_currency {
            Some(result) => Arc::from(result),
            None => common.unwrap_or(store.base_currency()).clone(),
        });
        let is_converted = currency.as_ref() != common;
        // What one unit of that currency is in the base currency.
        let unit = match &currency {
            Some(currency) if is_converted => store.rate(currency, date).unwrap_or_else(|| {
                violations.add(Place::Body, &["resultCurrency".into()], no_rate(currency, date));
                1.0
            }),
            _ => 1.0,
        };
        let mut book = Self { date: Some(date), currency, ..Self::default() };

        let mut known: HashMap<usize, Result<usize, Vec<ValueError>>> = HashMap::new();
        let mut quantities = Vec::with_capacity(positions.len());
        for position in positions {
            let place = Place::Position(position.index);
            let contract = &store.contracts()[position.contract];
            let ticker = known.entry(position.contract).or_insert_with(|| {
                let fx = if is_converted {
                    store.rate(&contract.currency, date).map(|rate| rate / unit)
                } else {
                    Some(1.0)
                };
                let (price, fx) = value(contract, fx, date, model)?;
                book.tickers.push(Valued { contract: position.contract, price, fx, net: 0.0 });
                Ok(book.tickers.len() - 1)
            });
            let ticker = match ticker {
                Ok(ticker) => *ticker,
                Err(errors) => {
                    errors
                        .iter()
                        .for_each(|error| violations.add(place, &["ticker".into()], error.clone()));
                    continue;
                }
            };
            match entry(position, &contract.settlements, date) {
                Ok((entry_date, entry_price)) => {
                    let side = position.side;
                    let quantity = position.quantity;
                    quantities.push((ticker, side.sign() * quantity));
                    book.positions.push(Held { ticker, side, quantity, entry_date, entry_price });
                }
                Err(error) => violations.add(place, &["entryDate".into()], error),
            }
        }
        book.set_nets(quantities);
        if model.is_some_and(|model| model.n_steps() * book.tickers.len() as f64 > MAX_STEPS) {
            let msg = format!("tickers x scenarios x days must be at most {MAX_STEPS}");
            violations.add(
                Place::Body,
                &["numScenarios".into()],
                ValueError::new("value_error.too_large", msg),
            );
        }
        book
    }

    /// Adds up signed quantities per ticker, in an order that is not that of the positions. What is
    /// left of an offset by rounding (0.1 + 0.2 − 0.3) is no position.
    fn set_nets(&mut self, mut quantities: Vec<(usize, f64)>) {
        quantities.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        for of_ticker in quantities.chunk_by(|a, b| a.0 == b.0) {
            let net: f64 = of_ticker.iter().map(|(_, quantity)| quantity).sum();
            let gross: f64 = of_ticker.iter().map(|(_, quantity)| quantity.abs()).sum();
            let rounding = of_ticker.len() as f64 * f64::EPSILON * gross;
            // A sum that has overflowed is no offset, and is refused as a loss.
            let is_offset = net.is_finite() && net.abs() <= rounding;
            self.tickers[of_ticker[0].0].net = if is_offset { 0.0 } else { net };
        }
    }
}

/// Price of a contract and the exchange rate, or everything that makes it impossible to simulate.
fn value(
    contract: &Contract,
    fx: Option<f64>,
    date: Date,
    model: Option<Model>,
) -> Result<(f64, f64), Vec<ValueError>> {
    let ticker = &contract.ticker;
    if let Some(last) = contract.last_trade_date.filter(|last| *last < date) {
        return Err(vec![ValueError::new(
            "value_error.expired",
            format!("{ticker} expired on {last}"),
        )]);
    }
    let Some(settlement) = contract.settlements.fresh(date) else {
        let msg = format!("no settlement price of {ticker} within {MAX_AGE_DAYS} days of {date}");
        return Err(vec![ValueError::new("value_error.no_price", msg)]);
    };
    let price = contract.settlements.values()[settlement];
    let mut errors = Vec::new();
    if contract.return_type == ReturnType::Log && price <= 0.0 {
        let msg = format!("the price of {ticker} is {price}, its returnType has to be absolute");
        errors.push(ValueError::new("value_error.price", msg));
    }
    if fx.is_none() {
        errors.push(no_rate(&contract.currency, date));
    }
    let (days, returns) = contract.returns.until(date);
    let n_returns = returns.len();
    let factor = match &contract.risk_factor {
        factor if factor == ticker => format!("of {ticker}"),
        factor => format!("of {factor}, the risk factor of {ticker},"),
    };
    if model.is_some_and(|model| n_returns < returns::burn_in(model.lookback)) {
        let msg = format!(
            "{ticker} has {n_returns} daily returns up to {date}, too few to calibrate a volatility"
        );
        errors.push(ValueError::new("value_error.history", msg));
    } else if let Some(last) = days.last().filter(|last| date.days_since(**last) > MAX_AGE_DAYS) {
        let msg = format!(
            "the last daily return {factor} is of {last}, more than {MAX_AGE_DAYS} days before \
             {date}"
        );
        errors.push(ValueError::new("value_error.history", msg));
    }
    if let Some(n) = returns.iter().position(|value| value.is_nan() || value.abs() > MAX_RETURN) {
        let msg = format!(
            "the price {factor} changes on {} by more than can be calculated with",
            days[n]
        );
        errors.push(ValueError::new("value_error.overflow", msg));
    }
    match fx {
        Some(fx) if errors.is_empty() => Ok((price, fx)),
        _ => Err(errors),
    }
}

fn no_rate(currency: &str, date: Date) -> ValueError {
    let msg = format!("no exchange rate of {currency} within {MAX_AGE_DAYS} days of {date}");
    ValueError::new("value_error.no_fx", msg)
}

/// Date and price of entry. A date without a price stands for the last settlement up to it, which
/// is then the day of entry. Without a date it is the settlement before the one of the valuation,
/// or that one itself if it is the first.
fn entry(position: &Position, settlements: &Series, date: Date) -> Result<(Date, f64), ValueError> {
    if position.entry_date.is_some_and(|entry| entry > date) {
        return Err(ValueError::new("value_error", "is after marginDate"));
    }
    if let (Some(entry), Some(price)) = (position.entry_date, position.entry_price) {
        return Ok((entry, price));
    }
    let settlement = match position.entry_date {
        Some(entry) => settlements.fresh(entry).map(|i| settlements.at(i)),
        None => settlements.last(date).map(|valuation| settlements.at(valuation.saturating_sub(1))),
    };
    let (entry_date, settled) = settlement.ok_or_else(|| {
        let msg = format!(
            "no settlement price within {MAX_AGE_DAYS} days before it; give entryPrice, or \
             another date"
        );
        ValueError::new("value_error.no_price", msg)
    })?;
    Ok((entry_date, position.entry_price.unwrap_or(settled)))
}
