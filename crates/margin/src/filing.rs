//! The answer as CSV that stands by itself: a row for each position and one for the total, with the
//! day, the exchange rates and how the number came about.
//!
//! [`Report::csv`] has no place for these: its columns and rows are documented, and programs count on
//! them. This one is for who files it, and opens it in a spreadsheet.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::Date;
use crate::report::{COLUMNS, Report, Row, Simulation, quoted};

/// After those of [`Report::csv`]. The first four are of every row, the others of the total's alone.
const FURTHER: [&str; 28] = [
    "dailySigma",
    "exchangeRate",
    "initialMarginConverted",
    "marginDate",
    "riskMeasure",
    "confidence",
    "expectedShortfall",
    "valueAtRisk",
    "stressAddOn",
    "numScenarios",
    "timeHorizonDays",
    "poolDates",
    "firstPoolDate",
    "lastPoolDate",
    "seed",
    "volatilityLookbackDays",
    "ewmaDecayFactor",
    "volatilityMultiplier",
    "volatilityFloor",
    "startDate",
    "endDate",
    "addedDates",
    "excludedDates",
    "stressStartDate",
    "stressEndDate",
    "stressWeight",
    "marketData",
    "warnings",
];

impl Report {
    /// A header, a line for each position and a line for the total, whose `positionType` is `total`.
    ///
    /// The columns of [`Self::csv`] come first and have the same names. Amounts have two decimals,
    /// weights six, volatilities of a day eight; sizes, quantities and exchange rates are as they
    /// are. `market_data` is the digest of the market data.
    pub fn filing(&self, market_data: &str) -> String {
        let mut csv = COLUMNS.join(",");
        for column in FURTHER {
            csv.push(',');
            csv.push_str(column);
        }
        csv.push('\n');
        let simulation = self.summary.simulation.as_ref();
        let facts = Facts::of(simulation);
        let mut sums = [0.0; 3];
        for row in &self.rows {
            let rate = facts.rate(row);
            sums[0] += rate * row.entry_market_value;
            sums[1] += rate * row.current_market_value;
            sums[2] += rate * row.variation_margin;
            append_line(&mut csv, &facts.of_position(row));
        }
        append_line(&mut csv, &self.total(sums, market_data));
        csv
    }

    /// Values of the total's line, where `sums` are the market values at entry and on the day and the
    /// variation margin, in the currency of the totals.
    fn total(&self, [entry, current, variation]: [f64; 3], market_data: &str) -> Vec<String> {
        let summary = &self.summary;
        let of = |value: &dyn Fn(&Simulation) -> String| {
            summary.simulation.as_ref().map(value).unwrap_or_default()
        };
        let nothing = String::new;
        let measure = |s: &Simulation| {
            if s.is_value_at_risk { "value_at_risk" } else { "expected_shortfall" }.to_owned()
        };
        vec![
            "total".to_owned(),
            "total".to_owned(),
            of(&|s| quoted(&s.base_currency).into_owned()),
            nothing(),
            fixed(entry, 2),
            fixed(current, 2),
            fixed(summary.initial_margin, 2),
            fixed(summary.maintenance_margin, 2),
            fixed(variation, 2),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            of(&|_| "1".to_owned()),
            fixed(summary.initial_margin, 2),
            self.margin_date.map(|date| date.to_string()).unwrap_or_default(),
            of(&measure),
            of(&|s| s.confidence.to_string()),
            of(&|s| fixed(s.expected_shortfall, 2)),
            of(&|s| fixed(s.value_at_risk, 2)),
            of(&|s| s.stress.map(|stress| fixed(stress.add_on, 2)).unwrap_or_default()),
            of(&|s| s.n_scenarios.to_string()),
            of(&|s| s.horizon_days.to_string()),
            of(&|s| s.n_pool_dates.to_string()),
            of(&|s| s.first_pool_date.to_string()),
            of(&|s| s.last_pool_date.to_string()),
            of(&|s| s.seed.to_string()),
            of(&|s| s.settings.lookback.to_string()),
            of(&|s| s.settings.decay.to_string()),
            of(&|s| s.settings.multiplier.to_string()),
            of(&|s| s.settings.volatility_floor.to_string()),
            of(&|s| dates(s.settings.window.0)),
            of(&|s| dates(s.settings.window.1)),
            of(&|s| dates(s.settings.added.iter().copied())),
            of(&|s| dates(s.settings.excluded.iter().copied())),
            of(&|s| dates(s.settings.stress.map(|(first, _)| first))),
            of(&|s| dates(s.settings.stress.map(|(_, last)| last))),
            of(&|s| s.settings.stress_weight.to_string()),
            quoted(market_data).into_owned(),
            quoted(&self.warnings.join("; ")).into_owned(),
        ]
    }
}

/// What the lines of positions have besides the rows.
struct Facts<'r> {
    sigmas: HashMap<&'r str, f64>,
    rates: &'r [(Arc<str>, f64)],
    margin_date: String,
}

impl<'r> Facts<'r> {
    fn of(simulation: Option<&'r Simulation>) -> Self {
        let Some(simulation) = simulation else {
            return Self { sigmas: HashMap::new(), rates: &[], margin_date: String::new() };
        };
        let sigmas = simulation.sigmas.iter().map(|(ticker, sigma)| (&**ticker, *sigma));
        Self {
            sigmas: sigmas.collect(),
            rates: &simulation.rates,
            margin_date: simulation.margin_date.to_string(),
        }
    }

    /// Of the currency of a row in that of the totals.
    fn rate(&self, row: &Row) -> f64 {
        let other = self.rates.iter().find(|(currency, _)| *currency == row.currency);
        other.map_or(1.0, |(_, rate)| *rate)
    }

    fn of_position(&self, row: &Row) -> Vec<String> {
        let rate = self.rate(row);
        let sigma = self.sigmas.get(&*row.ticker).map(|sigma| fixed(*sigma, 8));
        let mut values = vec![
            quoted(&row.ticker).into_owned(),
            row.side.as_str().to_owned(),
            quoted(&row.currency).into_owned(),
            row.entry_date.to_string(),
            fixed(row.entry_market_value, 2),
            fixed(row.current_market_value, 2),
            fixed(row.initial_margin, 2),
            fixed(row.maintenance_margin, 2),
            fixed(row.variation_margin, 2),
            row.size.to_string(),
            row.quantity.to_string(),
            fixed(row.portfolio_weight, 6),
            sigma.unwrap_or_default(),
            rate.to_string(),
            fixed(rate * row.initial_margin, 2),
            self.margin_date.clone(),
        ];
        values.resize(COLUMNS.len() + FURTHER.len(), String::new());
        values
    }
}

fn append_line(csv: &mut String, values: &[String]) {
    writeln!(csv, "{}", values.join(",")).expect("a String takes everything");
}

/// Days of a list, separated by semicolons; none is an empty field.
fn dates(dates: impl IntoIterator<Item = Date>) -> String {
    let dates: Vec<String> = dates.into_iter().map(|date| date.to_string()).collect();
    dates.join(";")
}

/// A number with so many decimals, and no minus in front of a zero.
fn fixed(number: f64, n_decimals: usize) -> String {
    let text = format!("{number:.n_decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|byte| matches!(byte, b'0' | b'.')) => digits.to_owned(),
        _ => text,
    }
}
