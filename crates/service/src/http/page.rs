//! Pages of a listing.

use axum::response::Response;

use crate::db::Filter;
use crate::error::ApiError;
use crate::http::answer::text;
use crate::http::call::Call;
use crate::http::validate::{loc, violation};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Which page of a listing is asked for: filter and size.
pub(crate) fn page(call: &Call) -> Result<(Filter, usize), ApiError> {
    let limit =
        call.whole("limit").map_or(DEFAULT_LIMIT, |limit| limit.min(MAX_LIMIT as u64) as usize);
    let filter = match call.query("page_token") {
        Some(token) => call.app.pages.open(&listing(call), token).ok_or_else(|| {
            let at = vec![loc("query"), loc("page_token")];
            ApiError::invalid(vec![violation("page_token", at, "is no next_page of a page before")])
        })?,
        None => Filter {
            before: None,
            status: call.query("status").and_then(|word| word.parse().ok()),
            name: call.query("name").map(str::to_owned),
        },
    };
    Ok((filter, limit))
}

/// What a page token is good for: this listing of this account.
fn listing(call: &Call) -> String {
    format!("{} {}", call.operation, call.account())
}

/// A page of records, each of them JSON: at most `limit`, and the token of the next when there are
/// more.
pub(crate) fn paged<R, T: AsRef<str>>(
    call: &Call,
    mut rows: Vec<R>,
    filter: &Filter,
    limit: usize,
    seq: impl Fn(&R) -> i64,
    record: impl Fn(&R) -> Result<T, ApiError>,
) -> Result<Response, ApiError> {
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let mut page = "{\"items\":[".to_owned();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            page.push(',');
        }
        page += record(row)?.as_ref();
    }
    page.push(']');
    if let Some(row) = rows.last().filter(|_| has_more) {
        let next = Filter { before: Some(seq(row)), ..filter.clone() };
        // A token needs no escapes.
        page += &format!(
            ",\"next_page\":\"{}\"",
            call.app.pages.seal(&listing(call), &next, call.app.random())
        );
    }
    page.push('}');
    Ok(text(page))
}
