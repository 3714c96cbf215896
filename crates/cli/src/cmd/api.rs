//! `molbox api`: any request, for what has no verb.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::service::At;
use crate::context::Context;
use crate::failure::Failure;
use crate::{request, schema};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// GET, POST, DELETE, …
    #[arg(required_unless_present = "list")]
    method: Option<String>,
    /// Path below the base address, such as /info/jobs.
    #[arg(required_unless_present = "list")]
    path: Option<String>,
    /// Query parameter.
    #[arg(long = "query", value_name = "NAME=VALUE", value_parser = pair)]
    query: Vec<(String, String)>,
    /// Member of a JSON body; the value is JSON if it can be read as such, else text.
    #[arg(short = 'F', long = "field", value_name = "NAME=VALUE", value_parser = pair)]
    fields: Vec<(String, String)>,
    /// Header.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// File to send as the body; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "fields")]
    input: Option<PathBuf>,
    /// Send a JSON body also with fields that the document does not have, for a newer service.
    #[arg(long)]
    any_field: bool,
    /// Which of the two addresses.
    #[arg(long, value_enum, default_value_t)]
    at: At,
    /// Show status and headers, too, on standard error.
    #[arg(short, long)]
    include: bool,
    /// List the operations of the document.
    #[arg(long, conflicts_with = "method")]
    list: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("must be NAME:VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<(), Failure> {
    let (Some(method), Some(path)) = (&arguments.method, &arguments.path) else {
        return list(context);
    };
    let mut body = None;
    if let Some(input) = &arguments.input {
        body = Some(request::read(input)?.0);
    }
    if !arguments.fields.is_empty() {
        let mut members = json!({});
        for (name, text) in &arguments.fields {
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()));
            request::set(&mut members, &name.split('.').collect::<Vec<_>>(), value);
        }
        body = Some(members.to_string());
    }
    if let Some(body) = body.as_deref().filter(|_| !arguments.any_field)
        && let Ok(body) = serde_json::from_str(body)
        && let Some(schema) = schema::request(method, path, arguments.at.part())
    {
        known(schema, &body)?;
    }
    let workflow = context.workflow()?;
    let margin = context.margin()?;
    let mut call = match arguments.at {
        At::Workflow => workflow.call(method, path)?,
        At::Margin => margin.call(method, path)?,
    };
    for (name, value) in &arguments.query {
        call = call.query(name, value);
    }
    for (name, value) in &arguments.headers {
        call = call.header(name, value)?;
    }
    if let Some(body) = body {
        if !arguments.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            call = call.header("content-type", "application/json")?;
        }
        call = call.body(body);
    }
    let mut answer = call.send().await?;
    if arguments.include {
        context.output.note(&format!("{}", answer.status()));
        for (name, value) in answer.headers() {
            context.output.note(&format!("{name}: {value}"));
        }
    }
    let is_json = answer.header("content-type").is_some_and(|media| media.contains("json"));
    if is_json {
        let bytes = answer.bytes().await?;
        return match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => context.output.json(&value),
            Err(_) => context.output.bytes(&bytes),
        };
    }
    while let Some(chunk) = answer.chunk().await? {
        context.output.bytes(&chunk)?;
    }
    Ok(())
}

/// Refuses names that a request of this schema does not have.
fn known(schema: &str, body: &Value) -> Result<(), Failure> {
    macro_rules! known {
        ($($module:ident::$name:ident),* $(,)?) => {
            match schema {
                $(stringify!($name) => request::only_known::<molbox::$module::types::$name>(body),)*
                _ => Ok(()),
            }
        };
    }
    let known = known!(
        workflow::FileRegistration,
        workflow::SystemBuildRequest,
        workflow::JobCreateParams,
        workflow::JobExtension,
        workflow::AnalysisRequest,
        workflow::SignIn,
        workflow::InvitationCheck,
        workflow::InvitationAcceptance,
        workflow::PasswordChange,
        workflow::KeyRequest,
        workflow::AccountRequest,
        workflow::AccountChange,
        margin::MarginJobRequest,
    );
    known.map_err(|failure| failure.remedy("--any-field sends it as it is"))
}

