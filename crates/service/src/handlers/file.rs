//! Files: links, registration, listing.

use std::sync::Arc;

use axum::response::Response;
use molbox::workflow::types::{FileRecord, FileRegistration, UploadLink, ValidationError};
use sha2::{Digest, Sha256};

use super::{
    Call, deleted, download, json, not_ready, once, over_quota, page, paged, record_answer, stored, sweep, text,
};
use crate::app::{App, rfc3339};
use crate::bundle::{Layout, hex};
use crate::db::{Answer, Claim, Deed, FileRow, Once, Unregistered};
use crate::error::ApiError;
use crate::formats::{self, Format};
use crate::pdb;
use crate::validate::{joined, loc, unprintable, violation};

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
        format: format.name().to_owned(),
        status: "pending".to_owned(),
        size: None,
        sha256: None,
        pdb_id: None,
        created_at: app.now(),
        object: None,
        warnings: "[]".to_owned(),
    };
    let made = app.db.create_pending_file(call.account(), file, app.config.limits.account_bytes, call.deed()).await?;
    made.map_err(|over| over_quota(app, over))?;
    let (upload_url, expires) = app.upload_link(&id, call.key_id());
    json(&UploadLink {
        file_id: id.clone(),
        upload_url,
        expires_at: rfc3339(expires),
        content_type: Some(format.media().to_owned()),
        max_bytes: Some(app.config.limits.upload_bytes),
        extra: Default::default(),
    })
}

pub(crate) async fn file_register(call: Call) -> Result<Response, ApiError> {
    let (request, warnings, outside) = call.readable::<FileRegistration>()?;
    let app = &call.app;
    app.check_disk()?;
    if let Some(pdb_id) = &request.pdb_id {
        return register_entry(&call, pdb_id, &request, warnings, outside).await;
    }
    let file = pending(&call, &request);
    let format = file.as_ref().ok().and_then(|file| Format::named(&file.format));
    let mut violations = joined(outside, violations(&request, format));
    let mut file = match file {
        Ok(file) if violations.is_empty() => file,
        Ok(_) => return Err(ApiError::invalid(violations)),
        Err(error) => {
            error.add_to(&mut violations)?;
            return Err(ApiError::unresolved(violations));
        }
    };
    let id = &file.id.clone();
    complete(&mut file, &request)?;
    file.warnings = warnings;
    file.created_at = app.now();
    // A row of an earlier version names an object whether or not there is one.
    let object = file.object.clone().filter(|key| app.objects.exists(key)).ok_or_else(|| {
        let msg = format!("{id} is pending: send the content to its upload link first");
        ApiError::conflict(vec![loc("body"), loc("file_id")], msg)
    })?;
    let format = Format::named(&file.format).expect("completed from the known ones");
    let objects = app.objects.clone();
    let (turn, max_bytes) = (app.turn(&app.registrations, call.account()).await?, app.config.limits.text_bytes);
    let content = tokio::task::spawn_blocking(move || {
        // Until the check has ended, also when nobody waits for it any more.
        let _turn = turn;
        formats::check(&objects.local_file(&object), format, max_bytes)
    });
    let content = match content.await.map_err(ApiError::internal)? {
        // Other content has arrived, and this was removed before it could be read.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(unregistered(app, &file, Unregistered::Replaced));
        }
        content => content?,
    };
    let content = content.map_err(|problem| {
        ApiError::invalid_body(
            "file_content",
            vec![loc("file_id")],
            format!("{} is no {format} file: {problem}", file.name),
        )
    })?;
    file.size = Some(content.size as i64);
    file.sha256 = Some(content.sha256);
    file.status = "ready".to_owned();

    let answer = record_answer(record(&file)?);
    let done = app.db.register_file(file.clone(), call.account(), call.claim(), answer.clone()).await?;
    once(done, &answer, |reason| unregistered(app, &file, reason))
}

