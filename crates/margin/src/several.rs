//! Several portfolios in one request: each has its own answer, the one that it has by itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use quick_xml::escape::escape;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::check::{self, Place, ValueError, Violations};
use crate::error::{Error, Loc, MAX_LISTED, Violation};
use crate::portfolio::DataFormat;
use crate::report::{Report, quoted};
use crate::request::Request;
use crate::run::Run;
use crate::store::Store;
use crate::unknown::UnknownFields;

/// Portfolios of a request, at most.
const MAX_PORTFOLIOS: usize = 100;
/// Characters of a portfolio's name, at most.
const MAX_NAME: usize = 100;
/// Losses of all reports together, at most: as many as a single one can have.
const MAX_LOSSES: usize = 1_000_000;

/// Margin calculations of several portfolios by the same fields, on the same market data.
#[derive(Debug)]
pub struct Requests {
    each: Vec<(Arc<str>, Request)>,
    unknown: UnknownFields,
}

/// Margins of several portfolios.
///
/// Serializes as `{portfolios: [{name, report}]}`.
#[derive(Clone, Debug, Serialize)]
pub struct Reports {
    /// In the order of the request.
    pub portfolios: Vec<NamedReport>,
}

/// Margin of one of several portfolios.
#[derive(Clone, Debug, Serialize)]
pub struct NamedReport {
    /// What the request calls the portfolio.
    pub name: Arc<str>,
    /// The same as of the portfolio by itself.
    pub report: Report,
}

impl Requests {
    /// Reads a job that has `portfolios`, each with a name and what a portfolio has. The rest of
    /// the job is the same for all.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with everything that is wrong; what is wrong with one portfolio names it.
    pub fn from_value(job: Value, format: DataFormat, store: &Arc<Store>) -> Result<Self, Error> {
        let Value::Object(mut job) = job else {
            return Err(ValueError::new("type_error", "must be an object").of_body());
        };
        let mut violations = Violations::default();
        let portfolios = job.remove("portfolios").unwrap_or_default();
        if job.get("portfolio").is_some_and(|portfolio| !portfolio.is_null()) {
            let error = ValueError::new("value_error", "cannot be given beside portfolios");
            violations.add(Place::Portfolio, &[], error);
        }
        let portfolios = list(portfolios, &mut violations);
        let n_scenarios = job.get("numScenarios").and_then(Value::as_f64).unwrap_or(10_000.0);
        let losses = n_scenarios * portfolios.len() as f64;
        if job.get("includeLosses") == Some(&Value::Bool(true)) && losses > MAX_LOSSES as f64 {
            let msg = format!(
                "of {} portfolios with {n_scenarios} scenarios each there would be {losses} \
                 losses, at most {MAX_LOSSES} are answered: ask for fewer scenarios, or for fewer \
                 portfolios at a time",
                portfolios.len()
            );
            let error = ValueError::new("value_error.too_large", msg);
            violations.add(Place::Body, &["includeLosses".into()], error);
        }
        let names = names(&portfolios, &mut violations);
        if !violations.is_empty() {
            return Err(violations.into_error());
        }
        let mut each = Vec::with_capacity(portfolios.len());
        let mut unknown = UnknownFields::default();
        let mut refused: Vec<Vec<Violation>> = Vec::new();
        for (index, (name, mut portfolio)) in names.iter().zip(portfolios).enumerate() {
            portfolio.remove("name");
            job.insert("portfolio".to_owned(), Value::Object(portfolio));
            // Moved in and out, for it may have a million positions.
            let single = Value::Object(job);
            let read = Request::from_value(&single, format, store);
            let Value::Object(back) = single else { unreachable!("it was just made") };
            job = back;
            match read {
                Ok(request) => {
                    unknown.append(unknown_of(request.unknown_fields(), index));
                    each.push((name.clone(), request));
                }
                Err(Error::Refused(violations)) => refused.push(placed(violations, index)),
                Err(other) => return Err(other),
            }
        }
        if refused.is_empty() {
            Ok(Self { each, unknown })
        } else {
            Err(Error::Refused(merged(refused, &names)))
        }
    }

