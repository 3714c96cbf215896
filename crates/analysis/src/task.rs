//! What an analysis is to the pass over a trajectory.

use std::any::Any;

use crate::frames::Frames;
use crate::points::Points;
use crate::source::View;
use crate::table::Table;
use crate::warning::Warning;

/// An analysis as it runs: a tally is started for each block of frames, fed frame by frame, and
/// appended to that of the blocks before. Blocks do not depend on the number of threads and are
/// appended in order, so the results do not either.
pub(crate) trait Task: Send + Sync {
    /// What a block of frames yields.
    type Tally: Send + 'static;

    fn start(&self) -> Self::Tally;

    fn frame(&self, view: &View<'_>, tally: &mut Self::Tally);

    fn append(&self, tally: &mut Self::Tally, next: Self::Tally);

    fn finish(&self, tally: Self::Tally, frames: &Frames<'_>) -> Outcome;

    /// What it found on its way to the first frame.
    fn warnings(&self, _analysis: usize) -> Vec<Warning> {
        Vec::new()
    }
}

/// What is to be done after a pass over all frames.
pub(crate) enum Outcome {
    /// Nothing: these are the results.
    Tables(Vec<Table>),
    /// Another pass, with another task.
    Again(Box<dyn AnyTask>),
}

/// Any [`Task`], with its tally in a box.
pub(crate) trait AnyTask: Send + Sync {
    fn start(&self) -> AnyTally;
    fn frame(&self, view: &View<'_>, tally: &mut AnyTally);
    fn append(&self, tally: &mut AnyTally, next: AnyTally);
    fn finish(&self, tally: AnyTally, frames: &Frames<'_>) -> Outcome;
    fn warnings(&self, analysis: usize) -> Vec<Warning>;
}

/// Tasks, each with the place of its analysis in the request.
pub(crate) type Tasks = Vec<(usize, Box<dyn AnyTask>)>;

pub(crate) type AnyTally = Box<dyn Any + Send>;

const OWN: &str = "a task is given the tallies that it started";

impl<T: Task> AnyTask for T {
    fn start(&self) -> AnyTally {
        Box::new(Task::start(self))
    }

    fn frame(&self, view: &View<'_>, tally: &mut AnyTally) {
        Task::frame(self, view, tally.downcast_mut().expect(OWN));
    }

    fn append(&self, tally: &mut AnyTally, next: AnyTally) {
        Task::append(self, tally.downcast_mut().expect(OWN), *next.downcast().expect(OWN));
    }

    fn finish(&self, tally: AnyTally, frames: &Frames<'_>) -> Outcome {
        Task::finish(self, *tally.downcast().expect(OWN), frames)
    }

    fn warnings(&self, analysis: usize) -> Vec<Warning> {
        Task::warnings(self, analysis)
    }
}

/// An analysis that gives some numbers for each frame and needs nothing of other frames.
pub(crate) trait PerFrame: Send + Sync {
    /// Adds the numbers of a frame; `points` is room for positions.
    fn values(&self, view: &View<'_>, points: &mut Points, values: &mut Vec<f64>);

    /// The result, from the numbers of all frames one after the other.
    fn table(&self, values: Vec<f64>, frames: &Frames<'_>) -> Table;
}

/// Numbers of the frames so far.
#[derive(Debug, Default)]
pub(crate) struct Series {
    values: Vec<f64>,
    points: Points,
}

impl<T: PerFrame> Task for T {
    type Tally = Series;

    fn start(&self) -> Series {
        Series::default()
    }

    fn frame(&self, view: &View<'_>, series: &mut Series) {
        self.values(view, &mut series.points, &mut series.values);
    }

    fn append(&self, series: &mut Series, next: Series) {
        series.values.extend(next.values);
    }

    fn finish(&self, series: Series, frames: &Frames<'_>) -> Outcome {
        Outcome::Tables(vec![self.table(series.values, frames)])
    }
}
