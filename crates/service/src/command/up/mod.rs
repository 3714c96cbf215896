//! `molboxd up`, `down` and `status`: a service of one's own, from nothing, by one command.

mod browser;
mod down;
mod place;
mod profile;
mod python;
mod setup;

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use molbox::workflow::types::AccountRequest;
use rustix::process::getuid;
use serde_json::json;

use crate::accounts::invitation::{AT_ONCE, Invitation};
use crate::accounts::key::Key;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Db, NewKey};
use crate::folder::{self, is_served};
use crate::handlers::portal;
use crate::log::Log;
use crate::market;
use crate::random;
use crate::record::Role;
use crate::shown::quoted;

use super::deed::deed;
use super::options::{Options, as_toml};
use super::say::say;
use super::serve::{Addresses, serve};
use browser::{Link, Shown};
pub(super) use down::{down, status};
pub(super) use place::own_data;
use place::{Folders, Remembered};
use profile::Profiles;
pub(super) use setup::{SetupOptions, setup};

/// How long a service in the background may take until it listens.
const START: Duration = Duration::from_secs(60);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(10);
/// So much of the end of a log is shown.
const LAST_LINES: usize = 5;

#[derive(Args)]
pub(super) struct UpOptions {
    /// Run in the background, until `molboxd down`.
    #[arg(long)]
    detach: bool,
    /// Do not open the portal in a browser.
    #[arg(long)]
    no_browser: bool,
    /// Address to listen on, instead of 127.0.0.1:8080 or the next free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Listen where other machines can connect to without TLS, by which keys can be read on their
    /// way.
    #[arg(long)]
    insecure: bool,
}

/// Starts a service, or shows where one of this data folder runs.
pub(super) fn up(mut options: Options, up: UpOptions) -> Result<u8> {
    if let Some(listen) = up.listen {
        options.set.push(("listen".to_owned(), listen.to_string()));
    }
    let folders = Folders::find(&options)?;
    let mut remembered = Remembered::read(&folders.data)?;
    let clock = options.clock();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    if is_served(&folders.data)? {
        let config = options.config(&folders.defaults())?;
        let addresses = Addresses::announced(&config.data)?.with_context(|| {
            format!("{} is served by a molboxd that has not said where", config.data.display())
        })?;
        say(&format!("molbox runs already at {}", addresses.base_url));
        return runtime.block_on(async {
            welcome(&config, &clock, &addresses, &mut remembered, &folders, &up).await?;
            Ok(0)
        });
    }
    folders.prepare(&mut remembered)?;
    let config = configuration(&options, &folders, &mut remembered)?;
    place::refuse_strangers(&config, up.insecure)?;
    if !config.data.join("market").exists() && config.margin.market.as_os_str().is_empty() {
        market::write_sample(&config)?;
    }
    if up.detach {
        let addresses = detach(&options, &config, &folders.log)?;
        say(&format!("molbox runs at {}", addresses.base_url));
        let welcomed = welcome(&config, &clock, &addresses, &mut remembered, &folders, &up);
        if let Err(error) = runtime.block_on(welcomed) {
            // As in the foreground: there is no service without a way to use it.
            down::end(&config, &addresses)?;
            return Err(error);
        }
        say(&format!(
            "stop     {}; running simulations go on, and the next `up` adopts them",
            folders.command("down")
        ));
        return Ok(0);
    }
    let _log = Log::start(Some(&folders.log))?;
    let (listens, listening) = tokio::sync::oneshot::channel::<Addresses>();
    let served = runtime.block_on(async {
        let welcomed = async {
            // Otherwise it did not get so far, which the other branch reports.
            let Ok(addresses) = listening.await else { return std::future::pending().await };
            say(&format!("molbox runs at {}", addresses.base_url));
            welcome(&config, &clock, &addresses, &mut remembered, &folders, &up).await?;
            say("Ctrl-C ends it; running simulations go on, and the next `up` adopts them");
            Ok::<(), anyhow::Error>(())
        };
        let served = serve(config.clone(), clock.clone(), |addresses| {
            // Nobody listens any more when the welcome has failed, which ends all of it.
            let _ = listens.send(addresses);
        });
        tokio::pin!(served);
        tokio::select! {
            served = &mut served => return served,
            welcomed = welcomed => welcomed?,
        }
        served.await
    });
    runtime.shutdown_background();
    served.map(|()| 0)
}

