//! Jobs: submission, progress, results.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use molbox::Finite;
use molbox::workflow::types::{
    JobCreateParams, JobExtension, JobPreview, JobSeries, Notice, SeriesColumn, ValidationError,
};

use super::record_text::{both, record};
use super::task::{
    bundle, cancelled, delete_task, find, json, listed, priority, queue, unqueued, with_place,
};
use crate::app::App;
use crate::db::{Extended, Reads};
use crate::error::{ApiError, not_ready, stored};
use crate::excerpt::{Asked, Made};
use crate::http::answer::{self, record_answer, text};
use crate::http::call::Call;
use crate::http::download::{download, while_good};
use crate::http::once::once;
use crate::http::validate::{loc, violation};
use crate::plan::build::BuildPlan;
use crate::plan::{estimate, simulate, unlikely};
use crate::record::{Kind, Lane, NewTask, Status, Task};
use crate::runner::commit::has_commit;
use crate::runner::log::Log;
use crate::runner::output::Output;
use crate::runner::series::{self, Series};

const KIND: Kind = Kind::Job;
/// Values of each column of what a stage has logged where the request does not say; the document
/// names it too.
const POINTS: usize = 2000;

pub(crate) async fn job_submit(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<JobCreateParams>()?;
    app.check_disk()?;
    let system = resolved_system(&call, &request, &outside, is_built).await?;
    let Resolved { request, system, parameters, notices, bytes, .. } =
        resolved(&call, request, system, outside).await?;
    let mut warnings: Vec<Notice> = stored(&warnings)?;
    warnings.extend(notices);
    let task = NewTask {
        id: app.new_id(KIND.prefix()),
        account: call.account(),
        kind: KIND,
        name: request.batch_name.clone(),
        parent: Some(system.id.clone()),
        request: json(&request)?,
        parameters: json(&parameters)?,
        seed: parameters.seed as i64,
        warnings: json(&warnings)?,
        bytes,
        priority: priority(request.priority),
        created_at: app.now(),
    };
    queue(&call, task, Reads::default()).await
}

pub(crate) async fn job_check(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<JobCreateParams>()?;
    let mut warnings: Vec<Notice> = stored(&warnings)?;
    let system = match call.whole("atoms") {
        Some(_) => None,
        None => Some(resolved_system(&call, &request, &outside, is_coming).await?),
    };
    // Nothing waits for a place before its system is built.
    let waits = system.as_ref().is_none_or(|system| is_built(system.status));
    let (request, parameters, estimate) = match system {
        Some(system) if is_built(system.status) => {
            let Resolved { request, parameters, notices, atoms, size, .. } =
                resolved(&call, request, system, outside).await?;
            warnings.extend(notices);
            let estimate = estimate::of_job(app, &parameters, Some(atoms), size).await?;
            (request, parameters, estimate)
        }
        system => {
            let system = system.as_ref();
            let atoms = match system {
                Some(system) => atoms_to_come(&call, system).await?,
                None => call.whole("atoms"),
            };
            let id = system.map(|system| system.id.as_str());
            let parameters = simulate::resolve_unbuilt(app, &request, id, atoms, outside)?;
            warnings.extend(system.iter().map(|system| not_built(system, atoms)));
            warnings.extend(unlikely::notices(&parameters));
            let size = parameters.size(atoms.unwrap_or(0));
            let estimate = estimate::of_job(app, &parameters, atoms, size).await?;
            (request, parameters, estimate)
        }
    };
    let mut shown = serde_json::to_value(&parameters).map_err(ApiError::internal)?;
    if request.seed.is_none() {
        // The submission draws its own.
        shown.as_object_mut().and_then(|shown| shown.remove("seed"));
    }
    let estimate = match waits {
        true => with_place(&call, KIND, priority(request.priority), estimate),
        false => estimate,
    };
    answer::json(&JobPreview {
        parameters: serde_json::from_value(shown).map_err(ApiError::internal)?,
        warnings,
        estimate,
        extra: Default::default(),
    })
}

