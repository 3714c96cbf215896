//! The defaults that the document states for machines (`x-default`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use molbox::workflow::types::{Ensembles, TrajectoryFormats};
use molbox::{NonNegative, Positive};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::http::validate::DOCUMENT;

/// Of the requests that become plans.
pub(crate) static DEFAULTS: LazyLock<Defaults> =
    LazyLock::new(|| read(DOCUMENT).expect("the document states every default"));

/// The release that the document is of: its `info.version` is the interface's, and stays.
pub(crate) fn document_version() -> &'static str {
    #[derive(Deserialize)]
    struct Document {
        info: Info,
    }

    #[derive(Deserialize)]
    struct Info {
        #[serde(rename = "x-release")]
        release: String,
    }

    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let document: Document = serde_json::from_str(DOCUMENT).expect("the build has read it");
        document.info.release
    });
    &VERSION
}

#[derive(Debug, Deserialize)]
pub(crate) struct Defaults {
    #[serde(rename = "SystemBuildRequest")]
    pub(crate) build: BuildDefaults,
    #[serde(rename = "JobCreateParams")]
    pub(crate) job: JobDefaults,
    #[serde(rename = "EquilibrationStep")]
    pub(crate) equilibration: RunDefaults,
    #[serde(rename = "ProductionParams")]
    pub(crate) production: RunDefaults,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BuildDefaults {
    pub(crate) box_shape: String,
    pub(crate) concentration: f64,
    pub(crate) force_field: String,
    pub(crate) ions: String,
    #[serde(rename = "keep_Hs")]
    pub(crate) keep_hydrogens: bool,
    pub(crate) minimum_padding: f64,
    #[serde(rename = "pH")]
    pub(crate) ph: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JobDefaults {
    pub(crate) temperature: NonNegative,
    pub(crate) pressure: NonNegative,
    pub(crate) surface_tension: NonNegative,
    pub(crate) friction: NonNegative,
    pub(crate) integration_timestep: Positive,
    pub(crate) ewald_error_tolerance: Positive,
    pub(crate) non_bonded_cutoff: Positive,
    pub(crate) minimization_steps: u64,
    pub(crate) trajectory_output_format: TrajectoryFormats,
}

/// Of a stage. The frequencies are those of one that is long enough.
#[derive(Debug, Deserialize)]
pub(crate) struct RunDefaults {
    #[serde(rename = "type")]
    pub(crate) ensemble: Ensembles,
    pub(crate) time: NonNegative,
    pub(crate) traj_freq: u64,
    pub(crate) log_freq: u64,
}

fn read(document: &str) -> serde_json::Result<Defaults> {
    #[derive(Deserialize)]
    struct Document {
        components: Components,
    }

    #[derive(Deserialize)]
    struct Components {
        schemas: BTreeMap<String, Schema>,
    }

    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: BTreeMap<String, Property>,
    }

    #[derive(Deserialize)]
    struct Property {
        #[serde(rename = "x-default")]
        default: Option<Value>,
    }

    let document: Document = serde_json::from_str(document)?;
    let mut stated = Map::new();
    for (name, schema) in document.components.schemas {
        let defaults = schema
            .properties
            .into_iter()
            .filter_map(|(name, property)| Some((name, property.default?)));
        stated.insert(name, Value::Object(defaults.collect()));
    }
    serde_json::from_value(Value::Object(stated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_lacks_a_default_is_refused_by_its_name() {
        assert!(read(DOCUMENT).is_ok());
        let without = DOCUMENT
            .replace("\"x-default\":300", "\"x-other\":300")
            .replace("\"x-default\": 300", "\"x-other\": 300");
        assert!(read(&without).unwrap_err().to_string().contains("temperature"));
    }
}
