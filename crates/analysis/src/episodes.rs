//! How often and how long something lasts.

use crate::frames::Frames;
use crate::source::Moment;
use crate::table::Column;

/// Frames in which something is there, as runs of frames in a row. Frames have their places in the
/// stride, so that one that is left out ends a run: what was there meanwhile is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Episodes {
    first: u32,
    last: u32,
    n_frames: u32,
    n_runs: u32,
    longest: u32,
    /// Runs that something else than an end cuts off: the trajectory ends, or a frame is left out.
    n_cut: u32,
    /// The first run and the last.
    head: Run,
    tail: Run,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    n_frames: u32,
    is_cut: bool,
}

impl Run {
    /// Both as one.
    fn joined(self, next: Self) -> Self {
        Self { n_frames: self.n_frames + next.n_frames, is_cut: self.is_cut || next.is_cut }
    }
}

impl Episodes {
    /// A single frame.
    pub(crate) fn at(Moment { place, is_cut }: Moment) -> Self {
        let run = Run { n_frames: 1, is_cut };
        Self {
            first: place,
            last: place,
            n_frames: 1,
            n_runs: 1,
            longest: 1,
            n_cut: u32::from(is_cut),
            head: run,
            tail: run,
        }
    }

    /// Adds later frames, or the last one again.
    pub(crate) fn append(&mut self, next: Self) {
        if next.first == self.last {
            return;
        }
        let joins = next.first == self.last + 1;
        self.longest = self.longest.max(next.longest);
        self.n_cut += next.n_cut;
        if joins {
            let joined = self.tail.joined(next.head);
            self.longest = self.longest.max(joined.n_frames);
            self.n_cut -= u32::from(self.tail.is_cut && next.head.is_cut);
            self.head = if self.n_runs == 1 { joined } else { self.head };
            self.tail = if next.n_runs == 1 { joined } else { next.tail };
        } else {
            self.tail = next.tail;
        }
        self.n_runs += next.n_runs - u32::from(joins);
        self.n_frames += next.n_frames;
        self.last = next.last;
    }

    pub(crate) fn n_frames(&self) -> u32 {
        self.n_frames
    }

    /// Columns that say how often and how long each of several things is there.
    pub(crate) fn columns<'a>(
        all: impl Iterator<Item = &'a Self> + Clone,
        frames: &Frames<'_>,
    ) -> Vec<Column> {
        let n_analyzed = frames.n_analyzed() as f64;
        let (unit, interval) =
            frames.interval_ps().map_or(("frames", 1.0), |interval| ("ps", interval));
        let occupancies = all.clone().map(|one| f64::from(one.n_frames) / n_analyzed);
        let means =
            all.clone().map(|one| interval * f64::from(one.n_frames) / f64::from(one.n_runs));
        let cut = all.clone().map(|one| i64::from(one.n_cut));
        let longest = all.clone().map(|one| interval * f64::from(one.longest));
        vec![
            Column::integers(
                "frames",
                "frames with one",
                all.clone().map(|one| one.n_frames.into()).collect(),
            ),
            Column::numbers(
                "occupancy",
                None,
                "part of the frames with one",
                occupancies.collect(),
            ),
            Column::integers(
                "episodes",
                "runs of frames in a row with one",
                all.clone().map(|one| one.n_runs.into()).collect(),
            ),
            Column::integers(
                "censored_episodes",
                "those of them that the first or the last frame, or one that is left out, cuts \
                 off, so that they are longer than they seem",
                cut.collect(),
            ),
            Column::numbers(
                format!("mean_lifetime_{unit}"),
                Some(unit),
                "mean length of an episode",
                means.collect(),
            ),
            Column::numbers(
                format!("longest_lifetime_{unit}"),
                Some(unit),
                "length of the longest episode",
                longest.collect(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Episodes, Moment};

    fn at(place: u32, is_cut: bool) -> Episodes {
        Episodes::at(Moment { place, is_cut })
    }

    #[test]
    fn runs_are_the_same_however_frames_are_cut_into_blocks() {
        let frames = [0, 1, 2, 5, 6, 9, 10, 11, 12, 13, 20];
        for cuts in 0..1_u32 << 5 {
            let starts: Vec<u32> =
                (0..5).filter(|n| cuts >> n & 1 == 1).map(|n| 2 + 3 * n).collect();
            let mut total: Option<Episodes> = None;
            for (from, to) in [0].iter().chain(&starts).zip(starts.iter().chain(&[30])) {
                let mut block: Option<Episodes> = None;
                for frame in frames.iter().filter(|frame| (from..to).contains(frame)) {
                    let here = at(*frame, [0, 6, 9, 20].contains(frame));
                    block.get_or_insert(here).append(here);
                }
                if let Some(block) = block {
                    match &mut total {
                        Some(total) => total.append(block),
                        None => total = Some(block),
                    }
                }
            }
            let total = total.unwrap();
            assert_eq!((total.n_frames, total.n_runs, total.longest), (11, 4, 5), "{starts:?}");
            assert_eq!(total.n_cut, 4, "{starts:?}");
        }
    }

    #[test]
    fn a_run_that_is_cut_on_both_sides_counts_once() {
        let frames = [(3, true), (4, false), (5, true), (8, false)];
        let mut total = at(0, true);
        frames.iter().for_each(|(place, is_cut)| total.append(at(*place, *is_cut)));
        assert_eq!((total.n_runs, total.n_cut, total.longest), (3, 2, 3));
    }

    #[test]
    fn a_frame_again_changes_nothing() {
        let mut twice = at(3, true);
        for again in [at(3, true), at(4, false), at(4, false)] {
            twice.append(again);
        }
        assert_eq!((twice.n_frames, twice.n_runs, twice.n_cut), (2, 1, 1));
    }
}
