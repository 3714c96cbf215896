//! All that is printed. Results go to standard output, everything else to standard error.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anstream::AutoStream;
use anstyle::{Ansi256Color, Style};
use clap::ColorChoice;
use clap::builder::Styles;
use clap::error::ErrorKind;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Code, Failure};
use crate::{flag_names, schema};

/// Where results and remarks go, and in which form.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    is_json: bool,
    is_quiet: bool,
    color: bool,
    color_remarks: bool,
    bars: MultiProgress,
    has_bars: bool,
    /// Standard output is somebody else's, as that of a protocol.
    is_silent: bool,
    /// Of the terminal that standard output is.
    width: Option<usize>,
    /// Of the one that standard error is.
    remark_width: Option<usize>,
    /// Warnings that have been shown: one is shown once, however often its record is looked at.
    warned: Arc<Mutex<HashSet<String>>>,
}

type Result<T = ()> = std::result::Result<T, Failure>;

const DIM: Style = Style::new().dimmed();
const ERROR: Style = RED.on_default().bold();
const WARNING: Style = AMBER.on_default().bold();
const HELP: Style = CYAN.on_default();

// Those that every terminal has are what its theme makes of them: yellow, cyan and green are hardly seen
// on white, blue on black. These have a contrast of 3.5 on both at least.
const RED: Ansi256Color = Ansi256Color(196);
const AMBER: Ansi256Color = Ansi256Color(166);
const GREEN: Ansi256Color = Ansi256Color(64);
const CYAN: Ansi256Color = Ansi256Color(31);
const BLUE: Ansi256Color = Ansi256Color(32);
const PURPLE: Ansi256Color = Ansi256Color(133);

/// Those of help, and of what is wrong with a command.
pub(crate) const STYLES: Styles =
    Styles::styled().error(ERROR).invalid(AMBER.on_default()).valid(GREEN.on_default());

impl Output {
    /// JSON when it is asked for, and whenever nobody looks: when standard output is no terminal.
    pub(crate) fn new(json: bool, quiet: bool, color: ColorChoice) -> Self {
        let out = io::stdout().is_terminal();
        let err = io::stderr().is_terminal();
        let has_color = |auto: anstream::ColorChoice| match color {
            ColorChoice::Auto => auto != anstream::ColorChoice::Never,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let has_bars = err && !quiet;
        let target =
            if has_bars { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            is_json: json || !out,
            is_quiet: quiet,
            color: has_color(AutoStream::choice(&io::stdout())),
            color_remarks: has_color(AutoStream::choice(&io::stderr())),
            bars: MultiProgress::with_draw_target(target),
            has_bars,
            is_silent: false,
            width: out.then(|| usize::from(console::Term::stdout().size().1)),
            remark_width: err.then(|| usize::from(console::Term::stderr().size().1)),
            warned: Arc::default(),
        }
    }

    /// One that writes nothing anywhere.
    pub(crate) fn silent() -> Self {
        Self {
            is_json: false,
            is_quiet: true,
            color: false,
            color_remarks: false,
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            has_bars: false,
            is_silent: true,
            width: None,
            remark_width: None,
            warned: Arc::default(),
        }
    }

    /// The same for what goes on before the result, which is the only thing on standard output.
    pub(crate) fn without_events(&self) -> Self {
        Self { is_json: false, ..self.clone() }
    }

    /// A record as people read it.
    pub(crate) fn readable(&self, record: &Value) -> String {
        let mut text = String::new();
        self.members(&mut text, record, "", 0);
        text
    }

    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    pub(crate) fn text(&self, text: &str) -> Result {
        self.bytes(text.as_bytes())?;
        if text.ends_with('\n') || text.is_empty() { Ok(()) } else { self.bytes(b"\n") }
    }

    /// A result that is a sentence.
    pub(crate) fn sentence(&self, text: &str) -> Result {
        self.text(&hung(text, 0, 0, self.width))
    }

    /// What is wrong with a command: as a failure that a program reads, or, where somebody wants
    /// colours or looks, in the words of who has parsed it.
    pub(crate) fn misused(&self, error: &clap::Error) {
        let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if self.fails_in_json() && !self.color_remarks && !is_help {
            return self.failure(&Failure::from(error));
        }
        let text = error.render();
        let shown = if self.color_remarks { text.ansi().to_string() } else { text.to_string() };
        self.remark(&shown, "error: ".len());
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result {
        if self.is_silent {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Code::Closed, ""),
            _ => Failure::file(Path::new("standard output"), &error),
        })
    }

    pub(crate) fn json(&self, value: &impl Serialize) -> Result {
        let text = serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?;
        self.text(&text)
    }

    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result {
        let text = serde_json::to_string(value).map_err(anyhow::Error::from)?;
        self.text(&text)
    }

