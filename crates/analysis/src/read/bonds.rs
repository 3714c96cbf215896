//! Bonds that a structure file leaves to its reader.
//!
//! Heavy atoms of standard residues are bonded by their names, those of others, and such as have
//! unknown names, by their distances if the file says nothing of them. A hydrogen or virtual site
//! belongs to the nearest heavy atom of its residue. Chains go on from residue to residue, cysteines
//! pair up, and what is no amino acid, nucleotide or water is bonded to other residues by distance:
//! sugars, and lipids that Amber splits into head and tails.
//!
//! Where more atoms are close than one can be bonded to, distances show nothing: structures may be
//! on top of each other, and positions that nobody has filled in are all zero. No bond is found
//! there, but for one that keeps atoms of a residue together.

use std::collections::HashSet;
use std::ops::Range;

use super::close::close_pairs;
use super::structure::Parts;
use crate::cell::{norm, sub};
use crate::topology::{Residue, WATER};
use crate::{Cell, Element};

const AMINO_ACIDS: [&str; 34] = [
    "ALA", "ARG", "ARN", "ASH", "ASN", "ASP", "CYM", "CYS", "CYX", "GLH", "GLN", "GLU", "GLY",
    "HID", "HIE", "HIP", "HIS", "HSD", "HSE", "HSP", "ILE", "LEU", "LYN", "LYS", "MET", "MSE",
    "PHE", "PRO", "SER", "THR", "TRP", "TYM", "TYR", "VAL",
];

const NUCLEOTIDES: [&str; 26] = [
    "A", "A3", "A5", "C", "C3", "C5", "G", "G3", "G5", "U", "U3", "U5", "DA", "DA3", "DA5", "DC",
    "DC3", "DC5", "DG", "DG3", "DG5", "DT", "DT3", "DT5", "RA", "RU",
];

/// Bonds of amino acids. A name tells where its atom stands, so one list serves them all.
const AMINO_ACID_BONDS: &str = "N-CA CA-C C-O C-OXT CA-CB CB-CG CB-CG1 CB-CG2 CB-OG CB-OG1 CB-SG \
    CG-CD CG-CD1 CG-CD2 CG-OD1 CG-OD2 CG-ND1 CG-ND2 CG-SD CG-SE CG1-CD CG1-CD1 SD-CE SE-CE CD-CE \
    CD-NE CD-OE1 CD-OE2 CD-NE2 CD1-CE1 CD1-NE1 CD2-CE2 CD2-CE3 CD2-NE2 ND1-CE1 CE1-NE2 CE1-CZ \
    CE2-CZ CE2-CZ2 CE2-NE1 CE3-CZ3 CE-NZ NE-CZ CZ-OH CZ-NH1 CZ-NH2 CZ2-CH2 CZ3-CH2 C-OT1 C-OT2 \
    C-OC1 C-OC2 C-O1 C-O2";

const NUCLEOTIDE_BONDS: &str = "P-OP1 P-OP2 P-OP3 P-O1P P-O2P P-O3P P-O5' O5'-C5' C5'-C4' C4'-O4' \
    C4'-C3' C3'-O3' C3'-C2' C2'-O2' C2'-C1' C1'-O4' C1'-N9 N9-C8 N9-C4 C8-N7 N7-C5 C6-N6 C6-O6 \
    C2-N2 N1-C2 N1-C6 C2-O2 C2-N3 N3-C4 C4-N4 C4-O4 C4-C5 C5-C6 C5-C7 C5-C5M";

/// Residues larger than this get no bonds by distance, for each hydrogen is compared with all else.
const MAX_GUESSED: usize = 2000;

/// Atoms that one can be bonded to at most. Seven are known, but files list atoms several times:
/// side chains of 3NBK are there six times in a copy that is used for tests.
const MOST_BONDED: u8 = 32;

/// Longest peptide or phosphodiester bond that is believed where the author's numbers skip some, or
/// a chain ends.
const LONGEST_LINK: f64 = 2.0;

/// Longest one that is believed where the numbers follow each other: they may do so from one chain
/// to the next, which many files do not tell apart.
const LONGEST_EXPECTED_LINK: f64 = 5.0;

/// What only the end of a chain has, and what only its start has.
const PEPTIDE_END: [&str; 4] = ["OXT", "OT2", "OC2", "O2"];
const PEPTIDE_START: [&str; 4] = ["H2", "H3", "HT2", "HT3"];
const NUCLEIC_END: [&str; 2] = ["HO3'", "H3T"];

