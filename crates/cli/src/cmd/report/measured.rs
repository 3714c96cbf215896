//! What the analyses of a replica have measured: averages of what there is of each frame, and the
//! fluctuation of each residue.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::path::Path;
use std::{fs, thread};

use anyhow::{Context as _, Result};
use molbox_analysis::{Equilibration, SettledMean};
use serde::Deserialize;
use serde_json::Value;

use super::analysed;
use super::logged::{MOST_DRIFT, basis, begin};
use super::markdown::{Markdown, Piece, code, md, row};
use crate::statistics;

/// The tables of an analysis, as far as averages are made of them.
#[derive(Deserialize)]
struct Data {
    tables: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    kind: String,
    name: String,
    title: String,
    #[serde(default)]
    definition: String,
    #[serde(default)]
    groups: Vec<Group>,
    columns: Vec<Column>,
}

/// Atoms behind a table: a mask, and what it selected.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Group {
    label: String,
    atoms: u64,
    first_atom: Option<String>,
    last_atom: Option<String>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    unit: Option<String>,
    definition: String,
    values: Vec<Value>,
}

impl Table {
    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    fn fluctuations(&self) -> Option<Fluctuations> {
        let rmsf = self.column("rmsf_angstrom")?;
        let [chains, numbers, labels] =
            ["chain", "residue_number", "name"].map(|name| self.column(name));
        let [of_system, molecule] = ["residue", "molecule"].map(|name| self.column(name));
        let rows = chains?.values.iter().zip(&numbers?.values).zip(&labels?.values);
        let rows = rows.zip(&rmsf.values).enumerate();
        let residues = rows.map(|(row, (((chain, number), label), rmsf))| {
            Some(Fluctuation {
                chain: chain.as_str()?.to_owned(),
                number: number.as_f64()?,
                of_system: of_system.and_then(|column| column.values.get(row)?.as_i64()),
                molecule: molecule.and_then(|column| column.values.get(row)?.as_i64()),
                label: label.as_str()?.to_owned(),
                rmsf: rmsf.as_f64()?,
            })
        });
        let residues: Vec<Fluctuation> = residues.collect::<Option<_>>()?;
        (!residues.is_empty()).then(|| Fluctuations {
            table: self.name.clone(),
            title: readable(&self.title),
            unit: rmsf.unit.clone().unwrap_or_default(),
            residues,
        })
    }
}

impl Column {
    /// What was measured. Columns of texts have no mean, nor has one in which a value is missing, nor
    /// have angles, which begin anew where they end.
    fn measured(&self) -> Option<Vec<f64>> {
        let is_abscissa = ["frame", "time_ps"].contains(&self.name.as_str());
        let is_angle = self.unit.as_deref() == Some("°");
        let values: Option<Vec<f64>> = self.values.iter().map(Value::as_f64).collect();
        values.filter(|values| !is_abscissa && !is_angle && !values.is_empty())
    }
}

/// A quantity of an analysis, measured in each frame.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Analysis, definition and unit, for people.
    pub(super) what: [String; 3],
    /// The definition, as short as an axis needs it, and the unit alone.
    pub(super) name: String,
    pub(super) unit: String,
    /// In ps, or the frames where there are no times.
    pub(super) times: Vec<f64>,
    pub(super) has_times: bool,
    pub(super) values: Vec<f64>,
    /// Its mean where it is in equilibrium; none of too few frames.
    pub(super) settled: Option<SettledMean>,
}

impl Measured {
    /// The mean where it is in equilibrium, or of all frames where that cannot be known.
    pub(super) fn mean(&self) -> f64 {
        self.settled.map_or_else(|| statistics::mean(&self.values), |settled| settled.mean)
    }

    /// From when on that is, and the independent samples in it; none where it cannot be known.
    pub(super) fn basis(&self) -> Option<String> {
        Some(basis(&self.settled?, &self.times_ps()))
    }

