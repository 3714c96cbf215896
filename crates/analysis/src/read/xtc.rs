//! XTC: frames of compressed coordinates, as GROMACS writes them.
//!
//! molly decodes; where the frames start is found here, by walking from header to header.

use std::fs::File;
use std::io::Cursor;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use molly::XTCReader;
use molly::selection::AtomSelection;

use super::dcd::Stamp;
use super::decimal::shortest;
use super::frame::{Frame, ReadPlan};
use crate::error::{Damage, FormatError, FormatErrorKind, Place};
use crate::{AtomSet, Cell, Error};

const MAGIC_1995: i32 = 1995;
/// Frames of 2 GiB and more, with the compressed size in 64 bits.
const MAGIC_2023: i32 = 2023;

/// Magic number, atoms, step, time, box, atoms again.
const HEADER_BYTES: u64 = 56;
/// Precision, bounds and bits, before the compressed size.
const BOUNDS_BYTES: u64 = 32;
/// Frames of so few atoms are not compressed.
const MAX_UNCOMPRESSED: usize = 9;

/// How many bits a coordinate takes that is counted from the atom before it.
const SMALL_BITS: RangeInclusive<i32> = 9..=72;
/// So many atoms at most are counted from the one before them, in a row.
const MAX_RUN: u64 = 10;
/// More than an atom takes: three numbers of 31 bits, and 6 that say how those after it are packed.
const MAX_ATOM_BYTES: u64 = 16;

/// A frame takes 16 bytes of memory, and 68 bytes of a file are one.
const MAX_FRAMES: usize = 10_000_000;

const ANGSTROM_PER_NM: f32 = 10.0;

/// An XTC file.
#[derive(Debug)]
pub struct Xtc {
    file: File,
    path: PathBuf,
    index: Arc<XtcIndex>,
    trailing_bytes: u64,
}

/// Where the frames of an XTC file are, which is found by walking through all of it.
#[derive(Clone, Debug, Default)]
pub struct XtcIndex {
    n_atoms: usize,
    frames: Vec<Start>,
    /// Where the next frame would start.
    end: u64,
}

impl XtcIndex {
    /// Number of frames.
    pub fn n_frames(&self) -> usize {
        self.frames.len()
    }
}

/// Where a frame starts, and when it was.
#[derive(Clone, Copy, Debug)]
struct Start {
    byte: u64,
    time_ps: f32,
}

impl Xtc {
    /// Whether a file that starts so is XTC.
    pub(super) fn starts_with(bytes: [u8; 4]) -> bool {
        matches!(i32::from_be_bytes(bytes), MAGIC_1995 | MAGIC_2023)
    }

