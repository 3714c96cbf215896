//! CSV: one line per position under a header. Fields are separated by commas, by semicolons, as
//! spreadsheets write them where the comma is the decimal mark, or by tabs.
//!
//! Split here and not by a crate: those that there are take a quote that is never closed, and text
//! after a closing one, for a part of the field, and the positions on the lines after it for a part
//! of a note, which nobody would miss in the margin. Their records grow with the line, too: one of
//! sixty million commas would take gigabytes.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::position::{Positions, unreadable};
use crate::check::{Place, ValueError};
use crate::schema::Part;

const REQUIRED: [&str; 3] = ["ticker", "type", "quantity"];

// Limits of one line, far above what a position needs.
const MAX_LINE_BYTES: usize = 1 << 16;
const MAX_COLUMNS: usize = 1 << 10;

/// Characters of a header that a message repeats.
const MAX_EXCERPT: usize = 80;

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// A field of positions.
    Field(&'static str, Part),
    /// Something else, which is ignored.
    Other,
    /// Nothing, as it is below the empty name of a column that a spreadsheet has written.
    Nothing,
}

pub(super) fn read(text: &str, positions: &mut Positions<'_>) -> Result<Value, ValueError> {
    let mut records = Records::open(text);
    let columns = columns(&mut records, positions)?;
    let numbers = Numbers::of(&records, &columns)?;
    while records.next()? {
        // Spreadsheets leave such lines below a table.
        if records.fields().all(|field| field.trim().is_empty()) {
            continue;
        }
        let n = records.ends.len();
        if n != columns.len() {
            return Err(
                records.unreadable(&format!("{n} fields, the header has {}", columns.len()))
            );
        }
        refuse_misplaced(&records, &columns)?;
        positions.lines.add(records.line);
        match fields(&records, &columns, numbers) {
            Ok(fields) => positions.push(&fields.into()),
            Err((name, error)) => positions.refuse(&[name.into()], error),
        }
    }
    Ok(json!({ "futures": [] }))
}

/// What the header names; columns that a position does not have are noted.
fn columns(
    records: &mut Records<'_>,
    positions: &mut Positions<'_>,
) -> Result<Vec<Column>, ValueError> {
    let mut columns = Vec::new();
    if records.next()? {
        for name in records.fields().map(str::trim) {
            columns.push(match Part::Position.field(name) {
                Some((name, part)) => Column::Field(name, part),
                None if name.is_empty() => Column::Nothing,
                None => {
                    positions.unknown.add(Place::Portfolio, &["futures".into()], name);
                    Column::Other
                }
            });
        }
    }
    for (n, column) in columns.iter().enumerate() {
        if let Column::Field(name, _) = column
            && columns[..n].contains(column)
        {
            return Err(records.unreadable(&format!("two columns {name}")));
        }
    }
    let is_there = |name: &str| {
        columns.iter().any(|column| matches!(column, Column::Field(own, _) if *own == name))
    };
    match REQUIRED.iter().find(|name| !is_there(name)) {
        None => Ok(columns),
        Some(name) => {
            let found: Vec<&str> = records.fields().collect();
            let found: String = found.join(", ").chars().take(MAX_EXCERPT).collect();
            Err(records.unreadable(&format!(
                "no column {name}: the first line has to name the columns ticker, type and quantity, \
                 separated by commas, semicolons or tabs, and is {found:?}"
            )))
        }
    }
}

/// The fields of a position as they came, or the one that cannot be told.
fn fields(
    records: &Records<'_>,
    columns: &[Column],
    numbers: Numbers,
) -> Result<Map<String, Value>, (&'static str, ValueError)> {
    let mut fields = Map::new();
    for (column, text) in columns.iter().zip(records.fields()) {
        let Column::Field(name, part) = *column else { continue };
        let text = match part {
            Part::Number => numbers
                .with_point(text.trim())
                .map_err(|msg| (name, ValueError::new("type_error", msg)))?,
            _ => text.into(),
        };
        fields.insert(name.to_owned(), part.of_text(&text));
    }
    Ok(fields)
}

