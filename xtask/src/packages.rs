//! `cargo xtask packages`: the packages that are published, as strangers get and use them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::answering;
use crate::shell::{cargo, root, run, target};

/// What goes to a registry, in the order in which it has to.
pub const PUBLISHED: [&str; 3] = ["molbox-codegen", "molbox", "openapi-drift"];

/// Packs them, documents them, compares what others can use with what is recorded, and builds
/// crates of strangers with them, one of which runs the program of the README.
pub fn packages() -> Result<()> {
    let metadata = metadata()?;
    oldest_compiler(&metadata)?;
    let mut documentation = cargo();
    documentation
        .args(["doc", "--no-deps", "--quiet"])
        .args(PUBLISHED.map(|name| format!("--package={name}")));
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    run(&mut documentation)?;
    // Together, for they depend on each other; verified below, where that comes from the packages
    // too.
    let mut package = cargo();
    package.args(["package", "--no-verify", "--allow-dirty", "--quiet"]);
    run(package.args(PUBLISHED.map(|name| format!("--package={name}"))))?;
    let packed =
        PUBLISHED.map(|name| unpacked(&metadata, name)).into_iter().collect::<Result<Vec<_>>>()?;
    by_package(&packed)?;
    by_path()?;
    by_git()
}

fn metadata() -> Result<Value> {
    let compiler = String::from_utf8(Command::new("rustc").arg("-vV").output()?.stdout)?;
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("`rustc -vV` names no host")?;
    let mut metadata = cargo();
    // Of this platform alone: the others' packages are not here.
    metadata.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host]);
    let output = metadata.stderr(Stdio::inherit()).output()?;
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

/// No dependency needs a newer compiler than the packages promise, and they compile with that one,
/// where it is installed. Their own code is looked at by clippy's `incompatible_msrv`.
fn oldest_compiler(metadata: &Value) -> Result<()> {
    let packages = metadata["packages"].as_array().context("packages")?;
    let molbox = packages
        .iter()
        .find(|package| package["name"] == "molbox")
        .context("the package molbox")?;
    let promised = rust_version(molbox).context("rust-version of molbox")?;
    let newer: Vec<String> = packages
        .iter()
        .filter(|package| rust_version(package).is_some_and(|needed| needed > promised))
        .map(|package| {
            format!("{} {} needs {}", package["name"], package["version"], package["rust_version"])
        })
        .collect();
    let promised = molbox["rust_version"].as_str().context("rust-version of molbox")?;
    ensure!(newer.is_empty(), "rust-version is {promised}, but {}", newer.join(", "));

    let toolchain = format!("+{promised}");
    let has_it = Command::new("cargo")
        .args([&toolchain, "--version"])
        .output()
        .is_ok_and(|o| o.status.success());
    if !has_it {
        println!(
            "skipped: compiling with Rust {promised}, the oldest that is promised: it is not \
             installed"
        );
        return Ok(());
    }
    let mut check = Command::new("cargo");
    check.current_dir(root()).args([&toolchain, "check", "--quiet", "--package", "molbox"]);
    // A folder of its own: another compiler shares nothing.
    run(check.env("CARGO_TARGET_DIR", target().join("oldest")))
}

/// What others can use of the client, `tests/surface.txt`: a change of it is seen in review, and
/// decides the next version. What is generated from the document is in `openapi/surface.txt`.
pub fn surface() -> Result<(PathBuf, String)> {
    // The compiler gives this form to those who ask for what is unstable. Asked through the
    // environment, cargo would build what has a build script anew.
    let rustdoc = target().join("rustdoc-json");
    let real = std::env::var("RUSTDOC").unwrap_or_else(|_| "rustdoc".to_owned());
    fs::write(&rustdoc, format!("#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec '{real}' \"$@\"\n"))?;
    run(Command::new("chmod").arg("+x").arg(&rustdoc))?;
    let mut json = cargo();
    json.args(["rustdoc", "--package", "molbox", "--lib", "--quiet", "--"]);
    json.args(["-Zunstable-options", "--output-format", "json"]);
    run(json.env("RUSTDOC", &rustdoc))?;
    let items = public_api::Builder::from_rustdoc_json(target().join("doc/molbox.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .context(
            "read rustdoc's JSON: this compiler's may be another version than that of `public-api`",
        )?;
    let lines: BTreeSet<String> =
        items.items().map(ToString::to_string).filter(|item| !is_generated(item)).collect();
    let found: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok((PathBuf::from("tests/surface.txt"), found))
}

fn rust_version(package: &Value) -> Option<Vec<u64>> {
    let parts = package["rust_version"].as_str()?.split('.').map(|part| part.parse().ok());
    // 1.89 is 1.89.0.
    parts.chain([Some(0), Some(0)]).take(3).collect()
}

fn is_generated(item: &str) -> bool {
    let modules =
        ["workflow::types::", "workflow::builder::", "margin::types::", "margin::builder::"];
    // What a line is about comes last but for its arguments.
    let name = item.split(['(', '<', '=']).next().unwrap_or_default();
    modules.iter().any(|module| name.contains(&format!("molbox::{module}")))
}

/// What a package says of itself and contains is complete; its folder, unpacked.
fn unpacked(metadata: &Value, name: &str) -> Result<PathBuf> {
    let packages = metadata["packages"].as_array().context("packages")?;
    let package = packages
        .iter()
        .find(|package| package["name"] == name)
        .with_context(|| format!("no {name}"))?;
    for key in ["description", "license", "readme", "rust_version"] {
        ensure!(package[key].is_string(), "{name}: Cargo.toml has no {key}");
    }
    for key in ["keywords", "categories"] {
        ensure!(
            package[key].as_array().is_some_and(|words| !words.is_empty()),
            "{name}: Cargo.toml has no {key}"
        );
    }
    let folder = target().join("package");
    let version = package["version"].as_str().context("version")?;
    let unpacked = folder.join(format!("{name}-{version}"));
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    let archive = folder.join(format!("{name}-{version}.crate"));
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder))?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        ensure!(unpacked.join(file).is_file(), "the package of {name} lacks {file}");
    }
    Ok(unpacked)
}

