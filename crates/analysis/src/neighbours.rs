//! Which of two sets of points are close, in a cell of any shape or none.
//!
//! The larger set is sorted into the parts of a grid, none of them thinner than the cutoff, so that
//! each point of the smaller looks into 27. If along an axis the smaller set leaves a gap in the
//! cell, as a molecule does in its water, the grid is a window around it: of each point of the
//! larger set one image at most is in it, and no others need to be looked at.

use std::ops::Range;

use crate::Cell;
use crate::cell::norm;
use crate::read::{FARTHEST, Frame};

/// How far off coordinates of 32 bits may be, in Å.
const SLACK: f32 = 0.01;

/// Points that are compared at once.
const LANES: usize = 4;

/// Most parts along an axis, for points scattered over more than any system.
const MAX_PARTS: f32 = 256.0;

/// Parts are about so full, as far as they may be that small: rows of parts are searched a few
/// points at a time.
const POINTS_PER_PART: f32 = 2.0;

/// Parts of a grid that only says which of them are near a point.
const MAX_NEAR_PARTS: usize = 1 << 16;

/// In place of the part of a point that is in none.
const OUTSIDE: i32 = -1;

/// Coordinates of points in Å.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cloud {
    pub(crate) x: Vec<f32>,
    pub(crate) y: Vec<f32>,
    pub(crate) z: Vec<f32>,
}

impl Cloud {
    pub(crate) fn len(&self) -> usize {
        self.x.len()
    }

    /// Takes the positions of some slots of a frame, in place of what it held.
    pub(crate) fn read(&mut self, frame: &Frame, slots: impl Iterator<Item = u32> + Clone) {
        for (column, to) in [frame.x(), frame.y(), frame.z()].into_iter().zip(self.columns_mut()) {
            to.clear();
            to.extend(slots.clone().map(|slot| column[slot as usize]));
        }
    }

    /// Takes some points of others, in place of what it held.
    pub(crate) fn take(&mut self, others: &Self, which: &[u32]) {
        let columns = [&others.x, &others.y, &others.z];
        for (column, to) in columns.into_iter().zip(self.columns_mut()) {
            to.clear();
            to.extend(which.iter().map(|n| column[*n as usize]));
        }
    }

    fn columns_mut(&mut self) -> [&mut Vec<f32>; 3] {
        [&mut self.x, &mut self.y, &mut self.z]
    }

    pub(crate) fn get(&self, n: usize) -> [f32; 3] {
        [self.x[n], self.y[n], self.z[n]]
    }
}

/// The search, with the memory it takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    few: Placed,
    many: Placed,
    /// Where each part starts, and the last ends.
    starts: Vec<u32>,
    /// The points of the larger set sorted by part. A few that are near nothing follow, so that a
    /// step may read over the end.
    sorted: Cloud,
    /// Where each of them was before.
    order: Vec<u32>,
    /// Whether each part is near a point of the smaller set; one more part is far from all.
    are_near: Vec<u8>,
    spread: Vec<u8>,
    parts: Vec<u32>,
}

/// Points on the grid.
#[derive(Clone, Debug, Default)]
struct Placed {
    /// The image of each that is in the grid.
    points: Cloud,
    /// Along each axis the fraction, and then the part, as a number without one.
    places: [Vec<f32>; 3],
    /// The part in the whole grid.
    parts: Vec<i32>,
}

#[derive(Clone, Copy, Debug)]
struct Axis {
    /// The cell's edge, if there is a cell.
    edge: Option<[f32; 3]>,
    /// Whether the grid is the whole cell along it, and parts of the next image are neighbours too.
    has_images: bool,
    first: f32,
    /// Parts per fraction.
    density: f32,
    n_parts: i32,
}

