//! Confining a task's command, before it reads what strangers have sent.
//!
//! `molboxd confine` limits itself and then becomes the command, so that nothing of it ever runs
//! unconfined. Each layer holds for all that the command starts, and none relies on another:
//!
//! - Landlock leaves the programs of the system to be read and the task's `work` folder and its
//!   cache to be written; other files are not there for it, nor processes and sockets outside.
//!   Links, pipes and devices cannot be made.
//! - seccomp takes away what such a command never needs: sockets, namespaces, looking into other
//!   processes, changing modes, owners and times of files, shared memory, leaving the process group.
//! - Limits bound each file, the number of processes, and memory; no core is dumped.
//! - A user of its own, where the service is root and `worker.user` is set; else no capabilities.
//! - An environment without anything that the service was started with but paths and locale.

mod calls;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use serde::{Deserialize, Serialize};

use super::attempt::FENCE;
use crate::config::{Config, Sandbox};
use crate::shown::without_folders;

/// The folder in a task's folder that its command may write.
pub(crate) const WORK: &str = "work";
/// Exit status when the machine lacks what [`Sandbox::Required`] asks for; the log has what.
pub(crate) const UNAVAILABLE: u8 = 71;
/// Exit status when the command cannot be started, as shells have it.
pub(crate) const NOT_FOUND: u8 = 127;
/// The program that the service, `run-task` and analyses are.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
/// How the line of a log begins that has what of the confinement there is.
pub(crate) const SANDBOX: &str = "sandbox: ";
/// A log and tables come on top of the trajectories that a job's results are estimated by.
const FILE_SLACK: u64 = 1 << 30;
/// What this program knows and has been tested with; an older kernel offers less.
const KNOWN: ABI = ABI::V6;
/// Programs, libraries and their settings; what there is of them is readable.
const SYSTEM: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/opt/rocm",
    "/run/opengl-driver",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/OpenCL",
    "/sys/bus",
    "/sys/class/drm",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/sys/module",
];
/// What the C library, OpenMM and drivers read of the kernel; of processes, their own alone.
const KERNEL: [&str; 12] = [
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
];
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/dri", "/dev/kfd"];
/// Variables that programs find their parts by.
const ENVIRONMENT: [&str; 17] = [
    "AMBERHOME",
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "NVIDIA_VISIBLE_DEVICES",
    "OCL_ICD_VENDORS",
    "OPENMM_PLUGIN_DIR",
    "PATH",
    "ROCM_PATH",
    "TZ",
    "VIRTUAL_ENV",
];
/// Asks an interpreter where its modules lie.
const MODULE_PATHS: &str = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]))";

/// What a command may use and do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) sandbox: Sandbox,
    /// Number of the user and the group that it runs as; none: as who starts it.
    pub(crate) user: Option<u32>,
    /// A folder that outlives the task, for what is worth keeping.
    pub(crate) cache: PathBuf,
    /// A program that workers start, where it is not one of the system.
    #[serde(default)]
    pub(crate) program: Option<PathBuf>,
    /// Most memory, in MiB; 0 for no limit.
    pub(crate) memory_mb: u64,
    /// Whether the platform may be one of a GPU.
    #[serde(default)]
    pub(crate) has_gpu: bool,
    /// Largest file that it may write, in bytes; 0 for no limit.
    pub(crate) file_bytes: u64,
    /// Most processes and threads; 0 for no limit.
    pub(crate) processes: u64,
}

impl Confinement {
    /// As the settings have it.
    pub(crate) fn new(config: &Config, cache: PathBuf, user: Option<u32>) -> io::Result<Self> {
        Ok(Self {
            sandbox: config.worker.sandbox,
            user,
            cache,
            program: Some(&config.worker.gromacs)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            memory_mb: config.worker.memory_mb,
            has_gpu: config.has_gpus(),
            file_bytes: most_bytes(config)?,
            processes: config.worker.processes,
        })
    }

    /// The command that confines itself in the folder of a task and becomes another.
    pub(crate) fn arguments(&self, folder: &Path, command: &[String]) -> Vec<OsString> {
        let json = serde_json::to_string(self).expect("plain members");
        let own =
            ["confine".into(), format!("--confinement={json}").into(), folder.into(), "--".into()];
        own.into_iter().chain(command.iter().map(OsString::from)).collect()
    }
}

