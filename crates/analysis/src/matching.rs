//! The same atoms in two topologies.

use rustc_hash::FxHashMap;

use crate::{AtomSet, Cell, Topology};

/// A structure that RMSD are measured from.
#[derive(Clone, Debug)]
pub struct ReferenceStructure<'a> {
    /// The field that asks for it.
    pub field: &'static str,
    /// What results call it.
    pub label: String,
    /// Its atoms; none where they are those of the trajectory.
    pub topology: Option<&'a Topology>,
    /// Where they are, in Å.
    pub positions: &'a [[f64; 3]],
    /// The cell that they are in, where that is known of them.
    pub cell: Option<Cell>,
}

/// Atoms of two topologies that are the same.
pub(crate) struct Matched<'a> {
    /// Pairs of one of the first topology and one of the second.
    pub(crate) atoms: Vec<(usize, usize)>,
    /// Names of residues that are not the same, and not forms of the same either.
    pub(crate) other_residues: Vec<[&'a str; 2]>,
}

#[derive(Debug)]
pub(crate) struct Unmatched {
    pub(crate) what: String,
    /// What is the matter, up to the name of the other structure.
    pub(crate) problem: String,
}

/// Names of one residue in its states of protonation and in the files of different programs.
const FORMS: [&[&str]; 7] = [
    &["HIS", "HID", "HIE", "HIP", "HSD", "HSE", "HSP"],
    &["CYS", "CYX", "CYM"],
    &["ASP", "ASH"],
    &["GLU", "GLH"],
    &["LYS", "LYN"],
    &["MET", "MSE"],
    &["HOH", "WAT", "TIP3", "SOL"],
];

/// Matches two selections: residue by residue in their order, the atoms of each by their names.
///
/// Orders of atoms within a residue differ from program to program, and numbers of residues from a
/// deposited structure to a built one, so neither counts.
pub(crate) fn same_atoms<'a>(
    (here, own): (&'a Topology, &AtomSet),
    (there, other): (&'a Topology, &AtomSet),
) -> Result<Matched<'a>, Unmatched> {
    let [own, other] =
        [(here, own), (there, other)].map(|(topology, atoms)| by_residue(topology, atoms));
    if own.len() != other.len() {
        let problem = format!("has atoms of {} residues here and of {} in", own.len(), other.len());
        return Err(Unmatched { what: "the mask".to_owned(), problem });
    }
    let mut matched = Matched { atoms: Vec::new(), other_residues: Vec::new() };
    for ((residue, own), (its_residue, other)) in own.into_iter().zip(other) {
        let names = [here.residue(residue).name, there.residue(its_residue).name];
        if !are_forms(names) {
            matched.other_residues.push(names);
        }
        let mut named: FxHashMap<&str, usize> =
            other.iter().map(|atom| (there.atom(*atom).name, *atom)).collect();
        let label = there.residue_label(its_residue);
        for atom in own {
            let Some(its) = named.remove(here.atom(atom).name) else {
                let problem = format!("has no counterpart in {label} of");
                return Err(Unmatched { what: here.atom_label(atom), problem });
            };
            matched.atoms.push((atom, its));
        }
        if !named.is_empty() {
            let problem = format!("has fewer atoms here than {label} in");
            return Err(Unmatched { what: here.residue_label(residue), problem });
        }
    }
    Ok(matched)
}

fn are_forms([a, b]: [&str; 2]) -> bool {
    a == b || FORMS.iter().any(|forms| forms.contains(&a) && forms.contains(&b))
}

/// Atoms with the residue that they are of.
fn by_residue(topology: &Topology, atoms: &AtomSet) -> Vec<(usize, Vec<usize>)> {
    let own = |residue: usize| {
        topology.residue_atoms(residue).filter(|atom| atoms.contains(*atom)).collect()
    };
    topology.residues_of(atoms).into_iter().map(|residue| (residue, own(residue))).collect()
}
