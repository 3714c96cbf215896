//! Simulation jobs: from a request to parameters with defaults, and to the worker's plan.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use molbox::workflow::types::{
    Engines, Ensembles, EquilibrationStep, JobCreateParams, LocItem, Notice, ProductionParams,
    TrajectoryFormats, ValidationError,
};
use molbox::{NonNegative, Positive};
use molbox_analysis::Cell;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::error::{ApiError, stored};
use crate::http::validate::{joined, loc, unprintable, violation};
use crate::objects::Key;
use crate::plan::breath::{Contents, UnitCell};
use crate::plan::build::BuildPlan;
use crate::plan::defaults::{DEFAULTS, RunDefaults};
use crate::plan::topology::Built;
use crate::record::{Kind, Task};
use crate::shown::in_bytes;

/// What a submission becomes: every parameter of a job, none left out. Kept in the form of the
/// wire, in which records show it, and what a plan is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parameters {
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_name: Option<String>,
    /// Empty where a job on a system that is yet to be built is checked.
    #[serde(skip_serializing_if = "String::is_empty")]
    box_id: String,
    equilibration: Vec<Equilibration>,
    /// Of a job from before there was a choice: the only one.
    #[serde(default = "openmm")]
    engine: Engines,
    ewald_error_tolerance: Positive,
    /// Mask of the atoms that production has files of their own of.
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<String>,
    pub(super) friction: NonNegative,
    pub(super) integration_timestep: Positive,
    minimization_steps: u64,
    non_bonded_cutoff: Positive,
    pub(super) pressure: NonNegative,
    /// None runs no production.
    #[serde(skip_serializing_if = "Option::is_none")]
    production: Option<Run>,
    pub(crate) seed: u64,
    surface_tension: NonNegative,
    pub(super) temperature: NonNegative,
    trajectory_output_format: TrajectoryFormats,
}

/// What equilibration stages and production have in common.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    #[serde(rename = "type")]
    pub(super) ensemble: Ensembles,
    /// In ns.
    time: NonNegative,
    /// In steps, as the next; 0 for no frames.
    traj_freq: u64,
    log_freq: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Equilibration {
    #[serde(flatten)]
    run: Run,
    restraint_force: NonNegative,
    #[serde(skip_serializing_if = "Option::is_none")]
    restraint_mask: Option<String>,
}

/// What the worker is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SimulatePlan {
    temperature_k: f64,
    pressure_bar: f64,
    surface_tension_bar_nm: f64,
    /// Whether pressure acts on the plane of a membrane and on its normal apart.
    membrane: bool,
    friction_per_ps: f64,
    timestep_fs: f64,
    ewald_tolerance: f64,
    cutoff_nm: f64,
    minimization_steps: u64,
    /// Mass of hydrogens outside of water; none leaves all masses as they are.
    hydrogen_mass_da: Option<f64>,
    engine: Engines,
    excerpt_atoms: Vec<usize>,
    stages: Vec<Stage>,
}

fn openmm() -> Engines {
    Engines::Openmm
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stage {
    name: String,
    ensemble: Ensembles,
    steps: u64,
    traj_freq: u64,
    log_freq: u64,
    restraint_force: f64,
    restraint_atoms: Vec<usize>,
}

/// Name of the stage of a job's production.
pub(crate) const PRODUCTION: &str = "production";
pub(crate) const MINIMIZATION: &str = "minimization";
/// What is followed by the number of a stage of equilibration, from 1.
const EQUILIBRATION: &str = "equilibration_";

/// Force constant on atoms that are restrained, in kJ/mol/nm², where none is given; the document
/// names both.
const RESTRAINT_FORCE: f64 = 1000.0;
/// The same on the backbone, in the last of the stages of a job that names none.
const BACKBONE_FORCE: f64 = 100.0;
/// Above this time step, in fs, hydrogens are made heavier.
const MAX_PLAIN_TIMESTEP: f64 = 2.5;
const HYDROGEN_MASS_DA: f64 = 3.0;
/// Steps of a stage are counted in 63 bits by OpenMM; nobody runs this many.
const MAX_STEPS: f64 = 1e12;
/// Bytes of a line of a log, about.
const LOG_LINE_BYTES: u64 = 70;
/// What begins a trajectory, and a log, of the worker.
const DCD_HEADER_BYTES: u64 = 276;
const LOG_HEADER_BYTES: u64 = 110;
/// Bytes for each atom of what a stage ends with, and of their copies that are packed for the
/// bundle: of the structure, of the positions that a minimisation leaves, of those with velocities.
const STRUCTURE_BYTES: [u64; 2] = [81, 17];
const POSITIONS_BYTES: [u64; 2] = [83, 31];
const STATE_BYTES: [u64; 2] = [166, 61];
/// Of a checkpoint beside its state.
const CHECKPOINT_BYTES: u64 = 51;
/// What packing leaves of a log is one part of so many.
const LOG_IS_PACKED: u64 = 3;
/// Of the log of the worker, the manifest, the description of the bundle and their copies, about;
/// and of what these say of a stage.
const REST_BYTES: u64 = 32_000;
const STAGE_BYTES: u64 = 6000;
/// Type of a violation: a job would write more than there is room for.
const TOO_MUCH: &str = "results_too_large";

/// As workers name it.
pub(crate) const GROMACS: &str = "gromacs";
/// Steps between frames or lines that GROMACS counts in 31 bits.
const MAX_GROMACS_INTERVAL: u64 = i32::MAX as u64;
/// Bonds of hydrogens that are not constrained oscillate in 9 to 11 fs, and steps up to a third of that
/// are stable: the longest step that is taken then, and the longest without a warning, in fs.
const MAX_TIMESTEP_OF_FREE_HYDROGENS: f64 = 2.0;
pub(super) const USUAL_TIMESTEP_OF_FREE_HYDROGENS: f64 = 1.0;
/// Code of the worker's warning about a brought system whose bonds of hydrogens are not constrained.
const HYDROGENS_FREE: &str = "hydrogens_free";

/// A built system, as far as its jobs depend on it.
pub(crate) struct System<'a> {
    row: &'a Task,
    default_masks: DefaultMasks,
    pub(crate) atoms: u64,
    /// Of its box, reduced, in nm.
    box_vectors: [[f64; 3]; 3],
    contents: Contents,
    /// Whether its bonds of hydrogens are as free as the others.
    pub(super) has_free_hydrogens: bool,
}

