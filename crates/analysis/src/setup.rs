//! What the analyses of a request have in common: frames, how they are read, the first of them.

use crate::frames::Frames;
use crate::group::{Group, Weights};
use crate::points::{Points, Weighing};
use crate::read::Frame;
use crate::source::{Members, Source, Unwrapping, View};
use crate::warning::Warning;
use crate::{Error, Topology};

/// Frames and how they are read, the first of them, and what was noticed on the way.
pub(crate) struct Setup<'a> {
    pub(crate) frames: Frames<'a>,
    pub(crate) source: Source,
    /// For frames that the stride skips.
    pub(crate) skipped: Source,
    pub(crate) warnings: Vec<Warning>,
    /// Molecules that are followed from frame to frame.
    pub(crate) tracked: Vec<usize>,
    pub(crate) first: Frame,
    /// By how many cells each of them is moved in the first frame.
    pub(crate) images: Vec<[f64; 3]>,
}

impl<'a> Setup<'a> {
    pub(crate) fn topology(&self) -> &'a Topology {
        self.frames.topology
    }

    /// Where the source puts an atom that an analysis asked for.
    pub(crate) fn slot(&self, atom: usize) -> usize {
        self.source.read_plan().slot(atom).expect("the source reads the atoms that are asked for")
    }

    /// The first frame, its molecules made whole.
    pub(crate) fn first(&self) -> &Frame {
        &self.first
    }

    /// Where the source puts the atoms of a group.
    pub(crate) fn members(&self, group: &Group) -> Members {
        Members::new(&self.source, self.topology(), &self.tracked, &group.atoms)
    }

    /// Where they are in the first frame.
    pub(crate) fn first_positions(&self, members: &Members) -> Points {
        let mut points = Points::default();
        let shifts = Unwrapping::starting(self.images.clone()).shifts(&self.first);
        let view = View { frame: &self.first, shifts: &shifts, now: self.frames.moment(0) };
        members.positions(&view, &mut points);
        points
    }

    /// What each atom of a group weighs.
    pub(crate) fn weighing(&self, group: &Group, weights: Weights) -> Result<Weighing, Error> {
        let weights: Vec<f64> = match weights {
            Weights::Equal => vec![1.0; group.atoms.len()],
            Weights::Mass => {
                group.atoms.iter().map(|atom| self.topology().atom(atom).mass_da).collect()
            }
        };
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(Error::NoMass { label: group.label.clone() });
        }
        Ok(Weighing::new(&weights))
    }
}
