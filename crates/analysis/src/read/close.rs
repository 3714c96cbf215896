//! Which atoms of a structure file are close, in time and memory that grow with their number
//! whatever the file.
//!
//! A file may have any number of atoms in one place: positions that nobody has filled in are all
//! zero, and so may be those of an attack, whose 600 kB took 4 GB when all pairs were bonded. Atoms
//! are sorted into a grid by their parts, not into a table of all parts, since one atom far off
//! makes that as large as it is far. Parts that are too full are left out.

use std::ops::Range;

use crate::Cell;
use crate::cell::{dot, norm, sub};

/// Atoms of a part of the grid, beyond which it is left out. One of 3 Å has up to five atoms that
/// are no hydrogens; a dozen structures on top of each other are still searched.
const MOST_IN_A_PART: usize = 64;

/// So far from the origin, in parts, all is in the last one.
const FARTHEST_PART: f64 = (1 << 30) as f64;

/// Where a part is.
type Place = [i32; 3];

/// Calls `found` once for each two of some points, given by their numbers, that are closer than
/// `reach` in Å or have nearest images that are. Returns which points were left out.
pub(super) fn close_pairs(
    points: &[[f64; 3]],
    cell: Option<&Cell>,
    reach: f64,
    mut found: impl FnMut(usize, usize),
) -> Vec<usize> {
    let mut compare = |i: usize, j: usize, [a, b]: [[f64; 3]; 2]| {
        let apart = Cell::nearest_or(cell, sub(a, b));
        if dot(apart, apart) < reach * reach {
            found(i, j);
        }
    };
    if points.len() <= MOST_IN_A_PART {
        // Nothing of so few is left out, and they are compared sooner than sorted.
        let pairs = (0..points.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        pairs.for_each(|(i, j)| compare(i, j, [points[i], points[j]]));
        return Vec::new();
    }
    let grid = Grid::new(cell, reach);
    let mut sorted: Vec<(Place, u32)> =
        points.iter().enumerate().map(|(n, point)| (grid.place(*point), n as u32)).collect();
    sorted.sort_unstable();
    let (full, parts): (Vec<_>, Vec<_>) =
        parts(&sorted).partition(|(_, part)| part.len() > MOST_IN_A_PART);
    let number = |at: usize| sorted[at].1 as usize;
    let places: Vec<[f64; 3]> = sorted.iter().map(|(_, n)| points[*n as usize]).collect();
    let mut compare = |i: usize, j: usize| {
        compare(number(i), number(j), [places[i], places[j]]);
    };
    for (nth, (place, part)) in parts.iter().enumerate() {
        for i in part.clone() {
            (part.start..i).for_each(|j| compare(j, i));
        }
        let later = &parts[nth + 1..];
        for next in grid.after(*place) {
            let Ok(n) = later.binary_search_by_key(&next, |(place, _)| *place) else { continue };
            part.clone().for_each(|i| later[n].1.clone().for_each(|j| compare(i, j)));
        }
    }
    full.into_iter().flat_map(|(_, part)| part).map(number).collect()
}

/// The parts that have any points, each as a run of these.
fn parts(sorted: &[(Place, u32)]) -> impl Iterator<Item = (Place, Range<usize>)> {
    let mut end = 0;
    sorted.chunk_by(|a, b| a.0 == b.0).map(move |part| {
        let start = end;
        end += part.len();
        (part[0].0, start..end)
    })
}

/// Parts at least as thick as the reach, so that what is close is in the same or in the next one.
struct Grid {
    /// What gives a point's place along each axis: as a fraction of the cell, if there is one.
    rows: [[f64; 3]; 3],
    /// Parts along each axis of the cell, if there is one.
    counts: Option<[f64; 3]>,
}

impl Grid {
    fn new(cell: Option<&Cell>, reach: f64) -> Self {
        // What rounding puts into the wrong part is not quite as far as that.
        let thickness = reach * (1.0 + 1e-6);
        let Some(cell) = cell else {
            let [x, y, z] = [0, 1, 2].map(|axis| {
                let mut row = [0.0; 3];
                row[axis] = 1.0 / thickness;
                row
            });
            return Self { rows: [x, y, z], counts: None };
        };
        let (_, rows) = cell.reduced();
        let counts = rows.map(|row| (1.0 / (norm(row) * thickness)).floor());
        Self { rows, counts: Some(counts.map(|count| count.clamp(1.0, FARTHEST_PART))) }
    }

    fn place(&self, [x, y, z]: [f64; 3]) -> Place {
        let along = self.rows.map(|[u, v, w]| u * x + v * y + w * z);
        match self.counts {
            None => along.map(|along| along.floor().clamp(-FARTHEST_PART, FARTHEST_PART) as i32),
            Some(counts) => [0, 1, 2].map(|axis| {
                let fraction = along[axis] - along[axis].floor();
                (fraction * counts[axis]).min(counts[axis] - 1.0) as i32
            }),
        }
    }

    /// The parts next to one, those that come after it in the order of places.
    fn after(&self, place: Place) -> Vec<Place> {
        let mut next: Vec<Place> = (0..27)
            .map(|n| {
                let step = [n / 9 - 1, n / 3 % 3 - 1, n % 3 - 1];
                [0, 1, 2].map(|axis| {
                    let at = place[axis] + step[axis];
                    self.counts.map_or(at, |counts| at.rem_euclid(counts[axis] as i32))
                })
            })
            .filter(|next| *next > place)
            .collect();
        // Of few parts along an axis, the one on the left and the one on the right are the same.
        next.sort_unstable();
        next.dedup();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_IN_A_PART, close_pairs};
    use crate::Cell;
    use crate::cell::{norm, sub};

    fn scattered(n: usize, sizes: [f64; 3]) -> Vec<[f64; 3]> {
        let mut state = 7_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24) - 0.5
        };
        (0..n).map(|_| sizes.map(|size| size * random())).collect()
    }

    #[test]
    fn each_close_pair_is_found_once() {
        let cells = [
            None,
            Cell::from_lengths_angles([40.0, 30.0, 31.0], [90.0; 3]),
            Cell::from_lengths_angles([32.0; 3], [60.0, 60.0, 90.0]),
            Cell::from_lengths_angles([40.0, 50.0, 60.0], [70.0, 50.0, 40.0]),
            Cell::from_lengths_angles([7.0, 8.0, 40.0], [90.0; 3]),
            Cell::from_lengths_angles([8.0, 9.0, 10.0], [70.0, 80.0, 100.0]),
        ];
        for cell in &cells {
            for size in [[60.0; 3], [15.0, 14.0, 130.0], [9.0, 2000.0, 12.0]] {
                let points = scattered(400, size);
                let mut found = Vec::new();
                let left_out = close_pairs(&points, cell.as_ref(), 2.5, |i, j| {
                    found.push((i.min(j), i.max(j)));
                });
                let n_found = found.len();
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len(), n_found, "no pair is found twice");
                let is_close = |(i, j): &(usize, usize)| {
                    norm(Cell::nearest_or(cell.as_ref(), sub(points[*i], points[*j]))) < 2.5
                };
                assert!(found.iter().all(is_close));
                let pairs = (0..400).flat_map(|j| (0..j).map(move |i| (i, j)));
                let mut missed = pairs.filter(is_close).filter(|pair| !found.contains(pair));
                assert!(missed.all(|(i, j)| left_out.contains(&i) || left_out.contains(&j)));
            }
        }
    }

    #[test]
    fn what_is_too_crowded_is_left_out_and_what_is_beside_it_is_not() {
        // All pairs of these would be 10^12, and a grid from one end to the other has no end.
        let n_crowded = 1_000_000;
        let mut points = vec![[0.0; 3]; n_crowded];
        points.extend([[30.0, 0.0, 0.0], [1e300, -1e300, 0.0], [31.0, 0.0, 0.0]]);
        let mut found = Vec::new();
        let left_out = close_pairs(&points, None, 2.5, |i, j| found.push([i, j]));
        assert_eq!(left_out.len(), n_crowded);
        assert_eq!(found, [[n_crowded, n_crowded + 2]]);
    }

    #[test]
    fn as_many_as_a_part_may_have_are_compared() {
        let mut points = vec![[1.0; 3]; MOST_IN_A_PART];
        points.push([90.0; 3]);
        let mut n_found = 0;
        assert!(close_pairs(&points, None, 2.5, |_, _| n_found += 1).is_empty());
        assert_eq!(n_found, MOST_IN_A_PART * (MOST_IN_A_PART - 1) / 2);
    }
}
