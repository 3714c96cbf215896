//! Lipid bilayers: area per lipid, thickness, order of the chains.

use rustc_hash::FxHashMap;

use crate::cell::{difference, dot, volume};
use crate::density::{Axis, nearest, periodic_centre};
use crate::frames::Frames;
use crate::group::Group;
use crate::read::Frame;
use crate::setup::Setup;
use crate::source::View;
use crate::table::{Column, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{AtomSet, Cell, Element, Error, Topology};

const P: u8 = 15;

/// A lipid bilayer across an axis of the cell.
///
/// Lipids are the molecules of which an atom is in the group. The head of one is its phosphorus, or
/// the mean of its nitrogen and oxygen where it has none, or of its atoms in the group where it has
/// none of these either, as of coarse grains; it belongs to the leaflet on whose side
/// of the centre of mass of all lipids, in one piece along the axis, the head is.
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
        let bilayer = Bilayer {
            request: self.clone(),
            atoms: atoms.iter().map(|atom| (slot(atom), topology.atom(atom).mass_da)).collect(),
            heads: heads(topology, &atoms, &self.group.atoms)
                .into_iter()
                .map(|head| head.into_iter().map(slot).collect())
                .collect(),
            bonds,
            carbons,
        };
        let sides = bilayer.sides(setup.first());
        if sides.iter().any(Vec::is_empty) {
            let label = self.group.label.clone();
            return Err(Error::NoLeaflets { analysis, label, axis: self.axis.name() });
        }
        Ok(bilayer)
    }
}

/// The atoms that are the head of each lipid.
fn heads(topology: &Topology, atoms: &AtomSet, group: &AtomSet) -> Vec<Vec<usize>> {
    let mut molecules: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut places: FxHashMap<usize, usize> = FxHashMap::default();
    for atom in atoms.iter() {
        let molecule = topology.molecule_of(atom);
        let place = *places.entry(molecule).or_insert_with(|| {
            molecules.push((molecule, Vec::new()));
            molecules.len() - 1
        });
        molecules[place].1.push(atom);
    }
    let number = |atom: usize| topology.element(atom).map_or(0, Element::number);
    let lipids = molecules.into_iter().map(|(_, atoms)| {
        let of = |numbers: &[u8]| -> Vec<usize> {
            atoms.iter().copied().filter(|atom| numbers.contains(&number(*atom))).collect()
        };
        let phosphorus = of(&[P]);
        let others = of(&[Element::N.number(), Element::O.number()]);
        let in_group = atoms.iter().copied().filter(|atom| group.contains(*atom)).collect();
        [phosphorus, others, in_group].into_iter().find(|head| !head.is_empty())
    });
    lipids.flatten().collect()
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
             oxygen, or of what the group has of a lipid without these, and in the leaflet on whose \
             side of the centre of mass it is; twice the area of the cell across {} over all lipids, distance of the mean heights of heads, order \
             S = ½⟨3 cos² θ − 1⟩ of C–H bonds, θ to {}",
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
