//! The same job several times.

use futures::{StreamExt, TryStreamExt};

use crate::Error;
use crate::workflow::Client;
use crate::workflow::types::{JobCreateParams, JobRecord};

impl Client {
    /// Submits a job `n` times: with `batch_index` 0 to n − 1, and with its seed, if it has one,
    /// counted up. At most `at_a_time` requests are under way together; 0 is the same as 1. The
    /// records come in the order of the indices.
    ///
    /// `batch` names this submission. Repeated within 24 hours with the same name and job, it
    /// submits nothing twice, whatever became of the first attempt.
    ///
    /// ```no_run
    /// # async fn f(molbox: molbox::Client, job: molbox::workflow::types::JobCreateParams) -> Result<(), molbox::Error> {
    /// let jobs = molbox.submit_replicas(&job, 3, "villin at 310 K", 4).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The first refusal; what was submitted before it stays.
    pub async fn submit_replicas(
        &self,
        job: &JobCreateParams,
        n: u32,
        batch: &str,
        at_a_time: usize,
    ) -> Result<Vec<JobRecord>, Error> {
        if batch.is_empty()
            || batch.len() > 240
            || !batch.bytes().all(|b| (b' '..=b'~').contains(&b))
        {
            return Err(Error::argument("batch", "must be 1 to 240 printable ASCII characters"));
        }
        futures::stream::iter(0..n)
            .map(|index| self.submit_replica(job.clone(), batch, index))
            .buffered(at_a_time.max(1))
            .try_collect()
            .await
    }

    async fn submit_replica(
        &self,
        mut job: JobCreateParams,
        batch: &str,
        index: u32,
    ) -> Result<JobRecord, Error> {
        job.batch_index = Some(index.into());
        job.seed = job.seed.map(|seed| seed + u64::from(index));
        // The same key whenever the batch is repeated: the service answers with the first job.
        let key = format!("{batch}-{index}");
        let submit = self.job_submit().idempotency_key(key.as_str()).body(job);
        submit.send().await.map(progenitor_client::ResponseValue::into_inner)
    }
}
