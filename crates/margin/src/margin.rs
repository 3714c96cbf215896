//! The margin: a measure of the simulated losses, and the share of each position in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fearless_simd::Level;

use crate::Date;
use crate::book::{Held, Valued};
use crate::check::{Place, ValueError, Violations};
use crate::error::Error;
use crate::history::{Extreme, History, Kind};
use crate::model::{Measure, Model};
use crate::report::{Report, Row, Scenario, Settings, Simulation, Stress, Summary};
use crate::request::Request;
use crate::revalue::LANES;
use crate::run::Run;
use crate::scenario::Paths;
use crate::store::{Contract, Series};

const MAINTENANCE_RATIO: f64 = 1.10;

/// With fewer dates to draw from, about a year, the report has a warning.
const FEW_DATES: usize = 250;

/// With fewer scenarios, ten in the tail, the report has a warning.
const FEW_SCENARIOS: usize = 1000;

/// Scenarios that are no part of one, in a number of them.
const ROUNDING: f64 = 1e-9;

/// With fewer days of stress, about a month, the report has a warning.
const FEW_STRESS_DAYS: usize = 20;

/// A return in the pool of more volatilities than this leads to a warning: that of 1987-10-19 had
/// about 20, and what has more is of a price that hardly moved before.
const MOST_VOLATILITIES: f64 = 50.0;

/// Factors on volatilities without a warning: percentages and slips of the decimal point are beyond.
const USUAL_MULTIPLIERS: RangeInclusive<f64> = 0.1..=10.0;

/// So many contracts with prices that cannot be used are named.
const MAX_NAMED: usize = 10;

impl Request {
    /// Calculates the margin.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for what only the calculation shows: an added date that cannot be used,
    /// no date to draw from, amounts that overflow. [`Error::Cancelled`] when `run` was cancelled.
    pub fn calculate(&self, run: Run<'_>) -> Result<Report, Error> {
        self.report(run).map_err(|error| self.lines.named(error))
    }

    fn report(&self, run: Run<'_>) -> Result<Report, Error> {
        let (Some(date), Some(currency)) = (self.book.date, &self.book.currency) else {
            let summary =
                Summary { initial_margin: 0.0, maintenance_margin: 0.0, simulation: None };
            return Ok(Report {
                margin_date: self.book.date,
                rows: Vec::new(),
                summary,
                worst_scenarios: None,
                losses: None,
                warnings: Vec::new(),
            });
        };
        let level = Level::new();
        let history = History::calibrate(self, date, Kind::Filtered, level, run)?;
        let pool = history.pool(self, date)?;
        self.refuse_dead(&history.sigmas)?;
        let mut outcome = self.simulate(&history, &pool, level, run)?;
        let stressed = match self.window.stress {
            Some((first, last)) => {
                let history =
                    History::calibrate(self, date, Kind::Stress(first, last), level, run)?;
                let pool = history.stress_pool(first, last)?;
                Some((pool.len(), self.simulate(&history, &pool, level, run)?))
            }
            None => None,
        };
        let mut warnings = self.warnings(date, pool.len(), &outcome);
        let extreme = history.extreme(self, &pool, MOST_VOLATILITIES);
        warnings.extend(extreme.map(|extreme| self.of_no_volatility(&extreme, pool.len())));
        if history.n_floored > 0 {
            warnings.push(format!(
                "the volatility floor holds for {} of {}",
                history.n_floored,
                counted(self.book.tickers.len(), "ticker")
            ));
        }
        let stress = stressed.map(|(n_dates, stressed)| {
            if n_dates < FEW_STRESS_DAYS {
                warnings.push(format!("only {} of stress", counted(n_dates, "day")));
            }
            Stress {
                n_dates,
                margin: stressed.margin,
                add_on: outcome.add(&stressed, self.model.stress_weight),
            }
        });
        let tickers = self.book.tickers.iter().map(|ticker| self.contract(ticker).ticker.clone());
        let simulation = Simulation {
            margin_date: date,
            base_currency: currency.clone(),
            seed: self.model.seed as i64,
            n_scenarios: self.model.n_scenarios,
            horizon_days: self.model.horizon_days,
            rates: self.rates(currency),
            n_pool_dates: pool.len(),
            first_pool_date: history.date(pool[0]),
            last_pool_date: history.date(pool[pool.len() - 1]),
            confidence: self.model.confidence,
            is_value_at_risk: self.model.measure == Measure::ValueAtRisk,
            expected_shortfall: outcome.expected_shortfall,
            value_at_risk: outcome.value_at_risk,
            stress,
            sigmas: tickers.zip(history.sigmas.iter().copied()).collect(),
            settings: self.settings(),
        };
        let worst = outcome.worst.into_iter().map(|(loss, path)| Scenario {
            loss,
            dates: path.into_iter().map(|row| history.date(row)).collect(),
        });
        Ok(Report {
            margin_date: Some(date),
            rows: self.rows(&outcome.shares)?,
            summary: Summary {
                initial_margin: outcome.margin,
                maintenance_margin: outcome.margin / MAINTENANCE_RATIO,
                simulation: Some(simulation),
            },
            worst_scenarios: (self.wanted.n_worst > 0).then(|| worst.collect()),
            losses: self.wanted.losses.then_some(outcome.losses),
            warnings,
        })
    }

