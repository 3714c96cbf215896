//! Frames as analyses want them: only some atoms, molecules whole and without jumps.
//!
//! Simulation programs put each molecule, or even each atom, back into the cell when it leaves. A
//! molecule that is broken across the boundary is made whole bond by bond. One that jumps is
//! unwrapped: moved back by whole cell vectors, so that its centre is in the image that is nearest to
//! where it was in the frame before; so it is tracked over all frames, analysed or not.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cell::{dot, sub};
use crate::error::Damage;
use crate::points::{LANES, Points, Weighing, total};
use crate::read::{Frame, ReadPlan, Series};
use crate::{AtomSet, Cell, Error, Topology};

/// No bond is as long as this, in Å, unless one end is in another image of the cell.
const LONGEST_BOND: f64 = 5.0;

/// How some atoms are read.
#[derive(Debug)]
pub(crate) struct Source {
    plan: ReadPlan,
    /// Pairs of slots, the second to be put next to the first, in order.
    bonds: Vec<[u32; 2]>,
    /// Slots of each tracked molecule.
    tracked: Vec<Vec<Range<usize>>>,
    /// Whether a frame without a cell is damaged, since the first one has a cell.
    pub(crate) needs_cell: bool,
    /// Whether a frame that was read had a broken molecule.
    has_mended: AtomicBool,
}

/// The place of a frame in the stride.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) place: u32,
    /// Whether the frame before it or the one after it is not analysed.
    pub(crate) is_cut: bool,
}

/// One frame, as an analysis sees it.
pub(crate) struct View<'a> {
    pub(crate) frame: &'a Frame,
    /// How far to move each tracked molecule, in Å.
    pub(crate) shifts: &'a [[f64; 3]],
    /// Where it is among the others.
    pub(crate) now: Moment,
}

impl Source {
    /// A source of some atoms, of the tracked molecules, and of all that it takes to make molecules
    /// whole.
    ///
    /// Bonds are looked at in every frame: a protein without its water may cross the boundary in
    /// any of them. Only those are, and only their atoms are read, that lead to an atom of these.
    pub(crate) fn new(
        trajectory: &Series,
        topology: &Topology,
        atoms: &AtomSet,
        tracked: &[usize],
        whole: &AtomSet,
    ) -> Self {
        let mut needed = atoms.clone();
        let is_tracked = |atom: usize| tracked.binary_search(&topology.molecule_of(atom)).is_ok();
        needed.union_with(&AtomSet::from_fn(topology.n_atoms(), is_tracked));
        let bonds = paths_to(&mut needed, spanning_trees(topology, whole));
        let plan = trajectory.read_plan(&needed);
        let slot = |atom| plan.slot(atom).expect("the plan holds what is needed");
        let bonds = bonds.into_iter().map(|bond| bond.map(|atom| slot(atom) as u32));
        let mut slots = vec![Vec::new(); tracked.len()];
        for atoms in AtomSet::from_fn(topology.n_atoms(), is_tracked).ranges() {
            for atom in atoms {
                let molecule = tracked
                    .binary_search(&topology.molecule_of(atom))
                    .expect("only tracked ones are here");
                push_slot(&mut slots[molecule], slot(atom));
            }
        }
        Self {
            bonds: bonds.collect(),
            tracked: slots,
            plan,
            needs_cell: false,
            has_mended: AtomicBool::new(false),
        }
    }

    /// Whether a molecule was made whole in a frame that was read so far.
    pub(crate) fn has_mended(&self) -> bool {
        self.has_mended.load(Ordering::Relaxed)
    }

    pub(crate) fn read_plan(&self) -> &ReadPlan {
        &self.plan
    }

    pub(crate) fn n_tracked(&self) -> usize {
        self.tracked.len()
    }

    /// Where the atoms of a tracked molecule are in a frame.
    pub(crate) fn positions_of_tracked(
        &self,
        frame: &Frame,
        nth: usize,
    ) -> impl Iterator<Item = [f64; 3]> {
        self.tracked[nth].iter().cloned().flatten().map(|slot| frame.position(slot))
    }

