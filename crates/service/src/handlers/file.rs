//! Files: links, registration, listing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use axum::response::Response;
use molbox::workflow::types::{FileRecord, FileRegistration, UploadLink, ValidationError};
use molbox_analysis::Series;
use sha2::{Digest, Sha256};

use super::upload::take_sent;
use crate::accounts::link::LIFETIME;
use crate::app::App;
use crate::db::{Answer, Deed, FileRow, IdempotentWrite, Once, Unmade, Unregistered};
use crate::error::{ApiError, not_ready, stored};
use crate::excerpt::{Asked, Made};
use crate::formats::contents::{Reading, contents};
use crate::formats::{self, Format};
use crate::hex::hex;
use crate::http::answer::{deleted, json, record_answer, text};
use crate::http::call::Call;
use crate::http::download::download;
use crate::http::once::{once, remembered};
use crate::http::page::{page, paged};
use crate::http::validate::{joined, loc, unprintable, violation};
use crate::objects::Key;
use crate::objects::bundle::Layout;
use crate::objects::garbage::{sweep, sweep_deleted};
use crate::pdb;
use crate::plan::analyze::{Given, STRUCTURES, TOPOLOGIES, TRAJECTORIES, given};
use crate::record::FileStatus;
use crate::registered;
use crate::structure::{Model, StructureText};

pub(crate) async fn upload_url_create(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let filetype = call.query("filetype").unwrap_or_default();
    let format = known(filetype)?;
    app.check_disk()?;
    let id = app.new_id("file");
    let file = FileRow {
        seq: 0,
        id: id.clone(),
        name: id.clone(),
        kind: format.kinds()[0].to_owned(),
        format,
        status: FileStatus::Pending,
        size: None,
        sha256: None,
        pdb_id: None,
        created_at: app.now(),
        object: None,
        warnings: "[]".to_owned(),
    };
    let limits = &app.config.limits;
    let (max, most) = (limits.account_bytes, limits.pending_files);
    let made = app.db.create_pending_file(call.account(), file, max, most, call.deed()).await?;
    made.map_err(|reason| match reason {
        Unmade::OverQuota(over) => ApiError::over_quota(over),
        Unmade::TooMany => {
            let msg = format!(
                "the account has {most} upload links whose file was not registered, as many as it \
                 may (limits.pending_files); register these files, or delete them"
            );
            ApiError::too_many(msg, Duration::from_secs(60))
        }
    })?;
    let expires = app.now() + LIFETIME;
    let upload_url = match app.objects.link(&Key::sent(&id), LIFETIME.unsigned_abs())? {
        Some(direct) => direct.to_string(),
        None => {
            let signed = app.links.query(&id, call.caller().id(), expires);
            format!("{}/upload/{id}?{signed}", call.base_url())
        }
    };
    json(&UploadLink {
        file_id: id,
        upload_url,
        expires_at: expires.to_string(),
        content_type: Some(format.media().to_owned()),
        max_bytes: Some(app.config.largest_upload()),
        extra: Default::default(),
    })
}

pub(crate) async fn file_register(call: Call) -> Result<Response, ApiError> {
    // On its own: content that is on its way to an object is taken, or removed, also when nobody
    // waits for the answer any more.
    tokio::spawn(register(call)).await.map_err(ApiError::internal)?
}

