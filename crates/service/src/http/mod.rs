//! What happens to a request before and after its handler, and the connections that it comes by.

pub(crate) mod answer;
pub(crate) mod arriving;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod connections;
pub(crate) mod download;
pub(crate) mod json;
pub(crate) mod kept_answers;
pub(crate) mod once;
pub(crate) mod page;
pub(crate) mod page_token;
pub(crate) mod peer;
pub(crate) mod rates;
pub(crate) mod room;
pub(crate) mod routes;
pub(crate) mod slots;
pub(crate) mod turns;
pub(crate) mod validate;
