//! Results as JSON, CSV and Parquet: the same report gives the same bytes.

use std::fmt::Write;
use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::run::Report;
use crate::table::{Column, Table, Values};

/// Rows of a group, which a reader can take alone.
const ROWS_PER_GROUP: usize = 1 << 20;

const IN_MEMORY: &str = "nothing fails that is written to memory";

impl Report {
    /// The report as JSON: an object with `tables`, `warnings`, `n_frames`, `n_analyzed` and
    /// `stride`.
    ///
    /// A table has `analysis`, `kind`, `name`, `title`, `definition`, `groups` and `columns`, and a
    /// column `name`, `unit` if it has one, `definition` and `values`. A number that is none is
    /// null.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every part of a report has a form in JSON")
    }
}

impl Table {
    /// The table as CSV by RFC 4180, in UTF-8 with line feeds: a row of names, then the values. A
    /// number has the fewest digits that give the same 64 bits again; one that is none is left out.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let names = self.columns.iter().map(|column| field(&column.name));
        text.push_str(&names.collect::<Vec<_>>().join(","));
        text.push('\n');
        for row in 0..self.n_rows() {
            for (n, column) in self.columns.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write_value(&mut text, &column.values, row);
            }
            text.push('\n');
        }
        text
    }

    /// The table as Parquet, not compressed. Numbers are doubles, counts 64-bit integers and texts
    /// strings, none of them null. The file's metadata have `name`, `title` and `definition` of the
    /// table, and for each column `unit:NAME` and `definition:NAME`.
    pub fn to_parquet(&self) -> Vec<u8> {
        self.write_parquet().expect(IN_MEMORY)
    }

    fn write_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let fields = self.columns.iter().map(|column| Ok(Arc::new(column.parquet_type()?)));
        let fields = fields.collect::<Result<Vec<_>, ParquetError>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            // Without version and time: the same report gives the same bytes.
            .set_created_by("molbox".to_owned())
            .set_key_value_metadata(Some(self.metadata()))
            .build();
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        for first in (0..self.n_rows()).step_by(ROWS_PER_GROUP) {
            let rows = first..self.n_rows().min(first + ROWS_PER_GROUP);
            let mut group = writer.next_row_group()?;
            self.columns
                .iter()
                .try_for_each(|column| column.write_parquet(&mut group, rows.clone()))?;
            group.close()?;
        }
        writer.into_inner()
    }

    fn metadata(&self) -> Vec<KeyValue> {
        let mut pairs: Vec<_> =
            [("name", &self.name), ("title", &self.title), ("definition", &self.definition)]
                .map(|(key, value)| KeyValue::new(key.to_owned(), value.clone()))
                .into();
        for Column { name, unit, definition, .. } in &self.columns {
            pairs.extend(unit.map(|unit| KeyValue::new(format!("unit:{name}"), unit.to_owned())));
            pairs.push(KeyValue::new(format!("definition:{name}"), definition.clone()));
        }
        pairs
    }
}

impl Column {
    fn parquet_type(&self) -> Result<Type, ParquetError> {
        let (physical, converted) = match self.values {
            Values::Numbers(_) => (Physical::DOUBLE, ConvertedType::NONE),
            Values::Integers(_) => (Physical::INT64, ConvertedType::NONE),
            Values::Texts(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_converted_type(converted)
            .build()
    }

    fn write_parquet(
        &self,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        rows: std::ops::Range<usize>,
    ) -> Result<(), ParquetError> {
        let mut writer = group.next_column()?.expect("a group has a column for each of the schema");
        match &self.values {
            Values::Numbers(values) => {
                writer.typed::<DoubleType>().write_batch(&values[rows], None, None)?
            }
            Values::Integers(values) => {
                writer.typed::<Int64Type>().write_batch(&values[rows], None, None)?
            }
            Values::Texts(values) => {
                let texts: Vec<ByteArray> =
                    values[rows].iter().map(|text| text.as_str().into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?
            }
        };
        writer.close()
    }
}

fn write_value(text: &mut String, values: &Values, row: usize) {
    match values {
        Values::Numbers(values) if !values[row].is_finite() => Ok(()),
        Values::Numbers(values) => write!(text, "{:?}", values[row]),
        Values::Integers(values) => write!(text, "{}", values[row]),
        Values::Texts(values) => text.write_str(&field(&values[row])),
    }
    .expect("a string takes what is written to it");
}

/// A text as CSV has it, in quotes where it needs them.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
