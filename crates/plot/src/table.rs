//! Which figure shows a table.

use std::ops::RangeInclusive;

use molbox_analysis::{Column, Table, TableGroup, Values};

use crate::layout::{COLORS, FOLDS};
use crate::states::{MOST_CELLS, Tally};
use crate::{Figure, Line, Map, Panel, ResiduePlaces, States, Track};

/// Lines of a panel; with more the colours repeat.
const MAX_LINES: usize = 7;

/// Panels of a figure; what is more is left out, and the subtitle has a remark.
const MAX_PANELS: usize = 6;

/// Times from here on are drawn in ns.
const LONG_PS: f64 = 1000.0;

/// Residues from which on a table by atom is left to the one by residue.
const FEW_RESIDUES: usize = 3;

impl Figure {
    /// The figure of a table: what was measured over time or frames, or along the chains. None for
    /// a table without rows or without such a course.
    pub fn of(table: &Table) -> Option<Self> {
        if table.n_rows() == 0 {
            return None;
        }
        match table.kind {
            "rmsf" | "rmsf_by_residue" => fluctuations(table),
            "secondary_structure_by_frame" => secondary_structure(table),
            "secondary_structure" => secondary_fractions(table),
            "surface_area" => surface_of_residues(table),
            "pairwise_rmsd" => pairwise(table),
            "clusters" => None,
            "clusters_by_frame" => cluster_course(table),
            "block_averages" => block_errors(table),
            "dihedrals_by_frame" => dihedral_course(table),
            "ramachandran" => angles(table, ["phi_deg", "psi_deg"], ["φ", "ψ"]),
            "side_chain_map" => angles(table, ["chi1_deg", "chi2_deg"], ["χ1", "χ2"]),
            "contacts" => residue_pairs(table, "occupancy", "occupancy"),
            "native_contacts" => residue_pairs(table, "soft_fraction", "soft fraction of contacts"),
            "rdf" => profile(table, 0, "distance", "Å"),
            "density" => profile(table, 0, "from the centre", "Å"),
            "principal_components" => profile(table, 0, "component", ""),
            "lipid_order" => lipid_order(table),
            "principal_modes" | "convergence" | "dihedrals" => None,
            _ => course(table),
        }
    }
}

/// What was measured in each frame.
fn course(table: &Table) -> Option<Figure> {
    let (x_label, x_unit, along) = abscissa(table)?;
    let measured =
        table.columns.iter().filter(|column| !["frame", "time_ps"].contains(&column.name.as_str()));
    let measured: Vec<_> = measured.filter_map(|column| Some((column, numbers(column)?))).collect();
    let names = line_names(table, &measured.iter().map(|(column, _)| *column).collect::<Vec<_>>());
    let mut panels: Vec<Panel> = Vec::new();
    for ((column, values), name) in measured.iter().zip(names) {
        let (y_label, unit) = quantity(table, column);
        let is_whole = matches!(column.values, Values::Integers(_));
        let line =
            Line { name, points: along.iter().copied().zip(values.iter().copied()).collect() };
        match panels.last_mut() {
            Some(last)
                if (&last.y_label, &last.unit) == (&y_label, &unit)
                    && last.lines.len() < MAX_LINES =>
            {
                last.lines.push(line);
            }
            _ => {
                let lines = vec![line];
                panels.push(Panel { y_label, unit, is_whole, lines, ..Panel::default() });
            }
        }
    }
    // A line alone in its panel is what the axis says, unless it distinguishes masks.
    let is_named = ["rmsd", "dihedrals_by_frame"].contains(&table.kind);
    for panel in panels.iter_mut().filter(|panel| panel.lines.len() == 1 && !is_named) {
        panel.lines[0].name = None;
    }
    let mut subtitle = subtitle(table);
    cut(&mut panels, &mut subtitle);
    let x_is_whole = x_label == "frame";
    let figure = Figure {
        title: title(table),
        subtitle,
        x_label: x_label.to_owned(),
        x_unit: x_unit.to_owned(),
        x_is_whole,
        panels,
        ..Figure::default()
    };
    (!figure.panels.is_empty()).then_some(figure)
}

