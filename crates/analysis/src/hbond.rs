//! Hydrogen bonds by distance and angle.

use rustc_hash::FxHashMap;

use crate::cell::{difference, dot, sub};
use crate::episodes::Episodes;
use crate::frames::Frames;
use crate::group::Group;
use crate::neighbours::{Cloud, Neighbours};
use crate::read::Frame;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, RESIDUE_INDEX, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::topology::Atom;
use crate::{AtomSet, Cell, Element, Error, Topology};

/// The default largest distance, in Å.
pub(crate) const MAX_DISTANCE: f64 = 3.0;

/// The default least angle, in degrees.
pub(crate) const MIN_ANGLE_DEG: f64 = 135.0;

/// The hydrogen bonds in each frame.
///
/// One is a donor D with a hydrogen H bonded to it and an acceptor A, which meet a criterion. Each
/// hydrogen counts for itself, and A may be in the residue of D. With `nearest_image` positions are
/// those of nearest periodic images; without, and in frames that have no cell, as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct HydrogenBonds {
    /// Between which atoms.
    pub between: Between,
    /// What makes a hydrogen bond.
    pub criterion: Criterion,
    /// Whether nearest images count.
    pub nearest_image: bool,
}

/// What donor D, hydrogen H and acceptor A must be, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Criterion {
    /// cpptraj's and MDAnalysis': D and A are nitrogen, oxygen or fluorine, |D…A| is at most
    /// `max_distance`, and the angle D–H…A, at H, at least `min_angle_deg`.
    Angle {
        /// Largest distance of donor and acceptor in Å, above 0 and at most 10.
        max_distance: f64,
        /// Least angle in degrees, from 0 to 180.
        min_angle_deg: f64,
    },
    /// Baker and Hubbard's (Prog. Biophys. Mol. Biol. 44, 97, 1984) as in mdtraj: D and A are
    /// nitrogen or oxygen, |H…A| is less than 2.5 Å, and the angle D–H…A more than 120°.
    BakerHubbard,
    /// Wernet, Nilsson and others' (Science 304, 995, 2004) as in mdtraj: D and A are nitrogen or
    /// oxygen, and |D…A| is less than 3.3 Å − 0.00044 Å·δ², where δ is the angle H–D…A in degrees
    /// and less than 45.
    WernetNilsson,
}

impl Default for Criterion {
    fn default() -> Self {
        Self::Angle { max_distance: MAX_DISTANCE, min_angle_deg: MIN_ANGLE_DEG }
    }
}

/// Baker and Hubbard's bounds, in Å and degrees.
const BAKER_HUBBARD: (f64, f64) = (2.5, 120.0);

/// Wernet and Nilsson's bounds: Å at 0°, Å less per square degree, and degrees.
const WERNET_NILSSON: (f64, f64, f64) = (3.3, 0.000_44, 45.0);

/// The atoms that hydrogen bonds are between.
#[derive(Clone, Debug, PartialEq)]
pub enum Between {
    /// Donor and acceptor are of one group.
    Within(Group),
    /// One is of the first group, the other of the second.
    Groups(Group, Group),
    /// The same, with a solvent as the second group: its molecules are not distinguished, and those
    /// that bind two residues of the first group or more are counted as bridges, and listed by the
    /// pairs of residues that they join.
    Solvent(Group, Group),
}

impl HydrogenBonds {
    /// Hydrogen bonds by the default distance and angle, between nearest images.
    pub fn new(between: Between) -> Self {
        Self { between, criterion: Criterion::default(), nearest_image: true }
    }

    pub(crate) fn groups(&self) -> Vec<&Group> {
        match &self.between {
            Between::Within(group) => vec![group],
            Between::Groups(a, b) | Between::Solvent(a, b) => vec![a, b],
        }
    }