/// Most bytes of all files of a task together, as their lengths have it: what its results may have,
/// or the disk if it is smaller.
pub(crate) fn most_bytes(config: &Config) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(config.tasks_root())?;
    let disk = disk.f_blocks * disk.f_frsize;
    let results = Some(config.limits.result_bytes).filter(|&bytes| bytes > 0);
    Ok(results.map_or(disk, |bytes| bytes.min(disk)).saturating_add(FILE_SLACK))
}

/// What of the confinement a machine lacks; empty when it has all.
type Missing = Vec<String>;

/// `molboxd confine`: becomes the command, confined, in the folder of a task. Returns only when
/// something kept it from that: the exit status, with the reason in the log.
pub(crate) fn confine(folder: &Path, confinement: &Confinement, command: &[String]) -> Result<u8> {
    let Some((program, arguments)) = command.split_first() else { bail!("no command to run") };
    let modules = match confinement.sandbox {
        Sandbox::Off => Ok(Vec::new()),
        _ => modules(program),
    };
    let modules = match modules {
        Ok(modules) => modules,
        Err(error) => {
            log(&format!("cannot start {program}: {error:#}"))?;
            return Ok(NOT_FOUND);
        }
    };
    match become_command(folder, confinement, (program, modules), arguments) {
        Ok(status) => Ok(status),
        Err(error) => {
            log(&format!("the task was not started: {error:#}"))?;
            Ok(UNAVAILABLE)
        }
    }
}

fn become_command(
    folder: &Path,
    confinement: &Confinement,
    (program, modules): (&str, Vec<PathBuf>),
    arguments: &[String],
) -> Result<u8> {
    let work = folder.join(WORK);
    let cache = &confinement.cache;
    fs::create_dir_all(cache).with_context(|| format!("make {}", cache.display()))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env_clear().envs(environment(&work, cache));
    limit(confinement)?;
    let mut missing = Missing::new();
    let is_off = confinement.sandbox == Sandbox::Off;
    let readable = if is_off {
        Vec::new()
    } else {
        let mut modules = modules;
        modules.extend(confinement.program.iter().flat_map(|path| parts_of(path)));
        readable(folder, modules, &mut missing)
    };
    // A user of its own is asked for by itself, sandbox or not.
    if !is_off || confinement.user.is_some() {
        missing.extend(give_up_rights(confinement, folder, &mut command)?);
    }
    if !is_off {
        missing.extend(restrict(&readable, &[&work, cache])?);
    }
    let lacks = missing.join("; without ");
    match confinement.sandbox {
        Sandbox::Off if missing.is_empty() => log(&format!("{SANDBOX}off"))?,
        Sandbox::Off => log(&format!("{SANDBOX}off; without {lacks}"))?,
        _ if missing.is_empty() => {
            log(&format!("{SANDBOX}no network, no files of other tasks, no other processes"))?
        }
        Sandbox::Auto => log(&format!("{SANDBOX}without {lacks}"))?,
        Sandbox::Required => {
            bail!("this machine lacks what worker.sandbox requires: it is without {lacks}")
        }
    }
    let error = command.exec();
    let remedy = confinement
        .user
        .map_or_else(String::new, |user| format!("; can user {user} reach and start it?"));
    log(&format!("cannot start {program}: {error}{remedy}"))?;
    Ok(NOT_FOUND)
}

/// A line of the task's log, for the command has not begun. The task's account reads it.
fn log(line: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{}", without_folders(line))
}

fn environment(work: &Path, cache: &Path) -> BTreeMap<&'static str, OsString> {
    let kept = ENVIRONMENT.iter().filter_map(|&name| Some((name, env::var_os(name)?)));
    let own = [("CUDA_CACHE_PATH", cache.into()), ("HOME", work.into()), ("TMPDIR", work.into())];
    kept.chain(own).collect()
}

