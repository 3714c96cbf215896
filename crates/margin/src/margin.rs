//! The margin: expected shortfall of the simulated losses, and the share of each position in it.

use std::sync::Arc;

use fearless_simd::Level;

use crate::Date;
use crate::book::{Held, Valued};
use crate::check::{Place, ValueError, Violations};
use crate::error::Error;
use crate::history::History;
use crate::report::{Report, Row, Simulation, Summary};
use crate::request::Request;
use crate::revalue::LANES;
use crate::run::Run;
use crate::scenario::Paths;
use crate::store::{Contract, Series};

const CONFIDENCE: f64 = 0.99;
const MAINTENANCE_RATIO: f64 = 1.10;

/// With fewer dates to draw from, about a year, the report has a warning.
const FEW_DATES: usize = 250;

/// With fewer scenarios, ten in the tail, the report has a warning.
const FEW_SCENARIOS: usize = 1000;

impl Request {
    /// Calculates the margin.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for what only the calculation shows: an added date that cannot be used,
    /// no date to draw from, amounts that overflow. [`Error::Cancelled`] when `run` was cancelled.
    pub fn calculate(&self, run: Run<'_>) -> Result<Report, Error> {
        let (Some(date), Some(currency)) = (self.book.date, &self.book.currency) else {
            let summary =
                Summary { initial_margin: 0.0, maintenance_margin: 0.0, simulation: None };
            return Ok(Report {
                margin_date: self.book.date,
                rows: Vec::new(),
                summary,
                warnings: Vec::new(),
            });
        };
        let level = Level::new();
        let history = History::calibrate(self, date, level, run)?;
        let pool = history.pool(self, date)?;
        let outcome = if self.book.tickers.iter().any(|ticker| ticker.net != 0.0) {
            self.simulate(&history, &pool, level, run)?
        } else {
            Outcome::of_nothing(self.book.tickers.len())
        };
        let warnings = self.warnings(date, pool.len(), &history.sigmas, &outcome);
        let tickers = self.book.tickers.iter().map(|ticker| self.contract(ticker).ticker.clone());
        let simulation = Simulation {
            margin_date: date,
            base_currency: currency.clone(),
            n_pool_dates: pool.len(),
            first_pool_date: history.date(pool[0]),
            last_pool_date: history.date(pool[pool.len() - 1]),
            confidence: CONFIDENCE,
            expected_shortfall: outcome.expected_shortfall,
            value_at_risk: outcome.value_at_risk,
            sigmas: tickers.zip(history.sigmas).collect(),
        };
        Ok(Report {
            margin_date: Some(date),
            rows: self.rows(&outcome.shares)?,
            summary: Summary {
                initial_margin: outcome.expected_shortfall,
                maintenance_margin: outcome.expected_shortfall / MAINTENANCE_RATIO,
                simulation: Some(simulation),
            },
            warnings,
        })
    }

    /// Runs all scenarios and keeps the worst.
    fn simulate(
        &self,
        history: &History,
        pool: &[u32],
        level: Level,
        run: Run<'_>,
    ) -> Result<Outcome, Error> {
        let horizon = self.model.horizon_days;
        let mut paths = Paths::new(self.model, pool, run);
        let mut losses = vec![0.0; self.model.n_scenarios];
        for (batch, losses) in losses.chunks_mut(paths.n_held).enumerate() {
            let held = paths.hold(batch)?;
            let share = losses.len().div_ceil(run.threads.max(1));
            run.spread(
                losses.chunks_mut(share).zip(held.chunks(share * horizon)),
                |(losses, paths)| {
                    for tile in &history.tiles {
                        if !run.is_cancelled() {
                            tile.add_losses(level, paths, horizon, losses);
                        }
                    }
                },
            )?;
        }
        if !losses.iter().all(|loss| loss.is_finite()) {
            return Err(overflow(Place::Body));
        }

        let mut tail = worst(&losses);
        let expected_shortfall: f64 =
            tail.iter().map(|&(scenario, weight)| weight * losses[scenario]).sum();
        let (last, _) = tail[tail.len() - 1];
        let value_at_risk = losses[last];
        if expected_shortfall <= 0.0 {
            return Ok(Outcome {
                value_at_risk: unsigned_zero(value_at_risk),
                is_simulated: true,
                ..Outcome::of_nothing(self.book.tickers.len())
            });
        }
        let relative_error = relative_error(&tail, &losses, expected_shortfall, value_at_risk);

        tail.sort_unstable_by_key(|&(scenario, _)| scenario);
        let mut shares = vec![[0.0; LANES]; history.tiles.len()];
        let n_held = paths.n_held;
        for in_batch in tail.chunk_by(|a, b| a.0 / n_held == b.0 / n_held) {
            let batch = in_batch[0].0 / n_held;
            let held = paths.hold(batch)?;
            // The tail goes through the same kernel as the losses, which saved 4 ms of a margin.
            let paths = in_batch.iter().map(|(scenario, weight)| {
                (&held[(scenario - batch * n_held) * horizon..][..horizon], *weight)
            });
            run.spread(history.tiles.iter().zip(&mut shares), |(tile, shares)| {
                let losses = tile.mean_loss(level, paths.clone());
                shares.iter_mut().zip(losses).for_each(|(share, loss)| *share += loss);
            })?;
        }
        let shares = history.places.iter().map(|&(tile, lane)| shares[tile][lane]).collect();
        Ok(Outcome {
            expected_shortfall,
            value_at_risk,
            shares,
            relative_error,
            is_simulated: true,
        })
    }

