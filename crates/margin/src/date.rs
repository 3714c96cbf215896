//! Calendar days.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A day of the Gregorian calendar from 0001-01-01 to 9999-12-31, written `2024-12-31`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i32);

/// 1970-01-01, counted from 0000-03-01: in years that begin in March leap days come last.
const EPOCH: i32 = 719_468;
const DAYS_IN_400_YEARS: i32 = 146_097;

// Conversions after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2013.
impl Date {
    /// The day, if the calendar has it.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let month_from_march = (i32::from(month) + 9) % 12;
        let years = i32::from(year) - i32::from(month <= 2);
        let era = years / 400;
        let year_of_era = years % 400;
        let day_of_year = (153 * month_from_march + 2) / 5 + i32::from(day) - 1;
        let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let date = Self(era * DAYS_IN_400_YEARS + day_of_era - EPOCH);
        (date.year_month_day() == (year.into(), month.into(), day.into())).then_some(date)
    }

    /// Days from `earlier` to this day.
    pub fn days_since(self, earlier: Self) -> i32 {
        self.0 - earlier.0
    }

    /// Days from Monday to Friday after `earlier`, up to this day.
    pub(crate) fn weekdays_since(self, earlier: Self) -> usize {
        (earlier.0 + 1..=self.0).filter(|day| !Self(*day).is_weekend()).count()
    }

    pub(crate) fn tomorrow(self) -> Self {
        Self(self.0 + 1)
    }

    pub(crate) fn is_weekend(self) -> bool {
        // 1970-01-01 was a Thursday.
        (self.0 + 3).rem_euclid(7) >= 5
    }

    pub(crate) fn year_month_day(self) -> (i32, i32, i32) {
        let era = (self.0 + EPOCH) / DAYS_IN_400_YEARS;
        let day_of_era = (self.0 + EPOCH) % DAYS_IN_400_YEARS;
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        (era * 400 + year_of_era + i32::from(month <= 2), month, day)
    }
}

/// A text that is not a day of the form `YYYY-MM-DD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADate;

impl fmt::Display for NotADate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a date YYYY-MM-DD")
    }
}

impl std::error::Error for NotADate {}

impl FromStr for Date {
    type Err = NotADate;

    fn from_str(text: &str) -> Result<Self, NotADate> {
        let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text.as_bytes() else {
            return Err(NotADate);
        };
        let month = number(&[m0, m1])? as u8;
        let day = number(&[d0, d1])? as u8;
        Self::new(number(&[y0, y1, y2, y3])?, month, day).ok_or(NotADate)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.year_month_day();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn number(digits: &[u8]) -> Result<u16, NotADate> {
    let number = digits
        .iter()
        .try_fold(0, |n: u16, c| c.is_ascii_digit().then(|| n * 10 + u16::from(c - b'0')));
    number.ok_or(NotADate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_the_calendar_survives_being_written_and_read() {
        let first: Date = "0001-01-01".parse().unwrap();
        let last: Date = "9999-12-31".parse().unwrap();
        // 24 leap years in a century, one more every 400 years.
        assert_eq!(last.days_since(first), 9999 * 365 + 9999 / 4 - 9999 / 100 + 9999 / 400 - 1);
        let mut day = first;
        while day < last {
            assert_eq!(day.to_string().parse(), Ok(day));
            day = day.tomorrow();
        }
    }

    #[test]
    fn what_the_calendar_does_not_have_is_refused() {
        for text in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-04-31",
            "0000-01-01",
            "2024-1-01",
            " 2024-01-01",
        ] {
            assert_eq!(text.parse::<Date>(), Err(NotADate), "{text}");
        }
        assert!("2024-02-29".parse::<Date>().is_ok() && "2000-02-29".parse::<Date>().is_ok());
    }

    #[test]
    fn the_first_of_january_2005_was_a_saturday() {
        let day = Date::new(2005, 1, 1).unwrap();
        assert!(
            day.is_weekend()
                && day.tomorrow().is_weekend()
                && !day.tomorrow().tomorrow().is_weekend()
        );
    }
}
