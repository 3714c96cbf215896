//! Dihedral angles of backbones and side chains.

use rustc_hash::FxHashMap;

use crate::cell::{cross, difference, dot, norm};
use crate::frames::Frames;
use crate::group::Group;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, RESIDUE_INDEX, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{AtomSet, Cell, Error, Topology};

/// Angles that are listed one by one at most, of all frames together.
const MAX_LISTED: usize = 5_000_000;

/// Bins of a map along an axis, of 5° each.
const N_BINS: usize = 72;

/// Dihedral angles of residues in each frame, in degrees from −180 to 180.
///
/// By the rules of IUPAC and IUB (Biochemistry 9, 3471, 1970) an angle is 0 where the outer atoms
/// eclipse each other, and positive where the farther bond is turned clockwise.
///
/// Residues of which an atom is in the group count. Residues follow each other where C and N are
/// bonded. Bonds are taken between nearest periodic images.
#[derive(Clone, Debug, PartialEq)]
pub struct Dihedrals {
    /// The residues, by some of their atoms.
    pub group: Group,
    /// Which angles, each where a residue has it.
    pub kinds: Vec<DihedralKind>,
}

/// A dihedral angle of a residue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DihedralKind {
    /// C of the residue before, N, CA, C.
    Phi,
    /// N, CA, C, N of the next residue.
    Psi,
    /// CA, C, N and CA of the next residue.
    Omega,
    /// N, CA, CB and the first atom of the side chain after it.
    Chi1,
    /// The next angle along the side chain.
    Chi2,
    /// The one after it.
    Chi3,
    /// The one after it.
    Chi4,
    /// The last, of arginine.
    Chi5,
}

use DihedralKind::{Chi1, Chi2, Chi3, Chi4, Chi5, Omega, Phi, Psi};

/// All kinds, with their names in parameters and for people.
const NAMES: [(DihedralKind, &str, &str); 8] = [
    (Phi, "phi", "φ"),
    (Psi, "psi", "ψ"),
    (Omega, "omega", "ω"),
    (Chi1, "chi1", "χ1"),
    (Chi2, "chi2", "χ2"),
    (Chi3, "chi3", "χ3"),
    (Chi4, "chi4", "χ4"),
    (Chi5, "chi5", "χ5"),
];

/// The atoms of side chains; the first of a kind that a residue has is taken. Names are those of
/// the Protein Data Bank, and CD of isoleucine is CHARMM's.
const SIDE_CHAINS: [(DihedralKind, [&str; 4]); 19] = [
    (Chi1, ["N", "CA", "CB", "CG"]),
    (Chi1, ["N", "CA", "CB", "CG1"]),
    (Chi1, ["N", "CA", "CB", "SG"]),
    (Chi1, ["N", "CA", "CB", "OG"]),
    (Chi1, ["N", "CA", "CB", "OG1"]),
    (Chi2, ["CA", "CB", "CG", "CD"]),
    (Chi2, ["CA", "CB", "CG", "CD1"]),
    (Chi2, ["CA", "CB", "CG1", "CD1"]),
    (Chi2, ["CA", "CB", "CG1", "CD"]),
    (Chi2, ["CA", "CB", "CG", "OD1"]),
    (Chi2, ["CA", "CB", "CG", "ND1"]),
    (Chi2, ["CA", "CB", "CG", "SD"]),
    (Chi3, ["CB", "CG", "CD", "NE"]),
    (Chi3, ["CB", "CG", "CD", "CE"]),
    (Chi3, ["CB", "CG", "CD", "OE1"]),
    (Chi3, ["CB", "CG", "SD", "CE"]),
    (Chi4, ["CG", "CD", "NE", "CZ"]),
    (Chi4, ["CG", "CD", "CE", "NZ"]),
    (Chi5, ["CD", "NE", "CZ", "NH1"]),
];

/// Pairs of angles of which maps are made.
const MAPS: [([DihedralKind; 2], &str, &str); 2] = [
    ([Phi, Psi], "ramachandran", "Ramachandran map"),
    ([Chi1, Chi2], "side_chain_map", "Map of side chains"),
];

impl DihedralKind {
    /// Those of the backbone, and the first of the side chain.
    pub const USUAL: [Self; 4] = [Phi, Psi, Omega, Chi1];

    /// The kind of a name, `phi` or `chi1`.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }

    fn name(self) -> &'static str {
        NAMES.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
    }

    fn symbol(self) -> &'static str {
        NAMES.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, _, symbol)| symbol)
    }
}

/// An angle of a residue.
#[derive(Clone, Copy, Debug)]
struct Angle {
    residue: usize,
    kind: DihedralKind,
    atoms: [usize; 4],
}