impl<'a> System<'a> {
    /// Reads what its build came to.
    pub(crate) fn of(row: &'a Task) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        struct Outcome {
            default_masks: DefaultMasks,
            summary: Summary,
            #[serde(default)]
            warnings: Vec<Notice>,
        }

        #[derive(Deserialize)]
        struct Summary {
            atoms: u64,
            /// Reduced, in nm.
            box_vectors: [[f64; 3]; 3],
            #[serde(flatten)]
            contents: Contents,
        }

        let Outcome { default_masks, summary, warnings } =
            stored(row.outcome.as_deref().unwrap_or("null"))?;
        let Summary { atoms, box_vectors, contents } = summary;
        let has_free_hydrogens = warnings.iter().any(|warning| warning.code == HYDROGENS_FREE);
        Ok(Self { row, default_masks, atoms, box_vectors, contents, has_free_hydrogens })
    }

    /// Its box, which is to be that of a membrane or not.
    fn unit_cell(&self, has_membrane: bool) -> UnitCell {
        UnitCell { vectors_nm: self.box_vectors, contents: self.contents.clone(), has_membrane }
    }

    /// What masks are applied to.
    pub(super) fn built(&self, app: &App) -> Result<Arc<Built>, ApiError> {
        Ok(app.systems.read(&app.objects, &self.row.id)?)
    }

    /// Its box as masks are measured in, in Å.
    pub(crate) fn cell(&self) -> Option<Cell> {
        Cell::from_vectors(self.box_vectors.map(|edge| edge.map(|nm| nm * 10.0)))
    }

    fn has_membrane(&self) -> Result<bool> {
        has_membrane(self.row)
    }
}

/// Lipids beyond which what another program has built is a membrane; fewer are bound to a protein.
const LIPIDS_OF_MEMBRANE: u64 = 16;

/// Whether a system has a membrane: it was built with one, or brought with that many lipids.
fn has_membrane(system: &Task) -> Result<bool> {
    #[derive(Deserialize)]
    struct Outcome {
        summary: Summary,
    }

    #[derive(Deserialize)]
    struct Summary {
        molecules: BTreeMap<String, u64>,
    }

    let plan: BuildPlan = serde_json::from_str(&system.parameters)?;
    if !plan.is_built() {
        return Ok(plan.has_membrane());
    }
    let outcome = system.outcome.as_deref().context("a system without an outcome")?;
    let Outcome { summary } = serde_json::from_str(outcome)?;
    Ok(summary.molecules.get("lipid").is_some_and(|count| *count >= LIPIDS_OF_MEMBRANE))
}

/// The parameters with defaults. `outside` are the values that the document does not allow.
///
/// # Errors
///
/// 422 with these and everything else that cannot be run.
pub(crate) fn resolve(
    app: &App,
    request: &JobCreateParams,
    system: &System<'_>,
    outside: Vec<ValidationError>,
) -> Result<Parameters, ApiError> {
    let parameters = Parameters::new(app, request, &system.row.id, &system.default_masks);
    let mut problems = check(&parameters);
    let has_membrane = system.has_membrane().map_err(ApiError::internal)?;
    problems.extend(check_cutoff(&parameters, &system.unit_cell(has_membrane)));
    problems.extend(check_timestep(&parameters, system.has_free_hydrogens));
    problems.extend(excess(app, &parameters, system)?.map(|excess| excess.of_submission()));
    if parameters.surface_tension.get() > 0.0 && !has_membrane {
        let msg = "must be 0 for a system without a membrane";
        problems.push(violation("value_error", at(&["surface_tension"]), msg));
    }
    check_masks(app, request, system, &mut problems)?;
    check_excerpt(app, &parameters, system, &mut problems)?;
    let problems = joined(outside, problems);
    if problems.is_empty() { Ok(parameters) } else { Err(ApiError::invalid(problems)) }
}

/// Everything that cannot be run of a request whose system is not there, as far as that can be told
/// without one. `outside` are the values that the document does not allow.
pub(crate) fn violations(
    app: &App,
    request: &JobCreateParams,
    outside: Vec<ValidationError>,
) -> Vec<ValidationError> {
    joined(outside, check(&Parameters::unbuilt(app, request)))
}

/// The parameters with defaults of a job on a system that is yet to be built, of which nothing is
/// known but how many atoms it has, if that, and its identifier, if it has one.
///
/// # Errors
///
/// 422 with `outside` and everything else that cannot be run on any system of that size.
pub(crate) fn resolve_unbuilt(
    app: &App,
    request: &JobCreateParams,
    id: Option<&str>,
    atoms: Option<u64>,
    outside: Vec<ValidationError>,
) -> Result<Parameters, ApiError> {
    let mut parameters = Parameters::unbuilt(app, request);
    if let Some(id) = id {
        parameters.box_id = id.to_owned();
    }
    let mut problems = check(&parameters);
    let written = written(&parameters, atoms.unwrap_or(0), 0);
    let excess = excess_of(app, &parameters, &written)?;
    problems.extend(excess.map(|excess| excess.of_submission()));
    let problems = joined(outside, problems);
    if problems.is_empty() { Ok(parameters) } else { Err(ApiError::invalid(problems)) }
}

/// The parameters of a job whose production goes on for `time` ns more.
///
/// # Errors
///
/// 409 for a job without production, 422 for a time that is no step, or more than can be run.
pub(crate) fn extended(
    parameters: &Parameters,
    id: &str,
    time: Positive,
) -> Result<Parameters, ApiError> {
    let mut all = parameters.clone();
    let Some(production) = &mut all.production else {
        let msg = format!("{id} has no production stage that could be extended");
        return Err(ApiError::conflict(vec![loc("path"), loc("job_id")], msg));
    };
    let timestep = parameters.integration_timestep.get();
    let before = production.time.get();
    let after = sum(before, time.get());
    if after * 1e6 / timestep > MAX_STEPS {
        let msg = format!(
            "makes {:.3e} steps in all, at most {MAX_STEPS:e} can be run",
            after * 1e6 / timestep
        );
        return Err(ApiError::invalid(vec![violation("out_of_range", at(&["time"]), msg)]));
    }
    production.time = NonNegative::new(after).map_err(ApiError::internal)?;
    if n_steps(after, timestep) == n_steps(before, timestep) {
        let msg = format!("is less than a time step of {timestep} fs");
        return Err(ApiError::invalid(vec![violation("value_error", at(&["time"]), msg)]));
    }
    Ok(all)
}

