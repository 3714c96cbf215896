//! What systems, jobs and analyses have in common: they are listed, waited for, cancelled.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use clap::{Args, Subcommand};
use futures::{Stream, StreamExt, TryStreamExt};
use indicatif::ProgressBar;
use molbox::workflow::Client;
use molbox::workflow::types::{
    AnalysisRecord, Hold, JobRecord, Progress, QueuePlace, SystemRecord,
};
use molbox::{Call, Download, Error, Task, Wait};
use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::failure::{Code, Failure};
use crate::interrupt::unless_interrupted;
use crate::output::{self, Output};
use crate::request::{Body, Source};
use crate::{archive, units};

type Result<T = ()> = std::result::Result<T, Failure>;

/// Kinds of tasks that the service has.
pub(crate) trait Noun: Task + Serialize + Clone + PartialEq + Send + Sync + 'static {
    const NOUN: &'static str;
    /// What to do where there is none.
    const NONE: &'static str;
    /// Columns of its table: head and JSON pointer.
    const COLUMNS: &'static [(&'static str, &'static str)];

    fn id(&self) -> &str;
    fn progress(&self) -> Option<&Progress>;
    fn queue(&self) -> Option<&QueuePlace>;
    /// Why it is not started, through no fault of its own.
    fn hold(&self) -> Option<&Hold>;
    fn is_cancelling(&self) -> bool;
    fn list<'a>(
        client: &'a Client,
        filter: &'a Filter,
    ) -> impl Stream<Item = std::result::Result<Self, Error>> + Send + 'a;
    fn wait<'a>(client: &'a Client, id: &str) -> Wait<'a, Self>;
    fn cancel(
        client: &Client,
        id: &str,
    ) -> impl Future<Output = std::result::Result<Self, Error>> + Send;
    fn delete(
        client: &Client,
        id: &str,
    ) -> impl Future<Output = std::result::Result<(), Error>> + Send;
    fn download<'a>(client: &'a Client, id: &str, to: PathBuf) -> Download<'a>;
}

macro_rules! noun {
    ($record:ty, $noun:literal, $none:literal, $columns:expr, $id:ident, $list:ident $(($name:ident))?, $wait:ident, $cancel:ident, $delete:ident, $download:ident) => {
        impl Noun for $record {
            const NOUN: &'static str = $noun;
            const NONE: &'static str = $none;
            const COLUMNS: &'static [(&'static str, &'static str)] = $columns;

            fn id(&self) -> &str {
                &self.$id
            }

            fn progress(&self) -> Option<&Progress> {
                self.progress.as_ref()
            }

            fn queue(&self) -> Option<&QueuePlace> {
                self.queue.as_ref()
            }

            fn hold(&self) -> Option<&Hold> {
                self.held.as_ref()
            }

            fn is_cancelling(&self) -> bool {
                self.cancelling == Some(true)
            }

            fn list<'a>(
                client: &'a Client,
                filter: &'a Filter,
            ) -> impl Stream<Item = std::result::Result<Self, Error>> + Send + 'a {
                let mut list = client.$list().limit(filter.page());
                if let Some(status) = &filter.status {
                    list = list.status(status);
                }
                $(if let Some(name) = &filter.name {
                    list = list.$name(name);
                })?
                list.stream()
            }

            fn wait<'a>(client: &'a Client, id: &str) -> Wait<'a, Self> {
                client.$wait(id)
            }

            async fn cancel(client: &Client, id: &str) -> std::result::Result<Self, Error> {
                Ok(client.$cancel().$id(id).send().await?.into_inner())
            }

            async fn delete(client: &Client, id: &str) -> std::result::Result<(), Error> {
                client.$delete().$id(id).send().await.map(drop)
            }

            fn download<'a>(client: &'a Client, id: &str, to: PathBuf) -> Download<'a> {
                client.$download(id, to)
            }
        }
    };
}

