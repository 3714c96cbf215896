//! The main job on a real protein: a service on free ports, the client's example, a picture.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::service::Service;
use crate::shell::{example, root, run, target};
use crate::{portal, python};

pub fn demo() -> Result<()> {
    let python = python::environment()?;
    let has_portal = portal::portal_where_possible()?.is_some();
    eprintln!("building");
    let demo = example("demo")?;
    let out = target().join("demo");
    let service = Service::start(&out, &python, &[])?;
    let start = Instant::now();
    let key = service.key("demo")?;
    let mut command = Command::new(demo);
    command
        .arg(root().join("examples/1vii.pdb"))
        .arg(&out)
        .env("MOLBOX_BASE_URL", &service.base_url)
        .env("MOLBOX_MARGIN_URL", &service.margin_url)
        .env("MOLBOX_API_KEY", key);
    run(&mut command)
        .with_context(|| format!("the service's log is {}", out.join("molboxd.log").display()))?;
    service.stop()?;
    if has_portal {
        let molboxd = format!(
            "{} --data {}",
            target().join("debug/molboxd").display(),
            out.join("data").display()
        );
        println!("to look at it in a browser: {molboxd} serve");
        println!("and open what this prints:  {molboxd} account invite demo");
    }
    println!("done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
