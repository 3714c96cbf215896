//! DCD: Fortran records of 32-bit coordinates, as CHARMM, NAMD, X-PLOR and OpenMM write them.
//!
//! After a header every frame takes the same number of bytes, and in it all x stand before all y
//! before all z, so any atoms of any frame can be read alone. The number of frames follows from the
//! size of the file, since the header's count is wrong after a crash and while the file grows.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Frame, Window};
use crate::error::{FormatError, Place, Problem};
use crate::{AtomSet, Cell, Error};

/// The unit of time in which the header has the time step.
const AKMA_PS: f64 = 0.048_888_21;

/// Bytes that are cheaper to read than to skip.
const GAP_BYTES: u64 = 16 * 1024;

const CELL_BYTES: u64 = 48;

/// A DCD file.
#[derive(Debug)]
pub struct Dcd {
    file: File,
    path: PathBuf,
    layout: Layout,
    clock: Option<Clock>,
    fixed: Option<Box<Fixed>>,
    n_frames: usize,
    /// Frames that the header tells of.
    n_told: usize,
    n_bytes_left: u64,
}

/// Where everything stands in the file.
#[derive(Clone, Copy, Debug)]
struct Layout {
    endian: Endian,
    /// Size of the length before and after each record, 4 bytes or 8.
    marker: u64,
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
    /// The atoms that later frames do have.
    free: Vec<usize>,
    free_window: Window,
    first_frame: Frame,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    first_step: f64,
    steps_per_frame: f64,
    step_ps: f64,
}

