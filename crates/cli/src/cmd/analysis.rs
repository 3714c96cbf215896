//! `molbox analysis`

use clap::{Args, Subcommand};
use molbox::workflow::Client;
use molbox::workflow::types::{AnalysisRecord, AnalysisRequest, JobRecord, SystemRecord};

use super::task;
use crate::context::Context;
use crate::failure::Failure;
use crate::request::{Analysis, Request};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Analyse the trajectory of a job, or a registered one.
    ///
    /// Example: molbox analysis submit --job-id job_… --rmsd '@CA' --distance ':1@CA :36@CA' --wait
    Submit(Submit),
    /// Check an analysis and count the atoms and frames that it would read; nothing is analysed.
    #[command(visible_alias = "check")]
    Estimate(task::Estimate<Analysis>),
    /// Retrieve the tables of an analysis, or of a job's latest, as JSON.
    Data {
        /// Identifier of an analysis or a job.
        id: String,
    },
    #[command(flatten)]
    Common(task::Verb),
}

#[derive(Args, Debug)]
pub(crate) struct Submit {
    #[command(flatten)]
    request: Request<Analysis>,
    /// Wait until it has ended.
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let Submit { request, wait } = match command {
        Command::Submit(submit) => submit,
        Command::Estimate(estimate) => {
            let mut checked = estimate.checked()?;
            let client = context.workflow()?;
            refer(&client, &mut checked).await?;
            let preview = client.analysis_check().body(checked).send().await?.into_inner();
            return task::estimated(context, &preview);
        }
        Command::Data { id } => {
            let client = context.workflow()?;
            let id = if id.starts_with("job_") {
                task::referred::<JobRecord>(&client, &id).await?
            } else {
                task::referred::<AnalysisRecord>(&client, &id).await?
            };
            return context.output.json(&*client.analysis_retrieve().job_id(&id).send().await?);
        }
        Command::Common(verb) => return task::run::<AnalysisRecord>(context, verb).await,
    };
    let (value, mut checked) = request.checked()?;
    if request.dry_run {
        let check = async |client: Client| {
            refer(&client, &mut checked).await?;
            Ok(client.analysis_check().body(checked).send().await?.into_inner())
        };
        return task::dry_run(context, &value, check).await;
    }
    let client = context.workflow()?;
    refer(&client, &mut checked).await?;
    let record = client.analysis_submit().body(checked).send().await?.into_inner();
    task::submitted(context, &client, vec![record], wait).await
}

/// Has an analysis name jobs and systems by their whole identifiers.
async fn refer(client: &Client, analysis: &mut AnalysisRequest) -> Result<(), Failure> {
    for job in [&mut analysis.job_id, &mut analysis.reference_job].into_iter().flatten() {
        *job = task::referred::<JobRecord>(client, job).await?;
    }
    if let Some(system) = &mut analysis.reference_system {
        *system = task::referred::<SystemRecord>(client, system).await?;
    }
    Ok(())
}
