//! Objects in a bucket of S3, of AWS or of who else speaks its language.
//!
//! What is written is a file of this machine first, so that it can be sent again, and from then on
//! read without being fetched. One of more than a part is sent in parts, while it still arrives;
//! it is an object once all of them are there.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use bytes::BytesMut;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use jiff::Timestamp;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, Checksum};
use object_store::client::HttpError;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Name;
use object_store::signer::Signer;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutPayload, PutResult, RetryConfig,
};
use reqwest::{Method, Url};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinSet, block_in_place};

use super::object::{Key, May, ReceiveError, Stat, Stats};
use super::scratch::{Copy, Scratch};
use crate::config::{Config, Objects};
use crate::files;
use crate::hex::hex;
use crate::random;
use crate::web::{self, Distrust, distrust};

/// Bytes of a part; more where an object would have more parts than S3 takes.
const PART_BYTES: u64 = 16 << 20;
const MAX_PARTS: u64 = 10_000;
/// Parts that are sent at a time, by all together, each of which is in memory.
const SENT_AT_A_TIME: usize = 8;
/// Files of a folder that are sent at a time.
const FILES_AT_A_TIME: usize = 4;
/// Chunks of a download that are held while nobody has taken them.
const CHUNKS_AHEAD: usize = 4;
/// How long it may take until a connection stands, and how long the store may then be silent.
const CONNECT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(60);
/// How often an object is put that others may have written.
const PUTS: u32 = 5;
/// For how long a request that fails is repeated.
const REPEATED: Duration = Duration::from_secs(10);
/// How often in a row a body that breaks off is asked for again where it did.
const RESUMED: u32 = 5;

/// What a store is tried out with, the SHA-256 of that, and the SHA-256 of nothing.
const TEN: &str = "0123456789";
const OF_TEN: &str = "hNiYd/DUBB77a/kaFvAkjy/Vc+avBcGflr7bn4gveII=";
const OF_NONE: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

/// How the client says that a store, or a load balancer before it, is not ready.
const UNAVAILABLE: [&str; 3] = ["status code: 502", "status code: 503", "status code: 504"];

/// The settings, for messages.
const URL: &str = "objects.url";
const ENDPOINT: &str = "objects.endpoint";
const REGION: &str = "objects.region";
const CREDENTIALS: &str = "objects.credentials_file";

/// What a bucket holds besides objects: the name of whose they are, and how far it has gone with their
/// records.
const INSTALLATION: &str = "installation";
const TENURE: &str = "tenure";
/// What is before that name while a move brings contents there, and after one has brought them away.
const ARRIVING: &str = "arriving ";
const LEFT: &str = "left ";
/// Where objects are in a bucket.
const ROOMS: [&str; 3] = ["files", "tasks", "uploads"];

/// The bucket does not answer, or refuses.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    cause: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unreachable,
    Untrusted(Distrust),
    Unavailable,
    NoBucket,
    Region,
    Key,
    Forbidden,
    Clock,
    NoS3,
    Other,
}

impl Failure {
    /// Whether there is no answer, or one of whoever stands before a store that is away.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::Unavailable)
    }

    /// What is in the way, for whom requests are answered.
    pub(crate) fn what(&self) -> &'static str {
        match self.kind {
            Kind::Unreachable | Kind::Unavailable => "the service's object store does not answer",
            Kind::NoBucket | Kind::Region | Kind::Key | Kind::Forbidden | Kind::Clock => {
                "the service's object store refuses"
            }
            Kind::Untrusted(_) => "the service's object store is not believed",
            Kind::NoS3 | Kind::Other => "the service's object store fails",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, setting) = match self.kind {
            Kind::Unreachable => ("it does not answer", ENDPOINT),
            Kind::Unavailable => ("it is not ready", ENDPOINT),
            Kind::NoBucket => ("there is no such bucket", URL),
            Kind::Region => ("the bucket is in another region", REGION),
            Kind::Key => ("it does not accept the key", CREDENTIALS),
            Kind::Forbidden => ("the key may not do this in the bucket", CREDENTIALS),
            Kind::NoS3 => ("it does not answer as S3 does", ENDPOINT),
            Kind::Untrusted(distrust) => {
                let remedy = match distrust {
                    Distrust::Name => "name it there as its certificate does",
                    Distrust::Time => "have its certificate renewed, or the clock here set right",
                    Distrust::Signer => {
                        "have SSL_CERT_FILE in the environment of molboxd name a file with the certificate \
                         of the authority that has signed it"
                    }
                    Distrust::NoTls => {
                        "name an address there that speaks TLS; http is good on loopback only"
                    }
                };
                let cause = &self.cause;
                return write!(f, "it is not believed ({ENDPOINT}): {cause}; {remedy}");
            }
            Kind::Clock => {
                let cause = &self.cause;
                return write!(
                    f,
                    "its clock and that of this machine differ, set both by NTP: {cause}"
                );
            }
            Kind::Other => return write!(f, "the object store fails: {}", self.cause),
        };
        write!(f, "{what} ({setting}): {}", self.cause)
    }
}

impl std::error::Error for Failure {}

