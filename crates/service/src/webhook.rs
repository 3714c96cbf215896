//! Reports of tasks that have ended, to an address of the account: signed, and tried again.
//!
//! What is to be sent is written in the transaction in which a task ends. Any server sends it: one
//! that takes a report moves its time first, so that no other tries it meanwhile, and it is tried
//! again when that server is killed. A report may so come twice, with the same `delivery_id`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use sha2::Sha256;
use tokio::task::{Id, JoinError, JoinSet};

use crate::app::App;
use crate::db::Delivery;
use crate::hex::hex;
use crate::web;

/// Has when and by what a report was signed.
const SIGNATURE: &str = "x-molbox-signature";

/// How often it is looked for reports.
const LOOK: Duration = Duration::from_secs(1);
/// Reports that are sent together.
const AT_ONCE: usize = 64;
/// And so many of one account; one of an account whose last has not been taken.
const AT_ONCE_OF_ACCOUNT: usize = 4;
/// Of those that are due so many are looked at: some are of accounts that have their share.
const LOOKED_AT: i64 = 1000;
/// How long who is reported to may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after the first try; each is four times as long as the one before.
const FIRST_PAUSE_SECONDS: i64 = 15;
const LONGEST_PAUSE_SECONDS: i64 = 6 * 3600;
/// So often it is tried, which takes about a day and a half.
const TRIES: i64 = 12;

/// Why ends of tasks cannot be reported to an address, if they cannot: nobody else may read them on
/// their way.
pub(crate) fn problem(address: &str) -> Option<&'static str> {
    if address.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("has a blank in it; write `%20` for one that belongs there");
    }
    match Url::parse(address) {
        Ok(url) if !web::is_private(&url) => {
            Some("must begin with https://, or with http:// and be on this machine")
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Some(
            "has a name or a password before `@`, which are not sent; let the receiver check the \
             signature",
        ),
        Ok(_) => None,
        Err(_) => Some("is no address; it is written like https://example.org/hook"),
    }
}

/// Sends what is due, as long as the service runs.
pub(crate) async fn deliver(app: Arc<App>) {
    let http = match web::client() {
        Ok(http) => http,
        Err(error) => {
            return tracing::error!(cause = format!("{error:#}"), "report no ends of tasks");
        }
    };
    let mut tries = Tries::default();
    let mut looks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            Some(ended) = tries.under_way.join_next_with_id() => tries.end(ended),
            _ = looks.tick() => match app.db.due_deliveries(app.now(), LOOKED_AT, AT_ONCE_OF_ACCOUNT as i64).await {
                Ok(due) => tries.start(&app, &http, due),
                Err(error) => {
                    tracing::warn!(cause = format!("{error:#}"), "look for ends of tasks to report");
                }
            },
        }
    }
}

/// Tries that are under way. None waits for another: a receiver that does not answer delays its own
/// account's reports alone.
#[derive(Default)]
struct Tries {
    under_way: JoinSet<Result<bool>>,
    /// Whose they are.
    accounts: HashMap<Id, String>,
    /// Accounts whose last try has failed.
    failing: HashSet<String>,
}

impl Tries {
    /// Starts those that there is room for.
    fn start(&mut self, app: &Arc<App>, http: &reqwest::Client, due: Vec<Delivery>) {
        for delivery in due {
            if self.accounts.len() >= AT_ONCE {
                return;
            }
            let account = delivery.account.clone();
            let most = if self.failing.contains(&account) { 1 } else { AT_ONCE_OF_ACCOUNT };
            if self.accounts.values().filter(|it| **it == account).count() < most {
                let (app, http) = (app.clone(), http.clone());
                let started =
                    self.under_way.spawn(async move { attempt(&app, &http, delivery).await });
                self.accounts.insert(started.id(), account);
            }
        }
    }

