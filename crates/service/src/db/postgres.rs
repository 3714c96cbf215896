//! PostgreSQL, for a service that outgrows one machine.
//!
//! Statements run where they are asked for, on a connection of a pool; a thread waits for each. The
//! server puts commits together by itself. Writes of one account wait for each other: those of one
//! process in its line, from which they are committed together, those of several by the account's
//! advisory lock: see [`Scope`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::BytesMut;
use futures::TryStreamExt;
use futures::future::{join, join_all};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{block_in_place, yield_now};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, RowStream, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::clock::Clock;
use crate::config::Database;
use crate::web::{Distrust, distrust};

use super::error::{Error, Result};
use super::scope::Scope;
use super::sqlite;
use super::value::{Any, ToValue, Value};
use super::write::{Write, told};

pub(super) use tokio_postgres::Row;

/// The schema as its first version here is: an installation begins with it.
const FIRST: (usize, &str) = (16, include_str!("postgres/0016.sql"));
/// What brings it from each version to the next.
const MIGRATIONS: [&str; 8] = [
    include_str!("postgres/0017.sql"),
    include_str!("postgres/0018.sql"),
    include_str!("postgres/0019.sql"),
    include_str!("postgres/0020.sql"),
    include_str!("postgres/0021.sql"),
    include_str!("postgres/0022.sql"),
    include_str!("postgres/0023.sql"),
    include_str!("postgres/0024.sql"),
];
/// How long ago a server may have been seen that is there.
pub(super) const SEEN: Duration = Duration::from_secs(30);

/// The version from which on servers know of each other.
const SERVERS: usize = 17;
/// The oldest program that works with this schema, also while servers of newer ones do. A migration that
/// an older one does not bear raises it; it then wants all servers stopped.
const OLDEST: usize = SERVERS;
/// The version of the schema that this program reads and writes: one for both databases.
const VERSION: usize = FIRST.0 + MIGRATIONS.len();
const _: () = assert!(VERSION == sqlite::VERSION, "one version of the schema for both databases");

/// How long it may take until a connection stands.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the peer of a connection may be silent that has been sent something.
const SILENCE: Duration = Duration::from_secs(10);
/// How long nothing may come on a connection before its peer is asked whether it is there, and how
/// often that is repeated at which distance.
const QUIET: Duration = Duration::from_secs(5);
const KEEPALIVES: u32 = 3;
/// How long an answer may take, or a connection to become free: longer than the server itself allows.
const ANSWER: Duration = Duration::from_secs(40);
/// How the server is to treat a connection. Plans are made once, as for SQLite; an answer means that
/// it is on disk; nothing that is forgotten holds a lock.
const SETTINGS: &str = "-c plan_cache_mode=force_generic_plan -c synchronous_commit=on \
    -c statement_timeout=30s -c lock_timeout=20s -c idle_in_transaction_session_timeout=30s \
    -c client_min_messages=warning";
/// What these set for one of them.
const PLANS: &str = "force_generic_plan";
/// Without these an answer is no promise.
const DURABLE: [(&str, &str); 2] = [
    ("fsync", "what was acknowledged is lost with the machine"),
    ("full_page_writes", "a machine that stops may leave half a page"),
];
/// How far the clocks of two machines may be apart: sessions, links and keys end by them.
const APART: Duration = Duration::from_secs(5);
/// The same for a server that is to be started.
const FAR_APART: Duration = Duration::from_secs(60);
/// Connections that others than molboxd may need.
const SPARE: i64 = 5;
/// The oldest PostgreSQL that all statements run on, as it numbers itself.
const OLDEST_SERVER: i64 = 140_000;
/// How often the outcome of a commit is asked for, and how long to wait in between.
const ASKED: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Class of the errors that are about the connection.
const CONNECTION_EXCEPTION: &str = "08";

/// Class of an advisory lock, so that accounts do not wait for what has their number.
const SCHEMA: i32 = 1;
const ACCOUNTS: i32 = 2;
const ACCOUNT: i32 = 3;
const LANE: i32 = 4;

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let state = error.code().cloned();
        let source = std::error::Error::source(&error);
        let of_network = source.map(|source| source.downcast_ref().map(io::Error::kind));
        let is_closed = error.is_closed();
        let cause = Arc::new(Reported(error));
        let Some(state) = state else {
            return match of_network {
                // What TLS says of a certificate.
                Some(Some(io::ErrorKind::InvalidData)) => Self::Untrusted(cause),
                Some(None) if !is_closed => Self::Other(cause),
                _ => Self::Unreachable(cause),
            };
        };
        match state {
            SqlState::DISK_FULL => Self::Full(cause),
            SqlState::OUT_OF_MEMORY => Self::NoMemory(cause),
            SqlState::T_R_DEADLOCK_DETECTED | SqlState::LOCK_NOT_AVAILABLE => Self::Busy(cause),
            SqlState::TOO_MANY_CONNECTIONS => Self::Crowded(cause),
            SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly(cause),
            SqlState::IO_ERROR => Self::Io(cause),
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Self::Damaged(cause),
            SqlState::QUERY_CANCELED => Self::Interrupted(cause),
            SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN
            | SqlState::CANNOT_CONNECT_NOW
            | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
            | SqlState::IDLE_SESSION_TIMEOUT => Self::Unreachable(cause),
            // It is not waited for: it answers, and will not answer anything else.
            _ if cause.0.as_db_error().is_some_and(is_of_pooler) => Self::Other(cause),
            state if state.code().starts_with(CONNECTION_EXCEPTION) => Self::Unreachable(cause),
            _ => Self::Other(cause),
        }
    }
}

