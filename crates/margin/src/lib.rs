//! Margin of portfolios of futures by filtered historical simulation.

mod date;
pub mod sample;
mod scenario;

pub use date::{Date, NotADate};
