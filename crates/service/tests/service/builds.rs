//! Builds of structures from strangers: what they are is built, or refused with a reason.

use std::fs;
use std::path::Path;

use crate::common::{Service, example};
use molbox::workflow::types::SystemRecord;
use molbox::{Client, Error};
use serde_json::{Value, json};

/// Heavy atoms of some residues of villin, some under other names.
fn part(first: u32, last: u32, names: &[(u32, &str)]) -> String {
    let villin = fs::read_to_string(example("1vii.pdb")).unwrap();
    let lines =
        villin.lines().filter(|line| line.starts_with("ATOM") && line[76..78].trim() != "H");
    lines
        .filter_map(|line| {
            let number: u32 = line[22..26].trim().parse().unwrap();
            let name = names
                .iter()
                .find(|(other, _)| *other == number)
                .map_or(&line[17..20], |(_, name)| name);
            (first..=last)
                .contains(&number)
                .then(|| format!("{}{name:>3}{}\n", &line[..17], &line[20..]))
        })
        .collect()
}

fn water(number: u32, [x, y, z]: [f64; 3]) -> String {
    format!(
        "HETATM{number:5}  O   HOH A{number:4}    {x:8.3}{y:8.3}{z:8.3}  1.00  0.00           O\n"
    )
}

/// The place of an atom, in Å.
fn place(text: &str, name: &str) -> [f64; 3] {
    let line = text.lines().find(|line| line[12..16].trim() == name).unwrap();
    [30, 38, 46].map(|column| line[column..column + 8].trim().parse().unwrap())
}

/// Registers a structure and submits the build of a small box with it; returns the system's id.
async fn submit(
    molbox: &Client,
    folder: &Path,
    name: &str,
    text: &str,
    force_field: &str,
) -> String {
    let path = folder.join(format!("{name}.pdb"));
    fs::write(&path, text).unwrap();
    molbox.upload(path).name(name).await.unwrap();
    let system = molbox.system_submit().body_map(|s| {
        s.protein(name)
            .force_field(force_field)
            .box_shape("octahedron")
            .minimum_padding(0.5)
            .seed(7)
    });
    system.send().await.unwrap().system_id.to_string()
}

async fn ended(molbox: &Client, id: &str) -> SystemRecord {
    match molbox.wait_system(id).await {
        Ok(_) | Err(Error::TaskFailed(_)) => {}
        Err(error) => panic!("{error}"),
    }
    molbox.system_view().system_id(id).send().await.unwrap().into_inner()
}

#[tokio::test]
async fn what_cannot_be_built_as_what_it_is_fails_by_name() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worker/tests/data");
    let lactam = fs::read_to_string(data.join("2n0n_lactam.pdb")).unwrap();
    let villin = part(44, 54, &[]);
    let zinc_in_ring = {
        let [[a, b, c], [d, e, f]] = ["CE1", "CD2"].map(|name| place(&part(47, 47, &[]), name));
        let [x, y, z] = [(a + d) / 2.0, (b + e) / 2.0, (c + f) / 2.0];
        format!(
            "{villin}HETATM  901 ZN    ZN A 901    {x:8.3}{y:8.3}{z:8.3}  1.00  0.00          ZN\n"
        )
    };
    let cases = [
        (
            "methylated",
            part(44, 54, &[(48, "MLY")]),
            "amber14",
            "no_template",
            "MLY 48 of chain A is part of a chain",
        ),
        (
            "unknown",
            part(44, 54, &[(49, "UNK")]),
            "amber14",
            "no_template",
            "UNK 49 of chain A is part of a chain",
        ),
        (
            "mirrored",
            part(44, 54, &[(49, "DAL")]),
            "amber19",
            "no_template",
            "DAL 49 of chain A is a D-amino acid",
        ),
        ("lactam", lactam, "amber14", "covalent_link", "NZ of LYS 5"),
        ("overlapping", zinc_in_ring, "amber14", "atoms_overlap", "ZN of ZN 901"),
    ];
    let mut ids = Vec::new();
    for (name, text, force_field, ..) in &cases {
        ids.push(submit(&molbox, folder.path(), name, text, force_field).await);
    }
    for (id, (name, _, _, code, words)) in ids.iter().zip(&cases) {
        let system = ended(&molbox, id).await;
        let error = system.error.unwrap_or_else(|| panic!("{name}: {}", system.status));
        assert_eq!(error.code, *code, "{name}: {}", error.message);
        assert!(error.message.contains(words), "{name}: {}", error.message);
        assert_eq!(serde_json::to_value(&error.loc).unwrap(), json!(["body", "protein"]), "{name}");
        assert!(error.remedy.is_some_and(|remedy| !remedy.is_empty()), "{name}");
    }
}

#[tokio::test]
async fn what_was_built_comes_with_the_figures_of_its_check() {
    let service = Service::start();
    let molbox = service.client("ada");
    let folder = tempfile::tempdir().unwrap();
    let text = part(44, 54, &[(48, "LYN")]);
    let on_a_ring = place(&part(47, 47, &[]), "CZ").map(|x| x + 0.5);
    let text = text + &water(901, on_a_ring);
    let id = submit(&molbox, folder.path(), "neutral", &text, "amber14").await;
    let default =
        molbox.system_submit().body_map(|s| s.seed(7)).send().await.unwrap().system_id.to_string();

    let system = ended(&molbox, &id).await;
    assert_eq!(system.status, "succeeded", "{:?}", system.error);
    let warned: Vec<&str> = system.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(warned, ["water_removed"]);
    let summary = serde_json::to_value(system.summary.unwrap()).unwrap();
    assert_eq!(summary["variants"], json!({"LYN": 1}));
    let check = &summary["check"];
    assert_eq!(check["residues"], json!({"kept": 11, "replaced": 0, "removed": 1, "built": 0}));
    let number = |at: &str| {
        check.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at} in {check}"))
    };
    assert!((1.0..1.2).contains(&number("/longest_bond/ratio")), "{check}");
    assert!((0.6..1.0).contains(&number("/closest_contact/ratio")), "{check}");
    assert!((0.0..1e6).contains(&number("/largest_force/force")), "{check}");

    // A request without a field is one for salt water.
    let system = ended(&molbox, &default).await;
    assert_eq!(system.status, "succeeded", "{:?}", system.error);
    let summary = system.summary.unwrap();
    assert!(summary.box_vectors[0][0].get() >= 2.2, "{:?}", summary.box_vectors);
    assert!(summary.molecules["water"] > 200, "{:?}", summary.molecules);
}
