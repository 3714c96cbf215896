//! What a DCD file says before its first frame.

use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::cell::Convention;
use crate::Error;
use crate::error::{FormatError, FormatErrorKind, Place};
use crate::read::decimal::{Decimal, fewest_digits};

/// Size of the record of a cell.
pub(crate) const CELL_BYTES: u64 = 48;

/// The unit of time in which the header has the time step.
const AKMA_PS: f64 = 0.048_888_21;

/// Bytes of a title that are kept: eight lines.
pub(super) const MAX_TITLE: usize = 8 * LINE;
const LINE: usize = 80;

/// The version that files of ours have, as most others.
const VERSION: i32 = 24;

/// What can be a time step, in ps; other numbers in its place are something else, as are zeros.
const STEPS_PS: RangeInclusive<f64> = 1e-9..=1e6;

/// What the first record says.
pub(super) struct Header {
    pub(super) n_frames: usize,
    pub(super) n_fixed: i32,
    pub(super) has_cell: bool,
    pub(super) has_4d: bool,
    pub(super) clock: Option<Clock>,
    version: i32,
}

/// When frames were written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    first_step: i64,
    steps_per_frame: i64,
    step_ps: Decimal,
}

impl Clock {
    /// The time of a frame in ps.
    pub(super) fn time_ps(self, frame: usize) -> f64 {
        self.step_ps.times(self.first_step + frame as i64 * self.steps_per_frame)
    }
}

/// When frames were written, as a header has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stamp {
    first_step: i32,
    steps_per_frame: i32,
    step_ps: f64,
}

impl Stamp {
    /// Of frames of which the first is of step `first_step`, and each `steps_per_frame` after the
    /// one before; none if that is not between 1 and what 32 bits count.
    pub(crate) fn new(first_step: i64, steps_per_frame: i64, step_ps: f64) -> Option<Self> {
        let first_step = i32::try_from(first_step).ok()?;
        let steps_per_frame = i32::try_from(steps_per_frame).ok().filter(|steps| *steps > 0)?;
        STEPS_PS.contains(&step_ps).then_some(Self { first_step, steps_per_frame, step_ps })
    }

    /// Of frames at these times in ps, if they follow each other at equal times, and begin after so
    /// many parts of these.
    pub(crate) fn of_times(mut times: impl Iterator<Item = f64>) -> Option<Self> {
        // Times of 32 bits are not quite at equal steps.
        const TOLERANCE: f64 = 1e-3;
        const MAX_PARTS: i64 = 1000;
        let (start, second) = (times.next()?, times.next()?);
        let step = second - start;
        let mut at = second;
        let are_equal = times.all(|time| {
            at += step;
            (time - at).abs() <= TOLERANCE * step
        });
        let whole = |parts: i64| {
            let steps = start / step * parts as f64;
            (steps - steps.round()).abs() <= TOLERANCE && step > 0.0
        };
        let parts = (1..=MAX_PARTS).find(|parts| whole(*parts)).filter(|_| are_equal)?;
        let part = step / parts as f64;
        Self::new((start / part).round() as i64, parts, part)
    }
}

impl Clock {
    /// When frames from `first` on by a stride were written.
    pub(super) fn stamp(self, first: usize, stride: usize) -> Option<Stamp> {
        let Self { first_step, steps_per_frame, step_ps } = self;
        let (first, stride) = (i64::try_from(first).ok()?, i64::try_from(stride).ok()?);
        let at = first.checked_mul(steps_per_frame)?.checked_add(first_step)?;
        let interval = stride.checked_mul(steps_per_frame)?;
        Stamp::new(at, interval, step_ps.times(1)).or_else(|| {
            // Fewer and longer steps take as long, where these are whole.
            let is_whole = at % steps_per_frame == 0;
            let step_ps = step_ps.times(steps_per_frame);
            Stamp::new(at / steps_per_frame, stride, step_ps).filter(|_| is_whole)
        })
    }
}

