//! What is looked at before it is downloaded whole: what jobs log, what masks select, structures
//! and parts of trajectories.

use std::time::Duration;

use molbox::workflow::types::{EquilibrationStep, JobSeries, ProductionParams};
use molbox_analysis::{AtomSet, Frame, Structure, Trajectory};
use serde_json::Value;

use crate::common::{Service, example, kill_task, wait_for};
use crate::work::{archive, endless_job, short_job, until_it_produces, water};

fn column(series: &JobSeries, name: &str) -> Vec<f64> {
    let column = series.columns.iter().find(|column| column.name == name).unwrap();
    column.values.iter().map(|value| value.get()).collect()
}

/// A log as its file has it: rows of numbers.
fn rows(csv: &[u8]) -> Vec<Vec<f64>> {
    let csv = str::from_utf8(csv).unwrap();
    csv.lines().skip(1).map(|row| row.split(',').map(|n| n.parse().unwrap()).collect()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_logs_is_read_while_it_runs_and_after_a_kill_no_row_is_there_twice() {
    let settings = ["worker.checkpoint_seconds=1", "limits.requests_per_minute=0"];
    let service = Service::start_with(&settings);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let job = molbox.job_submit().body_map(|job| {
        job.box_id(system.system_id.as_str())
            .minimization_steps(20)
            .equilibration([EquilibrationStep::builder().time(0.0001).log_freq(10)])
            .production(
                ProductionParams::builder().type_("NVT").time(0.006).traj_freq(0).log_freq(50),
            )
    });
    let id = job.send().await.unwrap().job_id.clone();
    let folder = service.data.join("tasks").join(id.as_str());
    let read = |after: u64| {
        let request = molbox.job_series().job_id(&id).after(after);
        async move { request.send().await.unwrap().into_inner() }
    };
    let mut steps: Vec<f64> = Vec::new();
    let mut is_killed = false;
    loop {
        // Looked at first: what was logged until the end is read then.
        let status = molbox.job_view().job_id(&id).send().await.unwrap().status.clone();
        let last = steps.last().copied().unwrap_or(0.0);
        let series = read(last as u64).await;
        assert_eq!((series.stage.as_str(), series.job_id.as_str()), ("production", id.as_str()));
        steps.extend(column(&series, "step"));
        if status == "succeeded" {
            break;
        }
        assert!(["queued", "running"].contains(&status.as_str()), "{status}");
        if !is_killed && steps.len() > 15 {
            is_killed = wait_for("it is killed", || Some(kill_task(&folder)));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_killed, "it was killed while it ran");
    let expected: Vec<f64> = (1..=60).map(|n| f64::from(n * 50)).collect();
    assert_eq!(steps, expected, "each row once, in pieces");

    let out = tempfile::tempdir().unwrap();
    let files = archive(&molbox.download_job(&id, out.path().join("results.zip")).await.unwrap());
    let whole = read(0).await;
    assert_eq!(whole.rows, 60);
    let logged = rows(&files["production.csv"]);
    for (nth, column) in whole.columns.iter().enumerate() {
        let values: Vec<f64> = column.values.iter().map(|value| value.get()).collect();
        let written: Vec<f64> = logged.iter().map(|row| row[nth]).collect();
        assert_eq!(values, written, "{}", column.name);
    }
    let units: Vec<_> =
        whole.columns.iter().map(|c| (c.name.as_str(), c.unit.as_deref().unwrap_or(""))).collect();
    let expected = [
        ("step", ""),
        ("time", "ps"),
        ("potential_energy", "kJ/mol"),
        ("kinetic_energy", "kJ/mol"),
        ("temperature", "K"),
        ("volume", "nm³"),
        ("density", "g/mL"),
    ];
    assert_eq!(units, expected);

    let of = || molbox.job_series().job_id(&id);
    let stage = of().stage("equilibration_1").points(4).send().await.unwrap();
    let equilibration = rows(&files["equilibration_1.csv"]);
    let energies = column(&stage, "potential_energy");
    assert_eq!((stage.rows, energies.len()), (5, 4));
    let end = |ends: fn(f64, f64) -> f64, values: &[f64]| values.iter().copied().reduce(ends);
    let logged: Vec<f64> = equilibration.iter().map(|row| row[2]).collect();
    assert_eq!(end(f64::min, &energies), end(f64::min, &logged));
    assert_eq!(end(f64::max, &energies), end(f64::max, &logged));

    let refused = of().stage("minimization").send().await.unwrap_err();
    let detail = &refused.violations()[0];
    assert_eq!(refused.status().unwrap(), 422);
    assert!(detail.msg.ends_with("has no such stage, but equilibration_1, production"));
    let other = service.client("bob").job_series().job_id(&id).send().await.unwrap_err();
    assert_eq!(other.status().unwrap(), 404, "another account has no such job");
}

/// A request with a key, and what was answered: status, headers, content.
async fn get(
    service: &Service,
    key: &str,
    path: &str,
    query: &[(&str, &str)],
    headers: &[(&str, &str)],
) -> (u16, reqwest::header::HeaderMap, Vec<u8>) {
    let url = reqwest::Url::parse_with_params(&format!("{}{path}", service.base_url), query);
    let mut request = reqwest::Client::new().get(url.unwrap()).header("x-api-key", key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.bytes().await.unwrap().to_vec())
}

/// The first violation of a refusal.
fn violation(body: &[u8]) -> Value {
    serde_json::from_slice::<Value>(body).unwrap()["detail"][0].clone()
}

const HEADER: usize = 276;

/// Every `stride`th frame from `first` on of what the worker has written, of some atoms; without
/// the header.
fn part(dcd: &[u8], n_atoms: usize, atoms: &[usize], first: usize, stride: usize) -> Vec<u8> {
    let frame_bytes = 56 + 3 * (4 * n_atoms + 8);
    let mut bytes = Vec::new();
    for frame in dcd[HEADER..].chunks_exact(frame_bytes).skip(first).step_by(stride) {
        bytes.extend(&frame[..56]);
        let marker = (4 * atoms.len() as u32).to_le_bytes();
        for column in frame[56..].chunks_exact(4 * n_atoms + 8) {
            bytes.extend(marker);
            atoms.iter().for_each(|atom| bytes.extend(&column[4 + 4 * atom..][..4]));
            bytes.extend(marker);
        }
    }
    bytes
}

fn int(dcd: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(dcd[at..at + 4].try_into().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masks_structures_and_parts_of_trajectories_are_read_without_the_whole() {
    let service = Service::start_with(&["worker.checkpoint_seconds=0.5"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let system = water(&molbox).await;
    let n_atoms = system.summary.as_ref().unwrap().atoms as usize;
    let id = system.system_id.as_str();

    // What masks select.
    let oxygens = molbox.mask_view().system_id(id).mask(":1-3@O").send().await.unwrap();
    assert_eq!((oxygens.atoms, oxygens.residues), (3, 3));
    assert_eq!(oxygens.ranges, [[1, 1], [4, 4], [7, 7]]);
    let [water] = &oxygens.parts[..] else { panic!("water is one part: {:?}", oxygens.parts) };
    assert_eq!((water.residue_name.as_deref(), water.mask.as_deref()), (Some("HOH"), Some(":1-3")));
    assert_eq!((water.residues, water.atoms, &water.atom_names[..]), (3, 3, &["O".to_owned()][..]));
    let none = molbox.mask_view().system_id(id).mask(":WAT").send().await.unwrap();
    assert_eq!((none.atoms, none.ranges.len()), (0, 0));
    assert!(none.warnings.iter().any(|warning| warning.contains("HOH")), "{:?}", none.warnings);
    // Water fills the box to its faces, and distances end there.
    let near = ":1-20<:4.0";
    let is_cut = |text: &str| text.contains("measured without periodic images");
    let selected = molbox.mask_view().system_id(id).mask(near).send().await.unwrap();
    assert!(selected.warnings.iter().any(|warning| is_cut(warning)), "{:?}", selected.warnings);
    let job = |mask: &str| {
        let stage = EquilibrationStep::builder().time(0.001).restraint_mask(mask);
        molbox.job_check().body_map(|job| job.box_id(id).equilibration([stage]))
    };
    let checked = job(near).send().await.unwrap();
    let [warning] = &checked.warnings[..] else { panic!("{:?}", checked.warnings) };
    let loc = serde_json::to_value(&warning.loc).unwrap();
    assert_eq!(loc, serde_json::json!(["body", "equilibration", 0, "restraint_mask"]));
    assert!(is_cut(&warning.message), "{}", warning.message);
    assert_eq!(job(":1-20").send().await.unwrap().warnings.len(), 0);
    let atoms = format!("/info/system/{id}/atoms");
    let (status, _, body) = get(&service, &key, &atoms, &[("mask", ":1-3@O&")], &[]).await;
    let refused = violation(&body);
    assert_eq!((status, &refused["type"]), (422, &Value::from("mask")));
    assert_eq!(refused["loc"], serde_json::json!(["query", "mask"]));
    assert_eq!(refused["ctx"]["column"], 8, "{refused}");
    let (status, _, body) = get(&service, &key, &atoms, &[], &[]).await;
    assert_eq!((status, &violation(&body)["type"]), (422, &Value::from("missing")));

    // Its structure, whole and in part.
    let structure = format!("/retrieve/system/{id}/structure");
    let (status, headers, text) = get(&service, &key, &structure, &[], &[]).await;
    assert_eq!((status, &headers["x-atoms"]), (200, &n_atoms.to_string().parse().unwrap()));
    let whole = Structure::from_mmcif(&String::from_utf8(text).unwrap()).unwrap();
    assert_eq!(whole.topology.n_atoms(), n_atoms);
    let vectors = &system.summary.as_ref().unwrap().box_vectors;
    let lengths =
        vectors.iter().map(|v| 10.0 * v.iter().map(|x| x.get().powi(2)).sum::<f64>().sqrt());
    for (found, expected) in whole.cell.unwrap().lengths().into_iter().zip(lengths) {
        assert!((found - expected).abs() < 1e-3, "{found} for {expected}");
    }
    let (_, headers, text) = get(&service, &key, &structure, &[("mask", ":3,5@O")], &[]).await;
    let text = String::from_utf8(text).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("HETATM"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let numbers: Vec<_> = rows.iter().map(|row| (row[1], row[3], row[5], row[8])).collect();
    assert_eq!(numbers, [("7", "O", "HOH", "3"), ("13", "O", "HOH", "5")], "of the topology");
    assert_eq!(headers["x-atoms"], "2");
    for (query, status, place) in [
        (("mask", ":WAT"), 422, "mask"),
        (("of", "prepared"), 404, "of"),
        (("of", "else"), 422, "of"),
    ] {
        let (found, _, body) = get(&service, &key, &structure, &[query], &[]).await;
        assert_eq!(found, status, "{query:?}");
        assert_eq!(violation(&body)["loc"], serde_json::json!(["query", place]));
    }

    // A trajectory that is being written.
    let running = endless_job(&molbox, &system).await;
    let trajectory = format!("/retrieve/job/{running}/trajectory");
    until_it_produces(&molbox, &running).await;
    let folder = service.data.join("tasks").join(&running);
    let committed = || {
        let text = std::fs::read_to_string(folder.join("work/commit/commit.json")).ok()?;
        let length = serde_json::from_str::<Value>(&text).ok()?["files"]["dcd"].as_u64()?;
        let n_frames = (length as usize - HEADER) / (56 + 3 * (4 * n_atoms + 8));
        (n_frames > 2).then_some(n_frames)
    };
    let before = wait_for("frames are committed", committed);
    let query = [("mask", "@O"), ("stride", "2")];
    let (status, headers, bytes) = get(&service, &key, &trajectory, &query, &[]).await;
    let after = committed().unwrap();
    let n_frames: usize = headers["x-frames"].to_str().unwrap().parse().unwrap();
    assert_eq!((status, headers.get("etag")), (200, None));
    assert!((before.div_ceil(2)..=after.div_ceil(2)).contains(&n_frames), "{n_frames}");
    let written = std::fs::read(folder.join("work/output/production.dcd")).unwrap();
    let oxygens: Vec<usize> =
        (0..n_atoms).filter(|atom| whole.topology.atom(*atom).name == "O").collect();
    let expected = part(&written, n_atoms, &oxygens, 0, 2);
    assert!(bytes[HEADER..] == expected[..bytes.len() - HEADER], "the frames of the file");
    assert_eq!((int(&bytes, 8), int(&bytes, 12), int(&bytes, 16)), (n_frames as i32, 100, 200));
    let beyond = ("range", "bytes=99999999999-");
    let (status, headers, _) = get(&service, &key, &trajectory, &query, &[beyond]).await;
    assert_eq!(status, 416);
    assert!(headers["content-range"].to_str().unwrap().starts_with("bytes */"));

    // The same when it has ended.
    molbox.job_cancel().job_id(running.as_str()).send().await.unwrap();
    let job = molbox.wait_job(&running).await;
    assert!(job.is_err(), "it is cancelled");
    let (_, headers, bytes) = get(&service, &key, &trajectory, &query, &[]).await;
    let out = tempfile::tempdir().unwrap();
    let bundle = molbox.download_job(&running, out.path().join("results.zip")).await.unwrap();
    let written = archive(&bundle)["production.dcd"].clone();
    assert!(bytes[HEADER..] == part(&written, n_atoms, &oxygens, 0, 2));
    let etag = headers["etag"].to_str().unwrap().to_owned();
    let range = [("range", "bytes=270-1000"), ("if-range", etag.as_str())];
    let (status, headers, piece) = get(&service, &key, &trajectory, &query, &range).await;
    assert_eq!((status, headers["content-length"].to_str().unwrap()), (206, "731"));
    assert!(piece == bytes[270..=1000]);
    assert_eq!(headers["content-range"], format!("bytes 270-1000/{}", bytes.len()));
    let other = [("mask", "@O"), ("stride", "3")];
    let (status, headers, _) = get(&service, &key, &trajectory, &other, &range).await;
    assert_eq!(status, 200, "another part has another tag");
    assert_ne!(headers["etag"], etag);
    // All of it is the file, but for what the header counts.
    let (_, headers, bytes) = get(&service, &key, &trajectory, &[], &[]).await;
    assert_eq!(headers["x-atoms"], n_atoms.to_string());
    assert!(bytes[24..] == written[24..bytes.len()] && bytes[..8] == written[..8]);

    for (query, place) in [
        (("mask", ":WAT"), "mask"),
        (("mask", "@"), "mask"),
        (("from", "100000000"), "from"),
        (("stride", "0"), "stride"),
        (("stage", "equilibration_1"), "stage"),
    ] {
        let (status, _, body) = get(&service, &key, &trajectory, &[query], &[]).await;
        assert_eq!(status, 422, "{query:?}");
        assert_eq!(violation(&body)["loc"], serde_json::json!(["query", place]));
    }
    let query = [("from", "2"), ("to", "1")];
    let (status, _, body) = get(&service, &key, &trajectory, &query, &[]).await;
    assert_eq!((status, &violation(&body)["loc"][1]), (422, &Value::from("to")));

    let bob = service.key("bob");
    for path in [&trajectory, &structure, &atoms] {
        let (status, ..) = get(&service, &bob, path, &[("mask", "*")], &[]).await;
        assert_eq!(status, 404, "{path} of another account");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_registered_trajectories_are_read_by_the_names_of_a_registered_structure() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let upload = async |name: &str| {
        let path = example("../crates/analysis/tests/data").join(name);
        (molbox.upload(&path).name(name).await.unwrap().file_id, path)
    };
    let (pdb, _) = upload("mini_tri.pdb").await;
    let (xtc, xtc_path) = upload("mini_tri.xtc").await;
    let (dcd, dcd_path) = upload("mini_tri.dcd").await;
    let (other, _) = upload("helices.pdb").await;

    let structure = format!("/retrieve/file/{pdb}/structure");
    let (status, headers, text) =
        get(&service, &key, &structure, &[("mask", ":2-5@CA")], &[]).await;
    let text = String::from_utf8(text).unwrap();
    let chosen = Structure::from_mmcif(&text).unwrap();
    assert_eq!((status, headers["x-atoms"].to_str().unwrap()), (200, "4"));
    let numbers: Vec<usize> = text
        .lines()
        .filter(|line| line.starts_with("ATOM"))
        .map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
        .collect();
    let (_, _, whole) = get(&service, &key, &structure, &[], &[]).await;
    let whole = Structure::from_mmcif(&String::from_utf8(whole).unwrap()).unwrap();
    assert!(numbers.iter().all(|number| whole.topology.atom(number - 1).name == "CA"));
    assert_eq!(chosen.topology.residue(0).number, whole.topology.residue(1).number);

    // What a mask selects, as it is in the file; of XTC, what is decoded of it.
    let n_atoms = whole.topology.n_atoms();
    let carbons: Vec<usize> = numbers.iter().map(|number| number - 1).collect();
    let trajectory = |file: &str| format!("/retrieve/file/{file}/trajectory");
    let query = [("topology", "mini_tri.pdb"), ("mask", ":2-5@CA"), ("from", "1"), ("stride", "2")];
    let (status, headers, bytes) = get(&service, &key, &trajectory(&dcd), &query, &[]).await;
    let written = std::fs::read(&dcd_path).unwrap();
    let n_frames = Trajectory::open(&dcd_path).unwrap().n_frames();
    let frames = written.len() - n_frames * (56 + 3 * (4 * n_atoms + 8));
    let expected = part(&[&[0; HEADER], &written[frames..]].concat(), n_atoms, &carbons, 1, 2);
    assert_eq!((status, headers["x-atoms"].to_str().unwrap()), (200, "4"));
    assert!(bytes[bytes.len() - expected.len()..] == expected, "the coordinates of the file");
    let out = tempfile::tempdir().unwrap();
    for (file, path, atoms) in [
        (&xtc, &xtc_path, AtomSet::from_fn(n_atoms, |atom| carbons.contains(&atom))),
        (&dcd, &dcd_path, AtomSet::all(n_atoms)),
    ] {
        let mut query = vec![("topology", pdb.as_str()), ("mask", ":2-5@CA")];
        if atoms.len() == n_atoms {
            query.clear();
        }
        let (_, headers, bytes) = get(&service, &key, &trajectory(file), &query, &[]).await;
        let copy = out.path().join(file);
        std::fs::write(&copy, &bytes).unwrap();
        let [source, made] = [path, &copy].map(|path| Trajectory::open(path).unwrap());
        assert_eq!((made.n_atoms(), made.n_frames()), (atoms.len(), source.n_frames()));
        let plans = [source.read_plan(&atoms), made.read_plan(&AtomSet::all(atoms.len()))];
        let [mut expected, mut found] = [Frame::new(), Frame::new()];
        for frame in 0..source.n_frames() {
            source.read(frame, &plans[0], &mut expected).unwrap();
            made.read(frame, &plans[1], &mut found).unwrap();
            for (nth, atom) in atoms.iter().enumerate() {
                let there = expected.position(plans[0].slot(atom).unwrap());
                assert_eq!(found.position(plans[1].slot(nth).unwrap()), there);
            }
        }
        let etag = headers["etag"].to_str().unwrap();
        let range = [("range", "bytes=300-700"), ("if-range", etag)];
        let (status, _, piece) = get(&service, &key, &trajectory(file), &query, &range).await;
        assert_eq!(status, 206);
        assert!(piece == bytes[300..=700], "a part of it, from what is kept");
    }

    for (path, query, place) in [
        (trajectory(&dcd), vec![("mask", "@CA")], ["query", "topology"]),
        (trajectory(&dcd), vec![("topology", other.as_str())], ["query", "topology"]),
        (trajectory(&dcd), vec![("topology", xtc.as_str())], ["query", "topology"]),
        (trajectory(&dcd), vec![("topology", &pdb), ("mask", ":WAT")], ["query", "mask"]),
        (trajectory(&xtc), vec![("from", "100000000")], ["query", "from"]),
        (trajectory(&pdb), vec![], ["path", "file_id"]),
        (structure.clone(), vec![("mask", "@")], ["query", "mask"]),
        (structure.replace(&pdb, &xtc), vec![], ["path", "file_id"]),
    ] {
        let (status, _, body) = get(&service, &key, &path, &query, &[]).await;
        assert_eq!(status, 422, "{path} {query:?}");
        assert_eq!(violation(&body)["loc"], serde_json::json!(place), "{path} {query:?}");
    }
    let missing = [("topology", "nothing")];
    let (status, _, body) = get(&service, &key, &trajectory(&dcd), &missing, &[]).await;
    assert_eq!((status, &violation(&body)["loc"][1]), (404, &Value::from("topology")));
    let pending = molbox.upload_url_create().filetype("dcd").send().await.unwrap();
    let (status, ..) = get(&service, &key, &trajectory(&pending.file_id), &[], &[]).await;
    assert_eq!(status, 409);

    // Of another account, not even as a topology; deleted, they are gone though they were kept.
    let bob = service.key("bob");
    for path in [&structure, &trajectory(&dcd)] {
        let (status, ..) = get(&service, &bob, path, &[], &[]).await;
        assert_eq!(status, 404, "{path} of another account");
    }
    let own = service.client_with(&bob).upload(&dcd_path).await.unwrap().file_id;
    let foreign = [("topology", pdb.as_str()), ("mask", "@CA")];
    let (status, ..) = get(&service, &bob, &trajectory(&own), &foreign, &[]).await;
    assert_eq!(status, 404);
    for (file, path) in [(&pdb, &structure), (&xtc, &trajectory(&xtc))] {
        molbox.file_delete().file_id(file.as_str()).send().await.unwrap();
        let (status, ..) = get(&service, &key, path, &[], &[]).await;
        assert_eq!(status, 404, "{path} is deleted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_structure_too_large_to_choose_atoms_of_says_so() {
    let service = Service::start_with(&["limits.text_bytes=100000"]);
    let key = service.key("ada");
    let path = example("../crates/analysis/tests/data/mini_tri.pdb");
    let file = service.client_with(&key).upload(&path).await.unwrap().file_id;
    let structure = format!("/retrieve/file/{file}/structure");
    let (status, _, body) = get(&service, &key, &structure, &[], &[]).await;
    let refused = violation(&body);
    assert_eq!((status, &refused["loc"]), (422, &serde_json::json!(["path", "file_id"])));
    assert!(refused["msg"].as_str().unwrap().contains("limits.text_bytes"), "{refused}");
}

#[tokio::test]
async fn a_list_has_each_record_as_it_is_also_of_what_ended_and_runs_again() {
    let service = Service::start();
    let molbox = service.client("ada");
    let system = water(&molbox).await;
    let ids = [short_job(&molbox, &system).await.job_id, short_job(&molbox, &system).await.job_id];
    let is_as_viewed = async || {
        for id in &ids {
            // Once as it is read, once as it is kept.
            for _ in 0..2 {
                let page = molbox.job_list().send().await.unwrap().into_inner();
                let listed = page.items.into_iter().find(|job| job.job_id == *id).unwrap();
                assert_eq!(listed, molbox.job_view().job_id(id).send().await.unwrap().into_inner());
            }
        }
    };
    for id in &ids {
        molbox.wait_job(id).await.unwrap();
    }
    is_as_viewed().await;
    let running = endless_job(&molbox, &system).await;
    molbox.job_extend().job_id(&ids[0]).body_map(|more| more.time(0.0001)).send().await.unwrap();
    let extended = molbox.wait_job(&ids[0]).await.unwrap();
    assert!(extended.finished_at.is_some());
    is_as_viewed().await;
    let page = molbox.job_list().status("succeeded").send().await.unwrap();
    assert_eq!(page.items.len(), 2, "the same pages as before, and of those that are asked for");
    molbox.job_cancel().job_id(running.as_str()).send().await.unwrap();
    molbox.job_delete().job_id(&ids[1]).send().await.unwrap();
    let page = molbox.job_list().send().await.unwrap();
    assert!(page.items.iter().all(|job| job.job_id != ids[1]), "what was deleted is not there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_frames_that_cannot_be_decoded_are_refused_by_the_file() {
    let service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let whole = example("../crates/analysis/tests/data/mini_tri.xtc");
    let whole = std::fs::read(whole).unwrap();
    let n_bytes = u32::from_be_bytes(whole[88..92].try_into().unwrap()) as usize;
    let second = 92 + n_bytes.next_multiple_of(4);
    // How many bits small differences take.
    let damaged = |frame: usize| {
        let mut bytes = whole.clone();
        bytes[frame + 84..frame + 88].copy_from_slice(&0_i32.to_be_bytes());
        let path = service.data.join(format!("damaged_{frame}.xtc"));
        std::fs::write(&path, bytes).unwrap();
        path
    };

    let refused = molbox.upload(damaged(0)).await.unwrap_err().to_string();
    assert!(refused.contains("found coordinates of 0 bits"), "{refused}");

    let file = molbox.upload(damaged(second)).await.unwrap().file_id;
    let path = format!("/retrieve/file/{file}/trajectory");
    let (status, ..) = get(&service, &key, &path, &[("to", "0")], &[]).await;
    assert_eq!(status, 200);
    let (status, _, body) = get(&service, &key, &path, &[("from", "1")], &[]).await;
    assert_eq!(status, 422, "{}", String::from_utf8_lossy(&body));
    assert_eq!(violation(&body)["loc"], serde_json::json!(["path", "file_id"]));
    let message = violation(&body)["msg"].to_string();
    assert!(message.contains("coordinates of 0 bits"), "{message}");
}
