//! Files: links, uploads, registration, downloads, listings.

use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::net::TcpStream;

use crate::common::{Service, example, wait_for};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use molbox::Error;
use molbox::workflow::types::{EquilibrationStep, FileRecord, ProductionParams, Usage};
use reqwest::StatusCode;
use serde_json::{Value, json};

fn status(error: &Error) -> u16 {
    error.status().map_or(0, |status| status.as_u16())
}

#[tokio::test]
async fn a_file_goes_up_and_comes_back_byte_for_byte() {
    let service = Service::start();
    let molbox = service.client("ada");
    let path = example("1vii.pdb");
    let file = molbox.upload(&path).name("villin").kind("protein").await.unwrap();
    assert_eq!(
        (file.name.as_str(), file.type_.as_str(), file.format.as_str()),
        ("villin", "protein", "pdb")
    );
    assert_eq!(file.status, "ready");
    assert_eq!(file.size_bytes, Some(fs::metadata(&path).unwrap().len()));
    let viewed = molbox.file_view().file_id(&file.file_id).send().await.unwrap().into_inner();
    assert_eq!(viewed, file);

    let folder = tempfile::tempdir().unwrap();
    let back = molbox.download_file(&file.file_id, folder.path().join("back.pdb")).await.unwrap();
    assert_eq!(fs::read(back).unwrap(), fs::read(&path).unwrap());
}

const TRIMMED: &str = "\
REMARK 465 MISSING RESIDUES
REMARK 465   M RES C SSSEQI
REMARK 465     GLY A     1
REMARK 465     SER A     4
SEQRES   1 A    4  GLY ALA MSE SER
ATOM      1  N   ALA A   2       0.000   0.000   0.000  1.00  0.00           N
ATOM      2  CA AALA A   2       1.450   0.000   0.000  0.60  0.00           C
ATOM      3  CA BALA A   2       1.460   0.100   0.000  0.40  0.00           C
ATOM      4  C   ALA A   2       2.000   1.420   0.000  1.00  0.00           C
HETATM    5  N   MSE A   3       3.300   1.500   0.000  1.00  0.00           N
HETATM    6  CA  MSE A   3       4.000   2.780   0.000  1.00  0.00           C
HETATM    7 ZN    ZN B   1      10.000   0.000   0.000  1.00  0.00          ZN
HETATM    8  O   HOH B   2      15.000   0.000   0.000  1.00  0.00           O
HETATM    9  C1  BNZ B   3      20.000   0.000   0.000  1.00  0.00           C
HETATM   10  C2  BNZ B   3      21.400   0.000   0.000  1.00  0.00           C
END
";
const METHANE: &str = "methane\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    \
    0.0000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0\nM  END\n$$$$\n";

#[tokio::test]
async fn what_a_file_contains_is_told_with_what_a_build_would_make_of_it() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let upload = async |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        molbox.upload(&path).await.unwrap().file_id
    };
    let contents = async |id: &str| molbox.file_contents().file_id(id).send().await;

    let id = upload("trimmed.pdb", TRIMMED).await;
    let found = contents(&id).await.unwrap().into_inner();
    let structure = found.structure.unwrap();
    assert_eq!((structure.models, structure.atoms, structure.residues), (1, 9, 5));
    assert_eq!((structure.alternates, structure.missing_residues), (1, 2));
    let chains: Vec<_> = structure
        .chains
        .iter()
        .map(|chain| (chain.chain_id.as_str(), chain.residues, chain.waters, chain.kinds.join(" ")))
        .collect();
    let expected = [("A", 2, 0, "protein".into()), ("B", 2, 1, "ion other water".into())];
    assert_eq!(chains, expected);
    assert_eq!(structure.chains[0].sequence_length, Some(4));
    let heterogens: Vec<_> = structure.heterogens.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(heterogens, ["MSE", "ZN", "BNZ"]);
    let missing: Vec<_> =
        structure.missing.iter().map(|run| (run.first.as_str(), run.place.as_str())).collect();
    assert_eq!(missing, [("GLY1", "start"), ("SER4", "end")]);
    let codes: Vec<_> = found.warnings.iter().map(|warning| warning.code.as_str()).collect();
    let told = ["location_chosen", "residues_missing", "residue_replaced", "heterogen_removed"];
    assert!(told.iter().all(|code| codes.contains(code)), "{codes:?}");

    let found = contents(&upload("methane.sdf", METHANE).await).await.unwrap().into_inner();
    let ligand = found.ligand.unwrap();
    assert_eq!((ligand.atoms, ligand.hydrogens, ligand.formula.as_str()), (1, 0, "C"));
    assert_eq!(found.warnings[0].code, "ligand_hydrogens_added");

    let dcd = example("../crates/analysis/tests/data/mini_md.dcd");
    let frames = molbox.upload(&dcd).await.unwrap().file_id;
    let found = contents(&frames).await.unwrap().into_inner().trajectory.unwrap();
    let file = molbox_analysis::Trajectory::open(&dcd).unwrap();
    assert_eq!((found.atoms, found.frames), (file.n_atoms() as u64, file.n_frames() as u64));

    let field = upload("field.xml", "<ForceField></ForceField>").await;
    assert_eq!(status(&contents(&field).await.unwrap_err()), 422);
    let pending = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    assert_eq!(status(&contents(&pending.file_id).await.unwrap_err()), 409);
    let stranger = service.client("eve");
    let refused = stranger.file_contents().file_id(&id).send().await.unwrap_err();
    assert_eq!(status(&refused), 404);
}

#[tokio::test]
async fn a_link_takes_put_post_and_a_form_and_needs_no_key() {
    let service = Service::start();
    let molbox = service.client("ada");
    let http = reqwest::Client::new();
    let content = fs::read_to_string(example("1vii.pdb")).unwrap();
    let boundary = "a-boundary";
    let form = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--{boundary}\r\n\
         content-disposition: form-data; name=\"file\"; filename=\"x.pdb\"\r\n\r\n{content}\r\n--{boundary}--\r\n"
    );
    for (name, way) in [("put", 0), ("post", 1), ("form", 2)] {
        let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
        let request = match way {
            0 => http.put(&link.upload_url).body(content.clone()),
            1 => http.post(&link.upload_url).body(content.clone()),
            _ => http
                .post(&link.upload_url)
                .header("content-type", format!("multipart/form-data; boundary={boundary}"))
                .body(form.clone()),
        };
        assert_eq!(request.send().await.unwrap().status(), 200, "{name}");
        let file = molbox
            .file_register()
            .body_map(|f| f.file_id(link.file_id.as_str()).name(name))
            .send()
            .await
            .unwrap();
        assert_eq!(file.size_bytes, Some(content.len() as u64), "{name}");
    }
}

