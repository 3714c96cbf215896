//! The mask language against cpptraj's selections.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use common::{Random, data};
use molbox_analysis::{
    Atom, AtomSet, Element, Mask, MaskWarning, Residue, SelectError, Structure as File, Topology,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    structure: String,
    mask: String,
    expected: Option<String>,
    recommended: String,
}

#[derive(Deserialize)]
struct Structure {
    names: String,
    elements: String,
    types: String,
    molecules: String,
    residues: String,
}

fn text(name: &str) -> String {
    fs::read_to_string(data(name)).unwrap()
}

fn topology(structure: &Structure) -> Topology {
    let rows: Vec<Vec<&str>> =
        structure.residues.split(' ').map(|row| row.split('|').collect()).collect();
    let (mut chains, mut residues, mut residue_of) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        if chains.last() != Some(&row[3]) {
            chains.push(row[3]);
        }
        residue_of.extend(vec![residues.len(); row[4].parse().unwrap()]);
        residues.push(Residue {
            name: row[0],
            number: row[1].parse().unwrap(),
            insertion_code: row[2].chars().next(),
            chain: chains.len() - 1,
        });
    }
    let mut types = structure.types.split_whitespace();
    let atoms = structure.names.split(' ').zip(structure.elements.split(' ')).zip(&residue_of);
    let atoms = atoms.map(|((name, element), residue)| Atom {
        name,
        element: Element::from_symbol(element),
        atom_type: types.next(),
        mass_da: Element::from_symbol(element).unwrap().mass_da(),
        residue: *residue,
    });
    Topology::new(atoms, residues, chains, bonds(&structure.molecules)).unwrap()
}

/// Bonds that make molecules of these atoms: `1x3 2x1` are three atoms and one.
fn bonds(molecules: &str) -> Vec<[u32; 2]> {
    let (mut bonds, mut last, mut atom) = (Vec::new(), HashMap::new(), 0);
    for (molecule, n_atoms) in molecules.split(' ').map(|run| run.split_once('x').unwrap()) {
        for _ in 0..n_atoms.parse().unwrap() {
            bonds.extend(last.insert(molecule, atom).map(|before| [before, atom]));
            atom += 1;
        }
    }
    bonds
}

fn ranges(text: &str) -> Vec<RangeInclusive<usize>> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap()..=last.parse().unwrap()
    };
    text.split(',').filter(|text| !text.is_empty()).map(range).collect()
}

struct System {
    topology: Topology,
    positions: Option<Vec<[f64; 3]>>,
}

struct Systems(HashMap<String, System>);

impl Systems {
    fn read() -> Self {
        let structures: HashMap<String, Structure> =
            serde_json::from_str(&text("mask_structures.json")).unwrap();
        let system = |(name, structure): (String, Structure)| {
            let positions =
                File::open(&data(&format!("{name}.pdb"))).ok().map(|file| file.positions);
            (name, System { topology: topology(&structure), positions })
        };
        Self(structures.into_iter().map(system).collect())
    }

    fn select(
        &self,
        structure: &str,
        mask: &Mask,
    ) -> Result<(AtomSet, Vec<MaskWarning>), SelectError> {
        let System { topology, positions } = &self.0[structure];
        mask.select(topology, positions.as_deref())
            .map(|selection| (selection.atoms, selection.warnings))
    }
}

#[test]
fn all_cases_agree_with_cpptraj() {
    let systems = Systems::read();
    let cases: Vec<Case> = serde_json::from_str(&text("masks.json")).unwrap();
    let (mut n_compared, mut without_positions) = (0, 0);
    for Case { structure, mask: text, expected, recommended } in &cases {
        let mask = Mask::parse(text);
        match (recommended.as_str(), expected) {
            ("error" | "error_or_match", _) => {
                assert!(mask.is_err(), "{text} is to be refused");
                continue;
            }
            ("extend" | "extend_or_error", _) => {
                let (atoms, _) = systems.select(structure, &mask.unwrap()).unwrap();
                assert!(!atoms.is_empty(), "{text} selects something here");
                continue;
            }
            ("match" | "match+warn" | "match_none_or_one", Some(_)) => {}
            other => panic!("{text}: {other:?}"),
        }
        let mask = mask.unwrap_or_else(|error| panic!("{text}: {error}"));
        if mask.needs_positions() && systems.0[structure].positions.is_none() {
            without_positions += 1;
            continue;
        }
        let (atoms, warnings) =
            systems.select(structure, &mask).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut wanted = AtomSet::none(atoms.n_atoms());
        ranges(expected.as_deref().unwrap()).into_iter().for_each(|range| {
            wanted.insert_range(*range.start()..*range.end() + 1);
        });
        assert_eq!(atoms, wanted, "{structure} {text}");
        assert!(recommended != "match+warn" || !warnings.is_empty(), "{text} warns");
        n_compared += 1;
    }
    // The coordinates of `tz2` are not among the data.
    assert_eq!((n_compared, without_positions), (169, 3));
}

