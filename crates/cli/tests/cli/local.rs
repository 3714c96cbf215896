//! What needs no service.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{failure, matches, molbox, ok, repository, with_input};

#[test]
fn completions_and_man_pages_are_made() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(
            ok(&mut molbox(folder.path(), &["completions", shell])).contains("analysis"),
            "{shell}"
        );
    }
    ok(&mut molbox(folder.path(), &["man", "pages"]));
    let page = fs::read_to_string(folder.path().join("pages/molbox-job-submit.1")).unwrap();
    assert!(page.contains("temperature"));
}

#[test]
fn a_command_that_is_given_alone_shows_its_help_whatever_the_environment_sets() {
    let folder = tempfile::tempdir().unwrap();
    for words in [&[][..], &["job"], &["margin"], &["job", "--json"]] {
        for name in ["MOLBOX_BASE_URL", "MOLBOX_MARGIN_URL", "MOLBOX_PROFILE"] {
            let output = molbox(folder.path(), words).env(name, "x").output().unwrap();
            let shown = [output.stdout, output.stderr].concat();
            let shown = String::from_utf8(shown).unwrap();
            assert!(
                !shown.contains("error:") && shown.contains("\nCommands:\n"),
                "{words:?}: {shown}"
            );
            assert_eq!(output.status.code(), Some(2), "as without a setting");
        }
    }
}

#[test]
fn a_misuse_is_a_failure_that_programs_read_and_repeats_nothing_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    for (words, message, remedy) in [
        (&["file", "lst"][..], "unrecognized subcommand 'lst'", "tip: some similar subcommands"),
        (
            &["file", "upload"],
            "the following required arguments were not provided: <FILE>...",
            "Usage: molbox file upload <FILE>...; For more",
        ),
        (
            &["job", "submit", "--temperature", "warm"],
            "invalid value 'warm' for '--temperature <K>': must be a number, got \"warm\"",
            "For more information, try '--help'.",
        ),
    ] {
        let mut command = molbox(folder.path(), words);
        for name in ["MOLBOX_BASE_URL", "MOLBOX_MARGIN_URL", "MOLBOX_PROFILE"] {
            command.env(name, "x");
        }
        let (code, error) = failure(&mut command);
        assert_eq!((code, &error["code"]), (2, &json!("usage")));
        assert_eq!(error["message"], message);
        assert!(error["remedy"].as_str().unwrap().starts_with(remedy), "{error}");
    }
}

#[test]
fn a_margin_is_calculated_for_outputs_alone_that_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let book = ["--future", "XEQ1:long:10"];
    let local = [&["margin", "local", "--margin-date", "2024-12-31"][..], &book].concat();
    let backtest = [&["margin", "backtest", "--from", "2024-12-01"][..], &book].concat();
    for (command, words, code, message) in [
        (&local, &["-o", "no/such.csv"][..], 11, "no/such.csv: No such file or directory"),
        (&local, &["-o", "book.txt", "--plot-losses", "a.png"], 2, "--output: must end in .csv,"),
        (&local, &["--plot-parts", "no/a.png"], 11, "no/a.png: No such file or directory"),
        (&backtest, &["-o", "days.xml", "--plot", "a.png"], 2, "--output: a backtest's must end"),
        (&backtest, &["-o", "no/days.csv"], 11, "no/days.csv: No such file or directory"),
    ] {
        let (found, error) = failure(&mut molbox(folder.path(), &[command, words].concat()));
        assert_eq!(found, code, "{error}");
        assert!(error["message"].as_str().unwrap().starts_with(message), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn shells_complete_the_values_that_the_document_lists() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = ok(&mut molbox(folder.path(), &["completions", shell]));
        for value in ["dodecahedron", "charmm36_2024", "tip4pew", "POPC", "mol2", "NVT"] {
            assert!(script.contains(value), "{shell}: {value}");
        }
    }
}

#[test]
fn a_dry_run_refuses_all_that_the_document_does_not_allow() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("system.toml"),
        "ligand_input_formats = ['sdf', 'pdbqt']\npH = 15\n",
    )
    .unwrap();
    let flags = [
        "--box-shape",
        "sphere",
        "--membrane",
        "popc",
        "--concentration",
        "7",
        "--ligand-residue-names",
        "LIGAND",
    ];
    let mut command =
        molbox(folder.path(), &["system", "submit", "--dry-run", "-f", "system.toml"]);
    let (code, error) = failure(command.args(flags));
    assert_eq!(code, 5);
    let fields = error["fields"].as_array().unwrap().iter();
    let reported: Vec<String> =
        fields.map(|f| format!("{}: {}", f["at"], f["problem"]).replace(['"', '\\'], "")).collect();
    let expected = [
        "box_shape: must be one of cube, rectangular, dodecahedron, octahedron, got sphere",
        "concentration: must be from 0 to 5 mol/L, got 7",
        "ligand_input_formats[1]: must be one of sdf, mol, mol2, pdb, got pdbqt",
        "ligand_residue_names[0]: must have from 1 to 4 characters, has 6",
        "pH: must be from 0 to 14, got 15",
    ];
    assert_eq!(reported, expected);
}

