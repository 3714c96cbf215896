//! What flags are called, and which the command that runs has: what is wrong with a field is said of the
//! flag that a person typed.

use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// Flags with names of their own; the others are called as their field.
pub(crate) const NAMES: [(&str, &str); 22] = [
    ("pH", "ph"),
    ("keep_Hs", "keep-hs"),
    ("ligands", "ligand"),
    ("production.type", "ensemble"),
    ("distance_masks", "distance"),
    ("rmsd_masks", "rmsd"),
    ("rmsf_masks", "rmsf"),
    ("hbond_masks", "hbond"),
    ("contact_masks", "contact"),
    ("gyration_masks", "gyration"),
    ("surface_masks", "surface"),
    ("secondary_structure_masks", "secondary-structure"),
    ("cluster_masks", "cluster"),
    ("dihedral_masks", "dihedral"),
    ("native_contact_masks", "native-contact"),
    ("rdf_masks", "rdf"),
    ("density_masks", "density"),
    ("pca_masks", "pca"),
    ("lipid_masks", "lipid"),
    ("end_to_end_masks", "end-to-end"),
    ("portfolio.futures", "future"),
    ("downsample_frames", "stride"),
];

/// What the id of a flag begins with that stands for a field; the rest is its path.
pub(crate) const FIELD: &str = "field:";

/// Ids of the flags that name a document with fields.
const DOCUMENTS: [&str; 2] = ["file", "portfolio"];

/// The flags of the command that runs.
static OWN: OnceLock<Own> = OnceLock::new();

#[derive(Default)]
struct Own {
    flags: Vec<Flag>,
    /// Whether fields may come from a file, whose names are those of the fields.
    has_file: bool,
}

struct Flag {
    /// `production.time`
    path: String,
    /// `--time`
    name: String,
    /// How often it was typed.
    n_given: usize,
    /// Whether it is given as JSON, whose parts have names.
    is_json: bool,
}

/// Notes which flags the command has that these matches are of.
pub(crate) fn remember(command: &Command, matches: &ArgMatches) {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, of_name)) = matches.subcommand()
        && let Some(below) = command.find_subcommand(name)
    {
        (command, matches) = (below, of_name);
    }
    let flags = command.get_arguments().filter_map(|arg| {
        let id = arg.get_id().as_str();
        let is_typed = matches.value_source(id) == Some(ValueSource::CommandLine);
        let n_given = matches.indices_of(id).filter(|_| is_typed).map_or(0, Iterator::count);
        let path = id.strip_prefix(FIELD)?.to_owned();
        let is_json = arg.get_value_names().is_some_and(|names| names == ["JSON"]);
        Some(Flag { path, name: format!("--{}", arg.get_long()?), n_given, is_json })
    });
    let flags: Vec<Flag> = flags.collect();
    let has_file = command.get_arguments().any(|arg| {
        let id = arg.get_id().as_str();
        DOCUMENTS.contains(&id) && matches.value_source(id) == Some(ValueSource::CommandLine)
    });
    // There is one command in a process.
    let _ = OWN.set(Own { flags, has_file });
}

/// A field as whoever gave it by a flag knows it: `rmsd_masks[0][0]` as `--rmsd`.
pub(crate) fn shown_place(field: &str) -> String {
    OWN.get().and_then(|own| own.place(field)).unwrap_or_else(|| field.to_owned())
}

/// A message whose fields are called by their flags, those that could be words if they are in backticks:
/// `allow_unfinished: true` as `--allow-unfinished`.
pub(crate) fn shown_text(message: &str) -> String {
    OWN.get().map_or_else(|| message.to_owned(), |own| own.text(message))
}

impl Own {
    fn place(&self, field: &str) -> Option<String> {
        let is_end = |rest: &str| rest.is_empty() || rest.starts_with(['[', '.']);
        let (flag, rest) = self.flags.iter().find_map(|flag| {
            field.strip_prefix(&flag.path).filter(|rest| is_end(rest)).map(|rest| (flag, rest))
        })?;
        if flag.n_given == 0 && (self.has_file || rest.contains('.')) {
            return None;
        }
        let name = &flag.name;
        let nth: Option<usize> =
            rest.strip_prefix('[').and_then(|rest| rest.split_once(']')?.0.parse().ok());
        Some(match nth {
            Some(nth) if flag.n_given > 1 => format!("{name} (number {})", nth.saturating_add(1)),
            _ if flag.is_json && !rest.is_empty() => {
                format!("{name} {}", rest.trim_start_matches('.'))
            }
            _ => name.clone(),
        })
    }