    /// The times, none of which is a number where there are frames alone.
    fn times_ps(&self) -> Cow<'_, [f64]> {
        if self.has_times {
            Cow::Borrowed(&self.times)
        } else {
            Cow::Owned(vec![f64::NAN; self.times.len()])
        }
    }

    /// The values of the part in equilibrium, or all where that cannot be known.
    fn of_equilibrium(&self) -> &[f64] {
        &self.values[self.settled.map_or(0, |settled| settled.equilibration.start)..]
    }

    /// Mean, error, deviation, extremes, frames, inefficiency, effective samples, and where
    /// equilibrium begins.
    fn cells(&self) -> [String; 9] {
        let scale = statistics::scale(&self.values);
        let shown = |number| statistics::unrounded(number, scale);
        let least = shown(self.values.iter().copied().fold(f64::INFINITY, f64::min));
        let largest = shown(self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let extremes = [format!("{least:.3}"), format!("{largest:.3}")];
        let [least, largest] = extremes;
        let n_frames = self.values.len().to_string();
        let none = String::new;
        let alone = |why: &str| {
            let mean = format!("{:.3}", shown(statistics::mean(&self.values)));
            let why = why.to_owned();
            [
                mean,
                why,
                none(),
                least.clone(),
                largest.clone(),
                n_frames.clone(),
                none(),
                none(),
                none(),
            ]
        };
        let Some(SettledMean { equilibration, mean, deviation, error }) = self.settled else {
            return alone("too few frames");
        };
        if self.values.iter().all(|value| *value == self.values[0]) {
            return alone("constant");
        }
        let digits = statistics::decimals(mean, error);
        let mean = shown(mean);
        let Equilibration { start, inefficiency, n_effective } = equilibration;
        [
            format!("{mean:.digits$}"),
            format!("{error:.digits$}"),
            format!("{deviation:.digits$}"),
            least,
            largest,
            n_frames,
            format!("{inefficiency:.1}"),
            format!("{n_effective:.0}"),
            begin(&self.times_ps(), start),
        ]
    }
}

/// How far residues fluctuate, or the only atom that was measured of each.
#[derive(Clone, Debug)]
pub(super) struct Fluctuations {
    /// Of the table, which can name a file.
    pub(super) table: String,
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) residues: Vec<Fluctuation>,
}

#[derive(Clone, Debug)]
pub(super) struct Fluctuation {
    pub(super) chain: String,
    pub(super) number: f64,
    /// Through the whole system, where the table is by residue.
    pub(super) of_system: Option<i64>,
    /// Where several have residues of the same label.
    pub(super) molecule: Option<i64>,
    /// Chain, residue, and atom where there is one, by which it is known in other replicas.
    pub(super) label: String,
    pub(super) rmsf: f64,
}

/// What an analysis came to, as far as the report goes into it.
#[derive(Clone, Debug, Default)]
pub(super) struct Analysis {
    pub(super) measured: Vec<Measured>,
    pub(super) fluctuations: Vec<Fluctuations>,
    pub(super) groups: Vec<Group>,
    /// What to cite for it.
    pub(super) citations: Vec<&'static str>,
}

impl Analysis {
    pub(super) fn read(tables: &Path) -> Result<Self> {
        let path = tables.join("data.json");
        let data = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let data: Data =
            serde_json::from_str(&data).with_context(|| format!("read {}", path.display()))?;
        Ok(Self::of(&data))
    }

    fn of(data: &Data) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for group in data.tables.iter().flat_map(|table| &table.groups) {
            if !groups.contains(group) {
                groups.push(group.clone());
            }
        }
        let mut measured = measured(&data.tables);
        settle(&mut measured);
        let definitions: Vec<&str> =
            data.tables.iter().map(|table| table.definition.as_str()).collect();
        let citations = analysed::cited(&definitions);
        Self { measured, fluctuations: fluctuations(&data.tables), groups, citations }
    }
}

