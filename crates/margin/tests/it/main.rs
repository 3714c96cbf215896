//! The crate from outside.

#![allow(clippy::unwrap_used, reason = "a test fails where the value is missing")]

mod backtests;
mod cases;
mod common;
mod formats;
mod hostile;
mod identities;
mod measures;
mod reports;
mod requests;
mod several;
mod staleness;
mod stores;
