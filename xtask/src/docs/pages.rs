//! The pages of the site: where each lies in the repository, and how it becomes what the site's
//! builder reads. A page has one source; nothing is written twice for the site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::blocks;
use super::markdown;
use super::notebook;
use super::presets;
use super::rust;
use crate::shell::root;

/// Pages whose place in the site is another than in the repository.
const MOVED: [(&str, &str); 29] = [
    ("ARCHITECTURE.md", "explanation/architecture.md"),
    ("CHANGELOG.md", "reference/changelog.md"),
    ("CONTRIBUTING.md", "explanation/contributing.md"),
    ("SECURITY.md", "explanation/security.md"),
    ("clients/README.md", "guides/clients.md"),
    ("openapi/README.md", "explanation/document.md"),
    ("crates/analysis/README.md", "reference/agreement.md"),
    ("docs/analyses.md", "reference/analyses.md"),
    ("docs/bundle.md", "reference/bundle.md"),
    ("docs/built-systems.md", "guides/built-systems.md"),
    ("docs/cli.md", "reference/cli.md"),
    ("docs/cluster.md", "guides/cluster.md"),
    ("docs/engines.md", "explanation/engines.md"),
    ("docs/errors.md", "reference/errors.md"),
    ("docs/glossary.md", "reference/glossary.md"),
    ("docs/go.md", "guides/go.md"),
    ("docs/index.md", "index.md"),
    ("docs/install.md", "guides/install.md"),
    ("docs/lookup.md", "reference/index.md"),
    ("docs/market-data.md", "reference/market-data.md"),
    ("docs/masks.md", "reference/masks.md"),
    ("docs/mcp.md", "guides/assistants.md"),
    ("docs/metrics.md", "reference/metrics.md"),
    ("docs/operating.md", "guides/operating.md"),
    ("docs/portal.md", "guides/portal.md"),
    ("docs/python.md", "reference/python.md"),
    ("docs/science-margin.md", "explanation/margin.md"),
    ("docs/typescript.md", "guides/typescript.md"),
    ("docs/units.md", "reference/units.md"),
];
/// Folders of pages below `docs/` that the site has under the same name.
pub const WRITTEN: [&str; 3] = ["tutorials", "guides", "explanation"];
/// Pages that are made of files which are none.
const SETTINGS: (&str, &str) = ("docs/configuration.toml", "reference/settings.md");
const PRESETS: (&str, &str) = ("crates/cli/src/presets.toml", "reference/presets.md");

const NOTEBOOK: (&str, &str) =
    ("examples/first-protein.ipynb", "tutorials/first-protein-notebook.md");
const RUST: (&str, &str) = ("src/lib.rs", "reference/rust.md");

/// Files that pages offer or show, and where the site has them. The examples of `cargo xtask docs
/// --run` have them in their folder.
const FILES: [(&str, &str); 7] = [
    ("docs/examples/ligand.toml", "files/ligand.toml"),
    ("docs/examples/membrane.toml", "files/membrane.toml"),
    ("examples/1vii.pdb", "files/1vii.pdb"),
    ("worker/tests/data/t4-lysozyme.pdb.gz", "files/t4-lysozyme.pdb.gz"),
    ("worker/tests/data/p-xylene.mol2", "files/p-xylene.mol2"),
    ("worker/tests/data/2nwl_helix.pdb", "files/helix.pdb"),
    ("examples/portfolio/portfolio.csv", "files/portfolio.csv"),
];
/// What the service has beside the site, and `cargo xtask docs` adds to it.
const REFERENCE: (&str, &str) = ("docs/site/reference.html", "api.html");
/// Folders of pictures.
const PICTURES: [(&str, &str); 2] = [("docs/portal", "portal"), ("docs/pictures", "pictures")];

/// Pages of the repository by their path in it, each with its text.
pub struct Pages(BTreeMap<PathBuf, String>);

