//! A profile from a live page.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::capture_socket::Wanted;
use crate::live_page::LivePage;
use crate::plain::plain;

/// The time between two questions whether the profile is ready.
const PAUSE: Duration = Duration::from_millis(100);
const WRONG: &str = "the answer is not that of a live page";

/// The answer to the request for a capture.
#[derive(Deserialize)]
struct Begun {
    number: u64,
}

/// A profile in the list of the page.
#[derive(Deserialize)]
struct Listed {
    number: u64,
    name: String,
    state: String,
    error: Option<String>,
}

/// Lets the page capture a profile, and downloads it.
pub(super) fn write(page: &LivePage, wanted: Wanted, file: &mut impl Write) -> Result<()> {
    let begun = page.tell("capture", &query(wanted))?;
    let begun: Begun = serde_json::from_str(&begun).context(WRONG)?;
    let name = wait(page, begun.number)?;
    page.download(&format!("profiles/{name}"), file)
}

fn query(wanted: Wanted) -> Vec<(&'static str, String)> {
    let what = ("what", "profiler capture".to_owned());
    match wanted {
        Wanted::All => vec![what],
        Wanted::Last(time) => vec![what, ("last_ms", time.as_millis().to_string())],
    }
}

/// Waits until the profile with this number is ready, and returns its name.
fn wait(page: &LivePage, number: u64) -> Result<String> {
    loop {
        let all = page.ask("profiles.json", &[])?;
        let all: Vec<Listed> = serde_json::from_str(&all).context(WRONG)?;
        let mut all = all.into_iter();
        let profile = all.find(|one| one.number == number);
        let profile = profile.context("the live page no longer has the profile")?;
        match profile.state.as_str() {
            "writing" => std::thread::sleep(PAUSE),
            "ready" => return Ok(profile.name),
            _ => bail!("{}", plain(&profile.error.unwrap_or_default())),
        }
    }
}
