//! Where everything of a figure is: its shapes, from those behind to those in front.

use std::ops::RangeInclusive;

use molbox_analysis::Fold;

use crate::envelope::envelope;
use crate::map::{Grid, LEVELS};
use crate::text::{shortened, titled, width, wrapped};
use crate::ticks::{Ticks, power};
use crate::{Band, Figure, Map, Named, Panel, States, Stretch, Track, Width};

/// Units of length of a figure in print, as many as make the smallest text 7 pt high.
const UNITS_PER_MM: f64 = 1000.0 / 183.0;
const MARGIN: f64 = 24.0;
const TITLE: f64 = 20.0;
const LABEL: f64 = 15.0;
const SMALL: f64 = 13.0;
/// From one line of small text to the next.
const LINE: f64 = 19.0;
/// Lines that the title of a vertical axis has at most.
const TITLE_LINES: usize = 2;
const BETWEEN_PANELS: f64 = 20.0;
/// Of a tick, and from it to its number.
const TICK: f64 = 5.0;
/// Length of a line's sample in the legend, and what is left free after an entry.
const SAMPLE: f64 = 24.0;
const AFTER_ENTRY: f64 = 26.0;
/// Sides of a map at most, width of its scale, and what is free between the two.
const MAP: f64 = 660.0;
const SCALE_WIDTH: f64 = 22.0;
const BEFORE_SCALE: f64 = 26.0;
/// From one tick to the next, about.
const TICK_SPACING: [f64; 2] = [90.0, 50.0];
/// The same of ticks with names along the horizontal axis: of few residues, one in ninety said little.
const NAME_SPACING: f64 = 60.0;
/// What a line leaves free above and below, as a part of its range.
const PADDING: f64 = 0.06;
/// Part of a value below which differences are noise of its last digits, so that the line is flat.
const LEAST_RANGE: f64 = 1e-9;
/// Beyond it the width of an axis may not be a number; what is larger breaks a line.
const LARGEST: f64 = 1e300;
/// Below it the labels may not be numbers; what is smaller is drawn at zero.
const LEAST: f64 = 1e-290;

/// Height of a row of secondary structure, of a helix in it, and of the head and the shaft of a
/// strand, which is an arrow.
const TRACK: f64 = 16.0;
const HELIX: f64 = 9.0;
const STRAND: [f64; 2] = [12.0, 5.0];
/// Length of the head, unless the strand is shorter.
const HEAD: f64 = 8.0;

/// Height of a band's sample in the legend, and of a state's.
const BAND_SAMPLE: f64 = 10.0;

/// Height of a map of states.
const STATES: f64 = 300.0;

/// The colours of text and axes, of what is less important, and of the grid.
pub(crate) const INK: &str = "#262626";
pub(crate) const GREY: &str = "#5f5f5f";
pub(crate) const GRID: &str = "#e6e6e6";
/// Of bands: a colour that no line has, and light enough for all of them.
pub(crate) const BAND: &str = "#d0d0d0";
/// Of secondary structure, which shapes tell apart where there are no colours.
pub(crate) const FOLDS: [(Fold, &str, &str); 2] =
    [(Fold::Helix, "helix", "#8a6fb0"), (Fold::Strand, "strand", "#3d8f76")];
/// Okabe and Ito's colours, which people with any kind of colour vision tell apart.
pub(crate) const COLORS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Part of the picture, in units of length from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Line {
        from: (f64, f64),
        to: (f64, f64),
        color: &'static str,
        width: f64,
        is_dashed: bool,
    },
    Text {
        at: (f64, f64),
        text: String,
        size: f64,
        color: &'static str,
        anchor: Anchor,
        is_upright: bool,
    },
    /// Outlines of bands, and in front of them lines, in an area outside of which nothing of them
    /// is seen; a run of one point is a dot.
    Curves {
        area: Area,
        bands: Vec<Vec<(f64, f64)>>,
        curves: Vec<Curve>,
    },
    /// What is filled within an outline.
    Filled {
        outline: Vec<(f64, f64)>,
        color: &'static str,
    },
    /// Cells of a map.
    Grid {
        area: Area,
        grid: Grid,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    pub(crate) color: &'static str,
    pub(crate) runs: Vec<Vec<(f64, f64)>>,
}