    /// A record: its warnings on standard error, then JSON, or its members in lines.
    pub(crate) fn record(&self, value: &Value) -> Result {
        self.warnings(value);
        if self.is_json {
            return self.json(value);
        }
        let mut value = value.clone();
        if let Some(members) = value.as_object_mut().filter(|_| !self.is_quiet) {
            members.remove("warnings");
        }
        let mut text = String::new();
        self.members(&mut text, &value, "", 0);
        self.text(&text)
    }

    pub(crate) fn warnings(&self, record: &Value) {
        for warning in record["warnings"].as_array().into_iter().flatten() {
            if let Some(message) = warning["message"].as_str().or_else(|| warning.as_str()) {
                self.warning(message);
            }
        }
    }

    /// Something that who watches should know before anything else; a field that it begins with is
    /// called as it was given.
    pub(crate) fn warning(&self, message: &str) {
        let message = match message.split_once(": ") {
            Some((at, rest)) => {
                format!("{}: {}", flag_names::shown_place(at), flag_names::shown_text(rest))
            }
            None => flag_names::shown_text(message),
        };
        let is_new =
            self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(message.clone());
        if is_new && !self.is_quiet {
            self.headed(WARNING, "warning", &message);
        }
    }

    /// Writes the members of a value, which is itself one of this name.
    fn members(&self, text: &mut String, value: &Value, within: &str, depth: usize) {
        let mut members: Vec<(String, &Value)> = match value {
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.clone(), value)).collect()
            }
            Value::Array(items) => {
                let label = |at: usize| match within {
                    // As its folder.
                    "replicas" => format!("replica_{}", at + 1),
                    _ => format!("[{at}]"),
                };
                items.iter().enumerate().map(|(at, item)| (label(at), item)).collect()
            }
            _ => return,
        };
        if depth == 0 {
            members.sort_by_key(|(name, value)| rank(name, value));
        }
        let width = members.iter().map(|(name, _)| label(name).chars().count()).max().unwrap_or(0);
        for (name, value) in members {
            let head = self.styled(DIM, &format!("{:width$}", label(&name)));
            let indent = "  ".repeat(depth);
            let at = 2 * depth + width + 2;
            match value {
                Value::Array(items) if items.is_empty() => {}
                Value::Object(members) if members.is_empty() => {}
                Value::Null => {}
                Value::Array(items) if is_long(items) || items.iter().all(is_row) => {
                    // Citations of a job were a line of 1071 characters.
                    let margin = " ".repeat(2 * depth + width);
                    for (nth, item) in items.iter().enumerate() {
                        let head =
                            if nth == 0 { format!("{indent}{head}") } else { margin.clone() };
                        let shown = with_unit(within, &name, item);
                        let _ = writeln!(text, "{head}  {}", hung(&shown, at, at, self.width));
                    }
                }
                Value::Array(items) if !items.iter().all(is_flat) => {
                    let _ = writeln!(text, "{indent}{}", self.styled(DIM, &name));
                    self.members(text, value, &name, depth + 1);
                }
                Value::Object(_) => {
                    let _ = writeln!(text, "{indent}{}", self.styled(DIM, &name));
                    self.members(text, value, &name, depth + 1);
                }
                _ if name == "status" => {
                    let _ = writeln!(text, "{indent}{head}  {}", self.status(&cell(value)));
                }
                _ => {
                    let shown = with_unit(within, &name, value);
                    let _ = writeln!(text, "{indent}{head}  {}", hung(&shown, at, at, self.width));
                }
            }
        }
    }

    /// Records as a JSON array, or as a table of some of their members, by JSON pointer.
    pub(crate) fn table(&self, columns: &[(&str, &str)], rows: &[Value]) -> Result {
        if self.is_json {
            return self.json(&rows);
        }
        let width = usize::from(console::Term::stdout().size().1);
        let sheet = Sheet::of(columns, rows, width);
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if sheet.width() > width {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        if self.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let heads = (0..sheet.columns.len()).map(|nth| Cell::new(sheet.head(nth)));
        table.set_header(heads.map(|head| head.add_attribute(Attribute::Bold)));
        let is_of_numbers: Vec<bool> =
            (0..sheet.columns.len()).map(|nth| sheet.is_of_numbers(nth)).collect();
        let Sheet { columns, cells, dropped, .. } = sheet;
        for row in cells {
            table.add_row(columns.iter().zip(row).map(|((_, pointer), text)| {
                let color = (*pointer == "/status").then(|| status_color(&text).0);
                let cell = Cell::new(text);
                match color {
                    Some(color) => cell.fg(Color::AnsiValue(color)),
                    None => cell,
                }
            }));
        }
        for (column, nth) in table.column_iter_mut().zip(1..) {
            column.set_padding((0, if nth == columns.len() { 0 } else { GAP }));
            if is_of_numbers[nth - 1] {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        self.text(&lines.join("\n"))?;
        if !dropped.is_empty() {
            let heads = dropped.join(", ");
            self.note(&self.remark_styled(DIM, &format!("not shown: {heads} (--json has all)")));
        }
        Ok(())
    }

    fn status(&self, status: &str) -> String {
        self.styled(status_color(status).on_default(), status)
    }

    fn styled(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// A remark for who watches; not part of the result.
    pub(crate) fn note(&self, text: &str) {
        if self.is_quiet {
            return;
        }
        self.remark(text, 0);
    }

    /// Lines that are too long for the terminal go on below their beginning, the first at a column.
    fn remark(&self, text: &str, at: usize) {
        let lines = text.lines().enumerate().map(|(nth, line)| {
            let indent = line.len() - line.trim_start().len();
            let below = if nth == 0 { at } else { indent + 2 };
            hung(line, 0, below, self.remark_width)
        });
        let lines: Vec<String> = lines.collect();
        let text = lines.join("\n");
        // Whoever would have read it has gone.
        self.bars.suspend(|| {
            let _ = writeln!(io::stderr().lock(), "{text}");
        });
    }

    /// A text of who is asked on a terminal, without showing it.
    pub(crate) fn secret(&self, prompt: &str) -> Result<String> {
        self.remark(prompt, 0);
        console::Term::stderr()
            .read_secure_line()
            .map_err(|e| Failure::new(Code::File, format!("the terminal: {e}")))
    }

    /// A line of who is asked on a terminal.
    pub(crate) fn answer(&self, prompt: &str) -> Result<String> {
        self.bars.suspend(|| {
            let _ = write!(io::stderr().lock(), "{}", hung(prompt, 0, 0, self.remark_width));
        });
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        read.map_err(|e| Failure::new(Code::File, format!("the terminal: {e}")))?;
        Ok(line)
    }

    /// Asks who sits at a terminal before something is lost; a script says `--yes`.
    pub(crate) fn confirm(&self, question: &str, is_sure: bool) -> Result {
        if is_sure {
            return Ok(());
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            let failure = Failure::usage("nothing was deleted: there is no terminal to ask at");
            return Err(failure.remedy("give --yes"));
        }
        let answer = self.answer(&format!("{question} [y/N] "))?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(Code::Other, "nothing was deleted")
                .remedy("answer `y`, or give --yes")),
        }
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.code == Code::Closed {
            return;
        }
        if self.fails_in_json() {
            return self.remark(&failure.json().to_string(), 0);
        }
        self.headed(ERROR, "error", &failure.to_string());
        if let Some(remedy) = &failure.remedy {
            self.headed(HELP, "help", remedy);
        }
    }

    /// Whether no person reads of a failure.
    fn fails_in_json(&self) -> bool {
        self.is_json && !io::stderr().is_terminal()
    }

    /// A remark that begins with what it is.
    fn headed(&self, style: Style, head: &str, text: &str) {
        self.remark(&format!("{}: {text}", self.remark_styled(style, head)), head.len() + 2);
    }

    fn remark_styled(&self, style: Style, text: &str) -> String {
        if self.color_remarks { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// A bar of what has a fraction; it writes nothing where there is no terminal.
    pub(crate) fn bar(&self, what: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new(1000).with_style(self.bar_style(what, "")));
        bar.tick();
        bar
    }

    /// Shows what a bar is at, and details, if there are any, on a line below: they fit 80 columns.
    pub(crate) fn report(&self, bar: &ProgressBar, what: &str, message: String, details: String) {
        if !details.is_empty() && bar.prefix().is_empty() {
            bar.set_style(self.bar_style(what, "\n             {prefix:.dim}"));
        }
        let room =
            |taken: usize| self.remark_width.map_or(usize::MAX, |it| it.saturating_sub(taken));
        bar.set_prefix(whole_parts(&details, room(BELOW_BAR)));
        let before = what.len().max(BELOW_BAR - 1) + self.bar_length() + PERCENT;
        bar.set_message(whole_parts(&message, room(before)));
    }

    fn bar_length(&self) -> usize {
        if self.remark_width.is_some_and(|width| width < 80) { 6 } else { 16 }
    }

    fn bar_style(&self, what: &str, below: &str) -> ProgressStyle {
        let color = if self.color_remarks { format!(".{}/dim", CYAN.0) } else { String::new() };
        let below = if self.color_remarks { below.to_owned() } else { below.replace(".dim", "") };
        let bar = self.bar_length();
        let template =
            format!("{what:12} {{bar:{bar}{color}}} {{percent:>3}} % {{wide_msg}}{below}");
        ProgressStyle::with_template(&template).expect("a template").progress_chars("━╸─")
    }

    pub(crate) fn has_bars(&self) -> bool {
        self.has_bars
    }
}

/// As many of the parts of a progress as there is room for: of a number that is cut nobody sees that
/// it was longer.
fn whole_parts(text: &str, room: usize) -> String {
    let mut whole = text;
    while console::measure_text_width(whole) > room {
        match whole.rsplit_once(PART) {
            Some((before, _)) => whole = before,
            None => return console::truncate_str(whole, room, "…").into_owned(),
        }
    }
    whole.to_owned()
}

/// A text that begins at a column, with lines between words that end before the terminal does and go
/// on at another column.
fn hung(text: &str, from: usize, at: usize, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= at + LEAST_ROOM) else {
        return text.to_owned();
    };
    let mut hung = String::new();
    let mut column = from;
    for (nth, word) in text.split(' ').enumerate() {
        let is_longer = console::measure_text_width(word) > width - at;
        // An address is copied whole.
        let is_split = is_longer && !word.contains("://");
        let parts: Vec<&str> =
            if is_split { word.split_inclusive([',', '|', '&']).collect() } else { vec![word] };
        for (of_word, part) in parts.into_iter().enumerate() {
            let blank = usize::from(nth > 0 && of_word == 0);
            let length = console::measure_text_width(part);
            let is_first = nth == 0 && of_word == 0;
            if !is_first && column + blank + length > width {
                let _ = write!(hung, "\n{:at$}", "");
                column = at;
            } else {
                hung.push_str(&" "[..blank]);
                column += blank;
            }
            hung.push_str(part);
            column += length;
        }
    }
    hung
}

/// Between the parts of a progress.
pub(crate) const PART: &str = " · ";
/// Where what stands below a bar begins.
const BELOW_BAR: usize = 13;
/// Blanks, percent and its sign behind a bar, and the blank before it.
const PERCENT: usize = 8;
/// In less room than this lines are left to the terminal.
const LEAST_ROOM: usize = 20;
/// Between columns.
const GAP: u16 = 2;
/// So many characters of an identifier tell it from the others of an account, mostly; commands
/// take it so.
const SHORT_ID: usize = 6;

/// What is given up first where a table does not fit, by the pointers of columns.
const DROPPED_FIRST: [&str; 20] = [
    "/rows",
    "/least",
    "/largest",
    "/unit",
    "/has_key",
    "/variationMargin",
    "/currentMarketValue",
    "/box_id",
    "/type",
    "/format",
    "/margin_url",
    "/progress/ns_per_day",
    "/progress/stage",
    "/started_at",
    "/job_id",
    "/created_at",
    "/size_bytes",
    "/summary/atoms",
    "/batch_index",
    "/progress/fraction",
];

/// Whether a member is an amount of money, which has cents and no less.
fn is_money(name: &str) -> bool {
    const MONEY: [&str; 7] = [
        "currentMarketValue",
        "expectedShortfall",
        "initialMargin",
        "loss",
        "maintenanceMargin",
        "valueAtRisk",
        "variationMargin",
    ];
    MONEY.contains(&name)
}

fn cents(amount: &serde_json::Number) -> String {
    // Not minus zero.
    let rounded = |amount: f64| (amount * 100.0).round() / 100.0 + 0.0;
    amount.as_f64().map_or_else(String::new, |amount| match amount.abs() {
        ..ENORMOUS => format!("{:.2}", rounded(amount)),
        _ => decimal(amount),
    })
}

/// A table as it fits a width.
struct Sheet<'a> {
    columns: Vec<(&'a str, &'a str)>,
    cells: Vec<Vec<String>>,
    /// Whether words of a head that is wider than what is below it have lines of their own: heads
    /// with units are longer than the numbers.
    has_tall_heads: bool,
    /// Heads of the columns that did not fit.
    dropped: Vec<&'a str>,
}

