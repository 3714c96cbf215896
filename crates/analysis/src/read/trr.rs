//! TRR: frames of uncompressed coordinates, as GROMACS writes them, in 32 or 64 bits.
//!
//! A frame may have velocities and forces too, which are skipped, or nothing else, and is then none
//! here. The frames are found by walking from header to header.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::dcd::Stamp;
use super::decimal::shortest;
use super::frame::{Frame, ReadPlan};
use super::interleaved::{self, Interleaved, read_numbers};
use crate::error::{Damage, FormatError, FormatErrorKind, Place};
use crate::{AtomSet, Cell, Error};

const MAGIC: i32 = 1993;

/// Magic number, and twice a length before the version, `GMX_trn_file`.
const VERSION: [u8; 20] = *b"\0\0\0\x0d\0\0\0\x0cGMX_trn_file";
const SIZES_AT: usize = 4 + VERSION.len();
/// Ten sizes of parts in bytes, number of atoms, step, and a number that is not used.
const N_INTS: usize = 13;
const TIMES_AT: usize = SIZES_AT + 4 * N_INTS;

/// A frame takes 40 bytes of memory, and 120 bytes of a file are one.
const MAX_FRAMES: usize = 10_000_000;

const ANGSTROM_PER_NM: f64 = 10.0;

/// A TRR file.
#[derive(Debug)]
pub struct Trr {
    file: File,
    path: PathBuf,
    n_atoms: usize,
    frames: Vec<Start>,
    /// Where the next frame would start.
    end: u64,
    trailing_bytes: u64,
}

/// Where a frame is, and when it was.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// Of its coordinates.
    byte: u64,
    /// Of its cell, if it has one.
    cell_byte: Option<u64>,
    is_double: bool,
    time_ps: f64,
}

/// What a header says.
struct Header {
    n_atoms: usize,
    n_bytes: u64,
    /// None without coordinates.
    start: Option<Start>,
}

impl Trr {
    /// Whether a file that starts so is TRR.
    pub(super) fn starts_with(bytes: [u8; 4]) -> bool {
        i32::from_be_bytes(bytes) == MAGIC
    }

    /// Opens a file and finds its frames.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] if this is no TRR file or has more than ten million
    /// frames.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file =
            File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let path = path.to_owned();
        let mut trr =
            Self { file, path, n_atoms: 0, frames: Vec::new(), end: 0, trailing_bytes: 0 };
        trr.refresh()?;
        Ok(trr)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Number of whole frames with coordinates there were when the file was opened or last looked
    /// at.
    pub fn n_frames(&self) -> usize {
        self.frames.len()
    }

    /// Bytes after the last whole frame.
    pub fn trailing_bytes(&self) -> u64 {
        self.trailing_bytes
    }

    /// The time of a frame in ps.
    pub fn time_ps(&self, frame: usize) -> f64 {
        let Start { time_ps, is_double, .. } = self.frames[frame];
        if is_double { time_ps } else { shortest(time_ps as f32) }
    }

    /// The times of the first frame and the last in ps, if all are numbers and none is before the
    /// one before it.
    pub(super) fn span_ps(&self) -> Option<[f64; 2]> {
        let are_times = self.frames.iter().all(|frame| frame.time_ps.is_finite());
        let ascend = self.frames.is_sorted_by(|a, b| a.time_ps <= b.time_ps);
        (are_times && ascend).then(|| [self.time_ps(0), self.time_ps(self.n_frames() - 1)])
    }

    pub(super) fn stamp(&self, first: usize, stride: usize, n_frames: usize) -> Option<Stamp> {
        Stamp::of_times((0..n_frames).map(|nth| self.time_ps(first + nth * stride)))
    }

    /// Finds the frames that were added, and returns the number of whole frames.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] if what was added is no frame of as many atoms.
    pub fn refresh(&mut self) -> Result<usize, Error> {
        let size = self.file.metadata().map_err(|source| self.io(source))?.len();
        while let Some(Header { n_atoms, n_bytes, start }) = self.header(self.end, size)? {
            self.n_atoms = n_atoms;
            self.frames.extend(start);
            self.end += n_bytes;
        }
        self.trailing_bytes = size.saturating_sub(self.end);
        Ok(self.n_frames())
    }

    /// Prepares reading of these atoms.
    pub fn read_plan(&self, atoms: &AtomSet) -> ReadPlan {
        interleaved::read_plan(atoms)
    }

