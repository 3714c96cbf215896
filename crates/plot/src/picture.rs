//! A figure as SVG, as PNG, and as PDF.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Tree};

use crate::figure::Figure;
use crate::{layout, pdf, svg, text};

/// Pixels of a PNG for each unit of length of the SVG, so that it is sharp on paper and on screens
/// of today.
const SCALE: u32 = 2;

impl Figure {
    /// The figure as SVG. Its texts are texts, in `DejaVu Sans` or what the viewer has instead.
    pub fn svg(&self) -> String {
        svg::draw(&layout::Layout::of(self))
    }

    /// The figure as PDF, a page of its size in print, its texts as outlines.
    pub fn pdf(&self) -> Vec<u8> {
        pdf::draw(&self.tree(), &self.title, self.width.mm())
    }

    fn tree(&self) -> Tree {
        let options = usvg::Options {
            font_family: text::FAMILY.to_owned(),
            fontdb: fonts(),
            ..usvg::Options::default()
        };
        Tree::from_str(&self.svg(), &options).expect("what is drawn is SVG")
    }

    /// The figure as PNG, opaque: the SVG in twice as many pixels each way.
    pub fn png(&self) -> Vec<u8> {
        let tree = self.tree();
        let size = tree.size().to_int_size();
        let width = SCALE * size.width();
        let height = SCALE * size.height();
        let mut pixels = Pixmap::new(width, height).expect("a figure has an extent");
        let scale = Transform::from_scale(SCALE as f32, SCALE as f32);
        resvg::render(&tree, scale, &mut pixels.as_mut());
        // The white rectangle behind all leaves nothing to shine through.
        let colours: Vec<u8> = pixels
            .data()
            .chunks_exact(4)
            .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]])
            .collect();
        let per_metre = f64::from(width) / self.width.mm() * 1000.0;
        encode(width, height, per_metre as u32, &colours)
            .expect("nothing fails that is written to memory")
    }
}

fn encode(
    width: u32,
    height: u32,
    per_metre: u32,
    colours: &[u8],
) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: png::Unit::Meter,
    }));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(colours)?;
    writer.finish()?;
    Ok(bytes)
}

fn fonts() -> Arc<usvg::fontdb::Database> {
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    FONTS.get_or_init(load_fonts).clone()
}

fn load_fonts() -> Arc<usvg::fontdb::Database> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(text::FONT.to_vec());
    Arc::new(fonts)
}
