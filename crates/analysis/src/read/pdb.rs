//! PDB files: columns, with the liberties that programs take in them.

use std::collections::HashMap;
use std::io::{self, BufRead, Read as _};

use super::bonds::{self, Family};
use super::structure::{self, Parts, Record, Structure};
use crate::error::{FormatError, FormatErrorKind, Place};
use crate::{Cell, Element};

pub(super) fn parse(text: &str) -> Result<Structure, FormatError> {
    let mut file = Pdb::default();
    for (n, line) in text.lines().enumerate() {
        file.line(line).map_err(|problem| error(Place::Line(n + 1), problem))?;
    }
    let mut bonds = file.bonds();
    bonds::complete(&file.parts, file.cell.as_ref(), &mut bonds);
    file.parts
        .finish(file.cell, file.n_models.max(1), bonds)
        .map_err(|problem| error(Place::Whole, problem))
}

/// Longer lines are cut: a record has 80 columns, and a hostile file perhaps no end of line at all.
const MAX_LINE_BYTES: u64 = 1 << 10;

/// Whether a text is a PDB file, line by line: what [`parse`] refuses is refused.
pub(super) fn check(mut text: impl BufRead) -> io::Result<Result<(), FormatError>> {
    // In the memory of a line. Read whole, a file of 300 MB took 1.1 GB.
    let mut bytes = Vec::new();
    let mut n = 0;
    let mut has_atoms = false;
    loop {
        bytes.clear();
        if text.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if bytes.last() != Some(&b'\n') {
            text.skip_until(b'\n')?;
        }
        n += 1;
        let line = String::from_utf8_lossy(&bytes);
        match record(&line) {
            "ATOM" | "HETATM" => {
                if let Err(problem) = position(&line) {
                    return Ok(Err(error(Place::Line(n), problem)));
                }
                has_atoms = true;
            }
            // The first model is over.
            "ENDMDL" | "END" if has_atoms => break,
            _ => {}
        }
    }
    // The rest is not looked at, but for whether it can be read.
    io::copy(&mut text, &mut io::sink())?;
    Ok(if has_atoms { Ok(()) } else { Err(error(Place::Whole, FormatErrorKind::NoAtoms)) })
}

fn error(place: Place, problem: FormatErrorKind) -> FormatError {
    FormatError { format: "PDB", place, problem }
}