impl<'a> Sheet<'a> {
    fn of(columns: &[(&'a str, &'a str)], rows: &[Value], width: usize) -> Self {
        let text = |row: &Value, pointer: &str| {
            row.pointer(pointer).map(|value| shown(pointer, value)).unwrap_or_default()
        };
        let mut columns = columns.to_vec();
        // A column in which there is nothing tells nothing.
        let first = columns.first().copied();
        columns.retain(|column| {
            Some(*column) == first || rows.iter().any(|row| !text(row, column.1).is_empty())
        });
        let cells_of = |columns: &[(&str, &str)], is_short: bool| -> Vec<Vec<String>> {
            let cell = |row: &Value, pointer: &str| {
                let text = text(row, pointer);
                if is_short && pointer.ends_with("_id") { short(&text) } else { text }
            };
            let row = |row: &Value| columns.iter().map(|column| cell(row, column.1)).collect();
            let mut cells: Vec<Vec<String>> = rows.iter().map(row).collect();
            align_decimals(columns, rows, &mut cells);
            cells
        };
        let mut sheet = Self {
            cells: cells_of(&columns, false),
            columns,
            has_tall_heads: false,
            dropped: Vec::new(),
        };
        if sheet.width() > width {
            sheet.cells = cells_of(&sheet.columns, true);
        }
        if sheet.width() > width {
            sheet.has_tall_heads = true;
            cut_names(&sheet.columns, &mut sheet.cells, width / 3);
        }
        for pointer in DROPPED_FIRST {
            let nth = sheet.columns.iter().skip(1).position(|column| column.1 == pointer);
            if let Some(nth) = nth.filter(|_| sheet.width() > width) {
                let head = sheet.remove(nth + 1);
                sheet.dropped.push(head);
            }
        }
        // Words can be wrapped, numbers cannot: the last of them give way.
        while sheet.width() > width && sheet.columns.len() > 2 {
            let numbers = (1..sheet.columns.len()).rev().find(|nth| sheet.is_of_numbers(*nth));
            let Some(nth) = numbers else { break };
            let head = sheet.remove(nth);
            sheet.dropped.insert(0, head);
        }
        sheet
    }

