//! What is done to the repository: `cargo xtask --help`.

mod answering;
mod backends;
mod clients;
mod cluster;
mod conformance;
mod demo;
mod docs;
mod errors;
mod fuzz;
mod imports;
mod later;
mod lint;
mod mcp;
mod package;
mod packages;
mod portal;
mod publish;
mod python;
mod regenerate;
mod release;
mod rooms;
mod service;
mod shell;
mod soak;
mod sources;
mod spec;
mod test;
mod thin;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::shell::root;

/// Checks, derived files, tests and the demo of molbox.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the main job on a real protein: service, engine, client, results, picture.
    Demo {
        /// Also on PostgreSQL, S3 and Slurm with two servers behind a load balancer, one of which is
        /// killed on the way, as is Slurm's controller; the results are to be the same.
        #[arg(long)]
        cluster: bool,
    },
    /// Run every test of every crate and of the worker, and set up what they need.
    Test {
        /// The steps of one lane alone; the others have built what they need.
        #[arg(long, hide = true)]
        lane: Option<test::Lane>,
    },
    /// Feed random bytes to everything that parses strangers' bytes.
    Fuzz {
        /// How long, for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Random kills, bytes and requests, and long tests, for hours: figures are kept
    /// in target/soak, and a run that was stopped is resumed by the next.
    Soak {
        /// How long, in hours.
        #[arg(long, default_value_t = 1.0)]
        hours: f64,
        /// One part: kills, service, requests, worker, docs, fuzz, or one of several such as fuzz/mask and
        /// kills/postgres+s3.
        #[arg(long, value_name = "PART")]
        only: Option<String>,
        /// Forget what the parts have done before.
        #[arg(long)]
        fresh: bool,
    },
    /// Generate clients in other languages, compile them, and run the main job with each.
    Clients {
        /// Of python, typescript, go and java; all when left out.
        languages: Vec<clients::Language>,
    },
    /// Pack what is published, and build and run crates of strangers with it.
    Packages,
    /// Build wheels, Debian packages and an archive of this platform into target/dist.
    Package {
        /// Newest glibc that the programs may need, for example 2.28; they are linked by zig then.
        #[arg(long)]
        glibc: Option<String>,
        #[command(subcommand)]
        command: Option<PackageCommand>,
    },
    /// Build the portal, which the next build of molboxd then contains.
    Portal,
    /// Make the worker's Python environment under target/.
    WorkerEnv,
    /// Write everything that is derived: from the document, and from what the programs say of
    /// themselves.
    Regenerate {
        /// Change nothing; fail when something is stale.
        #[arg(long)]
        check: bool,
    },
    /// Look at the document.
    #[command(subcommand)]
    Spec(spec::Spec),
    /// Build the site of guides and reference to target/site, and for the next build of molboxd.
    Docs {
        /// Run the commands of the pages instead, and compare what they answer.
        #[arg(long)]
        run: bool,
        /// Of the pages that simulate for long.
        #[arg(long, requires = "run")]
        long: bool,
    },
    /// Check the invariants of ARCHITECTURE.md.
    Tidy,
    /// Begin the work on another version: packages, document, worker, changelog.
    Version {
        /// For example 0.2.0.
        version: String,
    },
    /// Release the last commit as the version that it has; RELEASING.md says what comes before and
    /// after.
    Release {
        /// Do all of it in a clone, and take nothing over; of `publish`, only say what would be done.
        #[arg(long, global = true)]
        dry_run: bool,
        #[command(subcommand)]
        command: Option<ReleaseCommand>,
    },
}

#[derive(Subcommand)]
enum ReleaseCommand {
    /// Fail unless the tag, the packages, the changelog and the document are of one version.
    Check {
        /// For example v0.2.0.
        tag: String,
    },
    /// Publish what lies here, what is there already left out: all, or the steps that are named.
    Publish { steps: Vec<publish::Step> },
    /// Print what the changelog says of this version.
    Notes,
}

#[derive(Subcommand)]
enum PackageCommand {
    /// Install what was built into empty environments, bring a service up, run a simulation, end it.
    Check {
        /// The wheels alone, of the programs as the tests build them, which are made for it.
        #[arg(long)]
        debug: bool,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Task::Demo { cluster: false } => demo::demo(),
        Task::Demo { cluster: true } => cluster::demo(),
        Task::Test { lane: None } => test::test(),
        Task::Test { lane: Some(lane) } => lane.run(),
        Task::Fuzz { seconds } => fuzz::fuzz(seconds),
        Task::Soak { hours, only, fresh } => soak::soak(hours, only.as_deref(), fresh),
        Task::Clients { languages } => clients::clients(&languages),
        Task::Packages => packages::packages(),
        Task::Package { command: Some(PackageCommand::Check { debug: false }), .. } => {
            package::check()
        }
        Task::Package { command: Some(PackageCommand::Check { debug: true }), .. } => {
            package::try_out()
        }
        Task::Package { command: None, glibc } => package::package(glibc.as_deref()),
        Task::Portal => portal::portal(),
        Task::WorkerEnv => python::environment().map(|python| println!("{}", python.display())),
        Task::Regenerate { check: true } => regenerate::regenerate(true),
        Task::Regenerate { check: false } => {
            regenerate::regenerate(false).and_then(|()| thin::renew_go())
        }
        Task::Spec(spec) => match spec::run(&spec) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error),
        },
        Task::Docs { run: true, long } => docs::run(long),
        // Not what the programs print of themselves: they need not be built for it.
        Task::Docs { .. } => regenerate::check_document().and_then(|()| docs::site()),
        Task::Tidy => tidy::tidy(),
        Task::Version { version } => release::version(&root(), &version),
        Task::Release { command: None, dry_run } => release::release(&root(), dry_run),
        Task::Release { command: Some(ReleaseCommand::Check { tag }), .. } => {
            release::check(&root(), &tag)
        }
        Task::Release { command: Some(ReleaseCommand::Publish { steps }), dry_run } => {
            publish::publish(&root(), &steps, dry_run)
        }
        Task::Release { command: Some(ReleaseCommand::Notes), .. } => release::notes(&root()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
