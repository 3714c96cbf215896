//! One pass over a trajectory for all that is asked of it.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::{Serialize, Serializer};

use crate::mask;
use crate::params::Field;
use crate::read::{Frame, Series};
use crate::request::Request;
use crate::setup::Setup;
use crate::source::{Jumps, View};
use crate::table::{Column, Table};
use crate::task::{AnyTally, Outcome, Tasks};
use crate::{Error, Topology};

/// Analysed frames that a thread takes at once.
pub(crate) const BLOCK_FRAMES: usize = 32;

/// Bytes of coordinates that a thread keeps at most, unless a single frame takes more.
const BLOCK_BYTES: usize = 8 << 20;

/// How an analysis is to run.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Threads that read and compute; the results do not depend on it.
    pub n_threads: NonZeroUsize,
    /// Called now and then with the frames done and the frames to do, over all passes.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Set from elsewhere to stop early.
    pub cancelled: &'a AtomicBool,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Tables of all analyses, in the order of the request.
    pub tables: Vec<Table>,
    /// What the user should know about the numbers.
    pub warnings: Vec<Notice>,
    /// Whole frames in the trajectory.
    pub n_frames: usize,
    /// Frames that were analysed.
    pub n_analyzed: usize,
    /// Steps between them.
    pub stride: usize,
}

/// Something about a request or its files that may make the numbers other than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A group holds several molecules, the images of which are chosen one by one.
    SeveralMolecules {
        /// Which analysis of the request.
        analysis: usize,
        /// The group.
        label: String,
        /// Molecules it has atoms of.
        n_molecules: usize,
    },
    /// Molecules are in pieces in the trajectory, and were put together by their bonds.
    InPieces,
    /// The trajectory ends with part of a frame, which was left out.
    PartOfAFrame {
        /// Bytes after the last whole frame.
        n_bytes: u64,
    },
    /// The header of the trajectory tells of more frames than there are, as when it was cut off.
    MissingFrames {
        /// How many more.
        n_frames: usize,
    },
    /// A mask may not select what was meant.
    Mask {
        /// Where in the parameters.
        at: Field,
        /// What it does.
        warning: mask::Warning,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SeveralMolecules { label, n_molecules, .. } => write!(
                f,
                "{label} has atoms of {n_molecules} molecules; each is taken in the periodic image that is next to where \
                 it was in the frame before"
            ),
            Self::InPieces => f.write_str("molecules are in pieces in the trajectory; their bonds put them together"),
            Self::PartOfAFrame { n_bytes } => {
                write!(f, "the trajectory ends with {n_bytes} bytes of a frame that is not whole; it was left out")
            }
            Self::MissingFrames { n_frames } => {
                write!(f, "the trajectory has {n_frames} frames fewer than its header tells")
            }
            Self::Mask { at, warning } => write!(f, "{at}: {warning}"),
        }
    }
}

impl Serialize for Notice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Frames of a trajectory that are analysed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) trajectory: &'a Series,
    pub(crate) n_frames: usize,
    pub(crate) stride: usize,
    pub(crate) n_threads: usize,
}

impl Frames<'_> {
    pub(crate) fn n_analyzed(&self) -> usize {
        self.n_frames.div_ceil(self.stride)
    }

    /// Columns that say which frame a row belongs to.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let frames = (0..self.n_frames).step_by(self.stride);
        let index = frames.clone().map(|frame| frame as i64).collect();
        let times: Option<Vec<f64>> = frames.map(|frame| self.trajectory.time_ps(frame)).collect();
        let mut columns = vec![Column::integers("frame", "frame of the trajectory, counted from 0", index)];
        columns.extend(times.map(|times| Column::numbers("time_ps", Some("ps"), "time of the frame", times)));
        columns
    }

    /// Time between analysed frames in ps, if the trajectory tells it.
    pub(crate) fn interval_ps(&self) -> Option<f64> {
        let last = (self.n_analyzed().checked_sub(1)? * self.stride).min(self.n_frames - 1);
        let time_ps = |frame| self.trajectory.time_ps(frame);
        let n_intervals = self.n_analyzed() - 1;
        (n_intervals > 0).then(|| Some((time_ps(last)? - time_ps(0)?) / n_intervals as f64)).flatten()
    }
}

