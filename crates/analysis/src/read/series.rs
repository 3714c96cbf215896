//! One file or several that are one trajectory.

use std::path::PathBuf;

use super::frame::{Frame, ReadPlan};
use super::trajectory::Trajectory;
use crate::error::Damage;
use crate::{AtomSet, Cell, Error};

/// Files with the frames of one trajectory, one file after the other.
#[derive(Debug)]
pub struct Series {
    parts: Vec<Trajectory>,
    /// The frame that each part starts with, and the number of frames.
    firsts: Vec<usize>,
    /// Whether each file begins after the end of the one before it.
    has_times: bool,
}

/// Two files in a row of which the second does not begin after the end of the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlap {
    /// The name of the first.
    pub before: String,
    /// When it ends.
    pub end_ps: f64,
    /// The name of the second.
    pub after: String,
    /// When that begins.
    pub start_ps: f64,
}

impl Series {
    /// Opens files in their order, of any formats.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`]; [`Error::NoFrames`] if there is no file, and
    /// [`Error::Parts`] if they are not of one system.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut parts: Vec<Trajectory> = Vec::new();
        for path in paths {
            let part = Trajectory::open(path)?;
            let first = parts.first().map_or(part.n_atoms(), Trajectory::n_atoms);
            // A file without a frame may not have its number of atoms.
            if part.n_atoms() != first && part.n_frames() > 0 {
                return Err(Error::Parts { path: path.clone(), first, other: part.n_atoms() });
            }
            if part.n_frames() > 0 || parts.is_empty() {
                parts.push(part);
            }
        }
        if parts.is_empty() {
            return Err(Error::NoFrames);
        }
        Ok(Self::new(parts))
    }

    fn new(parts: Vec<Trajectory>) -> Self {
        let mut series = Self { parts, firsts: Vec::new(), has_times: false };
        series.count();
        series
    }

    /// Bytes after the last whole frames of the files.
    pub fn trailing_bytes(&self) -> u64 {
        self.parts.iter().map(Trajectory::trailing_bytes).sum()
    }

    /// Frames that headers count and that are not there.
    pub fn n_missing(&self) -> usize {
        self.parts.iter().map(Trajectory::n_missing).sum()
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        self.parts[0].n_atoms()
    }

    /// Number of whole frames in all files.
    pub fn n_frames(&self) -> usize {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Looks at the files again, and returns the number of whole frames.
    ///
    /// # Errors
    ///
    /// See [`Trajectory::refresh`].
    pub fn refresh(&mut self) -> Result<usize, Error> {
        self.parts.iter_mut().try_for_each(|part| part.refresh().map(drop))?;
        self.count();
        Ok(self.n_frames())
    }

    fn count(&mut self) {
        self.firsts = vec![0];
        for part in &self.parts {
            self.firsts.push(self.n_frames() + part.n_frames());
        }
        // Tools that do not know the times of frames write the same into all.
        let are_times =
            |(part, span): &(&Trajectory, [f64; 2])| part.n_frames() == 1 || span[0] < span[1];
        self.has_times = self.spans().is_some_and(|spans| spans.iter().all(are_times))
            && self.overlap().is_none();
    }

    /// The files with frames, each with its first and last time in ps.
    fn spans(&self) -> Option<Vec<(&Trajectory, [f64; 2])>> {
        let parts = self.parts.iter().filter(|part| part.n_frames() > 0);
        parts.map(|part| Some((part, part.span_ps()?))).collect()
    }

    /// The first file that begins before the end of the one before it, or with that.
    pub(crate) fn overlap(&self) -> Option<Overlap> {
        let spans = self.spans()?;
        let name = |part: &Trajectory| {
            part.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let mut pairs = spans.windows(2);
        let [(before, [_, end_ps]), (after, [start_ps, _])] =
            pairs.find(|pair| pair[0].1[1] >= pair[1].1[0])?
        else {
            return None;
        };
        Some(Overlap {
            before: name(before),
            end_ps: *end_ps,
            after: name(after),
            start_ps: *start_ps,
        })
    }

    /// The part that has a frame, and which of its frames that is.
    fn find(&self, frame: usize) -> (usize, usize) {
        let part = self.firsts.partition_point(|first| *first <= frame) - 1;
        (part, frame - self.firsts[part])
    }

    /// The time of a frame in ps, if every file has times and begins after the end of the one
    /// before it.
    pub fn time_ps(&self, frame: usize) -> Option<f64> {
        let (part, frame) = self.find(frame);
        self.parts[part].time_ps(frame).filter(|_| self.has_times)
    }

    /// Whether frames have times.
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// Whether the cells of a file may have been meant in another way than they are taken.
    ///
    /// # Errors
    ///
    /// See [`Trajectory::has_doubtful_cell`].
    pub fn has_doubtful_cell(&self) -> Result<bool, Error> {
        let mut parts = self.parts.iter().map(Trajectory::has_doubtful_cell);
        parts.try_fold(false, |any, doubtful| Ok(any || doubtful?))
    }

    /// The error that a frame is damaged.
    pub(crate) fn damaged(&self, frame: usize, damage: Damage) -> Error {
        let (part, frame) = self.find(frame);
        Error::Damaged { path: self.parts[part].path().to_owned(), frame, damage }
    }

    /// The cell of the first frame; none where that has none, or cannot be read, which is found and
    /// reported where it matters.
    pub fn first_cell(&self) -> Option<Cell> {
        let plan = self.read_plan(&AtomSet::none(self.n_atoms()));
        let mut frame = Frame::new();
        self.read(0, &plan, &mut frame).ok()?;
        frame.cell().copied()
    }

    /// Prepares reading of these atoms.
    pub fn read_plan(&self, atoms: &AtomSet) -> ReadPlan {
        // Gaps that one format reads along are read in all, so that every file has the same slots.
        let mut read = atoms.clone();
        for part in &self.parts {
            part.read_plan(&read)
                .runs
                .into_iter()
                .flat_map(|(run, _)| run)
                .for_each(|atom| read.insert(atom));
        }
        let of_parts: Vec<_> = self.parts.iter().map(|part| part.read_plan(&read)).collect();
        ReadPlan { of_parts: of_parts.clone(), ..of_parts[0].clone() }
    }

    /// Reads the atoms of a plan from one frame, in place of what `into` held.
    ///
    /// # Errors
    ///
    /// See [`Trajectory::read`].
    pub fn read(&self, frame: usize, plan: &ReadPlan, into: &mut Frame) -> Result<(), Error> {
        let (part, frame) = self.find(frame);
        self.parts[part].read(frame, &plan.of_parts[part], into)
    }
}

impl From<Trajectory> for Series {
    fn from(trajectory: Trajectory) -> Self {
        Self::new(vec![trajectory])
    }
}