    /// The positions, with the share of one long contract of each ticker in the margin.
    fn rows(&self, shares: &[f64]) -> Result<Vec<Row>, Error> {
        let gross: f64 =
            self.book.positions.iter().map(|held| self.value_in_base(held).abs()).sum();
        let rows = self.book.positions.iter().enumerate().map(|(index, held)| {
            let ticker = &self.book.tickers[held.ticker];
            let contract = self.contract(ticker);
            let signed = held.side.sign() * held.quantity;
            let entry_market_value = signed * contract.size * held.entry_price;
            let current_market_value = signed * contract.size * ticker.price;
            let initial_margin = signed * shares[held.ticker] / ticker.fx;
            let variation_margin = current_market_value - entry_market_value;
            if !(variation_margin.is_finite() && initial_margin.is_finite() && gross.is_finite()) {
                return Err(overflow(Place::Position(index)));
            }
            let portfolio_weight =
                if gross == 0.0 { 0.0 } else { self.value_in_base(held) / gross };
            Ok(Row {
                ticker: contract.ticker.clone(),
                side: held.side,
                currency: contract.currency.clone(),
                entry_date: held.entry_date,
                entry_market_value: unsigned_zero(entry_market_value),
                current_market_value: unsigned_zero(current_market_value),
                initial_margin: unsigned_zero(initial_margin),
                maintenance_margin: unsigned_zero(initial_margin / MAINTENANCE_RATIO),
                variation_margin: unsigned_zero(variation_margin),
                size: contract.size,
                quantity: unsigned_zero(held.quantity),
                portfolio_weight: unsigned_zero(portfolio_weight),
            })
        });
        rows.collect()
    }

    fn value_in_base(&self, held: &Held) -> f64 {
        let ticker = &self.book.tickers[held.ticker];
        held.side.sign() * held.quantity * self.contract(ticker).size * ticker.price * ticker.fx
    }

    fn contract(&self, ticker: &Valued) -> &Contract {
        &self.store.contracts()[ticker.contract]
    }

    fn warnings(
        &self,
        date: Date,
        n_pool_dates: usize,
        sigmas: &[f64],
        outcome: &Outcome,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        if n_pool_dates < FEW_DATES {
            warnings.push(format!("only {n_pool_dates} historical dates in the pool"));
        }
        if outcome.is_simulated && self.model.n_scenarios < FEW_SCENARIOS {
            warnings.push(few_scenarios(self.model.n_scenarios, outcome.relative_error));
        }
        let contracts = || self.book.tickers.iter().map(|ticker| self.contract(ticker));
        let prices = contracts().map(|contract| ("price", &contract.ticker, &contract.settlements));
        let rates =
            contracts().filter(|contract| Some(&contract.currency) != self.book.currency.as_ref());
        let rates = rates.filter_map(|contract| {
            Some(("exchange rate", &contract.currency, self.store.rates(&contract.currency)?))
        });
        let returns =
            contracts().map(|contract| ("daily return", &contract.risk_factor, &*contract.returns));
        warnings.extend(old(prices, date));
        warnings.extend(old(rates, date));
        warnings.extend(old(
            returns.filter(|(_, factor, _)| contracts().all(|c| c.ticker != **factor)),
            date,
        ));
        let held = self.book.tickers.iter().zip(sigmas).filter(|(ticker, _)| ticker.net != 0.0);
        for (ticker, _) in held.filter(|(_, sigma)| **sigma == 0.0) {
            let factor = &self.contract(ticker).risk_factor;
            warnings.push(format!(
                "the price of {factor} did not change in the lookback: its margin is zero"
            ));
        }
        let n_returns =
            contracts().map(|contract| (contract, contract.returns.until(date).1.len()));
        let mut short = n_returns.filter(|(_, n_returns)| *n_returns < self.model.lookback);
        if let Some((contract, n_returns)) = short.next() {
            let others = match short.count() {
                0 => String::new(),
                n => format!(", and fewer than asked for of {n} other tickers"),
            };
            warnings.push(format!(
                "only {n_returns} daily returns of {} for its volatility{others}",
                contract.ticker
            ));
        }
        warnings
    }
}

