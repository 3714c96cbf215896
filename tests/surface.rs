//! What others can use of this crate, recorded: a change of it is seen in review, and decides the
//! next version. What is generated from the document is recorded in `openapi/surface.txt`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[test]
fn the_public_surface_is_the_recorded_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(root.join("src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    files.sort();
    let mut found = String::new();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if !line.starts_with("pub ") {
                continue;
            }
            // A signature goes on until its body or its end.
            let mut whole = line.to_owned();
            while !whole.ends_with(['{', ';', '}', ',']) || (whole.contains('(') && !whole.contains(')')) {
                match lines.next() {
                    Some(next) => write!(whole, " {next}").unwrap(),
                    None => break,
                }
            }
            writeln!(found, "{name}: {}", whole.trim_end_matches([' ', '{', ',', ';'])).unwrap();
        }
    }
    let record = root.join("tests/surface.txt");
    if std::env::var_os("MOLBOX_BLESS").is_some() {
        fs::write(&record, &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(&record).unwrap_or_default(), "MOLBOX_BLESS=1 records it anew");
}
