//! Sample market data: twelve invented futures in three currencies, with the holidays of four
//! calendars, from 2005-01-03 to 2024-12-31.
//!
//! It takes nothing but additions, multiplications, divisions and square roots of doubles, and
//! integers, so any language makes the same bytes of it.

use std::fmt::Write as _;

use crate::Date;
use crate::scenario::splitmix64;

/// Names and contents of contracts.csv, prices.csv and fx.csv, whose rates are in USD.
pub fn files() -> [(&'static str, String); 3] {
    let mut simulation = Simulation::new();
    let mut prices = String::from("date,ticker,settle\n");
    let mut fx = String::from("date,currency,rate\n");
    let mut day = date(2005, 1, 3);
    let last = date(2024, 12, 31);
    while day <= last {
        if !day.is_weekend() {
            simulation.step(day, &mut prices, &mut fx);
        }
        day = day.tomorrow();
    }
    [("contracts.csv", CONTRACTS.to_owned()), ("prices.csv", prices), ("fx.csv", fx)]
}

const CONTRACTS: &str = "\
ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,lastTradeDate
XEQ1,Sample US large-cap index,XSIM,USD,50,0.25,log,,
XEQ2,Sample US technology index,XSIM,USD,20,0.25,log,,
XEQ3,Sample euro-area index,XSIE,EUR,10,1.0,log,,
XEQ4,Sample Japan index,XSIJ,JPY,1000,5.0,log,,
XBD1,Sample US 10-year note,XSIM,USD,1000,0.015625,log,,
XBD2,Sample euro 10-year bond,XSIE,EUR,1000,0.01,log,,
XIR1,Sample 3-month rate,XSIM,USD,2500,0.0025,absolute,,
XFX1,Sample EUR/USD,XSIM,USD,125000,5e-05,log,,
XCM1,Sample crude oil,XSIN,USD,1000,0.01,log,,
XCM2,Sample natural gas,XSIN,USD,10000,0.001,log,,
XCM3,Sample gold,XSIN,USD,100,0.1,log,,
XSP1,Sample calendar spread,XSIN,USD,1000,0.01,absolute,,
";

/// How a future moves.
struct Future {
    ticker: &'static str,
    moves: Moves,
    sector: Sector,
    /// Months and days without trading.
    holidays: &'static [(i32, i32)],
    tick: f64,
    /// Decimals of its settlements.
    decimals: usize,
    /// First price, and the level that later ones are drawn to.
    start: f64,
    /// Growth of that level per day, of `start`.
    growth: f64,
    /// Per year; in tenths of a unit of price for absolute moves.
    volatility: f64,
    /// Loading of the factor that all share.
    beta: f64,
}

#[derive(PartialEq)]
enum Moves {
    Relative,
    Absolute,
}

#[derive(Clone, Copy)]
enum Sector {
    Equity,
    Bond,
    Currency,
    Energy,
    Metal,
}

const US: &[(i32, i32)] = &[(1, 1), (7, 4), (12, 25)];
const EUROPE: &[(i32, i32)] = &[(1, 1), (5, 1), (12, 25), (12, 26)];
const JAPAN: &[(i32, i32)] =
    &[(1, 1), (1, 2), (1, 3), (2, 11), (4, 29), (5, 3), (5, 4), (5, 5), (11, 3), (11, 23)];
const BRITAIN: &[(i32, i32)] = &[(1, 1), (12, 25), (12, 26)];

use Moves::{Absolute, Relative};
use Sector::{Bond, Currency, Energy, Equity, Metal};

#[rustfmt::skip]
const FUTURES: [Future; 12] = [
    Future { ticker: "XEQ1", moves: Relative, sector: Equity,   holidays: US,      tick: 0.25,     decimals: 2, start: 1200.0,  growth: 0.0006,  volatility: 0.17,  beta: 0.80 },
    Future { ticker: "XEQ2", moves: Relative, sector: Equity,   holidays: US,      tick: 0.25,     decimals: 2, start: 1600.0,  growth: 0.0012,  volatility: 0.22,  beta: 0.75 },
    Future { ticker: "XEQ3", moves: Relative, sector: Equity,   holidays: EUROPE,  tick: 1.0,      decimals: 0, start: 2950.0,  growth: 0.0001,  volatility: 0.20,  beta: 0.70 },
    Future { ticker: "XEQ4", moves: Relative, sector: Equity,   holidays: JAPAN,   tick: 5.0,      decimals: 0, start: 11500.0, growth: 0.0004,  volatility: 0.21,  beta: 0.50 },
    Future { ticker: "XBD1", moves: Relative, sector: Bond,     holidays: US,      tick: 0.015625, decimals: 6, start: 112.0,   growth: 0.0,     volatility: 0.06,  beta: -0.30 },
    Future { ticker: "XBD2", moves: Relative, sector: Bond,     holidays: EUROPE,  tick: 0.01,     decimals: 2, start: 118.0,   growth: 2e-05,   volatility: 0.055, beta: -0.30 },
    Future { ticker: "XIR1", moves: Absolute, sector: Bond,     holidays: US,      tick: 0.0025,   decimals: 4, start: 97.2,    growth: 0.0,     volatility: 7.0,   beta: -0.20 },
    Future { ticker: "XFX1", moves: Relative, sector: Currency, holidays: US,      tick: 0.00005,  decimals: 5, start: 1.35,    growth: -3e-05,  volatility: 0.09,  beta: 0.10 },
    Future { ticker: "XCM1", moves: Relative, sector: Energy,   holidays: US,      tick: 0.01,     decimals: 2, start: 43.0,    growth: 0.0001,  volatility: 0.34,  beta: 0.35 },
    Future { ticker: "XCM2", moves: Relative, sector: Energy,   holidays: US,      tick: 0.001,    decimals: 3, start: 6.0,     growth: -0.0001, volatility: 0.48,  beta: 0.08 },
    Future { ticker: "XCM3", moves: Relative, sector: Metal,    holidays: US,      tick: 0.1,      decimals: 1, start: 430.0,   growth: 0.0008,  volatility: 0.16,  beta: 0.02 },
    Future { ticker: "XSP1", moves: Absolute, sector: Energy,   holidays: BRITAIN, tick: 0.01,     decimals: 2, start: 0.35,    growth: 0.0,     volatility: 9.0,   beta: 0.05 },
];

/// First and last day, and how much larger moves are.
const CRISES: [(&str, &str, f64); 4] = [
    ("2008-09-15", "2009-03-31", 2.6),
    ("2011-08-01", "2011-10-31", 1.6),
    ("2020-02-24", "2020-04-30", 3.0),
    ("2022-02-24", "2022-10-31", 1.4),
];

const SECTOR_LOADING: f64 = 0.45;
const SQRT_252: f64 = 15.874_507_866_387_544;

struct Rate {
    currency: &'static str,
    value: f64,
    mean: f64,
    volatility: f64,
    decimals: usize,
}

struct Simulation {
    n_days: usize,
    n_drawn: u64,
    /// Variances, of mean 1, of the market and the five sectors.
    factors: [f64; 6],
    /// Variances, of mean 1, of what is each future's own.
    own: [f64; 12],
    levels: [f64; 12],
    rates: [Rate; 2],
}

impl Simulation {
    fn new() -> Self {
        Self {
            n_days: 0,
            n_drawn: 0,
            factors: [1.0; 6],
            own: [1.0; 12],
            levels: FUTURES.map(|future| future.start),
            rates: [
                Rate { currency: "EUR", value: 1.35, mean: 1.15, volatility: 0.09, decimals: 6 },
                Rate {
                    currency: "JPY",
                    value: 0.0097,
                    mean: 0.0085,
                    volatility: 0.10,
                    decimals: 8,
                },
            ],
        }
    }

    /// Adds the rows of one day.
    fn step(&mut self, day: Date, prices: &mut String, fx: &mut String) {
        let today = day.to_string();
        let crisis = CRISES.iter().find(|(from, to, _)| (*from..=*to).contains(&today.as_str()));
        let stress = crisis.map_or(1.0, |(_, _, stress)| *stress);
        let mut factors = [0.0; 6];
        for (n, factor) in factors.iter_mut().enumerate() {
            let e = self.shock();
            *factor = self.factors[n].sqrt() * e;
            self.factors[n] = 0.03 + 0.07 * self.factors[n] * e * e + 0.90 * self.factors[n];
        }
        let (_, month, of_month) = day.year_month_day();
        for (n, future) in FUTURES.iter().enumerate() {
            let e = self.shock();
            let own = self.own[n].sqrt() * e;
            self.own[n] = 0.04 + 0.06 * self.own[n] * e * e + 0.90 * self.own[n];
            let common =
                future.beta * factors[0] + SECTOR_LOADING * factors[1 + future.sector as usize];
            let rest = 1.0 - future.beta * future.beta - SECTOR_LOADING * SECTOR_LOADING;
            let r =
                (common + rest.max(0.05).sqrt() * own) * (future.volatility * stress / SQRT_252);
            if self.n_days > 0 {
                self.levels[n] = future.moved(self.levels[n], r, self.n_days as f64);
            }
            if !future.holidays.contains(&(month, of_month)) {
                let settle = (self.levels[n] / future.tick + 0.5).floor() * future.tick;
                add(prices, format_args!("{day},{},{settle:.*}\n", future.ticker, future.decimals));
            }
        }
        for n in 0..self.rates.len() {
            let e = self.shock();
            let rate = &mut self.rates[n];
            if self.n_days > 0 {
                rate.value *= 1.0
                    + e * rate.volatility * (1.0 + 0.3 * (stress - 1.0)) / SQRT_252
                    + 0.002 * (rate.mean / rate.value - 1.0);
            }
            add(fx, format_args!("{day},{},{:.*}\n", rate.currency, rate.decimals, rate.value));
        }
        self.n_days += 1;
    }

    /// Of mean 0, variance 1 and fat tails: the sum of twelve uniform numbers, three times as large
    /// on 3 % of the days.
    fn shock(&mut self) -> f64 {
        let sum = (0..12).fold(0.0, |sum, _| sum + self.uniform());
        let factor = if self.uniform() < 0.03 { 3.0 } else { 1.0 };
        (sum - 6.0) * factor / 1.24_f64.sqrt()
    }

    /// From 0 to 1, without 1.
    fn uniform(&mut self) -> f64 {
        let bits = splitmix64(20_050_103, self.n_drawn);
        self.n_drawn += 1;
        (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }
}

impl Future {
    /// The next level after `level`, with the random move `r`, on day `n_days`.
    fn moved(&self, level: f64, r: f64, n_days: f64) -> f64 {
        if self.moves == Absolute {
            return level + 0.004 * (self.start - level) + r * 0.1;
        }
        let target = self.start * (1.0 + self.growth * n_days);
        let next = level * (1.0 + r.max(-0.5) + 0.001 * (target / level - 1.0));
        next.max(20.0 * self.tick)
    }
}

fn date(year: u16, month: u8, day: u8) -> Date {
    Date::new(year, month, day).expect("written here as a day of the calendar")
}

fn add(file: &mut String, row: std::fmt::Arguments<'_>) {
    file.write_fmt(row).expect("a String takes everything");
}
