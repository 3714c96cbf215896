//! What a job resumes from on a server that has not its folder: copies, among its objects, of what
//! it has committed. They are made when it is queued again, and from time to time while it runs,
//! for its server may be lost with all that it has.
//!
//! `kept.json` counts. It names the other objects and is replaced when they are there. Of a file
//! that grows each byte is sent once: what is new becomes another object. The folder has the
//! `kept.json` that tells of its own past; without it all is sent anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::app::App;
use crate::config::Engine;
use crate::db::Lease;
use crate::exec::confine::{self, WORK};
use crate::files;
use crate::objects::{Key, Objects};
use crate::plan::simulate::stage_names;
use crate::random;
use crate::record::{Kind, Task};
use crate::runner::commit::{COMMITTED, Commit, committed, n_commits};
use crate::runner::left::{self, COMMIT, LOG, PROGRESS};

/// What names the other objects; of a task's folder the copy of it.
pub(super) const KEPT: &str = "kept.json";
/// Most bytes of an object, which is in memory as long as it is on its way.
const PART_BYTES: u64 = 16 << 20;
/// What of a trajectory is sent anew with whatever is new: its header counts the frames.
const HEAD_BYTES: u64 = 1 << 10;
/// How often in a row it is tried to read between two commits.
const TRIES: usize = 5;

/// Whether servers may go on with a job that do not find its folder.
pub(super) fn is_kept(app: &App, row: &Task) -> bool {
    let are_others = app.db.is_shared() && app.objects.folder().is_none();
    row.kind == Kind::Job && are_others && app.config.tasks.executor == Engine::Process
}

/// How often a job that runs is kept; none where it is not.
pub(super) fn interval(app: &App, row: &Task) -> Option<Duration> {
    let interval = Duration::from_secs(app.config.tasks.keep_seconds);
    (!interval.is_zero() && is_kept(app, row)).then_some(interval)
}

/// Keeps what a job has committed, if that is more than is kept by this server. Who has lost the
/// right to run tasks changes nothing.
pub(super) fn keep(app: &App, lease: &Lease, row: &Task) -> Result<()> {
    let job = Job {
        id: &row.id,
        folder: &app.task_folder(&row.id),
        stages: &stage_names(&serde_json::from_str(&row.parameters)?),
        most_bytes: confine::most_bytes(&app.config)?,
    };
    keep_with(&app.objects, &job, || {
        Ok(Handle::current().block_on(app.db.affirm_lease(lease.clone(), app.now()))?)
    })
}

/// Removes what is kept of a job.
pub(super) fn remove(objects: &Objects, id: &str) -> io::Result<()> {
    objects.remove(&key(id))
}

/// Removes what a job has written, and not what is kept of it.
pub(super) fn remove_results(objects: &Objects, id: &str) -> io::Result<()> {
    let task = Key::task(id);
    for key in listed(objects, &task)?.iter().chain([&task.under(COMMIT)]) {
        objects.remove(key)?;
    }
    Ok(())
}

/// Whether a task has written objects, besides what is kept of it.
pub(super) fn has_results(objects: &Objects, id: &str) -> io::Result<bool> {
    Ok(!listed(objects, &Key::task(id))?.is_empty())
}

fn listed(objects: &Objects, key: &Key) -> io::Result<Vec<Key>> {
    match objects.list(key) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

fn key(id: &str) -> Key {
    Key::task(id).under("kept")
}

/// What is kept of a job.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Its last commit.
    pub(super) commit: Commit,
    /// Its files, by their places in the folder of the task.
    files: BTreeMap<String, Copy>,
}

