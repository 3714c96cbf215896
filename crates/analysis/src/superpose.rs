//! Least-squares superposition of one set of points on another.
//!
//! The rotation is the unit quaternion that belongs to the largest eigenvalue of a symmetric 4×4
//! matrix (Horn 1987), the eigenvalue found by Newton's method from above (Theobald 2005). It is
//! always proper: a mirror image is not turned inside out.

use crate::cell::{cross, dot, sub};
use crate::points::{LANES, Points, Weighing, total};

type Matrix3 = [[f64; 3]; 3];
type Matrix4 = [[f64; 4]; 4];

/// Points on which others are superposed, or from which they are measured.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    weighing: Weighing,
    centre: [f64; 3],
    /// Coordinates about the centre.
    centred: Points,
    /// The same times the weights.
    weighted: Points,
}

/// The motion x ↦ R·x + t.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Motion {
    pub(crate) rotation: Matrix3,
    pub(crate) translation: [f64; 3],
}

/// Atoms that are closer than this to a line, in Å and on average, leave the rotation about it
/// open. Those of water are at 0.28 Å from the closest line, and carbon dioxide bends by less than
/// 0.1 Å.
const LEAST_WIDTH: f64 = 0.1;

impl Motion {
    pub(crate) const IDENTITY: Self = Self {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.0; 3],
    };

    pub(crate) fn apply(&self, point: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|k| dot(self.rotation[k], point) + self.translation[k])
    }
}

impl Target {
    pub(crate) fn new(points: &Points, weighing: Weighing) -> Self {
        let centre = weighing.centre(points);
        let n_padded = points.x.len();
        let mut centred = Points::zeros(n_padded);
        let mut weighted = Points::zeros(n_padded);
        for (n, weight) in weighing.weights().iter().enumerate() {
            let position = sub(points.get(n), centre);
            centred.set(n, position);
            weighted.set(n, position.map(|x| weight * x));
        }
        Self { weighing, centre, centred, weighted }
    }

