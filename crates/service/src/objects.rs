//! The object store: contents by key, on the local disk. Nothing else touches them.
//!
//! An object is written beside its place, made durable and renamed: it is there whole or not at
//! all. Keys are paths of our own making: `files/<a name for each upload>`, `tasks/<id>/<name>`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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

    /// Puts an object into a job directory: a copy, for a worker may write there, and what is
    /// stored must stay what it is.
    pub(crate) fn place(&self, key: &str, to: &Path) -> io::Result<()> {
        fs::copy(self.path(key), to).map(drop)
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
    let folder = to.parent().expect("an object lies in a folder");
    fs::create_dir_all(folder)?;
    fs::rename(from, to)?;
    fs::File::open(folder)?.sync_all()
}
