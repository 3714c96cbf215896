//! From files and parameters in words to tables in every format.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use common::{data, dcd, frames};
use molbox_analysis::{
    AtomSet, Control, Error, Files, Frame, InvalidParams, Params, Report, Series, Structure,
    Trajectory, Values, ViolationKind, Warning, analyze_files,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

fn texts(masks: &[&str]) -> Vec<String> {
    masks.iter().map(|mask| (*mask).to_owned()).collect()
}

fn analyzed(trajectory: &[PathBuf], params: &Params) -> Result<Report, Error> {
    let cancelled = AtomicBool::new(false);
    let control =
        Control { n_threads: NonZeroUsize::MIN, progress: &|_, _| {}, cancelled: &cancelled };
    let files = Files { topology: &data("mini.pdb"), trajectory, reference: None };
    analyze_files(&files, params, &control)
}

fn mini() -> [PathBuf; 1] {
    [data("mini_md.dcd")]
}

/// A file with some frames of `mini_md.dcd`, written after its header.
fn part(name: &str, frames: std::ops::Range<usize>) -> PathBuf {
    let whole = std::fs::read(data("mini_md.dcd")).unwrap();
    let trajectory = Trajectory::open(&data("mini_md.dcd")).unwrap();
    let frame_bytes = 56 + 3 * (4 * trajectory.n_atoms() + 8);
    let header_bytes = whole.len() - 60 * frame_bytes;
    let frame = |n: usize| header_bytes + n * frame_bytes;
    let mut bytes =
        [&whole[..header_bytes], &whole[frame(frames.start)..frame(frames.end)]].concat();
    bytes[8..12].copy_from_slice(&(frames.len() as i32).to_le_bytes());
    // The first step, so that time goes on.
    let [first, interval] =
        [12, 16].map(|at| i32::from_le_bytes(whole[at..at + 4].try_into().unwrap()));
    bytes[12..16].copy_from_slice(&(first + frames.start as i32 * interval).to_le_bytes());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn everything() -> Params {
    Params {
        downsample_frames: Some(2.0),
        distance_masks: texts(&[":1@CA :12@CA", ":1-12", ":13-24"]),
        rmsd_masks: vec![texts(&["@CA&@/C"]), texts(&[":1-12@CA", ":13-24@CA", ":13-24&!@/H"])],
        rmsf_masks: texts(&[":1-12"]),
        hbond_angle: Some(120.0),
        ..Params::default()
    }
}

#[test]
fn parameters_become_tables() {
    let report = analyzed(&mini(), &everything()).unwrap();
    let names: Vec<_> = report.tables.iter().map(|table| table.name.as_str()).collect();
    let expected = [
        "distance",
        "distance_2",
        "rmsd",
        "rmsd_2",
        "rmsf",
        "rmsf_by_residue",
        "hydrogen_bonds",
        "hydrogen_bonds_by_frame",
        "convergence",
        "block_averages",
    ];
    assert_eq!(names, expected);
    assert_eq!((report.n_frames, report.n_analyzed, report.stride), (60, 30, 2));
    assert_eq!(
        report.tables[3].columns.iter().filter(|column| column.unit == Some("Å")).count(),
        2
    );
    assert!(
        report.tables.iter().all(|table| !table.definition.is_empty() && !table.title.is_empty())
    );
}

#[test]
fn nothing_asked_for_is_the_usual() {
    let report = analyzed(&mini(), &Params::default()).unwrap();
    let names: Vec<_> = report.tables.iter().map(|table| table.name.as_str()).collect();
    let usual = ["rmsd", "rmsf", "hydrogen_bonds", "hydrogen_bonds_by_frame"];
    assert_eq!(names[..4], usual);
    assert_eq!(names[4..], ["convergence", "block_averages"]);
    assert_eq!(report.tables[1].n_rows(), 24, "an atom of each residue");
}

fn invalid(params: &Params) -> Vec<(String, ViolationKind)> {
    let places = |InvalidParams(problems)| {
        problems.into_iter().map(|p| (p.at.to_string(), p.kind)).collect()
    };
    match analyzed(&mini(), params) {
        Err(Error::Params(problems)) => places(problems),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_is_wrong_is_reported_with_its_place() {
    let problems = invalid(&Params {
        downsample_frames: Some(1.5),
        distance_masks: texts(&[":1 :2 :3", ":1 :2@"]),
        rmsd_masks: vec![texts(&["@CA"]), vec![], texts(&["@CA", "CA"])],
        rmsf_masks: texts(&["@CA", ""]),
        hbond_angle: Some(f64::NAN),
        hbond_distance: Some(0.0),
        ..Params::default()
    });
    let places: Vec<_> = problems.iter().map(|(at, _)| at.as_str()).collect();
    let expected = [
        "downsample_frames",
        "distance_masks[0]",
        "distance_masks[1]",
        "rmsd_masks[1]",
        "rmsd_masks[2][1]",
        "rmsf_masks[1]",
        "hbond_angle",
        "hbond_distance",
    ];
    assert_eq!(places, expected);
    assert!(matches!(problems[1].1, ViolationKind::NotTwo { n_masks: 3 }));
    assert!(
        matches!(&problems[2].1, ViolationKind::Parse(error) if error.column == 7),
        "{:?}",
        problems[2]
    );
}

#[test]
fn a_mask_that_selects_nothing_is_named_with_a_hint() {
    let problems =
        invalid(&Params { rmsf_masks: texts(&["@CA", ":WAT", ":99999"]), ..Params::default() });
    let messages: Vec<_> =
        problems.iter().map(|(at, problem)| format!("{at}: {problem}")).collect();
    assert!(
        messages[0].starts_with("rmsf_masks[1]: \":WAT\" selects no atom; ")
            && messages[0].contains("HOH")
    );
    assert!(messages[1].starts_with("rmsf_masks[2]"), "{messages:?}");
    assert_eq!(messages.len(), 2);
    let odd = invalid(&Params { distance_masks: texts(&[":1", ":2", ":3"]), ..Params::default() });
    assert_eq!((odd[0].0.as_str(), &odd[0].1), ("distance_masks[2]", &ViolationKind::Unpaired));
}

#[test]
fn masks_warn_at_their_place() {
    let params = Params { rmsd_masks: vec![texts(&["::A:13@CA"])], ..Params::default() };
    let report = analyzed(&mini(), &params).unwrap();
    assert!(
        matches!(&report.warnings[0], Warning::Mask { at, .. } if at.to_string() == "rmsd_masks[0][0]")
    );
    assert!(report.to_json().contains("rmsd_masks[0][0]: column 4"), "{:?}", report.warnings);
}

#[test]
fn what_several_analyses_have_in_common_is_warned_of_once() {
    let params = Params {
        rmsd_masks: vec![texts(&["@CA"])],
        rmsf_masks: texts(&["@CA"]),
        gyration_masks: texts(&["@CA"]),
        ..Params::default()
    };
    let report = analyzed(&mini(), &params).unwrap();
    let warnings: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("@CA has atoms of 2 molecules"), "{warnings:?}");
    assert!(warnings[1].contains("of @CA the molecule of B:SER0@N is written apart"));
}

#[test]
fn nothing_is_said_of_periodic_images_where_there_are_none() {
    let frames = frames(&data("mini_md.dcd")).into_iter().take(3);
    let frames: Vec<_> = frames.map(|(_, positions)| (None, positions)).collect();
    let trajectory = [dcd("without_cell.dcd", &frames)];
    let params = Params { rmsf_masks: texts(&[":1-24@CA"]), ..Params::default() };
    let report = analyzed(&trajectory, &params).unwrap();
    let texts: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(!texts.iter().any(|text| text.contains("periodic image")), "{texts:?}");
}

#[test]
fn a_mask_that_goes_on_into_the_water_is_pointed_out() {
    let warned = |mask: &str| {
        let params = Params { rmsf_masks: texts(&[mask]), ..Params::default() };
        let report = analyzed(&mini(), &params).unwrap();
        let solvent_too = |warning: &&Warning| matches!(warning, Warning::SolventToo { .. });
        report.warnings.iter().find(solvent_too).map(ToString::to_string)
    };
    assert_eq!(warned(":1-24"), None);
    assert_eq!(warned(":HOH"), None, "water alone is meant");
    let said = warned(":20-30@CA,O").unwrap();
    assert!(said.starts_with("rmsf_masks[0]: 6 of the "), "{said}");
    assert!(said.contains("that :20-30@CA,O selects are of water and ions, the first "), "{said}");
}

#[test]
fn parts_of_a_trajectory_are_one() {
    let parts = [part("part_1.dcd", 0..17), part("part_2.dcd", 17..18), part("part_3.dcd", 18..60)];
    let [whole, joined] =
        [&mini()[..], &parts[..]].map(|files| analyzed(files, &everything()).unwrap());
    assert_eq!(whole, joined);
    let swapped = [parts[2].clone(), parts[0].clone()];
    let report = analyzed(&swapped, &everything()).unwrap();
    assert!(report.tables[0].column("time_ps").is_none(), "time does not go back");
    assert_eq!(report.n_frames, 59);
    let foreign = [data("mini_md.dcd"), data("mini_tri.dcd")];
    assert!(matches!(analyzed(&foreign, &everything()), Err(Error::Parts { .. })));
    assert!(matches!(analyzed(&[], &everything()), Err(Error::NoFrames)));
}

#[test]
fn formats_may_be_mixed_in_a_series() {
    let topology = Structure::open(&data("mini_tri.pdb")).unwrap().topology;
    let files = [data("mini_tri.xtc"), data("mini_tri.dcd")];
    let series = Series::open(&files).unwrap();
    let [xtc, dcd] = files.map(|file| Trajectory::open(&file).unwrap());
    assert_eq!(series.n_frames(), xtc.n_frames() + dcd.n_frames());
    let mut atoms = AtomSet::none(topology.n_atoms());
    [3, 40, 2000].into_iter().for_each(|atom| atoms.insert(atom));
    let plan = series.read_plan(&atoms);
    let (mut here, mut there) = (Frame::new(), Frame::new());
    for (frame, of, n) in [(2, &xtc, 2), (xtc.n_frames() + 4, &dcd, 4)] {
        let own = of.read_plan(&atoms);
        series.read(frame, &plan, &mut here).unwrap();
        of.read(n, &own, &mut there).unwrap();
        for atom in atoms.iter() {
            let at = [(&here, &plan), (&there, &own)]
                .map(|(frame, plan)| frame.position(plan.slot(atom).unwrap()));
            assert_eq!(at[0], at[1]);
        }
    }
}

#[test]
fn a_file_that_was_cut_off_says_so() {
    let whole = std::fs::read(data("mini_md.dcd")).unwrap();
    let trajectory = Trajectory::open(&data("mini_md.dcd")).unwrap();
    let frame_bytes = 56 + 3 * (4 * trajectory.n_atoms() + 8);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cut_between.dcd");
    std::fs::write(&path, &whole[..whole.len() - 3 * frame_bytes]).unwrap();
    let report = analyzed(&[path], &everything()).unwrap();
    assert_eq!(report.n_frames, 57);
    assert!(
        report.warnings.contains(&Warning::MissingFrames { n_frames: 3 }),
        "{:?}",
        report.warnings
    );
}

#[test]
fn a_structure_in_pieces_that_has_no_cell_is_warned_of() {
    let text = std::fs::read_to_string(data("mini.pdb")).unwrap();
    let warnings = |name: &str, text: &str| {
        let topology = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&topology, text).unwrap();
        let trajectory = [data("mini_md.dcd")];
        let files = Files { topology: &topology, trajectory: &trajectory, reference: None };
        let params = Params { gyration_masks: vec![":1-12".to_owned()], ..Params::default() };
        let cancelled = AtomicBool::new(false);
        let n_threads = NonZeroUsize::MIN;
        let control = Control { n_threads, progress: &|_, _| {}, cancelled: &cancelled };
        analyze_files(&files, &params, &control).unwrap().warnings
    };
    let is_far = |warning: &Warning| matches!(warning, Warning::FarHydrogens { .. });
    assert!(!warnings("whole.pdb", &text).iter().any(is_far));
    // H2 of the first residue at the other face.
    let torn = text.replacen("   0.279   2.437  -8.123", "  42.279   2.437  -8.123", 1);
    assert_ne!(torn, text);
    assert!(!warnings("torn_with_cell.pdb", &torn).iter().any(is_far));
    let torn: String = torn
        .lines()
        .filter(|line| !line.starts_with("CRYST1"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(warnings("torn.pdb", &torn).contains(&Warning::FarHydrogens { n_atoms: 1 }));
}

#[test]
fn atoms_that_differ_from_a_trajectory_s_are_told_with_alternate_locations() {
    let text = std::fs::read_to_string(data("mini.pdb")).unwrap();
    let refusal = |name: &str, text: &str, frame: usize| {
        let topology = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&topology, text).unwrap();
        let positions = vec![[1.0, 2.0, 3.0_f32]; frame];
        let trajectory = [dcd(&format!("{name}.dcd"), &[(None, positions)])];
        let files = Files { topology: &topology, trajectory: &trajectory, reference: None };
        let cancelled = AtomicBool::new(false);
        let n_threads = NonZeroUsize::MIN;
        let control = Control { n_threads, progress: &|_, _| {}, cancelled: &cancelled };
        analyze_files(&files, &Params::default(), &control).unwrap_err().to_string()
    };
    let n_atoms = Structure::from_pdb(&text).unwrap().topology.n_atoms();
    let plain = refusal("one_location.pdb", &text, n_atoms + 1);
    assert!(!plain.contains("location"), "{plain}");
    // The first atom in two locations.
    let first = text.lines().find(|line| line.starts_with("ATOM")).unwrap();
    let of = |location: &str| format!("{}{location}{}\n", &first[..16], &first[17..]);
    let two = text.replacen(&format!("{first}\n"), &(of("A") + &of("B")), 1);
    let other = refusal("two_locations.pdb", &two, n_atoms - 5);
    assert!(other.contains("of the structure 1 alternate location was left out"), "{other}");
    assert!(other.contains("give the structure that was simulated"), "{other}");
    let all = refusal("two_locations.pdb", &two, n_atoms + 1);
    assert!(all.contains("the trajectory seems to have all"), "{all}");
}

#[test]
fn parts_that_overlap_are_named_with_their_times() {
    let params = Params { rmsd_masks: vec![texts(&["@CA"])], ..Params::default() };
    let two = [part("overlap_1.dcd", 0..31), part("overlap_2.dcd", 30..60)];
    let time_ps = Trajectory::open(&two[1]).unwrap().time_ps(0).unwrap();
    let report = analyzed(&two, &params).unwrap();
    assert_eq!((report.n_frames, report.tables[0].column("time_ps")), (61, None));
    let warnings: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    let expected = format!(
        "overlap_2.dcd begins at {time_ps} ps, and overlap_1.dcd before it ends at {time_ps} ps"
    );
    assert!(warnings.iter().any(|warning| warning.starts_with(&expected)), "{warnings:?}");
    let follow = [part("follow_1.dcd", 0..30), part("follow_2.dcd", 30..60)];
    let report = analyzed(&follow, &params).unwrap();
    assert!(report.tables[0].column("time_ps").is_some(), "{:?}", report.warnings);
}

/// The second peptide touches an image of the first in the first frame, 34 Å from the first itself.
#[test]
fn a_complex_that_is_written_apart_is_warned_of() {
    let apart = |params: &Params| {
        let report = analyzed(&mini(), params).unwrap();
        let apart = report.warnings.into_iter().filter_map(|warning| match warning {
            Warning::WrittenApart { label, first_atom, .. } => Some((label, first_atom)),
            _ => None,
        });
        apart.collect::<Vec<_>>()
    };
    let both = Params { gyration_masks: texts(&[":1-24"]), ..Params::default() };
    let [(label, first_atom)] = &apart(&both)[..] else { panic!("one mask") };
    assert_eq!((label.as_str(), first_atom.as_str()), (":1-24", "B:SER0@N"));
    let fitted = Params { rmsd_masks: vec![texts(&[":1-12@CA", ":13-24"])], ..Params::default() };
    assert_eq!(apart(&fitted).len(), 1);
    let one = Params { gyration_masks: texts(&[":1-12", ":13-24"]), ..Params::default() };
    assert_eq!(apart(&one), []);
}

/// The fields of a line of CSV, as RFC 4180 has them.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for part in line.split_inclusive(['"', ',']) {
        let (text, end) = part.split_at(part.len() - usize::from(part.ends_with(['"', ','])));
        fields.last_mut().unwrap().push_str(text);
        match end {
            "\"" => is_quoted = !is_quoted,
            "," if is_quoted => fields.last_mut().unwrap().push(','),
            "," => fields.push(String::new()),
            _ => {}
        }
    }
    fields
}

#[test]
fn every_format_has_the_same_values() {
    let report = analyzed(&mini(), &everything()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["n_analyzed"], 30);
    for (n, table) in report.tables.iter().enumerate() {
        let csv = table.to_csv();
        let mut lines = csv.lines();
        let names: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(lines.next().unwrap(), names.join(","));
        let parquet = SerializedFileReader::new(bytes::Bytes::from(table.to_parquet())).unwrap();
        let mut rows = parquet.get_row_iter(None).unwrap();
        for row in 0..table.n_rows() {
            let fields = fields(lines.next().unwrap());
            let stored = rows.next().unwrap().unwrap();
            let stored: Vec<_> = stored.get_column_iter().map(|(_, field)| field.clone()).collect();
            for (k, column) in table.columns.iter().enumerate() {
                let in_json = &json["tables"][n]["columns"][k]["values"][row];
                match &column.values {
                    Values::Numbers(values) => {
                        assert_eq!(fields[k].parse(), Ok(values[row]), "to the last bit");
                        // The parser of the test may be off by the last bit.
                        assert!(
                            (in_json.as_f64().unwrap() - values[row]).abs()
                                <= 1e-15 * values[row].abs()
                        );
                        assert_eq!(stored[k], Field::Double(values[row]));
                    }
                    Values::Integers(values) => {
                        assert_eq!(fields[k].parse(), Ok(values[row]));
                        assert_eq!(in_json.as_i64(), Some(values[row]));
                        assert_eq!(stored[k], Field::Long(values[row]));
                    }
                    Values::Texts(values) => {
                        assert_eq!(fields[k], values[row]);
                        assert_eq!(in_json.as_str(), Some(values[row].as_str()));
                        assert_eq!(stored[k], Field::Str(values[row].clone()));
                    }
                }
            }
        }
        assert!(lines.next().is_none() && rows.next().is_none());
    }
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    let [a, b] = [1, 2].map(|_| analyzed(&mini(), &everything()).unwrap());
    assert_eq!(a.to_json(), b.to_json());
    for (a, b) in a.tables.iter().zip(&b.tables) {
        assert_eq!((a.to_csv(), a.to_parquet()), (b.to_csv(), b.to_parquet()));
    }
}

#[test]
fn every_analysis_has_a_field() {
    let report = analyzed(
        &mini(),
        &Params {
            hbond_masks: texts(&[":1-24", ":1-12 :13-24", ":HOH :1-24"]),
            contact_masks: texts(&[":1-12&!@/H :13-24&!@/H", ":1-12@CA"]),
            gyration_masks: texts(&[":1-12"]),
            surface_masks: texts(&[":1-12"]),
            secondary_structure_masks: texts(&[":1-24"]),
            ..Params::default()
        },
    )
    .unwrap();
    let names: Vec<_> = report.tables.iter().map(|table| table.name.as_str()).collect();
    for name in [
        "hydrogen_bonds_3",
        "contacts",
        "contacts_2",
        "contacts_by_frame",
        "radius_of_gyration",
        "surface_area_by_frame",
        "secondary_structure",
    ] {
        assert!(names.contains(&name), "{name} is missing from {names:?}");
    }
    // Water is recognised by its names alone, whichever mask comes first.
    let roles: Vec<_> =
        report.tables[4].groups.iter().map(|group| (group.role, group.label.as_str())).collect();
    assert_eq!(roles, [("solute", ":1-24"), ("solvent", ":HOH")]);
    let numbers: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(data("mini_md.json")).unwrap()).unwrap();
    let counts = |table: usize, column: &str| {
        serde_json::to_value(&report.tables[table].column(column).unwrap().values)
    };
    for (table, key) in
        [(1, "hbond|:1-24|dist=3|angle=135"), (5, "hbond_solvent|:1-24|:HOH|dist=3|angle=135")]
    {
        assert_eq!(
            counts(table, "hydrogen_bonds").unwrap(),
            numbers["values"][key]["count_per_frame"],
            "{key}"
        );
    }
}

