//! Amber's prmtop: sections of columns, each with its name and the width of what it lists.
//!
//! <https://ambermd.org/FileFormats.php> has the format. Chains and the numbers of a PDB file are
//! there only if `add_pdb` of ParmEd or `addPDB` has put them there.

use std::collections::HashMap;

use super::guess::{Weighed, elements_by_mass, is_dummy, is_repartitioned, without_constraints};
use crate::error::{FormatError, FormatErrorKind, Place};
use crate::topology::{Atom, Residue};
use crate::{Element, Topology};

/// What charges are multiplied with, so that energies of two come out in kcal/mol.
const CHARGE_UNIT: f64 = 18.2223;

/// Indices of bonds are those of coordinates.
const PER_ATOM: i64 = 3;

/// What POINTERS lists first, and where the numbers of atoms and residues are in it.
const N_POINTERS: usize = 30;
const N_ATOMS: usize = 0;
const N_RESIDUES: usize = 11;

/// Whether a text starts as a prmtop file does.
pub(super) fn is_prmtop(text: &str) -> bool {
    let text = text.trim_ascii_start();
    text.starts_with("%VERSION") || text.starts_with("%FLAG")
}

pub(super) fn parse(text: &str) -> Result<Topology, FormatError> {
    let file = Prmtop::sections(text)?;
    let pointers = file.numbers("POINTERS", "a whole number")?;
    if pointers.len() < N_POINTERS {
        let found = format!("{} numbers in POINTERS", pointers.len());
        return Err(file.at_flag("POINTERS", "30 numbers or more", found));
    }
    let count = |at: usize, expected| {
        let n = usize::try_from(pointers[at]).ok().filter(|n| *n > 0);
        n.ok_or_else(|| file.at_flag("POINTERS", expected, pointers[at].to_string()))
    };
    let n_atoms = count(N_ATOMS, "a number of atoms above 0")?;
    let n_residues = count(N_RESIDUES, "a number of residues above 0")?;

    let names = file.texts_of("ATOM_NAME", n_atoms)?;
    let types = file.if_there("AMBER_ATOM_TYPE", |flag| file.texts_of(flag, n_atoms))?;
    let masses = file.floats_of("MASS", n_atoms)?;
    let charges = file.floats_of("CHARGE", n_atoms)?;
    let numbers = file.if_there("ATOMIC_NUMBER", |flag| file.numbers_of(flag, n_atoms))?;
    let labels = file.texts_of("RESIDUE_LABEL", n_residues)?;
    let residue_of = file.residues(n_atoms, n_residues)?;

    let mut bonds = file.bonds("BONDS_INC_HYDROGEN", n_atoms)?;
    bonds.extend(file.bonds("BONDS_WITHOUT_HYDROGEN", n_atoms)?);
    let elements: Vec<Option<Element>> = match numbers {
        Some(numbers) => numbers
            .into_iter()
            .enumerate()
            // LEaP takes dummies for the element that a file of types gives them, mostly hydrogen.
            .map(|(atom, number)| {
                let is_dummy = is_dummy(names[atom], labels[residue_of[atom]]);
                Element::from_atomic_number(number).filter(|_| !is_dummy)
            })
            .collect(),
        None => {
            let weighed = |atom: usize| Weighed {
                mass_da: masses[atom],
                name: names[atom],
                residue: labels[residue_of[atom]],
            };
            elements_by_mass(&(0..n_atoms).map(weighed).collect::<Vec<_>>(), &bonds)
        }
    };
    let is_repartitioned = is_repartitioned(elements.iter().copied().zip(masses.iter().copied()));
    let atoms = (0..n_atoms).map(|atom| Atom {
        name: names[atom],
        element: elements[atom],
        atom_type: types.as_ref().map(|types| types[atom]).filter(|name| !name.is_empty()),
        mass_da: match elements[atom] {
            Some(element) if is_repartitioned => element.mass_da(),
            _ => masses[atom],
        },
        residue: residue_of[atom],
    });

    let bonds = without_constraints(bonds, |atom| elements[atom as usize]);

    let ids = file.if_there("RESIDUE_CHAINID", |flag| file.texts_of(flag, n_residues))?;
    let author = file.if_there("RESIDUE_NUMBER", |flag| file.numbers_of(flag, n_residues))?;
    let codes = file.if_there("RESIDUE_ICODE", |flag| file.blanks_of(flag, n_residues))?;
    let mut chains: Vec<&str> = Vec::new();
    let mut residues = Vec::new();
    for (n, name) in labels.iter().enumerate() {
        let id = ids.as_ref().map_or("", |ids| ids[n]);
        if chains.last() != Some(&id) {
            chains.push(id);
        }
        residues.push(Residue {
            name,
            number: author.as_ref().map_or(n as i64 + 1, |numbers| numbers[n]),
            insertion_code: codes.as_ref().and_then(|codes| codes[n].chars().next()),
            chain: chains.len() - 1,
        });
    }
    let charges = charges.into_iter().map(|charge| charge / CHARGE_UNIT).collect();
    let topology = Topology::new(atoms, residues, chains, bonds);
    topology
        .map(|topology| topology.with_charges(charges))
        .map_err(|problem| error(Place::Whole, FormatErrorKind::Topology(problem)))
}

