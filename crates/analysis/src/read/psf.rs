//! PSF: atoms and bonds, as CHARMM, X-PLOR, NAMD and VMD write them.
//!
//! Of CHARMM's files the types may be numbers, which is what masks then take. Segments are chains.
//! No residue has coordinates here.

use super::guess::{Weighed, elements_by_mass, is_repartitioned, without_constraints};
use crate::error::{FormatError, FormatErrorKind, Place};
use crate::topology::{Atom, Residue};
use crate::{Element, Topology};

/// Whether a text starts as a PSF file does.
pub(super) fn is_psf(text: &str) -> bool {
    text.split_ascii_whitespace().next() == Some("PSF")
}

pub(super) fn parse(text: &str) -> Result<Topology, FormatError> {
    let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
    let head = lines.next().map_or("", |(_, line)| line);
    if !is_psf(head) {
        return Err(unexpected(Place::Line(1), "PSF", head));
    }
    let segment = segment_columns(head);
    let n_atoms = section(&mut lines, "!NATOM")
        .ok_or_else(|| whole("a line with the number of atoms and !NATOM"))?;
    let mut rows = Vec::new();
    // So many lines, as far as the file has them: the number alone takes no memory.
    for _ in 0..n_atoms {
        let (n, line) =
            lines.next().ok_or_else(|| whole("as many atoms as the line with !NATOM says"))?;
        let row = row(line, segment.clone());
        let expected =
            "an atom: number, segment, residue's number and name, name, type, charge, mass";
        rows.push(row.ok_or_else(|| unexpected(Place::Line(n), expected, line))?);
    }
    if rows.is_empty() {
        return Err(FormatError {
            format: "PSF",
            place: Place::Whole,
            problem: FormatErrorKind::NoAtoms,
        });
    }
    let n_bonds = section(&mut lines, "!NBOND").unwrap_or(0);
    let bonds = bonds(&mut lines, n_bonds, rows.len())?;

    let weighed: Vec<_> = rows
        .iter()
        .map(|row| Weighed { mass_da: row.mass_da, name: row.name, residue: row.residue })
        .collect();
    let elements = elements_by_mass(&weighed, &bonds);
    let masses = rows.iter().map(|row| row.mass_da);
    let is_repartitioned = is_repartitioned(elements.iter().copied().zip(masses));
    let bonds = without_constraints(bonds, |atom| elements[atom as usize]);
    let mut chains: Vec<&str> = Vec::new();
    let mut residues: Vec<Residue<'_>> = Vec::new();
    let mut atoms = Vec::new();
    for (row, element) in rows.iter().zip(elements) {
        if chains.last() != Some(&row.segment) {
            chains.push(row.segment);
        }
        let residue = Residue {
            name: row.residue,
            number: row.number,
            insertion_code: row.insertion_code,
            chain: chains.len() - 1,
        };
        if residues.last() != Some(&residue) {
            residues.push(residue);
        }
        let mass_da = element.filter(|_| is_repartitioned).map_or(row.mass_da, Element::mass_da);
        let residue = residues.len() - 1;
        atoms.push(Atom {
            name: row.name,
            element,
            atom_type: Some(row.atom_type),
            mass_da,
            residue,
        });
    }
    let charges = rows.iter().map(|row| row.charge_e).collect();
    Topology::new(atoms, residues, chains, bonds)
        .map(|topology| topology.with_charges(charges))
        .map_err(|problem| FormatError {
            format: "PSF",
            place: Place::Whole,
            problem: FormatErrorKind::Topology(problem),
        })
}

/// A line of the atoms.
struct Row<'a> {
    segment: &'a str,
    number: i64,
    insertion_code: Option<char>,
    residue: &'a str,
    name: &'a str,
    atom_type: &'a str,
    charge_e: f64,
    mass_da: f64,
}

fn whole(expected: &'static str) -> FormatError {
    unexpected(Place::Whole, expected, "the end of the file")
}

fn unexpected(place: Place, expected: &'static str, found: &str) -> FormatError {
    let problem = FormatErrorKind::unexpected_text(expected, found);
    FormatError { format: "PSF", place, problem }
}

/// Where the segment stands in a line of fixed columns, which most files have; those of NAMD have
/// words with blanks between.
fn segment_columns(head: &str) -> Option<std::ops::Range<usize>> {
    let mut words = head.split_ascii_whitespace();
    let is_extended = words.clone().any(|word| word == "EXT");
    if words.any(|word| word == "NAMD") {
        None
    } else if is_extended {
        Some(11..19)
    } else {
        Some(9..13)
    }
}

/// The atom of a line. Only a segment may be blank, which its columns then are.
fn row(line: &str, segment: Option<std::ops::Range<usize>>) -> Option<Row<'_>> {
    let is_blank = segment
        .and_then(|columns| line.get(columns))
        .is_some_and(|columns| columns.trim_ascii().is_empty());
    let mut words = line.split_ascii_whitespace().skip(1);
    let segment = if is_blank { "" } else { words.next()? };
    let number = words.next()?;
    let (number, insertion_code) = match number.parse() {
        Ok(number) => (number, None),
        Err(_) => {
            let code = number.chars().next_back()?;
            (number[..number.len() - code.len_utf8()].parse().ok()?, Some(code))
        }
    };
    let (residue, name, atom_type) = (words.next()?, words.next()?, words.next()?);
    let mut number_of = || words.next()?.parse().ok().filter(|x: &f64| x.is_finite());
    let (charge_e, mass_da) = (number_of()?, number_of()?);
    Some(Row { segment, number, insertion_code, residue, name, atom_type, charge_e, mass_da })
}

/// Goes on to a section, and returns how many there are in it.
fn section<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>, name: &str) -> Option<usize> {
    // NAMD's titles may have the name of a section, without a number before.
    lines.find_map(|(_, line)| line.split_once(name)?.0.trim_ascii().parse().ok())
}

/// As many pairs of atoms, counted from 1.
fn bonds<'a>(
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
    n_bonds: usize,
    n_atoms: usize,
) -> Result<Vec<[u32; 2]>, FormatError> {
    let mut ends: Vec<u32> = Vec::new();
    while ends.len() / 2 < n_bonds {
        let (n, line) =
            lines.next().ok_or_else(|| whole("as many bonds as the line with !NBOND says"))?;
        for word in line.split_ascii_whitespace() {
            let atom = word.parse().ok().filter(|atom| (1..=n_atoms as u64).contains(atom));
            let Some(atom) = atom else {
                return Err(unexpected(Place::Line(n), "numbers of atoms, from 1 on", word));
            };
            ends.push((atom - 1) as u32);
        }
    }
    let (bonds, _) = ends.as_chunks::<2>();
    // Extended files of CHARMM list some bonds twice, and none joins an atom to itself.
    Ok(bonds.iter().take(n_bonds).filter(|[a, b]| a != b).copied().collect())
}