/// The states of DSSP in classes, since eight lines, some always at 0, cannot be distinguished.
const CLASSES: [(&str, &[&str]); 4] = [
    ("helix (H, G, I)", &["alpha_helix", "helix_310", "pi_helix"]),
    ("strand (E, B)", &["strand", "beta_bridge"]),
    ("turn or bend (T, S)", &["turn", "bend"]),
    ("coil (-)", &["coil"]),
];

/// Their letters, and their colours: those that helices and strands have along axes, and grey for
/// what is the ground of a map.
const LETTERS: [(&str, &str); 4] =
    [("HGI", FOLDS[0].2), ("EB", FOLDS[1].2), ("TS", COLORS[4]), ("-", "#bdbdbd")];

/// In which class of states each residue is in each frame, as a map, and how many are.
fn secondary_structure(table: &Table) -> Option<Figure> {
    let (x_label, x_unit, along) = abscissa(table)?;
    let mut lines = Vec::new();
    for (name, states) in CLASSES {
        let columns = states.iter().map(|state| numbers(table.column(state)?));
        let columns: Vec<Vec<f64>> = columns.collect::<Option<_>>()?;
        let counts = (0..along.len()).map(|frame| columns.iter().map(|column| column[frame]).sum());
        let points = along.iter().copied().zip(counts).collect();
        lines.push(Line { name: Some(name.to_owned()), points });
    }
    let y_label = "residues".to_owned();
    Some(Figure {
        title: title(table),
        subtitle: subtitle(table),
        x_label: x_label.to_owned(),
        x_unit: x_unit.to_owned(),
        x_is_whole: x_label == "frame",
        panels: vec![Panel { y_label, is_whole: true, lines, ..Panel::default() }],
        colors: state_colors(),
        states: states(table, &along),
        ..Figure::default()
    })
}

fn state_colors() -> Vec<&'static str> {
    LETTERS.map(|(_, color)| color).to_vec()
}

/// The class of each residue along times or frames, from the first residue to the last. None of
/// more residues than can be seen, and where frames do not follow each other at equal steps.
fn states(table: &Table, along: &[f64]) -> Option<States> {
    let codes = texts(table.column("codes")?)?;
    let (first, last) = (*table.residues.first()?, *table.residues.last()?);
    let n_residues = usize::try_from(last - first + 1).ok().filter(|n| *n <= MAX_RESIDUES)?;
    let (places, width) = places(along)?;
    let n_places = places.last()? + 1;
    let [most_columns, most_rows] = MOST_CELLS;
    let n_columns = n_places.min(most_columns);
    let n_rows = n_residues.min(most_rows);
    let mut tally = Tally::new(n_columns, n_rows, LETTERS.len());
    for (codes, place) in codes.iter().zip(&places) {
        let column = place * n_columns / n_places;
        for (code, residue) in codes.chars().zip(&table.residues) {
            let row = (residue - first) as usize * n_rows / n_residues;
            let class = LETTERS.iter().position(|(letters, _)| letters.contains(code))?;
            tally.add(column, row, class);
        }
    }
    Some(States {
        x: (along[0] - 0.5 * width, along[along.len() - 1] + 0.5 * width),
        y: (first as f64 - 0.5, last as f64 + 0.5),
        y_label: "residue".to_owned(),
        y_names: Vec::new(),
        n_columns,
        values: tally.most_frequent(),
        track: Track::default(),
    })
}

/// How far a frame may be from where equal steps have it, as a part of one.
const OFF_STEP: f64 = 0.05;

/// The steps that times or frames are after the first, and how long one is. Some may be missing.
fn places(along: &[f64]) -> Option<(Vec<usize>, f64)> {
    let least = along.windows(2).map(|two| two[1] - two[0]).fold(f64::INFINITY, f64::min);
    let (first, last) = (*along.first()?, *along.last()?);
    let width =
        if along.len() > 1 { (last - first) / ((last - first) / least).round() } else { 1.0 };
    if !(least > 0.0 && width.is_finite()) {
        return None;
    }
    let place = |at: &f64| {
        let steps = (at - first) / width;
        ((steps - steps.round()).abs() <= OFF_STEP).then(|| steps.round() as usize)
    };
    Some((along.iter().map(place).collect::<Option<_>>()?, width))
}