#[test]
fn criteria_are_chosen_by_name() {
    let with = |criterion: &str| Params {
        hbond_criterion: Some(criterion.to_owned()),
        hbond_masks: texts(&[":1-24"]),
        ..Params::default()
    };
    let report = analyzed(&mini(), &with("wernet_nilsson")).unwrap();
    let numbers: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(data("mini_md.json")).unwrap()).unwrap();
    let counts =
        serde_json::to_value(&report.tables[1].column("hydrogen_bonds").unwrap().values).unwrap();
    assert_eq!(counts, numbers["values"]["mdtraj_wernet_nilsson|:1-24"]["count_per_frame"]);
    let of_solute =
        Params { hbond_criterion: Some("baker_hubbard".to_owned()), ..Params::default() };
    assert!(
        analyzed(&mini(), &of_solute).unwrap().tables[0].definition.contains("Baker and Hubbard")
    );
    let bounds = Params { hbond_distance: Some(3.0), ..with("baker_hubbard") };
    assert_eq!(invalid(&bounds)[0].0, "hbond_distance");
    assert_eq!(invalid(&with("luzar"))[0].0, "hbond_criterion");
}

fn clusters(method: Option<&str>, cutoff: Option<f64>, count: Option<u64>) -> Params {
    Params {
        cluster_masks: texts(&["@CA"]),
        cluster_method: method.map(str::to_owned),
        cluster_cutoff: cutoff,
        cluster_count: count,
        ..Params::default()
    }
}

