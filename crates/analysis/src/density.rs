//! Densities along an axis of the cell.

use std::f64::consts::TAU;

use crate::cell::volume;
use crate::frames::Frames;
use crate::group::Group;
use crate::read::Frame;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{Cell, Error};

/// The default of the width of a bin, in Å.
pub(crate) const BIN: f64 = 0.5;

/// Bins that a profile may have at most.
const MAX_BINS: usize = 20_000;

/// 1 Da/Å³ in g/cm³ (CODATA 2018).
const G_PER_CM3: f64 = 1.660_539_066_6;

/// How far an edge may lean against an axis that it has to be perpendicular to.
const MAX_LEAN: f64 = 1e-3;

/// Density profiles of a group along an axis: atoms, mass and electrons in each bin, by the volume
/// that the bin has in each frame.
///
/// Places are relative to the centre of mass of another group in one piece along the axis: its atoms
/// in the images that are nearest to the mass-weighted mean of e^(2πi z/L), L the length of the cell
/// along the axis. Electrons are those of neutral atoms.
#[derive(Clone, Debug, PartialEq)]
pub struct Density {
    /// The atoms.
    pub group: Group,
    /// Those whose centre is at 0.
    pub centre: Group,
    /// The axis.
    pub axis: Axis,
    /// Width of a bin in Å, at least 0.01.
    pub bin: f64,
}

/// An axis of the coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The first.
    X,
    /// The second.
    Y,
    /// The third, as a rule the normal of a membrane.
    Z,
}

#[derive(Debug)]
pub(crate) struct Profile {
    request: Density,
    /// Where each atom is read, its mass, and its electrons.
    atoms: Vec<(u32, f64, f64)>,
    centre: Vec<(u32, f64)>,
    n_half: usize,
}

#[derive(Debug)]
pub(crate) struct Tally {
    n_frames: usize,
    /// Σ of atoms, mass and electrons over the volume of a bin.
    bins: Vec<[f64; 3]>,
    half_length: f64,
}

impl Axis {
    fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn name(self) -> &'static str {
        ["x", "y", "z"][self.index()]
    }

    pub(crate) fn column(self, frame: &Frame) -> &[f32] {
        [frame.x(), frame.y(), frame.z()][self.index()]
    }

    /// The length of a cell along the axis, if its other edges are perpendicular to it.
    pub(crate) fn length(self, cell: &Cell) -> Option<f64> {
        let k = self.index();
        let edges = cell.vectors();
        let lengths = cell.lengths();
        let others = [(k + 1) % 3, (k + 2) % 3];
        let is_across = others.iter().all(|n| edges[*n][k].abs() <= MAX_LEAN * lengths[*n]);
        is_across.then(|| edges[k][k].abs())
    }
}

impl Density {
    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Profile, Error> {
        let Some(cell) = setup.first().cell() else { return Err(Error::NoCell { analysis }) };
        let Some(length) = self.axis.length(cell) else {
            return Err(Error::LeaningCell { analysis, axis: self.axis.name() });
        };
        // Cells grow and shrink; bins beyond the smallest are left out in the end.
        let n_half = (length / self.bin).ceil() as usize;
        if !(self.bin >= 0.01 && 2 * n_half <= MAX_BINS) {
            let bounds = "at least 0.01 Å, and a 20000th of the cell";
            return Err(Error::Parameter { analysis, name: "bin", bounds });
        }
        let topology = setup.topology();
        let atoms = self.group.atoms.iter().map(|idx| {
            let atom = topology.atom(idx);
            let electrons = atom.element.map_or(0.0, |element| f64::from(element.number()));
            (setup.slot(idx) as u32, atom.mass_da, electrons)
        });
        let centre = self.centre.atoms.iter();
        let centre = centre.map(|atom| (setup.slot(atom) as u32, topology.atom(atom).mass_da));
        Ok(Profile {
            request: self.clone(),
            atoms: atoms.collect(),
            centre: centre.collect(),
            n_half,
        })
    }
}

/// The centre of mass along a periodic axis.
///
/// The mean on a circle is not yet it: of two leaflets of 12 and 7 lipids it is 1 Å nearer to the
/// larger. But it tells which images belong together.
pub(crate) fn periodic_centre(column: &[f32], atoms: &[(u32, f64)], length: f64) -> f64 {
    let mut sums = [0.0; 2];
    for (slot, mass) in atoms {
        let (sin, cos) = (TAU * f64::from(column[*slot as usize]) / length).sin_cos();
        sums[0] += mass * cos;
        sums[1] += mass * sin;
    }
    let around = sums[1].atan2(sums[0]) / TAU * length;
    let (mut moment, mut total) = (0.0, 0.0);
    for (slot, mass) in atoms {
        moment += mass * nearest(f64::from(column[*slot as usize]) - around, length);
        total += mass;
    }
    if total > 0.0 { around + moment / total } else { around }
}

