//! The folder of a task: what its command is given there, and what it reports.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::app::App;
use crate::config::Engine;
use crate::db::Lease;
use crate::exec::attempt::Attempt;
use crate::exec::capacity::Share;
use crate::exec::confine::{self, Confinement, WORK};
use crate::objects::bundle::DEFLATED;
use crate::objects::{Key, Objects};
use crate::plan::simulate::Parameters;
use crate::plan::{analyze, build, simulate};
use crate::record::{Kind, Task};
use crate::runner::left::{self, COLLECTED, COMMIT, LOG, OURS};
use crate::runner::outcome::Outcome;
use crate::worker::{Plan, ProgressFile, Report, TaskFile};

/// What an attempt is given to do.
const TASK_FILE: &str = "task.json";
/// What it says while it runs.
const PROGRESS: &str = "progress.json";
/// What of a simulation counts: it names the rest.
const COMMITTED: &str = "commit.json";

/// Writes the folder of a task; what its command may do there. Progress that an earlier attempt
/// committed stays.
pub(super) async fn prepare(
    app: &App,
    row: &Task,
    attempt: &Attempt,
    share: Share,
) -> Result<Confinement> {
    let folder = &attempt.folder;
    left::settle(folder)?;
    discard_outdated(attempt)?;
    if is_kept(app, row) {
        restore_kept(&app.objects, &row.id, folder)?;
    }
    restore(&app.objects, &row.id, folder)?;
    let input = folder.join("input");
    let plan = match row.kind {
        Kind::System => Plan::Build(Box::new(build::place_inputs(app, row, &input).await?)),
        Kind::Analysis => Plan::Analyze(Box::new(analyze::place_inputs(app, row, &input).await?)),
        Kind::Job => Plan::Simulate(simulate::place_inputs(app, row, &input).await?),
    };
    // What a command may write to, none of another account may read, nor one that runs as another
    // user.
    let cache = match share.user {
        Some(user) => format!("{}-{user}", row.account),
        None => row.account.to_string(),
    };
    let cache = app.config.tasks_root().join("cache").join(cache);
    let confinement = Confinement::new(&app.config, cache, share.user)?;
    let task = TaskFile {
        attempt: attempt.number,
        commits: n_commits(folder),
        ..TaskFile::new(&row.id, plan, row.seed, share, &confinement, &app.config)
    };
    fs::write(folder.join(TASK_FILE), serde_json::to_vec_pretty(&task)?)?;
    // Of an earlier attempt.
    left::discard(&folder.join(WORK).join("result.json"))?;
    Ok(confinement)
}

/// Removes what an attempt has left in a folder to which the last one was none of: that was another
/// server's, which has come further, and may have ended the task.
fn discard_outdated(attempt: &Attempt) -> io::Result<()> {
    let folder = &attempt.folder;
    // One that was withdrawn had the same number. What is not whole is no other server's.
    let is_last = |begun: u32| [begun, begun.saturating_add(1)].contains(&attempt.number);
    if task_file(folder).is_none_or(|begun| is_last(begun.attempt)) {
        return Ok(());
    }
    tracing::warn!(task = %attempt.task, "what is left of an earlier attempt here is outdated");
    discard_attempt(folder)
}

fn discard_attempt(folder: &Path) -> io::Result<()> {
    // The last to go: without it what is left would pass for the last attempt's.
    for name in [WORK, COLLECTED, LOG, TASK_FILE] {
        left::discard(&folder.join(name))?;
    }
    Ok(())
}

/// Whether servers may go on with a job that do not find its folder.
pub(super) fn is_kept(app: &App, row: &Task) -> bool {
    let are_others = app.db.is_shared() && app.objects.folder().is_none();
    row.kind == Kind::Job && are_others && app.config.tasks.executor == Engine::Process
}

/// Keeps what a job resumes from among its objects, if it has come further than what is kept there. Who
/// has lost the right to run tasks touches none of them.
pub(super) fn keep(app: &App, lease: &Lease, id: &str) -> Result<()> {
    let (folder, kept) = (app.task_folder(id), kept(id));
    if n_commits(&folder) <= commits_of(&app.objects, &kept)? {
        return Ok(());
    }
    Handle::current().block_on(app.db.affirm_lease(lease.clone(), app.now()))?;
    Ok(send(&app.objects, &folder, &kept, confine::most_bytes(&app.config)?)?)
}

