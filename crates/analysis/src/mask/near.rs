//! Which of some positions are near others: a k-d tree of these, and boxes of those.

use std::ops::{Range, RangeInclusive};

use crate::Cell;
use crate::cell::{dot, norm};

/// Which positions are closer than `cutoff` to any of `base`, or to one of its images in a cell.
///
/// Positions are asked for by boxes that are halved until each is near as a whole or far as a
/// whole, and the tree has a box around each of its parts: two heaps of atoms are compared once,
/// however many are in them. A search of the tree for each position took minutes where a file had
/// 200,000 atoms in one point and as many just beyond the cutoff of them.
pub(super) fn which_are_near(
    positions: impl IntoIterator<Item = [f64; 3]>,
    base: Vec<[f64; 3]>,
    cell: Option<&Cell>,
    cutoff: f64,
) -> Vec<bool> {
    let images = cell.map(|cell| Images::new(cell, cutoff));
    let inside = |position| images.as_ref().map_or(position, |images| images.inside(position));
    let positions = positions.into_iter();
    // Nothing is farther from the nearest image than this.
    if images.as_ref().is_some_and(|images| cutoff > images.vectors.map(norm).iter().sum()) {
        return positions.map(|_| !base.is_empty()).collect();
    }
    let mut near = Vec::new();
    let mut asked = Vec::new();
    for (nth, position) in positions.enumerate() {
        near.push(false);
        asked.push(Asked { at: inside(position), nth });
    }
    // What is nowhere is near nothing, and would have no place in a box.
    asked.retain(|asked| is_somewhere(&asked.at));
    let base: Vec<_> = base.into_iter().map(inside).filter(is_somewhere).collect();
    if !base.is_empty() {
        let search = Search { images, cutoff_2: cutoff * cutoff };
        search.ask(&Tree::new(base), &mut asked, &mut near);
    }
    near
}

fn is_somewhere(point: &[f64; 3]) -> bool {
    point.iter().all(|x| x.is_finite())
}

/// A position that is asked for, and its place in the answer.
struct Asked {
    at: [f64; 3],
    nth: usize,
}

struct Search {
    images: Option<Images>,
    cutoff_2: f64,
}

/// How many of the positions in a box are near.
#[derive(Clone, Copy, PartialEq)]
enum Near {
    None,
    Unsettled,
    All,
}

impl Search {
    fn ask(&self, tree: &Tree, asked: &mut [Asked], near: &mut [bool]) {
        if asked.is_empty() {
            return;
        }
        let bounds = Bounds::of(asked.iter().map(|asked| asked.at));
        let mut n_searched = 0;
        match self.of(tree, &bounds, &mut n_searched) {
            Near::None => return,
            Near::All => return asked.iter().for_each(|asked| near[asked.nth] = true),
            Near::Unsettled => {}
        }
        // Where much of the tree is about as far as the cutoff, each search would go through it.
        let fewer = if n_searched > tree.nodes.len() / 4 + LEAF {
            self.only_near(tree, &bounds)
        } else {
            None
        };
        let tree = fewer.as_ref().unwrap_or(tree);
        if asked.len() <= LEAF {
            for asked in asked {
                let bounds = Bounds { low: asked.at, high: asked.at };
                near[asked.nth] = self.of(tree, &bounds, &mut 0) == Near::All;
            }
            return;
        }
        let (axis, middle) = (bounds.widest(), asked.len() / 2);
        asked.select_nth_unstable_by(middle, |a, b| a.at[axis].total_cmp(&b.at[axis]));
        let (lower, upper) = asked.split_at_mut(middle);
        self.ask(tree, lower, near);
        self.ask(tree, upper, near);
    }

    /// A tree of the points that may be near to positions in a box, if these are few of it.
    fn only_near(&self, tree: &Tree, bounds: &Bounds) -> Option<Tree> {
        let images: Vec<_> = self.images_of(bounds).collect();
        let may_be_near = |point: &[f64; 3]| {
            let point = Bounds { low: *point, high: *point };
            images.iter().any(|image| point.least_2(image) < self.cutoff_2)
        };
        let points: Vec<_> = tree.points.iter().copied().filter(may_be_near).collect();
        (points.len() < tree.points.len() / 2).then(|| Tree::new(points))
    }