/// An error of the client as one of reading and writing.
fn failed(error: object_store::Error) -> io::Error {
    let text = chain(&error);
    let code = between(&text, "<Code>", "</Code>");
    let kind = match (code, &error) {
        (Some("NoSuchBucket" | "InvalidBucketName"), _) => Kind::NoBucket,
        (Some("InvalidRange"), _) => return io::ErrorKind::UnexpectedEof.into(),
        (
            Some(
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "InvalidToken"
                | "ExpiredToken"
                | "XAdminUserNotFound",
            ),
            _,
        ) => Kind::Key,
        (Some("RequestTimeTooSkewed"), _) => Kind::Clock,
        (
            Some(
                "AuthorizationHeaderMalformed"
                | "PermanentRedirect"
                | "TemporaryRedirect"
                | "IllegalLocationConstraintException",
            ),
            _,
        ) => Kind::Region,
        // Without a code where there is no body. Any other code is about something else that is not
        // there, and what is asked for may well be.
        (None | Some("NoSuchKey"), object_store::Error::NotFound { .. }) => {
            return io::ErrorKind::NotFound.into();
        }
        _ if text.contains("redirect without LOCATION") => Kind::Region,
        // Asked for a key, which no file and no variable has.
        _ if text.contains("169.254.169.254") => Kind::Key,
        (_, object_store::Error::Unauthenticated { .. }) => Kind::Key,
        (Some("AccessDenied"), _) | (_, object_store::Error::PermissionDenied { .. }) => {
            Kind::Forbidden
        }
        // Of one of many that are removed at once.
        _ if text.contains("(code: AccessDenied)") => Kind::Forbidden,
        _ if is_of_network(&error) => distrust(&error).map_or(Kind::Unreachable, Kind::Untrusted),
        _ if UNAVAILABLE.iter().any(|status| text.contains(status)) => Kind::Unavailable,
        (None, _) if text.contains("non-2xx") => Kind::NoS3,
        _ => Kind::Other,
    };
    let said = match (code, between(&text, "<Message>", "</Message>")) {
        (Some(code), Some(message)) => {
            format!("{code}: {}", message.replace("&#34;", "\"").replace("&quot;", "\""))
        }
        _ => innermost(&error),
    };
    io::Error::other(Failure { kind, cause: said })
}

/// What an error says with all that it comes from.
fn chain(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text += "\n";
        text += &inner.to_string();
        source = inner.source();
    }
    text
}

fn innermost(error: &object_store::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(inner) = last.source() {
        last = inner;
    }
    last.to_string()
}

/// Whether the request has got no answer, from whatever was asked.
fn is_of_network(error: &object_store::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<HttpError>() {
            return true;
        }
        source = inner.source();
    }
    false
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// A bucket, or what is under a prefix there.
#[derive(Clone)]
struct Bucket {
    store: Arc<AmazonS3>,
    /// Where it is.
    root: Url,
    region: String,
    /// Ends with `/`, or is empty.
    prefix: String,
}

/// Objects in a bucket.
pub(super) struct Store {
    bucket: Bucket,
    place: String,
    /// Whether contents are sent to it by others.
    takes_from_all: bool,
    scratch: Scratch,
    runtime: Handle,
    sending: Arc<Semaphore>,
    /// Objects that are being fetched: who wants the same waits for it.
    fetched: Mutex<HashMap<Key, Arc<Mutex<()>>>>,
}

impl Store {
    /// The store that the configuration names; none where objects are in the data folder.
    pub(super) fn of(config: &Config) -> Result<Option<Self>> {
        let settings = &config.objects;
        if settings.url.is_empty() {
            ensure!(!settings.direct_uploads, "configuration: objects.direct_uploads needs {URL}");
            return Ok(None);
        }
        let Some(rest) = settings.url.strip_prefix("s3://") else {
            bail!("configuration: {URL} must be s3://bucket or s3://bucket/prefix");
        };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
        ensure!(
            !name.is_empty() && name.chars().all(is_name) && Name::parse(prefix).is_ok(),
            "configuration: {URL} must be s3://bucket or s3://bucket/prefix"
        );
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let builder = builder(settings, name)?;
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let root = root(&builder, &region, name).context("configuration: objects")?;
        let store = builder.build().context("configuration: objects")?;
        let free = config.limits.free_disk_bytes.saturating_mul(2);
        Ok(Some(Self {
            bucket: Bucket { store: Arc::new(store), root, region, prefix },
            place: format!("the bucket {} of {}", settings.url, endpoint_of(settings)),
            takes_from_all: settings.direct_uploads,
            scratch: Scratch::open(&config.data, settings.cache_bytes, free)
                .with_context(|| format!("make folders in {}", config.data.display()))?,
            runtime: Handle::try_current().context("S3 without a runtime")?,
            sending: Arc::new(Semaphore::new(SENT_AT_A_TIME)),
            fetched: Mutex::default(),
        }))
    }

    pub(super) fn place(&self) -> String {
        self.place.clone()
    }

    /// Waits on this thread, from wherever it is called.
    fn wait<F: Future>(&self, future: F) -> F::Output {
        block_in_place(|| self.runtime.block_on(future))
    }

    /// The name of whose the bucket is, if it is anybody's yet.
    ///
    /// # Errors
    ///
    /// Also when its contents are elsewhere, or not all there yet.
    pub(super) fn installation(&self) -> io::Result<Option<String>> {
        let Some(mark) = self.mark()? else { return Ok(None) };
        if mark.starts_with(LEFT) {
            return Err(io::Error::other(format!(
                "a `molboxd move` has brought its contents elsewhere: name the place ({URL})"
            )));
        }
        if mark.starts_with(ARRIVING) {
            return Err(io::Error::other(format!(
                "a `molboxd move` to it was cut off: give it again, or name the place where the contents \
                 were ({URL})"
            )));
        }
        Ok(Some(mark))
    }

    /// What is noted of whose the bucket is.
    fn mark(&self) -> io::Result<Option<String>> {
        self.note(INSTALLATION)
    }

    fn set_mark(&self, mark: String) -> io::Result<()> {
        self.set_note(INSTALLATION, mark)
    }

    pub(super) fn tenure(&self) -> io::Result<Option<String>> {
        self.note(TENURE)
    }

    pub(super) fn set_tenure(&self, text: &str) -> io::Result<()> {
        self.set_note(TENURE, text.to_owned())
    }