/// The records before the first frame of a little-endian file of version 24.
///
/// Lines of the title that would have cells read in another way are left out.
pub(crate) fn header(
    n_atoms: usize,
    n_frames: usize,
    has_cell: bool,
    stamp: Option<Stamp>,
    title: &[u8],
) -> Vec<u8> {
    let n_frames = i32::try_from(n_frames).unwrap_or(i32::MAX);
    let stamp = stamp.unwrap_or(Stamp { first_step: 0, steps_per_frame: 1, step_ps: 0.0 });
    let mut control = [0; 20];
    control[0] = n_frames;
    control[1] = stamp.first_step;
    control[2] = stamp.steps_per_frame;
    control[3] = n_frames.saturating_mul(stamp.steps_per_frame);
    control[9] = ((stamp.step_ps / AKMA_PS) as f32).to_bits().cast_signed();
    control[10] = i32::from(has_cell);
    control[19] = VERSION;
    let numbers = control.into_iter().flat_map(i32::to_le_bytes);
    let control: Vec<u8> = b"CORD".iter().copied().chain(numbers).collect();

    let lines = title.chunks_exact(LINE).flatten().copied().collect::<Vec<u8>>();
    let is_kept = !lines.is_empty() && Convention::of(VERSION, &lines) == Convention::ByNumbers;
    let lines = if is_kept { lines } else { format!("{:LINE$}", "Created by molbox").into() };
    let n_lines = (lines.len() / LINE) as i32;
    let title = [&n_lines.to_le_bytes()[..], &lines].concat();

    let mut header = Vec::new();
    for record in [&control, &title, &(n_atoms as i32).to_le_bytes()[..]] {
        let marker = (record.len() as u32).to_le_bytes();
        header.extend([&marker[..], record, &marker[..]].concat());
    }
    header
}

impl Header {
    /// How the file writes cells, which follows from its title too.
    pub(super) fn convention(&self, title: &[u8]) -> Convention {
        Convention::of(self.version, title)
    }
}

/// The records at the start of a file, one after the other.
pub(super) struct Records<'a> {
    file: &'a File,
    path: &'a Path,
    pub(super) size: u64,
    pub(super) at: u64,
    pub(super) endian: Endian,
    pub(super) marker: u64,
}

impl<'a> Records<'a> {
    /// Tells byte order and marker size by the length of the first record, which is 84 in each.
    pub(super) fn new(file: &'a File, path: &'a Path) -> Result<Self, Error> {
        let metadata = file.metadata();
        let metadata = metadata.map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let size = metadata.len();
        let mut records =
            Self { file, path, size, at: 0, endian: Endian { big: false }, marker: 4 };
        let start = records.bytes(12.min(size) as usize)?;
        (records.marker, records.endian.big) = match start.as_slice() {
            [84, 0, 0, 0, b'C', b'O', b'R', b'D', ..] => (4, false),
            [0, 0, 0, 84, b'C', b'O', b'R', b'D', ..] => (4, true),
            [84, 0, 0, 0, 0, 0, 0, 0, b'C', b'O', b'R', b'D'] => (8, false),
            [0, 0, 0, 0, 0, 0, 0, 84, b'C', b'O', b'R', b'D'] => (8, true),
            other => {
                let found = format!("{:?}", String::from_utf8_lossy(other));
                return Err(records.error(FormatErrorKind::Unexpected {
                    expected: "a record of 84 bytes with `CORD`",
                    found,
                }));
            }
        };
        Ok(records)
    }

    pub(super) fn header(&mut self) -> Result<Header, Error> {
        let record = self.record()?;
        let endian = self.endian;
        let int = |n: usize| endian.i32(&record[4 + 4 * n..]);
        let is_charmm = int(19) != 0;
        let step_akma = if is_charmm {
            f64::from(endian.f32(&record[40..]))
        } else {
            endian.f64(&record[40..])
        };
        let step_ps = step_akma * AKMA_PS;
        let first_step = i64::from(int(1));
        let steps_per_frame = i64::from(int(2));
        // VMD writes 1 in the place of a step, as LAMMPS does for one of a femtosecond: 49 fs by that.
        let is_step = step_akma != 1.0 && STEPS_PS.contains(&step_ps);
        let runs = steps_per_frame > 0 && is_step;
        Ok(Header {
            n_frames: usize::try_from(int(0)).unwrap_or(0),
            n_fixed: int(8),
            has_cell: is_charmm && int(10) == 1,
            has_4d: is_charmm && int(11) == 1,
            clock: runs.then(|| Clock {
                first_step,
                steps_per_frame,
                // Times of steps of 1 fs were 0.9999999 ps and not 1 ps without this.
                step_ps: fewest_digits(step_ps),
            }),
            version: int(19),
        })
    }

