//! The rows that a stage of a simulation has logged.
//!
//! The log is CSV, and its worker may be writing it. A row counts when its line is whole and its
//! step is above those before it, so that none is there twice while what a killed worker had not
//! committed is cut off and written again. The file is read twice, a block at a time: what is held
//! is what is answered.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Names and units of the columns.
pub(crate) const COLUMNS: [(&str, Option<&str>); 7] = [
    ("step", None),
    ("time", Some("ps")),
    ("potential_energy", Some("kJ/mol")),
    ("kinetic_energy", Some("kJ/mol")),
    ("temperature", Some("K")),
    ("volume", Some("nm³")),
    ("density", Some("g/mL")),
];
/// What the worker writes into the first line for them.
const HEADER: &[u8] = b"step,time (ps),potential energy (kJ/mol),kinetic energy (kJ/mol),\
    temperature (K),volume (nm^3),density (g/mL)\n";
/// No row is longer.
const MAX_ROW: usize = 1024;
const BLOCK: usize = 64 * 1024;

type Row = [f64; COLUMNS.len()];

/// The columns before these ascend from row to row; these go up and down.
const FIRST_MEASURED: usize = 2;

/// Rows of a log as columns.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// Rows that there are.
    pub(crate) n_rows: u64,
    /// As many numbers in each.
    pub(crate) columns: [Vec<f64>; COLUMNS.len()],
}

impl Series {
    fn push(&mut self, row: Row) {
        self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
}

/// The rows after a step, as they are when there are no more than `points`, which are 2 or more.
///
/// Of more than that, runs of rows that are as long as each other become two points each. These
/// have the step and the time of the first and of the last row of the run, and of each other column
/// the least and the largest value in the order in which the run has them.
pub(crate) fn read(file: &File, after: u64, points: usize) -> io::Result<Series> {
    let log = Log { file, size: file.metadata()?.len() };
    let start = log.first_row_after(after)?;
    let mut series = Series::default();
    let mut rows = log.rows(start, after);
    while rows.next()?.is_some() {
        series.n_rows += 1;
    }
    let runs = (points as u64 / 2).max(1);
    let is_whole = series.n_rows <= points as u64;
    let mut run: Option<Run> = None;
    let mut rows = log.rows(start, after);
    // The file may have become shorter, and longer again.
    for nth in 0..series.n_rows {
        let Some(row) = rows.next()? else { break };
        if is_whole {
            series.push(row);
            continue;
        }
        let number = (u128::from(nth) * u128::from(runs) / u128::from(series.n_rows)) as u64;
        match &mut run {
            Some(run) if run.number == number => run.add(row),
            _ => {
                let ended = run.replace(Run::of(number, row));
                ended.into_iter().for_each(|ended| ended.end(&mut series));
            }
        }
    }
    run.into_iter().for_each(|ended| ended.end(&mut series));
    Ok(series)
}

/// Rows that become two points.
struct Run {
    number: u64,
    n_rows: u64,
    first: Row,
    last: Row,
    /// Least and largest values, each with the place of its row.
    least: [(f64, u64); COLUMNS.len()],
    largest: [(f64, u64); COLUMNS.len()],
}

impl Run {
    fn of(number: u64, row: Row) -> Self {
        let ends = row.map(|value| (value, 0));
        Self { number, n_rows: 1, first: row, last: row, least: ends, largest: ends }
    }

    fn add(&mut self, row: Row) {
        for (column, value) in row.into_iter().enumerate() {
            if value < self.least[column].0 {
                self.least[column] = (value, self.n_rows);
            }
            if value > self.largest[column].0 {
                self.largest[column] = (value, self.n_rows);
            }
        }
        self.last = row;
        self.n_rows += 1;
    }

