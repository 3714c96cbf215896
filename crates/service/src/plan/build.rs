//! System builds: from a request to the worker's plan.
//!
//! What can be told without looking into the structure is checked here, at once and all together;
//! the rest is the worker's.

use std::fs;
use std::path::Path;

use anyhow::Result;
use molbox::Finite;
use molbox::workflow::types::{
    LocItem, Notice, SystemBuildRequest, SystemSettings, ValidationError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::error::{ApiError, NOT_FOUND};
use crate::formats::{Format, SYSTEM};
use crate::http::validate::{joined, loc, unprintable, violation};
use crate::pdb;
use crate::plan::defaults::DEFAULTS;
use crate::plan::force_field::{
    Contents, FORCE_FIELDS, ForceField, GAFF, Matter, NEGATIVE, POSITIVE, named,
};
use crate::plan::solute::is_common_name;
use crate::record::Task;

/// Code of the warning about a system of solvent alone.
const SOLVENT_ALONE: &str = "solvent_alone";

/// What a system holds that nobody asks for on purpose but to look at water.
pub(crate) fn notices(request: &SystemBuildRequest) -> Vec<Notice> {
    let has_anything = request.protein.is_some()
        || !request.ligands.is_empty()
        || request.membrane.is_some()
        || !request.built.is_empty();
    if has_anything {
        return Vec::new();
    }
    let message = "no protein, ligands or membrane were given: the box holds water and ions alone";
    vec![Notice {
        code: SOLVENT_ALONE.to_owned(),
        message: message.to_owned(),
        loc: vec![loc("body"), loc("protein")],
        residues: Vec::new(),
        extra: Default::default(),
    }]
}

/// What the worker is to build. Lengths in nm, concentration in mol/L.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BuildPlan {
    /// Files of a system that another program has built; of the rest nothing counts then.
    #[serde(default)]
    built: Vec<Structure>,
    protein: Option<Structure>,
    #[serde(default)]
    ligands: Vec<Ligand>,
    /// Lipid of the membrane.
    #[serde(default)]
    membrane: Option<String>,
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
        self.files().map(|(id, _)| id.to_owned()).collect()
    }

    /// Identifier of each file that the build reads, and its name under `input/`.
    fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.input_files().map(|input| (input.file_id, input.file))
    }

    /// Each file that the build reads, those of one field in the order of the request.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = InputFile<'_>> {
        let built = self.built.iter().map(|file| file.input("built"));
        let protein = self.protein.iter().map(|file| file.input("protein"));
        let ligands = self.ligands.iter().map(|ligand| InputFile {
            field: "ligands",
            file_id: &ligand.file_id,
            file: &ligand.file,
            name: &ligand.name,
        });
        let custom = self.force_field.custom.iter().map(|file| file.input("force_field"));
        built.chain(protein).chain(ligands).chain(custom)
    }

    /// What was asked for, with what it has come to.
    pub(crate) fn settings(
        &self,
        request: &SystemBuildRequest,
    ) -> serde_json::Result<SystemSettings> {
        let asked: SystemSettings = serde_json::from_value(serde_json::to_value(request)?)?;
        if self.is_built() {
            return Ok(asked);
        }
        let names = self.ligands.iter().map(|ligand| ligand.residue_name.clone());
        let formats = self.ligands.iter().map(|ligand| ligand.format.to_string());
        Ok(SystemSettings {
            box_shape: Some(match self.has_membrane() {
                true => "rectangular".to_owned(),
                false => self.box_shape.clone(),
            }),
            concentration: Finite::new(self.concentration).ok(),
            force_field: Some(self.force_field.name.clone()),
            ions: Some(request.ions.clone().unwrap_or_else(|| DEFAULTS.build.ions.clone())),
            keep_hs: Some(self.keep_hydrogens),
            ligand_input_formats: formats.collect(),
            ligand_residue_names: names.collect(),
            minimum_padding: Finite::new(self.padding_nm).ok(),
            p_h: Finite::new(self.ph).ok(),
            water_type: Some(self.water.name.clone()),
            ..asked
        })
    }

    /// Identifiers of the files of the structure and the ligands, in this order.
    pub(super) fn structures(&self) -> impl Iterator<Item = &str> {
        let protein = self.protein.iter().map(|file| file.file_id.as_str());
        protein.chain(self.ligands.iter().map(|file| file.file_id.as_str()))
    }

    /// Format of the structure, if there is one.
    pub(super) fn protein_format(&self) -> Option<Format> {
        self.protein.as_ref().map(|file| file.format)
    }

    /// Format of each ligand, and how far it is moved, in nm.
    pub(super) fn ligands(&self) -> impl Iterator<Item = (Format, Option<&[f64]>)> {
        self.ligands.iter().map(|ligand| (ligand.format, ligand.translation.as_deref()))
    }

    /// The chains to keep; none for all.
    pub(super) fn chains(&self) -> Option<&[String]> {
        self.chains.as_deref()
    }

    pub(super) fn is_charmm(&self) -> bool {
        self.force_field.family == "charmm"
    }

    /// In mol/L.
    pub(super) fn concentration(&self) -> f64 {
        self.concentration
    }

    /// Sites of a molecule of water; of a registered force field's own, the usual three.
    pub(super) fn water_sites(&self) -> u8 {
        self.water.sites.unwrap_or(3)
    }

    /// The periodic box around molecules of an extent along each axis and of a radius about their
    /// middle, in nm, as the worker's `solvate.py` makes it.
    pub(super) fn box_size(&self, extent: [f64; 3], radius: f64) -> BoxSize {
        if self.box_shape == "rectangular" {
            let [a, b, c] = extent.map(|length| (length + 2.0 * self.padding_nm).max(NARROWEST_NM));
            let faces_nm2 = 2.0 * (a * b + b * c + c * a);
            let vectors_nm = [[a, 0.0, 0.0], [0.0, b, 0.0], [0.0, 0.0, c]];
            return BoxSize { vectors_nm, faces_nm2 };
        }
        // Vectors of length 1, the least width of their box, and the area of its faces.
        let (vectors, narrowest, faces) = match self.box_shape.as_str() {
            "dodecahedron" => {
                let height = 0.5_f64.sqrt();
                let vectors = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, height]];
                (vectors, height, 2.0 + 2.0 * 3.0_f64.sqrt())
            }
            "octahedron" => {
                let (sine, height) = (8.0_f64.sqrt() / 3.0, (2.0_f64 / 3.0).sqrt());
                let third = 1.0 / 3.0;
                let vectors = [[1.0, 0.0, 0.0], [third, sine, 0.0], [-third, sine / 2.0, height]];
                (vectors, height, 6.0 * sine)
            }
            _ => ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 1.0, 6.0),
        };
        let width = (2.0 * (radius + self.padding_nm)).max(NARROWEST_NM / narrowest);
        let vectors_nm = vectors.map(|vector| vector.map(|length| width * length));
        BoxSize { vectors_nm, faces_nm2: faces * width.powi(2) }
    }

    /// Whether another program has built it.
    pub(crate) fn is_built(&self) -> bool {
        !self.built.is_empty()
    }

    /// Whether the box was built with a membrane.
    pub(crate) fn has_membrane(&self) -> bool {
        self.membrane.is_some()
    }

    /// What to cite for the system, which holds so much: of a registered force field, its users
    /// know it.
    pub(crate) fn citations(&self, contents: &Contents) -> Vec<&'static str> {
        if self.is_built() {
            return Vec::new();
        }
        // Of ours and a registered one, ours comes first.
        let ours = self.force_field.name.split(',').next().and_then(named);
        let mut cited = Vec::new();
        if let Some(ours) = ours {
            cited.extend(ours.citations(contents));
            if self.water.file.is_some() {
                cited.extend(ours.citation_of_water(&self.water.name));
                let ions = ours.citation_of_ions(&self.water.name);
                cited.extend(ions.filter(|_| contents.has(Matter::Ion)));
            }
        }
        if !self.ligands.is_empty() {
            cited.extend(GAFF);
        }
        cited
    }
}

