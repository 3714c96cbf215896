//! What every command needs: settings by flag, environment and profile, clients, output.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ColorChoice};
use molbox::reqwest::Url;
use molbox::{Connection, Retry, margin, workflow};
use serde::{Deserialize, Serialize};

use crate::failure::{self, Code, Failure};
use crate::output::Output;
use crate::shell::quoted;
use crate::units;

pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8080/local";
pub(crate) const DEFAULT_MARGIN_URL: &str = "http://127.0.0.1:8081";

/// A retry that comes sooner is not reported: a connection that broke is mostly there again.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// Flags of every command.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Section of the profile file to use.
    #[arg(
        long,
        global = true,
        env = "MOLBOX_PROFILE",
        hide_env_values = true,
        help_heading = "Global"
    )]
    pub(crate) profile: Option<String>,

    /// Base address of the simulation workflow, with the deployment stage.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MOLBOX_BASE_URL",
        hide_env_values = true,
        help_heading = "Global"
    )]
    pub(crate) base_url: Option<String>,

    /// Base address of the margin endpoint.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MOLBOX_MARGIN_URL",
        hide_env_values = true,
        help_heading = "Global"
    )]
    pub(crate) margin_url: Option<String>,

    /// File that holds the API key. The key itself can come from `MOLBOX_API_KEY` or the profile,
    /// whose key is for its own service alone; a flag would show it to everybody on the machine.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global")]
    pub(crate) key_file: Option<PathBuf>,

    /// How often to repeat a request after a transient error.
    #[arg(
        long,
        global = true,
        value_name = "COUNT",
        default_value_t = 4,
        value_parser = |text: &str| units::whole(text, 0u32),
        help_heading = "Global"
    )]
    pub(crate) retries: u32,

    /// JSON on standard output, one document on each line where records follow each other. Without
    /// a terminal it is JSON anyway.
    #[arg(long, global = true, help_heading = "Global")]
    pub(crate) json: bool,

    /// No remarks and no progress on standard error.
    #[arg(short, long, global = true, help_heading = "Global")]
    pub(crate) quiet: bool,

    /// When to use colours; `auto` is on a terminal, as `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`
    /// have it.
    #[arg(long, global = true, value_name = "WHEN", default_value_t, help_heading = "Global")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    /// The profile of a command that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<String>,
    #[serde(default, rename = "profile")]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// Where a service is, and the key for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) margin_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
}

pub(crate) fn profile_path() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("MOLBOX_CONFIG").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    directories::ProjectDirs::from("", "", "molbox")
        .map(|folders| folders.config_dir().join("config.toml"))
        .ok_or_else(|| {
            Failure::usage("no home folder for the profile file")
                .remedy("set MOLBOX_CONFIG to its path")
        })
}

impl Profiles {
    pub(crate) fn load() -> Result<Self, Failure> {
        let path = profile_path()?;
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|e| Failure::usage(format!("{}: {}", path.display(), e.message()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::file(&path, &error)),
        }
    }

    /// Writes the file so that nobody else can read it.
    pub(crate) fn save(&self) -> Result<PathBuf, Failure> {
        let path = profile_path()?;
        let text = toml::to_string(self).map_err(anyhow::Error::from)?;
        write_secret(&path, &text).map_err(|e| Failure::file(&path, &e))?;
        Ok(path)
    }
}

fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = path.with_extension("tmp");
    let _ = fs::remove_file(&partial);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)
}

/// An address with its scheme. One that is given without gets that of TLS, but on this machine, where
/// it is rarely spoken and nobody listens in.
pub(crate) fn with_scheme(address: &str) -> String {
    if address.contains("://") || address.trim().is_empty() {
        return address.to_owned();
    }
    let plain = format!("http://{address}");
    if is_of_this_machine(&plain) { plain } else { format!("https://{address}") }
}

/// Of an address without a letter: what a shell gives for a variable that is not set.
fn no_address() -> Failure {
    Failure::usage("the address of the service is empty").remedy(
        "--base-url, MOLBOX_BASE_URL or the profile gives it, such as https://md.example.org",
    )
}

/// Whether whoever is on the way to an address can read what is sent there, keys among it.
pub(crate) fn is_in_clear(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "http") && !is_of_this_machine(url)
}

fn is_of_this_machine(url: &str) -> bool {
    let url = Url::parse(url).ok();
    url.as_ref().and_then(Url::host_str).is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.map_or(host == "localhost", |address| address.is_loopback())
    })
}

/// Settings, resolved: flag before environment before profile.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) base_url: String,
    pub(crate) margin_url: String,
    /// Whether that was given, by a flag, the environment or the profile.
    pub(crate) has_margin: bool,
    /// The key for the base address.
    pub(crate) key: Option<String>,
    /// The key for the margin address.
    pub(crate) margin_key: Option<String>,
    /// The service whose key the profile has, if it has one.
    key_is_for: Option<String>,
    /// The profile in use, if there is one.
    pub(crate) profile: Option<String>,
    retries: u32,
}

