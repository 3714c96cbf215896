//! What to cite, for BibTeX.

use crate::output::harmless;

/// An entry for each article that the service or a report names.
const ENTRIES: &str = include_str!("references.bib");
/// What the entries of a run are written to, beside its report.
pub(super) const FILE: &str = "references.bib";

/// The program that made the run, for people.
pub(super) const SOFTWARE: &str = concat!(
    "Workflow molbox: the molbox authors, molbox ",
    env!("CARGO_PKG_VERSION"),
    " (software)"
);
/// The same for BibTeX, of which old styles know no software.
const ENTRY: &str = concat!(
    "@misc{molbox,\n  author = {{The molbox authors}},\n  title = {molbox},\n  \
     howpublished = {Computer software},\n  version = {",
    env!("CARGO_PKG_VERSION"),
    "},\n  note = {Version ",
    env!("CARGO_PKG_VERSION"),
    "}\n}\n"
);

/// The entries of these citations, in their order, and of this program; one that is not known here, of a later version
/// of the service, has what the service has said.
pub(super) fn bibtex(citations: &[String]) -> String {
    let mut text = String::new();
    let mut written: Vec<&str> = Vec::new();
    for citation in citations {
        for doi in dois(citation).filter(|doi| !doi.is_empty()) {
            if written.contains(&doi) {
                continue;
            }
            written.push(doi);
            match entry(doi) {
                Some(entry) => text.push_str(entry),
                None => text.push_str(&of_service(citation, doi)),
            }
            text.push('\n');
        }
    }
    text.push_str(ENTRY);
    text
}

/// An entry of what the service has said.
fn of_service(citation: &str, doi: &str) -> String {
    let key: String = doi.chars().filter(char::is_ascii_alphanumeric).collect();
    let note = latex(citation);
    // Styles do not escape this field alike: what has other signs is in the note only.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./-_():<>+".contains(c);
    let doi = match doi.chars().all(is_plain) {
        true => format!(",\n  doi = {{{doi}}}"),
        false => String::new(),
    };
    format!("@misc{{doi{key},\n  note = {{{note}}}{doi}\n}}\n")
}

/// A text as LaTeX prints it. BibTeX counts braces, even escaped ones.
fn latex(text: &str) -> String {
    let mut latex = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => latex.push_str("\\textbackslash{}"),
            '{' => latex.push_str("\\textbraceleft{}"),
            '}' => latex.push_str("\\textbraceright{}"),
            '~' => latex.push_str("\\textasciitilde{}"),
            '^' => latex.push_str("\\textasciicircum{}"),
            '%' | '&' | '#' | '_' | '$' => latex.extend(['\\', c]),
            '\n' => latex.push(' '),
            c => latex.push(harmless(c)),
        }
    }
    latex
}

/// The identifiers of articles in a citation: `10.1063/1.445869`.
fn dois(citation: &str) -> impl Iterator<Item = &str> {
    let parts = citation.split("doi:").skip(1);
    parts.map(|part| part.split(' ').next().unwrap_or_default().trim_end_matches([',', ';', '.']))
}

/// The entry of an article.
fn entry(doi: &str) -> Option<&'static str> {
    let at = ENTRIES.find(&format!("doi = {{{doi}}}"))?;
    let begin = ENTRIES[..at].rfind("@article")?;
    let end = at + ENTRIES[at..].find("\n}\n")? + 3;
    Some(&ENTRIES[begin..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there is what to cite.
    const SOURCES: [&str; 3] = [
        include_str!("analysed.rs"),
        include_str!("../../../../service/src/plan/force_field.rs"),
        include_str!("../../../../service/src/runner/cited.rs"),
    ];

    #[test]
    fn every_article_that_is_named_has_an_entry() {
        let mut n = 0;
        for source in SOURCES {
            // Texts go on over lines.
            let source: String =
                source.replace("\\\n", "").split_whitespace().collect::<Vec<_>>().join(" ");
            for doi in source.split("doi:").skip(1) {
                let doi = doi.split([' ', '"']).next().unwrap().trim_end_matches([',', ';']);
                assert!(entry(doi).is_some(), "{doi}");
                n += 1;
            }
        }
        assert!(n > 40, "{n}");
    }

    #[test]
    fn an_entry_is_whole_and_each_is_written_once() {
        let citations = [
            "Lipids: C. J. Dickson et al. (2014), doi:10.1021/ct4010307, and 18, 1726 (2022), doi:10.1021/acs.jctc.1c01217".to_owned(),
            "The same again, doi:10.1021/ct4010307".to_owned(),
            "A later method, doi:10.1/new.".to_owned(),
        ];
        let text = bibtex(&citations);
        assert_eq!(text.matches("@article{Dickson2014,").count(), 1, "{text}");
        assert!(
            text.contains("@article{Dickson2022,") && text.contains("doi = {10.1/new}"),
            "{text}"
        );
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    }

    #[test]
    fn what_a_service_says_is_text_to_latex() {
        let said = "50 % of {A_1} & \\input{/etc/passwd}\n$x^2$~#, doi:10.1/a}\\input{x".to_owned();
        let expected = "@misc{doi101ainputx,\n  note = {50 \\% of \\textbraceleft{}A\\_1\\textbraceright{} \
             \\& \\textbackslash{}input\\textbraceleft{}/etc/passwd\\textbraceright{} \
             \\$x\\textasciicircum{}2\\$\\textasciitilde{}\\#, \
             doi:10.1/a\\textbraceright{}\\textbackslash{}input\\textbraceleft{}x}\n}\n\n";
        let text = bibtex(&[said]);
        assert_eq!(text.strip_suffix(ENTRY), Some(expected));
    }

    #[test]
    fn the_program_is_cited_as_its_own_file_says() {
        let said = include_str!("../../../../../CITATION.cff");
        for line in ["title: molbox\n", "  - name: The molbox authors\n"] {
            assert!(said.contains(line), "{line}");
        }
        let text = bibtex(&[]);
        let version = format!("version = {{{}}}", env!("CARGO_PKG_VERSION"));
        for part in ["title = {molbox}", "author = {{The molbox authors}}", &version] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    }
}