    /// Whether it means anything to superpose on these points, and to measure others then.
    ///
    /// # Errors
    ///
    /// What the points lack.
    pub(crate) fn check(&self, measures_others: bool) -> Result<(), &'static str> {
        if self.weighing.weights().iter().filter(|weight| **weight > 0.0).count() < 2 {
            return Err("one atom is superposed exactly, wherever it is");
        }
        if measures_others && self.width() < LEAST_WIDTH {
            return Err(
                "its atoms lie on a line, about which all that is measured could be turned at will",
            );
        }
        Ok(())
    }

    /// The weighted root mean square of the distances from the line that is closest to the points.
    fn width(&self) -> f64 {
        let covariance = self.covariance(&self.centred, [0.0; 3]);
        let trace: f64 = (0..3).map(|k| covariance[k][k]).sum();
        let across = (trace - largest_of_symmetric(covariance)) / self.weighing.total();
        if across < 0.0 { 0.0 } else { across.sqrt() }
    }

    /// The motion that brings points as close to these as can be, by the weighted sum of squares.
    pub(crate) fn fit(&self, points: &Points) -> Motion {
        let from = self.weighing.centre(points);
        let rotation = rotation(self.covariance(points, from));
        let turned = rotation.map(|row| dot(row, from));
        Motion { rotation, translation: sub(self.centre, turned) }
    }

    /// The weighted root mean square of the distances, in Å, after a motion of the points.
    pub(crate) fn rmsd(&self, points: &Points, motion: &Motion) -> f64 {
        let mut sum = [0.0; LANES];
        let weights = self.weighing.weights().as_chunks::<LANES>().0;
        for ((point, reference), weights) in points.chunks().zip(self.centred.chunks()).zip(weights)
        {
            let [dx, dy, dz] = self.deviations(point, reference, motion);
            for k in 0..LANES {
                sum[k] += weights[k] * (dx[k] * dx[k] + dy[k] * dy[k] + dz[k] * dz[k]);
            }
        }
        (total(sum) / self.weighing.total()).sqrt()
    }

    /// Adds to sums, for each point, how far it is from the reference after a motion: the vector
    /// and the square.
    pub(crate) fn add_deviations(
        &self,
        points: &Points,
        motion: &Motion,
        vectors: &mut Points,
        squares: &mut [f64],
    ) {
        let [sx, sy, sz] = vectors.columns_mut().map(|column| column.as_chunks_mut::<LANES>().0);
        let sums = sx.iter_mut().zip(sy).zip(sz).zip(squares.as_chunks_mut::<LANES>().0);
        for ((((sx, sy), sz), square), (point, reference)) in
            sums.zip(points.chunks().zip(self.centred.chunks()))
        {
            let [dx, dy, dz] = self.deviations(point, reference, motion);
            for k in 0..LANES {
                sx[k] += dx[k];
                sy[k] += dy[k];
                sz[k] += dz[k];
                square[k] += dx[k] * dx[k] + dy[k] * dy[k] + dz[k] * dz[k];
            }
        }
    }

    /// How far points are from those of the reference after a motion.
    #[inline(always)]
    fn deviations(
        &self,
        [x, y, z]: [&[f64; LANES]; 3],
        reference: [&[f64; LANES]; 3],
        motion: &Motion,
    ) -> [[f64; LANES]; 3] {
        let mut deviations = [[0.0; LANES]; 3];
        for i in 0..3 {
            let row = motion.rotation[i];
            let to = motion.translation[i] - self.centre[i];
            for k in 0..LANES {
                deviations[i][k] =
                    row[0] * x[k] + row[1] * y[k] + row[2] * z[k] + (to - reference[i][k]);
            }
        }
        deviations
    }

    /// The points moved by the mean of vectors that were summed up over so many frames.
    pub(crate) fn moved(&self, sums: &Points, n_frames: usize) -> Self {
        let mut points = self.centred.clone();
        for n in 0..points.x.len() {
            let point = points.get(n);
            let sum = sums.get(n);
            points.set(n, [0, 1, 2].map(|k| point[k] + self.centre[k] + sum[k] / n_frames as f64));
        }
        Self::new(&points, self.weighing.clone())
    }

    /// Where so many of the points are, in Å.
    pub(crate) fn positions(&self, n_points: usize) -> Vec<[f64; 3]> {
        let positions = (0..n_points).map(|n| self.centred.get(n));
        positions.map(|at| [0, 1, 2].map(|k| at[k] + self.centre[k])).collect()
    }

    /// Σ w·(x − from)·yᵀ over points x and reference points y.
    fn covariance(&self, points: &Points, from: [f64; 3]) -> Matrix3 {
        let [u, v, w] = self.weighted.columns();
        let row = |column: &[f64], from: f64| {
            let mut sums = [[0.0; LANES]; 3];
            let reference = u.iter().zip(v).zip(w);
            for (x, ((u, v), w)) in column.as_chunks::<LANES>().0.iter().zip(reference) {
                for k in 0..LANES {
                    let x = x[k] - from;
                    sums[0][k] += x * u[k];
                    sums[1][k] += x * v[k];
                    sums[2][k] += x * w[k];
                }
            }
            sums.map(total)
        };
        [row(&points.x, from[0]), row(&points.y, from[1]), row(&points.z, from[2])]
    }
}

