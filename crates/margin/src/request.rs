//! The request: from a job as it was sent to one that can be calculated, or everything that is
//! wrong with it at once.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeSeed as _;
use serde_json::{Value, json};

use crate::Date;
use crate::book::{self, Book};
use crate::check::{self, Place, ValueError, Violations};
use crate::error::{Error, Loc};
use crate::model::{MAX_DATES, Measure, Model, Wanted, Window};
use crate::portfolio::{self, DataFormat, Lines, Positions, Tree};
use crate::schema::Part;
use crate::store::Store;
use crate::unknown::UnknownFields;

const MAX_SCENARIOS: u32 = 1_000_000;
const MAX_HORIZON_DAYS: u32 = 250;
const CONFIDENCE: [f64; 2] = [0.5, 0.9999];
const MAX_WORST: u32 = 1000;

/// A margin calculation that can be made, on the market data it was checked against.
#[derive(Debug)]
pub struct Request {
    pub(crate) store: Arc<Store>,
    pub(crate) model: Model,
    pub(crate) window: Window,
    pub(crate) book: Book,
    pub(crate) wanted: Wanted,
    /// Of the positions, in the file that they came in.
    pub(crate) lines: Lines,
    unknown: UnknownFields,
}

impl Request {
    /// Fields of the request that there are not; they were ignored. Of an `FpML` document, which
    /// says much that a margin does not need, none are listed.
    pub fn unknown_fields(&self) -> &UnknownFields {
        &self.unknown
    }

    /// Reads a JSON job with its portfolio inside: the object with `futures`, or a document in
    /// `format`, either as a string or as `{"data": …, "encoding": "base64"}`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with everything that is wrong.
    pub fn from_json(job: &[u8], format: DataFormat, store: &Arc<Store>) -> Result<Self, Error> {
        let mut draft = Draft::new(store);
        let job = portfolio::decode(job)
            .and_then(|text| portfolio::read_json(text, Part::Job, &mut draft.positions));
        draft.with_portfolio_inside(&job.map_err(ValueError::of_body)?, format)
    }

    /// The same of a job that somebody else has parsed, in which a key that was there twice can no
    /// longer be noticed.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with everything that is wrong.
    pub fn from_value(job: &Value, format: DataFormat, store: &Arc<Store>) -> Result<Self, Error> {
        Draft::new(store).with_job(job, format)
    }

    /// The same, with positions as if they were entered the day before.
    pub(crate) fn without_entries(
        job: &Value,
        format: DataFormat,
        store: &Arc<Store>,
    ) -> Result<Self, Error> {
        Draft { has_entries: false, ..Draft::new(store) }.with_job(job, format)
    }

    /// Days on which every ticker of a job's portfolio has a settlement, ascending, as far as the
    /// portfolio can be read.
    pub(crate) fn trading_days(job: &Value, format: DataFormat, store: &Arc<Store>) -> Vec<Date> {
        let mut draft = Draft::new(store);
        if let Ok(job) =
            (Tree { part: Part::Job, positions: &mut draft.positions }).deserialize(job)
        {
            draft.read_portfolio_inside(&job, format);
        }
        book::trading_days(store, &draft.positions.accepted)
    }

    /// Reads a JSON job without a portfolio, and the portfolio from a document of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with everything that is wrong.
    pub fn from_parts(
        job: &Value,
        document: &[u8],
        format: DataFormat,
        store: &Arc<Store>,
    ) -> Result<Self, Error> {
        let mut draft = Draft::new(store);
        if job["portfolio"].is_null() {
            draft.read_document(document, format, &[]);
        } else {
            let error =
                ValueError::new("value_error", "is given twice, in the job and as a document");
            draft.violations.add(Place::Portfolio, &[], error);
        }
        draft.note_unknown(Place::Body, Part::Job, job);
        draft.note_unknown(Place::Settings, Part::Settings, &job["settings"]);
        draft.finish(job)
    }

