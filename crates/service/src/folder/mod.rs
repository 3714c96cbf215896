//! The data folder: whether what lies in it belongs together, and whether it is still the one that
//! the service was started on.

pub(crate) mod failure;
pub(crate) mod reserve;

use std::fmt;
use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::getuid;

use crate::files;
use crate::objects::{self, BUCKET, Objects};
use crate::shown::quoted;

pub(crate) const DATABASE: &str = "molbox.sqlite";
/// The same while `molboxd move` writes it.
pub(crate) const PARTIAL: &str = "molbox.sqlite.partial";
/// What is added to its name when its records have been moved elsewhere.
pub(crate) const MOVED: &str = "moved";
/// What a service keeps besides its database.
const CONTENTS: [&str; 3] = ["objects/files", "objects/tasks", "tasks"];
/// Those of these that can be in a bucket instead.
const OBJECTS: [&str; 2] = ["objects/files", "objects/tasks"];

/// Rights to the data folder and to all in it: its owner's alone.
const PRIVATE: u32 = 0o700;
/// Rights that nobody else may have to the data folder: to list it and to write there. To pass
/// through is allowed, for the users that tasks run as.
const REFUSED: u32 = 0o066;
/// Folders in it whose rights are those that tasks need.
const OF_TASKS: [&str; 3] = ["tasks", "cache", "check"];

/// How long the folder of a service that has been killed may still be locked: a process that it was
/// about to start has its files until it becomes another program. A run of random kills met one.
const RELEASE: Duration = Duration::from_secs(2);
/// How often it is tried again in that time.
const RETRY: Duration = Duration::from_millis(20);

/// Makes a data folder where there is none, and refuses one that others may read or write: in it
/// lie the files and results of all accounts, and the secret that signs links.
pub(crate) fn make(data: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(PRIVATE)
        .create(data)
        .with_context(|| format!("make {}", data.display()))?;
    let found = fs::metadata(data)?.permissions().mode() & 0o777;
    if found & REFUSED != 0 {
        bail!(
            "others may read or write {} (mode {found:03o}), which holds the data of all accounts: run `chmod 700 {}`",
            data.display(),
            quoted(&data.to_string_lossy())
        );
    }
    Ok(())
}

/// Refuses the data folder of another user, if there is one: what root writes there the service
/// could not write afterwards.
pub(crate) fn check_owner(data: &Path) -> Result<()> {
    let owner = match fs::metadata(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.uid(),
    };
    let own = getuid().as_raw();
    if owner == own {
        return Ok(());
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = user_name(&users, owner).unwrap_or_else(|| format!("#{owner}"));
    bail!(
        "{} belongs to the user {name}, as which the service runs: give the command as \
         `sudo -u {name} molboxd …`",
        data.display()
    )
}

/// The name of a user, by number, in `/etc/passwd`.
pub(crate) fn user_name(users: &str, number: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    })
}

/// Takes a folder for one process, as long as the file is open: two services on the same data would
/// both start its tasks.
pub(crate) fn lock(data: &Path) -> Result<fs::File> {
    let path = data.join("lock");
    let mut options = fs::OpenOptions::new();
    // A link would lead to a file of somebody else's.
    options.create(true).write(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(&path).with_context(|| format!("write {}", path.display()))?;
    hold(data, &path, || file.try_lock())?;
    Ok(file)
}

/// Keeps services from a folder that is only read, as long as the file is open; none where no service
/// has been. Nothing is written there: a backup may lie on a disk that is mounted to be read.
pub(crate) fn lock_to_read(data: &Path) -> Result<Option<fs::File>> {
    let path = data.join("lock");
    let file = match fs::File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("open {}", path.display()))?,
    };
    hold(data, &path, || file.try_lock_shared())?;
    Ok(Some(file))
}