/// A file that is kept.
#[derive(Clone, Serialize, Deserialize)]
struct Copy {
    /// Objects that are the file, one after another.
    parts: Vec<Part>,
    /// When the file was written last, in ns since 1970; none of one that grows.
    modified: Option<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Part {
    name: String,
    bytes: u64,
}

impl Copy {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

impl Kept {
    /// What is kept of a job, whichever server has kept it; nothing of one that has not begun.
    pub(super) fn of(objects: &Objects, id: &str) -> Result<Self> {
        match objects.read(&key(id).under(KEPT)) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("{KEPT} of {id}")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// What the folder of a task says of its own past.
    fn of_folder(folder: &Path) -> io::Result<Self> {
        match fs::read(folder.join(KEPT)) {
            // One that is of no use is as good as none.
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Puts the files into a folder of a task that has none of them.
    pub(super) fn restore(&self, objects: &Objects, id: &str, folder: &Path) -> Result<()> {
        let of_commit = format!("{WORK}/{COMMIT}/{COMMITTED}");
        fs::create_dir_all(folder.join(WORK).join("output"))?;
        // The last to come: it shows that all is there.
        let others = self.files.iter().filter(|(name, _)| **name != of_commit);
        for (name, copy) in others.chain(self.files.get_key_value(&of_commit)) {
            let to = folder.join(name);
            fs::create_dir_all(to.parent().expect("a file lies in a folder"))?;
            let mut partial = files::Partial::create(to.with_extension("partial"))?;
            for part in &copy.parts {
                let content = objects.read(&key(id).under(&part.name))?;
                anyhow::ensure!(content.len() as u64 == part.bytes, "{name} is damaged");
                partial.file.write_all(&content)?;
            }
            partial.put(&to)?;
        }
        Ok(files::write(&folder.join(KEPT), &serde_json::to_vec(self)?)?)
    }

    fn names(&self) -> BTreeSet<&str> {
        let parts = self.files.values().flat_map(|copy| &copy.parts);
        parts.map(|part| part.name.as_str()).collect()
    }
}

/// A job, whose worker may be writing.
pub(super) struct Job<'a> {
    pub(super) id: &'a str,
    pub(super) folder: &'a Path,
    pub(super) stages: &'a [String],
    pub(super) most_bytes: u64,
}

/// Keeps what a job has committed; `may` is asked before anything that is kept is changed.
pub(super) fn keep_with(
    objects: &Objects,
    job: &Job<'_>,
    may: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let to = &key(job.id);
    let before = Kept::of_folder(job.folder)?;
    if n_commits(job.folder) <= before.commit.number {
        return Ok(());
    }
    let mut sending =
        Sending { objects, to, before: &before, now: Kept::default(), new: Vec::new() };
    let sent = sending.send(job).map_err(anyhow::Error::from);
    if let Err(error) = sent.and_then(|()| may()) {
        for key in &sending.new {
            objects.remove(key)?;
        }
        return Err(error);
    }
    let now = sending.now;
    let text = serde_json::to_vec(&now)?;
    objects.write(&to.under(KEPT), &text)?;
    files::write(&job.folder.join(KEPT), &text)?;
    for name in before.names().difference(&now.names()) {
        objects.remove(&to.under(name))?;
    }
    Ok(())
}

/// Objects that are being made of a job's files.
struct Sending<'a> {
    objects: &'a Objects,
    to: &'a Key,
    before: &'a Kept,
    now: Kept,
    /// Those that were not there.
    new: Vec<Key>,
}

impl Sending<'_> {
    fn send(&mut self, job: &Job<'_>) -> io::Result<()> {
        let mut room = left::Room { bytes: job.most_bytes };
        let (commit, files) = between_commits(job.folder, &mut room)?;
        for (name, file) in files {
            self.replaced(format!("{WORK}/{COMMIT}/{name}"), &file)?;
        }
        left::open_all(job.folder, "output", &mut room, |name, file| {
            let at = format!("{WORK}/output/{name}");
            match committed_bytes(&commit, job.stages, name) {
                Some(bytes) => self.grown(at, &file, bytes),
                // Being written, and not yet what it will be.
                None if name.ends_with(".tmp") => Ok(()),
                None => self.replaced(at, &file),
            }
        })?;
        if let Some(file) = left::open_file(job.folder, &[PROGRESS])? {
            self.replaced(format!("{WORK}/{PROGRESS}"), &file)?;
        }
        if let Some(file) = left::open_below(job.folder, &[LOG])? {
            self.grown(LOG.to_owned(), &file, u64::MAX)?;
        }
        self.now.commit = commit;
        Ok(())
    }

    /// Sends a file that is whole, unless it is known.
    fn replaced(&mut self, at: String, file: &File) -> io::Result<()> {
        let found = file.metadata()?;
        let since = found.modified()?.duration_since(SystemTime::UNIX_EPOCH);
        let modified = since.ok().and_then(|since| u64::try_from(since.as_nanos()).ok());
        let is_known = |copy: &&Copy| {
            modified.is_some() && copy.modified == modified && copy.bytes() == found.len()
        };
        let copy = match self.before.files.get(&at).filter(is_known) {
            Some(copy) => copy.clone(),
            None => Copy { parts: self.parts(file, 0, found.len())?, modified },
        };
        self.now.files.insert(at, copy);
        Ok(())
    }

    /// Sends what is new of a file that grows, of which so many bytes count.
    fn grown(&mut self, at: String, file: &File, bytes: u64) -> io::Result<()> {
        let until = file.metadata()?.len().min(bytes);
        let has_header = at.ends_with(".dcd");
        let before = self.before.files.get(&at).filter(|copy| copy.bytes() <= until);
        let mut copy = before.cloned().unwrap_or(Copy { parts: Vec::new(), modified: None });
        let mut from = copy.bytes();
        if from < until && has_header {
            let head = copy.parts.first().map_or(HEAD_BYTES.min(until), |part| part.bytes);
            let sent = self.parts(file, 0, head)?;
            from = from.max(head);
            copy.parts.splice(0..copy.parts.len().min(1), sent);
        }
        copy.parts.extend(self.parts(file, from, until)?);
        self.now.files.insert(at, copy);
        Ok(())
    }