    /// Reads a document that is a portfolio, or (XML `<marginJob>`, YAML with `portfolio`) a whole
    /// job. `fields` are further fields of the job and of its settings, as texts, with lists
    /// separated by commas; names that a job does not have are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with everything that is wrong.
    pub fn from_document<'f>(
        document: &[u8],
        format: DataFormat,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        store: &Arc<Store>,
    ) -> Result<Self, Error> {
        let mut draft = Draft::new(store);
        let read =
            portfolio::read(document, format, &mut draft.positions).map_err(ValueError::of_body)?;
        draft.refuse_beside_portfolio(&read);
        let mut job = if read.get("portfolio").or(read.get("portfolios")).is_some() {
            read
        } else {
            json!({ "portfolio": read })
        };
        draft.check_futures(&job["portfolio"]);
        for (name, text) in fields {
            draft.add_field(&mut job, name, text);
        }
        draft.finish(&job)
    }
}

/// A request that is being read.
struct Draft<'s> {
    store: &'s Arc<Store>,
    positions: Positions<'s>,
    violations: Violations,
    /// Whether it matters when positions were entered.
    has_entries: bool,
}

impl<'s> Draft<'s> {
    fn new(store: &'s Arc<Store>) -> Self {
        Self {
            store,
            positions: Positions::new(store),
            violations: Violations::default(),
            has_entries: true,
        }
    }

    fn with_job(mut self, job: &Value, format: DataFormat) -> Result<Request, Error> {
        let job = Tree { part: Part::Job, positions: &mut self.positions }.deserialize(job);
        let job = job.map_err(|error| portfolio::unreadable(error.to_string()).of_body())?;
        self.with_portfolio_inside(&job, format)
    }

    fn with_portfolio_inside(mut self, job: &Value, format: DataFormat) -> Result<Request, Error> {
        self.read_portfolio_inside(job, format);
        self.finish(job)
    }

    fn read_portfolio_inside(&mut self, job: &Value, format: DataFormat) {
        let portfolio = &job["portfolio"];
        if let Some(document) = portfolio.as_str() {
            self.read_document(document.as_bytes(), format, &[]);
        } else if portfolio["data"].is_null() {
            self.check_futures(portfolio);
        } else if portfolio["futures"].is_null() {
            self.read_data(portfolio, format);
        } else {
            let error = ValueError::new("value_error", "takes the place of futures");
            self.violations.add(Place::Portfolio, &["data".into()], error);
        }
    }

    /// Reads a portfolio from the document in `data`, which may be in base64.
    fn read_data(&mut self, portfolio: &Value, format: DataFormat) {
        let encoding = self
            .violations
            .field(Place::Portfolio, "encoding", portfolio, |v| check::optional(v, known_encoding));
        let data = self.violations.field(Place::Portfolio, "data", portfolio, check::text);
        let (Some(encoding), Some(data)) = (encoding, data) else { return };
        let decoded = match encoding {
            None => Ok(data.as_bytes().to_vec()),
            Some(()) => BASE64_STANDARD.decode(data.replace(char::is_whitespace, "")),
        };
        match decoded {
            Ok(document) => self.read_document(&document, format, &["data".into()]),
            Err(error) => {
                let error = portfolio::unreadable(format!("base64: {error}"));
                self.violations.add(Place::Portfolio, &["data".into()], error);
            }
        }
    }

    /// Reads a portfolio from a document that the field `tail` of the portfolio holds.
    fn read_document(&mut self, document: &[u8], format: DataFormat, tail: &[Loc]) {
        match portfolio::read(document, format, &mut self.positions) {
            Ok(read) => {
                self.refuse_beside_portfolio(&read);
                self.check_futures(&read);
            }
            Err(error) => self.violations.add(Place::Portfolio, tail, error),
        }
    }

