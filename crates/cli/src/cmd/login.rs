//! `molbox login` and `molbox profile`

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use molbox::{Error, reqwest};
use serde_json::{Value, json};

use crate::context::{
    Context, DEFAULT_MARGIN_URL, DEFAULT_URL, Global, Profile, Profiles, is_in_clear,
    margin_url_of, profile_path, with_scheme,
};
use crate::failure::{Code, Failure, is_disabled};
use crate::shell::quoted;

/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Store the key without asking the service whether it takes it.
    #[arg(long)]
    no_check: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the profiles, without their keys.
    #[command(visible_alias = "ls")]
    List,
    /// Choose the profile of commands that name none.
    Use {
        /// Name of a profile.
        name: String,
    },
    /// Remove a profile with its key; it asks first, and without a terminal wants `--yes`.
    #[command(visible_alias = "rm")]
    Delete {
        /// Name of a profile.
        name: String,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
    /// Show where the profiles are kept.
    Path,
}

/// Stores addresses and a key, which comes from the terminal or standard input, as a profile.
pub(crate) async fn login(
    context: &Context,
    global: &Global,
    named: Option<&str>,
    arguments: Arguments,
) -> Result<(), Failure> {
    let mut profiles = Profiles::load()?;
    let profile = named.unwrap_or("default");
    let old = profiles.profiles.get(profile).cloned().unwrap_or_default();
    let before = old.base_url.clone();
    let url = match global.base_url.clone().or(old.base_url) {
        Some(url) => url,
        None => address(context)?,
    };
    let url = with_scheme(&url);
    // Before the key is asked for: who mistyped the address pastes it once.
    let url = if arguments.no_check { url } else { located(context, &url).await? };
    let margin_given = global.margin_url.as_deref().map(with_scheme);
    for url in [Some(&url), margin_given.as_ref()].into_iter().flatten() {
        if is_in_clear(url) {
            context.output.warning(&format!(
                "{url} is not encrypted: whoever is on the way there can read the key and all that \
                 is sent; https:// is, where the service has it"
            ));
        }
    }
    let key = match &global.key_file {
        Some(_) => context.needed_key()?.to_owned(),
        None => key(context)?,
    };
    // Of another service that the profile had, margins are another's, too; and of one elsewhere they
    // are not on this machine, which was stored where nobody gave an address.
    let is_same = before.as_ref() == Some(&url);
    let is_given = |margin: &String| margin != DEFAULT_MARGIN_URL || url == DEFAULT_URL;
    let kept = old.margin_url.filter(|margin| is_same && is_given(margin));
    let margin_url = margin_given.or(kept);
    let stored = Profile {
        base_url: Some(url.clone()),
        margin_url: Some(margin_url.unwrap_or_else(|| margin_url_of(&url))),
        api_key: Some(key.clone()),
    };
    let mut record = json!({"profile": profile});
    if !arguments.no_check {
        let asked = context.connection(&url, &key)?.workflow()?.account_view().send().await;
        let account = asked.map_err(refused)?;
        record["account"] = account.account.as_str().into();
        record["key"] = account.key_name.as_str().into();
        record["base_url"] = url.as_str().into();
    }
    profiles.profiles.insert(profile.to_owned(), stored);
    // Who names no profile logs in for what comes next, whichever was used until now.
    let other = profiles.default.take().filter(|default| default != profile);
    profiles.default = Some(match &other {
        Some(other) if named.is_some() => other.clone(),
        _ => profile.to_owned(),
    });
    record["file"] = profiles.save()?.display().to_string().into();
    if let Some(other) = other.as_deref().filter(|_| named.is_none()) {
        context.output.note(&format!(
            "commands used the profile {other} and use this one now; back: `molbox profile use {}`",
            quoted(other)
        ));
    }
    if context.output.is_json() || arguments.no_check {
        return context.output.record(&record);
    }
    let account = record["account"].as_str().unwrap_or_default();
    let flag = match other {
        Some(_) if named.is_some() => format!("--profile {} ", quoted(profile)),
        _ => String::new(),
    };
    let next = format!("logged in as {account} to {url}; now: molbox {flag}run protein.pdb");
    context.output.sentence(&next)
}

/// What helps who is logging in: not to log in.
fn refused(error: Error) -> Failure {
    let is_of_key = !is_disabled(&error);
    let failure = Failure::from(error);
    match failure.code {
        Code::Auth if is_of_key => failure.remedy(
            "a key begins with `mbx_` and is copied whole; one that was revoked or has expired is \
             not good again: whoever runs the service makes another with `molboxd key create NAME`",
        ),
        _ => failure,
    }
}

