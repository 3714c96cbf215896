//! `cargo xtask clients`: clients in other languages, generated, compiled, and run against a
//! service.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::docs::markdown;
use crate::lint::{at_least, has_go, node, node_packages, python_packages, quiet};
use crate::service::Service;
use crate::shell::{cargo, root, target};
use crate::spec::published::Address;
use crate::{later, python, regenerate, thin};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Python,
    Typescript,
    Go,
    Java,
}

const ALL: [Language; 4] = [Language::Python, Language::Typescript, Language::Go, Language::Java];

/// Generates, compiles and runs the client of each language, or of all; what this machine has no
/// tools for is skipped, and reported as skipped.
pub fn clients(languages: &[Language]) -> Result<()> {
    regenerate::check_document()?;
    let languages = if languages.is_empty() { &ALL } else { languages };
    let out = target().join("clients");
    fs::create_dir_all(&out)?;
    rust_examples(&out.join("rust"))?;
    let mut built = Vec::new();
    for language in languages {
        if let Err(missing) = language.tools() {
            println!("skipped: {}: {missing:#}", language.name());
            continue;
        }
        let start = Instant::now();
        let folder = out.join(language.name());
        prepare(*language, &folder)?;
        language.build(&folder).with_context(|| format!("build the {} client", language.name()))?;
        let thin = language.thin()?;
        println!("{}: compiles, {:.0} s", language.name(), start.elapsed().as_secs_f64());
        built.push((*language, folder, thin));
    }
    if built.is_empty() { Ok(()) } else { run_all(&out, built) }
}

/// Runs the programs of each against one service. What they see must be the same, as far as their
/// job goes.
fn run_all(out: &Path, built: Vec<(Language, PathBuf, Option<Command>)>) -> Result<()> {
    let python = python::environment()?;
    let service = Service::start(&out.join("service"), &python, &[])?;
    let key = service.key("clients")?;
    let later = later::serve()?;
    let structure = root().join("clients/alanine.pdb");
    let mut seen: Option<(String, Vec<String>)> = None;
    for (language, folder, thin) in built {
        let thin = thin.map(|program| (format!("{}, as published", language.name()), program));
        for (client, mut program) in language.programs(&folder)?.into_iter().chain(thin) {
            let start = Instant::now();
            program.arg(&structure).current_dir(&folder);
            program
                .env("MOLBOX_BASE_URL", &service.base_url)
                .env("MOLBOX_MARGIN_URL", &service.margin_url);
            program.env("MOLBOX_API_KEY", &key).env("MOLBOX_LATER_URL", &later);
            let output = program
                .stderr(Stdio::inherit())
                .output()
                .with_context(|| format!("start {}", crate::shell::shown(&program)))?;
            let text = String::from_utf8(output.stdout)?;
            print!("{text}");
            if !output.status.success() {
                bail!(
                    "the {client} program failed; the service's log is {}",
                    out.join("service/molboxd.log").display()
                );
            }
            println!("{client}: done in {:.0} s", start.elapsed().as_secs_f64());
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let (first, whole) = seen.get_or_insert_with(|| (client.clone(), lines.clone()));
            let is_of_short_job =
                |line: &&String| !OF_THE_WHOLE_JOB.iter().any(|word| line.starts_with(word));
            if lines != *whole && !lines.iter().eq(whole.iter().filter(is_of_short_job)) {
                bail!("{first} and {client} see different things");
            }
        }
    }
    service.stop()
}

/// What the short job leaves out.
const OF_THE_WHOLE_JOB: [&str; 3] = ["built ", "simulated ", "downloaded "];

