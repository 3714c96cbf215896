//! `molbox run`: from a structure file to a report.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use molbox::Error;
use molbox::run::{Event, Plan, Replica, Run, STATE_FILE, random_id};
use molbox::workflow::Client;
use molbox::workflow::types::{
    AnalysisRequest, Estimate, JobCreateParams, LocItem, Notice, SystemBuildRequest,
};
use molbox_analysis::Mask;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{entry, report, task};
use crate::context::Context;
use crate::failure::{Code, Failure};
use crate::flag_names::shown_place;
use crate::interrupt::unless_interrupted;
use crate::output::Output;
use crate::request::{self, Body, Flags};
use crate::shell::quoted;
use crate::{archive, content, schema, units};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Structure file, PDB or mmCIF, perhaps compressed (.gz); or a public entry such as 1L2Y, or a
    /// registered file. Or the files of a system that another program has built:
    /// `system.prmtop system.inpcrd`, `topol.top conf.gro`, `system.psf system.pdb par.prm`,
    /// `system.xml system.pdb`, or one zip archive of them.
    #[arg(required_unless_present = "resume", num_args = 1..)]
    structure: Vec<String>,
    /// Ligand files: SDF, MOL, MOL2 or PDB, placed as their coordinates say.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    ligand: Vec<PathBuf>,
    /// What to begin with; every flag below overrides it. `--membrane` alone chooses `membrane`.
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// A TOML, YAML or JSON file with the parts `system`, `job` and `analysis`; overrides the
    /// preset.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many times to simulate, each with velocities of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = |text: &str| units::whole(text, 1u32))]
    replicas: u32,
    /// Folder for state and results. Default: the structure's name with `-run`.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Leave out the analysis.
    #[arg(long)]
    no_analysis: bool,
    /// Submit nothing: check names, types, units and bounds, and show what would be sent. With a
    /// key the service checks it too, files included, which it does not keep: what the system is
    /// built with, defaults filled in, its atoms, memory and time.
    #[arg(long)]
    dry_run: bool,
    /// Begin anew in a folder that holds a run, whose state and results are replaced. What it
    /// submitted stays at the service.
    #[arg(long)]
    restart: bool,
    /// Resume an interrupted run as it was begun: that of the folder, or the last one in this
    /// folder.
    #[arg(
        long,
        value_name = "FOLDER",
        num_args = 0..=1,
        conflicts_with_all = ["structure", "ligand", "preset", "file", "replicas", "output", "no_analysis", "dry_run", "restart"]
    )]
    resume: Option<Option<PathBuf>>,
    #[command(flatten)]
    system: Flags<System>,
    #[command(flatten)]
    job: Flags<Job>,
    #[command(flatten)]
    analysis: Flags<Analysis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Preset {
    /// 0.1 ns in a small box: does it build and run?
    Quick,
    /// 1 ns in salt water after 0.3 ns of equilibration.
    Standard,
    /// 1 ns in a lipid bilayer after 1.1 ns of equilibration.
    Membrane,
}

const STRUCTURES: &str = "give a structure file, a public entry such as 1L2Y, or a registered file \
                          (`molbox file list` lists them)";

macro_rules! part {
    ($name:ident, $schema:literal, $type:ty, $without:expr) => {
        #[derive(Debug)]
        enum $name {}

        impl Body for $name {
            const SCHEMA: &'static str = $schema;
            const WITHOUT: &'static [&'static str] = $without;
            type Checked = $type;
        }
    };
}

// What the run fills in has no flag.
part!(System, "SystemBuildRequest", SystemBuildRequest, &["built", "protein", "ligands"]);
part!(Job, "JobCreateParams", JobCreateParams, &["box_id", "batch_index"]);
part!(
    Analysis,
    "AnalysisRequest",
    AnalysisRequest,
    &["job_id", "allow_unfinished", "topology", "trajectory"]
);

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<(), Failure> {
    let mut run = match &arguments.resume {
        Some(_) if arguments.has_fields() => {
            return Err(Failure::usage(
                "a run is resumed as it was begun: --resume goes with no field of a request",
            ));
        }
        Some(folder) => open(folder.clone().map_or_else(last_begun, Ok)?)?,
        None => {
            if arguments.dry_run {
                return preview(context, &arguments.plan()?).await;
            }
            begin(context, &arguments).await?
        }
    };
    let summary = unless_interrupted(finish(&mut run, context)).await;
    let is_resumed = arguments.resume.is_some();
    let summary = summary.map_err(|failure| match is_resumed {
        true => advised_again(failure, &run),
        false => advised(failure, &run),
    })?;
    if context.output.is_json() {
        let mut line = json!({"event": "done"});
        request::merge(&mut line, &summary);
        return context.output.json_line(&line);
    }
    context.output.record(&summary)
}

/// The run of a folder that somebody named.
fn open(folder: PathBuf) -> Result<Run, Failure> {
    if !folder.join(STATE_FILE).exists() {
        let failure = Failure::new(Code::NotFound, format!("no run in {}", folder.display()));
        return Err(
            failure.remedy("`molbox run --resume` alone resumes the last one of this folder")
        );
    }
    Ok(Run::open(folder)?)
}