async fn register(call: Call) -> Result<Response, ApiError> {
    let (request, warnings, outside) = call.readable::<FileRegistration>()?;
    let app = &call.app;
    app.check_disk()?;
    if let Some(pdb_id) = &request.pdb_id {
        return register_entry(&call, pdb_id, &request, warnings, outside).await;
    }
    let file = pending(&call, &request).await;
    let format = file.as_ref().ok().map(|file| file.format);
    let mut violations = joined(outside, violations(&request, format));
    let mut file = match file {
        Ok(file) if violations.is_empty() => file,
        Ok(_) => return Err(ApiError::invalid(violations)),
        Err(error) => {
            error.add_to(&mut violations)?;
            return Err(ApiError::unresolved(violations));
        }
    };
    if file.status == FileStatus::Ready {
        return remembered(&call, record_answer(record(&file)?)).await;
    }
    let id = &file.id.clone();
    if let Some(arrived) = take_sent(&call, id).await? {
        file.object = Some(arrived.to_string());
    }
    complete(&mut file, &request)?;
    file.warnings = warnings;
    file.created_at = app.now();
    // A row of an earlier version names an object whether or not there is one.
    let object = match file.object.clone().map(Key::stored) {
        Some(key) if app.objects.exists(&key)? => key,
        _ => {
            let msg = format!("{id} is pending: send the content to its upload link first");
            return Err(ApiError::conflict(vec![loc("body"), loc("file_id")], msg));
        }
    };
    let format = file.format;
    let objects = app.objects.clone();
    let turn = app.turn(&app.registrations, call.account()).await?;
    let limits = &app.config.limits;
    let (max_bytes, max_atoms) = (limits.text_bytes, limits.atoms);
    let content = tokio::task::spawn_blocking(move || {
        // Until the check has ended, also when nobody waits for it any more.
        let _turn = turn;
        formats::check(objects.local(&object)?.path(), format, max_bytes, max_atoms)
    });
    let content = match content.await.map_err(ApiError::internal)? {
        // Other content has arrived, and this was removed before it could be read.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(unregistered(&file, Unregistered::Replaced));
        }
        content => content?,
    };
    let content = content.map_err(|problem| {
        ApiError::invalid_body(
            "file_content",
            vec![loc("file_id")],
            format!("{} cannot be taken as {format}: {problem}", file.name),
        )
    })?;
    if let Some(kind) = content.kind {
        if request.type_.as_deref().is_some_and(|asked| asked != kind) {
            let msg = format!("{} is a {}", file.name, kind.replace('_', " "));
            return Err(ApiError::invalid_body("value_error", vec![loc("type")], msg));
        }
        kind.clone_into(&mut file.kind);
    }
    check_read_whole(&file, content.size, max_bytes)
        .map_err(|msg| ApiError::invalid_body("file_content", vec![loc("file_id")], msg))?;
    file.size = Some(content.size as i64);
    file.sha256 = Some(content.sha256);
    file.status = FileStatus::Ready;

    let answer = record_answer(record(&file)?);
    let done = app
        .db
        .register_file(file.clone(), call.account(), call.idempotent_write(), answer.clone())
        .await?;
    if matches!(done, Once::Refused(Unregistered::IsReady)) {
        // Repeated while the first was under way.
        let first = pending(&call, &request).await?;
        return remembered(&call, record_answer(record(&first)?)).await;
    }
    once(done, &answer, |reason| unregistered(&file, reason))
}

/// Whether a registration asks for the file that there is: it is repeated, its first answer may have
/// been lost.
fn is_as_asked(file: &FileRow, request: &FileRegistration) -> bool {
    file.status == FileStatus::Ready
        && file.pdb_id.as_ref() == request.pdb_id.as_deref()
        && request.format.as_deref().is_none_or(|format| Format::named(format) == Some(file.format))
        && request.type_.as_deref().is_none_or(|kind| kind == file.kind)
}

/// That a ligand, which is read whole, has no more bytes than a text may: a structure in a PDB file
/// may have more.
fn check_read_whole(file: &FileRow, size: u64, max_bytes: u64) -> Result<(), String> {
    if file.format != Format::Pdb || file.kind != "ligand" || size <= max_bytes {
        return Ok(());
    }
    Err(format!(
        "{} has {size} bytes; a ligand has {max_bytes} at most (`limits.text_bytes` of the service)",
        file.name
    ))
}

/// The file that a registration names, which has not been registered otherwise.
async fn pending(call: &Call, request: &FileRegistration) -> Result<FileRow, ApiError> {
    let Some(id) = &request.file_id else {
        return Err(ApiError::invalid_body("missing", vec![loc("file_id")], "Field required"));
    };
    let found = call.app.db.file(call.account(), id).await?;
    let file =
        found.ok_or_else(|| ApiError::not_found_in_body("file_id", format!("no file {id}")))?;
    let name = request.name.as_ref().unwrap_or(id);
    let is_repeated = file.name == *name && is_as_asked(&file, request);
    // A link to the store goes on working: what it has taken since is not what was registered.
    if file.status == FileStatus::Ready
        && (!is_repeated || call.app.objects.exists(&Key::sent(id))?)
    {
        return Err(unregistered(&file, Unregistered::IsReady));
    }
    Ok(file)
}

/// Why a file was not registered.
fn unregistered(file: &FileRow, reason: Unregistered) -> ApiError {
    let id = &file.id;
    let conflict =
        |field: &str, msg: String| ApiError::conflict(vec![loc("body"), loc(field)], msg);
    match reason {
        Unregistered::NameTaken => {
            conflict("name", format!("there is a file named {:?}; choose another name", file.name))
        }
        Unregistered::IsReady => {
            conflict("file_id", format!("{id} is ready: it has been registered"))
        }
        Unregistered::Replaced => conflict(
            "file_id",
            format!(
                "{id} is pending: other content arrived while it was checked; register it again"
            ),
        ),
        Unregistered::Deleted => ApiError::not_found_in_body("file_id", format!("no file {id}")),
        Unregistered::OverQuota(over) => ApiError::over_quota(over),
    }
}