fn hold(data: &Path, path: &Path, try_lock: impl Fn() -> Result<(), TryLockError>) -> Result<()> {
    let start = Instant::now();
    loop {
        match try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if start.elapsed() < RELEASE => thread::sleep(RETRY),
            Err(TryLockError::WouldBlock) => {
                bail!("another molboxd serves {}", data.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock {}", path.display()));
            }
        }
    }
}

/// Whether a service holds the lock of a data folder.
pub(crate) fn is_served(data: &Path) -> Result<bool> {
    let path = data.join("lock");
    let file = match fs::File::open(&path) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(false);
        }
        opened => opened.with_context(|| format!("open {}", path.display()))?,
    };
    Ok(matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Takes from others what an earlier version let them read of what lies right in the data folder.
pub(crate) fn tighten(data: &Path) -> Result<()> {
    for entry in fs::read_dir(data).with_context(|| format!("list {}", data.display()))? {
        let entry = entry?;
        let path = entry.path();
        let found = entry.metadata()?;
        let mode = found.permissions().mode() & 0o777;
        let is_of_tasks = OF_TASKS.iter().any(|name| entry.file_name() == *name);
        if found.is_symlink() || is_of_tasks || mode & !PRIVATE == 0 {
            continue;
        }
        let rights = fs::Permissions::from_mode(mode & PRIVATE);
        fs::set_permissions(&path, rights)
            .with_context(|| format!("take {} from others", path.display()))?;
    }
    Ok(())
}

/// What of a folder is there although no database knows of it; none in a folder that is new, or has
/// both.
pub(crate) fn stray(data: &Path) -> Option<PathBuf> {
    CONTENTS.iter().map(|name| data.join(name)).find(|folder| is_filled(folder))
}

fn is_filled(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some_and(|e| e.is_ok()))
}

/// Refuses a folder with results and without a database, as it is after a loss or when another
/// folder was meant: a new database would make it a new service, and nobody would find the results
/// again.
pub(crate) fn check_database(data: &Path) -> Result<()> {
    let database = data.join(DATABASE);
    let is_there = match fs::metadata(&database) {
        Ok(found) => found.len() > 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).with_context(|| format!("open {}", database.display())),
    };
    if is_there {
        Ok(())
    } else if data.join(PARTIAL).exists() {
        // The other database may be refused already.
        bail!(
            "{} is of a `molboxd move` that was cut off: give it again",
            data.join(PARTIAL).display()
        )
    } else if data.join(format!("{DATABASE}.{MOVED}")).exists() {
        bail!(
            "a `molboxd move` has brought the records of {} elsewhere: name the place in database.url; to begin \
             anew here, move {DATABASE}.{MOVED}, `objects` and `tasks` away",
            data.display()
        )
    } else {
        stray(data).map_or(Ok(()), |stray| refuse(data, &stray, "no database"))
    }
}

/// The refusal of a folder whose database does not know what lies beside it.
pub(crate) fn refuse(data: &Path, stray: &Path, lack: &str) -> Result<()> {
    bail!(
        "{} has contents in {} but {lack}: restore {DATABASE} with {DATABASE}-wal from a backup, or name the folder \
         that is meant; to begin anew here, move `objects` and `tasks` away",
        data.display(),
        stray.strip_prefix(data).unwrap_or(stray).display(),
    )
}

/// The name by which a database elsewhere is known to be of these contents: that of the data folder,
/// `folder`, or that of the store where they are. It is noted there and here.
///
/// # Errors
///
/// When they are not where the configuration has them.
pub(crate) fn belonging(data: &Path, store: &Objects, folder: String) -> Result<String> {
    if let Some(name) = settled(data, store, &folder)? {
        return Ok(name);
    }
    let name = store.install(&folder)?;
    tie(data, &name)?;
    Ok(name)
}

