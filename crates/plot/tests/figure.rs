//! Figures as SVG and PNG: what is drawn, and that nothing is drawn where it must not be.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use molbox_plot::{Band, Figure, Line, Map, Panel, Width};
use roxmltree::{Document, Node};

/// Units of length of the SVG are so many pixels of the PNG.
const SCALE: f64 = 2.5;

struct Picture {
    width: usize,
    per_metre: u32,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn of(figure: &Figure) -> Self {
        let bytes = figure.png();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let pixels = pixels.as_chunks().0.to_vec();
        let png::Info { width, pixel_dims, .. } = reader.info();
        let per_metre = pixel_dims.map_or(0, |dimensions| dimensions.xppu);
        Self { width: *width as usize, per_metre, pixels }
    }

    fn at(&self, x: usize, y: usize) -> [u8; 3] {
        self.pixels[y * self.width + x]
    }

    /// Where the picture has the blue of the first curve, also where that is mixed with white.
    fn blue(&self) -> Vec<(usize, usize)> {
        let is_blue = |n: &usize| self.pixels[*n][2] > self.pixels[*n][0].saturating_add(30);
        (0..self.pixels.len()).filter(is_blue).map(|n| (n % self.width, n / self.width)).collect()
    }
}

fn panel(points: Vec<(f64, f64)>) -> Panel {
    let lines = vec![Line { name: None, points }];
    Panel { y_label: "RMSD".to_owned(), unit: "Å".to_owned(), lines, ..Panel::default() }
}

fn figure(panels: Vec<Panel>) -> Figure {
    Figure {
        title: "A test".to_owned(),
        x_label: "time".to_owned(),
        x_unit: "ns".to_owned(),
        panels,
        ..Figure::default()
    }
}

/// Numbers that look as if drawn by chance, between 0 and 1.
fn noise(n: u32) -> f64 {
    f64::from(n.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24)
}

fn spiky(n_points: u32) -> Vec<(f64, f64)> {
    (0..n_points)
        .map(|n| (f64::from(n) * 0.01, if n % 97 == 0 { 7.38 } else { noise(n) }))
        .collect()
}

/// The areas of the panels in the SVG: left, top, width, height.
fn areas(svg: &str) -> Vec<[f64; 4]> {
    let document = Document::parse(svg).unwrap();
    let nested = document
        .descendants()
        .filter(|node| node.has_tag_name("svg") && node.attribute("x").is_some());
    nested.map(|node| ["x", "y", "width", "height"].map(|name| number(node, name))).collect()
}

/// Width and height of the SVG in its own units.
fn view_box(svg: &str) -> [f64; 2] {
    let document = Document::parse(svg).unwrap();
    let numbers = document.root_element().attribute("viewBox").unwrap().split(' ');
    let numbers: Vec<f64> = numbers.map(|number| number.parse().unwrap()).collect();
    [numbers[2], numbers[3]]
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

/// The points of all curves in the SVG, from its upper left corner.
fn drawn(svg: &str) -> Vec<(f64, f64)> {
    let document = Document::parse(svg).unwrap();
    let curves = document.descendants().filter(|node| node.has_tag_name("polyline"));
    let points = curves.flat_map(|curve| {
        let area = curve.parent().unwrap();
        let (left, top) = (number(area, "x"), number(area, "y"));
        let points = curve.attribute("points").unwrap().split_whitespace();
        points.map(move |point| {
            let (x, y) = point.split_once(',').unwrap();
            (left + x.parse::<f64>().unwrap(), top + y.parse::<f64>().unwrap())
        })
    });
    points.collect()
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().to_owned()).collect()
}

#[test]
fn spikes_do_not_leave_their_axes() {
    let figure = figure(vec![panel(spiky(5000)), panel(spiky(300))]);
    let (picture, areas) = (Picture::of(&figure), areas(&figure.svg()));
    let blue = picture.blue();
    for (x, y) in &blue {
        let (x, y) = (*x as f64 / SCALE, *y as f64 / SCALE);
        let is_in = |[left, top, width, height]: &[f64; 4]| {
            (left - 1.0..=left + width + 1.0).contains(&x)
                && (top - 1.0..=top + height + 1.0).contains(&y)
        };
        assert!(areas.iter().any(is_in), "a curve at {x}, {y}, outside of {areas:?}");
    }
    // The peaks end where their values are, not in spikes above them.
    let highest = drawn(&figure.svg()).iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let first_row = blue.iter().map(|(_, y)| *y as f64 / SCALE).fold(f64::INFINITY, f64::min);
    assert!((highest - first_row).abs() <= 1.5, "drawn to {first_row} for points to {highest}");
}

