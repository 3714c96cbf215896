//! The whole workflow in one call: from a structure file to trajectories and analyses, resumed
//! again where it was when it was interrupted.
//!
//! ```no_run
//! # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
//! use molbox::run::{Plan, Run};
//! use molbox::workflow::types::{JobCreateParams, ProductionParams};
//!
//! let job = JobCreateParams::builder()
//!     .temperature(310) // K
//!     .production(ProductionParams::builder().time(1)); // ns
//! let job = job.try_into().expect("within bounds");
//! let plan = Plan { job, replicas: 3, ..Plan::of("1vii.pdb") };
//! let mut run = Run::begin(plan, "villin-run")?;
//! run.finish(&molbox, |event| println!("{event:?}")).await?;
//! # Ok(()) }
//! ```
//!
//! [`Run::open`] takes it up from the folder, in another process too. What the service was asked
//! for is not asked for again.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use crate::transfer::usual_name;
use crate::workflow::Client;
use crate::workflow::types::{
    AnalysisRecord, AnalysisRequest, FileRecord, JobCreateParams, JobRecord, SystemBuildRequest,
    SystemRecord,
};
use crate::{Error, Field};

/// File of a run's folder that says how far it is.
pub const STATE_FILE: &str = "molbox-run.json";

/// Requests that are under way together when replicas are submitted.
const AT_A_TIME: usize = 4;

/// What a run does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// A structure file of this machine, or what the service knows: a registered file's id or name,
    /// or a public structure entry. Empty for a box of solvent and ligands alone.
    pub structure: String,
    /// Files of this machine of a system that another program has built; with them `structure`
    /// only names the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub built: Vec<PathBuf>,
    /// Files of ligands of this machine.
    #[serde(default)]
    pub ligands: Vec<PathBuf>,
    /// A force field's file of this machine; its name takes the place of the registered file's in
    /// the system's `force_field`, which may name one of the service's before it and a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_field: Option<PathBuf>,
    /// How to build; `built`, `protein` and `ligands` are filled in.
    pub system: SystemBuildRequest,
    /// What to simulate; `box_id` and `batch_index` are filled in, and a seed is counted up from
    /// one replica to the next.
    pub job: JobCreateParams,
    /// What to analyse of each replica; `job_id` is filled in. None for nothing.
    pub analysis: Option<AnalysisRequest>,
    /// How many times to simulate, at least 1.
    pub replicas: u32,
}

impl Plan {
    /// The service's defaults for one structure: one replica, the default production and analysis.
    pub fn of(structure: impl Into<String>) -> Self {
        let default = "every field of a request is optional";
        Self {
            structure: structure.into(),
            built: Vec::new(),
            ligands: Vec::new(),
            force_field: None,
            system: crate::from_json("{}").expect(default),
            job: crate::from_json(r#"{"production": {}}"#).expect(default),
            analysis: Some(crate::from_json("{}").expect(default)),
            replicas: 1,
        }
    }

    /// Whether a run can begin with it, as far as that can be told without a service.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when there are no replicas or a path is not UTF-8.
    pub fn check(&self) -> Result<(), Error> {
        if self.replicas == 0 {
            return Err(Error::argument("replicas", "must be an integer >= 1, got 0"));
        }
        let files = self.built.iter().chain(&self.ligands).chain(&self.force_field);
        files.map(PathBuf::as_path).try_for_each(|file| text(&absolute(file)?).map(drop))
    }
}

/// A run, and how far it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Names the run in idempotency keys, so that nothing is submitted twice.
    pub id: String,
    /// What it does.
    pub plan: Plan,
    /// Registered files: the structure, if it was uploaded, and the ligands.
    pub files: Vec<FileRecord>,
    /// The system, as last seen.
    pub system: Option<SystemRecord>,
    /// The replicas, once all are submitted.
    pub replicas: Vec<Replica>,
    /// Jobs of replicas by their indices, until all are submitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    submitted: BTreeMap<u32, JobRecord>,
    /// Whether all is done and downloaded.
    pub is_done: bool,
    /// Why it came to nothing, when it did: the service refused it, or a task failed.
    #[serde(default)]
    pub failure: Option<String>,
    #[serde(skip)]
    folder: PathBuf,
}