    fn end(&mut self, ended: Result<(Id, Result<bool>), JoinError>) {
        let (id, taken) = match ended {
            Ok((id, taken)) => (id, taken),
            Err(error) => (error.id(), Err(error.into())),
        };
        let account = self.accounts.remove(&id).unwrap_or_default();
        match taken {
            Ok(true) => drop(self.failing.remove(&account)),
            Ok(false) => drop(self.failing.insert(account)),
            Err(error) => {
                tracing::warn!(account, cause = format!("{error:#}"), "report the end of a task");
            }
        }
    }
}

/// Tries a report once, unless another server does; whether its receiver took it.
async fn attempt(app: &App, http: &reqwest::Client, delivery: Delivery) -> Result<bool> {
    let pause = SignedDuration::from_secs(pause_seconds(delivery.tries));
    let next = app.now().checked_add(pause)?;
    if !app.db.take_delivery(delivery.id.clone(), delivery.tries, next).await? {
        return Ok(true);
    }
    let Delivery { id, account, task, tries, .. } = &delivery;
    match send(http, &delivery, app.now()).await {
        Ok(()) => {
            app.db.drop_delivery(id.clone()).await?;
            return Ok(true);
        }
        Err(error) if tries + 1 >= TRIES => {
            let cause = format!("{error:#}");
            tracing::warn!(account, task, cause, "give up reporting the end of a task");
            app.db.drop_delivery(id.clone()).await?;
        }
        Err(error) => {
            let cause = format!("{error:#}");
            tracing::warn!(account, task, tries = tries + 1, cause, "report the end of a task");
        }
    }
    Ok(false)
}

fn pause_seconds(tries: i64) -> i64 {
    let power = u32::try_from(tries.clamp(0, TRIES)).unwrap_or(0);
    FIRST_PAUSE_SECONDS.saturating_mul(4_i64.saturating_pow(power)).min(LONGEST_PAUSE_SECONDS)
}

async fn send(http: &reqwest::Client, delivery: &Delivery, now: Timestamp) -> Result<()> {
    let answer = http
        .post(&delivery.url)
        .timeout(PATIENCE)
        .header(CONTENT_TYPE, "application/json")
        .header(SIGNATURE, signature(&delivery.secret, &delivery.body, now))
        .body(delivery.body.clone())
        .send()
        .await
        // An address often holds a secret, and this goes to the log.
        .map_err(reqwest::Error::without_url)?;
    ensure!(answer.status().is_success(), "answered {}", answer.status());
    Ok(())
}

/// `t=` the second of sending, `v1=` HMAC-SHA-256 over that, a full stop and the body, in
/// hexadecimal: who checks the time refuses a report that somebody else sends again.
fn signature(secret: &str, body: &str, now: Timestamp) -> String {
    let second = now.as_second();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length is a key");
    mac.update(format!("{second}.{body}").as_bytes());
    format!("t={second},v1={}", hex(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_tried_for_more_than_a_day_at_growing_intervals() {
        let pauses: Vec<i64> = (0..TRIES - 1).map(pause_seconds).collect();
        assert_eq!(pauses[..5], [15, 60, 240, 960, 3840]);
        assert!(pauses.is_sorted() && pauses.iter().sum::<i64>() > 86_400, "{pauses:?}");
    }

    #[test]
    fn a_signature_is_that_of_other_programs() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let expected =
            "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";
        assert_eq!(signature("key", "{}", now), expected);
    }

    #[test]
    fn reports_go_where_nobody_else_reads_them() {
        for good in ["https://example.org/hook?a=1", "http://127.0.0.1:9/hook"] {
            assert_eq!(problem(good), None, "{good}");
        }
        for (other, expected) in [
            ("http://example.org/hook", "must begin with https://"),
            ("https://u:p@example.org", "has a name or a password"),
            ("https://:p@example.org", "has a name or a password"),
            ("https://example.org/a hook", "has a blank"),
            ("https://example.org/hook ", "has a blank"),
            ("example.org", "is no address"),
            ("file:///x", "must begin with https://"),
        ] {
            assert!(problem(other).unwrap().starts_with(expected), "{other}: {:?}", problem(other));
        }
    }
}
