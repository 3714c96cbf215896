//! The fields that a request has. All others are ignored, whatever is in them.

/// What a value is, by where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Job,
    Settings,
    Portfolio,
    /// A list of positions.
    Futures,
    Position,
    /// A list of dates.
    Dates,
    Text,
    Number,
}

type Field = (&'static str, Part);

const JOB: [Field; 9] = [
    ("marginDate", Part::Text),
    ("numScenarios", Part::Number),
    ("timeHorizonDays", Part::Number),
    ("volatilityLookbackDays", Part::Number),
    ("ewmaDecayFactor", Part::Number),
    ("volatilityMultiplier", Part::Number),
    ("seed", Part::Number),
    ("settings", Part::Settings),
    ("portfolio", Part::Portfolio),
];
const SETTINGS: [Field; 4] =
    [("startDate", Part::Text), ("endDate", Part::Text), ("addedDates", Part::Dates), ("excludedDates", Part::Dates)];
const PORTFOLIO: [Field; 3] = [("futures", Part::Futures), ("data", Part::Text), ("encoding", Part::Text)];
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
            Self::Settings => &SETTINGS,
            Self::Portfolio => &PORTFOLIO,
            Self::Position => &POSITION,
            Self::Futures | Self::Dates | Self::Text | Self::Number => &[],
        };
        fields.iter().find(|(field, _)| *field == name).copied()
    }
}