    fn end(self, series: &mut Series) {
        let Self { mut first, mut last, least, largest, .. } = self;
        for column in FIRST_MEASURED..COLUMNS.len() {
            let (least, largest) = (least[column], largest[column]);
            let is_rising = least.1 <= largest.1;
            first[column] = if is_rising { least.0 } else { largest.0 };
            last[column] = if is_rising { largest.0 } else { least.0 };
        }
        series.push(first);
        if self.n_rows > 1 {
            series.push(last);
        }
    }
}

/// A log as long as it was when it was looked at.
#[derive(Clone, Copy)]
struct Log<'a> {
    file: &'a File,
    size: u64,
}

impl<'a> Log<'a> {
    /// Where to begin looking for the rows after a step: at the row after it, or a few before.
    ///
    /// Whoever follows a job asks once a second for what is new, and a log has megabytes.
    fn first_row_after(self, after: u64) -> io::Result<u64> {
        let mut start = HEADER.len() as u64;
        let mut end = self.size;
        while end.saturating_sub(start) > BLOCK as u64 {
            let middle = start + (end - start) / 2;
            let text = self.block(middle, 2 * MAX_ROW)?;
            let Some(line) = text.iter().position(|byte| *byte == b'\n') else { break };
            let Some((row, _)) = first_row(&text[line + 1..]) else { break };
            if row[0] > after as f64 {
                end = middle;
            } else {
                start = middle + line as u64 + 1;
            }
        }
        Ok(start)
    }

    fn rows(self, start: u64, after: u64) -> Rows<'a> {
        Rows { log: self, at: start, text: Vec::new(), read: 0, last: after as f64 }
    }

    /// So many bytes from a place on, as far as there are any.
    fn block(self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut text = vec![0; length.min(self.size.saturating_sub(at) as usize)];
        let mut done = 0;
        while done < text.len() {
            match self.file.read_at(&mut text[done..], at + done as u64)? {
                0 => break,
                n => done += n,
            }
        }
        text.truncate(done);
        Ok(text)
    }
}

/// The rows of a log from a place on.
struct Rows<'a> {
    log: Log<'a>,
    /// Where the text begins in the file.
    at: u64,
    text: Vec<u8>,
    /// How much of the text has been read.
    read: usize,
    /// The step of the row before.
    last: f64,
}

impl Rows<'_> {
    /// The next row; none after the last whole line, or where the file is no log.
    fn next(&mut self) -> io::Result<Option<Row>> {
        loop {
            let left = self.text.len() - self.read;
            let found = first_row(&self.text[self.read..]);
            let Some((row, length)) = found else {
                if left >= MAX_ROW {
                    return Ok(None);
                }
                self.at += self.read as u64;
                self.read = 0;
                self.text = self.log.block(self.at, BLOCK)?;
                if self.text.len() == left || first_row(&self.text).is_none() {
                    return Ok(None);
                }
                continue;
            };
            self.read += length;
            if row[0] > self.last {
                self.last = row[0];
                return Ok(Some(row));
            }
        }
    }
}

