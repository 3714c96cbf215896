//! What a figure shows: panels of lines over one horizontal axis, or a map.

use crate::{Map, Named, States, Track};

/// How wide a figure is: as the columns of journals are. Texts have the same size in both, 7 to
/// 10 pt in print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// Both columns of a page, 183 mm.
    #[default]
    Double,
    /// One column, 89 mm.
    Single,
}

impl Width {
    /// The width in print, in mm.
    pub fn mm(self) -> f64 {
        match self {
            Self::Double => 183.0,
            Self::Single => 89.0,
        }
    }
}

/// A figure.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// How wide it is.
    pub width: Width,
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
    /// Whether it counts days from 1970-01-01, which are written as dates.
    pub x_is_date: bool,
    /// What places on the horizontal axis are called, ascending; of a count without any it is the
    /// number.
    pub x_names: Vec<Named>,
    /// The panels from top to bottom.
    pub panels: Vec<Panel>,
    /// The colours of lines in their order, `#rrggbb`, and of states; without any they are those of
    /// Okabe and Ito.
    pub colors: Vec<&'static str>,
    /// A map in their place.
    pub map: Option<Map>,
    /// A map above them.
    pub states: Option<States>,
    /// Places on the horizontal axis, each with a word for what begins there.
    pub marks: Vec<(f64, String)>,
    /// Chains and secondary structure along the horizontal axis; beside a map the first of them
    /// along both.
    pub tracks: Vec<Track>,
    /// What the secondary structure is of.
    pub track_note: String,
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
    /// Bands behind them, each with a dark line in its middle.
    pub bands: Vec<Band>,
}

/// A quantity with how far it spreads: as a mean with its deviation.
#[derive(Clone, Debug, Default)]
pub struct Band {
    /// Its entry in the legend; without one it is not in the legend.
    pub name: Option<String>,
    /// Where it is, its middle there, and how far it reaches above and below; from left to right.
    /// One that is not finite, or beyond 1e300, breaks the band.
    pub points: Vec<(f64, f64, f64)>,
}

impl Band {
    /// The lines of its lower edge, its middle and its upper edge.
    pub(crate) fn lines(&self) -> impl Iterator<Item = [(f64, f64); 3]> {
        self.points.iter().map(|(x, y, half)| [(*x, y - half), (*x, *y), (*x, y + half)])
    }
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
