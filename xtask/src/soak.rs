//! What takes hours and finds what short tests do not: random kills, bytes and requests, and the
//! long tests of worker and client. Time is shared in slices, and what each part has done is kept, so that a
//! run can be stopped at any moment and resumed.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::backends::Backends;
use crate::conformance::{self, Operations};
use crate::service::Service;
use crate::shell::{cargo, cpu_of_children, program, root, run, target};
use crate::{fuzz, portal, python};

const MINUTE: Duration = Duration::from_secs(60);
/// How long those that are asked to end may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

const KILLS_TEST: &str = "kills::random_kills_lose_and_double_no_submission_no_file_and_no_frame";

/// Goes on for so many hours, from where the last run stopped, or anew; with some of the parts or
/// all.
pub fn soak(hours: f64, only: Option<&str>, is_fresh: bool) -> Result<()> {
    let mut soak = Soak::open()?;
    let parts = chosen(only)?;
    if is_fresh {
        parts.iter().for_each(|part| drop(soak.state.parts.remove(&part.name())));
    }
    soak.build(&parts)?;
    let end = Instant::now() + Duration::try_from_secs_f64(hours * 3600.0).context("hours")?;
    while !soak.is_stopped()
        && let left = end.saturating_duration_since(Instant::now())
        && !left.is_zero()
        && let Some(part) = soak.next(&parts)
    {
        soak.slice(part, left)?;
    }
    print!("{}", soak.state.table(&parts));
    let found: usize = parts
        .iter()
        .filter_map(|part| soak.state.parts.get(&part.name()))
        .map(|p| p.findings.len())
        .sum();
    ensure!(
        found == 0,
        "findings: {found}; once they are fixed, `--fresh --only PART` begins their parts anew"
    );
    Ok(())
}

/// A part of the soak, with its share of the time until it has reached its goal, and after.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// A fuzz target, counted in minutes of CPU time.
    Fuzz(String),
    /// Kills of service, workers and `run-task`, and of what else there is.
    Kills(Backends),
    /// All tests of the service; counted in passes.
    Service(Backends),
    /// Schemathesis, counted in minutes.
    Requests,
    /// The engine's long tests, one in a slice, which takes as long as it takes; counted in passes
    /// of all.
    Worker,
    /// The same of the Python client.
    Client,
    /// The commands of those pages that simulate for long; counted in passes.
    Docs,
    /// The portal with files as large as people have; counted in passes.
    Portal,
}

impl Part {
    fn all() -> Result<Vec<Self>> {
        let targets = fuzz::targets()?.into_iter().map(Self::Fuzz);
        let mut all: Vec<_> = targets.collect();
        for backends in Backends::crosses() {
            if let Some(why) = backends.missing() {
                println!("skipped: all on {}: {why}", backends.name());
                continue;
            }
            all.push(Self::Kills(backends.clone()));
            // Without any, `cargo xtask test` runs them.
            if !backends.0.is_empty() {
                all.push(Self::Service(backends));
            }
        }
        all.extend([Self::Requests, Self::Worker, Self::Client, Self::Docs]);
        match portal::chromium() {
            Some(_) => all.push(Self::Portal),
            None => println!("skipped: the portal: no chromium"),
        }
        Ok(all)
    }

    fn name(&self) -> String {
        match self {
            Self::Fuzz(target) => format!("fuzz/{target}"),
            Self::Kills(backends) if backends.0.is_empty() => "kills".to_owned(),
            Self::Kills(backends) => format!("kills/{}", backends.name()),
            Self::Service(backends) => format!("service/{}", backends.name()),
            Self::Requests => "requests".to_owned(),
            Self::Worker => "worker".to_owned(),
            Self::Client => "client".to_owned(),
            Self::Docs => "docs".to_owned(),
            Self::Portal => "portal".to_owned(),
        }
    }