/// A file that a build reads, as manifests have it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InputFile<'a> {
    /// The field of the request that names it.
    pub(crate) field: &'static str,
    pub(crate) file_id: &'a str,
    /// Its name under `input/`, in the task's folder as in the bundle.
    pub(crate) file: &'a str,
    /// What its owner calls it.
    pub(crate) name: &'a str,
}

/// What the force field and the water of a system are called that another program has built.
const OF_FILES: &str = "as in its files";

/// A periodic box, as far as the water in it depends on it.
pub(super) struct BoxSize {
    /// Its vectors by rows; what lies above the diagonal is zero.
    pub(super) vectors_nm: [[f64; 3]; 3],
    pub(super) faces_nm2: f64,
}

impl BoxSize {
    pub(super) fn volume_nm3(&self) -> f64 {
        let [a, b, c] = self.vectors_nm;
        a[0] * b[1] * c[2]
    }
}

/// Least width of a box, in nm: twice the cutoff and room to shrink, as the worker's `solvate.py`.
const NARROWEST_NM: f64 = 2.2;

/// A structure file in the task directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Structure {
    /// Identifier of the registered file.
    file_id: String,
    /// Its name under `input/`.
    file: String,
    format: Format,
    /// What its owner calls it.
    name: String,
}

impl Structure {
    fn new(file_id: String, format: Format, name: String) -> Self {
        Self { file_id, file: format!("protein.{format}"), format, name }
    }