/// One simulation of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replica {
    /// The job, as last seen.
    pub job: JobRecord,
    /// Its analysis, as last seen.
    pub analysis: Option<AnalysisRecord>,
    /// The results bundle, when it has been downloaded, relative to the run's folder.
    pub bundle: Option<PathBuf>,
    /// Tables and plots of the analysis, likewise.
    pub tables: Option<PathBuf>,
}

/// Something that happened in a run. As JSON a record with `event` besides: `{"event": "job", …}`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Part of a file has been sent.
    Uploading {
        /// The file.
        path: PathBuf,
        /// Bytes sent.
        done: u64,
        /// Bytes in all.
        size: u64,
    },
    /// A file has been registered.
    Uploaded(Box<FileRecord>),
    /// The system was submitted or looked at.
    System(Box<SystemRecord>),
    /// A job was submitted or looked at.
    Job(Box<JobRecord>),
    /// An analysis was submitted or looked at.
    Analysis(Box<AnalysisRecord>),
    /// Part of a result has arrived.
    Downloading {
        /// The file that it becomes.
        path: PathBuf,
        /// Bytes received.
        done: u64,
        /// Bytes in all, if the answer has their number.
        size: Option<u64>,
    },
    /// A result has arrived and its checksum is right.
    Downloaded {
        /// The file that it is in.
        path: PathBuf,
    },
}

/// A name that nobody else draws, for idempotency keys: `run-0123456789abcdef`.
pub fn random_id(prefix: &str) -> String {
    format!("{prefix}-{:016x}", RandomState::new().build_hasher().finish())
}

fn text(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::invalid(format!("{}: a path must be UTF-8", path.display())))
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|e| Error::file(path, e))
}

type OnEvent = Arc<Mutex<dyn FnMut(Event) + Send>>;

fn report(on_event: &OnEvent, event: Event) {
    (on_event.lock().unwrap_or_else(PoisonError::into_inner))(event);
}

impl Run {
    /// A new run whose state and results are kept in `folder`, which is made. Nothing is sent yet.
    /// Files of the plan are noted by their absolute path: it can be resumed from anywhere.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the folder holds a run already, there are no replicas, or a path is
    /// not UTF-8; [`Error::File`] when the folder cannot be written.
    pub fn begin(mut plan: Plan, folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        plan.check()?;
        text(&folder)?;
        if plan.built.is_empty() && Path::new(&plan.structure).is_file() {
            plan.structure = text(&absolute(Path::new(&plan.structure))?)?.to_owned();
        }
        let files = plan.built.iter_mut().chain(&mut plan.ligands).chain(&mut plan.force_field);
        for file in files {
            *file = absolute(file)?;
        }
        if folder.join(STATE_FILE).exists() {
            return Err(Error::invalid(format!("{}: holds a run already", folder.display())));
        }
        fs::create_dir_all(&folder).map_err(|e| Error::file(&folder, e))?;
        let id = random_id("run");
        let run = Self {
            id,
            plan,
            files: Vec::new(),
            system: None,
            replicas: Vec::new(),
            submitted: BTreeMap::new(),
            is_done: false,
            failure: None,
            folder,
        };
        run.save()?;
        Ok(run)
    }