noun!(
    SystemRecord,
    "system",
    "no systems yet; `molbox system submit --protein FILE` builds one of an uploaded file",
    &[
        ("ID", "/system_id"),
        ("NAME", "/box_name"),
        ("STATUS", "/status"),
        ("DONE", "/progress/fraction"),
        ("ATOMS", "/summary/atoms"),
        ("CREATED", "/created_at"),
        ("DELETED", "/expires_at")
    ],
    system_id,
    system_list(name),
    wait_system,
    system_cancel,
    system_delete,
    download_system
);
noun!(
    JobRecord,
    "job",
    "no jobs yet; `molbox run protein.pdb` goes from a structure to a report",
    &[
        ("ID", "/job_id"),
        ("BATCH", "/batch_name"),
        ("REPLICA", "/batch_index"),
        ("STATUS", "/status"),
        ("DONE", "/progress/fraction"),
        ("STAGE", "/progress/stage"),
        ("NS/DAY", "/progress/ns_per_day"),
        ("SYSTEM", "/box_id"),
        ("CREATED", "/created_at"),
        ("DELETED", "/expires_at")
    ],
    job_id,
    job_list(name),
    wait_job,
    job_cancel,
    job_delete,
    download_job
);
noun!(
    AnalysisRecord,
    "analysis",
    "no analyses yet; `molbox analysis submit --rmsd @CA` analyses the newest job",
    &[
        ("ID", "/analysis_id"),
        ("JOB", "/job_id"),
        ("STATUS", "/status"),
        ("DONE", "/progress/fraction"),
        ("CREATED", "/created_at"),
        ("DELETED", "/expires_at")
    ],
    analysis_id,
    analysis_list,
    wait_analysis,
    analysis_cancel,
    analysis_delete,
    download_analysis
);

const STATUSES: [&str; 7] =
    ["queued", "running", "succeeded", "failed", "cancelled", "pending", "ready"];

/// Which records, and how many.
#[derive(Args, Debug)]
pub(crate) struct Filter {
    /// At most so many, the newest.
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 30, value_parser = |text: &str| units::whole(text, 0usize), conflicts_with = "all")]
    pub(crate) limit: usize,
    /// All of them, however many pages they fill.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only those in this state; files are pending or ready, everything else is one of the others.
    #[arg(long, value_parser = STATUSES)]
    pub(crate) status: Option<String>,
    /// Only those of this name, or batch.
    #[arg(long)]
    pub(crate) name: Option<String>,
}

impl Filter {
    /// Whether some may be there that are not asked for.
    pub(crate) fn is_narrow(&self) -> bool {
        self.status.is_some() || self.name.is_some()
    }

    /// What is asked for at a time: with one more than is wanted, which tells that there are more.
    pub(crate) fn page(&self) -> u64 {
        if self.all { 100 } else { self.limit.saturating_add(1).min(100) as u64 }
    }

    pub(crate) async fn collect<T: Serialize>(
        &self,
        records: impl Stream<Item = std::result::Result<T, Error>>,
    ) -> Result<Found> {
        let limit = if self.all { usize::MAX } else { self.limit };
        let records: Vec<T> = records.take(limit.saturating_add(1)).try_collect().await?;
        let rows = records.iter().take(limit).map(value).collect::<Result<_>>()?;
        Ok(Found { rows, has_more: records.len() > limit })
    }
}

/// Records that were asked for.
pub(crate) struct Found {
    pub(crate) rows: Vec<Value>,
    /// Whether there are some beside them, older ones.
    pub(crate) has_more: bool,
}

impl Found {
    /// Shows them; where there is none, what to do next.
    pub(crate) fn show(&self, output: &Output, columns: &[(&str, &str)], none: &str) -> Result {
        let Self { rows, has_more } = self;
        if rows.is_empty() && !*has_more && !output.is_json() {
            output.note(none);
            return Ok(());
        }
        output.table(columns, rows)?;
        if *has_more {
            output.note(&format!("the newest {}; --all shows the older ones too", rows.len()));
        }
        Ok(())
    }
}

pub(crate) fn value(record: &impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(record).map_err(anyhow::Error::from)?)
}

/// A request that is checked by the service, and not carried out.
#[derive(Args, Debug)]
pub(crate) struct Estimate<B: Body> {
    #[command(flatten)]
    request: Source<B>,
}