/// A crate of a stranger, with the program of the README.
struct Stranger {
    folder: PathBuf,
}

impl Stranger {
    /// `molbox` is what the dependency says behind `molbox = `, `more` the rest of the manifest.
    fn new(name: &str, molbox: &str, more: &str) -> Result<Self> {
        let folder = target().join("strangers").join(name);
        fs::create_dir_all(folder.join("src"))?;
        let manifest = format!(
            "[package]\nname = \"stranger-{name}\"\nversion = \"0.1.0\"\nedition = \
             \"2024\"\n\n[dependencies]\n\
             molbox = {molbox}\n{more}\n[workspace]\n\n\
             # What the workspace has built without it, aws-lc among it, serves here, too.\n\
             [profile.dev]\ndebug = false\n"
        );
        write_changed(&folder.join("Cargo.toml"), &manifest)?;
        let readme = fs::read_to_string(root().join("README.md"))?;
        let program = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
        let program = program.context("the README has no program in Rust")?;
        let main = format!(
            "fn main() -> Result<(), molbox::Error> {{\n    \
             molbox::Blocking::new()?.run(program())\n}}\n\n\
             async fn program() -> Result<(), molbox::Error> {{\n{program}Ok(())\n}}\n"
        );
        write_changed(&folder.join("src/main.rs"), &main)?;
        // The versions that everything else here is built with; and no dependency more, whose
        // features would have the client's own dependencies built once more.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder })
    }

    fn cargo(&self, arguments: &[&str]) -> Result<()> {
        let mut command = cargo();
        run(command
            .current_dir(&self.folder)
            .args(arguments)
            .arg("--quiet")
            .env("CARGO_TARGET_DIR", target()))
    }
}

/// A file that has changed is built anew.
fn write_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The packed sources alone, and the README's program run with them.
fn by_package(packed: &[PathBuf]) -> Result<()> {
    let [codegen, molbox, drift] = packed else { bail!("three packages") };
    let drift = format!("{{ path = {:?}, default-features = false }}", drift.display().to_string());
    let more = format!(
        "openapi-drift = {drift}\n\n[patch.crates-io]\nmolbox-codegen = {}\n",
        path(codegen)
    );
    let stranger = Stranger::new("package", &path(molbox), &more)?;
    stranger.cargo(&["build", "--offline"])?;
    fs::write(stranger.folder.join("1vii.pdb"), "END\n")?;
    let bundle = stranger.folder.join("results.zip");
    if bundle.exists() {
        fs::remove_file(&bundle)?;
    }
    let mut program = Command::new(target().join("debug/stranger-package"));
    program
        .current_dir(&stranger.folder)
        .env("MOLBOX_BASE_URL", examples()?)
        .env("MOLBOX_API_KEY", "mbx_x");
    let output = program.stderr(Stdio::inherit()).output().context("the README's program")?;
    ensure!(output.status.success(), "the README's program: {}", output.status);
    let printed = String::from_utf8(output.stdout)?;
    ensure!(printed == "succeeded\n", "the README's program printed {printed:?}");
    ensure!(fs::read(&bundle)? == BUNDLE, "the README's program downloaded something else");
    Ok(())
}

fn by_path() -> Result<()> {
    let molbox = format!("{{ path = {:?} }}", root().display().to_string());
    Stranger::new("path", &molbox, "")?.cargo(&["build", "--offline"])
}

/// The last commit, as cargo fetches it.
fn by_git() -> Result<()> {
    if !root().join(".git").exists() {
        println!("skipped: the crate of a stranger by git: this is no clone");
        return Ok(());
    }
    let molbox = format!("{{ git = {:?} }}", format!("file://{}", root().display()));
    let stranger = Stranger::new("git", &molbox, "")?;
    stranger.cargo(&["build"])
}

const BUNDLE: &[u8] = b"the results";

/// A service that answers with the document's examples; its base address.
fn examples() -> Result<String> {
    let mut link: Value = serde_json::from_str(&example("upload_url_create.200.json")?)?;
    let answers = [
        ("PUT /local/upload", String::new()),
        ("POST /local/submit/file/", example("file_register.200.json")?),
        ("POST /local/submit/system", example("system_submit.200.json")?),
        ("GET /local/info/system/", example("system_view.200.succeeded.json")?),
        ("POST /local/submit/job", example("job_submit.200.json")?),
        ("GET /local/info/job/", example("job_view.200.succeeded.json")?),
        ("GET /local/retrieve/job/", String::from_utf8_lossy(BUNDLE).into_owned()),
    ];
    let url = answering::serve(move |url, request| {
        if request.starts_with("GET /local/submit/upload-url") {
            link["upload_url"] = format!("{url}/local/upload").into();
            return Some(link.to_string());
        }
        answers.iter().find(|(start, _)| request.starts_with(start)).map(|(_, body)| body.clone())
    })?;
    Ok(format!("{url}/local"))
}

/// A dependency on the package in a folder.
fn path(folder: &Path) -> String {
    format!("{{ path = {:?} }}", folder.display().to_string())
}

fn example(name: &str) -> Result<String> {
    fs::read_to_string(root().join("openapi/examples").join(name)).with_context(|| name.to_owned())
}
