//! mmCIF files: the categories that make a structure.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::contents::{Census, Contents, Listed};
use super::guess::is_dummy;
use super::structure::{
    self, Parts, Record, Structure, check_line_ends, check_position, without_mark,
};
use super::{bonds, sites};
use crate::error::{FormatError, FormatErrorKind, Place};
use crate::topology::{Atom, Residue};
use crate::{Cell, Element};

/// Whether a text starts as mmCIF does.
pub(super) fn is_mmcif(text: &str) -> bool {
    matches!(Tokens::new(text).next(), Some((_, Token::Block)))
}

pub(super) fn parse(text: &str) -> Result<Structure, FormatError> {
    let mut file = Mmcif::default();
    each_table(text, &mut file)?;
    file.finish()
}

/// Whether a text is mmCIF with so many atoms at most, in the memory of a residue: what [`parse`]
/// refuses is refused.
pub(super) fn check(text: &str, most: usize) -> Result<(), FormatError> {
    let mut file =
        Checked { most, census: Census::default(), models: Models::default(), label: None };
    each_table(text, &mut file)?;
    let has_atoms = file.census.has_atoms();
    if has_atoms { Ok(()) } else { Err(error(Place::Whole, FormatErrorKind::NoAtoms)) }
}

/// What a text contains.
pub(super) fn contents(text: &str) -> Result<Contents, FormatError> {
    let mut file = Counted::default();
    each_table(text, &mut file)?;
    let n_models = file.models.count;
    file.census.finish(n_models).map_err(|problem| error(Place::Whole, problem))
}

