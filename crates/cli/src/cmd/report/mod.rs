//! The report of a run: what was done, with which parameters, what came of it, how to cite it.
//! Markdown, and the same as a page with its pictures in it.

mod analysed;
mod cite;
mod logged;
mod markdown;
mod measured;
mod methods;
mod page;
mod replicas;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use molbox::Finite;
use molbox::run::Run;
use molbox::workflow::types::{
    AnalysisRecord, AnalysisSettings, JobRecord, JobSettings, StageResult, SystemRecord,
    SystemSettings,
};
use molbox_analysis::{ResidueAxis, Series, Structure};
use molbox_plot::Figure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::logged::Log;
use self::markdown::{Markdown, code, joined, link, md, message, row};
use self::measured::Analysis;
use self::page::{Pictures, page};
use crate::failure::Failure;
use crate::output::counted;
use crate::schema;

/// The page; a run without it is not finished.
pub(crate) const FILE: &str = "report.html";

/// Folders of a replica's results.
pub(crate) struct Results {
    pub(crate) bundle: Option<PathBuf>,
    pub(crate) tables: Option<PathBuf>,
}

/// Writes `report.md`, its pictures, and `report.html` with the pictures in it, into the folder of
/// a run.
pub(crate) fn write(run: &Run, results: &[Results]) -> Result<PathBuf, Failure> {
    let Report { text, pictures, citations, .. } = Report::of(run, results)?;
    let page = page(title(run), &text, &pictures);
    let bibtex = cite::bibtex(&citations);
    // The page comes last, and whole: it says that the run is finished.
    let all = [(cite::FILE, bibtex), ("report.md", text.to_string()), (FILE, page)];
    for (name, content) in all {
        let path = run.folder().join(name);
        let partial = run.folder().join(name).with_extension("tmp");
        let written = fs::write(&partial, content).and_then(|()| fs::rename(&partial, &path));
        written.map_err(|e| Failure::file(&path, &e))?;
    }
    Ok(run.folder().join(FILE))
}

/// The structure, without the folders that lead to it.
fn title(run: &Run) -> &str {
    let structure = run.plan.structure.as_str();
    Path::new(structure).file_name().and_then(|name| name.to_str()).unwrap_or(structure)
}

/// A report as it is written.
struct Report<'a> {
    run: &'a Run,
    text: Markdown,
    pictures: Pictures,
    /// What to cite.
    citations: Vec<String>,
}

impl<'a> Report<'a> {
    fn of(run: &'a Run, results: &[Results]) -> Result<Self> {
        let system = run.system.as_ref().context("a run with results has a system")?;
        let jobs: Vec<&JobRecord> = run.replicas.iter().map(|replica| &replica.job).collect();
        let first = simulated(run).next().context("a run with results has a job")?;
        let parameters = &first.parameters;

        let found: Vec<Found> =
            results.iter().map(|result| Found::read(result, parameters)).collect::<Result<_>>()?;

        let text = md!("# {}\n\n", title(run));
        let citations = citations(first, &found);
        let mut report = Self { run, text, pictures: Pictures::of(run.folder()), citations };
        let text = &mut report.text;
        text.push(md!("Molecular dynamics of {}{}.\n\n", code(title(run)), times(run)));
        let analyses =
            run.replicas.iter().filter_map(|replica| replica.analysis.as_ref()).collect();
        let warnings = warnings(system, &jobs, analyses, &found);
        if !warnings.is_empty() {
            text.push(md!("## Know first\n\n- {}\n\n", joined(&warnings, "\n- ")));
        }
        done(text, run, system, parameters);
        let bundles: Vec<&Path> =
            results.iter().filter_map(|result| result.bundle.as_deref()).collect();
        let with_results: Vec<&JobRecord> = simulated(run).collect();
        let methods = methods::text(run, system, &with_results, &bundles)?;
        if !methods.is_empty() {
            text.push(md!("\n## Methods\n\n{}\n", methods.trimmed()));
        }
        report.came_of_it(&jobs, results, &found)?;

        let text = &mut report.text;
        text.push(md!("\n## Parameters\n"));
        system_table(text, &built(system))?;
        table(text, "Job", "JobCreateParams", &value(parameters)?);
        if let Some(analysis) = &run.plan.analysis {
            table(text, "Analysis", "AnalysisRequest", &value(analysis)?);
            let groups =
                found.iter().map(|it| &it.analysis.groups).find(|groups| !groups.is_empty());
            measured::selected(text, groups.map_or(&[], Vec::as_slice));
        }

        text.push(md!("\n## How to cite\n\n"));
        for reference in &report.citations {
            text.push(md!("- {}\n", reference));
        }
        text.push(md!("- {}\n", cite::SOFTWARE));
        text.push(md!("\nFor BibTeX: {}\n", link(cite::FILE, cite::FILE)));
        for (index, result) in results.iter().enumerate() {
            if let Some(bundle) = &result.bundle {
                files(text, index, jobs.len(), bundle)?;
            }
        }
        Ok(report)
    }

