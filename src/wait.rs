//! Waiting for a system, a job or an analysis to end.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::Stream;

use crate::error::TaskFailure;
use crate::workflow::Client;
use crate::workflow::types::{AnalysisRecord, Failure, JobRecord, SystemRecord};
use crate::{Error, http};

const FIRST_POLL: Duration = Duration::from_millis(200);
const LAST_POLL: Duration = Duration::from_secs(5);
/// A service that restarts is waited for this long.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);

/// A record that a wait looks at.
pub trait Task: Send + Sized {
    /// `queued`, `running`, `succeeded`, `failed`, `cancelled`.
    fn status(&self) -> &str;
    /// When it ended.
    fn finished_at(&self) -> Option<&str>;
    /// Why it failed.
    fn failure(&self) -> Option<&Failure>;
    /// The record as it is now.
    fn look_up(client: &Client, id: &str) -> impl Future<Output = Result<Self, Error>> + Send;
}

/// Whether a task has ended. A status of a later service is that of an end when the record has its
/// time.
fn is_over(task: &impl Task) -> bool {
    match task.status() {
        "queued" | "running" => false,
        "succeeded" | "failed" | "cancelled" => true,
        _ => task.finished_at().is_some(),
    }
}

macro_rules! task {
    ($record:ty, $view:ident, $id:ident) => {
        impl Task for $record {
            fn status(&self) -> &str {
                &self.status
            }

            fn finished_at(&self) -> Option<&str> {
                self.finished_at.as_deref()
            }

            fn failure(&self) -> Option<&Failure> {
                self.error.as_ref()
            }

            async fn look_up(client: &Client, id: &str) -> Result<Self, Error> {
                Ok(client.$view().$id(id).send().await?.into_inner())
            }
        }
    };
}

task!(SystemRecord, system_view, system_id);
task!(JobRecord, job_view, job_id);
task!(AnalysisRecord, analysis_view, analysis_id);

impl Client {
    /// Waits until a system is built.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// let system = molbox.wait_system("box_0123456789abcdefghij").await?;
    /// # Ok(()) }
    /// ```
    pub fn wait_system(&self, system_id: &str) -> Wait<'_, SystemRecord> {
        Wait::new(self, system_id)
    }

    /// Waits until a job has ended.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// let job = molbox
    ///     .wait_job("job_0123456789abcdefghij")
    ///     .on_progress(|job| if let Some(p) = &job.progress { println!("{:.0} %", 100.0 * p.fraction.get()) })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn wait_job(&self, job_id: &str) -> Wait<'_, JobRecord> {
        Wait::new(self, job_id)
    }

    /// Waits until an analysis has ended.
    pub fn wait_analysis(&self, analysis_id: &str) -> Wait<'_, AnalysisRecord> {
        Wait::new(self, analysis_id)
    }
}

/// A wait, begun by `.await`. Dropping it does nothing to the task: wait again by its id, from
/// this process or another.
///
/// # Errors
///
/// [`Error::TaskFailed`] when the task ends otherwise than `succeeded`, [`Error::TimedOut`], and
/// what looking up the record gives. A service that is out of reach is waited for, 5 minutes.
#[must_use = "a wait begins with `.await`"]
pub struct Wait<'a, T> {
    client: &'a Client,
    id: String,
    timeout: Option<Duration>,
    on_progress: Box<dyn FnMut(&T) + Send + 'a>,
}

impl<'a, T: Task + 'a> Wait<'a, T> {
    fn new(client: &'a Client, id: &str) -> Self {
        Self { client, id: id.to_owned(), timeout: None, on_progress: Box::new(|_| {}) }
    }

    /// Called with the record each time it has been looked up, the last time included.
    pub fn on_progress(mut self, callback: impl FnMut(&T) + Send + 'a) -> Self {
        self.on_progress = Box::new(callback);
        self
    }

    /// Gives up after this long. Default: never.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The records that are looked up, each that differs from the one before, the last of them that
    /// of the end: also of a task that failed. Then the stream is over. Calls of
    /// [`on_progress`](Self::on_progress) stay.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client) -> Result<(), molbox::Error> {
    /// use futures::TryStreamExt;
    /// let mut records = std::pin::pin!(molbox.wait_job("job_0123456789abcdefghij").stream());
    /// while let Some(job) = records.try_next().await? {
    ///     println!("{} {:?}", job.status, job.progress);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stream(self) -> impl Stream<Item = Result<T, Error>> + Send + 'a
    where
        T: Clone + PartialEq + Sync,
    {
        let watch = Watch {
            wait: self,
            start: Instant::now(),
            last: None,
            last_answer: Instant::now(),
            pause: None,
        };
        futures::stream::try_unfold(watch, |mut watch| async move {
            Ok(watch.next().await?.map(|record| (record, watch)))
        })
    }

    async fn run(mut self) -> Result<T, Error> {
        let start = Instant::now();
        let mut last_answer = Instant::now();
        let mut pause = FIRST_POLL;
        loop {
            match T::look_up(self.client, &self.id).await {
                Ok(record) => {
                    last_answer = Instant::now();
                    (self.on_progress)(&record);
                    if record.status() == "succeeded" {
                        return Ok(record);
                    }
                    if is_over(&record) {
                        return Err(Error::TaskFailed(Box::new(TaskFailure {
                            id: self.id,
                            status: record.status().to_owned(),
                            failure: record.failure().cloned(),
                        })));
                    }
                }
                Err(error) if error.is_transient() && last_answer.elapsed() < LONGEST_SILENCE => {}
                Err(error) => return Err(error),
            }
            if let Some(timeout) = self.timeout {
                let left = timeout.saturating_sub(start.elapsed());
                if left.is_zero() {
                    return Err(Error::TimedOut { id: self.id, after: timeout });
                }
                pause = pause.min(left);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 5 / 4).min(LAST_POLL).max(http::backoff(0) / 4);
        }
    }
}

/// Where a stream of records is.
struct Watch<'a, T> {
    wait: Wait<'a, T>,
    start: Instant,
    last: Option<T>,
    last_answer: Instant,
    pause: Option<Duration>,
}

impl<'a, T: Task + Clone + PartialEq + 'a> Watch<'a, T> {
    /// The next record that differs; nothing after the last.
    async fn next(&mut self) -> Result<Option<T>, Error> {
        if self.last.as_ref().is_some_and(is_over) {
            return Ok(None);
        }
        loop {
            if let Some(pause) = self.pause {
                let left = self
                    .wait
                    .timeout
                    .map(|timeout| (timeout, timeout.saturating_sub(self.start.elapsed())));
                if let Some((after, Duration::ZERO)) = left {
                    return Err(Error::TimedOut { id: self.wait.id.clone(), after });
                }
                tokio::time::sleep(left.map_or(pause, |(_, left)| pause.min(left))).await;
            }
            self.pause =
                Some(self.pause.map_or(FIRST_POLL, |pause| (pause * 5 / 4).min(LAST_POLL)));
            match T::look_up(self.wait.client, &self.wait.id).await {
                Ok(record) => {
                    self.last_answer = Instant::now();
                    (self.wait.on_progress)(&record);
                    if self.last.as_ref() != Some(&record) {
                        self.last = Some(record.clone());
                        return Ok(Some(record));
                    }
                }
                Err(error)
                    if error.is_transient() && self.last_answer.elapsed() < LONGEST_SILENCE => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<'a, T: Task + 'a> IntoFuture for Wait<'a, T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
