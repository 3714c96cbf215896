//! The history that scenarios are drawn from: standardised returns of every ticker on every date
//! that the request allows.

use fearless_simd::{Level, dispatch};

use crate::Date;
use crate::book::Valued;
use crate::check::{Fault, Place, Violations};
use crate::error::Error;
use crate::request::{Request, Window};
use crate::returns::{Ewma, burn_in};
use crate::revalue::{LANES, Tile};
use crate::run::Run;
use crate::store::{Contract, ReturnType};

/// The variance, relative to the square of the price for absolute returns, of a price that does not
/// move: nothing can be standardised by one this small.
const MIN_VARIANCE: f64 = 1e-16;

/// The tickers of a request, calibrated.
#[derive(Debug)]
pub(crate) struct History {
    /// Candidates for the pool, ascending; one shock of every tile each.
    dates: Vec<Date>,
    /// On how many tickers each date has a shock.
    n_shocks: Vec<usize>,
    pub(crate) tiles: Vec<Tile>,
    /// Tile and lane of each ticker.
    pub(crate) places: Vec<(usize, usize)>,
    /// Volatility of a day of each ticker after its last return, without the multiplier.
    pub(crate) sigmas: Vec<f64>,
}

/// What calibrating the tickers of one tile gives.
struct Calibrated {
    tile: Tile,
    n_shocks: Vec<usize>,
    sigmas: Vec<f64>,
}

impl History {
    pub(crate) fn calibrate(request: &Request, date: Date, level: Level, run: Run<'_>) -> Result<Self, Error> {
        let tickers = &request.book.tickers;
        let contract = |ticker: usize| &request.store.contracts()[tickers[ticker].contract];
        let histories = || (0..tickers.len()).map(|ticker| contract(ticker).returns.until(date).0);
        let shortest = histories().min_by_key(|days| days.len()).unwrap_or_default();
        let longest = histories().map(<[Date]>::len).max().unwrap_or_default();
        let dates = candidates(shortest, &request.window, date);
        let rows = Rows::new(&dates);
        let ewma = Ewma::new(request.model.decay, request.model.lookback, longest);

        // Not in the order of the positions, on which the sums must not depend.
        let mut order: Vec<usize> = (0..tickers.len()).collect();
        order.sort_unstable_by_key(|&ticker| (contract(ticker).return_type, tickers[ticker].contract));
        let of_one_type = order.chunk_by(|&a, &b| contract(a).return_type == contract(b).return_type);
        let groups: Vec<&[usize]> = of_one_type.flat_map(|group| group.chunks(LANES)).collect();
        let mut calibrated: Vec<Option<Calibrated>> = groups.iter().map(|_| None).collect();
        run.spread(groups.iter().zip(&mut calibrated), |(group, calibrated)| {
            let members: Vec<_> = group.iter().map(|&ticker| (&tickers[ticker], contract(ticker))).collect();
            let tile = dispatch!(level, _simd => Calibrated::new(&members, request, date, &ewma, &rows));
            *calibrated = Some(tile);
        })?;

        let mut history = Self {
            n_shocks: vec![0; dates.len()],
            dates,
            tiles: Vec::with_capacity(groups.len()),
            places: vec![(0, 0); tickers.len()],
            sigmas: vec![0.0; tickers.len()],
        };
        for (n_tile, (group, calibrated)) in groups.iter().zip(calibrated.into_iter().flatten()).enumerate() {
            for (lane, (&ticker, sigma)) in group.iter().zip(calibrated.sigmas).enumerate() {
                history.places[ticker] = (n_tile, lane);
                history.sigmas[ticker] = sigma;
            }
            history.n_shocks.iter_mut().zip(calibrated.n_shocks).for_each(|(sum, n)| *sum += n);
            history.tiles.push(calibrated.tile);
        }
        Ok(history)
    }

    /// Dates to draw from, ascending, as indices of shocks: those with a shock of every ticker.
    ///
    /// An added date that cannot be used is refused, since leaving out a date of stress would lower
    /// the margin.
    pub(crate) fn pool(&self, request: &Request, date: Date) -> Result<Vec<u32>, Error> {
        let n_tickers = self.places.len();
        let mut violations = Violations::default();
        for (n, added) in request.window.added.iter().enumerate() {
            let missing = match self.dates.binary_search(added) {
                Ok(row) if self.n_shocks[row] == n_tickers => continue,
                Ok(row) => self.places.iter().position(|&(tile, lane)| self.tiles[tile].shocks[row].g[lane] == 0.0),
                Err(_) => None,
            };
            let msg = match missing.map(|ticker| request.book.tickers[ticker].contract) {
                Some(contract) => {
                    format!("{added} has no usable return for {}", request.store.contracts()[contract].ticker)
                }
                None => format!("{added} is after {date}"),
            };
            violations.add(Place::Settings, &["addedDates".into(), n.into()], Fault::new("value_error.date", msg));
        }
        let usable = (0..self.dates.len()).filter(|&row| self.n_shocks[row] == n_tickers);
        let pool: Vec<u32> =
            usable.filter(|&row| !request.window.excluded.contains(&self.dates[row])).map(|row| row as u32).collect();
        if pool.is_empty() && violations.is_empty() {
            let fault =
                Fault::new("value_error.empty_pool", "no date of the window has a usable return for every ticker");
            violations.add(Place::Settings, &[], fault);
        }
        if violations.is_empty() { Ok(pool) } else { Err(violations.into_error()) }
    }