/// In what part of the frames residues are helix or strand.
fn secondary_fractions(table: &Table) -> Option<Figure> {
    let mut lines = Vec::new();
    for (name, states) in &CLASSES[..2] {
        let mut sums = vec![0.0; table.n_rows()];
        for state in *states {
            let parts = table.numbers(state)?;
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        lines.push(Line { name: Some((*name).to_owned()), points: along_residues(table, &sums)? });
    }
    let figure = by_residue(table, "part of the frames", "", lines)?;
    Some(Figure { colors: state_colors(), ..figure })
}

fn surface_of_residues(table: &Table) -> Option<Figure> {
    let axis = Shown::of_most(numbers(table.column("residue")?)?);
    let mut points = along_residues(table, table.numbers("area_angstrom2")?)?;
    points.retain(|(residue, _)| residue.is_nan() || axis.range.contains(residue));
    let figure = by_residue(table, "surface area", "Å²", vec![Line { name: None, points }])?;
    Some(Figure { subtitle: figure.subtitle + &axis.remark, ..figure })
}

/// Residues that an axis shows.
struct Shown {
    range: RangeInclusive<f64>,
    /// What it leaves out, to be appended to a subtitle.
    remark: String,
}

impl Shown {
    fn all(residues: &[f64]) -> Self {
        let low = residues.iter().copied().fold(f64::INFINITY, f64::min);
        let high = residues.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { range: low..=high, remark: String::new() }
    }

    /// Those that stand together, if they are more than half. Ions have the numbers after all water:
    /// with them, `!:HOH` left the 24 residues of two peptides a fortieth of an axis.
    fn of_most(mut residues: Vec<f64>) -> Self {
        residues.sort_by(f64::total_cmp);
        residues.dedup();
        let n = residues.len();
        // Where a gap is wider than all residues, most of the axis would be empty.
        let mut together = residues.chunk_by(|a, b| b - a <= n as f64);
        let Some(most) = together.find(|part| 2 * part.len() > n && part.len() < n) else {
            return Self::all(&residues);
        };
        let remark = match n - most.len() {
            1 => "; a residue far off is in the table alone".to_owned(),
            n_apart => format!("; {n_apart} residues far off are in the table alone"),
        };
        Self { remark, ..Self::all(most) }
    }
}

/// Values of residues by their numbers through the whole system. Where a chain ends and where
/// residues are missing the line does.
fn along_residues(table: &Table, values: &[f64]) -> Option<Vec<(f64, f64)>> {
    let residues = numbers(table.column("residue")?)?;
    let labels = texts(table.column("name")?)?;
    let chain = |row: usize| labels[row].split_once(':').map(|(chain, _)| chain);
    let mut points = Vec::with_capacity(values.len());
    for (row, (residue, value)) in residues.iter().zip(values).enumerate() {
        let is_next =
            row == 0 || (residue - residues[row - 1] == 1.0 && chain(row) == chain(row - 1));
        if !is_next {
            points.push((f64::NAN, f64::NAN));
        }
        points.push((*residue, *value));
    }
    Some(points)
}

fn by_residue(table: &Table, y_label: &str, unit: &str, lines: Vec<Line>) -> Option<Figure> {
    let (y_label, unit) = (y_label.to_owned(), unit.to_owned());
    Some(Figure {
        title: title(table),
        subtitle: subtitle(table),
        x_label: "residue".to_owned(),
        x_is_whole: true,
        panels: vec![Panel { y_label, unit, lines, ..Panel::default() }],
        ..Figure::default()
    })
}

/// Deviations of all pairs of frames, as a map.
fn pairwise(table: &Table) -> Option<Figure> {
    let frames_a = numbers(table.column("frame_a")?)?;
    let frames_b = numbers(table.column("frame_b")?)?;
    let deviations = table.numbers("rmsd_angstrom")?;
    // The first frame is in a pair with each other.
    let n = 1 + frames_a.iter().take_while(|frame| **frame == frames_a[0]).count();
    let mut values = vec![0.0; n * n];
    let mut pairs = deviations.iter();
    for i in 0..n {
        for j in i + 1..n {
            let deviation = *pairs.next()?;
            values[i * n + j] = deviation;
            values[j * n + i] = deviation;
        }
    }
    let first = frames_a[0];
    let last = frames_b[n - 2];
    let half = (last - first) / (n - 1) as f64 / 2.0;
    let range = (first - half, last + half);
    let map = Map {
        x: range,
        y: range,
        y_label: "frame".to_owned(),
        y_unit: String::new(),
        is_whole: true,
        names: Vec::new(),
        label: "RMSD".to_owned(),
        unit: "Å".to_owned(),
        n_columns: n,
        values,
    };
    Some(Figure {
        title: title(table),
        subtitle: subtitle(table),
        x_label: "frame".to_owned(),
        x_is_whole: true,
        map: Some(map),
        ..Figure::default()
    })
}

/// Cells of a map of angles along an axis, from −180° to 180°.
const ANGLE_BINS: usize = 72;

/// Angles that are drawn over time at most, as dots that nobody could tell apart else.
const MAX_ANGLES: usize = 6;

/// How many residues have which pair of angles.
fn angles(table: &Table, columns: [&str; 2], labels: [&str; 2]) -> Option<Figure> {
    let [x, y] = columns.map(|name| table.numbers(name));
    let (x, y, fractions) = (x?, y?, table.numbers("fraction")?);
    let bin = |angle: f64| ((angle + 180.0) / 360.0 * ANGLE_BINS as f64) as usize;
    let mut values = vec![f64::NAN; ANGLE_BINS * ANGLE_BINS];
    for ((x, y), fraction) in x.iter().zip(y).zip(fractions) {
        *values.get_mut(bin(*y) * ANGLE_BINS + bin(*x))? = 100.0 * fraction;
    }
    let map = Map {
        x: (-180.0, 180.0),
        y: (-180.0, 180.0),
        y_label: labels[1].to_owned(),
        y_unit: "°".to_owned(),
        is_whole: true,
        names: Vec::new(),
        label: "of all residues and frames".to_owned(),
        unit: "%".to_owned(),
        n_columns: ANGLE_BINS,
        values,
    };
    Some(Figure {
        title: title(table),
        subtitle: subtitle(table),
        x_label: labels[0].to_owned(),
        x_unit: "°".to_owned(),
        map: Some(map),
        ..Figure::default()
    })
}

/// A few angles over time, as dots: a line would cross the figure at each turn beyond 180°.
fn dihedral_course(table: &Table) -> Option<Figure> {
    let n_angles = table.columns.iter().filter(|column| column.unit == Some("°")).count();
    if n_angles > MAX_ANGLES {
        return None;
    }
    let mut figure = course(table)?;
    figure.panels.iter_mut().flat_map(|panel| &mut panel.lines).for_each(into_dots);
    Some(figure)
}

fn into_dots(line: &mut Line) {
    line.points = line.points.iter().flat_map(|point| [*point, (point.0, f64::NAN)]).collect();
}

/// Residues that a map of pairs has at most along a side.
const MAX_RESIDUES: usize = 3000;

/// A value of each pair of residues, by their numbers.
fn residue_pairs(table: &Table, column: &str, label: &str) -> Option<Figure> {
    let values_of_pairs = table.numbers(column)?;
    let a = numbers(table.column("residue_a_index")?)?;
    let b = numbers(table.column("residue_b_index")?)?;
    let all: Vec<f64> = a.iter().chain(&b).copied().collect();
    let mut axis = Shown::of_most(all.clone());
    let is_within =
        |shown: &Shown, a: &f64, b: &f64| shown.range.contains(a) && shown.range.contains(b);
    // A ligand far off may be what a map is about.
    let n_within = a.iter().zip(&b).filter(|(a, b)| is_within(&axis, a, b)).count();
    if 2 * n_within <= a.len() {
        axis = Shown::all(&all);
    }
    let first = *axis.range.start();
    let n = (axis.range.end() - first) as usize + 1;
    if n > MAX_RESIDUES {
        return None;
    }
    let mut values = vec![f64::NAN; n * n];
    let pairs = a.iter().zip(&b).zip(values_of_pairs);
    for ((a, b), value) in pairs.filter(|((a, b), _)| is_within(&axis, a, b)) {
        let [i, j] = [a, b].map(|residue| (residue - first) as usize);
        values[i * n + j] = *value;
        values[j * n + i] = *value;
    }
    let range = (first - 0.5, first + n as f64 - 0.5);
    let map = Map {
        x: range,
        y: range,
        y_label: "residue".to_owned(),
        y_unit: String::new(),
        is_whole: true,
        names: Vec::new(),
        label: label.to_owned(),
        unit: String::new(),
        n_columns: n,
        values,
    };
    Some(Figure {
        title: title(table),
        subtitle: both(table, "a", "b") + &axis.remark,
        x_label: "residue".to_owned(),
        x_is_whole: true,
        map: Some(map),
        ..Figure::default()
    })
}

/// All columns of numbers over one of them, a panel each.
fn profile(table: &Table, over: usize, x_label: &str, x_unit: &str) -> Option<Figure> {
    let along = numbers(&table.columns[over])?;
    let others = table.columns.iter().enumerate().filter(|(n, _)| *n != over);
    let mut panels: Vec<Panel> = Vec::new();
    for (_, column) in others {
        let Values::Numbers(values) = &column.values else { continue };
        panels.push(Panel {
            y_label: profile_label(table, column),
            unit: column.unit.unwrap_or_default().to_owned(),
            lines: vec![Line {
                name: None,
                points: along.iter().copied().zip(values.iter().copied()).collect(),
            }],
            ..Panel::default()
        });
    }
    Some(Figure {
        title: title(table),
        subtitle: if table.kind == "rdf" { both(table, "a", "b") } else { subtitle(table) },
        x_label: x_label.to_owned(),
        x_unit: x_unit.to_owned(),
        x_is_whole: matches!(table.columns[over].values, Values::Integers(_)),
        panels,
        ..Figure::default()
    })
}

fn profile_label(table: &Table, column: &Column) -> String {
    let label = match (table.kind, column.name.as_str()) {
        ("rdf", "g") => "g(r)",
        ("rdf", _) => "neighbours",
        ("density", "mass_density") => "mass",
        ("density", "number_density") => "atoms",
        ("density", _) => "electrons",
        ("principal_components", "variance_angstrom2") => "variance",
        ("principal_components", "cosine_content") => "cosine content",
        (_, name) => name,
    };
    label.to_owned()
}

/// Carbons from which on those whose names start alike are a chain, and not a head.
const FEWEST_OF_CHAIN: usize = 8;

/// Order parameters along the chains of lipids, with the sign that nuclear magnetic resonance
/// gives; in the order of carbons where names do not tell chains.
fn lipid_order(table: &Table) -> Option<Figure> {
    let order = table.numbers("order_parameter")?;
    let residues = texts(table.column("residue")?)?;
    let carbons = texts(table.column("carbon")?)?;
    let mut chains: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for ((residue, carbon), order) in residues.iter().zip(carbons).zip(order) {
        let Some((chain, number)) = of_chain(carbon) else { continue };
        let name = format!("{residue}, {chain}n");
        match chains.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((number, -order)),
            None => chains.push((name, vec![(number, -order)])),
        }
    }
    chains.retain(|(_, points)| points.len() >= FEWEST_OF_CHAIN);
    let x_label = if chains.is_empty() {
        for (residue, order) in residues.iter().zip(order) {
            if chains.last().is_none_or(|(name, _)| name != residue) {
                chains.push((residue.clone(), Vec::new()));
            }
            let (_, points) = chains.last_mut()?;
            points.push((points.len() as f64 + 1.0, -order));
        }
        "carbon with hydrogen, in the order of the table"
    } else {
        chains.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        "carbon n of the chain"
    };
    chains.truncate(MAX_LINES);
    let lines = chains.into_iter().map(|(name, points)| Line { name: Some(name), points });
    Some(Figure {
        title: title(table),
        subtitle: subtitle(table),
        x_label: x_label.to_owned(),
        x_is_whole: true,
        panels: vec![Panel {
            y_label: "−S".to_owned(),
            lines: lines.collect(),
            ..Panel::default()
        }],
        ..Figure::default()
    })
}