/// What a job would write into one file: a trajectory or a log.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// Index of an equilibration stage; none of production.
    stage: Option<usize>,
    /// The field that has the steps between two records.
    field: &'static str,
    /// A record, as people call it.
    record: &'static str,
    steps: u64,
    every: u64,
    /// Of a record.
    bytes: u64,
}

impl Written {
    fn size(&self) -> u128 {
        u128::from(self.steps.checked_div(self.every).unwrap_or(0)) * u128::from(self.bytes)
    }
}

/// All that a job of these parameters would write on a system of so many atoms, with so many in its
/// excerpt.
fn written(parameters: &Parameters, atoms: u64, excerpt_atoms: u64) -> Vec<Written> {
    let production = parameters.production.iter().map(|run| (None, run));
    let equilibration = parameters.equilibration.iter().enumerate();
    let equilibration = equilibration.map(|(index, stage)| (Some(index), &stage.run));
    let mut out = Vec::new();
    if excerpt_atoms > 0
        && let Some(run) = &parameters.production
    {
        out.push(Written {
            stage: None,
            field: "traj_freq",
            record: "frame",
            steps: parameters.n_steps(run),
            every: run.traj_freq,
            bytes: frame_bytes(excerpt_atoms),
        });
    }
    for (stage, run) in production.chain(equilibration) {
        let steps = parameters.n_steps(run);
        if steps as f64 > MAX_STEPS {
            continue;
        }
        let of =
            |field, record, every, bytes| Written { stage, field, record, steps, every, bytes };
        out.push(of("traj_freq", "frame", run.traj_freq, frame_bytes(atoms)));
        out.push(of("log_freq", "line", run.log_freq, LOG_LINE_BYTES));
    }
    out
}

/// What a job comes to.
pub(crate) struct Size {
    pub(crate) steps: u64,
    pub(crate) frames: u64,
    pub(crate) trajectory_bytes: u64,
    pub(crate) result_bytes: u64,
}

/// Bytes of a frame, as the worker's `dcd.py` writes it.
fn frame_bytes(atoms: u64) -> u64 {
    56 + 3 * (4 * atoms + 8)
}

/// Trajectories and logs that would be larger than there is room for.
pub(crate) struct Excess {
    total: u128,
    room: u64,
    largest: Written,
    timestep_fs: f64,
    /// What they would be, and what there is room for.
    text: String,
}

/// What a job of these parameters may come to write on a system, in bytes.
pub(crate) fn result_bytes(
    app: &App,
    parameters: &Parameters,
    system: &System<'_>,
) -> Result<i64, ApiError> {
    let excerpt_atoms = excerpt_atoms(app, parameters, system)?;
    let files = written(parameters, system.atoms, excerpt_atoms);
    let total: u128 = files.iter().map(Written::size).sum();
    Ok(i64::try_from(total).unwrap_or(i64::MAX))
}

/// Atoms that production has files of their own of; 0 also of a mask that selects none.
fn excerpt_atoms(app: &App, parameters: &Parameters, system: &System<'_>) -> Result<u64, ApiError> {
    let Some(mask) = &parameters.excerpt else { return Ok(0) };
    let built = app.systems.read(&app.objects, &system.row.id)?;
    Ok(built.select(mask).map_or(0, |atoms| atoms.len() as u64))
}

/// Whether trajectories and logs of a job would be larger than its results may be, or than the disk
/// has free. When a job is extended or tried again, what it has is copied first, so that all of it
/// counts.
pub(crate) fn excess(
    app: &App,
    parameters: &Parameters,
    system: &System<'_>,
) -> Result<Option<Excess>, ApiError> {
    let excerpt_atoms = excerpt_atoms(app, parameters, system)?;
    excess_of(app, parameters, &written(parameters, system.atoms, excerpt_atoms))
}

/// The same of the files that it would write.
fn excess_of(
    app: &App,
    parameters: &Parameters,
    files: &[Written],
) -> Result<Option<Excess>, ApiError> {
    let timestep_fs = parameters.integration_timestep.get();
    let Some(largest) = files.iter().copied().max_by_key(Written::size) else { return Ok(None) };
    let total = files.iter().map(Written::size).sum();
    let limits = &app.config.limits;
    let free = app.objects.free_bytes()?.saturating_sub(limits.free_disk_bytes);
    let (room, whose) = match limits.result_bytes {
        limit if limit > 0 && limit <= free => {
            (limit, "that the results of a job may have here (limits.result_bytes)")
        }
        _ => (free, "that the service's disk has free"),
    };
    if total <= room.into() {
        return Ok(None);
    }
    let text = format!(
        "trajectories and logs of {} in all, more than the {} {whose}",
        in_bytes(total),
        in_bytes(room.into())
    );
    Ok(Some(Excess { total, room, largest, timestep_fs, text }))
}

impl Excess {
    /// At the field that has the largest share in it.
    fn of_submission(&self) -> ValidationError {
        let Written { stage, field, record, steps, every, bytes } = self.largest;
        let rest = self.total - self.largest.size();
        let left = u128::from(self.room).saturating_sub(rest);
        let fitting =
            (u128::from(steps) * u128::from(bytes)).checked_div(left).map(|every| every + 1);
        let remedy = match fitting.filter(|every| *every <= u128::from(steps)) {
            Some(every) => format!("write one every {every} steps or more, or ask for less time"),
            None => "ask for less time".to_owned(),
        };
        let size = in_bytes(bytes.into());
        let Self { timestep_fs: dt, text, .. } = self;
        let msg = format!(
            "a {record} of {size} every {every} of {steps} steps of {dt} fs makes {text}; {remedy}"
        );
        let at = stage.map_or_else(|| at(&["production", field]), |index| of_stage(index, field));
        violation(TOO_MUCH, at, msg)
    }

    /// At what asks for more of a job whose frequencies are what they are.
    pub(crate) fn at(&self, at: Vec<LocItem>, remedy: &str) -> ApiError {
        ApiError::invalid(vec![violation(TOO_MUCH, at, format!("makes {}; {remedy}", self.text))])
    }
}