    /// A warning of a margin that is made of quotients by next to nothing.
    fn of_no_volatility(&self, extreme: &Extreme, n_pool_dates: usize) -> String {
        let Extreme { n_dates, ticker, date, times } = extreme;
        format!(
            "on {n_dates} of {} in the pool a price moved by more than {MOST_VOLATILITIES} times \
             the volatility forecast for the day, {} on {date} by {times:.0} times: a forecast \
             from {} that hardly moved is next to nothing, and the margin that follows from it \
             does not measure the risk; give a longer volatilityLookbackDays, or look at such \
             dates and exclude them",
            counted(n_pool_dates, "historical date"),
            self.contract(&self.book.tickers[*ticker]).ticker,
            counted(self.model.lookback, "daily return"),
        )
    }

    fn settings(&self) -> Settings {
        let (model, window) = (&self.model, &self.window);
        Settings {
            lookback: model.lookback,
            decay: model.decay,
            multiplier: model.multiplier,
            volatility_floor: model.volatility_floor,
            stress_weight: model.stress_weight,
            window: (window.start, window.end),
            added: window.added.clone(),
            excluded: window.excluded.iter().copied().collect(),
            stress: window.stress,
        }
    }

    /// A price that did not move has no volatility: a margin of nothing would look calculated.
    fn refuse_dead(&self, sigmas: &[f64]) -> Result<(), Error> {
        let mut violations = Violations::default();
        for (index, held) in self.book.positions.iter().enumerate() {
            let ticker = &self.book.tickers[held.ticker];
            if ticker.net != 0.0 && sigmas[held.ticker] == 0.0 {
                let contract = self.contract(ticker);
                let msg = format!(
                    "the price of {} did not change in the last {} daily returns, from which the \
                     volatility of {} is calibrated: give a volatilityFloor above 0, a longer \
                     volatilityLookbackDays, or other market data",
                    contract.risk_factor, self.model.lookback, contract.ticker
                );
                violations.add(
                    Place::Position(index),
                    &["ticker".into()],
                    ValueError::new("value_error.dead_series", msg),
                );
            }
        }
        if violations.is_empty() { Ok(()) } else { Err(violations.into_error()) }
    }

    /// Runs all scenarios.
    fn simulate(
        &self,
        history: &History,
        pool: &[u32],
        level: Level,
        run: Run<'_>,
    ) -> Result<Outcome, Error> {
        if self.book.tickers.iter().all(|ticker| ticker.net == 0.0) {
            return Ok(self.of_nothing());
        }
        let mut paths = Paths::new(self.model, pool, run);
        let losses = self.losses(history, &mut paths, level, run)?;
        let tail = Tail::of(&losses, self.model.confidence, self.wanted.n_worst);
        let expected_shortfall = tail.mean(&losses);
        let value_at_risk = losses[tail.quantile];
        let relative_error = match self.model.measure {
            Measure::ExpectedShortfall => {
                relative_error(&tail, &losses, expected_shortfall, value_at_risk)
            }
            Measure::ValueAtRisk => None,
        };
        let (margin, members) = match self.model.measure {
            Measure::ExpectedShortfall => (expected_shortfall, tail.members),
            Measure::ValueAtRisk => (value_at_risk, vec![(tail.quantile, 1.0)]),
        };
        let (margin, shares, relative_error) = if margin > 0.0 {
            (margin, self.shares(history, &mut paths, members, level, run)?, relative_error)
        } else {
            (0.0, vec![0.0; self.book.tickers.len()], None)
        };
        Ok(Outcome {
            margin,
            expected_shortfall: unsigned_zero(expected_shortfall.max(0.0)),
            value_at_risk: unsigned_zero(value_at_risk),
            shares,
            relative_error,
            worst: self.paths_of(&mut paths, &losses, &tail.worst)?,
            losses: if self.wanted.losses { losses } else { Vec::new() },
            is_simulated: true,
        })
    }

