//! The account and key behind a request.

use axum::response::Response;
use molbox::workflow::types::Account;

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
