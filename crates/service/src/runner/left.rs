//! What a task's command leaves in its `work` folder.
//!
//! The command may have been taken over by the file that it read, so all of it is a stranger's: it
//! is opened without following links and without waiting, only plain files with one name count, and
//! each has a largest size. What is anything else is left where it is, and goes with the folder.

use std::ffi::{CStr, CString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, chmodat, chownat, fstat, open, openat,
    renameat, statat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use serde_json::Value;

use crate::exec::confine::WORK;
use crate::objects::bundle::DEFLATED;
use crate::random;
use crate::runner::readme::{MANIFEST, README, RO_CRATE};

pub(crate) const LOG: &str = "log.txt";
/// What a command says while it runs.
pub(super) const PROGRESS: &str = "progress.json";
/// What the bundle is made of besides what the worker wrote.
pub(crate) const OURS: [&str; 4] = [MANIFEST, LOG, README, RO_CRATE];
/// A folder of a system's task, and of its objects when it has ended: the files that it was built
/// from.
pub(crate) const INPUT: &str = "input";
/// What a simulation resumes from: a folder of its command's, and of its objects when it has ended.
pub(crate) const COMMIT: &str = "commit";
/// A folder of the task's folder: what its command has left that becomes objects.
pub(crate) const COLLECTED: &str = "collected";
/// Most bytes of a file of JSON.
pub(super) const MAX_JSON: u64 = 4 << 20;
/// Most bytes of what a command says while it runs, which is read again and again.
const MAX_PROGRESS: u64 = 256 << 10;
/// A file that takes up less of the disk than one part in so many of its length has holes. File
/// systems that compress reach 256 at most.
const HOLES: u64 = 300;
/// Most files of a folder that are kept. A simulation of a hundred stages writes some hundred.
const MAX_FILES: usize = 2000;
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const PLAIN_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Where the command of a task works: its folder `work`. Without one, the task was begun by a
/// version that had its command work beside what the service keeps.
fn work(task: &Path) -> PathBuf {
    let work = task.join(WORK);
    if is_there(&work) { work } else { task.to_owned() }
}

/// Whether there is anything with this name, also a link to nowhere.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Opens a file below a folder of a task; none when there is nothing, or something that is no plain
/// file.
fn open_in(task: &Path, folder: &Path, path: &[&str]) -> io::Result<Option<File>> {
    let (name, folders) = path.split_last().expect("a path has a last step");
    let Some(folder) = open_folder(folder, folders)? else { return Ok(None) };
    match openat(&folder, *name, PLAIN_FILE, Mode::empty()) {
        Ok(opened) => Ok(is_plain(tasks_of(task), || fstat(&opened))?.then(|| opened.into())),
        // Nothing; a link; a socket; a file that its writer leases, or has shut to us.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::AGAIN | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file that the command of a task has left, `output/x` for example.
pub(crate) fn open_file(task: &Path, path: &[&str]) -> io::Result<Option<File>> {
    open_in(task, &work(task), path)
}

/// Opens a file of the folder of a task, `log.txt` for example.
pub(crate) fn open_below(task: &Path, path: &[&str]) -> io::Result<Option<File>> {
    open_in(task, task, path)
}

/// Whether something is a file with one name; those do not count that the service has given it in
/// the input of other tasks, which analyse a job while it runs.
fn is_plain(tasks: &Path, look: impl Fn() -> Result<Stat, Errno>) -> io::Result<bool> {
    let mut found = look()?;
    loop {
        if !FileType::from_raw_mode(found.st_mode).is_file() {
            return Ok(false);
        }
        let names = if found.st_nlink > 1 { names_in_inputs(tasks, &found)? } else { 0 };
        let before = found.st_nlink;
        found = look()?;
        let are_ours = usize::try_from(found.st_nlink).is_ok_and(|all| all <= 1 + names);
        // A task may have ended or begun meanwhile.
        if are_ours || found.st_nlink == before {
            return Ok(are_ours);
        }
    }
}

fn names_in_inputs(tasks: &Path, file: &Stat) -> io::Result<usize> {
    let mut count = 0;
    for task in fs::read_dir(tasks)? {
        // Without input, or gone.
        let Ok(inputs) = fs::read_dir(task?.path().join("input")) else { continue };
        let is_it = |found: fs::Metadata| (found.dev(), found.ino()) == (file.st_dev, file.st_ino);
        count += inputs.flatten().filter(|entry| entry.metadata().is_ok_and(is_it)).count();
    }
    Ok(count)
}

/// The folder of all tasks.
fn tasks_of(task: &Path) -> &Path {
    task.parent().unwrap_or(task)
}

fn open_folder(folder: &Path, steps: &[&str]) -> io::Result<Option<OwnedFd>> {
    let mut folder = match open(folder, FOLDER, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for step in steps {
        folder = match openat(&folder, *step, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(folder))
}

/// A file of JSON; none when there is none, or it is not whole because its writer died, or too
/// large.
pub(crate) fn read_json(task: &Path, path: &[&str]) -> io::Result<Option<Value>> {
    open_file(task, path)?.map_or(Ok(None), |file| json_of(file, MAX_JSON))
}

/// What a command says while it runs.
pub(super) fn read_progress(task: &Path) -> io::Result<Option<Value>> {
    open_file(task, &[PROGRESS])?.map_or(Ok(None), |file| json_of(file, MAX_PROGRESS))
}

/// The same of a file of the folder of a task.
pub(crate) fn read_json_below(task: &Path, path: &[&str]) -> io::Result<Option<Value>> {
    open_below(task, path)?.map_or(Ok(None), |file| json_of(file, MAX_JSON))
}

fn json_of(file: File, most: u64) -> io::Result<Option<Value>> {
    let mut text = Vec::new();
    file.take(most + 1).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok().filter(|_| text.len() as u64 <= most))
}

/// When something was last changed, whatever it is; none when it is not there.
pub(crate) fn modified(task: &Path, path: &[&str]) -> Option<SystemTime> {
    let (name, folders) = path.split_last()?;
    let folder = open_folder(&work(task), folders).ok()??;
    let found = statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let since = std::time::Duration::new(
        found.st_mtime.try_into().ok()?,
        found.st_mtime_nsec.try_into().ok()?,
    );
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// What may still be taken of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
}

/// Moves the plain files of a folder into another, which is made if there is anything to move, and
/// returns the names of what stays behind, some of them. Doing it again moves what is left.
pub(crate) fn take(
    task: &Path,
    from: &[&str],
    to: &Path,
    room: &mut Room,
) -> io::Result<Vec<String>> {
    let Some(folder) = open_folder(&work(task), from)? else { return Ok(Vec::new()) };
    let n_taken = if is_there(to) { fs::read_dir(to)?.count() } else { 0 };
    let (names, stays) = results(task, &folder, n_taken, room)?;
    // Made for the first file: an empty one would pass for results, where these have been collected
    // before.
    if !names.is_empty() {
        fs::create_dir_all(to)?;
        let target = openat(CWD, to, FOLDER, Mode::empty())?;
        for name in names {
            renameat(&folder, &name, &target, &name)?;
            own(&target, &name)?;
        }
    }
    Ok(stays)
}

/// Opens each of the files of a folder that would be taken, one after the other.
pub(crate) fn open_all(
    task: &Path,
    from: &str,
    room: &mut Room,
    mut each: impl FnMut(&str, File) -> io::Result<()>,
) -> io::Result<()> {
    let Some(folder) = open_folder(&work(task), &[from])? else { return Ok(()) };
    for name in results(task, &folder, 0, room)?.0 {
        let name = name.to_str().expect("a name that may be in a bundle");
        if let Some(file) = open_file(task, &[from, name])? {
            each(name, file)?;
        }
    }
    Ok(())
}

/// The files of a folder that may become results, besides so many, and the names of what may not,
/// some of them.
fn results(
    task: &Path,
    folder: &OwnedFd,
    n_before: usize,
    room: &mut Room,
) -> io::Result<(Vec<CString>, Vec<String>)> {
    let (mut names, mut others) = (Vec::new(), Vec::new());
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_plain =
            is_plain(tasks_of(task), || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
        let size = found.st_size.unsigned_abs();
        // Written in no time, and read from end to end.
        let has_holes = size > 1 << 20 && found.st_blocks.unsigned_abs() * 512 < size / HOLES;
        if is_plain
            && !has_holes
            && is_name(name.to_bytes())
            && n_before + names.len() < MAX_FILES
            && size <= room.bytes
        {
            room.bytes -= size;
            names.push(name.to_owned());
        } else if others.len() < 10 {
            others.push(name.to_string_lossy().escape_debug().to_string());
        }
    }
    Ok((names, others))
}

/// Makes a file the service's own, which it may read whatever its writer has set.
fn own(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    if geteuid().is_root() {
        chownat(folder, name, Some(geteuid()), Some(getegid()), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    chmodat(folder, name, Mode::from_raw_mode(0o600), AtFlags::empty())?;
    Ok(())
}

/// Whether a file may have this name in a bundle, on whatever machine it is unpacked; those that
/// the service gives are its own.
fn is_name(name: &[u8]) -> bool {
    let mut ours = OURS.iter().chain(&[INPUT, COMMIT]);
    if ours.any(|ours| ours.as_bytes() == name) || name.ends_with(DEFLATED.as_bytes()) {
        return false;
    }
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    name.len() <= 120
        && name.first().is_some_and(|first| *first != b'.')
        && name.iter().all(is_safe)
}

/// Removes a folder with all that is in it, however deep it is nested: what is nested is moved up
/// first, so that neither the stack nor the number of open files nor the length of a path limits
/// it.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    loop {
        let mut nested = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                nested.push(entry.path())
            } else {
                fs::remove_file(entry.path())?
            }
        }
        if nested.is_empty() {
            return fs::remove_dir(folder);
        }
        for path in nested {
            // Its maker may have shut it.
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    // A name that nobody can have guessed, and taken.
                    let name = format!("{:016x}", u64::from_ne_bytes(random::bytes()));
                    fs::rename(entry.path(), folder.join(name))?;
                } else {
                    fs::remove_file(entry.path())?;
                }
            }
            fs::remove_dir(path)?;
        }
    }
}

