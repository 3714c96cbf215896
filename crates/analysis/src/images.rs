//! Whether the molecules of a complex are written in images that are next to each other.
//!
//! Programs put each molecule back into the cell by itself, so that a ligand, a second chain, or the
//! part of a chain after missing residues may be written on the other side of it.

use std::collections::BTreeSet;

use crate::Cell;
use crate::cell::{dot, sub};
use crate::neighbours::{Cloud, Neighbours};

/// More molecules are no complex.
pub(crate) const MOST_MOLECULES: usize = 100;

/// Atoms of two molecules that are as near as this touch, in Å.
const CONTACT: f64 = 6.0;

/// The first of some molecules that is written apart from others, though an image of it is next to
/// them: it touches one of them through the boundary of the cell alone, and no chain of molecules
/// that touch as they are written leads to that one; or it touches none, and an image is nearer to
/// the largest. Positions are in Å, those of each molecule whole.
pub(crate) fn apart(molecules: &[Vec<[f64; 3]>], cell: &Cell) -> Option<usize> {
    let mut cloud = Cloud::default();
    let mut atoms = Vec::new();
    for (molecule, positions) in molecules.iter().enumerate() {
        for position in positions {
            let [x, y, z] = position.map(|x| x as f32);
            cloud.x.push(x);
            cloud.y.push(y);
            cloud.z.push(z);
            atoms.push((molecule, *position));
        }
    }
    let mut as_written = BTreeSet::new();
    let mut through_the_boundary = BTreeSet::new();
    Neighbours::default().pairs_within(&cloud, Some(cell), CONTACT, |i, j| {
        let [(a, at), (b, to)] = [atoms[i], atoms[j]];
        let apart = sub(at, to);
        let touch = |vector| dot(vector, vector) <= CONTACT * CONTACT;
        if a != b && touch(apart) {
            as_written.insert([a.min(b), a.max(b)]);
        } else if a != b && touch(cell.nearest(apart)) {
            through_the_boundary.insert([a.min(b), a.max(b)]);
        }
    });
    // The least of those that each is joined to.
    let mut parts: Vec<usize> = (0..molecules.len()).collect();
    for [a, b] in as_written {
        let [least, other] = [parts[a].min(parts[b]), parts[a].max(parts[b])];
        parts.iter_mut().filter(|part| **part == other).for_each(|part| *part = least);
    }
    if let Some([_, b]) = through_the_boundary.iter().find(|[a, b]| parts[*a] != parts[*b]) {
        return Some(*b);
    }
    let largest = molecules.iter().max_by_key(|molecule| molecule.len())?;
    let touches = |n: &usize| through_the_boundary.iter().flatten().any(|one| one == n);
    (0..molecules.len()).filter(|n| !touches(n)).find(|n| {
        let is_alone = parts.iter().filter(|part| **part == parts[*n]).count() == 1;
        let apart = sub(centre(&molecules[*n]), centre(largest));
        is_alone && cell.edges_from_nearest(apart) != [0.0; 3]
    })
}

fn centre(positions: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|k| positions.iter().map(|at| at[k]).sum::<f64>() / positions.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::apart;
    use crate::Cell;

    /// Atoms 3 Å apart in a row.
    fn row(start: [f64; 3], n: usize) -> Vec<[f64; 3]> {
        (0..n).map(|nth| [start[0] + 3.0 * nth as f64, start[1], start[2]]).collect()
    }

    #[test]
    fn molecules_are_apart_whose_images_are_next_to_each_other() {
        let cell = Cell::from_lengths_angles([60.0, 40.0, 40.0], [90.0; 3]).unwrap();
        let long = row([0.0, 1.0, 1.0], 12);
        let next = row([36.0, 1.0, 1.0], 4);
        let next_image = row([36.0 - 60.0, 1.0, 1.0], 4);
        let [far, farther] = [row([0.0, 20.0, 20.0], 3), row([0.0, 20.0, 30.0], 3)];
        assert_eq!(apart(&[long.clone(), farther], &cell), Some(1));
        assert_eq!(apart(&[long.clone(), far.clone(), next], &cell), None);
        assert_eq!(apart(&[long.clone(), far, next_image], &cell), Some(2));
        // The last touches the first through the boundary, but the second as it is written.
        let [next, last] = [row([36.0, 1.0, 1.0], 7), row([57.0, 1.0, 1.0], 1)];
        assert_eq!(apart(&[long, next, last], &cell), None);
        assert_eq!(apart(&[], &cell), None);
    }
}
