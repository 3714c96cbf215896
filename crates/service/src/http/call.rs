//! A request that has passed its checks, as handlers get it.

use std::sync::Arc;

use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method};
use molbox::Request;
use molbox::workflow::types::{LocItem, Notice, ValidationError};
use serde_json::Value;

use crate::accounts::Caller;
use crate::app::App;
use crate::db::{Deed, IdempotentWrite};
use crate::error::ApiError;
use crate::http::room::Share;
use crate::http::validate::{loc, python_int};

/// A request that has passed its checks.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    /// Who makes it; none for an operation that is open to all.
    pub(crate) caller: Option<Caller>,
    pub(crate) path: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    /// The body in the document's form; null without one, and for an operation that takes more
    /// than JSON.
    pub(crate) body: Value,
    /// Values of the body that are not among those that the document allows.
    pub(crate) outside: Vec<ValidationError>,
    /// Members of the body that are there more than once in one object; the last one counts.
    pub(crate) repeated: Vec<Vec<LocItem>>,
    /// The body as it came, of an operation that takes more than JSON.
    pub(crate) bytes: Vec<u8>,
    /// What the body holds of the memory for bodies; none for an operation without.
    pub(crate) share: Option<Share>,
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    /// Where it comes from.
    pub(crate) address: Option<String>,
    /// The `x-request-id` of the answer.
    pub(crate) request_id: String,
    /// The caller's name for this request, of an operation that takes one.
    pub(crate) idempotency_key: Option<String>,
    /// Digest of what is asked for.
    pub(crate) fingerprint: [u8; 32],
}

impl Call {
    /// Number of the account.
    pub(crate) fn account(&self) -> i64 {
        self.caller().account()
    }

    /// Base address of the service as this caller knows it: the one that was configured, or else
    /// the one that the request came to. A browser sends nothing to another host.
    pub(crate) fn base_url(&self) -> String {
        let host = self.header(HOST.as_str()).and_then(|host| host.parse::<Authority>().ok());
        match host.filter(|host| !host.as_str().contains('@')) {
            Some(host) if self.app.config.public_url.is_empty() => {
                format!("http://{host}/{}", self.app.config.stage)
            }
            _ => self.app.base_url(),
        }
    }

    pub(crate) fn caller(&self) -> &Caller {
        self.caller.as_ref().expect("the operation is not open to all")
    }