/// Begins a run in its folder; nothing is submitted yet.
pub(crate) async fn begin(context: &Context, arguments: &Arguments) -> Result<Run, Failure> {
    let mut plan = arguments.plan()?;
    plan.check()?;
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(&plan.structure));
    let has_old = gives_way(context, &folder, arguments.restart)?;
    let client = context.workflow()?;
    warn_of_unlikely(context, &plan.job)?;
    check_job(&client, &plan.job, None).await?;
    if has_old {
        make_way(&folder)?;
    }
    prepare(context, &client, &mut plan, &folder).await?;
    Ok(Run::begin(plan, folder)?)
}

/// Shows what would be sent, and with a key what the service makes of it.
async fn preview(context: &Context, plan: &Plan) -> Result<(), Failure> {
    let mut shown = task::value(plan)?;
    shown["resolved"] = json!({});
    warn_of_unlikely(context, &plan.job)?;
    let client = match context.key {
        Some(_) => Some(context.workflow()?),
        None => {
            context.output.note(task::UNASKED);
            None
        }
    };
    if !plan.built.is_empty() {
        context.output.note("files of a built system are read once they are registered");
    } else if let Some(client) = &client {
        let checked = check_system(context, client, plan).await?;
        context.output.warnings(&checked);
        shown["resolved"]["system"] = checked["parameters"].clone();
        shown["estimate"] = checked["estimate"].clone();
        // Its jobs have theirs.
        if let Some(hours) = shown["estimate"].as_object_mut().and_then(|of| of.remove("hours")) {
            shown["estimate"]["build_hours"] = hours;
        }
    }
    shown["resolved"]["job"] = with_defaults(&task::value(&plan.job)?);
    shown["of_each_job"] = written(&shown["resolved"]["job"]);
    if let Some(client) = &client {
        let atoms = shown["estimate"]["atoms"].as_u64();
        let checked = check_job(client, &plan.job, atoms).await?;
        if let Some(mut estimate) = checked {
            // It is not submitted now, but when its system is built.
            estimate.queue = None;
            let estimate = task::value(&estimate)?;
            task::note_untimed(context, &estimate);
            shown["of_each_job"] = estimate;
        }
    }
    if context.output.is_json() {
        return context.output.json(&shown);
    }
    context.output.record(&summary(plan, &shown))
}

/// What the service makes of the system that a run would build. It reads the files of this machine
/// for that, as it would in the run, and does not keep them.
async fn check_system(context: &Context, client: &Client, plan: &Plan) -> Result<Value, Failure> {
    let folder = tempfile::tempdir().map_err(|e| Failure::file(&std::env::temp_dir(), &e))?;
    let structure = match origin(client, &plan.structure).await? {
        Origin::File => {
            let path = PathBuf::from(&plan.structure);
            Some(content::unpacked(&path, folder.path())?.unwrap_or(path))
        }
        Origin::Service => None,
        Origin::Elsewhere => {
            Some(entry::fetch(context, &plan.structure, folder.path()).await?.into())
        }
    };
    let mut sent = Vec::new();
    let checked = check_sent(client, plan, structure.as_deref(), &mut sent).await;
    for file in sent {
        // One that stays is in nobody's way; the check says more than why.
        let _ = client.file_delete().file_id(&file).send().await;
    }
    checked
}

/// The same; identifiers of the files that were sent for it go to `sent`.
async fn check_sent(
    client: &Client,
    plan: &Plan,
    structure: Option<&Path>,
    sent: &mut Vec<String>,
) -> Result<Value, Failure> {
    for path in structure.into_iter().chain(plan.ligands.iter().map(PathBuf::as_path)) {
        // The account may have one of the file's own name.
        let name = random_id("dry-run");
        let file =
            client.upload(path).name(&name).await.map_err(|error| renamed(error, &name, path));
        sent.push(file?.file_id);
    }
    let mut files = sent.iter().cloned();
    let mut request = plan.system.clone();
    request.protein = if structure.is_some() { files.next() } else { Some(plan.structure.clone()) };
    request.ligands = files.collect();
    let checked = client.system_check().body(request).send().await?.into_inner();
    let mut checked = task::value(&checked)?;
    // In the run they have others.
    let of_sent: &[&str] = if structure.is_some() { &["protein", "ligands"] } else { &["ligands"] };
    if let Some(parameters) = checked["parameters"].as_object_mut() {
        parameters.retain(|name, _| !of_sent.contains(&name.as_str()));
    }
    Ok(checked)
}

/// A refusal of a file that was sent under another name, by the one that it has here.
fn renamed(mut error: Error, name: &str, path: &Path) -> Error {
    if let Error::Refused(refusal) = &mut error {
        for violation in &mut refusal.violations {
            violation.msg = violation.msg.replace(name, &path.display().to_string());
        }
    }
    error
}

/// Warns of values of a job that hardly anybody means, which the service would only say of the job,
/// when its system is built.
fn warn_of_unlikely(context: &Context, job: &JobCreateParams) -> Result<(), Failure> {
    let job = with_defaults(&task::value(job)?);
    let stages = job["equilibration"].as_array().into_iter().flatten().chain([&job["production"]]);
    let ensembles: Vec<&str> = stages.filter_map(|stage| stage["type"].as_str()).collect();
    let has_pressure = ensembles.contains(&"NPT");
    let has_thermostat = has_pressure || ensembles.contains(&"NVT");
    let number = |field: &str| job[field].as_f64().unwrap_or_default();
    let unlikely = molbox::unlikely_values(
        number("temperature"),
        has_pressure.then(|| number("pressure")),
        has_thermostat.then(|| number("friction")),
        number("integration_timestep"),
    );
    for (_, message) in unlikely {
        context.output.warning(&message);
    }
    Ok(())
}

