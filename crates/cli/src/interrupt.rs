//! Ctrl-C, and the signal by which systems end what runs.

use std::future::Future;

use crate::failure::{Code, Failure};

/// What comes of the work, unless it is interrupted: then what still runs is said.
pub(crate) async fn unless_interrupted<T, E: Into<Failure>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done.map_err(Into::into),
        () = interrupted() => Err(Failure::new(
            Code::Interrupted,
            "interrupted; what was submitted still runs at the service",
        )),
    }
}

async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