/// A folder with the program and its configuration, without what was generated before.
fn prepare(language: Language, folder: &Path) -> Result<()> {
    let source = root().join("clients").join(language.name());
    for name in language.generated() {
        let generated = folder.join(name);
        if generated.exists() {
            fs::remove_dir_all(&generated)?;
        }
    }
    copy(&source, folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Typescript => "typescript",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    /// What the generator writes into the folder.
    fn generated(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["molbox_workflow", "molbox_margin", "openapi_generator"],
            Self::Typescript => &["out", "hey-api", "orval", "swagger-typescript-api"],
            Self::Go => &["workflow", "margin"],
            Self::Java => &["generated"],
        }
    }

    /// The program of the client that is published for it, if there is one.
    fn thin(self) -> Result<Option<Command>> {
        match self {
            Self::Typescript => thin::typescript().map(Some),
            Self::Go => thin::go().map(Some),
            Self::Python | Self::Java => Ok(None),
        }
    }

    /// An error when this machine lacks what the language needs.
    fn tools(self) -> Result<()> {
        match self {
            Self::Python => Ok(()),
            Self::Typescript => node(),
            Self::Go => has_go().and_then(|()| java()),
            Self::Java => at_least("mvn", "--version", (3, 6)).and_then(|()| java()),
        }
    }

    fn build(self, folder: &Path) -> Result<()> {
        let documents = Address::BOTH.map(|address| (address.name(), root().join(address.file())));
        match self {
            Self::Python => {
                let bin = packages()?.join("bin");
                if let Err(missing) = java() {
                    println!(
                        "skipped: python, openapi-generator and datamodel-code-generator: \
                         {missing:#}"
                    );
                }
                for (name, document) in &documents {
                    let mut generator = Command::new(bin.join("openapi-python-client"));
                    generator.args([
                        "generate",
                        "--meta",
                        "none",
                        "--overwrite",
                        "--fail-on-warning",
                        "--config",
                    ]);
                    generator.arg(folder.join("generator.yaml")).arg("--path").arg(document);
                    quiet(
                        generator.arg("--output-path").arg(folder.join(format!("molbox_{name}"))),
                    )?;
                    let mut models = Command::new(bin.join("datamodel-codegen"));
                    models.args([
                        "--input-file-type",
                        "openapi",
                        "--output-model-type",
                        "pydantic_v2.BaseModel",
                    ]);
                    models.args([
                        "--use-annotated",
                        "--target-python-version",
                        "3.10",
                        "--formatters",
                        "builtin",
                    ]);
                    models
                        .arg("--input")
                        .arg(document)
                        .arg("--output")
                        .arg(folder.join(format!("models_{name}.py")));
                    quiet(&mut models)?;
                    if java().is_ok() {
                        let package = format!("packageName=generated_{name}");
                        openapi_generator(
                            "python",
                            document,
                            &folder.join("openapi_generator"),
                            &[&package],
                        )?;
                    }
                }
                let mut text = fs::read_to_string(folder.join("examples_head.py"))?;
                for (index, example) in examples("python")?.iter().enumerate() {
                    // A name has one type in a module.
                    text += &example.replace("answer = ", &format!("answer_{index} = "));
                }
                fs::write(folder.join("examples.py"), text)?;
                let mut mypy = Command::new(bin.join("mypy"));
                mypy.args([
                    "--strict",
                    "main.py",
                    "examples.py",
                    "models_workflow.py",
                    "models_margin.py",
                ]);
                quiet(mypy.current_dir(folder))
            }
            Self::Typescript => {
                let packages = node_packages("clients/env/node", folder)?;
                let modules = folder.join("node_modules");
                if modules.symlink_metadata().is_err() {
                    std::os::unix::fs::symlink(packages.join("node_modules"), modules)?;
                }
                let bin = packages.join("node_modules/.bin");
                for (name, document) in &documents {
                    let mut generator = Command::new(bin.join("openapi-typescript"));
                    quiet(
                        generator
                            .arg(document)
                            .arg("--output")
                            .arg(folder.join(format!("{name}.d.ts"))),
                    )?;
                    let mut generator = Command::new(bin.join("swagger-typescript-api"));
                    generator.args([
                        "generate",
                        "--silent",
                        "--enum-style=union",
                        "--name",
                        &format!("{name}.ts"),
                    ]);
                    generator
                        .arg("--output")
                        .arg(folder.join("swagger-typescript-api"))
                        .arg("--path")
                        .arg(document);
                    quiet(&mut generator)?;
                }
                for [generator, option, config] in [
                    ["openapi-ts", "--file", "hey-api.config.ts"],
                    ["orval", "--config", "orval.config.ts"],
                ] {
                    let mut generator = Command::new(bin.join(generator));
                    generator.args([option, config]).env("DOCUMENTS", root().join("openapi"));
                    quiet(generator.current_dir(folder))?;
                }
                let mut text = fs::read_to_string(folder.join("examples_head.ts"))?;
                for example in examples("ts")? {
                    text += &format!("{{\n{example}void data, error;\n}}\n");
                }
                fs::write(folder.join("examples.ts"), text)?;
                quiet(Command::new(bin.join("tsc")).current_dir(folder))
            }
            Self::Go => {
                for (name, document) in documents {
                    let package = format!("packageName={name}");
                    let options =
                        [&package, "withGoMod=false", "isGoSubmodule=true", "enumClassPrefix=true"];
                    openapi_generator("go", &document, &folder.join(name), &options)?;
                }
                quiet(Command::new("go").args(["build", "-o", "main", "."]).current_dir(folder))
            }
            Self::Java => {
                for (name, document) in documents {
                    let packages = [
                        ("apiPackage", "api"),
                        ("modelPackage", "model"),
                        ("invokerPackage", "client"),
                    ];
                    let [api, model, client] =
                        packages.map(|(option, part)| format!("{option}=molbox.{name}.{part}"));
                    // Optional parameters by name; else all fifteen of one method in a row.
                    let options = [
                        "library=okhttp-gson",
                        "useSingleRequestParameter=true",
                        &api,
                        &model,
                        &client,
                    ];
                    openapi_generator(
                        "java",
                        &document,
                        &folder.join("generated").join(name),
                        &options,
                    )?;
                }
                let mut maven = Command::new("mvn");
                maven.args(["--quiet", "--batch-mode", "compile", "dependency:build-classpath"]);
                quiet(maven.arg("-Dmdep.outputFile=classpath").current_dir(folder))
            }
        }
    }

    /// The programs that `build` made, by the names of their clients: the whole job with the first,
    /// the short one with the others.
    fn programs(self, folder: &Path) -> Result<Vec<(String, Command)>> {
        let mut whole = match self {
            Self::Python => Command::new(packages()?.join("bin/python")),
            Self::Typescript => Command::new("node"),
            Self::Go => Command::new(folder.join("main")),
            Self::Java => Command::new("java"),
        };
        let (short, generators): (&str, &[&str]) = match self {
            Self::Python if java().is_ok() => {
                ("short.py", &["openapi-generator", "datamodel-code-generator"])
            }
            Self::Typescript => ("out/short.js", &["hey-api", "orval", "swagger-typescript-api"]),
            _ => ("", &[]),
        };
        let with = |generator: &&str| {
            let mut command = Command::new(whole.get_program());
            command.arg(short).arg(generator).env("PYTHONPATH", "openapi_generator");
            (format!("{}, {generator}", self.name()), command)
        };
        let others: Vec<(String, Command)> = generators.iter().map(with).collect();
        match self {
            Self::Python => drop(whole.arg("main.py")),
            Self::Typescript => drop(whole.arg("out/main.js")),
            Self::Go => {}
            Self::Java => {
                let libraries =
                    fs::read_to_string(folder.join("classpath")).context("read the classpath")?;
                whole.arg("-cp").arg(format!("target/classes:{}", libraries.trim())).arg("Main");
            }
        }
        Ok(std::iter::once((self.name().to_owned(), whole)).chain(others).collect())
    }
}