    fn input(&self, field: &'static str) -> InputFile<'_> {
        InputFile { field, file_id: &self.file_id, file: &self.file, name: &self.name }
    }
}

/// A ligand's file in the task directory, and its pose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ligand {
    file_id: String,
    file: String,
    format: Format,
    name: String,
    residue_name: String,
    /// Three angles in degrees, a quaternion, or nine elements of a matrix by rows.
    rotation: Option<Vec<f64>>,
    /// In nm.
    translation: Option<Vec<f64>>,
}

/// A force field: OpenMM's files, a registered one, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Files {
    name: String,
    /// `amber`, `charmm`, or `custom` for a registered file alone.
    #[serde(default)]
    family: String,
    files: Vec<String>,
    #[serde(default)]
    custom: Option<Structure>,
}

/// A water model: its parameters, and the model whose geometry `addSolvent` places. A registered
/// force field alone has water of its own, which the worker finds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Water {
    name: String,
    file: Option<String>,
    model: Option<String>,
    sites: Option<u8>,
}

/// Collects what a request asks for that cannot be.
#[derive(Default)]
struct Problems(Vec<ValidationError>);

impl Problems {
    fn add(&mut self, kind: &str, field: &str, msg: impl Into<String>) {
        self.0.push(violation(kind, vec![loc("body"), loc(field)], msg));
    }

    fn add_at(&mut self, kind: &str, field: &str, index: usize, msg: impl Into<String>) {
        self.0.push(violation(
            kind,
            vec![loc("body"), loc(field), LocItem::Int64(index as i64)],
            msg,
        ));
    }

    fn choice(&mut self, field: &str, value: &str, allowed: &[&str]) {
        self.add("enum", field, format!("must be one of {}, got {value:?}", allowed.join(", ")));
    }
}