    /// Opens a file and finds its frames.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] if this is no XTC file or has more than ten million
    /// frames.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_indexed(path, Arc::default())
    }

    /// Opens a file whose frames were found before, and finds those that were added since.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn open_indexed(path: &Path, index: Arc<XtcIndex>) -> Result<Self, Error> {
        let file =
            File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let mut xtc = Self { file, path: path.to_owned(), index, trailing_bytes: 0 };
        xtc.refresh()?;
        Ok(xtc)
    }

    /// Where its frames are.
    pub fn index(&self) -> &Arc<XtcIndex> {
        &self.index
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        self.index.n_atoms
    }

    /// Number of whole frames there were when the file was opened or last looked at.
    pub fn n_frames(&self) -> usize {
        self.index.n_frames()
    }

    /// Bytes after the last whole frame.
    pub fn trailing_bytes(&self) -> u64 {
        self.trailing_bytes
    }

    /// The time of a frame in ps.
    pub fn time_ps(&self, frame: usize) -> f64 {
        shortest(self.index.frames[frame].time_ps)
    }

    /// The times of the first frame and the last in ps, if all are numbers and none is before the
    /// one before it.
    pub(super) fn span_ps(&self) -> Option<[f64; 2]> {
        let frames = &self.index.frames;
        let are_times = frames.iter().all(|frame| frame.time_ps.is_finite());
        let ascend = frames.is_sorted_by(|a, b| a.time_ps <= b.time_ps);
        (are_times && ascend).then(|| [self.time_ps(0), self.time_ps(frames.len() - 1)])
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
        while let Some((n_atoms, time_ps, n_bytes)) = self.header(self.index.end, size)? {
            let index = Arc::make_mut(&mut self.index);
            index.n_atoms = n_atoms;
            index.frames.push(Start { byte: index.end, time_ps });
            index.end += n_bytes;
        }
        self.trailing_bytes = size.saturating_sub(self.index.end);
        Ok(self.n_frames())
    }

    /// Prepares reading of these atoms. A frame is decoded from its first atom to the last one
    /// wanted.
    pub fn read_plan(&self, atoms: &AtomSet) -> ReadPlan {
        ReadPlan::new(atoms, 0)
    }

    /// Reads the atoms of a plan from one frame, in place of what `into` held, whatever their
    /// coordinates are.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] if the frame cannot be decoded; [`Error::Damaged`] for a
    /// cell that cannot be.
    pub(super) fn read(
        &self,
        frame: usize,
        plan: &ReadPlan,
        into: &mut Frame,
    ) -> Result<(), Error> {
        let XtcIndex { frames, end, .. } = &*self.index;
        let start = frames[frame].byte;
        let end = frames.get(frame + 1).map_or(*end, |next| next.byte);
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(|source| self.io(source))?;
        let n_needed = plan.runs.last().map_or(0, |(atoms, _)| atoms.end);
        let decoded = decode(bytes, n_needed).map_err(|found| {
            self.format(
                start,
                FormatErrorKind::Unexpected { expected: "a frame of coordinates", found },
            )
        })?;
        let nm = &decoded.positions;
        into.words.clear();
        for axis in 0..3 {
            for (atoms, _) in &plan.runs {
                into.words.extend(atoms.clone().map(|atom| ANGSTROM_PER_NM * nm[3 * atom + axis]));
            }
        }
        into.columns = plan.columns.map(|first| first..first + plan.n_slots);
        let edges = [0, 1, 2]
            .map(|row| [0, 1, 2].map(|k| f64::from(ANGSTROM_PER_NM * decoded.boxvec[3 * row + k])));
        // GROMACS writes zeros where there is no cell.
        into.cell = if edges == [[0.0; 3]; 3] { None } else { Cell::from_vectors(edges) };
        if into.cell.is_none() && edges != [[0.0; 3]; 3] {
            let damage = Damage::Cell { numbers: format!("{edges:?}") };
            return Err(Error::Damaged { path: self.path.clone(), frame, damage });
        }
        Ok(())
    }

    /// Number of atoms, time and size of the frame that starts at a byte, if it is there as a
    /// whole.
    fn header(&self, byte: u64, size: u64) -> Result<Option<(usize, f32, u64)>, Error> {
        let mut header = [0; (HEADER_BYTES + BOUNDS_BYTES + 8) as usize];
        let n_bytes = size.saturating_sub(byte).min(header.len() as u64);
        if n_bytes < HEADER_BYTES {
            return Ok(None);
        }
        let known = &mut header[..n_bytes as usize];
        self.file.read_exact_at(known, byte).map_err(|source| self.io(source))?;
        let magic = int(&header, 0);
        if !matches!(magic, MAGIC_1995 | MAGIC_2023) {
            return Err(self.unexpected(
                byte,
                "the number 1995 or 2023 that starts a frame",
                magic,
            ));
        }
        let before = &self.index;
        if before.n_frames() == MAX_FRAMES {
            let expected = "the end of the file after ten million frames";
            return Err(self.unexpected(byte, expected, magic));
        }
        // A frame has the number of its atoms twice, here and before the coordinates.
        let claimed = int(&header, 4);
        let n_atoms = match usize::try_from(claimed) {
            Ok(n_atoms)
                if n_atoms > 0
                    && int(&header, 52) == claimed
                    && (before.n_atoms == 0 || before.n_atoms == n_atoms) =>
            {
                n_atoms
            }
            _ => return Err(self.unexpected(byte, "as many atoms as before", claimed)),
        };
        // GROMACS 2023 made the size of the coordinates a number of 64 bits.
        let size_bytes = if magic == MAGIC_2023 { 8 } else { 4 };
        let total = if n_atoms <= MAX_UNCOMPRESSED {
            HEADER_BYTES + 12 * n_atoms as u64
        } else if n_bytes < HEADER_BYTES + BOUNDS_BYTES + size_bytes {
            return Ok(None);
        } else {
            let mut compressed = u64::from(int(&header, 88) as u32);
            if size_bytes == 8 {
                compressed = compressed << 32 | u64::from(int(&header, 92) as u32);
            }
            // What claims more atoms would be given memory for them: a frame of 100 bytes with
            // 2147483647 atoms was given 24 GB.
            if n_atoms as u64 > most_atoms(&header, compressed) {
                let expected = "no more atoms than the frame has bits";
                return Err(self.unexpected(byte, expected, claimed));
            }
            // And a frame is read whole, however many of its bytes are decoded.
            if compressed > MAX_ATOM_BYTES * n_atoms as u64 {
                let expected = "as many atoms as the frame has bytes for";
                return Err(self.unexpected(byte, expected, claimed));
            }
            compressed.saturating_add(HEADER_BYTES + BOUNDS_BYTES + size_bytes).saturating_add(3)
                & !3
        };
        let time_ps = f32::from_bits(int(&header, 12) as u32);
        Ok((total <= size - byte).then_some((n_atoms, time_ps, total)))
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn format(&self, byte: u64, problem: FormatErrorKind) -> Error {
        let source = FormatError { format: "XTC", place: Place::Byte(byte), problem };
        Error::Format { path: self.path.clone(), source }
    }

    fn unexpected(&self, byte: u64, expected: &'static str, found: i32) -> Error {
        let found = found.to_string();
        self.format(byte, FormatErrorKind::Unexpected { expected, found })
    }
}

