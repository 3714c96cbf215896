//! `cargo xtask docs`: all pages as one static site, for the web and inside of molboxd.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::html;
use super::pages::{Pages, write};
use crate::lint::quiet;
use crate::portal;
use crate::python;
use crate::shell::{root, target};

/// What the page of the interactive reference needs beside it; the service embeds the same.
const ASSETS: [&str; 3] = ["reference.js", "redoc.standalone.js", "redoc.LICENSE"];
/// The way from the reference to the guides.
const GUIDES: &str = "openapi.info.description = '[Guides](index.html)\\n\\n' + \
                      openapi.info.description;\n";
/// The theme's older look, which no page uses.
const CLASSIC: &str = "assets/stylesheets/classic";
/// What the whole may have, in bytes, and a page without a cache as it is sent.
const SITE_BYTES: usize = 5_000_000;
const PAGE_BYTES: usize = 150_000;
/// What each page is of: a service has its own, and the web those of all versions.
const EDITION: &str = concat!("molbox ", env!("CARGO_PKG_VERSION"));

/// Builds the site into target/site, and into the folder from which molboxd takes it.
pub fn site() -> Result<()> {
    let built = build()?;
    let changes = portal::replace(&built, &root().join("docs/dist"))?;
    let out = target().join("site");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    portal::replace(&built, &out)?;
    reference(&out)?;
    println!("{}; {changes} files of docs/dist have changed", out.join("index.html").display());
    Ok(())
}

/// The program that makes pages of Markdown.
fn builder() -> Result<PathBuf> {
    let python = python::tools("docs/env", &root().join("docs/site/requirements.txt"))?;
    Ok(python.with_file_name("zensical"))
}

/// The site without the interactive reference, checked.
fn build() -> Result<PathBuf> {
    let folder = target().join("docs");
    let (sources, built) = (folder.join("pages"), folder.join("html"));
    for old in [&sources, &built] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    let dead = Pages::read()?.lay_out(&sources)?;
    if !dead.is_empty() {
        bail!("pages have faults:\n  {}", dead.join("\n  "));
    }
    let own = root().join("docs/site");
    write(&sources.join("site.css"), fs::read(own.join("site.css"))?)?;
    let config = read(&own.join("mkdocs.yml"))? + &format!("copyright: {EDITION}\n");
    write(&folder.join("mkdocs.yml"), config)?;
    let zensical = builder()?;
    let spelling = own.join("typos.toml");
    let mut typos = Command::new(zensical.with_file_name("typos"));
    typos.args(["--format", "brief", "--config"]).arg(spelling).arg(&sources);
    quiet(typos.arg(root().join("openapi/molbox.yaml")))
        .context("check the spelling; docs/site/typos.toml has words that are right")?;
    let output = Command::new(&zensical)
        .args(["build", "--clean"])
        .current_dir(&folder)
        .output()
        .with_context(|| format!("start {}", zensical.display()))?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.contains("No issues found") {
        bail!("zensical finds something wrong:\n{said}");
    }
    // For search engines and other hosts, and what nothing uses.
    for unused in ["sitemap.xml", "sitemap.xml.gz", "404.html", "objects.inv", CLASSIC] {
        let path = built.join(unused);
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else if path.exists() {
            fs::remove_file(path)?;
        }
    }
    settle_pages(&built)?;
    shorten_search(&built)?;
    check(&built)?;
    Ok(built)
}

/// Puts scripts of the theme that stand in pages into files, as the service allows no others, and
/// makes the pages smaller and easier to read.
fn settle_pages(built: &Path) -> Result<()> {
    for path in portal::files(built)?.iter().filter(|path| is_page(path)) {
        let html = read(&built.join(path))?;
        let up = "../".repeat(path.components().count() - 1);
        let mut out = String::new();
        let mut rest = html.as_str();
        while let Some((before, after)) = rest.split_once("<script>") {
            let (script, after) = after.split_once("</script>").context("a script has an end")?;
            let digest: String =
                Sha256::digest(script).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            let name = format!("assets/javascripts/{digest}.js");
            write(&built.join(&name), script)?;
            out += &format!("{before}<script src=\"{up}{name}\"></script>");
            rest = after;
        }
        let html = html::without_indents(&(out + rest));
        write(&built.join(path), html::with_whole_options(&html))?;
    }
    Ok(())
}

/// Leaves the snippets of the generated reference out of the search: they repeat the names of all
/// fields for each operation, and a name is found where its meaning stands.
fn shorten_search(built: &Path) -> Result<()> {
    let path = built.join("search.json");
    let mut index: Value = serde_json::from_str(&read(&path)?)?;
    let items = index["items"].as_array_mut().context("the search has no items")?;
    for item in items {
        let is_generated =
            item["location"].as_str().is_some_and(|page| page.starts_with("reference/api/"));
        if is_generated
            && let Some((words, _)) =
                item["text"].as_str().and_then(|text| text.split_once("<pre>"))
        {
            item["text"] = words.into();
        }
    }
    write(&path, serde_json::to_vec(&index)?)
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "html")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

fn check(built: &Path) -> Result<()> {
    let files: BTreeSet<PathBuf> = portal::files(built)?;
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(|path| is_page(path)) {
        pages.insert(path.clone(), read(&built.join(path))?);
    }
    let mut problems = html::problems(&pages, &files);
    for (path, _) in pages.iter().filter(|(_, html)| !html.contains(EDITION)) {
        problems.push(format!("{}: does not name its version", path.display()));
    }
    let mut whole = 0;
    // What every page loads besides itself; a search loads more.
    let mut shared = 0;
    for path in &files {
        let content = fs::read(built.join(path))?;
        whole += content.len();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_shared =
            matches!(extension, Some("css" | "js")) && !path.to_string_lossy().contains("workers/");
        if is_shared {
            shared += packed(&content)?;
        }
    }
    if whole > SITE_BYTES {
        problems.push(format!("the whole has {whole} bytes, more than {SITE_BYTES}"));
    }
    let mut largest = 0;
    for (path, html) in &pages {
        let size = shared + packed(html.as_bytes())?;
        largest = largest.max(size);
        if size > PAGE_BYTES {
            problems.push(format!(
                "{}: {size} bytes are sent for it, more than {PAGE_BYTES}",
                path.display()
            ));
        }
    }
    if !problems.is_empty() {
        bail!("the site has faults:\n  {}", problems.join("\n  "));
    }
    println!(
        "{} pages, {:.1} MB; {} kB are sent for the largest, pictures aside",
        pages.len(),
        whole as f64 / 1e6,
        largest / 1000
    );
    Ok(())
}

fn packed(content: &[u8]) -> Result<usize> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(content)?;
    Ok(gzip.finish()?.len())
}

/// Adds the interactive reference, which molboxd has by itself.
fn reference(out: &Path) -> Result<()> {
    let own = root().join("docs/site");
    for name in ASSETS {
        write(&out.join(name), fs::read(own.join(name)).with_context(|| format!("read {name}"))?)?;
    }
    write(&out.join("api.html"), fs::read(own.join("reference.html"))?)?;
    let document = read(&root().join("openapi/openapi.json"))?;
    write(&out.join("openapi.js"), format!("window.openapi = {document};\n{GUIDES}"))?;
    write(&out.join("openapi.json"), document)
}