/// Which part of a text is where it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A figure, laid out.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// What the figure shows, for those who do not see it.
    pub(crate) description: String,
    pub(crate) shapes: Vec<Shape>,
}

struct Axis {
    range: RangeInclusive<f64>,
    ticks: Ticks,
    label: String,
}

impl Layout {
    pub(crate) fn of(figure: &Figure) -> Self {
        if let Some(map) = &figure.map {
            return Self::of_map(figure, map);
        }
        let right = right_of(figure);
        let n_panels = figure.panels.len() + usize::from(figure.states.is_some());
        let panel_height = match (n_panels, figure.width) {
            (0 | 1, Width::Double) => 400.0,
            (0 | 1, Width::Single) => 260.0,
            (2, Width::Double) => 240.0,
            _ => 190.0,
        };
        let y_axes: Vec<Axis> =
            figure.panels.iter().map(|panel| y_axis(panel, panel_height)).collect();
        let states = figure.states.as_ref().map(|states| (states, states_axis(states)));
        let widest = y_axes.iter().chain(states.as_ref().map(|(_, axis)| axis));
        let widest = widest.map(Axis::widest).fold(0.0, f64::max);
        let titles = y_axes.iter().map(|axis| axis.titled(panel_height + BETWEEN_PANELS).len());
        let n_lines = titles.max().unwrap_or(1).max(1);
        let left = left_of(n_lines, widest);
        let x_axis = x_axis(figure, right - left);
        let mut sheet = Sheet { shapes: Vec::new(), left, right, n_lines, y: MARGIN };
        sheet.titles(figure);
        for (n, (panel, y_axis)) in figure.panels.iter().zip(&y_axes).enumerate() {
            sheet.legend(figure, panel);
            if let Some((states, axis)) = states.as_ref().filter(|_| n == 0) {
                sheet.states(states, colors(figure), &x_axis, axis);
            }
            sheet.panel(
                figure,
                panel,
                panel_height,
                (&x_axis, y_axis),
                n == 0,
                n + 1 == figure.panels.len(),
            );
        }
        sheet.laid_out(figure)
    }

    fn of_map(figure: &Figure, map: &Map) -> Self {
        let right = right_of(figure);
        let y_axis = |side| {
            let axis = exact_axis(map.y, &map.y_label, &map.y_unit, map.is_whole, side);
            axis.named(&map.names, side, false)
        };
        let left = left_of(1, y_axis(MAP).widest());
        let scale = exact_axis(map.range(), &map.label, &map.unit, false, MAP);
        let before_scale = before_scale(figure);
        let beside = before_scale + SCALE_WIDTH + TICK + 4.0 + scale.widest() + 10.0 + LABEL;
        let side = MAP.min(right - left - beside);
        let x_axis = exact_axis(map.x, &figure.x_label, &figure.x_unit, map.is_whole, side)
            .named(&map.names, side, true);
        let mut sheet = Sheet { shapes: Vec::new(), left, right, n_lines: 1, y: MARGIN };
        sheet.titles(figure);
        sheet.map(figure, map, side, &x_axis, &y_axis(side));
        sheet.laid_out(figure)
    }
}

fn width_of(figure: &Figure) -> f64 {
    (UNITS_PER_MM * figure.width.mm()).round()
}

/// Where the panels start, beside titles of so many lines and the widest number.
fn left_of(n_lines: usize, widest: f64) -> f64 {
    MARGIN + LABEL + LINE * (n_lines - 1) as f64 + 12.0 + widest + TICK + 4.0
}

/// Where the panels end.
fn right_of(figure: &Figure) -> f64 {
    width_of(figure) - MARGIN
}

/// From a map to its scale.
fn before_scale(figure: &Figure) -> f64 {
    if figure.tracks.is_empty() { BEFORE_SCALE } else { BEFORE_SCALE + TRACK }
}

/// A sheet that is filled from the top.
struct Sheet {
    shapes: Vec<Shape>,
    /// Where the panels start, and end.
    left: f64,
    right: f64,
    /// Lines of the title of a vertical axis, at most.
    n_lines: usize,
    /// How far down it is filled.
    y: f64,
}

impl Sheet {
    fn room(&self) -> f64 {
        self.right - self.left
    }