#[test]
fn topologies_from_files_select_the_same() {
    let systems = Systems::read();
    let cases: Vec<Case> = serde_json::from_str(&text("masks.json")).unwrap();
    for structure in ["mini", "xtal", "quirks"] {
        let file = File::open(&data(&format!("{structure}.pdb"))).unwrap();
        for case in cases.iter().filter(|case| case.structure == structure) {
            let Ok(mask) = Mask::parse(&case.mask) else { continue };
            // cpptraj finds bonds by distance alone, and other ones in ligands.
            if structure == "mini" || !case.mask.contains('^') {
                let selection = mask.select(&file.topology, Some(&file.positions)).unwrap();
                assert_eq!(
                    selection.atoms,
                    systems.select(structure, &mask).unwrap().0,
                    "{structure} {mask}"
                );
            }
        }
    }
}

/// cpptraj 7 reads a selector that does not narrow the one before it as if there were a `|` between
/// them, which binds less than everything else. On the right the same with every binding in
/// parentheses.
#[test]
fn selectors_side_by_side_bind_as_in_cpptraj() {
    let systems = Systems::read();
    let selected = |mask: &str| systems.select("quirks", &Mask::parse(mask).unwrap()).unwrap().0;
    for (mask, bound) in [
        (":2&:1<:5.0:5", "(:2&(:1<:5.0))|:5"),
        (":1<:5.0:5&@CA", "(:1<:5.0)|(:5&@CA)"),
        (":2&:1:5", "(:2&:1)|:5"),
        ("!:1:2", "(!:1)|:2"),
        (":1:3<@4.0", ":1|(:3<@4.0)"),
        (":1@CA:3@C<@2.0", "(:1&@CA)|((:3&@C)<@2.0)"),
        ("!^1:2@CA^2", "(!(^1&:2&@CA))|^2"),
        ("(:1<@3.0^2)&@CA", "((:1<@3.0)|^2)&@CA"),
        ("@CA@C&:3", "@CA|(@C&:3)"),
    ] {
        assert_eq!(selected(mask), selected(bound), "{mask}");
        assert_ne!(selected(bound).len(), 0, "{bound} tells nothing");
    }
    assert_eq!(selected(":2&:1<:5.0:5").iter().collect::<Vec<_>>(), [5, 6, 7, 8, 21, 22, 23, 24]);
}

#[test]
fn extensions_select_what_they_say() {
    let systems = Systems::read();
    let selected = |structure, mask: &str| {
        systems.select(structure, &Mask::parse(mask).unwrap()).unwrap().0.iter().collect::<Vec<_>>()
    };
    assert_eq!(selected("mini", "@/Na"), selected("mini", "@/NA"));
    assert_eq!(selected("quirks", "@/Mg,Zn"), [57, 59]);
    assert_eq!(selected("quirks", ":;10A"), [21, 22, 23, 24]);
    assert_eq!(selected("quirks", ":;10A,11"), [21, 22, 23, 24, 29, 30, 31, 32]);
    assert_eq!(selected("quirks", "@C_2"), [70]);
    assert_eq!(selected("mini", ":1 - 4 @CA"), selected("mini", ":1-4@CA"));
}