/// Makes what a job resumes from objects under a key; what was there is replaced.
fn send(objects: &Objects, folder: &Path, to: &Key, most_bytes: u64) -> io::Result<()> {
    objects.remove(to)?;
    let mut room = left::Room { bytes: most_bytes };
    for name in ["output", COMMIT] {
        left::open_all(folder, name, &mut room, |file, content| match (name, file) {
            (COMMIT, COMMITTED) => Ok(()),
            _ => objects.send(&to.under(name).under(file), content),
        })?;
    }
    let beside = [
        (to.under(LOG), left::open_below(folder, &[LOG])?),
        (to.under(PROGRESS), left::open_file(folder, &[PROGRESS])?),
        // Last: it shows that all is there.
        (to.under(COMMIT).under(COMMITTED), left::open_file(folder, &[COMMIT, COMMITTED])?),
    ];
    for (key, content) in beside {
        if let Some(content) = content {
            objects.send(&key, content)?;
        }
    }
    Ok(())
}

/// Where what a job resumes from is kept while it waits for another attempt.
fn kept(id: &str) -> Key {
    Key::task(id).under("kept")
}

/// Commits of what is among objects; none where that is nothing.
fn commits_of(objects: &Objects, from: &Key) -> io::Result<u64> {
    match objects.read(&from.under(COMMIT).under(COMMITTED)) {
        // What cannot be read has not got anywhere.
        Ok(commit) => Ok(serde_json::from_slice::<Commit>(&commit).map_or(0, |it| it.number)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Gives the folder of a task that ends without the next attempt what its last one has left, wherever
/// that was.
pub(super) fn settle_last(app: &App, row: &Task, next: &Attempt) -> io::Result<()> {
    let folder = &next.folder;
    left::settle(folder)?;
    discard_outdated(next)?;
    // Here is all of it, or some of it is among its results already.
    let is_here = folder.join(LOG).exists() || folder.join(COLLECTED).exists();
    if is_here || !is_kept(app, row) { Ok(()) } else { restore_kept(&app.objects, &row.id, folder) }
}

/// Puts what is kept of a job back into its folder, unless it has come further there.
fn restore_kept(objects: &Objects, id: &str, folder: &Path) -> io::Result<()> {
    let (kept, work) = (kept(id), folder.join(WORK));
    let here = if work.join("output").exists() { n_commits(folder) } else { 0 };
    if commits_of(objects, &kept)? <= here {
        return Ok(());
    }
    discard_attempt(folder)?;
    fs::create_dir_all(&work)?;
    for (name, to) in [(LOG, folder.join(LOG)), (PROGRESS, work.join(PROGRESS))] {
        if objects.exists(&kept.under(name))? {
            objects.fetch(&kept.under(name), &to)?;
        }
    }
    fetch_output(objects, &kept.under("output"), &kept.under(COMMIT), &work)
}

/// Puts what a job that is resumed had come to back into its folder, unless it has come to something
/// there since. It is copied: the job's bundle stays what it is until there is another.
fn restore(objects: &Objects, id: &str, folder: &Path) -> io::Result<()> {
    let task = Key::task(id);
    let work = folder.join(WORK);
    // Without a commit a folder of output is what was left of results that became objects.
    if (work.join("output").exists() && n_commits(folder) > 0) || !objects.exists(&task)? {
        return Ok(());
    }
    if !folder.join(LOG).exists() && objects.exists(&task.under(LOG))? {
        objects.fetch(&task.under(LOG), &folder.join(LOG))?;
    }
    if !has_commit(objects, id)? {
        // It begins again.
        return Ok(());
    }
    fetch_output(objects, &task, &task.under(COMMIT), &work)
}

/// Puts output and commit of a job back to where its command works.
fn fetch_output(objects: &Objects, output: &Key, commit: &Key, work: &Path) -> io::Result<()> {
    fetch_all(objects, commit, &work.join(COMMIT))?;
    let (partial, whole) = (work.join("output.partial"), work.join("output"));
    fetch_all(objects, output, &partial)?;
    left::discard(&whole)?;
    // Last: it shows that all is there.
    fs::rename(partial, whole)
}

/// Puts the objects right under a key that a command has written into a folder.
fn fetch_all(objects: &Objects, from: &Key, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let keys = match objects.list(from) {
        // It has committed before it wrote anything.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        found => found?,
    };
    for key in keys {
        let name = key.name();
        if !name.ends_with(DEFLATED) && !OURS.contains(&name) {
            objects.fetch(&key, &to.join(name))?;
        }
    }
    Ok(())
}

/// Whether a job that has ended left something to go on from.
pub(crate) fn has_commit(objects: &Objects, id: &str) -> io::Result<bool> {
    objects.exists(&commit_key(id))
}

fn commit_key(id: &str) -> Key {
    Key::task(id).under(COMMIT).under(COMMITTED)
}

/// What of a simulation is safely on disk, as its worker has it.
#[derive(Default, Deserialize)]
pub(crate) struct Commit {
    /// Commits so far.
    number: u64,
    /// The stage that is under way; none while the energy is minimised.
    stage: Option<usize>,
    /// Steps of that stage.
    #[serde(default)]
    step: u64,
    /// Lengths of the files of that stage.
    files: Option<BTreeMap<String, u64>>,
}

impl Commit {
    fn read(commit: Value) -> Option<Self> {
        serde_json::from_value(commit).ok()
    }

    /// The commit of a job that has not ended: in its folder, for a moment among what is collected,
    /// and while it waits to go on among its objects.
    pub(crate) fn of(app: &App, id: &str) -> io::Result<Option<Self>> {
        let folder = app.task_folder(id);
        let mut found = left::read_json(&folder, &[COMMIT, COMMITTED])?;
        if found.is_none() {
            found = left::read_json_below(&folder, &[COLLECTED, COMMIT, COMMITTED])?;
        }
        if found.is_none() && has_commit(&app.objects, id)? {
            found = serde_json::from_slice(&app.objects.read(&commit_key(id))?).ok();
        }
        Ok(found.and_then(Self::read))
    }

    pub(super) fn is_minimised(&self) -> bool {
        self.stage.is_some()
    }

    /// Steps that a job of these parameters has no more to do.
    pub(super) fn steps(&self, parameters: &Parameters) -> u64 {
        self.stage.map_or(0, |stage| parameters.steps_before(stage) + self.step)
    }

    /// Bytes of the trajectory of a stage that stay what they are whatever is killed.
    pub(crate) fn trajectory_bytes(&self, stage: usize) -> u64 {
        match self.stage {
            Some(under_way) if under_way > stage => u64::MAX,
            Some(under_way) if under_way == stage => {
                self.files.as_ref().and_then(|files| files.get("dcd")).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }
}

/// How often a simulation has committed what it had come to.
fn n_commits(folder: &Path) -> u64 {
    // What cannot be read has not got anywhere.
    let commit = left::read_json(folder, &[COMMIT, COMMITTED]).ok().flatten();
    commit.and_then(Commit::read).map_or(0, |commit| commit.number)
}

/// Whether an attempt has committed anything.
pub(super) fn has_progressed(folder: &Path) -> bool {
    n_commits(folder) > task_file(folder).map_or(0, |begun| begun.commits)
}

/// What a worker says of its progress; none when it has said nothing.
pub(super) fn progress(folder: &Path) -> Option<Outcome> {
    // It is shown, and no more: what cannot be read is not there yet.
    let said = left::read_json(folder, &[PROGRESS]).ok().flatten()?;
    Some(serde_json::from_value::<ProgressFile>(said).ok()?.into())
}

/// What the present attempt of a task was given; none when it is not there, or not whole because
/// the machine stopped.
pub(super) fn task_file(folder: &Path) -> Option<TaskFile<IgnoredAny>> {
    serde_json::from_slice(&fs::read(folder.join(TASK_FILE)).ok()?).ok()
}

/// The result of an attempt; none when there is none, or another attempt's. An error within is what
/// of it cannot be used: to read it again would not help.
pub(super) fn read_result(kind: Kind, attempt: &Attempt) -> Result<Option<Result<Report>>> {
    const RESULT: &[&str] = &["result.json"];
    let found = left::read_json(&attempt.folder, RESULT).context("read result.json")?;
    match found {
        Some(result)
            if result["attempt"]
                .as_u64()
                .is_some_and(|number| number != u64::from(attempt.number)) =>
        {
            Ok(None)
        }
        Some(result) => Ok(Some(Report::read(kind, &result))),
        None if left::modified(&attempt.folder, RESULT).is_none() => Ok(None),
        None => Ok(Some(Err(anyhow!(
            "result.json is no whole JSON file of a size that a worker writes"
        )))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Lane;

    /// Writes files, whose folders are made.
    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn what_is_left_of_before_another_server_s_attempt_is_nothing_to_go_on_from() {
        let task = |attempt: u32| {
            json!({
                "kind": "simulate", "id": "job_1", "attempt": attempt, "boot": null, "commits": 0,
                "plan": {}, "seed": 1, "platform": null, "gromacs": null, "threads": 1,
                "device": null, "user": null, "cache": "/", "ligand_seconds": 1,
                "checkpoint_seconds": 1.0,
            })
        };
        // What a power cut left of it is empty, and is this server's own.
        let cases = [
            (task(3).to_string(), 4, true),
            (task(4).to_string(), 4, true),
            (task(2).to_string(), 4, false),
            (String::new(), 4, true),
        ];
        for (begun, number, stays) in cases {
            let folder = tempfile::tempdir().unwrap();
            let left = ["work/output/production.dcd", "collected/log.txt", "log.txt"];
            write(folder.path(), &left.map(|name| (name, "left")));
            write(folder.path(), &[(TASK_FILE, &begun), ("lock", "")]);
            let attempt = Attempt {
                task: "job_1".to_owned(),
                folder: folder.path().to_owned(),
                number,
                lane: Lane::Workers,
            };
            discard_outdated(&attempt).unwrap();
            let found = left.map(|name| folder.path().join(name).exists());
            assert_eq!(found, [stays; 3], "{begun}");
            assert!(folder.path().join("lock").exists(), "it is held");
        }
    }

    #[test]
    fn what_is_kept_of_a_job_is_gone_on_from_where_less_is_there() {
        let data = tempfile::tempdir().unwrap();
        let objects = Objects::open(data.path()).unwrap();
        let commit = |number: u64| json!({ "number": number, "stage": 0, "step": 1 }).to_string();
        let fill = |folder: &Path, commits: u64| {
            let said = format!("{commits} commits");
            let files = [
                ("log.txt", said.as_str()),
                ("work/progress.json", "{}"),
                ("work/output/production.dcd", &said),
                ("work/commit/state-1.xml", &said),
                ("work/commit/commit.json", &commit(commits)),
            ];
            write(folder, &files);
        };
        let all = |folder: &Path| {
            let names = ["log.txt", "work/output/production.dcd", "work/commit/state-1.xml"];
            names.map(|name| fs::read_to_string(folder.join(name)).unwrap())
        };
        let kept = kept("job_1");
        let here = data.path().join("here");
        fill(&here, 5);
        send(&objects, &here, &kept, 1 << 20).unwrap();
        assert_eq!(commits_of(&objects, &kept).unwrap(), 5);
        assert_eq!(all(&here), ["5 commits"; 3], "it stays here, too");
        for (found, expected) in [(None, 5), (Some(3), 5), (Some(5), 5), (Some(7), 7)] {
            let there = tempfile::tempdir().unwrap();
            if let Some(found) = found {
                fill(there.path(), found);
            }
            restore_kept(&objects, "job_1", there.path()).unwrap();
            assert_eq!(all(there.path()), [format!("{expected} commits").as_str(); 3]);
            assert!(there.path().join("work/progress.json").exists());
            assert_eq!(n_commits(there.path()), expected);
        }
        // Its energy is still being minimised: nothing has been written.
        left::discard(&here.join("work/output")).unwrap();
        send(&objects, &here, &kept, 1 << 20).unwrap();
        let there = tempfile::tempdir().unwrap();
        restore_kept(&objects, "job_1", there.path()).unwrap();
        assert_eq!(n_commits(there.path()), 5);
        // What was cut off while it was sent is nothing.
        objects.remove(&kept.under(COMMIT).under(COMMITTED)).unwrap();
        let there = tempfile::tempdir().unwrap();
        restore_kept(&objects, "job_1", there.path()).unwrap();
        assert!(fs::read_dir(there.path()).unwrap().next().is_none());
        // It is no part of what the job was before.
        restore(&objects, "job_1", there.path()).unwrap();
        assert!(!there.path().join("log.txt").exists());
    }

    #[test]
    fn a_job_whose_results_were_published_goes_on_from_them() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::open(&folder.path().join("data")).unwrap();
        let commit = |number: u64| json!({ "number": number, "stage": 0, "step": 1 }).to_string();
        let published = folder.path().join("published");
        let results =
            [("log.txt", "log"), ("production.dcd", "five"), ("commit/commit.json", &commit(5))];
        write(&published, &results);
        objects.adopt(&published, &Key::task("job_1")).unwrap();
        let task = folder.path().join("job_1");
        let restored = || {
            restore(&objects, "job_1", &task).unwrap();
            let read = |name: &str| fs::read_to_string(task.join(name)).unwrap();
            (read("work/output/production.dcd"), n_commits(&task))
        };
        // As it is when the service was killed between the end of a task and the end of its folder.
        fs::create_dir_all(task.join("work/output")).unwrap();
        assert_eq!(restored(), ("five".to_owned(), 5));
        // What it has come to since stays.
        write(
            &task,
            &[("work/output/production.dcd", "seven"), ("work/commit/commit.json", &commit(7))],
        );
        assert_eq!(restored(), ("seven".to_owned(), 7));
    }
}