    /// The results: what was simulated, the replicas together, then each.
    fn came_of_it(
        &mut self,
        jobs: &[&JobRecord],
        results: &[Results],
        found: &[Found],
    ) -> Result<()> {
        let Self { run, text, .. } = self;
        text.push(md!(
            "\n## Results\n\n| replica | job | seed | engine | platform | production | results |\n\
             |---|---|---|---|---|---|---|\n"
        ));
        for (index, (job, result)) in jobs.iter().zip(results).enumerate() {
            let production = job.stages.iter().find(|stage| stage.name == "production");
            text.push(row(&[
                &(index + 1),
                &code(&job.job_id),
                &shown(job.parameters.seed),
                &shown(job.engine.as_deref()),
                &shown(job.platform.as_deref()),
                &production.map(speed),
                &result.bundle.as_deref().map(|folder| folder_link(run, folder)),
            ]));
        }
        let means: Vec<_> = found.iter().map(|it| replicas::means(&it.log, &it.analysis)).collect();
        replicas::compared(text, &means);
        let analyses: Vec<Analysis> = found.iter().map(|it| it.analysis.clone()).collect();
        let overlay = replicas::overlay(&analyses)
            .map(|figure| ("replicas.png".to_owned(), "what replicas measured", figure));
        let axis = if analyses.len() > 1 { axis(run, results) } else { ResidueAxis::default() };
        let fluctuations = replicas::fluctuations(&analyses, &axis)
            .into_iter()
            .map(|(table, figure)| (of_table(&table), "RMSF of replicas", figure));
        for (name, shown, figure) in overlay.into_iter().chain(fluctuations) {
            self.text.push(md!("\n"));
            self.draw(&format!("{shown}, over each other"), &name, &figure);
            self.text.push(md!("\n"));
        }
        for (index, (result, found)) in results.iter().zip(found).enumerate() {
            self.text.push(md!("\n### Replica {}\n\n", index + 1));
            if let Some(what) = unsimulated(jobs[index]) {
                self.text.push(md!("It {}.\n", what));
            }
            self.replica(index, result, found)?;
        }
        Ok(())
    }

    fn replica(
        &mut self,
        index: usize,
        result: &Results,
        Found { log, analysis }: &Found,
    ) -> Result<()> {
        log.table(&mut self.text);
        if let Some(figure) = log.figure() {
            let picture = self.run.replica_folder(index).join("energies.png");
            let picture = relative(self.run, &picture);
            self.draw("energies, temperature and density", &picture, &figure);
            self.text.push(md!("\n\n"));
        }
        let Some(tables) = &result.tables else { return Ok(()) };
        for picture in pictures(tables)? {
            let name = picture.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            self.picture(&name.replace('_', " "), relative(self.run, &picture));
            self.text.push(md!("\n\n"));
        }
        measured::averages(&mut self.text, &analysis.measured);
        self.text.push(md!("Tables: {}\n", folder_link(self.run, tables)));
        Ok(())
    }

    /// Draws a figure, and shows it, by its path in the folder of the run. A report without one of
    /// its pictures is better than none.
    fn draw(&mut self, shown: &str, path: &str, figure: &Figure) {
        match fs::write(self.run.folder().join(path), figure.png()) {
            Ok(()) => self.picture(shown, path.to_owned()),
            Err(error) => {
                self.text.push(md!("{}: the picture is not shown, {}", shown, error.to_string()));
            }
        }
    }

