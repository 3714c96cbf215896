//! Chains and secondary structure that figures show along residues.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use common::{data, dcd};
use molbox_analysis::{Control, Files, Fold, Params, Report, Structure, Values, analyze_files};

fn run(topology: &Path, trajectory: &Path, params: Params) -> Report {
    let trajectory = [trajectory.to_owned()];
    let files = Files { topology, trajectory: &trajectory, reference: None };
    let control = Control {
        n_threads: NonZeroUsize::MIN,
        progress: &|_, _| {},
        cancelled: &AtomicBool::new(false),
    };
    analyze_files(&files, &params, &control).unwrap()
}

fn fluctuations() -> Vec<String> {
    vec!["*".to_owned()]
}

fn fold(code: char) -> Fold {
    match code {
        'H' | 'G' | 'I' => Fold::Helix,
        'E' | 'B' => Fold::Strand,
        _ => Fold::Other,
    }
}

#[test]
fn residues_of_molecules_without_chains_that_are_alike_are_told_apart() {
    let without = |line: &str| match line.get(21..22) {
        Some(chain) if line.starts_with("ATOM") && "AB".contains(chain) => {
            format!("{} {}\n", &line[..21], &line[22..])
        }
        _ => format!("{line}\n"),
    };
    let text = std::fs::read_to_string(data("mini.pdb")).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without_chains.pdb");
    std::fs::write(&path, text.lines().map(without).collect::<String>()).unwrap();
    let params = Params { rmsf_masks: vec![":1-24".to_owned()], ..Params::default() };
    let with = run(&data("mini.pdb"), &data("mini_md.dcd"), params.clone());
    let report = run(&path, &data("mini_md.dcd"), params);
    for (table, n_rows) in report.tables.iter().zip([436, 24]) {
        let Values::Integers(molecules) = &table.column("molecule").unwrap().values else {
            panic!()
        };
        assert_eq!(molecules.len(), n_rows, "{}", table.kind);
        assert_eq!(*molecules.first().unwrap(), 1);
        assert_eq!(molecules.iter().filter(|molecule| **molecule == 2).count(), n_rows / 2);
    }
    assert!(with.tables.iter().all(|table| table.column("molecule").is_none()));
}

#[test]
fn folds_are_those_of_the_first_frame_or_of_most_that_were_assigned() {
    let structure = Structure::open(&data("helices.pdb")).unwrap();
    let positions: Vec<_> = structure.positions.iter().map(|x| x.map(|x| x as f32)).collect();
    let trajectory = dcd("folds.dcd", &[(None, positions.clone()), (None, positions)]);
    let alone = Params { rmsf_masks: fluctuations(), ..Params::default() };
    let both = Params { secondary_structure_masks: fluctuations(), ..alone.clone() };
    let both = run(&data("helices.pdb"), &trajectory, both);
    let by_frame = both.tables.iter().find(|it| it.kind == "secondary_structure_by_frame").unwrap();
    let Values::Texts(codes) = &by_frame.column("codes").unwrap().values else { panic!() };
    let expected: Vec<Fold> = codes[0].chars().map(fold).collect();
    assert!(expected.contains(&Fold::Helix) && expected.contains(&Fold::Strand));
    let alone = run(&data("helices.pdb"), &trajectory, alone);
    for (report, origin) in [(both, "most of the frames"), (alone, "the first analysed frame")] {
        let folds: Vec<Fold> = report.residues.residues.iter().map(|it| it.fold).collect();
        assert_eq!(folds, expected, "{origin}");
        assert_eq!(report.residues.origin, origin);
    }
}

#[test]
fn water_is_on_no_axis_and_a_table_by_frame_needs_none() {
    let params = Params { rmsf_masks: vec![":1-12".to_owned()], ..Params::default() };
    let report = run(&data("mini_md.cif"), &data("mini_md.dcd"), params);
    let residues = &report.residues.residues;
    assert!(residues.len() > 11 && residues.iter().all(|it| !it.label.contains("HOH")));
    let of_table = report.tables.iter().find(|it| it.kind == "rmsf_by_residue").unwrap();
    let Values::Texts(labels) = &of_table.column("name").unwrap().values else { panic!() };
    assert!(labels.iter().eq(residues.iter().take(labels.len()).map(|it| &it.label)));
    let params = Params { gyration_masks: vec![":1-12".to_owned()], ..Params::default() };
    let report = run(&data("mini_md.cif"), &data("mini_md.dcd"), params);
    assert!(report.residues.residues.is_empty());
}
