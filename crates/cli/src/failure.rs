//! Why a command failed: exit status, message, and what to do about it.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use molbox::workflow::types::{LocItem, ValidationError};
use molbox::{Error, Refusal, Retry};
use serde_json::{Value, json};

use crate::flag_names::{shown_place, shown_text};

/// Exit statuses. They are part of the interface: scripts depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Other = 1,
    Usage = 2,
    Auth = 3,
    NotFound = 4,
    Invalid = 5,
    Conflict = 6,
    Rate = 7,
    Timeout = 8,
    TaskFailed = 9,
    Unreachable = 10,
    File = 11,
    Alike = 12,
    Different = 13,
    Damaged = 14,
    Interrupted = 130,
    /// Standard output was closed by who reads it: no failure.
    Closed = 0,
}

/// The statuses with their names and meaning, for the reference.
pub(crate) const CODES: [(u8, &str, &str); 16] = [
    (0, "ok", "done; also when the reader of the output has gone"),
    (1, "other", "anything else, an error of the service among it"),
    (2, "usage", "an unknown command or flag, or a value that does not fit it"),
    (3, "auth", "no key, or one that the service does not take (401, 403)"),
    (4, "not_found", "no such thing in this account (404)"),
    (
        5,
        "invalid",
        "a request that is not allowed, by itself or by the service (400, 413, 415, 422)",
    ),
    (6, "conflict", "the state of something does not allow it, or a name is taken (409)"),
    (7, "rate", "too many requests (429), also after retries"),
    (8, "timeout", "`--timeout` ran out; the task still runs"),
    (9, "task_failed", "what was waited for failed or was cancelled"),
    (10, "unreachable", "no connection, or the service is not available (502, 503, 504)"),
    (11, "file", "a file of this machine cannot be read or written"),
    (
        12,
        "alike",
        "a repetition gave other bytes, and averages that do not differ by more than their errors",
    ),
    (13, "different", "a repetition gave something else, or too little to tell"),
    (14, "damaged", "a bundle is not what it was when it was made"),
    (130, "interrupted", "ended by Ctrl-C"),
];

impl Code {
    fn name(self) -> &'static str {
        CODES.iter().find(|(code, ..)| *code == self as u8).map_or("other", |(_, name, _)| name)
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) remedy: Option<String>,
    /// Field, problem and remedy of each violation.
    fields: Vec<(String, String, Option<&'static str>)>,
    request_id: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: None, fields: Vec::new(), request_id: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }

    /// A request with these fields, each with what is wrong with it; nothing when there are none.
    pub(crate) fn invalid_fields(problems: Vec<(String, String)>) -> Option<Self> {
        let message = match problems.as_slice() {
            [] => return None,
            [(at, problem)] if at.is_empty() => shown_text(problem),
            [(at, problem)] => format!("{}: {}", shown_place(at), shown_text(problem)),
            many => format!("{} things are wrong with the request", many.len()),
        };
        let fields = problems.into_iter().map(|(at, problem)| (at, problem, None)).collect();
        Some(Self { fields, ..Self::invalid(message) })
    }

    pub(crate) fn file(path: &Path, error: &std::io::Error) -> Self {
        let remedy = remedy_of_file(error).map(str::to_owned);
        Self { remedy, ..Self::new(Code::File, of_file(path, error)) }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// With where it happened in front.
    pub(crate) fn within(self, place: &str) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    pub(crate) fn json(&self) -> Value {
        let fields: Vec<Value> = self
            .fields
            .iter()
            .map(|(at, problem, remedy)| json!({"at": at, "problem": problem, "remedy": remedy}))
            .collect();
        json!({"error": {
            "code": self.code.name(),
            "exit": self.code as u8,
            "message": self.message,
            "fields": fields,
            "remedy": self.remedy,
            "request_id": self.request_id,
        }})
    }
}

/// What the system says of a file, without its number for that.
fn of_file(path: &Path, error: &std::io::Error) -> String {
    let said = error.to_string();
    let said = said.split_once(" (os error ").map_or(said.as_str(), |(said, _)| said);
    format!("{}: {said}", arriving(path).unwrap_or_else(|| path.to_owned()).display())
}

/// The file that a download's part becomes, by which people know it.
fn arriving(path: &Path) -> Option<PathBuf> {
    let (name, digest) = path.file_name()?.to_str()?.strip_suffix(".part")?.rsplit_once('.')?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
    is_digest.then(|| path.with_file_name(name))
}

