//! `molbox`: molecular dynamics and futures margin from a terminal or a script.

mod archive;
mod bundle;
mod cmd;
mod compare;
mod content;
mod context;
mod destination;
mod failure;
mod flag_names;
mod interrupt;
mod output;
mod request;
mod research_object;
mod schema;
mod series;
mod shell;
mod statistics;
mod units;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{
    ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum as _,
};

use crate::context::{Context, Global};
use crate::failure::Failure;
use crate::output::Output;

/// Molecular dynamics and futures margin from a terminal or a script.
///
/// Begin with `molbox login`, or `molbox up` for a service of your own, then `molbox run protein.pdb`. `molbox doctor` looks for what is in
/// the way.
#[derive(Parser, Debug)]
#[command(
    name = "molbox",
    version,
    propagate_version = true,
    max_term_width = 100,
    styles = crate::output::STYLES
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// From a structure file to trajectories, plots and a report.
    ///
    /// Uploads, builds, simulates, follows, analyses, downloads, unpacks, draws and reports. When
    /// it is interrupted, the service continues, and `molbox run --resume` resumes it. As JSON an
    /// event stands on each line: `uploaded`, `system`, `job`, `analysis` with the record whenever
    /// it has changed, `downloaded` with the path, at the end `done` with where everything is.
    Run(Box<cmd::run::Arguments>),
    /// Files: structures, ligands, force fields, trajectories.
    #[command(subcommand)]
    File(cmd::file::Command),
    /// Systems: what is simulated, built from files.
    #[command(subcommand)]
    System(cmd::system::Command),
    /// Jobs: simulations of systems.
    #[command(subcommand)]
    Job(cmd::job::Command),
    /// Analyses of trajectories at the service.
    #[command(subcommand)]
    Analysis(cmd::analysis::Command),
    /// Results of this machine: whether a bundle is whole, and who made it.
    #[command(subcommand)]
    Bundle(cmd::bundle::Command),
    /// Repeat what a bundle has, at any service, and compare.
    ///
    /// Sends the same files, requests and seeds, and compares bit by bit; where bits differ, by
    /// averages with their errors. Ends with status 0 for the same, 12 for statistically the same,
    /// 13 for different. When it is interrupted, the same command resumes it.
    Rerun(Box<cmd::rerun::Arguments>),
    /// What a request would come to: atoms, memory, disk, time, place in the queue.
    #[command(subcommand)]
    Estimate(cmd::estimate::Command),
    /// Margin of portfolios of futures.
    #[command(subcommand)]
    Margin(cmd::margin::Command),
    /// Analyse trajectories of this machine, without a service.
    ///
    /// Example: molbox analyze production.dcd topology.pdb --rmsd '@CA' --hbonds --output tables
    Analyze(Box<cmd::analyze::Arguments>),
    /// Print a request with comments, to edit and submit with `--file`.
    Example {
        /// Kind of request.
        #[arg(value_enum)]
        noun: cmd::example::Noun,
    },
    /// Send any request and print the answer.
    ///
    /// Example: molbox api GET /info/jobs --query limit=1
    Api(Box<cmd::api::Arguments>),
    /// Start a service of your own on this machine: `molboxd up`, with its options.
    Up(cmd::up::Arguments),
    /// Store addresses and an API key, from standard input, as a profile.
    Login(cmd::login::Arguments),
    /// Profiles that `molbox login` has stored.
    #[command(subcommand)]
    Profile(cmd::login::Command),
    /// Serve an assistant on standard input and output: the Model Context Protocol.
    ///
    /// The assistant starts it, and can then simulate and analyse with the key of the profile, and
    /// read and write files below one folder; docs/mcp.md says how to add it.
    Mcp(cmd::mcp::Arguments),
    /// Show whose key is in use.
    Account,
    /// Show what the account uses, and its limits.
    Usage,
    /// Print what changes in the account, files and tasks, until it is interrupted.
    ///
    /// What is open comes first. As JSON a line has the event and its record.
    Events,
    /// The service itself.
    #[command(subcommand)]
    Service(cmd::service::Command),
    /// Look for what is in the way: addresses, clock, key, versions.
    Doctor,
    /// Print a script that completes commands in a shell.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write man pages.
    Man {
        /// Folder for them.
        #[arg(default_value = "man")]
        folder: PathBuf,
    },
    /// Print the reference of all commands as Markdown.
    #[command(hide = true)]
    Reference,
}

