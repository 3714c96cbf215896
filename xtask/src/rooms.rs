//! Who names whom: the files of a crate form no circle, and the rooms of the service keep their
//! borders.
//!
//! A file names another when a path in it leads there, in a `use` or in the code. Tests and `mod`
//! lines do not count: the first may look everywhere, the second only put a file into its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit_mut::{VisitMut, visit_item_mod_mut, visit_path_mut};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

use crate::shell::root;
use crate::sources::each_file;

/// Where the sources of the crates are whose files import in one direction.
const CRATES: [&str; 9] = [
    "crates/analysis/src",
    "crates/cli/src",
    "crates/codegen/src",
    "crates/drift/src",
    "crates/margin/src",
    "crates/plot/src",
    SERVICE,
    "src",
    "xtask/src",
];
const SERVICE: &str = "crates/service/src";

/// Rooms of the service, and all that each may name besides itself.
const ROOMS: [(&str, &[&str]); 12] = [
    ("accounts", &["config", "db", "error", "hex", "http", "random", "record", "web"]),
    (
        "command",
        &[
            "accounts", "analyze", "app", "clock", "config", "db", "doctor", "exec", "files",
            "finding", "folder", "handlers", "hex", "http", "log", "market", "objects", "pdb",
            "queue", "random", "record", "runner", "servers", "shown", "tenure", "webhook",
        ],
    ),
    (
        "db",
        &[
            "clock", "config", "files", "folder", "formats", "queue", "record", "shown", "speed",
            "web",
        ],
    ),
    ("exec", &["config", "files", "record", "shown"]),
    ("files", &[]),
    ("folder", &["db", "files", "objects", "random", "shown"]),
    ("formats", &["hex", "shown"]),
    (
        "handlers",
        &[
            "accounts",
            "app",
            "db",
            "doctor",
            "error",
            "excerpt",
            "finding",
            "formats",
            "hex",
            "http",
            "metrics",
            "objects",
            "pdb",
            "plan",
            "record",
            "registered",
            "runner",
            "shown",
            "structure",
        ],
    ),
    // Only the route table names handlers; they name what is beside it.
    ("http", &["accounts", "app", "config", "db", "error", "handlers", "hex", "objects", "record"]),
    ("objects", &["config", "db", "files", "hex", "random", "web"]),
    (
        "plan",
        &[
            "app",
            "db",
            "error",
            "formats",
            "http",
            "objects",
            "pdb",
            "recent",
            "record",
            "registered",
            "runner",
            "shown",
            "speed",
        ],
    ),
    (
        "runner",
        &[
            "app", "config", "db", "exec", "files", "folder", "formats", "objects", "plan",
            "queue", "random", "record", "shown", "speed", "worker",
        ],
    ),
];

/// The path of a module, from the root of its crate.
type Module = Vec<String>;
/// Files below the sources of a crate, and those that each names.
type Names = BTreeMap<String, BTreeSet<String>>;

pub fn check(problems: &mut Vec<String>) -> Result<()> {
    for sources in CRATES {
        let names = names(&root().join(sources))?;
        for circle in circles(&names) {
            problems.push(format!("{sources}: {} name each other in a circle", circle.join(", ")));
        }
        if sources == SERVICE {
            borders(&names, problems);
        }
    }
    Ok(())
}

/// Reports what a room of the service names and may not.
fn borders(names: &Names, problems: &mut Vec<String>) {
    for (file, named) in names {
        let Some((room, allowed)) = ROOMS.iter().find(|(room, _)| *room == room_of(file)) else {
            continue;
        };
        for other in named
            .iter()
            .filter(|other| room_of(other) != *room && !allowed.contains(&room_of(other)))
        {
            problems.push(format!("{SERVICE}/{file} names {other}, which {room} may not"));
        }
    }
}

/// The folder right below the sources that a file is in, or the file itself.
fn room_of(file: &str) -> &str {
    file.split_once('/').map_or(file.trim_end_matches(".rs"), |(room, _)| room)
}

