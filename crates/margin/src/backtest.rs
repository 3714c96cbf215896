//! How often a margin would have been too small: days of the past, what was asked for on each, and
//! what was lost in the days after.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::Date;
use crate::check::{Place, ValueError, Violations};
use crate::error::{Error, Violation};
use crate::margin::counted;
use crate::portfolio::DataFormat;
use crate::request::Request;
use crate::run::Run;
use crate::store::Store;

/// Days that a backtest has at most: forty years.
const MAX_DAYS: usize = 10_000;

/// What a backtest found. Amounts are in the currency of the totals.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backtest {
    /// Currency of the amounts.
    pub currency: String,
    /// Level that the value at risk was calculated at.
    pub confidence: f64,
    /// Trading days from a margin to its loss.
    pub horizon_days: usize,
    /// Margins and losses, in ascending order. Their periods do not overlap.
    pub days: Vec<Day>,
    /// Days that had no margin, and why.
    pub skipped: Vec<Skipped>,
    /// On how many days the loss was above the initial margin.
    pub margin_exceedances: usize,
    /// The tests of the value at risk.
    pub coverage: Coverage,
}

/// One day of a backtest.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Day {
    /// Day of the valuation; nothing later was known.
    pub date: Date,
    /// Day up to which the loss was made.
    pub until: Date,
    /// What was asked for.
    pub initial_margin: f64,
    /// The loss that one minus the level of all are above.
    pub value_at_risk: f64,
    /// What was lost, at the exchange rates of `date`; negative for a gain.
    pub loss: f64,
}

/// A day without a margin.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// The day.
    pub date: Date,
    /// Why the margin was refused.
    pub reason: String,
}

/// Tests of the exceedances of a value at risk.
///
/// `unconditional`: Kupiec, "Techniques for verifying the accuracy of risk measurement models",
/// Journal of Derivatives 3, 1995. `independence` and `conditional`: Christoffersen, "Evaluating
/// interval forecasts", International Economic Review 39, 1998.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Days.
    pub n_days: usize,
    /// On how many the loss was above the value at risk.
    pub exceedances: usize,
    /// How many were to be expected.
    pub expected: f64,
    /// Whether there are as many as the level says.
    pub unconditional: Test,
    /// Whether one is as likely after another as after none.
    pub independence: Test,
    /// Both at once.
    pub conditional: Test,
}

/// A likelihood-ratio test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// −2 ln of the ratio of the likelihoods.
    pub statistic: f64,
    /// Probability of at least this if the model is right: the model is rejected where it is small.
    pub p_value: f64,
}

impl Backtest {
    /// Calculates the margin of a job on the days from `first` to `last`, or to the last that a loss
    /// follows, one horizon apart, each with the data up to it alone, and compares it with what was
    /// lost in the horizon after. `marginDate`, `entryDate` and `entryPrice` of the job are not looked
    /// at. `progress` is told each day that is begun, and what share of the days is done.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when the job is, and when no day has a margin and a loss.
    /// [`Error::Cancelled`] when `run` was cancelled.
    pub fn of(
        job: &Value,
        format: DataFormat,
        store: &Arc<Store>,
        first: Date,
        last: Option<Date>,
        run: Run<'_>,
        mut progress: impl FnMut(Date, f64),
    ) -> Result<Self, Error> {
        let mut job = job.clone();
        for field in ["marginDate", "worstScenarios", "includeLosses"] {
            job[field] = Value::Null;
        }
        let is_asked_for = |day: Date| last.is_none_or(|last| day <= last);
        let days = Request::trading_days(&job, format, store);
        let from = days.partition_point(|day| *day < first);
        let mut on = |day: Option<&Date>| {
            job["marginDate"] = day.map(ToString::to_string).into();
            Request::without_entries(&job, format, store)
        };
        // On the last day of all, where a contract may have expired, or else on the last and the
        // first of these: whatever is wrong on all three is said once.
        let request = on(None)
            .or_else(|error| on(days.iter().rfind(|day| is_asked_for(**day))).map_err(|_| error))
            .or_else(|error| on(days.get(from)).map_err(|_| error))?;
        let horizon = request.model.horizon_days;
        let periods = days[from..].windows(horizon + 1).step_by(horizon);
        let mut backtest = Self {
            currency: request.book.currency.as_deref().unwrap_or_default().to_owned(),
            confidence: request.model.confidence,
            horizon_days: horizon,
            days: Vec::new(),
            skipped: Vec::new(),
            margin_exceedances: 0,
            coverage: Coverage::of(&[], request.model.confidence),
        };
        let periods = periods.take_while(|period| is_asked_for(period[0])).take(MAX_DAYS);
        let n_periods = periods.clone().count();
        for (nth, period) in periods.enumerate() {
            let (date, until) = (period[0], period[horizon]);
            progress(date, nth as f64 / n_periods as f64);
            job["marginDate"] = date.to_string().into();
            match Request::without_entries(&job, format, store)
                .and_then(|request| request.day(date, until, run))
            {
                Ok(day) => backtest.days.push(day),
                Err(Error::Refused(violations)) => {
                    let reason = violations.first().map(Violation::to_string).unwrap_or_default();
                    backtest.skipped.push(Skipped { date, reason });
                }
                Err(error) => return Err(error),
            }
        }
        if backtest.days.is_empty() {
            return Err(backtest.no_day(first, last, days.get(from).copied()));
        }
        backtest.margin_exceedances =
            backtest.days.iter().filter(|day| day.loss > day.initial_margin).count();
        // Days between which one was skipped do not follow each other.
        let skipped = |from: Date, to: Date| {
            backtest.skipped.iter().any(|day| from < day.date && day.date < to)
        };
        let mut runs: Vec<Vec<bool>> = Vec::new();
        let mut before = None;
        for day in &backtest.days {
            if before.is_none_or(|before| skipped(before, day.date)) {
                runs.push(Vec::new());
            }
            before = Some(day.date);
            runs.last_mut().expect("one was begun").push(day.loss > day.value_at_risk);
        }
        backtest.coverage = Coverage::of_runs(&runs, backtest.confidence);
        Ok(backtest)
    }

