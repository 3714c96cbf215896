//! `molbox system`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use molbox::workflow::Client;
use molbox::workflow::types::{MaskSelection, SelectedPart, SystemBuildRequest, SystemRecord};
use serde_json::{Value, json};

use super::{file, task};
use crate::content;
use crate::context::Context;
use crate::failure::{Code, Failure};
use crate::request::{Request, System};
use crate::shell::quoted;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Build a system: solvate, add ions, parametrise.
    ///
    /// Example: molbox system submit --protein villin --box-shape dodecahedron --concentration
    /// 150mM --wait
    #[command(visible_alias = "build")]
    Submit(Submit),
    /// Show which atoms of a system a mask selects, and how masks name the residues that they are in;
    /// without a mask, what there is to select.
    ///
    /// Example: molbox system atoms latest ':1-10@CA'
    Atoms {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// Amber mask. Default: all atoms.
        #[arg(default_value = "*", hide_default_value = true)]
        mask: String,
    },
    /// Download the structure of a system as mmCIF.
    Structure {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// Amber mask of the atoms. Default: all.
        #[arg(long)]
        mask: Option<String>,
        /// As it was built, or completed before anything was added around it.
        #[arg(long, value_parser = ["system", "prepared"], default_value = "system")]
        of: String,
        /// File to write. Default: `ID.cif`.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Check a system and estimate its atoms, memory and time, as the service would build it;
    /// nothing is built.
    #[command(visible_alias = "check")]
    Estimate(task::Estimate<System>),
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
        Command::Atoms { id, mask } => {
            let client = context.workflow()?;
            let id = task::resolve::<SystemRecord>(&client, &id).await?;
            let selection = client.mask_view().system_id(&id).mask(&mask).send().await?;
            return selected(context, &selection);
        }
        Command::Structure { id, mask, of, output } => {
            let client = context.workflow()?;
            let id = task::resolve::<SystemRecord>(&client, &id).await?;
            let call = client.call("GET", &format!("/retrieve/system/{id}/structure"))?;
            let call = call.query("of", &of);
            let call = mask.iter().fold(call, |call, mask| call.query("mask", mask));
            let path = output.unwrap_or_else(|| format!("{id}.cif").into());
            return task::save(context, call, path).await;
        }
        Command::Estimate(estimate) => {
            let mut checked = estimate.checked()?;
            let client = context.workflow()?;
            refer(&client, &mut checked).await?;
            let preview = client.system_check().body(checked).send().await?.into_inner();
            return task::estimated(context, &preview);
        }
        Command::Common(verb) => return task::run::<SystemRecord>(context, verb).await,
    };
    let (value, mut checked) = request.checked()?;
    if request.dry_run {
        let check = async |client: Client| {
            refer(&client, &mut checked).await?;
            Ok(client.system_check().body(checked).send().await?.into_inner())
        };
        return task::dry_run(context, &value, check).await;
    }
    let client = context.workflow()?;
    refer(&client, &mut checked).await?;
    let record = client.system_submit().body(checked).send().await?.into_inner();
    task::submitted(context, &client, vec![record], wait).await
}

/// What a mask selects; for people with the masks that they need for others.
fn selected(context: &Context, selection: &MaskSelection) -> Result<(), Failure> {
    let mut shown = task::value(selection)?;
    if context.output.is_json() {
        return context.output.record(&shown);
    }
    if let Some(members) = shown.as_object_mut() {
        members.shift_remove("ranges");
        members.shift_remove("parts");
    }
    let run = |run: &Vec<u64>| match run[..] {
        [first, last] if first < last => format!("{first}-{last}"),
        _ => run.iter().map(u64::to_string).collect(),
    };
    let numbers: Vec<String> = selection.ranges.iter().map(run).collect();
    if (1..=MOST_LISTED).contains(&numbers.len()) {
        shown["numbers"] = format!("@{}", numbers.join(",")).into();
    }
    if let [part] = &selection.parts[..] {
        shown["names"] = part.atom_names.join(", ").into();
    }
    context.output.record(&shown)?;
    let rows: Vec<Value> = selection.parts.iter().map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    context.output.text("\n")?;
    let columns =
        [("RESIDUES", "/name"), ("COUNT", "/residues"), ("ATOMS", "/atoms"), ("MASK", "/mask")];
    context.output.table(&columns, &rows)
}

/// So many runs of atoms are listed by their numbers.
const MOST_LISTED: usize = 8;

fn row(part: &SelectedPart) -> Value {
    let name = match (&part.residue_name, &part.last_residue) {
        (Some(name), Some(_)) => name.clone(),
        (None, Some(last)) => format!("{} to {last}", part.first_residue),
        (_, None) => part.first_residue.clone(),
    };
    json!({"name": name, "residues": part.residues, "atoms": part.atoms, "mask": part.mask})
}

/// Has a system name its files by their whole identifiers, or by their names.
async fn refer(client: &Client, system: &mut SystemBuildRequest) -> Result<(), Failure> {
    for id in system.protein.iter_mut().chain(&mut system.ligands).chain(&mut system.built) {
        if is_of_machine(id) && !file::is_registered(client, id).await? {
            return Err(unregistered(id));
        }
        *id = file::referred(client, id).await?;
    }
    Ok(())
}

/// Whether a file of this machine has such a name; one without an extension is rather an entry's.
fn is_of_machine(name: &str) -> bool {
    let path = Path::new(name);
    path.is_file() && (path.extension().is_some() || path.components().count() > 1)
}

/// That a file of this machine was given where one of the service is asked for.
fn unregistered(file: &str) -> Failure {
    let path = Path::new(file);
    let counted = content::counted(path).map_or_else(String::new, |found| format!(" ({found})"));
    let message = format!("{file} is a file of this machine{counted}, and not registered");
    let name = content::stem(file).unwrap_or_default();
    Failure::new(Code::NotFound, message).remedy(format!(
        "`molbox file upload {}` registers it as {name}; `molbox run` takes files as they are",
        quoted(file)
    ))
}
