//! Margin of portfolios of futures by filtered historical simulation.

mod date;
mod error;
pub mod sample;
mod scenario;
mod store;

pub use date::{Date, NotADate};
pub use error::{Complaint, Error, MAX_COMPLAINTS};
pub use store::{Contract, File, ReturnType, Series, Store};
