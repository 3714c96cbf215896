//! What must hold of analyses whatever the system.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Random, data, dcd, frames, parameters};
use molbox_analysis::{
    Analysis, Between, Cell, Contacts, Control, Criterion, Damaged, Distance, Error, FrameRange,
    Group, Gyration, HydrogenBonds, Images, Mask, Report, Request, Rmsd, Rmsf, SecondaryStructure,
    Series, Structure, Superpose, SurfaceArea, Topology, Values, Warning, Weights, analyze,
    frame_positions,
};

fn mini() -> Topology {
    Structure::open(&data("mini.pdb")).unwrap().topology
}

fn group(topology: &Topology, mask: &str) -> Group {
    Group::select(&Mask::parse(mask).unwrap(), topology, None).unwrap().0
}

fn rmsd(topology: &Topology, fit: Option<&str>, measure: &str) -> Analysis {
    let fit = fit.map(|mask| group(topology, mask));
    Analysis::Rmsd(Rmsd { fit, measures: vec![group(topology, measure)], weights: Weights::Equal })
}

/// Some of everything, within molecules and between them.
fn everything(topology: &Topology) -> Vec<Analysis> {
    let group = |mask| group(topology, mask);
    let distance =
        |a, b, weights| Distance { a: group(a), b: group(b), weights, nearest_image: true };
    vec![
        rmsd(topology, Some(":1-24@CA"), ":1-24@CA"),
        rmsd(topology, Some(":1-12@CA"), ":13-24&!@/H"),
        Analysis::Rmsf(Rmsf { group: group(":1-12"), superpose: Superpose::Average, fit: None }),
        Analysis::Rmsf(Rmsf { group: group(":1-24@CA"), superpose: Superpose::Average, fit: None }),
        Analysis::Rmsf(Rmsf { group: group(":1-12@CA"), superpose: Superpose::First, fit: None }),
        Analysis::Distance(distance(":1-12", ":13-24", Weights::Mass)),
        Analysis::Distance(distance(":NA", ":1-12", Weights::Equal)),
        Analysis::Gyration(Gyration { group: group(":1-24"), weights: Weights::Mass }),
        Analysis::Contacts(Contacts {
            a: group(":1-12"),
            b: group(":13-24,HOH"),
            max_distance: 3.0,
        }),
        Analysis::SecondaryStructure(SecondaryStructure { group: Group::solute(topology) }),
        Analysis::HydrogenBonds(HydrogenBonds::new(Between::Within(Group::solute(topology)))),
        Analysis::HydrogenBonds(HydrogenBonds::new(Between::Solvent(
            Group::solute(topology),
            group(":HOH"),
        ))),
    ]
}

fn run(
    topology: &Topology,
    path: &Path,
    analyses: Vec<Analysis>,
    stride: usize,
    n_threads: usize,
) -> Report {
    let frames = FrameRange::every(NonZeroUsize::new(stride).unwrap());
    let request = Request {
        analyses,
        frames,
        reference: None,
        images: Images::Unwrapped,
        damaged: Damaged::Fail,
    };
    let cancelled = AtomicBool::new(false);
    let n_threads = NonZeroUsize::new(n_threads).unwrap();
    let control = Control { n_threads, progress: &|_, _| {}, cancelled: &cancelled };
    analyze(topology, &Series::open(&[path.to_owned()]).unwrap(), &request, &control).unwrap()
}

/// All frames of a file, as positions and cell.
/// Writes frames with each position changed, given cell, frame, and atom.
fn changed(
    name: &str,
    frames: &[(Option<Cell>, Vec<[f32; 3]>)],
    keep_cell: bool,
    mut change: impl FnMut(&Cell, usize, usize, [f64; 3]) -> [f64; 3],
) -> std::path::PathBuf {
    let frames = frames.iter().enumerate().map(|(n, (cell, positions))| {
        let cell = cell.unwrap();
        let moved = positions
            .iter()
            .enumerate()
            .map(|(atom, x)| change(&cell, n, atom, x.map(f64::from)).map(|x| x as f32));
        (keep_cell.then(|| parameters(&cell)), moved.collect())
    });
    dcd(name, &frames.collect::<Vec<_>>())
}

