//! Parts of trajectories as DCD files that are never written.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use common::{Random, data, frames};
use molbox_analysis::{AtomSet, Error, Excerpt, FrameRange, Trajectory};

const INTERVAL: i32 = 250;

/// A file as the worker writes it: its frames of these atoms, one of `stride`, from `first` on.
fn written(atoms: &[usize], first: usize, stride: usize, n_frames: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut record = |content: &[u8]| {
        let marker = (content.len() as u32).to_le_bytes();
        file.extend([&marker[..], content, &marker[..]].concat());
    };
    let interval = INTERVAL * stride as i32;
    let mut control = [0_i32; 20];
    control[0] = n_frames as i32;
    control[1] = INTERVAL * (first as i32 + 1);
    control[2] = interval;
    control[3] = n_frames as i32 * interval;
    control[9] = ((0.002 / 0.048_888_21) as f32).to_bits() as i32;
    control[10] = 1;
    control[19] = 24;
    let control = control.into_iter().flat_map(i32::to_le_bytes);
    record(&b"CORD".iter().copied().chain(control).collect::<Vec<u8>>());
    let lines = ["Created by molbox with OpenMM", "Molecules whole, not wrapped into the box"];
    let lines = lines.map(|line| [line.as_bytes(), &vec![0; 80 - line.len()]].concat()).concat();
    record(&[&2_i32.to_le_bytes()[..], &lines].concat());
    record(&(atoms.len() as i32).to_le_bytes());
    for frame in (0..n_frames).map(|nth| first + nth * stride) {
        let cell = [50.1 + frame as f64 / 3.0, 0.5, 50.1, -1e-17, 0.3, 40.0];
        record(&cell.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>());
        for axis in 0..3 {
            let column = atoms.iter().map(|atom| (frame * 7919 + atom * 3 + axis) as f32 / 1000.0);
            record(&column.flat_map(f32::to_le_bytes).collect::<Vec<u8>>());
        }
    }
    file
}

fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

fn excerpt(path: &Path, atoms: &AtomSet, first: usize, last: usize, stride: usize) -> Excerpt {
    let stride = NonZeroUsize::new(stride).unwrap();
    let range = FrameRange { first, last: Some(last), stride };
    Excerpt::new(Trajectory::open(path).unwrap(), atoms, range).unwrap()
}

fn whole(excerpt: &mut Excerpt) -> Vec<u8> {
    let mut bytes = vec![0; excerpt.size() as usize];
    excerpt.read(0, &mut bytes).unwrap();
    bytes
}

/// Atoms as masks select them: runs, scattered ones, all, few.
fn some_atoms(n_atoms: usize, random: &mut Random) -> AtomSet {
    let every = 1 + random.below(40);
    let offset = random.below(every);
    let mut atoms = AtomSet::from_fn(n_atoms, |atom| random.below(3) > 0 && atom % every == offset);
    for _ in 0..random.below(3) {
        let first = random.below(n_atoms);
        atoms.insert_range(first..n_atoms.min(first + 1 + random.below(n_atoms)));
    }
    atoms.insert(random.below(n_atoms));
    atoms
}

#[test]
fn any_bytes_of_an_excerpt_are_those_of_a_file_written_whole() {
    // Gaps that are read along and gaps that are not, and more than is read at once.
    for (n_atoms, n_frames, rounds) in [(1, 3, 20), (23, 9, 200), (20_000, 5, 60), (90_000, 3, 9)] {
        let all: Vec<usize> = (0..n_atoms).collect();
        let source = written(&all, 0, 1, n_frames);
        let path = temporary(&format!("whole_{n_atoms}.dcd"), &source);
        let mut random = Random(n_atoms as u64);
        let mut same = excerpt(&path, &AtomSet::all(n_atoms), 0, usize::MAX, 1);
        assert!(whole(&mut same) == source, "all of it is the file itself");
        for _ in 0..rounds {
            let atoms = some_atoms(n_atoms, &mut random);
            let (first, stride) = (random.below(n_frames), 1 + random.below(4));
            let last = first + random.below(n_frames);
            let mut excerpt = excerpt(&path, &atoms, first, last, stride);
            let n = (first..n_frames.min(last + 1)).step_by(stride).len();
            let expected = written(&atoms.iter().collect::<Vec<_>>(), first, stride, n);
            assert_eq!((excerpt.n_atoms(), excerpt.n_frames()), (atoms.len(), n));
            assert_eq!(excerpt.size(), expected.len() as u64);
            assert!(whole(&mut excerpt) == expected, "{atoms:?} {first}..={last} by {stride}");
            for _ in 0..20 {
                let from = random.below(expected.len());
                let to = from + random.below((expected.len() - from).min(3000) + 1);
                let mut part = vec![0; to - from];
                excerpt.read(from as u64, &mut part).unwrap();
                assert!(part == expected[from..to], "{from}..{to} of {atoms:?}");
            }
        }
    }
}

