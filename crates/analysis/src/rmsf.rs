//! Root-mean-square fluctuation of atoms about their mean positions.

use std::f64::consts::PI;

use crate::cell::dot;
use crate::frames::{BLOCK_FRAMES, Frames};
use crate::group::{Group, ImageGroup, Weights};
use crate::parallel::in_order;
use crate::pdb::pdb;
use crate::points::Points;
use crate::setup::Setup;
use crate::source::{Members, View};
use crate::superpose::{Motion, Target};
use crate::table::{Column, RESIDUE_INDEX, Table, TableGroup};
use crate::task::{Outcome, Task};
use crate::{AtomSet, Error, Topology};

/// The fluctuation of each atom, in Å: √(⟨|xᵢ − ⟨xᵢ⟩|²⟩), averages over all analysed frames, each
/// counted once; and of each residue, the mean over its atoms weighted by mass.
#[derive(Clone, Debug, PartialEq)]
pub struct Rmsf {
    /// The atoms.
    pub group: Group,
    /// What frames are superposed on, all atoms alike, before the averages are taken.
    pub superpose: Superpose,
    /// The atoms that are superposed, in place of those that are measured.
    pub fit: Option<Group>,
}

/// What frames are superposed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Superpose {
    /// The average of the frames, these superposed on the first frame. The fluctuation is about
    /// the average of the frames as superposed on that average.
    #[default]
    Average,
    /// The first frame.
    First,
    /// Nothing: the result has the molecule's own motion in it.
    Nothing,
}

/// Coordinates that are kept from the first pass to spare reading them again, in bytes.
const KEPT_BYTES: usize = 64 << 20;

impl Rmsf {
    pub(crate) fn image_group(&self) -> ImageGroup {
        let in_place = self.superpose == Superpose::Nothing;
        let mut all = ImageGroup::of(&self.group);
        self.fit.iter().for_each(|fit| all.add(fit));
        ImageGroup { in_place, ..all }
    }

    pub(crate) fn task(&self, setup: &Setup<'_>, analysis: usize) -> Result<Fluctuation, Error> {
        let members = setup.members(&self.group);
        let weighing = setup.weighing(&self.group, Weights::Equal)?;
        let bytes = 12 * members.len() * setup.frames.n_analyzed();
        let reference = Target::new(&setup.first_positions(&members), weighing);
        let fit = self.fit.as_ref().map(|group| {
            let members = setup.members(group);
            let weighing = setup.weighing(group, Weights::Equal)?;
            let target = Target::new(&setup.first_positions(&members), weighing);
            Ok::<_, Error>((members, target))
        });
        let fit = fit.transpose()?;
        if self.superpose != Superpose::Nothing {
            let superposed = fit.as_ref().map_or(&reference, |(_, target)| target);
            superposed.check(fit.is_some()).map_err(|problem| {
                let label = self.fit.as_ref().unwrap_or(&self.group).label.clone();
                Error::NoRotation { analysis, label, problem }
            })?;
        }
        Ok(Fluctuation {
            reference,
            stage: match self.superpose {
                Superpose::Average => {
                    let keeps = fit.is_none() && !members.is_tracked() && bytes <= KEPT_BYTES;
                    Stage::Average { keeps }
                }
                Superpose::First => Stage::Last,
                Superpose::Nothing => Stage::Still,
            },
            atoms: Atoms::new(setup.topology(), &self.group, self.fit.as_ref()),
            fit,
            superpose: self.superpose,
            members,
        })
    }
}

/// A pass that superposes frames and sums up how far the atoms are from the reference.
#[derive(Debug)]
pub(crate) struct Fluctuation {
    superpose: Superpose,
    stage: Stage,
    members: Members,
    reference: Target,
    /// What is superposed, if that is not what is measured.
    fit: Option<(Members, Target)>,
    atoms: Atoms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The average is to become the reference.
    Average { keeps: bool },
    /// The fluctuation is about the average of this pass.
    Last,
    /// The same, and nothing is superposed.
    Still,
}

/// Sums over frames of the deviations from the reference.
#[derive(Debug)]
pub(crate) struct Sums {
    n_frames: usize,
    deviation: Points,
    square: Vec<f64>,
    /// Coordinates of the frames, if they are kept: all x, then y, then z of each.
    kept: Vec<f32>,
    points: Points,
    /// Positions of what is superposed, and sums of its deviations.
    fit_points: Points,
    fit_deviation: Points,
    fit_square: Vec<f64>,
}