impl Neighbours {
    /// Calls `found` for all pairs of a point of `a` and one of `b` that are closer than a cutoff
    /// in Å, or nearest images of which are, and for a few that are not. The order is always the
    /// same.
    pub(crate) fn pairs(
        &mut self,
        a: &Cloud,
        b: &Cloud,
        cell: Option<&Cell>,
        cutoff: f64,
        mut found: impl FnMut(usize, usize),
    ) {
        if a.len() > b.len() {
            self.few_and_many(b, a, cell, cutoff as f32 + SLACK, |i, j| found(j, i));
        } else {
            self.few_and_many(a, b, cell, cutoff as f32 + SLACK, found);
        }
    }

    /// Does the same for all pairs of two points of one set, each of which comes once.
    pub(crate) fn pairs_within(
        &mut self,
        points: &Cloud,
        cell: Option<&Cell>,
        cutoff: f64,
        mut found: impl FnMut(usize, usize),
    ) {
        let cutoff = cutoff as f32 + SLACK;
        self.few.start(points, cell);
        self.many.start(points, cell);
        let Some(axes) = self.axes(cell, cutoff, points.len()) else {
            return (0..points.len()).for_each(|i| (0..i).for_each(|j| found(j, i)));
        };
        self.many.place(&axes, |axis| axis.edge.is_some());
        self.sort(&axes);
        // Whoever finds another is found by it, so that those after it in the grid are enough.
        for (n, i) in self.order.iter().enumerate() {
            let [x, y, z] = &self.many.places;
            let parts = [x, y, z].map(|place| place[*i as usize] as i32);
            let position = self.sorted.get(n);
            let mut found = |j: u32| found(*i as usize, j as usize);
            self.search_around(&axes, parts, position, cutoff, n + 1, &mut found);
        }
    }

    fn few_and_many(
        &mut self,
        few: &Cloud,
        many: &Cloud,
        cell: Option<&Cell>,
        cutoff: f32,
        mut found: impl FnMut(usize, usize),
    ) {
        self.few.start(few, cell);
        self.many.start(many, cell);
        let Some(axes) = self.axes(cell, cutoff, many.len()) else {
            return (0..few.len()).for_each(|i| (0..many.len()).for_each(|j| found(i, j)));
        };
        self.few.place(&axes, |axis| axis.has_images);
        self.many.place(&axes, |axis| axis.edge.is_some());
        self.sort(&axes);
        for i in 0..few.len() {
            let position = self.few.points.get(i);
            let [x, y, z] = &self.few.places;
            let parts = [x[i] as i32, y[i] as i32, z[i] as i32];
            let mut found = |j: u32| found(i, j as usize);
            self.search_around(&axes, parts, position, cutoff, 0, &mut found);
        }
    }

    /// Compares a position with the sorted points from one on that are in its part or next to it.
    #[inline]
    fn search_around(
        &self,
        axes: &[Axis; 3],
        parts: [i32; 3],
        position: [f32; 3],
        cutoff: f32,
        first: usize,
        found: &mut impl FnMut(u32),
    ) {
        let inner = [axes[0].inner(parts[0]), axes[1].inner(parts[1]), axes[2].inner(parts[2])];
        self.search(axes, &inner, position, cutoff * cutoff, first, found);
        let is_at_edge =
            |k: usize| axes[k].has_images && (parts[k] == 0 || parts[k] == axes[k].n_parts - 1);
        if is_at_edge(0) || is_at_edge(1) || is_at_edge(2) {
            self.search_images(axes, parts, position, cutoff * cutoff, first, found);
        }
    }

