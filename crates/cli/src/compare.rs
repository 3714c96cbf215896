//! Whether a repetition of a simulation gave the same: bit by bit, and where bits differ by
//! averages with their errors.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use molbox_analysis::{Control, Error, Files, Params, Table, Values, analyze_files};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::bundle::{Bundle, Manifest, OF_SYSTEM, within};
use crate::failure::{Code, Failure};
use crate::series::{self, Column};
use crate::statistics;

/// Chance that two runs of the same are called different, all quantities together.
const LEVEL: f64 = 0.01;
/// Means that agree so far are the same number, written by two programs: logs have 7 digits or so.
const SAME: f64 = 1e-6;

/// Two simulations beside each other.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) verdict: Verdict,
    /// Whether the same bits are promised: same seed, programs, processor and number of threads, on
    /// the same system. A membrane, for one, is built anew with other coordinates.
    pub(crate) same_bits_promised: bool,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) files: Vec<Compared>,
    pub(crate) quantities: Vec<Quantity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Every bit.
    Same,
    /// Other bits, and averages that agree within their errors.
    Alike,
    /// Averages that do not, or other bits where the same are promised.
    Different,
    /// Other bits, and too few values to compare averages.
    Undecided,
}

/// Something that was another when it was repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Condition {
    pub(crate) what: String,
    pub(crate) then: String,
    pub(crate) now: String,
}

/// A file of both.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) file: String,
    pub(crate) is: Bits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Bits {
    Same,
    Other,
    /// Only one of the two has it.
    Missing,
}

/// An average of both.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Quantity {
    pub(crate) quantity: String,
    pub(crate) unit: String,
    pub(crate) then: Average,
    pub(crate) now: Average,
    pub(crate) difference: f64,
    /// Of a difference as large as this or larger, were both of the same; none of a series that is
    /// too short to have an error.
    pub(crate) p: Option<f64>,
    pub(crate) agrees: Option<bool>,
}

/// The average of a series.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Average {
    pub(crate) mean: f64,
    /// Standard error of the mean, by blocking.
    pub(crate) error: Option<f64>,
    /// Values in the series.
    pub(crate) n: usize,
    /// As many independent values would have this error.
    pub(crate) independent: Option<f64>,
}

impl Average {
    fn of(values: &[f64]) -> Self {
        let error = statistics::standard_error(values);
        let deviation = statistics::deviation(values);
        let independent = match (error, deviation) {
            (Some(error), Some(deviation)) if error > 0.0 => Some((deviation / error).powi(2)),
            (Some(_), _) => Some(values.len() as f64),
            _ => None,
        };
        Self { mean: statistics::mean(values), error, n: values.len(), independent }
    }
}

impl Quantity {
    /// Compares two series by Welch's t-test, with as many degrees of freedom as there are
    /// independent values.
    pub(crate) fn new(quantity: String, unit: String, then: &[f64], now: &[f64]) -> Self {
        let (then, now) = (Average::of(then), Average::of(now));
        let difference = now.mean - then.mean;
        let p = p_value(&then, &now, difference);
        Self { quantity, unit, then, now, difference, p, agrees: None }
    }
}

fn p_value(then: &Average, now: &Average, difference: f64) -> Option<f64> {
    let scale = then.mean.abs().max(now.mean.abs());
    if difference.abs() <= SAME * scale {
        return Some(1.0);
    }
    let [a, b] = [then.error?.powi(2), now.error?.powi(2)];
    if a + b == 0.0 {
        return Some(0.0);
    }
    // Of as good as no independent value there is one degree of freedom all the same.
    let of = |square: f64, n: f64| square.powi(2) / (n - 1.0).max(1.0);
    let freedom = (a + b).powi(2) / (of(a, then.independent?) + of(b, now.independent?));
    let t = difference.abs() / (a + b).sqrt();
    Some(2.0 * StudentsT::new(0.0, 1.0, freedom).ok()?.sf(t))
}

/// Marks which quantities agree, at a level for all of them together (Bonferroni's): whether all
/// do, none where one has too few values.
fn judge(quantities: &mut [Quantity]) -> Option<bool> {
    let level = LEVEL / quantities.len().max(1) as f64;
    let mut all = (!quantities.is_empty()).then_some(true);
    for quantity in quantities {
        quantity.agrees = quantity.p.map(|p| p > level);
        all = match (all, quantity.agrees) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (None, _) | (_, None) => None,
            _ => Some(true),
        };
    }
    all
}

