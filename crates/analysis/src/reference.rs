//! What deviations are measured from, when that is not the first analysed frame.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::atom_set::AtomSet;
use crate::group::Group;
use crate::points::Points;
use crate::read::{Frame, Series};
use crate::source::{Source, Unwrapping};
use crate::{Cell, Error, Topology};

/// Positions of some atoms of a topology, from which RMSD are measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    label: String,
    atoms: AtomSet,
    positions: Vec<[f64; 3]>,
    cell: Option<Cell>,
}

impl Reference {
    /// The positions, in Å, of atoms in ascending order; `label` is what results call them.
    ///
    /// # Panics
    ///
    /// When there is not one position for each atom.
    pub fn new(label: String, atoms: AtomSet, positions: Vec<[f64; 3]>) -> Self {
        assert_eq!(atoms.len(), positions.len(), "each atom of a reference has a position");
        Self { label, atoms, positions, cell: None }
    }

    /// In this cell, whose images may be nearer to each other than the positions are.
    pub fn in_cell(self, cell: Option<Cell>) -> Self {
        Self { cell, ..self }
    }

    pub(crate) fn cell(&self) -> Option<&Cell> {
        self.cell.as_ref()
    }

    /// What results call it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Where the atoms of a group are.
    ///
    /// # Errors
    ///
    /// [`Error::NotInReference`] when it lacks one.
    pub(crate) fn points(&self, group: &Group, analysis: usize) -> Result<Points, Error> {
        let mut points = Points::zeros(group.atoms.len());
        let mut atoms = self.atoms.iter().zip(&self.positions);
        for (n, atom) in group.atoms.iter().enumerate() {
            let Some((_, position)) =
                atoms.find(|(own, _)| *own >= atom).filter(|(own, _)| *own == atom)
            else {
                return Err(Error::NotInReference { analysis, label: group.label.clone() });
            };
            points.set(n, *position);
        }
        Ok(points)
    }
}

/// Where all atoms are in the first frame, or in the first that is not damaged where
/// `skips_damaged`, in Å: what distances in masks are measured in where a topology has no positions.
///
/// # Errors
///
/// See [`frame_positions`].
pub fn first_positions(
    topology: &Topology,
    trajectory: &Series,
    skips_damaged: bool,
    cancelled: &AtomicBool,
) -> Result<Vec<[f64; 3]>, Error> {
    let mut frame = 0;
    loop {
        let read = frame_positions(topology, trajectory, frame, skips_damaged, cancelled);
        let is_last = frame + 1 >= trajectory.n_frames();
        match read {
            Err(Error::NoSuchFrame { .. }) => return Err(Error::NoFrames),
            Err(error) if skips_damaged && error.is_of_a_frame() && !is_last => frame += 1,
            read => return read.map(|(positions, _)| positions),
        }
    }
}

/// Where all atoms are in one frame, in Å: broken molecules made whole, and those that are neither
/// water nor single atoms unwrapped from frame 0 on.
///
/// Damaged frames before it are passed over where `skips_damaged`.
///
/// # Errors
///
/// [`Error::AtomCount`], [`Error::NoSuchFrame`], [`Error::Cancelled`], and what reading gives.
pub fn frame_positions(
    topology: &Topology,
    trajectory: &Series,
    frame: usize,
    skips_damaged: bool,
    cancelled: &AtomicBool,
) -> Result<(Vec<[f64; 3]>, Option<Cell>), Error> {
    if trajectory.n_atoms() != topology.n_atoms() {
        return Err(Error::AtomCount {
            topology: topology.n_atoms(),
            trajectory: trajectory.n_atoms(),
            left_out: 0,
        });
    }
    if frame >= trajectory.n_frames() {
        return Err(Error::NoSuchFrame { frame, n_frames: trajectory.n_frames() });
    }
    let none = AtomSet::none(topology.n_atoms());
    let all = AtomSet::all(topology.n_atoms());
    let mut tracked: Vec<usize> =
        Group::solute(topology).atoms.iter().map(|atom| topology.molecule_of(atom)).collect();
    tracked.sort_unstable();
    tracked.dedup();
    // The image of a molecule that is alone makes no difference.
    if tracked.len() == 1 {
        tracked.clear();
    }
    let source = Source::new(trajectory, topology, &all, &tracked, &all);
    let skipped = Source::new(trajectory, topology, &none, &tracked, &all);
    let mut unwrapping = Unwrapping::new(tracked.len());
    let mut read = Frame::new();
    for n in (0..frame).filter(|_| !tracked.is_empty()) {
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        match skipped.read(trajectory, n, &mut read) {
            Ok(()) => unwrapping.step(skipped.centres(&read)),
            Err(error) if skips_damaged && error.is_of_a_frame() => {}
            Err(error) => return Err(error),
        }
    }
    source.read(trajectory, frame, &mut read)?;
    unwrapping.step(source.centres(&read));
    let shifts = unwrapping.shifts(&read);
    let positions = (0..topology.n_atoms()).map(|atom| {
        let slot = source.read_plan().slot(atom).expect("all atoms are read");
        let at = read.position(slot);
        let molecule = tracked.binary_search(&topology.molecule_of(atom));
        molecule.map_or(at, |molecule| [0, 1, 2].map(|k| at[k] + shifts[molecule][k]))
    });
    Ok((positions.collect(), read.cell().copied()))
}