    /// The run of a folder.
    ///
    /// # Errors
    ///
    /// [`Error::File`] when there is none, [`Error::Invalid`] when its state cannot be read, or
    /// has results outside of the folder.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        text(&folder)?;
        let path = folder.join(STATE_FILE);
        let text = fs::read_to_string(&path).map_err(|e| Error::file(&path, e))?;
        let run: Self = crate::json::read(&text)
            .map_err(|e| Error::invalid(format!("{}: {e}", path.display())))?;
        let results = run.replicas.iter().flat_map(|it| it.bundle.iter().chain(&it.tables));
        for result in results {
            // The folder may be somebody else's, and what is unpacked lands beside the archive.
            if !result.components().all(|part| matches!(part, Component::Normal(_))) {
                let what = format!("{} is not in the folder", result.display());
                return Err(Error::invalid(format!("{}: {what}", path.display())));
            }
        }
        Ok(Self { folder, ..run })
    }

    /// Whether the last attempt came to nothing, and resuming would meet the same again: nothing
    /// of it was simulated.
    pub fn is_dead(&self) -> bool {
        self.failure.is_some() && self.replicas.iter().all(|replica| replica.bundle.is_none())
    }

    /// Where state and results are kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder of a replica's results.
    pub fn replica_folder(&self, index: usize) -> PathBuf {
        self.folder.join(format!("replica_{}", index + 1))
    }

    fn save(&self) -> Result<(), Error> {
        let path = self.folder.join(STATE_FILE);
        let partial = path.with_extension("tmp");
        let text =
            serde_json::to_vec_pretty(self).expect("records, and paths that `begin` has looked at");
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|e| Error::file(path, e))
    }

    /// Does all that is left to do, and calls `on_event` with what happens. Dropping the future
    /// stops nothing that the service is doing; `finish` resumes it.
    ///
    /// # Errors
    ///
    /// What uploads, submissions, waits and downloads give. Other replicas than the one that failed
    /// are brought to their end first.
    pub async fn finish(
        &mut self,
        client: &Client,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<(), Error> {
        let on_event: OnEvent = Arc::new(Mutex::new(on_event));
        self.failure = None;
        let ended = self.advance(client, &on_event).await;
        if let Err(error) = &ended
            && is_final(error)
        {
            self.failure = Some(error.to_string());
            self.save()?;
        }
        ended
    }

    async fn advance(&mut self, client: &Client, on_event: &OnEvent) -> Result<(), Error> {
        self.build(client, on_event).await?;
        self.submit(client, on_event).await?;
        let state = Mutex::new(&mut *self);
        let count = state.lock().unwrap_or_else(PoisonError::into_inner).replicas.len();
        let results =
            join_all((0..count).map(|index| replica(&state, index, client, on_event))).await;
        results.into_iter().collect::<Result<(), Error>>()?;
        self.is_done = true;
        self.save()
    }

    /// Uploads what is to be uploaded, and builds the system.
    async fn build(&mut self, client: &Client, on_event: &OnEvent) -> Result<(), Error> {
        if self.system.is_none() {
            let structure = PathBuf::from(&self.plan.structure);
            let is_built = !self.plan.built.is_empty();
            // As `begin` noted it: no id, name or public entry is an absolute path.
            let is_file = structure.is_absolute();
            if !is_built
                && !is_file
                && (structure.components().count() > 1 || structure.extension().is_some())
            {
                return Err(Error::file(structure, std::io::ErrorKind::NotFound.into()));
            }
            let wanted: Vec<PathBuf> = if is_built {
                self.plan.built.clone()
            } else {
                let ligands = self.plan.ligands.iter().chain(&self.plan.force_field).cloned();
                is_file.then_some(structure).into_iter().chain(ligands).collect()
            };
            for path in wanted.iter().skip(self.files.len()) {
                let file = self.upload(client, path, on_event).await?;
                self.files.push(file.clone());
                self.save()?;
                report(on_event, Event::Uploaded(Box::new(file)));
            }
            let mut request = self.plan.system.clone();
            let mut files = self.files.iter().map(|file| file.file_id.to_string());
            if is_built {
                request.built = files.collect();
            } else {
                request.protein = match self.plan.structure.as_str() {
                    _ if is_file => files.next(),
                    "" => None,
                    known => Some(known.to_owned()),
                };
                request.ligands = files.by_ref().take(self.plan.ligands.len()).collect();
                if let Some(file) = files.next() {
                    let ours = request.force_field.as_deref().and_then(|name| name.split_once(','));
                    request.force_field =
                        Some(ours.map_or(file.clone(), |(ours, _)| format!("{ours},{file}")));
                }
            }
            let key = format!("{}-system", self.id);
            let system = client
                .system_submit()
                .idempotency_key(key.as_str())
                .body(request)
                .send()
                .await?
                .into_inner();
            self.system = Some(system);
            self.save()?;
        }
        let system = self.system.as_ref().expect("submitted now or before");
        report(on_event, Event::System(Box::new(system.clone())));
        if system.status != "succeeded" {
            let id = system.system_id.to_string();
            let to = on_event.clone();
            let wait = client.wait_system(&id).on_progress(move |system: &SystemRecord| {
                report(&to, Event::System(Box::new(system.clone())));
            });
            self.system = Some(wait.await?);
            self.save()?;
        }
        Ok(())
    }

    /// Uploads a file under its own name, unless the account has it already.
    async fn upload(
        &self,
        client: &Client,
        path: &Path,
        on_event: &OnEvent,
    ) -> Result<FileRecord, Error> {
        let stem = usual_name(path).unwrap_or_else(|| "file".to_owned());
        let sha256 = digest(path).await?;
        // Names are unique in an account: another content of the same name gets a number.
        for name in std::iter::once(stem.clone()).chain((2..).map(|nth| format!("{stem}-{nth}"))) {
            let page = client.file_list().name(&name).send().await?.into_inner();
            match page.items.into_iter().find(|file| file.name == name && file.status == "ready") {
                Some(file) if file.sha256.as_ref() == Some(&sha256) => return Ok(file),
                Some(_) => continue,
                None => {}
            }
            let to = on_event.clone();
            let sent = path.to_owned();
            let upload = client.upload(path).name(&name).on_progress(move |done, size| {
                report(&to, Event::Uploading { path: sent.clone(), done, size });
            });
            match upload.await {
                // Another run was first, perhaps with the same content.
                Err(error) if error.status().is_some_and(|status| status.as_u16() == 409) => {
                    let page = client.file_list().name(&name).send().await?.into_inner();
                    let same = page
                        .items
                        .into_iter()
                        .find(|file| file.name == name && file.sha256.as_ref() == Some(&sha256));
                    match same {
                        Some(file) => return Ok(file),
                        None => continue,
                    }
                }
                other => return other,
            }
        }
        Err(Error::argument("name", "there is no end of names"))
    }

    async fn submit(&mut self, client: &Client, on_event: &OnEvent) -> Result<(), Error> {
        if self.replicas.is_empty() {
            let system = self.system.as_ref().expect("built before");
            let mut job = self.plan.job.clone();
            job.box_id = system.system_id.as_str().into_field().map_err(|e| e.within("box_id"))?;
            // After a day the service has forgotten the keys of what it was asked for.
            let missing: Vec<u32> = (0..self.plan.replicas)
                .filter(|index| !self.submitted.contains_key(index))
                .collect();
            let id = self.id.clone();
            client
                .submit_missing(&job, missing, &id, AT_A_TIME, |index, job| {
                    self.submitted.insert(index, job);
                    self.save()
                })
                .await?;
            self.replicas = std::mem::take(&mut self.submitted)
                .into_values()
                .map(|job| Replica { job, analysis: None, bundle: None, tables: None })
                .collect();
            self.save()?;
        }
        for replica in &self.replicas {
            report(on_event, Event::Job(Box::new(replica.job.clone())));
        }
        Ok(())
    }
}