    /// The atoms that are looked at: donors, acceptors, and the hydrogens of donors.
    pub(crate) fn atoms(&self, topology: &Topology) -> AtomSet {
        let hydrogens = hydrogens(topology);
        let mut atoms = AtomSet::none(topology.n_atoms());
        for site in self.groups().into_iter().flat_map(|group| self.sites(topology, group)) {
            atoms.insert(site);
            hydrogens.get(&site).into_iter().flatten().for_each(|hydrogen| atoms.insert(*hydrogen));
        }
        atoms
    }

    /// What stands in the way of any hydrogen bond, and in which group: without a donor and an
    /// acceptor that is another atom, counts of 0 would rest on nothing.
    pub(crate) fn lacks(&self, topology: &Topology) -> Option<(&str, &'static str)> {
        self.lacks_with(topology, &hydrogens(topology))
    }

    fn lacks_with(
        &self,
        topology: &Topology,
        hydrogens: &Hydrogens,
    ) -> Option<(&str, &'static str)> {
        let groups = self.groups();
        let [first, last] = [groups[0], groups[groups.len() - 1]];
        if self.can_bond(topology, hydrogens, first, last)
            || self.can_bond(topology, hydrogens, last, first)
        {
            return None;
        }
        let mut sites = self.sites(topology, first).chain(self.sites(topology, last));
        let problem = if sites.any(|site| hydrogens.contains_key(&site)) {
            "no acceptor besides the donor itself"
        } else {
            "no N, O or F with a hydrogen"
        };
        Some((&first.label, problem))
    }

    fn can_bond(
        &self,
        topology: &Topology,
        hydrogens: &Hydrogens,
        donors: &Group,
        acceptors: &Group,
    ) -> bool {
        self.sites(topology, donors)
            .filter(|site| hydrogens.contains_key(site))
            .any(|donor| self.sites(topology, acceptors).any(|acceptor| acceptor != donor))
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Search, Error> {
        if let Criterion::Angle { max_distance, min_angle_deg } = self.criterion {
            if !(max_distance > 0.0 && max_distance <= 10.0) {
                return Err(Error::Parameter {
                    analysis,
                    name: "max_distance",
                    bounds: "above 0 and at most 10 Å",
                });
            }
            if !(0.0..=180.0).contains(&min_angle_deg) {
                return Err(Error::Parameter {
                    analysis,
                    name: "min_angle_deg",
                    bounds: "from 0 to 180 degrees",
                });
            }
        }
        let hydrogens = hydrogens(setup.topology());
        if let Some((label, problem)) = self.lacks_with(setup.topology(), &hydrogens) {
            return Err(Error::NoHydrogenBonds { analysis, label: label.to_owned(), problem });
        }
        let groups = self.groups();
        let is_in_all = |atom| groups.iter().all(|group| group.atoms.contains(atom));
        let is_within = matches!(self.between, Between::Within(_));
        let first = self.sites(setup.topology(), groups[0]);
        let first = first.filter(|atom| !is_within || hydrogens.contains_key(atom));
        let a = Sites::new(setup, &hydrogens, first, is_in_all);
        let second = self.sites(setup.topology(), groups[groups.len() - 1]);
        let mut b = Sites::new(setup, &hydrogens, second, is_in_all);
        if let Between::Solvent(..) = self.between {
            b.share_names(setup.topology());
        }
        let min_angle_deg = match self.criterion {
            Criterion::Angle { min_angle_deg, .. } => min_angle_deg,
            Criterion::BakerHubbard | Criterion::WernetNilsson => BAKER_HUBBARD.1,
        };
        Ok(Search { request: self.clone(), max_cosine: min_angle_deg.to_radians().cos(), a, b })
    }

    /// The atoms of a group that can take part in hydrogen bonds.
    fn sites(&self, topology: &Topology, group: &Group) -> impl Iterator<Item = usize> {
        let elements: &[Element] = match self.criterion {
            Criterion::Angle { .. } => &[Element::N, Element::O, Element::F],
            Criterion::BakerHubbard | Criterion::WernetNilsson => &[Element::N, Element::O],
        };
        group
            .atoms
            .iter()
            .filter(move |atom| topology.element(*atom).is_some_and(|e| elements.contains(&e)))
    }
}

/// A search for hydrogen bonds between two sets of sites.
#[derive(Debug)]
pub(crate) struct Search {
    request: HydrogenBonds,
    /// The cosine falls as the angle grows.
    max_cosine: f64,
    a: Sites,
    b: Sites,
}

/// Atoms that accept hydrogen bonds, and donate some if they have hydrogens.
#[derive(Clone, Debug, Default)]
struct Sites {
    atoms: Vec<Named>,
    residues: Vec<u32>,
    /// Whether each is of both groups.
    is_in_all: Vec<bool>,
    hydrogens: Vec<Named>,
    /// The first hydrogen of each atom, and of one more.
    first_hydrogens: Vec<u32>,
}

/// An atom, where it is read, and what it counts as in the results.
#[derive(Clone, Copy, Debug)]
struct Named {
    atom: u32,
    slot: u32,
    counts_as: u32,
}

impl Named {
    fn new(setup: &Setup<'_>, atom: usize) -> Self {
        Self { atom: atom as u32, slot: setup.slot(atom) as u32, counts_as: atom as u32 }
    }
}

impl Sites {
    fn new(
        setup: &Setup<'_>,
        hydrogens: &Hydrogens,
        atoms: impl Iterator<Item = usize>,
        is_in_all: impl Fn(usize) -> bool,
    ) -> Self {
        let mut sites = Self { first_hydrogens: vec![0], ..Self::default() };
        for atom in atoms {
            sites.atoms.push(Named::new(setup, atom));
            sites.residues.push(setup.topology().atom(atom).residue as u32);
            sites.is_in_all.push(is_in_all(atom));
            let hydrogens = hydrogens.get(&atom).into_iter().flatten();
            sites.hydrogens.extend(hydrogens.map(|hydrogen| Named::new(setup, *hydrogen)));
            sites.first_hydrogens.push(sites.hydrogens.len() as u32);
        }
        sites
    }

