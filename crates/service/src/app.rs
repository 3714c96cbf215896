//! What every request and every task needs: configuration, database, objects, clock, chance.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use molbox::Finite;
use molbox::workflow::types::{self, QueuePlace};
use molbox_analysis::{Structure, Topology, XtcIndex};
use tokio::sync::{Notify, watch};

use crate::accounts;
use crate::accounts::key::{Uses, WrongKeys};
use crate::accounts::link::UploadLinks;
use crate::accounts::oidc::Provider;
use crate::accounts::password::Passwords;
use crate::clock::Clock;
use crate::config::{Config, Engine};
use crate::db::{Allowance, Db, Period};
use crate::error::ApiError;
use crate::files;
use crate::finding::LastExamination;
use crate::folder::reserve::Reserve;
use crate::folder::{self, DATABASE, Folder};
use crate::hex::{hex, unhex};
use crate::http::arriving::Arriving;
use crate::http::kept_answers::KeptAnswers;
use crate::http::page_token::PageTokens;
use crate::http::rates::Rates;
use crate::http::room::Room;
use crate::http::slots::{Slot, Slots};
use crate::http::turns::Turns;
use crate::http::validate::Contract;
use crate::market::Market;
use crate::metrics::Metrics;
use crate::objects::{Key, Objects};
use crate::pdb::Mirror;
use crate::plan::topology::Built;
use crate::random;
use crate::recent::Recent;
use crate::record::{EndedRecord, Kind, Lane};
use crate::runner::hold::Holds;
use crate::runner::places::Queues;

/// How long a server that begins may take from the note in the bucket to that in the database.
const TIED: Duration = Duration::from_secs(2);
/// How long the check of the database may delay the start.
const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// Atoms of all systems that are kept together, and of all structures with their bonds; a hundred
/// bytes or so each.
const MAX_RECENT_ATOMS: usize = 2_000_000;
/// Frames of all trajectories; 16 bytes each.
const MAX_RECENT_FRAMES: usize = 10_000_000;
/// How many of these there may be, about.
const RECENT_THINGS: usize = 64;
/// Bytes of records of tasks that have ended, and of one, about.
const MAX_RECENT_RECORDS: usize = 32 << 20;
const RECORD_BYTES: usize = 2048;

/// The state of the service.
pub(crate) struct App {
    pub(crate) config: Config,
    clock: Clock,
    pub(crate) contract: Contract,
    pub(crate) db: Db,
    pub(crate) objects: Arc<Objects>,
    pub(crate) reserve: Reserve,
    pub(crate) links: UploadLinks,
    pub(crate) pages: PageTokens,
    /// Wakes the runner when something is to be stopped.
    pub(crate) wake: Notify,
    /// The same when something has been queued, for each lane.
    queued: [Notify; 2],
    /// True once the service has been asked to end: it runs no more tasks.
    pub(crate) leaving: watch::Sender<bool>,
    /// True once it takes no more requests.
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) rates: Rates,
    pub(crate) wrong_keys: WrongKeys,
    pub(crate) passwords: Passwords,
    /// Passwords and invitations that are tried, by name and by address.
    pub(crate) tries: Rates,
    /// Memory for request bodies.
    pub(crate) room: Arc<Room>,
    pub(crate) registrations: Arc<Slots>,
    /// Of what is kept in memory already.
    pub(crate) looks: Arc<Slots>,
    pub(crate) turns: Turns,
    pub(crate) kept_answers: KeptAnswers,
    /// Of the streams of an account one looks at a time.
    pub(crate) watches: Turns,
    pub(crate) arriving: Arc<Arriving>,
    pub(crate) metrics: Metrics,
    pub(crate) mirror: Mirror,
    /// Who signs people in besides the service itself.
    pub(crate) oidc: Option<Provider>,
    pub(crate) market: Market,
    /// Systems that have been built, registered structures and topologies without positions, frames
    /// of registered XTC files.
    pub(crate) systems: Recent<Built>,
    pub(crate) structures: Recent<Structure>,
    pub(crate) topologies: Recent<Topology>,
    pub(crate) frames: Recent<XtcIndex>,
    /// Records of tasks that have ended.
    pub(crate) records: Recent<EndedRecord>,
    pub(crate) holds: Holds,
    pub(crate) queues: Queues,
    pub(crate) examination: LastExamination,
    /// The name of the installation: of its data folder, or of the store of its objects.
    pub(crate) installation: String,
    /// By which other servers of the same database know this one: that of its data folder.
    pub(crate) server_id: String,
    /// How many servers work on the database.
    n_servers: AtomicU32,
    /// What running tasks last said of themselves.
    progress: Mutex<HashMap<String, Said>>,
    /// When keys and sessions were last used.
    pub(crate) uses: Uses,
    /// When what was downloaded last, by whom.
    pub(crate) downloads: Uses,
    /// Base address without the stage, known once the service listens.
    origin: OnceLock<String>,
    /// Base address of the margin endpoint, known then too.
    margin_origin: OnceLock<String>,
}

