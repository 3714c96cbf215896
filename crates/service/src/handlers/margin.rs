//! The margin endpoint.

use std::convert::Infallible;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use molbox::UnknownField;
use molbox::margin::types::MarginJobRequest;
use molbox::workflow::types::{LocItem, ValidationError};
use molbox_margin::{DataFormat, Error, Loc, Report, Reports, Request, Requests, Run, Store};
use multer::Multipart;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::app::App;
use crate::db::Answer;
use crate::error::ApiError;
use crate::http::body;
use crate::http::call::{self, Call};
use crate::http::once::remembered;
use crate::http::room::Share;
use crate::http::slots::Slot;
use crate::http::validate::{loc, violation};

/// Up when the service is, and the market data that it has can be used.
pub(crate) async fn service_health(call: Call) -> Result<Response, ApiError> {
    call.app.market.check()?;
    super::service::service_health(call).await
}

pub(crate) async fn margin_submit(mut call: Call) -> Result<Response, ApiError> {
    let (body, ignored_parts) = match call.bytes.len() > body::LARGE_BYTES {
        // Where no other request waits for it.
        true => block_in_place(|| Handle::current().block_on(body(&mut call)))?,
        false => body(&mut call).await?,
    };
    let store = match call.app.market.store() {
        Ok(store) => store,
        // What is wrong with the request comes before what is wrong with the service.
        Err(error) => {
            return Err(refused_anyway(&call.app, data_format(&call), &body)?.unwrap_or(error));
        }
    };
    // Dropped with this future when the caller leaves, which ends the calculation.
    let cancel = Cancel(Arc::new(AtomicBool::new(false)));
    let slot = call.app.turn(&call.app.market.slots, call.account()).await?;
    let work = Work {
        app: call.app.clone(),
        store,
        format: data_format(&call),
        fields: fields(&call),
        ignored: ignored_parameters(&call).into_iter().chain(ignored_parts).collect(),
        body,
        answer: AnswerKind::wanted(&call),
        is_cancelled: cancel.0.clone(),
        _slot: slot,
        _share: call.share.take(),
    };
    let seconds = call.app.config.margin.seconds;
    let limit = if seconds == 0 { Duration::MAX } else { Duration::from_secs(seconds) };
    let calculated =
        tokio::time::timeout(limit, tokio::task::spawn_blocking(move || work.run())).await;
    let answer = calculated.map_err(|_| too_long(seconds))?.map_err(ApiError::internal)??;
    remembered(&call, answer).await
}

fn too_long(seconds: u64) -> ApiError {
    let msg = format!(
        "the calculation takes longer than {seconds} s; ask for fewer scenarios, days or tickers"
    );
    ApiError::invalid_body("time_limit", Vec::new(), msg)
}

/// Sets its flag when it is dropped.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The portfolio, by how it came.
enum Sent {
    /// The job with the portfolio inside.
    Job(Vec<u8>),
    /// The job with several.
    Several(Vec<u8>),
    /// The job, perhaps, and the portfolio as a file.
    Form { job: Value, portfolio: Vec<u8> },
    /// The portfolio alone, or a document that is the whole job.
    Document(Vec<u8>),
}

/// A calculation with all that it needs, for a thread of its own.
struct Work {
    app: Arc<App>,
    store: Arc<Store>,
    format: DataFormat,
    fields: Vec<(String, String)>,
    body: Sent,
    /// Warnings about what came beside the job, and was ignored.
    ignored: Vec<String>,
    answer: AnswerKind,
    is_cancelled: Arc<AtomicBool>,
    /// Kept until the thread is done, also when nobody waits for it any more.
    _slot: Slot,
    /// Of the memory for bodies; likewise.
    _share: Option<Share>,
}

impl Work {
    fn run(self) -> Result<Answer, ApiError> {
        let Self { app, store, format, body, is_cancelled, .. } = &self;
        let run = Run { threads: app.config.margin.threads.max(1), cancel: is_cancelled };
        if let Sent::Several(bytes) = body {
            return self.of_several(bytes, run);
        }
        let request = match body {
            Sent::Job(bytes) | Sent::Several(bytes) => Request::from_json(bytes, *format, store),
            Sent::Form { job, portfolio } => Request::from_parts(job, portfolio, *format, store),
            Sent::Document(bytes) => {
                let fields = self.fields.iter().map(|(name, text)| (name.as_str(), text.as_str()));
                Request::from_document(bytes, *format, fields, store)
            }
        };
        let refused = |error| match (error, body) {
            (Error::Refused(violations), Sent::Job(bytes)) => {
                match breaks_the_document(app, *format, bytes) {
                    Ok(None) => refusal(violations),
                    Ok(Some(violations)) => ApiError::invalid(violations),
                    Err(error) => error,
                }
            }
            (Error::Refused(violations), _) => refusal(violations),
            (other, _) => ApiError::internal(anyhow::Error::new(other)),
        };
        let request = request.map_err(refused)?;
        let mut warnings = self.ignored.clone();
        warnings.extend(unknown_fields(request.unknown_fields()));
        let mut report = request.calculate(run).map_err(refused)?;
        // First: they may mean that the margin is not the one that was asked for.
        report.warnings.splice(0..0, warnings);
        Ok(answer(&report, self.answer, store))
    }

