//! Files to the service and results from it.

use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use progenitor_client::{ByteStream, ResponseValue};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG};
use reqwest::{Body, StatusCode};
use sha2::{Digest, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::workflow::Client;
use crate::workflow::types::{AnalysedId, FileRecord, UploadLink};
use crate::{Error, InvalidRequest, Refusal, http};

const CHUNK_BYTES: usize = 256 * 1024;

/// Called with the bytes done and the bytes in all, as far as these are known.
type OnProgress<Size> = Arc<Mutex<dyn FnMut(u64, Size) + Send>>;

fn report<Size>(on_progress: &OnProgress<Size>, done: u64, all: Size) {
    (on_progress.lock().unwrap_or_else(PoisonError::into_inner))(done, all);
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl Client {
    /// Uploads a file of this machine and registers it.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// let file = molbox.upload("1l2y.pdb").name("trp-cage").await?;
    /// # Ok(()) }
    /// ```
    pub fn upload(&self, path: impl Into<PathBuf>) -> Upload<'_> {
        Upload::new(self, path.into())
    }

    /// Downloads the results bundle of a job, a zip, to a file of this machine.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// molbox.download_job("job_0123456789abcdefghij", "results.zip").await?;
    /// # Ok(()) }
    /// ```
    pub fn download_job(&self, job_id: &str, to: impl Into<PathBuf>) -> Download<'_> {
        Download::new(self, Content::Job(job_id.to_owned()), to.into())
    }

    /// Downloads a built system, a zip, to a file of this machine.
    pub fn download_system(&self, system_id: &str, to: impl Into<PathBuf>) -> Download<'_> {
        Download::new(self, Content::System(system_id.to_owned()), to.into())
    }

    /// Downloads an analysis, a zip of tables and plots, to a file of this machine: the one of this
    /// id, or the latest of a job.
    pub fn download_analysis(&self, id: &str, to: impl Into<PathBuf>) -> Download<'_> {
        Download::new(self, Content::Analysis(id.to_owned()), to.into())
    }

    /// Downloads a registered file to a file of this machine.
    pub fn download_file(&self, file_id: &str, to: impl Into<PathBuf>) -> Download<'_> {
        Download::new(self, Content::File(file_id.to_owned()), to.into())
    }
}

/// An upload, begun by `.await`: link, content, registration.
///
/// # Errors
///
/// [`Error::File`] when the file cannot be read, [`Error::Invalid`] when it is larger than the
/// link takes, [`Error::Refused`] with the line and the reason when it is not what its format
/// says.
#[must_use = "an upload begins with `.await`"]
pub struct Upload<'a> {
    client: &'a Client,
    path: PathBuf,
    name: Option<String>,
    kind: Option<String>,
    format: Option<String>,
    on_progress: OnProgress<u64>,
}

impl<'a> Upload<'a> {
    fn new(client: &'a Client, path: PathBuf) -> Self {
        Self { client, path, name: None, kind: None, format: None, on_progress: Arc::new(Mutex::new(|_, _| {})) }
    }

    /// Name to register the file under. Default: the name of the file without its extension.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Kind of file: `protein`, `ligand`, `force_field` and so on. Default: what the format
    /// suggests.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Format of the file. Default: its extension.
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// Called with the bytes sent and the size of the file.
    pub fn on_progress(mut self, callback: impl FnMut(u64, u64) + Send + 'static) -> Self {
        self.on_progress = Arc::new(Mutex::new(callback));
        self
    }

    async fn run(self) -> Result<FileRecord, Error> {
        let text = |part: Option<&std::ffi::OsStr>| part.and_then(|p| p.to_str()).map(str::to_owned);
        let format = self.format.clone().or_else(|| text(self.path.extension()).map(|e| e.to_lowercase()));
        let format = format.ok_or_else(|| {
            Error::invalid(format!("format: {} has no extension to tell it by; give it", self.path.display()))
        })?;
        let size = fs::metadata(&self.path).await.map_err(|e| Error::file(&self.path, e))?.len();

        let link = self.client.upload_url_create().filetype(&format).send().await?.into_inner();
        if let Some(max) = link.max_bytes.filter(|max| size > *max) {
            return Err(Error::invalid(format!("{}: has {size} bytes, the service takes {max}", self.path.display())));
        }
        self.put(&link, size).await?;

        let name = self.name.or_else(|| text(self.path.file_stem()));
        let register = self
            .client
            .file_register()
            .body_map(|file| file.file_id(link.file_id).format(format).name(name).type_(self.kind));
        Ok(register.send().await?.into_inner())
    }

