//! What is asked of a trajectory in words: masks as people write them, each at its place.

use std::collections::BTreeSet;
use std::iter;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::cluster::{self, Clustering, Clusters};
use crate::contact::{Contacts, MAX_CONTACT_DISTANCE};
use crate::density::{self, Axis, Density};
use crate::dihedral::{DihedralKind, Dihedrals};
use crate::distance::Distance;
use crate::end_to_end::EndToEnd;
use crate::frames::FrameRange;
use crate::group::Weights;
use crate::gyration::Gyration;
use crate::hbond::{self, Between, Criterion, HydrogenBonds};
use crate::linkage::{Cut, Linkage};
use crate::mask::{Mask, MaskWarning, Selection};
use crate::matching::{ReferenceStructure, same_atoms};
use crate::membrane::Membrane;
use crate::native::NativeContacts;
use crate::principal::{self, PrincipalComponents};
use crate::rdf::{self, Rdf};
use crate::read::{Series, Structure, TopologyFile};
use crate::reference::{Reference, first_positions, frame_positions};
use crate::request::{Control, Damaged, Images};
use crate::rmsd::Rmsd;
use crate::rmsf::{Rmsf, Superpose};
use crate::run::{Report, analyze};
use crate::secondary::SecondaryStructure;
use crate::surface::{PROBE_RADIUS, SurfaceArea};
use crate::violation::{Field, InvalidParams, Violation, ViolationKind};
use crate::warning::Warning;
use crate::{Analysis, AtomSet, Cell, Element, Error, Group, Request, Topology};

/// Largest stride, beyond which a double no longer holds every whole number.
const MAX_STRIDE: f64 = (1_u64 << 53) as f64;

/// Molecules of water on both sides of hydrogen bonds or contacts, beyond which their pairs, each
/// with a row, would be more than anybody reads.
const MAX_WATERS: usize = 100;

/// Parameters of an analysis. With no analysis asked for, the RMSD and RMSF of the α-carbons and
/// the hydrogen bonds of the solute are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// Frames 0, N, 2 N and so on are analysed; a whole number of at least 1, by default 1.
    pub downsample_frames: Option<f64>,
    /// Distances between centres of mass, minimum image: two masks in each string, separated by a
    /// blank. Strings of one mask each are taken in pairs.
    pub distance_masks: Vec<String>,
    /// `[mask]` superposes and measures on one mask, `[fit, measure, …]` superposes on the first
    /// and measures the others.
    pub rmsd_masks: Vec<Vec<String>>,
    /// Each superposed on itself, about the average; of two masks, separated by a blank, the second,
    /// superposed on the first.
    pub rmsf_masks: Vec<String>,
    /// Least angle donor–hydrogen–acceptor in degrees; to give it asks for hydrogen bonds.
    pub hbond_angle: Option<f64>,
    /// Largest distance donor–acceptor in Å; to give it asks for hydrogen bonds.
    pub hbond_distance: Option<f64>,
    /// Hydrogen bonds within a mask or between two, separated by a blank; by default, if bounds or
    /// a criterion are given, those of the solute.
    pub hbond_masks: Vec<String>,
    /// `angle`, `baker_hubbard` or `wernet_nilsson`; to give it asks for hydrogen bonds.
    pub hbond_criterion: Option<String>,
    /// Contacts within a mask or between two, separated by a blank.
    pub contact_masks: Vec<String>,
    /// Largest distance of two atoms in contact in Å, by default 4.5.
    pub contact_distance: Option<f64>,
    /// Radii of gyration, by mass.
    pub gyration_masks: Vec<String>,
    /// Solvent-accessible surface areas.
    pub surface_masks: Vec<String>,
    /// Radius of the probe in Å, by default 1.4.
    pub surface_probe: Option<f64>,
    /// Secondary structure.
    pub secondary_structure_masks: Vec<String>,
    /// Deviations of all frames from each other, and clusters of frames, each mask superposed on
    /// itself.
    pub cluster_masks: Vec<String>,
    /// `average`, `complete`, `single` or `gromos`, by default `average`.
    pub cluster_method: Option<String>,
    /// Largest distance of what is joined to a cluster in Å, by default 2.
    pub cluster_cutoff: Option<f64>,
    /// How many clusters are made, in place of a cutoff.
    pub cluster_count: Option<u64>,
    /// Dihedral angles of the residues that a mask selects an atom of.
    pub dihedral_masks: Vec<String>,
    /// Which, of `phi`, `psi`, `omega` and `chi1` to `chi5`; by default the first four.
    pub dihedral_angles: Vec<String>,
    /// Native contacts within a mask or between two, separated by a blank, by `contact_distance`.
    pub native_contact_masks: Vec<String>,
    /// Radial distribution functions within a mask or between two, separated by a blank.
    pub rdf_masks: Vec<String>,
    /// Largest distance in Å, by default 10.
    pub rdf_distance: Option<f64>,
    /// Width of a bin in Å, by default 0.05.
    pub rdf_bin: Option<f64>,
    /// Density profiles of a mask, from the centre of another one after a blank or else of the
    /// solute.
    pub density_masks: Vec<String>,
    /// `x`, `y` or `z`, by default `z`.
    pub density_axis: Option<String>,
    /// Width of a slice in Å, by default 0.5.
    pub density_bin: Option<f64>,
    /// Principal components of the positions.
    pub pca_masks: Vec<String>,
    /// How many components, by default 5.
    pub pca_components: Option<u64>,
    /// Lipids of a bilayer across `density_axis`.
    pub lipid_masks: Vec<String>,
    /// Distances between the first atom and the last of a mask.
    pub end_to_end_masks: Vec<String>,
    /// Whether tables of convergence are left out.
    pub without_convergence: bool,
    /// The first frame that is analysed, counted from 0, by default 0.
    pub first_frame: Option<u64>,
    /// The last frame that may be, counted from 0, by default the last there is.
    pub last_frame: Option<u64>,
    /// The frame that RMSD are measured from, counted from 0, of the trajectory or of another.
    pub reference_frame: Option<u64>,
    /// Whether frames that are damaged are left out; otherwise the first of them ends the analysis.
    pub skip_damaged_frames: bool,
}

