//! What the stages of a simulation have logged: how it went, the means with their errors, and from
//! when on it was in equilibrium.

use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result};
use molbox::workflow::types::JobSettings;
use molbox_analysis::{Equilibration, SettledMean};
use molbox_plot::Figure;

use super::analysed;
use super::markdown::{Markdown, listed, md, row};
use super::methods::short;
use crate::{series, statistics};

/// By whom the means and where they begin are made.
const SETTLED: &str = "Chodera and others 2007, Chodera 2016";
const PRODUCTION: &str = "production";

/// A warning says so when more of production than this is drift: what is left of it is less than
/// what was thrown away.
pub(super) const MOST_DRIFT: f64 = 0.5;

/// Times from here on are written in ns, as in the figures.
const LONG_PS: f64 = 1000.0;

/// The logs of a simulation, by stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    stages: Vec<(String, String)>,
    quantities: Vec<Logged>,
}

/// A quantity that a stage has logged.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    stage: String,
    quantity: String,
    unit: String,
    /// When each value was logged, in ps from the start of the stage; not a number where the log
    /// does not say.
    times: Vec<f64>,
    values: Vec<f64>,
    /// None of too few values.
    settled: Option<SettledMean>,
}

impl Log {
    /// The logs of a bundle.
    pub(super) fn read(bundle: &Path, parameters: &JobSettings) -> Result<Self> {
        let n_stages = parameters.equilibration.as_ref().map_or(0, Vec::len);
        let names = (1..=n_stages).map(|n| format!("equilibration_{n}"));
        let mut stages = Vec::new();
        for stage in names.chain([PRODUCTION.to_owned()]) {
            let path = bundle.join(&stage).with_extension("csv");
            // A simulation that was stopped has no logs of the stages that it did not reach.
            if path.exists() {
                let log = fs::read_to_string(&path)
                    .with_context(|| format!("read {}", path.display()))?;
                stages.push((stage, log));
            }
        }
        Ok(Self::of(stages))
    }

    /// Logs by the names of their stages.
    pub(super) fn of(
        stages: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        let stages: Vec<(String, String)> =
            stages.into_iter().map(|(stage, log)| (stage.into(), log.into())).collect();
        let mut quantities: Vec<Logged> =
            stages.iter().flat_map(|(stage, log)| logged(stage, log)).collect();
        // Of a long log each takes seconds.
        thread::scope(|scope| {
            for one in &mut quantities {
                scope.spawn(|| one.settled = SettledMean::of(&one.values));
            }
        });
        Self { stages, quantities }
    }

    /// What production has logged.
    pub(super) fn production(&self) -> impl Iterator<Item = &Logged> {
        self.quantities.iter().filter(|it| it.stage == PRODUCTION)
    }

    /// The course of the simulation; nothing when none was logged.
    pub(super) fn figure(&self) -> Option<Figure> {
        let logs = self.stages.iter().map(|(stage, log)| (stage.as_str(), log.as_str()));
        Figure::of_logs("Course of the simulation", logs)
    }

    /// That production was too short for some of what it has logged, in a sentence; of which
    /// replica, where there are several.
    pub(super) fn warning(&self, replica: Option<usize>) -> Option<Markdown> {
        let unsettled: Vec<(&str, f64)> = self
            .production()
            .filter_map(|it| Some((it.quantity.as_str(), it.drift()?)))
            .filter(|(_, drift)| *drift > MOST_DRIFT)
            .collect();
        let of = replica.map(|n| md!(" of replica {}", n));
        let percent = |drift: f64| format!("{:.0} %", 100.0 * drift);
        match unsettled.as_slice() {
            [] => None,
            [(quantity, drift)] => Some(md!(
                "The {} had not settled within production{}: the first {} is drift, or a \
                 fluctuation too slow for a run of this length, and its mean means little.",
                quantity,
                of,
                percent(*drift)
            )),
            several => {
                let names: Vec<&str> = several.iter().map(|(quantity, _)| *quantity).collect();
                let drifts: Vec<String> =
                    several.iter().map(|(_, drift)| percent(*drift)).collect();
                Some(md!(
                    "The {} had not settled within production{}: the first {} are drift, or \
                     fluctuations too slow for a run of this length, and their means mean little.",
                    listed(&names),
                    of,
                    listed(&drifts)
                ))
            }
        }
    }

