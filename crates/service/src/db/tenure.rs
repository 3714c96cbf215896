//! By which database the contents of a store elsewhere are known: both go the same steps, which a
//! copy of the database does not.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Db, Error, Result, Scope, Tx, Whole, values};

/// Under this name it stands among the rights that one has at a time.
const CONTENTS: &str = "contents";
/// So many steps are kept: one that was noted in the store late is known by them.
const KEPT: usize = 16;

/// A step. No two databases go the same, also when one is a copy of the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) number: i64,
    pub(crate) token: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.token)
    }
}

impl FromStr for Step {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.trim().split_once(' ').and_then(|(number, token)| {
            Some(Self { number: number.parse().ok()?, token: token.to_owned() })
        });
        parts.ok_or_else(|| anyhow::anyhow!("{text:?} is no step"))
    }
}

/// What a database knows of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    pub(crate) noted: Noted,
    /// When the last step was gone, by the clock of all servers.
    pub(crate) at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// The last ones, the newest first.
    steps: Vec<Step>,
    /// Which process has gone the last one; none where that was the last that it did.
    pub(crate) process: Option<String>,
    /// Whether a server that begins waits for the next.
    pub(crate) is_awaited: bool,
}

impl Tenure {
    pub(crate) fn last(&self) -> Option<&Step> {
        self.noted.steps.first()
    }

    /// Whether a store at this step is where this database has brought it, or was before.
    pub(crate) fn knows(&self, step: &Step) -> bool {
        let is_older = self.noted.steps.last().is_some_and(|oldest| step.number < oldest.number);
        is_older || self.noted.steps.contains(step)
    }
}

impl Noted {
    /// The next step after those of a database, and after that of a store.
    pub(crate) fn next(
        before: Option<&Tenure>,
        there: Option<&Step>,
        token: String,
        process: Option<String>,
    ) -> Self {
        let mut steps = before.map_or_else(Vec::new, |before| before.noted.steps.clone());
        if let Some(there) = there.filter(|there| before.is_none_or(|before| !before.knows(there)))
        {
            steps.insert(0, there.clone());
        }
        let number = steps.iter().map(|step| step.number).max().unwrap_or_default() + 1;
        steps.insert(0, Step { number, token });
        steps.truncate(KEPT);
        Self { steps, process, is_awaited: false }
    }

    /// The same, while a server that begins waits for the next.
    pub(crate) fn awaited(&self) -> Self {
        Self { is_awaited: true, ..self.clone() }
    }
}

fn read(tx: &Tx<'_>) -> Result<Option<Tenure>> {
    let sql = "select holder, expires_at from runner where name = ?1";
    let found: Option<(String, Timestamp)> =
        tx.first(sql, values![CONTENTS], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((noted, at)) = found else { return Ok(None) };
    let noted = serde_json::from_str(&noted).map_err(Error::other)?;
    Ok(Some(Tenure { noted, at }))
}

/// Has a copy that takes the place of what it was made of go on where that was.
pub(super) fn pass_on(from: &Tx<'_>, to: &Tx<'_>) -> Result<()> {
    match read(from)? {
        None => Ok(()),
        Some(Tenure { noted, at }) => write(to, &noted, at),
    }
}

fn write(tx: &Tx<'_>, noted: &Noted, at: Timestamp) -> Result<()> {
    let text = serde_json::to_string(noted).map_err(Error::other)?;
    let number = noted.steps.first().map_or(0, |step| step.number);
    let sql = "
        insert into runner (name, holder, token, expires_at) values (?1, ?2, ?3, ?4)
        on conflict (name) do update
            set holder = excluded.holder, token = excluded.token, expires_at = excluded.expires_at";
    tx.execute(sql, values![CONTENTS, text, number, at]).map(drop)
}

impl Db {
    /// The steps that it has gone, if any, and what time it is by the clock of all servers.
    pub(crate) async fn tenure(&self, now: Timestamp) -> Result<(Option<Tenure>, Timestamp)> {
        self.read(|tx| Ok((read(tx)?, tx.now(now)?))).await
    }

    /// Notes another step, or that one is awaited, unless another server has come before.
    pub(crate) async fn set_tenure(
        &self,
        before: Option<Tenure>,
        noted: Noted,
        now: Timestamp,
    ) -> Result<bool> {
        self.write_also_when_full(Scope::Accounts, move |tx| {
            let found = read(tx)?;
            if found != before {
                return Ok(false);
            }
            // Who waits has gone no step.
            let at = match &found {
                Some(found) if noted.is_awaited => found.at,
                _ => tx.now(now)?,
            };
            write(tx, &noted, at).map(|()| true)
        })
        .await
    }
}

impl Whole {
    /// The steps that it has gone, if any.
    pub(crate) fn tenure(&self) -> Result<Option<Tenure>> {
        read(&self.tx())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(before: Option<&Tenure>, there: Option<&Step>, token: &str) -> Tenure {
        let noted = Noted::next(before, there, token.to_owned(), None);
        Tenure { noted, at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_store_ahead_of_a_database_or_on_another_way_is_not_its_own() {
        let mut one = after(None, None, "a");
        let copy = one.clone();
        let early = one.last().unwrap().clone();
        assert!(copy.knows(&early));
        for n in 0..40 {
            one = after(Some(&one), None, &format!("b{n}"));
        }
        let there = one.last().unwrap();
        assert!(one.knows(there) && one.knows(&early), "also a store that was restored");
        assert!(!copy.knows(there));
        // Both have gone a step since, with nobody in between to notice.
        let other = after(Some(&copy), None, "c");
        assert!(!other.knows(after(Some(&copy), None, "d").last().unwrap()));
        // It takes the place of the other for good.
        let taken = after(Some(&copy), Some(there), "e");
        assert!(taken.knows(there) && taken.last().unwrap().number > there.number);
        assert!(!one.knows(taken.last().unwrap()));
        let text = there.to_string();
        assert_eq!(text.parse::<Step>().unwrap(), *there);
    }
}
