//! What is between a service and its store.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::s3::Bucket;

/// A way to a store on which answers are held back to whoever writes objects whose names begin so.
pub(crate) struct Way {
    pub(crate) endpoint: String,
    is_held: Arc<(Mutex<bool>, Condvar)>,
    n_written: Arc<AtomicUsize>,
}

impl Way {
    pub(crate) fn to(bucket: &Bucket, names: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let is_held = Arc::new((Mutex::new(true), Condvar::new()));
        let n_written = Arc::new(AtomicUsize::new(0));
        let way = Self { endpoint, is_held: is_held.clone(), n_written: n_written.clone() };
        let store = bucket.endpoint.trim_start_matches("http://").to_owned();
        let write = format!("PUT /{}/{names}", bucket.name);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&store).unwrap());
                let [mut to_client, mut to_server] =
                    [&client, &server].map(|stream| stream.try_clone().unwrap());
                let (is_held, n_written) = (is_held.clone(), n_written.clone());
                let is_write = Arc::new(AtomicBool::new(false));
                let (write, asked) = (write.clone(), is_write.clone());
                thread::spawn(move || {
                    let (mut client, mut buffer) = (client, vec![0; 1 << 16]);
                    while let Ok(n @ 1..) = client.read(&mut buffer) {
                        if buffer[..n].starts_with(write.as_bytes()) {
                            asked.store(true, Ordering::SeqCst);
                            n_written.fetch_add(1, Ordering::SeqCst);
                        }
                        if to_server.write_all(&buffer[..n]).is_err() {
                            break;
                        }
                    }
                });
                thread::spawn(move || {
                    let (mut server, mut buffer) = (server, vec![0; 1 << 16]);
                    while let Ok(n @ 1..) = server.read(&mut buffer) {
                        if is_write.load(Ordering::SeqCst) {
                            let held = is_held.0.lock().unwrap();
                            drop(is_held.1.wait_while(held, |held| *held).unwrap());
                        }
                        if to_client.write_all(&buffer[..n]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        way
    }

    /// Whether something has been written.
    pub(crate) fn is_used(&self) -> bool {
        self.n_written.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn release(&self) {
        *self.is_held.0.lock().unwrap() = false;
        self.is_held.1.notify_all();
    }
}
