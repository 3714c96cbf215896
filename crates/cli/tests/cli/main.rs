//! The command line through its binary, against a real service.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bundles;
mod local;
mod proxy;
mod run;
mod service;
mod support;
mod terminal;