    /// Finds the points of a large set that may be closer than a cutoff in Å to one of a small set,
    /// or a nearest image of which may be: all that are, and some that are not. They come in their
    /// order, in place of what `into` held.
    ///
    /// Most of the water around a molecule is near none of it. This costs a few additions for each
    /// of its molecules, where sorting all of it took most of the time of a search.
    pub(crate) fn near(
        &mut self,
        few: &Cloud,
        many: &Cloud,
        cell: Option<&Cell>,
        cutoff: f64,
        into: &mut Vec<u32>,
    ) {
        into.clear();
        self.few.start(few, cell);
        let n_points = MAX_NEAR_PARTS * POINTS_PER_PART as usize;
        let Some(axes) = self.axes(cell, cutoff as f32 + SLACK, n_points) else {
            into.extend(0..many.len() as u32);
            return;
        };
        self.few.place(&axes, |axis| axis.has_images);
        self.few.flatten(&axes);
        let n_parts: usize = axes.iter().map(|axis| axis.n_parts as usize).product();
        self.are_near.clear();
        self.are_near.resize(n_parts + 1, 0);
        for part in self.few.parts.iter().filter(|part| **part != OUTSIDE) {
            self.are_near[*part as usize] = 1;
        }
        self.spread(&axes);
        self.find_parts(many, cell, &axes);
        // A branch for each point would be guessed wrong as often as not.
        into.resize(many.len() + 1, 0);
        let mut n_found = 0;
        for (n, part) in self.parts.iter().enumerate() {
            into[n_found] = n as u32;
            n_found += usize::from(self.are_near[*part as usize]);
        }
        into.truncate(n_found);
    }

    /// Marks the parts next to those that are marked, along one axis after the other.
    fn spread(&mut self, axes: &[Axis; 3]) {
        let Self { are_near, spread, .. } = self;
        let n_parts = are_near.len() - 1;
        let mut step = 1;
        for axis in axes {
            let n = axis.n_parts as usize;
            spread.clone_from(are_near);
            // Rows of `n` parts that are `step` apart follow each other.
            let row = n * step;
            for first in (0..n_parts).step_by(row) {
                let from = &spread[first..first + row];
                let to = &mut are_near[first..first + row];
                to[step..].iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                to.iter_mut().zip(&from[step..]).for_each(|(to, from)| *to |= from);
                if axis.has_images {
                    to[..step]
                        .iter_mut()
                        .zip(&from[row - step..])
                        .for_each(|(to, from)| *to |= from);
                    to[row - step..].iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                }
            }
            step = row;
        }
    }

    /// The part of each point, or the one that is far from all.
    fn find_parts(&mut self, points: &Cloud, cell: Option<&Cell>, axes: &[Axis; 3]) {
        let rows = cell.map_or(IDENTITY, |cell| cell.reduced().1).map(|row| row.map(|x| x as f32));
        let places = Places {
            rows,
            firsts: axes.map(|axis| axis.first),
            wraps: axes.map(|axis| if axis.edge.is_some() { 1.0 } else { 0.0 }),
            densities: axes.map(|axis| axis.density),
            counts: axes.map(|axis| axis.n_parts as f32),
            none: (self.are_near.len() - 1) as f32,
        };
        self.parts.resize(points.len(), 0);
        let (chunks, rest) = self.parts.as_chunks_mut::<LANES>();
        let [(x, x_rest), (y, y_rest), (z, z_rest)] =
            [&points.x, &points.y, &points.z].map(|column| column.as_chunks::<LANES>());
        for (((parts, x), y), z) in chunks.iter_mut().zip(x).zip(y).zip(z) {
            *parts = places.parts(x, y, z);
        }
        for (((part, x), y), z) in rest.iter_mut().zip(x_rest).zip(y_rest).zip(z_rest) {
            *part = places.parts(&[*x; LANES], &[*y; LANES], &[*z; LANES])[0];
        }
    }

