//! `molbox run`: from a structure file to a report.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use molbox::run::{Event, Plan, Run, STATE_FILE};
use molbox::workflow::types::{AnalysisRequest, JobCreateParams, Progress, SystemBuildRequest};
use serde_json::{Value, json};

use super::{report, task};
use crate::archive;
use crate::context::Context;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::request::{self, Body, Flags};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Structure file, PDB or mmCIF; or a public entry such as 1L2Y, or a registered file.
    #[arg(required_unless_present = "resume")]
    structure: Option<String>,
    /// Ligand files: SDF, MOL, MOL2 or PDB, placed as their coordinates say.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    ligand: Vec<PathBuf>,
    /// What to begin with; every flag below goes before it. `--membrane` alone chooses `membrane`.
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// A TOML, YAML or JSON file with the parts `system`, `job` and `analysis`; goes before the preset.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many times to simulate, each with velocities of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    replicas: u32,
    /// Folder for state and results. Default: the structure's name with `-run`.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Leave out the analysis.
    #[arg(long)]
    no_analysis: bool,
    /// Check everything and show what would be sent; send nothing.
    #[arg(long)]
    dry_run: bool,
    /// Take up an interrupted run: that of the folder, or the last one begun in this folder.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, conflicts_with = "structure")]
    resume: Option<Option<PathBuf>>,
    #[command(flatten)]
    system: Flags<System>,
    #[command(flatten)]
    job: Flags<Job>,
    #[command(flatten)]
    analysis: Flags<Analysis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// 0.1 ns in a small box: does it build and run?
    Quick,
    /// 1 ns in salt water after 0.3 ns of equilibration.
    Standard,
    /// 1 ns in a lipid bilayer after 1.1 ns of equilibration.
    Membrane,
}

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
part!(System, "SystemBuildRequest", SystemBuildRequest, &["protein", "ligands"]);
part!(Job, "JobCreateParams", JobCreateParams, &["box_id", "batch_index"]);
part!(Analysis, "AnalysisRequest", AnalysisRequest, &["job_id", "topology", "trajectory"]);

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<(), Failure> {
    let mut run = match &arguments.resume {
        Some(folder) => {
            let folder = folder.clone().map_or_else(last_begun, Ok)?;
            Run::open(folder)?
        }
        None => {
            let plan = arguments.plan()?;
            if arguments.dry_run {
                return context.output.json(&plan);
            }
            let folder = arguments.output.clone().unwrap_or_else(|| default_folder(&plan.structure));
            if folder.join(STATE_FILE).exists() {
                let failure = Failure::new(Code::Conflict, format!("{}: holds a run already", folder.display()));
                return Err(failure.remedy(format!("take it up with `{}`, or give --output", resume(&folder))));
            }
            context.workflow()?;
            Run::begin(plan, folder)?
        }
    };
    let client = context.workflow()?;
    let folder = run.folder().to_owned();
    if !run.is_done {
        context.output.note(&format!("state and results in {}", folder.display()));
        let mut screen = Screen::new(&context.output);
        let finished = tokio::select! {
            finished = run.finish(&client, move |event| screen.show(event)) => finished.map_err(Failure::from),
            () = interrupted() => Err(Failure::new(Code::Interrupted, "interrupted; what was submitted goes on at the service")),
        };
        finished.map_err(|failure| match failure.code {
            Code::TaskFailed => failure,
            Code::Invalid | Code::Conflict => failure.remedy(format!("remove {} and begin anew", folder.display())),
            _ => failure.remedy(format!("take it up again with `{}`", resume(&folder))),
        })?;
    }
    let summary = conclude(&run, context)?;
    if context.output.is_json() {
        return context.output.json(&summary);
    }
    context.output.record(&summary)
}

/// Resolves on Ctrl-C, and on the signal by which systems end what runs.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn resume(folder: &Path) -> String {
    format!("molbox run --resume {}", folder.display())
}

fn default_folder(structure: &str) -> PathBuf {
    let stem = Path::new(structure).file_stem().and_then(|stem| stem.to_str()).unwrap_or("molbox");
    PathBuf::from(format!("{stem}-run"))
}

/// The folder in this one whose run changed last and is not done.
fn last_begun() -> Result<PathBuf, Failure> {
    let here = Path::new(".");
    if here.join(STATE_FILE).exists() {
        return Ok(here.to_owned());
    }
    let folders = fs::read_dir(here).map_err(|e| Failure::file(here, &e))?.flatten().map(|entry| entry.path());
    let begun = folders.filter(|folder| Run::open(folder).is_ok_and(|run| !run.is_done));
    let changed = |folder: &PathBuf| folder.join(STATE_FILE).metadata().and_then(|data| data.modified()).ok();
    begun.max_by_key(changed).map(|folder| folder.strip_prefix(here).map(Path::to_owned).unwrap_or(folder)).ok_or_else(
        || {
            let failure = Failure::new(Code::NotFound, "no interrupted run in this folder");
            failure.remedy("name its folder: `molbox run --resume FOLDER`")
        },
    )
}