    /// A single position is settled: it is as far from a point at the least as it is at the most.
    fn of(&self, tree: &Tree, bounds: &Bounds, n_searched: &mut usize) -> Near {
        let mut found = Near::None;
        for image in self.images_of(bounds) {
            match tree.near(&image, self.cutoff_2, n_searched) {
                Near::None => {}
                Near::Unsettled => found = Near::Unsettled,
                Near::All => return Near::All,
            }
        }
        found
    }

    fn images_of(&self, bounds: &Bounds) -> impl Iterator<Item = Bounds> {
        let counts = self.images.as_ref().map_or([0..=0, 0..=0, 0..=0], |it| it.cells(bounds));
        let [i, j, k] = counts;
        i.flat_map(move |i| {
            let k = k.clone();
            j.clone().flat_map(move |j| k.clone().map(move |k| [i, j, k].map(f64::from)))
        })
        .map(|counts| match &self.images {
            Some(images) => images.moved_bounds(bounds, counts),
            None => *bounds,
        })
    }
}

/// Points, halved along the widest side of the box around them until a few are left.
struct Tree {
    points: Vec<[f64; 3]>,
    nodes: Vec<Node>,
}

struct Node {
    bounds: Bounds,
    points: Range<u32>,
    /// The second half; the first follows this node. None where points are searched one by one.
    upper: Option<u32>,
}

/// So few points are searched one by one.
const LEAF: usize = 16;

impl Tree {
    fn new(points: Vec<[f64; 3]>) -> Self {
        let n_points = points.len();
        let mut tree = Self { points, nodes: Vec::with_capacity(n_points / 2) };
        tree.add(0..n_points);
        tree
    }

    fn add(&mut self, range: Range<usize>) {
        let points = &mut self.points[range.clone()];
        let bounds = Bounds::of(points.iter().copied());
        let node = self.nodes.len();
        self.nodes.push(Node { bounds, points: range.start as u32..range.end as u32, upper: None });
        if range.len() <= LEAF {
            return;
        }
        let axis = bounds.widest();
        points.select_nth_unstable_by(range.len() / 2, |a, b| a[axis].total_cmp(&b[axis]));
        let middle = range.start + range.len() / 2;
        self.add(range.start..middle);
        self.nodes[node].upper = Some(self.nodes.len() as u32);
        self.add(middle..range.end);
    }

    /// `n_searched` counts the parts that are looked into.
    fn near(&self, bounds: &Bounds, cutoff_2: f64, n_searched: &mut usize) -> Near {
        match self.nodes.first() {
            Some(all) if all.bounds.least_2(bounds) < cutoff_2 => {
                self.near_node(0, bounds, cutoff_2, n_searched)
            }
            _ => Near::None,
        }
    }

    /// The same of a part that may be near. The nearer half is searched first, and nothing after a
    /// point that leaves the positions unsettled: then they are halved.
    fn near_node(
        &self,
        nth: usize,
        bounds: &Bounds,
        cutoff_2: f64,
        n_searched: &mut usize,
    ) -> Near {
        *n_searched += 1;
        let node = &self.nodes[nth];
        let Some(upper) = node.upper else {
            return self.near_points(node, bounds, cutoff_2);
        };
        let [mut nearer, mut other] =
            [nth + 1, upper as usize].map(|half| (half, self.nodes[half].bounds.least_2(bounds)));
        if other.1 < nearer.1 {
            (nearer, other) = (other, nearer);
        }
        for (half, least_2) in [nearer, other] {
            if least_2 < cutoff_2 {
                let found = self.near_node(half, bounds, cutoff_2, n_searched);
                if found != Near::None {
                    return found;
                }
            }
        }
        Near::None
    }

    fn near_points(&self, node: &Node, bounds: &Bounds, cutoff_2: f64) -> Near {
        let mut found = Near::None;
        for point in &self.points[node.points.start as usize..node.points.end as usize] {
            let point = Bounds { low: *point, high: *point };
            if point.least_2(bounds) < cutoff_2 {
                found = Near::Unsettled;
                if point.most_2(bounds) < cutoff_2 {
                    return Near::All;
                }
            }
        }
        found
    }
}