    /// The loss of each scenario.
    fn losses(
        &self,
        history: &History,
        paths: &mut Paths<'_>,
        level: Level,
        run: Run<'_>,
    ) -> Result<Vec<f64>, Error> {
        let horizon = self.model.horizon_days;
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
        if losses.iter().all(|loss| loss.is_finite()) {
            Ok(losses)
        } else {
            Err(overflow(Place::Body))
        }
    }

    /// Mean loss of one long contract of each ticker over scenarios with weights.
    fn shares(
        &self,
        history: &History,
        paths: &mut Paths<'_>,
        mut scenarios: Vec<(usize, f64)>,
        level: Level,
        run: Run<'_>,
    ) -> Result<Vec<f64>, Error> {
        let horizon = self.model.horizon_days;
        scenarios.sort_unstable_by_key(|&(scenario, _)| scenario);
        let mut shares = vec![[0.0; LANES]; history.tiles.len()];
        let n_held = paths.n_held;
        for in_batch in scenarios.chunk_by(|a, b| a.0 / n_held == b.0 / n_held) {
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
        Ok(history.places.iter().map(|&(tile, lane)| shares[tile][lane]).collect())
    }

    /// Losses and paths of some scenarios, in their order.
    fn paths_of(
        &self,
        paths: &mut Paths<'_>,
        losses: &[f64],
        scenarios: &[usize],
    ) -> Result<Vec<(f64, Vec<u32>)>, Error> {
        let horizon = self.model.horizon_days;
        let mut of_rank: Vec<(usize, usize)> = scenarios.iter().copied().zip(0..).collect();
        // Batch by batch, since they are drawn anew.
        of_rank.sort_unstable();
        let mut found = vec![(0.0, Vec::new()); scenarios.len()];
        for (scenario, rank) in of_rank {
            let batch = scenario / paths.n_held;
            let first = (scenario - batch * paths.n_held) * horizon;
            let path = paths.hold(batch)?[first..][..horizon].to_vec();
            found[rank] = (unsigned_zero(losses[scenario]), path);
        }
        Ok(found)
    }

    fn of_nothing(&self) -> Outcome {
        Outcome {
            margin: 0.0,
            expected_shortfall: 0.0,
            value_at_risk: 0.0,
            shares: vec![0.0; self.book.tickers.len()],
            relative_error: None,
            worst: Vec::new(),
            losses: if self.wanted.losses { vec![0.0; self.model.n_scenarios] } else { Vec::new() },
            is_simulated: false,
        }
    }

    /// Exchange rates of the currencies other than that of the totals.
    fn rates(&self, currency: &Arc<str>) -> Vec<(Arc<str>, f64)> {
        let all = self.book.tickers.iter().map(|valued| (self.contract(valued), valued.fx));
        let others = all.filter(|(contract, _)| contract.currency != *currency);
        let rates: BTreeMap<_, _> =
            others.map(|(contract, rate)| (contract.currency.clone(), rate)).collect();
        rates.into_iter().collect()
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

    fn warnings(&self, date: Date, n_pool_dates: usize, outcome: &Outcome) -> Vec<String> {
        let mut warnings = Vec::new();
        if n_pool_dates < FEW_DATES {
            let dates = counted(n_pool_dates, "historical date");
            warnings.push(format!("only {dates} in the pool"));
        }
        let multiplier = self.model.multiplier;
        if outcome.is_simulated && !USUAL_MULTIPLIERS.contains(&multiplier) {
            warnings.push(format!(
                "volatilityMultiplier: {multiplier} is a factor and no percentage; scenarios have \
                 {multiplier} times the volatility of the margin date"
            ));
        }
        if outcome.is_simulated && self.model.n_scenarios < FEW_SCENARIOS {
            warnings.push(few_scenarios(&self.model, outcome.relative_error));
        }
        let contracts = || self.book.tickers.iter().map(|ticker| self.contract(ticker));
        let prices = contracts().map(|contract| ("price", &contract.ticker, &contract.settlements));
        let total = self.book.currency.as_ref();
        let others: Vec<_> =
            contracts().map(|contract| &contract.currency).filter(|c| Some(*c) != total).collect();
        // What is converted is so by the rates of both currencies, of which that of rates has none.
        let total = total.filter(|_| !others.is_empty());
        let rates = others
            .into_iter()
            .chain(total)
            .filter_map(|currency| Some(("exchange rate", currency, self.store.rates(currency)?)));
        let returns =
            contracts().map(|contract| ("daily return", &contract.risk_factor, &*contract.returns));
        warnings.extend(old(prices, date));
        warnings.extend(old(rates, date));
        warnings.extend(old(
            returns.filter(|(_, factor, _)| contracts().all(|c| c.ticker != **factor)),
            date,
        ));
        warnings.extend(without_logarithm(contracts(), date));
        let n_returns =
            contracts().map(|contract| (contract, contract.returns.until(date).1.len()));
        let mut short = n_returns.filter(|(_, n_returns)| *n_returns < self.model.lookback);
        if let Some((contract, n_returns)) = short.next() {
            let others = match short.count() {
                0 => String::new(),
                n => format!(", and fewer than asked for of {}", counted(n, "other ticker")),
            };
            warnings.push(format!(
                "only {} of {} for its volatility{others}",
                counted(n_returns, "daily return"),
                contract.ticker
            ));
        }
        warnings
    }
}

/// What to know about a small number of scenarios: how few the margin rests on, the standard error
/// of the percentile in points, √(p (1−p) / n), and that of the margin as a part of it.
fn few_scenarios(model: &Model, relative_error: Option<f64>) -> String {
    let n_scenarios = model.n_scenarios;
    let n = n_scenarios as f64;
    let points = 100.0 * (model.confidence * (1.0 - model.confidence) / n).sqrt();
    let of_margin = match relative_error {
        Some(error) => format!(", that of the margin about {:.0} %", 100.0 * error),
        None => String::new(),
    };
    let percent = Rounded(100.0 * (1.0 - model.confidence));
    let in_tail = Rounded(n * (1.0 - model.confidence));
    let scenarios = counted(n_scenarios, "scenario");
    let them = if n_scenarios == 1 { "it" } else { "them" };
    format!(
        "only {scenarios}: the worst {percent} % are {in_tail} of {them}, \
         the standard error of the percentile is {points:.2} points{of_margin}"
    )
}

/// So many of something.
pub(crate) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Displays a number without what floating point adds to it: 2.5 for 100 (1 − 0.975).
struct Rounded(f64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", (self.0 * 1e6).round() / 1e6)
    }
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
        1 => ", and 1 more is not of that day either".to_owned(),
        n => format!(", and {n} more are not of that day either"),
    };
    let days = match date.days_since(*day) {
        1 => "a day".to_owned(),
        n => format!("{n} days"),
    };
    Some(format!("the last {what} of {name} is of {day}, {days} before the margin date{others}"))
}

