//! What is simulated and asked of it: the parameters of the model, the dates it draws from, and
//! what is made of the losses.

use std::collections::BTreeSet;

use crate::Date;

/// Dates of a list: a thousand years.
pub(crate) const MAX_DATES: usize = 366_000;

/// What of the simulated losses the initial margin is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The mean of the worst.
    #[default]
    ExpectedShortfall,
    /// The loss that the worst are above.
    ValueAtRisk,
}

/// Parameters of the simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) n_scenarios: usize,
    pub(crate) horizon_days: usize,
    /// Daily returns that a volatility is estimated from.
    pub(crate) lookback: usize,
    /// Lambda.
    pub(crate) decay: f64,
    /// Factor on today's volatility.
    pub(crate) multiplier: f64,
    /// Today's volatility is at least this part of that of the whole history.
    pub(crate) volatility_floor: f64,
    pub(crate) seed: u64,
    pub(crate) measure: Measure,
    /// Part of the scenarios that the tail leaves out.
    pub(crate) confidence: f64,
    /// Part of what a margin of times of stress is above this one that is added to it.
    pub(crate) stress_weight: f64,
}

impl Model {
    /// Days simulated of one contract.
    pub(crate) fn n_steps(&self) -> f64 {
        self.n_scenarios as f64 * self.horizon_days as f64
    }
}

/// Which dates may be drawn: those from `start` to `end` and the added ones, without the excluded.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) start: Option<Date>,
    pub(crate) end: Option<Date>,
    /// As given, for violations that point at one of them.
    pub(crate) added: Vec<Date>,
    pub(crate) excluded: BTreeSet<Date>,
    /// First and last day of a time of stress.
    pub(crate) stress: Option<(Date, Date)>,
}

/// What the report is to have besides the margin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// How many of the worst scenarios.
    pub(crate) n_worst: usize,
    /// The losses of all scenarios.
    pub(crate) losses: bool,
}