/// A sum of times as people add them: 0.1 and 0.2 are 0.3, not 0.30000000000000004. A double holds
/// fifteen digits of any decimal.
fn sum(first: f64, second: f64) -> f64 {
    format!("{:.14e}", first + second).parse().expect("a number of our own")
}

/// Masks that the default stages restrain, chosen when a system has been built.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DefaultMasks {
    /// Heavy atoms of the solute; none in a box of solvent.
    solute: Option<String>,
    /// Its backbone; the same as `solute` when it has none.
    backbone: Option<String>,
}

/// What a mask of heavy atoms ends with.
const HEAVY: &str = "&!@/H";

impl DefaultMasks {
    /// All atoms of the solute; none in a box of solvent.
    fn whole_solute(&self) -> Option<String> {
        let heavy = self.solute.as_deref()?;
        // Without solvent all is solute.
        Some(heavy.strip_suffix(HEAVY).unwrap_or("*").to_owned())
    }

    /// The masks of a system whose solvent consists of residues with these names.
    pub(crate) fn new(system: &Built, solvent: &[String]) -> Self {
        let heavy = if solvent.is_empty() {
            "!@/H".to_owned()
        } else {
            format!("!:{}{HEAVY}", solvent.join(","))
        };
        let solute = Some(heavy).filter(|mask| system.select(mask).is_ok());
        let backbone = solute.as_ref().map(|mask| format!("{mask}&@N,CA,C,O"));
        let backbone =
            backbone.filter(|mask| system.select(mask).is_ok()).or_else(|| solute.clone());
        Self { solute, backbone }
    }
}

/// The word for all atoms of the solute, in place of a mask.
fn is_solute(asked: &str) -> bool {
    asked.trim().eq_ignore_ascii_case("solute")
}

impl Parameters {
    /// The masks that are applied to the system as it was built, each with its place in a request.
    pub(super) fn masks(&self) -> impl Iterator<Item = (Vec<LocItem>, &str)> {
        let restraints = self.equilibration.iter().enumerate().filter_map(|(index, stage)| {
            Some((of_stage(index, "restraint_mask"), stage.restraint_mask.as_deref()?))
        });
        let excerpt = self.excerpt.as_deref().map(|mask| (at(&["excerpt"]), mask));
        restraints.chain(excerpt)
    }

    /// Those of a request on a system that is not there: without masks that were chosen for it.
    fn unbuilt(app: &App, request: &JobCreateParams) -> Self {
        let box_id = request.box_id.as_ref().map_or("", |id| id.as_str());
        Self::new(app, request, box_id, &DefaultMasks::default())
    }

    /// Those of a request, with every default.
    fn new(app: &App, request: &JobCreateParams, box_id: &str, masks: &DefaultMasks) -> Self {
        let default = &DEFAULTS.job;
        let integration_timestep =
            request.integration_timestep.unwrap_or(default.integration_timestep);
        let timestep = integration_timestep.get();
        Self {
            batch_index: request.batch_index,
            batch_name: request.batch_name.clone(),
            box_id: box_id.to_owned(),
            equilibration: match &request.equilibration {
                Some(stages) => {
                    stages.iter().map(|stage| Equilibration::new(stage, timestep)).collect()
                }
                None => default_stages(masks, timestep),
            },
            engine: request.engine.unwrap_or(app.config.worker.engine),
            ewald_error_tolerance: request
                .ewald_error_tolerance
                .unwrap_or(default.ewald_error_tolerance),
            excerpt: request.excerpt.as_ref().map(|asked| match is_solute(asked) {
                true => masks.whole_solute().unwrap_or_else(|| asked.clone()),
                false => asked.clone(),
            }),
            friction: request.friction.unwrap_or(default.friction),
            integration_timestep,
            minimization_steps: request.minimization_steps.unwrap_or(default.minimization_steps),
            non_bonded_cutoff: request.non_bonded_cutoff.unwrap_or(default.non_bonded_cutoff),
            pressure: request.pressure.unwrap_or(default.pressure),
            production: request
                .production
                .as_ref()
                .map(|production| Run::of_production(production, timestep)),
            seed: request.seed.unwrap_or_else(|| app.new_seed().unsigned_abs()),
            surface_tension: request.surface_tension.unwrap_or(default.surface_tension),
            temperature: request.temperature.unwrap_or(default.temperature),
            trajectory_output_format: request
                .trajectory_output_format
                .unwrap_or(default.trajectory_output_format),
        }
    }

    /// What a job of these comes to on a built system, its excerpt with it.
    pub(crate) fn size_on(&self, app: &App, system: &System<'_>) -> Result<Size, ApiError> {
        let mut size = self.size(system.atoms);
        let excerpt_atoms = excerpt_atoms(app, self, system)?;
        if let Some(run) = self.production.as_ref().filter(|_| excerpt_atoms > 0)
            && let Some(frames) = self.n_steps(run).checked_div(run.traj_freq)
        {
            let bytes = DCD_HEADER_BYTES + frames * frame_bytes(excerpt_atoms);
            size.trajectory_bytes += bytes;
            size.result_bytes += bytes + excerpt_atoms * STRUCTURE_BYTES.iter().sum::<u64>();
        }
        Ok(size)
    }

    /// What a job of these comes to on a system of so many atoms: its trajectories exactly, and
    /// nearly what the account holds of it, with all that an extension would go on from.
    pub(crate) fn size(&self, atoms: u64) -> Size {
        let [structure, positions, state] = [STRUCTURE_BYTES, POSITIONS_BYTES, STATE_BYTES];
        let both = |[bytes, packed]: [u64; 2]| bytes + packed;
        let mut size = Size { steps: 0, frames: 0, trajectory_bytes: 0, result_bytes: REST_BYTES };
        let mut of_atom = both(structure) + both(positions);
        // What the last stage begins with, and what it leaves.
        let (mut start, mut end) = (positions[0], positions[0]);
        for run in self.runs() {
            (start, end) = (end, state[0]);
            let steps = self.n_steps(run);
            size.steps += steps;
            if let Some(frames) = steps.checked_div(run.traj_freq) {
                size.frames += frames;
                size.trajectory_bytes += DCD_HEADER_BYTES + frames * frame_bytes(atoms);
            }
            let log = LOG_HEADER_BYTES + self.log_bytes(run, atoms);
            size.result_bytes += log + log / LOG_IS_PACKED + STAGE_BYTES;
            of_atom += both(structure) + both(state);
        }
        of_atom += match self.production {
            Some(_) => start + CHECKPOINT_BYTES + state[0],
            None => end,
        };
        size.result_bytes += size.trajectory_bytes + atoms * of_atom;
        size
    }