/// The chain of a carbon and its number there, as CHARMM and Amber call it: C2 and 12 of C212.
fn of_chain(carbon: &str) -> Option<(&str, f64)> {
    let (chain, number) = carbon.split_at_checked(2)?;
    let is_chain = chain.starts_with('C') && chain.ends_with(|c: char| c.is_ascii_digit());
    let number: u8 = number.parse().ok().filter(|_| is_chain)?;
    Some((chain, f64::from(number)))
}

/// The cluster of each frame as a dot, as there is nothing between two clusters.
fn cluster_course(table: &Table) -> Option<Figure> {
    let mut figure = course(table)?;
    figure.panels.first_mut()?.lines.iter_mut().for_each(into_dots);
    Some(figure)
}

/// Errors by the length of blocks, a panel for each series, as units differ.
fn block_errors(table: &Table) -> Option<Figure> {
    let tables = texts(table.column("table")?)?;
    let columns = texts(table.column("column")?)?;
    let measured = texts(table.column("measured")?)?;
    let units = texts(table.column("unit")?)?;
    let errors = table.numbers("standard_error")?;
    let errors_of_errors = table.numbers("error_of_error")?;
    let (x_label, x_unit, along) = match table.numbers("block_ps") {
        Some(times) => {
            let (unit, divisor) = in_time_unit(times.iter().copied());
            let times: Vec<f64> = times.iter().map(|time| time / divisor).collect();
            ("time of a block", unit, times)
        }
        None => ("frames of a block", "", numbers(table.column("block_frames")?)?),
    };
    let rows: Vec<usize> = (0..table.n_rows()).collect();
    let mut panels = Vec::new();
    for of_series in
        rows.chunk_by(|a, b| (&tables[*a], &columns[*a]) == (&tables[*b], &columns[*b]))
    {
        let first = of_series[0];
        let mut points: Vec<(f64, f64)> =
            of_series.iter().map(|row| (along[*row], errors[*row])).collect();
        // Bars, as pieces of the same line.
        for row in of_series.iter().filter(|row| errors_of_errors[**row] > 0.0) {
            let [x, error, own] = [along[*row], errors[*row], errors_of_errors[*row]];
            points.extend([(f64::NAN, f64::NAN), (x, error - own), (x, error + own)]);
        }
        panels.push(Panel {
            y_label: "error".to_owned(),
            unit: units[first].clone(),
            lines: vec![Line { name: Some(measured[first].clone()), points }],
            ..Panel::default()
        });
    }
    let mut subtitle = "standard error by means of blocks; bars: its own error".to_owned();
    cut(&mut panels, &mut subtitle);
    Some(Figure {
        title: title(table),
        subtitle,
        x_label: x_label.to_owned(),
        x_unit: x_unit.to_owned(),
        panels,
        ..Figure::default()
    })
}

