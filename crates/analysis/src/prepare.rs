//! What a request needs of a trajectory before the first pass.

use crate::cell::sub;
use crate::frames::{Frames, damaged_frames};
use crate::group::{Group, ImageGroup};
use crate::images::{MOST_MOLECULES, apart};
use crate::points::Weighing;
use crate::read::{Frame, Series};
use crate::request::{Analysis, Control, Damaged, Images, Request};
use crate::setup::Setup;
use crate::source::Source;
use crate::superpose::Target;
use crate::task::Tasks;
use crate::warning::Warning;
use crate::{AtomSet, Error, Topology};

/// Reads the first frame and decides which molecules are made whole or unwrapped.
///
/// # Errors
///
/// [`Error::AtomCount`], [`Error::NoFrames`], [`Error::NoSuchFrame`], [`Error::ForeignGroup`] and
/// [`Error::EmptyGroup`] for what cannot be analysed; what reading the first frame, or searching
/// for damaged ones, gives.
pub(crate) fn prepare<'a>(
    topology: &'a Topology,
    trajectory: &'a Series,
    request: &Request,
    control: &Control<'_>,
) -> Result<Setup<'a>, Error> {
    if trajectory.n_atoms() != topology.n_atoms() {
        return Err(Error::AtomCount {
            topology: topology.n_atoms(),
            trajectory: trajectory.n_atoms(),
            left_out: 0,
        });
    }
    if trajectory.n_frames() == 0 {
        return Err(Error::NoFrames);
    }
    if request.frames.first >= trajectory.n_frames() {
        return Err(Error::NoSuchFrame {
            frame: request.frames.first,
            n_frames: trajectory.n_frames(),
        });
    }
    let atoms = needed_atoms(topology, request)?;
    let mut warnings = of_files(trajectory)?;
    let mut images = ImagesNeeded::of(topology, request, &mut warnings);
    for (idx, group) in request.groups_by_mass() {
        if let Some(warning) = without_mass(topology, idx, group)
            && !warnings.contains(&warning)
        {
            warnings.push(warning);
        }
    }
    if request.images == Images::AsWritten {
        images = ImagesNeeded::none(topology);
    }
    let whole = AtomSet::from_fn(topology.n_atoms(), |atom| {
        images.whole.contains(topology.molecule_of(atom))
    });
    let tracked: Vec<usize> = images.tracked.iter().collect();
    let mut source = Source::new(trajectory, topology, &atoms, &tracked, &whole);
    let no_atoms = AtomSet::none(topology.n_atoms());
    let mut skipped = Source::new(trajectory, topology, &no_atoms, &tracked, &whole);
    let first = first_frame(trajectory, &source, request)?;
    source.needs_cell = first.cell().is_some();
    skipped.needs_cell = source.needs_cell;
    if !source.needs_cell {
        // Nothing is in another periodic image where there are none.
        warnings.retain(|warning| !matches!(warning, Warning::SeveralMolecules { .. }));
    }
    let range = request.frames;
    let n_threads = control.n_threads.get();
    let left_out = match request.damaged {
        Damaged::Fail => Vec::new(),
        Damaged::LeaveOut => {
            damaged_frames(trajectory, &range, [&source, &skipped], n_threads, control.cancelled)?
        }
    };
    let analyzed = range
        .of(trajectory.n_frames())
        .filter(|frame| left_out.binary_search(frame).is_err())
        .collect();
    if !left_out.is_empty() {
        warnings.push(Warning::LeftOut { frames: left_out.clone() });
    }
    let frames = Frames { topology, trajectory, range, n_threads, analyzed, left_out };
    warnings.extend(request.analyses.iter().enumerate().filter_map(|(analysis, one)| {
        let (step, label) = one.thinned(frames.n_analyzed(), topology)?;
        Some(Warning::Thinned { analysis, label, step, n_kept: frames.n_analyzed().div_ceil(step) })
    }));
    if frames.n_analyzed() == 1 {
        warnings.push(Warning::OneFrame);
    }
    warnings.extend(frames.warning_of_steps());
    let mut setup = Setup {
        images: vec![[0.0; 3]; tracked.len()],
        frames,
        source,
        skipped,
        warnings,
        tracked,
        first,
    };
    if let Some(images) = images_as_in_reference(request, &setup)? {
        setup.images = images;
    }
    if request.images == Images::Unwrapped {
        let apart = written_apart(request, &setup);
        setup.warnings.extend(apart);
    }
    Ok(setup)
}

