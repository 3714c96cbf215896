//! What whoever runs the service sees of its tasks and accounts, and does about them.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::json;

use super::{TaskCommand, account_state, deed, say};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Db, Filter, Waiting, elapsed};
use crate::queue::{Line, Running};
use crate::record::{Lane, Status};
use crate::shown::in_bytes;

/// Tasks of a lane of which the order is worked out.
const LOOKED_AT: usize = 5000;

pub(super) async fn task(
    db: &Db,
    config: &Config,
    clock: &Clock,
    command: TaskCommand,
) -> Result<()> {
    match command {
        TaskCommand::List { account, json } => {
            let tasks = in_order(db, config, clock).await?.into_iter().filter(|(task, _)| {
                account.as_ref().is_none_or(|account| *account == task.account)
            });
            for (task, place) in tasks {
                say(&if json { as_json(&task, place).to_string() } else { line(&task, place) });
            }
        }
        TaskCommand::Cancel { ids } => {
            for id in ids {
                let done = deed(clock, "queue_cancel", None);
                match db.cancel_of_any(id.clone(), done).await? {
                    None => bail!("there is no task {id}; `molboxd task list` shows them"),
                    Some(task) if task.status.is_open() => {
                        say(&format!(
                            "{id} of {} is cancelled, and ends within seconds",
                            task.account
                        ));
                    }
                    Some(task) => say(&format!("{id} of {} is {}", task.account, task.status)),
                }
            }
        }
    }
    Ok(())
}

/// What runs, oldest first, then what is queued with its place, in the order in which it starts.
async fn in_order(
    db: &Db,
    config: &Config,
    clock: &Clock,
) -> Result<Vec<(Waiting, Option<usize>)>> {
    let mut places = BTreeMap::new();
    let now = clock.now();
    let lanes = [(Lane::Workers, config.slots()), (Lane::Analyses, config.worker.analyses)];
    for (lane, slots) in lanes {
        let queue = db.queue_of_lane(lane, LOOKED_AT, now).await?;
        let waits = |task: crate::db::Queued| crate::queue::Waiting {
            id: task.id,
            account: task.account,
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

/// Shows what an account uses and may.
pub(super) async fn show_account(
    db: &Db,
    config: &Config,
    clock: &Clock,
    name: &str,
) -> Result<()> {
    let Some(account) = db.account(name).await? else { bail!("there is no account named {name}") };
    let now = clock.now();
    let used = &account.used;
    let limit = |own: Option<i64>, of_service: u64| match (own, of_service) {
        (Some(0), _) | (None, 0) => (None, if own.is_some() { "its own" } else { "the service's" }),
        (Some(own), _) => (Some(own.unsigned_abs()), "its own"),
        (None, limit) => (Some(limit), "the service's"),
    };
    let (most_tasks, whose_tasks) = limit(used.most_open_tasks, config.limits.open_tasks.into());
    let (most_bytes, whose_bytes) = limit(used.most_bytes, config.limits.account_bytes);
    let hours = db.seconds_of_tasks(account.id, now).await? / 3600.0;
    let keys = db.keys(name).await?;
    let n_good = keys.iter().filter(|key| crate::accounts::key::is_good(key, now)).count();
    let of = |limit: Option<String>, whose: &str| match limit {
        Some(limit) => format!("of {limit}, {whose} limit"),
        None => format!("without a limit, {whose}"),
    };
    let bytes = |count: u64| in_bytes(count.into());
    for (what, value) in [
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
        ("hours", format!("{hours:.2} h that its tasks had slots, of those that are kept")),
        ("weight", account.weight.to_string()),
        ("keys", format!("{n_good} good of {}", keys.len())),
    ] {
        say(&format!("{what:11} {value}"));
    }
    Ok(())
}
