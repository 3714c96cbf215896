//! Analyses: from a request to a plan.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use molbox::workflow::types::{AnalysisRequest, Estimate, LocItem, Notice, ValidationError};
use molbox_analysis::{Error, InvalidParams, Params, Parsed, ReferenceStructure, Series, Topology};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::db::FileRow;
use crate::error::{ApiError, NOT_FOUND, not_ready};
use crate::formats::Format;
use crate::http::validate::{loc, violation};
use crate::objects::{Key, Objects};
use crate::plan::build::no_file;
use crate::plan::estimate::unknown;
use crate::record::{Kind, Status, Task};
use crate::registered;
use crate::runner::output::Output;

const TRAJECTORY: &str = "production.dcd";
/// Formats of what names atoms and says where they are, of what names them, and of what has frames.
pub(crate) const STRUCTURES: [Format; 3] = [Format::Pdb, Format::Cif, Format::Gro];
pub(crate) const TOPOLOGIES: [Format; 5] =
    [Format::Pdb, Format::Cif, Format::Gro, Format::Prmtop, Format::Psf];
pub(crate) const TRAJECTORIES: [Format; 4] = [Format::Dcd, Format::Xtc, Format::Trr, Format::Nc];

/// An analysis to be made, with everything that it refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AnalyzePlan {
    /// The job that gives what is not given as a file.
    pub(crate) job: Option<String>,
    /// Its system.
    system: Option<String>,
    topology: Option<Given>,
    trajectory: Option<Given>,
    /// Where RMSD are measured from, if that is not the first analysed frame.
    #[serde(default)]
    reference: Option<Reference>,
}

/// Where RMSD are measured from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reference {
    /// A frame of the trajectory that is analysed.
    Frame { frame: usize },
    /// A frame of the production of a job, and that job's system.
    Job { job: String, system: String, frame: usize },
    /// A system as it was built.
    System { system: String },
    /// A registered structure, and its name.
    File { given: Given, name: String },
}

/// A registered file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) file_id: String,
    pub(crate) format: Format,
}

/// What a request refers to, and whether it can be done; and what to say of a job that is not all
/// that was asked of it. `outside` are the values that the document does not allow.
///
/// # Errors
///
/// 404 and 409 for what it refers to, 422 with everything else that is wrong.
pub(crate) async fn resolve(
    app: &App,
    account: i64,
    request: &AnalysisRequest,
    outside: Vec<ValidationError>,
) -> Result<(AnalyzePlan, Option<Notice>), ApiError> {
    check_size(request)?;
    let mut wrong = outside;
    let parsed = kept(params(request).parse().map_err(invalid), &mut wrong)?;
    let wanted = request.topology.as_deref();
    let topology = given(app, account, ["body", "topology"], wanted, &TOPOLOGIES);
    let topology = kept(topology.await, &mut wrong)?.flatten();
    let wanted = request.trajectory.as_deref();
    let trajectory = given(app, account, ["body", "trajectory"], wanted, &TRAJECTORIES);
    let trajectory = kept(trajectory.await, &mut wrong)?.flatten();
    let reference = kept(reference(app, account, request).await, &mut wrong)?.flatten();
    let job =
        if request.job_id.is_some() || request.topology.is_none() || request.trajectory.is_none() {
            kept(job(app, account, request, request.trajectory.is_none()).await, &mut wrong)?
        } else {
            None
        };
    let Some(parsed) = parsed.filter(|_| wrong.is_empty()) else {
        return Err(ApiError::unresolved(wrong));
    };
    let system = job.as_ref().and_then(|job| job.parent.clone());
    let partial = job.as_ref().filter(|_| trajectory.is_none()).and_then(partial);
    let may_grow = job.as_ref().is_some_and(|job| job.status.is_open());
    let plan = AnalyzePlan { job: job.map(|job| job.id), system, topology, trajectory, reference };
    let skips_damaged = request.skip_damaged_frames == Some(true);
    plan.check(app, &parsed, skips_damaged).await?;
    if !may_grow {
        plan.check_frames(app, request).await?;
    }
    Ok((plan, partial))
}

