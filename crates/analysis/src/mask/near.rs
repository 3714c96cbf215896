//! Whether any of a set of points is near another: a k-d tree in an array.

use crate::Cell;
use crate::cell::{dot, norm};

/// Points ordered so that the middle one of every slice parts the others by one coordinate, x, y
/// and z in turn.
pub(super) struct Points(Vec<[f64; 3]>);

/// Slices this short are searched from end to end.
const LEAF: usize = 8;

impl Points {
    pub(super) fn new(mut points: Vec<[f64; 3]>) -> Self {
        part(&mut points, 0);
        Self(points)
    }

    /// Whether a point is closer to `to` than `cutoff`.
    pub(super) fn any_within(&self, to: [f64; 3], cutoff: f64) -> bool {
        any_within(&self.0, 0, to, cutoff * cutoff)
    }
}

/// Points with all their periodic images.
pub(super) struct Images {
    points: Points,
    vectors: [[f64; 3]; 3],
    inverse: [[f64; 3]; 3],
    cutoff: f64,
    /// The cutoff in distances between opposite faces.
    reach: [f64; 3],
}

impl Images {
    pub(super) fn new(points: Vec<[f64; 3]>, cell: &Cell, cutoff: f64) -> Self {
        let (vectors, inverse) = cell.reduced();
        let reach = inverse.map(|row| cutoff * norm(row));
        let mut images = Self { points: Points(Vec::new()), vectors, inverse, cutoff, reach };
        images.points = Points::new(points.into_iter().map(|point| images.inside(point)).collect());
        images
    }

    /// The image of a point that is in the cell.
    fn inside(&self, point: [f64; 3]) -> [f64; 3] {
        self.moved(point, self.inverse.map(|row| -dot(row, point).floor()))
    }

    fn moved(&self, point: [f64; 3], by: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|k| point[k] + (0..3).map(|n| by[n] * self.vectors[n][k]).sum::<f64>())
    }

    /// Whether an image of a point is closer to `to` than the cutoff.
    pub(super) fn any_within(&self, to: [f64; 3]) -> bool {
        // Nothing is farther from the nearest image than this, which spares counting cells.
        if self.cutoff > self.vectors.map(norm).iter().sum() {
            return !self.points.0.is_empty();
        }
        let to = self.inside(to);
        let at = self.inverse.map(|row| dot(row, to));
        // Only from near a face does the cutoff reach into the next cell.
        let cells = |k: usize| {
            let first = -(at[k] + self.reach[k]).floor() as i32;
            let last = -(at[k] - self.reach[k]).floor() as i32;
            first..=last
        };
        cells(0).any(|i| {
            cells(1).any(|j| {
                cells(2).any(|k| {
                    let image = self.moved(to, [i, j, k].map(f64::from));
                    self.points.any_within(image, self.cutoff)
                })
            })
        })
    }
}

fn part(points: &mut [[f64; 3]], axis: usize) {
    if points.len() <= LEAF {
        return;
    }
    let (lower, _, upper) =
        points.select_nth_unstable_by(points.len() / 2, |a, b| a[axis].total_cmp(&b[axis]));
    part(lower, (axis + 1) % 3);
    part(upper, (axis + 1) % 3);
}

fn any_within(points: &[[f64; 3]], axis: usize, to: [f64; 3], cutoff_2: f64) -> bool {
    if points.len() <= LEAF {
        return points.iter().any(|point| distance_2(*point, to) < cutoff_2);
    }
    let (lower, upper) = points.split_at(points.len() / 2);
    let middle = upper[0];
    let upper = &upper[1..];
    let offset = to[axis] - middle[axis];
    let (this, other) = if offset < 0.0 { (lower, upper) } else { (upper, lower) };
    let next = (axis + 1) % 3;
    distance_2(middle, to) < cutoff_2
        || any_within(this, next, to, cutoff_2)
        || offset * offset < cutoff_2 && any_within(other, next, to, cutoff_2)
}

fn distance_2(a: [f64; 3], b: [f64; 3]) -> f64 {
    let [x, y, z] = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    x * x + y * y + z * z
}

#[cfg(test)]
mod tests {
    use super::{Images, Points, distance_2};
    use crate::Cell;
    use crate::cell::{dot, sub};

    #[test]
    fn the_tree_finds_what_a_search_of_all_finds() {
        let mut state = 1_u32;
        let mut coordinate = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 24) / 8.0
        };
        let mut point = || [coordinate(), coordinate(), coordinate()];
        let points: Vec<_> = (0..500).map(|_| point()).collect();
        let tree = Points::new(points.clone());
        for _ in 0..500 {
            let (to, cutoff) = (point(), point()[0]);
            let expected = points.iter().any(|p| distance_2(*p, to) < cutoff * cutoff);
            assert_eq!(tree.any_within(to, cutoff), expected);
        }
        assert!(!tree.any_within([f64::NAN; 3], 1e9));
    }

    #[test]
    fn images_are_those_that_the_cell_finds() {
        let mut state = 7_u32;
        let mut coordinate = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 16) / 512.0 - 64.0
        };
        let mut point = || [coordinate(), coordinate(), coordinate()];
        let points: Vec<_> = (0..10).map(|_| point()).collect();
        let angles = [[90.0; 3], [60.0, 60.0, 90.0], [109.47; 3]];
        for angles in angles {
            let cell = Cell::from_lengths_angles([30.0, 33.0, 36.0], angles).unwrap();
            for cutoff in [2.0, 9.0, 20.0, 80.0, 1e9] {
                let images = Images::new(points.clone(), &cell, cutoff);
                for _ in 0..200 {
                    let to = point();
                    let nearest = points.iter().map(|p| cell.nearest(sub(*p, to)));
                    let least = nearest.map(|v| dot(v, v)).fold(f64::INFINITY, f64::min);
                    assert_eq!(
                        images.any_within(to),
                        least < cutoff * cutoff,
                        "{angles:?} {cutoff}"
                    );
                }
            }
        }
    }
}
