//! Coordinates atom by atom, x, y and z of each, as big-endian numbers of 32 or 64 bits.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::frame::{Frame, ReadPlan};
use crate::AtomSet;

/// Atoms that are cheaper to read than to skip.
const GAP_ATOMS: usize = 1024;

/// Atoms that are read at once: what is turned around stays in the processor's cache.
const ATOMS_AT_ONCE: usize = 1024;

const MOST_ATOM_BYTES: usize = 24;

/// Prepares reading of these atoms.
pub(super) fn read_plan(atoms: &AtomSet) -> ReadPlan {
    ReadPlan::new(atoms, GAP_ATOMS)
}

/// The coordinates of one frame in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interleaved {
    /// Where those of the first atom start.
    pub(super) byte: u64,
    pub(super) is_double: bool,
    /// Å in what the file calls 1.
    pub(super) unit_angstrom: f64,
}

impl Interleaved {
    /// Reads the atoms of a plan, in place of what `into` held, but for the cell.
    pub(super) fn read(&self, file: &File, plan: &ReadPlan, into: &mut Frame) -> io::Result<()> {
        let n_slots = plan.n_slots;
        into.words.resize(3 * n_slots, 0.0);
        into.columns = plan.columns.map(|first| first..first + n_slots);
        let (x, rest) = into.words.split_at_mut(n_slots);
        let (y, z) = rest.split_at_mut(n_slots);
        let atom_bytes = if self.is_double { MOST_ATOM_BYTES } else { MOST_ATOM_BYTES / 2 };
        let mut buffer = [0; MOST_ATOM_BYTES * ATOMS_AT_ONCE];
        for (atoms, first_slot) in &plan.runs {
            for first in atoms.clone().step_by(ATOMS_AT_ONCE) {
                let n = ATOMS_AT_ONCE.min(atoms.end - first);
                let bytes = &mut buffer[..n * atom_bytes];
                file.read_exact_at(bytes, self.byte + (first * atom_bytes) as u64)?;
                let slot = first_slot + (first - atoms.start);
                let to = [&mut x[slot..slot + n], &mut y[slot..slot + n], &mut z[slot..slot + n]];
                if self.is_double {
                    self.turn_double(bytes, to);
                } else {
                    self.turn_single(bytes, to);
                }
            }
        }
        Ok(())
    }

    fn turn_single(&self, bytes: &[u8], [x, y, z]: [&mut [f32]; 3]) {
        let unit = self.unit_angstrom as f32;
        let number = |bytes: &[u8; 4]| unit * f32::from_be_bytes(*bytes);
        for (((atom, x), y), z) in bytes.as_chunks::<12>().0.iter().zip(x).zip(y).zip(z) {
            let [a, b, c] = atom.as_chunks::<4>().0 else { unreachable!("12 bytes are 3 times 4") };
            (*x, *y, *z) = (number(a), number(b), number(c));
        }
    }

    fn turn_double(&self, bytes: &[u8], [x, y, z]: [&mut [f32]; 3]) {
        let number = |bytes: &[u8; 8]| (self.unit_angstrom * f64::from_be_bytes(*bytes)) as f32;
        for (((atom, x), y), z) in bytes.as_chunks::<24>().0.iter().zip(x).zip(y).zip(z) {
            let [a, b, c] = atom.as_chunks::<8>().0 else { unreachable!("24 bytes are 3 times 8") };
            (*x, *y, *z) = (number(a), number(b), number(c));
        }
    }
}

/// Big-endian numbers from a place on in a file.
pub(super) fn read_numbers<const N: usize>(
    file: &File,
    byte: u64,
    is_double: bool,
) -> io::Result<[f64; N]> {
    let mut numbers = [0.0; N];
    let mut bytes = [[0; 8]; N];
    if is_double {
        file.read_exact_at(bytes.as_flattened_mut(), byte)?;
        for (number, bytes) in numbers.iter_mut().zip(bytes) {
            *number = f64::from_be_bytes(bytes);
        }
    } else {
        let bytes = &mut bytes.as_flattened_mut()[..4 * N];
        file.read_exact_at(bytes, byte)?;
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *number = f64::from(f32::from_be_bytes(*bytes));
        }
    }
    Ok(numbers)
}
