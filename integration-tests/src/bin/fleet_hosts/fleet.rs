//! The whole fleet: starts the servers and the hosts, waits for them, and compares.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use integration_tests::clickhouse::Cluster;
use profiler_export::{ExportOptions, Target, export};

use super::FleetPlan;
use super::host::HostReport;
use super::store::{self, StoreReport};

/// Simulates the fleet, and prints the table.
#[allow(clippy::disallowed_methods)] // a stopwatch
pub(crate) fn run(plan: &FleetPlan) -> Result<()> {
    let samples: Vec<u64> = plan
        .profiles
        .iter()
        .map(|profile| samples_of(profile))
        .collect::<Result<_>>()?;
    let cluster = Cluster::start()?.context("there is no ClickHouse, see PROFILER_CLICKHOUSE")?;
    let before = store::report(&cluster)?;
    let begin = Instant::now();
    let hosts: Vec<Child> = (0..plan.hosts)
        .map(|number| start_host(plan, &cluster, number))
        .collect::<Result<_>>()?;
    let reports: Vec<HostReport> = hosts.into_iter().map(finish).collect::<Result<_>>()?;
    let took = begin.elapsed();
    let store = store::report(&cluster)?;
    let total = total(&reports);
    let expected: u64 = total
        .of_profiles
        .iter()
        .zip(&samples)
        .map(|(times, samples)| times * samples)
        .sum();
    print(plan, &total, took, expected, (&before, &store));
    print_questions(&cluster)?;
    ensure!(
        total.unsent_batches == 0,
        "{} batches were not sent: {:?}",
        total.unsent_batches,
        total.error
    );
    ensure!(
        store.hosts == plan.hosts as u64,
        "{} hosts are in the store",
        store.hosts
    );
    ensure!(
        store.samples == expected,
        "the store counts {} samples, {expected} were sent",
        store.samples
    );
    Ok(())
}

/// The number of samples in a profile, as all exports count them.
fn samples_of(profile: &Path) -> Result<u64> {
    let directory = tempfile::tempdir()?;
    let options = ExportOptions::to(Target::ClickHouse).names(false);
    Ok(export(profile, &directory.path().join("rows"), &options)?.samples)
}

fn start_host(plan: &FleetPlan, cluster: &Cluster, number: usize) -> Result<Child> {
    let period = plan.period.as_secs();
    let batches = (plan.duration.as_secs() / period).max(1);
    // Hosts do not begin at the same time.
    let delay_ms = 1000 * period * number as u64 / plan.hosts as u64;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["host", &number.to_string(), &cluster.push_address(number)])
        .args([period, delay_ms, batches].map(|number| number.to_string()))
        .args(&plan.profiles)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.spawn().context("cannot start a host")
}

fn finish(mut host: Child) -> Result<HostReport> {
    let mut line = String::new();
    let mut output = host.stdout.take().context("no output")?;
    output.read_to_string(&mut line)?;
    let status = host.wait()?;
    ensure!(status.success(), "a host failed: {status}");
    serde_json::from_str(&line).context("the report of a host")
}

fn total(reports: &[HostReport]) -> HostReport {
    let mut all = HostReport::default();
    for report in reports {
        all.sent_batches += report.sent_batches;
        all.unsent_batches += report.unsent_batches;
        all.requests += report.requests;
        all.failed_requests += report.failed_requests;
        all.sent_bytes += report.sent_bytes;
        all.cpu_ms += report.cpu_ms;
        all.slowest_ms = all.slowest_ms.max(report.slowest_ms);
        all.peak_rss_kib = all.peak_rss_kib.max(report.peak_rss_kib);
        all.of_profiles.resize(report.of_profiles.len(), 0);
        let counts = all.of_profiles.iter_mut().zip(&report.of_profiles);
        counts.for_each(|(sum, count)| *sum += count);
        if report.error.is_some() {
            all.error.clone_from(&report.error);
        }
    }
    all
}

fn print(
    plan: &FleetPlan,
    sent: &HostReport,
    took: Duration,
    expected: u64,
    (before, store): (&StoreReport, &StoreReport),
) {
    let batches = sent.sent_batches.max(1) as f64;
    let per_sample = |bytes: u64| bytes as f64 / expected.max(1) as f64;
    let seconds = took.as_secs_f64();
    println!("hosts                     {}", plan.hosts);
    println!("period                    {} s", plan.period.as_secs());
    println!("time                      {seconds:.0} s");
    println!(
        "batches                   {} sent, {} not sent",
        sent.sent_batches, sent.unsent_batches
    );
    println!(
        "requests                  {}, {} repeated",
        sent.requests, sent.failed_requests
    );
    println!(
        "samples                   {expected}, {:.0} a second",
        expected as f64 / seconds
    );
    println!(
        "samples in the store      {} missing, {} counted twice, {} stored twice for now",
        expected.saturating_sub(store.samples),
        store.samples.saturating_sub(expected),
        store.stored_samples.saturating_sub(store.samples)
    );
    println!("slowest batch             {} ms", sent.slowest_ms);
    println!(
        "network                   {:.1} bytes per sample",
        per_sample(sent.sent_bytes)
    );
    println!(
        "network per host          {:.0} bytes a second",
        sent.sent_bytes as f64 / seconds / plan.hosts as f64
    );
    println!(
        "disk                      {:.1} bytes per sample",
        per_sample(store.disk_bytes)
    );
    println!(
        "a host's processor time   {:.1} ms per batch",
        sent.cpu_ms as f64 / batches
    );
    println!(
        "a host's peak memory      {:.1} MiB",
        sent.peak_rss_kib as f64 / 1024.0
    );
    println!(
        "servers' processor time   {:.1} ms per batch",
        store.cpu_ms.saturating_sub(before.cpu_ms) as f64 / batches
    );
    println!("servers' memory           {} MiB", store.rss_kib / 1024);
    println!("servers' parts            {}", store.parts);
    if let Some(error) = &sent.error {
        println!("latest error              {error}");
    }
}

/// Prints how long the questions about the whole fleet take.
#[allow(clippy::disallowed_methods)] // a stopwatch
fn print_questions(cluster: &Cluster) -> Result<()> {
    let directory = tempfile::tempdir()?;
    for question in ["top", "flame"] {
        let mut command = Command::new(integration_tests::tools::profiler()?);
        command.args([
            "fleet",
            question,
            "--from",
            &cluster.address(),
            "--last",
            "1d",
        ]);
        if question == "flame" {
            command.arg("-o").arg(directory.path().join("flame.json"));
        }
        let begin = Instant::now();
        let output = command.stdin(Stdio::null()).output()?;
        let took = begin.elapsed();
        ensure!(
            output.status.success(),
            "profiler fleet {question}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        println!("fleet {question:<19} {} ms", took.as_millis());
    }
    Ok(())
}