/// What takes the tables of a file.
trait Tables<'a> {
    /// Takes a table, of which `next` gives the values row by row.
    fn table(
        &mut self,
        line: usize,
        keys: &[&'a str],
        next: impl FnMut() -> Option<(usize, Token<'a>)>,
    ) -> Result<(), FormatError>;

    /// Whether the block that counts is over with the next one.
    fn has_atoms(&self) -> bool;
}

/// Gives the tables of the blocks up to the first one with atoms.
fn each_table<'a>(text: &'a str, file: &mut impl Tables<'a>) -> Result<(), FormatError> {
    check_line_ends(text).map_err(|problem| error(Place::Line(1), problem))?;
    let mut tokens = Tokens::new(text).peekable();
    while let Some((line, token)) = tokens.next() {
        match token {
            Token::Block if file.has_atoms() => break,
            Token::Block | Token::Value(_) => {}
            Token::Loop => {
                let keys = std::iter::from_fn(|| {
                    tokens.next_if(|(_, token)| matches!(token, Token::Key(_)))
                });
                let keys: Vec<_> = keys.filter_map(|(_, token)| token.key()).collect();
                file.table(line, &keys, || {
                    tokens.next_if(|(_, token)| matches!(token, Token::Value(_)))
                })?;
            }
            // A category of one row comes as pairs of a key and its value.
            Token::Key(first) => {
                let mut keys = vec![first];
                let mut row = Vec::new();
                let category = category(first);
                loop {
                    row.extend(tokens.next_if(|(_, token)| matches!(token, Token::Value(_))));
                    match tokens.next_if(|(_, token)| {
                        token.key().is_some_and(|key| self::category(key) == category)
                    }) {
                        Some((_, token)) => keys.extend(token.key()),
                        None => break,
                    }
                }
                let mut row = row.into_iter();
                file.table(line, &keys, || row.next())?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Mmcif<'a> {
    parts: Parts<'a>,
    cell: Option<Cell>,
    models: Models<'a>,
    /// Chain and number of each residue as the deposition has them, beside the author's.
    labels: Vec<(&'a str, Option<i64>)>,
    connections: Vec<[Partner<'a>; 2]>,
    component_bonds: Vec<ComponentBond<'a>>,
}

/// A bond of each residue of a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ComponentBond<'a> {
    component: &'a str,
    atoms: [&'a str; 2],
}

/// Connections, and bonds of components, that are read: entries have a few thousand.
const MOST_ROWS: usize = 200_000;

/// Bonds of an atom of a component that are taken: no metal in the dictionary of components has as
/// many.
const MOST_OF_AN_ATOM: usize = 32;

/// Whose chains and numbers are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Naming {
    Author,
    Label,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Partner<'a> {
    naming: Naming,
    chain: &'a str,
    number: Option<i64>,
    insertion_code: Option<char>,
    atom: &'a str,
}

/// The models that atoms are of.
#[derive(Debug, Default)]
struct Models<'a> {
    count: usize,
    first: Option<&'a str>,
    last: Option<&'a str>,
}

impl<'a> Models<'a> {
    /// Whether the next atom is of the first model.
    fn is_first(&mut self, model: Option<&'a str>) -> bool {
        if self.count == 0 || model != self.last {
            self.count += 1;
            self.last = model;
            self.first = self.first.or(model);
        }
        model == self.first
    }
}

impl<'a> Tables<'a> for Mmcif<'a> {
    fn has_atoms(&self) -> bool {
        !self.parts.atoms.is_empty()
    }

    fn table(
        &mut self,
        line: usize,
        keys: &[&'a str],
        next: impl FnMut() -> Option<(usize, Token<'a>)>,
    ) -> Result<(), FormatError> {
        let column = |name: &str| keys.iter().position(|key| item(key).eq_ignore_ascii_case(name));
        let mut rows =
            Rows { next, row: Vec::with_capacity(keys.len()), n_columns: keys.len(), line };
        match keys.first().map(|key| category(key).to_ascii_lowercase()).as_deref() {
            Some("_atom_site") => {
                let columns = AtomColumns::find(column)
                    .map_err(|problem| error(Place::Line(line), problem))?;
                while let Some((line, row)) = rows.next()? {
                    self.atom(&columns, row)
                        .map_err(|problem| error(Place::Line(line), problem))?;
                }
            }
            Some("_cell") => {
                let names = [
                    "length_a",
                    "length_b",
                    "length_c",
                    "angle_alpha",
                    "angle_beta",
                    "angle_gamma",
                ];
                let columns = names.map(column);
                while let Some((_, row)) = rows.next()? {
                    let [a, b, c, alpha, beta, gamma] = columns
                        .map(|column| value(row, column).and_then(number).unwrap_or(f64::NAN));
                    self.cell = structure::cell([a, b, c], [alpha, beta, gamma]);
                }
            }
            Some("_struct_conn") => {
                let columns = ConnectionColumns::find(column);
                while let Some((_, row)) = rows.next()? {
                    if self.connections.len() < MOST_ROWS {
                        self.connections.extend(columns.connection(row));
                    }
                }
            }
            Some("_chem_comp_bond") => {
                let columns = ["comp_id", "atom_id_1", "atom_id_2"].map(column);
                while let Some((_, row)) = rows.next()? {
                    let values = columns.map(|column| value(row, column));
                    if let [Some(component), Some(a), Some(b)] = values
                        && self.component_bonds.len() < MOST_ROWS
                    {
                        self.component_bonds.push(ComponentBond { component, atoms: [a, b] });
                    }
                }
            }
            _ => while (rows.next)().is_some() {},
        }
        Ok(())
    }
}

impl<'a> Mmcif<'a> {
    fn atom(&mut self, columns: &AtomColumns, row: &[&'a str]) -> Result<(), FormatErrorKind> {
        if !self.models.is_first(value(row, columns.model)) {
            return Ok(());
        }
        let label = columns.label(row);
        let starts_chain = self.labels.last().is_some_and(|last| last.0 != label.0);
        let record = columns.record(row, starts_chain)?;
        self.parts.push(&record);
        self.labels.resize(self.parts.residues.len(), label);
        Ok(())
    }

    fn finish(mut self) -> Result<Structure, FormatError> {
        let left = self.parts.join(self.cell.as_ref(), &mut []);
        sites::take_from_sites(&mut self.parts, self.cell.as_ref());
        self.labels = left.into_iter().map(|residue| self.labels[residue]).collect();
        let mut bonds = self.bonds();
        bonds::complete(&self.parts, self.cell.as_ref(), &mut bonds);
        self.parts
            .finish(self.cell, self.models.count, bonds)
            .map_err(|problem| error(Place::Whole, problem))
    }

    /// The bonds that the file gives: connections between residues, and bonds within components.
    fn bonds(&mut self) -> Vec<[u32; 2]> {
        let atoms = self.partner_atoms();
        let ends = self.connections.iter().map(|[a, b]| Some([*atoms.get(a)?, *atoms.get(b)?]));
        let mut bonds: Vec<_> = ends.flatten().filter(|[a, b]| a != b).collect();
        self.component_bonds.sort_unstable();
        self.component_bonds.dedup();
        let mut first = 0;
        for atoms in self.parts.atoms.chunk_by(|a, b| a.residue == b.residue) {
            let name = self.parts.residues[atoms[0].residue].name;
            let known = run(&self.component_bonds, |bond| bond.component.cmp(name));
            if !known.is_empty() {
                bonds.extend(bonds_of_component(known, first, atoms));
            }
            first += atoms.len();
        }
        bonds
    }

    /// The atoms that connections name, be it as the author or as the deposition does.
    fn partner_atoms(&self) -> HashMap<Partner<'a>, u32> {
        let partners: HashSet<_> = self.connections.iter().flatten().copied().collect();
        let mut atoms = HashMap::new();
        if partners.is_empty() {
            return atoms;
        }
        for (idx, &Atom { name: atom, residue, .. }) in self.parts.atoms.iter().enumerate() {
            let Residue { number, insertion_code, chain, .. } = self.parts.residues[residue];
            let author = (Naming::Author, self.parts.chains[chain], Some(number), insertion_code);
            let label = (Naming::Label, self.labels[residue].0, self.labels[residue].1, None);
            for (naming, chain, number, insertion_code) in [author, label] {
                let partner = Partner { naming, chain, number, insertion_code, atom };
                if partners.contains(&partner) {
                    atoms.entry(partner).or_insert(idx as u32);
                }
            }
        }
        atoms
    }
}

/// Bonds of a residue, of whose atoms the first is that of an index, by those of its component.
/// Where several have one name, the first of them is meant.
fn bonds_of_component(
    known: &[ComponentBond<'_>],
    first: usize,
    atoms: &[Atom<'_>],
) -> Vec<[u32; 2]> {
    let mut indices = HashMap::with_capacity(atoms.len());
    for (nth, atom) in atoms.iter().enumerate() {
        indices.entry(atom.name).or_insert((first + nth) as u32);
    }
    let mut bonds = Vec::new();
    for (name, a) in &indices {
        let of_atom = run(known, |bond| bond.atoms[0].cmp(name));
        let others = of_atom
            .iter()
            .take(MOST_OF_AN_ATOM)
            .filter_map(|bond| indices.get(bond.atoms[1]).filter(|b| *b != a));
        bonds.extend(others.map(|b| [*a, *b]));
    }
    bonds
}

/// The run of what is equal to something, among what is sorted by that.
fn run<T>(sorted: &[T], compare: impl Fn(&T) -> Ordering) -> &[T] {
    let start = sorted.partition_point(|one| compare(one).is_lt());
    let n = sorted[start..].partition_point(|one| compare(one).is_eq());
    &sorted[start..start + n]
}

/// Where the columns of the atoms are; in pairs, the author's naming before the deposition's.
struct AtomColumns {
    name: [Option<usize>; 2],
    residue: [Option<usize>; 2],
    chain: [Option<usize>; 2],
    number: [Option<usize>; 2],
    insertion_code: Option<usize>,
    element: Option<usize>,
    location: Option<usize>,
    model: Option<usize>,
    x: usize,
    y: usize,
    z: usize,
}

impl AtomColumns {
    fn find(column: impl Fn(&str) -> Option<usize>) -> Result<Self, FormatErrorKind> {
        Ok(Self {
            name: [column("auth_atom_id"), column("label_atom_id")],
            residue: [column("auth_comp_id"), column("label_comp_id")],
            chain: [column("auth_asym_id"), column("label_asym_id")],
            number: [column("auth_seq_id"), column("label_seq_id")],
            insertion_code: column("pdbx_PDB_ins_code"),
            element: column("type_symbol"),
            location: column("label_alt_id"),
            model: column("pdbx_PDB_model_num"),
            x: coordinate_column(column("Cartn_x"))?,
            y: coordinate_column(column("Cartn_y"))?,
            z: coordinate_column(column("Cartn_z"))?,
        })
    }

    /// Chain and number as the deposition has them.
    fn label<'a>(&self, row: &[&'a str]) -> (&'a str, Option<i64>) {
        let number = value(row, self.number[1]);
        (value(row, self.chain[1]).unwrap_or(""), number.and_then(|n| n.parse().ok()))
    }

    fn record<'a>(
        &self,
        row: &[&'a str],
        starts_chain: bool,
    ) -> Result<Record<'a>, FormatErrorKind> {
        let value = |column| value(row, column);
        let [x, y, z] = [self.x, self.y, self.z].map(|column| coordinate(row[column]));
        let position = [x?, y?, z?];
        let number = value(self.number[0]).or_else(|| value(self.number[1]));
        let name = required(row, self.name, "the name of an atom")?;
        let residue = required(row, self.residue, "the name of a residue")?;
        let element = value(self.element).and_then(Element::from_symbol);
        let number = number.map_or(Ok(0), |found| {
            let expected = "the number of a residue";
            found
                .parse()
                .map_err(|_| FormatErrorKind::Unexpected { expected, found: format!("`{found}`") })
        })?;
        let axes = ["Cartn_x", "Cartn_y", "Cartn_z"];
        check_position(position, axes, (name, residue, number))?;
        Ok(Record {
            name,
            element: element.filter(|_| !is_dummy(name, residue)),
            location: value(self.location),
            residue,
            number,
            insertion_code: value(self.insertion_code).and_then(|code| code.chars().next()),
            chain: value(self.chain[0]).or_else(|| value(self.chain[1])).unwrap_or(""),
            starts_chain,
            position,
        })
    }
}

/// What is looked at of a file that is only checked.
struct Checked<'a> {
    most: usize,
    census: Census,
    models: Models<'a>,
    /// Chain of the atom before as the deposition has it.
    label: Option<&'a str>,
}

impl<'a> Tables<'a> for Checked<'a> {
    fn has_atoms(&self) -> bool {
        self.census.has_atoms()
    }

    fn table(
        &mut self,
        line: usize,
        keys: &[&'a str],
        next: impl FnMut() -> Option<(usize, Token<'a>)>,
    ) -> Result<(), FormatError> {
        let column = |name: &str| keys.iter().position(|key| item(key).eq_ignore_ascii_case(name));
        let mut rows =
            Rows { next, row: Vec::with_capacity(keys.len()), n_columns: keys.len(), line };
        match keys.first().map(|key| category(key).to_ascii_lowercase()).as_deref() {
            Some("_atom_site") => {
                let at = |line| move |problem| error(Place::Line(line), problem);
                let columns = AtomColumns::find(column).map_err(at(line))?;
                while let Some((line, row)) = rows.next()? {
                    if self.models.is_first(value(row, columns.model)) {
                        count(&mut self.census, &mut self.label, &columns, row)
                            .and_then(|()| self.census.check(self.most))
                            .map_err(at(line))?;
                    }
                }
            }
            // Tables of which whole rows are read.
            Some("_cell" | "_struct_conn" | "_chem_comp_bond") => while rows.next()?.is_some() {},
            _ => while (rows.next)().is_some() {},
        }
        Ok(())
    }
}

/// Counts the atom of a row of the first model.
fn count<'a>(
    census: &mut Census,
    last: &mut Option<&'a str>,
    columns: &AtomColumns,
    row: &[&'a str],
) -> Result<(), FormatErrorKind> {
    let label = columns.label(row).0;
    let starts_chain = last.replace(label).is_some_and(|last| last != label);
    census.atom(&columns.record(row, starts_chain)?);
    Ok(())
}

/// What is counted of a file.
#[derive(Debug, Default)]
struct Counted<'a> {
    census: Census,
    models: Models<'a>,
    /// Chain of the atom before as the deposition has it.
    label: Option<&'a str>,
    /// Chain and number of the residue of a sequence before, of which there may be several.
    place: Option<[&'a str; 2]>,
    /// The model of the first residue that is listed as missing.
    model: Option<&'a str>,
}

impl<'a> Tables<'a> for Counted<'a> {
    fn has_atoms(&self) -> bool {
        self.census.has_atoms()
    }

    fn table(
        &mut self,
        line: usize,
        keys: &[&'a str],
        next: impl FnMut() -> Option<(usize, Token<'a>)>,
    ) -> Result<(), FormatError> {
        let column = |name: &str| keys.iter().position(|key| item(key).eq_ignore_ascii_case(name));
        let mut rows =
            Rows { next, row: Vec::with_capacity(keys.len()), n_columns: keys.len(), line };
        match keys.first().map(|key| category(key).to_ascii_lowercase()).as_deref() {
            Some("_atom_site") => {
                let columns = AtomColumns::find(column)
                    .map_err(|problem| error(Place::Line(line), problem))?;
                while let Some((line, row)) = rows.next()? {
                    if !self.models.is_first(value(row, columns.model)) {
                        continue;
                    }
                    count(&mut self.census, &mut self.label, &columns, row)
                        .map_err(|problem| error(Place::Line(line), problem))?;
                }
            }
            Some("_pdbx_unobs_or_zero_occ_residues") => {
                // Structures are read whatever these tables are, so nothing is refused for them.
                let columns = MissingColumns::find(column);
                while let Ok(Some((_, row))) = rows.next() {
                    let model = value(row, columns.model);
                    self.model = self.model.or(model);
                    if let Some(residue) = columns.residue(row).filter(|_| model == self.model) {
                        self.census.missing(residue);
                    }
                }
            }
            Some("_pdbx_poly_seq_scheme") => {
                let columns = ["pdb_strand_id", "asym_id", "seq_id"].map(column);
                while let Ok(Some((_, row))) = rows.next() {
                    let [chain, part, number] =
                        columns.map(|column| value(row, column).unwrap_or(""));
                    let place = Some([part, number]);
                    if self.place != place {
                        self.place = place;
                        self.census.sequence(chain, |length| length + 1);
                    }
                }
            }
            _ => while (rows.next)().is_some() {},
        }
        Ok(())
    }
}

/// Where the columns of residues are that have no place.
struct MissingColumns {
    is_of_polymer: Option<usize>,
    has_atoms: Option<usize>,
    model: Option<usize>,
    chain: Option<usize>,
    name: Option<usize>,
    number: Option<usize>,
    insertion_code: Option<usize>,
}

impl MissingColumns {
    fn find(column: impl Fn(&str) -> Option<usize>) -> Self {
        Self {
            is_of_polymer: column("polymer_flag"),
            has_atoms: column("occupancy_flag"),
            model: column("PDB_model_num"),
            chain: column("auth_asym_id"),
            name: column("auth_comp_id"),
            number: column("auth_seq_id"),
            insertion_code: column("PDB_ins_code"),
        }
    }

    /// The residue of a row, if it is of a polymer and has no atoms.
    fn residue(&self, row: &[&str]) -> Option<Listed> {
        let value = |column| value(row, column);
        let is_of_polymer = value(self.is_of_polymer).is_none_or(|flag| flag == "Y");
        let has_atoms = value(self.has_atoms).is_some_and(|flag| flag == "0");
        let number = value(self.number)?.parse().ok()?;
        (is_of_polymer && !has_atoms).then(|| Listed {
            chain: value(self.chain).unwrap_or("").to_owned(),
            name: value(self.name).unwrap_or("").to_owned(),
            number,
            insertion_code: value(self.insertion_code).and_then(|code| code.chars().next()),
        })
    }
}

fn coordinate_column(column: Option<usize>) -> Result<usize, FormatErrorKind> {
    column.ok_or_else(|| FormatErrorKind::Unexpected {
        expected: "columns Cartn_x, Cartn_y and Cartn_z",
        found: "no such column".to_owned(),
    })
}

struct ConnectionColumns {
    kind: Option<usize>,
    symmetry: [Option<usize>; 2],
    naming: Naming,
    chain: [Option<usize>; 2],
    number: [Option<usize>; 2],
    insertion_code: [Option<usize>; 2],
    atom: [Option<usize>; 2],
}

impl ConnectionColumns {
    fn find(column: impl Fn(&str) -> Option<usize>) -> Self {
        let both = |name: &str| [1, 2].map(|n| column(&name.replace('#', &n.to_string())));
        let author = both("ptnr#_auth_seq_id");
        let naming = if author.contains(&None) { Naming::Label } else { Naming::Author };
        let (chain, number) = match naming {
            Naming::Author => (both("ptnr#_auth_asym_id"), author),
            Naming::Label => (both("ptnr#_label_asym_id"), both("ptnr#_label_seq_id")),
        };
        Self {
            kind: column("conn_type_id"),
            symmetry: both("ptnr#_symmetry"),
            naming,
            chain,
            number,
            insertion_code: both("pdbx_ptnr#_PDB_ins_code"),
            atom: both("ptnr#_label_atom_id"),
        }
    }

    /// The ends of a covalent bond within the asymmetric unit.
    fn connection<'a>(&self, row: &[&'a str]) -> Option<[Partner<'a>; 2]> {
        let kind = value(row, self.kind)?;
        let is_covalent =
            ["covale", "disulf", "modres"].iter().any(|known| kind.starts_with(known));
        let [here, there] = self.symmetry.map(|column| value(row, column));
        if !is_covalent || here != there {
            return None;
        }
        Some([self.partner(row, 0)?, self.partner(row, 1)?])
    }

    fn partner<'a>(&self, row: &[&'a str], n: usize) -> Option<Partner<'a>> {
        Some(Partner {
            naming: self.naming,
            chain: value(row, self.chain[n])?,
            number: value(row, self.number[n]).and_then(|number| number.parse().ok()),
            insertion_code: value(row, self.insertion_code[n]).and_then(|code| code.chars().next()),
            atom: value(row, self.atom[n])?,
        })
    }
}

