//! A service of a later version, as far as clients that were made before can tell.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use anyhow::Result;
use serde_json::{Value, json};

use crate::root;
use crate::spec::examples::FOLDER;

/// Answers every request with a job that has fields and values which today's document does not know, for as
/// long as this program runs; its address.
pub fn serve() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let mut job = serde_json::from_str(&fs::read_to_string(root().join(FOLDER).join("job_view.200.succeeded.json"))?)?;
    grow(&mut job);
    job["status"] = json!("hibernating");
    job["parameters"]["trajectory_output_format"] = json!("xtc");
    job["parameters"]["production"]["type"] = json!("NPH");
    let answer = job.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| respond(stream, &answer)) {
                eprintln!("the later service: {error}");
            }
        }
    });
    Ok(url)
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

fn respond(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())
}