    /// Reads a frame and makes its molecules whole.
    pub(crate) fn read(
        &self,
        trajectory: &Series,
        frame: usize,
        into: &mut Frame,
    ) -> Result<(), Error> {
        trajectory.read(frame, &self.plan, into)?;
        if self.needs_cell && into.cell().is_none() {
            return Err(trajectory.damaged(frame, Damage::NoCell));
        }
        if let Some(cell) = into.cell().copied() {
            let mut is_broken = false;
            for [to, from] in self.bonds.iter().map(|bond| bond.map(|slot| slot as usize)) {
                let apart = sub(into.position(from), into.position(to));
                if dot(apart, apart) > LONGEST_BOND * LONGEST_BOND {
                    let near = cell.nearest(apart);
                    is_broken |= dot(near, near) < LONGEST_BOND * LONGEST_BOND;
                    let to = into.position(to);
                    into.set_position(from, [0, 1, 2].map(|k| to[k] + near[k]));
                }
            }
            if is_broken {
                self.has_mended.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The centre of each tracked molecule, if there is a cell.
    pub(crate) fn centres(&self, frame: &Frame) -> Option<Centres> {
        let cell = *frame.cell()?;
        let fractions =
            self.tracked.iter().map(|slots| cell.fractions(centre(frame, slots))).collect();
        Some(Centres { cell, fractions })
    }
}

/// The centres of tracked molecules in fractions of the cell of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Centres {
    cell: Cell,
    fractions: Vec<[f64; 3]>,
}

/// The mean position of atoms in these runs of slots, in Å.
fn centre(frame: &Frame, slots: &[Range<usize>]) -> [f64; 3] {
    let n: usize = slots.iter().map(Range::len).sum();
    [frame.x(), frame.y(), frame.z()]
        .map(|column| slots.iter().map(|run| sum(&column[run.clone()])).sum::<f64>() / n as f64)
}

/// Whole cells by which tracked molecules have left the place where they are written.
#[derive(Clone, Debug)]
pub(crate) struct Unwrapping {
    last: Option<Centres>,
    cells: Vec<[f64; 3]>,
}

impl Unwrapping {
    pub(crate) fn new(n_tracked: usize) -> Self {
        Self::starting(vec![[0.0; 3]; n_tracked])
    }

    /// The same, molecules being so many cells away from where they are written from the first
    /// frame on.
    pub(crate) fn starting(cells: Vec<[f64; 3]>) -> Self {
        Self { last: None, cells }
    }

    /// Moves to the next frame, of which the centres are known if it has a cell.
    pub(crate) fn step(&mut self, centres: Option<Centres>) {
        let Some(centres) = centres else { return };
        if let Some(last) = &self.last {
            let fractions = last.fractions.iter().zip(&centres.fractions);
            for (cells, (last, now)) in self.cells.iter_mut().zip(fractions) {
                // Of fractions of a slanted cell the least are not those of the nearest image.
                let back = centres.cell.edge_sum(sub(*last, *now));
                let edges = centres.cell.edges_from_nearest(back);
                (0..3).for_each(|k| cells[k] += edges[k]);
            }
        }
        self.last = Some(centres);
    }

    /// How far to move each molecule in this frame, in Å.
    pub(crate) fn shifts(&self, frame: &Frame) -> Vec<[f64; 3]> {
        let shifts = self
            .cells
            .iter()
            .map(|cells| frame.cell().map_or([0.0; 3], |cell| cell.edge_sum(*cells)));
        shifts.collect()
    }
}

/// The atoms of a group where a source puts them.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    slots: Vec<u32>,
    /// The same as runs of neighbours, if these are long enough to be copied as such.
    runs: Option<Vec<Range<usize>>>,
    /// Which of them belong to which tracked molecule.
    tracked: Vec<(Range<usize>, usize)>,
}

/// Mean length of runs that are worth copying as such.
const LONG_RUN: usize = 8;

impl Members {
    /// The atoms of a group, all of which the source must read.
    pub(crate) fn new(
        source: &Source,
        topology: &Topology,
        tracked_ids: &[usize],
        atoms: &AtomSet,
    ) -> Self {
        let slots = atoms.iter().map(|atom| source.plan.slot(atom));
        let slots: Vec<u32> = slots
            .map(|slot| slot.expect("a source reads the atoms of every group") as u32)
            .collect();
        let mut runs = Vec::new();
        slots.iter().for_each(|slot| push_slot(&mut runs, *slot as usize));
        let mut tracked: Vec<(Range<usize>, usize)> = Vec::new();
        for (n, atom) in atoms.iter().enumerate() {
            if let Ok(molecule) = tracked_ids.binary_search(&topology.molecule_of(atom)) {
                match tracked.last_mut() {
                    Some((range, last)) if *last == molecule && range.end == n => range.end += 1,
                    _ => tracked.push((n..n + 1, molecule)),
                }
            }
        }
        let are_long = slots.len() >= LONG_RUN * runs.len();
        Self { slots, runs: are_long.then_some(runs), tracked }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether some of them are of molecules that are moved.
    pub(crate) fn is_tracked(&self) -> bool {
        !self.tracked.is_empty()
    }

    /// Where the atoms of the group are in a frame.
    pub(crate) fn positions(&self, view: &View<'_>, into: &mut Points) {
        into.resize(self.slots.len());
        for (from, to) in
            [view.frame.x(), view.frame.y(), view.frame.z()].into_iter().zip(into.columns_mut())
        {
            match &self.runs {
                Some(runs) => {
                    let mut rest = to.as_mut_slice();
                    for run in runs {
                        let (part, after) = rest.split_at_mut(run.len());
                        part.iter_mut()
                            .zip(&from[run.clone()])
                            .for_each(|(to, from)| *to = f64::from(*from));
                        rest = after;
                    }
                }
                None => to
                    .iter_mut()
                    .zip(&self.slots)
                    .for_each(|(to, slot)| *to = f64::from(from[*slot as usize])),
            }
        }
        for (range, molecule) in &self.tracked {
            into.shift(range.clone(), view.shifts[*molecule]);
        }
    }
}

/// A group and what its atoms weigh, of which only the centre is wanted.
#[derive(Debug)]
pub(crate) struct Centre {
    members: Members,
    weights: Vec<f64>,
    total: f64,
}

impl Centre {
    pub(crate) fn new(members: Members, weighing: &Weighing) -> Self {
        let weights = weighing.weights()[..members.len()].to_vec();
        Self { total: weights.iter().sum(), members, weights }
    }

