//! What people see: the same binary in a pseudo-terminal.

use std::process::Command;

use crate::support::{Service, matches, repository};

/// What a command shows on a terminal.
fn shown(service: &Service, command: &str, settings: &[(&str, &str)]) -> String {
    shown_in(service, 120, command, settings)
}

/// The same on a terminal of so many columns.
fn shown_in(service: &Service, width: usize, command: &str, settings: &[(&str, &str)]) -> String {
    let output = terminal(service, width, command, settings).output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

fn terminal(service: &Service, width: usize, command: &str, settings: &[(&str, &str)]) -> Command {
    let mut script = Command::new("script");
    let binary = env!("CARGO_BIN_EXE_molbox");
    script
        .args(["-qec", &format!("stty rows 40 cols {width} && {binary} {command}"), "/dev/null"])
        .current_dir(service.folder());
    // What the machine of a test wants of colours; where `CI` is set, even a dumb terminal has some.
    for colors in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        script.env_remove(colors);
    }
    script.env("TERM", "xterm-256color").env("MOLBOX_CONFIG", service.folder().join("config.toml"));
    script.env("MOLBOX_API_KEY", &service.key).env("MOLBOX_BASE_URL", &service.base_url);
    script.env("MOLBOX_MARGIN_URL", &service.margin_url).envs(settings.iter().copied());
    script
}

#[test]
fn a_terminal_gets_tables_in_colour_unless_it_wants_none() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    service.ok(&["file", "upload", pdb.to_str().unwrap(), "--name", "villin"]);
    let colourful = shown(&service, "file list", &[]);
    assert!(colourful.contains("\u{1b}[38;5;64mready"), "read on any background: {colourful}");
    let plain = shown(&service, "file list", &[("NO_COLOR", "1")]);
    assert!(!plain.contains("\u{1b}["), "{plain}");
    matches("terminal_file_list.txt", &plain);
    assert!(!shown(&service, "file list", &[("TERM", "dumb")]).contains('\u{1b}'));
    let misused = |words: &str, settings: &[(&str, &str)]| {
        shown(&service, words, settings).contains("\u{1b}[")
    };
    assert!(misused("--bogus", &[]));
    for (words, settings) in [
        ("--color never --bogus", ("A", "")),
        ("--bogus", ("NO_COLOR", "1")),
        ("--bogus", ("CLICOLOR", "0")),
    ] {
        assert!(!misused(words, &[settings]), "{words} {settings:?}");
    }
    assert!(shown(&service, "file list --json", &[]).trim_start().starts_with('['));
}

#[test]
fn an_error_on_a_terminal_is_a_sentence_with_help() {
    let service = Service::start();
    matches(
        "terminal_error.txt",
        &shown(&service, "job submit --temperature -5", &[("NO_COLOR", "1")]),
    );
    let narrow = shown_in(&service, 60, "file show no-such-file", &[("NO_COLOR", "1")]);
    let long = shown_in(&service, 60, "job submit --dry-run --engine gromax", &[("NO_COLOR", "1")]);
    let misused = shown_in(&service, 60, "run a.pdb --time 1hour", &[("NO_COLOR", "1")]);
    matches("terminal_error_60.txt", &(narrow + &long + &misused));
    matches("terminal_doctor.txt", &shown(&service, "doctor", &[("NO_COLOR", "1")]));
}

