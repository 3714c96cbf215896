//! Radial distribution functions.

use std::f64::consts::PI;

use crate::Error;
use crate::cell::{difference, dot, volume};
use crate::frames::Frames;
use crate::group::Group;
use crate::neighbours::{Cloud, Neighbours};
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, Table, TableGroup};
use crate::task::{Outcome, Task};

/// The defaults of largest distance and width of a bin, in Å.
pub(crate) const MAX_DISTANCE: f64 = 10.0;
pub(crate) const BIN: f64 = 0.05;

/// The radial distribution function of two groups: how many atoms of `b` are at a distance from
/// those of `a`, relative to as many spread evenly over the cell.
///
/// g(r) = ⟨nᵣ·V⟩ / (N·4π/3·(r₂³ − r₁³)), nᵣ the pairs of a frame with distances from r₁ to r₂, V
/// the volume of its cell, N all pairs of two different atoms. Distances are between nearest
/// periodic images, so that bins end at half the least width of any cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Rdf {
    /// The atoms about which others are counted.
    pub a: Group,
    /// The others, which may be the same.
    pub b: Group,
    /// Largest distance in Å, above 0 and at most 50.
    pub max_distance: f64,
    /// Width of a bin in Å, at least 0.001.
    pub bin: f64,
}

#[derive(Debug)]
pub(crate) struct Histogram {
    request: Rdf,
    a: Vec<u32>,
    b: Vec<u32>,
    n_pairs: f64,
    n_bins: usize,
}

#[derive(Debug)]
pub(crate) struct Tally {
    n_frames: usize,
    /// Σ of counts times volume.
    weighted: Vec<f64>,
    counts: Vec<u64>,
    of_frame: Vec<u32>,
    /// Half the least width of a cell so far.
    half_width: f64,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    neighbours: Neighbours,
    a: Cloud,
    b: Cloud,
    squares: Vec<f64>,
}

/// Squares of distances that are taken the root of at once, which is twice as fast.
const AT_ONCE: usize = 512;

/// Distances on their way into the histogram of a frame.
struct Counting<'a> {
    squares: &'a mut Vec<f64>,
    /// Bins per Å.
    density: f64,
    /// The largest square that counts.
    most: f64,
    of_frame: &'a mut [u32],
}

impl Counting<'_> {
    #[inline]
    fn add(&mut self, square: f64) {
        self.squares.push(square);
        if self.squares.len() == AT_ONCE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Self { squares, density, most, of_frame } = self;
        squares.iter_mut().for_each(|square| {
            let bin = square.sqrt() * *density;
            // Beyond all bins.
            *square = if *square <= *most { bin } else { f64::INFINITY };
        });
        for bin in squares.iter() {
            if let Some(count) = of_frame.get_mut(*bin as usize) {
                *count += 1;
            }
        }
        squares.clear();
    }
}

impl Rdf {
    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Histogram, Error> {
        let parameter = |name, bounds| Err(Error::Parameter { analysis, name, bounds });
        if !(self.max_distance > 0.0 && self.max_distance <= 50.0) {
            return parameter("max_distance", "above 0 and at most 50 Å");
        }
        if !(self.bin >= 0.001 && self.bin <= self.max_distance) {
            return parameter("bin", "from 0.001 Å to the largest distance");
        }
        if setup.first().cell().is_none() {
            return Err(Error::NoCell { analysis });
        }
        let n_same = self.a.atoms.iter().filter(|atom| self.b.atoms.contains(*atom)).count();
        let n_pairs = self.a.atoms.len() as f64 * self.b.atoms.len() as f64 - n_same as f64;
        if n_pairs == 0.0 {
            return parameter("b", "another atom than that of `a`");
        }
        let slots = |group: &Group| {
            group.atoms.iter().map(|atom| setup.slot(atom) as u32).collect::<Vec<_>>()
        };
        let n_bins = (self.max_distance / self.bin + 1e-9).floor() as usize;
        Ok(Histogram {
            request: self.clone(),
            a: slots(&self.a),
            b: slots(&self.b),
            n_pairs,
            n_bins,
        })
    }
}