/// Most masks and pairs of masks of an analysis. Each is looked for in all atoms before it is queued,
/// and has columns or a table of its own.
const MAX_MASKS: usize = 1000;

/// That an analysis is not so much that nobody could wait for its check.
fn check_size(request: &AnalysisRequest) -> Result<(), ApiError> {
    let fields = serde_json::to_value(request).map_err(ApiError::internal)?;
    let lists = fields.as_object().into_iter().flatten();
    let lists = lists.filter_map(|(field, value)| Some((field, value.as_array()?.len())));
    let (mut count, mut longest) = (0, (0, ""));
    for (field, length) in lists {
        count += length;
        longest = longest.max((length, field));
    }
    if count <= MAX_MASKS {
        return Ok(());
    }
    let msg = format!(
        "an analysis has at most {MAX_MASKS} masks, frames and pairs in all its lists; these have \
         {count}: ask for several analyses"
    );
    Err(ApiError::invalid_body("too_long", vec![loc(longest.1)], msg))
}

/// Where RMSD are measured from, unless it is the first analysed frame.
async fn reference(
    app: &App,
    account: i64,
    request: &AnalysisRequest,
) -> Result<Option<Reference>, ApiError> {
    let frame = request.reference_frame.map(|frame| usize::try_from(frame).unwrap_or(usize::MAX));
    let given_as = [
        ("reference_job", &request.reference_job),
        ("reference_system", &request.reference_system),
        ("reference_file", &request.reference_file),
    ];
    let mut given_as =
        given_as.into_iter().filter_map(|(field, wanted)| Some((field, wanted.as_deref()?)));
    let Some((field, wanted)) = given_as.next() else {
        return Ok(frame.map(|frame| Reference::Frame { frame }));
    };
    if let Some((other, _)) = given_as.next() {
        let msg = format!("give either this or `{field}`");
        return Err(ApiError::invalid_body("value_error", vec![loc(other)], msg));
    }
    if frame.is_some() && field != "reference_job" {
        let msg = format!("a frame is of a trajectory, and `{field}` has none; leave it out");
        return Err(ApiError::invalid_body("value_error", vec![loc("reference_frame")], msg));
    }
    match field {
        "reference_job" => reference_job(app, account, wanted, frame.unwrap_or(0)).await.map(Some),
        "reference_system" => reference_system(app, account, wanted).await.map(Some),
        _ => reference_file(app, account, wanted).await,
    }
}

fn no_job(app: &App, field: &str, id: &str) -> ApiError {
    let gone = app.config.retention.of_what_is_gone();
    ApiError::not_found_in_body(field, format!("no job {id}{gone}"))
}

async fn reference_job(
    app: &App,
    account: i64,
    wanted: &str,
    frame: usize,
) -> Result<Reference, ApiError> {
    let at = "reference_job";
    let job = app.db.task(account, Kind::Job, wanted).await?;
    let job = job.ok_or_else(|| no_job(app, at, wanted))?;
    let not_yet = |needs| not_ready(vec![loc("body"), loc(at)], &job.id, job.status, needs);
    if job.status.is_open() {
        return Err(not_yet("RMSD are measured from a job that has ended"));
    }
    let n_frames = match frames_of(app, &job.id)? {
        Some(found) => n_frames(&found, &app.objects).unwrap_or(0),
        None => 0,
    };
    if n_frames == 0 {
        return Err(not_yet("it has no frames of a production"));
    }
    check_frame("reference_frame", frame, n_frames)?;
    let system = job
        .parent
        .ok_or_else(|| ApiError::internal(anyhow::anyhow!("{} has no system", job.id)))?;
    Ok(Reference::Job { job: job.id, system, frame })
}

