//! `molboxd check`: reads everything that is stored, and compares it with what the database says.

use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::app::check_secrets;
use crate::command::marker::Marker;
use crate::config::Config;
use crate::db::{Content, Whole, is_used};
use crate::folder::failure::is_damage;
use crate::hex::hex;
use crate::objects::bundle::{HashWriter, Layout};
use crate::objects::{Key, Objects};

/// What was read, and everything that is not as it should be.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Registered files.
    pub(crate) files: usize,
    /// Systems, jobs and analyses with results.
    pub(crate) tasks: usize,
    pub(crate) findings: Vec<Finding>,
}

/// Something that is not as it should be.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    /// The record that is concerned; none of the database itself, and of an orphan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The object that is concerned, relative to `objects` in the data folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
    pub(crate) problem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Database,
    File,
    Task,
    /// What an account holds is not what is counted.
    Account,
    /// What lies in the data folder beside database and objects.
    Beside,
    /// An object that no record refers to: it takes room, and is no loss.
    Orphan,
}

impl Report {
    /// Whether something that was stored is not what it was.
    pub(crate) fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| finding.kind != Kind::Orphan)
    }

    /// Adds what is wrong with what lies in the data folder beside database and objects.
    pub(super) fn add_beside(&mut self, problems: Vec<String>) {
        for problem in problems {
            self.add(Kind::Beside, None, None, problem);
        }
    }

    fn add(
        &mut self,
        kind: Kind,
        id: Option<&str>,
        object: Option<&str>,
        problem: impl Into<String>,
    ) {
        let id = id.map(str::to_owned);
        let object = object.map(str::to_owned);
        self.findings.push(Finding { kind, id, object, problem: problem.into() });
    }
}

/// Looks through a data folder. A service may run on it: what it deletes meanwhile is not missed.
pub(crate) fn check(config: &Config) -> Result<Report> {
    let mut report = Report::default();
    match read_all(config, &mut report) {
        // It cannot be read any further.
        Err(error) if is_damage(&error) => {
            report.add(Kind::Database, None, None, format!("{error:#}"))
        }
        done => done?,
    }
    Ok(report)
}

fn read_all(config: &Config, report: &mut Report) -> Result<()> {
    report.add_beside(beside(&config.data)?);
    let objects = Objects::to_read(config)?;
    // First, so that whatever a service makes from now on is no orphan.
    let stored = objects.all().context("list the objects")?;
    let whole = Whole::of(config)?;
    for line in whole.damage()? {
        report.add(Kind::Database, None, None, line);
    }
    for file in whole.contents()? {
        report.files += 1;
        if let Some(problem) = content(&objects, &file)?
            && whole.has_content(&file.id, file.object.as_deref())?
        {
            report.add(Kind::File, Some(&file.id), file.object.as_deref(), problem);
        }
    }
    for id in whole.bundled()? {
        let Some(text) = whole.bundle(&id)? else { continue };
        report.tasks += 1;
        let problems = bundle(&objects, &text)?;
        // One that was extended meanwhile has another bundle.
        if !problems.is_empty() && whole.bundle(&id)?.as_ref() == Some(&text) {
            for (object, problem) in problems {
                report.add(Kind::Task, Some(&id), object.as_deref(), problem);
            }
        }
    }
    for (id, text) in whole.earlier_bundles()? {
        report.tasks += 1;
        for (object, problem) in earlier_bundle(&objects, &whole, &id, &text)? {
            report.add(Kind::Task, Some(&id), object.as_deref(), problem);
        }
    }
    counts(&objects, &whole, report)?;
    let known = whole.known_objects()?;
    for object in stored.into_iter().filter(|object| !known.contains(object.as_str())) {
        // One that was deleted since it was listed is gone.
        if objects.exists(&object)? {
            report.add(Kind::Orphan, None, Some(object.as_str()), "no record refers to it");
        }
    }
    Ok(())
}

/// What is wrong with what lies beside objects: in a backup, as long as no service has used it as its
/// data folder, the database is among it.
fn beside(data: &Path) -> Result<Vec<String>> {
    Ok(match Marker::read(data) {
        Ok(Some(marker)) if marker.has_digests() && !is_used(data)? => marker.problems(data),
        Ok(_) => check_secrets(data),
        Err(error) => vec![format!("{error:#}")],
    })
}