    fn picture(&mut self, shown: &str, path: String) {
        self.text.push(md!("!{}", link(shown, &path)));
        self.pictures.add(path);
    }
}

/// What to cite for a job, which has those of its system too, and for what was made of its results.
fn citations(job: &JobRecord, found: &[Found]) -> Vec<String> {
    let mut all = job.citations.clone();
    let of_results =
        found.iter().flat_map(|it| it.log.citations().chain(it.analysis.citations.iter().copied()));
    for citation in of_results {
        if !all.iter().any(|known| known == citation) {
            all.push(citation.to_owned());
        }
    }
    all
}

/// The jobs that ended well. Of others there is nothing to report but that.
fn simulated(run: &Run) -> impl Iterator<Item = &JobRecord> {
    run.replicas.iter().map(|replica| &replica.job).filter(|job| job.status == "succeeded")
}

/// What became of a job without results: `was cancelled`, `failed: The system blew up`.
fn unsimulated(job: &JobRecord) -> Option<Markdown> {
    match (job.status.as_str(), &job.error) {
        ("succeeded", _) => None,
        ("cancelled", _) => Some(md!("was cancelled")),
        (status, None) => Some(md!("{}", status)),
        (status, Some(error)) => Some(md!("{}: {}", status, message(&error.message))),
    }
}

/// What was found in the results of a replica.
#[derive(Default)]
struct Found {
    log: Log,
    analysis: Analysis,
}

impl Found {
    fn read(result: &Results, parameters: &JobSettings) -> Result<Self> {
        let log = result.bundle.as_deref().map(|bundle| Log::read(bundle, parameters));
        let analysis = result.tables.as_deref().map(Analysis::read);
        Ok(Self {
            log: log.transpose()?.unwrap_or_default(),
            analysis: analysis.transpose()?.unwrap_or_default(),
        })
    }
}

/// A warning about a mask with the mask itself, for who reads it has no fields of a request:
/// `rmsd_masks[0][0]: …` as ``rmsd of `:HOH`: …``.
fn with_mask(warning: &str, request: &AnalysisSettings) -> Markdown {
    let of_mask = || {
        let (place, said) = warning.split_once(": ")?;
        let analysis = place.split_once("_masks[")?.0;
        let request = serde_json::to_value(request).ok()?;
        let pointer = format!("/{}", place.replace('[', "/").replace(']', ""));
        let mask = request.pointer(&pointer)?.as_str()?;
        Some(md!("{} of {}: {}", analysis.replace('_', " "), code(mask), message(said)))
    };
    of_mask().unwrap_or_else(|| message(warning))
}

/// What to know before anything else: the service's warnings, and what was too short.
fn warnings(
    system: &SystemRecord,
    jobs: &[&JobRecord],
    analyses: Vec<&AnalysisRecord>,
    found: &[Found],
) -> Vec<Markdown> {
    let of_jobs = jobs.iter().flat_map(|job| &job.warnings);
    let of_analyses = analyses.into_iter().flat_map(|analysis| {
        analysis.warnings.iter().map(|warning| with_mask(&warning.message, &analysis.request))
    });
    let others = system.warnings.iter().chain(of_jobs).map(|warning| message(&warning.message));
    let missing = jobs.iter().zip(1_usize..).filter_map(|(job, n)| {
        let what = unsimulated(job)?;
        let id = &*job.job_id;
        Some(md!("Replica {} ({}) {}. It is left out of all that follows.", n, id, what))
    });
    let mut warnings: Vec<Markdown> = missing.collect();
    for warning in others.chain(of_analyses) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    let of = |n: usize| (found.len() > 1).then_some(n);
    warnings.extend(found.iter().zip(1..).filter_map(|(it, n)| it.log.warning(of(n))));
    warnings
}