    fn remove(&mut self, nth: usize) -> &'a str {
        for row in &mut self.cells {
            row.remove(nth);
        }
        self.columns.remove(nth).0
    }

    fn head(&self, nth: usize) -> String {
        let head = self.columns[nth].0;
        if self.has_tall_heads && console::measure_text_width(head) > self.cells_width(nth) {
            head.replace(' ', "\n")
        } else {
            head.to_owned()
        }
    }

    fn cells_width(&self, nth: usize) -> usize {
        self.cells.iter().map(|row| console::measure_text_width(&row[nth])).max().unwrap_or(0)
    }

    fn is_of_numbers(&self, nth: usize) -> bool {
        self.cells.iter().all(|row| row[nth].is_empty() || row[nth].parse::<f64>().is_ok())
    }

    /// What the table takes of a line.
    fn width(&self) -> usize {
        let of_column = |nth: usize| {
            let head = self.head(nth).lines().map(console::measure_text_width).max();
            self.cells_width(nth).max(head.unwrap_or(0))
        };
        let texts: usize = (0..self.columns.len()).map(of_column).sum();
        texts + usize::from(GAP) * self.columns.len().saturating_sub(1)
    }
}

/// Gives the numbers of a column as many decimals as the one that needs most, so that they can be
/// compared by their places. Where each row has a unit of its own there is nothing to compare, and
/// beside very small numbers the others would have digits that do not matter.
fn align_decimals(columns: &[(&str, &str)], rows: &[Value], cells: &mut [Vec<String>]) {
    const MOST: usize = 6;
    if columns.iter().any(|column| column.1 == "/unit") {
        return;
    }
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    for (nth, (_, pointer)) in columns.iter().enumerate() {
        let most = cells.iter().map(|row| decimals(&row[nth])).max().unwrap_or(0);
        if !(1..=MOST).contains(&most) {
            continue;
        }
        for (row, cells) in rows.iter().zip(&mut *cells) {
            let cell = &mut cells[nth];
            let number = row.pointer(pointer).and_then(Value::as_f64);
            // A part in per cent or a size with its unit is no number any more.
            if let Some(number) = number.filter(|_| cell.parse::<f64>().is_ok())
                && decimals(cell) < most
            {
                *cell = format!("{number:.most$}");
            }
        }
    }
}

