//! Files that are there whole or not at all: written beside their place, made durable, renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use axum::body::Bytes;
use futures::Stream;
use rustix::fs::{AtFlags, CWD, linkat};
use tokio::io::AsyncReadExt;

/// Most bytes of a file that are held while it is read.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// A file that is being written, and is removed unless it is put into its place.
pub(crate) struct Partial {
    path: PathBuf,
    pub(crate) file: File,
}

impl Partial {
    /// Replaces what an earlier program left there when it was killed. Nobody but the owner may
    /// read it.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }

    /// Makes it durable, and what has that name until then is no more.
    pub(crate) fn put(self, to: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        rename(&self.path, to)
    }

    /// The same without waiting for the disk: for many files, after which the file system is told
    /// once.
    pub(crate) fn put_later(self, to: &Path) -> io::Result<()> {
        make_parent(to)?;
        fs::rename(&self.path, to)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone already when all went well.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a small file. Only one process writes it at a time: what is unfinished has one name.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let mut partial = Partial::create(path.with_file_name(name))?;
    partial.file.write_all(content)?;
    partial.put(path)
}

/// Moves a durable file, or a folder of them, to its place, whose folder is made.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    make_parent(to)?;
    fs::rename(from, to)?;
    sync_parent(to)
}

fn make_parent(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("a file lies in a folder"))
}

/// Makes durable that a name is in its folder, or no longer is.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().expect("a file lies in a folder"))?.sync_all()
}

/// Gives a file another name, or copies it where it cannot have one there.
pub(crate) fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    let linked = linkat(CWD, from, CWD, to, AtFlags::empty());
    linked.map_err(io::Error::from).or_else(|_| fs::copy(from, to).map(drop))
}

/// Free space of the disk of a folder, in bytes.
pub(crate) fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail * disk.f_frsize)
}

/// Size of the disk of a folder.
pub(crate) fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_blocks * disk.f_frsize)
}

/// The next `left` bytes of a file; an error when it ends before.
pub(crate) fn chunks(
    file: tokio::fs::File,
    left: u64,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    futures::stream::try_unfold((file, left), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let n = file.read(&mut chunk).await?;
        if n == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file has become shorter",
            ));
        }
        chunk.truncate(n);
        Ok(Some((Bytes::from(chunk), (file, left - n as u64))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_what_is_abandoned_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/file.json");
        fs::create_dir(path.parent().unwrap()).unwrap();
        write(&path, b"first, which is longer").unwrap();
        let mut partial = Partial::create(folder.path().join("new/abandoned")).unwrap();
        partial.file.write_all(b"half").unwrap();
        drop(partial);
        // Of a program that was killed while it wrote.
        fs::write(
            folder.path().join("new/file.json.tmp"),
            "garbage that is longer than what replaces it",
        )
        .unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1);
    }
}