    /// Lines of the log of a stage: their digits, counted.
    fn log_bytes(&self, run: &Run, atoms: u64) -> u64 {
        let Some(lines) = self.n_steps(run).checked_div(run.log_freq) else { return 0 };
        // Lines whose step has so many digits before the point at least.
        let longer_than = |first: f64| {
            let shorter = (first / run.log_freq as f64).ceil() - 1.0;
            lines.saturating_sub(shorter.max(0.0) as u64)
        };
        let steps_per_ps = 1e3 / self.timestep_fs();
        let digits: u64 = (1..=12)
            .map(|digit| 10_f64.powi(digit))
            .map(|first| longer_than(first) + longer_than(first * steps_per_ps))
            .sum();
        // Also of what no double holds, a product of two that are.
        let width =
            |number: f64| if number < 10.0 { 1 } else { number.min(f64::MAX).log10() as u64 + 1 };
        // In kJ/mol, of water; in K; in nm³.
        let potential = width(14.0 * atoms as f64) + 6;
        let kinetic = width(0.0083 * self.temperature.get() * atoms as f64) + 5;
        let temperature = width(self.temperature.get()) + 4;
        let volume = width(atoms as f64 / 95.0) + 6;
        let (density, commas_and_end) = (7, 7);
        // A step of one digit, a time of one digit and four decimals.
        let fixed = 1 + 6 + potential + kinetic + temperature + volume + density + commas_and_end;
        digits + lines * fixed
    }

    /// Time step, in fs.
    pub(crate) fn timestep_fs(&self) -> f64 {
        self.integration_timestep.get()
    }

    /// Steps of the minimisation, at most.
    pub(crate) fn minimization_steps(&self) -> u64 {
        self.minimization_steps
    }

    /// Cutoff of what is not bonded, in nm.
    pub(crate) fn cutoff_nm(&self) -> f64 {
        self.non_bonded_cutoff.get()
    }

    /// Steps of the stages before one, the minimisation not among them.
    pub(crate) fn steps_before(&self, stage: usize) -> u64 {
        self.runs().take(stage).map(|run| self.n_steps(run)).sum()
    }

    /// Its stages in their order, production last.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.equilibration.iter().map(|stage| &stage.run).chain(&self.production)
    }

    /// The times in ns, with their places, of stages that have no step for all that they are asked for.
    pub(super) fn without_steps(&self) -> Vec<(Vec<LocItem>, f64)> {
        let stages = self.equilibration.iter().enumerate();
        let stages = stages.map(|(index, stage)| (of_stage(index, "time"), &stage.run));
        let production = self.production.iter().map(|run| (at(&["production", "time"]), run));
        stages
            .chain(production)
            .filter(|(_, run)| run.time.get() > 0.0 && self.n_steps(run) == 0)
            .map(|(at, run)| (at, run.time.get()))
            .collect()
    }

    /// Steps of a stage.
    fn n_steps(&self, run: &Run) -> u64 {
        n_steps(run.time.get(), self.integration_timestep.get())
    }
}

impl Run {
    fn of_production(request: &ProductionParams, timestep_fs: f64) -> Self {
        let default = &DEFAULTS.production;
        let time = request.time.unwrap_or(default.time);
        Self {
            ensemble: request.type_.unwrap_or(default.ensemble),
            time,
            traj_freq: request
                .traj_freq
                .unwrap_or_else(|| frequency(default.traj_freq, time, timestep_fs)),
            log_freq: request
                .log_freq
                .unwrap_or_else(|| frequency(default.log_freq, time, timestep_fs)),
        }
    }
}

/// A default frequency; in a shorter stage it is met once, at its end, and in one without steps
/// never.
fn frequency(default: u64, time: NonNegative, timestep_fs: f64) -> u64 {
    default.min(n_steps(time.get(), timestep_fs))
}

/// Steps of a stage of some ns, to the nearest: none of less than half a step.
fn n_steps(time: f64, timestep_fs: f64) -> u64 {
    (time * 1e6 / timestep_fs).round() as u64
}

impl Equilibration {
    fn new(request: &EquilibrationStep, timestep_fs: f64) -> Self {
        let default: &RunDefaults = &DEFAULTS.equilibration;
        let time = request.time.unwrap_or(default.time);
        let run = Run {
            ensemble: request.type_.unwrap_or(default.ensemble),
            time,
            traj_freq: request.traj_freq.unwrap_or(default.traj_freq),
            log_freq: request
                .log_freq
                .unwrap_or_else(|| frequency(default.log_freq, time, timestep_fs)),
        };
        let restraint_mask = request.restraint_mask.clone();
        let usual_force = if restraint_mask.is_some() { RESTRAINT_FORCE } else { 0.0 };
        Self {
            run,
            restraint_force: request.restraint_force.unwrap_or(force(usual_force)),
            restraint_mask,
        }
    }
}

/// A force constant of ours.
fn force(value: f64) -> NonNegative {
    NonNegative::new(value).expect("not below zero")
}

/// The stages of a job that names none: the solute is held, then its box relaxes, then all but
/// its backbone.
fn default_stages(masks: &DefaultMasks, timestep_fs: f64) -> Vec<Equilibration> {
    [
        (Ensembles::Nvt, &masks.solute, RESTRAINT_FORCE),
        (Ensembles::Npt, &masks.solute, RESTRAINT_FORCE),
        (Ensembles::Npt, &masks.backbone, BACKBONE_FORCE),
    ]
    .into_iter()
    .map(|(ensemble, mask, constant)| {
        let stage = EquilibrationStep {
            type_: Some(ensemble),
            restraint_mask: mask.clone(),
            restraint_force: mask.as_ref().map(|_| force(constant)),
            ..EquilibrationStep::default()
        };
        Equilibration::new(&stage, timestep_fs)
    })
    .collect()
}

fn at(path: &[&str]) -> Vec<LocItem> {
    std::iter::once("body").chain(path.iter().copied()).map(loc).collect()
}

