//! DCD: Fortran records of 32-bit coordinates, as CHARMM, NAMD, X-PLOR and OpenMM write them.
//!
//! After a header every frame takes the same number of bytes, and in it all x stand before all y
//! before all z, so any atoms of any frame can be read alone. The number of frames follows from the
//! size of the file, since the header's count is wrong after a crash and while the file grows.

mod cell;
mod column;
mod header;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use self::cell::Convention;
pub(super) use self::column::ColumnReader;
pub(super) use self::header::{CELL_BYTES, Stamp, header};
use self::header::{Clock, Endian, Records, format_error};
use super::frame::{Frame, ReadPlan};
use crate::error::{Damage, FormatErrorKind};
use crate::{AtomSet, Cell, Error};

/// Bytes that are cheaper to read than to skip.
const GAP_BYTES: u64 = 16 * 1024;

/// A DCD file.
#[derive(Debug)]
pub struct Dcd {
    file: File,
    path: PathBuf,
    layout: Layout,
    clock: Option<Clock>,
    title: Vec<u8>,
    /// The atoms that move, if others are fixed.
    free: Vec<usize>,
    fixed: Option<Box<Fixed>>,
    n_frames: usize,
    /// Frames that the header counts.
    n_in_header: usize,
    trailing_bytes: u64,
}

/// Where everything stands in the file.
#[derive(Clone, Copy, Debug)]
struct Layout {
    endian: Endian,
    /// Size of the length before and after each record, 4 bytes or 8.
    marker: u64,
    convention: Convention,
    n_atoms: usize,
    /// Atoms in frames after the first.
    n_free: usize,
    has_cell: bool,
    has_4d: bool,
    first_frame: u64,
}

/// Of a file in which some atoms are fixed: what frames after the first leave out.
#[derive(Debug)]
struct Fixed {
    free_plan: ReadPlan,
    first_frame: Frame,
}

