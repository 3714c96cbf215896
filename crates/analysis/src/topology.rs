//! What a system consists of: atoms in residues in chains, bonds, and the molecules they form.

use std::collections::HashMap;

use crate::{AtomSet, Element};

/// One atom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Atom<'a> {
    /// Name, such as `CA`.
    pub name: &'a str,
    /// Element; none for virtual sites and coarse grains.
    pub element: Option<Element>,
    /// Force-field type, where the source has one.
    pub atom_type: Option<&'a str>,
    /// Mass in Da.
    pub mass_da: f64,
    /// Index of its residue.
    pub residue: usize,
}

/// One residue. Its atoms are a run, unless a file lists some apart from the others, as all
/// hydrogens of a chain after its heavy atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residue<'a> {
    /// Name, such as `ALA`.
    pub name: &'a str,
    /// Number that the author of the structure gave it; neither unique nor ascending.
    pub number: i64,
    /// Insertion code that distinguishes residues of one number.
    pub insertion_code: Option<char>,
    /// Index of its chain.
    pub chain: usize,
}

/// Atoms, residues, chains and bonds, each in file order and checked against each other.
///
/// Two chains may have one id: a chain is a run of residues, and files list the ligands and water
/// of chain `A` apart from its protein.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The distinct names of everything. Masks are matched against these, not against every atom.
    names: Vec<Box<str>>,
    atoms: Vec<AtomRow>,
    residues: Vec<ResidueRow>,
    chains: Vec<NameId>,
    bonds: Vec<[u32; 2]>,
    molecule_of: Vec<u32>,
    n_molecules: usize,
    /// Atoms by their residues; empty where that is their order.
    by_residue: Vec<u32>,
    /// In elementary charges; none if the source has none.
    charges: Vec<f64>,
}

/// What programs and force fields call water. OPC, T3P and T4P are not here, though force fields
/// have them: they are ligands in the Protein Data Bank, and water by their atoms.
pub(crate) const WATER: [&str; 22] = [
    "HOH", "WAT", "SOL", "TIP", "TIP3", "TIP3P", "TP3", "TP3M", "TIP4", "TIP4P", "TP4", "TP4E",
    "T4E", "TIP5", "TIP5P", "TP5", "SPC", "SPCE", "SPC/E", "OPC3", "H2O", "DOD",
];

/// Index into the distinct names of a topology.
type NameId = u32;

#[derive(Clone, Debug, PartialEq)]
struct AtomRow {
    name: NameId,
    atom_type: Option<NameId>,
    element: Option<Element>,
    residue: u32,
    mass_da: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct ResidueRow {
    name: NameId,
    number: i64,
    insertion_code: Option<char>,
    chain: u32,
    /// Place of its first atom among those by residue.
    first_place: u32,
}

/// Parts that do not make a topology.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidTopology {
    /// Residues must be numbered from 0 without gaps, by their first atoms.
    #[error(
        "atom {atom} is in residue {residue}, which is neither that of an atom before nor the next"
    )]
    ResidueOrder {
        /// The atom.
        atom: usize,
        /// The residue it names.
        residue: usize,
    },
    /// Chains must be runs of residues, numbered from 0 without gaps.
    #[error(
        "residue {residue} is in chain {chain}, which is neither that of the residue before nor \
         the next"
    )]
    ChainOrder {
        /// The residue.
        residue: usize,
        /// The chain it names.
        chain: usize,
    },
    /// Every residue and every chain must have an atom.
    #[error(
        "{residues} residues and {chains} chains are listed, but atoms are in {used_residues} and \
         {used_chains}"
    )]
    Unused {
        /// Residues listed.
        residues: usize,
        /// Chains listed.
        chains: usize,
        /// Residues that have an atom.
        used_residues: usize,
        /// Chains that have a residue.
        used_chains: usize,
    },
    /// A bond must join two different atoms of the topology.
    #[error("bond between atoms {} and {} of {n_atoms}", bond[0], bond[1])]
    Bond {
        /// The two atoms.
        bond: [u32; 2],
        /// Atoms there are.
        n_atoms: usize,
    },
    /// A mass must be finite and not negative.
    #[error("atom {atom} has the mass {mass_da} Da")]
    Mass {
        /// The atom.
        atom: usize,
        /// Its mass in Da.
        mass_da: f64,
    },
    /// Atoms are counted in 32 bits.
    #[error("more atoms than 32 bits count")]
    TooManyAtoms,
}

