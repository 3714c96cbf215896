//! Topology and coordinates as a structure file gives them, whatever its format.

use std::collections::HashSet;

use super::frame::FARTHEST;
use super::join::{Apart, Joined, Listed, join};
use crate::cell::{norm, sub};
use crate::error::FormatErrorKind;
use crate::topology::{Atom, Residue};
use crate::{Cell, Element, Topology};

/// The first model of a structure file.
#[derive(Clone, Debug)]
pub struct Structure {
    /// Its atoms in the order of the file, one location of each.
    pub topology: Topology,
    /// Their positions in Å.
    pub positions: Vec<[f64; 3]>,
    /// The periodic cell, unless it is the 1 Å cube that stands for none.
    pub cell: Option<Cell>,
    /// Models in the file.
    pub n_models: usize,
    /// Alternate locations that the file has besides.
    n_left_out: usize,
    /// Atoms that look as if they were of a residue that the file lists before.
    apart: Option<Apart>,
}

/// What some programs put before the first line of a text.
pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Atoms that are looked at for whether a residue has one of a name: no residue whose number cannot
/// be read has more, and all atoms of a file may pretend to be one.
const MOST_LOOKED_AT: usize = 1000;

/// A text without what some programs put before its first line.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Refuses a text whose lines end with carriage returns alone, as of old Macs: to all that is read
/// by lines it would be one.
pub(super) fn check_line_ends(text: &str) -> Result<(), FormatErrorKind> {
    let first = text.split('\n').next().unwrap_or_default();
    if first.trim_end_matches('\r').contains('\r') {
        return Err(carriage_return());
    }
    Ok(())
}

/// That a line goes on behind what is no end of one here.
pub(super) fn carriage_return() -> FormatErrorKind {
    FormatErrorKind::Unexpected {
        expected: "lines that end with a line feed",
        found: "a carriage return alone".to_owned(),
    }
}

/// Refuses a position that no atom can have; the axes are called as in the file.
pub(super) fn check_position(
    position: [f64; 3],
    axes: [&str; 3],
    (atom, residue, number): (&str, &str, i64),
) -> Result<(), FormatErrorKind> {
    let far = position.iter().zip(axes).find(|(x, _)| x.abs() > f64::from(FARTHEST));
    far.map_or(Ok(()), |(x, axis)| {
        Err(FormatErrorKind::Unexpected {
            expected: "coordinates of at most 1,000,000 Å",
            found: format!("{x:e} Å as {axis} of {atom} of {residue} {number}"),
        })
    })
}

/// No hydrogen is as far as this from what it is bonded to, in Å.
const LONGEST_TO_HYDROGEN: f64 = 1.6;

impl Structure {
    /// Whether it has coarse grains in place of atoms.
    pub(crate) fn is_coarse(&self) -> bool {
        self.topology.atoms().all(|atom| atom.element.is_none())
    }

    /// Alternate locations of atoms that the file has besides the first of each, which is taken.
    pub fn n_locations(&self) -> usize {
        self.n_left_out
    }

    /// How many atoms have the name and number of a residue that is listed before and is too far from
    /// them, and the first of them in words.
    pub(crate) fn apart(&self) -> Option<(usize, String)> {
        self.apart.map(|apart| (apart.n_atoms, self.topology.atom_label(apart.first)))
    }

    /// Hydrogens that are far from what they were bonded to, the nearest heavy atom of their residue.
    /// In a structure that is in pieces and has no cell that is another than theirs.
    pub(crate) fn n_far_hydrogens(&self) -> usize {
        let is_far = |bond: &&[u32; 2]| {
            let [a, b] = bond.map(|atom| atom as usize);
            let apart = sub(self.positions[a], self.positions[b]);
            let is_hydrogen = |atom: usize| self.topology.atom(atom).element == Some(Element::H);
            (is_hydrogen(a) || is_hydrogen(b))
                && norm(Cell::nearest_or(self.cell.as_ref(), apart)) > LONGEST_TO_HYDROGEN
        };
        self.topology.bonds().iter().filter(is_far).count()
    }
}

/// One atom as a file lists it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) name: &'a str,
    pub(super) element: Option<Element>,
    pub(super) location: Option<&'a str>,
    pub(super) residue: &'a str,
    pub(super) number: i64,
    pub(super) insertion_code: Option<char>,
    pub(super) chain: &'a str,
    /// Whether a new chain starts here though its id may be that of the one before.
    pub(super) starts_chain: bool,
    pub(super) position: [f64; 3],
}

/// Residues and chains as they form, record by record.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) atoms: Vec<Atom<'a>>,
    pub(super) residues: Vec<Residue<'a>>,
    pub(super) chains: Vec<&'a str>,
    pub(super) positions: Vec<[f64; 3]>,
    /// The alternate location that was met first in the present residue.
    location: Option<&'a str>,
    /// Atoms, by residue and name, of which one of several locations is taken.
    located: HashSet<(usize, &'a str)>,
    n_left_out: usize,
    /// Where the file has each atom, once residues are joined whose atoms it has apart.
    places: Option<Vec<u32>>,
    apart: Option<Apart>,
}

