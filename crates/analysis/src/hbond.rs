//! Hydrogen bonds by distance and angle.

use rustc_hash::FxHashMap;

use crate::cell::{dot, norm, sub};
use crate::episodes::Episodes;
use crate::neighbours::{Cloud, Neighbours};
use crate::read::Frame;
use crate::request::Group;
use crate::run::Frames;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::topology::Atom;
use crate::{AtomSet, Cell, Element, Error, Topology};

/// The usual largest distance, in Å.
pub const MAX_DISTANCE: f64 = 3.0;

/// The usual least angle, in degrees.
pub const MIN_ANGLE_DEG: f64 = 135.0;

/// The hydrogen bonds in each frame.
///
/// One is a donor D with a hydrogen H bonded to it and an acceptor A, both of them nitrogen, oxygen
/// or fluorine, with |D…A| at most `max_distance` and the angle D–H…A, at H, at least
/// `min_angle_deg`. Positions are those of nearest periodic images. Each hydrogen counts for
/// itself, and A may be in the residue of D.
#[derive(Clone, Debug, PartialEq)]
pub struct HydrogenBonds {
    /// Between which atoms.
    pub between: Between,
    /// Largest distance of donor and acceptor in Å, above 0 and at most 10.
    pub max_distance: f64,
    /// Least angle in degrees, from 0 to 180.
    pub min_angle_deg: f64,
}

/// The atoms that hydrogen bonds are between.
#[derive(Clone, Debug, PartialEq)]
pub enum Between {
    /// Donor and acceptor are of one group.
    Within(Group),
    /// One is of the first group, the other of the second.
    Groups(Group, Group),
    /// The same, with a solvent as the second group: its molecules are not told apart, and those
    /// that bind two residues of the first group or more are counted as bridges.
    Solvent(Group, Group),
}

impl HydrogenBonds {
    /// Hydrogen bonds by the usual distance and angle.
    pub fn usual(between: Between) -> Self {
        Self { between, max_distance: MAX_DISTANCE, min_angle_deg: MIN_ANGLE_DEG }
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
        for site in self.groups().into_iter().flat_map(|group| sites(topology, group)) {
            atoms.insert(site);
            hydrogens.get(&site).into_iter().flatten().for_each(|hydrogen| atoms.insert(*hydrogen));
        }
        atoms
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Search, Error> {
        if !(self.max_distance > 0.0 && self.max_distance <= 10.0) {
            return Err(Error::Parameter { analysis, name: "max_distance", bounds: "above 0 and at most 10 Å" });
        }
        if !(0.0..=180.0).contains(&self.min_angle_deg) {
            return Err(Error::Parameter { analysis, name: "min_angle_deg", bounds: "from 0 to 180 degrees" });
        }
        let (topology, hydrogens) = (setup.topology, hydrogens(setup.topology));
        let groups = self.groups();
        let is_in_all = |atom| groups.iter().all(|group| group.atoms.contains(atom));
        let site = |atom| Site::new(setup, &hydrogens, atom, is_in_all(atom));
        let side = |group| sites(topology, group).map(site).collect::<Vec<_>>();
        let (mut a, mut b) = (side(groups[0]), side(groups[groups.len() - 1]));
        match self.between {
            Between::Within(_) => a.retain(|site| !site.hydrogens.is_empty()),
            Between::Groups(..) => {}
            Between::Solvent(..) => share_names(topology, &mut b),
        }
        Ok(Search { request: self.clone(), max_cosine: self.min_angle_deg.to_radians().cos(), a, b })
    }
}

/// A search for hydrogen bonds between two sets of sites.
#[derive(Debug)]
pub(crate) struct Search {
    request: HydrogenBonds,
    /// The cosine falls as the angle grows.
    max_cosine: f64,
    a: Vec<Site>,
    b: Vec<Site>,
}

/// An atom that accepts hydrogen bonds, and donates some if it has hydrogens.
#[derive(Clone, Debug)]
struct Site {
    atom: Named,
    residue: u32,
    hydrogens: Vec<Named>,
    /// Whether it is of both groups, so that each pair of such sites is met twice.
    is_in_all: bool,
}

/// An atom, where it is read, and what it counts as in the results.
#[derive(Clone, Copy, Debug)]
struct Named {
    atom: u32,
    slot: u32,
    counts_as: u32,
}

impl Site {
    fn new(setup: &Setup<'_>, hydrogens: &FxHashMap<usize, Vec<usize>>, atom: usize, is_in_all: bool) -> Self {
        let named = |atom: usize| Named { atom: atom as u32, slot: setup.slot(atom) as u32, counts_as: atom as u32 };
        let hydrogens = hydrogens.get(&atom).into_iter().flatten().map(|hydrogen| named(*hydrogen)).collect();
        Self { atom: named(atom), residue: setup.topology.atom(atom).residue as u32, hydrogens, is_in_all }
    }
}

/// Lets atoms of equal names in residues of equal names count as the first of them.
fn share_names(topology: &Topology, sites: &mut [Site]) {
    let mut first: FxHashMap<(usize, usize), u32> = FxHashMap::default();
    for site in sites {
        for named in site.hydrogens.iter_mut().chain([&mut site.atom]) {
            let atom = named.atom as usize;
            let name = (topology.residue_name_id(topology.atom(atom).residue), topology.atom_name_id(atom));
            named.counts_as = *first.entry(name).or_insert(named.atom);
        }
    }
}

/// What some frames have of hydrogen bonds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    n_frames: u32,
    counts: Vec<i64>,
    n_bridges: Vec<i64>,
    bonds: FxHashMap<Key, Bond>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    neighbours: Neighbours,
    a: Cloud,
    b: Cloud,
    /// Residues of the second group with those of the first that they bind in this frame.
    bound: Vec<[u32; 2]>,
}

