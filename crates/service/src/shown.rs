//! Texts of libraries and programs, as clients are shown them.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

/// Ends of a path in a text.
const ENDS: &[char] = &['"', '\'', '`', '<', '>', '|', ',', ';', ':', '(', ')', '[', ']', '{', '}'];

/// A text without the folders of the absolute paths in it, which are of no use to a client and show
/// how the machine is set up: `read /srv/molbox/x.dcd: …` becomes `read x.dcd: …`.
pub(crate) fn without_folders(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        shown += before;
        let end = path.find(|c: char| c.is_whitespace() || ENDS.contains(&c)).unwrap_or(path.len());
        let (path, after) = path.split_at(end);
        // Not within a word, as in kJ/mol/nm, nor in an address.
        let begins_one = shown
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || ENDS.contains(&c) || c == '=');
        let is_folder = path
            .trim_end_matches('/')
            .rfind('/')
            .filter(|last| *last > 0 && !path.starts_with("//"));
        shown += match is_folder.filter(|_| begins_one) {
            Some(last) => &path[last + 1..],
            None => path,
        };
        rest = after;
    }
    shown + rest
}

/// The same for every text in a value.
pub(crate) fn all_without_folders(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_folders(text),
        Value::Array(items) => items.iter_mut().for_each(all_without_folders),
        Value::Object(members) => members.values_mut().for_each(all_without_folders),
        _ => {}
    }
}

/// So many of something.
pub(crate) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A moment as people read it, in UTC: `2026-11-26 07:50:12Z`.
pub(crate) fn to_the_second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// A word of a command line that is shown to be pasted: in quotes where a shell would make something
/// else of it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    // There is no way to write a NUL, and neither names nor paths have one.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}

/// A number of bytes as people write it, with a decimal prefix.
pub(crate) fn in_bytes(count: u128) -> String {
    let mut value = count as f64;
    for unit in ["bytes", "kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return if unit == "bytes" {
                format!("{count} bytes")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_path_the_name_is_shown_and_all_else_is_left_as_it_is() {
        for (text, shown) in [
            ("read /srv/molbox/objects/x.dcd: Is a directory", "read x.dcd: Is a directory"),
            (
                "File \"/opt/env/lib/python3.12/site-packages/openmm/app/modeller.py\", line 3",
                "File \"modeller.py\", line 3",
            ),
            (
                "[Errno 2] No such file: '/data/tasks/job_1/input/'",
                "[Errno 2] No such file: 'input/'",
            ),
            ("PATH=/usr/bin:/opt/x", "PATH=bin:x"),
            ("/a/b and /c/d", "b and d"),
        ] {
            assert_eq!(without_folders(text), shown);
        }
        for kept in [
            "a force of 1e6 kJ/mol/nm",
            "see https://example.org/a/b",
            "an atom of :1/2/3@CA",
            "and/or",
            "a / b / c",
            "/",
            "",
            "1/4",
            "ü/ö/ä",
        ] {
            assert_eq!(without_folders(kept), kept);
        }
    }
}
