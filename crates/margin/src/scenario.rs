//! Which dates of the history make up which scenario: a balanced bootstrap.
//!
//! The scenarios come in blocks as long as the pool. On each day of the horizon a block takes every
//! pool date exactly once, in random order (Davison, Hinkley and Schechtman, "Efficient bootstrap
//! simulation", Biometrika 73, 1986). Order n of block b on day k depends on the seed and on n, b
//! and k alone, so any part of the draws can be made anywhere.

use crate::error::Error;
use crate::model::Model;
use crate::run::Run;

/// Draws that are held at a time, 16 MB of them.
const MAX_HELD: usize = 4 << 20;

/// The dates that scenarios take on each day of the horizon, one batch of scenarios at a time.
pub(crate) struct Paths<'p> {
    model: Model,
    pool: &'p [u32],
    run: Run<'p>,
    /// Scenarios in a batch; there may be fewer in the last.
    pub(crate) n_held: usize,
    batch: Option<usize>,
    dates: Vec<u32>,
}

impl<'p> Paths<'p> {
    /// Paths over the entries of `pool`.
    pub(crate) fn new(model: Model, pool: &'p [u32], run: Run<'p>) -> Self {
        let blocks_held = (MAX_HELD / (pool.len() * model.horizon_days)).max(1);
        Self { model, pool, run, n_held: blocks_held * pool.len(), batch: None, dates: Vec::new() }
    }

    /// The paths of a batch: `horizon_days` pool entries of one scenario after another.
    pub(crate) fn hold(&mut self, batch: usize) -> Result<&[u32], Error> {
        if self.batch != Some(batch) {
            let first = batch * self.n_held;
            let n_scenarios = self.n_held.min(self.model.n_scenarios - first);
            self.dates.resize(n_scenarios * self.model.horizon_days, 0);
            let blocks =
                self.dates.chunks_mut(self.pool.len() * self.model.horizon_days).enumerate();
            let first_block = first / self.pool.len();
            self.run
                .spread(blocks, |(n, paths)| draw(self.model, self.pool, first_block + n, paths))?;
            self.batch = Some(batch);
        }
        Ok(&self.dates)
    }
}

/// Fills `paths` with the scenarios of a block, or as many of its first as there is room for.
fn draw(model: Model, pool: &[u32], block: usize, paths: &mut [u32]) {
    let n_blocks = model.n_scenarios.div_ceil(pool.len());
    let mut order = Vec::with_capacity(pool.len());
    for day in 0..model.horizon_days {
        let first = ((day * n_blocks + block) * pool.len()) as u64;
        argsort(pool.len(), |j| splitmix64(model.seed, first + j), &mut order);
        for (path, &j) in paths.chunks_exact_mut(model.horizon_days).zip(&order) {
            path[day] = pool[j as usize];
        }
    }
}

/// Output number `counter`, from 0, of `SplitMix64` with this seed (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", OOPSLA 2014).
pub(crate) fn splitmix64(seed: u64, counter: u64) -> u64 {
    let z = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The numbers 0 … n−1 in ascending order of their keys, equal keys in ascending order.
///
/// Sorted are the upper bits of the keys with the number in place of the lower ones, which is
/// twice as fast as pairs. If upper bits coincide (once in some million blocks), the whole keys
/// decide.
fn argsort(n: usize, key: impl Fn(u64) -> u64, order: &mut Vec<u64>) {
    let number = n.next_power_of_two() as u64 - 1;
    order.clear();
    order.extend((0..n as u64).map(|j| (key(j) & !number) | j));
    order.sort_unstable();
    let coincide = order.windows(2).any(|pair| (pair[0] ^ pair[1]) <= number);
    order.iter_mut().for_each(|entry| *entry &= number);
    if coincide {
        order.sort_by_key(|&j| (key(j), j));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Measure;

    #[test]
    fn splitmix64_gives_the_published_numbers() {
        assert_eq!(
            [0, 1].map(|c| splitmix64(1_234_567, c)),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn coinciding_upper_bits_are_ordered_by_the_whole_key() {
        let keys = [9 << 60 | 3, 9 << 60 | 1, 5, 9 << 60 | 2, 4];
        let mut order = Vec::new();
        argsort(keys.len(), |j| keys[j as usize], &mut order);
        assert_eq!(order, [4, 2, 1, 3, 0]);
        argsort(3, |_| 7, &mut order);
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn every_block_takes_every_date_once_on_every_day() {
        let model = Model {
            n_scenarios: 250,
            horizon_days: 3,
            lookback: 1,
            decay: 1.0,
            multiplier: 1.0,
            volatility_floor: 0.0,
            seed: 7,
            measure: Measure::default(),
            confidence: 0.99,
            stress_weight: 0.0,
        };
        let pool: Vec<u32> = (1000..1100).collect();
        let mut paths = Paths::new(model, &pool, Run::default());
        let held = paths.hold(0).unwrap();
        assert_eq!(held.len(), 750);
        for block in held.chunks(300) {
            for day in 0..3 {
                let mut drawn: Vec<u32> = block.iter().skip(day).step_by(3).copied().collect();
                assert!(!drawn.is_sorted());
                drawn.sort_unstable();
                drawn.dedup();
                assert_eq!(drawn.len(), block.len() / 3);
                assert!(drawn.iter().all(|date| pool.contains(date)));
            }
        }
    }
}
