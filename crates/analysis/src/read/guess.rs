//! Elements and bonds as topology files of force fields leave them to their readers.

use std::collections::HashSet;

use super::bonds::Family;
use crate::Element;
use crate::topology::WATER;

/// Above this a mass in Da is not that of protium, and below not that of helium: hydrogens have
/// been made heavier at the expense of what they are bonded to, or are deuterium.
const HEAVY_HYDROGEN_DA: f64 = 1.5;
const DEUTERIUM_DA: f64 = 2.014;

/// No hydrogen is made heavier than this.
const HEAVIEST_HYDROGEN_DA: f64 = 4.5;

/// How far off masses of force fields are.
const MASS_TOLERANCE_DA: f64 = 0.3;

/// Names of ions that are no symbols of elements, at least not of theirs. Atoms of ligands have the
/// same ones: CAD and CAL of a ligand are carbons.
const IONS: [(&str, &str); 10] = [
    ("SOD", "Na"),
    ("CLA", "Cl"),
    ("POT", "K"),
    ("CAL", "Ca"),
    ("CES", "Cs"),
    ("LIT", "Li"),
    ("RUB", "Rb"),
    ("BAR", "Ba"),
    ("CAD", "Cd"),
    ("IOD", "I"),
];

/// Elements that a name gives though it starts as that of another or of none. Cobalt and nickel are
/// not here, for a carbonyl carbon may be CO and an imine nitrogen NI.
const SYMBOLS: [&str; 7] = ["FE", "ZN", "MG", "MN", "CU", "SE", "SI"];

/// Residues that hold a metal.
const WITH_METAL: [&str; 14] = [
    "HEM", "HEC", "HEA", "HEB", "HEME", "HEMO", "CLA", "CHL", "BCL", "B12", "CNC", "F43", "SF4",
    "FES",
];
const METALS: [&str; 6] = ["FE", "MG", "CO", "NI", "ZN", "CU"];

/// What dummies of metals are called, as those of the cationic dummy atom models: DM1 to DM6 about
/// zinc are no deuterium.
const DUMMIES: [&str; 4] = ["DM", "DU", "DUM", "DZ"];

/// Whether an atom is a dummy by its name. Of amino acids DZ1 is deuterium.
pub(super) fn is_dummy(name: &str, residue: &str) -> bool {
    DUMMIES.contains(&bare(name))
        && Family::of(residue) == Family::Other
        && !WATER.contains(&residue)
}

/// A name without number and charge.
pub(super) fn bare(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-')
}

/// The element of an atom that is alone in its residue.
pub(super) fn element_of_lone(name: &str, residue: &str) -> Option<Element> {
    let bare = self::bare(name);
    let is_other = Family::of(residue) == Family::Other && !WATER.contains(&residue);
    match IONS.iter().find(|(ion, _)| *ion == bare) {
        Some((_, symbol)) if is_other => Element::from_symbol(symbol),
        _ => element_by_name(name, residue),
    }
}

/// The element of an atom by its name and that of its residue.
pub(super) fn element_by_name(name: &str, residue: &str) -> Option<Element> {
    if is_dummy(name, residue) {
        return None;
    }
    let letters = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let first = Element::from_symbol(letters.get(..1)?);
    if residue == "MSE" && letters.starts_with("SE") {
        return Element::from_symbol("Se");
    }
    if Family::of(residue) != Family::Other || WATER.contains(&residue) {
        return first;
    }
    let bare = self::bare(name);
    // An ion is called as its residue.
    let ion = self::bare(residue);
    if bare.eq_ignore_ascii_case(ion)
        && let Some(element) = Element::from_symbol(bare)
    {
        return Some(element);
    }
    let two = letters.get(..2).unwrap_or("");
    if SYMBOLS.contains(&bare)
        || first.is_none() && SYMBOLS.contains(&two)
        || WITH_METAL.contains(&residue) && METALS.contains(&bare)
    {
        return Element::from_symbol(two);
    }
    let is_two = two.ends_with(|c: char| c.is_ascii_lowercase())
        || two.eq_ignore_ascii_case("CL")
        || two.eq_ignore_ascii_case("BR");
    Element::from_symbol(two).filter(|_| is_two).or(first)
}

/// What an atom weighs in Da and is called, and the name of its residue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed<'a> {
    pub(super) mass_da: f64,
    pub(super) name: &'a str,
    pub(super) residue: &'a str,
}

