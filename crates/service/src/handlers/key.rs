//! The API keys of an account, for those who have signed in.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::{ApiKeySummary, KeyList, KeyRequest, NewKey};

use super::session::session_of;
use crate::accounts::key::{self, Key};
use crate::db;
use crate::error::ApiError;
use crate::http::answer::json;
use crate::http::call::Call;
use crate::http::validate::{loc, unprintable};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Keys that an account may have at a time.
const MOST: usize = 100;

pub(crate) async fn key_list(call: Call) -> Result<Response, ApiError> {
    let keys = good_keys(&call).await?;
    let keys = keys
        .into_iter()
        .map(|key| ApiKeySummary {
            key_id: key.id,
            name: key.name,
            created_at: key.created_at.to_string(),
            expires_at: key.expires_at.map(|at| at.to_string()),
            last_used_at: key.last_used_at.map(|at| at.to_string()),
            extra: Default::default(),
        })
        .collect();
    json(&KeyList { keys, extra: Default::default() })
}

pub(crate) async fn key_create(call: Call) -> Result<Response, ApiError> {
    let (KeyRequest { name, days }, _) = call.request()?;
    if let Some(wrong) = unprintable(Some(name.as_str()), "name") {
        return Err(ApiError::invalid(vec![wrong]));
    }
    let app = &call.app;
    let deed = call.deed();
    let lifetime =
        days.map(|days| DAY.saturating_mul(u32::try_from(days.get()).unwrap_or(u32::MAX)));
    let expires_at = lifetime.map(|it| deed.at.checked_add(it)).transpose();
    let expires_at = expires_at.map_err(ApiError::internal)?;
    let key = Key::generate(&app.random());
    let created_at = deed.at.to_string();
    let row = db::NewKey {
        id: key.id().to_owned(),
        name: name.to_string(),
        hash: key.hash(),
        expires_at,
    };
    let session = session_of(&call)?.clone();
    match app.db.create_key_in_session(session, row, MOST, deed).await? {
        Ok(()) => {}
        Err(db::NoKey::SignedOut) => return Err(ApiError::session_over()),
        Err(db::NoKey::TooMany) => {
            let msg = format!("the account has {MOST} keys; revoke one that is not used");
            return Err(ApiError::conflict(vec![loc("body"), loc("name")], msg));
        }
    }
    json(&NewKey {
        key: key.reveal().to_owned(),
        key_id: key.id().to_owned(),
        name: name.to_string(),
        created_at,
        expires_at: expires_at.map(|at| at.to_string()),
        extra: Default::default(),
    })
}

pub(crate) async fn key_revoke(call: Call) -> Result<Response, ApiError> {
    let id = call.parameter("key_id");
    if call.app.db.revoke_key(id.to_owned(), Some(call.account()), call.deed()).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(ApiError::not_found("key", id))
}

async fn good_keys(call: &Call) -> Result<Vec<db::KeyRow>, ApiError> {
    let now = call.app.now();
    let mut keys = call.app.db.keys(call.caller().account_name()).await?;
    keys.retain(|key| key::is_good(key, now));
    Ok(keys)
}
