//! The crate from outside.

#![allow(clippy::unwrap_used, reason = "a test fails where the value is missing")]

mod cases;
mod common;
mod identities;
mod reports;
mod requests;
mod stores;
