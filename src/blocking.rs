//! For programs that are not asynchronous.

use std::future::IntoFuture;

use tokio::runtime::{Builder, Runtime};

use crate::Error;

/// Runs calls of a client to their end, on the thread that asks. Make one and keep it: the client's
/// connections live in it.
///
/// ```no_run
/// # fn main() -> Result<(), molbox::Error> {
/// let blocking = molbox::Blocking::new()?;
/// let molbox = molbox::Client::from_env()?;
/// let file = blocking.run(molbox.upload("1vii.pdb"))?;
/// let job = blocking.run(molbox.wait_job("job_0123456789abcdefghij"))?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Blocking {
    runtime: Runtime,
}

impl Blocking {
    /// An event loop for calls.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the system has no resources for it.
    pub fn new() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime
            .map(|runtime| Self { runtime })
            .map_err(|e| Error::invalid(format!("no event loop: {e}")))
    }

    /// The result of a call. Not from inside of an asynchronous function: it panics there.
    pub fn run<F: IntoFuture>(&self, call: F) -> F::Output {
        self.runtime.block_on(call.into_future())
    }
}