fn error(place: Place, problem: FormatErrorKind) -> FormatError {
    FormatError { format: "Amber prmtop", place, problem }
}

struct Prmtop<'a> {
    sections: HashMap<&'a str, Section<'a>>,
}

/// What a flag is followed by.
struct Section<'a> {
    /// Number of the flag's line, from 1.
    line: usize,
    /// How wide an item is.
    width: usize,
    /// Most items of a line.
    per_line: usize,
    lines: Vec<(usize, &'a str)>,
}

impl<'a> Prmtop<'a> {
    fn sections(text: &'a str) -> Result<Self, FormatError> {
        let mut sections: HashMap<&str, Section<'_>> = HashMap::new();
        let mut present: Option<(&str, Section<'_>)> = None;
        for (n, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line)) {
            if let Some(name) = line.strip_prefix("%FLAG") {
                sections.extend(present.take());
                let section = Section { line: n, width: 0, per_line: 0, lines: Vec::new() };
                present = Some((name.trim_ascii(), section));
            } else if let Some(format) = line.strip_prefix("%FORMAT") {
                let Some((_, section)) = &mut present else { continue };
                let Some((per_line, width)) = columns(format) else {
                    let expected = "a format such as (20a4), (10I8) or (5E16.8)";
                    let problem = FormatErrorKind::unexpected_text(expected, line);
                    return Err(error(Place::Line(n), problem));
                };
                (section.per_line, section.width) = (per_line, width);
            } else if !line.starts_with('%')
                && let Some((_, section)) = &mut present
            {
                section.lines.push((n, line));
            }
        }
        sections.extend(present);
        for section in sections.values_mut() {
            while section.lines.pop_if(|(_, line)| line.trim_ascii().is_empty()).is_some() {}
        }
        Ok(Self { sections })
    }

