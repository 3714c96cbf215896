//! Files to the service and results from it.

use std::fs::TryLockError;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use progenitor_client::{ByteStream, ResponseValue};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, TRANSFER_ENCODING};
use reqwest::{Body, StatusCode};
use sha2::{Digest, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::workflow::Client;
use crate::workflow::types::{AnalysedId, FileRecord, UploadLink, ValidationError};
use crate::{Error, InvalidRequest, http};

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
        Upload::new(self, Source::Path(path.into()))
    }

    /// Uploads what is in memory and registers it. `format` is `pdb`, `sdf` and so on.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// let pdb = String::from("ATOM  …");
    /// let file = molbox.upload_bytes("pdb", pdb).name("trp-cage").await?;
    /// # Ok(()) }
    /// ```
    pub fn upload_bytes(&self, format: &str, content: impl Into<Vec<u8>>) -> Upload<'_> {
        Upload::new(self, Source::Bytes(content.into().into())).format(format)
    }

    /// Uploads what a reader gives, `size` bytes, and registers it. It is read once: an upload that
    /// breaks is not repeated.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// let (reader, size) = (tokio::io::repeat(b'\n'), 1000);
    /// let file = molbox.upload_reader("pdb", reader, size).name("blank").await?;
    /// # Ok(()) }
    /// ```
    pub fn upload_reader(
        &self,
        format: &str,
        reader: impl AsyncRead + Send + Unpin + 'static,
        size: u64,
    ) -> Upload<'_> {
        Upload::new(self, Source::Reader { reader: Some(Box::new(reader)), size }).format(format)
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

    /// Writes the results bundle of a job, a zip, to a writer, and flushes it; gives the number of
    /// bytes. A transfer that breaks is resumed where it stopped, and the whole is checked as a
    /// [`Download`] is: after an error the writer has had a part, or what nobody sent.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// let mut bundle = Vec::new();
    /// molbox.copy_job("job_0123456789abcdefghij", &mut bundle).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of a [`Download`]; [`Error::Write`] for one of the writer.
    pub async fn copy_job(
        &self,
        job_id: &str,
        to: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64, Error> {
        copy(self, &Content::Job(job_id.to_owned()), to).await
    }

    /// Writes a built system, a zip, to a writer, as [`copy_job`](Self::copy_job) does.
    ///
    /// # Errors
    ///
    /// Those of [`copy_job`](Self::copy_job).
    pub async fn copy_system(
        &self,
        system_id: &str,
        to: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64, Error> {
        copy(self, &Content::System(system_id.to_owned()), to).await
    }

    /// Writes an analysis, a zip, to a writer, as [`copy_job`](Self::copy_job) does: the one of
    /// this id, or the latest of a job.
    ///
    /// # Errors
    ///
    /// Those of [`copy_job`](Self::copy_job).
    pub async fn copy_analysis(
        &self,
        id: &str,
        to: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64, Error> {
        copy(self, &Content::Analysis(id.to_owned()), to).await
    }

    /// Writes a registered file to a writer, as [`copy_job`](Self::copy_job) does.
    ///
    /// # Errors
    ///
    /// Those of [`copy_job`](Self::copy_job).
    pub async fn copy_file(
        &self,
        file_id: &str,
        to: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64, Error> {
        copy(self, &Content::File(file_id.to_owned()), to).await
    }
}

enum Source {
    Path(PathBuf),
    Bytes(Arc<[u8]>),
    /// None once it is being read.
    Reader {
        reader: Option<Box<dyn AsyncRead + Send + Unpin>>,
        size: u64,
    },
}

impl Source {
    /// Exclusive, for a reader can be shared with no other thread.
    async fn size(&mut self) -> Result<u64, Error> {
        match self {
            Self::Path(path) => {
                Ok(fs::metadata(&*path).await.map_err(|e| Error::file(&*path, e))?.len())
            }
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::Reader { size, .. } => Ok(*size),
        }
    }

    /// The content from its beginning; none when it was read before and cannot be again.
    async fn open(&mut self) -> Result<Option<Box<dyn AsyncRead + Send + Unpin>>, Error> {
        Ok(match self {
            Self::Path(path) => {
                Some(Box::new(File::open(&*path).await.map_err(|e| Error::file(&*path, e))?))
            }
            Self::Bytes(bytes) => Some(Box::new(std::io::Cursor::new(bytes.clone()))),
            Self::Reader { reader, .. } => reader.take(),
        })
    }

    /// What the file of a path is registered as, and its extension.
    fn names(&self) -> (Option<String>, Option<String>) {
        let Self::Path(path) = self else { return (None, None) };
        (usual_name(path), extension(path))
    }

    fn shown(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            _ => "content".to_owned(),
        }
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
    source: Source,
    name: Option<String>,
    kind: Option<String>,
    format: Option<String>,
    on_progress: OnProgress<u64>,
}

impl<'a> Upload<'a> {
    fn new(client: &'a Client, source: Source) -> Self {
        Self {
            client,
            source,
            name: None,
            kind: None,
            format: None,
            on_progress: Arc::new(Mutex::new(|_, _| {})),
        }
    }

    /// Name to register the file under. Default: that of the file of a path, without its extension
    /// but for files of built systems; of other contents the service's.
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

    /// Format of the content. Default: the extension of the file.
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
        let Self { client, mut source, name, kind, format, on_progress } = self;
        let (stem, extension) = source.names();
        let format = format.or(extension.map(usual)).ok_or_else(|| {
            Error::argument(
                "format",
                format!("{} has no extension to tell it by; give it", source.shown()),
            )
        })?;
        let size = source.size().await?;

        let link = client.upload_url_create().filetype(&format).send().await?.into_inner();
        if let Some(max) = link.max_bytes.filter(|max| size > *max) {
            return Err(Error::invalid(format!(
                "{}: has {size} bytes, the service takes {max}",
                source.shown()
            )));
        }
        put(client, &mut source, &link, size, &on_progress).await?;

        let file_id = link.file_id.clone();
        let register = client.file_register().body_map(|file| {
            file.file_id(link.file_id).format(format).name(name.or(stem)).type_(kind)
        });
        match register.send().await {
            Ok(file) => Ok(file.into_inner()),
            Err(error) => {
                if is_unwanted(&error) {
                    // It would stay in the account's list for a day. What is told is why it was
                    // refused, also when it cannot be deleted.
                    let _ = client.file_delete().file_id(file_id).send().await;
                }
                Err(error)
            }
        }
    }
}

/// Whether a file that was sent is refused for what it is, or for a name that another has. One that is
/// refused for its identifier may be registered, by the same call.
fn is_unwanted(error: &Error) -> bool {
    let is_taken = |it: &ValidationError| it.loc.last().is_some_and(|at| at.to_string() == "name");
    match error.status().map(|status| status.as_u16()) {
        Some(422) => true,
        Some(409) => error.violations().iter().any(is_taken),
        _ => false,
    }
}

/// Formats whose files are known by their name without its extension. Those of built systems are
/// many of one name.
const OF_ONE_NAME: [&str; 15] = [
    "pdb", "ent", "cif", "mmcif", "sdf", "mol", "mol2", "xml", "dcd", "xtc", "trr", "nc", "ncdf",
    "netcdf", "gz",
];

/// The name under which the file of a path is registered, unless another is given.
pub(crate) fn usual_name(path: &Path) -> Option<String> {
    let is_of_one_name =
        extension(path).is_none_or(|extension| OF_ONE_NAME.contains(&extension.as_str()));
    let name = if is_of_one_name { path.file_stem() } else { path.file_name() };
    name.and_then(|name| name.to_str()).map(str::to_owned)
}

fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(|extension| extension.to_str()).map(str::to_lowercase)
}

/// The format that an extension stands for.
fn usual(extension: String) -> String {
    match extension.as_str() {
        "ent" => "pdb".to_owned(),
        "mmcif" => "cif".to_owned(),
        "parm7" => "prmtop".to_owned(),
        "rst7" | "restrt" | "ncrst" => "inpcrd".to_owned(),
        "par" => "prm".to_owned(),
        "ncdf" | "netcdf" => "nc".to_owned(),
        "cor" => "crd".to_owned(),
        _ => extension,
    }
}

/// Sends the content to the link: no key, no redirect, a length instead of chunks (which object
/// stores refuse).
async fn put(
    client: &Client,
    source: &mut Source,
    link: &UploadLink,
    size: u64,
    on_progress: &OnProgress<u64>,
) -> Result<(), Error> {
    let mut content = source.open().await?.expect("nothing has read it");
    let mut attempt = 0;
    loop {
        let (moves, moved) = watch::channel(());
        let on_progress = on_progress.clone();
        let on_move = move |done, all| {
            report(&on_progress, done, all);
            moves.send_replace(());
        };
        let body = Body::wrap_stream(chunks(content, size, Arc::new(Mutex::new(on_move))));
        let mut request =
            client.inner.uploads.put(&link.upload_url).header(CONTENT_LENGTH, size).body(body);
        if let Some(content_type) = &link.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(deadline) = client.inner.deadline {
            request = request.timeout(deadline);
        }
        let sent = async {
            let response = request.send().await.map_err(Error::Connection)?;
            if response.status().is_success() {
                return Ok(());
            }
            Err(http::refusal(&http::readable(response).await.map_err(Error::Connection)?))
        };
        let Err(error) = unless_idle(client.inner.idle_timeout, moved, sent).await else {
            return Ok(());
        };
        let is_over = !error.is_transient() || attempt == client.inner.retries;
        let wanted = match &error {
            Error::Refused(refusal) => refusal.retry_after,
            _ => None,
        };
        let Some(delay) = http::delay(wanted, attempt).filter(|_| !is_over) else {
            return Err(error);
        };
        let Some(again) = source.open().await? else { return Err(error) };
        content = again;
        sleep(delay).await;
        attempt += 1;
    }
}

/// The result of an upload, unless nothing of it moves for a time: its content, or the answer once
/// all of that has gone.
async fn unless_idle(
    idle_timeout: Duration,
    mut moved: watch::Receiver<()>,
    upload: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let idle = async {
        while let Ok(Ok(())) = timeout(idle_timeout, moved.changed()).await {}
        if moved.has_changed().is_err() {
            // All of the content has gone.
            sleep(idle_timeout).await;
        }
    };
    match select(pin!(upload), pin!(idle)).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(Error::Stalled { after: idle_timeout }),
    }
}