    /// The margins of several portfolios, each under its name.
    fn of_several(&self, bytes: &[u8], run: Run<'_>) -> Result<Answer, ApiError> {
        let refused = |error| match error {
            Error::Refused(violations) => refusal(violations),
            other => ApiError::internal(anyhow::Error::new(other)),
        };
        let job = body::parse(bytes, self.app.config.limits.body_values)?;
        let requests = Requests::from_value(job.into_serde(), self.format, &self.store);
        let requests = requests.map_err(refused)?;
        let mut warnings = self.ignored.clone();
        warnings.extend(unknown_fields(requests.unknown_fields()));
        let mut reports = requests.calculate(run).map_err(refused)?;
        for named in &mut reports.portfolios {
            named.report.warnings.splice(0..0, warnings.iter().cloned());
        }
        Ok(answer_of_several(&reports, self.answer, &self.store))
    }
}

/// What a JSON job breaks of the document, when its portfolio is none by the document: then these
/// are the violations. A portfolio that is one is judged by the rules of the calculation, and so
/// are the fields around it.
fn breaks_the_document(
    app: &App,
    format: DataFormat,
    bytes: &[u8],
) -> Result<Option<Vec<ValidationError>>, ApiError> {
    // Of one with so many values the calculation names what is wrong; it reads without keeping
    // them.
    let Some(mut job) = body::parse_small(bytes, app.config.limits.body_values)? else {
        return Ok(None);
    };
    let operation = app.contract.operation("margin_submit").expect("the route table has it");
    // Values outside of their ranges are for the calculation to name, as in the other formats.
    let body = operation.check_body(&mut job);
    let violations = if body.is_readable { Vec::new() } else { body.violations };
    let job = job.into_serde();
    // A text can be a document; in JSON only one that begins like an object.
    let is_document = job["portfolio"]
        .as_str()
        .is_some_and(|text| format != DataFormat::Json || text.trim_start().starts_with('{'));
    let is_of_portfolio =
        |v: &ValidationError| v.loc.get(1) == Some(&loc("portfolio")) && v.type_ != "finite_number";
    let has_none = job.get("portfolio").is_none();
    let decides = !is_document && (has_none || violations.iter().any(is_of_portfolio));
    Ok((decides && !violations.is_empty()).then_some(violations))
}

/// The refusal of a request that would be refused with any market data.
fn refused_anyway(
    app: &App,
    format: DataFormat,
    body: &Sent,
) -> Result<Option<ApiError>, ApiError> {
    let (Sent::Job(bytes) | Sent::Several(bytes)) = body else { return Ok(None) };
    Ok(breaks_the_document(app, format, bytes)?.map(ApiError::invalid))
}

fn refusal(violations: Vec<molbox_margin::Violation>) -> ApiError {
    let step = |step: Loc| match step {
        Loc::Field(name) => loc(name),
        Loc::Index(index) => LocItem::Int64(index as i64),
    };
    let one = |v: molbox_margin::Violation| {
        violation(v.kind, v.loc.into_iter().map(step).collect(), v.msg)
    };
    ApiError::invalid(violations.into_iter().map(one).collect())
}

fn data_format(call: &Call) -> DataFormat {
    match call.parameter("data_format") {
        "fpml" => DataFormat::Fpml,
        "csv" => DataFormat::Csv,
        "xml" => DataFormat::Xml,
        "yaml" => DataFormat::Yaml,
        _ => DataFormat::Json,
    }
}

/// Fields of the job that came as parameters, beside a body that is the portfolio alone: all that
/// the document names but the one for the answer.
fn fields(call: &Call) -> Vec<(String, String)> {
    let operation = call.app.contract.operation(call.operation).expect("the route table has it");
    let names = operation.query_parameters().filter(|name| *name != "shape");
    names.filter_map(|name| Some((name.to_owned(), call.query(name)?.to_owned()))).collect()
}