/// What one of two columns has, the first of them that has anything.
fn required<'a>(
    row: &[&'a str],
    [first, second]: [Option<usize>; 2],
    expected: &'static str,
) -> Result<&'a str, FormatErrorKind> {
    let found = value(row, first).or_else(|| value(row, second));
    found.ok_or_else(|| FormatErrorKind::Unexpected { expected, found: "nothing".to_owned() })
}

fn coordinate(found: &str) -> Result<f64, FormatErrorKind> {
    number(found).ok_or_else(|| FormatErrorKind::Unexpected {
        expected: "a coordinate",
        found: format!("`{found}`"),
    })
}

/// Whether a word begins so, in upper or lower case.
fn starts_with(word: &str, start: &str) -> bool {
    word.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// The values of a loop, row by row.
struct Rows<'a, F> {
    next: F,
    row: Vec<&'a str>,
    n_columns: usize,
    line: usize,
}

impl<'a, F: FnMut() -> Option<(usize, Token<'a>)>> Rows<'a, F> {
    /// The next row and its line, if there is one.
    fn next(&mut self) -> Result<Option<(usize, &[&'a str])>, FormatError> {
        self.row.clear();
        while self.row.len() < self.n_columns {
            match (self.next)() {
                Some((line, Token::Value(value))) => {
                    self.line = line;
                    self.row.push(value);
                }
                _ if self.row.is_empty() => return Ok(None),
                _ => {
                    let found = format!("one of {}", self.row.len());
                    return Err(error(
                        Place::Line(self.line),
                        FormatErrorKind::Unexpected { expected: "a whole row", found },
                    ));
                }
            }
        }
        Ok(Some((self.line, &self.row)))
    }
}

