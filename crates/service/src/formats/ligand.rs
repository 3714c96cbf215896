//! Small molecules as files have them: atoms and charges. What is read here has passed the checks
//! of `molecule.rs`.

use molbox_analysis::{Element, Structure};

use super::Format;
use super::molecule::is_gaff_type;

/// A molecule: of a file with several, the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ligand {
    pub(crate) atoms: Vec<LigandAtom>,
    /// In units of the elementary charge, if the file has charges.
    pub(crate) charge: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LigandAtom {
    pub(crate) element: Option<Element>,
    /// In Å.
    pub(crate) position: [f64; 3],
}

/// The molecule of a text; none when the text has none that can be read.
pub(crate) fn read(text: &str, format: Format) -> Option<Ligand> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let ligand = match format {
        Format::Sdf | Format::Mol => molfile(text),
        Format::Mol2 => mol2(text),
        Format::Pdb => pdb(text),
        _ => None,
    };
    ligand.filter(|ligand| !ligand.atoms.is_empty())
}

fn molfile(text: &str) -> Option<Ligand> {
    let mut lines = text.lines().skip(3);
    let counts = lines.next()?;
    if counts.contains("V3000") {
        return v3000(lines);
    }
    let n_atoms: usize = counts.get(0..3)?.trim().parse().ok()?;
    let mut atoms = Vec::new();
    // Of the atoms' lines; those of properties, if there are any, override all of them.
    let mut charge = 0;
    for line in lines.by_ref().take(n_atoms) {
        let number = |columns| line.get(columns).and_then(|text: &str| text.trim().parse().ok());
        let position = [number(0..10)?, number(10..20)?, number(20..30)?];
        atoms.push(LigandAtom { element: element(line.get(31..34)?.trim()), position });
        charge += match line.get(36..39).unwrap_or_default().trim() {
            "1" => 3,
            "2" => 2,
            "3" => 1,
            "5" => -1,
            "6" => -2,
            "7" => -3,
            _ => 0,
        };
    }
    let properties = lines.take_while(|line| !line.starts_with("M  END"));
    let stated = properties.filter_map(|line| line.strip_prefix("M  CHG")).map(|line| {
        let numbers: Vec<i64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        numbers.iter().skip(2).step_by(2).fold(0, |sum: i64, it| sum.saturating_add(*it))
    });
    let charge = stated.reduce(i64::saturating_add).unwrap_or(charge);
    Some(Ligand { atoms, charge: Some(charge) })
}

fn v3000<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Ligand> {
    let (mut atoms, mut charge, mut is_atom) = (Vec::new(), 0, false);
    for line in lines.take_while(|line| !line.starts_with("M  END")) {
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        match words.as_slice() {
            ["BEGIN", section, ..] => is_atom = *section == "ATOM",
            ["END", ..] => is_atom = false,
            [_, symbol, x, y, z, rest @ ..] if is_atom => {
                let position = [x.parse().ok()?, y.parse().ok()?, z.parse().ok()?];
                atoms.push(LigandAtom { element: element(symbol), position });
                let stated = rest.iter().find_map(|word| word.strip_prefix("CHG="));
                let stated = stated.and_then(|text| text.parse().ok()).unwrap_or(0);
                charge = i64::saturating_add(charge, stated);
            }
            _ => {}
        }
    }
    Some(Ligand { atoms, charge: Some(charge) })
}

fn mol2(text: &str) -> Option<Ligand> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.find(|line| *line == "@<TRIPOS>MOLECULE")?;
    let head: Vec<&str> = lines.by_ref().take_while(|line| *line != "@<TRIPOS>ATOM").collect();
    let has_charges = head.get(3).is_some_and(|kind| *kind != "NO_CHARGES");
    let (mut atoms, mut charge) = (Vec::new(), 0.0);
    for line in lines.take_while(|line| !line.starts_with('@')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, name, x, y, z, kind, rest @ ..] = words.as_slice() else { continue };
        let element = match kind.split_once('.').map_or(*kind, |(symbol, _)| symbol) {
            // Others begin with one letter of the element, as `ca` does of carbon.
            "cl" | "br" => Element::from_symbol(kind),
            _ if is_gaff_type(kind) => kind.get(..1).and_then(Element::from_symbol),
            symbol => element(symbol).or_else(|| element_by_name(name)),
        };
        let position = [x.parse().ok()?, y.parse().ok()?, z.parse().ok()?];
        atoms.push(LigandAtom { element, position });
        let stated = rest.get(2).and_then(|text| text.parse::<f64>().ok());
        charge += stated.unwrap_or(0.0);
    }
    let charge = (has_charges && charge.is_finite()).then_some(charge.round() as i64);
    Some(Ligand { atoms, charge })
}

