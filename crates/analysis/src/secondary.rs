//! Secondary structure of proteins by their hydrogen bonds.

use std::ops::RangeInclusive;

use crate::cell::{difference, dot, norm, sub};
use crate::frames::Frames;
use crate::group::Group;
use crate::neighbours::{Cloud, Neighbours};
use crate::read::Frame;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, RESIDUE_INDEX, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{AtomSet, Cell, Error, Topology};

/// The secondary structure of each residue in each frame, as Kabsch and Sander define it.
///
/// Definition and letters: Biopolymers 22, 2577, 1983. The order of precedence is that of DSSP 2.1:
/// H over E and B over G over T over S, and I over H but nothing else.
///
/// A residue counts if it has atoms N, CA, C and O; it follows the one before if their C and N are
/// bonded, where mdtraj goes by chains. N–H and C=O are hydrogen-bonded if their electrostatic
/// energy is less than −0.5 kcal/mol, H being 1 Å from N against the C=O before. Ladders may have
/// bulges. Where chains are apart the nearest periodic image is taken.
///
/// A strand is one by its partner, so that all residues of the system count, whichever are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct SecondaryStructure {
    /// Residues are listed that have one of those atoms in it.
    pub group: Group,
}

/// The states, as DSSP writes them, with what they are called.
const STATES: [(char, &str, &str); 8] = [
    ('H', "alpha_helix", "α-helix"),
    ('B', "beta_bridge", "residue in an isolated β-bridge"),
    ('E', "strand", "extended strand in a β-ladder"),
    ('G', "helix_310", "3₁₀-helix"),
    ('I', "pi_helix", "π-helix"),
    ('T', "turn", "hydrogen-bonded turn"),
    ('S', "bend", "bend"),
    ('-', "coil", "none of these"),
];

/// Places of the atoms of a backbone.
const N: usize = 0;
const CA: usize = 1;
const C: usize = 2;
const O: usize = 3;

/// q₁·q₂·f in kcal·Å/mol: 0.42 e on C and O, 0.20 e on N and H.
const COUPLING: f64 = 0.42 * 0.20 * 332.0;

/// Weakest hydrogen bond, in kcal/mol.
const WEAKEST: f64 = -0.5;

/// Strongest that is believed, where atoms overlap.
const STRONGEST: f64 = -9.9;

/// Atoms closer than this overlap, in Å.
const OVERLAP: f64 = 0.5;

/// Residues with α-carbons farther apart than this have no hydrogen bond, in Å.
const LARGEST_CA_DISTANCE: f64 = 9.0;

/// Least angle of a bend, in degrees.
const LEAST_BEND_DEG: f64 = 70.0;

impl SecondaryStructure {
    /// The backbones of all residues that count; none where none is listed.
    pub(crate) fn atoms(&self, topology: &Topology) -> AtomSet {
        let mut atoms = AtomSet::none(topology.n_atoms());
        let backbones = backbones(topology);
        if backbones.iter().any(|backbone| self.lists(backbone)) {
            backbones.iter().flat_map(|(_, atoms)| *atoms).for_each(|atom| atoms.insert(atom));
        }
        atoms
    }

