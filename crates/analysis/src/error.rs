//! What can go wrong with files and requests.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::Topology;
use crate::topology::InvalidTopology;
use crate::violation::InvalidParams;

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
    /// A frame is whole, and its numbers cannot be positions or a cell.
    #[error("{}, frame {frame} (counted from 0): {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The frame in this file, counted from 0.
        frame: usize,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Every frame that would have been analysed is damaged.
    #[error("none of {n_frames} frames can be analysed, all are damaged")]
    AllDamaged {
        /// Frames that were looked at.
        n_frames: usize,
        /// What is wrong with the first of them.
        #[source]
        first: Box<Self>,
    },
    /// Topology and trajectory are of different systems.
    #[error(
        "the topology has {topology} atoms and the trajectory {trajectory}{}",
        of_locations(*topology, *trajectory, *left_out)
    )]
    AtomCount {
        /// Atoms of the topology.
        topology: usize,
        /// Atoms in each frame.
        trajectory: usize,
        /// Alternate locations that the file of the topology has besides, if that is known.
        left_out: usize,
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
    /// A frame that the trajectory does not have.
    #[error("there is no frame {frame}, counted from 0; the trajectory has {n_frames}")]
    NoSuchFrame {
        /// The frame.
        frame: usize,
        /// Whole frames of the trajectory.
        n_frames: usize,
    },
    /// RMSD of atoms that the reference lacks.
    #[error("the reference lacks atoms of {label:?}")]
    NotInReference {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
    },
    /// Atoms that leave a rotation open, so that what is measured after it is arbitrary.
    #[error("{label:?} cannot be superposed: {problem}")]
    NoRotation {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// Why.
        problem: &'static str,
    },
    /// A result is no number though all that was read is: a fault of this crate.
    #[error("{table}: row {row} of {column} is not a finite number; please report this")]
    NotFinite {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The row, from 0.
        row: usize,
    },
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
    /// Atoms between which there can be no hydrogen bond.
    #[error("{label:?} has {problem}, so that there is no hydrogen bond to look for")]
    NoHydrogenBonds {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// What it lacks.
        problem: &'static str,
    },
    /// A surface of atoms without a radius.
    #[error("no atom of {label:?} has an element, and with it a radius")]
    NoRadius {
        /// The group.
        label: String,
    },
    /// No pair of atoms that is in contact in the reference.
    #[error(
        "no heavy atoms of {:?} and {:?}, four residues apart or more, are within {max_distance} Å in the reference, so \
         that there are no native contacts", labels[0], labels[1]
    )]
    NoNativeContacts {
        /// Which analysis of the request.
        analysis: usize,
        /// The groups.
        labels: [String; 2],
        /// Largest distance of a contact in Å.
        max_distance: f64,
    },
    /// What needs a volume, of a trajectory without a cell.
    #[error("the trajectory has no periodic cell, and without its volume there is no density")]
    NoCell {
        /// Which analysis of the request.
        analysis: usize,
    },
    /// A cell whose faces are not perpendicular to an axis.
    #[error(
        "the edges of the cell lean against {axis}, so that no slice across it has a constant area; take a box, or \
         another axis"
    )]
    LeaningCell {
        /// Which analysis of the request.
        analysis: usize,
        /// The axis.
        axis: &'static str,
    },
    /// A coarse-grained lipid that is selected whole, and no grain of which is known for its head.
    #[error(
        "all grains of {residue} are selected by {label:?}, and no name tells which are its head; \
         select the grains of the heads"
    )]
    NoHead {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// The first residue of the lipid.
        residue: String,
    },
    /// Lipids that all are on one side.
    #[error(
        "the lipids of {label:?} are all on one side of their centre along {axis}, so that there are no two leaflets; \
         name another axis, or lipids of both"
    )]
    NoLeaflets {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// The axis.
        axis: &'static str,
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

/// What is wrong with the numbers of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Damage {
    /// A coordinate is no number, or larger than anything in a simulation.
    Position {
        /// The atom, counted from 0.
        atom: usize,
        /// Its chain, residue and name, where the topology is known.
        label: Option<String>,
        /// What stands there, in Å.
        position: [f32; 3],
    },
    /// All atoms lie in one point.
    OnePoint {
        /// Atoms that were read.
        n_atoms: usize,
    },
    /// The cell is not finite, spans no volume, or is larger or smaller than any.
    Cell {
        /// What stands there.
        numbers: String,
    },
    /// There is no cell, though the first analysed frame has one.
    NoCell,
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
    pub problem: FormatErrorKind,
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
pub enum FormatErrorKind {
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
    /// The file holds more atoms than are read.
    #[error("more than {most} atoms")]
    TooManyAtoms {
        /// How many are read.
        most: usize,
    },
    /// The parts contradict each other.
    #[error("the parts do not fit together")]
    Topology(#[source] InvalidTopology),
}

/// So much of a text tells what it is.
const MOST_SHOWN: usize = 60;

impl FormatErrorKind {
    /// Something else stands there, of which the start is shown.
    pub(crate) fn unexpected_text(expected: &'static str, found: &str) -> Self {
        let found = match found.char_indices().nth(MOST_SHOWN) {
            Some((end, _)) => format!("`{}…`", &found[..end]),
            None => format!("`{found}`"),
        };
        Self::Unexpected { expected, found }
    }
}

/// What alternate locations of a structure may have to do with atoms that a trajectory has more or
/// less of.
fn of_locations(topology: usize, trajectory: usize, left_out: usize) -> String {
    let were = if left_out == 1 { "alternate location was" } else { "alternate locations were" };
    match left_out {
        0 => String::new(),
        _ if trajectory == topology + left_out => format!(
            "; of the structure {left_out} {were} left out, and the trajectory seems to have all: \
             give the structure as GRO, or with column 17 blank, so that each is an atom"
        ),
        _ => format!(
            "; of the structure {left_out} {were} left out, the first of each atom being taken: \
             give the structure that was simulated, as the one that a bundle has beside the \
             trajectory"
        ),
    }
}

impl Error {
    /// The same, with how many alternate locations of atoms the structure has that names them: where
    /// numbers of atoms differ it may be these.
    #[must_use]
    pub fn with_locations(mut self, n_locations: usize) -> Self {
        if let Self::AtomCount { left_out, .. } = &mut self {
            *left_out = n_locations;
        }
        self
    }

    /// Names the atom that it is about.
    pub(crate) fn label(&mut self, topology: &Topology) {
        match self {
            Self::Damaged { damage: Damage::Position { atom, label, .. }, .. } => {
                *label = Some(topology.atom_label(*atom));
            }
            Self::AllDamaged { first, .. } => first.label(topology),
            _ => {}
        }
    }

    /// Whether it is about a single frame, which can be left out.
    pub(crate) fn is_of_a_frame(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Format { .. })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position { atom, label, position: [x, y, z] } => {
                let label = label.as_ref().map_or_else(String::new, |label| format!(", {label},"));
                write!(f, "atom {}{label} is at ({x}, {y}, {z}) Å", atom + 1)
            }
            Self::OnePoint { n_atoms } => {
                write!(f, "all {n_atoms} atoms that were read lie in one point")
            }
            Self::Cell { numbers } => write!(f, "{numbers} is no periodic cell"),
            Self::NoCell => f.write_str("no periodic cell, though the first frame has one"),
        }
    }
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
