//! `molbox events` and `molbox job events`: server-sent events as lines.

use molbox::workflow::Client;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Code, Failure};

/// An event whose data has come.
struct Event {
    name: String,
    data: String,
}

/// Prints the records of a job, a line each, until the service ends the stream.
pub(crate) async fn of_job(context: &Context, client: &Client, id: &str) -> Result<(), Failure> {
    let path = format!("/info/job/{id}/events");
    follow(client, &path, |event| context.output.text(&event.data)).await
}

/// Prints what changes in the account: as JSON the event and its record, otherwise what is most
/// looked for.
pub(crate) async fn of_account(context: &Context) -> Result<(), Failure> {
    let client = context.workflow()?;
    let print = |event: Event| {
        let record: Value = serde_json::from_str(&event.data).map_err(|error| {
            Failure::new(Code::Other, format!("an event of the service is no JSON: {error}"))
        })?;
        if context.output.is_json() {
            return context.output.json_line(&json!({ "event": event.name, "record": record }));
        }
        context.output.text(&line(&event.name, &record))
    };
    follow(&client, "/info/events", print).await
}

/// Identifier, state, how far it is, and what it is called.
fn line(name: &str, record: &Value) -> String {
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let id = text(&format!("/{name}_id"));
    let fraction = record.pointer("/progress/fraction").and_then(Value::as_f64);
    let done = fraction.map_or_else(String::new, |done| format!("{:.1} %", 100.0 * done));
    let called = ["/name", "/box_name", "/batch_name"].map(text).concat();
    let line = format!(
        "{name:8} {id:30} {:9} {:16} {done:>7} {called}",
        text("/status"),
        text("/progress/stage")
    );
    line.trim_end().to_owned()
}

async fn follow(
    client: &Client,
    path: &str,
    mut print: impl FnMut(Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let call = client.call("GET", path)?.header("accept", "text/event-stream")?;
    let mut answer = call.send().await?;
    let (mut line, mut name) = (Vec::new(), String::new());
    while let Some(chunk) = answer.chunk().await? {
        for byte in chunk {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let text = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            if let Some(given) = text.strip_prefix("event:") {
                name = given.trim().to_owned();
            } else if let Some(data) = text.strip_prefix("data:") {
                print(Event { name: name.clone(), data: data.trim().to_owned() })?;
            }
        }
    }
    Ok(())
}
