//! `cargo xtask docs`: the guides, the reference and the Rust documentation as one static site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::markdown;
use crate::shell::{cargo, root, run, target};

/// Folders whose Markdown is part of the site, and files that are.
const FOLDERS: [&str; 3] = ["docs", markdown::FOLDER, "openapi"];
const FILES: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "clients/README.md",
];
/// What the page of the interactive reference needs beside it; the service embeds the same.
const ASSETS: [&str; 3] = ["reference.js", "redoc.standalone.js", "redoc.LICENSE"];

/// Pictures that pages of the site show.
const PICTURES: &str = "docs/portal";

/// The way from the reference to the rest of the site, which the service does not have.
const GUIDES: &str = "openapi.info.description = '[Guides, and this by page](index.html)\\n\\n' + \
                      openapi.info.description;\n";

const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_FOOTNOTES);
/// From this many sections on a page lists them.
const LONG: usize = 6;

/// Writes the site to target/site.
pub fn site() -> Result<()> {
    let out = target().join("site");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let pages = sources()?;
    let mut dead = Vec::new();
    for (path, text) in &pages {
        let page = Page { path, pages: &pages };
        write(&out.join(page_name(path)), page.html(text, &mut dead))?;
    }
    if !dead.is_empty() {
        bail!("dead links:\n  {}", dead.join("\n  "));
    }
    let assets = root().join("docs/site");
    for name in ASSETS {
        write(
            &out.join("docs").join(name),
            fs::read(assets.join(name)).with_context(|| format!("read {name}"))?,
        )?;
    }
    copy(&root().join(PICTURES), &out.join(PICTURES))?;
    write(&out.join("style.css"), fs::read(assets.join("style.css"))?)?;
    write(&out.join("reference.html"), fs::read(assets.join("reference.html"))?)?;
    let document = fs::read_to_string(root().join("openapi/openapi.json"))?;
    write(&out.join("docs/openapi.js"), format!("window.openapi = {document};\n{GUIDES}"))?;
    write(&out.join("openapi.json"), document)?;
    rustdoc(&out.join("rust"))?;
    println!("{}", out.join("index.html").display());
    Ok(())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
    fs::write(path, content).with_context(|| format!("write {}", path.display()))
}

/// Every Markdown file of the site, by its path in the repository.
fn sources() -> Result<BTreeMap<PathBuf, String>> {
    let mut paths: Vec<PathBuf> =
        FILES.iter().map(PathBuf::from).filter(|path| root().join(path).exists()).collect();
    for folder in FOLDERS {
        for entry in fs::read_dir(root().join(folder)).with_context(|| format!("read {folder}"))? {
            let name = entry?.file_name();
            if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                paths.push(Path::new(folder).join(name));
            }
        }
    }
    let mut sources = BTreeMap::new();
    for path in paths {
        let text = fs::read_to_string(root().join(&path))
            .with_context(|| format!("read {}", path.display()))?;
        sources.insert(path, text);
    }
    Ok(sources)
}

/// Where a page lies in the site; the front page is the README.
fn page_name(path: &Path) -> PathBuf {
    if path == Path::new("README.md") {
        PathBuf::from("index.html")
    } else {
        path.with_extension("html")
    }
}

struct Page<'a> {
    path: &'a Path,
    pages: &'a BTreeMap<PathBuf, String>,
}

impl Page<'_> {
    fn html(&self, text: &str, dead: &mut Vec<String>) -> String {
        let mut events: Vec<Event<'_>> = Parser::new_ext(text, OPTIONS).collect();
        let sections = name_headings(&mut events);
        self.relink(&mut events, dead);
        let mut body = String::new();
        html::push_html(&mut body, events.into_iter());
        // A long page lists its sections before the first.
        if sections.len() >= LONG {
            let list: String = sections
                .iter()
                .map(|(name, words)| format!("<li><a href=\"#{name}\">{words}</a></li>\n"))
                .collect();
            body = body.replacen("<h2", &format!("<ul class=\"sections\">\n{list}</ul>\n<h2"), 1);
        }
        let up = "../".repeat(self.path.components().count() - 1);
        let guides = self.pages.iter().filter(|(path, _)| path.parent() == Some(Path::new("docs")));
        let others = [
            "clients/README.md",
            "openapi/README.md",
            "ARCHITECTURE.md",
            "SECURITY.md",
            "CHANGELOG.md",
        ];
        let others = others.iter().filter_map(|path| self.pages.get_key_value(Path::new(path)));
        let pages = guides
            .chain(others)
            .map(|(path, text)| (page_name(path).display().to_string(), title(text)));
        let fixed = [
            ("index.html", "molbox"),
            ("reference.html", "Reference"),
            ("docs/reference/README.html", "Reference by page"),
            ("rust/molbox/index.html", "Rust"),
        ];
        let links =
            fixed.map(|(to, name)| (to.to_owned(), name.to_owned())).into_iter().chain(pages);
        let links: String =
            links.map(|(to, name)| format!("<a href=\"{up}{to}\">{name}</a>\n")).collect();
        let title = title(text);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta \
             charset=\"utf-8\"><title>{title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" \
             href=\"{up}style.css\"></head>\n<body><nav>{links}</nav>\n{body}</body></html>\n"
        )
    }

    /// Links to pages lead to their HTML; links to other files of the repository become plain text.
    fn relink(&self, events: &mut Vec<Event<'_>>, dead: &mut Vec<String>) {
        let mut open = Vec::new();
        events.retain_mut(|event| match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                let link = self.link(dest_url, dead);
                open.push(link.is_some());
                if let Some(link) = link {
                    *dest_url = CowStr::from(link);
                }
                open.last() == Some(&true)
            }
            Event::End(TagEnd::Link) => open.pop() == Some(true),
            Event::Start(Tag::Image { dest_url, .. }) => {
                // Pictures lie where they do in the repository, beside the pages that show them.
                let folder = self.path.parent().unwrap_or(Path::new(""));
                let picture = normal(&folder.join(dest_url.as_ref()));
                if !picture.starts_with(PICTURES) || !root().join(picture).exists() {
                    dead.push(format!("{}: {dest_url}", self.path.display()));
                }
                true
            }
            _ => true,
        });
    }

    fn link(&self, to: &str, dead: &mut Vec<String>) -> Option<String> {
        if to.contains("://") || to.starts_with("mailto:") {
            return Some(to.to_owned());
        }
        let (file, anchor) = to
            .split_once('#')
            .map_or((to, String::new()), |(file, anchor)| (file, format!("#{anchor}")));
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let target =
            if file.is_empty() { self.path.to_owned() } else { normal(&folder.join(file)) };
        let readme = target.join("README.md");
        if let Some((page, text)) =
            [&target, &readme].into_iter().find_map(|path| self.pages.get_key_value(path))
        {
            if !anchor.is_empty() && !headings(text).contains(&anchor[1..]) {
                dead.push(format!("{}: {to}", self.path.display()));
            }
            let up = "../".repeat(self.path.components().count() - 1);
            return Some(format!("{up}{}{anchor}", page_name(page).display()));
        }
        if !root().join(&target).exists() {
            dead.push(format!("{}: {to}", self.path.display()));
        }
        None
    }
}

fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut out, part| {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::Normal(name) => out.push(name),
            _ => {}
        }
        out
    })
}

fn title(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("molbox").to_owned()
}

fn headings(text: &str) -> BTreeSet<String> {
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, OPTIONS).collect();
    name_headings(&mut events);
    let ids = events.iter().filter_map(|event| match event {
        Event::Start(Tag::Heading { id, .. }) => id.as_ref().map(ToString::to_string),
        _ => None,
    });
    ids.collect()
}

/// Gives headings the names that links to them use; the name and words of each section.
fn name_headings(events: &mut [Event<'_>]) -> Vec<(String, String)> {
    let mut start = None;
    let mut sections = Vec::new();
    for index in 0..events.len() {
        match &events[index] {
            Event::Start(Tag::Heading { .. }) => start = Some(index),
            Event::End(TagEnd::Heading(_)) => {
                let Some(start) = start.take() else { continue };
                let words: String = events[start..index]
                    .iter()
                    .filter_map(|event| match event {
                        Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
                        _ => None,
                    })
                    .collect();
                if let Event::Start(Tag::Heading { id, level, .. }) = &mut events[start] {
                    *id = Some(CowStr::from(slug(&words)));
                    if *level == HeadingLevel::H2 {
                        sections.push((slug(&words), words));
                    }
                }
            }
            _ => {}
        }
    }
    sections
}

/// The name of a heading as links use it.
fn slug(words: &str) -> String {
    let kept = words.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn rustdoc(to: &Path) -> Result<()> {
    let from = target().join("doc");
    if from.exists() {
        fs::remove_dir_all(&from)?;
    }
    run(cargo().args(["doc", "--quiet", "--no-deps", "--package", "molbox"]))?;
    // Some of its pages lead to an index, which it has for several crates alone.
    write(
        &to.join("index.html"),
        "<meta http-equiv=\"refresh\" content=\"0; url=molbox/index.html\">\n",
    )?;
    copy(&from, to)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().expect("an entry has a name");
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use super::{Page, normal, slug, sources};

    #[test]
    fn every_link_of_the_guides_leads_somewhere() {
        let pages = sources().unwrap();
        let mut dead = Vec::new();
        for (path, text) in &pages {
            Page { path, pages: &pages }.html(text, &mut dead);
        }
        assert_eq!(dead, Vec::<String>::new());
    }

    #[test]
    fn a_link_to_no_page_or_no_heading_is_dead() {
        let text = "# One\n\n[a](#one) [b](two.md#far) [c](#none) [d](nowhere.md) \
                    [e](../Cargo.toml) ![f](portal/none.png)\n";
        let pages = BTreeMap::from([("docs/one.md", text), ("docs/two.md", "# Two\n\n## Far\n")]);
        let pages: BTreeMap<PathBuf, String> =
            pages.into_iter().map(|(path, text)| (path.into(), text.to_owned())).collect();
        let mut dead = Vec::new();
        let html = Page { path: Path::new("docs/one.md"), pages: &pages }.html(text, &mut dead);
        assert_eq!(
            dead,
            ["docs/one.md: #none", "docs/one.md: nowhere.md", "docs/one.md: portal/none.png"]
        );
        assert!(html.contains("<a href=\"../docs/two.html#far\">"), "{html}");
    }

    #[test]
    fn links_find_their_headings_and_pages() {
        assert_eq!(slug("Rules, and why"), "rules-and-why");
        assert_eq!(slug("job_submit"), "job_submit");
        assert_eq!(
            normal(Path::new("docs/reference/../../clients/./README.md")),
            Path::new("clients/README.md")
        );
    }
}
