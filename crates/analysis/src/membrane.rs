//! Lipid bilayers: area per lipid, thickness, order of the chains.

use rustc_hash::FxHashMap;

use crate::cell::{difference, dot, volume};
use crate::density::{Axis, nearest, periodic_centre};
use crate::frames::Frames;
use crate::group::Group;
use crate::read::{Family, Frame};
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::warning::Warning;
use crate::{AtomSet, Cell, Element, Error, Topology};

const P: u8 = 15;

/// What grains of heads are called in Martini and its kin, those first that are as high as a
/// phosphate: phosphates; hydroxyls and acids; what links head and tails.
const HEAD_GRAINS: [&[&str]; 3] = [
    &["PO4", "PO41", "PO42", "PO1", "PO2", "PH"],
    &["ROH", "COH", "COO"],
    &["GL0", "GL1", "GL2", "AM1", "AM2", "EST1", "EST2"],
];

/// No leaflet of a flat bilayer has heads that are up and down by such a part of its thickness:
/// those of POPC are by 0.065, of a mixture with cholesterol by 0.1, of a sphere by 0.29.
const LARGEST_SPREAD: f64 = 0.15;

/// Fewer others than this part of the lipids that are selected are no matter for their area.
const LEAST_OTHERS: f64 = 0.05;

/// A lipid bilayer across an axis of the cell.
///
/// Lipids are the molecules of which an atom is in the group. The head of one is its phosphorus, or
/// the mean of its nitrogen and oxygen where it has none. Of coarse grains it is the mean of what
/// is in the group, or of the grains that are called as those of heads where that is the whole
/// lipid. It belongs to the leaflet on whose side of the centre of mass of all lipids, in one piece
/// along the axis, it is.
///
/// Area per lipid: twice the area of the cell across the axis over all lipids. Thickness:
/// between the mean heights of the heads of both leaflets. Order: S = ½⟨3 cos² θ − 1⟩ over the bonds
/// of a carbon to its hydrogens, θ the angle to the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Membrane {
    /// The lipids, by some of their atoms.
    pub group: Group,
    /// The normal.
    pub axis: Axis,
}

#[derive(Debug)]
pub(crate) struct Bilayer {
    request: Membrane,
    /// Slots and masses of all atoms of the lipids.
    atoms: Vec<(u32, f64)>,
    /// Slots of the head of each lipid.
    heads: Vec<Vec<u32>>,
    /// Carbon and hydrogen of each bond, and the place of the carbon's name.
    bonds: Vec<([u32; 2], usize)>,
    /// Residue and carbon, and how many bonds of a lipid it stands for.
    carbons: Vec<(String, String)>,
    /// How many molecules look like lipids and are none of these, and what they are called.
    others: Option<(usize, Vec<String>)>,
    /// The larger spread of heads in a leaflet of the first frame, and its thickness.
    first: [f64; 2],
}

#[derive(Debug)]
pub(crate) struct Tally {
    n_frames: usize,
    area: Vec<f64>,
    thickness: Vec<f64>,
    n_upper: Vec<i64>,
    n_lower: Vec<i64>,
    order: Vec<f64>,
}

