//! Simulation jobs: from a request to parameters with defaults, and to the worker's plan.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use molbox::workflow::types::{
    Ensembles, EquilibrationStep, JobCreateParams, LocItem, ProductionParams, TrajectoryFormats, ValidationError,
};
use molbox::{NonNegative, Positive};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::db::TaskRow;
use crate::error::ApiError;
use crate::shown::in_bytes;
use crate::tasks::build::BuildPlan;
use crate::tasks::topology::Built;
use crate::validate::{joined, loc, unprintable, violation};

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
    stages: Vec<Stage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stage {
    name: String,
    ensemble: String,
    steps: u64,
    traj_freq: u64,
    log_freq: u64,
    restraint_force: f64,
    restraint_atoms: Vec<usize>,
}

/// Defaults of a job; the document names them, and a test compares.
pub(crate) mod default {
    pub(crate) const TEMPERATURE: f64 = 300.0;
    pub(crate) const PRESSURE: f64 = 1.0;
    pub(crate) const SURFACE_TENSION: f64 = 0.0;
    pub(crate) const FRICTION: f64 = 1.0;
    pub(crate) const TIMESTEP: f64 = 2.0;
    pub(crate) const EWALD_TOLERANCE: f64 = 5e-4;
    pub(crate) const CUTOFF: f64 = 1.0;
    pub(crate) const MINIMIZATION_STEPS: u64 = 10_000;
    pub(crate) const STAGE_TIME: f64 = 0.1;
    pub(crate) const STAGE_TRAJ_FREQ: u64 = 0;
    pub(crate) const STAGE_LOG_FREQ: u64 = 1000;
    pub(crate) const RESTRAINT_FORCE: f64 = 1000.0;
    pub(crate) const BACKBONE_FORCE: f64 = 100.0;
    pub(crate) const PRODUCTION_TIME: f64 = 1.0;
    pub(crate) const PRODUCTION_FREQ: u64 = 2500;
}

/// Above this time step, in fs, hydrogens are made heavier.
const MAX_PLAIN_TIMESTEP: f64 = 2.5;
const HYDROGEN_MASS_DA: f64 = 3.0;
/// Steps of a stage are counted in 63 bits by OpenMM; nobody runs this many.
const MAX_STEPS: f64 = 1e12;
/// Bytes of a line of a log, about.
const LOG_LINE_BYTES: u64 = 70;
/// Type of a violation: a job would write more than there is room for.
const TOO_MUCH: &str = "results_too_large";

/// The parameters with defaults. `outside` are the values that the document does not allow.
///
/// # Errors
///
/// 422 with these and everything else that cannot be run.
pub(crate) fn resolve(
    app: &App,
    request: &JobCreateParams,
    system: &TaskRow,
    outside: Vec<ValidationError>,
) -> Result<JobCreateParams, ApiError> {
    let Outcome { default_masks, summary } = outcome(system)?;
    let masks = default_masks.context("the outcome of a system has default_masks")?;
    let parameters = JobCreateParams { box_id: system.id.parse().ok(), ..with_defaults(app, request, &masks) };
    let mut problems = check(&parameters)?;
    problems.extend(check_cutoff(&parameters, &summary)?);
    problems.extend(excess(app, &parameters, system)?.map(|excess| excess.of_submission()));
    if has(parameters.surface_tension, "surface_tension")?.get() > 0.0
        && !has_membrane(system).map_err(ApiError::internal)?
    {
        let msg = "must be 0 for a system without a membrane";
        problems.push(violation("value_error", at(&["surface_tension"]), msg));
    }
    check_masks(app, request, system, &mut problems)?;
    let problems = joined(outside, problems);
    if problems.is_empty() { Ok(parameters) } else { Err(ApiError::invalid(problems)) }
}