/// The residues of the first replica that has results, with their secondary structure in the first
/// analysed frame; none where its files are not there or cannot be read, as figures do without.
fn axis(run: &Run, results: &[Results]) -> ResidueAxis {
    let Some(bundle) = results.iter().find_map(|result| result.bundle.as_deref()) else {
        return ResidueAxis::default();
    };
    let find = |formats: [&str; 2]| {
        let paths = formats.map(|format| bundle.join("production").with_extension(format));
        paths.into_iter().find(|path| path.exists())
    };
    let structure = find(["pdb", "cif"]).and_then(|path| Structure::open(&path).ok());
    let trajectory = find(["dcd", "xtc"]).and_then(|path| Series::open(&[path]).ok());
    let first = run.plan.analysis.as_ref().and_then(|analysis| analysis.first_frame);
    let first = usize::try_from(first.unwrap_or_default()).unwrap_or(usize::MAX);
    structure.zip(trajectory).map_or_else(ResidueAxis::default, |(structure, trajectory)| {
        ResidueAxis::of_frame(&structure.topology, &trajectory, first)
    })
}

/// The files of a bundle with their digests, as its manifest has them.
fn files(text: &mut Markdown, index: usize, count: usize, bundle: &Path) -> Result<()> {
    #[derive(Deserialize)]
    struct Manifest {
        id: String,
        files: Vec<File>,
    }

    #[derive(Deserialize)]
    struct File {
        name: String,
        size_bytes: u64,
        sha256: String,
    }

    let path = bundle.join("manifest.json");
    let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let Manifest { id, files } =
        serde_json::from_slice(&content).with_context(|| format!("read {}", path.display()))?;
    let of = (count > 1).then(|| md!(" of replica {}", index + 1));
    let head = row(&[&md!("file of {}", code(&id)), &"bytes", &"SHA-256"]);
    text.push(md!("\n## Files{}\n\n{}|---|--:|---|\n", of, head));
    for file in files {
        let name = file.name.strip_prefix(&format!("{id}/")).unwrap_or(&file.name);
        text.push(row(&[&name, &file.size_bytes, &code(&file.sha256)]));
    }
    text.push(md!(
        "\n`molbox bundle check` compares them; `molbox rerun` repeats the simulation.\n"
    ));
    Ok(())
}

/// What a stage wrote, and how fast.
fn speed(stage: &StageResult) -> String {
    let speed = stage.ns_per_day.map(|speed| format!("{:.1}", speed.get()));
    format!("{}, {} ns/day", counted(stage.frames, "frame"), shown(speed))
}

/// What was asked for, with what the service chose where nothing was given.
fn built(system: &SystemRecord) -> SystemSettings {
    let mut request = system.request.clone();
    if let Some(summary) = &system.summary {
        request.force_field = Some(summary.force_field.clone());
        request.water_type = Some(summary.water_type.clone());
        request.seed = i64::try_from(summary.seed).ok();
    }
    if request.membrane.is_some() {
        request.box_shape = Some(methods::RECTANGULAR.to_owned());
    }
    request
}

fn done(text: &mut Markdown, run: &Run, system: &SystemRecord, parameters: &JobSettings) {
    text.push(md!("## What was done\n\n"));
    for file in &run.files {
        text.push(md!("- Uploaded {} as {}.\n", code(&file.name), code(&file.file_id)));
    }
    if let Some(summary) = &system.summary {
        text.push(md!(
            "- Built {}: {}, {}, {} nm³, {}, {}.\n",
            code(&system.system_id),
            counted(summary.atoms, "atom"),
            counted(summary.residues, "residue"),
            format!("{:.1}", summary.volume.get()),
            summary.force_field,
            summary.water_type
        ));
        let molecules: Vec<Markdown> =
            summary.molecules.iter().map(|(name, count)| md!("{} {}", count, name)).collect();
        text.push(md!("  Molecules: {}.\n", joined(&molecules, ", ")));
    }
    let stages = run.replicas.iter().flat_map(|replica| &replica.job.stages);
    let steps: Vec<u64> =
        stages.filter(|stage| stage.name == "minimization").map(|stage| stage.steps).collect();
    if let (Some(least), Some(most)) = (steps.iter().min(), steps.iter().max()) {
        let steps = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let word = if steps == "1" { "step" } else { "steps" };
        text.push(md!("- Minimised the energy in {} {}.\n", steps, word));
    }
    for stage in parameters.equilibration.iter().flatten() {
        let restraint = stage.restraint_mask.as_ref().map(|mask| {
            let words = measured::words_of(mask).map(|words| md!("{} (", words));
            let end = words.as_ref().map(|_| ")");
            md!(
                ", {}{}{} restrained with {} kJ/mol/nm²",
                words,
                code(mask),
                end,
                shown(stage.restraint_force.map(number))
            )
        });
        let kind = shown(stage.type_.as_deref());
        let time = shown(stage.time.map(number));
        text.push(md!("- Equilibrated: {}, {} ns{}.\n", kind, time, restraint));
    }
    if let Some(stage) = &parameters.production {
        let kind = shown(stage.type_.as_deref());
        let time = shown(stage.time.map(number));
        let every = stage.traj_freq.map(|every| counted(every, "step"));
        let every = every.unwrap_or_else(|| "? steps".to_owned());
        text.push(md!("- Produced {} ns, {}, a frame every {}.\n", time, kind, every));
    }
    if run.replicas.iter().any(|replica| replica.tables.is_some()) {
        text.push(md!("- Analysed the trajectories.\n"));
    }
}

