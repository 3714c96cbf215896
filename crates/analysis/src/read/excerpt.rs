//! Some atoms of some frames of a trajectory, as a DCD file that is never written.
//!
//! Every frame of a DCD file takes the same number of bytes, so what any byte of the file is
//! follows from its place: a part of it is made by reading the coordinates that it has, and nothing
//! else.

use std::ops::Range;

use super::dcd::{CELL_BYTES, ColumnReader, header};
use super::frame::{Frame, ReadPlan};
use super::trajectory::Trajectory;
use crate::{AtomSet, Cell, Error, FrameRange};

const MARKER: usize = 4;
/// The record of a cell.
const CELL_RECORD: usize = CELL_BYTES as usize + 2 * MARKER;

/// A DCD file of some atoms and frames of a trajectory, of which any bytes can be read.
///
/// It is little-endian and of version 24, its cells are lengths with cosines, and it has times
/// where the trajectory has them at equal steps. A trajectory whose first frame has no cell makes one
/// without cells. Coordinates are copied whatever they are.
#[derive(Debug)]
pub struct Excerpt {
    source: Source,
    /// The atoms, each run with the number of its first among those of the file.
    runs: Vec<(Range<usize>, usize)>,
    n_atoms: usize,
    first: usize,
    stride: usize,
    n_frames: usize,
    header: Vec<u8>,
    /// The frame whose cell was read last, and the record of that.
    cell: Option<(usize, [u8; CELL_RECORD])>,
    has_cell: bool,
}

/// Where coordinates come from.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an excerpt has one, and is moved a few times")]
enum Source {
    /// Those of any atoms along an axis can be read alone.
    Columns(ColumnReader),
    /// Frames are read whole, as far as they have atoms that are wanted; one is held.
    Frames { trajectory: Trajectory, plan: ReadPlan, held: Option<usize>, frame: Frame },
}

