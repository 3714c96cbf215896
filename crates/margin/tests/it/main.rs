//! The crate from outside.

#![allow(clippy::unwrap_used, reason = "a test fails where the value is missing")]

mod common;
mod stores;
