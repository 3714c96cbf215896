//! Bundles on this machine: whether they are whole, who made them, and the same again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Service, failure, molbox, ok, repository};

/// A job of villin that takes some seconds, on one thread; the zip of its results.
fn bundle_of_villin(service: &Service) -> PathBuf {
    let parts = json!({"job": {"equilibration": [{"type": "NVT", "time": "0.05 ps", "log_freq": 5, "restraint_mask": "@CA"}], "minimization_steps": 50, "seed": 11}});
    fs::write(service.folder().join("parts.json"), parts.to_string()).unwrap();
    let mut run = service.molbox(&["run", "--preset", "quick", "--file", "parts.json"]);
    run.args(["--output", "villin", "--no-analysis", "--minimum-padding", "7A", "--time", "0.1ps"]);
    run.args(["--traj-freq", "10", "--log-freq", "2", "--json"]);
    ok(run.arg(repository().join("examples/1vii.pdb")));
    service.folder().join("villin/replica_1/results.zip")
}

/// Exit status and result of a command that writes one whether it succeeds or not.
fn result(command: &mut Command) -> (i32, Value) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let result = serde_json::from_slice(&stdout);
    let result = result.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&stderr)));
    (status.code().unwrap(), result)
}

fn problems(result: &Value) -> Vec<(&str, &str)> {
    let all = result["problems"].as_array().unwrap().iter();
    all.map(|it| (it["file"].as_str().unwrap(), it["kind"].as_str().unwrap())).collect()
}

/// A bundle as a folder in which anything can be changed.
fn unpacked(service: &Service, zip: &Path, name: &str) -> PathBuf {
    let folder = service.folder().join(name);
    fs::create_dir_all(&folder).unwrap();
    let mut archive = zip::ZipArchive::new(fs::File::open(zip).unwrap()).unwrap();
    archive.extract(&folder).unwrap();
    if folder.join("manifest.json").exists() {
        return folder;
    }
    fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path()
}

/// What a bundle says of itself, entity by entity.
fn graph(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("ro-crate-metadata.json")).unwrap();
    let content: Value = serde_json::from_str(&text).unwrap();
    content["@graph"].as_array().unwrap().clone()
}

