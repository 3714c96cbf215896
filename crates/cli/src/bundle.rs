//! Bundles of results as they lie on this machine: a zip, or the folder that it was unpacked into.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::slice;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

use crate::archive::repeated_name;
use crate::failure::{Code, Failure};
use crate::research_object::{self, Entities};
pub(crate) use crate::research_object::{MANIFEST, OF_SYSTEM};

pub(crate) const CRATE: &str = "ro-crate-metadata.json";
/// Of the specification, which a crate's descriptor names with a version.
const SPECIFICATION: &str = "https://w3id.org/ro/crate/";

/// Most bytes of a file of JSON. A manifest takes some 200 for each file of a task. Bundles come from
/// strangers, and 7 MB of a zip can be 1.6 GB of a manifest.
const MAX_JSON_BYTES: usize = 16 << 20;

/// The first bytes of every zip that has files in it.
const ZIP_BEGINS: &[u8] = b"PK\x03\x04";

/// The results of a task.
pub(crate) struct Bundle {
    path: PathBuf,
    content: Content,
    /// Names of all files within the folder of the task, each with its place: the index in the
    /// archive, or nothing of a folder.
    files: BTreeMap<String, usize>,
}

enum Content {
    Zip(Box<ZipArchive<BufReader<File>>>),
    Folder,
}

/// What a manifest says, as far as programs read it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) molboxd: String,
    /// Version of the document; of none before crates were made.
    pub(crate) document: Option<String>,
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) platform: Option<String>,
    pub(crate) engine: Option<String>,
    pub(crate) seed: u64,
    pub(crate) request: Value,
    #[serde(default)]
    pub(crate) parameters: Value,
    /// Of a system: its request with every default filled in.
    #[serde(default)]
    pub(crate) settings: Value,
    /// Of a system: the files that it was built from.
    #[serde(default)]
    pub(crate) inputs: Vec<Input>,
    pub(crate) files: Vec<Listed>,
}

/// A file that a system was built from.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Input {
    pub(crate) field: String,
    /// Its name under `input/`.
    pub(crate) file: String,
    /// What its owner called it.
    pub(crate) name: String,
}

/// A file as a manifest lists it; `name` begins with the folder of the task.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) sha256: String,
}

/// Something about a bundle that is not as it was when it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    pub(crate) file: String,
    pub(crate) kind: Kind,
    pub(crate) detail: String,
}

/// How a file differs from what was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Missing,
    Changed,
    /// It is there, and nothing names it.
    Surplus,
    /// It cannot be read as what it is.
    Invalid,
}

/// What there is, measured.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Measured {
    size_bytes: u64,
    sha256: String,
}

impl Bundle {
    /// Opens a zip, or the folder that one was unpacked into.
    ///
    /// # Errors
    ///
    /// What is neither, and a zip whose list of files cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let found = fs::metadata(path).map_err(|e| Failure::file(path, &e))?;
        if found.is_dir() {
            let mut files = BTreeMap::new();
            list(path, "", &mut files).map_err(|e| Failure::file(path, &e))?;
            return Ok(Self { path: path.to_owned(), content: Content::Folder, files });
        }
        let mut file = BufReader::new(File::open(path).map_err(|e| Failure::file(path, &e))?);
        let beginning = file.fill_buf().map_err(|e| Failure::file(path, &e))?;
        // A zip has its list of files at its end, so that one that was cut off has none.
        let is_damaged = beginning.starts_with(ZIP_BEGINS);
        let archive = ZipArchive::new(file).map_err(|error| match is_damaged {
            true => {
                let message = format!("{}: cut off or damaged: {error}", path.display());
                Failure::new(Code::Damaged, message).remedy("download it again")
            }
            false => Failure::new(Code::File, format!("{}: no bundle: {error}", path.display()))
                .remedy("give the zip that `molbox job download` has written, or its folder"),
        })?;
        if let Some(name) = repeated_name(path)? {
            let message = format!("{}: {name:?} is in it twice", path.display());
            return Err(Failure::new(Code::Damaged, message).remedy("download it again"));
        }
        let names = archive.file_names().map(|name| name.map(Cow::into_owned));
        let names: Vec<String> = names.collect::<Result<_, _>>().map_err(anyhow::Error::from)?;
        // All is in one folder, which is called as the task; of what was published nothing is.
        let top = match names.iter().any(|name| name == MANIFEST) {
            true => None,
            false => names.iter().find_map(|name| name.strip_suffix(&format!("/{MANIFEST}"))),
        };
        let top = top.map(|top| format!("{}/", top.split('/').next().unwrap_or(top)));
        let top = top.unwrap_or_default();
        let mut files = BTreeMap::new();
        for name in names.iter().filter(|name| !name.ends_with('/')) {
            let index = archive.index_for_name(name).expect("it was just listed");
            files.insert(name.strip_prefix(&top).unwrap_or(name).to_owned(), index);
        }
        Ok(Self { path: path.to_owned(), content: Content::Zip(Box::new(archive)), files })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a folder, in which files can be written.
    pub(crate) fn is_folder(&self) -> bool {
        matches!(self.content, Content::Folder)
    }

