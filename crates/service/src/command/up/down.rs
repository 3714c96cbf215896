//! Ending the service that `molboxd up` has started, and removing what it has made.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::command::options::Options;
use crate::command::say::{say, say_error};
use crate::command::serve::Addresses;
use crate::config::{Config, Engine};
use crate::exec;
use crate::folder::is_served;

use super::place::{Folders, Remembered, shown};
use super::profile::Profiles;

/// How long a service may take to end, besides the time for which it still takes requests.
const END: Duration = Duration::from_secs(30);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(20);
/// Status of a command that asks for a service and finds none, as `systemctl status` has it.
const NOT_RUNNING: u8 = 3;

/// Shows where the service runs.
pub(crate) fn status(options: &Options) -> Result<u8> {
    let folders = Folders::find(options)?;
    match running(&folders.data)? {
        Some(found) => {
            say(&format!("molbox runs at {} (process {})", found.base_url, found.pid));
            say(&format!("margin   {}", found.margin_base_url));
            say(&format!("data     {}", shown(&folders.data)));
            if folders.log.exists() {
                say(&format!("log      {}", shown(&folders.log)));
            }
            Ok(0)
        }
        None => {
            let (data, up) = (shown(&folders.data), folders.command("up"));
            say(&format!("no molbox runs on {data}; `{up}` starts it"));
            Ok(NOT_RUNNING)
        }
    }
}

/// The service that has the data folder.
fn running(data: &Path) -> Result<Option<Addresses>> {
    if !is_served(data)? {
        return Ok(None);
    }
    let found = Addresses::announced(data)?
        .with_context(|| format!("a molboxd has {} and has not said where", data.display()))?;
    Ok(Some(found))
}

/// Ends the service, and perhaps removes all that there is of it.
pub(crate) fn down(options: &Options, purge: bool, yes: bool) -> Result<u8> {
    let folders = Folders::find(options)?;
    let config = options.config(&folders.defaults())?;
    let mut purged = None;
    if purge {
        let remembered = Remembered::read(&folders.data)?;
        check_purge(&config, &remembered)?;
        if !(yes || confirmed(&folders)?) {
            say_error("nothing was done");
            return Ok(1);
        }
        purged = Some(remembered);
    }
    match running(&folders.data)? {
        Some(found) => {
            end(&config, &found)?;
            say(&format!("ended the service of {}", shown(&folders.data)));
        }
        None => say(&format!("no molbox runs on {}", shown(&folders.data))),
    }
    if let Some(remembered) = purged {
        remove(&config, &folders, &remembered)?;
    }
    Ok(0)
}

/// Asks a service to end, and waits until it has.
pub(super) fn end(config: &Config, found: &Addresses) -> Result<()> {
    if !holds(found.pid, &config.data.join("lock"))? {
        bail!(
            "process {} is not the one that has {}: another machine or container may serve it",
            found.pid,
            config.data.display()
        );
    }
    let pid = i32::try_from(found.pid).ok().and_then(Pid::from_raw).context("no process")?;
    kill_process(pid, Signal::TERM).context("ask the service to end")?;
    let limit = END + Duration::from_secs(config.server.drain_seconds);
    let start = Instant::now();
    while is_served(&config.data)? {
        if start.elapsed() > limit {
            bail!("process {} has not ended after {} s; see its log", found.pid, limit.as_secs());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Whether a process has a file open.
fn holds(pid: u32, file: &Path) -> Result<bool> {
    let wanted = fs::metadata(file).with_context(|| format!("look at {}", file.display()))?;
    let folder = format!("/proc/{pid}/fd");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read.with_context(|| format!("look at process {pid}"))?,
    };
    Ok(entries
        .flatten()
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino())))
}

/// Refuses to remove what `up` has not made, or cannot remove whole.
fn check_purge(config: &Config, remembered: &Remembered) -> Result<()> {
    if !remembered.is_made_here {
        bail!(
            "{} was not made by `molboxd up`, or had other files in it then: remove by hand what is \
             of molbox",
            config.data.display()
        );
    }
    let elsewhere = [
        (!config.database.url.is_empty(), "database.url"),
        (!config.objects.url.is_empty(), "objects.url"),
        (config.tasks.executor == Engine::Slurm, "tasks.executor"),
    ];
    if let Some((_, name)) = elsewhere.iter().find(|(is_set, _)| *is_set) {
        bail!(
            "{name} keeps things outside of the folder, which are not removed from here: do it by hand"
        );
    }
    Ok(())
}

fn confirmed(folders: &Folders) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody can be asked here; add --yes");
    }
    let mut out = io::stderr();
    write!(
        out,
        "Remove {} with all files and results, the profile and the log? Type yes: ",
        shown(&folders.data)
    )?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

fn remove(config: &Config, folders: &Folders, remembered: &Remembered) -> Result<()> {
    let ended = exec::kill_all(&config.tasks_root().join("tasks")).context("end what runs")?;
    if ended > 0 {
        say(&format!("ended {ended} processes of simulations"));
    }
    if let Some(name) = &remembered.profile {
        let mut profiles = Profiles::load()?;
        if profiles.remove(name) {
            profiles.save()?;
            say(&format!("removed the profile {name:?}"));
        }
    }
    let older = folders.log.with_extension("log.1");
    for log in [&folders.log, &older] {
        match fs::remove_file(log) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", log.display()));
            }
            _ => {}
        }
    }
    fs::remove_dir_all(&folders.data)
        .with_context(|| format!("remove {}", folders.data.display()))?;
    say(&format!("removed {}", shown(&folders.data)));
    Ok(())
}
