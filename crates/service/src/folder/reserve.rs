//! Room for the moment when the disk is full: a file that is given back, so that what makes room
//! can be done. To delete something takes a write to the database, and to start takes a few small
//! files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::files;
use crate::folder::failure::is_full;
use crate::random;

/// The most that a batch of deletions writes, many times over.
const BYTES: usize = 4 << 20;

/// The room of a data folder, which all processes that use the folder share.
#[derive(Clone, Debug)]
pub(crate) struct Reserve(PathBuf);

impl Reserve {
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join("reserve"))
    }

    /// Does what has to be possible on a full disk: once more when there was room to be given back.
    pub(crate) fn with<T>(&self, action: impl Fn() -> Result<T>) -> Result<T> {
        match action() {
            Err(error) if is_full(&error) && self.release() => action(),
            done => done,
        }
    }

    /// Gives the room back; whether there was any.
    pub(crate) fn release(&self) -> bool {
        let is_released = fs::remove_file(&self.0).is_ok();
        if is_released {
            tracing::warn!("the disk is full: gave back the room that is kept for this");
        }
        is_released
    }

    /// Keeps room, if none is kept. While there is too little the file is not there; the next
    /// call tries again.
    pub(crate) fn keep(&self) {
        if fs::metadata(&self.0).is_ok_and(|found| found.len() >= BYTES as u64) {
            return;
        }
        let folder = self.0.parent().unwrap_or(&self.0);
        self.keep_of(files::free_bytes(folder).unwrap_or_default());
    }

    /// The same where so much is free.
    fn keep_of(&self, free: u64) {
        // What was given back is there for who asked for it: taken again at once, even for the
        // moment until the disk is full, it would be missing for the write that it was meant for.
        if free < 2 * BYTES as u64 {
            return;
        }
        if self.write().is_err() {
            // Part of it would be no room, and would be taken for it.
            let _ = fs::remove_file(&self.0);
        }
    }

    fn write(&self) -> io::Result<()> {
        // File systems that compress, or that leave out zeros, would keep no room for anything
        // else.
        let mut bytes = vec![0; BYTES];
        random::fill(&mut bytes);
        fs::write(&self.0, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept_where_as_much_is_left_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::of(folder.path());
        reserve.keep_of(2 * BYTES as u64 - 1);
        assert!(!reserve.release());
        reserve.keep_of(2 * BYTES as u64);
        assert!(reserve.release());
    }
}
