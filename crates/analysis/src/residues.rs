//! What an axis of residues shows beside numbers: chains and secondary structure.

use crate::read::{Frame, Series};
use crate::secondary::SecondaryStructure;
use crate::setup::Setup;
use crate::table::{Table, Values};
use crate::topology::Residue;
use crate::{AtomSet, Group, Topology};

/// Kinds of tables whose rows are residues or pairs of them, and that are drawn along residues.
const ALONG_RESIDUES: [&str; 6] = [
    "rmsf",
    "rmsf_by_residue",
    "contacts",
    "native_contacts",
    "secondary_structure",
    "surface_area",
];

/// The residues of a topology, water left out, for the axes of figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResidueAxis {
    /// In the order of the topology.
    pub residues: Vec<AxisResidue>,
    /// What the secondary structure is of, for people.
    pub origin: &'static str,
}

/// A residue of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisResidue {
    /// Its number, counted from 1 through the whole system.
    pub number: usize,
    /// Chain, name and number of the file, as in tables.
    pub label: String,
    /// Its number in the file, with its insertion code.
    pub in_file: String,
    /// Identifier of its chain.
    pub chain: String,
    /// Its secondary structure.
    pub fold: Fold,
}

/// Secondary structure in three classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// H, G and I of DSSP.
    Helix,
    /// E and B.
    Strand,
    /// All else, also what is not a protein.
    #[default]
    Other,
}

impl Fold {
    fn of(code: char) -> Self {
        match code {
            'H' | 'G' | 'I' => Self::Helix,
            'E' | 'B' => Self::Strand,
            _ => Self::Other,
        }
    }
}

impl ResidueAxis {
    /// The residues behind tables; none where no table is drawn along residues.
    pub(crate) fn of(tables: &[Table], setup: &Setup<'_>) -> Self {
        if !tables.iter().any(|table| ALONG_RESIDUES.contains(&table.kind)) {
            return Self::default();
        }
        let topology = setup.topology();
        let assigned = tables.iter().filter(|table| table.kind == "secondary_structure");
        let mut folds = vec![Fold::Other; topology.n_residues()];
        let mut has_assigned = false;
        for (residue, fold) in assigned.filter_map(most_frequent).flatten() {
            folds[residue] = fold;
            has_assigned = true;
        }
        if has_assigned {
            return Self { residues: residues(topology, &folds), origin: "most of the frames" };
        }
        let first = setup.frames.analyzed.first().copied().unwrap_or_default();
        Self::of_frame(topology, setup.frames.trajectory, first)
    }

    /// The residues with the secondary structure that they have in a frame, or without any where
    /// that is missing or has a damaged atom: what decorates a figure must not end it.
    pub fn of_frame(topology: &Topology, trajectory: &Series, frame: usize) -> Self {
        let mut folds = vec![Fold::Other; topology.n_residues()];
        for (residue, code) in states(topology, trajectory, frame).unwrap_or_default() {
            folds[residue] = Fold::of(code);
        }
        Self { residues: residues(topology, &folds), origin: "the first analysed frame" }
    }
}

fn residues(topology: &Topology, folds: &[Fold]) -> Vec<AxisResidue> {
    let all = (0..topology.n_residues()).filter(|residue| !topology.is_water(*residue));
    let residues = all.map(|residue| {
        let Residue { number, insertion_code, chain, .. } = topology.residue(residue);
        let code = insertion_code.map_or(String::new(), String::from);
        AxisResidue {
            number: residue + 1,
            label: topology.residue_label(residue),
            in_file: format!("{number}{code}"),
            chain: topology.chain_id(chain).to_owned(),
            fold: folds[residue],
        }
    });
    residues.collect()
}

/// The class of each residue that has the largest part of the frames.
fn most_frequent(table: &Table) -> Option<Vec<(usize, Fold)>> {
    let Values::Integers(numbers) = &table.column("residue")?.values else { return None };
    let part = |names: &[&str], row: usize| {
        names.iter().map(|name| table.numbers(name).map_or(0.0, |parts| parts[row])).sum::<f64>()
    };
    let folds = numbers.iter().enumerate().map(|(row, number)| {
        let helix = part(&["alpha_helix", "helix_310", "pi_helix"], row);
        let strand = part(&["strand", "beta_bridge"], row);
        let fold = match 1.0 - helix - strand {
            other if other >= helix.max(strand) => Fold::Other,
            _ if helix >= strand => Fold::Helix,
            _ => Fold::Strand,
        };
        (*number as usize - 1, fold)
    });
    Some(folds.collect())
}

/// The states of all residues with a backbone in a frame.
fn states(topology: &Topology, trajectory: &Series, frame: usize) -> Option<Vec<(usize, char)>> {
    if trajectory.n_atoms() != topology.n_atoms() || frame >= trajectory.n_frames() {
        return None;
    }
    let group = Group { label: "*".to_owned(), atoms: AtomSet::all(topology.n_atoms()) };
    let request = SecondaryStructure { group };
    let plan = trajectory.read_plan(&request.atoms(topology));
    let assignment = request.assignment(topology, |atom| plan.slot(atom))?;
    let mut into = Frame::new();
    trajectory.read(frame, &plan, &mut into).ok()?;
    Some(assignment.of_frame(&into))
}