/// Refuses what the service would refuse of a job on any system: its own is not built yet, and nobody
/// wants to wait for that first. Of one whose atoms are known, what the job would take.
async fn check_job(
    client: &Client,
    job: &JobCreateParams,
    atoms: Option<u64>,
) -> Result<Option<Estimate>, Failure> {
    let mut request = job.clone();
    // A service of an earlier version would take the newest system where none is named.
    request.box_id = Some(NO_SYSTEM.parse().expect("it has the form of an identifier"));
    let check = client.job_check().body(request);
    let check = match atoms {
        Some(atoms) => check.atoms(atoms),
        None => check,
    };
    let mut error = match check.send().await {
        Ok(checked) => return Ok(Some(checked.into_inner().estimate)),
        Err(error) => error,
    };
    if let Error::Refused(refusal) = &mut error {
        let is_of_system = |loc: &LocItem| *loc == LocItem::String("box_id".to_owned());
        refusal.violations.retain(|violation| !violation.loc.iter().any(is_of_system));
        if refusal.violations.is_empty() {
            return Ok(None);
        }
    }
    Err(error.into())
}

/// An identifier that no system has: a check on it finds everything else that is wrong.
const NO_SYSTEM: &str = "box_00000000000000000000";

/// A job with the defaults that the service fills in, of its stages too.
fn with_defaults(job: &Value) -> Value {
    let mut filled = defaults("JobCreateParams");
    request::merge(&mut filled, job);
    let timestep_fs = filled["integration_timestep"].as_f64().unwrap_or_default();
    if let Some(production) = filled.get_mut("production").filter(|stage| stage.is_object()) {
        *production = stage_with_defaults("ProductionParams", production, timestep_fs);
    }
    let equilibration = filled.get_mut("equilibration").and_then(Value::as_array_mut);
    for stage in equilibration.into_iter().flatten() {
        *stage = stage_with_defaults("EquilibrationStep", stage, timestep_fs);
    }
    filled
}

fn stage_with_defaults(schema: &str, stage: &Value, timestep_fs: f64) -> Value {
    let mut filled = defaults(schema);
    request::merge(&mut filled, stage);
    let n_steps = n_steps(&filled, timestep_fs);
    for frequency in ["traj_freq", "log_freq"] {
        // A default that is too long for the stage gives one frame, at its end.
        let is_too_long = filled[frequency].as_u64().is_some_and(|every| every > n_steps);
        if is_too_long && stage.get(frequency).is_none() {
            filled[frequency] = n_steps.into();
        }
    }
    filled
}

fn n_steps(stage: &Value, timestep_fs: f64) -> u64 {
    (stage["time"].as_f64().unwrap_or_default() * 1e6 / timestep_fs).round() as u64
}

fn defaults(schema: &str) -> Value {
    let fields = schema::fields(schema::named(schema));
    let defaults =
        fields.filter_map(|(name, field)| Some((name.to_owned(), field.get("x-default")?.clone())));
    Value::Object(defaults.collect())
}

/// What a run would do, in as many lines as fit a terminal.
fn summary(plan: &Plan, shown: &Value) -> Value {
    let resolved = &shown["resolved"];
    let system =
        if resolved["system"].is_object() { &resolved["system"] } else { &shown["system"] };
    let mut job = task::with_stage_lines(&resolved["job"]);
    if system["membrane"].is_null()
        && let Some(members) = job.as_object_mut()
    {
        members.remove("surface_tension");
    }
    let files = plan.built.iter().chain(&plan.ligands).map(|path| path.display().to_string());
    json!({
        "structure": plan.structure,
        "files": files.collect::<Vec<_>>(),
        "replicas": plan.replicas,
        "system": system,
        "job": job,
        "analysis": shown["analysis"],
        "estimate": task::without_box(&shown["estimate"]),
        "each_job": task::without_box(&shown["of_each_job"]),
    })
}

/// What a job with its defaults takes on any system: steps and frames.
fn written(job: &Value) -> Value {
    let timestep_fs = job["integration_timestep"].as_f64().unwrap_or_default();
    let equilibration = job["equilibration"].as_array().into_iter().flatten();
    let stages = equilibration.chain(Some(&job["production"]).filter(|stage| stage.is_object()));
    let (mut steps, mut frames) = (0, 0);
    for stage in stages {
        let of_stage = n_steps(stage, timestep_fs);
        steps += of_stage;
        frames +=
            of_stage.checked_div(stage["traj_freq"].as_u64().unwrap_or_default()).unwrap_or(0);
    }
    json!({"steps": steps, "frames": frames})
}

/// Where a structure comes from.
enum Origin {
    /// A file of this machine.
    File,
    /// The service, as a registered file or an entry of its mirror.
    Service,
    /// A public entry that the service does not have.
    Elsewhere,
}

