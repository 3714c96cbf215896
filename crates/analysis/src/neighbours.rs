//! Which of two sets of points are close, in a cell of any shape or none.
//!
//! The points of the second set are sorted into the parts of a grid, none of them thinner than the
//! cutoff, so that each point of the first looks into 27. Along an axis where the points leave a
//! gap in the cell, as a molecule does in its water, the grid is open and there are no images.

use std::ops::Range;

use crate::Cell;
use crate::cell::norm;

/// How far off coordinates of 32 bits may be, in Å.
const SLACK: f32 = 0.01;

/// Points that are compared at once.
const LANES: usize = 8;

/// Most parts along an axis, for points scattered over more than any system.
const MAX_PARTS: i32 = 256;

/// Coordinates of points in Å.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cloud {
    pub(crate) x: Vec<f32>,
    pub(crate) y: Vec<f32>,
    pub(crate) z: Vec<f32>,
}

impl Cloud {
    pub(crate) fn clear(&mut self) {
        [&mut self.x, &mut self.y, &mut self.z].into_iter().for_each(Vec::clear);
    }

    pub(crate) fn push(&mut self, [x, y, z]: [f32; 3]) {
        self.x.push(x);
        self.y.push(y);
        self.z.push(z);
    }

    pub(crate) fn len(&self) -> usize {
        self.x.len()
    }

    fn get(&self, n: usize) -> [f32; 3] {
        [self.x[n], self.y[n], self.z[n]]
    }
}

/// The search, with the memory it takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    /// The second set, sorted by part.
    sorted: Cloud,
    /// Where each was before.
    order: Vec<u32>,
    /// Where each part starts, and the last ends.
    starts: Vec<u32>,
    part_of: Vec<u32>,
}

/// One axis of the grid.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// Gives the fraction along the axis.
    row: [f32; 3],
    /// The cell's edge, if there are images along it.
    edge: Option<[f32; 3]>,
    first: f32,
    /// Parts per fraction.
    density: f32,
    n_parts: i32,
}

impl Neighbours {
    /// Calls `found` for all pairs of a point of `a` and one of `b` that are closer than a cutoff in
    /// Å, or nearest images of which are, and for a few that are not. The order is always the same.
    pub(crate) fn pairs(
        &mut self,
        a: &Cloud,
        b: &Cloud,
        cell: Option<&Cell>,
        cutoff: f64,
        mut found: impl FnMut(usize, usize),
    ) {
        let cutoff = cutoff as f32 + SLACK;
        let Some(axes) = axes(a, b, cell, cutoff) else {
            return (0..a.len()).for_each(|i| (0..b.len()).for_each(|j| found(i, j)));
        };
        self.sort(b, &axes);
        let [nx, ny] = [axes[0].n_parts, axes[1].n_parts];
        for i in 0..a.len() {
            let (position, [x, y, z]) = place(&axes, a.get(i));
            for (z, position) in axes[2].around(z, position) {
                for (y, position) in axes[1].around(y, position) {
                    for (x, position) in axes[0].runs_around(x, position) {
                        let part = |x: i32| self.starts[((z * ny + y) * nx + x) as usize] as usize;
                        self.scan(part(x.start)..part(x.end), position, cutoff * cutoff, |j| found(i, j));
                    }
                }
            }
        }
    }

    /// Sorts points into parts by counting.
    fn sort(&mut self, points: &Cloud, axes: &[Axis; 3]) {
        let n_parts = axes.iter().map(|axis| axis.n_parts as usize).product::<usize>();
        self.starts.clear();
        self.starts.resize(n_parts + 1, 0);
        self.part_of.clear();
        for j in 0..points.len() {
            let parts = place(axes, points.get(j)).1;
            let [x, y, z] = [0, 1, 2].map(|k| parts[k].clamp(0, axes[k].n_parts - 1));
            let part = ((z * axes[1].n_parts + y) * axes[0].n_parts + x) as u32;
            self.part_of.push(part);
            self.starts[part as usize] += 1;
        }
        let mut end = 0;
        for start in &mut self.starts {
            end += *start;
            *start = end;
        }
        self.order.resize(points.len(), 0);
        for column in [&mut self.sorted.x, &mut self.sorted.y, &mut self.sorted.z] {
            column.resize(points.len(), 0.0);
        }
        // From the last to the first, so that points of a part keep their order.
        for j in (0..points.len()).rev() {
            let start = &mut self.starts[self.part_of[j] as usize];
            *start -= 1;
            let to = *start as usize;
            self.order[to] = j as u32;
            [self.sorted.x[to], self.sorted.y[to], self.sorted.z[to]] = place(axes, points.get(j)).0;
        }
    }

