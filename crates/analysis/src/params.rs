//! What is asked of a trajectory in words: masks as people write them, each at its place.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::distance::Distance;
use crate::hbond::{self, Between, Criterion, HydrogenBonds};
use crate::mask::{self, Mask, ParseError, SelectError, Selection};
use crate::read::{Series, Structure};
use crate::request::{Damaged, Images, Weights};
use crate::rmsd::Rmsd;
use crate::rmsf::{Rmsf, Superpose};
use crate::run::{Control, Notice, Report, analyze};
use crate::{Analysis, AtomSet, Element, Error, Group, Request, Topology};

/// Largest stride, beyond which a double no longer holds every whole number.
const MAX_STRIDE: f64 = (1_u64 << 53) as f64;

/// Parameters of an analysis. With none of distances, RMSD, RMSF or hydrogen bonds asked for, the
/// RMSD and RMSF of the α-carbons and the hydrogen bonds of the solute are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// Frames 0, N, 2 N and so on are analysed; a whole number of at least 1, by default 1.
    pub downsample_frames: Option<f64>,
    /// Distances between centres of mass, minimum image: two masks in each string, separated by a
    /// blank. Strings of one mask each are taken in pairs.
    pub distance_masks: Vec<String>,
    /// `[mask]` superposes and measures on one mask, `[fit, measure, …]` superposes on the first and
    /// measures the others.
    pub rmsd_masks: Vec<Vec<String>>,
    /// Each superposed on itself, about the average.
    pub rmsf_masks: Vec<String>,
    /// Least angle donor–hydrogen–acceptor in degrees; to give it asks for hydrogen bonds.
    pub hbond_angle: Option<f64>,
    /// Largest distance donor–acceptor in Å; to give it asks for hydrogen bonds.
    pub hbond_distance: Option<f64>,
    /// Whether frames that are damaged are left out; otherwise the first of them ends the analysis.
    pub skip_damaged_frames: bool,
}

/// A place in [`Params`]: a field, and in lists the index, counted from 0, at each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// Indexes into it.
    pub indexes: Vec<usize>,
}

/// All that is wrong with parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidParams(pub Vec<Invalid>);

/// What is wrong at a place in parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct Invalid {
    /// Where.
    pub at: Field,
    /// What.
    pub problem: Problem,
}

/// What can be wrong with a parameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A text is no mask.
    #[error(transparent)]
    Parse(ParseError),
    /// A mask cannot be applied.
    #[error(transparent)]
    Select(SelectError),
    /// A mask selects nothing, and what that may come from.
    #[error("{mask:?} selects no atom{}", hints(.warnings))]
    Empty {
        /// The mask.
        mask: String,
        /// Why, perhaps.
        warnings: Vec<mask::Warning>,
    },
    /// A distance needs two masks.
    #[error("a distance is between two masks, and here {n_masks} of them stand together")]
    NotTwo {
        /// Masks in the string.
        n_masks: usize,
    },
    /// A single mask has no other to pair with.
    #[error("a single mask is paired with the next single one, and there is none")]
    Unpaired,
    /// A list of masks is empty.
    #[error("no mask")]
    NoMask,
    /// One atom is superposed on itself exactly, so that nothing is measured.
    #[error("{mask:?} selects one atom, and one atom is superposed exactly; take two or more")]
    OneAtom {
        /// The mask.
        mask: String,
    },
    /// There is nothing that could make a hydrogen bond.
    #[error("{label} has {problem}, so that there is no hydrogen bond to look for")]
    NoHydrogenBonds {
        /// The group.
        label: String,
        /// What it lacks.
        problem: &'static str,
    },
    /// A number is out of its bounds.
    #[error("must be {0}")]
    Bounds(&'static str),
}

/// Parameters whose texts are masks and whose numbers are within bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    stride: NonZeroUsize,
    distances: Vec<[Placed; 2]>,
    rmsds: Vec<Vec<Placed>>,
    rmsfs: Vec<Placed>,
    bonds: Option<Bonds>,
    damaged: Damaged,
}

/// What hydrogen bonds are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bonds {
    max_distance: f64,
    min_angle_deg: f64,
    /// The field that asks for them.
    field: &'static str,
}