/// The plan of a build, with defaults. `entry` is the format of a public structure entry that the
/// protein names and that is no file; `outside` are the values that the document does not allow.
///
/// # Errors
///
/// 422 with these and everything else that cannot be, 404 for a file that is not there.
pub(crate) async fn resolve(
    app: &App,
    account: i64,
    request: &SystemBuildRequest,
    entry: Option<Format>,
    outside: Vec<ValidationError>,
) -> Result<BuildPlan, ApiError> {
    let mut problems = Problems::default();
    problems.0.extend(unprintable(request.box_name.as_deref(), "box_name"));
    let built = built(app, account, request, &mut problems).await?;
    let (mut force_field, mut water) = force_field(app, account, request, &mut problems).await?;
    let membrane = membrane(request, &water, &mut problems);
    let has_too_many =
        outside.iter().any(|violation| violation.loc == [loc("body"), loc("ligands")]);
    let ligands = if has_too_many {
        Vec::new()
    } else {
        ligands(app, account, request, &mut problems).await?
    };
    let default = &DEFAULTS.build;
    let salt = request.ions.as_deref().unwrap_or(&default.ions);
    let (positive_ion, negative_ion) = ions(salt, &force_field, &mut problems);
    let chains = chains(request, &mut problems);
    let protein = match (&request.protein, entry) {
        (Some(name), Some(format)) => Some(Structure::new(String::new(), format, name.clone())),
        _ => protein(app, account, request, &mut problems).await?,
    };
    let problems = joined(outside, problems.0);
    if !problems.is_empty() {
        return Err(ApiError::unresolved(problems));
    }
    if !built.is_empty() {
        force_field = Files { name: OF_FILES.to_owned(), ..Files::default() };
        water = Water { name: OF_FILES.to_owned(), ..Water::default() };
    }
    Ok(BuildPlan {
        built,
        protein,
        ligands,
        membrane,
        chains,
        keep_hydrogens: request.keep_hs.unwrap_or(default.keep_hydrogens),
        ph: request.p_h.map_or(default.ph, Finite::get),
        force_field,
        water,
        positive_ion,
        negative_ion,
        concentration: request.concentration.map_or(default.concentration, Finite::get),
        box_shape: request.box_shape.as_ref().unwrap_or(&default.box_shape).clone(),
        padding_nm: request.minimum_padding.map_or(default.minimum_padding, Finite::get),
        max_atoms: app.config.limits.atoms,
    })
}

/// The files of a system that another program has built, beside which nothing is chosen.
async fn built(
    app: &App,
    account: i64,
    request: &SystemBuildRequest,
    problems: &mut Problems,
) -> Result<Vec<Structure>, ApiError> {
    let mut files: Vec<Structure> = Vec::new();
    for (index, wanted) in request.built.iter().enumerate() {
        let Some(file) = app.db.ready_file(account, wanted).await? else {
            problems.add_at(NOT_FOUND, "built", index, no_file(wanted));
            continue;
        };
        let is_structure = matches!(file.format, Format::Pdb | Format::Cif);
        if !is_structure && file.kind != SYSTEM {
            let kind = file.kind.replace('_', " ");
            let msg = format!("must be a file of a built system, {} is a {kind}", file.name);
            problems.add_at("value_error", "built", index, msg);
        }
        if files.iter().any(|other| other.file_id == file.id) {
            let msg = format!("{} is given more than once", file.name);
            problems.add_at("value_error", "built", index, msg);
        }
        files.push(Structure {
            file_id: file.id,
            file: format!("built_{}.{}", index + 1, file.format),
            format: file.format,
            name: file.name,
        });
    }
    if !request.built.is_empty() {
        let fields = chosen(request).into_iter().filter(|(_, is_given)| *is_given);
        for (field, _) in fields {
            let msg = "cannot be given beside built, whose files decide on it";
            problems.add("value_error", field, msg);
        }
    }
    Ok(files)
}

