//! Files of Amber, CHARMM and GROMACS against what MDAnalysis and mdtraj read in them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use common::{Random, data, frames, parameters};
use molbox_analysis::{
    AtomSet, Control, Element, Error, Excerpt, Files, Frame, FrameRange, Group, Mask, MaskWarning,
    Params, Series, Structure, Topology, TopologyFile, Trajectory, Values, Warning, analyze_files,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    topologies: HashMap<String, ExpectedTopology>,
    trajectories: HashMap<String, HashMap<String, Vec<ExpectedFrame>>>,
}

#[derive(Deserialize)]
struct ExpectedTopology {
    names: Vec<String>,
    residues: Vec<String>,
    resids: Vec<i64>,
    types: Option<Vec<String>>,
    charges: Option<Vec<f64>>,
    masses: Option<Vec<f64>>,
    bonds: Option<Vec<[u32; 2]>>,
    chains: Option<Vec<String>>,
    positions: Option<[[f64; 3]; 3]>,
    dimensions: Option<[f64; 6]>,
}

#[derive(Deserialize)]
struct ExpectedFrame {
    time: f64,
    dimensions: [f64; 6],
    /// Atoms 0, 100 and the last.
    ends: [[f64; 3]; 3],
    mean: [f64; 3],
}

fn file(name: &str) -> PathBuf {
    data("formats").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap()
}

fn expected() -> Expected {
    serde_json::from_str(&text("expected.json")).unwrap()
}

fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("molbox-formats-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path
}

/// The whole message, as people see it.
fn message(error: &Error) -> String {
    let causes =
        std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn with_chains() -> String {
    text("pep.prmtop") + &text("chains.sections")
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found}, not {expected}");
}

/// Pairs of atoms but for the two hydrogens of water, which only keep it rigid.
fn chemical(bonds: &[[u32; 2]], names: &[String]) -> Vec<[u32; 2]> {
    let is_water = |[a, b]: &[u32; 2]| names[*a as usize] == "H1" && names[*b as usize] == "H2";
    bonds.iter().filter(|bond| !is_water(bond)).copied().collect()
}

#[test]
fn topologies_are_those_of_mdanalysis() {
    let expected = expected().topologies;
    let of = |name: &str| TopologyFile::open(&file(name)).unwrap();
    let chains = TopologyFile::from_text(&with_chains()).unwrap();
    for (name, read) in [
        ("pep.prmtop", of("pep.prmtop")),
        ("pep_chains.prmtop", chains),
        ("pep.psf", of("pep.psf")),
        ("pep.gro", of("pep.gro")),
    ] {
        let (topology, expected) = (read.topology(), &expected[name]);
        let names: Vec<_> = topology.atoms().map(|atom| atom.name.to_owned()).collect();
        assert_eq!(names, expected.names, "{name}");
        let residues: Vec<_> = topology.residues().map(|residue| residue.name).collect();
        assert_eq!(residues, expected.residues, "{name}");
        // MDAnalysis counts residues of a prmtop from 1, whatever numbers it has for them.
        let resids: Vec<_> = topology.residues().map(|residue| residue.number).collect();
        if name == "pep_chains.prmtop" {
            assert_eq!(
                (resids[0], resids[12], resids[22]),
                (0, 13, 23),
                "as the PDB file has them"
            );
        } else {
            assert_eq!(resids, expected.resids, "{name}");
        }
        let Some(charges) = &expected.charges else { continue };
        let types = expected.types.as_ref().unwrap();
        for (n, atom) in topology.atoms().enumerate() {
            assert_eq!(atom.atom_type, Some(types[n].as_str()), "{name} {n}");
            assert_near(topology.charge_e(n).unwrap(), charges[n], 1e-7, name);
            assert_near(atom.mass_da, expected.masses.as_ref().unwrap()[n], 1e-9, name);
        }
        let bonds = expected.bonds.as_ref().unwrap();
        assert_eq!(topology.bonds(), chemical(bonds, &names), "{name}");
        let chains: Vec<_> = (0..topology.n_atoms())
            .map(|n| topology.chain_id(topology.residue(topology.atom(n).residue).chain))
            .collect();
        let expected = expected.chains.as_ref();
        match name {
            "pep_chains.prmtop" => assert_eq!(chains, *expected.unwrap(), "{name}"),
            "pep.psf" => assert!(chains.iter().all(|chain| *chain == "SYS")),
            _ => assert!(chains.iter().all(|chain| chain.is_empty())),
        }
    }
    let TopologyFile::Structure(structure) = of("pep.gro") else { panic!("it has positions") };
    let expected = &expected["pep.gro"];
    for (n, position) in [0, 100, 250].into_iter().zip(expected.positions.unwrap()) {
        (0..3).for_each(|k| assert_near(structure.positions[n][k], position[k], 2e-6, "position"));
    }
    let cell = parameters(&structure.cell.unwrap());
    for (found, expected) in cell.into_iter().zip(expected.dimensions.unwrap()) {
        assert_near(found, expected, 1e-4, "cell");
    }
}

