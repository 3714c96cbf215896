//! Which frames of a trajectory are analysed.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::parallel::in_order;
use crate::read::{Frame, Series};
use crate::source::{Moment, Source};
use crate::table::Column;
use crate::warning::Warning;
use crate::{Error, Topology};

/// Analysed frames that a thread takes at once.
pub(crate) const BLOCK_FRAMES: usize = 32;

/// Frames that a thread searches for damage at once.
const SEARCHED_FRAMES: usize = 256;

/// The frames to be analysed: `first`, `first + stride` and so on, up to `last`, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRange {
    /// The first.
    pub first: usize,
    /// The last that may be; none for the last of the trajectory, which a larger one stands for
    /// too.
    pub last: Option<usize>,
    /// Steps from one to the next.
    pub stride: NonZeroUsize,
}

impl FrameRange {
    /// All frames of a stride.
    pub fn every(stride: NonZeroUsize) -> Self {
        Self { first: 0, last: None, stride }
    }

    /// Those that a trajectory of so many frames has.
    pub(crate) fn of(&self, n_frames: usize) -> impl ExactSizeIterator<Item = usize> + use<> {
        let end = self.last.map_or(n_frames, |last| n_frames.min(last.saturating_add(1)));
        (self.first..end).step_by(self.stride.get())
    }
}

impl Default for FrameRange {
    fn default() -> Self {
        Self::every(NonZeroUsize::MIN)
    }
}

/// Frames of a trajectory that are analysed.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) trajectory: &'a Series,
    pub(crate) range: FrameRange,
    pub(crate) n_threads: usize,
    /// Those that are analysed, ascending; at least one.
    pub(crate) analyzed: Vec<usize>,
    /// Those that are passed over because they are damaged, ascending.
    pub(crate) left_out: Vec<usize>,
}

impl Frames<'_> {
    pub(crate) fn n_analyzed(&self) -> usize {
        self.analyzed.len()
    }

    /// The n-th of those that are analysed in its place. It is cut off by the ends of the stride and
    /// by frames that are left out.
    pub(crate) fn moment(&self, n: usize) -> Moment {
        let place = |n: usize| (self.analyzed[n] - self.range.first) / self.range.stride;
        let here = place(n);
        let is_after = n > 0 && place(n - 1) + 1 == here;
        let is_before = n + 1 < self.n_analyzed() && place(n + 1) == here + 1;
        Moment { place: here as u32, is_cut: !(is_after && is_before) }
    }

    /// The frames after one of those that are analysed, up to the next, but for the damaged ones.
    pub(crate) fn after(&self, n: usize) -> impl Iterator<Item = usize> {
        let next = self.analyzed.get(n + 1).copied().unwrap_or(self.analyzed[n]);
        (self.analyzed[n] + 1..next).filter(|frame| self.left_out.binary_search(frame).is_err())
    }

    /// Columns that say which frame a row belongs to.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let index = self.analyzed.iter().map(|frame| *frame as i64).collect();
        let times: Option<Vec<f64>> =
            self.analyzed.iter().map(|frame| self.trajectory.time_ps(*frame)).collect();
        let mut columns =
            vec![Column::integers("frame", "frame of the trajectory, counted from 0", index)];
        columns.extend(
            times.map(|times| Column::numbers("time_ps", Some("ps"), "time of the frame", times)),
        );
        columns
    }

    /// Time from one frame to the next of those that are analysed or were left out, in ps, if the
    /// trajectory has times, and they are equal steps.
    pub(crate) fn interval_ps(&self) -> Option<f64> {
        even_step(&self.times_ps()?).map(nine_digits)
    }

    /// What is to be known of the steps between frames that have times.
    pub(crate) fn warning_of_steps(&self) -> Option<Warning> {
        let times = self.times_ps().filter(|times| times.len() > 2)?;
        match Steps::of(&times)? {
            Steps::Even(_) => None,
            Steps::Rounded { step, spacing, is_known } => Some(Warning::RoundedTimes {
                spacing_ps: spacing,
                step_ps: is_known.then(|| three_digits(step)),
            }),
            Steps::Uneven => Some(Warning::UnevenTimes),
        }
    }

    fn times_ps(&self) -> Option<Vec<f64>> {
        let frames = self.range.of(self.trajectory.n_frames());
        frames.map(|frame| self.trajectory.time_ps(frame)).collect()
    }
}