#[test]
fn every_analysis_of_a_paper_has_a_field() {
    let params = Params {
        rmsf_masks: texts(&[":1-12"]),
        cluster_masks: texts(&[":1-12@CA"]),
        cluster_method: Some("gromos".to_owned()),
        cluster_cutoff: Some(0.5),
        dihedral_masks: texts(&[":1-24"]),
        dihedral_angles: texts(&["psi", "Phi", "chi-1", "chi2"]),
        native_contact_masks: texts(&[":1-12", ":1-6 :7-12"]),
        rdf_masks: texts(&["@/NA :HOH@O", ":HOH@O"]),
        rdf_distance: Some(8.0),
        density_masks: texts(&[":HOH", ":HOH :1-12"]),
        pca_masks: texts(&["@CA"]),
        pca_components: Some(3),
        end_to_end_masks: texts(&[":1-12@CA"]),
        ..Params::default()
    };
    let report = analyzed(&mini(), &params).unwrap();
    let names: Vec<_> = report.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "rmsf",
            "rmsf_by_residue",
            "clusters",
            "clusters_by_frame",
            "pairwise_rmsd",
            "dihedrals",
            "dihedrals_by_frame",
            "ramachandran",
            "side_chain_map",
            "native_contacts",
            "native_contacts_by_frame",
            "native_contacts_2",
            "native_contacts_by_frame_2",
            "rdf",
            "rdf_2",
            "density",
            "density_2",
            "principal_components",
            "projections",
            "principal_modes",
            "end_to_end",
            "convergence",
            "block_averages",
        ]
    );
    let table = |name: &str| report.tables.iter().find(|table| table.name == name).unwrap();
    // The ion and the nearest water touch; far from it there is as much water as anywhere.
    let g = table("rdf").numbers("g").unwrap();
    assert!(g[..30].iter().all(|g| *g == 0.0) && g[40..60].iter().any(|g| *g > 3.0));
    let of_series = table("convergence");
    assert_eq!(of_series.n_rows(), 2 + 2 + 3 + 1);
    let samples = of_series.numbers("effective_samples").unwrap();
    assert!(samples.iter().all(|n| (1.0..=61.0).contains(n)), "{samples:?}");
    let without = Params { without_convergence: true, ..params };
    assert_eq!(analyzed(&mini(), &without).unwrap().tables.len(), names.len() - 2);
}

