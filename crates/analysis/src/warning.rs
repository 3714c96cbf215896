//! What the user should know about the numbers.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::mask::{MaskWarning, WithoutImages};
use crate::read::Overlap;
use crate::violation::Field;

/// Something about a request or its files that may make the numbers other than expected.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// A group holds several molecules, the images of which are chosen one by one.
    SeveralMolecules {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// Molecules it has atoms of.
        n_molecules: usize,
    },
    /// A molecule of a group is written apart from others that an image of it is next to.
    WrittenApart {
        /// Index in the request.
        analysis: usize,
        /// The group.
        label: String,
        /// The first atom of one of them, in words.
        first_atom: String,
    },
    /// Molecules are broken across the boundary in the trajectory, and were made whole by their
    /// bonds.
    BrokenMolecules,
    /// Hydrogens of the structure that names the atoms are far from all atoms that they could be
    /// bonded to.
    FarHydrogens {
        /// How many.
        n_atoms: usize,
    },
    /// Atoms have the chain, number and name of a residue that the structure lists before, and are
    /// too far from it to be of it.
    AtomsApart {
        /// How many.
        n_atoms: usize,
        /// The first of them.
        first: String,
    },
    /// The trajectory ends with part of a frame, which was left out.
    PartOfAFrame {
        /// Bytes after the last whole frame.
        n_bytes: u64,
    },
    /// The header of the trajectory counts more frames than there are, as when it was cut off.
    MissingFrames {
        /// How many more.
        n_frames: usize,
    },
    /// The files do not have the times of their frames, or not in ascending order, so that there
    /// are none in the results.
    NoTimes,
    /// Files of the trajectory do not begin after the end of the one before them.
    PartsOverlap(Overlap),
    /// The times of the frames are no equal steps, so that a number of frames is no length of time.
    UnevenTimes,
    /// The times of the frames are so far from 0 that the 32 bits of the file round them to much of a
    /// step.
    RoundedTimes {
        /// From one time that 32 bits hold to the next, in ps.
        spacing_ps: f64,
        /// The mean of the steps, where it is known well enough for lifetimes in ps.
        step_ps: Option<f64>,
    },
    /// The cell of the first frame was taken for lengths and cosines, and could be CHARMM's matrix.
    DoubtfulCell,
    /// Damaged frames were left out, as the request allows.
    LeftOut {
        /// Which, counted from 0.
        frames: Vec<usize>,
    },
    /// Fewer frames than were analysed have rows of their own, as these would be too many.
    Thinned {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// Of how many frames one is kept.
        step: usize,
        /// Frames that are kept.
        n_kept: usize,
    },
    /// There is only one frame.
    OneFrame,
    /// The structure has coarse grains in place of atoms.
    CoarseGrains,
    /// Atoms without a mass do not count where atoms are weighted by mass.
    NoMass {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// Atoms without a mass.
        n_atoms: usize,
    },
    /// The heads of a membrane's leaflets are not at one height each.
    NotFlat {
        /// Which analysis of the request.
        analysis: usize,
        /// The lipids.
        label: String,
        /// The axis that is across the membrane, as was asked for.
        axis: &'static str,
        /// The larger standard deviation of heights in a leaflet, in Å.
        spread: f64,
        /// Between the mean heights of both leaflets, in Å.
        thickness: f64,
    },
    /// Molecules look like lipids and are not among those of a membrane.
    OtherLipids {
        /// Which analysis of the request.
        analysis: usize,
        /// The lipids.
        label: String,
        /// How many others.
        n_molecules: usize,
        /// Names of their first residues.
        names: Vec<String>,
    },
    /// No analysis of hydrogen bonds was made, since there can be none.
    NoHydrogenBonds {
        /// Why.
        reason: String,
    },
    /// Residues that RMSD are measured from have other names in the reference.
    OtherResidues {
        /// Where in the parameters.
        at: Field,
        /// How many.
        n_residues: usize,
        /// The names of the first, here and in the reference.
        first: [String; 2],
        /// The reference.
        reference: String,
    },
    /// A field has no effect, since nothing is asked for that it applies to.
    NoEffect {
        /// The field.
        at: Field,
        /// The field that asks for it.
        needs: &'static str,
    },
    /// A mask selects water or ions besides the molecules that these surround.
    SolventToo {
        /// Where in the parameters.
        at: Field,
        /// The mask.
        mask: String,
        /// Atoms of water and ions.
        n_atoms: usize,
        /// Atoms in all.
        n_selected: usize,
        /// The first of them.
        first: String,
    },
    /// A mask measures distances, in which no periodic image counts, and would select others if
    /// one did.
    NoImages {
        /// Where in the parameters.
        at: Field,
        /// What it would select otherwise.
        difference: WithoutImages,
    },
    /// A mask may not select what was meant.
    Mask {
        /// Where in the parameters.
        at: Field,
        /// What it does.
        warning: MaskWarning,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SeveralMolecules { label, n_molecules, .. } => write!(
                f,
                "{label} has atoms of {n_molecules} molecules; each is taken in the periodic \
                 image that is next to where it was in the frame before"
            ),
            Self::WrittenApart { label, first_atom, .. } => write!(
                f,
                "of {label} the molecule of {first_atom} is written apart from others in the first \
                 frame, though a periodic image of it is next to them; results are not those of a \
                 complex: put it together first, as with cpptraj's autoimage or gmx trjconv -pbc \
                 cluster"
            ),
            Self::BrokenMolecules => f.write_str(
                "molecules are broken across the periodic boundary in the trajectory; they were \
                 made whole by their bonds",
            ),
            Self::FarHydrogens { n_atoms } => write!(
                f,
                "{} more than 1.6 Å from the atoms that they were bonded to in \
                 the structure that names the atoms, which may be broken across a periodic boundary \
                 without giving its cell; give one that is whole, or has its cell, for bonds to be \
                 right",
                one_or_more(*n_atoms, "hydrogen is", "hydrogens are")
            ),
            Self::AtomsApart { n_atoms, first } => write!(
                f,
                "{} the chain, number and name of a residue that the structure lists before and no \
                 atom of it within a bond's length, the first {first}; such are taken for residues \
                 of their own: where they are not, give structure and trajectory sorted by residue",
                one_or_more(*n_atoms, "atom has", "atoms have")
            ),
            Self::PartOfAFrame { n_bytes } => {
                write!(
                    f,
                    "the trajectory ends with {} of a frame that is not whole; it was left out",
                    one_or_more(*n_bytes, "byte", "bytes")
                )
            }
            Self::MissingFrames { n_frames } => {
                let fewer = one_or_more(*n_frames, "frame", "frames");
                write!(f, "the trajectory has {fewer} fewer than its header gives")
            }
            Self::NoTimes => f.write_str(
                "the trajectory has no times, or they do not ascend, as where they are so far from 0 \
                 that 32 bits do not tell them apart; results have the number of the frame alone",
            ),
            Self::PartsOverlap(Overlap { before, end_ps, after, start_ps }) => write!(
                f,
                "{after} begins at {start_ps} ps, and {before} before it ends at {end_ps} ps: where \
                 files overlap frames count twice, and results have the number of the frame alone; \
                 leave out the frames that are there twice, or give the files in their order"
            ),
            Self::UnevenTimes => f.write_str(
                "the frames are not at equal steps of time; lifetimes and blocks are counted in \
                 frames, and errors of means take frames for equally far apart",
            ),
            Self::RoundedTimes { spacing_ps, step_ps } => {
                write!(
                    f,
                    "the times of the frames are so far from 0 that the 32 bits of the file round \
                     them to {spacing_ps} ps; "
                )?;
                match step_ps {
                    Some(step_ps) => write!(
                        f,
                        "lifetimes and blocks are by the mean of their steps, which is {step_ps} ps"
                    )?,
                    None => f.write_str(
                        "lifetimes and blocks are counted in frames, as steps are not known",
                    )?,
                }
                f.write_str(
                    "; times of single frames are right once they count from 0, as gmx trjconv \
                     writes them with -t0 0 and -timestep",
                )
            }
            Self::DoubtfulCell => f.write_str(
                "the file does not say for certain what it has of the angles of its cell, which \
                 are not 90°: they are others if it is CHARMM's and does not say so, or if cpptraj \
                 has written it of coordinates of CHARMM's or before 2016; compare the cell with \
                 that of the simulation",
            ),
            Self::LeftOut { frames } => write!(
                f,
                "{} left out: {}; molecules are followed across them",
                one_or_more(frames.len(), "damaged frame was", "damaged frames were"),
                ranges(frames)
            ),
            Self::Thinned { label, step, n_kept, .. } => write!(
                f,
                "of {label}, {n_kept} frames are compared or listed one by one: one of every {step} \
                 that are analysed; `downsample_frames` lets you choose which"
            ),
            Self::OneFrame => f.write_str(
                "only one frame was analysed: deviations from it are 0 by definition, and \
                 fluctuations cannot be measured, so that their tables are empty",
            ),
            Self::CoarseGrains => f.write_str(
                "the structure has no atoms, as they are farther from each other than bonds are \
                 long: they are taken for coarse grains, without elements, that count the same \
                 where atoms are weighted by mass; a PSF or prmtop file has their masses and bonds",
            ),
            Self::NoMass { label, n_atoms, .. } => write!(
                f,
                "{} no mass, for the topology does not give the element; such do not count in its \
                 centre",
                one_or_more(
                    *n_atoms,
                    &format!("atom of {label} has"),
                    &format!("atoms of {label} have")
                )
            ),
            Self::NotFlat { label, axis, spread, thickness, .. } => write!(
                f,
                "the heads of {label} are {spread:.1} Å up and down within a leaflet, whose mean \
                 heights are {thickness:.1} Å apart along {axis}: this is no flat bilayer across \
                 {axis}, and area per lipid and thickness are not those of a membrane; another \
                 axis may be across it, and of a vesicle there is none"
            ),
            Self::OtherLipids { label, n_molecules, names, .. } => write!(
                f,
                "{n_molecules} molecules that look like lipids ({}) are not among {label}: the \
                 area per lipid is that of the whole box over a part of its lipids; select all of \
                 them",
                names.join(", ")
            ),
            Self::NoHydrogenBonds { reason } => {
                write!(f, "no hydrogen bonds were counted: {reason}")
            }
            Self::OtherResidues { at, n_residues, first: [here, there], reference } => write!(
                f,
                "{at}: {} other names in {reference}, the first {here} here and {there} there; \
                 they are compared by their order, so check that they belong together",
                one_or_more(*n_residues, "residue has", "residues have")
            ),
            Self::NoEffect { at, needs } => write!(f, "{at}: has no effect without `{needs}`"),
            Self::SolventToo { at, mask, n_atoms, n_selected, first } => write!(
                f,
                "{at}: {n_atoms} of the {n_selected} atoms that {mask} selects {} of water and ions, the \
                 first {first}; leave these out, as by `&!:HOH,NA,CL`, where the molecules alone are meant",
                if *n_atoms == 1 { "is" } else { "are" }
            ),
            Self::NoImages { at, difference } => write!(
                f,
                "{at}: {difference}; give a structure that has the molecule in the middle of its \
                 cell where these are meant"
            ),
            Self::Mask { at, warning } => write!(f, "{at}: {warning}"),
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// So many of something, and what they do.
fn one_or_more<N>(n: N, one: &str, more: &str) -> String
where
    N: fmt::Display + PartialEq + From<u8>,
{
    format!("{n} {}", if n == N::from(1) { one } else { more })
}

/// Numbers in ascending order as text, `3, 7-9, 15`; beyond some, how many more there are.
fn ranges(numbers: &[usize]) -> String {
    const MOST: usize = 20;
    let runs: Vec<_> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    let shown: Vec<_> = runs.iter().take(MOST).map(|run| range(run)).collect();
    let n_more: usize = runs.iter().skip(MOST).map(|run| run.len()).sum();
    if n_more == 0 { shown.join(", ") } else { format!("{} and {n_more} more", shown.join(", ")) }
}

fn range(run: &[usize]) -> String {
    match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::{Warning, ranges};

    #[test]
    fn one_of_something_is_counted_as_one() {
        for (warning, text) in [
            (Warning::PartOfAFrame { n_bytes: 1 }, "ends with 1 byte of a frame"),
            (Warning::MissingFrames { n_frames: 1 }, "has 1 frame fewer"),
            (Warning::MissingFrames { n_frames: 2 }, "has 2 frames fewer"),
            (Warning::FarHydrogens { n_atoms: 1 }, "1 hydrogen is more than"),
            (Warning::LeftOut { frames: vec![3] }, "1 damaged frame was left out: 3"),
        ] {
            assert!(warning.to_string().contains(text), "{warning}");
        }
    }

    #[test]
    fn frames_in_a_row_are_written_as_a_range() {
        assert_eq!(ranges(&[3, 7, 8, 9, 15]), "3, 7-9, 15");
        let even: Vec<_> = (0..50).map(|n| 2 * n).collect();
        assert!(ranges(&even).ends_with("36, 38 and 30 more"));
    }
}
