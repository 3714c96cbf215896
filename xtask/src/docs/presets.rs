//! The page of the presets, made of the table that the command line has them in.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use toml::{Table, Value};

/// The page, from the text of `presets.toml`.
pub fn page(text: &str) -> Result<String> {
    let presets: Table = text.parse().context("read the presets")?;
    let mut out = "# Presets, value by value\n\nWhat `molbox run --preset` begins with; a file \
                   (`--file`) and flags override it. What a preset leaves out has the default \
                   of the [field](api/schemas.md). Times are in ns, forces of restraints in \
                   kJ/mol/nm², paddings in nm, time steps in fs, frequencies in steps. \
                   [Why these](../explanation/defaults.md).\n"
        .to_owned();
    // In the order of the file, from the quickest on.
    let mut presets: Vec<(&String, &Value)> = presets.iter().collect();
    presets.sort_by_key(|(name, _)| text.find(&format!("[{name}.")));
    for (name, preset) in presets {
        write!(out, "\n## {name}\n\n{}\n", comment(text, name))?;
        for part in ["system", "job"] {
            let Some(fields) = preset.get(part).and_then(Value::as_table) else { continue };
            write!(out, "\n| {part} | |\n|---|---|\n")?;
            rows(&mut out, "", fields)?;
            if let Some(stages) = fields.get("equilibration").and_then(Value::as_array) {
                out += "\n| stage | ensemble | time | restrained | with |\n|---|---|--:|---|--:|\n";
                for (index, stage) in stages.iter().enumerate() {
                    let of = |name: &str| stage.get(name).map(shown).unwrap_or_default();
                    writeln!(
                        out,
                        "| {} | {} | {} | {} | {} |",
                        index + 1,
                        of("type").trim_matches('`'),
                        of("time").trim_matches('`'),
                        of("restraint_mask"),
                        of("restraint_force").trim_matches('`')
                    )?;
                }
            }
        }
    }
    Ok(out)
}

/// The words above a preset in the file.
fn comment<'a>(text: &'a str, preset: &str) -> &'a str {
    let head = format!("[{preset}.system]");
    let before = text.split_once(&head).map_or("", |(before, _)| before);
    before.trim_end().lines().last().and_then(|line| line.strip_prefix("# ")).unwrap_or_default()
}

/// A row for each value that is one.
fn rows(out: &mut String, prefix: &str, fields: &Table) -> Result<()> {
    for (name, value) in fields {
        match value {
            Value::Table(inner) => rows(out, &format!("{prefix}{name}."), inner)?,
            Value::Array(_) => {}
            value => writeln!(out, "| `{prefix}{name}` | {} |", shown(value))?,
        }
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", text.replace('|', "\\|")),
        value => format!("`{value}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_a_preset_is_on_the_page() {
        let page = page(
            "# A look.\n[quick.system]\nminimum_padding = 0.8\n[quick.job]\nequilibration = [\n\
             { type = \"NVT\", time = 0.01, restraint_mask = \"@CA\", restraint_force = 200 },\n]\n\
             [quick.job.production]\ntime = 0.1\n",
        )
        .unwrap();
        for row in [
            "\n## quick\n\nA look.\n",
            "| `minimum_padding` | `0.8` |",
            "| 1 | NVT | 0.01 | `@CA` | 200 |",
            "| `production.time` | `0.1` |",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }
}