/// Those of each table by residue, or by atom where that is the same.
fn fluctuations(tables: &[Table]) -> Vec<Fluctuations> {
    let mut all = Vec::new();
    for (nth, table) in tables.iter().enumerate() {
        let is_reduced = tables.get(nth + 1).is_some_and(|next| next.kind == "rmsf_by_residue");
        match table.kind.as_str() {
            "rmsf_by_residue" => all.extend(table.fluctuations()),
            "rmsf" if !is_reduced => all.extend(table.fluctuations()),
            _ => {}
        }
    }
    all
}

/// Finds where each quantity is in equilibrium: of a long trajectory each takes seconds.
fn settle(measured: &mut [Measured]) {
    let n_threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = measured.len().div_ceil(n_threads).max(1);
    thread::scope(|scope| {
        for some in measured.chunks_mut(share) {
            scope.spawn(|| some.iter_mut().for_each(|it| it.settled = SettledMean::of(&it.values)));
        }
    });
}

/// What was measured in each frame, but for the cluster that it is in, whose number is a name, and
/// projections on principal components, whose mean is 0 by construction.
fn measured(tables: &[Table]) -> Vec<Measured> {
    let mut all = Vec::new();
    let is_measured = |table: &&Table| {
        let has_mean = !["clusters_by_frame", "projections"].contains(&table.kind.as_str());
        has_mean && table.column("frame").is_some()
    };
    for table in tables.iter().filter(is_measured) {
        let along = |name: &str| table.column(name);
        let has_times = along("time_ps").is_some();
        let along = along("time_ps").or_else(|| along("frame")).map(|column| &column.values);
        let times: Vec<f64> =
            along.into_iter().flatten().map(|time| time.as_f64().unwrap_or(f64::NAN)).collect();
        for column in &table.columns {
            let Some(values) = column.measured() else { continue };
            let unit = column.unit.clone().unwrap_or_default();
            let name = column.definition.clone();
            let what = [table.title.clone(), readable(&name), unit.clone()];
            let times = times.clone();
            all.push(Measured { what, name, unit, times, has_times, values, settled: None });
        }
    }
    all
}

/// Masks that people have a word for, the longest first: `@CA` is part of others.
const WORDS: [(&str, &str); 6] = [
    // What presets restrain.
    ("!:HOH,LI,NA,K,RB,CS,F,CL,BR,I&!@/H", "the heavy atoms of the solute"),
    ("!:HOH,NA,CL", "all but water, sodium and chloride"),
    ("@N,CA,C,O", "the backbone"),
    ("@CA,C,N", "the backbone"),
    ("@N,CA,C", "the backbone"),
    ("@CA&@/C", "the α-carbons"),
];

/// What a mask selects, in words, if there are some for it.
pub(super) fn words_of(mask: &str) -> Option<&'static str> {
    WORDS.iter().find(|(of, _)| *of == mask).map(|(_, words)| *words)
}

/// A definition with words for the masks that have one: `RMSD of the α-carbons (@CA&@/C)`.
fn readable(definition: &str) -> String {
    for (mask, words) in WORDS {
        if let Some((before, after)) = definition.split_once(mask)
            && (before.is_empty() || before.ends_with(' '))
            && (after.is_empty() || after.starts_with([' ', ';', ')']) || after.starts_with(", "))
        {
            return format!("{before}{words} ({mask}){after}");
        }
    }
    definition.to_owned()
}

/// Which atoms the masks have selected: others, perhaps, than were meant.
pub(super) fn selected(text: &mut Markdown, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    text.push(md!("\n| mask | atoms | first | last |\n|---|--:|---|---|\n"));
    for Group { label, atoms, first_atom, last_atom } in groups {
        text.push(row(&[&code(label), atoms, first_atom, last_atom]));
    }
}

