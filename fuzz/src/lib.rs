//! What several targets do alike.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use molbox_analysis::{AtomSet, Error, Frame, Structure, Topology, Trajectory};
use molbox_margin::{DataFormat, File, Request, Run, Store};
use serde_json::json;

/// Holds a structure that was read against itself.
pub fn structure(structure: &Structure) {
    assert_eq!(structure.topology.n_atoms(), structure.positions.len());
    assert!(structure.positions.iter().flatten().all(|x| x.is_finite()));
}

/// Holds a topology that was read against itself.
pub fn topology(topology: &Topology) {
    let again = Topology::new(
        topology.atoms(),
        topology.residues(),
        topology.chains(),
        topology.bonds().to_vec(),
    );
    assert_eq!(again.map(|again| again.n_molecules()), Ok(topology.n_molecules()));
    assert!((0..topology.n_atoms()).all(|atom| topology.charge_e(atom).is_some_and(f64::is_finite)));
}

/// Reads a trajectory to its last frame.
pub fn trajectory<T>(bytes: &[u8], open: fn(&Path) -> Result<T, Error>, of: fn(T) -> Trajectory) {
    static PATH: LazyLock<PathBuf> =
        LazyLock::new(|| std::env::temp_dir().join(format!("molbox-fuzz-{}", std::process::id())));
    fs::write(&*PATH, bytes).expect("a file of some bytes");
    let Ok(trajectory) = open(&PATH).map(of) else { return };
    // A header alone may name any number of atoms.
    if trajectory.n_frames() == 0 {
        return;
    }
    // Memory is bounded by what a file of this size can hold.
    assert!(trajectory.n_atoms() <= 8 * bytes.len() && trajectory.n_frames() <= bytes.len());
    let plan = trajectory.read_plan(&AtomSet::all(trajectory.n_atoms()));
    let mut frame = Frame::new();
    for index in 0..trajectory.n_frames() {
        if trajectory.read(index, &plan, &mut frame).is_ok() {
            assert_eq!(frame.x().len(), plan.n_slots());
        }
    }
}

/// Lets panics of a dependency that are caught pass, which the fuzzer's hook makes crashes. Those
/// that nobody catches are crashes all the same.
pub fn allow_caught_panics(dependency: &'static str) {
    panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|at| at.file().contains(dependency)) {
            eprintln!("{panic}");
        }
    }));
}

static STORE: LazyLock<Arc<Store>> = LazyLock::new(|| {
    let contracts = "ticker,name,exchange,currency,multiplier,tickSize,returnType,riskFactor,lastTradeDate\n\
                     A,A,X,USD,10,1,absolute,,\nB,B,X,USD,5,1,log,,\n";
    let mut prices = String::from("date,ticker,settle\n");
    for day in 1..29 {
        prices += &format!("2024-02-{day:02},A,{}\n2024-02-{day:02},B,{}\n", 100 + day % 3, 50 + day % 5);
    }
    let contracts = File { name: "contracts.csv", bytes: contracts.as_bytes() };
    let prices = File { name: "prices.csv", bytes: prices.as_bytes() };
    Arc::new(Store::parse(contracts, &[prices], None, "USD").expect("good data"))
});

/// Reads a portfolio in each way in which one can come. What is accepted can be calculated, or is
/// refused by the prices: whether a day can be added is known from its return.
pub fn portfolio(document: &[u8], format: DataFormat) {
    let job = json!({ "numScenarios": 10 });
    let text = String::from_utf8_lossy(document);
    let within = json!({ "numScenarios": 10, "portfolio": { "data": text } }).to_string();
    let requests = [
        Request::from_parts(&job, document, format, &STORE),
        Request::from_document(document, format, [("numScenarios", "10")], &STORE),
        Request::from_json(within.as_bytes(), format, &STORE),
        Request::from_json(document, format, &STORE),
    ];
    // How large a calculation may be is bounded elsewhere.
    let is_small = document.len() < 2000 && !document.windows(5).any(|word| word.iter().all(u8::is_ascii_digit));
    for request in requests.into_iter().flatten().filter(|_| is_small) {
        match request.calculate(Run::default()) {
            Ok(report) => assert!(report.summary.initial_margin >= 0.0),
            Err(molbox_margin::Error::Refused(violations)) => assert!(!violations.is_empty()),
            Err(error) => panic!("what was accepted can be calculated: {error:?}"),
        }
    }
}
