//! The notebook of the examples as a page, with what its last execution left.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// What is before the number of a cell in the name of its picture.
const PICTURE: &str = "notebook_cell_";

/// The page, from the text of an .ipynb file.
pub fn page(text: &str) -> Result<String> {
    let mut out = "# A notebook, executed\n".to_owned();
    for cell in cells(text)? {
        let source = joined(&cell["source"]);
        if cell["cell_type"] == "markdown" {
            // The page has a title.
            let source = source.strip_prefix("# Your first protein\n").unwrap_or(&source);
            out += &format!("\n{}\n", source.trim());
            continue;
        }
        out += &format!("\n```python\n{}\n```\n", source.trim_end());
        for output in cell["outputs"].as_array().into_iter().flatten() {
            if output["data"].get("image/png").is_some() {
                let name = picture(&cell)?;
                out += &format!("\n![The plot of the code above](../pictures/{name})\n");
                continue;
            }
            let printed = joined(&output["text"]) + &joined(&output["data"]["text/plain"]);
            out += &format!("\n``` {{ .text .answer }}\n{}\n```\n", printed.trim_end());
        }
    }
    Ok(out)
}

/// The pictures of the page, by their names.
pub fn pictures(text: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for cell in cells(text)? {
        for output in cell["outputs"].as_array().into_iter().flatten() {
            let Some(png) = output["data"].get("image/png") else { continue };
            let bytes = STANDARD.decode(joined(png).replace('\n', "")).context("a picture")?;
            found.push((picture(&cell)?, bytes));
        }
    }
    Ok(found)
}

fn cells(text: &str) -> Result<Vec<Value>> {
    let notebook: Value = serde_json::from_str(text).context("read the notebook")?;
    notebook["cells"].as_array().cloned().context("a notebook has cells")
}

fn picture(cell: &Value) -> Result<String> {
    let number = cell["execution_count"].as_u64().context("a cell was executed")?;
    Ok(format!("{PICTURE}{number}.png"))
}

/// A text as notebooks have it: one, or one for each line.
fn joined(value: &Value) -> String {
    match value {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        value => value.as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::shell::root;

    #[test]
    fn the_page_has_text_code_what_it_printed_and_its_plots() {
        let text = fs::read_to_string(root().join("examples/first-protein.ipynb")).unwrap();
        let page = page(&text).unwrap();
        for wanted in [
            "\n## Simulate\n",
            "\n```python\nimport matplotlib.pyplot as plt\n",
            "\n``` { .text .answer }\n'succeeded'\n```\n",
        ] {
            assert!(page.contains(wanted), "{wanted:?} is not in\n{page}");
        }
        let pictures = pictures(&text).unwrap();
        assert_eq!(pictures.len(), 2);
        for (name, bytes) in pictures {
            assert!(bytes.starts_with(b"\x89PNG"), "{name}");
            assert!(page.contains(&format!("(../pictures/{name})")), "{name}");
        }
    }
}