impl Task for Histogram {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally {
            n_frames: 0,
            weighted: vec![0.0; self.n_bins],
            counts: vec![0; self.n_bins],
            of_frame: Vec::new(),
            half_width: f64::INFINITY,
            scratch: Scratch::default(),
        }
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let Tally { of_frame, scratch: Scratch { neighbours, a, b, squares }, .. } = tally;
        let cell = view.frame.cell().expect("a frame without a cell has been refused");
        of_frame.clear();
        of_frame.resize(self.n_bins, 0);
        // No bin ends beyond half the width of a cell, and up to there the nearest image is quickly
        // found.
        let half_width_2 = cell.half_width() * cell.half_width();
        let most = (self.n_bins as f64 * self.request.bin).min(cell.half_width());
        let square = |from: [f32; 3], to: [f32; 3]| {
            let apart = difference(from, to);
            let direct = dot(apart, apart);
            if direct <= half_width_2 {
                return direct;
            }
            let near = cell.nearly_nearest(apart);
            dot(near, near)
        };
        squares.clear();
        let mut counting =
            Counting { squares, density: 1.0 / self.request.bin, most: half_width_2, of_frame };
        a.read(view.frame, self.a.iter().copied());
        if self.a == self.b {
            neighbours.pairs_within(a, Some(cell), most, |i, j| {
                counting.add(square(a.get(i), a.get(j)));
            });
            counting.flush();
            // Of one group each pair counts in both orders.
            of_frame.iter_mut().for_each(|count| *count *= 2);
        } else {
            b.read(view.frame, self.b.iter().copied());
            neighbours.pairs(a, b, Some(cell), most, |i, j| {
                if self.a[i] != self.b[j] {
                    counting.add(square(a.get(i), b.get(j)));
                }
            });
            counting.flush();
        }
        let volume = volume(cell);
        for (bin, count) in of_frame.iter().enumerate() {
            tally.weighted[bin] += f64::from(*count) * volume;
            tally.counts[bin] += u64::from(*count);
        }
        tally.half_width = tally.half_width.min(cell.half_width());
        tally.n_frames += 1;
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        tally.n_frames += next.n_frames;
        tally.weighted.iter_mut().zip(next.weighted).for_each(|(sum, next)| *sum += next);
        tally.counts.iter_mut().zip(next.counts).for_each(|(sum, next)| *sum += next);
        tally.half_width = tally.half_width.min(next.half_width);
    }

    fn finish(&self, tally: Tally, _: &Frames<'_>) -> Outcome {
        let Rdf { a, b, bin, .. } = &self.request;
        let edge = |n: usize| n as f64 * bin;
        // Beyond, a sphere is not whole in the cell.
        let bins: Vec<usize> =
            (0..self.n_bins).filter(|n| edge(n + 1) <= tally.half_width).collect();
        let n_frames = tally.n_frames as f64;
        let shell = |n: usize| 4.0 / 3.0 * PI * (edge(n + 1).powi(3) - edge(n).powi(3));
        let density =
            bins.iter().map(|n| tally.weighted[*n] / (n_frames * self.n_pairs * shell(*n)));
        let mut so_far = 0;
        let neighbours = bins.iter().map(|n| {
            so_far += tally.counts[*n];
            so_far as f64 / (n_frames * a.atoms.len() as f64)
        });
        let columns = vec![
            Column::numbers(
                "distance_angstrom",
                Some("Å"),
                "middle of the bin",
                bins.iter().map(|n| edge(*n) + bin / 2.0).collect(),
            ),
            Column::numbers("g", None, "radial distribution function", density.collect()),
            Column::numbers(
                "neighbours",
                None,
                "mean number of atoms up to the end of the bin",
                neighbours.collect(),
            ),
        ];
        let definition = "pairs of different atoms at a distance, relative to as many spread \
                          evenly: ⟨n V⟩ / (N 4π/3 (r₂³ − r₁³)), V the volume of each frame, nearest \
                          periodic images, up to half the least width of the cell";
        let groups = vec![TableGroup::new("a", a), TableGroup::new("b", b)];
        let title = "Radial distribution function";
        Outcome::Tables(vec![Table::new("rdf", title, definition.to_owned(), groups, columns)])
    }
}
