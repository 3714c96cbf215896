//! A service in a few lines, for programs that are to see answers which `molboxd` does not give.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Serves for as long as this program runs; its address. `answer` has the address and a request's
/// first line, and gives the body, JSON; none is 404.
pub fn serve(
    mut answer: impl FnMut(&str, &str) -> Option<String> + Send + 'static,
) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let address = url.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            if let Err(error) =
                stream.and_then(|stream| respond(stream, |request| answer(&url, request)))
            {
                eprintln!("the service that answers a program: {error}");
            }
        }
    });
    Ok(address)
}

fn respond(stream: TcpStream, answer: impl FnOnce(&str) -> Option<String>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    let mut length = 0;
    reader.read_line(&mut request)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    reader.by_ref().take(length).read_to_end(&mut Vec::new())?;
    let (status, body) =
        answer(&request).map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
    let head = "content-type: application/json\r\nconnection: close";
    write!(
        reader.get_mut(),
        "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