    /// A grid for both sets, of which the larger has so many points; none if the cell is too small
    /// for one, so that any two are near.
    fn axes(&self, cell: Option<&Cell>, cutoff: f32, n_points: usize) -> Option<[Axis; 3]> {
        let (edges, rows) = cell.map_or((IDENTITY, IDENTITY), Cell::reduced);
        let mut lengths = [0.0; 3];
        let mut axes = [0, 1, 2].map(|k| {
            let width = 1.0 / norm(rows[k]) as f32;
            let [low, high] = extent(&self.few.places[k]);
            let beyond = cutoff / width;
            let span = (high - low).max(0.0) + 2.0 * beyond;
            let has_images = cell.is_some() && span > 1.0;
            let (first, reach) = if has_images { (0.0, 1.0) } else { (low - beyond, span) };
            lengths[k] = reach * width;
            let edge = cell.map(|_| edges[k].map(|x| x as f32));
            Axis { edge, has_images, first, density: 1.0 / reach, n_parts: 1 }
        });
        // As many parts as can be across the rows, and along them as many as there are points for.
        let most = lengths.map(|length| (length / cutoff).min(MAX_PARTS));
        let filled = n_points as f32 / (POINTS_PER_PART * most[1].max(1.0) * most[2].max(1.0));
        let n_parts = [most[0].min(filled), most[1], most[2]];
        for ((axis, n_parts), most) in axes.iter_mut().zip(n_parts).zip(most) {
            if axis.has_images && most < 3.0 {
                return None;
            }
            axis.n_parts = (n_parts as i32).max(if axis.has_images { 3 } else { 1 });
            axis.density *= axis.n_parts as f32;
        }
        Some(axes)
    }

    /// Sorts the points of the larger set into parts by counting.
    fn sort(&mut self, axes: &[Axis; 3]) {
        self.many.flatten(axes);
        let parts = &self.many.parts;
        self.starts.clear();
        self.starts.resize(axes.iter().map(|axis| axis.n_parts as usize).product::<usize>() + 1, 0);
        parts
            .iter()
            .filter(|part| **part != OUTSIDE)
            .for_each(|part| self.starts[*part as usize] += 1);
        let mut end = 0;
        for start in &mut self.starts {
            end += *start;
            *start = end;
        }
        let n_inside = end as usize;
        self.order.resize(n_inside, 0);
        for column in self.sorted.columns_mut() {
            column.resize(n_inside + LANES, 0.0);
            column[n_inside..].fill(f32::INFINITY);
        }
        let (Cloud { x, y, z }, sorted) = (&self.many.points, &mut self.sorted);
        // From the last to the first, so that points of a part keep their order.
        for (n, part) in parts.iter().enumerate().rev().filter(|(_, part)| **part != OUTSIDE) {
            let start = &mut self.starts[*part as usize];
            *start -= 1;
            let to = *start as usize;
            self.order[to] = n as u32;
            (sorted.x[to], sorted.y[to], sorted.z[to]) = (x[n], y[n], z[n]);
        }
    }

    /// Compares a position with the points in a block of parts.
    fn search(
        &self,
        axes: &[Axis; 3],
        [xs, ys, zs]: &[Range<i32>; 3],
        from: [f32; 3],
        cutoff_2: f32,
        first: usize,
        found: &mut impl FnMut(u32),
    ) {
        let [nx, ny] = [axes[0].n_parts, axes[1].n_parts];
        let start = |x: i32, y: i32, z: i32| self.starts[((z * ny + y) * nx + x) as usize] as usize;
        for z in zs.clone() {
            if xs.len() == nx as usize {
                // Whole rows follow each other.
                let run = start(0, ys.start, z).max(first)..start(0, ys.end, z);
                self.scan(run, from, cutoff_2, found);
            } else {
                for y in ys.clone() {
                    let run = start(xs.start, y, z).max(first)..start(xs.end, y, z);
                    self.scan(run, from, cutoff_2, found);
                }
            }
        }
    }

    #[inline]
    fn scan(&self, run: Range<usize>, from: [f32; 3], cutoff_2: f32, found: &mut impl FnMut(u32)) {
        let Cloud { x, y, z } = &self.sorted;
        for at in run.clone().step_by(LANES) {
            let x = &x[at..at + LANES];
            let y = &y[at..at + LANES];
            let z = &z[at..at + LANES];
            let mut is_near = [false; LANES];
            for k in 0..LANES {
                let dx = x[k] - from[0];
                let dy = y[k] - from[1];
                let dz = z[k] - from[2];
                is_near[k] = dx * dx + dy * dy + dz * dz < cutoff_2;
            }
            if is_near != [false; LANES] {
                (at..run.end.min(at + LANES))
                    .filter(|n| is_near[n - at])
                    .for_each(|n| found(self.order[n]));
            }
        }
    }

