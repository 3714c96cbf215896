//! Which figure shows a table.

use molbox_analysis::{Column, Table, TableGroup, Values};

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
    /// The figure of a table: what was measured over time or frames, or along the chains. None for
    /// a table without rows or without such a course.
    pub fn of(table: &Table) -> Option<Self> {
        if table.n_rows() == 0 {
            return None;
        }
        match table.kind {
            "rmsf" | "rmsf_by_residue" => fluctuations(table),
            "secondary_structure_by_frame" => secondary_structure(table),
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
            _ => panels.push(Panel { y_label, unit, is_whole, lines: vec![line] }),
        }
    }
    // A line alone in its panel is what the axis says, unless it distinguishes masks.
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

/// The states of DSSP in classes, since eight lines, some always at 0, cannot be distinguished.
const CLASSES: [(&str, &[&str]); 4] = [
    ("helix (H, G, I)", &["alpha_helix", "helix_310", "pi_helix"]),
    ("strand (E, B)", &["strand", "beta_bridge"]),
    ("turn or bend (T, S)", &["turn", "bend"]),
    ("coil (-)", &["coil"]),
];

/// How many residues are in each class of states, in each frame.
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
        panels: vec![Panel { y_label, unit: String::new(), is_whole: true, lines }],
        marks: Vec::new(),
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

/// Fluctuations along the chains, a line for each chain.
fn fluctuations(table: &Table) -> Option<Figure> {
    let values = table.numbers("rmsf_angstrom")?;
    let chains = texts(table.column("chain")?)?;
    let residues = numbers(table.column("residue_number")?)?;
    let labels = texts(table.column("name")?)?;
    // By label, since the number leaves out the insertion code.
    let n_residues =
        1 + labels.windows(2).filter(|two| residue(&two[0]) != residue(&two[1])).count();
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
                let is_next =
                    points.last().is_some_and(|last| (0.0..=1.0).contains(&(point.0 - last.0)));
                if !is_next || chains[n - 1] != chains[n] {
                    points.push((f64::NAN, f64::NAN));
                }
                points.push(point);
            }
            None => lines.push((&chains[n], vec![point])),
        }
    }
    let is_alone = lines.len() == 1;
    let lines: Vec<Line> = lines
        .into_iter()
        .map(|(chain, points)| Line { name: (!is_alone).then(|| chain_name(chain)), points })
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
        x_label: if has_several { "atom number" } else { "residue number" }.to_owned(),
        x_unit: String::new(),
        x_is_whole: true,
        panels,
        marks: Vec::new(),
    })
}

fn chain_name(chain: &str) -> String {
    if chain.is_empty() { "no chain".to_owned() } else { format!("chain {chain}") }
}

fn fluctuation_panel(lines: &[Line]) -> Panel {
    Panel {
        y_label: "RMSF".to_owned(),
        unit: "Å".to_owned(),
        is_whole: false,
        lines: lines.to_vec(),
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
        "distance" | "contacts_by_frame" => both(table, "a", "b"),
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
    let atoms = if group.n_atoms == 1 { "atom" } else { "atoms" };
    format!("{} ({} {atoms})", group.label, group.n_atoms)
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
