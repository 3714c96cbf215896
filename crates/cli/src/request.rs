//! Requests from flags, files and standard input: flags on top, names and numbers checked by the
//! document, the whole by the client's types.

use std::ffi::OsStr;
use std::io::Read as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use molbox::{margin, workflow};
use molbox_analysis::Mask;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::{Code, Failure};
use crate::{flag_names, schema, units};

/// A request that a command line can make.
pub(crate) trait Body: Send + Sync + 'static {
    /// Name of its schema.
    const SCHEMA: &'static str;
    /// Fields that have no flag.
    const WITHOUT: &'static [&'static str] =
        &["portfolio.data", "portfolio.encoding", "portfolios"];
    /// The client's type of it.
    type Checked: molbox::Request + Serialize;
}

macro_rules! body {
    ($($(#[$doc:meta])* $name:ident: $schema:literal, $type:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub(crate) enum $name {}

            impl Body for $name {
                const SCHEMA: &'static str = $schema;
                type Checked = $type;
            }
        )*
    };
}

body! {
    System: "SystemBuildRequest", workflow::types::SystemBuildRequest;
    Job: "JobCreateParams", workflow::types::JobCreateParams;
    Analysis: "AnalysisRequest", workflow::types::AnalysisRequest;
    Margin: "MarginJobRequest", margin::types::MarginJobRequest;
}

struct Flag {
    /// `["production", "time"]`.
    path: Vec<&'static str>,
    name: String,
    schema: &'static Value,
}

impl Flag {
    fn id(&self) -> String {
        format!("{}{}", flag_names::FIELD, self.path.join("."))
    }

    fn arg(&self) -> Arg {
        let schema = self.schema;
        let arg = Arg::new(self.id()).long(self.name.clone()).help(schema::description(schema));
        // A boolean can stand alone, and the flag after it is not its value.
        let takes_hyphens = kind(schema) != Kind::Boolean;
        let arg = arg.help_heading("Fields of the request").allow_hyphen_values(takes_hyphens);
        let unit = schema::unit(schema);
        let placeholder = unit.unwrap_or(match kind(schema) {
            Kind::Number => "NUMBER",
            Kind::Integer => "COUNT",
            Kind::Boolean => "BOOL",
            Kind::Json => "JSON",
            Kind::Text | Kind::Texts | Kind::Masks => "TEXT",
            Kind::Futures => "TICKER:SIDE:QUANTITY",
        });
        let arg = arg.value_name(placeholder.to_uppercase());
        // The description names them.
        let arg = arg.value_parser(FlagParser(schema)).hide_possible_values(true);
        match kind(schema) {
            Kind::Texts | Kind::Masks | Kind::Futures => arg.action(ArgAction::Append),
            Kind::Boolean => arg.num_args(0..=1).default_missing_value("true"),
            _ => arg,
        }
    }
}

/// Reads the value of a flag; names the texts that the document lists to shells that complete them.
#[derive(Clone)]
struct FlagParser(&'static Value);

impl TypedValueParser for FlagParser {
    type Value = Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        text: &OsStr,
    ) -> Result<Value, clap::Error> {
        let field = self.0;
        TypedValueParser::parse_ref(&move |text: &str| value(field, text), command, arg, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let mut texts = schema::texts(self.0).map(PossibleValue::new).peekable();
        texts.peek()?;
        Some(Box::new(texts))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Integer,
    Boolean,
    Texts,
    /// Lists of masks, one list in each flag, separated by blanks.
    Masks,
    Futures,
    Json,
}

fn kind(field: &'static Value) -> Kind {
    let schema = schema::resolved(field);
    match schema["type"].as_str() {
        Some("number") => Kind::Number,
        Some("integer") => Kind::Integer,
        Some("boolean") => Kind::Boolean,
        Some("array") => {
            let items = schema::resolved(&schema["items"]);
            match items["type"].as_str() {
                Some("string") => Kind::Texts,
                Some("array") if items["items"]["type"] == "string" => Kind::Masks,
                Some("object") if items["properties"].get("ticker").is_some() => Kind::Futures,
                _ => Kind::Json,
            }
        }
        Some("string") | None => Kind::Text,
        _ => Kind::Json,
    }
}

/// The value of a field from the text of a flag.
fn value(field: &'static Value, text: &str) -> Result<Value, String> {
    match kind(field) {
        Kind::Number | Kind::Integer => number(field, text),
        Kind::Boolean => text
            .parse::<bool>()
            .map(Value::from)
            .map_err(|_| format!("must be true or false, got {text:?}")),
        Kind::Text | Kind::Texts => Ok(text.into()),
        Kind::Masks => Ok(match Mask::parse_list(text) {
            Ok(masks) => masks.iter().map(Mask::to_string).collect(),
            // As it was written, for whoever says what is wrong with it.
            Err(_) => [text].into_iter().collect(),
        }),
        Kind::Json => serde_json::from_str(text).map_err(|e| format!("must be JSON: {e}")),
        Kind::Futures => {
            let parts: Vec<&str> = text.split(':').collect();
            let ([ticker, side, quantity]
            | [ticker, side, quantity, _]
            | [ticker, side, quantity, _, _]) = parts[..]
            else {
                return Err("must be TICKER:SIDE:QUANTITY[:ENTRYDATE[:ENTRYPRICE]]".to_owned());
            };
            let mut future = json!({"ticker": ticker, "type": side, "quantity": units::parse(quantity, "contracts")?});
            if let Some(date) = parts.get(3) {
                future["entryDate"] = (*date).into();
            }
            if let Some(price) = parts.get(4) {
                future["entryPrice"] = units::parse(price, "")?.into();
            }
            Ok(future)
        }
    }
}

fn number(field: &'static Value, text: &str) -> Result<Value, String> {
    let number = units::parse(text, schema::unit(field).unwrap_or_default())?;
    if !number.is_finite() {
        return Err(format!("must be a finite number, got {text:?}"));
    }
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    if kind(field) == Kind::Integer && !is_whole {
        return Err(format!("must be a whole number, got {text:?}"));
    }
    Ok(if is_whole { (number as i64).into() } else { number.into() })
}

/// The flags of a request: one for each field, and for each field of an object in it.
fn flags(name: &str, without: &[&str]) -> Vec<Flag> {
    let mut flags = Vec::new();
    for (field, schema) in schema::fields(schema::named(name)) {
        let nested: Vec<_> = schema::fields(schema).collect();
        if nested.is_empty() {
            flags.push(flag(vec![field], schema));
        }
        flags.extend(nested.into_iter().map(|(inner, schema)| flag(vec![field, inner], schema)));
    }
    flags.retain(|flag| !without.contains(&flag.path.join(".").as_str()));
    flags
}

fn flag(path: Vec<&'static str>, schema: &'static Value) -> Flag {
    let whole = path.join(".");
    let own = flag_names::NAMES
        .iter()
        .find(|(field, _)| *field == whole)
        .map(|(_, name)| (*name).to_owned());
    let name = own.unwrap_or_else(|| kebab(path.last().copied().unwrap_or_default()));
    Flag { path, name, schema }
}

/// `numScenarios` and `num_scenarios` as `num-scenarios`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        match c {
            '_' => kebab.push('-'),
            _ if c.is_ascii_uppercase() => kebab.extend(['-', c.to_ascii_lowercase()]),
            _ => kebab.push(c),
        }
    }
    kebab
}