/// An error when this machine lacks what openapi-generator runs on.
fn java() -> Result<()> {
    at_least("java", "-version", (17, 0))
}

/// Compiles the Rust examples of the reference. The client itself is generated and tested
/// elsewhere.
fn rust_examples(folder: &Path) -> Result<()> {
    let start = Instant::now();
    fs::create_dir_all(folder.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"molbox-examples\"\nedition = \
         \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         molbox = {{ path = {:?} }}\nserde_json = \"1\"\n",
        root()
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    // The versions of the workspace.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let functions = examples("rust")?.into_iter().enumerate().map(|(index, example)| {
        format!(
            "pub async fn example_{index}() -> Result<(), Box<dyn std::error::Error>> \
             {{\n{example}drop(answer);\nOk(())\n}}\n"
        )
    });
    fs::write(folder.join("src/lib.rs"), functions.collect::<String>())?;
    let mut check = cargo();
    check.args(["check", "--quiet", "--manifest-path"]).arg(folder.join("Cargo.toml"));
    quiet(check.arg("--target-dir").arg(target()))?;
    println!("rust: the examples compile, {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The examples in the reference, one after the other, as a program that is only compiled.
fn examples(language: &str) -> Result<Vec<String>> {
    let folder = root().join(markdown::FOLDER);
    let fence = format!("```{language}\n");
    let mut out = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let text = fs::read_to_string(entry?.path())?;
        let fences = text.split(&fence).skip(1);
        out.extend(
            fences.filter_map(|rest| rest.split_once("```").map(|(code, _)| code.to_owned())),
        );
    }
    Ok(out)
}

fn packages() -> Result<PathBuf> {
    python_packages("clients/env/python", &root().join("clients/python/requirements.txt"))
}

fn openapi_generator(language: &str, document: &Path, out: &Path, options: &[&str]) -> Result<()> {
    let folder = python_packages(
        "clients/env/openapi-generator",
        &root().join("clients/openapi-generator.txt"),
    )?;
    let mut generator = Command::new(folder.join("bin/openapi-generator-cli"));
    generator
        .args(["generate", "--generator-name", language, "--input-spec"])
        .arg(document)
        .arg("--output")
        .arg(out);
    generator.args([
        "--global-property",
        "apiDocs=false,modelDocs=false,apiTests=false,modelTests=false",
    ]);
    quiet(generator.arg("--additional-properties").arg(options.join(",")))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::examples;

    #[test]
    fn the_curl_examples_are_shell() {
        let examples = examples("sh").unwrap();
        assert!(examples.len() > 30, "{} examples", examples.len());
        for example in examples {
            let output = Command::new("sh").args(["-n", "-c", &example]).output().unwrap();
            assert!(
                output.status.success(),
                "{example}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
