//! `molbox doctor`: what stands between this machine and the service.

use jiff::Timestamp;
use molbox::Answer;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Code, Failure};
use crate::schema;

/// Clocks that differ by more make links expire before their time.
const MAX_SKEW_SECONDS: i64 = 60;

/// Of a service whose margin endpoint has nothing to calculate from.
const MARKET_DATA: &str = "nothing, unless margins are wanted; then the operator puts market data into the \
                           folder of `margin.market`, or invented ones by `molboxd market sample`, and \
                           runs `molboxd market reload`: see docs/market-data.md";

/// What was looked at, how it stands, and what to do.
struct Findings(Vec<Value>);

impl Findings {
    fn add(&mut self, what: &str, found: Result<String, Failure>) -> bool {
        let is_ok = found.is_ok();
        self.0.push(match found {
            Ok(found) => json!({"check": what, "status": "ok", "found": found}),
            Err(failure) => {
                json!({"check": what, "status": "failed", "found": failure.to_string(), "remedy": failure.remedy})
            }
        });
        is_ok
    }

    /// Something that is in the way of some, and not of all.
    fn remark(&mut self, what: &str, found: &str, remedy: &str) {
        self.0.push(json!({"check": what, "status": "remark", "found": found, "remedy": remedy}));
    }

    fn has_failed(&self, what: &str) -> bool {
        self.0.iter().any(|finding| finding["check"] == what && finding["status"] == "failed")
    }
}

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let mut findings = Findings(Vec::new());
    let profile =
        context.profile.as_deref().map_or_else(|| "none in use".to_owned(), str::to_owned);
    findings.add("profile", Ok(profile));
    let key = context.key.as_deref().unwrap_or("none");
    let reached = workflow_health(context, key).await;
    let clock = reached.as_ref().ok().map(|answer| answer.header("date").map(skew));
    let (reached, answer) = match reached {
        Ok(answer) => (Ok(context.base_url.clone()), Some(answer)),
        Err(error) => (Err(error), None),
    };
    if findings.add("workflow", reached) {
        if let Some(Some(skew)) = clock {
            findings.add("clock", skew);
        }
        if let Some(answer) = answer {
            findings.add("queue", queue(answer).await);
        }
        findings.add("key", account(context).await);
        findings.add("version", version(context, key).await);
    }
    let margin_key = context.margin_key.as_deref().unwrap_or("none");
    match margin_health(context, margin_key).await {
        // A key that is not taken, which is said above, does not get an answer about the data.
        Ok(_) if !findings.has_failed("key") && has_no_market_data(context, margin_key).await => {
            let found = format!("{}: no market data, margins are refused", context.margin_url);
            findings.remark("margin", &found, MARKET_DATA);
        }
        reached => _ = findings.add("margin", reached.map(|_| context.margin_url.clone())),
    }
    let columns = [
        ("CHECK", "/check"),
        ("STATUS", "/status"),
        ("FOUND", "/found"),
        ("WHAT TO DO", "/remedy"),
    ];
    context.output.table(&columns, &findings.0)?;
    if findings.0.iter().all(|finding| finding["status"] != "failed") {
        return Ok(());
    }
    let code = match () {
        () if findings.has_failed("workflow") || findings.has_failed("margin") => Code::Unreachable,
        () if findings.has_failed("key") => Code::Auth,
        () => Code::Other,
    };
    Err(Failure::new(code, "not everything is as it should be"))
}

async fn workflow_health(context: &Context, key: &str) -> Result<Answer, Failure> {
    let answer = context
        .connection(&context.base_url, key)?
        .workflow()?
        .call("GET", "/healthz")?
        .send()
        .await;
    let remedy = "is the service up, and --base-url whole, with the stage at its end (`/local`)?";
    let answer = answer.map_err(|error| Failure::from(error).remedy(remedy))?;
    // The margin endpoint says how it is, too.
    let asked = context.connection(&context.base_url, key)?.retries(0).workflow()?;
    match asked.call("GET", "/info/account")?.send().await {
        Err(error) if error.status().is_some_and(|status| status == 404) => {
            let message = "this is not the address of the simulation workflow";
            let remedy = "is --base-url that of the margin endpoint? `molbox login` finds the \
                          right one by itself";
            Err(Failure::new(Code::Unreachable, message).remedy(remedy))
        }
        // Whether the key is taken is another question.
        _ => Ok(answer),
    }
}

