//! `molboxd move`: brings records and contents to where another configuration of the same data
//! folder has them.
//!
//! Contents go first, one by one: what is there already as it is here is not copied again, so that a
//! move that was cut off is repeated. They stay where they were, too.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::app::{installation, server, set_installation};
use crate::clock::Clock;
use crate::command::backup::sync;
use crate::config::Config;
use crate::db::{Whole, place, refuse_transfer, transfer, transferred};
use crate::folder;
use crate::objects::bundle::Layout;
use crate::objects::{Key, Objects};
use crate::tenure;

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
        let records = Whole::of(from)?;
        tenure::check_read(records.tenure()?.as_ref(), &source, &place(from))?;
    }
    if other_database && transferred.is_none() {
        refuse_transfer(from, to, &name)?;
    }
    let mut done = Vec::new();
    if other_objects {
        if !target.expect(&name)? {
            bail!("{} has the contents of another installation (objects.url)", target.place());
        }
        let records = if transferred.is_some() { to } else { from };
        let known = Known::by(&Whole::of(records)?)?;
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

/// What records know of contents.
struct Known {
    /// Objects of files, and what those of tasks lie under.
    keys: HashSet<String>,
    /// Sizes of registered files, and of what bundles are made of.
    sizes: HashMap<Key, u64>,
    /// Bundles of tasks that have ended, by what their objects lie under.
    bundles: HashMap<Key, Layout>,
}

impl Known {
    fn by(records: &Whole) -> Result<Self> {
        let (mut sizes, mut bundles) = (HashMap::new(), HashMap::new());
        for file in records.contents()? {
            sizes.extend(file.object.map(|object| (Key::stored(object), file.size)));
        }
        for id in records.bundled()? {
            let layout = records.bundle(&id)?.and_then(|text| serde_json::from_str(&text).ok());
            let Some(layout): Option<Layout> = layout else { continue };
            sizes.extend(layout.objects().map(|(object, size)| (object.clone(), size)));
            bundles.insert(Key::task(&id), layout);
        }
        Ok(Self { keys: records.known_objects()?, sizes, bundles })
    }

    /// Whether an object has another size than it should.
    fn is_damaged(&self, object: &Key, size: u64) -> bool {
        self.sizes.get(object).is_some_and(|known| *known != size)
    }

    /// Whether what is under a key of a store is whole.
    fn is_whole(&self, store: &Objects, key: &Key) -> bool {
        let bundle = self.bundles.get(key);
        bundle.is_some_and(|it| it.digest(store).is_ok_and(|digest| digest == it.sha256))
    }
}

/// Copies all objects from one store to another; how many there are. What records know, and is damaged
/// or lost here, stays there as it came by an earlier move: it is what is left of it.
fn copy_all(from: &Objects, to: &Objects, known: &Known) -> Result<u64> {
    let mut keys: BTreeSet<Key> = from.all().with_context(|| from.place())?.into_iter().collect();
    for key in to.all().with_context(|| to.place())? {
        if known.keys.contains(key.as_str()) {
            keys.insert(key);
        } else if !keys.contains(&key) {
            to.remove(&key).with_context(|| format!("remove {key}"))?;
        }
    }
    let next = Mutex::new(keys.iter());
    let work = || -> Result<u64> {
        let mut n = 0;
        loop {
            let key = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(key) = key else { return Ok(n) };
            n += copy(from, to, key, known)
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
fn copy(from: &Objects, to: &Objects, key: &Key, known: &Known) -> Result<u64> {
    let (wanted, mut found) = (from.stats(key)?, to.stats(key)?);
    let is_whole = LazyCell::new(|| known.is_whole(to, key));
    let mut sizes = BTreeMap::new();
    for (object, stat) in wanted {
        let copy = found.remove(&object);
        let is_copied = copy.as_ref().is_some_and(|copy| {
            let since = copy.modified.duration_since(stat.modified);
            let is_as_old = copy.modified == stat.modified;
            let is_later = since.is_ok_and(|since| since > CLOCKS);
            copy.size == stat.size && (object.is_upload() || is_as_old || is_later)
        });
        // What was damaged here since is not put over what is not.
        let is_better = copy.filter(|copy| {
            let is_worse_here =
                known.is_damaged(&object, stat.size) && !known.is_damaged(&object, copy.size);
            !is_copied && (is_worse_here || *is_whole)
        });
        if !is_copied && is_better.is_none() {
            let size = from.copy_to(&object, to)?;
            ensure!(size == stat.size, "{object} has changed: a service uses it");
        }
        sizes.insert(object, is_better.map_or(stat.size, |copy| copy.size));
    }
    for (object, stat) in found {
        let is_lost_here = known.sizes.get(&object) == Some(&stat.size);
        // Of what has arrived and is not registered the size is not known.
        if is_lost_here || known.keys.contains(object.as_str()) || *is_whole {
            sizes.insert(object, stat.size);
        } else {
            to.remove(&object)?;
        }
    }
    let there: BTreeMap<_, _> =
        to.stats(key)?.into_iter().map(|(object, stat)| (object, stat.size)).collect();
    if sizes != there {
        return Err(io::Error::other("it is not there as it is here").into());
    }
    Ok(there.len() as u64)
}
