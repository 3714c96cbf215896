//! System builds: from a request to the worker's plan.
//!
//! What can be told without looking into the structure is checked here, at once and all together;
//! the rest is the worker's.

use std::fs;
use std::path::Path;

use anyhow::Result;
use molbox::workflow::types::{SystemBuildRequest, ValidationError};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::db::TaskRow;
use crate::error::ApiError;
use crate::handlers::file::referred;
use crate::handlers::upload::object_key;
use crate::validate::{loc, violation};

/// What the worker is to build. Lengths in nm, concentration in mol/L.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BuildPlan {
    protein: Option<Structure>,
    /// Identifiers of the chains to keep; none for all.
    chains: Option<Vec<String>>,
    keep_hydrogens: bool,
    ph: f64,
    force_field: Files,
    water: Water,
    positive_ion: String,
    negative_ion: String,
    concentration: f64,
    box_shape: String,
    padding_nm: f64,
    max_atoms: u64,
}

impl BuildPlan {
    /// Identifiers of the files that the build reads.
    pub(crate) fn inputs(&self) -> Vec<String> {
        self.protein.iter().map(|protein| protein.file_id.clone()).collect()
    }
}

/// A structure file in the job directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Structure {
    /// Identifier of the registered file.
    file_id: String,
    /// Its name under `input/`.
    file: String,
    format: String,
    /// What its owner calls it.
    name: String,
}

/// A force field by its name and OpenMM's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Files {
    name: String,
    files: Vec<String>,
}

/// A water model: its parameters, and the model whose geometry `addSolvent` places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Water {
    name: String,
    file: String,
    model: String,
    sites: u8,
}

/// A family of force fields that share their water files.
struct ForceField {
    name: &'static str,
    files: &'static [&'static str],
    water_folder: &'static str,
    default_water: &'static str,
}

/// The force fields that OpenMM ships and this service builds with.
const FORCE_FIELDS: [ForceField; 4] = [
    ForceField { name: "amber14", files: &["amber14-all.xml"], water_folder: "amber14/", default_water: "tip3p" },
    ForceField { name: "amber19", files: &["amber19-all.xml"], water_folder: "amber19/", default_water: "opc" },
    ForceField {
        name: "amber14-ff15ipq",
        files: &["amber14/protein.ff15ipq.xml"],
        water_folder: "amber14/",
        default_water: "spce",
    },
    // Its sodium and chloride are not those of the amber14 folder.
    ForceField { name: "amberfb15", files: &["amberfb15.xml"], water_folder: "", default_water: "tip3pfb" },
];
const LATER_FORCE_FIELDS: [&str; 2] = ["charmm36", "charmm36_2024"];

/// Amber's water models: name, model of the same geometry, sites.
const WATERS: [(&str, &str, u8); 7] = [
    ("tip3p", "tip3p", 3),
    ("tip3pfb", "tip3p", 3),
    ("spce", "spce", 3),
    ("opc3", "tip3p", 3),
    ("tip4pew", "tip4pew", 4),
    ("tip4pfb", "tip4pew", 4),
    ("opc", "tip4pew", 4),
];
/// Of the top-level water files, which amberfb15 uses.
const FB15_WATERS: [&str; 3] = ["tip3p", "tip3pfb", "tip4pfb"];

const BOX_SHAPES: [&str; 4] = ["cube", "rectangular", "dodecahedron", "octahedron"];
const POSITIVE: [&str; 5] = ["Na", "K", "Li", "Cs", "Rb"];
const NEGATIVE: [&str; 4] = ["Cl", "Br", "F", "I"];
const MAX_NAME: usize = 200;
pub(crate) const MAX_SEED: u64 = 0x7fff_ffff;

/// Collects what a request asks for that cannot be.
#[derive(Default)]
struct Problems(Vec<ValidationError>);

impl Problems {
    fn add(&mut self, kind: &str, field: &str, msg: impl Into<String>) {
        self.0.push(violation(kind, vec![loc("body"), loc(field)], msg));
    }

    fn choice(&mut self, field: &str, value: &str, allowed: &[&str]) {
        self.add("enum", field, format!("must be one of {}, got {value:?}", allowed.join(", ")));
    }

    /// The number, or its default; within bounds.
    fn number(&mut self, field: &str, unit: &str, value: Option<f64>, default: f64, low: f64, high: f64) -> f64 {
        let value = value.unwrap_or(default);
        if !(low..=high).contains(&value) {
            self.add("out_of_range", field, format!("must be from {low} to {high}{unit}, got {value}"));
        }
        value
    }
}

/// The plan of a build, with defaults.
///
/// # Errors
///
/// 422 with everything that cannot be, 404 for a file that is not there, 501 for what is not built
/// yet.
pub(crate) fn resolve(app: &App, account: i64, request: &SystemBuildRequest) -> Result<BuildPlan, ApiError> {
    refuse_later(request)?;
    let mut problems = Problems::default();
    let (force_field, water) = force_field(request, &mut problems)?;
    let (positive_ion, negative_ion) = ions(request.ions.as_deref().unwrap_or("NaCl"), &mut problems);
    let box_shape = request.box_shape.as_deref().unwrap_or("cube");
    if !BOX_SHAPES.contains(&box_shape) {
        problems.choice("box_shape", box_shape, &BOX_SHAPES);
    }
    if request.box_name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME) {
        problems.add("string_too_long", "box_name", format!("must be at most {MAX_NAME} characters"));
    }
    if request.seed.is_some_and(|seed| seed > MAX_SEED) {
        problems.add("less_than_equal", "seed", format!("must be at most {MAX_SEED}"));
    }
    let get = |number: Option<molbox::Finite>| number.map(molbox::Finite::get);
    let concentration = problems.number("concentration", " mol/L", get(request.concentration), 0.15, 0.0, 5.0);
    let padding_nm = problems.number("minimum_padding", " nm", get(request.minimum_padding), 1.0, 0.5, 5.0);
    let ph = problems.number("pH", "", get(request.p_h), 7.4, 0.0, 14.0);
    let chains = chains(request, &mut problems);
    let protein = protein(app, account, request, &mut problems)?;
    if !problems.0.is_empty() {
        return Err(ApiError::invalid(problems.0));
    }
    Ok(BuildPlan {
        protein,
        chains,
        keep_hydrogens: request.keep_hs.unwrap_or(false),
        ph,
        force_field,
        water,
        positive_ion,
        negative_ion,
        concentration,
        box_shape: box_shape.to_owned(),
        padding_nm,
        max_atoms: app.config.limits.atoms,
    })
}