    fn text(
        &mut self,
        at: (f64, f64),
        text: impl Into<String>,
        size: f64,
        color: &'static str,
        anchor: Anchor,
    ) {
        self.shapes.push(Shape::Text {
            at,
            text: text.into(),
            size,
            color,
            anchor,
            is_upright: false,
        });
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &'static str, width: f64) {
        self.shapes.push(Shape::Line { from, to, color, width, is_dashed: false });
    }

    fn titles(&mut self, figure: &Figure) {
        if !figure.title.is_empty() {
            self.y += TITLE;
            let title = shortened(&figure.title, TITLE, self.room());
            self.text((self.left, self.y), title, TITLE, INK, Anchor::Start);
            self.y += 6.0;
        }
        for line in wrapped(&figure.subtitle, SMALL, self.room(), 2) {
            self.y += LINE;
            self.text((self.left, self.y), line, SMALL, GREY, Anchor::Start);
        }
        self.y += 14.0;
    }

    /// The names of the lines, or of states, in rows above the panel, where no line is.
    fn legend(&mut self, figure: &Figure, panel: &Panel) {
        let lines = panel.lines.iter().zip(colors(figure).iter().cycle());
        let bands = panel.bands.iter().filter_map(|band| Some((band.name.as_ref()?, INK, true)));
        let named: Vec<_> = lines
            .filter_map(|(line, color)| Some((line.name.as_ref()?, *color, false)))
            .chain(bands)
            .collect();
        let thickness = if figure.states.is_some() { BAND_SAMPLE } else { 2.5 };
        if named.is_empty() {
            return;
        }
        let mut x = self.left;
        let right = self.right;
        self.y += LINE;
        for (name, color, is_band) in named {
            let name = shortened(name, SMALL, self.room() - SAMPLE - 8.0);
            let entry = SAMPLE + 8.0 + width(&name, SMALL);
            if x > self.left && x + entry > right {
                x = self.left;
                self.y += LINE;
            }
            let middle = self.y - 0.35 * SMALL;
            if is_band {
                self.line((x, middle), (x + SAMPLE, middle), BAND, BAND_SAMPLE);
            }
            self.line((x, middle), (x + SAMPLE, middle), color, thickness);
            self.text((x + SAMPLE + 8.0, self.y), name, SMALL, INK, Anchor::Start);
            x += entry + AFTER_ENTRY;
        }
        self.y += 10.0;
    }

    fn panel(
        &mut self,
        figure: &Figure,
        panel: &Panel,
        height: f64,
        (x_axis, y_axis): (&Axis, &Axis),
        is_first: bool,
        is_last: bool,
    ) {
        let marks = figure.marks.iter().filter(|(at, _)| x_axis.range.contains(at));
        let marks: Vec<_> = marks.map(|(at, name)| (*at, name.as_str())).collect();
        if is_first {
            self.tracks(&figure.tracks, &figure.track_note, x_axis, self.room());
            self.mark_names(&marks, x_axis);
        }
        let area = Area { left: self.left, top: self.y, width: self.room(), height };
        let right = area.left + area.width;
        let bottom = area.top + area.height;
        for tick in &y_axis.ticks.at {
            let y = y_axis.place(*tick, bottom, -height);
            self.line((area.left, y), (right, y), GRID, 1.0);
        }
        self.y_ticks(y_axis, area);
        for (tick, label) in x_axis.ticks.at.iter().zip(&x_axis.ticks.labels) {
            let x = x_axis.place(*tick, area.left, area.width);
            self.line((x, area.top), (x, bottom), GRID, 1.0);
            self.line((x, bottom), (x, bottom + TICK), INK, 1.0);
            if is_last {
                // At the end of the axis a long one would be cut off.
                let x = x.min(width_of(figure) - 0.5 * width(label, SMALL));
                self.text((x, bottom + TICK + 4.0 + SMALL), label, SMALL, INK, Anchor::Middle);
            }
        }
        for (at, _) in &marks {
            let x = x_axis.place(*at, area.left, area.width);
            let from = (x, area.top);
            let to = (x, bottom);
            self.shapes.push(Shape::Line { from, to, color: GREY, width: 1.0, is_dashed: true });
        }
        self.shapes.push(curves(panel, colors(figure), x_axis, y_axis, area));
        for (from, to) in
            [((area.left, area.top), (area.left, bottom)), ((area.left, bottom), (right, bottom))]
        {
            self.line(from, to, INK, 1.2);
        }
        self.y_title(&y_axis.titled(height + BETWEEN_PANELS), area.top + height / 2.0);
        self.y = bottom + BETWEEN_PANELS;
        if is_last {
            self.y = bottom + TICK + 4.0 + SMALL + 10.0 + LABEL;
            let label = shortened(&x_axis.label, LABEL, self.room());
            self.text((area.left + area.width / 2.0, self.y), label, LABEL, INK, Anchor::Middle);
        }
    }

