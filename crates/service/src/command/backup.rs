//! `molboxd backup` and `molboxd restore`: a copy of a data folder, taken while a service may use
//! it.
//!
//! A backup is a data folder itself: the database as it was at one moment, and all content that its
//! records have. The content is copied first and the database once more afterwards, until nothing
//! that it refers to was deleted in between: each round copies only what the one before did not
//! see. A backup onto the same folder copies what is new, and until its last step leaves the backup
//! that was there as it was.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;

use crate::app::installation;
use crate::command::check::{self, Report};
use crate::command::marker::{MARKER, Marker, Owner, SECRET};
use crate::config::Config;
use crate::db::{Whole, snapshot};
use crate::folder::{self, DATABASE};
use crate::objects::bundle::Layout;
use crate::objects::{Key, Objects, Stats};
use crate::runner::left::LOG;

/// The database that a backup is to have, until it has all of its content.
const NEXT: &str = "molbox.sqlite.next";
/// Results that replace others under the same key, until the database does.
const STAGED: &str = "staged";
/// The rest of a data folder that cannot be made anew, with the secret.
const MARKET: &str = "market";
const NEXT_MARKET: &str = "market.next";
/// Rounds after which a service deletes faster than it can be followed. The second is short
/// already.
const MAX_ROUNDS: usize = 100;

/// What a backup copied.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    pub(crate) objects: usize,
    pub(crate) bytes: u64,
    /// What the service has lost already, and the backup lacks.
    pub(crate) lost: Vec<String>,
}

/// Backs a data folder up to a folder, which is made or holds an earlier backup.
pub(crate) fn backup(config: &Config, to: &Path, now: Timestamp) -> Result<Copied> {
    let data = &config.data;
    if !config.database.url.is_empty() {
        bail!(
            "the records are in PostgreSQL (database.url): take a backup of it with pg_dump or \
             pg_basebackup, and after it of the contents, which are in {}",
            Objects::to_read(config)?.place()
        );
    }
    let live = Whole::open(data)?;
    let owner = Owner::of(data)?.with_context(|| {
        format!(
            "there is no {SECRET} in {}, where no service has run yet: start one, or name the data \
             folder that is meant",
            data.display()
        )
    })?;
    folder::make(to)?;
    let inner = to.canonicalize()?;
    let outer = data.canonicalize()?;
    if inner.starts_with(&outer) || outer.starts_with(&inner) {
        bail!(
            "{} and the data folder {} lie in each other; name another folder",
            to.display(),
            data.display()
        );
    }
    if !to.join(MARKER).exists() && fs::read_dir(to)?.next().is_some() {
        bail!("{} is not empty and holds no backup; name a new folder", to.display());
    }
    let _lock = folder::lock(to)?;
    let earlier = Marker::read(to)?;
    if let Some(earlier) = &earlier {
        earlier.check_replaceable(to, &owner)?;
    }
    let mut marker = Marker::new(owner, now);
    if earlier.is_none() {
        marker.write(to)?;
    }
    let mut run = Run::new(config, to)?;
    let whole = run.until_complete(&live)?;
    run.copy_rest(config)?;
    sync(to)?;

    // From here on the earlier backup is no more.
    marker.write(to)?;
    run.put_in_place()?;
    for suffix in ["-wal", "-shm"] {
        remove_file(&to.join(format!("{DATABASE}{suffix}")))?;
    }
    fs::rename(to.join(NEXT), to.join(DATABASE))?;
    sync(to)?;
    marker.complete(to, &[DATABASE, SECRET, MARKET])?;
    marker.write(to)?;
    let known = whole.known_objects()?;
    for object in run.target.all()?.into_iter().filter(|object| !known.contains(object.as_str())) {
        run.target.remove(&object)?;
    }
    Ok(run.copied)
}

/// A backup that is being taken.
struct Run<'a> {
    data: &'a Path,
    to: &'a Path,
    source: Objects,
    target: Objects,
    staged: Objects,
    /// Tasks whose results are staged.
    replaced: HashSet<String>,
    copied: Copied,
}

impl<'a> Run<'a> {
    fn new(config: &'a Config, to: &'a Path) -> Result<Self> {
        let staging = to.join(STAGED);
        if staging.exists() {
            fs::remove_dir_all(&staging).with_context(|| format!("clear {}", staging.display()))?;
        }
        let target = Objects::open(to)?;
        target.clear_unfinished()?;
        Ok(Self {
            data: &config.data,
            to,
            source: Objects::to_read(config)?,
            target,
            staged: Objects::open(&staging)?,
            replaced: HashSet::new(),
            copied: Copied::default(),
        })
    }

