//! `molbox service`, `molbox account` and `molbox usage`

use clap::{Subcommand, ValueEnum};
use molbox::Finite;
use molbox::workflow::types::Usage;
use molbox_codegen::Part;

use super::task;
use crate::context::Context;
use crate::failure::Failure;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Whether it is up, and its version.
    Health {
        /// Which of the two addresses to ask.
        #[arg(long, value_enum, default_value_t)]
        at: At,
    },
    /// Whether its process works, whatever it needs.
    Live,
    /// Its measurements, in the text format of Prometheus; takes a key.
    Metrics,
    /// The document by which it works.
    Document,
}

/// One of the two base addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum At {
    #[default]
    Workflow,
    Margin,
}

impl At {
    /// The part of the document that has its operations.
    pub(crate) fn part(self) -> Part {
        match self {
            Self::Workflow => Part::Workflow,
            Self::Margin => Part::Margin,
        }
    }
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    // But for the metrics these need no key.
    let or_none = |key: &Option<String>| key.clone().unwrap_or_else(|| "none".to_owned());
    let (at, path) = match command {
        Command::Health { at } => (at, "/healthz"),
        Command::Metrics => {
            let text = context.workflow()?.call("GET", "/metrics")?.send().await?.bytes().await?;
            return context.output.bytes(&text);
        }
        Command::Live => (At::Workflow, "/livez"),
        Command::Document => (At::Workflow, "/openapi.json"),
    };
    let bytes = match at {
        At::Workflow => {
            let client =
                context.connection(&context.base_url, &or_none(&context.key))?.workflow()?;
            client.call("GET", path)?.send().await?.bytes().await?
        }
        At::Margin => {
            let client =
                context.connection(&context.margin_url, &or_none(&context.margin_key))?.margin()?;
            client.call("GET", path)?.send().await?.bytes().await?
        }
    };
    match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(value) if ["/healthz", "/livez"].contains(&path) => context.output.record(&value),
        Ok(value) => context.output.json(&value),
        Err(_) => context.output.bytes(&bytes),
    }
}

/// `molbox account`
pub(crate) async fn account(context: &Context) -> Result<(), Failure> {
    let account = context.workflow()?.account_view().send().await?.into_inner();
    context.output.record(&task::value(&account)?)
}

/// `molbox usage`
pub(crate) async fn usage(context: &Context) -> Result<(), Failure> {
    let usage = context.workflow()?.usage_view().send().await?.into_inner();
    if context.output.is_json() {
        return context.output.json(&usage);
    }
    let row = |what: &str, used: String, most: Option<String>| {
        let most = most.unwrap_or_else(|| "any".to_owned());
        serde_json::json!({ "what": what, "used": used, "most": most })
    };
    let size = |bytes: i64| indicatif::DecimalBytes(bytes.unsigned_abs()).to_string();
    let Usage { open_tasks, files, bytes, hours, public_entries, .. } = &usage;
    let mut rows = vec![
        row(
            "tasks that wait or run",
            open_tasks.used.to_string(),
            open_tasks.most.map(|most| most.to_string()),
        ),
        row("files", files.used.to_string(), files.most.map(|most| most.to_string())),
        row("files and results on disk", size(bytes.used), bytes.most.map(size)),
    ];
    rows.extend(hours.as_ref().map(|hours| {
        let shown = |hours: Finite| format!("{:.2} h", hours.get());
        let what = format!("time of tasks in {} days", hours.days);
        row(&what, shown(hours.used), hours.most.map(shown))
    }));
    rows.extend(public_entries.map(|is_any| {
        let most = (!is_any).then(|| "none, without a mirror".to_owned());
        row("public entries", String::new(), most)
    }));
    context.output.table(&[("WHAT", "/what"), ("USED", "/used"), ("MOST", "/most")], &rows)
}
