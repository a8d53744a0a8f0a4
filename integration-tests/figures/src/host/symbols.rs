//! Checks that the parent survives a symbol that is made to break a demangler.
//!
//! A parent in a separate role lets a child map a library with a function of such a name, and
//! record a marker with that function on its stack. Then the parent captures from a thread with 64
//! KiB of stack, and through the live page. It prints the number of profiles that contain the name.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::patience::until;
use integration_tests::{hostile_library, page};
use profiler_parent::core::session::Features;
use profiler_parent::{LiveServer, Session};

use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};

pub(super) const PARENT: &str = "hostile-symbols-parent";
/// The child visits the library up to this many times, until the library is known and both profiles
/// contain the name.
const ROUNDS: usize = 20;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let output = role(PARENT)?
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let named = String::from_utf8_lossy(&output.stdout).trim() == "2";
    let survives = output.status.success() && named;
    let is_crash = output.status.code().is_none();
    let reason = (!survives && !is_crash)
        .then(|| format!("the role did not do its work: {}", output.status));
    let figure = Figure::new(
        "host.parent_survives_hostile_symbols",
        f64::from(u8::from(survives)),
        "parents",
    );
    report.put(figure.promised(Promise::AtLeast(1.0)).unless(reason));
    Ok(())
}

/// The role: a host that captures.
pub(super) fn parent(_: &[String]) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let library = hostile_library::build(directory.path())?;
    let session = Session::builder().features(Features::STACK_WALK).start()?;
    let program = std::env::current_exe()?.with_file_name("child");
    let program = program.to_str().context("the path is not UTF-8")?;
    let mut child = HelperProcess::spawn(&session, program, "child", "init")?;
    let live = session.serve_live(([127, 0, 0, 1], 0).into())?;
    let path = directory.path().join("profile.json.gz");
    let mut saved = false;
    let mut served = false;
    for _ in 0..ROUNDS {
        child.ask(&format!("visit {}", library.display()))?;
        saved |= has_name(&save(&session, &path)?)?;
        served |= has_name(&capture(&live)?)?;
        if saved && served {
            break;
        }
    }
    println!("{}", u8::from(saved) + u8::from(served));
    Ok(())
}

/// Saves a profile from a thread with a small stack, and returns its content.
fn save(session: &Session, path: &Path) -> Result<Vec<u8>> {
    std::thread::scope(|scope| {
        let save = || session.capture().save(path).map(drop);
        let thread = std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn_scoped(scope, save)?;
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("the capture panicked"))??;
        Ok(std::fs::read(path)?)
    })
}

/// Captures a profile through the live page, and returns its content.
fn capture(live: &LiveServer) -> Result<Vec<u8>> {
    page::ask(live, "POST", "capture")?;
    let latest = || -> Result<serde_json::Value> {
        let all: serde_json::Value =
            serde_json::from_slice(&page::ask(live, "GET", "profiles.json")?)?;
        Ok(all[0].clone())
    };
    ensure!(
        until(|| latest().is_ok_and(|profile| profile["state"] != "writing")),
        "no profile"
    );
    Ok(std::fs::read(
        latest()?["path"].as_str().context("no path")?,
    )?)
}

fn has_name(profile: &[u8]) -> Result<bool> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(profile).read_to_string(&mut text)?;
    Ok(text.contains(hostile_library::BEGINNING))
}
