//! What people install on this platform: wheels, Debian packages, an archive.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IntoInnerError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::notices::notices;
use crate::lint::quiet;
use crate::regenerate::document;
use crate::shell::{output, root, target};
use crate::{docs, portal, python};

/// The packages with a program, in the order in which one needs the other: folder, program.
pub const PROGRAMS: [(&str, &str); 2] = [("crates/cli", "molbox"), ("crates/service", "molboxd")];
/// How cargo builds what people install. It has a folder of this name under target/.
const PROFILE: &str = "installed";
/// The packages on PyPI.
pub const WHEELS: [&str; 4] = ["molbox-client", "molbox-worker", "molbox-cli", "molboxd"];
/// The file with the licences of others.
pub const NOTICES: &str = "NOTICE";
/// The Python client, when there is one.
const CLIENT: &str = "python";
/// Most that a wheel may have, in bytes.
const LIMITS: [(&str, u64); 4] = [
    ("molbox_client", 100_000),
    ("molbox_worker", 200_000),
    ("molbox_cli", 8_000_000),
    ("molboxd", 12_000_000),
];

/// How tightly wheels are packed: what it has above 9 are rounds of zopfli, which take long on a program.
const LEVEL: i64 = 10;
const LEVEL_OF_SMALL: i64 = 24;
/// Up to what a file of a wheel is small, in bytes.
const SMALL: u64 = 100_000;
/// What zopfli looks at at a time, in bytes, as its authors have it.
const BLOCK: usize = 1_000_000;

/// How programs are built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// As the tests have built them already.
    Debug,
    Release,
}

impl Build {
    /// Where packages of it lie.
    pub fn dist(self) -> PathBuf {
        target().join(match self {
            Self::Debug => "dist-debug",
            Self::Release => "dist",
        })
    }
}

/// The programs that packages are made and looked at with.
pub struct Tools {
    pub bin: PathBuf,
}

impl Tools {
    pub fn install() -> Result<Self> {
        let requirements = root().join("packaging/requirements.txt");
        let python = python::tools("package/tools", &requirements)?;
        Ok(Self { bin: python.parent().context("an environment has a folder")?.to_owned() })
    }

    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.current_dir(root()).env("SOURCE_DATE_EPOCH", EPOCH);
        command
    }
}

/// The moment that all files of a package have, so that the same sources make the same package:
/// 2020-01-01.
const EPOCH: &str = "1577836800";

/// Builds all packages of this platform into target/dist. With a version of glibc the programs need
/// no newer one.
pub fn package(glibc: Option<&str>) -> Result<()> {
    portal::portal().context("the service is not packed without its portal")?;
    docs::site().context("the service is not packed without its pages")?;
    let tools = Tools::install()?;
    let dist = Build::Release.dist();
    wheels(&tools, Build::Release, glibc)?;
    let root = laid_out(&tools, &dist, glibc)?;
    archive(&root, &dist)?;
    debian(&tools, &root, &dist)?;
    sums(&dist)?;
    sizes(&dist)
}

/// Builds the wheels alone.
pub fn wheels(tools: &Tools, build: Build, glibc: Option<&str>) -> Result<()> {
    let dist = build.dist();
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| format!("clear {}", dist.display()))?;
    }
    fs::create_dir_all(&dist)?;
    let zig = glibc.map(|_| with_zig()).transpose()?;
    let notices = notices()?;
    for (folder, name) in PROGRAMS {
        // Beside the manifest maturin takes it for what it is.
        fs::write(root().join(folder).join(NOTICES), &notices)?;
        println!("-- the wheel of {name}");
        let mut maturin = tools.command("maturin");
        maturin.arg("build").arg("--quiet").arg("--manifest-path");
        maturin.arg(root().join(folder).join("Cargo.toml")).arg("--out").arg(&dist);
        maturin.env("CARGO_TARGET_DIR", target());
        if build == Build::Release {
            // The usual level makes a file that is larger by a thirtieth.
            maturin.args(["--profile", PROFILE, "--compression-level", "9"]);
            maturin.env("CARGO_ENCODED_RUSTFLAGS", without_paths()?);
        }
        if let Some(glibc) = glibc {
            let tag = format!("manylinux_{}", glibc.replace('.', "_"));
            maturin.args(["--zig", "--compatibility", &tag]);
        }
        if let Some(path) = &zig {
            maturin.env("PATH", path);
        }
        quiet(&mut maturin)?;
    }
    println!("-- the wheels of Python");
    for folder in ["worker", CLIENT] {
        if root().join(folder).join("pyproject.toml").exists() {
            pure_wheel(tools, folder, &dist)?;
        }
    }
    println!("-- packed tightly");
    for wheel in wheels_in(&dist)?.iter().filter(|wheel| build == Build::Release || is_pure(wheel))
    {
        pack_tightly(wheel).with_context(|| format!("pack {}", wheel.display()))?;
    }
    Ok(())
}