fn error(place: Place, problem: FormatErrorKind) -> FormatError {
    FormatError { format: "mmCIF", place, problem }
}

/// `_atom_site` of `_atom_site.id`.
fn category(key: &str) -> &str {
    key.split_once('.').map_or(key, |(category, _)| category)
}

/// `id` of `_atom_site.id`.
fn item(key: &str) -> &str {
    key.split_once('.').map_or("", |(_, item)| item)
}

/// The value in a column, unless there is none or it stands for nothing.
fn value<'a>(row: &[&'a str], column: Option<usize>) -> Option<&'a str> {
    column.map(|column| row[column]).filter(|value| !matches!(*value, "." | "?"))
}

/// A number, perhaps with its uncertainty in parentheses.
fn number(text: &str) -> Option<f64> {
    let text = text.split_once('(').map_or(text, |(number, _)| number);
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The words of a CIF file, each with its line.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Up to where no text ends that begins with `'`, or with `"`: a line may be full of quotes.
    unclosed: [usize; 2],
}

#[derive(Clone, Copy, Debug)]
enum Token<'a> {
    Block,
    Loop,
    Key(&'a str),
    Value(&'a str),
}

impl<'a> Token<'a> {
    fn key(self) -> Option<&'a str> {
        if let Self::Key(key) = self { Some(key) } else { None }
    }
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { text: without_mark(text), at: 0, line: 1, unclosed: [0; 2] }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Moves to the end of the part that starts here, and returns it.
    fn take(&mut self, n_bytes: usize) -> &'a str {
        let part = &self.text[self.at..self.at + n_bytes];
        self.line += part.bytes().filter(|byte| *byte == b'\n').count();
        self.at += n_bytes;
        part
    }

    fn skip_blanks_and_comments(&mut self) {
        while let Some(byte) = self.byte(self.at) {
            let rest = &self.text.as_bytes()[self.at..];
            let n_skipped = match byte {
                b'#' => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
                b if b.is_ascii_whitespace() => {
                    rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
                }
                _ => return,
            };
            self.take(n_skipped);
        }
    }

    /// Text between quotes; a quote that no blank follows is part of it.
    fn quoted(&mut self, quote: u8) -> &'a str {
        let kind = usize::from(quote == b'"');
        if self.at < self.unclosed[kind] {
            return self.word();
        }
        let rest = &self.text.as_bytes()[self.at + 1..];
        let line = &rest[..rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())];
        let is_end =
            |n: &usize| line[*n] == quote && line.get(n + 1).is_none_or(u8::is_ascii_whitespace);
        match (0..line.len()).find(is_end) {
            Some(n_bytes) => &self.take(n_bytes + 2)[1..n_bytes + 1],
            None => {
                self.unclosed[kind] = self.at + 1 + line.len();
                self.word()
            }
        }
    }

    /// Lines between one that starts with a semicolon and the next one that does.
    fn field(&mut self) -> &'a str {
        let rest = &self.text[self.at + 1..];
        let n_bytes = rest.find("\n;").unwrap_or(rest.len());
        let whole = (n_bytes + 3).min(rest.len() + 1);
        &self.take(whole)[1..n_bytes + 1]
    }

    fn word(&mut self) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        self.take(rest.iter().take_while(|b| !b.is_ascii_whitespace()).count())
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (usize, Token<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_blanks_and_comments();
        let first = self.byte(self.at)?;
        let line = self.line;
        let starts_line = self.at == 0 || self.byte(self.at - 1) == Some(b'\n');
        let token = match first {
            b'\'' | b'"' => Token::Value(self.quoted(first)),
            b';' if starts_line => Token::Value(self.field()),
            b'_' => Token::Key(self.word()),
            _ => {
                let word = self.word();
                match word.len() {
                    5 if starts_with(word, "loop_") => Token::Loop,
                    5.. if starts_with(word, "data_") => Token::Block,
                    _ => Token::Value(word),
                }
            }
        };
        Some((line, token))
    }
}