/// Parameters whose texts are masks and whose numbers are within bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    frames: FrameRange,
    distances: Vec<[Placed; 2]>,
    rmsds: Vec<Vec<Placed>>,
    rmsfs: Vec<Sides>,
    bonds: Vec<Sides>,
    criterion: Criterion,
    /// The field that asks for the hydrogen bonds of the solute.
    solute_bonds: Option<&'static str>,
    contacts: Vec<Sides>,
    contact_distance: f64,
    gyrations: Vec<Placed>,
    surfaces: Vec<Placed>,
    probe_radius: f64,
    secondary_structures: Vec<Placed>,
    clusters: Vec<Placed>,
    clustering: Clustering,
    dihedrals: Vec<Placed>,
    dihedral_kinds: Vec<DihedralKind>,
    native_contacts: Vec<Sides>,
    rdfs: Vec<Sides>,
    rdf_distance: f64,
    rdf_bin: f64,
    densities: Vec<Sides>,
    density_axis: Axis,
    density_bin: f64,
    principals: Vec<Placed>,
    n_components: usize,
    membranes: Vec<Placed>,
    ends: Vec<Placed>,
    /// Fields that nothing is asked for that they apply to, and what that would be.
    without_effect: Vec<(&'static str, &'static str)>,
    damaged: Damaged,
    /// That of the positions that distances in masks are measured between.
    cell: Option<Cell>,
}

/// A mask, and where it stands.
#[derive(Clone, Debug, PartialEq)]
struct Placed {
    at: Field,
    mask: Mask,
}

/// One mask or two, between which something is looked for.
#[derive(Clone, Debug, PartialEq)]
struct Sides {
    a: Placed,
    b: Option<Placed>,
}

/// A request made of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// The request: distances, RMSD, RMSF, hydrogen bonds, contacts, radii of gyration, surface
    /// areas, secondary structure, clusters and dihedral angles, each in the order of its field.
    pub request: Request,
    /// For each analysis where it was asked for; nothing for those made by default.
    pub fields: Vec<Option<Field>>,
    /// What masks warn of.
    pub warnings: Vec<Warning>,
}

/// What analyses read.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// What names the atoms: PDB, mmCIF, GRO, Amber's prmtop or PSF.
    pub topology: &'a Path,
    /// The trajectory, in one file or several, in their order.
    pub trajectory: &'a [PathBuf],
    /// The structure that RMSD are measured from, if it is neither of these: PDB, mmCIF or GRO.
    pub reference: Option<&'a Path>,
}

/// Makes the analyses that parameters ask for, from files.
///
/// Distances in masks are measured in the structure of the topology file, or in the first frame
/// where that has no positions. A trajectory that is still growing gives the frames so far.
///
/// # Errors
///
/// [`Error::Params`] with all that is wrong, or see [`analyze`] and [`frame_positions`].
pub fn analyze_files(
    files: &Files<'_>,
    params: &Params,
    control: &Control<'_>,
) -> Result<Report, Error> {
    let parsed = params.parse().map_err(Error::Params)?;
    let named = TopologyFile::open(files.topology)?;
    analyze_named(&named, files, params, parsed, control)
        .map_err(|error| error.with_locations(named.n_locations()))
}

fn analyze_named(
    named: &TopologyFile,
    files: &Files<'_>,
    params: &Params,
    parsed: Parsed,
    control: &Control<'_>,
) -> Result<Report, Error> {
    let topology = named.topology();
    let trajectory = Series::open(files.trajectory)?;
    let skips_damaged = params.skip_damaged_frames;
    let own = match named {
        TopologyFile::Structure(structure) => &structure.positions,
        TopologyFile::Topology(_) => {
            &first_positions(topology, &trajectory, skips_damaged, control.cancelled)?
        }
    };
    let other = files.reference.map(Structure::open).transpose()?;
    let frame = params.reference_frame.map(|frame| usize::try_from(frame).unwrap_or(usize::MAX));
    let (positions, reference_cell) = match (&other, frame) {
        (None, Some(frame)) => {
            frame_positions(topology, &trajectory, frame, skips_damaged, control.cancelled)?
        }
        _ => (Vec::new(), None),
    };
    let reference = match (&other, frame, files.reference) {
        (Some(other), _, Some(path)) => Some(ReferenceStructure {
            field: "reference_file",
            label: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            topology: Some(&other.topology),
            positions: &other.positions,
            cell: None,
        }),
        (_, Some(frame), _) => Some(ReferenceStructure {
            field: "reference_frame",
            label: format!("frame {frame}"),
            topology: None,
            positions: &positions,
            cell: reference_cell,
        }),
        _ => None,
    };
    let own_cell = match named {
        TopologyFile::Structure(structure) => structure.cell,
        TopologyFile::Topology(_) => None,
    };
    let cell = own_cell.or_else(|| trajectory.first_cell());
    let selected =
        parsed.in_cell(cell).select(topology, own, reference.as_ref()).map_err(Error::Params)?;
    let report = analyze(topology, &trajectory, &selected.request, control)?;
    let mut warnings = selected.warnings;
    warnings.extend(named.warnings());
    warnings.extend(report.warnings);
    Ok(Report { warnings, ..report }.completed(params, control))
}

impl Report {
    /// The report with what parameters ask for on all its series together, and each warning once:
    /// a mask of several analyses has one in each.
    pub fn completed(mut self, params: &Params, control: &Control<'_>) -> Self {
        let mut seen = BTreeSet::new();
        self.warnings.retain(|warning| seen.insert(warning.to_string()));
        if params.without_convergence {
            self
        } else {
            self.with_convergence(control.n_threads.get())
        }
    }
}