/// The fields of a request with values and units; what was not given has its default.
fn table(text: &mut Markdown, title: &str, name: &str, request: &Value) {
    let mut rows = Vec::new();
    fields(&mut rows, &Markdown::default(), schema::named(name), request);
    text.push(md!("\n### {}\n\n| field | value | unit |\n|---|---|---|\n", title));
    for (field, value, unit) in rows {
        text.push(row(&[&field, &code(&value), &unit]));
    }
}

/// The fields of a system; of one that another program has built those that were given, for its
/// files have decided the rest.
fn system_table(text: &mut Markdown, settings: &SystemSettings) -> Result<()> {
    const SCHEMA: &str = "SystemBuildRequest";
    if settings.built.is_empty() {
        table(text, "System", SCHEMA, &value(settings)?);
        return Ok(());
    }
    let given = value(settings)?;
    text.push(md!("\n### System\n\n| field | value | unit |\n|---|---|---|\n"));
    let fields = schema::fields(schema::named(SCHEMA));
    for (name, value) in fields.filter_map(|(name, _)| Some((name, given.get(name)?))) {
        if !value.is_null() && *value != Value::Array(Vec::new()) {
            text.push(row(&[&name, &code(&plain(value)), &""]));
        }
    }
    Ok(())
}

type Row = (Markdown, String, Option<&'static str>);

fn fields(rows: &mut Vec<Row>, prefix: &Markdown, schema: &'static Value, request: &Value) {
    for (name, field) in schema::fields(schema) {
        let path = md!("{}{}", prefix, name);
        let given = request.get(name).filter(|value| !value.is_null());
        match given.or(field.get("x-default")) {
            Some(Value::Array(items)) if items.iter().any(Value::is_object) => {
                for (index, item) in items.iter().enumerate() {
                    let items = &schema::resolved(field)["items"];
                    fields(rows, &md!("{}[{}].", path, index), items, item);
                }
            }
            Some(value @ Value::Object(_)) => fields(rows, &md!("{}.", path), field, value),
            Some(Value::Array(items)) if items.is_empty() => {}
            Some(value) => rows.push((path, plain(value), schema::unit(field))),
            None => {}
        }
    }
}

fn times(run: &Run) -> String {
    match (simulated(run).count(), run.replicas.len()) {
        (_, 1) => String::new(),
        (n, all) if n == all => format!(", {n} replicas"),
        (n, all) => format!(", {n} of {all} replicas"),
    }
}

/// A question mark where nothing is known.
fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

/// A number as JSON has it: 1.0, not 1.
fn number(number: Finite) -> String {
    format!("{:?}", number.get())
}

fn value(record: &impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(record)?)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        other => other.to_string(),
    }
}

fn relative(run: &Run, path: &Path) -> String {
    path.strip_prefix(run.folder()).unwrap_or(path).display().to_string()
}

/// The file of a figure of a table, whatever a service calls it.
fn of_table(table: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("replicas_{}.png", table.chars().map(harmless).collect::<String>())
}