#[derive(Debug)]
pub(crate) struct Flags<B> {
    fields: Value,
    /// Whether hydrogen bonds are asked for, whatever makes one.
    hbonds: bool,
    body: PhantomData<B>,
}

/// Asks for hydrogen bonds without a bound or a mask of them; it is no field, so that it does not
/// override the criterion of a file.
const HBONDS: &str = "hbonds";

/// The field by which it does so.
const CRITERION: &str = "hbond_criterion";

/// The field that names other atoms than the solute.
const BONDED: &str = "hbond_masks";

impl<B> Flags<B> {
    /// Fields that come from elsewhere, and were looked at there.
    pub(crate) fn of(fields: Value) -> Self {
        Self { fields, hbonds: false, body: PhantomData }
    }

    /// The fields that flags give.
    pub(crate) fn fields(&self) -> &Value {
        &self.fields
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields == json!({}) && !self.hbonds
    }

    /// What is to be known of flags that have no effect in a request, where one asks for bonds of
    /// the solute and another for those of other atoms.
    pub(crate) fn without_effect(&self, request: &Value) -> Option<&'static str> {
        let names_atoms = request[BONDED].as_array().is_some_and(|masks| !masks.is_empty());
        (self.hbonds && names_atoms).then_some(
            "`--hbonds` has no effect beside `--hbond`, whose atoms take the place of the solute: \
             for both, name the solute with another `--hbond`, as `--hbond '!:HOH'`",
        )
    }

    /// Puts the fields over those of a request.
    pub(crate) fn over(&self, request: &mut Value) {
        merge(request, &self.fields);
        if self.hbonds && request.get(CRITERION).is_none() {
            // By name, without bounds that another criterion could not have.
            set(request, &[CRITERION], "angle".into());
        }
    }
}

