//! Time and memory of one margin: 1,000 positions x 10,000 scenarios x 10 days over 2,500 dates.
//!
//! `cargo bench -p molbox-margin` measures this crate; with `-- --python python3` (one that has
//! numpy) also `numpy_margin.py`, the same calculation on the same prices. Linux.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use molbox_margin::{DataFormat, File, Request, Run, Store};
use serde_json::{Value, json};

const N_TICKERS: usize = 1000;
const N_DATES: usize = 2521; // 20 returns of burn-in leave 2,500 dates.
const N_RUNS: usize = 30;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let prices = prices();
    let start = Instant::now();
    let store = store(&prices);
    println!(
        "store   {:.3} s wall to read {} settlements",
        start.elapsed().as_secs_f64(),
        prices.len()
    );
    let job = job().to_string();

    fs::write("/proc/self/clear_refs", "5").expect("Linux lets a process reset its own peak");
    let before_kib = status_kib("VmRSS:");
    let (start, start_cpu_s) = (Instant::now(), thread_cpu_s());
    let mut margin = 0.0;
    for _ in 0..N_RUNS {
        let request = Request::from_json(job.as_bytes(), DataFormat::Json, &store)
            .expect("the job is in order");
        let report = request.calculate(Run::default()).expect("the store has all that it needs");
        black_box(report.csv());
        margin = report.summary.initial_margin;
    }
    let (cpu_s, wall_s) = (
        (thread_cpu_s() - start_cpu_s) / N_RUNS as f64,
        start.elapsed().as_secs_f64() / N_RUNS as f64,
    );
    let beyond_mib = (status_kib("VmHWM:") - before_kib) as f64 / 1024.0;
    println!(
        "molbox  {cpu_s:.4} s CPU, {wall_s:.4} s wall, mean of {N_RUNS}; {beyond_mib:.1} MiB \
         beyond the store; margin {margin}"
    );

    if let Some(n) = arguments.iter().position(|argument| argument == "--python") {
        let file =
            std::env::temp_dir().join(format!("molbox-margin-bench-{}.f64", std::process::id()));
        let bytes: Vec<u8> = prices.iter().flat_map(|price| price.to_le_bytes()).collect();
        fs::write(&file, bytes).expect("the folder for temporary files has room");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/numpy_margin.py");
        let ended =
            Command::new(&arguments[n + 1]).args([script.as_ref(), file.as_os_str()]).status();
        fs::remove_file(&file).expect("nobody else removes it");
        assert!(ended.expect("the interpreter starts").success());
    }
}

/// Settlements, all dates of one ticker after another: random walks of 0.3 to 3 % per day.
fn prices() -> Vec<f64> {
    let mut state = 1_u64;
    let mut uniform = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / 2_f64.powi(53)
    };
    let mut prices = Vec::with_capacity(N_TICKERS * N_DATES);
    for ticker in 0..N_TICKERS {
        let volatility = 0.003 + 0.027 * ticker as f64 / N_TICKERS as f64;
        let mut price = 100.0;
        for _ in 0..N_DATES {
            prices.push((price * 1e6_f64).round() / 1e6);
            let shock = (0..6).map(|_| uniform()).sum::<f64>() - 3.0;
            price *= 1.0 + volatility * shock / 0.5_f64.sqrt();
        }
    }
    prices
}

fn store(prices: &[f64]) -> Arc<Store> {
    let days: Vec<String> = (0..N_DATES)
        .map(|n| format!("{:04}-{:02}-{:02}", 2010 + n / 336, n / 28 % 12 + 1, n % 28 + 1))
        .collect();
    let mut contracts =
        String::from("ticker,currency,multiplier,returnType,riskFactor,lastTradeDate\n");
    let mut rows = String::from("date,ticker,settle\n");
    for (ticker, prices) in prices.chunks(N_DATES).enumerate() {
        writeln!(contracts, "T{ticker},USD,10,log,,").expect("a String takes everything");
        for (day, price) in days.iter().zip(prices) {
            writeln!(rows, "{day},T{ticker},{price}").expect("a String takes everything");
        }
    }
    let contracts = File { name: "contracts.csv", bytes: contracts.as_bytes() };
    let prices = File { name: "prices.csv", bytes: rows.as_bytes() };
    Arc::new(Store::parse(contracts, &[prices], None, "USD").expect("the files are in order"))
}

fn job() -> Value {
    let futures: Vec<Value> = (0..N_TICKERS)
        .map(|n| json!({ "ticker": format!("T{n}"), "type": if n % 3 == 0 { "short" } else { "long" }, "quantity": 1 + n % 7 }))
        .collect();
    json!({ "numScenarios": 10_000, "timeHorizonDays": 10, "portfolio": { "futures": futures } })
}

fn thread_cpu_s() -> f64 {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    schedstat
        .split(' ')
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .expect("nanoseconds on the CPU come first")
        * 1e-9
}

fn status_kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a known name");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of kB")
}
