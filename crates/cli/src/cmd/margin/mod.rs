//! `molbox margin`

mod figures;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use molbox::margin::{self, types::MarginJobRequest};
use molbox::workflow::types::LocItem;
use molbox_margin::{Backtest, DataFormat, Date, Error, Loc, Requests, Run, Store, Violation};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::destination;
use crate::failure::{Code, Failure};
use crate::request::{self, Margin, Request};
use crate::units;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Calculate the margin of a portfolio at the service.
    ///
    /// Example: molbox margin submit --future XEQ1:long:10 --future XEQ2:short:7.5 --margin-date
    /// 2024-12-31
    Submit(Box<Submit>),
    /// Calculate it on this machine, from market data in a folder. The numbers are the service's.
    ///
    /// Example: molbox margin local --market ./market --portfolio book.csv
    Local(Box<Local>),
    /// Compare margins of past days with the losses that followed, on this machine.
    ///
    /// The periods follow one another without a gap or an overlap, each margin knows the prices up
    /// to its day alone, and the positions are the same all the time. Kupiec's and
    /// Christoffersen's tests say whether there are as many losses above the value at risk as its
    /// level says, and whether they come in clusters.
    ///
    /// Example: molbox margin backtest --market ./market --portfolio book.csv --from 2015-01-01
    /// --time-horizon-days 1 --plot backtest.svg
    Backtest(Box<Past>),
}

#[derive(Args, Debug)]
pub(crate) struct Portfolio {
    /// The same as `--portfolio FILE`.
    #[arg(value_name = "PORTFOLIO", conflicts_with = "portfolio")]
    named: Vec<PathBuf>,
    #[command(flatten)]
    request: Request<Margin>,
    /// The portfolio as a document; CSV, JSON, YAML, XML or `FpML` by its extension. Of several,
    /// each has its own answer, under the name of its file.
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    portfolio: Vec<PathBuf>,
    /// Format of the portfolio's document. Default: its extension; of XML, what is in it.
    #[arg(long, value_name = "FORMAT", value_parser = FORMATS)]
    data_format: Option<String>,
    /// File for the report: .csv, .json, .yaml or .xml.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Pictures of a margin.
#[derive(Args, Debug)]
pub(crate) struct Plots {
    /// Draw how much the scenarios lose, as .svg, .pdf or .png.
    #[arg(long, value_name = "FILE")]
    plot_losses: Option<PathBuf>,
    /// Draw what the positions add to the margin, as .svg, .pdf or .png.
    #[arg(long, value_name = "FILE")]
    plot_parts: Option<PathBuf>,
}

/// CSV with a line for the total, that says how the number came about: it is a file to keep.
const CSV: &str = "text/csv; total=present";

const FORMATS: [&str; 5] = ["csv", "json", "yaml", "xml", "fpml"];

#[derive(Args, Debug)]
pub(crate) struct Submit {
    #[command(flatten)]
    portfolio: Portfolio,
    #[command(flatten)]
    plots: Plots,
}

#[derive(Args, Debug)]
pub(crate) struct Local {
    #[command(flatten)]
    market: Market,
    #[command(flatten)]
    portfolio: Portfolio,
    #[command(flatten)]
    plots: Plots,
}

#[derive(Args, Debug)]
pub(crate) struct Past {
    /// First day of the backtest, YYYY-MM-DD.
    #[arg(long, value_name = "DATE")]
    from: Date,
    /// Last day that has a margin. Default: the last that a loss follows.
    #[arg(long, value_name = "DATE")]
    to: Option<Date>,
    /// Draw margins and losses, as .svg, .pdf or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    market: Market,
    #[command(flatten)]
    portfolio: Portfolio,
}

/// Market data on this machine.
#[derive(Args, Debug)]
pub(crate) struct Market {
    /// Folder with `contracts.csv`, `prices.csv` and perhaps `fx.csv`; without it, the sample data.
    #[arg(long, value_name = "FOLDER")]
    market: Option<PathBuf>,
    /// Currency of the report.
    #[arg(long, value_name = "CODE", default_value = "USD")]
    base_currency: String,
    /// Threads to use. Default: one for each processor.
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| units::whole(text, 0usize))]
    threads: Option<usize>,
}