/// A mask, and where it stands.
#[derive(Clone, Debug, PartialEq)]
struct Placed {
    at: Field,
    mask: Mask,
}

/// A request made of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// The request: distances, RMSD, RMSF and hydrogen bonds, each in the order of its field.
    pub request: Request,
    /// For each analysis where it was asked for; nothing for those made by default.
    pub fields: Vec<Option<Field>>,
    /// What masks warn of.
    pub warnings: Vec<Notice>,
}

/// Makes the analyses that parameters ask for, from files.
///
/// The trajectory is in one file or several, in their order. Distances in masks are measured in the
/// structure of the topology file. A trajectory that is still growing gives the frames so far.
///
/// # Errors
///
/// [`Error::Params`] with all that is wrong, or see [`analyze`].
pub fn analyze_files(
    topology: &Path,
    trajectory: &[PathBuf],
    params: &Params,
    control: &Control<'_>,
) -> Result<Report, Error> {
    let parsed = params.parse().map_err(Error::Params)?;
    let structure = Structure::open(topology)?;
    let trajectory = Series::open(trajectory)?;
    let selected = parsed.select(&structure.topology, &structure.positions).map_err(Error::Params)?;
    let report = analyze(&structure.topology, &trajectory, &selected.request, control)?;
    let mut warnings = selected.warnings;
    warnings.extend(report.warnings);
    Ok(Report { warnings, ..report })
}

impl Params {
    /// Parses the masks and checks the numbers, before there is a topology.
    ///
    /// # Errors
    ///
    /// All that is wrong, in the order of the fields.
    pub fn parse(&self) -> Result<Parsed, InvalidParams> {
        let mut problems = Problems::default();
        let stride = self.downsample_frames.unwrap_or(1.0);
        let is_whole = (1.0..=MAX_STRIDE).contains(&stride) && stride.fract() == 0.0;
        let stride = if is_whole { NonZeroUsize::new(stride as usize) } else { None };
        problems.require(stride.is_some(), "downsample_frames", "a whole number of at least 1");
        let distances = self.distances(&mut problems);
        let mut rmsds = Vec::new();
        for (n, masks) in self.rmsd_masks.iter().enumerate() {
            let at = |k| Field { name: "rmsd_masks", indexes: vec![n, k] };
            rmsds.push(masks.iter().enumerate().filter_map(|(k, mask)| problems.mask(at(k), mask)).collect());
            if masks.is_empty() {
                problems.add(Field { name: "rmsd_masks", indexes: vec![n] }, Problem::NoMask);
            }
        }
        let at = |n| Field { name: "rmsf_masks", indexes: vec![n] };
        let rmsfs = self.rmsf_masks.iter().enumerate().filter_map(|(n, mask)| problems.mask(at(n), mask)).collect();
        let angle = self.hbond_angle.unwrap_or(hbond::MIN_ANGLE_DEG);
        problems.require((0.0..=180.0).contains(&angle), "hbond_angle", "from 0 to 180 degrees");
        let distance = self.hbond_distance.unwrap_or(hbond::MAX_DISTANCE);
        problems.require(distance > 0.0 && distance <= 10.0, "hbond_distance", "above 0 and at most 10 Å");
        let field = match (self.hbond_distance, self.hbond_angle) {
            (Some(_), _) => Some("hbond_distance"),
            (None, Some(_)) => Some("hbond_angle"),
            (None, None) => None,
        };
        let bonds = field.map(|field| Bonds { max_distance: distance, min_angle_deg: angle, field });
        let damaged = if self.skip_damaged_frames { Damaged::LeaveOut } else { Damaged::Fail };
        match stride {
            Some(stride) if problems.0.is_empty() => Ok(Parsed { stride, distances, rmsds, rmsfs, bonds, damaged }),
            _ => Err(InvalidParams(problems.0)),
        }
    }