/// Each analysis of the request, ready for the first pass.
pub(crate) fn tasks(request: &Request, setup: &Setup<'_>) -> Result<Tasks, Error> {
    let analyses = request.analyses.iter().enumerate();
    analyses
        .map(|(idx, analysis)| Ok((idx, analysis.task(setup, request.reference.as_ref(), idx)?)))
        .collect()
}

/// The atoms of all groups, each of which must be of this topology and not empty.
fn needed_atoms(topology: &Topology, request: &Request) -> Result<AtomSet, Error> {
    let mut atoms = AtomSet::none(topology.n_atoms());
    for (idx, analysis) in request.analyses.iter().enumerate() {
        analysis.groups().into_iter().try_for_each(|group| check(group, topology, idx))?;
        atoms.union_with(&analysis.atoms(topology));
    }
    Ok(atoms)
}

fn check(group: &Group, topology: &Topology, analysis: usize) -> Result<(), Error> {
    if group.atoms.n_atoms() != topology.n_atoms() {
        return Err(Error::ForeignGroup { analysis, label: group.label.clone() });
    }
    if group.atoms.is_empty() {
        Err(Error::EmptyGroup { analysis, label: group.label.clone() })
    } else {
        Ok(())
    }
}

/// What is unusual about the files, whatever is analysed.
fn of_files(trajectory: &Series) -> Result<Vec<Warning>, Error> {
    let mut warnings = Vec::new();
    if trajectory.trailing_bytes() > 0 {
        warnings.push(Warning::PartOfAFrame { n_bytes: trajectory.trailing_bytes() });
    }
    if trajectory.n_missing() > 0 {
        warnings.push(Warning::MissingFrames { n_frames: trajectory.n_missing() });
    }
    if !trajectory.has_times() {
        warnings.push(trajectory.overlap().map_or(Warning::NoTimes, Warning::PartsOverlap));
    }
    if trajectory.has_doubtful_cell()? {
        warnings.push(Warning::DoubtfulCell);
    }
    Ok(warnings)
}

/// Molecules whose periodic images matter.
struct ImagesNeeded {
    /// Those to unwrap: followed from frame to frame.
    tracked: AtomSet,
    /// Those to make whole where they are broken.
    whole: AtomSet,
}

impl ImagesNeeded {
    fn none(topology: &Topology) -> Self {
        Self {
            tracked: AtomSet::none(topology.n_molecules()),
            whole: AtomSet::none(topology.n_molecules()),
        }
    }

    fn of(topology: &Topology, request: &Request, warnings: &mut Vec<Warning>) -> Self {
        let mut needed = Self::none(topology);
        for (analysis, ImageGroup { atoms, label, in_place }) in request.image_groups() {
            let molecules = molecules_of(topology, &atoms);
            if molecules.len() > 1 {
                warnings.push(Warning::SeveralMolecules {
                    analysis,
                    label,
                    n_molecules: molecules.len(),
                });
            }
            if molecules.len() > 1 || in_place {
                needed.tracked.union_with(&molecules);
            }
            needed.whole.union_with(&molecules);
        }
        needed
    }
}

fn molecules_of(topology: &Topology, atoms: &AtomSet) -> AtomSet {
    let mut molecules = AtomSet::none(topology.n_molecules());
    atoms.iter().for_each(|atom| molecules.insert(topology.molecule_of(atom)));
    molecules
}

