//! Periodic cells of any shape: construction, fractions, nearest images.

use std::ops::RangeInclusive;

/// A cell, by its three edge vectors in Å.
///
/// The vectors stand as the file has them, so a cell need not lie along the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    edges: Basis,
    /// The same lattice by vectors as short as possible, among which nearest images are found.
    reduced: Basis,
    is_box: bool,
    half_width: f64,
}

/// Three vectors, and the rows that turn coordinates into multiples of them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Basis {
    vectors: [[f64; 3]; 3],
    inverse: [[f64; 3]; 3],
}

/// Edges of cells are from 0.1 Å to 10⁶ Å long, so that nothing overflows on the way to an image.
const LENGTHS: RangeInclusive<f64> = 0.1..=1e6;

impl Cell {
    /// The cell with these edge vectors, unless they are not finite, span no volume, or are shorter
    /// or longer than those of any cell.
    pub fn from_vectors(vectors: [[f64; 3]; 3]) -> Option<Self> {
        let [a, b, c] = vectors;
        let volume = dot(a, cross(b, c)).abs();
        let lengths = vectors.map(norm);
        if !(lengths.iter().all(|length| LENGTHS.contains(length))
            && volume > 1e-6 * lengths.iter().product::<f64>())
        {
            return None;
        }
        let is_box = [a[1], a[2], b[0], b[2], c[0], c[1]] == [0.0; 6];
        let edges = Basis::new(vectors);
        let reduced = if is_box { edges } else { Basis::new(reduce(vectors)) };
        let half_width =
            reduced.inverse.iter().map(|row| 0.5 / norm(*row)).fold(f64::INFINITY, f64::min);
        Some(Self { edges, reduced, is_box, half_width })
    }

    /// The cell with these lengths in Å and angles α, β, γ in degrees: a along x, b in the xy
    /// plane.
    pub fn from_lengths_angles(lengths: [f64; 3], angles_deg: [f64; 3]) -> Option<Self> {
        Self::from_lengths_cosines(lengths, angles_deg.map(cosine))
    }

    /// The cell with these lengths in Å, which are above 0, and the cosines of α, β, γ.
    pub fn from_lengths_cosines(
        [a, b, c]: [f64; 3],
        [alpha, beta, gamma]: [f64; 3],
    ) -> Option<Self> {
        // An edge of −30 Å would span the same lattice as one of 30, and is damage all the same.
        if [a, b, c].iter().any(|length| *length < 0.0) {
            return None;
        }
        let sin_gamma = (1.0 - gamma * gamma).sqrt();
        let cy = (alpha - beta * gamma) / sin_gamma;
        let cz = (1.0 - beta * beta - cy * cy).sqrt();
        Self::from_vectors([
            [a, 0.0, 0.0],
            [b * gamma, b * sin_gamma, 0.0],
            [c * beta, c * cy, c * cz],
        ])
    }

    /// The edge vectors in Å.
    pub fn vectors(&self) -> [[f64; 3]; 3] {
        self.edges.vectors
    }

    /// The lengths of the edges in Å.
    pub fn lengths(&self) -> [f64; 3] {
        self.edges.vectors.map(norm)
    }

    /// The angles α, β, γ between the edges in degrees.
    pub fn angles_deg(&self) -> [f64; 3] {
        let [a, b, c] = self.edges.vectors;
        [[b, c], [a, c], [a, b]].map(|[u, v]| (dot(u, v) / (norm(u) * norm(v))).acos().to_degrees())
    }

    /// a, cos γ, b, cos β, cos α, c, as DCD files have them.
    pub(crate) fn lengths_and_cosines(&self) -> [f64; 6] {
        let [a, b, c] = self.edges.vectors;
        let cosine = |u: [f64; 3], v: [f64; 3]| dot(u, v) / (norm(u) * norm(v));
        [norm(a), cosine(a, b), norm(b), cosine(a, c), cosine(b, c), norm(c)]
    }

    /// Half the least distance between opposite faces, in Å: a vector shorter than this is shorter
    /// than all its images.
    pub fn half_width(&self) -> f64 {
        self.half_width
    }

    /// The shortest of a vector's images.
    #[inline]
    pub fn nearest(&self, vector: [f64; 3]) -> [f64; 3] {
        if self.is_short(vector) { vector } else { self.nearest_of_long(vector) }
    }

    /// The same, or the vector itself where there is no cell.
    #[inline]
    pub(crate) fn nearest_or(cell: Option<&Self>, vector: [f64; 3]) -> [f64; 3] {
        cell.map_or(vector, |cell| cell.nearest(vector))
    }