#[derive(Debug)]
pub(crate) struct Turns {
    request: Dihedrals,
    angles: Vec<Angle>,
    slots: Vec<[u32; 4]>,
    /// For each map the two angles of each residue that has both.
    pairs: [Vec<[usize; 2]>; 2],
    /// Of how many analysed frames the angles of one are listed.
    step: usize,
}

/// Sums over frames.
#[derive(Debug)]
pub(crate) struct Tally {
    n_frames: usize,
    /// Σ cos, Σ sin, and frames with a gauche⁺, trans and gauche⁻ angle.
    sums: Vec<([f64; 2], [u32; 3])>,
    maps: [Vec<u64>; 2],
    /// The angles of frames that are listed, frame by frame.
    listed: Vec<f64>,
}

impl Dihedrals {
    /// The atoms of all angles.
    pub(crate) fn atoms(&self, topology: &Topology) -> AtomSet {
        let mut atoms = AtomSet::none(topology.n_atoms());
        self.angles(topology).iter().flat_map(|angle| angle.atoms).for_each(|a| atoms.insert(a));
        atoms
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self, topology: &Topology) -> bool {
        self.angles(topology).is_empty()
    }

    /// Of how many analysed frames the angles of one are listed.
    pub(crate) fn step(&self, n_analyzed: usize, topology: &Topology) -> usize {
        let n_angles = self.angles(topology).len().max(1);
        n_analyzed.div_ceil((MAX_LISTED / n_angles).max(1))
    }

    fn angles(&self, topology: &Topology) -> Vec<Angle> {
        let follows = peptide_bonds(topology);
        let before: FxHashMap<usize, usize> = follows.iter().map(|(a, b)| (*b, *a)).collect();
        let mut angles = Vec::new();
        for residue in 0..topology.n_residues() {
            if !topology.residue_atoms(residue).any(|atom| self.group.atoms.contains(atom)) {
                continue;
            }
            for kind in &self.kinds {
                let next = follows.get(&residue).copied();
                let before = before.get(&residue).copied();
                let atoms = atoms_of(topology, *kind, residue, before, next);
                angles.extend(atoms.map(|atoms| Angle { residue, kind: *kind, atoms }));
            }
        }
        angles
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Turns, Error> {
        let topology = setup.topology();
        let angles = self.angles(topology);
        if angles.is_empty() {
            let bounds = "a group with atoms of residues that have such an angle";
            return Err(Error::Parameter { analysis, name: "group", bounds });
        }
        let slots = angles.iter().map(|angle| angle.atoms.map(|atom| setup.slot(atom) as u32));
        let pairs = MAPS.map(|([a, b], ..)| {
            let first = angles.iter().enumerate().filter(|(_, angle)| angle.kind == a);
            let both = first.filter_map(|(n, first)| {
                let same = |second: &Angle| (second.residue, second.kind) == (first.residue, b);
                Some([n, angles.iter().position(same)?])
            });
            both.collect()
        });
        let step = self.step(setup.frames.n_analyzed(), topology);
        Ok(Turns { request: self.clone(), slots: slots.collect(), angles, pairs, step })
    }
}

/// Which residue each is followed by: its C is bonded to the other's N.
fn peptide_bonds(topology: &Topology) -> FxHashMap<usize, usize> {
    let ends = topology.bonds().iter().filter_map(|bond| {
        let [a, b] = bond.map(|atom| topology.atom(atom as usize));
        match (a.name, b.name) {
            ("C", "N") if a.residue != b.residue => Some((a.residue, b.residue)),
            ("N", "C") if a.residue != b.residue => Some((b.residue, a.residue)),
            _ => None,
        }
    });
    ends.collect()
}

fn atoms_of(
    topology: &Topology,
    kind: DihedralKind,
    residue: usize,
    before: Option<usize>,
    next: Option<usize>,
) -> Option<[usize; 4]> {
    let find = |residue: usize, name: &str| {
        topology.residue_atoms(residue).find(|atom| topology.atom(*atom).name == name)
    };
    let here = |name: &str| find(residue, name);
    match kind {
        Phi => Some([find(before?, "C")?, here("N")?, here("CA")?, here("C")?]),
        Psi => Some([here("N")?, here("CA")?, here("C")?, find(next?, "N")?]),
        Omega => Some([here("CA")?, here("C")?, find(next?, "N")?, find(next?, "CA")?]),
        _ => SIDE_CHAINS.iter().filter(|(of, _)| *of == kind).find_map(|(_, names)| {
            let [a, b, c, d] = names.map(here);
            Some([a?, b?, c?, d?])
        }),
    }
}

impl Task for Turns {
    type Tally = Tally;