/// Warnings of histories with prices that have no logarithm: the largest moves of all may be missing
/// there, and the margin be too small.
fn without_logarithm<'c>(contracts: impl Iterator<Item = &'c Contract>, date: Date) -> Vec<String> {
    let up_to = |contract: &'c Contract| {
        let days = &contract.no_logarithm;
        &days[..days.partition_point(|day| *day <= date)]
    };
    let mut known = BTreeSet::new();
    let mut warnings = Vec::new();
    for contract in contracts.filter(|contract| !up_to(contract).is_empty()) {
        let factor = &contract.risk_factor;
        if !known.insert(factor) || known.len() > MAX_NAMED {
            continue;
        }
        let days = up_to(contract);
        let (first, last) = (days[0], days[days.len() - 1]);
        let found = match days.len() {
            1 => format!("the price of {factor} on {first} is not above zero"),
            n => format!("{n} prices of {factor} from {first} to {last} are not above zero"),
        };
        let of = if *factor == contract.ticker {
            String::new()
        } else {
            format!(", the risk factor of {}", contract.ticker)
        };
        warnings.push(format!(
            "{found}{of}: the daily returns to and from them are left out, and the \
             margin may be too small; the operator sets returnType to absolute"
        ));
    }
    if known.len() > MAX_NAMED {
        let histories = match known.len() - MAX_NAMED {
            1 => "1 more history".to_owned(),
            n => format!("{n} more histories"),
        };
        warnings.push(format!("prices that are not above zero are left out of {histories}"));
    }
    warnings
}

