//! The report as a page of its own, with its pictures in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use super::markdown::{Markdown, target};

/// Tables that are wider than the page move by themselves, and on paper nothing is cut off.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem \
    auto;padding:0 1rem;color:#1a1a1a}img{max-width:100%}\
    table{display:block;overflow-x:auto;border-collapse:collapse;font-size:.9rem}\
    td,th{padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ccc;text-align:left;\
    vertical-align:top}code{background:#f3f3f3;padding:0 .2rem;overflow-wrap:anywhere}\
    td code{overflow-wrap:normal}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}\
    @media print{body{font-size:10pt;max-width:none;margin:0}table{display:table}\
    td code{overflow-wrap:anywhere}\
    img,tr{break-inside:avoid}}";

/// A page needs nothing but its pictures and its style; cells that are aligned have one of their
/// own.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri \
    'none'; form-action 'none'";

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Pictures that this program has put into the folder of a run, by their paths in it. No other file
/// gets into a page.
#[derive(Debug)]
pub(super) struct Pictures {
    folder: PathBuf,
    paths: Vec<String>,
}

impl Pictures {
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), paths: Vec::new() }
    }

    pub(super) fn add(&mut self, path: String) {
        self.paths.push(path);
    }

    fn read(&self, linked: &str) -> io::Result<Vec<u8>> {
        let path = self.paths.iter().find(|path| target(path) == linked);
        let path = path.ok_or_else(|| io::Error::other("it is no picture of this report"))?;
        let path = self.folder.join(path).canonicalize()?;
        if !path.starts_with(self.folder.canonicalize()?) || !path.is_file() {
            return Err(io::Error::other("it is no file in the folder of the run"));
        }
        let content = fs::read(path)?;
        if !content.starts_with(PNG) {
            return Err(io::Error::other("it is no PNG"));
        }
        Ok(content)
    }
}

/// The page of a report. In place of a picture that cannot be read it has the reason.
pub(super) fn page(title: &str, report: &Markdown, pictures: &Pictures) -> String {
    let mut events = Vec::new();
    let mut unread = None;
    let mut is_link_left_out = false;
    for event in Parser::new_ext(report.as_str(), Options::ENABLE_TABLES) {
        events.push(match event {
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                match pictures.read(&dest_url) {
                    Ok(picture) => {
                        let picture = BASE64_STANDARD.encode(picture);
                        let dest_url = format!("data:image/png;base64,{picture}").into();
                        Event::Start(Tag::Image { link_type, dest_url, title, id })
                    }
                    Err(error) => {
                        unread = Some(error);
                        continue;
                    }
                }
            }
            Event::End(TagEnd::Image) => match unread.take() {
                Some(error) => Event::Text(format!(": the picture is not shown, {error}").into()),
                None => Event::End(TagEnd::Image),
            },
            Event::Start(Tag::Link { ref dest_url, .. }) if !leads_to_a_page(dest_url) => {
                is_link_left_out = true;
                continue;
            }
            Event::End(TagEnd::Link) if is_link_left_out => {
                is_link_left_out = false;
                continue;
            }
            // The report has no HTML; what looks like it is text.
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            other => other,
        });
    }
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta \
             http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<meta \
             name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style>\n<title>"
    );
    html::push_html(&mut page, std::iter::once(Event::Text(title.into())));
    page.push_str("</title>\n");
    html::push_html(&mut page, events.into_iter());
    page
}

/// Whether a link leads to a file of the run, or to the web.
fn leads_to_a_page(target: &str) -> bool {
    let is_in_the_run = !target.starts_with('/')
        && !target.contains([':', '\\'])
        && target.split('/').all(|part| part != "..");
    is_in_the_run || ["https://", "http://"].iter().any(|scheme| target.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_pictures_of_its_list_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let secret = tempfile::NamedTempFile::new().unwrap();
        fs::write(secret.path(), [PNG, b"secret"].concat()).unwrap();
        fs::write(folder.path().join("energies.png"), [PNG, b"drawn"].concat()).unwrap();
        fs::write(folder.path().join("other.png"), PNG).unwrap();
        fs::write(folder.path().join("text.png"), "secret").unwrap();
        std::os::unix::fs::symlink(secret.path(), folder.path().join("led.png")).unwrap();
        let out = format!("../../../../../../../..{}", secret.path().display());
        let mut pictures = Pictures::of(folder.path());
        for path in ["energies.png", "text.png", "led.png", "missing.png", out.as_str()] {
            pictures.add(path.to_owned());
        }
        // Written as if nothing were escaped.
        let shown = |path: &str| {
            let text = format!("![course]({})", target(path));
            page("run", &Markdown::unchecked(&text), &pictures)
        };
        let drawn = BASE64_STANDARD.encode([PNG, b"drawn"].concat());
        let expected = format!("<img src=\"data:image/png;base64,{drawn}\" alt=\"course\" />");
        assert!(shown("energies.png").contains(&expected));
        for path in ["other.png", "text.png", "led.png", "missing.png", &out, "/etc/passwd"] {
            let page = shown(path);
            assert!(!page.contains("<img") && !page.contains("base64"), "{path}: {page}");
            assert!(page.contains("<p>course: the picture is not shown, "), "{path}: {page}");
        }
    }

    #[test]
    fn a_page_runs_nothing_and_leads_nowhere_but_to_pages() {
        let pictures = Pictures::of(Path::new("."));
        let shown = |text: &str| page("<i>", &Markdown::unchecked(text), &pictures);
        for link in
            ["javascript:alert(1)", "data:text/html,x", "../../x", "/etc/passwd", "file:///x"]
        {
            let page = shown(&format!("before [click]({link}) after"));
            assert!(page.contains("<p>before click after</p>"), "{link}: {page}");
        }
        for link in ["replica_1/job_x/", "references.bib", "https://doi.org/10.1063/1.445869"] {
            let page = shown(&format!("[click]({link})"));
            assert!(page.contains(&format!("<a href=\"{link}\">click</a>")), "{link}: {page}");
        }
        let page = shown("<script>alert(1)</script>");
        assert!(page.contains("&lt;script&gt;") && page.contains("<title>&lt;i&gt;</title>"));
        assert!(page.contains("content=\"default-src 'none'; img-src data:;"), "{page}");
    }
}