/// A box along the axes.
#[derive(Clone, Copy)]
struct Bounds {
    low: [f64; 3],
    high: [f64; 3],
}

impl Bounds {
    fn of(points: impl IntoIterator<Item = [f64; 3]>) -> Self {
        let mut bounds = Self { low: [f64::INFINITY; 3], high: [f64::NEG_INFINITY; 3] };
        for point in points {
            bounds.low = [0, 1, 2].map(|k| bounds.low[k].min(point[k]));
            bounds.high = [0, 1, 2].map(|k| bounds.high[k].max(point[k]));
        }
        bounds
    }

    fn widest(&self) -> usize {
        let [x, y, z] = [0, 1, 2].map(|k| self.high[k] - self.low[k]);
        if x >= y && x >= z {
            0
        } else if y >= z {
            1
        } else {
            2
        }
    }

    /// The square of the least distance between points of two boxes. Rounded as the distance of the
    /// points is, it is never above that.
    #[inline]
    fn least_2(&self, other: &Self) -> f64 {
        let [x, y, z] = [0, 1, 2].map(|k| {
            let below = self.low[k] - other.high[k];
            let above = other.low[k] - self.high[k];
            below.max(above).max(0.0)
        });
        x * x + y * y + z * z
    }

    /// The square of the largest distance, which is never below that of two points.
    #[inline]
    fn most_2(&self, other: &Self) -> f64 {
        let [x, y, z] =
            [0, 1, 2].map(|k| (self.high[k] - other.low[k]).max(other.high[k] - self.low[k]));
        x * x + y * y + z * z
    }
}

/// The images of positions in a cell.
struct Images {
    vectors: [[f64; 3]; 3],
    inverse: [[f64; 3]; 3],
    /// The cutoff in distances between opposite faces.
    reach: [f64; 3],
}

impl Images {
    fn new(cell: &Cell, cutoff: f64) -> Self {
        let (vectors, inverse) = cell.reduced();
        let reach = inverse.map(|row| cutoff * norm(row));
        Self { vectors, inverse, reach }
    }

    /// The image of a point that is in the cell.
    fn inside(&self, point: [f64; 3]) -> [f64; 3] {
        self.moved(point, self.inverse.map(|row| -dot(row, point).floor()))
    }

