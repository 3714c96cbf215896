//! A structure as mmCIF text, a part at a time.
//!
//! `label_seq_id` is the number of a residue in the topology and `_atom_site.id` that of an atom,
//! both from 1: masks count so, and the numbers stay what they are when only some atoms are
//! written. The author's numbers stand in `auth_seq_id`. What a reader does not know from the names
//! of residues and atoms is given: bonds within residues that are not standard in
//! `_chem_comp_bond`, bonds between residues but those of chains in `_struct_conn`.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::ops::Range;

use crate::read::Family;
use crate::{Atom, AtomSet, Cell, Residue, Topology};

const IN_MEMORY: &str = "a string takes what is written to it";

/// Writes atoms of a structure.
#[derive(Debug)]
pub struct MmcifWriter<'a> {
    topology: &'a Topology,
    /// In Å.
    positions: &'a [[f64; 3]],
    atoms: &'a AtomSet,
    /// Names of the chains, of which no two are the same.
    chains: Vec<String>,
}

impl<'a> MmcifWriter<'a> {
    /// Writes these atoms of a structure, whose positions are in Å.
    ///
    /// # Panics
    ///
    /// If the topology has not as many atoms as there are positions and as the set is of.
    pub fn new(topology: &'a Topology, positions: &'a [[f64; 3]], atoms: &'a AtomSet) -> Self {
        assert_eq!(topology.n_atoms(), positions.len(), "positions of the topology's atoms");
        assert_eq!(topology.n_atoms(), atoms.n_atoms(), "a set of the topology's atoms");
        Self { topology, positions, atoms, chains: chain_names(topology) }
    }

    /// What comes before the atoms: the name of the block, the cell, the bonds, and the names of
    /// the columns of the atoms.
    pub fn head(&self, name: &str, cell: Option<&Cell>) -> String {
        let mut text = format!("data_{name}\n#\n_entry.id {}\n#\n", word(name));
        if let Some(cell) = cell {
            let sides = ["length_a", "length_b", "length_c"].into_iter().zip(cell.lengths());
            let angles = ["angle_alpha", "angle_beta", "angle_gamma"].into_iter();
            for (name, value) in sides.chain(angles.zip(cell.angles_deg())) {
                writeln!(text, "_cell.{name} {value:.4}").expect(IN_MEMORY);
            }
            // Many readers take no cell without it.
            text.push_str("#\n_symmetry.Int_Tables_number 1\n");
            text.push_str("_symmetry.space_group_name_H-M 'P 1'\n#\n");
        }
        self.component_bonds(&mut text);
        self.connections(&mut text);
        text.push_str("loop_\n");
        for column in [
            "group_PDB",
            "id",
            "type_symbol",
            "label_atom_id",
            "label_alt_id",
            "label_comp_id",
            "label_asym_id",
            "label_entity_id",
            "label_seq_id",
            "pdbx_PDB_ins_code",
            "Cartn_x",
            "Cartn_y",
            "Cartn_z",
            "occupancy",
            "B_iso_or_equiv",
            "auth_seq_id",
            "auth_asym_id",
            "pdbx_PDB_model_num",
        ] {
            writeln!(text, "_atom_site.{column}").expect(IN_MEMORY);
        }
        text
    }

    /// The rows of those atoms of a range that are written.
    ///
    /// # Panics
    ///
    /// If it reaches beyond the last atom.
    pub fn rows(&self, atoms: Range<usize>) -> String {
        let mut text = String::new();
        for idx in atoms.filter(|atom| self.atoms.contains(*atom)) {
            let Atom { name, element, residue: at, .. } = self.topology.atom(idx);
            let residue = self.topology.residue(at);
            let group = if Family::of(residue.name) == Family::Other { "HETATM" } else { "ATOM" };
            // X stands for what is no element, as a virtual site.
            let symbol = element.map_or("X", |element| element.symbol());
            let [x, y, z] = self.positions[idx];
            let chain = word(&self.chains[residue.chain]);
            let author = self.topology.chain_id(residue.chain).trim();
            let author = if author.is_empty() { chain.clone() } else { word(author) };
            writeln!(
                text,
                "{group} {} {symbol} {} . {} {chain} ? {} {} {x:.4} {y:.4} {z:.4} 1.00 0.00 {} \
                 {author} 1",
                idx + 1,
                word(name),
                word(residue.name),
                at + 1,
                insertion_code(&residue),
                residue.number,
            )
            .expect(IN_MEMORY);
        }
        text
    }

    /// Bonds within residues that are not standard, once for each name of a residue and of atoms.
    fn component_bonds(&self, text: &mut String) {
        let topology = self.topology;
        let mut rows = BTreeSet::new();
        for [a, b] in self.bonds() {
            let residue = topology.atom(a).residue;
            let name = topology.residue(residue).name;
            if residue == topology.atom(b).residue
                && Family::of(name) == Family::Other
                && !topology.is_water(residue)
            {
                rows.insert([name, topology.atom(a).name, topology.atom(b).name]);
            }
        }
        if !rows.is_empty() {
            text.push_str("loop_\n");
            for column in ["comp_id", "atom_id_1", "atom_id_2", "value_order"] {
                writeln!(text, "_chem_comp_bond.{column}").expect(IN_MEMORY);
            }
            for row in rows {
                // Force fields know no orders.
                writeln!(text, "{} ?", row.map(word).join(" ")).expect(IN_MEMORY);
            }
            text.push_str("#\n");
        }
    }