    fn start(&self) -> Tally {
        let maps =
            [0, 1].map(|k| vec![0; if self.pairs[k].is_empty() { 0 } else { N_BINS * N_BINS }]);
        Tally {
            n_frames: 0,
            sums: vec![Default::default(); self.angles.len()],
            maps,
            listed: Vec::new(),
        }
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let first = tally.listed.len();
        let cell = view.frame.cell();
        let [x, y, z] = [view.frame.x(), view.frame.y(), view.frame.z()];
        for (slots, (sums, parts)) in self.slots.iter().zip(&mut tally.sums) {
            let [a, b, c, d] =
                slots.map(|slot| [x[slot as usize], y[slot as usize], z[slot as usize]]);
            let [ab, bc, cd] = [(b, a), (c, b), (d, c)]
                .map(|(to, from)| Cell::nearest_or(cell, difference(to, from)));
            let (cos, sin) = dihedral(ab, bc, cd);
            let angle_deg = sin.atan2(cos).to_degrees();
            let length = (cos * cos + sin * sin).sqrt();
            // Of four atoms on a line there is no angle, which counts as 0 here.
            let unit = if length > 0.0 { [cos / length, sin / length] } else { [1.0, 0.0] };
            (0..2).for_each(|k| sums[k] += unit[k]);
            parts[rotamer(angle_deg)] += 1;
            tally.listed.push(angle_deg);
        }
        let angles = &tally.listed[first..];
        for (pairs, map) in self.pairs.iter().zip(&mut tally.maps) {
            for [a, b] in pairs {
                map[bin(angles[*b]) * N_BINS + bin(angles[*a])] += 1;
            }
        }
        tally.n_frames += 1;
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        for ((sums, parts), (next_sums, next_parts)) in tally.sums.iter_mut().zip(next.sums) {
            (0..2).for_each(|k| sums[k] += next_sums[k]);
            (0..3).for_each(|k| parts[k] += next_parts[k]);
        }
        for (map, next) in tally.maps.iter_mut().zip(next.maps) {
            map.iter_mut().zip(next).for_each(|(sum, next)| *sum += next);
        }
        for (n, angles) in next.listed.chunks(self.angles.len()).enumerate() {
            if (tally.n_frames + n).is_multiple_of(self.step) {
                tally.listed.extend(angles);
            }
        }
        tally.n_frames += next.n_frames;
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let mut tables = vec![
            self.table("dihedrals", "Dihedral angles", self.statistics(&tally, frames.topology)),
            self.table(
                "dihedrals_by_frame",
                "Dihedral angles over time",
                self.listed(&tally, frames),
            ),
        ];
        for (k, (kinds, name, title)) in MAPS.into_iter().enumerate() {
            if !self.pairs[k].is_empty() {
                tables.push(self.table(name, title, self.map(kinds, &tally.maps[k])));
            }
        }
        Outcome::Tables(tables)
    }
}

impl Turns {
    /// A row for each angle.
    fn statistics(&self, tally: &Tally, topology: &Topology) -> Vec<Column> {
        let n_frames = tally.n_frames as f64;
        let numbers = |f: &dyn Fn([f64; 2], [u32; 3]) -> f64| {
            tally.sums.iter().map(|(sums, parts)| f(*sums, *parts)).collect()
        };
        let length = |[cos, sin]: [f64; 2]| (cos * cos + sin * sin).sqrt() / n_frames;
        let part = |k: usize| numbers(&|_, parts| f64::from(parts[k]) / n_frames);
        vec![
            Column::texts(
                "residue",
                "chain and residue",
                self.angles.iter().map(|angle| topology.residue_label(angle.residue)).collect(),
            ),
            Column::integers(
                "residue_index",
                RESIDUE_INDEX,
                self.angles.iter().map(|angle| angle.residue as i64 + 1).collect(),
            ),
            Column::texts(
                "angle",
                "which angle",
                self.angles.iter().map(|angle| angle.kind.name().to_owned()).collect(),
            ),
            Column::numbers(
                "mean_deg",
                Some("°"),
                "circular mean, atan2(⟨sin⟩, ⟨cos⟩)",
                numbers(&|[cos, sin], _| sin.atan2(cos).to_degrees()),
            ),
            Column::numbers(
                "deviation_deg",
                Some("°"),
                "circular standard deviation, √(−2 ln R)",
                numbers(&|sums, _| (-2.0 * length(sums).clamp(1e-9, 1.0).ln()).sqrt().to_degrees()),
            ),
            Column::numbers(
                "resultant",
                None,
                "length R of the mean direction, 1 where the angle never changes",
                numbers(&|sums, _| length(sums)),
            ),
            Column::numbers("gauche_plus", None, "part of the frames from 0° to 120°", part(0)),
            Column::numbers("trans", None, "part of the frames beyond 120° or −120°", part(1)),
            Column::numbers("gauche_minus", None, "part of the frames from −120° to 0°", part(2)),
        ]
    }

