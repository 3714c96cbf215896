//! Chains and secondary structure along axes of residues.

use molbox_analysis::{AxisResidue, Column, Fold, ResidueAxis, Table, Values};
use molbox_plot::{Figure, Width};

fn texts(name: &str, values: Vec<String>) -> Column {
    column(name, Values::Texts(values))
}

fn integers(name: &str, values: Vec<i64>) -> Column {
    column(name, Values::Integers(values))
}

fn column(name: &str, values: Values) -> Column {
    Column { name: name.to_owned(), unit: None, definition: String::new(), values }
}

fn table(kind: &'static str, columns: Vec<Column>) -> Table {
    Table {
        analysis: 0,
        kind,
        name: kind.to_owned(),
        title: "Something: *".to_owned(),
        definition: String::new(),
        groups: Vec::new(),
        columns,
        pdb: None,
        residues: Vec::new(),
    }
}

/// Chain A of residues 11 to 16 without 14, chain B of 11 to 15, and an ion.
fn axis() -> ResidueAxis {
    use Fold::{Helix, Other, Strand};
    let residues = [
        ("A", 11, Other),
        ("A", 12, Helix),
        ("A", 13, Helix),
        ("A", 15, Helix),
        ("A", 16, Strand),
        ("B", 11, Other),
        ("B", 12, Strand),
        ("B", 13, Strand),
        ("B", 14, Strand),
        ("B", 15, Other),
        ("C", 1, Other),
    ];
    let residue = |(n, (chain, number, fold)): (usize, (&str, i64, Fold))| AxisResidue {
        number: n + 1,
        label: format!("{chain}:ALA{number}"),
        in_file: number.to_string(),
        chain: chain.to_owned(),
        fold,
    };
    ResidueAxis {
        residues: residues.into_iter().enumerate().map(residue).collect(),
        origin: "the first analysed frame",
    }
}

fn fluctuations(axis: &ResidueAxis) -> Table {
    let residues = &axis.residues[..10];
    let number = |label: &str| label[5..].parse().expect("labels end in a number");
    let columns = vec![
        integers("residue", residues.iter().map(|it| it.number as i64).collect()),
        texts("name", residues.iter().map(|it| it.label.clone()).collect()),
        texts("chain", residues.iter().map(|it| it.chain.clone()).collect()),
        integers("residue_number", residues.iter().map(|it| number(&it.label)).collect()),
        column("rmsf_angstrom", Values::Numbers(vec![1.0; residues.len()])),
    ];
    table("rmsf_by_residue", columns)
}

fn contacts() -> Table {
    let columns = vec![
        integers("residue_a_index", vec![1, 2]),
        integers("residue_b_index", vec![11, 7]),
        column("occupancy", Values::Numbers(vec![1.0, 0.5])),
    ];
    table("contacts", columns)
}

#[test]
fn molecules_without_chains_that_are_alike_have_a_row_each() {
    let mut axis = axis();
    axis.residues.iter_mut().for_each(|residue| {
        residue.label = format!(":{}", residue.label.split_once(':').expect("it has a chain").1);
        residue.chain.clear();
    });
    let numbers = [11, 12, 13, 15, 16, 11, 12, 13, 14, 15];
    let residues = &axis.residues[..10];
    let columns = vec![
        integers("residue", (1..=10).collect()),
        texts("name", residues.iter().map(|it| it.label.clone()).collect()),
        texts("chain", vec![String::new(); 10]),
        integers("residue_number", numbers.to_vec()),
        column("rmsf_angstrom", Values::Numbers(vec![1.0; 10])),
        integers("molecule", vec![1, 1, 1, 1, 1, 4, 4, 4, 4, 4]),
    ];
    let figure = Figure::along(&table("rmsf_by_residue", columns), &axis).expect("a figure");
    let names: Vec<_> = figure.tracks.iter().map(|track| track.spans[0].name.as_str()).collect();
    assert_eq!(names, ["1", "4"]);
    assert_eq!(figure.tracks[1].folds[0].range, (11.5, 14.5));
}