async fn origin(client: &Client, structure: &str) -> Result<Origin, Failure> {
    if is_path(Path::new(structure)) {
        return Ok(Origin::File);
    }
    match client.system_check().body_map(|system| system.protein(structure)).send().await {
        Err(error) if is_unknown_protein(&error) && is_entry(structure) => Ok(Origin::Elsewhere),
        Err(error) if is_unknown_protein(&error) => Err(unknown_structure(structure)),
        // Whatever else is wrong, the whole request meets too.
        _ => Ok(Origin::Service),
    }
}

/// Whether a folder holds a run that gives way to a new one: one that came to nothing does, any
/// other when it is asked for, or else nothing begins there.
fn gives_way(context: &Context, folder: &Path, is_restart: bool) -> Result<bool, Failure> {
    if !folder.join(STATE_FILE).exists() {
        return Ok(false);
    }
    let is_dead = Run::open(folder).is_ok_and(|run| run.is_dead());
    if !is_dead && !is_restart {
        let failure =
            Failure::new(Code::Conflict, format!("{}: holds a run already", folder.display()));
        return Err(failure.remedy(format!(
            "resume it with `{}`, begin anew with --restart, or give another folder by --output",
            resume(folder)
        )));
    }
    if is_dead {
        context.output.note("the last run there came to nothing; beginning anew");
    }
    Ok(true)
}

/// Removes a run from its folder. A report of the old one would be taken for that of the new one.
fn make_way(folder: &Path) -> Result<(), Failure> {
    for file in [report::FILE, STATE_FILE].map(|name| folder.join(name)) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::file(&file, &error));
            }
            _ => {}
        }
    }
    let replicas = fs::read_dir(folder).map_err(|e| Failure::file(folder, &e))?.flatten();
    for replica in replicas.map(|entry| entry.path()) {
        let name = replica.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.strip_prefix("replica_").is_some_and(|nth| nth.parse::<u32>().is_ok()) {
            fs::remove_dir_all(&replica).map_err(|e| Failure::file(&replica, &e))?;
        }
    }
    Ok(())
}

/// Brings the structure into a form that can be uploaded: decompressed, or fetched, when it is a
/// public entry that the service does not have.
async fn prepare(
    context: &Context,
    client: &Client,
    plan: &mut Plan,
    folder: &Path,
) -> Result<(), Failure> {
    if !plan.built.is_empty() {
        return Ok(());
    }
    let brought = match origin(client, &plan.structure).await? {
        Origin::File => {
            let unpacked = content::unpacked(Path::new(&plan.structure), folder)?;
            unpacked.map(|path| path.display().to_string())
        }
        Origin::Service => None,
        Origin::Elsewhere => Some(entry::fetch(context, &plan.structure, folder).await?),
    };
    if let Some(structure) = brought {
        plan.structure = structure;
    }
    Ok(())
}

