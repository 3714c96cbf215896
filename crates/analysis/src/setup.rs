//! What a request needs of a trajectory before the first pass.

use crate::points::{Points, Weighing};
use crate::read::Frame;
use crate::request::{Group, Images, Request, Weights};
use crate::run::{Frames, Notice};
use crate::source::{Members, Source, View, has_molecules_in_pieces};
use crate::task::Tasks;
use crate::{AtomSet, Error, Topology};

/// Sources of frames, the first frame, and what was noticed on the way.
pub(crate) struct Setup<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) source: Source,
    /// For frames between those that are analysed.
    pub(crate) between: Source,
    pub(crate) notices: Vec<Notice>,
    /// Molecules whose jumps matter.
    tracked: Vec<usize>,
    first: Frame,
}

/// Atoms whose images depend on each other.
pub(crate) struct Together {
    pub(crate) atoms: AtomSet,
    pub(crate) label: String,
    /// Whether their place in space matters too, as it does where nothing is superposed.
    pub(crate) in_place: bool,
}

impl Together {
    pub(crate) fn of(group: &Group) -> Self {
        Self { atoms: group.atoms.clone(), label: group.label.clone(), in_place: false }
    }
}

impl<'a> Setup<'a> {
    pub(crate) fn new(topology: &'a Topology, frames: Frames<'_>, request: &Request) -> Result<Self, Error> {
        let trajectory = frames.trajectory;
        if trajectory.n_atoms() != topology.n_atoms() {
            return Err(Error::AtomCount { topology: topology.n_atoms(), trajectory: trajectory.n_atoms() });
        }
        if frames.n_frames == 0 {
            return Err(Error::NoFrames);
        }
        let mut atoms = AtomSet::none(topology.n_atoms());
        for (idx, analysis) in request.analyses.iter().enumerate() {
            analysis.groups().into_iter().try_for_each(|group| check(group, topology, idx))?;
            atoms.union_with(&analysis.atoms(topology));
        }
        let mut notices = Vec::new();
        if trajectory.n_bytes_left() > 0 {
            notices.push(Notice::PartOfAFrame { n_bytes: trajectory.n_bytes_left() });
        }
        if trajectory.n_missing() > 0 {
            notices.push(Notice::MissingFrames { n_frames: trajectory.n_missing() });
        }
        let (mut tracked, mut mended) = (AtomSet::none(topology.n_molecules()), AtomSet::none(topology.n_molecules()));
        for (analysis, Together { atoms, label, in_place }) in request.together() {
            let mut molecules = AtomSet::none(topology.n_molecules());
            atoms.iter().for_each(|atom| molecules.insert(topology.molecule_of(atom)));
            if molecules.len() > 1 {
                notices.push(Notice::SeveralMolecules { analysis, label, n_molecules: molecules.len() });
            }
            if molecules.len() > 1 || in_place {
                tracked.union_with(&molecules);
            }
            mended.union_with(&molecules);
        }
        if request.images == Images::AsWritten {
            tracked = AtomSet::none(topology.n_molecules());
        }
        let is_torn =
            request.images == Images::Unwrapped && !mended.is_empty() && has_molecules_in_pieces(trajectory, topology)?;
        if is_torn {
            notices.push(Notice::InPieces);
            mended.union_with(&tracked);
        } else {
            mended = AtomSet::none(topology.n_molecules());
        }
        let mended = AtomSet::from_fn(topology.n_atoms(), |atom| mended.contains(topology.molecule_of(atom)));
        let tracked: Vec<usize> = tracked.iter().collect();
        let source = Source::new(trajectory, topology, &atoms, &tracked, &mended);
        let none = AtomSet::none(topology.n_atoms());
        let between = Source::new(trajectory, topology, &none, &tracked, &mended);
        let mut first = Frame::new();
        source.read(trajectory, 0, &mut first)?;
        Ok(Self { topology, source, between, notices, tracked, first })
    }

    /// Each analysis of the request, ready for the first pass.
    pub(crate) fn tasks(&self, request: &Request, frames: &Frames<'_>) -> Result<Tasks, Error> {
        let analyses = request.analyses.iter().enumerate();
        analyses.map(|(idx, analysis)| Ok((idx, analysis.task(self, frames, idx)?))).collect()
    }

    /// Where the source puts an atom that an analysis asked for.
    pub(crate) fn slot(&self, atom: usize) -> usize {
        self.source.window().slot(atom).expect("the source reads the atoms that are asked for")
    }

    /// The first frame, its molecules put together.
    pub(crate) fn first(&self) -> &Frame {
        &self.first
    }

    /// Where the source puts the atoms of a group.
    pub(crate) fn members(&self, group: &Group) -> Members {
        Members::new(&self.source, self.topology, &self.tracked, &group.atoms)
    }

    /// Where they are in the first frame.
    pub(crate) fn first_positions(&self, members: &Members) -> Points {
        let mut points = Points::default();
        let shifts = vec![[0.0; 3]; self.tracked.len()];
        members.positions(&View { frame: &self.first, shifts: &shifts }, &mut points);
        points
    }

    /// What each atom of a group weighs.
    pub(crate) fn weighing(&self, group: &Group, weights: Weights) -> Result<Weighing, Error> {
        let weight = |atom| match weights {
            Weights::Equal => 1.0,
            Weights::Mass => self.topology.atom(atom).mass_da,
        };
        let weights: Vec<f64> = group.atoms.iter().map(weight).collect();
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(Error::NoMass { label: group.label.clone() });
        }
        Ok(Weighing::new(&weights))
    }
}

fn check(group: &Group, topology: &Topology, analysis: usize) -> Result<(), Error> {
    let label = || group.label.clone();
    if group.atoms.n_atoms() != topology.n_atoms() {
        return Err(Error::ForeignGroup { analysis, label: label() });
    }
    if group.atoms.is_empty() { Err(Error::EmptyGroup { analysis, label: label() }) } else { Ok(()) }
}