    fn nearest_of_long(&self, vector: [f64; 3]) -> [f64; 3] {
        let near = self.nearly_nearest(vector);
        if self.is_box || self.is_short(near) { near } else { self.nearest_around(near) }
    }

    /// Whether a vector is certainly shorter than all its images.
    fn is_short(&self, vector: [f64; 3]) -> bool {
        dot(vector, vector) <= self.half_width * self.half_width
    }

    /// The image with the least fractions: the shortest one if that is shorter than
    /// [`half_width`](Self::half_width).
    pub(crate) fn nearly_nearest(&self, vector: [f64; 3]) -> [f64; 3] {
        let whole = self.reduced.fractions(vector).map(nearest_integer);
        sub(vector, self.reduced.sum(whole))
    }

    /// A vector as multiples of the edges.
    pub fn fractions(&self, vector: [f64; 3]) -> [f64; 3] {
        self.edges.fractions(vector)
    }

    /// How many of each edge lie between a vector and its nearest image.
    pub(crate) fn edges_from_nearest(&self, vector: [f64; 3]) -> [f64; 3] {
        self.fractions(sub(vector, self.nearest(vector))).map(f64::round)
    }

    /// The sum of so many of each edge.
    pub fn edge_sum(&self, counts: [f64; 3]) -> [f64; 3] {
        self.edges.sum(counts)
    }

    /// The reduced vectors, and the rows that give fractions of them.
    pub(crate) fn reduced(&self) -> ([[f64; 3]; 3], [[f64; 3]; 3]) {
        (self.reduced.vectors, self.reduced.inverse)
    }

    /// In a reduced cell the shortest image is at most one vector away along each of the three.
    #[cold]
    fn nearest_around(&self, near: [f64; 3]) -> [f64; 3] {
        let mut best = near;
        for counts in (0..27).map(|n| [n / 9 - 1, n / 3 % 3 - 1, n % 3 - 1].map(f64::from)) {
            let image = sub(near, self.reduced.sum(counts));
            if dot(image, image) < dot(best, best) {
                best = image;
            }
        }
        best
    }
}

impl Basis {
    fn new(vectors: [[f64; 3]; 3]) -> Self {
        let [a, b, c] = vectors;
        let volume = dot(a, cross(b, c));
        let inverse = [cross(b, c), cross(c, a), cross(a, b)].map(|row| row.map(|x| x / volume));
        Self { vectors, inverse }
    }

    fn fractions(&self, vector: [f64; 3]) -> [f64; 3] {
        self.inverse.map(|row| dot(row, vector))
    }

    fn sum(&self, counts: [f64; 3]) -> [f64; 3] {
        let [a, b, c] = self.vectors;
        [0, 1, 2].map(|k| counts[0] * a[k] + counts[1] * b[k] + counts[2] * c[k])
    }
}

/// Vectors of the same lattice of which none becomes shorter by adding others.
fn reduce(mut vectors: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    // Each round makes a vector shorter; cells as simulations have them need one or two.
    for _ in 0..100 {
        let shorter = (0..3).find_map(|k| {
            let others = [vectors[(k + 1) % 3], vectors[(k + 2) % 3]];
            shorten(vectors[k], others).map(|shorter| (k, shorter))
        });
        match shorter {
            Some((k, shorter)) => vectors[k] = shorter,
            None => break,
        }
    }
    vectors
}

/// A vector plus whole others, if that is clearly shorter.
fn shorten(vector: [f64; 3], [a, b]: [[f64; 3]; 2]) -> Option<[f64; 3]> {
    let aa = dot(a, a);
    let ab = dot(a, b);
    let bb = dot(b, b);
    let va = dot(vector, a);
    let vb = dot(vector, b);
    let determinant = aa * bb - ab * ab;
    let x = ((va * bb - vb * ab) / determinant).floor();
    let y = ((vb * aa - va * ab) / determinant).floor();
    let candidates = [[x, y], [x + 1.0, y], [x, y + 1.0], [x + 1.0, y + 1.0]];
    let moved = candidates.map(|[x, y]| [0, 1, 2].map(|k| vector[k] - x * a[k] - y * b[k]));
    let best = moved.into_iter().min_by(|p, q| dot(*p, *p).total_cmp(&dot(*q, *q)))?;
    (dot(best, best) < (1.0 - 1e-9) * dot(vector, vector)).then_some(best)
}

/// The nearest integer, by adding a number so large that no fraction fits behind it.
pub(crate) fn nearest_integer(x: f64) -> f64 {
    const LARGE: f64 = 1.5 * (1_u64 << 52) as f64;
    (x + LARGE) - LARGE
}

