//! All that the command line prints.

#[allow(clippy::print_stdout, reason = "what a command was asked for")]
pub(super) fn say(text: &str) {
    println!("{text}");
}

#[allow(clippy::print_stderr, reason = "what a command has to say besides")]
pub(super) fn say_error(text: &str) {
    eprintln!("{text}");
}