    /// Sends the content to the link: no key, no redirect, a length instead of chunks (which
    /// object stores refuse).
    async fn put(&self, link: &UploadLink, size: u64) -> Result<(), Error> {
        let mut attempt = 0;
        loop {
            let file = File::open(&self.path).await.map_err(|e| Error::file(&self.path, e))?;
            let body = Body::wrap_stream(chunks(file, size, self.on_progress.clone()));
            let mut request = self.client.client.put(&link.upload_url).header(CONTENT_LENGTH, size).body(body);
            if let Some(content_type) = &link.content_type {
                request = request.header(CONTENT_TYPE, content_type);
            }
            let error = match request.send().await {
                Ok(response) if response.status().is_success() => return Ok(()),
                Ok(response) => {
                    let response = http::readable(response).await.map_err(Error::Connection)?;
                    let refusal = response.extensions().get::<Refusal>().expect("put there by `readable`");
                    Error::Refused(Box::new(refusal.clone()))
                }
                Err(error) => Error::Connection(error),
            };
            if !error.is_transient() || attempt == self.client.inner.retries {
                return Err(error);
            }
            tokio::time::sleep(http::backoff(attempt)).await;
            attempt += 1;
        }
    }
}

/// The bytes of a file; an error when it has become shorter than `size`.
fn chunks(
    file: File,
    size: u64,
    on_progress: OnProgress<u64>,
) -> impl futures::Stream<Item = std::io::Result<Vec<u8>>> {
    futures::stream::try_unfold((file, 0), move |(mut file, done)| {
        let on_progress = on_progress.clone();
        async move {
            if done == size {
                return Ok(None);
            }
            let mut chunk = vec![0; CHUNK_BYTES.min((size - done) as usize)];
            let n = file.read(&mut chunk).await?;
            if n == 0 {
                return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the file has become shorter"));
            }
            chunk.truncate(n);
            let done = done + n as u64;
            report(&on_progress, done, size);
            Ok(Some((chunk, (file, done))))
        }
    })
}

impl<'a> IntoFuture for Upload<'a> {
    type Output = Result<FileRecord, Error>;
    type IntoFuture = BoxFuture<'a, FileRecord>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// What is downloaded.
enum Content {
    Job(String),
    System(String),
    Analysis(String),
    File(String),
}

/// A download, begun by `.await`.
///
/// Bytes go to a file `<name>.<digest>.part` beside the target, which is renamed when size and
/// SHA-256 are as the service said: the target is whole or not there. A download that broke,
/// in this process or an earlier one, resumes where it stopped.
///
/// # Errors
///
/// [`Error::File`] when the target cannot be written, [`Error::Truncated`] when fewer bytes came than
/// were announced, [`Error::Damaged`] when the bytes are not those that the service sent.
#[must_use = "a download begins with `.await`"]
pub struct Download<'a> {
    client: &'a Client,
    content: Content,
    to: PathBuf,
    on_progress: OnProgress<Option<u64>>,
}

impl<'a> Download<'a> {
    fn new(client: &'a Client, content: Content, to: PathBuf) -> Self {
        Self { client, content, to, on_progress: Arc::new(Mutex::new(|_, _| {})) }
    }

    /// Called with the bytes received, those of an earlier attempt included, and the size of the
    /// whole if the answer has it.
    pub fn on_progress(mut self, callback: impl FnMut(u64, Option<u64>) + Send + 'static) -> Self {
        self.on_progress = Arc::new(Mutex::new(callback));
        self
    }

