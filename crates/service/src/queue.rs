//! Whose task starts next, and when those that wait will.
//!
//! A slot that becomes free goes to the account that was served least of late: the time that its
//! tasks have had slots, in this lane, of which half is forgotten every day. So one that submits
//! much does not keep the others waiting, and one that had the machine while nobody else wanted it
//! is not punished for long. An account of weight 2 counts half of its time, and so gets twice as
//! much of what others wait for, too. Of one account
//! the task of the highest priority is next, of equal ones the oldest; between accounts priorities
//! decide nothing.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Time in which half of what an account was served is forgotten, in s.
const HALF_LIFE_SECONDS: f64 = 86_400.0;
/// What a task that has just begun counts, in s, lest slots that become free at the same moment all
/// go to one account.
const LEAST_SECONDS: f64 = 60.0;
/// How long a task is taken to last of which nothing is known, in s: it orders those behind it.
const GUESS_SECONDS: f64 = 600.0;

/// How long an account had slots, as it counted at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Served {
    pub(crate) seconds: f64,
    pub(crate) at: Timestamp,
}

impl Served {
    /// What it counts at another time.
    pub(crate) fn seconds_at(&self, now: Timestamp) -> f64 {
        let since = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.seconds * (-since / HALF_LIFE_SECONDS).exp2()
    }

    /// Its place among others, at any time: what two count is halved alike. Positive, and 0 is what
    /// was never served; two that differ by less than a millionth may share one.
    pub(crate) fn rank(&self) -> i64 {
        if self.seconds <= 0.0 {
            return 0;
        }
        let halvings = self.at.as_second() as f64 / HALF_LIFE_SECONDS;
        (((self.seconds.log2() + halvings) * 1e6).round() as i64).max(1)
    }
}

/// An account that waits, as far as it matters whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// What it was served, in s for each part of its weight, with what runs.
    pub(crate) served: f64,
    pub(crate) running: usize,
    /// Number of its oldest task.
    pub(crate) oldest: i64,
}

impl Claim {
    /// The claim of an account that was served so much before, with tasks that run for so long, s.
    pub(crate) fn new(
        served: f64,
        running: impl Iterator<Item = f64> + Clone,
        weight: f64,
        oldest: i64,
    ) -> Self {
        let now: f64 = running.clone().map(|elapsed| elapsed.max(LEAST_SECONDS)).sum();
        Self { served: served + now / weight, running: running.count(), oldest }
    }

    /// Less for the one whose turn it is.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let by_tasks = (self.running, self.oldest).cmp(&(other.running, other.oldest));
        self.served.total_cmp(&other.served).then(by_tasks)
    }
}

/// A task that has a slot.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) account: i64,
    /// How long it has had it, in s.
    pub(crate) elapsed: f64,
    /// How long it will, in s, if that is known.
    pub(crate) left: Option<f64>,
}

/// A task that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) account: i64,
    /// Among those of its account: the highest is next.
    pub(crate) priority: i64,
    /// How long it will have a slot, in s, if that is known.
    pub(crate) seconds: Option<f64>,
}

/// A lane with what runs and waits there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) slots: usize,
    pub(crate) running: Vec<Running>,
    /// Oldest first.
    pub(crate) waiting: Vec<Waiting>,
    /// What accounts were served, in s, without what runs.
    pub(crate) served: BTreeMap<i64, f64>,
    /// Weights of accounts; 1 of one that is not there.
    pub(crate) weights: BTreeMap<i64, f64>,
}

/// When a task starts, if all goes on as it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Start {
    pub(crate) id: String,
    /// In s from now; none when it waits for one of which nobody knows how long it lasts.
    pub(crate) seconds: Option<f64>,
}

/// An account in a forecast.
#[derive(Default)]
struct Account<'a> {
    served: f64,
    weight: f64,
    /// From when to when its tasks have slots, in s from now.
    slots: Vec<(f64, f64)>,
    /// What waits, the next one last, with its number.
    waiting: Vec<(usize, &'a Waiting)>,
    /// The numbers of what waits.
    numbers: BTreeSet<usize>,
}

impl Line {
    /// What waits, in the order in which it starts.
    pub(crate) fn forecast(&self) -> Vec<Start> {
        let mut accounts: BTreeMap<i64, Account<'_>> = BTreeMap::new();
        // When each slot becomes free, and whether that is known.
        let mut slots = Vec::with_capacity(self.slots);
        for task in &self.running {
            let end = task.left.unwrap_or(GUESS_SECONDS);
            slots.push((end, task.left.is_some()));
            accounts.entry(task.account).or_default().slots.push((-task.elapsed, end));
        }
        slots.resize(self.slots.max(slots.len()), (0.0, true));
        for (number, task) in self.waiting.iter().enumerate() {
            let account = accounts.entry(task.account).or_default();
            account.waiting.push((number, task));
            account.numbers.insert(number);
        }
        for (id, account) in &mut accounts {
            account.served = self.served.get(id).copied().unwrap_or(0.0);
            account.weight = self.weights.get(id).copied().unwrap_or(1.0);
            account.waiting.sort_by_key(|(number, task)| (task.priority, Reverse(*number)));
        }
        let mut starts = Vec::with_capacity(self.waiting.len());
        while let Some(slot) = slots.iter_mut().min_by(|one, other| one.0.total_cmp(&other.0)) {
            let now = slot.0;
            let Some(next) = turn(&mut accounts, now) else { break };
            let Some((number, task)) = next.waiting.pop() else { break };
            next.numbers.remove(&number);
            starts.push(Start { id: task.id.clone(), seconds: slot.1.then_some(now) });
            slot.0 += task.seconds.unwrap_or(GUESS_SECONDS);
            slot.1 &= task.seconds.is_some();
            next.slots.push((now, slot.0));
        }
        starts
    }
}