#[test]
fn examples_are_requests() {
    let folder = tempfile::tempdir().unwrap();
    for noun in ["system", "job", "analysis", "margin"] {
        let example = ok(&mut molbox(folder.path(), &["example", noun]));
        matches(&format!("example_{noun}.yaml"), &example);
        let output = with_input(
            &mut molbox(folder.path(), &[noun, "submit", "--file", "-", "--dry-run"]),
            &example,
        );
        assert!(output.status.success(), "{noun}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn flags_override_the_file_and_units_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let file = "temperature = '37°C'\n[production]\ntime = '500ps'\nlog_freq = 100\n";
    fs::write(folder.path().join("job.toml"), file).unwrap();
    let flags = [
        "job",
        "submit",
        "--dry-run",
        "-f",
        "job.toml",
        "--time",
        "2 µs",
        "--integration-timestep",
        "0.004ps",
    ];
    let request: Value = serde_json::from_str(&ok(&mut molbox(folder.path(), &flags))).unwrap();
    let wanted = json!({"temperature": 310.15, "production": {"time": 2000, "log_freq": 100}, "integration_timestep": 4});
    assert_eq!(request, wanted);
}

#[test]
fn what_is_wrong_is_reported_with_field_remedy_and_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("typo.yaml"), "production:\n  tiem: 1\n").unwrap();
    fs::write(folder.path().join("low.json"), r#"{"equilibration": [{"time": 1}, {"time": -1}]}"#)
        .unwrap();
    let closed = "http://127.0.0.1:1/local";
    let cases: [(&[&str], i32, &str, &str); 7] = [
        (
            &["margin", "local", "--portfolio", "book.xlsx"],
            2,
            "--portfolio book.xlsx: its format cannot be recognised",
            "save its sheet as CSV",
        ),
        (
            &["job", "submit", "-f", "typo.yaml"],
            5,
            "typo.yaml: production.tiem: no such field; did you mean production.time?",
            "`molbox example job` explains every field",
        ),
        (
            &["job", "submit", "-f", "low.json"],
            5,
            "equilibration[1].time: must be a number >= 0, got -1",
            "`molbox example job` explains every field",
        ),
        (&["job", "submit", "-f", "none.json"], 11, "none.json: No such file or directory", ""),
        (
            &["job", "list"],
            3,
            "no API key",
            "log in with `molbox login`, or set MOLBOX_API_KEY; `molbox up` starts a service of your \
             own, and logs in there",
        ),
        (
            &["job", "list", "--profile", "none"],
            2,
            "",
            "make it with `molbox login --profile none`",
        ),
        (
            &["service", "health", "--base-url", closed, "--retries", "0"],
            10,
            "nothing listens at http://127.0.0.1:1",
            "start the service there, with `molboxd serve`, or one of your own with `molbox up`; or \
             give another address: `molbox \
             login --base-url URL`, --base-url or MOLBOX_BASE_URL (of margins --margin-url or \
             MOLBOX_MARGIN_URL)",
        ),
    ];
    for (arguments, exit, message, remedy) in cases {
        let (code, error) = failure(&mut molbox(folder.path(), arguments));
        assert_eq!(code, exit, "{arguments:?}");
        assert_eq!(error["exit"], exit);
        assert!(message.is_empty() || error["message"] == message, "{arguments:?}: {error}");
        assert!(remedy.is_empty() || error["remedy"] == remedy, "{arguments:?}: {error}");
    }
    for usage in [
        &["nonsense"][..],
        &["job", "list", "--status", "sleeping"],
        &["job", "submit", "--temperature", "5ns"],
        &["job", "submit", "--temprature", "5"],
    ] {
        assert_eq!(
            molbox(folder.path(), usage).output().unwrap().status.code(),
            Some(2),
            "{usage:?}"
        );
    }
}

#[test]
fn no_request_with_a_misspelt_field_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let closed = [
        "--base-url",
        "http://127.0.0.1:1/local",
        "--margin-url",
        "http://127.0.0.1:1",
        "--retries",
        "0",
    ];
    let reported = |arguments: &[&str]| {
        let mut command = molbox(folder.path(), arguments);
        let (code, error) = failure(command.args(closed).env("MOLBOX_API_KEY", "mbx_x"));
        assert_eq!(code, 5, "{arguments:?}: {error}");
        let fields = error["fields"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let all: Vec<String> =
            fields.map(|f| format!("{}: {}", text(&f["at"]), text(&f["problem"]))).collect();
        if all.len() == 1 {
            // The message has it, and the file.
            let message = text(&error["message"]);
            assert!(message.ends_with(&all[0]), "{message}");
            return vec![message];
        }
        all
    };
    write("job.yaml", "temprature: 500\nequilibration:\n- tme: 5\n  restraint_foce: null\n");
    let of_job = [
        "temprature: no such field; did you mean temperature?",
        "equilibration[0].tme: no such field; did you mean equilibration[0].time?",
        "equilibration[0].restraint_foce: no such field; did you mean \
         equilibration[0].restraint_force?",
    ];
    assert_eq!(reported(&["job", "submit", "-f", "job.yaml"]), of_job);
    assert_eq!(reported(&["job", "submit", "-f", "job.yaml", "--dry-run"]), of_job);
    write(
        "job.json",
        r#"{"temprature": 500, "equilibration": [{"tme": 5, "restraint_foce": null}]}"#,
    );
    assert_eq!(reported(&["api", "POST", "/submit/job", "--input", "job.json"]), of_job);
    assert_eq!(
        reported(&["api", "POST", "/submit/system", "-F", "keep_hs=true"]),
        ["keep_hs: no such field; did you mean keep_Hs?"]
    );
    write("system.toml", "boxShape = 'cube'\n");
    assert_eq!(
        reported(&["system", "submit", "-f", "system.toml"]),
        ["system.toml: boxShape: no such field; did you mean box_shape?"]
    );
    write("run.yaml", "job:\n  temprature: 310\n");
    fs::copy(repository().join("examples/1vii.pdb"), folder.path().join("1vii.pdb")).unwrap();
    assert_eq!(
        reported(&["run", "1vii.pdb", "-f", "run.yaml"]),
        ["run.yaml: job: temprature: no such field; did you mean temperature?"]
    );
    write(
        "book.yaml",
        "futures:\n- {ticker: XEQ1, type: long, quantity: 1, entrydate: 2024-12-30}\n",
    );
    for place in ["local", "submit"] {
        assert_eq!(
            reported(&["margin", place, "--portfolio", "book.yaml"]),
            ["book.yaml: futures[0].entrydate: no such field; did you mean futures[0].entryDate?"]
        );
    }
}

#[test]
fn a_column_that_a_portfolio_does_not_have_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("book.csv"),
        "ticker,type,quantity,entrydate\nXEQ1,long,1,2024-12-30\n",
    )
    .unwrap();
    let output =
        molbox(folder.path(), &["margin", "local", "--portfolio", "book.csv"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let remarks = String::from_utf8(output.stderr).unwrap();
    let warning = "warning: portfolio.futures.entrydate: no such field; did you mean \
                   portfolio.futures.entryDate?";
    assert!(remarks.contains(warning), "{remarks}");
}

#[test]
fn a_portfolio_of_a_spreadsheet_is_read_and_its_mistakes_have_lines() {
    let folder = tempfile::tempdir().unwrap();
    let margin = |table: &[u8]| {
        fs::write(folder.path().join("book.csv"), table).unwrap();
        let date = ["--margin-date", "2024-12-31", "--num-scenarios", "1000"];
        let book = ["margin", "local", "--portfolio", "book.csv"];
        molbox(folder.path(), &[&book[..], &date].concat())
    };
    let german = "\u{feff}ticker;type;quantity\r\nXEQ1;long;2,5\r\n";
    let report: Value = serde_json::from_str(&ok(&mut margin(german.as_bytes()))).unwrap();
    assert_eq!(report["rows"][0]["quantity"], 2.5);
    let mut named = molbox(folder.path(), &["margin", "local", "book.csv"]);
    let named: Value = serde_json::from_str(&ok(&mut named)).unwrap();
    assert_eq!(named["rows"][0]["quantity"], 2.5, "a file needs no flag");
    let wrong = b"ticker,type,quantity\nXEQ1,long,1\nXEQ1,long,-1\n";
    let output = margin(wrong).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(5), 0));
    let said = String::from_utf8(output.stderr).unwrap();
    let [note, error] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(note.contains("the invented prices of the sample data"), "{note}");
    let error: Value = serde_json::from_str(error).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("line 3: must be at least 0"), "{message}");
    let (code, error) = failure(&mut margin(b"ticker,type,quantity\nM\xfcnchen,long,1\n"));
    assert_eq!(code, 11, "{error}");
    assert!(error["remedy"].as_str().unwrap().contains("CSV UTF-8"), "{error}");
    fs::write(folder.path().join("none.json"), "{\"futures\": []}").unwrap();
    let mut none = molbox(folder.path(), &["margin", "local", "--portfolio", "none.json"]);
    for none in [&mut none, &mut margin(b"ticker,type,quantity\n")] {
        let output = none.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let remarks = String::from_utf8(output.stderr).unwrap();
        assert!(remarks.contains("the portfolio has no positions"), "{remarks}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let data = repository().join("crates/analysis/tests/data");
    // Writes more than a pipe holds.
    let mut command =
        molbox(folder.path(), &["analyze", "--json", "--quiet", "--rmsf", "*", "--rmsd", "*"]);
    command.args(["mini_md.dcd", "mini_md.cif"].map(|name| data.join(name)));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
}

/// The dodecahedral test system's trajectory with an x that is no number, of the first atom in
/// frame 3.
fn damaged_trajectory(folder: &Path) {
    const N_ATOMS: usize = 2111;
    let frame_bytes = 56 + 3 * (4 * N_ATOMS + 8);
    let mut bytes = fs::read(repository().join("crates/analysis/tests/data/mini_tri.dcd")).unwrap();
    let at = bytes.len() - 37 * frame_bytes + 60;
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(folder.join("damaged.dcd"), bytes).unwrap();
}

#[test]
fn an_analysis_of_files_here_calls_its_fields_as_they_were_given() {
    let folder = tempfile::tempdir().unwrap();
    let data = repository().join("crates/analysis/tests/data");
    let analyze = |flags: &[&str]| {
        let mut command = molbox(folder.path(), &["analyze"]);
        command.args([data.join("mini_tri.xtc"), data.join("mini_tri.pdb")]).args(flags);
        command
    };
    let (code, error) = failure(&mut analyze(&["--rmsd", ":41@CA"]));
    let message = "--rmsd: \":41@CA\" selects no atom; column 2: `:41` counts residues from the \
                   first, to 2:HOH41; the last before it that is no water or ion is A:LYS11, `:12`";
    assert_eq!((code, &error["message"]), (5, &json!(message)));
    assert_eq!(error["fields"][0]["at"], "rmsd_masks[0][0]");
    let output = analyze(&["--rmsf", "*"]).output().unwrap();
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(remarks.contains("warning: --rmsf: "), "{remarks}");
    assert!(!remarks.contains("rmsf_masks"), "{remarks}");
    for (flags, message) in [
        (
            &["--hbond-criterion", "baker_hubbard", "--hbond-distance", "3"][..],
            "--hbond-distance: must be left out, as `--hbond-criterion` has bounds of its own",
        ),
        (&["--rmsf", "@CA", "--rmsf", "@XX"], "--rmsf (number 2): "),
        (
            &["--first-frame", "9", "--last-frame=2"],
            "--last-frame: must be at least `--first-frame`",
        ),
        (&["--first-frame=-1"], "--first-frame: invalid value: integer `-1`, expected a whole"),
        (
            &["--reference-file", "mini_tri.pdb", "--reference-frame", "3"],
            "--reference-frame: a frame is of a trajectory, and `--reference-file` has none",
        ),
    ] {
        let (code, error) = failure(&mut analyze(flags));
        let found = error["message"].as_str().unwrap();
        assert!(code == 5 && found.starts_with(message), "{error}");
    }
    let (_, error) = failure(&mut molbox(
        folder.path(),
        &["margin", "submit", "--dry-run", "--num-scenarios=0"],
    ));
    assert!(error["message"].as_str().unwrap().starts_with("--num-scenarios: "), "{error}");
    let of_file = ["job", "submit", "--dry-run", "-f", "job.yaml", "--ensemble", "NVT"];
    for (text, message) in [
        ("temperature: -1\n", "temperature: "),
        ("temperature: [1]\n", "temperature: invalid type: array, expected a number"),
        ("equilibration: 3\n", "equilibration: invalid type: integer `3`, expected an array"),
    ] {
        fs::write(folder.path().join("job.yaml"), text).unwrap();
        let (_, error) = failure(&mut molbox(folder.path(), &of_file));
        assert!(error["message"].as_str().unwrap().starts_with(message), "{error}");
    }
}

#[test]
fn an_analysis_reads_compressed_structures_and_says_which_files_it_cannot_use() {
    let folder = tempfile::tempdir().unwrap();
    let data = repository().join("crates/analysis/tests/data");
    let structure = fs::read(data.join("mini_tri.pdb")).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&structure).unwrap();
    fs::write(folder.path().join("mini.pdb.gz"), gzip.finish().unwrap()).unwrap();
    fs::write(folder.path().join("mini.xtc.gz"), "any").unwrap();
    fs::write(folder.path().join("file"), "any").unwrap();
    let trajectory = data.join("mini_tri.xtc");
    let trajectory = trajectory.to_str().unwrap();
    let analyze = |words: &[&str]| {
        molbox(folder.path(), &[&["analyze", "--rmsd", ":1-12", "--json"], words].concat())
    };
    let of_structure = data.join("mini_tri.pdb");
    let of_structure = of_structure.to_str().unwrap();
    let plain = ok(&mut analyze(&[trajectory, of_structure, "--reference-file", of_structure]));
    let reference = ["--reference-file", "mini.pdb.gz"];
    let compressed = ok(&mut analyze(&[&[trajectory, "mini.pdb.gz"], &reference[..]].concat()));
    assert_eq!(compressed, plain.replace("mini_tri.pdb", "mini.pdb"));
    for (words, code, message) in [
        (&["mini.xtc.gz", of_structure][..], 5, "mini.xtc.gz: a trajectory is not read from"),
        (&["none.xtc", of_structure], 11, "none.xtc: No such file or directory"),
        // Before anything is analysed.
        (&[trajectory, of_structure, "-o", "file"], 11, "file: "),
        (&[trajectory, of_structure, "-o", "file/x"], 11, "file/x: Not a directory"),
    ] {
        let output = analyze(words).output().unwrap();
        let remarks = String::from_utf8(output.stderr).unwrap();
        assert!(!remarks.contains("analysed"), "{remarks}");
        let error: Value = serde_json::from_str(&remarks).unwrap();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().starts_with(message), "{error}");
    }
    let (code, _) =
        failure(&mut analyze(&[trajectory, of_structure, "--first-frame=99", "-o", "new/deep"]));
    assert_eq!((code, folder.path().join("new").exists()), (5, false), "nothing is left of it");
}

