//! The object store: contents by key, on the local disk. Nothing else touches them.
//!
//! An object is written beside its place, made durable and renamed: it is there whole or not at
//! all. Keys are paths of our own making: `files/<a name for each upload>`, `tasks/<id>/<name>`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use axum::body::Bytes;
use futures::{Stream, StreamExt};
use tokio::io::AsyncWriteExt;

/// The object store.
pub(crate) struct Objects {
    root: PathBuf,
    /// Where objects are written before they are renamed; on the same file system.
    partial: PathBuf,
}

/// Why an upload was not taken.
#[derive(Debug)]
pub(crate) enum ReceiveError {
    /// It has more bytes than allowed.
    TooLarge,
    /// The sender went away or sent something broken.
    Broken(String),
    /// The disk refused.
    Store(io::Error),
}

impl Objects {
    /// Opens the store in a folder.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let objects = Self::at(folder);
        for path in [&objects.root, &objects.partial] {
            fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
        }
        Ok(objects)
    }

    /// The store in a folder, to be read.
    pub(crate) fn at(folder: &Path) -> Self {
        Self { root: folder.join("objects"), partial: folder.join("partial") }
    }

    /// Every object of a file, and the prefix of every task's.
    pub(crate) fn all(&self) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        for prefix in ["files", "tasks"] {
            let entries = match fs::read_dir(self.path(prefix)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                all.push(format!("{prefix}/{}", entry?.file_name().to_string_lossy()));
            }
        }
        all.sort();
        Ok(all)
    }

    /// Removes what a service that was killed left unfinished.
    pub(crate) fn clear_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.partial)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    fn path(&self, key: &str) -> PathBuf {
        debug_assert!(!key.split('/').any(|step| step.is_empty() || step == ".."), "{key}");
        self.root.join(key)
    }

    /// Takes a stream of bytes; constant memory.
    pub(crate) async fn receive<E: std::fmt::Display>(
        &self,
        key: &str,
        unique: &str,
        max_bytes: u64,
        mut content: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<u64, ReceiveError> {
        let partial = Partial(self.partial.join(unique));
        let mut file = tokio::fs::File::create_new(&partial.0).await.map_err(ReceiveError::Store)?;
        let mut size = 0;
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(|e| ReceiveError::Broken(e.to_string()))?;
            size += chunk.len() as u64;
            if size > max_bytes {
                return Err(ReceiveError::TooLarge);
            }
            file.write_all(&chunk).await.map_err(ReceiveError::Store)?;
        }
        file.flush().await.map_err(ReceiveError::Store)?;
        file.sync_all().await.map_err(ReceiveError::Store)?;
        let to = self.path(key);
        tokio::task::spawn_blocking(move || rename_durably(&partial.0, &to))
            .await
            .expect("renaming does not panic")
            .map_err(ReceiveError::Store)?;
        Ok(size)
    }

    /// Writes an object that is at hand.
    pub(crate) fn write(&self, key: &str, content: &[u8]) -> io::Result<()> {
        self.write_with(key, |file| file.write_all(content))
    }

    /// Writes an object from what `content` writes.
    pub(crate) fn write_with(
        &self,
        key: &str,
        content: impl FnOnce(&mut fs::File) -> io::Result<()>,
    ) -> io::Result<()> {
        let partial = Partial(self.partial.join(key.replace('/', "-")));
        let mut file = fs::File::create(&partial.0)?;
        content(&mut file)?;
        file.sync_all()?;
        rename_durably(&partial.0, &self.path(key))
    }

    /// Makes a folder of files objects under a prefix. Doing it again does nothing.
    pub(crate) fn adopt(&self, folder: &Path, prefix: &str) -> io::Result<()> {
        let to = self.path(prefix);
        match folder.try_exists()? {
            true => rename_durably(folder, &to),
            false => Ok(()),
        }
    }

    /// Keys of the objects right under a prefix, sorted.
    pub(crate) fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        let mut keys = Vec::new();
        for entry in fs::read_dir(self.path(prefix))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                keys.push(format!("{prefix}/{}", entry.file_name().to_string_lossy()));
            }
        }
        keys.sort();
        Ok(keys)
    }

    /// What the object with this key, or all objects under this prefix, take, in bytes; 0 where there is
    /// nothing.
    pub(crate) fn size(&self, prefix: &str) -> io::Result<u64> {
        size(&self.path(prefix))
    }

    /// Whether there is an object with this key.
    pub(crate) fn exists(&self, key: &str) -> bool {
        self.path(key).exists()
    }

    /// A file of this machine with the content of an object, for programs that read files.
    pub(crate) fn local_file(&self, key: &str) -> PathBuf {
        self.path(key)
    }

    /// Opens an object to be read.
    pub(crate) fn open_object(&self, key: &str) -> io::Result<fs::File> {
        fs::File::open(self.path(key))
    }

    /// A whole object.
    pub(crate) fn read(&self, key: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(key))
    }

    /// Removes the object with this key, or all objects under this prefix. Nothing there is fine.
    pub(crate) fn remove(&self, prefix: &str) -> io::Result<()> {
        let path = self.path(prefix);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Free space for new objects, in bytes.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(&self.root)?;
        Ok(disk.f_bavail * disk.f_frsize)
    }

    /// Size and time of the object with this key, or of all objects under this prefix; empty where there is
    /// nothing.
    ///
    /// # Errors
    ///
    /// Not found, when one is removed at this moment.
    pub(crate) fn stats(&self, prefix: &str) -> io::Result<Stats> {
        let mut all = Stats::new();
        match fs::symlink_metadata(self.path(prefix)) {
            Ok(found) if found.is_dir() => self.add_stats(prefix, &mut all)?,
            Ok(found) => drop(all.insert(prefix.to_owned(), Stat::of(&found)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(all)
    }

    fn add_stats(&self, prefix: &str, all: &mut Stats) -> io::Result<()> {
        for entry in fs::read_dir(self.path(prefix))? {
            let entry = entry?;
            let key = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            let found = entry.metadata()?;
            if found.is_dir() {
                self.add_stats(&key, all)?;
            } else {
                all.insert(key, Stat::of(&found)?);
            }
        }
        Ok(())
    }

    /// Copies an object into another store, without its bytes where the file system can, and with its time;
    /// its size. Not durable until the file system is told to be.
    pub(crate) fn copy_to(&self, key: &str, other: &Self) -> io::Result<u64> {
        let mut from = fs::File::open(self.path(key))?;
        let partial = Partial(other.partial.join(key.replace('/', "-")));
        let mut to = fs::File::create(&partial.0)?;
        if rustix::fs::ioctl_ficlone(&to, &from).is_err() {
            io::copy(&mut from, &mut to)?;
        }
        let found = from.metadata()?;
        to.set_modified(found.modified()?)?;
        move_to(&partial.0, &other.path(key))?;
        Ok(found.len())
    }

    /// Moves all objects under a prefix into another store of the same file system, which has none there.
    pub(crate) fn give(&self, prefix: &str, other: &Self) -> io::Result<()> {
        move_to(&self.path(prefix), &other.path(prefix))
    }

    /// Puts an object into a job directory: a copy, for a worker may write there, and what is
    /// stored must stay what it is.
    pub(crate) fn place(&self, key: &str, to: &Path) -> io::Result<()> {
        fs::copy(self.path(key), to).map(drop)
    }
}

fn size(path: &Path) -> io::Result<u64> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum(),
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// A file that is removed when it was not renamed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone already when all went well.
        let _ = fs::remove_file(&self.0);
    }
}

fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    move_to(from, to)?;
    fs::File::open(to.parent().expect("an object lies in a folder"))?.sync_all()
}

fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().expect("an object lies in a folder"))?;
    fs::rename(from, to)
}

/// Sizes and times of objects, by their keys.
pub(crate) type Stats = BTreeMap<String, Stat>;

/// By what a copy of an object is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    modified: SystemTime,
}

impl Stat {
    fn of(found: &fs::Metadata) -> io::Result<Self> {
        Ok(Self { size: found.len(), modified: found.modified()? })
    }
}
