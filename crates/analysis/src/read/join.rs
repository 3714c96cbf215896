//! Atoms that a file lists apart from the others of their residue.
//!
//! Programs that add hydrogens may write them after all heavy atoms of a chain or of the molecule,
//! which gives every residue in two parts. A part is joined to an earlier one of the same chain,
//! number, insertion code and name if it has none of its names and is as near as a bond is long:
//! numbers start anew after 9999, and chains may have the same identifier, or none.

use std::collections::HashMap;
use std::ops::Range;

use crate::cell::{norm, sub};
use crate::topology::{Atom, Residue};
use crate::{Cell, Element};

/// Longest bond to a hydrogen or a virtual site, in Å.
const LONGEST_TO_HYDROGEN: f64 = 1.6;

/// Longest bond of other atoms, in Å.
const LONGEST_BOND: f64 = 2.3;

/// Earlier parts and pairs of atoms that are looked at for a part: files of a million waters have a
/// hundred of a number, and hostile files may have any number of anything.
const MOST_PARTS: usize = 1000;
const MOST_PAIRS: usize = 100_000;

/// Pairs that are looked at for all parts of a file, for each of its atoms: two halves of a molecule
/// as large as can be joined have 150, and water of which a hundred have one number 200.
const MOST_PAIRS_OF_AN_ATOM: usize = 250;

/// Atoms of the name and number of earlier residues that were not joined to any, though none has
/// their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Apart {
    pub(super) n_atoms: usize,
    /// The first of them.
    pub(super) first: usize,
}

/// Atoms, and the residues and chains that they are of, as a file lists them.
pub(super) struct Listed<'a> {
    pub(super) atoms: &'a [Atom<'a>],
    pub(super) residues: &'a [Residue<'a>],
    pub(super) chains: &'a [&'a str],
    pub(super) positions: &'a [[f64; 3]],
}

/// What a file lists as residues, and what they are.
pub(super) struct Joined {
    /// For each that is listed the residue that its atoms are of, one that is listed before or
    /// itself.
    pub(super) homes: Vec<usize>,
    pub(super) apart: Option<Apart>,
}

/// Where each part of a residue belongs.
pub(super) fn join(parts: &Listed<'_>, cell: Option<&Cell>) -> Joined {
    let mut firsts: Vec<usize> = Vec::with_capacity(parts.residues.len());
    for (atom, row) in parts.atoms.iter().enumerate() {
        if row.residue == firsts.len() {
            firsts.push(atom);
        }
    }
    firsts.push(parts.atoms.len());
    let n_pairs_left = MOST_PAIRS + MOST_PAIRS_OF_AN_ATOM * parts.atoms.len();
    let mut search = Search { parts, cell, firsts, others: HashMap::new(), n_pairs_left };
    let mut homes: Vec<usize> = Vec::with_capacity(parts.residues.len());
    // The residue of each name and number that was listed last, and for each the one before it.
    let mut last = HashMap::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(parts.residues.len());
    let mut apart: Option<Apart> = None;
    for (part, residue) in parts.residues.iter().enumerate() {
        let chain = parts.chains[residue.chain];
        let place = (chain, residue.number, residue.insertion_code, residue.name);
        let earlier = last.get(&place).copied();
        let home = match search.home(part, earlier, &before) {
            Home::Of(home) => home,
            Home::Own => part,
            Home::Apart => {
                let first = search.firsts[part];
                apart.get_or_insert(Apart { n_atoms: 0, first }).n_atoms +=
                    search.firsts[part + 1] - first;
                part
            }
        };
        homes.push(home);
        before.push(earlier);
        if home == part {
            last.insert(place, part);
        } else {
            search.others.entry(home).or_default().push(part);
        }
    }
    Joined { homes, apart }
}

enum Home {
    /// An earlier residue.
    Of(usize),
    /// A residue of its own.
    Own,
    /// One of its own, as it is too far from where it seems to belong.
    Apart,
}

struct Search<'a> {
    parts: &'a Listed<'a>,
    cell: Option<&'a Cell>,
    /// The first atom of each part, and where the last one ends.
    firsts: Vec<usize>,
    /// What was joined to a part.
    others: HashMap<usize, Vec<usize>>,
    n_pairs_left: usize,
}

impl Search<'_> {
    /// Where a part belongs, of which there are earlier ones of the same name and number.
    fn home(&mut self, part: usize, mut earlier: Option<usize>, before: &[Option<usize>]) -> Home {
        let mut home = Home::Own;
        let mut n_pairs = 0;
        let has_heavy = earlier.is_some() && self.atoms(part).any(|atom| self.is_heavy(atom));
        for _ in 0..MOST_PARTS {
            let Some(residue) = earlier else { break };
            let n_more = self.n_pairs(part, residue);
            n_pairs += n_more;
            if n_pairs > MOST_PAIRS || n_more > self.n_pairs_left {
                break;
            }
            self.n_pairs_left -= n_more;
            if self.pairs(part, residue).any(|pair| self.have_one_name(pair)) {
                // Numbers have started anew. Of hydrogens alone the residue may be an earlier one.
                if has_heavy {
                    break;
                }
            } else if self.pairs(part, residue).any(|pair| self.are_bonded(pair)) {
                return Home::Of(residue);
            } else {
                home = Home::Apart;
            }
            earlier = before[residue];
        }
        home
    }

    /// A residue, and what was joined to it.
    fn parts_of(&self, residue: usize) -> impl Iterator<Item = usize> {
        std::iter::once(residue).chain(self.others.get(&residue).into_iter().flatten().copied())
    }

    fn n_pairs(&self, part: usize, residue: usize) -> usize {
        let n_atoms = |part: usize| self.atoms(part).len();
        n_atoms(part) * self.parts_of(residue).map(n_atoms).sum::<usize>()
    }

    /// Pairs of an atom of a part and one of a residue.
    fn pairs(&self, part: usize, residue: usize) -> impl Iterator<Item = [usize; 2]> {
        self.parts_of(residue)
            .flat_map(|part| self.atoms(part))
            .flat_map(move |other| self.atoms(part).map(move |atom| [atom, other]))
    }

    fn atoms(&self, part: usize) -> Range<usize> {
        self.firsts[part]..self.firsts[part + 1]
    }

    fn is_heavy(&self, atom: usize) -> bool {
        self.parts.atoms[atom].element.is_some_and(|element| element != Element::H)
    }

    fn have_one_name(&self, [a, b]: [usize; 2]) -> bool {
        self.parts.atoms[a].name == self.parts.atoms[b].name
    }

    fn are_bonded(&self, [a, b]: [usize; 2]) -> bool {
        let are_heavy = self.is_heavy(a) && self.is_heavy(b);
        let longest = if are_heavy { LONGEST_BOND } else { LONGEST_TO_HYDROGEN };
        let apart = sub(self.parts.positions[a], self.parts.positions[b]);
        norm(Cell::nearest_or(self.cell, apart)) < longest
    }
}