/// Which files of a crate name which.
fn names(sources: &Path) -> Result<Names> {
    let has_library = sources.join("lib.rs").exists();
    let mut files = Files::new();
    each_file(sources, "rs", &mut |path, _| {
        let path = path.strip_prefix(sources).expect("it lies there").to_owned();
        // A value that another file includes, and a program that names the library beside it by
        // the name of the package.
        let is_included = path.to_string_lossy().ends_with(".in.rs");
        if is_included || has_library && path == Path::new("main.rs") {
            return;
        }
        files.insert(module_of(&path), File { path, aliases: Aliases::new() });
    })?;
    let mut names = Names::new();
    for module in files.keys().cloned().collect::<Vec<_>>() {
        let parsed = parse(sources, &files[&module])?;
        let mut reader = Reader::new(&files, &module);
        reader.read_uses(&parsed.items);
        let aliases = reader.aliases;
        files.get_mut(&module).expect("it is one of them").aliases = aliases;
    }
    for (module, file) in &files {
        let mut parsed = parse(sources, file)?;
        let mut reader = Reader::new(&files, module);
        reader.read_uses(&parsed.items);
        reader.visit_file_mut(&mut parsed);
        let found = reader.found.iter().filter(|found| **found != file.path);
        names.insert(shown(&file.path), found.map(|path| shown(path)).collect());
    }
    Ok(names)
}

fn parse(sources: &Path, file: &File) -> Result<syn::File> {
    let path = sources.join(&file.path);
    syn::parse_file(&fs::read_to_string(&path)?)
        .with_context(|| format!("parse {}", path.display()))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// `db/task.rs` is `db::task`, `db/mod.rs` is `db`, and `lib.rs` is the root.
fn module_of(path: &Path) -> Module {
    let mut module: Module =
        path.with_extension("").iter().map(|step| step.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// What `use` lines have given a name, and the path that it stands for.
type Aliases = BTreeMap<String, Module>;
type Files = BTreeMap<Module, File>;

struct File {
    path: PathBuf,
    /// What others find under its name though it is elsewhere.
    aliases: Aliases,
}

/// Reads a file for the modules that it names.
struct Reader<'a> {
    files: &'a Files,
    /// The module that is read; deeper than its file within an inline module.
    within: Module,
    aliases: Aliases,
    found: BTreeSet<&'a Path>,
}

impl<'a> Reader<'a> {
    fn new(files: &'a Files, module: &Module) -> Self {
        Self { files, within: module.clone(), aliases: Aliases::new(), found: BTreeSet::new() }
    }

    fn read_uses(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Use(item) if !is_test(&item.attrs) => self.read_use(item),
                Item::Mod(ItemMod { ident, attrs, .. }) if !is_test(attrs) => {
                    let module = [self.within.as_slice(), &[ident.to_string()]].concat();
                    self.aliases.insert(ident.to_string(), module);
                }
                _ => {}
            }
        }
    }

    fn read_use(&mut self, item: &ItemUse) {
        let before = self.found.clone();
        self.read_tree(&item.tree, &mut Vec::new());
        if !matches!(item.vis, Visibility::Inherited) {
            // What is shown on from below is an address: as `mod` lines, it only puts things into
            // their place.
            let own = |path: &&Path| {
                self.files
                    .iter()
                    .any(|(module, file)| file.path == **path && module.starts_with(&self.within))
            };
            self.found = self
                .found
                .iter()
                .copied()
                .filter(|path| before.contains(path) || !own(path))
                .collect();
        }
    }

    fn read_tree(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.read_tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.read_tree(tree, before))
            }
            UseTree::Name(name) if name.ident == "self" => {
                let alias = before.last().cloned().unwrap_or_default();
                self.name_as(&alias, before.clone());
            }
            UseTree::Name(name) => {
                let path = [before.as_slice(), &[name.ident.to_string()]].concat();
                self.name_as(&name.ident.to_string(), path);
            }
            UseTree::Rename(rename) => {
                let path = [before.as_slice(), &[rename.ident.to_string()]].concat();
                self.name_as(&rename.rename.to_string(), path);
            }
            UseTree::Glob(_) => self.name(before),
        }
    }

    fn name_as(&mut self, alias: &str, path: Vec<String>) {
        self.name(&path);
        if let Some(path) = self.absolute(&path) {
            self.aliases.insert(alias.to_owned(), path);
        }
    }

    /// A path from the root of the crate; none when it leads out of it.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let mut start = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.within.clone(),
            "super" => self.within[..self.within.len().checked_sub(1)?].to_vec(),
            name => self.aliases.get(name)?.clone(),
        };
        for step in rest {
            if step == "super" {
                start.pop()?;
            } else {
                start.push(step.clone());
            }
        }
        Some(start)
    }

    /// Notes the file of the deepest module on a path, or of that from which it has what is named.
    fn name(&mut self, path: &[String]) {
        let Some(mut path) = self.absolute(path) else { return };
        // Re-exports of re-exports; none is deeper.
        for _ in 0..8 {
            let files: &'a Files = self.files;
            let Some(n) = (0..=path.len()).rev().find(|n| files.contains_key(&path[..*n])) else {
                return;
            };
            let file = &files[&path[..n]];
            match path.get(n).and_then(|name| file.aliases.get(name)) {
                Some(elsewhere) => path = [elsewhere.as_slice(), &path[n + 1..]].concat(),
                None => {
                    self.found.insert(&file.path);
                    return;
                }
            }
        }
    }
}