    fn lists(&self, (_, atoms): &(usize, [usize; 4])) -> bool {
        atoms.iter().any(|atom| self.group.atoms.contains(*atom))
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Assignment, Error> {
        let slot = |atom| Some(setup.slot(atom));
        self.assignment(setup.topology(), slot).ok_or_else(|| {
            let bounds = "a group with atoms of residues that have N, CA, C and O";
            Error::Parameter { analysis, name: "group", bounds }
        })
    }

    /// What assigns states to frames that have each atom of the backbones in a slot; none without
    /// such residues.
    pub(crate) fn assignment(
        &self,
        topology: &Topology,
        slot: impl Fn(usize) -> Option<usize>,
    ) -> Option<Assignment> {
        let backbones = backbones(topology);
        let listed: Vec<usize> =
            (0..backbones.len()).filter(|place| self.lists(&backbones[*place])).collect();
        if listed.is_empty() {
            return None;
        }
        let slots = |atoms: &[usize; 4]| {
            let [n, ca, c, o] = atoms.map(|atom| slot(atom).map(|slot| slot as u32));
            Some([n?, ca?, c?, o?])
        };
        Some(Assignment {
            request: self.clone(),
            residues: listed.iter().map(|place| backbones[*place].0).collect(),
            listed,
            slots: backbones.iter().map(|(_, atoms)| slots(atoms)).collect::<Option<_>>()?,
            follows: (0..backbones.len()).map(|n| follows(topology, &backbones, n)).collect(),
            is_proline: backbones
                .iter()
                .map(|(residue, _)| topology.residue(*residue).name == "PRO")
                .collect(),
        })
    }
}

/// Residues with their N, CA, C and O.
fn backbones(topology: &Topology) -> Vec<(usize, [usize; 4])> {
    (0..topology.n_residues())
        .filter_map(|residue| Some((residue, backbone(topology, residue)?)))
        .collect()
}

/// What the carbonyl oxygen is called, at the end of a chain by CHARMM and by the force fields of
/// GROMACS.
const OXYGENS: [&str; 4] = ["O", "OT1", "OC1", "O1"];

/// N, CA, C and O of a residue, if it has them.
fn backbone(topology: &Topology, residue: usize) -> Option<[usize; 4]> {
    let find =
        |name| topology.residue_atoms(residue).find(|atom| topology.atom(*atom).name == name);
    Some([find("N")?, find("CA")?, find("C")?, OXYGENS.into_iter().find_map(find)?])
}

/// How far it is from the end of a strand to the start of another, if that comes after.
fn gap(from: &RangeInclusive<usize>, to: &RangeInclusive<usize>) -> Option<usize> {
    to.start().checked_sub(*from.end())
}

/// Whether the one before is bonded to a backbone's N.
fn follows(topology: &Topology, backbones: &[(usize, [usize; 4])], n: usize) -> bool {
    n > 0 && {
        let before = backbones[n - 1].1[C] as u32;
        let here = backbones[n].1[N] as u32;
        topology.bonds().binary_search(&[before.min(here), before.max(here)]).is_ok()
    }
}

#[derive(Debug)]
pub(crate) struct Assignment {
    request: SecondaryStructure,
    /// The residues that are listed, and their places among all with a backbone.
    residues: Vec<usize>,
    listed: Vec<usize>,
    /// Where N, CA, C and O of each residue with a backbone are read.
    slots: Vec<[u32; 4]>,
    /// Whether each is bonded to the one before.
    follows: Vec<bool>,
    is_proline: Vec<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// One text for each frame, one character for each residue that is listed.
    codes: Vec<String>,
    neighbours: Neighbours,
    carbons: Cloud,
}

impl Task for Assignment {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally::default()
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let states = self.assign(view.frame, tally);
        tally.codes.push(states.into_iter().collect());
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        tally.codes.extend(next.codes);
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let n_frames = tally.codes.len() as f64;
        let residues: Vec<i64> = self.residues.iter().map(|residue| *residue as i64 + 1).collect();
        let mut by_frame = frames.columns();
        let mut by_residue = vec![
            Column::integers("residue", RESIDUE_INDEX, residues.clone()),
            Column::texts(
                "name",
                "chain and residue",
                self.residues
                    .iter()
                    .map(|residue| frames.topology.residue_label(*residue))
                    .collect(),
            ),
        ];
        for (code, name, meaning) in STATES {
            let counts =
                tally.codes.iter().map(|codes| codes.chars().filter(|c| *c == code).count() as i64);
            let description = format!("residues in state {code}, {meaning}");
            by_frame.push(Column::integers(name, description, counts.collect()));
            let mut sums = vec![0_u32; self.residues.len()];
            for codes in &tally.codes {
                sums.iter_mut()
                    .zip(codes.chars())
                    .for_each(|(sum, c)| *sum += u32::from(c == code));
            }
            let parts = sums.into_iter().map(|sum| f64::from(sum) / n_frames).collect();
            by_residue.push(Column::numbers(
                name,
                None,
                format!("part of the frames in state {code}, {meaning}"),
                parts,
            ));
        }
        by_frame.push(Column::texts(
            "codes",
            "states of all residues, in their order",
            tally.codes,
        ));
        let by_frame = self.table(
            "secondary_structure_by_frame",
            "Secondary structure in each frame",
            by_frame,
        );
        Outcome::Tables(vec![
            self.table("secondary_structure", "Secondary structure of residues", by_residue),
            Table { residues, ..by_frame },
        ])
    }
}