/// Everything that cannot be run of a request whose system is not there, as far as that can be told
/// without one. `outside` are the values that the document does not allow.
pub(crate) fn violations(
    app: &App,
    request: &JobCreateParams,
    outside: Vec<ValidationError>,
) -> Result<Vec<ValidationError>, ApiError> {
    Ok(joined(outside, check(&with_defaults(app, request, &DefaultMasks::default()))?))
}

/// What the build of a system came to, as far as its jobs depend on it.
#[derive(Deserialize)]
struct Outcome {
    default_masks: Option<DefaultMasks>,
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    atoms: u64,
    /// Reduced, in nm.
    box_vectors: [[f64; 3]; 3],
}

impl Summary {
    /// Shortest width of the box in nm: the diagonal of its reduced vectors.
    fn shortest_width(&self) -> f64 {
        let [a, b, c] = self.box_vectors;
        a[0].min(b[1]).min(c[2])
    }
}

fn outcome(system: &TaskRow) -> Result<Outcome, ApiError> {
    crate::handlers::stored(system.outcome.as_deref().unwrap_or("null"))
}

/// Whether a system was built with a membrane.
fn has_membrane(system: &TaskRow) -> Result<bool> {
    Ok(serde_json::from_str::<BuildPlan>(&system.parameters)?.has_membrane())
}