/// The elements of atoms by their masses, what heavy hydrogens were given being given back, and by
/// their names.
pub(super) fn elements_by_mass(atoms: &[Weighed<'_>], bonds: &[[u32; 2]]) -> Vec<Option<Element>> {
    let mut masses: Vec<f64> = atoms.iter().map(|atom| atom.mass_da).collect();
    let is_hydrogen: Vec<bool> = atoms
        .iter()
        .map(|atom| element_by_name(atom.name, atom.residue) == Some(Element::H))
        .collect();
    for [a, b] in bonds.iter().map(|bond| bond.map(|atom| atom as usize)) {
        for (atom, owner) in [(a, b), (b, a)] {
            let is_heavy = is_hydrogen[atom]
                && (HEAVY_HYDROGEN_DA..HEAVIEST_HYDROGEN_DA).contains(&masses[atom])
                && !is_deuterium(masses[atom]);
            // Some files list bonds twice; a hydrogen that has given back is heavy no more.
            if is_heavy && !is_hydrogen[owner] {
                masses[owner] += masses[atom] - Element::H.mass_da();
                masses[atom] = Element::H.mass_da();
            }
        }
    }
    let weighed = atoms.iter().zip(masses).map(|(atom, mass_da)| Weighed { mass_da, ..*atom });
    weighed.map(element_by_mass).collect()
}

/// The element of an atom by its mass, but by its name where that is certain, where hydrogens are
/// heavy or counted with the atom, and where no element has such a mass. What weighs next to
/// nothing is none, and so are dummies, which weigh 1 or 3 Da.
fn element_by_mass(Weighed { mass_da, name, residue }: Weighed<'_>) -> Option<Element> {
    if mass_da < 0.5 || is_dummy(name, residue) {
        return None;
    }
    let distance = |element: &Element| (element.mass_da() - mass_da).abs();
    let nearest = Element::all().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let by_name = element_by_name(name, residue);
    let is_known = Family::of(residue) != Family::Other || WATER.contains(&residue);
    let is_heavy_hydrogen = by_name == Some(Element::H) && mass_da < HEAVIEST_HYDROGEN_DA;
    let trusts_name = by_name.is_some_and(|element| is_known || is_united(element, mass_da));
    if distance(&nearest) < MASS_TOLERANCE_DA && !is_heavy_hydrogen && !trusts_name {
        Some(nearest)
    } else {
        by_name
    }
}

/// Whether an atom of an element weighs as much as with one to four hydrogens: CH2 is as heavy as
/// nitrogen.
fn is_united(element: Element, mass_da: f64) -> bool {
    let n_hydrogens = (mass_da - element.mass_da()) / Element::H.mass_da();
    matches!(element.symbol(), "C" | "N" | "O" | "P" | "S")
        && (0.95..4.05).contains(&n_hydrogens)
        && (n_hydrogens - n_hydrogens.round()).abs() < 0.05
}

/// Whether hydrogens were made heavier, as is done for longer time steps: a centre of mass by such
/// masses is no property of the molecule.
pub(super) fn is_repartitioned(atoms: impl Iterator<Item = (Option<Element>, f64)>) -> bool {
    let mut hydrogens = atoms.filter(|(element, _)| *element == Some(Element::H));
    hydrogens.any(|(_, mass_da)| mass_da > HEAVY_HYDROGEN_DA && !is_deuterium(mass_da))
}

fn is_deuterium(mass_da: f64) -> bool {
    (mass_da - DEUTERIUM_DA).abs() <= 0.005
}

/// Leaves out what stands among bonds to keep water rigid: its two hydrogens.
pub(super) fn without_constraints(
    bonds: Vec<[u32; 2]>,
    element: impl Fn(u32) -> Option<Element>,
) -> Vec<[u32; 2]> {
    let is_hydrogen = |atom: &u32| element(*atom) == Some(Element::H);
    let is_constraint = |bond: &[u32; 2]| bond.iter().all(is_hydrogen);
    let bonded: HashSet<u32> =
        bonds.iter().filter(|bond| !is_constraint(bond)).flatten().copied().collect();
    let mut bonds = bonds;
    bonds.retain(|bond| !(is_constraint(bond) && bond.iter().all(|atom| bonded.contains(atom))));
    bonds
}

#[cfg(test)]
mod tests {
    use super::{
        Weighed, element_by_mass, element_by_name, element_of_lone, elements_by_mass,
        is_repartitioned, without_constraints,
    };
    use crate::Element;

    #[test]
    fn elements_follow_from_names_and_masses() {
        let symbol = |element: Option<Element>| element.map_or("", Element::symbol);
        for (name, residue, expected) in [
            ("CA", "ALA", "C"),
            ("CA", "CA", "Ca"),
            ("CAL", "LIG", "C"),
            ("CAD", "LIG", "C"),
            ("FE", "HEM", "Fe"),
            ("FE2", "SF4", "Fe"),
            ("F1", "LIG", "F"),
            ("ZN", "LIG", "Zn"),
            ("MG", "CLA", "Mg"),
            ("CO", "B12", "Co"),
            ("CO", "LIG", "C"),
            ("SI1", "LIG", "Si"),
            ("SEAD", "LIG", "S"),
            ("SE1", "LIG", "Se"),
            ("SE", "ALA", "S"),
            ("1HB", "ALA", "H"),
            ("HG", "SER", "H"),
            ("NA", "NA", "Na"),
            ("Na+", "Na+", "Na"),
            ("CL1", "LIG", "Cl"),
            ("Cl-", "Cl-", "Cl"),
            ("C12", "LIG", "C"),
            ("MW", "SOL", ""),
            ("OW", "SOL", "O"),
            ("SE", "MSE", "Se"),
            ("ZN2", "ZN2", "Zn"),
            ("DM1", "ZND", ""),
            ("DU", "LIG", ""),
            ("DZ1", "LYS", "H"),
            ("D1", "DOD", "H"),
            ("D12", "LIG", "H"),
        ] {
            assert_eq!(symbol(element_by_name(name, residue)), expected, "{name} of {residue}");
        }
        for (name, residue, expected) in [
            ("CAL", "CAL", "Ca"),
            ("SOD", "ION", "Na"),
            ("CA", "CA", "Ca"),
            ("CA", "ALA", "C"),
            ("OW", "SOL", "O"),
        ] {
            assert_eq!(symbol(element_of_lone(name, residue)), expected, "{name} of {residue}");
        }
        for (mass_da, name, expected) in [
            (12.01, "CA", "C"),
            (12.011, "X", "C"),
            (1.008, "X", "H"),
            (3.024, "HB1", "H"),
            (4.032, "HB1", "H"),
            (9.994, "CB", "C"),
            (0.0, "EP", ""),
            (0.4, "DC", ""),
            (3.0, "DM1", ""),
            (1.0, "DM1", ""),
            (22.99, "SOD", "Na"),
            (35.45, "X", "Cl"),
            (4.0026, "HE", "He"),
            (14.027, "C7", "C"),
            (16.043, "C", "C"),
            (14.007, "N7", "N"),
            (22.99, "NA", "Na"),
        ] {
            let residue = if name == "HE" { "HE" } else { "LIG" };
            assert_eq!(
                symbol(element_by_mass(Weighed { mass_da, name, residue })),
                expected,
                "{mass_da} {name}"
            );
        }
    }

    #[test]
    fn heavy_hydrogens_give_back_what_they_were_given() {
        let residue = "LIG";
        // A methyl group as heavy as helium, NH as boron, and a methanol oxygen as nitrogen.
        let atoms = [("C1", 2.94), ("N1", 10.983), ("O1", 13.983), ("C2", 8.987), ("H1", 4.032)]
            .map(|(name, mass_da)| Weighed { mass_da, name, residue });
        let mut heavy = atoms.to_vec();
        let mut bonds = Vec::new();
        for (owner, (n, mass_da)) in
            [(3, 4.032), (1, 4.032), (1, 3.024), (1, 4.032)].into_iter().enumerate()
        {
            for _ in 0..n {
                // Listed twice, as some files do.
                bonds.extend([[owner as u32, heavy.len() as u32]; 2]);
                heavy.push(Weighed { mass_da, name: "H9", residue });
            }
        }
        let elements = elements_by_mass(&heavy, &bonds);
        let symbols: Vec<_> =
            elements.iter().map(|element| element.map_or("", Element::symbol)).collect();
        assert_eq!(symbols[..5], ["C", "N", "O", "C", "H"]);
        assert!(symbols[5..].iter().all(|symbol| *symbol == "H"));
    }

    #[test]
    fn heavy_hydrogens_are_noticed_and_deuterium_is_not_taken_for_them() {
        let of =
            |masses: &[f64]| is_repartitioned(masses.iter().map(|mass| (Some(Element::H), *mass)));
        assert!(of(&[1.008, 3.024]) && !of(&[1.008, 1.00794]) && !of(&[1.008, 2.014]));
    }

    #[test]
    fn the_hydrogens_of_water_are_not_bonded_and_those_of_dihydrogen_are() {
        let element = |atom| Some(if atom == 0 { Element::O } else { Element::H });
        let bonds = vec![[0, 1], [0, 2], [1, 2], [3, 4]];
        assert_eq!(without_constraints(bonds, element), [[0, 1], [0, 2], [3, 4]]);
    }
}
