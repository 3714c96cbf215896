//! Signing in and out, and invitations.

use std::time::{Duration, Instant};

use axum::http::header::{SET_COOKIE, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::SignedDuration;
use molbox::workflow::types::{
    InvitationAcceptance, InvitationCheck, OpenInvitation, PasswordChange, Session, SessionList,
    SessionSummary, SignIn, SignInWays,
};

use crate::accounts::Caller;
use crate::accounts::session::{self, Token};
use crate::app::App;
use crate::db::{NewSession, SeenSession, SessionRow};
use crate::error::ApiError;
use crate::http::answer::json;
use crate::http::call::Call;
use crate::http::peer::network;
use crate::http::validate::{loc, violation};

/// Of what a browser says it is.
const BROWSER_CHARACTERS: usize = 200;

pub(crate) async fn sign_in_view(call: Call) -> Result<Response, ApiError> {
    json(&SignInWays {
        password: true,
        oidc_label: call.app.oidc.as_ref().map(|provider| provider.label().to_owned()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stage: call.app.config.stage.clone(),
        extra: Default::default(),
    })
}

pub(crate) async fn session_create(call: Call) -> Result<Response, ApiError> {
    let (SignIn { account, password }, _) = call.request()?;
    limit(&call.app, call.address.as_deref(), Some(&account))?;
    let app = &call.app;
    let known = app.db.account_named(&account).await?;
    let kept = known.as_ref().and_then(|known| known.password.clone());
    let is_right = app.passwords.is_right(password.to_string(), kept.clone()).await?;
    let wrong = || ApiError::not_signed_in("password", "the name or the password is not right");
    if !is_right {
        call.note_refusal(known.as_ref().map(|_| account.as_str())).await;
    }
    let (Some(known), Some(kept), true) = (known, kept, is_right) else { return Err(wrong()) };
    let (token, session) = new_session(&call.app, &call.headers, call.address.clone());
    let row = app.db.start_session(known.account, kept, session, call.deed()).await?;
    signed_in(&call, &token, &row.ok_or_else(wrong)?)
}

pub(crate) async fn invitation_check(call: Call) -> Result<Response, ApiError> {
    let (InvitationCheck { token }, _) = call.request()?;
    limit(&call.app, call.address.as_deref(), None)?;
    let invited = call.app.db.invited(session::hash(&token), call.app.now()).await?;
    let invited = invited.ok_or_else(not_invited)?;
    json(&OpenInvitation {
        account: invited.account,
        expires_at: invited.expires_at.to_string(),
        extra: Default::default(),
    })
}

pub(crate) async fn invitation_accept(call: Call) -> Result<Response, ApiError> {
    let (InvitationAcceptance { token: invitation, password }, _) = call.request()?;
    limit(&call.app, call.address.as_deref(), None)?;
    let app = &call.app;
    let invitation = session::hash(&invitation);
    // Before the password is worked on, which takes a while.
    app.db.invited(invitation, app.now()).await?.ok_or_else(not_invited)?;
    let password = app.passwords.hash(password.to_string()).await?;
    let (token, session) = new_session(&call.app, &call.headers, call.address.clone());
    let row = app.db.accept_invitation(invitation, password, session, call.deed()).await?;
    signed_in(&call, &token, &row.ok_or_else(not_invited)?)
}

/// Of one that was accepted or replaced nothing is kept, so the three cannot be told apart.
fn not_invited() -> ApiError {
    let reason = "the invitation was accepted already, was replaced by another, or has expired; \
                  ask for another";
    ApiError::not_signed_in("token", reason)
}

pub(crate) async fn session_view(call: Call) -> Result<Response, ApiError> {
    json(&shown(&call, session_of(&call)?))
}

pub(crate) async fn session_end(call: Call) -> Result<Response, ApiError> {
    let row = session_of(&call)?;
    call.app.db.end_session(row.account, row.id.clone(), call.deed()).await?;
    let gone = session::cookie("", 0, &call.app.base_url());
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, gone)]).into_response())
}

pub(crate) async fn session_list(call: Call) -> Result<Response, ApiError> {
    let current = session_of(&call)?;
    let (limits, now) = (&call.app.config.sessions, call.app.now());
    let mut sessions = call.app.db.sessions(current.account).await?;
    sessions.retain(|seen| session::is_good(&seen.row, limits, now));
    let sessions = sessions
        .into_iter()
        .map(|SeenSession { row, browser, address }| SessionSummary {
            is_current: row.id == current.id,
            browser,
            address,
            created_at: row.created_at.to_string(),
            seen_at: row.seen_at.to_string(),
            expires_at: session::end(&row, limits).to_string(),
            session_id: row.id,
            extra: Default::default(),
        })
        .collect();
    json(&SessionList { sessions, extra: Default::default() })
}