/// A request for a job on a system that is built, and what comes of it.
struct Resolved {
    request: JobCreateParams,
    system: Task,
    parameters: simulate::Parameters,
    /// What of them is probably not meant.
    notices: Vec<Notice>,
    atoms: u64,
    size: simulate::Size,
    /// Most bytes of results.
    bytes: i64,
}

/// Resolves a request; where it has masks, in turn with others that keep a thread for a while.
async fn resolved(
    call: &Call,
    request: JobCreateParams,
    system: Task,
    outside: Vec<ValidationError>,
) -> Result<Resolved, ApiError> {
    let mut stages = request.equilibration.iter().flatten();
    let has_masks = request.excerpt.is_some() || stages.any(|stage| stage.restraint_mask.is_some());
    let work = move |app: &App| {
        let built = simulate::System::of(&system)?;
        let parameters = simulate::resolve(app, &request, &built, outside)?;
        let notices = notices(app, &parameters, &built)?;
        let (atoms, size) = (built.atoms, parameters.size_on(app, &built)?);
        let bytes = simulate::result_bytes(app, &parameters, &built)?;
        Ok(Resolved { request, system, parameters, notices, atoms, size, bytes })
    };
    if has_masks { call.in_turn(true, work).await } else { work(&call.app) }
}

/// Atoms that the build of a system is estimated to give; none where that cannot be told before.
async fn atoms_to_come(call: &Call, system: &Task) -> Result<Option<u64>, ApiError> {
    let plan: BuildPlan = stored(&system.parameters)?;
    let (estimate, _) = estimate::of_system(&call.app, &plan, call.account(), None).await?;
    Ok(estimate.atoms)
}

/// Code of the warning about a job that is checked before its system is built.
const SYSTEM_NOT_BUILT: &str = "system_not_built";

fn not_built(system: &Task, atoms: Option<u64>) -> Notice {
    let basis = match atoms {
        Some(atoms) => format!("the job is estimated by the {atoms} atoms that it is to have"),
        None => "memory, bytes and time depend on how many atoms it gets".to_owned(),
    };
    let Task { id, status, .. } = system;
    Notice {
        code: SYSTEM_NOT_BUILT.to_owned(),
        message: format!(
            "{id} is {status}: {basis}; masks and the widest cutoff are checked when it is built"
        ),
        loc: vec![loc("body"), loc("box_id")],
        residues: Vec::new(),
        extra: Default::default(),
    }
}

/// What of the parameters of a job is probably not meant.
fn notices(
    app: &App,
    parameters: &simulate::Parameters,
    system: &simulate::System<'_>,
) -> Result<Vec<Notice>, ApiError> {
    let mut notices = unlikely::notices(parameters);
    notices.extend(unlikely::of_system(parameters, system));
    notices.extend(unlikely::of_masks(app, parameters, system)?);
    Ok(notices)
}

/// The system that a job is to run on; with a refusal, everything else that cannot be run.
async fn resolved_system(
    call: &Call,
    request: &JobCreateParams,
    outside: &[ValidationError],
    is_fit: fn(Status) -> bool,
) -> Result<Task, ApiError> {
    match system(call, request, is_fit).await {
        Ok(system) => Ok(system),
        Err(error) => {
            let mut violations = simulate::violations(&call.app, request, outside.to_vec());
            error.add_to(&mut violations)?;
            Err(ApiError::unresolved(violations))
        }
    }
}

fn is_built(status: Status) -> bool {
    status == Status::Succeeded
}

fn is_coming(status: Status) -> bool {
    matches!(status, Status::Queued | Status::Running | Status::Succeeded)
}

