//! Ways in for the fuzz targets, which see what others do not.

use std::sync::LazyLock;

use serde_json::Value;

use crate::app::DOCUMENT;
use crate::formats::{Format, check_text};
use crate::json;
use crate::validate::Contract;

const FORMATS: [&str; 6] = ["pdb", "cif", "sdf", "mol", "mol2", "xml"];

static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(&serde_json::from_str::<Value>(DOCUMENT).expect("the document is JSON")));

/// Checks content as a registration does.
pub fn upload(which: u8, content: &[u8]) {
    let name = FORMATS[usize::from(which) % FORMATS.len()];
    if let Some(format) = Format::named(name) {
        // Either way; what matters is that it comes back.
        let _ = check_text(content, format);
    }
}

/// Checks a request body against every operation.
pub fn request(bytes: &[u8]) {
    for operation in ["file_register", "system_submit", "job_submit", "analysis_submit", "margin_submit"] {
        if let (Ok(mut body), Some(operation)) = (json::parse(bytes, usize::MAX), CONTRACT.operation(operation)) {
            let checked = operation.check_body(&mut body);
            let text = serde_json::to_vec(&body.into_serde()).expect("JSON can be written");
            // What passed is what the wire types take.
            if checked.is_readable {
                json::parse(&text, usize::MAX)
                    .map(drop)
                    .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&text)));
            }
        }
    }
}