#[test]
fn mean_positions_have_their_b_factors_as_a_structure() {
    let params = Params { rmsf_masks: texts(&[":1-12&!@/H"]), ..Params::default() };
    let report = analyzed(&mini(), &params).unwrap();
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rmsf.pdb");
    let text = report.tables[0].pdb.as_ref().unwrap();
    std::fs::write(&path, text).unwrap();
    let read = Structure::open(&path).unwrap();
    let fluctuations = report.tables[0].numbers("rmsf_angstrom").unwrap();
    assert_eq!(read.topology.n_atoms(), fluctuations.len());
    let atoms = text.lines().filter(|line| line.starts_with("ATOM"));
    for ((line, rmsf), atom) in atoms.zip(fluctuations).zip(read.topology.atoms()) {
        let factor: f64 = line[60..66].trim().parse().unwrap();
        let expected = 8.0 * std::f64::consts::PI.powi(2) / 3.0 * rmsf * rmsf;
        assert!((factor - expected).abs() <= 0.005 + 1e-9, "{line} {expected}");
        assert_eq!(atom.name, line[12..16].trim());
        assert!(atom.element.is_some(), "{line}");
    }
}

#[test]
fn native_contacts_of_a_structure_need_no_hydrogens_there() {
    let text = std::fs::read_to_string(data("mini.pdb")).unwrap();
    let heavy = text.lines().filter(|line| {
        !(line.starts_with("ATOM") || line.starts_with("HETATM")) || line[76..78].trim() != "H"
    });
    let heavy = heavy.filter(|line| !line.starts_with("CONECT")).collect::<Vec<_>>().join("\n");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("heavy.pdb");
    std::fs::write(&path, heavy).unwrap();
    let params = Params { native_contact_masks: texts(&[":1-12"]), ..Params::default() };
    let control = Control {
        n_threads: NonZeroUsize::MIN,
        progress: &|_, _| {},
        cancelled: &AtomicBool::new(false),
    };
    let with = |reference: &PathBuf| {
        let topology = data("mini.pdb");
        let trajectory = mini();
        let files =
            Files { topology: &topology, trajectory: &trajectory, reference: Some(reference) };
        analyze_files(&files, &params, &control).unwrap().tables.remove(1)
    };
    let found = with(&path);
    assert!(found.definition.contains("heavy.pdb"), "{}", found.definition);
    assert_eq!(found.columns, with(&data("mini.pdb")).columns);
}

