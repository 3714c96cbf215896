//! Frames that cannot be, and results that would rest on nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::error::Error as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use common::{Written, data, dcd, frames, parameters};
use molbox_analysis::{
    Analysis, AtomSet, Between, Control, Criterion, Damage, Damaged, Error, Files, FrameRange,
    Group, HydrogenBonds, Images, Mask, Params, Report, Request, Rmsd, Rmsf, Series, Structure,
    Superpose, SurfaceArea, Table, Topology, Values, ViolationKind, Warning, Weights, analyze,
    analyze_files,
};

fn control(cancelled: &AtomicBool) -> Control<'_> {
    Control { n_threads: NonZeroUsize::new(2).unwrap(), progress: &|_, _| {}, cancelled }
}

fn analyzed(trajectory: &Path, params: &Params) -> Result<Report, Error> {
    let files = Files {
        topology: &data("mini.pdb"),
        trajectory: &[trajectory.to_owned()],
        reference: None,
    };
    analyze_files(&files, params, &control(&AtomicBool::new(false)))
}

fn texts(masks: &[&str]) -> Vec<String> {
    masks.iter().map(|mask| (*mask).to_owned()).collect()
}

/// Analyses of two chains, which are followed over all frames, and of all kinds.
fn both_chains() -> Params {
    Params {
        distance_masks: texts(&[":1-12 :13-24"]),
        rmsd_masks: vec![texts(&[":1-24@CA"]), texts(&[":1-12@CA", ":13-24@CA"])],
        rmsf_masks: texts(&[":1-24@CA", ":1-12"]),
        hbond_distance: Some(3.2),
        ..Params::default()
    }
}

/// The first frames of `mini_md.dcd`.
fn some_frames() -> Vec<Written> {
    let frames = frames(&data("mini_md.dcd")).into_iter().take(24);
    frames.map(|(cell, positions)| (cell.as_ref().map(parameters), positions)).collect()
}

/// An atom of the first chain: `A:TRP1@CA`.
const ATOM: usize = 15;

fn damaged(name: &str, frame: usize, x: f32) -> PathBuf {
    let mut frames = some_frames();
    frames[frame].1[ATOM][1] = x;
    dcd(name, &frames)
}

fn message(error: &Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[test]
fn a_coordinate_that_cannot_be_ends_the_analysis_and_is_named() {
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -2e6] {
        let path = damaged("coordinate.dcd", 7, x);
        for params in [both_chains(), Params { downsample_frames: Some(7.0), ..Params::default() }]
        {
            let error = analyzed(&path, &params).unwrap_err();
            let text = message(&error);
            assert!(
                text.contains(
                    "coordinate.dcd, frame 7 (counted from 0): atom 16, A:TRP1@CA, is at ("
                ),
                "{text}"
            );
        }
    }
    // Frames that are not read do not matter.
    let one_chain = Params { rmsd_masks: vec![texts(&[":1-12@CA"])], ..Params::default() };
    let every_fifth = Params { downsample_frames: Some(5.0), ..one_chain };
    assert!(analyzed(&damaged("coordinate.dcd", 7, f32::NAN), &every_fifth).is_ok());
}

#[test]
fn a_jump_is_followed_over_no_damaged_frame() {
    // Chains are tracked over all frames, so that one which is not analysed matters here.
    let params = Params { downsample_frames: Some(5.0), ..both_chains() };
    assert!(matches!(
        analyzed(&damaged("between.dcd", 7, f32::NAN), &params),
        Err(Error::Damaged { frame: 7, damage: Damage::Position { atom: ATOM, .. }, .. })
    ));
}

#[test]
fn a_cell_that_cannot_be_ends_the_analysis_and_is_named() {
    for cell in [
        [f64::NAN, 30.0, 30.0, 90.0, 90.0, 90.0],
        [42.0, f64::INFINITY, 30.0, 90.0, 90.0, 90.0],
        [42.0, 30.0, 1e200, 90.0, 90.0, 90.0],
        [42.0, 30.0, 30.0, 90.0, f64::NAN, 90.0],
        [42.0, 30.0, 0.0, 90.0, 90.0, 90.0],
        [42.0, 30.0, 30.0, 30.0, 30.0, 120.0],
    ] {
        let mut frames = some_frames();
        frames[3].0 = Some(cell);
        let error = analyzed(&dcd("cell_of_frame.dcd", &frames), &both_chains()).unwrap_err();
        assert!(
            matches!(&error, Error::Damaged { frame: 3, damage: Damage::Cell { .. }, .. }),
            "{error}"
        );
    }
    let mut frames = some_frames();
    frames[3].0 = Some([0.0; 6]);
    let error = analyzed(&dcd("cell_of_frame.dcd", &frames), &both_chains()).unwrap_err();
    assert!(matches!(&error, Error::Damaged { frame: 3, damage: Damage::NoCell, .. }), "{error}");
}

