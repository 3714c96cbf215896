//! The largest eigenvalues of symmetric matrices.

/// Vectors beyond which no more are tried in between.
const FIRST_STEPS: usize = 40;

/// What is left of an eigenvector, relative to the largest eigenvalue, when it is found.
const ACCURACY: f64 = 1e-11;

/// The `k` largest eigenvalues of a positive matrix, in falling order, and their unit vectors,
/// whose component of the largest amount is positive. Fewer, if the matrix is of lower rank.
///
/// By the method of Lanczos, each vector made orthogonal to all before it twice (Parlett, The
/// Symmetric Eigenvalue Problem, 1980, chapter 13). `matrix` has `n` rows of `n`.
pub(crate) fn largest(matrix: &[f64], n: usize, k: usize) -> Vec<(f64, Vec<f64>)> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut diagonal: Vec<f64> = Vec::new();
    let mut beside: Vec<f64> = Vec::new();
    let mut next = start(n);
    let mut n_tried = FIRST_STEPS.max(3 * k);
    loop {
        let is_over = extend(matrix, n, n_tried, &mut basis, &mut next, &mut diagonal, &mut beside);
        let (values, vectors) = of_tridiagonal(&diagonal, &beside);
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        order.truncate(k);
        let scale = order.first().map_or(0.0, |first| values[*first].abs());
        let m = basis.len();
        let left = beside.get(m - 1).copied().unwrap_or(0.0);
        let is_found = order.iter().all(|k| (left * vectors[*k][m - 1]).abs() <= ACCURACY * scale);
        if is_over || is_found {
            let found = order.into_iter().filter(|k| values[*k] > ACCURACY * scale);
            return found.map(|k| (values[k], combined(&basis, &vectors[k]))).collect();
        }
        n_tried *= 2;
    }
}

/// Adds vectors until there are so many; whether the matrix leads to no others.
fn extend(
    matrix: &[f64],
    n: usize,
    n_vectors: usize,
    basis: &mut Vec<Vec<f64>>,
    next: &mut Vec<f64>,
    diagonal: &mut Vec<f64>,
    beside: &mut Vec<f64>,
) -> bool {
    while basis.len() < n_vectors.min(n) {
        let vector = std::mem::take(next);
        let mut image: Vec<f64> = matrix.chunks(n).map(|row| product(row, &vector)).collect();
        diagonal.push(product(&image, &vector));
        basis.push(vector);
        let before = product(&image, &image).sqrt();
        for _ in 0..2 {
            for known in basis.iter() {
                let along = product(&image, known);
                image.iter_mut().zip(known).for_each(|(x, y)| *x -= along * y);
            }
        }
        let left = product(&image, &image).sqrt();
        beside.push(left);
        if left <= 1e-12 * before || left == 0.0 {
            return true;
        }
        image.iter_mut().for_each(|x| *x /= left);
        *next = image;
    }
    basis.len() == n
}

/// A vector that is perpendicular to nothing in particular.
fn start(n: usize) -> Vec<f64> {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f64::from((state >> 33) as u32) / f64::from(1_u32 << 31) - 0.5
    };
    let vector: Vec<f64> = (0..n).map(|_| random()).collect();
    let length = product(&vector, &vector).sqrt();
    vector.into_iter().map(|x| x / length).collect()
}

fn combined(basis: &[Vec<f64>], parts: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; basis[0].len()];
    for (vector, part) in basis.iter().zip(parts) {
        sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += part * x);
    }
    let length = product(&sum, &sum).sqrt();
    let largest = sum.iter().copied().fold(0.0_f64, |a, b| if b.abs() > a.abs() { b } else { a });
    let sign = if largest < 0.0 { -1.0 } else { 1.0 };
    sum.into_iter().map(|x| sign * x / length).collect()
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 4];
    let (a, a_rest) = a.as_chunks::<4>();
    let (b, b_rest) = b.as_chunks::<4>();
    for (a, b) in a.iter().zip(b) {
        (0..4).for_each(|k| lanes[k] += a[k] * b[k]);
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + rest
}

