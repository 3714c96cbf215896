//! What can go wrong with files and requests.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::params::InvalidParams;
use crate::topology::InvalidTopology;

/// Why a file cannot be read or an analysis not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system failed.
    #[error("read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        #[source]
        source: io::Error,
    },
    /// A file is not what it has to be.
    #[error("read {}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        #[source]
        source: FormatError,
    },
    /// Topology and trajectory are of different systems.
    #[error("the topology has {topology} atoms and the trajectory {trajectory}")]
    AtomCount {
        /// Atoms of the topology.
        topology: usize,
        /// Atoms in each frame.
        trajectory: usize,
    },
    /// Files of one trajectory are of different systems.
    #[error("{} has {other} atoms and the file before it {first}", path.display())]
    Parts {
        /// The file that differs.
        path: PathBuf,
        /// Atoms in frames of the first file.
        first: usize,
        /// Atoms in frames of this one.
        other: usize,
    },
    /// The trajectory has no whole frame.
    #[error("no whole frame in the trajectory")]
    NoFrames,
    /// An analysis of no atoms.
    #[error("no atom in {label:?}")]
    EmptyGroup {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
    },
    /// A group was selected from another topology.
    #[error("{label:?} was selected from another topology")]
    ForeignGroup {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
    },
    /// A centre of mass of atoms without mass.
    #[error("the atoms of {label:?} have no mass")]
    NoMass {
        /// The group.
        label: String,
    },
    /// A parameter is out of its bounds.
    #[error("{name} must be {bounds}")]
    Parameter {
        /// Which analysis of the request.
        analysis: usize,
        /// The parameter.
        name: &'static str,
        /// What it can be.
        bounds: &'static str,
    },
    /// Parameters that ask for what cannot be.
    #[error("the parameters are not valid")]
    Params(#[source] InvalidParams),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// What is wrong with the content of a file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{format}, {place}: {problem}")]
pub struct FormatError {
    /// What it was read as.
    pub format: &'static str,
    /// Where in the file.
    pub place: Place,
    /// What is wrong.
    pub problem: Problem,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Bytes from the start, of binary files.
    Byte(u64),
    /// Lines from 1, of text files.
    Line(usize),
    /// The file as a whole.
    Whole,
}

/// What is wrong at a place in a file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// Something else stands there.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What the format has there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The file holds no atom.
    #[error("no atom in it")]
    NoAtoms,
    /// The parts contradict each other.
    #[error("the parts do not fit together")]
    Topology(#[source] InvalidTopology),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(byte) => write!(f, "byte {byte}"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Whole => f.write_str("whole file"),
        }
    }
}