    /// A document is a portfolio or has one. If it were both, positions of one would not count, or
    /// those of two portfolios would count as one.
    fn refuse_beside_portfolio(&mut self, document: &Value) {
        for name in ["futures", "data"] {
            if !document["portfolio"].is_null() && !document[name].is_null() {
                let error = ValueError::new("value_error", "cannot be given beside portfolio");
                self.violations.add(Place::Body, &[name.into()], error);
            }
        }
    }

    /// A portfolio without futures is a mistake, one with an empty list is a portfolio.
    fn check_futures(&mut self, portfolio: &Value) {
        if !portfolio["data"].is_null() {
            let error =
                ValueError::new("value_error", "takes the place of futures, in a job alone");
            self.violations.add(Place::Portfolio, &["data".into()], error);
        }
        if portfolio.is_object() || portfolio.is_null() {
            self.violations
                .field(Place::Portfolio, "futures", portfolio, |v| check::required(v, list));
        } else {
            self.violations.add(
                Place::Portfolio,
                &[],
                ValueError::new("type_error", "must be an object"),
            );
        }
    }

    /// Notes the fields of a parsed object that there are not.
    fn note_unknown(&mut self, place: Place, part: Part, fields: &Value) {
        for name in fields.as_object().into_iter().flat_map(|fields| fields.keys()) {
            if part.field(name).is_none() {
                self.positions.unknown.add(place, &[], name);
            }
        }
    }

    /// Adds a field that came beside the document.
    fn add_field(&mut self, job: &mut Value, name: &str, text: &str) {
        let (place, fields, (name, part)) =
            match (Part::Job.field(name), Part::Settings.field(name)) {
                (Some(field), _) => (Place::Body, job, field),
                (None, Some(field)) => (Place::Settings, &mut job["settings"], field),
                (None, None) => return,
            };
        if matches!(part, Part::Settings | Part::Portfolio | Part::Portfolios)
            || !(fields.is_object() || fields.is_null())
        {
            return;
        }
        if fields[name].is_null() {
            fields[name] = part.of_text(text);
        } else {
            self.violations.add(
                place,
                &[name.into()],
                ValueError::new("value_error", "is given twice"),
            );
        }
    }

    /// Checks the fields of the job, then the positions on its day.
    fn finish(mut self, job: &Value) -> Result<Request, Error> {
        if !job.is_object() {
            return Err(ValueError::new("type_error", "must be an object").of_body());
        }
        self.violations.field(Place::Body, "portfolios", job, none);
        let date = self
            .violations
            .field(Place::Body, "marginDate", job, |v| check::optional(v, check::date));
        let date = date.map(|date| {
            date.or_else(|| book::latest_settlement(self.store, &self.positions.accepted))
        });
        let model = self.model(job);
        let window = self.window(&job["settings"], date.flatten());
        if model.is_some_and(|model| model.stress_weight > 0.0)
            && window.as_ref().is_some_and(|window| window.stress.is_none())
        {
            let error = ValueError::new("value_error.missing", "field required with stressWeight");
            self.violations.add(Place::Settings, &["stressStartDate".into()], error);
        }
        let currency = self
            .violations
            .field(Place::Body, "resultCurrency", job, |v| check::optional(v, check::text))
            .flatten();
        let wanted = self.wanted(job);
        if !self.has_entries {
            for position in &mut self.positions.accepted {
                position.entry_date = None;
                position.entry_price = None;
            }
        }
        self.violations.append(self.positions.violations);
        let book = Book::new(
            self.store,
            &self.positions.accepted,
            date.flatten(),
            model,
            currency,
            &mut self.violations,
        );
        match (model, window, wanted) {
            (Some(model), Some(window), Some(wanted)) if self.violations.is_empty() => {
                Ok(Request {
                    store: self.store.clone(),
                    model,
                    window,
                    book,
                    wanted,
                    lines: self.positions.lines,
                    unknown: self.positions.unknown,
                })
            }
            _ => Err(self.positions.lines.named(self.violations.into_error())),
        }
    }