/// Packs a wheel anew, and smaller: people download it more often than it is built.
fn pack_tightly(wheel: &Path) -> Result<()> {
    let mut from = ZipArchive::new(File::open(wheel)?)?;
    let partial = wheel.with_extension("partial");
    let mut to = ZipWriter::new(BufWriter::new(File::create(&partial)?));
    for index in 0..from.len() {
        let mut file = from.by_index(index)?;
        let options = file.options().compression_method(CompressionMethod::Deflated);
        let level = if file.size() > SMALL { LEVEL } else { LEVEL_OF_SMALL };
        let options = options.compression_level(Some(level)).with_zopfli_buffer(Some(BLOCK));
        to.start_file(file.name()?.into_owned(), options)?;
        io::copy(&mut file, &mut to)?;
    }
    to.finish()?.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(fs::rename(&partial, wheel)?)
}

/// Refuses wheels of Python that have become too large: however the programs are built, these are
/// as people get them.
pub fn check_pure_sizes(dist: &Path) -> Result<()> {
    let mut wheels = wheels_in(dist)?;
    wheels.retain(|wheel| is_pure(wheel));
    check_sizes(&wheels)
}

/// Whether a wheel is of Python alone.
fn is_pure(wheel: &Path) -> bool {
    wheel.to_string_lossy().ends_with("-none-any.whl")
}

/// The wheels of a folder.
pub fn wheels_in(dist: &Path) -> Result<Vec<PathBuf>> {
    let mut wheels = Vec::new();
    for entry in fs::read_dir(dist).with_context(|| format!("list {}", dist.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    wheels.sort();
    Ok(wheels)
}

/// A search path whose Python has zig, as maturin looks for it.
fn with_zig() -> Result<OsString> {
    let python = python::tools("package/zig", &root().join("packaging/requirements-zig.txt"))?;
    let bin = python.parent().context("an environment has a folder")?.to_owned();
    let before = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([bin].into_iter().chain(env::split_paths(&before)))?)
}

/// Flags that keep the folders of this machine out of programs.
fn without_paths() -> Result<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let home = home.context("there is no home folder")?;
    let flags = [(root(), "/molbox"), (home, "/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    Ok(flags.join("\x1f"))
}

/// The wheel of a package in Python; of the client its sources as well, which others build from. In a
/// copy: builds leave things behind.
fn pure_wheel(tools: &Tools, folder: &str, dist: &Path) -> Result<()> {
    let copy = target().join("package").join(folder);
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    copy_tracked(folder, &copy)?;
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(license), copy.join(license))?;
    }
    let mut build = tools.command("python");
    // The backends are among the tools.
    build.args(["-m", "build", "--no-isolation", "--wheel"]);
    if folder == CLIENT {
        build.arg("--sdist");
    }
    quiet(build.arg("--outdir").arg(dist).arg(&copy))
}

/// Copies the files of a folder that git knows or would add.
fn copy_tracked(folder: &str, to: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.arg("--").arg(folder).output().context("start git")?;
    ensure!(output.status.success(), "git ls-files failed: the packages are built in a clone");
    let files = String::from_utf8(output.stdout)?;
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        let path = Path::new(file);
        let place = to.join(path.strip_prefix(folder)?);
        fs::create_dir_all(place.parent().context("a file lies in a folder")?)?;
        fs::copy(root().join(path), &place).with_context(|| format!("copy {file}"))?;
    }
    Ok(())
}

