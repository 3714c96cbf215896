//! Plots of quantities over time or residues: panels below each other with one horizontal axis.
//!
//! A figure is drawn once, as SVG; the PNG is a picture of that. The font is part of the crate, so
//! that a picture looks the same on a machine without any.

mod envelope;
mod layout;
mod log;
mod svg;
mod table;
mod text;
mod ticks;

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Tree};

/// Pixels of a PNG for each unit of length of the SVG, so that it is sharp on paper and on screens
/// of today.
const SCALE: u32 = 2;

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

impl Figure {
    /// The figure as SVG. Its texts are texts, in `DejaVu Sans` or what the viewer has instead.
    pub fn svg(&self) -> String {
        svg::draw(&layout::Layout::of(self))
    }

    /// The figure as PNG, opaque: the SVG in twice as many pixels each way.
    pub fn png(&self) -> Vec<u8> {
        let options =
            usvg::Options { font_family: text::FAMILY.to_owned(), fontdb: fonts(), ..usvg::Options::default() };
        let tree = Tree::from_str(&self.svg(), &options).expect("what is drawn is SVG");
        let size = tree.size().to_int_size();
        let (width, height) = (SCALE * size.width(), SCALE * size.height());
        let mut pixels = Pixmap::new(width, height).expect("a figure has an extent");
        let scale = Transform::from_scale(SCALE as f32, SCALE as f32);
        resvg::render(&tree, scale, &mut pixels.as_mut());
        // The white rectangle behind all leaves nothing to shine through.
        let colours: Vec<u8> = pixels.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        encode(width, height, &colours).expect("nothing fails that is written to memory")
    }
}

fn encode(width: u32, height: u32, colours: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(colours)?;
    writer.finish()?;
    Ok(bytes)
}

fn fonts() -> Arc<usvg::fontdb::Database> {
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(text::FONT.to_vec());
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}