    fn distances(&self, problems: &mut Problems) -> Vec<[Placed; 2]> {
        let (mut pairs, mut single) = (Vec::new(), None);
        for (n, text) in self.distance_masks.iter().enumerate() {
            let at = Field { name: "distance_masks", indexes: vec![n] };
            let masks = match Mask::parse_list(text) {
                Ok(masks) => masks,
                Err(error) => {
                    problems.add(at, Problem::Parse(error));
                    continue;
                }
            };
            let n_masks = masks.len();
            let mut placed = masks.into_iter().map(|mask| Placed { at: at.clone(), mask });
            match (placed.next(), placed.next(), n_masks) {
                (Some(a), Some(b), 2) => pairs.push([a, b]),
                (Some(b), None, _) => match single.take() {
                    Some(a) => pairs.push([a, b]),
                    None => single = Some(b),
                },
                _ => problems.add(at, Problem::NotTwo { n_masks }),
            }
        }
        // A mask that is wrong may be the one that is missing.
        if let Some(Placed { at, .. }) = single.filter(|_| problems.0.iter().all(|p| p.at.name != "distance_masks")) {
            problems.add(at, Problem::Unpaired);
        }
        pairs
    }
}

impl Parsed {
    /// Applies the masks to a topology, distances in them to its positions in Å.
    ///
    /// # Errors
    ///
    /// All masks that cannot be applied or select nothing.
    pub fn select(&self, topology: &Topology, positions: &[[f64; 3]]) -> Result<Selected, InvalidParams> {
        let (mut problems, mut warnings) = (Problems::default(), Vec::new());
        let mut group = |placed: &Placed| problems.group(placed, topology, positions, &mut warnings);
        let mut analyses: Vec<(Analysis, Option<Field>)> = Vec::new();
        for [a, b] in &self.distances {
            let distance = Distance { a: group(a), b: group(b), weights: Weights::Mass, nearest_image: true };
            analyses.push((Analysis::Distance(distance), Some(a.at.clone())));
        }
        for (n, masks) in self.rmsds.iter().enumerate() {
            let mut groups: Vec<_> = masks.iter().map(&mut group).collect();
            let fit = groups[0].clone();
            // The first is measured only if it is alone.
            let measures = if groups.len() > 1 { groups.split_off(1) } else { groups };
            let rmsd = Rmsd { fit: Some(fit), measures, weights: Weights::Equal };
            analyses.push((Analysis::Rmsd(rmsd), Some(Field { name: "rmsd_masks", indexes: vec![n] })));
        }
        for placed in &self.rmsfs {
            let rmsf = Rmsf { group: group(placed), superpose: Superpose::Average };
            analyses.push((Analysis::Rmsf(rmsf), Some(placed.at.clone())));
        }
        let superposed = self.rmsds.iter().map(|masks| &masks[0]).chain(&self.rmsfs);
        superposed.for_each(|placed| problems.require_two_atoms(placed, topology, positions));
        if let Some(Bonds { max_distance, min_angle_deg, field }) = self.bonds {
            let criterion = Criterion::Angle { max_distance, min_angle_deg };
            let bonds = HydrogenBonds { criterion, ..HydrogenBonds::usual(Between::Within(solute(topology))) };
            if let Some((label, problem)) = bonds.lacks(topology) {
                let problem = Problem::NoHydrogenBonds { label: label.to_owned(), problem };
                problems.add(Field { name: field, indexes: Vec::new() }, problem);
            }
            analyses.push((Analysis::HydrogenBonds(bonds), None));
        }
        if !problems.0.is_empty() {
            return Err(InvalidParams(problems.0));
        }
        if analyses.is_empty() {
            analyses.extend(usual(topology, &mut warnings).into_iter().map(|analysis| (analysis, None)));
        }
        let (analyses, fields) = analyses.into_iter().unzip();
        let request = Request { analyses, stride: self.stride, images: Images::Unwrapped, damaged: self.damaged };
        Ok(Selected { request, fields, warnings })
    }
}