#[test]
fn what_is_wrong_with_a_command_is_in_the_colours_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |words: &[&str], settings: &[(&str, &str)]| {
        let output = molbox(folder.path(), words).envs(settings.iter().copied()).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (words, settings, is_colourful) in [
        (&["--bogus"][..], &[][..], false),
        (&["--bogus"], &[("CLICOLOR_FORCE", "1")], true),
        (&["--bogus"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&["--color", "always", "--bogus"], &[("NO_COLOR", "1")], true),
        (&["--bogus", "--color=always"], &[], true),
        (&["--color", "never", "--bogus"], &[("CLICOLOR_FORCE", "1")], false),
        (&["--color", "always", "analyze", "a.dcd", "a.pdb"], &[], true),
        (&["--color", "always", "--help"], &[], true),
    ] {
        let shown = shown(words, settings);
        // A failure that is JSON has none.
        let is_json = shown.starts_with('{');
        assert_eq!(shown.contains('\u{1b}'), is_colourful && !is_json, "{words:?}: {shown}");
    }
}

#[test]
fn a_dry_run_without_a_service_says_so_and_warns_of_what_nobody_means() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "1L2Y", "--preset", "quick", "--temperature", "3100K", "--dry-run"];
    let commands: [(&[&str], bool); 2] = [(&run, true), (&["job", "submit", "--dry-run"], false)];
    for (command, is_warned) in commands {
        let output = molbox(folder.path(), command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let remarks = String::from_utf8(output.stderr).unwrap();
        assert!(remarks.contains("no service was asked"), "{remarks}");
        assert_eq!(remarks.contains("did you mean 310 K?"), is_warned, "{remarks}");
    }
}