/// What a running task last said of itself, as JSON.
struct Said {
    text: Arc<str>,
    /// Whether this server runs it, and need not be told.
    is_own: bool,
}

impl App {
    /// Opens the data folder.
    pub(crate) fn open(config: Config, clock: Clock) -> Result<Self> {
        let data = &config.data;
        folder::make(data)?;
        folder::tighten(data)?;
        let db = Db::open(&config)?;
        if !db.check(CHECK_LIMIT)? {
            tracing::warn!(
                "the database is too large to be checked at the start; `molboxd check` does it"
            );
        }
        let server_id = server(data)?;
        let objects = Arc::new(Objects::of(&config)?);
        // Before anything is noted: what is refused can be put right.
        refuse_foreign(&config, &db, &objects)?;
        let secret = shared_secret(&db, &data.join("secret"))?;
        let installation = folder::belonging(data, &objects, installation(data)?)?;
        // By which a database elsewhere is known to be of this folder, or of these objects.
        db.belong_to(data, &installation)?;
        let app = Self {
            contract: Contract::of_document(),
            db,
            objects,
            reserve: Reserve::of(data),
            links: UploadLinks::new(secret),
            pages: PageTokens::new(&secret),
            wake: Notify::new(),
            queued: Default::default(),
            leaving: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
            rates: Rates::default(),
            wrong_keys: WrongKeys::new(config.limits.wrong_keys_per_minute),
            passwords: Passwords::default(),
            tries: Rates::default(),
            room: Room::new(config.limits.bodies_bytes),
            registrations: Slots::new(config.limits.registrations),
            looks: Slots::new(0),
            turns: Turns::default(),
            kept_answers: KeptAnswers::default(),
            watches: Turns::default(),
            arriving: Arc::default(),
            metrics: Metrics::new(),
            mirror: Mirror::new(&config.pdb, config.limits.text_bytes)?,
            oidc: Provider::of(&config.oidc, &secret)?,
            market: Market::open(&config),
            systems: Recent::of_weight(MAX_RECENT_ATOMS, RECENT_THINGS),
            structures: Recent::of_weight(MAX_RECENT_ATOMS, RECENT_THINGS),
            topologies: Recent::of_weight(MAX_RECENT_ATOMS, RECENT_THINGS),
            frames: Recent::of_weight(MAX_RECENT_FRAMES, RECENT_THINGS),
            records: Recent::of_weight(MAX_RECENT_RECORDS, MAX_RECENT_RECORDS / RECORD_BYTES),
            holds: Holds::default(),
            queues: Queues::default(),
            examination: LastExamination::default(),
            installation,
            server_id,
            n_servers: AtomicU32::new(1),
            progress: Mutex::default(),
            uses: Uses::default(),
            downloads: Uses::default(),
            origin: OnceLock::new(),
            margin_origin: OnceLock::new(),
            config,
            clock,
        };
        let database = app.config.database.url.is_empty().then_some(DATABASE);
        let watched = app.objects.folder().into_iter().chain(database);
        app.db.watch(Folder::remember(&app.config.data, watched)?);
        Ok(app)
    }