/// Whether a text has the form of a public structure entry: `1L2Y`.
fn is_entry(text: &str) -> bool {
    text.len() == 4
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn unknown_structure(structure: &str) -> Failure {
    let message = match Path::new(structure).is_dir() {
        true => format!("{structure}: is a folder"),
        false => format!("no file {structure} here, and no registered file of that name"),
    };
    Failure::new(Code::NotFound, message).remedy(STRUCTURES)
}

fn is_unknown_protein(error: &Error) -> bool {
    error.violations().iter().any(|violation| violation.path() == "protein")
}

/// Does what is left to do, the report last, and says where everything is.
pub(crate) async fn finish(run: &mut Run, context: &Context) -> Result<Value, Failure> {
    let client = context.workflow()?;
    let mut failed = None;
    let mut is_of_room = false;
    if !run.is_done {
        context.output.note(&format!("state and results in {}", run.folder().display()));
        let mut screen = Screen::new(&context.output);
        if let Err(error) = run.finish(&client, move |event| screen.show(event)).await {
            is_of_room =
                error.violations().iter().any(|it| ["quota", "hours"].contains(&&*it.type_));
            let failure = Failure::from(error);
            let is_over = |replica: &Replica| replica.bundle.is_some() || has_failed(replica);
            let is_simulated = run.replicas.iter().all(is_over)
                && run.replicas.iter().any(|replica| replica.bundle.is_some());
            if !(is_simulated
                && matches!(failure.code, Code::Invalid | Code::Conflict | Code::TaskFailed))
            {
                return Err(failure);
            }
            // It is a replica or the analysis that cannot be; the others are worth a report.
            failed = Some(failure);
        }
    }
    let done = run.clone();
    let output = context.output.clone();
    // Unpacking takes its time; an interruption does not wait for it.
    let concluded = tokio::task::spawn_blocking(move || conclude(&done, &output)).await;
    let summary = concluded.map_err(anyhow::Error::from)??;
    match failed {
        Some(failure) => {
            let remedy = remedy_of_some(run, is_of_room);
            Err(failure.remedy(remedy))
        }
        None => Ok(summary),
    }
}

/// Whether a replica was cancelled or came to nothing.
fn has_failed(replica: &Replica) -> bool {
    ["failed", "cancelled"].contains(&replica.job.status.as_str())
}

/// What to do where some of a run has come to nothing, the rest having its report. `is_of_room` when
/// the account had no room for an analysis.
fn remedy_of_some(run: &Run, is_of_room: bool) -> String {
    let failed: Vec<&Replica> = run.replicas.iter().filter(|it| has_failed(it)).collect();
    if !failed.is_empty() {
        return format!("the report has the other replicas; {}", retry(&failed, run.folder()));
    }
    let is_cancelled =
        |replica: &Replica| replica.analysis.as_ref().is_some_and(|it| it.status == "cancelled");
    if is_of_room || run.replicas.iter().any(is_cancelled) {
        let when = if is_of_room { "when there is room, " } else { "" };
        return format!(
            "the simulation is in {}; {when}`{}` asks for its analysis again",
            run.folder().display(),
            resume(run.folder())
        );
    }
    let replica = run.replicas.iter().find(|replica| replica.tables.is_none());
    format!(
        "the simulation is in {}; analyse it with other flags by `molbox analysis submit{}`",
        run.folder().display(),
        replica.map(|replica| format!(" --job-id {}", replica.job.job_id)).unwrap_or_default()
    )
}

/// How replicas that came to nothing are gone on with.
fn retry(failed: &[&Replica], folder: &Path) -> String {
    let commands: Vec<String> =
        failed.iter().map(|it| format!("`molbox job retry {}`", it.job.job_id)).collect();
    let them = if failed.len() == 1 { "it" } else { "them" };
    format!(
        "{} queues {them} again, to go on where {them} ended; then `{}`",
        commands.join(", "),
        resume(folder)
    )
}

/// With what to do about a run that stopped.
fn advised(failure: Failure, run: &Run) -> Failure {
    let again = format!("resume it with `{}`", resume(run.folder()));
    // A job that was cancelled has nothing wrong with it.
    let is_cancelled = |replica: &&Replica| replica.job.status == "cancelled";
    let cancelled: Vec<&Replica> = run.replicas.iter().filter(is_cancelled).collect();
    if failure.code == Code::TaskFailed && !cancelled.is_empty() && run.is_dead() {
        return failure.remedy(format!(
            "{}; or begin anew, with the flags of before: `{}`",
            retry(&cancelled, run.folder()),
            begin_command(run)
        ));
    }
    match (failure.code, &failure.remedy) {
        (Code::TaskFailed | Code::Invalid | Code::Conflict | Code::NotFound, Some(_)) => failure,
        (Code::TaskFailed | Code::Invalid | Code::Conflict | Code::NotFound, None) => {
            failure.remedy("put it right and give the same command again: it begins anew")
        }
        (_, Some(remedy)) => {
            let remedy = format!("{remedy}; then {again}");
            failure.remedy(remedy)
        }
        (_, None) => failure.remedy(again),
    }
}

/// The same of a run that was resumed: to resume what has failed meets the failure again.
fn advised_again(failure: Failure, run: &Run) -> Failure {
    let is_final =
        matches!(failure.code, Code::TaskFailed | Code::Invalid | Code::Conflict | Code::NotFound);
    if !is_final
        || run.replicas.iter().any(|it| it.bundle.is_some() || it.job.status == "cancelled")
    {
        return advised(failure, run);
    }
    let before = failure.remedy.as_ref().map(|remedy| format!("{remedy}; ")).unwrap_or_default();
    let remedy = format!(
        "{before}put it right and begin anew, without --resume and with the flags of before: `{}`",
        begin_command(run)
    );
    failure.remedy(remedy)
}

/// What began a run, but for its flags.
fn begin_command(run: &Run) -> String {
    let Plan { structure, built, .. } = &run.plan;
    let files = match built.as_slice() {
        [] => quoted(structure).into_owned(),
        built => built.iter().map(|path| pasted(path)).collect::<Vec<_>>().join(" "),
    };
    format!("molbox run {files} --output {}", pasted(run.folder()))
}

/// A path as a shell takes it.
fn pasted(path: &Path) -> String {
    quoted(&path.to_string_lossy()).into_owned()
}

fn resume(folder: &Path) -> String {
    format!("molbox run --resume {}", pasted(folder))
}

pub(crate) fn default_folder(structure: &str) -> PathBuf {
    let stem = content::stem(structure);
    PathBuf::from(format!("{}-run", stem.as_deref().unwrap_or("molbox")))
}

/// The folder in this one whose run changed last and has no report yet.
fn last_begun() -> Result<PathBuf, Failure> {
    let here = Path::new(".");
    if here.join(STATE_FILE).exists() {
        return Ok(here.to_owned());
    }
    let folders = fs::read_dir(here)
        .map_err(|e| Failure::file(here, &e))?
        .flatten()
        .map(|entry| entry.path());
    folders
        .filter(|folder| is_unfinished(folder))
        .max_by_key(|folder| changed_at(folder))
        .map(|folder| folder.strip_prefix(here).map(Path::to_owned).unwrap_or(folder))
        .ok_or_else(|| {
            let failure = Failure::new(Code::NotFound, "no interrupted run in this folder");
            failure.remedy("name its folder: `molbox run --resume FOLDER`")
        })
}

fn is_unfinished(folder: &Path) -> bool {
    !folder.join(report::FILE).exists() && Run::open(folder).is_ok()
}

fn changed_at(folder: &Path) -> Option<SystemTime> {
    folder.join(STATE_FILE).metadata().and_then(|data| data.modified()).ok()
}

/// A run that a program asks for: parts of requests with their fields, paths that were looked at.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) structure: String,
    pub(crate) ligands: Vec<PathBuf>,
    pub(crate) preset: Option<Preset>,
    pub(crate) system: Value,
    pub(crate) job: Value,
    pub(crate) analysis: Value,
    pub(crate) replicas: u32,
    pub(crate) output: PathBuf,
}