/// The shortest image of a distance along a periodic axis.
pub(crate) fn nearest(distance: f64, length: f64) -> f64 {
    distance - length * (distance / length).round()
}

impl Task for Profile {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally { n_frames: 0, bins: vec![[0.0; 3]; 2 * self.n_half], half_length: f64::INFINITY }
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let Density { axis, bin, .. } = self.request;
        let cell = view.frame.cell().expect("a frame without a cell has been refused");
        // What the first frame was checked for.
        let length = axis.length(cell).unwrap_or_else(|| cell.lengths()[axis.index()]);
        let column = axis.column(view.frame);
        let centre = periodic_centre(column, &self.centre, length);
        let share = length / (volume(cell) * bin);
        for (slot, mass, electrons) in &self.atoms {
            let from_centre = nearest(f64::from(column[*slot as usize]) - centre, length);
            let place = (from_centre / bin).floor() as i64 + self.n_half as i64;
            let place = usize::try_from(place).ok().and_then(|place| tally.bins.get_mut(place));
            if let Some(sums) = place {
                sums[0] += share;
                sums[1] += mass * share;
                sums[2] += electrons * share;
            }
        }
        tally.half_length = tally.half_length.min(length / 2.0);
        tally.n_frames += 1;
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        tally.n_frames += next.n_frames;
        for (sums, next) in tally.bins.iter_mut().zip(next.bins) {
            (0..3).for_each(|k| sums[k] += next[k]);
        }
        tally.half_length = tally.half_length.min(next.half_length);
    }

    fn finish(&self, tally: Tally, _: &Frames<'_>) -> Outcome {
        let Density { group, centre, axis, bin } = &self.request;
        let edge = |n: usize| (n as f64 - self.n_half as f64) * bin;
        let is_whole = |n: &usize| edge(*n).abs().max(edge(n + 1).abs()) <= tally.half_length;
        let bins: Vec<usize> = (0..tally.bins.len()).filter(is_whole).collect();
        let mean = |k: usize, factor: f64| {
            bins.iter().map(|n| factor * tally.bins[*n][k] / tally.n_frames as f64).collect()
        };
        let columns = vec![
            Column::numbers(
                format!("{}_angstrom", axis.name()),
                Some("Å"),
                "middle of the bin, from the centre",
                bins.iter().map(|n| edge(*n) + bin / 2.0).collect(),
            ),
            Column::numbers("mass_density", Some("g/cm³"), "mass density", mean(1, G_PER_CM3)),
            Column::numbers(
                "number_density",
                Some("1/Å³"),
                "number density of atoms",
                mean(0, 1.0),
            ),
            Column::numbers(
                "electron_density",
                Some("1/Å³"),
                "electron density of neutral atoms",
                mean(2, 1.0),
            ),
        ];
        let definition = format!(
            "atoms, mass and electrons in slices of {bin} Å across {}, each over the volume of the \
             slice in the frame, from the centre of mass of the second group in one piece along it",
            axis.name()
        );
        let groups = vec![TableGroup::new("group", group), TableGroup::new("centre", centre)];
        let title = format!("Density along {}", axis.name());
        Outcome::Tables(vec![Table::new("density", &title, definition, groups, columns)])
    }
}

#[cfg(test)]
mod tests {
    use super::periodic_centre;

    #[test]
    fn unequal_leaflets_have_their_centre_of_mass_wherever_they_are_in_the_cell() {
        let atoms: Vec<(u32, f64)> = (0..19).map(|slot| (slot, 12.0)).collect();
        for shift in [0.0, 20.0, 29.0, -25.0] {
            let heights = (0..19).map(|n| if n < 12 { 10.0 } else { -10.0 } + shift);
            let column: Vec<f32> = heights.map(|z: f32| z.rem_euclid(60.0)).collect();
            let centre = periodic_centre(&column, &atoms, 60.0) - f64::from(shift);
            let expected = (12.0 - 7.0) * 10.0 / 19.0;
            let apart = (centre - expected) / 60.0;
            assert!((apart - apart.round()).abs() < 1e-7, "{shift} {centre}");
        }
    }
}
