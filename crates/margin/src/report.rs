//! The answer: a row per position and the totals, as CSV, JSON, XML or YAML.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use quick_xml::escape::escape;
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use crate::{Date, Side};

/// Margin of a portfolio.
///
/// Serializes as `{rows, summary, warnings}`, with `worstScenarios` and `losses` where they were
/// asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Day of the valuation; none for an empty portfolio without a date.
    #[serde(skip)]
    pub margin_date: Option<Date>,
    /// One per position, in the order of the request.
    pub rows: Vec<Row>,
    /// Totals.
    pub summary: Summary,
    /// The worst scenarios, the worst first; none where they were not asked for.
    #[serde(rename = "worstScenarios", skip_serializing_if = "Option::is_none")]
    pub worst_scenarios: Option<Vec<Scenario>>,
    /// The loss of each scenario in the currency of the totals, negative for a gain, in the order
    /// in which they are drawn; none where they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<Vec<f64>>,
    /// What to know about the data that the margin rests on.
    pub warnings: Vec<String>,
}

/// Margin of one position. Amounts are in the currency of the contract, and add up over rows when
/// converted: those of short positions have the opposite sign, and a hedge has a negative margin.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// As in the request.
    pub ticker: Arc<str>,
    /// As in the request.
    pub side: Side,
    /// Currency of the amounts.
    pub currency: Arc<str>,
    /// Day of entry, given or assumed.
    pub entry_date: Date,
    /// Value at entry.
    pub entry_market_value: f64,
    /// Value on the day of the valuation.
    pub current_market_value: f64,
    /// Share of the position in the margin of the portfolio.
    pub initial_margin: f64,
    /// Initial margin / 1.10.
    pub maintenance_margin: f64,
    /// Gain since entry.
    pub variation_margin: f64,
    /// Multiplier of the contract.
    pub size: f64,
    /// Contracts, without sign.
    pub quantity: f64,
    /// Current value over the sum of the absolute values of all positions.
    pub portfolio_weight: f64,
}

/// What a scenario loses, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// In the currency of the totals.
    pub loss: f64,
    /// The historical day that each day of the horizon is drawn from.
    pub dates: Vec<Date>,
}

/// Totals of a portfolio.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// In the currency of the totals, like all of these.
    pub initial_margin: f64,
    /// Initial margin / 1.10.
    pub maintenance_margin: f64,
    /// How it came about; none for a portfolio without positions.
    pub simulation: Option<Simulation>,
}

/// What a margin was simulated from.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Day of the valuation.
    pub margin_date: Date,
    /// Currency of the totals: the one that was asked for, the common one of the contracts, or
    /// that of the exchange rates.
    pub base_currency: Arc<str>,
    /// What orders the dates that scenarios are drawn from: with the same and the same data the same
    /// margin comes out. Not in the written report.
    pub seed: i64,
    /// Number of scenarios. Not in the written report, like the horizon.
    pub n_scenarios: usize,
    /// Trading days that each of them has.
    pub horizon_days: usize,
    /// Exchange rates of the contracts' other currencies on that day: units of the currency of the
    /// totals for one of each. Not in the written report.
    pub rates: Vec<(Arc<str>, f64)>,
    /// Number of dates that scenarios were drawn from.
    pub n_pool_dates: usize,
    /// Earliest of them.
    pub first_pool_date: Date,
    /// Latest of them.
    pub last_pool_date: Date,
    /// Level of the expected shortfall and of the value at risk.
    pub confidence: f64,
    /// Whether the margin is the value at risk, and not the expected shortfall.
    pub is_value_at_risk: bool,
    /// Mean loss in the worst scenarios, zero if that is a gain.
    pub expected_shortfall: f64,
    /// Smallest loss that at least `confidence` of the scenarios do not exceed.
    pub value_at_risk: f64,
    /// What a time of stress adds; none where there is none.
    pub stress: Option<Stress>,
    /// Volatility of a day of each ticker, without the multiplier: of the logarithm of the price,
    /// or in units of price for absolute returns.
    pub sigmas: Vec<(Arc<str>, f64)>,
    /// As asked for, or their defaults. Not in the written report.
    pub settings: Settings,
}

/// What a margin was asked for with, besides what [`Simulation`] has of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Daily returns that a volatility is estimated from.
    pub lookback: usize,
    /// Lambda of the moving average.
    pub decay: f64,
    /// Factor on today's volatilities.
    pub multiplier: f64,
    /// Today's volatility is at least this part of that of the whole history.
    pub volatility_floor: f64,
    /// Part of what a margin of times of stress is above the other that is added to it.
    pub stress_weight: f64,
    /// First and last day that may be drawn, where given.
    pub window: (Option<Date>, Option<Date>),
    /// Days that may be drawn besides.
    pub added: Vec<Date>,
    /// Days that may not.
    pub excluded: Vec<Date>,
    /// First and last day of a time of stress.
    pub stress: Option<(Date, Date)>,
}