/// Whether tasks are started. What keeps them from it is the operator's to mend.
async fn queue(answer: Answer) -> Result<String, Failure> {
    let health: Value =
        serde_json::from_slice(&answer.bytes().await?).map_err(anyhow::Error::from)?;
    let held = health["held"].as_array().map(Vec::as_slice).unwrap_or_default();
    let why: Vec<&str> = held.iter().filter_map(|hold| hold["message"].as_str()).collect();
    if why.is_empty() {
        return Ok("tasks are started".to_owned());
    }
    Err(Failure::new(Code::Other, why.join("; ")).remedy("tell the operator of the service"))
}

async fn margin_health(context: &Context, key: &str) -> Result<Answer, Failure> {
    let answer = context
        .connection(&context.margin_url, key)?
        .margin()?
        .call("GET", "/healthz")?
        .send()
        .await;
    answer.map_err(|error| Failure::from(error).remedy("is --margin-url right?"))
}

/// Whether margins are refused for want of market data, without which the address is in good health.
/// Asked for the margin of nothing, which needs no calculation.
async fn has_no_market_data(context: &Context, key: &str) -> bool {
    let asked = async {
        // Once, for nobody brings the data within seconds.
        let client = context.connection(&context.margin_url, key)?.retries(0).margin()?;
        let call = client.call("POST", "/margin/submit_job/historical/json")?;
        let call = call.header("content-type", "application/json")?;
        let nothing = json!({"portfolio": {"futures": []}});
        call.body(nothing.to_string()).send().await.map_err(Failure::from)
    };
    asked.await.is_err_and(|failure| failure.message.contains("market data"))
}

/// How far this clock is from that of an answer.
fn skew(date: &str) -> Result<String, Failure> {
    let served = jiff::fmt::rfc2822::parse(date)
        .map_err(|e| Failure::new(Code::Other, format!("{date:?}: {e}")))?;
    let seconds = Timestamp::now().as_second() - served.timestamp().as_second();
    if seconds.abs() <= MAX_SKEW_SECONDS {
        return Ok(format!("within {} s of the service's", seconds.abs().max(1)));
    }
    let failure = Failure::new(Code::Other, format!("{seconds} s off the service's"));
    Err(failure.remedy("set the clock, or have the operator set that of the service"))
}

async fn account(context: &Context) -> Result<String, Failure> {
    let account = context.workflow()?.account_view().send().await?;
    let expires =
        account.key_expires_at.as_ref().map(|at| format!(", until {at}")).unwrap_or_default();
    Ok(format!("{} of {}{expires}", account.key_name, account.account))
}

/// Whether the service's document has every operation of ours.
async fn version(context: &Context, key: &str) -> Result<String, Failure> {
    let client = context.connection(&context.base_url, key)?.workflow()?;
    let bytes = client.call("GET", "/openapi.json")?.send().await?.bytes().await?;
    let served: Value = serde_json::from_slice(&bytes).map_err(anyhow::Error::from)?;
    let lacking: Vec<String> = schema::document()
        .operations()
        .filter(|operation| served["paths"][operation.path][operation.method].is_null())
        .map(|operation| format!("{} {}", operation.method.to_uppercase(), operation.path))
        .collect();
    // The number of the interface is another one, and stands still.
    let [theirs, ours] = [&served, &schema::document().value]
        .map(|document| document["info"]["x-release"].as_str().unwrap_or("?").to_owned());
    if lacking.is_empty() {
        return Ok(format!("service {theirs}, command line {ours}"));
    }
    let failure =
        Failure::new(Code::Other, format!("service {theirs} lacks {}", lacking.join(", ")));
    Err(failure.remedy(format!("use the command line of version {theirs}")))
}
