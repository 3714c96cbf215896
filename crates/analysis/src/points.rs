//! Coordinates of a group of atoms, and sums over them.

use std::ops::Range;

/// Numbers that are summed side by side. This fixes the order of every sum, so that results are
/// the same bits whatever the processor makes of it.
pub(crate) const LANES: usize = 4;

/// Coordinates in Å, in columns that are padded to whole lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    pub(crate) z: Vec<f64>,
}

impl Points {
    pub(crate) fn zeros(n: usize) -> Self {
        let column = vec![0.0; n.next_multiple_of(LANES)];
        Self { x: column.clone(), y: column.clone(), z: column }
    }

    /// Makes room for so many points, whose coordinates are whatever was there.
    pub(crate) fn resize(&mut self, n: usize) {
        for column in self.columns_mut() {
            column.resize(n.next_multiple_of(LANES), 0.0);
        }
    }

    pub(crate) fn get(&self, n: usize) -> [f64; 3] {
        [self.x[n], self.y[n], self.z[n]]
    }

    pub(crate) fn set(&mut self, n: usize, [x, y, z]: [f64; 3]) {
        (self.x[n], self.y[n], self.z[n]) = (x, y, z);
    }

    /// The columns in lanes.
    pub(crate) fn columns(&self) -> [&[[f64; LANES]]; 3] {
        [self.x.as_chunks().0, self.y.as_chunks().0, self.z.as_chunks().0]
    }

    /// The columns in pairs.
    pub(crate) fn columns_of_two(&self) -> [&[[f64; 2]]; 3] {
        [self.x.as_chunks().0, self.y.as_chunks().0, self.z.as_chunks().0]
    }

    /// All points, step by step, by axis and lane.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = [&[f64; LANES]; 3]> {
        let [x, y, z] = self.columns();
        x.iter().zip(y).zip(z).map(|((x, y), z)| [x, y, z])
    }

    pub(crate) fn columns_mut(&mut self) -> [&mut Vec<f64>; 3] {
        [&mut self.x, &mut self.y, &mut self.z]
    }

    pub(crate) fn shift(&mut self, range: Range<usize>, by: [f64; 3]) {
        for (column, by) in self.columns_mut().into_iter().zip(by) {
            column[range.clone()].iter_mut().for_each(|x| *x += by);
        }
    }
}

/// How much each point of a group weighs.
#[derive(Clone, Debug)]
pub(crate) struct Weighing {
    /// As many as there are padded points, the padding without weight.
    weights: Vec<f64>,
    total: f64,
}

impl Weighing {
    pub(crate) fn new(weights: &[f64]) -> Self {
        let mut padded = weights.to_vec();
        padded.resize(weights.len().next_multiple_of(LANES), 0.0);
        Self { total: padded.iter().sum(), weights: padded }
    }

    pub(crate) fn weights(&self) -> &[f64] {
        &self.weights
    }

    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    /// Σ w·x / Σ w.
    pub(crate) fn centre(&self, points: &Points) -> [f64; 3] {
        let mut sums = [[0.0; LANES]; 3];
        for (w, chunk) in self.weights.as_chunks::<LANES>().0.iter().zip(points.chunks()) {
            for (sum, column) in sums.iter_mut().zip(chunk) {
                (0..LANES).for_each(|k| sum[k] += w[k] * column[k]);
            }
        }
        sums.map(|sum| total(sum) / self.total)
    }

    /// √(Σ w·|x − c|² / Σ w).
    pub(crate) fn spread_about(&self, centre: [f64; 3], points: &Points) -> f64 {
        let mut sum = [0.0; LANES];
        for (w, [x, y, z]) in self.weights.as_chunks::<LANES>().0.iter().zip(points.chunks()) {
            for k in 0..LANES {
                let dx = x[k] - centre[0];
                let dy = y[k] - centre[1];
                let dz = z[k] - centre[2];
                sum[k] += w[k] * (dx * dx + dy * dy + dz * dz);
            }
        }
        (total(sum) / self.total).sqrt()
    }
}

/// The sum over lanes.
pub(crate) fn total(lanes: [f64; LANES]) -> f64 {
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}
