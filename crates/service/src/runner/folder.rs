//! The folder of a task: what its command is given there, and what it reports.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::de::IgnoredAny;

use crate::app::App;
use crate::exec::attempt::Attempt;
use crate::exec::capacity::Share;
use crate::exec::confine::{Confinement, WORK};
use crate::objects::bundle::DEFLATED;
use crate::objects::{Key, Objects};
use crate::plan::{analyze, build, simulate};
use crate::record::{Kind, Task};
use crate::runner::commit::{has_commit, n_commits};
use crate::runner::kept::{KEPT, Kept};
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
    restore_kept(&app.objects, row, folder)?;
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
    for name in [WORK, COLLECTED, LOG, KEPT, TASK_FILE] {
        left::discard(&folder.join(name))?;
    }
    Ok(())
}

/// Gives the folder of a task that ends without the next attempt what its last one has left, wherever
/// that was.
pub(super) fn settle_last(app: &App, row: &Task, next: &Attempt) -> Result<()> {
    let folder = &next.folder;
    left::settle(folder)?;
    discard_outdated(next)?;
    // Some of it is among its results already.
    if folder.join(COLLECTED).exists() {
        return Ok(());
    }
    restore_kept(&app.objects, row, folder)
}

/// Puts what is kept of a job back into its folder, unless it has come further there. Whether it
/// would be kept now is no matter: it may have been before it was moved to a machine of its own.
fn restore_kept(objects: &Objects, row: &Task, folder: &Path) -> Result<()> {
    if row.kind != Kind::Job {
        return Ok(());
    }
    let kept = Kept::of(objects, &row.id)?;
    let here = if folder.join(WORK).join("output").exists() { n_commits(folder) } else { 0 };
    if kept.commit.number <= here {
        return Ok(());
    }
    discard_attempt(folder)?;
    kept.restore(objects, &row.id, folder)
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

/// Whether an attempt has committed anything.
pub(super) fn has_progressed(folder: &Path) -> bool {
    n_commits(folder) > task_file(folder).map_or(0, |begun| begun.commits)
}

/// What a worker says of its progress; none when it has said nothing.
pub(super) fn progress(folder: &Path) -> Option<Outcome> {
    // It is shown, and no more: what cannot be read is not there yet.
    let said = left::read_progress(folder).ok().flatten()?;
    let said = serde_json::from_value::<ProgressFile>(said).ok()?;
    said.is_sound().then(|| said.into())
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
    use futures::FutureExt as _;
    use futures::future::ready;
    use serde_json::json;
    use tokio::runtime::Runtime;

    use super::*;
    use crate::record::Lane;
    use crate::runner::kept::{Job, keep_with};

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
                ("work/output/minimization.pdb", &said),
                ("work/commit/state-1.xml", &said),
                ("work/commit/commit.json", &commit(commits)),
            ];
            write(folder, &files);
        };
        let all = |folder: &Path| {
            let names = ["log.txt", "work/output/minimization.pdb", "work/commit/state-1.xml"];
            names.map(|name| fs::read_to_string(folder.join(name)).unwrap())
        };
        let row = Task::example();
        let here = data.path().join("here");
        let job = Job { id: "job_1", folder: &here, stages: &[], most_bytes: 1 << 20 };
        fill(&here, 5);
        keep_with(&objects, &job, || Ok(())).unwrap();
        assert_eq!(all(&here), ["5 commits"; 3], "it stays here, too");
        for (found, expected) in [(None, 5), (Some(3), 5), (Some(5), 5), (Some(7), 7)] {
            let there = tempfile::tempdir().unwrap();
            if let Some(found) = found {
                fill(there.path(), found);
            }
            restore_kept(&objects, &row, there.path()).unwrap();
            assert_eq!(all(there.path()), [format!("{expected} commits").as_str(); 3]);
            assert!(there.path().join("work/progress.json").exists());
            assert_eq!(n_commits(there.path()), expected);
        }
        // Its energy is still being minimised: nothing has been written.
        fill(&here, 6);
        left::discard(&here.join("work/output")).unwrap();
        keep_with(&objects, &job, || Ok(())).unwrap();
        let there = tempfile::tempdir().unwrap();
        restore_kept(&objects, &row, there.path()).unwrap();
        assert_eq!(n_commits(there.path()), 6);
        // What was cut off while it was sent is nothing.
        objects.remove(&Key::task("job_1").under("kept").under(KEPT)).unwrap();
        let there = tempfile::tempdir().unwrap();
        restore_kept(&objects, &row, there.path()).unwrap();
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
        let runtime = Runtime::new().unwrap();
        let _entered = runtime.enter();
        objects.adopt(&published, &Key::task("job_1"), &|| ready(Ok(())).boxed()).unwrap();
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
