//! Markdown, of a type of its own. What is not Markdown is text to whoever reads the report,
//! whatever it looks like: the chain of a structure may be called `![x](/etc/passwd)`.

use std::fmt;

use crate::output::harmless;

/// Markdown that this program has written. It is made with [`md!`], which takes texts of others
/// for what they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Markdown(String);

/// What goes into Markdown: markup as it is, texts escaped.
pub(super) trait Piece {
    fn add_to(&self, markdown: &mut String);
}

/// Markdown after a template, with a piece in place of each `{}`.
macro_rules! md {
    ($template:literal $(, $piece:expr)* $(,)?) => {{
        const {
            let pieces: &[&str] = &[$(stringify!($piece)),*];
            assert!($crate::cmd::report::markdown::count_holes($template) == pieces.len());
        }
        $crate::cmd::report::markdown::Markdown::of($template, &[$(&$piece),*])
    }};
}
pub(super) use md;

/// How many pieces a template takes.
///
/// # Panics
///
/// Of a hole with a name or a format: what is in it would not be escaped.
pub(super) const fn count_holes(template: &str) -> usize {
    let bytes = template.as_bytes();
    let (mut n_holes, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b'{' {
            assert!(at + 1 < bytes.len() && bytes[at + 1] == b'}', "a hole is empty");
            n_holes += 1;
        }
        at += 1;
    }
    n_holes
}

impl Markdown {
    /// Only for [`md!`], which has counted the pieces.
    pub(super) fn of(template: &'static str, pieces: &[&dyn Piece]) -> Self {
        let mut markdown = String::new();
        let mut literals = template.split("{}");
        markdown.extend(literals.next());
        for (piece, literal) in pieces.iter().zip(literals) {
            piece.add_to(&mut markdown);
            markdown.push_str(literal);
        }
        Self(markdown)
    }

    pub(super) fn push(&mut self, piece: impl Piece) {
        piece.add_to(&mut self.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// As if this program had written it.
    #[cfg(test)]
    pub(super) fn unchecked(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Without the white space at its end.
    pub(super) fn trimmed(mut self) -> Self {
        self.0.truncate(self.0.trim_end().len());
        self
    }
}

/// A text as code: a name, a mask, a digest.
pub(super) fn code(text: &str) -> Markdown {
    let text: String = text.chars().map(on_a_line).collect();
    // A backslash is one in code, but before a bar in a table, and there not for all readers.
    if text.trim().is_empty() || text.contains("\\|") {
        return md!("{}", text);
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let is_padded = text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']);
    let pad = if is_padded { " " } else { "" };
    Markdown(format!("{fence}{pad}{text}{pad}{fence}"))
}

/// A message of the service, which has names and masks between backticks: they are code here too.
pub(super) fn message(text: &str) -> Markdown {
    let parts: Vec<&str> = text.split('`').collect();
    let is_paired =
        parts.len() % 2 == 1 && parts.iter().skip(1).step_by(2).all(|it| !it.is_empty());
    if !is_paired {
        return md!("{}", text);
    }
    let of_part = |(nth, part): (usize, &&str)| match nth % 2 {
        0 => md!("{}", part),
        _ => code(part),
    };
    let parts: Vec<Markdown> = parts.iter().enumerate().map(of_part).collect();
    joined(&parts, "")
}

/// A link to a file or a folder, by a path from the report.
pub(super) fn link(shown: &str, path: &str) -> Markdown {
    let target = Markdown(target(path));
    md!("[{}]({})", shown, target)
}

/// A path as links and pictures have it.
pub(super) fn target(path: &str) -> String {
    let mut target = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                target.push(byte.into());
            }
            byte => target.push_str(&format!("%{byte:02X}")),
        }
    }
    target
}

/// A row of a table.
pub(super) fn row(cells: &[&dyn Piece]) -> Markdown {
    let mut row = "|".to_owned();
    for cell in cells {
        row.push(' ');
        let mut text = String::new();
        cell.add_to(&mut text);
        // Bars of texts are escaped; what is left of them is in code, and ends a cell there too.
        let mut before = ' ';
        for c in text.chars() {
            if c == '|' && before != '\\' {
                row.push('\\');
            }
            row.push(c);
            before = c;
        }
        row.push_str(" |");
    }
    row.push('\n');
    Markdown(row)
}

pub(super) fn joined(pieces: &[impl Piece], by: &'static str) -> Markdown {
    let mut markdown = Markdown::default();
    for (nth, piece) in pieces.iter().enumerate() {
        if nth > 0 {
            markdown.0.push_str(by);
        }
        markdown.push(piece);
    }
    markdown
}

/// `a, b and c`.
pub(super) fn listed(pieces: &[impl Piece]) -> Markdown {
    match pieces {
        [first @ .., last] if !first.is_empty() => md!("{} and {}", joined(first, ", "), last),
        few => joined(few, ""),
    }
}

/// A character that begins no other line, and does nothing where it is shown.
fn on_a_line(c: char) -> char {
    match c {
        '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        c => harmless(c),
    }
}

/// Adds a text so that each of its characters stands for itself. Backslashes are only where some
/// reader of Markdown would else see more than a character: people read it too.
fn escape(text: &str, markdown: &mut String) {
    let mut chars: Vec<char> = text.chars().map(on_a_line).collect();
    // Four spaces begin a block of code, two break a line.
    chars.dedup_by(|c, before| *c == ' ' && *before == ' ');
    for at in 0..chars.len() {
        if is_markup(&chars, at) {
            markdown.push('\\');
        }
        markdown.push(chars[at]);
    }
}

/// Whether a character of a text may be markup where it is, or where the text may come to be: at
/// the beginning of a line, or before a bracket.
fn is_markup(text: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|at| text[at]);
    let after = text.get(at + 1).copied();
    let is_first = text[..at].iter().all(|c| *c == ' ');
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    match text[at] {
        '\\' | '`' | '[' | ']' | '|' | '$' | '~' => true,
        '*' => is_first || before != Some(' ') || after != Some(' '),
        '_' => !(is_word(before) && is_word(after)),
        '<' => after != Some(' '),
        '&' => {
            let is_name = |c: &&char| c.is_ascii_alphanumeric() || **c == '#';
            let rest = &text[at + 1..];
            let end = rest.get(rest.iter().take_while(is_name).count());
            matches!(end, None | Some(';'))
        }
        '!' => after.is_none(),
        '#' => is_first || before == Some(' '),
        '>' => is_first,
        '-' | '+' | '=' => is_first && !is_word(after) && after != Some('.'),
        '.' | ')' => {
            let number = text[..at].iter().skip_while(|c| **c == ' ');
            let is_number = !is_first && number.clone().all(char::is_ascii_digit);
            is_number && matches!(after, None | Some(' '))
        }
        _ => false,
    }
}