/// What a request can choose of a system, and whether it does.
fn chosen(request: &SystemBuildRequest) -> [(&'static str, bool); 16] {
    [
        ("box_shape", request.box_shape.is_some()),
        ("chain_id", request.chain_id.is_some()),
        ("concentration", request.concentration.is_some()),
        ("force_field", request.force_field.is_some()),
        ("ions", request.ions.is_some()),
        ("keep_Hs", request.keep_hs.is_some()),
        ("ligand_input_formats", !request.ligand_input_formats.is_empty()),
        ("ligand_residue_names", !request.ligand_residue_names.is_empty()),
        ("ligand_rotations", !request.ligand_rotations.is_empty()),
        ("ligand_translations", !request.ligand_translations.is_empty()),
        ("ligands", !request.ligands.is_empty()),
        ("membrane", request.membrane.is_some()),
        ("minimum_padding", request.minimum_padding.is_some()),
        ("pH", request.p_h.is_some()),
        ("protein", request.protein.is_some()),
        ("water_type", request.water_type.is_some()),
    ]
}

/// A force field of ours, a registered file, or one of ours and a file after a comma.
async fn force_field(
    app: &App,
    account: i64,
    request: &SystemBuildRequest,
    problems: &mut Problems,
) -> Result<(Files, Water), ApiError> {
    let text = request.force_field.as_deref().unwrap_or(&DEFAULTS.build.force_field);
    let (ours, file) = match (named(text), text.split_once(',')) {
        (Some(ours), _) => (Some(ours), None),
        (None, Some((name, file))) => (named(name.trim()), Some(file.trim())),
        (None, None) => (None, Some(text)),
    };
    let custom = match file {
        Some(file) => app.db.ready_file(account, file).await?,
        None => None,
    };
    let is_known = ours.is_some() || (!text.contains(',') && custom.is_some());
    if !is_known || (file.is_some() && custom.is_none()) {
        let names: Vec<&str> = FORCE_FIELDS.iter().map(|force_field| force_field.name).collect();
        let msg = format!(
            "must be one of {}, a registered force-field file, or one of these and such a file after a comma, got {text:?}",
            names.join(", ")
        );
        problems.add("enum", "force_field", msg);
    }
    if let Some(file) = custom.as_ref().filter(|file| file.format != Format::Xml) {
        problems.add(
            "value_error",
            "force_field",
            format!("must be an xml file, {} is {}", file.name, file.format),
        );
    } else if let Some(file) = custom.as_ref().filter(|file| file.kind == SYSTEM) {
        let msg =
            format!("must be a force field, {} is a built system: give it as built", file.name);
        problems.add("value_error", "force_field", msg);
    }
    let water = water(ours, custom.is_some(), request, problems);
    let custom_name = custom.as_ref().map(|file| file.name.clone());
    let name = ours
        .map(|ours| ours.name.to_owned())
        .into_iter()
        .chain(custom_name)
        .collect::<Vec<_>>()
        .join(",");
    let files = Files {
        name,
        family: ours.map_or("custom", ForceField::family).to_owned(),
        files: ours.iter().flat_map(|ours| ours.files).map(|&file| file.to_owned()).collect(),
        custom: custom.map(|file| Structure {
            file_id: file.id,
            file: "force_field.xml".to_owned(),
            format: file.format,
            name: file.name,
        }),
    };
    Ok((files, water))
}

/// The water of a force field. A registered file alone has its own, or takes one of amber14's.
fn water(
    ours: Option<&ForceField>,
    has_file: bool,
    request: &SystemBuildRequest,
    problems: &mut Problems,
) -> Water {
    let wanted = request.water_type.as_deref();
    let (force_field, wanted) = match (ours, wanted) {
        (None, None) if has_file => {
            return Water { name: "custom".to_owned(), file: None, model: None, sites: None };
        }
        (ours, wanted) => {
            let force_field = ours.unwrap_or(&FORCE_FIELDS[0]);
            (force_field, wanted.unwrap_or(force_field.default_water))
        }
    };
    let water = force_field.waters.iter().find(|water| water.name == wanted);
    if water.is_none() {
        let names: Vec<&str> = force_field.waters.iter().map(|water| water.name).collect();
        problems.choice("water_type", wanted, &names);
    }
    let water = water.unwrap_or(&force_field.waters[0]);
    Water {
        name: water.name.to_owned(),
        file: Some(format!("{}{}", force_field.water_folder, water.file)),
        model: Some(water.geometry.to_owned()),
        sites: Some(water.sites),
    }
}

fn membrane(
    request: &SystemBuildRequest,
    water: &Water,
    problems: &mut Problems,
) -> Option<String> {
    let lipid = request.membrane.clone()?;
    let name = request.force_field.as_deref().unwrap_or(&DEFAULTS.build.force_field);
    let name = name.split(',').next().unwrap_or_default().trim();
    if let Some(force_field) = named(name).filter(|force_field| !force_field.has_lipids()) {
        problems.add(
            "value_error",
            "membrane",
            format!("{} has no parameters for lipids", force_field.name),
        );
    }
    if water.sites.is_some_and(|sites| sites != 3) {
        let msg = format!(
            "must be a model with three sites beside a membrane, {} has four or five",
            water.name
        );
        problems.add("value_error", "water_type", msg);
    }
    Some(lipid)
}

async fn ligands(
    app: &App,
    account: i64,
    request: &SystemBuildRequest,
    problems: &mut Problems,
) -> Result<Vec<Ligand>, ApiError> {
    let n = request.ligands.len();
    let lists = [
        ("ligand_input_formats", request.ligand_input_formats.len()),
        ("ligand_residue_names", request.ligand_residue_names.len()),
        ("ligand_rotations", request.ligand_rotations.len()),
        ("ligand_translations", request.ligand_translations.len()),
    ];
    for (field, length) in lists.into_iter().filter(|(_, length)| *length != 0 && *length != n) {
        problems.add(
            "value_error",
            field,
            format!("must have one item for each of the {n} ligands, has {length}"),
        );
    }
    let mut ligands = Vec::new();
    for (index, wanted) in request.ligands.iter().enumerate() {
        let Some(file) = app.db.ready_file(account, wanted).await? else {
            problems.add_at(NOT_FOUND, "ligands", index, no_file(wanted));
            continue;
        };
        // One that is no format is refused by the document.
        let asked = request.ligand_input_formats.get(index).and_then(|name| Format::named(name));
        let format = asked.unwrap_or(file.format);
        if request.ligand_input_formats.is_empty() && !format.is_of_ligands() {
            let msg = format!("must be a file of a ligand, {} is {format}", file.name);
            problems.add_at("value_error", "ligands", index, msg);
        }
        let residue_name = request.ligand_residue_names.get(index).cloned();
        let residue_name = residue_name.unwrap_or_else(|| format!("L{:02}", index + 1));
        if !residue_name.chars().all(|c| c.is_ascii_alphanumeric()) {
            let msg = format!("must be letters and digits without accents, got {residue_name:?}");
            problems.add_at("value_error", "ligand_residue_names", index, msg);
        }
        if is_common_name(&residue_name) {
            let msg = format!(
                "{residue_name} is a residue of proteins, nucleic acids or solvent; choose another name"
            );
            problems.add_at("value_error", "ligand_residue_names", index, msg);
        }
        let rotation =
            numbers("ligand_rotations", &request.ligand_rotations, index, &[3, 4, 9], problems);
        if let Some(wrong) = rotation.as_deref().and_then(no_rotation) {
            problems.add_at("value_error", "ligand_rotations", index, wrong);
        }
        ligands.push(Ligand {
            file_id: file.id,
            file: format!("ligand_{}.{format}", index + 1),
            format,
            name: file.name,
            residue_name,
            rotation,
            translation: numbers(
                "ligand_translations",
                &request.ligand_translations,
                index,
                &[3],
                problems,
            ),
        });
    }
    Ok(ligands)
}

/// How far the product of a rotation matrix and its transpose may be from one.
const ORTHOGONALITY: f64 = 1e-3;

/// Why numbers, as many as there may be, are no rotation.
fn no_rotation(numbers: &[f64]) -> Option<&'static str> {
    match numbers {
        [x, y, z, w] if [x, y, z, w].iter().all(|x| **x == 0.0) => {
            Some("a quaternion of zeros is no rotation")
        }
        [a, b, c, d, e, f, g, h, i] => {
            let rows = [[*a, *b, *c], [*d, *e, *f], [*g, *h, *i]];
            let dot = |[a, b, c]: [f64; 3], [d, e, f]: [f64; 3]| a * d + b * e + c * f;
            let is_orthogonal = (0..9).all(|n| {
                let (row, column) = (n / 3, n % 3);
                let wanted = if row == column { 1.0 } else { 0.0 };
                (dot(rows[row], rows[column]) - wanted).abs() <= ORTHOGONALITY
            });
            let [first, second, third] = rows;
            let normal = [
                first[1] * second[2] - first[2] * second[1],
                first[2] * second[0] - first[0] * second[2],
                first[0] * second[1] - first[1] * second[0],
            ];
            (!is_orthogonal || dot(normal, third) < 0.0).then_some(
                "the nine elements are no rotation: rows must be perpendicular, of length one, and not mirror; \
                 or give three angles in degrees",
            )
        }
        _ => None,
    }
}