#[test]
fn contacts_across_a_face_are_native_ones_of_a_frame_that_is_named_too() {
    let of = |reference_frame: Option<u32>| {
        let params = Params {
            native_contact_masks: texts(&[":1-24 :HOH"]),
            reference_frame: reference_frame.map(Into::into),
            ..Params::default()
        };
        let control = Control {
            n_threads: NonZeroUsize::MIN,
            progress: &|_, _| {},
            cancelled: &AtomicBool::new(false),
        };
        let (topology, trajectory) = (data("mini.pdb"), mini());
        let files = Files { topology: &topology, trajectory: &trajectory, reference: None };
        analyze_files(&files, &params, &control).unwrap().tables.remove(0)
    };
    let (first, named) = (of(None), of(Some(0)));
    assert_eq!(first.columns, named.columns);
}

#[test]
fn what_would_say_nothing_is_refused_at_its_field() {
    for (params, at) in [
        (Params { hbond_masks: texts(&[":HOH"]), ..Params::default() }, "hbond_masks[0]"),
        (Params { contact_masks: texts(&["@CA", "* *"]), ..Params::default() }, "contact_masks[1]"),
        (Params { hbond_masks: texts(&[":1 :2 :3"]), ..Params::default() }, "hbond_masks[0]"),
        (Params { hbond_masks: texts(&["@CA"]), ..Params::default() }, "hbond_masks[0]"),
        (
            Params { secondary_structure_masks: texts(&[":HOH"]), ..Params::default() },
            "secondary_structure_masks[0]",
        ),
        (Params { dihedral_masks: texts(&[":HOH"]), ..Params::default() }, "dihedral_masks[0]"),
        (
            Params {
                dihedral_masks: texts(&[":1-12"]),
                dihedral_angles: texts(&["phi", "kappa"]),
                ..Params::default()
            },
            "dihedral_angles[1]",
        ),
        (Params { cluster_masks: texts(&[":1@CA"]), ..Params::default() }, "cluster_masks[0]"),
        (clusters(Some("ward"), None, None), "cluster_method"),
        (clusters(None, Some(0.0), None), "cluster_cutoff"),
        (clusters(None, None, Some(0)), "cluster_count"),
        (clusters(None, Some(1.0), Some(3)), "cluster_count"),
        (clusters(Some("gromos"), None, Some(3)), "cluster_count"),
        (Params { rdf_masks: texts(&[":1@CA"]), ..Params::default() }, "rdf_masks[0]"),
        (
            Params {
                rdf_masks: texts(&[":HOH@O"]),
                rdf_distance: Some(0.5),
                rdf_bin: Some(1.0),
                ..Params::default()
            },
            "rdf_bin",
        ),
        (
            Params {
                density_masks: texts(&[":HOH"]),
                density_axis: Some("w".to_owned()),
                ..Params::default()
            },
            "density_axis",
        ),
        (Params { pca_masks: texts(&[":HOH"]), ..Params::default() }, "pca_masks[0]"),
        (
            Params { pca_masks: texts(&["@CA"]), pca_components: Some(0), ..Params::default() },
            "pca_components",
        ),
        (
            Params { end_to_end_masks: texts(&[":1@CA"]), ..Params::default() },
            "end_to_end_masks[0]",
        ),
        (
            Params {
                surface_probe: Some(6.0),
                surface_masks: texts(&[":1-12"]),
                ..Params::default()
            },
            "surface_probe",
        ),
    ] {
        assert_eq!(invalid(&params)[0].0, at, "{params:?}");
    }
}

