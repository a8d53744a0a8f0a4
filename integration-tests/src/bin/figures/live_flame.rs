//! The cost of the live flame graph: 200 processes that record 1,000 samples a second each, and a
//! page that asks once a second. Called by the group `live`.
//!
//! The samples are written, not taken, because 200 busy processes need 200 processors. Each process
//! has 48 different stacks of 24 frames. The figure is the processor time of the thread that reads
//! the pools and of the server's thread, for each refresh. The look-up of names, which takes place
//! once for each address, is not included.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use profiler_core::ids::ByteLimit;
use profiler_core::sampler::{Frame, ModuleDefinition, Sample, SampleWriter, define_module};
use profiler_core::time::Timestamp;
use profiler_parent::core::session::Features;
use profiler_parent::{LiveServer, Session};

use crate::live::{ask, thread_cpu_ns};
use crate::workers::{self, Worker};

const PROCESSES: u64 = 200;
const SAMPLES_PER_SECOND: u64 = 1000;
/// Samples that a child writes at once.
const BATCH: u64 = 50;
const STACKS: u64 = 48;
const DEPTH: usize = 24;
/// Frames at the outer end that all stacks have.
const COMMON: usize = 12;
/// Refreshes before and during the measurement.
const WARM_UP: usize = 12;
const REFRESHES: usize = 20;
/// What the page asks for.
const PAGE: &str = "flame.json?window=10s&time=on-cpu&sort=self&order=desc&rows=30";
const COMPARED: &str = "flame.json?window=60s&time=all&compare=1&rows=30";
const INVERTED: &str = "flame.json?window=60s&time=on-cpu&inverted=1&rows=30";

/// Measures the flame graph.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let session = Session::builder()
        .features(Features::NONE)
        .memory_limit(ByteLimit::new(256 << 20))
        .start()?;
    let start =
        |number| workers::start(&session, &format!("child {number}"), "live-samples", number);
    let mut workers: Vec<Worker> = (0..PROCESSES).map(start).collect::<Result<_>>()?;
    std::thread::sleep(Duration::from_secs(10));
    let live = session.serve_live(([127, 0, 0, 1], 0).into())?;
    first_numbers(&live, report)?;
    refresh(&live, PAGE, WARM_UP)?;
    let ms = refresh(&live, PAGE, REFRESHES)?;
    let samples = refreshed_samples(&live)?;
    report.put(Figure::new("live.flame_ms", ms[0] + ms[1], "ms").promised(Promise::AtMost(100.0)));
    report.put(Figure::new("live.flame_ms.reader", ms[0], "ms"));
    report.put(Figure::new("live.flame_ms.server", ms[1], "ms"));
    report.put(Figure::new(
        "live.flame_samples_per_s",
        samples,
        "samples/s",
    ));
    for (name, request) in [("compared", COMPARED), ("inverted", INVERTED)] {
        let ms = refresh(&live, request, REFRESHES / 2)?;
        let name = format!("live.flame_ms.{name}");
        report.put(Figure::new(name, ms[0] + ms[1], "ms"));
    }
    let body = ask(&live, PAGE)?;
    let kib = body.len() as f64 / 1024.0;
    report.put(Figure::new("live.flame_answer_kib", kib, "KiB"));
    for worker in &mut workers {
        worker.child.kill().context("cannot end a child")?;
    }
    Ok(())
}

/// Measures how long a page that has just been opened waits for its first numbers.
fn first_numbers(live: &LiveServer, report: &mut Report) -> Result<()> {
    #[allow(clippy::disallowed_methods)] // the client's own time
    let start = Instant::now();
    let ms = || start.elapsed().as_secs_f64() * 1e3;
    for path in ["", "live.css", "live.js", "flame.js", "live.json?psort=cpu"] {
        ask(live, path)?;
    }
    report.put(Figure::new("live.first_numbers_ms", ms(), "ms").promised(Promise::AtMost(300.0)));
    loop {
        let answer: serde_json::Value = serde_json::from_str(&ask(live, PAGE)?)?;
        if answer["total_ns"].as_u64() > Some(0) {
            break;
        }
        ensure!(ms() < 60_000.0, "no time is shown: {answer}");
        std::thread::sleep(Duration::from_millis(100)); // as the page does
    }
    report.put(Figure::new("live.first_flame_ms", ms(), "ms").promised(Promise::AtMost(300.0)));
    Ok(())
}

/// Asks once a second. Returns the milliseconds of processor time per refresh of the reader and of
/// the server.
fn refresh(live: &LiveServer, request: &str, times: usize) -> Result<[f64; 2]> {
    const NAMES: [&str; 2] = ["profiler-flame", "profiler-live"];
    let before = thread_cpu_ns(NAMES)?;
    for _ in 0..times {
        ask(live, request)?;
        std::thread::sleep(Duration::from_secs(1));
    }
    let after = thread_cpu_ns(NAMES)?;
    Ok(std::array::from_fn(|thread| {
        (after[thread] - before[thread]).max(0.0) / 1e6 / times as f64
    }))
}

/// Returns the number of samples that are read per second.
fn refreshed_samples(live: &LiveServer) -> Result<f64> {
    let look = || -> Result<(f64, f64)> {
        let answer: serde_json::Value = serde_json::from_str(&ask(live, PAGE)?)?;
        let number = |key: &str| answer[key].as_f64().context("no number");
        Ok((number("samples")?, number("at_ns")?))
    };
    let before = look()?;
    std::thread::sleep(Duration::from_secs(5));
    let after = look()?;
    Ok((after.0 - before.0) * 1e9 / (after.1 - before.1))
}

/// In a child: writes samples until standard input is closed.
pub(crate) fn write_samples(child: u64) -> ! {
    let module = define_module(&ModuleDefinition {
        path: std::env::current_exe()
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default(),
        build_id: Vec::new(),
        base: 0,
        start: 0,
        end: 1 << 32,
    });
    let stacks: Vec<Vec<Frame>> = (0..STACKS)
        .map(|stack| frames(module, child, stack))
        .collect();
    let tid = profiler_core::thread::current();
    let mut writer = SampleWriter::new();
    workers::until_closed("sampling");
    let pause = Duration::from_millis(BATCH * 1000 / SAMPLES_PER_SECOND);
    #[allow(clippy::disallowed_methods)] // a pace of wall time, not a timestamp
    let start = Instant::now();
    let mut random = child * 7919 + 1;
    for round in 1_u32.. {
        for _ in 0..BATCH {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // A stack often lasts for several samples.
            let stack = usize::try_from(random % STACKS * (random >> 32 & 1)).unwrap_or(0);
            writer.sample(
                tid,
                &Sample {
                    at: Timestamp::now(),
                    cpu_ns: Some(1_000_000_000 / SAMPLES_PER_SECOND),
                    frames: &stacks[stack],
                    cut: false,
                    failed: false,
                },
            );
        }
        std::thread::sleep((pause * round).saturating_sub(start.elapsed()));
    }
    std::process::exit(0)
}

/// A stack: the outer frames are the same in all stacks, and the inner frames differ. Every eighth
/// frame differs between processes.
fn frames(module: Option<profiler_core::ids::DefinitionId>, child: u64, stack: u64) -> Vec<Frame> {
    let frame = |depth: usize| {
        let own = if depth < COMMON { 0 } else { stack + 1 };
        let process = if depth % 8 == 7 { child % 20 } else { 0 };
        let address = 0x10_0000 + (depth as u64 * 64 + own) * 512 + process * 16;
        module.map_or(Frame::Unknown(address), |module| {
            Frame::Code(module, address)
        })
    };
    (0..DEPTH).map(frame).collect()
}