/// To which residues the N–H of each one donates its two strongest hydrogen bonds.
struct Bonds(Vec<[Option<usize>; 2]>);

impl Bonds {
    fn donates(&self, from: usize, to: usize) -> bool {
        self.0[from].contains(&Some(to))
    }

    fn both(&self, [a, b]: [usize; 2], [c, d]: [usize; 2]) -> bool {
        self.donates(a, b) && self.donates(c, d)
    }
}

/// Whether a helix of state `new` may be written over `old`. To π-helices alone DSSP 2.1 makes
/// α-helices give way.
fn gives_way(old: char, new: char) -> bool {
    old == '-' || old == new || (new == 'I' && old == 'H')
}

/// Two stretches of the chain with bridges between them.
#[derive(Clone, Debug)]
struct Ladder {
    is_parallel: bool,
    one: RangeInclusive<usize>,
    other: RangeInclusive<usize>,
    n_bridges: usize,
}

impl Assignment {
    /// The state of each residue that is listed in a frame.
    pub(crate) fn of_frame(&self, frame: &Frame) -> Vec<(usize, char)> {
        let states = self.assign(frame, &mut Tally::default());
        self.residues.iter().copied().zip(states).collect()
    }

    fn assign(&self, frame: &Frame, tally: &mut Tally) -> Vec<char> {
        let Tally { neighbours, carbons, .. } = tally;
        carbons.read(frame, self.slots.iter().map(|slots| slots[CA]));
        let bonds = self.bonds(frame, neighbours, carbons);
        let states = self.states(&bonds, carbons, frame.cell());
        self.listed.iter().map(|place| states[*place]).collect()
    }

    /// Where N, CA, C and O of each residue are, in Å: in the image that is nearest to its CA, as a
    /// program may have wrapped atoms one by one.
    fn backbones(&self, frame: &Frame) -> Vec<[[f64; 3]; 4]> {
        let backbone = |slots: &[u32; 4]| {
            let positions = slots.map(|slot| frame.position(slot as usize));
            let alpha = positions[CA];
            positions.map(|position| {
                let near = Cell::nearest_or(frame.cell(), sub(position, alpha));
                [0, 1, 2].map(|k| alpha[k] + near[k])
            })
        };
        self.slots.iter().map(backbone).collect()
    }

    /// Where DSSP has the hydrogen on N: 1 Å from it against the C=O before, or on it at a start.
    fn hydrogen(&self, backbones: &[[[f64; 3]; 4]], residue: usize) -> [f64; 3] {
        let nitrogen = backbones[residue][N];
        if !self.follows[residue] {
            return nitrogen;
        }
        let before = &backbones[residue - 1];
        let along = sub(before[C], before[O]);
        let length = norm(along);
        // Where C and O lie in one point there is no direction; a hydrogen on N makes no bond.
        if length == 0.0 { nitrogen } else { [0, 1, 2].map(|k| nitrogen[k] + along[k] / length) }
    }