/// The version of all packages.
pub fn version() -> Result<String> {
    Ok(document()?.value["info"]["x-release"].as_str().context("info.x-release")?.to_owned())
}

/// Lays out what archives and Debian packages have: programs, completions, man pages, settings. The
/// programs are those of the wheels: wherever cargo has put them, these need no newer glibc.
fn laid_out(tools: &Tools, dist: &Path, glibc: Option<&str>) -> Result<PathBuf> {
    let root_folder = target().join("package/root");
    if root_folder.exists() {
        fs::remove_dir_all(&root_folder)?;
    }
    for folder in ["usr/bin", "usr/share/man/man1", "completions"] {
        fs::create_dir_all(root_folder.join(folder))?;
    }
    for (_, name) in PROGRAMS {
        let to = root_folder.join("usr/bin").join(name);
        take_out(tools.command("python"), &wheels_in(dist)?, name, &to)?;
        quiet(Command::new("strip").arg(&to))?;
        let needed = glibc_of(&to)?;
        if let Some(glibc) = glibc {
            ensure!(
                parts(&needed) <= parts(glibc),
                "{name} needs glibc {needed}, and {glibc} was asked for"
            );
        }
    }
    let molbox = root_folder.join("usr/bin/molbox");
    let man = root_folder.join("usr/share/man/man1");
    for (_, name) in PROGRAMS {
        quiet(Command::new(root_folder.join("usr/bin").join(name)).arg("man").arg(&man))?;
    }
    for page in fs::read_dir(&man)? {
        gzip(&page?.path())?;
    }
    for (shell, file) in [("bash", "molbox.bash"), ("zsh", "_molbox"), ("fish", "molbox.fish")] {
        let text = output(Command::new(&molbox).args(["completions", shell]))?;
        fs::write(root_folder.join("completions").join(file), text)?;
    }
    // As docs/operating.md makes it.
    let settings = ["--data", "/var/lib/molbox", "--set"];
    let mut config = Command::new(root_folder.join("usr/bin/molboxd"));
    config.env_clear().args(settings).args(["worker.python=/opt/molbox/env/bin/python", "config"]);
    fs::write(root_folder.join("molbox.toml"), output(&mut config)?)?;
    // Where Debian has programs; the page that shows the unit has them in /usr/local/bin.
    fs::copy(root().join("packaging/molbox.service"), root_folder.join("molbox.service"))?;
    let mit = fs::read_to_string(root().join("LICENSE-MIT"))?;
    fs::write(
        root_folder.join("copyright"),
        // Debian has the text of the other licence on every machine, and wants no copy of it.
        format!(
            "molbox is licensed under the MIT license or the Apache License 2.0, as you like.\n\n\
             {mit}\nThe Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.\n\n\
             The licenses of what is built in are in {NOTICES}.gz beside this file.\n"
        ),
    )?;
    let of_others = root_folder.join(NOTICES);
    fs::write(&of_others, notices()?)?;
    gzip(&of_others)?;
    Ok(root_folder)
}

/// Packs a file, in its place.
fn gzip(file: &Path) -> Result<()> {
    quiet(Command::new("gzip").args(["--no-name", "--force", "-9"]).arg(file))
}

/// Takes a program out of the one of these wheels that has it.
fn take_out(mut python: Command, wheels: &[PathBuf], name: &str, to: &Path) -> Result<()> {
    let code = "
import shutil, sys, zipfile
name, to, *wheels = sys.argv[1:]
found = [(zipfile.ZipFile(wheel), path) for wheel in wheels for path in zipfile.ZipFile(wheel).namelist()
         if path.endswith(f'.data/scripts/{name}')]
[(wheel, path)] = found
with wheel.open(path) as source, open(to, 'wb') as target:
    shutil.copyfileobj(source, target)
";
    quiet(python.args(["-c", code, name]).arg(to).args(wheels))
        .with_context(|| format!("take {name} out of its wheel"))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o755))?)
}