#[test]
fn an_excerpt_of_another_format_has_its_coordinates_cells_and_times() {
    for name in ["mini_tri.xtc", "mini_tri.dcd", "mini_md.dcd"] {
        let source = Trajectory::open(&data(name)).unwrap();
        let (n_atoms, n_frames) = (source.n_atoms(), source.n_frames());
        let atoms = AtomSet::from_fn(n_atoms, |atom| atom % 3 != 1);
        let bytes = whole(&mut excerpt(&data(name), &atoms, 1, n_frames, 2));
        let path = temporary(&format!("of_{name}.dcd"), &bytes);
        let made = Trajectory::open(&path).unwrap();
        assert_eq!(made.n_atoms(), atoms.len());
        let expected = frames(&data(name)).into_iter().skip(1).step_by(2);
        for (nth, ((cell, positions), found)) in expected.zip(frames(&path)).enumerate() {
            let kept: Vec<[f32; 3]> = atoms.iter().map(|atom| positions[atom]).collect();
            assert!(found.1 == kept, "{name}, frame {nth}");
            let sides = |cell: Option<molbox_analysis::Cell>| {
                cell.map(|cell| (cell.lengths(), cell.angles_deg()))
            };
            match (sides(cell), sides(found.0)) {
                (Some(expected), Some(found)) => {
                    let pairs = expected.0.into_iter().zip(found.0);
                    for (a, b) in pairs.chain(expected.1.into_iter().zip(found.1)) {
                        assert!((a - b).abs() < 1e-4, "{name}: {expected:?}, {found:?}");
                    }
                }
                (expected, found) => assert_eq!(expected.is_some(), found.is_some(), "{name}"),
            }
            let (a, b) = (source.time_ps(1 + 2 * nth), made.time_ps(nth));
            let apart = a.zip(b).map(|(a, b)| (a - b).abs());
            assert!(apart.is_some_and(|apart| apart < 1e-3), "{name}: {a:?} for {b:?}");
        }
    }
}

#[test]
fn what_cannot_be_an_excerpt_is_refused() {
    let source = written(&(0..5).collect::<Vec<_>>(), 0, 1, 4);
    let path = temporary("small.dcd", &source);
    let open = || Trajectory::open(&path).unwrap();
    let refused = Excerpt::new(open(), &AtomSet::all(6), FrameRange::default()).unwrap_err();
    assert!(matches!(refused, Error::AtomCount { topology: 6, trajectory: 5, .. }), "{refused}");
    let mut none = excerpt(&path, &AtomSet::all(5), 4, 9, 1);
    assert_eq!((none.n_frames(), whole(&mut none).len()), (0, 276));

    // A file that was cut since it was opened.
    let mut cut = excerpt(&path, &AtomSet::all(5), 0, 9, 1);
    fs::write(&path, &source[..source.len() - 30]).unwrap();
    let mut bytes = vec![0; cut.size() as usize];
    assert!(matches!(cut.read(0, &mut bytes).unwrap_err(), Error::Io { .. }));
    // A frame that is none.
    let mut odd = source.clone();
    let frame_bytes = (source.len() - 276) / 4;
    odd[276 + 2 * frame_bytes] = 47;
    fs::write(&path, &odd).unwrap();
    let mut odd = excerpt(&path, &AtomSet::all(5), 0, 9, 1);
    assert!(matches!(odd.read(0, &mut bytes).unwrap_err(), Error::Format { .. }));
}