#[test]
fn a_hole_in_a_file_is_no_frame() {
    let mut frames = some_frames();
    frames[3].1.fill([0.0; 3]);
    let error = analyzed(&dcd("hole.dcd", &frames), &both_chains()).unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { frame: 3, damage: Damage::OnePoint { .. }, .. }),
        "{error}"
    );
}

/// Tables without the numbers and times of frames, which are others where frames are left out, and
/// without episodes, which such frames cut.
fn values(report: &Report) -> Vec<Vec<Values>> {
    let is_compared = |name: &str| {
        let others = ["frame", "time_ps", "lifetime_ps", "block_ps", "episodes"];
        !others.iter().any(|end| name.ends_with(end))
    };
    let columns = |table: &Table| {
        table
            .columns
            .iter()
            .filter(|column| is_compared(&column.name))
            .map(|column| column.values.clone())
            .collect()
    };
    report.tables.iter().map(columns).collect()
}

#[test]
fn damaged_frames_are_left_out_by_request_as_if_they_were_not_there() {
    let whole = some_frames();
    let left_out = [0, 7, 8, 23];
    let mut with_damage = whole.clone();
    with_damage[0].1[ATOM][0] = f32::NAN;
    with_damage[7].0 = Some([f64::NAN; 6]);
    with_damage[8].1.fill([1.0; 3]);
    with_damage[23].1[ATOM][2] = f32::INFINITY;
    let without: Vec<_> = whole
        .into_iter()
        .enumerate()
        .filter(|(n, _)| !left_out.contains(n))
        .map(|(_, frame)| frame)
        .collect();
    let params = Params { skip_damaged_frames: true, ..both_chains() };
    let found = analyzed(&dcd("with_damage.dcd", &with_damage), &params).unwrap();
    let expected = analyzed(&dcd("without_damage.dcd", &without), &params).unwrap();
    assert_eq!(values(&found), values(&expected));
    assert_eq!((found.n_frames, found.n_analyzed), (24, 20));
    assert!(
        found.warnings.contains(&Warning::LeftOut { frames: left_out.to_vec() }),
        "{:?}",
        found.warnings
    );
    assert!(found.to_json().contains("4 damaged frames were left out: 0, 7-8, 23; "));
    let Values::Integers(frames) = &found.tables[0].column("frame").unwrap().values else {
        panic!("no numbers")
    };
    assert_eq!(frames.iter().filter(|frame| left_out.contains(&(**frame as usize))).count(), 0);
    assert_eq!(found.tables[0].numbers("time_ps").unwrap().len(), 20);
    let none = analyzed(&data("mini_md.dcd"), &params).unwrap();
    assert_eq!(none, analyzed(&data("mini_md.dcd"), &both_chains()).unwrap());
}

#[test]
fn a_stride_over_damaged_frames_keeps_to_its_frames() {
    let mut frames = some_frames();
    for n in [5, 6, 10] {
        frames[n].1[ATOM][0] = f32::NAN;
    }
    let params =
        Params { skip_damaged_frames: true, downsample_frames: Some(5.0), ..both_chains() };
    let report = analyzed(&dcd("stride_damage.dcd", &frames), &params).unwrap();
    let Values::Integers(frames) = &report.tables[0].column("frame").unwrap().values else {
        panic!("no numbers")
    };
    assert_eq!(*frames, [0, 15, 20]);
    // Frame 6 matters as well, since the chains are followed over it.
    assert!(
        report.warnings.contains(&Warning::LeftOut { frames: vec![5, 6, 10] }),
        "{:?}",
        report.warnings
    );
}