impl Topology {
    /// A topology of these parts, as another one lists them: `Topology::new(t.atoms(),
    /// t.residues(), t.chains(), t.bonds().to_vec())` is `t`.
    ///
    /// # Errors
    ///
    /// When the parts do not fit together, see [`InvalidTopology`].
    pub fn new<'a>(
        atoms: impl IntoIterator<Item = Atom<'a>>,
        residues: impl IntoIterator<Item = Residue<'a>>,
        chains: impl IntoIterator<Item = &'a str>,
        mut bonds: Vec<[u32; 2]>,
    ) -> Result<Self, InvalidTopology> {
        let mut names = Interner::default();
        let chains: Vec<_> = chains.into_iter().map(|id| names.intern(id)).collect();
        let mut residues = residue_rows(residues, &mut names)?;
        let atoms = atom_rows(atoms, &mut residues, &mut names)?;
        let used_residues = atoms.iter().map(|atom| atom.residue as usize + 1).max().unwrap_or(0);
        let used_chains = residues.last().map_or(0, |residue| residue.chain as usize + 1);
        if (used_residues, used_chains) != (residues.len(), chains.len()) {
            let residues = residues.len();
            let chains = chains.len();
            return Err(InvalidTopology::Unused { residues, chains, used_residues, used_chains });
        }
        let n_atoms = atoms.len();
        for bond in &mut bonds {
            bond.sort_unstable();
            if bond[0] == bond[1] || bond[1] as usize >= n_atoms {
                return Err(InvalidTopology::Bond { bond: *bond, n_atoms });
            }
        }
        bonds.sort_unstable();
        bonds.dedup();
        let (molecule_of, n_molecules) = molecules(n_atoms, &bonds);
        let by_residue = by_residue(&atoms);
        let (names, charges) = (names.names, Vec::new());
        Ok(Self {
            names,
            atoms,
            residues,
            chains,
            bonds,
            molecule_of,
            n_molecules,
            by_residue,
            charges,
        })
    }

    /// The same with the charge of each atom, in elementary charges.
    ///
    /// # Panics
    ///
    /// When there is not one for each atom.
    pub fn with_charges(self, charges: Vec<f64>) -> Self {
        assert_eq!(charges.len(), self.n_atoms(), "each atom has a charge");
        Self { charges, ..self }
    }

    /// The charge of an atom in elementary charges, where the source has one.
    pub fn charge_e(&self, atom: usize) -> Option<f64> {
        self.charges.get(atom).copied()
    }

    /// Number of atoms.
    pub fn n_atoms(&self) -> usize {
        self.atoms.len()
    }

    /// Number of residues.
    pub fn n_residues(&self) -> usize {
        self.residues.len()
    }

    /// Number of chains, counting each run of residues.
    pub fn n_chains(&self) -> usize {
        self.chains.len()
    }

    /// Number of molecules: sets of atoms that bonds connect. An atom without bonds is one.
    pub fn n_molecules(&self) -> usize {
        self.n_molecules
    }

    /// The atom of an index.
    pub fn atom(&self, idx: usize) -> Atom<'_> {
        let row = &self.atoms[idx];
        Atom {
            name: self.name(row.name),
            element: row.element,
            atom_type: row.atom_type.map(|id| self.name(id)),
            mass_da: row.mass_da,
            residue: row.residue as usize,
        }
    }

    /// The residue of an index.
    pub fn residue(&self, idx: usize) -> Residue<'_> {
        let row = &self.residues[idx];
        Residue {
            name: self.name(row.name),
            number: row.number,
            insertion_code: row.insertion_code,
            chain: row.chain as usize,
        }
    }

    /// The id of a chain.
    pub fn chain_id(&self, idx: usize) -> &str {
        self.name(self.chains[idx])
    }

    /// All atoms.
    pub fn atoms(&self) -> impl ExactSizeIterator<Item = Atom<'_>> {
        (0..self.n_atoms()).map(|idx| self.atom(idx))
    }

    /// All residues.
    pub fn residues(&self) -> impl ExactSizeIterator<Item = Residue<'_>> {
        (0..self.n_residues()).map(|idx| self.residue(idx))
    }

    /// The ids of all chains.
    pub fn chains(&self) -> impl ExactSizeIterator<Item = &str> {
        self.chains.iter().map(|id| self.name(*id))
    }

    /// Bonds, each with its lower atom first, in ascending order, without repeats.
    pub fn bonds(&self) -> &[[u32; 2]] {
        &self.bonds
    }

    /// The atoms of a residue, ascending; at least one.
    pub fn residue_atoms(
        &self,
        idx: usize,
    ) -> impl ExactSizeIterator<Item = usize> + Clone + use<'_> {
        let places = self.residues[idx].first_place as usize;
        let end =
            self.residues.get(idx + 1).map_or(self.n_atoms(), |next| next.first_place as usize);
        (places..end).map(|place| self.by_residue.get(place).map_or(place, |atom| *atom as usize))
    }

    /// The first atom of a residue.
    pub fn first_atom(&self, residue: usize) -> usize {
        self.residue_atoms(residue).next().expect("a residue has an atom")
    }

    /// The residues of which a set has atoms, ascending.
    pub fn residues_of(&self, atoms: &AtomSet) -> Vec<usize> {
        let mut residues: Vec<usize> = atoms.iter().map(|atom| self.atom(atom).residue).collect();
        residues.sort_unstable();
        residues.dedup();
        residues
    }

    /// The molecule of an atom; molecules are numbered from 0 by their first atoms.
    pub fn molecule_of(&self, atom: usize) -> usize {
        self.molecule_of[atom] as usize
    }

    /// Whether a residue is water, by its name or by its atoms: an oxygen, two hydrogens, and sites
    /// that are no elements.
    pub fn is_water(&self, residue: usize) -> bool {
        WATER.contains(&self.residue(residue).name) || self.has_atoms_of_water(residue)
    }

    /// Atoms of molecules of more than one atom that are no water.
    pub(crate) fn solute(&self) -> AtomSet {
        let mut n_atoms = vec![0_u32; self.n_molecules()];
        (0..self.n_atoms()).for_each(|atom| n_atoms[self.molecule_of(atom)] += 1);
        AtomSet::from_fn(self.n_atoms(), |atom| {
            n_atoms[self.molecule_of(atom)] > 1 && !self.is_water(self.atom(atom).residue)
        })
    }

    fn has_atoms_of_water(&self, residue: usize) -> bool {
        let atoms = self.residue_atoms(residue);
        // Models have up to three sites besides the atoms.
        if !(3..=6).contains(&atoms.len()) {
            return false;
        }
        let [mut n_oxygens, mut n_hydrogens] = [0; 2];
        for element in atoms.filter_map(|atom| self.atom(atom).element) {
            match element {
                Element::O => n_oxygens += 1,
                Element::H => n_hydrogens += 1,
                _ => return false,
            }
        }
        n_oxygens == 1 && n_hydrogens == 2
    }

    /// An atom in words: `A:LYS10B@NZ`; the chain is left out where it has no id.
    pub fn atom_label(&self, atom: usize) -> String {
        let Atom { name, residue, .. } = self.atom(atom);
        let residue = self.residue_label(residue);
        format!("{residue}@{name}")
    }

    /// A residue in words: `A:LYS10B`; the chain is left out where it has no id.
    pub fn residue_label(&self, residue: usize) -> String {
        let Residue { name, number, insertion_code, chain } = self.residue(residue);
        let chain = self.chain_id(chain);
        let code = insertion_code.map_or(String::new(), String::from);
        if chain.is_empty() {
            format!("{name}{number}{code}")
        } else {
            format!("{chain}:{name}{number}{code}")
        }
    }

    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.names
    }

    pub(crate) fn atom_name_id(&self, atom: usize) -> usize {
        self.atoms[atom].name as usize
    }

    pub(crate) fn atom_type_id(&self, atom: usize) -> Option<usize> {
        self.atoms[atom].atom_type.map(|id| id as usize)
    }

    pub(crate) fn residue_name_id(&self, residue: usize) -> usize {
        self.residues[residue].name as usize
    }

    pub(crate) fn chain_name_id(&self, residue: usize) -> usize {
        self.chains[self.residues[residue].chain as usize] as usize
    }

    pub(crate) fn element(&self, atom: usize) -> Option<Element> {
        self.atoms[atom].element
    }

    fn name(&self, id: NameId) -> &str {
        &self.names[id as usize]
    }
}