/// An archive for machines without Python, or where nobody installs.
fn archive(root_folder: &Path, dist: &Path) -> Result<()> {
    println!("-- the archive");
    let name = format!("molbox-{}-{}-linux", version()?, env::consts::ARCH);
    let folder = target().join("package").join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut copy = Command::new("cp");
    copy.arg("--recursive").arg(root_folder.join("usr/bin")).arg(root_folder.join("usr/share"));
    quiet(copy.arg(root_folder.join("completions")).arg(&folder))?;
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(file), folder.join(file))?;
    }
    fs::write(folder.join(NOTICES), notices()?)?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--xz", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{EPOCH}")).arg("--file").arg(dist.join(format!("{name}.tar.xz")));
    quiet(tar.arg("--directory").arg(target().join("package")).arg(&name))
}

/// The packages of Debian.
fn debian(tools: &Tools, root_folder: &Path, dist: &Path) -> Result<()> {
    let version = version()?;
    let arch = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("Debian's name of {other} is not known here"),
    };
    for name in ["molbox", "molboxd"] {
        println!("-- the Debian package {name}");
        let program = root_folder.join("usr/bin").join(name);
        let date = "Wed, 01 Jan 2020 00:00:00 +0000";
        let changelog = format!(
            "{name} ({version}-1) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n \
             -- The molbox authors <molbox@example.org>  {date}\n"
        );
        fs::write(root_folder.join("changelog.Debian"), changelog)?;
        gzip(&root_folder.join("changelog.Debian"))?;
        let mut nfpm = tools.command("nfpm");
        nfpm.args(["package", "--packager", "deb", "--config"]);
        nfpm.arg(packaging_config(root_folder, name)?).arg("--target").arg(dist);
        nfpm.env("ARCH", arch).env("VERSION", &version).env("GLIBC", glibc_of(&program)?);
        quiet(&mut nfpm)?;
    }
    Ok(())
}

/// nfpm's configuration, with the folder of this machine in it.
fn packaging_config(root_folder: &Path, name: &str) -> Result<PathBuf> {
    let from = root().join("packaging/debian").join(format!("{name}.yaml"));
    let text = fs::read_to_string(&from).with_context(|| format!("read {}", from.display()))?;
    let to = target().join("package").join(format!("{name}.yaml"));
    fs::write(&to, text.replace("src: root/", &format!("src: {}/", root_folder.display())))?;
    Ok(to)
}

/// The newest version of glibc that a program asks for.
fn glibc_of(program: &Path) -> Result<String> {
    let symbols =
        String::from_utf8(output(Command::new("objdump").arg("--dynamic-syms").arg(program))?)?;
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        Some((parts(&number)?, number))
    });
    versions.max().map(|(_, number)| number).context("the program asks for no glibc")
}

/// The numbers of a version: 2.4 is older than 2.28.
fn parts(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

/// Where the sums are: those of several platforms are downloaded from the same place.
pub fn sums_in(dist: &Path) -> PathBuf {
    dist.join(format!("SHA256SUMS-{}", env::consts::ARCH))
}

/// SHA-256 of everything, for `sha256sum --check`.
fn sums(dist: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dist)? {
        names.push(entry?.file_name());
    }
    names.sort();
    let sums = output(Command::new("sha256sum").current_dir(dist).args(&names))?;
    Ok(fs::write(sums_in(dist), sums)?)
}

/// Prints what everything has, and refuses wheels that have become too large.
fn sizes(dist: &Path) -> Result<()> {
    let mut entries = fs::read_dir(dist)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        println!("{:>10.2} MB  {name}", entry.metadata()?.len() as f64 / 1e6);
    }
    check_sizes(&wheels_in(dist)?)
}