/// Registers a public entry, under its own identifier when no name is given.
async fn register_entry(
    call: &Call,
    pdb_id: &str,
    request: &FileRegistration,
    warnings: String,
    outside: Vec<ValidationError>,
) -> Result<Response, ApiError> {
    let mut violations = joined(outside, violations(request, None));
    if request.file_id.is_some() {
        let msg = "cannot be given together with file_id";
        violations.push(violation("value_error", vec![loc("body"), loc("pdb_id")], msg));
    }
    if !violations.is_empty() {
        return Err(ApiError::invalid(violations));
    }
    let app = &call.app;
    let name = request.name.clone().unwrap_or_else(|| pdb_id.to_uppercase());
    let before = app.db.ready_file(call.account(), &name).await?;
    if let Some(file) = before.filter(|file| file.name == name && is_as_asked(file, request)) {
        return remembered(call, record_answer(record(&file)?)).await;
    }
    let _turn = app.turn(&app.registrations, call.account()).await?;
    let (content, format) = app.mirror.fetch(pdb_id, "pdb_id").await?;
    let mut file = FileRow { warnings, ..entry(app, pdb_id, format, &content) };
    complete(&mut file, request)?;
    if file.format != format {
        let msg = format!("the mirror has entries as {format} files");
        return Err(ApiError::invalid_body("value_error", vec![loc("format")], msg));
    }
    let answer = record_answer(record(&file)?);
    let account = call.account();
    let done = store_entry(
        app,
        account,
        "pdb_id",
        &file,
        content,
        call.idempotent_write(),
        answer.clone(),
    )
    .await?;
    once(done, &answer, |reason| unregistered(&file, reason))
}

fn entry(app: &App, pdb_id: &str, format: Format, content: &[u8]) -> FileRow {
    FileRow {
        seq: 0,
        id: app.new_id("file"),
        name: pdb_id.to_uppercase(),
        kind: format.kinds()[0].to_owned(),
        format,
        status: FileStatus::Ready,
        size: Some(content.len() as i64),
        sha256: Some(hex(&Sha256::digest(content))),
        pdb_id: Some(pdb_id.to_owned()),
        created_at: app.now(),
        object: Some(app.new_object().to_string()),
        warnings: "[]".to_owned(),
    }
}

/// Makes an entry of the mirror, which a request names in a field, a file of an account.
async fn store_entry(
    app: &Arc<App>,
    account: i64,
    field: &str,
    file: &FileRow,
    content: Vec<u8>,
    write: IdempotentWrite,
    answer: Answer,
) -> Result<Once<Unregistered>, ApiError> {
    let key = Key::stored(file.object.clone().expect("an entry has content"));
    let format = file.format;
    app.db.announce_object(key.to_string(), app.now()).await?;
    let max_bytes = app.config.limits.account_bytes;
    let max_atoms = app.config.limits.atoms;
    let (objects, to) = (app.objects.clone(), key.clone());
    let written = tokio::task::spawn_blocking(move || {
        match formats::check_text(&content, format, max_atoms) {
            Ok(()) => objects.write(&to, &content).map(Ok).map_err(anyhow::Error::new),
            Err(problem) if problem.is_limit() => Ok(Err(problem)),
            Err(problem) => bail!("the mirror's entry is no {format} file: {problem}"),
        }
    });
    let written = match written.await.map_err(ApiError::internal)? {
        Ok(Err(problem)) => {
            sweep(&app.objects, &app.db, key).await;
            let msg = format!("the mirror's entry {} cannot be taken: {problem}", file.name);
            return Err(ApiError::invalid_body("file_content", vec![loc(field)], msg));
        }
        written => written.map(drop),
    };
    let done = match written {
        Ok(()) => {
            let made = app.db.create_ready_file(file.clone(), account, max_bytes, write, answer);
            made.await.map_err(anyhow::Error::from)
        }
        Err(error) => Err(error),
    };
    if !matches!(done, Ok(Once::Stored)) {
        sweep(&app.objects, &app.db, key).await;
    }
    Ok(done?)
}

/// Content and format of a public entry that a request names, and that is not a file of the account
/// yet; none for anything else.
pub(crate) async fn entry_to_come(
    call: &Call,
    field: &str,
    name: &str,
) -> Result<Option<(Vec<u8>, Format)>, ApiError> {
    let app = &call.app;
    if !pdb::is_id(name)
        || !app.mirror.is_configured()
        || app.db.ready_file(call.account(), name).await?.is_some()
    {
        return Ok(None);
    }
    let _turn = app.turn(&app.registrations, call.account()).await?;
    Ok(Some(app.mirror.fetch(name, field).await?))
}

