//! Plots of quantities over time: panels below each other with one horizontal axis, as PNG or SVG.
//!
//! The font is part of the crate, so that a picture looks the same on a machine without any.

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const FONT: &str = "molbox";
const INK: RGBColor = RGBColor(38, 38, 38);
const GRID: RGBColor = RGBColor(228, 228, 228);
/// Okabe and Ito's colours, which people with any kind of colour vision tell apart.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// A figure.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Title above all panels.
    pub title: String,
    /// What the horizontal axis shows, with its unit.
    pub x_label: String,
    /// The panels from top to bottom.
    pub panels: Vec<Panel>,
    /// Places on the horizontal axis, each with a word for what begins there.
    pub marks: Vec<(f64, String)>,
}

/// A panel of a figure.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What the vertical axis shows, with its unit.
    pub y_label: String,
    /// The lines, drawn in different colours.
    pub lines: Vec<Line>,
}

/// A line of a panel.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its entry in the legend; without one it is not in the legend.
    pub name: Option<String>,
    /// Points, in the order in which they are connected; one that is not finite breaks the line.
    pub points: Vec<(f64, f64)>,
}

/// A figure that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("draw a figure: {0}")]
pub struct Error(String);

impl Figure {
    /// The figure as a PNG of this many pixels.
    ///
    /// # Errors
    ///
    /// [`Error`] when the size leaves no room for the panels.
    pub fn png(&self, width: u32, height: u32) -> Result<Vec<u8>, Error> {
        let mut pixels = vec![255; 3 * width as usize * height as usize];
        self.draw(&BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area())?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().map_err(error)?;
        writer.write_image_data(&pixels).map_err(error)?;
        writer.finish().map_err(error)?;
        Ok(bytes)
    }

    /// The figure as an SVG of this size.
    ///
    /// # Errors
    ///
    /// [`Error`] when the size leaves no room for the panels.
    pub fn svg(&self, width: u32, height: u32) -> Result<String, Error> {
        let mut text = String::new();
        self.draw(&SVGBackend::with_string(&mut text, (width, height)).into_drawing_area())?;
        Ok(text.replace(&format!("font-family=\"{FONT}\""), "font-family=\"DejaVu Sans, sans-serif\""))
    }

    fn draw<B>(&self, area: &DrawingArea<B, Shift>) -> Result<(), Error>
    where
        B: DrawingBackend,
        B::ErrorType: 'static,
    {
        load_font();
        area.fill(&WHITE).map_err(error)?;
        let (width, _) = area.dim_in_pixel();
        let title = TextStyle::from((FONT, 20)).color(&INK).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw_text(&self.title, &title, (width as i32 / 2, 20)).map_err(error)?;
        let below = area.margin(40, 8, 8, 16);
        let x = self.x_range();
        let panels = below.split_evenly((self.panels.len().max(1), 1));
        for (index, (panel, area)) in self.panels.iter().zip(&panels).enumerate() {
            let is_last = index + 1 == self.panels.len();
            self.draw_panel(panel, area, x.clone(), index == 0, is_last).map_err(error)?;
        }
        area.present().map_err(error)
    }

    fn x_range(&self) -> std::ops::Range<f64> {
        let points = self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let (low, high) = extent(points.map(|(x, _)| *x));
        if high > low { low..high } else { low - 0.5..high + 0.5 }
    }

