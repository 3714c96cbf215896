//! Figures of the tables of an analysis.

use molbox_analysis::{Column, Table, TableGroup, Values};
use molbox_plot::{Figure, Width};

fn table(kind: &'static str, groups: &[(&'static str, &str)], columns: Vec<Column>) -> Table {
    let group = |(role, label): &(&'static str, &str)| TableGroup {
        role,
        label: (*label).to_owned(),
        n_atoms: 3,
        ..TableGroup::default()
    };
    Table {
        analysis: 0,
        kind,
        name: kind.to_owned(),
        title: "What it is: masks".to_owned(),
        definition: String::new(),
        groups: groups.iter().map(group).collect(),
        columns,
        pdb: None,
        residues: Vec::new(),
    }
}

fn column(name: &str, unit: Option<&'static str>, values: Values) -> Column {
    Column { name: name.to_owned(), unit, definition: name.replace('_', " "), values }
}

fn texts(values: &[&str]) -> Values {
    Values::Texts(values.iter().map(|value| (*value).to_owned()).collect())
}

fn rmsf(kind: &'static str, rows: &[(&str, &str, i64, f64)]) -> Table {
    let numbers = (1..=rows.len() as i64).collect();
    let columns = vec![
        column("atom", None, Values::Integers(numbers)),
        column("name", None, texts(&rows.iter().map(|row| row.0).collect::<Vec<_>>())),
        column("chain", None, texts(&rows.iter().map(|row| row.1).collect::<Vec<_>>())),
        column("residue_number", None, Values::Integers(rows.iter().map(|row| row.2).collect())),
        column("rmsf_angstrom", Some("Å"), Values::Numbers(rows.iter().map(|row| row.3).collect())),
    ];
    table(kind, &[("group", "@CA")], columns)
}

#[test]
fn the_legend_of_an_rmsd_names_its_masks() {
    let columns = vec![
        column("frame", None, Values::Integers(vec![0, 1, 2])),
        column("time_ps", Some("ps"), Values::Numbers(vec![0.0, 500.0, 1000.0])),
        column("rmsd_1_angstrom", Some("Å"), Values::Numbers(vec![0.0, 1.0, 2.0])),
        column("rmsd_2_angstrom", Some("Å"), Values::Numbers(vec![0.0, 2.0, 3.0])),
    ];
    let groups = [("fit", ":1-30@CA"), ("measure", "@CA"), ("measure", ":LIG")];
    let figure = Figure::of(&table("rmsd", &groups, columns)).unwrap();
    let names: Vec<_> = figure.panels[0].lines.iter().map(|line| line.name.as_deref()).collect();
    assert_eq!(names, [Some("@CA"), Some(":LIG")]);
    assert!(figure.subtitle.contains(":1-30@CA"), "{}", figure.subtitle);
    assert_eq!((figure.x_unit.as_str(), figure.panels[0].lines[0].points[1].0), ("ns", 0.5));
}

#[test]
fn one_atom_per_residue_is_drawn_over_residue_numbers_by_chain() {
    let rows = [
        ("A:SER17@CA", "A", 17, 1.0),
        ("A:GLY18@CA", "A", 18, 1.1),
        ("A:GLY18A@CA", "A", 18, 1.2),
        ("A:ALA25@CA", "A", 25, 1.3),
        ("B:ALA25@CA", "B", 25, 2.0),
        ("B:SER26@CA", "B", 26, 2.1),
    ];
    let figure = Figure::of(&rmsf("rmsf", &rows)).unwrap();
    assert_eq!((figure.x_label.as_str(), figure.x_is_whole), ("residue number", true));
    let lines = &figure.panels[0].lines;
    let names: Vec<_> = lines.iter().map(|line| line.name.as_deref()).collect();
    assert_eq!(names, [Some("chain A"), Some("chain B")]);
    // 18A has a place of its own, so that all after it are one farther, in both chains.
    assert_eq!(lines[1].points, [(26.0, 2.0), (27.0, 2.1)]);
    assert_eq!(lines[0].points[..3], [(17.0, 1.0), (18.0, 1.1), (19.0, 1.2)]);
    let names = figure.x_names.iter().map(|(at, name)| (*at, name.as_str()));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [(17, "17"), (18, "18"), (19, "18A"), (26, "25"), (27, "26")]
    );
    assert!(lines[0].points[3].1.is_nan(), "residues 19 to 24 are missing: {:?}", lines[0].points);
}