/// Refuses wheels that have become too large, all at once.
fn check_sizes(wheels: &[PathBuf]) -> Result<()> {
    let mut too_large = Vec::new();
    for wheel in wheels {
        let name = wheel.file_name().unwrap_or_default().to_string_lossy();
        let limit = LIMITS.iter().find(|(start, _)| name.split('-').next() == Some(*start));
        let bytes = fs::metadata(wheel)?.len();
        if let Some((_, limit)) = limit.filter(|(_, limit)| bytes > *limit) {
            too_large.push(format!("{name} has {bytes} bytes, more than {limit}"));
        }
    }
    ensure!(too_large.is_empty(), "{}", too_large.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_the_programs_of_the_wheels() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let make = "
import sys, zipfile
for wheel, name in zip(sys.argv[1::2], sys.argv[2::2]):
    with zipfile.ZipFile(wheel, 'w') as out:
        out.writestr(f'x-1.data/scripts/{name}', '#!/bin/sh\\necho ' + name)
";
        let wheels = [at("molbox_cli-1.whl"), at("molboxd-1.whl")];
        let mut python = Command::new("python3");
        python.args(["-c", make]).arg(&wheels[0]).arg("molbox").arg(&wheels[1]).arg("molboxd");
        quiet(&mut python).unwrap();
        for name in ["molbox", "molboxd"] {
            take_out(Command::new("python3"), &wheels, name, &at(name)).unwrap();
            assert_eq!(
                output(&mut Command::new(at(name))).unwrap(),
                format!("{name}\n").as_bytes()
            );
        }
        assert!(take_out(Command::new("python3"), &wheels, "other", &at("other")).is_err());
    }

    #[test]
    fn versions_of_glibc_are_compared_by_their_numbers() {
        assert!(parts("2.4") < parts("2.28"));
        assert!(parts("2.34") > parts("2.28"));
        assert!(parts("2.28") <= parts("2.28"));
    }

    #[test]
    fn packages_lie_where_cargo_builds_nothing() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("[profile.{PROFILE}]")));
        for dist in [Build::Debug, Build::Release].map(Build::dist) {
            let name = dist.file_name().unwrap().to_str().unwrap();
            assert!(!manifest.contains(&format!("[profile.{name}]")), "cargo builds in {name}");
        }
    }

    #[test]
    fn sums_of_two_platforms_are_two_files() {
        assert!(sums_in(Path::new("dist")).ends_with(format!("SHA256SUMS-{}", env::consts::ARCH)));
    }

    #[test]
    fn an_upgrade_of_the_debian_package_says_what_is_left_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let script = |name: &str, lines: &str| {
            fs::write(at(name), format!("#!/bin/sh\n{lines}\n")).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        let postinst = fs::read_to_string(root().join("packaging/debian/postinst")).unwrap();
        let postinst =
            postinst.replace("/opt/molbox/env/bin", &folder.path().display().to_string());
        // As systemd runs.
        fs::write(at("postinst"), postinst.replace("/run/systemd/system", "/")).unwrap();
        script("adduser", "");
        script("molboxd", "echo molboxd 0.2.0");
        let said = |worker: &str, is_running: bool| {
            script("python", worker);
            script("systemctl", &format!("[ $1 = daemon-reload ] || {is_running}"));
            let mut run = Command::new("/bin/sh");
            let path = format!("{}:/usr/bin:/bin", folder.path().display());
            run.arg(at("postinst")).arg("configure").env_clear().env("PATH", path);
            String::from_utf8(output(&mut run).unwrap()).unwrap()
        };
        assert!(said("exit 1", false).contains("molboxd setup\n  systemctl enable --now molbox"));
        let old = said("echo 0.1.0", true);
        assert!(old.contains("still 0.1.0"), "{old}");
        assert!(old.contains("molboxd setup\n  systemctl restart molbox"), "{old}");
        assert!(said("echo 0.2.0", true).contains("systemctl restart molbox"));
        assert_eq!(said("echo 0.2.0", false), "");
    }

    #[test]
    fn a_purge_of_the_debian_package_says_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let [data, environment] = ["data", "environment"].map(|name| folder.path().join(name));
        let postrm = fs::read_to_string(root().join("packaging/debian/postrm")).unwrap();
        let postrm = postrm.replace("/var/lib/molbox", &data.display().to_string());
        let script = folder.path().join("postrm");
        let script_text = postrm.replace("/opt/molbox", &environment.display().to_string());
        fs::write(&script, script_text).unwrap();
        let purge = || {
            let said = output(Command::new("/bin/sh").arg(&script).arg("purge")).unwrap();
            String::from_utf8(said).unwrap()
        };
        assert_eq!(purge(), "");
        fs::create_dir(&data).unwrap();
        assert_eq!(purge(), format!("{} is left: remove it by hand\n", data.display()));
    }
}
