//! Structures as PDB files, for programs that colour atoms by a number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::cell::sub;
use crate::{AtomSet, Topology};

/// What the six columns of a B-factor hold.
const LARGEST_B_FACTOR: f64 = 999.99;

/// What the eight columns of a coordinate hold, in Å.
const SMALLEST_POSITION: f64 = -999.999;
const LARGEST_POSITION: f64 = 9999.999;

/// The atoms of a topology at these positions in Å, each with a number in place of its B-factor;
/// one that takes more than its six columns is written as the largest that does not, and a remark
/// says of how many that is so.
///
/// Chains have the first letter of their identifier, or the next that is free where another has it,
/// of which remarks tell, and numbers beyond what columns hold start
/// again from 0, as other programs do. Where a position is beyond them, all are moved alike, so that
/// the first atom is in the origin.
pub(crate) fn pdb(
    topology: &Topology,
    atoms: &AtomSet,
    positions: &[[f64; 3]],
    b_factors: &[f64],
    remark: &str,
) -> String {
    let mut text = String::new();
    for line in remark.split('\n') {
        writeln!(text, "REMARK 250 {line}").expect("a string takes what is written to it");
    }
    let n_cut = b_factors.iter().filter(|b_factor| **b_factor > LARGEST_B_FACTOR).count();
    if n_cut > 0 {
        writeln!(text, "REMARK 250 {n_cut} B-FACTORS ABOVE {LARGEST_B_FACTOR} ARE WRITTEN AS THAT")
            .expect("a string takes what is written to it");
    }
    let letters = chain_letters(topology, atoms);
    for (chain, letter) in &letters {
        let id = topology.chain_id(*chain);
        if !id.is_empty() && !id.starts_with(*letter) {
            writeln!(text, "REMARK 250 CHAIN {letter} IS {id}")
                .expect("a string takes what is written to it");
        }
    }
    let is_beyond = |x: &f64| !(SMALLEST_POSITION..=LARGEST_POSITION).contains(x);
    let origin = if positions.iter().flatten().any(is_beyond) { positions[0] } else { [0.0; 3] };
    for (n, idx) in atoms.iter().enumerate() {
        let atom = topology.atom(idx);
        let residue = topology.residue(atom.residue);
        let chain = letters[&residue.chain];
        let symbol = atom.element.map_or("", |element| element.symbol()).to_uppercase();
        // Symbols of one letter leave the first of four columns free.
        let name = if atom.name.len() < 4 && symbol.len() < 2 {
            format!(" {:<3}", atom.name)
        } else {
            format!("{:<4.4}", atom.name)
        };
        let [x, y, z] = sub(positions[n], origin);
        writeln!(
            text,
            "ATOM  {:>5} {name} {:<4.4}{chain}{:>4}{}   {x:>8.3}{y:>8.3}{z:>8.3}  1.00{:>6.2}          \
             {symbol:>2}",
            (idx + 1) % 100_000,
            format!("{:>3}", residue.name),
            residue.number.rem_euclid(10_000),
            residue.insertion_code.unwrap_or(' '),
            b_factors[n].min(LARGEST_B_FACTOR),
        )
        .expect("a string takes what is written to it");
    }
    text.push_str("END\n");
    text
}

/// The letter of each chain that has atoms here, as long as there are any for all of them.
fn chain_letters(topology: &Topology, atoms: &AtomSet) -> BTreeMap<usize, char> {
    let chains: BTreeSet<usize> =
        atoms.iter().map(|atom| topology.residue(topology.atom(atom).residue).chain).collect();
    let first = |chain: usize| topology.chain_id(chain).chars().next().unwrap_or(' ');
    let own: BTreeSet<char> = chains.iter().map(|chain| first(*chain)).collect();
    let mut free = ('A'..='Z').chain('a'..='z').chain('0'..='9').filter(|c| !own.contains(c));
    let mut taken: BTreeMap<char, &str> = BTreeMap::new();
    let mut letters = BTreeMap::new();
    for chain in chains {
        let id = topology.chain_id(chain);
        let is_other = *taken.entry(first(chain)).or_insert(id) != id;
        let letter = if is_other { free.next() } else { None };
        letters.insert(chain, letter.unwrap_or(first(chain)));
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::pdb;
    use crate::{AtomSet, Structure};

    #[test]
    fn what_its_columns_do_not_hold_is_remarked() {
        let line =
            "ATOM      1  CA  ALA A   1       0.000   0.000   0.000  1.00  0.00           C\n";
        let topology = Structure::from_pdb(line).unwrap().topology;
        let of = |b_factor| pdb(&topology, &AtomSet::all(1), &[[0.0; 3]], &[b_factor], "B");
        assert!(of(1234.5).contains("REMARK 250 1 B-FACTORS ABOVE 999.99 ARE WRITTEN AS THAT\n"));
        assert!(!of(999.99).contains("ABOVE") && of(1234.5).contains("  1.00999.99 "));
    }

    #[test]
    fn chains_whose_identifiers_begin_alike_have_letters_of_their_own() {
        let head = "data_x\nloop_\n_atom_site.group_PDB\n_atom_site.id\n_atom_site.type_symbol\n\
             _atom_site.label_atom_id\n_atom_site.label_comp_id\n_atom_site.label_asym_id\n\
             _atom_site.label_seq_id\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n";
        let atoms = [("PROA", 1), ("PROB", 1), ("A", 1)].iter().enumerate();
        let atoms = atoms.map(|(n, (chain, residue))| {
            format!("ATOM {n} C CA ALA {chain} {residue} {n}.0 0.0 0.0\n")
        });
        let text = head.to_owned() + &atoms.collect::<String>();
        let topology = Structure::from_mmcif(&text).unwrap().topology;
        let text = pdb(&topology, &AtomSet::all(3), &[[0.0; 3]; 3], &[1.0; 3], "B");
        let letters: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("ATOM"))
            .map(|line| &line[21..22])
            .collect();
        assert_eq!(letters, ["P", "B", "A"]);
        assert!(text.contains("REMARK 250 CHAIN B IS PROB\n"), "{text}");
        assert!(!text.contains("CHAIN P IS"), "{text}");
    }

    #[test]
    fn what_is_far_from_the_origin_is_moved_and_keeps_its_columns() {
        let lines = "ATOM      1  CA  ALA A   1       0.000   0.000   0.000  1.00  0.00           C\n\
             ATOM      2  CB  ALA A   1       1.500   0.000   0.000  1.00  0.00           C\n";
        let topology = Structure::from_pdb(lines).unwrap().topology;
        let far = [[-1000.25, 3.0, 0.0], [-998.75, 3.0, 0.0]];
        let text = pdb(&topology, &AtomSet::all(2), &far, &[1.0; 2], "B");
        let again = Structure::from_pdb(&text).unwrap().positions;
        assert_eq!(again, [[0.0; 3], [1.5, 0.0, 0.0]]);
        let near = [[-999.25, 3.0, 0.0], [9998.75, 3.0, 0.0]];
        let text = pdb(&topology, &AtomSet::all(2), &near, &[1.0; 2], "B");
        assert_eq!(Structure::from_pdb(&text).unwrap().positions, near);
    }
}