/// Warnings about query parameters that the operation does not have.
fn ignored_parameters(call: &Call) -> Vec<String> {
    let operation = call.app.contract.operation(call.operation).expect("the route table has it");
    let unknown = call
        .query
        .iter()
        .filter(|(name, _)| operation.query_parameters().all(|known| known != name));
    unknown.take(MAX_IGNORED).map(|(name, _)| ignored("query parameter", name)).collect()
}

/// So many parameters and parts that were ignored are named; a request with more has one cause.
const MAX_IGNORED: usize = 20;

/// So many parts a form may have, of which two are read.
const MAX_PARTS: usize = 64;

/// A warning about something beside the job, which is called as a field of the job is.
fn ignored(what: &str, name: &str) -> String {
    let field = UnknownField::at::<MarginJobRequest>(vec![loc(name)]);
    let meant: Vec<&str> =
        field.nearest.iter().filter_map(|path| path.rsplit('.').next()).collect();
    let question = if meant.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", meant.join(" or "))
    };
    format!("{} is not a {what} of this request and was ignored{question}", field.path())
}

/// Warnings about fields of the job that there are not.
fn unknown_fields(unknown: &molbox_margin::UnknownFields) -> Vec<String> {
    let step = |step: &Loc| match step {
        Loc::Field(name) => loc(*name),
        Loc::Index(index) => LocItem::Int64(*index as i64),
    };
    let mut warnings = Vec::new();
    for field in &unknown.listed {
        // Without the `body` in front.
        let within = field.within.iter().skip(1).map(step);
        let at = within.chain([loc(field.name.as_str())]).collect();
        warnings.push(call::unknown_field(&UnknownField::at::<MarginJobRequest>(at)));
    }
    if unknown.more > 0 {
        warnings.push(call::more_unknown_fields(unknown.more));
    }
    warnings
}

/// Takes the body apart by its content type, which has to agree with the data format; and warnings
/// about the parts of it that were ignored.
async fn body(call: &mut Call) -> Result<(Sent, Vec<String>), ApiError> {
    if let Some(encoding) = call.header("content-encoding") {
        return Err(ApiError::unsupported_media(format!(
            "the content encoding {encoding} is not gzip"
        )));
    }
    let media = call.media();
    let formats: &[DataFormat] = match media.as_str() {
        "multipart/form-data" => return form(call).await,
        "text/csv" => &[DataFormat::Csv],
        "application/fpml+xml" => &[DataFormat::Fpml],
        "application/xml" | "text/xml" => &[DataFormat::Xml, DataFormat::Fpml],
        "application/yaml" | "application/x-yaml" | "text/yaml" => &[DataFormat::Yaml],
        _ => &[],
    };
    if formats.contains(&data_format(call)) {
        return Ok((Sent::Document(mem::take(&mut call.bytes)), Vec::new()));
    }
    let is_json = body::is_json(&media);
    let kind = if is_json { kind_of(&call.bytes) } else { Kind::Job };
    if kind == Kind::Portfolio && data_format(call) == DataFormat::Json {
        return Ok((Sent::Document(mem::take(&mut call.bytes)), Vec::new()));
    }
    if !formats.is_empty() || !is_json {
        let format = call.parameter("data_format");
        return Err(ApiError::unsupported_media(format!(
            "{media} is not the data format {format}; a job in application/json is accepted for every format"
        )));
    }
    beside_the_job(call)?;
    let bytes = mem::take(&mut call.bytes);
    let sent = match kind {
        Kind::Several => Sent::Several(bytes),
        Kind::Job | Kind::Portfolio => Sent::Job(bytes),
    };
    Ok((sent, Vec::new()))
}

/// What a JSON body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Job,
    /// A job with several portfolios.
    Several,
    /// The portfolio alone, as in the other formats: it has futures, and no portfolio that they
    /// belong into.
    Portfolio,
}

/// Looks at the names at the top of a JSON body; nothing of it is kept.
fn kind_of(bytes: &[u8]) -> Kind {
    #[derive(Deserialize)]
    struct Top<'a> {
        futures: Option<IgnoredAny>,
        portfolio: Option<IgnoredAny>,
        #[serde(borrow)]
        portfolios: Option<&'a RawValue>,
    }

    match serde_json::from_slice::<Top<'_>>(bytes) {
        Ok(Top { portfolios: Some(list), .. }) if !is_empty(list) => Kind::Several,
        Ok(top) if top.futures.is_some() && top.portfolio.is_none() => Kind::Portfolio,
        _ => Kind::Job,
    }
}