/// Standard error of an expected shortfall as a part of it; none where the tail is one scenario,
/// which has no spread.
///
/// √((variance in the tail + p (ES − `VaR`)²) / (n (1−p))), asymptotically (Manistre and Hancock,
/// "Variance of the CTE estimator", North American Actuarial Journal 9, 2005).
fn relative_error(tail: &Tail, losses: &[f64], shortfall: f64, value_at_risk: f64) -> Option<f64> {
    if tail.members.len() < 2 {
        return None;
    }
    // In units of the shortfall, whose square may be infinite.
    let variance: f64 = tail
        .members
        .iter()
        .map(|&(scenario, weight)| weight * squared_deviation(losses[scenario], shortfall))
        .sum();
    let of_quantile = tail.confidence * squared_deviation(value_at_risk, shortfall);
    let in_tail = losses.len() as f64 * (1.0 - tail.confidence);
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

/// What the scenarios show, in the currency of the totals.
#[derive(Debug)]
struct Outcome {
    /// The measure that was asked for, zero if that is a gain.
    margin: f64,
    /// Zero if that is a gain.
    expected_shortfall: f64,
    value_at_risk: f64,
    /// Of one long contract of each ticker in the margin.
    shares: Vec<f64>,
    /// Standard error of the expected shortfall as a part of it, where that is the margin and it is
    /// known.
    relative_error: Option<f64>,
    /// Losses and paths of the worst scenarios, as many as are wanted.
    worst: Vec<(f64, Vec<u32>)>,
    /// Of all scenarios, where they are wanted.
    losses: Vec<f64>,
    /// Whether anything was simulated.
    is_simulated: bool,
}

impl Outcome {
    /// Adds a part of what a margin of times of stress is above this one; returns the add-on. The
    /// shares of the positions are blended likewise, so that they add up to the sum.
    fn add(&mut self, stressed: &Self, weight: f64) -> f64 {
        let above = stressed.margin - self.margin;
        if weight == 0.0 || above <= 0.0 {
            return 0.0;
        }
        for (share, stressed) in self.shares.iter_mut().zip(&stressed.shares) {
            *share += weight * (stressed - *share);
        }
        self.margin += weight * above;
        weight * above
    }
}

/// The worst scenarios.
#[derive(Debug)]
struct Tail {
    confidence: f64,
    /// Those that make up the expected shortfall, from the worst on, with their weights.
    ///
    /// The tail of 1 % of n scenarios is a fraction: the last of them counts in part, and with less
    /// than 100 it is a part of the worst alone (Acerbi and Tasche, "On the coherence of expected
    /// shortfall", Journal of Banking and Finance 26, 2002).
    members: Vec<(usize, f64)>,
    /// The one whose loss is the value at risk: the smallest that at least `confidence` of all
    /// scenarios do not exceed.
    quantile: usize,
    /// As many of the worst as are wanted.
    worst: Vec<usize>,
}

impl Tail {
    /// Equal losses are taken in their order.
    fn of(losses: &[f64], confidence: f64, n_worst: usize) -> Self {
        let in_tail = losses.len() as f64 * (1.0 - confidence);
        // 10,000 (1 − 0.9) is 999.9999999999998.
        let n_above = ((in_tail + ROUNDING).floor() as usize).min(losses.len() - 1);
        let n = (n_above + 1).max(n_worst.min(losses.len()));
        let order = |a: &usize, b: &usize| {
            losses[*b].partial_cmp(&losses[*a]).expect("losses are finite").then(a.cmp(b))
        };
        let mut scenarios: Vec<usize> = (0..losses.len()).collect();
        scenarios.select_nth_unstable_by(n - 1, order);
        scenarios.truncate(n);
        scenarios.sort_unstable_by(order);
        let weights = (0..=n_above).map(|rank| (in_tail - rank as f64).clamp(0.0, 1.0) / in_tail);
        let members = scenarios.iter().copied().zip(weights).collect();
        let quantile = scenarios[n_above];
        scenarios.truncate(n_worst);
        Self { confidence, members, quantile, worst: scenarios }
    }

    fn mean(&self, losses: &[f64]) -> f64 {
        self.members.iter().map(|&(scenario, weight)| weight * losses[scenario]).sum()
    }
}