fn main() -> ExitCode {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let output = Output::new(cli.global.json, cli.global.quiet, cli.global.color);
    // Before profiles are read: this makes the first.
    if let Command::Up(arguments) = &cli.command {
        return cmd::up::run(arguments).unwrap_or_else(|failure| {
            output.failure(&failure);
            ExitCode::from(failure.code as u8)
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(run(cli, output.clone()));
            // What reads a terminal in the background must not keep the process.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(anyhow::Error::from(error).into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.code as u8)
        }
    }
}

fn parsed() -> Result<Cli, ExitCode> {
    let color = color_asked();
    let mut command = Cli::command().color(color);
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| {
        flag_names::remember(&command, &matches);
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    });
    parsed.map_err(|error| {
        let status = error.exit_code();
        let mut command = Cli::command().color(color).mut_args(|argument| argument.env(None));
        // Clap takes what the environment sets for something that was given: it repeats it in the
        // usage, and does not show the help of a command that is given alone.
        let error = command.try_get_matches_from_mut(std::env::args_os()).err().unwrap_or(error);
        let shown = match error.kind() {
            ErrorKind::MissingSubcommand => help(&mut command).unwrap_or(error),
            _ => error,
        };
        if shown.use_stderr() {
            let json = words().any(|word| word == "--json");
            Output::new(json, false, color).misused(&shown);
        } else {
            // A reader that has gone is no failure.
            let _ = shown.print();
        }
        ExitCode::from(u8::try_from(status).unwrap_or(2))
    })
}

/// When to use colours, by the words of a command that may not be one: what is wrong with it is shown
/// in them, or without.
fn color_asked() -> ColorChoice {
    let words: Vec<String> = words().collect();
    let asked = words.iter().enumerate().rev().find_map(|(nth, word)| match word.as_str() {
        "--color" => words.get(nth + 1).map(String::as_str),
        word => word.strip_prefix("--color="),
    });
    asked.and_then(|when| ColorChoice::from_str(when, false).ok()).unwrap_or_default()
}

/// The words of the command that can be flags.
fn words() -> impl Iterator<Item = String> {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    words.map(|word| word.to_string_lossy().into_owned())
}

/// What the command shows that was given, when it is asked for its short help.
fn help(command: &mut clap::Command) -> Option<clap::Error> {
    let asked = std::env::args_os().chain(["-h".into()]);
    command.try_get_matches_from_mut(asked).err()
}

async fn run(Cli { global, command }: Cli, output: Output) -> Result<(), Failure> {
    // A login may name a profile that is yet to be made.
    if let Command::Login(arguments) = command {
        let named = global.profile.clone();
        let global = Global { profile: None, ..global };
        let context = Context::new(&global, output)?;
        return cmd::login::login(&context, &global, named.as_deref(), arguments).await;
    }
    // Its client must be told what is missing, by each call.
    if let Command::Mcp(arguments) = command {
        return cmd::mcp::serve(global, &output, arguments).await;
    }
    let context = Context::new(&global, output)?;
    match command {
        Command::Run(arguments) => cmd::run::run(&context, *arguments).await,
        Command::File(command) => cmd::file::run(&context, command).await,
        Command::System(command) => cmd::system::run(&context, command).await,
        Command::Job(command) => cmd::job::run(&context, command).await,
        Command::Analysis(command) => cmd::analysis::run(&context, command).await,
        Command::Bundle(command) => cmd::bundle::run(&context, command),
        Command::Rerun(arguments) => cmd::rerun::run(&context, &arguments).await,
        Command::Estimate(command) => cmd::estimate::run(&context, command).await,
        Command::Margin(command) => cmd::margin::run(&context, command).await,
        Command::Analyze(arguments) => cmd::analyze::run(&context, &arguments),
        Command::Example { noun } => cmd::example::run(&context, noun),
        Command::Api(arguments) => cmd::api::run(&context, *arguments).await,
        Command::Profile(command) => cmd::login::profile(&context, command),
        Command::Account => cmd::service::account(&context).await,
        Command::Usage => cmd::service::usage(&context).await,
        Command::Events => cmd::events::of_account(&context).await,
        Command::Service(command) => cmd::service::run(&context, command).await,
        Command::Doctor => cmd::doctor::run(&context).await,
        Command::Completions { shell } => {
            cmd::reference::completions(&context, &mut Cli::command(), shell)
        }
        Command::Man { folder } => cmd::reference::man(&context, Cli::command(), &folder),
        Command::Reference => context.output.text(&cmd::reference::markdown(Cli::command())),
        Command::Login(_) | Command::Mcp(_) | Command::Up(_) => {
            Err(Failure::usage("answered above"))
        }
    }
}