    fn laid_out(self, figure: &Figure) -> Layout {
        let description =
            [figure.title.as_str(), figure.subtitle.as_str()].join(" ").trim().to_owned();
        // Whole, as the pixels of a part of one would be seen through.
        let height = (self.y + MARGIN - 8.0).ceil();
        Layout { width: width_of(figure), height, description, shapes: self.shapes }
    }

    /// Cells, axes around them, and what the colours stand for.
    fn map(&mut self, figure: &Figure, map: &Map, side: f64, x_axis: &Axis, y_axis: &Axis) {
        self.tracks(&figure.tracks, &figure.track_note, x_axis, side);
        let area = Area { left: self.left, top: self.y, width: side, height: side };
        let bottom = area.top + side;
        self.shapes.push(Shape::Grid { area, grid: map.grid() });
        if let Some(track) = figure.tracks.first() {
            self.boundaries(track, area, x_axis, y_axis);
            let middle = area.left + side + 0.5 * TRACK + 2.0;
            let place = |along: f64| y_axis.place(along, bottom, -side);
            self.track(track, place, |along, across| (middle + across, along));
        }
        self.frame(area);
        self.y_ticks(y_axis, area);
        for (tick, label) in x_axis.ticks.at.iter().zip(&x_axis.ticks.labels) {
            let x = x_axis.place(*tick, area.left, side);
            self.line((x, bottom), (x, bottom + TICK), INK, 1.0);
            self.text((x, bottom + TICK + 4.0 + SMALL), label, SMALL, INK, Anchor::Middle);
        }
        self.y_title(&titled(&y_axis.label, LABEL, side, 1), area.top + side / 2.0);
        self.scale(map, area, before_scale(figure));
        self.y = bottom + TICK + 4.0 + SMALL + 10.0 + LABEL;
        let label = shortened(&x_axis.label, LABEL, side);
        self.text((area.left + side / 2.0, self.y), label, LABEL, INK, Anchor::Middle);
    }

    /// The colours from the least value to the largest, to the right of a map.
    fn scale(&mut self, map: &Map, beside: Area, before: f64) {
        let left = beside.left + beside.width + before;
        let area = Area { left, width: SCALE_WIDTH, ..beside };
        let levels = (0..LEVELS).rev().map(Some).collect();
        self.shapes.push(Shape::Grid { area, grid: Grid::of_levels(1, LEVELS, levels) });
        self.frame(area);
        let axis = exact_axis(map.range(), &map.label, &map.unit, false, area.height);
        let right = area.left + area.width;
        for (tick, label) in axis.ticks.at.iter().zip(&axis.ticks.labels) {
            let y = axis.place(*tick, area.top + area.height, -area.height);
            self.line((right, y), (right + TICK, y), INK, 1.0);
            let at = (right + TICK + 4.0, y + 0.35 * SMALL);
            self.text(at, label, SMALL, INK, Anchor::Start);
        }
        let at = (right + TICK + 4.0 + axis.widest() + 10.0 + LABEL, area.top + area.height / 2.0);
        for title in titled(&axis.label, LABEL, area.height, 1) {
            self.upright(at, title);
        }
    }