impl Excerpt {
    /// The file of these atoms in the frames of a range.
    ///
    /// # Errors
    ///
    /// [`Error::AtomCount`] for atoms of something else, [`Error::Io`].
    pub fn new(trajectory: Trajectory, atoms: &AtomSet, frames: FrameRange) -> Result<Self, Error> {
        if atoms.n_atoms() != trajectory.n_atoms() {
            let (topology, found) = (atoms.n_atoms(), trajectory.n_atoms());
            return Err(Error::AtomCount { topology, trajectory: found, left_out: 0 });
        }
        let mut runs = Vec::new();
        let mut n_atoms = 0;
        for run in atoms.ranges() {
            runs.push((run.clone(), n_atoms));
            n_atoms += run.len();
        }
        let n_frames = frames.of(trajectory.n_frames()).len();
        let stride = frames.stride.get();
        let stamp = trajectory.stamp(frames.first, stride, n_frames);
        let title = trajectory.title().to_owned();
        let plan = trajectory.read_plan(atoms);
        let source = match trajectory {
            Trajectory::Dcd(dcd) if !dcd.has_fixed() => Source::Columns(ColumnReader::new(dcd)),
            trajectory => Source::Frames { trajectory, plan, held: None, frame: Frame::new() },
        };
        let mut excerpt = Self {
            source,
            runs,
            n_atoms,
            first: frames.first,
            stride,
            n_frames,
            header: Vec::new(),
            cell: None,
            has_cell: true,
        };
        excerpt.has_cell = n_frames > 0 && excerpt.cell_numbers(frames.first)?.is_some();
        excerpt.header = header(n_atoms, n_frames, excerpt.has_cell, stamp, &title);
        Ok(excerpt)
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Number of frames.
    pub fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// Number of bytes of the file.
    pub fn size(&self) -> u64 {
        self.header.len() as u64 + self.n_frames as u64 * self.frame_bytes()
    }

    /// Reads bytes of the file from a place on, all of which must be within it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] and [`Error::Damaged`] for a frame that is none. What
    /// `into` holds is then undefined.
    pub fn read(&mut self, mut from: u64, into: &mut [u8]) -> Result<(), Error> {
        debug_assert!(from + into.len() as u64 <= self.size(), "bytes of the file");
        let mut rest = into;
        while !rest.is_empty() {
            let n = match self.header.get(from as usize..) {
                Some(header) if !header.is_empty() => copy(header, rest),
                _ => {
                    let from = from - self.header.len() as u64;
                    let frame = self.first + (from / self.frame_bytes()) as usize * self.stride;
                    self.read_frame(frame, (from % self.frame_bytes()) as usize, rest)?
                }
            };
            from += n as u64;
            rest = &mut rest[n..];
        }
        Ok(())
    }

    fn frame_bytes(&self) -> u64 {
        (self.cell_bytes() + 3 * self.column_bytes()) as u64
    }

    fn cell_bytes(&self) -> usize {
        if self.has_cell { CELL_RECORD } else { 0 }
    }

    /// The record of the coordinates along an axis.
    fn column_bytes(&self) -> usize {
        4 * self.n_atoms + 2 * MARKER
    }

    /// Reads bytes of a frame from a place in it on, at least one and as many as belong to one
    /// record at most; their number.
    fn read_frame(&mut self, frame: usize, at: usize, into: &mut [u8]) -> Result<usize, Error> {
        let Some(at) = at.checked_sub(self.cell_bytes()) else {
            return Ok(copy(&self.cell_record(frame)?[at..], into));
        };
        let (axis, at) = (at / self.column_bytes(), at % self.column_bytes());
        let marker = (4 * self.n_atoms as u32).to_le_bytes();
        let end = MARKER + 4 * self.n_atoms;
        if at < MARKER {
            return Ok(copy(&marker[at..], into));
        }
        if at >= end {
            return Ok(copy(&marker[at - end..], into));
        }
        let (nth, skipped) = ((at - MARKER) / 4, (at - MARKER) % 4);
        let n_whole = (into.len() / 4).min(self.n_atoms - nth);
        if skipped > 0 || n_whole == 0 {
            let mut one = [0; 4];
            self.coordinates(frame, axis, nth, &mut one)?;
            return Ok(copy(&one[skipped..], into));
        }
        self.coordinates(frame, axis, nth, &mut into[..4 * n_whole])?;
        Ok(4 * n_whole)
    }

    /// The record of a frame's cell; zeros for a frame without one among others.
    fn cell_record(&mut self, frame: usize) -> Result<[u8; CELL_RECORD], Error> {
        if let Some((_, record)) = self.cell.filter(|(last, _)| *last == frame) {
            return Ok(record);
        }
        let numbers = self.cell_numbers(frame)?.unwrap_or_default();
        let mut record = [0; CELL_RECORD];
        let marker = (CELL_BYTES as u32).to_le_bytes();
        record[..MARKER].copy_from_slice(&marker);
        for (nth, number) in numbers.into_iter().enumerate() {
            record[MARKER + 8 * nth..][..8].copy_from_slice(&number.to_le_bytes());
        }
        record[CELL_RECORD - MARKER..].copy_from_slice(&marker);
        self.cell = Some((frame, record));
        Ok(record)
    }

    /// a, cos γ, b, cos β, cos α, c of a frame that has a cell.
    fn cell_numbers(&mut self, frame: usize) -> Result<Option<[f64; 6]>, Error> {
        match &mut self.source {
            Source::Columns(columns) => columns.cell_numbers(frame),
            Source::Frames { trajectory, plan, held, frame: into } => {
                hold(trajectory, plan, held, into, frame)?;
                Ok(into.cell().map(Cell::lengths_and_cosines))
            }
        }
    }

    /// The coordinates of a frame along an axis, from the `nth` atom of the file on.
    fn coordinates(
        &mut self,
        frame: usize,
        axis: usize,
        mut nth: usize,
        mut into: &mut [u8],
    ) -> Result<(), Error> {
        if let Source::Columns(columns) = &mut self.source {
            return columns.read(frame, axis, &self.runs, nth, into);
        }
        let Source::Frames { trajectory, plan, held, frame: read } = &mut self.source else {
            return Ok(());
        };
        hold(trajectory, plan, held, read, frame)?;
        let mut run = self.runs.partition_point(|(_, first)| *first <= nth) - 1;
        while !into.is_empty() {
            let (atoms, first) = &self.runs[run];
            let n = (first + atoms.len() - nth).min(into.len() / 4);
            let slot = plan.slot(atoms.start + nth - first).expect("atoms of runs are read");
            for (bytes, x) in into.chunks_exact_mut(4).zip(&read.column(axis)[slot..slot + n]) {
                bytes.copy_from_slice(&x.to_le_bytes());
            }
            into = &mut into[4 * n..];
            nth += n;
            run += 1;
        }
        Ok(())
    }
}

/// Reads a frame unless it is the one that is held.
fn hold(
    trajectory: &Trajectory,
    plan: &ReadPlan,
    held: &mut Option<usize>,
    into: &mut Frame,
    frame: usize,
) -> Result<(), Error> {
    if *held != Some(frame) {
        *held = None;
        trajectory.read_as_it_is(frame, plan, into)?;
        *held = Some(frame);
    }
    Ok(())
}

/// Copies what fits; the number of bytes.
fn copy(from: &[u8], into: &mut [u8]) -> usize {
    let n = from.len().min(into.len());
    into[..n].copy_from_slice(&from[..n]);
    n
}
