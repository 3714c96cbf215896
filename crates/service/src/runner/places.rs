//! Places in the queues, and when what waits there is expected to start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use molbox::workflow::types::QueuePlace;

use crate::queue::{Line, Start, Waiting};
use crate::record::Lane;

/// What times are rounded up to, in s: a forecast is not better, and records that are watched would
/// change all the time.
const GRAIN_SECONDS: i64 = 60;

/// What is known of the queue of each lane. The runner renews it.
#[derive(Default)]
pub(crate) struct Queues(Mutex<[Arc<Known>; 2]>);

/// The queue of a lane as it was at a time.
#[derive(Default)]
struct Known {
    at: Timestamp,
    line: Line,
    /// All that wait, also those that are too many to be in the line.
    length: usize,
    /// By the identifiers of tasks.
    places: HashMap<String, QueuePlace>,
}

impl Queues {
    /// Where a task waits; none while it is not known, and of one that does not wait.
    pub(crate) fn place(&self, lane: Lane, id: &str) -> Option<QueuePlace> {
        self.known(lane).places.get(id).cloned()
    }

    /// Where another task of an account would wait, of this priority, that has a slot for so long,
    /// in s; none while more wait than are looked at.
    pub(crate) fn place_of_new(
        &self,
        lane: Lane,
        account: i64,
        priority: i64,
        seconds: Option<f64>,
    ) -> Option<QueuePlace> {
        let known = self.known(lane);
        let (mut line, length) = (known.line.clone(), known.length + 1);
        line.waiting.push(Waiting { id: String::new(), account, priority, seconds });
        if line.waiting.len() < length {
            return None;
        }
        let starts = line.forecast();
        let position = starts.iter().position(|start| start.id.is_empty())?;
        Some(shown(position, length, &starts[position], known.at))
    }

    /// Replaces what is known of a lane.
    pub(super) fn renew(&self, lane: Lane, line: Line, length: usize, at: Timestamp) {
        let starts = line.forecast();
        let places = starts.iter().enumerate();
        let places =
            places.map(|(position, start)| (start.id.clone(), shown(position, length, start, at)));
        let known = Arc::new(Known { at, length, places: places.collect(), line });
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[lane as usize] = known;
    }

    /// Forgets what was known of all lanes.
    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }

    fn known(&self, lane: Lane) -> Arc<Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[lane as usize].clone()
    }
}

fn shown(position: usize, length: usize, start: &Start, now: Timestamp) -> QueuePlace {
    QueuePlace {
        position: position as u64 + 1,
        length: length as u64,
        expected_start_at: start.seconds.and_then(|seconds| moment(now, seconds)),
        extra: Default::default(),
    }
}

/// A time from now, in whole minutes; none of one that no calendar has.
fn moment(now: Timestamp, seconds: f64) -> Option<String> {
    let at = now.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()?.as_second();
    let rounded = (at + GRAIN_SECONDS - 1).div_euclid(GRAIN_SECONDS) * GRAIN_SECONDS;
    Timestamp::from_second(rounded).ok().map(|at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Running;
    use crate::record::PRIORITY;

    #[test]
    fn times_are_whole_minutes_and_a_new_task_has_the_place_that_it_would_have() {
        let queues = Queues::default();
        let new = |account, seconds| queues.place_of_new(Lane::Workers, account, PRIORITY, seconds);
        assert_eq!(new(1, Some(1.0)), None, "nothing is known yet");
        let line = Line {
            slots: 1,
            running: vec![Running { account: 1, elapsed: 0.0, left: Some(61.0) }],
            waiting: vec![Waiting {
                id: "job_a".to_owned(),
                account: 1,
                priority: PRIORITY,
                seconds: Some(600.0),
            }],
            ..Line::default()
        };
        queues.renew(Lane::Workers, line.clone(), 1, "2026-01-31T12:00:30Z".parse().unwrap());
        let place = queues.place(Lane::Workers, "job_a").unwrap();
        assert_eq!((place.position, place.length), (1, 1));
        assert_eq!(place.expected_start_at.as_deref(), Some("2026-01-31T12:02:00Z"));
        assert_eq!(queues.place(Lane::Analyses, "job_a"), None);
        // Another account's turn comes before that of one that has been served.
        let mine = new(1, Some(1.0)).unwrap();
        let other = new(2, Some(1.0)).unwrap();
        assert_eq!((mine.position, mine.length), (2, 2));
        assert_eq!(mine.expected_start_at.as_deref(), Some("2026-01-31T12:12:00Z"));
        assert_eq!((other.position, other.length), (1, 2));
        let urgent = queues.place_of_new(Lane::Workers, 1, PRIORITY + 1, None).unwrap();
        assert_eq!(urgent.position, 1, "before its own account's others");
        queues.renew(Lane::Workers, line, 7, Timestamp::UNIX_EPOCH);
        assert_eq!(new(1, None), None, "not all are looked at");
        queues.clear();
        assert_eq!(queues.place(Lane::Workers, "job_a"), None);
    }
}