    /// Does the same for the parts next to one that are in other images of the grid.
    fn search_images(
        &self,
        axes: &[Axis; 3],
        parts: [i32; 3],
        position: [f32; 3],
        cutoff_2: f32,
        first: usize,
        found: &mut impl FnMut(u32),
    ) {
        let runs = [0, 1, 2].map(|k| [axes[k].inner(parts[k]), axes[k].across(parts[k])]);
        for which in 1..8 {
            let crosses = [which & 1, which >> 1 & 1, which >> 2];
            let ranges = [0, 1, 2].map(|k| runs[k][crosses[k]].clone());
            let mut position = position;
            for k in (0..3).filter(|k| crosses[*k] == 1) {
                let sign = if parts[k] == 0 { 1.0 } else { -1.0 };
                let edge = axes[k].edge.unwrap_or_default().map(|x| sign * x);
                position = [position[0] + edge[0], position[1] + edge[1], position[2] + edge[2]];
            }
            self.search(axes, &ranges, position, cutoff_2, first, found);
        }
    }
}

/// How the part of a point is found.
struct Places {
    rows: [[f32; 3]; 3],
    firsts: [f32; 3],
    /// 1 where the next image follows.
    wraps: [f32; 3],
    densities: [f32; 3],
    counts: [f32; 3],
    /// The part of points that are in none.
    none: f32,
}

impl Places {
    #[inline(always)]
    fn parts(&self, x: &[f32; LANES], y: &[f32; LANES], z: &[f32; LANES]) -> [u32; LANES] {
        // Added to a whole number below this, it leaves that in the last bits.
        const LARGE: f32 = (1 << 23) as f32;
        let mut parts = [0.0; LANES];
        let mut are_inside = [true; LANES];
        for axis in [2, 1, 0] {
            let [u, v, w] = self.rows[axis];
            let count = self.counts[axis];
            for k in 0..LANES {
                let along = u * x[k] + v * y[k] + w * z[k] - self.firsts[axis];
                let place = (along - self.wraps[axis] * floor(along)) * self.densities[axis];
                are_inside[k] &= (place >= 0.0) & (place <= count);
                // Rounding may put the last ones one part too far.
                let whole = floor(place);
                let part = if whole < count - 1.0 { whole } else { count - 1.0 };
                parts[k] = parts[k] * count + part;
            }
        }
        let mut numbers = [0; LANES];
        for k in 0..LANES {
            let part = if are_inside[k] { parts[k] } else { self.none };
            numbers[k] = (part + LARGE).to_bits() - LARGE.to_bits();
        }
        numbers
    }
}

impl Placed {
    /// Takes points and finds their fractions.
    fn start(&mut self, points: &Cloud, cell: Option<&Cell>) {
        self.points.clone_from(points);
        let rows = cell.map_or(IDENTITY, |cell| cell.reduced().1);
        for (place, row) in self.places.iter_mut().zip(rows) {
            let [u, v, w] = row.map(|x| x as f32);
            let positions = points.x.iter().zip(&points.y).zip(&points.z);
            place.clear();
            place.extend(positions.map(|((x, y), z)| u * x + v * y + w * z));
        }
    }

    /// Finds the parts of points, those along some axes brought into the grid before.
    fn place(&mut self, axes: &[Axis; 3], is_wrapped: impl Fn(&Axis) -> bool) {
        let Cloud { x, y, z } = &mut self.points;
        for (place, axis) in self.places.iter_mut().zip(axes) {
            let Axis { first, density, .. } = *axis;
            if let Some(edge) = axis.edge.filter(|_| is_wrapped(axis)) {
                for (((place, x), y), z) in place.iter_mut().zip(&mut *x).zip(&mut *y).zip(&mut *z)
                {
                    let whole = floor(*place - first);
                    *place -= whole;
                    *x -= whole * edge[0];
                    *y -= whole * edge[1];
                    *z -= whole * edge[2];
                }
            }
            place.iter_mut().for_each(|place| *place = floor((*place - first) * density));
            if axis.has_images {
                // Rounding may leave a fraction of 1.
                let last = axis.n_parts as f32 - 1.0;
                place
                    .iter_mut()
                    .for_each(|place| *place = if *place > last { last } else { *place });
            }
        }
    }