impl Portfolio {
    /// One whose fields and file a program gives.
    pub(crate) fn of(fields: Value, file: Option<PathBuf>) -> Self {
        let portfolio = file.into_iter().collect();
        let request = Request::of(fields);
        Self { named: Vec::new(), request, portfolio, data_format: None, output: None }
    }

    /// Its documents, with or without the flag.
    fn paths(&self) -> &[PathBuf] {
        if self.named.is_empty() { &self.portfolio } else { &self.named }
    }

    /// The job, and the format of its portfolios.
    fn job(&self) -> Result<(Value, String), Failure> {
        let mut job = self.request.value()?;
        if self.paths().is_empty() {
            return Ok((job, self.data_format.clone().unwrap_or_else(|| "json".to_owned())));
        }
        if job.pointer("/portfolio/futures").is_some() || has_several(&job) {
            return Err(Failure::usage("--portfolio and --future name two portfolios")
                .remedy("leave one out"));
        }
        if let [path] = self.paths() {
            let (text, format) = self.document(path)?;
            request::set(&mut job, &["portfolio"], json!({"data": text}));
            return Ok((job, format));
        }
        let mut format: Option<String> = None;
        let mut portfolios = Vec::new();
        for path in self.paths() {
            let (text, found) = self.document(path)?;
            if let Some(first) = format.as_ref().filter(|first| **first != found) {
                let message =
                    format!("--portfolio {}: it is {found}, the first is {first}", path.display());
                return Err(Failure::usage(message)
                    .remedy("give files of one format, or one file at a time"));
            }
            format = Some(found);
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if portfolios.iter().any(|known: &Value| known["name"] == name) {
                let message = format!("--portfolio {}: another is called {name}", path.display());
                return Err(Failure::usage(message).remedy("rename one of the files"));
            }
            portfolios.push(json!({"name": name, "data": text}));
        }
        request::set(&mut job, &["portfolios"], Value::Array(portfolios));
        Ok((job, format.unwrap_or_default()))
    }

    /// The text of a portfolio's file, and its format.
    fn document(&self, path: &Path) -> Result<(String, String), Failure> {
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_lowercase);
        let extension = extension.map(|e| if e == "yml" { "yaml".to_owned() } else { e });
        let is_workbook = matches!(extension.as_deref(), Some("xlsx" | "xls" | "ods"));
        let format =
            self.data_format.clone().or(extension.filter(|e| FORMATS.contains(&e.as_str())));
        let mut format = format.ok_or_else(|| {
            let failure = Failure::usage(format!(
                "--portfolio {}: its format cannot be recognised",
                path.display()
            ));
            failure.remedy(match is_workbook {
                true => "save its sheet as CSV".to_owned(),
                false => format!("call it .{}; or give --data-format", FORMATS.join(", .")),
            })
        })?;
        let (text, name) = request::read(path).map_err(|failure| {
            if failure.message.contains("UTF-8") {
                failure.remedy("write it as UTF-8, which spreadsheets call \"CSV UTF-8\"")
            } else {
                failure
            }
        })?;
        // Both are called .xml.
        if format == "xml" && self.data_format.is_none() && text.contains("http://www.fpml.org/") {
            format = "fpml".to_owned();
        }
        if let Ok(document) = request::parse(&text, Some(&format)) {
            // A portfolio alone, or a job with one.
            let known = match document.get("portfolio") {
                Some(_) => request::only_known::<MarginJobRequest>(&document),
                None => request::only_known::<margin::types::Portfolio>(&document),
            };
            known.map_err(|failure| failure.within(&name))?;
        }
        Ok((text, format))
    }

    /// The form that the output wants; refuses a file that cannot be written.
    fn media(&self) -> Result<&'static str, Failure> {
        let Some(path) = &self.output else { return Ok("application/json") };
        let media = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => "application/json",
            Some("yaml" | "yml") => "application/yaml",
            Some("xml") => "application/xml",
            Some("csv") => CSV,
            _ => return Err(Failure::usage("--output: must end in .csv, .json, .yaml or .xml")),
        };
        destination::file(path)?;
        Ok(media)
    }

    fn show(
        &self,
        context: &Context,
        Answered { report, totals }: Answered,
        hides_losses: bool,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.output {
            return written(context, path, &report, totals);
        }
        let mut report: Value = serde_json::from_slice(&report).map_err(anyhow::Error::from)?;
        if let Some(fields) = report.as_object_mut().filter(|_| hides_losses) {
            fields.remove("losses");
        }
        if let Some(portfolios) = report["portfolios"].as_array() {
            for named in portfolios {
                warn(context, &named["report"], named["name"].as_str());
            }
            if context.output.is_json() {
                return context.output.json(&report);
            }
            let totals = portfolios.iter().map(|named| {
                let mut total = named["report"]["summary"].clone();
                total["name"] = named["name"].clone();
                total
            });
            return context.output.table(TOTALS, &totals.collect::<Vec<_>>());
        }
        warn(context, &report, None);
        if context.output.is_json() {
            return context.output.json(&report);
        }
        let summary = &report["summary"];
        let mut rows = report["rows"].as_array().cloned().unwrap_or_default();
        let base = &summary["baseCurrency"];
        let is_mixed = rows.iter().any(|row| row["currency"] != *base);
        if rows.len() > 1 {
            rows.push(total(summary));
        }
        if !rows.is_empty() {
            context.output.table(COLUMNS, &rows)?;
        }
        if let Some(base) = base.as_str().filter(|_| is_mixed) {
            context.output.note(&format!(
                "amounts of a position are in its own currency, the total and all below in {base}"
            ));
        }
        context.output.text("\n")?;
        context.output.record(&readable(summary, &totals))?;
        match report["worstScenarios"].as_array() {
            Some(worst) if !worst.is_empty() => {
                context.output.text("\n")?;
                context.output.table(WORST, worst)
            }
            _ => Ok(()),
        }
    }
}

