//! What files contain: the numbers of the reader that keeps all of them, and what entries list.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use molbox_analysis::{Contents, Mask, MissingPlace, ResidueKind, Structure};

const FILES: [&str; 14] = [
    "clients/alanine.pdb",
    "crates/analysis/tests/data/helices.pdb",
    "crates/analysis/tests/data/mini.pdb",
    "crates/analysis/tests/data/mini_md.cif",
    "crates/analysis/tests/data/quirks.pdb",
    "crates/analysis/tests/data/xtal.pdb",
    "examples/1vii.pdb",
    "fuzz/seeds/mmcif/peptide.cif",
    "fuzz/seeds/pdb/models.pdb",
    "worker/tests/data/1as5.cif",
    "worker/tests/data/1ejg.pdb",
    "worker/tests/data/1fmo_loop.pdb",
    "worker/tests/data/4c64.pdb",
    "worker/tests/data/6flr_glycan.pdb",
];

fn text(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    String::from_utf8_lossy(&fs::read(root.join(file)).unwrap()).into_owned()
}

fn contents(file: &str, text: &str) -> Contents {
    let read = match file.ends_with(".cif") {
        true => Contents::of_mmcif(text),
        false => Contents::of_pdb(text.as_bytes()).unwrap(),
    };
    read.unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn as_many_are_counted_as_the_reader_of_structures_keeps() {
    for file in FILES {
        let text = text(file);
        let counted = contents(file, &text);
        let structure = match file.ends_with(".cif") {
            true => Structure::from_mmcif(&text),
            false => Structure::from_pdb(&text),
        };
        let Structure { topology, n_models, .. } = structure.unwrap();
        let found = (counted.n_atoms, counted.n_residues, counted.n_models);
        assert_eq!(found, (topology.n_atoms(), topology.n_residues(), n_models), "{file}");
        for chain in &counted.chains {
            let is_of =
                |residue: usize| topology.chain_id(topology.residue(residue).chain) == chain.id;
            let n_atoms = topology.atoms().filter(|atom| is_of(atom.residue)).count();
            let n_residues = (0..topology.n_residues()).filter(|residue| is_of(*residue)).count();
            let of_kinds = ResidueKind::ALL.map(|kind| chain.n_residues(kind));
            let counted = (chain.n_atoms, of_kinds.iter().sum::<usize>());
            assert_eq!(counted, (n_atoms, n_residues), "{file}: chain {}", chain.id);
        }
        let n_atoms: usize = counted.chains.iter().map(|chain| chain.n_atoms).sum();
        assert_eq!(n_atoms, counted.n_atoms, "{file}");
    }
}

#[test]
fn hydrogens_after_all_heavy_atoms_are_counted_with_their_residues() {
    let text = text("crates/analysis/tests/data/mini.pdb");
    let is_atom = |line: &&str| line.starts_with("ATOM") || line.starts_with("HETATM");
    let (hydrogens, heavy): (Vec<&str>, Vec<&str>) =
        text.lines().filter(is_atom).partition(|line| line.get(76..78) == Some(" H"));
    let lines = heavy.into_iter().chain(hydrogens);
    let apart: String = lines.flat_map(|line| [line, "\n"]).collect();
    let [mut sorted, found] = [&text, &apart].map(|text| contents("mini.pdb", text));
    sorted.n_models = found.n_models;
    assert_eq!(found, sorted);
}

/// A residue of a backbone in Å along x.
fn residue(name: &str, chain: char, number: i64, x: f64) -> String {
    let atoms = [("N", 0.0), ("CA", 1.4), ("C", 2.5)];
    let line = |(atom, dx): (&str, f64)| {
        format!(
            "ATOM      1  {atom:<3} {name} {chain}{number:4}    {:8.3}   0.000   0.000  1.00  0.00\n",
            x + dx
        )
    };
    atoms.map(line).concat()
}

#[test]
fn ions_without_columns_of_elements_are_what_they_are_called() {
    for (name, residue, symbol) in [
        (" NA ", "NA ", "Na"),
        (" CL ", "CL ", "Cl"),
        (" SOD", "SOD", "Na"),
        (" POT", "POT", "K"),
        ("POT ", "POT", "K"),
        (" CLA", "CLA", "Cl"),
        (" Na+", "Na+", "Na"),
        ("CA  ", "CA ", "Ca"),
        (" CA ", "ALA", "C"),
        (" CAL", "LIG", "C"),
    ] {
        let line =
            format!("HETATM    1 {name} {residue} A   1       1.000   2.000   3.000  1.00  0.00\n");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ion.pdb");
        fs::write(&path, line).unwrap();
        let structure = Structure::open(&path).unwrap();
        let element = Mask::parse(&format!("@/{symbol}")).unwrap();
        let found = element.select(&structure.topology, None).unwrap().atoms;
        assert!(found.contains(0), "{name:?} of {residue} is {symbol}");
    }
}

#[test]
fn residues_are_missing_where_the_file_lists_them_or_the_chain_is_broken() {
    let remarks = "REMARK 465   M RES C SSSEQI\nREMARK 465     MET A    -1\nREMARK 465     GLY A     0\n\
                   REMARK 465     SER A     3A\nREMARK 465     SER A     4\nREMARK 465     LYS A     9\n\
                   REMARK 465     LYS B     1\n";
    let sequence = "SEQRES   1 A   11  MET GLY ALA ALA SER SER ALA ALA ALA ALA LYS\n";
    let atoms = [(1, 0.0), (2, 3.8), (5, 15.0), (6, 18.8), (8, 30.0)];
    let atoms = atoms.map(|(number, x)| residue("ALA", 'A', number, x)).concat();
    let skipped = residue("ALA", 'C', 1, 0.0) + &residue("ALA", 'C', 7, 3.8);
    let file = format!("{remarks}{sequence}{atoms}TER\n{skipped}");
    let counted = contents("x.pdb", &file);
    let runs: Vec<_> = counted
        .missing
        .iter()
        .map(|run| {
            (run.chain.as_str(), run.first.as_str(), run.last.as_str(), run.count, run.place)
        })
        .collect();
    let expected = [
        ("A", "MET-1", "GLY0", 2, MissingPlace::Start),
        ("A", "SER3A", "SER4", 2, MissingPlace::Middle),
        ("A", "LYS9", "LYS9", 1, MissingPlace::End),
        ("B", "LYS1", "LYS1", 1, MissingPlace::Whole),
        // Not listed; and the numbers that chain C skips skip nothing.
        ("A", "7", "7", 1, MissingPlace::Middle),
    ];
    assert_eq!(runs, expected);
    assert_eq!(counted.n_missing(), 7);
    let chains: Vec<_> =
        counted.chains.iter().map(|c| (c.id.as_str(), c.n_missing, c.n_sequence)).collect();
    assert_eq!(chains, [("A", 6, Some(11)), ("C", 0, None), ("B", 1, None)]);
}

#[test]
fn an_mmcif_file_lists_what_is_missing_after_its_atoms() {
    let atom = |name: &str, number: i64, x: f64| {
        format!("ATOM C {name} ALA A 1 {number} {number} {x} 0 0 A 1\n")
    };
    let text = format!(
        "data_x\nloop_\n_atom_site.group_PDB\n_atom_site.type_symbol\n_atom_site.label_atom_id\n\
         _atom_site.label_comp_id\n_atom_site.label_asym_id\n_atom_site.label_entity_id\n\
         _atom_site.label_seq_id\n_atom_site.auth_seq_id\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n\
         _atom_site.Cartn_z\n_atom_site.auth_asym_id\n_atom_site.pdbx_PDB_model_num\n{}{}\
         loop_\n_pdbx_unobs_or_zero_occ_residues.polymer_flag\n\
         _pdbx_unobs_or_zero_occ_residues.occupancy_flag\n\
         _pdbx_unobs_or_zero_occ_residues.auth_asym_id\n\
         _pdbx_unobs_or_zero_occ_residues.auth_comp_id\n\
         _pdbx_unobs_or_zero_occ_residues.auth_seq_id\nY 1 A GLY 2\nY 1 A GLY 3\nY 0 A ALA 4\nN 1 A HOH 9\n\
         loop_\n_pdbx_poly_seq_scheme.asym_id\n_pdbx_poly_seq_scheme.seq_id\n\
         _pdbx_poly_seq_scheme.pdb_strand_id\nA 1 A\nA 2 A\nA 3 A\nA 4 A\nA 4 A\n",
        ["N", "CA", "C"].map(|name| atom(name, 1, 0.0)).concat(),
        ["N", "CA", "C"].map(|name| atom(name, 4, 9.0)).concat(),
    );
    let counted = contents("x.cif", &text);
    assert_eq!(counted.missing.len(), 1, "{:?}", counted.missing);
    assert_eq!((counted.missing[0].first.as_str(), counted.missing[0].count), ("GLY2", 2));
    assert_eq!(counted.chains[0].n_sequence, Some(4));
}

#[test]
fn heterogens_are_named_and_water_is_not() {
    let counted = contents("1ejg.pdb", &text("worker/tests/data/6flr_glycan.pdb"));
    assert!(counted.heterogens.iter().any(|found| found.name == "NAG"), "{:?}", counted.heterogens);
    assert!(counted.heterogens.iter().all(|found| found.kind != ResidueKind::Water));
}

#[test]
fn lists_end_while_counts_go_on() {
    let line = |n: usize| {
        format!(
            "HETATM{:5}  C   {:<4}A{:4}       0.000   0.000   0.000\n",
            n % 100_000,
            format!("X{n:X}"),
            n % 10_000
        )
    };
    let text: String = (0..Contents::MOST + 5).map(line).collect();
    let counted = contents("x.pdb", &text);
    assert_eq!((counted.n_atoms, counted.heterogens.len()), (Contents::MOST + 5, Contents::MOST));
    assert!(counted.is_cut);
}