/// Donor, hydrogen and acceptor, by what they count as.
type Key = [u32; 3];

/// What is known of one hydrogen bond.
#[derive(Clone, Copy, Debug)]
struct Bond {
    n_bonds: u64,
    distance: f64,
    angle_deg: f64,
    episodes: Episodes,
}

impl Task for Search {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally::default()
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let Tally { scratch: Scratch { neighbours, a, b, bound }, bonds, .. } = tally;
        let frame = view.frame;
        gather(frame, &self.a, a);
        gather(frame, &self.b, b);
        bound.clear();
        let (mut count, now) = (0, Episodes::at(tally.n_frames));
        let is_within = matches!(self.request.between, Between::Within(_));
        neighbours.pairs(a, b, frame.cell(), self.request.max_distance, |i, j| {
            let (one, other) = (&self.a[i], &self.b[j]);
            let mut add = |donor: &Site, hydrogen: &Named, acceptor: &Site, distance, angle_deg| {
                count += 1;
                bound.push([other.residue, one.residue]);
                let key = [donor.atom, *hydrogen, acceptor.atom].map(|named| named.counts_as);
                let bond = Bond { n_bonds: 1, distance, angle_deg, episodes: now };
                bonds.entry(key).and_modify(|sum| sum.append(bond)).or_insert(bond);
            };
            self.bonds(frame, one, other, &mut add);
            if !(is_within || one.is_in_all && other.is_in_all) {
                self.bonds(frame, other, one, &mut add);
            }
        });
        tally.n_frames += 1;
        tally.counts.push(count);
        tally.n_bridges.push(n_bridges(bound));
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        for (key, bond) in next.bonds {
            let bond = Bond { episodes: bond.episodes.later(tally.n_frames), ..bond };
            tally.bonds.entry(key).and_modify(|sum| sum.append(bond)).or_insert(bond);
        }
        tally.n_frames += next.n_frames;
        tally.counts.extend(next.counts);
        tally.n_bridges.extend(next.n_bridges);
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let mut bonds: Vec<_> = tally.bonds.into_iter().collect();
        bonds.sort_by_key(|(key, bond)| (std::cmp::Reverse((bond.episodes.n_frames(), bond.n_bonds)), *key));
        let mut per_frame = frames.columns();
        per_frame.push(Column::integers("hydrogen_bonds", "hydrogen bonds in the frame", tally.counts));
        if let Between::Solvent(..) = self.request.between {
            let description = "residues of the second group that bind two residues of the first or more";
            per_frame.push(Column::integers("bridges", description, tally.n_bridges));
        }
        Outcome::Tables(vec![
            self.table("hydrogen_bonds", self.columns(&bonds, frames)),
            self.table("hydrogen_bonds_by_frame", per_frame),
        ])
    }
}

impl Search {
    /// Finds the hydrogen bonds that one site donates to another.
    fn bonds(
        &self,
        frame: &Frame,
        donor: &Site,
        acceptor: &Site,
        add: &mut impl FnMut(&Site, &Named, &Site, f64, f64),
    ) {
        if donor.hydrogens.is_empty() || donor.atom.atom == acceptor.atom.atom {
            return;
        }
        let position = |named: &Named| frame.position(named.slot as usize);
        let from_donor = |named: &Named| nearest(frame.cell(), sub(position(named), position(&donor.atom)));
        let to_acceptor = from_donor(&acceptor.atom);
        let distance = norm(to_acceptor);
        if distance > self.request.max_distance {
            return;
        }
        for hydrogen in &donor.hydrogens {
            let to_hydrogen = from_donor(hydrogen);
            let back = to_hydrogen.map(|x| -x);
            let on = sub(to_acceptor, to_hydrogen);
            let cosine = dot(back, on) / (norm(back) * norm(on));
            if cosine <= self.max_cosine {
                add(donor, hydrogen, acceptor, distance, cosine.max(-1.0).acos().to_degrees());
            }
        }
    }

    fn table(&self, kind: &'static str, columns: Vec<Column>) -> Table {
        let HydrogenBonds { between, max_distance, min_angle_deg } = &self.request;
        let definition = format!(
            "donor–acceptor distance at most {max_distance} Å and angle donor–hydrogen–acceptor at least {min_angle_deg}°, \
             both included, between nearest periodic images; donors are nitrogen, oxygen and fluorine with a hydrogen \
             bonded to them, acceptors the same elements"
        );
        let groups = match between {
            Between::Within(group) => vec![TableGroup::new("within", group)],
            Between::Groups(a, b) => vec![TableGroup::new("a", a), TableGroup::new("b", b)],
            Between::Solvent(a, b) => vec![TableGroup::new("solute", a), TableGroup::new("solvent", b)],
        };
        Table { analysis: 0, kind, definition, groups, columns }
    }

