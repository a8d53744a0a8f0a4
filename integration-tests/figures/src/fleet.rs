//! Group `fleet`: how many bytes the samples of a host need on their way to ClickHouse, and how
//! many samples two servers take per second.
//!
//! The batch is that of a service: eight threads, sampled every millisecond for ten seconds, each
//! with the processor time and the jitter of a real sampler. A thread stays in a stack for about
//! three samples, and takes most of its 400 stacks, with 20 functions each, rarely. The bytes are
//! those of all tables, names included, compressed as a request is. The servers run on this machine
//! beside the sender; each row goes through the `Distributed` table, and is on its server when it
//! counts.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use integration_tests::clickhouse::Cluster;
use integration_tests::figure::{Figure, Promise, Report};
use profiler_export::{ExportOptions, FleetLabels, FleetTable, Target, export_labelled};
use profiler_files::WorkListener;
use serde_json::{Value, json};

const THREADS: usize = 8;
const SAMPLES: usize = 10_000;
const STACKS: u64 = 400;
const DEPTH: u64 = 20;
/// Hosts whose batches are inserted.
const HOSTS: usize = 32;

/// All figures of the store.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let profile = directory.path().join("profile.json");
    std::fs::File::create(&profile)?.write_all(recording().to_string().as_bytes())?;
    let rows = directory.path().join("rows");
    export_rows(&profile, &rows, "host 0")?;
    let mut bytes = 0;
    for table in FleetTable::ALL {
        bytes += std::fs::metadata(path(&rows, table))?.len();
    }
    let per_sample = bytes as f64 / (THREADS * SAMPLES) as f64;
    let figure = Figure::new("push.bytes_per_sample", per_sample, "bytes");
    report.put(figure.promised(Promise::AtMost(8.0)));
    insert(&profile, directory.path(), report)
}

fn path(rows: &Path, table: FleetTable) -> std::path::PathBuf {
    rows.join(format!("{}.ndjson.gz", table.name()))
}

fn export_rows(profile: &Path, to: &Path, host: &str) -> Result<()> {
    let mut labels = FleetLabels::default();
    labels.host = Some(host.to_owned());
    let options = ExportOptions::to(Target::ClickHouse).names(false);
    let done = export_labelled(profile, to, &options, &labels, WorkListener::default())?;
    ensure!(
        done.samples == (THREADS * SAMPLES) as u64,
        "samples are missing"
    );
    Ok(())
}

/// Inserts the batches of all hosts.
#[allow(clippy::disallowed_methods)] // a stopwatch
fn insert(profile: &Path, directory: &Path, report: &mut Report) -> Result<()> {
    let samples = (HOSTS * THREADS * SAMPLES) as f64;
    let Some(cluster) = Cluster::start()? else {
        let why = Some("no clickhouse-server".to_owned());
        let figure = Figure::new("push.rows_s", 0.0, "samples/s");
        report.put(figure.or_left_out(why));
        return Ok(());
    };
    let mut seconds = 0.0;
    for host in 0..HOSTS {
        let rows = directory.join("host");
        export_rows(profile, &rows, &format!("host {host}"))?;
        for table in FleetTable::ALL {
            let mut body = Vec::new();
            GzDecoder::new(std::fs::File::open(path(&rows, table))?).read_to_end(&mut body)?;
            let begin = Instant::now();
            if !body.is_empty() {
                cluster.insert(table, &body)?;
            }
            seconds += begin.elapsed().as_secs_f64();
        }
    }
    let counted =
        cluster.execute("SELECT sum(length(sample.stack)) FROM profiler_samples FINAL")?;
    let counted: f64 = counted.trim().parse().context("no number")?;
    ensure!(
        counted == samples,
        "{counted} of {samples} samples were inserted"
    );
    report.put(Figure::new("push.rows_s", samples / seconds, "samples/s"));
    Ok(())
}

/// Returns a pseudo-random number less than `below`. It is the same in every run.
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    (*seed >> 33) % below
}

/// The batch. Stack `s` has the functions of a path in a tree whose nodes have three callees.
fn recording() -> Value {
    let mut seed = 1;
    let (mut frames, mut prefixes, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
    let mut known = std::collections::HashMap::new();
    for stack in 0..STACKS {
        let mut at: Option<usize> = None;
        for depth in 0..DEPTH {
            let callee = if depth < 4 {
                0
            } else {
                draw(&mut seed, 2) + stack % 3
            };
            let function = (depth * 5 + callee) as usize;
            at = Some(*known.entry((at, function)).or_insert_with(|| {
                frames.push(function);
                prefixes.push(at);
                frames.len() - 1
            }));
        }
        leaves.push(at);
    }
    let thread = |number: usize| thread(number, &leaves);
    let functions: Vec<usize> = (0..DEPTH as usize * 5).collect();
    let name = |function: &usize| format!("shop::module_{}::function_{function}", function % 7);
    let names: Vec<String> = functions.iter().map(name).collect();
    json!({
        "meta": {"preprocessedProfileVersion": 60, "interval": 1, "product": "shop",
                 "startTime": 1.7e12, "profilingEndTime": 10_000, "markerSchema": [],
                 "categories": [], "sampleUnits": {"threadCPUDelta": "ns"}},
        "libs": [], "threads": (0..THREADS).map(thread).collect::<Vec<_>>(),
        "shared": {
            "stackTable": {"length": frames.len(), "frame": frames, "prefix": prefixes},
            "frameTable": {"length": functions.len(), "func": functions},
            "funcTable": {"length": functions.len(), "name": functions},
            "stringArray": names,
        },
    })
}

/// A thread. A few stacks have most samples.
fn thread(number: usize, leaves: &[Option<usize>]) -> Value {
    let mut seed = number as u64 + 7;
    let (mut stacks, mut deltas, mut cpus) = (Vec::new(), Vec::new(), Vec::new());
    let mut stack = 0;
    for _ in 0..SAMPLES {
        if draw(&mut seed, 3) == 0 {
            let most = draw(&mut seed, STACKS) + 1;
            stack = draw(&mut seed, most) as usize;
        }
        let ns = 980_000 + draw(&mut seed, 40_000);
        stacks.push(leaves.get(stack).copied().flatten());
        deltas.push(ns as f64 / 1e6);
        cpus.push(ns - draw(&mut seed, 5_000));
    }
    json!({
        "name": format!("worker {number}"), "processName": "shop", "pid": "7", "tid": number,
        "samples": {"length": SAMPLES, "weightType": "samples", "stack": stacks,
                    "timeDeltas": deltas, "threadCPUDelta": cpus},
    })
}