/// The first frame of those to be analysed, or the first that is not damaged if that may be.
fn first_frame(trajectory: &Series, source: &Source, request: &Request) -> Result<Frame, Error> {
    let mut frame = Frame::new();
    let mut damage = None;
    let frames = request.frames.of(trajectory.n_frames());
    let n_frames = frames.len();
    for n in frames {
        match source.read(trajectory, n, &mut frame) {
            Ok(()) => return Ok(frame),
            Err(error) if error.is_of_a_frame() && request.damaged == Damaged::LeaveOut => {
                damage.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(damage
        .map_or(Error::NoFrames, |first| Error::AllDamaged { n_frames, first: Box::new(first) }))
}

/// A warning of atoms that do not weigh, though they are not the massless sites of a water model.
fn without_mass(topology: &Topology, analysis: usize, group: &Group) -> Option<Warning> {
    let without =
        group.atoms.iter().map(|atom| topology.atom(atom)).filter(|atom| atom.mass_da == 0.0);
    let n_atoms = without.filter(|atom| !topology.is_water(atom.residue)).count();
    (n_atoms > 0).then(|| Warning::NoMass { analysis, label: group.label.clone(), n_atoms })
}

/// Warnings of groups whose molecules the first frame has in images that do not touch, though others
/// do: each is followed from where it is written, so that a complex which turns would be torn.
fn written_apart(request: &Request, setup: &Setup<'_>) -> Vec<Warning> {
    let Some(cell) = setup.first().cell() else { return Vec::new() };
    let topology = setup.topology();
    let mut warnings = Vec::new();
    for (analysis, ImageGroup { atoms, label, .. }) in request.image_groups() {
        let molecules = molecules_of(topology, &atoms);
        if !(2..=MOST_MOLECULES).contains(&molecules.len()) {
            continue;
        }
        let tracked = molecules.iter().map(|molecule| setup.tracked.binary_search(&molecule));
        let nth: Vec<usize> = tracked.map(|nth| nth.expect("several are tracked")).collect();
        let positions = nth.iter().map(|nth| {
            let by = cell.edge_sum(setup.images[*nth]);
            let written = setup.source.positions_of_tracked(&setup.first, *nth);
            written.map(|at| [0, 1, 2].map(|k| at[k] + by[k])).collect()
        });
        if let Some(which) = apart(&positions.collect::<Vec<_>>(), cell) {
            let molecule = setup.tracked[nth[which]];
            let first =
                (0..topology.n_atoms()).find(|atom| topology.molecule_of(*atom) == molecule);
            let first_atom = topology.atom_label(first.expect("a molecule has atoms"));
            warnings.push(Warning::WrittenApart { analysis, label, first_atom });
        }
    }
    warnings
}

/// By how many cells each tracked molecule is moved in the first frame, so that molecules stand to
/// each other as they do in the reference.
///
/// A complex that the first frame has apart, in two images, would else be compared with one that is
/// together. The molecule with the most atoms in the reference is superposed; each other is put
/// into the image that is nearest to where the reference has it then.
fn images_as_in_reference(
    request: &Request,
    setup: &Setup<'_>,
) -> Result<Option<Vec<[f64; 3]>>, Error> {
    let (Some(reference), Some(cell)) = (&request.reference, setup.first().cell()) else {
        return Ok(None);
    };
    let topology = setup.topology();
    let mut measured = AtomSet::none(topology.n_atoms());
    for analysis in &request.analyses {
        if let Analysis::Rmsd(_) = analysis {
            analysis.groups().into_iter().for_each(|group| measured.union_with(&group.atoms));
        }
    }
    let mut parts = Vec::new();
    for molecule in &setup.tracked {
        let atoms = AtomSet::from_fn(topology.n_atoms(), |atom| {
            measured.contains(atom) && topology.molecule_of(atom) == *molecule
        });
        let group = Group { label: String::new(), atoms };
        let now = setup.first_positions(&setup.members(&group));
        parts.push((group.atoms.len(), now, reference.points(&group, 0)?));
    }
    let Some((n_anchor, anchor_now, anchor)) = parts.iter().max_by_key(|(n_atoms, ..)| *n_atoms)
    else {
        return Ok(None);
    };
    let target = Target::new(anchor_now, equal_weights(*n_anchor));
    // A line could be turned at will, and with it where the others belong.
    if target.check(true).is_err() {
        return Ok(None);
    }
    let motion = target.fit(anchor);
    let cells = parts.iter().map(|(n_atoms, now, there)| {
        if *n_atoms == 0 {
            return [0.0; 3];
        }
        let weighing = equal_weights(*n_atoms);
        let apart = sub(motion.apply(weighing.centre(there)), weighing.centre(now));
        cell.edges_from_nearest(apart)
    });
    Ok(Some(cells.collect()))
}

fn equal_weights(n_atoms: usize) -> Weighing {
    Weighing::new(&vec![1.0; n_atoms])
}
