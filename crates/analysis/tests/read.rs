//! Structure and trajectory files of all dialects, whole and damaged.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};

use common::{Random, data, frames, parameters};
use molbox_analysis::{
    AtomSet, Cell, Contents, Element, Error, Excerpt, FormatError, Frame, FrameRange, Mask,
    Structure, Topology, TopologyFile, Trajectory,
};

/// A DCD file to be written.
#[derive(Clone, Copy, Debug)]
struct Dialect {
    big_endian: bool,
    marker: usize,
    cell: Option<[f64; 6]>,
    has_4d: bool,
    n_fixed: usize,
    /// 0 for X-PLOR.
    version: i32,
    title: &'static str,
    step_akma: f64,
}

const PLAIN: Dialect = Dialect {
    big_endian: false,
    marker: 4,
    cell: None,
    has_4d: false,
    n_fixed: 0,
    version: 24,
    title: "",
    step_akma: 0.5,
};

const N_ATOMS: usize = 20;

/// Coordinates that tell axis, atom and frame; the last atoms may be fixed.
fn coordinate(dialect: Dialect, frame: usize, atom: usize, axis: usize) -> f32 {
    let frame = if atom >= N_ATOMS - dialect.n_fixed { 0 } else { frame };
    (frame * 1000 + atom * 10 + axis) as f32
}

impl Dialect {
    fn file(self, n_frames: usize) -> Vec<u8> {
        let mut file = Vec::new();
        let mut header = b"CORD".to_vec();
        for n in 0..20 {
            let value = match n {
                0 => 7,
                1 => 100,
                2 => 50,
                8 => self.n_fixed as i32,
                10 => i32::from(self.cell.is_some()),
                11 => i32::from(self.has_4d),
                19 => self.version,
                _ => 0,
            };
            header.extend(self.bytes(value.to_le_bytes()));
        }
        if self.version > 0 {
            header.splice(40..44, self.bytes((self.step_akma as f32).to_le_bytes()));
        } else {
            header.splice(40..48, self.bytes(self.step_akma.to_le_bytes()));
        }
        self.record(&mut file, &header);
        let mut title = self.bytes(1_i32.to_le_bytes());
        title.extend(format!("{:80}", self.title).bytes());
        self.record(&mut file, &title);
        self.record(&mut file, &self.bytes((N_ATOMS as i32).to_le_bytes()));
        if self.n_fixed > 0 {
            let free = 1..=(N_ATOMS - self.n_fixed) as i32;
            self.record(
                &mut file,
                &free.flat_map(|atom| self.bytes(atom.to_le_bytes())).collect::<Vec<_>>(),
            );
        }
        (0..n_frames).for_each(|frame| self.frame(&mut file, frame));
        file
    }

    fn frame(self, file: &mut Vec<u8>, frame: usize) {
        if let Some(cell) = self.cell {
            self.record(
                file,
                &cell.into_iter().flat_map(|x| self.bytes(x.to_le_bytes())).collect::<Vec<_>>(),
            );
        }
        let n_atoms = if frame > 0 { N_ATOMS - self.n_fixed } else { N_ATOMS };
        for axis in 0..if self.has_4d { 4 } else { 3 } {
            let column = (0..n_atoms).map(|atom| coordinate(self, frame, atom, axis));
            self.record(
                file,
                &column.flat_map(|x| self.bytes(x.to_le_bytes())).collect::<Vec<_>>(),
            );
        }
    }

    fn record(self, file: &mut Vec<u8>, content: &[u8]) {
        let length = (content.len() as u64).to_le_bytes();
        let marker = if self.marker == 8 {
            self.bytes(length)
        } else {
            self.bytes([0, 1, 2, 3].map(|k| length[k]))
        };
        file.extend([marker.as_slice(), content, &marker].concat());
    }

    fn bytes<const N: usize>(self, mut little: [u8; N]) -> Vec<u8> {
        if self.big_endian {
            little.reverse();
        }
        little.to_vec()
    }
}

fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

fn columns(frame: &Frame) -> [&[f32]; 3] {
    [frame.x(), frame.y(), frame.z()]
}

#[test]
fn every_dialect_of_dcd_reads_alike() {
    let shape = [30.0, -3.0, 31.0, 2.0, -2.5, 32.0];
    let cells = [
        None,
        Some([0.0; 6]),
        Some([30.0, 0.0, 31.0, 0.0, 0.0, 32.0]),
        Some([30.0, 0.5, 31.0, 0.25, -0.25, 32.0]),
        Some([30.0, 60.0, 31.0, 75.5, 104.5, 32.0]),
        Some(shape),
    ];
    let lengths = [
        None,
        None,
        Some([30.0, 31.0, 32.0]),
        Some([30.0, 31.0, 32.0]),
        Some([30.0, 31.0, 32.0]),
        None,
    ];
    for n in 0..2 * 2 * 2 * 2 * cells.len() {
        let dialect = Dialect {
            big_endian: n % 2 == 1,
            marker: if n / 2 % 2 == 0 { 4 } else { 8 },
            has_4d: n / 4 % 2 == 1,
            n_fixed: if n / 8 % 2 == 1 { 6 } else { 0 },
            cell: cells[n / 16],
            ..PLAIN
        };
        let path = temporary(&format!("dialect_{n}.dcd"), &dialect.file(3));
        let trajectory = Trajectory::open(&path).unwrap();
        assert_eq!(
            (trajectory.n_atoms(), trajectory.n_frames(), trajectory.trailing_bytes()),
            (N_ATOMS, 3, 0),
            "{dialect:?}"
        );
        let atoms = AtomSet::from_fn(N_ATOMS, |atom| atom % 7 == 2);
        let (plan, mut frame) = (trajectory.read_plan(&atoms), Frame::new());
        for n in [2, 0, 1] {
            trajectory.read(n, &plan, &mut frame).unwrap();
            for atom in atoms.iter() {
                let slot = plan.slot(atom).unwrap();
                for (axis, column) in columns(&frame).into_iter().enumerate() {
                    assert_eq!(column[slot], coordinate(dialect, n, atom, axis), "{dialect:?}");
                }
            }
        }
        assert_excerpt(&path, &atoms, dialect);
        let found = frame.cell().map(|cell| cell.lengths().map(|x| (x * 1e9).round() / 1e9));
        match dialect.cell {
            Some(numbers) if numbers == shape => {
                assert_eq!(
                    frame.cell().unwrap().vectors(),
                    [[30.0, -3.0, 2.0], [-3.0, 31.0, -2.5], [2.0, -2.5, 32.0]]
                );
            }
            _ => assert_eq!(found, lengths[n / 16], "{dialect:?}"),
        }
        if let Some([_, gamma, _, beta, alpha, _]) =
            dialect.cell.filter(|cell| cell[1].abs() > 10.0)
        {
            let angles = frame.cell().unwrap().angles_deg();
            assert!(
                angles.iter().zip([alpha, beta, gamma]).all(|(a, b)| (a - b).abs() < 1e-9),
                "{angles:?}"
            );
        }
    }
}