    /// The present, in microseconds since 1970.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Random bytes.
    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        random::bytes()
    }

    /// A number for one request, which is no secret.
    pub(crate) fn request_number(&self) -> [u8; 8] {
        random::request()
    }

    /// A new identifier, `job_` and 20 characters with 100 random bits.
    pub(crate) fn new_id(&self, prefix: &str) -> String {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let digits = self.random::<20>().map(|byte| char::from(DIGITS[usize::from(byte) % 32]));
        format!("{prefix}_{}", digits.iter().collect::<String>())
    }

    /// Key of a content that is yet to be written.
    pub(crate) fn new_object(&self) -> Key {
        Key::upload(&self.new_id("object"))
    }

    /// A seed for what OpenMM draws: 31 bits, not zero.
    pub(crate) fn new_seed(&self) -> i64 {
        i64::from(u32::from_le_bytes(self.random()) & 0x7fff_ffff).max(1)
    }

    /// Says where the service listens. Where it is reached is what was configured, or else the
    /// same.
    pub(crate) fn listens_at(&self, origin: String, margin_origin: String) {
        // Once, when the service starts.
        let _ = self.origin.set(reached(&self.config.public_url, origin));
        let _ = self.margin_origin.set(reached(&self.config.margin_public_url, margin_origin));
    }

    /// Base address of the margin endpoint as clients see it.
    pub(crate) fn margin_base_url(&self) -> &str {
        self.margin_origin.get().map_or("", String::as_str)
    }

    /// Base address of the simulation workflow as clients see it.
    pub(crate) fn base_url(&self) -> String {
        let origin = self.origin.get().map_or("", String::as_str);
        format!("{origin}/{}", self.config.stage)
    }

    /// Refuses what would fill the disk, while there is room to end what has begun.
    pub(crate) fn check_disk(&self) -> Result<(), ApiError> {
        self.db.check_folder().map_err(anyhow::Error::new)?;
        let free = self.objects.free_bytes()?;
        if free >= self.config.limits.free_disk_bytes {
            self.reserve.keep();
            return Ok(());
        }
        let cause = anyhow::anyhow!("{free} bytes are free, limits.free_disk_bytes asks for more");
        Err(ApiError::unavailable("the service's disk is full", cause))
    }

    /// Free space of the disk that tasks work on, in bytes: their folder may lie on another than their
    /// results.
    pub(crate) fn free_for_tasks(&self) -> io::Result<u64> {
        let root = self.config.tasks_root();
        // It is made for the first of them.
        let found = root.ancestors().find(|folder| folder.exists()).unwrap_or(root);
        files::free_bytes(found)
    }

    /// Whether the key or the session with this identifier, which was good, is so still.
    pub(crate) async fn is_still_good(&self, caller_id: &str) -> Result<bool, ApiError> {
        accounts::is_still_good(&self.db, caller_id, &self.config.sessions, self.now()).await
    }

    /// The days in which hours of accounts are counted.
    pub(crate) fn period(&self) -> Period {
        Period { now: self.now(), days: self.config.limits.hours_days }
    }

    /// What an account may have.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance {
            open_tasks: self.config.limits.open_tasks,
            bytes: self.config.limits.account_bytes,
            hours: self.config.limits.account_hours,
            hours_days: self.config.limits.hours_days,
        }
    }

    /// A place for work of an account that takes a CPU for long.
    ///
    /// # Errors
    ///
    /// 503 when it does not come in time.
    pub(crate) async fn turn(&self, slots: &Arc<Slots>, account: i64) -> Result<Slot, ApiError> {
        let seconds = self.config.limits.wait_seconds;
        let busy = || {
            ApiError::overloaded(
                "other requests of this kind are still being worked on",
                seconds.max(1),
            )
        };
        slots.take(account, Duration::from_secs(seconds)).await.ok_or_else(busy)
    }

    /// Key of the content of a registered file that a task reads; it is not deleted as long as that
    /// has not ended.
    pub(crate) async fn content_of(&self, file_id: &str) -> Result<Key> {
        let object = self
            .db
            .file_object(file_id)
            .await?
            .with_context(|| format!("{file_id} has no content"))?;
        Ok(Key::stored(object))
    }

    /// The folder of those of the tasks that are open.
    pub(crate) fn tasks_folder(&self) -> PathBuf {
        self.config.tasks_root().join("tasks")
    }

    /// Folder of a task while it runs.
    pub(crate) fn task_folder(&self, id: &str) -> PathBuf {
        self.tasks_folder().join(id)
    }

    /// Wakes the runner when something has been queued in a lane.
    pub(crate) fn queued(&self, lane: Lane) -> &Notify {
        &self.queued[lane as usize]
    }

    /// Where a task waits, as far as that is known.
    pub(crate) fn place(&self, kind: Kind, id: &str) -> Option<QueuePlace> {
        Some(self.told(kind, self.queues.place(kind.lane(), id)?))
    }

    /// Where another task of an account would wait, of this priority, that takes so many hours.
    pub(crate) fn place_of_new(
        &self,
        kind: Kind,
        account: i64,
        priority: i64,
        hours: Option<Finite>,
    ) -> Option<QueuePlace> {
        let seconds = hours.map(|hours| hours.get() * 3600.0);
        Some(self.told(kind, self.queues.place_of_new(kind.lane(), account, priority, seconds)?))
    }

    /// A place without a time while nobody knows how long its lane is held.
    fn told(&self, kind: Kind, place: QueuePlace) -> QueuePlace {
        let is_held = self.held(kind).is_some();
        QueuePlace { expected_start_at: place.expected_start_at.filter(|_| !is_held), ..place }
    }

    /// Why queued tasks of a kind are not started.
    pub(crate) fn held(&self, kind: Kind) -> Option<types::Hold> {
        Some(self.holds.of_lane(kind.lane(), &self.config.worker.gpus)?.shown())
    }

    /// What a running task last said of itself, as JSON.
    pub(crate) fn progress(&self, id: &str) -> Option<Arc<str>> {
        self.said().get(id).map(|said| said.text.clone())
    }

    /// Keeps what a task says of itself that this server runs; whether it is new.
    pub(crate) fn set_progress(&self, id: &str, text: &str) -> bool {
        let mut all = self.said();
        if all.get(id).is_some_and(|said| said.is_own && *said.text == *text) {
            return false;
        }
        all.insert(id.to_owned(), Said { text: text.into(), is_own: true });
        true
    }

    /// Keeps what tasks have said of themselves that other servers run; of others it is forgotten if
    /// this is all there is.
    pub(crate) fn hear_progress(&self, heard: Vec<(String, String)>, is_all: bool) {
        let mut all = self.said();
        if is_all {
            all.retain(|_, said| said.is_own);
        }
        for (id, text) in heard {
            if all.get(&id).is_none_or(|said| !said.is_own) {
                all.insert(id, Said { text: text.into(), is_own: false });
            }
        }
    }

    /// Lets others tell how far the tasks are that this server has run.
    pub(crate) fn disown_progress(&self) {
        self.said().values_mut().for_each(|said| said.is_own = false);
    }

    /// Forgets what a task that no longer runs said of itself.
    pub(crate) fn forget(&self, id: &str) {
        self.said().remove(id);
    }

    fn said(&self) -> MutexGuard<'_, HashMap<String, Said>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which this server runs tasks: processes of a machine can go on there alone, what
    /// a cluster runs any server can take over.
    pub(crate) fn runner_name(&self) -> String {
        match self.config.tasks.executor {
            Engine::Process => format!("host-{}", self.server_id),
            Engine::Slurm => "slurm".to_owned(),
        }
    }

    /// Notes how many servers work on the database.
    pub(crate) fn count_servers(&self, n: usize) {
        self.n_servers.store(u32::try_from(n).unwrap_or(u32::MAX).max(1), Ordering::Relaxed);
    }

    /// This server's part of a number of requests, of which 0 is any.
    pub(crate) fn part_of(&self, requests: u32) -> u32 {
        requests.div_ceil(self.n_servers.load(Ordering::Relaxed))
    }
}