#[test]
fn a_field_without_effect_is_warned_of_unless_it_states_its_default() {
    let with = |distance| Params { contact_distance: Some(distance), ..Params::default() };
    let report = analyzed(&mini(), &with(5.0)).unwrap();
    let warning = "contact_distance: has no effect without `contact_masks`";
    assert!(report.warnings.iter().any(|w| w.to_string() == warning), "{:?}", report.warnings);
    let report = analyzed(&mini(), &with(4.5)).unwrap();
    assert!(report.warnings.iter().all(|w| !w.to_string().starts_with("contact_distance")));
}

/// Lipids of Martini, whose grains stand in a row from `head` in nm along a direction, as GRO.
fn martini(
    lipids: &[(&str, [f64; 3], [f64; 3])],
    grains: fn(&str) -> &'static [&'static str],
) -> String {
    let mut lines = Vec::new();
    for (number, (residue, head, along)) in lipids.iter().enumerate() {
        for (nth, name) in grains(residue).iter().enumerate() {
            let n = lines.len() + 1;
            let [x, y, z] = [0, 1, 2].map(|k| head[k] + 0.4 * nth as f64 * along[k]);
            let number = number + 1;
            lines.push(format!("{number:5}{residue:<5}{name:>5}{n:5}{x:8.3}{y:8.3}{z:8.3}"));
        }
    }
    format!("lipids\n{}\n{}\n   6.00000   6.00000   9.00000\n", lines.len(), lines.join("\n"))
}

