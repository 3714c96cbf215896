//! PDB files: columns, with the liberties that programs take in them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, Read as _};

use super::bonds::{self, Family};
use super::contents::{Census, Contents, Listed};
use super::guess::{bare, element_by_name, element_of_lone, is_dummy};
use super::structure::{
    self, BYTE_ORDER_MARK, Parts, Record, Structure, carriage_return, check_line_ends,
    check_position, without_mark,
};
use super::{coarse, sites};
use crate::error::{FormatError, FormatErrorKind, Place};
use crate::{Cell, Element};

pub(super) fn parse(text: &str) -> Result<Structure, FormatError> {
    let mut file = Pdb::default();
    for (n, line) in text.split_terminator('\n').map(cut).enumerate() {
        let taken = match n {
            0 => check_line_ends(line).and_then(|()| file.line(without_mark(line))),
            _ => file.line(line),
        };
        taken.map_err(|problem| error(Place::Line(n + 1), problem))?;
    }
    let mut bonds = file.bonds();
    file.parts.join(file.cell.as_ref(), &mut bonds);
    sites::take_from_sites(&mut file.parts, file.cell.as_ref());
    if coarse::is_coarse(&file.parts, file.cell.as_ref()) {
        coarse::complete(&mut file.parts, file.cell.as_ref(), &mut bonds);
    } else {
        bonds::complete(&file.parts, file.cell.as_ref(), &mut bonds);
    }
    file.parts
        .finish(file.cell, file.n_models.max(1), bonds)
        .map_err(|problem| error(Place::Whole, problem))
}

/// Longer lines are cut: a record has 80 columns, and a hostile file perhaps no end of line at all.
const MAX_LINE_BYTES: usize = 1 << 10;

/// A line as [`Lines`] has it: a file that is checked and one that is read are the same.
fn cut(line: &str) -> &str {
    let end = line.len().min(MAX_LINE_BYTES);
    match line.get(..end) {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        // It ends within a character.
        None => (1..4).find_map(|n| line.get(..end - n)).unwrap_or_default(),
    }
}

/// The lines of a text, in the memory of one: read whole, a file of 300 MB took 1.1 GB.
pub(super) struct Lines<R> {
    text: R,
    bytes: Vec<u8>,
    /// Of the line that was read last, from 1.
    n: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(text: R) -> Self {
        Self { text, bytes: Vec::new(), n: 0 }
    }

    /// The next line and its number.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, Cow<'_, str>)>> {
        self.bytes.clear();
        if self.text.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut self.bytes)? == 0 {
            return Ok(None);
        }
        if self.bytes.pop_if(|byte| *byte == b'\n').is_none() {
            self.text.skip_until(b'\n')?;
        }
        self.bytes.pop_if(|byte| *byte == b'\r');
        self.n += 1;
        let line = self.bytes.strip_prefix(BYTE_ORDER_MARK.as_bytes()).filter(|_| self.n == 1);
        Ok(Some((self.n, String::from_utf8_lossy(line.unwrap_or(&self.bytes)))))
    }
}

/// Whether a text is a PDB file of so many atoms at most, line by line: what [`parse`] refuses is
/// refused.
pub(super) fn check(text: impl BufRead, most: usize) -> io::Result<Result<(), FormatError>> {
    let mut lines = Lines::new(text);
    let mut census = Census::default();
    let mut after_ter = false;
    while let Some((n, line)) = lines.next()? {
        if n == 1
            && let Err(problem) = check_line_ends(&line)
        {
            return Ok(Err(error(Place::Line(n), problem)));
        }
        match record(&line) {
            "ATOM" | "HETATM" => {
                let counted = count(&mut census, &line, std::mem::take(&mut after_ter));
                if let Err(problem) = counted.and_then(|()| census.check(most)) {
                    return Ok(Err(error(Place::Line(n), problem)));
                }
            }
            "TER" => after_ter = true,
            // The first model is over.
            "ENDMDL" | "END" if census.has_atoms() => break,
            _ => {}
        }
    }
    // The rest is not looked at, but for whether it can be read.
    io::copy(&mut lines.text, &mut io::sink())?;
    let has_atoms = census.has_atoms();
    Ok(if has_atoms { Ok(()) } else { Err(error(Place::Whole, FormatErrorKind::NoAtoms)) })
}