impl Dcd {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] if this is no DCD file of coordinates.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file =
            File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let mut records = Records::new(&file, path)?;
        let header = records.header()?;
        let mut title = records.title()?;
        let convention = header.convention(&title);
        title.truncate(header::MAX_TITLE);
        let n_atoms = records.n_atoms()?;
        let n_free = records.n_free(header.n_fixed, n_atoms)?;
        let free = if n_free < n_atoms { records.free_atoms(n_free, n_atoms)? } else { Vec::new() };
        let layout = Layout {
            endian: records.endian,
            marker: records.marker,
            convention,
            n_atoms,
            n_free,
            has_cell: records.cell_follows(n_atoms)?.unwrap_or(header.has_cell),
            has_4d: header.has_4d,
            first_frame: records.at,
        };
        let clock = header.clock.filter(|_| !convention.is_of_cpptraj());
        let path = path.to_owned();
        let n_in_header = header.n_frames;
        let mut dcd = Self {
            file,
            path,
            layout,
            clock,
            title,
            free,
            fixed: None,
            n_frames: 0,
            n_in_header,
            trailing_bytes: 0,
        };
        dcd.refresh()?;
        Ok(dcd)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        self.layout.n_atoms
    }

    /// Number of whole frames there were when the file was opened or last looked at.
    pub fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// Bytes after the last whole frame.
    pub fn trailing_bytes(&self) -> u64 {
        self.trailing_bytes
    }

    /// Frames that the header counts and the file does not have, as when it was cut off.
    pub fn n_missing(&self) -> usize {
        self.n_in_header.saturating_sub(self.n_frames)
    }

    /// Looks at the size of the file again, and returns the number of whole frames.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] if no frame starts where the first one should.
    pub fn refresh(&mut self) -> Result<usize, Error> {
        let size = self.file.metadata().map_err(|source| self.io(source))?.len();
        let size = size.saturating_sub(self.layout.first_frame);
        let first = self.layout.frame_bytes(0);
        let next = self.layout.frame_bytes(1);
        let n_later = size.checked_sub(first).map(|rest| rest / next);
        self.n_frames = n_later.map_or(0, |n| n as usize + 1);
        self.trailing_bytes = size - n_later.map_or(0, |n| first + n * next);
        if self.n_frames > 0 && self.fixed.is_none() && !self.free.is_empty() {
            let mut first_frame = Frame::new();
            self.read_columns(0, &self.read_plan(&AtomSet::all(self.n_atoms())), &mut first_frame)?;
            let free_plan = self.layout.read_plan(&AtomSet::all(self.free.len()), self.free.len());
            self.fixed = Some(Box::new(Fixed { free_plan, first_frame }));
        }
        Ok(self.n_frames)
    }

    /// The time of a frame in ps, if the header has the time step.
    pub fn time_ps(&self, frame: usize) -> Option<f64> {
        self.clock.map(|clock| clock.time_ps(frame))
    }

    /// Number of whole frames in the first `size` bytes of the file, as far as it has them.
    pub fn n_frames_within(&self, size: u64) -> usize {
        let rest = size.saturating_sub(self.layout.first_frame);
        let n_later = rest.checked_sub(self.layout.frame_bytes(0));
        let n_frames = n_later.map_or(0, |rest| rest / self.layout.frame_bytes(1) + 1);
        self.n_frames.min(usize::try_from(n_frames).unwrap_or(usize::MAX))
    }

    /// Whether frames after the first lack atoms, which are where they were.
    pub(super) fn has_fixed(&self) -> bool {
        !self.free.is_empty()
    }

    /// The lines of the title, of 80 bytes each, some of them.
    pub(super) fn title(&self) -> &[u8] {
        &self.title
    }

    /// When frames were written, of so many from `first` on by a stride.
    pub(super) fn stamp(&self, first: usize, stride: usize) -> Option<Stamp> {
        self.clock?.stamp(first, stride)
    }

    /// Prepares reading of these atoms.
    pub fn read_plan(&self, atoms: &AtomSet) -> ReadPlan {
        self.layout.read_plan(atoms, self.layout.n_atoms)
    }

    /// Whether the cell of the first frame may have been meant in another way than it is taken.
    ///
    /// # Errors
    ///
    /// See [`read`](Self::read).
    pub(super) fn has_doubtful_cell(&self) -> Result<bool, Error> {
        if self.n_frames == 0 || !self.layout.has_cell {
            return Ok(false);
        }
        let mut numbers = [0; CELL_BYTES as usize];
        let at = self.layout.first_frame + self.layout.marker;
        self.file.read_exact_at(&mut numbers, at).map_err(|source| self.io(source))?;
        let Layout { endian, convention, .. } = self.layout;
        Ok(convention.is_doubtful([0, 1, 2, 3, 4, 5].map(|n| endian.f64(&numbers[8 * n..]))))
    }

    /// Reads the atoms of a plan from one frame, in place of what `into` held, whatever their
    /// coordinates are.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] if no frame starts where one should; [`Error::Damaged`] for
    /// a cell that cannot be.
    pub(super) fn read(
        &self,
        frame: usize,
        plan: &ReadPlan,
        into: &mut Frame,
    ) -> Result<(), Error> {
        match &self.fixed {
            Some(fixed) if frame > 0 => self.read_free(frame, plan, fixed, into),
            _ => self.read_columns(frame, plan, into),
        }
    }

    fn read_columns(&self, frame: usize, plan: &ReadPlan, into: &mut Frame) -> Result<(), Error> {
        let start = self.layout.frame_start(frame);
        let n_bytes: u64 = plan.reads.iter().map(|bytes| bytes.end - bytes.start).sum();
        into.words.resize(n_bytes as usize / 4, 0.0);
        let mut rest: &mut [u8] = bytemuck::cast_slice_mut(&mut into.words);
        for bytes in &plan.reads {
            let (part, after) = rest.split_at_mut((bytes.end - bytes.start) as usize);
            self.file.read_exact_at(part, start + bytes.start).map_err(|source| self.io(source))?;
            rest = after;
        }
        let head = bytemuck::cast_slice(&into.words[..self.layout.column(0, 0) as usize / 4]);
        self.layout
            .check_start(head, self.layout.n_atoms_of(frame))
            .map_err(|(byte, problem)| format_error(&self.path, start + byte as u64, problem))?;
        into.cell = self.layout.cell(head).map_err(|numbers| {
            let damage = Damage::Cell { numbers };
            Error::Damaged { path: self.path.clone(), frame, damage }
        })?;
        into.columns = plan.columns.map(|first| first..first + plan.n_slots);
        if self.layout.endian.big != cfg!(target_endian = "big") {
            into.words
                .iter_mut()
                .for_each(|word| *word = f32::from_bits(word.to_bits().swap_bytes()));
        }
        Ok(())
    }

    /// Reads a frame without the fixed atoms, which are as they were in the first frame.
    fn read_free(
        &self,
        frame: usize,
        plan: &ReadPlan,
        fixed: &Fixed,
        into: &mut Frame,
    ) -> Result<(), Error> {
        let mut moved = Frame::new();
        self.read_columns(frame, &fixed.free_plan, &mut moved)?;
        into.words.clear();
        for k in 0..3 {
            for (atoms, _) in &plan.runs {
                into.words.extend_from_slice(&fixed.first_frame.column(k)[atoms.clone()]);
            }
            into.columns[k] = k * plan.n_slots..(k + 1) * plan.n_slots;
        }
        for (nth, atom) in self.free.iter().enumerate() {
            if let Some(slot) = plan.slot(*atom) {
                (0..3).for_each(|k| into.words[k * plan.n_slots + slot] = moved.column(k)[nth]);
            }
        }
        into.cell = moved.cell;
        Ok(())
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }
}