    /// A map of states, with lines between chains and the names of these to the right.
    fn states(&mut self, states: &States, colors: &[&str], x_axis: &Axis, y_axis: &Axis) {
        let area = Area { left: self.left, top: self.y, width: self.room(), height: STATES };
        let right = area.left + area.width;
        let bottom = area.top + area.height;
        let place = |at: f64| y_axis.place(at, bottom, -area.height);
        self.shapes.push(Shape::Grid { area, grid: states.grid(colors) });
        for y in states.track.boundaries().map(place) {
            self.line((area.left, y), (right, y), INK, 1.0);
        }
        self.frame(area);
        self.y_ticks(y_axis, area);
        for tick in &x_axis.ticks.at {
            let x = x_axis.place(*tick, area.left, area.width);
            self.line((x, bottom), (x, bottom + TICK), INK, 1.0);
        }
        let chains: Vec<_> = states.track.spans.chunk_by(|a, b| a.name == b.name).collect();
        for parts in chains.iter().filter(|_| chains.len() > 1) {
            let [low, high] = [parts[0].range.0, parts[parts.len() - 1].range.1].map(place);
            let at = (right + 4.0, 0.5 * (low + high) + 0.35 * SMALL);
            if low - high >= SMALL {
                let name = shortened(&parts[0].name, SMALL, MARGIN - 6.0);
                self.text(at, name, SMALL, INK, Anchor::Start);
            }
        }
        let title = titled(&y_axis.label, LABEL, STATES, 1);
        self.y_title(&title, area.top + 0.5 * area.height);
        self.y = bottom + BETWEEN_PANELS;
    }

    fn y_ticks(&mut self, axis: &Axis, Area { left, top, height, .. }: Area) {
        for (tick, label) in axis.ticks.at.iter().zip(&axis.ticks.labels) {
            let y = axis.place(*tick, top + height, -height);
            self.line((left - TICK, y), (left, y), INK, 1.0);
            self.text((left - TICK - 4.0, y + 0.35 * SMALL), label, SMALL, INK, Anchor::End);
        }
    }

    /// What the shapes of secondary structure are, and rows of them with the names of the chains.
    fn tracks(&mut self, tracks: &[Track], note: &str, x_axis: &Axis, room: f64) {
        if tracks.is_empty() {
            return;
        }
        self.fold_legend(tracks, note);
        let left = self.left;
        let (low, high) = (*x_axis.range.start(), *x_axis.range.end());
        let place = |along: f64| x_axis.place(along.clamp(low, high), left, room);
        let is_of_several = tracks.len() > 1;
        for track in tracks {
            if !is_of_several && track.boundaries().next().is_some() {
                self.chain_names(track, place);
            }
            let middle = self.y + 0.5 * TRACK;
            if let Some(span) = track.spans.first().filter(|_| is_of_several) {
                let at = (left - TICK - 4.0, middle + 0.35 * SMALL);
                let name = shortened(&span.name, SMALL, left - TICK - 4.0 - MARGIN);
                self.text(at, name, SMALL, INK, Anchor::End);
            }
            self.track(track, place, |along, across| (along, middle + across));
            self.y += TRACK;
        }
        self.y += 4.0;
    }

    /// The shapes that there are, and what they are of.
    fn fold_legend(&mut self, tracks: &[Track], note: &str) {
        let mut all = tracks.iter().flat_map(|track| &track.folds);
        let shown: Vec<_> =
            FOLDS.iter().filter(|(fold, ..)| all.clone().any(|it| it.fold == *fold)).collect();
        if all.next().is_none() {
            return;
        }
        let mut x = self.left;
        self.y += LINE;
        let middle = self.y - 0.35 * SMALL;
        for (fold, name, _) in shown {
            let stretch = Stretch { fold: *fold, range: (x, x + SAMPLE) };
            self.stretch(&stretch, |along| along, |along, across| (along, middle + across));
            x += SAMPLE + 8.0;
            self.text((x, self.y), *name, SMALL, INK, Anchor::Start);
            x += width(name, SMALL) + AFTER_ENTRY;
        }
        if x + width(note, SMALL) > self.right {
            x = self.left;
            self.y += LINE;
        }
        let note = shortened(note, SMALL, self.right - x);
        self.text((x, self.y), note, SMALL, GREY, Anchor::Start);
        self.y += 8.0;
    }

    /// Above each chain its name, where there is room for it.
    fn chain_names(&mut self, track: &Track, place: impl Fn(f64) -> f64) {
        self.y += SMALL;
        for parts in track.spans.chunk_by(|a, b| a.name == b.name) {
            let from = place(parts[0].range.0);
            let to = place(parts[parts.len() - 1].range.1);
            let name = &parts[0].name;
            if width(name, SMALL) + 6.0 <= to - from {
                self.text((0.5 * (from + to), self.y), name, SMALL, INK, Anchor::Middle);
            }
        }
        self.y += 4.0;
    }