/// Times in ps or ns, or the frames where there are none.
fn abscissa(table: &Table) -> Option<(&'static str, &'static str, Vec<f64>)> {
    let Some(times) = table.numbers("time_ps") else {
        return Some(("frame", "", numbers(table.column("frame")?)?));
    };
    let (unit, divisor) = in_time_unit(times.iter().copied());
    Some(("time", unit, times.iter().map(|time| time / divisor).collect()))
}

/// The unit that times in ps are drawn in, and how many ps it has.
pub(crate) fn in_time_unit(mut times: impl Iterator<Item = f64>) -> (&'static str, f64) {
    if times.any(|time| time.abs() >= LONG_PS) { ("ns", 1000.0) } else { ("ps", 1.0) }
}

/// Fluctuations along the chains, a line for each chain, or for each molecule of one where several
/// have the same residues.
fn fluctuations(table: &Table) -> Option<Figure> {
    let values = table.numbers("rmsf_angstrom")?;
    let chains = texts(table.column("chain")?)?;
    let labels = texts(table.column("name")?)?;
    // By label, since the number leaves out the insertion code.
    let n_residues =
        1 + labels.windows(2).filter(|two| residue(&two[0]) != residue(&two[1])).count();
    let has_several = table.kind == "rmsf" && n_residues < values.len();
    if has_several && n_residues >= FEW_RESIDUES {
        return None;
    }
    let molecules = molecules(table, labels);
    let parts: Vec<Part<'_>> = chains.iter().map(String::as_str).zip(molecules).collect();
    let (along, x_names) = if has_several {
        (numbers(table.column("atom")?)?, Vec::new())
    } else {
        let ResiduePlaces { of_rows, names } = places_of(table)?;
        (of_rows.into_iter().map(|place| place as f64).collect(), names)
    };
    let mut lines: Vec<(Part<'_>, Vec<(f64, f64)>)> = Vec::new();
    for (n, point) in along.iter().copied().zip(values.iter().copied()).enumerate() {
        match lines.iter_mut().find(|(part, _)| *part == parts[n]) {
            Some((_, points)) => {
                // Where residues are missing, and where a chain comes back, the line ends.
                let is_next =
                    points.last().is_some_and(|last| (0.0..=1.0).contains(&(point.0 - last.0)));
                if !is_next || parts[n - 1] != parts[n] {
                    points.push((f64::NAN, f64::NAN));
                }
                points.push(point);
            }
            None => lines.push((parts[n], vec![point])),
        }
    }
    let is_alone = lines.len() == 1;
    let lines: Vec<Line> = lines
        .into_iter()
        .map(|(part, points)| Line { name: (!is_alone).then(|| part_name(part)), points })
        .collect();
    let mut panels: Vec<Panel> = lines.chunks(MAX_LINES).map(fluctuation_panel).collect();
    let mut subtitle = subtitle(table);
    if table.kind == "rmsf_by_residue" {
        subtitle += "; mean over the atoms of each residue, weighted by mass";
    }
    cut(&mut panels, &mut subtitle);
    Some(Figure {
        title: title(table),
        subtitle,
        x_label: if has_several { "atom number" } else { RESIDUE_NUMBER }.to_owned(),
        x_unit: String::new(),
        x_is_whole: true,
        x_names,
        panels,
        ..Figure::default()
    })
}

/// What the axis of fluctuations of residues shows.
pub(crate) const RESIDUE_NUMBER: &str = "residue number";

/// The places of the rows of a table of fluctuations of residues.
pub(crate) fn places_of(table: &Table) -> Option<ResiduePlaces> {
    let chains = texts(table.column("chain")?)?;
    let labels = texts(table.column("name")?)?;
    let Values::Integers(numbers) = &table.column("residue_number")?.values else { return None };
    let parts = chains.iter().map(String::as_str).zip(molecules(table, labels));
    let rows = parts.zip(labels).zip(numbers);
    Some(ResiduePlaces::of(rows.map(|((part, label), number)| (part, label.as_str(), *number))))
}

/// A chain, and the molecule of it that a line is of.
type Part<'a> = (&'a str, Option<i64>);