impl Params {
    /// Parses the masks and checks the numbers, before there is a topology.
    ///
    /// # Errors
    ///
    /// All that is wrong, in the order of the fields.
    pub fn parse(&self) -> Result<Parsed, InvalidParams> {
        let mut violations = Violations::default();
        let stride = self.downsample_frames.unwrap_or(1.0);
        let is_whole = (1.0..=MAX_STRIDE).contains(&stride) && stride.fract() == 0.0;
        let stride = if is_whole { NonZeroUsize::new(stride as usize) } else { None };
        violations.require(stride.is_some(), "downsample_frames", "a whole number of at least 1");
        let distances = self.distances(&mut violations);
        let mut rmsds = Vec::new();
        for (n, masks) in self.rmsd_masks.iter().enumerate() {
            let at = |k| Field { name: "rmsd_masks", indexes: vec![n, k] };
            rmsds.push(
                masks
                    .iter()
                    .enumerate()
                    .filter_map(|(k, mask)| violations.mask(at(k), mask))
                    .collect(),
            );
            if masks.is_empty() {
                violations
                    .add(Field { name: "rmsd_masks", indexes: vec![n] }, ViolationKind::NoMask);
            }
        }
        let rmsfs = violations.sides("rmsf_masks", &self.rmsf_masks);
        let criterion = self.criterion(&mut violations);
        let contact_distance = self.contact_distance.unwrap_or(MAX_CONTACT_DISTANCE);
        let bounds = "above 0 and at most 20 Å";
        violations.require(
            contact_distance > 0.0 && contact_distance <= 20.0,
            "contact_distance",
            bounds,
        );
        let probe_radius = self.surface_probe.unwrap_or(PROBE_RADIUS);
        violations.require((0.0..=5.0).contains(&probe_radius), "surface_probe", "from 0 to 5 Å");
        let rdf_distance = self.rdf_distance.unwrap_or(rdf::MAX_DISTANCE);
        let is_within = rdf_distance > 0.0 && rdf_distance <= 50.0;
        violations.require(is_within, "rdf_distance", "above 0 and at most 50 Å");
        let rdf_bin = self.rdf_bin.unwrap_or(rdf::BIN.min(rdf_distance));
        if self.rdf_bin.is_some() {
            let is_narrow = !is_within || rdf_bin <= rdf_distance;
            let bounds = "from 0.001 to 5 Å, and at most `rdf_distance`";
            violations.require((0.001..=5.0).contains(&rdf_bin) && is_narrow, "rdf_bin", bounds);
        }
        let density_axis = match self.density_axis.as_deref().map(plain).as_deref() {
            Some("x") => Axis::X,
            Some("y") => Axis::Y,
            None | Some("z") => Axis::Z,
            Some(_) => {
                violations.require(false, "density_axis", "`x`, `y` or `z`");
                Axis::Z
            }
        };
        let density_bin = self.density_bin.unwrap_or(density::BIN);
        violations.require(
            (0.05..=10.0).contains(&density_bin),
            "density_bin",
            "from 0.05 to 10 Å",
        );
        let n_components = self.pca_components.map_or(principal::N_COMPONENTS, |n| n as usize);
        violations.require((1..=50).contains(&n_components), "pca_components", "from 1 to 50");
        let clustering = self.clustering(&mut violations);
        // Forms that send all they have state defaults; what is no default was meant for something.
        let changed = [
            (
                "contact_distance",
                contact_distance != MAX_CONTACT_DISTANCE && self.native_contact_masks.is_empty(),
                "contact_masks",
                &self.contact_masks,
            ),
            ("rdf_distance", rdf_distance != rdf::MAX_DISTANCE, "rdf_masks", &self.rdf_masks),
            (
                "density_axis",
                density_axis != Axis::Z && self.lipid_masks.is_empty(),
                "density_masks",
                &self.density_masks,
            ),
            ("density_bin", density_bin != density::BIN, "density_masks", &self.density_masks),
            (
                "pca_components",
                n_components != principal::N_COMPONENTS,
                "pca_masks",
                &self.pca_masks,
            ),
            (
                "rdf_bin",
                self.rdf_bin.is_some_and(|bin| bin != rdf::BIN),
                "rdf_masks",
                &self.rdf_masks,
            ),
            ("surface_probe", probe_radius != PROBE_RADIUS, "surface_masks", &self.surface_masks),
            (
                "cluster_method",
                self.cluster_method.as_deref().is_some_and(|method| plain(method) != "average"),
                "cluster_masks",
                &self.cluster_masks,
            ),
            (
                "cluster_cutoff",
                self.cluster_cutoff.is_some_and(|cutoff| cutoff != cluster::CUTOFF),
                "cluster_masks",
                &self.cluster_masks,
            ),
            (
                "dihedral_angles",
                !self.dihedral_angles.is_empty(),
                "dihedral_masks",
                &self.dihedral_masks,
            ),
            ("cluster_count", self.cluster_count.is_some(), "cluster_masks", &self.cluster_masks),
        ];
        let useless =
            changed.into_iter().filter(|(_, is_changed, _, masks)| *is_changed && masks.is_empty());
        let without_effect = useless.map(|(field, _, needs, _)| (field, needs)).collect();
        let first = usize::try_from(self.first_frame.unwrap_or(0)).unwrap_or(usize::MAX);
        let last = self.last_frame.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
        violations.require(
            last.is_none_or(|last| first <= last),
            "last_frame",
            "at least `first_frame`",
        );
        let parsed = Parsed {
            frames: FrameRange { first, last, stride: stride.unwrap_or(NonZeroUsize::MIN) },
            distances,
            rmsds,
            rmsfs,
            bonds: violations.sides("hbond_masks", &self.hbond_masks),
            criterion,
            solute_bonds: self.asks_for_bonds().filter(|_| self.hbond_masks.is_empty()),
            contacts: violations.sides("contact_masks", &self.contact_masks),
            contact_distance,
            gyrations: violations.masks("gyration_masks", &self.gyration_masks),
            surfaces: violations.masks("surface_masks", &self.surface_masks),
            probe_radius,
            secondary_structures: violations
                .masks("secondary_structure_masks", &self.secondary_structure_masks),
            clusters: violations.masks("cluster_masks", &self.cluster_masks),
            clustering,
            dihedrals: violations.masks("dihedral_masks", &self.dihedral_masks),
            dihedral_kinds: self.dihedral_kinds(&mut violations),
            native_contacts: violations.sides("native_contact_masks", &self.native_contact_masks),
            rdfs: violations.sides("rdf_masks", &self.rdf_masks),
            rdf_distance,
            rdf_bin,
            densities: violations.sides("density_masks", &self.density_masks),
            density_axis,
            density_bin,
            principals: violations.masks("pca_masks", &self.pca_masks),
            n_components,
            membranes: violations.masks("lipid_masks", &self.lipid_masks),
            ends: violations.masks("end_to_end_masks", &self.end_to_end_masks),
            without_effect,
            damaged: if self.skip_damaged_frames { Damaged::LeaveOut } else { Damaged::Fail },
            cell: None,
        };
        if violations.0.is_empty() { Ok(parsed) } else { Err(InvalidParams(violations.0)) }
    }

