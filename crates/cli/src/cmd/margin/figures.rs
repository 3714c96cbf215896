//! What a margin looks like: the distribution of losses, the parts of positions, and a backtest.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use molbox_margin::{Backtest, Date};
use molbox_plot::{Figure, Line, Panel};
use serde_json::{Map, Value};

use crate::destination;
use crate::failure::Failure;
use crate::output::counted;

/// Positions with names of their own; of more the largest are shown.
const MAX_BARS: usize = 12;
/// Half the width of a bar, of one from the next.
const HALF_BAR: f64 = 0.35;

/// Writes a figure as its file's name says.
pub(super) fn write(figure: &Figure, path: &Path) -> Result<(), Failure> {
    let bytes = match path.extension().and_then(|extension| extension.to_str()) {
        Some("png") => figure.png(),
        Some("svg") => figure.svg().into_bytes(),
        Some("pdf") => figure.pdf(),
        _ => return Err(is_no_picture(path)),
    };
    fs::write(path, bytes).map_err(|error| Failure::file(path, &error))
}

/// Refuses a picture that cannot be written, before anything is calculated.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let is_picture = |path: &&Path| {
        path.extension().is_some_and(|e| ["png", "svg", "pdf"].iter().any(|known| e == *known))
    };
    match path {
        Some(path) if !is_picture(&path) => Err(is_no_picture(path)),
        Some(path) => destination::file(path),
        None => Ok(()),
    }
}

fn is_no_picture(path: &Path) -> Failure {
    Failure::usage(format!("{}: a plot's name must end in .png, .svg or .pdf", path.display()))
}

/// How often scenarios lose how much, with the value at risk and the expected shortfall.
pub(super) fn losses(report: &Value) -> Option<Figure> {
    let losses: Vec<f64> = report["losses"].as_array()?.iter().filter_map(Value::as_f64).collect();
    let summary = &report["summary"];
    let currency = summary["baseCurrency"].as_str().unwrap_or_default();
    let percent = 100.0 * summary["confidence"].as_f64()?;
    let marks = [("valueAtRisk", "value at risk"), ("expectedShortfall", "expected shortfall")];
    let marks = marks
        .iter()
        .filter_map(|(field, word)| Some((summary[*field].as_f64()?, (*word).to_owned())));
    Some(Figure {
        title: "Losses of the simulated scenarios".to_owned(),
        subtitle: format!(
            "{}, margin date {}, level {} %",
            counted(losses.len(), "scenario"),
            summary["marginDate"].as_str().unwrap_or_default(),
            (percent * 1e6).round() / 1e6
        ),
        x_label: "loss (negative: gain)".to_owned(),
        x_unit: currency.to_owned(),
        panels: vec![Panel {
            y_label: "scenarios".to_owned(),
            is_whole: true,
            lines: vec![Line { name: None, points: histogram(&losses) }],
            ..Panel::default()
        }],
        marks: marks.collect(),
        ..Figure::default()
    })
}

/// The outline of a histogram, whose bins are as Freedman and Diaconis choose them.
fn histogram(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let quartiles = sorted[sorted.len() * 3 / 4] - sorted[sorted.len() / 4];
    let wanted = (most - least) / (2.0 * quartiles / (sorted.len() as f64).cbrt());
    let n_bins = if wanted.is_finite() { wanted.ceil().clamp(1.0, 200.0) } else { 1.0 };
    let width = ((most - least) / n_bins).max(f64::MIN_POSITIVE);
    let mut counts = vec![0_u32; n_bins as usize];
    for value in values {
        let bin = ((value - least) / width) as usize;
        counts[bin.min(n_bins as usize - 1)] += 1;
    }
    let mut outline = vec![(*least, 0.0)];
    for (bin, count) in counts.into_iter().enumerate() {
        let left = least + bin as f64 * width;
        outline.extend([(left, f64::from(count)), (left + width, f64::from(count))]);
    }
    outline.push((*most, 0.0));
    outline
}

