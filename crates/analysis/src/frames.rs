//! Which frames of a trajectory are analysed.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::read::{Frame, Series};
use crate::run::in_order;
use crate::source::Source;
use crate::table::Column;
use crate::{Error, Topology};

/// Frames that are looked at in a row for damage.
const BLOCK_FRAMES: usize = 256;

/// Frames of a trajectory that are analysed.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) trajectory: &'a Series,
    pub(crate) stride: usize,
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

    /// The frames after one of those that are analysed, up to the next, but for the damaged ones.
    pub(crate) fn after(&self, n: usize) -> impl Iterator<Item = usize> {
        let next = self.analyzed.get(n + 1).copied().unwrap_or(self.analyzed[n]);
        (self.analyzed[n] + 1..next).filter(|frame| self.left_out.binary_search(frame).is_err())
    }

    /// Columns that say which frame a row belongs to.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let index = self.analyzed.iter().map(|frame| *frame as i64).collect();
        let times: Option<Vec<f64>> = self.analyzed.iter().map(|frame| self.trajectory.time_ps(*frame)).collect();
        let mut columns = vec![Column::integers("frame", "frame of the trajectory, counted from 0", index)];
        columns.extend(times.map(|times| Column::numbers("time_ps", Some("ps"), "time of the frame", times)));
        columns
    }

    /// Time from one frame to the next of those that are analysed or were left out, in ps, if the
    /// trajectory tells it.
    pub(crate) fn interval_ps(&self) -> Option<f64> {
        let n_intervals = (self.trajectory.n_frames() - 1) / self.stride;
        let time_ps = |frame| self.trajectory.time_ps(frame);
        let span_ps = || Some(time_ps(n_intervals * self.stride)? - time_ps(0)?);
        if n_intervals == 0 { None } else { span_ps().map(|span_ps| nine_digits(span_ps / n_intervals as f64)) }
    }
}

/// A number without the noise that a difference leaves in its last digits.
fn nine_digits(x: f64) -> f64 {
    format!("{x:.8e}").parse().expect("a number is written as one")
}

/// Looks for damaged frames among those of a stride, which `source` reads, and, where molecules are
/// tracked, among those between, which `between` reads. Returns them in ascending order.
///
/// # Errors
///
/// [`Error::Io`] and [`Error::Cancelled`].
pub(crate) fn damaged_frames(
    trajectory: &Series,
    stride: usize,
    [source, between]: [&Source; 2],
    n_threads: usize,
    cancelled: &AtomicBool,
) -> Result<Vec<usize>, Error> {
    let step = if source.n_tracked() > 0 { 1 } else { stride };
    let last = (trajectory.n_frames() - 1) / stride * stride;
    let frames: Vec<usize> = (0..=last).step_by(step).collect();
    let blocks: Vec<_> = frames.chunks(BLOCK_FRAMES).collect();
    let found = in_order(&blocks, n_threads, |block| {
        let (mut damaged, mut frame) = (Vec::new(), Frame::new());
        for n in block.iter().copied() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let source = if n.is_multiple_of(stride) { source } else { between };
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