/// Fields that a program gives for a part of a run.
fn flags<B: Body>(part: &str, mut fields: Value) -> Result<Flags<B>, Failure> {
    request::known::<B>(&mut fields).map_err(|failure| failure.within(part))?;
    if let Some(field) = B::WITHOUT.iter().find(|field| fields.get(**field).is_some()) {
        return Err(Failure::invalid(format!("{part}.{field}: is filled in by the run")));
    }
    Ok(Flags::of(fields))
}

impl Asked {
    pub(crate) fn arguments(self) -> Result<Arguments, Failure> {
        Ok(Arguments {
            system: flags("system", self.system)?,
            job: flags("job", self.job)?,
            analysis: flags("analysis", self.analysis)?,
            structure: vec![self.structure],
            ligand: self.ligands,
            preset: self.preset,
            file: None,
            replicas: self.replicas,
            output: Some(self.output),
            no_analysis: false,
            dry_run: false,
            restart: false,
            resume: None,
        })
    }
}

impl Arguments {
    /// Whether a field of a request was given.
    fn has_fields(&self) -> bool {
        !(self.system.is_empty() && self.job.is_empty() && self.analysis.is_empty())
    }

    /// The plan: preset, then file, then flags.
    fn plan(&self) -> Result<Plan, Failure> {
        let presets = presets()?;
        let has_membrane = self.system.fields().get("membrane").is_some();
        let preset = match self.preset.unwrap_or(if has_membrane {
            Preset::Membrane
        } else {
            Preset::Standard
        }) {
            Preset::Quick => &presets["quick"],
            Preset::Standard => &presets["standard"],
            Preset::Membrane => &presets["membrane"],
        };
        let mut given = json!({"system": {}, "job": {}, "analysis": {}});
        if let Some(path) = &self.file {
            let mut file = request::document(path)?;
            for (part, value) in file.as_object_mut().into_iter().flatten() {
                let known = match part.as_str() {
                    "system" => request::known::<System>(value),
                    "job" => request::known::<Job>(value),
                    "analysis" => request::known::<Analysis>(value),
                    _ => Err(Failure::invalid("no such part")
                        .remedy("the parts are system, job and analysis")),
                };
                known.map_err(|failure| failure.within(&format!("{}: {part}", path.display())))?;
            }
            request::merge(&mut given, &file);
        }
        self.system.over(&mut given["system"]);
        self.job.over(&mut given["job"]);
        self.analysis.over(&mut given["analysis"]);
        let is_built = content::is_built(&self.structure)?;
        if is_built && !self.ligand.is_empty() {
            return Err(Failure::usage("a built system has its ligands: leave out --ligand"));
        }
        // What a preset chooses for a system, the files of a built one have decided.
        let of_system = if is_built { json!({}) } else { preset["system"].clone() };
        let mut parts = json!({"system": of_system, "job": preset["job"], "analysis": {}});
        request::merge(&mut parts, &given);
        if is_built {
            only_names(&parts["system"])?;
        }
        leave_out_frequencies(&mut parts["job"], &given["job"]);
        let steps = parts["job"]["equilibration"].as_array().into_iter().flatten();
        masks("equilibration", steps.filter_map(|step| step["restraint_mask"].as_str()))?;
        let structure = self.structure.first().cloned();
        let structure =
            structure.filter(|structure| !structure.trim().is_empty()).ok_or_else(|| {
                // What a shell gives for a variable that is not set.
                Failure::usage("no structure was given").remedy(STRUCTURES)
            })?;
        let built: Vec<PathBuf> =
            if is_built { self.structure.iter().map(PathBuf::from).collect() } else { Vec::new() };
        let name = content::stem(&structure).unwrap_or_else(|| structure.clone());
        for (part, field) in [("system", "box_name"), ("job", "batch_name")] {
            if parts[part].get(field).is_none() {
                parts[part][field] = name.as_str().into();
            }
        }
        let files = self.structure.iter().map(Path::new).filter(|path| is_path(path));
        for path in files.chain(self.ligand.iter().map(PathBuf::as_path)) {
            let data = fs::File::open(path)
                .and_then(|file| file.metadata())
                .map_err(|e| Failure::file(path, &e))?;
            if !data.is_file() || path.extension().is_none() {
                let what = if data.is_file() {
                    "has no extension that gives its format"
                } else {
                    "is no file"
                };
                let failure = Failure::invalid(format!("{}: {what}", path.display()));
                return Err(if data.is_file() {
                    failure.remedy("rename it, to .pdb or .cif, or what a ligand is")
                } else {
                    failure
                });
            }
        }
        if !is_built && is_path(Path::new(&structure)) {
            content::structure(Path::new(&structure))?;
        }
        self.ligand.iter().try_for_each(|path| content::ligand(path))?;
        Ok(Plan {
            structure,
            built,
            ligands: self.ligand.clone(),
            force_field: None,
            system: request::check::<System>(&parts["system"])?,
            job: request::check::<Job>(&parts["job"])?,
            analysis: if self.no_analysis { None } else { Some(analysis(&parts["analysis"])?) },
            replicas: self.replicas,
        })
    }
}

