//! GRO: fixed columns in nm, as GROMACS writes structures.

use std::io::{self, BufRead};

use super::guess::{element_by_name, element_of_lone};
use super::pdb::Lines;
use super::structure::{Parts, Record, Structure, check_line_ends, check_position};
use super::{bonds, coarse, sites};
use crate::Cell;
use crate::error::{FormatError, FormatErrorKind, Place};

const ANGSTROM_PER_NM: f64 = 10.0;

/// Where positions start; residue number, its name, the atom's name and number stand before.
const POSITIONS: usize = 20;

/// Whether a text is GRO: a title, a number alone, and as the next line an atom or a box.
pub(super) fn is_gro(text: &str) -> bool {
    let mut lines = text.lines().skip(1);
    let counted = lines.next().is_some_and(|line| n_atoms(line).is_some());
    counted && lines.next().is_some_and(|line| atom(line, width(line)).is_some())
}

/// Whether a text may be a GRO file of so many atoms at most, line by line: whatever it is, its
/// lines end as lines do, and no atom that it has is where none can be.
pub(super) fn check(text: impl BufRead, most: usize) -> io::Result<Result<(), FormatError>> {
    let mut lines = Lines::new(text);
    let mut n_left = usize::MAX;
    let mut digits = None;
    while let Some((n, line)) = lines.next()?
        && n_left > 0
    {
        let checked = match n {
            1 => check_line_ends(&line),
            2 => {
                n_left = n_atoms(&line).unwrap_or(0);
                if n_left > most { Err(FormatErrorKind::TooManyAtoms { most }) } else { Ok(()) }
            }
            _ => {
                n_left -= 1;
                let width = *digits.get_or_insert_with(|| width(&line));
                atom(&line, width).map_or(Ok(()), |atom| atom.check())
            }
        };
        if let Err(problem) = checked {
            return Ok(Err(refused(n, problem)));
        }
    }
    Ok(Ok(()))
}

fn refused(line: usize, problem: FormatErrorKind) -> FormatError {
    FormatError { format: "GRO", place: Place::Line(line), problem }
}

pub(super) fn parse(text: &str) -> Result<Structure, FormatError> {
    check_line_ends(text).map_err(|problem| refused(1, problem))?;
    let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
    let mut atoms = Vec::new();
    let end = |expected| error(Place::Whole, expected, "the end of the file");
    lines.next().ok_or_else(|| end("a title"))?;
    let (n, line) = lines.next().ok_or_else(|| end("the number of atoms"))?;
    let n_atoms =
        n_atoms(line).ok_or_else(|| error(Place::Line(n), "the number of atoms", line))?;
    let mut digits = None;
    // So many lines, as far as the file has them: the number alone takes no memory.
    for _ in 0..n_atoms {
        let (n, line) = lines.next().ok_or_else(|| end("as many atoms as the second line says"))?;
        // The first atom has the width of all, whose positions may touch.
        let width = *digits.get_or_insert_with(|| width(line));
        let Some(atom) = atom(line, width) else {
            let expected = "an atom: number and name of its residue, its name and number, x, y, z";
            return Err(error(Place::Line(n), expected, line));
        };
        atom.check().map_err(|problem| refused(n, problem))?;
        atoms.push(atom);
    }
    let mut parts = Parts::default();
    for atoms in atoms.chunk_by(|a, b| a.is_of_residue(b)) {
        let is_lone = atoms.iter().all(|atom| atom.name == atoms[0].name);
        let element = if is_lone { element_of_lone } else { element_by_name };
        for atom in atoms {
            parts.push(&Record {
                name: atom.name,
                element: element(atom.name, atom.residue),
                location: None,
                residue: atom.residue,
                number: atom.residue_number,
                insertion_code: None,
                chain: "",
                starts_chain: false,
                position: atom.position.map(|x| x * ANGSTROM_PER_NM),
            });
        }
    }
    let (n, line) = lines.next().ok_or_else(|| end("a line with the box"))?;
    let cell = cell(line)
        .map_err(|()| error(Place::Line(n), "a box of 3 or 9 numbers, or zeros for none", line))?;
    let mut bonds = Vec::new();
    parts.join(cell.as_ref(), &mut bonds);
    sites::take_from_sites(&mut parts, cell.as_ref());
    if coarse::is_coarse(&parts, cell.as_ref()) {
        coarse::complete(&mut parts, cell.as_ref(), &mut bonds);
    } else {
        bonds::complete(&parts, cell.as_ref(), &mut bonds);
    }
    // Each model has as many lines, if it is one of these atoms.
    let n_lines = n_atoms.saturating_add(3);
    let n_models = 1 + lines.filter(|(_, line)| !line.trim_ascii().is_empty()).count() / n_lines;
    let whole = |problem| FormatError { format: "GRO", place: Place::Whole, problem };
    parts.finish(cell, n_models, bonds).map_err(whole)
}

