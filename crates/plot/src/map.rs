//! Maps: a value for each cell of a grid, as a colour.

use crate::Named;

/// A map, drawn in place of panels.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// From the left edge of the first column to the right edge of the last.
    pub x: (f64, f64),
    /// From the lower edge of the first row to the upper edge of the last.
    pub y: (f64, f64),
    /// What the vertical axis shows.
    pub y_label: String,
    /// Its unit, if it has one.
    pub y_unit: String,
    /// Whether both axes are counted, so that there is nothing between whole numbers.
    pub is_whole: bool,
    /// What places on both axes are called, ascending; of a count without any it is the number.
    pub names: Vec<Named>,
    /// What the colours show.
    pub label: String,
    /// Its unit, if it has one.
    pub unit: String,
    /// Cells of a row.
    pub n_columns: usize,
    /// The values row by row from below; what is not finite has no colour.
    pub values: Vec<f64>,
}

/// Cells along a side that are drawn at most; more would be smaller than what can be seen.
const MOST_CELLS: usize = 240;

/// Steps of colour.
pub(crate) const LEVELS: usize = 48;

/// Cividis (Nuñez, Anderton and Renslow, 2018, doi:10.1371/journal.pone.0199239), in which people with any
/// kind of colour vision see the same order.
const CIVIDIS: [[f64; 3]; 10] = [
    [0.0, 34.0, 78.0],
    [18.0, 53.0, 112.0],
    [59.0, 73.0, 108.0],
    [87.0, 93.0, 109.0],
    [112.0, 113.0, 115.0],
    [138.0, 134.0, 120.0],
    [165.0, 156.0, 116.0],
    [195.0, 179.0, 105.0],
    [225.0, 204.0, 85.0],
    [254.0, 232.0, 56.0],
];

/// The colour of a level, `#rrggbb`.
fn color(level: usize) -> String {
    let at = level as f64 / (LEVELS - 1) as f64 * (CIVIDIS.len() - 1) as f64;
    let below = (at.floor() as usize).min(CIVIDIS.len() - 2);
    let part = at - below as f64;
    let [red, green, blue] = [0, 1, 2].map(|k| {
        let mixed = CIVIDIS[below][k] * (1.0 - part) + CIVIDIS[below + 1][k] * part;
        mixed.round() as u8
    });
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Cells as they are drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grid {
    pub(crate) n_columns: usize,
    pub(crate) n_rows: usize,
    /// A colour for each cell that has one, row by row from above.
    pub(crate) levels: Vec<Option<usize>>,
    /// All colours, `#rrggbb`.
    pub(crate) colors: Vec<String>,
}

impl Grid {
    /// Of the colours that go from the least value to the largest.
    pub(crate) fn of_levels(n_columns: usize, n_rows: usize, levels: Vec<Option<usize>>) -> Self {
        Self { n_columns, n_rows, levels, colors: (0..LEVELS).map(color).collect() }
    }
}

impl Map {
    fn n_rows(&self) -> usize {
        self.values.len() / self.n_columns.max(1)
    }

    /// What the first and the last colour stand for.
    pub(crate) fn range(&self) -> (f64, f64) {
        let drawn = self.values.iter().copied().filter(|value| value.is_finite());
        let (low, high) = drawn.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return (0.0, 1.0);
        }
        // What is never below zero is seen in proportion.
        let low = if low >= 0.0 { 0.0 } else { low };
        if high > low { (low, high) } else { (low, low + 1.0) }
    }

    /// The cells, some of which are the mean of several.
    pub(crate) fn grid(&self) -> Grid {
        let (low, high) = self.range();
        let n_rows = self.n_rows().min(MOST_CELLS);
        let n_columns = self.n_columns.min(MOST_CELLS);
        let part = |k: usize, n: usize, of: usize| k * of / n..(k + 1) * of / n;
        let mut levels = Vec::with_capacity(n_rows * n_columns);
        for row in (0..n_rows).rev() {
            for column in 0..n_columns {
                let mut sum = 0.0;
                let mut n = 0;
                for i in part(row, n_rows, self.n_rows()) {
                    for j in part(column, n_columns, self.n_columns) {
                        let value = self.values[i * self.n_columns + j];
                        if value.is_finite() {
                            sum += value;
                            n += 1;
                        }
                    }
                }
                let at = (sum / f64::from(n) - low) / (high - low);
                levels.push((n > 0).then(|| ((at * LEVELS as f64) as usize).min(LEVELS - 1)));
            }
        }
        Grid::of_levels(n_columns, n_rows, levels)
    }
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, Map, color};

    #[test]
    fn the_first_row_is_at_the_bottom_and_large_maps_are_averaged() {
        let map = Map { n_columns: 2, values: vec![0.0, 4.0, f64::NAN, 2.0], ..Map::default() };
        let grid = map.grid();
        assert_eq!(grid.levels, [None, Some(LEVELS / 2), Some(0), Some(LEVELS - 1)]);
        let n = 960;
        let values = (0..n * n).map(|k| if (k % n + k / n) % 2 == 0 { 2.0 } else { 0.0 });
        let grid = Map { n_columns: n, values: values.collect(), ..Map::default() }.grid();
        assert_eq!((grid.n_columns, grid.n_rows), (240, 240));
        assert!(grid.levels.iter().all(|level| *level == Some(LEVELS / 2)));
    }

    #[test]
    fn colours_go_from_dark_to_bright() {
        assert_eq!((color(0).as_str(), color(LEVELS - 1).as_str()), ("#00224e", "#fee838"));
    }
}
