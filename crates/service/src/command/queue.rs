//! What whoever runs the service sees of its tasks and accounts, and does about them.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json;

use crate::config::Config;
use crate::db::{AccountRow, Db, Deed, Filter, Period, Waiting, elapsed};
use crate::hex::hex;
use crate::queue::{Line, Running};
use crate::random;
use crate::record::{Lane, Status};
use crate::shown::in_bytes;
use crate::webhook;

/// Tasks of a lane of which the order is worked out.
const LOOKED_AT: usize = 5000;

/// What is done about tasks.
#[derive(Subcommand)]
pub(super) enum TaskCommand {
    /// List what runs, and what is queued in the order in which it starts.
    List {
        /// Only of this account.
        #[arg(long)]
        account: Option<String>,
        /// Print a line of JSON for each.
        #[arg(long)]
        json: bool,
    },
    /// Cancel systems, jobs and analyses of any account; what runs ends within seconds.
    Cancel {
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// Lines of what runs and is queued, of an account or of all.
pub(super) async fn list(
    db: &Db,
    config: &Config,
    now: Timestamp,
    account: Option<&str>,
    json: bool,
) -> Result<Vec<String>> {
    let mut tasks = in_order(db, config, now).await?;
    tasks.retain(|(task, _)| account.is_none_or(|account| account == task.account));
    let shown = |(task, place): &(Waiting, Option<usize>)| match json {
        true => as_json(task, *place).to_string(),
        false => line(task, *place),
    };
    Ok(tasks.iter().map(shown).collect())
}

/// Cancels a task of any account, and says what becomes of it.
pub(super) async fn cancel(db: &Db, id: &str, deed: Deed) -> Result<String> {
    Ok(match db.cancel_of_any(id.to_owned(), deed).await? {
        None => bail!("there is no task {id}; `molboxd task list` shows them"),
        Some(task) if task.status.is_open() => {
            format!("{id} of {} is cancelled, and ends within seconds", task.account)
        }
        Some(task) => format!("{id} of {} is {}", task.account, task.status),
    })
}

/// What runs, oldest first, then what is queued with its place, in the order in which it starts.
async fn in_order(
    db: &Db,
    config: &Config,
    now: Timestamp,
) -> Result<Vec<(Waiting, Option<usize>)>> {
    let mut places = BTreeMap::new();
    let lanes = [(Lane::Workers, config.slots()), (Lane::Analyses, config.worker.analyses)];
    for (lane, slots) in lanes {
        let queue = db.queue_of_lane(lane, LOOKED_AT, now).await?;
        let waits = |task: crate::db::Queued| crate::queue::Waiting {
            id: task.id,
            account: task.account,
            priority: task.priority,
            seconds: None,
        };
        let runs = |(task, since): (crate::db::Queued, _)| Running {
            account: task.account,
            elapsed: elapsed(since, now),
            left: None,
        };
        let line = Line {
            slots,
            running: queue.running.into_iter().map(runs).collect(),
            waiting: queue.waiting.into_iter().map(waits).collect(),
            served: queue.served,
            weights: queue.weights,
        };
        places
            .extend(line.forecast().into_iter().zip(1_usize..).map(|(start, nth)| (start.id, nth)));
    }
    let mut tasks: Vec<(Waiting, Option<usize>)> = db
        .queue(&Filter::default(), usize::MAX)
        .await?
        .into_iter()
        .map(|task| {
            let place = places.get(&task.id).copied();
            (task, place)
        })
        .collect();
    let rank = |(task, place): &(Waiting, Option<usize>)| {
        (task.status != Status::Running, place.unwrap_or(usize::MAX), task.seq)
    };
    tasks.sort_by_key(rank);
    Ok(tasks)
}

/// What, whose, how it is, since when.
fn line(task: &Waiting, place: Option<usize>) -> String {
    let state = match (task.is_cancelled, task.status) {
        (true, _) => "cancelling".to_owned(),
        (false, Status::Queued) => match place {
            Some(place) => format!("queued {place}"),
            None => "queued".to_owned(),
        },
        (false, status) => status.to_string(),
    };
    let since = match task.started_at {
        Some(at) => format!("started {at}"),
        None => format!("submitted {}", task.created_at),
    };
    format!("{}\t{}\t{}\t{state}\t{since}", task.id, task.account, task.kind)
}

fn as_json(task: &Waiting, place: Option<usize>) -> serde_json::Value {
    json!({
        "task_id": task.id,
        "account": task.account,
        "kind": task.kind.to_string(),
        "status": task.status.to_string(),
        "is_cancelled": task.is_cancelled,
        "position": place,
        "created_at": task.created_at.to_string(),
        "started_at": task.started_at.map(|at| at.to_string()),
    })
}

/// Sets where ends of tasks are reported to, or that they are not; the secret that signs.
pub(super) async fn set_webhook(
    db: &Db,
    name: String,
    url: Option<String>,
    deed: Deed,
) -> Result<Option<String>> {
    if let Some(url) = url.as_ref().filter(|url| !webhook::is_address(url)) {
        bail!("{url:?} must be an address with https, or with http on this machine");
    }
    let to = url.map(|url| (url, hex(&random::bytes::<32>())));
    let secret = to.as_ref().map(|(_, secret)| secret.clone());
    if !db.set_webhook(name.clone(), to, deed).await? {
        bail!("there is no account named {name}");
    }
    Ok(secret)
}

/// Whether an account is active, or since when it is not.
pub(super) fn account_state(account: &AccountRow) -> String {
    account.disabled_at.map_or_else(|| "active".to_owned(), |at| format!("disabled {at}"))
}

/// What an account uses and may, a line for each.
pub(super) async fn account(
    db: &Db,
    config: &Config,
    now: Timestamp,
    name: &str,
) -> Result<Vec<String>> {
    let Some(account) = db.account(name).await? else { bail!("there is no account named {name}") };
    let used = &account.used;
    let limit = |own: Option<i64>, of_service: u64| match (own, of_service) {
        (Some(0), _) | (None, 0) => (None, if own.is_some() { "its own" } else { "the service's" }),
        (Some(own), _) => (Some(own.unsigned_abs()), "its own"),
        (None, limit) => (Some(limit), "the service's"),
    };
    let (most_tasks, whose_tasks) = limit(used.most_open_tasks, config.limits.open_tasks.into());
    let (most_bytes, whose_bytes) = limit(used.most_bytes, config.limits.account_bytes);
    let (most_hours, whose_hours) = limit(used.most_hours, config.limits.account_hours.into());
    let days = config.limits.hours_days;
    let hours = db.slot_ms(account.id, Period { now, days }).await? as f64 / 3.6e6;
    let keys = db.keys(name).await?;
    let webhook = db.webhook(account.id).await?.unwrap_or_else(|| "none".to_owned());
    let n_good = keys.iter().filter(|key| crate::accounts::key::is_good(key, now)).count();
    let of = |limit: Option<String>, whose: &str| match limit {
        Some(limit) => format!("of {limit}, {whose} limit"),
        None => format!("without a limit, {whose}"),
    };
    let bytes = |count: u64| in_bytes(count.into());
    let lines = [
        ("account", account.name.clone()),
        ("role", account.role.to_string()),
        ("state", account_state(&account)),
        ("made", account.created_at.to_string()),
        (
            "open tasks",
            format!("{} {}", used.open_tasks, of(most_tasks.map(|n| n.to_string()), whose_tasks)),
        ),
        (
            "disk",
            format!(
                "{} {}",
                bytes(used.bytes.unsigned_abs()),
                of(most_bytes.map(bytes), whose_bytes)
            ),
        ),
        ("files", used.files.to_string()),
        (
            "hours",
            format!(
                "{hours:.2} h in {days} days {}",
                of(most_hours.map(|n| format!("{n} h")), whose_hours)
            ),
        ),
        ("weight", account.weight.to_string()),
        ("keys", format!("{n_good} good of {}", keys.len())),
        ("webhook", webhook),
    ];
    Ok(lines.into_iter().map(|(what, value)| format!("{what:11} {value}")).collect())
}