#[test]
fn a_damaged_frame_is_named_and_left_out_by_request() {
    let folder = tempfile::tempdir().unwrap();
    damaged_trajectory(folder.path());
    let structure = repository().join("crates/analysis/tests/data/mini_tri.pdb");
    let analyze = |flags: &[&str]| {
        let mut command = molbox(folder.path(), &["analyze", "damaged.dcd"]);
        command.arg(&structure).args(["--rmsf", ":1-12"]).args(flags);
        command
    };
    let (code, error) = failure(&mut analyze(&[]));
    assert_eq!(
        (code, &error["remedy"]),
        (11, &json!("--skip-damaged-frames leaves such frames out"))
    );
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("damaged.dcd, frame 3 (counted from 0): atom 1, A:SER"),
        "{message}"
    );
    assert!(message.contains("is at (NaN, "), "{message}");

    let report: Value =
        serde_json::from_str(&ok(&mut analyze(&["--skip-damaged-frames", "--json"]))).unwrap();
    assert_eq!((&report["frames_total"], &report["frames_analyzed"]), (&json!(40), &json!(39)));
    let warnings = report["warnings"].as_array().unwrap();
    let is_named =
        |warning: &Value| warning.as_str().unwrap().starts_with("1 damaged frame was left out: 3");
    assert!(warnings.iter().any(is_named), "{warnings:?}");
    let columns = report["tables"][0]["columns"].as_array().unwrap();
    let fluctuations =
        columns.iter().find(|column| column["name"] == "rmsf_angstrom").unwrap()["values"]
            .as_array();
    assert!(fluctuations.unwrap().iter().all(|value| value.as_f64().unwrap() > 0.1));
}