#[test]
fn nothing_but_damaged_frames_is_an_error() {
    let mut frames = some_frames();
    frames.iter_mut().for_each(|(_, positions)| positions[ATOM][0] = f32::NAN);
    let params = Params { skip_damaged_frames: true, ..both_chains() };
    let error = analyzed(&dcd("all_damaged.dcd", &frames), &params).unwrap_err();
    assert!(matches!(error, Error::AllDamaged { n_frames: 24, .. }));
    assert!(
        message(&error).contains("frame 0 (counted from 0): atom 16, A:TRP1@CA"),
        "{}",
        message(&error)
    );
}

/// A frame of XTC of so few atoms that it is not compressed: time in ps, edges of the cell in nm.
fn xtc_frame(step: i32, time_ps: f32, edges_nm: [f32; 9], positions_nm: &[[f32; 3]]) -> Vec<u8> {
    let n_atoms = positions_nm.len() as i32;
    let mut bytes = [1995, n_atoms, step].map(i32::to_be_bytes).concat();
    bytes.extend([time_ps].iter().chain(&edges_nm).flat_map(|x| x.to_be_bytes()));
    bytes.extend(n_atoms.to_be_bytes());
    bytes.extend(positions_nm.iter().flatten().flat_map(|x| x.to_be_bytes()));
    bytes
}

const THREE_ATOMS: &str = "\
ATOM      1  N   ALA A   1       0.000   0.000   0.000  1.00  0.00           N
ATOM      2  CA  ALA A   1       1.450   0.000   0.000  1.00  0.00           C
ATOM      3  C   ALA A   1       2.000   1.400   0.000  1.00  0.00           C
";