/// The margin of a time of stress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stress {
    /// Number of days that scenarios were drawn from.
    pub n_dates: usize,
    /// Of their returns as they were.
    pub margin: f64,
    /// Its part in the initial margin.
    pub add_on: f64,
}

impl Report {
    /// A header line and a line per position, columns in the documented order.
    pub fn csv(&self) -> String {
        let mut csv = COLUMNS.join(",");
        csv.push('\n');
        for row in &self.rows {
            for (n, cell) in row.cells().into_iter().enumerate() {
                csv.push_str(if n == 0 { "" } else { "," });
                match cell {
                    Cell::Text(text) => csv.push_str(&quoted(text)),
                    plain => append(&mut csv, format_args!("{plain}")),
                }
            }
            csv.push('\n');
        }
        csv
    }

    /// The lines of [`Self::csv`] as a JSON array of strings.
    pub fn lines(&self) -> String {
        json(&self.csv().lines().collect::<Vec<_>>())
    }

    /// `{"rows": […], "summary": {…}, "warnings": […]}`.
    pub fn json(&self) -> String {
        json(self)
    }

    /// `<margin>` with `<rows>`, `<summary>` and `<warnings>`.
    pub fn xml(&self) -> String {
        let mut xml =
            String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<margin>\n<rows>\n");
        for row in &self.rows {
            xml.push_str("<row>");
            append_elements(&mut xml, COLUMNS.into_iter().zip(row.cells()));
            xml.push_str("</row>\n");
        }
        xml.push_str("</rows>\n<summary>");
        append_elements(&mut xml, self.summary.cells());
        for (ticker, sigma) in self.summary.sigmas() {
            append(
                &mut xml,
                format_args!(
                    "<sigma ticker=\"{}\">{}</sigma>",
                    escape(&**ticker),
                    Cell::Number(*sigma)
                ),
            );
        }
        xml.push_str("</summary>\n");
        if let Some(scenarios) = &self.worst_scenarios {
            xml.push_str("<worstScenarios>\n");
            for Scenario { loss, dates } in scenarios {
                append(&mut xml, format_args!("<scenario><loss>{loss}</loss>"));
                append_elements(&mut xml, dates.iter().map(|date| ("date", Cell::Date(*date))));
                xml.push_str("</scenario>\n");
            }
            xml.push_str("</worstScenarios>\n");
        }
        if let Some(losses) = &self.losses {
            xml.push_str("<losses>");
            append_elements(&mut xml, losses.iter().map(|loss| ("loss", Cell::Number(*loss))));
            xml.push_str("</losses>\n");
        }
        xml.push_str("<warnings>");
        append_elements(
            &mut xml,
            self.warnings.iter().map(|warning| ("warning", Cell::Text(warning))),
        );
        xml.push_str("</warnings>\n</margin>\n");
        xml
    }

    /// The same keys as JSON.
    pub fn yaml(&self) -> String {
        // Texts are quoted as in JSON: bare, a ticker NO would be read as false.
        let mut yaml = list_key("rows", self.rows.is_empty());
        for row in &self.rows {
            for (n, (name, cell)) in COLUMNS.into_iter().zip(row.cells()).enumerate() {
                append(
                    &mut yaml,
                    format_args!("{} {name}: {}\n", if n == 0 { "-" } else { " " }, cell.quoted()),
                );
            }
        }
        yaml.push_str("summary:\n");
        for (name, cell) in self.summary.cells() {
            append(&mut yaml, format_args!("  {name}: {}\n", cell.quoted()));
        }
        for (n, (ticker, sigma)) in self.summary.sigmas().iter().enumerate() {
            yaml.push_str(if n == 0 { "  sigma:\n" } else { "" });
            append(&mut yaml, format_args!("    {}: {}\n", json(&**ticker), Cell::Number(*sigma)));
        }
        if let Some(scenarios) = &self.worst_scenarios {
            yaml.push_str(&list_key("worstScenarios", scenarios.is_empty()));
            for Scenario { loss, dates } in scenarios {
                append(&mut yaml, format_args!("- loss: {loss}\n  dates: {}\n", json(dates)));
            }
        }
        if let Some(losses) = &self.losses {
            append(&mut yaml, format_args!("losses: {}\n", json(losses)));
        }
        yaml.push_str(&list_key("warnings", self.warnings.is_empty()));
        for warning in &self.warnings {
            append(&mut yaml, format_args!("- {}\n", json(warning)));
        }
        yaml
    }
}