impl Arguments {
    /// The plan: preset, then file, then flags.
    fn plan(&self) -> Result<Plan, Failure> {
        let presets: Value = toml::from_str(include_str!("../presets.toml")).context("read the presets")?;
        let has_membrane = self.system.value().get("membrane").is_some();
        let preset = match self.preset.unwrap_or(if has_membrane { Preset::Membrane } else { Preset::Standard }) {
            Preset::Quick => &presets["quick"],
            Preset::Standard => &presets["standard"],
            Preset::Membrane => &presets["membrane"],
        };
        let mut parts = json!({"system": preset["system"], "job": preset["job"], "analysis": {}});
        if let Some(path) = &self.file {
            let mut file = request::document(path)?;
            for (part, value) in file.as_object_mut().into_iter().flatten() {
                let known = match part.as_str() {
                    "system" => request::known::<System>(value),
                    "job" => request::known::<Job>(value),
                    "analysis" => request::known::<Analysis>(value),
                    _ => Err(Failure::invalid("no such part").remedy("the parts are system, job and analysis")),
                };
                known.map_err(|failure| failure.within(&format!("{}: {part}", path.display())))?;
            }
            request::merge(&mut parts, &file);
        }
        request::merge(&mut parts["system"], self.system.value());
        request::merge(&mut parts["job"], self.job.value());
        request::merge(&mut parts["analysis"], self.analysis.value());
        let structure = self.structure.clone().ok_or_else(|| Failure::usage("a structure is needed"))?;
        let name = Path::new(&structure).file_stem().and_then(|stem| stem.to_str()).unwrap_or(&structure);
        for (part, field) in [("system", "box_name"), ("job", "batch_name")] {
            if parts[part].get(field).is_none() {
                parts[part][field] = name.into();
            }
        }
        let files = std::iter::once(Path::new(&structure)).filter(|path| path.extension().is_some());
        for path in files.chain(self.ligand.iter().map(PathBuf::as_path)) {
            fs::File::open(path).map_err(|e| Failure::file(path, &e))?;
        }
        Ok(Plan {
            structure,
            ligands: self.ligand.clone(),
            system: request::check::<System>(&parts["system"])?,
            job: request::check::<Job>(&parts["job"])?,
            analysis: if self.no_analysis { None } else { Some(request::check::<Analysis>(&parts["analysis"])?) },
            replicas: self.replicas,
        })
    }
}

/// Unpacks the results, draws the plots, writes the report; says where everything is.
fn conclude(run: &Run, context: &Context) -> Result<Value, Failure> {
    let mut results = Vec::new();
    let mut replicas = Vec::new();
    for replica in &run.replicas {
        let unpack =
            |path: &Option<PathBuf>| path.as_ref().map(|path| archive::unpack(&run.folder().join(path))).transpose();
        let (bundle, tables) = (unpack(&replica.bundle)?, unpack(&replica.tables)?);
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
    context.output.note(&format!("report in {}", report.display()));
    Ok(json!({
        "report": report,
        "folder": run.folder(),
        "system_id": run.system.as_ref().map(|system| &system.system_id),
        "replicas": replicas,
    }))
}

/// Events on a terminal: a bar for each task. Elsewhere: a line for each stage.
struct Screen {
    output: Output,
    bars: HashMap<String, ProgressBar>,
    told: HashMap<String, String>,
}

impl Screen {
    fn new(output: &Output) -> Self {
        Self { output: output.clone(), bars: HashMap::new(), told: HashMap::new() }
    }

    fn show(&mut self, event: Event) {
        match event {
            Event::Uploading { path, done, size } => self.bytes("upload", &path, done, size),
            Event::Uploaded(file) => {
                self.bars.clear();
                self.output.note(&format!("uploaded     {} as {}", file.name, *file.file_id));
            }
            Event::System(system) => {
                self.task("build", &system.system_id, &system.status, system.progress.as_ref());
                if system.status == "succeeded" {
                    let atoms = system.summary.as_ref().map_or(0, |summary| summary.atoms);
                    self.once(
                        &system.system_id,
                        "built",
                        &format!("built        {}: {atoms} atoms", *system.system_id),
                    );
                    for warning in &system.warnings {
                        self.once(&warning.message, "told", &format!("warning      {}", warning.message));
                    }
                }
            }
            Event::Job(job) => {
                let name = job.batch_index.map_or_else(|| "job".to_owned(), |index| format!("replica {}", index + 1));
                self.task(&name, &job.job_id, &job.status, job.progress.as_ref());
                if job.status == "succeeded" {
                    let speed = job.stages.iter().rev().find_map(|stage| stage.ns_per_day);
                    let speed = speed.map(|speed| format!(", {:.1} ns/day", speed.get())).unwrap_or_default();
                    self.once(&job.job_id, "simulated", &format!("simulated    {}{speed}", *job.job_id));
                }
            }
            Event::Analysis(analysis) => {
                self.task("analysis", &analysis.analysis_id, &analysis.status, analysis.progress.as_ref());
                if analysis.status == "succeeded" {
                    self.once(&analysis.analysis_id, "analysed", &format!("analysed     {}", *analysis.analysis_id));
                }
            }
            Event::Downloading { path, done, size } => self.bytes("download", &path, done, size),
            Event::Downloaded(path) => {
                self.finish(&path.display().to_string());
                self.output.note(&format!("downloaded   {}", path.display()));
            }
            _ => {}
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

    fn bytes(&mut self, what: &str, path: &Path, done: u64, size: u64) {
        let bar = self.bar(&path.display().to_string(), what);
        bar.set_position(1000 * done / size.max(1));
        bar.set_message(format!("{} of {}", indicatif::BinaryBytes(done), indicatif::BinaryBytes(size)));
    }

    fn task(&mut self, name: &str, id: &str, status: &str, progress: Option<&Progress>) {
        if ["succeeded", "failed", "cancelled"].contains(&status) {
            return self.finish(id);
        }
        if self.output.has_bars() {
            return task::show_progress(self.bar(id, name), status, progress);
        }
        let stage = progress.and_then(|progress| progress.stage.as_deref()).unwrap_or(status);
        self.once(id, stage, &format!("{name:12} {id}: {stage}"));
    }

    /// A line, unless it was the last one about this.
    fn once(&mut self, key: &str, what: &str, line: &str) {
        if self.told.insert(key.to_owned(), what.to_owned()).as_deref() != Some(what) {
            self.output.note(line);
        }
    }
}