/// The molecule of each row where residues of several are alike; none of a single residue, as an ion
/// is.
fn molecules(table: &Table, labels: &[String]) -> Vec<Option<i64>> {
    let Some(Values::Integers(numbers)) = table.column("molecule").map(|column| &column.values)
    else {
        return vec![None; labels.len()];
    };
    let rows: Vec<_> = labels.iter().map(|label| residue(label)).zip(numbers).collect();
    let mut molecules = Vec::with_capacity(rows.len());
    for of_one in rows.chunk_by(|a, b| a.1 == b.1) {
        let (first, number) = of_one[0];
        let has_several = of_one.iter().any(|(label, _)| *label != first);
        molecules.extend(of_one.iter().map(|_| has_several.then_some(*number)));
    }
    molecules
}

fn part_name((chain, molecule): Part<'_>) -> String {
    match (chain, molecule) {
        ("", Some(number)) => format!("molecule {number}"),
        (chain, Some(number)) => format!("chain {chain}, molecule {number}"),
        ("", None) => "no chain".to_owned(),
        (chain, None) => format!("chain {chain}"),
    }
}

fn fluctuation_panel(lines: &[Line]) -> Panel {
    Panel {
        y_label: "RMSF".to_owned(),
        unit: "Å".to_owned(),
        lines: lines.to_vec(),
        ..Panel::default()
    }
}