    /// Names of its files.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Hands a file to `sink`; its size.
    ///
    /// # Errors
    ///
    /// Not found, what the disk says, and content that is not the zip's.
    pub(crate) fn copy(&mut self, name: &str, sink: &mut impl Write) -> io::Result<u64> {
        io::copy(&mut self.open_file(name)?, sink)
    }

    fn open_file(&mut self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        let index = *self.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(match &mut self.content {
            Content::Zip(archive) => Box::new(archive.by_index(index)?),
            Content::Folder => Box::new(File::open(self.path.join(name))?),
        })
    }

    /// A whole file.
    pub(crate) fn read(&mut self, name: &str) -> Result<Vec<u8>, Failure> {
        let mut content = Vec::new();
        let read = self.copy(name, &mut content);
        read.map_err(|error| Failure::file(&self.path.join(name), &error))?;
        Ok(content)
    }

    /// Reads a file of JSON into a type.
    ///
    /// # Errors
    ///
    /// Also for one of more than [`MAX_JSON_BYTES`], whatever size the zip has for it.
    pub(crate) fn json<T: for<'de> Deserialize<'de>>(&mut self, name: &str) -> Result<T, Failure> {
        let at = self.path.join(name);
        let mut content = Vec::new();
        let read = self
            .open_file(name)
            .and_then(|file| file.take(MAX_JSON_BYTES as u64 + 1).read_to_end(&mut content));
        read.map_err(|error| Failure::file(&at, &error))?;
        let damaged =
            |what: String| Failure::new(Code::Damaged, format!("{}: {what}", at.display()));
        if content.len() > MAX_JSON_BYTES {
            let mib = MAX_JSON_BYTES >> 20;
            return Err(damaged(format!("too large: JSON of a bundle has at most {mib} MiB"))
                .remedy("ask whoever made the bundle for it as the service gave it"));
        }
        serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))
    }

    /// The manifest of the task, which every bundle has.
    pub(crate) fn manifest(&mut self) -> Result<Manifest, Failure> {
        if !self.has(MANIFEST) {
            let message = format!("{}: no bundle: it has no {MANIFEST}", self.path.display());
            return Err(Failure::new(Code::File, message)
                .remedy("give the zip that `molbox job download` has written, or its folder"));
        }
        self.json(MANIFEST)
    }

    /// SHA-256 of a file, in hexadecimal.
    pub(crate) fn sha256(&mut self, name: &str) -> Result<String, Failure> {
        let measured = self.measure(name);
        Ok(measured.map_err(|error| Failure::file(&self.path.join(name), &error))?.sha256)
    }

    fn measure(&mut self, name: &str) -> io::Result<Measured> {
        let mut digest = Hashing(Sha256::new());
        let size_bytes = self.copy(name, &mut digest)?;
        Ok(Measured { size_bytes, sha256: digest.hexadecimal() })
    }

    /// Everything that is not as it was when the bundle was made: each file by the digests of the
    /// manifests, and by those of the crate, which has to describe all of them and to say what the
    /// manifests say. `progress` is told how many files of all were read.
    ///
    /// # Errors
    ///
    /// What has no manifest, and a manifest that cannot be read.
    pub(crate) fn check(
        &mut self,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Problem>, Failure> {
        let manifest = self.manifest()?;
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        let mut found = BTreeMap::new();
        let mut problems = Vec::new();
        for (index, name) in names.iter().enumerate() {
            progress(index, names.len());
            match self.measure(name) {
                Ok(measured) => drop(found.insert(name.clone(), measured)),
                Err(error) => problems.push(Problem {
                    file: name.clone(),
                    kind: Kind::Changed,
                    detail: format!("cannot be read: {error}"),
                }),
            }
        }
        let unreadable: BTreeSet<String> =
            problems.iter().map(|problem| problem.file.clone()).collect();
        let mut compare = |listed: &Listed, name: &str, by: &str| {
            let problem = |kind, detail: String| Problem { file: name.to_owned(), kind, detail };
            match found.get(name) {
                _ if unreadable.contains(name) => {}
                None => problems.push(problem(Kind::Missing, format!("{by} lists it"))),
                Some(now) if now.size_bytes != listed.size_bytes => {
                    let detail =
                        format!("has {} bytes, {} by {by}", now.size_bytes, listed.size_bytes);
                    problems.push(problem(Kind::Changed, detail));
                }
                Some(now) if now.sha256 != listed.sha256 => {
                    let detail =
                        format!("has the SHA-256 {}, {} by {by}", now.sha256, listed.sha256);
                    problems.push(problem(Kind::Changed, detail));
                }
                Some(_) => {}
            }
        };
        for listed in &manifest.files {
            compare(listed, within(&manifest.id, &listed.name), MANIFEST);
        }
        if let Some(name) = names.iter().find(|name| *name == OF_SYSTEM) {
            match self.json::<Manifest>(name) {
                Ok(system) => {
                    for listed in &system.files {
                        let name = format!("system/{}", within(&system.id, &listed.name));
                        compare(listed, &name, OF_SYSTEM);
                    }
                }
                Err(failure) => problems.push(Problem {
                    file: name.clone(),
                    kind: Kind::Invalid,
                    detail: failure.message,
                }),
            }
        }
        let listed: BTreeSet<&str> =
            manifest.files.iter().map(|file| within(&manifest.id, &file.name)).collect();
        for name in &names {
            if !listed.contains(name.as_str()) && ![MANIFEST, CRATE].contains(&name.as_str()) {
                problems.push(Problem {
                    file: name.clone(),
                    kind: Kind::Surplus,
                    detail: format!("{MANIFEST} does not list it"),
                });
            }
        }
        if self.has(CRATE) {
            // One that cannot be read is among the problems.
            let of_system = self.json::<Value>(OF_SYSTEM).ok();
            let of_task: Value = self.json(MANIFEST)?;
            match self.json::<Value>(CRATE) {
                Ok(content) => {
                    let entities = entities(&content);
                    check_crate(&content, &entities, &found, &listed, &mut problems);
                    let changed = research_object::changed(&entities, &of_task, of_system.as_ref());
                    problems.extend(changed.into_iter().map(|it| of_crate(Kind::Changed, it)));
                }
                Err(failure) => problems.push(of_crate(Kind::Invalid, failure.message)),
            }
        } else if manifest.document.is_some() {
            problems.push(of_crate(Kind::Missing, "the bundle was made with one".to_owned()));
        }
        progress(names.len(), names.len());
        // One damaged file is named by several lists; its first line says all.
        let mut known = BTreeSet::new();
        problems.retain(|problem| {
            problem.file == CRATE || known.insert((problem.file.clone(), problem.kind as u8))
        });
        Ok(problems)
    }
}