/// What helps where a file cannot be written.
fn remedy_of_file(error: &std::io::Error) -> Option<&'static str> {
    let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    is_full.then_some("make room there, or name another place, and give the command again")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.fields.as_slice() {
            // The message has the only one already, when it is about nothing else.
            [(_, problem, remedy)] if self.message.ends_with(&shown_text(problem)) => {
                if let Some(remedy) = remedy {
                    write!(f, " ({remedy})")?;
                }
            }
            fields => {
                for (at, problem, remedy) in fields {
                    let (at, problem) = (shown_place(at), shown_text(problem));
                    write!(f, "\n  {at}{}{problem}", if at.is_empty() { "" } else { ": " })?;
                    if let Some(remedy) = remedy {
                        write!(f, " ({remedy})")?;
                    }
                }
            }
        }
        match &self.request_id {
            Some(id) if self.code == Code::Other => write!(f, "\n  request {id}"),
            _ => Ok(()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Error::Invalid(invalid) = error {
            let problems = invalid.violations.iter().map(|v| (v.path(), v.msg.clone())).collect();
            return Self::invalid_fields(problems).expect("something is wrong");
        }
        let code = match &error {
            Error::Refused(refusal) => match refusal.status.as_u16() {
                401 | 403 => Code::Auth,
                404 => Code::NotFound,
                400 | 413 | 415 | 416 | 422 => Code::Invalid,
                409 => Code::Conflict,
                429 => Code::Rate,
                502..=504 => Code::Unreachable,
                _ => Code::Other,
            },
            Error::Connection(_) | Error::Stalled { .. } | Error::Truncated { .. } => {
                Code::Unreachable
            }
            Error::TaskFailed(_) => Code::TaskFailed,
            Error::TimedOut { .. } => Code::Timeout,
            Error::File { .. } | Error::Damaged { .. } => Code::File,
            _ => Code::Other,
        };
        let message = message(&error);
        let fields = match code {
            // All that there is to say is in the message.
            Code::Auth => Vec::new(),
            Code::NotFound if is_of_address(&error) => Vec::new(),
            _ => error.violations().iter().map(field).collect(),
        };
        let remedy = match code {
            Code::Auth if error.status().is_some_and(|status| status == 403) => None,
            // Another key of that account would be refused as well.
            Code::Auth if is_disabled(&error) => remedy_of(ACCOUNT_DISABLED),
            Code::Auth => Some(
                "log in again with `molbox login`; whoever runs the service makes keys with \
                 `molboxd key create NAME`",
            ),
            Code::Unreachable => Some(match &error {
                Error::Connection(source) if is_connection_refused(source) => {
                    "start the service there, with `molboxd serve`, or one of your own with `molbox \
                     up`; or give another address: `molbox login --base-url URL`, --base-url or \
                     MOLBOX_BASE_URL (of margins --margin-url or MOLBOX_MARGIN_URL)"
                }
                Error::Refused(_) => {
                    "try again in some minutes; it is the operator of the service who can put it \
                     right"
                }
                Error::Connection(source) if is_plain(&innermost(source)) => {
                    "it speaks http there: give the address with http:// in place of https://"
                }
                Error::Connection(source) if is_unknown_name(&innermost(source)) => {
                    "is the name right, and is there a network? --base-url or MOLBOX_BASE_URL gives \
                     another, `molbox login --base-url URL` stores it"
                }
                Error::Connection(source) => {
                    certificate(&innermost(source)).map_or(ELSE, |(_, remedy)| remedy)
                }
                Error::Truncated { .. } => "the same command resumes",
                _ => ELSE,
            }),
            Code::NotFound if is_of_address(&error) => Some(
                "is it whole? it ends in the stage, mostly `/local`, as in \
                 http://127.0.0.1:8080/local; `molbox login` finds it by itself. --base-url is the \
                 address for files, systems and jobs, --margin-url the one for margins",
            ),
            Code::File => match &error {
                Error::File { source, .. } => remedy_of_file(source),
                _ => None,
            },
            Code::Timeout => Some("wait for it again by its id"),
            Code::TaskFailed if error.to_string().contains("job_") => {
                Some("`molbox job log` shows the log")
            }
            _ => None,
        };
        Self {
            code,
            message,
            remedy: remedy.map(str::to_owned),
            fields,
            request_id: error.request_id().map(str::to_owned),
        }
    }
}

/// What went wrong, for people.
fn message(error: &Error) -> String {
    match error {
        Error::Refused(refusal) => refused(refusal),
        Error::File { path, source } => of_file(path, source),
        Error::Connection(source) => match source.url().filter(|_| is_connection_refused(source)) {
            Some(url) => format!("nothing listens at {}", url.origin().ascii_serialization()),
            None => format!("cannot {error}: {}", readable(&innermost(source))),
        },
        _ => error.to_string(),
    }
}