    /// The field that asks for hydrogen bonds by giving what makes one.
    fn asks_for_bonds(&self) -> Option<&'static str> {
        let fields = [
            ("hbond_distance", self.hbond_distance.is_some()),
            ("hbond_angle", self.hbond_angle.is_some()),
            ("hbond_criterion", self.hbond_criterion.is_some()),
        ];
        fields.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
    }

    fn criterion(&self, violations: &mut Violations) -> Criterion {
        let min_angle_deg = self.hbond_angle.unwrap_or(hbond::MIN_ANGLE_DEG);
        violations.require(
            (0.0..=180.0).contains(&min_angle_deg),
            "hbond_angle",
            "from 0 to 180 degrees",
        );
        let max_distance = self.hbond_distance.unwrap_or(hbond::MAX_DISTANCE);
        violations.require(
            max_distance > 0.0 && max_distance <= 10.0,
            "hbond_distance",
            "above 0 and at most 10 Å",
        );
        let named = match self.hbond_criterion.as_deref().map(plain).as_deref() {
            None | Some("angle") => return Criterion::Angle { max_distance, min_angle_deg },
            Some("bakerhubbard") => Criterion::BakerHubbard,
            Some("wernetnilsson") => Criterion::WernetNilsson,
            Some(_) => {
                violations.require(
                    false,
                    "hbond_criterion",
                    "`angle`, `baker_hubbard` or `wernet_nilsson`",
                );
                return Criterion::default();
            }
        };
        for (name, is_given) in [
            ("hbond_angle", self.hbond_angle.is_some()),
            ("hbond_distance", self.hbond_distance.is_some()),
        ] {
            violations.require(
                !is_given,
                name,
                "left out, as `hbond_criterion` has bounds of its own",
            );
        }
        named
    }

    fn clustering(&self, violations: &mut Violations) -> Clustering {
        let cutoff = self.cluster_cutoff.unwrap_or(cluster::CUTOFF);
        let bounds = "above 0 and at most 100 Å";
        violations.require(cutoff > 0.0 && cutoff <= 100.0, "cluster_cutoff", bounds);
        let count = self.cluster_count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let bounds = "from 1 to 1000";
        let is_within = count.is_none_or(|count| (1..=1000).contains(&count));
        violations.require(is_within, "cluster_count", bounds);
        let cut = match count {
            Some(count) => Cut::Count(count),
            None => Cut::Distance(cutoff),
        };
        let is_either = count.is_none() || self.cluster_cutoff.is_none();
        let other = "left out where `cluster_cutoff` is given, as either one ends the joining";
        violations.require(is_either, "cluster_count", other);
        let linkage = match self.cluster_method.as_deref().map(plain).as_deref() {
            None | Some("average") => Linkage::Average,
            Some("complete") => Linkage::Complete,
            Some("single") => Linkage::Single,
            Some("gromos") => {
                let other = "left out, as `gromos` makes as many clusters as the cutoff gives";
                violations.require(count.is_none(), "cluster_count", other);
                return Clustering::Neighbours { cutoff };
            }
            Some(_) => {
                let known = "`average`, `complete`, `single` or `gromos`";
                violations.require(false, "cluster_method", known);
                Linkage::Average
            }
        };
        Clustering::Hierarchical { linkage, cut }
    }

    fn dihedral_kinds(&self, violations: &mut Violations) -> Vec<DihedralKind> {
        if self.dihedral_angles.is_empty() {
            return DihedralKind::USUAL.to_vec();
        }
        let mut kinds = Vec::new();
        for (n, name) in self.dihedral_angles.iter().enumerate() {
            match DihedralKind::named(&plain(name)) {
                Some(kind) => kinds.push(kind),
                None => {
                    let at = Field { name: "dihedral_angles", indexes: vec![n] };
                    let known = "`phi`, `psi`, `omega` or one of `chi1` to `chi5`";
                    violations.add(at, ViolationKind::Bounds(known));
                }
            }
        }
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn distances(&self, violations: &mut Violations) -> Vec<[Placed; 2]> {
        let mut pairs = Vec::new();
        let mut single = None;
        for (n, text) in self.distance_masks.iter().enumerate() {
            let at = Field { name: "distance_masks", indexes: vec![n] };
            let masks = match Mask::parse_list(text) {
                Ok(masks) => masks,
                Err(error) => {
                    violations.add(at, ViolationKind::Parse(error));
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
                _ => violations.add(at, ViolationKind::NotTwo { n_masks }),
            }
        }
        // A mask that is wrong may be the one that is missing.
        if let Some(Placed { at, .. }) =
            single.filter(|_| violations.0.iter().all(|p| p.at.name != "distance_masks"))
        {
            violations.add(at, ViolationKind::Unpaired);
        }
        pairs
    }
}

impl Parsed {
    /// Whether RMSD or native contacts are among the analyses, so that a reference is of use.
    pub fn measures_rmsd(&self) -> bool {
        !self.rmsds.is_empty() || !self.native_contacts.is_empty() || self.is_default()
    }

    /// Whether no analysis is asked for, so that the default ones are made.
    fn is_default(&self) -> bool {
        let Self {
            distances,
            rmsds,
            rmsfs,
            bonds,
            contacts,
            gyrations,
            surfaces,
            secondary_structures,
            clusters,
            dihedrals,
            native_contacts,
            rdfs,
            densities,
            principals,
            membranes,
            ends,
            ..
        } = self;
        let asked = [
            distances.len(),
            rmsds.len(),
            rmsfs.len(),
            bonds.len(),
            contacts.len(),
            gyrations.len(),
        ];
        let others = [
            surfaces.len(),
            secondary_structures.len(),
            clusters.len(),
            dihedrals.len(),
            native_contacts.len(),
            rdfs.len(),
            densities.len(),
            principals.len(),
            membranes.len(),
            ends.len(),
            self.solute_bonds.is_some().into(),
        ];
        asked.into_iter().chain(others).sum::<usize>() == 0
    }

    /// The same, with the cell of the positions that masks will be applied to: a
    /// [warning](Warning::NoImages) then tells which of them would select others if distances were
    /// between nearest images.
    pub fn in_cell(self, cell: Option<Cell>) -> Self {
        Self { cell, ..self }
    }

    /// Applies the masks to a topology, distances in them to its positions in Å; those of RMSD to
    /// the reference too, if it has other atoms.
    ///
    /// # Errors
    ///
    /// All masks that cannot be applied, select nothing, or something else in the reference.
    pub fn select(
        &self,
        topology: &Topology,
        positions: &[[f64; 3]],
        reference: Option<&ReferenceStructure<'_>>,
    ) -> Result<Selected, InvalidParams> {
        let mut selecting = Selecting {
            topology,
            positions,
            cell: self.cell.as_ref(),
            violations: Violations::default(),
            warnings: Vec::new(),
        };
        for (name, needs) in &self.without_effect {
            let at = Field { name, indexes: Vec::new() };
            selecting.warnings.push(Warning::NoEffect { at, needs });
        }
        let mut analyses: Vec<(Analysis, Option<Field>)> = Vec::new();
        for [a, b] in &self.distances {
            let at = a.at.clone();
            let a = selecting.group(a);
            let b = selecting.group(b);
            let distance = Distance { a, b, weights: Weights::Mass, nearest_image: true };
            analyses.push((Analysis::Distance(distance), Some(at)));
        }
        for (n, masks) in self.rmsds.iter().enumerate() {
            let mut groups: Vec<_> = masks.iter().map(|placed| selecting.group(placed)).collect();
            let fit = groups[0].clone();
            // The first is measured only if it is alone.
            let measures = if groups.len() > 1 { groups.split_off(1) } else { groups };
            let rmsd = Rmsd { fit: Some(fit), measures, weights: Weights::Equal };
            analyses
                .push((Analysis::Rmsd(rmsd), Some(Field { name: "rmsd_masks", indexes: vec![n] })));
        }
        for Sides { a, b } in &self.rmsfs {
            let first = selecting.group(a);
            let second = b.as_ref().map(|b| selecting.group(b));
            let (fit, group) = match second {
                Some(group) => (Some(first), group),
                None => (None, first),
            };
            let rmsf = Rmsf { group, superpose: Superpose::Average, fit };
            analyses.push((Analysis::Rmsf(rmsf), Some(a.at.clone())));
        }
        let superposed = self.rmsds.iter().map(|masks| &masks[0]);
        for placed in superposed.chain(self.rmsfs.iter().map(|sides| &sides.a)) {
            selecting.require_two_atoms(placed);
        }
        if let Some(name) = self.solute_bonds {
            let bonds = self.hydrogen_bonds(Between::Within(solute(topology)));
            selecting.require_bonds(&bonds, &Field { name, indexes: Vec::new() });
            analyses.push((Analysis::HydrogenBonds(bonds), None));
        }
        for sides in &self.bonds {
            let bonds = self.hydrogen_bonds(selecting.between(sides));
            selecting.require_bonds(&bonds, &sides.a.at);
            analyses.push((Analysis::HydrogenBonds(bonds), Some(sides.a.at.clone())));
        }
        for sides in &self.contacts {
            let (a, b) = selecting.sides(sides);
            let contacts = Contacts {
                b: b.unwrap_or_else(|| a.clone()),
                a,
                max_distance: self.contact_distance,
            };
            analyses.push((Analysis::Contacts(contacts), Some(sides.a.at.clone())));
        }
        for placed in &self.gyrations {
            let gyration = Gyration { group: selecting.group(placed), weights: Weights::Mass };
            analyses.push((Analysis::Gyration(gyration), Some(placed.at.clone())));
        }
        for placed in &self.surfaces {
            let surface =
                SurfaceArea { group: selecting.group(placed), probe_radius: self.probe_radius };
            analyses.push((Analysis::SurfaceArea(surface), Some(placed.at.clone())));
        }
        for placed in &self.secondary_structures {
            let structure = SecondaryStructure { group: selecting.group(placed) };
            selecting.require_backbone(&structure, placed);
            analyses.push((Analysis::SecondaryStructure(structure), Some(placed.at.clone())));
        }
        for placed in &self.clusters {
            let clusters = Clusters { group: selecting.group(placed), method: self.clustering };
            selecting.require_two_atoms(placed);
            analyses.push((Analysis::Clusters(clusters), Some(placed.at.clone())));
        }
        for placed in &self.dihedrals {
            let kinds = self.dihedral_kinds.clone();
            let dihedrals = Dihedrals { group: selecting.group(placed), kinds };
            selecting.require_dihedrals(&dihedrals, placed);
            analyses.push((Analysis::Dihedrals(dihedrals), Some(placed.at.clone())));
        }
        for sides in &self.native_contacts {
            let (a, b) = selecting.sides(sides);
            let b = b.unwrap_or_else(|| a.clone());
            let contacts = NativeContacts { a, b, max_distance: self.contact_distance };
            analyses.push((Analysis::NativeContacts(contacts), Some(sides.a.at.clone())));
        }
        for sides in &self.rdfs {
            let a = selecting.group(&sides.a);
            let b = sides.b.as_ref().map_or_else(|| a.clone(), |b| selecting.group(b));
            let rdf = Rdf { a, b, max_distance: self.rdf_distance, bin: self.rdf_bin };
            selecting.require_pair(&rdf, &sides.a);
            analyses.push((Analysis::Rdf(rdf), Some(sides.a.at.clone())));
        }
        for sides in &self.densities {
            let group = selecting.group(&sides.a);
            let centre = match &sides.b {
                Some(b) => selecting.group(b),
                None => solute(topology),
            };
            let (axis, bin) = (self.density_axis, self.density_bin);
            let density = Density { group, centre, axis, bin };
            analyses.push((Analysis::Density(density), Some(sides.a.at.clone())));
        }
        for placed in &self.principals {
            let group = selecting.group(placed);
            selecting.require_two_atoms(placed);
            selecting.require_few_atoms(&group, placed);
            let components = PrincipalComponents { group, n_components: self.n_components };
            analyses.push((Analysis::PrincipalComponents(components), Some(placed.at.clone())));
        }
        for placed in &self.membranes {
            let membrane = Membrane { group: selecting.group(placed), axis: self.density_axis };
            analyses.push((Analysis::Membrane(membrane), Some(placed.at.clone())));
        }
        for placed in &self.ends {
            let ends = EndToEnd { group: selecting.group(placed) };
            selecting.require_two_atoms(placed);
            analyses.push((Analysis::EndToEnd(ends), Some(placed.at.clone())));
        }
        if self.is_default() {
            let default = default_analyses(topology, &mut selecting.warnings);
            analyses.extend(default.into_iter().map(|analysis| (analysis, None)));
        }
        let reference = reference.and_then(|reference| self.reference(reference, &mut selecting));
        let Selecting { violations, warnings, .. } = selecting;
        if !violations.0.is_empty() {
            return Err(InvalidParams(violations.0));
        }
        let (analyses, fields) = analyses.into_iter().unzip();
        let request = Request {
            analyses,
            frames: self.frames,
            reference,
            images: Images::Unwrapped,
            damaged: self.damaged,
        };
        Ok(Selected { request, fields, warnings })
    }

    fn hydrogen_bonds(&self, between: Between) -> HydrogenBonds {
        HydrogenBonds { criterion: self.criterion, ..HydrogenBonds::new(between) }
    }

    /// The positions in a reference of the atoms that RMSD measure.
    fn reference(
        &self,
        structure: &ReferenceStructure<'_>,
        selecting: &mut Selecting<'_>,
    ) -> Option<Reference> {
        let here = selecting.topology;
        if !self.measures_rmsd() {
            let needs = ViolationKind::Unused { needs: "rmsd_masks" };
            selecting.violations.add(Field { name: structure.field, indexes: Vec::new() }, needs);
            return None;
        }
        let mut atoms = AtomSet::none(here.n_atoms());
        let mut counterpart: Vec<Option<usize>> = vec![None; here.n_atoms()];
        for (at, group, other) in self.measured(structure, selecting) {
            let Some(there) = structure.topology else {
                group.atoms.iter().for_each(|atom| counterpart[atom] = Some(atom));
                atoms.union_with(&group.atoms);
                continue;
            };
            match same_atoms((here, &group.atoms), (there, &other)) {
                Ok(matched) => {
                    for (atom, its) in matched.atoms {
                        let before = counterpart[atom].replace(its);
                        if before.is_some_and(|before| before != its) {
                            let problem = format!("stands for two atoms of {}", structure.label);
                            let kind =
                                ViolationKind::Unmatched { atom: here.atom_label(atom), problem };
                            selecting.violations.add(at.clone(), kind);
                        }
                    }
                    if let Some(first) = matched.other_residues.first() {
                        let warning = Warning::OtherResidues {
                            at,
                            n_residues: matched.other_residues.len(),
                            first: first.map(|name| name.to_owned()),
                            reference: structure.label.clone(),
                        };
                        selecting.warnings.push(warning);
                    }
                    atoms.union_with(&group.atoms);
                }
                Err(unmatched) => {
                    let kind = ViolationKind::Unmatched {
                        atom: unmatched.what,
                        problem: format!("{} {}", unmatched.problem, structure.label),
                    };
                    selecting.violations.add(at, kind);
                }
            }
        }
        let positions =
            atoms.iter().filter_map(|atom| counterpart[atom]).map(|atom| structure.positions[atom]);
        let reference = Reference::new(structure.label.clone(), atoms.clone(), positions.collect());
        Some(reference.in_cell(structure.cell))
    }

    /// The groups of which RMSD are measured, with the atoms that the same mask selects in the
    /// reference.
    fn measured(
        &self,
        structure: &ReferenceStructure<'_>,
        selecting: &mut Selecting<'_>,
    ) -> Vec<(Field, Group, AtomSet)> {
        let there = structure.topology;
        if self.is_default() {
            let other = there.map_or_else(|| AtomSet::none(0), |there| backbone(there).atoms);
            let at = Field { name: structure.field, indexes: Vec::new() };
            return vec![(at, backbone(selecting.topology), other)];
        }
        let mut measured = Vec::new();
        let sides =
            self.native_contacts.iter().flat_map(|sides| iter::once(&sides.a).chain(&sides.b));
        let all = self.rmsds.iter().flatten().map(|placed| (placed, false));
        for (placed, is_heavy) in all.chain(sides.map(|placed| (placed, true))) {
            // Of native contacts hydrogens are left out, which crystal structures lack.
            let kept = |atoms: AtomSet, of: &Topology| {
                let is_kept = |atom| {
                    atoms.contains(atom) && !(is_heavy && of.element(atom) == Some(Element::H))
                };
                AtomSet::from_fn(of.n_atoms(), is_kept)
            };
            // What is wrong with it here has been found before.
            let Ok(here) = placed.mask.select(selecting.topology, Some(selecting.positions)) else {
                continue;
            };
            let other = there.map(|there| {
                let selection = placed.mask.select(there, Some(structure.positions))?;
                Ok(kept(selection.atoms, there))
            });
            let other = match other {
                None => AtomSet::none(0),
                Some(Ok(atoms)) => atoms,
                Some(Err(error)) => {
                    selecting.violations.add(placed.at.clone(), ViolationKind::Select(error));
                    continue;
                }
            };
            let atoms = kept(here.atoms, selecting.topology);
            let group = Group { label: placed.mask.to_string(), atoms };
            measured.push((placed.at.clone(), group, other));
        }
        measured
    }
}

/// A word as people write it: without regard to case and to what stands between its parts.
fn plain(word: &str) -> String {
    word.to_lowercase().replace(['_', '-', ' '], "")
}

fn default_analyses(topology: &Topology, warnings: &mut Vec<Warning>) -> Vec<Analysis> {
    let group = backbone(topology);
    let mut analyses = vec![
        Analysis::Rmsd(Rmsd {
            fit: Some(group.clone()),
            measures: vec![group.clone()],
            weights: Weights::Equal,
        }),
        Analysis::Rmsf(Rmsf { group, superpose: Superpose::Average, fit: None }),
    ];
    let bonds = HydrogenBonds::new(Between::Within(solute(topology)));
    match bonds.lacks(topology) {
        Some((label, problem)) => {
            let problem = ViolationKind::NoHydrogenBonds { label: label.to_owned(), problem };
            warnings.push(Warning::NoHydrogenBonds { reason: problem.to_string() });
        }
        None => analyses.push(Analysis::HydrogenBonds(bonds)),
    }
    analyses
}

/// The α-carbons, of which calcium is none; with fewer than three, the heavy atoms of the solute.
fn backbone(topology: &Topology) -> Group {
    let atoms = AtomSet::from_fn(topology.n_atoms(), |atom| is_alpha_carbon(topology, atom));
    if atoms.len() >= 3 {
        return Group { label: "@CA&@/C".to_owned(), atoms };
    }
    let all = solute(topology);
    let atoms = AtomSet::from_fn(topology.n_atoms(), |atom| {
        let element = topology.atom(atom).element;
        all.atoms.contains(atom) && element.is_some_and(|element| element != Element::H)
    });
    if atoms.is_empty() {
        all
    } else {
        Group { label: format!("{} without hydrogen", all.label), atoms }
    }
}

/// Whether an atom is carbon CA of a residue that has other atoms as well.
fn is_alpha_carbon(topology: &Topology, atom: usize) -> bool {
    let atom = topology.atom(atom);
    atom.name == "CA"
        && atom.element == Some(Element::C)
        && topology.residue_atoms(atom.residue).len() > 1
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

/// Masks being applied, and what was found on the way.
struct Selecting<'a> {
    topology: &'a Topology,
    positions: &'a [[f64; 3]],
    cell: Option<&'a Cell>,
    violations: Violations,
    warnings: Vec<Warning>,
}

impl Selecting<'_> {
    /// The atoms of a mask; if something is wrong with it, none.
    fn group(&mut self, Placed { at, mask }: &Placed) -> Group {
        let label = mask.to_string();
        let atoms = match mask.select(self.topology, Some(self.positions)) {
            Ok(Selection { atoms, mut warnings }) if atoms.is_empty() => {
                warnings.retain(|warning| *warning != MaskWarning::Empty);
                self.violations
                    .add(at.clone(), ViolationKind::Empty { mask: label.clone(), warnings });
                atoms
            }
            Ok(Selection { atoms, warnings }) => {
                let placed =
                    warnings.into_iter().map(|warning| Warning::Mask { at: at.clone(), warning });
                self.warnings.extend(placed);
                self.warnings.extend(self.solvent_too(at, &label, &atoms));
                let difference = self.cell.and_then(|cell| {
                    mask.without_images(self.topology, self.positions, cell, &atoms)
                });
                let at = at.clone();
                self.warnings
                    .extend(difference.map(|difference| Warning::NoImages { at, difference }));
                atoms
            }
            Err(error) => {
                self.violations.add(at.clone(), ViolationKind::Select(error));
                AtomSet::none(self.topology.n_atoms())
            }
        };
        Group { label, atoms }
    }

    /// A warning about a mask that selects both molecules and what surrounds them: a range of
    /// residues that goes too far. One that selects solvent alone means it.
    fn solvent_too(&self, at: &Field, mask: &str, atoms: &AtomSet) -> Option<Warning> {
        let solute = Group::solute(self.topology).atoms;
        let mut others = atoms.iter().filter(|atom| !solute.contains(*atom));
        let first = self.topology.atom_label(others.next()?);
        let (n_atoms, n_selected) = (1 + others.count(), atoms.len());
        let warning = Warning::SolventToo {
            at: at.clone(),
            mask: mask.to_owned(),
            n_atoms,
            n_selected,
            first,
        };
        (n_atoms < n_selected).then_some(warning)
    }

    /// The atoms of both sides, of which one may have much water, but not both.
    fn sides(&mut self, Sides { a, b }: &Sides) -> (Group, Option<Group>) {
        let at = a.at.clone();
        let a = self.group(a);
        let b = b.as_ref().map(|b| self.group(b));
        let fewer = waters(self.topology, &a)
            .min(b.as_ref().map_or(usize::MAX, |b| waters(self.topology, b)));
        if fewer > MAX_WATERS {
            self.violations
                .add(at, ViolationKind::MuchWater { n_waters: fewer, limit: MAX_WATERS });
        }
        (a, b)
    }

    fn between(&mut self, sides: &Sides) -> Between {
        match self.sides(sides) {
            (a, None) => Between::Within(a),
            (a, Some(b)) if self.is_water(&b) => Between::Solvent(a, b),
            (a, Some(b)) if self.is_water(&a) => Between::Solvent(b, a),
            (a, Some(b)) => Between::Groups(a, b),
        }
    }

    /// Whether a group is of water alone.
    fn is_water(&self, group: &Group) -> bool {
        let mut residues = group.atoms.iter().map(|atom| self.topology.atom(atom).residue);
        !group.atoms.is_empty() && residues.all(|residue| self.topology.is_water(residue))
    }

    fn require_bonds(&mut self, bonds: &HydrogenBonds, at: &Field) {
        // An empty group has been found before.
        if bonds.groups().iter().any(|group| group.atoms.is_empty()) {
            return;
        }
        if let Some((label, problem)) = bonds.lacks(self.topology) {
            self.violations.add(
                at.clone(),
                ViolationKind::NoHydrogenBonds { label: label.to_owned(), problem },
            );
        }
    }

    fn require_backbone(&mut self, structure: &SecondaryStructure, Placed { at, mask }: &Placed) {
        if !structure.group.atoms.is_empty() && structure.atoms(self.topology).is_empty() {
            self.violations.add(at.clone(), ViolationKind::NoBackbone { mask: mask.to_string() });
        }
    }

    fn require_few_atoms(&mut self, group: &Group, Placed { at, .. }: &Placed) {
        let n_atoms = group.atoms.len();
        if n_atoms > principal::MAX_ATOMS {
            let kind = ViolationKind::ManyAtoms {
                mask: group.label.clone(),
                n_atoms,
                limit: principal::MAX_ATOMS,
            };
            self.violations.add(at.clone(), kind);
        }
    }

    fn require_pair(&mut self, rdf: &Rdf, Placed { at, .. }: &Placed) {
        if rdf.a.atoms.len() == 1 && rdf.a.atoms == rdf.b.atoms {
            let mask = rdf.a.label.clone();
            self.violations.add(at.clone(), ViolationKind::SameAtom { mask });
        }
    }

    fn require_dihedrals(&mut self, dihedrals: &Dihedrals, Placed { at, mask }: &Placed) {
        if !dihedrals.group.atoms.is_empty() && dihedrals.is_empty(self.topology) {
            self.violations.add(at.clone(), ViolationKind::NoDihedral { mask: mask.to_string() });
        }
    }

    fn require_two_atoms(&mut self, Placed { at, mask }: &Placed) {
        // What else is wrong with the mask has been found before.
        let is_one = mask
            .select(self.topology, Some(self.positions))
            .is_ok_and(|selection| selection.atoms.len() == 1);
        if is_one {
            self.violations.add(at.clone(), ViolationKind::OneAtom { mask: mask.to_string() });
        }
    }
}

