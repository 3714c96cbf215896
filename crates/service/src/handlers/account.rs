//! The account and key behind a request, and what the account uses.

use axum::response::Response;
use molbox::workflow::types::{Account, Usage, UsedBytes, UsedFiles, UsedTasks};

use crate::accounts::Caller;
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
    let used = call.app.db.used(call.account()).await?;
    let limits = &call.app.config.limits;
    let most = |limit: u64| (limit > 0).then(|| i64::try_from(limit).unwrap_or(i64::MAX));
    json(&Usage {
        open_tasks: UsedTasks {
            used: used.open_tasks,
            most: most(limits.open_tasks.into()),
            extra: Default::default(),
        },
        files: UsedFiles { used: used.files, most: None, extra: Default::default() },
        bytes: UsedBytes {
            used: used.bytes,
            most: most(limits.account_bytes),
            extra: Default::default(),
        },
        extra: Default::default(),
    })
}