const LONGEST_DISULFIDE: f64 = 2.5;

/// How much longer a bond may be than the sum of the radii.
const TOLERANCE: f64 = 0.45;

/// The same between residues, where a model may have atoms closer than they can be.
const TOLERANCE_BETWEEN: f64 = 0.25;

/// No bond between residues is longer than this, in Å.
const LONGEST_BETWEEN: f64 = 2.5;

/// Adds the bonds that follow from names and distances to those that the file gives.
pub(super) fn complete(parts: &Parts<'_>, cell: Option<&Cell>, bonds: &mut Vec<[u32; 2]>) {
    let mut given = vec![false; parts.atoms.len()];
    for [a, b] in bonds.iter().map(|bond| bond.map(|atom| atom as usize)) {
        let inner = parts.atoms[a].residue == parts.atoms[b].residue;
        given[a] |= inner;
        given[b] |= inner;
    }
    let search = Search { parts, cell, given };
    let mut before: Option<(Range<usize>, &Residue<'_>, Family)> = None;
    let mut sulfurs = Vec::new();
    for residue in parts.residues.iter() {
        let start = before.as_ref().map_or(0, |(atoms, ..)| atoms.end);
        let idx = parts.atoms[start].residue;
        let n_atoms = parts.atoms[start..].iter().take_while(|atom| atom.residue == idx).count();
        let atoms = start..start + n_atoms;
        let family = Family::of(residue.name);
        search.inside(atoms.clone(), family, bonds);
        if let Some((last_atoms, last, last_family)) = before
            && last.chain == residue.chain
        {
            let follows = family == last_family
                && family != Family::Other
                && matches!(residue.number - last.number, 0 | 1)
                && !search.is_between_chains(last_atoms.clone(), atoms.clone(), family);
            let longest = if follows { LONGEST_EXPECTED_LINK } else { LONGEST_LINK };
            bonds.extend(search.link(last_atoms, atoms.clone(), longest));
        }
        if matches!(residue.name, "CYS" | "CYX") {
            sulfurs.extend(search.named(atoms.clone(), "SG"));
        }
        before = Some((atoms, residue, family));
    }
    if sulfurs.len() <= MAX_GUESSED {
        let is_bond = |a, b| search.distance(a, b) < LONGEST_DISULFIDE;
        search.pairs(&sulfurs, LONGEST_DISULFIDE, is_bond, bonds);
    }
    search.between_residues(bonds);
}

/// Residues whose bonds are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    AminoAcid,
    Nucleotide,
    Other,
}

impl Family {
    pub(crate) fn of(residue: &str) -> Self {
        if AMINO_ACIDS.binary_search(&residue).is_ok() {
            Self::AminoAcid
        } else if NUCLEOTIDES.contains(&residue) {
            Self::Nucleotide
        } else {
            Self::Other
        }
    }
}

struct Search<'a> {
    parts: &'a Parts<'a>,
    cell: Option<&'a Cell>,
    /// Atoms that the file itself bonds to others of their residue.
    given: Vec<bool>,
}