    fn bonds(&self, frame: &Frame, neighbours: &mut Neighbours, carbons: &Cloud) -> Bonds {
        let cell = frame.cell();
        let backbones = self.backbones(frame);
        let hydrogens: Vec<_> =
            (0..self.slots.len()).map(|residue| self.hydrogen(&backbones, residue)).collect();
        let mut best = vec![[(0.0, usize::MAX); 2]; self.slots.len()];
        let max_square = LARGEST_CA_DISTANCE * LARGEST_CA_DISTANCE;
        neighbours.pairs(carbons, carbons, cell, LARGEST_CA_DISTANCE, |donor, acceptor| {
            // The N–H next in the chain is of the same peptide group as this C=O.
            let is_next = donor == acceptor + 1 && self.follows[donor];
            if donor == acceptor || is_next || self.is_proline[donor] {
                return;
            }
            let apart = difference(carbons.get(acceptor), carbons.get(donor));
            let near = Cell::nearest_or(cell, apart);
            if dot(near, near) >= max_square {
                return;
            }
            let image = sub(near, apart);
            let [carbon, oxygen] = [C, O].map(|k| {
                let [x, y, z] = backbones[acceptor][k];
                [x + image[0], y + image[1], z + image[2]]
            });
            let bond = (energy(backbones[donor][N], hydrogens[donor], carbon, oxygen), acceptor);
            let [first, second] = &mut best[donor];
            // Equals go by their place in the chain, so that the order of the search does not
            // matter.
            if bond < *first {
                (*second, *first) = (*first, bond);
            } else if bond < *second {
                *second = bond;
            }
        });
        let strong = best
            .into_iter()
            .map(|two| two.map(|(energy, acceptor)| (energy < WEAKEST).then_some(acceptor)));
        Bonds(strong.collect())
    }

    fn states(&self, bonds: &Bonds, carbons: &Cloud, cell: Option<&Cell>) -> Vec<char> {
        let n = self.slots.len();
        let mut states = vec!['-'; n];
        for ladder in self.ladders(bonds) {
            let state = if ladder.n_bridges == 1 { 'B' } else { 'E' };
            for range in [ladder.one, ladder.other] {
                states[range].iter_mut().filter(|old| **old != 'E').for_each(|old| *old = state);
            }
        }
        for (length, state) in [(4, 'H'), (3, 'G'), (5, 'I')] {
            for i in 1..n {
                if !self.turns(bonds, i, length) || !self.turns(bonds, i - 1, length) {
                    continue;
                }
                let helix = &mut states[i..i + length];
                if state == 'H' || helix.iter().all(|old| gives_way(*old, state)) {
                    helix.fill(state);
                }
            }
        }
        for (i, state) in states.iter_mut().enumerate().filter(|(_, state)| **state == '-') {
            let is_in_turn =
                |length: usize| (1..length).any(|k| i >= k && self.turns(bonds, i - k, length));
            if [3, 4, 5].into_iter().any(is_in_turn) {
                *state = 'T';
            } else if self.bends(i, carbons, cell) {
                *state = 'S';
            }
        }
        states
    }

    /// Bridges that follow each other, as far as bulges of one residue against four allow.
    fn ladders(&self, bonds: &Bonds) -> Vec<Ladder> {
        let mut ladders: Vec<Ladder> = Vec::new();
        for i in 1..self.slots.len().saturating_sub(1) {
            // Each kind of bridge has a bond that residue i or the next donates to j or the one
            // before.
            let acceptors = bonds.0[i].iter().chain(&bonds.0[i + 1]).flatten();
            let mut candidates: Vec<usize> =
                acceptors.flat_map(|to| [*to, to + 1]).filter(|j| *j >= i + 3).collect();
            candidates.sort_unstable();
            candidates.dedup();
            for j in candidates {
                let Some(is_parallel) = self.bridge(bonds, i, j) else { continue };
                let ladder = ladders.iter_mut().find(|ladder| {
                    let next = if is_parallel {
                        ladder.other.end() + 1 == j
                    } else {
                        *ladder.other.start() == j + 1
                    };
                    ladder.is_parallel == is_parallel && ladder.one.end() + 1 == i && next
                });
                let bridge = Ladder { is_parallel, one: i..=i, other: j..=j, n_bridges: 1 };
                match ladder {
                    Some(ladder) => ladder.join(&bridge),
                    None => ladders.push(bridge),
                }
            }
        }
        ladders.sort_by_key(|ladder| *ladder.one.start());
        let mut n = 0;
        while n < ladders.len() {
            let mut next = n + 1;
            while next < ladders.len() {
                if self.is_bulge(&ladders[n], &ladders[next]) {
                    let bulge = ladders.remove(next);
                    ladders[n].join(&bulge);
                } else {
                    next += 1;
                }
            }
            n += 1;
        }
        ladders
    }