/// That a file made of these atoms has their coordinates, and the cells of the file.
fn assert_excerpt(path: &Path, atoms: &AtomSet, dialect: Dialect) {
    let source = Trajectory::open(path).unwrap();
    let mut excerpt = Excerpt::new(source, atoms, FrameRange::default()).unwrap();
    let mut bytes = vec![0; excerpt.size() as usize];
    excerpt.read(0, &mut bytes).unwrap();
    let made = temporary("excerpt_of_a_dialect.dcd", &bytes);
    for ((cell, positions), found) in frames(path).into_iter().zip(frames(&made)) {
        let kept: Vec<[f32; 3]> = atoms.iter().map(|atom| positions[atom]).collect();
        assert_eq!(found.1, kept, "{dialect:?}");
        let sides = |cell: Option<Cell>| {
            cell.map(|cell| parameters(&cell).map(|x| (x * 1e6).round() / 1e6))
        };
        assert_eq!(sides(found.0), sides(cell), "{dialect:?}");
    }
}

/// The cell of a file's first frame: lengths, and angles in degrees.
fn cell_of(dialect: Dialect) -> Option<[f64; 6]> {
    let trajectory = Trajectory::open(&temporary("cell.dcd", &dialect.file(1))).unwrap();
    let mut frame = Frame::new();
    trajectory.read(0, &trajectory.read_plan(&AtomSet::none(N_ATOMS)), &mut frame).unwrap();
    let cell = frame.cell()?;
    let ([a, b, c], [alpha, beta, gamma]) = (cell.lengths(), cell.angles_deg());
    Some([a, b, c, alpha, beta, gamma])
}