impl Layout {
    fn n_atoms_of(&self, frame: usize) -> usize {
        if frame == 0 { self.n_atoms } else { self.n_free }
    }

    fn frame_start(&self, frame: usize) -> u64 {
        match frame as u64 {
            0 => self.first_frame,
            n => self.first_frame + self.frame_bytes(0) + (n - 1) * self.frame_bytes(1),
        }
    }

    fn frame_bytes(&self, frame: usize) -> u64 {
        let n_columns = if self.has_4d { 4 } else { 3 };
        self.column(n_columns, self.n_atoms_of(frame)) - self.marker
    }

    /// Where the coordinates along an axis start in a frame of so many atoms.
    fn column(&self, axis: u64, n_atoms: usize) -> u64 {
        let cell = if self.has_cell { CELL_BYTES + 2 * self.marker } else { 0 };
        cell + self.marker + axis * (4 * n_atoms as u64 + 2 * self.marker)
    }

    fn read_plan(&self, atoms: &AtomSet, n_atoms: usize) -> ReadPlan {
        let mut plan = ReadPlan::new(atoms, GAP_BYTES as usize / 4);
        let mut reads = Reads { ranges: Vec::new(), n_words: 0 };
        reads.push(0..self.column(0, n_atoms));
        for axis in 0..3 {
            let start = self.column(axis as u64, n_atoms);
            for (nth, (atoms, _)) in plan.runs.iter().enumerate() {
                let word = reads.push(start + 4 * atoms.start as u64..start + 4 * atoms.end as u64);
                if nth == 0 {
                    plan.columns[axis] = word;
                }
            }
        }
        plan.reads = reads.ranges;
        plan
    }

    /// Checks that a frame starts here, by the bytes before its coordinates.
    fn check_start(&self, head: &[u8], n_atoms: usize) -> Result<(), (usize, FormatErrorKind)> {
        let mut coordinates = 0;
        if self.has_cell {
            let end = self.marker as usize + CELL_BYTES as usize;
            self.check_marker(head, 0, CELL_BYTES, "a cell of 48 bytes")?;
            self.check_marker(head, end, CELL_BYTES, "the end of a cell of 48 bytes")?;
            coordinates = end + self.marker as usize;
        }
        let column_bytes = 4 * n_atoms as u64;
        self.check_marker(head, coordinates, column_bytes, "the x coordinates of all atoms")
    }

    fn check_marker(
        &self,
        head: &[u8],
        at: usize,
        n_bytes: u64,
        expected: &'static str,
    ) -> Result<(), (usize, FormatErrorKind)> {
        let found = self.endian.length(&head[at..], self.marker);
        if found == n_bytes {
            return Ok(());
        }
        let found = format!("a record of {found} bytes");
        Err((at, FormatErrorKind::Unexpected { expected, found }))
    }

    /// The cell in the bytes before the coordinates.
    fn cell(&self, head: &[u8]) -> Result<Option<Cell>, String> {
        self.cell_numbers(head).map_or(Ok(None), |numbers| self.convention.cell(numbers))
    }

    /// The numbers of the cell in these bytes, if frames have one.
    fn cell_numbers(&self, head: &[u8]) -> Option<[f64; 6]> {
        let first = self.marker as usize;
        let number = |n: usize| self.endian.f64(&head[first + 8 * n..]);
        self.has_cell.then(|| [0, 1, 2, 3, 4, 5].map(number))
    }
}

fn n_words(bytes: &Range<u64>) -> usize {
    (bytes.end - bytes.start) as usize / 4
}

/// Collects byte ranges to read one after the other into words.
struct Reads {
    ranges: Vec<Range<u64>>,
    n_words: usize,
}

impl Reads {
    /// Adds a range that starts at or after the end of the last, and returns the word it will
    /// start at. What lies between is read along if it is small.
    fn push(&mut self, bytes: Range<u64>) -> usize {
        let start = match self.ranges.last_mut() {
            Some(last) if bytes.start - last.end <= GAP_BYTES => {
                let start = self.n_words + n_words(&(last.end..bytes.start));
                last.end = bytes.end;
                start
            }
            _ => {
                self.ranges.push(bytes.clone());
                self.n_words
            }
        };
        self.n_words = start + n_words(&bytes);
        start
    }
}
