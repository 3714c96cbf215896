//! What the six numbers of a cell mean, in the conventions that programs have had over time.
//!
//! CHARMM from version 22 on, and cpptraj, write the lower triangle of a symmetric matrix: xx, xy,
//! yy, xz, yz, zz. CHARMM's coordinates lie in that cell; cpptraj makes the matrix of lengths and angles
//! alone, and writes the coordinates as they were, of Amber in a cell whose first edge is along x.
//! Before 2016 it wrote cosines, under the same version and title; now it writes a, b, c, α, β, γ, in
//! degrees, under version 21, of a cell whose edges make no symmetric matrix, as of Amber's octahedron.
//! All others write a, γ, b, β, α, c, the angles as cosines (NAMD, VMD, OpenMM,
//! LAMMPS, molbox) or in degrees (CHARMM before, mdtraj, OpenMM and MDAnalysis for a time). The
//! matrix of a cell whose angles are close to 90° has small elements off its diagonal, which look
//! like cosines; so who wrote the file decides first, and only then what the numbers can be.

use crate::Cell;
use crate::cell::{cross, dot};

/// The version that the others write, CHARMM's of 1996.
const VERSION_OF_OTHERS: i32 = 24;

/// The first version of CHARMM that writes a matrix.
const FIRST_WITH_MATRIX: i32 = 22;

/// Cosines as small as this come from rounding, and would make every box triclinic.
const NO_COSINE: f64 = 1e-9;

/// Angles this close to 90°, by their cosines, are not those of any shape that is chosen for a
/// simulation, but may well be elements of a matrix.
const ODD_COSINE: f64 = 0.2;

/// How a file writes cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Convention {
    /// A symmetric matrix.
    Matrix,
    /// The lengths and angles of one.
    OfCpptraj,
    /// The lengths, then the angles in degrees: cpptraj's, of what has no symmetric matrix.
    LengthsFirst,
    /// Lengths with cosines or degrees, or a matrix that can be neither.
    ByNumbers,
}

/// What the six numbers of a cell are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Nothing,
    Matrix,
    /// Lengths, and the cosines of the angles.
    Cosines,
    /// Lengths, and the angles.
    Degrees,
}

impl Convention {
    /// The convention of who wrote a file, by the version in its header and its title.
    ///
    /// CHARMM's titles start with an asterisk, and its versions have gone on after 24.
    pub(super) fn of(version: i32, title: &[u8]) -> Self {
        let title = String::from_utf8_lossy(title).to_ascii_lowercase();
        let is_charmm = version > VERSION_OF_OTHERS || title.starts_with('*');
        if title.contains("cpptraj") {
            if version < FIRST_WITH_MATRIX { Self::LengthsFirst } else { Self::OfCpptraj }
        } else if version < FIRST_WITH_MATRIX {
            Self::ByNumbers
        } else if is_charmm {
            Self::Matrix
        } else {
            Self::ByNumbers
        }
    }

    /// The cell that six numbers mean; none for lengths of 0, and of 1, which stand for no cell.
    ///
    /// # Errors
    ///
    /// The numbers in words, if they are no cell.
    pub(super) fn cell(self, numbers: [f64; 6]) -> Result<Option<Cell>, String> {
        let [a, gamma, b, beta, alpha, c] = self.interleaved(numbers);
        let angles = [alpha, beta, gamma];
        let matrix = [[a, gamma, beta], [gamma, b, alpha], [beta, alpha, c]];
        let cell = match self.meaning([a, gamma, b, beta, alpha, c]) {
            Meaning::Nothing => return Ok(None),
            Meaning::Matrix if self == Self::OfCpptraj => {
                Cell::from_vectors(matrix).and_then(|cell| {
                    let [a, gamma, b, beta, alpha, c] = cell.lengths_and_cosines();
                    Cell::from_lengths_cosines([a, b, c], [alpha, beta, gamma])
                })
            }
            Meaning::Matrix => Cell::from_vectors(matrix),
            Meaning::Cosines => Cell::from_lengths_cosines(
                [a, b, c],
                angles.map(|v| if v.abs() < NO_COSINE { 0.0 } else { v }),
            ),
            Meaning::Degrees => Cell::from_lengths_angles([a, b, c], angles),
        };
        cell.map(Some).ok_or_else(|| format!("{numbers:?}"))
    }

    /// The same as a, cos γ, b, cos β, cos α, c: the very numbers where they are that.
    ///
    /// # Errors
    ///
    /// The same.
    pub(super) fn lengths_and_cosines(self, numbers: [f64; 6]) -> Result<Option<[f64; 6]>, String> {
        let cell = self.cell(numbers)?;
        let are_cosines = self.meaning(self.interleaved(numbers)) == Meaning::Cosines;
        Ok(cell.map(|cell| if are_cosines { numbers } else { cell.lengths_and_cosines() }))
    }

    /// Six numbers in the order that most write.
    fn interleaved(self, numbers: [f64; 6]) -> [f64; 6] {
        match (self, numbers) {
            (Self::LengthsFirst, [a, b, c, alpha, beta, gamma]) => [a, gamma, b, beta, alpha, c],
            _ => numbers,
        }
    }

    fn meaning(self, [a, gamma, b, beta, alpha, c]: [f64; 6]) -> Meaning {
        let angles = [alpha, beta, gamma];
        let matrix = [[a, gamma, beta], [gamma, b, alpha], [beta, alpha, c]];
        let largest = angles.into_iter().map(f64::abs).fold(0.0, f64::max);
        if [a, b, c] == [0.0; 3] || [a, b, c] == [1.0; 3] {
            Meaning::Nothing
        } else if self == Self::OfCpptraj && (ODD_COSINE..=1.0).contains(&largest) {
            Meaning::Cosines
        } else if self == Self::LengthsFirst {
            Meaning::Degrees
        } else if self != Self::ByNumbers && is_positive_definite(matrix) {
            Meaning::Matrix
        } else if angles.iter().all(|v| v.abs() <= 1.0) {
            Meaning::Cosines
        } else if angles.iter().all(|v| (20.0..=160.0).contains(v)) {
            Meaning::Degrees
        } else {
            Meaning::Matrix
        }
    }

    /// Whether cpptraj wrote it, which knows no times of what it writes, and counts frames.
    pub(super) fn is_of_cpptraj(self) -> bool {
        matches!(self, Self::OfCpptraj | Self::LengthsFirst)
    }

    /// Whether numbers that are taken for cosines may as well be a matrix, or the other way round.
    pub(super) fn is_doubtful(self, [a, gamma, b, beta, alpha, c]: [f64; 6]) -> bool {
        let largest = [alpha, beta, gamma].into_iter().map(f64::abs).fold(0.0, f64::max);
        let has_cell = [a, b, c] != [0.0; 3] && [a, b, c] != [1.0; 3];
        let doubtful = match self {
            Self::Matrix | Self::LengthsFirst => NO_COSINE..NO_COSINE,
            Self::OfCpptraj => NO_COSINE..f64::INFINITY,
            Self::ByNumbers => NO_COSINE..ODD_COSINE,
        };
        has_cell && doubtful.contains(&largest)
    }
}

/// Whether a symmetric matrix has positive eigenvalues, as that of a cell has.
fn is_positive_definite([x, y, z]: [[f64; 3]; 3]) -> bool {
    x[0] > 0.0 && x[0] * y[1] - x[1] * y[0] > 0.0 && dot(x, cross(y, z)) > 0.0
}
