//! Daily returns, and their volatility as an exponentially weighted moving average.

use crate::Date;
use crate::revalue::{LANES, Lanes, Shock};
use crate::store::{ReturnType, Series};

/// Two settlements further apart than this make no daily return.
const MAX_GAP_DAYS: i32 = 10;

/// The fewest returns that a volatility is estimated from, unless the lookback itself is shorter.
const BURN_IN: usize = 20;

/// Days and values of the daily returns of settlements: ln(p1 / p0) or p1 − p0. None across a gap
/// of more than 10 calendar days, and no logarithm of prices that are not above zero.
pub(crate) fn daily(settlements: &Series, return_type: ReturnType) -> (Vec<Date>, Vec<f64>) {
    let days = settlements.days().windows(2);
    let prices = settlements.values().windows(2);
    let pairs = days
        .zip(prices)
        .filter_map(|(days, prices)| Some((days.first_chunk::<2>()?, prices.first_chunk::<2>()?)));
    let returns = pairs.filter_map(|([before, day], [p0, p1])| {
        let value = match return_type {
            ReturnType::Log if *p0 > 0.0 && *p1 > 0.0 => libm::log(p1 / p0),
            ReturnType::Log => return None,
            ReturnType::Absolute => p1 - p0,
        };
        (day.days_since(*before) <= MAX_GAP_DAYS).then_some((*day, value))
    });
    returns.unzip()
}

/// Days of prices that are not above zero, where returns are logarithms.
pub(crate) fn without_logarithm(settlements: &Series, return_type: ReturnType) -> Vec<Date> {
    let days = settlements.days().iter().zip(settlements.values());
    let has_none = |price: f64| return_type == ReturnType::Log && price <= 0.0;
    days.filter(|(_, price)| has_none(**price)).map(|(day, _)| *day).collect()
}

/// How many returns there must be before a day for it to have a forecast.
pub(crate) fn burn_in(lookback: usize) -> usize {
    lookback.min(BURN_IN)
}

/// The volatility forecast of a day from the returns before it:
///
/// v = Σ λ^k r²(k+1 returns ago) / Σ λ^k, k = 0 … q−1, where q is the lookback, or the number of
/// returns if there are fewer. Mean zero, truncated, weights adding up to one (`RiskMetrics`
/// Technical Document, 4th ed., 1996, section 5.2). For the contracts of a tile side by side.
#[derive(Debug)]
pub(crate) struct Ewma {
    decay: f64,
    lookback: usize,
    /// λ^k, k = 0 … lookback.
    powers: Vec<f64>,
    /// Sums of the first n powers, n = 0 … lookback.
    weights: Vec<f64>,
}

impl Ewma {
    /// For series of at most `n_returns` returns.
    pub(crate) fn new(decay: f64, lookback: usize, n_returns: usize) -> Self {
        let lookback = lookback.min(n_returns.max(1));
        let mut powers = vec![1.0];
        let mut weights = vec![0.0];
        for k in 0..lookback {
            weights.push(weights[k] + powers[k]);
            powers.push(powers[k] * decay);
        }
        Self { decay, lookback, powers, weights }
    }

    /// Variances that are forecast for every return and for the one after the last: n + 1 for n
    /// returns, of which the first has nothing to go by and is 0.
    ///
    /// A window that slides by adding a square and subtracting an old one loses all digits when a
    /// spike leaves it. Here nothing is subtracted: the returns are cut into blocks as long as the
    /// lookback, so that a window is the end of one block and the beginning of the next, and both
    /// have running sums (van Herk 1992, and Gil and Werman 1993, for minima).
    #[inline(always)]
    pub(crate) fn forecast(&self, returns: &[Lanes]) -> Vec<Lanes> {
        let mut variances = vec![[0.0; LANES]; returns.len() + 1];
        // Weighted sums of the last block without its first 0, 1, … returns.
        let mut endings = vec![[0.0; LANES]; self.lookback + 1];
        let blocks = returns.chunks(self.lookback).zip(variances[1..].chunks_mut(self.lookback));
        for (n_block, (returns, variances)) in blocks.enumerate() {
            let mut beginning = [0.0; LANES];
            let weights = (1..).map(|n| self.weights[if n_block == 0 { n } else { self.lookback }]);
            let endings_weighted = endings[1..].iter().zip(&self.powers[1..]).zip(weights);
            for ((r, variance), ((ending, power), weight)) in
                returns.iter().zip(variances).zip(endings_weighted)
            {
                for i in 0..LANES {
                    beginning[i] = self.decay * beginning[i] + r[i] * r[i];
                    variance[i] = (beginning[i] + power * ending[i]) / weight;
                }
            }
            if returns.len() == self.lookback {
                let mut ending = [0.0; LANES];
                for ((r, power), stored) in
                    returns.iter().rev().zip(&self.powers).zip(endings.iter_mut().rev().skip(1))
                {
                    for i in 0..LANES {
                        ending[i] += power * (r[i] * r[i]);
                    }
                    *stored = ending;
                }
            }
        }
        variances
    }

    /// A return r standardised by the forecast v that was made of it, z = r / √v, and the factor
    /// g = √(λ + (1−λ) z²) by which its day changes the volatility of the next. Both are 0 where v
    /// is not above `floor`; g is 0 nowhere else.
    #[inline(always)]
    pub(crate) fn shock(&self, r: &Lanes, v: &Lanes, floor: &Lanes) -> Shock {
        let mut shock = Shock::NONE;
        for i in 0..LANES {
            // Choices between cheap values, so that roots and quotients are not branched around.
            let (v, usable) = if v[i] > floor[i] { (v[i], 1.0) } else { (f64::INFINITY, 0.0) };
            let z = r[i] / v.sqrt();
            shock.z[i] = z;
            shock.g[i] = usable * (self.decay + (1.0 - self.decay) * (z * z)).sqrt();
        }
        shock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum as it is defined, for the return number `t`.
    fn direct(returns: &[f64], t: usize, decay: f64, lookback: usize) -> f64 {
        let weighted = returns[..t].iter().rev().take(lookback).zip((0..).map(|k| decay.powi(k)));
        let (sum, weights) =
            weighted.fold((0.0, 0.0), |(sum, weights), (r, w)| (sum + w * r * r, weights + w));
        if t == 0 { 0.0 } else { sum / weights }
    }

    #[test]
    fn a_spike_leaves_no_trace_when_it_leaves_the_window() {
        let mut returns: Vec<f64> = (0..300).map(|n| 0.01 * (f64::from(n) * 1.7).sin()).collect();
        returns[40] = 1e9;
        for (decay, lookback) in
            [(1.0, 60), (0.97, 60), (0.97, 1), (0.5, 7), (0.94, 299), (0.94, 1000)]
        {
            let ewma = Ewma::new(decay, lookback, returns.len());
            let lanes: Vec<Lanes> = returns.iter().map(|r| [*r; LANES]).collect();
            let variances = ewma.forecast(&lanes);
            assert_eq!(variances.len(), returns.len() + 1);
            for (t, variance) in variances.iter().enumerate() {
                let expected = direct(&returns, t, decay, lookback);
                assert!(
                    (variance[LANES - 1] - expected).abs() <= 1e-13 * expected,
                    "{decay} {lookback} {t}"
                );
            }
        }
    }
}
