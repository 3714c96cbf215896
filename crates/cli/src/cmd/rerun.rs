//! `molbox rerun`: a job again from its bundle, at any service, and both compared.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use clap::Args;
use molbox::run::{Plan, Run, STATE_FILE};
use molbox::workflow::types::{Engines, JobCreateParams, SystemBuildRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::run::Screen;
use crate::bundle::{Bundle, CRATE, Input, Kind, MANIFEST, Manifest, OF_SYSTEM, Problem, within};
use crate::compare::{self, Bits, Comparison, Verdict, compare};
use crate::context::Context;
use crate::failure::{Code, Failure};
use crate::interrupt::unless_interrupted;

/// What a folder holds the repetition of.
const STATE: &str = "rerun.json";
/// Where what is compared of the original lies.
const ORIGINAL: &str = "original";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zip that `molbox job download` has written, or its folder.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Folder for state and results. Default: the name of the bundle with `-rerun`.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Ask for this engine in place of what was asked for.
    #[arg(long, value_parser = engine)]
    engine: Option<Engines>,
    /// Another seed for the simulation, to test a result; averages are compared then.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

fn engine(text: &str) -> Result<Engines, String> {
    text.parse().map_err(|_| "auto, openmm or gromacs".to_owned())
}

/// Of which bundle a folder has the repetition, and with what that was begun.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// SHA-256 of the manifest.
    manifest: String,
    engine: Option<String>,
    seed: Option<u64>,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let mut bundle = Bundle::open(&arguments.bundle)?;
    let manifest = bundle.manifest()?;
    if (manifest.kind.as_str(), manifest.status.as_str()) != ("job", "succeeded") {
        let message = format!(
            "{}: the {} in it has ended as {}; a job that has succeeded can be repeated",
            bundle.path().display(),
            manifest.kind,
            manifest.status
        );
        return Err(Failure::new(Code::Conflict, message));
    }
    whole(&mut bundle)?;
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(&arguments.bundle));
    let mut run = match Run::open(&folder) {
        Ok(run) if !run.is_dead() => {
            check_state(&folder, &state(arguments, &mut bundle)?)?;
            run
        }
        _ => begin(arguments, &mut bundle, &manifest, &folder)?,
    };
    if !run.is_done {
        context.output.note(&format!("state and results in {}", folder.display()));
        let client = context.workflow()?;
        let mut screen = Screen::new(&context.output.without_events());
        let work = run.finish(&client, move |event| screen.show(event));
        let repeated = unless_interrupted(work).await;
        repeated.map_err(|failure| match failure.remedy {
            None => failure.remedy("the same command resumes it"),
            Some(_) => failure,
        })?;
    }
    let replica = run.replicas.first().ok_or_else(|| Failure::usage("a run has a replica"))?;
    let zip = folder.join(replica.bundle.as_ref().ok_or_else(|| Failure::usage("and a bundle"))?);
    let mut again = Bundle::open(&zip)?;
    let frames = [folder.join(ORIGINAL), folder.join("replica_1")];
    place_frames(&mut bundle, &frames[0])?;
    place_frames(&mut again, &frames[1])?;
    let found = compare(&mut bundle, &mut again, [&frames[0], &frames[1]])?;
    show(context, arguments, &zip, &found)?;
    verdict(context, &found)
}

/// Refuses results that are not as they were made: a repetition would be blamed for what differs.
fn whole(bundle: &mut Bundle) -> Result<(), Failure> {
    let is_of_results = |problem: &Problem| {
        problem.file != CRATE && matches!(problem.kind, Kind::Missing | Kind::Changed)
    };
    let Some(problem) = bundle.check(|_, _| {})?.into_iter().find(is_of_results) else {
        return Ok(());
    };
    Err(damaged(bundle, &format!("{} {}", problem.file, problem.detail)))
}

fn damaged(bundle: &Bundle, what: &str) -> Failure {
    Failure::new(Code::Damaged, format!("{}: {what}", bundle.path().display()))
        .remedy("`molbox bundle check` names what else is wrong; download it again")
}

/// Says what came of it, by the status too.
fn verdict(context: &Context, found: &Comparison) -> Result<(), Failure> {
    let failure = match found.verdict {
        Verdict::Same => {
            context.output.note("the same, bit by bit");
            return Ok(());
        }
        Verdict::Alike => Failure::new(
            Code::Alike,
            "statistically the same: other bits, and no average differs by more than its error \
             allows",
        ),
        Verdict::Different if found.same_bits_promised => Failure::new(
            Code::Different,
            "different: the same programs, seed, processor and threads gave other bits",
        )
        .remedy("report it: with these the same bits are promised"),
        Verdict::Different => Failure::new(
            Code::Different,
            "different: averages differ by more than their errors allow",
        ),
        Verdict::Undecided => Failure::new(
            Code::Different,
            "other bits, and too few values were logged to compare averages",
        )
        .remedy("repeat a longer job, or one with a smaller production.log_freq"),
    };
    Err(failure)
}

