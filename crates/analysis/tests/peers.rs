//! Analyses against the numbers of MDAnalysis, mdtraj, pymbar and scipy, which
//! `data/peers.py` wrote.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use common::{Random, data, dcd};
use molbox_analysis::{
    Analysis, Atom, AtomSet, Axis, Clustering, Clusters, Control, Cut, Damaged, Density,
    DihedralKind, Dihedrals, EndToEnd, FrameRange, Group, Images, Linkage, Mask, Membrane,
    NativeContacts, PrincipalComponents, Rdf, Report, Request, Rmsf, Series, Structure, Superpose,
    Table, Topology, Values, analyze, equilibration, statistical_inefficiency,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Numbers {
    pairwise: Pairwise,
    convergence: BTreeMap<String, [f64; 4]>,
    dihedrals: BTreeMap<String, Angles>,
    native_contacts: Native,
    rdf: BTreeMap<String, Radial>,
    components: Components,
    density: Option<Profile>,
}

#[derive(Deserialize)]
struct Pairwise {
    mask: String,
    rmsd: Vec<f64>,
    clusters: BTreeMap<String, Found>,
}

#[derive(Deserialize)]
struct Found {
    members: Vec<Vec<usize>>,
    medoids: Vec<usize>,
}

#[derive(Deserialize)]
struct Angles {
    angles: Vec<f64>,
    mean: f64,
    deviation: f64,
}

#[derive(Deserialize)]
struct Native {
    mask: String,
    pairs: usize,
    soft: Vec<f64>,
    hard: Vec<f64>,
}

#[derive(Deserialize)]
struct Radial {
    g: Vec<f64>,
    count: Vec<f64>,
}

#[derive(Deserialize)]
struct Components {
    rmsf_of_others: Vec<f64>,
    variance: Vec<f64>,
    total: f64,
    projections: Vec<f64>,
    cosine_content: Vec<f64>,
}

#[derive(Deserialize)]
struct Profile {
    number: Vec<f64>,
    mass: Vec<f64>,
}

struct Case {
    name: &'static str,
    topology: Topology,
    trajectory: Series,
    numbers: Numbers,
}

impl Case {
    fn both() -> [Self; 2] {
        let text = fs::read_to_string(data("peers.json")).unwrap();
        let mut numbers: BTreeMap<String, Numbers> = serde_json::from_str(&text).unwrap();
        [("mini_md", "mini_md.cif"), ("mini_tri", "mini_tri.pdb")].map(|(name, structure)| Self {
            name,
            topology: Structure::open(&data(structure)).unwrap().topology,
            trajectory: Series::open(&[data(&format!("{name}.dcd"))]).unwrap(),
            numbers: numbers.remove(name).unwrap(),
        })
    }

    fn group(&self, mask: &str) -> Group {
        Group::select(&Mask::parse(mask).unwrap(), &self.topology, None).unwrap().0
    }

    fn run(&self, analysis: Analysis, images: Images, stride: usize) -> Report {
        let stride = NonZeroUsize::new(stride).unwrap();
        run(&self.topology, &self.trajectory, analysis, images, stride)
    }
}

fn run(
    topology: &Topology,
    trajectory: &Series,
    analysis: Analysis,
    images: Images,
    stride: NonZeroUsize,
) -> Report {
    let request = Request {
        analyses: vec![analysis],
        frames: FrameRange::every(stride),
        reference: None,
        images,
        damaged: Damaged::Fail,
    };
    let control = Control {
        n_threads: NonZeroUsize::new(2).unwrap(),
        progress: &|_, _| {},
        cancelled: &AtomicBool::new(false),
    };
    analyze(topology, trajectory, &request, &control).unwrap()
}

fn table<'a>(report: &'a Report, name: &str) -> &'a Table {
    report.tables.iter().find(|table| table.name == name).unwrap()
}

fn integers<'a>(table: &'a Table, name: &str) -> &'a [i64] {
    match &table.column(name).unwrap().values {
        Values::Integers(values) => values,
        other => panic!("{name}: {other:?}"),
    }
}