/// Writes a report to a file, and shows what it comes to.
fn written(
    context: &Context,
    path: &Path,
    report: &[u8],
    totals: Map<String, Value>,
) -> Result<(), Failure> {
    fs::write(path, report).map_err(|e| Failure::file(path, &e))?;
    let is_zero = totals.get("initialMargin").is_some_and(|margin| *margin == 0.0);
    // Nothing was simulated.
    if is_zero && !totals.contains_key("seed") {
        context.output.warning(NO_POSITIONS);
    }
    let mut written = Map::from_iter([("file".to_owned(), path.display().to_string().into())]);
    written.extend(totals);
    context.output.record(&Value::Object(written))
}

/// A list of positions may be empty, and rarely is so on purpose.
const NO_POSITIONS: &str = "the portfolio has no positions: its margin is 0";

/// Shows the warnings of a report, of several portfolios the one of this name.
fn warn(context: &Context, report: &Value, name: Option<&str>) {
    if report["rows"].as_array().is_some_and(Vec::is_empty) {
        let of = name.map(|name| format!("{name}: ")).unwrap_or_default();
        context.output.warning(&format!("{of}{NO_POSITIONS}"));
    }
    context.output.warnings(report);
}

/// The row below those of the positions.
fn total(summary: &Value) -> Value {
    json!({
        "ticker": "total",
        "currency": summary["baseCurrency"],
        "initialMargin": summary["initialMargin"],
        "maintenanceMargin": summary["maintenanceMargin"],
    })
}

/// A summary for people, with what it takes to calculate it again and to add up positions in several
/// currencies. Volatilities are mostly told by the year, these are of a day.
fn readable(summary: &Value, totals: &Map<String, Value>) -> Value {
    let mut summary = summary.clone();
    if let Some(members) = summary.as_object_mut() {
        if let Some(sigma) = members.remove("sigma") {
            members.insert("sigmaOfADay".to_owned(), sigma);
        }
        let more = ["rates", "seed"].into_iter().filter_map(|name| totals.get_key_value(name));
        members.extend(more.map(|(name, value)| (name.clone(), value.clone())));
    }
    summary
}

/// A margin as it is written, and what it comes to.
struct Answered {
    report: Vec<u8>,
    totals: Map<String, Value>,
}

const TOTALS: &[(&str, &str)] = &[
    ("PORTFOLIO", "/name"),
    ("INITIAL", "/initialMargin"),
    ("MAINTENANCE", "/maintenanceMargin"),
    ("CURRENCY", "/baseCurrency"),
    ("SHORTFALL", "/expectedShortfall"),
    ("VALUE AT RISK", "/valueAtRisk"),
    ("DATE", "/marginDate"),
];