    /// Reads the atoms of a plan from one frame, in place of what `into` held, whatever their
    /// coordinates are.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Damaged`] for a cell that cannot be.
    pub(super) fn read(
        &self,
        frame: usize,
        plan: &ReadPlan,
        into: &mut Frame,
    ) -> Result<(), Error> {
        let Start { byte, cell_byte, is_double, .. } = self.frames[frame];
        Interleaved { byte, is_double, unit_angstrom: ANGSTROM_PER_NM }
            .read(&self.file, plan, into)
            .map_err(|source| self.io(source))?;
        into.cell = None;
        let Some(byte) = cell_byte else { return Ok(()) };
        let numbers: [f64; 9] =
            read_numbers(&self.file, byte, is_double).map_err(|source| self.io(source))?;
        // GROMACS writes zeros where there is no cell.
        if numbers == [0.0; 9] {
            return Ok(());
        }
        let edges = [0, 3, 6].map(|row| [0, 1, 2].map(|k| ANGSTROM_PER_NM * numbers[row + k]));
        into.cell = Cell::from_vectors(edges);
        if into.cell.is_none() {
            let damage = Damage::Cell { numbers: format!("{edges:?}") };
            return Err(Error::Damaged { path: self.path.clone(), frame, damage });
        }
        Ok(())
    }

    /// The frame that starts at a byte, if it is there as a whole.
    fn header(&self, byte: u64, size: u64) -> Result<Option<Header>, Error> {
        let mut header = [0; TIMES_AT + 16];
        let n_bytes = size.saturating_sub(byte).min(header.len() as u64) as usize;
        if n_bytes < TIMES_AT + 8 {
            return Ok(None);
        }
        let known = &mut header[..n_bytes];
        self.file.read_exact_at(known, byte).map_err(|source| self.io(source))?;
        let magic = int(&header, 0);
        if magic != MAGIC || header[4..SIZES_AT] != VERSION {
            let expected = "the number 1993 and GMX_trn_file, which start a frame";
            return Err(self.unexpected(byte, expected, magic));
        }
        if self.frames.len() == MAX_FRAMES {
            let expected = "the end of the file after ten million frames";
            return Err(self.unexpected(byte, expected, magic));
        }
        let ints: [i32; N_INTS] = std::array::from_fn(|n| int(&header, SIZES_AT + 4 * n));
        if let Some(negative) = ints[..11].iter().find(|size| **size < 0) {
            return Err(self.unexpected(byte, "sizes that are not negative", *negative));
        }
        let sizes: [u64; 11] = std::array::from_fn(|n| ints[n] as u64);
        let [_, _, cell, virial, pressure, _, _, x, v, f, n_atoms] = sizes;
        // The parts that are never written are of no size that a reader knows.
        if [0, 1, 5, 6].iter().any(|part| sizes[*part] != 0) {
            let expected = "a frame without the parts that GROMACS does not write";
            return Err(self.unexpected(
                byte,
                expected,
                ints[0].max(ints[1]).max(ints[5]).max(ints[6]),
            ));
        }
        let is_other = self.n_atoms != 0 && n_atoms as usize != self.n_atoms;
        if n_atoms == 0 || is_other {
            return Err(self.unexpected(byte, "as many atoms as before", ints[10]));
        }
        // As GROMACS does, by the first part that is there.
        let parts = [
            (cell, 9),
            (virial, 9),
            (pressure, 9),
            (x, 3 * n_atoms),
            (v, 3 * n_atoms),
            (f, 3 * n_atoms),
        ];
        let is_double =
            parts.iter().find(|(size, _)| *size > 0).is_some_and(|(size, n)| *size == 8 * n);
        let width = if is_double { 8 } else { 4 };
        for (part, n) in parts {
            if part != 0 && part != width * n {
                let expected =
                    "parts of as many numbers as there are atoms, all of 4 or of 8 bytes";
                return Err(self.unexpected(byte, expected, part as i32));
            }
        }
        let head = TIMES_AT as u64 + 2 * width;
        let total = head + cell + virial + pressure + x + v + f;
        if total > size - byte {
            return Ok(None);
        }
        let time_ps = if is_double {
            f64::from_be_bytes(std::array::from_fn(|n| header[TIMES_AT + n]))
        } else {
            f64::from(f32::from_bits(int(&header, TIMES_AT) as u32))
        };
        let start = Start {
            byte: byte + head + cell + virial + pressure,
            cell_byte: (cell > 0).then_some(byte + head),
            is_double,
            time_ps,
        };
        let n_atoms = n_atoms as usize;
        Ok(Some(Header { n_atoms, n_bytes: total, start: (x > 0).then_some(start) }))
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn unexpected(&self, byte: u64, expected: &'static str, found: i32) -> Error {
        let problem = FormatErrorKind::Unexpected { expected, found: found.to_string() };
        let source = FormatError { format: "TRR", place: Place::Byte(byte), problem };
        Error::Format { path: self.path.clone(), source }
    }
}

/// XDR's integers have their highest byte first.
fn int(header: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([0, 1, 2, 3].map(|k| header[at + k]))
}
