//! Structures and trajectories from files.

mod bonds;
mod dcd;
mod decimal;
mod mmcif;
mod pdb;
mod series;
mod structure;
mod xtc;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use dcd::Dcd;
pub use series::Series;
pub use structure::Structure;
pub use xtc::Xtc;

use crate::error::Damage;
use crate::{AtomSet, Cell, Error};

/// No coordinate is larger than this, in Å, unless it is no coordinate: nothing diffuses a tenth of a
/// millimetre in a simulation, and 32 bits hold no positions there.
pub(crate) const FARTHEST: f32 = 1e6;

/// A trajectory file, any frame of which can be read by any thread.
#[derive(Debug)]
pub enum Trajectory {
    /// CHARMM, NAMD, OpenMM and others.
    Dcd(Dcd),
    /// GROMACS.
    Xtc(Xtc),
}

impl Trajectory {
    /// Opens a file of either format, which its first bytes tell.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] for a file of neither format.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut start = [0; 4];
        let file = File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        match file.read_exact_at(&mut start, 0) {
            Ok(()) if Xtc::starts_with(start) => Xtc::open(path).map(Self::Xtc),
            _ => Dcd::open(path).map(Self::Dcd),
        }
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        match self {
            Self::Dcd(dcd) => dcd.n_atoms(),
            Self::Xtc(xtc) => xtc.n_atoms(),
        }
    }

    /// Number of whole frames there were when the file was opened or last looked at.
    pub fn n_frames(&self) -> usize {
        match self {
            Self::Dcd(dcd) => dcd.n_frames(),
            Self::Xtc(xtc) => xtc.n_frames(),
        }
    }

    /// Bytes after the last whole frame: those of one that is being written, or was cut off.
    pub fn n_bytes_left(&self) -> u64 {
        match self {
            Self::Dcd(dcd) => dcd.n_bytes_left(),
            Self::Xtc(xtc) => xtc.n_bytes_left(),
        }
    }

    /// Frames that the file's header tells of and that are not there, as when it was cut off.
    pub fn n_missing(&self) -> usize {
        match self {
            Self::Dcd(dcd) => dcd.n_missing(),
            Self::Xtc(_) => 0,
        }
    }

    /// Looks at the file again, which may have grown, and returns the number of whole frames.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] if what was added is no frame.
    pub fn refresh(&mut self) -> Result<usize, Error> {
        match self {
            Self::Dcd(dcd) => dcd.refresh(),
            Self::Xtc(xtc) => xtc.refresh(),
        }
    }

    /// The times of the first frame and the last in ps, if the file tells the times of all frames and
    /// these do not descend. There must be a frame.
    fn span_ps(&self) -> Option<[f64; 2]> {
        match self {
            Self::Dcd(dcd) => Some([dcd.time_ps(0)?, dcd.time_ps(dcd.n_frames() - 1)?]),
            Self::Xtc(xtc) => xtc.span_ps(),
        }
    }

    /// The time of a frame in ps, where the file tells it.
    pub fn time_ps(&self, frame: usize) -> Option<f64> {
        match self {
            Self::Dcd(dcd) => dcd.time_ps(frame),
            Self::Xtc(xtc) => Some(xtc.time_ps(frame)),
        }
    }

    /// Prepares reading of these atoms.
    pub fn window(&self, atoms: &AtomSet) -> Window {
        match self {
            Self::Dcd(dcd) => dcd.window(atoms),
            Self::Xtc(xtc) => xtc.window(atoms),
        }
    }

    /// Whether the cell of the first frame may have been meant in another way than it is taken.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn has_doubtful_cell(&self) -> Result<bool, Error> {
        match self {
            Self::Dcd(dcd) => dcd.has_doubtful_cell(),
            Self::Xtc(_) => Ok(false),
        }
    }

    /// Reads the atoms of a window from one frame, in place of what `into` held.
    ///
    /// This is the one way to coordinates, and they are checked here: what is read is finite, closer
    /// to the origin than 10⁶ Å, and not all in one point.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] if there is no frame of this format; [`Error::Damaged`] if
    /// there is one, and its coordinates or its cell cannot be.
    pub fn read(&self, frame: usize, window: &Window, into: &mut Frame) -> Result<(), Error> {
        match self {
            Self::Dcd(dcd) => dcd.read(frame, window, into),
            Self::Xtc(xtc) => xtc.read(frame, window, into),
        }?;
        match into.damage(window) {
            None => Ok(()),
            Some(damage) => Err(Error::Damaged { path: self.path().to_owned(), frame, damage }),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Dcd(dcd) => dcd.path(),
            Self::Xtc(xtc) => xtc.path(),
        }
    }
}

/// The atoms to read of each frame, and where they stand in a [`Frame`].
///
/// Gaps that are cheaper to read than to skip are read along, so a frame may hold more atoms than
/// were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Atoms that are read, ascending, each run with the slot of its first.
    runs: Vec<(Range<usize>, usize)>,
    n_slots: usize,
    /// Where the columns of x, y and z start in the words of a frame.
    columns: [usize; 3],
    /// What a frame's words are read from, in bytes from the start of the frame in the file.
    reads: Vec<Range<u64>>,
    /// The same for each file, if there are several.
    of_parts: Vec<Self>,
}

impl Window {
    fn new(atoms: &AtomSet, gap: usize) -> Self {
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
        Self { runs, n_slots, columns: [0, n_slots, 2 * n_slots], reads: Vec::new(), of_parts: Vec::new() }
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

/// Coordinates and cell of one frame, as far as a [`Window`] asked for them.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The columns, among whatever lay between them in the file.
    words: Vec<f32>,
    columns: [Range<usize>; 3],
    cell: Option<Cell>,
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

    fn column(&self, axis: usize) -> &[f32] {
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
    fn damage(&self, window: &Window) -> Option<Damage> {
        let columns = [self.x(), self.y(), self.z()];
        if !columns.into_iter().all(are_positions) {
            let slot = (0..window.n_slots).find(|slot| !are_positions(&self.narrow_position(*slot)))?;
            return Some(Damage::Position {
                atom: window.atom(slot),
                label: None,
                position: self.narrow_position(slot),
            });
        }
        // A hole in a file is full of zeros. Two atoms may well lie in one point, or the one that is read.
        let is_one_point = |column: &[f32]| column.iter().all(|x| *x == column[0]);
        let n_atoms = window.n_slots;
        (n_atoms > 2 && columns.into_iter().all(is_one_point)).then_some(Damage::OnePoint { n_atoms })
    }

    /// The periodic cell, if the frame has one.
    pub fn cell(&self) -> Option<&Cell> {
        self.cell.as_ref()
    }
}

/// Whether all of these can be coordinates: finite, and not larger than [`FARTHEST`].
///
/// As a rule the sum of their squares tells, which is two operations for as many numbers as a register
/// holds. It is never less than any of them, so a sum below the largest square admits all; what is no
/// number leaves a sum that is none. Comparing each number is half as fast.
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
                for x in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.000_001e6, -1e30, f32::MAX] {
                    column[at] = x;
                    assert!(!are_positions(&column), "{x} at {at} of {n}");
                }
                column[at] = [0.0, -0.0, FARTHEST, f32::MIN_POSITIVE][at % 4];
            }
        }
    }
}
