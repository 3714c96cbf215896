//! The service as its clients meet it: a process, spoken to through the generated client.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what a random run did, and how to repeat it")]

mod access;
mod accounts;
mod admin;
mod analyses;
mod attempts;
mod audits;
mod backups;
mod buckets;
mod builds;
mod built;
mod burdens;
#[cfg(debug_assertions)]
mod clock;
mod cluster;
mod common;
mod confinement;
mod connections;
mod contract;
mod engines;
mod estimates;
mod events;
mod files;
mod folder;
mod holds;
mod kills;
mod limits;
mod log;
mod lost;
mod margin;
mod mounted;
mod moves;
mod nginx;
#[cfg(debug_assertions)]
mod oidc;
mod oracle;
mod outages;
mod plans;
mod portal;
mod postgres;
mod queue;
mod quotas;
mod repeats;
#[cfg(debug_assertions)]
mod retention;
mod retries;
mod s3;
mod servers;
mod sessions;
mod setup;
mod sizes;
mod slurm;
mod tenure;
mod unknown;
mod up;
mod views;
mod way;
mod webhooks;
mod work;