    /// Finds the number of each point's part in the whole grid.
    fn flatten(&mut self, axes: &[Axis; 3]) {
        let [nx, ny, nz] = axes.map(|axis| axis.n_parts as f32);
        let least = |a: f32, b: f32| if a < b { a } else { b };
        let [x, y, z] = &self.places;
        self.parts.clear();
        self.parts.extend(x.iter().zip(y).zip(z).map(|((x, y), z)| {
            // Rounding may put the last ones one part too far.
            let is_inside =
                (*x >= 0.0) & (*x <= nx) & (*y >= 0.0) & (*y <= ny) & (*z >= 0.0) & (*z <= nz);
            let part = (least(*z, nz - 1.0) * ny + least(*y, ny - 1.0)) * nx + least(*x, nx - 1.0);
            if is_inside { part as i32 } else { OUTSIDE }
        }));
    }
}

impl Axis {
    /// The parts next to one, but for those in images of the grid.
    fn inner(&self, part: i32) -> Range<i32> {
        part.saturating_sub(1).clamp(0, self.n_parts)..part.saturating_add(2).clamp(0, self.n_parts)
    }

    /// The part next to one in the next image of the grid, if it is at the edge of one.
    fn across(&self, part: i32) -> Range<i32> {
        let last = self.n_parts - 1;
        match part {
            0 if self.has_images => last..last + 1,
            part if self.has_images && part == last => 0..1,
            _ => 0..0,
        }
    }
}

const IDENTITY: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// The least and the greatest of some numbers, as far as anything can be from the origin.
fn extent(numbers: &[f32]) -> [f32; 2] {
    let mut low = [f32::INFINITY; LANES];
    let mut high = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for k in 0..LANES {
            low[k] = if chunk[k] < low[k] { chunk[k] } else { low[k] };
            high[k] = if chunk[k] > high[k] { chunk[k] } else { high[k] };
        }
    }
    let low = low.iter().chain(rest).fold(f32::INFINITY, |low, x| low.min(*x));
    let high = high.iter().chain(rest).fold(f32::NEG_INFINITY, |high, x| high.max(*x));
    [low, high].map(|x| x.clamp(-FARTHEST, FARTHEST))
}

