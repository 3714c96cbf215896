//! The log of a task, which its command writes and the service completes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::body::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::files;
use crate::objects::{Key, Objects};
use crate::runner::left::{self, COLLECTED, LOG};

/// Lines of the log that a failed task shows.
const LOG_LINES: usize = 20;
/// Most bytes of them.
const LOG_BYTES: u64 = 64 << 10;

/// Where the log of a task is: in its folder while it runs, among its objects when it has ended,
/// for a moment between among what is collected.
pub(crate) enum Log {
    Open(File),
    Stored(Key),
}

impl Log {
    /// None when the task has not begun.
    pub(crate) fn of(objects: &Objects, folder: &Path, id: &str) -> io::Result<Option<Self>> {
        for path in [&[LOG][..], &[COLLECTED, LOG]] {
            if let Some(file) = left::open_below(folder, path)? {
                return Ok(Some(Self::Open(file)));
            }
        }
        let key = Key::task(id).under(LOG);
        Ok(objects.exists(&key)?.then_some(Self::Stored(key)))
    }

    /// What it has at this moment, from `offset` on.
    pub(crate) fn stream(
        self,
        objects: &Arc<Objects>,
        offset: u64,
    ) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
        Ok(match self {
            Self::Open(mut file) => {
                // It may grow while it is read; what is there now is the answer.
                let size = file.metadata()?.len();
                let start = offset.min(size);
                file.seek(SeekFrom::Start(start))?;
                files::chunks(tokio::fs::File::from_std(file), size - start).boxed()
            }
            Self::Stored(key) => {
                let size = objects.size(&key)?;
                objects.clone().stream(key, offset.min(size)..size).boxed()
            }
        })
    }

    fn last_lines(self, objects: &Objects) -> io::Result<Vec<String>> {
        match self {
            Self::Open(file) => last_lines(file),
            Self::Stored(key) => {
                let size = objects.size(&key)?;
                Ok(lines(&objects.read_part(&key, size.saturating_sub(LOG_BYTES)..size)?))
            }
        }
    }
}

/// The last lines of the log of a task; none when it has not begun.
pub(crate) fn end_of(objects: &Objects, folder: &Path, id: &str) -> io::Result<Vec<String>> {
    Log::of(objects, folder, id)?.map_or_else(|| Ok(Vec::new()), |log| log.last_lines(objects))
}

/// The last lines of a log.
pub(crate) fn last_lines(mut log: File) -> io::Result<Vec<String>> {
    let start = log.metadata()?.len().saturating_sub(LOG_BYTES);
    log.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    log.take(LOG_BYTES).read_to_end(&mut text)?;
    Ok(lines(&text))
}

fn lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|&line| line.to_owned()).collect()
}

/// Adds a line to the log of a task. One that has been collected stays as it is: another in the
/// folder would pass for that of new results.
pub(crate) fn add(objects: &Objects, folder: &Path, id: &str, line: &str) -> Result<()> {
    let path = folder.join(LOG);
    if !path.exists() && Log::of(objects, folder, id)?.is_some() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).custom_flags(libc::O_NOFOLLOW);
    let mut log = options.open(path).context("open the log of a task")?;
    Ok(writeln!(log, "{line}")?)
}