fn of_stage(index: usize, field: &str) -> Vec<LocItem> {
    vec![loc("body"), loc("equilibration"), LocItem::Int64(index as i64), loc(field)]
}

/// Everything that these parameters ask for that cannot be run on any system.
fn check(parameters: &Parameters) -> Vec<ValidationError> {
    let mut out = Vec::from_iter(unprintable(parameters.batch_name.as_deref(), "batch_name"));
    for (index, stage) in parameters.equilibration.iter().enumerate() {
        out.extend(check_steps(parameters, &stage.run, |field| of_stage(index, field)));
    }
    if let Some(production) = &parameters.production {
        out.extend(check_steps(parameters, production, |field| at(&["production", field])));
    }
    for (index, stage) in parameters.equilibration.iter().enumerate() {
        if stage.restraint_mask.is_none() && stage.restraint_force.get() > 0.0 {
            let msg = "is missing, so that restraint_force holds nothing; name the atoms";
            out.push(violation("value_error", of_stage(index, "restraint_mask"), msg));
        }
    }
    out.extend(check_engine(parameters));
    out
}

/// Whether a stage has too many steps, or too few for a frame; `loc` is the place of a field of it.
fn check_steps(
    parameters: &Parameters,
    run: &Run,
    loc: impl Fn(&str) -> Vec<LocItem>,
) -> Option<ValidationError> {
    let steps = run.time.get() * 1e6 / parameters.integration_timestep.get();
    let traj_freq = run.traj_freq;
    if steps > MAX_STEPS {
        let msg = format!("is {steps:.3e} steps, at most {MAX_STEPS:e} can be run");
        return Some(violation("out_of_range", loc("time"), msg));
    }
    (traj_freq as f64 > steps.round()).then(|| {
        let msg = format!(
            "is {traj_freq} steps, more than the {steps:.0} of the stage: no frame would be written; 0 asks for none"
        );
        violation("value_error", loc("traj_freq"), msg)
    })
}

/// What GROMACS cannot run of any system, where it is asked for; the worker's `mdp.py` knows the same.
fn check_engine(parameters: &Parameters) -> Vec<ValidationError> {
    if parameters.engine != Engines::Gromacs {
        return Vec::new();
    }
    let mut out = Vec::new();
    if parameters.friction.get() == 0.0 {
        if parameters.runs().any(|run| run.ensemble == Ensembles::Npt) {
            let msg = "must be above 0 for NPT stages with the engine gromacs, whose barostat needs a \
                       thermostat; give a friction, stages of NVT alone, or the engine openmm";
            out.push(violation("value_error", at(&["friction"]), msg));
        }
        if parameters.temperature.get() == 0.0 {
            let msg = "must be above 0 without friction with the engine gromacs, whose lists of \
                       neighbours are made for a temperature; give one, or the engine openmm";
            out.push(violation("value_error", at(&["temperature"]), msg));
        }
    }
    let equilibration = parameters.equilibration.iter().enumerate();
    let equilibration = equilibration.map(|(index, stage)| (Some(index), &stage.run));
    let stages = equilibration.chain(parameters.production.iter().map(|run| (None, run)));
    for (index, run) in stages {
        for (field, every) in [("traj_freq", run.traj_freq), ("log_freq", run.log_freq)] {
            // What is not due within the stage is not written.
            if every > MAX_GROMACS_INTERVAL && every <= parameters.n_steps(run) {
                let msg = format!(
                    "must be at most {MAX_GROMACS_INTERVAL} with the engine gromacs, got {every}"
                );
                let at = index
                    .map_or_else(|| at(&["production", field]), |index| of_stage(index, field));
                out.push(violation("less_than_equal", at, msg));
            }
        }
    }
    out
}

/// Bonds of hydrogens that are not constrained, as those of our own builds are, bound the time step.
fn check_timestep(parameters: &Parameters, has_free_hydrogens: bool) -> Option<ValidationError> {
    let timestep = parameters.timestep_fs();
    (has_free_hydrogens && timestep > MAX_TIMESTEP_OF_FREE_HYDROGENS).then(|| {
        let msg = format!(
            "must be at most {MAX_TIMESTEP_OF_FREE_HYDROGENS} fs, better {USUAL_TIMESTEP_OF_FREE_HYDROGENS} fs, on a \
             system whose bonds of hydrogens are not constrained, got {timestep}; or bring the system with \
             constraints on them"
        );
        violation("less_than_equal", at(&["integration_timestep"]), msg)
    })
}

/// A cutoff reaches no further than to the nearest image, also of a box that has become smaller.
fn check_cutoff(parameters: &Parameters, cell: &UnitCell) -> Option<ValidationError> {
    let cutoff = parameters.non_bonded_cutoff.get();
    let half = cell.shortest_width() / 2.0;
    if cutoff > half {
        let msg = format!(
            "must be at most half of the shortest width of the box, {half:.3} nm, got {cutoff}"
        );
        return Some(violation("less_than_equal", at(&["non_bonded_cutoff"]), msg));
    }
    let has_barostat = |run: &Run| run.ensemble == Ensembles::Npt && parameters.n_steps(run) > 0;
    if !parameters.runs().any(has_barostat) {
        return None;
    }
    let (pressure, temperature) = (parameters.pressure.get(), parameters.temperature.get());
    let settled = cell.settled_width(pressure);
    let least = cell.least_width(pressure, temperature);
    (cutoff > least / 2.0).then(|| {
        let width = cell.shortest_width();
        let most = (least / 2.0 * 1000.0).floor() / 1000.0;
        let msg = format!(
            "must be at most {most} nm in NPT stages, got {cutoff}: the box is {width:.3} nm wide, settles at about \
             {settled:.3} nm at {pressure} bar and fluctuates down to {least:.3} nm, and twice the cutoff has to fit; \
             lower it, build the system with a larger minimum_padding, or ask for NVT stages alone"
        );
        violation("less_than_equal", at(&["non_bonded_cutoff"]), msg)
    })
}