fn count(census: &mut Census, line: &str, starts_chain: bool) -> Result<(), FormatErrorKind> {
    let last = Last { residue: census.last_residue(), has: &|name| census.last_residue_has(name) };
    let record = atom_record(line, &last, starts_chain)?;
    census.atom(&record);
    Ok(())
}

/// What a text contains, line by line.
pub(super) fn contents(text: impl BufRead) -> io::Result<Result<Contents, FormatError>> {
    let mut lines = Lines::new(text);
    let mut census = Census::default();
    let mut n_models = 0;
    let mut is_over = false;
    let mut after_ter = false;
    let mut remarks = MissingRemarks::default();
    while let Some((n, line)) = lines.next()? {
        if n == 1
            && let Err(problem) = check_line_ends(&line)
        {
            return Ok(Err(error(Place::Line(n), problem)));
        }
        match record(&line) {
            "ATOM" | "HETATM" if !is_over => {
                if let Err(problem) = count(&mut census, &line, std::mem::take(&mut after_ter)) {
                    return Ok(Err(error(Place::Line(n), problem)));
                }
            }
            "TER" => after_ter = true,
            "MODEL" => n_models += 1,
            "ENDMDL" | "END" => is_over |= census.has_atoms(),
            // The first line of a chain has the whole number, and so has every other.
            "SEQRES" => {
                if let Ok(length) = columns(&line, 13, 17).parse() {
                    census.sequence(columns(&line, 11, 12), |_| length);
                }
            }
            "REMARK" if columns(&line, 7, 10) == "465" => {
                if let Some(residue) = remarks.residue(&line) {
                    census.missing(residue);
                }
            }
            _ => {}
        }
    }
    let whole = |problem| error(Place::Whole, problem);
    Ok(census.finish(n_models.max(1)).map_err(whole))
}

/// REMARK 465, where residues of several models are listed with the numbers of these.
#[derive(Default)]
struct MissingRemarks {
    /// The model of the first that was listed.
    model: Option<String>,
}

impl MissingRemarks {
    /// The residue of a line; none of those that explain the list, and of other models than the
    /// first.
    fn residue(&mut self, line: &str) -> Option<Listed> {
        let chain = columns(line, 19, 20);
        let (name, model) = (columns(line, 15, 18), columns(line, 10, 14));
        let is_listed = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            && columns(line, 14, 15).is_empty()
            && columns(line, 18, 19).is_empty()
            && columns(line, 27, 80).is_empty();
        let number = columns(line, 20, 26).parse().ok().filter(|_| is_listed)?;
        if self.model.get_or_insert_with(|| model.to_owned()) != model {
            return None;
        }
        Some(Listed {
            chain: chain.to_owned(),
            name: name.to_owned(),
            number,
            insertion_code: columns(line, 26, 27).chars().next(),
        })
    }
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
    /// Lines with what is connected, of which a file may have any number.
    connected: Vec<&'a str>,
}

impl<'a> Pdb<'a> {
    fn line(&mut self, line: &'a str) -> Result<(), FormatErrorKind> {
        match record(line) {
            "ATOM" | "HETATM" if !self.is_over => self.atom(line)?,
            "TER" => self.after_ter = true,
            "MODEL" => self.n_models += 1,
            "ENDMDL" | "END" => self.is_over |= !self.parts.atoms.is_empty(),
            "CRYST1" if self.cell.is_none() => self.cell = cell(line),
            "CONECT" => self.connected.push(line),
            _ => {}
        }
        Ok(())
    }

