//! Counters and gauges in the Prometheus text format.
//!
//! Labels are operations, statuses and kinds: nothing of an account.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::objects::Objects;
use crate::record::{Kind, Lane, Status};
use crate::runner::hold::Holds;

/// What the service counts.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<OperationLabels, Histogram>,
    tasks: Family<TaskLabels, Gauge>,
    free_disk: Gauge<f64, AtomicU64>,
    held: Family<HoldLabels, Gauge>,
    slots: Family<LaneLabels, Gauge>,
    longest_wait: Family<LaneLabels, Gauge<f64, AtomicU64>>,
    speed: Gauge<f64, AtomicU64>,
    gpus: Family<GpuLabels, Gauge>,
}

/// What the queues are like now.
pub(crate) struct Now {
    /// Systems, jobs and analyses by status.
    pub(crate) tasks: Vec<(Kind, Status, i64)>,
    /// Of each lane: how many slots it has, and how long the oldest task waits, in s.
    pub(crate) lanes: [(Lane, usize, f64); 2],
    /// What running simulations make together, in ns/day.
    pub(crate) ns_per_day: f64,
    /// Indices of GPUs, and whether no task is started on each.
    pub(crate) gpus: Vec<(u32, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    lane: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GpuLabels {
    index: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    kind: String,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HoldLabels {
    lane: String,
    code: String,
}

/// Upper ends of the classes of answering times, in seconds.
const CLASSES: [f64; 8] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("molbox"),
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(CLASSES)),
            tasks: Family::default(),
            free_disk: Gauge::default(),
            held: Family::default(),
            slots: Family::default(),
            longest_wait: Family::default(),
            speed: Gauge::default(),
            gpus: Family::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "request_seconds",
            "Time until the answer began, in seconds",
            metrics.seconds.clone(),
        );
        registry.register("tasks", "Systems, jobs and analyses by status", metrics.tasks.clone());
        registry.register(
            "free_disk_bytes",
            "Free space for new objects, in bytes",
            metrics.free_disk.clone(),
        );
        registry.register(
            "held",
            "Lanes, or GPUs of them, on which no task is started",
            metrics.held.clone(),
        );
        registry.register("slots", "Tasks that can run at a time", metrics.slots.clone());
        registry.register(
            "longest_wait_seconds",
            "How long a queued task has waited since it was queued last, of all the longest, in seconds",
            metrics.longest_wait.clone(),
        );
        registry.register(
            "ns_per_day",
            "What running simulations make together, in ns of molecules' time a day",
            metrics.speed.clone(),
        );
        registry.register(
            "gpu_usable",
            "GPUs that workers may use; 0 while no task is started on one",
            metrics.gpus.clone(),
        );
        metrics
    }

    /// Counts a request to an operation.
    pub(crate) fn answered(&self, operation: &str, status: u16, took: Duration) {
        let operation = operation.to_owned();
        self.seconds
            .get_or_create(&OperationLabels { operation: operation.clone() })
            .observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { operation, status }).inc();
    }

    /// All of it as text, the gauges as they are now.
    pub(crate) fn text(
        &self,
        now: Now,
        objects: &Objects,
        holds: &Holds,
    ) -> anyhow::Result<String> {
        let Now { tasks, lanes, ns_per_day, gpus } = now;
        for (lane, slots, wait) in lanes {
            let labels = LaneLabels { lane: format!("{lane:?}").to_lowercase() };
            self.slots.get_or_create(&labels).set(i64::try_from(slots).unwrap_or(i64::MAX));
            self.longest_wait.get_or_create(&labels).set(wait);
        }
        // The sum of none is -0.
        self.speed.set(ns_per_day + 0.0);
        for (index, is_held) in gpus {
            self.gpus.get_or_create(&GpuLabels { index }).set(i64::from(!is_held));
        }
        self.tasks.clear();
        for (kind, status, count) in tasks {
            let labels = TaskLabels { kind: kind.to_string(), status: status.to_string() };
            self.tasks.get_or_create(&labels).set(count);
        }
        self.free_disk.set(objects.free_bytes()? as f64);
        self.held.clear();
        for hold in holds.all() {
            let lane = format!("{:?}", hold.lane).to_lowercase();
            self.held.get_or_create(&HoldLabels { lane, code: hold.code }).inc();
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_metrics_has_all_of_them_as_they_describe_themselves() {
        let metrics = Metrics::new();
        let some = || String::from("x");
        // A family without a member is not shown.
        metrics.answered("x", 200, Duration::ZERO);
        let lane = LaneLabels { lane: some() };
        drop(metrics.tasks.get_or_create(&TaskLabels { kind: some(), status: some() }));
        drop(metrics.held.get_or_create(&HoldLabels { lane: some(), code: some() }));
        drop(metrics.slots.get_or_create(&lane));
        drop(metrics.longest_wait.get_or_create(&lane));
        drop(metrics.gpus.get_or_create(&GpuLabels { index: 0 }));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry).unwrap();
        let page = include_str!("../../../docs/metrics.md");
        let rows: Vec<Vec<&str>> = page
            .lines()
            .filter(|line| line.starts_with("| `molbox_"))
            .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
            .collect();
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let told: Vec<(String, &str, &str)> = kinds
            .map(|(name, kind)| {
                let help = text.lines().find_map(|line| {
                    line.strip_prefix("# HELP ")?.strip_prefix(name)?.strip_prefix(' ')
                });
                let total = if kind == "counter" { "_total" } else { "" };
                let help = help.expect("each has a line of help").trim_end_matches('.');
                (format!("{name}{total}"), kind, help)
            })
            .collect();
        let of_page: Vec<(String, &str, &str)> =
            rows.iter().map(|row| (row[1].to_owned(), row[2], row[4])).collect();
        assert_eq!(told, of_page);
    }
}