const WORST: &[(&str, &str)] = &[("LOSS", "/loss"), ("DATES", "/dates")];

const COLUMNS: &[(&str, &str)] = &[
    ("TICKER", "/ticker"),
    ("SIDE", "/positionType"),
    ("QUANTITY", "/quantity"),
    ("CURRENCY", "/currency"),
    ("MARKET VALUE", "/currentMarketValue"),
    ("INITIAL", "/initialMargin"),
    ("MAINTENANCE", "/maintenanceMargin"),
    ("VARIATION", "/variationMargin"),
];

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Submit(submit) => self::submit(context, &submit).await,
        Command::Local(local) => self::local(context, &local),
        Command::Backtest(past) => backtest(context, &past),
    }
}

async fn submit(context: &Context, Submit { portfolio, plots }: &Submit) -> Result<(), Failure> {
    let (mut job, format) = portfolio.job()?;
    let hides_losses = plots.ask(&mut job)?;
    request::check::<Margin>(&job)?;
    if portfolio.request.dry_run {
        return context.output.json(&job);
    }
    let media = portfolio.media()?;
    if plots.are_wanted() && media != "application/json" {
        return Err(Failure::usage("--output: with a plot it must end in .json")
            .remedy("or calculate it twice, once with the plot and once with the file"));
    }
    let answered = answer(context, &job, &format, media).await?;
    plots.draw(&answered.report, &answered.totals)?;
    portfolio.show(context, answered, hides_losses)
}

/// The service's answer, in the form that the portfolio's output wants.
pub(crate) async fn report(context: &Context, portfolio: &Portfolio) -> Result<Vec<u8>, Failure> {
    let (job, format) = portfolio.job()?;
    request::check::<Margin>(&job)?;
    Ok(answer(context, &job, &format, portfolio.media()?).await?.report)
}

async fn answer(
    context: &Context,
    job: &Value,
    format: &str,
    media: &str,
) -> Result<Answered, Failure> {
    let client = context.margin()?;
    let call = client.call("POST", &format!("/margin/submit_job/historical/{format}"))?;
    let call = call.header("accept", media)?.header("content-type", "application/json")?;
    let answer = call.body(job.to_string()).send().await?;
    let totals = [
        ("initialMargin", "x-margin-initial"),
        ("maintenanceMargin", "x-margin-maintenance"),
        ("currency", "x-margin-currency"),
        ("marginDate", "x-margin-date"),
        ("seed", "x-margin-seed"),
        ("rates", "x-margin-rates"),
    ];
    let totals = totals.into_iter().filter_map(|(name, header)| {
        let text = answer.header(header)?;
        // Numbers as they are.
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        Some((name.to_owned(), value))
    });
    let totals = totals.collect();
    Ok(Answered { report: answer.bytes().await?.to_vec(), totals })
}

impl Plots {
    fn are_wanted(&self) -> bool {
        self.plot_losses.is_some() || self.plot_parts.is_some()
    }

    /// Asks for what the pictures show; returns whether the losses are for them alone.
    fn ask(&self, job: &mut Value) -> Result<bool, Failure> {
        if self.are_wanted() && has_several(job) {
            return Err(Failure::usage("a plot is of one portfolio")
                .remedy("give one --portfolio at a time"));
        }
        figures::check(self.plot_losses.as_deref())?;
        figures::check(self.plot_parts.as_deref())?;
        if self.plot_losses.is_none() || job["includeLosses"] == true {
            return Ok(false);
        }
        request::set(job, &["includeLosses"], json!(true));
        Ok(true)
    }

    fn draw(&self, report: &[u8], totals: &Map<String, Value>) -> Result<(), Failure> {
        if !self.are_wanted() {
            return Ok(());
        }
        let report: Value = serde_json::from_slice(report).map_err(anyhow::Error::from)?;
        let plots = [
            (&self.plot_losses, figures::losses(&report)),
            (&self.plot_parts, figures::parts(&report, totals)),
        ];
        for (path, figure) in plots {
            match (path, figure) {
                (Some(path), Some(figure)) => figures::write(&figure, path)?,
                (Some(path), None) => {
                    let message = format!("{}: there is nothing to draw", path.display());
                    return Err(Failure::new(Code::Other, message)
                        .remedy("a portfolio without positions has no scenarios"));
                }
                (None, _) => {}
            }
        }
        Ok(())
    }
}