/// `size` bytes of a content; an error when it has fewer.
fn chunks(
    content: Box<dyn AsyncRead + Send + Unpin>,
    size: u64,
    on_progress: OnProgress<u64>,
) -> impl futures::Stream<Item = std::io::Result<Vec<u8>>> {
    futures::stream::try_unfold((content, 0), move |(mut content, done)| {
        let on_progress = on_progress.clone();
        async move {
            if done == size {
                return Ok(None);
            }
            let mut chunk = vec![0; CHUNK_BYTES.min((size - done) as usize)];
            let n = content.read(&mut chunk).await?;
            if n == 0 {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    "the content is shorter than it was",
                ));
            }
            chunk.truncate(n);
            let done = done + n as u64;
            report(&on_progress, done, size);
            Ok(Some((chunk, (content, done))))
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

enum Content {
    Job(String),
    System(String),
    Analysis(String),
    File(String),
}

impl Content {
    async fn request(
        &self,
        client: &Client,
        range: Option<String>,
    ) -> Result<ResponseValue<ByteStream>, Error> {
        match self {
            Self::Job(id) => client.job_download().job_id(id).range(range).send().await,
            Self::System(id) => client.system_download().system_id(id).range(range).send().await,
            Self::Analysis(id) => {
                let id: AnalysedId =
                    id.parse().map_err(|e: InvalidRequest| e.within("job_id").within("path"))?;
                let call = client.call("GET", &format!("/retrieve/analysis/{}", *id))?;
                let call = call.header("accept", "application/zip")?;
                let call = match &range {
                    Some(range) => call.header("range", range)?,
                    None => call,
                };
                Ok(ResponseValue::stream(call.send().await?.into_response()))
            }
            Self::File(id) => client.file_download().file_id(id).range(range).send().await,
        }
    }
}

/// A download, begun by `.await`.
///
/// Bytes go to a file `<name>.<digest>.part` beside the target, which is renamed when size and
/// SHA-256 are as the service reported: the target is whole or not there. A download that broke,
/// in this process or an earlier one, resumes where it stopped.
///
/// # Errors
///
/// [`Error::File`] when the target cannot be written, or another download to it is under way;
/// [`Error::Truncated`] when fewer bytes came than were announced, [`Error::Damaged`] when the bytes are not those that the service sent.
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

    async fn run(self) -> Result<PathBuf, Error> {
        let mut part = Part::left_behind(&self.to).await?;
        let mut breaks = Breaks::default();
        while let Err(error) = self.transfer(&mut part).await {
            let size = part.as_ref().map_or(0, |part| part.arrived.size);
            breaks.after(error, size, self.client.inner.retries).await?;
        }
        part.expect("a transfer that ended well").finish(&self.to).await
    }

    /// Receives what is missing of `part`, all of it when the content is another one by now.
    async fn transfer(&self, part: &mut Option<Part>) -> Result<(), Error> {
        let response = self.open(part).await?;
        let arriving = part.as_mut().expect("found or created");
        let total = total(&response, arriving.arrived.size);
        arriving.arrived.can_be_checked(&response, total)?;
        let mut stream = response.into_inner_stream();
        while let Some(chunk) = stream.next().await {
            arriving.append(&chunk.map_err(Error::Connection)?).await?;
            report(&self.on_progress, arriving.arrived.size, total);
        }
        match arriving.arrived.against(total) {
            Size::Whole => Ok(()),
            Size::Short { received, total } => {
                Err(Error::Truncated { path: Some(arriving.path.clone()), received, total })
            }
            Size::Long(message) => {
                let part = part.take().expect("found or created");
                Err(part.reject(message).await)
            }
        }
    }

    /// Asks for what is missing of `part`; for all, and into a new part, when there is none or it
    /// is of another content.
    async fn open(&self, part: &mut Option<Part>) -> Result<ResponseValue<ByteStream>, Error> {
        let mut whole = None;
        if let Some(old) = part.take() {
            if old.arrived.size > 0 {
                match self
                    .content
                    .request(self.client, Some(format!("bytes={}-", old.arrived.size)))
                    .await
                {
                    Ok(response) if old.arrived.is_continued_by(&response) => {
                        *part = Some(old);
                        return Ok(response);
                    }
                    // Some proxies answer with everything, whatever is asked for.
                    Ok(response) => {
                        whole = (response.status() == StatusCode::OK).then_some(response)
                    }
                    // All bytes were there already, or more than the content has.
                    Err(Error::Refused(refusal))
                        if refusal.status == StatusCode::RANGE_NOT_SATISFIABLE => {}
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
            None => self.content.request(self.client, None).await?,
        };
        *part = Some(Part::create(&self.to, etag(&response)).await?);
        Ok(response)
    }
}

fn etag(response: &ResponseValue<ByteStream>) -> String {
    response
        .headers()
        .get(ETAG)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// First byte and size of the whole, by the `Content-Range` of a partial answer.
fn content_range(response: &ResponseValue<ByteStream>) -> Option<(u64, Option<u64>)> {
    let (range, size) = response
        .headers()
        .get(CONTENT_RANGE)?
        .to_str()
        .ok()?
        .strip_prefix("bytes ")?
        .split_once('/')?;
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

/// Writes a content to a writer, resumed when it breaks, and checks it.
async fn copy(
    client: &Client,
    content: &Content,
    to: &mut (impl AsyncWrite + Send + Unpin),
) -> Result<u64, Error> {
    let mut arrived = Arrived::default();
    let mut breaks = Breaks::default();
    while let Err(error) = receive(client, content, &mut arrived, to).await {
        breaks.after(error, arrived.size, client.inner.retries).await?;
    }
    to.flush().await.map_err(Error::Write)?;
    let size = arrived.size;
    arrived.check().map_err(|message| Error::Damaged { path: None, message })?;
    Ok(size)
}

/// How often a transfer has broken without anything new having arrived: a large one may break any
/// number of times.
#[derive(Default)]
struct Breaks {
    in_vain: u32,
    furthest: u64,
}

impl Breaks {
    /// Waits until it may be resumed after an error, with so many bytes there.
    async fn after(&mut self, error: Error, size: u64, retries: u32) -> Result<(), Error> {
        if size > self.furthest {
            (self.furthest, self.in_vain) = (size, 0);
        }
        // What is refused has been asked for again already.
        let has_broken = error.is_transient() && !matches!(error, Error::Refused(_));
        if !has_broken || self.in_vain >= retries {
            return Err(error);
        }
        sleep(http::backoff(self.in_vain)).await;
        self.in_vain += 1;
        Ok(())
    }
}

/// Writes what is missing of a content.
async fn receive(
    client: &Client,
    content: &Content,
    arrived: &mut Arrived,
    to: &mut (impl AsyncWrite + Send + Unpin),
) -> Result<(), Error> {
    let range = (arrived.size > 0).then(|| format!("bytes={}-", arrived.size));
    let response = content.request(client, range).await?;
    if arrived.size == 0 {
        arrived.etag = etag(&response);
    } else if !arrived.is_continued_by(&response) {
        let message = format!("it broke after {} bytes, and cannot be resumed", arrived.size);
        return Err(Error::Damaged { path: None, message });
    }
    let total = total(&response, arrived.size);
    arrived.can_be_checked(&response, total)?;
    let mut stream = response.into_inner_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(Error::Connection)?;
        to.write_all(&chunk).await.map_err(Error::Write)?;
        arrived.add(&chunk);
    }
    match arrived.against(total) {
        Size::Whole => Ok(()),
        Size::Short { received, total } => Err(Error::Truncated { path: None, received, total }),
        Size::Long(message) => Err(Error::Damaged { path: None, message }),
    }
}

#[derive(Default)]
struct Arrived {
    etag: String,
    size: u64,
    sha256: Sha256,
}

/// What has arrived against what was announced.
enum Size {
    Whole,
    Short { received: u64, total: u64 },
    Long(String),
}

impl Arrived {
    fn add(&mut self, chunk: &[u8]) {
        self.sha256.update(chunk);
        self.size += chunk.len() as u64;
    }

    /// Refuses an answer of which nobody can tell whether it ended early: where neither length nor
    /// digest are known, and the connection ends with the content.
    fn can_be_checked(
        &self,
        response: &ResponseValue<ByteStream>,
        total: Option<u64>,
    ) -> Result<(), Error> {
        let is_chunked = response.headers().contains_key(TRANSFER_ENCODING);
        if total.is_some() || is_chunked || digest(&self.etag).is_some() {
            return Ok(());
        }
        Err(Error::Unexpected {
            status: Some(response.status()),
            message: "a content without length and digest, of which nobody knows where it ends"
                .to_owned(),
        })
    }

    /// Where a connection ends with its content, it may end too early and look like a whole.
    fn against(&self, total: Option<u64>) -> Size {
        let received = self.size;
        match total {
            Some(total) if received < total => Size::Short { received, total },
            Some(total) if received > total => {
                Size::Long(format!("{received} bytes arrived, not {total}"))
            }
            _ => Size::Whole,
        }
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

    /// Whether it is what the service sent, as far as it gave a digest.
    fn check(self) -> Result<(), String> {
        let found: String =
            self.sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        match digest(&self.etag).filter(|promised| *promised != found) {
            Some(promised) => Err(format!("SHA-256 is {found}, not {promised}")),
            None => Ok(()),
        }
    }
}

struct Part {
    path: PathBuf,
    file: File,
    arrived: Arrived,
}

impl Part {
    async fn create(to: &Path, etag: String) -> Result<Self, Error> {
        let name = to.file_name().and_then(|n| n.to_str()).unwrap_or("download");
        let digest = digest(&etag).map(|d| format!(".{d}")).unwrap_or_default();
        let path = to.with_file_name(format!("{name}{digest}.part"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = locked(&path, &options).await?;
        file.set_len(0).await.map_err(|e| Error::file(&path, e))?;
        Ok(Self { path, file, arrived: Arrived { etag, ..Arrived::default() } })
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
            let digest = entry_name
                .to_str()
                .and_then(|n| n.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part"));
            if let Some(digest) =
                digest.filter(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit()))
            {
                return Self::reopen(entry.path(), format!("\"sha256-{digest}\"")).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn reopen(path: PathBuf, etag: String) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let file = locked(&path, &options).await?;
        let mut part = Self { path, file, arrived: Arrived { etag, ..Arrived::default() } };
        part.arrived.sha256 = part.on_disk().await?;
        part.arrived.size =
            part.file.stream_position().await.map_err(|e| Error::file(&part.path, e))?;
        Ok(part)
    }

    /// The digest of all that the file has, which is then read to its end.
    async fn on_disk(&mut self) -> Result<Sha256, Error> {
        self.file.rewind().await.map_err(|e| Error::file(&self.path, e))?;
        let mut sha256 = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match self.file.read(&mut chunk).await.map_err(|e| Error::file(&self.path, e))? {
                0 => return Ok(sha256),
                n => sha256.update(&chunk[..n]),
            }
        }
    }

    async fn append(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.file.write_all(chunk).await.map_err(|e| Error::file(&self.path, e))?;
        self.arrived.add(chunk);
        Ok(())
    }

    async fn finish(mut self, to: &Path) -> Result<PathBuf, Error> {
        self.file.flush().await.map_err(|e| Error::file(&self.path, e))?;
        self.file.sync_all().await.map_err(|e| Error::file(&self.path, e))?;
        let arrived = std::mem::take(&mut self.arrived);
        let sha256 = arrived.sha256.clone();
        if let Err(message) = arrived.check() {
            return Err(self.reject(message).await);
        }
        // A lock does nothing on some file systems, nor against programs that take none.
        if self.on_disk().await?.finalize() != sha256.finalize() {
            let message = "another program has written to it".to_owned();
            return Err(self.reject(message).await);
        }
        fs::rename(&self.path, to).await.map_err(|e| Error::file(to, e))?;
        Ok(to.to_owned())
    }

    async fn reject(self, message: String) -> Error {
        match fs::remove_file(&self.path).await {
            Ok(()) => Error::Damaged { path: Some(self.path), message },
            Err(error) => Error::file(self.path, error),
        }
    }

    /// Removes a part that is of no use; one that cannot be removed harms nobody.
    async fn discard(self) {
        drop(self.file);
        let _ = fs::remove_file(&self.path).await;
    }
}

/// Opens a part for one download alone: two that write to it would mix what they receive.
async fn locked(path: &Path, options: &OpenOptions) -> Result<File, Error> {
    let file = options.open(path).await.map_err(|e| Error::file(path, e))?.into_std().await;
    let is_free = match file.try_lock() {
        Err(TryLockError::WouldBlock) => false,
        // There are file systems without locks.
        Ok(()) | Err(TryLockError::Error(_)) => is_at(&file, path),
    };
    if !is_free {
        let error = std::io::Error::new(
            std::io::ErrorKind::ResourceBusy,
            "another download to the same file is under way",
        );
        return Err(Error::file(path, error));
    }
    Ok(File::from_std(file))
}

/// Whether a path still names a file that was opened by it: who had it until now may have removed
/// or renamed it.
#[cfg(unix)]
fn is_at(file: &std::fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |found: std::io::Result<std::fs::Metadata>| found.map(|it| (it.dev(), it.ino())).ok();
    id(file.metadata()) == id(path.metadata())
}

#[cfg(not(unix))]
fn is_at(_: &std::fs::File, _: &Path) -> bool {
    true
}

/// The digest in an `ETag` of the service, `"sha256-<hex>"`. A proxy that compresses makes it weak;
/// the content is the same once it is unpacked.
fn digest(etag: &str) -> Option<&str> {
    etag.strip_prefix("W/")
        .unwrap_or(etag)
        .strip_prefix("\"sha256-")?
        .strip_suffix('"')
        .filter(|d| d.len() == 64)
}