    fn atom(&mut self, line: &'a str) -> Result<(), FormatErrorKind> {
        let last = Last {
            residue: self.parts.last_residue().map(|last| (last.name, last.number)),
            has: &|name| self.parts.last_residue_has(name),
        };
        let record = atom_record(line, &last, std::mem::take(&mut self.after_ter))?;
        if let Some(atom) = self.parts.push(&record) {
            self.serials.push((columns(line, 6, 11), atom));
        }
        Ok(())
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
            let atom = atoms.get(serial).copied().flatten().filter(|_| !serial.is_empty())?;
            self.parts.atoms[atom]
                .element
                .filter(|element| !element.is_metal())
                .map(|_| atom as u32)
        };
        let mut bonds = Vec::new();
        for line in &self.connected {
            // Numbers of five digits without blanks between, so that it has to be cut.
            let [first, others @ ..] =
                [6, 11, 16, 21, 26].map(|from| atom(columns(line, from, from + 5)));
            let Some(first) = first else { continue };
            bonds.extend(others.into_iter().flatten().map(|other| [first, other]));
        }
        bonds.retain(|[a, b]| a != b);
        bonds
    }
}

/// The residue before an atom, which may be its own.
struct Last<'a> {
    /// Its name and number.
    residue: Option<(&'a str, i64)>,
    /// Whether it has an atom of a name.
    has: &'a dyn Fn(&str) -> bool,
}

fn atom_record<'a>(
    line: &'a str,
    last: &Last<'_>,
    starts_chain: bool,
) -> Result<Record<'a>, FormatErrorKind> {
    let position = position(line)?;
    let name = columns(line, 12, 16);
    let residue = columns(line, 17, 21);
    let (number, insertion_code) = residue_number(line, name, residue, last);
    check_position(position, ["x", "y", "z"], (name, residue, number))?;
    Ok(Record {
        name,
        element: element(line, residue),
        location: Some(columns(line, 16, 17)).filter(|location| !location.is_empty()),
        residue,
        number,
        insertion_code,
        chain: columns(line, 21, 22),
        starts_chain,
        position,
    })
}

/// Number and insertion code. Beyond 9999 a number may take the insertion code's place, be
/// written in hybrid-36 or in hexadecimal from A000, or be stars.
fn residue_number(line: &str, name: &str, residue: &str, last: &Last<'_>) -> (i64, Option<char>) {
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
    let before = last.residue.map_or(0, |(_, number)| number);
    let is_next = last.residue.is_some_and(|(before, _)| before != residue) || (last.has)(name);
    let readings = [hybrid_36(text), shifted_hex(text)];
    let goes_on =
        readings.iter().flatten().find(|number| **number == before || **number == before + 1);
    let any = goes_on.or(readings.iter().flatten().next()).copied();
    (any.unwrap_or(if is_next { before + 1 } else { before }), code)
}

/// The kind of a line.
fn record(line: &str) -> &str {
    line.get(..6).unwrap_or(line).trim_ascii_end()
}

fn position(line: &str) -> Result<[f64; 3], FormatErrorKind> {
    if line.contains('\r') {
        return Err(carriage_return());
    }
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
    // Programs write what they take them for, D or H, into the columns.
    if is_dummy(columns(line, 12, 16), residue) {
        return None;
    }
    if let Some(element) = Element::from_symbol(columns(line, 76, 78)) {
        return Some(element);
    }
    let name = line.get(12..16)?;
    // An ion is called as its residue, in whatever column.
    let alone = name.trim();
    if bare(alone).eq_ignore_ascii_case(bare(residue))
        && let Some(element) = element_of_lone(alone, residue)
    {
        return Some(element);
    }
    if Family::of(residue) != Family::Other {
        return element_by_name(alone, residue);
    }
    let first = name.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).get(..1)?;
    if name.starts_with('H') && !name.ends_with(' ') {
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