/// Compares the results of a job with those of its repetition. `frames` are the folders in which
/// structures and trajectories of both lie, in this order.
pub(crate) fn compare(
    then: &mut Bundle,
    now: &mut Bundle,
    frames: [&Path; 2],
) -> Result<Comparison, Failure> {
    let manifests = [then.manifest()?, now.manifest()?];
    let methods = [methods(then, &manifests[0])?, methods(now, &manifests[1])?];
    let conditions = conditions(&manifests, &methods);
    let files = files(then, now)?;
    let is_same = files.iter().all(|file| file.is == Bits::Same);
    let same_bits_promised = conditions.is_empty()
        && is_exact(&methods[0])
        && is_same_system(&files)
        && (is_of_one_thread(&methods[0]) || has_same(&files, "minimization."));
    let mut quantities = logged(then, now, &manifests[0])?;
    quantities.extend(of_frames(then, now, frames)?);
    let agree = judge(&mut quantities);
    let verdict = match agree {
        _ if is_same => Verdict::Same,
        _ if same_bits_promised => Verdict::Different,
        Some(true) => Verdict::Alike,
        Some(false) => Verdict::Different,
        None => Verdict::Undecided,
    };
    Ok(Comparison { verdict, same_bits_promised, conditions, files, quantities })
}

/// How each stage was run, as the worker noted it.
fn methods(bundle: &mut Bundle, manifest: &Manifest) -> Result<Vec<Value>, Failure> {
    let mut names: Vec<String> =
        bundle.names().filter(|name| is_method(name)).map(str::to_owned).collect();
    names.sort_by_key(|name| manifest.files.iter().position(|file| file.name.ends_with(name)));
    names.iter().map(|name| bundle.json(name)).collect()
}

fn is_method(name: &str) -> bool {
    name.ends_with(".method.json")
}

/// Whether a resumed or repeated run of these stages gives the same bits on the same machine, from
/// the same minimised structure: OpenMM on one thread of a CPU, and GROMACS, which is run
/// reproducibly, on any number.
fn is_exact(methods: &[Value]) -> bool {
    let mut all = methods.iter().map(|method| match method["engine"]["name"].as_str() {
        Some("gromacs") => true,
        _ => method["engine"]["platform"] == "CPU" && method["machine"]["threads"] == 1,
    });
    !methods.is_empty() && all.all(|is_exact| is_exact)
}

/// Whether the minimisation, which is OpenMM's with any engine, gives the same bits too: on several
/// threads sums are taken in another order, and it ends in another place.
fn is_of_one_thread(methods: &[Value]) -> bool {
    methods.iter().all(|method| method["machine"]["threads"] == 1)
}

/// What was another.
fn conditions(manifests: &[Manifest; 2], methods: &[Vec<Value>; 2]) -> Vec<Condition> {
    let mut out = Vec::new();
    let mut add = |what: &str, [then, now]: [String; 2]| {
        if then != now {
            out.push(Condition { what: what.to_owned(), then, now });
        }
    };
    let or_none = |text: Option<&str>| text.unwrap_or("none").to_owned();
    add("molboxd", manifests.each_ref().map(|it| it.molboxd.clone()));
    add("document", manifests.each_ref().map(|it| or_none(it.document.as_deref())));
    add("seed", manifests.each_ref().map(|it| it.seed.to_string()));
    add("engine", manifests.each_ref().map(|it| or_none(it.engine.as_deref())));
    add("platform", manifests.each_ref().map(|it| or_none(it.platform.as_deref())));
    let programs: BTreeSet<&String> =
        manifests.iter().flat_map(|manifest| manifest.versions.keys()).collect();
    for program in programs {
        let version = |it: &Manifest| or_none(it.versions.get(program).map(String::as_str));
        add(program, manifests.each_ref().map(version));
    }
    for pointer in [
        "/engine/name",
        "/engine/precision",
        "/engine/simd",
        "/machine/processor",
        "/machine/architecture",
        "/machine/threads",
        "/machine/gpu",
    ] {
        let all = methods.each_ref().map(|methods| {
            let mut values: Vec<String> = Vec::new();
            for method in methods {
                let value = match method.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => "none".to_owned(),
                };
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            values.join(", ")
        });
        let what = pointer.trim_start_matches('/').replace('/', " ");
        add(&format!("{what} of the stages"), all);
    }
    // Of the whole, where there is nothing more to say than it does.
    if out.iter().any(|condition| condition.what == "engine") {
        out.retain(|condition| condition.what != "engine name of the stages");
    }
    out
}

