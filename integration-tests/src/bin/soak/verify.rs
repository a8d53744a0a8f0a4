//! The check of a saved profile, in a process of its own: it needs memory, and the memory of the soak
//! itself is being watched.
//!
//! The soak writes [`Bounds`] beside the profile: per child what it had surely recorded before the capture,
//! and at most by its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use integration_tests::kills::board::Said;
use integration_tests::kills::found;
use integration_tests::kills::judge::Tally;
use integration_tests::profile::{Process, Profile};
use profiler_core::internal::entry_counts::{DropReason, Drops, EntryCounts};
use serde::{Deserialize, Serialize};

/// The argument that makes this program the verifier.
const ROLE: &str = "--verify";

/// What children have said around a capture, by name: per writer returned before and begun after.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Bounds(BTreeMap<String, Vec<(u64, u64)>>);

impl Bounds {
    /// Adds a child that lived through the capture.
    pub(crate) fn add(&mut self, name: &str, before: &[Said], after: &[Said]) {
        let pairs = before.iter().zip(after).map(|(before, after)| (before.returned, after.begun));
        self.0.insert(name.to_owned(), pairs.collect());
    }
}

/// Has a profile checked; what is wrong with it in words.
///
/// # Errors
/// When the verifier cannot be run.
pub(crate) fn verify(profile: &Path, bounds: &Bounds) -> anyhow::Result<Option<String>> {
    let beside = profile.with_extension("bounds");
    std::fs::write(&beside, serde_json::to_vec(bounds)?)?;
    let output = Command::new(std::env::current_exe()?).arg(ROLE).args([profile, &beside]).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then(|| format!("{}: {text}", output.status)))
}

/// Runs as the verifier, if the arguments say so.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, profile, bounds] = &words[..] else { return None };
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
        let said: Vec<Said> = pairs.iter().map(|&(returned, begun)| Said { begun, returned }).collect();
        // A child that had hardly begun may have been written before its first entry.
        let Ok(process) = profile.process(name) else {
            ensure!(said.iter().all(|said| said.returned == 0), "{name} is not in the profile");
            continue;
        };
        let total = total(&profile, process).with_context(|| format!("{name} has no books"))?;
        tally.judge_living(name, &said, &found::in_profile(process, total)?);
    }
    ensure!(tally.broken == 0, "{:#?}", tally.complaints);
    Ok(())
}

/// The process's own books, as they stand in the profile.
fn total(profile: &Profile, process: &Process) -> Option<EntryCounts> {
    let json = profile.json["processes"].as_array()?.iter();
    let pid = process.pid.to_string();
    let total = json.map(|json| &json["profilingLog"][&pid]["total"]).find(|total| total.is_object())?;
    let number = |name: &str| total[name].as_u64();
    let mut dropped = [0; DropReason::COUNT];
    dropped[0] = number("dropped")?;
    Some(EntryCounts {
        delivered: number("delivered")?,
        evicted: number("evicted")?,
        dropped: Drops::new(dropped),
        unfinished: number("unfinished")?,
    })
}