    /// Makes objects of the bytes of a file from one place to another.
    fn parts(&mut self, file: &File, mut from: u64, until: u64) -> io::Result<Vec<Part>> {
        let mut parts = Vec::new();
        while from < until {
            let bytes = PART_BYTES.min(until - from);
            let mut content = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
            file.read_exact_at(&mut content, from)?;
            // A name that nobody else has given: others may keep the same job meanwhile.
            let name = format!("{:016x}", u64::from_ne_bytes(random::bytes()));
            let key = self.to.under(&name);
            self.new.push(key.clone());
            self.objects.write(&key, &content)?;
            parts.push(Part { name, bytes });
            from += bytes;
        }
        Ok(parts)
    }
}

/// What counts of a file that grows; none of another, which is replaced.
fn committed_bytes(commit: &Commit, stages: &[String], name: &str) -> Option<u64> {
    let (stem, extension) = name.rsplit_once('.')?;
    let stage = stages.iter().position(|stage| stage == stem)?;
    match extension {
        "dcd" => Some(commit.trajectory_bytes(stage)),
        "csv" => Some(commit.log_bytes(stage)),
        _ => None,
    }
}

/// The last commit of a job, and its files: what they are stays so though its worker removes them.
fn between_commits(
    folder: &Path,
    room: &mut left::Room,
) -> io::Result<(Commit, Vec<(String, File)>)> {
    for _ in 0..TRIES {
        let Some(commit) = committed(folder) else { break };
        let (mut room_then, mut files) = (*room, Vec::new());
        let opened = left::open_all(folder, COMMIT, &mut room_then, |name, file| {
            if !name.ends_with(".tmp") {
                files.push((name.to_owned(), file));
            }
            Ok(())
        });
        match opened {
            // Removed as it was looked at.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        }
        if n_commits(folder) == commit.number {
            *room = room_then;
            return Ok((commit, files));
        }
    }
    Err(io::Error::other("it commits at each moment"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A job in its second stage, in a folder of its own.
    struct Running {
        folder: tempfile::TempDir,
        objects: Objects,
        /// Trajectories of its stages.
        frames: [Vec<u8>; 2],
        commits: u64,
    }

    impl Running {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let objects = Objects::open(&folder.path().join("data")).unwrap();
            let frames = [trajectory(5000), trajectory(0)];
            Self { folder, objects, frames, commits: 0 }
        }

        fn path(&self) -> std::path::PathBuf {
            self.folder.path().join("job_1")
        }

        fn write(&self, name: &str, content: &[u8]) {
            let path = self.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        /// Commits frames of so many bytes more, and has written more than that.
        fn commit(&mut self, bytes: usize) {
            self.commits += 1;
            let [ended, frames] = &mut self.frames;
            let more = trajectory(frames.len() - HEADER + bytes)[frames.len()..].to_vec();
            frames.extend(more);
            // As the worker's header does, it tells how much there is.
            let length = (frames.len() as u32).to_le_bytes();
            frames[8..12].copy_from_slice(&length);
            let (ended, mut written) = (ended.clone(), frames.clone());
            written.extend(b"not committed");
            let n = self.commits;
            self.write("work/output/equilibration_1.dcd", &ended);
            self.write("work/output/production.dcd", &written);
            self.write("work/output/production.csv", "line\n".repeat(n as usize + 1).as_bytes());
            self.write("work/output/equilibration_1.pdb", b"ATOM");
            self.write("work/progress.json.tmp", b"{");
            self.write("log.txt", "said\n".repeat(n as usize).as_bytes());
            self.write(&format!("work/commit/{n}.checkpoint.chk"), &[n as u8; 10]);
            let files = json!({ "dcd": self.frames[1].len(), "log": 5 * n });
            let commit = json!({ "number": n, "stage": 1, "step": n, "files": files });
            self.write("work/commit/commit.json", commit.to_string().as_bytes());
            if n > 1 {
                fs::remove_file(self.path().join(format!("work/commit/{}.checkpoint.chk", n - 1)))
                    .unwrap();
            }
        }

        fn keep(&self, may: impl FnOnce() -> Result<()>) -> Result<()> {
            let stages = ["equilibration_1".to_owned(), "production".to_owned()];
            let folder = &self.path();
            let job = Job { id: "job_1", folder, stages: &stages, most_bytes: 1 << 30 };
            keep_with(&self.objects, &job, may)
        }

        /// Objects that there are, and what they take.
        fn objects(&self) -> (usize, u64) {
            let found = self.objects.stats(&key("job_1")).unwrap();
            let names = found.keys().filter(|key| key.name() != KEPT);
            (
                names.count(),
                found.iter().filter(|(key, _)| key.name() != KEPT).map(|it| it.1.size).sum(),
            )
        }

        fn kept(&self) -> Kept {
            Kept::of(&self.objects, "job_1").unwrap()
        }

        /// Whether another server gets what is committed, and no more.
        fn check(&self) {
            let there = self.folder.path().join("there");
            self.kept().restore(&self.objects, "job_1", &there).unwrap();
            let read = |name: &str| fs::read(there.join(name)).unwrap();
            let n = self.commits;
            for (name, frames) in ["equilibration_1", "production"].iter().zip(&self.frames) {
                assert!(&read(&format!("work/output/{name}.dcd")) == frames, "{name}, {n}");
            }
            let lines = "line\n".repeat(n as usize);
            assert_eq!(read("work/output/production.csv"), lines.as_bytes());
            assert_eq!(read("log.txt"), "said\n".repeat(n as usize).as_bytes());
            assert_eq!(read(&format!("work/commit/{n}.checkpoint.chk")), [n as u8; 10]);
            assert_eq!(read("work/output/equilibration_1.pdb"), b"ATOM");
            assert_eq!(n_commits(&there), n);
            assert_eq!(committed(&there).unwrap(), self.kept().commit);
            let of_commit = fs::read_dir(there.join("work/commit")).unwrap().count();
            assert_eq!(of_commit, 2, "no checkpoint of an earlier commit");
            fs::remove_dir_all(there).unwrap();
        }
    }

    const HEADER: usize = 276;

    /// A header, and so many bytes that are different everywhere.
    fn trajectory(bytes: usize) -> Vec<u8> {
        let frames = (0u32..).flat_map(u32::to_le_bytes).take(bytes);
        [0; HEADER].into_iter().chain(frames).collect()
    }

    #[test]
    fn of_what_grows_is_sent_what_is_new() {
        let mut job = Running::new();
        job.commit(40_000);
        job.keep(|| Ok(())).unwrap();
        job.check();
        let (_, before) = job.objects();
        for bytes in [0, 300, 70_000] {
            job.commit(bytes);
            job.keep(|| Ok(())).unwrap();
            job.check();
        }
        let (n_objects, after) = job.objects();
        let names = job.kept();
        assert_eq!(names.names().len(), n_objects, "what is not needed is gone");
        // Frames, and three lines of the log and of what was said; the rest has replaced what there
        // was.
        let of_commit = |n: u64| {
            json!({
                "number": n, "stage": 1, "step": n,
                "files": { "dcd": 276 + 40_000 + if n > 1 { 70_300 } else { 0 }, "log": 5 * n },
            })
            .to_string()
            .len() as u64
        };
        assert_eq!(after - before, 70_300 + 30 + of_commit(4) - of_commit(1));
        let first = |kept: &Kept, name: &str| kept.files[name].parts[1].name.clone();
        let name = "work/output/production.dcd";
        job.commit(1);
        job.keep(|| Ok(())).unwrap();
        assert_eq!(first(&job.kept(), name), first(&names, name), "it is not sent again");
    }

    #[test]
    fn who_may_keep_nothing_leaves_what_is_kept_as_it_was() {
        let mut job = Running::new();
        job.commit(40_000);
        job.keep(|| Ok(())).unwrap();
        let before = job.objects();
        job.commit(1000);
        job.keep(|| anyhow::bail!("another server runs it")).unwrap_err();
        assert_eq!(job.objects(), before);
        assert_eq!(job.kept().commit.number, 1);
        job.keep(|| Ok(())).unwrap();
        job.check();
    }

    #[test]
    fn a_folder_that_tells_of_no_past_is_sent_whole() {
        let mut job = Running::new();
        job.commit(40_000);
        job.keep(|| Ok(())).unwrap();
        // As a server has it that took another course from here on, and another's is kept
        // meanwhile.
        fs::remove_file(job.path().join(KEPT)).unwrap();
        job.frames[1][5000..].fill(7);
        job.commit(2000);
        job.keep(|| Ok(())).unwrap();
        job.check();
    }

    #[test]
    fn what_was_put_back_is_sent_no_more_than_what_is_new() {
        let mut job = Running::new();
        job.commit(40_000);
        job.keep(|| Ok(())).unwrap();
        fs::remove_dir_all(job.path()).unwrap();
        job.kept().restore(&job.objects, "job_1", &job.path()).unwrap();
        let before = job.kept();
        job.commit(2000);
        job.keep(|| Ok(())).unwrap();
        job.check();
        for name in ["equilibration_1", "production"].map(|name| format!("work/output/{name}.dcd"))
        {
            assert_eq!(job.kept().files[&name].parts[1].name, before.files[&name].parts[1].name);
        }
    }
}