impl VisitMut for Reader<'_> {
    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        let Some((_, items)) = module.content.as_ref().filter(|_| !is_test(&module.attrs)) else {
            return;
        };
        let aliases = self.aliases.clone();
        self.within.push(module.ident.to_string());
        self.read_uses(items);
        visit_item_mod_mut(self, module);
        self.within.pop();
        self.aliases = aliases;
    }

    fn visit_path_mut(&mut self, path: &mut syn::Path) {
        let steps: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if steps.len() > 1 && path.leading_colon.is_none() {
            self.name(&steps);
        }
        visit_path_mut(self, path);
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        // Its content need not be Rust: words with `::` between them are paths.
        let text = mac.tokens.to_string().replace(" :: ", "::");
        for word in text
            .split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
            .filter(|word| word.contains("::"))
        {
            let steps: Vec<String> = word.split("::").map(str::to_owned).collect();
            self.name(&steps);
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// Groups of files of which each names every other, perhaps by way of others, sorted.
fn circles(names: &Names) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        names.keys().map(|file| (file.as_str(), reach(names, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, there) in &reached {
        let circle: Vec<&str> =
            there.iter().copied().filter(|other| reached[other].contains(file)).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// All files that one names, and those that they name.
fn reach<'a>(names: &'a Names, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = names[from].iter().map(String::as_str).collect();
    while let Some(file) = left.pop() {
        if reached.insert(file) {
            left.extend(names[file].iter().map(String::as_str));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(edges: &[(&str, &[&str])]) -> Names {
        edges
            .iter()
            .map(|(file, named)| {
                ((*file).to_owned(), named.iter().map(|&name| name.to_owned()).collect())
            })
            .collect()
    }

    #[test]
    fn a_circle_is_found_whatever_names_it_and_a_diamond_is_none() {
        let files = names(&[
            ("a.rs", &["b.rs", "c.rs"]),
            ("b.rs", &["d.rs"]),
            ("c.rs", &["d.rs", "e.rs"]),
            ("d.rs", &[]),
            ("e.rs", &["f.rs"]),
            ("f.rs", &["e.rs"]),
        ]);
        assert_eq!(circles(&files), [["e.rs", "f.rs"]]);
    }

    #[test]
    fn what_a_file_names_is_found_in_uses_code_macros_and_re_exports_but_not_in_tests() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e; pub use c::Shown;"),
            (
                "a.rs",
                "use crate::b::{self, X as Y}; use crate::Shown; fn f() { b::g(); assert!(crate::d::is()); }",
            ),
            ("b/mod.rs", "pub(crate) mod inner; pub(crate) use inner::Z; pub struct X;"),
            ("b/inner.rs", "use super::X; pub struct Z;"),
            ("c.rs", "pub struct Shown; #[cfg(test)] mod tests { use crate::a; }"),
            ("d.rs", "fn f(z: crate::b::Z) {}"),
            ("e.rs", "fn f() { std::mem::drop(1); }"),
            ("main.rs", "use named_as_the_package::Shown; fn main() {}"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let expected = names(&[
            ("a.rs", &["b/mod.rs", "c.rs", "d.rs"]),
            ("b/inner.rs", &["b/mod.rs"]),
            ("b/mod.rs", &[]),
            ("c.rs", &[]),
            ("d.rs", &["b/inner.rs"]),
            ("e.rs", &[]),
            ("lib.rs", &[]),
        ]);
        assert_eq!(super::names(folder.path()).unwrap(), expected);
    }
}
