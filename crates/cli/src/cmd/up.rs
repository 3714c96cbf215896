//! `molbox up`: starts the service of this machine, which is a program of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::failure::{Code, Failure};

/// The service's program.
const MOLBOXD: &str = "molboxd";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// What `molboxd up` takes: `--detach`, `--no-browser`, `--data FOLDER` …
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

/// Becomes `molboxd up`, or waits for it where a process cannot become another.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let Some(molboxd) = found() else {
        let missing = format!("there is no {MOLBOXD} beside this program, nor on the search path");
        return Err(Failure::new(Code::File, missing).remedy(
            "`pip install molboxd` brings the service; `molbox login` uses one elsewhere",
        ));
    };
    let mut command = Command::new(&molboxd);
    command.arg("up").args(&arguments.options);
    become_it(&mut command).map_err(|error| Failure::file(&molboxd, &error))
}

#[cfg(unix)]
fn become_it(command: &mut Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn become_it(command: &mut Command) -> std::io::Result<ExitCode> {
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Beside this program, where it really lies, or on the search path.
fn found() -> Option<PathBuf> {
    let name = format!("{MOLBOXD}{}", std::env::consts::EXE_SUFFIX);
    let program = std::env::current_exe().ok()?;
    let resolved = program.canonicalize().ok();
    let beside = [Some(program), resolved].into_iter().flatten();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let searched = std::env::split_paths(&search).map(|folder| folder.join(&name));
    beside.map(|path| path.with_file_name(&name)).chain(searched).find(|path| path.is_file())
}
