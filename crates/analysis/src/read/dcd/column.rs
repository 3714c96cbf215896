//! Coordinates of some atoms along one axis, without the rest of their frame.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::header::format_error;
use super::{Dcd, GAP_BYTES};
use crate::Error;
use crate::error::Damage;

/// Most bytes that are read at once, among them those between atoms that are wanted.
const MAX_READ: usize = 256 * 1024;

/// Reads coordinates of a file in which no atoms are fixed.
#[derive(Debug)]
pub(crate) struct ColumnReader {
    dcd: Dcd,
    bytes: Vec<u8>,
}

impl ColumnReader {
    pub(crate) fn new(dcd: Dcd) -> Self {
        Self { dcd, bytes: Vec::new() }
    }

    /// a, cos γ, b, cos β, cos α, c of a frame that has a cell; the frame must start where it
    /// should.
    pub(crate) fn cell_numbers(&mut self, frame: usize) -> Result<Option<[f64; 6]>, Error> {
        let layout = &self.dcd.layout;
        let start = layout.frame_start(frame);
        self.bytes.resize(layout.column(0, layout.n_atoms) as usize, 0);
        self.dcd.file.read_exact_at(&mut self.bytes, start).map_err(|e| self.dcd.io(e))?;
        layout.check_start(&self.bytes, layout.n_atoms).map_err(|(byte, problem)| {
            format_error(&self.dcd.path, start + byte as u64, problem)
        })?;
        layout.cell_numbers(&self.bytes).map_or(Ok(None), |numbers| {
            layout.convention.lengths_and_cosines(numbers).map_err(|numbers| {
                let damage = Damage::Cell { numbers };
                Error::Damaged { path: self.dcd.path.clone(), frame, damage }
            })
        })
    }

    /// Reads coordinates of a frame along an axis: of the atoms of `runs`, each of which has the
    /// number of its first atom, from the `nth` on. They are little-endian.
    pub(crate) fn read(
        &mut self,
        frame: usize,
        axis: usize,
        runs: &[(Range<usize>, usize)],
        nth: usize,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let layout = &self.dcd.layout;
        let column = layout.frame_start(frame) + layout.column(axis as u64, layout.n_atoms);
        let end = nth + into.len() / 4;
        let first = runs.partition_point(|(_, first)| *first <= nth) - 1;
        let wanted = |(atoms, first): &(Range<usize>, usize)| {
            let from = atoms.start + nth.saturating_sub(*first);
            from..atoms.end.min(atoms.start + (end - first))
        };
        let mut runs = runs[first..].iter().take_while(|(_, first)| *first < end).map(wanted);
        let mut next = runs.next();
        let mut rest = &mut *into;
        while let Some(run) = next {
            let mut parts = vec![run.clone()];
            let mut span = run;
            next = runs.next();
            while let Some(run) = next.clone()
                && 4 * (run.start - span.end) as u64 <= GAP_BYTES
                && 4 * (run.end - span.start) <= MAX_READ
            {
                span.end = run.end;
                parts.push(run);
                next = runs.next();
            }
            self.bytes.resize(4 * span.len(), 0);
            let at = column + 4 * span.start as u64;
            self.dcd.file.read_exact_at(&mut self.bytes, at).map_err(|e| self.dcd.io(e))?;
            for part in parts {
                let from = 4 * (part.start - span.start);
                let (here, after) = rest.split_at_mut(4 * part.len());
                here.copy_from_slice(&self.bytes[from..from + here.len()]);
                rest = after;
            }
        }
        if self.dcd.layout.endian.big {
            into.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
        }
        Ok(())
    }
}