/// Refuses what is well-formed and shows that something is missing: a quote, which makes one field of
/// several lines, or a name, where a decimal comma has made two fields of a number.
fn refuse_misplaced(records: &Records<'_>, columns: &[Column]) -> Result<(), ValueError> {
    let n_delimiters = |line: &str| line.bytes().filter(|byte| *byte == records.delimiter).count();
    let looks_like_position = |line: &str| n_delimiters(line) + 1 >= columns.len();
    for (column, field) in columns.iter().zip(records.fields()) {
        if field.split(['\n', '\r']).skip(1).any(looks_like_position) {
            return Err(records.unreadable(
                "a field in quotes goes on over lines that look like positions: is a quote missing?",
            ));
        }
        if *column == Column::Nothing && !field.trim().is_empty() {
            return Err(records.unreadable(&format!(
                "{field:?} stands in a column without a name: is it behind a decimal comma?"
            )));
        }
    }
    Ok(())
}

/// How a file writes numbers. What can be read in two ways is refused: one of them is a thousand
/// times the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// With a decimal point, since the comma separates fields, or could.
    Points,
    /// In a file with semicolons, with a decimal comma.
    Commas,
    /// In a file with semicolons, with a point in the place of a decimal one at most or, as well,
    /// of a separator of thousands.
    Either,
}

impl Numbers {
    fn of(records: &Records<'_>, columns: &[Column]) -> Result<Self, ValueError> {
        if records.delimiter != b';' {
            return Ok(Self::Points);
        }
        let mut records = records.clone();
        let mut found = Self::Either;
        while records.next()? {
            for (column, text) in columns.iter().zip(records.fields()) {
                if !matches!(column, Column::Field(_, Part::Number)) {
                    continue;
                }
                if text.contains(',') {
                    return Ok(Self::Commas);
                }
                if text.contains('.') && !is_grouped(text.trim()) {
                    found = Self::Points;
                }
            }
        }
        Ok(found)
    }

    /// A number with a decimal point, or why it cannot be told.
    fn with_point(self, text: &str) -> Result<Cow<'_, str>, String> {
        match self {
            Self::Points if text.contains(',') => Err(format!(
                "{text:?} has a comma: write a decimal point, and nothing between thousands; decimal \
                 commas are read where semicolons separate the fields, and no number has a point"
            )),
            Self::Commas if text.contains('.') => Err(format!(
                "{text:?} has a point, and other numbers of the file have commas: write decimal \
                 commas, and nothing between thousands"
            )),
            Self::Either if is_grouped(text) => Err(format!(
                "{text:?} may have a decimal point or one between thousands: write {} or {}",
                text.replace('.', ""),
                text.replace('.', ",")
            )),
            Self::Commas => Ok(text.replace(',', ".").into()),
            Self::Points | Self::Either => Ok(text.into()),
        }
    }
}

/// Whether the points of a number may be between thousands, `1.500` or `1.500.000`.
fn is_grouped(text: &str) -> bool {
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = text.trim_start_matches(['+', '-']).split('.');
    let first = groups.next().unwrap_or_default();
    let mut others = groups.peekable();
    others.peek().is_some()
        && (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && is_digits(first)
        && others.all(|group| group.len() == 3 && is_digits(group))
}

/// One record after another.
#[derive(Clone)]
struct Records<'t> {
    rest: &'t [u8],
    delimiter: u8,
    /// The fields of a record, without quotes, one after another.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// Where the record begins, from 1.
    line: usize,
    /// The line that `rest` begins on.
    next_line: usize,
}

