//! What whoever runs the service sees of its tasks and accounts, and does about them.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Subcommand;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::config::Config;
use crate::db::{AccountRow, Db, Deed, Filter, Period, Queued, Waiting, elapsed};
use crate::hex::hex;
use crate::queue::{Line, Running};
use crate::random;
use crate::record::{Kind, Lane, Status};
use crate::runner::forecast::{Speeds, Work, works_of_jobs};
use crate::shown::{in_bytes, quoted, to_the_second};
use crate::webhook;

use super::list::{List, Listed, printable};

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

/// Prints what runs and is queued, of an account or of all.
pub(super) async fn list(
    db: &Db,
    config: &Config,
    now: Timestamp,
    account: Option<&str>,
    json: bool,
) -> Result<()> {
    let mut list = List::of::<InOrder>(json);
    let tasks = in_order(db, config, now).await?.into_iter();
    let of_account = |task: &InOrder| account.is_none_or(|account| account == task.task.account);
    tasks.filter(of_account).try_for_each(|task| list.add(&task))?;
    list.end(&match account {
        None => "nothing runs or is queued; `molboxd audit --action job_submit` has what was \
                 submitted before"
            .to_owned(),
        Some(account) => format!(
            "nothing of {account} runs or is queued; `molboxd account show {}` has what it uses",
            quoted(account)
        ),
    });
    Ok(())
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

/// A task that runs or is queued, with its place in the queue.
struct InOrder {
    task: Waiting,
    place: Option<usize>,
}

/// What runs, oldest first, then what is queued with its place, in the order in which it starts.
async fn in_order(db: &Db, config: &Config, now: Timestamp) -> Result<Vec<InOrder>> {
    let mut places = BTreeMap::new();
    let speeds = Speeds::read(db, config).await?;
    let works = works_of_jobs(db).await?;
    // What an earlier attempt has done of it only the service knows.
    let seconds = |task: &Queued| {
        let work = match task.kind {
            Kind::Job => works.get(&task.id).copied().unwrap_or(Work::Unknown),
            Kind::System | Kind::Analysis => Work::Usual,
        };
        speeds.seconds(task.kind, work)
    };
    let lanes = [(Lane::Workers, config.slots()), (Lane::Analyses, config.worker.analyses)];
    for (lane, slots) in lanes {
        let queue = db.queue_of_lane(lane, LOOKED_AT, now).await?;
        let mut line =
            Line { slots, served: queue.served, weights: queue.weights, ..Line::default() };
        for task in queue.waiting {
            let seconds = seconds(&task);
            let Queued { id, account, priority, .. } = task;
            line.waiting.push(crate::queue::Waiting { id, account, priority, seconds });
        }
        for (task, since) in queue.running {
            let elapsed = elapsed(since, now);
            let whole = seconds(&task);
            let left = whole.map(|seconds| (seconds - elapsed).max(0.0));
            line.running.push(Running { account: task.account, elapsed, left });
        }
        places
            .extend(line.forecast().into_iter().zip(1_usize..).map(|(start, nth)| (start.id, nth)));
    }
    let mut tasks: Vec<InOrder> = db
        .queue(&Filter::default(), usize::MAX)
        .await?
        .into_iter()
        .map(|task| InOrder { place: places.get(&task.id).copied(), task })
        .collect();
    tasks.sort_by_key(|InOrder { task, place }| {
        (task.status != Status::Running, place.unwrap_or(usize::MAX), task.seq)
    });
    Ok(tasks)
}

impl InOrder {
    fn state(&self) -> String {
        match (self.task.is_cancelled, self.task.status, self.place) {
            (true, ..) => "cancelling".to_owned(),
            (false, Status::Queued, Some(place)) => format!("queued {place}"),
            (false, status, _) => status.to_string(),
        }
    }
}

impl Listed for InOrder {
    const HEADS: &'static [&'static str] =
        &["TASK", "ACCOUNT", "KIND", "STATE", "SUBMITTED", "STARTED"];
    const DROPPED_FIRST: &'static [&'static str] = &["KIND", "SUBMITTED", "STARTED"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.task.id.clone(),
            printable(&self.task.account),
            self.task.kind.to_string(),
            self.state(),
            to_the_second(self.task.created_at),
            self.task.started_at.map(to_the_second).unwrap_or_default(),
        ]
    }

    /// What, whose, how it is, since when.
    fn fields(&self) -> String {
        let Waiting { id, kind, created_at, started_at, .. } = &self.task;
        let account = printable(&self.task.account);
        let since = match started_at {
            Some(at) => format!("started {at}"),
            None => format!("submitted {created_at}"),
        };
        format!("{id}\t{account}\t{kind}\t{}\t{since}", self.state())
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&json!({
            "task_id": self.task.id,
            "account": self.task.account,
            "kind": self.task.kind.to_string(),
            "status": self.task.status.to_string(),
            "is_cancelled": self.task.is_cancelled,
            "position": self.place,
            "created_at": self.task.created_at.to_string(),
            "started_at": self.task.started_at.map(|at| at.to_string()),
        }))
    }
}

