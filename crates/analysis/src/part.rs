//! What a selection consists of: residues as tables name them, and as masks do.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::atom_set::AtomSet;
use crate::topology::Topology;

/// Residues of which atoms are selected: of a polymer those that follow each other in a chain; of
/// what is molecules of one residue each, such as water, all that have one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of residues that are molecules of their own: `HOH`.
    pub name: Option<String>,
    /// The first residue in words: `A:LYS10B`.
    pub first: String,
    /// The last one; none where there is one alone.
    pub last: Option<String>,
    /// How many residues there are.
    pub residues: usize,
    /// How many of their atoms are selected.
    pub atoms: usize,
    /// A mask that selects these residues and no others, with all of their atoms; none where it
    /// would be too long to be written.
    pub mask: Option<String>,
    /// Names of the atoms that are selected, each once.
    pub atom_names: Vec<String>,
}

/// So many runs of residues are written into a mask.
const MAX_RUNS: usize = 8;

/// The parts of a selection, in the order of their residues.
pub fn parts(topology: &Topology, atoms: &AtomSet) -> Vec<Part> {
    let mut residues_of = vec![0_u32; topology.n_molecules()];
    for residue in 0..topology.n_residues() {
        residues_of[topology.molecule_of(topology.first_atom(residue))] += 1;
    }
    let mut found: Vec<Members> = Vec::new();
    let mut of_name: HashMap<usize, usize> = HashMap::new();
    // The part of the atom before, and its residue.
    let mut before: Option<(usize, usize)> = None;
    // By residues, of which a file may list some atoms after those of others.
    let all = (0..topology.n_residues()).flat_map(|residue| topology.residue_atoms(residue));
    for atom in all.filter(|atom| atoms.contains(*atom)) {
        let residue = topology.atom(atom).residue;
        let is_alone = residues_of[topology.molecule_of(atom)] == 1;
        let nth = match before {
            Some((nth, same)) if same == residue => nth,
            _ if is_alone => {
                *of_name.entry(topology.residue_name_id(residue)).or_insert(found.len())
            }
            Some((nth, last)) if !found[nth].is_alone && follows(topology, last, residue) => nth,
            _ => found.len(),
        };
        if nth == found.len() {
            found.push(Members { is_alone, ..Members::default() });
        }
        found[nth].add(topology, atom, residue);
        before = Some((nth, residue));
    }
    found.iter().map(|members| members.part(topology)).collect()
}

/// Whether a residue is the next one of a chain.
fn follows(topology: &Topology, last: usize, residue: usize) -> bool {
    residue == last + 1 && topology.residue(residue).chain == topology.residue(last).chain
}

#[derive(Default)]
struct Members {
    is_alone: bool,
    residues: Vec<usize>,
    n_atoms: usize,
    names: Vec<String>,
    named: HashSet<usize>,
}

impl Members {
    fn add(&mut self, topology: &Topology, atom: usize, residue: usize) {
        if self.residues.last() != Some(&residue) {
            self.residues.push(residue);
        }
        self.n_atoms += 1;
        if self.named.insert(topology.atom_name_id(atom)) {
            self.names.push(topology.atom(atom).name.to_owned());
        }
    }

    fn part(&self, topology: &Topology) -> Part {
        let (first, last) = (self.residues[0], self.residues[self.residues.len() - 1]);
        let name = self.is_alone.then(|| topology.residue(first).name.to_owned());
        Part {
            first: topology.residue_label(first),
            last: (last != first).then(|| topology.residue_label(last)),
            residues: self.residues.len(),
            atoms: self.n_atoms,
            mask: self.mask(topology, name.as_deref()),
            atom_names: self.names.clone(),
            name,
        }
    }

