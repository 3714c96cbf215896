//! Public structure entries, fetched by this machine where the service has no mirror of them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use molbox::reqwest;

use crate::context::Context;
use crate::failure::{Code, Failure};

/// Where an entry is; `MOLBOX_PDB_URL` overrides it.
const URL: &str = "https://files.rcsb.org/download/{ID}.cif";
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes an entry into a folder, which is made; the path of its file.
pub(crate) async fn fetch(context: &Context, id: &str, folder: &Path) -> Result<String, Failure> {
    let id = id.to_uppercase();
    let pattern = std::env::var("MOLBOX_PDB_URL").ok().filter(|url| !url.is_empty());
    let url = pattern.as_deref().unwrap_or(URL).replace("{ID}", &id);
    context.output.note(&format!("the service has no mirror of public entries; fetching {url}"));
    let entry = get(&url).await.map_err(|why| {
        Failure::new(Code::Unreachable, format!("{url}: {why}")).remedy(format!(
            "download {id} with a browser, then `molbox run {id}.cif`; whoever runs the service \
             can set a mirror, `pdb.mirror`"
        ))
    })?;
    let path = folder.join(format!("{id}.cif"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, entry))
        .map_err(|e| Failure::file(&path, &e))?;
    Ok(path.display().to_string())
}

/// The content at an address, or why there is none.
async fn get(url: &str) -> Result<Vec<u8>, String> {
    let asked = async {
        let http = reqwest::Client::builder().timeout(PATIENCE).build()?;
        http.get(url).send().await
    };
    let answer = asked.await.map_err(|error| innermost(&error))?;
    if answer.status() == reqwest::StatusCode::NOT_FOUND {
        return Err("there is no such entry".to_owned());
    }
    if !answer.status().is_success() {
        return Err(format!("answered {}", answer.status()));
    }
    answer.bytes().await.map(|bytes| bytes.to_vec()).map_err(|error| innermost(&error))
}

fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
