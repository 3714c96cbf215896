//! Client of molbox: molecular dynamics behind a REST interface, and a historical-simulation
//! margin for portfolios of futures.
//!
//! Types and calls are generated from `openapi/molbox.yaml` when the crate is built, into the
//! modules [`workflow`] and [`margin`], one per base address, each with a client of its own. By
//! hand around them stand numbers that cannot be out of range, the API key, retries, errors, and
//! three calls that everybody needs: `upload`, `wait` and `download`.
//!
//! ```no_run
//! # #[cfg(feature = "client")]
//! # async fn run() -> Result<(), molbox::Error> {
//! // MOLBOX_API_KEY, and MOLBOX_BASE_URL when the service is on another machine.
//! let molbox = molbox::Client::from_env()?;
//!
//! let protein = molbox.upload("1l2y.pdb").name("trp-cage").await?;
//! let system = molbox
//!     .system_submit()
//!     .body_map(|system| system.protein(&protein.name).box_shape("dodecahedron").concentration(0.15))
//!     .send()
//!     .await?;
//! molbox.wait_system(&system.system_id).await?;
//!
//! let job = molbox
//!     .job_submit()
//!     .body_map(|job| {
//!         use molbox::workflow::types::{EquilibrationStep, ProductionParams};
//!         job.box_id(system.system_id.as_str())
//!             .temperature(310) // K
//!             .equilibration([
//!                 EquilibrationStep::builder().type_("NVT").time(0.1).restraint_mask("@CA"), // ns
//!                 EquilibrationStep::builder().type_("NPT").time(0.1),
//!             ])
//!             .production(ProductionParams::builder().time(1))
//!     })
//!     .send()
//!     .await?;
//! molbox
//!     .wait_job(&job.job_id)
//!     .on_progress(|job| eprintln!("{}", job.status))
//!     .await?;
//! molbox.download_job(&job.job_id, "results.zip").await?;
//! # Ok(()) }
//! ```
//!
//! # What is checked before anything is sent
//!
//! A number below its bound, NaN, an empty identifier, a value outside of an enumeration: the
//! call fails with [`Error::Invalid`], which has everything that was found, each with the path of
//! its field, and the values or the limit that are allowed: the same as the service answers.
//!
//! ```
//! use molbox::workflow::types::{EquilibrationStep, JobCreateParams};
//!
//! let job = JobCreateParams::builder()
//!     .equilibration([EquilibrationStep::builder().time(0.1), EquilibrationStep::builder().time(-0.5)]);
//! let error = JobCreateParams::try_from(job).unwrap_err();
//! assert_eq!(error.to_string(), "equilibration[1].time: must be a number >= 0, got -0.5");
//! assert_eq!(error.violations[0].ctx["ge"], 0);
//! ```
//!
//! # What a call does besides
//!
//! Requests that can be repeated without harm are, after transient errors: GETs, and POSTs, which
//! carry an `Idempotency-Key` so that the service does nothing twice. The API key goes to the base
//! address alone, never along with a redirect to another origin, never to an upload link, and is
//! not in any `Debug` form. There is no limit to how long a transfer takes, only to how long it
//! may stand still.
//!
//! # Null
//!
//! The document gives a null field the meaning of a missing one, so both are `None` here, and
//! `None` is sent by leaving the field out.
//!
//! # Crates of others
//!
//! [`reqwest`] and [`progenitor_client`], whose types are in signatures here, are exported again:
//! what names them through this crate has the versions that it uses. A new major version of them,
//! or of `serde`, `serde_json`, `futures`, `http` and `tokio`, which are in signatures too, is a
//! new major version of this crate.
//!
//! # Features
//!
//! - `client` (default). Without it the crate is the wire types alone, with few dependencies.
//! - `rustls` (default) or `native-tls`: what speaks TLS, so that `https` addresses are reached.

mod again;
mod allowed;
mod bounds;
mod field;
mod invalid;
mod json;
mod lenient;
mod unknown;
mod unlikely;

pub use allowed::{Allowed, Measure, Problem};
pub use bounds::{Finite, NonNegative, OutOfRange, Positive};
pub use field::Field;
pub use invalid::InvalidRequest;
pub use json::from_json;
pub use unknown::{Request, UnknownField, UnknownFields, unknown_fields};
pub use unlikely::unlikely_values;

#[cfg(feature = "client")]
mod auth;
#[cfg(feature = "client")]
mod blocking;
#[cfg(feature = "client")]
mod call;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
mod http;
#[cfg(feature = "client")]
mod replicas;
#[cfg(feature = "client")]
pub mod run;
#[cfg(feature = "client")]
mod transfer;
#[cfg(feature = "client")]
mod wait;

#[cfg(feature = "client")]
pub use {
    auth::ApiKey,
    blocking::Blocking,
    call::{Answer, Call},
    error::{Error, Refusal, TaskFailure},
    http::{Connection, Retry},
    transfer::{Download, Upload},
    wait::{Task, Wait},
    workflow::Client,
};

#[cfg(feature = "client")]
pub use {progenitor_client, reqwest};

macro_rules! generated {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[allow(warnings, reason = "generated")]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    };
}

generated!(
    /// The simulation workflow: files, systems, jobs, analyses.
    workflow
);
generated!(
    /// The margin endpoint, which has a base address of its own.
    margin
);