async fn reference_system(app: &App, account: i64, wanted: &str) -> Result<Reference, ApiError> {
    let at = "reference_system";
    let system = app.db.task(account, Kind::System, wanted).await?;
    let system =
        system.ok_or_else(|| ApiError::not_found_in_body(at, format!("no system {wanted}")))?;
    if system.status != Status::Succeeded {
        let at = vec![loc("body"), loc(at)];
        return Err(not_ready(
            at,
            &system.id,
            system.status,
            "RMSD are measured from a system that has been built",
        ));
    }
    Ok(Reference::System { system: system.id })
}

async fn reference_file(
    app: &App,
    account: i64,
    wanted: &str,
) -> Result<Option<Reference>, ApiError> {
    let given = given(app, account, ["body", "reference_file"], Some(wanted), &STRUCTURES).await?;
    Ok(given.map(|given| Reference::File { given, name: wanted.to_owned() }))
}

/// That a trajectory has a frame that a field names.
fn check_frame(field: &'static str, frame: usize, n_frames: usize) -> Result<(), ApiError> {
    if frame < n_frames {
        return Ok(());
    }
    let msg = format!("there is no frame {frame}, counted from 0; the trajectory has {n_frames}");
    Err(ApiError::invalid_body("out_of_range", vec![loc(field)], msg))
}

/// What to say of a job whose trajectory may be shorter than was asked for.
fn partial(job: &Task) -> Option<Notice> {
    let state = match job.status {
        Status::Succeeded => return None,
        Status::Failed => "has failed",
        Status::Cancelled => "was cancelled",
        Status::Queued | Status::Running => "has not ended",
    };
    Some(Notice {
        code: "partial_trajectory".to_owned(),
        message: format!("{} {state}; the frames that it has written are analysed", job.id),
        loc: vec![loc("job_id")],
        residues: Vec::new(),
        extra: Default::default(),
    })
}

/// A part of a request that can be done; none for one whose violations are kept.
fn kept<T>(
    part: Result<T, ApiError>,
    wrong: &mut Vec<ValidationError>,
) -> Result<Option<T>, ApiError> {
    match part {
        Ok(part) => Ok(Some(part)),
        Err(refusal) => refusal.add_to(wrong).map(|()| None),
    }
}

/// What is calculated.
pub(crate) fn params(request: &AnalysisRequest) -> Params {
    Params {
        downsample_frames: request.downsample_frames.map(molbox::Finite::get),
        distance_masks: request.distance_masks.clone(),
        rmsd_masks: request.rmsd_masks.clone(),
        rmsf_masks: request.rmsf_masks.clone(),
        hbond_angle: request.hbond_angle.map(molbox::Finite::get),
        hbond_distance: request.hbond_distance.map(molbox::Finite::get),
        hbond_masks: request.hbond_masks.clone(),
        hbond_criterion: request.hbond_criterion.clone(),
        contact_masks: request.contact_masks.clone(),
        contact_distance: request.contact_distance.map(molbox::Finite::get),
        gyration_masks: request.gyration_masks.clone(),
        surface_masks: request.surface_masks.clone(),
        surface_probe: request.surface_probe.map(molbox::Finite::get),
        secondary_structure_masks: request.secondary_structure_masks.clone(),
        cluster_masks: request.cluster_masks.clone(),
        cluster_method: request.cluster_method.clone(),
        cluster_cutoff: request.cluster_cutoff.map(molbox::Finite::get),
        cluster_count: request.cluster_count,
        dihedral_masks: request.dihedral_masks.clone(),
        dihedral_angles: request.dihedral_angles.clone(),
        native_contact_masks: request.native_contact_masks.clone(),
        rdf_masks: request.rdf_masks.clone(),
        rdf_distance: request.rdf_distance.map(molbox::Finite::get),
        rdf_bin: request.rdf_bin.map(molbox::Finite::get),
        density_masks: request.density_masks.clone(),
        density_axis: request.density_axis.clone(),
        density_bin: request.density_bin.map(molbox::Finite::get),
        pca_masks: request.pca_masks.clone(),
        pca_components: request.pca_components,
        lipid_masks: request.lipid_masks.clone(),
        end_to_end_masks: request.end_to_end_masks.clone(),
        without_convergence: request.convergence == Some(false),
        first_frame: request.first_frame,
        last_frame: request.last_frame,
        reference_frame: request.reference_frame,
        skip_damaged_frames: request.skip_damaged_frames.unwrap_or(false),
    }
}