    fn text(&self, message: &str) -> String {
        let parts = message.split('`').enumerate().map(|(nth, part)| {
            let is_quoted = nth % 2 == 1;
            if is_quoted {
                self.quoted(part).unwrap_or_else(|| part.to_owned())
            } else {
                self.plain(part)
            }
        });
        parts.collect::<Vec<String>>().join("`")
    }

    /// What is not in backticks, its fields as flags where they are no words of a language.
    fn plain(&self, part: &str) -> String {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name =
            |word: &str| word.contains('_') || word.chars().skip(1).any(|c| c.is_ascii_uppercase());
        let mut text = String::new();
        let mut rest = part;
        while !rest.is_empty() {
            let end = |is: &dyn Fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
            let end = end(&is_of_word).max(end(&|c| !is_of_word(c)));
            let (word, after) = rest.split_at(end);
            let flag = Some(word).filter(|word| is_name(word)).and_then(|word| self.quoted(word));
            text.push_str(flag.as_deref().unwrap_or(word));
            rest = after;
        }
        text
    }

    /// A field, or a field with its value, as the flag that gives it.
    fn quoted(&self, part: &str) -> Option<String> {
        let (field, value) = match part.split_once(": ") {
            Some((field, value)) => (field, Some(value)),
            None => (part, None),
        };
        let last = |path: &str| path.rsplit('.').next() == Some(field);
        let flag = self.flags.iter().find(|flag| flag.path == field || last(&flag.path))?;
        if flag.n_given == 0 && self.has_file {
            return None;
        }
        Some(match value {
            None | Some("true") => flag.name.clone(),
            Some(value) => format!("{} {value}", flag.name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Flag, Own};

    fn own(has_file: bool) -> Own {
        let flag = |path: &str, name: &str, n_given| Flag {
            path: path.to_owned(),
            name: name.to_owned(),
            n_given,
            is_json: path == "equilibration",
        };
        Own {
            flags: vec![
                flag("rmsd_masks", "--rmsd", 2),
                flag("rmsf_masks", "--rmsf", 1),
                flag("hbond_distance", "--hbond-distance", 0),
                flag("equilibration", "--equilibration", 1),
                flag("production.time", "--time", 1),
                flag("allow_unfinished", "--allow-unfinished", 0),
                flag("portfolio.futures", "--future", 1),
                flag("settings.endDate", "--end-date", 1),
            ],
            has_file,
        }
    }

    #[test]
    fn a_place_is_the_flag_that_it_was_given_by() {
        for (field, shown) in [
            ("rmsd_masks[1][0]", Some("--rmsd (number 2)")),
            ("rmsf_masks[0][0]", Some("--rmsf")),
            ("production.time", Some("--time")),
            ("production.timely", None),
            ("equilibration[1].time", Some("--equilibration [1].time")),
            ("portfolio.futures[0].quantity", Some("--future")),
            ("hbond_distance", Some("--hbond-distance")),
            ("unknown", None),
        ] {
            assert_eq!(own(false).place(field).as_deref(), shown, "{field}");
        }
        assert_eq!(own(true).place("hbond_distance"), None, "it may be the file's");
        assert_eq!(own(true).place("rmsf_masks[0]").as_deref(), Some("--rmsf"));
    }

    #[test]
    fn fields_in_a_message_are_called_by_their_flags() {
        for (message, shown) in [
            ("`allow_unfinished: true` does it", "`--allow-unfinished` does it"),
            ("needs `rmsd_masks` or `time`", "needs `--rmsd` or `--time`"),
            ("one of `x` and rmsd_masks.", "one of `x` and --rmsd."),
            ("is after endDate (of time)", "is after --end-date (of time)"),
        ] {
            assert_eq!(own(false).text(message), shown);
        }
        assert_eq!(
            own(true).text("`hbond_distance` of `rmsd_masks`"),
            "`hbond_distance` of `--rmsd`"
        );
    }
}
