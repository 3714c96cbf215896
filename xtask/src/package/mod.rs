//! `cargo xtask package`: what people install on this platform, and the proof that it works there.

mod build;
mod check;
mod notices;

pub use build::{Build, Tools, WHEELS, package, version, wheels_in};
pub use check::{check, try_out};