/// What each preset begins with.
fn presets() -> Result<Value, Failure> {
    Ok(toml::from_str(include_str!("../presets.toml")).context("read the presets")?)
}

/// Refuses what cannot be chosen of a system that another program has built.
fn only_names(system: &Value) -> Result<(), Failure> {
    let chosen = system.as_object().into_iter().flat_map(|fields| fields.keys());
    let mut chosen =
        chosen.filter(|field| !["box_name", "priority", "seed"].contains(&field.as_str()));
    match chosen.next() {
        Some(field) => Err(Failure::invalid(format!(
            "{}: cannot be given beside the files of a built system, which decide on it",
            shown_place(field)
        ))),
        None => Ok(()),
    }
}

/// Leaves those frequencies of a preset to the service that the production asked for is too short
/// for.
fn leave_out_frequencies(job: &mut Value, given: &Value) {
    let [Some(time), Some(timestep)] =
        [&job["production"]["time"], &job["integration_timestep"]].map(Value::as_f64)
    else {
        return;
    };
    // A run with a short --time was built first, and then refused for a frequency of its preset.
    let n_steps = time * 1e6 / timestep;
    let Some(production) = job["production"].as_object_mut() else { return };
    production.retain(|name, value| {
        let is_of_preset = name.ends_with("_freq") && given["production"].get(name).is_none();
        !is_of_preset || value.as_f64().is_none_or(|frequency| frequency <= n_steps)
    });
}

fn analysis(part: &Value) -> Result<AnalysisRequest, Failure> {
    let request = request::check::<Analysis>(part)?;
    let lists =
        part.as_object().into_iter().flatten().filter(|(field, _)| field.ends_with("_masks"));
    for (field, list) in lists {
        masks(field, texts(list).into_iter())?;
    }
    Ok(request)
}

/// The texts of a list, also of lists in it.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        other => other.as_str().into_iter().collect(),
    }
}

/// Refuses masks that cannot be read: that is better known before the simulation than after.
fn masks<'a>(field: &str, masks: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    for mask in masks {
        Mask::parse_list(mask).map_err(|error| {
            Failure::invalid(format!("{}: mask {mask:?}: {error}", shown_place(field)))
        })?;
    }
    Ok(())
}

/// Unpacks the results, draws the plots, writes the report; says where everything is.
fn conclude(run: &Run, output: &Output) -> Result<Value, Failure> {
    let mut results = Vec::new();
    let mut replicas = Vec::new();
    for replica in &run.replicas {
        let bundle = unpack(run, replica.bundle.as_deref())?;
        let tables = unpack(run, replica.tables.as_deref())?;
        replicas.push(json!({
            "job_id": replica.job.job_id,
            "analysis_id": replica.analysis.as_ref().map(|analysis| &analysis.analysis_id),
            "bundle": replica.bundle.as_ref().map(|path| run.folder().join(path)),
            "results": bundle,
            "analysis": tables,
        }));
        results.push(report::Results { bundle, tables });
    }
    let report = report::write(run, &results)?;
    output.note(&format!("report in {}", report.display()));
    Ok(json!({
        "report": report,
        "folder": run.folder(),
        "system_id": run.system.as_ref().map(|system| &system.system_id),
        "replicas": replicas,
    }))
}

fn unpack(run: &Run, archive: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    archive.map(|path| archive::unpack(&run.folder().join(path))).transpose()
}

/// Events on a terminal: a bar for each task. Elsewhere: a line for each stage, and, on standard
/// output, an event on each line as JSON, whenever a record has changed.
pub(crate) struct Screen {
    output: Output,
    bars: HashMap<String, ProgressBar>,
    reported: HashMap<String, String>,
    last: HashMap<String, Value>,
}

impl Screen {
    pub(crate) fn new(output: &Output) -> Self {
        Self {
            output: output.clone(),
            bars: HashMap::new(),
            reported: HashMap::new(),
            last: HashMap::new(),
        }
    }

