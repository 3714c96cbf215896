//! Masks that measure distances in a periodic cell.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{Written, dcd};
use molbox_analysis::{Control, Files, Params, Warning, WithoutImages, analyze_files};

/// A ligand next to a face of a cube of 20 Å, water beside it, far from it and across the face.
const POSITIONS: [[f32; 3]; 5] = [
    [1.0, 10.0, 10.0],
    [2.5, 10.0, 10.0],
    [5.0, 10.0, 10.0],
    [11.0, 10.0, 10.0],
    [19.0, 10.0, 10.0],
];

/// The structure, with a cell or without.
fn structure(name: &str, has_cell: bool) -> PathBuf {
    let mut text = String::new();
    if has_cell {
        text += "CRYST1   20.000   20.000   20.000  90.00  90.00  90.00 P 1           1\n";
    }
    for (n, [x, y, z]) in POSITIONS.iter().enumerate() {
        let (atom, residue) = match n {
            0 => (" C1 ", "LIG"),
            1 => (" C2 ", "LIG"),
            _ => (" O  ", "HOH"),
        };
        let number = n.max(1);
        let element = &atom[1..2];
        text += &format!(
            "HETATM{:5} {atom} {residue} A{number:4}    {x:8.3}{y:8.3}{z:8.3}  1.00  0.00          \
             {element:>2}\n",
            n + 1
        );
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text + "END\n").unwrap();
    path
}

/// What is warned of when the distance of the ligand to a mask is measured.
fn warned(of: &str, structure_has_cell: bool, trajectory_has_cell: bool) -> Vec<Warning> {
    static N_FILES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("near_{}", N_FILES.fetch_add(1, Ordering::Relaxed));
    let topology = structure(&format!("{name}.pdb"), structure_has_cell);
    let cell = [20.0, 20.0, 20.0, 90.0, 90.0, 90.0];
    let frame: Written = (trajectory_has_cell.then_some(cell), POSITIONS.to_vec());
    let trajectory = [dcd(&format!("{name}.dcd"), &[frame.clone(), frame])];
    let files = Files { topology: &topology, trajectory: &trajectory, reference: None };
    let params = Params {
        distance_masks: vec![":LIG".to_owned(), of.to_owned()],
        without_convergence: true,
        ..Params::default()
    };
    let control = Control {
        n_threads: NonZeroUsize::MIN,
        progress: &|_, _| {},
        cancelled: &AtomicBool::new(false),
    };
    let report = analyze_files(&files, &params, &control).unwrap();
    let warnings = report.warnings.into_iter();
    warnings.filter(|warning| matches!(warning, Warning::NoImages { .. })).collect()
}

#[test]
fn a_distance_that_ends_at_a_face_is_warned_of_with_what_it_misses() {
    for [of_structure, of_trajectory] in [[true, true], [true, false], [false, true]] {
        let warnings = warned(":HOH&(:LIG<:3.0)", of_structure, of_trajectory);
        let [Warning::NoImages { at, difference }] = &warnings[..] else {
            panic!("{warnings:?}");
        };
        let WithoutImages { n_only_with, n_only_without, first, .. } = difference;
        assert_eq!((*n_only_with, *n_only_without, first.as_str()), (1, 0, "A:HOH4@O"));
        assert!(at.to_string().starts_with("distance_masks"), "{at}");
        assert!(warnings[0].to_string().contains("1 atom more, the first A:HOH4@O"));
    }
}

#[test]
fn what_is_farther_has_fewer_atoms_between_nearest_images() {
    let warnings = warned(":HOH&(:LIG>:3.0)", true, true);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].to_string().contains("1 atom fewer, the first A:HOH4@O"));
}

#[test]
fn nothing_is_warned_of_where_images_make_no_difference() {
    // Nearer than the water across the face, so far that all is within, without a cell, no distance.
    for (mask, has_cell) in
        [(":LIG<:1.9", true), (":LIG<:50.0", true), (":HOH&(:LIG<:3.0)", false), (":HOH", true)]
    {
        assert_eq!(warned(mask, has_cell, has_cell), [], "{mask}");
    }
}