/// Cuts names that are longer than so many characters, which would leave no room for the rest.
fn cut_names(columns: &[(&str, &str)], cells: &mut [Vec<String>], longest: usize) {
    let is_name = |column: &&(&str, &str)| column.1.ends_with("name");
    for nth in columns.iter().enumerate().filter(|(_, column)| is_name(column)).map(|(nth, _)| nth)
    {
        for row in &mut *cells {
            row[nth] = console::truncate_str(&row[nth], longest, "…").into_owned();
        }
    }
}

/// So many of something.
pub(crate) fn counted<N: fmt::Display + PartialEq + From<u8>>(n: N, what: &str) -> String {
    format!("{n} {what}{}", if n == N::from(1) { "" } else { "s" })
}

/// An identifier as short as people can tell it from others.
fn short(id: &str) -> String {
    match id.split_once('_') {
        Some((kind, rest)) if rest.len() > SHORT_ID && rest.is_ascii() => {
            format!("{kind}_{}", &rest[..SHORT_ID])
        }
        _ => id.to_owned(),
    }
}

/// How long ago a time was, for people, or in how long it is; what is no time, as it is.
fn ago(rfc3339: &str) -> String {
    let Ok(at) = rfc3339.parse::<Timestamp>() else { return rfc3339.to_owned() };
    let seconds = Timestamp::now().as_second() - at.as_second();
    match seconds {
        ..=-172_800 => format!("in {} days", -seconds / 86_400),
        -172_799..=-7200 => format!("in {} h", -seconds / 3600),
        -7199..0 => format!("in {} min", -seconds / 60 + 1),
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        86_400..172_800 => "yesterday".to_owned(),
        172_800..2_592_000 => format!("{} days ago", seconds / 86_400),
        _ => at.strftime("%Y-%m-%d").to_string(),
    }
}

fn status_color(status: &str) -> Ansi256Color {
    match status {
        "succeeded" | "ready" | "ok" => GREEN,
        "failed" => RED,
        "running" => BLUE,
        "cancelled" => PURPLE,
        _ => AMBER,
    }
}

/// Where a member of a record stands: who it is, how it is, then the rest, lists and objects last.
fn rank(name: &str, value: &Value) -> u8 {
    match name {
        _ if value.is_object() || value.is_array() => 4,
        _ if name.ends_with("_id") => 0,
        _ if name.ends_with("name") => 1,
        "status" => 2,
        _ => 3,
    }
}

