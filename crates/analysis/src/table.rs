//! Results: tables whose columns say what they are.

use serde::Serialize;

use crate::group::Group;
use crate::{Error, Topology};

/// What a number of a residue is in tables, but for the one that the file gives it.
pub(crate) const RESIDUE_INDEX: &str =
    "number of the residue, counted from 1 over all chains, as in masks";

/// A result of an analysis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Which analysis of the request it belongs to.
    pub analysis: usize,
    /// What it is, in a word: `rmsd`, `hydrogen_bonds`.
    pub kind: &'static str,
    /// The same, with a number if the report has several: `rmsd`, `rmsd_2`. It can name a file.
    pub name: String,
    /// What it is, for people: a few words and the groups.
    pub title: String,
    /// What the numbers mean: formula, reference, treatment of periodic images.
    pub definition: String,
    /// The groups of atoms that were used, by their part in the definition.
    pub groups: Vec<TableGroup>,
    /// Columns of equal length.
    pub columns: Vec<Column>,
    /// The same as a structure in PDB format, where the rows are atoms at some place.
    #[serde(skip)]
    pub pdb: Option<String>,
    /// The residues behind the letters of a column `codes`, by their numbers counted from 1 through
    /// the whole system.
    #[serde(skip)]
    pub residues: Vec<i64>,
}

/// A group of atoms behind a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableGroup {
    /// Its part in the definition: `fit`, `measure`, `donor`.
    pub role: &'static str,
    /// What the request calls it, as a rule its mask.
    pub label: String,
    /// Number of atoms in it.
    #[serde(rename = "atoms")]
    pub n_atoms: usize,
    /// Its first atom in words, `A:MET41@CA`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_atom: Option<String>,
    /// Its last atom, unless that is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_atom: Option<String>,
    /// The same two by their indices.
    #[serde(skip)]
    pub ends: Option<[usize; 2]>,
}

impl TableGroup {
    pub(crate) fn new(role: &'static str, group: &Group) -> Self {
        let ends = group.atoms.iter().next().zip(group.atoms.iter().last()).map(<[usize; 2]>::from);
        let (label, n_atoms) = (group.label.clone(), group.atoms.len());
        Self { role, label, n_atoms, ends, ..Self::default() }
    }

    /// Says which atoms it begins and ends with: a mask may have selected others than were meant.
    pub(crate) fn name_ends(&mut self, topology: &Topology) {
        let Some([first, last]) = self.ends else { return };
        self.first_atom = Some(topology.atom_label(first));
        self.last_atom = (last != first).then(|| topology.atom_label(last));
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Name, unique in its table: `frame`, `time_ps`, `rmsd_angstrom`.
    pub name: String,
    /// Unit, or nothing for counts, fractions and texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// What the values are.
    pub definition: String,
    /// The values.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Values {
    /// Measured numbers.
    Numbers(Vec<f64>),
    /// Counts and indices.
    Integers(Vec<i64>),
    /// Names.
    Texts(Vec<String>),
}

impl Values {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Column {
    pub(crate) fn numbers(
        name: impl Into<String>,
        unit: Option<&'static str>,
        definition: impl Into<String>,
        mut values: Vec<f64>,
    ) -> Self {
        // A sum of nothing is -0.0, which no measurement is.
        values.iter_mut().for_each(|value| *value += 0.0);
        Self {
            name: name.into(),
            unit,
            definition: definition.into(),
            values: Values::Numbers(values),
        }
    }

    pub(crate) fn integers(name: &str, definition: impl Into<String>, values: Vec<i64>) -> Self {
        Self {
            name: name.to_owned(),
            unit: None,
            definition: definition.into(),
            values: Values::Integers(values),
        }
    }

    /// The first row, and each of so many after it.
    pub(crate) fn every(&self, step: usize) -> Self {
        self.picked(&(0..self.values.len()).step_by(step).collect::<Vec<_>>())
    }

    /// Some of the rows.
    pub(crate) fn picked(&self, rows: &[usize]) -> Self {
        let values = match &self.values {
            Values::Numbers(values) => Values::Numbers(rows.iter().map(|n| values[*n]).collect()),
            Values::Integers(values) => Values::Integers(rows.iter().map(|n| values[*n]).collect()),
            Values::Texts(values) => {
                Values::Texts(rows.iter().map(|n| values[*n].clone()).collect())
            }
        };
        Self { name: self.name.clone(), definition: self.definition.clone(), values, ..*self }
    }

    pub(crate) fn texts(name: &str, definition: impl Into<String>, values: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            unit: None,
            definition: definition.into(),
            values: Values::Texts(values),
        }
    }
}

impl Table {
    pub(crate) fn new(
        kind: &'static str,
        title: &str,
        definition: String,
        groups: Vec<TableGroup>,
        columns: Vec<Column>,
    ) -> Self {
        let mut labels: Vec<_> = groups.iter().map(|group| group.label.as_str()).collect();
        labels.dedup();
        let title = format!("{title}: {}", labels.join(", "));
        Self {
            analysis: 0,
            kind,
            name: kind.to_owned(),
            title,
            definition,
            groups,
            columns,
            pdb: None,
            residues: Vec::new(),
        }
    }

    /// The same with a title that stands alone, where there are no groups.
    pub(crate) fn untitled(self) -> Self {
        let title = self.title.trim_end_matches(": ").to_owned();
        Self { title, ..self }
    }

    /// Checks that all numbers are finite, as they are where positions, cells and masses are.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for column in &self.columns {
            let Values::Numbers(values) = &column.values else { continue };
            if let Some(row) = values.iter().position(|value| !value.is_finite()) {
                return Err(Error::NotFinite {
                    table: self.name.clone(),
                    column: column.name.clone(),
                    row,
                });
            }
        }
        Ok(())
    }

    /// The column of a name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The numbers in a column, if it has numbers.
    pub fn numbers(&self, name: &str) -> Option<&[f64]> {
        match &self.column(name)?.values {
            Values::Numbers(values) => Some(values),
            Values::Integers(_) | Values::Texts(_) => None,
        }
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }
}