impl Dcd {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] if this is no DCD file of coordinates.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let mut records = Records::new(&file, path)?;
        let header = records.header()?;
        records.title()?;
        let n_atoms = records.n_atoms()?;
        let n_fixed = header.n_fixed.clamp(0, n_atoms as i32) as usize;
        let n_free = n_atoms - n_fixed;
        let free = if n_fixed > 0 { records.free_atoms(n_free, n_atoms)? } else { Vec::new() };
        let layout = Layout {
            endian: records.endian,
            marker: records.marker,
            n_atoms,
            n_free,
            has_cell: records.cell_follows(n_atoms)?.unwrap_or(header.has_cell),
            has_4d: header.has_4d,
            first_frame: records.at,
        };
        let (clock, path, n_told) = (header.clock, path.to_owned(), header.n_frames);
        let mut dcd = Self { file, path, layout, clock, fixed: None, n_frames: 0, n_told, n_bytes_left: 0 };
        if dcd.refresh()? > 0 && n_fixed > 0 {
            let mut first_frame = Frame::new();
            dcd.read(0, &dcd.window(&AtomSet::all(n_atoms)), &mut first_frame)?;
            let free_window = layout.window(&AtomSet::all(n_free), n_free);
            dcd.fixed = Some(Box::new(Fixed { free, free_window, first_frame }));
        }
        Ok(dcd)
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
    pub fn n_bytes_left(&self) -> u64 {
        self.n_bytes_left
    }

    /// Frames that the header tells of and the file does not have, as when it was cut off.
    pub fn n_missing(&self) -> usize {
        self.n_told.saturating_sub(self.n_frames)
    }

    /// Looks at the size of the file again, and returns the number of whole frames.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn refresh(&mut self) -> Result<usize, Error> {
        let size = self.file.metadata().map_err(|source| self.io(source))?.len();
        let size = size.saturating_sub(self.layout.first_frame);
        let (first, next) = (self.layout.frame_bytes(0), self.layout.frame_bytes(1));
        let n_later = size.checked_sub(first).map(|rest| rest / next);
        self.n_frames = n_later.map_or(0, |n| n as usize + 1);
        self.n_bytes_left = size - n_later.map_or(0, |n| first + n * next);
        Ok(self.n_frames)
    }

    /// The time of a frame in ps, if the header tells the time step.
    pub fn time_ps(&self, frame: usize) -> Option<f64> {
        self.clock.map(|clock| (clock.first_step + frame as f64 * clock.steps_per_frame) * clock.step_ps)
    }

    /// Prepares reading of these atoms.
    pub fn window(&self, atoms: &AtomSet) -> Window {
        self.layout.window(atoms, self.layout.n_atoms)
    }

    /// Reads the atoms of a window from one frame, in place of what `into` held.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] if no frame starts where one should.
    pub fn read(&self, frame: usize, window: &Window, into: &mut Frame) -> Result<(), Error> {
        match &self.fixed {
            Some(fixed) if frame > 0 => self.read_free(frame, window, fixed, into),
            _ => self.read_columns(frame, window, into),
        }
    }

    fn read_columns(&self, frame: usize, window: &Window, into: &mut Frame) -> Result<(), Error> {
        let start = self.layout.frame_start(frame);
        let n_bytes: u64 = window.reads.iter().map(|bytes| bytes.end - bytes.start).sum();
        into.words.resize(n_bytes as usize / 4, 0.0);
        let mut rest: &mut [u8] = bytemuck::cast_slice_mut(&mut into.words);
        for bytes in &window.reads {
            let (part, after) = rest.split_at_mut((bytes.end - bytes.start) as usize);
            self.file.read_exact_at(part, start + bytes.start).map_err(|source| self.io(source))?;
            rest = after;
        }
        let head = bytemuck::cast_slice(&into.words[..self.layout.column(0, 0) as usize / 4]);
        let cell = self.layout.cell(head, self.layout.n_atoms_of(frame));
        into.cell = cell.map_err(|(byte, problem)| format_error(&self.path, start + byte as u64, problem))?;
        into.columns = window.columns.map(|first| first..first + window.n_slots);
        if self.layout.endian.big != cfg!(target_endian = "big") {
            into.words.iter_mut().for_each(|word| *word = f32::from_bits(word.to_bits().swap_bytes()));
        }
        Ok(())
    }

    /// Reads a frame without the fixed atoms, which are as they were in the first frame.
    fn read_free(&self, frame: usize, window: &Window, fixed: &Fixed, into: &mut Frame) -> Result<(), Error> {
        let mut moved = Frame::new();
        self.read_columns(frame, &fixed.free_window, &mut moved)?;
        into.words.clear();
        for k in 0..3 {
            for (atoms, _) in &window.runs {
                into.words.extend_from_slice(&fixed.first_frame.column(k)[atoms.clone()]);
            }
            into.columns[k] = k * window.n_slots..(k + 1) * window.n_slots;
        }
        for (nth, atom) in fixed.free.iter().enumerate() {
            if let Some(slot) = window.slot(*atom) {
                (0..3).for_each(|k| into.words[k * window.n_slots + slot] = moved.column(k)[nth]);
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

    fn window(&self, atoms: &AtomSet, n_atoms: usize) -> Window {
        let mut window = Window::new(atoms, GAP_BYTES as usize / 4);
        let mut reads = Reads { ranges: Vec::new(), n_words: 0 };
        reads.push(0..self.column(0, n_atoms));
        for axis in 0..3 {
            let start = self.column(axis as u64, n_atoms);
            let bytes = |atoms: &Range<usize>| start + 4 * atoms.start as u64..start + 4 * atoms.end as u64;
            let words: Vec<_> = window.runs.iter().map(|(atoms, _)| reads.push(bytes(atoms))).collect();
            window.columns[axis] = words.first().copied().unwrap_or(0);
        }
        window.reads = reads.ranges;
        window
    }

    /// The cell in the bytes before the coordinates, which also tell whether a frame starts here.
    fn cell(&self, head: &[u8], n_atoms: usize) -> Result<Option<Cell>, (usize, Problem)> {
        let record = |at: usize, expected: u64, name| match self.endian.length(&head[at..], self.marker) {
            found if found == expected => Ok(()),
            found => Err((at, Problem::Unexpected { expected: name, found: format!("a record of {found} bytes") })),
        };
        let marker = self.marker as usize;
        if !self.has_cell {
            record(0, 4 * n_atoms as u64, "the x coordinates of all atoms")?;
            return Ok(None);
        }
        let end = marker + CELL_BYTES as usize;
        record(0, CELL_BYTES, "a cell of 48 bytes")?;
        record(end, CELL_BYTES, "the end of a cell of 48 bytes")?;
        record(end + marker, 4 * n_atoms as u64, "the x coordinates of all atoms")?;
        let numbers = [0, 1, 2, 3, 4, 5].map(|n| self.endian.f64(&head[marker + 8 * n..]));
        cell(numbers).map_err(|found| (marker, Problem::Unexpected { expected: "a periodic cell", found }))
    }
}

/// The cell that six numbers mean, in the conventions that programs have had over time.
///
/// # Errors
///
/// The numbers in words, if they span no volume.
fn cell(numbers: [f64; 6]) -> Result<Option<Cell>, String> {
    let [a, gamma, b, beta, alpha, c] = numbers;
    if [a, b, c] == [0.0; 3] || [a, b, c] == [1.0; 3] {
        return Ok(None);
    }
    let angles = [alpha, beta, gamma];
    let cell = if angles.iter().all(|v| v.abs() <= 1.0) {
        // NAMD, OpenMM; and CHARMM's matrix of a cell along the axes.
        Cell::from_lengths_cosines([a, b, c], angles)
    } else if angles.iter().all(|v| (20.0..=160.0).contains(v)) {
        Cell::from_lengths_angles([a, b, c], angles)
    } else {
        // CHARMM: the lower triangle of a symmetric matrix, xx, xy, yy, xz, yz, zz.
        Cell::from_vectors([[a, gamma, beta], [gamma, b, alpha], [beta, alpha, c]])
    };
    cell.map(Some).ok_or_else(|| format!("{numbers:?}"))
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
        let n_words = |from: u64, to: u64| (to - from) as usize / 4;
        let start = match self.ranges.last_mut() {
            Some(last) if bytes.start - last.end <= GAP_BYTES => {
                let start = self.n_words + n_words(last.end, bytes.start);
                last.end = bytes.end;
                start
            }
            _ => {
                self.ranges.push(bytes.clone());
                self.n_words
            }
        };
        self.n_words = start + n_words(bytes.start, bytes.end);
        start
    }
}

/// What the first record says.
struct Header {
    n_frames: usize,
    n_fixed: i32,
    has_cell: bool,
    has_4d: bool,
    clock: Option<Clock>,
}

/// The records at the start of a file, one after the other.
struct Records<'a> {
    file: &'a File,
    path: &'a Path,
    size: u64,
    at: u64,
    endian: Endian,
    marker: u64,
}

