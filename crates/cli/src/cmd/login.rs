//! `molbox login` and `molbox profile`

use std::io::{IsTerminal as _, Read as _};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::context::{Context, Global, Profile, Profiles, profile_path};
use crate::failure::{Code, Failure};

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
    /// Remove a profile with its key.
    #[command(visible_alias = "rm")]
    Delete {
        /// Name of a profile.
        name: String,
    },
    /// Show where the profiles are kept.
    Path,
}

/// Stores addresses and a key, which comes from the terminal or standard input, as a profile.
pub(crate) async fn login(
    context: &Context,
    global: &Global,
    profile: &str,
    arguments: Arguments,
) -> Result<(), Failure> {
    let mut profiles = Profiles::load()?;
    let key = match &global.key_file {
        Some(_) => context.needed_key()?.to_owned(),
        None => key(context)?,
    };
    let old = profiles.profiles.get(profile).cloned().unwrap_or_default();
    let stored = Profile {
        base_url: global
            .base_url
            .clone()
            .or(old.base_url)
            .or_else(|| Some(context.base_url.clone())),
        margin_url: global
            .margin_url
            .clone()
            .or(old.margin_url)
            .or_else(|| Some(context.margin_url.clone())),
        api_key: Some(key.clone()),
    };
    let mut record = json!({"profile": profile});
    if !arguments.no_check {
        let url = stored.base_url.as_deref().unwrap_or(&context.base_url);
        let account = context.connection(url, &key)?.workflow()?.account_view().send().await?;
        record["account"] = account.account.as_str().into();
        record["key"] = account.key_name.as_str().into();
    }
    profiles.profiles.insert(profile.to_owned(), stored);
    profiles.default.get_or_insert_with(|| profile.to_owned());
    record["file"] = profiles.save()?.display().to_string().into();
    context.output.record(&record)
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
        Command::Delete { name } => {
            profiles.profiles.remove(&name).ok_or_else(|| no_profile(&name))?;
            profiles.default = profiles.default.filter(|default| *default != name);
            profiles.save().map(drop)
        }
        Command::Path => context.output.text(&profile_path()?.display().to_string()),
    }
}

fn no_profile(name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("no profile {name:?}")).remedy("see `molbox profile list`")
}