/// The parameters of a job whose production goes on for `time` ns more.
///
/// # Errors
///
/// 409 for a job without production, 422 for a time that is no step, or more than can be run.
pub(crate) fn extended(parameters: &JobCreateParams, id: &str, time: Positive) -> Result<JobCreateParams, ApiError> {
    let mut all = parameters.clone();
    let Some(production) = &mut all.production else {
        let msg = format!("{id} has no production stage that could be extended");
        return Err(ApiError::conflict(vec![loc("path"), loc("job_id")], msg));
    };
    let timestep = has(parameters.integration_timestep, "integration_timestep")?.get();
    let before = has(production.time, "production.time")?;
    let after = sum(before.get(), time.get());
    if after * 1e6 / timestep > MAX_STEPS {
        let msg = format!("makes {:.3e} steps in all, at most {MAX_STEPS:e} can be run", after * 1e6 / timestep);
        return Err(ApiError::invalid(vec![violation("out_of_range", at(&["time"]), msg)]));
    }
    production.time = NonNegative::new(after).ok();
    if n_steps(after, timestep) == n_steps(before.get(), timestep) {
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

/// All that a job of these parameters would write on a system of so many atoms.
fn written(parameters: &JobCreateParams, timestep_fs: f64, atoms: u64) -> Result<Vec<Written>> {
    let production = parameters.production.iter().map(|it| (None, it.time, it.traj_freq, it.log_freq));
    let equilibration = parameters.equilibration.iter().flatten().enumerate();
    let equilibration = equilibration.map(|(index, it)| (Some(index), it.time, it.traj_freq, it.log_freq));
    let mut out = Vec::new();
    for (stage, time, traj_freq, log_freq) in production.chain(equilibration) {
        let steps = n_steps(has(time, "time")?.get(), timestep_fs);
        if steps as f64 > MAX_STEPS {
            continue;
        }
        let (traj_freq, log_freq) = (has(traj_freq, "traj_freq")?, has(log_freq, "log_freq")?);
        let of = |field, record, every, bytes| Written { stage, field, record, steps, every, bytes };
        out.push(of("traj_freq", "frame", traj_freq, frame_bytes(atoms)));
        out.push(of("log_freq", "line", log_freq, LOG_LINE_BYTES));
    }
    Ok(out)
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
pub(crate) fn result_bytes(parameters: &JobCreateParams, system: &TaskRow) -> Result<i64, ApiError> {
    let total: u128 = written_on(parameters, system)?.iter().map(Written::size).sum();
    Ok(i64::try_from(total).unwrap_or(i64::MAX))
}

fn written_on(parameters: &JobCreateParams, system: &TaskRow) -> Result<Vec<Written>, ApiError> {
    let timestep_fs = has(parameters.integration_timestep, "integration_timestep")?.get();
    Ok(written(parameters, timestep_fs, outcome(system)?.summary.atoms)?)
}

/// Whether trajectories and logs of a job would be larger than its results may be, or than the disk has
/// free. When a job is extended or tried again, what it has is copied first, so that all of it counts.
pub(crate) fn excess(app: &App, parameters: &JobCreateParams, system: &TaskRow) -> Result<Option<Excess>, ApiError> {
    let timestep_fs = has(parameters.integration_timestep, "integration_timestep")?.get();
    let files = written_on(parameters, system)?;
    let Some(largest) = files.iter().copied().max_by_key(Written::size) else { return Ok(None) };
    let total = files.iter().map(Written::size).sum();
    let limits = &app.config.limits;
    let free = app.objects.free_bytes()?.saturating_sub(limits.free_disk_bytes);
    let (room, whose) = match limits.result_bytes {
        limit if limit > 0 && limit <= free => (limit, "that the results of a job may have here (limits.result_bytes)"),
        _ => (free, "that the service's disk has free"),
    };
    let text = || {
        format!("trajectories and logs of {} in all, more than the {} {whose}", in_bytes(total), in_bytes(room.into()))
    };
    Ok((total > room.into()).then(|| Excess { total, room, largest, timestep_fs, text: text() }))
}

impl Excess {
    /// At the field that has the largest share in it.
    fn of_submission(&self) -> ValidationError {
        let Written { stage, field, record, steps, every, bytes } = self.largest;
        let rest = self.total - self.largest.size();
        let left = u128::from(self.room).saturating_sub(rest);
        let fitting = (u128::from(steps) * u128::from(bytes)).checked_div(left).map(|every| every + 1);
        let remedy = match fitting.filter(|every| *every <= u128::from(steps)) {
            Some(every) => format!("write one every {every} steps or more, or ask for less time"),
            None => "ask for less time".to_owned(),
        };
        let size = in_bytes(bytes.into());
        let Self { timestep_fs: dt, text, .. } = self;
        let msg = format!("a {record} of {size} every {every} of {steps} steps of {dt} fs makes {text}; {remedy}");
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

impl DefaultMasks {
    /// The masks of a system whose solvent consists of residues with these names.
    pub(crate) fn new(system: &Built, solvent: &[String]) -> Self {
        let heavy = if solvent.is_empty() { "!@/H".to_owned() } else { format!("!:{}&!@/H", solvent.join(",")) };
        let solute = Some(heavy).filter(|mask| system.select(mask).is_ok());
        let backbone = solute.as_ref().map(|mask| format!("{mask}&@N,CA,C,O"));
        let backbone = backbone.filter(|mask| system.select(mask).is_ok()).or_else(|| solute.clone());
        Self { solute, backbone }
    }
}

fn with_defaults(app: &App, request: &JobCreateParams, masks: &DefaultMasks) -> JobCreateParams {
    let non_negative = |value| Some(NonNegative::new(value).expect("a default"));
    let positive = |value| Some(Positive::new(value).expect("a default"));
    let mut all = request.clone();
    all.temperature = all.temperature.or(non_negative(default::TEMPERATURE));
    all.pressure = all.pressure.or(non_negative(default::PRESSURE));
    all.surface_tension = all.surface_tension.or(non_negative(default::SURFACE_TENSION));
    all.friction = all.friction.or(non_negative(default::FRICTION));
    all.ewald_error_tolerance = all.ewald_error_tolerance.or(positive(default::EWALD_TOLERANCE));
    all.non_bonded_cutoff = all.non_bonded_cutoff.or(positive(default::CUTOFF));
    all.minimization_steps = all.minimization_steps.or(Some(default::MINIMIZATION_STEPS));
    all.trajectory_output_format = all.trajectory_output_format.or(Some(TrajectoryFormats::Dcd));
    all.seed = all.seed.or_else(|| Some(app.new_seed().unsigned_abs()));
    let timestep = Positive::new(default::TIMESTEP).expect("a default");
    let timestep = all.integration_timestep.get_or_insert(timestep).get();
    all.equilibration = Some(match all.equilibration {
        Some(stages) => stages.into_iter().map(|stage| stage_with_defaults(stage, timestep)).collect(),
        None => default_stages(masks, timestep),
    });
    all.production = all.production.map(|production| {
        let time = production.time.unwrap_or(NonNegative::new(default::PRODUCTION_TIME).expect("a default"));
        let freq = frequency(default::PRODUCTION_FREQ, time, timestep);
        ProductionParams {
            type_: production.type_.or(Some(Ensembles::Npt)),
            time: Some(time),
            traj_freq: production.traj_freq.or(Some(freq)),
            log_freq: production.log_freq.or(Some(freq)),
        }
    });
    all
}

/// A default frequency; in a shorter stage it is met once, at its end, and in one without steps never.
fn frequency(default: u64, time: NonNegative, timestep_fs: f64) -> u64 {
    default.min(n_steps(time.get(), timestep_fs))
}

/// Steps of a stage of some ns.
fn n_steps(time: f64, timestep_fs: f64) -> u64 {
    (time * 1e6 / timestep_fs).round() as u64
}

fn stage_with_defaults(stage: EquilibrationStep, timestep_fs: f64) -> EquilibrationStep {
    let force = if stage.restraint_mask.is_some() { default::RESTRAINT_FORCE } else { 0.0 };
    let non_negative = |value| NonNegative::new(value).expect("a default");
    let time = stage.time.unwrap_or(non_negative(default::STAGE_TIME));
    EquilibrationStep {
        type_: stage.type_.or(Some(Ensembles::Nvt)),
        time: Some(time),
        traj_freq: stage.traj_freq.or(Some(default::STAGE_TRAJ_FREQ)),
        log_freq: stage.log_freq.or(Some(frequency(default::STAGE_LOG_FREQ, time, timestep_fs))),
        restraint_force: stage.restraint_force.or(Some(non_negative(force))),
        restraint_mask: stage.restraint_mask,
    }
}

/// The stages of a job that names none: the solute is held, then its box relaxes, then all but
/// its backbone.
fn default_stages(masks: &DefaultMasks, timestep_fs: f64) -> Vec<EquilibrationStep> {
    let stage = |ensemble, mask: &Option<String>, force| {
        let stage = EquilibrationStep {
            type_: Some(ensemble),
            restraint_mask: mask.clone(),
            restraint_force: mask.as_ref().and(NonNegative::new(force).ok()),
            ..EquilibrationStep::default()
        };
        stage_with_defaults(stage, timestep_fs)
    };
    vec![
        stage(Ensembles::Nvt, &masks.solute, default::RESTRAINT_FORCE),
        stage(Ensembles::Npt, &masks.solute, default::RESTRAINT_FORCE),
        stage(Ensembles::Npt, &masks.backbone, default::BACKBONE_FORCE),
    ]
}

fn at(path: &[&str]) -> Vec<LocItem> {
    std::iter::once("body").chain(path.iter().copied()).map(loc).collect()
}

fn of_stage(index: usize, field: &str) -> Vec<LocItem> {
    vec![loc("body"), loc("equilibration"), LocItem::Int64(index as i64), loc(field)]
}

/// Everything that these parameters ask for that cannot be run on any system.
fn check(parameters: &JobCreateParams) -> Result<Vec<ValidationError>> {
    let mut out = Vec::from_iter(unprintable(parameters.batch_name.as_deref(), "batch_name"));
    let mut add = |kind: &str, loc, msg: String| out.push(violation(kind, loc, msg));
    let timestep = has(parameters.integration_timestep, "integration_timestep")?.get();
    let stages = parameters.equilibration.as_deref().unwrap_or_default();
    let mut check_steps = |time: NonNegative, traj_freq: u64, loc: &dyn Fn(&str) -> Vec<LocItem>| {
        let steps = time.get() * 1e6 / timestep;
        if steps > MAX_STEPS {
            add("out_of_range", loc("time"), format!("is {steps:.3e} steps, at most {MAX_STEPS:e} can be run"));
        } else if traj_freq as f64 > steps.round() {
            let msg = format!(
                "is {traj_freq} steps, more than the {steps:.0} of the stage: no frame would be written; 0 asks for none"
            );
            add("value_error", loc("traj_freq"), msg);
        }
    };
    for (index, stage) in stages.iter().enumerate() {
        let (time, traj_freq) = (has(stage.time, "time")?, has(stage.traj_freq, "traj_freq")?);
        check_steps(time, traj_freq, &|field| of_stage(index, field));
    }
    if let Some(production) = &parameters.production {
        let (time, traj_freq) = (has(production.time, "time")?, has(production.traj_freq, "traj_freq")?);
        check_steps(time, traj_freq, &|field| at(&["production", field]));
    }
    for (index, stage) in stages.iter().enumerate() {
        if stage.restraint_mask.is_none() && stage.restraint_force.is_some_and(|force| force.get() > 0.0) {
            let msg = "is missing, so that restraint_force holds nothing; name the atoms";
            out.push(violation("value_error", of_stage(index, "restraint_mask"), msg));
        }
    }
    Ok(out)
}

/// A cutoff reaches no further than to the nearest image.
fn check_cutoff(parameters: &JobCreateParams, summary: &Summary) -> Result<Option<ValidationError>> {
    let cutoff = has(parameters.non_bonded_cutoff, "non_bonded_cutoff")?.get();
    let half = summary.shortest_width() / 2.0;
    let msg = || format!("must be at most half of the shortest width of the box, {half:.3} nm, got {cutoff}");
    Ok((cutoff > half).then(|| violation("less_than_equal", at(&["non_bonded_cutoff"]), msg())))
}

/// A parameter that was filled in when the job was submitted.
fn has<T>(parameter: Option<T>, name: &str) -> Result<T> {
    parameter.with_context(|| format!("the parameters of a job have {name}"))
}

/// The masks that a request gives must be masks and select something. The default ones do.
fn check_masks(
    app: &App,
    request: &JobCreateParams,
    system: &TaskRow,
    problems: &mut Vec<ValidationError>,
) -> Result<(), ApiError> {
    let stages = request.equilibration.iter().flatten().enumerate();
    let masks: Vec<_> = stages.filter_map(|(index, stage)| Some((index, stage.restraint_mask.as_ref()?))).collect();
    if masks.is_empty() {
        return Ok(());
    }
    let built = app.systems.read(&app.objects, &system.id)?;
    for (index, mask) in masks {
        if let Err(message) = built.check(mask) {
            problems.push(violation("mask", of_stage(index, "restraint_mask"), message));
        }
    }
    Ok(())
}

/// Puts the input files into the job directory; returns the plan.
pub(crate) fn place_inputs(app: &App, row: &TaskRow, input: &Path) -> Result<Value> {
    fs::create_dir_all(input)?;
    let system = row.parent.as_deref().context("a job has a system")?;
    for name in ["system.xml", "state.xml", "topology.json"] {
        app.objects.place(&format!("tasks/{system}/{name}"), &input.join(name))?;
    }
    let parameters: JobCreateParams = serde_json::from_str(&row.parameters)?;
    let built = app.systems.read(&app.objects, system)?;
    let system = app.db.task(row.account, "system", system)?.context("a job has a system")?;
    Ok(serde_json::to_value(plan(&parameters, &built, has_membrane(&system)?)?)?)
}

fn plan(parameters: &JobCreateParams, system: &Built, membrane: bool) -> Result<SimulatePlan> {
    let timestep_fs = has(parameters.integration_timestep, "integration_timestep")?.get();
    let mut stages = Vec::new();
    for (index, stage) in parameters.equilibration.iter().flatten().enumerate() {
        let restraint_atoms = match &stage.restraint_mask {
            Some(mask) => system.select(mask).map_err(anyhow::Error::msg)?,
            None => Vec::new(),
        };
        stages.push(Stage {
            name: format!("equilibration_{}", index + 1),
            ensemble: has(stage.type_, "type")?.to_string(),
            steps: n_steps(has(stage.time, "time")?.get(), timestep_fs),
            traj_freq: has(stage.traj_freq, "traj_freq")?,
            log_freq: has(stage.log_freq, "log_freq")?,
            restraint_force: has(stage.restraint_force, "restraint_force")?.get(),
            restraint_atoms,
        });
    }
    if let Some(production) = &parameters.production {
        stages.push(Stage {
            name: "production".to_owned(),
            ensemble: has(production.type_, "type")?.to_string(),
            steps: n_steps(has(production.time, "time")?.get(), timestep_fs),
            traj_freq: has(production.traj_freq, "traj_freq")?,
            log_freq: has(production.log_freq, "log_freq")?,
            restraint_force: 0.0,
            restraint_atoms: Vec::new(),
        });
    }
    Ok(SimulatePlan {
        temperature_k: has(parameters.temperature, "temperature")?.get(),
        pressure_bar: has(parameters.pressure, "pressure")?.get(),
        surface_tension_bar_nm: has(parameters.surface_tension, "surface_tension")?.get(),
        membrane,
        friction_per_ps: has(parameters.friction, "friction")?.get(),
        timestep_fs,
        ewald_tolerance: has(parameters.ewald_error_tolerance, "ewald_error_tolerance")?.get(),
        cutoff_nm: has(parameters.non_bonded_cutoff, "non_bonded_cutoff")?.get(),
        minimization_steps: has(parameters.minimization_steps, "minimization_steps")?,
        hydrogen_mass_da: (timestep_fs > MAX_PLAIN_TIMESTEP).then_some(HYDROGEN_MASS_DA),
        stages,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameters() -> JobCreateParams {
        serde_json::from_value(json!({ "integration_timestep": 2, "non_bonded_cutoff": 5 })).unwrap()
    }

    #[test]
    fn a_cutoff_fits_half_of_the_shortest_width_and_no_box_without_widths() {
        let summary = |vectors| serde_json::from_value::<Summary>(json!({ "atoms": 1, "box_vectors": vectors }));
        let wide = summary(json!([[12.0, 0.0, 0.0], [0.0, 11.0, 0.0], [4.0, 4.0, 10.0]])).unwrap();
        assert_eq!(check_cutoff(&parameters(), &wide).unwrap(), None);
        let narrow = summary(json!([[12.0, 0.0, 0.0], [0.0, 11.0, 0.0], [4.0, 4.0, 9.9]])).unwrap();
        assert_eq!(check_cutoff(&parameters(), &narrow).unwrap().unwrap().type_, "less_than_equal");
        for vectors in [json!(null), json!([]), json!([[12.0, 0.0, 0.0], [0.0, 11.0, 0.0]])] {
            assert!(summary(vectors.clone()).is_err(), "{vectors}");
        }
    }

    #[test]
    fn stored_parameters_without_a_time_step_are_not_extended() {
        let stored = json!({ "non_bonded_cutoff": 5, "production": { "time": 1 } });
        let stored: JobCreateParams = serde_json::from_value(stored).unwrap();
        let refusal = extended(&stored, "job_1", Positive::new(1.0).unwrap()).unwrap_err();
        assert!(format!("{refusal:?}").contains("integration_timestep"), "{refusal:?}");
    }
}