#[test]
fn a_key_that_others_can_read_on_its_way_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    for (url, stored, is_warned) in [
        ("http://lab.example.org:8080/local", "http://lab.example.org:8080/local", true),
        ("lab.example.org:8080/local", "https://lab.example.org:8080/local", false),
        ("https://lab.example.org/local", "https://lab.example.org/local", false),
        ("localhost:8080/local", "http://localhost:8080/local", false),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", false),
        ("[::1]:8080", "http://[::1]:8080", false),
        ("localhost.example.org", "https://localhost.example.org", false),
    ] {
        let login = ["login", "--no-check", "--base-url", url];
        let output = with_input(&mut molbox(folder.path(), &login), "mbx_secret\n");
        let remarks = String::from_utf8(output.stderr).unwrap();
        assert_eq!(remarks.contains("is not encrypted"), is_warned, "{url}: {remarks}");
        let profiles = fs::read_to_string(folder.path().join("config.toml")).unwrap();
        assert!(profiles.contains(&format!("base_url = \"{stored}\"")), "{profiles}");
    }
}

#[test]
fn a_login_is_stored_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let login =
        ["login", "--no-check", "--profile", "far", "--base-url", "https://md.example.org/prod"];
    let output = with_input(&mut molbox(folder.path(), &login), "mbx_secret\n");
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
    let mode = fs::metadata(folder.path().join("config.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    matches("profile_list.json", &ok(&mut molbox(folder.path(), &["profile", "list"])));
    ok(&mut molbox(folder.path(), &["profile", "delete", "far", "--yes"]));
    assert_eq!(ok(&mut molbox(folder.path(), &["profile", "list"])), "[]\n");
}

#[test]
fn a_margin_is_calculated_without_a_service() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "margin",
        "local",
        "--future",
        "XEQ1:long:10",
        "--future",
        "XEQ2:short:7.5",
        "--margin-date",
        "2024-12-31",
    ];
    let mut local = molbox(folder.path(), &arguments);
    matches("margin_local.json", &ok(&mut local));
    // A type that was another than the field's ended this with a panic.
    matches("margin_local.json", &ok(local.args(["--threads", "2"])));
}