/// Makes all analyses of a request.
///
/// The frames are those that the trajectory had when it was opened or last looked at, so one that
/// is still growing gives a report on the frames so far. At most a few frames and the results are
/// held in memory.
///
/// # Errors
///
/// [`Error::AtomCount`], [`Error::NoFrames`], [`Error::EmptyGroup`], [`Error::NoMass`] and
/// [`Error::Parameter`] for what cannot be analysed, [`Error::Io`] and [`Error::Format`] from reading, and
/// [`Error::Cancelled`].
pub fn analyze(
    topology: &Topology,
    trajectory: &Series,
    request: &Request,
    control: &Control<'_>,
) -> Result<Report, Error> {
    let stride = request.stride.get();
    let n_threads = control.n_threads.get();
    let frames = Frames { topology, trajectory, n_frames: trajectory.n_frames(), stride, n_threads };
    let setup = Setup::new(topology, frames, request)?;
    let mut tasks = setup.tasks(request, &frames)?;
    let mut tables: Vec<(usize, Vec<Table>)> = Vec::new();
    let mut n_passes = 0;
    while !tasks.is_empty() {
        let tallies = Pass { setup: &setup, frames, tasks: &tasks, control, n_passes }.run()?;
        let mut again = Vec::new();
        for ((analysis, task), tally) in tasks.into_iter().zip(tallies) {
            match task.finish(tally, &frames) {
                Outcome::Tables(results) => tables.push((analysis, results)),
                Outcome::Again(task) => again.push((analysis, task)),
            }
        }
        tasks = again;
        n_passes += 1;
    }
    tables.sort_by_key(|(analysis, _)| *analysis);
    let tables = tables
        .into_iter()
        .flat_map(|(analysis, tables)| tables.into_iter().map(move |table| Table { analysis, ..table }));
    Ok(Report {
        tables: numbered(tables.collect()),
        warnings: setup.notices,
        n_frames: frames.n_frames,
        n_analyzed: frames.n_analyzed(),
        stride,
    })
}

/// The tables with names that tell them apart.
fn numbered(mut tables: Vec<Table>) -> Vec<Table> {
    let mut n_of_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for table in &mut tables {
        let n = n_of_kind.entry(table.kind).or_default();
        *n += 1;
        if *n > 1 {
            table.name = format!("{}_{n}", table.kind);
        }
    }
    tables
}

/// A pass over all frames for some tasks.
struct Pass<'a> {
    setup: &'a Setup<'a>,
    frames: Frames<'a>,
    tasks: &'a Tasks,
    control: &'a Control<'a>,
    /// Passes before this one.
    n_passes: usize,
}

/// What threads of a pass share.
struct Shared {
    next_block: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Tallies of all blocks up to the next one.
    total: Vec<AnyTally>,
    n_appended: usize,
    /// Blocks that are done before their turn.
    waiting: BTreeMap<usize, Vec<AnyTally>>,
    /// The block that may track on, and from where.
    jumps: (usize, Jumps),
    failure: Option<Error>,
    is_over: bool,
}