fn is_empty(list: &RawValue) -> bool {
    list.get().strip_prefix('[').is_some_and(|end| end.trim_start() == "]")
}

/// Refuses fields that came as parameters although the body has a place for them.
fn beside_the_job(call: &Call) -> Result<(), ApiError> {
    let misplaced = fields(call).into_iter().map(|(name, _)| {
        violation(
            "misplaced",
            vec![loc("query"), loc(name)],
            "belongs into the job, which the body holds",
        )
    });
    let misplaced: Vec<_> = misplaced.collect();
    if misplaced.is_empty() { Ok(()) } else { Err(ApiError::invalid(misplaced)) }
}

async fn form(call: &mut Call) -> Result<(Sent, Vec<String>), ApiError> {
    beside_the_job(call)?;
    let broken = |msg: String| ApiError::invalid_body("form_invalid", Vec::new(), msg);
    let media = call.header("content-type").unwrap_or_default();
    let boundary = multer::parse_boundary(media).map_err(|e| broken(e.to_string()))?;
    // It has been read whole, within the limit of this address.
    let bytes = Bytes::from(mem::take(&mut call.bytes));
    let body = futures::stream::once(async { Ok::<_, Infallible>(bytes) });
    let mut form = Multipart::new(body, boundary);
    let (mut job, mut portfolio) = (Value::Object(serde_json::Map::new()), None);
    let mut warnings = Vec::new();
    let mut n_parts = 0;
    while let Some(part) = form.next_field().await.map_err(|e| broken(e.to_string()))? {
        n_parts += 1;
        // Each takes as long as what comes behind it is large.
        if n_parts > MAX_PARTS {
            return Err(broken(format!(
                "the form has more than {MAX_PARTS} parts; it takes two, job and portfolio"
            )));
        }
        let name = part.name().unwrap_or_default().to_owned();
        let bytes = part.bytes().await.map_err(|e| broken(e.to_string()))?;
        match name.as_str() {
            "job" => job = body::parse(&bytes, call.app.config.limits.body_values)?.into_serde(),
            "portfolio" => portfolio = Some(bytes.to_vec()),
            _ if warnings.len() < MAX_IGNORED => warnings.push(ignored("part", &name)),
            _ => {}
        }
    }
    let missing = || ApiError::invalid_body("missing", vec![loc("portfolio")], "Field required");
    Ok((Sent::Form { job, portfolio: portfolio.ok_or_else(missing)? }, warnings))
}

/// Notation of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerKind {
    Csv,
    /// CSV with a line for the total.
    Filing,
    Lines,
    Json,
    Xml,
    Yaml,
}

/// Media types of the answers, the preferred first.
const ANSWERS: [(&str, AnswerKind); 7] = [
    ("text/csv", AnswerKind::Csv),
    ("application/json", AnswerKind::Json),
    ("application/xml", AnswerKind::Xml),
    ("text/xml", AnswerKind::Xml),
    ("application/yaml", AnswerKind::Yaml),
    ("application/x-yaml", AnswerKind::Yaml),
    ("text/yaml", AnswerKind::Yaml),
];

/// Parameter of `text/csv` in `Accept` that asks for a file which stands by itself: plain `text/csv`
/// has the documented rows and columns alone, which programs count on.
const TOTAL: &str = "total=present";

impl AnswerKind {
    fn wanted(call: &Call) -> Self {
        match call.query("shape") {
            Some("lines") => Self::Lines,
            Some("report") => Self::Json,
            _ => Self::accepted(&call.headers),
        }
    }

    /// What `Accept` prefers; the file as CSV when it names nothing that there is.
    fn accepted(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        let mut best = (0.0, Self::Csv);
        for range in lists.flat_map(|list| list.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<&str> = parts.collect();
            let quality = parameters
                .iter()
                .find_map(|p| p.strip_prefix("q="))
                .map_or(1.0, |q| q.parse().unwrap_or(0.0));
            let found = ANSWERS.iter().find(|(name, _)| {
                media == *name
                    || media == "*/*"
                    || media.strip_suffix('*').is_some_and(|of| name.starts_with(of))
            });
            let has_total = parameters.iter().any(|p| p.eq_ignore_ascii_case(TOTAL));
            if let Some((_, kind)) = found.filter(|_| quality > best.0) {
                let is_filing = has_total && *kind == Self::Csv;
                best = (quality, if is_filing { Self::Filing } else { *kind });
            }
        }
        best.1
    }
}