    /// Copies content and database until they belong together; the database of the last round.
    fn until_complete(&mut self, live: &Whole) -> Result<Whole> {
        for _ in 0..MAX_ROUNDS {
            let next = self.to.join(NEXT);
            remove_file(&next)?;
            snapshot(self.data, &next)?;
            let whole = Whole::at(&next)?;
            let mut lost = Vec::new();
            let files = self.copy_files(&whole, live, &mut lost)?;
            let tasks = self.copy_tasks(&whole, live, &mut lost)?;
            if files && tasks {
                self.copied.lost = lost;
                return Ok(whole);
            }
        }
        bail!("the service changes faster than it can be copied; try again when it has less to do")
    }

    /// Copies the content of every file; whether all is there, but for what is lost.
    fn copy_files(&mut self, whole: &Whole, live: &Whole, lost: &mut Vec<String>) -> Result<bool> {
        let mut is_complete = true;
        for (id, object) in whole.file_objects()? {
            let is_there = self.copy(&Key::stored(&object))?;
            if is_there {
                continue;
            }
            if live.refers_to(&id, &object)? {
                lost.push(format!("{id} {object}: the content is missing"));
            } else {
                // Deleted since.
                is_complete = false;
            }
        }
        Ok(is_complete)
    }

    /// Copies an object that never changes, unless the backup has it; whether there is one.
    fn copy(&mut self, object: &Key) -> Result<bool> {
        let found = match self.source.stats(object) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error).with_context(|| format!("look at {object}")),
        };
        if found.is_empty() {
            return Ok(false);
        }
        if found == self.target.stats(object)? {
            return Ok(true);
        }
        match copy_objects(&self.source, &found, &self.target, &mut self.copied) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("copy {object}")),
        }
    }

    /// Copies the results of every task; whether all are there as their records have them, but for
    /// what is lost.
    fn copy_tasks(&mut self, whole: &Whole, live: &Whole, lost: &mut Vec<String>) -> Result<bool> {
        let mut is_complete = true;
        let mut stats = HashMap::new();
        for id in whole.tasks()? {
            match self.copy_results(&id) {
                Ok(found) => drop(stats.insert(id, found)),
                // They are being replaced or removed at this moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => is_complete = false,
                Err(error) => {
                    return Err(error).with_context(|| format!("copy the results of {id}"));
                }
            }
        }
        let layout_of = |id: &str, text: &str| -> Result<Layout> {
            serde_json::from_str(text).with_context(|| format!("the bundle of {id}"))
        };
        let has = |id: &str, layout: &Layout| {
            let (task, found) = (Key::task(id), stats.get(id));
            layout.objects().all(|(object, size)| {
                let found = found.and_then(|found| found.get(object));
                !object.is_under(&task) || found.is_some_and(|found| found.size == size)
            })
        };
        for (id, text) in whole.earlier_bundles()? {
            // Between the old results and the new ones, of which each has a log, there are none.
            let log = Key::task(&id).under(LOG);
            let has_log = stats.get(&id).is_some_and(|found| found.contains_key(&log));
            is_complete &= has_log || has(&id, &layout_of(&id, &text)?);
        }
        for id in whole.bundled()? {
            let Some(text) = whole.bundle(&id)? else { continue };
            let layout = layout_of(&id, &text)?;
            let is_whole = has(&id, &layout);
            // What was copied is what the record has, if the record has it still; results are
            // replaced only while their task is open.
            let is_unchanged = live.bundle(&id)?.as_ref() == Some(&text);
            if is_unchanged && !is_whole {
                lost.push(format!("{id}: its results are damaged; `molboxd check` names what"));
            } else if !is_unchanged
                && (self.replaced.contains(&id) || !is_whole || !self.has(&layout)?)
            {
                is_complete = false;
            }
        }
        Ok(is_complete)
    }

    /// Whether the backup has the content of a bundle, byte for byte.
    fn has(&self, layout: &Layout) -> Result<bool> {
        for (object, _) in layout.objects() {
            if !self.target.exists(object)? {
                return Ok(false);
            }
        }
        Ok(layout.digest(&self.target)? == layout.sha256)
    }

    /// Copies the results of a task as they are at one moment, unless the backup has them; what
    /// there is.
    fn copy_results(&mut self, id: &str) -> io::Result<Stats> {
        let prefix = Key::task(id);
        let found = self.source.stats(&prefix)?;
        let (before, is_staged) = match self.replaced.contains(id) {
            true => (self.staged.stats(&prefix)?, true),
            false => (self.target.stats(&prefix)?, false),
        };
        if found.is_empty() || found == before {
            return Ok(found);
        }
        if is_staged {
            self.staged.remove(&prefix)?;
        }
        copy_objects(&self.source, &found, &self.staged, &mut self.copied)?;
        if self.source.stats(&prefix)? != found {
            self.staged.remove(&prefix)?;
            self.replaced.remove(id);
            return Err(io::ErrorKind::NotFound.into());
        }
        self.replaced.insert(id.to_owned());
        if before.is_empty() {
            // Nothing that an earlier backup has.
            self.staged.give(&prefix, &self.target)?;
            self.replaced.remove(id);
        }
        Ok(found)
    }

    /// Copies what is no content.
    fn copy_rest(&self, config: &Config) -> Result<()> {
        let data = &config.data;
        copy_file(&data.join(SECRET), &self.to.join(SECRET)).context("copy the secret")?;
        let market = self.to.join(NEXT_MARKET);
        copy_folder(&data.join(MARKET), &market).context("copy the market data")
    }

    /// Has what was staged replace what was there.
    fn put_in_place(&mut self) -> Result<()> {
        let (next, market) = (self.to.join(NEXT_MARKET), self.to.join(MARKET));
        if market.exists() {
            fs::remove_dir_all(&market).context("clear the earlier market data")?;
        }
        if next.exists() {
            fs::rename(next, market).context("put the market data in place")?;
        }
        for id in std::mem::take(&mut self.replaced) {
            let prefix = Key::task(&id);
            self.target.remove(&prefix)?;
            self.staged.give(&prefix, &self.target)?;
        }
        fs::remove_dir_all(self.to.join(STAGED)).context("clear what was staged")
    }
}