/// The files that the same bits are expected of: not what has times in it, or says how it was run.
fn files(then: &mut Bundle, now: &mut Bundle) -> Result<Vec<Compared>, Failure> {
    let is_result = |name: &&str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let describes =
            ["log.txt", "README.txt", "manifest.json", "ro-crate-metadata.json"].contains(&last);
        !describes && !is_method(name) && !name.starts_with("system/input/")
    };
    let names: BTreeSet<String> =
        then.names().chain(now.names()).filter(is_result).map(str::to_owned).collect();
    let mut out = Vec::new();
    for file in names {
        let is = match (then.has(&file), now.has(&file)) {
            (true, true) if digest(then, &file)? == digest(now, &file)? => Bits::Same,
            (true, true) => Bits::Other,
            _ => Bits::Missing,
        };
        out.push(Compared { file, is });
    }
    Ok(out)
}

/// Digest of a file, without the line of a structure that has the day on which it was written.
fn digest(bundle: &mut Bundle, name: &str) -> Result<String, Failure> {
    if !name.ends_with(".pdb") && !name.ends_with(".cif") {
        return bundle.sha256(name);
    }
    let content = bundle.read(name)?;
    let mut digest = Sha256::new();
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line).to_ascii_lowercase();
        if !text.contains("created with openmm") {
            digest.update(line);
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the last stage has logged: production, if there is any.
fn logged(
    then: &mut Bundle,
    now: &mut Bundle,
    manifest: &Manifest,
) -> Result<Vec<Quantity>, Failure> {
    let last = manifest.files.iter().map(|file| within(&manifest.id, &file.name));
    let mut logs: Vec<String> = last
        .filter(|name| name.ends_with(".csv") && !name.contains('/'))
        .map(str::to_owned)
        .collect();
    logs.sort_by_key(|name| {
        let number = name.trim_start_matches("equilibration_").trim_end_matches(".csv").parse();
        (name == "production.csv", number.unwrap_or(0_u64))
    });
    let Some(name) = logs.pop().filter(|name| now.has(name)) else { return Ok(Vec::new()) };
    let columns = |bundle: &mut Bundle| -> Result<Vec<Column>, Failure> {
        Ok(series::columns(&String::from_utf8_lossy(&bundle.read(&name)?)))
    };
    let [then, now] = [columns(then)?, columns(now)?];
    let mut out = Vec::new();
    for column in then.iter().filter(|column| !column.is_abscissa()) {
        let Some(other) = now.iter().find(|other| other.name == column.name) else { continue };
        let [values, others] = [column.finite(), other.finite()];
        if !values.is_empty() && !others.is_empty() {
            let Column { quantity, unit, .. } = column.clone();
            out.push(Quantity::new(quantity, unit, &values, &others));
        }
    }
    Ok(out)
}

/// Masks of what is measured of the molecules: the first that selects anything.
const MASKS: [(&str, &str); 2] = [("@CA&@/C", "α-carbons"), ("@P", "phosphorus atoms")];

/// The system as it was built; PDB has no room for more than 99,999 atoms.
pub(crate) const AS_BUILT: [&str; 2] = ["system/system.pdb", "system/system.cif"];

/// What is measured of a trajectory, by the kind of its table, and what it is called.
const MEASURED: [(&str, &str); 2] =
    [("rmsd", "RMSD"), ("radius_of_gyration", "radius of gyration")];

/// The frames of a simulation.
struct Frames {
    trajectory: PathBuf,
    topology: PathBuf,
}

/// RMSD from the system as it was built, and radius of gyration, of the backbone; nothing of
/// solvent alone, or without frames.
fn of_frames(then: &Bundle, now: &Bundle, folders: [&Path; 2]) -> Result<Vec<Quantity>, Failure> {
    let frames = |bundle: &Bundle, folder: &Path| {
        let (trajectory, topology) = frames_of(bundle)?;
        Some(Frames { trajectory: folder.join(trajectory), topology: folder.join(topology) })
    };
    let (Some(of_then), Some(of_now)) = (frames(then, folders[0]), frames(now, folders[1])) else {
        return Ok(Vec::new());
    };
    // The same for both.
    let reference = AS_BUILT.map(|name| folders[0].join(name)).into_iter().find(|it| it.exists());
    measured(&of_then, &of_now, reference.as_ref())
}

fn measured(
    then: &Frames,
    now: &Frames,
    reference: Option<&PathBuf>,
) -> Result<Vec<Quantity>, Failure> {
    for (mask, called) in MASKS {
        let params = Params {
            rmsd_masks: vec![vec![mask.to_owned()]],
            gyration_masks: vec![mask.to_owned()],
            without_convergence: true,
            ..Params::default()
        };
        let tables = |frames: &Frames| {
            let files = Files {
                topology: &frames.topology,
                trajectory: std::slice::from_ref(&frames.trajectory),
                reference: reference.map(PathBuf::as_path),
            };
            let control = Control {
                n_threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
                progress: &|_, _| {},
                cancelled: &AtomicBool::new(false),
            };
            match analyze_files(&files, &params, &control) {
                Ok(report) => Ok(Some(report.tables)),
                // A mask that selects nothing.
                Err(Error::Params(_)) => Ok(None),
                Err(error) => {
                    Err(Failure::new(Code::File, format!("{:#}", anyhow::Error::new(error))))
                }
            }
        };
        let (Some(then), Some(now)) = (tables(then)?, tables(now)?) else { continue };
        let series = |tables: &[Table], kind: &str| {
            let column = tables.iter().find(|table| table.kind == kind)?.columns.last()?;
            let Values::Numbers(values) = &column.values else { return None };
            Some((values.clone(), column.unit))
        };
        let quantities = MEASURED.iter().filter_map(|(kind, what)| {
            let ((then, unit), (now, _)) = (series(&then, kind)?, series(&now, kind)?);
            let name = format!("{what} of the {called}");
            Some(Quantity::new(name, unit.unwrap_or_default().to_owned(), &then, &now))
        });
        return Ok(quantities.collect());
    }
    Ok(Vec::new())
}

/// Names of the trajectory of production and the structure that names its atoms.
pub(crate) fn frames_of(bundle: &Bundle) -> Option<(String, String)> {
    let one_of =
        |names: [&str; 2]| names.into_iter().find(|name| bundle.has(name)).map(str::to_owned);
    Some((
        one_of(["production.dcd", "production.xtc"])?,
        one_of(["production.pdb", "production.cif"])?,
    ))
}

/// Whether both are of one system, bit by bit.
pub(crate) fn is_same_system(files: &[Compared]) -> bool {
    has_same(files, "system/")
}

fn has_same(files: &[Compared], begin: &str) -> bool {
    files.iter().filter(|file| file.file.starts_with(begin)).all(|file| file.is == Bits::Same)
}

/// The manifest of the system of a job's bundle.
pub(crate) fn system_of(bundle: &mut Bundle) -> Result<Manifest, Failure> {
    bundle.json(OF_SYSTEM)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Independent values about a mean, between 1 below and 1 above.
    fn series(n: usize, mean: f64, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            mean + (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        (0..n).map(next).collect()
    }

    fn of(then: &[f64], now: &[f64]) -> Quantity {
        Quantity::new("temperature".to_owned(), "K".to_owned(), then, now)
    }

    #[test]
    fn series_of_one_mean_agree_and_of_two_do_not() {
        let mut same = [of(&series(512, 300.0, 1), &series(512, 300.0, 2))];
        assert_eq!(judge(&mut same), Some(true), "{same:?}");
        let mut other = [of(&series(512, 300.0, 1), &series(512, 300.5, 2))];
        assert_eq!(judge(&mut other), Some(false), "{other:?}");
    }

    #[test]
    fn series_that_are_too_short_decide_nothing_unless_they_are_the_same() {
        let mut short = [of(&[1.0, 2.0], &[1.5, 2.5])];
        assert_eq!(judge(&mut short), None);
        let mut constant = [of(&[2.0; 3], &[2.0; 3])];
        assert_eq!(judge(&mut constant), Some(true), "a volume that is held");
        assert_eq!(judge(&mut []), None);
    }

    #[test]
    fn the_more_is_compared_the_surer_a_difference_has_to_be() {
        // Their p is some per mille: less than one per cent, and more than that of a hundred.
        let borderline = || {
            let (then, now) = (series(512, 300.0, 1), series(512, 300.0, 2));
            let error = Average::of(&then).error.unwrap().hypot(Average::of(&now).error.unwrap());
            let shift = statistics::mean(&then) - statistics::mean(&now) + 2.9 * error;
            of(&then, &now.iter().map(|value| value + shift).collect::<Vec<_>>())
        };
        assert_eq!(judge(&mut [borderline()]), Some(false));
        let mut many: Vec<Quantity> = (0..99).map(|_| of(&[2.0; 8], &[2.0; 8])).collect();
        many.push(borderline());
        assert_eq!(judge(&mut many), Some(true));
    }

    #[test]
    fn frames_give_two_quantities_and_the_same_frames_the_same() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analysis/tests/data");
        let frames =
            Frames { trajectory: data.join("mini_md.dcd"), topology: data.join("mini.pdb") };
        let found = measured(&frames, &frames, None).unwrap();
        let names: Vec<&str> = found.iter().map(|it| it.quantity.as_str()).collect();
        assert_eq!(names, ["RMSD of the α-carbons", "radius of gyration of the α-carbons"]);
        assert!(found.iter().all(|it| it.then.n == 60 && it.difference == 0.0), "{found:?}");
        let lost = Frames { trajectory: data.join("lost.dcd"), ..frames };
        assert!(measured(&lost, &lost, None).is_err(), "it is not passed over");
    }

    /// A bundle's folder, of these files besides those that say how it was made.
    fn bundle(folder: &Path, files: &[(&str, &str)], method: &Value) -> Bundle {
        let listed: Vec<Value> = files
            .iter()
            .map(|(name, _)| json!({"name": name, "size_bytes": 1, "sha256": ""}))
            .collect();
        let manifest = json!({"id": "job_1", "kind": "job", "status": "succeeded", "molboxd": "1",
            "seed": 1, "request": {}, "files": listed});
        let method = ("production.method.json", &*method.to_string());
        for (name, content) in
            files.iter().copied().chain([method, ("manifest.json", &*manifest.to_string())])
        {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Bundle::open(folder).unwrap()
    }

    #[test]
    fn other_bits_of_a_system_that_was_built_otherwise_are_judged_by_averages() {
        let folder = tempfile::tempdir().unwrap();
        let method =
            json!({"engine": {"name": "openmm", "platform": "CPU"}, "machine": {"threads": 1}});
        let compared = |system: &str| {
            let log = "temperature (K)\n300\n300\n";
            let of = |name: &str, system: &str, dcd: &str| {
                let files = [
                    ("system/system.xml", system),
                    ("production.dat", dcd),
                    ("production.csv", log),
                ];
                bundle(&folder.path().join(name), &files, &method)
            };
            let [mut then, mut now] = [of("then", "a", "x"), of("now", system, "y")];
            let found = compare(&mut then, &mut now, [folder.path(); 2]).unwrap();
            (found.verdict, found.same_bits_promised)
        };
        assert_eq!(compared("a"), (Verdict::Different, true));
        assert_eq!(compared("b"), (Verdict::Alike, false));
    }

    #[test]
    fn gromacs_on_several_threads_repeats_the_bits_of_a_minimised_structure_and_not_itself() {
        let folder = tempfile::tempdir().unwrap();
        let promised = |threads: u32, minimised: &str| {
            let method = json!({"engine": {"name": "gromacs"}, "machine": {"threads": threads}});
            let of = |name: &str, minimised: &str, dcd: &str| {
                let files = [
                    ("system/system.xml", "a"),
                    ("minimization.pdb", minimised),
                    ("production.dat", dcd),
                    ("production.csv", "temperature (K)\n300\n300\n"),
                ];
                bundle(&folder.path().join(name), &files, &method)
            };
            let [mut then, mut now] = [of("then", "a", "x"), of("now", minimised, "y")];
            compare(&mut then, &mut now, [folder.path(); 2]).unwrap().same_bits_promised
        };
        assert!(promised(2, "a"));
        assert!(!promised(2, "b"));
        assert!(promised(1, "b"));
    }

    #[test]
    fn bits_are_promised_on_one_thread_of_openmm_and_on_any_of_gromacs() {
        let method = |engine: &str, threads: u32| serde_json::json!({"engine": {"name": engine, "platform": "CPU"}, "machine": {"threads": threads}});
        assert!(is_exact(&[method("openmm", 1)]));
        assert!(!is_exact(&[method("openmm", 1), method("openmm", 2)]));
        assert!(is_exact(&[method("gromacs", 8)]));
        assert!(!is_exact(&[]));
    }
}
