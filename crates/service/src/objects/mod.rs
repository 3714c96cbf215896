//! The object store: contents by key. Nothing else touches them, and neither a path nor an open
//! file leaves it, so that contents can lie elsewhere than on this machine.
//!
//! An object is there whole or not at all, and stays as it is until it is removed or replaced. What
//! it promises is tested by `suite.rs`, which any store has to pass.

pub(crate) mod bundle;
mod disk;
pub(crate) mod garbage;
mod object;
mod s3;
mod scratch;
#[cfg(test)]
mod suite;

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use axum::body::Bytes;
use futures::Stream;
use futures::future::Either;
use jiff::Timestamp;
use reqwest::Url;

use crate::config::Config;
use crate::files;

pub(crate) use object::{Key, May, ReceiveError, Stats, ask};
pub(crate) use s3::{Begun, Failure, Unfinished};

/// File of a data folder whose contents are in a bucket: whose they are.
pub(crate) const BUCKET: &str = "bucket";

/// The refusal of a data folder as the place of contents that it has not.
pub(crate) fn not_here(data: &Path) -> anyhow::Error {
    anyhow!(
        "the contents of {} are in a bucket: name it in objects.url, or bring them back with `molboxd move`",
        data.display()
    )
}

/// The object store. Whatever is not `async` waits on its thread, from wherever it is called.
pub(crate) struct Objects(Store);

enum Store {
    Disk(disk::Store),
    S3(Box<s3::Store>),
}

/// Has the store do something, whichever it is.
macro_rules! on {
    ($objects:expr, $store:ident => $done:expr) => {
        match &$objects.0 {
            Store::Disk($store) => $done,
            Store::S3($store) => $done,
        }
    };
}

/// An object as a file of this machine, as long as this is kept. It is only to be read.
pub(crate) struct Local(File);

enum File {
    InPlace(PathBuf),
    Copy(Arc<scratch::Copy>),
}

impl Local {
    pub(crate) fn path(&self) -> &Path {
        match &self.0 {
            File::InPlace(path) => path,
            File::Copy(copy) => copy.path(),
        }
    }
}

impl Objects {
    /// Opens the store that the configuration names.
    pub(crate) fn of(config: &Config) -> Result<Self> {
        match s3::Store::of(config)? {
            Some(store) => Ok(Self(Store::S3(Box::new(store)))),
            None => Self::open(&config.data),
        }
    }

    /// The same, to be read: none is made.
    ///
    /// # Errors
    ///
    /// Also where the contents are in a bucket that the configuration does not name, or have been
    /// brought to another place than it names.
    pub(crate) fn to_read(config: &Config) -> Result<Self> {
        match s3::Store::of(config)? {
            Some(store) => {
                store.installation().with_context(|| store.place())?;
                Ok(Self(Store::S3(Box::new(store))))
            }
            None if config.data.join(BUCKET).exists() => Err(not_here(&config.data)),
            None => Ok(Self::at(&config.data)),
        }
    }

