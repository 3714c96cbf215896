//! Structures and trajectories from files.

mod bonds;
mod close;
mod coarse;
mod contents;
mod dcd;
mod decimal;
mod excerpt;
mod frame;
mod gro;
mod guess;
mod interleaved;
mod join;
mod mmcif;
mod netcdf;
mod pdb;
mod prmtop;
mod psf;
mod series;
mod sites;
mod structure;
mod trajectory;
mod trr;
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
pub use netcdf::Netcdf;
pub use series::{Overlap, Series};
pub use structure::Structure;
pub use trajectory::Trajectory;
pub use trr::Trr;
pub use xtc::{Xtc, XtcIndex};

use crate::error::{Error, FormatError, FormatErrorKind, Place};
use crate::{Topology, Warning};

/// What names the atoms of a trajectory.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a program has one or two, and moves them once")]
pub enum TopologyFile {
    /// PDB, mmCIF or GRO: where the atoms are, too.
    Structure(Structure),
    /// Amber's prmtop or PSF: types and charges of a force field, but no positions.
    Topology(Topology),
}

impl TopologyFile {
    /// Reads a PDB, mmCIF, GRO, prmtop or PSF file; recognised by its first words.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] with the line.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::from_text(&text_of(path)?).map_err(|source| format_error(path, source))
    }

    /// The same of a text.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_text(text: &str) -> Result<Self, FormatError> {
        with_line_ends("topology", text)?;
        if prmtop::is_prmtop(text) {
            Topology::from_prmtop(text).map(Self::Topology)
        } else if psf::is_psf(text) {
            Topology::from_psf(text).map(Self::Topology)
        } else {
            Structure::from_text(text).map(Self::Structure)
        }
    }

    /// The atoms.
    pub fn topology(&self) -> &Topology {
        match self {
            Self::Structure(structure) => &structure.topology,
            Self::Topology(topology) => topology,
        }
    }

    /// Where they are, in Å, if the file says so.
    pub fn positions(&self) -> Option<&[[f64; 3]]> {
        match self {
            Self::Structure(structure) => Some(&structure.positions),
            Self::Topology(_) => None,
        }
    }

    /// Alternate locations of atoms that it has besides the first of each, which is taken.
    pub fn n_locations(&self) -> usize {
        match self {
            Self::Structure(structure) => structure.n_locations(),
            Self::Topology(_) => 0,
        }
    }

    /// What may be wrong with it for naming the atoms of a trajectory.
    pub fn warnings(&self) -> Vec<Warning> {
        let Self::Structure(structure) = self else { return Vec::new() };
        let apart =
            structure.apart().map(|(n_atoms, first)| Warning::AtomsApart { n_atoms, first });
        let mut warnings: Vec<Warning> = apart.into_iter().collect();
        if structure.is_coarse() {
            warnings.push(Warning::CoarseGrains);
            return warnings;
        }
        let n_atoms = structure.n_far_hydrogens();
        if n_atoms > 0 {
            warnings.push(Warning::FarHydrogens { n_atoms });
        }
        warnings
    }
}

impl Topology {
    /// Reads the text of an Amber prmtop file. Masses are those of the file, or those of the
    /// elements where hydrogens have been made heavier. Without chains in it all residues are in
    /// one chain without an id, and their numbers are counted from 1.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_prmtop(text: &str) -> Result<Self, FormatError> {
        prmtop::parse(text)
    }

    /// Reads the text of a PSF file of any kind; its segments are chains. Elements follow from
    /// masses. These are those of the file, or of the elements where hydrogens have been made
    /// heavier.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_psf(text: &str) -> Result<Self, FormatError> {
        psf::parse(text)
    }
}

fn text_of(path: &Path) -> Result<String, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Refuses a text of one line in which others are, by which no format would be recognised.
fn with_line_ends(format: &'static str, text: &str) -> Result<(), FormatError> {
    let checked = structure::check_line_ends(text);
    checked.map_err(|problem| FormatError { format, place: Place::Line(1), problem })
}

fn format_error(path: &Path, source: FormatError) -> Error {
    Error::Format { path: path.to_owned(), source }
}

impl Structure {
    /// Reads a PDB, mmCIF or GRO file; recognised by its first words.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or [`Error::Format`] with the line.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::from_text(&text_of(path)?).map_err(|source| format_error(path, source))
    }

    /// The same of a text.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_text(text: &str) -> Result<Self, FormatError> {
        with_line_ends("structure", text)?;
        if prmtop::is_prmtop(text) || psf::is_psf(text) {
            let expected = "a structure (PDB, mmCIF, GRO)";
            let found = "a topology without positions".to_owned();
            let problem = FormatErrorKind::Unexpected { expected, found };
            return Err(FormatError { format: "structure", place: Place::Line(1), problem });
        }
        if mmcif::is_mmcif(text) {
            Self::from_mmcif(text)
        } else if gro::is_gro(text) {
            Self::from_gro(text)
        } else {
            Self::from_pdb(text)
        }
    }

    /// Reads the text of a GRO file, of which the first frame counts. It has neither chains nor
    /// elements nor bonds: elements follow from names, bonds as those of a PDB file.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_gro(text: &str) -> Result<Self, FormatError> {
        gro::parse(text)
    }

    /// Whether a text may be a GRO file of so many atoms at most, by its first line, its number of
    /// atoms and their positions; takes the memory of a line.
    ///
    /// # Errors
    ///
    /// What cannot be read of it; within, [`FormatError`] with the line.
    pub fn check_gro(text: impl BufRead, most: usize) -> io::Result<Result<(), FormatError>> {
        gro::check(text, most)
    }

    /// Reads the text of a PDB file.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn from_pdb(text: &str) -> Result<Self, FormatError> {
        pdb::parse(text)
    }

    /// Whether a text is a PDB file that [`from_pdb`](Self::from_pdb) reads, of so many atoms at
    /// most; takes the memory of a residue.
    ///
    /// # Errors
    ///
    /// What cannot be read of it; within, [`FormatError`] with the line.
    pub fn check_pdb(text: impl BufRead, most: usize) -> io::Result<Result<(), FormatError>> {
        pdb::check(text, most)
    }

    /// Whether a text is an mmCIF file that [`from_mmcif`](Self::from_mmcif) reads, of so many atoms
    /// at most; takes the memory of a residue besides that of the text.
    ///
    /// # Errors
    ///
    /// [`FormatError`] with the line.
    pub fn check_mmcif(text: &str, most: usize) -> Result<(), FormatError> {
        mmcif::check(text, most)
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
