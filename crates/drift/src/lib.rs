//! What a change of an OpenAPI document breaks: for clients that are out there (on the wire), for
//! code that uses a generated Rust client, and for code that uses clients of other generators.
//!
//! ```
//! use openapi_drift::{Api, Report, Verdict};
//!
//! let document = |kind: &str| {
//!     let text = format!(
//!         "{{openapi: 3.0.3, info: {{title: T, version: 1.0.0}}, paths: {{/jobs: {{get: {{
//!             parameters: [{{name: limit, in: query, schema: {{type: {kind}}}}}], responses: {{}}}}}}}}}}"
//!     );
//!     Api::parse(&text)
//! };
//! let report = Report::new(&document("number")?, &document("integer")?);
//! assert_eq!(report.wire(), Some(Verdict::Breaking));
//! assert_eq!(report.findings[0].message, "number became integer");
//! # Ok::<(), openapi_drift::Error>(())
//! ```
//!
//! Schemas are compared by the values that they admit, not by how they are written. `README.md` has
//! the table of verdicts.

mod admit;
mod compare;
mod finding;
mod languages;
mod report;
#[cfg(feature = "rust")]
mod rust;
mod shape;
mod source;
#[cfg(feature = "rust")]
mod surface;
mod values;

pub use admit::violations;
pub use finding::{Direction, Effect, Finding, Rust, RustChange, Verdict};
pub use languages::Language;
pub use report::{Level, Report};
pub use shape::Api;
pub use source::{Error, at_revision, read};
