//! Objects that no record refers to any more.

use std::sync::Arc;

use crate::db::Db;
use crate::objects::{Begun, Key, Objects};

/// Removes the objects with or under a key, of which a record was deleted, unless they are kept for a
/// while.
pub(crate) async fn sweep_deleted(objects: &Arc<Objects>, db: &Db, key: Key) {
    if !db.keeps_deleted() {
        sweep(objects, db, key).await;
    }
}

/// Removes parts of what has not become an object. What fails is tried again later.
pub(crate) async fn sweep_begun(objects: &Arc<Objects>, begun: Vec<Begun>) {
    for begun in begun {
        match objects.abort(&begun).await {
            Ok(()) => {
                tracing::info!(object = %begun, "removed parts of an upload that was cut off")
            }
            Err(error) => tracing::warn!(object = %begun, %error, "remove parts of an upload"),
        }
    }
}

/// Removes the objects with or under a key. What fails is tried again later.
pub(crate) async fn sweep(objects: &Arc<Objects>, db: &Db, key: Key) {
    let objects = objects.clone();
    let removed = key.clone();
    let removed = tokio::task::spawn_blocking(move || objects.remove(&removed)).await;
    let result = match removed {
        Ok(Ok(())) => db.forget_garbage(key.to_string()).await.map_err(anyhow::Error::from),
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = result {
        tracing::warn!(%key, cause = format!("{error:#}"), "remove objects");
    }
}