/// Where margins are asked for of the service at an address, when nobody says: there too, but for a
/// service of this machine, whose margins have an address of their own also when it is an old one.
pub(crate) fn margin_url_of(base_url: &str) -> String {
    if base_url == DEFAULT_URL { DEFAULT_MARGIN_URL } else { base_url }.to_owned()
}

impl Context {
    pub(crate) fn new(global: &Global, output: Output) -> Result<Self, Failure> {
        let profiles = Profiles::load()?;
        let wanted = global.profile.clone().or_else(|| profiles.default.clone());
        let profile = match &wanted {
            Some(name) => match profiles.profiles.get(name) {
                Some(profile) => profile.clone(),
                None => {
                    let names: Vec<&str> = profiles.profiles.keys().map(String::as_str).collect();
                    let failure = Failure::usage(format!(
                        "no profile {name:?} in {}",
                        profile_path()?.display()
                    ));
                    return Err(failure.remedy(match names.as_slice() {
                        [] => format!("make it with `molbox login --profile {}`", quoted(name)),
                        names => format!("there are {}", names.join(", ")),
                    }));
                }
            },
            None => Profile::default(),
        };
        let given = match &global.key_file {
            Some(path) => Some(
                fs::read_to_string(path).map_err(|e| Failure::file(path, &e))?.trim().to_owned(),
            ),
            None => std::env::var("MOLBOX_API_KEY").ok().filter(|key| !key.trim().is_empty()),
        };
        let base_url = global.base_url.clone().or_else(|| profile.base_url.clone());
        let base_url = base_url.unwrap_or_else(|| DEFAULT_URL.to_owned());
        // What a profile has is of its service, and another one's is no place for its key.
        let of_profile = profile.base_url.as_deref().unwrap_or(&base_url);
        let is_its = has_origin(&base_url, of_profile);
        let margin_of_profile = profile.margin_url.as_deref();
        let margin_url = global.margin_url.as_deref().or(margin_of_profile.filter(|_| is_its));
        let has_margin = margin_url.is_some();
        let margin_url = margin_url.map_or_else(|| margin_url_of(&base_url), str::to_owned);
        let is_its_margin = has_origin(&margin_url, of_profile)
            || has_origin(&margin_url, margin_of_profile.unwrap_or(&margin_url_of(of_profile)));
        let key =
            |is_its: bool| given.clone().or_else(|| profile.api_key.clone().filter(|_| is_its));
        Ok(Self {
            output,
            key: key(is_its),
            margin_key: key(is_its_margin),
            key_is_for: profile.api_key.is_some().then(|| of_profile.to_owned()),
            has_margin,
            margin_url,
            base_url,
            profile: wanted,
            retries: global.retries,
        })
    }

    pub(crate) fn workflow(&self) -> Result<workflow::Client, Failure> {
        Ok(self.connection(&self.base_url, self.needed_key()?)?.workflow()?)
    }

    pub(crate) fn margin(&self) -> Result<margin::Client, Failure> {
        let key = self.margin_key.as_deref().ok_or_else(|| self.no_key(&self.margin_url))?;
        Ok(self.connection(&self.margin_url, key)?.margin()?)
    }

    pub(crate) fn connection(&self, url: &str, key: &str) -> Result<Connection, Failure> {
        if url.trim().is_empty() {
            return Err(no_address());
        }
        if !url.contains("://") {
            let failure = Failure::usage(format!("{url:?} does not say whether http or https"));
            return Err(failure.remedy(format!("give it as {}", with_scheme(url))));
        }
        let output = self.output.clone();
        let report = move |retry: &Retry| {
            if retry.delay >= WORTH_A_LINE {
                output.note(&failure::retried(retry));
            }
        };
        Ok(Connection::new(url, key)?.retries(self.retries).on_retry(report))
    }

    pub(crate) fn needed_key(&self) -> Result<&str, Failure> {
        self.key.as_deref().ok_or_else(|| self.no_key(&self.base_url))
    }

    fn no_key(&self, url: &str) -> Failure {
        if url.trim().is_empty() {
            return no_address();
        }
        let message = match &self.key_is_for {
            Some(other) => format!("no API key for {url}: that of the profile is for {other}"),
            None => "no API key".to_owned(),
        };
        Failure::new(Code::Auth, message).remedy(
            "log in with `molbox login`, or set MOLBOX_API_KEY; `molbox up` starts a service of \
                 your own, and logs in there",
        )
    }
}

/// Whether two addresses are of one scheme, host and port.
fn has_origin(url: &str, of: &str) -> bool {
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    url == of || origin(url).is_some_and(|found| Some(found) == origin(of))
}
