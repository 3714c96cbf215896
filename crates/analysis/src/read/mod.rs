//! Structures and trajectories from files.

mod bonds;
mod dcd;
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

use crate::{AtomSet, Cell, Error};

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

    /// Reads the atoms of a window from one frame, in place of what `into` held.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] if the frame is damaged.
    pub fn read(&self, frame: usize, window: &Window, into: &mut Frame) -> Result<(), Error> {
        match self {
            Self::Dcd(dcd) => dcd.read(frame, window, into),
            Self::Xtc(xtc) => xtc.read(frame, window, into),
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

    /// The periodic cell, if the frame has one.
    pub fn cell(&self) -> Option<&Cell> {
        self.cell.as_ref()
    }
}