/// The numbers of one ligand, as many as one of `lengths`; nested rows are taken one after the
/// other, and an empty list is none.
fn numbers(
    field: &str,
    lists: &[Vec<Value>],
    index: usize,
    lengths: &[usize],
    problems: &mut Problems,
) -> Option<Vec<f64>> {
    let flat = lists.get(index)?.iter().flat_map(|item| match item {
        Value::Array(row) => row.iter().collect::<Vec<_>>(),
        other => vec![other],
    });
    let numbers: Option<Vec<f64>> =
        flat.map(|item| item.as_f64().filter(|x| x.is_finite())).collect();
    match numbers {
        Some(numbers) if numbers.is_empty() => None,
        Some(numbers) if lengths.contains(&numbers.len()) => Some(numbers),
        _ => {
            let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
            problems.add_at(
                "value_error",
                field,
                index,
                format!("must be {} numbers", lengths.join(", or ")),
            );
            None
        }
    }
}

/// `NaCl` to `Na+` and `Cl-`. What a registered file has besides, the worker finds.
fn ions(salt: &str, force_field: &Files, problems: &mut Problems) -> (String, String) {
    let parts = POSITIVE.iter().find_map(|positive| {
        let negative =
            NEGATIVE.iter().find(|negative| salt.strip_prefix(positive) == Some(**negative))?;
        Some((positive, negative))
    });
    let Some((positive, negative)) = parts else {
        let allowed =
            format!("one of {} followed by one of {}", POSITIVE.join(", "), NEGATIVE.join(", "));
        problems.add(
            "value_error",
            "ions",
            format!("must be {allowed}, for example NaCl, got {salt:?}"),
        );
        return Default::default();
    };
    if let Some(ours) = named(&force_field.name).filter(|ours| !ours.anions.contains(negative)) {
        let allowed = ours.anions.join(", ");
        let msg = format!(
            "{} has no parameters for {negative}-; of anions it has {allowed}, for example {positive}{}",
            ours.name, ours.anions[0]
        );
        problems.add("value_error", "ions", msg);
    }
    (format!("{positive}+"), format!("{negative}-"))
}

