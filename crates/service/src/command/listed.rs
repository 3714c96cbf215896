//! Accounts, keys and the audit log, as lists show them.

use jiff::Timestamp;
use serde_json::json;

use super::list::{Listed, printable};
use crate::db::{AccountRow, Entry, KeyRow};
use crate::shown::to_the_second;

impl Listed for AccountRow {
    const HEADS: &'static [&'static str] =
        &["ACCOUNT", "ROLE", "STATE", "MADE", "INVITED UNTIL", "LIMITS", "WEIGHT"];
    const DROPPED_FIRST: &'static [&'static str] = &["MADE", "INVITED UNTIL", "LIMITS"];

    fn cells(&self) -> Vec<String> {
        let state = self.disabled_at.map_or("active", |_| "disabled");
        vec![
            printable(&self.name),
            self.role.to_string(),
            state.to_owned(),
            to_the_second(self.created_at),
            self.invited_until.map(to_the_second).unwrap_or_default(),
            own_limits(self).join(", "),
            own_weight(self).map(|weight| weight.to_string()).unwrap_or_default(),
        ]
    }

    fn fields(&self) -> String {
        let Self { role, created_at, disabled_at, .. } = self;
        let name = printable(&self.name);
        let state = disabled_at.map_or_else(|| "active".to_owned(), |at| format!("disabled {at}"));
        let weight = own_weight(self).map(|weight| format!("weight {weight}"));
        let own = own_limits(self).into_iter().chain(weight);
        let own: String = own.map(|text| format!("\t{text}")).collect();
        format!("{name}\t{role}\t{created_at}\t{state}{own}")
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&json!({
            "account": self.name,
            "role": self.role.to_string(),
            "created_at": self.created_at.to_string(),
            "disabled_at": self.disabled_at.map(|at| at.to_string()),
            "has_password": self.has_password,
            "invited_until": self.invited_until.map(|at| at.to_string()),
            "limits": {
                "open_tasks": self.used.most_open_tasks,
                "bytes": self.used.most_bytes,
                "hours": self.used.most_hours,
            },
            "weight": self.weight,
        }))
    }
}

/// Limits of an account's own, in place of the service's.
fn own_limits(account: &AccountRow) -> Vec<String> {
    let limits = [
        ("open tasks", account.used.most_open_tasks),
        ("bytes", account.used.most_bytes),
        ("hours", account.used.most_hours),
    ];
    // 0 is no limit, which reads like the narrowest.
    let shown = |(what, limit)| match limit? {
        0_i64 => Some(format!("{what} without a limit")),
        limit => Some(format!("{what} {limit}")),
    };
    limits.into_iter().filter_map(shown).collect()
}

/// The weight of an account, unless it is that of all.
fn own_weight(account: &AccountRow) -> Option<i64> {
    Some(account.weight).filter(|weight| *weight != 1)
}

/// A key, and when it is looked at.
pub(super) struct KeyThen {
    pub(super) key: KeyRow,
    pub(super) now: Timestamp,
}

impl KeyThen {
    /// What it is, and at which moment it became so or ends.
    fn state(&self) -> (&'static str, Option<Timestamp>) {
        match (self.key.revoked_at, self.key.expires_at) {
            (Some(at), _) => ("revoked", Some(at)),
            (None, Some(at)) if at <= self.now => ("expired", Some(at)),
            (None, Some(at)) => ("expires", Some(at)),
            (None, None) => ("active", None),
        }
    }
}

impl Listed for KeyThen {
    const HEADS: &'static [&'static str] = &["KEY", "NAME", "STATE", "LAST USED", "MADE"];
    const DROPPED_FIRST: &'static [&'static str] = &["MADE", "LAST USED"];

    fn cells(&self) -> Vec<String> {
        let (state, at) = self.state();
        let at = at.map(|at| format!(" {}", to_the_second(at))).unwrap_or_default();
        vec![
            self.key.id.clone(),
            printable(&self.key.name),
            format!("{state}{at}"),
            self.key.last_used_at.map_or_else(|| "never".to_owned(), to_the_second),
            to_the_second(self.key.created_at),
        ]
    }

    fn fields(&self) -> String {
        let KeyRow { id, created_at, last_used_at, .. } = &self.key;
        let name = printable(&self.key.name);
        let (state, at) = self.state();
        let at = at.map(|at| format!(" {at}")).unwrap_or_default();
        let used = last_used_at.map_or_else(|| "never used".to_owned(), |at| format!("used {at}"));
        format!("{id}\t{name}\t{created_at}\t{state}{at}\t{used}")
    }

    fn json(&self) -> serde_json::Result<String> {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        serde_json::to_string(&json!({
            "key_id": self.key.id,
            "name": self.key.name,
            "created_at": self.key.created_at.to_string(),
            "expires_at": text(self.key.expires_at),
            "revoked_at": text(self.key.revoked_at),
            "last_used_at": text(self.key.last_used_at),
        }))
    }
}

