//! The servers that work on a database.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::shown::counted;

use super::postgres::SEEN;
use super::runner::ago;
use super::{Db, Engine, Error, Result, Scope, Whole, values};

/// The name of the market data that all servers are to use, by its digest.
const MARKET: &str = "market";

/// A server of the installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) version: String,
    /// Digest of the market data that it uses.
    pub(crate) market: Option<String>,
}

/// Who has a server's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Which process, if that is known.
    pub(crate) process: Option<String>,
    pub(crate) seen_at: Timestamp,
}

/// Name of the setting with the process that is a server.
fn process_of(id: &str) -> String {
    format!("process of {id}")
}

/// Name of the setting with those of a server that are to be alike on all.
fn settings_of(id: &str) -> String {
    format!("settings of {id}")
}

impl Db {
    /// Has a process be the server of this name, unless another was seen of late that is; who that is.
    /// What `gone` held is free, and so is what nobody has shown to have for long.
    pub(crate) async fn be_server(
        &self,
        id: String,
        process: String,
        gone: Option<Holder>,
        now: Timestamp,
    ) -> Result<Option<Holder>> {
        self.write(Scope::Rows, move |tx| {
            let sql = "select seen_at from server where id = ?1 and seen_at > ?2";
            let seen_at = tx.first(sql, values![id, ago(tx, SEEN, now)?], |row| row.get(0))?;
            let name = process_of(&id);
            if let Some(seen_at) = seen_at {
                let sql = "select value from setting where name = ?1";
                let holder =
                    Holder { process: tx.first(sql, values![name], |row| row.get(0))?, seen_at };
                if gone.as_ref() != Some(&holder) && holder.process.as_ref() != Some(&process) {
                    return Ok(Some(holder));
                }
            }
            let sql = "
                insert into setting (name, value) values (?1, ?2)
                on conflict (name) do update set value = excluded.value";
            tx.execute(sql, values![name, process])?;
            let sql = "
                insert into server (id, version, seen_at) values (?1, ?2, ?3)
                on conflict (id) do update set seen_at = excluded.seen_at";
            tx.execute(sql, values![id, env!("CARGO_PKG_VERSION"), tx.now(now)?])?;
            // It is another's at once, as it would be if that had ended by itself.
            let sql = "update runner set expires_at = ?2 where holder = ?1 and expires_at > ?2";
            tx.execute(sql, values![id, tx.now(now)?])?;
            Ok(None)
        })
        .await
    }

    /// Notes the settings of a server that all are to have alike, as JSON: their names, and a digest of
    /// each.
    pub(crate) async fn announce_settings(&self, id: String, settings: String) -> Result<()> {
        self.write(Scope::Rows, move |tx| {
            let sql = "
                insert into setting (name, value) values (?1, ?2)
                on conflict (name) do update set value = excluded.value";
            tx.execute(sql, values![settings_of(&id), settings]).map(drop)
        })
        .await
    }

    /// The settings that are to be alike and are not on all of these servers. One of an earlier version
    /// does not announce its own.
    async fn differing_settings(&self, servers: &[Server]) -> Result<BTreeSet<String>> {
        let all: Vec<BTreeMap<String, String>> = self
            .read(|tx| {
                let sql = "select value from setting where name = ?1";
                let of_each = servers.iter().map(|server| {
                    let text: Option<String> =
                        tx.first(sql, values![settings_of(&server.id)], |row| row.get(0))?;
                    text.map(|text| serde_json::from_str(&text).map_err(Error::other)).transpose()
                });
                of_each.filter_map(Result::transpose).collect()
            })
            .await?;
        let Some((first, others)) = all.split_first() else { return Ok(BTreeSet::new()) };
        // What only one version has is not set on the other.
        let differs = |name: &String| {
            others.iter().any(|other| other.get(name).is_some_and(|it| *it != first[name]))
        };
        Ok(first.keys().filter(|name| differs(name)).cloned().collect())
    }

    /// A text that all servers of an installation share: what was found first, on the first of them.
    /// On a database with one server it is that server's own.
    pub(crate) fn shared(&self, name: &str, own: &str) -> anyhow::Result<String> {
        match &self.engine {
            Engine::Sqlite(_) => Ok(own.to_owned()),
            Engine::Postgres(postgres) => Ok(postgres.setting(name, own)?),
        }
    }