/// Why a request is sent again, and when.
pub(crate) fn retried(retry: &Retry) -> String {
    let seconds = retry.delay.as_secs_f64().ceil();
    let Retry { error, number, of, .. } = retry;
    format!("{}; trying again in {seconds} s ({number} of {of})", message(error))
}

/// Where something is wrong with a request, what, and what helps.
fn field(violation: &ValidationError) -> (String, String, Option<&'static str>) {
    // Some messages say it already, as "run one and give its id" does.
    let remedy = remedy_of(&violation.type_).filter(|remedy| !violation.msg.contains(remedy));
    (place(violation), violation.msg.clone(), remedy)
}

/// The field that a violation is about; nothing where it is about what the address names.
fn place(violation: &ValidationError) -> String {
    match violation.loc.first() {
        // Its message names it.
        Some(LocItem::String(first))
            if first == "path" && violation.type_ != "string_pattern_mismatch" =>
        {
            String::new()
        }
        // Whoever uploads gave the name that the message has, and no identifier.
        _ if violation.type_ == "file_content" => String::new(),
        // What is wrong with the account is no fault of the key.
        _ if violation.path() == "header x-api-key" => String::new(),
        // A parameter of the address is an argument here.
        _ => violation.path().trim_end().trim_start_matches("query ").to_owned(),
    }
}

/// Why the service did not do it, for people.
fn refused(refusal: &Refusal) -> String {
    let only = match refusal.violations.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    match (refusal.status.as_u16(), only) {
        (401 | 403, Some(violation)) => violation.msg.clone(),
        (401 | 403, None) => "the service does not take the API key".to_owned(),
        (404, _) if refusal.violations.iter().all(|violation| violation.loc.len() < 2) => {
            "there is no molbox service at this address".to_owned()
        }
        (502..=504, None) => "the service is not available now".to_owned(),
        (_, Some(violation)) => match place(violation).as_str() {
            "" => shown_text(&violation.msg),
            place => format!("{}: {}", shown_place(place), shown_text(&violation.msg)),
        },
        (_, None) if refusal.violations.is_empty() => {
            format!("the service answered {}", refusal.status)
        }
        (_, None) => format!("{} things are wrong with the request", refusal.violations.len()),
    }
}

/// The TLS library's words for an answer without TLS.
fn is_plain(cause: &str) -> bool {
    cause.contains("InvalidContentType") || cause.contains("wrong version number")
}

fn is_unknown_name(cause: &str) -> bool {
    cause.contains("failed to lookup address")
}

/// What is wrong with a certificate, by the TLS library's words, and what helps.
fn certificate(cause: &str) -> Option<(&'static str, &'static str)> {
    CERTIFICATES
        .iter()
        .find(|(words, ..)| words.iter().any(|word| cause.contains(word)))
        .map(|(_, problem, remedy)| (*problem, *remedy))
}

/// What helps where nothing else is known of what is out of reach.
const ELSE: &str = "`molbox doctor` says what is out of reach";

type Words = &'static [&'static str];

const CERTIFICATES: [(Words, &str, &str); 4] = [
    (
        // Whatever is trusted.
        &["CaUsedAsEndEntity"],
        "its certificate is one of an authority, as `openssl req -x509` makes it, and not one of a \
         service",
        "whoever runs the service makes another with `-addext basicConstraints=critical,CA:FALSE`; \
         then set SSL_CERT_FILE to a file with that",
    ),
    (
        &["UnknownIssuer"],
        "its certificate cannot be verified",
        "its certificate is of an authority that this machine does not know: set SSL_CERT_FILE to a \
         file with the certificate of that authority",
    ),
    (
        &["certificate: Expired", "certificate expired"],
        "its certificate has expired",
        "whoever runs the service renews it; is the clock of this machine right?",
    ),
    (
        &["certificate not valid for name"],
        "its certificate is for another name",
        "give the address with the name that it is for: `molbox login --base-url URL`, --base-url or \
         MOLBOX_BASE_URL",
    ),
];

/// A cause as the library has it, or what it means.
fn readable(cause: &str) -> String {
    match () {
        () if is_plain(cause) => "there is no TLS on that port".to_owned(),
        () if is_unknown_name(cause) => "there is no machine of that name".to_owned(),
        () => certificate(cause).map_or(cause, |(problem, _)| problem).to_owned(),
    }
}

