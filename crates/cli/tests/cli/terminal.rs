//! What people see: the same binary in a pseudo-terminal.

use std::process::Command;

use crate::support::{Service, matches, repository};

/// What a command shows on a terminal.
fn shown(service: &Service, command: &str, settings: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    let binary = env!("CARGO_BIN_EXE_molbox");
    script
        .args(["-qec", &format!("stty cols 120 && {binary} {command}"), "/dev/null"])
        .current_dir(service.folder());
    script
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color")
        .env("MOLBOX_CONFIG", service.folder().join("config.toml"));
    script.env("MOLBOX_API_KEY", &service.key).env("MOLBOX_BASE_URL", &service.base_url);
    script.env("MOLBOX_MARGIN_URL", &service.margin_url).envs(settings.iter().copied());
    let output = script.output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn a_terminal_gets_tables_in_colour_unless_it_wants_none() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    service.ok(&["file", "upload", pdb.to_str().unwrap(), "--name", "villin"]);
    let colourful = shown(&service, "file list", &[]);
    assert!(colourful.contains("\u{1b}["), "{colourful}");
    let plain = shown(&service, "file list", &[("NO_COLOR", "1")]);
    assert!(!plain.contains("\u{1b}["), "{plain}");
    matches("terminal_file_list.txt", &plain);
    assert!(!shown(&service, "file list", &[("TERM", "dumb")]).contains('\u{1b}'));
    assert!(shown(&service, "file list --json", &[]).trim_start().starts_with('['));
}

#[test]
fn an_error_on_a_terminal_is_a_sentence_with_help() {
    let service = Service::start();
    matches(
        "terminal_error.txt",
        &shown(&service, "job submit --temperature -5", &[("NO_COLOR", "1")]),
    );
    matches("terminal_doctor.txt", &shown(&service, "doctor", &[("NO_COLOR", "1")]));
}
