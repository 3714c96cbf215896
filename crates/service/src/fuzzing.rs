//! Ways in for the fuzz targets, which see what others do not.

use std::sync::LazyLock;

use jiff::Timestamp;
use molbox::workflow::types::{
    self, AccountChange, AccountRequest, AnalysisRequest, FileRegistration, InvitationAcceptance,
    InvitationCheck, JobCreateParams, JobExtension, KeyRequest, PasswordChange, SignIn,
    SystemBuildRequest,
};
use molbox_analysis::Contents;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::accounts::link::{UploadLink, UploadLinks};
use crate::db::Filter;
use crate::formats::{Format, check_text};
use crate::http::json;
use crate::http::page_token::PageTokens;
use crate::http::validate::Contract;

static CONTRACT: LazyLock<Contract> = LazyLock::new(Contract::of_document);

/// Checks content as a registration does.
pub fn upload(content: &[u8], format: &str) {
    let format = Format::named(format).expect("a format");
    // Either way; what matters is that it comes back.
    if check_text(content, format, u64::MAX).is_ok() {
        count(content, format);
    }
}

/// Counts what a content has that was registered as a structure.
fn count(content: &[u8], format: Format) {
    let counted = match format {
        Format::Pdb => Contents::of_pdb(content).expect("it is in memory"),
        Format::Cif => Contents::of_mmcif(&String::from_utf8_lossy(content)),
        _ => return,
    };
    let counted = counted.unwrap_or_else(|error| panic!("what was registered is read: {error}"));
    assert!(counted.n_atoms > 0 && counted.n_residues > 0, "{counted:?}");
}

/// Checks a request body against every operation that takes one.
pub fn request(body: &[u8]) {
    of_operation::<FileRegistration>("file_register", body);
    of_operation::<SystemBuildRequest>("system_submit", body);
    of_operation::<JobCreateParams>("job_submit", body);
    of_operation::<JobExtension>("job_extend", body);
    of_operation::<AnalysisRequest>("analysis_submit", body);
    of_operation::<SignIn>("session_create", body);
    of_operation::<InvitationCheck>("invitation_check", body);
    of_operation::<InvitationAcceptance>("invitation_accept", body);
    of_operation::<KeyRequest>("key_create", body);
    of_operation::<PasswordChange>("password_change", body);
    of_operation::<AccountRequest>("account_create", body);
    of_operation::<AccountChange>("account_change", body);
    // A margin's portfolio is read otherwise.
    of_operation::<Value>("margin_submit", body);
}

fn of_operation<T: DeserializeOwned>(id: &str, body: &[u8]) {
    let operation = CONTRACT.operation(id).expect("the document has it");
    let Ok(mut body) = json::parse(body, usize::MAX) else { return };
    let is_readable = operation.check_body(&mut body).is_readable;
    let body = body.into_serde();
    if let Err(error) = serde_json::from_value::<T>(body.clone())
        && is_readable
    {
        panic!("{id} passes {body}, its type does not: {error}");
    }
}

const SECRET: [u8; 32] = [7; 32];
const FILE: &str = "file_0123456789abcdefghjk";
const KEY: &str = "key_0123456789abcdefghjk";
const EXPIRES: i64 = 1_800_000_000_000_000;

/// Uses an upload link, `FILE?QUERY`; none but one is good.
pub fn upload_link(link: &str) {
    let links = UploadLinks::new(SECRET);
    let at = |microseconds| Timestamp::from_microsecond(microseconds).expect("in this century");
    let good = links.query(FILE, KEY, at(EXPIRES));
    let (file, query) = link.split_once('?').unwrap_or((link, ""));
    let query: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let used = UploadLink::of(&query);
    if links.check(file, &used, at(EXPIRES - 1)).is_ok() {
        let signature = good.rsplit('=').next().expect("three parts");
        assert!(
            file == FILE && used.key == KEY && used.expires.parse() == Ok(EXPIRES),
            "{link} is good, as is {good}"
        );
        assert!(used.signature.eq_ignore_ascii_case(signature), "{link} is good, as is {good}");
        assert!(links.check(file, &used, at(EXPIRES)).is_err(), "{link} has expired");
    }
}

/// Opens a text as a page token, and seals it into one.
pub fn page_token(text: &str) {
    const LISTING: &str = "job_list 1";
    let tokens = PageTokens::new(&SECRET);
    let page = Filter { before: Some(1234), status: Some(types::Status::Ready), name: None };
    let good = tokens.seal(LISTING, &page, [9; 12]);
    let is_good = text.eq_ignore_ascii_case(&good);
    assert_eq!(tokens.open(LISTING, text), is_good.then_some(page), "{text} and {good}");

    let page =
        Filter { before: Some(text.len() as i64), status: None, name: Some(text.to_owned()) };
    let token = tokens.seal(LISTING, &page, [8; 12]);
    assert_eq!(tokens.open(LISTING, &token), Some(page), "{text:?}");
    assert_eq!(tokens.open("job_list 2", &token), None);
}
