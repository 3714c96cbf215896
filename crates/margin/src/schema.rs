//! The fields that a request has. All others are ignored, whatever is in them.

use serde_json::{Number, Value};

use crate::check;

/// What a value is, by where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Job,
    /// A document that is a portfolio or a whole job.
    Document,
    Settings,
    Portfolio,
    /// A list of portfolios, which only [`crate::Requests`] reads.
    Portfolios,
    /// A list of positions.
    Futures,
    Position,
    /// A list of dates.
    Dates,
    Text,
    Number,
    /// True or false.
    Flag,
}

type Field = (&'static str, Part);

const JOB: [Field; 17] = [
    ("marginDate", Part::Text),
    ("numScenarios", Part::Number),
    ("timeHorizonDays", Part::Number),
    ("volatilityLookbackDays", Part::Number),
    ("ewmaDecayFactor", Part::Number),
    ("volatilityMultiplier", Part::Number),
    ("seed", Part::Number),
    ("riskMeasure", Part::Text),
    ("confidenceLevel", Part::Number),
    ("volatilityFloor", Part::Number),
    ("stressWeight", Part::Number),
    ("resultCurrency", Part::Text),
    ("worstScenarios", Part::Number),
    ("includeLosses", Part::Flag),
    ("settings", Part::Settings),
    ("portfolio", Part::Portfolio),
    ("portfolios", Part::Portfolios),
];
const SETTINGS: [Field; 6] = [
    ("startDate", Part::Text),
    ("endDate", Part::Text),
    ("addedDates", Part::Dates),
    ("excludedDates", Part::Dates),
    ("stressStartDate", Part::Text),
    ("stressEndDate", Part::Text),
];
const PORTFOLIO: [Field; 3] =
    [("futures", Part::Futures), ("data", Part::Text), ("encoding", Part::Text)];
const POSITION: [Field; 5] = [
    ("ticker", Part::Text),
    ("type", Part::Text),
    ("quantity", Part::Number),
    ("entryDate", Part::Text),
    ("entryPrice", Part::Number),
];

impl Part {
    /// A field of this value.
    pub(crate) fn field(self, name: &str) -> Option<Field> {
        let fields = match self {
            Self::Job => &JOB[..],
            Self::Document => return Self::Job.field(name).or_else(|| Self::Portfolio.field(name)),
            Self::Settings => &SETTINGS,
            Self::Portfolio => &PORTFOLIO,
            Self::Position => &POSITION,
            Self::Portfolios
            | Self::Futures
            | Self::Dates
            | Self::Text
            | Self::Number
            | Self::Flag => &[],
        };
        fields.iter().find(|(field, _)| *field == name).copied()
    }

    /// This value in a notation that has text alone: null when it is empty, a list where there are
    /// commas or spaces between dates, and the text itself if it is not the number it should be.
    pub(crate) fn of_text(self, text: &str) -> Value {
        let text = text.trim();
        match self {
            // Elements in it are no text: it is never an empty list.
            Self::Portfolios => [Value::Null].into_iter().collect(),
            _ if text.is_empty() => Value::Null,
            Self::Number => number(text).unwrap_or_else(|| text.into()),
            Self::Flag => flag(text).map_or_else(|| text.into(), Value::Bool),
            Self::Dates => text
                .split(|c: char| c == ',' || c.is_whitespace())
                .filter(|date| !date.is_empty())
                .collect(),
            _ => text.into(),
        }
    }
}

/// The word for positions that a name is, but for case and separators: where it is no field, those in
/// it would not be counted.
pub(crate) fn word_for_positions(name: &str) -> Option<&'static str> {
    let words = ["future", "futures", "position", "positions", "trade", "trades"];
    words.into_iter().find(|word| check::is_word(name, word))
}

/// True or false, in the words that the service takes beside a body.
fn flag(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
        "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// A number as it is written, a whole one with all its digits.
fn number(text: &str) -> Option<Value> {
    let whole = text.parse().ok().map(|whole: i64| whole.into());
    whole.or_else(|| text.parse().ok().and_then(Number::from_f64).map(Value::Number))
}
