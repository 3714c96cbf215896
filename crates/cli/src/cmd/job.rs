//! `molbox job`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use molbox::workflow::Client;
use molbox::workflow::types::{JobCreateParams, JobRecord, JobSeries, SystemRecord};
use serde_json::Value;

use super::{events, task};
use crate::context::Context;
use crate::failure::Failure;
use crate::request::{Job, Request};
use crate::units;

const PAUSE: Duration = Duration::from_millis(500);
/// Requests that are under way together when replicas are submitted.
const AT_A_TIME: usize = 4;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Simulate a built system.
    ///
    /// Example: molbox job submit --box-id box_… --temperature 310K --time 500ps
    /// --integration-timestep 4fs --wait
    Submit(Box<Submit>),
    /// Check a job and estimate its steps, frames, memory, disk and time; nothing is submitted.
    ///
    /// Example: molbox job estimate --box-id box_… --time 10ns
    #[command(visible_alias = "check")]
    Estimate(Box<EstimateJob>),
    /// Simulate further from where a job ended.
    Extend {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// How much longer, in ns unless it has a unit.
        #[arg(long, value_parser = |text: &str| units::parse(text, "ns"))]
        time: f64,
        /// Wait until it has ended.
        #[arg(long)]
        wait: bool,
    },
    /// Resume a job that has failed or was cancelled, from its last checkpoint.
    Retry {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// Wait until it has ended.
        #[arg(long)]
        wait: bool,
    },
    /// Show the log of a job.
    Log {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// Go on until the job has ended.
        #[arg(short, long)]
        follow: bool,
    },
    /// Follow the events of a job as the service sends them: a record on each line, as JSON.
    Events {
        /// Identifier; `latest` is the one submitted last.
        id: String,
    },
    /// Show what a stage of a job has logged: energies, temperature, volume, density.
    Series {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// Stage: `equilibration_1` and so on, or `production`. Default: the last.
        #[arg(long)]
        stage: Option<String>,
        /// Only rows of later steps than this.
        #[arg(long, value_name = "STEP", value_parser = |text: &str| units::whole(text, 0u64))]
        after: Option<u64>,
        /// Most values of a column; of more rows the least and the largest are shown.
        #[arg(long, value_name = "COUNT", value_parser = |text: &str| units::whole_within(text, 2..=20000))]
        points: Option<i64>,
    },
    /// Download chosen atoms and frames of a trajectory as DCD, also while the job runs.
    ///
    /// Example: molbox job trajectory latest --mask '!:HOH,NA,CL' --stride 10
    Trajectory {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// Stage: `equilibration_1` and so on, or `production`. Default: the last.
        #[arg(long)]
        stage: Option<String>,
        #[command(flatten)]
        frames: task::Frames,
        /// File to write. Default: `ID.dcd`.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    #[command(flatten)]
    Common(task::Verb),
}

#[derive(Args, Debug)]
pub(crate) struct EstimateJob {
    #[command(flatten)]
    request: task::Estimate<Job>,
    /// Instead of a system that is built: one of so many atoms. Masks are not checked then.
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| units::whole(text, 1u64))]
    atoms: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Submit {
    #[command(flatten)]
    request: Request<Job>,
    /// Submit it so many times, with `batch_index` and a given seed counted up.
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| units::whole(text, 1u32))]
    replicas: Option<u32>,
    /// Wait until it has ended.
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Submit(submit) => self::submit(context, *submit).await,
        Command::Estimate(estimate) => {
            let EstimateJob { request, atoms } = *estimate;
            let mut checked = request.checked()?;
            let client = context.workflow()?;
            let check = match atoms {
                Some(_) if checked.box_id.is_some() => {
                    return Err(Failure::usage("give --atoms or --box-id, not both"));
                }
                Some(atoms) => client.job_check().atoms(atoms),
                None => client.job_check(),
            };
            refer(&client, &mut checked).await?;
            task::estimated(context, &*check.body(checked).send().await?)
        }
        Command::Extend { id, time, wait } => {
            let client = context.workflow()?;
            let id = task::resolve::<JobRecord>(&client, &id).await?;
            let extend = client.job_extend().job_id(&id).body_map(|extension| extension.time(time));
            let record = extend.send().await?.into_inner();
            task::submitted(context, &client, vec![record], wait).await
        }
        Command::Retry { id, wait } => {
            let client = context.workflow()?;
            let id = task::resolve::<JobRecord>(&client, &id).await?;
            let record = client.job_retry().job_id(&id).send().await?.into_inner();
            task::submitted(context, &client, vec![record], wait).await
        }
        Command::Log { id, follow } => {
            let client = context.workflow()?;
            let id = task::resolve::<JobRecord>(&client, &id).await?;
            log(context, &client, &id, follow).await
        }
        Command::Events { id } => {
            let client = context.workflow()?;
            let id = task::resolve::<JobRecord>(&client, &id).await?;
            events::of_job(context, &client, &id).await
        }
        Command::Series { id, stage, after, points } => {
            let client = context.workflow()?;
            let id = task::resolve::<JobRecord>(&client, &id).await?;
            let mut series = client.job_series().job_id(&id);
            if let Some(stage) = &stage {
                series = series.stage(stage);
            }
            if let Some(after) = after {
                series = series.after(after);
            }
            if let Some(points) = points {
                series = series.points(points);
            }
            show(context, &series.send().await?.into_inner())
        }
        Command::Trajectory { id, stage, frames, output } => {
            let client = context.workflow()?;
            let id = task::resolve::<JobRecord>(&client, &id).await?;
            let call = client.call("GET", &format!("/retrieve/job/{id}/trajectory"))?;
            let call = stage.iter().fold(call, |call, stage| call.query("stage", stage));
            let path = output.unwrap_or_else(|| format!("{id}.dcd").into());
            task::save(context, frames.of(call), path).await
        }
        Command::Common(verb) => task::run::<JobRecord>(context, verb).await,
    }
}

