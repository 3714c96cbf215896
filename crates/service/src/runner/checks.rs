//! Checks of the workers' environment, and the lanes that they hold and release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::record::Lane;
use crate::runner::environment::{self, Broken};
use crate::runner::hold::{Hold, Source};

/// How often it is checked whether what holds a lane has passed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A check that is under way, which finds what there is or what is wrong.
pub(super) type Running = JoinHandle<Result<Value, Broken>>;

/// Checks of the environment, under way or to come: the first, and those of what is held.
pub(super) struct Checks(Vec<Check>);

/// On a GPU, if there are any.
struct Check {
    gpu: Option<u32>,
    due: Instant,
    running: Option<Running>,
}

impl Check {
    fn new(gpu: Option<u32>, due: Instant) -> Self {
        Self { gpu, due, running: None }
    }
}

pub(super) fn start(app: &Arc<App>, gpu: Option<u32>) -> Running {
    let app = app.clone();
    tokio::spawn(async move { environment::check(&app.config, gpu, None).await })
}

impl Checks {
    /// Those with which a service starts: of each GPU that is used.
    pub(super) fn first(app: &App) -> Self {
        let gpus = &app.config.worker.gpus;
        let gpus: Vec<_> =
            if gpus.is_empty() { vec![None] } else { gpus.iter().copied().map(Some).collect() };
        Self(gpus.into_iter().map(|gpu| Check::new(gpu, Instant::now())).collect())
    }

    /// Starts those that are due, and takes in what others have found.
    pub(super) async fn look(&mut self, app: &Arc<App>) {
        for mut check in std::mem::take(&mut self.0) {
            match check.running.take() {
                None if check.due <= Instant::now() => check.running = Some(start(app, check.gpu)),
                Some(running) if running.is_finished() => {
                    match running.await {
                        Ok(found) => self.judge(app, check.gpu, found),
                        Err(error) => {
                            tracing::error!(%error, "check the workers' environment");
                            self.again(check.gpu);
                        }
                    }
                    continue;
                }
                running => check.running = running,
            }
            self.0.push(check);
        }
    }

    fn again(&mut self, gpu: Option<u32>) {
        self.0.push(Check::new(gpu, Instant::now() + RECHECK_INTERVAL));
    }

    /// Holds or releases what a check was about.
    pub(super) fn judge(&mut self, app: &App, gpu: Option<u32>, found: Result<Value, Broken>) {
        let source = Source::Environment(gpu);
        self.0.retain(|check| check.gpu != gpu);
        let Broken { code, cause } = match found {
            Err(broken) => broken,
            Ok(found) => {
                if found["ligand_tools"] == false {
                    tracing::warn!(
                        "the workers lack the programs for charges of ligands; builds with ligands fail"
                    );
                }
                if app.holds.release(source) {
                    tracing::info!(?gpu, "the workers' environment is sound again");
                }
                return;
            }
        };
        // Of several GPUs one may be lost; all else is the same for all of them.
        let only = gpu.filter(|_| code == "gpu_lost");
        let since = app.now();
        // Analyses need no Python, but they are confined too.
        let lanes: &[Lane] = match &*code {
            "sandbox_unavailable" => &Lane::ALL,
            _ => &[Lane::Workers],
        };
        for &lane in lanes {
            let hold = Hold { source, lane, gpu: only, code: code.clone(), since };
            if app.holds.place(hold) {
                tracing::error!(
                    ?gpu,
                    ?lane,
                    code,
                    cause,
                    "no task is started until this is repaired"
                );
            }
        }
        self.again(gpu);
    }
}
