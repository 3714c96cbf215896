//! Small molecules: MDL molfiles and SD files (BIOVIA's `CTfile` formats, V2000 and V3000), Tripos
//! mol2.

use std::ops::Range;

use molbox_analysis::Element;

use super::problem::Problem;

/// An SD file: molfiles with data between them.
pub(super) fn check_sdf(text: &str) -> Result<(), Problem> {
    let lines: Vec<&str> = text.lines().collect();
    let mut start = 0;
    let mut molecules = 0;
    while lines[start..].iter().any(|line| !line.trim().is_empty()) {
        let end = lines[start..]
            .iter()
            .position(|line| line.starts_with("$$$$"))
            .map_or(lines.len(), |n| start + n);
        molfile(&lines, start, end)?;
        molecules += 1;
        start = (end + 1).min(lines.len());
    }
    if molecules == 0 { Err(Problem::whole("it has no molecule")) } else { Ok(()) }
}

/// A molfile: the first entry of an SD file.
pub(super) fn check_mol(text: &str) -> Result<(), Problem> {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().position(|line| line.starts_with("$$$$")).unwrap_or(lines.len());
    molfile(&lines, 0, end)
}

/// The lines from `start` to `end`: three of header, one of counts, atoms, bonds, properties.
fn molfile(lines: &[&str], start: usize, end: usize) -> Result<(), Problem> {
    let counts_at = start + 3;
    let counts = lines.get(counts_at).filter(|_| counts_at < end);
    let counts =
        counts.ok_or_else(|| Problem::whole("it has no counts line, the fourth of a molecule"))?;
    if !lines[counts_at..end].iter().any(|line| line.starts_with("M  END")) {
        return Err(Problem::whole("it has no M  END"));
    }
    if counts.contains("V3000") {
        return v3000(lines, counts_at + 1, end);
    }
    let number = |columns: Range<usize>, what: &str| {
        let text = counts.get(columns).unwrap_or_default().trim();
        text.parse::<usize>()
            .map_err(|_| Problem::at(counts_at + 1, format!("the number of {what} is {text:?}")))
    };
    let n_atoms = number(0..3, "atoms")?;
    let n_bonds = number(3..6, "bonds")?;
    if n_atoms == 0 {
        return Err(Problem::at(counts_at + 1, "the molecule has no atom"));
    }
    let body = |index: usize| {
        lines.get(counts_at + 1 + index).filter(|_| counts_at + 1 + index < end).copied()
    };
    for index in 0..n_atoms {
        let at = counts_at + 2 + index;
        let line = body(index)
            .ok_or_else(|| Problem::whole(format!("it has {index} of {n_atoms} atoms")))?;
        for (axis, columns) in [("x", 0..10), ("y", 10..20), ("z", 20..30)] {
            coordinate(line.get(columns).unwrap_or_default().trim(), axis, at)?;
        }
        element(line.get(31..34).unwrap_or_default().trim(), at)?;
    }
    for index in 0..n_bonds {
        let at = counts_at + 2 + n_atoms + index;
        let line = body(n_atoms + index)
            .ok_or_else(|| Problem::whole(format!("it has {index} of {n_bonds} bonds")))?;
        for columns in [0..3, 3..6] {
            bond_end(line.get(columns).unwrap_or_default().trim(), n_atoms, at)?;
        }
    }
    for (index, line) in lines[counts_at..end].iter().enumerate() {
        let stated = line.strip_prefix("M  CHG").unwrap_or_default();
        for text in stated.split_whitespace().skip(2).step_by(2) {
            charge(text, counts_at + index + 1)?;
        }
    }
    Ok(())
}

/// The connection table of a V3000 molfile, whose lines begin with `M  V30`.
fn v3000(lines: &[&str], start: usize, end: usize) -> Result<(), Problem> {
    let mut n_atoms = None;
    let mut section = "";
    let mut found = 0;
    for (index, line) in lines[start..end].iter().enumerate() {
        let at = start + index + 1;
        let Some(rest) = line.strip_prefix("M  V30 ") else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words.as_slice() {
            ["COUNTS", atoms, ..] => {
                n_atoms =
                    Some(atoms.parse().map_err(|_| {
                        Problem::at(at, format!("the number of atoms is {atoms:?}"))
                    })?);
            }
            ["BEGIN", name, ..] => section = name,
            ["END", ..] => section = "",
            [_, symbol, x, y, z, rest @ ..] if section == "ATOM" => {
                found += 1;
                element(symbol, at)?;
                for (axis, text) in [("x", x), ("y", y), ("z", z)] {
                    coordinate(text, axis, at)?;
                }
                if let Some(text) = rest.iter().find_map(|word| word.strip_prefix("CHG=")) {
                    charge(text, at)?;
                }
            }
            [_, _, from, to, ..] if section == "BOND" => {
                bond_end(from, n_atoms.unwrap_or(0), at)?;
                bond_end(to, n_atoms.unwrap_or(0), at)?;
            }
            _ if section == "ATOM" || section == "BOND" => {
                return Err(Problem::at(at, "the line is too short"));
            }
            _ => {}
        }
    }
    match n_atoms {
        None => Err(Problem::whole("it has no COUNTS line")),
        Some(0) => Err(Problem::whole("the molecule has no atom")),
        Some(n) if n != found => {
            Err(Problem::whole(format!("it has {found} atoms, its COUNTS line says {n}")))
        }
        Some(_) => Ok(()),
    }
}