/// The largest difference of two reports, which must have the same tables and integers.
fn difference(a: &Report, b: &Report) -> f64 {
    assert_eq!(a.tables.len(), b.tables.len());
    let mut largest = 0_f64;
    for (a, b) in a.tables.iter().zip(&b.tables) {
        for (a, b) in a.columns.iter().zip(&b.columns).filter(|(a, _)| !a.name.contains("time")) {
            match (&a.values, &b.values) {
                (Values::Numbers(a), Values::Numbers(b)) => {
                    assert_eq!(a.len(), b.len());
                    largest = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(largest, f64::max);
                }
                (a, b) => assert_eq!(a, b),
            }
        }
    }
    largest
}

/// A rotation about a random axis.
fn rotation(random: &mut Random) -> [[f64; 3]; 3] {
    let q = [0; 4].map(|_| random.signed());
    let length = q.iter().map(|x| x * x).sum::<f64>().sqrt();
    let [w, x, y, z] = q.map(|x| x / length);
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
}

fn turned(rotation: [[f64; 3]; 3], [x, y, z]: [f64; 3], by: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|k| rotation[k][0] * x + rotation[k][1] * y + rotation[k][2] * z + by[k])
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let topology = mini();
    // Points on spheres do not turn with the molecule, so that this one has no place among the
    // others.
    let surface = SurfaceArea { group: group(&topology, ":1-3"), probe_radius: 1.4 };
    let analyses = || {
        everything(&topology).into_iter().chain([Analysis::SurfaceArea(surface.clone())]).collect()
    };
    for stride in [1, 3] {
        let reports = [1, 2, 3, 8]
            .map(|n_threads| run(&topology, &data("mini_md.dcd"), analyses(), stride, n_threads));
        assert!(reports.iter().all(|report| *report == reports[0]), "to the last bit");
    }
}

#[test]
fn rigid_motions_of_frames_change_nothing() {
    let topology = mini();
    let frames = frames(&data("mini_md.dcd"));
    let mut random = Random(7);
    let motions: Vec<_> = frames
        .iter()
        .map(|_| (rotation(&mut random), [0; 3].map(|_| 20.0 * random.signed())))
        .collect();
    let still = changed("still.dcd", &frames, false, |_, _, _, x| x);
    let moved =
        changed("moved.dcd", &frames, false, |_, n, _, x| turned(motions[n].0, x, motions[n].1));
    let [a, b] = [still, moved].map(|path| run(&topology, &path, everything(&topology), 1, 2));
    assert!(difference(&a, &b) < 3e-4, "{}", difference(&a, &b));
}

#[test]
fn rmsd_of_a_rotated_copy_is_zero() {
    let topology = mini();
    let first = &frames(&data("mini_md.dcd"))[..1];
    let mut random = Random(8);
    let motions: Vec<_> =
        (0..50).map(|_| (rotation(&mut random), [0; 3].map(|_| 30.0 * random.signed()))).collect();
    let copies: Vec<_> = motions.iter().map(|_| first[0].clone()).collect();
    let path =
        changed("copies.dcd", &copies, false, |_, n, _, x| turned(motions[n].0, x, motions[n].1));
    let report = run(&topology, &path, vec![rmsd(&topology, Some(":1-24"), ":1-24")], 1, 1);
    let worst =
        report.tables[0].numbers("rmsd_angstrom").unwrap().iter().copied().fold(0.0, f64::max);
    // Coordinates of 32 bits are rounded by up to 4e-6 Å.
    assert!(worst < 5e-6, "{worst}");
    assert!(report.tables[0].numbers("rmsd_angstrom").unwrap()[0] < 1e-12);
}

#[test]
fn images_of_molecules_change_nothing() {
    let topology = mini();
    let frames = frames(&data("mini_md.dcd"));
    let original = run(&topology, &data("mini_md.dcd"), everything(&topology), 1, 2);
    let mut random = Random(9);
    let shifts: Vec<Vec<[f64; 3]>> = frames
        .iter()
        .enumerate()
        .map(|(n, _)| {
            (0..topology.n_molecules())
                .map(|_| [0; 3].map(|_| if n == 0 { 0.0 } else { random.below(3) as f64 - 1.0 }))
                .collect()
        })
        .collect();
    let path = changed("images.dcd", &frames, true, |cell, n, atom, x| {
        let shift = cell.edge_sum(shifts[n][topology.molecule_of(atom)]);
        [0, 1, 2].map(|k| x[k] + shift[k])
    });
    let moved = run(&topology, &path, everything(&topology), 1, 2);
    assert!(difference(&original, &moved) < 3e-4, "{}", difference(&original, &moved));
}