/// Sets where ends of tasks are reported to, or that they are not; the secret that signs.
pub(super) async fn set_webhook(
    db: &Db,
    name: String,
    url: Option<String>,
    deed: Deed,
) -> Result<Option<String>> {
    if let Some((url, problem)) = url.as_ref().and_then(|url| Some((url, webhook::problem(url)?))) {
        bail!("{url:?} {problem}");
    }
    let to = url.map(|url| (url, hex(&random::bytes::<32>())));
    let secret = to.as_ref().map(|(_, secret)| secret.clone());
    if !db.set_webhook(name.clone(), to, deed).await? {
        bail!("there is no account named {name}");
    }
    Ok(secret)
}

/// Whether an account is active, or since when it is not.
fn account_state(account: &AccountRow) -> String {
    let disabled = |at| format!("disabled {}", to_the_second(at));
    account.disabled_at.map_or_else(|| "active".to_owned(), disabled)
}

/// The most that an account may have of something, and whether that is a limit of its own.
#[derive(Clone, Copy)]
struct Most {
    most: Option<u64>,
    is_own: bool,
}

impl Most {
    /// Zero is no limit.
    fn new(own: Option<i64>, of_service: u64) -> Self {
        let most = own.map_or(of_service, i64::unsigned_abs);
        Self { most: Some(most).filter(|most| *most > 0), is_own: own.is_some() }
    }

    fn shown(self, limit: impl FnOnce(u64) -> String) -> String {
        let whose = if self.is_own { "its own" } else { "the service's" };
        match self.most {
            Some(most) => format!("of {}, {whose} limit", limit(most)),
            None => format!("without a limit ({whose})"),
        }
    }

    fn json(self, used: impl Serialize) -> serde_json::Value {
        json!({"used": used, "most": self.most, "is_own": self.is_own})
    }
}

/// What an account uses and may: a line for each, or all of it as JSON.
pub(super) async fn account(
    db: &Db,
    config: &Config,
    now: Timestamp,
    name: &str,
    json: bool,
) -> Result<Vec<String>> {
    let Some(account) = db.account(name).await? else { bail!("there is no account named {name}") };
    let (used, limits) = (&account.used, &config.limits);
    let tasks = Most::new(used.most_open_tasks, limits.open_tasks.into());
    let disk = Most::new(used.most_bytes, limits.account_bytes);
    let slots = Most::new(used.most_hours, limits.account_hours.into());
    let days = limits.hours_days;
    let hours = db.slot_ms(account.id, Period { now, days }).await? as f64 / 3.6e6;
    let keys = db.keys(name).await?;
    let webhook = db.webhook(account.id).await?;
    let n_good = keys.iter().filter(|key| crate::accounts::key::is_good(key, now)).count();
    if json {
        let shown = json!({
            "account": account.name,
            "role": account.role.to_string(),
            "created_at": account.created_at.to_string(),
            "disabled_at": account.disabled_at.map(|at| at.to_string()),
            "open_tasks": tasks.json(used.open_tasks),
            "bytes": disk.json(used.bytes),
            "files": used.files,
            "hours": slots.json(hours),
            "hours_days": days,
            "weight": account.weight,
            "keys": {"good": n_good, "all": keys.len()},
            "webhook": webhook,
        });
        return Ok(vec![shown.to_string()]);
    }
    let bytes = |count: u64| in_bytes(count.into());
    let lines = [
        ("account", account.name.clone()),
        ("role", account.role.to_string()),
        ("state", account_state(&account)),
        ("made", to_the_second(account.created_at)),
        ("open tasks", format!("{} {}", used.open_tasks, tasks.shown(|most| most.to_string()))),
        ("disk", format!("{} {}", bytes(used.bytes.unsigned_abs()), disk.shown(bytes))),
        ("files", used.files.to_string()),
        (
            "hours",
            format!("{hours:.2} h in {days} days {}", slots.shown(|most| format!("{most} h"))),
        ),
        ("weight", account.weight.to_string()),
        ("keys", format!("{n_good} good of {}", keys.len())),
        ("webhook", webhook.unwrap_or_else(|| "none".to_owned())),
    ];
    Ok(lines.into_iter().map(|(what, value)| format!("{what:11} {value}")).collect())
}