/// An error with what the server says; by itself the client's says "db error".
#[derive(Debug)]
struct Reported(tokio_postgres::Error);

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_db_error(), std::error::Error::source(&self.0)) {
            (Some(said), _) => {
                let (code, message) = (said.code(), said.message());
                let remedy = match message {
                    _ if message.contains("no encryption") => {
                        "; set sslmode=verify-full in database.url"
                    }
                    _ if is_of_pooler(said) => POOLED,
                    _ => remedy(code),
                };
                write!(f, "PostgreSQL: {message} ({}){remedy}", code.code())
            }
            (None, Some(cause)) if cause.to_string() == NO_PASSWORD => {
                let remedy = remedy(&SqlState::INVALID_PASSWORD);
                write!(f, "PostgreSQL asks for a password{remedy}")
            }
            (None, Some(cause)) if cause.to_string() == NO_TLS => write!(
                f,
                "PostgreSQL does not offer TLS; give it a certificate (`ssl = on`), or, where nobody can \
                 listen on the way, set sslmode=disable in database.url"
            ),
            (None, Some(cause)) => {
                let remedy = distrust(&self.0).map_or("", certificate);
                write!(f, "PostgreSQL: {}: {cause}{remedy}", self.0)
            }
            (None, None) => write!(f, "PostgreSQL: {}", self.0),
        }
    }
}

impl std::error::Error for Reported {}

/// What the client says where a server asks for a password and there is none.
const NO_PASSWORD: &str = "password missing";

/// The same where it is to be TLS, and the server has none.
const NO_TLS: &str = "server does not support TLS";

/// What to do where connections are another program's, which hands each to many: they would not be
/// treated as is set here, and what is prepared on one is looked for on others.
const POOLED: &str = "; a pooler (PgBouncer) stands before PostgreSQL: name PostgreSQL itself in database.url; \
    molboxd keeps connections of its own, at most database.connections";

/// Whether a refusal is that of a pooler, which knows no such settings or transactions.
fn is_of_pooler(refusal: &DbError) -> bool {
    let is_of_protocol = *refusal.code() == SqlState::PROTOCOL_VIOLATION;
    let theirs = ["startup parameter", "pooling mode"];
    is_of_protocol && theirs.iter().any(|words| refusal.message().contains(words))
}

/// The setting that a certificate is about.
fn certificate(distrust: Distrust) -> &'static str {
    match distrust {
        Distrust::Name => "; name the server in database.url as its certificate does",
        Distrust::Time => {
            "; have the certificate of the server in database.url renewed, or the clock here set right"
        }
        Distrust::Signer => {
            "; set database.ca_file to a file with the certificate of the authority that has signed it"
        }
        Distrust::NoTls => "; name a server in database.url that speaks TLS 1.2 or newer",
    }
}

/// The setting that a refusal is about, besides the address.
fn remedy(refusal: &SqlState) -> &'static str {
    match *refusal {
        SqlState::INVALID_PASSWORD => "; set database.password_file to a file that holds it",
        SqlState::INSUFFICIENT_PRIVILEGE => "; make the role of database.url own the database",
        SqlState::TOO_MANY_CONNECTIONS => {
            "; set database.connections lower, or its max_connections (or those of the role) higher"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; database.url leads to a standby: name all servers in it, with \
             target_session_attrs=read-write"
        }
        _ => "",
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match *self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) if *ty == Type::INT8 => number.to_sql(ty, out),
            // It has no text with a zero. The sign that stands for one that is not to be had is in no
            // name that is accepted, so that what is asked for is not found.
            Self::Text(text) if *ty == Type::TEXT && text.contains('\0') => {
                text.replace('\0', "\u{1a}").to_sql(ty, out)
            }
            Self::Text(text) if *ty == Type::TEXT => text.to_sql(ty, out),
            Self::Bytes(bytes) if *ty == Type::BYTEA => bytes.to_sql(ty, out),
            other => Err(format!("{other:?} is no {ty}").into()),
        }
    }

    /// Which it is, the value alone knows.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The value of a column, or what is wrong with it.
pub(super) fn value(row: &Row, column: usize) -> Result<Result<Value<'_>, String>> {
    let value = match *row.columns()[column].type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(column)?.map(Value::Int),
        // What SQLite has as 0 and 1.
        Type::BOOL => row.try_get::<_, Option<bool>>(column)?.map(|it| Value::Int(it.into())),
        Type::TEXT => row.try_get::<_, Option<&str>>(column)?.map(Value::Text),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(column)?.map(Value::Bytes),
        ref other => return Ok(Err(format!("is of type {other}"))),
    };
    Ok(Ok(value.unwrap_or(Value::Null)))
}

pub(super) fn name(row: &Row, column: usize) -> &str {
    row.columns()[column].name()
}

/// The columns of a table, but those that are made of others.
pub(super) const COLUMNS: &str = "
    select cast(column_name as text) from information_schema.columns
    where table_schema = current_schema() and cast(table_name as text) = ?1
        and is_generated = 'NEVER'
    order by ordinal_position";

/// The query of the highest number that a column has had.
pub(super) fn highest(table: &str, column: &str) -> String {
    format!(
        "select coalesce(max(last_value), 0) from pg_sequences
         where schemaname = current_schema() and sequencename = '{table}_{column}_seq'"
    )
}

