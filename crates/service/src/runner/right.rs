//! The right to run tasks, as long as this server has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::app::App;
use crate::config::Runs;
use crate::db::{LEASE, Lease};

/// How often it is tried to get: another server that ends gives it back.
const TRY: Duration = Duration::from_millis(500);
/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(5);

/// A lease that is renewed as long as this value lives.
pub(super) struct Right {
    pub(super) lease: Lease,
    is_lost: Arc<AtomicBool>,
    renewing: JoinHandle<()>,
}

impl Right {
    /// Waits until this server may run tasks; none when it is asked to end before.
    pub(super) async fn wait_for(app: &Arc<App>) -> Option<Self> {
        if app.config.tasks.runner == Runs::Off {
            return None;
        }
        let mut leaving = app.leaving.subscribe();
        // Each is said once, and not at every try.
        let (mut has_other, mut is_failing) = (false, false);
        while !*leaving.borrow_and_update() {
            let name = app.runner_name();
            match app.db.take_lease(name.clone(), app.server_id.clone(), app.now()).await {
                Ok(Some(lease)) => {
                    if app.db.is_shared() {
                        tracing::info!(runner = name, "this server runs the tasks");
                    }
                    return Some(Self::renewed(app.clone(), lease));
                }
                Ok(None) if !has_other => {
                    tracing::info!(runner = name, "another server runs the tasks");
                    (has_other, is_failing) = (true, false);
                }
                Ok(None) => is_failing = false,
                Err(error) if !is_failing => {
                    tracing::error!(%error, "ask for the right to run tasks");
                    is_failing = true;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(TRY) => {}
                _ = leaving.changed() => {}
            }
        }
        None
    }

    fn renewed(app: Arc<App>, lease: Lease) -> Self {
        let is_lost = Arc::new(AtomicBool::new(false));
        let renewing = tokio::spawn(renew(app, lease.clone(), is_lost.clone()));
        Self { lease, is_lost, renewing }
    }

    /// Whether another server has it, or may have it.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Lets another server have it at once.
    pub(super) async fn give_back(self, app: &App) {
        self.renewing.abort();
        if let Err(error) = app.db.give_back_lease(self.lease.clone(), app.now()).await {
            // It ends by itself.
            tracing::warn!(%error, "give back the right to run tasks");
        }
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

async fn renew(app: Arc<App>, lease: Lease, is_lost: Arc<AtomicBool>) {
    let mut renewed = Instant::now();
    loop {
        tokio::time::sleep(RENEW).await;
        let asked = Instant::now();
        match app.db.renew_lease(lease.clone(), app.now()).await {
            Ok(true) => renewed = asked,
            Ok(false) => break tracing::warn!("another server runs the tasks now"),
            Err(error) if renewed.elapsed() > LEASE => {
                break tracing::error!(%error, "the right to run tasks has run out");
            }
            Err(error) => tracing::warn!(%error, "renew the right to run tasks"),
        }
    }
    is_lost.store(true, Ordering::Relaxed);
    app.wake.notify_one();
}
