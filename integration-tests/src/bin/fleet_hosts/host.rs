//! One host of the fleet.
//!
//! Started by [`super::fleet`] with `host NUMBER ADDRESS PERIOD_S DELAY_MS BATCHES PROFILE...`.
//! Sends its batches and prints one line of JSON with what became of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use profiler_push::{PushDestination, PushOptions, PushReport, push_files};
use serde::{Deserialize, Serialize};

use super::batch::RecordedBatch;
use super::usage::ProcessUsage;

/// How long a host tries to send a batch. Longer than any run: a batch is late, and not lost.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a host has done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HostReport {
    pub(crate) sent_batches: u64,
    pub(crate) unsent_batches: u64,
    pub(crate) requests: u64,
    pub(crate) failed_requests: u64,
    pub(crate) sent_bytes: u64,
    /// The most milliseconds that a batch took from its end to the answer to its last request.
    pub(crate) slowest_ms: u64,
    /// Processor time of the process, in milliseconds.
    pub(crate) cpu_ms: u64,
    pub(crate) peak_rss_kib: u64,
    /// The latest error of a request.
    pub(crate) error: Option<String>,
    /// How often each profile was sent, by its place in the arguments.
    pub(crate) of_profiles: Vec<u64>,
}

/// Sends the batches of a host.
#[allow(clippy::disallowed_methods)] // a stopwatch
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [number, address, period, delay, batches, profiles @ ..] = arguments else {
        anyhow::bail!("a host needs its arguments");
    };
    let (number, batches): (u64, u64) = (number.parse()?, batches.parse()?);
    let (period, delay): (u64, u64) = (period.parse()?, delay.parse()?);
    let recorded: Vec<RecordedBatch> = profiles
        .iter()
        .map(|path| RecordedBatch::read(&PathBuf::from(path)))
        .collect::<Result<_>>()?;
    ensure!(!recorded.is_empty(), "no profile");
    let options = PushOptions::to(PushDestination::parse(address)?)
        .service("fleet")
        .version(if number % 2 == 0 { "1.0" } else { "1.1" })
        .host(format!("host-{number}"));
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("batch.json");
    let mut report = HostReport {
        of_profiles: vec![0; recorded.len()],
        ..HostReport::default()
    };
    let begin = Instant::now() + Duration::from_millis(delay);
    for batch in 0..batches {
        let due = begin + Duration::from_secs(period) * u32::try_from(batch)?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let which = ((number + batch) % recorded.len() as u64) as usize;
        let profile = recorded.get(which).context("no profile")?;
        profile.write_ending_now(&file)?;
        let sent = push_files(std::slice::from_ref(&file), &options, PATIENCE)?;
        report.add(which, &sent, due.elapsed());
    }
    let used = ProcessUsage::of(std::process::id())?;
    (report.cpu_ms, report.peak_rss_kib) = (used.cpu_ms, used.peak_rss_kib);
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

impl HostReport {
    fn add(&mut self, which: usize, sent: &PushReport, took: Duration) {
        for destination in &sent.destinations {
            let is_sent = destination.sent.batches > 0;
            self.sent_batches += u64::from(is_sent);
            self.unsent_batches += u64::from(!is_sent);
            self.requests += destination.requests;
            self.failed_requests += destination.failed_requests;
            self.sent_bytes += destination.sent_bytes;
            if let Some(count) = self.of_profiles.get_mut(which) {
                *count += u64::from(is_sent);
            }
            if destination.error.is_some() {
                self.error.clone_from(&destination.error);
            }
        }
        self.slowest_ms = self.slowest_ms.max(took.as_millis() as u64);
    }
}