    /// What is noted beside the objects.
    fn note(&self, name: &str) -> io::Result<Option<String>> {
        let at = self.bucket.name(name)?;
        let found = self.wait(async { self.bucket.open(&at, None).await?.0.all().await });
        match found {
            Ok(found) => String::from_utf8(found)
                .map(Some)
                .map_err(|_| io::Error::other(format!("the object `{name}` is damaged"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set_note(&self, name: &str, text: String) -> io::Result<()> {
        let at = self.bucket.name(name)?;
        let put = self.bucket.store.put(&at, PutPayload::from(text.into_bytes()));
        self.wait(put).map_err(failed).map(drop)
    }

    /// Takes the contents of an installation from now on, which nobody uses here until all have come;
    /// false where there are those of another.
    pub(super) fn expect(&self, name: &str) -> io::Result<bool> {
        match self.mark()? {
            None => self.refuse_strangers()?,
            Some(mark) if is_of(&mark, name) => {}
            Some(_) => return Ok(false),
        }
        self.set_mark(format!("{ARRIVING}{name}")).map(|()| true)
    }

    /// All contents of an installation have come.
    pub(super) fn complete(&self, name: &str) -> io::Result<()> {
        self.set_mark(name.to_owned())
    }

    /// All contents of an installation have been brought elsewhere, and are not used here any more.
    pub(super) fn leave(&self, name: &str) -> io::Result<()> {
        self.set_mark(format!("{LEFT}{name}"))
    }

    /// Whether another is the same place by another name.
    pub(super) fn is(&self, other: &Self) -> io::Result<bool> {
        let probe = Key::stored(format!("{DOCTOR}/{}", hex(&random::bytes::<8>())));
        self.write(&probe, b"probe")?;
        let found = other.exists(&probe);
        self.remove(&probe)?;
        found
    }

    /// The same, which is `name` from now on if it is nobody's yet.
    ///
    /// # Errors
    ///
    /// Also where others have or will have theirs.
    pub(super) fn install(&self, name: &str) -> io::Result<String> {
        if let Some(found) = self.installation()? {
            return Ok(found);
        }
        self.refuse_strangers()?;
        let at = self.bucket.name(INSTALLATION)?;
        let content = PutPayload::from(name.to_owned().into_bytes());
        let made = self.wait(self.bucket.store.put_opts(&at, content, PutMode::Create.into()));
        match made {
            Ok(_) => Ok(name.to_owned()),
            Err(object_store::Error::AlreadyExists { .. }) => {
                self.installation()?.ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Refuses to be new where others have or will have theirs: what no record knows is removed, by a
    /// service and by a move.
    pub(super) fn refuse_strangers(&self) -> io::Result<()> {
        let mut steps = self.bucket.prefix.split('/');
        if let Some(own) = steps.find(|step| ROOMS.contains(step) || *step == INSTALLATION) {
            return Err(io::Error::other(format!(
                "a prefix may not have {own:?} in it, which is how molbox names what it keeps: an \
                 installation above would take what is there for its own, and remove it ({URL})"
            )));
        }
        match self.first()? {
            None => Ok(()),
            Some(found) => Err(io::Error::other(format!(
                "there is {found} already, which a new installation would remove: name a bucket without \
                 `files`, `tasks` and `uploads`, or a prefix that has none ({URL})"
            ))),
        }
    }

    /// One of the contents, if there are any.
    pub(super) fn first(&self) -> io::Result<Option<Name>> {
        for room in ROOMS {
            let at = self.bucket.name(room)?;
            let first = self.wait(async { self.bucket.store.list(Some(&at)).next().await });
            if let Some(found) = first.transpose().map_err(failed)? {
                return Ok(Some(found.location));
            }
        }
        Ok(None)
    }

    /// Whether the store does all that is asked of it, and what becomes of parts of uploads that were
    /// never completed.
    pub(super) fn try_out(&self) -> Result<Unfinished> {
        self.wait(self.bucket.try_out()).with_context(|| self.place())
    }

    pub(super) fn clear_unfinished(&self) -> io::Result<()> {
        self.scratch.clear()
    }

    /// Uploads in parts that were begun before a moment, and neither completed nor aborted; none where the
    /// store does not list them to this key.
    pub(super) async fn begun(&self, before: Timestamp) -> Result<Vec<Begun>> {
        let mut all = Vec::new();
        for room in ["files", "tasks"] {
            let query = form_urlencoded::Serializer::new(String::new())
                .append_pair("uploads", "")
                .append_pair("prefix", &format!("{}{room}/", self.bucket.prefix))
                .finish();
            let mut url = self.bucket.root.clone();
            // Which not every store takes for a space.
            url.set_query(Some(&query.replace('+', "%20")));
            let (status, said) = self.bucket.ask(Request::get(url.as_str()), "").await?;
            if status == StatusCode::OK {
                let each = said.split("<Upload>").skip(1);
                all.extend(each.filter_map(|upload| Begun::of(upload, before)));
            }
        }
        Ok(all)
    }

    /// Removes the parts of one.
    pub(super) async fn abort(&self, begun: &Begun) -> io::Result<()> {
        match self.bucket.store.abort_multipart(&begun.name, &begun.id).await.map_err(failed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(super) fn abandon(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        let (copy, mut file) = self.scratch.begin()?;
        file.write_all(content)?;
        let name = self.bucket.of(key)?;
        let mut upload = self.wait(self.bucket.store.put_multipart(&name)).map_err(failed)?;
        self.wait(upload.put_part(content.to_vec().into())).map_err(failed)?;
        std::mem::forget(copy);
        Ok(())
    }

    pub(super) async fn receive<E>(
        &self,
        key: &Key,
        max_bytes: u64,
        mut content: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<u64, ReceiveError<E>> {
        let (copy, file) = self.scratch.begin().map_err(ReceiveError::Store)?;
        let written = file.try_clone().map_err(ReceiveError::Store)?;
        let mut written = tokio::fs::File::from_std(written);
        let mut sending = self.begin(key, file, max_bytes).map_err(ReceiveError::Store)?;
        let received = async {
            let mut size = 0;
            while let Some(chunk) = content.next().await {
                let chunk = chunk.map_err(ReceiveError::Content)?;
                size += chunk.len() as u64;
                if size > max_bytes {
                    return Err(ReceiveError::TooLarge);
                }
                written.write_all(&chunk).await.map_err(ReceiveError::Store)?;
                if sending.has_part(size) {
                    written.flush().await.map_err(ReceiveError::Store)?;
                    sending.go_on(size).await.map_err(ReceiveError::Store)?;
                }
            }
            written.flush().await.map_err(ReceiveError::Store)?;
            let version = sending.finish(size, None).await.map_err(ReceiveError::Store)?;
            Ok::<_, ReceiveError<E>>((size, version))
        };
        match received.await {
            Ok((size, version)) => {
                self.scratch.keep(key, version, copy);
                Ok(size)
            }
            Err(error) => {
                // Not left to be done when there may be no service any more.
                sending.abort().await;
                Err(error)
            }
        }
    }

    pub(super) fn write(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        if content.len() as u64 > PART_BYTES {
            return self.write_with(key, |out| out.write_all(content));
        }
        let name = self.bucket.of(key)?;
        let content = PutPayload::from(content.to_vec());
        self.wait(self.bucket.store.put(&name, content)).map_err(failed)?;
        Ok(())
    }

    pub(super) fn write_with(
        &self,
        key: &Key,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let (copy, mut file) = self.scratch.begin()?;
        content(&mut file)?;
        let version = self.wait(self.send_file(key, file, None))?;
        self.scratch.keep(key, version, copy);
        Ok(())
    }

    /// Writes an object from a file that does not change; its size.
    pub(super) fn send(&self, key: &Key, path: &Path) -> io::Result<u64> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        self.wait(self.send_file(key, file, None))?;
        Ok(size)
    }

    /// Writes an object that others may have written, in whose place it comes if it `may`.
    pub(super) fn put(&self, key: &Key, content: &[u8], may: May<'_>) -> io::Result<()> {
        let name = self.bucket.of(key)?;
        let content = PutPayload::from(content.to_vec());
        self.wait(put_if(&self.bucket.store, &name, content, may))?;
        Ok(())
    }

    /// Sends a whole file; the version of the object that it is then.
    async fn send_file(
        &self,
        key: &Key,
        file: File,
        may: Option<May<'_>>,
    ) -> io::Result<Option<String>> {
        let size = file.metadata()?.len();
        self.begin(key, file, size)?.finish(size, may).await
    }

    /// Begins to send a file that will have so many bytes at most.
    fn begin(&self, key: &Key, file: File, max_bytes: u64) -> io::Result<Sending> {
        Ok(Sending {
            store: self.bucket.store.clone(),
            name: self.bucket.of(key)?,
            file: Arc::new(file),
            part_bytes: PART_BYTES.max(max_bytes.div_ceil(MAX_PARTS)),
            sent: 0,
            upload: None,
            parts: JoinSet::new(),
            room: self.sending.clone(),
            runtime: self.runtime.clone(),
        })
    }

    pub(super) fn link(&self, key: &Key, lasts: Duration) -> io::Result<Option<Url>> {
        if !self.takes_from_all {
            return Ok(None);
        }
        let name = self.bucket.of(key)?;
        let signed = self.wait(self.bucket.store.signed_url(Method::PUT, &name, lasts));
        signed.map(Some).map_err(failed)
    }

    pub(super) fn copy(&self, from: &Key, to: &Key) -> io::Result<()> {
        let (from, to) = (self.bucket.of(from)?, self.bucket.of(to)?);
        self.wait(self.bucket.store.copy(&from, &to)).map_err(failed)
    }

    pub(super) fn adopt(&self, folder: &Path, key: &Key, may: May<'_>) -> io::Result<()> {
        let gone = folder.with_extension("adopted");
        if folder.try_exists()? {
            let at = self.bucket.of(key)?;
            let found = self.wait(self.bucket.store.list_with_delimiter(Some(&at)));
            if !found.map_err(failed)?.objects.is_empty() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let mut all = Vec::new();
            files_of(folder, key, &mut all)?;
            all.sort_by_key(|(key, _)| (key.as_str().matches('/').count(), key.clone()));
            let last = all.pop();
            let send = |(key, path): (Key, PathBuf)| async move {
                let version = self.send_file(&key, File::open(&path)?, Some(may)).await?;
                Ok::<_, io::Error>((key, path, version))
            };
            let mut sent: Vec<_> = self.wait(
                futures::stream::iter(all.into_iter().map(Ok))
                    .map_ok(send)
                    .try_buffer_unordered(FILES_AT_A_TIME)
                    .try_collect(),
            )?;
            if let Some(last) = last {
                sent.push(self.wait(send(last))?);
            }
            // Of one that was cut off after this.
            remove_folder(&gone)?;
            // From here on the objects are what there is, and not the folder.
            files::rename(folder, &gone)?;
            for (key, path, version) in sent {
                let moved = gone.join(path.strip_prefix(folder).map_err(io::Error::other)?);
                self.scratch.keep(&key, version, self.scratch.take(&moved)?);
            }
        }
        remove_folder(&gone)
    }

    pub(super) fn list(&self, key: &Key) -> io::Result<Vec<Key>> {
        let at = self.bucket.of(key)?;
        let found = self.wait(self.bucket.store.list_with_delimiter(Some(&at))).map_err(failed)?;
        if found.objects.is_empty() && found.common_prefixes.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut keys: Vec<Key> =
            found.objects.iter().map(|found| self.bucket.key(&found.location)).collect();
        keys.sort();
        Ok(keys)
    }

    pub(super) fn all(&self) -> io::Result<Vec<Key>> {
        let mut all = Vec::new();
        for room in ["files", "tasks"] {
            let at = self.bucket.name(room)?;
            let found =
                self.wait(self.bucket.store.list_with_delimiter(Some(&at))).map_err(failed)?;
            all.extend(found.objects.iter().map(|found| self.bucket.key(&found.location)));
            all.extend(found.common_prefixes.iter().map(|prefix| self.bucket.key(prefix)));
        }
        all.sort();
        Ok(all)
    }

    pub(super) fn size(&self, key: &Key) -> io::Result<u64> {
        Ok(self.stats(key)?.values().map(|stat| stat.size).sum())
    }

    pub(super) fn exists(&self, key: &Key) -> io::Result<bool> {
        if self.head(key)?.is_some() {
            return Ok(true);
        }
        let at = self.bucket.of(key)?;
        let first = self.wait(async { self.bucket.store.list(Some(&at)).next().await });
        first.map_or(Ok(false), |found| found.map(|_| true).map_err(failed))
    }

    /// What is said of an object; none where there is none.
    fn head(&self, key: &Key) -> io::Result<Option<ObjectMeta>> {
        // Tasks have only what is under theirs.
        if is_of_task(key) {
            return Ok(None);
        }
        let name = self.bucket.of(key)?;
        match self.wait(self.bucket.store.head(&name)).map_err(failed) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        let name = self.bucket.of(key)?;
        self.wait(async { self.bucket.open(&name, None).await?.0.all().await })
    }

    pub(super) fn read_part(&self, key: &Key, range: Range<u64>) -> io::Result<Vec<u8>> {
        let Some(found) = self.head(key)? else { return Err(io::ErrorKind::NotFound.into()) };
        let range = range.start..range.end.min(found.size);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let name = self.bucket.of(key)?;
        self.wait(async { self.bucket.open(&name, Some(range)).await?.0.all().await })
    }

    pub(super) fn read_to(&self, key: &Key, sink: &mut dyn Write) -> io::Result<u64> {
        if let Some(copy) = self.kept(key)? {
            return io::copy(&mut File::open(copy.path())?, sink);
        }
        self.get_to(key, sink)
    }

    /// Hands a whole object from the bucket to `sink`, whatever is kept of it; its size.
    pub(super) fn get_to(&self, key: &Key, sink: &mut dyn Write) -> io::Result<u64> {
        self.get_version_to(key, sink).map(|(size, _)| size)
    }

    /// The same, and which version it is.
    fn get_version_to(&self, key: &Key, sink: &mut dyn Write) -> io::Result<(u64, Option<String>)> {
        let name = self.bucket.of(key)?;
        let (mut body, size) = self.wait(self.bucket.open(&name, None))?;
        while let Some(chunk) = self.wait(body.next())? {
            sink.write_all(&chunk)?;
        }
        Ok((size, body.version))
    }

    pub(super) fn stream(
        &self,
        key: &Key,
        range: Range<u64>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        let (bucket, name) = (self.bucket.clone(), self.bucket.of(key));
        let (chunks, received) = mpsc::channel(CHUNKS_AHEAD);
        // Of its own, so that the next is on its way while one is handed on. It ends when nobody
        // takes them any more.
        self.runtime.spawn(async move {
            let read = async {
                let name = name?;
                if range.is_empty() {
                    // Nothing can be asked for by an empty range.
                    bucket.store.head(&name).await.map_err(failed)?;
                }
                let (mut body, _) = bucket.open(&name, Some(range)).await?;
                while let Some(chunk) = body.long().await? {
                    if chunks.send(Ok(chunk)).await.is_err() {
                        break;
                    }
                }
                io::Result::Ok(())
            };
            if let Err(error) = read.await {
                // Nobody may be there to hear of it.
                drop(chunks.send(Err(error)).await);
            }
        });
        futures::stream::unfold(received, |mut received| async move {
            received.recv().await.map(|chunk| (chunk, received))
        })
    }

    /// The copy of an object as it is now, if there is one here.
    fn kept(&self, key: &Key) -> io::Result<Option<Arc<Copy>>> {
        if !self.scratch.has(key) {
            return Ok(None);
        }
        let Some(found) = self.head(key)? else {
            self.scratch.forget(key);
            return Err(io::ErrorKind::NotFound.into());
        };
        Ok(version(found.e_tag).and_then(|version| self.scratch.find(key, &version)))
    }

    pub(super) fn local(&self, key: &Key) -> io::Result<Arc<Copy>> {
        let turn = self.fetched().entry(key.clone()).or_default().clone();
        let local = block_in_place(|| {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            match self.kept(key)? {
                Some(copy) => Ok(copy),
                None => {
                    let (copy, mut file) = self.scratch.begin()?;
                    let (_, version) = self.get_version_to(key, &mut file)?;
                    Ok(self.scratch.keep(key, version, copy))
                }
            }
        });
        drop(turn);
        // Of this and the map.
        self.fetched().retain(|other, turn| other != key || Arc::strong_count(turn) > 1);
        local
    }

    fn fetched(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Mutex<()>>>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fetch(&self, key: &Key, to: &Path) -> io::Result<()> {
        fs::copy(self.local(key)?.path(), to).map(drop)
    }

    pub(super) fn remove(&self, key: &Key) -> io::Result<()> {
        self.scratch.forget(key);
        let name = self.bucket.of(key)?;
        if !is_of_task(key) {
            match self.wait(self.bucket.store.delete(&name)).map_err(failed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let found = self.bucket.store.list(Some(&name)).map_ok(|found| found.location).boxed();
        let removed = self.bucket.store.delete_stream(found).try_for_each(|_| async { Ok(()) });
        self.wait(removed).map_err(failed)
    }

    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        files::free_bytes(self.scratch.folder())
    }

    pub(super) fn disk_bytes(&self) -> io::Result<u64> {
        files::disk_bytes(self.scratch.folder())
    }

    pub(super) fn stats(&self, key: &Key) -> io::Result<Stats> {
        let mut all = Stats::new();
        if let Some(found) = self.head(key)? {
            all.insert(key.clone(), Stat::of_meta(&found));
            return Ok(all);
        }
        let at = self.bucket.of(key)?;
        let found = self.wait(self.bucket.store.list(Some(&at)).try_collect::<Vec<_>>());
        for found in found.map_err(failed)? {
            all.insert(self.bucket.key(&found.location), Stat::of_meta(&found));
        }
        Ok(all)
    }
}

/// Whether what is noted of a bucket is about this installation.
fn is_of(mark: &str, name: &str) -> bool {
    [ARRIVING, LEFT].iter().find_map(|before| mark.strip_prefix(before)).unwrap_or(mark) == name
}

/// Whether a key is that of all that a task has written: no object has it.
fn is_of_task(key: &Key) -> bool {
    key.as_str().strip_prefix("tasks/").is_some_and(|rest| !rest.contains('/'))
}

/// The files below a folder, each with the key that it is to have.
fn files_of(folder: &Path, key: &Key, all: &mut Vec<(Key, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let key = key.under(&entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            files_of(&entry.path(), &key, all)?;
        } else {
            all.push((key, entry.path()));
        }
    }
    Ok(())
}

/// Removes a folder, if there is one.
fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The same version is named with quotes and without.
fn version(tag: Option<String>) -> Option<String> {
    tag.map(|tag| tag.trim_matches('"').to_owned())
}

impl Stat {
    fn of_meta(found: &ObjectMeta) -> Self {
        Self { size: found.size, modified: found.last_modified.into() }
    }
}

impl Bucket {
    fn of(&self, key: &Key) -> io::Result<Name> {
        self.name(key.as_str())
    }

    fn name(&self, key: &str) -> io::Result<Name> {
        Name::parse(format!("{}{key}", self.prefix))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    fn key(&self, name: &Name) -> Key {
        let name: &str = name.as_ref();
        Key::stored(name.strip_prefix(&self.prefix).unwrap_or(name))
    }

    /// The body of an object or of a part of it, and how large the object is.
    async fn open(&self, name: &Name, range: Option<Range<u64>>) -> io::Result<(Body, u64)> {
        let promised = range.as_ref().map(|range| range.end);
        let start = range.as_ref().map_or(0, |range| range.start);
        let mut body = Body {
            bucket: self.clone(),
            name: name.clone(),
            version: None,
            position: start,
            end: start,
            promised: start,
            chunks: None,
            resumed: 0,
        };
        if range.as_ref().is_some_and(Range::is_empty) {
            return Ok((body, 0));
        }
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let got = self.store.get_opts(name, options).await.map_err(failed)?;
        let size = got.meta.size;
        body.version = version(got.meta.e_tag.clone());
        body.end = got.range.end;
        body.promised = promised.unwrap_or(size);
        body.chunks = Some(got.into_stream());
        Ok((body, size))
    }
}

/// Under this the store is tried out.
const DOCTOR: &str = "doctor";
/// The smallest part that S3 takes.
const SMALLEST_PART: usize = 5 << 20;

impl Bucket {
    /// Writes, reads, lists and removes objects of its own.
    async fn try_out(&self) -> Result<Unfinished> {
        let room = format!("{DOCTOR}/{}", hex(&random::bytes::<8>()));
        let [small, large] = ["small", "large"].map(|name| self.name(&format!("{room}/{name}")));
        let (small, large) = (small?, large?);
        let tried = self.try_with(&self.name(&room)?, &small, &large).await;
        // Also when something of it has failed.
        let removed: Vec<_> = [small, large].into_iter().map(Ok).collect();
        let removed = self
            .store
            .delete_stream(futures::stream::iter(removed).boxed())
            .try_collect::<Vec<_>>()
            .await;
        tried?;
        removed.map_err(failed).context("remove objects")?;
        let mut rules = self.root.clone();
        rules.set_query(Some("lifecycle"));
        let (status, said) = self.ask(Request::get(rules.as_str()), "").await?;
        Ok(Unfinished::of(status, &said))
    }

    /// Asks for what the client has no verb for.
    async fn ask(
        &self,
        request: axum::http::request::Builder,
        content: &'static str,
    ) -> Result<(StatusCode, String)> {
        let credential = self.store.credentials().get_credential().await.map_err(failed)?;
        let mut request = request.body(content.to_owned().into())?;
        AwsAuthorizer::new(&credential, "s3", &self.region).try_authorize(&mut request, None)?;
        let (parts, _) = request.into_parts();
        let asked = web::client()?.request(parts.method, parts.uri.to_string());
        let answer = asked.headers(parts.headers).body(content).send().await?;
        Ok((answer.status(), answer.text().await?))
    }

    async fn try_with(&self, room: &Name, small: &Name, large: &Name) -> Result<()> {
        let put = self.store.put(small, PutPayload::from_static(TEN.as_bytes())).await;
        put.map_err(failed).context("write an object")?;
        let (body, _) = self.open(small, Some(3..6)).await.context("read a part of an object")?;
        ensure!(body.all().await? == b"345", "a part of an object is read as another one");
        let mut upload = self.store.put_multipart(large).await.map_err(failed)?;
        for content in [vec![0; SMALLEST_PART], vec![1; 1]] {
            let part = upload.put_part(content.into()).await;
            part.map_err(failed).context("write a part of an object")?;
        }
        upload.complete().await.map_err(failed).context("complete an object of two parts")?;
        let end = SMALLEST_PART as u64;
        let (body, _) = self.open(large, Some(end - 1..end + 1)).await?;
        ensure!(body.all().await? == [0, 1], "an object of two parts is read as another one");
        let found = self.store.list(Some(room)).map_ok(|found| found.location);
        let mut found: Vec<_> =
            found.try_collect().await.map_err(failed).context("list objects")?;
        found.sort();
        ensure!(found == [large.clone(), small.clone()], "it lists other objects than it has");
        let once = self.store.put_opts(small, PutPayload::new(), PutMode::Create.into()).await;
        ensure!(
            matches!(once, Err(object_store::Error::AlreadyExists { .. })),
            "it ignores If-None-Match: what must be written once is replaced"
        );
        // As the client writes it: a name may have what is to be escaped.
        let mut url = self.store.signed_url(Method::PUT, small, SILENCE).await.map_err(failed)?;
        url.set_query(None);
        let mut taken = Vec::new();
        for checksum in [OF_TEN, OF_NONE] {
            let put = Request::put(url.as_str()).header("x-amz-checksum-sha256", checksum);
            taken.push(self.ask(put, TEN).await?.0.is_success());
        }
        ensure!(
            taken == [true, false],
            "it does not check x-amz-checksum-sha256: what is altered on its way there is stored"
        );
        let wrong = GetOptions { if_match: Some("\"other\"".to_owned()), ..GetOptions::default() };
        let wrong = self.store.get_opts(small, wrong).await;
        ensure!(
            matches!(wrong, Err(object_store::Error::Precondition { .. })),
            "it ignores If-Match: a download that is resumed could be a mixture"
        );
        Ok(())
    }
}

/// What becomes of parts of uploads that were never completed, which a service leaves that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// A rule of the bucket removes them.
    Removed,
    /// No rule does.
    Stays,
    /// The store has no such rules, or does not tell.
    Unknown,
}

impl Unfinished {
    /// By the answer to the question for the bucket's rules.
    fn of(status: StatusCode, said: &str) -> Self {
        let rules = said.split("<Rule>").skip(1);
        let mut removing = rules.filter(|rule| {
            rule.contains("<AbortIncompleteMultipartUpload>")
                && rule.contains("<Status>Enabled</Status>")
        });
        match status {
            StatusCode::OK if removing.next().is_some() => Self::Removed,
            StatusCode::OK => Self::Stays,
            _ if said.contains("<Code>NoSuchLifecycleConfiguration</Code>") => Self::Stays,
            _ => Self::Unknown,
        }
    }
}

/// An upload in parts that has not come to its end.
pub(crate) struct Begun {
    name: Name,
    id: String,
}

impl Begun {
    /// As the store lists it, if it was begun before.
    fn of(listed: &str, before: Timestamp) -> Option<Self> {
        let text = |tag: &str| {
            between(listed, &format!("<{tag}>"), &format!("</{tag}>"))
                .map(quick_xml::escape::unescape)
        };
        let since: Timestamp = text("Initiated")?.ok()?.parse().ok()?;
        let (name, id) = (text("Key")?.ok()?, text("UploadId")?.ok()?);
        let name = Name::parse(name).ok()?;
        (since < before).then(|| Self { name, id: id.into_owned() })
    }
}

impl fmt::Display for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// What is left to be read of an object. Where it breaks off it is asked for again, of the same
/// version, so that it is never a mixture.
struct Body {
    bucket: Bucket,
    name: Name,
    version: Option<String>,
    position: u64,
    /// Where it ends, and where it was to end.
    end: u64,
    promised: u64,
    chunks: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    /// So often without a byte in between.
    resumed: u32,
}

impl Body {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while self.position < self.end {
            let next = match &mut self.chunks {
                Some(chunks) => chunks.next().await,
                None => None,
            };
            match next {
                Some(Ok(chunk)) if chunk.is_empty() => {}
                Some(Ok(chunk)) => {
                    self.position += chunk.len() as u64;
                    self.resumed = 0;
                    return Ok(Some(chunk));
                }
                broken => {
                    let error = broken.and_then(Result::err).map(failed);
                    if self.version.is_none() || self.resumed == RESUMED {
                        let ended = || io::ErrorKind::UnexpectedEof.into();
                        return Err(error.unwrap_or_else(ended));
                    }
                    self.resume().await?;
                }
            }
        }
        if self.end < self.promised {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the object ends before"));
        }
        Ok(None)
    }

    /// The next bytes, as many as are held at a time: they come in small pieces, for each of which
    /// something is done on their way.
    async fn long(&mut self) -> io::Result<Option<Bytes>> {
        let Some(first) = self.next().await? else { return Ok(None) };
        if first.len() >= files::CHUNK_BYTES || self.position == self.end {
            return Ok(Some(first));
        }
        let mut chunk = BytesMut::with_capacity(2 * files::CHUNK_BYTES);
        chunk.extend_from_slice(&first);
        while chunk.len() < files::CHUNK_BYTES && self.position < self.end {
            chunk.extend_from_slice(&self.next().await?.unwrap_or_default());
        }
        Ok(Some(chunk.freeze()))
    }

    async fn resume(&mut self) -> io::Result<()> {
        self.resumed += 1;
        let options = GetOptions {
            range: Some(GetRange::Bounded(self.position..self.end)),
            if_match: self.version.as_ref().map(|version| format!("\"{version}\"")),
            ..GetOptions::default()
        };
        let got = self.bucket.store.get_opts(&self.name, options).await.map_err(failed)?;
        self.chunks = Some(got.into_stream());
        Ok(())
    }

    /// All that is left.
    async fn all(mut self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
}

/// Puts an object where none is, and in the place of another only if it still `may` then: whoever stands
/// still after the question, and is no longer to write, does no harm.
async fn put_if(
    store: &AmazonS3,
    name: &Name,
    content: PutPayload,
    may: May<'_>,
) -> io::Result<PutResult> {
    let mut tries = 0;
    loop {
        may().await?;
        tries += 1;
        match store.put_opts(name, content.clone(), PutMode::Create.into()).await {
            // Of an earlier time, or this one, whose answer was lost.
            Err(object_store::Error::AlreadyExists { .. }) if tries < PUTS => {
                may().await?;
                store.delete(name).await.map_err(failed)?;
            }
            // The client does not repeat by itself what may have been done.
            Err(object_store::Error::Generic { .. }) if tries < PUTS => {}
            put => return put.map_err(failed),
        }
    }
}

/// A file that is being sent, in parts if it has more than one. What is not finished is no object,
/// and is aborted.
struct Sending {
    store: Arc<AmazonS3>,
    name: Name,
    file: Arc<File>,
    part_bytes: u64,
    sent: u64,
    upload: Option<Box<dyn MultipartUpload>>,
    parts: JoinSet<object_store::Result<()>>,
    room: Arc<Semaphore>,
    runtime: Handle,
}

impl Sending {
    /// Whether there is a whole part to be sent when the file has so many bytes, and more will come
    /// or be sent after it.
    fn has_part(&self, size: u64) -> bool {
        size - self.sent > self.part_bytes
    }

    /// Sends the whole parts that there are.
    async fn go_on(&mut self, size: u64) -> io::Result<()> {
        while self.has_part(size) {
            self.part(self.part_bytes).await?;
        }
        Ok(())
    }

    /// Has the next bytes be sent as a part.
    async fn part(&mut self, bytes: u64) -> io::Result<()> {
        while let Some(sent) = self.parts.try_join_next() {
            sent.map_err(io::Error::other)?.map_err(failed)?;
        }
        if self.upload.is_none() {
            self.upload = Some(self.store.put_multipart(&self.name).await.map_err(failed)?);
        }
        let (permit, content) = self.read(bytes).await?;
        let upload = self.upload.as_mut().expect("it has begun");
        let part = upload.put_part(content);
        self.parts.spawn_on(
            async move {
                let _permit = permit;
                part.await
            },
            &self.runtime,
        );
        Ok(())
    }

    /// The next bytes of the file, once there is room for them in memory.
    async fn read(&mut self, bytes: u64) -> io::Result<(OwnedSemaphorePermit, PutPayload)> {
        let permit = self.room.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (file, start) = (self.file.clone(), self.sent);
        let length = usize::try_from(bytes).map_err(io::Error::other)?;
        let read = self.runtime.spawn_blocking(move || {
            let mut content = vec![0; length];
            file.read_exact_at(&mut content, start).map(|()| content)
        });
        let content = read.await.map_err(io::Error::other)??;
        self.sent += bytes;
        Ok((permit, content.into()))
    }

    /// Sends what is left of a file of so many bytes; the version of the object that it is then. What
    /// others may have written comes from them unless it `may` be this.
    async fn finish(&mut self, size: u64, may: Option<May<'_>>) -> io::Result<Option<String>> {
        self.go_on(size).await?;
        let left = size - self.sent;
        if self.upload.is_none() {
            let (_permit, content) = self.read(left).await?;
            let put = match may {
                Some(may) => put_if(&self.store, &self.name, content, may).await?,
                None => self.store.put(&self.name, content).await.map_err(failed)?,
            };
            return Ok(version(put.e_tag));
        }
        self.part(left).await?;
        while let Some(sent) = self.parts.join_next().await {
            sent.map_err(io::Error::other)?.map_err(failed)?;
        }
        let upload = self.upload.as_mut().expect("it has begun");
        if let Some(may) = may {
            may().await?;
        }
        let put = upload.complete().await.map_err(failed)?;
        self.upload = None;
        Ok(version(put.e_tag))
    }

    /// Gives up what was sent.
    async fn abort(&mut self) {
        // One that arrives later would stay.
        self.parts.shutdown().await;
        if let Some(mut upload) = self.upload.take() {
            // What fails here is removed after a while; see `Store::begun`.
            drop(upload.abort().await);
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.parts.abort_all();
        if let Some(mut upload) = self.upload.take() {
            self.runtime.spawn(async move { drop(upload.abort().await) });
        }
    }
}

/// The client of a bucket.
fn builder(settings: &Objects, bucket: &str) -> Result<AmazonS3Builder> {
    let file = &settings.credentials_file;
    let mut builder = if file.as_os_str().is_empty() {
        AmazonS3Builder::from_env()
    } else {
        let text = fs::read_to_string(file)
            .with_context(|| format!("read {CREDENTIALS} {}", file.display()))?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let (Some(id), Some(secret), None) = (lines.next(), lines.next(), lines.next()) else {
            bail!(
                "{CREDENTIALS} {} must have two lines: the access key and its secret",
                file.display()
            );
        };
        AmazonS3Builder::new().with_access_key_id(id).with_secret_access_key(secret)
    };
    if !settings.region.is_empty() {
        builder = builder.with_region(&settings.region);
    }
    let mut options = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT)
        .with_read_timeout(SILENCE);
    if !settings.endpoint.is_empty() {
        let url: Url = settings.endpoint.parse().with_context(|| {
            format!("configuration: {ENDPOINT} {:?} must begin with https://", settings.endpoint)
        })?;
        ensure!(
            web::is_private(&url),
            "configuration: {ENDPOINT} {:?} must be an https address; http is good on loopback only",
            settings.endpoint
        );
        // Some consoles show the two as one address.
        let last = url.path().trim_end_matches('/').rsplit('/').next();
        ensure!(
            last != Some(bucket),
            "configuration: {ENDPOINT} {:?} must be the store's alone: the bucket is that of {URL}",
            settings.endpoint
        );
        builder = builder.with_endpoint(settings.endpoint.trim_end_matches('/'));
        options = options.with_allow_http(url.scheme() == "http");
    }
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(2),
        base: 2.0,
    };
    let retry = RetryConfig { backoff, max_retries: 10, retry_timeout: REPEATED };
    Ok(builder
        .with_bucket_name(bucket)
        .with_client_options(options)
        .with_retry(retry)
        .with_checksum_algorithm(Checksum::SHA256))
}

/// The address of a bucket.
fn root(builder: &AmazonS3Builder, region: &str, bucket: &str) -> Result<Url> {
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    Ok(format!("{}/{bucket}", endpoint.trim_end_matches('/')).parse()?)
}

fn endpoint_of(settings: &Objects) -> &str {
    if settings.endpoint.is_empty() { "AWS" } else { &settings.endpoint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_no_enabled_rule_of_the_bucket_removes_stay() {
        let rule = |status: &str, what: &str| {
            format!(
                "<LifecycleConfiguration><Rule><Status>{status}</Status>{what}</Rule></LifecycleConfiguration>"
            )
        };
        let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation>\
            </AbortIncompleteMultipartUpload>";
        let expire = "<Expiration><Days>2</Days></Expiration>";
        let none = "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>";
        for (status, said, expected) in [
            (200, rule("Enabled", abort), Unfinished::Removed),
            (200, rule("Enabled", expire) + &rule("Enabled", abort), Unfinished::Removed),
            (200, rule("Disabled", abort) + &rule("Enabled", expire), Unfinished::Stays),
            (404, none.to_owned(), Unfinished::Stays),
            (403, "<Error><Code>AccessDenied</Code></Error>".to_owned(), Unfinished::Unknown),
            (501, String::new(), Unfinished::Unknown),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(Unfinished::of(status, &said), expected, "{said}");
        }
    }

    #[test]
    fn an_upload_that_may_be_under_way_is_none_that_was_cut_off() {
        let listed = "<Key>a &amp; b/files/one</Key><UploadId>1</UploadId>\
            <Initiated>2026-01-02T03:04:05.000Z</Initiated>";
        let of = |before: &str| Begun::of(listed, before.parse().unwrap());
        let found = of("2026-01-02T03:04:06Z").unwrap();
        assert_eq!((found.to_string().as_str(), found.id.as_str()), ("a & b/files/one", "1"));
        assert!(of("2026-01-02T03:04:05Z").is_none());
    }
}