/// The greatest whole number not above a number of less than 22 bits, as quick as an addition.
fn floor(x: f32) -> f32 {
    const LARGE: f32 = 1.5 * (1 << 23) as f32;
    let near = (x + LARGE) - LARGE;
    if near > x { near - 1.0 } else { near }
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
        for _ in 0..n {
            cloud
                .columns_mut()
                .into_iter()
                .zip(sizes)
                .for_each(|(column, size)| column.push(size * random()));
        }
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
        let sizes =
            [[60.0; 3], [15.0, 14.0, 13.0], [100.0, 3.0, 0.0], [0.0; 3], [9.0, 200.0, 12.0]];
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
                            assert!(
                                found.binary_search(&(i, j)).is_ok(),
                                "{cell:?} {size:?} {cutoff}"
                            );
                        }
                        let is_small = cell.as_ref().is_some_and(|cell| cell.half_width() < 10.0);
                        assert!(
                            is_small || found.iter().all(|(i, j)| distance(*i, *j) < cutoff + 0.02)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn within_a_set_each_close_pair_is_found_once() {
        let mut state = 9;
        let cells = [
            None,
            Cell::from_lengths_angles([40.0, 30.0, 31.0], [90.0; 3]),
            Cell::from_lengths_angles([32.0; 3], [60.0, 60.0, 90.0]),
            Cell::from_lengths_angles([40.0, 50.0, 60.0], [70.0, 50.0, 40.0]),
            Cell::from_lengths_angles([7.0, 8.0, 40.0], [90.0; 3]),
        ];
        let mut search = Neighbours::default();
        for cell in &cells {
            for size in [[60.0; 3], [15.0, 14.0, 13.0], [100.0, 3.0, 0.0], [9.0, 200.0, 12.0]] {
                for cutoff in [3.0, 9.9] {
                    let points = cloud(&mut state, 300, size);
                    let mut found = Vec::new();
                    search.pairs_within(&points, cell.as_ref(), cutoff, |i, j| {
                        found.push((i.min(j), i.max(j)));
                    });
                    let n_found = found.len();
                    found.sort_unstable();
                    found.dedup();
                    assert_eq!(found.len(), n_found, "no pair is found twice");
                    assert!(found.iter().all(|(i, j)| i < j), "nor a point with itself");
                    let points = positions(&points);
                    let distance = |i: usize, j: usize| {
                        let apart = sub(points[i], points[j]);
                        norm(cell.as_ref().map_or(apart, |cell| cell.nearest(apart)))
                    };
                    let all = (0..300).flat_map(|i| (i + 1..300).map(move |j| (i, j)));
                    for (i, j) in all.filter(|(i, j)| distance(*i, *j) <= cutoff) {
                        assert!(found.binary_search(&(i, j)).is_ok(), "{cell:?} {size:?} {cutoff}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_point_that_is_near_is_left_out() {
        let mut state = 11;
        let cells = [
            None,
            Cell::from_lengths_angles([40.0, 30.0, 31.0], [90.0; 3]),
            Cell::from_lengths_angles([32.0; 3], [60.0, 60.0, 90.0]),
            Cell::from_lengths_angles([30.0; 3], [109.471_22; 3]),
            Cell::from_lengths_angles([7.0, 8.0, 40.0], [90.0; 3]),
        ];
        let mut search = Neighbours::default();
        let mut near = Vec::new();
        for cell in &cells {
            for size in [[60.0; 3], [15.0, 14.0, 13.0], [100.0, 3.0, 0.0], [0.0; 3]] {
                let few = cloud(&mut state, 20, size);
                let many = cloud(&mut state, 600, [70.0; 3]);
                search.near(&few, &many, cell.as_ref(), 3.0, &mut near);
                assert!(near.is_sorted_by(|a, b| a < b));
                let (few, many) = (positions(&few), positions(&many));
                let distance = |n: usize| {
                    few.iter()
                        .map(|point| {
                            let apart = sub(*point, many[n]);
                            norm(cell.as_ref().map_or(apart, |cell| cell.nearest(apart)))
                        })
                        .fold(f64::INFINITY, f64::min)
                };
                for n in 0..many.len() {
                    let is_found = near.binary_search(&(n as u32)).is_ok();
                    assert!(is_found || distance(n) > 3.0, "{cell:?} {size:?} {n}");
                    // A part is at least as thin as two cutoffs, across the corner of which no
                    // point is farther than this.
                    let is_small = cell.as_ref().is_some_and(|cell| cell.half_width() < 10.0);
                    assert!(is_small || !is_found || distance(n) < 4.0 * 3.0 * 3_f64.sqrt());
                }
            }
        }
    }

    #[test]
    fn what_is_no_position_is_near_nothing() {
        let mut strange = cloud(&mut 6, 10, [10.0; 3]);
        [f32::NAN, f32::INFINITY, 1e30].into_iter().for_each(|x| {
            strange
                .columns_mut()
                .into_iter()
                .zip([x, 0.0, -x])
                .for_each(|(column, x)| column.push(x));
        });
        for cell in [None, Cell::from_lengths_angles([30.0; 3], [90.0; 3])] {
            let mut found = Vec::new();
            Neighbours::default()
                .pairs(&strange, &strange, cell.as_ref(), 3.0, |i, j| found.push((i, j)));
            assert!((0..10).all(|n| found.contains(&(n, n))), "{found:?}");
        }
    }
}