/// What each position adds to the margin, the largest first, in the currency of the totals: yen and
/// dollars have no common axis.
pub(super) fn parts(report: &Value, totals: &Map<String, Value>) -> Option<Figure> {
    let rows = report["rows"].as_array()?;
    let unit = report["summary"]["baseCurrency"].as_str()?;
    let rates = totals.get("rates").and_then(Value::as_str).unwrap_or_default();
    let rates: BTreeMap<&str, f64> = rates
        .split(';')
        .filter_map(|of| of.split_once('='))
        .filter_map(|(of, rate)| Some((of, rate.parse().ok()?)))
        .chain([(unit, 1.0)])
        .collect();
    // All of them, or no figure: a part that is not drawn would be taken for none.
    let bars: Option<Vec<(String, f64)>> = rows
        .iter()
        .map(|row| {
            let name = format!("{} {}", row["ticker"].as_str()?, row["positionType"].as_str()?);
            let rate = rates.get(row["currency"].as_str()?)?;
            Some((name, rate * row["initialMargin"].as_f64()?))
        })
        .collect();
    let mut bars = bars?;
    bars.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let n_more = bars.len().saturating_sub(MAX_BARS);
    bars.truncate(MAX_BARS);
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));
    let outline = bars.iter().zip(1..).flat_map(|((_, part), n)| {
        let (left, right) = (f64::from(n) - HALF_BAR, f64::from(n) + HALF_BAR);
        [(left, 0.0), (left, *part), (right, *part), (right, 0.0), (f64::NAN, f64::NAN)]
    });
    Some(Figure {
        title: "Parts of the positions in the initial margin".to_owned(),
        subtitle: match n_more {
            0 => "a hedge has a negative part".to_owned(),
            n => format!("the {MAX_BARS} largest; {n} more are not shown"),
        },
        x_label: "position".to_owned(),
        x_is_whole: true,
        panels: vec![Panel {
            y_label: "part in the initial margin".to_owned(),
            unit: unit.to_owned(),
            lines: vec![Line { name: None, points: outline.collect() }],
            ..Panel::default()
        }],
        marks: bars
            .iter()
            .zip(1..)
            .map(|((name, _), n)| (f64::from(n) - HALF_BAR, name.clone()))
            .collect(),
        ..Figure::default()
    })
}

/// Margins and losses over the years.
pub(super) fn backtest(backtest: &Backtest, currency: &str) -> Figure {
    let line = |name: &str, value: fn(&molbox_margin::Day) -> f64| Line {
        name: Some(name.to_owned()),
        points: backtest.days.iter().map(|day| (day_of(day.date), value(day))).collect(),
    };
    let exceeded = backtest.days.iter().filter(|day| day.loss > day.value_at_risk);
    // A run of one point is a dot.
    let dots = exceeded.flat_map(|day| [(day_of(day.date), day.loss), (f64::NAN, f64::NAN)]);
    let coverage = &backtest.coverage;
    Figure {
        title: "Margins and the losses that followed".to_owned(),
        subtitle: format!(
            "{} of {} losses over {} were above the value at risk, {:.1} expected; \
             coverage (Kupiec) p = {:.3}, conditional coverage (Christoffersen) p = {:.3}",
            coverage.exceedances,
            coverage.n_days,
            counted(backtest.horizon_days, "day"),
            coverage.expected,
            coverage.unconditional.p_value,
            coverage.conditional.p_value
        ),
        x_label: "date".to_owned(),
        x_is_date: true,
        panels: vec![Panel {
            y_label: "loss".to_owned(),
            unit: currency.to_owned(),
            lines: vec![
                line("loss", |day| day.loss),
                line("initial margin", |day| day.initial_margin),
                line("value at risk", |day| day.value_at_risk),
                // Above the others, which would hide the few that it is about.
                Line { name: Some("above the value at risk".to_owned()), points: dots.collect() },
            ],
            ..Panel::default()
        }],
        // Okabe and Ito's, so that the dots are the only red ones.
        colors: vec!["#56b4e9", "#0072b2", "#009e73", "#d55e00"],
        ..Figure::default()
    }
}

/// A date as a place on an axis of dates.
fn day_of(date: Date) -> f64 {
    let epoch = Date::new(1970, 1, 1).expect("a day of the calendar");
    f64::from(date.days_since(epoch))
}
