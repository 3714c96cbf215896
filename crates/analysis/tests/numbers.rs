//! Analyses against the numbers of cpptraj, pytraj, MDAnalysis and mdtraj.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use common::{data, dcd};
use molbox_analysis::{
    Analysis, AtomSet, Between, Contacts, Control, Criterion, Damaged, Distance, Frame, FrameRange,
    Group, Gyration, HydrogenBonds, Images, Mask, Report, Request, Rmsd, Rmsf, SecondaryStructure,
    Series, Structure, Superpose, SurfaceArea, Table, Topology, Values, Weights, analyze,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Numbers {
    masks: BTreeMap<String, Vec<usize>>,
    cell: Vec<[f64; 6]>,
    values: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Value {
    #[serde(default)]
    expected: Vec<f64>,
    #[serde(default)]
    count_per_frame: Vec<i64>,
    #[serde(default)]
    count_per_frame_noimage: Vec<i64>,
    #[serde(default)]
    bridging_waters_per_frame: Vec<i64>,
    #[serde(default)]
    triplets_dha: Vec<[i64; 3]>,
    #[serde(default)]
    bonds: Vec<Bond>,
}

/// A hydrogen bond, its atoms counted from 0.
#[derive(Deserialize)]
struct Bond {
    donor: i64,
    hydrogen: i64,
    acceptor: i64,
    frames: i64,
    avg_dist: f64,
    avg_angle: f64,
}

struct Case {
    topology: Topology,
    trajectory: Series,
    numbers: Numbers,
}

impl Case {
    fn read(name: &str, structure: &str) -> Self {
        Self {
            topology: Structure::open(&data(structure)).unwrap().topology,
            trajectory: Series::open(&[data(&format!("{name}.dcd"))]).unwrap(),
            numbers: serde_json::from_str(
                &fs::read_to_string(data(&format!("{name}.json"))).unwrap(),
            )
            .unwrap(),
        }
    }

    fn both() -> [Self; 2] {
        [Self::read("mini_md", "mini_md.cif"), Self::read("mini_tri", "mini_tri.pdb")]
    }

    fn group(&self, mask: &str) -> Group {
        Group::select(&Mask::parse(mask).unwrap(), &self.topology, None).unwrap().0
    }

    fn run(
        &self,
        analyses: Vec<Analysis>,
        images: Images,
        stride: usize,
        n_threads: usize,
    ) -> Report {
        let frames = FrameRange::every(NonZeroUsize::new(stride).unwrap());
        let request = Request { analyses, frames, reference: None, images, damaged: Damaged::Fail };
        let (n_threads, cancelled) =
            (NonZeroUsize::new(n_threads).unwrap(), AtomicBool::new(false));
        let control = Control { n_threads, progress: &|_, _| {}, cancelled: &cancelled };
        analyze(&self.topology, &self.trajectory, &request, &control).unwrap()
    }

    /// The analysis that a key of the numbers names, and the column of its result.
    fn analysis(&self, key: &str) -> Option<(Analysis, &'static str)> {
        let (kind, masks) = key.split_once('|')?;
        let mut groups =
            masks.split('|').filter(|mask| mask.contains([':', '@'])).map(|mask| self.group(mask));
        let a = groups.next()?;
        let weights = if kind.ends_with("mass") || kind.contains("com") {
            Weights::Mass
        } else {
            Weights::Equal
        };
        Some(match kind {
            "rmsd_fit" | "rmsd_fit_mass" => (
                Analysis::Rmsd(Rmsd { fit: Some(a.clone()), measures: vec![a], weights }),
                "rmsd_angstrom",
            ),
            "rmsd_fit_on_measure" => {
                let measures = vec![groups.next()?];
                (Analysis::Rmsd(Rmsd { fit: Some(a), measures, weights }), "rmsd_angstrom")
            }
            "rmsd_nofit" => {
                (Analysis::Rmsd(Rmsd { fit: None, measures: vec![a], weights }), "rmsd_angstrom")
            }
            "rmsd_complex_raw" | "rmsd_complex_nojump" => {
                let weights = Weights::Equal;
                (
                    Analysis::Rmsd(Rmsd { fit: Some(a.clone()), measures: vec![a], weights }),
                    "rmsd_angstrom",
                )
            }
            "rgyr_mass" | "rgyr_geom" => {
                (Analysis::Gyration(Gyration { group: a, weights }), "radius_angstrom")
            }
            "distance_com" | "distance_geom" | "distance_com_noimage" => {
                let nearest_image = !kind.ends_with("noimage");
                let distance = Distance { a, b: groups.next()?, weights, nearest_image };
                (Analysis::Distance(distance), "distance_angstrom")
            }
            "rmsf_nofit" => (
                Analysis::Rmsf(Rmsf { group: a, superpose: Superpose::Nothing, fit: None }),
                "rmsf_angstrom",
            ),
            "rmsf_fit_first" => (
                Analysis::Rmsf(Rmsf { group: a, superpose: Superpose::First, fit: None }),
                "rmsf_angstrom",
            ),
            "rmsf_fit_average" => (
                Analysis::Rmsf(Rmsf { group: a, superpose: Superpose::Average, fit: None }),
                "rmsf_angstrom",
            ),
            _ => return None,
        })
    }
}

#[test]
fn masks_select_the_atoms_of_the_numbers() {
    for case in Case::both() {
        for (mask, atoms) in &case.numbers.masks {
            assert_eq!(case.group(mask).atoms.iter().collect::<Vec<_>>(), *atoms, "{mask}");
        }
    }
}

/// Half a unit in the ninth digit, to which the numbers were rounded. Near zero they are not better
/// than the square root of the rounding in the sums of their programs, about 1e-6 Å; and
/// coordinates without jumps were rounded to 32 bits there.
fn tolerance(key: &str, expected: f64) -> f64 {
    let rounding = 0.501 * 10_f64.powf(expected.log10().floor() - 8.0);
    if expected < 1e-5 || key.contains("nojump") { 1e-6 } else { rounding }
}

#[test]
fn all_series_agree() {
    let mut n_compared = 0;
    for case in Case::both() {
        let keys: Vec<_> =
            case.numbers.values.keys().filter(|key| case.analysis(key).is_some()).collect();
        for images in [Images::AsWritten, Images::Unwrapped] {
            let unwrapped = images == Images::Unwrapped;
            let keys: Vec<_> =
                keys.iter().filter(|key| key.contains("nojump") == unwrapped).collect();
            let (analyses, columns): (Vec<_>, Vec<_>) =
                keys.iter().map(|key| case.analysis(key).unwrap()).unzip();
            let report = case.run(analyses, images, 1, 2);
            for (idx, (key, column)) in keys.iter().zip(columns).enumerate() {
                let table = report.tables.iter().find(|table| table.analysis == idx).unwrap();
                let (found, expected) =
                    (table.numbers(column).unwrap(), &case.numbers.values[**key].expected);
                assert_eq!(found.len(), expected.len(), "{key}");
                for (found, expected) in found.iter().zip(expected) {
                    assert!(
                        (found - expected).abs() <= tolerance(key, *expected),
                        "{key}: {found} {expected}"
                    );
                }
                n_compared += 1;
            }
        }
    }
    assert_eq!(n_compared, 59);
}

fn integers<'a>(table: &'a Table, name: &str) -> &'a [i64] {
    match &table.column(name).unwrap().values {
        Values::Integers(values) => values,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn hydrogen_bonds_agree() {
    for case in Case::both() {
        for (key, value) in case.numbers.values.iter().filter(|(key, _)| key.starts_with("hbond|"))
        {
            let [_, mask, distance, angle] = key.split('|').collect::<Vec<_>>().try_into().unwrap();
            let number = |text: &str| text.split_once('=').unwrap().1.parse().unwrap();
            let between = Between::Within(case.group(mask));
            let criterion =
                Criterion::Angle { max_distance: number(distance), min_angle_deg: number(angle) };
            let bonds = HydrogenBonds { between, criterion, nearest_image: true };
            let as_written = HydrogenBonds { nearest_image: false, ..bonds.clone() };
            let analyses = [bonds, as_written].map(Analysis::HydrogenBonds).to_vec();
            let report = case.run(analyses, Images::Unwrapped, 1, 2);
            let [table, by_frame, _, by_frame_as_written] = report.tables.try_into().unwrap();
            assert_eq!(integers(&by_frame, "hydrogen_bonds"), value.count_per_frame, "{key}");
            assert_eq!(
                integers(&by_frame_as_written, "hydrogen_bonds"),
                value.count_per_frame_noimage,
                "{key}"
            );
            assert_eq!(table.n_rows(), value.bonds.len(), "{key}");
            for row in 0..table.n_rows() {
                let [donor, hydrogen, acceptor] = ["donor_atom", "hydrogen_atom", "acceptor_atom"]
                    .map(|name| integers(&table, name)[row] - 1);
                let same =
                    |b: &&Bond| (b.donor, b.hydrogen, b.acceptor) == (donor, hydrogen, acceptor);
                let expected = value.bonds.iter().find(same).unwrap();
                assert_eq!(integers(&table, "frames")[row], expected.frames);
                // cpptraj prints eight digits of 32-bit sums.
                assert!(
                    (table.numbers("distance_angstrom").unwrap()[row] - expected.avg_dist).abs()
                        < 5e-7
                );
                assert!(
                    (table.numbers("angle_deg").unwrap()[row] - expected.avg_angle).abs() < 5e-5
                );
            }
        }
    }
}

#[test]
fn hydrogen_bonds_with_water_agree() {
    for case in Case::both() {
        let (key, value) =
            case.numbers.values.iter().find(|(key, _)| key.starts_with("hbond_solvent|")).unwrap();
        let solute = case.group(key.split('|').nth(1).unwrap());
        for between in [Between::Solvent, Between::Groups] {
            let bonds = HydrogenBonds::new(between(solute.clone(), case.group(":HOH")));
            let report =
                case.run(vec![Analysis::HydrogenBonds(bonds.clone())], Images::Unwrapped, 1, 2);
            assert_eq!(
                integers(&report.tables[1], "hydrogen_bonds"),
                value.count_per_frame,
                "{key}"
            );
            let as_written = HydrogenBonds { nearest_image: false, ..bonds };
            let as_written =
                case.run(vec![Analysis::HydrogenBonds(as_written)], Images::Unwrapped, 1, 2);
            assert_eq!(
                integers(&as_written.tables[1], "hydrogen_bonds"),
                value.count_per_frame_noimage,
                "{key}"
            );
            if report.tables[1].column("bridges").is_some() {
                assert_eq!(
                    integers(&report.tables[1], "bridges"),
                    value.bridging_waters_per_frame,
                    "{key}"
                );
            }
        }
    }
}

#[test]
fn bridges_join_the_residues_that_they_do_in_cpptraj() {
    // Two residues, waters between them summed over frames, frames, and runs of frames: from what
    // `hbond … series solventdonor :HOH solventacceptor :HOH@O image` of cpptraj 7.6.2 lists as
    // water(residue+residue+) of each frame.
    #[rustfmt::skip]
    let expected = [
        [1, 2, 3, 3, 3], [1, 12, 2, 2, 2], [2, 3, 1, 1, 1], [4, 5, 29, 29, 8],
        [4, 7, 1, 1, 1], [5, 6, 3, 3, 1], [5, 10, 9, 9, 4], [5, 12, 1, 1, 1],
        [6, 13, 7, 7, 4], [6, 14, 6, 6, 4], [6, 21, 2, 2, 2], [8, 9, 38, 38, 19],
        [10, 12, 5, 5, 3], [11, 12, 13, 12, 7], [13, 14, 6, 6, 4], [17, 18, 45, 34, 14],
        [17, 24, 4, 4, 3], [20, 21, 38, 37, 15], [23, 24, 3, 3, 2],
    ];
    let [case, _] = Case::both();
    let between = Between::Solvent(case.group(":1-24"), case.group(":HOH"));
    let analyses = || vec![Analysis::HydrogenBonds(HydrogenBonds::new(between.clone()))];
    for n_threads in [1, 3] {
        let report = case.run(analyses(), Images::Unwrapped, 1, n_threads);
        let table = report.tables.iter().find(|table| table.kind == "solvent_bridges").unwrap();
        let columns = ["residue_a_index", "residue_b_index", "bridges", "frames", "episodes"]
            .map(|name| integers(table, name));
        assert!(columns[3].is_sorted_by(|a, b| a >= b), "the most frequent come first");
        let mut rows: Vec<[i64; 5]> =
            (0..table.n_rows()).map(|row| [0, 1, 2, 3, 4].map(|k| columns[k][row])).collect();
        rows.sort_unstable();
        assert_eq!(rows, expected);
    }
}

#[test]
fn either_hydrogen_of_water_makes_the_same_bond() {
    // The first rows of what `hbond … solventdonor :HOH solventacceptor :HOH@O image solvout` of
    // cpptraj 7.6.2 writes: the acceptor, bonds in all frames, mean distance and angle.
    let expected = [
        ("@OXT", 180, 2.7358, 162.6439),
        ("@OXT", 166, 2.7054, 163.3150),
        ("@OE2", 160, 2.7165, 162.1757),
        ("@OE2", 135, 2.7105, 163.4148),
        ("@OE1", 96, 2.7260, 161.2937),
        ("@O", 88, 2.6868, 160.1252),
    ];
    let [case, _] = Case::both();
    for water in [":HOH", ":HOH@O"] {
        let between = Between::Solvent(case.group(":1-24"), case.group(water));
        let bonds = Analysis::HydrogenBonds(HydrogenBonds::new(between));
        let table = &case.run(vec![bonds], Images::Unwrapped, 1, 2).tables[0];
        let [donors, hydrogens, acceptors] =
            ["donor", "hydrogen", "acceptor"].map(|name| texts(table, name));
        let sums = integers(table, "bonds");
        let [distances, angles] =
            ["distance_angstrom", "angle_deg"].map(|name| table.numbers(name).unwrap());
        let mut rows: Vec<usize> =
            (0..table.n_rows()).filter(|row| donors[*row] == "HOH@O").collect();
        assert!(rows.iter().all(|row| hydrogens[*row] == "HOH@H1,H2"), "{water}");
        rows.sort_by_key(|row| std::cmp::Reverse(sums[*row]));
        for (row, (acceptor, n_bonds, distance, angle)) in rows.into_iter().zip(expected) {
            assert!(acceptors[row].ends_with(acceptor), "{} is not {acceptor}", acceptors[row]);
            assert_eq!(sums[row], n_bonds, "{water} {acceptor}");
            assert!((distances[row] - distance).abs() < 1e-4, "{water} {acceptor}");
            assert!((angles[row] - angle).abs() < 1e-4, "{water} {acceptor}");
        }
    }
}

#[test]
fn hydrogen_bonds_by_the_criteria_of_mdtraj_agree() {
    let numbered = |table: &Table, row: usize| {
        ["donor_atom", "hydrogen_atom", "acceptor_atom"].map(|name| integers(table, name)[row] - 1)
    };
    for case in Case::both() {
        let values =
            |kind: &str| case.numbers.values.iter().find(|(key, _)| key.starts_with(kind)).unwrap();
        let run = |key: &str, criterion| {
            let between = Between::Within(case.group(key.split('|').nth(1).unwrap()));
            let bonds = HydrogenBonds { between, criterion, nearest_image: true };
            case.run(vec![Analysis::HydrogenBonds(bonds)], Images::Unwrapped, 1, 2).tables
        };
        let (key, value) = values("mdtraj_baker_hubbard");
        let table = &run(key, Criterion::BakerHubbard)[0];
        let occupancies = table.numbers("occupancy").unwrap();
        let often = (0..table.n_rows())
            .filter(|row| occupancies[*row] > 0.1)
            .map(|row| numbered(table, row));
        assert_eq!(
            often.collect::<BTreeSet<_>>(),
            value.triplets_dha.iter().copied().collect(),
            "{key}"
        );
        let (key, value) = values("mdtraj_wernet_nilsson");
        let by_frame = &run(key, Criterion::WernetNilsson)[1];
        assert_eq!(integers(by_frame, "hydrogen_bonds"), value.count_per_frame, "{key}");
    }
}

#[test]
fn cells_agree() {
    for case in Case::both() {
        let (plan, mut frame) =
            (case.trajectory.read_plan(&AtomSet::none(case.topology.n_atoms())), Frame::new());
        for (n, expected) in case.numbers.cell.iter().enumerate() {
            case.trajectory.read(n, &plan, &mut frame).unwrap();
            let cell = frame.cell().unwrap();
            let found = cell.lengths().into_iter().chain(cell.angles_deg());
            assert!(found.zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{expected:?}");
        }
    }
}

/// What other programs say of shapes.
#[derive(Deserialize)]
struct Shapes {
    secondary: Vec<String>,
    #[serde(default)]
    surface: BTreeMap<String, Areas>,
    #[serde(default)]
    contacts: BTreeMap<String, Counts>,
}

#[derive(Deserialize)]
struct Areas {
    total: Vec<f64>,
    residues: Vec<f64>,
}

#[derive(Deserialize)]
struct Counts {
    atoms: Vec<i64>,
    residues: Vec<i64>,
    first: Vec<f64>,
}

fn shapes() -> BTreeMap<String, Shapes> {
    serde_json::from_str(&fs::read_to_string(data("structure.json")).unwrap()).unwrap()
}

fn texts<'a>(table: &'a Table, name: &str) -> &'a [String] {
    match &table.column(name).unwrap().values {
        Values::Texts(values) => values,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn secondary_structure_agrees() {
    let shapes = shapes();
    for (case, name) in Case::both().iter().zip(["mini_md", "mini_tri"]) {
        let group = Group::solute(&case.topology);
        let analysis = Analysis::SecondaryStructure(SecondaryStructure { group });
        let report = case.run(vec![analysis], Images::Unwrapped, 1, 2);
        assert_eq!(texts(&report.tables[1], "codes"), shapes[name].secondary, "{name}");
    }
}

#[test]
fn the_end_of_a_chain_has_a_state_whatever_its_oxygen_is_called() {
    let [mut case, _] = Case::both();
    let text = fs::read_to_string(data("mini.pdb")).unwrap();
    let [atom, other] =
        ["  O   LYS A  11 ", "  OXT LYS A  11 "].map(|name| text.find(name).unwrap());
    for names in [["  OT1", "  OT2"], ["  OC1", "  OC2"], ["  O1 ", "  O2 "]] {
        let mut text = text.clone();
        for (at, name) in [atom, other].into_iter().zip(names) {
            text.replace_range(at..at + name.len(), name);
        }
        case.topology = Structure::from_pdb(&text).unwrap().topology;
        let group = case.group(":1-24");
        let analysis = Analysis::SecondaryStructure(SecondaryStructure { group });
        let report = case.run(vec![analysis], Images::Unwrapped, 1, 2);
        assert_eq!(texts(&report.tables[1], "codes"), shapes()["mini_md"].secondary, "{names:?}");
    }
}

/// The report on a structure with helices and strands, of one group for each analysis.
fn of_helices(groups: impl Fn(&Topology) -> Vec<Group>) -> Report {
    let structure = Structure::open(&data("helices.pdb")).unwrap();
    let positions = structure.positions.iter().map(|x| x.map(|x| x as f32)).collect();
    let trajectory = Series::open(&[dcd("helices.dcd", &[(None, positions)])]).unwrap();
    let groups = groups(&structure.topology).into_iter();
    let request = Request {
        analyses: groups
            .map(|group| Analysis::SecondaryStructure(SecondaryStructure { group }))
            .collect(),
        frames: FrameRange::default(),
        reference: None,
        images: Images::AsWritten,
        damaged: Damaged::Fail,
    };
    let control = Control {
        n_threads: NonZeroUsize::MIN,
        progress: &|_, _| {},
        cancelled: &AtomicBool::new(false),
    };
    analyze(&structure.topology, &trajectory, &request, &control).unwrap()
}

#[test]
fn secondary_structure_with_helices_agrees() {
    let report = of_helices(|topology| {
        vec![Group { label: "*".to_owned(), atoms: AtomSet::all(topology.n_atoms()) }]
    });
    let codes = texts(&report.tables[1], "codes");
    assert_eq!(codes, shapes()["helices"].secondary);
    assert!("HEGITS-".chars().all(|state| codes[0].contains(state)));
    let parts = report.tables[0].numbers("pi_helix").unwrap();
    assert_eq!(parts.iter().sum::<f64>(), codes[0].matches('I').count() as f64);
}

#[test]
fn a_residue_has_the_same_secondary_structure_whichever_others_are_listed() {
    let all = &shapes()["helices"].secondary[0];
    let report = of_helices(|topology| {
        let residues = (0..topology.n_residues()).map(|residue| topology.residue_atoms(residue));
        let group = |own: Vec<usize>| Group {
            label: format!("{own:?}"),
            atoms: AtomSet::from_fn(topology.n_atoms(), |atom| own.contains(&atom)),
        };
        residues.map(|atoms| group(atoms.collect())).collect()
    });
    let mut found = String::new();
    for tables in report.tables.chunks(2) {
        let [by_residue, by_frame] = tables else { panic!("two tables of each") };
        assert_eq!(by_residue.n_rows(), 1);
        found.push_str(&texts(by_frame, "codes")[0]);
    }
    assert_eq!(&found, all);
}

/// mdtraj adds in 32 bits, so that now and then a point of a sphere is on the other side of the
/// edge of the next: one of a sphere of carbon is 0.13 Å².
#[test]
fn surface_areas_agree() {
    let shapes = shapes();
    for (case, name) in Case::both().iter().zip(["mini_md", "mini_tri"]) {
        for (mask, areas) in &shapes[name].surface {
            let analysis =
                Analysis::SurfaceArea(SurfaceArea { group: case.group(mask), probe_radius: 1.4 });
            let report = case.run(vec![analysis], Images::Unwrapped, 1, 2);
            let largest = |found: &[f64], expected: &[f64]| {
                assert_eq!(found.len(), expected.len());
                found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
            };
            let [by_residue, by_frame] = [&report.tables[0], &report.tables[1]]
                .map(|table| table.numbers("area_angstrom2").unwrap());
            assert!(
                largest(by_frame, &areas.total) < 0.5,
                "{} {mask}",
                largest(by_frame, &areas.total)
            );
            assert!(
                largest(by_residue, &areas.residues) < 0.02,
                "{}",
                largest(by_residue, &areas.residues)
            );
        }
    }
}

#[test]
fn the_surface_of_atoms_apart_is_that_of_their_spheres() {
    let case = &Case::both()[0];
    let group = case.group("@/CL");
    let n_ions = group.atoms.len() as f64;
    let surface = SurfaceArea { group, probe_radius: 0.0 };
    let report = case.run(vec![Analysis::SurfaceArea(surface)], Images::Unwrapped, 1, 1);
    let area = 4.0 * std::f64::consts::PI * 1.75_f64.powi(2) * n_ions;
    assert!(
        n_ions > 1.0
            && (report.tables[1].numbers("area_angstrom2").unwrap()[0] - area).abs() < 1e-9
    );
}

#[test]
fn contacts_agree() {
    let shapes = shapes();
    for (case, name) in Case::both().iter().zip(["mini_md", "mini_tri"]) {
        for (masks, counts) in &shapes[name].contacts {
            let (a, b) = masks.split_once('|').unwrap();
            let contacts = Contacts { a: case.group(a), b: case.group(b), max_distance: 4.5 };
            let report = case.run(vec![Analysis::Contacts(contacts)], Images::Unwrapped, 1, 2);
            let by_frame = &report.tables[1];
            assert_eq!(integers(by_frame, "contacts"), counts.atoms, "{name} {masks}");
            assert_eq!(integers(by_frame, "residue_pairs"), counts.residues, "{name} {masks}");
            let parts: Vec<_> = counts.first.iter().map(|n| n / counts.first[0]).collect();
            assert_eq!(by_frame.numbers("first_fraction").unwrap(), parts);
        }
    }
}
