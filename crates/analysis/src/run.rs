//! One pass over a trajectory for all that is asked of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Serialize;

use crate::frames::BLOCK_FRAMES;
use crate::prepare::{prepare, tasks};
use crate::read::{Frame, Series};
use crate::request::{Control, Request};
use crate::residues::ResidueAxis;
use crate::setup::Setup;
use crate::source::{Unwrapping, View};
use crate::table::Table;
use crate::task::{AnyTally, Outcome, Tasks};
use crate::warning::Warning;
use crate::{Error, Topology};

/// Bytes of coordinates that a thread keeps at most, unless a single frame takes more.
const BLOCK_BYTES: usize = 8 << 20;

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Tables of all analyses, in the order of the request.
    pub tables: Vec<Table>,
    /// What the user should know about the numbers.
    pub warnings: Vec<Warning>,
    /// Whole frames in the trajectory.
    pub n_frames: usize,
    /// Frames that were analysed.
    pub n_analyzed: usize,
    /// Steps between them.
    pub stride: usize,
    /// What figures show along residues; empty where no table is drawn along them.
    #[serde(skip)]
    pub residues: ResidueAxis,
}

/// Makes all analyses of a request.
///
/// The frames are those that the trajectory had when it was opened or last looked at, so one that
/// is still growing gives a report on the frames so far. At most a few frames and the results are
/// held in memory.
///
/// # Errors
///
/// [`Error::AtomCount`], [`Error::NoFrames`], [`Error::NoSuchFrame`], [`Error::EmptyGroup`],
/// [`Error::NotInReference`], [`Error::NoMass`], [`Error::NoRotation`],
/// [`Error::NoHydrogenBonds`], [`Error::NoRadius`], [`Error::NoHead`] and [`Error::Parameter`] for
/// what cannot be analysed, [`Error::Io`], [`Error::Format`] and [`Error::Damaged`] from reading,
/// and [`Error::Cancelled`].
pub fn analyze(
    topology: &Topology,
    trajectory: &Series,
    request: &Request,
    control: &Control<'_>,
) -> Result<Report, Error> {
    let report = prepare(topology, trajectory, request, control)
        .and_then(|setup| run(setup, request, control));
    report.map_err(|mut error| {
        error.label(topology);
        error
    })
}