/// A text as a field of CSV.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

pub(crate) const COLUMNS: [&str; 12] = [
    "ticker",
    "positionType",
    "currency",
    "entryDate",
    "entryMarketValue",
    "currentMarketValue",
    "initialMargin",
    "maintenanceMargin",
    "variationMargin",
    "size",
    "quantity",
    "portfolioWeight",
];

impl Row {
    /// The values, in the order of [`COLUMNS`].
    fn cells(&self) -> [Cell<'_>; 12] {
        [
            Cell::Text(&self.ticker),
            Cell::Text(self.side.as_str()),
            Cell::Text(&self.currency),
            Cell::Date(self.entry_date),
            Cell::Number(self.entry_market_value),
            Cell::Number(self.current_market_value),
            Cell::Number(self.initial_margin),
            Cell::Number(self.maintenance_margin),
            Cell::Number(self.variation_margin),
            Cell::Number(self.size),
            Cell::Number(self.quantity),
            Cell::Number(self.portfolio_weight),
        ]
    }
}

impl Summary {
    fn cells(&self) -> Vec<(&'static str, Cell<'_>)> {
        let mut cells = Vec::new();
        if let Some(simulation) = &self.simulation {
            cells.extend([
                ("marginDate", Cell::Date(simulation.margin_date)),
                ("baseCurrency", Cell::Text(&simulation.base_currency)),
                ("poolDates", Cell::Count(simulation.n_pool_dates)),
                ("firstPoolDate", Cell::Date(simulation.first_pool_date)),
                ("lastPoolDate", Cell::Date(simulation.last_pool_date)),
                ("confidence", Cell::Number(simulation.confidence)),
                ("expectedShortfall", Cell::Number(simulation.expected_shortfall)),
                ("valueAtRisk", Cell::Number(simulation.value_at_risk)),
            ]);
            if simulation.is_value_at_risk {
                cells.push(("riskMeasure", Cell::Text("value_at_risk")));
            }
            if let Some(stress) = &simulation.stress {
                cells.extend([
                    ("stressDates", Cell::Count(stress.n_dates)),
                    ("stressedMargin", Cell::Number(stress.margin)),
                    ("stressAddOn", Cell::Number(stress.add_on)),
                ]);
            }
        }
        cells.push(("initialMargin", Cell::Number(self.initial_margin)));
        cells.push(("maintenanceMargin", Cell::Number(self.maintenance_margin)));
        cells
    }

    fn sigmas(&self) -> &[(Arc<str>, f64)] {
        self.simulation.as_ref().map_or(&[], |simulation| &simulation.sigmas)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(COLUMNS.into_iter().zip(self.cells()))
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, cell) in self.cells() {
            map.serialize_entry(name, &cell)?;
        }
        if self.simulation.is_some() {
            map.serialize_entry("sigma", &Sigmas(self.sigmas()))?;
        }
        map.end()
    }
}

struct Sigmas<'a>(&'a [(Arc<str>, f64)]);

impl Serialize for Sigmas<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(ticker, sigma)| (&**ticker, sigma)))
    }
}

/// One value of a report. Numbers are written as the shortest decimal that is read back as the same
/// number, without an exponent.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum Cell<'a> {
    Text(&'a str),
    Date(Date),
    Count(usize),
    Number(f64),
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Date(date) => date.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl Cell<'_> {
    /// As a value of YAML, in which a text like `NO` or `2024-12-31` has to be in quotes.
    fn quoted(&self) -> String {
        match self {
            Self::Text(_) | Self::Date(_) => json(&self.to_string()),
            Self::Count(_) | Self::Number(_) => self.to_string(),
        }
    }
}

fn append_elements<'c>(
    xml: &mut String,
    cells: impl IntoIterator<Item = (&'static str, Cell<'c>)>,
) {
    for (name, cell) in cells {
        append(xml, format_args!("<{name}>{}</{name}>", escape(cell.to_string())));
    }
}

fn append(text: &mut String, formatted: fmt::Arguments<'_>) {
    text.write_fmt(formatted).expect("a String takes everything");
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("keys are strings and no value fails")
}

/// The key of a list in YAML, before its items if it has any.
fn list_key(name: &str, is_empty: bool) -> String {
    format!("{name}:{}\n", if is_empty { " []" } else { "" })
}
