//! How many of the contacts of a reference structure are there.

use rustc_hash::FxHashMap;

use crate::cell::{difference, dot, norm, sub};
use crate::frames::Frames;
use crate::group::Group;
use crate::neighbours::{Cloud, Neighbours};
use crate::reference::Reference;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, RESIDUE_INDEX, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{AtomSet, Cell, Element, Error, Topology};

/// Residues of a chain that are closer along it than this have no native contacts.
const LEAST_APART: usize = 4;

/// How fast a contact fades, in 1/Å, and by which factor it may grow (Best, Hummer and Eaton, PNAS
/// 110, 17874, 2013).
const BETA: f64 = 5.0;
const LAMBDA: f64 = 1.8;

/// The fraction of native contacts in each frame.
///
/// Native contacts are the pairs of heavy atoms, one of each group, that are at most `max_distance`
/// apart in the reference, of residues of different chains, or of residues at least four apart in
/// one chain. The hard fraction counts those that are no farther apart than that bound; the soft
/// one is Q = 1/n Σ 1 / (1 + exp(β·(r − λ·r₀))), r₀ the distance in the reference, β = 5 Å⁻¹,
/// λ = 1.8. Distances are between nearest periodic images.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeContacts {
    /// One group.
    pub a: Group,
    /// The other, which may be the same.
    pub b: Group,
    /// Largest distance in the reference in Å, above 0 and at most 20; as a rule 4.5.
    pub max_distance: f64,
}

#[derive(Debug)]
pub(crate) struct Contacts {
    request: NativeContacts,
    pairs: Vec<Pair>,
    /// The two residues of each pair of residues in contact.
    residues: Vec<[usize; 2]>,
    /// What contacts are those of, for people.
    origin: String,
}

/// A native contact.
#[derive(Clone, Copy, Debug)]
struct Pair {
    slots: [u32; 2],
    /// λ·r₀ in Å.
    reach: f64,
    residues: u32,
}

#[derive(Debug)]
pub(crate) struct Tally {
    soft: Vec<f64>,
    hard: Vec<f64>,
    /// For each pair of residues Σ of the soft terms, and of contacts that are there.
    by_residues: Vec<(f64, u64)>,
}

impl NativeContacts {
    /// The heavy atoms of both.
    pub(crate) fn atoms(&self, topology: &Topology) -> AtomSet {
        let mut atoms = self.a.atoms.clone();
        atoms.union_with(&self.b.atoms);
        AtomSet::from_fn(topology.n_atoms(), |atom| {
            atoms.contains(atom) && topology.element(atom) != Some(Element::H)
        })
    }

    pub(crate) fn task(
        &self,
        setup: &Setup<'_>,
        reference: Option<&Reference>,
        analysis: usize,
    ) -> Result<Contacts, Error> {
        if !(self.max_distance > 0.0 && self.max_distance <= 20.0) {
            let bounds = "above 0 and at most 20 Å";
            return Err(Error::Parameter { analysis, name: "max_distance", bounds });
        }
        let topology = setup.topology();
        let all = Group { label: self.a.label.clone(), atoms: self.atoms(topology) };
        let points = match reference {
            Some(reference) => Some(reference.points(&all, analysis)?),
            None => None,
        };
        let first = setup.first();
        // Of a frame nearest images are taken; a structure from elsewhere is as somebody wants it.
        let cell = reference.map_or_else(|| first.cell(), Reference::cell);
        let atoms: Vec<usize> = all.atoms.iter().collect();
        let positions: Vec<[f64; 3]> = match &points {
            Some(points) => (0..atoms.len()).map(|n| points.get(n)).collect(),
            None => atoms.iter().map(|atom| first.position(setup.slot(*atom))).collect(),
        };
        let heavy = |group: &Group| -> Vec<usize> {
            (0..atoms.len()).filter(|n| group.atoms.contains(atoms[*n])).collect()
        };
        let [of_a, of_b] = [heavy(&self.a), heavy(&self.b)];
        let cloud = |of: &[usize]| {
            let column = |k: usize| of.iter().map(|n| positions[*n][k] as f32).collect();
            Cloud { x: column(0), y: column(1), z: column(2) }
        };
        let mut found = Vec::new();
        Neighbours::default().pairs(
            &cloud(&of_a),
            &cloud(&of_b),
            cell,
            self.max_distance,
            |i, j| {
                let (one, other) = (of_a[i], of_b[j]);
                let both = self.a.atoms.contains(atoms[other]) && self.b.atoms.contains(atoms[one]);
                if (both && other <= one) || !may_touch(topology, atoms[one], atoms[other]) {
                    return;
                }
                let distance = norm(Cell::nearest_or(cell, sub(positions[one], positions[other])));
                if distance <= self.max_distance {
                    found.push(([one, other], distance));
                }
            },
        );
        found.sort_by_key(|(pair, _)| *pair);
        let mut pairs = Vec::new();
        let mut residues: Vec<[usize; 2]> = Vec::new();
        let mut numbers: FxHashMap<[usize; 2], u32> = FxHashMap::default();
        for (pair, distance) in found {
            let pair = pair.map(|n| atoms[n]);
            let [i, j] = pair.map(|atom| topology.atom(atom).residue);
            let key = [i.min(j), i.max(j)];
            let number = *numbers.entry(key).or_insert_with(|| {
                residues.push(key);
                residues.len() as u32 - 1
            });
            let slots = pair.map(|atom| setup.slot(atom) as u32);
            pairs.push(Pair { slots, reach: LAMBDA * distance, residues: number });
        }
        if pairs.is_empty() {
            return Err(Error::NoNativeContacts {
                analysis,
                labels: [self.a.label.clone(), self.b.label.clone()],
                max_distance: self.max_distance,
            });
        }
        let origin = reference.map_or("the first analysed frame", Reference::label).to_owned();
        Ok(Contacts { request: self.clone(), pairs, residues, origin })
    }
}