struct Atom<'a> {
    residue_number: i64,
    residue: &'a str,
    name: &'a str,
    /// In nm.
    position: [f64; 3],
}

impl Atom<'_> {
    /// Refuses one where none can be.
    fn check(&self) -> Result<(), FormatErrorKind> {
        let position = self.position.map(|x| x * ANGSTROM_PER_NM);
        check_position(position, ["x", "y", "z"], (self.name, self.residue, self.residue_number))
    }

    fn is_of_residue(&self, other: &Self) -> bool {
        (self.residue_number, self.residue) == (other.residue_number, other.residue)
    }
}

fn n_atoms(line: &str) -> Option<usize> {
    line.trim_ascii().parse().ok()
}

/// How wide positions are: as far as one point is from the next. 8 where there are no two.
fn width(line: &str) -> usize {
    let mut points = line.bytes().enumerate().skip(POSITIONS).filter(|(_, byte)| *byte == b'.');
    match (points.next(), points.next()) {
        (Some((first, _)), Some((second, _))) => second - first,
        _ => 8,
    }
}

fn atom(line: &str, width: usize) -> Option<Atom<'_>> {
    let column = |from: usize, to: usize| line.get(from..to).map(str::trim_ascii);
    let mut position = [0.0; 3];
    for (axis, x) in position.iter_mut().enumerate() {
        let from = POSITIONS + axis * width;
        let text = line.get(from..line.len().min(from + width))?.trim_ascii();
        *x = text.parse().ok().filter(|x: &f64| (x * ANGSTROM_PER_NM).is_finite())?;
    }
    Some(Atom {
        residue_number: column(0, 5)?.parse().ok()?,
        residue: column(5, 10)?,
        name: column(10, 15)?,
        position,
    })
}

/// The cell of a line with the diagonal of its vectors, and perhaps v1y, v1z, v2x, v2z, v3x, v3y.
fn cell(line: &str) -> Result<Option<Cell>, ()> {
    let numbers: Result<Vec<f64>, _> =
        line.split_ascii_whitespace().take(10).map(str::parse).collect();
    let numbers = numbers.or_else(|_| touching(line)).map_err(drop)?;
    let nm = match numbers[..] {
        [x, y, z] => [[x, 0.0, 0.0], [0.0, y, 0.0], [0.0, 0.0, z]],
        [ax, by, cz, ay, az, bx, bz, cx, cy] => [[ax, ay, az], [bx, by, bz], [cx, cy, cz]],
        _ => return Err(()),
    };
    if nm == [[0.0; 3]; 3] {
        return Ok(None);
    }
    Cell::from_vectors(nm.map(|edge| edge.map(|x| x * ANGSTROM_PER_NM))).map(Some).ok_or(())
}

/// Numbers with as many decimals as the first has, of large boxes without blanks between.
fn touching(line: &str) -> Result<Vec<f64>, std::num::ParseFloatError> {
    let mut points = line.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
    let width = match (points.next(), points.next()) {
        (Some((first, _)), Some((second, _))) => second - first,
        _ => line.len(),
    };
    let columns = line.trim_ascii_end().as_bytes().chunks(width.max(1)).take(10);
    columns.map(|column| String::from_utf8_lossy(column).trim_ascii().parse()).collect()
}

fn error(place: Place, expected: &'static str, found: &str) -> FormatError {
    let problem = FormatErrorKind::unexpected_text(expected, found);
    FormatError { format: "GRO", place, problem }
}