#[test]
fn margins_are_drawn_and_tested_against_the_past() {
    let folder = tempfile::tempdir().unwrap();
    let book = ["--future", "XEQ1:long:10", "--future", "XBD1:short:3"];
    let plots = ["--plot-losses", "losses.png", "--plot-parts", "parts.svg"];
    let drawn = [&["margin", "local"], &book[..], &plots].concat();
    let report: Value = serde_json::from_str(&ok(&mut molbox(folder.path(), &drawn))).unwrap();
    assert!(report.get("losses").is_none(), "they were asked for by the plot alone");
    assert!(fs::read(folder.path().join("losses.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(fs::read_to_string(folder.path().join("parts.svg")).unwrap().contains("XBD1 short"));

    // A million yen is less than ten thousand dollars.
    let mixed = ["margin", "local", "--future", "XEQ4:long:1", "--future", "XEQ2:long:2"];
    ok(&mut molbox(folder.path(), &[&mixed[..], &["--plot-parts", "mixed.svg"]].concat()));
    let mixed = fs::read_to_string(folder.path().join("mixed.svg")).unwrap();
    let at = |text: &str| mixed.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("XEQ2 long") < at("XEQ4 long") && at("initial margin (USD)") > 0);

    let past = ["--from", "2024-10-01", "--num-scenarios", "1000", "--plot", "past.svg"];
    let tested = [&["margin", "backtest", "-o", "past.csv"], &book[..], &past].concat();
    let found: Value = serde_json::from_str(&ok(&mut molbox(folder.path(), &tested))).unwrap();
    let days = found["days"].as_array().unwrap().len();
    assert!((28..=33).contains(&days), "two trading days each: {days}");
    assert_eq!(found["coverage"]["nDays"], days);
    assert_eq!(
        fs::read_to_string(folder.path().join("past.csv")).unwrap().lines().count(),
        days + 1
    );
    let past_days = fs::read_to_string(folder.path().join("past.svg")).unwrap();
    assert!(past_days.contains("Kupiec"));
    let at = |text: &str| past_days.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at(">loss<") < at(">above the value at risk<"), "the dots are below the losses");

    let backtest = |from: &str, to: &str| {
        let days = ["--from", from, "--to", to, "--num-scenarios", "100", "--plot", "day.svg"];
        molbox(folder.path(), &[&["margin", "backtest", "--quiet"], &book[..], &days].concat())
    };
    ok(&mut backtest("2024-10-01", "2024-10-01"));
    let day = fs::read_to_string(folder.path().join("day.svg")).unwrap();
    for date in ["2024-09-30", "2024-10-01", "2024-10-02"] {
        assert!(day.contains(date), "the axis is about its only day: no {date}");
    }
    for (from, to, reason) in [
        ("2024-10-05", "2024-10-06", "the first with a settlement of every ticker is 2024-10-07"),
        ("2024-10-05", "2024-10-01", "the last is before the first"),
        ("2024-12-31", "2024-12-31", "fewer than 2 days"),
    ] {
        let (code, error) = failure(&mut backtest(from, to));
        assert!(code == 5 && error["message"].as_str().unwrap().contains(reason), "{error}");
    }

    let unknown = [&["margin", "backtest", "--plot", "past.gif"], &book[..], &past[..2]].concat();
    let (code, error) = failure(&mut molbox(folder.path(), &unknown));
    assert_eq!(
        (code, error["message"].as_str().unwrap().contains(".png, .svg or .pdf")),
        (2, true)
    );
}

#[test]
fn a_portfolio_of_any_format_is_recognised_by_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let margin = |name: &str| -> Value {
        let path = repository().join("examples/portfolio").join(name);
        let mut local = molbox(folder.path(), &["margin", "local", "--margin-date", "2024-12-31"]);
        let report = ok(local.args(["--portfolio", path.to_str().unwrap()]));
        serde_json::from_str::<Value>(&report).unwrap()["summary"].clone()
    };
    let of_csv = margin("portfolio.csv");
    for name in ["portfolio.json", "portfolio.yaml", "portfolio.xml", "portfolio.fpml.xml"] {
        assert_eq!(margin(name), of_csv, "{name}");
    }
}

