//! Writes that wait, and are committed together.

use tokio::sync::oneshot;

use super::error::{Error, Result};

/// A write that waits for its transaction on a connection `C`.
pub(super) struct Write<C>(Box<Attempt<C>>);

/// What is handed the transaction, or why there is none.
type Attempt<C> = dyn FnOnce(Result<Begun<'_, C>>) -> Done + Send;

/// A transaction, and what is done in it after each write.
struct Begun<'a, C> {
    connection: &'a C,
    settle: &'a dyn Fn(&C) -> Result<()>,
}

/// A write that was tried. Whoever waits is told by [`Done::finish`].
pub(super) struct Done {
    /// Why it was not done.
    pub(super) error: Option<Error>,
    tell: Box<dyn FnOnce(Result<()>) + Send>,
}

impl Done {
    /// Tells whoever waits; `committed` is what became of the transaction.
    pub(super) fn finish(self, committed: Result<()>) {
        (self.tell)(committed);
    }
}

impl<C> Write<C> {
    /// A write, and where it is told what comes of it.
    pub(super) fn new<T: Send + 'static>(
        change: impl FnOnce(&C) -> Result<T> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<T>>) {
        let (answer, outcome) = oneshot::channel();
        let write = Self(Box::new(move |begun| {
            let result = begun.and_then(|Begun { connection, settle }| {
                // The request may have been dropped.
                if answer.is_closed() {
                    return Err(Error::other("nobody waits for it any more"));
                }
                let value = change(connection)?;
                settle(connection).map(|()| value)
            });
            Done {
                error: result.as_ref().err().cloned(),
                tell: Box::new(move |committed| {
                    drop(answer.send(result.and_then(|value| committed.map(|()| value))));
                }),
            }
        }));
        (write, outcome)
    }

    /// Does it, and `settle` after it, within a transaction.
    pub(super) fn run(self, connection: &C, settle: impl Fn(&C) -> Result<()>) -> Done {
        (self.0)(Ok(Begun { connection, settle: &settle }))
    }

    /// It cannot be done, for there is no transaction.
    pub(super) fn fail(self, error: &Error) -> Done {
        (self.0)(Err(error.clone()))
    }
}

/// What came of a write.
pub(super) async fn told<T>(outcome: &mut oneshot::Receiver<Result<T>>) -> Result<T> {
    outcome.await.map_err(|_| Error::other("what was to write it has ended"))?
}
