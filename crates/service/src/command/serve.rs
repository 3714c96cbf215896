//! `molboxd serve`: listens, runs tasks, and ends when asked, leaving the tasks to the next.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use futures::future::OptionFuture;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::accounts::link::LIFETIME;
use crate::app::App;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Deed, Expired, UNDER_WAY};
use crate::folder::failure::is_absence;
use crate::http::connections::{self, Door, raise_file_limit};
use crate::http::routes;
use crate::objects::garbage::{sweep, sweep_begun, sweep_deleted};
use crate::objects::{Begun, Key};
use crate::tenure::Tenant;
use crate::{files, folder, runner, servers, webhook};

/// The file of the data folder with the addresses.
const ADDRESSES: &str = "addresses.json";

/// How long what does not answer is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// How long the runner may take to end.
const GIVE_BACK: Duration = Duration::from_secs(3);

/// Where a service listens, and which process it is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Addresses {
    pub(super) base_url: String,
    pub(super) margin_base_url: String,
    pub(super) pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics_url: Option<String>,
}

impl Addresses {
    /// Those that the last service of a data folder has announced; none when it has not.
    pub(super) fn announced(data: &Path) -> Result<Option<Self>> {
        let path = data.join(ADDRESSES);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("read {}", path.display()))?,
        };
        serde_json::from_slice(&text).with_context(|| format!("read {}", path.display())).map(Some)
    }
}

/// An address that leads to where a service listens. All addresses of a machine together are none
/// that a program could connect to everywhere.
pub(super) fn origin_at(listened: SocketAddr) -> String {
    let mut address = listened;
    match listened.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("http://{address}")
}

/// Serves until SIGTERM or SIGINT; says when it can be reached.
pub(super) async fn serve(
    config: Config,
    clock: Clock,
    listens: impl FnOnce(Addresses),
) -> Result<()> {
    folder::make(&config.data)?;
    // Held until the process ends.
    let _lock = folder::lock(&config.data)?;
    let app = Arc::new(opened(config, clock).await?);
    servers::enter(&app).await?;
    // Before anything is removed or ended that its records do not know.
    let mut tenant = Tenant::enter(&app).await?;
    app.objects.clear_unfinished().context("clear unfinished uploads")?;
    // Read before anything new can be announced: what stands here now, nobody is writing.
    let garbage = app.db.garbage(app.now(), true).await?;
    let cut_off = match app.db.is_shared() {
        // Another server may be sending.
        true => Vec::new(),
        false => begun(&app, Timestamp::MAX).await,
    };
    let listen = |address| async move {
        TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))
    };
    raise_file_limit(&app.config.connections, 2);
    let workflow = listen(app.config.listen).await?;
    let margin = listen(app.config.margin_listen).await?;
    let operators = match app.config.metrics_listen.0 {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    app.listens_at(origin_at(workflow.local_addr()?), origin_at(margin.local_addr()?));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    tracing::info!(workflow = app.base_url(), margin = app.margin_base_url(), "listening");
    // Before anybody can know whom to signal.
    let hangup = signal(SignalKind::hangup())?;
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Small files, also on a full disk.
    let addresses = app.reserve.with(|| announce(&app, operators.as_ref()))?;
    app.reserve.with(|| app.market.announce(&app.config, app.now()))?;
    listens(addresses);
    let reloads = tokio::spawn(reload_on_signal(app.clone(), hangup));
    tokio::spawn(sweep_all(app.clone(), garbage));
    tokio::spawn({
        let app = app.clone();
        async move { sweep_begun(&app.objects, cut_off).await }
    });
    tokio::spawn(keep_house(app.clone()));
    let meeting = tokio::spawn(servers::meet(app.clone()));
    let mut runner = tokio::spawn(runner::run(app.clone()));
    let reports = tokio::spawn(webhook::deliver(app.clone()));
    let serve = |listener, router| {
        connections::serve(
            Door::new(app.config.connections.clone()),
            listener,
            router,
            stopped.clone(),
        )
    };
    let workflow = serve(workflow, routes::workflow(&app)?);
    let servers = async {
        let operators = operators.map(|listener| serve(listener, routes::operators(&app)));
        tokio::join!(workflow, serve(margin, routes::margin(&app)), OptionFuture::from(operators),);
        Ok::<(), anyhow::Error>(())
    };
    let mut asked = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let ask_to_stop = async {
        asked().await;
        tracing::info!("stopping; running tasks go on and are adopted at the next start");
        app.leaving.send_replace(true);
        let drain = Duration::from_secs(app.config.server.drain_seconds);
        // Who asks twice does not want to wait.
        let _ = tokio::time::timeout(drain, asked()).await;
        app.stopping.send_replace(true);
        stop.send(true).context("tell the servers to stop")
    };
    let serve = async { tokio::try_join!(servers, ask_to_stop) };
    tokio::select! {
        served = serve => drop(served?),
        // What runs goes on without it, for whoever has a right to it.
        lost = tenant.hold() => return Err(lost),
    }
    meeting.abort();
    reports.abort();
    servers::leave(&app).await;
    // Another server may run the tasks at once if this one says that it does not; what it collects
    // at the moment may take longer.
    if tokio::time::timeout(GIVE_BACK, &mut runner).await.is_err() {
        runner.abort();
    }
    // When nothing is written any more.
    if tokio::time::timeout(GIVE_BACK, tenant.leave()).await.is_err() {
        tracing::warn!("the object store does not answer; the next start may wait for a while");
    }
    reloads.abort();
    Ok(())
}