#[test]
fn edges_that_span_the_same_lattice_change_nothing() {
    let topology = mini();
    let second = topology.molecule_of(group(&topology, ":13").atoms.iter().next().unwrap());
    let moving = |name, slant: f64| {
        let frames = frames(&data("mini_md.dcd")).into_iter().take(20).enumerate();
        let frames = frames.map(|(n, (cell, mut positions))| {
            let [a, b, c] = cell.unwrap().lengths();
            // A chain goes a third of the cell from one frame to the next.
            let moved =
                (0..topology.n_atoms()).filter(|atom| topology.molecule_of(*atom) == second);
            moved.for_each(|atom| positions[atom][1] += (0.3 * b * n as f64) as f32);
            let across = b.hypot(slant * a);
            // The angles as cosines.
            (Some([a, across, c, 0.0, 0.0, slant * a / across]), positions)
        });
        run(&topology, &dcd(name, &frames.collect::<Vec<_>>()), everything(&topology), 1, 2)
    };
    let [a, b] = [moving("upright.dcd", 0.0), moving("slanted.dcd", 2.0)];
    assert!(difference(&a, &b) < 3e-4, "{}", difference(&a, &b));
}

#[test]
fn molecules_in_pieces_are_put_together() {
    let topology = mini();
    let frames = frames(&data("mini_md.dcd"));
    let whole = changed("whole.dcd", &frames, true, |_, _, _, x| x);
    let torn = changed("torn.dcd", &frames, true, |cell, n, _, x| {
        if n == 0 {
            return x;
        }
        let whole = cell.edge_sum(cell.fractions(x).map(f64::floor));
        [0, 1, 2].map(|k| x[k] - whole[k])
    });
    let [a, b] = [whole, torn].map(|path| run(&topology, &path, everything(&topology), 1, 2));
    assert!(difference(&a, &b) < 3e-4, "{}", difference(&a, &b));
    assert!(
        b.warnings.contains(&Warning::BrokenMolecules)
            && !a.warnings.contains(&Warning::BrokenMolecules)
    );
}

#[test]
fn a_molecule_that_is_broken_in_two_frames_is_put_together_in_these() {
    let topology = mini();
    let frames = frames(&data("mini_md.dcd"));
    let centred = |n: usize, x: [f64; 3]| [0, 1, 2].map(|k| x[k] - f64::from(frames[n].1[100][k]));
    let whole = changed("centred.dcd", &frames, true, |_, n, _, x| centred(n, x));
    let torn = changed("torn_twice.dcd", &frames, true, |cell, n, _, x| {
        let x = centred(n, x);
        if n != 5 && n != 6 {
            return x;
        }
        let whole = cell.edge_sum(cell.fractions(x).map(f64::floor));
        [0, 1, 2].map(|k| x[k] - whole[k])
    });
    let analyses = || vec![rmsd(&topology, None, ":1-24@CA")];
    let [a, b] = [&whole, &torn].map(|path| run(&topology, path, analyses(), 1, 2));
    let [a_rmsd, b_rmsd] =
        [&a, &b].map(|report| report.tables[0].numbers("rmsd_angstrom").unwrap());
    assert_eq!(a_rmsd[..5], b_rmsd[..5]);
    assert!(difference(&a, &b) < 3e-4, "{}", difference(&a, &b));
    assert!(
        b.warnings.contains(&Warning::BrokenMolecules)
            && !a.warnings.contains(&Warning::BrokenMolecules)
    );

    let trajectory = Series::open(&[torn]).unwrap();
    let (positions, _) =
        frame_positions(&topology, &trajectory, 5, false, &AtomicBool::new(false)).unwrap();
    let longest = topology.bonds().iter().map(|bond| {
        let [a, b] = bond.map(|atom| positions[atom as usize]);
        (0..3).map(|k| (a[k] - b[k]).powi(2)).sum::<f64>().sqrt()
    });
    assert!(longest.fold(0.0, f64::max) < 3.0);
}

#[test]
fn secondary_structure_of_wrapped_atoms_is_that_of_whole_molecules() {
    let Structure { topology, positions, .. } = Structure::open(&data("helices.pdb")).unwrap();
    let cell = Cell::from_lengths_angles([60.0, 61.0, 62.0], [90.0, 80.0, 70.0]);
    let frame = vec![(cell, positions.iter().map(|x| x.map(|x| x as f32)).collect::<Vec<_>>())];
    let states = |name, change: &dyn Fn(&Cell, [f64; 3]) -> [f64; 3]| {
        let path = changed(name, &frame, true, |cell, _, _, x| change(cell, x));
        let group = Group::solute(&topology);
        let analyses = vec![Analysis::SecondaryStructure(SecondaryStructure { group })];
        run(&topology, &path, analyses, 1, 1).tables
    };
    let whole = states("helices.dcd", &|_, x| x);
    // The corner of the cell comes to lie in one residue after the other.
    for nth in 0..8 {
        let wrapped = states("wrapped.dcd", &|cell, x| {
            let x = [0, 1, 2].map(|k| x[k] - positions[nth * positions.len() / 8][k]);
            let whole = cell.edge_sum(cell.fractions(x).map(f64::floor));
            [0, 1, 2].map(|k| x[k] - whole[k])
        });
        assert_eq!(whole, wrapped);
    }
}