fn list(context: &Context) -> Result<(), Failure> {
    let rows = schema::document().operations().map(|operation| {
        let id = schema::id(&operation);
        json!({
            "at": operation.part.module(),
            "method": operation.method.to_uppercase(),
            "path": operation.path,
            "operation": id,
            "summary": operation.value["summary"],
            "command": command(id),
        })
    });
    let rows: Vec<Value> = rows.collect();
    let columns = [
        ("METHOD", "/method"),
        ("PATH", "/path"),
        ("COMMAND", "/command"),
        ("SUMMARY", "/summary"),
    ];
    context.output.table(&columns, &rows)
}

/// The command that makes a call of an operation.
pub(crate) fn command(operation: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|(id, _)| *id == operation).map(|(_, command)| *command)
}

const COMMANDS: [(&str, &str); 46] = [
    ("upload_url_create", "file link"),
    ("file_register", "file register"),
    ("file_list", "file list"),
    ("file_view", "file show"),
    ("file_contents", "file contents"),
    ("file_structure", "file structure"),
    ("file_trajectory", "file trajectory"),
    ("file_delete", "file delete"),
    ("file_download", "file download"),
    ("system_submit", "system submit"),
    ("system_check", "system estimate"),
    ("system_list", "system list"),
    ("system_view", "system show"),
    ("system_cancel", "system cancel"),
    ("system_delete", "system delete"),
    ("system_download", "system download"),
    ("mask_view", "system atoms"),
    ("system_structure", "system structure"),
    ("job_submit", "job submit"),
    ("job_check", "job estimate"),
    ("job_extend", "job extend"),
    ("job_retry", "job retry"),
    ("job_list", "job list"),
    ("job_view", "job show"),
    ("job_log", "job log"),
    ("job_series", "job series"),
    ("job_watch", "job events"),
    ("job_cancel", "job cancel"),
    ("job_delete", "job delete"),
    ("job_download", "job download"),
    ("job_trajectory", "job trajectory"),
    ("analysis_submit", "analysis submit"),
    ("analysis_check", "analysis estimate"),
    ("analysis_list", "analysis list"),
    ("analysis_view", "analysis show"),
    ("analysis_cancel", "analysis cancel"),
    ("analysis_delete", "analysis delete"),
    ("analysis_retrieve", "analysis data"),
    ("margin_submit", "margin submit"),
    ("account_view", "account"),
    ("usage_view", "usage"),
    ("account_watch", "events"),
    ("service_health", "service health"),
    ("service_live", "service live"),
    ("service_metrics", "service metrics"),
    ("service_document", "service document"),
];

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use molbox_codegen::Part;

    use serde_json::json;

    use super::{command, known};
    use crate::{Cli, schema};

    #[test]
    fn a_misspelt_field_is_found_in_the_body_of_every_operation() {
        for operation in schema::document().operations() {
            let Some(schema) = schema::request(operation.method, operation.path, operation.part)
            else {
                continue;
            };
            assert!(
                known(schema, &json!({"no such field": 1})).is_err(),
                "{}",
                schema::id(&operation)
            );
        }
        assert_eq!(
            schema::request("post", "/extend/job/job_x", Part::Workflow),
            Some("JobExtension")
        );
        assert_eq!(
            schema::request("POST", "/margin/submit_job/historical/csv", Part::Margin),
            Some("MarginJobRequest")
        );
        assert_eq!(schema::request("GET", "/info/jobs", Part::Workflow), None);
    }

    #[test]
    fn every_operation_has_a_command_that_there_is() {
        for operation in schema::document().operations() {
            let id = schema::id(&operation);
            // What browsers do, of people who have signed in.
            if ["session", "key", "admin"].iter().any(|tag| operation.value["tags"][0] == *tag) {
                assert_eq!(command(id), None, "{id}");
                continue;
            }
            let words = command(id).unwrap_or_else(|| panic!("{id} has no command"));
            let mut at = Cli::command();
            for word in words.split(' ') {
                at = at
                    .find_subcommand(word)
                    .unwrap_or_else(|| panic!("{id}: no command {words:?}"))
                    .clone();
            }
        }
    }
}