/// The account whose turn it is at a time.
fn turn<'a, 'b>(
    accounts: &'a mut BTreeMap<i64, Account<'b>>,
    now: f64,
) -> Option<&'a mut Account<'b>> {
    let waiting = accounts.values_mut().filter_map(|account| {
        let oldest = *account.numbers.first()?;
        let ended = account.slots.extract_if(.., |(_, end)| *end <= now);
        account.served += ended.map(|(start, end)| end - start).sum::<f64>() / account.weight;
        let elapsed = account.slots.iter().map(|(start, _)| now - start);
        Some((Claim::new(account.served, elapsed, account.weight, oldest as i64), account))
    });
    Some(waiting.min_by(|(one, _), (other, _)| one.order(other))?.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PRIORITY;

    fn waiting(account: i64, id: &str, seconds: impl Into<Option<f64>>) -> Waiting {
        Waiting { id: id.to_owned(), account, priority: PRIORITY, seconds: seconds.into() }
    }

    fn of_priority(priority: i64, task: Waiting) -> Waiting {
        Waiting { priority, ..task }
    }

    fn starts(line: &Line) -> Vec<(String, Option<f64>)> {
        line.forecast().into_iter().map(|start| (start.id, start.seconds)).collect()
    }

    fn named(expected: &[(&str, Option<f64>)]) -> Vec<(String, Option<f64>)> {
        expected.iter().map(|(id, seconds)| ((*id).to_owned(), *seconds)).collect()
    }

    #[test]
    fn with_one_slot_who_submits_much_does_not_keep_the_others_waiting() {
        let line = Line {
            slots: 1,
            running: vec![Running { account: 1, elapsed: 100.0, left: Some(50.0) }],
            waiting: vec![
                waiting(1, "a1", 100.0),
                waiting(1, "a2", 100.0),
                waiting(2, "b1", 300.0),
                waiting(3, "c1", 100.0),
                waiting(2, "b2", 100.0),
            ],
            ..Line::default()
        };
        // One has 150 s when the slot is free, the others nothing; then three has 100, two 300.
        let expected = [("b1", 50.0), ("c1", 350.0), ("a1", 450.0), ("a2", 550.0), ("b2", 650.0)];
        assert_eq!(starts(&line), named(&expected.map(|(id, at)| (id, Some(at)))));
    }

    #[test]
    fn of_two_who_wait_one_of_weight_two_is_served_twice_as_long() {
        let tasks: Vec<Waiting> = (0..6)
            .flat_map(|nth| {
                [waiting(1, &format!("a{nth}"), 100.0), waiting(2, &format!("b{nth}"), 100.0)]
            })
            .collect();
        let weights = BTreeMap::from([(2, 2.0)]);
        let line = Line { slots: 1, waiting: tasks, weights, ..Line::default() };
        let order: Vec<String> = starts(&line).into_iter().map(|(id, _)| id).collect();
        let of_two = |n: usize| order[..n].iter().filter(|id| id.starts_with('b')).count();
        assert_eq!((of_two(3), of_two(6), of_two(9)), (2, 4, 6), "{order:?}");
    }

    #[test]
    fn priorities_order_what_one_account_has_waiting_and_nothing_between_accounts() {
        let without = Line {
            slots: 1,
            waiting: [(1, "a1"), (2, "b1"), (1, "a2"), (2, "b2"), (1, "a3")]
                .map(|(account, id)| waiting(account, id, 100.0))
                .to_vec(),
            ..Line::default()
        };
        let mut with = without.clone();
        for (nth, priority) in [(0, 49), (2, 50), (4, 100)] {
            with.waiting[nth] = of_priority(priority, with.waiting[nth].clone());
        }
        let order =
            |line: &Line| -> Vec<String> { starts(line).into_iter().map(|(id, _)| id).collect() };
        assert_eq!(order(&without), ["a1", "b1", "a2", "b2", "a3"]);
        assert_eq!(order(&with), ["a3", "b1", "a2", "b2", "a1"]);
    }

    #[test]
    fn slots_that_are_free_at_once_do_not_all_go_to_one_account() {
        let tasks = [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (2, "b2")];
        let line = Line {
            slots: 4,
            waiting: tasks.map(|(account, id)| waiting(account, id, 100.0)).to_vec(),
            served: BTreeMap::from([(2, 30.0)]),
            ..Line::default()
        };
        let order: Vec<String> = starts(&line).into_iter().map(|(id, _)| id).collect();
        assert_eq!(order, ["a1", "b1", "a2", "b2", "a3"]);
    }

    #[test]
    fn what_waits_for_a_task_of_unknown_length_has_a_place_and_no_time() {
        let line = Line {
            slots: 1,
            running: vec![Running { account: 1, elapsed: 5.0, left: Some(10.0) }],
            waiting: vec![waiting(1, "first", None), waiting(1, "second", 1.0)],
            ..Line::default()
        };
        assert_eq!(starts(&line), named(&[("first", Some(10.0)), ("second", None)]));
        let held = Line { running: Vec::new(), slots: 0, ..line };
        assert_eq!(starts(&held), []);
    }

    #[test]
    fn half_of_what_an_account_was_served_is_forgotten_in_a_day() {
        let at = Timestamp::from_second(1_000_000).unwrap();
        let served = Served { seconds: 8.0, at };
        for (seconds, left) in [(0, 8.0), (86_400, 4.0), (3 * 86_400, 1.0), (-5, 8.0)] {
            let now = Timestamp::from_second(1_000_000 + seconds).unwrap();
            assert!((served.seconds_at(now) - left).abs() < 1e-12, "{seconds}");
        }
    }
}
