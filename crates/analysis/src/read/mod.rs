//! Structures and trajectories from files.

mod bonds;
mod contents;
mod dcd;
mod decimal;
mod excerpt;
mod frame;
mod mmcif;
mod pdb;
mod series;
mod structure;
mod trajectory;
mod xtc;

use std::fs;
use std::io::{self, BufRead};
use std::path::Path;

pub(crate) use bonds::Family;
pub use contents::{ChainContents, Contents, Heterogen, MissingPlace, MissingRun, ResidueKind};
pub use dcd::Dcd;
pub use excerpt::Excerpt;
pub(crate) use frame::FARTHEST;
pub use frame::{Frame, ReadPlan};
pub use series::Series;
pub use structure::Structure;
pub use trajectory::Trajectory;
pub use xtc::{Xtc, XtcIndex};

use crate::error::{Error, FormatError};

impl Structure {
    /// Reads a PDB or mmCIF file; recognised by its first words.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] with the line.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let structure =
            if mmcif::is_mmcif(&text) { Self::from_mmcif(&text) } else { Self::from_pdb(&text) };
        structure.map_err(|source| Error::Format { path: path.to_owned(), source })
    }

    /// Reads the text of a PDB file.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_pdb(text: &str) -> Result<Self, FormatError> {
        pdb::parse(text)
    }

    /// Whether a text is a PDB file that [`from_pdb`](Self::from_pdb) reads; takes the memory of a
    /// line.
    ///
    /// # Errors
    ///
    /// What cannot be read of it; within, [`FormatError`] with the line.
    pub fn check_pdb(text: impl BufRead) -> io::Result<Result<(), FormatError>> {
        pdb::check(text)
    }

    /// Reads the text of an mmCIF file, of which the first block with atoms counts.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_mmcif(text: &str) -> Result<Self, FormatError> {
        mmcif::parse(text)
    }
}

impl Contents {
    /// What a PDB file contains; takes the memory of a line and of what is listed.
    ///
    /// # Errors
    ///
    /// What cannot be read of it; within, [`FormatError`] with the line.
    pub fn of_pdb(text: impl BufRead) -> io::Result<Result<Self, FormatError>> {
        pdb::contents(text)
    }

    /// What the text of an mmCIF file contains, of which the first block with atoms counts.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn of_mmcif(text: &str) -> Result<Self, FormatError> {
        mmcif::contents(text)
    }
}