    /// Opens the store in a folder.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        disk::Store::open(folder).map(Store::Disk).map(Self)
    }

    /// The store in a folder, to be read.
    pub(crate) fn at(folder: &Path) -> Self {
        Self(Store::Disk(disk::Store::at(folder)))
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        on!(self, store => store.place())
    }

    /// Folder of the data folder that it lies in; none where it lies elsewhere.
    pub(crate) fn folder(&self) -> Option<&'static str> {
        match &self.0 {
            Store::Disk(_) => Some("objects"),
            Store::S3(_) => None,
        }
    }

    /// The name of whose a store elsewhere is, if it is anybody's yet.
    pub(crate) fn installation(&self) -> Result<Option<String>> {
        match &self.0 {
            Store::Disk(_) => Ok(None),
            Store::S3(store) => store.installation().with_context(|| store.place()),
        }
    }

    /// The same, which is `name` from now on if it is nobody's yet.
    pub(crate) fn install(&self, name: &str) -> Result<String> {
        match &self.0 {
            Store::Disk(_) => Ok(name.to_owned()),
            Store::S3(store) => store.install(name).with_context(|| store.place()),
        }
    }

    /// Has a store elsewhere be used by nobody until all contents of an installation have come; false where
    /// it has those of another.
    pub(crate) fn expect(&self, name: &str) -> Result<bool> {
        match &self.0 {
            Store::Disk(_) => Ok(true),
            Store::S3(store) => store.expect(name).with_context(|| store.place()),
        }
    }

    /// Has it be that of an installation, whose contents have all come.
    pub(crate) fn complete(&self, name: &str) -> Result<()> {
        match &self.0 {
            Store::Disk(_) => Ok(()),
            Store::S3(store) => store.complete(name).with_context(|| store.place()),
        }
    }

    /// Has it be used by nobody any more, since all contents have been brought elsewhere.
    pub(crate) fn leave(&self, name: &str) -> Result<()> {
        match &self.0 {
            Store::Disk(_) => Ok(()),
            Store::S3(store) => store.leave(name).with_context(|| store.place()),
        }
    }

    /// How far a store elsewhere has gone with a database, as that has noted it there; none where it has
    /// not yet.
    pub(crate) fn tenure(&self) -> Result<Option<String>> {
        match &self.0 {
            Store::Disk(_) => Ok(None),
            Store::S3(store) => store.tenure().with_context(|| store.place()),
        }
    }

    /// Notes that.
    pub(crate) fn set_tenure(&self, text: &str) -> Result<()> {
        match &self.0 {
            Store::Disk(_) => Ok(()),
            Store::S3(store) => store.set_tenure(text).with_context(|| store.place()),
        }
    }

    /// Whether another is the same place, by whatever name.
    pub(crate) fn is(&self, other: &Self) -> Result<bool> {
        match (&self.0, &other.0) {
            (Store::Disk(_), Store::Disk(_)) => Ok(true),
            (Store::S3(one), Store::S3(other)) => one.is(other).with_context(|| one.place()),
            _ => Ok(false),
        }
    }

    /// Refuses a store elsewhere, that is nobody's yet, where others have or will have theirs.
    pub(crate) fn refuse_strangers(&self) -> Result<()> {
        match &self.0 {
            Store::Disk(_) => Ok(()),
            Store::S3(store) => store.refuse_strangers().with_context(|| store.place()),
        }
    }

    /// Whether a store elsewhere has any contents.
    pub(crate) fn is_filled(&self) -> Result<bool> {
        match &self.0 {
            Store::Disk(_) => Ok(false),
            Store::S3(store) => Ok(store.first().with_context(|| store.place())?.is_some()),
        }
    }

    /// Whether a store elsewhere does all that is asked of it, and what becomes there of parts of uploads
    /// that were never completed.
    pub(crate) fn try_out(&self) -> Result<Unfinished> {
        match &self.0 {
            Store::Disk(_) => Ok(Unfinished::Removed),
            Store::S3(store) => store.try_out(),
        }
    }

    /// Removes what a service that was killed left unfinished.
    pub(crate) fn clear_unfinished(&self) -> io::Result<()> {
        on!(self, store => store.clear_unfinished())
    }

    /// What was sent to a store elsewhere in parts, begun before a moment, and has not become an object.
    pub(crate) async fn begun(&self, before: Timestamp) -> Result<Vec<Begun>> {
        match &self.0 {
            Store::Disk(_) => Ok(Vec::new()),
            Store::S3(store) => store.begun(before).await.with_context(|| store.place()),
        }
    }

    /// Removes the parts of one.
    pub(crate) async fn abort(&self, begun: &Begun) -> io::Result<()> {
        match &self.0 {
            Store::Disk(_) => Ok(()),
            Store::S3(store) => store.abort(begun).await,
        }
    }

    /// Leaves what a service leaves that is killed before what it writes is put into its place.
    #[cfg(test)]
    pub(super) fn abandon(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        on!(self, store => store.abandon(key, content))
    }

    /// Writes an object as its bytes come; constant memory.
    pub(crate) async fn receive<E>(
        &self,
        key: &Key,
        max_bytes: u64,
        content: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<u64, ReceiveError<E>> {
        on!(self, store => store.receive(key, max_bytes, content).await)
    }

    /// A link that takes an object, by one `PUT`, at the store itself; none where contents come
    /// through this service. What it takes may be replaced by it as long as it lasts.
    pub(crate) fn link(&self, key: &Key, lasts: Duration) -> io::Result<Option<Url>> {
        match &self.0 {
            Store::Disk(_) => Ok(None),
            Store::S3(store) => store.link(key, lasts),
        }
    }

    /// Copies an object that came by a link within the store.
    pub(crate) fn copy(&self, from: &Key, to: &Key) -> io::Result<()> {
        match &self.0 {
            Store::Disk(_) => Err(io::ErrorKind::Unsupported.into()),
            Store::S3(store) => store.copy(from, to),
        }
    }

    /// Writes an object that is at hand.
    pub(crate) fn write(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        on!(self, store => store.write(key, content))
    }

    /// Writes an object that others may have written, in whose place it comes if it `may`.
    pub(crate) fn put(&self, key: &Key, content: &[u8], may: May<'_>) -> io::Result<()> {
        match &self.0 {
            Store::Disk(store) => ask(may).and_then(|()| store.write(key, content)),
            Store::S3(store) => store.put(key, content, may),
        }
    }

    /// Writes an object from what `content` writes.
    pub(crate) fn write_with(
        &self,
        key: &Key,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        on!(self, store => store.write_with(key, content))
    }

    /// Makes the files of a folder objects under a key, where there is none right under it, after
    /// which there is no such folder. Without one, this does nothing.
    ///
    /// Elsewhere than on this disk they come one after another, those right under the key before
    /// the others, and the last by name when all others are there. When that is cut off, the folder
    /// is there as it was: what has come is to be removed, and all of it adopted again. `may` is asked
    /// before each that comes.
    pub(crate) fn adopt(&self, folder: &Path, key: &Key, may: May<'_>) -> io::Result<()> {
        match &self.0 {
            Store::Disk(store) => ask(may).and_then(|()| store.adopt(folder, key)),
            Store::S3(store) => store.adopt(folder, key, may),
        }
    }

    /// Keys of the objects right under a key, sorted.
    pub(crate) fn list(&self, key: &Key) -> io::Result<Vec<Key>> {
        on!(self, store => store.list(key))
    }

    /// Every object of a file, and the key of every task's, sorted.
    pub(crate) fn all(&self) -> io::Result<Vec<Key>> {
        on!(self, store => store.all())
    }

    /// What the objects with or under this key take, in bytes; 0 where there is nothing.
    pub(crate) fn size(&self, key: &Key) -> io::Result<u64> {
        on!(self, store => store.size(key))
    }

    /// Whether there is an object with or under this key.
    pub(crate) fn exists(&self, key: &Key) -> io::Result<bool> {
        on!(self, store => store.exists(key))
    }

    /// A whole object.
    pub(crate) fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        on!(self, store => store.read(key))
    }

    /// A whole object; none when it has more bytes, for who wrote it may be a stranger.
    pub(crate) fn read_at_most(&self, key: &Key, most: u64) -> io::Result<Option<Vec<u8>>> {
        let found = self.read_part(key, 0..most.saturating_add(1))?;
        Ok(Some(found).filter(|found| found.len() as u64 <= most))
    }

    /// A part of an object, as far as there is one.
    pub(crate) fn read_part(&self, key: &Key, range: Range<u64>) -> io::Result<Vec<u8>> {
        on!(self, store => store.read_part(key, range))
    }

    /// Hands a whole object to `sink`, a chunk at a time; its size.
    pub(crate) fn read_to(&self, key: &Key, sink: &mut dyn Write) -> io::Result<u64> {
        on!(self, store => store.read_to(key, sink))
    }

    /// The bytes of an object from `range.start` up to `range.end`; constant memory. An error when
    /// it ends before.
    pub(crate) fn stream(
        self: Arc<Self>,
        key: Key,
        range: Range<u64>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send {
        match &self.0 {
            Store::Disk(store) => Either::Left(store.stream(&key, range)),
            Store::S3(store) => Either::Right(store.stream(&key, range)),
        }
    }

    /// An object as a file, for what reads files.
    pub(crate) fn local(&self, key: &Key) -> io::Result<Local> {
        Ok(Local(match &self.0 {
            Store::Disk(store) => File::InPlace(store.local(key)?),
            Store::S3(store) => File::Copy(store.local(key)?),
        }))
    }

    /// Puts an object into a task's folder: a copy, for a worker may write there, and what is
    /// stored must stay what it is.
    pub(crate) fn fetch(&self, key: &Key, to: &Path) -> io::Result<()> {
        on!(self, store => store.fetch(key, to))
    }

    /// The same for one that is only read there: without its bytes where the disk can.
    pub(crate) fn lend(&self, key: &Key, to: &Path) -> io::Result<()> {
        files::link_or_copy(self.local(key)?.path(), to)
    }

    /// Removes the objects with or under this key. Nothing there is fine.
    pub(crate) fn remove(&self, key: &Key) -> io::Result<()> {
        on!(self, store => store.remove(key))
    }

    /// Free space of the disk that new objects are written to, or to be sent from, in bytes.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        on!(self, store => store.free_bytes())
    }

    /// Size of that disk.
    pub(crate) fn disk_bytes(&self) -> io::Result<u64> {
        on!(self, store => store.disk_bytes())
    }

    /// Size and time of the objects with or under this key; empty where there is nothing.
    ///
    /// # Errors
    ///
    /// Not found, when one is removed at this moment.
    pub(crate) fn stats(&self, key: &Key) -> io::Result<Stats> {
        on!(self, store => store.stats(key))
    }

    /// Copies an object into another store; its size. To a disk with its time, and not durable until
    /// the file system is told to be; from one also without its bytes where the file system can.
    pub(crate) fn copy_to(&self, key: &Key, other: &Self) -> io::Result<u64> {
        match (&self.0, &other.0) {
            (Store::Disk(from), Store::Disk(to)) => from.copy_to(key, to),
            (Store::S3(from), Store::Disk(to)) => {
                let found = from.stats(key)?;
                let found = found.get(key).ok_or(io::ErrorKind::NotFound)?;
                to.write_later(key, found.modified, |out| from.get_to(key, out))
            }
            (Store::Disk(from), Store::S3(to)) => to.send(key, &from.local(key)?),
            (_, Store::S3(to)) => {
                let mut size = 0;
                to.write_with(key, |out| {
                    size = self.read_to(key, out)?;
                    Ok(())
                })?;
                Ok(size)
            }
        }
    }

    /// Moves all objects under a key into another store of the same file system, which has none
    /// there.
    pub(crate) fn give(&self, key: &Key, other: &Self) -> io::Result<()> {
        match (&self.0, &other.0) {
            (Store::Disk(from), Store::Disk(to)) => from.give(key, to),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