/// A mol2 file: sections that begin with `@<TRIPOS>`.
pub(super) fn check_mol2(text: &str) -> Result<(), Problem> {
    let mut section = "";
    let mut line_of_section = 0;
    let mut declared = None;
    let mut atoms = 0_usize;
    let mut molecules = 0;
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        let line = line.trim();
        if let Some(name) = line.strip_prefix("@<TRIPOS>") {
            if name == "MOLECULE" {
                compare(declared, atoms)?;
                (declared, atoms) = (None, 0);
                molecules += 1;
            }
            (section, line_of_section) = (name, 0);
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        line_of_section += 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        match section {
            "MOLECULE" if line_of_section == 2 => {
                let text = words.first().copied().unwrap_or_default();
                declared =
                    Some(text.parse().map_err(|_| {
                        Problem::at(at, format!("the number of atoms is {text:?}"))
                    })?);
            }
            "ATOM" if !words.is_empty() => {
                let [_, _, x, y, z, kind, ..] = words[..] else {
                    return Err(Problem::at(at, "an atom has six columns"));
                };
                for (axis, text) in [("x", x), ("y", y), ("z", z)] {
                    coordinate(text, axis, at)?;
                }
                if !is_gaff_type(kind) {
                    element(kind.split('.').next().unwrap_or_default(), at)?;
                }
                atoms += 1;
            }
            "BOND" if !words.is_empty() => {
                let [_, from, to, _, ..] = words[..] else {
                    return Err(Problem::at(at, "a bond has four columns"));
                };
                bond_end(from, atoms, at)?;
                bond_end(to, atoms, at)?;
            }
            _ => {}
        }
    }
    if molecules == 0 {
        return Err(Problem::whole("it has no @<TRIPOS>MOLECULE"));
    }
    compare(declared, atoms)?;
    if atoms == 0 { Err(Problem::whole("the molecule has no atom")) } else { Ok(()) }
}

fn compare(declared: Option<usize>, found: usize) -> Result<(), Problem> {
    match declared {
        Some(declared) if declared != found => {
            Err(Problem::whole(format!("it has {found} atoms, its header says {declared}")))
        }
        _ => Ok(()),
    }
}

fn coordinate(text: &str, axis: &str, line: usize) -> Result<(), Problem> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(()),
        _ => Err(Problem::at(line, format!("the {axis} coordinate is {text:?}, not a number"))),
    }
}

/// The format has charges of atoms up to 15.
fn charge(text: &str, line: usize) -> Result<(), Problem> {
    match text.parse::<i64>() {
        Ok(-15..=15) => Ok(()),
        _ => {
            Err(Problem::at(line, format!("the charge of an atom is {text:?}, not from -15 to 15")))
        }
    }
}

fn element(symbol: &str, line: usize) -> Result<(), Problem> {
    // Deuterium and tritium have symbols of their own in these formats.
    if Element::from_symbol(symbol).is_some() || ["D", "T"].contains(&symbol) {
        return Ok(());
    }
    Err(Problem::at(line, format!("{symbol:?} is no element")))
}

/// Whether an atom type is one of GAFF's, as antechamber writes them: lower case, the element
/// first.
pub(super) fn is_gaff_type(kind: &str) -> bool {
    kind.starts_with(['c', 'h', 'n', 'o', 's', 'p', 'f', 'i', 'b'])
        && !kind.contains(|c: char| c.is_uppercase() || c == '.')
}

fn bond_end(text: &str, n_atoms: usize, line: usize) -> Result<(), Problem> {
    match text.parse::<usize>() {
        Ok(atom) if (1..=n_atoms).contains(&atom) => Ok(()),
        _ => Err(Problem::at(line, format!("a bond to atom {text} of {n_atoms}"))),
    }
}