    fn columns(&self, bonds: &[(Key, Bond)], frames: &Frames<'_>) -> Vec<Column> {
        let n_analyzed = frames.n_analyzed() as f64;
        let counts = |f: fn(&Bond) -> u64| bonds.iter().map(|(_, bond)| f(bond) as i64).collect();
        let numbers = |f: &dyn Fn(&Bond) -> f64| bonds.iter().map(|(_, bond)| f(bond)).collect();
        let names = |k: usize| bonds.iter().map(|(key, _)| self.label(key[k] as usize, frames.topology)).collect();
        let atoms = |k: usize| bonds.iter().map(|(key, _)| i64::from(key[k]) + 1).collect();
        let mut columns = vec![
            Column::texts("donor", "chain, residue and atom of the donor", names(0)),
            Column::texts("hydrogen", "its hydrogen", names(1)),
            Column::texts("acceptor", "chain, residue and atom of the acceptor", names(2)),
        ];
        if !matches!(self.request.between, Between::Solvent(..)) {
            columns.extend([
                Column::integers("donor_atom", "number of the donor, counted from 1", atoms(0)),
                Column::integers("hydrogen_atom", "number of the hydrogen, counted from 1", atoms(1)),
                Column::integers("acceptor_atom", "number of the acceptor, counted from 1", atoms(2)),
            ]);
        }
        let frame_ps = frames.interval_ps();
        let lasting = |n_frames: f64| n_frames * frame_ps.unwrap_or(1.0);
        let unit = if frame_ps.is_some() { "ps" } else { "frames" };
        columns.extend([
            Column::integers("bonds", "hydrogen bonds, summed over frames", counts(|bond| bond.n_bonds)),
            Column::integers("frames", "frames with one", counts(|bond| bond.episodes.n_frames().into())),
            Column::numbers(
                "occupancy",
                None,
                "part of the frames with one",
                numbers(&|bond| f64::from(bond.episodes.n_frames()) / n_analyzed),
            ),
            Column::numbers(
                "distance_angstrom",
                Some("Å"),
                "mean distance of donor and acceptor",
                numbers(&|bond| bond.distance / bond.n_bonds as f64),
            ),
            Column::numbers(
                "angle_deg",
                Some("°"),
                "mean angle donor–hydrogen–acceptor",
                numbers(&|bond| bond.angle_deg / bond.n_bonds as f64),
            ),
            Column::integers(
                "episodes",
                "runs of analysed frames in a row with one",
                counts(|bond| bond.episodes.n_runs().into()),
            ),
            Column::numbers(
                "mean_lifetime",
                Some(unit),
                "mean length of an episode",
                numbers(&|bond| lasting(f64::from(bond.episodes.n_frames()) / f64::from(bond.episodes.n_runs()))),
            ),
            Column::numbers(
                "longest_lifetime",
                Some(unit),
                "length of the longest episode",
                numbers(&|bond| lasting(f64::from(bond.episodes.longest()))),
            ),
        ]);
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
}

impl Bond {
    fn append(&mut self, next: Self) {
        self.n_bonds += next.n_bonds;
        self.distance += next.distance;
        self.angle_deg += next.angle_deg;
        self.episodes.append(next.episodes);
    }
}

/// Solvent residues that bind more than one residue of the other group.
fn n_bridges(bound: &mut Vec<[u32; 2]>) -> i64 {
    bound.sort_unstable();
    bound.dedup();
    bound.chunk_by(|a, b| a[0] == b[0]).filter(|residues| residues.len() > 1).count() as i64
}

fn gather(frame: &Frame, sites: &[Site], into: &mut Cloud) {
    into.clear();
    sites.iter().for_each(|site| into.push(frame.narrow_position(site.atom.slot as usize)));
}

fn nearest(cell: Option<&Cell>, vector: [f64; 3]) -> [f64; 3] {
    cell.map_or(vector, |cell| cell.nearest(vector))
}

/// The hydrogens that each atom is bonded to.
fn hydrogens(topology: &Topology) -> FxHashMap<usize, Vec<usize>> {
    let mut hydrogens: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for [a, b] in topology.bonds().iter().map(|bond| bond.map(|atom| atom as usize)) {
        for (atom, other) in [(a, b), (b, a)] {
            if topology.element(other) == Some(Element::H) {
                hydrogens.entry(atom).or_default().push(other);
            }
        }
    }
    hydrogens
}

/// The atoms of a group that can take part in hydrogen bonds.
fn sites(topology: &Topology, group: &Group) -> impl Iterator<Item = usize> {
    let electronegative = [Element::N, Element::O, Element::F];
    group.atoms.iter().filter(move |atom| topology.element(*atom).is_some_and(|e| electronegative.contains(&e)))
}