    /// Whether a turn of so many residues starts at `i`: the end donates a hydrogen bond to it.
    fn turns(&self, bonds: &Bonds, i: usize, length: usize) -> bool {
        let end = i + length;
        end < self.slots.len() && self.is_one_chain(i, end) && bonds.donates(end, i)
    }

    /// Whether residues are a bridge, and if so, whether it is parallel.
    fn bridge(&self, bonds: &Bonds, i: usize, j: usize) -> Option<bool> {
        let is_inside = j + 1 < self.slots.len()
            && self.is_one_chain(i - 1, i + 1)
            && self.is_one_chain(j - 1, j + 1);
        if !is_inside {
            None
        } else if bonds.both([i + 1, j], [j, i - 1]) || bonds.both([j + 1, i], [i, j - 1]) {
            Some(true)
        } else if bonds.both([i + 1, j - 1], [j + 1, i - 1]) || bonds.both([j, i], [i, j]) {
            Some(false)
        } else {
            None
        }
    }

    /// Whether two ladders are one with an irregularity between: up to one residue more on one
    /// strand and up to four on the other.
    fn is_bulge(&self, a: &Ladder, b: &Ladder) -> bool {
        let other = if a.is_parallel { gap(&a.other, &b.other) } else { gap(&b.other, &a.other) };
        let (Some(one @ 1..6), Some(other)) = (gap(&a.one, &b.one), other) else { return false };
        a.is_parallel == b.is_parallel
            && self.are_one_chain(&a.one, &b.one)
            && self.are_one_chain(&a.other, &b.other)
            && (other < 6 && one < 3 || other < 3)
    }

    fn are_one_chain(&self, a: &RangeInclusive<usize>, b: &RangeInclusive<usize>) -> bool {
        self.is_one_chain(*a.start().min(b.start()), *a.end().max(b.end()))
    }

    /// Whether the chain goes on from one residue to another without a break.
    fn is_one_chain(&self, from: usize, to: usize) -> bool {
        // mdtraj sees no breaks, so that residues next to one may have another state there: nine of
        // the 43,000 that were compared.
        self.follows[from + 1..=to].iter().all(|follows| *follows)
    }

    fn bends(&self, i: usize, carbons: &Cloud, cell: Option<&Cell>) -> bool {
        if i < 2 || i + 2 >= self.slots.len() || !self.is_one_chain(i - 2, i + 2) {
            return false;
        }
        let along = |from: usize, to: usize| {
            Cell::nearest_or(cell, difference(carbons.get(to), carbons.get(from)))
        };
        let before = along(i - 2, i);
        let after = along(i, i + 2);
        let cosine = dot(before, after) / (norm(before) * norm(after));
        cosine < LEAST_BEND_DEG.to_radians().cos()
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let definition = "states of DSSP 2.1 (Kabsch and Sander 1983) by backbone hydrogen bonds \
                          of less than −0.5 kcal/mol, in the order of precedence H, E and B, G, \
                          T, S, and I only over H; bonds to all residues of the system count";
        let groups = vec![TableGroup::new("group", &self.request.group)];
        Table::new(kind, title, definition.to_owned(), groups, columns)
    }
}

impl Ladder {
    /// Adds bridges that come after these along the first strand.
    fn join(&mut self, next: &Self) {
        let low = next.other.start().min(self.other.start());
        let high = next.other.end().max(self.other.end());
        self.other = *low..=*high;
        self.one = *self.one.start()..=*next.one.end();
        self.n_bridges += next.n_bridges;
    }
}

/// Electrostatic energy of an N–H and a C=O group, in kcal/mol.
fn energy(n: [f64; 3], h: [f64; 3], c: [f64; 3], o: [f64; 3]) -> f64 {
    let [on, ch, oh, cn] = [[o, n], [c, h], [o, h], [c, n]].map(|[a, b]| norm(sub(a, b)));
    if [on, ch, oh, cn].iter().any(|distance| *distance < OVERLAP) {
        return STRONGEST;
    }
    (COUPLING * (1.0 / on + 1.0 / ch - 1.0 / oh - 1.0 / cn)).max(STRONGEST)
}