/// All eigenvalues and vectors of a symmetric matrix with these numbers on its diagonal and beside
/// it, by the implicit QL method (Bowdler and others, Numer. Math. 11, 293, 1968).
fn of_tridiagonal(diagonal: &[f64], beside: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = diagonal.len();
    let mut d = diagonal.to_vec();
    let mut e = beside[..n].to_vec();
    e[n - 1] = 0.0;
    // Rows are eigenvectors.
    let mut vectors: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| if i == j { 1.0 } else { 0.0 }).collect()).collect();
    for l in 0..n {
        for _ in 0..100 {
            let is_small = |m: usize| e[m].abs() <= f64::EPSILON * (d[m].abs() + d[m + 1].abs());
            let m = (l..n - 1).find(|m| is_small(*m)).unwrap_or(n - 1);
            if m == l {
                break;
            }
            let g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let r = g.hypot(1.0);
            let mut g = d[m] - d[l] + e[l] / (g + r.copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut is_split = false;
            for i in (l..m).rev() {
                let f = s * e[i];
                let b = c * e[i];
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    is_split = true;
                    break;
                }
                s = f / r;
                c = g / r;
                g = d[i + 1] - p;
                let r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                let (before, after) = vectors.split_at_mut(i + 1);
                for (x, y) in before[i].iter_mut().zip(&mut after[0]) {
                    let f = *y;
                    *y = s * *x + c * f;
                    *x = c * *x - s * f;
                }
            }
            if !is_split {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
    (d, vectors)
}

#[cfg(test)]
mod tests {
    use super::{largest, product};

    /// Σ λₖ vₖ vₖᵀ by products of rotations, so that the eigenvalues are known.
    fn with_values(values: &[f64]) -> Vec<f64> {
        let n = values.len();
        let mut matrix = vec![0.0; n * n];
        (0..n).for_each(|k| matrix[k * n + k] = values[k]);
        for (step, p) in (0..6 * n).zip((0..n - 1).cycle()) {
            let q = (p + 1 + step % (n - 1 - p).max(1)).min(n - 1);
            let (s, c) = (0.7 + step as f64).sin_cos();
            for k in 0..n {
                let (a, b) = (matrix[k * n + p], matrix[k * n + q]);
                (matrix[k * n + p], matrix[k * n + q]) = (c * a - s * b, s * a + c * b);
            }
            for k in 0..n {
                let (a, b) = (matrix[p * n + k], matrix[q * n + k]);
                (matrix[p * n + k], matrix[q * n + k]) = (c * a - s * b, s * a + c * b);
            }
        }
        matrix
    }

    #[test]
    fn the_largest_values_are_found_with_their_vectors() {
        let values: Vec<f64> = (0..200).map(|k| 50.0 * 0.9_f64.powi(k)).collect();
        let matrix = with_values(&values);
        let found = largest(&matrix, 200, 12);
        assert_eq!(found.len(), 12);
        for ((value, vector), expected) in found.iter().zip(&values) {
            assert!((value - expected).abs() < 1e-9, "{value} {expected}");
            let image: Vec<f64> = matrix.chunks(200).map(|row| product(row, vector)).collect();
            assert!(image.iter().zip(vector).all(|(a, b)| (a - value * b).abs() < 1e-8));
        }
        assert!(product(&found[0].1, &found[1].1).abs() < 1e-10);
    }

    #[test]
    fn a_matrix_of_low_rank_has_few() {
        let mut values = vec![0.0; 30];
        values[..3].copy_from_slice(&[3.0, 2.0, 1.0]);
        let found = largest(&with_values(&values), 30, 10);
        assert_eq!(found.len(), 3);
        assert!((found[2].0 - 1.0).abs() < 1e-12);
        assert!(largest(&[0.0; 9], 3, 2).is_empty());
    }
}