/// What is made when nothing is asked for.
fn usual(topology: &Topology, warnings: &mut Vec<Notice>) -> Vec<Analysis> {
    let group = backbone(topology);
    let mut analyses = vec![
        Analysis::Rmsd(Rmsd { fit: Some(group.clone()), measures: vec![group.clone()], weights: Weights::Equal }),
        Analysis::Rmsf(Rmsf { group, superpose: Superpose::Average }),
    ];
    let bonds = HydrogenBonds::usual(Between::Within(solute(topology)));
    match bonds.lacks(topology) {
        Some((label, problem)) => {
            let problem = Problem::NoHydrogenBonds { label: label.to_owned(), problem };
            warnings.push(Notice::NoHydrogenBonds { reason: problem.to_string() });
        }
        None => analyses.push(Analysis::HydrogenBonds(bonds)),
    }
    analyses
}

/// The α-carbons, of which calcium is none; with fewer than three, the heavy atoms of the solute.
fn backbone(topology: &Topology) -> Group {
    let element = |atom| topology.atom(atom).element;
    let is_carbon = |atom| topology.atom(atom).name == "CA" && element(atom) == Some(Element::C);
    let in_protein = |atom| is_carbon(atom) && topology.residue_atoms(topology.atom(atom).residue).len() > 1;
    let atoms = AtomSet::from_fn(topology.n_atoms(), in_protein);
    if atoms.len() >= 3 {
        return Group { label: "@CA&@/C".to_owned(), atoms };
    }
    let all = solute(topology);
    let is_heavy = |atom| all.atoms.contains(atom) && element(atom).is_some_and(|element| element != Element::H);
    let atoms = AtomSet::from_fn(topology.n_atoms(), is_heavy);
    if atoms.is_empty() { all } else { Group { label: format!("{} without hydrogen", all.label), atoms } }
}

/// The solute, or all atoms where there is none.
fn solute(topology: &Topology) -> Group {
    let solute = Group::solute(topology);
    if solute.atoms.is_empty() {
        Group { label: "*".to_owned(), atoms: AtomSet::all(topology.n_atoms()) }
    } else {
        solute
    }
}

/// What was found to be wrong so far.
#[derive(Debug, Default)]
struct Problems(Vec<Invalid>);

impl Problems {
    fn add(&mut self, at: Field, problem: Problem) {
        self.0.push(Invalid { at, problem });
    }

    fn require(&mut self, holds: bool, name: &'static str, bounds: &'static str) {
        if !holds {
            self.add(Field { name, indexes: Vec::new() }, Problem::Bounds(bounds));
        }
    }

    fn mask(&mut self, at: Field, text: &str) -> Option<Placed> {
        match Mask::parse(text) {
            Ok(mask) => Some(Placed { at, mask }),
            Err(error) => {
                self.add(at, Problem::Parse(error));
                None
            }
        }
    }

    fn require_two_atoms(&mut self, Placed { at, mask }: &Placed, topology: &Topology, positions: &[[f64; 3]]) {
        // What else is wrong with the mask has been found before.
        let is_one = mask.select(topology, Some(positions)).is_ok_and(|selection| selection.atoms.len() == 1);
        if is_one {
            self.add(at.clone(), Problem::OneAtom { mask: mask.to_string() });
        }
    }

    /// The atoms of a mask; if something is wrong with it, none.
    fn group(
        &mut self,
        Placed { at, mask }: &Placed,
        topology: &Topology,
        positions: &[[f64; 3]],
        notices: &mut Vec<Notice>,
    ) -> Group {
        let label = mask.to_string();
        let atoms = match mask.select(topology, Some(positions)) {
            Ok(Selection { atoms, mut warnings }) if atoms.is_empty() => {
                warnings.retain(|warning| *warning != mask::Warning::Empty);
                self.add(at.clone(), Problem::Empty { mask: label.clone(), warnings });
                atoms
            }
            Ok(Selection { atoms, warnings }) => {
                notices.extend(warnings.into_iter().map(|warning| Notice::Mask { at: at.clone(), warning }));
                atoms
            }
            Err(error) => {
                self.add(at.clone(), Problem::Select(error));
                AtomSet::none(topology.n_atoms())
            }
        };
        Group { label, atoms }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.indexes.iter().try_for_each(|index| write!(f, "[{index}]"))
    }
}

fn hints(warnings: &[mask::Warning]) -> String {
    warnings.iter().map(|warning| format!("; {warning}")).collect()
}
