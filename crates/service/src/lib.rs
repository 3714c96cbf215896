//! The molbox service: every operation of the document, carried out.
//!
//! A request passes [`http`] (key, body, document), a handler in [`handlers`], and ends in the
//! database or the object store. Work is planned by [`plan`], queued in the database and run by
//! [`runner`] through [`exec`], each task in a folder of its own.

mod accounts;
mod analyze;
mod app;
mod clock;
mod command;
mod config;
mod db;
mod doctor;
mod error;
mod excerpt;
mod exec;
mod files;
mod finding;
mod folder;
mod formats;
// Also by the tests, which notice when what it uses has changed.
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod handlers;
mod hex;
mod http;
mod log;
mod market;
mod metrics;
mod objects;
mod pdb;
mod plan;
mod queue;
mod random;
mod recent;
mod record;
mod registered;
mod runner;
mod servers;
mod shown;
mod speed;
mod structure;
mod tenure;
mod web;
mod webhook;
mod worker;

pub use command::main;
