//! The documentation: the reference as Markdown, and all of it as one static site.

pub mod markdown;
mod site;
mod snippets;

pub use site::site;