fn residue_rows<'a>(
    residues: impl IntoIterator<Item = Residue<'a>>,
    names: &mut Interner,
) -> Result<Vec<ResidueRow>, InvalidTopology> {
    let mut rows: Vec<ResidueRow> = Vec::new();
    for Residue { name, number, insertion_code, chain } in residues {
        let next = rows.last().map_or(0, |row| row.chain as usize + 1);
        if chain != next && chain + 1 != next {
            return Err(InvalidTopology::ChainOrder { residue: rows.len(), chain });
        }
        rows.push(ResidueRow {
            name: names.intern(name),
            number,
            insertion_code,
            chain: chain as u32,
            first_place: 0,
        });
    }
    Ok(rows)
}

fn atom_rows<'a>(
    atoms: impl IntoIterator<Item = Atom<'a>>,
    residues: &mut [ResidueRow],
    names: &mut Interner,
) -> Result<Vec<AtomRow>, InvalidTopology> {
    let mut rows: Vec<AtomRow> = Vec::new();
    let mut n_atoms = vec![0_u32; residues.len()];
    let mut next = 0;
    for Atom { name, element, atom_type, mass_da, residue } in atoms {
        let atom = rows.len();
        if residue > next || residue >= residues.len() {
            return Err(InvalidTopology::ResidueOrder { atom, residue });
        }
        next = next.max(residue + 1);
        n_atoms[residue] += 1;
        if !(mass_da.is_finite() && mass_da >= 0.0) {
            return Err(InvalidTopology::Mass { atom, mass_da });
        }
        let name = names.intern(name);
        let atom_type = atom_type.map(|name| names.intern(name));
        rows.push(AtomRow { name, atom_type, element, residue: residue as u32, mass_da });
    }
    if rows.len() > u32::MAX as usize {
        return Err(InvalidTopology::TooManyAtoms);
    }
    let mut place = 0;
    for (residue, n_atoms) in residues.iter_mut().zip(n_atoms) {
        residue.first_place = place;
        place += n_atoms;
    }
    Ok(rows)
}