/// Makes a public entry that a request names, and that is not there yet, a file of the account.
pub(crate) async fn provide_entry(call: &Call, field: &str, name: &str) -> Result<(), ApiError> {
    let app = &call.app;
    let Some((content, format)) = entry_to_come(call, field, name).await? else { return Ok(()) };
    let file = FileRow { name: name.to_owned(), ..entry(app, name, format, &content) };
    let write = IdempotentWrite {
        key: None,
        deed: Deed { action: "file_register", ..call.deed() },
        ..call.idempotent_write()
    };
    let answer = record_answer(record(&file)?);
    let (app, account, field) = (app.clone(), call.account(), field.to_owned());
    // On its own, as a registration is.
    let stored = tokio::spawn(async move {
        store_entry(&app, account, &field, &file, content, write, answer).await
    });
    match stored.await.map_err(ApiError::internal)?? {
        Once::Refused(Unregistered::OverQuota(over)) => Err(ApiError::over_quota(over)),
        // Not done means that another request has made it in the meantime.
        _ => Ok(()),
    }
}

/// A format that the document lists.
fn known(format: &str) -> Result<Format, ApiError> {
    Format::named(format)
        .ok_or_else(|| ApiError::internal(anyhow::anyhow!("{format} is a format of the document")))
}

/// Everything that a registration asks for that no file can be, or none of the format that its link
/// was made for. Of what the document does not allow, the check against it reports.
fn violations(request: &FileRegistration, format: Option<Format>) -> Vec<ValidationError> {
    let mut violations = Vec::new();
    let name = request.name.as_deref();
    violations.extend(unprintable(name, "name"));
    if name.is_some_and(|name| name.trim().is_empty()) {
        violations.push(violation(
            "value_error",
            vec![loc("body"), loc("name")],
            "must not be blank",
        ));
    }
    let format = request.format.as_deref().map_or(format, Format::named);
    if let (Some(format), Some(kind)) = (format, &request.type_)
        && !format.kinds().contains(&kind.as_str())
    {
        let msg = format!("a {format} file can be {}, not {kind}", format.kinds().join(" or "));
        violations.push(violation("value_error", vec![loc("body"), loc("type")], msg));
    }
    violations
}

/// Fills in what a registration without violations leaves out.
fn complete(file: &mut FileRow, request: &FileRegistration) -> Result<(), ApiError> {
    if let Some(name) = &request.name {
        file.name.clone_from(name);
    }
    if let Some(format) = &request.format {
        file.format = known(format)?;
    }
    file.kind = request.type_.clone().unwrap_or_else(|| file.format.kinds()[0].to_owned());
    Ok(())
}

pub(crate) async fn file_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.files(call.account(), &filter, limit + 1).await?;
    paged(&call, rows, &filter, limit, |row| row.seq, record)
}

pub(crate) async fn file_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&find(&call).await?)?))
}

pub(crate) async fn file_contents(call: Call) -> Result<Response, ApiError> {
    let file = find(&call).await?;
    let at = || vec![loc("path"), loc("file_id")];
    let Some(object) = file.object.clone().filter(|_| file.status == FileStatus::Ready) else {
        return Err(not_ready(at(), &file.id, file.status, "its content has not been registered"));
    };
    let Some(reading) = Reading::of(&file.kind, file.format) else {
        let kind = file.kind.replace('_', " ");
        let msg = format!("{} is a {kind} file: it has no atoms that could be counted", file.id);
        return Err(ApiError::invalid(vec![violation("value_error", at(), msg)]));
    };
    let size = file.size.unwrap_or_default().unsigned_abs();
    check_read_whole(&file, size, call.app.config.limits.text_bytes)
        .map_err(|msg| ApiError::invalid(vec![violation("value_error", at(), msg)]))?;
    let contents = call.in_turn(false, move |app| {
        let content = app.objects.local(&Key::stored(object))?;
        Ok(contents(&file.id, content.path(), file.format, reading)?)
    });
    json(&contents.await?)
}

pub(crate) async fn file_delete(call: Call) -> Result<Response, ApiError> {
    let id = call.parameter("file_id").to_owned();
    let (result, object) = call.app.db.delete_file(call.account(), id.clone(), call.deed()).await?;
    let answer = deleted("file", &id, result)?;
    call.app.structures.forget(&id);
    call.app.topologies.forget(&id);
    call.app.frames.forget(&id);
    if let Some(object) = object {
        sweep_deleted(&call.app.objects, &call.app.db, Key::stored(object)).await;
    }
    Ok(answer)
}