/// The symmetric matrix of a cell, as CHARMM makes it: the root of the products of its edges with
/// each other. Newton's method for the root of a positive matrix converges from the matrix itself.
fn charmm_matrix([a, b, c, alpha, beta, gamma]: [f64; 6]) -> [f64; 6] {
    type Matrix = [[f64; 3]; 3];
    let times = |x: &Matrix, y: &Matrix| -> Matrix {
        [0, 1, 2].map(|i| [0, 1, 2].map(|j| (0..3).map(|k| x[i][k] * y[k][j]).sum()))
    };
    let inverse = |m: &Matrix| -> Matrix {
        let minor = |i: usize, j: usize| {
            let at = |p: usize, q: usize| m[(j + p) % 3][(i + q) % 3];
            at(1, 1) * at(2, 2) - at(1, 2) * at(2, 1)
        };
        let determinant: f64 = (0..3).map(|k| m[0][k] * minor(k, 0)).sum();
        [0, 1, 2].map(|i| [0, 1, 2].map(|j| minor(i, j) / determinant))
    };
    let cosine = |deg: f64| deg.to_radians().cos();
    let (ab, ac, bc) = (a * b * cosine(gamma), a * c * cosine(beta), b * c * cosine(alpha));
    let products = [[a * a, ab, ac], [ab, b * b, bc], [ac, bc, c * c]];
    let (mut root, mut inverse_root): (Matrix, Matrix) =
        (products, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
    for _ in 0..60 {
        let (of_root, of_inverse) = (inverse(&root), inverse(&inverse_root));
        let mean = |x: &Matrix, y: &Matrix| {
            [0, 1, 2].map(|i| [0, 1, 2].map(|j| (x[i][j] + y[i][j]) / 2.0))
        };
        (root, inverse_root) = (mean(&root, &of_inverse), mean(&inverse_root, &of_root));
    }
    let again = times(&root, &root);
    assert!((again[0][1] - ab).abs() < 1e-6, "{again:?}");
    [root[0][0], root[1][0], root[1][1], root[2][0], root[2][1], root[2][2]]
}

#[test]
fn cells_of_every_program_are_what_it_meant() {
    let in_degrees = |[a, b, c, alpha, beta, gamma]: [f64; 6]| [a, gamma, b, beta, alpha, c];
    let in_cosines = |[a, b, c, alpha, beta, gamma]: [f64; 6]| {
        let [alpha, beta, gamma] = [alpha, beta, gamma].map(|deg: f64| deg.to_radians().cos());
        [a, gamma, b, beta, alpha, c]
    };
    let openmm = "Created by OpenMM 2025-01-01";
    let charmm = "* 100 PS OF DYNAMICS, CREATED BY USER: ADA";
    let cells = [
        [30.0, 31.0, 32.0, 90.0, 90.0, 90.0],
        [30.0, 31.0, 32.0, 89.9, 90.1, 90.0],
        [30.0, 31.0, 32.0, 90.5, 89.0, 90.25],
        [60.0, 61.0, 62.0, 88.0, 91.0, 87.5],
        [40.0, 40.0, 40.0, 109.471_220_6, 109.471_220_6, 109.471_220_6],
        [40.0, 40.0, 40.0, 60.0, 60.0, 90.0],
        [40.0, 40.0, 90.0, 90.0, 90.0, 120.0],
        [200.0, 200.0, 200.0, 60.0, 60.0, 60.0],
    ];
    for cell in cells {
        for (version, title, numbers) in [
            (24, openmm, in_cosines(cell)),
            (24, "REMARKS FILENAME=a.dcd CREATED BY NAMD", in_cosines(cell)),
            (24, "", in_cosines(cell)),
            (24, "Created by MDTraj", in_degrees(cell)),
            (21, openmm, in_degrees(cell)),
            (21, charmm, in_degrees(cell)),
            (24, charmm, charmm_matrix(cell)),
            (22, charmm, charmm_matrix(cell)),
            (36, "", charmm_matrix(cell)),
            (47, charmm, charmm_matrix(cell)),
        ] {
            let found = cell_of(Dialect { cell: Some(numbers), version, title, ..PLAIN }).unwrap();
            let is_same = found.iter().zip(cell).all(|(found, meant)| (found - meant).abs() < 1e-6);
            assert!(is_same, "version {version} {title:?}: {numbers:?} is {found:?}, not {cell:?}");
        }
    }
    // A file of CHARMM's that is none: 90° are no elements of a matrix with lengths of 30 Å.
    let numbers = in_degrees(cells[0]);
    assert_eq!(cell_of(Dialect { cell: Some(numbers), version: 36, ..PLAIN }), Some(cells[0]));
    assert_eq!(
        cell_of(Dialect { cell: Some([1.0, 0.0, 1.0, 0.0, 0.0, 1.0]), version: 36, ..PLAIN }),
        None
    );
}

#[test]
fn a_cell_of_cpptraj_has_its_first_edge_along_x_as_its_coordinates_have() {
    let title = "Cpptraj Generated dcd file.";
    let octahedron = [60.0, 60.0, 60.0, 109.471_220_6, 109.471_220_6, 109.471_220_6];
    let cosine = 109.471_220_6_f64.to_radians().cos();
    let before_2016 = [60.0, cosine, 60.0, cosine, cosine, 60.0];
    for numbers in [charmm_matrix(octahedron), before_2016] {
        let dialect = Dialect { cell: Some(numbers), version: 35, title, ..PLAIN };
        let trajectory = Trajectory::open(&temporary("cpptraj.dcd", &dialect.file(1))).unwrap();
        assert!(trajectory.has_doubtful_cell().unwrap());
        // Of frames it counts, it has no times.
        assert_eq!(trajectory.time_ps(0), None);
        let mut frame = Frame::new();
        trajectory.read(0, &trajectory.read_plan(&AtomSet::none(N_ATOMS)), &mut frame).unwrap();
        let cell = frame.cell().unwrap();
        let angles = cell.angles_deg();
        assert!(angles.iter().all(|angle| (angle - 109.471_220_6).abs() < 1e-6), "{angles:?}");
        let image = cell.nearest([59.0, 0.0, 0.0]);
        assert!((image[0] + 1.0).abs() < 1e-5 && image[1].abs() < 1e-5, "{image:?}");
    }
    // Of a cell whose edges make no symmetric matrix, as cpptraj 7.6.2 writes Amber's octahedron.
    for cell in [octahedron, [50.0, 55.0, 60.0, 75.0, 80.0, 65.0]] {
        let dialect = Dialect { cell: Some(cell), version: 21, title, ..PLAIN };
        let found = cell_of(dialect).unwrap();
        let is_same = found.iter().zip(cell).all(|(found, meant)| (found - meant).abs() < 1e-6);
        assert!(is_same, "{found:?}");
        let trajectory = Trajectory::open(&temporary("cpptraj.dcd", &dialect.file(1))).unwrap();
        assert!(!trajectory.has_doubtful_cell().unwrap());
        assert_eq!(trajectory.time_ps(0), None);
    }
    let cube =
        Dialect { cell: Some([60.0, 0.0, 60.0, 0.0, 0.0, 60.0]), version: 35, title, ..PLAIN };
    let cube = Trajectory::open(&temporary("cpptraj.dcd", &cube.file(1))).unwrap();
    assert!(!cube.has_doubtful_cell().unwrap());
}

#[test]
fn a_placeholder_is_no_time_step() {
    let dialect = Dialect { step_akma: 1.0, ..PLAIN };
    let trajectory = Trajectory::open(&temporary("one.dcd", &dialect.file(1))).unwrap();
    assert_eq!(trajectory.time_ps(0), None);
}

#[test]
fn cells_that_could_be_two_things_are_reported() {
    let is_doubtful = |version, title, numbers| {
        let dialect = Dialect { cell: Some(numbers), version, title, ..PLAIN };
        Trajectory::open(&temporary("doubtful.dcd", &dialect.file(1)))
            .unwrap()
            .has_doubtful_cell()
            .unwrap()
    };
    let near_90 = [30.0, 0.05, 31.0, -0.02, 0.03, 32.0];
    assert!(is_doubtful(24, "", near_90));
    assert!(!is_doubtful(36, "", near_90) && !is_doubtful(24, "* CHARMM", near_90));
    assert!(!is_doubtful(24, "", [30.0, 0.0, 31.0, 1e-17, 0.0, 32.0]));
    assert!(!is_doubtful(24, "", [30.0, 0.5, 30.0, 0.5, 0.0, 30.0]));
    assert!(!is_doubtful(24, "", [0.0; 6]));
}

#[test]
fn times_have_no_more_digits_than_their_steps() {
    for (step_ps, last_ps) in
        [(0.001, 0.25), (0.002, 0.5), (0.0025, 0.625), (0.004, 1.0), (0.005, 1.25)]
    {
        let dialect = Dialect { step_akma: step_ps / 0.048_888_21, ..PLAIN };
        let trajectory = Trajectory::open(&temporary("steps.dcd", &dialect.file(4))).unwrap();
        assert_eq!(trajectory.time_ps(3), Some(last_ps), "frames at steps 100, 150, 200, 250");
    }
    let none = Dialect { step_akma: 0.0, ..PLAIN };
    assert_eq!(Trajectory::open(&temporary("steps.dcd", &none.file(1))).unwrap().time_ps(0), None);
}

#[test]
fn fixed_atoms_are_read_where_the_first_frame_comes_later() {
    let dialect = Dialect { n_fixed: 6, ..PLAIN };
    let path = temporary("fixed.dcd", &dialect.file(0));
    let mut trajectory = Trajectory::open(&path).unwrap();
    fs::write(&path, dialect.file(3)).unwrap();
    assert_eq!(trajectory.refresh().unwrap(), 3);
    let (plan, mut frame) = (trajectory.read_plan(&AtomSet::all(N_ATOMS)), Frame::new());
    trajectory.read(2, &plan, &mut frame).unwrap();
    assert_eq!(
        frame.x(),
        (0..N_ATOMS).map(|atom| coordinate(dialect, 2, atom, 0)).collect::<Vec<_>>()
    );
}

#[test]
fn x_plor_files_have_no_cell_and_a_long_time_step() {
    let dialect = Dialect { version: 0, ..PLAIN };
    let trajectory = Trajectory::open(&temporary("xplor.dcd", &dialect.file(2))).unwrap();
    assert_eq!((trajectory.n_frames(), trajectory.trailing_bytes()), (2, 0));
    assert!((trajectory.time_ps(1).unwrap() - 150.0 * 0.5 * 0.048_888_21).abs() < 1e-6);
}

#[test]
fn a_title_longer_than_its_markers_say_is_skipped() {
    let mut file = PLAIN.file(2);
    assert_eq!(file[92..100], [84, 0, 0, 0, 1, 0, 0, 0]);
    file[96] = 3;
    file.splice(100..100, [b' '; 160]);
    let path = temporary("title.dcd", &file);
    let trajectory = Trajectory::open(&path).unwrap();
    assert_eq!(
        (trajectory.n_atoms(), trajectory.n_frames(), trajectory.trailing_bytes()),
        (N_ATOMS, 2, 0)
    );
    file[96] = 4;
    assert!(matches!(
        Trajectory::open(&temporary("title_4.dcd", &file)),
        Err(Error::Format { .. })
    ));
}

#[test]
fn a_step_of_two_femtoseconds_is_no_more() {
    let trajectory = Trajectory::open(&data("mini_md.dcd")).unwrap();
    assert_eq!([0, 4, 59].map(|n| trajectory.time_ps(n)), [Some(0.2), Some(1.0), Some(12.0)]);
}

#[test]
fn frames_are_counted_by_the_size_of_the_file_as_it_grows() {
    let dialect = Dialect { cell: Some([30.0, 0.0, 30.0, 0.0, 0.0, 30.0]), ..PLAIN };
    let whole = dialect.file(3);
    let frame_bytes = whole.len() - dialect.file(2).len();
    let path = temporary("growing.dcd", &whole[..whole.len() - frame_bytes - 1]);
    let mut trajectory = Trajectory::open(&path).unwrap();
    assert_eq!((trajectory.n_frames(), trajectory.trailing_bytes()), (1, frame_bytes as u64 - 1));
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&whole[whole.len() - frame_bytes - 1..]).unwrap();
    assert_eq!((trajectory.refresh().unwrap(), trajectory.trailing_bytes()), (3, 0));
    let (plan, mut frame) = (trajectory.read_plan(&AtomSet::all(N_ATOMS)), Frame::new());
    trajectory.read(2, &plan, &mut frame).unwrap();
    assert_eq!(frame.x()[1], coordinate(dialect, 2, 1, 0));
    let headers = temporary("headers.dcd", &dialect.file(0));
    assert_eq!(Trajectory::open(&headers).unwrap().n_frames(), 0);
}