#[test]
fn hydrogen_bonds_are_asked_for_with_any_criterion() {
    let folder = tempfile::tempdir().unwrap();
    let data = repository().join("crates/analysis/tests/data");
    for (flags, definition) in [
        (&[][..], "at most 3 Å and angle donor–hydrogen–acceptor at least 135°"),
        (&["--hbond-angle", "150"], "at most 3 Å and angle donor–hydrogen–acceptor at least 150°"),
        (&["--hbond-criterion", "Baker-Hubbard"], "Baker and Hubbard 1984"),
        (&["--hbond-criterion", "wernet_nilsson", "--hbond", ":1-12"], "Wernet and Nilsson 2004"),
    ] {
        let mut command = molbox(folder.path(), &["analyze", "--json", "--quiet", "--hbonds"]);
        command.args(["mini_md.dcd", "mini_md.cif"].map(|name| data.join(name))).args(flags);
        let report: Value = serde_json::from_str(&ok(&mut command)).unwrap();
        let shown = report["tables"][0]["definition"].as_str().unwrap();
        assert!(shown.contains(definition), "{flags:?}: {shown}");
    }
}

#[test]
fn bonds_of_the_solute_that_other_atoms_take_the_place_of_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let data = repository().join("crates/analysis/tests/data");
    let warned = |flags: &[&str]| {
        let mut command = molbox(folder.path(), &["analyze", "--json"]);
        command.args(["mini_md.dcd", "mini_md.cif"].map(|name| data.join(name))).args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap().contains("`--hbonds` has no effect")
    };
    assert!(warned(&["--hbonds", "--hbond", ":1-5 :6-12"]));
    assert!(!warned(&["--hbonds"]));
    assert!(!warned(&["--hbond-angle", "135", "--hbond", ":1-5 :6-12"]));
}