/// The system that a job is to run on, in a state that is fit for what is asked.
async fn system(
    call: &Call,
    request: &JobCreateParams,
    is_fit: fn(Status) -> bool,
) -> Result<Task, ApiError> {
    let at = vec![loc("body"), loc("box_id")];
    let system = match &request.box_id {
        Some(id) => call.app.db.task(call.account(), Kind::System, id).await?.ok_or_else(|| {
            let gone = call.app.config.retention.of_what_is_gone();
            ApiError::not_found_in_body("box_id", format!("no system {}{gone}", id.as_str()))
        })?,
        None => call.app.db.latest_task(call.account(), Kind::System).await?.ok_or_else(|| {
            ApiError::invalid_body(
                "missing",
                vec![loc("box_id")],
                "there is no system yet; build one and give its id",
            )
        })?,
    };
    if !is_fit(system.status) {
        return Err(not_ready(
            at,
            &system.id,
            system.status,
            "a job needs a system that has succeeded",
        ));
    }
    Ok(system)
}

pub(crate) async fn job_list(call: Call) -> Result<Response, ApiError> {
    listed(&call, KIND).await
}

pub(crate) async fn job_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&call.app, &find(&call, KIND).await?)?))
}

pub(crate) async fn job_delete(call: Call) -> Result<Response, ApiError> {
    delete_task(&call, KIND).await
}

pub(crate) async fn job_cancel(call: Call) -> Result<Response, ApiError> {
    cancelled(&call, KIND).await
}

pub(crate) async fn job_extend(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (extension, warnings) = call.request::<JobExtension>()?;
    app.check_disk()?;
    let row = find(&call, KIND).await?;
    let at = || vec![loc("path"), loc("job_id")];
    if row.status != Status::Succeeded {
        return Err(not_ready(
            at(),
            &row.id,
            row.status,
            "only a job that has succeeded can be extended",
        ));
    }
    let parameters = simulate::extended(&stored(&row.parameters)?, &row.id, extension.time)?;
    if !has_commit(&app.objects, &row.id)? {
        return Err(ApiError::conflict(
            at(),
            format!("{} left nothing to go on from; submit it anew", row.id),
        ));
    }
    let system = system_of(&call, &row).await?;
    let system = simulate::System::of(&system)?;
    if let Some(excess) = simulate::excess(app, &parameters, &system)? {
        let remedy = "ask for less time, or submit a job that writes less often";
        return Err(excess.at(vec![loc("body"), loc("time")], remedy));
    }
    let bytes = simulate::result_bytes(app, &parameters, &system)?;
    let parameters = json(&parameters)?;
    let queued = Task {
        status: Status::Queued,
        parameters: parameters.clone(),
        warnings: both(&row.warnings, &warnings),
        finished_at: None,
        expires_at: None,
        attempts: 0,
        outcome: None,
        ..row
    };
    let answer = record_answer(record(app, &queued)?);
    let extended = Extended { parameters, warnings: queued.warnings.clone(), bytes };
    let done = app
        .db
        .extend_task(
            queued.id.clone(),
            extended,
            app.allowance(),
            call.idempotent_write(),
            answer.clone(),
        )
        .await?;
    app.queued(Lane::Workers).notify_one();
    once(done, &answer, |reason| unqueued(reason, at))
}

pub(crate) async fn job_retry(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    app.check_disk()?;
    let row = find(&call, KIND).await?;
    let at = || vec![loc("path"), loc("job_id")];
    if !matches!(row.status, Status::Failed | Status::Cancelled) {
        return Err(not_ready(
            at(),
            &row.id,
            row.status,
            "only a job that has failed or was cancelled can be retried",
        ));
    }
    let parameters = stored(&row.parameters)?;
    let system = system_of(&call, &row).await?;
    let system = simulate::System::of(&system)?;
    if let Some(excess) = simulate::excess(app, &parameters, &system)? {
        return Err(
            excess.at(at(), "submit a job that writes less often, or delete what is not needed")
        );
    }
    let queued = Task {
        status: Status::Queued,
        finished_at: None,
        expires_at: None,
        is_cancelled: false,
        outcome: None,
        ..row
    };
    let answer = record_answer(record(app, &queued)?);
    let bytes = simulate::result_bytes(app, &parameters, &system)?;
    let done = app
        .db
        .retry_task(
            queued.id.clone(),
            bytes,
            app.allowance(),
            call.idempotent_write(),
            answer.clone(),
        )
        .await?;
    tracing::info!(task = %queued.id, "retried");
    app.queued(Lane::Workers).notify_one();
    once(done, &answer, |reason| unqueued(reason, at))
}