fn folder_link(run: &Run, path: &Path) -> Markdown {
    link("files", &format!("{}/", relative(run, path)))
}

fn pictures(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pictures = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "png") {
            pictures.push(path);
        }
    }
    pictures.sort();
    Ok(pictures)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_had_not_settled_is_among_the_warnings_that_come_first() {
        let system = include_str!("../../../../../openapi/examples/system_view.200.succeeded.json");
        let system: SystemRecord = serde_json::from_str(system).unwrap();
        let mut log = "time (ps),density (g/mL)\n".to_owned();
        for n in 0..100_u8 {
            let density = f64::from(n.min(70)) * 0.01 + f64::from(n % 3) * 0.001;
            log += &format!("{n},{density}\n");
        }
        let found = Found { log: Log::of([("production", log)]), ..Found::default() };
        let warnings = warnings(&system, &[], Vec::new(), &[found]);
        let [of_system, of_log] = &warnings[..] else { panic!("{warnings:?}") };
        assert_eq!(of_system.as_str(), "SO4 101 of chain A removed");
        let expected = "The density had not settled within production: the first ";
        assert!(of_log.as_str().starts_with(expected), "{of_log}");
    }

    #[test]
    fn what_analyses_warn_of_comes_first_once_for_all_replicas() {
        let system = include_str!("../../../../../openapi/examples/system_view.200.succeeded.json");
        let mut system: SystemRecord = serde_json::from_str(system).unwrap();
        system.warnings.clear();
        let analysis = |frames: &str| -> AnalysisRecord {
            let example = include_str!("../../../../../openapi/examples/analysis_view.200.json");
            let mut record: Value = serde_json::from_str(example).unwrap();
            let warning = |message: &str| json!({"code": "analysis", "message": message});
            record["warnings"] = json!([warning("rmsd_masks[0][0]: water, too"), warning(frames)]);
            serde_json::from_value(record).unwrap()
        };
        let [first, second] = ["frame 3 left out", "frame 7 left out"].map(analysis);
        let warnings = warnings(&system, &[], vec![&first, &second], &[]);
        let expected = ["rmsd of `@CA`: water, too", "frame 3 left out", "frame 7 left out"];
        assert_eq!(warnings.iter().map(Markdown::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_table_of_a_membrane_says_that_its_box_is_rectangular() {
        let system = include_str!("../../../../../openapi/examples/system_view.200.succeeded.json");
        let mut system: SystemRecord = serde_json::from_str(system).unwrap();
        system.request.membrane = Some("POPC".to_owned());
        assert_eq!(built(&system).box_shape.as_deref(), Some("rectangular"));
        system.request.membrane = None;
        assert_eq!(built(&system).box_shape, system.request.box_shape);
    }

    #[test]
    fn texts_of_structures_and_services_are_texts_in_the_report() {
        let system = include_str!("../../../../../openapi/examples/system_view.200.succeeded.json");
        let job = include_str!("../../../../../openapi/examples/job_view.200.succeeded.json");
        let [mut system, mut job]: [Value; 2] =
            [system, job].map(|text| serde_json::from_str(text).unwrap());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret.png"), b"\x89PNG\r\n\x1a\nsecret").unwrap();
        let hostile = [
            "chain '![x](../../../../../../etc/passwd)' became A",
            "![y](secret.png) 900 of chain Z removed",
            "[click](javascript:alert(document.domain)) 901 of chain Z removed",
            "<script>alert(1)</script> 902 of chain Z removed",
            "two\n\n[lines](javascript:alert(1))",
            "![y][z]\n\n[z]: secret.png",
        ];
        let warnings = hostile.map(|message| json!({"code": "build", "message": message}));
        system["warnings"] = json!(warnings);
        system["request"]["box_name"] = json!("a` ![y](secret.png) | `b");
        system["summary"]["molecules"] = json!({"![y](secret.png)": 1});
        system["summary"]["force_field"] = json!("![y](secret.png)");
        job["platform"] = json!("CPU | ![y](secret.png)");
        job["engine"] = json!("<javascript:alert(1)>");
        job["citations"] = json!(["&#33;&#91;y](secret.png)", "![y](&#115;ecret.png)"]);
        let state = json!({
            "id": "run_1",
            "plan": {
                "structure": "/data/![x](&#47;etc&#47;passwd).pdb", "system": {}, "job": {},
                "replicas": 1,
            },
            "files": [],
            "system": system,
            "replicas": [{"job": job}],
            "is_done": true,
        });
        fs::write(folder.path().join(molbox::run::STATE_FILE), state.to_string()).unwrap();
        let run = Run::open(folder.path()).unwrap();
        let page = write(&run, &[Results { bundle: None, tables: None }]).unwrap();
        let page = fs::read_to_string(page).unwrap();
        assert!(!page.contains("<img") && !page.contains("<script"), "{page}");
        assert_eq!(page.matches("<a ").count(), 1, "that to the references: {page}");
        for part in [
            "<h1>![x](&amp;#47;etc&amp;#47;passwd).pdb</h1>",
            "<li>chain '![x](../../../../../../etc/passwd)' became A</li>",
            "<li>[click](javascript:alert(document.domain)) 901 of chain Z removed</li>",
            "<li>&lt;script&gt;alert(1)&lt;/script&gt; 902 of chain Z removed</li>",
            "<li>two [lines](javascript:alert(1))</li>",
            "<code>a` ![y](secret.png) | `b</code>",
            "<td>CPU | ![y](secret.png)</td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_figure_is_a_file_of_the_run_whatever_its_table_is_called() {
        assert_eq!(of_table("rmsf_by_residue_2"), "replicas_rmsf_by_residue_2.png");
        assert_eq!(of_table("x/../../.bashrc"), "replicas_x________bashrc.png");
    }

    #[test]
    fn a_report_has_what_was_done_and_what_to_cite() {
        let record = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let system =
            record(include_str!("../../../../../openapi/examples/system_view.200.succeeded.json"));
        let job =
            record(include_str!("../../../../../openapi/examples/job_view.200.succeeded.json"));
        let run: Run = serde_json::from_value(json!({
            "id": "run_1",
            "plan": {"structure": "/data/1vii.pdb", "system": {}, "job": {}, "replicas": 1},
            "files": [],
            "system": system,
            "replicas": [{"job": job}],
            "is_done": true,
        }))
        .unwrap();
        let report = Report::of(&run, &[Results { bundle: None, tables: None }]).unwrap();
        let report = report.text.to_string();
        let (before, parameters) = report.split_once("\n## Parameters\n").unwrap();
        assert_eq!(
            before,
            "# 1vii.pdb\n\n\
             Molecular dynamics of `1vii.pdb`.\n\n\
             ## Know first\n\n\
             - SO4 101 of chain A removed\n\n\
             ## What was done\n\n\
             - Built `box_77jpjj2n2sksrj1kkw21`: 7845 atoms, 2463 residues, 85.1 nm³, amber14, \
             tip3p.\n  Molecules: 9 CL, 7 NA, 1 protein, 2411 water.\n\
             - Minimised the energy in 1187 steps.\n\
             - Equilibrated: NVT, 0.1 ns, `!:HOH,NA,CL&!@/H` restrained with 1000.0 kJ/mol/nm².\n\
             - Equilibrated: NPT, 0.2 ns, `@CA` restrained with 1000.0 kJ/mol/nm².\n\
             - Produced 10.0 ns, NPT, a frame every 5000 steps.\n\n\
             ## Results\n\n\
             | replica | job | seed | engine | platform | production | results |\n\
             |---|---|---|---|---|---|---|\n\
             | 1 | `job_7cpejpkq0zxnh8yydfbe` | 679010578 | openmm | CPU | 500 frames, 13.4 \
             ns/day |  |\n\n\
             ### Replica 1\n\n"
        );
        for part in [
            "| seed | `591563821` |  |",
            "| integration_timestep | `4.0` | fs |",
            "TIP3P: W. L. Jorgensen",
            "ff14SB",
        ] {
            assert!(parameters.contains(part), "{part}: {parameters}");
        }
        assert!(!parameters.contains("Lipids") && !parameters.contains("GAFF"), "{parameters}");
    }
}
