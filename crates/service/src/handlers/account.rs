//! The account and key behind a request, and what the account uses.

use axum::response::Response;
use molbox::Finite;
use molbox::workflow::types::{Account, Usage, UsedBytes, UsedFiles, UsedHours, UsedTasks};

use crate::accounts::Caller;
use crate::app::App;
use crate::db::Used;
use crate::error::ApiError;
use crate::http::answer::json;
use crate::http::call::Call;

pub(crate) async fn account_view(call: Call) -> Result<Response, ApiError> {
    let Caller::Key(key) = call.caller() else {
        return Err(ApiError::unauthorized("Not authenticated"));
    };
    json(&Account {
        account: key.account_name.clone(),
        key_id: key.id.clone(),
        key_name: key.name.clone(),
        key_expires_at: key.expires_at.map(|at| at.to_string()),
        extra: Default::default(),
    })
}

pub(crate) async fn usage_view(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let ms = app.db.slot_ms(call.account(), app.period()).await?;
    json(&usage(app, &app.db.used(call.account()).await?, ms))
}

/// What an account uses, and may, of which tasks had slots for so long: what it has no limit of its own for is limited by the service's.
pub(super) fn usage(app: &App, used: &Used, slot_ms: i64) -> Usage {
    let limits = &app.config.limits;
    let most = |own: Option<i64>, of_service: u64| {
        let limit = own.unwrap_or_else(|| i64::try_from(of_service).unwrap_or(i64::MAX));
        (limit > 0).then_some(limit)
    };
    Usage {
        open_tasks: UsedTasks {
            used: used.open_tasks,
            most: most(used.most_open_tasks, limits.open_tasks.into()),
            extra: Default::default(),
        },
        files: UsedFiles { used: used.files, most: None, extra: Default::default() },
        bytes: UsedBytes {
            used: used.bytes,
            most: most(used.most_bytes, limits.account_bytes),
            extra: Default::default(),
        },
        hours: Some(UsedHours {
            used: hours(slot_ms as f64 / 3.6e6),
            most: most(used.most_hours, limits.account_hours.into()).map(|most| hours(most as f64)),
            days: limits.hours_days.into(),
            extra: Default::default(),
        }),
        public_entries: Some(app.mirror.is_configured()),
        extra: Default::default(),
    }
}

fn hours(hours: f64) -> Finite {
    Finite::try_from(hours).expect("a count of milliseconds is finite")
}