    /// What to cite for the table.
    pub(super) fn citations(&self) -> impl Iterator<Item = &'static str> {
        let texts: &[&str] = if self.quantities.is_empty() { &[] } else { &[SETTLED] };
        analysed::cited(texts).into_iter()
    }

    /// The means of all stages with their errors, and where equilibrium begins.
    pub(super) fn table(&self, text: &mut Markdown) {
        if self.quantities.is_empty() {
            return;
        }
        text.push(md!(
            "| stage | quantity | unit | mean | standard error | standard deviation | values | \
             effective samples | in equilibrium from |\n|---|---|---|---|---|---|---|---|---|\n"
        ));
        for one in &self.quantities {
            let ([stage, quantity, unit], values) = (one.what(), one.cells());
            let [mean, error, deviation, n_values, n_effective, begin] = &values;
            text.push(row(&[
                &stage,
                &quantity,
                &unit,
                mean,
                error,
                deviation,
                n_values,
                n_effective,
                begin,
            ]));
        }
        text.push(md!(
            "\nMean, error and deviation are over the part of a stage in which the quantity is in \
             equilibrium: it begins where it holds the most effective samples, which are its values \
             by their statistical inefficiency, for successive ones are alike. The error is the \
             deviation by the root of that number ({}). Drift is what equilibration is for, \
             and a fault of production.\n\n",
            SETTLED
        ));
    }
}

impl Logged {
    /// Stage, quantity and unit.
    pub(super) fn what(&self) -> [String; 3] {
        let unit = self.unit.replace("^3", "³").replace("^2", "²");
        [self.stage.replace('_', " "), self.quantity.clone(), unit]
    }

    /// The mean where it is in equilibrium, or of all where that cannot be known.
    pub(super) fn mean(&self) -> f64 {
        self.settled.map_or_else(|| statistics::mean(&self.values), |settled| settled.mean)
    }

    /// From when on that is, and the independent samples in it; none where it cannot be known.
    pub(super) fn basis(&self) -> Option<String> {
        Some(basis(&self.settled?, &self.times))
    }

    /// Which part of it is drift; none where it is too short to tell.
    fn drift(&self) -> Option<f64> {
        Some(self.settled?.equilibration.start as f64 / self.values.len() as f64)
    }

    /// Mean, error, deviation, values, effective samples, and where equilibrium begins.
    fn cells(&self) -> [String; 6] {
        let n_values = self.values.len().to_string();
        let none = String::new;
        let Some(settled) = self.settled else {
            let why = "too few values".to_owned();
            return [short(self.mean()), why, none(), n_values, none(), none()];
        };
        // As it is written: the mean of equal numbers may differ from them in the last digit.
        let first = self.values[0];
        if self.values.iter().all(|value| *value == first) {
            return [short(first), "constant".to_owned(), none(), n_values, none(), none()];
        }
        let SettledMean { equilibration, mean, deviation, error } = settled;
        let digits = statistics::decimals(mean, error);
        [
            format!("{mean:.digits$}"),
            format!("{error:.digits$}"),
            format!("{deviation:.digits$}"),
            n_values,
            format!("{:.0}", equilibration.n_effective),
            begin(&self.times, equilibration.start),
        ]
    }
}

/// When the n-th of some values was measured, for people, by the times of all of them in ps, and
/// how much lay before it.
pub(super) fn begin(times: &[f64], nth: usize) -> String {
    if nth == 0 {
        return "the start".to_owned();
    }
    let part = format!("{:.0} %", 100.0 * nth as f64 / times.len() as f64);
    match times[nth] {
        ps if !ps.is_finite() => part,
        ps if times.iter().any(|ps| *ps >= LONG_PS) => {
            format!("{} ns ({part})", short(ps / 1000.0))
        }
        ps => format!("{} ps ({part})", short(ps)),
    }
}

/// From when on a mean is, and how many independent samples it is of.
pub(super) fn basis(settled: &SettledMean, times: &[f64]) -> String {
    let Equilibration { start, n_effective, .. } = settled.equilibration;
    format!("{}, {n_effective:.0}", begin(times, start))
}