/// Whether two atoms are of residues that are far enough from each other along the chain.
fn may_touch(topology: &Topology, a: usize, b: usize) -> bool {
    let [a, b] = [a, b].map(|atom| topology.atom(atom).residue);
    let [of_a, of_b] = [a, b].map(|residue| topology.residue(residue).chain);
    of_a != of_b || a.abs_diff(b) >= LEAST_APART
}

impl Task for Contacts {
    type Tally = Tally;

    fn start(&self) -> Tally {
        let by_residues = vec![(0.0, 0); self.residues.len()];
        Tally { soft: Vec::new(), hard: Vec::new(), by_residues }
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let cell = view.frame.cell();
        let [x, y, z] = [view.frame.x(), view.frame.y(), view.frame.z()];
        let most = self.request.max_distance * self.request.max_distance;
        let mut n_hard = 0_u32;
        let mut soft = 0.0;
        for Pair { slots, reach, residues } in &self.pairs {
            let [a, b] = slots.map(|slot| [x[slot as usize], y[slot as usize], z[slot as usize]]);
            let apart = Cell::nearest_or(cell, difference(a, b));
            let square = dot(apart, apart);
            let term = 1.0 / (1.0 + (BETA * (square.sqrt() - reach)).exp());
            let is_there = square <= most;
            soft += term;
            n_hard += u32::from(is_there);
            let of_residues = &mut tally.by_residues[*residues as usize];
            of_residues.0 += term;
            of_residues.1 += u64::from(is_there);
        }
        let n = self.pairs.len() as f64;
        tally.soft.push(soft / n);
        tally.hard.push(f64::from(n_hard) / n);
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        tally.soft.extend(next.soft);
        tally.hard.extend(next.hard);
        for (sums, next) in tally.by_residues.iter_mut().zip(next.by_residues) {
            sums.0 += next.0;
            sums.1 += next.1;
        }
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let mut columns = frames.columns();
        columns.push(Column::numbers(
            "soft_fraction",
            None,
            "fraction of native contacts, soft (Best and Hummer)",
            tally.soft,
        ));
        columns.push(Column::numbers(
            "hard_fraction",
            None,
            "fraction of native contacts within the cutoff",
            tally.hard,
        ));
        Outcome::Tables(vec![
            self.table(
                "native_contacts",
                "Native contacts of residues",
                self.by_residues(&tally.by_residues, frames),
            ),
            self.table("native_contacts_by_frame", "Native contacts in each frame", columns),
        ])
    }
}

impl Contacts {
    /// A row for each pair of residues with a native contact, in the order of residues.
    fn by_residues(&self, sums: &[(f64, u64)], frames: &Frames<'_>) -> Vec<Column> {
        let mut order: Vec<usize> = (0..self.residues.len()).collect();
        order.sort_by_key(|k| self.residues[*k]);
        let mut n_pairs = vec![0_u32; self.residues.len()];
        self.pairs.iter().for_each(|pair| n_pairs[pair.residues as usize] += 1);
        let labels = |k: usize| {
            let residues = order.iter().map(|n| self.residues[*n][k]);
            residues.map(|residue| frames.topology.residue_label(residue)).collect()
        };
        let numbers = |k: usize| order.iter().map(|n| self.residues[*n][k] as i64 + 1).collect();
        let part = |f: &dyn Fn(&(f64, u64)) -> f64| {
            let parts = order
                .iter()
                .map(|n| f(&sums[*n]) / (f64::from(n_pairs[*n]) * frames.n_analyzed() as f64));
            parts.collect()
        };
        vec![
            Column::texts("residue_a", "chain and residue", labels(0)),
            Column::texts("residue_b", "chain and residue", labels(1)),
            Column::integers("residue_a_index", RESIDUE_INDEX, numbers(0)),
            Column::integers("residue_b_index", RESIDUE_INDEX, numbers(1)),
            Column::integers(
                "contacts",
                "native contacts between the two",
                order.iter().map(|n| i64::from(n_pairs[*n])).collect(),
            ),
            Column::numbers(
                "soft_fraction",
                None,
                "of these, mean over frames",
                part(&|sums| sums.0),
            ),
            Column::numbers(
                "hard_fraction",
                None,
                "part of these within the cutoff, mean over frames",
                part(&|sums| sums.1 as f64),
            ),
        ]
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let NativeContacts { a, b, max_distance } = &self.request;
        let definition = format!(
            "{} pairs of heavy atoms, of different chains or at least {LEAST_APART} residues apart, \
             that are at most {max_distance} Å apart in {}; soft: mean of 1 / (1 + exp(β(r − λr₀))), \
             β = {BETA} Å⁻¹, λ = {LAMBDA} (Best, Hummer and Eaton 2013); hard: part with \
             r ≤ {max_distance} Å; nearest periodic images",
            self.pairs.len(),
            self.origin
        );
        let groups = vec![TableGroup::new("a", a), TableGroup::new("b", b)];
        Table::new(kind, title, definition, groups, columns)
    }
}
