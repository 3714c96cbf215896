//! Margin of portfolios of futures by filtered historical simulation.
//!
//! The method: standardise each historical daily return by the volatility forecast made before it,
//! draw whole dates, rescale by today's forecast and update the volatility along the path
//! (Barone-Adesi, Giannopoulos and Vosper, Journal of Futures Markets 19, 1999). The margin is the
//! expected shortfall (99 %, unless asked otherwise), divided among the positions by Euler's rule. It replicates no
//! clearing house.
//!
//! ```
//! use std::sync::Arc;
//!
//! use molbox_margin::{DataFormat, File, Request, Run, Store, sample};
//!
//! # fn main() -> Result<(), molbox_margin::Error> {
//! let [contracts, prices, fx] = sample::files();
//! let [contracts, prices, fx] = [&contracts, &prices, &fx]
//!     .map(|file| File { name: file.0, bytes: file.1.as_bytes() });
//! let store = Arc::new(Store::parse(contracts, &[prices], Some(fx), "USD")?);
//!
//! let job = r#"{
//!     "marginDate": "2024-12-31",
//!     "portfolio": {"futures": [{"ticker": "XEQ1", "type": "long", "quantity": 1}]}
//! }"#;
//! let request = Request::from_json(job.as_bytes(), DataFormat::Json, &store)?;
//! let report = request.calculate(Run::default())?;
//! assert!(report.csv().starts_with("ticker,positionType,currency,"));
//! assert!(report.summary.initial_margin > 0.0);
//! # Ok(()) }
//! ```
//!
//! # Same input, same bits
//!
//! A report depends on the request and the store alone: not on the machine, the number of threads,
//! the clock or the environment. Draws are numbered, sums have a fixed order, logarithms and
//! exponentials are not the C library's, and multiplications and additions are not fused.

mod backtest;
mod book;
mod check;
mod date;
mod error;
mod filing;
mod history;
mod margin;
mod model;
mod portfolio;
mod report;
mod request;
mod returns;
mod revalue;
mod run;
pub mod sample;
mod scenario;
mod schema;
mod several;
mod store;
mod unknown;

pub use backtest::{Backtest, Coverage, Day, Skipped, Test};
pub use date::{Date, NotADate};
pub use error::{Error, FileError, Loc, MAX_LISTED, Violation};
pub use portfolio::{DataFormat, MAX_DOCUMENT_BYTES, MAX_POSITIONS, Side};
pub use report::{Report, Row, Scenario, Settings, Simulation, Stress, Summary};
pub use request::Request;
pub use run::Run;
pub use several::{NamedReport, Reports, Requests};
pub use store::{Contract, File, ReturnType, Series, Store};
pub use unknown::{UnknownField, UnknownFields};