fn refuse_later(request: &SystemBuildRequest) -> Result<(), ApiError> {
    let lists = [&request.ligands, &request.ligand_input_formats, &request.ligand_residue_names];
    let has_ligands = lists.iter().any(|list| !list.is_empty())
        || !request.ligand_rotations.is_empty()
        || !request.ligand_translations.is_empty();
    if has_ligands {
        return Err(ApiError::not_built_yet("building with ligands"));
    }
    if request.membrane.is_some() {
        return Err(ApiError::not_built_yet("building a membrane"));
    }
    Ok(())
}

fn force_field(request: &SystemBuildRequest, problems: &mut Problems) -> Result<(Files, Water), ApiError> {
    let name = request.force_field.as_deref().unwrap_or("amber14");
    if LATER_FORCE_FIELDS.contains(&name) {
        return Err(ApiError::not_built_yet(&format!("building with {name}")));
    }
    let known = FORCE_FIELDS.iter().find(|force_field| force_field.name == name);
    if known.is_none() {
        let names: Vec<&str> = FORCE_FIELDS.iter().map(|force_field| force_field.name).collect();
        problems.choice("force_field", name, &names);
    }
    let force_field = known.unwrap_or(&FORCE_FIELDS[0]);
    let wanted = request.water_type.as_deref().unwrap_or(force_field.default_water);
    let fits = |water: &str| force_field.name != "amberfb15" || FB15_WATERS.contains(&water);
    let water = WATERS.iter().find(|(water, ..)| *water == wanted && fits(water));
    if water.is_none() {
        let names: Vec<&str> = WATERS.iter().map(|(water, ..)| *water).filter(|water| fits(water)).collect();
        problems.choice("water_type", wanted, &names);
    }
    let (water, model, sites) = water.unwrap_or(&WATERS[0]);
    let files = force_field.files.iter().map(|&file| file.to_owned()).collect();
    let water = Water {
        name: (*water).to_owned(),
        file: format!("{}{water}.xml", force_field.water_folder),
        model: (*model).to_owned(),
        sites: *sites,
    };
    Ok((Files { name: force_field.name.to_owned(), files }, water))
}

/// `NaCl` to `Na+` and `Cl-`.
fn ions(salt: &str, problems: &mut Problems) -> (String, String) {
    let parts = POSITIVE.iter().find_map(|positive| {
        let negative = NEGATIVE.iter().find(|negative| salt.strip_prefix(positive) == Some(**negative))?;
        Some((format!("{positive}+"), format!("{negative}-")))
    });
    parts.unwrap_or_else(|| {
        let allowed = format!("one of {} followed by one of {}", POSITIVE.join(", "), NEGATIVE.join(", "));
        problems.add("value_error", "ions", format!("must be {allowed}, for example NaCl, got {salt:?}"));
        Default::default()
    })
}

fn chains(request: &SystemBuildRequest, problems: &mut Problems) -> Option<Vec<String>> {
    let text = request.chain_id.as_deref()?;
    let chains: Vec<String> = text.split(',').map(|chain| chain.trim().to_owned()).collect();
    if chains.iter().any(String::is_empty) {
        problems.add("value_error", "chain_id", format!("must be chain identifiers separated by commas, got {text:?}"));
    }
    if request.protein.is_none() {
        problems.add("value_error", "chain_id", "needs a protein whose chains are meant");
    }
    Some(chains)
}

fn protein(
    app: &App,
    account: i64,
    request: &SystemBuildRequest,
    problems: &mut Problems,
) -> Result<Option<Structure>, ApiError> {
    let Some(wanted) = &request.protein else { return Ok(None) };
    let Some(file) = referred(app, account, wanted)? else {
        let msg = format!("no registered file {wanted:?}, neither by id nor by name");
        return Err(ApiError::not_found_in_body("protein", msg));
    };
    if !["pdb", "cif"].contains(&file.format.as_str()) {
        problems.add("value_error", "protein", format!("must be a pdb or cif file, {} is {}", file.name, file.format));
    }
    let name = format!("protein.{}", file.format);
    Ok(Some(Structure { file_id: file.id, file: name, format: file.format, name: file.name }))
}

/// Puts the input files into the job directory.
pub(crate) fn place_inputs(app: &App, row: &TaskRow, input: &Path) -> Result<serde_json::Value> {
    fs::create_dir_all(input)?;
    let plan: BuildPlan = serde_json::from_str(&row.parameters)?;
    if let Some(protein) = &plan.protein {
        app.objects.place(&object_key(&protein.file_id), &input.join(&protein.file))?;
    }
    Ok(serde_json::to_value(plan)?)
}
