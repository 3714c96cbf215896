//! RMSD from what is not the first frame, bonds between two masks, and parts of a trajectory:
//! against MDAnalysis, and against each other.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use common::data;
use molbox_analysis::{
    Control, Error, Files, Params, Report, Values, ViolationKind, Warning, analyze_files,
};
use serde::Deserialize;

/// Both peptides; from frame 11 on one of them is in another image.
const COMPLEX: &str = ":1-24@CA";

fn run(reference: Option<&Path>, params: &Params) -> Result<Report, Error> {
    let control = Control {
        n_threads: NonZeroUsize::MIN,
        progress: &|_, _| {},
        cancelled: &AtomicBool::new(false),
    };
    let files =
        Files { topology: &data("mini.pdb"), trajectory: &[data("mini_md.dcd")], reference };
    analyze_files(&files, params, &control)
}

fn rmsd_of(mask: &str) -> Params {
    Params { rmsd_masks: vec![vec![mask.to_owned()]], ..Params::default() }
}

fn from_frame(mask: &str, frame: u64) -> Params {
    Params { reference_frame: Some(frame), ..rmsd_of(mask) }
}

fn deviations(report: &Report) -> &[f64] {
    report.tables[0].numbers("rmsd_angstrom").unwrap()
}

fn assert_close(here: &[f64], there: &[f64]) {
    assert_eq!(here.len(), there.len());
    for (n, (a, b)) in here.iter().zip(there).enumerate() {
        assert!((a - b).abs() < 1e-6, "row {n}: {a} and {b}");
    }
}

