//! How many independent samples a series has, from when on it is in equilibrium, and how well its
//! mean is known.

use rustfft::FftPlannerScalar;
use rustfft::num_complex::Complex;

use crate::frames::even_step;
use crate::parallel::in_order;
use crate::run::Report;
use crate::table::{Column, Table, Values};

/// Series of fewer values have no correlation to speak of.
const FEWEST: usize = 10;

/// Correlation is summed up to here even if it is negative before.
const LEAST_LAG: usize = 3;

/// Places at which equilibrium is supposed to begin, at most about.
const MOST_ORIGINS: usize = 200;

/// Of blocks there are at least so many.
const FEWEST_BLOCKS: usize = 4;

/// Series of a table at most: one with more has a column for each of many atoms or angles.
const MOST_COLUMNS: usize = 50;

/// The mean of a series over its part in equilibrium, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SettledMean {
    /// Where that part begins.
    pub equilibration: Equilibration,
    /// The mean over it.
    pub mean: f64,
    /// Standard deviation of its values, by n − 1.
    pub deviation: f64,
    /// Standard error of the mean: the deviation by the root of the independent samples.
    pub error: f64,
}

impl SettledMean {
    /// None of fewer than ten values, whose correlation nobody can know.
    pub fn of(series: &[f64]) -> Option<Self> {
        (series.len() >= FEWEST).then(|| Self::of_any(series))
    }

    fn of_any(series: &[f64]) -> Self {
        let equilibration = equilibration(series);
        let part = &series[equilibration.start..];
        let deviation = variance(part).sqrt();
        let error = deviation / equilibration.n_effective.sqrt();
        Self { equilibration, mean: mean(part), deviation, error }
    }
}

/// Where a series is in equilibrium, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equilibration {
    /// The first value of the part in equilibrium.
    pub start: usize,
    /// The statistical inefficiency g of that part: one plus twice the time of correlation, in
    /// values.
    pub inefficiency: f64,
    /// The independent samples in it, (its length + 1) / g.
    pub n_effective: f64,
}

/// The statistical inefficiency of a series: g = 1 + 2 Σ (1 − t/N) C(t), the sum over t from 1 up
/// to where C(t) is not positive, but to 3 at least; never below 1. None for a constant series.
///
/// C(t) = Σ δₙ δₙ₊ₜ / ((N − t) σ²), δ the deviation from the mean (Chodera and others, J. Chem.
/// Theory Comput. 3, 26, 2007).
pub fn statistical_inefficiency(series: &[f64]) -> Option<f64> {
    Correlator::of(series.len()).inefficiency(series)
}

/// The start of equilibrium that leaves the most independent samples (Chodera, J. Chem. Theory
/// Comput. 12, 1799, 2016), of about 200 places along the series. A constant series is one sample.
pub fn equilibration(series: &[f64]) -> Equilibration {
    let n = series.len();
    let mut best = Equilibration { start: 0, inefficiency: 1.0, n_effective: 1.0 };
    if series.windows(2).all(|two| two[0] == two[1]) {
        return best;
    }
    let mut correlator = Correlator::of(n);
    for start in (0..n.saturating_sub(1)).step_by(n.div_ceil(MOST_ORIGINS)) {
        let n_left = (n - start + 1) as f64;
        let inefficiency = correlator.inefficiency(&series[start..]).unwrap_or(n_left);
        let n_effective = n_left / inefficiency;
        if n_effective > best.n_effective {
            best = Equilibration { start, inefficiency, n_effective };
        }
    }
    best
}

/// The standard error of the mean by blocks of a series, and its own.
///
/// The error is √(s² / n), s² the variance of n means of blocks, and its own 1/√(2(n − 1)) of that
/// (Flyvbjerg and Petersen, J. Chem. Phys. 91, 461, 1989). What does not fill a block at the end is
/// left out.
pub fn block_error(series: &[f64], block: usize) -> (f64, f64) {
    let means: Vec<f64> = series.chunks_exact(block).map(mean).collect();
    let n = means.len() as f64;
    let error = (variance(&means) / n).sqrt();
    (error, error / (2.0 * (n - 1.0)).sqrt())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Σ (x − ⟨x⟩)² / (n − 1), 0 of one value.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let sum: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    sum / values.len().saturating_sub(1).max(1) as f64
}

