//! Rust code of a document: progenitor's, with our types of numbers, polished.

use progenitor::{GenerationSettings, Generator, HooksMode, InterfaceStyle, TypeImpl};
use schemars::schema::{InstanceType, NumberValidation, SchemaObject};

use crate::document::{Document, Part};
use crate::polish::{self, Scope};
use crate::violation::Violation;

impl Document {
    /// The Rust source of one base address: a module `types`, and with [`Scope::Client`] a
    /// `Client` that calls its operations.
    ///
    /// # Errors
    ///
    /// A [`Violation`] for what progenitor refuses. Ask [`Self::violations`] first: some of what
    /// the rules catch makes progenitor panic.
    pub fn rust(&self, part: Part, scope: Scope) -> Result<String, Violation> {
        Ok(prettyplease::unparse(&self.syntax(part, scope)?))
    }

    /// The same as a syntax tree, for those who look at the code rather than compile it.
    ///
    /// # Errors
    ///
    /// Those of [`Self::rust`].
    pub fn syntax(&self, part: Part, scope: Scope) -> Result<syn::File, Violation> {
        let tokens = Generator::new(&settings(part))
            .generate_tokens(&self.part(part)?)
            .map_err(|e| Violation::new("", e.to_string()))?;
        let mut file = syn::parse2(tokens).map_err(|e| Violation::new("", e.to_string()))?;
        polish::polish(&mut file, scope, &self.request_schemas(), &self.parameters());
        Ok(file)
    }
}

/// A number type of the `molbox` crate that takes the place of a schema with this bound.
pub(crate) struct Number {
    pub(crate) schema: fn(NumberValidation) -> SchemaObject,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive: bool,
    rust: &'static str,
}

/// Every number of the document is of one of these kinds, or the rules refuse it: typify itself
/// drops the bounds of numbers, and would send NaN as null.
pub(crate) const NUMBERS: [Number; 6] = [
    Number { schema: double, minimum: Some(0.0), exclusive: false, rust: "crate::NonNegative" },
    Number { schema: double, minimum: Some(0.0), exclusive: true, rust: "crate::Positive" },
    Number { schema: double, minimum: None, exclusive: false, rust: "crate::Finite" },
    Number { schema: int64, minimum: Some(0.0), exclusive: false, rust: "u64" },
    Number { schema: int64, minimum: Some(1.0), exclusive: false, rust: "::std::num::NonZeroU64" },
    Number { schema: int64, minimum: None, exclusive: false, rust: "i64" },
];

fn double(bound: NumberValidation) -> SchemaObject {
    numeric(InstanceType::Number, "double", bound)
}

fn int64(bound: NumberValidation) -> SchemaObject {
    numeric(InstanceType::Integer, "int64", bound)
}

fn numeric(kind: InstanceType, format: &str, bound: NumberValidation) -> SchemaObject {
    SchemaObject {
        instance_type: Some(kind.into()),
        format: Some(format.to_owned()),
        number: (bound != NumberValidation::default()).then(|| Box::new(bound)),
        ..Default::default()
    }
}

fn settings(part: Part) -> GenerationSettings {
    let mut settings = GenerationSettings::default();
    settings
        .with_interface(InterfaceStyle::Builder)
        .with_inner_type("crate::http::Inner".parse().expect("a path"))
        // Without this a missing hook would mean requests without a key.
        .with_hooks(HooksMode::Expected)
        .with_map_type("::std::collections::BTreeMap")
        .with_derive("PartialEq");
    for number in &NUMBERS {
        let bound = NumberValidation {
            minimum: number.minimum.filter(|_| !number.exclusive),
            exclusive_minimum: number.minimum.filter(|_| number.exclusive),
            ..Default::default()
        };
        settings.with_conversion(
            (number.schema)(bound),
            number.rust,
            [TypeImpl::Display, TypeImpl::FromStr].into_iter(),
        );
    }
    if part == Part::Margin {
        // One error body, one type.
        for name in ["HttpValidationError", "ValidationError", "LocItem"] {
            let shared = format!("crate::{}::types::{name}", Part::Workflow.module());
            settings.with_replacement(name, shared, std::iter::empty());
        }
    }
    settings
}
