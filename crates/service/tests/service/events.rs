//! Streams of what changes in an account.

use std::time::Duration;

use futures::StreamExt;
use molbox::workflow::Client;
use serde_json::Value;

use crate::common::{Service, example};
use crate::files::atom;
use crate::work::{endless_job, short_job, water};

/// The events of an account, as they come.
pub(crate) struct Events {
    lines: tokio::sync::mpsc::UnboundedReceiver<(String, Value)>,
}

impl Events {
    pub(crate) async fn of(molbox: &Client) -> Self {
        let answer = molbox.account_watch().send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        // nginx takes it for itself.
        let buffering = answer.headers().get("x-accel-buffering");
        assert!(buffering.is_none_or(|it| it == "no"));
        let mut stream = answer.into_inner_stream();
        let (sender, lines) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut rest = String::new();
            while let Some(Ok(chunk)) = stream.next().await {
                rest += std::str::from_utf8(&chunk).unwrap();
                while let Some((event, others)) = rest.split_once("\n\n") {
                    if let Some((name, data)) = event.split_once("\ndata: ") {
                        let name = name.strip_prefix("event: ").unwrap().to_owned();
                        sender.send((name, serde_json::from_str(data).unwrap())).ok();
                    }
                    rest = others.to_owned();
                }
            }
        });
        Self { lines }
    }

    /// The next event; none when the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        let limit = Duration::from_secs(120);
        tokio::time::timeout(limit, self.lines.recv()).await.expect("an event or the end")
    }

    /// What is told of something until it is in a state; of other things nothing may be told.
    pub(crate) async fn until(&mut self, name: &str, id: &str, status: &str) -> Vec<Value> {
        let mut told = Vec::new();
        loop {
            let (of, record) = self.next().await.expect("the stream goes on");
            assert_eq!(
                (of.as_str(), record[format!("{name}_id")].as_str()),
                (name, Some(id)),
                "{record}"
            );
            told.push(record);
            if told.last().unwrap()["status"] == status {
                return told;
            }
        }
    }
}

#[tokio::test]
async fn an_account_is_told_of_each_of_its_records_that_changes_and_of_no_other_s() {
    let service = Service::start();
    let (molbox, bob) = (service.client("ada"), service.client("bob"));
    let watched = molbox.account_watch().send().await.unwrap();
    assert_eq!(watched.headers()["x-accel-buffering"], "no");
    let before = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let ended = molbox.upload(example("1vii.pdb")).name("before").await.unwrap();
    let mut events = Events::of(&molbox).await;
    let mut of_bob = Events::of(&bob).await;
    let told = events.until("file", &before.file_id, "pending").await;
    let viewed = molbox.file_view().file_id(&before.file_id).send().await.unwrap().into_inner();
    assert_eq!(told, [serde_json::to_value(viewed).unwrap()], "and not of {}", ended.file_id);

    // A file of before, and one after it that is registered first.
    let after = molbox.upload(example("1vii.pdb")).name("after").await.unwrap();
    events.until("file", &after.file_id, "ready").await;
    let http = reqwest::Client::new();
    assert_eq!(http.put(&before.upload_url).body(atom(1.0)).send().await.unwrap().status(), 200);
    let register = molbox.file_register().body_map(|file| file.file_id(before.file_id.as_str()));
    register.send().await.unwrap();
    events.until("file", &before.file_id, "ready").await;

    let system = water(&molbox).await;
    let told = events.until("system", &system.system_id, "succeeded").await;
    assert_eq!(told.last(), Some(&serde_json::to_value(&system).unwrap()));
    let job = short_job(&molbox, &system).await.job_id;
    molbox.wait_job(&job).await.unwrap();
    let told = events.until("job", &job, "succeeded").await;
    assert!(told.windows(2).all(|two| two[0] != two[1]), "nothing is told twice");

    // A state that does not last until the next look: its end is told all the same.
    molbox.job_extend().job_id(&job).body_map(|more| more.time(10)).send().await.unwrap();
    molbox.job_cancel().job_id(&job).send().await.unwrap();
    events.until("job", &job, "cancelled").await;

    let analysis = molbox.analysis_submit().body_map(|analysis| analysis.job_id(job.as_str()));
    let analysis = analysis.send().await.unwrap().analysis_id.clone();
    molbox.wait_analysis(&analysis).await.ok();
    let status = molbox.analysis_view().analysis_id(&analysis).send().await.unwrap().status.clone();
    events.until("analysis", &analysis, &status).await;

    let own = bob.upload(example("1vii.pdb")).await.unwrap();
    of_bob.until("file", &own.file_id, "ready").await;
    service.command(&["account", "disable", "ada"]);
    assert_eq!(events.next().await, None, "it ends with the account");
}

#[tokio::test]
async fn what_is_open_when_a_stream_begins_is_told_first() {
    let service = Service::start_with(&["worker.slots=1"]);
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let (running, queued) =
        (endless_job(&molbox, &system).await, endless_job(&molbox, &system).await);
    let mut events = Events::of(&molbox).await;
    let mut seen = Vec::new();
    while !(seen.contains(&running) && seen.contains(&queued)) {
        let (_, record) = events.next().await.unwrap();
        seen.push(record["job_id"].as_str().unwrap_or_default().to_owned());
    }
    for id in [&queued, &running] {
        molbox.job_cancel().job_id(id).send().await.unwrap();
    }
    for _ in 0..2 {
        while events.next().await.unwrap().1["status"] != "cancelled" {}
    }
}
