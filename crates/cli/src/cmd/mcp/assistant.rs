//! What is served: settings, tools, files and runs of one assistant.

use std::path::Path;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken, Tool};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::root::Root;
use super::runs::Runs;
use crate::context::{Context, Global};
use crate::failure::Failure;
use crate::output::Output;

/// What one assistant is offered.
pub(super) struct Assistant {
    pub(super) global: Global,
    pub(super) tools: Vec<Tool>,
    pub(super) is_read_only: bool,
    pub(super) root: Root,
    pub(super) runs: Runs,
    pub(super) calls: Semaphore,
}

/// What a call comes to: an object, and the same for people.
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) text: String,
}

impl Answer {
    /// An object in the words of the command line.
    pub(super) fn of(value: Value) -> Self {
        let text = Output::silent().readable(&value);
        Self { value, text }
    }
}

/// Where the progress of a call is reported to, if anybody wants it.
pub(super) struct Progress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    last: f64,
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { to: token.map(|token| (context.peer.clone(), token)), last: -1.0 }
    }

    /// A fraction of the whole, which the protocol wants to grow.
    pub(super) async fn report(&mut self, fraction: f64, message: String) {
        let Some((peer, token)) = &self.to else { return };
        if fraction <= self.last {
            return;
        }
        self.last = fraction;
        let progress = ProgressNotificationParam::new(token.clone(), fraction);
        // Whoever would have read it has gone; the call's own answer will find that out.
        let _ = peer.notify_progress(progress.with_total(1.0).with_message(message)).await;
    }
}

impl Assistant {
    /// Settings as they are now: who logs in need not start the assistant anew.
    pub(super) fn context(&self) -> Result<Context, Failure> {
        Context::new(&self.global, Output::silent())
    }

    pub(super) fn folder(&self) -> &Path {
        self.root.folder()
    }
}