impl Pages {
    /// Every page of the site.
    pub fn read() -> Result<Self> {
        let mut paths: Vec<PathBuf> = MOVED.iter().map(|(from, _)| PathBuf::from(from)).collect();
        paths.extend([SETTINGS, PRESETS, NOTEBOOK, RUST].map(|(from, _)| PathBuf::from(from)));
        let written = WRITTEN.map(|folder| format!("docs/{folder}"));
        for folder in written.iter().map(String::as_str).chain([markdown::FOLDER]) {
            paths.extend(files(folder, "md")?);
        }
        let read = |path: PathBuf| {
            let text = fs::read_to_string(root().join(&path))
                .with_context(|| format!("read {}", path.display()))?;
            Ok((path, text))
        };
        Ok(Self(paths.into_iter().map(read).collect::<Result<_>>()?))
    }

    /// The pages with blocks of commands and code that are kept right by running them.
    pub fn written(&self) -> impl Iterator<Item = (&Path, &str)> {
        let is_written = |path: &Path| {
            WRITTEN.iter().any(|folder| path.starts_with(Path::new("docs").join(folder)))
                || path == Path::new("docs/index.md")
        };
        self.0
            .iter()
            .filter(move |(path, _)| is_written(path))
            .map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// Blocks of code that nothing keeps right, by page and line.
    fn loose(&self) -> Vec<String> {
        let of_page = |(path, text): (&Path, &str)| -> Vec<String> {
            let loose = blocks::blocks(text).into_iter().filter(|block| !block.is_kept_right());
            let at = |line| format!("{}:{line}: code that nothing runs", path.display());
            loose.map(|block| at(block.lines.start + 1)).collect()
        };
        self.written().flat_map(of_page).collect()
    }

    /// Writes what the builder reads to a folder; returns the links that lead nowhere, and code that
    /// nothing keeps right.
    pub fn lay_out(&self, folder: &Path) -> Result<Vec<String>> {
        let mut dead = self.loose();
        for (path, text) in &self.0 {
            let place = place(path).expect("every page has a place");
            write(&folder.join(place), self.text(path, text, &mut dead)?)?;
        }
        for (from, to) in FILES {
            write(&folder.join(to), fs::read(root().join(from))?)?;
        }
        if let Some(text) = self.0.get(Path::new(NOTEBOOK.0)) {
            for (name, bytes) in notebook::pictures(text)? {
                write(&folder.join("pictures").join(name), bytes)?;
            }
        }
        for (from, to) in PICTURES {
            for picture in ["png", "svg"].map(|extension| files(from, extension)) {
                for path in picture? {
                    let name = path.file_name().expect("a file has a name");
                    write(&folder.join(to).join(name), fs::read(root().join(&path))?)?;
                }
            }
        }
        Ok(dead)
    }

    /// A page as the builder reads it. Links that lead nowhere are added to `dead`.
    fn text(&self, path: &Path, text: &str, dead: &mut Vec<String>) -> Result<String> {
        if path == Path::new(SETTINGS.0) {
            return Ok(settings(text));
        }
        if path == Path::new(PRESETS.0) {
            return presets::page(text);
        }
        if path == Path::new(NOTEBOOK.0) {
            return notebook::page(text);
        }
        if path == Path::new(RUST.0) {
            return rust::page(text);
        }
        let text = blocks::shown(path, text)?;
        Ok(self.relinked(path, &text, dead))
    }

    /// Links to pages and files of the site lead to their place in it; of links to other files of
    /// the repository only the words stay.
    fn relinked(&self, path: &Path, text: &str, dead: &mut Vec<String>) -> String {
        let mut out = String::new();
        let mut done = 0;
        let mut open = Vec::new();
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. }) => {
                    let to = self.link(path, &dest_url, dead);
                    open.push((range, dest_url, to));
                }
                Event::Start(Tag::Image { dest_url, .. }) => {
                    let to = self.link(path, &dest_url, dead);
                    if to.is_none() {
                        dead.push(format!("{}: {dest_url}", path.display()));
                    }
                    open.push((range, dest_url, to));
                }
                Event::End(TagEnd::Link | TagEnd::Image) => {
                    let Some((range, from, to)) = open.pop() else { continue };
                    // Automatic links, and links around what was changed already.
                    if range.start < done || from.contains("://") {
                        continue;
                    }
                    let whole = &text[range.clone()];
                    let Some(split) = whole.rfind("](") else { continue };
                    out += &text[done..range.start];
                    out += &match to {
                        Some(to) => format!(
                            "{}{}",
                            &whole[..split],
                            whole[split..].replacen(&*from, &to, 1)
                        ),
                        None => whole[..split].trim_start_matches(['!', '[']).to_owned(),
                    };
                    done = range.end;
                }
                _ => {}
            }
        }
        out += &text[done..];
        out
    }

    /// Where a link of a page leads in the site; none when the site has no such thing.
    fn link(&self, from: &Path, to: &str, dead: &mut Vec<String>) -> Option<String> {
        if to.contains("://") || to.starts_with("mailto:") {
            return Some(to.to_owned());
        }
        let (file, anchor) = to.split_once('#').map_or((to, None), |(file, a)| (file, Some(a)));
        if file.is_empty() {
            return Some(to.to_owned());
        }
        let target = normal(&from.parent().unwrap_or(Path::new("")).join(file));
        let readme = target.join("README.md");
        let found = [&target, &readme].into_iter().find_map(|path| {
            let is_there = root().join(path).is_file();
            is_there.then(|| place(path)).flatten()
        });
        let Some(found) = found else {
            if !root().join(&target).exists() {
                dead.push(format!("{}: {to}", from.display()));
            }
            return None;
        };
        let page = [&target, &readme].into_iter().find_map(|path| self.0.get(path));
        if let (Some(anchor), Some(text)) = (anchor, page)
            && !has_heading(text, anchor)
        {
            dead.push(format!("{}: {to}", from.display()));
        }
        // What links from outside of the site is looked at, too, and stays as it is.
        let depth = place(from).map_or(0, |here| here.components().count() - 1);
        let up = "../".repeat(depth);
        let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
        Some(format!("{up}{}{anchor}", found.display()))
    }
}