fn run(setup: Setup<'_>, request: &Request, control: &Control<'_>) -> Result<Report, Error> {
    let mut tasks = tasks(request, &setup)?;
    let of_tasks: Vec<Warning> =
        tasks.iter().flat_map(|(analysis, task)| task.warnings(*analysis)).collect();
    let mut tables: Vec<(usize, Vec<Table>)> = Vec::new();
    let mut n_passes = 0;
    while !tasks.is_empty() {
        let tallies = Pass { setup: &setup, tasks: &tasks, control, n_passes }.run()?;
        let mut again = Vec::new();
        for ((analysis, task), tally) in tasks.into_iter().zip(tallies) {
            match task.finish(tally, &setup.frames) {
                Outcome::Tables(results) => tables.push((analysis, results)),
                Outcome::Again(task) => again.push((analysis, task)),
            }
        }
        tasks = again;
        n_passes += 1;
    }
    tables.sort_by_key(|(analysis, _)| *analysis);
    let tables = tables.into_iter().flat_map(|(analysis, tables)| {
        tables.into_iter().map(move |table| Table { analysis, ..table })
    });
    let mut tables = numbered(tables.collect());
    let groups = tables.iter_mut().flat_map(|table| &mut table.groups);
    groups.for_each(|group| group.name_ends(setup.frames.topology));
    tables.iter().try_for_each(Table::check)?;
    let residues = ResidueAxis::of(&tables, &setup);
    let mut warnings = setup.warnings;
    warnings.extend(of_tasks);
    if setup.source.has_mended() || setup.skipped.has_mended() {
        warnings.push(Warning::BrokenMolecules);
    }
    Ok(Report {
        residues,
        tables,
        n_frames: setup.frames.trajectory.n_frames(),
        n_analyzed: setup.frames.n_analyzed(),
        stride: setup.frames.range.stride.get(),
        warnings,
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
    unwrapping: (usize, Unwrapping),
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
                unwrapping: (0, Unwrapping::starting(self.setup.images.clone())),
                failure: None,
                is_over: false,
            }),
            changed: Condvar::new(),
        };
        let n_threads = self.setup.frames.n_threads.min(self.n_blocks());
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
        let frame_bytes = 12 * self.setup.source.read_plan().n_slots().max(1);
        if self.setup.source.n_tracked() == 0 {
            BLOCK_FRAMES
        } else {
            (BLOCK_BYTES / frame_bytes).clamp(1, BLOCK_FRAMES)
        }
    }

    fn n_blocks(&self) -> usize {
        self.setup.frames.n_analyzed().div_ceil(self.block_frames())
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
    fn block(
        &self,
        block: usize,
        shared: &Shared,
        buffers: &mut Vec<Frame>,
    ) -> Result<Option<Vec<AnyTally>>, Error> {
        let n_frames = self.block_frames();
        let analyzed =
            block * n_frames..((block + 1) * n_frames).min(self.setup.frames.n_analyzed());
        let mut tallies = self.start();
        if self.setup.source.n_tracked() > 0 {
            return self.tracked_block(block, analyzed, shared, buffers, tallies);
        }
        buffers.resize_with(1, Frame::new);
        let frame = &mut buffers[0];
        let frames = &self.setup.frames;
        for n in analyzed {
            self.setup.source.read(frames.trajectory, frames.analyzed[n], frame)?;
            self.feed(&View { frame, shifts: &[], now: frames.moment(n) }, &mut tallies);
        }
        Ok(Some(tallies))
    }

    /// The same, with molecules tracked. All frames of the block are read before the state up to it
    /// are waited for, so only that little is done one block after the other.
    fn tracked_block(
        &self,
        block: usize,
        analyzed: Range<usize>,
        shared: &Shared,
        buffers: &mut Vec<Frame>,
        mut tallies: Vec<AnyTally>,
    ) -> Result<Option<Vec<AnyTally>>, Error> {
        let Setup { source, skipped, frames, .. } = self.setup;
        buffers.resize_with(analyzed.len() + 1, Frame::new);
        let (skipped_frame, kept) =
            buffers.split_first_mut().expect("one buffer is for skipped frames");
        let mut centres = Vec::new();
        for (nth, n) in analyzed.clone().enumerate() {
            let frame = &mut kept[nth];
            source.read(frames.trajectory, frames.analyzed[n], frame)?;
            centres.push((source.centres(frame), true));
            // Those after it, up to the next block.
            for n in frames.after(n) {
                skipped.read(frames.trajectory, n, skipped_frame)?;
                centres.push((skipped.centres(skipped_frame), false));
            }
        }
        let Some(mut unwrapping) = shared.unwrapping_before(block) else { return Ok(None) };
        let mut shifts = Vec::new();
        for (centres, is_analyzed) in centres {
            unwrapping.step(centres);
            if is_analyzed {
                shifts.push(unwrapping.shifts(&kept[shifts.len()]));
            }
        }
        shared.pass_on(block + 1, unwrapping);
        for ((frame, shifts), n) in kept.iter().zip(&shifts).zip(analyzed) {
            self.feed(&View { frame, shifts, now: frames.moment(n) }, &mut tallies);
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
        let n_analyzed = self.setup.frames.n_analyzed();
        let n_done = (state.n_appended * self.block_frames()).min(n_analyzed);
        (self.control.progress)(
            self.n_passes * n_analyzed + n_done,
            (self.n_passes + 1) * n_analyzed,
        );
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

    /// Waits until molecules are unwrapped up to a block; none if the pass is over.
    fn unwrapping_before(&self, block: usize) -> Option<Unwrapping> {
        let state = self
            .changed
            .wait_while(self.lock(), |state| !state.is_over && state.unwrapping.0 != block)
            .unwrap_or_else(PoisonError::into_inner);
        (!state.is_over).then(|| state.unwrapping.1.clone())
    }

    fn pass_on(&self, block: usize, unwrapping: Unwrapping) {
        self.lock().unwrapping = (block, unwrapping);
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