impl Market {
    fn store(&self, context: &Context) -> Result<Arc<Store>, Failure> {
        let store = match &self.market {
            Some(folder) => Store::load(folder, &self.base_currency),
            None => {
                context
                    .output
                    .note("no --market: calculated from the invented prices of the sample data");
                let files = molbox_margin::sample::files();
                let [contracts, prices, fx] = files
                    .each_ref()
                    .map(|(name, text)| molbox_margin::File { name, bytes: text.as_bytes() });
                Store::parse(contracts, &[prices], Some(fx), &self.base_currency)
            }
        };
        Ok(Arc::new(store.map_err(failure)?))
    }

    fn run(&self) -> Run<'static> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Run { threads: self.threads.unwrap_or(processors), ..Run::default() }
    }
}

fn format_of(name: &str) -> DataFormat {
    match name {
        "csv" => DataFormat::Csv,
        "yaml" => DataFormat::Yaml,
        "xml" => DataFormat::Xml,
        "fpml" => DataFormat::Fpml,
        _ => DataFormat::Json,
    }
}

fn backtest(context: &Context, past: &Past) -> Result<(), Failure> {
    let Past { from, to, plot, market, portfolio } = past;
    let (job, format) = portfolio.job()?;
    request::check::<Margin>(&job)?;
    figures::check(plot.as_deref())?;
    if has_several(&job) {
        return Err(Failure::usage("a backtest is of one portfolio")
            .remedy("give one --portfolio at a time"));
    }
    if portfolio.request.dry_run {
        return context.output.json(&job);
    }
    let write_days = match portfolio.output.as_deref() {
        Some(path) => Some((path, days_writer(path)?)),
        None => None,
    };
    let store = market.store(context)?;
    let bar = context.output.bar("backtest");
    let show = |date: Date, done: f64| {
        bar.set_position((1000.0 * done) as u64);
        bar.set_message(date.to_string());
    };
    let found = Backtest::of(&job, format_of(&format), &store, *from, *to, market.run(), show);
    bar.finish_and_clear();
    let found = found.map_err(failure)?;
    if let Some(path) = plot {
        figures::write(&figures::backtest(&found, &found.currency), path)?;
    }
    for skipped in &found.skipped {
        context.output.warning(&format!("no margin on {}: {}", skipped.date, skipped.reason));
    }
    if let Some((path, write_days)) = write_days {
        fs::write(path, write_days(&found)).map_err(|error| Failure::file(path, &error))?;
    }
    let mut found = serde_json::to_value(&found).map_err(anyhow::Error::from)?;
    if context.output.is_json() {
        return context.output.json(&found);
    }
    // Thousands of lines; they are in the file and in the picture.
    if let Some(fields) = found.as_object_mut() {
        fields.remove("days");
        fields.remove("skipped");
    }
    context.output.record(&found)
}

/// How the days of a backtest are written to this file; refuses one that cannot be.
fn days_writer(path: &Path) -> Result<fn(&Backtest) -> String, Failure> {
    let writer = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => {
            |found: &Backtest| serde_json::to_string(found).expect("it has string keys")
        }
        Some("csv") => days_as_csv,
        _ => return Err(Failure::usage("--output: a backtest's must end in .csv or .json")),
    };
    destination::file(path)?;
    Ok(writer)
}

fn days_as_csv(backtest: &Backtest) -> String {
    let mut csv = String::from("date,until,initialMargin,valueAtRisk,loss\n");
    for day in &backtest.days {
        let molbox_margin::Day { date, until, initial_margin, value_at_risk, loss } = day;
        writeln!(csv, "{date},{until},{initial_margin},{value_at_risk},{loss}")
            .expect("a String takes everything");
    }
    csv
}

