//! The molbox service: every operation of the document, carried out.
//!
//! A request passes [`routes`] (key, body, document), a handler in [`handlers`], and ends in the
//! database or the object store. Work is queued in the database and run by [`tasks`] through
//! [`exec`], each task in a folder of its own.

mod app;
mod auth;
mod backup;
mod bundle;
mod check;
mod command;
mod config;
mod connections;
mod db;
mod doctor;
mod error;
mod exec;
mod folder;
mod formats;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handlers;
mod json;
mod links;
mod log;
mod market;
mod metrics;
mod objects;
mod pages;
mod pdb;
mod peer;
mod rates;
mod reserve;
mod room;
mod routes;
mod serve;
mod shown;
mod slots;
mod tasks;
mod turns;
mod validate;

pub use command::main;
