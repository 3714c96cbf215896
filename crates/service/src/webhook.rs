//! Reports of tasks that have ended, to an address of the account: signed, and tried again.
//!
//! What is to be sent is written in the transaction in which a task ends. Any server sends it: one
//! that takes a report moves its time first, so that no other tries it meanwhile, and it is tried
//! again when that server is killed. A report may so come twice, with the same `delivery_id`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use sha2::Sha256;

use crate::app::App;
use crate::db::Delivery;
use crate::hex::hex;
use crate::web;

/// Has when and by what a report was signed.
const SIGNATURE: &str = "x-molbox-signature";

/// How often it is looked for reports.
const LOOK: Duration = Duration::from_secs(1);
/// Reports that are sent together.
const AT_ONCE: i64 = 16;
/// And so many of one account.
const AT_ONCE_OF_ACCOUNT: i64 = 4;
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
    loop {
        if let Err(error) = round(&app, &http).await {
            tracing::warn!(cause = format!("{error:#}"), "look for ends of tasks to report");
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn round(app: &App, http: &reqwest::Client) -> Result<()> {
    let due = app.db.due_deliveries(app.now(), AT_ONCE, AT_ONCE_OF_ACCOUNT).await?;
    let tries = due.into_iter().map(|delivery| attempt(app, http, delivery));
    join_all(tries).await.into_iter().collect()
}

/// Tries a report once, unless another server does.
async fn attempt(app: &App, http: &reqwest::Client, delivery: Delivery) -> Result<()> {
    let pause = SignedDuration::from_secs(pause_seconds(delivery.tries));
    let next = app.now().checked_add(pause)?;
    if !app.db.take_delivery(delivery.id.clone(), delivery.tries, next).await? {
        return Ok(());
    }
    let Delivery { id, account, task, tries, .. } = &delivery;
    match send(http, &delivery, app.now()).await {
        Ok(()) => app.db.drop_delivery(id.clone()).await?,
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
    Ok(())
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