#[test]
fn one_system_has_the_same_elements_and_molecules_in_every_format() {
    let pdb = Structure::open(&data("mini_tri.pdb")).unwrap().topology;
    let n_molecules = 1 + 11;
    for name in ["pep.prmtop", "pep.psf", "pep.gro"] {
        let read = TopologyFile::open(&file(name)).unwrap();
        let topology = read.topology();
        assert_eq!(topology.n_molecules(), n_molecules, "{name}");
        for n in 0..topology.n_atoms() {
            assert_eq!(topology.atom(n).element, pdb.atom(n).element, "{name} {n}");
        }
        let of_pdb = pdb.bonds().iter().take_while(|bond| (bond[1] as usize) < topology.n_atoms());
        assert_eq!(topology.bonds(), of_pdb.copied().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn masks_take_types_where_a_force_field_gives_them() {
    let select = |topology: &Topology, mask: &str| {
        Mask::parse(mask).unwrap().select(topology, None).unwrap()
    };
    let prmtop = Topology::from_prmtop(&text("pep.prmtop")).unwrap();
    let types = expected().topologies["pep.prmtop"].types.clone().unwrap();
    for (mask, wanted) in [
        ("@%CT", vec!["CT"]),
        ("@%N3,O2", vec!["N3", "O2"]),
        ("@%H*", vec!["H", "HC", "H1", "HP", "HA", "HO", "H4", "HW"]),
    ] {
        let found: Vec<_> = select(&prmtop, mask).atoms.iter().collect();
        let all: Vec<_> =
            (0..types.len()).filter(|n| wanted.contains(&types[*n].as_str())).collect();
        assert!(!all.is_empty());
        assert_eq!(found, all, "{mask}");
    }
    // As cpptraj has it: no chain is named, and numbers are counted.
    let chain = select(&prmtop, "::A");
    assert!(chain.atoms.is_empty());
    assert!(chain.warnings.iter().any(|w| matches!(w, MaskWarning::Unknown { .. })));
    assert_eq!(select(&prmtop, ":;1").atoms, select(&prmtop, ":1").atoms);
    let chains = TopologyFile::from_text(&with_chains()).unwrap();
    assert_eq!(select(chains.topology(), "::A").atoms.len(), 218);
    assert_eq!(select(chains.topology(), ":;0").atoms, select(chains.topology(), ":1").atoms);
    assert_eq!(select(&prmtop, "^1").atoms.len(), 218);
}

#[test]
fn every_frame_is_that_of_mdanalysis_and_mdtraj() {
    for (name, of_programs) in expected().trajectories {
        let trajectory = Trajectory::open(&file(&name)).unwrap();
        let read = frames(&file(&name));
        assert_eq!((trajectory.n_atoms(), trajectory.trailing_bytes()), (251, 0), "{name}");
        for (program, expected) in of_programs {
            let what = format!("{name} by {program}");
            assert_eq!(read.len(), expected.len(), "{what}");
            for (n, (cell, positions)) in read.iter().enumerate() {
                let expected = &expected[n];
                assert_eq!(trajectory.time_ps(n), Some(expected.time), "{what}");
                let mut mean = [0.0; 3];
                for k in 0..3 {
                    for position in positions {
                        mean[k] += f64::from(position[k]) / 251.0;
                    }
                    // Their own means are of coordinates in nm, or of 32 bits in Å.
                    assert_near(mean[k], expected.mean[k], 2e-6, &what);
                    for (atom, end) in [0, 100, 250].into_iter().zip(&expected.ends) {
                        assert_near(positions[atom][k].into(), end[k], 4e-6, &what);
                    }
                }
                let cell = parameters(&cell.unwrap());
                for (found, expected) in cell.into_iter().zip(expected.dimensions) {
                    assert_near(found, expected, 2e-5, &what);
                }
            }
        }
    }
}

#[test]
fn a_part_of_a_frame_is_what_the_whole_frame_has_there() {
    for name in ["pep.trr", "cdf2.nc", "cdf5.nc", "fixed.nc"] {
        let trajectory = Trajectory::open(&file(name)).unwrap();
        let whole = frames(&file(name));
        let atoms = AtomSet::from_fn(251, |atom| atom % 7 == 3 || atom > 240);
        let (plan, mut frame) = (trajectory.read_plan(&atoms), Frame::new());
        for n in [3, 0, 2] {
            trajectory.read(n, &plan, &mut frame).unwrap();
            for atom in atoms.iter() {
                let found = frame.position(plan.slot(atom).unwrap()).map(|x| x as f32);
                assert_eq!(found, whole[n].1[atom], "{name}");
            }
        }
    }
}

#[test]
fn an_excerpt_has_the_frames_and_times_of_what_it_is_made_from() {
    for name in ["pep.trr", "cdf2.nc"] {
        let atoms = AtomSet::from_fn(251, |atom| atom < 20);
        let trajectory = Trajectory::open(&file(name)).unwrap();
        let mut excerpt = Excerpt::new(trajectory, &atoms, FrameRange::default()).unwrap();
        let mut bytes = vec![0; excerpt.size() as usize];
        excerpt.read(0, &mut bytes).unwrap();
        let path = temporary(&format!("{name}.dcd"), &bytes);
        let made = Trajectory::open(&path).unwrap();
        for (n, (whole, part)) in frames(&file(name)).iter().zip(frames(&path)).enumerate() {
            assert_eq!(whole.1[..20], part.1, "{name}");
            let time = made.time_ps(n).unwrap();
            assert_near(time, 1.5 * (n + 1) as f64, 1e-9, name);
        }
    }
}

/// A TRR file of frames with these parts: cell, virial, coordinates, velocities.
fn trr(is_double: bool, frames: &[(bool, bool, bool, bool)]) -> Vec<u8> {
    let mut file = Vec::new();
    let width = if is_double { 8 } else { 4 };
    for (n, (cell, virial, x, v)) in frames.iter().enumerate() {
        let size = |is_there: &bool, numbers: i32| if *is_there { width * numbers } else { 0 };
        file.extend(b"\0\0\x07\xc9\0\0\0\x0d\0\0\0\x0cGMX_trn_file");
        let sizes = [
            0,
            0,
            size(cell, 9),
            size(virial, 9),
            0,
            0,
            0,
            size(x, 6),
            size(v, 6),
            0,
            2,
            n as i32,
            0,
        ];
        sizes.into_iter().for_each(|number| file.extend(number.to_be_bytes()));
        let mut number = |x: f64| {
            if is_double {
                file.extend(x.to_be_bytes());
            } else {
                file.extend((x as f32).to_be_bytes());
            }
        };
        [0.1 * n as f64, 0.0].into_iter().for_each(&mut number);
        if *cell {
            [3.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0, 4.0].into_iter().for_each(&mut number);
        }
        if *virial {
            (0..9).for_each(|_| number(7.0));
        }
        if *x {
            (0..6).for_each(|k| number(n as f64 + 0.125 * f64::from(k)));
        }
        if *v {
            (0..6).for_each(|_| number(-5.0));
        }
    }
    file
}

#[test]
fn trr_of_both_precisions_is_read_whatever_else_is_in_its_frames() {
    let all = (true, true, true, true);
    for is_double in [false, true] {
        // Velocities alone make no frame.
        let parts = [all, (true, false, false, true), (false, false, true, false), all];
        let path = temporary(&format!("parts{is_double}.trr"), &trr(is_double, &parts));
        let trajectory = Trajectory::open(&path).unwrap();
        let times: Vec<_> = (0..3).map(|n| trajectory.time_ps(n).unwrap()).collect();
        assert_eq!(
            times,
            [0.0, 0.2, 0.300_000_000_000_000_04].map(|t| if is_double {
                t
            } else {
                (t * 1e6_f64).round() / 1e6
            })
        );
        let read = frames(&path);
        for ((cell, positions), n) in read.iter().zip([0.0, 2.0, 3.0]) {
            assert_eq!(cell.is_some(), n != 2.0);
            assert_eq!(positions[0], [10.0 * n, 10.0 * n + 1.25, 10.0 * n + 2.5]);
            assert_eq!(positions[1], [10.0 * n + 3.75, 10.0 * n + 5.0, 10.0 * n + 6.25]);
        }
        let cell = read[0].0.unwrap();
        assert_eq!(cell.vectors(), [[30.0, 0.0, 0.0], [10.0, 30.0, 0.0], [0.0, 0.0, 40.0]]);
        assert_eq!(read.len(), 3);
    }
}

#[test]
fn a_file_that_is_cut_off_has_the_frames_before_and_grows() {
    for name in ["pep.trr", "cdf1.nc", "cdf2.nc", "cdf5.nc", "fixed.nc"] {
        let whole = fs::read(file(name)).unwrap();
        let before = frames(&file(name));
        // Velocities, which come last in cdf2.nc, are not missed.
        let cut = whole.len() - if name == "cdf2.nc" { 4000 } else { 700 };
        let path = temporary(&format!("cut_{name}"), &whole[..cut]);
        let mut trajectory = Trajectory::open(&path).unwrap();
        // Of a fixed number of frames, the last variables are cut off first: cells, here.
        assert!(trajectory.n_frames() < 4, "{name}");
        let n_before = trajectory.n_frames();
        if name.ends_with("nc") {
            assert_eq!(trajectory.n_missing(), 4 - n_before, "{name}");
        }
        if n_before > 0 {
            assert!(trajectory.trailing_bytes() > 0 || name == "fixed.nc", "{name}");
            assert_eq!(frames(&path)[n_before - 1].1, before[n_before - 1].1, "{name}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(trajectory.refresh().unwrap(), 4, "{name}");
        assert_eq!(trajectory.time_ps(3), Some(6.0), "{name}");
    }
}

#[test]
fn netcdf_without_a_count_is_counted_by_its_size() {
    let mut bytes = fs::read(file("cdf2.nc")).unwrap();
    bytes[4..8].fill(0xff);
    assert_eq!(frames(&temporary("streaming.nc", &bytes)).len(), 4);
    // A record after the last that is counted is being written.
    bytes[4..8].copy_from_slice(&3_u32.to_be_bytes());
    let trajectory = Trajectory::open(&temporary("counted.nc", &bytes)).unwrap();
    assert_eq!((trajectory.n_frames(), trajectory.n_missing()), (3, 0));
    assert!(trajectory.trailing_bytes() > 0);
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let at = bytes.windows(old.len()).position(|window| window == old).expect("it is there");
    let mut bytes = bytes.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

#[test]
fn units_of_netcdf_count() {
    let whole = fs::read(file("cdf1.nc")).unwrap();
    let first = frames(&file("cdf1.nc"))[0].1[0];
    let path = temporary("nm.nc", &replaced(&whole, b"angstrom", b"nm\0\0\0\0\0\0"));
    assert_eq!(frames(&path)[0].1[0], first.map(|x| 10.0 * x));
    let path = temporary("feet.nc", &replaced(&whole, b"angstrom", b"feet\0\0\0\0"));
    let error = message(&Trajectory::open(&path).unwrap_err());
    assert!(error.contains("expected units that Amber's convention has, or nanometer, found \"feet\" of coordinates"), "{error}");
}

#[test]
fn what_is_not_read_is_refused_with_the_reason_and_the_place() {
    let cdf = fs::read(file("cdf1.nc")).unwrap();
    let trr_bytes = fs::read(file("pep.trr")).unwrap();
    let mut other_atoms = trr_bytes.clone();
    let second = other_atoms.len() / 4;
    other_atoms[second + 64..second + 68].copy_from_slice(&250_i32.to_be_bytes());
    let mut negative = trr_bytes.clone();
    negative[52..56].copy_from_slice(&(-12_i32).to_be_bytes());
    let mut huge = trr_bytes.clone();
    huge[64..68].copy_from_slice(&i32::MAX.to_be_bytes());
    for (name, bytes, words) in [
        (
            "hdf5.nc",
            fs::read(file("hdf5.nc")).unwrap(),
            "NetCDF, byte 0: expected classic NetCDF (CDF-1, CDF-2 or CDF-5), found NetCDF-4 (HDF5); `nccopy -k cdf5 IN.nc OUT.nc` makes it classic",
        ),
        (
            "version.nc",
            replaced(&cdf, b"CDF\x01", b"CDF\x03"),
            "byte 3: expected version 1, 2 or 5 of classic NetCDF, found 3",
        ),
        (
            "other.nc",
            replaced(&cdf, b"coordinates", b"temperature"),
            "expected a variable coordinates(frame, atom, spatial) of Amber's convention, found spatial, cell_angular, time, temperature",
        ),
        (
            "cut.nc",
            cdf[..200].to_vec(),
            "expected the rest of the header, found the end of the file",
        ),
        ("other.trr", other_atoms, "TRR, byte 3132: expected as many atoms as before, found 250"),
        ("negative.trr", negative, "TRR, byte 0: expected sizes that are not negative, found -12"),
        ("huge.trr", huge, "TRR, byte 0: expected parts of as many numbers as there are atoms"),
    ] {
        let error = message(&Trajectory::open(&temporary(name, &bytes)).unwrap_err());
        assert!(error.contains(words), "{name}: {error}");
    }
    let prmtop = text("pep.prmtop");
    for (text, words) in [
        (
            prmtop.replacen("     251      13", "     250      13", 1),
            "Amber prmtop, line 11: expected as many as POINTERS says there are, found 251 of 250 in ATOM_NAME",
        ),
        (prmtop.replace("%FLAG MASS", "%FLAG LENGTH"), "found no %FLAG MASS"),
        (
            prmtop.replacen("3.36930327E+00", "3.36930327E+xx", 1),
            "expected a number, found `3.36930327E+xx`",
        ),
        (
            prmtop.replacen("(5E16.8)", "(5E1x.8)", 1),
            "expected a format such as (20a4), (10I8) or (5E16.8), found",
        ),
        (
            text("pep.psf").replacen("251 !NATOM", "999 !NATOM", 1),
            "PSF, line 258: expected an atom: number, segment",
        ),
        (text("pep.psf").replacen("0.184900", "0.18490x", 1), "PSF, line 7: expected an atom"),
        (text("pep.gro").replacen("   1.475", "   1.4x5", 1), "no atom in it"),
        (
            text("pep.gro").replacen("   1.337", "   1.3x7", 1),
            "GRO, line 7: expected an atom: number and name of its residue",
        ),
        (text("pep.gro").replacen("  251", "  999", 1), "expected an atom"),
    ] {
        let error = TopologyFile::from_text(&text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = message(&Structure::open(&file("pep.prmtop")).unwrap_err());
    assert!(
        error
            .contains("expected a structure (PDB, mmCIF, GRO), found a topology without positions"),
        "{error}"
    );
}

#[test]
fn no_damage_makes_a_reader_panic_or_take_memory() {
    let mut random = Random(7);
    for name in ["pep.trr", "cdf1.nc", "cdf5.nc", "fixed.nc"] {
        let whole = fs::read(file(name)).unwrap();
        for round in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(4) {
                // Most damage to the first bytes, which count.
                let at = random.below(if round % 4 > 0 { 900 } else { bytes.len() });
                bytes[at] = [0, 0xff, 0x7f, random.bits() as u8][random.below(4)];
            }
            bytes.truncate(bytes.len() - random.below(3) * random.below(900));
            let path = temporary("damaged", &bytes);
            let Ok(trajectory) = Trajectory::open(&path) else { continue };
            if trajectory.n_frames() == 0 {
                continue;
            }
            assert!(trajectory.n_atoms() <= bytes.len() && trajectory.n_frames() <= bytes.len());
            let plan = trajectory.read_plan(&AtomSet::all(trajectory.n_atoms()));
            let mut frame = Frame::new();
            for n in 0..trajectory.n_frames() {
                let _ = trajectory.read(n, &plan, &mut frame);
            }
        }
    }
    for name in ["pep.prmtop", "pep.psf", "pep.gro"] {
        let whole = text(name).into_bytes();
        for _ in 0..100 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len().min(6000));
                match random.below(3) {
                    0 => bytes[at] = b"0 9-%!\n"[random.below(7)],
                    1 => drop(bytes.drain(at..(at + random.below(30)).min(bytes.len()))),
                    _ => bytes.truncate(at.max(3)),
                }
            }
            let _ = TopologyFile::from_text(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn numbers_without_memory_for_them_are_refused() {
    for text in [
        "PSF\n\n 99999999999 !NATOM\n".to_owned(),
        "title\n99999999999\n    1ALA     CA    1   0.000   0.000   0.000\n".to_owned(),
        format!(
            "%FLAG POINTERS\n%FORMAT(10I8)\n{}",
            "99999999".repeat(10)
                + "\n"
                + &"99999999".repeat(10)
                + "\n"
                + &"99999999".repeat(10)
                + "\n"
        ),
    ] {
        assert!(TopologyFile::from_text(&text).is_err(), "{text}");
    }
}

#[test]
fn dialects_of_psf_are_read_alike() {
    let of = |head: &str, rows: [&str; 3]| {
        let text = format!(
            "{head}\n\n       1 !NTITLE\n REMARKS !NATOM is below\n\n       3 !NATOM\n{}\n{}\n{}\n\n       3 !NBOND: bonds\n       1       2       1       3\n       2       3\n",
            rows[0], rows[1], rows[2]
        );
        Topology::from_psf(&text).unwrap()
    };
    let charmm = of(
        "PSF",
        [
            "       1 SOLV 10A  TIP3 OH2    75  -0.834000       15.9994           0",
            "       2 SOLV 10A  TIP3 H1      4   0.417000       1.00800           0",
            "       3 SOLV 10A  TIP3 H2      4   0.417000       1.00800           0",
        ],
    );
    let extended = of(
        "PSF EXT CMAP XPLOR",
        [
            "         1 SOLV     10A      TIP3     OH2      OT      -0.834000       15.9994           0   0.00000     -0.301140E-02",
            "         2 SOLV     10A      TIP3     H1       HT       0.417000       1.00800           0   0.00000     -0.301140E-02",
            "         3 SOLV     10A      TIP3     H2       HT       0.417000       1.00800           0   0.00000     -0.301140E-02",
        ],
    );
    let namd = of(
        "PSF NAMD",
        [
            "1 SOLV 10A TIP3 OH2 OT -0.834 15.9994 0",
            "2 SOLV 10A TIP3 H1 HT 0.417 1.008 0",
            "3 SOLV 10A TIP3 H2 HT 0.417 1.008 0",
        ],
    );
    for topology in [&charmm, &extended, &namd] {
        assert_eq!(topology.atom_label(1), "SOLV:TIP310A@H1");
        assert_eq!(topology.charge_e(0), Some(-0.834));
        assert_eq!(topology.bonds(), [[0, 1], [0, 2]]);
        assert_eq!(topology.atom(0).element.map(|e| e.symbol()), Some("O"));
        assert!(topology.is_water(0));
    }
    assert_eq!(charmm.atom(0).atom_type, Some("75"));
    assert_eq!([&extended, &namd].map(|t| t.atom(2).atom_type), [Some("HT"); 2]);
    let blank = of(
        "PSF EXT",
        [
            "         1          10       TIP3     OH2      OT      -0.834000       15.9994           0",
            "         2          10       TIP3     H1       HT       0.417000       1.00800           0",
            "         3          10       TIP3     H2       HT       0.417000       1.00800           0",
        ],
    );
    assert_eq!(blank.atom_label(0), "TIP310@OH2");
}

#[test]
fn masses_are_those_of_elements_where_hydrogens_were_made_heavy() {
    let rows = |hydrogen: f64| {
        format!(
            "PSF NAMD\n\n2 !NATOM\n1 A 1 MET C C 0.0 {} 0\n2 A 1 MET H1 H 0.0 {hydrogen} 0\n\n1 !NBOND: bonds\n1 2\n",
            13.119 - hydrogen
        )
    };
    let mass = |hydrogen| Topology::from_psf(&rows(hydrogen)).unwrap().atom(0).mass_da;
    assert_eq!(mass(1.008), 12.111);
    assert_eq!(mass(3.024), 12.010_78);
}

#[test]
fn elements_are_those_of_before_hydrogens_were_made_heavy() {
    let text = fs::read_to_string(data("formats/pep.psf")).unwrap();
    let light = Topology::from_psf(&text).unwrap();
    for heavy_da in [3.024, 4.032] {
        let is_hydrogen = |atom: usize| light.atom(atom).element == Some(Element::H);
        let mut masses: Vec<f64> = (0..light.n_atoms()).map(|n| light.atom(n).mass_da).collect();
        for [a, b] in light.bonds().iter().map(|bond| bond.map(|atom| atom as usize)) {
            let (hydrogen, owner) = if is_hydrogen(a) { (a, b) } else { (b, a) };
            if is_hydrogen(hydrogen) && !light.is_water(light.atom(hydrogen).residue) {
                masses[owner] -= heavy_da - masses[hydrogen];
                masses[hydrogen] = heavy_da;
            }
        }
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let first = lines.iter().position(|line| line.contains("!NATOM")).unwrap() + 1;
        for (line, mass_da) in lines[first..].iter_mut().zip(masses) {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            let at = line.rfind(words[7]).unwrap();
            line.replace_range(at..at + words[7].len(), &format!("{mass_da:.4}"));
        }
        let heavy = Topology::from_psf(&lines.join("\n")).unwrap();
        for atom in 0..light.n_atoms() {
            let [before, after] = [&light, &heavy].map(|topology| topology.atom(atom));
            assert_eq!(before.element, after.element, "{}", light.atom_label(atom));
            assert_near(before.mass_da, after.mass_da, 1e-3, "mass");
        }
    }
}

#[test]
fn an_atom_is_an_ion_by_name_where_it_is_alone() {
    let row = |n: usize, residue: &str, name: &str| {
        format!("{n:>5}{residue:<5}{name:>5}{n:>5}{:8.3}{:8.3}{:8.3}", n as f64, 0.0, 0.0)
    };
    let rows = [
        row(1, "LIG", "CAD"),
        row(1, "LIG", "CAL"),
        row(1, "LIG", "FE"),
        row(2, "CAL", "CAL"),
        row(3, "SOD", "SOD"),
    ];
    let text = format!("ions\n5\n{}\n 9.0 9.0 9.0\n", rows.join("\n"));
    let topology = Structure::from_text(&text).unwrap().topology;
    let symbols: Vec<_> =
        (0..5).map(|n| topology.atom(n).element.map_or("", Element::symbol)).collect();
    assert_eq!(symbols, ["C", "C", "Fe", "Ca", "Na"]);
}

#[test]
fn water_is_known_by_its_name_or_its_atoms() {
    let of = |residue: &str, names: &[&str]| {
        let row = |(n, name): (usize, &&str)| {
            format!(
                "    1{residue:<5}{name:>5}    1{:8.3}{:8.3}{:8.3}\n",
                n as f64 / 10.0,
                0.0,
                0.0
            )
        };
        let rows: String = names.iter().enumerate().map(row).collect();
        let text = format!("water\n{}\n{rows} 9.0 9.0 9.0\n", names.len());
        let topology = Structure::from_text(&text).unwrap().topology;
        (topology.is_water(0), Group::solute(&topology).atoms.is_empty())
    };
    for name in ["SPCE", "OPC3", "TP3M", "TIP", "TP4E", "HOH"] {
        assert_eq!(of(name, &["OW", "HW1", "HW2"]), (true, true), "{name}");
    }
    for name in ["OPC", "T3P", "XYZ"] {
        assert_eq!(of(name, &["OW", "HW1", "HW2"]), (true, true), "{name}");
        assert_eq!(of(name, &["O", "H1", "H2", "EPW"]), (true, true), "{name}");
        assert_eq!(of(name, &["O1", "H1", "C1"]), (false, false), "{name}");
        assert_eq!(of(name, &["O1", "H1"]), (false, false), "{name}");
    }
}

#[test]
fn gro_positions_have_any_precision_and_cells_any_shape() {
    let text = "t= 1.0\n 2\n99999SOL     OW99999   1.23456789   2.00000000  -3.50000000  0.1 0.2 0.3\n    0SOL    HW1    0   1.30000000   2.00000000  -3.50000000  0.1 0.2 0.3\n   3.0   3.0   2.0   0.0   0.0   0.0   0.0   1.5   1.5\n";
    let structure = Structure::from_text(text).unwrap();
    assert_near(structure.positions[0][0], 12.345_678_9, 1e-9, "x");
    assert_eq!(structure.positions[1][2], -35.0);
    assert_eq!(structure.topology.n_residues(), 2);
    let cell = structure.cell.unwrap().vectors();
    assert_eq!(cell, [[30.0, 0.0, 0.0], [0.0, 30.0, 0.0], [15.0, 15.0, 20.0]]);
    assert_eq!(Structure::from_text(&(text.to_owned() + text)).unwrap().n_models, 2);
    let none = text.replace("3.0   3.0   2.0   0.0   0.0   0.0   0.0   1.5   1.5", "0.0 0.0 0.0");
    assert!(Structure::from_text(&none).unwrap().cell.is_none());
}

/// A GRO file of three lipids of Martini along z, one broken across the box, with water and an ion.
fn martini() -> String {
    const LIPID: [&str; 12] =
        ["NC3", "PO4", "GL1", "GL2", "C1A", "C2A", "C3A", "C4A", "C1B", "C2B", "C3B", "C4B"];
    let mut lines = Vec::new();
    let mut add = |number: usize, residue: &str, name: &str, at: [f64; 3]| {
        let [x, y, z] = at.map(|nm| nm.rem_euclid(6.0));
        let n = lines.len() + 1;
        lines.push(format!("{number:5}{residue:<5}{name:>5}{n:5}{x:8.3}{y:8.3}{z:8.3}"));
    };
    for lipid in 0..3 {
        for (n, name) in LIPID.into_iter().enumerate() {
            // Two chains side by side.
            let (across, along) = if n < 8 { (0.0, n) } else { (0.4, n - 4) };
            let z = 1.3 * lipid as f64 + 0.4 * along as f64;
            add(lipid + 1, "DPPC", name, [1.0 + across, 1.0, z]);
        }
    }
    for n in 0..4 {
        add(4 + n, "W", "W", [4.0 + 0.4 * n as f64, 4.0, 1.0]);
    }
    add(8, "ION", "NA+", [5.0, 5.0, 5.0]);
    format!("lipids\n{}\n{}\n   6.00000   6.00000   6.00000\n", lines.len(), lines.join("\n"))
}

#[test]
fn coarse_grains_are_no_atoms_and_their_molecules_hold_together() {
    let file = TopologyFile::from_text(&martini()).unwrap();
    let topology = file.topology();
    assert!(topology.atoms().all(|atom| atom.element.is_none()), "PO4 is no phosphorus");
    assert_eq!(topology.n_molecules(), 3 + 4 + 1);
    assert_eq!(Group::solute(topology).atoms.len(), 36, "water and ions are single grains");
    assert_eq!(file.warnings(), [Warning::CoarseGrains]);
    let file = TopologyFile::open(&self::file("pep.gro")).unwrap();
    assert_eq!(file.warnings(), []);
    assert_eq!(file.topology().atom(0).element, Some(Element::N), "of a peptide");
}

#[test]
fn a_box_of_gro_whose_numbers_touch_is_read() {
    let text = text("pep.gro");
    let (atoms, _) = text.trim_end().rsplit_once('\n').unwrap();
    let cell = |line: &str| Structure::from_gro(&format!("{atoms}\n{line}\n")).unwrap().cell;
    let lengths = cell("40000.0000040000.00000  123.50000").unwrap().lengths();
    assert_eq!(lengths, [400_000.0, 400_000.0, 1235.0]);
    let nine = "1000.000001000.000001000.00000   0.00000   0.00000   0.00000   0.00000 500.00000 500.00000";
    let vectors = cell(nine).unwrap().vectors();
    assert_eq!(vectors[2], [5000.0, 5000.0, 10_000.0]);
}

fn column(topology: &Path, trajectory: &[PathBuf], params: &Params) -> Vec<f64> {
    let files = Files { topology, trajectory, reference: None };
    let cancelled = AtomicBool::new(false);
    let control = Control {
        n_threads: NonZeroUsize::new(2).unwrap(),
        progress: &|_, _| {},
        cancelled: &cancelled,
    };
    let report = analyze_files(&files, params, &control).unwrap();
    let Values::Numbers(values) = &report.tables[0].columns.last().unwrap().values else {
        panic!("numbers")
    };
    values.clone()
}

#[test]
fn analyses_of_any_pair_of_formats_agree() {
    let masks = |masks: &[&str]| masks.iter().map(|mask| (*mask).to_owned()).collect();
    let params = Params { distance_masks: masks(&[":1-3 :10-12"]), ..Params::default() };
    let all = column(&file("pep.prmtop"), &[file("cdf2.nc")], &params);
    assert_eq!(all.len(), 4);
    for topology in ["pep.prmtop", "pep.psf", "pep.gro"] {
        for trajectory in ["cdf1.nc", "cdf5.nc", "pep.trr", "mdtraj.trr"] {
            let found = column(&file(topology), &[file(trajectory)], &params);
            for (found, expected) in found.iter().zip(&all) {
                // Masses of the PSF have four digits, coordinates in nm other last bits.
                assert_near(*found, *expected, 2e-5, &format!("{topology} {trajectory}"));
            }
        }
    }
    let parts = [file("cdf2.nc"), file("pep.trr")];
    assert_eq!(column(&file("pep.psf"), &parts, &params).len(), 8, "parts of several formats");
}

#[test]
fn distances_in_masks_are_those_of_the_first_frame_where_a_topology_has_no_positions() {
    let near = vec![":1<:6.0&@CA".to_owned()];
    let params = Params { gyration_masks: near.clone(), ..Params::default() };
    let found = column(&file("pep.prmtop"), &[file("pep.trr")], &params);
    assert_eq!(found.len(), 4);
    let series = Series::open(&[file("pep.trr")]).unwrap();
    let plan = series.read_plan(&AtomSet::all(251));
    let mut frame = Frame::new();
    series.read(0, &plan, &mut frame).unwrap();
    let positions: Vec<_> = (0..251).map(|atom| frame.position(atom)).collect();
    let topology = Topology::from_prmtop(&text("pep.prmtop")).unwrap();
    let atoms = Mask::parse(&near[0]).unwrap().select(&topology, Some(&positions)).unwrap().atoms;
    let by_number: Vec<_> = atoms.iter().map(|atom| (atom + 1).to_string()).collect();
    let params =
        Params { gyration_masks: vec![format!("@{}", by_number.join(","))], ..Params::default() };
    assert_eq!(found, column(&file("pep.prmtop"), &[file("pep.trr")], &params));
}

/// Amber's lipids are three residues, glycans one for each sugar.
#[test]
fn residues_of_no_chain_are_bonded_by_distance() {
    let line = |n: usize, name: &str, residue: &str, number: usize, x: f64| {
        format!(
            "HETATM{n:>5}  {name:<3} {residue:<3} A{number:>4}    {x:>8.3}   0.000   0.000  1.00  0.00\
             {:>12}\n",
            &name[..1]
        )
    };
    let molecules = |third: f64| {
        let text = [
            line(1, "C1", "PA", 1, 0.0),
            line(2, "C2", "PC", 2, 1.53),
            line(3, "O3", "OL", 3, third),
            line(4, "O", "HOH", 4, third + 1.5),
        ];
        Structure::from_pdb(&text.concat()).unwrap().topology.n_molecules()
    };
    assert_eq!([molecules(1.53 + 1.43), molecules(1.53 + 1.8)], [2, 3]);
}

#[test]
fn selenium_without_its_column_is_no_sulfur() {
    let line = "HETATM    1 SE   MSE A   1       0.000   0.000   0.000  1.00  0.00\n";
    let topology = Structure::from_pdb(line).unwrap().topology;
    assert_eq!(topology.atom(0).element.unwrap().symbol(), "Se");
}

#[test]
fn dummies_about_a_metal_are_no_hydrogens() {
    let line = |name: &str, residue: &str, [x, y, z]: [f64; 3], symbol: &str| {
        format!(
            "HETATM    1 {name:<4} {residue} A   1    {x:8.3}{y:8.3}{z:8.3}  1.00  0.00          {symbol:>2}\n"
        )
    };
    let corners = [[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]];
    // Names of two models, with what programs write into the columns of the element.
    for (name, symbol) in [("DM", ""), ("DM", "D"), ("DM", "H"), ("D", ""), ("D", "D"), ("DZ", "")]
    {
        let mut text = line("ZN", "ZND", [0.0; 3], "ZN");
        for (n, corner) in corners.iter().enumerate() {
            text += &line(&format!(" {name}{}", n + 1), "ZND", corner.map(|x| 0.52 * x), symbol);
        }
        let topology = Structure::from_pdb(&text).unwrap().topology;
        let selected =
            |mask: &str| Mask::parse(mask).unwrap().select(&topology, None).unwrap().atoms.len();
        assert_eq!((selected("@/H"), selected("@/ZN")), (0, 1), "{name} {symbol}");
        let masses: Vec<f64> = topology.atoms().map(|atom| atom.mass_da).collect();
        assert_eq!(masses[1..], [0.0; 4], "{name} {symbol}");
        assert_eq!(topology.n_molecules(), 1, "{name} {symbol}");
    }
    // Deuterium is hydrogen, and a Drude particle none, whatever both are called.
    let text = line(" C1 ", "LIG", [0.0; 3], "C")
        + &line(" DC1", "LIG", [0.1, 0.0, 0.0], "")
        + &line(" D1 ", "LIG", [1.09, 0.0, 0.0], "");
    let topology = Structure::from_pdb(&text).unwrap().topology;
    let elements: Vec<_> = topology.atoms().map(|atom| atom.element).collect();
    assert_eq!(elements, [Some(Element::C), None, Some(Element::H)]);
    // LEaP and its kin give dummies the atomic number of hydrogen, and a mass.
    let prmtop = text_of_dummies();
    let topology = Topology::from_prmtop(&prmtop).unwrap();
    let elements: Vec<_> = topology.atoms().map(|atom| atom.element).collect();
    assert_eq!(elements[1..], [None; 2]);
    let masses: Vec<f64> = topology.atoms().map(|atom| atom.mass_da).collect();
    assert_eq!(masses, [59.38, 3.0, 3.0], "as the file has them, and not made lighter");
}

/// Zinc with two dummies as a prmtop file.
fn text_of_dummies() -> String {
    let pointers = [3, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1].map(|n| format!("{n:8}"));
    let pointers: Vec<String> =
        pointers.into_iter().chain((12..30).map(|_| format!("{:8}", 0))).collect();
    let lines: Vec<String> = pointers.chunks(10).map(<[String]>::concat).collect();
    format!(
        "%VERSION\n%FLAG POINTERS\n%FORMAT(10I8)\n{}\n\
         %FLAG ATOM_NAME\n%FORMAT(20a4)\nZN  DM1 DM2 \n\
         %FLAG CHARGE\n%FORMAT(5E16.8)\n{:16.8}{:16.8}{:16.8}\n\
         %FLAG ATOMIC_NUMBER\n%FORMAT(10I8)\n      30       1       1\n\
         %FLAG MASS\n%FORMAT(5E16.8)\n{:16.8}{:16.8}{:16.8}\n\
         %FLAG RESIDUE_LABEL\n%FORMAT(20a4)\nZND \n\
         %FLAG RESIDUE_POINTER\n%FORMAT(10I8)\n       1\n\
         %FLAG BONDS_INC_HYDROGEN\n%FORMAT(10I8)\n       0       3       1       0       6       1\n\
         %FLAG BONDS_WITHOUT_HYDROGEN\n%FORMAT(10I8)\n\n",
        lines.join("\n"),
        -1.0,
        0.5,
        0.5,
        59.38,
        3.0,
        3.0
    )
}

#[test]
fn dimensions_whose_product_is_beyond_64_bits_are_of_no_variable_that_is_read() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/netcdf");
    let trajectory = Trajectory::open(&seeds.join("dimensions.nc"));
    assert!(trajectory.is_ok_and(|it| it.n_frames() == 0));
}
