//! Small molecules as files have them: atoms and charges. What is read here has passed the checks
//! of `molecule.rs`.

use molbox_analysis::{Element, Structure};

use super::Format;

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
        atoms
            .push(LigandAtom { element: Element::from_symbol(line.get(31..34)?.trim()), position });
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
        numbers.iter().skip(2).step_by(2).sum::<i64>()
    });
    let charge = stated.reduce(|a, b| a + b).unwrap_or(charge);
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
                atoms.push(LigandAtom { element: Element::from_symbol(symbol), position });
                let stated = rest.iter().find_map(|word| word.strip_prefix("CHG="));
                charge += stated.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    Some(Ligand { atoms, charge: Some(charge) })
}

fn mol2(text: &str) -> Option<Ligand> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| *line == "@<TRIPOS>MOLECULE")?;
    let head: Vec<&str> = lines.by_ref().take_while(|line| *line != "@<TRIPOS>ATOM").collect();
    let has_charges = head.get(3).is_some_and(|kind| *kind != "NO_CHARGES");
    let (mut atoms, mut charge) = (Vec::new(), 0.0);
    for line in lines.take_while(|line| !line.starts_with('@')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, name, x, y, z, kind, rest @ ..] = words.as_slice() else { continue };
        let letters = |text: &str| text.chars().take_while(char::is_ascii_alphabetic).collect();
        let symbol: String = letters(kind.split('.').next().unwrap_or(kind));
        let name: String = letters(name);
        // Types of antechamber are no elements; names of atoms begin with one.
        let element = Element::from_symbol(&symbol)
            .filter(|_| kind.starts_with(|c: char| c.is_ascii_uppercase()))
            .or_else(|| Element::from_symbol(&name))
            .or_else(|| Element::from_symbol(name.get(..1)?));
        let position = [x.parse().ok()?, y.parse().ok()?, z.parse().ok()?];
        atoms.push(LigandAtom { element, position });
        let stated = rest.get(2).and_then(|text| text.parse::<f64>().ok());
        charge += stated.unwrap_or(0.0);
    }
    let charge = (has_charges && charge.is_finite()).then_some(charge.round() as i64);
    Some(Ligand { atoms, charge })
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
        let without = read(&mol2.replace("USER_CHARGES", "NO_CHARGES"), Format::Mol2).unwrap();
        assert_eq!(without.charge, None);
    }
}
