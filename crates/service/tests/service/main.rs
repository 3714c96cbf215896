//! The service as its clients meet it: a process, spoken to through the generated client.

mod common;
mod contract;
mod files;
mod work;