#[test]
fn a_table_fits_the_terminal_by_what_matters_most() {
    let service = Service::with(&["tasks.runner=\"off\""]);
    let pdb = repository().join("examples/1vii.pdb");
    for name in ["villin", "villin headpiece subdomain, as of 1997"] {
        service.ok(&["file", "upload", pdb.to_str().unwrap(), "--name", name]);
    }
    service.ok(&["system", "submit", "--protein", "villin", "--box-name", "villin in water"]);
    for width in [60, 80, 120, 200] {
        let mut all = String::new();
        for command in ["file list", "system list", "doctor"] {
            let text = shown_in(&service, width, command, &[("NO_COLOR", "1")]);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width, "{command} at {width}: {longest}\n{text}");
            all += &format!("$ molbox {command}\n{text}\n");
        }
        matches(&format!("terminal_{width}.txt"), &all);
    }
    let short = shown_in(&service, 45, "system list", &[("NO_COLOR", "1")]);
    let id = short.lines().nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(id.len(), "box_000000".len(), "{short}");
    assert_eq!(service.json(&["system", "show", id])["box_name"], "villin in water");
    let short = shown_in(&service, 60, "file list", &[("NO_COLOR", "1")]);
    let id = short.lines().nth(2).unwrap().split(' ').next().unwrap();
    assert_eq!(service.json(&["file", "show", id])["name"], "villin", "{short}");
}

#[test]
fn where_there_is_nothing_yet_a_list_says_what_to_do() {
    let service = Service::start();
    let lists = ["file", "system", "job", "analysis"];
    let shown = lists.map(|noun| shown(&service, &format!("{noun} list"), &[("NO_COLOR", "1")]));
    matches("terminal_empty.txt", &shown.concat());
}

#[test]
fn a_dry_run_on_a_terminal_has_defaults_and_units() {
    let service = Service::with(&["tasks.runner=\"off\""]);
    let dry = |words: &str| shown_in(&service, 80, words, &[("NO_COLOR", "1")]);
    let system = dry("system submit --dry-run --concentration 100mM");
    for line in ["concentration    0.1 mol/L", "force_field      amber14", "pH               7.4"] {
        assert!(system.contains(line), "{line}: {system}");
    }
    assert!(system.contains("\nestimate\n") && !system.contains("[["), "{system}");
    service.ok(&["system", "submit"]);
    let job = dry("job submit --dry-run --time 2ns");
    assert!(job.contains("temperature               300 K"), "{job}");
    assert!(job.contains("NPT, 2 ns, frame every 2500 steps"), "{job}");
}

#[test]
fn what_is_deleted_on_a_terminal_is_asked_about() {
    let service = Service::start();
    let pdb = repository().join("examples/1vii.pdb");
    let file = service.json(&["file", "upload", pdb.to_str().unwrap()]);
    let id = file["file_id"].as_str().unwrap();
    let answered = |answer: &str, flags: &str| {
        let mut delete = terminal(&service, 120, &format!("file delete {flags}{id}"), &[]);
        let output = crate::support::with_input(&mut delete, answer);
        String::from_utf8(output.stdout).unwrap()
    };
    let kept = answered("n\n", "");
    assert!(kept.contains("[y/N]") && kept.contains("nothing was deleted"), "{kept}");
    service.ok(&["file", "show", id]);
    answered("y\n", "");
    assert_eq!(service.json(&["file", "list"]), serde_json::json!([]));
}

#[test]
fn what_became_of_a_cancelled_task_ends_between_words() {
    let service = Service::start();
    let submitted = service.json(&["system", "submit", "--minimum-padding", "1"]);
    let id = submitted["system_id"].as_str().unwrap();
    let cancel = format!("system cancel {id}");
    let said = shown_in(&service, 50, &cancel, &[("NO_COLOR", "1")]);
    assert!(said.contains(&format!("{id} is cancel")), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 50), "{said}");
}

#[test]
fn an_analysis_says_which_atoms_its_masks_have_selected() {
    let service = Service::start();
    let data = repository().join("crates/analysis/tests/data");
    let files = format!("{0}/mini_tri.xtc {0}/mini_tri.pdb", data.display());
    let shown = shown(&service, &format!("analyze {files} --rmsd :1-4@CA"), &[("NO_COLOR", "1")]);
    assert!(shown.contains("\n:1-4@CA: 4 atoms, A:SER0@CA to A:TRP3@CA\n"), "{shown}");
}