impl<'t> Records<'t> {
    /// The records of a text, by the delimiter that its beginning shows.
    fn open(text: &'t str) -> Self {
        let mut records = Self::new(text.as_bytes(), b',');
        // What Excel itself writes and reads in front of the header.
        if let Some(declared) = text.strip_prefix("sep=")
            && let [delimiter @ (b',' | b';' | b'\t'), b'\r' | b'\n', ..] = declared.as_bytes()
        {
            records.rest = &declared.as_bytes()[1..];
            records.delimiter = *delimiter;
            records.skip_end_of_line();
            return records;
        }
        let n_known = |delimiter: &u8| {
            let mut header = Self::new(records.rest, *delimiter);
            if !header.next().unwrap_or(false) {
                return 0;
            }
            header.fields().filter(|name| REQUIRED.contains(&name.trim())).count()
        };
        // Of equals the last is taken: a header without any of the names is one with commas.
        let likeliest = [b'\t', b';', b','].into_iter().max_by_key(n_known);
        records.delimiter = likeliest.unwrap_or(b',');
        records
    }

    fn new(rest: &'t [u8], delimiter: u8) -> Self {
        Self { rest, delimiter, bytes: Vec::new(), ends: Vec::new(), line: 1, next_line: 1 }
    }

    /// Goes to the next record, if there is one. Empty lines are none.
    fn next(&mut self) -> Result<bool, ValueError> {
        self.bytes.clear();
        self.ends.clear();
        while self.skip_end_of_line() {}
        self.line = self.next_line;
        if self.rest.is_empty() {
            return Ok(false);
        }
        loop {
            if self.ends.len() == MAX_COLUMNS {
                return Err(self.unreadable("a line that is too long"));
            }
            self.field()?;
            self.ends.push(self.bytes.len());
            match self.rest.split_first() {
                Some((byte, rest)) if *byte == self.delimiter => self.rest = rest,
                _ => {
                    self.skip_end_of_line();
                    return Ok(true);
                }
            }
        }
    }

    /// Reads a field up to what ends it.
    fn field(&mut self) -> Result<(), ValueError> {
        let Some(quoted) = self.rest.strip_prefix(b"\"") else {
            let end = self.rest.iter().position(|byte| self.ends_field(*byte));
            return self.take(end.unwrap_or(self.rest.len()));
        };
        self.rest = quoted;
        loop {
            let Some(end) = self.rest.iter().position(|byte| *byte == b'"') else {
                return Err(self.unreadable("a quote that is not closed"));
            };
            self.next_line += n_line_ends(&self.rest[..end]);
            self.take(end)?;
            self.rest = &self.rest[1..];
            if self.rest.first() != Some(&b'"') {
                break;
            }
            self.take(1)?;
        }
        let n_blanks = self.rest.iter().take_while(|byte| **byte == b' ').count();
        self.rest = &self.rest[n_blanks..];
        match self.rest.first() {
            Some(byte) if !self.ends_field(*byte) => {
                Err(self.unreadable("text after a closing quote; one in a field is written twice"))
            }
            _ => Ok(()),
        }
    }

    fn ends_field(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == b'\n' || byte == b'\r'
    }

    /// Takes so many bytes into the field.
    fn take(&mut self, n: usize) -> Result<(), ValueError> {
        if self.bytes.len() + n > MAX_LINE_BYTES {
            return Err(self.unreadable("a line that is too long"));
        }
        let (taken, rest) = self.rest.split_at(n);
        self.bytes.extend_from_slice(taken);
        self.rest = rest;
        Ok(())
    }

    /// Steps over the end of a line, if it is there.
    fn skip_end_of_line(&mut self) -> bool {
        self.rest = match self.rest {
            [b'\r', b'\n', rest @ ..] | [b'\r' | b'\n', rest @ ..] => rest,
            _ => return false,
        };
        self.next_line += 1;
        true
    }

    fn fields(&self) -> impl Iterator<Item = &str> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| {
            std::str::from_utf8(&self.bytes[start..*end])
                .expect("part of a text between delimiters or quotes, which are ASCII")
        })
    }

    fn unreadable(&self, problem: &str) -> ValueError {
        unreadable(format!("CSV, line {}: {problem}", self.line))
    }
}

fn n_line_ends(bytes: &[u8]) -> usize {
    let n = |end: u8| bytes.iter().filter(|byte| **byte == end).count();
    let of_both = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
    n(b'\n') + n(b'\r') - of_both
}