/// Puts a backup into a new data folder, and reads all of it there.
pub(crate) fn restore(config: &Config, from: &Path) -> Result<Report> {
    let data = &config.data;
    let _held = folder::lock_to_read(from)?;
    let marker = Marker::read(from)?
        .with_context(|| format!("{} holds no backup: it has no {MARKER}", from.display()))?;
    if !marker.is_whole {
        bail!("the backup in {} was cut off; take it again, or restore another", from.display());
    }
    marker.check_unused(from)?;
    let whole = Whole::open(from)?;
    folder::make(data)?;
    let _lock = folder::lock(data)?;
    for name in [DATABASE, SECRET, MARKET, "objects", "tasks"] {
        if data.join(name).exists() {
            bail!("{} is in use, it has {name}: restore to a new folder", data.display());
        }
    }
    let source = Objects::at(from);
    let target = Objects::of(config)?;
    if let Some(found) = target.all()?.first() {
        bail!("there is {found} in {}: restore to an empty bucket", target.place());
    }
    let name = installation(data)?;
    if target.install(&name)? != name {
        bail!("{} is that of another installation: restore to an empty bucket", target.place());
    }
    let mut copied = Copied::default();
    for object in whole.known_objects()? {
        copy_objects(&source, &source.stats(&Key::stored(&object))?, &target, &mut copied)
            .with_context(|| format!("copy {object}"))?;
    }
    copy_file(&from.join(SECRET), &data.join(SECRET)).context("copy the secret")?;
    copy_folder(&from.join(MARKET), &data.join(MARKET)).context("copy the market data")?;
    let partial = data.join(NEXT);
    copy_file(&from.join(DATABASE), &partial).context("copy the database")?;
    sync(data)?;
    // Last: with it the folder is a service's.
    fs::rename(partial, data.join(DATABASE))?;
    sync(data)?;
    let mut report = check::check(config)?;
    report.add_beside(marker.problems(data));
    Ok(report)
}

fn copy_objects(
    from: &Objects,
    which: &Stats,
    to: &Objects,
    copied: &mut Copied,
) -> io::Result<()> {
    for key in which.keys() {
        copied.bytes += from.copy_to(key, to)?;
        copied.objects += 1;
    }
    Ok(())
}

/// Makes all that was written below a folder durable: the whole file system, which takes less than
/// to ask for each of many files.
pub(super) fn sync(folder: &Path) -> Result<()> {
    rustix::fs::syncfs(File::open(folder)?)
        .with_context(|| format!("make {} durable", folder.display()))
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Replaces a file by a copy of another, by a rename.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let partial = to.with_extension("partial");
    fs::copy(from, &partial)?;
    fs::rename(partial, to)
}

/// Replaces a folder of files by a copy of another, if there is one; not what links lead to.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let (kind, path): (_, PathBuf) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &path)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), path)?;
        }
    }
    Ok(())
}