fn invalid(problems: InvalidParams) -> ApiError {
    let violations = problems.0.into_iter().map(|invalid| -> ValidationError {
        let index = |index: &usize| LocItem::Int64(*index as i64);
        let at = [loc("body"), loc(invalid.at.name)]
            .into_iter()
            .chain(invalid.at.indexes.iter().map(index));
        let kind = if invalid.at.name.ends_with("_masks") { "mask" } else { "out_of_range" };
        violation(kind, at.collect(), invalid.kind.to_string())
    });
    ApiError::invalid(violations.collect())
}

/// A registered file that a place in a request names.
///
/// # Errors
///
/// 404 for one that is not there, 422 for one of another format.
pub(crate) async fn given(
    app: &App,
    account: i64,
    at: [&str; 2],
    wanted: Option<&str>,
    formats: &[Format],
) -> Result<Option<Given>, ApiError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let Some(FileRow { id, format, name, .. }) = app.db.ready_file(account, wanted).await? else {
        let violation = violation(NOT_FOUND, at.map(loc).to_vec(), no_file(wanted));
        return Err(ApiError::unresolved(vec![violation]));
    };
    if !formats.contains(&format) {
        let formats: Vec<&str> = formats.iter().map(|format| format.name()).collect();
        let msg = format!("must be a {} file, {name} is {format}", formats.join(" or "));
        return Err(ApiError::invalid(vec![violation("value_error", at.map(loc).to_vec(), msg)]));
    }
    Ok(Some(Given { file_id: id, format }))
}

/// The job that is analysed, which must have frames if they are to come from it.
async fn job(
    app: &App,
    account: i64,
    request: &AnalysisRequest,
    needs_frames: bool,
) -> Result<Task, ApiError> {
    let at = vec![loc("body"), loc("job_id")];
    let job = match &request.job_id {
        Some(id) => {
            app.db.task(account, Kind::Job, id).await?.ok_or_else(|| no_job(app, "job_id", id))?
        }
        None => app.db.latest_task(account, Kind::Job).await?.ok_or_else(|| {
            ApiError::invalid_body(
                "missing",
                vec![loc("job_id")],
                "there is no job yet; run one and give its id",
            )
        })?,
    };
    let is_over = !job.status.is_open();
    if needs_frames && !is_over && request.allow_unfinished != Some(true) {
        let needs = "a job is analysed when it has ended; `allow_unfinished: true` analyses the frames so far";
        return Err(not_ready(at, &job.id, job.status, needs));
    }
    if needs_frames {
        let found = frames_of(app, &job.id)?;
        let frames = found.and_then(|found| n_frames(&found, &app.objects));
        if frames.unwrap_or(0) == 0 {
            let needs =
                if is_over { "it has no frames of a production" } else { "it has no frames yet" };
            return Err(not_ready(at, &job.id, job.status, needs));
        }
    }
    Ok(job)
}

/// The trajectory of a job's production, as far as it is written.
fn frames_of(app: &App, job: &str) -> io::Result<Option<Output>> {
    Output::of(app, job, TRAJECTORY)
}

/// How many frames there are; none when they cannot be read.
fn n_frames(frames: &Output, objects: &Objects) -> Option<usize> {
    let series = frames.read(objects, |path| Series::open(&[path.to_owned()])).ok()?;
    series.ok().map(|series| series.n_frames())
}