/// Correlation of series up to some length, by the scalar transform, whose results are the same
/// bits on all processors.
struct Correlator {
    planner: FftPlannerScalar<f64>,
    buffer: Vec<Complex<f64>>,
}

impl Correlator {
    fn of(n: usize) -> Self {
        let buffer = Vec::with_capacity((2 * n).next_power_of_two());
        Self { planner: FftPlannerScalar::new(), buffer }
    }

    fn inefficiency(&mut self, series: &[f64]) -> Option<f64> {
        let n = series.len();
        let mean = mean(series);
        // Padded, so that the end does not meet the beginning.
        let length = (2 * n).next_power_of_two();
        self.buffer.clear();
        self.buffer.extend(series.iter().map(|x| Complex::new(x - mean, 0.0)));
        let square = self.buffer.iter().map(|x| x.re * x.re).sum::<f64>() / n as f64;
        // What a constant leaves of rounding.
        if square <= 1e-28 * mean * mean {
            return None;
        }
        self.buffer.resize(length, Complex::ZERO);
        self.planner.plan_fft_forward(length).process(&mut self.buffer);
        self.buffer.iter_mut().for_each(|x| *x = Complex::new(x.norm_sqr(), 0.0));
        self.planner.plan_fft_inverse(length).process(&mut self.buffer);
        let mut g = 1.0;
        for lag in 1..n.saturating_sub(1) {
            let sum = self.buffer[lag].re / length as f64;
            let correlation = sum / ((n - lag) as f64 * square);
            if correlation <= 0.0 && lag > LEAST_LAG {
                break;
            }
            g += 2.0 * correlation * (1.0 - lag as f64 / n as f64);
        }
        Some(g.max(1.0))
    }
}

/// A series of a report.
struct Series<'a> {
    table: &'a Table,
    column: &'a Column,
    values: Vec<f64>,
}

impl Report {
    /// Adds tables on all series that have a value for each analysed frame: `convergence`, where
    /// each is in equilibrium, and how well its mean is known; `block_averages`, its error by
    /// blocks of any length. Nothing is added where there are fewer than ten frames.
    pub fn with_convergence(mut self, n_threads: usize) -> Self {
        let series: Vec<Series<'_>> =
            self.tables.iter().flat_map(|t| series(t, self.n_analyzed)).collect();
        if series.is_empty() || self.n_analyzed < FEWEST {
            return self;
        }
        let found = in_order(&series, n_threads, |one| SettledMean::of_any(&one.values));
        let frames = self.tables.iter().find(|table| is_by_frame(table, self.n_analyzed));
        let frames: Vec<Column> = frames.map_or_else(Vec::new, frame_columns);
        let analysis = self.tables.iter().map(|table| table.analysis + 1).max().unwrap_or(0);
        let tables = [of_series(&series, &found, &frames), by_blocks(&series, &found, &frames)];
        self.tables.extend(tables.into_iter().map(|table| Table { analysis, ..table }));
        self
    }
}

/// Frame and time of each row.
fn frame_columns(table: &Table) -> Vec<Column> {
    ["frame", "time_ps"].iter().filter_map(|name| table.column(name).cloned()).collect()
}

fn is_by_frame(table: &Table, n_analyzed: usize) -> bool {
    table.columns.first().is_some_and(|column| column.name == "frame")
        && table.n_rows() == n_analyzed
        && table.columns.len() <= MOST_COLUMNS
}

/// The series of a table. Angles have no mean in the usual sense, and the number of a cluster none
/// at all.
fn series(table: &Table, n_analyzed: usize) -> Vec<Series<'_>> {
    if !is_by_frame(table, n_analyzed) || table.kind == "clusters_by_frame" {
        return Vec::new();
    }
    let columns = table.columns.iter().filter(|column| {
        !["frame", "time_ps"].contains(&column.name.as_str()) && column.unit != Some("°")
    });
    let series = columns.filter_map(|column| {
        let values = match &column.values {
            Values::Numbers(values) => values.clone(),
            Values::Integers(values) => values.iter().map(|value| *value as f64).collect(),
            Values::Texts(_) => return None,
        };
        Some(Series { table, column, values })
    });
    series.collect()
}

