//! The options of every command, and the configuration that they come to.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgMatches, Args, Command};

use crate::clock::Clock;
use crate::config::Config;

#[derive(Args)]
pub(super) struct Options {
    /// Configuration file (TOML).
    #[arg(long, global = true, env = "MOLBOXD_CONFIG", help_heading = GLOBAL)]
    pub(super) config: Option<PathBuf>,
    /// Folder for database, files and results.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) data: Option<PathBuf>,
    /// Any key of the configuration, for example `worker.cpus=4`.
    #[arg(long = SET, id = SET, value_name = "KEY=VALUE", value_parser = setting, help_heading = GLOBAL)]
    pub(super) set: Vec<(String, String)>,
    /// A file with the seconds by which the clock is ahead of the machine's: for tests, and not in
    /// builds for use.
    #[cfg(debug_assertions)]
    #[arg(long, global = true, hide = true, value_name = "FILE")]
    clock_ahead: Option<PathBuf>,
    /// A file that says what is mounted where, instead of the kernel's: for tests as well.
    #[cfg(debug_assertions)]
    #[arg(long, global = true, hide = true, value_name = "FILE", default_value = MOUNTS)]
    mounts: PathBuf,
}

/// What every command has stands apart from what is its own.
const GLOBAL: &str = "Global";
/// Before the command and behind it, each as often as wanted. As a global option, those behind would
/// take the place of those before.
const SET: &str = "set";

/// A command whose subcommands, and theirs, take `--set`, too.
pub(super) fn with_set_everywhere(mut command: Command) -> Command {
    let of_top = command.get_arguments().find(|arg| arg.get_id() == SET).cloned();
    for name in names(&command) {
        command =
            command.mut_subcommand(name, |below| with_set_everywhere(below.args(of_top.clone())));
    }
    command
}

fn names(command: &Command) -> Vec<String> {
    command.get_subcommands().map(|below| below.get_name().to_owned()).collect()
}

/// All that `--set` says, at whatever place, the first first.
pub(super) fn set_everywhere(matches: &ArgMatches) -> Vec<(String, String)> {
    let here = matches.try_get_many(SET).ok().flatten().into_iter().flatten().cloned();
    let below = matches.subcommand().map(|(_, below)| set_everywhere(below));
    here.chain(below.into_iter().flatten()).collect()
}

/// Where the kernel says what is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";

impl Options {
    /// What `--set` and `--data` say.
    pub(super) fn settings(&self) -> Result<Vec<(String, String)>> {
        let mut settings = self.set.clone();
        if let Some(data) = &self.data {
            settings.push(("data".to_owned(), as_toml(&std::path::absolute(data)?)));
        }
        Ok(settings)
    }

    /// The configuration, with other defaults for some keys.
    pub(super) fn config(&self, defaults: &[(String, String)]) -> Result<Config> {
        let settings = self.settings()?;
        let file = self.config.as_deref();
        let mut config = Config::load_with_defaults(defaults, file, std::env::vars(), &settings)?;
        config.data = std::path::absolute(&config.data)?;
        config.worker.make_absolute()?;
        Ok(config)
    }

    #[cfg(debug_assertions)]
    pub(super) fn clock(&self) -> Clock {
        Clock::ahead(self.clock_ahead.clone())
    }

    #[cfg(not(debug_assertions))]
    pub(super) fn clock(&self) -> Clock {
        Clock::default()
    }

    #[cfg(debug_assertions)]
    pub(super) fn mounts(&self) -> &Path {
        &self.mounts
    }

    #[cfg(not(debug_assertions))]
    pub(super) fn mounts(&self) -> &Path {
        Path::new(MOUNTS)
    }
}

/// A path as the value of a setting.
pub(super) fn as_toml(path: &Path) -> String {
    toml::Value::from(path.display().to_string()).to_string()
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{set_everywhere, with_set_everywhere};
    use crate::command::Cli;

    #[test]
    fn settings_before_a_command_and_behind_it_all_count_in_their_order() {
        let line = "molboxd --set a=1 --set b=2 account --set c=3 list --set a=4";
        let matches = with_set_everywhere(Cli::command()).try_get_matches_from(line.split(' '));
        let set = set_everywhere(&matches.unwrap());
        let shown: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(shown, ["a=1", "b=2", "c=3", "a=4"]);
    }
}