/// The masks that a request gives must be masks and select something. The default ones do.
fn check_masks(
    app: &App,
    request: &JobCreateParams,
    system: &System<'_>,
    problems: &mut Vec<ValidationError>,
) -> Result<(), ApiError> {
    let stages = request.equilibration.iter().flatten().enumerate();
    let masks: Vec<_> =
        stages.filter_map(|(index, stage)| Some((index, stage.restraint_mask.as_ref()?))).collect();
    if masks.is_empty() {
        return Ok(());
    }
    let built = app.systems.read(&app.objects, &system.row.id)?;
    for (index, mask) in masks {
        if let Err(message) = built.check(mask) {
            problems.push(violation("mask", of_stage(index, "restraint_mask"), message));
        }
    }
    Ok(())
}

/// What an excerpt is made of must be there: atoms, and frames of production.
fn check_excerpt(
    app: &App,
    parameters: &Parameters,
    system: &System<'_>,
    problems: &mut Vec<ValidationError>,
) -> Result<(), ApiError> {
    let Some(mask) = &parameters.excerpt else { return Ok(()) };
    let at = || at(&["excerpt"]);
    if is_solute(mask) {
        let msg = "the system has nothing but water, ions and lipids; give a mask, or leave it out";
        problems.push(violation("mask", at(), msg));
    } else if let Err(message) = app.systems.read(&app.objects, &system.row.id)?.check(mask) {
        problems.push(violation("mask", at(), message));
    }
    if parameters.production.as_ref().is_none_or(|run| run.traj_freq == 0) {
        let msg = "needs frames of production to be made of; ask for production with a traj_freq above 0, or leave it out";
        problems.push(violation("value_error", at(), msg));
    }
    Ok(())
}

/// The plan of a simulation, with its files put into the folder of the task.
pub(crate) async fn place_inputs(app: &App, row: &Task, input: &Path) -> Result<SimulatePlan> {
    fs::create_dir_all(input)?;
    let system = row.parent.as_deref().context("a job has a system")?;
    for name in ["system.xml", "state.xml", "topology.json"] {
        app.objects.fetch(&Key::task(system).under(name), &input.join(name))?;
    }
    let parameters: Parameters = serde_json::from_str(&row.parameters)?;
    let built = app.systems.read(&app.objects, system)?;
    let system =
        app.db.task(row.account, Kind::System, system).await?.context("a job has a system")?;
    let membrane = has_membrane(&system)?;
    plan(&parameters, &built, membrane)
}

/// Names of the stages of a job in their order, without its minimisation.
pub(crate) fn stage_names(parameters: &Parameters) -> Vec<String> {
    let equilibration = (0..parameters.equilibration.len()).map(equilibration_name);
    equilibration.chain(parameters.production.iter().map(|_| PRODUCTION.to_owned())).collect()
}

/// Whether a stage of a job can have this name, its minimisation among them.
pub(crate) fn is_stage_name(name: &str) -> bool {
    let of_equilibration = || {
        let number = name.strip_prefix(EQUILIBRATION)?.parse::<usize>().ok()?;
        Some(equilibration_name(number.checked_sub(1)?) == name)
    };
    [MINIMIZATION, PRODUCTION].contains(&name) || of_equilibration().unwrap_or(false)
}

fn equilibration_name(index: usize) -> String {
    format!("{EQUILIBRATION}{}", index + 1)
}