#[test]
fn masks_of_a_flag_may_hold_blanks_and_are_refused_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let submit = ["analysis", "submit", "--job-id", "job_1", "--dry-run"];
    let asked = |mask: &str| {
        let shown = ok(molbox(folder.path(), &submit).args(["--rmsd", mask]));
        serde_json::from_str::<Value>(&shown).unwrap()["rmsd_masks"].clone()
    };
    assert_eq!(asked(":1-3 & @CA"), json!([[":1-3 & @CA"]]));
    assert_eq!(asked("@CA :1-3 & !@/H"), json!([["@CA", ":1-3 & !@/H"]]));
    let data = repository().join("crates/analysis/tests/data");
    let mut analyze = molbox(folder.path(), &["analyze", "--rmsd", "resid 5 and name CA"]);
    analyze.args(["mini_md.dcd", "mini_md.cif"].map(|name| data.join(name)));
    let (code, error) = failure(&mut analyze);
    assert_eq!((code, error["fields"].as_array().unwrap().len()), (5, 1), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.ends_with("; masks are written as Amber's, and this one is `:;5&@CA`"),
        "{message}"
    );
}

#[test]
fn hydrogen_bonds_are_asked_for_alike_wherever_analyses_are() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own.yaml"), "hbond_criterion: wernet_nilsson\n").unwrap();
    let asked = |words: &[&str], flags: &[&str]| {
        let mut command = molbox(folder.path(), words);
        let shown = ok(command.arg("--dry-run").args(flags));
        serde_json::from_str::<Value>(&shown).unwrap()
    };
    let (run, submit) = (&["run", "1L2Y"][..], &["analysis", "submit", "--job-id", "job_1"][..]);
    for (flags, criterion) in [
        (&["--hbonds"][..], "angle"),
        (&["--hbonds", "--hbond-distance", "3.5"], "angle"),
        (&["--hbonds", "--hbond-criterion", "baker_hubbard"], "baker_hubbard"),
        (&["--hbond-criterion", "baker_hubbard", "--hbonds"], "baker_hubbard"),
    ] {
        assert_eq!(asked(run, flags)["analysis"]["hbond_criterion"], criterion, "{flags:?}");
        assert_eq!(asked(submit, flags)["hbond_criterion"], criterion, "{flags:?}");
    }
    let of_file = asked(submit, &["--file", "own.yaml", "--hbonds"]);
    assert_eq!(of_file["hbond_criterion"], "wernet_nilsson");
}

#[test]
fn up_without_the_service_says_what_brings_it_and_with_it_becomes_it() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("molbox");
    let built = env!("CARGO_BIN_EXE_molbox");
    std::fs::hard_link(built, &alone).or_else(|_| std::fs::copy(built, &alone).map(drop)).unwrap();
    let up = |path: &str| {
        let mut up = std::process::Command::new(&alone);
        up.args(["up", "--detach", "--data", "here"]).env_clear().env("PATH", path);
        up.output().unwrap()
    };
    let output = up("/nowhere");
    assert_eq!(output.status.code(), Some(11));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`pip install molboxd` brings the service"), "{said}");
    let service = folder.path().join("molboxd");
    std::fs::write(&service, "#!/bin/sh\necho \"$0 $*\"\nexit 7\n").unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&service, runs).unwrap();
    let output = up("/nowhere");
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("{} up --detach --data here\n", service.display()));
}

#[test]
fn a_report_embeds_no_file_that_a_structure_names() {
    let folder = tempfile::tempdir().unwrap();
    let example = |name: &str| -> Value {
        let path = repository().join("openapi/examples").join(name);
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let mut system = example("system_view.200.succeeded.json");
    let warning = |message: &str| json!({"code": "build", "message": message});
    system["warnings"] = json!([
        warning("![y](missing.png) 900 of chain Z removed"),
        warning("![z](../secret.txt) 901 of chain Z removed"),
        warning("[click](javascript:alert(1)) 902 of chain Z removed"),
        warning("`:41` counts residues"),
    ]);
    let state = json!({
        "id": "run_1",
        "plan": {
            "structure": "/data/![x](&#46;&#46;&#47;secret.txt).pdb", "system": {}, "job": {},
            "replicas": 1,
        },
        "files": [],
        "system": system,
        "replicas": [{"job": example("job_view.200.succeeded.json")}],
        "is_done": true,
    });
    fs::create_dir(folder.path().join("run")).unwrap();
    fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    fs::write(folder.path().join("run/molbox-run.json"), state.to_string()).unwrap();
    let mut resumed = molbox(folder.path(), &["run", "--resume", "run"]);
    ok(resumed.env("MOLBOX_API_KEY", "key").env("MOLBOX_BASE_URL", "http://127.0.0.1:9"));
    let page = fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    assert!(!page.contains("<img") && !page.contains("javascript:alert(1)\""), "{page}");
    for part in [
        "default-src 'none'",
        "<h1>![x](&amp;#46;&amp;#46;&amp;#47;secret.txt).pdb</h1>",
        "<li>![y](missing.png) 900 of chain Z removed</li>",
        "<li>[click](javascript:alert(1)) 902 of chain Z removed</li>",
        "<li><code>:41</code> counts residues</li>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