/// Where programs, modules and the task's input lie.
fn readable(folder: &Path, modules: Vec<PathBuf>, missing: &mut Missing) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        SYSTEM.iter().chain(&KERNEL).map(PathBuf::from).chain(modules).collect();
    for name in [
        "LD_LIBRARY_PATH",
        "OPENMM_PLUGIN_DIR",
        "AMBERHOME",
        "CONDA_PREFIX",
        "CUDA_HOME",
        "ROCM_PATH",
    ] {
        paths.extend(
            env::var_os(name).iter().flat_map(env::split_paths).filter(|path| path.is_absolute()),
        );
    }
    let shared =
        paths.iter().find(|path| path.canonicalize().is_ok_and(|path| folder.starts_with(path)));
    missing.extend(shared.map(|path| {
        format!(
            "files of its own: {} has programs and the data of the service; move the data",
            path.display()
        )
    }));
    paths.extend(["input", "task.json", FENCE].map(|name| folder.join(name)));
    paths
}

/// Where a program lies, and its modules if it is an interpreter of Python. That is asked as
/// workers are started: isolated, so that nothing is taken from the present folder.
fn modules(program: &str) -> Result<Vec<PathBuf>> {
    if program == THIS_PROGRAM {
        return Ok(vec![THIS_PROGRAM.into()]);
    }
    let mut interpreter = Command::new(program);
    // Its standard input is the lock of the folder, for it may outlive who asks it, and what it would
    // say then is for a log that is a result by now.
    interpreter.args(["-I", "-c", MODULE_PATHS]).stdin(Stdio::inherit()).stderr(Stdio::inherit());
    let answer = interpreter.output().map_err(|error| anyhow!("{error}; set worker.python"))?;
    if !answer.status.success() {
        bail!("{}; set worker.python to an interpreter", answer.status);
    }
    let listed: Vec<PathBuf> =
        serde_json::from_slice(&answer.stdout).context("where Python's modules lie")?;
    let mut paths: Vec<PathBuf> = listed.into_iter().filter(|path| path.is_absolute()).collect();
    // A virtual environment's interpreter is a link to another's.
    let search = env::var_os("PATH").unwrap_or_default();
    let programs =
        env::split_paths(&search).map(|folder| folder.join(program)).chain([program.into()]);
    paths.extend(programs.filter_map(|path| path.canonicalize().ok()).take(1));
    Ok(paths)
}

/// Where a program and what comes with it lie: its folder, and the libraries and data beside that.
fn parts_of(program: &Path) -> Vec<PathBuf> {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let mut parts = Vec::new();
    for path in [program, &real] {
        let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) else { continue };
        parts.push(folder.to_owned());
        if let Some(prefix) = folder.parent().filter(|_| folder.ends_with("bin")) {
            parts.extend(["lib", "lib64", "share"].map(|part| prefix.join(part)));
        }
    }
    parts
}

fn limit(confinement: &Confinement) -> Result<()> {
    // CUDA reserves 27 GB of addresses of which it writes to one (seen on an H200), and does not start
    // where it cannot. What can be written to leaves out memory that processes share.
    let memory = if confinement.has_gpu { Resource::Data } else { Resource::As };
    let limits = [
        (Resource::Core, Some(0), "core dumps"),
        (memory, Some(confinement.memory_mb << 20).filter(|&bytes| bytes > 0), "memory"),
        (Resource::Fsize, Some(confinement.file_bytes).filter(|&bytes| bytes > 0), "files"),
        (Resource::Nproc, Some(confinement.processes).filter(|&count| count > 0), "processes"),
    ];
    for (resource, most, what) in limits {
        let Some(most) = most else { continue };
        // A container, or who started the service, may have set a lower one, which few may raise.
        let most = getrlimit(resource).maximum.map_or(most, |lower| lower.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .with_context(|| format!("limit {what}"))?;
    }
    Ok(())
}

/// Has the command run as another user, or at least without the rights of root.
fn give_up_rights(
    confinement: &Confinement,
    folder: &Path,
    command: &mut Command,
) -> Result<Option<String>> {
    let is_root = geteuid().is_root();
    let Some(user) = confinement.user else {
        if is_root {
            let none = CapabilitySet::empty();
            set_capabilities(
                None,
                CapabilitySets { effective: none, permitted: none, inheritable: none },
            )
            .context("give up the rights of root")?;
        }
        return Ok(None);
    };
    if !is_root {
        return Ok(Some(
            "a user of its own: worker.user needs a service that is started as root".to_owned(),
        ));
    }
    if let Some(data) = folder.ancestors().nth(2) {
        let_through(data).with_context(|| format!("let tasks through {}", data.display()))?;
    }
    open_to(folder, user)?;
    hand_over(&folder.join(WORK), user)?;
    hand_over(&confinement.cache, user)?;
    command.uid(user).gid(user);
    Ok(None)
}

/// Lets users pass through the data folder to those of tasks, and shuts everything else in it: it
/// may have been the folder itself that kept others out.
fn let_through(data: &Path) -> io::Result<()> {
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let is_passed = ["tasks", "check", "cache"].iter().any(|name| entry.file_name() == *name);
        match set_mode(&entry.path(), if is_passed { passed } else { shut }) {
            // Another task of the service was just starting, or a file that is replaced by
            // renaming.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            changed => changed?,
        }
    }
    set_mode(data, passed)
}