    /// Chains as thin lines, helices as boxes on them, strands as arrows. The first function places
    /// along the axis, the second takes that and how far across it.
    fn track(
        &mut self,
        track: &Track,
        place: impl Fn(f64) -> f64,
        at: impl Fn(f64, f64) -> (f64, f64),
    ) {
        for span in &track.spans {
            let [from, to] = [span.range.0, span.range.1].map(|along| at(place(along), 0.0));
            self.line(from, to, GREY, 1.5);
        }
        for stretch in &track.folds {
            self.stretch(stretch, &place, &at);
        }
    }

    fn stretch(
        &mut self,
        stretch: &Stretch,
        place: impl Fn(f64) -> f64,
        at: impl Fn(f64, f64) -> (f64, f64),
    ) {
        let Some((_, _, color)) = FOLDS.iter().find(|(fold, ..)| *fold == stretch.fold) else {
            return;
        };
        let from = place(stretch.range.0);
        let to = place(stretch.range.1);
        let outline = if stretch.fold == Fold::Helix {
            let half = 0.5 * HELIX;
            vec![(from, -half), (to, -half), (to, half), (from, half)]
        } else {
            let [head, shaft] = STRAND.map(|height| 0.5 * height);
            // On a vertical axis it points up.
            let neck = to - (to - from).signum() * HEAD.min((to - from).abs());
            vec![
                (from, -shaft),
                (neck, -shaft),
                (neck, -head),
                (to, 0.0),
                (neck, head),
                (neck, shaft),
                (from, shaft),
            ]
        };
        let outline = outline.into_iter().map(|(along, across)| at(along, across)).collect();
        self.shapes.push(Shape::Filled { outline, color });
    }

    /// Where chains end, across a map.
    fn boundaries(&mut self, track: &Track, area: Area, x_axis: &Axis, y_axis: &Axis) {
        let Area { left, top, width, height } = area;
        for at in track.boundaries() {
            let x = x_axis.place(at, left, width);
            let y = y_axis.place(at, top + height, -height);
            for (from, to) in [((x, top), (x, top + height)), ((left, y), (left + width, y))] {
                self.line(from, to, GREY, 1.0);
            }
        }
    }

    fn frame(&mut self, Area { left, top, width, height }: Area) {
        let corners =
            [(left, top), (left + width, top), (left + width, top + height), (left, top + height)];
        for k in 0..4 {
            self.line(corners[k], corners[(k + 1) % 4], INK, 1.2);
        }
    }

    /// The title of a vertical axis about this height, the last line next to the numbers.
    fn y_title(&mut self, lines: &[String], middle: f64) {
        let first = self.n_lines.saturating_sub(lines.len());
        for (nth, line) in (first..).zip(lines) {
            self.upright((MARGIN + 0.8 * LABEL + LINE * nth as f64, middle), line.clone());
        }
    }

    fn upright(&mut self, at: (f64, f64), text: String) {
        let (size, color, anchor) = (LABEL, INK, Anchor::Middle);
        self.shapes.push(Shape::Text { at, text, size, color, anchor, is_upright: true });
    }

    /// The names of marks above the panel, each at its mark; one that would run into another is a
    /// row lower.
    fn mark_names(&mut self, marks: &[(f64, &str)], x_axis: &Axis) {
        let mut ends: Vec<f64> = Vec::new();
        let mut placed = Vec::new();
        for (at, name) in marks {
            let at = x_axis.place(*at, self.left, self.room());
            let name_width = width(name, SMALL);
            let start = at.min(self.right - name_width);
            let row = ends.iter().position(|end| *end < start).unwrap_or(ends.len());
            ends.resize(ends.len().max(row + 1), 0.0);
            ends[row] = start + name_width + 10.0;
            placed.push((start, row, *name));
        }
        let top = self.y;
        for (start, row, name) in placed {
            let y = top + SMALL + LINE * row as f64;
            self.text((start, y), name, SMALL, GREY, Anchor::Start);
        }
        if !ends.is_empty() {
            self.y = top + LINE * ends.len() as f64 + 4.0;
        }
    }
}

