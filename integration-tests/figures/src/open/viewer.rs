//! Measures how long the real viewer's loader takes to open a profile.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The heap limit of Node, which suffices for the largest profile in the Gecko format.
const HEAP_MIB: &str = "--max-old-space-size=16384";
/// A load that takes longer has failed.
const LOAD_SECONDS: &str = "600";

/// Returns the seconds that a load takes. Fails if the loader does not find `samples` samples.
pub(super) fn load(profile: &Path, samples: Option<u64>) -> Result<f64> {
    let folder = folder();
    ensure!(
        folder.join("node_modules").exists(),
        "no viewer: run `npm ci` in integration-tests/viewer"
    );
    let mut node = Command::new("node");
    node.arg(folder.join("load.mjs")).arg(profile);
    node.env("NODE_OPTIONS", HEAP_MIB)
        .env("VIEWER_LOAD_SECONDS", LOAD_SECONDS);
    let output = node.output().context("no node")?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        output.status.success(),
        "{printed} {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let mut words = printed.split_ascii_whitespace();
    let mut number = || words.next().context("the loader printed nothing");
    let seconds = number()?.parse()?;
    let seen = number()?.parse::<u64>()?;
    ensure!(
        samples.is_none_or(|samples| seen == samples),
        "{seen} samples, not {samples:?}"
    );
    Ok(seconds)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../viewer")
}