/// Whether a service does not know the path, rather than what the path names.
fn is_of_address(error: &Error) -> bool {
    // A margin address given as --base-url is refused so, with a bare 404.
    error.violations().iter().all(|violation| violation.loc.len() < 2)
}

/// The service's code for a key whose account is disabled.
const ACCOUNT_DISABLED: &str = "account_disabled";

/// Whether a key is right, and its account disabled.
pub(crate) fn is_disabled(error: &Error) -> bool {
    error.violations().iter().any(|violation| violation.type_ == ACCOUNT_DISABLED)
}

/// Whether there is a machine at an address, and no program that listens.
fn is_connection_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let io_error = error.downcast_ref::<std::io::Error>();
    io_error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        || error.source().is_some_and(is_connection_refused)
}

fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// What is wrong with a command: its first paragraph, and tips and usage as what to do about it.
impl From<&clap::Error> for Failure {
    fn from(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(|paragraph| {
            let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
            lines.join(" ")
        });
        let message = paragraphs.next().unwrap_or_default();
        let rest: Vec<String> = paragraphs.collect();
        Self::usage(message.strip_prefix("error: ").unwrap_or(&message)).remedy(rest.join("; "))
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(error) => error.into(),
            Err(error) => Self::new(Code::Other, format!("{error:#}")),
        }
    }
}

/// What helps against each type of violation, if it is of use on a terminal.
const REMEDIES: &[(&str, &str)] = include!("remedies.in.rs");

fn remedy_of(kind: &str) -> Option<&'static str> {
    let remedy = REMEDIES.iter().find(|(known, _)| *known == kind).map(|(_, remedy)| *remedy);
    // Nobody sees headers here; the retries have waited for what this one says.
    remedy.filter(|remedy| !remedy.contains("retry-after"))
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::path::Path;

    use serde_json::json;

    use super::{ACCOUNT_DISABLED, Failure, certificate, field, readable, remedy_of};

    #[test]
    fn a_full_disk_is_told_by_the_file_that_was_to_be_and_with_what_helps() {
        let part = format!("results/job_1.zip.{}.part", "0123456789abcdef".repeat(4));
        let failed = |path: &str, kind: ErrorKind| {
            let Failure { message, remedy, .. } =
                Failure::file(Path::new(path), &Error::from(kind));
            (message, remedy)
        };
        let (message, remedy) = failed(&part, ErrorKind::StorageFull);
        assert_eq!(message, "results/job_1.zip: no storage space");
        assert!(remedy.unwrap().starts_with("make room there"));
        let (message, remedy) = failed("book.part", ErrorKind::PermissionDenied);
        assert_eq!((message.as_str(), remedy), ("book.part: permission denied", None));
    }

    #[test]
    fn what_helps_is_not_said_twice() {
        let missing = |msg: &str| {
            let loc = json!(["body", "job_id"]);
            let violation = json!({"loc": loc, "msg": msg, "type": "missing"});
            field(&serde_json::from_value(violation).unwrap()).2
        };
        assert_eq!(missing("there is no job yet; run one and give its id"), None);
        assert_eq!(missing("Field required"), Some("give it"));
    }

    #[test]
    fn each_fault_of_a_certificate_has_its_own_remedy() {
        // As the library has said of services with such certificates.
        for (cause, problem, remedy) in [
            ("UnknownIssuer", "cannot be verified", "set SSL_CERT_FILE"),
            ("Other(OtherError(CaUsedAsEndEntity))", "of an authority", "CA:FALSE"),
            ("Expired", "has expired", "renews it"),
            (
                "certificate not valid for name \"localhost\"; certificate is only valid for \
                 DnsName(\"other.example\")",
                "for another name",
                "the name that it is for",
            ),
        ] {
            let cause = format!("invalid peer certificate: {cause}");
            assert!(readable(&cause).contains(problem), "{cause}");
            assert!(certificate(&cause).unwrap().1.contains(remedy), "{cause}");
        }
        assert_eq!(certificate("connection reset by peer"), None);
    }

    #[test]
    fn remedies_come_from_the_table_of_errors() {
        assert_eq!(remedy_of("too_large"), Some("a smaller one, or the same without compression"));
        assert!(remedy_of(ACCOUNT_DISABLED).is_some_and(|remedy| remedy.contains("enable")));
        assert_eq!(remedy_of("no_such_type"), None);
        assert_eq!(remedy_of("unavailable"), None, "it names a header");
        assert_eq!(remedy_of("out_of_range"), None, "its remedy is in the message");
    }
}