pub(crate) async fn file_download(call: Call) -> Result<Response, ApiError> {
    let file = find(&call).await?;
    let (Some(size), Some(sha256), Some(object)) = (file.size, file.sha256, file.object) else {
        let at = vec![loc("path"), loc("file_id")];
        return Err(not_ready(at, &file.id, file.status, "its content has not been registered"));
    };
    call.note_download(&file.id).await;
    let name = format!("{}.{}", file.id, file.format);
    let layout = Layout::of_object(Key::stored(object), size.unsigned_abs(), sha256);
    download(&call, layout, "application/octet-stream", &name)
}

pub(crate) async fn file_structure(call: Call) -> Result<Response, ApiError> {
    let (file, object) = ready(&call, &STRUCTURES).await?;
    let mask = call.query("mask").map(str::to_owned);
    let is_kept = call.app.structures.found(&file.id).is_some();
    let text = call.in_turn(is_kept, move |app| {
        let FileRow { id, format, .. } = file;
        let structure = registered::structure(app, &id, &object, format, ["path", "file_id"])?;
        StructureText::new(Model::Read(structure), id, mask.as_deref())
    });
    let text = text.await?;
    let id = call.parameter("file_id");
    call.note_download(id).await;
    text.answer(&call, &format!("{id}.cif"))
}

pub(crate) async fn file_trajectory(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (file, object) = ready(&call, &TRAJECTORIES).await?;
    let wanted = call.query("topology");
    let given = given(app, call.account(), ["query", "topology"], wanted, &TOPOLOGIES).await?;
    let topology = match given {
        Some(given) => Some((app.content_of(&given.file_id).await?, given)),
        None => None,
    };
    // The frames of other formats than DCD are found one after the other, of XTC once.
    let is_opened = match file.format {
        Format::Dcd => true,
        Format::Xtc => app.frames.found(&file.id).is_some(),
        _ => false,
    };
    let is_kept =
        is_opened && topology.iter().all(|(_, given)| registered::is_kept(app, &given.file_id));
    let asked = Asked::of(&call);
    let made = call.in_turn(is_kept, move |app| {
        let FileRow { id, format, sha256, .. } = file;
        let trajectory = registered::trajectory(app, &id, &object, format, ["path", "file_id"])?;
        let named = topology.map(|(key, Given { file_id, format })| {
            registered::named(app, &file_id, &key, format, ["query", "topology"])
        });
        let named = named.transpose()?;
        let again = || {
            registered::trajectory(app, &id, &object, format, ["path", "file_id"]).map(Series::from)
        };
        Made::of_file(trajectory, &sha256.unwrap_or_default(), named.as_ref(), again, &asked)
    });
    let made = made.await?;
    let id = call.parameter("file_id");
    call.note_download(id).await;
    made.answer(&call, &format!("{id}.dcd"))
}

/// The file that the path names and its content, if it is registered and of one of these formats.
async fn ready(call: &Call, formats: &[Format]) -> Result<(FileRow, Key), ApiError> {
    let file = find(call).await?;
    let at = || vec![loc("path"), loc("file_id")];
    let Some(object) = file.object.clone().filter(|_| file.status == FileStatus::Ready) else {
        return Err(not_ready(at(), &file.id, file.status, "its content has not been registered"));
    };
    if !formats.contains(&file.format) {
        let formats: Vec<&str> = formats.iter().map(|format| format.name()).collect();
        let msg = format!("{} is {}, not {}", file.id, file.format, formats.join(" or "));
        return Err(ApiError::invalid(vec![violation("value_error", at(), msg)]));
    }
    Ok((file, Key::stored(object)))
}

async fn find(call: &Call) -> Result<FileRow, ApiError> {
    let id = call.parameter("file_id");
    call.app.db.file(call.account(), id).await?.ok_or_else(|| ApiError::not_found("file", id))
}

/// `FileRecord` of the document, as JSON.
pub(super) fn record(row: &FileRow) -> Result<String, ApiError> {
    let record = FileRecord {
        file_id: row.id.clone(),
        name: row.name.clone(),
        type_: row.kind.clone(),
        format: row.format.to_string(),
        status: row.status.to_string(),
        size_bytes: row.size.map(i64::unsigned_abs),
        sha256: row.sha256.clone(),
        pdb_id: row.pdb_id.clone(),
        created_at: row.created_at.to_string(),
        warnings: stored(&row.warnings)?,
        extra: Default::default(),
    };
    serde_json::to_string(&record).map_err(ApiError::internal)
}