impl Axis {
    /// The lines of its title, if it is vertical and there is so much room.
    fn titled(&self, room: f64) -> Vec<String> {
        titled(&self.label, LABEL, room, TITLE_LINES)
    }

    /// Width of its widest number.
    fn widest(&self) -> f64 {
        self.ticks.labels.iter().map(|label| width(label, SMALL)).fold(0.0, f64::max)
    }

    /// The same with ticks at places that have names, where any have, on an axis that is so long.
    fn named(self, names: &[Named], room: f64, is_level: bool) -> Self {
        if names.is_empty() {
            return self;
        }
        let (low, high) = (self.range.start(), self.range.end());
        let ticks_of = |most: usize| {
            let shown = names.iter().filter(|(at, _)| self.range.contains(&(*at as f64)));
            let widest = shown.map(|(_, name)| width(name, SMALL)).fold(0.0, f64::max);
            let apart = if is_level { 1.3 * widest } else { 1.5 * SMALL };
            Ticks::of_names(&self.range, names, most, apart / room * (high - low))
        };
        let spacing = if is_level { NAME_SPACING } else { TICK_SPACING[1] };
        let most = (room / spacing) as usize;
        let mut fewer = (2..=most).rev().map(ticks_of);
        let fits = |ticks: &Ticks| !is_level || labels_fit(ticks, room);
        let ticks = fewer.find(fits).unwrap_or_else(|| ticks_of(1));
        Self { ticks, ..self }
    }

    /// Where a value is on an axis that starts here and is so long.
    fn place(&self, value: f64, start: f64, length: f64) -> f64 {
        let low = self.range.start();
        let high = self.range.end();
        start + (value - low) / (high - low) * length
    }
}

/// The colours of lines, and of the states above them.
fn colors(figure: &Figure) -> &[&'static str] {
    if figure.colors.is_empty() { &COLORS } else { &figure.colors }
}