fn asks_for_bonds(schema: &str) -> bool {
    schema::fields(schema::named(schema)).any(|(field, _)| field == CRITERION)
}

fn hbonds() -> Arg {
    let help = "Hydrogen bonds of the solute, by 3 Å and 135° unless the flags below say otherwise; \
                `--hbond` names other atoms in place of it";
    Arg::new(HBONDS).long(HBONDS).help(help).action(ArgAction::SetTrue)
}

impl<B: Body> Args for Flags<B> {
    fn augment_args(command: Command) -> Command {
        let command = if asks_for_bonds(B::SCHEMA) { command.arg(hbonds()) } else { command };
        flags(B::SCHEMA, B::WITHOUT).iter().fold(command, |command, flag| {
            // A command that has such a flag already means the same by it.
            let is_there = command.get_arguments().any(|arg| arg.get_long() == Some(&flag.name));
            if is_there { command } else { command.arg(flag.arg()) }
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<B: Body> FromArgMatches for Flags<B> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut request = json!({});
        for flag in flags(B::SCHEMA, B::WITHOUT) {
            let Ok(Some(values)) = matches.try_get_many::<Value>(&flag.id()) else { continue };
            let mut values: Vec<Value> = values.cloned().collect();
            let is_list = matches!(kind(flag.schema), Kind::Texts | Kind::Masks | Kind::Futures);
            let value =
                if is_list { Value::Array(values) } else { values.pop().unwrap_or_default() };
            set(&mut request, &flag.path, value);
        }
        // Another part of the command may have it.
        let hbonds = asks_for_bonds(B::SCHEMA) && matches.get_flag(HBONDS);
        Ok(Self { fields: request, hbonds, body: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Puts a value at a path; objects on the way are made.
pub(crate) fn set(request: &mut Value, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *request = value;
        return;
    };
    if !request.is_object() {
        *request = Value::Object(Map::new());
    }
    if let Some(members) = request.as_object_mut() {
        set(members.entry(*first).or_insert(Value::Null), rest, value);
    }
}

/// A request as the command line has it.
#[derive(Args, Debug)]
pub(crate) struct Request<B: Body> {
    #[command(flatten)]
    source: Source<B>,

    /// Check names, types, units and bounds, and show what would be sent; submit nothing. For a
    /// system, job or analysis the service is asked, if there is a key for it: it checks files,
    /// force fields and its limits, and tells what the task would take.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl<B: Body> Request<B> {
    /// One whose fields a program gives.
    pub(crate) fn of(fields: Value) -> Self {
        Self { source: Source { file: None, flags: Flags::of(fields) }, dry_run: false }
    }

    /// The request that the flags and the file make.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        self.source.value()
    }

    /// The request, checked by the document's bounds.
    pub(crate) fn checked(&self) -> Result<(Value, B::Checked), Failure> {
        self.source.checked()
    }
}

/// Where a request comes from.
#[derive(Args, Debug)]
pub(crate) struct Source<B: Body> {
    /// The request as TOML, YAML or JSON, by its extension; `-` for standard input, any of these.
    /// Flags override what is in it.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    flags: Flags<B>,
}

impl<B: Body> Source<B> {
    /// The request that the flags and the file make.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        let mut request = match &self.file {
            Some(path) => load::<B>(path)?,
            None => json!({}),
        };
        self.flags.over(&mut request);
        Ok(request)
    }

    /// The request, checked by the document's bounds.
    pub(crate) fn checked(&self) -> Result<(Value, B::Checked), Failure> {
        let value = self.value()?;
        let checked = check::<B>(&value)?;
        Ok((value, checked))
    }
}

fn load<B: Body>(path: &Path) -> Result<Value, Failure> {
    let mut value = document(path)?;
    known::<B>(&mut value).map_err(|failure| failure.within(&path.display().to_string()))?;
    Ok(value)
}

/// The object in a file of TOML, YAML or JSON.
pub(crate) fn document(path: &Path) -> Result<Value, Failure> {
    let (text, name) = read(path)?;
    let extension = path.extension().and_then(|e| e.to_str());
    parse(&text, extension).map_err(|e| Failure::invalid(format!("{name}: {e}")))
}

/// Refuses names that a request does not have, and turns texts with units into numbers.
pub(crate) fn known<B: Body>(value: &mut Value) -> Result<(), Failure> {
    only_known::<B::Checked>(value).map_err(|failure| failure.remedy(explained::<B>()))?;
    normalise(value, schema::named(B::SCHEMA), &mut Vec::new())
}

pub(crate) fn only_known<T: molbox::Request>(value: &Value) -> Result<(), Failure> {
    let unknown = molbox::unknown_fields::<T>(value);
    let mut problems: Vec<(String, String)> = Vec::new();
    for field in &unknown.listed {
        let question = field.question().map(|question| format!("; {question}")).unwrap_or_default();
        problems.push((field.path(), format!("no such field{question}")));
    }
    if unknown.more > 0 {
        problems.push((String::new(), format!("{} more fields that there are not", unknown.more)));
    }
    Failure::invalid_fields(problems).map_or(Ok(()), Err)
}

pub(crate) fn check<B: Body>(value: &Value) -> Result<B::Checked, Failure> {
    molbox::from_json(&value.to_string()).map_err(|invalid| {
        let problems = invalid.violations.into_iter().map(|violation| {
            // The text that the line and column count in is not the user's.
            let end = violation.msg.rfind(" at line ").unwrap_or(violation.msg.len());
            (violation.path(), violation.msg[..end].to_owned())
        });
        let failure = Failure::invalid_fields(problems.collect()).expect("something is wrong");
        failure.remedy(explained::<B>())
    })
}

fn explained<B: Body>() -> String {
    format!("`molbox example {}` explains every field", noun::<B>())
}

fn noun<B: Body>() -> &'static str {
    match B::SCHEMA {
        "SystemBuildRequest" => "system",
        "JobCreateParams" => "job",
        "AnalysisRequest" => "analysis",
        _ => "margin",
    }
}

/// The text of a file, or of standard input for `-`; and how to call it.
pub(crate) fn read(path: &Path) -> Result<(String, String), Failure> {
    if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        return read
            .map(|_| (text, "standard input".to_owned()))
            .map_err(|e| Failure::new(Code::File, format!("standard input: {e}")));
    }
    std::fs::read_to_string(path)
        .map(|text| (text, path.display().to_string()))
        .map_err(|e| Failure::file(path, &e))
}