/// Writes what is repeated into a folder; nothing is sent yet.
fn begin(
    arguments: &Arguments,
    bundle: &mut Bundle,
    manifest: &Manifest,
    folder: &Path,
) -> Result<Run, Failure> {
    let system = compare::system_of(bundle)?;
    let input = folder.join("input");
    fs::create_dir_all(&input).map_err(|e| Failure::file(&input, &e))?;
    // Of one that came to nothing.
    let before = folder.join(STATE_FILE);
    if before.exists() {
        fs::remove_file(&before).map_err(|e| Failure::file(&before, &e))?;
    }
    let plan = plan(arguments, bundle, manifest, &system, &input)?;
    let state = state(arguments, bundle)?;
    let path = folder.join(STATE);
    let text = serde_json::to_vec_pretty(&state).map_err(anyhow::Error::from)?;
    fs::write(&path, text).map_err(|e| Failure::file(&path, &e))?;
    Ok(Run::begin(plan, folder)?)
}

fn state(arguments: &Arguments, bundle: &mut Bundle) -> Result<State, Failure> {
    Ok(State {
        manifest: bundle.sha256(MANIFEST)?,
        engine: arguments.engine.map(|engine| engine.to_string()),
        seed: arguments.seed,
    })
}

/// Refuses to go on in a folder with something else.
fn check_state(folder: &Path, wanted: &State) -> Result<(), Failure> {
    let text = fs::read(folder.join(STATE)).unwrap_or_default();
    if serde_json::from_slice::<State>(&text).ok().as_ref() == Some(wanted) {
        return Ok(());
    }
    let message = format!("{}: holds the repetition of something else", folder.display());
    Err(Failure::new(Code::Conflict, message).remedy("give another folder by --output"))
}

/// The same files, requests and seeds.
fn plan(
    arguments: &Arguments,
    bundle: &mut Bundle,
    manifest: &Manifest,
    system: &Manifest,
    input: &Path,
) -> Result<Plan, Failure> {
    if system.inputs.is_empty() && needs_files(&system.request) {
        let message = format!(
            "{}: it lacks the files that its system was built from: a service of an earlier \
             version made it",
            bundle.path().display()
        );
        return Err(Failure::new(Code::Conflict, message).remedy(
            "build the system again, from the same files, and simulate it with the parameters in \
             its manifest.json",
        ));
    }
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for one in &system.inputs {
        files.push((one.field.clone(), place(bundle, system, one, input)?));
    }
    let of = |field: &str| -> Vec<PathBuf> {
        let of_field = files.iter().filter(|(of, _)| of == field);
        of_field.map(|(_, path)| path.clone()).collect()
    };
    let asked = if system.settings.is_null() { &system.request } else { &system.settings };
    let mut build = asked.clone();
    if let Some(members) = build.as_object_mut() {
        members.retain(|name, _| !["protein", "ligands", "built"].contains(&name.as_str()));
        // What a registered force field has is no model of the service's.
        members.retain(|name, value| name != "water_type" || *value != "custom");
        members.insert("seed".to_owned(), json!(system.seed));
    }
    let mut job = manifest.parameters.clone();
    if let Some(members) = job.as_object_mut() {
        members.remove("box_id");
        members.insert("seed".to_owned(), json!(arguments.seed.unwrap_or(manifest.seed)));
        if let Some(engine) = arguments.engine {
            members.insert("engine".to_owned(), json!(engine.to_string()));
        }
    }
    let built = of("built");
    let structure = built.first().cloned().or_else(|| of("protein").pop());
    Ok(Plan {
        structure: structure.map(|path| path.display().to_string()).unwrap_or_default(),
        built,
        ligands: of("ligands"),
        force_field: of("force_field").pop(),
        system: request::<SystemBuildRequest>(OF_SYSTEM, &build)?,
        job: request::<JobCreateParams>(MANIFEST, &job)?,
        analysis: None,
        replicas: 1,
    })
}

/// Whether a system was built from files that somebody uploaded.
fn needs_files(request: &Value) -> bool {
    ["protein", "ligands", "built"].iter().any(|field| match &request[*field] {
        Value::Array(items) => !items.is_empty(),
        other => !other.is_null(),
    })
}

fn request<T: for<'de> Deserialize<'de>>(file: &str, value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone())
        .map_err(|error| Failure::new(Code::Damaged, format!("{file}: its request: {error}")))
}

