//! Structures of coarse grains, whose names look like those of atoms and are none: PO4 of Martini
//! is no phosphorus, and NC3 no nitrogen.

use std::ops::Range;

use super::structure::Parts;
use crate::Cell;
use crate::cell::{norm, sub};

/// No bond of two atoms is as long, in Å, but those of metals and of iodine.
const LONGEST_BOND: f64 = 2.3;

/// Longest bond of two grains that is believed, in Å.
const LONGEST_OF_GRAINS: f64 = 8.0;

/// Longest bond of the backbones of two residues in a row, in Å.
const LONGEST_LINK: f64 = 6.0;

/// What the grain of a backbone is called: by Martini, and by those that take the α-carbon.
const BACKBONE: [&str; 2] = ["BB", "CA"];

/// With fewer atoms in residues of several there is nothing to go by.
const FEWEST: usize = 20;

/// Residues of more atoms are not looked at, for all pairs are.
const LARGEST: usize = 200;

/// What a grain weighs here, as no file with names alone says it: all the same.
const MASS_DA: f64 = 1.0;

/// Whether these are no atoms: of those in residues of several, four of five are farther from all
/// others than bonds are long.
pub(super) fn is_coarse(parts: &Parts<'_>, cell: Option<&Cell>) -> bool {
    let mut n_looked_at = 0;
    let mut n_far = 0;
    for atoms in residues(parts).filter(|atoms| (2..=LARGEST).contains(&atoms.len())) {
        n_looked_at += atoms.len();
        let is_far = |atom: usize| {
            let mut others = atoms.clone().filter(|other| *other != atom);
            others.all(|other| distance(parts, cell, atom, other) > LONGEST_BOND)
        };
        n_far += atoms.clone().filter(|atom| is_far(*atom)).count();
    }
    n_looked_at >= FEWEST && 5 * n_far >= 4 * n_looked_at
}

/// Takes their elements from grains, lets them weigh the same, and adds the bonds that keep
/// residues together: to the nearest grain, and from backbone to backbone.
pub(super) fn complete(parts: &mut Parts<'_>, cell: Option<&Cell>, bonds: &mut Vec<[u32; 2]>) {
    for atom in &mut parts.atoms {
        atom.element = None;
        atom.mass_da = MASS_DA;
    }
    let mut before: Option<(usize, usize)> = None;
    let all: Vec<Range<usize>> = residues(parts).collect();
    for atoms in all {
        if atoms.len() <= LARGEST {
            tree(parts, cell, atoms.clone(), bonds);
        }
        let chain = parts.residues[parts.atoms[atoms.start].residue].chain;
        let backbone = atoms.clone().find(|atom| BACKBONE.contains(&parts.atoms[*atom].name));
        if let (Some((last, last_chain)), Some(next)) = (before, backbone)
            && last_chain == chain
            && distance(parts, cell, last, next) < LONGEST_LINK
        {
            bonds.push([last as u32, next as u32]);
        }
        before = backbone.map(|backbone| (backbone, chain));
    }
}

/// The shortest bonds that lead to all grains of a residue.
fn tree(parts: &Parts<'_>, cell: Option<&Cell>, atoms: Range<usize>, bonds: &mut Vec<[u32; 2]>) {
    let first = atoms.start;
    let apart = |a: usize, b: usize| distance(parts, cell, a, b);
    let mut left: Vec<(f64, usize, usize)> =
        atoms.skip(1).map(|atom| (apart(first, atom), first, atom)).collect();
    while let Some(n) = (0..left.len()).min_by(|a, b| left[*a].0.total_cmp(&left[*b].0)) {
        let (length, to, atom) = left.swap_remove(n);
        if length < LONGEST_OF_GRAINS {
            bonds.push([to as u32, atom as u32]);
        }
        for nearest in &mut left {
            let length = apart(atom, nearest.2);
            if length < nearest.0 {
                *nearest = (length, atom, nearest.2);
            }
        }
    }
}

/// The atoms of each residue.
fn residues(parts: &Parts<'_>) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    parts.atoms.chunk_by(|a, b| a.residue == b.residue).map(move |atoms| {
        let start = end;
        end += atoms.len();
        start..end
    })
}

fn distance(parts: &Parts<'_>, cell: Option<&Cell>, a: usize, b: usize) -> f64 {
    norm(Cell::nearest_or(cell, sub(parts.positions[a], parts.positions[b])))
}