    fn model(&mut self, job: &Value) -> Option<Model> {
        let violations = &mut self.violations;
        let n_scenarios = violations.field(Place::Body, "numScenarios", job, |v| {
            check::or(10_000, v, |v| check::count(v, MAX_SCENARIOS))
        });
        let horizon_days = violations.field(Place::Body, "timeHorizonDays", job, |v| {
            check::or(2, v, |v| check::count(v, MAX_HORIZON_DAYS))
        });
        let lookback = violations
            .field(Place::Body, "volatilityLookbackDays", job, |v| check::or(250, v, lookback));
        let decay =
            violations.field(Place::Body, "ewmaDecayFactor", job, |v| check::or(0.97, v, decay));
        let multiplier = violations
            .field(Place::Body, "volatilityMultiplier", job, |v| check::or(1.0, v, multiplier));
        let seed = violations.field(Place::Body, "seed", job, |v| check::or(42, v, seed));
        let measure = violations
            .field(Place::Body, "riskMeasure", job, |v| check::or(Measure::default(), v, measure));
        let [least, most] = CONFIDENCE;
        let confidence = violations.field(Place::Body, "confidenceLevel", job, |v| {
            check::or(0.99, v, |v| check::within(v, least, most))
        });
        let mut part = |name| {
            violations.field(Place::Body, name, job, |v| {
                check::or(0.0, v, |v| check::within(v, 0.0, 1.0))
            })
        };
        let volatility_floor = part("volatilityFloor");
        let stress_weight = part("stressWeight");
        Some(Model {
            n_scenarios: n_scenarios?,
            horizon_days: horizon_days?,
            lookback: lookback?,
            decay: decay?,
            multiplier: multiplier?,
            volatility_floor: volatility_floor?,
            seed: seed?,
            measure: measure?,
            confidence: confidence?,
            stress_weight: stress_weight?,
        })
    }

    fn wanted(&mut self, job: &Value) -> Option<Wanted> {
        let violations = &mut self.violations;
        let n_worst = violations.field(Place::Body, "worstScenarios", job, |v| {
            check::or(0, v, |v| if v.as_f64() == Some(0.0) { Ok(0) } else { worst(v) })
        });
        let losses = violations
            .field(Place::Body, "includeLosses", job, |v| check::or(false, v, check::flag));
        Some(Wanted { n_worst: n_worst?, losses: losses? })
    }

    /// The window up to `margin_date`, if that is known.
    fn window(&mut self, settings: &Value, margin_date: Option<Date>) -> Option<Window> {
        if !(settings.is_object() || settings.is_null()) {
            self.violations.add(
                Place::Settings,
                &[],
                ValueError::new("type_error", "must be an object"),
            );
            return None;
        }
        let start = self
            .violations
            .field(Place::Settings, "startDate", settings, |v| check::optional(v, check::date));
        let end = self
            .violations
            .field(Place::Settings, "endDate", settings, |v| check::optional(v, check::date));
        let stress = self.stress(settings);
        let added = self.dates("addedDates", settings);
        let excluded = self.dates("excludedDates", settings);
        let start = start?;
        let end = end?.into_iter().chain(margin_date).min();
        if start.zip(end).is_some_and(|(start, end)| start > end) {
            self.violations.add(
                Place::Settings,
                &["startDate".into()],
                ValueError::new("value_error", "is after endDate"),
            );
        }
        Some(Window {
            start,
            end,
            added: added?,
            excluded: excluded?.into_iter().collect(),
            stress: stress?,
        })
    }

    /// The first and the last day of a time of stress, if there is one.
    fn stress(&mut self, settings: &Value) -> Option<Option<(Date, Date)>> {
        let mut day = |name| {
            self.violations
                .field(Place::Settings, name, settings, |v| check::optional(v, check::date))
        };
        let [first, last] = [day("stressStartDate"), day("stressEndDate")];
        let (missing, error) = match (first?, last?) {
            (None, None) => return Some(None),
            (Some(first), Some(last)) if first <= last => return Some(Some((first, last))),
            (Some(_), Some(_)) => {
                ("stressStartDate", ValueError::new("value_error", "is after stressEndDate"))
            }
            (None, Some(_)) => ("stressStartDate", ValueError::missing()),
            (Some(_), None) => ("stressEndDate", ValueError::missing()),
        };
        self.violations.add(Place::Settings, &[missing.into()], error);
        None
    }