    /// Lets atoms of equal names in residues of equal names count as the first of them, and the
    /// hydrogens of such an atom as its first one: those of water do not differ, and a bond that
    /// goes from one to the other goes on.
    fn share_names(&mut self, topology: &Topology) {
        let mut first: FxHashMap<(usize, usize), (u32, Option<u32>)> = FxHashMap::default();
        for (site, named) in self.atoms.iter_mut().enumerate() {
            let atom = named.atom as usize;
            let name = (
                topology.residue_name_id(topology.atom(atom).residue),
                topology.atom_name_id(atom),
            );
            let [begin, end] = [site, site + 1].map(|it| self.first_hydrogens[it] as usize);
            let hydrogens = &mut self.hydrogens[begin..end];
            let (atom, hydrogen) = first.entry(name).or_insert((named.atom, None));
            named.counts_as = *atom;
            for named in hydrogens {
                named.counts_as = *hydrogen.get_or_insert(named.atom);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Vec<i64>,
    n_bridges: Vec<i64>,
    bonds: FxHashMap<Key, Bond>,
    /// By the two residues that they join, the lower first.
    bridges: FxHashMap<[u32; 2], Bridge>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    neighbours: Neighbours,
    a: Positions,
    b: Positions,
    /// Residues of the second group with those of the first that they bind in this frame.
    bound: Vec<[u32; 2]>,
}

/// Where sites are in a frame: all of them, or those that are near others.
#[derive(Debug, Default)]
struct Positions {
    /// Which of the sites these are.
    sites: Vec<u32>,
    atoms: Cloud,
    /// Which of the hydrogens these are, and to which of these atoms each is bonded.
    own_hydrogens: Vec<u32>,
    donors: Vec<u32>,
    hydrogens: Cloud,
    /// From each donor to its hydrogen, in Å.
    bonds: Vec<[f64; 3]>,
    /// All sites, of which some are near.
    all: Cloud,
}

/// So many times as large a set is searched for what is near the other first.
const MUCH_LARGER: usize = 2;

/// Donor, hydrogen and acceptor, by what they count as.
type Key = [u32; 3];

fn means(bonds: &[(Key, Bond)], sum: fn(&Bond) -> f64) -> Vec<f64> {
    bonds.iter().map(|(_, bond)| sum(bond) / bond.n_bonds as f64).collect()
}

#[derive(Clone, Copy, Debug)]
struct Bond {
    n_bonds: u64,
    distance: f64,
    angle_deg: f64,
    episodes: Episodes,
}

/// Solvent between two residues, whichever molecule it is.
#[derive(Clone, Copy, Debug)]
struct Bridge {
    n_residues: u64,
    episodes: Episodes,
}

impl Task for Search {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally::default()
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let Tally { scratch: Scratch { neighbours, a, b, bound }, bonds, bridges, .. } = tally;
        let cell = view.frame.cell().filter(|_| self.request.nearest_image);
        a.read(view.frame, &self.a);
        a.read_hydrogens(view.frame, cell, &self.a);
        let is_within = matches!(self.request.between, Between::Within(_));
        let is_much_larger = self.b.atoms.len() > MUCH_LARGER * self.a.atoms.len();
        match self.farthest_acceptor() {
            Some(cutoff) if is_much_larger && !is_within => {
                b.read_near(view.frame, cell, &self.b, &a.atoms, cutoff, neighbours);
            }
            _ => b.read(view.frame, &self.b),
        }
        if !is_within {
            b.read_hydrogens(view.frame, cell, &self.b);
        }
        bound.clear();
        let is_solvent = matches!(self.request.between, Between::Solvent(..));
        let mut count = 0;
        let now = Episodes::at(view.now);
        let mut add = |key: Key, residues: [u32; 2], distance, angle_deg| {
            count += 1;
            if is_solvent {
                bound.push(residues);
            }
            let bond = Bond { n_bonds: 1, distance, angle_deg, episodes: now };
            bonds.entry(key).and_modify(|sum| sum.append(bond)).or_insert(bond);
        };
        self.donated(
            (&self.a, a),
            (&self.b, b),
            cell,
            neighbours,
            |key, donor, acceptor, distance, angle_deg| {
                add(key, [self.b.residues[acceptor], self.a.residues[donor]], distance, angle_deg);
            },
        );
        if !is_within {
            self.donated(
                (&self.b, b),
                (&self.a, a),
                cell,
                neighbours,
                |key, donor, acceptor, distance, angle_deg| {
                    // The other direction has had those between atoms of both groups.
                    if !(self.b.is_in_all[donor] && self.a.is_in_all[acceptor]) {
                        add(
                            key,
                            [self.b.residues[donor], self.a.residues[acceptor]],
                            distance,
                            angle_deg,
                        );
                    }
                },
            );
        }
        let mut n_bridges = 0;
        for_bridges(bound, |residues| {
            n_bridges += 1;
            for pair in pairs(residues) {
                let bridge = Bridge { n_residues: 1, episodes: now };
                bridges.entry(pair).and_modify(|sum| sum.append(bridge)).or_insert(bridge);
            }
        });
        tally.counts.push(count);
        tally.n_bridges.push(n_bridges);
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        for (key, bond) in next.bonds {
            tally.bonds.entry(key).and_modify(|sum| sum.append(bond)).or_insert(bond);
        }
        for (pair, bridge) in next.bridges {
            tally.bridges.entry(pair).and_modify(|sum| sum.append(bridge)).or_insert(bridge);
        }
        tally.counts.extend(next.counts);
        tally.n_bridges.extend(next.n_bridges);
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let mut bonds: Vec<_> = tally.bonds.into_iter().collect();
        bonds.sort_by_key(|(key, bond)| {
            (std::cmp::Reverse((bond.episodes.n_frames(), bond.n_bonds)), *key)
        });
        let mut per_frame = frames.columns();
        per_frame.push(Column::integers(
            "hydrogen_bonds",
            "hydrogen bonds in the frame",
            tally.counts,
        ));
        if let Between::Solvent(..) = self.request.between {
            let description =
                "residues of the second group that bind two residues of the first or more";
            per_frame.push(Column::integers("bridges", description, tally.n_bridges));
        }
        let mut tables = vec![
            self.table("hydrogen_bonds", "Hydrogen bonds", self.columns(&bonds, frames)),
            self.table("hydrogen_bonds_by_frame", "Hydrogen bonds in each frame", per_frame),
        ];
        if let Between::Solvent(..) = self.request.between {
            tables.push(self.bridges(tally.bridges.into_iter().collect(), frames));
        }
        Outcome::Tables(tables)
    }
}

impl Search {
    /// Calls `found` for each hydrogen bond from one set of sites to another, with its key, donor,
    /// acceptor, distance in Å and angle in degrees.
    fn donated(
        &self,
        (donors, from): (&Sites, &Positions),
        (acceptors, to): (&Sites, &Positions),
        cell: Option<&Cell>,
        neighbours: &mut Neighbours,
        mut found: impl FnMut(Key, usize, usize, f64, f64),
    ) {
        // From the hydrogen, since the triangle bounds how far the acceptor is from it: 440 pairs
        // in a frame of solvated HIV protease, where a search from the donor met 868.
        neighbours.pairs(
            &from.hydrogens,
            &to.atoms,
            cell,
            self.reach(&from.bonds),
            |h, acceptor| {
                let donor = from.donors[h] as usize;
                let donor_site = from.sites[donor] as usize;
                let acceptor_site = to.sites[acceptor] as usize;
                let d = &donors.atoms[donor_site];
                let a = &acceptors.atoms[acceptor_site];
                if d.atom == a.atom {
                    return;
                }
                let to_acceptor = Cell::nearest_or(
                    cell,
                    difference(to.atoms.get(acceptor), from.atoms.get(donor)),
                );
                let square = dot(to_acceptor, to_acceptor);
                let bond = from.bonds[h];
                let onward = sub(to_acceptor, bond);
                // The angle is at the hydrogen, so against the vector that leads to it.
                let product = -dot(bond, onward);
                let lengths = (dot(bond, bond) * dot(onward, onward)).sqrt();
                // Where two of the three lie in one point there is no angle.
                if lengths == 0.0 || square == 0.0 {
                    return;
                }
                let is_bond = match self.request.criterion {
                    Criterion::Angle { max_distance, .. } => {
                        square <= max_distance * max_distance
                            && product <= self.max_cosine * lengths
                    }
                    Criterion::BakerHubbard => {
                        dot(onward, onward) < BAKER_HUBBARD.0 * BAKER_HUBBARD.0
                            && product < self.max_cosine * lengths
                    }
                    Criterion::WernetNilsson => {
                        let (longest, less, widest) = WERNET_NILSSON;
                        let off_deg =
                            angle_deg(dot(bond, to_acceptor) / (dot(bond, bond) * square).sqrt());
                        off_deg < widest && square.sqrt() < longest - less * off_deg * off_deg
                    }
                };
                if is_bond {
                    let h_atom = &donors.hydrogens[from.own_hydrogens[h] as usize];
                    let at_hydrogen = angle_deg(product / lengths);
                    found(
                        [d.counts_as, h_atom.counts_as, a.counts_as],
                        donor_site,
                        acceptor_site,
                        square.sqrt(),
                        at_hydrogen,
                    );
                }
            },
        );
    }

    /// How far an acceptor can be from a donor, in Å, where the criterion says so by itself.
    fn farthest_acceptor(&self) -> Option<f64> {
        match self.request.criterion {
            Criterion::Angle { max_distance, .. } => Some(max_distance),
            Criterion::WernetNilsson => Some(WERNET_NILSSON.0),
            Criterion::BakerHubbard => None,
        }
    }

    /// How far an acceptor can be from a hydrogen, in Å. In the triangle of the three the side
    /// opposite to the angle is at most the largest distance, and if the angle is obtuse, the side
    /// that is asked for is longest where the bond is shortest.
    fn reach(&self, bonds: &[[f64; 3]]) -> f64 {
        let squares = bonds.iter().map(|bond| dot(*bond, *bond));
        let (shortest, longest) = squares.fold((f64::INFINITY, 0.0_f64), |(low, high), square| {
            (low.min(square), high.max(square))
        });
        let (max, cosine) = match self.request.criterion {
            Criterion::Angle { max_distance, .. } => (max_distance, self.max_cosine),
            Criterion::BakerHubbard => return BAKER_HUBBARD.0,
            Criterion::WernetNilsson => (WERNET_NILSSON.0, 0.0),
        };
        if cosine < 0.0 && shortest.is_finite() {
            let height_2 = shortest * (1.0 - cosine * cosine);
            (cosine * shortest.sqrt() + (max * max - height_2).max(0.0).sqrt()).max(0.0)
        } else {
            max + longest.sqrt()
        }
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let HydrogenBonds { between, criterion, nearest_image } = &self.request;
        let (bounds, elements) = match criterion {
            Criterion::Angle { max_distance, min_angle_deg } => (
                format!(
                    "donor–acceptor distance at most {max_distance} Å and angle \
                     donor–hydrogen–acceptor at least {min_angle_deg}°, both included"
                ),
                "nitrogen, oxygen and fluorine",
            ),
            Criterion::BakerHubbard => (
                "hydrogen–acceptor distance of less than 2.5 Å and angle donor–hydrogen–acceptor \
                 of more than 120° (Baker and Hubbard 1984)"
                    .to_owned(),
                "nitrogen and oxygen",
            ),
            Criterion::WernetNilsson => (
                "donor–acceptor distance of less than 3.3 Å − 0.00044 Å δ², δ being the angle \
                 hydrogen–donor–acceptor in degrees, less than 45 (Wernet and Nilsson 2004)"
                    .to_owned(),
                "nitrogen and oxygen",
            ),
        };
        let images = if *nearest_image {
            "between nearest periodic images"
        } else {
            "positions as they are"
        };
        let definition = format!(
            "{bounds}, {images}; donors are {elements} with a hydrogen bonded to them, acceptors \
             the same elements"
        );
        let groups = match between {
            Between::Within(group) => vec![TableGroup::new("within", group)],
            Between::Groups(a, b) => vec![TableGroup::new("a", a), TableGroup::new("b", b)],
            Between::Solvent(a, b) => {
                vec![TableGroup::new("solute", a), TableGroup::new("solvent", b)]
            }
        };
        Table::new(kind, title, definition, groups, columns)
    }

    /// A row for each pair of residues that solvent joins, the most frequent first.
    fn bridges(&self, mut bridges: Vec<([u32; 2], Bridge)>, frames: &Frames<'_>) -> Table {
        bridges.sort_unstable_by_key(|(pair, bridge)| {
            (std::cmp::Reverse((bridge.episodes.n_frames(), bridge.n_residues)), *pair)
        });
        let labels = |k: usize| {
            let residues = bridges.iter().map(|(pair, _)| pair[k] as usize);
            residues.map(|residue| frames.topology.residue_label(residue)).collect()
        };
        let numbers = |k: usize| bridges.iter().map(|(pair, _)| i64::from(pair[k]) + 1).collect();
        let mut columns = vec![
            Column::texts("residue_a", "chain and residue", labels(0)),
            Column::texts("residue_b", "chain and residue", labels(1)),
            Column::integers("residue_a_index", RESIDUE_INDEX, numbers(0)),
            Column::integers("residue_b_index", RESIDUE_INDEX, numbers(1)),
            Column::integers(
                "bridges",
                "solvent residues between the two, summed over frames",
                bridges.iter().map(|(_, bridge)| bridge.n_residues as i64).collect(),
            ),
        ];
        columns.extend(Episodes::columns(bridges.iter().map(|(_, it)| &it.episodes), frames));
        let table = self.table("solvent_bridges", "Solvent between two residues", columns);
        let definition = format!(
            "pairs of residues of the first group that a residue of the second binds both, \
             whichever it is, by hydrogen bonds: {}",
            table.definition
        );
        Table { definition, ..table }
    }

    fn columns(&self, bonds: &[(Key, Bond)], frames: &Frames<'_>) -> Vec<Column> {
        let [donors, acceptors] = [0, 2].map(|k| {
            bonds.iter().map(|(key, _)| self.label(key[k] as usize, frames.topology)).collect()
        });
        let of_donors = hydrogens(frames.topology);
        let hydrogens = bonds
            .iter()
            .map(|(key, _)| self.hydrogen_label(*key, &of_donors, frames.topology))
            .collect();
        let mut columns = vec![
            Column::texts("donor", "chain, residue and atom of the donor", donors),
            Column::texts("hydrogen", "its hydrogen", hydrogens),
            Column::texts("acceptor", "chain, residue and atom of the acceptor", acceptors),
        ];
        if matches!(self.request.between, Between::Solvent(..)) {
            let sums = bonds.iter().map(|(_, bond)| bond.n_bonds as i64).collect();
            columns.push(Column::integers("bonds", "hydrogen bonds, summed over frames", sums));
        } else {
            let [donors, hydrogens, acceptors] =
                [0, 1, 2].map(|k| bonds.iter().map(|(key, _)| i64::from(key[k]) + 1).collect());
            columns.extend([
                Column::integers("donor_atom", "number of the donor, counted from 1", donors),
                Column::integers(
                    "hydrogen_atom",
                    "number of the hydrogen, counted from 1",
                    hydrogens,
                ),
                Column::integers(
                    "acceptor_atom",
                    "number of the acceptor, counted from 1",
                    acceptors,
                ),
            ]);
        }
        let distances = means(bonds, |bond| bond.distance);
        columns.push(Column::numbers(
            "distance_angstrom",
            Some("Å"),
            "mean distance of donor and acceptor",
            distances,
        ));
        let angles = means(bonds, |bond| bond.angle_deg);
        columns.push(Column::numbers(
            "angle_deg",
            Some("°"),
            "mean angle donor–hydrogen–acceptor",
            angles,
        ));
        columns.extend(Episodes::columns(bonds.iter().map(|(_, bond)| &bond.episodes), frames));
        columns
    }

    /// An atom in words; one of a solvent stands for all of its name.
    fn label(&self, atom: usize, topology: &Topology) -> String {
        match &self.request.between {
            Between::Solvent(_, solvent) if solvent.atoms.contains(atom) => {
                let Atom { name, residue, .. } = topology.atom(atom);
                format!("{}@{name}", topology.residue(residue).name)
            }
            _ => topology.atom_label(atom),
        }
    }

    /// A hydrogen in words; of a solvent all those of its donor, as a mask has them.
    fn hydrogen_label(
        &self,
        [donor, hydrogen, _]: Key,
        hydrogens: &Hydrogens,
        topology: &Topology,
    ) -> String {
        match (&self.request.between, hydrogens.get(&(donor as usize))) {
            (Between::Solvent(_, solvent), Some(all)) if solvent.atoms.contains(donor as usize) => {
                let residue = topology.residue(topology.atom(donor as usize).residue);
                let names: Vec<&str> = all.iter().map(|atom| topology.atom(*atom).name).collect();
                format!("{}@{}", residue.name, names.join(","))
            }
            _ => topology.atom_label(hydrogen as usize),
        }
    }
}

impl Bond {
    fn append(&mut self, next: Self) {
        self.n_bonds += next.n_bonds;
        self.distance += next.distance;
        self.angle_deg += next.angle_deg;
        self.episodes.append(next.episodes);
    }
}

/// The angle of a cosine, which rounding may have left a little outside of what it can be.
fn angle_deg(cosine: f64) -> f64 {
    cosine.clamp(-1.0, 1.0).acos().to_degrees()
}

impl Bridge {
    fn append(&mut self, next: Self) {
        self.n_residues += next.n_residues;
        self.episodes.append(next.episodes);
    }
}

/// Calls `found` with the residues, in ascending order, that each solvent residue binds which binds
/// more than one; `bound` has each of both once for each hydrogen bond.
fn for_bridges(bound: &mut Vec<[u32; 2]>, found: impl FnMut(&[[u32; 2]])) {
    bound.sort_unstable();
    bound.dedup();
    bound.chunk_by(|a, b| a[0] == b[0]).filter(|bonds| bonds.len() > 1).for_each(found);
}

/// All pairs of the second of each.
fn pairs(bonds: &[[u32; 2]]) -> impl Iterator<Item = [u32; 2]> {
    let numbered = bonds.iter().enumerate();
    numbered.flat_map(move |(n, [_, a])| bonds[n + 1..].iter().map(move |[_, b]| [*a, *b]))
}

impl Positions {
    /// Takes all sites.
    fn read(&mut self, frame: &Frame, sites: &Sites) {
        self.sites.clear();
        self.sites.extend(0..sites.atoms.len() as u32);
        self.atoms.read(frame, sites.atoms.iter().map(|atom| atom.slot));
    }

    /// Takes the sites that may be closer than a cutoff in Å to one of others.
    fn read_near(
        &mut self,
        frame: &Frame,
        cell: Option<&Cell>,
        sites: &Sites,
        others: &Cloud,
        cutoff: f64,
        neighbours: &mut Neighbours,
    ) {
        self.all.read(frame, sites.atoms.iter().map(|atom| atom.slot));
        neighbours.near(others, &self.all, cell, cutoff, &mut self.sites);
        self.atoms.take(&self.all, &self.sites);
    }

    /// Takes the hydrogens of the sites that were taken.
    fn read_hydrogens(&mut self, frame: &Frame, cell: Option<&Cell>, sites: &Sites) {
        self.own_hydrogens.clear();
        self.donors.clear();
        for (n, site) in self.sites.iter().enumerate() {
            let site = *site as usize;
            let hydrogens = sites.first_hydrogens[site]..sites.first_hydrogens[site + 1];
            self.own_hydrogens.extend(hydrogens);
            self.donors.resize(self.own_hydrogens.len(), n as u32);
        }
        let slots = self.own_hydrogens.iter().map(|own| sites.hydrogens[*own as usize].slot);
        self.hydrogens.read(frame, slots);
        self.bonds.clear();
        self.bonds.extend(self.donors.iter().enumerate().map(|(h, donor)| {
            let along = difference(self.hydrogens.get(h), self.atoms.get(*donor as usize));
            Cell::nearest_or(cell, along)
        }));
    }
}

/// The hydrogens that each atom is bonded to, of those that have any.
type Hydrogens = FxHashMap<usize, Vec<usize>>;

fn hydrogens(topology: &Topology) -> Hydrogens {
    let mut hydrogens = Hydrogens::default();
    for [a, b] in topology.bonds().iter().map(|bond| bond.map(|atom| atom as usize)) {
        for (atom, other) in [(a, b), (b, a)] {
            if topology.element(other) == Some(Element::H) {
                hydrogens.entry(atom).or_default().push(other);
            }
        }
    }
    hydrogens
}