#[tokio::test]
async fn a_part_of_a_content_and_a_packed_one_are_not_taken_for_it() {
    let service = Service::start();
    let molbox = service.client("ada");
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let http = reqwest::Client::new();
    for (name, value) in [("content-range", "bytes 0-1/100"), ("content-encoding", "gzip")] {
        let sent = http.put(link.upload_url.as_str()).header(name, value).body("ATOM");
        let answer = sent.send().await.unwrap();
        assert_eq!(answer.status(), 422, "{name}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["detail"][0]["loc"], json!(["header", name]));
    }
    let whole = http.put(link.upload_url.as_str()).body("ATOM").send().await.unwrap();
    assert_eq!(whole.status(), 200);
}

#[tokio::test]
async fn a_form_takes_a_file_up_to_the_limit_of_files() {
    let limit = 3_000_000;
    let service = Service::start_with(&[&format!("limits.upload_bytes={limit}")]);
    let molbox = service.client("ada");
    let structure = fs::read_to_string(example("1vii.pdb")).unwrap();
    for (excess, status) in [(0, 200), (1, 413)] {
        let remarks = "REMARK\n".repeat((limit - structure.len()) / 7);
        let content = format!("{remarks}{structure}");
        let content = format!("{}{content}", "\n".repeat(limit + excess - content.len()));
        assert_eq!(content.len(), limit + excess);
        let form = format!(
            "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"x.pdb\"\r\n\r\n{content}\r\n--x--\r\n"
        );
        let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
        let sent = reqwest::Client::new()
            .post(&link.upload_url)
            .header("content-type", "multipart/form-data; boundary=x")
            .body(form);
        assert_eq!(sent.send().await.unwrap().status(), status);
    }
}

/// Bytes as a body that comes in pieces.
fn in_pieces(bytes: &[u8], size: usize) -> reqwest::Body {
    let pieces: Vec<_> =
        bytes.chunks(size).map(|piece| Ok::<_, Infallible>(piece.to_vec())).collect();
    reqwest::Body::wrap_stream(futures::stream::iter(pieces))
}

#[tokio::test]
async fn a_form_comes_to_its_file_soon_or_is_refused() {
    let service = Service::start();
    let molbox = service.client("ada");
    let http = reqwest::Client::new();
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let send = async |body: reqwest::Body| {
        let media = "multipart/form-data; boundary=x";
        let sent = http.post(&link.upload_url).header("content-type", media).body(body);
        let answer = sent.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    for start in [
        "",
        "--x\r\ncontent-disposition: form-data; name=\"",
        "--x\r\ncontent-disposition: form-data; name=\"note\"\r\n\r\n",
    ] {
        let endless = format!("{start}{}", "A".repeat(4 << 20));
        let (status, body) = send(in_pieces(endless.as_bytes(), 1000)).await;
        assert_eq!(status, 422, "{start:?}: {body}");
        assert!(
            body.contains("the form has no file in its first 16384 bytes"),
            "{start:?}: {body}"
        );
    }
    let content = fs::read(example("1vii.pdb")).unwrap();
    let mut form = b"--x\r\ncontent-disposition: form-data; name=\"note\"\r\n\r\n".to_vec();
    form.extend_from_slice(&[b'A'; 10_000]);
    form.extend_from_slice(
        b"\r\n--x\r\ncontent-disposition: form-data; name=f; filename=f\r\n\r\n",
    );
    form.extend_from_slice(&content);
    form.extend_from_slice(b"\r\n--x--\r\n");
    assert_eq!(send(in_pieces(&form, 7)).await.0, 200);
    let file =
        molbox.file_register().body_map(|f| f.file_id(link.file_id.as_str())).send().await.unwrap();
    assert_eq!(content_of(&molbox, &file).await, content);
}

#[tokio::test]
async fn a_link_that_is_altered_or_used_up_is_refused() {
    let service = Service::start();
    let molbox = service.client("ada");
    let http = reqwest::Client::new();
    let link = molbox.upload_url_create().filetype(".PDB").send().await.unwrap();
    let other = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let id = link.file_id.as_str();
    let altered = [
        link.upload_url.replace(id, &other.file_id),
        link.upload_url.replace("expires=1", "expires=2"),
        link.upload_url.replace("signature=", "signature=00"),
        link.upload_url.split('?').next().unwrap().to_owned(),
    ];
    for url in altered {
        assert_eq!(http.put(&url).body("END").send().await.unwrap().status(), 403, "{url}");
    }
    let content = fs::read(example("1vii.pdb")).unwrap();
    assert_eq!(
        http.put(&link.upload_url).body(content.clone()).send().await.unwrap().status(),
        200
    );
    molbox.file_register().body_map(|f| f.file_id(id)).send().await.unwrap();
    let again = http.put(&link.upload_url).body("something else").send().await.unwrap();
    assert_eq!(again.status(), 403);
    let bytes =
        molbox.file_download().file_id(&link.file_id).send().await.unwrap().into_inner_stream();
    let bytes: Vec<u8> = bytes.map(|chunk| chunk.unwrap().to_vec()).concat().await;
    assert_eq!(bytes, content, "what was registered stays");
}

#[tokio::test]
async fn an_upload_that_is_too_large_leaves_nothing() {
    let service = Service::start_with(&["limits.upload_bytes=1000"]);
    let molbox = service.client("ada");
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    assert_eq!(link.max_bytes, Some(1000));
    // The service may stop reading before all is sent.
    if let Ok(response) =
        reqwest::Client::new().put(&link.upload_url).body("x".repeat(5000)).send().await
    {
        assert_eq!(response.status(), 413);
    }
    let error = molbox
        .file_register()
        .body_map(|f| f.file_id(link.file_id.as_str()))
        .send()
        .await
        .unwrap_err();
    assert_eq!(status(&error), 409, "{error}");
    assert_eq!(fs::read_dir(service.data.join("partial")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_registration_says_what_is_wrong_with_it() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let bad = "ATOM      1  N   MET A   1      xx.xxx   0.000   0.000  1.00  0.00           N\n";
    let error = molbox.upload(write("bad.pdb", &format!("REMARK\n{bad}"))).await.unwrap_err();
    assert!(error.to_string().contains("line 2: expected a coordinate, found `xx.xxx`"), "{error}");
    let error = molbox.upload(write("empty.pdb", "")).await.unwrap_err();
    assert!(error.to_string().contains("it is empty"), "{error}");
    let error = molbox.upload(write("remark.pdb", "REMARK\nEND\n")).await.unwrap_err();
    assert!(error.to_string().contains("no atom"), "{error}");
    let error = molbox.upload(write("binary.pdb", "ATOM\0\0")).await.unwrap_err();
    assert!(error.to_string().contains("line 1: it is not text"), "{error}");
    let error = molbox.upload(write("none.cif", "data_x\n_entry.id x\n")).await.unwrap_err();
    assert!(error.to_string().contains("no atom"), "{error}");

    let error = molbox.file_register().send().await.unwrap_err();
    assert_eq!((status(&error), error.violations()[0].path()), (422, "file_id".to_owned()));
    let unknown = molbox
        .file_register()
        .body_map(|f| f.file_id("file_00000000000000000000"))
        .send()
        .await
        .unwrap_err();
    assert_eq!((status(&unknown), unknown.violations()[0].path()), (404, "file_id".to_owned()));

    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let wrong = molbox
        .file_register()
        .body_map(|f| f.file_id(link.file_id.as_str()).name("").type_("song").format("mp3"));
    let error = wrong.send().await.unwrap_err();
    let mut fields: Vec<String> =
        error.violations().iter().map(|violation| violation.path()).collect();
    fields.sort();
    assert_eq!(fields, ["format", "name", "type"]);
}

#[tokio::test]
async fn a_name_belongs_to_one_file_of_an_account() {
    let service = Service::start();
    let (ada, bob) = (service.client("ada"), service.client("bob"));
    ada.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let error = ada.upload(example("1vii.pdb")).name("villin").await.unwrap_err();
    assert_eq!((status(&error), error.violations()[0].path()), (409, "name".to_owned()));
    bob.upload(example("1vii.pdb")).name("villin").await.unwrap();
}

#[tokio::test]
async fn a_registration_that_is_repeated_without_a_key_gives_the_record() {
    let mirror = tempfile::tempdir().unwrap();
    fs::copy(example("1vii.pdb"), mirror.path().join("1vii.pdb")).unwrap();
    let setting = format!("pdb.mirror=\"{}/{{id}}.pdb\"", mirror.path().display());
    let service = Service::start_with(&[&setting]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let content = fs::read(example("1vii.pdb")).unwrap();
    reqwest::Client::new().put(&link.upload_url).body(content).send().await.unwrap();
    let register = async |body: &Value| {
        let post = reqwest::Client::new().post(format!("{}/submit/file/", service.base_url));
        let post = post.header("x-api-key", &key).header("content-type", "application/json");
        let answer = post.body(body.to_string()).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let id = link.file_id.as_str();
    let [uploaded, entry] = [
        json!({"file_id": id, "name": "villin", "type": "protein", "format": "pdb"}),
        json!({"pdb_id": "1VII"}),
    ];
    // At once, too: the answer to the first may be what is late.
    let answers = futures::future::join_all((0..4).map(|_| register(&uploaded))).await;
    let (status, file) = &answers[0];
    assert_eq!(*status, 200, "{file}");
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:?}");
    let first = register(&entry).await;
    assert_eq!(first.0, 200, "{}", first.1);
    assert_eq!(register(&entry).await, first);
    assert_eq!(register(&json!({"file_id": id, "name": "villin"})).await, (200, file.clone()));
    for (other, field) in [
        (json!({"file_id": id, "name": "other"}), "file_id"),
        (json!({"file_id": id}), "file_id"),
        (json!({"file_id": id, "name": "villin", "type": "ligand"}), "file_id"),
        (json!({"pdb_id": "1VII", "name": "villin"}), "name"),
    ] {
        let (status, said) = register(&other).await;
        assert_eq!((status, &said["detail"][0]["loc"]), (409, &json!(["body", field])), "{said}");
    }
    let count = service.sql("select count(*) from audit where action = 'file_register'");
    assert_eq!(count, "2", "what is answered again is not done again");
}

#[tokio::test]
async fn a_repeated_registration_gives_the_first_answer_also_after_a_crash() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let content = fs::read(example("1vii.pdb")).unwrap();
    reqwest::Client::new().put(&link.upload_url).body(content).send().await.unwrap();
    let id = link.file_id.as_str().to_owned();
    let first = molbox
        .file_register()
        .idempotency_key("once")
        .body_map(|f| f.file_id(id.as_str()).name("a"))
        .send()
        .await;
    let first = first.unwrap().into_inner();
    service.kill_and_restart();
    let molbox = service.client_with(&key);
    let again = molbox
        .file_register()
        .idempotency_key("once")
        .body_map(|f| f.file_id(id.as_str()).name("a"))
        .send()
        .await;
    assert_eq!(again.unwrap().into_inner(), first);
    let other = molbox
        .file_register()
        .idempotency_key("once")
        .body_map(|f| f.file_id(id.as_str()).name("b"))
        .send()
        .await;
    let error = other.unwrap_err();
    assert_eq!(
        (status(&error), error.violations()[0].path()),
        (409, "header idempotency-key".to_owned())
    );
}

#[tokio::test]
async fn a_whole_number_of_a_query_is_that_however_it_is_written() {
    let service = Service::start();
    let key = service.key("ada");
    for _ in 0..3 {
        service.client_with(&key).upload_url_create().filetype("pdb").send().await.unwrap();
    }
    for (limit, count) in [("2", 2), ("2.0", 2), ("0_2", 2), ("+1", 1), ("002.00", 2), ("99999", 3)]
    {
        let url = format!("{}/info/files", service.base_url);
        let url = reqwest::Url::parse_with_params(&url, [("limit", limit)]).unwrap();
        let page = reqwest::Client::new().get(url).header("x-api-key", &key).send().await.unwrap();
        let page: Value = page.json().await.unwrap();
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{limit}");
    }
}

#[tokio::test]
async fn a_word_of_a_query_is_that_however_it_is_written() {
    let service = Service::start();
    let key = service.key("ada");
    for filetype in ["pdb", "PDB ", " .pdb", "p_d-b"] {
        let url = format!("{}/submit/upload-url", service.base_url);
        let url = reqwest::Url::parse_with_params(&url, [("filetype", filetype)]).unwrap();
        let link = reqwest::Client::new().get(url).header("x-api-key", &key).send().await.unwrap();
        assert_eq!(link.status(), 200, "{filetype}");
    }
}

#[tokio::test]
async fn no_cache_on_the_way_keeps_what_is_an_account_s() {
    let service = Service::start();
    let (key, url) = (service.key("ada"), &service.base_url);
    let http = reqwest::Client::new();
    let read = http.get(format!("{url}/info/account")).header("x-api-key", &key);
    let made = http.post(format!("{url}/submit/system")).header("x-api-key", &key).body("{}");
    let refused = http.get(format!("{url}/info/files"));
    for (request, expected) in
        [(read, "private, no-cache"), (made, "no-store"), (refused, "private, no-cache")]
    {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["cache-control"], expected, "{answer:?}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn a_listing_is_newest_first_paged_and_filtered() {
    let service = Service::start();
    let molbox = service.client("ada");
    for index in 0..5 {
        molbox.upload(example("1vii.pdb")).name(format!("file {index}")).await.unwrap();
    }
    molbox.upload_url_create().filetype("cif").send().await.unwrap();
    let all: Vec<FileRecord> =
        molbox.file_list().limit(2).stream().map(Result::unwrap).collect().await;
    let names: Vec<&str> = all[1..].iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["file 4", "file 3", "file 2", "file 1", "file 0"]);
    assert_eq!(all[0].status, "pending");
    let ready: Vec<FileRecord> =
        molbox.file_list().limit(2).status("ready").stream().map(Result::unwrap).collect().await;
    assert_eq!(ready.len(), 5, "the filter holds on every page");
    let named = molbox.file_list().name("file 3").send().await.unwrap().into_inner();
    assert_eq!((named.items.len(), named.next_page), (1, None));
    assert_eq!(molbox.file_list().limit(100_000).send().await.unwrap().items.len(), 6);
}

#[tokio::test]
async fn a_download_can_be_taken_in_ranges() {
    let service = Service::start();
    let molbox = service.client("ada");
    let file = molbox.upload(example("1vii.pdb")).await.unwrap();
    let content = fs::read(example("1vii.pdb")).unwrap();
    let get = |range: &'static str| {
        let request = molbox.file_download().file_id(&file.file_id).range(range.to_owned());
        async move { request.send().await }
    };
    let part = get("bytes=100-199").await.unwrap();
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.headers()["content-range"], format!("bytes 100-199/{}", content.len()));
    assert_eq!(part.headers()["etag"], format!("\"sha256-{}\"", file.sha256.as_ref().unwrap()));
    let bytes: Vec<u8> =
        part.into_inner_stream().map(|chunk| chunk.unwrap().to_vec()).concat().await;
    assert_eq!(bytes, content[100..200]);
    let beyond = get("bytes=10000000-").await.err().unwrap();
    assert_eq!(status(&beyond), 416);
    assert_eq!(
        get("lines=1-2").await.unwrap().status(),
        StatusCode::OK,
        "what is no range is ignored"
    );
}

#[tokio::test]
async fn every_format_is_checked_and_has_its_kinds() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("field.xml");
    fs::write(&path, "<ForceField><Script>import os</Script></ForceField>").unwrap();
    let error = molbox.upload(&path).await.unwrap_err();
    assert!(error.to_string().contains("<Script> is not allowed"), "{error}");
    fs::write(&path, "<ForceField><AtomTypes/></ForceField>").unwrap();
    assert_eq!(molbox.upload(&path).await.unwrap().type_, "force_field");
    let error = molbox.upload(example("1vii.pdb")).kind("force_field").await.unwrap_err();
    assert!(error.to_string().contains("a pdb file can be structure or protein"), "{error}");
    let path = folder.path().join("x.dcd");
    fs::write(&path, "CORD").unwrap();
    let error = molbox.upload(&path).await.unwrap_err();
    assert!(
        error.to_string().contains("cannot be taken as dcd: byte 0: expected a record"),
        "{error}"
    );
}

#[tokio::test]
async fn a_public_entry_comes_from_the_mirror() {
    let mirror = tempfile::tempdir().unwrap();
    fs::copy(example("1vii.pdb"), mirror.path().join("1vii.pdb")).unwrap();
    fs::write(mirror.path().join("1bad.pdb"), "nothing").unwrap();
    let setting = format!("pdb.mirror=\"{}/{{id}}.pdb\"", mirror.path().display());
    let service = Service::start_with(&[&setting]);
    let molbox = service.client("ada");
    let file = molbox.file_register().body_map(|f| f.pdb_id("1VII")).send().await.unwrap();
    assert_eq!((file.name.as_str(), file.format.as_str()), ("1VII", "pdb"));
    assert_eq!(file.pdb_id.as_ref().unwrap().as_str(), "1VII");
    assert_eq!(file.size_bytes, Some(fs::metadata(example("1vii.pdb")).unwrap().len()));

    let missing = molbox.file_register().body_map(|f| f.pdb_id("9XYZ")).send().await.unwrap_err();
    assert_eq!((status(&missing), missing.violations()[0].path()), (404, "pdb_id".to_owned()));
    let broken = molbox.file_register().body_map(|f| f.pdb_id("1BAD")).send().await.unwrap_err();
    assert_eq!(status(&broken), 500, "what the mirror has wrong is not the caller's fault");
    let both = molbox
        .file_register()
        .body_map(|f| f.pdb_id("1VII").file_id(file.file_id.as_str()))
        .send()
        .await;
    assert_eq!(status(&both.unwrap_err()), 422);

    // A build that names an entry fetches it for another account, and finds it for this one.
    let bob = service.client("bob");
    bob.system_submit().body_map(|s| s.protein("1vii")).send().await.unwrap();
    assert_eq!(bob.file_list().send().await.unwrap().items[0].name, "1vii");
    molbox.system_submit().body_map(|s| s.protein("1VII")).send().await.unwrap();
    assert_eq!(molbox.file_list().send().await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_public_entry_is_held_to_what_is_read_whole() {
    let mirror = tempfile::tempdir().unwrap();
    let pack = |name: &str, content: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        fs::write(mirror.path().join(name), encoder.finish().unwrap()).unwrap();
    };
    let villin = fs::read(example("1vii.pdb")).unwrap();
    pack("1vii.pdb.gz", &villin);
    // A gigabyte in a megabyte.
    pack("1big.pdb.gz", &vec![b'\n'; 1 << 30]);
    pack("1two.pdb.gz", &villin.repeat(2));
    fs::write(mirror.path().join("1raw.pdb.gz"), vec![b'x'; 200_000]).unwrap();
    let setting = format!("pdb.mirror=\"{}/{{id}}.pdb.gz\"", mirror.path().display());
    let service = Service::start_with(&[&setting, "limits.text_bytes=100000"]);
    let molbox = service.client("ada");
    for id in ["1BIG", "1TWO", "1RAW"] {
        let error = molbox.file_register().body_map(|f| f.pdb_id(id)).send().await.unwrap_err();
        let violation = &error.violations()[0];
        assert_eq!((status(&error), violation.type_.as_str()), (422, "file_content"), "{id}");
        assert_eq!(violation.path(), "pdb_id");
        let msg = format!(
            "the mirror's entry {id} has more than 100000 bytes, the most that is read \
             (`limits.text_bytes` of the service)"
        );
        assert_eq!(violation.msg, msg);
    }
    let error = molbox.system_submit().body_map(|s| s.protein("1TWO")).send().await.unwrap_err();
    assert_eq!((status(&error), error.violations()[0].path()), (422, "protein".to_owned()));
    molbox.file_register().body_map(|f| f.pdb_id("1VII")).send().await.unwrap();

    let service = Service::start_with(&[&setting, "limits.atoms=595"]);
    let molbox = service.client("ada");
    let error = molbox.file_register().body_map(|f| f.pdb_id("1VII")).send().await.unwrap_err();
    assert_eq!((status(&error), error.violations()[0].path()), (422, "pdb_id".to_owned()));
    assert_eq!(
        error.violations()[0].msg,
        "the mirror's entry 1VII cannot be taken: it has more than 595 atoms, the most that is \
         read (`limits.atoms` of the service)"
    );
    assert!(molbox.file_list().send().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_structure_has_no_more_atoms_than_are_read() {
    let service = Service::start_with(&["limits.atoms=2"]);
    let molbox = service.client("ada");
    let register = async |filetype: &str, text: String| {
        let link = molbox.upload_url_create().filetype(filetype).send().await.unwrap();
        reqwest::Client::new().put(&link.upload_url).body(text).send().await.unwrap();
        let body =
            molbox.file_register().body_map(|f| f.file_id(link.file_id.as_str()).name(filetype));
        body.send().await.map(drop).map_err(|error| error.violations()[0].msg.clone())
    };
    let pdb = |n: usize| {
        let atom = |n| format!("HETATM    1  C{n}  LIG A   1       0.000   0.000   0.000\n");
        (0..n).map(atom).collect::<String>()
    };
    let cif = |n: usize| {
        let columns = ["type_symbol", "label_atom_id", "label_comp_id", "Cartn_x", "Cartn_y"];
        let head: String = columns.map(|name| format!("_atom_site.{name}\n")).concat();
        let atom = |n| format!("C C{n} LIG 0 0 0\n");
        let atoms: String = (0..n).map(atom).collect();
        format!("data_x\nloop_\n{head}_atom_site.Cartn_z\n{atoms}")
    };
    let gro = |n: usize| {
        let atom = |n| format!("    1LIG     C{n}    1   0.000   0.000   0.000\n");
        format!("x\n{n}\n{}0 0 0\n", (0..n).map(atom).collect::<String>())
    };
    for (format, of) in [("pdb", pdb as fn(usize) -> String), ("cif", cif), ("gro", gro)] {
        assert_eq!(register(format, of(2)).await, Ok(()), "{format}");
        let expected = format!(
            "{format} cannot be taken as {format}: it has more than 2 atoms, the most that is read \
             (`limits.atoms` of the service)"
        );
        assert_eq!(register(format, of(3)).await, Err(expected));
    }
}

async fn usage(service: &Service) -> Usage {
    service.client("ada").usage_view().send().await.unwrap().into_inner()
}

#[tokio::test]
async fn without_a_mirror_or_with_one_out_of_reach_an_entry_says_so() {
    let service = Service::start();
    assert_eq!(usage(&service).await.public_entries, Some(false));
    let error = service
        .client("ada")
        .file_register()
        .body_map(|f| f.pdb_id("1L2Y"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(status(&error), 422);
    assert!(error.to_string().contains("has no mirror"), "{error}");
    let error = service
        .client("ada")
        .system_submit()
        .body_map(|s| s.protein("1L2Y"))
        .send()
        .await
        .unwrap_err();
    assert_eq!((status(&error), error.violations()[0].type_.as_str()), (422, "no_mirror"));
    for part in [
        "no registered file \"1L2Y\"",
        "public structure entry's code",
        "no mirror",
        "upload the file",
    ] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let error = service
        .client("ada")
        .system_submit()
        .body_map(|s| s.protein("villin"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(status(&error), 404);
    assert!(!error.to_string().contains("mirror"), "{error}");

    let service = Service::start_with(&["pdb.mirror=\"http://127.0.0.1:9/{ID}.cif\""]);
    assert_eq!(usage(&service).await.public_entries, Some(true));
    let error = service
        .client("ada")
        .file_register()
        .body_map(|f| f.pdb_id("1L2Y"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(status(&error), 503);
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn a_reference_that_leads_nowhere_hides_no_other_violation() {
    let service = Service::start();
    let molbox = service.client("ada");
    let paths = |error: &molbox::Error| -> Vec<String> {
        let mut paths: Vec<String> =
            error.violations().iter().map(|v| v.path().trim_end().to_owned()).collect();
        paths.sort();
        paths
    };
    let missing =
        molbox.system_submit().body_map(|s| s.protein("none").ligands(["neither".to_owned()]));
    let error = missing.send().await.unwrap_err();
    assert_eq!(status(&error), 404);
    assert_eq!(paths(&error), ["ligands[0]", "protein"]);
    let wrong = molbox.system_submit().body_map(|s| {
        s.protein("none")
            .ligands(["neither".to_owned()])
            .p_h(molbox::Finite::new(20.0).unwrap())
            .ions("XyZ")
    });
    let error = wrong.send().await.unwrap_err();
    assert_eq!(status(&error), 422);
    assert_eq!(paths(&error), ["ions", "ligands[0]", "pH", "protein"]);

    let job = "job_00000000000000000000";
    let error = molbox
        .analysis_submit()
        .body_map(|a| a.job_id(job.to_owned()).rmsf_masks(["@@".to_owned()]))
        .send();
    let error = error.await.unwrap_err();
    assert_eq!(status(&error), 422);
    assert_eq!(paths(&error), ["job_id", "rmsf_masks[0]"]);
    let error = molbox.analysis_submit().body_map(|a| {
        a.topology("none".to_owned())
            .trajectory("neither".to_owned())
            .rmsf_masks(["@CA".to_owned()])
    });
    let error = error.send().await.unwrap_err();
    assert_eq!(status(&error), 404);
    assert_eq!(paths(&error), ["topology", "trajectory"]);

    let wrong = molbox.job_submit().body_map(|j| {
        let stage = EquilibrationStep::builder().restraint_force(10.0);
        let production = ProductionParams::builder().time(0.001).traj_freq(1_000_000);
        j.box_id("box_00000000000000000000").equilibration([stage]).production(production)
    });
    let error = wrong.send().await.unwrap_err();
    assert_eq!(status(&error), 422);
    assert_eq!(
        paths(&error),
        ["box_id", "equilibration[0].restraint_mask", "production.traj_freq"]
    );
    let missing = molbox.job_submit().body_map(|j| j.box_id("box_00000000000000000000"));
    assert_eq!(status(&missing.send().await.unwrap_err()), 404);

    let unknown = "file_00000000000000000000";
    let wrong = molbox
        .file_register()
        .body_map(|f| f.file_id(unknown).name("two\nlines").format("sdf").type_("protein"));
    let error = wrong.send().await.unwrap_err();
    assert_eq!(status(&error), 422);
    assert_eq!(paths(&error), ["file_id", "name", "type"]);
    let wrong = molbox.file_register().body_map(|f| f.file_id(unknown).name("").pdb_id("1L2Y"));
    assert_eq!(paths(&wrong.send().await.unwrap_err()), ["name", "pdb_id"]);
}

#[tokio::test]
async fn labels_have_no_control_characters() {
    let service = Service::start();
    let molbox = service.client("ada");
    let paths = |error: &molbox::Error| -> Vec<String> {
        error.violations().iter().map(|v| v.path()).collect()
    };
    let unseen = ["\u{200b}", "\u{feff}", "a\u{2028}b", "a\u{202e}b", "a\u{2060}b"];
    for label in ["two\nlines", "nothing\0", "\u{1b}[2J", "\u{85}"].into_iter().chain(unseen) {
        let file = molbox.file_register().body_map(|f| f.file_id("none").name(label));
        let file = file.send().await.unwrap_err();
        assert_eq!((status(&file), paths(&file).contains(&"name".to_owned())), (422, true));
        let system = molbox
            .system_submit()
            .body_map(|s| s.protein("none").box_name(label))
            .send()
            .await
            .unwrap_err();
        assert_eq!(
            (status(&system), paths(&system).contains(&"box_name".to_owned())),
            (422, true),
            "{label:?}"
        );
        let job = molbox.job_submit().body_map(|j| j.batch_name(label)).send().await.unwrap_err();
        assert_eq!(
            (status(&job), paths(&job).contains(&"batch_name".to_owned())),
            (422, true),
            "{label:?}"
        );
    }
    let system =
        molbox.system_submit().body_map(|s| s.protein("none").box_name("Häm, 2 µM – \u{1f9ea}"));
    assert_eq!(
        status(&system.send().await.unwrap_err()),
        404,
        "of what people write nothing is refused"
    );
}

#[tokio::test]
async fn a_range_outside_of_the_content_is_refused_with_its_size() {
    let service = Service::start();
    let key = service.key("ada");
    let file = service.client_with(&key).upload(example("1vii.pdb")).await.unwrap();
    let size = fs::metadata(example("1vii.pdb")).unwrap().len();
    let url = format!("{}/retrieve/file/{}", service.base_url, file.file_id.as_str());
    let request = reqwest::Client::new()
        .get(url)
        .header("x-api-key", &key)
        .header("range", format!("bytes={size}-"));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 416);
    assert_eq!(answer.headers()["content-range"], format!("bytes */{size}").as_str());
}

/// Names of the objects that hold contents of files.
pub(crate) fn contents(service: &Service) -> Vec<String> {
    let entries = fs::read_dir(service.objects().join("files")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn a_deleted_file_is_gone_with_its_content() {
    let mut service =
        Service::start_with(&["worker.python=\"/nonexistent\"", "limits.free_disk_bytes=0"]);
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let file = molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    assert_eq!(contents(&service).len(), 1);
    molbox.file_delete().file_id(&file.file_id).send().await.unwrap();
    assert!(contents(&service).is_empty());
    assert_eq!(status(&molbox.file_view().file_id(&file.file_id).send().await.unwrap_err()), 404);
    assert_eq!(status(&molbox.file_delete().file_id(&file.file_id).send().await.unwrap_err()), 404);
    // The name is free again.
    molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();

    // Killed between record and content, the next start removes what is left.
    let garbage = format!("files/{}", contents(&service)[0]);
    service.sql("delete from file");
    service.sql(&format!("insert into garbage (prefix) values ('{garbage}')"));
    service.kill_and_restart();
    wait_for("the content is removed", || contents(&service).is_empty().then_some(()));
}

fn database(service: &Service) -> rusqlite::Connection {
    rusqlite::Connection::open(service.data.join("molbox.sqlite")).unwrap()
}

/// An upload that is under way: what is sent to it goes to the service, and its end ends the
/// upload.
pub(crate) struct SlowUpload {
    content: futures::channel::mpsc::UnboundedSender<Result<Vec<u8>, std::io::Error>>,
    answer: tokio::task::JoinHandle<reqwest::Result<reqwest::Response>>,
}

impl SlowUpload {
    /// Sends the first bytes, and returns when the service is writing.
    pub(crate) fn begin(service: &Service, link: &str, start: &[u8]) -> Self {
        let (content, body) = futures::channel::mpsc::unbounded();
        content.unbounded_send(Ok(start.to_vec())).unwrap();
        let request = reqwest::Client::new().put(link).body(reqwest::Body::wrap_stream(body));
        let answer = tokio::spawn(request.send());
        let partial = service.data.join("partial");
        let size = start.len() as u64;
        wait_for("the service has the first bytes", || {
            let written = fs::read_dir(&partial).unwrap().any(|entry| {
                // One that has gone by now is another upload's.
                entry.unwrap().metadata().is_ok_and(|found| found.len() == size)
            });
            written.then_some(())
        });
        Self { content, answer }
    }

    /// Sends more, until the service has put away what it had; the status, at the end.
    pub(crate) async fn breaks_off(self, service: &Service, more: &[u8]) -> u16 {
        self.send(more);
        let partial = service.data.join("partial");
        wait_for("the service takes no more", || {
            fs::read_dir(&partial).unwrap().next().is_none().then_some(())
        });
        drop(self.content);
        self.answer.await.unwrap().unwrap().status().as_u16()
    }

    /// Sends more.
    pub(crate) fn send(&self, more: &[u8]) {
        self.content.unbounded_send(Ok(more.to_vec())).unwrap();
    }

    /// Sends the rest; the status.
    pub(crate) async fn finish(self, rest: &[u8]) -> u16 {
        self.send(rest);
        drop(self.content);
        self.answer.await.unwrap().unwrap().status().as_u16()
    }
}

/// A structure of one atom, so long that the service writes its beginning at once.
pub(crate) fn atom(x: f64) -> Vec<u8> {
    let remarks = "REMARK 999 a structure of one atom\n".repeat(10_000);
    format!("{remarks}ATOM      1  CA  ALA A   1    {x:8.3}   0.000   0.000  1.00  0.00           C\nEND\n")
        .into_bytes()
}

async fn content_of(molbox: &molbox::Client, file: &FileRecord) -> Vec<u8> {
    let stream =
        molbox.file_download().file_id(&file.file_id).send().await.unwrap().into_inner_stream();
    stream.map(|chunk| chunk.unwrap().to_vec()).concat().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_after_the_registration_does_not_replace_what_was_checked() {
    let service = Service::start();
    let molbox = service.client("ada");
    let http = reqwest::Client::new();
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let unchecked = b"this is no structure".repeat(50_000);
    let late = SlowUpload::begin(&service, &link.upload_url, &unchecked[..300_000]);
    assert_eq!(http.put(&link.upload_url).body(atom(1.0)).send().await.unwrap().status(), 200);
    let register =
        molbox.file_register().body_map(|f| f.file_id(link.file_id.as_str()).name("one"));
    let file = register.send().await.unwrap().into_inner();
    assert_eq!(late.finish(&unchecked[300_000..]).await, 403, "the file has been registered");
    assert_eq!(content_of(&molbox, &file).await, atom(1.0));
    assert_eq!(file.sha256.as_deref(), Some(digest(&atom(1.0)).as_str()));
    assert_eq!(contents(&service).len(), 1, "what was refused is not kept");
    assert_eq!(fs::read_dir(service.data.join("partial")).unwrap().count(), 0);
}

fn digest(content: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_to_a_file_that_is_deleted_meanwhile_leaves_nothing() {
    let service = Service::start();
    let molbox = service.client("ada");
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let content = atom(1.0);
    let late = SlowUpload::begin(&service, &link.upload_url, &content[..300_000]);
    let early = molbox
        .file_register()
        .body_map(|f| f.file_id(link.file_id.as_str()))
        .send()
        .await
        .unwrap_err();
    assert_eq!(status(&early), 409, "no content has arrived yet: {early}");
    molbox.file_delete().file_id(&link.file_id).send().await.unwrap();
    assert_eq!(late.finish(&content[300_000..]).await, 403);
    assert!(contents(&service).is_empty());
    assert_eq!(service.sql("select count(*) from garbage"), "0");
}

#[tokio::test]
async fn what_has_arrived_whole_is_taken_though_its_sender_has_left() {
    let service = Service::start();
    let molbox = service.client("ada");
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let url = reqwest::Url::parse(&link.upload_url).unwrap();
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let content = atom(1.0);
    let head = format!(
        "PUT {}?{} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n",
        url.path(),
        url.query().unwrap(),
        content.len()
    );
    let mut sender = TcpStream::connect(&host).unwrap();
    sender.write_all(head.as_bytes()).unwrap();
    sender.write_all(&content).unwrap();
    drop(sender);
    let taken = || service.sql("select coalesce(max(bytes), 0) from file");
    let size = content.len().to_string();
    wait_for("it is taken", || (taken() == size).then_some(()));
    let register = molbox.file_register().body_map(|f| f.file_id(link.file_id.as_str()));
    assert_eq!(register.send().await.unwrap().size_bytes, Some(content.len() as u64));
    assert_eq!(service.sql("select count(*) from garbage"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_a_kill_cuts_off_leaves_nothing() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
    let late = SlowUpload::begin(&service, &link.upload_url, &atom(1.0)[..300_000]);
    service.kill_and_restart();
    late.answer.await.unwrap().unwrap_err();
    assert_eq!(fs::read_dir(service.data.join("partial")).unwrap().count(), 0);
    let count = || service.sql("select count(*) from garbage");
    wait_for("what was announced is forgotten", || (count() == "0").then_some(()));
    assert!(contents(&service).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_that_of_the_content_whoever_was_first() {
    let service = Service::start();
    let molbox = service.client("ada");
    let http = reqwest::Client::new();
    let mut ready = 0;
    for round in 0..12 {
        let link = molbox.upload_url_create().filetype("pdb").send().await.unwrap();
        let put = |x: f64| http.put(&link.upload_url).body(atom(x)).send();
        assert_eq!(put(1.0).await.unwrap().status(), 200);
        let register = |name: &str| {
            let (id, name) = (link.file_id.as_str().to_owned(), format!("{name} {round}"));
            molbox.file_register().body_map(|f| f.file_id(id).name(name)).send()
        };
        let (second, third, a, b) = tokio::join!(put(2.0), put(3.0), register("a"), register("b"));
        let statuses = [second.unwrap().status().as_u16(), third.unwrap().status().as_u16()];
        assert!(statuses.iter().all(|status| [200, 403].contains(status)), "{statuses:?}");
        let mut made: Vec<FileRecord> = Vec::new();
        for registered in [a, b] {
            match registered {
                Ok(file) => made.push(file.into_inner()),
                Err(error) => assert_eq!(status(&error), 409, "{error}"),
            }
        }
        assert!(made.len() < 2, "one file has been registered twice");
        if made.is_empty() {
            // Each was overtaken by other content, which none follows.
            made.push(register("c").await.unwrap().into_inner());
        }
        for file in made {
            let content = content_of(&molbox, &file).await;
            assert_eq!(file.sha256.as_deref(), Some(digest(&content).as_str()));
            assert!([1.0, 2.0, 3.0].iter().any(|x| atom(*x) == content));
            ready += 1;
        }
    }
    assert_eq!(ready, 12);
    let wanted = service.sql("select count(*) from file where object is not null");
    assert_eq!(contents(&service).len().to_string(), wanted, "each object belongs to a file");
}

#[tokio::test]
async fn an_installation_of_the_first_version_keeps_its_files() {
    let mut service = Service::start();
    let key = service.key("ada");
    let molbox = service.client_with(&key);
    let ready = molbox.upload(example("1vii.pdb")).name("villin").await.unwrap();
    let [sent, empty] =
        [molbox.upload_url_create().filetype("pdb"), molbox.upload_url_create().filetype("pdb")]
            .map(|link| link.send());
    let (sent, empty) = (sent.await.unwrap().into_inner(), empty.await.unwrap().into_inner());
    reqwest::Client::new().put(&sent.upload_url).body(atom(1.0)).send().await.unwrap();
    service.stop();

    // As the first version had it: the content of a file lies under the file's own identifier.
    let database = database(&service);
    let objects = service.objects();
    let mut query =
        database.prepare("select id, object from file where object is not null").unwrap();
    let rows = query
        .query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .unwrap();
    for row in rows {
        let (id, object) = row.unwrap();
        fs::rename(objects.join(object), objects.join("files").join(id)).unwrap();
    }
    drop(query);
    database
        .execute_batch(
            "alter table task drop column queued_at;
             drop index task_next; alter table task drop column priority;
             drop table slot_time; alter table account drop column most_hours;
             drop index task_kept; drop index task_expires; drop index task_announced;
             alter table task drop column expires_at; alter table task drop column announced_at;
             drop table delivery; drop table webhook; alter table account drop column weight;
             drop trigger turn_began; drop trigger turn_changed; drop trigger turn_left;
             drop trigger turn_served_first; drop trigger turn_served; drop table turn;
             drop table runner; drop table server; drop table progress;
             alter table task drop column runner; alter table task drop column has_begun;
             alter table garbage drop column due_at;
             drop index task_cancelled; drop index task_ended; drop table identity; drop table served; alter table task drop column attempt_at;
             drop table speed;
             alter table account drop column most_open_tasks; alter table account drop column most_bytes;
             drop table session; alter table account drop column role;
             alter table account drop column password; alter table account drop column invitation;
             alter table account drop column invitation_expires_at;
             alter table task add column bundle text; drop table bundle;
             drop table task_reference; drop table audit; drop trigger task_counted; drop trigger task_counted_again; drop trigger task_discounted;
             drop table task_count;
             drop trigger file_made; drop trigger file_changed; drop trigger file_deleted; drop trigger task_made;
             drop trigger task_changed; drop trigger task_deleted; drop index task_unmeasured; drop index file_pending;
             alter table account drop column bytes; alter table file drop column bytes;
             alter table task drop column bytes;
             alter table file drop column object; alter table file drop column warnings;
             alter table task drop column warnings; alter table task drop column fruitless;
             alter table idempotency drop column headers;
             pragma user_version = 1",
        )
        .unwrap();
    drop(database);

    service.restart();
    let molbox = service.client_with(&key);
    let viewed = molbox.file_view().file_id(&ready.file_id).send().await.unwrap().into_inner();
    assert_eq!(viewed, ready);
    assert_eq!(content_of(&molbox, &ready).await, fs::read(example("1vii.pdb")).unwrap());
    let late = molbox
        .file_register()
        .body_map(|f| f.file_id(sent.file_id.as_str()).name("late"))
        .send()
        .await
        .unwrap();
    assert_eq!(content_of(&molbox, &late).await, atom(1.0));
    let none = molbox
        .file_register()
        .body_map(|f| f.file_id(empty.file_id.as_str()))
        .send()
        .await
        .unwrap_err();
    assert_eq!(status(&none), 409);
    for file in [&ready.file_id, &late.file_id] {
        molbox.file_delete().file_id(file).send().await.unwrap();
    }
    assert!(contents(&service).is_empty());
}