impl fmt::Display for Markdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Piece for Markdown {
    fn add_to(&self, markdown: &mut String) {
        markdown.push_str(&self.0);
    }
}

impl Piece for str {
    fn add_to(&self, markdown: &mut String) {
        escape(self, markdown);
    }
}

impl Piece for String {
    fn add_to(&self, markdown: &mut String) {
        escape(self, markdown);
    }
}

impl<T: Piece + ?Sized> Piece for &T {
    fn add_to(&self, markdown: &mut String) {
        (**self).add_to(markdown);
    }
}

/// Nothing of what is not there.
impl<T: Piece> Piece for Option<T> {
    fn add_to(&self, markdown: &mut String) {
        if let Some(piece) = self {
            piece.add_to(markdown);
        }
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Piece for $number {
            fn add_to(&self, markdown: &mut String) {
                markdown.push_str(&self.to_string());
            }
        }
    )*};
}
numbers!(u32 u64 usize i64 f64);

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    use super::*;

    /// The texts of Markdown, and everything else that a reader sees in it.
    fn read(markdown: &Markdown) -> (String, Vec<String>) {
        let mut text = String::new();
        let mut markup = Vec::new();
        // What GitHub and editors know beyond tables.
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_MATH
            | Options::ENABLE_GFM;
        for event in Parser::new_ext(markdown.as_str(), options) {
            match event {
                Event::Text(part) | Event::Code(part) => text.push_str(&part),
                Event::Start(Tag::Paragraph | Tag::Item | Tag::Heading { .. } | Tag::List(_)) => {}
                Event::Start(Tag::Table(_) | Tag::TableHead | Tag::TableRow | Tag::TableCell) => {}
                Event::End(
                    TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_) | TagEnd::List(_),
                ) => {}
                Event::End(
                    TagEnd::Table | TagEnd::TableHead | TagEnd::TableRow | TagEnd::TableCell,
                ) => text.push(' '),
                other => markup.push(format!("{other:?}")),
            }
        }
        (text.split_whitespace().collect::<Vec<_>>().join(" "), markup)
    }

    fn is_text(text: &str) {
        let expected: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let head = md!("| a |\n|---|\n");
        let places = [
            (md!("{}\n", text), ""),
            (md!("- {}\n", text), ""),
            (md!("# {}\n", text), ""),
            (md!("of {} and\n", text), "of and"),
            (md!("of {} and {}.\n", text, code("x")), "of and x."),
            (md!("{}{}\n", head, row(&[&text])), "a"),
            (md!("{}{}\n", head, row(&[&code(text)])), "a"),
            (md!("of {} and\n", code(text)), "of and"),
            (md!("of {} and `\n", code(text)), "of and `"),
        ];
        for (markdown, around) in places {
            let (found, markup) = read(&markdown);
            assert_eq!(markup, Vec::<String>::new(), "{text:?} in {markdown:?}");
            let words: Vec<&str> = around.split(' ').filter(|word| !word.is_empty()).collect();
            let found: String = found.split(' ').collect();
            let whole: String = match words.as_slice() {
                [first, rest @ ..] => format!("{first}{expected}{}", rest.join("")),
                [] => expected.clone(),
            };
            assert_eq!(found, whole.split(' ').collect::<String>(), "{text:?} in {markdown:?}");
        }
    }

    #[test]
    fn texts_that_look_like_markup_are_texts() {
        for text in [
            "![x](../../../../etc/passwd)",
            "![x](&#47;etc&#47;passwd).pdb",
            "[click](javascript:alert(document.domain))",
            "[click][1]",
            "[1]: javascript:alert(1)",
            "[^1]: note",
            "<javascript:alert(1)>",
            "<&ada@example.org>",
            "<script>alert(1)</script>",
            "<!-- x",
            "a\n\n# b\r\n---\n| c |",
            "    code",
            "- item",
            "+ item",
            "12. item",
            "7) item",
            "> quoted",
            "# head #",
            "===",
            "---",
            "***",
            "~~~",
            "~~gone~~",
            "$x$",
            "&lt;b&gt;",
            "&copy;&#x41;&amp",
            "`a` ``b",
            "a\\|b\\",
            "a\\\\|b",
            "|`|",
            "\\",
            "!",
        ] {
            is_text(text);
        }
    }

    #[test]
    fn no_text_of_signs_is_markup() {
        let signs: Vec<char> = "\\`*_[]()<>!#&;|-+=~:1.a ^{}\n".chars().collect();
        // A quarter of all orders of three, with a fourth behind them.
        let n = signs.len();
        for first in 0..n {
            for second in 0..n {
                for third in ((first + second) % 4..n).step_by(4) {
                    let fourth = (first * 7 + second * 3 + third) % n;
                    let text: String =
                        [first, second, third, fourth].map(|nth| signs[nth]).iter().collect();
                    is_text(&text);
                }
            }
        }
    }

    #[test]
    fn ordinary_text_is_as_people_write_it() {
        for text in [
            "SO4 101 of chain A removed",
            "RMSD of the α-carbons (@CA&@/C), 3 * 4 < 5! & more",
            "!:HOH,NA,CL&!@/H",
            "equilibration_1 took -3.5 kJ/mol; 12.5 nm³ (40 %)",
            "TIP3P: W. L. Jorgensen et al., J. Chem. Phys. 79, 926 (1983), doi:10.1063/1.445869",
            "-3.5",
            "1.0",
            "C#",
            "6.18.44-fc-v657",
        ] {
            assert_eq!(md!("{}", text).as_str(), text);
        }
        assert_eq!(code("!:HOH|:NA").as_str(), "`!:HOH|:NA`");
        assert_eq!(
            row(&[&code("!:HOH|:NA"), &"a|b", &1_u64]).as_str(),
            "| `!:HOH\\|:NA` | a\\|b | 1 |\n"
        );
    }

    #[test]
    fn a_message_has_code_where_the_service_has_it() {
        let said = "column 2: `:41` counts residues, A_1 is `:;41`";
        assert_eq!(message(said).as_str(), said);
        let hostile = message("`a` [x](y) ``b`` `");
        assert_eq!(hostile.as_str(), "\\`a\\` \\[x\\](y) \\`\\`b\\`\\` \\`");
        assert_eq!(message("`a\nb` ![x](y)").as_str(), "`a b` !\\[x\\](y)");
    }

    #[test]
    fn what_commands_a_terminal_or_turns_round_is_shown_as_nothing() {
        assert_eq!(md!("{}", "a\u{1b}[2J\u{202e}b\u{2028}c").as_str(), "a\u{fffd}\\[2J\u{fffd}b c");
        assert_eq!(code("a\u{202e}b\nc").as_str(), "`a\u{fffd}b c`");
    }

    #[test]
    fn paths_of_links_stay_paths() {
        let folder = link("files", "replica_1/job_7cpejpkq0zxnh8yydfbe/");
        assert_eq!(folder.as_str(), "[files](replica_1/job_7cpejpkq0zxnh8yydfbe/)");
        assert_eq!(link("x](y", "a) (b:%").as_str(), "[x\\](y](a%29%20%28b%3A%25)");
    }
}