pub(crate) async fn session_revoke(call: Call) -> Result<Response, ApiError> {
    let id = call.parameter("session_id");
    if call.app.db.end_session(call.account(), id.to_owned(), call.deed()).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(ApiError::not_found("session", id))
}

pub(crate) async fn password_change(call: Call) -> Result<Response, ApiError> {
    let (PasswordChange { password, new_password }, _) = call.request()?;
    let current = session_of(&call)?;
    limit(&call.app, call.address.as_deref(), Some(&current.account_name))?;
    let app = &call.app;
    // Not 401: the session is as good as before.
    let wrong = || {
        let msg = "this is not the password of the account";
        let at = vec![loc("body"), loc("password")];
        ApiError::invalid(vec![violation("value_error", at, msg)])
    };
    let known = app.db.account_named(&current.account_name).await?;
    let kept = known.and_then(|known| known.password);
    let is_right = app.passwords.is_right(password.to_string(), kept.clone()).await?;
    let (Some(kept), true) = (kept, is_right) else {
        call.note_refusal(Some(&current.account_name)).await;
        return Err(wrong());
    };
    let password = app.passwords.hash(new_password.to_string()).await?;
    if app.db.change_password(current.clone(), kept, password, call.deed()).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(ApiError::session_over())
}

/// The session of an operation that takes no key.
pub(super) fn session_of(call: &Call) -> Result<&SessionRow, ApiError> {
    match call.caller() {
        Caller::Session(row) => Ok(row),
        Caller::Key(_) => Err(ApiError::session_over()),
    }
}

/// So many times as many passwords may be tried for an account from all addresses together: who knows a
/// name keeps its owner out from nowhere but the own address.
const FROM_ANYWHERE: u32 = 10;

/// Refuses too many tries for a name, and from an address.
pub(super) fn limit(
    app: &App,
    address: Option<&str>,
    account: Option<&str>,
) -> Result<(), ApiError> {
    let sessions = &app.config.sessions;
    let take = |who: &str, per_minute, what: &str| {
        app.tries.take(who, app.part_of(per_minute), Instant::now()).map_err(|wait: Duration| {
            ApiError::too_many_tries(format!("too many tries to sign in {what}"), wait)
        })
    };
    let from = address.and_then(|address| address.parse().ok()).map(network);
    let from = from.map(|network| network.to_string()).unwrap_or_default();
    if !from.is_empty() {
        let most = sessions.tries_per_minute_from_address;
        take(&format!("address {from}"), most, "came from this address")?;
    }
    let Some(name) = account else { return Ok(()) };
    let (most, made) = (sessions.tries_per_minute, "were made for this account");
    take(&format!("account {name} from {from}"), most, made)?;
    take(&format!("account {name}"), most.saturating_mul(FROM_ANYWHERE), made)
}

/// A session that the browser of this request is to have, and its token.
pub(super) fn new_session(
    app: &App,
    headers: &HeaderMap,
    address: Option<String>,
) -> (Token, NewSession) {
    let token = Token::generate();
    let lifetime = SignedDuration::from_hours(24 * i64::from(app.config.sessions.days));
    let browser = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let session = NewSession {
        id: app.new_id(session::PREFIX),
        hash: token.hash(),
        expires_at: app.now().saturating_add(lifetime).unwrap_or(jiff::Timestamp::MAX),
        browser: browser.chars().take(BROWSER_CHARACTERS).collect(),
        address,
    };
    (token, session)
}

/// The cookie of a session that has just begun.
pub(super) fn cookie_of(app: &App, token: &Token, row: &SessionRow) -> HeaderValue {
    let seconds = row.expires_at.duration_since(row.created_at).as_secs();
    session::cookie(token.reveal(), seconds, &app.base_url())
}

fn signed_in(call: &Call, token: &Token, row: &SessionRow) -> Result<Response, ApiError> {
    let mut response = json(&shown(call, row))?;
    response.headers_mut().insert(SET_COOKIE, cookie_of(&call.app, token, row));
    Ok(response)
}

fn shown(call: &Call, row: &SessionRow) -> Session {
    Session {
        session_id: row.id.clone(),
        account: row.account_name.clone(),
        role: row.role.to_string(),
        created_at: row.created_at.to_string(),
        expires_at: session::end(row, &call.app.config.sessions).to_string(),
        extra: Default::default(),
    }
}
