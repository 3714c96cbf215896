//! Coordinates of some atoms in one frame, and which atoms these are.

use std::ops::Range;

use crate::error::Damage;
use crate::{AtomSet, Cell};

/// No coordinate is larger than this, in Å, unless it is no coordinate: nothing diffuses a tenth of
/// a millimetre in a simulation, and 32 bits hold no positions there.
pub(crate) const FARTHEST: f32 = 1e6;

/// The atoms to read of each frame, and where they stand in a [`Frame`].
///
/// Gaps that are cheaper to read than to skip are read along, so a frame may hold more atoms than
/// were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// Atoms that are read, ascending, each run with the slot of its first.
    pub(super) runs: Vec<(Range<usize>, usize)>,
    pub(super) n_slots: usize,
    /// Where the columns of x, y and z start in the words of a frame.
    pub(super) columns: [usize; 3],
    /// What a frame's words are read from, in bytes from the start of the frame in the file.
    pub(super) reads: Vec<Range<u64>>,
    /// The same for each file, if there are several.
    pub(super) of_parts: Vec<Self>,
}

impl ReadPlan {
    pub(super) fn new(atoms: &AtomSet, gap: usize) -> Self {
        let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
        let mut n_slots = 0;
        for range in atoms.ranges() {
            match runs.last_mut() {
                Some((run, first_slot)) if range.start - run.end <= gap => {
                    run.end = range.end;
                    n_slots = *first_slot + run.len();
                }
                _ => {
                    runs.push((range.clone(), n_slots));
                    n_slots += range.len();
                }
            }
        }
        Self {
            runs,
            n_slots,
            columns: [0, n_slots, 2 * n_slots],
            reads: Vec::new(),
            of_parts: Vec::new(),
        }
    }

    /// Number of atoms that are read.
    pub fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// The atom that stands in a slot.
    fn atom(&self, slot: usize) -> usize {
        let n_before = self.runs.partition_point(|(_, first_slot)| *first_slot <= slot);
        let (atoms, first_slot) = &self.runs[n_before - 1];
        atoms.start + (slot - first_slot)
    }

    /// Where an atom stands in the columns of a frame, if it is read.
    pub fn slot(&self, atom: usize) -> Option<usize> {
        let n_before = self.runs.partition_point(|(atoms, _)| atoms.start <= atom);
        let (atoms, first_slot) = self.runs.get(n_before.checked_sub(1)?)?;
        atoms.contains(&atom).then(|| first_slot + (atom - atoms.start))
    }
}

/// Coordinates and cell of one frame, as far as a [`ReadPlan`] asked for them.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The columns, among whatever lay between them in the file.
    pub(super) words: Vec<f32>,
    pub(super) columns: [Range<usize>; 3],
    pub(super) cell: Option<Cell>,
}

impl Frame {
    /// An empty frame to read into.
    pub fn new() -> Self {
        Self::default()
    }

    /// x in Å of each slot.
    pub fn x(&self) -> &[f32] {
        self.column(0)
    }

    /// y in Å of each slot.
    pub fn y(&self) -> &[f32] {
        self.column(1)
    }

    /// z in Å of each slot.
    pub fn z(&self) -> &[f32] {
        self.column(2)
    }

    pub(super) fn column(&self, axis: usize) -> &[f32] {
        &self.words[self.columns[axis].clone()]
    }

    /// The position of a slot in Å.
    #[inline]
    pub fn position(&self, slot: usize) -> [f64; 3] {
        let [x, y, z] = self.narrow_position(slot);
        [f64::from(x), f64::from(y), f64::from(z)]
    }

    #[inline]
    pub(crate) fn narrow_position(&self, slot: usize) -> [f32; 3] {
        [self.x()[slot], self.y()[slot], self.z()[slot]]
    }

    pub(crate) fn set_position(&mut self, slot: usize, position: [f64; 3]) {
        for (column, x) in self.columns.iter().zip(position) {
            self.words[column.start + slot] = x as f32;
        }
    }

    /// What is wrong with the coordinates, if anything is.
    pub(super) fn damage(&self, plan: &ReadPlan) -> Option<Damage> {
        let columns = [self.x(), self.y(), self.z()];
        if !columns.into_iter().all(are_positions) {
            let slot =
                (0..plan.n_slots).find(|slot| !are_positions(&self.narrow_position(*slot)))?;
            return Some(Damage::Position {
                atom: plan.atom(slot),
                label: None,
                position: self.narrow_position(slot),
            });
        }
        // A hole in a file is full of zeros. Two atoms may well lie in one point, or the one that
        // is read.
        let n_atoms = plan.n_slots;
        let is_one_point =
            n_atoms > 2 && columns.into_iter().all(|column| column.iter().all(|x| *x == column[0]));
        is_one_point.then_some(Damage::OnePoint { n_atoms })
    }

    /// The periodic cell, if the frame has one.
    pub fn cell(&self) -> Option<&Cell> {
        self.cell.as_ref()
    }
}

/// Whether all of these can be coordinates: finite, and not larger than [`FARTHEST`].
///
/// As a rule the sum of their squares decides, which is two operations for as many numbers as a
/// register holds. It is never less than any of them, so a sum below the largest square admits all;
/// what is no number leaves a sum that is none. Comparing each number is half as fast.
fn are_positions(numbers: &[f32]) -> bool {
    const LANES: usize = 32;
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mut squares = [0.0; LANES];
    for chunk in chunks {
        (0..LANES).for_each(|k| squares[k] += chunk[k] * chunk[k]);
    }
    let sum = squares.into_iter().chain(rest.iter().map(|x| x * x)).sum::<f32>();
    sum < FARTHEST * FARTHEST || numbers.iter().all(|x| x.abs() <= FARTHEST)
}

#[cfg(test)]
mod tests {
    use super::{FARTHEST, are_positions};

    #[test]
    fn what_cannot_be_a_coordinate_is_noticed_wherever_it_is() {
        for n in [1, 31, 32, 33, 200] {
            let mut column = vec![-FARTHEST; n];
            assert!(are_positions(&column));
            for at in 0..n {
                for x in [
                    f32::NAN,
                    -f32::NAN,
                    f32::INFINITY,
                    f32::NEG_INFINITY,
                    1.000_001e6,
                    -1e30,
                    f32::MAX,
                ] {
                    column[at] = x;
                    assert!(!are_positions(&column), "{x} at {at} of {n}");
                }
                column[at] = [0.0, -0.0, FARTHEST, f32::MIN_POSITIVE][at % 4];
            }
        }
    }
}