/// In Å³.
pub(crate) fn volume(cell: &Cell) -> f64 {
    let [a, b, c] = cell.edges.vectors;
    dot(a, cross(b, c)).abs()
}

pub(crate) fn dot(u: [f64; 3], v: [f64; 3]) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

/// `a` − `b`, which 64 bits hold without rounding.
#[inline]
pub(crate) fn difference(a: [f32; 3], b: [f32; 3]) -> [f64; 3] {
    [
        f64::from(a[0]) - f64::from(b[0]),
        f64::from(a[1]) - f64::from(b[1]),
        f64::from(a[2]) - f64::from(b[2]),
    ]
}

pub(crate) fn cross(u: [f64; 3], v: [f64; 3]) -> [f64; 3] {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

pub(crate) fn norm(v: [f64; 3]) -> f64 {
    dot(v, v).sqrt()
}

pub(crate) fn sub(u: [f64; 3], v: [f64; 3]) -> [f64; 3] {
    [u[0] - v[0], u[1] - v[1], u[2] - v[2]]
}

/// As computed it is not quite 0 for 90°, which would make every box triclinic.
fn cosine(angle_deg: f64) -> f64 {
    if angle_deg == 90.0 { 0.0 } else { angle_deg.to_radians().cos() }
}

#[cfg(test)]
mod tests {
    use super::{Cell, dot, norm, sub};

    /// The shortest image by trying all within seven cells.
    fn searched(cell: &Cell, vector: [f64; 3]) -> f64 {
        let images =
            (0..15 * 15 * 15).map(|n| [n / 225 - 7, n / 15 % 15 - 7, n % 15 - 7].map(f64::from));
        images.map(|counts| norm(sub(vector, cell.edge_sum(counts)))).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_nearest_image_is_the_nearest_of_all() {
        let mut state = 7_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24)
        };
        let cells = [
            ([42.0, 30.0, 31.0], [90.0, 90.0, 90.0]),
            ([32.0, 32.0, 32.0], [60.0, 60.0, 90.0]),
            ([30.0, 30.0, 30.0], [109.471_220_6, 109.471_220_6, 109.471_220_6]),
            ([20.0, 40.0, 25.0], [50.0, 65.0, 35.0]),
            ([30.0, 30.0, 30.0], [90.0, 90.0, 150.0]),
        ];
        for (lengths, angles) in cells {
            let cell = Cell::from_lengths_angles(lengths, angles).unwrap();
            for _ in 0..200 {
                let vector = cell.edge_sum([0; 3].map(|_| random() - 0.5));
                let vector = vector.map(|x| 2.0 * x);
                let nearest = cell.nearest(vector);
                assert!(
                    (norm(nearest) - searched(&cell, vector)).abs() < 1e-9,
                    "{angles:?} {vector:?}"
                );
                assert!(
                    dot(nearest, nearest) >= cell.half_width().powi(2)
                        || nearest == cell.nearly_nearest(vector)
                );
            }
        }
    }

    #[test]
    fn lengths_and_angles_come_back() {
        let cell = Cell::from_lengths_angles([30.0, 31.0, 32.0], [70.0, 80.0, 95.0]).unwrap();
        let parameters = cell.lengths().into_iter().chain(cell.angles_deg());
        for (found, given) in parameters.zip([30.0, 31.0, 32.0, 70.0, 80.0, 95.0]) {
            assert!((found - given).abs() < 1e-10);
        }
    }

    #[test]
    fn cells_without_volume_are_none() {
        assert_eq!(Cell::from_lengths_angles([0.0, 30.0, 30.0], [90.0; 3]), None);
        assert_eq!(Cell::from_lengths_angles([30.0; 3], [60.0, 60.0, 120.0]), None);
        assert_eq!(Cell::from_lengths_angles([f64::NAN, 30.0, 30.0], [90.0; 3]), None);
        assert_eq!(Cell::from_lengths_angles([30.0; 3], [90.0, f64::NAN, 90.0]), None);
        assert_eq!(Cell::from_lengths_angles([1e9, 30.0, 30.0], [90.0; 3]), None);
        assert_eq!(Cell::from_lengths_angles([1e-9, 30.0, 30.0], [90.0; 3]), None);
        assert_eq!(Cell::from_lengths_angles([-30.0, 30.0, 30.0], [90.0; 3]), None);
        assert_eq!(Cell::from_lengths_angles([30.0; 3], [170.0, 90.0, 90.0]).map(|_| ()), Some(()));
    }
}