/// Whether the same request would meet the same again.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Invalid(_) | Error::TaskFailed(_) => true,
        Error::Refused(refusal) => {
            [400, 404, 409, 413, 415, 422].contains(&refusal.status.as_u16())
        }
        _ => false,
    }
}

/// SHA-256 of a file, in hexadecimal.
async fn digest(path: &Path) -> Result<String, Error> {
    let mut file = tokio::fs::File::open(path).await.map_err(|e| Error::file(path, e))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer).await.map_err(|e| Error::file(path, e))?;
        if n == 0 {
            return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        digest.update(&buffer[..n]);
    }
}

fn note(
    state: &Mutex<&mut Run>,
    index: usize,
    change: impl FnOnce(&mut Replica),
) -> Result<(), Error> {
    let mut run = state.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut run.replicas[index]);
    run.save()
}

/// Brings a replica to its end: job, bundle, analysis, tables.
async fn replica(
    state: &Mutex<&mut Run>,
    index: usize,
    client: &Client,
    on_event: &OnEvent,
) -> Result<(), Error> {
    let (run_id, request, folder, replica, name) = {
        let run = state.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = run.replica_folder(index);
        let name = PathBuf::from(folder.file_name().expect("has a name"));
        (run.id.clone(), run.plan.analysis.clone(), folder, run.replicas[index].clone(), name)
    };
    let mut job = replica.job;
    let job_id = job.job_id.to_string();
    if job.status != "succeeded" {
        let ended = client
            .wait_job(&job_id)
            .on_progress(|seen: &JobRecord| {
                job = seen.clone();
                report(on_event, Event::Job(Box::new(seen.clone())));
            })
            .await;
        // Also of one that failed: others tell by it what became of the replica.
        note(state, index, |replica| replica.job = job.clone())?;
        ended?;
    }
    fs::create_dir_all(&folder).map_err(|e| Error::file(&folder, e))?;
    if replica.bundle.is_none() {
        let path = folder.join("results.zip");
        client.download_job(&job_id, &path).on_progress(downloading(on_event, &path)).await?;
        note(state, index, |replica| replica.bundle = Some(name.join("results.zip")))?;
        report(on_event, Event::Downloaded { path });
    }
    let has_frames = job.stages.iter().any(|stage| stage.name == "production" && stage.frames > 0);
    let Some(mut request) = request.filter(|_| has_frames && replica.tables.is_none()) else {
        return Ok(());
    };
    let before = replica.analysis;
    let analysis = match before {
        Some(analysis) if analysis.status != "cancelled" => analysis,
        _ => {
            request.job_id = Some(job_id.clone());
            let mut key = format!("{run_id}-analysis-{index}");
            if let Some(cancelled) = &before {
                // The key of before would be answered with the cancelled one.
                key = format!("{key}-after-{}", cancelled.analysis_id.as_str());
            }
            let submit = client.analysis_submit().idempotency_key(key.as_str()).body(request);
            let analysis = submit.send().await?.into_inner();
            note(state, index, |replica| replica.analysis = Some(analysis.clone()))?;
            analysis
        }
    };
    let id = analysis.analysis_id.to_string();
    let mut last = analysis;
    let ended = client
        .wait_analysis(&id)
        .on_progress(|seen: &AnalysisRecord| {
            last = seen.clone();
            report(on_event, Event::Analysis(Box::new(seen.clone())));
        })
        .await;
    note(state, index, |replica| replica.analysis = Some(last))?;
    ended?;
    let path = folder.join("analysis.zip");
    client.download_analysis(&id, &path).on_progress(downloading(on_event, &path)).await?;
    note(state, index, |replica| replica.tables = Some(name.join("analysis.zip")))?;
    report(on_event, Event::Downloaded { path });
    Ok(())
}

fn downloading(on_event: &OnEvent, path: &Path) -> impl FnMut(u64, Option<u64>) + Send + 'static {
    let to = on_event.clone();
    let path = path.to_owned();
    move |done, size| report(&to, Event::Downloading { path: path.clone(), done, size })
}