fn violations(reference: Option<&Path>, params: &Params) -> Vec<(String, ViolationKind)> {
    match run(reference, params) {
        Err(Error::Params(invalid)) => {
            invalid.0.into_iter().map(|v| (v.at.to_string(), v.kind)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The structure of the test data with its lines changed; for atoms and waters alike.
fn structure(name: &str, change: impl Fn(&str) -> Option<String>) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let text = fs::read_to_string(data("mini.pdb")).unwrap();
    let lines: Vec<String> = text.lines().filter_map(change).collect();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

fn is_atom(line: &str) -> bool {
    line.starts_with("ATOM") || line.starts_with("HETATM")
}

fn is_peptide(line: &str) -> bool {
    is_atom(line)
        && !["HOH", "NA ", "CL "]
            .iter()
            .any(|name| line[17..20] == **name || line[17..20].trim() == name.trim())
}

/// Numbers by MDAnalysis.
#[derive(Deserialize)]
struct Peer {
    /// RMSD from frame 30 by mask; peptides without jumps.
    frame_30: BTreeMap<String, Vec<f64>>,
    /// RMSD from that structure by mask.
    #[serde(rename = "mini.pdb")]
    structure: BTreeMap<String, Vec<f64>>,
    hydrogen_bonds: Vec<PeerBonds>,
}

#[derive(Deserialize)]
struct PeerBonds {
    masks: String,
    distance: f64,
    angle: f64,
    count_per_frame: Vec<i64>,
}

fn peer() -> Peer {
    serde_json::from_str(&fs::read_to_string(data("references.json")).unwrap()).unwrap()
}

/// MDAnalysis rounds coordinates without jumps to 32 bits, and is at 4e-7 Å where it should be at
/// 0.
#[test]
fn deviations_from_a_frame_and_from_a_structure_are_those_of_mdanalysis() {
    let peer = peer();
    for (mask, expected) in &peer.frame_30 {
        assert_close(deviations(&run(None, &from_frame(mask, 30)).unwrap()), expected);
    }
    for (mask, expected) in &peer.structure {
        let report = run(Some(&data("mini.pdb")), &rmsd_of(mask)).unwrap();
        assert_close(deviations(&report), expected);
    }
    assert_eq!((peer.frame_30.len(), peer.structure.len()), (4, 3));
}

#[test]
fn hydrogen_bonds_between_two_masks_are_those_of_mdanalysis() {
    let all = peer().hydrogen_bonds;
    assert_eq!(all.len(), 4);
    for expected in all {
        let params = Params {
            hbond_masks: vec![expected.masks.clone()],
            hbond_distance: Some(expected.distance),
            hbond_angle: Some(expected.angle),
            ..Params::default()
        };
        let report = run(None, &params).unwrap();
        let table = report.tables.iter().find(|table| table.kind == "hydrogen_bonds_by_frame");
        let found = table.unwrap().column("hydrogen_bonds").unwrap();
        assert_eq!(found.values, Values::Integers(expected.count_per_frame), "{}", expected.masks);
    }
}

#[test]
fn deviations_of_frames_from_each_other_are_symmetric() {
    for mask in [":1-12@CA", COMPLEX] {
        let [from_5, from_40] = [5, 40].map(|frame| run(None, &from_frame(mask, frame)).unwrap());
        assert!((deviations(&from_5)[40] - deviations(&from_40)[5]).abs() < 1e-6, "{mask}");
        assert!(
            deviations(&from_5)[5].abs() < 1e-6 && deviations(&from_40)[40].abs() < 1e-6,
            "{mask}"
        );
        assert!(deviations(&from_5)[40] > 0.1, "the frames differ");
        assert_eq!(from_5.tables[0].title, format!("RMSD from frame 5: {mask}"));
    }
    let [of_itself, of_first] =
        [from_frame(COMPLEX, 0), rmsd_of(COMPLEX)].map(|params| run(None, &params).unwrap());
    assert_close(deviations(&of_itself), deviations(&of_first));
}

#[test]
fn a_part_of_the_trajectory_gives_the_rows_of_the_whole() {
    let whole = run(None, &from_frame(COMPLEX, 0)).unwrap();
    // The part begins when the peptides are apart in the file.
    let part = Params {
        first_frame: Some(15),
        last_frame: Some(41),
        downsample_frames: Some(4.0),
        ..from_frame(COMPLEX, 0)
    };
    let part = run(None, &part).unwrap();
    let frames: Vec<usize> = (15..=41).step_by(4).collect();
    let expected: Vec<f64> = frames.iter().map(|frame| deviations(&whole)[*frame]).collect();
    assert_close(deviations(&part), &expected);
    assert_eq!((part.n_frames, part.n_analyzed), (60, 7));
    let times = [&part, &whole].map(|report| report.tables[0].numbers("time_ps").unwrap());
    assert_eq!(times[0], frames.iter().map(|frame| times[1][*frame]).collect::<Vec<_>>());
}

#[test]
fn occupancies_of_a_part_are_of_its_frames() {
    let bonds = Params { hbond_distance: Some(3.0), first_frame: Some(50), ..Params::default() };
    let report = run(None, &bonds).unwrap();
    let by_frame = report.tables[1].column("hydrogen_bonds").unwrap();
    assert_eq!((report.n_analyzed, by_frame.values.len()), (10, 10));
    let occupancy = report.tables[0].numbers("occupancy").unwrap();
    assert!(
        occupancy.iter().all(|part| (part * 10.0 - (part * 10.0).round()).abs() < 1e-9),
        "{occupancy:?}"
    );
}

#[test]
fn a_structure_is_matched_by_residues_and_names() {
    let whole = run(Some(&data("mini.pdb")), &rmsd_of(":1-12&!@/H")).unwrap();
    // Hydrogens gone, water gone, residues renumbered.
    let stripped = structure("stripped.pdb", |line| {
        let is_kept = is_peptide(line) && line[76..78].trim() != "H";
        is_kept.then(|| {
            format!(
                "{}{:4}{}",
                &line[..22],
                line[22..26].trim().parse::<i32>().unwrap() + 300,
                &line[26..]
            )
        })
    });
    let other = run(Some(&stripped), &rmsd_of(":1-12&!@/H")).unwrap();
    assert_close(deviations(&whole), deviations(&other));
    assert!(deviations(&whole)[0] > 0.1, "the structure is not the first frame");
    // Atoms of each residue the other way round.
    let mut lines: Vec<String> =
        fs::read_to_string(&stripped).unwrap().lines().map(str::to_owned).collect();
    lines.sort_by_key(|line| {
        (
            line[21..22].to_owned(),
            line[22..26].to_owned(),
            std::cmp::Reverse(line[12..16].to_owned()),
        )
    });
    fs::write(&stripped, lines.join("\n") + "\n").unwrap();
    let turned = run(Some(&stripped), &rmsd_of(":1-12&!@/H")).unwrap();
    assert_close(deviations(&whole), deviations(&turned));
    assert!(
        turned.warnings.iter().all(|warning| !matches!(warning, Warning::OtherResidues { .. }))
    );
    // With nothing asked for, the α-carbons.
    let default = run(Some(&stripped), &Params::default()).unwrap();
    assert_eq!(default.tables[0].title, "RMSD from stripped.pdb: @CA&@/C");
}

#[test]
fn what_is_not_the_same_in_the_reference_is_refused_or_warned_of() {
    let mutated =
        structure("mutated.pdb", |line| is_peptide(line).then(|| line.replace("TRP", "PHE")));
    let report = run(Some(&mutated), &rmsd_of("@CA")).unwrap();
    let warned = report.warnings.iter().any(|warning| {
        matches!(warning, Warning::OtherResidues { first, .. } if *first == ["TRP".to_owned(), "PHE".to_owned()])
    });
    assert!(warned, "{:?}", report.warnings);
    let without = structure("without.pdb", |line| {
        (is_peptide(line) && !(line[12..16].trim() == "CA" && line[22..26].trim() == "3"))
            .then(|| line.to_owned())
    });
    let found = violations(Some(&without), &rmsd_of("@CA"));
    assert_eq!(found[0].0, "rmsd_masks[0][0]");
    assert!(matches!(&found[0].1, ViolationKind::Unmatched { .. }), "{found:?}");
    let useless = Params {
        distance_masks: vec![":1 :2".to_owned()],
        reference_frame: Some(3),
        ..Params::default()
    };
    assert_eq!(
        violations(None, &useless)[0],
        ("reference_frame".to_owned(), ViolationKind::Unused { needs: "rmsd_masks" })
    );
}

#[test]
fn frames_that_are_not_there_are_named() {
    for params in [from_frame(COMPLEX, 60), Params { first_frame: Some(60), ..rmsd_of(COMPLEX) }] {
        let error = run(None, &params).unwrap_err();
        assert!(matches!(error, Error::NoSuchFrame { frame: 60, n_frames: 60 }), "{error}");
    }
    let turned = Params { first_frame: Some(5), last_frame: Some(4), ..rmsd_of(COMPLEX) };
    assert_eq!(violations(None, &turned)[0].0, "last_frame");
    let beyond = Params { first_frame: Some(58), last_frame: Some(u64::MAX), ..rmsd_of(COMPLEX) };
    let of_two = run(None, &beyond).unwrap();
    assert_eq!(of_two.n_analyzed, 2);
    let title = &of_two.tables[0].title;
    assert!(title.starts_with("RMSD from frame 58"), "{title}");
}
