//! Where an axis has ticks, and how their numbers are written.

use std::ops::RangeInclusive;

use jiff::ToSpan as _;
use jiff::civil::{Date, date};

use crate::Named;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ticks {
    pub(crate) at: Vec<f64>,
    pub(crate) labels: Vec<String>,
    /// Power of ten that the numbers of the labels are multiples of.
    pub(crate) exponent: i32,
}

/// Numbers of at least so many digits before the point are written with a power of ten; and those
/// with as many zeros behind it.
const LARGE: f64 = 1e6;
const SMALL: f64 = 1e-3;

impl Ticks {
    /// About `n` ticks in a range, at multiples of 1, 2 or 5 times a power of ten; three at least,
    /// but for counts in a range that has fewer whole numbers.
    pub(crate) fn of(range: &RangeInclusive<f64>, n: usize, is_whole: bool) -> Self {
        let low = *range.start();
        let high = *range.end();
        let n = n.max(1);
        let mut steps = (n..n + 4).map(|n| step((high - low) / n as f64, is_whole));
        let step = steps
            .find(|step| multiples(range, *step).len() >= 3)
            .unwrap_or_else(|| step((high - low) / (n + 4) as f64, is_whole));
        Self::at_multiples(range, step)
    }

    /// Ticks at the places in a range that have names, at most so many: at all of them, or at those
    /// whose number is a multiple of 1, 2 or 5 times a power of ten. None is nearer than `apart` to
    /// the one before, as numbers of two chains are that meet.
    pub(crate) fn of_names(
        range: &RangeInclusive<f64>,
        names: &[Named],
        most: usize,
        apart: f64,
    ) -> Self {
        let shown = names.iter().filter(|(at, _)| range.contains(&(*at as f64)));
        let multiples_of = |step: i64| {
            let is_one = move |name: &&Named| {
                step == 1 || number_in(&name.1).is_some_and(|number| number % step == 0)
            };
            shown.clone().filter(is_one).collect::<Vec<_>>()
        };
        let steps = (0..9).flat_map(|power| [1, 2, 5].map(|n| n * 10_i64.pow(power)));
        let found = steps.map(multiples_of).find(|ticks| ticks.len() <= most.max(1));
        let mut ticks = Self { at: Vec::new(), labels: Vec::new(), exponent: 0 };
        for (at, name) in found.unwrap_or_default() {
            let at = *at as f64;
            if ticks.at.last().is_none_or(|last| at - last >= apart) {
                ticks.at.push(at);
                ticks.labels.push(name.clone());
            }
        }
        ticks
    }

    /// At most so many intervals of a range of angles in degrees, at parts of a turn where it is
    /// wide enough for them.
    pub(crate) fn of_degrees(range: &RangeInclusive<f64>, n: usize) -> Self {
        const PARTS: [f64; 5] = [30.0, 45.0, 60.0, 90.0, 180.0];
        let fits = |step: &f64| (range.end() - range.start()) / step <= n as f64;
        let mut fitting = PARTS.into_iter().filter(fits);
        match fitting.find(|step| multiples(range, *step).len() >= 3) {
            Some(step) => Self::at_multiples(range, step),
            None => Self::of(range, n, false),
        }
    }

    fn at_multiples(range: &RangeInclusive<f64>, step: f64) -> Self {
        let at = multiples(range, step);
        let largest = at.iter().fold(0.0_f64, |largest, tick| largest.max(tick.abs()));
        let exponent = if largest >= LARGE || (largest < SMALL && largest > 0.0) {
            3 * (largest.log10() / 3.0).floor() as i32
        } else {
            0
        };
        let decimals = (exponent - power_of_ten(step)).max(0) as usize;
        let labels =
            at.iter().map(|tick| number(times(*tick, 10_f64.powi(-exponent)), decimals)).collect();
        Self { at, labels, exponent }
    }
}

/// The number at the end of a name, as of `A:52`; none of one with an insertion code.
fn number_in(name: &str) -> Option<i64> {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[before.len()..].parse().ok()
}