    /// Σ w·x / Σ w.
    pub(crate) fn of(&self, view: &View<'_>) -> [f64; 3] {
        let Members { slots, runs, tracked } = &self.members;
        let columns = [view.frame.x(), view.frame.y(), view.frame.z()];
        let mut sums = [0.0; 3];
        if let Some(runs) = runs {
            let mut first = 0;
            for run in runs {
                let weights = &self.weights[first..first + run.len()];
                let part = weighted_sums(weights, columns.map(|column| &column[run.clone()]));
                (0..3).for_each(|k| sums[k] += part[k]);
                first += run.len();
            }
        } else {
            for (slot, weight) in slots.iter().zip(&self.weights) {
                (0..3).for_each(|k| sums[k] += weight * f64::from(columns[k][*slot as usize]));
            }
        }
        for (range, molecule) in tracked {
            let weight: f64 = self.weights[range.clone()].iter().sum();
            (0..3).for_each(|k| sums[k] += weight * view.shifts[*molecule][k]);
        }
        sums.map(|sum| sum / self.total)
    }
}

fn push_slot(runs: &mut Vec<Range<usize>>, slot: usize) {
    match runs.last_mut() {
        Some(run) if run.end == slot => run.end += 1,
        _ => runs.push(slot..slot + 1),
    }
}

/// Bonds that lead from the first atom of each molecule to all its others, the nearer end first.
fn spanning_trees(topology: &Topology, atoms: &AtomSet) -> Vec<[usize; 2]> {
    let mut starts = vec![0_u32; topology.n_atoms() + 1];
    topology.bonds().iter().flatten().for_each(|atom| starts[*atom as usize + 1] += 1);
    (0..topology.n_atoms()).for_each(|atom| starts[atom + 1] += starts[atom]);
    let mut neighbours = vec![0_u32; starts[topology.n_atoms()] as usize];
    let mut next = starts.clone();
    for [a, b] in topology.bonds() {
        for (from, to) in [(*a, *b), (*b, *a)] {
            neighbours[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
    }
    let mut tree = Vec::new();
    let mut reached = AtomSet::none(topology.n_atoms());
    let mut queue = VecDeque::new();
    for first in atoms.iter() {
        if reached.contains(first) {
            continue;
        }
        reached.insert(first);
        queue.push_back(first);
        while let Some(atom) = queue.pop_front() {
            for other in &neighbours[starts[atom] as usize..starts[atom + 1] as usize] {
                let other = *other as usize;
                if !reached.contains(other) {
                    reached.insert(other);
                    tree.push([atom, other]);
                    queue.push_back(other);
                }
            }
        }
    }
    tree
}

/// The bonds of spanning trees that lead to needed atoms; the atoms on the way are needed then.
fn paths_to(needed: &mut AtomSet, trees: Vec<[usize; 2]>) -> Vec<[usize; 2]> {
    let mut paths = trees;
    paths.reverse();
    paths.retain(|[to, from]| {
        let leads_there = needed.contains(*from);
        if leads_there {
            needed.insert(*to);
        }
        leads_there
    });
    paths.reverse();
    paths
}

fn sum(column: &[f32]) -> f64 {
    let (chunks, rest) = column.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        (0..LANES).for_each(|k| lanes[k] += f64::from(chunk[k]));
    }
    total(lanes) + rest.iter().map(|x| f64::from(*x)).sum::<f64>()
}

fn weighted_sums(weights: &[f64], columns: [&[f32]; 3]) -> [f64; 3] {
    let [(x, x_rest), (y, y_rest), (z, z_rest)] = columns.map(|column| column.as_chunks::<LANES>());
    let (weights, weights_rest) = weights.as_chunks::<LANES>();
    let mut lanes = [[0.0; LANES]; 3];
    for (((w, x), y), z) in weights.iter().zip(x).zip(y).zip(z) {
        for k in 0..LANES {
            lanes[0][k] += w[k] * f64::from(x[k]);
            lanes[1][k] += w[k] * f64::from(y[k]);
            lanes[2][k] += w[k] * f64::from(z[k]);
        }
    }
    let mut sums = lanes.map(total);
    for (sum, rest) in sums.iter_mut().zip([x_rest, y_rest, z_rest]) {
        *sum += weights_rest.iter().zip(rest).map(|(w, x)| w * f64::from(*x)).sum::<f64>();
    }
    sums
}