impl<B: Body> Estimate<B> {
    pub(crate) fn checked(&self) -> Result<B::Checked> {
        Ok(self.request.checked()?.1)
    }
}

/// Prints what a request would come to.
pub(crate) fn estimated(context: &Context, preview: &impl Serialize) -> Result {
    let preview = value(preview)?;
    if context.output.is_json() {
        return context.output.record(&preview);
    }
    context.output.warnings(&preview);
    note_untimed(context, &preview["estimate"]);
    context.output.record(&Value::Object(readable(&preview["estimate"])))
}

/// Says why an estimate has no time, which is what most ask for one for.
pub(super) fn note_untimed(context: &Context, estimate: &Value) {
    // Of a job on a system whose atoms nobody knows yet, a warning says why.
    let is_known = !estimate["atoms"].is_null()
        || (estimate["steps"].is_null() && !estimate["frames"].is_null());
    if is_known && estimate["hours"].is_null() {
        context.output.note("no time is told: nothing of the kind has run at this service yet");
    }
}

/// What a dry run without a key could not find out.
pub(super) const UNASKED: &str = "no service was asked, for there is no API key: names of force \
                                  fields, files and limits are not checked; `molbox login`, or \
                                  `molbox up` for a service of your own";

/// Shows what would be sent, and to whom has a key what it would come to: on a terminal with the
/// defaults that the service fills in.
pub(crate) async fn dry_run<P: Serialize>(
    context: &Context,
    request: &Value,
    check: impl AsyncFnOnce(Client) -> Result<P>,
) -> Result {
    let preview = if context.key.is_some() {
        let preview = value(&check(context.workflow()?).await?)?;
        context.output.warnings(&preview);
        note_untimed(context, &preview["estimate"]);
        preview
    } else {
        context.output.note(UNASKED);
        Value::Null
    };
    let estimate = without_box(&preview["estimate"]);
    if !context.output.is_json() {
        let request = if preview.is_null() { request } else { &preview["parameters"] };
        return context
            .output
            .record(&json!({"request": with_stage_lines(request), "estimate": estimate}));
    }
    for (name, value) in estimate {
        let name = name.replace('_', " ");
        context.output.note(&format!("{name}: {}", plain(&value)));
    }
    context.output.json(request)
}

/// An estimate without the box, whose vectors nobody reads.
pub(super) fn without_box(estimate: &Value) -> Map<String, Value> {
    let mut members = readable(estimate);
    members.retain(|name, _| !name.starts_with("box_"));
    members
}

/// A request for people, each stage of a job in a line.
pub(super) fn with_stage_lines(request: &Value) -> Value {
    let mut shown = request.clone();
    if let Some(stages) = request["equilibration"].as_array() {
        shown["equilibration"] = stages.iter().map(stage_line).collect();
    }
    if request["production"].is_object() {
        shown["production"] = stage_line(&request["production"]).into();
    }
    shown
}

/// A stage in a line: `NVT, 0.1 ns, log every 1000 steps, 200 kJ/mol/nm² on @CA`.
fn stage_line(stage: &Value) -> String {
    let number = |field: &str| stage[field].as_f64().unwrap_or_default();
    let mut parts = vec![
        stage["type"].as_str().unwrap_or_default().to_owned(),
        format!("{} ns", number("time")),
    ];
    for (what, field) in [("frame", "traj_freq"), ("log", "log_freq")] {
        match stage[field].as_u64() {
            Some(0) | None => {}
            Some(steps) => parts.push(format!("{what} every {steps} steps")),
        }
    }
    if let Some(mask) = stage["restraint_mask"].as_str() {
        parts.push(format!("{} kJ/mol/nm² on {mask}", number("restraint_force")));
    }
    parts.join(", ")
}