/// What is drawn in the area of a panel.
fn curves(
    panel: &Panel,
    colors: &[&'static str],
    x_axis: &Axis,
    y_axis: &Axis,
    area: Area,
) -> Shape {
    let place = |(x, y): &(f64, f64)| {
        (x_axis.place(*x, 0.0, area.width), y_axis.place(*y, area.height, -area.height))
    };
    let runs = |points: &[(f64, f64)]| -> Vec<Vec<(f64, f64)>> {
        let runs = points.split(|(x, y)| !is_drawn(*x) || !is_drawn(*y));
        runs.filter(|run| !run.is_empty())
            .map(|run| envelope(&run.iter().map(place).collect::<Vec<_>>(), area.width))
            .collect()
    };
    let lines = panel.lines.iter().zip(colors.iter().cycle());
    let mut curves: Vec<Curve> =
        lines.map(|(line, color)| Curve { color, runs: runs(&line.points) }).collect();
    let mut bands = Vec::new();
    for band in &panel.bands {
        let edges: Vec<_> = band.lines().collect();
        let is_broken =
            |three: &[(f64, f64); 3]| three.iter().any(|(x, y)| !is_drawn(*x) || !is_drawn(*y));
        let mut middle = Vec::new();
        for run in edges.split(is_broken).filter(|run| !run.is_empty()) {
            let edge = |nth: usize| {
                let points: Vec<_> = run.iter().map(|three| place(&three[nth])).collect();
                envelope(&points, area.width)
            };
            bands.push(edge(0).into_iter().chain(edge(2).into_iter().rev()).collect());
            middle.push(edge(1));
        }
        curves.push(Curve { color: INK, runs: middle });
    }
    Shape::Curves { area, bands, curves }
}

/// All points of a panel, the edges of its bands among them.
fn points(panel: &Panel) -> impl Iterator<Item = (f64, f64)> {
    let lines = panel.lines.iter().flat_map(|line| line.points.iter().copied());
    lines.chain(panel.bands.iter().flat_map(Band::lines).flatten())
}

fn y_axis(panel: &Panel, height: f64) -> Axis {
    let points = points(panel).filter(|(x, _)| is_drawn(*x));
    let (low, high) = extent(points.map(|(_, y)| y)).unwrap_or((0.0, 1.0));
    // Of what is 0 throughout nothing says that it could be below.
    let high = if low == 0.0 && high == 0.0 { 1.0 } else { high };
    // What is never below zero is seen in proportion if that does not flatten it.
    let low = if low >= 0.0 && low < 0.5 * high { 0.0 } else { low };
    let range = widened(low, high, panel.is_whole, PADDING);
    let ticks = ticks(&range, (height / TICK_SPACING[1]) as usize, &panel.unit, panel.is_whole);
    Axis { label: label(&panel.y_label, &panel.unit, ticks.exponent), range, ticks }
}

fn x_axis(figure: &Figure, room: f64) -> Axis {
    let points = figure.panels.iter().flat_map(points);
    let seen = points.filter(|(_, y)| is_drawn(*y)).map(|(x, _)| x);
    let (low, high) =
        extent(seen.chain(figure.marks.iter().map(|(at, _)| *at))).unwrap_or((0.0, 1.0));
    let range = match &figure.states {
        Some(states) => states.x.0..=states.x.1,
        None => widened(low, high, figure.x_is_whole || figure.x_is_date, 0.01),
    };
    let ticks_of = |n| match figure.x_is_date {
        true => Ticks::of_dates(&range, n),
        false => Ticks::of(&range, n, figure.x_is_whole),
    };
    let most = (room / TICK_SPACING[0]) as usize;
    let mut fewer = (2..=most).rev().map(ticks_of);
    let ticks = fewer.find(|ticks| labels_fit(ticks, room)).unwrap_or_else(|| ticks_of(1));
    let axis = Axis { label: label(&figure.x_label, &figure.x_unit, ticks.exponent), range, ticks };
    axis.named(&figure.x_names, room, true)
}

fn states_axis(States { y: (low, high), y_label, y_names, .. }: &States) -> Axis {
    let range = *low..=*high;
    let ticks = Ticks::of(&range, (STATES / TICK_SPACING[1]) as usize, true);
    let axis = Axis { label: label(y_label, "", ticks.exponent), range, ticks };
    axis.named(y_names, STATES, false)
}

/// An axis from here to there, without room on the sides.
fn exact_axis((low, high): (f64, f64), text: &str, unit: &str, is_whole: bool, room: f64) -> Axis {
    let range = low..=high;
    let ticks = ticks(&range, (room / TICK_SPACING[0]) as usize, unit, is_whole);
    Axis { label: label(text, unit, ticks.exponent), range, ticks }
}

fn ticks(range: &RangeInclusive<f64>, n: usize, unit: &str, is_whole: bool) -> Ticks {
    if unit == "°" { Ticks::of_degrees(range, n) } else { Ticks::of(range, n, is_whole) }
}

/// Whether there is room for the labels, with half a label between two.
fn labels_fit(ticks: &Ticks, room: f64) -> bool {
    let widest = ticks.labels.iter().map(|label| width(label, SMALL)).fold(0.0, f64::max);
    1.5 * widest * ticks.at.len() as f64 <= room
}

/// A range with some room on both sides, also around a single value.
fn widened(low: f64, high: f64, is_whole: bool, part: f64) -> RangeInclusive<f64> {
    let size = low.abs().max(high.abs());
    let room = if size == 0.0 || (is_whole && high - low < 1.0) {
        1.0
    } else if high - low > LEAST_RANGE * size {
        part * (high - low)
    } else {
        0.05 * size
    };
    low - room..=high + room
}

/// `RMSD (Å)`, `energy (10⁶ kJ/mol)`, `contacts (10³)`.
fn label(text: &str, unit: &str, exponent: i32) -> String {
    let parts = [if exponent == 0 { String::new() } else { power(exponent) }, unit.to_owned()];
    let inner = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    if inner.is_empty() { text.to_owned() } else { format!("{text} ({inner})") }
}

fn is_drawn(value: f64) -> bool {
    value.abs() <= LARGEST
}

fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let drawn = values
        .filter(|value| is_drawn(*value))
        .map(|value| if value.abs() < LEAST { 0.0 } else { value });
    drawn.fold(None, |range, value| {
        Some(
            range.map_or((value, value), |(low, high): (f64, f64)| {
                (low.min(value), high.max(value))
            }),
        )
    })
}