/// Compares what is counted for accounts with what is there.
fn counts(objects: &Objects, whole: &Whole, report: &mut Report) -> Result<()> {
    for (id, counted) in whole.measured_tasks()? {
        // What is missing or too short takes other bytes, too.
        let is_known = report.findings.iter().any(|finding| finding.id.as_ref() == Some(&id));
        let found = objects.size(&Key::task(&id))?;
        if !is_known && found != counted && whole.is_measured_as(&id, counted)? {
            report.add(
                Kind::Task,
                Some(&id),
                None,
                format!("its objects take {found} bytes, {counted} are counted"),
            );
        }
    }
    for (id, object, counted) in whole.arrived_files()? {
        let found = objects.size(&Key::stored(&object))?;
        if found != counted && whole.has_arrived_as(&id, &object, counted)? {
            let problem = format!("the content takes {found} bytes, {counted} are counted");
            report.add(Kind::File, Some(&id), Some(&object), problem);
        }
    }
    for (name, counted, sum) in whole.miscounted_accounts()? {
        let problem = format!("{counted} bytes are counted, its files and tasks have {sum}");
        report.add(Kind::Account, Some(&name), None, problem);
    }
    Ok(())
}

/// What is wrong with the content of a file; nothing when it is what it was.
fn content(objects: &Objects, file: &Content) -> Result<Option<String>> {
    let Some(object) = &file.object else { return Ok(Some("it has no content".to_owned())) };
    let object = Key::stored(object);
    let Some(size) = size_of(objects, &object)? else {
        return Ok(Some("the content is missing".to_owned()));
    };
    if size != file.size {
        return Ok(Some(format!("the content has {size} bytes, not {}", file.size)));
    }
    let mut sha256 = Sha256::new();
    if let Err(error) = objects.read_to(&object, &mut HashWriter(&mut sha256)) {
        return Ok(Some(format!("the content cannot be read: {error}")));
    }
    let digest = hex(&sha256.finalize());
    Ok((digest != file.sha256)
        .then(|| format!("the content has the SHA-256 {digest}, not {}", file.sha256)))
}

/// An object, if it is about one, and what is wrong with it.
type Problem = (Option<String>, String);

/// What is wrong with the results that a task goes on from which was extended or tried again. They are
/// replaced, all of them, before its bundle is: those that another manifest describes are no loss.
fn earlier_bundle(objects: &Objects, whole: &Whole, id: &str, text: &str) -> Result<Vec<Problem>> {
    let problems = bundle(objects, text)?;
    if problems.is_empty() {
        return Ok(problems);
    }
    let found = objects.stats(&Key::task(id)).context("look at the results of a task")?;
    if found.is_empty() && whole.is_waiting(id)? {
        return Ok(vec![(None, "its results are missing".to_owned())]);
    }
    let manifest = serde_json::from_str::<Layout>(text)
        .ok()
        .and_then(|layout| layout.objects().next().map(|(object, size)| (object.clone(), size)));
    let is_described = manifest
        .is_none_or(|(object, size)| found.get(&object).is_some_and(|found| found.size == size));
    Ok(if is_described && whole.earlier_bundle(id)?.as_deref() == Some(text) {
        problems
    } else {
        Vec::new()
    })
}

/// What is wrong with the objects of a bundle, or with all of it.
fn bundle(objects: &Objects, text: &str) -> Result<Vec<Problem>> {
    let layout: Layout = match serde_json::from_str(text) {
        Ok(layout) => layout,
        Err(error) => {
            return Ok(vec![(None, format!("the layout of its bundle cannot be read: {error}"))]);
        }
    };
    let mut problems = Vec::new();
    for (object, size) in layout.objects() {
        match size_of(objects, object)? {
            None => problems.push((Some(object.to_string()), "it is missing".to_owned())),
            Some(found) if found != size => {
                problems
                    .push((Some(object.to_string()), format!("it has {found} bytes, not {size}")));
            }
            Some(_) => {}
        }
    }
    if problems.is_empty() {
        match layout.digest(objects) {
            Ok(digest) if digest == layout.sha256 => {}
            Ok(digest) => problems.push((
                None,
                format!("its bundle has the SHA-256 {digest}, not {}", layout.sha256),
            )),
            Err(error) => problems.push((None, format!("its bundle cannot be read: {error:#}"))),
        }
    }
    Ok(problems)
}

/// Size of an object; none when it is not there.
fn size_of(objects: &Objects, key: &Key) -> Result<Option<u64>> {
    match objects.stats(key) {
        Ok(found) => Ok(found.get(key).map(|found| found.size)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("open {key}")),
    }
}