    fn moved(&self, point: [f64; 3], by: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|k| point[k] + (0..3).map(|n| by[n] * self.vectors[n][k]).sum::<f64>())
    }

    fn moved_bounds(&self, bounds: &Bounds, by: [f64; 3]) -> Bounds {
        Bounds { low: self.moved(bounds.low, by), high: self.moved(bounds.high, by) }
    }

    /// How many of each vector bring positions of a box in the cell near to others in the cell.
    ///
    /// Only from near a face does the cutoff reach into the next cell. Whatever it is, farther than
    /// two there is no nearest image: two points in the cell are less than one vector apart, half
    /// of one at most is left when whole ones are taken off, and in a reduced cell the nearest
    /// image is one from there at most. A cell of 0.1 Å and a cutoff of 4000 Å had 80,000.
    fn cells(&self, bounds: &Bounds) -> [RangeInclusive<i32>; 3] {
        [0, 1, 2].map(|n| {
            let row = self.inverse[n];
            let [low, high] = [f64::min, f64::max].map(|outer| {
                let [x, y, z] =
                    [0, 1, 2].map(|k| outer(row[k] * bounds.low[k], row[k] * bounds.high[k]));
                x + y + z
            });
            let first = -(high + self.reach[n]).floor();
            let last = -(low - self.reach[n]).floor();
            first.max(-2.0) as i32..=last.min(2.0) as i32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::which_are_near;
    use crate::Cell;
    use crate::cell::{dot, sub};

    /// Numbers from 0 up to 1.
    fn random(mut state: u32) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24)
        }
    }

    #[test]
    fn the_tree_finds_what_a_search_of_all_finds() {
        let mut random = random(1);
        // In steps, so that some distances are the cutoff.
        let mut point = || [0; 3].map(|_| (random() * 256.0).floor() / 8.0);
        let base: Vec<_> = (0..500).map(|_| point()).collect();
        let positions: Vec<_> = (0..500).map(|_| point()).collect();
        for cutoff in [0.0, 0.5, 1.0, 2.5, 4.0, 8.0, 16.0, 60.0] {
            let near = which_are_near(positions.iter().copied(), base.clone(), None, cutoff);
            for (position, near) in positions.iter().zip(near) {
                let mut distances_2 = base.iter().map(|p| sub(*p, *position)).map(|v| dot(v, v));
                assert_eq!(near, distances_2.any(|d| d < cutoff * cutoff), "{position:?} {cutoff}");
            }
        }
        assert_eq!(which_are_near([[f64::NAN; 3]], base, None, 1e9), [false]);
    }

    #[test]
    fn images_are_those_that_the_cell_finds() {
        let cells = [
            ([30.0, 33.0, 36.0], [90.0; 3]),
            ([30.0, 33.0, 36.0], [60.0, 60.0, 90.0]),
            ([30.0, 33.0, 36.0], [109.47; 3]),
            // A truncated octahedron, a dodecahedron, and skewed.
            ([32.0; 3], [109.471_220_6; 3]),
            ([32.0; 3], [60.0, 60.0, 90.0]),
            ([20.0, 40.0, 25.0], [50.0, 65.0, 35.0]),
            ([30.0, 30.0, 30.0], [90.0, 90.0, 150.0]),
            // Flat and thin.
            ([60.0, 50.0, 0.5], [90.0; 3]),
            ([60.0, 50.0, 0.5], [80.0, 70.0, 100.0]),
            ([60.0, 0.3, 0.5], [90.0, 60.0, 120.0]),
        ];
        let mut random = random(7);
        let mut points =
            |n| -> Vec<_> { (0..n).map(|_| [0; 3].map(|_| random() * 128.0 - 64.0)).collect() };
        let (base, positions) = (points(10), points(200));
        for (lengths, angles) in cells {
            let cell = Cell::from_lengths_angles(lengths, angles).unwrap();
            for cutoff in [0.1, 2.0, 9.0, 20.0, 80.0, 1e9] {
                let near =
                    which_are_near(positions.iter().copied(), base.clone(), Some(&cell), cutoff);
                for (position, near) in positions.iter().zip(near) {
                    let nearest = base.iter().map(|p| cell.nearest(sub(*p, *position)));
                    let least = nearest.map(|v| dot(v, v)).fold(f64::INFINITY, f64::min);
                    assert_eq!(near, least < cutoff * cutoff, "{lengths:?} {angles:?} {cutoff}");
                }
            }
        }
    }

    /// Pair by pair this would take minutes.
    #[test]
    fn heaps_of_atoms_are_not_compared_pair_by_pair() {
        let n = 100_000;
        let [here, there] = [vec![[0.0; 3]; n], vec![[9.0; 3]; n]];
        let near = which_are_near([here, there.clone()].concat(), there, None, 9.5);
        assert_eq!(near.iter().filter(|near| **near).count(), n);

        // Just outside of a sphere, and within what is left to it.
        let mut random = random(3);
        let shell = (0..n).map(|_| {
            let [x, y, z] = [0; 3].map(|_| random() - 0.5);
            let scale = 9.501 / (x * x + y * y + z * z).sqrt().max(1e-9);
            [x * scale, y * scale, z * scale]
        });
        let shell = shell.collect();
        let middle = (0..n).map(|nth| [nth as f64 / n as f64 * 5e-4, 0.0, 0.0]);
        assert!(!which_are_near(middle, shell, None, 9.5).contains(&true));
    }

    /// There are 80,000 images of each within the cutoff.
    #[test]
    fn a_flat_cell_has_few_images_to_search() {
        let cell = Cell::from_lengths_angles([99_999.999, 99_999.999, 0.1], [90.0; 3]).unwrap();
        let mut random = random(5);
        let base: Vec<_> = (0..3000).map(|_| [0; 3].map(|_| random() * 9999.0)).collect();
        let far: Vec<_> = base.iter().map(|[x, y, z]| [x + 20_000.0, *y, *z]).collect();
        assert!(!which_are_near(far, base, Some(&cell), 4000.0).contains(&true));
    }
}