impl Listed for Entry {
    const HEADS: &'static [&'static str] = &["AT", "ACCOUNT", "BY", "ADDRESS", "ACTION", "SUBJECT"];
    const DROPPED_FIRST: &'static [&'static str] = &["ADDRESS", "BY"];

    fn cells(&self) -> Vec<String> {
        let at = self.at.parse().map_or_else(|_| self.at.clone(), to_the_second);
        let [account, by, address] = [self.account.as_deref(), self.by(), self.address.as_deref()];
        let text = |text: Option<&str>| printable(text.unwrap_or_default());
        vec![
            at,
            text(account),
            text(by),
            text(address),
            printable(&self.action),
            printable(&self.subject),
        ]
    }

    /// When, who, from where, what, to what.
    fn fields(&self) -> String {
        let [account, by, address] = [self.account.as_deref(), self.by(), self.address.as_deref()];
        let text = |text: Option<&str>| printable(text.unwrap_or("-"));
        let parts = [
            printable(&self.at),
            text(account),
            text(by),
            text(address),
            printable(&self.action),
            printable(&self.subject),
        ];
        parts.join("\t")
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

impl Entry {
    /// The user of the machine who gave the command, or the key or session that was used.
    fn by(&self) -> Option<&str> {
        self.operator.as_deref().or(self.key.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Used;
    use crate::record::Role;

    fn account() -> AccountRow {
        AccountRow {
            id: 1,
            name: "Ada L".to_owned(),
            role: Role::Admin,
            created_at: "2026-11-26T07:50:12.345678Z".parse().unwrap(),
            disabled_at: None,
            has_password: false,
            invited_until: None,
            used: used(None, None),
            weight: 1,
        }
    }

    fn used(most_open_tasks: Option<i64>, most_hours: Option<i64>) -> Used {
        Used { open_tasks: 0, files: 0, bytes: 0, most_open_tasks, most_bytes: None, most_hours }
    }

    #[test]
    fn people_get_seconds_and_programs_what_is_kept() {
        let plain = account();
        assert_eq!(plain.cells(), ["Ada L", "admin", "active", "2026-11-26 07:50:12Z", "", "", ""]);
        assert_eq!(plain.fields(), "Ada L\tadmin\t2026-11-26T07:50:12.345678Z\tactive");
        let limited = AccountRow { used: used(Some(20), Some(200)), weight: 2, ..account() };
        assert_eq!(limited.cells()[5..], ["open tasks 20, hours 200", "2"]);
        assert!(limited.fields().ends_with("\tactive\topen tasks 20\thours 200\tweight 2"));
        let free = AccountRow { used: used(Some(0), None), ..account() };
        assert_eq!(free.cells()[5], "open tasks without a limit");
        let json: serde_json::Value = serde_json::from_str(&limited.json().unwrap()).unwrap();
        assert_eq!(json["created_at"], "2026-11-26T07:50:12.345678Z");
        assert_eq!(json["limits"]["open_tasks"], 20);
    }

    #[test]
    fn every_cell_has_a_head() {
        fn check<T: Listed>(item: &T) {
            assert_eq!(item.cells().len(), T::HEADS.len());
            assert!(T::DROPPED_FIRST.iter().all(|head| T::HEADS[1..].contains(head)));
        }
        check(&account());
        check(&Entry {
            seq: 1,
            at: "2026-11-26T07:50:12.345678Z".to_owned(),
            account: None,
            key: None,
            operator: Some("root".to_owned()),
            address: None,
            request: None,
            action: "backup".to_owned(),
            subject: "/backup/molbox".to_owned(),
        });
    }
}