/// Whether it is a list within a list, as a vector of a box is.
fn is_row(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(is_flat))
}

fn is_flat(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// More than this of a list in one line is read by nobody.
const LONGEST_LIST: usize = 80;

fn is_long(items: &[Value]) -> bool {
    let length = |item: &Value| cell(item).chars().count();
    items.len() > 1
        && items.iter().all(Value::is_string)
        && items.iter().map(length).sum::<usize>() > LONGEST_LIST
}

/// A member as text; of a number what can matter.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().map(harmless).collect(),
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<String>>().join(", "),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |number| decimal(rounded(number)))
        }
        other => other.to_string(),
    }
}

/// A character of a text that somebody may have chosen, which neither turns round what follows it nor
/// commands the terminal.
pub(crate) fn harmless(c: char) -> char {
    let is_direction_mark = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_command = c.is_control() && c != '\n';
    if is_command || is_direction_mark { char::REPLACEMENT_CHARACTER } else { c }
}

/// A number of more than six digits with four of them, or, where it is large, to the hundredth:
/// amounts of money keep their cents.
fn rounded(number: f64) -> f64 {
    let parsed = |text: String| text.parse::<f64>().unwrap_or(number);
    match number.abs() {
        // Not minus zero.
        0.0 => 0.0,
        _ if parsed(format!("{number:.5e}")) == number => number,
        ..100.0 => significant(number),
        _ => parsed(format!("{number:.2}")),
    }
}

/// Numbers that are smaller are written with a power of ten, and those that are not smaller than
/// the other.
const TINY: f64 = 1e-7;
const ENORMOUS: f64 = 1e15;

/// A number without more zeros than can be counted: a mean about 0 was -0.00000000000000003331.
fn decimal(number: f64) -> String {
    match number.abs() {
        0.0 | TINY..ENORMOUS => number.to_string(),
        _ => format!("{:e}", significant(number)),
    }
}

/// A number with four digits.
fn significant(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// A time as people tell it: `3.077 s`, `25 min 22 s`, `2 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    // Rounded first: 59.9 min are no `60 min`.
    let whole = seconds.round();
    let minutes = (seconds / 60.0).round();
    match whole {
        ..60.0 => format!("{} s", significant(seconds)),
        60.0..3600.0 => of_two(whole, "min", "s"),
        _ => of_two(minutes, "h", "min"),
    }
}

/// A whole number of a unit in the next larger one, of which it is a sixtieth, and the rest.
fn of_two(number: f64, larger: &str, smaller: &str) -> String {
    match (number / 60.0).floor() {
        whole if number % 60.0 == 0.0 => format!("{whole} {larger}"),
        whole => format!("{whole} {larger} {} {smaller}", number % 60.0),
    }
}

/// Members whose numbers begin with 0, each with what people know it by, from 1: that of a replica is
/// the one of its folder, that of a stage the one of the bar.
const FROM_ZERO: [(&str, &str); 2] = [("batch_index", "replica"), ("stage_index", "stage_number")];

/// What a member is called for people.
fn label(name: &str) -> &str {
    FROM_ZERO.iter().find(|(index, _)| *index == name).map_or(name, |(_, label)| label)
}

/// Whether people know a member by another number.
fn is_from_zero(name: &str) -> bool {
    label(name) != name
}

/// The number from 1 of what has one from 0.
fn from_one(index: &serde_json::Number) -> String {
    index.as_u64().map_or_else(|| index.to_string(), |index| index.saturating_add(1).to_string())
}

/// A member of a record for people, within another: with its unit, times with their age.
fn with_unit(within: &str, name: &str, value: &Value) -> String {
    match value {
        Value::Number(index) if is_from_zero(name) => from_one(index),
        Value::Number(number) if name.ends_with("_bytes") && number.is_u64() => number
            .as_u64()
            .map_or_else(String::new, |size| indicatif::DecimalBytes(size).to_string()),
        Value::Number(number) if name == "fraction" => number
            .as_f64()
            .map_or_else(String::new, |fraction| format!("{:.0} %", 100.0 * fraction)),
        Value::Number(number) if is_money(name) => cents(number),
        Value::Array(items) if items.iter().any(Value::is_number) => {
            let unit = schema::unit_of(within, name).map(|unit| format!(" {unit}"));
            format!("{}{}", cell(value), unit.unwrap_or_default())
        }
        Value::Number(number) => match (schema::unit_of(within, name), number.as_f64()) {
            (Some("s"), Some(seconds)) if seconds >= 0.0 => duration(seconds),
            (Some("h"), Some(hours)) if hours >= 0.0 => duration(3600.0 * hours),
            (Some(unit), _) => format!("{} {unit}", cell(value)),
            (None, _) => cell(value),
        },
        Value::String(text) if name.ends_with("_at") => match text.parse::<Timestamp>() {
            Ok(at) => format!("{} UTC, {}", at.strftime("%Y-%m-%d %H:%M:%S"), ago(text)),
            Err(_) => text.clone(),
        },
        other => cell(other),
    }
}