/// Waits on this thread, from wherever it is called.
fn wait<F: Future>(future: F) -> F::Output {
    block_in_place(|| Handle::current().block_on(future))
}

/// Refuses a connection on which the settings are not those that it was asked for with, as behind a
/// pooler that ignores them. Nothing is prepared for that.
async fn refuse_pooler(client: &Client) -> Result<()> {
    let answer = client.simple_query("show plan_cache_mode").await?;
    let is_set = answer.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some(PLANS),
        _ => false,
    });
    if is_set {
        return Ok(());
    }
    Err(Error::other(format!("the settings of molboxd's connections do not arrive{POOLED}")))
}

/// What moves bytes between a connection's socket and its client, until the connection ends.
type Driver = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

/// A connection, with the statements that it has prepared.
///
/// The thread that waits for an answer moves its bytes as well: to wake another for each statement,
/// and be woken by it, was a third of what a submission took of a core.
pub(super) struct Session {
    client: Client,
    /// None when the connection has ended; with what, the client says.
    driver: RefCell<Option<Driver>>,
    runtime: Own,
    statements: RefCell<HashMap<String, Statement>>,
    /// What is executed with the next statement, or the commit.
    later: RefCell<Vec<(Statement, Vec<Any>)>>,
    /// How long an answer may take; none for any time.
    limit: Cell<Option<Duration>>,
    /// Whether an answer has not come in that time: nothing else is asked on this connection.
    is_silent: Cell<bool>,
}

/// What waits for a connection's socket; there until this is dropped.
struct Own(Option<Runtime>);

impl Own {
    fn new() -> io::Result<Self> {
        Ok(Self(Some(Builder::new_current_thread().enable_all().build()?)))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_in_place(|| self.0.as_ref().expect("it is there").block_on(future))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // It would wait for its threads, which may not be where requests are served.
        self.0.take().expect("it is there").shutdown_background();
    }
}

impl Session {
    /// Also that the server lets one in may take no longer than until the connection stands.
    fn connect(target: &Target) -> Result<Self> {
        let runtime = Own::new().map_err(Error::other)?;
        let (client, driver) = runtime
            .block_on(async { timeout(2 * CONNECT, target.dial()).await })
            .unwrap_or_else(|_| Err(silent(2 * CONNECT)))?;
        let session = Self {
            client,
            driver: RefCell::new(Some(driver)),
            runtime,
            statements: RefCell::default(),
            later: RefCell::default(),
            limit: Cell::new(Some(2 * CONNECT)),
            is_silent: Cell::new(false),
        };
        session.wait(refuse_pooler(&session.client))?;
        session.answer_within(Some(ANSWER));
        Ok(session)
    }

    /// How long answers may take from here on, until a transaction begins.
    pub(super) fn answer_within(&self, limit: Option<Duration>) {
        self.limit.set(limit);
    }