impl<'a> Records<'a> {
    /// Tells byte order and marker size by the length of the first record, which is 84 in each.
    fn new(file: &'a File, path: &'a Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let size = file.metadata().map_err(io)?.len();
        let mut records = Self { file, path, size, at: 0, endian: Endian { big: false }, marker: 4 };
        let start = records.bytes(12.min(size) as usize)?;
        (records.marker, records.endian.big) = match start.as_slice() {
            [84, 0, 0, 0, b'C', b'O', b'R', b'D', ..] => (4, false),
            [0, 0, 0, 84, b'C', b'O', b'R', b'D', ..] => (4, true),
            [84, 0, 0, 0, 0, 0, 0, 0, b'C', b'O', b'R', b'D'] => (8, false),
            [0, 0, 0, 0, 0, 0, 0, 84, b'C', b'O', b'R', b'D'] => (8, true),
            other => {
                let found = format!("{:?}", String::from_utf8_lossy(other));
                return Err(records.error(Problem::Unexpected { expected: "a record of 84 bytes with `CORD`", found }));
            }
        };
        Ok(records)
    }

    fn header(&mut self) -> Result<Header, Error> {
        let record = self.record()?;
        let endian = self.endian;
        let int = |n: usize| endian.i32(&record[4 + 4 * n..]);
        let is_charmm = int(19) != 0;
        let step_akma = if is_charmm { f64::from(endian.f32(&record[40..])) } else { endian.f64(&record[40..]) };
        let step_ps = seven_digits(step_akma * AKMA_PS);
        let clock = Clock { first_step: f64::from(int(1)), steps_per_frame: f64::from(int(2)), step_ps };
        let runs = clock.steps_per_frame > 0.0 && clock.step_ps > 0.0 && clock.step_ps.is_finite();
        Ok(Header {
            n_frames: usize::try_from(int(0)).unwrap_or(0),
            n_fixed: int(8),
            has_cell: is_charmm && int(10) == 1,
            has_4d: is_charmm && int(11) == 1,
            clock: runs.then_some(clock),
        })
    }

    /// Skips the title. MDAnalysis has written records that are longer than their markers say and as
    /// long as their number of lines does.
    fn title(&mut self) -> Result<(), Error> {
        let start = self.at;
        let Err(error) = self.record() else { return Ok(()) };
        self.at = start;
        let head = self.marker + 4;
        if self.size - start < head {
            return Err(error);
        }
        let head_bytes = self.bytes(head as usize)?;
        let n_lines = u64::try_from(self.endian.i32(&head_bytes[self.marker as usize..])).unwrap_or(0);
        let end = start + head + 80 * n_lines;
        if end + self.marker > self.size {
            return Err(error);
        }
        self.at = end;
        let closes = self.bytes(self.marker as usize)? == head_bytes[..self.marker as usize];
        self.at = if closes { end + self.marker } else { start };
        if closes { Ok(()) } else { Err(error) }
    }

