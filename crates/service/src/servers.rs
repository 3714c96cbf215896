//! What the servers that share a database know of each other: how many they are, how far the tasks
//! are that others run, which market data all are to use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;

use crate::app::App;
use crate::db::Server;

/// How often others are heard.
const HEAR: Duration = Duration::from_secs(1);
/// How often this server shows that it is there.
const SHOW: Duration = Duration::from_secs(5);
/// How often all progress is heard anew: what has ended says no more.
const ANEW: Duration = Duration::from_secs(60);

/// Meets the others as long as the service runs. Who is alone on its database meets nobody.
pub(crate) async fn meet(app: Arc<App>) {
    if !app.db.is_shared() {
        return;
    }
    let mut ear = Ear::default();
    loop {
        if let Err(error) = ear.hear(&app).await {
            // The next look tries again.
            tracing::warn!(cause = format!("{error:#}"), "hear the other servers");
        }
        tokio::time::sleep(HEAR).await;
    }
}

/// Tells the others that this server ends.
pub(crate) async fn leave(app: &App) {
    if !app.db.is_shared() {
        return;
    }
    if let Err(error) = app.db.be_gone(app.server_id.clone()).await {
        // They notice.
        tracing::warn!(%error, "tell the other servers that this one ends");
    }
}

/// What has been heard so far.
#[derive(Default)]
struct Ear {
    /// From when on progress has not been heard.
    since: Option<Timestamp>,
    anew: Option<Instant>,
    shown: Option<Instant>,
    /// Digest of the market data in use when the others were last told.
    market: Option<String>,
    /// Digest of market data that was asked for and could not be taken, and when it was tried.
    refused: Option<(String, Instant)>,
}

fn is_due(last: Option<Instant>, every: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= every)
}

impl Ear {
    async fn hear(&mut self, app: &Arc<App>) -> Result<()> {
        self.follow_market(app).await?;
        let market = app.market.digest();
        if is_due(self.shown, SHOW) || market != self.market {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let own = Server { id: app.server_id.clone(), version, market: market.clone() };
            app.db.be_seen(own, app.now()).await?;
            app.count_servers(app.db.servers(app.now()).await?.len());
            (self.shown, self.market) = (Some(Instant::now()), market);
        }
        let is_all = is_due(self.anew, ANEW);
        let since = self.since.filter(|_| !is_all);
        let (said, next) = app.db.progress_since(since, app.now()).await?;
        app.hear_progress(said, is_all);
        self.since = Some(next);
        if is_all {
            self.anew = Some(Instant::now());
        }
        Ok(())
    }

    /// Takes the market data that was asked for on any server.
    async fn follow_market(&mut self, app: &Arc<App>) -> Result<()> {
        let asked = app.db.asked_market().await?;
        let Some(digest) = asked.filter(|digest| app.market.digest().as_ref() != Some(digest))
        else {
            return Ok(());
        };
        let refused = self.refused.as_ref().filter(|(refused, _)| *refused == digest);
        if refused.is_some_and(|(_, tried)| tried.elapsed() < ANEW) {
            return Ok(());
        }
        let (taking, wanted) = (app.clone(), digest.clone());
        let taken =
            tokio::task::spawn_blocking(move || taking.market.take(&taking.config, &wanted));
        match taken.await? {
            Ok(()) => {
                tracing::info!(sha256 = digest, "market data reloaded");
                app.market.announce(&app.config, app.now())?;
            }
            Err(error) => {
                tracing::error!(
                    cause = format!("{error:#}"),
                    "market data not reloaded; the old stays in use"
                );
                // The folder may be a copy that is still to come.
                self.refused = Some((digest, Instant::now()));
            }
        }
        Ok(())
    }
}