    /// The lines of the title, one after another. MDAnalysis has written records that are longer
    /// than their markers say and as long as their number of lines does.
    pub(super) fn title(&mut self) -> Result<Vec<u8>, Error> {
        let start = self.at;
        let error = match self.record() {
            Ok(record) => return Ok(record.get(4..).unwrap_or_default().to_vec()),
            Err(error) => error,
        };
        self.at = start;
        let head = self.marker + 4;
        if self.size - start < head {
            return Err(error);
        }
        let head_bytes = self.bytes(head as usize)?;
        let n_lines =
            u64::try_from(self.endian.i32(&head_bytes[self.marker as usize..])).unwrap_or(0);
        let end = start + head + 80 * n_lines;
        if end + self.marker > self.size {
            return Err(error);
        }
        self.at = start + head;
        let lines = self.bytes((end - self.at) as usize)?;
        self.at = end;
        let closes = self.bytes(self.marker as usize)? == head_bytes[..self.marker as usize];
        self.at = if closes { end + self.marker } else { start };
        if closes { Ok(lines) } else { Err(error) }
    }

    pub(super) fn n_atoms(&mut self) -> Result<usize, Error> {
        let start = self.at;
        let record = self.record()?;
        let n_atoms = if record.len() == 4 { self.endian.i32(&record) } else { -1 };
        match usize::try_from(n_atoms) {
            Ok(0) => Err(self.error(FormatErrorKind::NoAtoms)),
            Ok(n_atoms) => Ok(n_atoms),
            Err(_) => {
                let found = format!("{record:?}");
                self.at = start;
                Err(self
                    .error(FormatErrorKind::Unexpected { expected: "the number of atoms", found }))
            }
        }
    }

    /// How many atoms move.
    pub(super) fn n_free(&self, n_fixed: i32, n_atoms: usize) -> Result<usize, Error> {
        let n_free = usize::try_from(n_fixed).ok().and_then(|n_fixed| n_atoms.checked_sub(n_fixed));
        n_free.filter(|n_free| *n_free > 0).ok_or_else(|| {
            let found = format!("{n_fixed} of {n_atoms}");
            self.error(FormatErrorKind::Unexpected { expected: "a number of fixed atoms", found })
        })
    }

    /// The indices of the atoms that move, where the file counts from 1.
    pub(super) fn free_atoms(
        &mut self,
        n_free: usize,
        n_atoms: usize,
    ) -> Result<Vec<usize>, Error> {
        let start = self.at;
        let record = self.record()?;
        let endian = self.endian;
        let numbers = record.chunks_exact(4).map(|bytes| usize::try_from(endian.i32(bytes)).ok());
        let atoms: Option<Vec<_>> =
            numbers.map(|n| n?.checked_sub(1).filter(|atom| *atom < n_atoms)).collect();
        atoms
            .filter(|atoms| 4 * n_free == record.len() && atoms.is_sorted_by(|a, b| a < b))
            .ok_or_else(|| {
                let found = format!("{} bytes of something else", record.len());
                self.at = start;
                self.error(FormatErrorKind::Unexpected {
                    expected: "the indices of the free atoms",
                    found,
                })
            })
    }

    /// Whether the next record is a cell, if that follows from its length.
    pub(super) fn cell_follows(&self, n_atoms: usize) -> Result<Option<bool>, Error> {
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
            return Err(self
                .error(FormatErrorKind::Unexpected { expected: "a record of the header", found }));
        }
        self.at += self.marker;
        let record = self.bytes(length as usize)?;
        self.at += length;
        let end = endian.length(&self.bytes(self.marker as usize)?, self.marker);
        if end != length {
            let found = format!("{end}");
            return Err(self.error(FormatErrorKind::Unexpected {
                expected: "the length of the record again",
                found,
            }));
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

    fn error(&self, problem: FormatErrorKind) -> Error {
        format_error(self.path, self.at, problem)
    }
}

/// The byte order of a file, and numbers in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endian {
    pub(super) big: bool,
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

    pub(super) fn f64(self, bytes: &[u8]) -> f64 {
        f64::from_le_bytes(self.array(bytes))
    }

    /// The length of a record in a marker of 4 or 8 bytes.
    pub(super) fn length(self, bytes: &[u8], marker: u64) -> u64 {
        if marker == 8 {
            u64::from_le_bytes(self.array(bytes))
        } else {
            u32::from_le_bytes(self.array(bytes)).into()
        }
    }
}

pub(super) fn format_error(path: &Path, byte: u64, problem: FormatErrorKind) -> Error {
    let source = FormatError { format: "DCD", place: Place::Byte(byte), problem };
    Error::Format { path: path.to_owned(), source }
}
