//! CSV: one line per position under a header.
//!
//! On `csv_core`, since a record of the `csv` crate grows with the line: one of sixty million
//! commas would take gigabytes.

use csv_core::{ReadRecordResult, Reader};
use serde_json::{Map, Value, json};

use super::position::{Positions, unreadable};
use crate::check::{Place, ValueError};
use crate::schema::Part;

const REQUIRED: [&str; 3] = ["ticker", "type", "quantity"];

// Limits of one line, far above what a position needs.
const MAX_LINE_BYTES: usize = 1 << 16;
const MAX_COLUMNS: usize = 1 << 10;

pub(super) fn read(text: &str, positions: &mut Positions<'_>) -> Result<Value, ValueError> {
    let mut records = Records::new(text);
    let mut columns = Vec::new();
    if records.next()? {
        for name in records.fields().map(str::trim) {
            let column = Part::Position.field(name);
            if column.is_none() {
                positions.unknown.add(Place::Portfolio, &["futures".into()], name);
            }
            columns.push(column);
        }
    }
    for (n, column) in columns.iter().enumerate() {
        if let Some((name, _)) = column
            && columns[..n].contains(column)
        {
            return Err(records.unreadable(&format!("two columns {name}")));
        }
    }
    if let Some(name) =
        REQUIRED.iter().find(|name| !columns.iter().flatten().any(|(column, _)| column == *name))
    {
        return Err(records.unreadable(&format!("no column {name}")));
    }
    while records.next()? {
        if records.n_fields != columns.len() {
            let n = records.n_fields;
            let expected = columns.len();
            return Err(records.unreadable(&format!("{n} fields, the header has {expected}")));
        }
        let fields = columns
            .iter()
            .zip(records.fields())
            .filter_map(|(column, text)| Some(((*column)?, text)));
        let fields: Map<_, _> =
            fields.map(|((name, part), text)| (name.to_owned(), part.of_text(text))).collect();
        positions.push(&fields.into());
    }
    Ok(json!({ "futures": [] }))
}

/// One record after another.
struct Records<'t> {
    reader: Reader,
    rest: &'t [u8],
    /// The fields of a record, without quotes, one after another.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    n_fields: usize,
}

impl<'t> Records<'t> {
    fn new(text: &'t str) -> Self {
        let bytes = vec![0; MAX_LINE_BYTES];
        let ends = vec![0; MAX_COLUMNS];
        Self { reader: Reader::new(), rest: text.as_bytes(), bytes, ends, n_fields: 0 }
    }

    /// Goes to the next record, if there is one.
    fn next(&mut self) -> Result<bool, ValueError> {
        let mut n_bytes = 0;
        self.n_fields = 0;
        loop {
            let bytes = &mut self.bytes[n_bytes..];
            let ends = &mut self.ends[self.n_fields..];
            let (result, n_read, n_written, n_ended) =
                self.reader.read_record(self.rest, bytes, ends);
            self.rest = &self.rest[n_read..];
            n_bytes += n_written;
            self.n_fields += n_ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(self.unreadable("a line that is too long"));
                }
            }
        }
    }

    fn fields(&self) -> impl Iterator<Item = &str> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let fields =
            starts.zip(&self.ends[..self.n_fields]).map(|(start, end)| &self.bytes[start..*end]);
        fields.map(|field| {
            std::str::from_utf8(field).expect("part of a text between commas or quotes")
        })
    }

    fn unreadable(&self, problem: &str) -> ValueError {
        unreadable(format!("CSV, up to line {}: {problem}", self.reader.line()))
    }
}
