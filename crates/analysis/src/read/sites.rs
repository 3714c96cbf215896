//! Sites that look like deuterium by their names and are no atoms: dummies about a metal, and the
//! particles of Drude on the atoms that they belong to.

use super::close::close_pairs;
use super::structure::Parts;
use crate::cell::{norm, sub};
use crate::{Cell, Element};

/// No hydrogen is as close to a metal, in Å: hydrides have 1.3 or more, dummies about 0.9.
const CLOSEST_TO_METAL: f64 = 1.2;

/// No hydrogen is as close to any atom, in Å: the shortest bond, of HF, has 0.92.
const CLOSEST: f64 = 0.6;

/// Takes their element from such sites. Atoms of a residue must be a run.
pub(super) fn take_from_sites(parts: &mut Parts<'_>, cell: Option<&Cell>) {
    let mut end = 0;
    let mut found = Vec::new();
    for atoms in parts.atoms.chunk_by(|a, b| a.residue == b.residue) {
        let residue = end..end + atoms.len();
        end = residue.end;
        let looks_like_deuterium = |atom: &usize| {
            let atom = parts.atoms[*atom];
            atom.element == Some(Element::H) && letters(atom.name).starts_with('D')
        };
        let is_on = |site: usize, other: usize| {
            let Some(element) = parts.atoms[other].element.filter(|e| *e != Element::H) else {
                return false;
            };
            let closest = if element.is_metal() { CLOSEST_TO_METAL } else { CLOSEST };
            let apart = sub(parts.positions[site], parts.positions[other]);
            norm(Cell::nearest_or(cell, apart)) < closest
        };
        if !residue.clone().any(|atom| looks_like_deuterium(&atom)) {
            continue;
        }
        close_pairs(&parts.positions[residue.clone()], cell, CLOSEST_TO_METAL, |i, j| {
            let [i, j] = [residue.start + i, residue.start + j];
            let pairs = [[i, j], [j, i]].into_iter();
            let on =
                pairs.filter(|[site, other]| looks_like_deuterium(site) && is_on(*site, *other));
            found.extend(on.map(|[site, _]| site));
        });
    }
    for site in found {
        parts.atoms[site].element = None;
        parts.atoms[site].mass_da = 0.0;
    }
}

/// A name without the number that some begin with.
fn letters(name: &str) -> &str {
    name.trim_start_matches(|c: char| c.is_ascii_digit())
}