impl Membrane {
    /// All atoms of the lipids.
    pub(crate) fn atoms(&self, topology: &Topology) -> AtomSet {
        let mut molecules = AtomSet::none(topology.n_molecules());
        self.group.atoms.iter().for_each(|atom| molecules.insert(topology.molecule_of(atom)));
        AtomSet::from_fn(topology.n_atoms(), |atom| molecules.contains(topology.molecule_of(atom)))
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Bilayer, Error> {
        let Some(cell) = setup.first().cell() else { return Err(Error::NoCell { analysis }) };
        if self.axis.length(cell).is_none() {
            return Err(Error::LeaningCell { analysis, axis: self.axis.name() });
        }
        let topology = setup.topology();
        let atoms = self.atoms(topology);
        let slot = |atom: usize| setup.slot(atom) as u32;
        let mut carbons: Vec<(String, String)> = Vec::new();
        let mut places: FxHashMap<(String, String), usize> = FxHashMap::default();
        let mut bonds = Vec::new();
        for bond in topology.bonds() {
            let [a, b] = bond.map(|atom| atom as usize);
            let (carbon, hydrogen) = match (topology.element(a), topology.element(b)) {
                (Some(Element::C), Some(Element::H)) => (a, b),
                (Some(Element::H), Some(Element::C)) => (b, a),
                _ => continue,
            };
            if !atoms.contains(carbon) {
                continue;
            }
            let atom = topology.atom(carbon);
            let key = (topology.residue(atom.residue).name.to_owned(), atom.name.to_owned());
            let place = *places.entry(key.clone()).or_insert_with(|| {
                carbons.push(key);
                carbons.len() - 1
            });
            bonds.push(([slot(carbon), slot(hydrogen)], place));
        }
        let heads = heads(topology, &atoms, &self.group.atoms).map_err(|atom| Error::NoHead {
            analysis,
            label: self.group.label.clone(),
            residue: topology.residue_label(topology.atom(atom).residue),
        })?;
        let mut bilayer = Bilayer {
            request: self.clone(),
            others: other_lipids(topology, &atoms, heads.len()),
            first: [0.0; 2],
            atoms: atoms.iter().map(|atom| (slot(atom), topology.atom(atom).mass_da)).collect(),
            heads: heads.into_iter().map(|head| head.into_iter().map(slot).collect()).collect(),
            bonds,
            carbons,
        };
        let sides = bilayer.sides(setup.first());
        if sides.iter().any(Vec::is_empty) {
            let label = self.group.label.clone();
            return Err(Error::NoLeaflets { analysis, label, axis: self.axis.name() });
        }
        let [upper, lower] = &sides;
        bilayer.first = [deviation(upper).max(deviation(lower)), mean(upper) - mean(lower)];
        Ok(bilayer)
    }
}

/// The atoms of each molecule that a set has atoms of.
fn by_molecule(topology: &Topology, atoms: &AtomSet) -> Vec<Vec<usize>> {
    let mut molecules: Vec<Vec<usize>> = Vec::new();
    let mut places: FxHashMap<usize, usize> = FxHashMap::default();
    for atom in atoms.iter() {
        let place = *places.entry(topology.molecule_of(atom)).or_insert_with(|| {
            molecules.push(Vec::new());
            molecules.len() - 1
        });
        molecules[place].push(atom);
    }
    molecules
}

/// The atoms that are the head of each lipid, or an atom of a lipid without one.
fn heads(topology: &Topology, atoms: &AtomSet, group: &AtomSet) -> Result<Vec<Vec<usize>>, usize> {
    let number = |atom: usize| topology.element(atom).map_or(0, Element::number);
    let lipids = by_molecule(topology, atoms).into_iter().map(|atoms| {
        let of = |numbers: &[u8]| -> Vec<usize> {
            atoms.iter().copied().filter(|atom| numbers.contains(&number(*atom))).collect()
        };
        let of_atoms = [of(&[P]), of(&[Element::N.number(), Element::O.number()])];
        if let Some(head) = of_atoms.into_iter().find(|head| !head.is_empty()) {
            return Ok(head);
        }
        let in_group: Vec<usize> =
            atoms.iter().copied().filter(|atom| group.contains(*atom)).collect();
        if in_group.len() < atoms.len() || atoms.len() == 1 {
            return Ok(in_group);
        }
        // A lipid as a whole has its centre far below the head.
        head_grains(topology, &atoms).ok_or(atoms[0])
    });
    lipids.collect()
}

/// The grains of a lipid that are called as those of a head.
fn head_grains(topology: &Topology, atoms: &[usize]) -> Option<Vec<usize>> {
    let called = |names: &&[&str]| -> Vec<usize> {
        atoms.iter().copied().filter(|atom| names.contains(&topology.atom(*atom).name)).collect()
    };
    HEAD_GRAINS.iter().map(called).find(|head| !head.is_empty())
}

/// Molecules that look like lipids, if so many are not among the selected ones that the area of
/// these is another, and what their first residues are called.
fn other_lipids(
    topology: &Topology,
    selected: &AtomSet,
    n_selected: usize,
) -> Option<(usize, Vec<String>)> {
    const MOST_NAMES: usize = 5;
    let others = !selected.clone();
    let mut n_molecules = 0;
    let mut names: Vec<String> = Vec::new();
    for atoms in by_molecule(topology, &others).iter().filter(|atoms| is_lipid(topology, atoms)) {
        n_molecules += 1;
        let name = topology.residue(topology.atom(atoms[0]).residue).name;
        if names.len() < MOST_NAMES && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    let is_matter = n_molecules > 1 && n_molecules as f64 >= LEAST_OTHERS * n_selected as f64;
    is_matter.then_some((n_molecules, names))
}

/// Whether a molecule looks like a lipid: one of few polar atoms on much carbon, as a sterol, or a
/// phosphate with two tails; or grains of which some are called as those of a head.
fn is_lipid(topology: &Topology, atoms: &[usize]) -> bool {
    let is_of_polymer = |atom: &usize| {
        Family::of(topology.residue(topology.atom(*atom).residue).name) != Family::Other
    };
    if atoms.len() < 4 || is_of_polymer(&atoms[0]) {
        return false;
    }
    let elements: Vec<Element> = atoms.iter().filter_map(|atom| topology.element(*atom)).collect();
    if elements.is_empty() {
        return head_grains(topology, atoms).is_some();
    }
    let count = |element: Element| elements.iter().filter(|one| **one == element).count();
    let n_heavy = elements.len() - count(Element::H);
    let n_carbon = count(Element::C);
    let has_phosphorus = elements.iter().any(|element| element.number() == P);
    let is_polar = n_carbon < n_heavy;
    let has_metal = elements.iter().any(|element| element.is_metal());
    let is_fat = n_carbon >= 14 && 4 * n_carbon >= 3 * n_heavy
        || has_phosphorus && n_carbon >= 20 && 5 * n_carbon >= 3 * n_heavy;
    is_fat && is_polar && !has_metal && !atoms.iter().any(is_of_polymer)
}

impl Bilayer {
    fn length(&self, cell: &Cell) -> f64 {
        // What the first frame was checked for.
        self.request.axis.length(cell).unwrap_or_else(|| cell.lengths()[2])
    }

    /// Heights of the heads above the centre and below it.
    fn sides(&self, frame: &Frame) -> [Vec<f64>; 2] {
        let cell = frame.cell().expect("a frame without a cell has been refused");
        let length = self.length(cell);
        let column = self.request.axis.column(frame);
        let centre = periodic_centre(column, &self.atoms, length);
        let mut sides = [Vec::new(), Vec::new()];
        for head in &self.heads {
            let heights =
                head.iter().map(|slot| nearest(f64::from(column[*slot as usize]) - centre, length));
            let height = heights.sum::<f64>() / head.len() as f64;
            sides[usize::from(height < 0.0)].push(height);
        }
        sides
    }

    fn table(&self, kind: &'static str, title: &str, columns: Vec<Column>) -> Table {
        let definition = format!(
            "lipids are whole molecules; a head is the phosphorus, or the mean of nitrogen and \
             oxygen, or of coarse grains what the group has of the lipid, PO4, ROH and the like \
             where that is all, and in the leaflet on whose side of the centre of mass it is; \
             twice the area of the cell across {} over all lipids, distance of the mean heights of \
             heads, order S = ½⟨3 cos² θ − 1⟩ of C–H bonds, θ to {}",
            self.request.axis.name(),
            self.request.axis.name()
        );
        let groups = vec![TableGroup::new("lipids", &self.request.group)];
        Table::new(kind, title, definition, groups, columns)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard deviation of numbers.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len().max(1) as f64).sqrt()
}

impl Task for Bilayer {
    type Tally = Tally;

    fn start(&self) -> Tally {
        Tally {
            n_frames: 0,
            area: Vec::new(),
            thickness: Vec::new(),
            n_upper: Vec::new(),
            n_lower: Vec::new(),
            order: vec![0.0; self.carbons.len()],
        }
    }

    fn frame(&self, view: &View<'_>, tally: &mut Tally) {
        let frame = view.frame;
        let cell = frame.cell().expect("a frame without a cell has been refused");
        let [upper, lower] = self.sides(frame);
        tally.area.push(2.0 * volume(cell) / self.length(cell) / self.heads.len() as f64);
        tally.thickness.push(mean(&upper) - mean(&lower));
        tally.n_upper.push(upper.len() as i64);
        tally.n_lower.push(lower.len() as i64);
        let columns = [frame.x(), frame.y(), frame.z()];
        let at = |slot: u32| columns.map(|column| column[slot as usize]);
        let k = self.request.axis as usize;
        for ([carbon, hydrogen], place) in &self.bonds {
            let bond = cell.nearest(difference(at(*hydrogen), at(*carbon)));
            let square = dot(bond, bond);
            if square > 0.0 {
                tally.order[*place] += 1.5 * bond[k] * bond[k] / square - 0.5;
            }
        }
        tally.n_frames += 1;
    }

    fn append(&self, tally: &mut Tally, next: Tally) {
        tally.n_frames += next.n_frames;
        tally.area.extend(next.area);
        tally.thickness.extend(next.thickness);
        tally.n_upper.extend(next.n_upper);
        tally.n_lower.extend(next.n_lower);
        tally.order.iter_mut().zip(next.order).for_each(|(sum, next)| *sum += next);
    }

    fn warnings(&self, analysis: usize) -> Vec<Warning> {
        let label = &self.request.group.label;
        let others = self.others.clone().map(|(n_molecules, names)| Warning::OtherLipids {
            analysis,
            label: label.clone(),
            n_molecules,
            names,
        });
        let [spread, thickness] = self.first;
        let axis = self.request.axis.name();
        let is_flat = spread <= LARGEST_SPREAD * thickness;
        let not_flat = (!is_flat).then(|| Warning::NotFlat {
            analysis,
            label: label.clone(),
            axis,
            spread,
            thickness,
        });
        others.into_iter().chain(not_flat).collect()
    }

    fn finish(&self, tally: Tally, frames: &Frames<'_>) -> Outcome {
        let mut columns = frames.columns();
        columns.extend([
            Column::numbers(
                "area_per_lipid_angstrom2",
                Some("Å²"),
                "area per lipid: that of both leaflets over all lipids",
                tally.area,
            ),
            Column::numbers(
                "thickness_angstrom",
                Some("Å"),
                "thickness between the heads",
                tally.thickness,
            ),
            Column::integers("upper_lipids", "lipids in the upper leaflet", tally.n_upper),
            Column::integers("lower_lipids", "lipids in the lower leaflet", tally.n_lower),
        ]);
        let mut n_bonds = vec![0_u32; self.carbons.len()];
        self.bonds.iter().for_each(|(_, place)| n_bonds[*place] += 1);
        let order = tally.order.iter().zip(&n_bonds);
        let order = order.map(|(sum, n)| sum / (f64::from(*n) * tally.n_frames as f64));
        let names = |f: &dyn Fn(&(String, String)) -> &String| {
            self.carbons.iter().map(|carbon| f(carbon).clone()).collect()
        };
        let carbons = vec![
            Column::texts("residue", "name of the residue", names(&|carbon| &carbon.0)),
            Column::texts("carbon", "name of the carbon", names(&|carbon| &carbon.1)),
            Column::integers(
                "bonds",
                "bonds to hydrogen of all lipids",
                n_bonds.iter().map(|n| i64::from(*n)).collect(),
            ),
            Column::numbers(
                "order_parameter",
                None,
                "S, which deuterium magnetic resonance gives as −S",
                order.collect(),
            ),
        ];
        Outcome::Tables(vec![
            self.table("membrane", "Area per lipid and thickness", columns),
            self.table("lipid_order", "Order parameters of lipids", carbons),
        ])
    }
}
