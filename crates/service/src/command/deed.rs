//! Who gives a command, for the audit log.

use rustix::process::getuid;

use crate::clock::Clock;
use crate::db::Deed;
use crate::folder;

/// A command as the audit log has it.
pub(super) fn deed(clock: &Clock, action: &'static str, account: Option<&str>) -> Deed {
    let account = account.map(str::to_owned);
    let operator = Some(operator());
    Deed { at: clock.now(), account, operator, action, ..Deed::default() }
}

/// The user who gives a command, and who became that user by sudo.
fn operator() -> String {
    let user = getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = folder::user_name(&users, user);
    let name = named.unwrap_or_else(|| user.to_string());
    match std::env::var("SUDO_USER") {
        Ok(before) if !before.is_empty() => format!("{name} (sudo: {before})"),
        _ => name,
    }
}