impl AnalyzePlan {
    /// Identifiers of the registered files that are read.
    pub(crate) fn inputs(&self) -> Vec<String> {
        let reference = match &self.reference {
            Some(Reference::File { given, .. }) => Some(given),
            _ => None,
        };
        let given = [self.topology.as_ref(), self.trajectory.as_ref(), reference];
        given.into_iter().flatten().map(|given| given.file_id.clone()).collect()
    }

    /// The job or system that RMSD are measured from.
    pub(crate) fn reference_task(&self) -> Option<String> {
        match &self.reference {
            Some(Reference::Job { job, .. }) => Some(job.clone()),
            Some(Reference::System { system }) => Some(system.clone()),
            Some(Reference::Frame { .. } | Reference::File { .. }) | None => None,
        }
    }

    /// The structure from where it is stored.
    async fn stored_structure(
        &self,
        app: &App,
        skips_damaged: bool,
    ) -> Result<(Topology, Vec<[f64; 3]>), ApiError> {
        match (&self.topology, &self.system) {
            (Some(given), _) => {
                let key = app.content_of(&given.file_id).await?;
                let at = ["body", "topology"];
                let named = registered::named(app, &given.file_id, &key, given.format, at)?;
                let trajectory = match &self.trajectory {
                    Some(given) => Some((given, app.content_of(&given.file_id).await?)),
                    None => None,
                };
                let open = || self.open(app, trajectory);
                let at = ["body", "trajectory"];
                let positions = named.positions(open, skips_damaged, at)?.into_owned();
                Ok((named.topology().clone(), positions))
            }
            (None, Some(system)) => Ok(app.systems.read(&app.objects, system)?.parts()),
            (None, None) => Err(ApiError::internal(anyhow::anyhow!("a plan without a topology"))),
        }
    }

    /// Alternate locations that the structure of the topology has besides.
    async fn n_locations(&self, app: &App) -> Result<usize, ApiError> {
        let Some(given) = &self.topology else { return Ok(0) };
        let key = app.content_of(&given.file_id).await?;
        let at = ["body", "topology"];
        Ok(registered::named(app, &given.file_id, &key, given.format, at)?.n_locations())
    }

    /// The trajectory, which is a registered file with this content or that of the job.
    fn open(&self, app: &App, given: Option<(&Given, Key)>) -> Result<Series, ApiError> {
        if let Some((given, key)) = given {
            let trajectory = registered::trajectory(
                app,
                &given.file_id,
                &key,
                given.format,
                ["body", "trajectory"],
            )?;
            return Ok(Series::from(trajectory));
        }
        let none = || ApiError::internal(anyhow::anyhow!("a job that is analysed has frames"));
        let found = frames_of(app, self.job.as_deref().ok_or_else(none)?)?.ok_or_else(none)?;
        found
            .read(&app.objects, |path| Series::open(&[path.to_owned()]))?
            .map_err(ApiError::internal)
    }

    /// That the masks select atoms, the same in the reference, and that the trajectory has those
    /// atoms.
    async fn check(&self, app: &App, parsed: &Parsed, skips_damaged: bool) -> Result<(), ApiError> {
        let (topology, positions) = self.stored_structure(app, skips_damaged).await?;
        // Positions of frames are read by the process that analyses; what atoms they have is known.
        let other = match &self.reference {
            None | Some(Reference::Frame { .. }) => None,
            Some(Reference::Job { system, .. } | Reference::System { system }) => {
                Some(app.systems.read(&app.objects, system)?.parts())
            }
            Some(Reference::File { given, .. }) => {
                Some(given.structure(app, "reference_file").await?)
            }
        };
        let reference = self.reference.as_ref().map(|reference| ReferenceStructure {
            field: reference.field(),
            label: reference.label(),
            topology: other.as_ref().map(|(topology, _)| topology),
            positions: other.as_ref().map_or(&positions, |(_, positions)| positions),
            // What is selected does not depend on it.
            cell: None,
        });
        parsed.select(&topology, &positions, reference.as_ref()).map_err(invalid)?;
        if let Some(given) = &self.trajectory {
            let (n_atoms, _) = given.size(app).await?;
            if n_atoms != topology.n_atoms() {
                let left_out = self.n_locations(app).await?;
                let topology = topology.n_atoms();
                let differ = Error::AtomCount { topology, trajectory: n_atoms, left_out };
                let msg = differ.to_string();
                return Err(ApiError::invalid_body("value_error", vec![loc("trajectory")], msg));
            }
        }
        Ok(())
    }