    fn scan(&self, range: Range<usize>, from: [f32; 3], cutoff_2: f32, mut found: impl FnMut(usize)) {
        let columns = [&self.sorted.x, &self.sorted.y, &self.sorted.z].map(|column| &column[range.clone()]);
        let [(x, x_rest), (y, y_rest), (z, z_rest)] = columns.map(|column| column.as_chunks::<LANES>());
        let square = |[x, y, z]: [f32; 3]| {
            let [dx, dy, dz] = [x - from[0], y - from[1], z - from[2]];
            dx * dx + dy * dy + dz * dz
        };
        for (n, ((x, y), z)) in x.iter().zip(y).zip(z).enumerate() {
            let squares: [f32; LANES] = std::array::from_fn(|k| square([x[k], y[k], z[k]]));
            if squares.iter().fold(false, |any, square| any | (*square < cutoff_2)) {
                let near = (0..LANES).filter(|k| squares[*k] < cutoff_2);
                near.for_each(|k| found(self.order[range.start + LANES * n + k] as usize));
            }
        }
        let first_rest = range.end - x_rest.len();
        for (n, ((x, y), z)) in x_rest.iter().zip(y_rest).zip(z_rest).enumerate() {
            if square([*x, *y, *z]) < cutoff_2 {
                found(self.order[first_rest + n] as usize);
            }
        }
    }
}

/// A grid for two sets of points; none if the cell is too small for one, so that any two are near.
fn axes(a: &Cloud, b: &Cloud, cell: Option<&Cell>, cutoff: f32) -> Option<[Axis; 3]> {
    let identity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let (edges, rows) = cell.map_or((identity, identity), Cell::reduced);
    let mut lengths = [0.0; 3];
    let mut axes = [0, 1, 2].map(|k| {
        let row = rows[k].map(|x| x as f32);
        let width = 1.0 / norm(rows[k]) as f32;
        let ([low_a, high_a], [low, high]) = (extent(a, row), extent(b, row));
        let is_open = cell.is_none() || high.max(high_a) - low.min(low_a) + cutoff / width < 1.0;
        let (first, reach) = if is_open { (low, (high - low).max(0.0)) } else { (0.0, 1.0) };
        lengths[k] = reach * width;
        let edge = (!is_open).then(|| edges[k].map(|x| x as f32));
        Axis { row, edge, first, density: 1.0 / reach, n_parts: 1 }
    });
    // About one point to a part: smaller ones are mostly empty, larger ones take longer to search.
    let part = (lengths.iter().product::<f32>() / b.len().max(1) as f32).cbrt().max(cutoff);
    for (axis, length) in axes.iter_mut().zip(lengths) {
        let most = ((length / cutoff) as i32).min(MAX_PARTS);
        axis.n_parts = ((length / part) as i32).min(most).max(1);
        if axis.edge.is_some() {
            axis.n_parts = axis.n_parts.max(3);
            if most < 3 {
                return None;
            }
        }
        axis.density *= axis.n_parts as f32;
    }
    Some(axes)
}

impl Axis {
    /// The parts next to one, each with where a position is as seen from the image of the grid it
    /// belongs to.
    fn around(&self, part: i32, position: [f32; 3]) -> impl Iterator<Item = (i32, [f32; 3])> {
        (part.saturating_sub(1)..=part.saturating_add(1)).filter_map(move |part| match self.edge {
            None => (0..self.n_parts).contains(&part).then_some((part, position)),
            Some(edge) => {
                let whole = part.div_euclid(self.n_parts);
                let position = [0, 1, 2].map(|k| position[k] - whole as f32 * edge[k]);
                Some((part.rem_euclid(self.n_parts), position))
            }
        })
    }

    /// The same, parts that follow each other as one.
    fn runs_around(&self, part: i32, position: [f32; 3]) -> impl Iterator<Item = (Range<i32>, [f32; 3])> {
        let n = self.n_parts;
        let inner = part.saturating_sub(1).max(0)..part.saturating_add(2).min(n);
        let moved = |edge: [f32; 3], by: f32| [0, 1, 2].map(|k| position[k] + by * edge[k]);
        let below = self.edge.filter(|_| part == 0).map(|edge| (n - 1..n, moved(edge, 1.0)));
        let above = self.edge.filter(|_| part == n - 1).map(|edge| (0..1, moved(edge, -1.0)));
        (!inner.is_empty()).then_some((inner, position)).into_iter().chain(below).chain(above)
    }
}