    fn mask(&self, topology: &Topology, name: Option<&str>) -> Option<String> {
        let is_whole = |name: &str| {
            let of_name = topology.residues().filter(|residue| residue.name == name);
            is_plain(name) && of_name.count() == self.residues.len()
        };
        if let Some(name) = name.filter(|name| is_whole(name)) {
            return Some(format!(":{name}"));
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        for &residue in &self.residues {
            match runs.last_mut().filter(|run| run.end == residue) {
                Some(run) => run.end += 1,
                None => runs.push(residue..residue + 1),
            }
        }
        let text = |run: &Range<usize>| match run.len() {
            1 => run.end.to_string(),
            _ => format!("{}-{}", run.start + 1, run.end),
        };
        let runs: Vec<String> = runs.iter().map(text).collect();
        (runs.len() <= MAX_RUNS).then(|| format!(":{}", runs.join(",")))
    }
}

/// Whether a mask takes a name as it is: no number, and nothing that has a meaning.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Atom, Residue};
    use crate::{Element, Mask};

    /// Three bonded residues in chain A, one in chain B, two ions, water, and an ion.
    fn topology() -> Topology {
        let residues = [
            ("LEU", 42, 0),
            ("SER", 43, 0),
            ("ASP", 44, 0),
            ("GLY", 7, 1),
            ("GLY", 8, 1),
            ("NA", 1, 2),
            ("HOH", 1, 3),
            ("HOH", 2, 3),
            ("NA", 3, 3),
            ("2OP", 1, 4),
        ];
        let atoms = (0..residues.len()).flat_map(|residue| {
            ["CA", "CB"].map(|name| Atom {
                name,
                element: Some(Element::C),
                atom_type: None,
                mass_da: 12.0,
                residue,
            })
        });
        let chain = [[0, 2], [2, 4], [6, 8]];
        let bonds = (0..10).map(|residue| [2 * residue, 2 * residue + 1]).chain(chain);
        let residues = residues.map(|(name, number, chain)| Residue {
            name,
            number,
            insertion_code: None,
            chain,
        });
        Topology::new(atoms, residues, ["A", "B", "C", "D", "E"], bonds.collect()).unwrap()
    }

    fn shown(mask: &str) -> Vec<String> {
        let topology = topology();
        let selected = Mask::parse(mask).unwrap().select(&topology, None).unwrap().atoms;
        let parts = parts(&topology, &selected);
        assert_eq!(parts.iter().map(|part| part.atoms).sum::<usize>(), selected.len());
        for part in &parts {
            let whole = Mask::parse(part.mask.as_ref().unwrap()).unwrap();
            let whole = whole.select(&topology, None).unwrap().atoms;
            assert_eq!(whole.len(), 2 * part.residues, "{part:?}");
        }
        let line = |part: &Part| {
            let last = part.last.as_ref().map(|last| format!(" to {last}")).unwrap_or_default();
            format!("{}{last} = {}", part.first, part.mask.as_ref().unwrap())
        };
        parts.iter().map(line).collect()
    }

    #[test]
    fn chains_are_listed_by_runs_and_what_is_alone_by_its_name() {
        assert_eq!(
            shown("*"),
            [
                "A:LEU42 to A:ASP44 = :1-3",
                "B:GLY7 to B:GLY8 = :4-5",
                "C:NA1 to D:NA3 = :NA",
                "D:HOH1 to D:HOH2 = :HOH",
                "E:2OP1 = :10",
            ]
        );
        assert_eq!(
            shown(":1,3,8,9@CA"),
            ["A:LEU42 = :1", "A:ASP44 = :3", "D:HOH2 = :8", "D:NA3 = :9"]
        );
        assert_eq!(shown("!*"), Vec::<String>::new());
    }

    #[test]
    fn a_part_has_the_names_of_the_selected_atoms_alone() {
        let topology = topology();
        let all = AtomSet::all(topology.n_atoms());
        assert_eq!(parts(&topology, &all)[0].atom_names, ["CA", "CB"]);
        let one = AtomSet::from_fn(topology.n_atoms(), |atom| atom == 3);
        let [part] = &parts(&topology, &one)[..] else { panic!("one atom") };
        assert_eq!((part.atom_names.clone(), part.atoms), (vec!["CB".to_owned()], 1));
        assert_eq!((part.name.as_deref(), part.last.as_deref()), (None, None));
    }
}
