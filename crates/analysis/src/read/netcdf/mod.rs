//! NetCDF as Amber writes trajectories: classic files (CDF-1, 2 and 5) with its convention's names.
//!
//! <https://ambermd.org/netcdf/nctraj.xhtml> has the convention, and
//! <https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html> the format. All
//! variables of a frame stand together, so any atoms of any frame can be read alone.

mod header;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use self::header::{Header, HeaderError, Layout, Variable};
use super::dcd::Stamp;
use super::decimal::shortest;
use super::frame::{Frame, ReadPlan};
use super::interleaved::{self, Interleaved, read_numbers};
use crate::error::{Damage, FormatError, FormatErrorKind, Place};
use crate::{AtomSet, Cell, Error};

/// NetCDF-4 is HDF5, which takes a library of its own.
const HDF5: [u8; 4] = *b"\x89HDF";

/// A frame takes 8 bytes of memory, and 12 bytes of a file are one.
const MAX_FRAMES: usize = 10_000_000;

/// A trajectory in NetCDF.
#[derive(Debug)]
pub struct Netcdf {
    file: File,
    path: PathBuf,
    n_atoms: usize,
    coordinates: Variable,
    time: Option<Variable>,
    /// Lengths and angles.
    cell: Option<[Variable; 2]>,
    layout: Layout,
    /// In ps, of each frame, if there are times.
    times: Vec<f64>,
    n_frames: usize,
    n_in_header: usize,
    trailing_bytes: u64,
}

impl Netcdf {
    /// Whether a file that starts so is NetCDF of any kind, also of one that is not read.
    pub(super) fn starts_with(bytes: [u8; 4]) -> bool {
        bytes[..3] == *b"CDF" || bytes == HDF5
    }

    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] if this is no classic NetCDF file of Amber's convention,
    /// or has more than ten million frames.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let mut bytes = vec![0; size.min(header::MAX_BYTES) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(io)?;
        let failed = |error| format_error(path, error);
        if bytes.starts_with(&HDF5) {
            let found =
                "NetCDF-4 (HDF5); `nccopy -k cdf5 IN.nc OUT.nc` makes it classic".to_owned();
            let expected = "classic NetCDF (CDF-1, CDF-2 or CDF-5)";
            return Err(failed(HeaderError { at: 0, expected, found }));
        }
        let header = Header::parse(&bytes).map_err(failed)?;
        let trajectory = header.trajectory().map_err(failed)?;
        let mut netcdf = Self {
            file,
            path: path.to_owned(),
            n_atoms: trajectory.n_atoms,
            coordinates: trajectory.coordinates,
            time: trajectory.time,
            cell: trajectory.cell,
            layout: trajectory.layout,
            times: Vec::new(),
            n_frames: 0,
            n_in_header: 0,
            trailing_bytes: 0,
        };
        netcdf.refresh()?;
        Ok(netcdf)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Number of whole frames there were when the file was opened or last looked at.
    pub fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// Bytes after the last whole frame.
    pub fn trailing_bytes(&self) -> u64 {
        self.trailing_bytes
    }

    /// Frames that the header counts and the file does not have.
    pub fn n_missing(&self) -> usize {
        self.n_in_header.saturating_sub(self.n_frames)
    }

    /// The time of a frame in ps, if the file has times.
    pub fn time_ps(&self, frame: usize) -> Option<f64> {
        let time = *self.times.get(frame)?;
        let is_double = self.time.as_ref().is_some_and(|variable| variable.is_double);
        Some(if is_double { time } else { shortest(time as f32) })
    }

    /// The times of the first frame and the last in ps, if there are any, all are numbers and none
    /// is before the one before it.
    pub(super) fn span_ps(&self) -> Option<[f64; 2]> {
        let are_times = self.times.iter().all(|time| time.is_finite()) && self.times.is_sorted();
        let last = self.n_frames.checked_sub(1).filter(|_| are_times)?;
        Some([self.time_ps(0)?, self.time_ps(last)?])
    }

    pub(super) fn stamp(&self, first: usize, stride: usize, n_frames: usize) -> Option<Stamp> {
        Stamp::of_times((0..n_frames).map_while(|nth| self.time_ps(first + nth * stride)))
    }

    /// Looks at the file again, and returns the number of whole frames.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] for more than ten million frames.
    pub fn refresh(&mut self) -> Result<usize, Error> {
        let size = self.file.metadata().map_err(|source| self.io(source))?.len();
        let mut start = [0; 12];
        self.file.read_exact_at(&mut start, 0).map_err(|source| self.io(source))?;
        let n_within = self.n_frames_within(size);
        // A header that does not count them leaves that to the size, as while it is written.
        let n_in_header = self.layout.n_frames(&start).unwrap_or(n_within);
        let n_frames = n_in_header.min(n_within);
        if n_frames > MAX_FRAMES as u64 {
            let expected = "ten million frames at most";
            let error = HeaderError { at: 4, expected, found: n_frames.to_string() };
            return Err(format_error(&self.path, error));
        }
        self.n_frames = n_frames as usize;
        self.n_in_header = usize::try_from(n_in_header).unwrap_or(usize::MAX);
        self.trailing_bytes = size.saturating_sub(self.layout.end(n_frames));
        self.times.truncate(self.n_frames);
        if let Some(time) = &self.time {
            for frame in self.times.len()..self.n_frames {
                let [value] = read_numbers(&self.file, time.byte(frame), time.is_double)
                    .map_err(|source| self.io(source))?;
                self.times.push(value * time.unit);
            }
        }
        Ok(self.n_frames)
    }

    /// Frames of which the file has all that is read.
    fn n_frames_within(&self, size: u64) -> u64 {
        let cell = self.cell.iter().flatten();
        let variables = [&self.coordinates].into_iter().chain(&self.time).chain(cell);
        variables.map(|variable| variable.n_within(size)).min().unwrap_or(0)
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
        let Variable { is_double, unit, .. } = self.coordinates;
        Interleaved { byte: self.coordinates.byte(frame), is_double, unit_angstrom: unit }
            .read(&self.file, plan, into)
            .map_err(|source| self.io(source))?;
        into.cell = None;
        let Some(cell) = &self.cell else { return Ok(()) };
        let [lengths, angles] = cell.each_ref().map(|variable| {
            let numbers: [f64; 3] =
                read_numbers(&self.file, variable.byte(frame), variable.is_double)?;
            Ok(numbers.map(|number| number * variable.unit))
        });
        let io = |source| self.io(source);
        let (lengths, angles) = (lengths.map_err(io)?, angles.map_err(io)?);
        // Programs that must write something write zeros where there is no cell.
        if lengths == [0.0; 3] {
            return Ok(());
        }
        into.cell = Cell::from_lengths_angles(lengths, angles);
        if into.cell.is_none() {
            let numbers = format!("{lengths:?} Å with {angles:?}°");
            let damage = Damage::Cell { numbers };
            return Err(Error::Damaged { path: self.path.clone(), frame, damage });
        }
        Ok(())
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }
}

fn format_error(path: &Path, HeaderError { at, expected, found }: HeaderError) -> Error {
    let problem = FormatErrorKind::Unexpected { expected, found };
    let source = FormatError { format: "NetCDF", place: Place::Byte(at as u64), problem };
    Error::Format { path: path.to_owned(), source }
}