    fn section(&self, flag: &str) -> Result<&Section<'a>, FormatError> {
        self.sections.get(flag).ok_or_else(|| {
            let expected = "POINTERS, ATOM_NAME, CHARGE, MASS, RESIDUE_LABEL, RESIDUE_POINTER, \
                            BONDS_INC_HYDROGEN and BONDS_WITHOUT_HYDROGEN";
            let found = format!("no %FLAG {flag}");
            error(Place::Whole, FormatErrorKind::Unexpected { expected, found })
        })
    }

    /// What a section gives, if there is one.
    fn if_there<T>(
        &self,
        flag: &str,
        of: impl FnOnce(&str) -> Result<T, FormatError>,
    ) -> Result<Option<T>, FormatError> {
        if self.sections.contains_key(flag) { of(flag).map(Some) } else { Ok(None) }
    }

    fn at_flag(&self, flag: &str, expected: &'static str, found: String) -> FormatError {
        let place = self.sections.get(flag).map_or(Place::Whole, |at| Place::Line(at.line));
        error(place, FormatErrorKind::Unexpected { expected, found })
    }

    /// The items of a section, without blanks around, each with its line.
    fn items(&self, flag: &str) -> Result<impl Iterator<Item = (usize, &'a str)>, FormatError> {
        let section = self.section(flag)?;
        if section.width == 0 {
            let found = format!("none for {flag}");
            return Err(self.at_flag(flag, "a line %FORMAT", found));
        }
        let Section { width, per_line, ref lines, .. } = *section;
        let n_lines = lines.len();
        Ok(lines.iter().enumerate().flat_map(move |(nth_line, (n, line))| {
            // All lines but the last are full, though blanks at their ends may have been cut off.
            let n_last = line.trim_ascii_end().len().div_ceil(width).min(per_line);
            let n_items = if nth_line + 1 < n_lines { per_line } else { n_last };
            let item = move |nth: usize| line.get(nth * width..line.len().min((nth + 1) * width));
            (0..n_items).map(move |nth| (*n, item(nth).unwrap_or("").trim_ascii()))
        }))
    }

    /// Texts of which as many must be there.
    fn texts_of(&self, flag: &str, n: usize) -> Result<Vec<&'a str>, FormatError> {
        let texts: Vec<&str> = self.items(flag)?.map(|(_, text)| text).collect();
        self.check_count(flag, texts.len(), n)?;
        Ok(texts)
    }

    /// Texts of which most are blank, so that those at the end may not be there.
    fn blanks_of(&self, flag: &str, n: usize) -> Result<Vec<&'a str>, FormatError> {
        let mut texts: Vec<&str> = self.items(flag)?.map(|(_, text)| text).collect();
        if texts.len() < n {
            texts.resize(n, "");
        }
        self.check_count(flag, texts.len(), n)?;
        Ok(texts)
    }

    fn floats_of(&self, flag: &str, n: usize) -> Result<Vec<f64>, FormatError> {
        let mut numbers = Vec::new();
        for (line, text) in self.items(flag)? {
            // Fortran may write 1.0D+00.
            let number = text.parse().or_else(|_| text.replace(['D', 'd'], "E").parse()).ok();
            let Some(number) = number.filter(|x: &f64| x.is_finite()) else {
                let problem = FormatErrorKind::unexpected_text("a number", text);
                return Err(error(Place::Line(line), problem));
            };
            numbers.push(number);
        }
        self.check_count(flag, numbers.len(), n)?;
        Ok(numbers)
    }

    fn numbers(&self, flag: &str, expected: &'static str) -> Result<Vec<i64>, FormatError> {
        let number = |(line, text): (usize, &str)| {
            text.parse().map_err(|_| {
                error(Place::Line(line), FormatErrorKind::unexpected_text(expected, text))
            })
        };
        self.items(flag)?.map(number).collect()
    }

    fn numbers_of(&self, flag: &str, n: usize) -> Result<Vec<i64>, FormatError> {
        let numbers = self.numbers(flag, "a whole number")?;
        self.check_count(flag, numbers.len(), n)?;
        Ok(numbers)
    }

    fn check_count(&self, flag: &str, found: usize, n: usize) -> Result<(), FormatError> {
        if found == n {
            return Ok(());
        }
        let expected = "as many as POINTERS says there are";
        Err(self.at_flag(flag, expected, format!("{found} of {n} in {flag}")))
    }

    /// The residue of each atom.
    fn residues(&self, n_atoms: usize, n_residues: usize) -> Result<Vec<usize>, FormatError> {
        let flag = "RESIDUE_POINTER";
        let firsts = self.numbers_of(flag, n_residues)?;
        let ascend = firsts.windows(2).all(|pair| pair[0] < pair[1]);
        let last = firsts.last().copied().unwrap_or(0);
        if firsts.first() != Some(&1) || !ascend || last > n_atoms as i64 {
            let expected = "first atoms of residues, ascending from 1 to the number of atoms";
            let found = format!("{:?} to {last}", firsts.first().copied().unwrap_or(0));
            return Err(self.at_flag(flag, expected, found));
        }
        let ends = firsts.iter().skip(1).map(|first| *first as usize - 1).chain([n_atoms]);
        let mut residue_of = Vec::with_capacity(n_atoms);
        for (residue, end) in ends.enumerate() {
            residue_of.resize(end, residue);
        }
        Ok(residue_of)
    }

    /// Bonds of a list of two indices and a type each.
    fn bonds(&self, flag: &str, n_atoms: usize) -> Result<Vec<[u32; 2]>, FormatError> {
        let expected = "bonds by three numbers each: two of atoms, times 3, and a type";
        let numbers = self.numbers(flag, expected)?;
        let (triples, rest) = numbers.as_chunks::<3>();
        if !rest.is_empty() {
            return Err(self.at_flag(flag, expected, format!("{} numbers", numbers.len())));
        }
        let mut bonds = Vec::new();
        for [a, b, _] in triples {
            let atom = |index: i64| {
                let atom = u32::try_from(index / PER_ATOM).ok()?;
                (index % PER_ATOM == 0 && (atom as usize) < n_atoms).then_some(atom)
            };
            match (atom(*a), atom(*b)) {
                (Some(a), Some(b)) if a != b => bonds.push([a, b]),
                _ => return Err(self.at_flag(flag, expected, format!("a bond of {a} and {b}"))),
            }
        }
        Ok(bonds)
    }
}

/// How many items a line has, and how wide each is, of a Fortran format: 20 and 4 of `(20a4)`.
fn columns(format: &str) -> Option<(usize, usize)> {
    let format = format.trim_ascii().strip_prefix('(')?.strip_suffix(')')?;
    let letter = format.find(|c: char| c.is_ascii_alphabetic())?;
    let (per_line, rest) = (&format[..letter], &format[letter + 1..]);
    let width = rest.split('.').next()?;
    let per_line: usize =
        if per_line.is_empty() { 1 } else { per_line.trim_ascii().parse().ok()? };
    let width: usize = width.trim_ascii().parse().ok()?;
    ((1..=1000).contains(&per_line) && (1..=1000).contains(&width)).then_some((per_line, width))
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn formats_give_the_columns() {
        assert_eq!(columns("(20a4)"), Some((20, 4)));
        assert_eq!(columns("(5E16.8)   "), Some((5, 16)));
        assert_eq!(columns("(a80)"), Some((1, 80)));
        assert_eq!(columns("(20I4)"), Some((20, 4)));
        assert_eq!(
            [columns("20a4"), columns("(a)"), columns("(0a4)"), columns("(9999999999a4)")],
            [None; 4]
        );
    }
}