fn passed(mode: u32) -> u32 {
    mode & !0o066 | 0o011
}

fn shut(mode: u32) -> u32 {
    mode & !0o077
}

fn set_mode(path: &Path, change: fn(u32) -> u32) -> io::Result<()> {
    let before = fs::symlink_metadata(path)?;
    let mode = change(before.mode() & 0o7777);
    // A link has no mode of its own: what it leads to would be opened.
    if before.is_symlink() || mode == before.mode() & 0o7777 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Lets a user, and no other but root, reach the folder of a task and read its input.
fn open_to(folder: &Path, user: u32) -> Result<()> {
    chown(folder, None, Some(user))
        .with_context(|| format!("open {} to user {user}", folder.display()))?;
    open(folder, 0o710)?;
    open(&folder.join("task.json"), 0o644)?;
    let fence = folder.join(FENCE);
    if fence.exists() {
        open(&fence, 0o644)?;
    }
    let input = folder.join("input");
    if input.exists() {
        open(&input, 0o755)?;
        for entry in fs::read_dir(&input)? {
            open(&entry?.path(), 0o644)?;
        }
    }
    Ok(())
}

fn open(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("open {}", path.display()))
}

/// Gives a folder to a user, with the files in it. Nobody works in it meanwhile.
fn hand_over(folder: &Path, user: u32) -> Result<()> {
    lchown(folder, Some(user), Some(user))
        .with_context(|| format!("give {} to user {user}", folder.display()))?;
    for entry in fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.metadata(), entry.path()))?;
        let found = entry?;
        if found.is_dir() {
            hand_over(&path, user)?;
        } else if found.is_file() && found.nlink() == 1 {
            lchown(&path, Some(user), Some(user))?;
        }
    }
    Ok(())
}

/// Restricts this process to reading, and to writing in some folders, with what the kernel offers.
/// What an older Landlock does not keep in is refused altogether.
fn restrict(readable: &[PathBuf], writable: &[&Path]) -> Result<Missing> {
    let mut missing = Missing::new();
    let status = restrict_files(readable, writable)?;
    if status == RulesetStatus::NotEnforced {
        missing.push(
            "files and sockets of its own (Landlock: Linux 5.13 or newer, and allowed by the container)".to_owned(),
        );
    }
    if let Err(error) = calls::restrict(status == RulesetStatus::FullyEnforced) {
        log(&format!("seccomp: {error:#}"))?;
        missing.push("a list of system calls that it may not make (seccomp)".to_owned());
    }
    Ok(missing)
}

fn restrict_files(readable: &[PathBuf], writable: &[&Path]) -> Result<RulesetStatus> {
    let read = AccessFs::from_read(KNOWN);
    let write = make_bitflags!(AccessFs::{
        ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer
    });
    let device = make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev});
    let nvidia = fs::read_dir("/dev")?.flatten().map(|entry| entry.path());
    let nvidia = nvidia.filter(|path| path.to_string_lossy().starts_with("/dev/nvidia"));
    let rules = readable.iter().cloned().map(|path| (path, read));
    let rules = rules.chain(writable.iter().map(|path| (path.to_path_buf(), write)));
    let rules =
        rules.chain(DEVICES.iter().map(PathBuf::from).chain(nvidia).map(|path| (path, device)));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    for (path, rights) in rules {
        // What is not there cannot be read.
        let Ok(opened) = PathFd::new(&path) else { continue };
        let rights = if path.is_dir() { rights } else { rights & AccessFs::from_file(KNOWN) };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, rights))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}
