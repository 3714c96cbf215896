//! Objects on the local disk: a file for each, below `objects` of the data folder. A folder of them is
//! adopted by one rename.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result};
use axum::body::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::object::{Key, ReceiveError, Stat, Stats};
use crate::files::{self, Partial};

/// Objects below a folder.
pub(super) struct Store {
    root: PathBuf,
    /// Where objects are written before they are renamed; on the same file system.
    partial: PathBuf,
    /// So many were begun: two that are written at the same time have different names.
    begun: AtomicU64,
}

impl Store {
    /// Opens the store in a folder.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let objects = Self::at(folder);
        for path in [&objects.root, &objects.partial] {
            fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
        }
        Ok(objects)
    }

    /// The store in a folder, to be read.
    pub(super) fn at(folder: &Path) -> Self {
        Self {
            root: folder.join("objects"),
            partial: folder.join("partial"),
            begun: AtomicU64::new(0),
        }
    }

    /// Removes what a service that was killed left unfinished, and nothing else: where the folder is a
    /// link, something else's things may be in it.
    pub(super) fn clear_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.partial)? {
            let entry = entry?;
            if !is_unfinished(&entry.file_name()) {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    fn path(&self, key: &Key) -> PathBuf {
        debug_assert!(
            !key.as_str().split('/').any(|step| step.is_empty() || step == ".."),
            "{key}"
        );
        self.root.join(key.as_str())
    }

    /// A file to be written, which becomes this object when it is put.
    fn begin(&self, key: &Key) -> io::Result<Partial> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{}.{number}", key.as_str().replace('/', "-"), std::process::id());
        Partial::create(self.partial.join(name))
    }

    /// Leaves what a service leaves that is killed before what it writes is put into its place.
    #[cfg(test)]
    pub(super) fn abandon(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        let mut partial = self.begin(key)?;
        partial.file.write_all(content)?;
        std::mem::forget(partial);
        Ok(())
    }

    /// Writes an object as its bytes come; constant memory.
    pub(super) async fn receive<E>(
        &self,
        key: &Key,
        max_bytes: u64,
        mut content: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<u64, ReceiveError<E>> {
        let partial = self.begin(key).map_err(ReceiveError::Store)?;
        let mut file =
            tokio::fs::File::from_std(partial.file.try_clone().map_err(ReceiveError::Store)?);
        let mut size = 0;
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(ReceiveError::Content)?;
            size += chunk.len() as u64;
            if size > max_bytes {
                return Err(ReceiveError::TooLarge);
            }
            file.write_all(&chunk).await.map_err(ReceiveError::Store)?;
        }
        file.flush().await.map_err(ReceiveError::Store)?;
        let to = self.path(key);
        let put = tokio::task::spawn_blocking(move || partial.put(&to)).await;
        put.expect("renaming does not panic").map_err(ReceiveError::Store)?;
        Ok(size)
    }

    /// Writes an object that is at hand.
    pub(super) fn write(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        self.write_with(key, |out| out.write_all(content))
    }

    /// Writes an object from what `content` writes.
    pub(super) fn write_with(
        &self,
        key: &Key,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut partial = self.begin(key)?;
        content(&mut partial.file)?;
        partial.put(&self.path(key))
    }

    /// Makes the files of a folder objects under a key, all of them at once, where there is
    /// nothing. Doing it again does nothing.
    pub(super) fn adopt(&self, folder: &Path, key: &Key) -> io::Result<()> {
        if !folder.try_exists()? {
            return Ok(());
        }
        match files::rename(folder, &self.path(key)) {
            // Tasks may work in a folder that nodes share.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                self.adopt_from_elsewhere(folder, key)
            }
            renamed => renamed,
        }
    }

    /// The same of a folder of another file system: what is renamed is a copy.
    fn adopt_from_elsewhere(&self, folder: &Path, key: &Key) -> io::Result<()> {
        let count = self.begun.fetch_add(1, Ordering::Relaxed);
        let copy = self.partial.join(format!("adopted-{count}"));
        let adopted =
            copy_durably(folder, &copy).and_then(|()| files::rename(&copy, &self.path(key)));
        if adopted.is_err() {
            fs::remove_dir_all(&copy)?;
        }
        adopted?;
        fs::remove_dir_all(folder)
    }

    /// Keys of the objects right under a key, sorted.
    pub(super) fn list(&self, key: &Key) -> io::Result<Vec<Key>> {
        let mut keys = Vec::new();
        for entry in fs::read_dir(self.path(key))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                keys.push(key.under(&entry.file_name().to_string_lossy()));
            }
        }
        keys.sort();
        Ok(keys)
    }

    /// Every object of a file, and the key of every task's, sorted.
    pub(super) fn all(&self) -> io::Result<Vec<Key>> {
        let mut all = Vec::new();
        for room in ["files", "tasks"].map(Key::stored) {
            let entries = match fs::read_dir(self.path(&room)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                all.push(room.under(&entry?.file_name().to_string_lossy()));
            }
        }
        all.sort();
        Ok(all)
    }

    /// What the objects with or under this key take, in bytes; 0 where there is nothing.
    pub(super) fn size(&self, key: &Key) -> io::Result<u64> {
        size(&self.path(key))
    }

    /// Whether there is an object with or under this key.
    pub(super) fn exists(&self, key: &Key) -> io::Result<bool> {
        self.path(key).try_exists()
    }

    /// A whole object.
    pub(super) fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        fs::read(self.path(key))
    }

    /// A part of an object, as far as there is one.
    pub(super) fn read_part(&self, key: &Key, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(key))?;
        file.seek(SeekFrom::Start(range.start))?;
        let mut part = Vec::new();
        file.take(range.end.saturating_sub(range.start)).read_to_end(&mut part)?;
        Ok(part)
    }

    /// Hands a whole object to `sink`, a chunk at a time; its size.
    pub(super) fn read_to(&self, key: &Key, sink: &mut dyn Write) -> io::Result<u64> {
        let mut file = File::open(self.path(key))?;
        let mut chunk = vec![0; files::CHUNK_BYTES];
        let mut size = 0;
        loop {
            let n = file.read(&mut chunk)?;
            if n == 0 {
                return Ok(size);
            }
            size += n as u64;
            sink.write_all(&chunk[..n])?;
        }
    }

    /// The bytes of an object from `range.start` up to `range.end`; constant memory. An error when
    /// it ends before.
    pub(super) fn stream(
        &self,
        key: &Key,
        range: Range<u64>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        let path = self.path(key);
        let opened = async move {
            let mut file = tokio::fs::File::from_std(File::open(path)?);
            file.seek(SeekFrom::Start(range.start)).await?;
            io::Result::Ok(files::chunks(file, range.end.saturating_sub(range.start)))
        };
        futures::stream::once(opened).try_flatten()
    }

    /// An object as a file, for what reads files.
    pub(super) fn local(&self, key: &Key) -> io::Result<PathBuf> {
        let path = self.path(key);
        fs::metadata(&path)?;
        Ok(path)
    }

    /// Puts an object into a task's folder: a copy, for a worker may write there, and what is
    /// stored must stay what it is.
    pub(super) fn fetch(&self, key: &Key, to: &Path) -> io::Result<()> {
        fs::copy(self.path(key), to).map(drop)
    }

    /// Removes the objects with or under this key. Nothing there is fine.
    pub(super) fn remove(&self, key: &Key) -> io::Result<()> {
        let path = self.path(key);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        self.root.display().to_string()
    }

    /// Free space for new objects, in bytes.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        files::free_bytes(&self.root)
    }

    /// Size of their disk.
    pub(super) fn disk_bytes(&self) -> io::Result<u64> {
        files::disk_bytes(&self.root)
    }

    /// Size and time of the objects with or under this key; empty where there is nothing.
    ///
    /// # Errors
    ///
    /// Not found, when one is removed at this moment.
    pub(super) fn stats(&self, key: &Key) -> io::Result<Stats> {
        let mut all = Stats::new();
        match fs::symlink_metadata(self.path(key)) {
            Ok(found) if found.is_dir() => self.add_stats(key, &mut all)?,
            Ok(found) => drop(all.insert(key.clone(), Stat::of(&found)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(all)
    }

    fn add_stats(&self, key: &Key, all: &mut Stats) -> io::Result<()> {
        for entry in fs::read_dir(self.path(key))? {
            let entry = entry?;
            let key = key.under(&entry.file_name().to_string_lossy());
            let found = entry.metadata()?;
            if found.is_dir() {
                self.add_stats(&key, all)?;
            } else {
                all.insert(key, Stat::of(&found)?);
            }
        }
        Ok(())
    }

    /// Copies an object into another store, without its bytes where the file system can, and with
    /// its time; its size. Not durable until the file system is told to be.
    pub(super) fn copy_to(&self, key: &Key, other: &Self) -> io::Result<u64> {
        let mut from = File::open(self.path(key))?;
        let mut partial = other.begin(key)?;
        if rustix::fs::ioctl_ficlone(&partial.file, &from).is_err() {
            io::copy(&mut from, &mut partial.file)?;
        }
        let found = from.metadata()?;
        partial.file.set_modified(found.modified()?)?;
        partial.put_later(&other.path(key))?;
        Ok(found.len())
    }

    /// Writes an object that was changed last at this time; its size. Not durable until the file
    /// system is told to be.
    pub(super) fn write_later(
        &self,
        key: &Key,
        modified: SystemTime,
        content: impl FnOnce(&mut dyn Write) -> io::Result<u64>,
    ) -> io::Result<u64> {
        let mut partial = self.begin(key)?;
        let size = content(&mut partial.file)?;
        partial.file.set_modified(modified)?;
        partial.put_later(&self.path(key))?;
        Ok(size)
    }

    /// Moves all objects under a key into another store of the same file system, which has none
    /// there.
    pub(super) fn give(&self, key: &Key, other: &Self) -> io::Result<()> {
        let to = other.path(key);
        fs::create_dir_all(to.parent().expect("a key has more than one step"))?;
        fs::rename(self.path(key), to)
    }
}

fn copy_durably(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let path = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_durably(&entry.path(), &path)?;
        } else {
            fs::copy(entry.path(), &path)?;
            File::open(&path)?.sync_all()?;
        }
    }
    File::open(to)?.sync_all()
}