/// A member in a table: fractions in per cent, times by their age, sizes in units, money in cents.
fn shown(pointer: &str, value: &Value) -> String {
    match value {
        Value::Number(index) if pointer.rsplit('/').next().is_some_and(is_from_zero) => {
            from_one(index)
        }
        Value::Number(number) if pointer.ends_with("_bytes") && number.is_u64() => number
            .as_u64()
            .map_or_else(String::new, |size| indicatif::DecimalBytes(size).to_string()),
        Value::Number(number) if pointer.ends_with("/fraction") => number
            .as_f64()
            .map_or_else(String::new, |fraction| format!("{:.0} %", 100.0 * fraction)),
        Value::Number(number) if is_money(pointer.trim_start_matches('/')) => cents(number),
        Value::String(text) if pointer.ends_with("_at") => ago(text),
        other => cell(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Output, Sheet, cell, duration, hung, rounded, whole_parts, with_unit};

    #[test]
    fn a_name_turns_nothing_round_and_commands_no_terminal() {
        let name = json!("ab\u{202e}gnp.exe\u{2066}\u{1b}[2Jγ");
        assert_eq!(cell(&name), "ab\u{fffd}gnp.exe\u{fffd}\u{fffd}[2Jγ");
    }

    #[test]
    fn numbers_are_as_long_as_they_matter() {
        for (number, text) in [
            (0.0088905750951, "0.008891"),
            (1522.07842, "1522.08"),
            (58269.5613, "58269.56"),
            (310.15, "310.15"),
            (0.0005, "0.0005"),
            (12345.0, "12345"),
            (-0.0, "0"),
        ] {
            assert_eq!(rounded(number).to_string(), text);
        }
    }

    #[test]
    fn numbers_of_many_zeros_have_a_power_of_ten() {
        for (number, text) in [
            (-3.33066907387e-17, "-3.331e-17"),
            (1.23e-7, "0.000000123"),
            (9.38129365496732e302, "9.381e302"),
            (1e14 + 0.5, "100000000000000.5"),
        ] {
            assert_eq!(cell(&json!(number)), text);
        }
        assert_eq!(with_unit("", "initialMargin", &json!(9.38129365496732e302)), "9.381e302");
        let row = json!({"column": "pc1", "unit": "Å", "mean": -3.33e-17, "error": 0.2026});
        let columns =
            [("COLUMN", "/column"), ("UNIT", "/unit"), ("MEAN", "/mean"), ("ERROR", "/error")];
        let sheet = Sheet::of(&columns, std::slice::from_ref(&row), 26);
        assert_eq!(sheet.cells, [["pc1", "-3.33e-17", "0.2026"]], "a column without its unit");
    }

    #[test]
    fn a_table_has_the_digits_of_small_numbers_and_the_cents_of_money() {
        let row =
            json!({"error": 0.004312345, "p": -0.00012, "loss": 1.23456, "initialMargin": -0.001});
        let columns =
            [("ERROR", "/error"), ("P", "/p"), ("LOSS", "/loss"), ("INITIAL", "/initialMargin")];
        let sheet = Sheet::of(&columns, std::slice::from_ref(&row), 80);
        assert_eq!(sheet.cells, [["0.004312", "-0.00012", "1.23", "0.00"]]);
    }

    #[test]
    fn numbers_of_a_column_have_as_many_decimals() {
        let rows = [
            json!({"time": 10, "temperature": 310.15, "density": 0.99812345, "p": 0.000000123}),
            json!({"time": 10.5, "temperature": 310.1, "density": 1.01845678, "p": 0.25}),
            json!({"temperature": 309.0, "density": 1.0, "p": 1.0, "name": "1.125"}),
        ];
        let columns = [
            ("TIME (ps)", "/time"),
            ("TEMPERATURE (K)", "/temperature"),
            ("DENSITY (g/mL)", "/density"),
            ("P", "/p"),
            ("NAME", "/name"),
        ];
        let expected = [
            ["10.0", "310.15", "0.9981", "0.000000123", ""],
            ["10.5", "310.10", "1.0185", "0.25", ""],
            ["", "309.00", "1.0000", "1", "1.125"],
        ];
        assert_eq!(Sheet::of(&columns, &rows, 100).cells, expected);
        let rows = [json!({"unit": "Å", "mean": 9.15}), json!({"unit": "frames", "mean": 12.0})];
        let of_each_a_unit = Sheet::of(&[("UNIT", "/unit"), ("MEAN", "/mean")], &rows, 80);
        assert_eq!(of_each_a_unit.cells, [["Å", "9.15"], ["frames", "12"]]);
    }

    #[test]
    fn a_progress_has_whole_parts_alone() {
        let text = "equilibration_1 (2/3) · step 12500/250000";
        assert_eq!(whole_parts(text, 41), text);
        assert_eq!(whole_parts(text, 40), "equilibration_1 (2/3)");
        assert_eq!(whole_parts(text, 10), "equilibra…");
    }

    #[test]
    fn times_are_in_hours_minutes_and_seconds() {
        for (seconds, text) in [
            (3.07667, "3.077 s"),
            (1522.07842, "25 min 22 s"),
            (3599.9, "1 h"),
            (7500.0, "2 h 5 min"),
            (120.0, "2 min"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
        assert_eq!(with_unit("estimate", "hours", &json!(0.000854630935)), "3.077 s");
    }

    #[test]
    fn lists_in_a_list_have_a_line_each_and_vectors_their_unit() {
        let shown = Output::silent().readable(&json!({
            "rmsd_masks": [["@CA"], [":1-5", ":LIG"]],
            "box_vectors": [[2.5, 0, 0], [0, 2.5, 0]],
        }));
        let expected = "rmsd_masks   @CA\n             :1-5, :LIG\n\
                        box_vectors  2.5, 0, 0 nm\n             0, 2.5, 0 nm\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_replica_has_the_number_of_its_folder() {
        let job = json!({"job_id": "job_1", "batch_index": 0});
        let sheet = Sheet::of(
            &[("ID", "/job_id"), ("REPLICA", "/batch_index")],
            std::slice::from_ref(&job),
            80,
        );
        assert_eq!(sheet.cells, [["job_1", "1"]]);
        let shown = Output::silent().readable(&job);
        assert_eq!(shown, "job_id   job_1\nreplica  1\n");
        let progress = Output::silent().readable(&json!({"stage_index": 0, "stage_count": 4}));
        assert_eq!(progress, "stage_number  1\nstage_count   4\n", "as the bar's 1/4");
    }

    #[test]
    fn a_long_text_goes_on_below_where_it_began() {
        let output = Output { width: Some(40), ..Output::silent() };
        let record =
            json!({"name": "x", "message": "one two three four five six seven eight nine ten"});
        let expected =
            "name     x\nmessage  one two three four five six\n         seven eight nine ten\n";
        assert_eq!(output.readable(&record), expected);
        let narrow = Output { width: Some(25), ..Output::silent() };
        assert_eq!(narrow.readable(&record).lines().count(), 2, "words of their own are no help");
        let record = json!({
            "mask": "!:HOH,LI,NA,K,RB,CS,F,CL,BR,I&!@/H",
            "at": "https://md.example.org/a,b,c,d,e,f",
        });
        let expected = "mask  !:HOH,LI,NA,K,RB,CS,F,CL,BR,I&\n      !@/H\n\
                        at    https://md.example.org/a,b,c,d,e,f\n";
        let output = Output { width: Some(36), ..Output::silent() };
        assert_eq!(output.readable(&record), expected, "a mask breaks between its parts");
    }

    #[test]
    fn a_remark_goes_on_below_its_head_between_words() {
        let text = "error: one two three four five";
        assert_eq!(hung(text, 0, 7, Some(27)), "error: one two three four\n       five");
        assert_eq!(hung(text, 0, 7, None), text, "into a pipe it is a line");
        let path = "at /a/path/that/is/longer/than/the/line";
        assert_eq!(hung(path, 0, 2, Some(25)), "at\n  /a/path/that/is/longer/than/the/line");
    }

    #[test]
    fn a_long_name_is_cut_and_the_other_columns_stay() {
        let columns = [("ID", "/job_id"), ("BATCH", "/batch_name"), ("STATUS", "/status")];
        let rows = [
            json!({"job_id": "job_0123456789abcdefghij", "batch_name": "n".repeat(200), "status": "queued"}),
        ];
        let sheet = Sheet::of(&columns, &rows, 60);
        assert_eq!(sheet.dropped, Vec::<&str>::new());
        assert_eq!(sheet.cells[0][1], format!("{}…", "n".repeat(19)));
        assert!(sheet.width() <= 60);
    }

    #[test]
    fn a_head_is_broken_only_where_that_makes_its_column_narrower() {
        let columns = [("VALUE (kJ/mol)", "/value"), ("WHAT TO DO", "/remedy")];
        let rows = [json!({"value": 12, "remedy": "word ".repeat(20)})];
        let sheet = Sheet::of(&columns, &rows, 60);
        assert_eq!([sheet.head(0), sheet.head(1)], ["VALUE\n(kJ/mol)", "WHAT TO DO"]);
    }

    #[test]
    fn where_numbers_do_not_fit_the_last_columns_are_left_out() {
        let columns = [("STEP", "/0"), ("TIME (ps)", "/1"), ("POTENTIAL ENERGY (kJ/mol)", "/2")];
        let rows = [json!([5814, 11.5, -20345.25])];
        let sheet = Sheet::of(&columns, &rows, 30);
        assert_eq!(sheet.cells, [["5814", "11.5", "-20345.25"]], "heads have more lines");
        let sheet = Sheet::of(&columns, &rows, 20);
        assert_eq!(sheet.dropped, ["POTENTIAL ENERGY (kJ/mol)"]);
        assert_eq!(sheet.cells, [["5814", "11.5"]]);
    }
}
