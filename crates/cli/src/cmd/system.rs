//! `molbox system`

use clap::{Args, Subcommand};
use molbox::workflow::types::SystemRecord;

use super::task;
use crate::context::Context;
use crate::failure::Failure;
use crate::request::{Request, System};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Build a system: solvate, add ions, parametrise.
    ///
    /// Example: molbox system submit --protein villin --box-shape dodecahedron --concentration
    /// 150mM --wait
    #[command(visible_alias = "build")]
    Submit(Submit),
    #[command(flatten)]
    Common(task::Verb),
}

#[derive(Args, Debug)]
pub(crate) struct Submit {
    #[command(flatten)]
    request: Request<System>,
    /// Wait until it is built.
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let Submit { request, wait } = match command {
        Command::Submit(submit) => submit,
        Command::Common(verb) => return task::run::<SystemRecord>(context, verb).await,
    };
    let (value, checked) = request.checked()?;
    if request.dry_run {
        return context.output.json(&value);
    }
    let client = context.workflow()?;
    let record = client.system_submit().body(checked).send().await?.into_inner();
    task::submitted(context, &client, vec![record], wait).await
}