/// An estimate for people: sizes with their units, places as words, `hours` as a `time` of minutes
/// where it is one.
pub(crate) fn readable(estimate: &Value) -> Map<String, Value> {
    let mut shown = estimate.as_object().cloned().unwrap_or_default();
    for (of_hours, name) in [("hours", "time"), ("build_hours", "build_time")] {
        if let Some(hours) = shown.remove(of_hours).and_then(|hours| hours.as_f64()) {
            shown.insert(name.to_owned(), output::duration(3600.0 * hours).into());
        }
    }
    let named = shown.into_iter().map(|(name, value)| {
        match (name.strip_suffix("_bytes"), value.as_u64()) {
            (Some(name), Some(size)) => {
                (name.to_owned(), indicatif::DecimalBytes(size).to_string().into())
            }
            _ => {
                let place = QueuePlace::deserialize(&value).ok();
                (name, place.map_or(value, |place| waits(&place).into()))
            }
        }
    });
    named.collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Identifiers; `latest` is the newest.
#[derive(Args, Debug)]
pub(crate) struct Ids {
    /// Identifiers; `latest` is the one submitted last.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// List, the newest first.
    #[command(visible_alias = "ls")]
    List(Filter),
    /// Show everything about it.
    Show(Ids),
    /// Wait until it has ended; exit status 9 when it failed.
    Wait {
        #[command(flatten)]
        ids: Ids,
        /// Give up after so long: `90s`, `30min`, `2h`.
        #[arg(long, value_name = "TIME", value_parser = units::duration)]
        timeout: Option<Duration>,
    },
    /// Follow it to its end; as JSON a record on each line, whenever it changes.
    Watch {
        /// Identifier; `latest` is the one submitted last.
        id: String,
    },
    /// Cancel it: what runs commits what it has, and ends within seconds.
    Cancel {
        #[command(flatten)]
        ids: Ids,
        /// Wait until it has ended.
        #[arg(long)]
        wait: bool,
    },
    /// Delete it with its results; it asks first, and without a terminal wants `--yes`.
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        ids: Ids,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
    /// Download the results; an interrupted download is resumed where it stopped.
    Download {
        /// Identifier; `latest` is the one submitted last.
        id: String,
        /// File to write. Default: `ID.zip`.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Unpack it, too, beside the file.
        #[arg(long)]
        unpack: bool,
    },
}

/// Whether a text has the form of identifiers: `job_0123456789abcdefghij`.
pub(crate) fn is_identifier(text: &str) -> bool {
    let Some((kind, rest)) = text.split_once('_') else { return false };
    let has_alphabet = rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    !kind.is_empty() && rest.len() == 20 && has_alphabet
}

/// A short identifier as tables show it, or more of one: `job_11qry4`.
pub(crate) fn beginning(text: &str) -> Option<&str> {
    let (kind, rest) = text.split_once('_')?;
    let has_alphabet = rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    (!kind.is_empty() && (4..20).contains(&rest.len()) && has_alphabet).then_some(text)
}

/// The only identifier that begins so.
async fn begun_with<N: Noun>(client: &Client, prefix: &str) -> Result<String> {
    let all = Filter { limit: 0, all: true, status: None, name: None };
    let mut records = pin!(N::list(client, &all));
    let mut found: Option<String> = None;
    while let Some(record) = records.try_next().await? {
        if !record.id().starts_with(prefix) {
            continue;
        }
        if let Some(first) = found {
            let message = format!("{prefix} begins {first} and {}", record.id());
            return Err(Failure::invalid(message).remedy("give more of it"));
        }
        found = Some(record.id().to_owned());
    }
    found.ok_or_else(|| {
        Failure::new(Code::NotFound, format!("no {} whose identifier begins {prefix}", N::NOUN))
            .remedy(format!("`molbox {} list --all` shows them", N::NOUN))
    })
}

/// The identifier that is meant.
pub(crate) async fn resolve<N: Noun>(client: &Client, id: &str) -> Result<String> {
    if id != "latest" {
        if let Some(prefix) = beginning(id) {
            return begun_with::<N>(client, prefix).await;
        }
        if !is_identifier(id) {
            let failure = Failure::invalid(format!("{id:?} is no identifier of a {}", N::NOUN));
            return Err(failure
                .remedy(format!("`molbox {} list` shows them; `latest` is the newest", N::NOUN)));
        }
        return Ok(id.to_owned());
    }
    let filter = Filter { limit: 1, all: false, status: None, name: None };
    let newest = pin!(N::list(client, &filter)).try_next().await?;
    match newest {
        Some(record) => Ok(record.id().to_owned()),
        None => Err(Failure::new(Code::NotFound, format!("there is no {} yet", N::NOUN))),
    }
}

/// The identifier that a field of a request means, as commands take it; anything else is for the
/// service to judge.
pub(crate) async fn referred<N: Noun>(client: &Client, id: &str) -> Result<String> {
    match id == "latest" || beginning(id).is_some() {
        true => resolve::<N>(client, id).await,
        false => Ok(id.to_owned()),
    }
}

async fn resolved<N: Noun>(client: &Client, ids: &Ids) -> Result<Vec<String>> {
    let mut resolved = Vec::new();
    for id in &ids.ids {
        resolved.push(resolve::<N>(client, id).await?);
    }
    Ok(resolved)
}

/// One record as a document, several as a list.
fn show(context: &Context, records: &[Value]) -> Result {
    records.iter().for_each(|record| context.output.warnings(record));
    match records {
        [one] => record(context, one),
        many if context.output.is_json() => context.output.json(&many),
        many => many.iter().try_for_each(|one| record(context, one)),
    }
}

/// A task for people has what was asked for once: with all defaults, in `parameters`.
fn record(context: &Context, record: &Value) -> Result {
    if context.output.is_json() {
        return context.output.record(record);
    }
    let mut record = record.clone();
    if let Some(members) = record.as_object_mut().filter(|record| record.contains_key("parameters"))
    {
        members.remove("request");
    }
    show_cancelling(&mut record);
    context.output.record(&record)
}

/// Says of a task that is being cancelled that, rather than that it still runs.
fn show_cancelling(record: &mut Value) {
    let Some(members) = record.as_object_mut() else { return };
    if members.remove("cancelling") == Some(true.into()) {
        members.insert("status".to_owned(), "cancelling".into());
    }
}

pub(crate) async fn run<N: Noun>(context: &Context, verb: Verb) -> Result {
    let client = context.workflow()?;
    match verb {
        Verb::List(filter) => {
            let mut found = filter.collect(N::list(&client, &filter)).await?;
            if !context.output.is_json() {
                found.rows.iter_mut().for_each(show_cancelling);
            }
            let none = match filter.is_narrow() {
                true => format!("no {} of that state or name", N::NOUN),
                false => N::NONE.to_owned(),
            };
            found.show(&context.output, N::COLUMNS, &none)
        }
        Verb::Show(ids) => {
            let mut records = Vec::new();
            for id in resolved::<N>(&client, &ids).await? {
                records.push(value(&N::look_up(&client, &id).await?)?);
            }
            show(context, &records)
        }
        Verb::Wait { ids, timeout } => {
            let ids = resolved::<N>(&client, &ids).await?;
            let records = wait::<N>(context, &client, &ids, timeout).await?;
            show(context, &records)
        }
        Verb::Watch { id } => {
            let id = resolve::<N>(&client, &id).await?;
            let seen = unless_interrupted(watch::<N>(context, &client, &id)).await;
            seen.map_err(|failure| goes_on::<N>(failure, &[id]))
        }
        Verb::Cancel { ids, wait } => {
            let mut records = Vec::new();
            for id in resolved::<N>(&client, &ids).await? {
                let mut record = N::cancel(&client, &id).await?;
                if wait {
                    record = ended::<N>(&client, &id).await?;
                }
                records.push(value(&record)?);
            }
            cancelled::<N>(context, &records)
        }
        Verb::Delete { ids, yes } => {
            let mut deleted = Vec::new();
            let ids = resolved::<N>(&client, &ids).await?;
            context.output.confirm(&format!("delete {} with all results?", ids.join(", ")), yes)?;
            for id in ids {
                N::delete(&client, &id).await?;
                context.output.note(&format!("deleted {id}"));
                deleted.push(id);
            }
            if context.output.is_json() {
                context.output.json(&json!({"deleted": deleted}))
            } else {
                Ok(())
            }
        }
        Verb::Download { id, output, unpack } => {
            let id = resolve::<N>(&client, &id).await?;
            let path = output.unwrap_or_else(|| PathBuf::from(format!("{id}.zip")));
            let download = N::download(&client, &id, path);
            let path = fetch(context, download).await?;
            let folder = if unpack { Some(archive::unpack(&path)?) } else { None };
            downloaded(context, &path, folder)
        }
    }
}

/// The record of what was cancelled, when it has ended.
async fn ended<N: Noun>(client: &Client, id: &str) -> Result<N> {
    let mut records = pin!(N::wait(client, id).stream());
    let mut last = None;
    while let Some(record) = records.try_next().await? {
        last = Some(record);
    }
    match last {
        Some(record) => Ok(record),
        None => Ok(N::look_up(client, id).await?),
    }
}

/// What became of what was to be cancelled: for people a line each.
fn cancelled<N: Noun>(context: &Context, records: &[Value]) -> Result {
    if context.output.is_json() {
        return show(context, records);
    }
    for record in records {
        context.output.warnings(record);
        let id = record[format!("{}_id", N::NOUN)].as_str().unwrap_or_default();
        context.output.sentence(&match record["status"].as_str().unwrap_or_default() {
            "cancelled" => format!("{id} is cancelled; what it wrote is kept"),
            "queued" | "running" => {
                format!("{id} is cancelling: it commits what it has, and ends within seconds")
            }
            status => format!("{id} had {status} already"),
        })?;
    }
    Ok(())
}

/// Shows what was submitted, at its end if that is waited for.
pub(crate) async fn submitted<N: Noun>(
    context: &Context,
    client: &Client,
    records: Vec<N>,
    wait: bool,
) -> Result {
    let records: Vec<Value> = if wait {
        for record in &records {
            context.output.note(&format!("submitted {}", record.id()));
            // Before the wait: who misspelt a field may want to end it.
            value(record).iter().for_each(|record| context.output.warnings(record));
        }
        let ids: Vec<String> = records.iter().map(|record| record.id().to_owned()).collect();
        self::wait::<N>(context, client, &ids, None).await?
    } else {
        records.iter().map(value).collect::<Result<_>>()?
    };
    records.iter().for_each(|record| context.output.warnings(record));
    match records.as_slice() {
        [one] => context.output.record(one),
        many => context.output.table(N::COLUMNS, many),
    }
}

pub(crate) async fn fetch(context: &Context, download: Download<'_>) -> Result<PathBuf> {
    let bar = context.output.bar("downloading");
    let shown = bar.clone();
    let path = download.on_progress(move |done, size| show_bytes(&shown, done, size)).await;
    bar.finish_and_clear();
    Ok(path?)
}

/// Which atoms and frames of a trajectory.
#[derive(Args, Debug)]
pub(crate) struct Frames {
    /// Amber mask of the atoms. Default: all.
    #[arg(long)]
    mask: Option<String>,
    /// First frame, counted from 0.
    #[arg(long, value_name = "FRAME", value_parser = |text: &str| units::whole(text, 0u64))]
    from: Option<u64>,
    /// Last frame, inclusive.
    #[arg(long, value_name = "FRAME", value_parser = |text: &str| units::whole(text, 0u64))]
    to: Option<u64>,
    /// Every how many frames one is taken.
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| units::whole(text, 1u64))]
    stride: Option<u64>,
}

