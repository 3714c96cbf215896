//! What administrators do: accounts, the queue, the service. The route table lets nobody else in.
//! They see who has what and how much of it, and nothing of what it is.

use axum::response::Response;
use jiff::Timestamp;
use molbox::workflow::types::{
    self, AccountChange, AccountRequest, HeldBytes, ManagedAccount, OwnLimits, QueueEntry,
    QueueProgress, ServiceDisk, ServiceFinding, ServiceGpu, ServiceMemory, ServiceSlots,
    ServiceView, SlotUse,
};
use serde::Deserialize;

use crate::accounts::invitation::{Invitation, TO_BE_SENT};
use crate::app::App;
use crate::db::{AccountRow, Unchanged, Uninvited, Waiting};
use crate::doctor;
use crate::error::{ApiError, stored};
use crate::finding::{Finding, Found};
use crate::handlers::account::usage;
use crate::handlers::task::json as text;
use crate::http::answer::json;
use crate::http::call::Call;
use crate::http::page::{page, paged};
use crate::http::validate::{loc, unprintable};
use crate::record::{Lane, Role, Status};
use crate::runner::hold::Hold;

/// Accounts that are named with what they hold.
const LARGEST: i64 = 100;

pub(crate) async fn account_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.accounts(filter.before, limit + 1).await?;
    let slot_ms = call.app.db.all_slot_ms(call.app.period()).await?;
    let of = |row: &AccountRow| slot_ms.get(&row.id).copied().unwrap_or(0);
    let record = |row: &AccountRow| text(&managed(&call.app, row, of(row)));
    paged(&call, rows, &filter, limit, |row| row.id, record)
}

pub(crate) async fn account_create(call: Call) -> Result<Response, ApiError> {
    let (AccountRequest { account, role }, _) = call.request()?;
    if let Some(wrong) = unprintable(Some(account.as_str()), "account") {
        return Err(ApiError::invalid(vec![wrong]));
    }
    let role = role.map_or(Role::User, Role::from);
    let made = call.app.db.create_account(account.to_string(), role, call.deed()).await?;
    let row = made.ok_or_else(|| {
        let msg = format!("there is an account named {:?}; choose another name", account.as_str());
        ApiError::conflict(vec![loc("body"), loc("account")], msg)
    })?;
    shown(&call.app, &row).await
}

pub(crate) async fn account_change(call: Call) -> Result<Response, ApiError> {
    let (change, _): (AccountChange, _) = call.request()?;
    let name = call.parameter("account");
    let field = if change.disabled == Some(true) { "disabled" } else { "role" };
    let done = call.app.db.change_account(name.to_owned(), change, call.deed()).await?;
    let row = done.map_err(|reason| match reason {
        Unchanged::NotFound => ApiError::no_such_account(name),
        Unchanged::LastAdmin => {
            ApiError::conflict(vec![loc("body"), loc(field)], Unchanged::LastAdmin.to_string())
        }
    })?;
    // What a disabled account runs is stopped at once.
    call.app.wake.notify_one();
    shown(&call.app, &row).await
}

pub(crate) async fn invitation_create(call: Call) -> Result<Response, ApiError> {
    let name = call.parameter("account");
    let made = Invitation::make(&call.app.db, name.to_owned(), TO_BE_SENT, call.deed()).await?;
    let invitation = made.map_err(|reason| match reason {
        Uninvited::NotFound => ApiError::no_such_account(name),
        Uninvited::Disabled => {
            let msg = format!("the account {name:?} is disabled; enable it first");
            ApiError::conflict(vec![loc("path"), loc("account")], msg)
        }
    })?;
    json(&types::Invitation {
        account: name.to_owned(),
        link: invitation.link(&call.base_url()),
        token: invitation.token().to_owned(),
        expires_at: invitation.expires_at.to_string(),
        extra: Default::default(),
    })
}

pub(crate) async fn queue_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.queue(&filter, limit + 1).await?;
    let record = |row: &Waiting| text(&entry(&call.app, row)?);
    paged(&call, rows, &filter, limit, |row| row.seq, record)
}

pub(crate) async fn queue_cancel(call: Call) -> Result<Response, ApiError> {
    let id = call.parameter("task_id");
    let row = call.app.db.cancel_of_any(id.to_owned(), call.deed()).await?;
    call.app.wake.notify_one();
    let row = row.ok_or_else(|| ApiError::not_found("task", id))?;
    json(&entry(&call.app, &row)?)
}

