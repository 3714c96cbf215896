//! Work that takes long, files of many gigabytes above all, and goes on beside the runner's turns:
//! meanwhile other tasks are followed, stopped and started.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Semaphore, oneshot};

use crate::app::App;

/// How long what has failed waits before that is known, and it is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// How much of one sort goes on at a time: it keeps a disk or the network busy.
const AT_A_TIME: usize = 4;

/// Places for work of one sort.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

/// Work that is under way, or waits for a place.
pub(super) struct Beside<T>(oneshot::Receiver<Result<T>>);

impl<T: Send + 'static> Beside<T> {
    /// Starts it; the runner is woken when it is done.
    pub(super) fn start(
        app: &Arc<App>,
        Places(places): &Places,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Self {
        let (tell, done) = oneshot::channel();
        let (app, places) = (app.clone(), places.clone());
        tokio::spawn(async move {
            let place = places.acquire_owned().await;
            let result = work.await;
            drop(place);
            if result.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
            // Nobody may be left to hear it.
            let _ = tell.send(result);
            app.wake.notify_one();
        });
        Self(done)
    }

    /// What it has come to; none while it is under way.
    pub(super) fn look(&mut self) -> Option<Result<T>> {
        match self.0.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(broken_off())),
        }
    }

    /// Waits for what it comes to.
    pub(super) async fn end(self) -> Result<T> {
        self.0.await.unwrap_or_else(|_| Err(broken_off()))
    }
}

fn broken_off() -> anyhow::Error {
    anyhow!("it was broken off")
}