#[test]
fn a_bundle_is_checked_published_and_repeated_to_the_bit() {
    let service = Service::with_worker_and(&["worker.cpus=1"]);
    let zip = bundle_of_villin(&service);
    let path = zip.to_str().unwrap();

    let whole = service.json(&["bundle", "check", path]);
    assert_eq!((problems(&whole), &whole["crate"]), (vec![], &json!(true)));
    let folder = unpacked(&service, &zip, "unpacked");
    let as_folder = service.json(&["bundle", "check", folder.to_str().unwrap()]);
    assert_eq!(as_folder["files"], whole["files"]);

    // What happens to files on their way.
    fs::remove_file(folder.join("production.csv")).unwrap();
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    let mut dcd = fs::read(folder.join("production.dcd")).unwrap();
    *dcd.last_mut().unwrap() ^= 1;
    fs::write(folder.join("production.dcd"), dcd).unwrap();
    let (code, damaged) =
        result(&mut service.molbox(&["bundle", "check", folder.to_str().unwrap()]));
    assert_eq!(code, 14);
    let mut found = problems(&damaged);
    found.sort_unstable();
    let expected =
        [("notes.txt", "surplus"), ("production.csv", "missing"), ("production.dcd", "changed")];
    assert_eq!(found, expected);

    let author = "Ada Lovelace <0000-0002-1825-0097>";
    let arguments = ["bundle", "publish", path, "--author", author, "--license", "CC-BY-4.0"];
    let published = service.json(&arguments)["published"].as_str().unwrap().to_owned();
    assert_eq!(problems(&service.json(&["bundle", "check", &published])), []);
    let folder = unpacked(&service, Path::new(&published), "published");
    assert_eq!(folder, service.folder().join("published"), "its crate is not at the top");
    let of_crate = graph(&folder);
    let entity = |id: &str| of_crate.iter().find(|it| it["@id"] == id).unwrap();
    assert_eq!(entity("./")["license"]["@id"], "https://spdx.org/licenses/CC-BY-4.0");
    assert_eq!(entity("./")["author"]["@id"], "https://orcid.org/0000-0002-1825-0097");
    assert_eq!(entity("#simulation")["agent"], entity("./")["author"]);

    // Published anew, where the authors work publishes it: nothing of before is left.
    let place = "University of Zurich <https://ror.org/02crff812>";
    let more = ["--publisher", place, "--affiliation", place, "--affiliation", "At home"];
    let anew = ["bundle", "publish", published.as_str(), "--author", "Ada", "--author", author];
    let arguments = [&anew[..], &more, &["--license", "CC0-1.0"]].concat();
    let anew = service.json(&arguments)["published"].as_str().unwrap().to_owned();
    assert_eq!(problems(&service.json(&["bundle", "check", &anew])), []);
    // Neither publication is damage, and any other change is.
    let crate_file = folder.join("ro-crate-metadata.json");
    let unchanged = fs::read_to_string(&crate_file).unwrap();
    let value =
        |name: &str, value: &str| format!("\"name\": \"{name}\",\n      \"value\": {value}");
    let article =
        |name: &str| format!("\"@type\": \"ScholarlyArticle\",\n      \"name\": \"{name}");
    let text = |name: &str, beginning: &str| format!("\"{name}\": \"{beginning}");
    let [changed, invalid] = ["changed", "invalid"].map(|kind| ("ro-crate-metadata.json", kind));
    for (from, to, problem) in [
        (value("temperature", "300.0"), value("temperature", "500.0"), changed),
        (value("seed", "11"), value("seed", "12"), changed),
        (text("softwareVersion", ""), text("softwareVersion", "9"), changed),
        (text("startTime", "20"), text("startTime", "19"), changed),
        (article(""), article("Not "), changed),
        // Its first file is the manifest, which nothing else has a digest of.
        (text("contentSize", ""), text("contentSize", "9"), ("manifest.json", "changed")),
        (text("@type", "File"), text("@type", "Dataset"), invalid),
        ("json\",\n      \"sha256\"".into(), "json\",\n      \"md5\"".into(), invalid),
        ("\"@id\": \"log.txt\"".into(), "\"@id\": \"README.txt\"".into(), invalid),
        ("\"@graph\": [".into(), "\"@graph\": [{\"@id\": \"./\"},".into(), invalid),
        ("w3id.org/ro/crate/1.1/context".into(), "example.org/context".into(), invalid),
    ] {
        let edited = unchanged.replacen(&from, &to, 1);
        assert!(edited != unchanged, "there is no {from}");
        fs::write(&crate_file, edited).unwrap();
        let (code, found) =
            result(&mut service.molbox(&["bundle", "check", folder.to_str().unwrap()]));
        assert_eq!((code, problems(&found)[0]), (14, problem), "{to}");
    }
    fs::write(&crate_file, unchanged).unwrap();
    let graph = graph(&unpacked(&service, Path::new(&anew), "anew"));
    let of = |kind: &str| -> Vec<&str> {
        let of_kind = graph.iter().filter(|it| it["@type"] == kind);
        of_kind.map(|it| it["@id"].as_str().unwrap()).collect()
    };
    assert_eq!(of("Person"), ["#person-1", "https://orcid.org/0000-0002-1825-0097"]);
    assert_eq!(of("Organization"), ["https://ror.org/02crff812", "#affiliation-2"]);
    let entity = |id: &str| graph.iter().find(|it| it["@id"] == id).unwrap();
    assert_eq!(entity("./")["publisher"], json!({"@id": "https://ror.org/02crff812"}));
    assert_eq!(entity("https://ror.org/02crff812")["url"], "https://ror.org/02crff812");
    assert_eq!(entity("#affiliation-2")["url"], Value::Null, "no address of it is known");
    assert_eq!(entity("#person-1")["affiliation"].as_array().unwrap().len(), 2);
    assert!(!graph.iter().any(|it| it["@id"] == "https://spdx.org/licenses/CC-BY-4.0"));
    let without = ["bundle", "publish", anew.as_str(), "--author", author, "--license", "CC0-1.0"];
    let without = service.json(&without)["published"].as_str().unwrap().to_owned();
    let graph = self::graph(&unpacked(&service, Path::new(&without), "without"));
    let kinds: Vec<&Value> = graph.iter().map(|it| &it["@type"]).collect();
    assert!(!kinds.contains(&&json!("Organization")), "{kinds:?}");
    assert_eq!(graph.iter().find(|it| it["@id"] == "./").unwrap()["publisher"], Value::Null);

    // A bundle alone is enough: nothing that was uploaded is there any more.
    for file in service.json(&["file", "list"]).as_array().unwrap() {
        service.ok(&["file", "delete", file["file_id"].as_str().unwrap(), "--yes"]);
    }
    let (code, same) = result(&mut service.molbox(&["rerun", path, "--output", "again"]));
    assert_eq!(
        (code, &same["verdict"], &same["conditions"]),
        (0, &json!("same"), &json!([])),
        "{same}"
    );
    assert_eq!(same["same_bits_promised"], true);
    let files = same["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["file"] == "production.dcd"), "{files:?}");
    assert!(files.iter().any(|file| file["file"] == "system/system.xml"), "{files:?}");
    // What is done is compared again, and nothing is submitted.
    let (code, again) = result(&mut service.molbox(&["rerun", path, "--output", "again"]));
    assert_eq!((code, again), (0, same));
    assert_eq!(service.json(&["job", "list"]).as_array().unwrap().len(), 2);
    let (code, error) =
        failure(&mut service.molbox(&["rerun", path, "--output", "again", "--seed", "5"]));
    assert_eq!((code, error["code"].as_str()), (6, Some("conflict")), "{error}");

    // Another seed gives another course, and averages of the same ensemble.
    let (code, other) =
        result(&mut service.molbox(&["rerun", path, "--output", "other", "--seed", "5"]));
    assert_eq!(other["conditions"], json!([{"what": "seed", "then": "11", "now": "5"}]), "{other}");
    assert_eq!(other["same_bits_promised"], false);
    let quantities: Vec<&str> = other["quantities"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["quantity"].as_str())
        .collect();
    for quantity in ["potential energy", "temperature", "density", "RMSD of the α-carbons"] {
        assert!(quantities.contains(&quantity), "{quantities:?}");
    }
    let expected = match other["verdict"].as_str().unwrap() {
        "alike" => 12,
        _ => 13,
    };
    assert_eq!(code, expected, "{other}");
}

#[test]
fn what_is_no_bundle_is_refused_with_what_helps() {
    let service = Service::start();
    fs::write(service.folder().join("no.zip"), "nothing").unwrap();
    let (code, error) = failure(&mut service.molbox(&["bundle", "check", "no.zip"]));
    assert_eq!((code, error["code"].as_str()), (11, Some("file")), "{error}");
    assert!(error["remedy"].as_str().unwrap().contains("molbox job download"), "{error}");
    // A download that broke off is one that was.
    fs::write(service.folder().join("cut.zip"), "PK\x03\x04 and not its end").unwrap();
    for command in [["bundle", "check", "cut.zip"].as_slice(), &["rerun", "cut.zip"]] {
        let (code, error) = failure(&mut service.molbox(command));
        assert_eq!((code, error["code"].as_str()), (14, Some("damaged")), "{error}");
        assert!(error["message"].as_str().unwrap().contains("cut off"), "{error}");
    }
    fs::create_dir(service.folder().join("empty")).unwrap();
    let (code, error) = failure(&mut service.molbox(&["rerun", "empty"]));
    assert_eq!((code, error["code"].as_str()), (11, Some("file")), "{error}");
    let mut publish = service.molbox(&["bundle", "publish", "empty", "--license", "CC0-1.0"]);
    let done = publish.args(["--author", "Ada <0000-0002-1825-0098>"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("is no ORCID"), "{done:?}");
}

#[test]
fn a_bundle_that_lists_a_name_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.zip");
    crafted(&path, "protein.pdb", "results");
    // As no writer of zips does it: another file gets the name in place of its own.
    let (own, other) = (b"job_1/production.csv", b"job_1/system/input.c");
    let mut zip = zip::ZipWriter::new_append(
        fs::OpenOptions::new().read(true).write(true).open(&path).unwrap(),
    )
    .unwrap();
    zip.start_file("job_1/system/input.c", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(b"others!").unwrap();
    zip.finish().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() - other.len() {
        if bytes[at..].starts_with(other) {
            bytes[at..at + own.len()].copy_from_slice(own);
        }
    }
    fs::write(&path, bytes).unwrap();
    for command in [&["bundle", "check", "twice.zip"][..], &["rerun", "twice.zip"]] {
        let (code, error) = failure(&mut molbox(folder.path(), command));
        assert_eq!((code, error["code"].as_str()), (14, Some("damaged")), "{error}");
        let message = "twice.zip: \"job_1/production.csv\" is in it twice";
        assert_eq!(error["message"], message);
    }
}

#[test]
fn json_of_a_bundle_that_unpacks_to_more_than_it_may_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let size: u32 = (16 << 20) + 0x1234;
    let mut zip = zip::ZipWriter::new(fs::File::create(folder.path().join("true.zip")).unwrap());
    zip.start_file("job_1/manifest.json", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(&vec![b' '; size as usize]).unwrap();
    zip.finish().unwrap();
    // The same, and it says that it is small.
    let mut bytes = fs::read(folder.path().join("true.zip")).unwrap();
    assert!(bytes.len() < 100_000);
    let places = bytes.windows(4).enumerate().filter(|(_, it)| *it == size.to_le_bytes());
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert_eq!(places.len(), 2, "in front of the file, and in the list of files");
    for at in places {
        bytes[at..at + 4].copy_from_slice(&100_u32.to_le_bytes());
    }
    fs::write(folder.path().join("false.zip"), bytes).unwrap();
    let refusals = [
        ("true.zip", 14, "too large: JSON of a bundle has at most 16 MiB"),
        ("false.zip", 11, "File is larger than its declared uncompressed size"),
    ];
    for (name, expected, what) in refusals {
        for command in [&["bundle", "check", name][..], &["rerun", name]] {
            let (code, error) = failure(&mut molbox(folder.path(), command));
            assert_eq!(code, expected, "{error}");
            assert_eq!(error["message"], format!("{name}/manifest.json: {what}"));
        }
    }
}

/// A zip of a job with an input that its maker has called as they like, as it would be if it were
/// whole; of its results with another content than it lists.
fn crafted(path: &Path, input: &str, results: &str) {
    let sha256 = |text: &str| -> String {
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let listed = |name: String, text: &str| json!({"name": name, "size_bytes": text.len(), "sha256": sha256(text)});
    let manifest = |kind: &str, id: &str, inputs: Value, files: Value| {
        json!({
            "kind": kind, "id": id, "status": "succeeded", "molboxd": "1", "seed": 1,
            "request": {"protein": "p"}, "inputs": inputs, "files": files,
        })
        .to_string()
    };
    let of_system = manifest(
        "system",
        "box_1",
        json!([{"field": "protein", "file": input, "name": ""}]),
        json!([listed(format!("box_1/input/{input}"), "theirs")]),
    );
    let at = format!("job_1/system/input/{input}");
    let files = json!([
        listed(at.clone(), "theirs"),
        listed("job_1/system/manifest.json".to_owned(), &of_system),
        listed("job_1/production.csv".to_owned(), "results"),
    ]);
    let files = [
        ("job_1/manifest.json", &*manifest("job", "job_1", json!([]), files)),
        ("job_1/system/manifest.json", &*of_system),
        (&*at, "theirs"),
        ("job_1/production.csv", results),
    ];
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for (name, content) in files {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
}

#[test]
fn a_bundle_writes_no_file_outside_of_the_folder_of_its_repetition() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("profile");
    for name in [profile.to_str().unwrap(), "../../profile", "..", "sub/profile", "c:profile"] {
        fs::write(&profile, "mine").unwrap();
        crafted(&folder.path().join("crafted.zip"), name, "results");
        let (code, error) =
            failure(&mut molbox(folder.path(), &["rerun", "crafted.zip", "--output", "a/b"]));
        assert_eq!((code, error["code"].as_str()), (14, Some("damaged")), "{name}: {error}");
        assert!(error["message"].as_str().unwrap().contains("is no name"), "{error}");
        assert_eq!(fs::read_to_string(&profile).unwrap(), "mine", "{name}");
        assert_eq!(fs::read_dir(folder.path().join("a/b/input")).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn a_damaged_bundle_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    crafted(&folder.path().join("damaged.zip"), "protein.pdb", "others!");
    let (code, error) = failure(&mut molbox(folder.path(), &["rerun", "damaged.zip"]));
    assert_eq!((code, error["code"].as_str()), (14, Some("damaged")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("production.csv"), "{error}");
    assert!(!folder.path().join("damaged-rerun").exists(), "nothing is begun");
}