    /// A path parameter.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.path.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// A query parameter; the last of repeated ones.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A query parameter that is a whole number, as the document's check has read it: `10.0` is
    /// 10. One that is too large for any use as the largest.
    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        Some(python_int(self.query(name)?)?.parse().unwrap_or(u64::MAX))
    }

    /// Does what keeps a thread for a while: in turn with the checks of registrations, which take
    /// as long, or, where everything is kept that it would have to read, with others of which that is
    /// so.
    pub(crate) async fn in_turn<T: Send + 'static>(
        &self,
        is_kept: bool,
        work: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let app = self.app.clone();
        let slots = if is_kept { &app.looks } else { &app.registrations };
        let turn = app.turn(slots, self.account()).await?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&app)
        });
        done.await.map_err(ApiError::internal)?
    }

    /// Media type of the body, without its parameters, in lower case.
    pub(crate) fn media(&self) -> String {
        media(self.header(CONTENT_TYPE.as_str()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as its wire type, and warnings about it, JSON.
    ///
    /// # Errors
    ///
    /// 422 with the values that the document does not allow.
    pub(crate) fn request<T: Request>(&self) -> Result<(T, String), ApiError> {
        let (request, warnings, outside) = self.readable()?;
        if outside.is_empty() { Ok((request, warnings)) } else { Err(ApiError::invalid(outside)) }
    }

    /// The same for those who look for what else is wrong: with the values that are not allowed,
    /// which have to be refused in the end.
    pub(crate) fn readable<T: Request>(
        &self,
    ) -> Result<(T, String, Vec<ValidationError>), ApiError> {
        let request = T::deserialize(&self.body).map_err(|e| {
            ApiError::internal(
                anyhow::Error::new(e).context("a body that passed the document's check"),
            )
        })?;
        let warnings = serde_json::to_string(&request_warnings::<T>(&self.body, &self.repeated));
        Ok((request, warnings.map_err(ApiError::internal)?, self.outside.clone()))
    }

    /// What a write needs so that repeating the request does nothing again.
    pub(crate) fn idempotent_write(&self) -> IdempotentWrite {
        IdempotentWrite {
            account: self.account(),
            key: self.idempotency_key.clone(),
            operation: self.operation,
            fingerprint: self.fingerprint,
            now: self.app.now(),
            deed: self.deed(),
        }
    }

    /// What is done by it, for the audit log.
    pub(crate) fn deed(&self) -> Deed {
        let caller = self.caller.as_ref();
        Deed {
            at: self.app.now(),
            account: caller.map(|caller| caller.account_name().to_owned()),
            key: caller.map(|caller| caller.id().to_owned()),
            operator: None,
            address: self.address.clone(),
            request: Some(self.request_id.clone()),
            action: self.operation,
        }
    }

    /// Notes in the audit log that something is downloaded, each operation once a minute for those who
    /// take it in pieces. On a disk without room for that it is downloaded all the same.
    pub(crate) async fn note_download(&self, id: &str) {
        let deed = self.deed();
        let who = format!(
            "{} {id} {} {}",
            deed.action,
            deed.key.as_deref().unwrap_or_default(),
            deed.address.as_deref().unwrap_or_default()
        );
        if self.method == Method::HEAD || !self.app.downloads.note(&who, deed.at) {
            return;
        }
        self.note(deed, id).await;
    }

    /// Notes in the audit log that a password was refused. `account` is whose it was to be, if
    /// there is one with the name that was given: another may be a password in the wrong field.
    pub(crate) async fn note_refusal(&self, account: Option<&str>) {
        tracing::warn!(account, address = self.address, "a wrong password");
        let deed = Deed { action: "password_refuse", ..self.deed() };
        // Also of nobody, which would be told from somebody by how long the answer takes.
        self.note(deed, account.unwrap_or("no such account")).await;
    }

    /// Notes in the audit log what is answered in any case.
    async fn note(&self, deed: Deed, subject: &str) {
        let action = deed.action;
        if let Err(error) = self.app.db.note(deed, subject.to_owned()).await {
            let (request, account) =
                (&self.request_id, self.caller.as_ref().map(Caller::account_name));
            tracing::error!(
                request,
                ?account,
                action,
                subject,
                cause = format!("{error:#}"),
                "not noted in the audit log"
            );
        }
    }
}

/// What of a body was not taken as it was written: members that the document does not have, which
/// it does not forbid, and those that are there more than once.
fn request_warnings<T: Request>(body: &Value, repeated: &[Vec<LocItem>]) -> Vec<Notice> {
    let unknown = molbox::unknown_fields::<T>(body);
    let mut warnings: Vec<Notice> = Vec::new();
    for field in &unknown.listed {
        warnings.push(notice("unknown_field", field.loc.clone(), unknown_field(field)));
    }
    if unknown.more > 0 {
        warnings.push(notice("unknown_field", Vec::new(), more_unknown_fields(unknown.more)));
    }
    for path in repeated {
        let field = molbox::UnknownField { loc: path.clone(), nearest: Vec::new() };
        let message = format!("{} is given more than once; the last one counts", field.path());
        warnings.push(notice("repeated_field", path.clone(), message));
    }
    warnings
}

fn notice(code: &str, path: Vec<LocItem>, message: String) -> Notice {
    let loc = std::iter::once(loc("body")).chain(path).collect();
    Notice { code: code.to_owned(), message, loc, residues: Vec::new(), extra: Default::default() }
}

/// What to say about members that the document does not have, after the first of them.
pub(crate) fn more_unknown_fields(count: usize) -> String {
    format!("{count} more fields that this request does not have were ignored")
}

/// What to say about a member that the document does not have.
pub(crate) fn unknown_field(field: &molbox::UnknownField) -> String {
    let question = field.question().map(|question| format!("; {question}")).unwrap_or_default();
    format!("{} is not a field of this request and was ignored{question}", field.path())
}

/// The media type of a `Content-Type`, without its parameters, in lower case.
pub(crate) fn media(content_type: Option<&str>) -> String {
    content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}