/// Molecules of water that a group has atoms of.
fn waters(topology: &Topology, group: &Group) -> usize {
    let residues = topology.residues_of(&group.atoms).into_iter();
    residues.filter(|residue| topology.is_water(*residue)).count()
}

/// What was found to be wrong so far.
#[derive(Debug, Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, at: Field, kind: ViolationKind) {
        self.0.push(Violation { at, kind });
    }

    fn require(&mut self, holds: bool, name: &'static str, bounds: &'static str) {
        if !holds {
            self.add(Field { name, indexes: Vec::new() }, ViolationKind::Bounds(bounds));
        }
    }

    fn mask(&mut self, at: Field, text: &str) -> Option<Placed> {
        match Mask::parse(text) {
            Ok(mask) => Some(Placed { at, mask }),
            Err(error) => {
                self.add(at, ViolationKind::Parse(error));
                None
            }
        }
    }

    fn masks(&mut self, name: &'static str, texts: &[String]) -> Vec<Placed> {
        let placed = texts.iter().enumerate();
        placed.filter_map(|(n, text)| self.mask(Field { name, indexes: vec![n] }, text)).collect()
    }

    fn sides(&mut self, name: &'static str, texts: &[String]) -> Vec<Sides> {
        let mut all = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            let at = Field { name, indexes: vec![n] };
            let masks = match Mask::parse_list(text) {
                Ok(masks) => masks,
                Err(error) => {
                    self.add(at, ViolationKind::Parse(error));
                    continue;
                }
            };
            let n_masks = masks.len();
            let mut placed = masks.into_iter().map(|mask| Placed { at: at.clone(), mask });
            match (placed.next(), placed.next()) {
                (Some(a), b) if n_masks <= 2 => all.push(Sides { a, b }),
                _ => self.add(at, ViolationKind::NotOneOrTwo { n_masks }),
            }
        }
        all
    }
}