/// The report as it is sent, and kept for a repeated request.
fn answer(report: &Report, kind: AnswerKind, store: &Store) -> Answer {
    let (media, extension, body) = match kind {
        AnswerKind::Csv => ("text/csv; charset=utf-8", "csv", report.csv()),
        AnswerKind::Filing => ("text/csv; charset=utf-8", "csv", report.filing(store.sha256())),
        AnswerKind::Lines => ("application/json", "", report.lines()),
        AnswerKind::Json => ("application/json", "", report.json()),
        AnswerKind::Xml => ("application/xml", "xml", report.xml()),
        AnswerKind::Yaml => ("application/yaml", "yaml", report.yaml()),
    };
    let mut headers = vec![(CONTENT_TYPE.to_string(), media.to_owned())];
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
    if !extension.is_empty() {
        let date = report.margin_date.map(|date| format!("_{date}")).unwrap_or_default();
        add(
            CONTENT_DISPOSITION.as_str(),
            format!("attachment; filename=\"margin{date}.{extension}\""),
        );
    }
    add("x-margin-initial", report.summary.initial_margin.to_string());
    let currency =
        report.summary.simulation.as_ref().map_or(store.base_currency(), |s| &s.base_currency);
    add("x-margin-currency", currency.to_string());
    add("x-margin-maintenance", report.summary.maintenance_margin.to_string());
    if let Some(date) = report.margin_date {
        add("x-margin-date", date.to_string());
    }
    if let Some(simulation) = &report.summary.simulation {
        add("x-margin-seed", simulation.seed.to_string());
        let rates: Vec<String> =
            simulation.rates.iter().map(|(of, rate)| format!("{of}={rate}")).collect();
        if !rates.is_empty() {
            add("x-margin-rates", header_text(&rates.join(";")));
        }
    }
    if !report.warnings.is_empty() {
        add("x-margin-warnings", header_text(&report.warnings.join("; ")));
    }
    add("x-market-data", store.sha256().to_owned());
    Answer { headers, body }
}

/// The reports of several portfolios as they are sent, and kept for a repeated request.
fn answer_of_several(reports: &Reports, kind: AnswerKind, store: &Store) -> Answer {
    let (media, extension, body) = match kind {
        AnswerKind::Csv => ("text/csv; charset=utf-8", "csv", reports.csv()),
        AnswerKind::Filing => ("text/csv; charset=utf-8", "csv", reports.filing(store.sha256())),
        AnswerKind::Lines => ("application/json", "", reports.lines()),
        AnswerKind::Json => ("application/json", "", reports.json()),
        AnswerKind::Xml => ("application/xml", "xml", reports.xml()),
        AnswerKind::Yaml => ("application/yaml", "yaml", reports.yaml()),
    };
    let mut headers = vec![(CONTENT_TYPE.to_string(), media.to_owned())];
    if !extension.is_empty() {
        let disposition = format!("attachment; filename=\"margins.{extension}\"");
        headers.push((CONTENT_DISPOSITION.to_string(), disposition));
    }
    let named = reports.portfolios.iter().flat_map(|named| {
        named.report.warnings.iter().map(|warning| format!("{}: {warning}", named.name))
    });
    let warnings: Vec<String> = named.collect();
    if !warnings.is_empty() {
        headers.push(("x-margin-warnings".to_owned(), header_text(&warnings.join("; "))));
    }
    headers.push(("x-market-data".to_owned(), store.sha256().to_owned()));
    Answer { headers, body }
}

/// A text as a header can have it: what is not printable ASCII, which tickers may hold, is `?`.
fn header_text(text: &str) -> String {
    const MAX_BYTES: usize = 4000;
    text.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).take(MAX_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use axum::http::header::ACCEPT;

    use super::AnswerKind;

    #[test]
    fn the_answer_is_what_accept_prefers() {
        for (accept, kind) in [
            ("*/*", AnswerKind::Csv),
            ("application/json", AnswerKind::Json),
            ("text/html, application/xml;q=0.9, */*;q=0.8", AnswerKind::Xml),
            ("application/json;q=0.5, application/yaml", AnswerKind::Yaml),
            ("application/*", AnswerKind::Json),
            ("image/png", AnswerKind::Csv),
            ("text/csv, application/json", AnswerKind::Csv),
            ("text/csv;total=present", AnswerKind::Filing),
            ("application/json;q=0.5, text/csv; total=present; q=0.8", AnswerKind::Filing),
            ("text/csv; total=present; q=0.5, application/json", AnswerKind::Json),
            ("text/csv; header=present", AnswerKind::Csv),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(AnswerKind::accepted(&headers), kind, "{accept}");
        }
        assert_eq!(AnswerKind::accepted(&HeaderMap::new()), AnswerKind::Csv);
    }
}
