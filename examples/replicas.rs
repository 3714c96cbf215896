//! Three simulations of a structure, from the file to the bundles, resumed if it was
//! interrupted:
//!
//! ```text
//! MOLBOX_BASE_URL=… MOLBOX_API_KEY=… cargo run --example replicas -- examples/1vii.pdb out
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use molbox::run::{Event, Plan, Run, STATE_FILE};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(structure), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: replicas STRUCTURE OUT".into());
    };
    let mut run = if std::path::Path::new(&out).join(STATE_FILE).exists() {
        Run::open(out)?
    } else {
        Run::begin(Plan { replicas: 3, ..Plan::of(structure) }, out)?
    };
    let molbox = molbox::Client::from_env()?;
    molbox::Blocking::new()?.run(run.finish(&molbox, |event| {
        if let Event::Downloaded { path } = event {
            println!("{}", path.display());
        }
    }))?;
    Ok(())
}
