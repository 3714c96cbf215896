//! Paths as PDF.

use miniz_oxide::deflate::compress_to_vec_zlib;
use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish as _, Pdf, Rect, Ref, TextStr};
use tiny_skia::{LineCap, LineJoin, Path, PathSegment, Point, Stroke};

use crate::layout::Layout;
use crate::paths::{Drawn, Group, groups};
use crate::svg::DASHES;

const POINTS_PER_MM: f64 = 72.0 / 25.4;
/// Of ten levels: more take much longer for some percent.
const COMPRESSION: u8 = 6;

/// A page as wide as this, in mm, with all that is drawn.
pub(crate) fn draw(layout: &Layout, title: &str, width_mm: f64) -> Vec<u8> {
    let scale = POINTS_PER_MM * width_mm / layout.width;
    let [width, height] = [layout.width, layout.height].map(|length| (scale * length) as f32);
    let scale = scale as f32;
    let mut content = Content::new();
    // The vertical axis of PDF points up.
    content.transform([scale, 0.0, 0.0, -scale, 0.0, height]);
    for group in groups(layout) {
        add_group(&mut content, &group);
    }
    let drawn = compress_to_vec_zlib(&content.finish(), COMPRESSION);

    let [catalog, pages, page, stream, info] = [1, 2, 3, 4, 5].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut only = pdf.page(page);
    only.parent(pages).media_box(Rect::new(0.0, 0.0, width, height)).contents(stream);
    only.resources();
    only.finish();
    pdf.stream(stream, &drawn).filter(Filter::FlateDecode);
    pdf.document_info(info).title(TextStr(title));
    pdf.finish()
}

fn add_group(content: &mut Content, Group { clip, drawn }: &Group) {
    content.save_state();
    if let Some(clip) = clip {
        add_outline(content, clip);
        content.clip_nonzero();
        content.end_path();
    }
    for drawn in drawn {
        add(content, drawn);
    }
    content.restore_state();
}

fn add(content: &mut Content, Drawn { path, color, stroke, .. }: &Drawn) {
    let [red, green, blue] = color.map(|part| f32::from(part) / 255.0);
    if let Some(stroke) = stroke {
        content.set_stroke_rgb(red, green, blue);
        set_stroke(content, stroke);
        add_outline(content, path);
        content.stroke();
    } else {
        content.set_fill_rgb(red, green, blue);
        add_outline(content, path);
        content.fill_nonzero();
    }
}

fn set_stroke(content: &mut Content, stroke: &Stroke) {
    content.set_line_width(stroke.width);
    content.set_line_cap(match stroke.line_cap {
        LineCap::Butt => LineCapStyle::ButtCap,
        LineCap::Round => LineCapStyle::RoundCap,
        LineCap::Square => LineCapStyle::ProjectingSquareCap,
    });
    content.set_line_join(match stroke.line_join {
        LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
        LineJoin::Round => LineJoinStyle::RoundJoin,
        LineJoin::Bevel => LineJoinStyle::BevelJoin,
    });
    let dashes = if stroke.dash.is_some() { DASHES.as_slice() } else { &[] };
    content.set_dash_pattern(dashes.iter().copied(), 0.0);
}

fn add_outline(content: &mut Content, path: &Path) {
    let mut last = Point::zero();
    for segment in path.segments() {
        match segment {
            PathSegment::MoveTo(to) => {
                content.move_to(to.x, to.y);
                last = to;
            }
            PathSegment::LineTo(to) => {
                content.line_to(to.x, to.y);
                last = to;
            }
            PathSegment::QuadTo(by, to) => {
                // PDF has cubic curves alone; this one is the same.
                let [a, b] = [last, to].map(|end| end + two_thirds(by - end));
                content.cubic_to(a.x, a.y, b.x, b.y, to.x, to.y);
                last = to;
            }
            PathSegment::CubicTo(a, b, to) => {
                content.cubic_to(a.x, a.y, b.x, b.y, to.x, to.y);
                last = to;
            }
            PathSegment::Close => {
                content.close_path();
            }
        }
    }
}

fn two_thirds(Point { x, y }: Point) -> Point {
    Point::from_xy(x * 2.0 / 3.0, y * 2.0 / 3.0)
}
