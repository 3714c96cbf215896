//! The command line of `molboxd`.

mod backup;
mod check;
mod deed;
mod list;
mod listed;
mod marker;
mod moving;
mod options;
mod queue;
mod say;
mod serve;
mod up;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use jiff::{Span, Timestamp};
use molbox::workflow::types::{AccountChange, AccountRequest};
use rustix::fs::Mode;
use rustix::process::{setsid, umask};
use serde_json::json;

use crate::accounts::invitation::{Invitation, TO_BE_SENT};
use crate::accounts::key::Key;
use crate::analyze;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{
    AccountRow, Db, Deed, Entry, Identity, NewKey, NotLinked, Search, Uninvited, Unlinked, Used,
    Whole,
};
use crate::doctor;
use crate::exec::confine::{Confinement, confine};
use crate::exec::run_task::run_task;
use crate::finding::Found;
use crate::folder::{self, DATABASE, is_served};
use crate::http::validate::is_unprintable;
use crate::log::Log;
use crate::market;
use crate::random;
use crate::record::Role;
use crate::shown::{counted, in_bytes, quoted, to_the_second};
use crate::tenure;
use check::{Kind, Report};
use deed::deed;
use list::List;
use listed::KeyThen;
use options::{Options, set_everywhere, with_set_everywhere};
use queue::TaskCommand;
use say::{say, say_error, say_whole};
use serve::{Addresses, origin_at, serve};
use up::{SetupOptions, UpOptions};

/// Molecular dynamics behind a REST interface.
#[derive(Parser)]
#[command(name = "molboxd", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

fn confinement(json: &str) -> serde_json::Result<Confinement> {
    serde_json::from_str(json)
}

