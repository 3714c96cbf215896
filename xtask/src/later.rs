//! A service of a later version, as far as clients that were made before can tell.

use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use crate::answering;
use crate::shell::root;
use crate::spec::examples::FOLDER;

/// Answers every request with a job that has fields and values which today's document does not
/// know, for as long as this program runs; its address.
pub fn serve() -> Result<String> {
    let mut job = serde_json::from_str(&fs::read_to_string(
        root().join(FOLDER).join("job_view.200.succeeded.json"),
    )?)?;
    grow(&mut job);
    job["status"] = json!("hibernating");
    job["parameters"]["trajectory_output_format"] = json!("xtc");
    job["parameters"]["production"]["type"] = json!("NPH");
    let answer = job.to_string();
    Ok(answering::serve(move |_, _| Some(answer.clone()))?)
}

/// One more field in every object.
fn grow(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(grow);
            map.insert("of_tomorrow".to_owned(), json!({ "values": [1, null] }));
        }
        Value::Array(items) => items.iter_mut().for_each(grow),
        _ => {}
    }
}