/// The system of a job, which is not deleted before it.
async fn system_of(call: &Call, job: &Task) -> Result<Task, ApiError> {
    let id = job.parent.as_deref().unwrap_or_default();
    let system = call.app.db.task(call.account(), Kind::System, id).await?;
    system.ok_or_else(|| ApiError::internal(anyhow::anyhow!("{} has no system", job.id)))
}

pub(crate) async fn job_log(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    let offset = call.whole("offset").unwrap_or(0);
    let app = &call.app;
    let body = match Log::of(&app.objects, &app.task_folder(&row.id), &row.id)? {
        Some(log) => Body::from_stream(while_good(&call, log.stream(&app.objects, offset)?)),
        None => Body::empty(),
    };
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))], body)
        .into_response())
}

pub(crate) async fn job_series(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    let (_, stage) = stage(&call, &row)?;
    let after = call.whole("after").unwrap_or(0);
    let points = call.whole("points").map_or(POINTS, |points| points as usize);
    let (id, name) = (row.id.clone(), format!("{stage}.csv"));
    let read = call.in_turn(true, move |app| match Output::of(app, &id, &name)? {
        Some(log) => Ok(series::read(&log.open(&app.objects)?, after, points)?),
        None => Ok(Series::default()),
    });
    let Series { n_rows, columns } = read.await?;
    let columns =
        series::COLUMNS.into_iter().zip(columns).map(|((name, unit), values)| SeriesColumn {
            name: name.to_owned(),
            unit: unit.map(str::to_owned),
            values: values.into_iter().map(finite).collect(),
            extra: Default::default(),
        });
    let columns = columns.collect();
    answer::json(&JobSeries {
        job_id: row.id,
        stage,
        rows: n_rows,
        columns,
        extra: Default::default(),
    })
}

fn finite(value: f64) -> Finite {
    Finite::try_from(value).expect("a row has finite numbers")
}

/// The stage of a job that the query names, or its last; with its number, from 0.
fn stage(call: &Call, job: &Task) -> Result<(usize, String), ApiError> {
    let stages = simulate::stage_names(&stored(&job.parameters)?);
    let at = || vec![loc("query"), loc("stage")];
    let names = stages.join(", ");
    let Some(wanted) = call.query("stage") else {
        return stages.into_iter().enumerate().next_back().ok_or_else(|| {
            let msg = format!("{} minimises the energy alone; it has no stage", job.id);
            ApiError::conflict(at(), msg)
        });
    };
    let found = stages.into_iter().enumerate().find(|(_, stage)| stage == wanted);
    let msg = format!("{} has no such stage, but {names}", job.id);
    found.ok_or_else(|| ApiError::invalid(vec![violation("value_error", at(), msg)]))
}

pub(crate) async fn job_download(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    let not_ended = || {
        let at = vec![loc("path"), loc("job_id")];
        not_ready(at, &row.id, row.status, "its results can be downloaded when it has ended")
    };
    // One that is extended or retried has those of before until it has others; they are not its
    // results any more.
    if row.status.is_open() {
        return Err(not_ended());
    }
    let layout = bundle(&call, &row).await?.ok_or_else(not_ended)?;
    call.note_download(&row.id).await;
    download(&call, layout, "application/zip", &format!("{}.zip", row.id))
}

pub(crate) async fn job_trajectory(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    let stage = stage(&call, &row)?;
    let name = format!("{}-{}.dcd", row.id, stage.1);
    let (asked, id) = (Asked::of(&call), row.id.clone());
    let made =
        call.in_turn(true, move |app| Made::of_job(app, &row, (stage.0, &stage.1), &asked)).await?;
    call.note_download(&id).await;
    made.answer(&call, &name)
}