fn of_crate(kind: Kind, detail: String) -> Problem {
    Problem { file: CRATE.to_owned(), kind, detail }
}

fn entities(content: &Value) -> Entities<'_> {
    let graph = content["@graph"].as_array().into_iter().flatten();
    graph.filter_map(|entity| Some((entity["@id"].as_str()?, entity))).collect()
}

/// Whether a crate is one, and describes the files that there are.
fn check_crate(
    content: &Value,
    entities: &Entities<'_>,
    found: &BTreeMap<String, Measured>,
    listed: &BTreeSet<&str>,
    problems: &mut Vec<Problem>,
) {
    let mut invalid = |detail: &str| problems.push(of_crate(Kind::Invalid, detail.to_owned()));
    let context = &content["@context"];
    let contexts = context.as_array().map_or(slice::from_ref(context), Vec::as_slice);
    if !contexts.iter().filter_map(Value::as_str).any(|it| it.starts_with(SPECIFICATION)) {
        invalid("its @context is not that of RO-Crate");
    }
    if content["@graph"].as_array().is_some_and(|graph| graph.len() != entities.len()) {
        invalid("an entity of it has no @id, or that of another");
    }
    let descriptor = entities.get(CRATE).copied().unwrap_or(&Value::Null);
    let conforms = descriptor["conformsTo"]["@id"].as_str().unwrap_or_default();
    if !conforms.starts_with(SPECIFICATION) || descriptor["about"]["@id"] != "./" {
        let detail = "its descriptor names no RO-Crate with the root ./".to_owned();
        return problems.push(of_crate(Kind::Invalid, detail));
    }
    let Some(root) = entities.get("./") else {
        return problems.push(of_crate(Kind::Invalid, "it has no root ./".to_owned()));
    };
    for field in ["name", "description", "datePublished", "license"] {
        if root[field].is_null() {
            problems.push(of_crate(Kind::Invalid, format!("its root has no {field}")));
        }
    }
    let mut lost = BTreeSet::new();
    for entity in entities.values() {
        references(entity, true, &mut |id| {
            if is_local(id) && !entities.contains_key(id) {
                lost.insert(id.to_owned());
            }
        });
    }
    for id in lost {
        problems.push(of_crate(Kind::Invalid, format!("it refers to {id}, and does not have it")));
    }
    for (id, entity) in entities {
        if entity["@type"] != "File" || !is_local(id) {
            continue;
        }
        let problem = |kind, detail: String| Problem { file: (*id).to_owned(), kind, detail };
        match found.get(*id) {
            None => problems.push(problem(Kind::Missing, format!("{CRATE} describes it"))),
            Some(now) if entity["sha256"].as_str().is_some_and(|sha256| sha256 != now.sha256) => {
                let of_crate = entity["sha256"].as_str().unwrap_or_default();
                let detail = format!("has the SHA-256 {}, {of_crate} by {CRATE}", now.sha256);
                problems.push(problem(Kind::Changed, detail));
            }
            Some(now)
                if entity["contentSize"]
                    .as_str()
                    .is_some_and(|size| size != now.size_bytes.to_string()) =>
            {
                let of_crate = entity["contentSize"].as_str().unwrap_or_default();
                let detail = format!("has {} bytes, {of_crate} by {CRATE}", now.size_bytes);
                problems.push(problem(Kind::Changed, detail));
            }
            Some(_) => {}
        }
    }
    let mut parts = BTreeSet::new();
    references(&root["hasPart"], false, &mut |id| {
        parts.insert(id.to_owned());
    });
    for name in listed.iter().copied().chain([MANIFEST]) {
        let detail = match entities.get(name) {
            None => format!("it does not describe {name}"),
            // One of another type would not be compared with the file.
            Some(entity) if entity["@type"] != "File" || !entity["sha256"].is_string() => {
                format!("it does not describe {name} as a file with its SHA-256")
            }
            Some(_) if !parts.contains(name) => format!("its root does not list {name} as a part"),
            Some(_) => continue,
        };
        problems.push(of_crate(Kind::Invalid, detail));
    }
}

