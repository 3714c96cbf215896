//! Lists of what there is: tables on a terminal, fields between tabs where a program reads, and a
//! line of JSON for each with `--json`.

use std::io;

use anyhow::{Context, Result};

use super::say::{say_error, say_whole, width_of};
use crate::http::validate::is_unprintable;

/// Between columns.
const GAP: usize = 2;
/// Before what stands below its row.
const BELOW: usize = 4;
/// Rows that are laid out together: an audit log is as long as its days.
const BATCH: usize = 500;

/// Something that is listed.
pub(super) trait Listed {
    const HEADS: &'static [&'static str];
    /// Heads of the columns that are given up where the table does not fit, in this order.
    const DROPPED_FIRST: &'static [&'static str];

    /// A text for each head, none of more than a line.
    fn cells(&self) -> Vec<String>;

    /// The line that a program reads, with times as they are kept. Scripts depend on it.
    fn fields(&self) -> String;

    fn json(&self) -> serde_json::Result<String>;
}

/// Prints things one after another, in one form.
pub(super) struct List {
    form: Form,
    n_items: usize,
}

enum Form {
    Table(Table),
    Fields,
    Json,
}

impl List {
    pub(super) fn of<T: Listed>(json: bool) -> Self {
        let form = match width_of(io::stdout()) {
            _ if json => Form::Json,
            Some(width) => Form::Table(Table::new(T::HEADS, T::DROPPED_FIRST, width)),
            None => Form::Fields,
        };
        Self { form, n_items: 0 }
    }

    pub(super) fn add(&mut self, item: &impl Listed) -> Result<()> {
        self.n_items += 1;
        match &mut self.form {
            Form::Table(table) => {
                table.rows.push(item.cells());
                if table.rows.len() == BATCH {
                    table.lay_out().iter().for_each(|line| say_whole(line));
                }
            }
            Form::Fields => say_whole(&item.fields()),
            Form::Json => say_whole(&item.json().context("write what is listed")?),
        }
        Ok(())
    }

    /// Prints what is left; where there is nothing, who looks is told what to do next.
    pub(super) fn end(self, none: &str) {
        let Form::Table(mut table) = self.form else { return };
        if self.n_items == 0 {
            return say_error(none);
        }
        table.lay_out().iter().for_each(|line| say_whole(line));
        if !table.dropped.is_empty() {
            say_error(&format!(
                "not shown: {} (a list with --json has all)",
                table.dropped.join(", ")
            ));
        }
    }
}

struct Table {
    heads: &'static [&'static str],
    dropped_first: &'static [&'static str],
    /// Of the terminal.
    width: usize,
    /// Those that are not printed yet.
    rows: Vec<Vec<String>>,
    /// Columns by their number, and what each is wide; none before the first rows are laid out.
    columns: Option<Vec<(usize, usize)>>,
    /// Heads of the columns that did not fit.
    dropped: Vec<&'static str>,
    /// Whether the last column has lines of its own, for without those that are given up it does
    /// not fit either.
    is_folded: bool,
}

impl Table {
    fn new(
        heads: &'static [&'static str],
        dropped_first: &'static [&'static str],
        width: usize,
    ) -> Self {
        Self {
            heads,
            dropped_first,
            width,
            rows: Vec::new(),
            columns: None,
            dropped: Vec::new(),
            is_folded: false,
        }
    }

    /// Lines of the rows that are not printed yet; before the first of all, the heads.
    fn lay_out(&mut self) -> Vec<String> {
        let rows = std::mem::take(&mut self.rows);
        let is_first = self.columns.is_none();
        let columns = match self.columns.take() {
            // They are as wide as before, or wider.
            Some(before) => before
                .into_iter()
                .map(|(nth, width)| (nth, width.max(widest(&rows, nth))))
                .collect(),
            None => self.fitting(&rows),
        };
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let heads = is_first.then_some(&heads);
        self.is_folded |= columns.len() > 1 && taken(&columns) > self.width;
        let (in_line, below) = columns.split_at(columns.len() - usize::from(self.is_folded));
        let lines_of = |row: &Vec<String>| {
            let below = below.iter().map(|(nth, _)| &row[*nth]).filter(|text| !text.is_empty());
            let below = below.map(|text| format!("{:BELOW$}{text}", ""));
            std::iter::once(line(in_line, row)).chain(below).collect::<Vec<_>>()
        };
        let lines = heads.into_iter().chain(&rows).flat_map(lines_of).collect();
        self.columns = Some(columns);
        lines
    }

    /// The columns that are shown, by their number, and what each is wide.
    fn fitting(&mut self, rows: &[Vec<String>]) -> Vec<(usize, usize)> {
        // A column in which there is nothing tells nothing; but more may come.
        let is_whole = rows.len() < BATCH;
        let is_shown = |nth: usize| !is_whole || nth == 0 || widest(rows, nth) > 0;
        let width = |nth: usize| widest(rows, nth).max(self.heads[nth].chars().count());
        let mut columns: Vec<(usize, usize)> = (0..self.heads.len())
            .filter(|nth| is_shown(*nth))
            .map(|nth| (nth, width(nth)))
            .collect();
        for head in self.dropped_first {
            if taken(&columns) <= self.width {
                break;
            }
            let n_before = columns.len();
            columns.retain(|(nth, _)| self.heads[*nth] != *head);
            if columns.len() < n_before {
                self.dropped.push(head);
            }
        }
        columns
    }
}

