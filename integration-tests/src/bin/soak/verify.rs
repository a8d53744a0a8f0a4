//! Checks a saved profile in a separate process: the check needs memory, and the soak test watches
//! its own memory.
//!
//! The soak test writes [`Bounds`] beside the profile: for each child, the entries that it had
//! certainly recorded before the capture, and the most that it can have recorded by the end of the
//! capture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use integration_tests::kills::board::Said;
use integration_tests::kills::found;
use integration_tests::kills::judge::Tally;
use integration_tests::profile::{Process, Profile};
use profiler_core::session::{DropReason, Drops, EntryCounts};
use serde::{Deserialize, Serialize};

/// The argument that makes this program the verifier.
const ROLE: &str = "--verify";

/// Reports of the children around a capture, by name. For each writer, the number of returned
/// entries before the capture and the number of begun entries after it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Bounds(BTreeMap<String, Vec<(u64, u64)>>);

impl Bounds {
    /// Adds a child that ran throughout the capture.
    pub(crate) fn add(&mut self, name: &str, before: &[Said], after: &[Said]) {
        let pairs = before
            .iter()
            .zip(after)
            .map(|(before, after)| (before.returned, after.begun));
        self.0.insert(name.to_owned(), pairs.collect());
    }
}

/// Checks a profile in a new process. Returns a description of what is wrong with it.
///
/// # Errors
/// When the verifier cannot be run.
pub(crate) fn verify(profile: &Path, bounds: &Bounds) -> anyhow::Result<Option<String>> {
    let beside = profile.with_extension("bounds");
    std::fs::write(&beside, serde_json::to_vec(bounds)?)?;
    let output = Command::new(std::env::current_exe()?)
        .arg(ROLE)
        .args([profile, &beside])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then(|| format!("{}: {text}", output.status)))
}

/// Runs as the verifier, if the arguments say so.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, profile, bounds] = &words[..] else {
        return None;
    };
    if role != ROLE {
        return None;
    }
    Some(match check(Path::new(profile), Path::new(bounds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    })
}

fn check(profile: &Path, bounds: &Path) -> anyhow::Result<()> {
    let bounds: Bounds = serde_json::from_slice(&std::fs::read(bounds)?)?;
    let profile = Profile::read(profile)?;
    let mut tally = Tally::default();
    for (name, pairs) in &bounds.0 {
        let said: Vec<Said> = pairs
            .iter()
            .map(|&(returned, begun)| Said { begun, returned })
            .collect();
        // A child may have been captured before its first entry.
        let Ok(process) = profile.process(name) else {
            ensure!(
                said.iter().all(|said| said.returned == 0),
                "{name} is not in the profile"
            );
            continue;
        };
        let total = total(&profile, process).with_context(|| format!("{name} has no counts"))?;
        tally.judge_living(name, &said, &found::in_profile(process, total)?);
    }
    ensure!(tally.broken == 0, "{:#?}", tally.complaints);
    Ok(())
}

/// Returns the process's own counts, as the profile states them.
fn total(profile: &Profile, process: &Process) -> Option<EntryCounts> {
    let json = profile.json["processes"].as_array()?.iter();
    let pid = process.pid.to_string();
    let total = json
        .map(|json| &json["profilingLog"][&pid]["total"])
        .find(|total| total.is_object())?;
    let number = |name: &str| total[name].as_u64();
    let mut dropped = [0; DropReason::COUNT];
    dropped[0] = number("dropped")?;
    Some(EntryCounts {
        delivered: number("delivered")?,
        outside: number("outside")?,
        evicted: number("evicted")?,
        dropped: Drops::new(dropped),
        unfinished: number("unfinished")?,
    })
}