/// The configuration, with what is found for what is not set: ports, the worker's Python.
fn configuration(
    options: &Options,
    folders: &Folders,
    remembered: &mut Remembered,
) -> Result<Config> {
    let mut defaults = folders.defaults();
    let asked = options.config(&defaults)?;
    let worker = python::find(&asked.worker.python, remembered.python.as_deref())?;
    defaults.push(("worker.python".to_owned(), as_toml(&worker)));
    let listen = place::free_port(remembered.listen, 8080, None)?;
    let margin = place::free_port(remembered.margin_listen, listen.port() + 1, Some(listen))?;
    defaults.push(("listen".to_owned(), listen.to_string()));
    defaults.push(("margin_listen".to_owned(), margin.to_string()));
    let mut config = options.config(&defaults)?;
    // A name is looked for in the search path, which is another one in the background.
    if config.worker.python == Path::new("python3") {
        config.worker.python = worker.clone();
    }
    for (address, flag) in
        [(config.listen, "--listen"), (config.margin_listen, "--set margin_listen=")]
    {
        place::check_free(address, flag)?;
    }
    remembered.python = Some(worker);
    remembered.listen = Some(config.listen);
    remembered.margin_listen = Some(config.margin_listen);
    remembered.write(&folders.data)?;
    Ok(config)
}

/// A configuration with the Python that `up` has found for its data folder, where none is set.
pub(super) fn with_python(mut config: Config) -> Result<Config> {
    if config.worker.python == Path::new("python3")
        && let Some(python) = Remembered::read(&config.data)?.python
    {
        config.worker.python = python;
    }
    Ok(config)
}