#[test]
fn each_chain_has_a_row_by_the_numbers_of_the_file() {
    let axis = axis();
    let figure = Figure::along(&fluctuations(&axis), &axis).unwrap();
    let rows: Vec<(&str, Vec<_>)> = figure
        .tracks
        .iter()
        .map(|row| {
            let folds = row.folds.iter().map(|it| (it.fold, it.range.0, it.range.1));
            (row.spans[0].name.as_str(), folds.collect())
        })
        .collect();
    let (helix, strand) = (Fold::Helix, Fold::Strand);
    let expected = [
        // The helix is broken where a residue is missing.
        ("A", vec![(helix, 11.5, 13.5), (helix, 14.5, 15.5), (strand, 15.5, 16.5)]),
        ("B", vec![(strand, 11.5, 14.5)]),
    ];
    assert_eq!(rows, expected);
    let svg = figure.svg();
    for text in ["helix", "strand", "in the first analysed frame"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn residues_that_insertion_codes_tell_apart_have_places_of_their_own() {
    let labels = ["A:SER52", "A:PRO52A", "A:TYR53"];
    let columns = vec![
        integers("residue", (1..=3).collect()),
        texts("name", labels.map(str::to_owned).to_vec()),
        texts("chain", vec!["A".to_owned(); 3]),
        integers("residue_number", vec![52, 52, 53]),
        column("rmsf_angstrom", Values::Numbers(vec![1.0, 2.0, 3.0])),
    ];
    let residue = |(n, label): (usize, &str)| AxisResidue {
        number: n + 1,
        label: label.to_owned(),
        in_file: label[5..].to_owned(),
        chain: "A".to_owned(),
        fold: Fold::Helix,
    };
    let axis = ResidueAxis {
        residues: labels.into_iter().enumerate().map(residue).collect(),
        origin: "the first analysed frame",
    };
    let figure = Figure::along(&table("rmsf_by_residue", columns), &axis).unwrap();
    assert_eq!(figure.panels[0].lines[0].points, [(52.0, 1.0), (53.0, 2.0), (54.0, 3.0)]);
    assert_eq!(figure.tracks[0].folds[0].range, (51.5, 54.5));
    assert!(figure.svg().contains(">52A<"));
}

#[test]
fn places_through_the_system_are_called_as_the_file_does_with_their_chains() {
    let axis = axis();
    let map = Figure::along(&contacts(), &axis).unwrap();
    let svg = map.svg();
    for name in [">A:12<", ">B:14<"] {
        // Beside both sides.
        assert_eq!(svg.matches(name).count(), 2, "{name}: {svg}");
    }
    let of_one = ResidueAxis { residues: axis.residues[..5].to_vec(), ..axis };
    let areas = vec![
        integers("residue", (1..=5).collect()),
        texts("name", of_one.residues.iter().map(|it| it.label.clone()).collect()),
        column("area_angstrom2", Values::Numbers(vec![1.0; 5])),
    ];
    let svg = Figure::along(&table("surface_area", areas), &of_one).unwrap().svg();
    assert!(svg.contains(">15<") && !svg.contains(">A:15<"), "{svg}");
}

#[test]
fn a_copy_of_a_chain_has_its_own_folds_where_labels_are_those_of_the_first() {
    let copies = [(1, Fold::Helix), (1, Fold::Strand)];
    let residues = copies.iter().flat_map(|(first, fold)| (0..4).map(move |n| (first + n, *fold)));
    let residue = |(n, (number, fold)): (usize, (i64, Fold))| AxisResidue {
        number: n + 1,
        label: format!(":ALA{number}"),
        in_file: number.to_string(),
        chain: String::new(),
        fold,
    };
    let axis = ResidueAxis {
        residues: residues.enumerate().map(residue).collect(),
        origin: "the first analysed frame",
    };
    let second = &axis.residues[4..];
    let labels = || second.iter().map(|it| it.label.clone()).collect();
    let columns = vec![
        integers("residue", second.iter().map(|it| it.number as i64).collect()),
        texts("name", labels()),
        texts("chain", vec![String::new(); 4]),
        integers("residue_number", (1..=4).collect()),
        column("rmsf_angstrom", Values::Numbers(vec![1.0; 4])),
    ];
    let figure = Figure::along(&table("rmsf_by_residue", columns), &axis).unwrap();
    let folds: Vec<Fold> =
        figure.tracks.iter().flat_map(|track| track.folds.iter().map(|it| it.fold)).collect();
    assert_eq!(folds, [Fold::Strand]);
    // Atoms have labels alone, which do not tell the copies apart.
    let atoms = vec![
        integers("atom", (1..=4).collect()),
        texts("name", second.iter().map(|it| format!("{}@CA", it.label)).collect()),
        texts("chain", vec![String::new(); 4]),
        integers("residue_number", (1..=4).collect()),
        column("rmsf_angstrom", Values::Numbers(vec![1.0; 4])),
    ];
    let figure = Figure::along(&table("rmsf", atoms), &axis).unwrap();
    assert!(figure.tracks.is_empty(), "{:?}", figure.tracks);
}

#[test]
fn a_map_has_all_chains_along_both_sides_and_lines_between_them() {
    let axis = axis();
    let figure = Figure::along(&contacts(), &axis).unwrap();
    let [track] = figure.tracks.as_slice() else { panic!("{:?}", figure.tracks) };
    let spans: Vec<_> = track.spans.iter().map(|it| (it.name.as_str(), it.range)).collect();
    // The ion is no chain.
    assert_eq!(spans, [("A", (0.5, 5.5)), ("B", (5.5, 10.5))]);
    let polygons = |figure: &Figure| figure.svg().matches("<polygon").count();
    // Three stretches along two sides, and two in the legend.
    assert_eq!(polygons(&figure), 8);
    assert!(!figure.pdf().is_empty());
    let narrow = Figure { width: Width::Single, ..figure };
    assert_eq!(polygons(&narrow), 8);
    assert!(narrow.svg().contains(">A</text>"));
}

#[test]
fn a_map_of_states_has_chains_beside_it_and_lines_between_them() {
    let states =
        ["alpha_helix", "beta_bridge", "strand", "helix_310", "pi_helix", "turn", "bend", "coil"];
    let mut columns = vec![integers("frame", vec![0, 1])];
    columns.extend(states.map(|state| integers(state, vec![1, 1])));
    columns.push(texts("codes", vec!["-HHHEEEE".to_owned(); 2]));
    let table = table("secondary_structure_by_frame", columns);
    let table = Table { residues: vec![2, 3, 4, 5, 7, 8, 9, 10], ..table };
    let figure = Figure::along(&table, &axis()).unwrap();
    assert!(figure.tracks.is_empty());
    let spans = &figure.states.as_ref().unwrap().track.spans;
    let spans: Vec<_> = spans.iter().map(|it| (it.name.as_str(), it.range)).collect();
    assert_eq!(spans, [("A", (1.5, 5.5)), ("B", (6.5, 10.5))]);
    let svg = figure.svg();
    assert!(svg.contains(">A</text>") && svg.contains(">B</text>"));
    let of_one = ResidueAxis { residues: axis().residues[..5].to_vec(), ..axis() };
    let svg = Figure::along(&table, &of_one).unwrap().svg();
    assert!(!svg.contains(">A</text>"), "one chain is what the axis is");
}

#[test]
fn what_is_no_protein_has_chains_alone() {
    let mut axis = axis();
    axis.residues.iter_mut().for_each(|residue| residue.fold = Fold::Other);
    let fluctuations = Figure::along(&fluctuations(&axis), &axis).unwrap();
    assert!(fluctuations.tracks.is_empty() && !fluctuations.svg().contains("analysed frame"));
    let map = Figure::along(&contacts(), &axis).unwrap();
    assert!(map.svg().contains(">A</text>") && !map.svg().contains("<polygon"));
    axis.residues.iter_mut().for_each(|residue| residue.chain = String::new());
    assert!(Figure::along(&contacts(), &axis).unwrap().tracks.is_empty());
}

#[test]
fn other_figures_have_none() {
    let columns = vec![
        integers("frame", vec![0, 1]),
        column("rmsd_angstrom", Values::Numbers(vec![0.0, 1.0])),
    ];
    let figure = Figure::along(&table("distance", columns), &axis()).unwrap();
    assert!(figure.tracks.is_empty());
}
