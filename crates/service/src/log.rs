//! The log: lines on standard error or in a file, many of them with one system call.
//!
//! A system call for each line would be CPU time of every short request. So lines are gathered for
//! a moment; only warnings and errors are not. `tracing-appender` would, while nobody reads the
//! log, have each request wait or drop its line without a word.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for others.
const GATHERED: Duration = Duration::from_millis(100);
/// So many bytes do not wait any longer.
const ENOUGH: usize = 64 << 10;
/// So many bytes are kept while nobody reads the log. Lines beyond are dropped: no request waits
/// for a reader that stands still.
const MAX_BYTES: usize = 4 << 20;
/// How long the service's end waits for who reads the log.
const LAST: Duration = Duration::from_secs(2);

/// So many bytes a file of the log has before it is put aside.
const FILE_BYTES: u64 = 10 << 20;

/// Logs to a file, or to standard error, until the value is dropped, when every line has been written.
pub(crate) struct Log(Arc<Lines>);

impl Log {
    pub(crate) fn start(file: Option<&Path>) -> Result<Self> {
        let filter =
            EnvFilter::try_from_env("MOLBOXD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let is_terminal = file.is_none() && io::IsTerminal::is_terminal(&io::stderr());
        let out: Box<dyn Write + Send> = match file {
            Some(path) => Box::new(
                Rotated::open(path.to_owned(), FILE_BYTES)
                    .with_context(|| format!("write the log {}", path.display()))?,
            ),
            None => Box::new(io::stderr()),
        };
        let lines = Arc::<Lines>::default();
        let written = lines.clone();
        let write_all = move || written.write_all(out);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(write_all)
            .context("start the log's thread")?;
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(is_terminal)
            .with_writer(Writers(lines.clone()))
            .init();
        Ok(Self(lines))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A file to which is added, and which is put aside when it is large enough; what was put aside
/// before is gone then.
struct Rotated {
    path: PathBuf,
    file: File,
    bytes: u64,
    most_bytes: u64,
}

impl Rotated {
    fn open(path: PathBuf, most_bytes: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = File::options().create(true).append(true).mode(0o600).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes, most_bytes })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let mut older = self.path.clone().into_os_string();
        older.push(".1");
        std::fs::rename(&self.path, older)?;
        *self = Self::open(self.path.clone(), self.most_bytes)?;
        Ok(())
    }
}

impl Write for Rotated {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // Where it cannot be put aside it grows: lines are worth more than the room.
        if self.bytes >= self.most_bytes && self.rotate().is_err() {
            self.bytes = 0;
        }
        let n = self.file.write(text)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Lines that are yet to be written.
#[derive(Default)]
struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    text: Vec<u8>,
    /// Lines for which there was no room.
    dropped: usize,
    is_urgent: bool,
    is_ending: bool,
    has_ended: bool,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8], is_urgent: bool) {
        let mut state = self.lock();
        if state.text.len() + line.len() > MAX_BYTES {
            state.dropped += 1;
            return;
        }
        let before = state.text.len();
        state.text.extend_from_slice(line);
        // Only once: whoever notifies makes a system call.
        let is_due = is_urgent && !state.is_urgent || before < ENOUGH && state.text.len() >= ENOUGH;
        state.is_urgent |= is_urgent;
        drop(state);
        if before == 0 || is_due {
            self.changed.notify_all();
        }
    }

    /// Writes lines as they come, until the end.
    fn write_all(&self, mut out: impl Write) {
        let mut text = Vec::new();
        let mut lost = 0;
        loop {
            let waits = |state: &mut State| state.text.is_empty() && !state.is_ending;
            let state =
                self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
            let gathers = |state: &mut State| {
                !state.is_urgent && !state.is_ending && state.text.len() < ENOUGH
            };
            let gathered = self.changed.wait_timeout_while(state, GATHERED, gathers);
            let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
            if state.text.is_empty() {
                state.has_ended = true;
                self.changed.notify_all();
                return;
            }
            mem::swap(&mut text, &mut state.text);
            state.is_urgent = false;
            lost += mem::take(&mut state.dropped);
            drop(state);
            match out.write_all(&text) {
                Ok(()) if lost == 0 => {}
                Ok(()) => {
                    tracing::warn!(
                        lines = lost,
                        "lines of the log are missing here: they could not be written"
                    );
                    lost = 0;
                }
                // There is nowhere to report it until writing succeeds again.
                Err(_) => lost += text.split(|byte| *byte == b'\n').count() - 1,
            }
            text.clear();
        }
    }

    /// Has everything be written and the writing end, and waits for that.
    fn end(&self) {
        let mut state = self.lock();
        state.is_ending = true;
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(state, LAST, |state| !state.has_ended));
    }
}

/// Gives each event something to write its line to.
struct Writers(Arc<Lines>);

impl<'a> MakeWriter<'a> for Writers {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: &self.0, is_urgent: true }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        Line { lines: &self.0, is_urgent: *event.level() <= Level::WARN }
    }
}

/// Takes one line.
struct Line<'a> {
    lines: &'a Lines,
    is_urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.add(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader of the log that takes each text when it is asked to.
    struct Reader(mpsc::SyncSender<Vec<u8>>);

    impl Write for Reader {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.send(text.to_owned()).map(|()| text.len()).map_err(io::Error::other)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_is_large_is_put_aside_and_the_one_before_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/molboxd.log");
        let mut log = Rotated::open(path.clone(), 10).unwrap();
        for line in ["first line\n", "second line\n", "third line\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        drop(log);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third line\n");
        let older = std::fs::read_to_string(path.with_extension("log.1")).unwrap();
        assert_eq!(older, "second line\n");
        // One that was begun before is added to.
        Rotated::open(path.clone(), 100).unwrap().write_all(b"more\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third line\nmore\n");
    }

    #[test]
    fn while_nobody_reads_lines_are_dropped_and_counted() {
        let lines = Arc::<Lines>::default();
        let written = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(Writers(lines.clone())).finish();
        let (out, text) = mpsc::sync_channel(0);
        let write_all = move || {
            tracing::subscriber::with_default(subscriber, || written.write_all(Reader(out)))
        };
        let writer = thread::spawn(write_all);
        let line = vec![b'x'; MAX_BYTES / 8 - 1].into_iter().chain([b'\n']).collect::<Vec<u8>>();
        lines.add(b"first\n", true);
        assert_eq!(text.recv().unwrap(), b"first\n");
        // None of these waits, though nobody reads.
        for _ in 0..19 {
            lines.add(&line, false);
        }
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains("are missing here") {
            read.extend(text.recv().unwrap());
        }
        let missing = 19 - read.iter().filter(|byte| **byte == b'\n').count() + 1;
        assert!(missing > 0);
        let read = String::from_utf8(read).unwrap();
        assert!(
            read.contains(&format!("lines={missing}")),
            "{}",
            read.trim_start_matches(['x', '\n'])
        );
        let ends = thread::spawn(move || lines.end());
        assert_eq!(text.recv(), Err(mpsc::RecvError));
        ends.join().unwrap();
        writer.join().unwrap();
    }
}