impl Frames {
    /// A request that asks for these.
    pub(crate) fn of(self, call: Call<'_>) -> Call<'_> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        [
            ("mask", self.mask),
            ("from", number(self.from)),
            ("to", number(self.to)),
            ("stride", number(self.stride)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .fold(call, |call, (name, value)| call.query(name, &value))
    }
}

/// Writes the content of an answer to a file, beside its place until all of it is there.
pub(crate) async fn save(context: &Context, call: Call<'_>, path: PathBuf) -> Result {
    let failed =
        |path: &Path, error| Failure::new(Code::File, format!("{}: {error}", path.display()));
    let mut answer = call.send().await?;
    let size = answer.header("content-length").and_then(|size| size.parse().ok());
    let partial = PathBuf::from(format!("{}.partial", path.display()));
    let mut file = fs::File::create(&partial).map_err(|e| failed(&partial, e))?;
    let bar = context.output.bar("downloading");
    let mut done = 0;
    while let Some(chunk) = answer.chunk().await? {
        file.write_all(&chunk).map_err(|e| failed(&partial, e))?;
        done += chunk.len() as u64;
        show_bytes(&bar, done, size);
    }
    bar.finish_and_clear();
    fs::rename(&partial, &path).map_err(|e| failed(&path, e))?;
    downloaded(context, &path, None)
}

/// Moves a bar to what has arrived; without a size it stays at its beginning.
pub(crate) fn show_bytes(bar: &ProgressBar, done: u64, size: Option<u64>) {
    match size {
        Some(size) => {
            bar.set_position(1000 * done / size.max(1));
            bar.set_message(format!(
                "{} of {}",
                indicatif::DecimalBytes(done),
                indicatif::DecimalBytes(size)
            ));
        }
        None => bar.set_message(indicatif::DecimalBytes(done).to_string()),
    }
}

/// Says where a download is.
pub(crate) fn downloaded(context: &Context, path: &Path, folder: Option<PathBuf>) -> Result {
    let mut written = json!({"file": path.display().to_string()});
    if let Some(folder) = folder {
        written["folder"] = folder.display().to_string().into();
    }
    context.output.record(&written)
}

/// Waits for tasks; their records at their ends.
async fn wait<N: Noun>(
    context: &Context,
    client: &Client,
    ids: &[String],
    timeout: Option<Duration>,
) -> Result<Vec<Value>> {
    let waits = ids.iter().map(|id| wait_for::<N>(context, client, id, timeout));
    let all = async {
        // Each is waited for to its end, whatever comes of the others.
        futures::future::join_all(waits).await.into_iter().collect::<Result<_>>()
    };
    unless_interrupted(all).await.map_err(|failure| goes_on::<N>(failure, ids))
}

/// With how to wait again for tasks, if it is the wait that was interrupted.
fn goes_on<N: Noun>(failure: Failure, ids: &[String]) -> Failure {
    match failure.code {
        Code::Interrupted => {
            let (noun, ids) = (N::NOUN, ids.join(" "));
            failure.remedy(format!(
                "`molbox {noun} wait {ids}` waits again, `molbox {noun} cancel {ids}` cancels"
            ))
        }
        _ => failure,
    }
}

/// Waits with a bar; the record at the end.
async fn wait_for<N: Noun>(
    context: &Context,
    client: &Client,
    id: &str,
    timeout: Option<Duration>,
) -> Result<Value> {
    let bar = context.output.bar(N::NOUN);
    let wait = N::wait(client, id);
    let mut wait = wait.on_progress(|record| show_progress(&context.output, &bar, N::NOUN, record));
    if let Some(timeout) = timeout {
        wait = wait.timeout(timeout);
    }
    let ended = wait.await;
    bar.finish_and_clear();
    value(&ended?)
}

async fn watch<N: Noun>(context: &Context, client: &Client, id: &str) -> Result {
    let mut records = pin!(N::wait(client, id).stream());
    let bar = (!context.output.is_json()).then(|| context.output.bar(N::NOUN));
    let mut last = None;
    while let Some(record) = records.try_next().await? {
        match &bar {
            Some(bar) => show_progress(&context.output, bar, N::NOUN, &record),
            None => context.output.json_line(&record)?,
        }
        context.output.warnings(&value(&record)?);
        last = Some(record);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
        if let Some(record) = &last {
            context.output.record(&value(record)?)?;
        }
    }
    match last {
        Some(record) if record.status() != "succeeded" => {
            let failure = record.failure().map(|f| format!(": {}", f.message)).unwrap_or_default();
            let message = format!("{} {}{failure}", record.id(), record.status());
            let mut failure = Failure::new(Code::TaskFailed, message);
            failure.remedy = record.failure().and_then(|f| f.remedy.clone());
            Err(failure)
        }
        _ => Ok(()),
    }
}

/// The state of a task, with its place while it waits, or with what is in its way.
pub(crate) fn standing<N: Noun>(record: &N) -> String {
    let status = record.status();
    match (record.hold(), record.queue()) {
        _ if record.is_cancelling() => "cancelling".to_owned(),
        (Some(hold), _) => format!("{status}, held: {}", hold.message),
        (None, Some(place)) => format!("{status}, {}", waits(place)),
        (None, None) => status.to_owned(),
    }
}

fn waits(place: &QueuePlace) -> String {
    [Some(position(place)), start(place)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn position(place: &QueuePlace) -> String {
    format!("place {} of {}", place.position, place.length)
}

fn start(place: &QueuePlace) -> Option<String> {
    Some(format!("expected to start at {}", moment(place.expected_start_at.as_ref()?)))
}

/// A time of whole minutes, for people: `2026-01-31 14:05 UTC`.
fn moment(rfc3339: &str) -> String {
    match rfc3339.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.trim_end_matches(":00Z")),
        None => rfc3339.to_owned(),
    }
}

/// Shows stage and step, and below them speed, time to go and the last energies; of a task that
/// waits its place, or below its state what is in its way.
pub(crate) fn show_progress<N: Noun>(output: &Output, bar: &ProgressBar, what: &str, record: &N) {
    let Some(progress) = record.progress() else {
        let (state, below) = match (record.hold(), record.queue()) {
            _ if record.is_cancelling() => (standing(record), String::new()),
            (Some(hold), _) => (format!("{}, held", record.status()), hold.message.clone()),
            // Both are too long for one line of a terminal.
            (None, Some(place)) => (
                format!("{}, {}", record.status(), position(place)),
                start(place).unwrap_or_default(),
            ),
            (None, None) => (standing(record), String::new()),
        };
        return output.report(bar, what, state, below);
    };
    bar.set_position((1000.0 * progress.fraction.get()) as u64);
    let mut parts = Vec::new();
    if let Some(stage) = &progress.stage {
        let of = match (progress.stage_index, progress.stage_count) {
            (Some(index), Some(count)) => format!(" ({}/{count})", index + 1),
            _ => String::new(),
        };
        parts.push(format!("{stage}{of}"));
    }
    if let (Some(step), Some(steps)) = (progress.step, progress.steps) {
        parts.push(format!("step {step}/{steps}"));
    }
    output.report(bar, what, parts.join(output::PART), details(progress));
}

fn details(progress: &Progress) -> String {
    let speed = progress.ns_per_day.map(|speed| format!("{:.1} ns/day", speed.get()));
    let eta = progress.eta_seconds.map(|eta| Duration::from_secs_f64(eta.get().min(1e9).round()));
    let eta = eta.map(|eta| format!("ETA {}", indicatif::FormattedDuration(eta)));
    let energies = progress.energies.as_ref();
    let energy =
        energies.and_then(|e| e.potential_energy).map(|e| format!("{:.0} kJ/mol", e.get()));
    let temperature = energies.and_then(|e| e.temperature).map(|t| format!("{:.0} K", t.get()));
    let density = energies.and_then(|e| e.density).map(|d| format!("{:.3} g/mL", d.get()));
    let parts: Vec<String> =
        [speed, eta, energy, temperature, density].into_iter().flatten().collect();
    parts.join(output::PART)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_that_is_held_says_what_is_in_its_way() {
        let example = include_str!("../../../../openapi/examples/job_submit.200.json");
        let mut job: Value = serde_json::from_str(example).unwrap();
        job["queue"] = json!({"position": 1, "length": 1});
        let standing = |job: &Value| standing(&JobRecord::deserialize(job).unwrap());
        assert_eq!(standing(&job), "queued, place 1 of 1");
        job["held"] = json!({
            "kinds": ["job"], "code": "disk_full", "message": "the disk is full",
            "fault": "machine", "since": "2026-01-31T14:05:00Z",
        });
        assert_eq!(standing(&job), "queued, held: the disk is full");
    }
}
