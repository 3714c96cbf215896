//! What the operations do: parse, authorise, call, answer. Each handler has the name of its
//! operation and stands in the file of its tag.

pub(crate) mod account;
pub(crate) mod admin;
pub(crate) mod analysis;
mod asset;
pub(crate) mod docs;
pub(crate) mod file;
pub(crate) mod job;
pub(crate) mod key;
pub(crate) mod margin;
pub(crate) mod oidc;
pub(crate) mod portal;
mod record_text;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod system;
mod task;
pub(crate) mod upload;
pub(crate) mod watch;
