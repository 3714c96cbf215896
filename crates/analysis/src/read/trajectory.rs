//! A trajectory file of any format.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::dcd::{Dcd, Stamp};
use super::frame::{Frame, ReadPlan};
use super::netcdf::Netcdf;
use super::trr::Trr;
use super::xtc::Xtc;
use crate::{AtomSet, Error};

/// A trajectory file, any frame of which can be read by any thread.
#[derive(Debug)]
pub enum Trajectory {
    /// CHARMM, NAMD, OpenMM and others.
    Dcd(Dcd),
    /// GROMACS, compressed.
    Xtc(Xtc),
    /// GROMACS, in full precision.
    Trr(Trr),
    /// Amber.
    Netcdf(Netcdf),
}

impl Trajectory {
    /// Opens a file of any format, recognised by its first bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] for a file of none of them.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut start = [0; 4];
        let file =
            File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        match file.read_exact_at(&mut start, 0) {
            Ok(()) if Xtc::starts_with(start) => Xtc::open(path).map(Self::Xtc),
            Ok(()) if Trr::starts_with(start) => Trr::open(path).map(Self::Trr),
            Ok(()) if Netcdf::starts_with(start) => Netcdf::open(path).map(Self::Netcdf),
            _ => Dcd::open(path).map(Self::Dcd),
        }
    }

    /// Number of atoms in each frame.
    pub fn n_atoms(&self) -> usize {
        match self {
            Self::Dcd(dcd) => dcd.n_atoms(),
            Self::Xtc(xtc) => xtc.n_atoms(),
            Self::Trr(trr) => trr.n_atoms(),
            Self::Netcdf(netcdf) => netcdf.n_atoms(),
        }
    }

    /// Number of whole frames there were when the file was opened or last looked at.
    pub fn n_frames(&self) -> usize {
        match self {
            Self::Dcd(dcd) => dcd.n_frames(),
            Self::Xtc(xtc) => xtc.n_frames(),
            Self::Trr(trr) => trr.n_frames(),
            Self::Netcdf(netcdf) => netcdf.n_frames(),
        }
    }

    /// Bytes after the last whole frame: those of one that is being written, or was cut off.
    pub fn trailing_bytes(&self) -> u64 {
        match self {
            Self::Dcd(dcd) => dcd.trailing_bytes(),
            Self::Xtc(xtc) => xtc.trailing_bytes(),
            Self::Trr(trr) => trr.trailing_bytes(),
            Self::Netcdf(netcdf) => netcdf.trailing_bytes(),
        }
    }

    /// Frames that the file's header counts and that are not there, as when it was cut off.
    pub fn n_missing(&self) -> usize {
        match self {
            Self::Dcd(dcd) => dcd.n_missing(),
            Self::Netcdf(netcdf) => netcdf.n_missing(),
            Self::Xtc(_) | Self::Trr(_) => 0,
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
            Self::Trr(trr) => trr.refresh(),
            Self::Netcdf(netcdf) => netcdf.refresh(),
        }
    }

    /// The times of the first frame and the last in ps, if the file has the times of all frames and
    /// these do not descend. There must be a frame.
    pub(super) fn span_ps(&self) -> Option<[f64; 2]> {
        match self {
            Self::Dcd(dcd) => Some([dcd.time_ps(0)?, dcd.time_ps(dcd.n_frames() - 1)?]),
            Self::Xtc(xtc) => xtc.span_ps(),
            Self::Trr(trr) => trr.span_ps(),
            Self::Netcdf(netcdf) => netcdf.span_ps(),
        }
    }

    /// The time of a frame in ps, where the file has it.
    pub fn time_ps(&self, frame: usize) -> Option<f64> {
        match self {
            Self::Dcd(dcd) => dcd.time_ps(frame),
            Self::Xtc(xtc) => Some(xtc.time_ps(frame)),
            Self::Trr(trr) => Some(trr.time_ps(frame)),
            Self::Netcdf(netcdf) => netcdf.time_ps(frame),
        }
    }

    /// Prepares reading of these atoms.
    pub fn read_plan(&self, atoms: &AtomSet) -> ReadPlan {
        match self {
            Self::Dcd(dcd) => dcd.read_plan(atoms),
            Self::Xtc(xtc) => xtc.read_plan(atoms),
            Self::Trr(trr) => trr.read_plan(atoms),
            Self::Netcdf(netcdf) => netcdf.read_plan(atoms),
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
            Self::Xtc(_) | Self::Trr(_) | Self::Netcdf(_) => Ok(false),
        }
    }

    /// Reads the atoms of a plan from one frame, in place of what `into` held.
    ///
    /// This is the one way to coordinates that are calculated with, and they are checked here: what
    /// is read is finite, closer to the origin than 10⁶ Å, and not all in one point.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Format`] if there is no frame of this format; [`Error::Damaged`] if
    /// there is one, and its coordinates or its cell cannot be.
    pub fn read(&self, frame: usize, plan: &ReadPlan, into: &mut Frame) -> Result<(), Error> {
        self.read_as_it_is(frame, plan, into)?;
        match into.damage(plan) {
            None => Ok(()),
            Some(damage) => Err(Error::Damaged { path: self.path().to_owned(), frame, damage }),
        }
    }

    /// The same, whatever the coordinates are: to be copied and not to be calculated with.
    pub(super) fn read_as_it_is(
        &self,
        frame: usize,
        plan: &ReadPlan,
        into: &mut Frame,
    ) -> Result<(), Error> {
        match self {
            Self::Dcd(dcd) => dcd.read(frame, plan, into),
            Self::Xtc(xtc) => xtc.read(frame, plan, into),
            Self::Trr(trr) => trr.read(frame, plan, into),
            Self::Netcdf(netcdf) => netcdf.read(frame, plan, into),
        }
    }

    /// The lines of the file's title, of 80 bytes each; empty where it has none.
    pub(super) fn title(&self) -> &[u8] {
        match self {
            Self::Dcd(dcd) => dcd.title(),
            Self::Xtc(_) | Self::Trr(_) | Self::Netcdf(_) => &[],
        }
    }

    /// When the frames from `first` on by a stride were written, if they follow each other at equal
    /// times.
    pub(super) fn stamp(&self, first: usize, stride: usize, n_frames: usize) -> Option<Stamp> {
        match self {
            Self::Dcd(dcd) => dcd.stamp(first, stride),
            Self::Xtc(xtc) => xtc.stamp(first, stride, n_frames),
            Self::Trr(trr) => trr.stamp(first, stride, n_frames),
            Self::Netcdf(netcdf) => netcdf.stamp(first, stride, n_frames),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Dcd(dcd) => dcd.path(),
            Self::Xtc(xtc) => xtc.path(),
            Self::Trr(trr) => trr.path(),
            Self::Netcdf(netcdf) => netcdf.path(),
        }
    }
}