/// The atoms in the order of their residues; nothing where they are in it.
fn by_residue(atoms: &[AtomRow]) -> Vec<u32> {
    if atoms.is_sorted_by_key(|atom| atom.residue) {
        return Vec::new();
    }
    let mut order: Vec<u32> = (0..atoms.len() as u32).collect();
    order.sort_by_key(|atom| atoms[*atom as usize].residue);
    order
}

/// The molecule of each atom, and how many there are. Each root is the lowest atom of its
/// molecule, so molecules are numbered in the order in which they are met.
fn molecules(n_atoms: usize, bonds: &[[u32; 2]]) -> (Vec<u32>, usize) {
    let mut parent: Vec<u32> = (0..n_atoms as u32).collect();
    for [a, b] in bonds {
        let a = root(&mut parent, *a);
        let b = root(&mut parent, *b);
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut n_molecules = 0;
    for atom in 0..n_atoms {
        let up = parent[atom] as usize;
        if up == atom {
            parent[atom] = n_molecules;
            n_molecules += 1;
        } else {
            parent[atom] = parent[up];
        }
    }
    (parent, n_molecules as usize)
}

fn root(parent: &mut [u32], mut atom: u32) -> u32 {
    while parent[atom as usize] != atom {
        let up = parent[atom as usize];
        parent[atom as usize] = parent[up as usize];
        atom = up;
    }
    atom
}

#[derive(Default)]
struct Interner {
    names: Vec<Box<str>>,
    ids: HashMap<Box<str>, NameId>,
}

impl Interner {
    fn intern(&mut self, name: &str) -> NameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.names.len() as NameId;
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::{Atom, InvalidTopology, Residue, Topology};
    use crate::Element;

    fn atom(name: &str, residue: usize) -> Atom<'_> {
        Atom { name, element: Some(Element::C), atom_type: None, mass_da: 12.0, residue }
    }

    fn residue(name: &str, number: i64, chain: usize) -> Residue<'_> {
        Residue { name, number, insertion_code: None, chain }
    }

    fn two_chains(bonds: Vec<[u32; 2]>) -> Result<Topology, InvalidTopology> {
        let atoms = [atom("N", 0), atom("CA", 0), atom("N", 1), atom("CA", 1), atom("O", 2)];
        let residues = [residue("ALA", -1, 0), residue("GLY", 0, 0), residue("HOH", 1, 1)];
        Topology::new(atoms, residues, ["A", ""], bonds)
    }

    #[test]
    fn a_topology_is_made_of_its_own_parts() {
        let topology = two_chains(vec![[1, 0], [1, 2], [0, 1], [3, 2]]).unwrap();
        let again = Topology::new(
            topology.atoms(),
            topology.residues(),
            topology.chains(),
            topology.bonds().to_vec(),
        )
        .unwrap();
        assert_eq!(topology, again);
        assert_eq!(topology.bonds(), [[0, 1], [1, 2], [2, 3]]);
        assert!(topology.residue_atoms(1).eq(2..4));
        assert_eq!(
            (topology.atom_label(1), topology.atom_label(4)),
            ("A:ALA-1@CA".to_owned(), "HOH1@O".to_owned())
        );
    }

    #[test]
    fn atoms_apart_from_their_residue_are_of_it() {
        let atoms = [atom("N", 0), atom("N", 1), atom("O", 2), atom("H", 0), atom("H", 1)];
        let residues = [residue("ALA", 1, 0), residue("GLY", 2, 0), residue("HOH", 3, 0)];
        let topology = Topology::new(atoms, residues, ["A"], Vec::new()).unwrap();
        let of = |residue| topology.residue_atoms(residue).collect::<Vec<_>>();
        assert_eq!([of(0), of(1), of(2)], [vec![0, 3], vec![1, 4], vec![2]]);
        assert_eq!(topology.first_atom(1), 1);
        let again =
            Topology::new(topology.atoms(), topology.residues(), topology.chains(), Vec::new());
        assert_eq!(again.as_ref(), Ok(&topology));
    }

    #[test]
    fn molecules_are_numbered_by_their_first_atoms() {
        let topology = two_chains(vec![[4, 1], [2, 3]]).unwrap();
        let molecules: Vec<_> = (0..5).map(|atom| topology.molecule_of(atom)).collect();
        assert_eq!(molecules, [0, 1, 2, 2, 1]);
        assert_eq!(topology.n_molecules(), 3);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        assert!(matches!(two_chains(vec![[0, 5]]), Err(InvalidTopology::Bond { .. })));
        assert!(matches!(two_chains(vec![[1, 1]]), Err(InvalidTopology::Bond { .. })));
        let refused = |atoms: &[Atom<'static>], residues: &[Residue<'static>]| {
            Topology::new(atoms.to_vec(), residues.to_vec(), ["A"], Vec::new()).unwrap_err()
        };
        let ala = residue("ALA", 1, 0);
        assert!(matches!(
            refused(&[atom("N", 1)], &[ala, ala]),
            InvalidTopology::ResidueOrder { atom: 0, .. }
        ));
        assert!(matches!(
            refused(&[atom("N", 0), atom("N", 1)], &[ala]),
            InvalidTopology::ResidueOrder { .. }
        ));
        assert!(matches!(
            refused(&[atom("N", 0)], &[ala, ala]),
            InvalidTopology::Unused { used_residues: 1, .. }
        ));
        assert!(matches!(refused(&[], &[]), InvalidTopology::Unused { chains: 1, .. }));
        assert!(matches!(
            refused(&[atom("N", 0)], &[residue("ALA", 1, 1)]),
            InvalidTopology::ChainOrder { .. }
        ));
        let heavy = Atom { mass_da: f64::NAN, ..atom("N", 0) };
        assert!(matches!(refused(&[heavy], &[ala]), InvalidTopology::Mass { atom: 0, .. }));
    }
}