/// What to know about a small number of scenarios: how few the margin rests on, the standard error
/// of the percentile in points, √(p (1−p) / n), and that of the margin as a part of it.
fn few_scenarios(n_scenarios: usize, relative_error: Option<f64>) -> String {
    let n = n_scenarios as f64;
    let points = 100.0 * (CONFIDENCE * (1.0 - CONFIDENCE) / n).sqrt();
    let of_margin = match relative_error {
        Some(error) => format!(", that of the margin about {:.0} %", 100.0 * error),
        None => String::new(),
    };
    format!(
        "only {n_scenarios} scenarios: the worst 1 % are {} of them, \
         the standard error of the percentile is {points:.2} points{of_margin}",
        n / 100.0
    )
}

/// A warning of series that a weekday has passed since: the oldest, and how many more there are.
fn old<'s>(
    series: impl Iterator<Item = (&'s str, &'s Arc<str>, &'s Series)>,
    date: Date,
) -> Option<String> {
    let last = series
        .filter_map(|(what, name, series)| Some((series.at(series.last(date)?).0, what, name)));
    let mut old: Vec<_> = last.filter(|(day, ..)| date.weekdays_since(*day) > 0).collect();
    old.sort_unstable();
    old.dedup();
    let (day, what, name) = old.first()?;
    let others = match old.len() - 1 {
        0 => String::new(),
        n => format!(", and {n} more are not of that day either"),
    };
    let days = match date.days_since(*day) {
        1 => "a day".to_owned(),
        n => format!("{n} days"),
    };
    Some(format!("the last {what} of {name} is of {day}, {days} before the margin date{others}"))
}

/// Standard error of an expected shortfall as a part of it; none where the tail is one scenario,
/// which has no spread.
///
/// √((variance in the tail + p (ES − `VaR`)²) / (n (1−p))), asymptotically (Manistre and Hancock,
/// "Variance of the CTE estimator", North American Actuarial Journal 9, 2005).
fn relative_error(
    tail: &[(usize, f64)],
    losses: &[f64],
    shortfall: f64,
    value_at_risk: f64,
) -> Option<f64> {
    if tail.len() < 2 {
        return None;
    }
    // In units of the shortfall, whose square may be infinite.
    let variance: f64 = tail
        .iter()
        .map(|&(scenario, weight)| weight * squared_deviation(losses[scenario], shortfall))
        .sum();
    let of_quantile = CONFIDENCE * squared_deviation(value_at_risk, shortfall);
    let in_tail = losses.len() as f64 * (1.0 - CONFIDENCE);
    Some(((variance + of_quantile) / in_tail).sqrt()).filter(|error| error.is_finite())
}

fn squared_deviation(loss: f64, shortfall: f64) -> f64 {
    (loss / shortfall - 1.0).powi(2)
}

fn unsigned_zero(number: f64) -> f64 {
    number + 0.0
}

fn overflow(place: Place) -> Error {
    let mut violations = Violations::default();
    violations.add(
        place,
        &[],
        ValueError::new("value_error.overflow", "the amounts are too large to be calculated with"),
    );
    violations.into_error()
}

/// What the scenarios show.
#[derive(Debug)]
struct Outcome {
    /// In base currency, like the rest.
    expected_shortfall: f64,
    value_at_risk: f64,
    /// Of one long contract of each ticker in the expected shortfall.
    shares: Vec<f64>,
    /// Standard error of the expected shortfall as a part of it, where it is known.
    relative_error: Option<f64>,
    /// Whether anything was simulated.
    is_simulated: bool,
}

impl Outcome {
    fn of_nothing(n_tickers: usize) -> Self {
        Self {
            expected_shortfall: 0.0,
            value_at_risk: 0.0,
            shares: vec![0.0; n_tickers],
            relative_error: None,
            is_simulated: false,
        }
    }
}

/// Scenarios that make up the expected shortfall, from the worst on, with their weights.
///
/// The tail of 1 % of n scenarios is a fraction: the last of them counts in part, and with less
/// than 100 it is a part of the worst alone (Acerbi and Tasche, "On the coherence of expected
/// shortfall", Journal of Banking and Finance 26, 2002). Equal losses are taken in their order.
fn worst(losses: &[f64]) -> Vec<(usize, f64)> {
    let in_tail = losses.len() as f64 * (1.0 - CONFIDENCE);
    let n = (in_tail.ceil() as usize).min(losses.len());
    let order = |a: &usize, b: &usize| {
        losses[*b].partial_cmp(&losses[*a]).expect("losses are finite").then(a.cmp(b))
    };
    let mut scenarios: Vec<usize> = (0..losses.len()).collect();
    scenarios.select_nth_unstable_by(n - 1, order);
    scenarios.truncate(n);
    scenarios.sort_unstable_by(order);
    scenarios
        .into_iter()
        .enumerate()
        .map(|(rank, scenario)| (scenario, (in_tail - rank as f64).min(1.0) / in_tail))
        .collect()
}