impl Task for Fluctuation {
    type Tally = Sums;

    fn start(&self) -> Sums {
        let deviation = Points::zeros(self.members.len());
        let fit_deviation = Points::zeros(self.fit.as_ref().map_or(0, |(fit, _)| fit.len()));
        Sums {
            n_frames: 0,
            square: deviation.x.clone(),
            deviation,
            kept: Vec::new(),
            points: Points::default(),
            fit_points: Points::default(),
            fit_square: fit_deviation.x.clone(),
            fit_deviation,
        }
    }

    fn frame(&self, view: &View<'_>, sums: &mut Sums) {
        self.members.positions(view, &mut sums.points);
        if self.stage == (Stage::Average { keeps: true }) {
            // The positions were widened from 32 bits, so that narrowing them loses nothing.
            let n = self.members.len();
            let columns = [&sums.points.x, &sums.points.y, &sums.points.z];
            for column in columns {
                sums.kept.extend(column[..n].iter().map(|x| *x as f32));
            }
        }
        let motion = self.fit.as_ref().map(|(fit, target)| {
            fit.positions(view, &mut sums.fit_points);
            let motion = target.fit(&sums.fit_points);
            let Sums { fit_points, fit_deviation, fit_square, .. } = &mut *sums;
            target.add_deviations(fit_points, &motion, fit_deviation, fit_square);
            motion
        });
        self.add(sums, motion);
    }

    fn append(&self, sums: &mut Sums, mut next: Sums) {
        sums.n_frames += next.n_frames;
        for (sum, next) in
            sums.deviation.columns_mut().into_iter().zip(next.deviation.columns_mut())
        {
            sum.iter_mut().zip(next).for_each(|(sum, next)| *sum += *next);
        }
        sums.square.iter_mut().zip(next.square).for_each(|(sum, next)| *sum += next);
        let columns = sums.fit_deviation.columns_mut().into_iter();
        for (sum, next) in columns.zip(next.fit_deviation.columns_mut()) {
            sum.iter_mut().zip(next).for_each(|(sum, next)| *sum += *next);
        }
        sums.kept.append(&mut next.kept);
    }

    fn finish(&self, mut sums: Sums, frames: &Frames<'_>) -> Outcome {
        let Stage::Average { keeps } = self.stage else {
            return Outcome::Tables(self.tables(&sums, frames.topology));
        };
        let reference = self.reference.moved(&sums.deviation, sums.n_frames);
        let fit = self.fit.as_ref().map(|(members, target)| {
            (members.clone(), target.moved(&sums.fit_deviation, sums.n_frames))
        });
        let kept = std::mem::take(&mut sums.kept);
        let last = Self {
            stage: Stage::Last,
            reference,
            fit,
            members: self.members.clone(),
            atoms: self.atoms.clone(),
            ..*self
        };
        if !keeps {
            return Outcome::Again(Box::new(last));
        }
        Outcome::Tables(last.tables(&last.sums_of(&kept, frames), frames.topology))
    }
}

impl Fluctuation {
    /// Adds the frame whose positions are in `sums.points`, moved as what is superposed is, if that
    /// is something else.
    fn add(&self, sums: &mut Sums, motion: Option<Motion>) {
        let motion = match motion {
            _ if self.stage == Stage::Still => Motion::IDENTITY,
            Some(motion) => motion,
            None => self.reference.fit(&sums.points),
        };
        self.reference.add_deviations(&sums.points, &motion, &mut sums.deviation, &mut sums.square);
        sums.n_frames += 1;
    }

    /// The sums over frames that were kept.
    fn sums_of(&self, kept: &[f32], frames: &Frames<'_>) -> Sums {
        let n = self.members.len();
        let blocks: Vec<_> = kept.chunks(3 * n * BLOCK_FRAMES).collect();
        let tallies = in_order(&blocks, frames.n_threads, |block| {
            let mut sums = Task::start(self);
            sums.points.resize(n);
            for frame in block.chunks_exact(3 * n) {
                for (column, from) in
                    sums.points.columns_mut().into_iter().zip(frame.chunks_exact(n))
                {
                    column.iter_mut().zip(from).for_each(|(to, from)| *to = f64::from(*from));
                }
                self.add(&mut sums, None);
            }
            sums
        });
        let mut total = Task::start(self);
        tallies.into_iter().for_each(|tally| self.append(&mut total, tally));
        total
    }

