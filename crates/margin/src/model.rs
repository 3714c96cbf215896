//! What is simulated: the parameters of the model, and the dates it draws from.

use std::collections::BTreeSet;

use crate::Date;

/// Dates of a list: a thousand years.
pub(crate) const MAX_DATES: usize = 366_000;

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
    pub(crate) seed: u64,
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
}
