//! Rust code from molbox's OpenAPI document: what the build script and the xtask have in common.
//!
//! [`Document`] is the document as read, [`Document::violations`] where it breaks the rules
//! (`openapi/README.md` gives their reasons), [`Document::rust`] the client of one base address.
//!
//! Without the feature `generate` it only reads: operations, and what references lead to.

mod document;
#[cfg(feature = "generate")]
mod generate;
#[cfg(feature = "generate")]
mod parts;
#[cfg(feature = "generate")]
mod polish;
#[cfg(feature = "generate")]
mod rules;
#[cfg(feature = "generate")]
mod violation;

pub use document::{Document, Operation, Part, follow, reached, references, referred_name};
#[cfg(feature = "generate")]
pub use polish::Scope;
#[cfg(feature = "generate")]
pub use violation::Violation;

/// What 0.1.0 calls [`Violation`].
#[cfg(feature = "generate")]
#[deprecated(note = "use `Violation`")]
pub type Problem = Violation;