fn local(context: &Context, local: &Local) -> Result<(), Failure> {
    let Local { market, portfolio, plots } = local;
    let (mut job, format) = portfolio.job()?;
    let hides_losses = plots.ask(&mut job)?;
    request::check::<Margin>(&job)?;
    if portfolio.request.dry_run {
        return context.output.json(&job);
    }
    let media = portfolio.media()?;
    let store = market.store(context)?;
    let format = format_of(&format);
    let run = market.run();
    if has_several(&job) {
        return local_several(context, portfolio, media, job, format, &store, run);
    }
    let request = molbox_margin::Request::from_json(job.to_string().as_bytes(), format, &store)
        .map_err(failure)?;
    for field in &request.unknown_fields().listed {
        context.output.warning(&unknown(field).to_string());
    }
    let report = request.calculate(run).map_err(failure)?;
    let totals = totals(&report);
    plots.draw(report.json().as_bytes(), &totals)?;
    let text = match media {
        "application/json" => report.json(),
        "application/yaml" => report.yaml(),
        "application/xml" => report.xml(),
        _ => report.filing(store.sha256()),
    };
    let answered = Answered { report: text.into_bytes(), totals };
    portfolio.show(context, answered, hides_losses)
}

/// What a margin comes to, as the service's headers have it.
fn totals(report: &molbox_margin::Report) -> Map<String, Value> {
    let summary = &report.summary;
    let mut totals = Map::new();
    let mut add = |name: &str, value: Value| totals.insert(name.to_owned(), value);
    add("initialMargin", summary.initial_margin.into());
    add("maintenanceMargin", summary.maintenance_margin.into());
    if let Some(simulation) = &summary.simulation {
        add("currency", simulation.base_currency.to_string().into());
        add("marginDate", simulation.margin_date.to_string().into());
        add("seed", simulation.seed.into());
        let rates: Vec<String> =
            simulation.rates.iter().map(|(of, rate)| format!("{of}={rate}")).collect();
        if !rates.is_empty() {
            add("rates", rates.join(";").into());
        }
    }
    totals
}

/// Whether a job has several portfolios; an empty list is none.
fn has_several(job: &Value) -> bool {
    let several = &job["portfolios"];
    !several.is_null() && several.as_array().is_none_or(|list| !list.is_empty())
}

/// The margins of several portfolios, on market data that is read once.
fn local_several(
    context: &Context,
    portfolio: &Portfolio,
    media: &str,
    job: Value,
    format: DataFormat,
    store: &Arc<Store>,
    run: Run<'_>,
) -> Result<(), Failure> {
    let requests = Requests::from_value(job, format, store).map_err(failure)?;
    for field in &requests.unknown_fields().listed {
        context.output.warning(&unknown(field).to_string());
    }
    let reports = requests.calculate(run).map_err(failure)?;
    let text = match media {
        "application/json" => reports.json(),
        "application/yaml" => reports.yaml(),
        "application/xml" => reports.xml(),
        _ => reports.filing(store.sha256()),
    };
    let answered = Answered { report: text.into_bytes(), totals: Map::new() };
    portfolio.show(context, answered, false)
}

/// A field that a portfolio's document has and a job does not.
fn unknown(field: &molbox_margin::UnknownField) -> molbox::UnknownField {
    // Without the `body` in front.
    let within = field.within.iter().skip(1).map(step);
    molbox::UnknownField::at::<MarginJobRequest>(
        within.chain([LocItem::String(field.name.clone())]).collect(),
    )
}

fn step(of: &Loc) -> LocItem {
    match of {
        Loc::Field(name) => LocItem::String((*name).to_owned()),
        Loc::Index(index) => LocItem::Int64(*index as i64),
    }
}

fn failure(error: Error) -> Failure {
    let code = match &error {
        Error::Read { .. } | Error::MarketData(_) => Code::File,
        Error::Refused(violations) => {
            let problems = violations.iter().map(|it| (place(it), it.msg.clone()));
            return Failure::invalid_fields(problems.collect()).expect("something is wrong");
        }
        _ => Code::Other,
    };
    let message = format!("{:#}", anyhow::Error::new(error)).replace('\n', "\n  ");
    Failure::new(code, message)
}

/// The field of a job that is wrong, as the service's answers are shown: without the `body` in
/// front.
fn place(violation: &Violation) -> String {
    let text = violation.to_string();
    let place = text.strip_suffix(&format!(": {}", violation.msg)).unwrap_or_default();
    // What is wrong with the whole has no place.
    place.trim_start_matches("body").trim_start_matches('.').to_owned()
}