impl Ticks {
    /// Ticks in a range of days from 1970-01-01, at most so many if there are years that far apart:
    /// at first days of years or of months, at Mondays, or at days.
    pub(crate) fn of_dates(range: &RangeInclusive<f64>, most: usize) -> Self {
        const DAYS: [u32; 4] = [1, 2, 7, 14];
        const MONTHS: [i32; 12] = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000];
        // Centuries of days are not counted.
        let may_fit = |days: f64| (range.end() - range.start()) / days < most as f64 + 1.0;
        let by_days = DAYS.iter().map(|step| f64::from(*step)).filter(|step| may_fit(*step));
        let by_days = by_days.map(|step| every_days(range, step));
        let by_months = MONTHS.iter().filter(|step| may_fit(31.0 * f64::from(**step)));
        let by_months = by_months.map(|step| every_months(range, *step));
        let mut found = by_days.chain(by_months).skip_while(|ticks| ticks.len() > most);
        let (at, labels) = found.next().unwrap_or_default().into_iter().unzip();
        Self { at, labels, exponent: 0 }
    }
}

const EPOCH: Date = date(1970, 1, 1);
/// A Monday.
const MONDAY: f64 = 4.0;

fn every_days(range: &RangeInclusive<f64>, step: f64) -> Vec<(f64, String)> {
    let from_monday = range.start() - MONDAY..=range.end() - MONDAY;
    let days = multiples(&from_monday, step).into_iter().map(|day| day + MONDAY);
    days.map(|day| (day, of_day(day).to_string())).collect()
}

fn every_months(range: &RangeInclusive<f64>, step: i32) -> Vec<(f64, String)> {
    let month_of = |day: f64| {
        let date = of_day(day);
        12 * i32::from(date.year()) + i32::from(date.month()) - 1
    };
    let steps = month_of(*range.start()).div_euclid(step)..=month_of(*range.end()).div_euclid(step);
    let firsts = steps.filter_map(|nth| {
        let year = i16::try_from((nth * step).div_euclid(12)).ok()?;
        let month = i8::try_from((nth * step).rem_euclid(12) + 1).ok()?;
        let first = Date::new(year, month, 1).ok()?;
        let label = if step < 12 { first.strftime("%Y-%m") } else { first.strftime("%Y") };
        Some((f64::from((first - EPOCH).get_days()), label.to_string()))
    });
    firsts.filter(|(day, _)| range.contains(day)).collect()
}

/// The date of a day, or that of the calendar that is next to it.
fn of_day(day: f64) -> Date {
    EPOCH.saturating_add((day.floor() as i32).clamp(-4_000_000, 4_000_000).days())
}

fn multiples(range: &RangeInclusive<f64>, step: f64) -> Vec<f64> {
    // An edge that is a multiple may not be one in its last digits.
    let first = (range.start() / step - 1e-6).ceil();
    let last = (range.end() / step + 1e-6).floor();
    // Below zero when no multiple is in the range, which the cast makes zero.
    let n_ticks = (last - first + 1.0) as usize;
    (0..n_ticks).map(|n| times(first + n as f64, step)).collect()
}

/// The least multiple of 1, 2 or 5 and a power of ten that is not below a width.
fn step(width: f64, is_whole: bool) -> f64 {
    let power = 10_f64.powi(power_of_ten(width));
    let step =
        [1.0, 2.0, 5.0].into_iter().map(|n| n * power).find(|step| *step >= width * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    if is_whole { step.max(1.0) } else { step }
}

/// The power of ten of the first digit of a number above zero.
fn power_of_ten(x: f64) -> i32 {
    // A logarithm of 1e-3 may be a little less than -3.
    (x.log10() + 1e-9).floor() as i32
}

/// A product without the noise of the last digits: 3 × 0.1 is 0.3.
fn times(n: f64, step: f64) -> f64 {
    format!("{:.12e}", n * step).parse().expect("a number is written as one")
}

/// A number with thousands apart and a true minus.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && whole.len() > 4 && (whole.len() - index).is_multiple_of(3) {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if value < 0.0 && !is_zero { "\u{2212}" } else { "" };
    format!("{sign}{grouped}{rest}")
}

/// A power of ten for people: `10⁶`.
pub(crate) fn power(exponent: i32) -> String {
    let exponent: String = exponent.to_string().chars().map(raised).collect();
    format!("10{exponent}")
}

