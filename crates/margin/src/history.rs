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
use crate::revalue::{LANES, Lanes, Shock, Tile};
use crate::run::Run;
use crate::store::{Contract, ReturnType};

/// The variance, relative to the square of the price for absolute returns, of a price that does not
/// move: nothing can be standardised by one this small.
const MIN_VARIANCE: f64 = 1e-16;

/// How days of the history become shocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Standardised by the volatility of their time, and scaled to today's.
    Filtered,
    /// As large as they were, from a first to a last day, each by itself.
    Stress(Date, Date),
}

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
    /// Volatility of a day of each ticker after its last return, at least the floor, without the
    /// multiplier.
    pub(crate) sigmas: Vec<f64>,
    /// On how many tickers the floor holds.
    pub(crate) n_floored: usize,
}

/// A return that is large by the volatility of its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extreme {
    /// Dates that have one.
    pub(crate) n_dates: usize,
    pub(crate) ticker: usize,
    pub(crate) date: Date,
    /// How many times the volatility it is.
    pub(crate) times: f64,
}

struct Calibrated {
    tile: Tile,
    n_shocks: Vec<usize>,
    sigmas: Vec<f64>,
    n_floored: usize,
}

impl History {
    pub(crate) fn calibrate(
        request: &Request,
        date: Date,
        kind: Kind,
        level: Level,
        run: Run<'_>,
    ) -> Result<Self, Error> {
        let tickers = &request.book.tickers;
        let contract = |ticker: usize| &request.store.contracts()[tickers[ticker].contract];
        let histories: Vec<&[Date]> =
            (0..tickers.len()).map(|ticker| contract(ticker).returns.until(date).0).collect();
        let shortest = histories.iter().copied().min_by_key(|days| days.len()).unwrap_or_default();
        let longest = histories.iter().map(|days| days.len()).max().unwrap_or_default();
        let dates = match kind {
            Kind::Filtered => candidates(shortest, &request.window, date),
            Kind::Stress(first, last) => {
                let stress = Window { start: Some(first), end: Some(last), ..Window::default() };
                candidates(shortest, &stress, date)
            }
        };
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
            *calibrated = Some(match kind {
                Kind::Filtered => {
                    dispatch!(level, _simd => Calibrated::new(&members, request, date, &ewma, &dates))
                }
                Kind::Stress(..) => Calibrated::as_it_was(&members, date, &dates),
            });
        })?;

        let mut history = Self {
            n_shocks: vec![0; dates.len()],
            dates,
            tiles: Vec::with_capacity(groups.len()),
            places: vec![(0, 0); tickers.len()],
            sigmas: vec![0.0; tickers.len()],
            n_floored: 0,
        };
        for (n_tile, (group, calibrated)) in
            groups.iter().zip(calibrated.into_iter().flatten()).enumerate()
        {
            for (lane, (&ticker, sigma)) in group.iter().zip(calibrated.sigmas).enumerate() {
                history.places[ticker] = (n_tile, lane);
                history.sigmas[ticker] = sigma;
            }
            history.n_shocks.iter_mut().zip(calibrated.n_shocks).for_each(|(sum, n)| *sum += n);
            history.n_floored += calibrated.n_floored;
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
        let pool: Vec<u32> = self
            .usable()
            .filter(|&row| !request.window.excluded.contains(&self.date(row)))
            .collect();
        if pool.is_empty() && violations.is_empty() {
            let mut msg = "no date of the window has a usable return for every ticker".to_owned();
            if let Some(ticker) = self.ticker_without_shocks() {
                let contract = request.book.tickers[ticker].contract;
                msg += &format!(
                    "; {} has none there: it has no prices, or they never moved",
                    request.store.contracts()[contract].ticker
                );
            }
            let error = ValueError::new("value_error.empty_pool", msg);
            violations.add(Place::Settings, &[], error);
        }
        if violations.is_empty() { Ok(pool) } else { Err(violations.into_error()) }
    }

    /// The largest return of a pool by the volatility that was forecast for its day, if that is
    /// more than `most` times, and on how many dates there is such a one.
    pub(crate) fn extreme(&self, request: &Request, pool: &[u32], most: f64) -> Option<Extreme> {
        let mut largest: Option<Extreme> = None;
        let mut n_dates = 0;
        for row in pool {
            let places = self.places.iter().enumerate();
            let held = places.filter(|(ticker, _)| request.book.tickers[*ticker].net != 0.0);
            let times = held.map(|(ticker, &(tile, lane))| {
                (self.tiles[tile].shocks[*row as usize].z[lane].abs(), ticker)
            });
            let Some((times, ticker)) = times.reduce(|a, b| if b.0 > a.0 { b } else { a }) else {
                continue;
            };
            n_dates += usize::from(times > most);
            if times > largest.as_ref().map_or(most, |largest| largest.times) {
                largest = Some(Extreme { n_dates, ticker, date: self.date(*row), times });
            }
        }
        largest.map(|largest| Extreme { n_dates, ..largest })
    }

    /// The days of a time of stress to draw from.
    pub(crate) fn stress_pool(&self, first: Date, last: Date) -> Result<Vec<u32>, Error> {
        let pool: Vec<u32> = self.usable().collect();
        if pool.is_empty() {
            let mut violations = Violations::default();
            let msg = format!("no day from {first} to {last} has a return of every ticker");
            let error = ValueError::new("value_error.empty_pool", msg);
            violations.add(Place::Settings, &["stressStartDate".into()], error);
            return Err(violations.into_error());
        }
        Ok(pool)
    }

    /// The first ticker without any shock: its price never moved, or its history is elsewhere.
    fn ticker_without_shocks(&self) -> Option<usize> {
        self.places.iter().filter(|_| !self.dates.is_empty()).position(|&(tile, lane)| {
            self.tiles[tile].shocks.iter().all(|shocks| shocks.g[lane] == 0.0)
        })
    }

    fn usable(&self) -> impl Iterator<Item = u32> {
        let n_tickers = self.places.len();
        let n_shocks = self.n_shocks.iter().zip(0..);
        n_shocks.filter(move |(n, _)| **n == n_tickers).map(|(_, row)| row)
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
        let mut tile = tile_of(members, dates.len());
        let mut floor = [f64::INFINITY; LANES];
        for (lane, (valued, _)) in members.iter().enumerate() {
            let scale = match tile.return_type {
                ReturnType::Log => 1.0,
                ReturnType::Absolute => valued.price.abs().max(1.0),
            };
            floor[lane] = MIN_VARIANCE * scale * scale;
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
        let mut n_floored = 0;
        let sigmas = histories.iter().enumerate().map(|(lane, (days, returns))| {
            let sigma = variances[days.len()][lane].sqrt();
            let least = request.model.volatility_floor * of_all(returns);
            n_floored += usize::from(least > sigma);
            sigma.max(least)
        });
        let sigmas: Vec<f64> = sigmas.collect();
        tile.sigma
            .iter_mut()
            .zip(&sigmas)
            .for_each(|(scaled, sigma)| *scaled = request.model.multiplier * sigma);
        Self { tile, n_shocks, sigmas, n_floored }
    }

    /// Returns that nothing is done to: the volatility is one, and no day changes that of the next.
    fn as_it_was(members: &[(&Valued, &Contract)], date: Date, dates: &[Date]) -> Self {
        let mut tile = tile_of(members, dates.len());
        let histories: Vec<_> =
            members.iter().map(|(_, contract)| contract.returns.until(date)).collect();
        let mut n_shocks = Vec::with_capacity(dates.len());
        for date in dates {
            let mut shock = Shock::NONE;
            for (lane, (days, returns)) in histories.iter().enumerate() {
                if let Ok(n) = days.binary_search(date) {
                    shock.z[lane] = returns[n];
                    shock.g[lane] = 1.0;
                }
            }
            n_shocks.push(shock.g.iter().filter(|g| **g != 0.0).count());
            tile.shocks.push(shock);
        }
        tile.sigma = [1.0; LANES];
        Self { tile, n_shocks, sigmas: vec![1.0; members.len()], n_floored: 0 }
    }
}

/// A tile of contracts with their values, and without shocks.
#[inline(always)]
fn tile_of(members: &[(&Valued, &Contract)], n_dates: usize) -> Tile {
    let return_type = members[0].1.return_type;
    let mut tile = Tile::new(return_type, n_dates);
    for (lane, (valued, contract)) in members.iter().enumerate() {
        let unit = match return_type {
            ReturnType::Log => valued.price,
            ReturnType::Absolute => 1.0,
        };
        tile.value[lane] = contract.size * valued.fx * unit;
        tile.net[lane] = valued.net;
    }
    tile
}

/// The volatility of a day over all returns: √(mean of r²).
fn of_all(returns: &[f64]) -> f64 {
    let squares: f64 = returns.iter().map(|r| r * r).sum();
    (squares / returns.len().max(1) as f64).sqrt()
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
