//! `openapi-drift OLD NEW`: what a change of an OpenAPI document breaks.

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use openapi_drift::{Api, Level, Report, read};

/// Finds what a change of an OpenAPI document breaks: on the wire, in generated Rust, and in
/// clients of other generators.
///
/// Ends with 0 when nothing breaks, with 1 when something does (--fail-on says what counts), with 2
/// when a document cannot be read, the verdict that --fail-on asks for is unknown, or the command
/// line is wrong.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The document that clients know: a file, or REVISION:PATH of a git repository
    /// (REVISION:./PATH for a path from this folder). OpenAPI 3.0 or 3.1, JSON or YAML.
    old: String,
    /// The document that comes after it: the same.
    new: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print what is cosmetic too.
    #[arg(long)]
    all: bool,
    /// What ends with 1 when it breaks.
    #[arg(long, value_enum, default_value_t = FailOn::Wire)]
    fail_on: FailOn,
    /// End with 0 when the version went up as far as a break needs: a minor version below 1.0, else
    /// a major one.
    #[arg(long)]
    allow_announced: bool,
    /// Where the documents have that version, as a JSON pointer.
    #[arg(long, value_name = "POINTER", default_value = "/info/version")]
    version_at: String,
    /// Generate no Rust: faster, and Rust is `unknown`.
    #[arg(long)]
    no_rust: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FailOn {
    /// Clients that were made before the change.
    Wire,
    /// The same, or code that uses the generated Rust.
    Rust,
    /// Either, or code that uses a client of another generator.
    Any,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            let causes = std::iter::successors(error.source(), |cause| cause.source());
            let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
            // Nobody is left to hear of a failure of this.
            let _ = writeln!(io::stderr(), "openapi-drift: {text}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let old = read(&cli.old)?;
    let new = read(&cli.new)?;
    let level = match cli.fail_on {
        FailOn::Wire => Level::Wire,
        FailOn::Rust => Level::Rust,
        FailOn::Any => Level::Any,
    };
    let report = compared(&old, &new, cli.no_rust)
        .with_version_at(&old, &new, &cli.version_at)
        .at_level(level);
    let text = if cli.json {
        serde_json::to_string_pretty(&report.json())? + "\n"
    } else {
        report.text(cli.all)
    };
    match io::stdout().write_all(text.as_bytes()) {
        // `| head` is no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        result => result?,
    }
    let is_broken = report
        .is_broken()
        .map_err(|reason| format!("the verdict for Rust is unknown: {reason}"))?;
    let is_fine = !is_broken || cli.allow_announced && report.is_announced();
    Ok(ExitCode::from(u8::from(!is_fine)))
}

#[cfg(feature = "rust")]
fn compared(old: &Api, new: &Api, no_rust: bool) -> Report {
    if no_rust { Report::new(old, new) } else { Report::with_rust(old, new) }
}

#[cfg(not(feature = "rust"))]
fn compared(old: &Api, new: &Api, _: bool) -> Report {
    Report::new(old, new)
}