/// How far a time may be from where equal steps have it, and a step from what it is, as a part of a
/// step.
const OFF_STEP: f64 = 0.05;

/// What times are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Steps {
    /// Equal steps.
    Even(f64),
    /// Equal steps, as far as 32 bits tell, which XTC files have: a billion ps are known to 64 ps.
    Rounded {
        step: f64,
        /// From one number of 32 bits to the next.
        spacing: f64,
        /// Whether what was rounded is little of all steps together.
        is_known: bool,
    },
    Uneven,
}

impl Steps {
    /// None of a single time.
    fn of(times: &[f64]) -> Option<Self> {
        let (first, last) = (*times.first()?, *times.last()?);
        let n_steps = times.len().checked_sub(1).filter(|n| *n > 0)?;
        let step = (last - first) / n_steps as f64;
        let off = times.iter().enumerate().map(|(nth, time)| {
            let expected = first + step * nth as f64;
            (time - expected).abs()
        });
        let off = off.fold(0.0, f64::max);
        let largest = first.abs().max(last.abs());
        Some(if off <= OFF_STEP * step {
            Self::Even(step)
        } else if off <= OFF_STEP * step + f64::from(f32::EPSILON) * largest {
            let largest = largest as f32;
            let spacing = f64::from(largest.next_up()) - f64::from(largest);
            Self::Rounded { step, spacing, is_known: spacing <= OFF_STEP * (last - first) }
        } else {
            Self::Uneven
        })
    }
}

/// The step between times, if they are equal, as far as is known.
pub(crate) fn even_step(times: &[f64]) -> Option<f64> {
    match Steps::of(times)? {
        Steps::Even(step) | Steps::Rounded { step, is_known: true, .. } => Some(step),
        Steps::Rounded { .. } | Steps::Uneven => None,
    }
}

/// What is known of a step that was made of rounded times.
fn three_digits(x: f64) -> f64 {
    format!("{x:.2e}").parse().expect("a number is written as one")
}

/// A number without the noise that a difference leaves in its last digits.
fn nine_digits(x: f64) -> f64 {
    format!("{x:.8e}").parse().expect("a number is written as one")
}

/// Looks for damaged frames among those of a stride, which `source` reads, and, where molecules are
/// tracked, among the frames that the stride skips, which `skipped` reads. Returns them in
/// ascending order.
///
/// # Errors
///
/// [`Error::Io`] and [`Error::Cancelled`].
pub(crate) fn damaged_frames(
    trajectory: &Series,
    range: &FrameRange,
    [source, skipped]: [&Source; 2],
    n_threads: usize,
    cancelled: &AtomicBool,
) -> Result<Vec<usize>, Error> {
    let step = if source.n_tracked() > 0 { 1 } else { range.stride.get() };
    let Some(last) = range.of(trajectory.n_frames()).last() else { return Ok(Vec::new()) };
    let frames: Vec<usize> = (range.first..=last).step_by(step).collect();
    let blocks: Vec<_> = frames.chunks(SEARCHED_FRAMES).collect();
    let found = in_order(&blocks, n_threads, |block| {
        let mut damaged = Vec::new();
        let mut frame = Frame::new();
        for n in block.iter().copied() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let source =
                if (n - range.first).is_multiple_of(range.stride.get()) { source } else { skipped };
            match source.read(trajectory, n, &mut frame) {
                Ok(()) => {}
                Err(error) if error.is_of_a_frame() => damaged.push(n),
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    });
    Ok(found.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}