    fn n_atoms(&mut self) -> Result<usize, Error> {
        let start = self.at;
        let record = self.record()?;
        let n_atoms = if record.len() == 4 { self.endian.i32(&record) } else { -1 };
        match usize::try_from(n_atoms) {
            Ok(0) => Err(self.error(Problem::NoAtoms)),
            Ok(n_atoms) => Ok(n_atoms),
            Err(_) => {
                let found = format!("{record:?}");
                self.at = start;
                Err(self.error(Problem::Unexpected { expected: "the number of atoms", found }))
            }
        }
    }

    /// The indices of the atoms that move, where the file counts from 1.
    fn free_atoms(&mut self, n_free: usize, n_atoms: usize) -> Result<Vec<usize>, Error> {
        let start = self.at;
        let record = self.record()?;
        let endian = self.endian;
        let atom =
            |bytes: &[u8]| usize::try_from(endian.i32(bytes)).ok()?.checked_sub(1).filter(|atom| *atom < n_atoms);
        let atoms: Option<Vec<_>> = record.chunks_exact(4).map(atom).collect();
        atoms.filter(|atoms| 4 * n_free == record.len() && atoms.is_sorted_by(|a, b| a < b)).ok_or_else(|| {
            let found = format!("{} bytes of something else", record.len());
            self.at = start;
            self.error(Problem::Unexpected { expected: "the indices of the free atoms", found })
        })
    }

    /// Whether the next record is a cell, if its length tells.
    fn cell_follows(&self, n_atoms: usize) -> Result<Option<bool>, Error> {
        if self.size - self.at < self.marker || 4 * n_atoms as u64 == CELL_BYTES {
            return Ok(None);
        }
        let length = self.endian.length(&self.bytes(self.marker as usize)?, self.marker);
        Ok(Some(length == CELL_BYTES))
    }

    /// The next record, without its markers.
    fn record(&mut self) -> Result<Vec<u8>, Error> {
        let endian = self.endian;
        let room = (self.size - self.at).saturating_sub(2 * self.marker);
        let length = match room {
            0 => 0,
            _ => endian.length(&self.bytes(self.marker as usize)?, self.marker),
        };
        if length == 0 || length > room {
            let found = format!("one of {length} bytes, with {room} left");
            return Err(self.error(Problem::Unexpected { expected: "a record of the header", found }));
        }
        self.at += self.marker;
        let record = self.bytes(length as usize)?;
        self.at += length;
        let end = endian.length(&self.bytes(self.marker as usize)?, self.marker);
        if end != length {
            let found = format!("{end}");
            return Err(self.error(Problem::Unexpected { expected: "the length of the record again", found }));
        }
        self.at += self.marker;
        Ok(record)
    }

    fn bytes(&self, n_bytes: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; n_bytes];
        self.file
            .read_exact_at(&mut bytes, self.at)
            .map_err(|source| Error::Io { path: self.path.to_owned(), source })?;
        Ok(bytes)
    }

    fn error(&self, problem: Problem) -> Error {
        format_error(self.path, self.at, problem)
    }
}

/// A number rounded to seven digits, as the time step has no more: 2 fs comes as 0.002000000006 ps.
fn seven_digits(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return x;
    }
    let unit = 10_f64.powi(6 - x.log10().floor() as i32);
    (x * unit).round() / unit
}

fn format_error(path: &Path, byte: u64, problem: Problem) -> Error {
    let source = FormatError { format: "DCD", place: Place::Byte(byte), problem };
    Error::Format { path: path.to_owned(), source }
}

/// The byte order of a file, and numbers in it.
#[derive(Clone, Copy, Debug)]
struct Endian {
    big: bool,
}

impl Endian {
    fn array<const N: usize>(self, bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&bytes[..N]);
        if self.big {
            array.reverse();
        }
        array
    }

    fn i32(self, bytes: &[u8]) -> i32 {
        i32::from_le_bytes(self.array(bytes))
    }

    fn f32(self, bytes: &[u8]) -> f32 {
        f32::from_le_bytes(self.array(bytes))
    }

    fn f64(self, bytes: &[u8]) -> f64 {
        f64::from_le_bytes(self.array(bytes))
    }

    /// The length of a record in a marker of 4 or 8 bytes.
    fn length(self, bytes: &[u8], marker: u64) -> u64 {
        if marker == 8 { u64::from_le_bytes(self.array(bytes)) } else { u32::from_le_bytes(self.array(bytes)).into() }
    }
}