    /// Fields of the request that there are not; they were ignored.
    pub fn unknown_fields(&self) -> &UnknownFields {
        &self.unknown
    }

    /// Calculates the margins, one after the other.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for what only the calculation shows of one of them, which is named;
    /// [`Error::Cancelled`] when `run` was cancelled.
    pub fn calculate(&self, run: Run<'_>) -> Result<Reports, Error> {
        let mut portfolios = Vec::with_capacity(self.each.len());
        for (index, (name, request)) in self.each.iter().enumerate() {
            let report = request.calculate(run).map_err(|error| match error {
                Error::Refused(violations) => {
                    let placed = placed(violations, index).into_iter();
                    Error::Refused(placed.map(|violation| of(violation, name)).collect())
                }
                other => other,
            })?;
            portfolios.push(NamedReport { name: name.clone(), report });
        }
        Ok(Reports { portfolios })
    }
}

/// The items of `portfolios`, as far as they are objects.
fn list(portfolios: Value, violations: &mut Violations) -> Vec<Map<String, Value>> {
    let Value::Array(items) = portfolios else {
        let error = ValueError::new("type_error", "must be a list");
        violations.add(Place::Body, &["portfolios".into()], error);
        return Vec::new();
    };
    if items.is_empty() || items.len() > MAX_PORTFOLIOS {
        let msg = format!("must be from 1 to {MAX_PORTFOLIOS} portfolios, got {}", items.len());
        let error = ValueError::new("value_error.too_large", msg);
        violations.add(Place::Body, &["portfolios".into()], error);
        return Vec::new();
    }
    let mut portfolios = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Value::Object(fields) => portfolios.push(fields),
            _ => violations.add(
                Place::Body,
                &["portfolios".into(), index.into()],
                ValueError::new("type_error", "must be an object"),
            ),
        }
    }
    portfolios
}

/// The names of the portfolios, each of which has one of its own.
fn names(portfolios: &[Map<String, Value>], violations: &mut Violations) -> Vec<Arc<str>> {
    let mut known = BTreeSet::new();
    let mut names = Vec::with_capacity(portfolios.len());
    for (index, portfolio) in portfolios.iter().enumerate() {
        let name = check::required(portfolio.get("name").unwrap_or(&Value::Null), check::text);
        let name = name.and_then(|name| {
            if name.trim().is_empty() || name.chars().count() > MAX_NAME {
                let msg = format!("must have from 1 to {MAX_NAME} characters, blanks aside");
                Err(ValueError::new("value_error", msg))
            } else if known.insert(name) {
                Ok(name)
            } else {
                Err(ValueError::new("value_error", format!("{name:?} is given more than once")))
            }
        });
        match name {
            Ok(name) => names.push(name.into()),
            Err(error) => violations.add(
                Place::Body,
                &["portfolios".into(), index.into(), "name".into()],
                error,
            ),
        }
    }
    names
}

/// The violations of one of several portfolios, where they stand in the request.
fn placed(violations: Vec<Violation>, index: usize) -> Vec<Violation> {
    let place = |violation: Violation| Violation { loc: within(violation.loc, index), ..violation };
    violations.into_iter().map(place).collect()
}

fn within(loc: Vec<Loc>, index: usize) -> Vec<Loc> {
    match loc.as_slice() {
        [body, Loc::Field("portfolio"), rest @ ..] => {
            [&[*body, "portfolios".into(), index.into()], rest].concat()
        }
        _ => loc,
    }
}

/// A violation with the portfolio that it is of.
fn of(violation: Violation, name: &str) -> Violation {
    Violation { msg: format!("{} (portfolio {name:?})", violation.msg), ..violation }
}

