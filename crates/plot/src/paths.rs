//! Shapes as paths, of which PNG and PDF are made; texts are outlines.

use tiny_skia::{LineCap, LineJoin, Path, PathBuilder, Rect, Stroke, StrokeDash, Transform};

use crate::layout::{Anchor, Area, BAND, Curve, Layout, Shape};
use crate::map::Grid;
use crate::svg::{CURVE_WIDTH, DASHES, DOT_RADIUS};
use crate::text;

/// Paths of which nothing is seen outside of an area, if there is one.
pub(crate) struct Group {
    pub(crate) clip: Option<Path>,
    pub(crate) drawn: Vec<Drawn>,
}

/// A path in one colour.
pub(crate) struct Drawn {
    pub(crate) path: Path,
    /// Red, green and blue.
    pub(crate) color: [u8; 3],
    /// How it is drawn along; without, it is filled.
    pub(crate) stroke: Option<Stroke>,
    /// Whether its edges are those of pixels, so that nothing shines through between cells.
    pub(crate) is_crisp: bool,
}

impl Drawn {
    /// A path to fill; none if there is nothing of it.
    fn filled(path: Option<Path>, color: &str) -> Option<Self> {
        Some(Self { path: path?, color: rgb(color), stroke: None, is_crisp: false })
    }

    /// A path to draw along; none if there is nothing of it.
    fn stroked(path: Option<Path>, color: &str, stroke: Stroke) -> Option<Self> {
        Some(Self { path: path?, color: rgb(color), stroke: Some(stroke), is_crisp: false })
    }
}

/// All that is drawn, on a white sheet.
pub(crate) fn groups(layout: &Layout) -> Vec<Group> {
    layout.shapes.iter().map(group).collect()
}

fn group(shape: &Shape) -> Group {
    let unclipped = |drawn: Option<Drawn>| Group { clip: None, drawn: drawn.into_iter().collect() };
    match shape {
        Shape::Line { from, to, color, width, is_dashed } => {
            let stroke = Stroke {
                width: *width as f32,
                dash: is_dashed.then(|| StrokeDash::new(DASHES.to_vec(), 0.0)).flatten(),
                ..Stroke::default()
            };
            unclipped(Drawn::stroked(line(&[*from, *to], false), color, stroke))
        }
        Shape::Text { at: (x, y), text, size, color, anchor, is_upright } => {
            let before = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => 0.5,
                Anchor::End => 1.0,
            };
            let (x, y) = (*x as f32, *y as f32);
            let from = x - (before * text::width(text, *size)) as f32;
            let turn = Transform::from_rotate_at(if *is_upright { -90.0 } else { 0.0 }, x, y);
            let outlines = text::outlines(text, *size);
            let path = outlines.and_then(|path| path.transform(turn.pre_translate(from, y)));
            unclipped(Drawn::filled(path, color))
        }
        Shape::Filled { outline, color } => unclipped(Drawn::filled(line(outline, true), color)),
        Shape::Curves { area, bands, curves } => of_curves(area, bands, curves),
        Shape::Grid { area, grid } => Group { clip: None, drawn: of_grid(area, grid) },
    }
}

fn of_curves(area: &Area, bands: &[Vec<(f64, f64)>], curves: &[Curve]) -> Group {
    let bands = bands.iter().filter_map(|outline| Drawn::filled(line(outline, true), BAND));
    let runs = curves.iter().flat_map(|Curve { color, runs }| {
        runs.iter().filter_map(move |run| {
            if let [(x, y)] = run[..] {
                let dot = PathBuilder::from_circle(x as f32, y as f32, DOT_RADIUS as f32);
                return Drawn::filled(dot, color);
            }
            let stroke = Stroke {
                width: CURVE_WIDTH as f32,
                line_cap: LineCap::Round,
                line_join: LineJoin::Round,
                ..Stroke::default()
            };
            Drawn::stroked(line(run, false), color, stroke)
        })
    });
    let place = Transform::from_translate(area.left as f32, area.top as f32);
    let rectangle = Rect::from_xywh(0.0, 0.0, area.width as f32, area.height as f32);
    let clip = rectangle.and_then(|rectangle| PathBuilder::from_rect(rectangle).transform(place));
    Group { clip, drawn: bands.chain(runs).filter_map(|drawn| placed(drawn, place)).collect() }
}

/// A path for each colour, of runs of cells that have it.
fn of_grid(area: &Area, Grid { n_columns, n_rows, levels, colors }: &Grid) -> Vec<Drawn> {
    let mut paths = vec![PathBuilder::new(); colors.len()];
    for (row, levels) in levels.chunks(*n_columns).enumerate() {
        let mut column = 0;
        for run in levels.chunk_by(|a, b| a == b) {
            if let Some(level) = run[0]
                && let Some(cells) =
                    Rect::from_xywh(column as f32, row as f32, run.len() as f32, 1.0)
            {
                paths[level].push_rect(cells);
            }
            column += run.len();
        }
    }
    let scale = |length: f64, n: usize| (length / n as f64) as f32;
    let place = Transform::from_translate(area.left as f32, area.top as f32)
        .pre_scale(scale(area.width, *n_columns), scale(area.height, *n_rows));
    let filled = colors.iter().zip(paths);
    filled
        .filter_map(|(color, path)| placed(Drawn::filled(path.finish(), color)?, place))
        .map(|drawn| Drawn { is_crisp: true, ..drawn })
        .collect()
}

/// What is drawn, where it belongs.
fn placed(drawn: Drawn, place: Transform) -> Option<Drawn> {
    Some(Drawn { path: drawn.path.transform(place)?, ..drawn })
}

/// A line from point to point, and back to the first.
fn line(points: &[(f64, f64)], is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (n, (x, y)) in points.iter().map(|(x, y)| (*x as f32, *y as f32)).enumerate() {
        if n == 0 {
            path.move_to(x, y);
        } else {
            path.line_to(x, y);
        }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

/// The parts of a colour that is written as `#rrggbb`.
fn rgb(color: &str) -> [u8; 3] {
    [1, 3, 5].map(|at| {
        u8::from_str_radix(&color[at..at + 2], 16).expect("colours are written as #rrggbb")
    })
}
