//! The history that scenarios are drawn from: standardised returns of every ticker on every date
//! that the request allows.

use std::ops::Range;
use std::ptr;

use fearless_simd::{Level, dispatch};

use crate::Date;
use crate::book::Valued;
use crate::check::{Place, ValueError, Violations};
use crate::error::Error;
use crate::model::Window;
use crate::request::Request;
use crate::returns::{Ewma, burn_in};
use crate::revalue::{LANES, Lanes, Tile};
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

struct Calibrated {
    tile: Tile,
    n_shocks: Vec<usize>,
    sigmas: Vec<f64>,
}

impl History {
    pub(crate) fn calibrate(
        request: &Request,
        date: Date,
        level: Level,
        run: Run<'_>,
    ) -> Result<Self, Error> {
        let tickers = &request.book.tickers;
        let contract = |ticker: usize| &request.store.contracts()[tickers[ticker].contract];
        let histories: Vec<&[Date]> =
            (0..tickers.len()).map(|ticker| contract(ticker).returns.until(date).0).collect();
        let shortest = histories.iter().copied().min_by_key(|days| days.len()).unwrap_or_default();
        let longest = histories.iter().map(|days| days.len()).max().unwrap_or_default();
        let dates = candidates(shortest, &request.window, date);
        let ewma = Ewma::new(request.model.decay, request.model.lookback, longest);

        // Not in the order of the positions, on which the sums must not depend.
        let mut order: Vec<usize> = (0..tickers.len()).collect();
        order.sort_unstable_by_key(|&ticker| {
            (contract(ticker).return_type, tickers[ticker].contract)
        });
        // Side by side in the lanes of a tile, which took 20 ms off the 92 of a whole margin.
        let of_one_type =
            order.chunk_by(|&a, &b| contract(a).return_type == contract(b).return_type);
        let groups: Vec<&[usize]> = of_one_type.flat_map(|group| group.chunks(LANES)).collect();
        let mut calibrated: Vec<Option<Calibrated>> = groups.iter().map(|_| None).collect();
        run.spread(groups.iter().zip(&mut calibrated), |(group, calibrated)| {
            let members: Vec<_> =
                group.iter().map(|&ticker| (&tickers[ticker], contract(ticker))).collect();
            let tile =
                dispatch!(level, _simd => Calibrated::new(&members, request, date, &ewma, &dates));
            *calibrated = Some(tile);
        })?;

        let mut history = Self {
            n_shocks: vec![0; dates.len()],
            dates,
            tiles: Vec::with_capacity(groups.len()),
            places: vec![(0, 0); tickers.len()],
            sigmas: vec![0.0; tickers.len()],
        };
        for (n_tile, (group, calibrated)) in
            groups.iter().zip(calibrated.into_iter().flatten()).enumerate()
        {
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
                Ok(row) => self
                    .places
                    .iter()
                    .position(|&(tile, lane)| self.tiles[tile].shocks[row].g[lane] == 0.0),
                Err(_) => None,
            };
            let msg = match missing.map(|ticker| request.book.tickers[ticker].contract) {
                Some(contract) => {
                    format!(
                        "{added} has no usable return for {}",
                        request.store.contracts()[contract].ticker
                    )
                }
                None => format!("{added} is after {date}"),
            };
            violations.add(
                Place::Settings,
                &["addedDates".into(), n.into()],
                ValueError::new("value_error.date", msg),
            );
        }
        let usable = (0..self.dates.len()).filter(|&row| self.n_shocks[row] == n_tickers);
        let pool: Vec<u32> = usable
            .filter(|&row| !request.window.excluded.contains(&self.dates[row]))
            .map(|row| row as u32)
            .collect();
        if pool.is_empty() && violations.is_empty() {
            let error = ValueError::new(
                "value_error.empty_pool",
                "no date of the window has a usable return for every ticker",
            );
            violations.add(Place::Settings, &[], error);
        }
        if violations.is_empty() { Ok(pool) } else { Err(violations.into_error()) }
    }

    pub(crate) fn date(&self, row: u32) -> Date {
        self.dates[row as usize]
    }
}

impl Calibrated {
    #[inline(always)]
    fn new(
        members: &[(&Valued, &Contract)],
        request: &Request,
        date: Date,
        ewma: &Ewma,
        dates: &[Date],
    ) -> Self {
        let return_type = members[0].1.return_type;
        let mut tile = Tile::new(return_type, dates.len());
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

        let histories: Vec<_> =
            members.iter().map(|(_, contract)| contract.returns.until(date)).collect();
        let returns = side_by_side(&histories);
        let variances = ewma.forecast(&returns);
        let burn_in = burn_in(request.model.lookback);
        let mut calendars = Calendar::all(&histories);
        let mut n_shocks = Vec::with_capacity(dates.len());
        for &date in dates {
            let mut r = [0.0; LANES];
            let mut v = [0.0; LANES];
            for calendar in &mut calendars {
                if let Some(n) = calendar.find(date)
                    && n >= burn_in
                {
                    let lanes = calendar.lanes.clone();
                    r[lanes.clone()].copy_from_slice(&returns[n][lanes.clone()]);
                    v[lanes.clone()].copy_from_slice(&variances[n][lanes]);
                }
            }
            let shock = ewma.shock(&r, &v, &floor);
            n_shocks.push(shock.g.iter().filter(|g| **g != 0.0).count());
            tile.shocks.push(shock);
        }
        let last =
            histories.iter().enumerate().map(|(lane, (days, _))| variances[days.len()][lane]);
        let sigmas: Vec<f64> = last.map(f64::sqrt).collect();
        tile.sigma
            .iter_mut()
            .zip(&sigmas)
            .for_each(|(scaled, sigma)| *scaled = request.model.multiplier * sigma);
        Self { tile, n_shocks, sigmas }
    }
}

/// The first returns of all histories, the second, and so on, whatever their days; 0 after the
/// last.
#[inline(always)]
fn side_by_side(histories: &[(&[Date], &[f64])]) -> Vec<Lanes> {
    let longest = histories.iter().map(|(days, _)| days.len()).max().unwrap_or_default();
    let mut rows = vec![[0.0; LANES]; longest];
    for (n, row) in rows.iter_mut().enumerate() {
        for (r, (_, returns)) in row.iter_mut().zip(histories) {
            *r = returns.get(n).copied().unwrap_or_default();
        }
    }
    rows
}

/// Days that histories side by side have in common.
struct Calendar<'d> {
    days: &'d [Date],
    lanes: Range<usize>,
    /// Number of days before the last that was looked for.
    n: usize,
}

impl<'d> Calendar<'d> {
    fn all(histories: &[(&'d [Date], &[f64])]) -> Vec<Self> {
        let mut calendars = Vec::new();
        let mut lane = 0;
        for same in histories.chunk_by(|a, b| ptr::eq(a.0, b.0)) {
            calendars.push(Self { days: same[0].0, lanes: lane..lane + same.len(), n: 0 });
            lane += same.len();
        }
        calendars
    }

    /// Place of a date among the days; dates are asked for in ascending order.
    fn find(&mut self, date: Date) -> Option<usize> {
        self.n += self.days[self.n..].iter().take_while(|day| **day < date).count();
        (self.days.get(self.n) == Some(&date)).then_some(self.n)
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
