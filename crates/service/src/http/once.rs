//! Writes that are done once, however often their request is repeated.

use axum::response::Response;

use crate::db::{Answer, Before, Once};
use crate::error::ApiError;
use crate::http::answer::response;
use crate::http::call::Call;
use crate::http::validate::{IDEMPOTENCY_KEY, loc};

/// The answer of a write that is done once; `refused` turns the reason why it could not be done
/// into an error.
pub(crate) fn once<R>(
    done: Once<R>,
    answer: &Answer,
    refused: impl FnOnce(R) -> ApiError,
) -> Result<Response, ApiError> {
    match done {
        Once::Stored => response(answer),
        Once::Refused(reason) => Err(refused(reason)),
        Once::Replayed(first) => replayed(Before::Replayed(first)),
        Once::KeyReused => replayed(Before::KeyReused),
    }
}

/// The first answer of a request that is repeated, or 409 for a key that another request has.
pub(crate) fn replayed(before: Before) -> Result<Response, ApiError> {
    match before {
        Before::Replayed(answer) => response(&answer),
        Before::KeyReused => {
            let at = vec![loc("header"), loc(IDEMPOTENCY_KEY)];
            Err(ApiError::conflict(at, "the key was used for another request in the last 24 hours"))
        }
    }
}

/// Answers, and keeps the answer for a repeated request.
pub(crate) async fn remembered(call: &Call, answer: Answer) -> Result<Response, ApiError> {
    if call.idempotency_key.is_none() {
        return response(&answer);
    }
    call.app.kept_answers.add(call.account(), answer.body.len(), call.app.now());
    let done = call.app.db.remember(call.idempotent_write(), answer.clone()).await?;
    once(done, &answer, |never| match never {})
}