const OPTIONS: Options = Options::ENABLE_TABLES.union(Options::ENABLE_FOOTNOTES);

/// Where the site has a page, a file or a picture of the repository.
fn place(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    let table =
        MOVED.iter().chain(&FILES).chain([&SETTINGS, &PRESETS, &NOTEBOOK, &RUST, &REFERENCE]);
    if let Some((_, to)) = table.into_iter().find(|(from, _)| Path::new(from) == path) {
        return Some(PathBuf::from(to));
    }
    let folder = path.parent()?;
    if let Some((_, to)) = PICTURES.iter().find(|(from, _)| Path::new(from) == folder) {
        return Some(Path::new(to).join(name));
    }
    if folder == Path::new(markdown::FOLDER) {
        let name = if name == "README.md" { "index.md".as_ref() } else { name };
        return Some(Path::new("reference/api").join(name));
    }
    let kind = folder.strip_prefix("docs").ok()?;
    let is_written = WRITTEN.iter().any(|folder| Path::new(folder) == kind);
    (is_written && name != "README.md").then(|| kind.join(name))
}

/// Files of a folder of the repository whose names end so.
fn files(folder: &str, extension: &str) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join(folder)).with_context(|| format!("read {folder}"))? {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|has| has == extension) {
            found.insert(Path::new(folder).join(name));
        }
    }
    Ok(found)
}

/// Copies what examples work with to their folder.
pub fn lay_out_files(folder: &Path) -> Result<()> {
    for (from, to) in FILES {
        let name = Path::new(to).file_name().expect("a file has a name");
        write(&folder.join(name), fs::read(root().join(from))?)?;
    }
    for extension in ["py", "toml", "csv", "sh"] {
        for path in files(blocks::EXAMPLES, extension)? {
            let name = path.file_name().expect("a file has a name");
            write(&folder.join(name), fs::read(root().join(&path))?)?;
        }
    }
    Ok(())
}

pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
    fs::write(path, content).with_context(|| format!("write {}", path.display()))
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