#[test]
fn png_and_svg_show_the_same_points() {
    let figure = figure(vec![panel((0..60).map(|n| (f64::from(n), noise(n))).collect())]);
    let (picture, svg) = (Picture::of(&figure), figure.svg());
    let points = drawn(&svg);
    assert_eq!(points.len(), 60);
    for (x, y) in points {
        let [r, _, b] = picture.at((x * SCALE) as usize, (y * SCALE) as usize);
        assert!(b > r.saturating_add(60), "no curve at {x}, {y}");
    }
    assert_eq!(view_box(&svg)[0] * SCALE, picture.width as f64);
}

#[test]
fn pictures_have_the_size_that_they_have_in_print_and_pixels_enough_for_it() {
    let double = figure(vec![panel(spiky(50)), panel(spiky(70))]);
    let single = Figure { width: Width::Single, ..double.clone() };
    for (figure, mm) in [(double, 183.0), (single, 89.0)] {
        let svg = figure.svg();
        let document = Document::parse(&svg).unwrap();
        let [width, height] = ["width", "height"].map(|name| {
            let length = document.root_element().attribute(name).unwrap();
            length.strip_suffix("mm").unwrap().parse::<f64>().unwrap()
        });
        let units = view_box(&svg);
        assert_eq!(width, mm);
        assert!((height / width - units[1] / units[0]).abs() < 1e-3, "{height} mm, {units:?}");
        let picture = Picture::of(&figure);
        let per_inch = picture.width as f64 / (mm / 25.4);
        assert!(per_inch > 300.0, "{per_inch} pixels to the inch");
        let written = f64::from(picture.per_metre) * 0.0254;
        assert!((written - per_inch).abs() < 0.1, "{written} for {per_inch}");
    }
}

#[test]
fn texts_are_drawn_without_fonts_of_the_machine() {
    let with = figure(vec![panel(spiky(10))]);
    let without = Figure { title: String::new(), ..with.clone() };
    let ink = |figure: &Figure| {
        let dark = |pixel: &&[u8; 3]| pixel.iter().all(|part| *part < 100);
        Picture::of(figure).pixels.iter().filter(dark).count()
    };
    assert!(
        ink(&with) > ink(&without) + 200,
        "{} pixels with a title, {} without",
        ink(&with),
        ink(&without)
    );
}

#[test]
fn the_background_is_opaque_and_white() {
    let bytes = figure(vec![panel(spiky(10))]).png();
    let reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    assert_eq!(reader.info().color_type, png::ColorType::Rgb);
    assert_eq!(Picture::of(&Figure::default()).at(0, 0), [255; 3]);
}

#[test]
fn the_legend_is_above_the_curves() {
    let mask = ":1-12@CA,C,N,O|".repeat(30);
    let named = |name: &str| Line { name: Some(name.to_owned()), points: spiky(200) };
    let lines = vec![named(&mask), named("@CA"), named("<&>\u{1}")];
    let figure = figure(vec![Panel { lines, ..panel(Vec::new()) }]);
    let svg = figure.svg();
    let [[left, top, width, _]] = areas(&svg)[..] else { panic!("one panel") };
    let document = Document::parse(&svg).unwrap();
    let texts: Vec<Node<'_, '_>> =
        document.descendants().filter(|node| node.has_tag_name("text")).collect();
    for name in ["@CA", "<&> "] {
        let text = texts
            .iter()
            .find(|node| node.text() == Some(name))
            .unwrap_or_else(|| panic!("{name} is missing"));
        assert!(number(*text, "y") < top);
        assert!((left..left + width).contains(&number(*text, "x")));
    }
    assert!(
        texts.iter().any(|node| node.text().is_some_and(|text| text.contains('…'))),
        "a long mask is shortened"
    );
}

#[test]
fn long_titles_of_axes_are_on_two_lines_left_of_all_numbers() {
    let long = "distance of the centres of mass of some atoms and of others".to_owned();
    let of = |y_label: &str| Panel { y_label: y_label.to_owned(), ..panel(spiky(50)) };
    let svg = figure(vec![of("RMSD"), of(&long), of("RMSD")]).svg();
    let document = Document::parse(&svg).unwrap();
    let upright: Vec<(f64, &str)> = document
        .descendants()
        .filter(|node| node.has_tag_name("text") && node.has_attribute("transform"))
        .map(|node| (number(node, "x"), node.text().unwrap()))
        .collect();
    let [(right, "RMSD (Å)"), (left, above), (same, below), (_, "RMSD (Å)")] = upright[..] else {
        panic!("{upright:?}")
    };
    assert!(left + 15.0 < right && same == right, "{upright:?}");
    assert!(above.starts_with("distance of") && below.ends_with("… (Å)"), "{upright:?}");
    let numbers = document
        .descendants()
        .filter(|node| node.has_tag_name("text") && node.attribute("text-anchor") == Some("end"));
    let of_numbers = numbers.map(|node| number(node, "x")).fold(f64::INFINITY, f64::min);
    assert!(of_numbers > right + 15.0, "{of_numbers} {right}");
}