/// Deuterium and tritium have symbols of their own in these formats.
fn element(symbol: &str) -> Option<Element> {
    Element::from_symbol(if ["D", "T"].contains(&symbol) { "H" } else { symbol })
}

/// Of the letters that a name begins with, or the first.
fn element_by_name(name: &str) -> Option<Element> {
    let letters = name.find(|c: char| !c.is_ascii_alphabetic()).map_or(name, |end| &name[..end]);
    Element::from_symbol(letters).or_else(|| Element::from_symbol(letters.get(..1)?))
}

fn pdb(text: &str) -> Option<Ligand> {
    let structure = Structure::from_pdb(text).ok()?;
    let atoms = structure.topology.atoms().zip(&structure.positions);
    let atoms =
        atoms.map(|(atom, &position)| LigandAtom { element: atom.element, position }).collect();
    Some(Ligand { atoms, charge: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_read_as_each_format_writes_them() {
        let atom =
            "    1.0000    2.0000    3.0000 N   0  3\n    2.5000    2.0000    3.0000 O   0  5\n";
        let head = "x\n\n\n  2  0  0  0  0  0  0  0  0  0999 V2000\n";
        let read_sdf = |text: &str| read(text, Format::Sdf).unwrap();
        let plain = read_sdf(&format!("{head}{atom}M  END\n"));
        assert_eq!((plain.atoms.len(), plain.charge), (2, Some(0)));
        assert_eq!(plain.atoms[1].position, [2.5, 2.0, 3.0]);
        let stated = read_sdf(&format!("{head}{atom}M  CHG  2   1   1   2   1\nM  END\n"));
        assert_eq!(stated.charge, Some(2));
        let v3000 = "x\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\n\
                     M  V30 COUNTS 2 0 0 0 0\nM  V30 BEGIN ATOM\nM  V30 1 N 0 0 0 0 CHG=1\n\
                     M  V30 2 C 1 0 0 0\nM  V30 END ATOM\nM  V30 END CTAB\nM  END\n";
        let v3000 = read_sdf(v3000);
        assert_eq!((v3000.atoms.len(), v3000.charge), (2, Some(1)));
        let mol2 = "@<TRIPOS>MOLECULE\nx\n 2 1 0 0 0\nSMALL\nUSER_CHARGES\n@<TRIPOS>ATOM\n \
                    1 C1 0.0 0.0 0.0 c3 1 L -0.4\n 2 O1 1.4 0.0 0.0 O.3 1 L -0.6\n\
                    @<TRIPOS>BOND\n 1 1 2 1\n";
        let charged = read(mol2, Format::Mol2).unwrap();
        assert_eq!((charged.atoms.len(), charged.charge), (2, Some(-1)));
        assert_eq!(charged.atoms[0].element, Element::from_symbol("C"));
        let commented =
            mol2.replace("SMALL", "# made by hand\nSMALL").replace(" 2 O1", "# next\n 2 O1");
        assert_eq!(read(&commented, Format::Mol2), Some(charged));
        let without = read(&mol2.replace("USER_CHARGES", "NO_CHARGES"), Format::Mol2).unwrap();
        assert_eq!(without.charge, None);
    }

    #[test]
    fn elements_of_antechamber_s_types_are_their_first_letters_whatever_the_atoms_are_called() {
        let symbol = |name: &str, kind: &str| {
            let text = format!(
                "@<TRIPOS>MOLECULE\nx\n 1 0\nSMALL\nbcc\n@<TRIPOS>ATOM\n1 {name} 0 0 0 {kind}\n"
            );
            read(&text, Format::Mol2).unwrap().atoms[0].element.map(Element::symbol)
        };
        for (name, kind, element) in [
            ("HO1", "ho", "H"),
            ("CA", "c3", "C"),
            ("CD1", "ca", "C"),
            ("NE", "nh", "N"),
            ("OS", "os", "O"),
            ("CL1", "cl", "Cl"),
            ("X", "br", "Br"),
            ("HO1", "H", "H"),
            ("CA", "C.3", "C"),
            ("D1", "D", "H"),
            ("Zn", "Zn", "Zn"),
        ] {
            assert_eq!(symbol(name, kind), Some(element), "{name} {kind}");
        }
    }

    #[test]
    fn charges_that_no_molecule_has_are_summed_without_a_panic() {
        let atom = format!("M  V30 1 N 0 0 0 0 CHG={}\n", i64::MAX);
        let text = format!(
            "x\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN ATOM\n{atom}{atom}M  END\n"
        );
        assert_eq!(read(&text, Format::Sdf).unwrap().charge, Some(i64::MAX));
    }
}