/// The violations of all portfolios: what is wrong with each of them in the same way is wrong with
/// the fields that they share, and stands once.
fn merged(refused: Vec<Vec<Violation>>, names: &[Arc<str>]) -> Vec<Violation> {
    let is_shared = |violation: &Violation| {
        refused.len() == names.len() && refused.iter().all(|of_one| of_one.contains(violation))
    };
    let mut all = Vec::new();
    for of_one in &refused {
        for violation in of_one {
            if is_shared(violation) {
                if !all.contains(violation) {
                    all.push(violation.clone());
                }
                continue;
            }
            let index = violation.loc.iter().find_map(|step| match step {
                Loc::Index(index) => Some(*index),
                Loc::Field(_) => None,
            });
            let is_of_portfolio = violation.loc.get(1) == Some(&Loc::Field("portfolios"));
            let name = index.filter(|_| is_of_portfolio).and_then(|index| names.get(index));
            all.push(match name {
                Some(name) => of(violation.clone(), name),
                None => violation.clone(),
            });
        }
    }
    all.truncate(MAX_LISTED);
    all
}

/// The unknown fields of one of several portfolios; those of what they share are the first's.
fn unknown_of(unknown: &UnknownFields, index: usize) -> UnknownFields {
    let mut own = unknown.clone();
    own.listed.retain(|field| index == 0 || field.within.get(1) == Some(&Loc::Field("portfolio")));
    for field in &mut own.listed {
        field.within = within(std::mem::take(&mut field.within), index);
    }
    own
}

impl Reports {
    /// The lines of [`Report::csv`] of all, with the name of the portfolio in front.
    pub fn csv(&self) -> String {
        let mut csv = String::new();
        for NamedReport { name, report } in &self.portfolios {
            append_named(&mut csv, name, &report.csv());
        }
        csv
    }

    /// The lines of [`Report::filing`] of all, with the name of the portfolio in front. There is no
    /// total of them: margins of portfolios do not add up.
    pub fn filing(&self, market_data: &str) -> String {
        let mut csv = String::new();
        for NamedReport { name, report } in &self.portfolios {
            append_named(&mut csv, name, &report.filing(market_data));
        }
        csv
    }

    /// The lines of [`Self::csv`] as a JSON array of strings.
    pub fn lines(&self) -> String {
        let csv = self.csv();
        serde_json::to_string(&csv.lines().collect::<Vec<_>>()).expect("texts")
    }

    /// `{"portfolios": [{"name": …, "report": …}]}`, each as [`Report::json`] has it.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("keys are strings and no value fails")
    }

    /// `<portfolios>` with a `<portfolio name="…">` for each `<margin>`.
    pub fn xml(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<portfolios>\n");
        for NamedReport { name, report } in &self.portfolios {
            let of_one = report.xml();
            let margin = of_one.split_once("?>\n").map_or("", |(_, margin)| margin);
            write!(xml, "<portfolio name=\"{}\">\n{margin}</portfolio>\n", escape(&**name))
                .expect("a String takes everything");
        }
        xml.push_str("</portfolios>\n");
        xml
    }

    /// The same keys as JSON.
    pub fn yaml(&self) -> String {
        let mut yaml = String::from("portfolios:\n");
        for NamedReport { name, report } in &self.portfolios {
            let name = serde_json::to_string(&**name).expect("a text");
            write!(yaml, "- name: {name}\n  report:\n").expect("a String takes everything");
            for line in report.yaml().lines() {
                writeln!(yaml, "    {line}").expect("a String takes everything");
            }
        }
        yaml
    }
}

/// Appends the lines of a portfolio with its name in front, and the header where there is none yet.
fn append_named(csv: &mut String, name: &str, of_one: &str) {
    let name = quoted(name);
    for (n, line) in of_one.lines().enumerate() {
        let first = if n > 0 { &name } else { "portfolio" };
        if n > 0 || csv.is_empty() {
            writeln!(csv, "{first},{line}").expect("a String takes everything");
        }
    }
}
