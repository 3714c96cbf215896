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
use crate::record::{Kind, Status};
use crate::runner::hold::Holds;

/// What the service counts.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<OperationLabels, Histogram>,
    tasks: Family<TaskLabels, Gauge>,
    free_disk: Gauge<f64, AtomicU64>,
    held: Family<HoldLabels, Gauge>,
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

    /// All of it as text, the gauges as they are now; `tasks` are their numbers.
    pub(crate) fn text(
        &self,
        tasks: Vec<(Kind, Status, i64)>,
        objects: &Objects,
        holds: &Holds,
    ) -> anyhow::Result<String> {
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
