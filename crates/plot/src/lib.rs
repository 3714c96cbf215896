//! Plots of quantities over time or residues, panels below each other with one horizontal axis,
//! and maps.
//!
//! A figure is laid out once; SVG, PNG and PDF show the same shapes. The font is part of the crate, so
//! that a picture looks the same on a machine without any.

mod along;
mod envelope;
mod figure;
mod layout;
mod log;
mod map;
mod paths;
mod pdf;
mod picture;
mod places;
mod states;
mod svg;
mod table;
mod text;
mod ticks;
mod track;

pub use along::PlacedResidue;
pub use figure::{Band, Figure, Line, Panel, Width};
pub use map::Map;
pub use places::{Named, ResiduePlaces};
pub use states::States;
pub use track::{Span, Stretch, Track};