/// A digit or a minus sign as a superscript.
fn raised(c: char) -> char {
    match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::{Ticks, power};

    fn labels(low: f64, high: f64, is_whole: bool) -> Vec<String> {
        Ticks::of(&(low..=high), 5, is_whole).labels
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(0.0, 1.0, false), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(-0.01, 0.31, false), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(0.0, 36.0, false), ["0", "10", "20", "30"]);
        assert_eq!(labels(-79_100.0, -78_000.0, false)[0], "\u{2212}79\u{a0}000");
        assert_eq!(labels(7.0, 7.004, false), ["7.000", "7.001", "7.002", "7.003", "7.004"]);
    }

    #[test]
    fn counts_have_whole_ticks() {
        for high in [1.0, 2.0, 3.0, 4.0, 7.0, 30.0, 1000.0] {
            let ticks = Ticks::of(&(-0.4..=high + 0.4), 5, true);
            assert!(ticks.at.iter().all(|tick| tick.fract() == 0.0), "{ticks:?}");
            assert!(
                ticks.labels.iter().all(|label| !label.contains('.')) && ticks.labels.len() >= 2,
                "{ticks:?}"
            );
            assert!(ticks.labels.windows(2).all(|pair| pair[0] != pair[1]), "{ticks:?}");
        }
    }

    #[test]
    fn every_range_has_three_ticks_within_it() {
        for n in 1..12 {
            for (low, high) in
                [(0.4, 1.9), (-0.94, 0.94), (99.0, 101.3), (-7.3e8, -7.1e8), (1.1e-9, 1.9e-9)]
            {
                let ticks = Ticks::of(&(low..=high), n, false);
                assert!(ticks.at.len() >= 3, "{low} to {high}: {ticks:?}");
                assert!(
                    ticks.at.iter().all(|tick| (low..=high).contains(tick)),
                    "{low} to {high}: {ticks:?}"
                );
            }
        }
    }

    #[test]
    fn angles_have_ticks_at_parts_of_a_turn() {
        let labels = |range: RangeInclusive<f64>, n| Ticks::of_degrees(&range, n).labels;
        assert_eq!(labels(-180.0..=180.0, 4), ["−180", "−90", "0", "90", "180"]);
        assert_eq!(labels(-180.0..=180.0, 6), ["−180", "−120", "−60", "0", "60", "120", "180"]);
        assert_eq!(labels(-180.0..=180.0, 3), ["−180", "0", "180"]);
        assert_eq!(labels(170.0..=176.0, 4), ["170", "172", "174", "176"]);
    }

    #[test]
    fn dates_have_ticks_where_days_months_and_years_begin() {
        let labels = |from: f64, to: f64, most| Ticks::of_dates(&(from..=to), most).labels;
        // 2024-12-31 is day 20088.
        assert_eq!(labels(20087.0, 20089.0, 5), ["2024-12-30", "2024-12-31", "2025-01-01"]);
        assert_eq!(
            labels(20066.5, 20098.0, 5),
            ["2024-12-16", "2024-12-23", "2024-12-30", "2025-01-06"]
        );
        assert_eq!(labels(20000.0, 20100.0, 5), ["2024-11", "2024-12", "2025-01"]);
        assert_eq!(labels(19000.0, 20100.0, 5), ["2023", "2024", "2025"]);
        assert_eq!(labels(0.0, 20100.0, 5), ["1980", "2000", "2020"]);
        for most in 1..12 {
            for (from, to) in [(-719_162.0, 2_932_896.0), (20000.2, 20000.4), (-5.0, 3e4)] {
                let ticks = Ticks::of_dates(&(from..=to), most);
                assert!(ticks.at.len() <= most, "{from} to {to}: {ticks:?}");
                assert!(ticks.at.iter().all(|tick| (from..=to).contains(tick)), "{ticks:?}");
            }
        }
    }

    #[test]
    fn large_and_small_numbers_share_a_power_of_ten() {
        let large = Ticks::of(&(0.0..=4.1e7), 5, false);
        assert_eq!((large.labels[1].as_str(), large.exponent), ("10", 6));
        let small = Ticks::of(&(0.0..=2e-5), 5, false);
        assert_eq!((small.labels[1].as_str(), small.exponent), ("5", -6));
        assert_eq!((power(6), power(-12)), ("10⁶".to_owned(), "10⁻¹²".to_owned()));
    }
}