/// The part of a label in front of the atom, `A:ALA-1` of `A:ALA-1@CA`.
fn residue(label: &str) -> &str {
    label.split_once('@').map_or(label, |(residue, _)| residue)
}

/// Leaves out panels that are too many, and says so.
fn cut(panels: &mut Vec<Panel>, subtitle: &mut String) {
    if panels.len() > MAX_PANELS {
        let n_lines = line_count(panels);
        panels.truncate(MAX_PANELS);
        *subtitle += &format!("; the first {} of {n_lines} lines", line_count(panels));
    }
}

fn line_count(panels: &[Panel]) -> usize {
    panels.iter().map(|panel| panel.lines.len()).sum()
}

/// The title without the groups, which are in the subtitle.
fn title(table: &Table) -> String {
    table.title.split_once(": ").map_or(table.title.as_str(), |(title, _)| title).to_owned()
}

/// The groups, by what they are for.
fn subtitle(table: &Table) -> String {
    match table.kind {
        "rmsd" => match group(table, "fit") {
            Some(fit) => format!("superposed on {}", shown(fit)),
            None => "not superposed".to_owned(),
        },
        "distance" | "contacts_by_frame" | "native_contacts_by_frame" => both(table, "a", "b"),
        "hydrogen_bonds_by_frame" if group(table, "solute").is_some() => {
            both(table, "solute", "solvent")
        }
        "hydrogen_bonds_by_frame" if group(table, "within").is_none() => both(table, "a", "b"),
        _ => table.groups.first().map_or_else(String::new, shown),
    }
}