/// The row that a text begins with, and the length of its line.
fn first_row(text: &[u8]) -> Option<(Row, usize)> {
    let length = text.iter().take(MAX_ROW).position(|byte| *byte == b'\n')? + 1;
    let line = str::from_utf8(&text[..length - 1]).ok()?;
    let mut cells = line.split(',');
    let mut row = Row::default();
    for value in &mut row {
        *value = cells.next()?.parse().ok().filter(|number: &f64| number.is_finite())?;
    }
    cells.next().is_none().then_some((row, length))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A log with these steps, in which the third column is ten times the step.
    fn log(steps: impl IntoIterator<Item = u64>) -> File {
        let mut text = HEADER.to_vec();
        for step in steps {
            let wave = step % 7;
            writeln!(text, "{step},{step}.5,{},-1.25,300.1,{wave},0.99", 10 * step).unwrap();
        }
        with(&text)
    }

    fn with(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file
    }

    fn steps(series: &Series) -> Vec<f64> {
        series.columns[0].clone()
    }

    #[test]
    fn few_rows_are_answered_as_they_are() {
        let series = read(&log([10, 20, 30]), 0, 3).unwrap();
        assert_eq!((series.n_rows, steps(&series)), (3, vec![10.0, 20.0, 30.0]));
        assert_eq!(series.columns[1], [10.5, 20.5, 30.5]);
        assert_eq!(series.columns[2], [100.0, 200.0, 300.0]);
        assert_eq!(read(&log([]), 0, 10).unwrap(), Series::default());
        assert_eq!(read(&with(b""), 0, 10).unwrap(), Series::default());
    }

    #[test]
    fn rows_after_any_step_are_those_after_it() {
        let file = log((1..=20_000).map(|n| n * 5));
        for after in [0, 1, 4, 5, 6, 49_999, 50_000, 99_994, 99_995, 99_999, 100_000, u64::MAX] {
            let series = read(&file, after, 30_000).unwrap();
            let expected: Vec<f64> =
                (1..=20_000).map(|n| n * 5).filter(|n| *n > after).map(|n| n as f64).collect();
            assert_eq!(steps(&series), expected, "{after}");
            assert_eq!(series.n_rows, expected.len() as u64);
        }
    }

    #[test]
    fn many_rows_keep_the_least_and_the_largest_of_each_run() {
        let file = log(1..=200_000);
        let series = read(&file, 0, 2000).unwrap();
        assert_eq!(series.n_rows, 200_000);
        assert!(series.columns.iter().all(|column| column.len() == 2000));
        assert_eq!((series.columns[0][0], series.columns[0][1999]), (1.0, 200_000.0));
        assert!(series.columns[0].is_sorted_by(|a, b| a < b));
        for pair in series.columns[5].chunks(2) {
            let [a, b] = [pair[0], pair[1]];
            assert_eq!([a.min(b), a.max(b)], [0.0, 6.0], "each run of 200 rows has every value");
        }
        // As many as no whole runs are made of.
        for n_rows in [5, 6, 7, 11, 997] {
            let series = read(&log(1..=n_rows), 0, 4).unwrap();
            assert_eq!(series.columns[2][0], 10.0, "the least of all is there");
            assert_eq!(series.columns[2].last(), Some(&(10.0 * n_rows as f64)));
            assert!(series.columns[0].len() <= 4, "{n_rows}");
        }
        // One value that stands out, wherever it is.
        for at in [1, 2, 499, 500, 999, 1000] {
            let mut text = HEADER.to_vec();
            for step in 1..=1000 {
                let volume = if step == at { 9.0 } else { 1.0 };
                writeln!(text, "{step},{step},1,1,1,{volume},1").unwrap();
            }
            let series = read(&with(&text), 0, 10).unwrap();
            assert_eq!(series.columns[5].iter().filter(|v| **v == 9.0).count(), 1, "{at}");
        }
    }

    #[test]
    fn what_is_half_written_or_written_again_makes_no_row() {
        let mut text = HEADER.to_vec();
        text.extend(b"10,1,1,1,1,1,1\n20,2,2,2,2,2,2\n10,1,1,1,1,1,1\n20,2,2,2,2,2,2\n");
        text.extend(b"30,3,3,3,3,3,3\n40,4,4,4,4,4,4");
        assert_eq!(steps(&read(&with(&text), 0, 10).unwrap()), [10.0, 20.0, 30.0]);
        // What is no log makes no numbers, and is not read to its end for a line.
        for line in ["10,1,1,1,1,1\n", "10,1,1,1,1,1,nan\n", "10,1,1,1,1,1,1,1\n", "\n"] {
            let text = [HEADER, line.as_bytes(), b"20,2,2,2,2,2,2\n"].concat();
            assert_eq!(read(&with(&text), 0, 10).unwrap(), Series::default(), "{line:?}");
        }
        let text = [HEADER, &vec![b'1'; 1 << 20]].concat();
        assert_eq!(read(&with(&text), 0, 10).unwrap(), Series::default());
    }
}
