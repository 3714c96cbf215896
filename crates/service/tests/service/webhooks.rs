//! Reports of tasks that have ended.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use crate::common::{Service, wait_for};

/// So long only when nothing is reported at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A report as it arrived.
pub(crate) struct Report {
    signature: String,
    pub(crate) body: String,
}

/// Somebody who is reported to, and answers with these statuses, the last of them for ever.
pub(crate) fn receiver(statuses: &'static [u16]) -> (String, Receiver<Report>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, reports) = channel();
    std::thread::spawn(move || {
        for (nth, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut length, mut signature) = (0, String::new());
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim_end().to_owned();
                if line.is_empty() {
                    break;
                }
                let (name, value) = line.split_once(": ").unwrap_or_default();
                match name.to_lowercase().as_str() {
                    "content-length" => length = value.parse().unwrap(),
                    "x-molbox-signature" => signature = value.to_owned(),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let status = statuses[nth.min(statuses.len() - 1)];
            let answer =
                format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let report = Report { signature, body: String::from_utf8(body).unwrap() };
            if sender.send(report).is_err() {
                return;
            }
        }
    });
    (url, reports)
}

fn is_signed(report: &Report, secret: &str) -> bool {
    let (second, signature) = report.signature.split_once(",v1=").unwrap();
    let second = second.strip_prefix("t=").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{second}.{}", report.body).as_bytes());
    let expected: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    signature == expected
}

/// A task of ada's that has ended.
pub(crate) async fn end(service: &Service) -> String {
    end_of(service, "ada").await
}

async fn end_of(service: &Service, account: &str) -> String {
    let molbox = service.client(account);
    let system = molbox.system_submit().body_map(|system| system).send().await.unwrap();
    let id = system.system_id.clone();
    molbox.system_cancel().system_id(&id).send().await.unwrap();
    molbox.wait_system(&id).await.unwrap_err();
    id
}

#[tokio::test]
async fn the_end_of_a_task_is_reported_signed_until_somebody_takes_it() {
    // Tasks stay queued, and end when they are cancelled.
    let mut service = Service::start_with_clock(&["worker.python=\"/nonexistent/python\""]);
    service.key("ada");
    let (url, reports) = receiver(&[500, 500, 204]);
    let secret = service.command(&["account", "webhook", "ada", "--url", &url]);
    let secret = secret.trim();
    assert_eq!(secret.len(), 64);
    let id = end(&service).await;
    let next = || reports.recv_timeout(PATIENCE).unwrap();
    let first = next();
    let body: Value = serde_json::from_str(&first.body).unwrap();
    assert_eq!((&body["event"], &body["task_id"]), (&"task_ended".into(), &id.as_str().into()));
    assert_eq!((&body["status"], &body["account"]), (&"cancelled".into(), &"ada".into()));
    assert_eq!(body["kind"], "system");
    assert!(is_signed(&first, secret) && !is_signed(&first, "another"));

    service.kill_and_restart();
    service.set_clock(16);
    let second = next();
    assert_eq!(second.body, first.body, "the same report, with the same delivery_id");
    assert!(is_signed(&second, secret) && second.signature != first.signature);
    service.set_clock(16 + 61);
    assert_eq!(next().body, first.body);
    // It was taken: what comes next is another one.
    let other = end(&service).await;
    service.set_clock(16 + 61 + 3600);
    let third: Value = serde_json::from_str(&next().body).unwrap();
    assert_eq!(third["task_id"], other.as_str());

    assert!(service.command(&["account", "show", "ada"]).contains(&url));
    service.command(&["account", "webhook", "ada", "--off"]);
    end(&service).await;
    // Nothing is on its way any more.
    assert_eq!(service.sql("select count(*) from delivery").trim(), "0");
    let plain =
        service.failing_command(&["account", "webhook", "ada", "--url", "http://example.org/x"]);
    assert!(plain.contains("https"), "{plain}");
}

#[tokio::test]
async fn receivers_that_do_not_answer_keep_no_other_account_s_reports_waiting() {
    let service = Service::start_with(&["worker.python=\"/nonexistent/python\""]);
    // Their connections are accepted by the machine, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", silent.local_addr().unwrap());
    // More than are sent at once of all accounts together, were each to have its share.
    for nth in 0..20 {
        let name = format!("silent{nth}");
        service.key(&name);
        service.command(&["account", "webhook", &name, "--url", &url]);
        for _ in 0..5 {
            end_of(&service, &name).await;
        }
    }
    let mut hanging = Vec::new();
    hanging.push(silent.accept().unwrap().0);
    service.key("ada");
    let (url, reports) = receiver(&[204]);
    service.command(&["account", "webhook", "ada", "--url", &url]);
    end(&service).await;
    reports.recv_timeout(PATIENCE).unwrap();
    let waiting = |whose: &str| {
        let named = "(select id from account where name = 'ada')";
        service.sql(&format!("select count(*) from delivery where account {whose} {named}"))
    };
    wait_for("its answer is noted", || (waiting("=").trim() == "0").then_some(()));
    // Most of the others are on their way, and none has been given up.
    silent.set_nonblocking(true).unwrap();
    hanging.extend(std::iter::from_fn(|| silent.accept().ok()).map(|(stream, _)| stream));
    assert!(hanging.len() >= 20, "{}", hanging.len());
    assert_eq!(waiting("<>").trim(), "100");
}
