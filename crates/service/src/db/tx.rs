//! What statements run in, whichever database it is.

use std::ops::ControlFlow;

use jiff::Timestamp;

use super::error::{Error, Result};
use super::scope::Scope;
use super::value::{FromValue, Value};
use super::{postgres, sqlite};

/// A transaction, or a connection that is read from. The text of a statement has `?1` for the first
/// value, and stays prepared.
pub(super) enum Tx<'a> {
    Sqlite(sqlite::Session<'a>),
    Postgres(&'a postgres::Session),
}

/// A row that is read, as long as it is the present one.
pub(super) enum Row<'a> {
    Sqlite(&'a sqlite::Row<'a>),
    Postgres(&'a postgres::Row),
}

impl Row<'_> {
    /// The value of a column, counted from 0.
    pub(super) fn get<T: FromValue>(&self, column: usize) -> Result<T> {
        let value = match self {
            Self::Sqlite(row) => row.value(column)?,
            Self::Postgres(row) => postgres::value(row, column)?,
        };
        value.and_then(T::from_value).map_err(|problem| {
            let name = match self {
                Self::Sqlite(row) => row.name(column),
                Self::Postgres(row) => postgres::name(row, column),
            };
            Error::other(format!("column {name}: {problem}"))
        })
    }
}

impl Tx<'_> {
    /// Has something for itself from here on, of which only now is known that it is needed.
    pub(super) fn lock(&self, scope: Scope) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.lock(scope),
        }
    }

    /// The present as all servers of the database have it, whose own clocks differ; `own` is that of
    /// this one.
    pub(super) fn now(&self, own: Timestamp) -> Result<Timestamp> {
        match self {
            Self::Sqlite(_) => Ok(own),
            Self::Postgres(session) => {
                Timestamp::from_microsecond(session.now()?).map_err(Error::other)
            }
        }
    }

    /// The columns of a table that are written.
    pub(super) fn columns(&self, table: &str) -> Result<Vec<String>> {
        let sql = match self {
            Self::Sqlite(_) => sqlite::COLUMNS,
            Self::Postgres(_) => postgres::COLUMNS,
        };
        self.all(sql, &[Value::Text(table)], |row| row.get(0))
    }

    /// The highest number that a column of numbers has had; 0 for none.
    pub(super) fn highest(&self, table: &str, column: &str) -> Result<i64> {
        let sql = match self {
            Self::Sqlite(_) => sqlite::highest(table, column),
            Self::Postgres(_) => postgres::highest(table, column),
        };
        self.one(&sql, &[], |row| row.get(0))
    }

    /// Has the numbers of a column go on after this one.
    pub(super) fn go_on_after(&self, table: &str, column: &str, number: i64) -> Result<()> {
        match self {
            Self::Sqlite(session) => session.go_on_after(table, number),
            Self::Postgres(session) => session.go_on_after(table, column, number),
        }
    }

    /// What an insertion says that gives columns of numbers their numbers.
    pub(super) fn with_given_numbers(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "",
            Self::Postgres(_) => "overriding system value",
        }
    }

    /// Changes rows; how many.
    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize> {
        match self {
            Self::Sqlite(session) => session.execute(sql, values),
            Self::Postgres(session) => session.execute(sql, values),
        }
    }

    /// Changes rows before anything else is asked for or the transaction is committed. On a server that
    /// is one round trip less.
    pub(super) fn execute_later(&self, sql: &str, values: &[Value<'_>]) -> Result<()> {
        match self {
            Self::Sqlite(session) => session.execute(sql, values).map(drop),
            Self::Postgres(session) => session.execute_later(sql, values),
        }
    }

    /// Hands rows to `take`, until it fails or has enough.
    fn rows<E: From<Error>>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut take: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        match self {
            Self::Sqlite(session) => session.rows(sql, values, |row| take(&Row::Sqlite(row))),
            Self::Postgres(session) => session.rows(sql, values, |row| take(&Row::Postgres(row))),
        }
    }

    /// Hands every row to `take`, until it fails.
    pub(super) fn each<E: From<Error>>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut take: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows(sql, values, |row| take(row).map(ControlFlow::Continue))
    }

    /// All rows.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(sql, values, |row| {
            all.push(read(row)?);
            Ok::<(), Error>(())
        })?;
        Ok(all)
    }

    /// The first row, if there is one.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let (mut read, mut first) = (Some(read), None);
        self.rows(sql, values, |row| {
            first = read.take().map(|read| read(row)).transpose()?;
            Ok::<_, Error>(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// The first row, which there has to be.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.first(sql, values, read)?.ok_or_else(|| Error::other(format!("no row: {sql}")))
    }

    /// Whether there is a row.
    pub(super) fn exists(&self, sql: &str, values: &[Value<'_>]) -> Result<bool> {
        Ok(self.first(sql, values, |_| Ok(()))?.is_some())
    }
}