/// Writes an input of a bundle where it can be sent from, under the name that its owner gave it.
fn place(
    bundle: &mut Bundle,
    system: &Manifest,
    input: &Input,
    folder: &Path,
) -> Result<PathBuf, Failure> {
    // A bundle can come from anybody, and a path in the place of a name from anywhere on this machine.
    let is_name = !input.file.contains(['/', '\\', ':'])
        && Path::new(&input.file).file_name() == Some(OsStr::new(&input.file));
    if !is_name {
        return Err(damaged(bundle, &format!("{:?} is no name of an input", input.file)));
    }
    let name = format!("system/input/{}", input.file);
    let listed = system
        .files
        .iter()
        .find(|file| within(&system.id, &file.name) == name.trim_start_matches("system/"));
    let is_whole = match listed {
        Some(listed) => bundle.has(&name) && bundle.sha256(&name)? == listed.sha256,
        None => false,
    };
    if !is_whole {
        return Err(damaged(bundle, &format!("{name} is not as when it was made")));
    }
    let extension = input.file.rsplit('.').next().unwrap_or_default();
    // One that a person has chosen may be none that a file can have here.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let stem = match !input.name.is_empty() && input.name.chars().all(is_plain) {
        true => input.name.as_str(),
        false => input.file.split('.').next().unwrap_or_default(),
    };
    let path = folder.join(format!("{stem}.{extension}"));
    let mut file = File::create(&path).map_err(|e| Failure::file(&path, &e))?;
    bundle.copy(&name, &mut file).map_err(|e| Failure::file(&path, &e))?;
    Ok(path)
}

/// Writes what is measured of a bundle's frames into a folder, unless it lies there.
fn place_frames(bundle: &mut Bundle, folder: &Path) -> Result<(), Failure> {
    let Some((trajectory, structure)) = compare::frames_of(bundle) else { return Ok(()) };
    let as_built = compare::AS_BUILT.map(str::to_owned);
    for name in [trajectory, structure].into_iter().chain(as_built) {
        let path = folder.join(&name);
        if path.exists() || !bundle.has(&name) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|e| Failure::file(parent, &e))?;
        }
        let partial = path.with_extension("tmp");
        let mut file = File::create(&partial).map_err(|e| Failure::file(&partial, &e))?;
        bundle.copy(&name, &mut file).map_err(|e| Failure::file(&partial, &e))?;
        fs::rename(&partial, &path).map_err(|e| Failure::file(&path, &e))?;
    }
    Ok(())
}

fn show(
    context: &Context,
    arguments: &Arguments,
    again: &Path,
    found: &Comparison,
) -> Result<(), Failure> {
    let output = &context.output;
    if output.is_json() {
        let mut all = json!({"bundle": arguments.bundle, "repetition": again});
        crate::request::merge(&mut all, &json!(found));
        return output.json(&all);
    }
    if !found.conditions.is_empty() {
        let rows: Vec<Value> = found.conditions.iter().map(|one| json!(one)).collect();
        output.table(&[("WHAT", "/what"), ("THEN", "/then"), ("NOW", "/now")], &rows)?;
        output.text("\n")?;
    }
    let others: Vec<Value> =
        found.files.iter().filter(|file| file.is != Bits::Same).map(|file| json!(file)).collect();
    output.note(&format!(
        "{} of {} files are the same bit by bit{}",
        found.files.len() - others.len(),
        found.files.len(),
        if compare::is_same_system(&found.files) { ", those of the system among them" } else { "" }
    ));
    if found.verdict == Verdict::Same {
        return Ok(());
    }
    let of = |average: &compare::Average| match average.error {
        Some(error) => format!("{} ± {}", rounded(average.mean), rounded(error)),
        None => rounded(average.mean),
    };
    let rows = found.quantities.iter().map(|quantity| {
        json!({
            "quantity": quantity.quantity,
            "unit": quantity.unit,
            "then": of(&quantity.then),
            "now": of(&quantity.now),
            "difference": rounded(quantity.difference),
            "p": quantity.p.map_or_else(|| "too few values".to_owned(), |p| format!("{p:.3}")),
            "agrees": match quantity.agrees {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "?",
            },
        })
    });
    let columns = [
        ("MEAN", "/quantity"),
        ("UNIT", "/unit"),
        ("THEN", "/then"),
        ("NOW", "/now"),
        ("DIFFERENCE", "/difference"),
        ("P", "/p"),
        ("AGREES", "/agrees"),
    ];
    output.table(&columns, &rows.collect::<Vec<_>>())
}

/// A number with six digits or so.
fn rounded(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let decimals = (5 - number.abs().log10().floor() as i64).clamp(0, 9) as usize;
    format!("{number:.decimals$}")
}

fn default_folder(bundle: &Path) -> PathBuf {
    let stem = bundle.file_stem().and_then(|stem| stem.to_str()).unwrap_or("bundle");
    PathBuf::from(format!("{stem}-rerun"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_the_digits_that_are_worth_reading() {
        let shown = [300.123_456_7, -152_345.678, 0.001_234_567, 0.0].map(rounded);
        assert_eq!(shown, ["300.123", "-152346", "0.00123457", "0"]);
    }

    #[test]
    fn a_system_of_solvent_alone_needs_no_files() {
        assert!(!needs_files(&json!({"box_name": "water", "ligands": []})));
        assert!(needs_files(&json!({"ligands": ["drug"]})));
        assert!(needs_files(&json!({"protein": "1vii"})));
    }
}