/// The file that a registration names, which has not been registered.
fn pending(call: &Call, request: &FileRegistration) -> Result<FileRow, ApiError> {
    let Some(id) = &request.file_id else {
        return Err(ApiError::invalid_body("missing", vec![loc("file_id")], "Field required"));
    };
    let found = call.app.db.file(call.account(), id)?;
    let file = found.ok_or_else(|| ApiError::not_found_in_body("file_id", format!("no file {id}")))?;
    if file.status == "ready" {
        return Err(unregistered(&call.app, &file, Unregistered::IsReady));
    }
    Ok(file)
}

/// Why a file was not registered.
fn unregistered(app: &App, file: &FileRow, reason: Unregistered) -> ApiError {
    let id = &file.id;
    let conflict = |field: &str, msg: String| ApiError::conflict(vec![loc("body"), loc(field)], msg);
    match reason {
        Unregistered::NameTaken => {
            conflict("name", format!("there is a file named {:?}; choose another name", file.name))
        }
        Unregistered::IsReady => conflict("file_id", format!("{id} is ready: it has been registered")),
        Unregistered::Replaced => conflict(
            "file_id",
            format!("{id} is pending: other content arrived while it was checked; register it again"),
        ),
        Unregistered::Deleted => ApiError::not_found_in_body("file_id", format!("no file {id}")),
        Unregistered::OverQuota(over) => over_quota(app, over),
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
    let _turn = app.turn(&app.registrations, call.account()).await?;
    let (content, format) = pdb::fetch(app, pdb_id, "pdb_id").await?;
    let mut file = FileRow { warnings, ..entry(app, pdb_id, format, &content) };
    complete(&mut file, request)?;
    let named = Format::named(&file.format);
    if named != Some(format) {
        let msg = format!("the mirror has entries as {format} files");
        return Err(ApiError::invalid_body("value_error", vec![loc("format")], msg));
    }
    let answer = record_answer(record(&file)?);
    let done = store_entry(app, call.account(), &file, content, call.claim(), answer.clone()).await?;
    once(done, &answer, |reason| unregistered(app, &file, reason))
}

fn entry(app: &App, pdb_id: &str, format: Format, content: &[u8]) -> FileRow {
    FileRow {
        seq: 0,
        id: app.new_id("file"),
        name: pdb_id.to_uppercase(),
        kind: format.kinds()[0].to_owned(),
        format: format.name().to_owned(),
        status: "ready".to_owned(),
        size: Some(content.len() as i64),
        sha256: Some(hex(&Sha256::digest(content))),
        pdb_id: Some(pdb_id.to_owned()),
        created_at: app.now(),
        object: Some(new_object(app)),
        warnings: "[]".to_owned(),
    }
}

/// Key of an object that is yet to be written.
pub(crate) fn new_object(app: &App) -> String {
    format!("files/{}", app.new_id("object"))
}

async fn store_entry(
    app: &Arc<App>,
    account: i64,
    file: &FileRow,
    content: Vec<u8>,
    claim: Claim,
    answer: Answer,
) -> Result<Once<Unregistered>, ApiError> {
    let key = file.object.clone().expect("an entry has content");
    let format = Format::named(&file.format).expect("one of ours");
    app.db.announce_object(key.clone()).await?;
    let max_bytes = app.config.limits.account_bytes;
    let (objects, to) = (app.objects.clone(), key.clone());
    let written = tokio::task::spawn_blocking(move || {
        if let Err(problem) = formats::check_text(&content, format) {
            anyhow::bail!("the mirror's entry is no {format} file: {problem}");
        }
        objects.write(&to, &content).map_err(anyhow::Error::new)
    });
    let written = written.await.map_err(ApiError::internal)?;
    let done = match written {
        Ok(()) => app.db.create_ready_file(file.clone(), account, max_bytes, claim, answer).await,
        Err(error) => Err(error),
    };
    if !matches!(done, Ok(Once::Done)) {
        sweep(app, key).await;
    }
    Ok(done?)
}

/// Makes a public entry that a request names, and that is not there yet, a file of the account.
pub(crate) async fn provide_entry(call: &Call, field: &str, name: &str) -> Result<(), ApiError> {
    let app = &call.app;
    if !pdb::is_id(name) || app.config.pdb.mirror.is_empty() || app.db.ready_file(call.account(), name)?.is_some() {
        return Ok(());
    }
    let _turn = app.turn(&app.registrations, call.account()).await?;
    let (content, format) = pdb::fetch(app, name, field).await?;
    let file = FileRow { name: name.to_owned(), ..entry(app, name, format, &content) };
    let claim = Claim { key: None, deed: Deed { action: "file_register", ..call.deed() }, ..call.claim() };
    let answer = record_answer(record(&file)?);
    match store_entry(app, call.account(), &file, content, claim, answer).await? {
        Once::Refused(Unregistered::OverQuota(over)) => Err(over_quota(app, over)),
        // Not done means that another request has made it in the meantime.
        _ => Ok(()),
    }
}

/// A format that the document lists.
fn known(format: &str) -> Result<Format, ApiError> {
    Format::named(format).ok_or_else(|| ApiError::internal(anyhow::anyhow!("{format} is a format of the document")))
}

/// Everything that a registration asks for that no file can be, or none of the format that its link was
/// made for. Of what the document does not allow, the check against it reports.
fn violations(request: &FileRegistration, format: Option<Format>) -> Vec<ValidationError> {
    let mut violations = Vec::new();
    let name = request.name.as_deref();
    violations.extend(unprintable(name, "name"));
    if name.is_some_and(|name| name.trim().is_empty()) {
        violations.push(violation("value_error", vec![loc("body"), loc("name")], "must not be blank"));
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
    let format = known(request.format.as_deref().unwrap_or(&file.format))?;
    file.format = format.name().to_owned();
    file.kind = request.type_.clone().unwrap_or_else(|| format.kinds()[0].to_owned());
    Ok(())
}

pub(crate) async fn file_list(call: Call) -> Result<Response, ApiError> {
    let (filter, limit) = page(&call)?;
    let rows = call.app.db.files(call.account(), &filter, limit + 1)?;
    paged(&call, rows, &filter, limit, |row| row.seq, record)
}

pub(crate) async fn file_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&find(&call)?)?))
}