pub(crate) async fn service_view(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let found = doctor::examine_running(&app.config, &app.db, app.now());
    let examination = app.examination.or(found).await;
    let accounts = app.db.largest_accounts(LARGEST).await?.into_iter();
    let gpus = app.config.worker.gpus.iter().map(|gpu| ServiceGpu {
        index: (*gpu).into(),
        is_held: app.holds.has_gpu(*gpu),
        extra: Default::default(),
    });
    json(&ServiceView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stage: app.config.stage.clone(),
        slots: slots(app).await?,
        cpus: whole(app.config.cpus()),
        gpus: gpus.collect(),
        memory: doctor::memory().map(|(total, available)| ServiceMemory {
            total_bytes: whole(total),
            available_bytes: whole(available),
            extra: Default::default(),
        }),
        disk: ServiceDisk {
            total_bytes: whole(app.objects.disk_bytes()?),
            free_bytes: whole(app.objects.free_bytes()?),
            kept_free_bytes: whole(app.config.limits.free_disk_bytes),
            accounts: accounts
                .map(|(account, bytes)| HeldBytes { account, bytes, extra: Default::default() })
                .collect(),
            extra: Default::default(),
        },
        held: app.holds.all().iter().map(Hold::shown).collect(),
        examined_at: examination.at.to_string(),
        findings: examination.findings.iter().map(finding).collect(),
        extra: Default::default(),
    })
}

async fn shown(app: &App, row: &AccountRow) -> Result<Response, ApiError> {
    json(&managed(app, row, app.db.slot_ms(row.id, app.period()).await?))
}

/// An account of which tasks had slots for so long.
fn managed(app: &App, row: &AccountRow, slot_ms: i64) -> ManagedAccount {
    let invited_until = row.invited_until.filter(|until| *until > app.now());
    let moment = |at: Timestamp| at.to_string();
    ManagedAccount {
        account: row.name.clone(),
        role: row.role.to_string(),
        created_at: row.created_at.to_string(),
        disabled_at: row.disabled_at.map(moment),
        has_password: row.has_password,
        invited_until: invited_until.map(moment),
        usage: usage(app, &row.used, slot_ms),
        limits: OwnLimits {
            open_tasks: row.used.most_open_tasks,
            bytes: row.used.most_bytes,
            hours: row.used.most_hours,
            extra: Default::default(),
        },
        extra: Default::default(),
    }
}

/// Of what a task says of itself, how far it is: the rest is its owner's.
#[derive(Default, Deserialize)]
struct Said {
    progress: Option<types::Progress>,
}

fn entry(app: &App, row: &Waiting) -> Result<QueueEntry, ApiError> {
    let said = match app.progress(&row.id).filter(|_| row.status == Status::Running) {
        Some(said) => stored::<Said>(&said)?,
        None => Said::default(),
    };
    Ok(QueueEntry {
        task_id: row.id.clone(),
        account: row.account.clone(),
        kind: row.kind.to_string(),
        status: row.status.to_string(),
        is_cancelled: row.is_cancelled,
        created_at: row.created_at.to_string(),
        started_at: row.started_at.map(|at| at.to_string()),
        progress: said.progress.map(|said| QueueProgress {
            fraction: said.fraction,
            eta_seconds: said.eta_seconds,
            extra: Default::default(),
        }),
        queue: app.place(row.kind, &row.id).filter(|_| row.status == Status::Queued),
        extra: Default::default(),
    })
}

async fn slots(app: &App) -> Result<ServiceSlots, ApiError> {
    let counts = app.db.task_counts().await?;
    let of = |lane: Lane, slots: usize| {
        let count = |wanted: Status| {
            let of_lane = counts.iter().filter(|(kind, ..)| kind.lane() == lane);
            of_lane.filter(|(_, status, _)| *status == wanted).map(|(.., n)| n).sum()
        };
        let (running, queued) = (count(Status::Running), count(Status::Queued));
        SlotUse { slots: whole(slots), running, queued, extra: Default::default() }
    };
    Ok(ServiceSlots {
        workers: of(Lane::Workers, app.config.slots()),
        analyses: of(Lane::Analyses, app.config.worker.analyses),
        extra: Default::default(),
    })
}

fn finding(finding: &Finding) -> ServiceFinding {
    let (state, message) = match &finding.result {
        Ok(Found::Sound(text)) => ("ok", text.clone()),
        Ok(Found::Weak(text)) => ("weak", text.clone()),
        Err(error) => ("broken", format!("{error:#}")),
    };
    ServiceFinding {
        about: finding.about.to_owned(),
        state: state.to_owned(),
        message,
        extra: Default::default(),
    }
}

/// A count as the document has it.
fn whole(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