fn chains(request: &SystemBuildRequest, problems: &mut Problems) -> Option<Vec<String>> {
    let text = request.chain_id.as_deref()?;
    let chains: Vec<String> = text.split(',').map(|chain| chain.trim().to_owned()).collect();
    if chains.iter().any(String::is_empty) {
        problems.add(
            "value_error",
            "chain_id",
            format!("must be chain identifiers separated by commas, got {text:?}"),
        );
    }
    if request.protein.is_none() {
        problems.add("value_error", "chain_id", "needs a protein whose chains are meant");
    }
    Some(chains)
}

async fn protein(
    app: &App,
    account: i64,
    request: &SystemBuildRequest,
    problems: &mut Problems,
) -> Result<Option<Structure>, ApiError> {
    let Some(wanted) = &request.protein else { return Ok(None) };
    let Some(file) = app.db.ready_file(account, wanted).await? else {
        // With a mirror it would be there by now.
        if pdb::is_id(wanted) && !app.mirror.is_configured() {
            let msg = format!(
                "no registered file {wanted:?}; it has the form of a public structure entry's code, but this service has \
                 no mirror of these (pdb.mirror): upload the file, and give its name here"
            );
            problems.add("no_mirror", "protein", msg);
        } else {
            problems.add(NOT_FOUND, "protein", no_file(wanted));
        }
        return Ok(None);
    };
    if !matches!(file.format, Format::Pdb | Format::Cif) {
        problems.add(
            "value_error",
            "protein",
            format!("must be a pdb or cif file, {} is {}", file.name, file.format),
        );
    }
    Ok(Some(Structure::new(file.id, file.format, file.name)))
}

/// What to say about a reference that leads nowhere.
pub(crate) fn no_file(wanted: &str) -> String {
    format!("no registered file {wanted:?}, neither by id nor by name")
}

/// The plan of a build, with its files put into the folder of the task.
pub(crate) async fn place_inputs(app: &App, row: &Task, input: &Path) -> Result<BuildPlan> {
    fs::create_dir_all(input)?;
    let plan: BuildPlan = serde_json::from_str(&row.parameters)?;
    for (id, name) in plan.files() {
        app.objects.fetch(&app.content_of(id).await?, &input.join(name))?;
    }
    Ok(plan)
}