#[test]
fn a_part_of_a_frame_is_what_the_whole_frame_has_there() {
    let mut random = Random(3);
    for name in ["mini_md.dcd", "mini_tri.dcd", "mini_tri.xtc"] {
        let trajectory = Trajectory::open(&data(name)).unwrap();
        let n_atoms = trajectory.n_atoms();
        let (all, mut whole, mut part) =
            (trajectory.read_plan(&AtomSet::all(n_atoms)), Frame::new(), Frame::new());
        for _ in 0..50 {
            let frame = random.below(trajectory.n_frames());
            trajectory.read(frame, &all, &mut whole).unwrap();
            let density = 1 + random.below(1000);
            let atoms = AtomSet::from_fn(n_atoms, |_| random.below(density) == 0);
            let plan = trajectory.read_plan(&atoms);
            trajectory.read(frame, &plan, &mut part).unwrap();
            assert_eq!(part.cell(), whole.cell());
            for atom in atoms.iter() {
                assert_eq!(
                    part.position(plan.slot(atom).unwrap()),
                    whole.position(atom),
                    "{name} {frame} {atom}"
                );
            }
        }
    }
}

#[test]
fn frames_far_apart_in_a_frame_are_read_apart() {
    let trajectory = Trajectory::open(&data("mini_md.dcd")).unwrap();
    let ends = AtomSet::from_fn(3255, |atom| atom < 2 || atom == 3254);
    assert_eq!(
        trajectory.read_plan(&ends).n_slots(),
        3255,
        "the gap is less than is worth a read of its own"
    );
    assert_eq!(trajectory.read_plan(&AtomSet::none(3255)).n_slots(), 0);
}