    fn dates(&mut self, name: &'static str, settings: &Value) -> Option<Vec<Date>> {
        let list = self.violations.field(Place::Settings, name, settings, |v| match v {
            Value::Null => Ok(&[][..]),
            Value::Array(list) => Ok(&list[..]),
            _ => Err(ValueError::new("type_error", "must be a list")),
        })?;
        if list.len() > MAX_DATES {
            let error = ValueError::new(
                "value_error.too_large",
                format!("must be at most {MAX_DATES} dates"),
            );
            self.violations.add(Place::Settings, &[name.into()], error);
            return None;
        }
        let mut dates = Vec::with_capacity(list.len());
        for (n, value) in list.iter().enumerate() {
            match check::date(value) {
                Ok(date) => dates.push(date),
                Err(error) => self.violations.add(Place::Settings, &[name.into(), n.into()], error),
            }
        }
        (dates.len() == list.len()).then_some(dates)
    }
}

fn lookback(value: &Value) -> Result<usize, ValueError> {
    let days = check::number(value)?;
    if days >= 1.0 { Ok(days as usize) } else { Err(ValueError::number("must be at least 1")) }
}

fn decay(value: &Value) -> Result<f64, ValueError> {
    let decay = check::number(value)?;
    if decay > 0.0 && decay <= 1.0 {
        Ok(decay)
    } else {
        Err(ValueError::number("must be above 0 and at most 1"))
    }
}

fn multiplier(value: &Value) -> Result<f64, ValueError> {
    let multiplier = check::number(value)?;
    if multiplier > 0.0 { Ok(multiplier) } else { Err(ValueError::number("must be above 0")) }
}

fn measure(value: &Value) -> Result<Measure, ValueError> {
    let name = check::text(value)?;
    if check::is_word(name, "expectedshortfall") {
        Ok(Measure::ExpectedShortfall)
    } else if check::is_word(name, "valueatrisk") {
        Ok(Measure::ValueAtRisk)
    } else {
        Err(ValueError::new("type_error.enum", "must be expected_shortfall or value_at_risk"))
    }
}

fn worst(value: &Value) -> Result<usize, ValueError> {
    check::count(value, MAX_WORST)
        .map_err(|_| ValueError::number(format!("must be a whole number from 0 to {MAX_WORST}")))
}

/// Any integer of 64 bits, signed or not; they wrap around to the same seeds.
fn seed(value: &Value) -> Result<u64, ValueError> {
    let number = check::number(value)?;
    let whole = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
    let whole = whole.or_else(|| {
        (number.fract() == 0.0 && number.abs() < 2_f64.powi(63))
            .then_some((number as i64).cast_unsigned())
    });
    whole.ok_or_else(|| ValueError::number("must be a whole number of 64 bits"))
}

fn known_encoding(v: &Value) -> Result<(), ValueError> {
    if v.as_str().is_some_and(|text| check::is_word(text, "base64")) {
        Ok(())
    } else {
        Err(ValueError::new("type_error.enum", "must be base64"))
    }
}

/// Clients that were generated for some languages send a list that was not given as an empty one.
fn none(v: &Value) -> Result<(), ValueError> {
    if v.is_null() || v.as_array().is_some_and(Vec::is_empty) {
        return Ok(());
    }
    let msg = "several portfolios are taken from a job that is the whole JSON body";
    Err(ValueError::new("value_error", msg))
}

fn list(v: &Value) -> Result<(), ValueError> {
    if v.is_array() { Ok(()) } else { Err(ValueError::new("type_error", "must be a list")) }
}