fn grains(residue: &str) -> &'static [&'static str] {
    match residue {
        "CHOL" => &["ROH", "R1", "R2", "C1"],
        "XYZ" => &["T1", "T2", "T3", "T4"],
        _ => &["PO4", "GL1", "C1A", "C2A"],
    }
}

/// What the membrane of a mask is, in the order of its columns, and warnings but for coarse grains.
fn membrane(name: &str, gro: &str, mask: &str) -> Result<([f64; 2], Vec<String>), Error> {
    let topology = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&topology, gro).unwrap();
    let structure = Structure::open(&topology).unwrap();
    let positions = structure.positions.iter().map(|at| at.map(|x| x as f32)).collect();
    let cell = Some([60.0, 60.0, 90.0, 90.0, 90.0, 90.0]);
    let trajectory = [dcd(&format!("{name}.dcd"), &[(cell, positions)])];
    let files = Files { topology: &topology, trajectory: &trajectory, reference: None };
    let params = Params { lipid_masks: texts(&[mask]), ..Params::default() };
    let cancelled = AtomicBool::new(false);
    let control =
        Control { n_threads: NonZeroUsize::MIN, progress: &|_, _| {}, cancelled: &cancelled };
    let report = analyze_files(&files, &params, &control)?;
    let numbers = ["area_per_lipid_angstrom2", "thickness_angstrom"];
    let numbers = numbers.map(|column| report.tables[0].numbers(column).unwrap()[0]);
    let of_files = |text: &String| text.contains("coarse grains") || text.contains("one frame");
    let warnings = report.warnings.iter().map(ToString::to_string);
    Ok((numbers, warnings.filter(|text| !of_files(text)).collect()))
}

