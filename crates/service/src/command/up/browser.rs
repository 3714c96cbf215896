//! Showing the portal: in a browser where there is one, in words otherwise.

use std::env;
use std::io::{ErrorKind, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use reqwest::Url;

use crate::command::say::say;
use crate::command::serve::Addresses;
use crate::files;
use crate::handlers::portal;
use crate::shown::quoted;

/// Opens an address in the browser that the user has chosen.
const OPENER: &str = "xdg-open";
/// The page that leads a browser to the link.
const PAGE: &str = "portal.html";

/// A way to the portal.
pub(super) enum Link {
    /// There is no portal.
    None,
    Plain(String),
    /// To where nobody can sign in as this account before there is a password.
    NoPassword(String, String),
    /// By which somebody chooses a password, once.
    Once(String),
}

/// Whether somebody reads what is printed.
pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// How the portal can be shown here.
pub(super) enum Shown {
    Browser,
    /// The user sits at another machine.
    Ssh,
    Words,
}

impl Shown {
    pub(super) fn new(no_browser: bool) -> Self {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let has_display = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
        match () {
            () if is_set("SSH_CONNECTION") => Self::Ssh,
            () if has_display && is_terminal() && !no_browser => Self::Browser,
            () => Self::Words,
        }
    }

    /// Shows the portal; `data` is the folder that only its owner reads.
    pub(super) fn portal(&self, addresses: &Addresses, link: &Link, data: &Path) -> Result<()> {
        let (url, about) = match link {
            Link::None => {
                say(&format!("portal   none: {}", portal::MISSING));
                return self.forward(addresses);
            }
            Link::Plain(url) => (url, String::new()),
            Link::NoPassword(url, account) => {
                let data = data.to_string_lossy();
                let [data, account] = [&*data, account].map(quoted);
                (
                    url,
                    format!(" (no password yet: `molboxd --data {data} account invite {account}`)"),
                )
            }
            Link::Once(url) => {
                (url, " (choose a password there: good once, for 10 minutes)".to_owned())
            }
        };
        say(&format!("portal   {url}{about}"));
        if matches!(self, Self::Browser) {
            open(url, matches!(link, Link::Once(_)), data)?;
        }
        self.forward(addresses)
    }

    /// Shows how the ports are reached from the machine where the user sits.
    fn forward(&self, addresses: &Addresses) -> Result<()> {
        if !matches!(self, Self::Ssh) {
            return Ok(());
        }
        let mut ports = Vec::new();
        for url in [&addresses.base_url, &addresses.margin_base_url] {
            let url: Url = url.parse().with_context(|| format!("{url} is no address"))?;
            if let Some(port) = url.port() {
                ports.push(format!("-L {port}:127.0.0.1:{port}"));
            }
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        say(&format!("from where you sit: ssh {} {host}", ports.join(" ")));
        Ok(())
    }
}

/// Opens an address. One that is a secret goes by a page of the data folder: what a program is
/// started with, every user of the machine can read.
fn open(url: &str, is_secret: bool, data: &Path) -> Result<()> {
    let target = if is_secret {
        let page = data.join(PAGE);
        let html = format!(
            "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\">\n\
             <a href=\"{url}\">molbox</a>\n"
        );
        files::write(&page, html.as_bytes())
            .with_context(|| format!("write {}", page.display()))?;
        page.into_os_string()
    } else {
        url.into()
    };
    let mut command = Command::new(OPENER);
    command.arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Neither the end of the terminal nor an interrupt of `up` is one of the browser.
    command.process_group(0);
    match command.spawn() {
        Ok(mut opener) => {
            // Nobody waits for a browser; but what has ended is to be noticed.
            std::thread::spawn(move || opener.wait());
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            say(&format!("         there is no {OPENER} here: open it by hand"));
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("start {OPENER}")),
    }
}