    /// Why there is no day to test, the next with settlements being one that was not asked for.
    fn no_day(&self, first: Date, last: Option<Date>, next: Option<Date>) -> Error {
        let is_beyond = |day: &Date| last.is_some_and(|last| *day > last);
        let reason = match (self.skipped.first(), next.filter(is_beyond)) {
            (Some(skipped), _) => format!("on {}: {}", skipped.date, skipped.reason),
            _ if is_beyond(&first) => "the last is before the first".to_owned(),
            (None, Some(next)) => {
                format!("the first with a settlement of every ticker is {next}")
            }
            (None, None) => format!(
                "fewer than {} with a settlement of every ticker follow {first}",
                counted(self.horizon_days, "day")
            ),
        };
        let until = last.map(|last| format!(" to {last}")).unwrap_or_default();
        let msg = format!("no day from {first}{until} can be tested; {reason}");
        let mut violations = Violations::default();
        violations.add(Place::Portfolio, &[], ValueError::new("value_error.no_day", msg));
        violations.into_error()
    }
}

impl Request {
    /// The margin of a day, and what was lost from it until another.
    fn day(&self, date: Date, until: Date, run: Run<'_>) -> Result<Day, Error> {
        let report = self.calculate(run)?;
        let value_at_risk =
            report.summary.simulation.as_ref().map_or(0.0, |simulation| simulation.value_at_risk);
        let losses = self.book.tickers.iter().map(|ticker| {
            let contract = &self.store.contracts()[ticker.contract];
            let settlements = &contract.settlements;
            let later = settlements.last(until).map_or(ticker.price, |i| settlements.at(i).1);
            -ticker.net * contract.size * (later - ticker.price) * ticker.fx
        });
        let initial_margin = report.summary.initial_margin;
        Ok(Day { date, until, initial_margin, value_at_risk, loss: losses.sum::<f64>() + 0.0 })
    }
}

impl Coverage {
    /// Of days on which a loss was above a value at risk of this level, or not.
    pub fn of(exceeds: &[bool], confidence: f64) -> Self {
        Self::of_runs(&[exceeds.to_vec()], confidence)
    }

    /// The same of several runs of days, of which the last of one and the first of the next do not
    /// follow each other.
    pub fn of_runs(runs: &[Vec<bool>], confidence: f64) -> Self {
        let n_days = runs.iter().map(Vec::len).sum::<usize>();
        let exceedances = runs.iter().flatten().filter(|exceeds| **exceeds).count();
        let likely = 1.0 - confidence;
        // Changes from day to day: [from][to].
        let mut changes = [[0_usize; 2]; 2];
        for pair in runs.iter().flat_map(|run| run.windows(2)) {
            changes[usize::from(pair[0])][usize::from(pair[1])] += 1;
        }
        let [[calm, broke], [calmed, stayed]] = changes;
        let unconditional = 2.0
            * (best(n_days - exceedances, exceedances)
                - log_likelihood(n_days - exceedances, exceedances, likely));
        let independence =
            2.0 * (best(calm, broke) + best(calmed, stayed) - best(calm + calmed, broke + stayed));
        // Rounding must not make them negative.
        let [unconditional, independence] = [unconditional, independence].map(|x| x.max(0.0));
        Self {
            n_days,
            exceedances,
            expected: n_days as f64 * likely,
            unconditional: Test::one_degree(unconditional),
            independence: Test::one_degree(independence),
            conditional: Test::two_degrees(unconditional + independence),
        }
    }
}

/// Logarithm of the likelihood of so many noes and yeses at a probability of a yes.
fn log_likelihood(noes: usize, yeses: usize, likely: f64) -> f64 {
    // 0 ln 0 is 0.
    let term = |n: usize, p: f64| if n == 0 { 0.0 } else { n as f64 * libm::log(p) };
    term(noes, 1.0 - likely) + term(yeses, likely)
}

/// The same at the probability that makes it largest.
fn best(noes: usize, yeses: usize) -> f64 {
    let n = noes + yeses;
    log_likelihood(noes, yeses, if n == 0 { 0.0 } else { yeses as f64 / n as f64 })
}

impl Test {
    /// By a chi-squared distribution with one degree of freedom.
    fn one_degree(statistic: f64) -> Self {
        Self { statistic, p_value: libm::erfc((statistic / 2.0).sqrt()) }
    }

    fn two_degrees(statistic: f64) -> Self {
        Self { statistic, p_value: libm::exp(-statistic / 2.0) }
    }
}