    fn tables(&self, sums: &Sums, topology: &Topology) -> Vec<Table> {
        let n_frames = sums.n_frames as f64;
        // One frame is its own average, about which nothing fluctuates.
        let n_atoms = if sums.n_frames > 1 { self.members.len() } else { 0 };
        let fluctuations = (0..n_atoms).map(|n| {
            let mean = sums.deviation.get(n).map(|sum| sum / n_frames);
            let square = sums.square[n] / n_frames - dot(mean, mean);
            // Rounding may leave less than nothing where an atom does not move. What is no number
            // stays so: `max` would make it 0, as it once did of every atom for one NaN in a file.
            if square < 0.0 { 0.0 } else { square.sqrt() }
        });
        let fluctuations: Vec<f64> = fluctuations.collect();
        let definition = match self.superpose {
            Superpose::Average => {
                "root-mean-square fluctuation about the mean position, frames superposed on their \
                 average, which is that of frames superposed on the first"
            }
            Superpose::First => {
                "root-mean-square fluctuation about the mean position, frames superposed on the \
                 first"
            }
            Superpose::Nothing => {
                "root-mean-square fluctuation about the mean position, without superposition"
            }
        };
        let b_factors: Vec<f64> = fluctuations.iter().map(|rmsf| b_factor(*rmsf)).collect();
        let definition = if self.fit.is_some() {
            format!("{definition}; superposed are the atoms of the fit group")
        } else {
            definition.to_owned()
        };
        let mut tables = self.atoms.tables(&definition, fluctuations);
        if n_atoms > 0 {
            let positions = self.reference.moved(&sums.deviation, sums.n_frames).positions(n_atoms);
            let remark = "MEAN POSITIONS; B-FACTORS 8 PI^2 / 3 RMSF^2";
            let text = pdb(topology, &self.atoms.atoms, &positions, &b_factors, remark);
            tables[0].pdb = Some(text);
        }
        tables
    }
}

/// What the tables say of the atoms.
#[derive(Clone, Debug)]
struct Atoms {
    groups: Vec<TableGroup>,
    atoms: AtomSet,
    rows: Vec<AtomRow>,
    residues: Vec<ResidueRow>,
    /// Whether residues of several molecules have the same label, as of a dimer without chains.
    has_copies: bool,
}

#[derive(Clone, Debug)]
struct AtomRow {
    /// As masks count it, from 1.
    number: i64,
    label: String,
    mass_da: f64,
    /// Its place among the residues.
    residue: usize,
}

#[derive(Clone, Debug)]
struct ResidueRow {
    number: i64,
    label: String,
    chain: String,
    author_number: i64,
    /// As the topology counts it, from 1.
    molecule: i64,
    /// Its atoms, by their places in the group.
    atoms: Vec<usize>,
}

impl Atoms {
    fn new(topology: &Topology, group: &Group, fit: Option<&Group>) -> Self {
        let own = topology.residues_of(&group.atoms);
        let residue_row = |idx: usize| {
            let residue = topology.residue(idx);
            ResidueRow {
                number: idx as i64 + 1,
                label: topology.residue_label(idx),
                chain: topology.chain_id(residue.chain).to_owned(),
                author_number: residue.number,
                molecule: 0,
                atoms: Vec::new(),
            }
        };
        let mut residues: Vec<ResidueRow> = own.iter().map(|idx| residue_row(*idx)).collect();
        let mut rows: Vec<AtomRow> = Vec::new();
        for (n, atom) in group.atoms.iter().enumerate() {
            let idx = topology.atom(atom).residue;
            let residue = own.binary_search(&idx).expect("it is that of an atom of the group");
            residues[residue].atoms.push(n);
            residues[residue].molecule = topology.molecule_of(atom) as i64 + 1;
            rows.push(AtomRow {
                number: atom as i64 + 1,
                label: topology.atom_label(atom),
                mass_da: topology.atom(atom).mass_da,
                residue,
            });
        }
        let atoms = group.atoms.clone();
        let mut groups = vec![TableGroup::new("group", group)];
        groups.extend(fit.map(|fit| TableGroup::new("fit", fit)));
        let has_copies = has_copies(&residues);
        Self { groups, atoms, rows, residues, has_copies }
    }