/// What a series is of. Of several angles or fits each column tells its own mask.
fn measured(series: &Series<'_>) -> String {
    let definition = &series.column.definition;
    let labels = series.table.groups.iter().map(|group| group.label.as_str());
    let labels: Vec<&str> = labels.filter(|label| !definition.contains(label)).collect();
    if labels.is_empty() || labels.len() < series.table.groups.len() {
        return definition.clone();
    }
    format!("{definition}: {}", labels.join(", "))
}

/// Which series a row is of.
fn named(series: &[&Series<'_>]) -> Vec<Column> {
    let text = |f: &dyn Fn(&Series<'_>) -> String| series.iter().map(|one| f(one)).collect();
    vec![
        Column::texts("table", "the table it stands in", text(&|one| one.table.name.clone())),
        Column::texts("column", "its column there", text(&|one| one.column.name.clone())),
        Column::texts("measured", "what that is, and of which masks", text(&measured)),
        Column::texts(
            "unit",
            "unit of its mean, deviation and error",
            text(&|one| one.column.unit.unwrap_or_default().to_owned()),
        ),
    ]
}

fn of_series(series: &[Series<'_>], found: &[SettledMean], frames: &[Column]) -> Table {
    let mut columns = named(&series.iter().collect::<Vec<_>>());
    let starts: Vec<usize> = found.iter().map(|one| one.equilibration.start).collect();
    columns.extend(frames.iter().map(|column| Column {
        name: format!("equilibrated_{}", column.name),
        definition: "the first that is in equilibrium".to_owned(),
        ..column.picked(&starts)
    }));
    let lengths = series.iter().zip(&starts).map(|(one, start)| one.values.len() - start);
    let numbers = |f: &dyn Fn(&SettledMean) -> f64| found.iter().map(f).collect();
    columns.extend([
        Column::integers(
            "frames",
            "frames from there on",
            lengths.map(|length| length as i64).collect(),
        ),
        Column::numbers("mean", None, "mean over these", numbers(&|found| found.mean)),
        Column::numbers(
            "standard_deviation",
            None,
            "of single values, by n − 1",
            numbers(&|found| found.deviation),
        ),
        Column::numbers(
            "inefficiency",
            None,
            "statistical inefficiency g: frames for each independent sample",
            numbers(&|found| found.equilibration.inefficiency),
        ),
        Column::numbers(
            "effective_samples",
            None,
            "independent samples, (frames + 1) / g",
            numbers(&|found| found.equilibration.n_effective),
        ),
        Column::numbers(
            "standard_error",
            None,
            "of the mean, standard deviation / √(effective samples)",
            numbers(&|found| found.error),
        ),
    ]);
    let definition = "the part of each series that is in equilibrium starts where it holds the \
                      most independent samples, and these are counted by its statistical \
                      inefficiency g = 1 + 2 Σ (1 − t/N) C(t), C the autocorrelation, summed up \
                      to where it is not positive (Chodera and others 2007, Chodera 2016)";
    Table::new("convergence", "Convergence", definition.to_owned(), Vec::new(), columns).untitled()
}

fn by_blocks(series: &[Series<'_>], found: &[SettledMean], frames: &[Column]) -> Table {
    let times = frames.iter().find(|column| column.name == "time_ps");
    let interval = times.and_then(|times| match &times.values {
        Values::Numbers(times) => even_step(times),
        _ => None,
    });
    let mut rows: Vec<&Series<'_>> = Vec::new();
    let mut blocks = Vec::new();
    let mut errors = Vec::new();
    for (one, found) in series.iter().zip(found) {
        let part = &one.values[found.equilibration.start..];
        let mut block = 1;
        while part.len() / block >= FEWEST_BLOCKS {
            rows.push(one);
            blocks.push((block, part.len() / block));
            errors.push(block_error(part, block));
            block *= 2;
        }
    }
    let mut columns = named(&rows);
    columns.push(Column::integers(
        "block_frames",
        "frames of a block",
        blocks.iter().map(|(block, _)| *block as i64).collect(),
    ));
    columns.extend(interval.map(|interval| {
        let times = blocks.iter().map(|(block, _)| interval * *block as f64).collect();
        Column::numbers("block_ps", Some("ps"), "time of a block", times)
    }));
    columns.extend([
        Column::integers(
            "blocks",
            "how many of them",
            blocks.iter().map(|(_, n)| *n as i64).collect(),
        ),
        Column::numbers(
            "standard_error",
            None,
            "of the mean, by the spread of the means of blocks",
            errors.iter().map(|(error, _)| *error).collect(),
        ),
        Column::numbers(
            "error_of_error",
            None,
            "standard error of that",
            errors.iter().map(|(_, error)| *error).collect(),
        ),
    ]);
    let definition = "standard error of the mean over the part in equilibrium by means of blocks \
                      of so many frames: where it no longer grows with the block, blocks are \
                      independent (Flyvbjerg and Petersen 1989)";
    Table::new("block_averages", "Block averages", definition.to_owned(), Vec::new(), columns)
        .untitled()
}

#[cfg(test)]
mod tests {
    use super::{SettledMean, block_error, equilibration, statistical_inefficiency};

    /// An autoregressive series xₙ = ρ·xₙ₋₁ + noise, whose inefficiency is (1 + ρ) / (1 − ρ).
    fn correlated(n: usize, rho: f64) -> Vec<f64> {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f64::from((state >> 33) as u32) / f64::from(1_u32 << 31) - 0.5
        };
        let mut x = 0.0;
        (0..n)
            .map(|_| {
                x = rho * x + noise();
                x
            })
            .collect()
    }

    #[test]
    fn a_known_correlation_is_found_and_the_drift_left_out() {
        let series = correlated(20_000, 0.8);
        let g = statistical_inefficiency(&series).unwrap();
        assert!((g - 9.0).abs() < 1.5, "{g}");
        // Blocks much longer than the correlation have the same error.
        let (error, own) = block_error(&series, 256);
        let sd = (series.iter().map(|x| x * x).sum::<f64>() / 20_000.0).sqrt();
        assert!((error - sd * (g / 20_000.0).sqrt()).abs() < 3.0 * own, "{error} {own}");
        let drifting: Vec<f64> = (0..2000)
            .map(|n| series[n] + if n < 400 { 0.05 * (400.0 - n as f64) } else { 0.0 })
            .collect();
        let found = equilibration(&drifting);
        assert!((340..=460).contains(&found.start), "{found:?}");
    }

    #[test]
    fn what_drifts_at_first_has_the_mean_of_the_rest_within_its_error() {
        let rest = correlated(1600, 0.8);
        let of_rest = SettledMean::of(&rest).unwrap();
        let drift = (0..400).map(|n| 20.0 - 0.05 * f64::from(n));
        let series: Vec<f64> = drift.chain(rest.iter().copied()).collect();
        let found = SettledMean::of(&series).unwrap();
        assert!((300..=460).contains(&found.equilibration.start), "{found:?}");
        assert!((found.mean - of_rest.mean).abs() < 2.0 * of_rest.error, "{found:?} {of_rest:?}");
        let (by_blocks, own) = block_error(&rest, 64);
        assert!((of_rest.error - by_blocks).abs() < 3.0 * own, "{of_rest:?} {by_blocks} {own}");
        assert_eq!(SettledMean::of(&[1.0, 2.0, 3.0]), None, "too few to tell");
    }

    #[test]
    fn a_constant_is_one_sample() {
        let found = equilibration(&[0.1; 50]);
        assert_eq!((found.start, found.inefficiency, found.n_effective), (0, 1.0, 1.0));
        assert_eq!(statistical_inefficiency(&[0.1; 50]), None);
        assert_eq!(block_error(&[0.1; 8], 2), (0.0, 0.0));
    }
}
