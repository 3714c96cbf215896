//! The page of the Rust client: what its crate says of itself, and what of it is written by hand.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, Type, Visibility};

use crate::shell::root;

/// The files with calls for everybody, in the order in which they are needed.
const FILES: [&str; 9] = [
    "client.rs",
    "http.rs",
    "transfer.rs",
    "wait.rs",
    "replicas.rs",
    "run.rs",
    "blocking.rs",
    "call.rs",
    "error.rs",
];

/// The page, from the text of the crate's root.
pub fn page(text: &str) -> Result<String> {
    let file = syn::parse_file(text).context("read the crate's root")?;
    let mut out = "# The Rust client\n\nThe crate `molbox`: `cargo add molbox`. Each \
                   [operation](api/index.md) is a method of its name; all types and \
                   methods are on [docs.rs](https://docs.rs/molbox), or by `cargo doc --open \
                   --package molbox`.\n\n"
        .to_owned();
    out += &of_a_page(&doc(&file.attrs));
    out += "\n## Written by hand\n\nBesides the operations:\n\n| | |\n|---|---|\n";
    for name in FILES {
        let path = root().join("src").join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| format!("read {}", path.display()))?;
        for (name, about) in calls(&file.items) {
            writeln!(out, "| `{name}` | {} |", unlinked(&about).replace('|', "\\|"))?;
        }
    }
    Ok(out)
}

/// Public functions of public types, each with the first paragraph that is said of it.
fn calls(items: &[Item]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for item in items {
        let Item::Impl(of) = item else { continue };
        let Type::Path(path) = &*of.self_ty else { continue };
        if of.trait_.is_some() {
            continue;
        }
        let names: Vec<String> =
            path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        for inner in &of.items {
            let ImplItem::Fn(function) = inner else { continue };
            let about = doc(&function.attrs);
            let first = about.split("\n\n").next().unwrap_or_default().trim().replace('\n', " ");
            if matches!(function.vis, Visibility::Public(_)) && !first.is_empty() {
                found.push((format!("{}::{}", names.join("::"), function.sig.ident), first));
            }
        }
    }
    found
}

/// The documentation of an item.
fn doc(attributes: &[Attribute]) -> String {
    let mut out = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(literal) = &pair.value
            && let Lit::Str(line) = &literal.lit
        {
            let line = line.value();
            out += line.strip_prefix(' ').unwrap_or(&line);
            out += "\n";
        }
    }
    out
}

/// Documentation as text of a page: headings below the page's, code without its hidden lines.
fn of_a_page(documentation: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for line in documentation.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_code = !is_code;
            out += if is_code { "```rust\n" } else { "```\n" };
            debug_assert!(is_code || language.is_empty(), "a fence ends with nothing");
        } else if is_code {
            if line != "#" && !line.starts_with("# ") {
                out += &format!("{line}\n");
            }
        } else {
            let line = unlinked(line);
            out += &if line.starts_with('#') { format!("#{line}\n") } else { format!("{line}\n") };
        }
    }
    out
}

/// A text with the words alone of what links to items, which only rustdoc resolves.
fn unlinked(text: &str) -> String {
    let text = text.replace("[`", "`").replace("`]", "`");
    // `words`(Self::item)
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("`(") {
        let end = after.find(')').map_or(0, |end| end + 1);
        out += &format!("{before}`");
        rest = &after[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_the_crate_says_and_what_is_written_by_hand() {
        let page = page(&fs::read_to_string(root().join("src/lib.rs")).unwrap()).unwrap();
        for wanted in [
            "\n## Null\n",
            "let molbox = molbox::Client::from_env()?;\n",
            "call fails with `Error::Invalid`, which",
            "\n| `Client::upload` | Uploads a file of this machine and registers it. |\n",
            "\n| `Error::is_transient` | ",
        ] {
            assert!(page.contains(wanted), "{wanted:?} is not in\n{page}");
        }
        for unwanted in ["async fn run()", "# Ok(()) }", "cfg(feature", "[`"] {
            assert!(!page.contains(unwanted), "{unwanted:?} is in\n{page}");
        }
    }
}