/// Whether an identifier is one of the crate itself.
fn is_local(id: &str) -> bool {
    !id.contains("://")
}

/// Calls `on_id` with every entity that a value refers to; `is_entity` for one itself.
fn references(value: &Value, is_entity: bool, on_id: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            if let (false, Some(id)) = (is_entity, members.get("@id").and_then(Value::as_str)) {
                on_id(id);
            }
            members.values().for_each(|member| references(member, false, on_id));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, false, on_id)),
        _ => {}
    }
}

/// A name within the folder of the task.
pub(crate) fn within<'a>(id: &str, name: &'a str) -> &'a str {
    name.strip_prefix(id).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name)
}

/// The files below a folder, by paths with `/`.
fn list(folder: &Path, prefix: &str, files: &mut BTreeMap<String, usize>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.insert(name, 0);
        }
    }
    Ok(())
}

/// SHA-256 of a file of this machine, in hexadecimal.
pub(crate) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut digest = Hashing(Sha256::new());
    io::copy(&mut File::open(path)?, &mut digest)?;
    Ok(digest.hexadecimal())
}

struct Hashing(Sha256);

impl Hashing {
    fn hexadecimal(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A copy of a bundle with another crate: a new zip, or the file of a folder.
///
/// # Errors
///
/// What cannot be read or written.
pub(crate) fn with_crate(bundle: &Bundle, content: &Value, to: &Path) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(content).map_err(anyhow::Error::from)?;
    if bundle.is_folder() {
        let path = bundle.path.join(CRATE);
        let partial = path.with_extension("tmp");
        return fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|e| Failure::file(&path, &e));
    }
    let partial = to.with_extension("tmp");
    let written = rewrite(bundle, &text, &partial).and_then(|()| fs::rename(&partial, to));
    written.map_err(|e| Failure::file(to, &e))
}

/// Copies the files of an archive as they are, but for its crate, and without the folder around
/// them: programs look for the crate of a zip at its top.
fn rewrite(bundle: &Bundle, text: &[u8], to: &Path) -> io::Result<()> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(&bundle.path)?))?;
    let mut out = zip::ZipWriter::new(File::create(to)?);
    let mut files: Vec<(usize, &str)> =
        bundle.files.iter().map(|(name, index)| (*index, name.as_str())).collect();
    files.sort_unstable();
    for (index, name) in files {
        let file = archive.by_index_raw(index)?;
        if name == CRATE {
            let time = file.last_modified().unwrap_or_default();
            let options = zip::write::SimpleFileOptions::default().last_modified_time(time);
            out.start_file(name, options)?;
            out.write_all(text)?;
        } else {
            out.raw_copy_file_rename(file, name)?;
        }
    }
    out.finish()?.sync_all()
}
