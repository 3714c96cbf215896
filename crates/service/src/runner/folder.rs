//! The folder of a task: what its command is given there, and what it reports.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::app::App;
use crate::exec::attempt::Attempt;
use crate::exec::capacity::Share;
use crate::exec::confine::{Confinement, WORK};
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
    // The last to go: without it what is left would pass for the last attempt's.
    for name in [WORK, COLLECTED, LOG, TASK_FILE] {
        left::discard(&folder.join(name))?;
    }
    Ok(())
}

/// Puts what a job that is resumed had come to back into its folder, unless it has come to something
/// there since. It is copied: the job's bundle stays what it is until there is another.
fn restore(objects: &Objects, id: &str, folder: &Path) -> Result<()> {
    let task = Key::task(id);
    let work = folder.join(WORK);
    let output = work.join("output");
    // Without a commit a folder of output is what was left of results that became objects.
    if (output.exists() && n_commits(folder) > 0) || !objects.exists(&task)? {
        return Ok(());
    }
    if !folder.join(LOG).exists() && objects.exists(&task.under(LOG))? {
        objects.fetch(&task.under(LOG), &folder.join(LOG))?;
    }
    if !has_commit(objects, id)? {
        // It begins again.
        return Ok(());
    }
    fetch_all(objects, &task.under(COMMIT), &work.join(COMMIT))?;
    let partial = work.join("output.partial");
    fetch_all(objects, &task, &partial)?;
    left::discard(&output)?;
    // Last: it shows that all is there.
    fs::rename(partial, output)?;
    Ok(())
}

/// Puts the objects right under a key that a command has written into a folder.
fn fetch_all(objects: &Objects, from: &Key, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for key in objects.list(from)? {
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
    Key::task(id).under(COMMIT).under("commit.json")
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
        let mut found = left::read_json(&folder, &[COMMIT, "commit.json"])?;
        if found.is_none() {
            found = left::read_json_below(&folder, &[COLLECTED, COMMIT, "commit.json"])?;
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
    let commit = left::read_json(folder, &[COMMIT, "commit.json"]).ok().flatten();
    commit.and_then(Commit::read).map_or(0, |commit| commit.number)
}

/// Whether an attempt has committed anything.
pub(super) fn has_progressed(folder: &Path) -> bool {
    n_commits(folder) > task_file(folder).map_or(0, |begun| begun.commits)
}

/// What a worker says of its progress; none when it has said nothing.
pub(super) fn progress(folder: &Path) -> Option<Outcome> {
    // It is shown, and no more: what cannot be read is not there yet.
    let said = left::read_json(folder, &["progress.json"]).ok().flatten()?;
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
