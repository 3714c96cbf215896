//! `molbox estimate`: what a request of any kind would come to.

use clap::Subcommand;

use super::{analysis, job, system, task};
use crate::context::Context;
use crate::failure::Failure;
use crate::request::{Analysis, System};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Of a system, as `molbox system estimate` does.
    ///
    /// Example: molbox estimate system --protein protein --minimum-padding 1.2
    System(task::Estimate<System>),
    /// Of a job, as `molbox job estimate` does.
    ///
    /// Example: molbox estimate job --box-id box_… --time 10ns
    Job(Box<job::EstimateJob>),
    /// Of an analysis, as `molbox analysis estimate` does.
    ///
    /// Example: molbox estimate analysis --job-id job_… --rmsd '@CA'
    Analysis(task::Estimate<Analysis>),
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::System(of) => system::run(context, system::Command::Estimate(of)).await,
        Command::Job(of) => job::run(context, job::Command::Estimate(of)).await,
        Command::Analysis(of) => analysis::run(context, analysis::Command::Estimate(of)).await,
    }
}
