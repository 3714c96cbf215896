//! Where `molboxd up` keeps things and listens, and what it refuses.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use directories::{BaseDirs, ProjectDirs};
use serde::{Deserialize, Serialize};

use crate::command::options::{Options, as_toml};
use crate::config::Config;
use crate::files;
use crate::folder::{self, DATABASE};
use crate::shown::quoted;

/// So much room a first simulation may take.
const NEEDED_BYTES: u64 = 1_000_000_000;
/// So many ports are tried.
const PORTS: u16 = 100;
/// File systems of other machines. Locks on them are not to be relied on, by which a database and a
/// service have their folder for themselves.
const NETWORK: [&str; 9] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "lustre"];

/// Where a user's service has its data and its log.
pub(super) struct Folders {
    pub(super) data: PathBuf,
    pub(super) log: PathBuf,
    /// Whether the data lie where they do when nothing is set.
    is_default: bool,
    mounts: PathBuf,
}

impl Folders {
    /// What is set, or places in the user's home.
    pub(super) fn find(options: &Options) -> Result<Self> {
        let mounts = options.mounts().to_owned();
        let homes = ProjectDirs::from("", "", "molbox");
        let default = homes.as_ref().map(|homes| homes.data_dir().to_owned());
        let as_default = default.iter().map(|data| ("data".to_owned(), as_toml(data)));
        let data = options.config(&as_default.collect::<Vec<_>>())?.data;
        if default.is_none() && data == std::path::absolute(Config::default().data)? {
            bail!("there is no home folder: name a folder for the data with --data");
        }
        let is_default = default.as_ref() == Some(&data);
        let log = match homes.as_ref().and_then(ProjectDirs::state_dir) {
            Some(state) if is_default => state.join("molboxd.log"),
            _ => data.join("molboxd.log"),
        };
        Ok(Self { data, log, is_default, mounts })
    }

    /// A command about this service, as one gives it in a shell.
    pub(super) fn command(&self, words: &str) -> String {
        if self.is_default {
            return format!("molboxd {words}");
        }
        format!("molboxd --data {} {words}", quoted(&self.data.to_string_lossy()))
    }

    /// The folders as defaults of settings.
    pub(super) fn defaults(&self) -> Vec<(String, String)> {
        vec![("data".to_owned(), as_toml(&self.data))]
    }

    /// Makes the data folder, or refuses it.
    pub(super) fn prepare(&self, remembered: &mut Remembered) -> Result<()> {
        let data = &self.data;
        let is_new = !data.join(DATABASE).exists();
        // Before anything is written to it.
        let there = data.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        let there = there.canonicalize().with_context(|| format!("look at {}", there.display()))?;
        let mounts = fs::read_to_string(&self.mounts)
            .with_context(|| format!("read {}", self.mounts.display()))?;
        if let Some(kind) = file_system(&mounts, &there).filter(|kind| NETWORK.contains(kind)) {
            bail!(
                "{} is on a file system of another machine ({kind}), on which the locks of the \
                 database do not hold: name a folder of this machine's own disks with --data",
                data.display()
            );
        }
        let made = folder::make(data).and_then(|()| probe(data));
        let was_empty = made.context(
            "no data can be kept there: name another folder with --data, or MOLBOXD_DATA",
        )?;
        folder::check_owner(data)?;
        let free = files::free_bytes(data)?;
        if is_new && free < NEEDED_BYTES {
            bail!(
                "{} MB are free where {} lies, and a first simulation may need 1 GB: make room, or \
                 name a folder elsewhere with --data",
                free / 1_000_000,
                data.display()
            );
        }
        // The folder goes with `down --purge`, with all that is in it.
        remembered.is_made_here |= was_empty;
        Ok(())
    }
}

/// Whether nothing lies in a folder; fails unless something can be written there.
fn probe(data: &Path) -> Result<bool> {
    let mut entries = fs::read_dir(data).with_context(|| format!("list {}", data.display()))?;
    let is_empty = entries.next().is_none();
    let path = data.join("up.tmp");
    fs::write(&path, "written").with_context(|| format!("write in {}", data.display()))?;
    fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    Ok(is_empty)
}

/// Kind of the file system that a path is on, by `/proc/self/mountinfo`.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let kind = |line: &'a str| {
        let (fields, rest) = line.split_once(" - ")?;
        let point = unescaped(fields.split(' ').nth(4)?);
        let depth = Path::new(&point).components().count();
        path.starts_with(&point).then_some((depth, rest.split(' ').next()?))
    };
    // Of two at one place the later covers the earlier.
    mounts.lines().filter_map(kind).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// A path as the kernel writes it, with white space in octal.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// What the next `up` on the same data has to know.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Remembered {
    pub(super) listen: Option<SocketAddr>,
    pub(super) margin_listen: Option<SocketAddr>,
    pub(super) account: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) python: Option<PathBuf>,
    /// Whether `up` has made the folder, so that `down --purge` may remove it.
    pub(super) is_made_here: bool,
}

impl Remembered {
    pub(super) fn read(data: &Path) -> Result<Self> {
        let path = data.join("up.json");
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| {
                format!("{} is damaged: remove it, and `molboxd up` makes it anew", path.display())
            }),
            // A folder that cannot be is refused when it is made, with what helps.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Self::default())
            }
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }

    pub(super) fn write(&self, data: &Path) -> Result<()> {
        let path = data.join("up.json");
        files::write(&path, &serde_json::to_vec(self)?)
            .with_context(|| format!("write {}", path.display()))
    }
}