#[derive(Debug, Default)]
struct Pdb<'a> {
    parts: Parts<'a>,
    cell: Option<Cell>,
    n_models: usize,
    /// Whether the first model is over.
    is_over: bool,
    after_ter: bool,
    /// Serial numbers as they are written, since programs differ in how they go on after 99999.
    serials: Vec<(&'a str, usize)>,
    connected: Vec<[&'a str; 2]>,
}

impl<'a> Pdb<'a> {
    fn line(&mut self, line: &'a str) -> Result<(), FormatErrorKind> {
        match record(line) {
            "ATOM" | "HETATM" if !self.is_over => self.atom(line)?,
            "TER" => self.after_ter = true,
            "MODEL" => self.n_models += 1,
            "ENDMDL" | "END" => self.is_over |= !self.parts.atoms.is_empty(),
            "CRYST1" if self.cell.is_none() => self.cell = cell(line),
            "CONECT" => {
                // Numbers of five digits without blanks between, so that it has to be cut.
                let [first, others @ ..] =
                    [6, 11, 16, 21, 26].map(|from| columns(line, from, from + 5));
                let others = others.into_iter().filter(|serial| !serial.is_empty());
                self.connected.extend(others.map(|other| [first, other]));
            }
            _ => {}
        }
        Ok(())
    }

    fn atom(&mut self, line: &'a str) -> Result<(), FormatErrorKind> {
        let position = position(line)?;
        let name = columns(line, 12, 16);
        let residue = columns(line, 17, 21);
        let (number, insertion_code) = self.residue_number(line, name, residue);
        let record = Record {
            name,
            element: element(line, residue),
            location: Some(columns(line, 16, 17)).filter(|location| !location.is_empty()),
            residue,
            number,
            insertion_code,
            chain: columns(line, 21, 22),
            starts_chain: std::mem::take(&mut self.after_ter),
            position,
        };
        if let Some(atom) = self.parts.push(&record) {
            self.serials.push((columns(line, 6, 11), atom));
        }
        Ok(())
    }

    /// Number and insertion code. Beyond 9999 a number may take the insertion code's place, be
    /// written in hybrid-36 or in hexadecimal from A000, or be stars.
    fn residue_number(&self, line: &str, name: &str, residue: &str) -> (i64, Option<char>) {
        let code = columns(line, 26, 27).chars().next();
        if code.is_some_and(|code| code.is_ascii_digit())
            && let Ok(number) = columns(line, 22, 27).parse()
        {
            return (number, None);
        }
        let text = columns(line, 22, 26);
        if let Ok(number) = text.parse() {
            return (number, code);
        }
        let last = self.parts.last_residue();
        let before = last.map_or(0, |last| last.number);
        let is_next =
            last.is_some_and(|last| last.name != residue) || self.parts.last_residue_has(name);
        let readings = [hybrid_36(text), shifted_hex(text)];
        let goes_on =
            readings.iter().flatten().find(|number| **number == before || **number == before + 1);
        let any = goes_on.or(readings.iter().flatten().next()).copied();
        (any.unwrap_or(if is_next { before + 1 } else { before }), code)
    }

    /// Bonds by CONECT records, but for those of metals, which are no molecule's.
    fn bonds(&self) -> Vec<[u32; 2]> {
        if self.connected.is_empty() {
            return Vec::new();
        }
        let mut atoms: HashMap<&str, Option<usize>> = HashMap::new();
        for (serial, atom) in &self.serials {
            atoms.entry(serial).and_modify(|ambiguous| *ambiguous = None).or_insert(Some(*atom));
        }
        let atom = |serial: &str| {
            let atom = atoms.get(serial).copied().flatten()?;
            self.parts.atoms[atom]
                .element
                .filter(|element| !element.is_metal())
                .map(|_| atom as u32)
        };
        let bonds = self.connected.iter().filter_map(|[a, b]| Some([atom(a)?, atom(b)?]));
        bonds.filter(|[a, b]| a != b).collect()
    }
}

/// The kind of a line.
fn record(line: &str) -> &str {
    line.get(..6).unwrap_or(line).trim_ascii_end()
}

fn position(line: &str) -> Result<[f64; 3], FormatErrorKind> {
    Ok([coordinate(line, 30, 38)?, coordinate(line, 38, 46)?, coordinate(line, 46, 54)?])
}

fn coordinate(line: &str, from: usize, to: usize) -> Result<f64, FormatErrorKind> {
    let found = columns(line, from, to);
    let number = found.parse().ok().filter(|x: &f64| x.is_finite());
    number.ok_or_else(|| FormatErrorKind::Unexpected {
        expected: "a coordinate",
        found: format!("`{found}`"),
    })
}

/// Some columns of a line without blanks around; what is beyond the end is blank.
fn columns(line: &str, from: usize, to: usize) -> &str {
    line.get(from..to.min(line.len())).unwrap_or("").trim_ascii()
}

fn cell(line: &str) -> Option<Cell> {
    let [a, b, c, alpha, beta, gamma] = [(6, 15), (15, 24), (24, 33), (33, 40), (40, 47), (47, 54)]
        .map(|(from, to)| columns(line, from, to).parse().unwrap_or(f64::NAN));
    structure::cell([a, b, c], [alpha, beta, gamma])
}

/// The element by its own columns, or else by the name: its first letter in a standard residue.
/// Elsewhere the symbol ends in the second column, but for four characters, which fill them all.
fn element(line: &str, residue: &str) -> Option<Element> {
    if let Some(element) = Element::from_symbol(columns(line, 76, 78)) {
        return Some(element);
    }
    let name = line.get(12..16)?;
    let first = name.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).get(..1)?;
    if Family::of(residue) != Family::Other || name.starts_with('H') && !name.ends_with(' ') {
        return Element::from_symbol(first);
    }
    Element::from_symbol(name.get(..2)?.trim()).or_else(|| Element::from_symbol(first))
}

/// A number of four or five digits in base 36, upper case before lower, that goes on after 9999.
fn hybrid_36(text: &str) -> Option<i64> {
    let width = text.len() as u32;
    let first = text.chars().next()?;
    let same_case = text
        .chars()
        .all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() == first.is_ascii_lowercase());
    if !first.is_ascii_alphabetic() || !same_case || !(4..=5).contains(&width) {
        return None;
    }
    let value =
        i64::from_str_radix(text, 36).ok()? - 10 * 36_i64.pow(width - 1) + 10_i64.pow(width);
    Some(if first.is_ascii_lowercase() { value + 26 * 36_i64.pow(width - 1) } else { value })
}

/// A number in hexadecimal that goes on after 9999 with A000, as OpenMM and VMD write it.
fn shifted_hex(text: &str) -> Option<i64> {
    let width = text.len() as u32;
    if !(4..=5).contains(&width) {
        return None;
    }
    let value =
        i64::from_str_radix(text, 16).ok()? - 10 * 16_i64.pow(width - 1) + 10_i64.pow(width);
    Some(value).filter(|value| *value >= 10_i64.pow(width))
}
