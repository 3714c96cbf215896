//! All that the command line prints.

use std::io::{self, Write as _};

/// Prints what a command was asked for. Whoever has stopped reading, as `head` does, is not owed an
/// error, and the command goes on.
pub(super) fn say(text: &str) {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say_error(&format!("molboxd: write to standard output: {error}"));
        }
        _ => {}
    }
}

#[allow(clippy::print_stderr, reason = "what a command has to say besides")]
pub(super) fn say_error(text: &str) {
    eprintln!("{text}");
}
