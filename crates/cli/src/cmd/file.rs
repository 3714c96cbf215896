//! `molbox file`

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;

use clap::{Args, Subcommand};
use futures::TryStreamExt as _;
use molbox::workflow::Client;
use serde_json::{Value, json};

use super::task::{self, Filter};
use crate::bundle;
use crate::content;
use crate::context::Context;
use crate::failure::{Code, Failure};

/// Files that are asked for together.
const PAGE: u64 = 100;

pub(crate) const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/file_id"),
    ("NAME", "/name"),
    ("TYPE", "/type"),
    ("FORMAT", "/format"),
    ("STATUS", "/status"),
    ("SIZE", "/size_bytes"),
    ("CREATED", "/created_at"),
];

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Upload files of this machine and register them.
    #[command(visible_alias = "submit")]
    Upload {
        /// Files; one that is compressed (.gz) is sent as what is in it.
        #[arg(required = true, value_name = "FILE")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        described: Described,
    },
    /// Ask for a link that takes the content of one file without a key.
    Link {
        /// Format of the file: pdb, cif, sdf, mol, mol2, xml, dcd, xtc, trr, nc, and those of built
        /// systems.
        format: String,
    },
    /// Register what was uploaded to a link, or a public structure entry.
    Register {
        /// Identifier that came with the link.
        #[arg(required_unless_present = "pdb_id")]
        file_id: Option<String>,
        /// Public structure entry to take instead of an upload, such as 1L2Y.
        #[arg(long, conflicts_with = "file_id")]
        pdb_id: Option<String>,
        #[command(flatten)]
        described: Described,
    },
    /// List, the newest first.
    #[command(visible_alias = "ls")]
    List(Filter),
    /// Show everything about files.
    Show {
        /// Identifiers or names; `latest` is the newest.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Show what a file contains: chains, heterogens, missing residues, and what a build would make
    /// of them; atoms of a ligand, frames of a trajectory.
    Contents {
        /// Identifier or name; `latest` is the newest.
        id: String,
    },
    /// Download atoms of a structure file as mmCIF, numbered as masks count them.
    Structure {
        /// Identifier or name; `latest` is the newest.
        id: String,
        /// Amber mask of the atoms. Default: all.
        #[arg(long)]
        mask: Option<String>,
        /// File to write. Default: `ID.cif`.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Download chosen atoms and frames of a trajectory file as DCD.
    ///
    /// Example: molbox file trajectory ID --topology villin --mask '!:HOH,NA,CL' --stride 10
    Trajectory {
        /// Identifier or name; `latest` is the newest.
        id: String,
        /// Registered structure that names the atoms, by identifier or name.
        #[arg(long, value_name = "FILE")]
        topology: Option<String>,
        #[command(flatten)]
        frames: task::Frames,
        /// File to write. Default: `ID.dcd`.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete files; it asks first, and without a terminal wants `--yes`.
    #[command(visible_alias = "rm")]
    Delete {
        /// Identifiers or names; `latest` is the newest.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
    /// Download a file; an interrupted download is resumed where it stopped.
    Download {
        /// Identifier or name; `latest` is the newest.
        id: String,
        /// File to write. Default: its name and format, unless another file is called so.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// How to register a file.
#[derive(Args, Debug)]
pub(crate) struct Described {
    /// Name to register it under. Default: that of the uploaded file without extension, else the
    /// identifier.
    #[arg(long)]
    name: Option<String>,
    /// Kind of file: structure, ligand, `force_field` and so on. Default: what its format suggests.
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<String>,
    /// Format. Default: the extension of the file, or that of the link.
    #[arg(long)]
    format: Option<String>,
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let client = context.workflow()?;
    let output = &context.output;
    match command {
        Command::Upload { paths, described: Described { name, kind, format } } => {
            if name.is_some() && paths.len() > 1 {
                return Err(
                    Failure::usage("--name is for one file").remedy("upload the files one by one")
                );
            }
            let mut records = Vec::new();
            let names = names_apart(&paths);
            for (path, apart) in paths.into_iter().zip(names) {
                let (path, _folder) = content::to_read(path)?;
                let bar = output.bar("uploading");
                let shown = bar.clone();
                let mut upload = client.upload(path).on_progress(move |done, size| {
                    shown.set_position(1000 * done / size.max(1));
                });
                if let Some(name) = name.as_ref().or(apart.as_ref()) {
                    upload = upload.name(name);
                }
                if let Some(kind) = &kind {
                    upload = upload.kind(kind);
                }
                if let Some(format) = &format {
                    upload = upload.format(format);
                }
                let record = upload.await;
                bar.finish_and_clear();
                records.push(task::value(&record?)?);
            }
            one_or_table(context, &records)
        }
        Command::Link { format } => {
            let link = client.upload_url_create().filetype(&format).send().await?.into_inner();
            output.record(&task::value(&link)?)
        }
        Command::Register { file_id, pdb_id, described: Described { name, kind, format } } => {
            let register = client.file_register().body_map(|file| {
                let file = file.file_id(file_id).name(name).type_(kind).format(format);
                match &pdb_id {
                    Some(entry) => file.pdb_id(entry),
                    None => file,
                }
            });
            output.record(&task::value(&*register.send().await?)?)
        }
        Command::List(filter) => {
            let mut list = client.file_list().limit(filter.page());
            if let Some(status) = &filter.status {
                list = list.status(status);
            }
            if let Some(name) = &filter.name {
                list = list.name(name);
            }
            let found = filter.collect(list.stream()).await?;
            let none = match filter.is_narrow() {
                true => "no file of that state or name",
                false => "no files yet; `molbox file upload protein.pdb` registers one",
            };
            found.show(output, COLUMNS, none)
        }
        Command::Show { ids } => {
            let mut records = Vec::new();
            for id in ids {
                let id = resolve(&client, id).await?;
                records.push(task::value(&*client.file_view().file_id(&id).send().await?)?);
            }
            one_or_table(context, &records)
        }
        Command::Contents { id } => {
            let id = resolve(&client, id).await?;
            output.record(&task::value(&*client.file_contents().file_id(&id).send().await?)?)
        }
        Command::Structure { id, mask, output: path } => {
            let id = resolve(&client, id).await?;
            let call = client.call("GET", &format!("/retrieve/file/{id}/structure"))?;
            let call = mask.iter().fold(call, |call, mask| call.query("mask", mask));
            task::save(context, call, path.unwrap_or_else(|| format!("{id}.cif").into())).await
        }
        Command::Trajectory { id, topology, frames, output: path } => {
            let id = resolve(&client, id).await?;
            let call = client.call("GET", &format!("/retrieve/file/{id}/trajectory"))?;
            let call = topology.iter().fold(call, |call, name| call.query("topology", name));
            let path = path.unwrap_or_else(|| format!("{id}.dcd").into());
            task::save(context, frames.of(call), path).await
        }
        Command::Delete { ids: given, yes } => {
            let mut ids = Vec::new();
            for id in given {
                ids.push(resolve(&client, id).await?);
            }
            output.confirm(&format!("delete {}?", ids.join(", ")), yes)?;
            for id in &ids {
                client.file_delete().file_id(id).send().await?;
                output.note(&format!("deleted {id}"));
            }
            if output.is_json() { output.json(&json!({"deleted": ids})) } else { Ok(()) }
        }
        Command::Download { id, output: path } => {
            let id = resolve(&client, id).await?;
            let path = match path {
                Some(path) => path,
                None => {
                    let file = client.file_view().file_id(&id).send().await?;
                    let name = file.name.replace(['/', '\\'], "_");
                    let extension = format!(".{}", file.format);
                    // Files of built systems have theirs in their names.
                    let path =
                        PathBuf::from(format!("{}{extension}", name.trim_end_matches(&extension)));
                    not_another(&path, file.sha256.as_deref())?;
                    path
                }
            };
            let path = task::fetch(context, client.download_file(&id, path)).await?;
            task::downloaded(context, &path, None)
        }
    }
}

/// Names with extensions for files that are sent together and would have the same without, as
/// `system.xml` and `system.pdb` have; the others have their usual ones.
fn names_apart(paths: &[PathBuf]) -> Vec<Option<String>> {
    let stems: Vec<_> = paths.iter().map(|path| content::stem(&path.to_string_lossy())).collect();
    let whole = |path: &PathBuf| {
        let name = content::unpacked_name(path);
        name.file_name().and_then(|name| name.to_str()).map(str::to_owned)
    };
    let named = paths.iter().zip(&stems).map(|(path, stem)| {
        let is_alone = stems.iter().filter(|other| *other == stem).count() == 1;
        if is_alone { None } else { whole(path) }
    });
    named.collect()
}

/// Refuses to replace a file that nobody has named, unless it has the same content.
fn not_another(path: &Path, sha256: Option<&str>) -> Result<(), Failure> {
    let found = match bundle::sha256_of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|e| Failure::file(path, &e))?,
    };
    if sha256 == Some(found.as_str()) {
        return Ok(());
    }
    let message = format!("{}: is there already, with other content", path.display());
    Err(Failure::new(Code::Conflict, message).remedy("name the file to write with --output"))
}

/// The identifier that is meant: by one as short as tables show it, by `latest`, or by the name of
/// a single file.
pub(crate) async fn resolve(client: &Client, id: String) -> Result<String, Failure> {
    if task::is_identifier(&id) {
        return Ok(id);
    }
    let Some(prefix) = task::beginning(&id).filter(|id| id.starts_with("file_")) else {
        return match id.as_str() {
            "latest" => latest(client).await,
            name => named(client, name).await,
        };
    };
    let mut files = pin!(client.file_list().limit(PAGE).stream());
    let mut found: Option<String> = None;
    while let Some(file) = files.try_next().await? {
        if !file.file_id.starts_with(prefix) {
            continue;
        }
        if let Some(first) = found {
            let message = format!("{prefix} begins {first} and {}", file.file_id);
            return Err(Failure::invalid(message).remedy("give more of it"));
        }
        found = Some(file.file_id);
    }
    found.ok_or_else(|| {
        Failure::new(Code::NotFound, format!("no file whose identifier begins {prefix}"))
            .remedy("`molbox file list --all` shows them")
    })
}

/// The whole identifier of one as short as tables show it; anything else is for the service to
/// find.
pub(crate) async fn referred(client: &Client, id: &str) -> Result<String, Failure> {
    match task::beginning(id).is_some_and(|id| id.starts_with("file_")) {
        true => resolve(client, id.to_owned()).await,
        false => Ok(id.to_owned()),
    }
}

/// Whether a file is called so.
pub(crate) async fn is_registered(client: &Client, name: &str) -> Result<bool, Failure> {
    Ok(!ids_of(client, name).await?.is_empty())
}

/// The identifiers of the files of a name.
async fn ids_of(client: &Client, name: &str) -> Result<Vec<String>, Failure> {
    let page = client.file_list().name(name).limit(PAGE).send().await?.into_inner();
    let same = page.items.into_iter().filter(|file| file.name == name);
    Ok(same.map(|file| file.file_id).collect())
}

async fn latest(client: &Client) -> Result<String, Failure> {
    let page = client.file_list().limit(1u64).send().await?.into_inner();
    let newest = page.items.into_iter().next();
    newest.map(|file| file.file_id).ok_or_else(|| {
        Failure::new(Code::NotFound, "there is no file yet")
            .remedy("`molbox file upload protein.pdb` registers one")
    })
}

/// The only file of a name.
async fn named(client: &Client, name: &str) -> Result<String, Failure> {
    match ids_of(client, name).await?.as_slice() {
        [id] => Ok(id.clone()),
        [first, second, ..] => {
            let message =
                format!("several files are called {name}, {first} and {second} among them");
            Err(Failure::invalid(message).remedy("give the identifier of one"))
        }
        [] => Err(Failure::new(Code::NotFound, format!("no file called {name}"))
            .remedy("`molbox file list` lists them")),
    }
}

fn one_or_table(context: &Context, records: &[Value]) -> Result<(), Failure> {
    records.iter().for_each(|record| context.output.warnings(record));
    match records {
        [one] => context.output.record(one),
        many => context.output.table(COLUMNS, many),
    }
}