/// Two leaflets of a flat bilayer, in which every fourth lipid is another.
fn bilayer(other: &str) -> String {
    let (up, down) = ([0.0, 0.0, 1.0], [0.0, 0.0, -1.0]);
    let lipids = (0..32).map(|n| {
        let residue = if n % 4 == 3 { other } else { "DPPC" };
        let (x, y) = (0.7 * f64::from(n / 2 % 8), 3.0 * f64::from(n / 16));
        if n % 2 == 0 { (residue, [x, y, 6.5], down) } else { (residue, [x, y, 2.5], up) }
    });
    martini(&lipids.collect::<Vec<_>>(), grains)
}

#[test]
fn heads_of_coarse_lipids_are_found_where_these_are_selected_whole() {
    let text = bilayer("DPPC");
    let ([area, thickness], warnings) = membrane("whole.gro", &text, ":DPPC").unwrap();
    assert!((thickness - 40.0).abs() < 1e-4, "from PO4 to PO4, not between lipids: {thickness}");
    assert!((area - 3600.0 / 16.0).abs() < 1e-6);
    assert_eq!(warnings, <[String; 0]>::default());
    let (of_heads, _) = membrane("heads.gro", &text, "@PO4").unwrap();
    assert_eq!(of_heads, [area, thickness]);
    let ([_, of_links], _) = membrane("links.gro", &text, "@GL1").unwrap();
    assert!((of_links - 32.0).abs() < 1e-4, "what is selected counts: {of_links}");
    // Nothing tells the heads of lipids that nobody knows.
    let refusal = membrane("unknown.gro", &bilayer("XYZ"), ":DPPC,XYZ").unwrap_err().to_string();
    assert!(refusal.contains("all grains of XYZ4 are selected"), "{refusal}");
    membrane("known.gro", &bilayer("XYZ"), "@PO4,T1").unwrap();
}

#[test]
fn a_part_of_the_lipids_and_what_is_not_flat_are_warned_of() {
    let text = bilayer("CHOL");
    let (_, warnings) = membrane("mixture.gro", &text, ":DPPC,CHOL").unwrap();
    assert_eq!(warnings, <[String; 0]>::default());
    let (_, warnings) = membrane("part.gro", &text, ":DPPC").unwrap();
    let [part] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(part.starts_with("8 molecules that look like lipids (CHOL) are not among"), "{part}");
    // A sphere of 2.5 nm, its lipids at equal distances along its axis.
    let lipids = (0..64).map(|n| {
        let (z, turn) = ((f64::from(n) + 0.5) / 32.0 - 1.0, 2.4 * f64::from(n));
        let around = (1.0 - z * z).sqrt();
        let out = [around * turn.cos(), around * turn.sin(), z];
        ("DPPC", [0, 1, 2].map(|k| [3.0, 3.0, 4.5][k] + 2.5 * out[k]), out.map(|x| -x))
    });
    let vesicle = martini(&lipids.collect::<Vec<_>>(), grains);
    let (_, warnings) = membrane("vesicle.gro", &vesicle, ":DPPC").unwrap();
    let [not_flat] = &warnings[..] else { panic!("{warnings:?}") };
    // Heights on a sphere are uniform: R/√12 about R/2 on each side.
    assert!(not_flat.contains("are 7.2 Å up and down"), "{not_flat}");
    assert!(not_flat.contains("25.0 Å apart along z"), "{not_flat}");
}