impl<'a> Parts<'a> {
    /// Adds an atom and returns its index, unless it is another location of one that is there.
    pub(super) fn push(&mut self, record: &Record<'a>) -> Option<usize> {
        let same = self.residues.last().map(|last| {
            let at = (last.number, last.insertion_code, self.chains[last.chain]);
            at == (record.number, record.insertion_code, record.chain) && !record.starts_chain
        });
        let is_last = same == Some(true)
            && self.residues.last().is_some_and(|last| last.name == record.residue);
        // Two residues may share a place, one in each location.
        if same == Some(true)
            && !is_last
            && self.location.is_some()
            && record.location != self.location
        {
            self.n_left_out += 1;
            return None;
        }
        if !is_last {
            self.start_residue(record);
        }
        let residue = self.residues.len() - 1;
        if record.location.is_some() && !self.located.insert((residue, record.name)) {
            self.n_left_out += 1;
            return None;
        }
        self.location = self.location.or(record.location);
        let mass_da = record.element.map_or(0.0, Element::mass_da);
        self.atoms.push(Atom {
            name: record.name,
            element: record.element,
            atom_type: None,
            mass_da,
            residue,
        });
        self.positions.push(record.position);
        Some(self.atoms.len() - 1)
    }

    fn start_residue(&mut self, record: &Record<'a>) {
        if record.starts_chain || self.chains.last() != Some(&record.chain) {
            self.chains.push(record.chain);
        }
        let &Record { residue: name, number, insertion_code, .. } = record;
        self.residues.push(Residue { name, number, insertion_code, chain: self.chains.len() - 1 });
        self.location = None;
    }

    /// The residue that is being read, and whether it has an atom of this name.
    pub(super) fn last_residue(&self) -> Option<&Residue<'a>> {
        self.residues.last()
    }

    /// Whether the residue that is being read has an atom of this name.
    pub(super) fn last_residue_has(&self, name: &str) -> bool {
        let residue = self.residues.len().checked_sub(1);
        self.atoms
            .iter()
            .rev()
            .take(MOST_LOOKED_AT)
            .take_while(|atom| Some(atom.residue) == residue)
            .any(|atom| atom.name == name)
    }

    /// Joins residues whose atoms the file has apart, and sorts atoms by them, until
    /// [`finish`](Self::finish) puts these where they were. `bonds` are between atoms as they are
    /// sorted before and after. Returns which of the residues are left.
    pub(super) fn join(&mut self, cell: Option<&Cell>, bonds: &mut [[u32; 2]]) -> Vec<usize> {
        let listed = Listed {
            atoms: &self.atoms,
            residues: &self.residues,
            chains: &self.chains,
            positions: &self.positions,
        };
        let Joined { homes, apart } = join(&listed, cell);
        self.apart = apart;
        let left: Vec<usize> = (0..homes.len()).filter(|part| homes[*part] == *part).collect();
        if left.len() == homes.len() {
            return left;
        }
        let mut places: Vec<u32> = (0..self.atoms.len() as u32).collect();
        places.sort_by_key(|atom| homes[self.atoms[*atom as usize].residue]);
        let mut now_at = vec![0; places.len()];
        for (now, before) in places.iter().enumerate() {
            now_at[*before as usize] = now as u32;
        }
        bonds.as_flattened_mut().iter_mut().for_each(|atom| *atom = now_at[*atom as usize]);
        let residue_of = |atom: Atom<'a>| left.partition_point(|part| *part < homes[atom.residue]);
        let sorted = places.iter().map(|before| *before as usize);
        self.atoms = sorted
            .clone()
            .map(|before| self.atoms[before])
            .map(|atom| Atom { residue: residue_of(atom), ..atom })
            .collect();
        self.positions = sorted.map(|before| self.positions[before]).collect();
        self.places = Some(places);
        let mut chains: Vec<usize> = Vec::new();
        let residues = left.iter().map(|part| self.residues[*part]);
        self.residues = residues
            .map(|residue| {
                if chains.last() != Some(&residue.chain) {
                    chains.push(residue.chain);
                }
                Residue { chain: chains.len() - 1, ..residue }
            })
            .collect();
        self.chains = chains.into_iter().map(|chain| self.chains[chain]).collect();
        left
    }

    /// The structure with these bonds.
    pub(super) fn finish(
        mut self,
        cell: Option<Cell>,
        n_models: usize,
        mut bonds: Vec<[u32; 2]>,
    ) -> Result<Structure, FormatErrorKind> {
        if self.atoms.is_empty() {
            return Err(FormatErrorKind::NoAtoms);
        }
        if let Some(places) = self.places {
            bonds.as_flattened_mut().iter_mut().for_each(|atom| *atom = places[*atom as usize]);
            let mut atoms = self.atoms.clone();
            let mut positions = self.positions.clone();
            for (now, before) in places.into_iter().enumerate() {
                atoms[before as usize] = self.atoms[now];
                positions[before as usize] = self.positions[now];
            }
            (self.atoms, self.positions) = (atoms, positions);
        }
        let topology = Topology::new(self.atoms, self.residues, self.chains, bonds)
            .map_err(FormatErrorKind::Topology)?;
        let Self { positions, n_left_out, apart, .. } = self;
        Ok(Structure { topology, positions, cell, n_models, n_left_out, apart })
    }
}

/// The cell of a structure file; the 1 Å cube stands for none, as in entries from NMR.
pub(super) fn cell(lengths: [f64; 3], angles_deg: [f64; 3]) -> Option<Cell> {
    if lengths == [1.0; 3] { None } else { Cell::from_lengths_angles(lengths, angles_deg) }
}