    pub(crate) fn date(&self, row: u32) -> Date {
        self.dates[row as usize]
    }
}

impl Calibrated {
    #[inline(always)]
    fn new(members: &[(&Valued, &Contract)], request: &Request, date: Date, ewma: &Ewma, rows: &Rows) -> Self {
        let return_type = members[0].1.return_type;
        let mut tile = Tile::new(return_type, rows.n_dates);
        let mut floor = [f64::INFINITY; LANES];
        for (lane, (valued, contract)) in members.iter().enumerate() {
            let (scale, unit) = match return_type {
                ReturnType::Log => (1.0, valued.price),
                ReturnType::Absolute => (valued.price.abs().max(1.0), 1.0),
            };
            floor[lane] = MIN_VARIANCE * scale * scale;
            tile.value[lane] = contract.size * valued.fx * unit;
            tile.net[lane] = valued.net;
        }

        // Side by side by their number; their days may differ.
        let histories: Vec<_> = members.iter().map(|(_, contract)| contract.returns.until(date)).collect();
        let longest = histories.iter().map(|(days, _)| days.len()).max().unwrap_or_default();
        let mut returns = vec![[0.0; LANES]; longest];
        for (n, returns) in returns.iter_mut().enumerate() {
            for (r, (_, history)) in returns.iter_mut().zip(&histories) {
                *r = history.get(n).copied().unwrap_or_default();
            }
        }
        let variances = ewma.forecast(&returns);
        let is_shared = histories.iter().all(|(days, _)| std::ptr::eq(*days, histories[0].0));
        let mut n_shocks = vec![0; rows.n_dates];
        for (n, (r, v)) in returns.iter().zip(&variances).enumerate().skip(burn_in(request.model.lookback)) {
            let shock = ewma.shock(r, v, &floor);
            if is_shared {
                if let Some(row) = rows.of(histories[0].0[n]) {
                    tile.shocks[row] = shock;
                    n_shocks[row] = shock.g.iter().filter(|g| **g != 0.0).count();
                }
                continue;
            }
            for (lane, (days, _)) in histories.iter().enumerate() {
                if let Some(row) = days.get(n).and_then(|&day| rows.of(day))
                    && shock.g[lane] != 0.0
                {
                    tile.shocks[row].z[lane] = shock.z[lane];
                    tile.shocks[row].g[lane] = shock.g[lane];
                    n_shocks[row] += 1;
                }
            }
        }
        let last = histories.iter().enumerate().map(|(lane, (days, _))| variances[days.len()][lane]);
        let sigmas: Vec<f64> = last.map(f64::sqrt).collect();
        tile.sigma.iter_mut().zip(&sigmas).for_each(|(scaled, sigma)| *scaled = request.model.multiplier * sigma);
        Self { tile, n_shocks, sigmas }
    }
}

/// The days of a history up to `date` that are in the window, and the added dates.
fn candidates(days: &[Date], window: &Window, date: Date) -> Vec<Date> {
    let from = window.start.map_or(0, |start| days.partition_point(|day| *day < start));
    let to = window.end.map_or(days.len(), |end| days.partition_point(|day| *day <= end));
    let added = window.added.iter().filter(|added| **added <= date);
    let mut dates: Vec<Date> = days[from.min(to)..to].iter().chain(added).copied().collect();
    dates.sort_unstable();
    dates.dedup();
    dates
}

/// Place of each day among the candidates.
struct Rows {
    n_dates: usize,
    first: Option<Date>,
    /// From the first candidate to the last; `u32::MAX` for days between that are none.
    of_day: Vec<u32>,
}

impl Rows {
    fn new(dates: &[Date]) -> Self {
        let mut of_day = Vec::new();
        for (row, day) in dates.iter().enumerate() {
            of_day.resize(day.days_since(dates[0]) as usize, u32::MAX);
            of_day.push(row as u32);
        }
        Self { n_dates: dates.len(), first: dates.first().copied(), of_day }
    }

    fn of(&self, day: Date) -> Option<usize> {
        let row = self.of_day.get(usize::try_from(day.days_since(self.first?)).ok()?)?;
        (*row != u32::MAX).then_some(*row as usize)
    }
}