    /// A row for each frame that is listed.
    fn listed(&self, tally: &Tally, frames: &Frames<'_>) -> Vec<Column> {
        let mut columns: Vec<Column> =
            frames.columns().iter().map(|column| column.every(self.step)).collect();
        columns.extend(self.angles.iter().enumerate().map(|(n, Angle { residue, kind, .. })| {
            let values = tally.listed.iter().skip(n).step_by(self.angles.len()).copied();
            Column::numbers(
                format!("{}_{}_deg", kind.name(), residue + 1),
                Some("°"),
                format!("{} of {}", kind.symbol(), frames.topology.residue_label(*residue)),
                values.collect(),
            )
        }));
        columns
    }

    /// A row for each bin that is not empty.
    fn map(&self, [a, b]: [DihedralKind; 2], counts: &[u64]) -> Vec<Column> {
        let all: u64 = counts.iter().sum();
        let bins: Vec<usize> = (0..counts.len()).filter(|n| counts[*n] > 0).collect();
        let middle = |bin: usize| (bin as f64 + 0.5) * 360.0 / N_BINS as f64 - 180.0;
        let numbers = |f: &dyn Fn(usize) -> f64| bins.iter().map(|bin| f(*bin)).collect();
        vec![
            Column::numbers(
                format!("{}_deg", a.name()),
                Some("°"),
                format!("{}, middle of a bin of 5°", a.symbol()),
                numbers(&|bin| middle(bin % N_BINS)),
            ),
            Column::numbers(
                format!("{}_deg", b.name()),
                Some("°"),
                format!("{}, middle of a bin of 5°", b.symbol()),
                numbers(&|bin| middle(bin / N_BINS)),
            ),
            Column::integers(
                "count",
                "residues there, summed over frames",
                bins.iter().map(|bin| counts[*bin] as i64).collect(),
            ),
            Column::numbers(
                "fraction",
                None,
                "part of all residues and frames",
                numbers(&|bin| counts[bin] as f64 / all as f64),
            ),
        ]
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let listed = match self.step {
            1 => String::new(),
            step => format!("; one of every {step} analysed frames is listed"),
        };
        let definition = format!(
            "dihedral angles from −180° to 180° by the rules of IUPAC and IUB (1970): φ C–N–CA–C, \
             ψ N–CA–C–N, ω CA–C–N–CA with the next residue, χ along the side chain{listed}"
        );
        let groups = vec![TableGroup::new("group", &self.request.group)];
        Table::new(kind, title, definition, groups, columns)
    }
}

/// The cosine and the sine of a dihedral angle, times the same positive number, from three bonds
/// one after the other.
fn dihedral(ab: [f64; 3], bc: [f64; 3], cd: [f64; 3]) -> (f64, f64) {
    let before = cross(ab, bc);
    let after = cross(bc, cd);
    (dot(before, after), norm(bc) * dot(ab, after))
}

fn bin(angle_deg: f64) -> usize {
    (((angle_deg + 180.0) / 360.0 * N_BINS as f64) as usize).min(N_BINS - 1)
}

/// Gauche⁺, trans or gauche⁻.
fn rotamer(angle_deg: f64) -> usize {
    match angle_deg {
        angle if (0.0..120.0).contains(&angle) => 0,
        angle if (-120.0..0.0).contains(&angle) => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{dihedral, rotamer};

    #[test]
    fn an_angle_is_positive_clockwise() {
        let along = [0.0, 0.0, 1.0];
        let turned = |angle_deg: f64| {
            let (sin, cos) = angle_deg.to_radians().sin_cos();
            // Seen along the middle bond, from a, d is turned clockwise.
            let (c, s) = dihedral([-1.0, 0.0, 0.0], along, [cos, sin, 0.0]);
            s.atan2(c).to_degrees()
        };
        for angle in [-170.0, -60.0, 0.0, 45.0, 120.0] {
            assert!((turned(angle) - angle).abs() < 1e-12, "{}", turned(angle));
        }
        assert_eq!([60.0, 180.0, -180.0, -60.0].map(rotamer), [0, 1, 1, 2]);
    }
}