/// The least root mean square of the distances of so many points from others, in Å, over all
/// rotations. Both are about their centres, padded with zeros, and `squares` is Σ|x|² + Σ|y|².
/// Below 1e-6 of their extent it is rounding.
pub(crate) fn least_rmsd(x: &Points, y: &Points, squares: f64, n_points: usize) -> f64 {
    // Nine sums of two lanes, and what goes into them, fit into the sixteen registers that any
    // x86-64 has; those of four lanes were stored and loaded for each step.
    let mut sums = [[[0.0; 2]; 3]; 3];
    let [xs, ys, zs] = x.columns_of_two();
    let [us, vs, ws] = y.columns_of_two();
    for (((((x, y), z), u), v), w) in xs.iter().zip(ys).zip(zs).zip(us).zip(vs).zip(ws) {
        for k in 0..2 {
            sums[0][0][k] += x[k] * u[k];
            sums[0][1][k] += x[k] * v[k];
            sums[0][2][k] += x[k] * w[k];
            sums[1][0][k] += y[k] * u[k];
            sums[1][1][k] += y[k] * v[k];
            sums[1][2][k] += y[k] * w[k];
            sums[2][0][k] += z[k] * u[k];
            sums[2][1][k] += z[k] * v[k];
            sums[2][2][k] += z[k] * w[k];
        }
    }
    // No rotation leaves less than nothing, which bounds the eigenvalue closely where the points
    // are alike.
    let covariance = sums.map(|row| row.map(|[a, b]| a + b));
    let most = largest_eigenvalue_below(covariance, 0.5 * squares);
    ((squares - 2.0 * most).max(0.0) / n_points as f64).sqrt()
}

/// The largest eigenvalue of a symmetric matrix (Smith, Commun. ACM 4, 168, 1961).
fn largest_of_symmetric(mut a: Matrix3) -> f64 {
    let mean = (a[0][0] + a[1][1] + a[2][2]) / 3.0;
    (0..3).for_each(|k| a[k][k] -= mean);
    let spread = (a.iter().map(|row| dot(*row, *row)).sum::<f64>() / 6.0).sqrt();
    if spread == 0.0 {
        return mean;
    }
    let [x, y, z] = a.map(|row| row.map(|x| x / spread));
    // Rounding may leave it a little outside of what a cosine can be.
    let cosine = (dot(x, cross(y, z)) / 2.0).clamp(-1.0, 1.0);
    mean + 2.0 * spread * (cosine.acos() / 3.0).cos()
}

