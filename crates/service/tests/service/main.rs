//! The service as its clients meet it: a process, spoken to through the generated client.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod contract;
mod files;
mod kills;
mod margin;
mod oracle;
mod work;