/// Where the service is: asked on a terminal.
fn address(context: &Context) -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(context.base_url.clone());
    }
    let answer = context.output.answer(&format!(
        "Address of the service (of this machine: {}, by Enter): ",
        context.base_url
    ))?;
    let answer = answer.trim();
    Ok(if answer.is_empty() { context.base_url.clone() } else { answer.to_owned() })
}

/// The base address of the service that answers at an address, which may lack its stage.
async fn located(context: &Context, url: &str) -> Result<String, Failure> {
    // Of an address that was copied from a browser the part before the portal is the service's.
    let url = url.split_once("/portal").map_or(url, |(base, rest)| {
        if rest.is_empty() || rest.starts_with(['/', '#', '?']) { base } else { url }
    });
    let url = url.trim_end_matches('/');
    // It refuses what is no address.
    context.connection(url, "none")?;
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .build()
        .map_err(Error::Connection)?;
    if is_service(&http, url).await? {
        return Ok(url.to_owned());
    }
    // The root of a service leads to its portal, below its stage.
    let root = http.get(format!("{url}/")).send().await.map_err(Error::Connection)?;
    let to = root.headers().get("location").and_then(|to| to.to_str().ok());
    let led = to.and_then(|to| root.url().join(to).ok());
    let led = led.as_ref().and_then(|to| to.as_str().strip_suffix("/portal/"));
    for found in led.map(str::to_owned).into_iter().chain([format!("{url}/local")]) {
        if is_service(&http, &found).await? {
            context.output.note(&format!("found the service at {found}"));
            return Ok(found);
        }
    }
    let failure =
        Failure::new(Code::NotFound, format!("no molbox service answers at {url}, or below it"));
    Err(failure
        .remedy("give the whole address with its stage, such as https://md.example.org/prod"))
}

/// Whether the simulation workflow is served at a base address: it wants a key there.
async fn is_service(http: &reqwest::Client, base_url: &str) -> Result<bool, Failure> {
    let answer = http.get(format!("{base_url}/info/account")).send().await;
    Ok(answer.map_err(Error::Connection)?.status() == reqwest::StatusCode::UNAUTHORIZED)
}

fn key(context: &Context) -> Result<String, Failure> {
    let key = if std::io::stdin().is_terminal() {
        context.output.secret("API key (not shown; `molboxd key create` makes one):")?
    } else {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|e| Failure::new(Code::File, format!("standard input: {e}")))?;
        text
    };
    let key = key.trim().to_owned();
    if key.is_empty() { Err(Failure::usage("no key came on standard input")) } else { Ok(key) }
}

pub(crate) fn profile(context: &Context, command: Command) -> Result<(), Failure> {
    let mut profiles = Profiles::load()?;
    match command {
        Command::List => {
            let rows = profiles.profiles.iter().map(|(name, profile)| {
                json!({
                    "name": name,
                    "is_default": profiles.default.as_ref() == Some(name),
                    "base_url": profile.base_url,
                    "margin_url": profile.margin_url,
                    "has_key": profile.api_key.is_some(),
                })
            });
            let rows: Vec<Value> = rows.collect();
            let columns = [
                ("NAME", "/name"),
                ("DEFAULT", "/is_default"),
                ("WORKFLOW", "/base_url"),
                ("MARGIN", "/margin_url"),
                ("KEY", "/has_key"),
            ];
            context.output.table(&columns, &rows)
        }
        Command::Use { name } => {
            if !profiles.profiles.contains_key(&name) {
                return Err(no_profile(&name));
            }
            profiles.default = Some(name);
            profiles.save().map(drop)
        }
        Command::Delete { name, yes } => {
            profiles.profiles.remove(&name).ok_or_else(|| no_profile(&name))?;
            context.output.confirm(&format!("delete the profile {name} with its key?"), yes)?;
            profiles.default = profiles.default.filter(|default| *default != name);
            let path = profiles.save()?;
            context.output.note(&format!(
                "deleted the profile {name} with its key from {}; the service still takes the key",
                path.display()
            ));
            if context.output.is_json() {
                return context.output.json(&json!({"deleted": [name]}));
            }
            Ok(())
        }
        Command::Path => context.output.text(&profile_path()?.display().to_string()),
    }
}

fn no_profile(name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("no profile {name:?}")).remedy("see `molbox profile list`")
}