fn size(path: &Path) -> io::Result<u64> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum(),
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

impl Stat {
    fn of(found: &fs::Metadata) -> io::Result<Self> {
        Ok(Self { size: found.len(), modified: found.modified()? })
    }
}

/// Whether a file is called as what is being written: by key, process and number, or as a folder that
/// is taken over.
fn is_unfinished(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u64>().is_ok());
    let mut parts = name.rsplit('.');
    name.starts_with("adopted-") || (is_number(parts.next()) && is_number(parts.next()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_folder_of_another_file_system_is_adopted_as_a_whole_and_leaves_nothing() {
        let data = tempfile::tempdir().unwrap();
        let objects = Store::open(data.path()).unwrap();
        let (folder, task) = (data.path().join("collected"), Key::task("job_1"));
        fs::create_dir_all(folder.join("commit")).unwrap();
        fs::write(folder.join("log.txt"), "log").unwrap();
        fs::write(folder.join("commit/commit.json"), "{}").unwrap();
        objects.adopt_from_elsewhere(&folder, &task).unwrap();
        assert!(!folder.exists());
        assert_eq!(objects.read(&task.under("log.txt")).unwrap(), b"log");
        assert_eq!(objects.read(&task.under("commit").under("commit.json")).unwrap(), b"{}");
        // What is there is not mixed with another, which stays where it is.
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("frames"), "").unwrap();
        objects.adopt_from_elsewhere(&folder, &task).unwrap_err();
        assert_eq!(objects.list(&task).unwrap(), [task.under("log.txt")]);
        assert!(folder.join("frames").exists());
        assert_eq!(fs::read_dir(&objects.partial).unwrap().count(), 0);
        // Of a service that was killed.
        fs::create_dir(objects.partial.join("adopted-0")).unwrap();
        objects.clear_unfinished().unwrap();
        assert_eq!(fs::read_dir(&objects.partial).unwrap().count(), 0);
    }

    #[test]
    fn what_somebody_else_keeps_where_the_folder_leads_to_stays() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), data.path().join("partial")).unwrap();
        fs::write(elsewhere.path().join("thesis.tex"), "all of it").unwrap();
        fs::create_dir(elsewhere.path().join("photos.2024")).unwrap();
        let objects = Store::open(data.path()).unwrap();
        objects.abandon(&Key::task("job_1"), b"half").unwrap();
        objects.clear_unfinished().unwrap();
        let left: BTreeSet<String> = fs::read_dir(elsewhere.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, ["photos.2024", "thesis.tex"].map(str::to_owned).into());
    }
}