/// XDR's integers have their highest byte first.
fn int(header: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([0, 1, 2, 3].map(|k| header[at + k]))
}

/// The least and the largest of the numbers that the coordinates along an axis are.
fn bounds(header: &[u8], axis: usize) -> [i32; 2] {
    [60, 72].map(|at| int(header, at + 4 * axis))
}

/// The most atoms that so many bytes of compressed coordinates can be.
///
/// An atom is written as its place among all within the bounds, and a bit; or it is one of a run
/// that follows such a one, of at least 9 bits each.
fn most_atoms(header: &[u8], compressed: u64) -> u64 {
    let places = (0..3).map(|axis| {
        let [least, largest] = bounds(header, axis).map(i64::from);
        (largest - least + 1).max(1) as u128
    });
    let first_bits = u64::from(u128::BITS - places.product::<u128>().leading_zeros()) + 1;
    let run_bits = first_bits + MAX_RUN * *SMALL_BITS.start() as u64;
    let least_bits = (first_bits * (MAX_RUN + 1)).min(run_bits);
    compressed.saturating_mul(8 * (MAX_RUN + 1)) / least_bits
}

/// What of the header of compressed coordinates cannot be. molly shifts and indexes by it.
fn damage(header: &[u8]) -> Option<String> {
    let small_bits = int(header, 84);
    if !SMALL_BITS.contains(&small_bits) {
        return Some(format!("coordinates of {small_bits} bits"));
    }
    // As GROMACS writes them, the numbers of an axis differ by 31 bits at most.
    let wrong = (0..3).map(|axis| bounds(header, axis)).find(|[least, largest]| {
        largest.checked_sub(*least).is_none_or(|n| !(0..i32::MAX).contains(&n))
    })?;
    let [least, largest] = wrong;
    Some(format!("coordinates from {least} to {largest}"))
}

/// The first atoms of one frame. molly asserts its way through damaged data, so a panic of its is
/// an error of the file's.
fn decode(bytes: Vec<u8>, n_atoms: usize) -> Result<molly::Frame, String> {
    let is_compressed = usize::try_from(int(&bytes, 4)).is_ok_and(|n| n > MAX_UNCOMPRESSED);
    if is_compressed && let Some(damage) = damage(&bytes) {
        return Err(damage);
    }
    let mut frame = molly::Frame::default();
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        let until = AtomSelection::Until(n_atoms as u32);
        XTCReader::new(Cursor::new(bytes)).read_frame_with_selection(&mut frame, &until)
    }));
    match decoded {
        Ok(Ok(())) if frame.positions.len() >= 3 * n_atoms => Ok(frame),
        Ok(Ok(())) => Err(format!("{} of {n_atoms} atoms", frame.positions.len() / 3)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("compressed data that cannot be decoded".to_owned()),
    }
}