/// The object in a text of TOML, YAML or JSON, recognised by its extension or else by its looks.
pub(crate) fn parse(text: &str, extension: Option<&str>) -> Result<Value, String> {
    let value = match extension {
        Some("json") => json(text),
        Some("toml") => toml(text),
        Some("yaml" | "yml") => yaml(text),
        Some(other) => Err(format!("is neither .toml, .yaml nor .json, but .{other}")),
        None if text.trim_start().starts_with('{') => json(text),
        None => yaml(text).ok().filter(Value::is_object).map_or_else(|| toml(text), Ok),
    }?;
    if value.is_object() { Ok(value) } else { Err("is no object".to_owned()) }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| e.to_string())
}

fn toml(text: &str) -> Result<Value, String> {
    toml::from_str(text).map_err(|e| e.to_string())
}

/// An empty file is a request without fields.
fn yaml(text: &str) -> Result<Value, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
    Ok(if value.is_null() { json!({}) } else { value })
}

fn normalise(
    value: &mut Value,
    schema: &'static Value,
    path: &mut Vec<String>,
) -> Result<(), Failure> {
    let schema = schema::resolved(schema);
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if let Some((_, field)) = schema::fields(schema).find(|(known, _)| known == name) {
                    path.push(name.clone());
                    normalise(member, field, path)?;
                    path.pop();
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(format!("[{index}]"));
                normalise(item, &schema["items"], path)?;
                path.pop();
            }
        }
        Value::String(text) if matches!(kind(schema), Kind::Number | Kind::Integer) => {
            *value = number(schema, text).map_err(|problem| {
                Failure::invalid(format!("{}: {problem}", path.join(".").replace(".[", "[")))
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// Puts what the flags say over what the file says.
pub(crate) fn merge(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                merge(below.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Job, flags, known, normalise, parse};
    use crate::schema;

    #[test]
    fn every_flag_of_a_request_has_a_name_of_its_own() {
        for name in ["SystemBuildRequest", "JobCreateParams", "AnalysisRequest", "MarginJobRequest"]
        {
            let mut names: Vec<String> =
                flags(name, &[]).into_iter().map(|flag| flag.name).collect();
            let n = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), n, "{name}: {names:?}");
        }
    }

    #[test]
    fn a_file_may_be_toml_yaml_or_json() {
        let request = json!({"temperature": 310, "production": {"time": "500ps"}});
        for (text, extension) in [
            (r#"{"temperature": 310, "production": {"time": "500ps"}}"#, Some("json")),
            ("temperature = 310\n[production]\ntime = '500ps'\n", Some("toml")),
            ("temperature: 310\nproduction:\n  time: 500ps\n", Some("yaml")),
            ("temperature = 310\n[production]\ntime = '500ps'\n", None),
            ("temperature: 310\nproduction:\n  time: 500ps\n", None),
            (r#" {"temperature": 310, "production": {"time": "500ps"}}"#, None),
        ] {
            assert_eq!(parse(text, extension).unwrap(), request, "{text}");
        }
    }

    #[test]
    fn texts_with_units_become_numbers_and_unknown_keys_are_refused() {
        let schema = schema::named("JobCreateParams");
        let mut request =
            json!({"production": {"time": "500ps"}, "integration_timestep": "0.004 ps"});
        normalise(&mut request, schema, &mut Vec::new()).unwrap();
        assert_eq!(request, json!({"production": {"time": 0.5}, "integration_timestep": 4}));

        let mut wrong = json!({"equilibration": [{"time": 1}, {"tiem": 1}]});
        let failure = known::<Job>(&mut wrong).unwrap_err();
        assert_eq!(
            failure.message,
            "equilibration[1].tiem: no such field; did you mean equilibration[1].time?"
        );
    }
}
