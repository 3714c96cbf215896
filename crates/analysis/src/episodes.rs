//! How often and how long something lasts.

use crate::frames::Frames;
use crate::table::Column;

/// Frames in which something is there, as runs of frames in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Episodes {
    first: u32,
    last: u32,
    n_frames: u32,
    n_runs: u32,
    longest: u32,
    /// Lengths of the first run and of the last.
    head: u32,
    tail: u32,
}

impl Episodes {
    pub(crate) fn at(frame: u32) -> Self {
        Self { first: frame, last: frame, n_frames: 1, n_runs: 1, longest: 1, head: 1, tail: 1 }
    }

    /// Adds later frames, or the last one again.
    pub(crate) fn append(&mut self, next: Self) {
        if next.first == self.last {
            return;
        }
        let joins = next.first == self.last + 1;
        let joined = if joins { self.tail + next.head } else { 0 };
        self.longest = self.longest.max(next.longest).max(joined);
        self.head = if joins && self.n_runs == 1 { joined } else { self.head };
        self.tail = if joins && next.n_runs == 1 { joined } else { next.tail };
        self.n_runs += next.n_runs - u32::from(joins);
        self.n_frames += next.n_frames;
        self.last = next.last;
    }

    /// The same, `by` frames later.
    pub(crate) fn shifted(self, by: u32) -> Self {
        Self { first: self.first + by, last: self.last + by, ..self }
    }

    pub(crate) fn n_frames(&self) -> u32 {
        self.n_frames
    }

    /// Runs that began before the first frame or end after the last.
    fn n_cut(&self, last: u32) -> u32 {
        (u32::from(self.first == 0) + u32::from(self.last == last)).min(self.n_runs)
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
        let last = frames.n_analyzed().saturating_sub(1) as u32;
        let cut = all.clone().map(|one| i64::from(one.n_cut(last)));
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
                "those of them that the first or the last frame cuts off, so that they are longer \
                 than they seem",
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
    use super::Episodes;

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
                    let here = Episodes::at(frame - from);
                    block.get_or_insert(here).append(here);
                }
                if let Some(block) = block.map(|block| block.shifted(*from)) {
                    match &mut total {
                        Some(total) => total.append(block),
                        None => total = Some(block),
                    }
                }
            }
            let total = total.unwrap();
            assert_eq!((total.n_frames, total.n_runs, total.longest), (11, 4, 5), "{starts:?}");
        }
    }
}