#[test]
fn molecules_without_chains_that_are_alike_have_a_line_each() {
    let labels = ["ALA1@CA", "GLY2@CA", "ALA1@CA", "GLY2@CA", "NA3@NA", "NA4@NA"];
    let numbers = [1, 2, 1, 2, 3, 4];
    let rows = labels.iter().zip(numbers).zip([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rows: Vec<_> = rows.map(|((label, number), rmsf)| (*label, "", number, rmsf)).collect();
    let alike = rmsf("rmsf", &rows);
    assert_eq!(Figure::of(&alike).unwrap().panels[0].lines.len(), 1, "nothing tells them apart");
    let molecule = column("molecule", None, Values::Integers(vec![1, 1, 2, 2, 3, 4]));
    let columns = alike.columns.iter().cloned().chain([molecule]).collect();
    let figure = Figure::of(&Table { columns, ..alike }).unwrap();
    let lines = &figure.panels[0].lines;
    let names: Vec<_> = lines.iter().map(|line| line.name.as_deref()).collect();
    assert_eq!(names, [Some("molecule 1"), Some("molecule 2"), Some("no chain")]);
    assert_eq!(lines[1].points, [(1.0, 3.0), (2.0, 4.0)]);
    assert_eq!(lines[2].points, [(3.0, 5.0), (4.0, 6.0)], "ions are molecules of a residue each");
}

#[test]
fn several_atoms_of_each_residue_are_left_to_the_table_by_residue() {
    let of_atoms: Vec<(String, i64)> =
        (1..=4).flat_map(|n| ["N", "CA"].map(|atom| (format!("A:ALA{n}@{atom}"), n))).collect();
    let rows: Vec<_> = of_atoms.iter().map(|(label, n)| (label.as_str(), "A", *n, 1.0)).collect();
    assert!(Figure::of(&rmsf("rmsf", &rows)).is_none());
    let few = Figure::of(&rmsf("rmsf", &rows[..2])).unwrap();
    assert_eq!(few.x_label, "atom number");
    assert!(Figure::of(&rmsf("rmsf_by_residue", &rows[..4])).is_some());
}

#[test]
fn errors_by_blocks_have_bars_of_their_own_error() {
    let columns = vec![
        column("table", None, texts(&["rmsd", "rmsd"])),
        column("column", None, texts(&["rmsd_angstrom", "rmsd_angstrom"])),
        column("measured", None, texts(&["RMSD of @CA", "RMSD of @CA"])),
        column("unit", None, texts(&["Å", "Å"])),
        column("block_frames", None, Values::Integers(vec![1, 2])),
        column("standard_error", None, Values::Numbers(vec![0.5, 1.0])),
        column("error_of_error", None, Values::Numbers(vec![0.25, 0.5])),
    ];
    let figure = Figure::of(&table("block_averages", &[], columns)).unwrap();
    let points = &figure.panels[0].lines[0].points;
    assert_eq!(points[..2], [(1.0, 0.5), (2.0, 1.0)]);
    assert!(points[2].1.is_nan() && points[5].1.is_nan(), "{points:?}");
    assert_eq!(points[3..5], [(1.0, 0.25), (1.0, 0.75)]);
    assert_eq!(points[6..], [(2.0, 0.5), (2.0, 1.5)]);
    assert!(figure.subtitle.contains("bars: its own error"));
}

#[test]
fn what_block_averages_say_fits_on_one_column() {
    let n_lines = 22;
    let names: Vec<String> = (0..n_lines).map(|n| format!("rmsd_{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let columns = vec![
        column("table", None, texts(&names)),
        column("column", None, texts(&vec!["rmsd_angstrom"; n_lines])),
        column("measured", None, texts(&vec!["RMSD of @CA"; n_lines])),
        column("unit", None, texts(&vec!["Å"; n_lines])),
        column("block_frames", None, Values::Integers(vec![1; n_lines])),
        column("standard_error", None, Values::Numbers(vec![0.5; n_lines])),
        column("error_of_error", None, Values::Numbers(vec![0.25; n_lines])),
    ];
    let figure = Figure::of(&table("block_averages", &[], columns)).unwrap();
    assert!(figure.subtitle.ends_with("of 22 lines"));
    assert!(!Figure { width: Width::Single, ..figure }.svg().contains('…'));
}

#[test]
fn counts_have_axes_of_whole_numbers() {
    let columns = vec![
        column("frame", None, Values::Integers(vec![0, 1, 2])),
        column("bonds", None, Values::Integers(vec![3, 4, 3])),
    ];
    let groups = [("a", "@N"), ("b", "@O")];
    let figure = Figure::of(&table("hydrogen_bonds_by_frame", &groups, columns)).unwrap();
    assert!(figure.panels[0].is_whole && figure.x_is_whole);
}

#[test]
fn deviations_of_all_pairs_are_a_map() {
    let columns = vec![
        column("frame_a", None, Values::Integers(vec![0, 0, 2])),
        column("frame_b", None, Values::Integers(vec![2, 4, 4])),
        column("rmsd_angstrom", Some("Å"), Values::Numbers(vec![1.0, 3.0, 2.0])),
    ];
    let figure = Figure::of(&table("pairwise_rmsd", &[("group", "@CA")], columns)).unwrap();
    let map = figure.map.as_ref().unwrap();
    assert_eq!(map.values, [0.0, 1.0, 3.0, 1.0, 0.0, 2.0, 3.0, 2.0, 0.0]);
    assert_eq!((map.x, map.n_columns), ((-1.0, 5.0), 3));
    let svg = figure.svg();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let colours = |at: usize| {
        let grids = document.descendants().filter(|node| node.attribute("viewBox").is_some());
        grids.skip(1).nth(at).unwrap().children().filter(|node| node.has_tag_name("path")).count()
    };
    // Four values, and beside the map the whole scale.
    assert_eq!((colours(0), colours(1)), (4, 48));
}

#[test]
fn each_angle_over_time_has_its_name() {
    let angle = |name| column(name, Some("°"), Values::Numbers(vec![179.0, -179.0]));
    let frames = column("frame", None, Values::Integers(vec![0, 1]));
    for names in [&["phi_2_deg"][..], &["phi_2_deg", "psi_2_deg", "chi1_2_deg"]] {
        let columns = [frames.clone()].into_iter().chain(names.iter().map(|name| angle(name)));
        let table = table("dihedrals_by_frame", &[("group", ":2")], columns.collect());
        let figure = Figure::of(&table).unwrap();
        let lines = figure.panels.iter().flat_map(|panel| &panel.lines);
        let shown: Vec<_> = lines.map(|line| line.name.clone().unwrap()).collect();
        let expected: Vec<_> = names.iter().map(|name| name.replace('_', " ")).collect();
        assert_eq!((shown, figure.panels.len()), (expected, 1));
        assert_eq!(figure.panels[0].y_label, "angle");
    }
}

#[test]
fn angles_that_turn_around_are_dots() {
    let columns = vec![
        column("frame", None, Values::Integers(vec![0, 1])),
        column("phi_2_deg", Some("°"), Values::Numbers(vec![179.0, -179.0])),
    ];
    let figure = Figure::of(&table("dihedrals_by_frame", &[("group", "@CA")], columns)).unwrap();
    let points = &figure.panels[0].lines[0].points;
    assert!(points[1].1.is_nan() && points[2] == (1.0, -179.0), "{points:?}");
}

#[test]
fn bins_without_a_count_have_no_colour() {
    let columns = vec![
        column("phi_deg", Some("°"), Values::Numbers(vec![-177.5, 177.5])),
        column("psi_deg", Some("°"), Values::Numbers(vec![-177.5, -172.5])),
        column("count", None, Values::Integers(vec![3, 1])),
        column("fraction", None, Values::Numbers(vec![0.75, 0.25])),
    ];
    let figure = Figure::of(&table("ramachandran", &[("group", "*")], columns)).unwrap();
    let values = figure.map.unwrap().values;
    assert_eq!((values[0], values[72 + 71]), (75.0, 25.0));
    assert_eq!(values.iter().filter(|value| value.is_finite()).count(), 2);
}

#[test]
fn a_table_without_rows_has_no_figure() {
    assert!(Figure::of(&rmsf("rmsf", &[])).is_none());
}

#[test]
fn states_of_secondary_structure_are_drawn_in_classes() {
    let names =
        ["alpha_helix", "beta_bridge", "strand", "helix_310", "pi_helix", "turn", "bend", "coil"];
    let mut columns = vec![column("frame", None, Values::Integers(vec![0, 1]))];
    for (n, name) in names.into_iter().enumerate() {
        columns.push(column(name, None, Values::Integers(vec![n as i64, 1])));
    }
    let figure =
        Figure::of(&table("secondary_structure_by_frame", &[("group", "@CA")], columns)).unwrap();
    assert_eq!(figure.panels.len(), 1);
    let lines = figure.panels[0].lines.iter();
    let lines: Vec<_> =
        lines.map(|line| (line.name.as_deref().unwrap(), line.points[0].1)).collect();
    let expected = [
        ("helix (H, G, I)", 7.0),
        ("strand (E, B)", 3.0),
        ("turn or bend (T, S)", 11.0),
        ("coil (-)", 7.0),
    ];
    assert_eq!(lines, expected);
}

/// The states of residues in frames at some times, one letter for each residue.
fn states_of(times_ps: Vec<f64>, codes: &[&str], residues: Vec<i64>) -> Table {
    let names =
        ["alpha_helix", "beta_bridge", "strand", "helix_310", "pi_helix", "turn", "bend", "coil"];
    let n_frames = times_ps.len();
    let mut columns = vec![column("time_ps", Some("ps"), Values::Numbers(times_ps))];
    columns.extend(names.map(|name| column(name, None, Values::Integers(vec![1; n_frames]))));
    columns.push(column("codes", None, texts(codes)));
    let table = table("secondary_structure_by_frame", &[("group", "@CA")], columns);
    Table { residues, ..table }
}

#[test]
fn the_states_of_residues_over_time_are_a_map_above_their_counts() {
    let table = states_of(vec![0.0, 10.0, 30.0], &["HHE", "G-B", "TS-"], vec![1, 2, 4]);
    let figure = Figure::of(&table).unwrap();
    let states = figure.states.as_ref().unwrap();
    assert_eq!((states.x, states.y), ((-5.0, 35.0), (0.5, 4.5)));
    let [helix, strand, turn, coil] = [0, 1, 2, 3].map(Some);
    let rows = [
        [helix, helix, None, turn],
        [helix, coil, None, turn],
        [None; 4],
        [strand, strand, None, coil],
    ];
    assert_eq!((states.n_columns, &states.values[..]), (4, rows.as_flattened()));
    let svg = figure.svg();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let filled = document.descendants().filter(|node| node.has_tag_name("path"));
    let filled: Vec<_> = filled.filter_map(|node| node.attribute("fill")).collect();
    let lines = document.descendants().filter(|node| node.has_tag_name("polyline"));
    let lines: Vec<_> = lines.filter_map(|node| node.attribute("stroke")).collect();
    assert_eq!(filled, lines, "one legend serves both");
}

#[test]
fn a_cell_of_many_frames_has_the_state_that_is_most_frequent() {
    let times = (0..720).map(f64::from).collect();
    let codes: Vec<&str> = (0..720).map(|frame| if frame < 3 { "HT" } else { "-T" }).collect();
    let figure = Figure::of(&states_of(times, &codes, vec![7, 8])).unwrap();
    let states = figure.states.unwrap();
    assert_eq!((states.n_columns, states.values.len()), (360, 720));
    assert_eq!(states.values[..3], [Some(0), Some(0), Some(3)], "of equals the first");
    assert!(states.values[360..].iter().all(|state| *state == Some(2)));
}

#[test]
fn frames_at_unequal_steps_have_counts_alone() {
    let times =
        [vec![0.0, 10.0, 14.0, 30.0], vec![0.0, 10.0, 10.0, 20.0], vec![3.0, 2.0, 1.0, 0.0]];
    for times in times {
        let figure = Figure::of(&states_of(times, &["H"; 4], vec![1])).unwrap();
        assert!(figure.states.is_none() && figure.panels.len() == 1);
    }
    let alone = Figure::of(&states_of(vec![5.0], &["H"], vec![1])).unwrap();
    assert_eq!(alone.states.unwrap().x, (4.5, 5.5));
}

#[test]
fn what_is_measured_of_residues_is_drawn_along_them_and_parts_chains() {
    let labels = ["A:ALA1", "A:ALA2", "B:ALA1", "B:ALA4"];
    let mut columns = vec![
        column("residue", None, Values::Integers(vec![1, 2, 3, 6])),
        column("name", None, texts(&labels)),
    ];
    let states =
        ["alpha_helix", "beta_bridge", "strand", "helix_310", "pi_helix", "turn", "bend", "coil"];
    for (n, name) in states.into_iter().enumerate() {
        columns.push(column(name, None, Values::Numbers(vec![0.01 * n as f64, 0.1, 0.2, 0.3])));
    }
    let area = column("area_angstrom2", Some("Å²"), Values::Numbers(vec![1.0, 2.0, 3.0, 4.0]));
    let surface = [columns[0].clone(), columns[1].clone(), area];
    let of = |kind, columns| Figure::of(&table(kind, &[("group", "@CA")], columns)).unwrap();
    let surface = of("surface_area", surface.to_vec());
    assert_eq!((surface.x_label.as_str(), surface.panels[0].unit.as_str()), ("residue", "Å²"));
    let points = &surface.panels[0].lines[0].points;
    let drawn: Vec<Option<f64>> =
        points.iter().map(|(x, _)| Some(*x).filter(|x| !x.is_nan())).collect();
    assert_eq!(drawn, [Some(1.0), Some(2.0), None, Some(3.0), None, Some(6.0)]);
    let parts = of("secondary_structure", columns);
    let first: Vec<_> = parts.panels[0]
        .lines
        .iter()
        .map(|line| (line.name.as_deref().unwrap(), (100.0 * line.points[0].1).round()))
        .collect();
    assert_eq!(first, [("helix (H, G, I)", 7.0), ("strand (E, B)", 3.0)]);
}

#[test]
fn order_parameters_are_drawn_along_the_chains_that_names_tell() {
    let tail = |chain: &str| (2..=10).map(|n| format!("{chain}{n}")).collect::<Vec<_>>();
    let order = |carbons: Vec<String>| {
        let n = carbons.len();
        let columns = vec![
            column("residue", None, texts(&vec!["POPC"; n])),
            column("carbon", None, Values::Texts(carbons)),
            column("order_parameter", None, Values::Numbers((0..n).map(|k| -(k as f64)).collect())),
        ];
        Figure::of(&table("lipid_order", &[("lipids", ":POPC")], columns)).unwrap()
    };
    let head = ["C12", "C11", "C1"].map(str::to_owned).to_vec();
    let figure = order([head.clone(), tail("C3"), tail("C2")].concat());
    assert_eq!(figure.x_label, "carbon n of the chain");
    let lines = &figure.panels[0].lines;
    let ends: Vec<_> = lines
        .iter()
        .map(|line| (line.name.as_deref().unwrap(), line.points[0], line.points[8].0))
        .collect();
    assert_eq!(ends, [("POPC, C3n", (2.0, 3.0), 10.0), ("POPC, C2n", (2.0, 12.0), 10.0)]);
    let figure = order(head);
    assert_eq!(figure.x_label, "carbon with hydrogen, in the order of the table");
    assert_eq!(figure.panels[0].lines[0].points.len(), 3);
}

fn areas(residues: Vec<i64>) -> Table {
    let names: Vec<&str> = residues.iter().map(|_| "A:ALA1").collect();
    let areas = residues.iter().map(|residue| 100.0 + *residue as f64).collect();
    let columns = vec![
        column("name", None, texts(&names)),
        column("residue", None, Values::Integers(residues)),
        column("area_angstrom2", Some("Å²"), Values::Numbers(areas)),
    ];
    table("surface_area", &[("group", "!:HOH")], columns)
}

#[test]
fn ions_behind_all_water_do_not_stretch_an_axis_of_residues() {
    let figure = Figure::of(&areas((1..=24).chain(973..=980).collect())).unwrap();
    let points = &figure.panels[0].lines[0].points;
    let drawn = points.iter().filter(|(residue, _)| residue.is_finite());
    assert_eq!(drawn.map(|(residue, _)| *residue).fold(0.0, f64::max), 24.0);
    assert!(
        figure.subtitle.ends_with("; 8 residues far off are in the table alone"),
        "{}",
        figure.subtitle
    );
    let both_halves = Figure::of(&areas((1..=10).chain(900..=909).collect())).unwrap();
    let last = both_halves.panels[0].lines[0].points.last().unwrap().0;
    assert_eq!(last, 909.0, "{}", both_halves.subtitle);
    assert!(!both_halves.subtitle.contains("alone"), "{}", both_halves.subtitle);
}

fn contacts_of(pairs: &[(i64, i64)]) -> Table {
    let of = |side: fn(&(i64, i64)) -> i64| Values::Integers(pairs.iter().map(side).collect());
    let columns = vec![
        column("residue_a_index", None, of(|pair| pair.0)),
        column("residue_b_index", None, of(|pair| pair.1)),
        column("occupancy", None, Values::Numbers(vec![0.5; pairs.len()])),
    ];
    table("contacts", &[("a", "!:HOH"), ("b", "!:HOH")], columns)
}

#[test]
fn a_map_leaves_ions_far_off_to_the_table_unless_it_is_about_them() {
    let mut pairs: Vec<(i64, i64)> = (1..20).map(|residue| (residue, residue + 1)).collect();
    pairs.push((3, 973));
    let figure = Figure::of(&contacts_of(&pairs)).unwrap();
    let map = figure.map.unwrap();
    assert_eq!((map.x, map.n_columns), ((0.5, 20.5), 20));
    assert!(
        figure.subtitle.ends_with("; a residue far off is in the table alone"),
        "{}",
        figure.subtitle
    );
    let to_ligand: Vec<(i64, i64)> = (1..20).map(|residue| (residue, 500)).collect();
    let figure = Figure::of(&contacts_of(&to_ligand)).unwrap();
    assert_eq!(figure.map.unwrap().x, (0.5, 500.5), "{}", figure.subtitle);
}
