//! Files of this machine that stand for objects elsewhere: written before they are sent, and kept a
//! while after, so that what was just written or read is not fetched again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::object::Key;
use crate::files;

/// Folders of such files.
pub(super) struct Scratch {
    /// Those that are kept.
    folder: PathBuf,
    /// Those that are being written, on the same disk.
    partial: PathBuf,
    /// Most bytes that are kept, and what is to stay free of the disk meanwhile.
    max_bytes: u64,
    free_bytes: u64,
    begun: AtomicU64,
    kept: Mutex<BTreeMap<Key, Kept>>,
    /// Grows with each use of one.
    uses: AtomicU64,
}

/// A file, which is removed when nobody has it any more.
pub(super) struct Copy(PathBuf);

struct Kept {
    version: String,
    size: u64,
    copy: Arc<Copy>,
    used: u64,
}

impl Copy {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Copy {
    fn move_to(&mut self, folder: &Path) -> io::Result<()> {
        let to = folder.join(self.0.file_name().expect("it has a name"));
        fs::rename(&self.0, &to)?;
        self.0 = to;
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What stays is cleared at the next start.
        let _ = fs::remove_file(&self.0);
    }
}

impl Scratch {
    pub(super) fn open(data: &Path, max_bytes: u64, free_bytes: u64) -> io::Result<Self> {
        let (folder, partial) = (data.join("scratch"), data.join("partial"));
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&partial)?;
        Ok(Self {
            folder,
            partial,
            max_bytes,
            free_bytes,
            begun: AtomicU64::new(0),
            kept: Mutex::default(),
            uses: AtomicU64::new(0),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes what a service that was killed has left.
    pub(super) fn clear(&self) -> io::Result<()> {
        for folder in [&self.folder, &self.partial] {
            for entry in fs::read_dir(folder)? {
                fs::remove_file(entry?.path())?;
            }
        }
        Ok(())
    }

    /// A new file, to be read and written.
    pub(super) fn begin(&self) -> io::Result<(Copy, File)> {
        let copy = Copy(self.new_path());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(copy.path())?;
        Ok((copy, file))
    }

    /// A file that is somewhere else until now.
    pub(super) fn take(&self, from: &Path) -> io::Result<Copy> {
        let copy = Copy(self.new_path());
        match fs::rename(from, copy.path()) {
            // The folders of tasks may lie on another disk.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                fs::copy(from, copy.path()).map(|_| copy)
            }
            renamed => renamed.map(|()| copy),
        }
    }

    /// Other processes on the same folder give other names.
    fn new_path(&self) -> PathBuf {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        self.partial.join(format!("{}.{number}", std::process::id()))
    }

    /// Keeps what is a version of an object, as long as there is room.
    pub(super) fn keep(&self, key: &Key, version: Option<String>, mut copy: Copy) -> Arc<Copy> {
        let size = fs::metadata(copy.path()).map_or(u64::MAX, |found| found.len());
        let is_moved = size <= self.max_bytes && copy.move_to(&self.folder).is_ok();
        let copy = Arc::new(copy);
        if let Some(version) = version
            && is_moved
        {
            let used = self.uses.fetch_add(1, Ordering::Relaxed);
            let kept = Kept { version, size, copy: copy.clone(), used };
            self.all().insert(key.clone(), kept);
            self.make_room();
        }
        copy
    }

    /// Gives up what was not used for the longest time.
    fn make_room(&self) {
        let mut all = self.all();
        let mut bytes: u64 = all.values().map(|kept| kept.size).sum();
        while bytes > self.max_bytes || self.free().is_ok_and(|free| free < self.free_bytes) {
            let oldest = all.iter().min_by_key(|(_, kept)| kept.used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            bytes -= all.remove(&key).map_or(0, |kept| kept.size);
        }
    }

    fn free(&self) -> io::Result<u64> {
        files::free_bytes(&self.folder)
    }

    /// Whether any version of an object is kept.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.all().contains_key(key)
    }

    /// The file of this version of an object, if it is kept. Another version is given up.
    pub(super) fn find(&self, key: &Key, version: &str) -> Option<Arc<Copy>> {
        let mut all = self.all();
        let kept = all.get_mut(key)?;
        if kept.version == version {
            kept.used = self.uses.fetch_add(1, Ordering::Relaxed);
            return Some(kept.copy.clone());
        }
        all.remove(key);
        None
    }

    /// Gives up what is kept of the objects with or under a key.
    pub(super) fn forget(&self, key: &Key) {
        self.all().retain(|kept, _| kept != key && !kept.is_under(key));
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(scratch: &Scratch, content: &str) -> Copy {
        let (copy, _) = scratch.begin().unwrap();
        fs::write(copy.path(), content).unwrap();
        copy
    }

    fn n_files(scratch: &Scratch) -> usize {
        [&scratch.folder, &scratch.partial].map(|it| fs::read_dir(it).unwrap().count()).iter().sum()
    }

    #[test]
    fn what_is_kept_is_the_version_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(folder.path(), 100, 0).unwrap();
        let key = Key::upload("one");
        scratch.keep(&key, Some("1".to_owned()), written(&scratch, "first"));
        let found = scratch.find(&key, "1").unwrap();
        assert_eq!(fs::read(found.path()).unwrap(), b"first");
        assert!(scratch.find(&key, "2").is_none() && !scratch.has(&key));
        assert!(found.path().exists(), "somebody reads it");
        drop(found);
        assert_eq!(n_files(&scratch), 0);
    }

    #[test]
    fn what_was_not_used_for_long_gives_way_and_nothing_too_large_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(folder.path(), 10, 0).unwrap();
        let key = |name: &str| Key::task("job_1").under(name);
        for name in ["a", "b"] {
            scratch.keep(&key(name), Some("1".to_owned()), written(&scratch, "1234"));
        }
        scratch.find(&key("a"), "1").unwrap();
        scratch.keep(&key("c"), Some("1".to_owned()), written(&scratch, "1234"));
        assert_eq!(["a", "b", "c"].map(|name| scratch.has(&key(name))), [true, false, true]);
        let large = scratch.keep(&key("d"), Some("1".to_owned()), written(&scratch, "12345678901"));
        assert!(large.path().exists() && !scratch.has(&key("d")) && scratch.has(&key("a")));
        scratch.forget(&Key::task("job_1"));
        drop(large);
        assert_eq!(n_files(&scratch), 0);
    }
}