    fn goal(&self) -> (f64, &'static str) {
        match self {
            Self::Fuzz(_) => (30.0, "CPU minutes"),
            Self::Kills(_) => (1000.0, "kills"),
            Self::Requests => (60.0, "minutes"),
            Self::Service(_) | Self::Worker | Self::Client | Self::Docs | Self::Portal => {
                (1.0, "passes")
            }
        }
    }

    fn slice(&self) -> Duration {
        match self {
            Self::Fuzz(_) => MINUTE,
            Self::Kills(_) | Self::Requests => 4 * MINUTE,
            Self::Service(_) | Self::Worker | Self::Client | Self::Docs | Self::Portal => {
                30 * MINUTE
            }
        }
    }
}

/// The parts of a name, or those that begin with it: `fuzz`.
fn chosen(only: Option<&str>) -> Result<Vec<Part>> {
    let all = Part::all()?;
    let Some(only) = only else { return Ok(all) };
    let mut parts = all.clone();
    parts.retain(|part| part.name() == only || part.name().split('/').next() == Some(only));
    if parts.is_empty() {
        bail!(
            "no part {only:?}; there are {}",
            all.iter().map(Part::name).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(parts)
}

/// All that is kept between runs, as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    parts: BTreeMap<String, Progress>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// Slices that came to an end, or found something.
    slices: u64,
    /// Of the first slice; that of each other is one more.
    seed: u64,
    done: f64,
    /// What more there is to count.
    counts: BTreeMap<String, u64>,
    findings: Vec<String>,
}

impl State {
    fn table(&self, parts: &[Part]) -> String {
        let mut table = format!(
            "{:<20} {:>8} {:>6} {:<12} {:>20}  findings\n",
            "part", "done", "goal", "", "first seed"
        );
        for part in parts {
            let none = Progress::default();
            let progress = self.parts.get(&part.name()).unwrap_or(&none);
            let (goal, unit) = part.goal();
            let has_none = [Part::Worker, Part::Client, Part::Docs, Part::Portal].contains(part);
            let has_seed = progress.slices > 0 && !has_none;
            let seed = if has_seed { progress.seed.to_string() } else { String::new() };
            table += &format!(
                "{:<20} {:>8.2} {goal:>6} {unit:<12} {seed:>20}  ",
                part.name(),
                progress.done
            );
            table += &format!("{}\n", progress.findings.len());
            let counts = progress.counts.iter().map(|(name, count)| format!("{count} {name}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            for line in
                [counts].iter().filter(|counts| !counts.is_empty()).chain(&progress.findings)
            {
                table += &format!("    {line}\n");
            }
        }
        table
    }
}

struct Outcome {
    done: f64,
    counts: BTreeMap<String, u64>,
    finding: Option<String>,
}

struct Soak {
    folder: PathBuf,
    /// Nobody else has it, as long as this is open.
    _lock: File,
    state: State,
    stop: Arc<AtomicBool>,
}

impl Soak {
    fn open() -> Result<Self> {
        let folder = target().join("soak");
        fs::create_dir_all(&folder)?;
        let lock = locked(&folder)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, stop.clone())?;
        }
        let path = folder.join("state.json");
        let state = if path.exists() {
            serde_json::from_str(&fs::read_to_string(&path)?)
                .with_context(|| format!("read {}", path.display()))?
        } else {
            State::default()
        };
        Ok(Self { folder, _lock: lock, state, stop })
    }

    /// Replaces what is kept in one step.
    fn keep(&self) -> Result<()> {
        let partial = self.folder.join("state.json.tmp");
        fs::write(&partial, serde_json::to_string_pretty(&self.state)?)?;
        Ok(fs::rename(partial, self.folder.join("state.json"))?)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn build(&self, parts: &[Part]) -> Result<()> {
        if parts.iter().any(|part| matches!(part, Part::Fuzz(_))) {
            fuzz::build()?;
        }
        if parts.iter().any(|part| matches!(part, Part::Kills(_) | Part::Service(_))) {
            run(cargo().args(["test", "--workspace", "--test", "service", "--no-run"]))?;
        }
        Ok(())
    }

    /// The part that is farthest from its goal. One that has found something would find it again.
    fn next<'a>(&self, parts: &'a [Part]) -> Option<&'a Part> {
        let none = Progress::default();
        let progress = |part: &Part| self.state.parts.get(&part.name()).unwrap_or(&none);
        let share = |part: &&Part| progress(part).done / part.goal().0;
        parts
            .iter()
            .filter(|part| progress(part).findings.is_empty())
            .min_by(|a, b| share(a).total_cmp(&share(b)))
    }

    /// Carries out a slice of a part, and keeps what it did. One that is stopped has not been done.
    fn slice(&mut self, part: &Part, left: Duration) -> Result<()> {
        let mut progress = self.state.parts.remove(&part.name()).unwrap_or_else(|| Progress {
            // So that two runs do not do the same; what a slice did can be done again by its own.
            seed: SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()),
            ..Progress::default()
        });
        let seed = progress.seed + progress.slices;
        let seconds = part.slice().min(left).as_secs().max(1);
        println!("{}: {seconds} s, seed {seed}", part.name());
        let outcome = match part {
            Part::Fuzz(target) => self.fuzz(target, seconds, seed),
            Part::Kills(backends) => self.kills(backends, seconds, seed),
            Part::Service(backends) => {
                self.passed(&backends.name(), backends.tests(&python::environment()?))
            }
            Part::Requests => self.requests(progress.slices, seconds, seed),
            Part::Worker => self.long_tests(part, progress.slices, of_the_worker),
            Part::Client => self.long_tests(part, progress.slices, of_the_client),
            Part::Docs => {
                let mut xtask = Command::new(std::env::current_exe().context("find xtask")?);
                xtask.args(["docs", "--run", "--long"]);
                self.passed("docs", xtask)
            }
            Part::Portal => self.passed("portal", portal::with_large_files()?),
        };
        if let Ok(Some(outcome)) = &outcome {
            progress.slices += 1;
            progress.done += outcome.done;
            for (name, count) in &outcome.counts {
                *progress.counts.entry(name.clone()).or_default() += count;
            }
            progress.findings.extend(
                outcome
                    .finding
                    .iter()
                    .inspect(|finding| println!("{}: {finding}", part.name()))
                    .cloned(),
            );
        }
        self.state.parts.insert(part.name(), progress);
        self.keep()?;
        outcome.map(drop)
    }

    fn fuzz(&self, target: &str, seconds: u64, seed: u64) -> Result<Option<Outcome>> {
        let before = cpu_of_children()?;
        let log = self.log(&format!("fuzz-{target}"));
        let mut command = fuzz::command(target, seconds)?;
        // Four bytes, of which zero stands for none.
        let status = self.watched(command.arg(format!("-seed={}", seed % (1 << 31) + 1)), &log)?;
        let done = (cpu_of_children()? - before).as_secs_f64() / 60.0;
        let finding = status.filter(|status| !status.success()).map(|status| {
            format!(
                "{status}; the input is in {}, the log {}",
                fuzz::artifacts(target).display(),
                log.display()
            )
        });
        // What was fuzzed until it was stopped was fuzzed.
        Ok(Some(Outcome { done, counts: BTreeMap::new(), finding }))
    }

    fn kills(&self, backends: &Backends, seconds: u64, seed: u64) -> Result<Option<Outcome>> {
        let folder = self.folder.join("kills");
        let report = self.folder.join("kills.json");
        renew(&folder)?;
        if report.exists() {
            fs::remove_file(&report)?;
        }
        let log = self.log("kills");
        let mut test = cargo();
        test.args([
            "test",
            "--workspace",
            "--test",
            "service",
            "--",
            "--exact",
            KILLS_TEST,
            "--nocapture",
        ])
        .env("MOLBOX_TEST_PYTHON", python::environment()?)
        .envs(backends.variables())
        .env("MOLBOX_SOAK_SECONDS", seconds.to_string())
        .env("MOLBOX_SOAK_SEED", seed.to_string())
        .env("MOLBOX_SOAK_REPORT", &report)
        .env("TMPDIR", &folder);
        let status = self.watched(&mut test, &log)?;
        // Tasks outlive their service, and it its test.
        end_those_of(&folder)?;
        let Some(status) = status else { return Ok(None) };
        if !status.success() {
            let log = kept(&log, seed)?;
            return Ok(Some(Outcome::found(format!(
                "MOLBOX_SOAK_SEED={seed}; the log is {}",
                log.display()
            ))));
        }
        let text =
            fs::read_to_string(&report).with_context(|| format!("{KILLS_TEST} has not run"))?;
        let counts: BTreeMap<String, u64> = serde_json::from_str(&text)?;
        let kills = counts.iter().filter(|(name, _)| name.starts_with("kills of "));
        Ok(Some(Outcome {
            done: kills.map(|(_, count)| *count as f64).sum(),
            counts,
            finding: None,
        }))
    }

    /// Tests that are to pass.
    fn passed(&self, name: &str, mut tests: Command) -> Result<Option<Outcome>> {
        let log = self.log(name);
        let Some(status) = self.watched(&mut tests, &log)? else { return Ok(None) };
        if !status.success() {
            return Ok(Some(Outcome::found(format!("the log is {}", log.display()))));
        }
        Ok(Some(Outcome { done: 1.0, counts: BTreeMap::new(), finding: None }))
    }

    /// Single requests and chains of requests in turn, as one would leave the other no time.
    fn requests(&self, slices: u64, seconds: u64, seed: u64) -> Result<Option<Outcome>> {
        let folder = self.folder.join("requests");
        let log = self.log("requests");
        let start = Instant::now();
        let service = Service::start(&folder, &python::environment()?, &conformance::SETTINGS)?;
        let key = service.key("schemathesis")?;
        let workflow = (&service.base_url, Operations::Workflow);
        let margin = (&service.margin_url, Operations::Margin);
        let runs = if slices.is_multiple_of(2) {
            let single = "examples,coverage,fuzzing";
            vec![(workflow, single, seconds * 3 / 4), (margin, single, seconds / 4)]
        } else {
            vec![(workflow, "stateful", seconds)]
        };
        let mut finding = None;
        for ((address, operations), phases, seconds) in runs {
            let mut command =
                conformance::schemathesis(&folder, address, operations, &key, seconds.max(1))?;
            command.args(["--phases", phases, "--seed", &seed.to_string()]);
            let Some(status) = self.watched(&mut command, &log)? else {
                end_those_of(&folder)?;
                return Ok(None);
            };
            if !status.success() {
                finding = Some(format!(
                    "--phases {phases} --seed {seed}; the log is {}",
                    kept(&log, seed)?.display()
                ));
                break;
            }
        }
        service.stop()?;
        end_those_of(&folder)?;
        let text = fs::read_to_string(folder.join("molboxd.log"))?;
        if text.contains("panicked at") {
            let log = kept(&folder.join("molboxd.log"), seed)?;
            finding =
                Some(format!("--seed {seed}; the service panicked, its log is {}", log.display()));
        }
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        Ok(Some(Outcome { done: minutes, counts: BTreeMap::new(), finding }))
    }

    /// The next of the long tests in Python, after the last the first.
    fn long_tests(
        &self,
        part: &Part,
        slices: u64,
        pytest: fn() -> Result<Command>,
    ) -> Result<Option<Outcome>> {
        let listed = pytest()?.arg("--collect-only").output().context("start pytest")?;
        let listed = String::from_utf8(listed.stdout)?;
        let tests: Vec<&str> = listed.lines().filter(|line| line.contains("::")).collect();
        ensure!(!tests.is_empty(), "pytest lists no long tests: {listed}");
        let test = tests[slices as usize % tests.len()];
        let log = self.log(&part.name());
        println!("{}: {test}", part.name());
        let Some(status) = self.watched(pytest()?.arg(test), &log)? else { return Ok(None) };
        if !status.success() {
            let log = kept(&log, slices)?;
            return Ok(Some(Outcome::found(format!("{test}; the log is {}", log.display()))));
        }
        Ok(Some(of_a_test(test, 1.0 / tests.len() as f64, &fs::read_to_string(&log)?)))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Runs a command to its end in a process group of its own; none when it was stopped, and its
    /// group with it.
    fn watched(&self, command: &mut Command, log: &Path) -> Result<Option<ExitStatus>> {
        let out = File::create(log).with_context(|| format!("make {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        let group = Pid::from_child(&child);
        let mut asked: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(asked.is_none().then_some(status));
            }
            match asked {
                None if self.is_stopped() => {
                    asked = Some(Instant::now());
                    kill_process_group(group, Signal::TERM)?;
                }
                Some(since) if since.elapsed() > STOP_TIMEOUT => {
                    kill_process_group(group, Signal::KILL)?
                }
                _ => {}
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Outcome {
    fn found(finding: String) -> Self {
        Self { done: 0.0, counts: BTreeMap::new(), finding: Some(finding) }
    }
}

/// What a long test that did not fail has done, by what pytest says: nothing when it was skipped,
/// which is counted.
fn of_a_test(test: &str, share: f64, log: &str) -> Outcome {
    let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let has_run = last.contains(" passed");
    let skipped = (!has_run).then(|| (format!("× skipped: {test}"), 1));
    Outcome {
        done: if has_run { share } else { 0.0 },
        counts: skipped.into_iter().collect(),
        finding: None,
    }
}

/// The lock on a folder, which two runs at a time would both write to.
fn locked(folder: &Path) -> Result<File> {
    let file = File::create(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("another soak runs in {}", folder.display()),
        Err(TryLockError::Error(error)) => Err(error).context("lock the folder"),
    }
}

/// The log of a slice under a name of its own, since the next slice overwrites it.
fn kept(log: &Path, seed: u64) -> Result<PathBuf> {
    let to = log.with_extension(format!("{seed}.log"));
    fs::copy(log, &to).with_context(|| format!("copy {}", log.display()))?;
    Ok(to)
}

fn renew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// Kills the services and workers that name a path in a folder of ours: tasks have sessions of
/// their own. Looks again until there are none, as one may have started another.
fn end_those_of(folder: &Path) -> Result<()> {
    loop {
        let found = those_of(folder)?;
        if found.is_empty() {
            return Ok(());
        }
        for pid in found {
            match kill_process(pid, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error).with_context(|| format!("kill {pid:?}")),
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn those_of(folder: &Path) -> Result<Vec<Pid>> {
    let folder = format!("{}/", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid =
            entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        // Gone, or a zombie, when it cannot be read or is empty.
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        let is_service =
            command.split('\0').next().is_some_and(|program| program.ends_with("molboxd"));
        if command.contains(&folder) && (is_service || command.contains("\0molbox_worker\0")) {
            found.extend(pid);
        }
    }
    Ok(found)
}

fn of_the_worker() -> Result<Command> {
    Ok(pytest(&python::environment()?, "worker"))
}

fn of_the_client() -> Result<Command> {
    let mut pytest = pytest(&python::client()?, "python");
    pytest.env("MOLBOXD", program("molboxd")?).env("MOLBOX_TEST_PYTHON", python::environment()?);
    Ok(pytest)
}

fn pytest(python: &Path, folder: &str) -> Command {
    let mut pytest = Command::new(python);
    pytest.current_dir(root().join(folder));
    pytest.args(["-m", "pytest", "--quiet", "-n", "0", "-m", "soak"]);
    pytest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soak(folder: &Path) -> Soak {
        let lock = locked(folder).unwrap();
        Soak {
            folder: folder.to_owned(),
            _lock: lock,
            state: State::default(),
            stop: Arc::default(),
        }
    }

    #[test]
    fn the_part_that_is_farthest_from_its_goal_is_next_unless_it_has_found_something() {
        let folder = tempfile::tempdir().unwrap();
        let mut soak = soak(folder.path());
        let parts =
            [Part::Fuzz("mask".to_owned()), Part::Kills(Backends::default()), Part::Requests];
        assert_eq!(soak.next(&parts), Some(&parts[0]));
        let progress = |done| Progress { done, ..Progress::default() };
        soak.state.parts.insert("fuzz/mask".to_owned(), progress(15.0));
        soak.state.parts.insert("kills".to_owned(), progress(300.0));
        soak.state.parts.insert("requests".to_owned(), progress(29.0));
        assert_eq!(soak.next(&parts), Some(&Part::Kills(Backends::default())));
        soak.state.parts.get_mut("kills").unwrap().findings.push("a lost job".to_owned());
        assert_eq!(soak.next(&parts), Some(&Part::Requests));
        assert!(soak.state.table(&parts).contains("    a lost job\n"));
    }

    #[test]
    fn what_was_done_is_there_after_a_stop() {
        let folder = tempfile::tempdir().unwrap();
        let mut soak = soak(folder.path());
        let counts = BTreeMap::from([("kills of workers".to_owned(), 3)]);
        let progress = Progress { slices: 2, seed: 7, done: 3.0, counts, findings: Vec::new() };
        soak.state.parts.insert("kills".to_owned(), progress);
        soak.keep().unwrap();
        let text = fs::read_to_string(folder.path().join("state.json")).unwrap();
        let again: State = serde_json::from_str(&text).unwrap();
        assert_eq!(
            again.table(&[Part::Kills(Backends::default())]),
            soak.state.table(&[Part::Kills(Backends::default())])
        );
    }

    #[test]
    fn a_test_that_is_skipped_is_not_done() {
        let passed =
            of_a_test("a", 0.5, ".                  [100%]\n1 passed in 61.20s (0:01:01)\n");
        assert_eq!((passed.done, passed.counts.len()), (0.5, 0));
        let skipped = of_a_test("b", 0.5, "s                  [100%]\n1 skipped in 0.03s\n\n");
        assert_eq!(skipped.done, 0.0);
        assert_eq!(skipped.counts, BTreeMap::from([("× skipped: b".to_owned(), 1)]));
    }

    #[test]
    fn a_folder_has_one_soak_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = soak(folder.path());
        assert!(locked(folder.path()).unwrap_err().to_string().contains("another soak runs"));
        drop(first);
        assert!(locked(folder.path()).is_ok());
    }

    #[test]
    fn what_is_stopped_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let soak = soak(folder.path());
        let log = soak.log("sh");
        // The shell waits for one that is in its group, and neither ends by itself.
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let pid = thread::scope(|scope| {
            let watched = scope.spawn(|| soak.watched(&mut command, &log).unwrap());
            let pid = loop {
                match fs::read_to_string(&log) {
                    Ok(text) if text.ends_with('\n') => break text,
                    _ => thread::sleep(Duration::from_millis(10)),
                }
            };
            soak.stop.store(true, Ordering::Relaxed);
            assert!(watched.join().unwrap().is_none());
            pid
        });
        // Nobody may have waited for it yet.
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }

    #[test]
    fn only_those_of_a_folder_are_ended() {
        let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let start = |name: &str, folder: &Path| {
            let log = folder.join("log");
            fs::write(&log, "").unwrap();
            Command::new("tail").arg0(name).arg("-f").arg(log).spawn().unwrap()
        };
        let mut service = start("molboxd", ours.path());
        let mut others = [start("molboxd", other.path()), start("tail", ours.path())];
        // It has no arguments yet while it is being started.
        while service.try_wait().unwrap().is_none() {
            end_those_of(ours.path()).unwrap();
        }
        for other in &mut others {
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