    /// Bonds between residues, but for those along a chain.
    fn connections(&self, text: &mut String) {
        let is_connection = |&[a, b]: &[usize; 2]| {
            let (first, second) = (self.topology.atom(a).residue, self.topology.atom(b).residue);
            first != second && !self.is_link(a, b)
        };
        let bonds: Vec<[usize; 2]> = self.bonds().filter(is_connection).collect();
        if bonds.is_empty() {
            return;
        }
        text.push_str("loop_\n_struct_conn.id\n_struct_conn.conn_type_id\n");
        for n in [1, 2] {
            for column in ["label_asym_id", "label_comp_id", "label_seq_id", "label_atom_id"] {
                writeln!(text, "_struct_conn.ptnr{n}_{column}").expect(IN_MEMORY);
            }
            for column in ["auth_asym_id", "auth_seq_id"] {
                writeln!(text, "_struct_conn.ptnr{n}_{column}").expect(IN_MEMORY);
            }
            writeln!(text, "_struct_conn.pdbx_ptnr{n}_PDB_ins_code").expect(IN_MEMORY);
        }
        for (nth, [a, b]) in bonds.into_iter().enumerate() {
            let is_disulfide = [a, b].iter().all(|atom| self.topology.atom(*atom).name == "SG");
            let kind = if is_disulfide { "disulf" } else { "covale" };
            let ends = [a, b].map(|atom| self.partner(atom)).join(" ");
            writeln!(text, "{kind}{} {kind} {ends}", nth + 1).expect(IN_MEMORY);
        }
        text.push_str("#\n");
    }

    fn partner(&self, atom: usize) -> String {
        let Atom { name, residue: at, .. } = self.topology.atom(atom);
        let residue = self.topology.residue(at);
        let chain = word(&self.chains[residue.chain]);
        let author = self.topology.chain_id(residue.chain).trim();
        let author = if author.is_empty() { chain.clone() } else { word(author) };
        let (name, component) = (word(name), word(residue.name));
        let code = insertion_code(&residue);
        format!("{chain} {component} {} {name} {author} {} {code}", at + 1, residue.number)
    }

    /// Whether a bond is that between two standard residues in a row of a chain.
    fn is_link(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.topology.atom(a), self.topology.atom(b));
        let (first, second) = (self.topology.residue(a.residue), self.topology.residue(b.residue));
        let family = Family::of(first.name);
        let names = match family {
            Family::AminoAcid => ("C", "N"),
            Family::Nucleotide => ("O3'", "P"),
            Family::Other => return false,
        };
        family == Family::of(second.name)
            && first.chain == second.chain
            && a.residue + 1 == b.residue
            && (a.name, b.name) == names
    }

    /// Bonds of which both atoms are written.
    fn bonds(&self) -> impl Iterator<Item = [usize; 2]> {
        let bonds = self.topology.bonds().iter().map(|bond| bond.map(|atom| atom as usize));
        bonds.filter(|bond| bond.iter().all(|atom| self.atoms.contains(*atom)))
    }
}

/// Names of chains: their own where these are there and are no other's.
fn chain_names(topology: &Topology) -> Vec<String> {
    let own: HashSet<&str> = topology.chains().map(str::trim).collect();
    let mut taken = HashSet::new();
    let mut number = 0;
    let mut name = |id: &str| {
        if !id.is_empty() && taken.insert(id.to_owned()) {
            return id.to_owned();
        }
        loop {
            number += 1;
            let name = format!("_{number}");
            if !own.contains(name.as_str()) {
                return name;
            }
        }
    };
    topology.chains().map(|id| name(id.trim())).collect()
}

fn insertion_code(residue: &Residue<'_>) -> String {
    residue.insertion_code.map_or_else(|| "?".to_owned(), |code| word(&code.to_string()))
}

/// A text as a value of CIF, in quotes where it needs them.
fn word(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let is_reserved = ["data_", "loop_", "save_", "stop_", "global_"]
        .iter()
        .any(|reserved| lower.starts_with(reserved))
        || ["", ".", "?"].contains(&text);
    let begins_odd = text.starts_with(['_', '#', '$', '\'', '"', '[', ']', ';']);
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && !is_reserved && !begins_odd {
        return text.to_owned();
    }
    // What ends a quoted text is its quote before a blank.
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.contains("' ") { format!("\"{text}\"") } else { format!("'{text}'") }
}

#[cfg(test)]
mod tests {
    use super::{MmcifWriter, word};
    use crate::{Atom, AtomSet, Cell, Element, Residue, Structure, Topology};

