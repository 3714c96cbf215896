//! `molboxd move`: brings records and contents to where another configuration of the same data
//! folder has them.
//!
//! Contents go first, one by one: what is there already as it is here is not copied again, so that a
//! move that was cut off is repeated. They stay where they were, too.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::app::{installation, server, set_installation};
use crate::clock::Clock;
use crate::command::backup::sync;
use crate::config::Config;
use crate::db::{Whole, transfer, transferred};
use crate::folder;
use crate::objects::{Key, Objects, Stats};

/// Objects that are copied at a time.
const AT_A_TIME: usize = 8;
/// How much later than the original a copy of what may be replaced has to be made to be known as one
/// of it: by so much clocks may differ.
const CLOCKS: Duration = Duration::from_secs(600);

/// Brings everything there; what, and how much of it.
pub(crate) fn bring(from: &Config, to: &Config) -> Result<Vec<(&'static str, u64)>> {
    if to.data != from.data {
        bail!(
            "the data folder stays: data is {} in one configuration and {} in the other",
            from.data.display(),
            to.data.display()
        );
    }
    let _lock = folder::lock(&from.data)?;
    let (source, target) = (Objects::of(from)?, Objects::of(to)?);
    let other_objects = !target.is(&source)?;
    let other_database = from.database.url != to.database.url;
    if !other_objects && !other_database {
        bail!(
            "nothing is to be moved: both configurations have the same database.url and the same objects.url, \
             or the same bucket by another name"
        );
    }
    // Also by a move that was killed: its parts would fill the disk, one repetition after the other.
    for store in [&source, &target] {
        store.clear_unfinished().with_context(|| format!("clear {}", from.data.display()))?;
    }
    if other_objects
        && other_database
        && let Ok(Some(name)) = folder::settled(&to.data, &target, &installation(&to.data)?)
        && let Some(rows) = transferred(from, to, &name)?
    {
        // Both are there, by a move that was cut off when it had nothing left to do but this.
        source.leave(&name)?;
        return Ok(rows);
    }
    let name = folder::belonging(&from.data, &source, installation(&from.data)?)?;
    // By a move that was cut off after that.
    let transferred = if other_database { transferred(from, to, &name)? } else { None };
    if transferred.is_none() {
        refuse_others(from)?;
    }
    let mut done = Vec::new();
    if other_objects {
        if !target.expect(&name)? {
            bail!("{} has the contents of another installation (objects.url)", target.place());
        }
        let records = if transferred.is_some() { to } else { from };
        let known = Whole::of(records)?.known_objects()?;
        done.push(("objects", copy_all(&source, &target, &known)?));
        target.complete(&name)?;
    }
    match transferred {
        Some(rows) => done.extend(rows),
        None if other_database => done.extend(transfer(from, to, &name)?),
        None => {}
    }
    // Last: from here on the contents here are not used any more.
    if other_objects && target.folder().is_some() {
        sync(&to.data)?;
        set_installation(&to.data, &name)?;
        folder::untie(&to.data)?;
    } else if other_objects {
        folder::tie(&to.data, &name)?;
    }
    if other_objects {
        // By servers that still know the old place, too.
        source.leave(&name).context("all is moved, but for a note of it in the old place")?;
    }
    Ok(done)
}

/// Refuses to take records from servers that work on them: what they acknowledge from here on would
/// be lost.
fn refuse_others(from: &Config) -> Result<()> {
    let own = server(&from.data)?;
    match Whole::of(from)?.other_servers(&own, Clock::default().now())? {
        0 => Ok(()),
        others => bail!(
            "{} on the database that is to be moved (database.url): stop all of them first; one that \
             was killed counts for 30 s",
            match others {
                1 => "another server works".to_owned(),
                others => format!("{others} other servers work"),
            }
        ),
    }
}

/// Copies all objects from one store to another; how many there are. Records know some.
fn copy_all(from: &Objects, to: &Objects, known: &HashSet<String>) -> Result<u64> {
    let keys = from.all().with_context(|| from.place())?;
    let wanted: BTreeSet<&Key> = keys.iter().collect();
    for key in to.all().with_context(|| to.place())? {
        // One that came by an earlier move and is lost here since is what is left of it.
        let is_lost_here = key.is_upload() && known.contains(key.as_str());
        if !wanted.contains(&key) && !is_lost_here {
            to.remove(&key).with_context(|| format!("remove {key}"))?;
        }
    }
    let next = Mutex::new(keys.iter());
    let work = || -> Result<u64> {
        let mut n = 0;
        loop {
            let key = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(key) = key else { return Ok(n) };
            n += copy(from, to, key)
                .with_context(|| format!("copy {key} from {} to {}", from.place(), to.place()))?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        let each = workers.into_iter().map(|worker| {
            worker.join().map_err(|_| anyhow!("a thread that copies has failed")).flatten()
        });
        each.sum()
    })
}

/// Copies the objects with or under a key, and removes others there; how many there are.
fn copy(from: &Objects, to: &Objects, key: &Key) -> Result<u64> {
    let (wanted, mut found) = (from.stats(key)?, to.stats(key)?);
    for (object, stat) in &wanted {
        let is_copied = found.remove(object).is_some_and(|copy| {
            let since = copy.modified.duration_since(stat.modified);
            let is_as_old = copy.modified == stat.modified;
            let is_later = since.is_ok_and(|since| since > CLOCKS);
            copy.size == stat.size && (object.is_upload() || is_as_old || is_later)
        });
        if !is_copied {
            let size = from.copy_to(object, to)?;
            ensure!(size == stat.size, "{object} has changed: a service uses it");
        }
    }
    for object in found.keys() {
        to.remove(object)?;
    }
    let sizes = |stats: Stats| -> Vec<(Key, u64)> {
        stats.into_iter().map(|(key, stat)| (key, stat.size)).collect()
    };
    let (here, there) = (sizes(wanted), sizes(to.stats(key)?));
    if here != there {
        return Err(io::Error::other("it is not there as it is here").into());
    }
    Ok(here.len() as u64)
}