    /// A table by atom, and one by residue if that is something else; without a row if there is no
    /// fluctuation.
    fn tables(&self, definition: &str, fluctuations: Vec<f64>) -> Vec<Table> {
        let is_empty = fluctuations.is_empty();
        let (rows, residues) =
            if is_empty { (&[][..], &[][..]) } else { (&self.rows[..], &self.residues[..]) };
        let mut tables = Vec::new();
        let means =
            residues.iter().map(|residue| self.mean(&fluctuations, &residue.atoms)).collect();
        let of_atoms = rows.iter().map(|atom| &self.residues[atom.residue]);
        let mut columns = vec![
            Column::integers(
                "atom",
                "number of the atom, counted from 1",
                rows.iter().map(|atom| atom.number).collect(),
            ),
            Column::texts(
                "name",
                "chain, residue and atom",
                rows.iter().map(|atom| atom.label.clone()).collect(),
            ),
        ];
        columns.extend(residue_columns(of_atoms.clone()));
        let b_factors = fluctuations.iter().map(|rmsf| b_factor(*rmsf)).collect();
        columns.extend([
            Column::numbers("rmsf_angstrom", Some("Å"), "fluctuation of the atom", fluctuations),
            Column::numbers("b_factor_angstrom2", Some("Å²"), "8π²/3 of its square", b_factors),
        ]);
        columns.extend(self.molecules(of_atoms));
        tables.push(self.table("rmsf", "RMSF of atoms", definition.to_owned(), columns));
        if self.residues.len() < self.rows.len() {
            let reduced = "mean over the atoms of a residue, weighted by mass, or equally where \
                           none has a mass";
            let mut columns = vec![
                Column::integers(
                    "residue",
                    RESIDUE_INDEX,
                    residues.iter().map(|residue| residue.number).collect(),
                ),
                Column::texts(
                    "name",
                    "chain and residue",
                    residues.iter().map(|r| r.label.clone()).collect(),
                ),
            ];
            columns.extend(residue_columns(residues.iter()));
            columns.push(Column::numbers(
                "rmsf_angstrom",
                Some("Å"),
                format!("fluctuation, {reduced}"),
                means,
            ));
            columns.extend(self.molecules(residues.iter()));
            tables.push(self.table(
                "rmsf_by_residue",
                "RMSF of residues",
                format!("{definition}; {reduced}"),
                columns,
            ));
        }
        tables
    }

    /// The molecules of residues, where their labels do not tell them apart.
    fn molecules<'a>(&self, residues: impl Iterator<Item = &'a ResidueRow>) -> Option<Column> {
        let definition = "number of the molecule, counted from 1, as several have residues of the \
                          same name";
        let numbers = || residues.map(|residue| residue.molecule).collect();
        self.has_copies.then(|| Column::integers("molecule", definition, numbers()))
    }

    fn table(
        &self,
        kind: &'static str,
        title: &str,
        definition: String,
        columns: Vec<Column>,
    ) -> Table {
        Table::new(kind, title, definition, self.groups.clone(), columns)
    }

    fn mean(&self, fluctuations: &[f64], atoms: &[usize]) -> f64 {
        let masses = atoms.iter().map(|atom| self.rows[*atom].mass_da);
        let total: f64 = masses.clone().sum();
        let (weights, total): (Vec<f64>, f64) = if total > 0.0 {
            (masses.collect(), total)
        } else {
            (vec![1.0; atoms.len()], atoms.len() as f64)
        };
        let sum: f64 = weights.iter().zip(atoms).map(|(w, atom)| w * fluctuations[*atom]).sum();
        sum / total
    }
}

fn has_copies(residues: &[ResidueRow]) -> bool {
    let mut all: Vec<(&str, i64)> =
        residues.iter().map(|residue| (residue.label.as_str(), residue.molecule)).collect();
    all.sort_unstable();
    all.windows(2).any(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1)
}

/// The isotropic B-factor of a fluctuation in Å, in Å²: 8π²/3·RMSF².
fn b_factor(rmsf: f64) -> f64 {
    8.0 * PI * PI / 3.0 * rmsf * rmsf
}

/// Where residues stand, for people: their chains and the numbers that the author gave them.
fn residue_columns<'a>(residues: impl Iterator<Item = &'a ResidueRow> + Clone) -> [Column; 2] {
    let chains = residues.clone().map(|residue| residue.chain.clone()).collect();
    let numbers = residues.map(|residue| residue.author_number).collect();
    [
        Column::texts("chain", "identifier of the chain", chains),
        Column::integers("residue_number", "number that the structure gives the residue", numbers),
    ]
}