    /// Notes that a server is there; false when another process is it by now.
    pub(crate) async fn be_seen(
        &self,
        server: Server,
        process: String,
        now: Timestamp,
    ) -> Result<bool> {
        self.write(Scope::Rows, move |tx| {
            let Server { id, version, market } = server;
            let sql = "
                insert into server (id, version, market, seen_at) values (?1, ?2, ?3, ?4)
                on conflict (id) do update set version = excluded.version,
                    market = excluded.market, seen_at = excluded.seen_at";
            tx.execute(sql, values![id, version, market, tx.now(now)?])?;
            let sql = "select 1 from setting where name = ?1 and value <> ?2";
            Ok(!tx.exists(sql, values![process_of(&id), process])?)
        })
        .await
    }

    /// Notes that a server has gone.
    pub(crate) async fn be_gone(&self, id: String) -> Result<()> {
        self.write(Scope::Rows, move |tx| {
            tx.execute("delete from setting where name = ?1", values![settings_of(&id)])?;
            tx.execute("delete from server where id = ?1", values![id]).map(drop)
        })
        .await
    }

    /// The servers that are there.
    pub(crate) async fn servers(&self, now: Timestamp) -> Result<Vec<Server>> {
        self.read(|tx| {
            let sql = "select id, version, market from server where seen_at > ?1 order by id";
            tx.all(sql, values![ago(tx, SEEN, now)?], |row| {
                Ok(Server { id: row.get(0)?, version: row.get(1)?, market: row.get(2)? })
            })
        })
        .await
    }

    /// Has all servers take the market data with this digest.
    pub(crate) async fn ask_for_market(&self, digest: String) -> Result<()> {
        let Engine::Postgres(postgres) = &self.engine else { return Ok(()) };
        postgres.set_setting(MARKET, digest).await
    }

    /// Digest of the market data that all servers are to take, if that was asked for.
    pub(crate) async fn asked_market(&self) -> Result<Option<String>> {
        let Engine::Postgres(_) = &self.engine else { return Ok(None) };
        let sql = "select value from setting where name = ?1";
        self.read(|tx| tx.first(sql, values![MARKET], |row| row.get(0))).await
    }

    /// What the database's server is found to be, and what of it is not as it should be; none where
    /// the database is a file. Each server of the installation may open so many connections.
    pub(crate) async fn examine(
        &self,
        connections: usize,
        now: Timestamp,
    ) -> Result<Option<(String, Vec<String>)>> {
        let Engine::Postgres(postgres) = &self.engine else { return Ok(None) };
        let servers = self.servers(now).await?;
        let examined = postgres.examine(now, connections * servers.len().max(1))?;
        let mut faults = examined.faults;
        let differing: [(&str, BTreeSet<&str>); 2] = [
            ("run other versions", servers.iter().map(|server| &*server.version).collect()),
            (
                "use other market data",
                servers.iter().map(|server| server.market.as_deref().unwrap_or("none")).collect(),
            ),
        ];
        for (what, all) in differing {
            if all.len() > 1 {
                let all: Vec<&str> = all.into_iter().collect();
                faults.push(format!("its servers {what}: {}", all.join(", ")));
            }
        }
        let names = self.differing_settings(&servers).await?;
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            faults.push(format!(
                "its servers differ in settings that are to be alike: {}",
                names.join(", ")
            ));
        }
        let found = format!(
            "PostgreSQL {}, {:.1} ms away, {}",
            examined.version,
            examined.round_trip.as_secs_f64() * 1e3,
            counted(servers.len(), "server")
        );
        Ok(Some((found, faults)))
    }
}

impl Whole {
    /// How many other servers than `own` have shown of late that they work on it.
    pub(crate) fn other_servers(&self, own: &str, now: Timestamp) -> Result<usize> {
        let tx = self.tx();
        let sql = "select id from server where seen_at > ?1 and id <> ?2";
        let found = tx.all(sql, values![ago(&tx, SEEN, now)?, own], |row| row.get::<String>(0))?;
        Ok(found.len())
    }
}