/// The same, with all that would be refused, and nothing is noted. Records of which `is_new` says that
/// they are new, for so long that no other server is about to tie them, know of nothing that is in a
/// store elsewhere.
pub(crate) fn expected(
    data: &Path,
    store: &Objects,
    folder: String,
    database: &str,
    is_new: impl FnOnce() -> Result<bool>,
) -> Result<String> {
    let name = match settled(data, store, &folder)? {
        Some(name) => name,
        None => match store.installation()? {
            Some(name) => name,
            None => {
                store.refuse_strangers()?;
                return Ok(folder);
            }
        },
    };
    if (name != folder || store.is_filled()?) && is_new()? {
        bail!(
            "{} has the contents of an installation of which {database} knows nothing: restore that from a \
             backup, or name what is meant in database.url and objects.url",
            store.place()
        );
    }
    Ok(name)
}

/// The name as far as it is settled; none of a store elsewhere that is new to the folder.
pub(crate) fn settled(data: &Path, store: &Objects, folder: &str) -> Result<Option<String>> {
    let bucket = data.join(BUCKET);
    let before = match fs::read_to_string(&bucket) {
        Ok(name) => Some(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("read {}", bucket.display())),
    };
    match (store.folder(), before) {
        (Some(_), None) => Ok(Some(folder.to_owned())),
        (Some(_), Some(_)) => Err(objects::not_here(data)),
        (None, Some(before)) => match store.installation()? {
            Some(name) if name == before => Ok(Some(name)),
            Some(_) => bail!(
                "{} has the contents of another installation than {}: name the one that is meant in objects.url",
                store.place(),
                data.display()
            ),
            None => bail!(
                "{} has not the contents of {}, nor any: name the one that is meant in objects.url",
                store.place(),
                data.display()
            ),
        },
        (None, None) => match OBJECTS.iter().map(|it| data.join(it)).find(|it| is_filled(it)) {
            None => Ok(None),
            Some(stray) => bail!(
                "there are contents in {}, and objects.url names a bucket: `molboxd move` brings them there",
                stray.display()
            ),
        },
    }
}

/// Notes that the contents of a data folder are in the store of this name.
pub(crate) fn tie(data: &Path, name: &str) -> Result<()> {
    let bucket = data.join(BUCKET);
    files::write(&bucket, name.as_bytes()).with_context(|| format!("write {}", bucket.display()))
}

/// The same for those that are in the folder itself.
pub(crate) fn untie(data: &Path) -> Result<()> {
    let bucket = data.join(BUCKET);
    match fs::remove_file(&bucket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", bucket.display()))
        }
        _ => Ok(()),
    }
}

/// File of a folder of tasks elsewhere with the name of whose they are.
const TASKS_OF: &str = "installation";
/// File of the data folder with the path of the folder of tasks that has one.
const TASKS: &str = "tasks-folder";

/// Whether a folder of tasks elsewhere is known to be that of this data folder's installation, `name`;
/// false when it is yet to be taken.
///
/// # Errors
///
/// When another is there in its place, as where it is not mounted.
pub(crate) fn has_tasks(data: &Path, tasks: &Path, name: &str) -> Result<bool> {
    let mark = tasks.join(TASKS_OF);
    let remedy = format!("; if it is the right one, write {name} into {}", mark.display());
    match fs::read_to_string(&mark) {
        Ok(found) if found.trim() == name => Ok(true),
        Ok(_) => bail!(
            "{} (tasks.folder) is that of another installation: name one of its own{remedy}",
            tasks.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let known = fs::read(data.join(TASKS)).unwrap_or_default();
            if known == tasks.as_os_str().as_encoded_bytes() {
                bail!("{} (tasks.folder) is not what it was: mount it{remedy}", tasks.display());
            }
            Ok(false)
        }
        // As that of a data folder is.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => bail!(
            "{} (tasks.folder) is in use for something else, by {}: name a folder of its own",
            tasks.display(),
            mark.display()
        ),
        Err(error) => Err(error).with_context(|| format!("read {} (tasks.folder)", mark.display())),
    }
}