/// Refuses records and contents that do not belong together, or not to the data folder.
pub(crate) fn refuse_foreign(config: &Config, db: &Db, objects: &Objects) -> Result<()> {
    let data = &config.data;
    let are_new = || -> Result<bool> {
        let since = Instant::now();
        // Another server that begins with them takes the bucket before it ties them.
        while db.is_unused()? {
            if since.elapsed() > TIED {
                return Ok(true);
            }
            thread::sleep(TIED / 20);
        }
        Ok(false)
    };
    let name = folder::expected(data, objects, installation(data)?, db.place(), are_new)?;
    db.refuse_foreign(data, &name)
}

/// What other servers know that of a data folder by.
pub(crate) fn server(data: &Path) -> Result<String> {
    secret(&data.join("server")).map(|secret| hex(&secret[..8]))
}

/// The name of a data folder, by which a database elsewhere is known to be its.
pub(crate) fn installation(data: &Path) -> Result<String> {
    secret(&data.join("installation")).map(|name| hex(&name))
}

/// The secret that all servers of a database have, so that a link of one is good at another. The file
/// has it too, for a database that is moved back into the data folder.
fn shared_secret(db: &Db, path: &Path) -> Result<[u8; 32]> {
    let own = secret(path)?;
    let shared = db.shared("secret", &hex(&own))?;
    let shared: [u8; 32] = unhex(&shared)
        .and_then(|bytes| bytes.try_into().ok())
        .with_context(|| format!("the secret in {} is damaged", db.place()))?;
    if shared != own {
        files::write(path, &shared).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(shared)
}

/// Gives a data folder a name that it has not made itself: that of the store whose contents it has
/// taken over.
pub(crate) fn set_installation(data: &Path, name: &str) -> Result<()> {
    let path = data.join("installation");
    let bytes = unhex(name).with_context(|| format!("{name:?} is the name of no installation"))?;
    files::write(&path, &bytes).with_context(|| format!("write {}", path.display()))
}

/// The secret of this data folder, made the first time; only its owner may read it.
fn secret(path: &Path) -> Result<[u8; 32]> {
    if let Some(known) = known_secret(path)? {
        return Ok(known);
    }
    let bytes = random::bytes();
    // At once: half a secret would keep the service from starting.
    files::write(path, &bytes).with_context(|| format!("write {}", path.display()))?;
    Ok(bytes)
}

/// The same, where it has been made.
pub(crate) fn known_secret(path: &Path) -> Result<Option<[u8; 32]>> {
    match fs::read(path) {
        Ok(bytes) => match <[u8; 32]>::try_from(bytes) {
            Ok(secret) => Ok(Some(secret)),
            Err(bytes) => {
                bail!("{} is damaged: it has {} bytes, not 32", path.display(), bytes.len())
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

/// What is wrong with what a data folder has made once and depends on, as far as it has been made.
pub(crate) fn check_secrets(data: &Path) -> Vec<String> {
    let names = ["secret", "installation", "server"];
    let found = names.iter().filter_map(|name| known_secret(&data.join(name)).err());
    found.map(|error| format!("{error:#}")).collect()
}

/// The base address that was configured, or else the one that is listened at.
fn reached(configured: &str, listened: String) -> String {
    match configured.trim_end_matches('/') {
        "" => listened,
        configured => configured.to_owned(),
    }
}