fn plan(parameters: &Parameters, system: &Built, membrane: bool) -> Result<SimulatePlan> {
    let timestep_fs = parameters.integration_timestep.get();
    let stage = |name: String, run: &Run| Stage {
        name,
        ensemble: run.ensemble,
        steps: parameters.n_steps(run),
        traj_freq: run.traj_freq,
        log_freq: run.log_freq,
        restraint_force: 0.0,
        restraint_atoms: Vec::new(),
    };
    let mut stages = Vec::new();
    for (index, equilibration) in parameters.equilibration.iter().enumerate() {
        let restraint_atoms = match &equilibration.restraint_mask {
            Some(mask) => system.select(mask).map_err(anyhow::Error::msg)?,
            None => Vec::new(),
        };
        stages.push(Stage {
            restraint_force: equilibration.restraint_force.get(),
            restraint_atoms,
            ..stage(equilibration_name(index), &equilibration.run)
        });
    }
    stages.extend(
        parameters.production.iter().map(|production| stage(PRODUCTION.to_owned(), production)),
    );
    Ok(SimulatePlan {
        temperature_k: parameters.temperature.get(),
        pressure_bar: parameters.pressure.get(),
        surface_tension_bar_nm: parameters.surface_tension.get(),
        membrane,
        friction_per_ps: parameters.friction.get(),
        timestep_fs,
        ewald_tolerance: parameters.ewald_error_tolerance.get(),
        cutoff_nm: parameters.non_bonded_cutoff.get(),
        minimization_steps: parameters.minimization_steps,
        hydrogen_mass_da: (timestep_fs > MAX_PLAIN_TIMESTEP).then_some(HYDROGEN_MASS_DA),
        engine: parameters.engine,
        excerpt_atoms: match &parameters.excerpt {
            Some(mask) => system.select(mask).map_err(anyhow::Error::msg)?,
            None => Vec::new(),
        },
        stages,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// As a job is stored that gives nothing but a cutoff and a production.
    fn stored() -> Value {
        json!({
            "box_id": "box_1", "engine": "auto", "equilibration": [], "ewald_error_tolerance": 0.0005, "friction": 1,
            "integration_timestep": 2, "minimization_steps": 10, "non_bonded_cutoff": 5, "pressure": 1,
            "production": { "type": "NPT", "time": 1, "traj_freq": 0, "log_freq": 0 }, "seed": 1,
            "surface_tension": 0, "temperature": 300, "trajectory_output_format": "dcd"
        })
    }

    fn parameters() -> Parameters {
        serde_json::from_value(stored()).unwrap()
    }

    fn system(box_vectors: &Value) -> Task {
        let outcome =
            json!({ "default_masks": {}, "summary": { "atoms": 1, "box_vectors": box_vectors } });
        Task { outcome: Some(outcome.to_string()), ..Task::example() }
    }

    #[test]
    fn an_extension_leaves_what_was_done_before_production() {
        let mut stored = stored();
        let stage = |time: f64| json!({"type": "NVT", "time": time, "traj_freq": 0, "log_freq": 0, "restraint_force": 0});
        stored["equilibration"] = json!([stage(0.1), stage(0.2)]);
        let before: Parameters = serde_json::from_value(stored).unwrap();
        let after = extended(&before, "job_1", Positive::new(0.5).unwrap()).unwrap();
        let steps =
            [0, 1, 2, 3].map(|stage| (before.steps_before(stage), after.steps_before(stage)));
        assert_eq!(steps, [(0, 0), (50_000, 50_000), (150_000, 150_000), (650_000, 900_000)]);
    }

    /// Of stored parameters with other values.
    fn changed(changes: Value) -> Parameters {
        let mut stored = stored();
        stored.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(stored).unwrap()
    }

    fn production(ensemble: &str, time: f64) -> Value {
        json!({ "type": ensemble, "time": time, "traj_freq": 0, "log_freq": 0 })
    }

    #[test]
    fn a_cutoff_fits_half_of_the_shortest_width_and_no_box_without_widths() {
        let parameters = changed(json!({ "production": production("NVT", 1.0) }));
        let check = |vectors: Value| {
            let row = system(&vectors);
            Some(check_cutoff(&parameters, &System::of(&row).ok()?.unit_cell(false)))
        };
        let wide = check(json!([[12.0, 0.0, 0.0], [0.0, 11.0, 0.0], [4.0, 4.0, 10.0]]));
        assert_eq!(wide.unwrap(), None);
        let narrow = check(json!([[12.0, 0.0, 0.0], [0.0, 11.0, 0.0], [4.0, 4.0, 9.9]]));
        assert_eq!(narrow.unwrap().unwrap().type_, "less_than_equal");
        for vectors in [json!(null), json!([]), json!([[12.0, 0.0, 0.0], [0.0, 11.0, 0.0]])] {
            assert!(check(vectors.clone()).is_none(), "{vectors}");
        }
    }

    #[test]
    fn a_cutoff_fits_also_the_box_that_a_barostat_makes_of_a_system() {
        // As it was built: alanine dipeptide in a cube of 2.1 nm.
        let outcome = json!({ "default_masks": {}, "summary": {
            "atoms": 819, "box_vectors": [[2.1, 0.0, 0.0], [0.0, 2.1, 0.0], [0.0, 0.0, 2.1]], "density": 0.892341,
            "molecules": { "protein": 1, "water": 265, "NA": 1, "CL": 1 }
        } });
        let row = Task { outcome: Some(outcome.to_string()), ..Task::example() };
        let cell = System::of(&row).unwrap().unit_cell(false);
        let check = |cutoff: f64, ensemble: &str, time: f64| {
            let production = production(ensemble, time);
            let changes = json!({ "non_bonded_cutoff": cutoff, "production": production });
            check_cutoff(&changed(changes), &cell).map(|violation| violation.msg)
        };
        assert_eq!(check(0.98, "NPT", 1.0), None);
        assert_eq!(check(1.0, "NVT", 1.0), None);
        assert_eq!(check(1.0, "NPT", 0.0), None, "no step is taken");
        let message = check(1.0, "NPT", 1.0).unwrap();
        for words in ["at most 0.98", "2.100 nm wide", "minimum_padding", "NVT"] {
            assert!(message.contains(words), "{message}");
        }
        // Half of what it is as built is no cutoff in any ensemble.
        assert!(check(1.06, "NVT", 1.0).unwrap().contains("half of the shortest width"));
    }

    #[test]
    fn free_hydrogens_bound_the_time_step() {
        let outcome = json!({
            "default_masks": {}, "warnings": [{ "code": HYDROGENS_FREE, "message": "12 bonds" }],
            "summary": { "atoms": 1, "box_vectors": [[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]] }
        });
        let row = Task { outcome: Some(outcome.to_string()), ..Task::example() };
        let is_free = System::of(&row).unwrap().has_free_hydrogens;
        let check = |timestep: f64, is_free| {
            check_timestep(&changed(json!({ "integration_timestep": timestep })), is_free)
        };
        assert!(is_free && check(2.0, is_free).is_none());
        let violation = check(2.5, is_free).unwrap();
        assert_eq!(violation.loc, at(&["integration_timestep"]));
        assert!(violation.msg.contains("constraints"), "{}", violation.msg);
        assert!(check(5.0, false).is_none());
    }

    #[test]
    fn what_gromacs_cannot_run_of_any_system_is_refused_where_it_is_asked_for() {
        let fields = |changes: Value| -> Vec<String> {
            let fields = check(&changed(changes)).into_iter().map(|violation| {
                serde_json::to_value(violation.loc.last()).unwrap().as_str().unwrap().to_owned()
            });
            fields.collect()
        };
        let no_friction = |engine: &str, ensemble: &str| {
            let production = production(ensemble, 1.0);
            json!({ "engine": engine, "friction": 0, "production": production })
        };
        assert_eq!(fields(no_friction("gromacs", "NPT")), ["friction"]);
        for engine in ["auto", "openmm"] {
            assert!(fields(no_friction(engine, "NPT")).is_empty(), "{engine}");
        }
        assert!(fields(no_friction("gromacs", "NVT")).is_empty());
        let mut cold = no_friction("gromacs", "NVT");
        cold["temperature"] = json!(0);
        assert_eq!(fields(cold), ["temperature"]);
        let rare =
            json!({ "type": "NVT", "time": 1e5, "traj_freq": 0, "log_freq": 3_000_000_000_u64 });
        for (engine, expected) in [("gromacs", &["log_freq"][..]), ("auto", &[])] {
            assert_eq!(fields(json!({ "engine": engine, "production": rare })), expected);
        }
    }

    #[test]
    fn stored_parameters_of_which_one_is_missing_are_refused_by_its_name() {
        // Without an engine they are of a version that had one.
        let may_lack = ["production", "engine"];
        for name in stored().as_object().unwrap().keys() {
            if may_lack.contains(&name.as_str()) {
                continue;
            }
            let mut stored = stored();
            stored.as_object_mut().unwrap().remove(name);
            let refusal = serde_json::from_value::<Parameters>(stored).unwrap_err();
            assert!(refusal.to_string().contains(name.as_str()), "{name}: {refusal}");
        }
    }

    #[test]
    fn parameters_are_stored_in_the_form_of_the_document() {
        let stored = serde_json::to_value(parameters()).unwrap();
        assert_eq!(serde_json::from_value::<Parameters>(stored.clone()).unwrap(), parameters());
        let wire: JobCreateParams = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(serde_json::to_value(wire).unwrap(), stored);
    }
}
