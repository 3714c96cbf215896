//! Maps of states, a colour for each, over the horizontal axis of the panels below.

use crate::map::Grid;
use crate::{Named, Track};

/// Columns and rows of cells at most; more would be smaller than what can be seen.
pub(crate) const MOST_CELLS: [usize; 2] = [360, 240];

/// In which of a few states residues are over time.
#[derive(Clone, Debug, Default)]
pub struct States {
    /// From the left edge of the first column to the right edge of the last.
    pub x: (f64, f64),
    /// From the lower edge of the first row to the upper edge of the last.
    pub y: (f64, f64),
    /// What the vertical axis shows, which is counted.
    pub y_label: String,
    /// What places along it are called, ascending; without any it is the number.
    pub y_names: Vec<Named>,
    /// Cells of a row.
    pub n_columns: usize,
    /// The state of each cell, by its place among the colours, row by row from below; one without
    /// has no colour.
    pub values: Vec<Option<usize>>,
    /// Chains along the vertical axis.
    pub track: Track,
}

impl States {
    pub(crate) fn grid(&self, colors: &[&str]) -> Grid {
        let n_columns = self.n_columns.max(1);
        Grid {
            n_columns,
            n_rows: self.values.len() / n_columns,
            levels: self.values.chunks(n_columns).rev().flatten().copied().collect(),
            colors: colors.iter().map(|color| (*color).to_owned()).collect(),
        }
    }
}

/// Counts of the states that fall into each cell, as there may be many frames in one.
pub(crate) struct Tally {
    n_columns: usize,
    n_states: usize,
    counts: Vec<u32>,
}

impl Tally {
    pub(crate) fn new(n_columns: usize, n_rows: usize, n_states: usize) -> Self {
        Self { n_columns, n_states, counts: vec![0; n_columns * n_rows * n_states] }
    }

    pub(crate) fn add(&mut self, column: usize, row: usize, state: usize) {
        self.counts[(row * self.n_columns + column) * self.n_states + state] += 1;
    }

    /// The most frequent state of each cell, of equals the first.
    pub(crate) fn most_frequent(&self) -> Vec<Option<usize>> {
        let cells = self.counts.chunks(self.n_states);
        cells
            .map(|counts| {
                let most = *counts.iter().max()?;
                counts.iter().position(|n| *n == most).filter(|_| most > 0)
            })
            .collect()
    }
}
