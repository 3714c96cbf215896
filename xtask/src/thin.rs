//! The clients that are published for TypeScript and Go: types from the document, and a little that
//! is written by hand. Built from a copy, tested, and run with the generated ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::lint::{has_go, node_packages, quiet, where_possible};
use crate::regenerate::{stale_from, write};
use crate::shell::{root, target};
use crate::spec::published::Address;

/// Where the package of TypeScript is built, under target/.
pub const TYPESCRIPT: &str = "clients/typescript-package";
const GO: &str = "clients/go-module";
/// The generator of Go types, and its version.
const OAPI_CODEGEN: [&str; 2] =
    ["github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen", "v2.8.2"];
/// A package that is larger has something in it that nobody needs.
const MAX_PACKED_BYTES: u64 = 100_000;

/// The program of the package, built and tested.
pub fn typescript() -> Result<Command> {
    let source = root().join("typescript");
    let folder = target().join(TYPESCRIPT);
    let packages = node_packages("clients/env/typescript-package", &source)?;
    copied(&source, &folder)?;
    let modules = folder.join("node_modules");
    if modules.symlink_metadata().is_err() {
        std::os::unix::fs::symlink(packages.join("node_modules"), modules)?;
    }
    let bin = packages.join("node_modules/.bin");
    for address in Address::BOTH {
        let mut generator = Command::new(bin.join("openapi-typescript"));
        generator.arg(root().join(address.file())).arg("--output");
        quiet(generator.arg(folder.join(format!("src/{}.ts", address.name()))))?;
    }
    for project in ["tsconfig.json", "tsconfig.build.json"] {
        quiet(Command::new(bin.join("tsc")).args(["--project", project]).current_dir(&folder))?;
    }
    cases(&folder)?;
    let tests = ["--test", "out/test/client.test.js", "out/test/cases.test.js"];
    quiet(Command::new("node").args(tests).current_dir(&folder))?;
    packed(&folder)?;
    let mut program = Command::new("node");
    program.arg(folder.join("out/test/live.js"));
    Ok(program)
}

/// Writes the table of what all clients do, with its examples in it, beside the tests of one.
fn cases(folder: &Path) -> Result<()> {
    let text = fs::read_to_string(root().join("clients/cases.yaml"))?;
    let mut cases: Vec<Value> = serde_saphyr::from_str(&text).context("read clients/cases.yaml")?;
    for case in &mut cases {
        for place in ["answers", "elsewhere"] {
            let answers = case.get_mut(place).and_then(Value::as_array_mut);
            for answer in answers.into_iter().flatten() {
                if let Some(example) = answer.get("example").and_then(Value::as_str) {
                    let path = root().join("openapi/examples").join(example);
                    let mut json: Value = serde_json::from_slice(&fs::read(path)?)?;
                    // These clients compare it, and the example's is of another content.
                    json.as_object_mut().and_then(|record| record.remove("sha256"));
                    answer["json"] = json;
                }
            }
        }
    }
    Ok(fs::write(folder.join("cases.json"), serde_json::to_vec(&cases)?)?)
}

/// Packs what npm would publish, and looks at its size.
fn packed(folder: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--dry-run", "--json", "--ignore-scripts"]).current_dir(folder);
    let output = npm.output().context("start npm")?;
    let packed: Value = serde_json::from_slice(&output.stdout).context("read what npm packs")?;
    let size = packed[0]["size"].as_u64().context("the size of the package")?;
    let unpacked = packed[0]["unpackedSize"].as_u64().unwrap_or_default();
    println!("typescript package: {size} bytes, unpacked {unpacked}");
    if size > MAX_PACKED_BYTES {
        bail!("the npm package has {size} bytes, at most {MAX_PACKED_BYTES} are meant");
    }
    Ok(())
}

/// The program of the module, built and tested; its types are those of the document.
pub fn go() -> Result<Command> {
    let stale: Vec<String> = go_types()?
        .into_iter()
        .filter(|(path, text)| stale_from(&root().join(path), text).is_some())
        .map(|(path, _)| path.display().to_string())
        .collect();
    if !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask regenerate`", stale.join(", "));
    }
    let folder = target().join(GO);
    cases(&folder)?;
    for arguments in [&["vet", "./..."] as &[&str], &["test", "./..."]] {
        quiet(Command::new("go").args(arguments).current_dir(&folder))?;
    }
    let program = folder.join("live");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg("./internal/live");
    quiet(build.current_dir(&folder))?;
    Ok(Command::new(program))
}

/// Writes the types anew where there is Go, as `regenerate` does all else.
pub fn renew_go() -> Result<()> {
    where_possible("the types of Go", has_go(), |()| write(go_types()?, false)).map(drop)
}

/// The types as they are generated, each with its place in the repository; in a copy of the module.
fn go_types() -> Result<Vec<(PathBuf, String)>> {
    let generator = oapi_codegen()?;
    let folder = target().join(GO);
    copied(&root().join("go"), &folder)?;
    let mut types = Vec::new();
    for address in Address::BOTH {
        let name = address.name();
        let path = PathBuf::from(name).join(format!("{name}.gen.go"));
        let document = folder.join(format!("{name}.json"));
        let text = fs::read_to_string(root().join(address.file()))?;
        let mut value: Value = serde_json::from_str(&text)?;
        of_types(&mut value);
        value["paths"] = serde_json::json!({});
        fs::write(&document, value.to_string())?;
        let mut generate = Command::new(&generator);
        generate.arg("-config").arg(folder.join("oapi-codegen.yaml"));
        generate.args(["-package", name, "-o"]).arg(folder.join(&path));
        quiet(generate.arg(document))?;
        let text = fs::read_to_string(folder.join(&path))?;
        types.push((PathBuf::from("go").join(path), text));
    }
    Ok(types)
}

/// What Go types are made of: Go leaves out fields that it does not know, and takes any JSON where
/// one of several is meant. Written out, both are five times as much code.
fn of_types(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in ["additionalProperties", "oneOf", "example", "examples"] {
                members.remove(name);
            }
            members.values_mut().for_each(of_types);
        }
        Value::Array(items) => items.iter_mut().for_each(of_types),
        _ => {}
    }
}

/// The generator, installed once.
fn oapi_codegen() -> Result<PathBuf> {
    let [package, version] = OAPI_CODEGEN;
    let bin = target().join("clients/env").join(format!("oapi-codegen-{version}"));
    let program = bin.join("oapi-codegen");
    if !program.exists() {
        let mut install = Command::new("go");
        install.args(["install", &format!("{package}@{version}")]);
        quiet(install.env("GOBIN", &bin).env("GOFLAGS", "-mod=mod").current_dir(target()))?;
    }
    Ok(program)
}

/// Copies the sources anew; what was installed or built beside them stays where it is.
fn copied(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().context("an entry has a name")?;
        if ["dist", "node_modules", "out"].iter().any(|built| name == *built) {
            continue;
        }
        if path.is_dir() {
            copied(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
