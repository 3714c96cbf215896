//! All that the command line prints.

use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::tcgetwinsize;

static LOST: AtomicBool = AtomicBool::new(false);

/// Of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;

/// Prints what a command was asked for, on a terminal in lines that end between words.
pub(super) fn say(text: &str) {
    say_whole(&fitted(text, width_of(io::stdout())));
}

/// Prints what is copied or read by a program, in the lines that it has. Whoever has stopped
/// reading, as `head` does, is not owed an error, and the command goes on.
pub(super) fn say_whole(text: &str) {
    match writeln!(io::stdout(), "{text}") {
        // Of a list every line would say it.
        Err(error)
            if error.kind() != io::ErrorKind::BrokenPipe && !LOST.swap(true, Ordering::Relaxed) =>
        {
            say_error(&format!("molboxd: write to standard output: {error}"));
        }
        _ => {}
    }
}

/// Whether something could not be printed.
pub(super) fn has_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

#[allow(clippy::print_stderr, reason = "what a command has to say besides")]
pub(super) fn say_error(text: &str) {
    eprintln!("{}", fitted(text, width_of(io::stderr())));
}

/// What a line of a terminal holds; none elsewhere.
pub(super) fn width_of(stream: impl AsFd + IsTerminal) -> Option<usize> {
    stream.is_terminal().then(|| {
        let size = tcgetwinsize(stream).map(|size| usize::from(size.ws_col)).ok();
        size.filter(|width| *width > 0).unwrap_or(USUAL_WIDTH)
    })
}

fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    text.split('\n').map(|line| folded(line, width)).collect::<Vec<_>>().join("\n")
}

/// A line that goes on below where its text begins: behind the first word of a list, as that of
/// `ok      database: sound`.
fn folded(line: &str, width: usize) -> String {
    let length = |text: &str| text.chars().count();
    if length(line) <= width {
        return line.to_owned();
    }
    let gap = line.find("  ").unwrap_or(0);
    let blanks = line[gap..].len() - line[gap..].trim_start_matches(' ').len();
    let below = Some(length(&line[..gap]) + blanks).filter(|below| *below <= width / 2);
    let below = below.unwrap_or(0);
    let (mut folded, mut column) = (String::new(), 0);
    for (nth, word) in line.split(' ').enumerate() {
        if nth > 0 && column > below && column + 1 + length(word) > width {
            folded.push('\n');
            folded.extend(std::iter::repeat_n(' ', below));
            column = below;
        } else if nth > 0 {
            folded.push(' ');
            column += 1;
        }
        folded.push_str(word);
        column += length(word);
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::fitted;

    #[test]
    fn lines_end_between_words_and_go_on_below_their_text() {
        for (text, expected) in [
            ("make it with `molboxd account`", "make it with `molboxd\naccount`"),
            ("ok      database: sound; no account", "ok      database: sound;\n        no account"),
            ("short\nand another line of a text", "short\nand another line of a\ntext"),
            ("mbx_0123456789012345678901234567", "mbx_0123456789012345678901234567"),
            ("    LIMITS of it are below the row", "    LIMITS of it are\n    below the row"),
        ] {
            assert_eq!(fitted(text, Some(24)), expected);
            assert_eq!(fitted(text, None), text, "no terminal");
        }
    }
}