/// What columns take of a line.
fn taken(columns: &[(usize, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP)
}

fn widest(rows: &[Vec<String>], nth: usize) -> usize {
    rows.iter().map(|row| row[nth].chars().count()).max().unwrap_or(0)
}

fn line(columns: &[(usize, usize)], row: &[String]) -> String {
    let cell = |(nth, width): &(usize, usize)| format!("{:width$}", row[*nth], width = width + GAP);
    let line: String = columns.iter().map(cell).collect();
    line.trim_end().to_owned()
}

/// A text that stays on its line, and does not turn round what follows it there.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: usize, rows: &[[&str; 4]]) -> Table {
        let mut table = Table::new(&["ACCOUNT", "ROLE", "MADE", "LIMITS"], &["MADE"], width);
        table.rows = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        table
    }

    const ROWS: [[&str; 4]; 2] =
        [["ada", "admin", "2026-11-26 07:50:12Z", "hours 200"], ["grüße ✓", "user", "-", ""]];

    #[test]
    fn a_name_breaks_no_line_and_turns_none_round() {
        assert_eq!(printable("ada\n\u{1b}[2J"), "ada??[2J");
        assert_eq!(printable("ada\u{202e}nimda\u{2066}"), "ada?nimda?");
        assert_eq!(printable("ada\u{200b}\u{feff}\u{2028}nimda"), "ada???nimda");
        assert_eq!(printable("עדה ✓ می\u{200c}خواهم"), "עדה ✓ می\u{200c}خواهم");
    }

    #[test]
    fn columns_have_heads_and_begin_below_each_other() {
        let lines = table(80, &ROWS).lay_out();
        let expected = [
            "ACCOUNT  ROLE   MADE                  LIMITS",
            "ada      admin  2026-11-26 07:50:12Z  hours 200",
            "grüße ✓  user   -",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_named_and_what_is_empty_is_left_out() {
        let mut narrow = table(30, &ROWS);
        assert_eq!(narrow.lay_out()[1], "ada      admin  hours 200");
        assert_eq!(narrow.dropped, ["MADE"]);
        let mut exact = table("ada      admin  2026-11-26 07:50:12Z  hours 200".len(), &ROWS);
        assert_eq!(exact.lay_out()[0], "ACCOUNT  ROLE   MADE                  LIMITS");
        let mut without = table(80, &[["ada", "admin", "now", ""]]);
        assert_eq!(without.lay_out(), ["ACCOUNT  ROLE   MADE", "ada      admin  now"]);
        assert!(without.dropped.is_empty(), "there is nothing that is not shown");
    }

    #[test]
    fn the_last_column_stands_below_where_nothing_else_can_be_given_up() {
        let mut narrow = table(20, &ROWS);
        let expected =
            ["ACCOUNT  ROLE", "    LIMITS", "ada      admin", "    hours 200", "grüße ✓  user"];
        assert_eq!(narrow.lay_out(), expected);
        narrow.rows.push(["bob", "user", "now", "hours 7"].map(str::to_owned).to_vec());
        assert_eq!(narrow.lay_out(), ["bob      user", "    hours 7"], "and stays there");
    }

    #[test]
    fn a_long_list_has_its_heads_once_and_later_rows_below_them() {
        let mut long = table(80, &[["ada", "user", "now", ""]; BATCH]);
        assert_eq!(long.lay_out()[..2], ["ACCOUNT  ROLE  MADE  LIMITS", "ada      user  now"]);
        long.rows.push(["a longer name", "user", "now", "hours 1"].map(str::to_owned).to_vec());
        assert_eq!(long.lay_out(), ["a longer name  user  now   hours 1"]);
    }
}