/// Starts the service in a process of its own; where it listens.
fn detach(options: &Options, config: &Config, log: &Path) -> Result<Addresses> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    if let Some(file) = &options.config {
        command.arg("--config").arg(std::path::absolute(file)?);
    }
    for (key, value) in &options.set {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let found = [
        ("data", as_toml(&config.data)),
        ("worker.python", as_toml(&config.worker.python)),
        ("listen", config.listen.to_string()),
        ("margin_listen", config.margin_listen.to_string()),
    ];
    for (key, value) in found {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let mut errors = File::options()
        .create(true)
        .append(true)
        .read(true)
        .open(log)
        .with_context(|| format!("write the log {}", log.display()))?;
    let begin = errors.seek(SeekFrom::End(0))?;
    let mut child = command
        .args(["serve", "--detached", "--log"])
        .arg(log)
        .stdin(Stdio::null())
        .stdout(errors.try_clone()?)
        .stderr(errors.try_clone()?)
        .spawn()
        .context("start the service")?;
    let started = wait(&mut child, &config.data);
    started.with_context(|| {
        errors.seek(SeekFrom::Start(begin)).map_or_else(
            |error| error.to_string(),
            |_| format!("the service did not start; its log, {}:\n{}", log.display(), last(errors)),
        )
    })
}

/// The last lines of what is left of a file.
fn last(mut file: File) -> String {
    let mut text = Vec::new();
    if let Err(error) = file.read_to_end(&mut text) {
        return error.to_string();
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// Waits until a service listens.
fn wait(child: &mut Child, data: &Path) -> Result<Addresses> {
    let start = Instant::now();
    loop {
        let announced = Addresses::announced(data)?;
        if let Some(addresses) = announced.filter(|found| found.pid == child.id()) {
            return Ok(addresses);
        }
        if let Some(status) = child.try_wait()? {
            bail!("it ended with {status}");
        }
        if start.elapsed() > START {
            child.kill().context("end it")?;
            bail!("it does not listen after {} s", START.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}

/// Makes account, key and profile where they are missing, shows where everything is, and opens the
/// portal.
async fn welcome(
    config: &Config,
    clock: &Clock,
    addresses: &Addresses,
    remembered: &mut Remembered,
    folders: &Folders,
    up: &UpOptions,
) -> Result<()> {
    let db = Db::open(config)?;
    let account = account(&db, clock, remembered).await?;
    say(&format!("data     {}", place::shown(&config.data)));
    say(&format!("log      {}", place::shown(&folders.log)));
    let mut next = "molbox run protein.pdb --preset quick".to_owned();
    match &account {
        Some(account) => {
            let name = log_in(&db, clock, addresses, account, remembered).await?;
            if Profiles::load()?.default() != Some(&name) {
                next += &format!(" --profile {}", quoted(&name));
            }
        }
        None => {
            say("account  there are some already: take a key of yours to `molbox login`");
        }
    }
    remembered.write(&config.data)?;
    let link = portal_link(&db, clock, addresses, account.as_deref()).await?;
    let shown = Shown::new(up.no_browser);
    shown.portal(addresses, &link, &config.data)?;
    let n_slots = config.slots();
    say(&format!("workers  {n_slots} at a time; {}", place::processors(config)));
    say(&format!("next     {next}"));
    Ok(())
}

/// The account of who calls, which is made where there is none at all; none where there are only
/// those of others.
async fn account(db: &Db, clock: &Clock, remembered: &mut Remembered) -> Result<Option<String>> {
    let wanted = remembered.account.clone().unwrap_or_else(login_name);
    if db.account(&wanted).await?.is_some() {
        return Ok(Some(wanted));
    }
    if db.n_accounts().await? > 0 {
        return Ok(None);
    }
    let made = deed(clock, "account_create", Some(&wanted));
    // Nobody else is there who could manage accounts.
    db.create_account(wanted.clone(), Role::Admin, made).await?;
    remembered.account = Some(wanted.clone());
    Ok(Some(wanted))
}

/// The user's name, where an account can have it.
fn login_name() -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = folder::user_name(&users, getuid().as_raw())
        .or_else(|| std::env::var("USER").ok())
        .unwrap_or_default();
    let request = json!({ "account": named }).to_string();
    if molbox::from_json::<AccountRequest>(&request).is_ok() { named } else { "me".to_owned() }
}

/// Has the profile have a key that is good here, and the addresses of now; the profile's name. The
/// key is shown nowhere.
async fn log_in(
    db: &Db,
    clock: &Clock,
    addresses: &Addresses,
    account: &str,
    remembered: &mut Remembered,
) -> Result<String> {
    let mut profiles = Profiles::load()?;
    let name = match &remembered.profile {
        Some(name) => name.clone(),
        None => profiles.free_name(&addresses.base_url),
    };
    let known = profiles.key(&name).and_then(Key::parse);
    let is_known = match &known {
        Some(key) => is_good(db, clock, key, account).await?,
        None => false,
    };
    let known = known.filter(|_| is_known);
    let key = known.unwrap_or_else(|| Key::generate(&random::bytes()));
    let has_changed = profiles.put(&name, addresses, key.reveal());
    // Before the key is made: one that nobody has would be good for ever.
    if has_changed {
        profiles.save()?;
    }
    if !is_known {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let row = NewKey {
            id: key.id().to_owned(),
            name: format!("up on {host}"),
            hash: key.hash(),
            expires_at: None,
        };
        let made = deed(clock, "key_create", Some(account));
        if !db.create_key(account.to_owned(), row, made).await? {
            bail!("there is no account named {account}");
        }
    }
    let new = match (is_known, &remembered.profile) {
        (false, Some(_)) => ", with a new key: it had none that is good here",
        _ => "",
    };
    say(&format!("account  {account}, logged in by the profile {name:?} of `molbox`{new}"));
    remembered.profile = Some(name.clone());
    Ok(name)
}

async fn is_good(db: &Db, clock: &Clock, key: &Key, account: &str) -> Result<bool> {
    let Some(row) = db.key(key.id()).await? else { return Ok(false) };
    let is_expired = row.expires_at.is_some_and(|at| at <= clock.now());
    Ok(row.hash == key.hash()
        && row.account_name == account
        && row.revoked_at.is_none()
        && !is_expired)
}

/// Where the portal is: for an account without a password by a link that chooses one.
async fn portal_link(
    db: &Db,
    clock: &Clock,
    addresses: &Addresses,
    account: Option<&str>,
) -> Result<Link> {
    if !portal::is_built() {
        return Ok(Link::None);
    }
    let plain = format!("{}/portal/", addresses.base_url);
    let Some(name) = account else { return Ok(Link::Plain(plain)) };
    let row = db.account(name).await?.with_context(|| format!("no account {name}"))?;
    // One that was invited by others, for days, keeps that invitation.
    let is_invited = row.invited_until.is_some_and(|at| at > clock.now() + AT_ONCE);
    if row.has_password {
        return Ok(Link::Plain(plain));
    }
    if !browser::is_terminal() {
        return Ok(Link::NoPassword(plain, name.to_owned()));
    }
    if is_invited {
        return Ok(Link::Plain(plain));
    }
    let done = deed(clock, "invitation_create", Some(name));
    Ok(match Invitation::make(db, name.to_owned(), AT_ONCE, done).await? {
        Ok(invitation) => Link::Once(invitation.link(&addresses.base_url)),
        Err(_) => Link::Plain(plain),
    })
}
