//! Shapes as PDF: the paths that usvg makes of the SVG, which are those of the PNG too.

use miniz_oxide::deflate::compress_to_vec_zlib;
use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish as _, Pdf, Rect, Ref, TextStr};
use resvg::tiny_skia::{Path, PathSegment, Point, Transform};
use resvg::usvg::{Group, LineCap, LineJoin, Node, Paint, Path as Drawn, Stroke, Tree};

const POINTS_PER_MM: f64 = 72.0 / 25.4;
/// Of ten levels: more take much longer for some percent.
const COMPRESSION: u8 = 6;

/// A page as wide as this, in mm, with all that is drawn.
pub(crate) fn draw(tree: &Tree, title: &str, width_mm: f64) -> Vec<u8> {
    let size = tree.size();
    let scale = (POINTS_PER_MM * width_mm) as f32 / size.width();
    let (width, height) = (scale * size.width(), scale * size.height());
    let mut content = Content::new();
    // The vertical axis of PDF points up.
    content.transform([scale, 0.0, 0.0, -scale, 0.0, height]);
    add_group(&mut content, tree.root());
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

fn add_group(content: &mut Content, group: &Group) {
    content.save_state();
    transform(content, group.transform());
    if let Some(clip) = group.clip_path() {
        add_clip(content, clip.root(), clip.transform());
        content.clip_nonzero();
        content.end_path();
    }
    for node in group.children() {
        match node {
            Node::Group(group) => add_group(content, group),
            Node::Path(path) => add_path(content, path),
            Node::Text(text) => add_group(content, text.flattened()),
            Node::Image(_) => unreachable!("figures have no images"),
        }
    }
    content.restore_state();
}

/// The outlines of what is seen. They have no state of their own, as that would end the clipping.
fn add_clip(content: &mut Content, group: &Group, outer: Transform) {
    let here = outer.pre_concat(group.transform());
    for node in group.children() {
        match node {
            Node::Group(group) => add_clip(content, group, here),
            Node::Path(path) => {
                if let Some(path) = path.data().clone().transform(here) {
                    add_outline(content, &path);
                }
            }
            Node::Text(_) | Node::Image(_) => unreachable!("figures are cut by rectangles"),
        }
    }
}

fn add_path(content: &mut Content, path: &Drawn) {
    let fill = path.fill().map(|fill| rgb(fill.paint()));
    let stroke = path.stroke();
    if !path.is_visible() {
        return;
    }
    if let Some([red, green, blue]) = fill {
        content.set_fill_rgb(red, green, blue);
    }
    if let Some(stroke) = stroke {
        set_stroke(content, stroke);
    }
    add_outline(content, path.data());
    match (fill, stroke) {
        (Some(_), Some(_)) => content.fill_nonzero_and_stroke(),
        (Some(_), None) => content.fill_nonzero(),
        (None, Some(_)) => content.stroke(),
        (None, None) => content.end_path(),
    };
}

fn set_stroke(content: &mut Content, stroke: &Stroke) {
    let [red, green, blue] = rgb(stroke.paint());
    content.set_stroke_rgb(red, green, blue);
    content.set_line_width(stroke.width().get());
    content.set_line_cap(match stroke.linecap() {
        LineCap::Butt => LineCapStyle::ButtCap,
        LineCap::Round => LineCapStyle::RoundCap,
        LineCap::Square => LineCapStyle::ProjectingSquareCap,
    });
    content.set_line_join(match stroke.linejoin() {
        LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
        LineJoin::Round => LineJoinStyle::RoundJoin,
        LineJoin::Bevel => LineJoinStyle::BevelJoin,
    });
    let dashes = stroke.dasharray().unwrap_or_default().iter().copied();
    content.set_dash_pattern(dashes, stroke.dashoffset());
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

fn transform(content: &mut Content, Transform { sx, kx, ky, sy, tx, ty }: Transform) {
    if !(Transform { sx, kx, ky, sy, tx, ty }).is_identity() {
        content.transform([sx, ky, kx, sy, tx, ty]);
    }
}

fn rgb(paint: &Paint) -> [f32; 3] {
    let Paint::Color(color) = paint else { unreachable!("figures have plain colours") };
    [color.red, color.green, color.blue].map(|part| f32::from(part) / 255.0)
}