pub(crate) async fn file_delete(call: Call) -> Result<Response, ApiError> {
    let id = call.parameter("file_id").to_owned();
    let (result, object) = call.app.db.delete_file(call.account(), id.clone(), call.deed()).await?;
    deleted(&call, "file", &id, result, object).await
}

pub(crate) async fn file_download(call: Call) -> Result<Response, ApiError> {
    let file = find(&call)?;
    let (Some(size), Some(sha256), Some(object)) = (file.size, file.sha256, file.object) else {
        let at = vec![loc("path"), loc("file_id")];
        return Err(not_ready(at, &file.id, &file.status, "its content has not been registered"));
    };
    call.note_download(&file.id).await;
    let name = format!("{}.{}", file.id, file.format);
    let layout = Layout::of_object(object, size.unsigned_abs(), sha256);
    download(&call, layout, "application/octet-stream", &name)
}

fn find(call: &Call) -> Result<FileRow, ApiError> {
    let id = call.parameter("file_id");
    call.app.db.file(call.account(), id)?.ok_or_else(|| ApiError::not_found("file", id))
}

/// A file that a request refers to by identifier or name.
pub(crate) fn referred(app: &App, account: i64, id_or_name: &str) -> Result<Option<FileRow>, ApiError> {
    Ok(app.db.ready_file(account, id_or_name)?)
}

/// `FileRecord` of the document, as JSON.
fn record(row: &FileRow) -> Result<String, ApiError> {
    let record = FileRecord {
        file_id: row.id.clone(),
        name: row.name.clone(),
        type_: row.kind.clone(),
        format: row.format.clone(),
        status: row.status.clone(),
        size_bytes: row.size.map(i64::unsigned_abs),
        sha256: row.sha256.clone(),
        pdb_id: row.pdb_id.clone(),
        created_at: rfc3339(row.created_at),
        warnings: stored(&row.warnings)?,
        extra: Default::default(),
    };
    serde_json::to_string(&record).map_err(ApiError::internal)
}