/// Has a folder of tasks elsewhere be known from now on.
pub(crate) fn take_tasks(data: &Path, tasks: &Path, name: &str) -> Result<()> {
    let write = |path: PathBuf, text: &[u8]| {
        files::write(&path, text).with_context(|| format!("write {}", path.display()))
    };
    fs::create_dir_all(tasks).with_context(|| format!("make {}", tasks.display()))?;
    write(tasks.join(TASKS_OF), name.as_bytes())?;
    write(data.join(TASKS), tasks.as_os_str().as_encoded_bytes())
}

/// A folder of tasks elsewhere that is known to be this installation's. A copy of the data folder
/// knows it, too, and would end and remove what the original has there.
pub(crate) struct KnownTasks {
    /// None where servers share it.
    _lock: Option<fs::File>,
}

impl KnownTasks {
    /// Several servers may share it, which `is_shared` tells.
    ///
    /// # Errors
    ///
    /// When another service works there, and may not.
    pub(crate) fn hold(data: &Path, tasks: &Path, is_shared: bool) -> Result<Self> {
        if is_shared {
            return Ok(Self { _lock: None });
        }
        let mark = tasks.join(TASKS_OF);
        let opened = fs::File::options().write(true).open(&mark);
        let file = opened.with_context(|| format!("open {}", mark.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => bail!(
                "another molboxd works in {} (tasks.folder): the data folder {} is a copy, or there is one \
                 of it; give a copy that is to run beside the original a folder of its own",
                tasks.display(),
                data.display()
            ),
            // Not every shared file system has locks.
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, path = %mark.display(), "lock the folder of tasks");
                Ok(Self { _lock: None })
            }
        }
    }
}

/// What a service watches of its folder: the places of which everything else depends, by what they
/// were when it began.
pub(crate) struct Folder {
    places: Vec<(PathBuf, Identity)>,
    is_displaced: AtomicBool,
}

/// Device and inode: a file or folder that is moved keeps them, another in its place has others.
type Identity = (u64, u64);

/// The folder was moved, replaced or unmounted under the service.
#[derive(Clone, Debug)]
pub(crate) struct Displaced(PathBuf);

impl fmt::Display for Displaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not what it was when the service began: moved, replaced or unmounted",
            self.0.display()
        )
    }
}

impl std::error::Error for Displaced {}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Folder {
    /// Remembers a folder, with those of its files and folders that these are.
    pub(crate) fn remember(data: &Path, names: impl Iterator<Item = &'static str>) -> Result<Self> {
        let mut places = Vec::new();
        for path in std::iter::once(data.to_owned()).chain(names.map(|name| data.join(name))) {
            let identity =
                identity(&path).with_context(|| format!("look at {}", path.display()))?;
            places.push((path, identity));
        }
        Ok(Self { places, is_displaced: AtomicBool::new(false) })
    }

    /// Whether everything is in its place. What is written elsewhere would be lost to whoever looks
    /// here, so nothing is acknowledged until it is back, or the service is started anew.
    pub(crate) fn check(&self) -> Result<(), Displaced> {
        let mut places = self.places.iter();
        let displaced = places
            .find(|(path, before)| identity(path).ok() != Some(*before))
            .map(|(path, _)| Displaced(path.clone()));
        let was = self.is_displaced.swap(displaced.is_some(), Ordering::Relaxed);
        match &displaced {
            Some(displaced) if !was => {
                tracing::error!(%displaced, "nothing is acknowledged any more")
            }
            None if was => tracing::info!("the data folder is back in its place"),
            _ => {}
        }
        displaced.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_folder_that_a_killed_service_has_not_quite_left_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        // As what it was about to start: it has the lock, and the service that took it is gone.
        let mut started =
            Command::new("sleep").arg("0.3").stdin(Stdio::from(held)).spawn().unwrap();
        assert!(fs::File::open(folder.path().join("lock")).unwrap().try_lock().is_err());
        lock(folder.path()).unwrap();
        assert!(started.wait().unwrap().success());
    }
}
