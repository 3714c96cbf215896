//! The same job several times.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

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
        let mut jobs = BTreeMap::new();
        self.submit_missing(job, 0..n, batch, at_a_time, |index, job| {
            jobs.insert(index, job);
            Ok(())
        })
        .await?;
        Ok(jobs.into_values().collect())
    }

    /// The same for some indices of a batch. Each job is handed to `on_job` with its index as soon
    /// as it is answered, in no order: who keeps them can submit the others later, when the service
    /// has forgotten the name of the batch.
    ///
    /// # Errors
    ///
    /// The first refusal, or what `on_job` says. Nothing is begun after it; requests that are under
    /// way are waited for, and their jobs handed on.
    pub async fn submit_missing(
        &self,
        job: &JobCreateParams,
        indices: impl IntoIterator<Item = u32>,
        batch: &str,
        at_a_time: usize,
        mut on_job: impl FnMut(u32, JobRecord) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if batch.is_empty()
            || batch.len() > 240
            || !batch.bytes().all(|b| (b' '..=b'~').contains(&b))
        {
            return Err(Error::argument("batch", "must be 1 to 240 printable ASCII characters"));
        }
        let indices: Vec<u32> = indices.into_iter().collect();
        let mut waiting =
            indices.into_iter().map(|index| self.submit_replica(job.clone(), batch, index));
        let mut under_way: FuturesUnordered<_> = waiting.by_ref().take(at_a_time.max(1)).collect();
        let mut submitted = Ok(());
        while let Some((index, answer)) = under_way.next().await {
            let handed_on = answer.and_then(|job| on_job(index, job));
            submitted = submitted.and(handed_on);
            if submitted.is_ok() {
                under_way.extend(waiting.next());
            }
        }
        submitted
    }

    async fn submit_replica(
        &self,
        mut job: JobCreateParams,
        batch: &str,
        index: u32,
    ) -> (u32, Result<JobRecord, Error>) {
        job.batch_index = Some(index.into());
        job.seed = job.seed.map(|seed| seed + u64::from(index));
        // The same key whenever the batch is repeated: the service answers with the first job.
        let key = format!("{batch}-{index}");
        let submit = self.job_submit().idempotency_key(key.as_str()).body(job);
        (index, submit.send().await.map(progenitor_client::ResponseValue::into_inner))
    }
}
