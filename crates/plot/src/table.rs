//! Which figure shows a table.

use molbox_analysis::table::{Column, Table, Values};

use crate::{Figure, Line, Panel};

/// Lines of a panel; with more the colours repeat.
const MAX_LINES: usize = 7;

/// Panels of a figure; what is more is left out, and the subtitle has a remark.
const MAX_PANELS: usize = 6;

/// Times from here on are drawn in ns.
const LONG_PS: f64 = 1000.0;

/// Residues from which on a table by atom is left to the one by residue.
const FEW_RESIDUES: usize = 3;

impl Figure {
    /// The figure of a table: what was measured over time or frames, or along the chains. None for a
    /// table without rows or without such a course.
    pub fn of(table: &Table) -> Option<Self> {
        if table.n_rows() == 0 {
            return None;
        }
        match table.kind {
            "rmsf" | "rmsf_by_residue" => fluctuations(table),
            _ => course(table),
        }
    }
}

/// What was measured in each frame.
fn course(table: &Table) -> Option<Figure> {
    let (x_label, x_unit, along) = abscissa(table)?;
    let measured = table.columns.iter().filter(|column| !["frame", "time_ps"].contains(&column.name.as_str()));
    let measured: Vec<_> = measured.filter_map(|column| Some((column, numbers(column)?))).collect();
    let names = line_names(table, &measured.iter().map(|(column, _)| *column).collect::<Vec<_>>());
    let mut panels: Vec<Panel> = Vec::new();
    for ((column, values), name) in measured.iter().zip(names) {
        let (y_label, unit) = quantity(table, column);
        let is_whole = matches!(column.values, Values::Integers(_));
        let line = Line { name, points: along.iter().copied().zip(values.iter().copied()).collect() };
        match panels.last_mut() {
            Some(last) if (&last.y_label, &last.unit) == (&y_label, &unit) && last.lines.len() < MAX_LINES => {
                last.lines.push(line);
            }
            _ => panels.push(Panel { y_label, unit, is_whole, lines: vec![line] }),
        }
    }
    // A line alone in its panel is what the axis says, unless masks are told apart.
    for panel in panels.iter_mut().filter(|panel| panel.lines.len() == 1 && table.kind != "rmsd") {
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
        marks: Vec::new(),
    };
    (!figure.panels.is_empty()).then_some(figure)
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

/// Fluctuations along the chains, a line for each chain.
fn fluctuations(table: &Table) -> Option<Figure> {
    let (values, chains) = (table.numbers("rmsf_angstrom")?, texts(table.column("chain")?)?);
    let residues = numbers(table.column("residue_number")?)?;
    let labels = texts(table.column("name")?)?;
    // By label, since the number leaves out the insertion code.
    let residue = |n: usize| labels[n].split_once('@').map_or(labels[n].as_str(), |(residue, _)| residue);
    let n_residues = 1 + (1..values.len()).filter(|n| residue(*n) != residue(*n - 1)).count();
    let has_several = table.kind == "rmsf" && n_residues < values.len();
    if has_several && n_residues >= FEW_RESIDUES {
        return None;
    }
    let along = if has_several { numbers(table.column("atom")?)? } else { residues };
    let mut lines: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    for (n, point) in along.iter().copied().zip(values.iter().copied()).enumerate() {
        match lines.iter_mut().find(|(chain, _)| *chain == chains[n]) {
            Some((_, points)) => {
                // Where residues are missing, and where a chain comes back, the line ends.
                let is_next = |last: &(f64, f64)| (0.0..=1.0).contains(&(point.0 - last.0));
                let goes_on = points.last().is_some_and(is_next) && chains[n - 1] == chains[n];
                if !goes_on {
                    points.push((f64::NAN, f64::NAN));
                }
                points.push(point);
            }
            None => lines.push((&chains[n], vec![point])),
        }
    }
    let is_alone = lines.len() == 1;
    let name = |chain: &str| if chain.is_empty() { "no chain".to_owned() } else { format!("chain {chain}") };
    let lines: Vec<Line> =
        lines.into_iter().map(|(chain, points)| Line { name: (!is_alone).then(|| name(chain)), points }).collect();
    let panel = |lines: &[Line]| Panel {
        y_label: "RMSF".to_owned(),
        unit: "Å".to_owned(),
        is_whole: false,
        lines: lines.to_vec(),
    };
    let mut panels: Vec<Panel> = lines.chunks(MAX_LINES).map(panel).collect();
    let mut subtitle = subtitle(table);
    if table.kind == "rmsf_by_residue" {
        subtitle += "; mean over the atoms of each residue, weighted by mass";
    }
    cut(&mut panels, &mut subtitle);
    Some(Figure {
        title: title(table),
        subtitle,
        x_label: if has_several { "atom number" } else { "residue number" }.to_owned(),
        x_unit: String::new(),
        x_is_whole: true,
        panels,
        marks: Vec::new(),
    })
}

/// Leaves out panels that are too many, and says so.
fn cut(panels: &mut Vec<Panel>, subtitle: &mut String) {
    if panels.len() > MAX_PANELS {
        let count = |panels: &[Panel]| panels.iter().map(|panel| panel.lines.len()).sum::<usize>();
        let n_lines = count(panels);
        panels.truncate(MAX_PANELS);
        *subtitle += &format!("; the first {} of {n_lines} lines", count(panels));
    }
}

/// The title without the groups, which are in the subtitle.
fn title(table: &Table) -> String {
    table.title.split_once(": ").map_or(table.title.as_str(), |(title, _)| title).to_owned()
}

/// The groups, by what they are for.
fn subtitle(table: &Table) -> String {
    let group = |role: &str| table.groups.iter().find(|group| group.role == role);
    let told = |role: &str| {
        group(role).map_or_else(String::new, |group| {
            let atoms = if group.n_atoms == 1 { "atom" } else { "atoms" };
            format!("{} ({} {atoms})", group.label, group.n_atoms)
        })
    };
    match table.kind {
        "rmsd" => match group("fit") {
            Some(_) => format!("superposed on {}", told("fit")),
            None => "not superposed".to_owned(),
        },
        "distance" | "contacts_by_frame" => format!("{} and {}", told("a"), told("b")),
        "hydrogen_bonds_by_frame" if group("within").is_none() => {
            let [a, b] = if group("solute").is_some() { ["solute", "solvent"] } else { ["a", "b"] };
            format!("{} and {}", told(a), told(b))
        }
        _ => table.groups.first().map_or_else(String::new, |group| told(group.role)),
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
        ("secondary_structure_by_frame", _) => "residues",
        ("surface_area_by_frame", _) => "surface area",
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