    /// Waits for an answer. A server that is reached and does not answer would be waited for for ever.
    fn wait<T, E: From<Error>>(&self, answer: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let limit = self.limit.get().unwrap_or(Duration::MAX);
        if self.is_silent.get() {
            return Err(silent(limit).into());
        }
        let mut answer = pin!(answer);
        let driven = poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            self.drive(context);
            // What has come with that would not wake it.
            answer.as_mut().poll(context)
        });
        self.runtime.block_on(async { timeout(limit, driven).await }).unwrap_or_else(|_| {
            self.is_silent.set(true);
            Err(silent(limit).into())
        })
    }

    /// Sends and receives what can be at once.
    fn drive(&self, context: &mut task::Context<'_>) {
        let mut driver = self.driver.borrow_mut();
        if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
            *driver = None;
        }
    }

    /// Whether it can be used for something else, as far as is known.
    fn is_sound(&self) -> bool {
        self.driver.borrow().is_some() && !self.is_silent.get()
    }

    /// The same once its socket has been looked at: the server may have closed it meanwhile.
    fn is_open(&self) -> bool {
        self.runtime.block_on(async {
            yield_now().await;
            poll_fn(|context| {
                self.drive(context);
                Poll::Ready(())
            })
            .await;
        });
        self.is_sound()
    }

    /// A connection of its own for what takes long, and only reads.
    pub(super) fn to_read(target: &Target) -> Result<Self> {
        let session = Self::connect(target)?;
        session.answer_within(None);
        let sql = "set statement_timeout = 0; set default_transaction_read_only = on";
        session.batch(sql)?;
        match schema(&session)? {
            Some(found) if found.suits() => Ok(session),
            found => Err(Error::other(other_version(found))),
        }
    }

    /// Which data folder a database is of, as its setting says; none of one that is nobody's yet.
    pub(super) fn owner(target: &Target) -> Result<Option<String>> {
        let session = Self::connect(target)?;
        match schema(&session)? {
            Some(_) => session.text_of(OWNER, &[]),
            None => Ok(None),
        }
    }

    /// Whether a database has anything of molbox's.
    pub(super) fn has_schema(target: &Target) -> Result<bool> {
        Ok(schema(&Self::connect(target)?)?.is_some())
    }

    /// Has a database be of this data folder, also one that what it held has been moved away from.
    pub(super) fn take(&self, folder: &str) -> Result<()> {
        let sql = "
            insert into setting (name, value) values ('folder', ?1)
            on conflict (name) do update set value = excluded.value
                where setting.value = excluded.value or setting.value like ?2";
        match self.execute(sql, &[Value::Text(folder), Value::Text(&format!("{MOVED_AWAY}%"))])? {
            1 => Ok(()),
            _ => Err(Error::other("it is that of another data folder: name an empty one")),
        }
    }

    /// Refuses a schema that has more than this program knows of.
    pub(super) fn refuse_additions(&self) -> Result<()> {
        match schema(self)? {
            Some(Schema { version, .. }) if version > VERSION => Err(Error::other(format!(
                "a newer molboxd has added to it (version {version}, this one has {VERSION}): use that one"
            ))),
            _ => Ok(()),
        }
    }

    async fn prepare(&self, sql: &str) -> Result<Statement> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&sql.replace('?', "$")).await?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn batch(&self, sql: &str) -> Result<()> {
        let later = self.later.take();
        self.wait(async {
            // One round trip for all of it, in this order: each is sent when it is first polled. Where
            // one fails, all is undone, also by a commit.
            let executed = later.iter().map(|(statement, values)| {
                self.client.execute_raw(statement, values.iter().map(Any::to_value))
            });
            let answers = join(join_all(executed), self.client.batch_execute(sql)).await;
            for executed in answers.0 {
                executed?;
            }
            Ok(answers.1?)
        })
    }

    /// Undoes the present transaction or a part of it, and what was to be executed later.
    fn undo(&self, sql: &str) -> Result<()> {
        self.later.take();
        self.batch(sql)
    }

    /// Has the present transaction take as long as it takes.
    pub(super) fn without_timeout(&self) -> Result<()> {
        self.answer_within(None);
        self.batch(
            "set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0",
        )
    }

    /// The present by the server's clock, in microseconds since 1970.
    pub(super) fn now(&self) -> Result<i64> {
        let sql = "select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)";
        self.number(sql, &[])?.ok_or_else(|| Error::other("the server has no clock"))
    }

    pub(super) fn lock(&self, scope: Scope) -> Result<()> {
        locking(scope).map_or(Ok(()), |sql| self.batch(&sql))
    }

    pub(super) fn go_on_after(&self, table: &str, column: &str, number: i64) -> Result<()> {
        let sequence = format!("{table}_{column}_seq");
        if number > 0 {
            self.batch(&format!("select setval('{sequence}', {number})"))?;
        }
        Ok(())
    }

    /// Executes what is to be by the next statement.
    fn catch_up(&self) -> Result<()> {
        if self.later.borrow().is_empty() { Ok(()) } else { self.batch("") }
    }

    /// Changes rows by the time of the next statement, or of the commit, with which it is sent.
    pub(super) fn execute_later(&self, sql: &str, values: &[Value<'_>]) -> Result<()> {
        let statement = self.wait(self.prepare(sql))?;
        self.later.borrow_mut().push((statement, values.iter().copied().map(Any::from).collect()));
        Ok(())
    }

    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize> {
        self.catch_up()?;
        self.wait(async {
            let statement = self.prepare(sql).await?;
            Ok(self.client.execute_raw(&statement, values).await? as usize)
        })
    }

    pub(super) fn rows<E: From<Error>>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut take: impl FnMut(&Row) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut rows = pin!(self.query(sql, values)?);
        // `take` may ask for something else.
        while let Some(row) = self.next(rows.as_mut())? {
            if take(&row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<RowStream> {
        self.catch_up()?;
        self.wait(async {
            let statement = self.prepare(sql).await?;
            Ok(self.client.query_raw(&statement, values).await?)
        })
    }

    fn next(&self, mut rows: Pin<&mut RowStream>) -> Result<Option<Row>> {
        self.wait(async { Ok(rows.try_next().await?) })
    }

    /// The number that a query gives, if it gives one.
    fn number(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<i64>> {
        let mut number = None;
        self.rows(sql, values, |row| {
            number = Some(row.try_get(0)?);
            Ok::<_, Error>(ControlFlow::Break(()))
        })?;
        Ok(number)
    }

    /// The text that a query gives, if it gives one.
    fn text_of(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<String>> {
        let mut text = None;
        self.rows(sql, values, |row| {
            text = Some(row.try_get(0)?);
            Ok::<_, Error>(ControlFlow::Break(()))
        })?;
        Ok(text)
    }

    fn text(&self, sql: &str) -> Result<String> {
        self.wait(async { Ok(self.client.query_one(sql, &[]).await?.try_get(0)?) })
    }

    /// Begins a transaction, which leaves a mark where it is committed.
    fn begin(&self, scope: Scope, mark: &str) -> Result<()> {
        self.answer_within(Some(ANSWER));
        let lock = locking(scope).unwrap_or_default();
        // One round trip for all of it.
        self.batch(&format!("begin; {lock}; insert into commit_mark (id) values ('{mark}')"))
    }

    /// Whether the transaction that leaves this mark was committed. While it goes on, this waits;
    /// after this it is not committed any more. Its number would tell less: a server that has died
    /// gives those that it has lost to others.
    fn outcome(&self, mark: &str) -> Result<bool> {
        let sql = "insert into commit_mark (id) values (?1) on conflict do nothing";
        Ok(self.execute(sql, &[Value::Text(mark)])? == 0)
    }
}

/// The statement that gives a scope to a transaction.
fn locking(scope: Scope) -> Option<String> {
    let (class, of) = match scope {
        Scope::Rows => return None,
        Scope::Accounts => (ACCOUNTS, 0),
        Scope::Lane(lane) => (LANE, lane as i32),
        // Two numbers that are equal in their lower half wait for each other needlessly.
        Scope::Account(account) => (ACCOUNT, account as i32),
    };
    Some(format!("select pg_advisory_xact_lock({class}, {of})"))
}

/// A database that is up to date.
pub(super) struct Postgres {
    target: Target,
    /// With a number for each write, what its mark is.
    name: String,
    n_writes: AtomicU64,
    idle: Arc<Mutex<Vec<Session>>>,
    room: Arc<Semaphore>,
    /// Where writes wait, by their account.
    lines: Arc<Mutex<HashMap<i64, Arc<Line>>>>,
    connections: usize,
    check: Box<dyn Fn() -> Result<()> + Send + Sync>,
}

/// Writes of one account that wait. Whoever has the turn commits all of them.
#[derive(Default)]
struct Line {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<Write<Session>>>,
}

impl Line {
    fn push(&self, write: Write<Session>) {
        locked(&self.waiting).push(write);
    }

    fn take(&self) -> Vec<Write<Session>> {
        mem::take(&mut *locked(&self.waiting))
    }
}

/// A place in a line, which is forgotten with the last of them.
struct Place {
    line: Arc<Line>,
    account: i64,
    lines: Arc<Mutex<HashMap<i64, Arc<Line>>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = locked(&self.lines);
        // This one, and the table's.
        if Arc::strong_count(&self.line) == 2 {
            lines.remove(&self.account);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a server is found to be.
pub(super) struct Examined {
    pub(super) version: String,
    pub(super) round_trip: Duration,
    /// What is not as it should be.
    pub(super) faults: Vec<String>,
}

fn clocks_apart(behind: i64) -> String {
    let seconds = Duration::from_micros(behind.unsigned_abs()).as_secs();
    let way = if behind > 0 { "behind" } else { "ahead of" };
    format!("this machine's clock is {seconds} s {way} that of database.url: set both by NTP")
}

/// The query of which data folder a database is of.
pub(super) const OWNER: &str = "select value from setting where name = 'folder'";
/// How what stands there begins when what it held has been moved away.
const MOVED_AWAY: &str = "moved away";

/// What stands there then, of the data folder that it was of.
pub(super) fn moved_from(folder: &str) -> String {
    format!("{MOVED_AWAY} from {folder}")
}

/// Whether that is what stands there.
pub(super) fn is_moved(owner: &str) -> bool {
    owner.starts_with(MOVED_AWAY)
}

/// A connection that is in use, and goes back into the pool.
struct Held {
    session: Option<Session>,
    idle: Arc<Mutex<Vec<Session>>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Held {
    fn drop(&mut self) {
        let whole = self.session.take().filter(Session::is_sound);
        locked(&self.idle).extend(whole);
    }
}

/// A server, and how it is reached.
pub(super) struct Target {
    config: Config,
    /// None where nobody can listen on the way.
    tls: Option<MakeRustlsConnect>,
}

impl Target {
    async fn dial(&self) -> Result<(Client, Driver)> {
        Ok(match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, Box::pin(connection))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, Box::pin(connection))
            }
        })
    }
}

/// The server that the configuration names; none where the database is a file.
pub(super) fn target(database: &Database) -> anyhow::Result<Option<Target>> {
    if database.url.is_empty() {
        return Ok(None);
    }
    let mut config = parsed(&database.url).context(
        "configuration: database.url is no address of PostgreSQL (of TLS it may have \
         sslmode=disable, require or verify-full; certificates are those of database.ca_file)",
    )?;
    let is_remote = config.get_hosts().iter().any(|host| match host {
        Host::Tcp(name) => {
            name != "localhost" && !name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        Host::Unix(_) => false,
    });
    // What is asked for, or what is right for where it is: never the half that is neither.
    if config.get_ssl_mode() == SslMode::Prefer {
        config.ssl_mode(if is_remote { SslMode::Require } else { SslMode::Disable });
    }
    let is_plain = config.get_ssl_mode() == SslMode::Disable;
    let tls = if is_plain { None } else { Some(tls(&database.ca_file)?) };
    let file = &database.password_file;
    if !file.as_os_str().is_empty() {
        let password = fs::read_to_string(file)
            .with_context(|| format!("read database.password_file {}", file.display()))?;
        config.password(password.trim());
    }
    config
        .application_name("molboxd")
        .options(SETTINGS)
        .connect_timeout(CONNECT)
        .tcp_user_timeout(SILENCE)
        .keepalives_idle(QUIET)
        .keepalives_interval(QUIET)
        .keepalives_retries(KEEPALIVES);
    Ok(Some(Target { config, tls }))
}

/// The client has no word for a certificate that is checked, which it always is here.
fn parsed(url: &str) -> Result<Config, tokio_postgres::Error> {
    url.replace("sslmode=verify-full", "sslmode=require").parse()
}

/// TLS that believes the machine's certificates and those of a file, if one is named.
fn tls(ca_file: &Path) -> anyhow::Result<MakeRustlsConnect> {
    let mut own = Vec::new();
    if !ca_file.as_os_str().is_empty() {
        let named = || format!("read database.ca_file {}", ca_file.display());
        let found = CertificateDer::pem_file_iter(ca_file).with_context(named)?;
        own = found.collect::<Result<_, _>>().with_context(named)?;
        ensure!(!own.is_empty(), "database.ca_file {} holds no certificate", ca_file.display());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Verifier::new_with_extra_roots(own, provider.clone())?;
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        // As the crate that verifies wants to be named; it checks all that rustls does.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// The same for people: without a password.
pub(super) fn place(database: &Database) -> String {
    let Ok(config) = parsed(&database.url) else { return "database.url".to_owned() };
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        })
        .collect();
    let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("the database {name:?} of {} (database.url)", hosts.join(", "))
}

impl Postgres {
    /// Opens a database, makes the schema in one that is empty, and brings it up to date if that is
    /// asked for. A transaction is committed as long as `check` allows it.
    pub(super) fn open(
        target: Target,
        connections: usize,
        migrates: bool,
        check: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let session = Session::connect(&target)?;
        let version =
            session.number("select current_setting('server_version_num')::bigint", &[])?;
        if version.is_none_or(|version| version < OLDEST_SERVER) {
            return Err(Error::other("database.url leads to a PostgreSQL older than 14"));
        }
        let encoding = session.text("select current_setting('server_encoding')")?;
        if encoding != "UTF8" {
            return Err(Error::other(format!(
                "it is of the encoding {encoding}, which has no room for all names: make it with \
                 `template template0 encoding 'UTF8'`, and name that in database.url"
            )));
        }
        let behind = session.now()? - Clock::default().now().as_microsecond();
        if behind.unsigned_abs() > FAR_APART.as_micros() as u64 {
            return Err(Error::other(clocks_apart(behind)));
        }
        migrate(&session, migrates)?;
        let name = session.text("select gen_random_uuid()::text")?;
        Ok(Self {
            target,
            name,
            n_writes: AtomicU64::new(0),
            idle: Arc::new(Mutex::new(vec![session])),
            room: Arc::new(Semaphore::new(connections)),
            lines: Arc::default(),
            connections,
            check: Box::new(check),
        })
    }

    /// Ties the database to a data folder; false where it is tied to another.
    pub(super) fn tie(&self, folder: &str) -> Result<bool> {
        Ok(self.setting("folder", folder)? == folder)
    }

    /// Which data folder it is of, if any.
    pub(super) fn owner(&self) -> Result<Option<String>> {
        wait(self.read(|session| session.text_of(OWNER, &[])))
    }

    /// Whether it is of no data folder, and has neither files nor tasks.
    pub(super) fn is_unused(&self) -> Result<bool> {
        let sql = "
            select 1::bigint where exists (select 1 from setting where name = 'folder')
                or exists (select 1 from file) or exists (select 1 from task)";
        wait(self.read(|session| session.number(sql, &[]))).map(|found| found.is_none())
    }

    /// A setting of the installation: the first that any server had for it.
    pub(super) fn setting(&self, name: &str, first: &str) -> Result<String> {
        self.now(Scope::Rows, |session| {
            let sql = "insert into setting (name, value) values (?1, ?2) on conflict do nothing";
            session.execute(sql, &[Value::Text(name), Value::Text(first)])?;
            let sql = "select value from setting where name = ?1";
            let found = session.text_of(sql, &[Value::Text(name)])?;
            found.ok_or_else(|| Error::other(format!("no row: {sql}")))
        })
    }

    pub(super) async fn set_setting(&self, name: &'static str, value: String) -> Result<()> {
        self.write(Scope::Rows, move |session| {
            let sql = "
                insert into setting (name, value) values (?1, ?2)
                on conflict (name) do update set value = excluded.value";
            session.execute(sql, &[Value::Text(name), Value::Text(&value)]).map(drop)
        })
        .await
    }

    /// What the server is, and what of it is not as it should be: by `own`, the machine's clock, with
    /// so many connections that all servers of the installation may open.
    pub(super) fn examine(&self, own: Timestamp, connections: usize) -> Result<Examined> {
        self.now(Scope::Rows, |session| {
            let show = |name: &str| session.text(&format!("select current_setting('{name}')"));
            let mut faults = Vec::new();
            for (name, why) in DURABLE {
                if show(name)? == "off" {
                    faults.push(format!("{name} is off: {why}"));
                }
            }
            let asked = Instant::now();
            let behind = session.now()? - own.as_microsecond();
            let round_trip = asked.elapsed();
            if behind.unsigned_abs() > APART.as_micros() as u64 {
                faults.push(clocks_apart(behind));
            }
            let collation = session.text(
                "select datcollate::text from pg_database where datname = current_database()",
            )?;
            if !["C", "POSIX"].contains(&&*collation) {
                faults.push(format!(
                    "it sorts by {collation}, whose rules change with the machine's libraries: make it \
                     with `template template0 lc_collate 'C' lc_ctype 'C'`"
                ));
            }
            let most = session.number("select current_setting('max_connections')::bigint", &[])?;
            if most.is_some_and(|most| connections as i64 + SPARE > most) {
                faults.push(format!(
                    "max_connections is {}, and the servers may open {connections} \
                     (database.connections)",
                    most.unwrap_or_default()
                ));
            }
            let version = show("server_version")?;
            Ok(Examined { version, round_trip, faults })
        })
    }

    /// Forgets the marks of what was committed so long ago that nobody asks any more.
    pub(super) async fn forget_marks(&self) -> Result<()> {
        let sql = "delete from commit_mark where at < now() - interval '1 hour'";
        self.write(Scope::Rows, |session| session.execute(sql, &[]).map(drop)).await
    }

    /// Leaves a database to no data folder: what it held has been moved away.
    pub(super) fn retire(&self, folder: &str) -> Result<()> {
        let sql = "
            insert into setting (name, value) values ('folder', ?1)
            on conflict (name) do update set value = excluded.value";
        let moved = moved_from(folder);
        self.now(Scope::Rows, |session| session.execute(sql, &[Value::Text(&moved)]).map(drop))
    }

    /// Writes, from outside of what is served.
    pub(super) fn now<T>(
        &self,
        scope: Scope,
        change: impl FnOnce(&Session) -> Result<T>,
    ) -> Result<T> {
        wait(self.write_alone(scope, change))
    }

    /// Works on a connection of the pool. Who waits for one does not keep a thread; who has one does.
    async fn with<T>(&self, work: impl FnOnce(&mut Held) -> Result<T>) -> Result<T> {
        let permit = timeout(ANSWER, self.room.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| silent(ANSWER))?.map_err(Error::other)?;
        block_in_place(|| work(&mut self.hold(permit)?))
    }

    fn hold(&self, _permit: OwnedSemaphorePermit) -> Result<Held> {
        let since = Instant::now();
        let session = loop {
            let idle = locked(&self.idle).pop();
            if let Some(session) = idle.filter(Session::is_open) {
                break session;
            }
            match Session::connect(&self.target) {
                // One of those that this server has comes free.
                Err(Error::Crowded(_)) if self.others_hold() && since.elapsed() < ANSWER => {
                    thread::sleep(PAUSE);
                }
                connected => break connected?,
            }
        };
        Ok(Held { session: Some(session), idle: self.idle.clone(), _permit })
    }

    /// Whether others than the one who asks have connections, or are about to.
    fn others_hold(&self) -> bool {
        self.room.available_permits() + 1 < self.connections || !locked(&self.idle).is_empty()
    }

    pub(super) async fn read<T>(&self, query: impl FnOnce(&Session) -> Result<T>) -> Result<T> {
        self.with(|held| query(held.session.as_ref().expect("it is held"))).await
    }

    /// Writes; when this returns, it is on disk. Those of one account wait for each other, and
    /// those that have waited are committed together; an error undoes the one that has it.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        scope: Scope,
        change: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Scope::Account(account) = scope else { return self.write_alone(scope, change).await };
        let place = self.place(account);
        let line = &place.line;
        let (write, mut outcome) = Write::new(change);
        line.push(write);
        let turn = tokio::select! {
            biased;
            told = told(&mut outcome) => return told,
            turn = line.turn.lock() => turn,
        };
        let written = self.with(|held| {
            self.write_all(held, scope, line.take());
            Ok(())
        });
        if let Err(error) = written.await {
            // Those that wait have waited, too.
            line.take().into_iter().for_each(|write| write.fail(&error).finish(Ok(())));
        }
        drop(turn);
        told(&mut outcome).await
    }

    /// Writes, in a transaction of its own.
    async fn write_alone<T>(
        &self,
        scope: Scope,
        change: impl FnOnce(&Session) -> Result<T>,
    ) -> Result<T> {
        self.with(|held| self.transaction(held, scope, change)).await
    }

    /// Puts writes of one scope into one transaction, and tells who waits for each.
    fn write_all(&self, held: &mut Held, scope: Scope, writes: Vec<Write<Session>>) {
        let is_one = writes.len() == 1;
        let (mut writes, mut all) = (writes.into_iter(), Vec::new());
        let committed = self.transaction(held, scope, |session| {
            if !is_one {
                session.batch("savepoint one")?;
            }
            for write in writes.by_ref() {
                let done = write.run(session, |session| match is_one {
                    true => Ok(()),
                    // What the write has left to be executed goes with it.
                    false => session.batch("release one; savepoint one"),
                });
                let error = done.error.clone();
                all.push(done);
                match error {
                    None => {}
                    // All of the transaction is undone.
                    Some(error) if is_one => return Err(error),
                    Some(_) => session.undo("rollback to one")?,
                }
            }
            Ok(())
        });
        // There was no transaction any more for those that are left.
        if let Err(error) = &committed {
            all.extend(writes.map(|write| write.fail(error)));
        }
        for done in all {
            done.finish(committed.clone());
        }
    }

    /// A place where the writes of an account wait.
    fn place(&self, account: i64) -> Place {
        let line = locked(&self.lines).entry(account).or_default().clone();
        Place { line, account, lines: self.lines.clone() }
    }

    fn transaction<T>(
        &self,
        held: &mut Held,
        scope: Scope,
        change: impl FnOnce(&Session) -> Result<T>,
    ) -> Result<T> {
        let mark = format!("{}/{}", self.name, self.n_writes.fetch_add(1, Ordering::Relaxed));
        let done = self.begin(held, scope, &mark).and_then(change);
        match done.and_then(|value| (self.check)().map(|()| value)) {
            Ok(value) => self.commit(held, &mark).map(|()| value),
            Err(error) => {
                undo(held);
                Err(error)
            }
        }
    }

    fn begin<'a>(&self, held: &'a mut Held, scope: Scope, mark: &str) -> Result<&'a Session> {
        match held.session.as_ref().expect("it is held").begin(scope, mark) {
            // It was closed while it was idle, perhaps by a server that has started anew since. Nothing
            // has been done.
            Err(Error::Unreachable(_)) if !is_silent(held) => {
                self.again(held)?.begin(scope, mark)?;
            }
            begun => begun?,
        }
        Ok(held.session.as_ref().expect("it is held"))
    }

    fn commit(&self, held: &mut Held, mark: &str) -> Result<()> {
        match held.session.as_ref().expect("it is held").batch("commit") {
            Err(error @ Error::Unreachable(_)) => self.outcome(held, mark, error),
            committed => committed,
        }
    }

    /// Another connection in place of one that is broken.
    fn again<'a>(&self, held: &'a mut Held) -> Result<&'a Session> {
        held.session = None;
        // The others are as old.
        locked(&self.idle).clear();
        Ok(held.session.insert(Session::connect(&self.target)?))
    }

    /// What became of a transaction whose connection broke while it was committed: the database
    /// knows.
    fn outcome(&self, held: &mut Held, mark: &str, error: Error) -> Result<()> {
        let since = Instant::now();
        for _ in 0..ASKED {
            if since.elapsed() > ANSWER {
                break;
            }
            match self.again(held).and_then(|session| session.outcome(mark)) {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(error),
                // One that takes over for another is read-only until it has.
                Err(
                    Error::Unreachable(_) | Error::Busy(_) | Error::Crowded(_) | Error::ReadOnly(_),
                ) => {
                    thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        tracing::error!(mark, "the outcome of a transaction is not known");
        Err(error)
    }
}

fn undo(held: &mut Held) {
    let Some(session) = &held.session else { return };
    if session.undo("rollback").is_err() {
        // It ends with its connection.
        held.session = None;
    }
}

fn is_silent(held: &Held) -> bool {
    held.session.as_ref().is_some_and(|session| session.is_silent.get())
}

fn silent(limit: Duration) -> Error {
    let cause = format!("PostgreSQL has not answered for {} s", limit.as_secs());
    Error::Unreachable(Arc::from(Box::from(cause)))
}

/// Whether there is any table.
const FOREIGN: &str = "
    select 1::bigint from pg_tables where schemaname = any (current_schemas(false)) limit 1";

/// What a schema says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Schema {
    version: usize,
    /// The version of the oldest program that works with it.
    oldest: usize,
}

impl Schema {
    /// Whether this program works with it: also where a newer one has added to it.
    fn suits(self) -> bool {
        self.version >= VERSION && self.oldest <= VERSION
    }
}

/// The schema that is there; none where there is nothing.
fn schema(session: &Session) -> Result<Option<Schema>> {
    // What it is known by; migrating programs that others use have a table of that name, too.
    let sql = "
        select count(*) from pg_attribute
        where attrelid = to_regclass('schema_version') and attname in ('version', 'oldest')
            and atttypid = 'bigint'::regtype and not attisdropped";
    if session.number(sql, &[])? != Some(2) {
        return match session.number(FOREIGN, &[])? {
            None => Ok(None),
            Some(_) => Err(Error::other(
                "it has tables of another program: name a database of molbox's own in database.url",
            )),
        };
    }
    let number = |column: &str| -> Result<usize> {
        let found = session.number(&format!("select {column} from schema_version"), &[])?;
        Ok(found.and_then(|found| usize::try_from(found).ok()).unwrap_or(usize::MAX))
    };
    Ok(Some(Schema { version: number("version")?, oldest: number("oldest")? }))
}

fn other_version(found: Option<Schema>) -> String {
    match found {
        Some(Schema { version, oldest }) if version > VERSION => format!(
            "it was made by a newer molboxd (version {version}), and needs one of version {oldest} or \
             newer; this one has {VERSION}"
        ),
        Some(Schema { version, .. }) => format!(
            "it has version {version}, this molboxd needs {VERSION}: `molboxd migrate` brings it up to date"
        ),
        None => "it is empty: `molboxd migrate` makes what molboxd needs".to_owned(),
    }
}

/// Makes the schema where there is none, and brings an older one up to date if that is asked for.
fn migrate(session: &Session, migrates: bool) -> Result<()> {
    session.batch(&format!("begin; select pg_advisory_xact_lock({SCHEMA}, 0)"))?;
    let found = schema(session)?;
    let missing = match found {
        None => {
            session.batch(FIRST.1)?;
            &MIGRATIONS[..]
        }
        Some(found) if found.suits() => return session.batch("rollback"),
        Some(found) if found.version < VERSION && migrates => {
            refuse_servers(session, found)?;
            &MIGRATIONS[found.version.saturating_sub(FIRST.0)..]
        }
        found => return Err(Error::other(other_version(found))),
    };
    // Tables that are large take their time.
    session.without_timeout()?;
    for sql in missing {
        session.batch(sql)?;
    }
    session.batch(&format!(
        "delete from schema_version;
         insert into schema_version (version, oldest) values ({VERSION}, {OLDEST}); commit"
    ))?;
    session.answer_within(Some(ANSWER));
    Ok(())
}

/// Refuses to change a schema in a way that servers which work on it would not bear: each of them is
/// of the version that it asks for by now, or newer.
fn refuse_servers(session: &Session, found: Schema) -> Result<()> {
    // Before that version there was one server, and no table of them.
    if found.oldest >= OLDEST || found.version < SERVERS {
        return Ok(());
    }
    let sql = "select count(*) from server where seen_at > ?1";
    let seen = session.now()? - i64::try_from(SEEN.as_micros()).unwrap_or(i64::MAX);
    match session.number(sql, &[Value::Int(seen)])? {
        None | Some(0) => Ok(()),
        Some(n) => Err(Error::other(format!(
            "{} on it, and what this molboxd makes of it is for version {OLDEST} or newer: stop all \
             servers first; one that was killed counts for {} s",
            if n == 1 { "a server works".to_owned() } else { format!("{n} servers work") },
            SEEN.as_secs()
        ))),
    }
}
