//! What a figure shows: panels of lines over one horizontal axis, or a map.

use crate::Map;

/// A figure.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Title above all panels.
    pub title: String,
    /// What the title leaves open, below it: masks, how atoms were reduced.
    pub subtitle: String,
    /// What the horizontal axis shows.
    pub x_label: String,
    /// Its unit, if it has one.
    pub x_unit: String,
    /// Whether that is counted, so that there is nothing between whole numbers.
    pub x_is_whole: bool,
    /// The panels from top to bottom.
    pub panels: Vec<Panel>,
    /// A map in their place.
    pub map: Option<Map>,
    /// Places on the horizontal axis, each with a word for what begins there.
    pub marks: Vec<(f64, String)>,
}

/// A panel of a figure.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What the vertical axis shows.
    pub y_label: String,
    /// Its unit, if it has one.
    pub unit: String,
    /// Whether that is counted, so that there is nothing between whole numbers.
    pub is_whole: bool,
    /// The lines, drawn in different colours.
    pub lines: Vec<Line>,
}

/// A line of a panel.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its entry in the legend; without one it is not in the legend.
    pub name: Option<String>,
    /// Points, in the order in which they are connected; one that is not finite, or beyond 1e300,
    /// breaks the line.
    pub points: Vec<(f64, f64)>,
}
