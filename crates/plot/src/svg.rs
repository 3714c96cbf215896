//! Shapes as SVG.

use std::fmt::Write as _;

use crate::layout::{Anchor, Area, BAND, Curve, Layout, Shape};
use crate::map::Grid;
use crate::text::FAMILY;

pub(crate) const CURVE_WIDTH: f64 = 1.6;
pub(crate) const DOT_RADIUS: f64 = 2.6;
/// Of a dashed line: what is drawn, and what is free.
pub(crate) const DASHES: [f32; 2] = [4.0, 4.0];

/// A picture as wide as this in print, in mm, whose units of length are those of the layout.
pub(crate) fn draw(layout: &Layout, width_mm: f64) -> String {
    let Layout { width, height, description, shapes, .. } = layout;
    let height_mm = width_mm * height / width;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width_mm}mm\" \
         height=\"{height_mm:.2}mm\" viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"'{FAMILY}', Verdana, \
         sans-serif\">\n\
         <title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        escaped(description)
    );
    shapes.iter().for_each(|shape| add(&mut svg, shape));
    svg.push_str("</svg>\n");
    svg
}

fn add(svg: &mut String, shape: &Shape) {
    match shape {
        Shape::Line { from: (x1, y1), to: (x2, y2), color, width, is_dashed } => {
            let [on, off] = DASHES;
            let dashes = if *is_dashed {
                format!(" stroke-dasharray=\"{on} {off}\"")
            } else {
                String::new()
            };
            append(
                svg,
                format_args!(
                    "<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\" \
                     stroke=\"{color}\" stroke-width=\"{width}\"{dashes}/>\n"
                ),
            );
        }
        Shape::Text { at: (x, y), text, size, color, anchor, is_upright } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let turn = if *is_upright {
                format!(" transform=\"rotate(-90 {x:.2} {y:.2})\"")
            } else {
                String::new()
            };
            append(
                svg,
                format_args!(
                    "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" fill=\"{color}\" \
                     text-anchor=\"{anchor}\"{turn}>{}</text>\n",
                    escaped(text)
                ),
            );
        }
        Shape::Filled { outline, color } => {
            svg.push_str("<polygon points=\"");
            add_points(svg, outline);
            append(svg, format_args!("\" fill=\"{color}\"/>\n"));
        }
        Shape::Curves { area, bands, curves } => add_curves(svg, area, bands, curves),
        Shape::Grid { area, grid } => add_grid(svg, area, grid),
    }
}

/// Bands and curves in an SVG of their own, which cuts off what is outside of it.
fn add_curves(
    svg: &mut String,
    Area { left, top, width, height }: &Area,
    bands: &[Vec<(f64, f64)>],
    curves: &[Curve],
) {
    append(
        svg,
        format_args!(
            "<svg x=\"{left:.2}\" y=\"{top:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
             overflow=\"hidden\">\n"
        ),
    );
    for outline in bands {
        svg.push_str("<polygon points=\"");
        add_points(svg, outline);
        append(svg, format_args!("\" fill=\"{BAND}\"/>\n"));
    }
    for Curve { color, runs } in curves {
        for run in runs {
            if let [(x, y)] = run[..] {
                append(
                    svg,
                    format_args!(
                        "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{DOT_RADIUS}\" \
                         fill=\"{color}\"/>\n"
                    ),
                );
                continue;
            }
            svg.push_str("<polyline points=\"");
            add_points(svg, run);
            append(
                svg,
                format_args!(
                    "\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{CURVE_WIDTH}\" \
                     stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n"
                ),
            );
        }
    }
    svg.push_str("</svg>\n");
}

fn add_points(svg: &mut String, points: &[(f64, f64)]) {
    points.iter().for_each(|(x, y)| append(svg, format_args!("{x:.2},{y:.2} ")));
    svg.truncate(svg.trim_end().len());
}

/// A path for each colour, of runs of cells that have it.
fn add_grid(svg: &mut String, Area { left, top, width, height }: &Area, grid: &Grid) {
    let Grid { n_columns, n_rows, levels, colors } = grid;
    append(
        svg,
        format_args!(
            "<svg x=\"{left:.2}\" y=\"{top:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
             viewBox=\"0 0 {n_columns} {n_rows}\" preserveAspectRatio=\"none\" \
             shape-rendering=\"crispEdges\">\n"
        ),
    );
    let mut paths = vec![String::new(); colors.len()];
    for (row, levels) in levels.chunks(*n_columns).enumerate() {
        let mut column = 0;
        for run in levels.chunk_by(|a, b| a == b) {
            let n = run.len();
            if let Some(level) = run[0] {
                append(&mut paths[level], format_args!("M{column} {row}h{n}v1h-{n}z"));
            }
            column += n;
        }
    }
    for (color, path) in colors.iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
        append(svg, format_args!("<path fill=\"{color}\" d=\"{path}\"/>\n"));
    }
    svg.push_str("</svg>\n");
}

/// A text as XML can have it; what XML cannot have is a blank.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

fn append(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a string takes what is written to it");
}