async fn submit(
    context: &Context,
    Submit { request, replicas, wait }: Submit,
) -> Result<(), Failure> {
    let (value, mut checked) = request.checked()?;
    if request.dry_run {
        let check = async |client: Client| {
            refer(&client, &mut checked).await?;
            Ok(client.job_check().body(checked).send().await?.into_inner())
        };
        return task::dry_run(context, &value, check).await;
    }
    let client = context.workflow()?;
    refer(&client, &mut checked).await?;
    let names_no_system = checked.box_id.is_none();
    let records = match replicas {
        None => vec![client.job_submit().body(checked).send().await?.into_inner()],
        Some(n) => {
            let mut jobs = BTreeMap::new();
            let batch = molbox::run::random_id("batch");
            let on_job = |index, job| {
                jobs.insert(index, job);
                Ok(())
            };
            let all = client.submit_missing(&checked, 0..n, &batch, AT_A_TIME, on_job).await;
            let jobs: Vec<JobRecord> = jobs.into_values().collect();
            if let Err(error) = all {
                // Nothing else says what they are called.
                if !jobs.is_empty() {
                    context.output.note(&format!("{} of {n} replicas were submitted", jobs.len()));
                    task::submitted(context, &client, jobs, false).await?;
                }
                return Err(error.into());
            }
            jobs
        }
    };
    if let Some(job) = records.first().filter(|_| names_no_system) {
        // Perhaps another one than was thought of: with several it would be the wrong simulation.
        let system = client.system_view().system_id(&job.box_id).send().await?;
        let name = system.box_name.as_deref().map(|name| format!("{name}, ")).unwrap_or_default();
        context.output.note(&format!(
            "on the newest system, {name}{}; --box-id names another",
            job.box_id.as_str()
        ));
    }
    task::submitted(context, &client, records, wait).await
}

/// Has a job name its system by the whole identifier.
async fn refer(client: &Client, job: &mut JobCreateParams) -> Result<(), Failure> {
    if let Some(id) = &job.box_id {
        let id = task::referred::<SystemRecord>(client, id).await?;
        job.box_id = Some(id.parse().expect("it is not empty"));
    }
    Ok(())
}

/// What a stage has logged: as JSON columns, as a table for people rows.
fn show(context: &Context, series: &JobSeries) -> Result<(), Failure> {
    if context.output.is_json() {
        return context.output.json(series);
    }
    let heads = series.columns.iter().map(|column| match &column.unit {
        Some(unit) => format!("{} ({unit})", column.name.replace('_', " ").to_uppercase()),
        None => column.name.to_uppercase(),
    });
    let heads: Vec<(String, String)> =
        heads.enumerate().map(|(nth, head)| (head, format!("/{nth}"))).collect();
    let n_rows = series.columns.first().map_or(0, |column| column.values.len());
    let row = |nth: usize| series.columns.iter().map(|column| column.values[nth].get()).collect();
    let rows: Vec<Value> = (0..n_rows).map(row).collect();
    let columns: Vec<(&str, &str)> =
        heads.iter().map(|(head, pointer)| (head.as_str(), pointer.as_str())).collect();
    context.output.table(&columns, &rows)
}

async fn log(context: &Context, client: &Client, id: &str, follow: bool) -> Result<(), Failure> {
    let mut offset = 0;
    loop {
        // Looked at before the log is read: what was written until the end is read then.
        let record = client.job_view().job_id(id).send().await?;
        let is_over = !["queued", "running"].contains(&record.status.as_str());
        let call = client
            .call("GET", &format!("/info/job/{id}/log"))?
            .query("offset", &u64::to_string(&offset));
        let bytes = call.header("accept", "text/plain")?.send().await?.bytes().await?;
        offset += bytes.len() as u64;
        context.output.bytes(&bytes)?;
        if !follow || is_over {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