impl Pass<'_> {
    fn run(&self) -> Result<Vec<AnyTally>, Error> {
        let shared = Shared {
            next_block: AtomicUsize::new(0),
            state: Mutex::new(State {
                total: self.start(),
                n_appended: 0,
                waiting: BTreeMap::new(),
                jumps: (0, Jumps::none(self.setup.source.n_tracked())),
                failure: None,
                is_over: false,
            }),
            changed: Condvar::new(),
        };
        let n_threads = self.frames.n_threads.min(self.n_blocks());
        thread::scope(|scope| {
            (1..n_threads).for_each(|_| drop(scope.spawn(|| self.work(&shared))));
            self.work(&shared);
        });
        let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failure.map_or(Ok(state.total), Err)
    }

    fn start(&self) -> Vec<AnyTally> {
        self.tasks.iter().map(|(_, task)| task.start()).collect()
    }

    fn block_frames(&self) -> usize {
        let frame_bytes = 12 * self.setup.source.window().n_slots().max(1);
        if self.setup.source.n_tracked() == 0 {
            BLOCK_FRAMES
        } else {
            (BLOCK_BYTES / frame_bytes).clamp(1, BLOCK_FRAMES)
        }
    }

    fn n_blocks(&self) -> usize {
        self.frames.n_analyzed().div_ceil(self.block_frames())
    }

    /// Takes block after block until there is none left, or the pass is over for all.
    fn work(&self, shared: &Shared) {
        let _stop = StopOnPanic(shared);
        let mut buffers = Vec::new();
        loop {
            let block = shared.next_block.fetch_add(1, Ordering::Relaxed);
            if block >= self.n_blocks() || shared.lock().is_over {
                return;
            }
            let tallies = if self.control.cancelled.load(Ordering::Relaxed) {
                Err(Error::Cancelled)
            } else {
                self.block(block, shared, &mut buffers)
            };
            match tallies {
                Ok(Some(tallies)) => self.append(shared, block, tallies),
                Ok(None) => return,
                Err(error) => {
                    shared.lock().failure.get_or_insert(error);
                    return shared.stop();
                }
            }
        }
    }

    /// The tallies of a block, unless the pass is over meanwhile.
    fn block(&self, block: usize, shared: &Shared, buffers: &mut Vec<Frame>) -> Result<Option<Vec<AnyTally>>, Error> {
        let n_frames = self.block_frames();
        let analyzed = block * n_frames..((block + 1) * n_frames).min(self.frames.n_analyzed());
        let mut tallies = self.start();
        if self.setup.source.n_tracked() > 0 {
            return self.tracked_block(block, analyzed, shared, buffers, tallies);
        }
        buffers.resize_with(1, Frame::new);
        let frame = &mut buffers[0];
        for n in analyzed {
            self.setup.source.read(self.frames.trajectory, n * self.frames.stride, frame)?;
            self.feed(&View { frame, shifts: &[] }, &mut tallies);
        }
        Ok(Some(tallies))
    }

    /// The same, with molecules tracked. All frames of the block are read before the jumps up to it
    /// are waited for, so only that little is done one block after the other.
    fn tracked_block(
        &self,
        block: usize,
        analyzed: Range<usize>,
        shared: &Shared,
        buffers: &mut Vec<Frame>,
        mut tallies: Vec<AnyTally>,
    ) -> Result<Option<Vec<AnyTally>>, Error> {
        let (stride, trajectory) = (self.frames.stride, self.frames.trajectory);
        let (source, between) = (&self.setup.source, &self.setup.between);
        buffers.resize_with(analyzed.len() + 1, Frame::new);
        let (skipped, kept) = buffers.split_first_mut().expect("one buffer is for frames between");
        let mut centres = Vec::new();
        for n in analyzed.start * stride..(analyzed.end * stride).min(self.frames.n_frames) {
            if n % stride == 0 {
                let frame = &mut kept[n / stride - analyzed.start];
                source.read(trajectory, n, frame)?;
                centres.push(source.centres(frame));
            } else {
                between.read(trajectory, n, skipped)?;
                centres.push(between.centres(skipped));
            }
        }
        let Some(mut jumps) = shared.jumps_before(block) else { return Ok(None) };
        let mut shifts = Vec::new();
        for (n, centres) in centres.into_iter().enumerate() {
            jumps.step(centres);
            if n % stride == 0 {
                shifts.push(jumps.shifts(&kept[n / stride]));
            }
        }
        shared.pass_on(block + 1, jumps);
        for (frame, shifts) in kept.iter().zip(&shifts) {
            self.feed(&View { frame, shifts }, &mut tallies);
        }
        Ok(Some(tallies))
    }

    fn feed(&self, view: &View<'_>, tallies: &mut [AnyTally]) {
        for ((_, task), tally) in self.tasks.iter().zip(tallies) {
            task.frame(view, tally);
        }
    }

    /// Appends a block in its turn, and those that waited for it.
    fn append(&self, shared: &Shared, block: usize, tallies: Vec<AnyTally>) {
        let mut guard = shared.lock();
        let state = &mut *guard;
        state.waiting.insert(block, tallies);
        while let Some(next) = state.waiting.remove(&state.n_appended) {
            for (((_, task), total), next) in self.tasks.iter().zip(&mut state.total).zip(next) {
                task.append(total, next);
            }
            state.n_appended += 1;
        }
        let n_analyzed = self.frames.n_analyzed();
        let n_done = (state.n_appended * self.block_frames()).min(n_analyzed);
        (self.control.progress)(self.n_passes * n_analyzed + n_done, (self.n_passes + 1) * n_analyzed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits for the jumps of all frames before a block; none if the pass is over.
    fn jumps_before(&self, block: usize) -> Option<Jumps> {
        let waits = |state: &mut State| !state.is_over && state.jumps.0 != block;
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        (!state.is_over).then(|| state.jumps.1.clone())
    }

    fn pass_on(&self, block: usize, jumps: Jumps) {
        self.lock().jumps = (block, jumps);
        self.changed.notify_all();
    }
}

/// Ends the pass if its thread panics, so that no other waits for it forever.
struct StopOnPanic<'a>(&'a Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

/// What a function makes of each item, in the order of the items.
pub(crate) fn in_order<T: Sync, R: Send>(items: &[T], n_threads: usize, f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let taken = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < items.len());
        std::iter::from_fn(taken).map(|n| (n, f(&items[n]))).collect::<Vec<_>>()
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> = (1..n_threads.min(items.len())).map(|_| scope.spawn(work)).collect();
        let mut results = work();
        results.extend(others.into_iter().flat_map(|other| other.join().expect("the function does not panic")));
        results
    });
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}
