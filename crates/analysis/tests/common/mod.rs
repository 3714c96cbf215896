//! What several tests need.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};

use molbox_analysis::{AtomSet, Cell, Frame, Trajectory};

/// A file of the test data.
pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Numbers from a seed, the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// From -1 to 1.
    pub(crate) fn signed(&mut self) -> f64 {
        f64::from(self.bits()) / f64::from(1_u32 << 31) - 1.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.bits() as usize % n
    }
}

/// A frame to be written: lengths and angles of the cell, if there is one, and positions.
pub(crate) type Written = (Option<[f64; 6]>, Vec<[f32; 3]>);

/// All frames of a trajectory.
pub(crate) fn frames(path: &Path) -> Vec<(Option<Cell>, Vec<[f32; 3]>)> {
    let trajectory = Trajectory::open(path).expect("the file is there");
    let (plan, mut frame) =
        (trajectory.read_plan(&AtomSet::all(trajectory.n_atoms())), Frame::new());
    let read = |n| {
        trajectory.read(n, &plan, &mut frame).expect("the frame is whole");
        let positions =
            (0..trajectory.n_atoms()).map(|atom| frame.position(atom).map(|x| x as f32));
        (frame.cell().copied(), positions.collect())
    };
    (0..trajectory.n_frames()).map(read).collect()
}

/// Lengths and angles of a cell, as they are written.
pub(crate) fn parameters(cell: &Cell) -> [f64; 6] {
    let ([a, b, c], [alpha, beta, gamma]) = (cell.lengths(), cell.angles_deg());
    [a, b, c, alpha, beta, gamma]
}

/// A DCD file of some frames.
pub(crate) fn dcd(name: &str, frames: &[Written]) -> PathBuf {
    let mut file = Vec::new();
    let mut record = |content: &[u8]| {
        let length = (content.len() as u32).to_le_bytes();
        file.extend([&length, content, &length].concat());
    };
    let mut header = [0_i32; 20];
    (header[1], header[2], header[9], header[10], header[19]) =
        (1, 1, 0.5_f32.to_bits() as i32, frames[0].0.is_some().into(), 24);
    record(
        &[b"CORD".to_vec(), header.iter().flat_map(|word| word.to_le_bytes()).collect()].concat(),
    );
    record(&[1_i32.to_le_bytes().to_vec(), vec![b' '; 80]].concat());
    record(&(frames[0].1.len() as i32).to_le_bytes());
    for (cell, positions) in frames {
        if let Some([a, b, c, alpha, beta, gamma]) = cell {
            record(
                &[a, gamma, b, beta, alpha, c]
                    .iter()
                    .flat_map(|x| x.to_le_bytes())
                    .collect::<Vec<_>>(),
            );
        }
        for axis in 0..3 {
            record(
                &positions
                    .iter()
                    .flat_map(|position| position[axis].to_le_bytes())
                    .collect::<Vec<_>>(),
            );
        }
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, file).expect("the folder for temporary files is there");
    path
}
