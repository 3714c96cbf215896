//! The commands, a file for each noun.

pub(crate) mod analysis;
pub(crate) mod analyze;
pub(crate) mod api;
pub(crate) mod bundle;
pub(crate) mod doctor;
pub(crate) mod entry;
pub(crate) mod estimate;
pub(crate) mod events;
pub(crate) mod example;
pub(crate) mod file;
pub(crate) mod job;
pub(crate) mod login;
pub(crate) mod margin;
pub(crate) mod mcp;
pub(crate) mod reference;
pub(crate) mod report;
pub(crate) mod rerun;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod system;
pub(crate) mod task;
pub(crate) mod up;
