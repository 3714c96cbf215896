//! The documentation: the reference as Markdown, and all of it as one static site.

mod blocks;
mod examples;
mod html;
pub mod markdown;
mod notebook;
mod pages;
mod presets;
mod rust;
mod site;
mod snippets;

pub use examples::run;
pub use site::site;