/// The address of before, if it is free and of this machine alone, which is what nobody has to ask
/// for; or the first free port from a number on.
pub(super) fn free_port(
    before: Option<SocketAddr>,
    from: u16,
    taken: Option<SocketAddr>,
) -> Result<SocketAddr> {
    let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let numbered = (from..=from.saturating_add(PORTS)).map(here);
    before
        .filter(|address| address.ip().is_loopback())
        .into_iter()
        .chain(numbered)
        .find(|address| Some(*address) != taken && TcpListener::bind(address).is_ok())
        .with_context(|| {
            format!(
                "no port from {from} to {} is free: name one with --listen 127.0.0.1:PORT",
                from.saturating_add(PORTS)
            )
        })
}

/// Refuses an address that somebody else has.
pub(super) fn check_free(address: SocketAddr, flag: &str) -> Result<()> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => bail!(
            "another program listens on {address}: name another address with {flag}, or none, and \
             the next free port is taken"
        ),
        Err(error) => Err(error).with_context(|| format!("listen on {address}")),
    }
}

/// Refuses to be reached from other machines where keys could be read on their way.
pub(super) fn refuse_strangers(config: &Config, is_insecure: bool) -> Result<()> {
    let addresses = [
        (config.listen, &config.public_url, "public_url"),
        (config.margin_listen, &config.margin_public_url, "margin_public_url"),
    ];
    for (address, public_url, name) in addresses {
        if !(address.ip().is_loopback() || public_url.starts_with("https://") || is_insecure) {
            bail!(
                "other machines can connect to {address}, and keys could be read on their way: put \
                 a server with TLS before it and set {name} to its https address, or add --insecure"
            );
        }
    }
    Ok(())
}

/// The folder of the user's own service, if it has data.
pub(crate) fn own_data() -> Option<PathBuf> {
    let data = ProjectDirs::from("", "", "molbox")?.data_dir().to_owned();
    data.join(DATABASE).exists().then_some(data)
}

/// A path as the user would write it.
pub(super) fn shown(path: &Path) -> String {
    let homes = BaseDirs::new();
    match homes.as_ref().and_then(|homes| path.strip_prefix(homes.home_dir()).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// What simulations run on.
pub(super) fn processors(config: &Config) -> String {
    let gpus = &config.worker.gpus;
    if !gpus.is_empty() {
        let gpus: Vec<String> = gpus.iter().map(u32::to_string).collect();
        return format!("on the GPUs {}", gpus.join(", "));
    }
    let on_cpus = format!("on {} CPUs", config.cpus());
    if Path::new("/dev/nvidia0").exists() {
        format!("{on_cpus}. A GPU is here: install molboxd[cuda], and add --set 'worker.gpus=[0]'")
    } else {
        on_cpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_on_the_deepest_mount_above_it_and_of_two_there_on_the_later() {
        let mounts = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:30 / /home rw - ext4 /dev/sdb1 rw\n\
            41 22 0:31 / /home rw shared:9 - nfs4 server:/home rw\n\
            42 41 0:32 / /home/ada/my\\040disk rw - xfs /dev/sdc1 rw\n";
        for (path, kind) in [
            ("/var/lib", "ext4"),
            ("/home/ada", "nfs4"),
            ("/homes", "ext4"),
            ("/home/ada/my disk/molbox", "xfs"),
        ] {
            assert_eq!(file_system(mounts, Path::new(path)), Some(kind), "{path}");
        }
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn other_machines_are_let_in_by_tls_or_on_demand_alone() {
        let outside = SocketAddr::from(([0, 0, 0, 0], 8080));
        let mut config = Config { listen: outside, ..Config::default() };
        let refusal = refuse_strangers(&config, false).unwrap_err().to_string();
        assert!(refusal.contains("public_url") && refusal.contains("--insecure"), "{refusal}");
        refuse_strangers(&config, true).unwrap();
        config.public_url = "http://md.example.org".to_owned();
        refuse_strangers(&config, false).unwrap_err();
        config.public_url = "https://md.example.org".to_owned();
        refuse_strangers(&config, false).unwrap();
        config.margin_listen = outside;
        let refusal = refuse_strangers(&config, false).unwrap_err().to_string();
        assert!(refusal.contains("margin_public_url"), "{refusal}");
        refuse_strangers(&Config::default(), false).unwrap();
    }

    #[test]
    fn the_port_of_before_is_taken_again_and_a_taken_one_is_passed_over() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let held = first.local_addr().unwrap();
        drop(first);
        assert_eq!(free_port(Some(held), 20_000, None).unwrap(), held);
        let holder = TcpListener::bind(held).unwrap();
        let next = free_port(Some(held), held.port(), None).unwrap();
        assert!(next.port() > held.port());
        assert_ne!(free_port(None, next.port(), Some(next)).unwrap(), next);
        let outside = SocketAddr::from(([0, 0, 0, 0], next.port()));
        assert!(free_port(Some(outside), next.port(), None).unwrap().ip().is_loopback());
        drop(holder);
    }
}