/// The quantities of a log, without rows that have no number for them.
fn logged(stage: &str, log: &str) -> Vec<Logged> {
    let columns = series::columns(log);
    let time = columns.iter().find(|column| column.quantity == "time" && column.unit == "ps");
    let quantities = columns.iter().filter(|column| !column.is_abscissa()).map(|column| {
        let rows = column.values.iter().enumerate().filter(|(_, value)| value.is_finite());
        let (times, values) = rows
            .map(|(row, value)| (time.map_or(f64::NAN, |time| time.values[row]), *value))
            .unzip();
        let (quantity, unit) = (column.quantity.clone(), column.unit.clone());
        Logged { stage: stage.to_owned(), quantity, unit, times, values, settled: None }
    });
    quantities.filter(|it| !it.values.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A log of a density that rises until some row and then varies, of a temperature that varies,
    /// and of a volume that is held.
    fn log(n_rows: u32, n_drift: u32) -> String {
        let noise = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        let mut log = "step,time (ps),temperature (K),volume (nm^3),density (g/mL)\n".to_owned();
        for n in 0..n_rows {
            let density = 1.0 - 0.01 * f64::from(n_drift.saturating_sub(n)) + 0.01 * noise(n);
            let (ps, kelvin) = (f64::from(n + 1) * 5.0, 300.0 + noise(n + 7));
            writeln!(log, "{n},{ps},{kelvin},64.0,{density}").unwrap();
        }
        log
    }

    #[test]
    fn a_table_has_means_with_errors_and_where_equilibrium_begins() {
        let short = log(5, 0);
        let all = Log::of([("equilibration_1", short.as_str()), ("production", &log(400, 100))]);
        let mut table = Markdown::default();
        all.table(&mut table);
        let text = table.as_str();
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        let cells = |start: &str| row(start).split(" | ").map(str::to_owned).collect::<Vec<_>>();
        let density = cells("| production | density | g/mL |");
        let mean: f64 = density[3].parse().unwrap();
        assert!((mean - 1.005).abs() < 0.001, "the drift is left out: {density:?}");
        let error: f64 = density[4].parse().unwrap();
        assert!(error > 0.0 && error < 0.001, "{density:?}");
        assert_eq!(density[6], "400");
        let begin = density[8].trim_end_matches(" |");
        assert!(begin.contains(" ns (2"), "about 100 of 400 values, of 2 ns: {begin}");
        assert!(cells("| production | temperature | K |")[4].parse::<f64>().unwrap() > 0.0);
        assert!(row("| production | volume | nm³ |").contains("| 64 | constant |"), "{text}");
        let few = row("| equilibration 1 | density | g/mL |");
        assert!(few.contains("| too few values |"), "{few}");
    }

    #[test]
    fn what_drifts_for_more_than_half_of_production_is_warned_of() {
        let of = |drift| Log::of([("production", log(400, drift))]);
        assert_eq!(of(100).warning(None), None);
        let warning = of(300).warning(None).unwrap().to_string();
        assert!(warning.starts_with("The density had not settled within production: the first 7"));
        let warning = of(300).warning(Some(2)).unwrap().to_string();
        assert!(warning.contains("within production of replica 2: the first 7"), "{warning}");
        let equilibration = Log::of([("equilibration_1", log(400, 300))]);
        assert_eq!(equilibration.warning(None), None, "that is what it is for");
        assert_eq!(Log::default().warning(None), None);
    }

    #[test]
    fn what_drifts_together_is_named_in_one_sentence() {
        let text =
            log(400, 300).replace("density (g/mL)", "density (g/mL),potential energy (kJ/mol)");
        let twice = |(nth, line): (usize, &str)| {
            let last = line.rsplit(',').next().unwrap();
            if nth == 0 { format!("{line}\n") } else { format!("{line},{last}\n") }
        };
        let text: String = text.lines().enumerate().map(twice).collect();
        let warning = Log::of([("production", text)]).warning(None).unwrap().to_string();
        assert!(
            warning.starts_with("The density and potential energy had not settled"),
            "{warning}"
        );
    }
}