#[derive(Subcommand)]
enum Command {
    /// Start a service of your own, from nothing: data folder, account, key, profile of `molbox`.
    ///
    /// The data lie in your home folder unless `--data` names another. A second `up` on the same data
    /// shows where the service runs.
    Up(UpOptions),
    /// End the service of a data folder; running simulations go on, and the next `up` adopts them.
    Down {
        /// Also remove the data, the profile and the log, and end what runs.
        #[arg(long)]
        purge: bool,
        /// Do not ask before.
        #[arg(long, requires = "purge")]
        yes: bool,
    },
    /// Show where the service of a data folder runs; status 3 when it does not.
    Status,
    /// Make the environment of Python in which workers run, where the service was installed without:
    /// by a Debian package, or from an archive.
    Setup(SetupOptions),
    /// Serve the simulation workflow and the margin endpoint.
    Serve {
        /// Log to this file, of which 10 MB and 10 MB before are kept, and not to standard error.
        #[arg(long, value_name = "FILE")]
        log: Option<PathBuf>,
        /// In a session of its own, which does not end with a terminal.
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Manage accounts.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Manage API keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// See what is queued and runs, of all accounts, and cancel it.
    #[command(subcommand)]
    Task(TaskCommand),
    /// Manage the market data of the margin endpoint.
    #[command(subcommand)]
    Market(MarketCommand),
    /// Bring the database up to date; with SQLite, `serve` does so by itself.
    Migrate,
    /// Print every setting with its meaning and its default, as a configuration file; what `--data`
    /// and `--set` say is set in it.
    Config,
    /// Read everything that is stored and compare it with the database: sizes, digests, orphans.
    Check {
        /// Print what was found as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print who made, changed, revoked, downloaded and deleted what, oldest first.
    Audit(AuditOptions),
    /// Copy database and content to a folder while the service runs; again onto the same folder,
    /// what is new.
    Backup { folder: PathBuf },
    /// Put a backup into a new data folder, the one that `--data` names, and check it there.
    Restore { folder: PathBuf },
    /// Move all records from SQLite to PostgreSQL or back, or all contents from the disk to a bucket
    /// or back, or both, while the service is stopped: to where another configuration of the same
    /// data folder has them. Contents are copied, and stay where they were; a move that was cut
    /// off is given again, and copies what is not there yet.
    Move {
        /// That configuration, a TOML file.
        #[arg(long)]
        to: PathBuf,
    },
    /// Have a bucket go with this database, which was restored from a backup and is behind it: the one
    /// that it takes the place of is gone for good, and all of its servers are stopped.
    TakeOver,
    /// Check what the service needs: Python, OpenMM, disk, database, mirror.
    Doctor,
    /// Write man pages.
    Man { folder: PathBuf },
    /// Carry out the analysis of a folder; the service starts this by itself.
    #[command(hide = true)]
    Analyze { folder: PathBuf },
    /// Become the command of a task, confined; `run-task` starts this by itself.
    #[command(hide = true)]
    Confine {
        #[arg(long, value_parser = confinement)]
        confinement: Confinement,
        folder: PathBuf,
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Run the command of a task in its folder; the service starts this by itself.
    #[command(hide = true)]
    RunTask {
        #[arg(long)]
        attempt: u32,
        #[arg(long, value_parser = confinement)]
        confinement: Confinement,
        folder: PathBuf,
        #[arg(last = true)]
        command: Vec<String>,
    },
}

#[derive(Args)]
struct AuditOptions {
    /// Only of this account.
    #[arg(long)]
    account: Option<String>,
    /// Only with this key, by its identifier.
    #[arg(long)]
    key: Option<String>,
    /// Only this: an operation such as `job_submit`, or `upload`, `key_create`, `backup` …
    #[arg(long)]
    action: Option<String>,
    /// Only what was done to this: the identifier of a file, system, job, analysis or key.
    #[arg(long)]
    subject: Option<String>,
    /// From this moment: `2026-01-31` or `2026-01-31T12:00:00Z`.
    #[arg(long, value_parser = moment)]
    since: Option<Timestamp>,
    /// Before this moment.
    #[arg(long, value_parser = moment)]
    until: Option<Timestamp>,
    /// After the entry with this `seq`, to go on from where another was read to.
    #[arg(long, value_name = "SEQ", default_value = "0", value_parser = whole)]
    after: i64,
    /// Print a line of JSON for each.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum AccountCommand {
    /// Make an account.
    Create {
        name: String,
        /// One that manages accounts in the portal; its invitation is shown.
        #[arg(long)]
        admin: bool,
    },
    /// Show a link by which the owner of an account chooses a password: the first, or another
    /// when it is lost.
    Invite { name: String },
    /// Have somebody sign in to an account by the identity provider; `--subject` is who they are
    /// there (the claim `sub`).
    #[command(override_usage = "molboxd account link --subject <SUBJECT> <NAME>")]
    Link {
        name: String,
        #[arg(long)]
        subject: String,
    },
    /// Have nobody sign in to an account by an identity provider any more, or not the one who is
    /// `--subject` there; its sessions end.
    Unlink {
        name: String,
        #[arg(long)]
        subject: Option<String>,
    },
    /// List the accounts: name, role, when it was made, whether it is disabled.
    List {
        /// Print a line of JSON for each.
        #[arg(long)]
        json: bool,
    },
    /// Show what an account uses and may, and its keys.
    Show {
        name: String,
        /// As JSON, in a line.
        #[arg(long)]
        json: bool,
    },
    /// Change the role of an account, its weight, or the limits of its own.
    #[command(
        visible_alias = "limit",
        // With each of the options, of which one has to be there, it is longer than a line.
        override_usage = "molboxd account change [OPTIONS] <NAME>"
    )]
    Change {
        name: String,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Have the end of each task of an account reported to an address, by a signed POST; shows the
    /// secret that signs, this once.
    #[command(override_usage = "molboxd account webhook <--url <URL>|--off> <NAME>")]
    Webhook {
        name: String,
        /// Where to: https, or http on this machine.
        #[arg(long, required_unless_present = "off")]
        url: Option<String>,
        /// Report nothing any more.
        #[arg(long, conflicts_with = "url")]
        off: bool,
    },
    /// Disable an account: its sessions and whatever it does with its keys end at once, and what
    /// it has queued and running is cancelled.
    Disable { name: String },
    /// Enable an account again, with its keys and its password.
    Enable { name: String },
}

#[derive(Args)]
#[group(required = true, multiple = true)]
struct ChangeOptions {
    /// `user`, or `admin`, who manages accounts.
    #[arg(long, value_parser = ["user", "admin"], hide_possible_values = true)]
    role: Option<String>,
    /// Tasks that it may have queued or running at a time, 0 for any number. Limits that are not
    /// named stay as they are.
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    open_tasks: Option<i64>,
    /// Most that it may hold, in bytes or as `200GB`, 0 for any number.
    #[arg(long, value_name = "N", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<i64>,
    /// Time that its tasks may have slots in `limits.hours_days` days before nothing more is queued,
    /// in h, 0 for any time.
    #[arg(long, value_name = "H", value_parser = whole, allow_negative_numbers = true)]
    hours: Option<i64>,
    /// How much of the machine it has beside others that wait, from 1 to 100: one of weight 2 is
    /// served twice as long as one of weight 1.
    #[arg(long, value_name = "N", value_parser = weight, allow_negative_numbers = true)]
    weight: Option<i64>,
    /// The service's limits instead of all of its own.
    #[arg(long, conflicts_with_all = ["open_tasks", "bytes", "hours"])]
    service_limits: bool,
}

impl ChangeOptions {
    /// The change of an account that uses this, as a request has it: with all limits of its own.
    fn request(self, used: Option<&Used>) -> serde_json::Value {
        // The weight is no part of the request.
        let Self { role, open_tasks, bytes, hours, service_limits, weight: _ } = self;
        let mut change = json!({});
        if let Some(role) = role {
            change["role"] = role.into();
        }
        if service_limits {
            change["limits"] = json!({});
        }
        if open_tasks.or(bytes).or(hours).is_some() {
            let own = |limit: fn(&Used) -> Option<i64>| used.and_then(limit);
            for (limit, value) in [
                ("open_tasks", open_tasks.or(own(|used| used.most_open_tasks))),
                ("bytes", bytes.or(own(|used| used.most_bytes))),
                ("hours", hours.or(own(|used| used.most_hours))),
            ] {
                if let Some(value) = value {
                    change["limits"][limit] = value.into();
                }
            }
        }
        change
    }
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Make a key of an account and show it, this once.
    Create {
        account: String,
        /// What the key is for.
        #[arg(long, default_value = "default")]
        name: String,
        /// Days until it expires. Default: never.
        #[arg(long, value_parser = days, allow_negative_numbers = true)]
        days: Option<i64>,
    },
    /// List the keys of an account.
    List {
        account: String,
        /// Print a line of JSON for each.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key for good, by the identifier that `list` shows.
    Revoke { id: String },
}

#[derive(Subcommand)]
enum MarketCommand {
    /// Read the market data and name every line that is wrong.
    Check,
    /// Have the running service take the market data as it is now, all at once.
    Reload,
    /// Write invented market data, to try the endpoint with.
    Sample,
}

/// Runs the command line and gives its exit status.
pub fn main() -> ExitCode {
    // What is written is the owner's alone, by tasks too, which inherit this.
    umask(Mode::RWXG | Mode::RWXO);
    match run(parse()) {
        // Whoever asked has not got all of it: a key, for example, that is shown once.
        Ok(0) if say::has_lost() => ExitCode::FAILURE,
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say_error(&format!("molboxd: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The command line; what is wrong with it, or asked of it as help, ends the program.
fn parse() -> Cli {
    let parsed = with_set_everywhere(Cli::command()).try_get_matches().and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        cli.options.set = set_everywhere(&matches);
        Ok(cli)
    });
    parsed.unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        say_error(error.render().to_string().trim_end());
        std::process::exit(error.exit_code())
    })
}

fn run(cli: Cli) -> Result<u8> {
    // Before there is a second thread, which would not be confined.
    if let Command::Confine { confinement, folder, command } = &cli.command {
        return confine(folder, confinement, command);
    }
    if let Command::RunTask { folder, attempt, command, confinement } = &cli.command {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(run_task(folder, *attempt, command, confinement));
    }
    if let Command::Analyze { folder } = &cli.command {
        return analyze::run(folder);
    }
    match cli.command {
        Command::Up(options) => return up::up(cli.options, options),
        Command::Down { purge, yes } => return up::down(&cli.options, purge, yes),
        Command::Status => return up::status(&cli.options),
        Command::Setup(options) => return up::setup(&options),
        Command::Man { folder } => return man(&folder),
        _ => {}
    }
    let clock = cli.options.clock();
    let settings = cli.options.settings()?;
    let config = cli.options.config(&[])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // For what waits for the database outside of it.
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    match cli.command {
        Command::Serve { log, detached } => {
            if detached {
                setsid().context("leave the terminal's session")?;
            }
            let _log = Log::start(log.as_deref())?;
            let served = runtime.block_on(serve(config, clock, |_| ()));
            // A check or a margin that is still being calculated has nobody to be answered to.
            runtime.shutdown_background();
            served?;
            return Ok(0);
        }
        Command::Migrate => {
            folder::make(&config.data)?;
            folder::check_owner(&config.data)?;
            let db = Db::migrate(&config)?;
            say(&format!("{} is up to date", db.place()));
        }
        Command::Account(command) => {
            let database = match command {
                AccountCommand::Create { .. } => database,
                _ => known_database,
            };
            runtime.block_on(account(&database(&config)?, &config, &clock, command))?
        }
        Command::Task(command) => {
            runtime.block_on(task(&known_database(&config)?, &config, &clock, command))?
        }
        Command::Key(command) => {
            runtime.block_on(key(&known_database(&config)?, &clock, command))?
        }
        Command::Market(MarketCommand::Check) => say(&market::check(&config)?),
        Command::Market(MarketCommand::Reload) => {
            say(&runtime.block_on(market::ask_to_reload(&config, &clock))?)
        }
        Command::Market(MarketCommand::Sample) => {
            folder::check_owner(&config.data)?;
            say(&market::write_sample(&config)?);
        }
        Command::Config => say_whole(Config::file(&settings)?.trim_end()),
        Command::Check { json } => return check(&config, json),
        Command::Audit(options) => {
            let AuditOptions { account, key, action, subject, since, until, after, json } = options;
            audit(&config, Search { account, key, action, subject, since, until, after }, json)?;
        }
        Command::Backup { folder } => {
            let code = backup(&config, &clock, &folder)?;
            runtime.block_on(note(&config, deed(&clock, "backup", None), &folder));
            return Ok(code);
        }
        Command::Restore { folder } => {
            let report = backup::restore(&config, &folder)?;
            runtime.block_on(note(&config, deed(&clock, "restore", None), &folder));
            return Ok(show(&report));
        }
        Command::Move { to } => {
            folder::check_owner(&config.data)?;
            let to = to_config(&to)?;
            for (what, n) in moving::bring(&config, &to)? {
                say_whole(&format!("{what}\t{n}"));
            }
            runtime.block_on(note(&to, deed(&clock, "move", None), &config.data));
        }
        Command::TakeOver => {
            folder::make(&config.data)?;
            folder::check_owner(&config.data)?;
            runtime.block_on(tenure::take_over(&config, &clock, say))?;
            runtime.block_on(note(&config, deed(&clock, "take_over", None), &config.data));
        }
        Command::Doctor => {
            folder::check_owner(&config.data)?;
            note_new(&config);
            return runtime.block_on(doctor(&up::with_python(config)?));
        }
        Command::Up(_)
        | Command::Down { .. }
        | Command::Setup(_)
        | Command::Status
        | Command::Man { .. }
        | Command::Analyze { .. }
        | Command::Confine { .. }
        | Command::RunTask { .. } => {
            unreachable!("handled above")
        }
    }
    Ok(0)
}

fn man(folder: &Path) -> Result<u8> {
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .with_context(|| format!("write man pages in {}", folder.display()))?;
    say(&format!("man pages in {}", folder.display()));
    Ok(0)
}

/// A configuration by its file alone: the environment is that of the other one.
fn to_config(file: &Path) -> Result<Config> {
    let mut config = Config::load(Some(file), std::iter::empty(), &[])?;
    config.data = std::path::absolute(&config.data)?;
    Ok(config)
}

/// The database of the data folder.
fn database(config: &Config) -> Result<Db> {
    folder::make(&config.data)?;
    folder::check_owner(&config.data)?;
    note_new(config);
    Db::open(config)
}

/// The database of what has been there before: a question makes no data folder.
fn known_database(config: &Config) -> Result<Db> {
    // What is left of a database is no new place: that is told where it is opened.
    if is_new(config) && folder::stray(&config.data).is_none() {
        bail!(
            "there is no data in {}{}; `molboxd account create` makes the first account there",
            config.data.display(),
            other_data(config)
        );
    }
    database(config)
}

/// Announces a data folder without a database, in case that another folder was meant.
fn note_new(config: &Config) {
    if is_new(config) {
        say_error(&format!("new data folder: {}{}", config.data.display(), other_data(config)));
    }
}

fn is_new(config: &Config) -> bool {
    config.database.url.is_empty() && !config.data.join(DATABASE).exists()
}

/// Where else there is data that may have been meant.
fn other_data(config: &Config) -> String {
    let others = up::own_data().filter(|own| *own != config.data).map(|own| {
        let own = own.to_string_lossy();
        let own = quoted(&own);
        format!("; `molboxd up` keeps its data in {own}: give `--data {own}` if it was meant")
    });
    others.unwrap_or_default()
}

/// Says what is not as it should be; 1 when something that was stored is damaged or missing.
fn check(config: &Config, json: bool) -> Result<u8> {
    let report = check::check(config)?;
    if json {
        say_whole(&serde_json::to_string_pretty(&report).context("write the report")?);
        return Ok(u8::from(report.is_damaged()));
    }
    Ok(show(&report))
}

/// Copies what is there; 1 when something is lost already.
fn backup(config: &Config, clock: &Clock, folder: &Path) -> Result<u8> {
    let copied = backup::backup(config, folder, clock.now())?;
    for lost in &copied.lost {
        say(&format!("lost: {lost}"));
    }
    let objects = counted(copied.objects, "object");
    let bytes = in_bytes(copied.bytes.into());
    say(&format!("{objects} copied, {bytes}: {} is a backup", folder.display()));
    Ok(u8::from(!copied.lost.is_empty()))
}

fn show(report: &Report) -> u8 {
    for finding in &report.findings {
        let what = match finding.kind {
            Kind::Orphan => "orphan",
            Kind::Database => "damaged database",
            Kind::File | Kind::Task | Kind::Beside => "damaged",
            Kind::Account => "miscounted account",
        };
        let parts = [Some(what), finding.id.as_deref(), finding.object.as_deref()];
        let about: Vec<&str> = parts.into_iter().flatten().collect();
        say(&format!("{}: {}", about.join(" "), finding.problem));
    }
    let orphans = report.findings.iter().filter(|finding| finding.kind == Kind::Orphan).count();
    let damaged = report.findings.len() - orphans;
    say(&format!(
        "{}, {}: {damaged} damaged, {}",
        counted(report.files, "file"),
        counted(report.tasks, "task"),
        counted(orphans, "orphan")
    ));
    u8::from(report.is_damaged())
}

/// Says what was found; 1 when something is missing.
async fn doctor(config: &Config) -> Result<u8> {
    let mut code = 0;
    for finding in doctor::examine(config).await {
        match finding.result {
            Ok(Found::Sound(text)) => say(&format!("ok      {}: {text}", finding.about)),
            Ok(Found::Weak(text)) => say(&format!("weak    {}: {text}", finding.about)),
            Err(error) => {
                say(&format!("broken  {}: {error:#}", finding.about));
                code = 1;
            }
        }
    }
    Ok(code)
}

/// Notes a command that has been carried out. What has been done is done, also where it cannot be
/// noted.
async fn note(config: &Config, deed: Deed, subject: &Path) {
    let noted = async {
        let db = Db::open(config)?;
        db.note(deed, subject.display().to_string()).await.map_err(anyhow::Error::from)
    };
    if let Err(error) = noted.await {
        say_error(&format!("not noted in the audit log: {error:#}"));
    }
}

/// Prints the entries of the audit log that are asked for.
fn audit(config: &Config, search: Search, json: bool) -> Result<()> {
    let mut list = List::of::<Entry>(json);
    Whole::of(config)?.audit(&search, &mut |entry| list.add(entry))?;
    list.end("no entry is of that kind; leave out a filter, or look further back with --since");
    Ok(())
}

/// A moment: RFC 3339, or a date, at whose beginning in UTC it is.
fn moment(text: &str) -> Result<Timestamp, String> {
    let whole = if text.len() == "2026-01-31".len() {
        format!("{text}T00:00:00Z")
    } else {
        text.to_owned()
    };
    whole.parse().map_err(|_| "must be a date, 2026-01-31, or 2026-01-31T12:00:00Z".to_owned())
}

/// A whole number that is not negative.
fn whole(text: &str) -> Result<i64, String> {
    let number = text.trim().parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("must be a whole number >= 0, got {text:?}"))
}

/// A number of bytes: `5000000000`, `5GB`.
fn bytes(text: &str) -> Result<i64, String> {
    const UNITS: [(&str, i64); 5] = [
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("B", 1),
    ];
    let text = text.trim();
    let in_unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (count, size) = in_unit.unwrap_or((text, 1));
    let count = whole(count).ok().and_then(|count| count.checked_mul(size));
    count.ok_or_else(|| format!("must be a number of bytes as 5000000000 or 5GB, got {text:?}"))
}

fn weight(text: &str) -> Result<i64, String> {
    let number = whole(text).ok().filter(|weight| (1..=100).contains(weight));
    number.ok_or_else(|| format!("must be a whole number from 1 to 100, got {text:?}"))
}

fn days(text: &str) -> Result<i64, String> {
    let number = whole(text).ok().filter(|days| *days > 0);
    number.ok_or_else(|| format!("must be a whole number >= 1, got {text:?}"))
}

async fn account(db: &Db, config: &Config, clock: &Clock, command: AccountCommand) -> Result<()> {
    match command {
        AccountCommand::Create { name, admin } => {
            let role = if admin { Role::Admin } else { Role::User };
            let request = json!({ "account": name, "role": role });
            let is_name = molbox::from_json::<AccountRequest>(&request.to_string()).is_ok();
            if !is_name || name.chars().any(is_unprintable) {
                bail!(
                    "{name:?} is no name of an account: those have 1 to 200 characters, none of \
                     them a control character or one of /?#%; the first is neither a dot nor a \
                     blank, the last no blank"
                );
            }
            let made = deed(clock, "account_create", Some(&name));
            if db.create_account(name.clone(), role, made).await?.is_none() {
                bail!("there is an account named {name}");
            }
            if admin {
                invite(db, config, clock, name).await?;
            } else {
                say(&format!(
                    "account {name} made; give it a key with `molboxd key create {word}`, or a \
                     password with `molboxd account invite {word}`",
                    word = pasted(&name)
                ));
            }
        }
        AccountCommand::Invite { name } => invite(db, config, clock, name).await?,
        AccountCommand::Link { name, subject } => {
            let issuer = config.oidc.issuer.clone();
            if issuer.is_empty() {
                bail!("there is no identity provider; set oidc.issuer");
            }
            let linked = deed(clock, "account_link", Some(&name));
            let identity = Identity { issuer, subject };
            if !db.link_identity(name.clone(), identity, linked).await? {
                bail!("there is no account named {name}");
            }
        }
        AccountCommand::Unlink { name, subject } => {
            unlink(db, clock, name, subject).await?;
        }
        AccountCommand::List { json } => {
            let mut accounts = db.accounts(None, usize::MAX).await?;
            accounts.sort_by(|one, other| one.name.cmp(&other.name));
            let mut list = List::of::<AccountRow>(json);
            accounts.iter().try_for_each(|account| list.add(account))?;
            list.end(
                "there is no account yet; make one with `molboxd account create NAME --admin`",
            );
        }
        AccountCommand::Show { name, json } => {
            let lines = queue::account(db, config, clock.now(), &name, json).await?;
            lines.iter().for_each(|line| if json { say_whole(line) } else { say(line) });
        }
        AccountCommand::Change { name, change } => {
            if let Some(weight) = change.weight {
                let deed = deed(clock, "account_weigh", Some(&name));
                if !db.weigh_account(name.clone(), weight, deed).await? {
                    bail!("there is no account named {name}");
                }
            }
            let account = db.account(&name).await?;
            let used = account.as_ref().map(|account| &account.used);
            change_account(db, clock, &name, &change.request(used)).await?;
        }
        AccountCommand::Webhook { name, url, off: _ } => {
            let action = if url.is_some() { "webhook_set" } else { "webhook_unset" };
            let done = deed(clock, action, Some(&name));
            if let Some(secret) = queue::set_webhook(db, name.clone(), url, done).await? {
                say_whole(&secret);
                say_error("keep it safe: it signs what is sent, and is not shown again");
            } else {
                say(&format!("nothing more is reported of {name}"));
            }
        }
        AccountCommand::Disable { name } => {
            change_account(db, clock, &name, &json!({ "disabled": true })).await?;
        }
        AccountCommand::Enable { name } => {
            change_account(db, clock, &name, &json!({ "disabled": false })).await?;
        }
    }
    Ok(())
}

/// Shows who was unlinked; and, where nobody is left who could sign in, what to do.
async fn unlink(db: &Db, clock: &Clock, name: String, subject: Option<String>) -> Result<()> {
    let done = deed(clock, "account_unlink", Some(&name));
    let Unlinked { identities, has_way_in } =
        match db.unlink_identities(name.clone(), subject.clone(), done).await? {
            Ok(unlinked) => unlinked,
            Err(NotLinked::NoAccount) => bail!("there is no account named {name}"),
            Err(NotLinked::Nobody) => match subject {
                Some(subject) => bail!(
                    "the subject {subject} does not sign in to the account {name}; without \
                     --subject, everybody is unlinked who does"
                ),
                None => bail!("nobody signs in to the account {name} by an identity provider"),
            },
        };
    for Identity { issuer, subject } in identities {
        say_whole(&format!("{issuer}\t{subject}"));
    }
    if !has_way_in {
        say_error(&format!(
            "nobody can sign in to {name} now: it has no password, and nobody else is linked; \
             `molboxd account invite {}` shows a link by which its owner chooses a password",
            pasted(&name)
        ));
    }
    Ok(())
}

/// Changes an account as a request to the service does, and shows it.
async fn change_account(
    db: &Db,
    clock: &Clock,
    name: &str,
    change: &serde_json::Value,
) -> Result<()> {
    let change: AccountChange = molbox::from_json(&change.to_string())?;
    let deed = deed(clock, "account_change", Some(name));
    match db.change_account(name.to_owned(), change, deed).await? {
        Ok(account) => {
            let mut list = List::of::<AccountRow>(false);
            list.add(&account)?;
            list.end("");
        }
        Err(reason) => bail!("account {name}: {reason}"),
    }
    Ok(())
}

/// Shows a link by which a password is chosen.
async fn invite(db: &Db, config: &Config, clock: &Clock, name: String) -> Result<()> {
    let done = deed(clock, "invitation_create", Some(&name));
    let invitation = match Invitation::make(db, name.clone(), TO_BE_SENT, done).await? {
        Ok(invitation) => invitation,
        Err(Uninvited::NotFound) => bail!("there is no account named {name}"),
        Err(Uninvited::Disabled) => {
            let word = pasted(&name);
            bail!("the account {name} is disabled; `molboxd account enable {word}` first")
        }
    };
    // The link alone on standard output, so that a script can take it.
    say_whole(&invitation.link(&workflow_address(config)?));
    say_error(&format!(
        "whoever opens the link chooses the password of {name}; it is good once, until {}",
        to_the_second(invitation.expires_at)
    ));
    Ok(())
}

/// Where browsers reach the workflow: as the configuration has it, else where the service of the data
/// folder listens now, which `up` may have chosen.
fn workflow_address(config: &Config) -> Result<String> {
    let origin = match config.public_url.trim_end_matches('/') {
        "" => origin_at(config.listen),
        public_url => public_url.to_owned(),
    };
    let running = match config.public_url.is_empty() && is_served(&config.data)? {
        true => Addresses::announced(&config.data)?,
        false => None,
    };
    Ok(running.map_or_else(|| format!("{origin}/{}", config.stage), |running| running.base_url))
}

async fn task(db: &Db, config: &Config, clock: &Clock, command: TaskCommand) -> Result<()> {
    match command {
        TaskCommand::List { account, json } => {
            queue::list(db, config, clock.now(), account.as_deref(), json).await?;
        }
        TaskCommand::Cancel { ids } => {
            for id in ids {
                say(&queue::cancel(db, &id, deed(clock, "queue_cancel", None)).await?);
            }
        }
    }
    Ok(())
}

async fn key(db: &Db, clock: &Clock, command: KeyCommand) -> Result<()> {
    let now = clock.now();
    match command {
        KeyCommand::Create { account, name, days } => {
            if name.chars().any(is_unprintable) {
                bail!("{name:?} is no name of a key: it has control characters");
            }
            let after = |days: i64| {
                let span = Span::new().try_hours(days.checked_mul(24)?).ok()?;
                now.checked_add(span).ok()
            };
            let expires = days
                .map(|days| after(days).context("--days ends after the last day of the calendar"))
                .transpose()?;
            let key = Key::generate(&random::bytes());
            let row =
                NewKey { id: key.id().to_owned(), name, hash: key.hash(), expires_at: expires };
            if !db
                .create_key(account.clone(), row, deed(clock, "key_create", Some(&account)))
                .await?
            {
                return Err(no_account(&account));
            }
            // The key alone on standard output, so that a script can take it.
            say_whole(key.reveal());
            say_error("keep it safe: it is not shown again");
        }
        KeyCommand::List { account, json } => {
            if db.account(&account).await?.is_none() {
                return Err(no_account(&account));
            }
            let mut list = List::of::<KeyThen>(json);
            for key in db.keys(&account).await? {
                list.add(&KeyThen { key, now })?;
            }
            let word = pasted(&account);
            list.end(&format!("{account} has no key; make one with `molboxd key create {word}`"));
        }
        KeyCommand::Revoke { id } => {
            if !db.revoke_key(id.clone(), None, deed(clock, "key_revoke", None)).await? {
                bail!("there is no key {id}");
            }
            say(&format!("key {id} revoked"));
        }
    }
    Ok(())
}

/// A name at the end of a command line to paste, where no dash makes an option of it.
fn pasted(name: &str) -> String {
    format!("{}{}", if name.starts_with('-') { "-- " } else { "" }, quoted(name))
}

fn no_account(name: &str) -> anyhow::Error {
    let word = pasted(name);
    anyhow!("there is no account named {name}; make it with `molboxd account create {word}`")
}
