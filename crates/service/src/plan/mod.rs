//! From a request to a plan, or 422: what a submission becomes is made once, with every default in
//! it, kept with the task, and handed on.

pub(crate) mod analyze;
mod breath;
pub(crate) mod build;
pub(crate) mod defaults;
pub(crate) mod estimate;
pub(crate) mod force_field;
pub(crate) mod simulate;
mod solute;
pub(crate) mod topology;
pub(crate) mod unlikely;