#[test]
fn selections_of_other_programs_are_given_as_masks() {
    let meant = |text: &str| Mask::parse(text).unwrap_err().meant;
    for (text, mask) in [
        ("name CA", "@CA"),
        ("name CA CB", "@CA,CB"),
        ("name CA+CB", "@CA,CB"),
        ("backbone", "@N,CA,C,O"),
        ("chain A and resi 5-10", "::A&:;5-10"),
        ("resid 5 to 10 12 and not name CA", ":;5-10,12&!@CA"),
        ("(resname ALA or resid 3:5) and noh", "(:ALA|:;3-5)&!@/H"),
        ("not (chain A and water)", "!(::A&:HOH)"),
        ("resname SOL or element Na", ":SOL|@/Na"),
    ] {
        assert_eq!(meant(text).as_deref(), Some(mask), "{text}");
    }
    // No mask says the same, or nobody knows what is meant.
    for text in ["protein", "name", "name CA and", "resid A", "index 5", "(name CA", "x)", ""] {
        assert_eq!(meant(text), None, "{text}");
    }
    assert_eq!(meant(&"(".repeat(900)), None);
    assert_eq!(
        Mask::parse_list("resid 3 and name CA").unwrap_err().meant.as_deref(),
        Some(":;3&@CA")
    );
}

#[test]
fn errors_say_where_and_what() {
    let cases = [
        (
            "",
            "column 1: expected a selector (`:`, `::`, `:;`, `@`, `@%`, `@/`, `^` or `*`), `!` or \
             `(`, found the end of the mask",
        ),
        (
            "CA",
            "column 1: expected a selector (`:`, `::`, `:;`, `@`, `@%`, `@/`, `^` or `*`), `!` or \
             `(`, found `C`; masks are written as Amber's: `@CA` for atoms of that name, `:ALA` for \
             residues, `:;41` for the number of one, `::A` for a chain",
        ),
        (
            "resid 5 and name CA",
            "column 1: expected a selector (`:`, `::`, `:;`, `@`, `@%`, `@/`, `^` or `*`), `!` or \
             `(`, found `r`; masks are written as Amber's, and this one is `:;5&@CA`",
        ),
        (":1@", "column 4: expected a name, a number or `*`, found the end of the mask"),
        (":1-3,0", "column 6: expected a number from 1, or a range such as 3-10, found `0`"),
        (":1,5-2@CA", "column 4: expected a range that does not run backwards, found `5`"),
        (
            "@CA and :1",
            "column 5: expected an operator or `,`, for a name holds no blank, found `a`",
        ),
        ("(:1|:2", "column 7: expected `)`, found the end of the mask"),
        (":1)", "column 3: expected `&`, `|`, `<`, `>` or the end of the mask, found `)`"),
        (":1<:4.0@CA", "column 8: expected `&`, `|`, `<`, `>` or the end of the mask, found `@`"),
        (
            ":1<4.0",
            "column 4: expected what the distance takes: `@` atoms, `:` residues, `;` residues by \
             centre or `^` molecules, found `4`",
        ),
        (":1<:-1", "column 5: expected a distance in Å, such as 4.0, found `-`"),
        (":1<:1.2.3", "column 5: expected a distance in Å, such as 4.0, found `1`"),
        (
            "::A&:;x",
            "column 7: expected an author's residue number such as 10, -2 or 10A, or a range such \
             as -2-10, found `x`",
        ),
        ("@CA\\", "column 5: expected a character to take literally, found the end of the mask"),
        ("@Cα", "column 3: expected `&`, `|`, `<`, `>` or the end of the mask, found `α`"),
    ];
    for (mask, expected) in cases {
        assert_eq!(Mask::parse(mask).unwrap_err().to_string(), expected, "{mask}");
    }
}