fn largest(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn deviations_of_all_pairs_and_their_clusters_agree() {
    for case in Case::both() {
        let Pairwise { mask, rmsd, clusters } = &case.numbers.pairwise;
        for (key, expected) in clusters {
            let [linkage, _, cutoff] = key.split('|').collect::<Vec<_>>().try_into().unwrap();
            let linkage = match linkage {
                "average" => Linkage::Average,
                "complete" => Linkage::Complete,
                _ => Linkage::Single,
            };
            let cuts = [Cut::Distance(cutoff.parse().unwrap()), Cut::Count(expected.members.len())];
            for cut in cuts {
                let method = Clustering::Hierarchical { linkage, cut };
                let clusters = Clusters { group: case.group(mask), method };
                let report = case.run(Analysis::Clusters(clusters), Images::AsWritten, 1);
                let found = table(&report, "pairwise_rmsd").numbers("rmsd_angstrom").unwrap();
                assert!(largest(found, rmsd) < 1e-6, "{}", largest(found, rmsd));
                let by_frame = integers(table(&report, "clusters_by_frame"), "cluster");
                for (n, members) in expected.members.iter().enumerate() {
                    let found: Vec<usize> =
                        (0..by_frame.len()).filter(|k| by_frame[*k] == n as i64 + 1).collect();
                    assert_eq!(found, *members, "{} {key}", case.name);
                }
                let medoids = integers(table(&report, "clusters"), "medoid_frame");
                let expected: Vec<i64> = expected.medoids.iter().map(|k| *k as i64).collect();
                assert_eq!(medoids, expected, "{} {key}", case.name);
            }
        }
    }
}

#[test]
fn many_frames_are_compared_by_a_step_and_a_warning_gives_it() {
    let mut random = Random(7);
    let frames: Vec<_> = (0..1003)
        .map(|_| (None, (0..5).map(|_| [0; 3].map(|_| 9.0 * random.signed() as f32)).collect()))
        .collect();
    let trajectory = Series::open(&[dcd("many.dcd", &frames)]).unwrap();
    let text = (1..=5).map(|n| {
        format!(
            "ATOM  {n:>5}  C{n}  LIG A   1    {0:>8}{0:>8}{0:>8}  1.00  0.00           C\n",
            "1.000"
        )
    });
    let path = data("many.pdb");
    let path =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(path.file_name().unwrap());
    fs::write(&path, text.collect::<String>() + "END\n").unwrap();
    let topology = Structure::open(&path).unwrap().topology;
    let group = Group { label: "*".to_owned(), atoms: AtomSet::all(5) };
    let method = Clustering::Neighbours { cutoff: 2.0 };
    let clusters = Analysis::Clusters(Clusters { group, method });
    let report = run(&topology, &trajectory, clusters, Images::AsWritten, NonZeroUsize::MIN);
    assert_eq!(table(&report, "pairwise_rmsd").n_rows(), 502 * 501 / 2);
    assert_eq!(integers(table(&report, "clusters_by_frame"), "frame")[1], 2);
    let warnings: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|w| w.contains("one of every 2")), "{warnings:?}");
}

#[test]
fn convergence_agrees_with_pymbar() {
    let mut n_compared = 0;
    for case in Case::both() {
        let path = data(&format!("{}.json", case.name));
        let numbers: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        for (key, [g, start, g_after, n_effective]) in &case.numbers.convergence {
            let series = numbers["values"][key]["expected"].as_array().unwrap();
            let series: Vec<f64> = series.iter().map(|x| x.as_f64().unwrap()).collect();
            let own = statistical_inefficiency(&series).unwrap();
            assert!((own - g).abs() < 1e-9 * g, "{key}: {own} {g}");
            let found = equilibration(&series);
            // pymbar keeps these in 32 bits.
            assert_eq!(found.start, *start as usize, "{key}: {found:?} {n_effective}");
            assert!((found.inefficiency - g_after).abs() < 1e-6 * g_after, "{key}");
            assert!((found.n_effective - n_effective).abs() < 1e-6 * n_effective, "{key}");
            n_compared += 1;
        }
    }
    assert_eq!(n_compared, 50);
}