impl Search<'_> {
    /// Bonds between the atoms of one residue.
    fn inside(&self, atoms: Range<usize>, family: Family, bonds: &mut Vec<[u32; 2]>) {
        let (light, heavy): (Vec<usize>, Vec<usize>) =
            atoms.partition(|atom| self.element(*atom).is_none_or(|e| e == Element::H));
        match family {
            Family::AminoAcid => self.standard(&heavy, AMINO_ACID_BONDS, bonds),
            Family::Nucleotide => self.standard(&heavy, NUCLEOTIDE_BONDS, bonds),
            Family::Other if heavy.iter().any(|atom| self.given[*atom]) => {}
            Family::Other => self.by_distance(&heavy, |_, _| true, bonds),
        }
        if light.len() + heavy.len() > MAX_GUESSED {
            return;
        }
        for atom in light.into_iter().filter(|atom| !self.given[*atom]) {
            let owners = heavy.iter().map(|owner| (self.distance(atom, *owner), *owner));
            let nearest = owners.min_by(|a, b| a.0.total_cmp(&b.0));
            bonds.extend(nearest.map(|(_, owner)| [atom as u32, owner as u32]));
        }
    }

    /// Bonds of a standard residue: by name, and by distance for atoms that no name bonds, as those
    /// of the caps that CHARMM makes part of the residue.
    fn standard(&self, heavy: &[usize], list: &str, bonds: &mut Vec<[u32; 2]>) {
        let n_before = bonds.len();
        self.by_name(heavy, list, bonds);
        let named: HashSet<u32> = bonds[n_before..].iter().flatten().copied().collect();
        let is_left = |atom: usize| !self.given[atom] && !named.contains(&(atom as u32));
        if heavy.len() > 1 && heavy.iter().any(|atom| is_left(*atom)) {
            self.by_distance(heavy, |a, b| is_left(a) || is_left(b), bonds);
        }
    }

    /// Bonds by distance between atoms of one residue, of pairs that may have one. Atoms that are too
    /// close to too many are bonded to the first of all, so that the residue stays in one piece.
    fn by_distance(
        &self,
        atoms: &[usize],
        may_be: impl Fn(usize, usize) -> bool,
        bonds: &mut Vec<[u32; 2]>,
    ) {
        if atoms.len() > MAX_GUESSED {
            return;
        }
        let radii = atoms.iter().filter_map(|atom| covalent_radius(self.element(*atom)?));
        let reach = 2.0 * radii.fold(0.0, f64::max) + TOLERANCE;
        let is_bond =
            |a, b| may_be(a, b) && self.distance(a, b) < self.longest_bond(a, b, TOLERANCE);
        let crowded = self.pairs(atoms, reach, is_bond, bonds);
        let others = crowded.into_iter().filter(|atom| *atom != atoms[0]);
        bonds.extend(others.map(|other| [atoms[0] as u32, other as u32]));
    }

    fn by_name(&self, heavy: &[usize], list: &str, bonds: &mut Vec<[u32; 2]>) {
        let find =
            |name| heavy.iter().find(|atom| self.is_named(**atom, name)).map(|atom| *atom as u32);
        let pairs = list.split(' ').filter_map(|pair| pair.split_once('-'));
        bonds.extend(pairs.filter_map(|(a, b)| Some([find(a)?, find(b)?])));
        // The two bonds that depend on more than the names of their atoms.
        let is_proline = heavy.first().is_some_and(|atom| self.residue(*atom) == "PRO");
        if let (true, Some(n), Some(cd)) = (is_proline, find("N"), find("CD")) {
            bonds.push([n, cd]);
        }
        if let (Some(c1), Some(n1), None) = (find("C1'"), find("N1"), find("N9")) {
            bonds.push([c1, n1]);
        }
    }

    /// The bond between two residues in a row, if the atoms are close enough.
    fn link(&self, before: Range<usize>, after: Range<usize>, longest: f64) -> Option<[u32; 2]> {
        let ends = [("C", "N"), ("O3'", "P")].map(|(end, start)| {
            Some([self.named(before.clone(), end)?, self.named(after.clone(), start)?])
        });
        let [a, b] = ends.into_iter().flatten().next()?;
        (self.distance(a, b) < longest).then_some([a as u32, b as u32])
    }

    /// Whether a chain ends with one residue or starts with the next, as its atoms show.
    fn is_between_chains(&self, last: Range<usize>, next: Range<usize>, family: Family) -> bool {
        let has = |atoms: &Range<usize>, names: &[&str]| {
            names.iter().any(|name| self.named(atoms.clone(), name).is_some())
        };
        match family {
            Family::AminoAcid => has(&last, &PEPTIDE_END) || has(&next, &PEPTIDE_START),
            Family::Nucleotide => has(&last, &NUCLEIC_END),
            Family::Other => false,
        }
    }

    /// Bonds of residues of no family to others, but for such as the file itself bonds.
    fn between_residues(&self, bonds: &mut Vec<[u32; 2]>) {
        let residue = |atom: usize| self.parts.atoms[atom].residue;
        let is_other: Vec<bool> = self
            .parts
            .residues
            .iter()
            .map(|one| Family::of(one.name) == Family::Other && !WATER.contains(&one.name))
            .collect();
        if !is_other.contains(&true) {
            return;
        }
        let is_bonded = |atom: &usize| self.element(*atom).and_then(covalent_radius).is_some();
        let is_heavy = |atom: &usize| self.element(*atom) != Some(Element::H);
        let is_water = |atom: &usize| WATER.contains(&self.residue(*atom));
        let atoms: Vec<usize> = (0..self.parts.atoms.len())
            .filter(|atom| is_bonded(atom) && is_heavy(atom) && !is_water(atom))
            .collect();
        bonds.iter_mut().for_each(|bond| bond.sort_unstable());
        bonds.sort_unstable();
        bonds.dedup();
        let mut found = Vec::new();
        let is_guessed = |atom: usize| is_other[residue(atom)] && !self.given[atom];
        let is_bond = |a: usize, b: usize| {
            residue(a) != residue(b)
                && (is_guessed(a) || is_guessed(b))
                && self.distance(a, b)
                    < self.longest_bond(a, b, TOLERANCE_BETWEEN).min(LONGEST_BETWEEN)
                && bonds.binary_search(&[a.min(b) as u32, a.max(b) as u32]).is_err()
        };
        self.pairs(&atoms, LONGEST_BETWEEN, is_bond, &mut found);
        bonds.append(&mut found);
    }

    /// Adds the pairs of some atoms that are bonds, but for those of atoms that would have more than
    /// one can have. Returns these, ascending as the atoms are.
    fn pairs(
        &self,
        atoms: &[usize],
        reach: f64,
        is_bond: impl Fn(usize, usize) -> bool,
        bonds: &mut Vec<[u32; 2]>,
    ) -> Vec<usize> {
        let places: Vec<[f64; 3]> = atoms.iter().map(|atom| self.parts.positions[*atom]).collect();
        let mut n_bonded = vec![0_u8; atoms.len()];
        let mut found = Vec::new();
        let left_out = close_pairs(&places, self.cell, reach, |i, j| {
            if is_bond(atoms[i], atoms[j]) {
                n_bonded[i] = n_bonded[i].saturating_add(1);
                n_bonded[j] = n_bonded[j].saturating_add(1);
                if n_bonded[i].max(n_bonded[j]) <= MOST_BONDED {
                    found.push([i as u32, j as u32]);
                }
            }
        });
        left_out.into_iter().for_each(|n| n_bonded[n] = u8::MAX);
        found.retain(|pair| pair.iter().all(|n| n_bonded[*n as usize] <= MOST_BONDED));
        bonds.extend(found.into_iter().map(|pair| pair.map(|n| atoms[n as usize] as u32)));
        let are_crowded = n_bonded.iter().map(|n_bonded| *n_bonded > MOST_BONDED);
        atoms.iter().zip(are_crowded).filter(|(_, is)| *is).map(|(atom, _)| *atom).collect()
    }

    fn distance(&self, a: usize, b: usize) -> f64 {
        let apart = sub(self.parts.positions[a], self.parts.positions[b]);
        norm(self.cell.map_or(apart, |cell| cell.nearest(apart)))
    }

    fn longest_bond(&self, a: usize, b: usize, tolerance: f64) -> f64 {
        let [a, b] = [a, b].map(|atom| self.element(atom).and_then(covalent_radius));
        a.zip(b).map_or(0.0, |(a, b)| a + b + tolerance)
    }

    fn element(&self, atom: usize) -> Option<Element> {
        self.parts.atoms[atom].element
    }

    fn residue(&self, atom: usize) -> &str {
        self.parts.residues[self.parts.atoms[atom].residue].name
    }

    fn named(&self, mut atoms: Range<usize>, name: &str) -> Option<usize> {
        atoms.find(|atom| self.is_named(*atom, name))
    }

    /// Whether an atom has a name, of which old files write `*` for the prime.
    fn is_named(&self, atom: usize, name: &str) -> bool {
        let bytes = self.parts.atoms[atom].name.bytes();
        bytes.map(|byte| if byte == b'*' { b'\'' } else { byte }).eq(name.bytes())
    }
}

/// Radius in Å of a bonded atom (Cordero et al., Dalton Trans. 2008, 2832); none for metals, whose
/// contacts are not counted as bonds.
fn covalent_radius(element: Element) -> Option<f64> {
    let radius = match element.symbol() {
        "H" => 0.31,
        "B" => 0.84,
        "C" => 0.76,
        "N" => 0.71,
        "O" => 0.66,
        "F" => 0.57,
        "Si" => 1.11,
        "P" => 1.07,
        "S" => 1.05,
        "Cl" => 1.02,
        "As" => 1.19,
        "Se" => 1.20,
        "Br" => 1.20,
        "Te" => 1.38,
        "I" => 1.39,
        _ => return None,
    };
    Some(radius)
}