/// The least and the greatest fraction of some points along an axis.
fn extent(points: &Cloud, row: [f32; 3]) -> [f32; 2] {
    let fractions = (0..points.len()).map(|n| dot(row, points.get(n)));
    fractions.fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], f| [low.min(f), high.max(f)])
}

/// The image of a position within the grid, and the part it is in.
fn place(axes: &[Axis; 3], mut position: [f32; 3]) -> ([f32; 3], [i32; 3]) {
    let mut parts = [0; 3];
    let original = position;
    for (axis, part) in axes.iter().zip(&mut parts) {
        let fraction = dot(axis.row, original) - axis.first;
        *part = floor(fraction * axis.density);
        if let Some(edge) = axis.edge {
            let whole = floor(fraction) as f32;
            position = [0, 1, 2].map(|k| position[k] - whole * edge[k]);
            *part = (((fraction - whole) * axis.density) as i32).min(axis.n_parts - 1);
        }
    }
    (position, parts)
}

/// The greatest integer not above a number; quicker than the function of that name.
fn floor(x: f32) -> i32 {
    let near = x as i32;
    near.saturating_sub(i32::from(x < near as f32))
}

fn dot(u: [f32; 3], v: [f32; 3]) -> f32 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[cfg(test)]
mod tests {
    use super::{Cloud, Neighbours};
    use crate::Cell;
    use crate::cell::{norm, sub};

    fn cloud(state: &mut u32, n: usize, sizes: [f32; 3]) -> Cloud {
        let mut random = || {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (*state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let mut cloud = Cloud::default();
        (0..n).for_each(|_| cloud.push(sizes.map(|size| size * random())));
        cloud
    }

    fn positions(cloud: &Cloud) -> Vec<[f64; 3]> {
        (0..cloud.len()).map(|n| cloud.get(n).map(f64::from)).collect()
    }

    #[test]
    fn all_close_pairs_are_found_and_few_others() {
        let mut state = 5;
        let cells = [
            None,
            Cell::from_lengths_angles([40.0, 30.0, 31.0], [90.0; 3]),
            Cell::from_lengths_angles([32.0; 3], [60.0, 60.0, 90.0]),
            Cell::from_lengths_angles([30.0; 3], [109.471_22; 3]),
            Cell::from_lengths_angles([40.0, 50.0, 60.0], [70.0, 50.0, 40.0]),
            Cell::from_lengths_angles([7.0, 8.0, 40.0], [90.0; 3]),
        ];
        let sizes = [[60.0; 3], [15.0, 14.0, 13.0], [100.0, 3.0, 0.0], [0.0; 3], [9.0, 200.0, 12.0]];
        let mut search = Neighbours::default();
        for cell in &cells {
            for size in sizes {
                for (n_a, n_b) in [(1, 40), (50, 300), (20, 0)] {
                    let (a, b) = (cloud(&mut state, n_a, size), cloud(&mut state, n_b, size));
                    for cutoff in [3.0, 6.5] {
                        let mut found = Vec::new();
                        search.pairs(&a, &b, cell.as_ref(), cutoff, |i, j| found.push((i, j)));
                        let n_found = found.len();
                        found.sort_unstable();
                        found.dedup();
                        assert_eq!(found.len(), n_found, "no pair is found twice");
                        let (a, b) = (positions(&a), positions(&b));
                        let distance = |i: usize, j: usize| {
                            let apart = sub(a[i], b[j]);
                            norm(cell.as_ref().map_or(apart, |cell| cell.nearest(apart)))
                        };
                        let all = (0..n_a).flat_map(|i| (0..n_b).map(move |j| (i, j)));
                        for (i, j) in all.filter(|(i, j)| distance(*i, *j) <= cutoff) {
                            assert!(found.binary_search(&(i, j)).is_ok(), "{cell:?} {size:?} {cutoff}");
                        }
                        let is_small = cell.as_ref().is_some_and(|cell| cell.half_width() < 10.0);
                        assert!(is_small || found.iter().all(|(i, j)| distance(*i, *j) < cutoff + 0.02));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_position_is_near_nothing() {
        let mut strange = cloud(&mut 6, 10, [10.0; 3]);
        [f32::NAN, f32::INFINITY, 1e30].into_iter().for_each(|x| strange.push([x, 0.0, -x]));
        for cell in [None, Cell::from_lengths_angles([30.0; 3], [90.0; 3])] {
            let mut found = Vec::new();
            Neighbours::default().pairs(&strange, &strange, cell.as_ref(), 3.0, |i, j| found.push((i, j)));
            assert!((0..10).all(|n| found.contains(&(n, n))));
        }
    }
}