/// Removes what has a name, whatever it is.
pub(crate) fn discard(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives the folder of a task that an earlier version began the form that it has now: what its
/// command had come to is moved to `work`, and of the rest only plain files of the service stay.
/// Does nothing to another; and when it is interrupted, doing it again completes it.
pub(crate) fn settle(task: &Path) -> io::Result<()> {
    const KEPT: [&str; 5] = ["lock", "attempt", "exit.json", "task.json", "log.txt"];
    const MOVED: [&str; 4] = ["output", "commit", "progress.json", "result.json"];
    if is_there(&task.join(WORK)) || !task.exists() {
        return Ok(());
    }
    // Renamed when all is in it: that it is there shows that this is done.
    let partial = task.join("work.partial");
    fs::create_dir_all(&partial)?;
    for entry in fs::read_dir(task)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if name == "work.partial" {
            continue;
        }
        let has_name = |names: &[&str]| names.iter().any(|it| name == *it);
        if has_name(&MOVED) && (kind.is_file() || kind.is_dir()) {
            fs::rename(entry.path(), partial.join(&name))?;
        } else if !has_name(&KEPT) || !kind.is_file() {
            discard(&entry.path())?;
        }
    }
    // Where an interrupted collection had put them.
    let output = partial.join("output");
    if open_folder(&output, &["commit"])?.is_some() && !is_there(&partial.join("commit")) {
        fs::rename(output.join("commit"), partial.join("commit"))?;
    }
    if open_in(task, &output, &["log.txt"])?.is_some() && !is_there(&task.join("log.txt")) {
        fs::rename(output.join("log.txt"), task.join("log.txt"))?;
    }
    fs::rename(partial, task.join(WORK))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{mkfifoat, mknodat};

    use super::*;

    fn task() -> tempfile::TempDir {
        let task = tempfile::tempdir().unwrap();
        fs::create_dir_all(task.path().join("work/output")).unwrap();
        task
    }

    #[test]
    fn what_was_taken_leaves_nothing_to_be_taken_again() {
        let task = task();
        fs::write(task.path().join("work/output/frames"), "1").unwrap();
        let taken = |to: &str| {
            take(task.path(), &["output"], &task.path().join(to), &mut Room { bytes: 10 }).unwrap();
            task.path().join(to).exists()
        };
        assert!(taken("first"));
        // A folder, though an empty one, would be results that replace those before.
        assert!(!taken("second"));
    }

    #[test]
    fn only_plain_files_with_one_name_are_read() {
        let task = task();
        let path = |name: &str| task.path().join("work").join(name);
        fs::write(task.path().join("secret"), "1").unwrap();
        fs::write(path("plain"), "1").unwrap();
        fs::write(path("two"), "1").unwrap();
        fs::hard_link(path("two"), path("names")).unwrap();
        symlink("../secret", path("link")).unwrap();
        symlink("output", path("folder")).unwrap();
        fs::write(path("output/file"), "1").unwrap();
        mkfifoat(CWD, path("pipe"), Mode::RWXU).unwrap();
        // Sockets need no rights to be made, devices do.
        mknodat(CWD, path("socket"), FileType::Socket, Mode::RWXU, 0).unwrap();
        let read = |steps: &[&str]| read_json(task.path(), steps).unwrap();
        assert_eq!(read(&["plain"]), Some(1.into()));
        for name in ["two", "names", "link", "pipe", "socket", "output", "missing"] {
            assert_eq!(read(&[name]), None, "{name}");
        }
        assert_eq!(read(&["output", "file"]), Some(1.into()));
        assert_eq!(read(&["folder", "file"]), None);
        assert_eq!(read(&["nowhere", "file"]), None);
    }

    #[test]
    fn json_that_is_too_large_counts_as_none() {
        let task = task();
        let spaces = " ".repeat(MAX_JSON as usize);
        fs::write(task.path().join("work/result.json"), format!("{spaces}1")).unwrap();
        assert_eq!(read_json(task.path(), &["result.json"]).unwrap(), None);
        fs::write(task.path().join("work/result.json"), format!("{}1", &spaces[1..])).unwrap();
        assert_eq!(read_json(task.path(), &["result.json"]).unwrap(), Some(1.into()));
    }

    #[test]
    fn what_is_taken_are_plain_files_with_plain_names() {
        let task = task();
        let output = task.path().join("work/output");
        for name in [
            "production.dcd",
            "two\nlines",
            ".hidden",
            "höhe",
            &"long".repeat(60),
            "manifest.json",
            "x.deflate",
        ] {
            fs::write(output.join(name), name).unwrap();
        }
        File::create(output.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        fs::write(output.join("too_large"), vec![1; 2 << 20]).unwrap();
        symlink("/etc", output.join("etc")).unwrap();
        fs::create_dir(output.join("folder")).unwrap();
        let to = task.path().join("collected");
        let mut room = Room { bytes: 1 << 20 };
        let mut stays = take(task.path(), &["output"], &to, &mut room).unwrap();
        stays.sort();
        let long = "long".repeat(60);
        let expected = [
            ".hidden",
            "etc",
            "folder",
            "höhe",
            &long,
            "manifest.json",
            "sparse",
            "too_large",
            "two\\nlines",
            "x.deflate",
        ];
        assert_eq!(stays, expected);
        let taken: Vec<_> =
            fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(taken, ["production.dcd"]);
        assert_eq!(take(task.path(), &["output"], &to, &mut room).unwrap().len(), 10);
    }

    #[test]
    fn no_file_is_taken_that_has_the_name_of_a_folder_of_the_service() {
        let task = task();
        for name in [INPUT, COMMIT] {
            fs::write(task.path().join("work/output").join(name), "").unwrap();
        }
        let to = task.path().join("collected");
        let mut stays = take(task.path(), &["output"], &to, &mut Room { bytes: 1 }).unwrap();
        stays.sort();
        assert_eq!(stays, [COMMIT, INPUT]);
    }

    #[test]
    fn more_files_than_a_task_can_need_stay_behind() {
        let task = task();
        for number in 0..MAX_FILES + 3 {
            fs::write(task.path().join(format!("work/output/{number}")), "").unwrap();
        }
        let to = task.path().join("collected");
        let mut room = Room { bytes: 1 << 20 };
        assert_eq!(take(task.path(), &["output"], &to, &mut room).unwrap().len(), 3);
        assert_eq!(fs::read_dir(&to).unwrap().count(), MAX_FILES);
    }

    #[test]
    fn folders_are_removed_however_deep_they_are() {
        let task = task();
        let work = task.path().join("work");
        let mut folder = open(&work, FOLDER, Mode::empty()).unwrap();
        for _ in 0..5000 {
            rustix::fs::mkdirat(&folder, "deep", Mode::RWXU).unwrap();
            folder = openat(&folder, "deep", FOLDER, Mode::empty()).unwrap();
        }
        symlink("/etc", work.join("link")).unwrap();
        drop(folder);
        remove(&work).unwrap();
        assert!(!work.exists());
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn a_file_that_its_writer_has_shut_is_taken_open() {
        let task = task();
        let path = task.path().join("work/output/shut");
        fs::write(&path, "1").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        let to = task.path().join("collected");
        take(task.path(), &["output"], &to, &mut Room { bytes: 1 }).unwrap();
        assert_eq!(fs::read(to.join("shut")).unwrap(), b"1");
    }

    #[test]
    fn the_folder_of_an_earlier_version_gives_up_its_progress_and_none_of_its_links() {
        let task = tempfile::tempdir().unwrap();
        let at = |name: &str| task.path().join(name);
        // As an attempt left it that was being collected.
        fs::create_dir_all(at("output/commit")).unwrap();
        fs::write(at("output/commit/commit.json"), r#"{"number": 3}"#).unwrap();
        fs::write(at("output/production.dcd"), "frames").unwrap();
        fs::write(at("lock"), "").unwrap();
        symlink("/etc/passwd", at("log.txt")).unwrap();
        symlink("/etc", at("input")).unwrap();
        fs::create_dir(at("ligand")).unwrap();
        assert!(
            open_file(task.path(), &["output", "production.dcd"]).unwrap().is_some(),
            "before it is settled"
        );
        for _ in 0..2 {
            settle(task.path()).unwrap();
            assert_eq!(
                read_json(task.path(), &["commit", "commit.json"]).unwrap().unwrap()["number"],
                3
            );
            assert_eq!(fs::read(at("work/output/production.dcd")).unwrap(), b"frames");
            let mut names: Vec<_> =
                fs::read_dir(task.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["lock", "work"]);
        }
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn a_trajectory_that_others_analyse_is_taken() {
        let tasks = tempfile::tempdir().unwrap();
        let at = |name: &str| tasks.path().join(name);
        fs::create_dir_all(at("job/work/output")).unwrap();
        for analysis in ["one", "other"] {
            fs::create_dir_all(at(analysis).join("input")).unwrap();
        }
        let from = at("job/work/output/production.dcd");
        fs::write(&from, "frames").unwrap();
        fs::hard_link(&from, at("one/input/production.dcd")).unwrap();
        fs::hard_link(&from, at("other/input/production.dcd")).unwrap();
        fs::write(at("secret"), "").unwrap();
        fs::hard_link(at("secret"), at("job/work/output/secret")).unwrap();
        let stays =
            take(&at("job"), &["output"], &at("job/collected"), &mut Room { bytes: 100 }).unwrap();
        assert_eq!(stays, ["secret"]);
        assert_eq!(fs::read(at("job/collected/production.dcd")).unwrap(), b"frames");
    }
}
