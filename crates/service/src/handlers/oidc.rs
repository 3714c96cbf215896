//! Signing in by an identity provider, outside of the document: browsers are sent there, and come
//! back. Whatever happens ends on a page of the portal, which has the sentences.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use molbox::workflow::types::AccountRequest;
use serde_json::json;

use super::session::{cookie_of, limit, new_session};
use crate::accounts::oidc::{self, Failed, Person};
use crate::accounts::session::cookie_named;
use crate::app::App;
use crate::db::{Deed, Unadmitted};
use crate::error::ApiError;
use crate::http::answer::answer;
use crate::http::body::query_of;
use crate::http::peer::origin;
use crate::http::validate::is_unprintable;

/// The name of who has none that an account can have.
const NAMELESS: &str = "person";
/// Of a name, so that there is room for a number.
const NAME_CHARACTERS: usize = 180;

/// Why nobody is signed in, as the portal is told behind `#`.
#[derive(Clone, Copy)]
enum Why {
    TooMany,
    NotBegun,
    Refused,
    Provider,
    Unknown,
    Disabled,
}

impl Why {
    fn word(self) -> &'static str {
        match self {
            Self::TooMany => "too-many",
            Self::NotBegun => "not-begun",
            Self::Refused => "refused",
            Self::Provider => "provider",
            Self::Unknown => "unknown",
            Self::Disabled => "disabled",
        }
    }
}

/// Sends a browser to the provider; `back` is the page of the portal from which it comes.
pub(crate) async fn begin(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(provider) = &app.oidc else { return answer(Err(ApiError::no_such_path())) };
    let query = query_of(&request);
    let back = query.iter().find(|(key, _)| key == "back").map_or("", |(_, value)| value);
    let back = oidc::page(back);
    let (address, id) = origin(&app.config.proxies, request.headers(), request.extensions());
    if limit(&app, address.as_deref(), None).is_err() {
        return to_portal(&app, back, Some(Why::TooMany));
    }
    match provider.begin(&app.base_url(), back, app.now()).await {
        Ok((url, cookie)) => {
            let mut response = redirect(url.as_str());
            response.headers_mut().insert(SET_COOKIE, cookie);
            response
        }
        Err(cause) => {
            note_failure(&id, &cause);
            to_portal(&app, back, Some(Why::Provider))
        }
    }
}

/// Takes a browser back from the provider, and signs in who came with it.
pub(crate) async fn callback(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(provider) = &app.oidc else { return answer(Err(ApiError::no_such_path())) };
    let query = query_of(&request);
    let (address, id) = origin(&app.config.proxies, request.headers(), request.extensions());
    let headers = request.into_parts().0.headers;
    let cookie = cookie_named(&headers, oidc::COOKIE_NAME);
    let begun = cookie.and_then(|cookie| provider.begun(cookie, app.now()));
    let mut response = match begun {
        None => to_portal(&app, "", Some(Why::NotBegun)),
        Some(begun) if limit(&app, address.as_deref(), None).is_err() => {
            to_portal(&app, &begun.back, Some(Why::TooMany))
        }
        Some(begun) => {
            let person = provider.finish(&begun, &query, &app.base_url(), app.now()).await;
            match sign_in(&app, person, &headers, address, &id).await {
                Ok(cookie) => {
                    let mut response = to_portal(&app, &begun.back, None);
                    response.headers_mut().append(SET_COOKIE, cookie);
                    response
                }
                Err(Outcome::Nobody(why)) => to_portal(&app, &begun.back, Some(why)),
                Err(Outcome::Broken(error)) => answer(Err(error)),
            }
        }
    };
    response.headers_mut().append(SET_COOKIE, oidc::no_cookie(&app.base_url()));
    response
}

enum Outcome {
    Nobody(Why),
    Broken(ApiError),
}

/// The cookie of a new session of a person.
async fn sign_in(
    app: &App,
    person: Result<Person, Failed>,
    headers: &HeaderMap,
    address: Option<String>,
    id: &str,
) -> Result<HeaderValue, Outcome> {
    let Person { identity, name, is_admitted } = person.map_err(|failed| {
        Outcome::Nobody(match failed {
            Failed::NotBegun => Why::NotBegun,
            Failed::Refused => Why::Refused,
            Failed::Provider(cause) => {
                note_failure(id, &cause);
                Why::Provider
            }
        })
    })?;
    let newcomer = is_admitted.then(|| account_name(name));
    let (token, session) = new_session(app, headers, address.clone());
    let deed = Deed {
        at: app.now(),
        address,
        request: Some(id.to_owned()),
        action: "session_oidc",
        ..Deed::default()
    };
    let started = app.db.start_session_of(identity, newcomer, session, deed).await;
    match started.map_err(|error| Outcome::Broken(error.into()))? {
        Ok(row) => Ok(cookie_of(app, &token, &row)),
        Err(Unadmitted::Unknown) => Err(Outcome::Nobody(Why::Unknown)),
        Err(Unadmitted::Disabled) => Err(Outcome::Nobody(Why::Disabled)),
    }
}

/// The name of an account for who is called so at the provider.
fn account_name(name: Option<String>) -> String {
    let is_good = |name: &String| {
        let request = json!({ "account": name }).to_string();
        name.chars().count() <= NAME_CHARACTERS
            && molbox::from_json::<AccountRequest>(&request).is_ok()
    };
    // A provider may let people call themselves as they like.
    let printable = |c: char| if is_unprintable(c) { '_' } else { c };
    let name = name.map(|name| name.chars().map(printable).collect());
    name.filter(is_good).unwrap_or_else(|| NAMELESS.to_owned())
}

/// The one place where it is logged why the provider signed nobody in.
fn note_failure(request: &str, cause: &anyhow::Error) {
    tracing::warn!(request, cause = format!("{cause:#}"), "sign in by the identity provider");
}

/// To a page of the portal, which asks to sign in and says why nobody is, if so.
fn to_portal(app: &App, back: &str, why: Option<Why>) -> Response {
    let fragment = why.map(|why| format!("#sign-in={}", why.word())).unwrap_or_default();
    redirect(&format!("{}/portal/{back}{fragment}", app.base_url()))
}

fn redirect(way: &str) -> Response {
    let headers = [(LOCATION, way), (CACHE_CONTROL, "no-store"), (REFERRER_POLICY, "no-referrer")];
    (StatusCode::SEE_OTHER, headers).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_of_a_name_becomes_a_sign_that_is() {
        let of = |name: &str| account_name(Some(name.to_owned()));
        assert_eq!(of("ada\u{202e}nimda"), "ada_nimda");
        assert_eq!(of("a\u{200b}d\u{2028}a\u{feff}"), "a_d_a_");
        assert_eq!(of("עדה ✓"), "עדה ✓");
        assert_eq!(of("ada/x"), NAMELESS);
        assert_eq!(account_name(None), NAMELESS);
    }
}