#[test]
fn dihedral_angles_agree() {
    use DihedralKind::{Chi1, Chi2, Chi3, Chi4, Chi5, Omega, Phi, Psi};
    for case in Case::both() {
        let kinds = vec![Phi, Psi, Omega, Chi1, Chi2, Chi3, Chi4, Chi5];
        let group = Group::solute(&case.topology);
        let report =
            case.run(Analysis::Dihedrals(Dihedrals { group, kinds }), Images::Unwrapped, 1);
        let by_frame = table(&report, "dihedrals_by_frame");
        let statistics = table(&report, "dihedrals");
        assert_eq!(statistics.n_rows(), case.numbers.dihedrals.len(), "{}", case.name);
        let turned = |a: f64, b: f64| (a - b + 540.0).rem_euclid(360.0) - 180.0;
        let angles = by_frame.columns.iter().filter(|column| column.unit == Some("°"));
        for (row, column) in angles.enumerate() {
            let expected = &case.numbers.dihedrals[column.name.trim_end_matches("_deg")];
            let Values::Numbers(found) = &column.values else { panic!("{}", column.name) };
            // mdtraj calculates in 32 bits.
            for (a, b) in found.iter().zip(&expected.angles) {
                assert!(turned(*a, *b).abs() < 2e-3, "{} {a} {b}", column.name);
            }
            let mean = statistics.numbers("mean_deg").unwrap()[row];
            assert!(turned(mean, expected.mean).abs() < 1e-3, "{}", column.name);
            let deviation = statistics.numbers("deviation_deg").unwrap()[row];
            assert!((deviation - expected.deviation).abs() < 1e-3, "{}", column.name);
        }
        let map = table(&report, "ramachandran");
        let both = case.numbers.dihedrals.keys().filter(|key| {
            let residue = key.strip_prefix("phi_");
            residue.is_some_and(|n| case.numbers.dihedrals.contains_key(&format!("psi_{n}")))
        });
        let n_frames = case.trajectory.n_frames() as i64;
        assert_eq!(integers(map, "count").iter().sum::<i64>(), both.count() as i64 * n_frames);
        assert!((map.numbers("fraction").unwrap().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn native_contacts_agree() {
    for case in Case::both() {
        let Native { mask, pairs, soft, hard } = &case.numbers.native_contacts;
        let a = case.group(mask);
        let contacts = NativeContacts { b: a.clone(), a, max_distance: 4.5 };
        let report = case.run(Analysis::NativeContacts(contacts), Images::Unwrapped, 1);
        let by_frame = table(&report, "native_contacts_by_frame");
        let by_residues = table(&report, "native_contacts");
        assert_eq!(integers(by_residues, "contacts").iter().sum::<i64>(), *pairs as i64);
        // MDAnalysis measures from a cell in 32 bits, which decides no contact here.
        assert!(largest(by_frame.numbers("soft_fraction").unwrap(), soft) < 1e-5);
        assert!(largest(by_frame.numbers("hard_fraction").unwrap(), hard) < 1e-9);
        // The mean over frames is that over pairs of residues.
        let weighted = by_residues.numbers("soft_fraction").unwrap().iter();
        let weighted: f64 =
            weighted.zip(integers(by_residues, "contacts")).map(|(q, n)| q * *n as f64).sum();
        let mean = soft.iter().sum::<f64>() / soft.len() as f64;
        assert!((weighted / *pairs as f64 - mean).abs() < 1e-5);
    }
}

#[test]
fn radial_distributions_agree() {
    for case in Case::both() {
        for (masks, Radial { g, count }) in &case.numbers.rdf {
            let (a, b) = masks.split_once(' ').unwrap_or((masks, masks));
            let (a, b) = (case.group(a), case.group(b));
            let n_frames = case.trajectory.n_frames().div_ceil(10);
            let n_around = a.atoms.len() as f64 * n_frames as f64;
            let rdf = Rdf { a, b, max_distance: 10.0, bin: 0.1 };
            let report = case.run(Analysis::Rdf(rdf), Images::Unwrapped, 10);
            let found = table(&report, "rdf");
            assert_eq!(found.n_rows(), 100);
            // A pair on the edge of a bin is in either, as MDAnalysis has the cell in 32 bits.
            let most = count.iter().copied().fold(0.0, f64::max);
            let own = found.numbers("g").unwrap();
            let neighbours = found.numbers("neighbours").unwrap();
            let mut so_far = 0.0;
            for n in 0..100 {
                so_far += count[n];
                let one = if count[n] > 0.0 { g[n] / count[n] } else { 0.0 };
                let moved = 2.0 + 2e-4 * most;
                assert!(
                    (own[n] - g[n]).abs() <= moved * one + 1e-9,
                    "{masks} {n} {} {}",
                    own[n],
                    g[n]
                );
                assert!((neighbours[n] * n_around - so_far).abs() <= moved, "{masks} {n}");
            }
        }
    }
}

#[test]
fn densities_agree_and_hold_every_atom() {
    let [case, _] = Case::both();
    let expected = case.numbers.density.as_ref().unwrap();
    let density = |mask: &str, axis, bin| {
        let (group, centre) = (case.group(mask), case.group(":1-12"));
        case.run(Analysis::Density(Density { group, centre, axis, bin }), Images::Unwrapped, 1)
    };
    let report = density(":HOH", Axis::Z, 0.5);
    let found = table(&report, "density");
    let places = found.numbers("z_angstrom").unwrap();
    let first = places.iter().position(|z| *z > -10.0).unwrap();
    let part = |name: &str| found.numbers(name).unwrap()[first..first + 40].to_vec();
    // Peptides that are broken have their atoms at the same places around the axis.
    assert!(largest(&part("number_density"), &expected.number) < 2e-4);
    assert!(largest(&part("mass_density"), &expected.mass) < 2e-3);
    let electrons = part("electron_density");
    let atoms = part("number_density");
    assert!(electrons.iter().zip(&atoms).all(|(e, n)| (e / n - 10.0 / 3.0).abs() < 0.3));
    for axis in [Axis::X, Axis::Y] {
        assert!(table(&density(":HOH", axis, 0.5), "density").n_rows() > 20);
    }
}

#[test]
fn a_cell_that_leans_has_no_profile() {
    let [_, case] = Case::both();
    let result = |axis| {
        let group = Group::solute(&case.topology);
        let density = Density { centre: group.clone(), group, axis, bin: 0.5 };
        let request = Request {
            analyses: vec![Analysis::Density(density)],
            frames: FrameRange::default(),
            reference: None,
            images: Images::Unwrapped,
            damaged: Damaged::Fail,
        };
        let control = Control {
            n_threads: NonZeroUsize::MIN,
            progress: &|_, _| {},
            cancelled: &AtomicBool::new(false),
        };
        analyze(&case.topology, &case.trajectory, &request, &control)
    };
    // Of a dodecahedron the third edge leans against the others, and these not against it.
    assert!(result(Axis::Z).is_ok());
    assert!(result(Axis::X).unwrap_err().to_string().contains("lean against x"));
}

#[test]
fn principal_components_agree() {
    for case in Case::both() {
        let Components { variance, total, projections, cosine_content, .. } =
            &case.numbers.components;
        let group = case.group(":1-12@CA");
        let components = PrincipalComponents { group, n_components: 5 };
        let report = case.run(Analysis::PrincipalComponents(components), Images::AsWritten, 1);
        let found = table(&report, "principal_components");
        let values = found.numbers("variance_angstrom2").unwrap();
        // MDAnalysis superposes in 32 bits.
        assert!(largest(values, variance) < 2e-5 * variance[0], "{values:?} {variance:?}");
        let part = values.iter().sum::<f64>() / found.numbers("cumulative").unwrap()[4];
        assert!((part - total).abs() < 2e-5 * total, "{part} {total}");
        let series = table(&report, "projections");
        for k in 0..3 {
            let own = series.numbers(&format!("pc{}_angstrom", k + 1)).unwrap();
            let theirs: Vec<f64> = projections.iter().skip(k).step_by(3).copied().collect();
            let along: f64 = own.iter().zip(&theirs).map(|(a, b)| a * b).sum();
            // The sign of a component is free.
            let turned: Vec<f64> = theirs.iter().map(|x| x * along.signum()).collect();
            let size = variance[k].sqrt();
            assert!(largest(own, &turned) < 2e-3 * size, "{} {k}", largest(own, &turned) / size);
            // They integrate by Simpson's rule.
            let cosine = found.numbers("cosine_content").unwrap()[k];
            assert!((cosine - cosine_content[k]).abs() < 0.05, "{cosine} {}", cosine_content[k]);
            let square = own.iter().map(|x| x * x).sum::<f64>() / (own.len() - 1) as f64;
            assert!((square - values[k]).abs() < 1e-9 * values[0]);
        }
        let modes = table(&report, "principal_modes");
        let length: f64 = ["x", "y", "z"]
            .iter()
            .flat_map(|axis| modes.numbers(&format!("pc1_{axis}")).unwrap())
            .map(|x| x * x)
            .sum();
        assert!((length - 1.0).abs() < 1e-12);
    }
}

#[test]
fn fluctuations_of_other_atoms_than_are_superposed_agree() {
    for case in Case::both() {
        let rmsf = Rmsf {
            group: case.group(":1-12&!@/H"),
            superpose: Superpose::Average,
            fit: Some(case.group(":1-12@CA")),
        };
        let report = case.run(Analysis::Rmsf(rmsf), Images::AsWritten, 1);
        let found = table(&report, "rmsf").numbers("rmsf_angstrom").unwrap();
        // MDAnalysis superposes in 32 bits.
        let expected = &case.numbers.components.rmsf_of_others;
        assert!(largest(found, expected) < 2e-5, "{}", largest(found, expected));
    }
}

#[test]
fn the_ends_of_a_chain_are_those_of_its_distance() {
    let [case, _] = Case::both();
    let ends = EndToEnd { group: case.group(":1-12@CA") };
    let found = case.run(Analysis::EndToEnd(ends), Images::AsWritten, 1);
    let text = fs::read_to_string(data("mini_md.json")).unwrap();
    let numbers: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = numbers["values"]["distance_com_noimage|:1@CA|:12@CA"]["expected"].as_array();
    let found = table(&found, "end_to_end").numbers("distance_angstrom").unwrap().to_vec();
    let Some(expected) = expected else {
        panic!("{:?}", numbers["values"].as_object().unwrap().keys())
    };
    let expected: Vec<f64> = expected.iter().map(|x| x.as_f64().unwrap()).collect();
    assert!(largest(&found, &expected) < 1e-6);
}

/// Two leaflets of lipids that are a phosphorus and a chain with bonds along z, across z, and at
/// the magic angle.
#[test]
fn a_membrane_that_is_known_is_found() {
    let magic = 54.735_610_317_245_346_f64.to_radians();
    let mut text = String::new();
    let mut positions = Vec::new();
    let mut connections = String::new();
    for lipid in 0..8 {
        let up = if lipid % 2 == 0 { 1.0 } else { -1.0 };
        let (x, y) = (5.0 * f64::from(lipid / 2), 3.0);
        let along = [[0.0, 0.0, up], [1.0, 0.0, 0.0], [magic.sin(), 0.0, up * magic.cos()]];
        let first = 7 * lipid + 1;
        let mut add = |n: i32, name: &str, element: &str, at: [f64; 3]| {
            text += &format!(
                "HETATM{:>5}  {name:<3} POP A{:>4}    {:>8.3}{:>8.3}{:>8.3}  1.00  0.00          {element:>2}\n",
                first + n,
                lipid + 1,
                at[0],
                at[1],
                at[2]
            );
            // The whole lies across the boundary.
            positions.push([at[0] as f32, at[1] as f32, (at[2] - 7.0) as f32]);
        };
        add(0, "P", "P", [x, y, 19.0 * up]);
        for (k, along) in along.iter().enumerate() {
            let at = [x, y, (12.0 - 3.0 * k as f64) * up];
            add(2 * k as i32 + 1, &format!("C{}", k + 1), "C", at);
            let to = [0, 1, 2].map(|axis| at[axis] + 1.1 * along[axis]);
            add(2 * k as i32 + 2, &format!("H{}", k + 1), "H", to);
            let carbon = first + 2 * k as i32 + 1;
            connections += &format!("CONECT{carbon:>5}{:>5}\n", carbon + 1);
            connections += &format!("CONECT{first:>5}{carbon:>5}\n");
        }
    }
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("membrane.pdb");
    fs::write(&path, text + &connections + "END\n").unwrap();
    let topology = Structure::open(&path).unwrap().topology;
    let cell = Some([20.0, 10.0, 60.0, 90.0, 90.0, 90.0]);
    let trajectory = Series::open(&[dcd("membrane.dcd", &[(cell, positions)])]).unwrap();
    let group = Group { label: ":POP".to_owned(), atoms: AtomSet::all(56) };
    let membrane = Analysis::Membrane(Membrane { group, axis: Axis::Z });
    let report = run(&topology, &trajectory, membrane, Images::AsWritten, NonZeroUsize::MIN);
    let found = table(&report, "membrane");
    assert!((found.numbers("area_per_lipid_angstrom2").unwrap()[0] - 50.0).abs() < 1e-9);
    assert!((found.numbers("thickness_angstrom").unwrap()[0] - 38.0).abs() < 1e-5);
    assert_eq!((integers(found, "upper_lipids")[0], integers(found, "lower_lipids")[0]), (4, 4));
    let order = table(&report, "lipid_order").numbers("order_parameter").unwrap();
    assert!(largest(order, &[1.0, -0.5, 0.0]) < 1e-5, "{order:?}");

    // Of coarse grains the heads are what was selected.
    let grains = topology.atoms().map(|atom| Atom { element: None, ..atom });
    let bonds = topology.bonds().to_vec();
    let grains = Topology::new(grains, topology.residues(), topology.chains(), bonds).unwrap();
    let heads = AtomSet::from_fn(56, |atom| grains.atom(atom).name == "P");
    let group = Group { label: "@P".to_owned(), atoms: heads };
    let membrane = Analysis::Membrane(Membrane { group, axis: Axis::Z });
    let report = run(&grains, &trajectory, membrane, Images::AsWritten, NonZeroUsize::MIN);
    let found = table(&report, "membrane");
    assert!((found.numbers("thickness_angstrom").unwrap()[0] - 38.0).abs() < 1e-5);
}
