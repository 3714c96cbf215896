//! `molbox margin`

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use molbox::margin::{self, types::MarginJobRequest};
use molbox::workflow::types::LocItem;
use molbox_margin::{DataFormat, Error, Loc, Run, Store};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Code, Failure};
use crate::request::{self, Margin, Request};

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
}

#[derive(Args, Debug)]
pub(crate) struct Portfolio {
    #[command(flatten)]
    request: Request<Margin>,
    /// The portfolio as a document; CSV, JSON, YAML, XML or `FpML` by its extension.
    #[arg(short, long, value_name = "FILE")]
    portfolio: Option<PathBuf>,
    /// Format of the portfolio's document. Default: its extension; of XML, what is in it.
    #[arg(long, value_name = "FORMAT", value_parser = FORMATS)]
    data_format: Option<String>,
    /// File for the report: .csv, .json, .yaml or .xml.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const FORMATS: [&str; 5] = ["csv", "json", "yaml", "xml", "fpml"];

#[derive(Args, Debug)]
pub(crate) struct Submit {
    #[command(flatten)]
    portfolio: Portfolio,
}

#[derive(Args, Debug)]
pub(crate) struct Local {
    /// Folder with `contracts.csv`, `prices.csv` and perhaps `fx.csv`; without it, the sample data.
    #[arg(long, value_name = "FOLDER")]
    market: Option<PathBuf>,
    /// Currency of the report.
    #[arg(long, value_name = "CODE", default_value = "USD")]
    base_currency: String,
    /// Threads to use. Default: one for each processor.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    #[command(flatten)]
    portfolio: Portfolio,
}

impl Portfolio {
    fn job(&self) -> Result<(Value, String), Failure> {
        let mut job = self.request.value()?;
        let Some(path) = &self.portfolio else {
            return Ok((job, self.data_format.clone().unwrap_or_else(|| "json".to_owned())));
        };
        if job.pointer("/portfolio/futures").is_some() {
            return Err(Failure::usage("--portfolio and --future name two portfolios")
                .remedy("leave one out"));
        }
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_lowercase);
        let extension = extension.map(|e| if e == "yml" { "yaml".to_owned() } else { e });
        let format =
            self.data_format.clone().or(extension.filter(|e| FORMATS.contains(&e.as_str())));
        let mut format = format.ok_or_else(|| {
            let failure = Failure::usage(format!(
                "--portfolio {}: its format cannot be recognised",
                path.display()
            ));
            failure.remedy(format!("give --data-format, one of {}", FORMATS.join(", ")))
        })?;
        let (text, name) = request::read(path)?;
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
        request::set(&mut job, &["portfolio"], json!({"data": text}));
        Ok((job, format))
    }

    fn media(&self) -> Result<&'static str, Failure> {
        match self.output.as_deref().and_then(Path::extension).and_then(|e| e.to_str()) {
            Some("json") => Ok("application/json"),
            Some("yaml" | "yml") => Ok("application/yaml"),
            Some("xml") => Ok("application/xml"),
            Some("csv") => Ok("text/csv"),
            None if self.output.is_none() => Ok("application/json"),
            _ => Err(Failure::usage("--output: must end in .csv, .json, .yaml or .xml")),
        }
    }

    fn show(&self, context: &Context, report: &[u8]) -> Result<(), Failure> {
        if let Some(path) = &self.output {
            fs::write(path, report).map_err(|e| Failure::file(path, &e))?;
            return context.output.record(&json!({"file": path.display().to_string()}));
        }
        let report: Value = serde_json::from_slice(report).map_err(anyhow::Error::from)?;
        context.output.warnings(&report);
        if context.output.is_json() {
            return context.output.json(&report);
        }
        context.output.table(COLUMNS, report["rows"].as_array().map_or(&[], Vec::as_slice))?;
        context.output.text("\n")?;
        context.output.record(&report["summary"])
    }
}

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
        Command::Submit(submit) => self::submit(context, &submit.portfolio).await,
        Command::Local(local) => self::local(context, &local),
    }
}

async fn submit(context: &Context, portfolio: &Portfolio) -> Result<(), Failure> {
    let (job, format) = portfolio.job()?;
    request::check::<Margin>(&job)?;
    if portfolio.request.dry_run {
        return context.output.json(&job);
    }
    let client = context.margin()?;
    let call = client.call("POST", &format!("/margin/submit_job/historical/{format}"))?;
    let call =
        call.header("accept", portfolio.media()?)?.header("content-type", "application/json")?;
    let answer = call.body(job.to_string()).send().await?;
    portfolio.show(context, &answer.bytes().await?)
}

fn local(
    context: &Context,
    Local { market, base_currency, threads, portfolio }: &Local,
) -> Result<(), Failure> {
    let (job, format) = portfolio.job()?;
    request::check::<Margin>(&job)?;
    if portfolio.request.dry_run {
        return context.output.json(&job);
    }
    let store = match market {
        Some(folder) => Store::load(folder, base_currency),
        None => {
            context
                .output
                .note("no --market: calculated from the invented prices of the sample data");
            let files = molbox_margin::sample::files();
            let [contracts, prices, fx] = files
                .each_ref()
                .map(|(name, text)| molbox_margin::File { name, bytes: text.as_bytes() });
            Store::parse(contracts, &[prices], Some(fx), base_currency)
        }
    };
    let store = Arc::new(store.map_err(failure)?);
    let format = match format.as_str() {
        "csv" => DataFormat::Csv,
        "yaml" => DataFormat::Yaml,
        "xml" => DataFormat::Xml,
        "fpml" => DataFormat::Fpml,
        _ => DataFormat::Json,
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let run = Run { threads: threads.unwrap_or(processors), ..Run::default() };
    let request = molbox_margin::Request::from_json(job.to_string().as_bytes(), format, &store)
        .map_err(failure)?;
    for field in &request.unknown_fields().listed {
        context.output.warning(&unknown(field).to_string());
    }
    let report = request.calculate(run).map_err(failure)?;
    let text = match portfolio.media()? {
        "application/json" => report.json(),
        "application/yaml" => report.yaml(),
        "application/xml" => report.xml(),
        _ => report.csv(),
    };
    portfolio.show(context, text.as_bytes())
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
        Error::Refused(_) => Code::Invalid,
        _ => Code::Other,
    };
    let message = format!("{:#}", anyhow::Error::new(error)).replace('\n', "\n  ");
    Failure::new(code, message)
}
