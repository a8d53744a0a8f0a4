//! `profiler view FILE`: opens a profile in the Firefox Profiler.
//!
//! ```text
//! $ profiler view profile.json.gz
//! https://profiler.firefox.com/from-url/http%3A%2F%2F127.0.0.1%3A41229%2F5a…%2Fprofile.json/?symbolServer=…
//! serving profile.json.gz on 127.0.0.1:41229 until Ctrl-C
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use clap::Args;
use profiler_symbols::SymbolOptions;
use profiler_view::{Server, VIEWER, symbols_of_this_machine, viewer_link};

use crate::console::{say, tell};
use crate::redirect::RedirectPage;
use crate::signals::Signals;

/// The environment variable with the address of another viewer, for users who host one.
const VIEWER_VARIABLE: &str = "PROFILER_URL";

/// Opens a profile in the Firefox Profiler
///
/// Serves the file on this machine (only on 127.0.0.1, below a random path that cannot be guessed),
/// prints a link with which the viewer's page reads the file, and opens the link in the browser.
/// The page runs in the browser, so the profile does not leave this machine. A double-click on a
/// function shows its source file and its assembly code, if they are on this machine. Pages of
/// other addresses cannot read them. Stops on Ctrl-C; a page that has loaded the profile keeps it.
#[derive(Debug, Args)]
#[command(
    after_help = "Environment:\n  PROFILER_URL  The viewer's address, as the browser shows it [default: https://profiler.firefox.com]"
)]
pub(crate) struct ViewArgs {
    /// A profile (.json or .json.gz)
    file: PathBuf,
    /// Prints the link without opening it
    #[arg(long)]
    no_open: bool,
    /// The port to serve on; 0 is any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
}

pub(crate) fn run(options: &ViewArgs) -> Result<()> {
    let viewer = viewer(std::env::var(VIEWER_VARIABLE).ok())?;
    let server = Server::start_for_viewer(
        &viewer,
        &options.file,
        options.port,
        symbols_of_this_machine(SymbolOptions::default()),
    )?;
    let mut signals = Signals::catch()?;
    let link = viewer_link(&viewer, &server.base());
    say(&link);
    tell(&format!(
        "serving {} on {} until Ctrl-C",
        options.file.display(),
        server.address()
    ));
    // The page exists until the command ends.
    let _page = (!options.no_open).then(|| open(&link));
    signals.next()?;
    Ok(())
}

fn viewer(named: Option<String>) -> Result<String> {
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return Ok(VIEWER.to_owned());
    };
    let is_address = named.starts_with("https://") || named.starts_with("http://");
    if !is_address || !named.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("{VIEWER_VARIABLE} is not the address of a viewer: {named}");
    }
    Ok(named)
}

/// Opens a link in the browser, if there is a screen. The terminal shows the link in any case. The
/// browser needs the returned page until it has opened the link.
fn open(link: &str) -> Option<RedirectPage> {
    let opener = opener()?;
    let page = RedirectPage::create(link);
    match &page {
        Ok(page) => start(opener, page.path()),
        Err(error) => tell(&format!(
            "no browser could be opened ({error}): open the link yourself"
        )),
    }
    page.ok()
}

fn start(opener: &str, page: &Path) {
    let mut command = Command::new(opener);
    command
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.spawn() {
        // The child may be the browser itself, which stays open. A thread waits for it, and its
        // exit status is ignored.
        Ok(mut child) => drop(profiler_sys::spawn_quiet("profiler-open", move || {
            child.wait()
        })),
        Err(_) => tell(&format!(
            "no browser could be opened ({opener} cannot be started): open the link yourself"
        )),
    }
}

#[cfg(target_os = "macos")]
fn opener() -> Option<&'static str> {
    Some("open")
}

#[cfg(not(target_os = "macos"))]
fn opener() -> Option<&'static str> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")).then_some("xdg-open")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_is_the_public_one_unless_another_is_named() {
        for unset in [None, Some(String::new())] {
            assert_eq!(viewer(unset).unwrap(), VIEWER);
        }
        assert_eq!(
            viewer(Some("http://localhost:4242".into())).unwrap(),
            "http://localhost:4242"
        );
        for wrong in ["profiler", "file:///x", "https://a b"] {
            assert!(viewer(Some(wrong.into())).is_err(), "{wrong}");
        }
    }
}