    async fn request(&self, range: Option<String>) -> Result<ResponseValue<ByteStream>, Error> {
        match &self.content {
            Content::Job(id) => self.client.job_download().job_id(id).range(range).send().await,
            Content::System(id) => self.client.system_download().system_id(id).range(range).send().await,
            Content::Analysis(id) => {
                let id: AnalysedId = id.parse().map_err(|e: InvalidRequest| e.within("job_id").within("path"))?;
                let call = self.client.call("GET", &format!("/retrieve/analysis/{}", *id))?;
                let call = call.header("accept", "application/zip")?;
                let call = match &range {
                    Some(range) => call.header("range", range)?,
                    None => call,
                };
                Ok(ResponseValue::stream(call.send().await?.into_response()))
            }
            Content::File(id) => self.client.file_download().file_id(id).range(range).send().await,
        }
    }

    async fn run(self) -> Result<PathBuf, Error> {
        let mut part = Part::left_behind(&self.to).await?;
        let mut attempt = 0;
        loop {
            match self.transfer(&mut part).await {
                Ok(()) => break,
                Err(error) if error.is_transient() && attempt < self.client.inner.retries => {
                    tokio::time::sleep(http::backoff(attempt)).await;
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
        part.expect("a transfer that ended well").finish(&self.to).await
    }

    /// Receives what is missing of `part`, all of it when the content is another one by now.
    async fn transfer(&self, part: &mut Option<Part>) -> Result<(), Error> {
        let response = self.open(part).await?;
        let arriving = part.as_mut().expect("found or created");
        let total = total(&response, arriving.size);
        let mut stream = response.into_inner_stream();
        while let Some(chunk) = stream.next().await {
            arriving.append(&chunk.map_err(Error::Connection)?).await?;
            report(&self.on_progress, arriving.size, total);
        }
        let received = arriving.size;
        match total {
            // Where a connection ends with its content, it may end too early and look like a whole.
            Some(total) if received < total => Err(Error::Truncated { path: arriving.path.clone(), received, total }),
            Some(total) if received > total => {
                let part = part.take().expect("found or created");
                Err(part.reject(format!("{received} bytes arrived, not {total}")).await)
            }
            _ => Ok(()),
        }
    }

    /// Asks for what is missing of `part`; for all, and into a new part, when there is none or it is
    /// of another content.
    async fn open(&self, part: &mut Option<Part>) -> Result<ResponseValue<ByteStream>, Error> {
        let mut whole = None;
        if let Some(old) = part.take() {
            if old.size > 0 {
                match self.request(Some(format!("bytes={}-", old.size))).await {
                    Ok(response) if old.is_continued_by(&response) => {
                        *part = Some(old);
                        return Ok(response);
                    }
                    // Some proxies answer with everything, whatever is asked for.
                    Ok(response) => whole = (response.status() == StatusCode::OK).then_some(response),
                    // All bytes were there already, or more than the content has.
                    Err(Error::Refused(refusal)) if refusal.status == StatusCode::RANGE_NOT_SATISFIABLE => {}
                    Err(error) => {
                        *part = Some(old);
                        return Err(error);
                    }
                }
            }
            old.discard().await;
        }
        let response = match whole {
            Some(response) => response,
            None => self.request(None).await?,
        };
        *part = Some(Part::create(&self.to, etag(&response)).await?);
        Ok(response)
    }
}

fn etag(response: &ResponseValue<ByteStream>) -> String {
    response.headers().get(ETAG).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// First byte and size of the whole, by the `Content-Range` of a partial answer.
fn content_range(response: &ResponseValue<ByteStream>) -> Option<(u64, Option<u64>)> {
    let (range, size) =
        response.headers().get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, size.parse().ok()))
}

/// Size of the whole of which `offset` bytes are there; none when the answer does not have it, as
/// behind a proxy that sends what it gets in chunks of its own.
fn total(response: &ResponseValue<ByteStream>, offset: u64) -> Option<u64> {
    if response.status() == StatusCode::PARTIAL_CONTENT
        && let Some((_, Some(size))) = content_range(response)
    {
        return Some(size);
    }
    Some(offset + response.content_length()?)
}

impl<'a> IntoFuture for Download<'a> {
    type Output = Result<PathBuf, Error>;
    type IntoFuture = BoxFuture<'a, PathBuf>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The part of a file that has arrived.
struct Part {
    path: PathBuf,
    file: File,
    etag: String,
    size: u64,
    sha256: Sha256,
}

impl Part {
    async fn create(to: &Path, etag: String) -> Result<Self, Error> {
        let name = to.file_name().and_then(|n| n.to_str()).unwrap_or("download");
        let digest = digest(&etag).map(|d| format!(".{d}")).unwrap_or_default();
        let path = to.with_file_name(format!("{name}{digest}.part"));
        let file = File::create(&path).await.map_err(|e| Error::file(&path, e))?;
        Ok(Self { path, file, etag, size: 0, sha256: Sha256::new() })
    }

    /// The part that an earlier download to the same target left; its name has the digest of the
    /// whole.
    async fn left_behind(to: &Path) -> Result<Option<Self>, Error> {
        let Some(name) = to.file_name().and_then(|n| n.to_str()) else {
            return Err(Error::invalid(format!("{}: is not the name of a file", to.display())));
        };
        let folder = to.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut entries = fs::read_dir(folder).await.map_err(|e| Error::file(folder, e))?;
        while let Some(entry) = entries.next_entry().await.map_err(|e| Error::file(folder, e))? {
            let entry_name = entry.file_name();
            let digest =
                entry_name.to_str().and_then(|n| n.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part"));
            if let Some(digest) = digest.filter(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit())) {
                return Self::reopen(entry.path(), format!("\"sha256-{digest}\"")).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn reopen(path: PathBuf, etag: String) -> Result<Self, Error> {
        let at = |e| Error::file(&path, e);
        let mut file = OpenOptions::new().read(true).append(true).open(&path).await.map_err(at)?;
        let (mut sha256, mut size) = (Sha256::new(), 0);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let n = file.read(&mut chunk).await.map_err(at)?;
            if n == 0 {
                break;
            }
            sha256.update(&chunk[..n]);
            size += n as u64;
        }
        Ok(Self { path, file, etag, size, sha256 })
    }

    async fn append(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.file.write_all(chunk).await.map_err(|e| Error::file(&self.path, e))?;
        self.sha256.update(chunk);
        self.size += chunk.len() as u64;
        Ok(())
    }

    /// Whether an answer has what is missing of the same content.
    fn is_continued_by(&self, response: &ResponseValue<ByteStream>) -> bool {
        let found = etag(response);
        let is_same = match (digest(&self.etag), digest(&found)) {
            (Some(ours), Some(theirs)) => ours == theirs,
            // A weak one is that of contents which are alike, and not byte by byte.
            _ => self.etag == found && found.starts_with('"'),
        };
        response.status() == StatusCode::PARTIAL_CONTENT
            && is_same
            && content_range(response).is_some_and(|(start, _)| start == self.size)
    }

    async fn finish(mut self, to: &Path) -> Result<PathBuf, Error> {
        let at = |e| Error::file(&self.path, e);
        self.file.flush().await.map_err(at)?;
        self.file.sync_all().await.map_err(at)?;
        let found: String = self.sha256.finalize_reset().iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(promised) = digest(&self.etag).filter(|promised| *promised != found) {
            let message = format!("SHA-256 is {found}, not {promised}");
            return Err(self.reject(message).await);
        }
        fs::rename(&self.path, to).await.map_err(|e| Error::file(to, e))?;
        Ok(to.to_owned())
    }

    /// Removes a part that is not what was sent.
    async fn reject(self, message: String) -> Error {
        match fs::remove_file(&self.path).await {
            Ok(()) => Error::Damaged { path: self.path, message },
            Err(error) => Error::file(self.path, error),
        }
    }

    /// Removes a part that is of no use; one that cannot be removed harms nobody.
    async fn discard(self) {
        drop(self.file);
        let _ = fs::remove_file(&self.path).await;
    }
}

/// The digest in an `ETag` of the service, `"sha256-<hex>"`. A proxy that compresses makes it weak; the
/// content is the same once it is unpacked.
fn digest(etag: &str) -> Option<&str> {
    etag.strip_prefix("W/").unwrap_or(etag).strip_prefix("\"sha256-")?.strip_suffix('"').filter(|d| d.len() == 64)
}