    fn draw_panel<B>(
        &self,
        panel: &Panel,
        area: &DrawingArea<B, Shift>,
        x: std::ops::Range<f64>,
        is_first: bool,
        is_last: bool,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        B: DrawingBackend,
        B::ErrorType: 'static,
    {
        let (low, high) = extent(panel.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y));
        let margin = if high > low { 0.08 * (high - low) } else { 0.5_f64.max(high.abs() * 0.01) };
        let y = low - margin..high + margin;
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(if is_last { 44 } else { 10 })
            .y_label_area_size(84)
            .margin(4)
            .build_cartesian_2d(x, y.clone())?;
        let labels = TextStyle::from((FONT, 14)).color(&INK);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .x_labels(if is_last { 10 } else { 0 })
            .y_labels(5)
            .label_style(labels.clone())
            .axis_desc_style(TextStyle::from((FONT, 15)).color(&INK))
            .x_desc(if is_last { self.x_label.as_str() } else { "" })
            .y_desc(panel.y_label.as_str())
            .x_label_formatter(&|value| number(*value))
            .y_label_formatter(&|value| number(*value))
            .draw()?;
        let (low, high) = (y.start, y.end);
        for (at, name) in &self.marks {
            let line = [(*at, low), (*at, high)];
            chart.draw_series(DashedLineSeries::new(line, 4, 4, INK.mix(0.5).stroke_width(1)))?;
            if is_first {
                let color = INK.mix(0.8);
                let style = TextStyle::from((FONT, 13)).color(&color);
                let text = EmptyElement::at((*at, high)) + Text::new(name.clone(), (5, 3), style);
                chart.draw_series([text])?;
            }
        }
        for (line, color) in panel.lines.iter().zip(COLORS.iter().cycle()) {
            let mut named = line.name.as_ref();
            // A break in the line is a new series of the same colour.
            for run in line.points.split(|(x, y)| !x.is_finite() || !y.is_finite()).filter(|run| !run.is_empty()) {
                let series = chart.draw_series(LineSeries::new(run.iter().copied(), color.stroke_width(2)))?;
                if let Some(name) = named.take() {
                    series.label(name).legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
                }
            }
        }
        if panel.lines.iter().any(|line| line.name.is_some()) {
            chart
                .configure_series_labels()
                .label_font(labels)
                .background_style(WHITE.mix(0.85))
                .border_style(GRID)
                .position(SeriesLabelPosition::UpperRight)
                .draw()?;
        }
        Ok(())
    }
}

fn error(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

fn load_font() {
    static LOADED: OnceLock<()> = OnceLock::new();
    LOADED.get_or_init(|| {
        let bytes = include_bytes!("../fonts/DejaVuSans.ttf");
        // Fails for a font that is none.
        let _ = plotters::style::register_font(FONT, FontStyle::Normal, bytes);
    });
}

/// Least and largest of the finite values; 0 and 1 when there are none.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let found = values.filter(|value| value.is_finite()).fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    found.unwrap_or((0.0, 1.0))
}

/// A tick's number without needless digits, with thousands apart and a true minus.
fn number(value: f64) -> String {
    let text = if value == 0.0 {
        "0".to_owned()
    } else if !(1e-4..1e7).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        let plain = format!("{value:.6}");
        plain.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("\u{2212}", digits));
    let (whole, rest) = digits.split_at(digits.find(['.', 'e']).unwrap_or(digits.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && whole.len() > 4 && (whole.len() - index).is_multiple_of(3) {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let line = |name: Option<&str>, f: fn(f64) -> f64| Line {
            name: name.map(str::to_owned),
            points: (0..200).map(|i| (f64::from(i) * 0.1, f(f64::from(i) * 0.1))).collect(),
        };
        Figure {
            title: "A test".to_owned(),
            x_label: "time (ns)".to_owned(),
            panels: vec![
                Panel {
                    y_label: "sine".to_owned(),
                    lines: vec![line(Some("sin"), f64::sin), line(Some("cos"), f64::cos)],
                },
                Panel { y_label: "energy (kJ/mol)".to_owned(), lines: vec![line(None, |x| -80_000.0 + 500.0 * x)] },
            ],
            marks: vec![(5.0, "production".to_owned())],
        }
    }

    #[test]
    fn a_figure_has_ink_and_its_words() {
        let png = figure().png(800, 600).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        assert!(png.len() > 10_000, "a white picture would be smaller");
        let svg = figure().svg(800, 600).unwrap();
        for word in ["A test", "time (ns)", "energy (kJ/mol)", "production", "cos"] {
            assert!(svg.contains(word), "{word} is missing");
        }
    }

    #[test]
    fn gaps_and_nothing_at_all_are_drawn() {
        let mut figure = figure();
        figure.panels[0].lines[0].points[50].1 = f64::NAN;
        figure.panels[1].lines[0].points.clear();
        figure.png(400, 400).unwrap();
        Figure::default().png(400, 400).unwrap();
    }

    #[test]
    fn numbers_have_no_needless_digits() {
        for (value, text) in
            [(0.0, "0"), (-79_000.0, "\u{2212}79\u{a0}000"), (1234.5, "1234.5"), (1e-6, "1e-6"), (0.25, "0.25")]
        {
            assert_eq!(number(value), text);
        }
    }
}