    fn written(topology: &Topology, positions: &[[f64; 3]], atoms: &AtomSet) -> String {
        let writer = MmcifWriter::new(topology, positions, atoms);
        let cell = Cell::from_lengths_angles([30.0, 40.0, 50.0], [60.0, 90.0, 90.0]);
        let mut text = writer.head("box_1", cell.as_ref());
        for first in (0..topology.n_atoms()).step_by(7) {
            text += &writer.rows(first..topology.n_atoms().min(first + 7));
        }
        text
    }

    /// Alanine in two chains with one name, an odd ligand bonded to it, a virtual site, and water.
    fn example() -> (Topology, Vec<[f64; 3]>) {
        let parts = [
            ("ALA", 41, None, 0, "N CA C O CB"),
            ("ALA", 41, Some('A'), 0, "N CA C O CB"),
            ("L'\"1", -3, None, 1, "C1' \"O _X EP"),
            ("HOH", 1, None, 2, "O H1 H2"),
        ];
        let mut atoms = Vec::new();
        for (residue, part) in parts.iter().enumerate() {
            for name in part.4.split(' ') {
                let symbol = name.trim_matches(|c: char| !c.is_ascii_alphabetic());
                let element = Element::from_symbol(&symbol[..1]).filter(|_| name != "EP");
                atoms.push(Atom { name, element, atom_type: None, mass_da: 1.0, residue });
            }
        }
        let residues = parts.map(|(name, number, insertion_code, chain, _)| Residue {
            name,
            number,
            insertion_code,
            chain,
        });
        let mut bonds = vec![[2, 5], [4, 10], [10, 11], [11, 12], [12, 13], [14, 15], [14, 16]];
        for first in [0, 5] {
            bonds.extend([[0, 1], [1, 2], [2, 3], [1, 4]].map(|bond| bond.map(|n| n + first)));
        }
        let topology = Topology::new(atoms, residues, ["A", "A", ""], bonds).unwrap();
        // Far apart, so that no bond is guessed that is not given; but for water, which is.
        let mut positions: Vec<[f64; 3]> =
            (0..17).map(|n| [f64::from(n) * 9.0, -0.0001, 1.23456]).collect();
        positions[15] = [positions[14][0] + 0.9, 0.0, 1.2];
        positions[16] = [positions[14][0] - 0.9, 0.0, 1.2];
        (topology, positions)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (topology, positions) = example();
        let text = written(&topology, &positions, &AtomSet::all(17));
        let read = Structure::from_mmcif(&text).unwrap();
        let labels = |t: &Topology| (0..17).map(|n| t.atom(n).name.to_owned()).collect::<Vec<_>>();
        assert_eq!(labels(&read.topology), labels(&topology));
        assert_eq!(read.topology.bonds(), topology.bonds(), "{text}");
        for (a, b) in read.topology.residues().zip(topology.residues()) {
            assert_eq!((a.name, a.number, a.insertion_code), (b.name, b.number, b.insertion_code));
            assert_eq!(a.chain, b.chain);
        }
        for (a, b) in read.topology.atoms().zip(topology.atoms()) {
            assert_eq!(a.element, b.element);
        }
        let lengths = read.cell.unwrap().lengths();
        assert!((lengths[1] - 40.0).abs() < 1e-9, "{lengths:?}");
        assert!(text.contains("\n_symmetry.space_group_name_H-M 'P 1'\n"));
        for (a, b) in read.positions.iter().flatten().zip(positions.iter().flatten()) {
            assert!((a - b).abs() <= 0.5001e-4, "{a} for {b}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_topology_whatever_is_written() {
        let (topology, positions) = example();
        let atoms = AtomSet::from_fn(17, |atom| [6, 12, 14].contains(&atom));
        let text = written(&topology, &positions, &atoms);
        let rows: Vec<&str> =
            text.lines().filter(|line| line.contains("ATM ") || line.starts_with("ATOM")).collect();
        assert_eq!(rows[0], "ATOM 7 C CA . ALA A ? 2 A 54.0000 -0.0001 1.2346 1.00 0.00 41 A 1");
        assert!(rows[1].starts_with("HETATM 13 X '_X' . L'\"1 '_1' ? 3 ? "), "{}", rows[1]);
        assert!(rows[2].starts_with("HETATM 15 O O . HOH '_2' ? 4 ? "), "{}", rows[2]);
        assert_eq!(rows.len(), 3);
        assert!(!text.contains("_struct_conn") && !text.contains("_chem_comp_bond"));
    }

    #[test]
    fn words_are_quoted_where_cif_wants_it() {
        for (text, expected) in [
            ("CA", "CA"),
            ("C1'", "C1'"),
            ("'5", "''5'"),
            ("_X", "'_X'"),
            ("", "''"),
            ("?", "'?'"),
            ("a b", "'a b'"),
            ("a' b", "\"a' b\""),
            ("data_1", "'data_1'"),
            ("#", "'#'"),
        ] {
            assert_eq!(word(text), expected);
        }
    }
}
