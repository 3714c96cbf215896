//! What a request needs of a trajectory before the first pass.

use crate::frames::{Frames, damaged_frames};
use crate::notice::Notice;
use crate::points::{Points, Weighing};
use crate::read::{Frame, Series};
use crate::request::{Damaged, Group, Images, Request, Weights};
use crate::run::Control;
use crate::source::{Members, Source, View, has_molecules_in_pieces};
use crate::task::Tasks;
use crate::{AtomSet, Error, Topology};

/// Frames and how they are read, the first of them, and what was noticed on the way.
pub(crate) struct Setup<'a> {
    pub(crate) frames: Frames<'a>,
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
    pub(crate) fn new(
        topology: &'a Topology,
        trajectory: &'a Series,
        request: &Request,
        control: &Control<'_>,
    ) -> Result<Self, Error> {
        if trajectory.n_atoms() != topology.n_atoms() {
            return Err(Error::AtomCount { topology: topology.n_atoms(), trajectory: trajectory.n_atoms() });
        }
        if trajectory.n_frames() == 0 {
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
        if !trajectory.has_times() {
            notices.push(Notice::NoTimes);
        }
        if trajectory.has_doubtful_cell()? {
            notices.push(Notice::DoubtfulCell);
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
        let massless = request.groups_by_mass().filter_map(|(idx, group)| without_mass(topology, idx, group));
        for notice in massless {
            if !notices.contains(&notice) {
                notices.push(notice);
            }
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
        let mut source = Source::new(trajectory, topology, &atoms, &tracked, &mended);
        let none = AtomSet::none(topology.n_atoms());
        let mut between = Source::new(trajectory, topology, &none, &tracked, &mended);
        let first = first_frame(trajectory, &source, request)?;
        source.needs_cell = first.cell().is_some();
        between.needs_cell = source.needs_cell;
        let stride = request.stride.get();
        let n_threads = control.n_threads.get();
        let left_out = match request.damaged {
            Damaged::Fail => Vec::new(),
            Damaged::LeaveOut => damaged_frames(trajectory, stride, [&source, &between], n_threads, control.cancelled)?,
        };
        let is_sound = |frame: &usize| left_out.binary_search(frame).is_err();
        let analyzed = (0..trajectory.n_frames()).step_by(stride).filter(is_sound).collect();
        if !left_out.is_empty() {
            notices.push(Notice::LeftOut { frames: left_out.clone() });
        }
        let frames = Frames { topology, trajectory, stride, n_threads, analyzed, left_out };
        if frames.n_analyzed() == 1 {
            notices.push(Notice::OneFrame);
        }
        Ok(Self { frames, source, between, notices, tracked, first })
    }

    /// Each analysis of the request, ready for the first pass.
    pub(crate) fn tasks(&self, request: &Request) -> Result<Tasks, Error> {
        let analyses = request.analyses.iter().enumerate();
        analyses.map(|(idx, analysis)| Ok((idx, analysis.task(self, idx)?))).collect()
    }

    pub(crate) fn topology(&self) -> &'a Topology {
        self.frames.topology
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
        Members::new(&self.source, self.topology(), &self.tracked, &group.atoms)
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
            Weights::Mass => self.topology().atom(atom).mass_da,
        };
        let weights: Vec<f64> = group.atoms.iter().map(weight).collect();
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(Error::NoMass { label: group.label.clone() });
        }
        Ok(Weighing::new(&weights))
    }
}

/// The first frame of those to be analysed, or the first that is not damaged if that may be.
fn first_frame(trajectory: &Series, source: &Source, request: &Request) -> Result<Frame, Error> {
    let (mut frame, mut damage) = (Frame::new(), None);
    for n in (0..trajectory.n_frames()).step_by(request.stride.get()) {
        match source.read(trajectory, n, &mut frame) {
            Ok(()) => return Ok(frame),
            Err(error) if error.is_of_a_frame() && request.damaged == Damaged::LeaveOut => {
                damage.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let n_frames = trajectory.n_frames().div_ceil(request.stride.get());
    Err(damage.map_or(Error::NoFrames, |first| Error::AllDamaged { n_frames, first: Box::new(first) }))
}

/// A notice of atoms that do not weigh, though they are not the massless sites of a water model.
fn without_mass(topology: &Topology, analysis: usize, group: &Group) -> Option<Notice> {
    let is_lost = |atom: &usize| {
        let atom = topology.atom(*atom);
        atom.mass_da == 0.0 && !topology.is_water(atom.residue)
    };
    let n_atoms = group.atoms.iter().filter(is_lost).count();
    (n_atoms > 0).then(|| Notice::NoMass { analysis, label: group.label.clone(), n_atoms })
}

fn check(group: &Group, topology: &Topology, analysis: usize) -> Result<(), Error> {
    let label = || group.label.clone();
    if group.atoms.n_atoms() != topology.n_atoms() {
        return Err(Error::ForeignGroup { analysis, label: label() });
    }
    if group.atoms.is_empty() { Err(Error::EmptyGroup { analysis, label: label() }) } else { Ok(()) }
}