fn group<'a>(table: &'a Table, role: &str) -> Option<&'a TableGroup> {
    table.groups.iter().find(|group| group.role == role)
}

fn both(table: &Table, a: &str, b: &str) -> String {
    let [a, b] = [a, b].map(|role| group(table, role).map_or_else(String::new, shown));
    format!("{a} and {b}")
}

fn shown(group: &TableGroup) -> String {
    match (&group.first_atom, group.n_atoms) {
        (Some(atom), 1) => format!("{} ({atom})", group.label),
        (_, 1) => format!("{} (1 atom)", group.label),
        (_, n_atoms) => format!("{} ({n_atoms} atoms)", group.label),
    }
}

/// What the legend calls the lines.
fn line_names(table: &Table, measured: &[&Column]) -> Vec<Option<String>> {
    if table.kind == "rmsd" {
        let measures = table.groups.iter().filter(|group| group.role == "measure");
        return measures.map(|group| Some(group.label.clone())).collect();
    }
    measured.iter().map(|column| Some(column.definition.clone())).collect()
}

/// What the vertical axis shows of a column, and its unit.
fn quantity(table: &Table, column: &Column) -> (String, String) {
    let text = match (table.kind, column.name.as_str()) {
        ("rmsd", _) => "RMSD",
        ("distance", _) => "distance",
        ("radius_of_gyration", _) => "radius of gyration",
        ("hydrogen_bonds_by_frame", "bridges") => "bridging residues",
        ("hydrogen_bonds_by_frame", _) => "hydrogen bonds",
        ("contacts_by_frame", "residue_pairs") => "pairs of residues",
        ("contacts_by_frame", "first_fraction") => "fraction of contacts",
        ("contacts_by_frame", _) => "pairs of atoms",
        ("surface_area_by_frame", _) => "surface area",
        ("native_contacts_by_frame", _) => "fraction of native contacts",
        ("end_to_end", _) => "end-to-end distance",
        ("projections", _) => "projection",
        ("dihedrals_by_frame", _) => "angle",
        ("membrane", "area_per_lipid_angstrom2") => "area per lipid",
        ("membrane", "thickness_angstrom") => "thickness",
        ("membrane", _) => "lipids",
        ("clusters_by_frame", "cluster") => "cluster",
        ("clusters_by_frame", _) => "RMSD from medoid",
        _ => column.definition.as_str(),
    };
    (text.to_owned(), column.unit.unwrap_or_default().to_owned())
}

fn numbers(column: &Column) -> Option<Vec<f64>> {
    match &column.values {
        Values::Numbers(values) => Some(values.clone()),
        Values::Integers(values) => Some(values.iter().map(|&value| value as f64).collect()),
        Values::Texts(_) => None,
    }
}

fn texts(column: &Column) -> Option<&[String]> {
    if let Values::Texts(values) = &column.values { Some(values) } else { None }
}