fn temporary(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

fn of_three(name: &str, xtc: &[Vec<u8>], params: &Params) -> Result<Report, Error> {
    let topology = temporary(&format!("{name}.pdb"), THREE_ATOMS);
    let trajectory = temporary(&format!("{name}.xtc"), xtc.concat());
    let files = Files { topology: &topology, trajectory: &[trajectory], reference: None };
    analyze_files(&files, params, &control(&AtomicBool::new(false)))
}

const BOX: [f32; 9] = [3.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 3.0];
const AT: [[f32; 3]; 3] = [[0.0, 0.0, 0.0], [0.145, 0.0, 0.0], [0.2, 0.14, 0.0]];

#[test]
fn xtc_is_held_to_the_same() {
    let params = Params { rmsd_masks: vec![texts(&["*"])], ..Params::default() };
    let mut nowhere = AT;
    nowhere[2][1] = f32::NAN;
    let mut cell = BOX;
    cell[4] = f32::NAN;
    for (name, second, is_expected) in [
        ("xtc_position", xtc_frame(1, 1.0, BOX, &nowhere), "atom 3, A:ALA1@C, is at"),
        ("xtc_cell", xtc_frame(1, 1.0, cell, &AT), "is no periodic cell"),
        ("xtc_no_cell", xtc_frame(1, 1.0, [0.0; 9], &AT), "no periodic cell, though"),
    ] {
        let frames = [xtc_frame(0, 0.0, BOX, &AT), second, xtc_frame(2, 2.0, BOX, &AT)];
        let text = message(&of_three(name, &frames, &params).unwrap_err());
        assert!(text.contains(is_expected) && text.contains("frame 1"), "{text}");
        let report =
            of_three(name, &frames, &Params { skip_damaged_frames: true, ..params.clone() })
                .unwrap();
        assert_eq!(report.tables[0].numbers("time_ps"), Some(&[0.0, 2.0][..]));
    }
}

#[test]
fn times_that_are_none_are_left_out_with_a_warning() {
    let params = Params { rmsd_masks: vec![texts(&["*"])], ..Params::default() };
    for times in [[0.0, f32::NAN, 2.0], [0.0, 3.0, 2.0], [0.0, 1.0, f32::INFINITY], [5.0; 3]] {
        let frames = times.map(|time_ps| xtc_frame(0, time_ps, BOX, &AT));
        let report = of_three("times", &frames, &params).unwrap();
        assert_eq!(report.tables[0].column("time_ps"), None);
        assert!(report.warnings.contains(&Warning::NoTimes), "{:?}", report.warnings);
    }
    let frames = [0.2, 0.4, 100_000.6].map(|time_ps| xtc_frame(0, time_ps, BOX, &AT));
    let report = of_three("times", &frames, &params).unwrap();
    assert_eq!(report.tables[0].numbers("time_ps"), Some(&[0.2, 0.4, 100_000.6][..]));
}

#[test]
fn where_steps_of_time_are_unequal_lifetimes_are_counted_in_frames() {
    let params = Params {
        contact_masks: texts(&["@N @C"]),
        contact_distance: Some(3.0),
        ..Params::default()
    };
    let topology = THREE_ATOMS.replace("C   ALA A   1", "C   GLY A   2");
    let topology = temporary("uneven.pdb", topology);
    // Apart in the fourth frame, and the others in contact.
    let apart = [AT[0], AT[1], [0.2, 0.9, 0.0]];
    let analyzed = |times: &[f32]| {
        let frame = |(nth, time_ps): (usize, &f32)| {
            xtc_frame(0, *time_ps, BOX, if nth == 3 { &apart } else { &AT })
        };
        let frames: Vec<Vec<u8>> = times.iter().enumerate().map(frame).collect();
        let trajectory = [temporary("uneven.xtc", frames.concat())];
        let files = Files { topology: &topology, trajectory: &trajectory, reference: None };
        analyze_files(&files, &params, &control(&AtomicBool::new(false))).unwrap()
    };
    let even: Vec<f32> = (0..12_i16).map(|nth| 3e5 + 0.1 * f32::from(nth)).collect();
    let report = analyzed(&even);
    assert!(!report.warnings.contains(&Warning::UnevenTimes), "32 bits of 0.3 µs");
    let rounded = |report: &Report| {
        let rounded = report.warnings.iter().find_map(|warning| match warning {
            Warning::RoundedTimes { spacing_ps, step_ps } => Some((*spacing_ps, *step_ps)),
            _ => None,
        });
        let contacts = report.tables.iter().find(|table| table.kind == "contacts").unwrap();
        (rounded, contacts.numbers("longest_lifetime_ps").map(|numbers| numbers[0]))
    };
    // At a millisecond 32 bits have one time in 64 ps.
    let far = |step: f32| (0..12_i16).map(|nth| 1e9 + step * f32::from(nth)).collect::<Vec<_>>();
    let report = analyzed(&far(70.0));
    assert!(!report.warnings.contains(&Warning::UnevenTimes), "{:?}", report.warnings);
    assert_eq!(rounded(&report), (Some((64.0, None)), None), "64 of 770 ps are too much");
    let texts: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    let told = "round them to 64 ps; lifetimes and blocks are counted in frames";
    assert!(texts.iter().any(|text| text.contains(told)), "{texts:?}");
    let (found, lifetime) = rounded(&analyzed(&far(170.0)));
    let step_ps = found.unwrap().1.unwrap();
    assert!((step_ps - 170.0).abs() < 64.0 / 11.0, "{step_ps}");
    assert!((lifetime.unwrap() - 8.0 * 170.0).abs() < 64.0, "{lifetime:?}");
    // As far away, and nothing is lost.
    assert_eq!(rounded(&analyzed(&far(6400.0))), (None, Some(8.0 * 6400.0)));
    // Ten frames between two parts are missing: 3 and 8 in a row are no 5 and 13 steps.
    let gap: Vec<f32> =
        (0..12_i16).map(|nth| f32::from(if nth < 6 { nth } else { nth + 10 })).collect();
    let report = analyzed(&gap);
    assert!(report.warnings.contains(&Warning::UnevenTimes), "{:?}", report.warnings);
    let contacts = report.tables.iter().find(|table| table.kind == "contacts").unwrap();
    assert_eq!(contacts.numbers("mean_lifetime_ps"), None);
    assert_eq!(contacts.numbers("mean_lifetime_frames"), Some(&[5.5][..]));
    assert_eq!(contacts.numbers("longest_lifetime_frames"), Some(&[8.0][..]));
    let blocks = report.tables.iter().find(|table| table.kind == "block_averages").unwrap();
    assert_eq!(blocks.column("block_ps"), None);
}

#[test]
fn a_contact_is_not_known_over_damaged_frames_and_its_episodes_end_there() {
    let params = Params {
        contact_masks: texts(&["@N @C"]),
        contact_distance: Some(3.0),
        skip_damaged_frames: true,
        ..Params::default()
    };
    let topology = THREE_ATOMS.replace("C   ALA A   1", "C   GLY A   2");
    let topology = temporary("episodes.pdb", topology);
    let mut nowhere = BOX;
    nowhere[0] = f32::NAN;
    // There in all frames: 0 to 190 ps. Columns: frames, episodes, cut off, mean and longest in ps.
    let found = |damaged: &[i16], stride: f64| {
        let edges = |nth| if damaged.contains(&nth) { nowhere } else { BOX };
        let frames: Vec<Vec<u8>> =
            (0..20_i16).map(|nth| xtc_frame(0, 10.0 * f32::from(nth), edges(nth), &AT)).collect();
        let trajectory = [temporary("episodes.xtc", frames.concat())];
        let files = Files { topology: &topology, trajectory: &trajectory, reference: None };
        let params = Params { downsample_frames: Some(stride), ..params.clone() };
        let report = analyze_files(&files, &params, &control(&AtomicBool::new(false))).unwrap();
        let contacts = report.tables.iter().find(|table| table.kind == "contacts").unwrap();
        let counts = ["frames", "episodes", "censored_episodes"].map(|name| {
            let Values::Integers(counts) = &contacts.column(name).unwrap().values else {
                panic!("no counts")
            };
            counts[0]
        });
        let times = ["mean_lifetime_ps", "longest_lifetime_ps"];
        (counts, times.map(|name| contacts.numbers(name).unwrap()[0]))
    };
    assert_eq!(found(&[], 1.0), ([20, 1, 1], [200.0, 200.0]));
    assert_eq!(found(&[7, 8, 9, 10], 1.0), ([16, 2, 2], [80.0, 90.0]));
    assert_eq!(found(&[7], 1.0), ([19, 2, 2], [95.0, 120.0]));
    assert_eq!(found(&[0, 19], 1.0), ([18, 1, 1], [180.0, 180.0]));
    assert_eq!(found(&[4, 12], 1.0), ([18, 3, 3], [60.0, 70.0]));
    // Of every third frame 3 and 12 are read, and 5 is none of them.
    assert_eq!(found(&[5, 12], 3.0), ([6, 2, 2], [90.0, 120.0]));
}

#[test]
fn one_frame_has_no_fluctuation() {
    let frames = some_frames();
    let one = dcd("one_frame.dcd", &frames[..1]);
    let all = dcd("more_frames.dcd", &frames);
    for (path, downsample_frames) in [(&one, None), (&all, Some(24.0)), (&all, Some(1e15))] {
        let report = analyzed(path, &Params { downsample_frames, ..both_chains() }).unwrap();
        assert_eq!(report.n_analyzed, 1);
        assert!(report.warnings.contains(&Warning::OneFrame), "{:?}", report.warnings);
        let fluctuations: Vec<_> =
            report.tables.iter().filter(|table| table.kind.starts_with("rmsf")).collect();
        assert_eq!(fluctuations.len(), 3);
        for table in fluctuations {
            assert_eq!(table.n_rows(), 0);
            assert_eq!(table.to_csv().lines().count(), 1);
            assert!(table.to_parquet().starts_with(b"PAR1"));
        }
        assert!(report.tables[1].numbers("rmsd_angstrom").unwrap()[0] < 1e-12);
    }
}

fn invalid(params: &Params) -> Vec<(String, ViolationKind)> {
    match analyzed(&data("mini_md.dcd"), params) {
        Err(Error::Params(problems)) => {
            problems.0.into_iter().map(|p| (p.at.to_string(), p.kind)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_atom_is_not_superposed() {
    let params = Params {
        rmsd_masks: vec![texts(&[":1@CA"]), texts(&["@CA", ":1@CA"]), texts(&[":2@CA", "@CA"])],
        rmsf_masks: texts(&["@CA", ":3@CA"]),
        ..Params::default()
    };
    let problems = invalid(&params);
    let places: Vec<_> = problems.iter().map(|(at, _)| at.as_str()).collect();
    assert_eq!(places, ["rmsd_masks[0][0]", "rmsd_masks[2][0]", "rmsf_masks[1]"]);
    assert!(problems.iter().all(|(_, problem)| matches!(problem, ViolationKind::OneAtom { .. })));
}

#[test]
fn what_is_measured_after_a_rotation_that_is_open_is_refused() {
    let two = |measure: Option<&str>| {
        let masks = [":1@C,O"].into_iter().chain(measure).collect::<Vec<_>>();
        analyzed(
            &data("mini_md.dcd"),
            &Params { rmsd_masks: vec![texts(&masks)], ..Params::default() },
        )
    };
    let error = two(Some("@CA")).unwrap_err();
    assert!(matches!(&error, Error::NoRotation { label, .. } if label == ":1@C,O"), "{error}");
    let report = two(None).unwrap();
    let deviations = report.tables[0].numbers("rmsd_angstrom").unwrap();
    assert!(
        deviations[1..].iter().all(|d| (1e-6..0.1).contains(d)),
        "half of what the bond has stretched"
    );
}

fn read(text: &str) -> Structure {
    Structure::from_pdb(text).unwrap()
}

fn everything(topology: &Topology) -> Group {
    Group { label: "*".to_owned(), atoms: AtomSet::all(topology.n_atoms()) }
}

fn run(structure: &Structure, frames: &[Written], analysis: Analysis) -> Result<Report, Error> {
    let path = dcd(
        &format!("run_{}.dcd", std::thread::current().name().unwrap().replace(':', "_")),
        frames,
    );
    let request = Request {
        analyses: vec![analysis],
        frames: FrameRange::default(),
        reference: None,
        images: Images::Unwrapped,
        damaged: Damaged::Fail,
    };
    let trajectory = Series::open(&[path]).unwrap();
    analyze(&structure.topology, &trajectory, &request, &control(&AtomicBool::new(false)))
}

fn positions(structure: &Structure) -> Vec<[f32; 3]> {
    structure.positions.iter().map(|position| position.map(|x| x as f32)).collect()
}

#[test]
fn hydrogen_bonds_that_cannot_be_are_not_counted_as_none() {
    let frames = [0.0, 1.0].map(|time_ps| xtc_frame(0, time_ps, BOX, &AT));
    for (params, field) in [
        (
            Params { hbond_distance: Some(3.0), hbond_angle: Some(120.0), ..Params::default() },
            "hbond_distance",
        ),
        (Params { hbond_angle: Some(120.0), ..Params::default() }, "hbond_angle"),
    ] {
        let Err(Error::Params(problems)) = of_three("no_donor", &frames, &params) else {
            panic!("not refused")
        };
        assert_eq!(problems.0[0].at.to_string(), field);
        assert!(matches!(problems.0[0].kind, ViolationKind::NoHydrogenBonds { .. }), "{problems}");
    }
    let report = of_three("no_donor", &frames, &Params::default()).unwrap();
    assert!(report.tables.iter().all(|table| !table.kind.starts_with("hydrogen")));
    assert!(
        matches!(&report.warnings[0], Warning::NoHydrogenBonds { .. }),
        "{:?}",
        report.warnings
    );

    // A donor that has no acceptor but itself; and with one.
    let methanol = read(
        "\
HETATM    1  C   MOH A   1       0.000   0.000   0.000  1.00  0.00           C
HETATM    2  O   MOH A   1       1.400   0.000   0.000  1.00  0.00           O
HETATM    3  H   MOH A   1       1.800   0.900   0.000  1.00  0.00           H
",
    );
    let bonds = |between| Analysis::HydrogenBonds(HydrogenBonds::new(between));
    let frame = [(None, positions(&methanol))];
    let group = everything(&methanol.topology);
    let error = run(&methanol, &frame, bonds(Between::Within(group.clone()))).unwrap_err();
    assert!(matches!(&error, Error::NoHydrogenBonds { .. }), "{error}");
}

#[test]
fn atoms_in_one_point_make_neither_angles_nor_bonds() {
    let mut structure = read(
        "\
HETATM    1  O   MOH A   1       1.400   0.000   0.000  1.00  0.00           O
HETATM    2  H   MOH A   1       1.400   0.900   0.000  1.00  0.00           H
HETATM    3  O   MOH A   2       1.400   2.700   0.000  1.00  0.00           O
",
    );
    let group = everything(&structure.topology);
    let count = |structure: &Structure, criterion| {
        let bonds =
            HydrogenBonds { criterion, ..HydrogenBonds::new(Between::Within(group.clone())) };
        let report =
            run(structure, &[(None, positions(structure))], Analysis::HydrogenBonds(bonds))
                .unwrap();
        report.tables[0].n_rows()
    };
    let criteria = [Criterion::default(), Criterion::BakerHubbard, Criterion::WernetNilsson];
    assert_eq!(criteria.map(|criterion| count(&structure, criterion)), [1; 3]);
    for (moved, onto) in [(1, 0), (1, 2), (2, 0)] {
        let before = structure.positions[moved];
        structure.positions[moved] = structure.positions[onto];
        assert_eq!(
            criteria.map(|criterion| count(&structure, criterion)),
            [0; 3],
            "{moved} on {onto}"
        );
        structure.positions[moved] = before;
    }
}

#[test]
fn spheres_with_one_centre_have_one_surface() {
    let carbons = |n: usize, element: &str| -> String {
        let line = |k| {
            format!(
                "HETATM{:5}  X{k}  LIG A   1       0.000   0.000   0.000  1.00  0.00          \
                 {element:>2}\n",
                k + 1
            )
        };
        (0..n).map(line).collect()
    };
    let area = |text: &str| {
        let structure = read(text);
        let group = everything(&structure.topology);
        let surface = Analysis::SurfaceArea(SurfaceArea { group, probe_radius: 1.4 });
        let report =
            run(&structure, &[(None, vec![[0.0; 3]; structure.topology.n_atoms()])], surface)
                .unwrap();
        report.tables[1].numbers("area_angstrom2").unwrap()[0]
    };
    let one = area(&carbons(1, "C"));
    assert!((one - 4.0 * std::f64::consts::PI * 3.1 * 3.1).abs() < 1e-9);
    assert_eq!(area(&carbons(2, "C")), one);
    assert_eq!(area(&(carbons(1, "C") + &carbons(1, "H"))), one, "the larger covers the smaller");
    assert_eq!(area(&(carbons(1, "H") + &carbons(1, "C"))), one);
}

const UNKNOWN: &str = "\
HETATM    1  C1  LIG A   1       0.000   0.000   0.000  1.00  0.00           C
HETATM    2  C2  LIG A   1       1.400   0.000   0.000  1.00  0.00           C
HETATM    3  ?1  LIG A   1       1.400   1.500   0.000  1.00  0.00
HETATM    4  ?2  LIG A   2       8.400   1.500   0.000  1.00  0.00
HETATM    5  ?3  LIG A   2       8.400   2.500   1.000  1.00  0.00
";

#[test]
fn atoms_without_a_mass_are_reported_where_mass_weighs() {
    let structure = read(UNKNOWN);
    let frames: Vec<Written> = (0..3_i16)
        .map(|n| {
            let mut positions = positions(&structure);
            positions[4][1] += 0.5 * f32::from(n);
            (None, positions)
        })
        .collect();
    let select = |mask: &str| {
        Group::select(&Mask::parse(mask).unwrap(), &structure.topology, None).unwrap().0
    };
    let rmsd = Rmsd { fit: Some(select("*")), measures: vec![select("*")], weights: Weights::Mass };
    let report = run(&structure, &frames, Analysis::Rmsd(rmsd.clone())).unwrap();
    let of_mass: Vec<_> = report
        .warnings
        .iter()
        .filter(|w| matches!(w, Warning::NoMass { n_atoms: 3, .. }))
        .collect();
    assert_eq!(of_mass.len(), 1, "{:?}", report.warnings);
    let error = run(&structure, &frames, Analysis::Rmsd(Rmsd { fit: Some(select(":2")), ..rmsd }))
        .unwrap_err();
    assert!(matches!(&error, Error::NoMass { label } if label == ":2"), "{error}");
    let rmsf = Rmsf { group: select("*"), superpose: Superpose::Nothing, fit: None };
    let report = run(&structure, &frames, Analysis::Rmsf(rmsf)).unwrap();
    let atoms = report.tables[0].numbers("rmsf_angstrom").unwrap();
    let residues = report.tables[1].numbers("rmsf_angstrom").unwrap();
    assert!((atoms[4] - (1.0_f64 / 6.0).sqrt()).abs() < 1e-6, "0, 0.5 and 1 Å about 0.5 Å");
    assert!(
        (residues[1] - atoms[4] / 2.0).abs() < 1e-12,
        "no atom of the residue has a mass, all count alike"
    );
    let surface = SurfaceArea { group: select(":2"), probe_radius: 1.4 };
    let error = run(&structure, &frames, Analysis::SurfaceArea(surface)).unwrap_err();
    assert!(matches!(error, Error::NoRadius { .. }));
}