#[test]
fn xtc_agrees_with_dcd_to_its_precision() {
    let (dcd, xtc) = (data("mini_tri.dcd"), data("mini_tri.xtc"));
    let (dcd, xtc) = (Trajectory::open(&dcd).unwrap(), Trajectory::open(&xtc).unwrap());
    assert_eq!((xtc.n_frames(), xtc.n_atoms(), xtc.trailing_bytes()), (5, 2111, 0));
    assert_eq!(xtc.time_ps(3), Some(7.0));
    let all = AtomSet::all(2111);
    let (mut a, mut b) = (Frame::new(), Frame::new());
    for n in 0..5 {
        dcd.read(n, &dcd.read_plan(&all), &mut a).unwrap();
        xtc.read(n, &xtc.read_plan(&all), &mut b).unwrap();
        for (a, b) in columns(&a).concat().iter().zip(columns(&b).concat()) {
            assert!((a - b).abs() <= 0.005 + 1e-5, "{a} {b}");
        }
        let [a, b] = [&a, &b].map(|frame| frame.cell().unwrap().vectors().concat());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}

#[test]
fn an_xtc_file_that_is_cut_off_has_the_frames_before() {
    let whole = fs::read(data("mini_tri.xtc")).unwrap();
    let path = temporary("cut.xtc", &whole[..whole.len() - 100]);
    let mut trajectory = Trajectory::open(&path).unwrap();
    assert_eq!(trajectory.n_frames(), 4);
    assert!(trajectory.trailing_bytes() > 0);
    fs::write(&path, &whole).unwrap();
    assert_eq!((trajectory.refresh().unwrap(), trajectory.trailing_bytes()), (5, 0));
}

#[test]
fn an_xtc_file_claims_no_more_atoms_than_it_has_bits_for() {
    let mut bytes = fs::read(data("mini_tri.xtc")).unwrap();
    for at in [4, 52] {
        bytes[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
    }
    let Error::Format { source, .. } =
        Trajectory::open(&temporary("claims.xtc", &bytes)).unwrap_err()
    else {
        panic!("no error of the format");
    };
    let expected = "XTC, byte 0: expected no more atoms than the frame has bits, found 2147483647";
    assert_eq!(source.to_string(), expected);
}

/// A frame of compressed coordinates, whose numbers are from 0 to `largest`.
fn xtc_frame(n_atoms: i32, largest: i32, small_bits: i32, compressed: &[u8]) -> Vec<u8> {
    let mut bytes = [1995, n_atoms, 0].map(i32::to_be_bytes).concat();
    let numbers = [0.0, 5.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 5.0].map(f32::to_be_bytes);
    bytes.extend(numbers.concat());
    bytes.extend(n_atoms.to_be_bytes());
    bytes.extend(1000.0_f32.to_be_bytes());
    let largest = [0, 0, 0, largest, largest, largest, small_bits, compressed.len() as i32];
    bytes.extend(largest.map(i32::to_be_bytes).concat());
    bytes.extend(compressed);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn atoms_of_an_xtc_file_take_the_bits_that_its_bounds_ask_for() {
    let open = |n_atoms, largest, n_bytes| {
        let bytes = xtc_frame(n_atoms, largest, 9, &vec![0; n_bytes]);
        Trajectory::open(&temporary("bits.xtc", &bytes)).map(|it| it.n_atoms())
    };
    // 101³ places are 20 bits, with runs of ten atoms of 9 bits 10.1 bits an atom.
    assert_eq!(open(792, 100, 1000).unwrap(), 792);
    assert!(matches!(open(793, 100, 1000), Err(Error::Format { .. })));
    // All in one place: 2 bits.
    assert_eq!(open(4000, 0, 1000).unwrap(), 4000);
    assert!(matches!(open(4001, 0, 1000), Err(Error::Format { .. })));
    // And no more than any atom takes, as all of a frame is read for one of its atoms.
    assert_eq!(open(100, 100, 1600).unwrap(), 100);
    assert!(matches!(open(100, 100, 1601), Err(Error::Format { .. })));
}

#[test]
fn compressed_coordinates_that_cannot_be_are_an_error_of_the_format() {
    let noise: Vec<u8> = (0..4000_u32).map(|n| (n * n * 7 + n * 13 + 5) as u8).collect();
    let small_bits = [-1, 0, 1, 8, 73, i32::MIN, i32::MAX].map(|bits| (100, bits, &noise[..]));
    let largest = [-1, i32::MAX, i32::MIN].map(|largest| (largest, 9, &noise[..]));
    // An atom at 0 0 0 that has those after it take fewer bits than there are, or more.
    let shifted = [[0, 0, 8, 0], [0, 0, 8, 0x80]].map(|bytes| [&bytes[..], &[0; 4000]].concat());
    let data =
        [(100, 9, &shifted[0][..]), (100, 72, &shifted[1][..]), (i32::MAX - 1, 72, &noise[..])];
    for (largest, small_bits, data) in small_bits.into_iter().chain(largest).chain(data) {
        let bytes = xtc_frame(1000, largest, small_bits, data);
        let xtc = Trajectory::open(&temporary("cannot_be.xtc", &bytes)).unwrap();
        let plan = xtc.read_plan(&AtomSet::all(1000));
        let read = xtc.read(0, &plan, &mut Frame::new());
        let is_refused = matches!(read, Err(Error::Format { .. } | Error::Damaged { .. }));
        assert!(is_refused, "{largest} {small_bits} {read:?}");
    }
}

#[test]
fn errors_say_what_and_where() {
    let chain = |error: Error| std::error::Error::source(&error).unwrap().to_string();
    let dialect = Dialect { cell: Some([30.0, 0.0, 30.0, 0.0, 0.0, 30.0]), ..PLAIN };
    let open = |name: &str, bytes: &[u8]| Trajectory::open(&temporary(name, bytes));
    assert_eq!(
        chain(open("no.dcd", b"REMARK no trajectory").unwrap_err()),
        "DCD, byte 0: expected a record of 84 bytes with `CORD`, found \"REMARK no tr\""
    );
    assert!(
        chain(open("short.dcd", &dialect.file(1)[..150]).unwrap_err())
            .starts_with("DCD, byte 92: expected a record")
    );
    let mut damaged = dialect.file(2);
    let at = damaged.len() - 3 * (4 * N_ATOMS + 8) - 56;
    damaged[at] = 77;
    let trajectory = open("damaged.dcd", &damaged).unwrap();
    let plan = trajectory.read_plan(&AtomSet::all(N_ATOMS));
    assert_eq!(
        chain(trajectory.read(1, &plan, &mut Frame::new()).unwrap_err()),
        format!("DCD, byte {at}: expected a cell of 48 bytes, found a record of 77 bytes")
    );
    let pdb = "ATOM      1  N   ALA A   1       0.000   0.000   x.000  1.00  0.00           N\n";
    assert_eq!(
        Structure::from_pdb(pdb).unwrap_err().to_string(),
        "PDB, line 1: expected a coordinate, found `x.000`"
    );
    assert_eq!(
        Structure::from_pdb("END\n").unwrap_err().to_string(),
        "PDB, whole file: no atom in it"
    );
}

#[test]
fn pdb_and_mmcif_of_one_system_make_one_topology() {
    let [pdb, cif] = ["mini.pdb", "mini_md.cif"].map(|name| Structure::open(&data(name)).unwrap());
    assert_eq!(pdb.topology, cif.topology);
    assert_eq!(pdb.cell.unwrap().lengths(), [42.0, 30.0, 30.0]);
}

/// Bonds as OpenMM 8.6.1 finds them; `xtal` has ligands besides, which OpenMM leaves without.
#[test]
fn bonds_are_those_of_openmm() {
    for (name, n_bonds, n_molecules) in
        [("mini.pdb", 2324, 947), ("mini_tri.pdb", 1485, 634), ("xtal.pdb", 1664, 207)]
    {
        let topology = Structure::open(&data(name)).unwrap().topology;
        assert_eq!(
            (topology.bonds().len(), topology.n_molecules()),
            (n_bonds, n_molecules),
            "{name}"
        );
    }
}

/// The two peptides of `mini.pdb`, their records changed.
fn peptides(change: impl Fn(&str) -> Option<String>) -> Topology {
    let text = fs::read_to_string(data("mini.pdb")).unwrap();
    let (head, atoms): (Vec<_>, Vec<_>) = text.lines().partition(|line| !line.starts_with("ATOM"));
    let cell = head.into_iter().find(|line| line.starts_with("CRYST1")).unwrap().to_owned();
    let of_peptides =
        atoms.into_iter().filter(|line| matches!(&line[21..22], "A" | "B")).filter_map(change);
    let lines: Vec<_> = iter::once(cell).chain(of_peptides).collect();
    Structure::from_pdb(&lines.join("\n")).unwrap().topology
}

fn sorted_bonds(topology: &Topology) -> Vec<[u32; 2]> {
    let mut bonds: Vec<_> = topology.bonds().to_vec();
    bonds.iter_mut().for_each(|bond| bond.sort_unstable());
    bonds.sort_unstable();
    bonds
}

#[test]
fn ends_of_chains_are_bonded_whatever_their_atoms_are_called() {
    let expected = peptides(|line| Some(line.to_owned()));
    assert_eq!(expected.n_molecules(), 2);
    // Of Amber's force fields in GROMACS, of CHARMM's, and of nobody's.
    for [o, oxt] in [["OC1", "OC2"], ["O1 ", "O2 "], ["OT1", "OT2"], ["OY ", "OZ "]] {
        let renamed = peptides(|line| {
            let is_end = line[22..26].trim() == "11" && line[17..20] == *"LYS";
            let name = match &line[13..16] {
                "O  " if is_end => o,
                "OXT" if is_end => oxt,
                name => name,
            };
            Some(format!("{}{name}{}", &line[..13], &line[16..]))
        });
        assert_eq!(sorted_bonds(&renamed), sorted_bonds(&expected), "{o} {oxt}");
    }
}

#[test]
fn chains_that_no_record_tells_apart_are_not_bonded_to_each_other() {
    let expected = peptides(|line| Some(line.to_owned()));
    let run_on = |line: &str| {
        let number: i64 = line[22..26].trim().parse().unwrap();
        let number = if line[21..22] == *"B" { number + 12 } else { number };
        format!("{} {number:>4}{}", &line[..21], &line[26..])
    };
    let joined = peptides(|line| Some(run_on(line)));
    assert_eq!(sorted_bonds(&joined), sorted_bonds(&expected));
    // Where the atoms at the ends do not show them, the distance does.
    let is_of_an_end = |line: &str| matches!(line[12..16].trim(), "OXT" | "H2" | "H3");
    let joined = peptides(|line| (!is_of_an_end(line)).then(|| run_on(line)));
    assert_eq!(joined.n_molecules(), 2);
}

fn pdb_line(name: &str, location: char, residue: &str, number: &str, x: f64) -> String {
    format!(
        "ATOM      1  {name:<3}{location}{residue:<4}A{number:<5}   {x:8.3}{:8.3}{:8.3}\n",
        0.0, 0.0
    )
}

#[test]
fn residue_numbers_go_on_after_9999() {
    let numbers = |written: &[&str]| {
        let text: String =
            written.iter().map(|number| pdb_line("O", ' ', "HOH", number, 0.0)).collect();
        let structure = Structure::from_pdb(&text).unwrap();
        structure.topology.residues().map(|residue| residue.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&["9999", "A000", "A001"]), [9999, 10_000, 10_001]);
    assert_eq!(
        numbers(&["A009", "A00A", "A00Z", "A010"]),
        [10_009, 10_010, 10_035, 10_036],
        "hybrid-36"
    );
    assert_eq!(numbers(&["A00F", "A010", "A011"]), [10_015, 10_016, 10_017], "hexadecimal");
    assert_eq!(numbers(&["ZZZZ", "a000"]), [1_223_055, 1_223_056], "hybrid-36, lower case");
    assert_eq!(numbers(&["9999", "****", "****"]), [9999, 10_000, 10_001]);
    assert_eq!(numbers(&["9999", "10000", "10001"]), [9999, 10_000, 10_001]);
    assert_eq!(numbers(&["  -5", "  -4"]), [-5, -4]);
}

#[test]
fn one_location_of_an_atom_is_kept() {
    let text = [
        pdb_line("N", ' ', "SER", "   1", 0.0),
        pdb_line("CA", 'A', "SER", "   1", 1.0),
        pdb_line("CA", 'B', "SER", "   1", 9.0),
        pdb_line("CB", 'B', "SER", "   1", 2.0),
        pdb_line("CA", 'B', "THR", "   1", 9.0),
        pdb_line("N", ' ', "ALA", "   2", 3.0),
    ];
    let text = text.concat();
    let structure = Structure::from_pdb(&text).unwrap();
    let atoms: Vec<_> = structure.topology.atoms().map(|atom| atom.name).collect();
    assert_eq!(atoms, ["N", "CA", "CB", "N"], "{text}");
    assert_eq!(structure.positions[1][0], 1.0);
    assert_eq!(structure.topology.n_residues(), 2);
}

#[test]
fn a_byte_order_mark_hides_no_record() {
    let text = format!("\u{feff}{}END\n", pdb_line("CA", 'B', "ALA", "   1", 1.0));
    assert_eq!(Structure::from_pdb(&text).unwrap().topology.n_atoms(), 1);
    assert!(Structure::check_pdb(text.as_bytes(), usize::MAX).unwrap().is_ok());
    assert_eq!(Contents::of_pdb(text.as_bytes()).unwrap().unwrap().n_atoms, 1);
}

#[test]
fn lines_that_end_with_a_carriage_return_alone_are_refused() {
    let line = pdb_line("CA", 'B', "ALA", "   1", 1.0);
    let text = line.replace('\n', "\r").repeat(3);
    let words = "expected lines that end with a line feed, found a carriage return alone";
    let refused = Structure::from_pdb(&text).unwrap_err().to_string();
    assert!(refused.contains(words), "{refused}");
    let refused =
        Structure::check_pdb(text.as_bytes(), usize::MAX).unwrap().unwrap_err().to_string();
    assert!(refused.contains(words), "{refused}");
    // Behind a head of records without atoms too, and in other formats.
    let text = format!("HEADER    A\r{text}");
    let refused = Contents::of_pdb(text.as_bytes()).unwrap().unwrap_err().to_string();
    assert!(refused.contains(words), "{refused}");
    for other in ["# a comment\rdata_x\rloop_\r", "title\r    1\r    1ALA     CA    1   0.000"] {
        let refused = Structure::from_text(other).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let of_windows = line.replace('\n', "\r\n").repeat(3);
    assert!(Structure::from_pdb(&of_windows).is_ok());
}

#[test]
fn what_stands_behind_the_columns_of_a_long_line_is_nothing_to_reader_and_check() {
    let atom = pdb_line("CA", 'B', "ALA", "   1", 1.0);
    let long = |line: &str, end: &str| format!("{line}{}{end}", " ".repeat(2000 - line.len()));
    for text in [
        format!("{}{atom}", long("REMARK", "\rREMARK\n")),
        long(atom.trim_end(), "\rATOM\n"),
        long(atom.trim_end(), "é\r\n"),
    ] {
        assert_eq!(Structure::from_pdb(&text).unwrap().topology.n_atoms(), 1);
        assert_eq!(Structure::check_pdb(text.as_bytes(), usize::MAX).unwrap(), Ok(()));
    }
}

#[test]
fn an_atom_where_none_can_be_is_refused_by_its_name() {
    let mmcif = |x: &str| format!("data_x\n{ATOMS}C CA ALA 5 {x} 0.0 0.0\n");
    let refused = Structure::from_mmcif(&mmcif("1e300")).unwrap_err().to_string();
    let words =
        "expected coordinates of at most 1,000,000 Å, found 1e300 Å as Cartn_x of CA of ALA 5";
    assert!(refused.contains(words), "{refused}");
    assert!(Structure::check_mmcif(&mmcif("-1.1e6"), usize::MAX).is_err());
    assert!(Structure::check_mmcif(&mmcif("999999.5"), usize::MAX).is_ok());
    for none in ["nan", "inf"] {
        let refused = Structure::check_mmcif(&mmcif(none), usize::MAX).unwrap_err().to_string();
        assert!(refused.contains(&format!("expected a coordinate, found `{none}`")), "{refused}");
    }

    let gro = String::from("title\n    1\n    5ALA     CA    1   1e300   0.000   0.000\n 3 3 3\n");
    let words =
        "line 3: expected coordinates of at most 1,000,000 Å, found 1e301 Å as x of CA of ALA 5";
    for refused in [
        Structure::from_gro(&gro).unwrap_err(),
        Structure::check_gro(gro.as_bytes(), usize::MAX).unwrap().unwrap_err(),
    ] {
        assert!(refused.to_string().contains(words), "{refused}");
    }
    let pdb = pdb_line("CA", 'B', "ALA", "   1", 1.0).replace("   1.000", "9999999.");
    assert!(Structure::check_pdb(pdb.as_bytes(), usize::MAX).unwrap().is_err(), "{pdb}");
}

#[test]
fn a_line_full_of_quotes_takes_no_longer_than_any_other() {
    // Each would look for its end in the rest of the line: hours for this one.
    let text = format!("data_x {}", "'a \"b ".repeat(2_000_000));
    assert!(Structure::from_mmcif(&text).is_err());
}

/// The head of a table of atoms, whose rows have an element, a name, residue, number and position.
const ATOMS: &str = "loop_\n_atom_site.type_symbol\n_atom_site.label_atom_id\n\
    _atom_site.auth_comp_id\n_atom_site.auth_seq_id\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n\
    _atom_site.Cartn_z\n";

#[test]
fn atoms_in_one_place_are_not_bonded_to_all_others() {
    // Of 5·10⁹ pairs each was a bond, in 40 GB.
    let n = 100_000;
    let rows: String = (0..n).map(|number| format!("C C1 LIG {number} 0 0 0\n")).collect();
    let mmcif = format!("data_x\n{ATOMS}{rows}");
    let atom = |number| pdb_line("C1", ' ', "LIG", &format!("{:4}", number % 10_000), 0.0);
    let pdb: String = (0..n).map(atom).collect();
    let atom = |number| {
        let number = number % 100_000;
        format!("{number:5}LIG     C1{number:5}   0.000   0.000   0.000\n")
    };
    let gro = format!("zeros\n{n}\n{}0 0 0\n", (0..n).map(atom).collect::<String>());
    // In a cell so small, all atoms are close to each other.
    let cell = "_cell.length_a 2\n_cell.length_b 2\n_cell.length_c 2\n\
        _cell.angle_alpha 90\n_cell.angle_beta 90\n_cell.angle_gamma 90\n";
    let row = |number| format!("C C1 LIG {number} {} 0 {}\n", number % 300 * 3, number / 300 * 3);
    let wrapped = format!("data_x\n{cell}{ATOMS}{}", (0..n).map(row).collect::<String>());
    for (name, text) in [("mmCIF", mmcif), ("PDB", pdb), ("GRO", gro), ("a cell", wrapped)] {
        let structure = Structure::from_text(&text).unwrap();
        assert_eq!(structure.topology.n_residues(), n, "{name}");
        assert!(structure.topology.bonds().is_empty(), "{name}");
    }
}

#[test]
fn a_residue_in_one_place_stays_in_one_piece() {
    // Of each 2·10⁶ pairs were bonds.
    let [n_residues, n_atoms] = [300, 2000];
    let row = |n: usize| format!("C C{n} LIG {} 0 0 0\n", n / n_atoms);
    let rows: String = (0..n_residues * n_atoms).map(row).collect();
    let Structure { topology, .. } =
        Structure::from_mmcif(&format!("data_x\n{ATOMS}{rows}")).unwrap();
    assert_eq!(topology.n_molecules(), n_residues);
    assert_eq!(topology.bonds().len(), n_residues * (n_atoms - 1));
}

#[test]
fn structures_on_top_of_each_other_are_bonded_as_far_as_bonds_can_be_told() {
    // Benzene without hydrogens, so many times: each atom has two neighbours in each copy, and
    // itself in each other one.
    let copies = |n: usize| {
        let row = |n: usize| {
            let angle = (n % 6) as f64 * std::f64::consts::FRAC_PI_3;
            let (x, y) = (1.4 * angle.cos(), 1.4 * angle.sin());
            format!("C C{} BNZ {} {x:.3} {y:.3} 0\n", n % 6, n / 6)
        };
        let rows: String = (0..6 * n).map(row).collect();
        let structure = Structure::from_mmcif(&format!("data_x\n{ATOMS}{rows}")).unwrap();
        [structure.topology.bonds().len(), structure.topology.n_molecules()]
    };
    assert_eq!(copies(1), [6, 1]);
    // Of other copies, 30 atoms are near enough, which one may have, and 33, which none has.
    assert_eq!(copies(11), [6 * (11 * 11) + 6 * (11 * 10 / 2), 1]);
    assert_eq!(copies(12), [6 * 12, 12]);
    // Within a copy they are as sure as ever.
    assert_eq!(copies(1000), [6000, 1000]);
}

#[test]
fn bonds_of_a_component_are_taken_once_however_often_they_are_listed() {
    let head = "loop_\n_chem_comp_bond.comp_id\n_chem_comp_bond.atom_id_1\n\
        _chem_comp_bond.atom_id_2\n";
    // For each residue all rows were looked at: 6·10⁹ of them.
    let again = "LIG A B\n".repeat(100_000);
    let others: String = (0..100_000).map(|n| format!("LIG B X{n}\n")).collect();
    let residue = |n: usize| {
        let z = n * 9;
        format!("C A LIG {n} 0 0 {z}\nC B LIG {n} 9 0 {z}\nC C LIG {n} 10 0 {z}\n")
    };
    let residues: String = (0..30_000).map(residue).collect();
    let text = format!("data_x\n{head}{again}{others}{ATOMS}{residues}");
    let Structure { topology, .. } = Structure::from_mmcif(&text).unwrap();
    assert_eq!(topology.bonds().len(), 30_000);
    assert_eq!(topology.bonds()[0], [0, 1]);
}

#[test]
fn parts_of_a_residue_are_compared_as_far_as_any_molecule_needs() {
    // Each of the small parts was compared with the large one: 10¹⁰ pairs.
    let large: String = (0..90_000).map(|n| format!("C C{n} LIG 1 {} 0 0\n", n * 9)).collect();
    let small = |n| format!("C D{n} LIG 1 {} 50 0\nC C1 OTH 2 0 90 0\n", n * 9);
    let small: String = (0..100_000).map(small).collect();
    let structure = Structure::from_mmcif(&format!("data_x\n{ATOMS}{large}{small}")).unwrap();
    assert_eq!(structure.topology.n_residues(), 200_000);
}

#[test]
fn a_check_counts_the_atoms_that_would_be_kept() {
    let atom = |name, location| pdb_line(name, location, "ALA", "   1", 1.0);
    let pdb = format!(
        "MODEL\n{}{}{}{}ENDMDL\nMODEL\n{}",
        atom("N", ' '),
        atom("CA", 'A'),
        atom("CA", 'B'),
        atom("CB", 'B'),
        atom("N", ' ').repeat(9),
    );
    assert_eq!(Structure::from_pdb(&pdb).unwrap().topology.n_atoms(), 3);
    let words = |refused: FormatError| refused.to_string();
    let check = |most| Structure::check_pdb(pdb.as_bytes(), most).unwrap().map_err(words);
    assert_eq!(check(3), Ok(()));
    assert_eq!(check(2), Err("PDB, line 5: more than 2 atoms".to_owned()));

    let rows = "C A LIG 1 0 0 0\nC B LIG 1 0 0 0\nC A LIG 2 0 0 0\n";
    let mmcif = format!("data_x\n{ATOMS}{rows}");
    let check = |most| Structure::check_mmcif(&mmcif, most).map_err(words);
    assert_eq!(check(3), Ok(()));
    assert_eq!(check(2), Err("mmCIF, line 12: more than 2 atoms".to_owned()));
}

#[test]
fn the_first_model_counts() {
    let atom = pdb_line("CA", ' ', "ALA", "   1", 1.0);
    let text = format!("MODEL        1\n{atom}ENDMDL\nMODEL        2\n{atom}ENDMDL\nEND\n");
    let structure = Structure::from_pdb(&text).unwrap();
    assert_eq!((structure.topology.n_atoms(), structure.n_models), (1, 2));
}

#[test]
fn mmcif_is_read_whatever_its_quotes_and_order() {
    let text = "# comment\ndata_x\n_cell.length_a 30.0(2)\n_cell.length_b 30\n_cell.length_c \
        30\n_cell.angle_alpha 90\n\
        _cell.angle_beta 90\n_cell.angle_gamma 90\n_struct.title\n;two lines\nloop_ of text\n;\n\
        loop_\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n_atom_site.label_atom_id\n\
        _atom_site.label_comp_id\n_atom_site.label_asym_id\n_atom_site.label_seq_id\n_atom_site.type_symbol\n\
        _atom_site.pdbx_PDB_model_num\n\
        0 0 0 \"C1'\" 'LIG' A . C 1\n1.5 0 0 'O5\"' LIG A . O 1\n9 0 0 X LIG A . N 1\n0 0 0 \
        \"C1'\" 'LIG' A . C 2\n\
        _struct_conn.id 1\n_struct_conn.conn_type_id covale\n_struct_conn.ptnr1_label_asym_id A\n\
        _struct_conn.ptnr1_label_seq_id ?\n_struct_conn.ptnr1_label_atom_id \"C1'\"\n\
        _struct_conn.ptnr2_label_asym_id A\n_struct_conn.ptnr2_label_seq_id \
        ?\n_struct_conn.ptnr2_label_atom_id X\n\
        loop_\n_chem_comp_bond.comp_id\n_chem_comp_bond.atom_id_1\n_chem_comp_bond.atom_id_2\nLIG \
        \"C1'\" 'O5\"'\n";
    let structure = Structure::from_mmcif(text).unwrap();
    let names: Vec<_> = structure.topology.atoms().map(|atom| atom.name).collect();
    assert_eq!(names, ["C1'", "O5\"", "X"]);
    assert_eq!(structure.topology.bonds(), [[0, 1], [0, 2]]);
    assert_eq!(structure.positions[1], [1.5, 0.0, 0.0]);
    assert_eq!((structure.cell.unwrap().lengths(), structure.n_models), ([30.0; 3], 2));
}

#[test]
fn no_damage_makes_a_reader_panic() {
    let mut random = Random(4);
    let dialect = Dialect { cell: Some([30.0, 0.1, 30.0, 0.2, 0.3, 30.0]), has_4d: true, ..PLAIN };
    let fixed = Dialect { n_fixed: 5, ..dialect };
    let xtc = fs::read(data("mini_tri.xtc")).unwrap();
    let trajectories = [dialect.file(3), fixed.file(3), xtc[..xtc.len() / 4].to_vec()];
    let cif: String = fs::read_to_string(data("mini_md.cif"))
        .unwrap()
        .lines()
        .take(60)
        .flat_map(|l| [l, "\n"])
        .collect();
    let structures = [fs::read_to_string(data("quirks.pdb")).unwrap(), cif];
    for round in 0..3000 {
        let mut bytes = trajectories[round % 3].clone();
        let span = if round % 2 == 0 { bytes.len() } else { 400 };
        for _ in 0..1 + random.below(4) {
            let at = random.below(span);
            bytes[at] = random.bits() as u8;
        }
        bytes.truncate(bytes.len() - random.below(2) * random.below(bytes.len()));
        let path = temporary("mutated", &bytes);
        if let Ok(trajectory) = Trajectory::open(&path) {
            let plan = trajectory.read_plan(&AtomSet::all(trajectory.n_atoms().min(1 << 20)));
            (0..trajectory.n_frames().min(5))
                .for_each(|n| drop(trajectory.read(n, &plan, &mut Frame::new())));
        }
        let mut text = structures[round % 2].clone().into_bytes();
        for _ in 0..1 + random.below(20) {
            let at = random.below(text.len());
            text[at] = b" \n.'\";_#0Aa\xff-"[random.below(13)];
        }
        let text = String::from_utf8_lossy(&text);
        let checked = Structure::check_pdb(text.as_bytes(), usize::MAX).unwrap();
        assert_eq!(Structure::from_pdb(&text).map(drop), checked);
        let checked = Structure::check_mmcif(&text, usize::MAX);
        assert_eq!(Structure::from_mmcif(&text).map(drop), checked);
    }
}

/// The lines of a PDB file with those first that come before the first atom, and the atoms in an
/// order; `TER` records are left out.
fn with_atoms(text: &str, order: &[usize]) -> String {
    let is_atom = |line: &&str| line.starts_with("ATOM") || line.starts_with("HETATM");
    let atoms: Vec<&str> = text.lines().filter(is_atom).collect();
    let head = text.lines().take_while(|line| !is_atom(line));
    let lines = head.chain(order.iter().map(|atom| atoms[*atom]));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn hydrogens_after_all_heavy_atoms_are_of_their_residues() {
    let text = fs::read_to_string(data("mini.pdb")).unwrap();
    let sorted = Structure::from_pdb(&text).unwrap().topology;
    let n_atoms = sorted.n_atoms();
    let is_hydrogen = |atom: &usize| sorted.atom(*atom).element == Some(Element::H);
    let (hydrogens, heavy): (Vec<usize>, Vec<usize>) = (0..n_atoms).partition(is_hydrogen);
    let order = [heavy, hydrogens].concat();
    let structure = Structure::from_pdb(&with_atoms(&text, &order)).unwrap();
    let topology = &structure.topology;
    for (n, atom) in order.iter().enumerate() {
        assert_eq!(topology.atom(n), sorted.atom(*atom));
        assert_eq!(topology.atom_label(n), sorted.atom_label(*atom));
    }
    assert_eq!(topology.n_residues(), sorted.n_residues());
    assert_eq!(topology.n_molecules(), sorted.n_molecules());
    let mut bonds: Vec<[u32; 2]> = topology
        .bonds()
        .iter()
        .map(|bond| bond.map(|atom| order[atom as usize] as u32))
        .map(|[a, b]| [a.min(b), a.max(b)])
        .collect();
    bonds.sort_unstable();
    assert_eq!(bonds, sorted.bonds());
    for mask in [":TRP", ":2-4", ":2&@H*", "::B", "^1", ":3<:4.0", ":1@CA<@5.0"] {
        let mask = Mask::parse(mask).unwrap();
        let of = |structure: &Structure| {
            mask.select(&structure.topology, Some(&structure.positions)).unwrap().atoms
        };
        let mut found: Vec<usize> = of(&structure).iter().map(|atom| order[atom]).collect();
        found.sort_unstable();
        let expected = of(&Structure::from_pdb(&text).unwrap());
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{mask}");
    }
    assert_eq!(TopologyFile::Structure(structure).warnings(), []);
}

/// A line of an atom: its name, residue with chain and number, and where it is.
fn line(name: &str, residue: &str, x: f64) -> String {
    let symbol = &name[..1];
    format!(
        "ATOM      1  {name:<3} {residue:<10}   {x:8.3}   0.000   0.000  1.00  0.00           {symbol}\n"
    )
}

#[test]
fn numbers_that_start_anew_and_other_chains_are_other_residues() {
    let of = |lines: &[(&str, &str, f64)]| {
        let text: String = lines.iter().map(|(name, residue, x)| line(name, residue, *x)).collect();
        let structure = Structure::from_pdb(&text).unwrap();
        let residues: Vec<usize> = structure.topology.atoms().map(|atom| atom.residue).collect();
        let warnings = TopologyFile::Structure(structure).warnings();
        (residues, warnings.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let (one, two) = ("HOH W   1", "HOH W   2");
    // Numbers begin again, and the hydrogens of both are at the end.
    let waters = [("O", one, 0.0), ("O", two, 10.0), ("O", one, 20.0), ("O", two, 30.0)];
    let hydrogens = [("H1", one, 1.0), ("H1", two, 11.0), ("H1", one, 21.0), ("H2", two, 9.0)];
    let (residues, warnings) = of(&[&waters[..], &hydrogens].concat());
    assert_eq!((residues, warnings), (vec![0, 1, 2, 3, 0, 1, 2, 1], Vec::new()));
    // Another chain of the same numbers, and a residue of another name or insertion code.
    let alike = [("CA", "ALA A   1", 0.0), ("CA", "ALA A   2", 3.8)];
    for other in ["ALA B   1", "GLY A   1", "ALA A   1A"] {
        let (residues, warnings) = of(&[&alike[..], &[("CB", other, 1.5)]].concat());
        assert_eq!((residues, warnings), (vec![0, 1, 2], Vec::new()), "{other}");
    }
    // A chain without an identifier that is listed again.
    let (first, next) = ("ALA     1", "ALA     2");
    let chain =
        |from: f64| [("N", first, from), ("CA", first, from + 1.5), ("N", next, from + 3.8)];
    let (residues, warnings) = of(&[chain(0.0), chain(30.0)].concat());
    assert_eq!((residues, warnings), (vec![0, 0, 1, 2, 2, 3], Vec::new()));
    // What is too far away is none of its atoms.
    let (residues, warnings) = of(&[&chain(0.0)[..], &[("HA", first, 9.0)]].concat());
    assert_eq!(residues, [0, 0, 1, 2]);
    assert!(
        warnings.iter().any(|text| text.starts_with("1 atom has the chain, number and name")
            && text.contains("the first ALA1@HA")),
        "{warnings:?}"
    );
}
