//! Files to the service and results from it.

use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use progenitor_client::{ByteStream, ResponseValue};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use reqwest::{Body, StatusCode};
use sha2::{Digest, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::workflow::Client;
use crate::workflow::types::{FileRecord, UploadLink};
use crate::{Error, Refusal, http};

const CHUNK_BYTES: usize = 256 * 1024;

/// Called with the bytes done and the bytes in all.
type OnProgress = Arc<Mutex<dyn FnMut(u64, u64) + Send>>;

fn report(on_progress: &OnProgress, done: u64, all: u64) {
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
    on_progress: OnProgress,
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
            .body_map(|file| file.file_id(String::from(link.file_id)).format(format).name(name).type_(self.kind));
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
fn chunks(file: File, size: u64, on_progress: OnProgress) -> impl futures::Stream<Item = std::io::Result<Vec<u8>>> {
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
/// in this process or an earlier one, goes on where it stopped.
///
/// # Errors
///
/// [`Error::File`] when the target cannot be written, [`Error::Damaged`] when the bytes are not
/// those that the service sent.
#[must_use = "a download begins with `.await`"]
pub struct Download<'a> {
    client: &'a Client,
    content: Content,
    to: PathBuf,
    on_progress: OnProgress,
}

impl<'a> Download<'a> {
    fn new(client: &'a Client, content: Content, to: PathBuf) -> Self {
        Self { client, content, to, on_progress: Arc::new(Mutex::new(|_, _| {})) }
    }

    /// Called with the bytes received, those of an earlier attempt included, and the size of the
    /// whole.
    pub fn on_progress(mut self, callback: impl FnMut(u64, u64) + Send + 'static) -> Self {
        self.on_progress = Arc::new(Mutex::new(callback));
        self
    }

    async fn request(&self, range: Option<String>) -> Result<ResponseValue<ByteStream>, Error> {
        match &self.content {
            Content::Job(id) => self.client.job_download().job_id(id).range(range).send().await,
            Content::System(id) => self.client.system_download().system_id(id).range(range).send().await,
            Content::Analysis(id) => {
                if !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    return Err(Error::invalid(format!("analysis_id: is no identifier, got {id:?}")));
                }
                let call = self.client.call("GET", &format!("/retrieve/analysis/{id}"))?;
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
        let offset = part.as_ref().map_or(0, |part| part.size);
        let range = (offset > 0).then(|| format!("bytes={offset}-"));
        let response = match self.request(range).await {
            // All bytes were there already, or more than the content has.
            Err(Error::Refused(refusal)) if refusal.status == StatusCode::RANGE_NOT_SATISFIABLE => {
                if let Some(old) = part.take() {
                    old.discard().await;
                }
                self.request(None).await?
            }
            other => other?,
        };
        let etag = response.headers().get(ETAG).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let continues = response.status() == StatusCode::PARTIAL_CONTENT;
        let response = match part {
            Some(part) if continues && part.etag == etag => response,
            _ => {
                if let Some(old) = part.take() {
                    old.discard().await;
                }
                *part = Some(Part::create(&self.to, etag).await?);
                if continues { self.request(None).await? } else { response }
            }
        };
        let part = part.as_mut().expect("found or created");
        let total = part.size + response.content_length().unwrap_or_default();
        let mut stream = response.into_inner_stream();
        while let Some(chunk) = stream.next().await {
            part.append(&chunk.map_err(Error::Connection)?).await?;
            report(&self.on_progress, part.size, total);
        }
        part.check_size(total)
    }
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

    fn check_size(&self, total: u64) -> Result<(), Error> {
        if self.size == total {
            return Ok(());
        }
        Err(Error::Damaged { path: self.path.clone(), message: format!("{} of {total} bytes arrived", self.size) })
    }

    async fn finish(mut self, to: &Path) -> Result<PathBuf, Error> {
        let at = |e| Error::file(&self.path, e);
        self.file.flush().await.map_err(at)?;
        self.file.sync_all().await.map_err(at)?;
        let found: String = self.sha256.finalize_reset().iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(promised) = digest(&self.etag).filter(|promised| *promised != found) {
            let message = format!("SHA-256 is {found}, not {promised}");
            let path = self.path.clone();
            self.discard().await;
            return Err(Error::Damaged { path, message });
        }
        fs::rename(&self.path, to).await.map_err(|e| Error::file(to, e))?;
        Ok(to.to_owned())
    }

    /// Removes a part that is of no use; one that cannot be removed harms nobody.
    async fn discard(self) {
        drop(self.file);
        let _ = fs::remove_file(&self.path).await;
    }
}

/// The digest in an `ETag` of the service, `"sha256-<hex>"`.
fn digest(etag: &str) -> Option<&str> {
    etag.strip_prefix("\"sha256-")?.strip_suffix('"').filter(|d| d.len() == 64)
}