#[test]
fn hints_name_what_was_perhaps_meant() {
    let systems = Systems::read();
    let warned = |structure, mask: &str| {
        let (_, warnings) = systems.select(structure, &Mask::parse(mask).unwrap()).unwrap();
        warnings.iter().map(MaskWarning::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        warned("mini", ":WAT"),
        ["column 2: no residue is named WAT, but some are named HOH", "no atom is selected"]
    );
    let of_names = "column 5: no residue is named ala, but some are named ALA";
    assert!(warned("quirks", ":1|:ala").contains(&of_names.to_owned()));
    assert_eq!(
        warned("mini", ":1000@CA")[..1],
        ["column 2: starts after the last residue, number 969"]
    );
    assert_eq!(
        warned("mini", "@%CT")[..1],
        ["the topology does not have the atom type of its atoms"]
    );
    assert!(
        warned("mini", "::A:10")[0]
            .starts_with("column 4: this selector adds to the one before it")
    );
    assert!(warned("mini", ":1-10@CA").is_empty());
}

#[test]
fn a_number_of_the_file_that_is_none_by_count_is_hinted_at() {
    let pdb = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/1vii.pdb");
    let file = File::open(Path::new(pdb)).unwrap();
    let warned = |mask: &str| {
        let selection = Mask::parse(mask).unwrap().select(&file.topology, None).unwrap();
        selection.warnings.iter().map(MaskWarning::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        warned(":41@CA")[..2],
        [
            "column 2: starts after the last residue, number 36",
            "column 2: `:41` counts residues from the first; A:MET41, number 41 of the file, is \
             `:;41`"
        ]
    );
    assert_eq!(warned(":1-36@CA"), [""; 0], "no residue of the file has the number 1");
    let all: Vec<String> = (41..=76).map(|number| number.to_string()).collect();
    let found = warned(&format!(":{}", all.join(",")));
    let hints = found.iter().filter(|warning| warning.contains("counts residues"));
    assert_eq!(hints.count(), 20, "of a long list the first are told");
    assert_eq!(warned(":;41@CA"), [""; 0]);
}

#[test]
fn a_number_of_the_file_is_hinted_at_although_a_water_has_it_by_count() {
    let atom = |number: usize, name: &str, atom: &str, chain: &str| {
        format!(
            "ATOM  {number:5}  {atom:<3} {name:>3} {chain}{number:4}    {:8.3}{:8.3}{:8.3}  1.00  0.00\n",
            3.8 * number as f64,
            0.0,
            0.0
        )
    };
    let mut pdb: String = ["N", "CA", "C"].map(|name| atom(4, "GLY", name, "A")).concat();
    pdb += &atom(5, "NME", "N", "A");
    (3..=6).for_each(|number| pdb += &atom(number, "HOH", "O", "W"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("water_numbered_as_counted.pdb");
    fs::write(&path, pdb).unwrap();
    let topology = File::open(&path).unwrap().topology;
    let warned = |mask: &str| {
        let selection = Mask::parse(mask).unwrap().select(&topology, None).unwrap();
        selection.warnings.iter().map(MaskWarning::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        warned(":4"),
        [
            "column 2: `:4` counts residues from the first, to W:HOH4; A:GLY4, number 4 of the file, \
             is `::A&:;4`"
        ]
    );
    assert!(warned(":5")[0].ends_with("A:NME5, number 5 of the file, is `::A&:;5`"));
    assert_eq!(
        warned(":3"),
        [
            "column 2: `:3` counts residues from the first, to W:HOH3; the last before it that is no \
             water or ion is A:GLY4, `:1`"
        ],
        "no molecule has this number"
    );
    assert_eq!(
        warned(":4-6@CA"),
        [
            "column 2: `:4-6` counts residues from the first, to W:HOH4; A:GLY4, number 4 of the \
             file, is `::A&:;4-6`",
            "no atom is selected"
        ]
    );
    assert_eq!(warned("::B")[0], "column 3: there is no chain B; there are A and W");
    assert_eq!(warned(":1-2"), [""; 0]);
    assert_eq!(warned("::A&:;4"), [""; 0]);
}

#[test]
fn a_distance_needs_something_to_measure() {
    let systems = Systems::read();
    let topology = &systems.0["mini"].topology;
    let select =
        |mask: &str, positions| Mask::parse(mask).unwrap().select(topology, positions).unwrap_err();
    assert_eq!(select(":1|:2<:4.0", None), SelectError::NoPositions { column: 6 });
    let positions = vec![[0.0; 3]; topology.n_atoms()];
    assert_eq!(
        select(":WAT<:4.0", Some(&*positions)),
        SelectError::NothingToMeasureFrom { column: 5 }
    );
    assert!(matches!(select(":1", Some(&positions[1..])), SelectError::PositionCount { .. }));
}

#[test]
fn lists_are_split_where_a_mask_can_start() {
    let masks =
        |text| Mask::parse_list(text).unwrap().iter().map(Mask::to_string).collect::<Vec<_>>();
    assert_eq!(masks(":25@CA :124@CA"), [":25@CA", ":124@CA"]);
    assert_eq!(masks(" :1 & @CA  !:2 - 3 "), [" :1 & @CA", "!:2 - 3"]);
    assert_eq!(masks("(:1 :2) ::A"), ["(:1 :2)", "::A"]);
    assert_eq!(Mask::parse_list(":1 :2 :0").unwrap_err().column, 8);
}

/// Random text of what masks are made of, most of it malformed.
fn noise(random: &mut Random) -> String {
    const PARTS: [&str; 36] = [
        ":",
        "::",
        ":;",
        "@",
        "@%",
        "@/",
        "^",
        "*",
        "!",
        "&",
        "|",
        "(",
        ")",
        "<",
        ">",
        "<:",
        ">@",
        "<;",
        "<^",
        "1",
        "4.0",
        "-",
        "99999999999999999999",
        "CA",
        "HOH",
        "A",
        "?",
        "=",
        "\\",
        ",",
        " ",
        "\n",
        "é",
        "\u{0}",
        "10A",
        "'",
    ];
    (0..random.below(12)).map(|_| PARTS[random.below(PARTS.len())]).collect()
}

#[test]
fn no_text_panics() {
    let systems = Systems::read();
    let mut random = Random(1);
    let cases: Vec<Case> = serde_json::from_str(&text("masks.json")).unwrap();
    let mut n_parsed = 0;
    for round in 0..60_000 {
        let mut text = if round % 2 == 0 {
            String::new()
        } else {
            cases[random.below(cases.len())].mask.clone()
        };
        let at = random.below(text.chars().count() + 1);
        let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
        let end =
            text[at..].char_indices().nth(random.below(3)).map_or(text.len(), |(n, _)| at + n);
        text.replace_range(at..end, &noise(&mut random));
        match Mask::parse(&text) {
            Ok(mask) => {
                n_parsed += 1;
                let selected = systems.select("quirks", &mask);
                assert!(selected.is_ok() || mask.needs_positions(), "{text}");
                assert_eq!(Mask::parse(&mask.to_string()).as_ref(), Ok(&mask));
            }
            Err(error) => {
                assert!((1..=text.chars().count() + 1).contains(&error.column), "{text}: {error}");
                assert_eq!(text.chars().nth(error.column - 1), error.found, "{text}: {error}");
            }
        }
        Mask::parse_list(&text).ok();
    }
    assert!(n_parsed > 1000, "{n_parsed} masks are enough to select with");
}

#[test]
fn cost_is_bounded_whatever_the_text() {
    let systems = Systems::read();
    let long = [
        "(".repeat(100_000),
        "!(".repeat(30_000),
        ":1".repeat(30_000),
        ":1|".repeat(20_000) + ":1",
        format!("*{}", "<@1000".repeat(10_000)),
        "@".to_owned() + &"C*,".repeat(21_000),
        ":;".to_owned() + &"1-9,".repeat(16_000),
        format!("{}:1{}", "(".repeat(64), ")".repeat(64)),
        format!("*{}", "<@9".repeat(16)),
        vec![":1"; 1000].join("|"),
    ];
    let selected: Vec<_> = long
        .iter()
        .filter_map(|text| Mask::parse(text).ok())
        .map(|mask| systems.select("mini", &mask))
        .collect();
    assert_eq!(selected.len(), 5);
    assert!(selected.iter().all(Result::is_ok));
}

#[test]
fn de_morgan_holds() {
    let systems = Systems::read();
    let cases: Vec<Case> = serde_json::from_str(&text("masks.json")).unwrap();
    let masks: Vec<_> = cases
        .iter()
        .filter(|case| case.structure == "mini" && case.recommended == "match")
        .collect();
    let mut random = Random(2);
    let select = |mask: String| systems.select("mini", &Mask::parse(&mask).unwrap()).unwrap().0;
    for _ in 0..300 {
        let (a, b) =
            (&masks[random.below(masks.len())].mask, &masks[random.below(masks.len())].mask);
        assert_eq!(select(format!("!(({a})&({b}))")), select(format!("!({a})|!({b})")), "{a} {b}");
        assert_eq!(select(format!("!(({a})|({b}))")), select(format!("!({a})&!({b})")), "{a} {b}");
        assert_eq!(select(format!("({a})&!({a})")).len(), 0);
    }
}