    /// What an analysis would read: atoms of its topology, frames that there are by now.
    pub(crate) async fn estimate(
        &self,
        app: &App,
        request: &AnalysisRequest,
    ) -> Result<Estimate, ApiError> {
        let skips_damaged = request.skip_damaged_frames == Some(true);
        let (topology, _) = self.stored_structure(app, skips_damaged).await?;
        let n_frames = self.n_frames(app).await?;
        let position =
            |frame: Option<u64>| frame.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        let end =
            position(request.last_frame).map_or(n_frames, |it| it.saturating_add(1).min(n_frames));
        let stride = request.downsample_frames.map_or(1, |stride| stride.get().max(1.0) as usize);
        let first = position(request.first_frame).unwrap_or(0);
        let frames = end.saturating_sub(first).div_ceil(stride);
        Ok(Estimate {
            atoms: Some(topology.n_atoms() as u64),
            frames: Some(frames as u64),
            ..unknown()
        })
    }

    /// Frames that there are.
    async fn n_frames(&self, app: &App) -> Result<usize, ApiError> {
        Ok(match (&self.trajectory, &self.job) {
            (Some(given), _) => given.size(app).await?.1,
            (None, Some(job)) => match frames_of(app, job)? {
                Some(found) => n_frames(&found, &app.objects).unwrap_or(0),
                None => 0,
            },
            (None, None) => 0,
        })
    }

    /// That a trajectory which is all there has the frames that the request names.
    async fn check_frames(&self, app: &App, request: &AnalysisRequest) -> Result<(), ApiError> {
        let n_frames = self.n_frames(app).await?;
        if let Some(first) = request.first_frame {
            check_frame("first_frame", usize::try_from(first).unwrap_or(usize::MAX), n_frames)?;
        }
        match self.reference {
            Some(Reference::Frame { frame }) => check_frame("reference_frame", frame, n_frames),
            _ => Ok(()),
        }
    }

    /// Names of the files in the folder of the task.
    fn structure_file(&self) -> String {
        self.topology.as_ref().map_or_else(
            || "topology.json".to_owned(),
            |given| format!("topology.{}", given.format),
        )
    }
}

impl Given {
    /// Of the file that a field of the request names.
    async fn structure(
        &self,
        app: &App,
        field: &str,
    ) -> Result<(Topology, Vec<[f64; 3]>), ApiError> {
        let key = app.content_of(&self.file_id).await?;
        let at = ["body", field];
        let structure = registered::structure(app, &self.file_id, &key, self.format, at)?;
        Ok((structure.topology.clone(), structure.positions.clone()))
    }

    /// Numbers of its atoms and frames.
    async fn size(&self, app: &App) -> Result<(usize, usize), ApiError> {
        let key = app.content_of(&self.file_id).await?;
        let trajectory =
            registered::trajectory(app, &self.file_id, &key, self.format, ["body", "trajectory"])?;
        Ok((trajectory.n_atoms(), trajectory.n_frames()))
    }
}

