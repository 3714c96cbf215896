//! A file that a job writes, while it runs and after.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};

use crate::app::App;
use crate::objects::{Key, Objects};
use crate::runner::left::{self, COLLECTED};

/// A file of a job's results.
pub(crate) enum Output {
    /// Of a job whose command may be writing: this very file, whatever has its name by now.
    Open(File),
    Stored(Key),
}

impl Output {
    /// In the folder of its job while that runs, for a moment among what is collected, among its
    /// objects after; none when it has not been written.
    pub(crate) fn of(app: &App, job: &str, name: &str) -> io::Result<Option<Self>> {
        let folder = app.task_folder(job);
        let mut open = left::open_file(&folder, &["output", name])?;
        if open.is_none() {
            open = left::open_below(&folder, &[COLLECTED, name])?;
        }
        let key = Key::task(job).under(name);
        if let Some(open) = open {
            return Ok(Some(Self::Open(open)));
        }
        Ok(app.objects.exists(&key)?.then_some(Self::Stored(key)))
    }

    /// The file, to be read.
    pub(crate) fn open(self, objects: &Objects) -> io::Result<File> {
        match self {
            Self::Open(file) => Ok(file),
            Self::Stored(key) => File::open(objects.local(&key)?.path()),
        }
    }

    /// What `read` makes of it, for what reads files by their paths.
    pub(crate) fn read<T>(
        &self,
        objects: &Objects,
        read: impl FnOnce(&Path) -> T,
    ) -> io::Result<T> {
        match self {
            Self::Open(file) => Ok(read(&path_of(file))),
            Self::Stored(key) => Ok(read(objects.local(key)?.path())),
        }
    }

    /// Puts it somewhere else, where it stays when its job ends.
    pub(crate) fn place(&self, objects: &Objects, to: &Path) -> io::Result<()> {
        left::discard(to)?;
        match self {
            Self::Open(file) => {
                let from = path_of(file);
                let linked = linkat(CWD, &from, CWD, to, AtFlags::SYMLINK_FOLLOW);
                linked.map_err(io::Error::from).or_else(|_| fs::copy(&from, to).map(drop))
            }
            Self::Stored(key) => objects.lend(key, to),
        }
    }
}

fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