/// Mean with its standard error, where equilibrium begins and what it holds, and extremes, of what
/// was measured in each frame.
pub(super) fn averages(text: &mut Markdown, measured: &[Measured]) {
    if measured.is_empty() {
        return;
    }
    text.push(md!(
        "| analysis | quantity | unit | mean | standard error | standard deviation | least | \
         largest | frames | g | effective samples | in equilibrium from \
         |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    ));
    for one in measured {
        let cells = one.cells();
        let all: Vec<&dyn Piece> =
            one.what.iter().chain(&cells).map(|cell| cell as &dyn Piece).collect();
        text.push(row(&all));
    }
    text.push(md!(
        "\nMean, error and deviation are over the part in which the quantity is in equilibrium, as \
         in `convergence.csv`: it begins where it holds the most effective samples, which are its \
         frames by their statistical inefficiency g. Least and largest are of all frames.\n\n"
    ));
    for one in measured {
        let [_, quantity, _] = &one.what;
        let start = one.settled.map_or(0, |settled| settled.equilibration.start);
        let part = start as f64 / one.values.len() as f64;
        if part > MOST_DRIFT {
            text.push(md!(
                "**{}** had not settled: the first {} % is drift, or a fluctuation too slow for a \
                 run of this length, and its mean means little.\n\n",
                quantity,
                format!("{:.0}", 100.0 * part)
            ));
        } else if let Some(drift) = statistics::drift(one.of_equilibrium()) {
            text.push(md!(
                "**{}** changes by {} from the first third of that part to the last, by more than \
                 three standard errors: the system may not have been equilibrated, and its mean \
                 means little.\n\n",
                quantity,
                format!("{drift:.3}")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_that_have_a_word_are_given_it() {
        assert_eq!(readable("RMSD of @CA&@/C"), "RMSD of the α-carbons (@CA&@/C)");
        assert_eq!(readable("RMSD of @CA"), "RMSD of @CA");
        let of_presets = "!:HOH,LI,NA,K,RB,CS,F,CL,BR,I&!@/H";
        assert!(include_str!("../../presets.toml").contains(of_presets));
        assert_eq!(words_of(of_presets), Some("the heavy atoms of the solute"));
        assert_eq!(words_of("@CA"), None);
        assert_eq!(readable("!:HOH,NA,CL"), "all but water, sodium and chloride (!:HOH,NA,CL)");
        for mask in [":1@CA,C,N", "@CA,C,N,CB"] {
            assert_eq!(readable(mask), mask, "a part is not the whole");
        }
        assert_eq!(readable("RMSD of @CA,C,N, fitted"), "RMSD of the backbone (@CA,C,N), fitted");
    }

    #[test]
    fn angles_and_numbers_of_clusters_have_no_mean() {
        let frames = json!({"name": "frame", "definition": "", "values": [0, 1]});
        let tables = json!({"tables": [
            {"kind": "dihedrals", "name": "dihedrals", "title": "Dihedrals", "columns": [frames,
                {"name": "phi", "definition": "φ", "unit": "°", "values": [179.0, -179.0]}]},
            {"kind": "clusters_by_frame", "name": "clusters", "title": "Clusters", "columns": [frames,
                {"name": "cluster", "definition": "number", "values": [1, 3]}]},
            {"kind": "projections", "name": "projections", "title": "PCA", "columns": [frames,
                {"name": "pc1", "definition": "on the first", "unit": "Å", "values": [-1.0, 1.0]}]},
            {"kind": "rmsd", "name": "rmsd", "title": "RMSD", "columns": [frames,
                {"name": "rmsd", "definition": "RMSD", "unit": "Å", "values": [1.0, 3.0]}]},
        ]});
        let data: Data = serde_json::from_value(tables).unwrap();
        let found = Analysis::of(&data).measured;
        assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["RMSD"]);
    }

    #[test]
    fn a_mean_is_that_of_the_part_in_equilibrium() {
        let noise = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        let rising = |n: u32| 0.05 * f64::from(100_u32.saturating_sub(n));
        let values: Vec<f64> = (0..400).map(|n| 5.0 - rising(n) + noise(n)).collect();
        let times: Vec<f64> = (0..400).map(|n| 10.0 * f64::from(n)).collect();
        let tables = json!({"tables": [
            {"kind": "rmsd", "name": "rmsd", "title": "RMSD", "columns": [
                {"name": "frame", "definition": "", "values": (0..400).collect::<Vec<i32>>()},
                {"name": "time_ps", "definition": "", "unit": "ps", "values": times},
                {"name": "rmsd", "definition": "RMSD", "unit": "Å", "values": values}]},
        ]});
        let data: Data = serde_json::from_value(tables).unwrap();
        let measured = Analysis::of(&data).measured;
        let expected = SettledMean::of(&values).unwrap();
        assert_eq!(measured[0].mean(), expected.mean);
        assert!((expected.mean - 5.5).abs() < 0.05, "{expected:?}");
        let mut text = Markdown::default();
        averages(&mut text, &measured);
        let text = text.to_string();
        let row = text.lines().find(|line| line.starts_with("| RMSD |")).unwrap();
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let mean: f64 = cells[3].parse().unwrap();
        assert!((mean - expected.mean).abs() < expected.error, "{row}");
        assert_eq!(cells[8], "400");
        assert_eq!(cells[10], format!("{:.0}", expected.equilibration.n_effective));
        assert!(cells[11].contains(" ns (2"), "about 100 of 400 frames: {row}");
        let basis = measured[0].basis().unwrap();
        assert_eq!(basis, format!("{}, {}", cells[11], cells[10]));
    }

    #[test]
    fn what_rounding_leaves_of_0_is_0() {
        let tables = json!({"tables": [
            {"kind": "rmsd", "name": "rmsd", "title": "RMSD", "columns": [
                {"name": "frame", "definition": "", "values": [0, 1, 2]},
                {"name": "rmsd", "definition": "RMSD", "unit": "Å", "values": [-4e-18, 1.0, 2.0]}]},
        ]});
        let data: Data = serde_json::from_value(tables).unwrap();
        let [mean, _, _, least, largest, ..] = Analysis::of(&data).measured[0].cells();
        assert_eq!([mean, least, largest], ["1.000", "0.000", "2.000"]);
    }

    #[test]
    fn tables_have_the_word_for_a_mask_and_axes_are_short_enough_to_be_whole() {
        let tables = json!({"tables": [
            {"kind": "rmsd", "name": "rmsd", "title": "RMSD", "columns": [
                {"name": "frame", "definition": "", "values": [0]},
                {"name": "rmsd", "definition": "RMSD of @CA&@/C", "unit": "Å", "values": [1.0]}]},
        ]});
        let data: Data = serde_json::from_value(tables).unwrap();
        let Measured { what, name, .. } = &Analysis::of(&data).measured[0];
        assert_eq!(name, "RMSD of @CA&@/C");
        assert_eq!(*what, ["RMSD", "RMSD of the α-carbons (@CA&@/C)", "Å"]);
    }

    #[test]
    fn fluctuations_are_those_of_residues_once() {
        let table = |kind: &str, label: &str| {
            json!({"kind": kind, "name": kind, "title": "RMSF: @CA", "columns": [
                {"name": "name", "definition": "", "values": [label]},
                {"name": "chain", "definition": "", "values": ["A"]},
                {"name": "residue_number", "definition": "", "values": [42]},
                {"name": "rmsf_angstrom", "definition": "", "unit": "Å", "values": [0.5]},
            ]})
        };
        let of = |tables: Value| -> Vec<String> {
            let data: Data = serde_json::from_value(json!({ "tables": tables })).unwrap();
            let found = Analysis::of(&data).fluctuations;
            found.iter().map(|it| it.residues[0].label.clone()).collect()
        };
        assert_eq!(of(json!([table("rmsf", "A:MET42@CA")])), ["A:MET42@CA"]);
        let both = json!([table("rmsf", "A:MET42@CA"), table("rmsf_by_residue", "A:MET42")]);
        assert_eq!(of(both), ["A:MET42"]);
    }
}
