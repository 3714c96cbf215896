//! Turns `openapi/molbox.yaml` into the modules `workflow` and `margin`.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use molbox_codegen::{Document, Part, Scope};

const DOCUMENT: &str = "openapi/molbox.yaml";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={DOCUMENT}");
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            for error in errors {
                println!("cargo::error={DOCUMENT}: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), Vec<String>> {
    let text = fs::read_to_string(DOCUMENT).map_err(|e| vec![e.to_string()])?;
    let document = Document::read(&text).map_err(|e| vec![e.to_string()])?;
    let violations = document.violations();
    if !violations.is_empty() {
        return Err(violations.iter().map(ToString::to_string).collect());
    }
    let scope =
        if env::var_os("CARGO_FEATURE_CLIENT").is_some() { Scope::Client } else { Scope::Types };
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for part in Part::ALL {
        let source = document.rust(part, scope).map_err(|e| vec![e.to_string()])?;
        let file = Path::new(&out).join(part.module()).with_extension("rs");
        write(&file, &source)?;
    }
    write(&Path::new(&out).join("fields.rs"), &document.fields())
}

fn write(file: &Path, source: &str) -> Result<(), Vec<String>> {
    fs::write(file, source).map_err(|e| vec![format!("{}: {e}", file.display())])
}
