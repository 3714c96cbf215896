//! Contacts between two groups of atoms.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cell::{difference, dot};
use crate::episodes::Episodes;
use crate::frames::Frames;
use crate::group::Group;
use crate::neighbours::{Cloud, Neighbours};
use crate::read::Frame;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, RESIDUE_INDEX, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{Cell, Error, Topology};

/// The default of the largest distance, in Å.
pub(crate) const MAX_CONTACT_DISTANCE: f64 = 4.5;

/// The contacts in each frame: pairs of atoms of different residues, one of each group, no farther
/// apart than `max_distance` between nearest periodic images, the bound included.
///
/// A pair counts once if both atoms are of both groups. Of the contacts in the first analysed frame
/// the part that is there is given too.
#[derive(Clone, Debug, PartialEq)]
pub struct Contacts {
    /// One group.
    pub a: Group,
    /// The other.
    pub b: Group,
    /// Largest distance in Å, above 0 and at most 20; as a rule 4.5, between heavy atoms.
    pub max_distance: f64,
}

impl Contacts {
    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Search, Error> {
        if !(self.max_distance > 0.0 && self.max_distance <= 20.0) {
            return Err(Error::Parameter {
                analysis,
                name: "max_distance",
                bounds: "above 0 and at most 20 Å",
            });
        }
        let mut search = Search {
            request: self.clone(),
            a: side(setup, &self.a),
            b: side(setup, &self.b),
            first: FxHashSet::default(),
        };
        let mut first = FxHashSet::default();
        search.find(setup.first(), &mut Scratch::default(), |a, b| {
            first.insert(pair(a.atom, b.atom));
        });
        search.first = first;
        Ok(search)
    }
}

#[derive(Debug)]
pub(crate) struct Search {
    request: Contacts,
    a: Vec<Atom>,
    b: Vec<Atom>,
    /// Contacts in the first frame.
    first: FxHashSet<[u32; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Atom {
    atom: u32,
    slot: u32,
    residue: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Vec<i64>,
    n_first: Vec<i64>,
    n_residue_pairs: Vec<i64>,
    residue_pairs: FxHashMap<[u32; 2], Episodes>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    neighbours: Neighbours,
    a: Cloud,
    b: Cloud,
}

impl Task for Search {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally::default()
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let mut atom_pairs = Vec::new();
        let mut residue_pairs = Vec::new();
        self.find(view.frame, &mut tally.scratch, |a, b| {
            atom_pairs.push(pair(a.atom, b.atom));
            residue_pairs.push(pair(a.residue, b.residue));
        });
        for pairs in [&mut atom_pairs, &mut residue_pairs] {
            pairs.sort_unstable();
            pairs.dedup();
        }
        tally.counts.push(atom_pairs.len() as i64);
        tally
            .n_first
            .push(atom_pairs.iter().filter(|pair| self.first.contains(*pair)).count() as i64);
        tally.n_residue_pairs.push(residue_pairs.len() as i64);
        let now = Episodes::at(view.now);
        for pair in residue_pairs {
            tally
                .residue_pairs
                .entry(pair)
                .and_modify(|episodes| episodes.append(now))
                .or_insert(now);
        }
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        for (pair, episodes) in next.residue_pairs {
            tally
                .residue_pairs
                .entry(pair)
                .and_modify(|before| before.append(episodes))
                .or_insert(episodes);
        }
        tally.counts.extend(next.counts);
        tally.n_first.extend(next.n_first);
        tally.n_residue_pairs.extend(next.n_residue_pairs);
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let mut pairs: Vec<_> = tally.residue_pairs.into_iter().collect();
        pairs.sort_by_key(|(pair, episodes)| (std::cmp::Reverse(episodes.n_frames()), *pair));
        let topology = frames.topology;
        let mut columns = vec![
            Column::texts("residue_a", "chain and residue", labels(&pairs, 0, topology)),
            Column::texts("residue_b", "chain and residue", labels(&pairs, 1, topology)),
            Column::integers("residue_a_index", RESIDUE_INDEX, numbers(&pairs, 0)),
            Column::integers("residue_b_index", RESIDUE_INDEX, numbers(&pairs, 1)),
        ];
        columns.extend(Episodes::columns(pairs.iter().map(|(_, episodes)| episodes), frames));
        let mut by_frame = frames.columns();
        by_frame.push(Column::integers("contacts", "pairs of atoms in contact", tally.counts));
        by_frame.push(Column::integers(
            "residue_pairs",
            "pairs of residues in contact",
            tally.n_residue_pairs,
        ));
        if !self.first.is_empty() {
            let n_first = self.first.len() as f64;
            let parts = tally.n_first.iter().map(|n| *n as f64 / n_first).collect();
            by_frame.push(Column::numbers(
                "first_fraction",
                None,
                "part of the contacts of the first analysed frame",
                parts,
            ));
        }
        Outcome::Tables(vec![
            self.table("contacts", "Contacts of residues", columns),
            self.table("contacts_by_frame", "Contacts in each frame", by_frame),
        ])
    }
}

impl Search {
    fn find(&self, frame: &Frame, scratch: &mut Scratch, mut found: impl FnMut(Atom, Atom)) {
        let Scratch { neighbours, a, b } = scratch;
        a.read(frame, self.a.iter().map(|atom| atom.slot));
        b.read(frame, self.b.iter().map(|atom| atom.slot));
        let max_square = self.request.max_distance * self.request.max_distance;
        neighbours.pairs(a, b, frame.cell(), self.request.max_distance, |i, j| {
            let one = self.a[i];
            let other = self.b[j];
            let apart = Cell::nearest_or(frame.cell(), difference(a.get(i), b.get(j)));
            if one.residue != other.residue && dot(apart, apart) <= max_square {
                found(one, other);
            }
        });
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let Contacts { a, b, max_distance } = &self.request;
        let definition = format!(
            "pairs of atoms of different residues, one of each group, at most {max_distance} Å \
             apart between nearest periodic images"
        );
        Table::new(
            kind,
            title,
            definition,
            vec![TableGroup::new("a", a), TableGroup::new("b", b)],
            columns,
        )
    }
}

fn side(setup: &Setup<'_>, group: &Group) -> Vec<Atom> {
    let atoms = group.atoms.iter().map(|atom| Atom {
        atom: atom as u32,
        slot: setup.slot(atom) as u32,
        residue: setup.topology().atom(atom).residue as u32,
    });
    atoms.collect()
}

type ResiduePairs = [([u32; 2], Episodes)];

fn labels(pairs: &ResiduePairs, k: usize, topology: &Topology) -> Vec<String> {
    pairs.iter().map(|(pair, _)| topology.residue_label(pair[k] as usize)).collect()
}

fn numbers(pairs: &ResiduePairs, k: usize) -> Vec<i64> {
    pairs.iter().map(|(pair, _)| i64::from(pair[k]) + 1).collect()
}

fn pair(a: u32, b: u32) -> [u32; 2] {
    [a.min(b), a.max(b)]
}