impl Reference {
    /// The field that asks for it.
    fn field(&self) -> &'static str {
        match self {
            Self::Frame { .. } => "reference_frame",
            Self::Job { .. } => "reference_job",
            Self::System { .. } => "reference_system",
            Self::File { .. } => "reference_file",
        }
    }

    /// What results call it.
    fn label(&self) -> String {
        match self {
            Self::Frame { frame } => format!("frame {frame}"),
            Self::Job { job, frame, .. } => format!("frame {frame} of {job}"),
            Self::System { system } => format!("{system} as built"),
            Self::File { name, .. } => name.clone(),
        }
    }

    /// Puts its files into the folder of the task.
    async fn place(&self, app: &App, input: &Path) -> Result<ReferenceInputs> {
        let mut inputs =
            ReferenceInputs { label: self.label(), structure: None, trajectory: None, frame: None };
        match self {
            Self::Frame { frame } => inputs.frame = Some(*frame),
            Self::Job { system, .. } | Self::System { system } => {
                let name = "reference.json";
                app.objects.fetch(&Key::task(system).under("topology.json"), &input.join(name))?;
                inputs.structure = Some(name.to_owned());
            }
            Self::File { given, .. } => {
                let name = format!("reference.{}", given.format);
                app.objects.fetch(&app.content_of(&given.file_id).await?, &input.join(&name))?;
                inputs.structure = Some(name);
            }
        }
        if let Self::Job { job, frame, .. } = self {
            let name = "reference.dcd";
            let frames = frames_of(app, job)?.with_context(|| format!("{job} has no frames"))?;
            frames.place(&app.objects, &input.join(name))?;
            inputs.trajectory = Some(name.to_owned());
            inputs.frame = Some(*frame);
        }
        Ok(inputs)
    }
}

/// The plan with its files in place, as the process reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnalyzeInputs {
    pub(crate) job: Option<String>,
    /// Name under `input/`, as are those of the trajectory.
    pub(crate) structure: String,
    /// None while a job has written none.
    pub(crate) trajectory: Vec<String>,
    /// Where RMSD are measured from, if that is not the first analysed frame.
    pub(crate) reference: Option<ReferenceInputs>,
    pub(crate) request: AnalysisRequest,
}

/// Where RMSD are measured from: a structure, a frame of a trajectory of its own, or one of the
/// trajectory that is analysed. Names are under `input/`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferenceInputs {
    /// What results call it.
    pub(crate) label: String,
    pub(crate) structure: Option<String>,
    pub(crate) trajectory: Option<String>,
    pub(crate) frame: Option<usize>,
}

/// Puts the input files into the folder of the task.
pub(crate) async fn place_inputs(app: &App, row: &Task, input: &Path) -> Result<AnalyzeInputs> {
    fs::create_dir_all(input)?;
    let plan: AnalyzePlan = serde_json::from_str(&row.parameters)?;
    let to = input.join(plan.structure_file());
    match (&plan.topology, &plan.system) {
        (Some(given), _) => app.objects.fetch(&app.content_of(&given.file_id).await?, &to)?,
        (None, system) => {
            let system =
                system.as_deref().context("an analysis without a topology has a system")?;
            app.objects.fetch(&Key::task(system).under("topology.json"), &to)?;
        }
    }
    // Named so that a message about the file says something.
    let (name, frames) = match &plan.trajectory {
        Some(given) => {
            let content = app.content_of(&given.file_id).await?;
            (format!("trajectory.{}", given.format), Some(Output::Stored(content)))
        }
        None => {
            let job = plan.job.as_deref().context("an analysis without a trajectory has a job")?;
            (TRAJECTORY.to_owned(), frames_of(app, job)?)
        }
    };
    let trajectory: Vec<String> = frames.iter().map(|_| name.clone()).collect();
    frames.map(|frames| frames.place(&app.objects, &input.join(name))).transpose()?;
    let request: AnalysisRequest = serde_json::from_str(&row.request)?;
    let structure = plan.structure_file();
    let reference = match &plan.reference {
        Some(reference) => Some(reference.place(app, input).await?),
        None => None,
    };
    Ok(AnalyzeInputs { job: plan.job, structure, trajectory, reference, request })
}