#[test]
fn a_stride_picks_rows() {
    let topology = mini();
    let analyses = || vec![rmsd(&topology, Some(":1-24@CA"), ":1-24@CA")];
    let [all, some] =
        [1, 7].map(|stride| run(&topology, &data("mini_md.dcd"), analyses(), stride, 2));
    let [all, some] =
        [&all, &some].map(|report| report.tables[0].numbers("rmsd_angstrom").unwrap());
    assert_eq!(
        some,
        all.iter().step_by(7).copied().collect::<Vec<_>>(),
        "jumps are tracked over all frames"
    );
}

#[test]
fn a_growing_file_gives_the_frames_so_far() {
    let topology = mini();
    let whole = std::fs::read(data("mini_md.dcd")).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("so_far.dcd");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let analyses = || vec![rmsd(&topology, Some(":1-24@CA"), ":1-24@CA")];
    let report = run(&topology, &path, analyses(), 1, 2);
    assert_eq!((report.n_frames, report.n_analyzed), (29, 29));
    assert!(matches!(report.warnings[0], Warning::PartOfAFrame { .. }));
    let all = run(&topology, &data("mini_md.dcd"), analyses(), 1, 2);
    let [some, all] =
        [&report, &all].map(|report| report.tables[0].numbers("rmsd_angstrom").unwrap());
    assert_eq!(some, &all[..29]);
}

#[test]
fn what_cannot_be_analysed_is_refused() {
    let topology = mini();
    let trajectory = Series::open(&[data("mini_md.dcd")]).unwrap();
    let cancelled = AtomicBool::new(false);
    let refused = |topology: &Topology, analysis: Analysis| {
        let request = Request {
            analyses: vec![analysis],
            frames: FrameRange::default(),
            reference: None,
            images: Images::Unwrapped,
            damaged: Damaged::Fail,
        };
        let control =
            Control { n_threads: NonZeroUsize::MIN, progress: &|_, _| {}, cancelled: &cancelled };
        analyze(topology, &trajectory, &request, &control).unwrap_err()
    };
    assert!(matches!(refused(&topology, rmsd(&topology, None, ":WAT")), Error::EmptyGroup { .. }));
    let other = Structure::open(&data("mini_tri.pdb")).unwrap().topology;
    assert!(matches!(refused(&other, rmsd(&other, None, ":1")), Error::AtomCount { .. }));
    assert!(matches!(refused(&topology, rmsd(&other, None, ":1")), Error::ForeignGroup { .. }));
    let criterion = Criterion::Angle { max_distance: 0.0, min_angle_deg: 135.0 };
    let bonds = HydrogenBonds {
        criterion,
        ..HydrogenBonds::new(Between::Within(group(&topology, ":1-12")))
    };
    assert!(matches!(refused(&topology, Analysis::HydrogenBonds(bonds)), Error::Parameter { .. }));
}

#[test]
fn a_run_can_be_watched_and_stopped() {
    let topology = mini();
    let trajectory = Series::open(&[data("mini_md.dcd")]).unwrap();
    let request = Request {
        analyses: everything(&topology),
        frames: FrameRange::default(),
        reference: None,
        images: Images::Unwrapped,
        damaged: Damaged::Fail,
    };
    let (cancelled, seen) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let watch = |done, of| seen.lock().unwrap().push((done, of));
    let control = Control {
        n_threads: NonZeroUsize::new(3).unwrap(),
        progress: &watch,
        cancelled: &cancelled,
    };
    analyze(&topology, &trajectory, &request, &control).unwrap();
    {
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted() && seen.last() == Some(&(120, 120)), "{seen:?}");
    }
    let stop = |_, _| cancelled.store(true, Ordering::Relaxed);
    let control = Control { progress: &stop, ..control };
    assert!(matches!(analyze(&topology, &trajectory, &request, &control), Err(Error::Cancelled)));
}