    pub(crate) fn show(&mut self, event: Event) {
        if self.output.is_json() {
            self.write(&event);
        }
        match event {
            Event::Uploading { path, done, size } => self.bytes("upload", &path, done, Some(size)),
            Event::Uploaded(file) => {
                self.bars.clear();
                self.warn(&file.warnings);
                self.output.note(&format!("uploaded     {} as {}", file.name, file.file_id));
            }
            Event::System(system) => {
                self.task("build", &*system);
                self.warn(&system.warnings);
                if system.status == "succeeded" {
                    let atoms = system.summary.as_ref().map_or(0, |summary| summary.atoms);
                    self.once(
                        &system.system_id,
                        "built",
                        &format!("built        {}: {atoms} atoms", system.system_id),
                    );
                }
            }
            Event::Job(job) => {
                let name = job
                    .batch_index
                    .map_or_else(|| "job".to_owned(), |index| format!("replica {}", index + 1));
                self.task(&name, &*job);
                self.warn(&job.warnings);
                if job.status == "succeeded" {
                    let speed = job.stages.iter().rev().find_map(|stage| stage.ns_per_day);
                    let speed = speed
                        .map(|speed| format!(", {:.1} ns/day", speed.get()))
                        .unwrap_or_default();
                    self.once(
                        &job.job_id,
                        "simulated",
                        &format!("simulated    {}{speed}", job.job_id),
                    );
                }
                // The others go on meanwhile, perhaps for days.
                if ["failed", "cancelled"].contains(&job.status.as_str()) {
                    let line = format!("{:12} {}", job.status, job.job_id);
                    self.once(&job.job_id, &job.status, &line);
                }
            }
            Event::Analysis(analysis) => {
                self.task("analysis", &*analysis);
                self.warn(&analysis.warnings);
                if analysis.status == "succeeded" {
                    self.once(
                        &analysis.analysis_id,
                        "analysed",
                        &format!("analysed     {}", analysis.analysis_id),
                    );
                }
            }
            Event::Downloading { path, done, size } => self.bytes("download", &path, done, size),
            Event::Downloaded { path } => {
                self.finish(&path.display().to_string());
                self.output.note(&format!("downloaded   {}", path.display()));
            }
            _ => {}
        }
    }

    fn warn(&self, warnings: &[Notice]) {
        warnings.iter().for_each(|warning| self.output.warning(&warning.message));
    }

    /// The event as a line, unless it is the progress of a transfer or says nothing new.
    fn write(&mut self, event: &Event) {
        let id = match event {
            Event::Uploaded(file) => file.file_id.to_string(),
            Event::System(system) => system.system_id.to_string(),
            Event::Job(job) => job.job_id.to_string(),
            Event::Analysis(analysis) => analysis.analysis_id.to_string(),
            Event::Downloaded { path } => path.display().to_string(),
            _ => return,
        };
        let event = serde_json::to_value(event).expect("records, and paths of text");
        if self.last.get(&id) != Some(&event) {
            // A run continues without a reader; the last line, of the whole run, fails in the same
            // way.
            let _ = self.output.json_line(&event);
            self.last.insert(id, event);
        }
    }

    fn bar(&mut self, key: &str, name: &str) -> &ProgressBar {
        let output = &self.output;
        self.bars.entry(key.to_owned()).or_insert_with(|| output.bar(name))
    }

    fn finish(&mut self, key: &str) {
        if let Some(bar) = self.bars.remove(key) {
            bar.finish_and_clear();
        }
    }

    fn bytes(&mut self, what: &str, path: &Path, done: u64, size: Option<u64>) {
        task::show_bytes(self.bar(&path.display().to_string(), what), done, size);
    }

    fn task<N: task::Noun>(&mut self, name: &str, record: &N) {
        let id = record.id();
        if ["succeeded", "failed", "cancelled"].contains(&record.status()) {
            return self.finish(id);
        }
        if self.output.has_bars() {
            let output = self.output.clone();
            return task::show_progress(&output, self.bar(id, name), name, record);
        }
        let standing = task::standing(record);
        let stage = record.progress().and_then(|progress| progress.stage.as_deref());
        // A place moves with the tasks of others: its line comes once.
        let what = match (record.hold(), record.queue()) {
            (Some(hold), _) => &hold.code,
            (None, Some(_)) => "a place",
            (None, None) => record.status(),
        };
        let line = format!("{name:12} {id}: {}", stage.unwrap_or(&standing));
        self.once(id, stage.unwrap_or(what), &line);
    }

    /// A line, unless it was the last one about this.
    fn once(&mut self, key: &str, what: &str, line: &str) {
        if self.reported.insert(key.to_owned(), what.to_owned()).as_deref() != Some(what) {
            self.output.note(line);
        }
    }
}

/// Whether a structure is a file's and not the identifier of an entry.
pub(crate) fn is_path(structure: &Path) -> bool {
    structure.extension().is_some() || structure.components().count() > 1 || structure.is_file()
}

#[cfg(test)]
mod tests {
    use molbox_analysis::Structure;

    use super::*;

    #[test]
    fn presets_restrain_a_protein_and_none_of_the_ions_that_a_build_adds() {
        let residues = ["ALA", "HOH", "LI", "NA", "K", "RB", "CS", "F", "CL", "BR", "I"];
        let atom = |(nth, residue): (usize, &&str)| {
            let name = if *residue == "ALA" { "CA" } else { *residue };
            format!(
                "HETATM{:5} {name:>3}  {residue:>3} A{:4}    {:8.3}{:8.3}{:8.3}\n",
                nth + 1,
                nth + 1,
                nth as f64,
                0.0,
                0.0
            )
        };
        let pdb: String = residues.iter().enumerate().map(atom).collect();
        let structure = Structure::from_text(&pdb).unwrap();
        for (preset, parts) in presets().unwrap().as_object().unwrap() {
            let mask = parts["job"]["equilibration"][0]["restraint_mask"].as_str().unwrap();
            let selected = Mask::parse(mask).unwrap().select(&structure.topology, None).unwrap();
            assert_eq!(selected.atoms.iter().collect::<Vec<_>>(), [0], "{preset}: {mask}");
        }
    }
}