/// The rotation that takes x closest to y, from their covariance Σ x·yᵀ.
fn rotation(s: Matrix3) -> Matrix3 {
    let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = s;
    let key = [
        [xx + yy + zz, yz - zy, zx - xz, xy - yx],
        [yz - zy, xx - yy - zz, xy + yx, zx + xz],
        [zx - xz, xy + yx, yy - xx - zz, yz + zy],
        [xy - yx, zx + xz, yz + zy, zz - xx - yy],
    ];
    let [w, x, y, z] = eigenvector(key, largest_eigenvalue(s)).unwrap_or_else(|| by_jacobi(key));
    [
        [w * w + x * x - y * y - z * z, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
}

/// The largest eigenvalue of the key matrix, which has no trace: the largest root of
/// λ⁴ + c₂λ² + c₁λ + c₀. Above it the polynomial is convex, so Newton's steps only go down.
fn largest_eigenvalue(s: Matrix3) -> f64 {
    largest_eigenvalue_below(s, f64::INFINITY)
}

/// The same where it is known to be at most so large; from there it takes fewer steps.
fn largest_eigenvalue_below(s: Matrix3, bound: f64) -> f64 {
    let [a, b, c] = s;
    // With the singular values of s: Σσᵢ², σ₁σ₂σ₃ with its sign, and Σσᵢ²σⱼ².
    let squares = dot(a, a) + dot(b, b) + dot(c, c);
    let determinant = dot(a, cross(b, c));
    let minors: f64 =
        [cross(a, b), cross(b, c), cross(c, a)].iter().map(|minor| dot(*minor, *minor)).sum();
    let c2 = -2.0 * squares;
    let c1 = -8.0 * determinant;
    let c0 = squares * squares - 4.0 * minors;
    let mut root = (3.0 * squares).sqrt().min(bound);
    for _ in 0..60 {
        let square = root * root;
        let value = (square + c2) * square + c1 * root + c0;
        let slope = (4.0 * square + 2.0 * c2) * root + c1;
        let next = root - value / slope;
        if root - next > 1e-15 * root {
            root = next;
        } else {
            break;
        }
    }
    root
}

/// The unit eigenvector of a simple eigenvalue: a row of the adjugate of K − λ, which is of rank
/// one. None where the eigenvalue is nearly a double one.
fn eigenvector(key: Matrix4, eigenvalue: f64) -> Option<[f64; 4]> {
    let mut m = key;
    (0..4).for_each(|k| m[k][k] -= eigenvalue);
    let rows = [0, 1, 2, 3].map(|i| [0, 1, 2, 3].map(|j| cofactor(&m, i, j)));
    let best = rows.into_iter().max_by(|a, b| norm4(*a).total_cmp(&norm4(*b)))?;
    let length = norm4(best);
    (length > 1e-6 * eigenvalue.abs().powi(3)).then(|| best.map(|x| x / length))
}

/// The determinant without a row and a column, with its sign.
fn cofactor(m: &Matrix4, row: usize, column: usize) -> f64 {
    let [a, b, c] = others(row).map(|i| others(column).map(|j| m[i][j]));
    // Rows and columns are turned round by as many places each; each turn of four is odd.
    let minor = dot(a, cross(b, c));
    if (row + column).is_multiple_of(2) { minor } else { -minor }
}

fn others(k: usize) -> [usize; 3] {
    [(k + 1) % 4, (k + 2) % 4, (k + 3) % 4]
}

fn norm4(v: [f64; 4]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The eigenvector of the largest eigenvalue by Jacobi's rotations, slow but never at a loss.
#[cold]
fn by_jacobi(mut a: Matrix4) -> [f64; 4] {
    let mut vectors = [[0.0; 4]; 4];
    (0..4).for_each(|k| vectors[k][k] = 1.0);
    for _ in 0..30 {
        for (p, q) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            if a[p][q] == 0.0 {
                continue;
            }
            let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
            let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
            let cos = 1.0 / (t * t + 1.0).sqrt();
            let sin = t * cos;
            for row in &mut a {
                (row[p], row[q]) = (cos * row[p] - sin * row[q], sin * row[p] + cos * row[q]);
            }
            let above = a[p];
            let below = a[q];
            for k in 0..4 {
                (a[p][k], a[q][k]) =
                    (cos * above[k] - sin * below[k], sin * above[k] + cos * below[k]);
            }
            for row in &mut vectors {
                (row[p], row[q]) = (cos * row[p] - sin * row[q], sin * row[p] + cos * row[q]);
            }
        }
    }
    let largest = (1..4).fold(0, |best, k| if a[k][k] > a[best][best] { k } else { best });
    vectors.map(|row| row[largest])
}

#[cfg(test)]
mod tests {
    use super::{Motion, Points, Target, Weighing, rotation};
    use crate::cell::{cross, dot, norm, sub};

    fn random(state: &mut u32) -> f64 {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(*state >> 8) / f64::from(1 << 23) - 1.0
    }

    fn cloud(state: &mut u32, n: usize, sizes: [f64; 3]) -> Points {
        let mut points = Points::zeros(n);
        (0..n).for_each(|k| points.set(k, sizes.map(|size| size * random(state))));
        points
    }

    /// A proper rotation, from a random axis and angle.
    fn turn(state: &mut u32) -> [[f64; 3]; 3] {
        let axis = [0; 3].map(|_| random(state));
        let axis = axis.map(|x| x / norm(axis));
        let (sin, cos) = (3.0 * random(state)).sin_cos();
        let turned = |v: [f64; 3]| {
            let (across, along) = (cross(axis, v), dot(axis, v) * (1.0 - cos));
            [0, 1, 2].map(|k| cos * v[k] + sin * across[k] + along * axis[k])
        };
        let columns = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(turned);
        [0, 1, 2].map(|i| [0, 1, 2].map(|j| columns[j][i]))
    }

    fn moved(points: &Points, n: usize, rotation: [[f64; 3]; 3], by: [f64; 3]) -> Points {
        let mut result = Points::zeros(n);
        for k in 0..n {
            let turned = rotation.map(|row| dot(row, points.get(k)));
            result.set(k, [0, 1, 2].map(|axis| turned[axis] + by[axis]));
        }
        result
    }

    #[test]
    fn a_moved_copy_is_brought_back() {
        let mut state = 1;
        let clouds = [
            (50, [10.0, 8.0, 5.0]),
            (7, [10.0, 3.0, 1e-3]),
            (3, [5.0; 3]),
            (4, [9.0, 9.0, 0.0]),
            (30, [8.0; 3]),
        ];
        for (n, sizes) in clouds {
            for _ in 0..200 {
                let points = cloud(&mut state, n, sizes);
                let weights: Vec<_> = (0..n).map(|_| 1.0 + random(&mut state).abs()).collect();
                let reference = Target::new(&points, Weighing::new(&weights));
                let copy = moved(&points, n, turn(&mut state), [30.0, -70.0, 55.0]);
                let motion = reference.fit(&copy);
                assert!(reference.rmsd(&copy, &motion) < 1e-11, "{n} {sizes:?}");
                let [a, b, c] = motion.rotation;
                assert!((dot(a, cross(b, c)) - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn few_or_straight_points_are_no_trouble() {
        let mut state = 2;
        for (n, sizes) in [(1, [5.0; 3]), (2, [5.0; 3]), (9, [5.0, 0.0, 0.0]), (3, [0.0; 3])] {
            let points = cloud(&mut state, n, sizes);
            let reference = Target::new(&points, Weighing::new(&vec![1.0; n]));
            let copy = moved(&points, n, turn(&mut state), [1.0, 2.0, 3.0]);
            assert!(reference.rmsd(&copy, &reference.fit(&copy)) < 1e-7, "{n} {sizes:?}");
        }
    }

    #[test]
    fn points_on_a_line_leave_a_rotation_open() {
        let mut state = 4;
        for (n, sizes, is_open) in [
            (2, [5.0; 3], true),
            (9, [50.0, 0.0, 0.0], true),
            (9, [50.0, 0.05, 0.05], true),
            (3, [0.0; 3], true),
            (9, [50.0, 2.0, 0.0], false),
            (30, [8.0; 3], false),
        ] {
            let points = cloud(&mut state, n, sizes);
            let turned = moved(&points, n, turn(&mut state), [30.0, -70.0, 55.0]);
            let reference = Target::new(&turned, Weighing::new(&vec![1.0; n]));
            assert_eq!(reference.check(true).is_err(), is_open, "{n} {sizes:?}");
            assert!(reference.check(false).is_ok());
        }
        let one = Target::new(&cloud(&mut state, 1, [5.0; 3]), Weighing::new(&[1.0]));
        assert!(one.check(false).is_err());
    }

    #[test]
    fn no_rotation_is_better_than_the_one_found() {
        let mut state = 3;
        for _ in 0..100 {
            let (points, other) =
                (cloud(&mut state, 20, [5.0, 6.0, 7.0]), cloud(&mut state, 20, [6.0, 5.0, 4.0]));
            let reference = Target::new(&points, Weighing::new(&[1.0; 20]));
            let best = reference.fit(&other);
            let least = reference.rmsd(&other, &best);
            let to = best.rotation.map(|row| dot(row, other.get(0)));
            let to = [0, 1, 2].map(|k| to[k] + best.translation[k]);
            for _ in 0..50 {
                let rotation = turn(&mut state);
                let turned = rotation.map(|row| dot(row, other.get(0)));
                assert!(
                    reference.rmsd(&other, &Motion { rotation, translation: sub(to, turned) })
                        >= least - 1e-12
                );
            }
        }
    }

    #[test]
    fn a_mirror_image_is_not_turned_inside_out() {
        let mirror = [[-9.0, 0.0, 0.0], [0.0, 7.0, 0.0], [0.0, 0.0, 5.0]];
        let [a, b, c] = rotation(mirror);
        assert!((dot(a, cross(b, c)) - 1.0).abs() < 1e-12);
    }
}