/// Opens what the service works with, and waits for what of it is elsewhere and does not answer yet.
async fn opened(config: Config, clock: Clock) -> Result<App> {
    let begun = Instant::now();
    let limit = Duration::from_secs(config.server.wait_seconds);
    let mut said = None;
    loop {
        let error = match App::open(config.clone(), clock.clone()) {
            Err(error) if is_absence(&error) && begun.elapsed() < limit => format!("{error:#}"),
            opened => return opened,
        };
        // Once, and not at every try.
        if said.as_ref() != Some(&error) {
            tracing::warn!(cause = error, "waiting for {} s at most", limit.as_secs());
            said = Some(error);
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Removes what an earlier service deleted, or was writing when it ended.
async fn sweep_all(app: Arc<App>, garbage: Vec<String>) {
    for key in garbage {
        sweep(&app.objects, &app.db, Key::stored(key)).await;
    }
}

/// What was sent to the store in parts, begun before a moment, and has not become an object; nothing
/// where the store does not tell.
async fn begun(app: &App, before: Timestamp) -> Vec<Begun> {
    let found = app.objects.begun(before).await;
    found.unwrap_or_else(|error| {
        tracing::warn!(cause = format!("{error:#}"), "list uploads that were cut off");
        Vec::new()
    })
}

/// Removes what has become garbage by now, and what servers have left that are gone.
async fn sweep_due(app: &Arc<App>) -> Result<()> {
    let garbage = app.db.garbage(app.now(), false).await?;
    sweep_all(app.clone(), garbage).await;
    sweep_begun(&app.objects, begun(app, ago(app, UNDER_WAY)).await).await;
    Ok(())
}

/// How often it is looked for files that have waited too long.
const HOUSEKEEPING: Duration = Duration::from_secs(600);
/// So many are deleted in one transaction at most.
const EXPIRED: usize = 1000;

/// Measures what no earlier version has, and then deletes from time to time what has expired.
async fn keep_house(app: Arc<App>) {
    if let Err(error) = measure(&app).await {
        // The next start tries again.
        tracing::error!(cause = format!("{error:#}"), "measure the results of tasks");
    }
    loop {
        if let Err(error) = expire_pending_files(&app).await {
            tracing::error!(cause = format!("{error:#}"), "delete files that have waited too long");
        }
        if let Err(error) = expire_results(&app).await {
            tracing::error!(
                cause = format!("{error:#}"),
                "delete results that were kept for a time"
            );
        }
        if let Err(error) = sweep_sent(&app).await {
            tracing::error!(cause = format!("{error:#}"), "remove what was sent and never taken");
        }
        if let Err(error) = forget_audit(&app).await {
            tracing::error!(cause = format!("{error:#}"), "forget old entries of the audit log");
        }
        if let Err(error) = sweep_due(&app).await {
            tracing::error!(cause = format!("{error:#}"), "remove objects that nobody needs");
        }
        if let Err(error) = forget_expired(&app).await {
            tracing::error!(cause = format!("{error:#}"), "forget answers and sessions");
        }
        tokio::time::sleep(HOUSEKEEPING).await;
    }
}

async fn measure(app: &Arc<App>) -> Result<()> {
    for id in app.db.unmeasured_tasks().await? {
        let objects = app.objects.clone();
        let prefix = Key::task(&id);
        let bytes = tokio::task::spawn_blocking(move || objects.size(&prefix)).await??;
        app.db.set_task_bytes(id, bytes).await?;
    }
    Ok(())
}

/// What the service does by itself.
fn by_itself(app: &App, action: &'static str) -> Deed {
    Deed { at: app.now(), operator: Some("molboxd".to_owned()), action, ..Deed::default() }
}

/// The moment so long ago, or the first of all.
fn ago(app: &App, time: SignedDuration) -> Timestamp {
    app.now().checked_sub(time).unwrap_or(Timestamp::MIN)
}

async fn forget_audit(app: &App) -> Result<()> {
    let days = i64::from(app.config.audit_days);
    let before = ago(app, SignedDuration::from_hours(days * 24));
    while days > 0 && app.db.forget_audit(before, EXPIRED).await? {}
    Ok(())
}

/// Answers that no repeated request gets any more, and sessions that have ended.
async fn forget_expired(app: &App) -> Result<()> {
    while app.db.forget_answers(app.now(), EXPIRED).await? {}
    while app.db.forget_sessions(app.now(), EXPIRED).await? {}
    Ok(app.db.tidy().await?)
}

async fn expire_pending_files(app: &Arc<App>) -> Result<()> {
    let hours = i64::from(app.config.limits.pending_hours);
    if hours == 0 {
        return Ok(());
    }
    let before = ago(app, SignedDuration::from_hours(hours));
    while app.db.has_expired_files(before).await? {
        for object in
            app.db.expire_pending_files(before, EXPIRED, by_itself(app, "file_expire")).await?
        {
            sweep(&app.objects, &app.db, Key::stored(object)).await;
        }
    }
    Ok(())
}

/// Announces which results are deleted soon, and deletes those whose time has come.
async fn expire_results(app: &Arc<App>) -> Result<()> {
    let retention = app.config.retention.times();
    app.db.put_off_expiry(retention).await?;
    let Some(retention) = retention else { return Ok(()) };
    loop {
        let expired = app.db.expired(app.now(), EXPIRED).await?;
        let (n_expired, mut n_deleted) = (expired.len(), 0);
        for Expired { id, account, account_name, kind } in expired {
            let deed = Deed { account: Some(account_name), ..by_itself(app, "result_expire") };
            let key = Key::task(&id);
            if app.db.delete_expired(id.clone(), account, key.to_string(), deed).await? {
                tracing::info!(task = %id, %kind, "deleted, as it was kept for its time");
                n_deleted += 1;
                app.systems.forget(&id);
                app.records.forget(&id);
                sweep_deleted(&app.objects, &app.db, key).await;
            }
        }
        // A system is deleted only when its jobs have been.
        if n_deleted == 0 || n_expired < EXPIRED {
            break;
        }
    }
    while app.db.announce_expiry(retention, app.now(), EXPIRED).await? == EXPIRED {}
    Ok(())
}

/// Removes what was sent to the store by links that have expired, and that no file waits for: links
/// go on working when their file is registered or deleted.
async fn sweep_sent(app: &Arc<App>) -> Result<()> {
    let objects = app.objects.clone();
    let sent = tokio::task::spawn_blocking(move || objects.stats(&Key::all_sent())).await??;
    let before = SystemTime::from(ago(app, LIFETIME));
    for (key, stat) in sent {
        if stat.modified < before && app.db.pending_file(key.name(), 0).await?.is_none() {
            let objects = app.objects.clone();
            tokio::task::spawn_blocking(move || objects.remove(&key)).await??;
        }
    }
    Ok(())
}

/// SIGHUP asks for the market data to be loaded anew; see `molboxd market reload`.
async fn reload_on_signal(app: Arc<App>, mut hangup: Signal) {
    while hangup.recv().await.is_some() {
        reload(&app).await;
    }
}

async fn reload(app: &Arc<App>) {
    let loading = app.clone();
    let reloaded =
        tokio::task::spawn_blocking(move || loading.market.reload(&loading.config)).await;
    if let Err(error) = reloaded.map_err(anyhow::Error::from).flatten() {
        tracing::error!(
            cause = format!("{error:#}"),
            "market data not reloaded; the old stays in use"
        );
    }
    if let Err(error) = app.market.announce(&app.config, app.now()) {
        tracing::error!(cause = format!("{error:#}"), "announce which market data is in use");
    }
    if let Some(digest) = app.market.digest()
        && let Err(error) = app.db.ask_for_market(digest).await
    {
        tracing::error!(%error, "tell the other servers which market data is in use");
    }
}

/// Writes the addresses to a file, for who started the service on free ports.
fn announce(app: &App, operators: Option<&TcpListener>) -> Result<Addresses> {
    let metrics = |listener: &TcpListener| {
        listener.local_addr().map(|address| format!("{}/metrics", origin_at(address)))
    };
    let addresses = Addresses {
        base_url: app.base_url(),
        margin_base_url: app.margin_base_url().to_owned(),
        pid: std::process::id(),
        metrics_url: operators.map(metrics).transpose()?,
    };
    let path = app.config.data.join(ADDRESSES);
    files::write(&path, &serde_json::to_vec(&addresses)?)
        .with_context(|| format!("write {}", path.display()))?;
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::origin_at;

    #[test]
    fn all_addresses_together_are_announced_as_this_machine_s_own() {
        for (listened, origin) in [
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("[::]:8080", "http://[::1]:8080"),
            ("192.0.2.7:80", "http://192.0.2.7:80"),
        ] {
            assert_eq!(origin_at(listened.parse().unwrap()), origin);
        }
    }
}