#[test]
fn a_long_line_is_drawn_with_few_points_and_all_its_peaks() {
    let mut points: Vec<(f64, f64)> =
        (0..100_000).map(|n| (f64::from(n) * 0.002, noise(n))).collect();
    points[54_321].1 = 7.38;
    let svg = figure(vec![panel(points)]).svg();
    assert!(svg.len() < 80_000, "{} bytes", svg.len());
    let heights: Vec<f64> = drawn(&svg).into_iter().map(|(_, y)| y).collect();
    let (highest, next) =
        heights.iter().fold((f64::INFINITY, f64::INFINITY), |(first, second), y| {
            if *y < first { (*y, first) } else { (first, second.min(*y)) }
        });
    assert!(next > highest + 100.0, "one peak stands out");
}

#[test]
fn what_is_no_course_is_a_figure_all_the_same() {
    let hostile: [Vec<(f64, f64)>; 12] = [
        vec![],
        vec![(0.0, 0.0)],
        vec![(3.0, -7.0)],
        vec![(0.0, f64::NAN), (1.0, f64::INFINITY)],
        vec![(f64::NAN, 1.0), (f64::NEG_INFINITY, 1.0)],
        vec![(0.0, 5.0), (1.0, 5.0), (2.0, 5.0)],
        vec![(0.0, 1e6), (1.0, 1e6 + 1e-9)],
        vec![(0.0, f64::MAX), (1.0, f64::MIN)],
        vec![(0.0, 1e300), (1.0, -1e300)],
        vec![(f64::MIN_POSITIVE, 5e-324), (0.0, 1e-310)],
        vec![(1.0, 1e-289), (2.0, 3e-289)],
        vec![(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)],
    ];
    for points in hostile {
        for is_whole in [false, true] {
            let figure = figure(vec![Panel { is_whole, ..panel(points.clone()) }]);
            let figure = Figure { x_is_whole: is_whole, ..figure };
            let svg = figure.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{points:?}: {svg}");
            let labels = texts(&svg)
                .iter()
                .filter(|text| text.contains(|c: char| c.is_ascii_digit()))
                .count();
            assert!(labels >= 4, "{points:?}: two numbers on each axis, {svg}");
        }
        figure(vec![panel(points)]).png();
    }
    Figure::default().png();
    assert!(Figure::default().svg().contains("</svg>"));
}

#[test]
fn what_is_zero_throughout_is_at_the_bottom() {
    for is_whole in [false, true] {
        let svg = figure(vec![Panel { is_whole, ..panel(vec![(1.0, 0.0), (2.0, 0.0)]) }]).svg();
        assert!(texts(&svg).contains(&"RMSD (Å)".to_owned()));
        assert!(!svg.contains('\u{2212}'), "no number is below zero: {:?}", texts(&svg));
    }
}

#[test]
fn an_axis_of_dates_has_dates_also_about_a_single_one() {
    let labels = |points, width| -> Vec<String> {
        let figure = Figure { x_is_date: true, width, ..figure(vec![panel(points)]) };
        texts(&figure.svg()).into_iter().filter(|text| text.starts_with("20")).collect()
    };
    // 2024-01-02 is day 19724.
    let single = labels(vec![(19724.0, 1.0)], Width::Double);
    assert_eq!(single, ["2024-01-01", "2024-01-02", "2024-01-03"]);
    let year = labels(vec![(19724.0, 1.0), (20089.0, 2.0)], Width::Single);
    assert_eq!(year, ["2024-01", "2024-07", "2025-01"]);
}

#[test]
fn gaps_break_a_line_and_single_points_are_dots() {
    let points = vec![
        (0.0, 1.0),
        (1.0, 2.0),
        (2.0, f64::NAN),
        (3.0, 2.0),
        (4.0, f64::NAN),
        (5.0, 1.0),
        (6.0, 1.5),
    ];
    let svg = figure(vec![panel(points)]).svg();
    assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 1));
}