/// Whether a page has a heading of this name, by which links in the repository find it.
fn has_heading(text: &str, name: &str) -> bool {
    let mut words = None;
    for event in Parser::new_ext(text, OPTIONS) {
        match event {
            Event::Start(Tag::Heading { .. }) => words = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(words) = &mut words {
                    *words += &text;
                }
            }
            Event::End(TagEnd::Heading(_))
                if words.take().is_some_and(|words| slug(&words) == name) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

fn slug(words: &str) -> String {
    let kept = words.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The settings by section, a row for each.
fn settings(toml: &str) -> String {
    const HEAD: &str = "| setting | default | |\n|---|---|---|\n";
    let mut out = format!(
        "# Settings\n\nEvery setting of `molboxd`. [Operating](../guides/operating.md) has where \
         they are read from.\n\n## Of the service\n\n{HEAD}"
    );
    for block in toml.split("\n\n") {
        let (words, lines): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| line.starts_with("# "));
        let words: Vec<&str> = words.iter().map(|line| line.trim_start_matches("# ")).collect();
        let words = words.join(" ").replace('|', "\\|");
        let Some(line) = lines.iter().find(|line| !line.is_empty()) else { continue };
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            out += &format!("\n## {section}\n\n{words}\n\n{HEAD}");
        } else if let Some((name, value)) = line.trim_start_matches('#').split_once(" = ") {
            out += &format!("| `{name}` | `{value}` | {words} |\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_the_pages_leads_somewhere_and_all_code_is_run_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Pages::read().unwrap().lay_out(folder.path()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn every_link_of_pages_outside_of_the_site_leads_somewhere() {
        let pages = Pages::read().unwrap();
        let mut dead = Vec::new();
        for path in ["README.md", "RELEASING.md", "portal/README.md", "crates/drift/README.md"] {
            let text = fs::read_to_string(root().join(path)).unwrap();
            pages.relinked(Path::new(path), &text, &mut dead);
        }
        assert_eq!(dead, Vec::<String>::new());
    }

    #[test]
    fn links_lead_to_where_the_site_has_the_page_and_words_stay_of_other_files() {
        let text = "[masks](../masks.md#a-b-c) [`code`](../../Cargo.toml), [out](https://a.b) \
                    ![p](../pictures/first_rmsd.svg) [gone](nowhere.md)\n";
        let mut dead = Vec::new();
        let masks = (PathBuf::from("docs/masks.md"), "# Masks\n\n## A `b`, c\n".to_owned());
        let pages = Pages(BTreeMap::from([masks]));
        let out = pages.relinked(Path::new("docs/guides/analyse.md"), text, &mut dead);
        assert_eq!(
            out,
            "[masks](../reference/masks.md#a-b-c) `code`, [out](https://a.b) \
             ![p](../pictures/first_rmsd.svg) gone\n"
        );
        assert_eq!(dead, ["docs/guides/analyse.md: nowhere.md"]);
        pages.relinked(Path::new("docs/guides/analyse.md"), "[b](../masks.md#d)", &mut dead);
        assert_eq!(dead[1], "docs/guides/analyse.md: ../masks.md#d");
    }

    #[test]
    fn every_setting_has_a_row_in_its_section() {
        let page = settings(
            "# All.\n\n# A | b.\n#data = \"x\"\n\n# Where.\n[database]\n\n# Or.\n#url = \"\"\n",
        );
        let (before, after) = page.split_once("\n## database\n\nWhere.\n").unwrap();
        assert!(before.contains("| `data` | `\"x\"` | A \\| b. |\n"), "{page}");
        assert!(after.contains("| `url` | `\"\"` | Or. |\n"), "{page}");
    }

    #[test]
    fn every_page_is_in_the_navigation_and_every_entry_of_it_is_a_page() {
        let config = fs::read_to_string(root().join("docs/site/mkdocs.yml")).unwrap();
        let named: BTreeSet<PathBuf> = config
            .lines()
            .filter_map(|line| line.trim().rsplit([' ']).next()?.strip_suffix(".md"))
            .map(|name| PathBuf::from(format!("{name}.md")))
            .collect();
        let pages = Pages::read().unwrap();
        let placed: BTreeSet<PathBuf> = pages.0.keys().filter_map(|path| place(path)).collect();
        assert_eq!(named, placed);
    }
}