#[test]
fn a_band_reaches_as_far_as_its_deviation_and_ends_where_it_is_broken() {
    let line = panel(vec![(0.0, 1.0), (4.0, 1.0)]);
    let points = vec![
        (0.0, 1.0, 2.0),
        (1.0, 1.0, 2.0),
        (f64::NAN, 0.0, 0.0),
        (3.0, 1.0, 0.5),
        (4.0, 1.0, 0.5),
    ];
    let band = Band { name: Some("mean ± deviation".to_owned()), points };
    let figure = figure(vec![Panel { bands: vec![band], ..line.clone() }]);
    let svg = figure.svg();
    let document = Document::parse(&svg).unwrap();
    let heights: Vec<f64> = document
        .descendants()
        .filter(|node| node.has_tag_name("polygon"))
        .map(|node| {
            let points = node.attribute("points").unwrap().split_whitespace();
            let ys = points.map(|point| point.split_once(',').unwrap().1.parse::<f64>().unwrap());
            let (low, high) =
                ys.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)));
            high - low
        })
        .collect();
    assert_eq!(heights.len(), 2, "{svg}");
    assert!((heights[0] - 4.0 * heights[1]).abs() < 0.1, "{heights:?}");
    let [_, _, _, height] = areas(&svg)[0];
    assert!(heights[0] < height && heights[0] > 0.8 * height, "the axis has room for it");
    assert!(texts(&svg).contains(&"mean ± deviation".to_owned()));
    // In the picture too.
    let picture = Picture::of(&figure);
    let grey = picture.pixels.iter().filter(|pixel| **pixel == [0xd0; 3]).count();
    assert!(grey > 1000, "{grey}");
}

/// What a PDF draws, as operators of its one page.
fn operators(pdf: &[u8]) -> String {
    let find = |word: &[u8]| pdf.windows(word.len()).position(|at| at == word).unwrap();
    let (from, to) = (find(b"stream\n") + 7, find(b"\nendstream"));
    let content = miniz_oxide::inflate::decompress_to_vec_zlib(&pdf[from..to]).unwrap();
    String::from_utf8(content).unwrap()
}

fn page_mm(pdf: &[u8]) -> [f64; 2] {
    let text = String::from_utf8_lossy(pdf);
    let (_, rest) = text.split_once("/MediaBox [").unwrap();
    let numbers: Vec<f64> =
        rest.split_once(']').unwrap().0.split(' ').map(|n| n.parse().unwrap()).collect();
    [numbers[2], numbers[3]].map(|points| points / 72.0 * 25.4)
}

#[test]
fn a_pdf_is_as_wide_as_the_columns_of_journals_and_has_each_curve() {
    let double = figure(vec![panel(spiky(50)), panel(spiky(70))]);
    let single = Figure { width: Width::Single, ..double.clone() };
    for (figure, mm) in [(double, 183.0), (single, 89.0)] {
        let pdf = figure.pdf();
        assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF"));
        let [width, height] = page_mm(&pdf);
        assert!((width - mm).abs() < 0.01, "{width} mm");
        let svg = figure.svg();
        let units = view_box(&svg);
        assert!((height / width - units[1] / units[0]).abs() < 1e-3);
        let drawn = operators(&pdf);
        assert_eq!(drawn.matches("\nW\n").count(), 2, "each panel is cut off at its edges");
        // The first curve's blue, and a line to each of its points but the first.
        let blue = drawn.split("0 0.44705883 0.69803923 RG").nth(1).unwrap();
        let curve = blue.split_once("\nS\n").unwrap().0;
        assert_eq!(curve.matches(" l").count(), 49, "{curve}");
        assert_eq!(pdf, figure.pdf(), "nothing in it is of the moment");
    }
}

#[test]
fn figures_of_one_column_keep_within_it_and_have_texts_of_the_same_size() {
    let map = Map {
        x: (0.5, 30.5),
        y: (0.5, 30.5),
        y_label: "residue".to_owned(),
        is_whole: true,
        label: "occupancy".to_owned(),
        n_columns: 30,
        values: (0..900).map(noise).collect(),
        ..Map::default()
    };
    let lines =
        Figure { marks: vec![(0.1, "equilibration".to_owned())], ..figure(vec![panel(spiky(90))]) };
    for figure in [lines, Figure { map: Some(map), ..figure(Vec::new()) }] {
        let narrow = Figure { width: Width::Single, ..figure.clone() };
        let sizes = |figure: &Figure| {
            let svg = figure.svg();
            let document = Document::parse(&svg).unwrap();
            let texts = document.descendants().filter(|node| node.has_tag_name("text"));
            let mut sizes: Vec<_> = texts.map(|text| number(text, "font-size") as i64).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        assert_eq!(sizes(&narrow), sizes(&figure));
        let picture = Picture::of(&narrow);
        assert_eq!(picture.width, 1215);
        let height = picture.pixels.len() / picture.width;
        let is_edge = |n: &usize| {
            let (x, y) = (n % picture.width, n / picture.width);
            !(4..picture.width - 4).contains(&x) || !(4..height - 4).contains(&y)
        };
        let mut edge = (0..picture.pixels.len()).filter(is_edge);
        assert!(edge.all(|n| picture.pixels[n] == [255; 3]), "something runs off the page");
    }
}
