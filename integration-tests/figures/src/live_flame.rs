//! The cost of the live flame graph: 200 processes that record 1,000 samples a second each, and a
//! page that asks once a second. Called by the group `live`.
//!
//! The samples are written, not taken, because 200 busy processes need 200 processors. Each process
//! has 48 different stacks of 24 frames, in a second session 400. The figure is the processor time
//! of the thread that reads the pools, and of the server's thread and its workers, for each
//! refresh. The look-up of names, which takes place once for each address, is included only in the
//! cost of a page whose processes are stopped.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::own::state_of;
use integration_tests::patience::until;
use profiler_core::sampler::{Frame, ModuleDefinition, Sample, SampleWriter, define_module};
use profiler_core::time::Timestamp;
use profiler_parent::{LiveServer, Session};
use rustix::process::{Pid, Signal, kill_process};

use crate::live::{PageAddress, ask, thread_cpu_ns};
use crate::workers::{self, Worker};

const PROCESSES: u64 = 200;
const SAMPLES_PER_SECOND: u64 = 1000;
/// Samples that a child writes at once.
const BATCH: u64 = 50;
/// Different stacks of a process, and of a process with many.
pub(crate) const STACKS: u64 = 48;
pub(crate) const MANY_STACKS: u64 = 400;
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
/// The threads that read the pools, that answer requests, and that look up names.
const THREADS: [&str; 3] = ["profiler-flame", "profiler-live", "profiler-names"];

/// Measures the flame graph.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let scene = Scene::start("live-samples")?;
    std::thread::sleep(Duration::from_secs(10));
    let live = scene.serve()?;
    first_numbers(&live, report)?;
    refresh(&live, PAGE, WARM_UP)?;
    let [reader, server, _] = refresh(&live, PAGE, REFRESHES)?;
    let samples = refreshed_samples(&live)?;
    let figure = Figure::new("live.flame_ms", reader + server, "ms");
    report.put(figure.promised(Promise::AtMost(100.0)));
    report.put(Figure::new("live.flame_ms.reader", reader, "ms"));
    report.put(Figure::new("live.flame_ms.server", server, "ms"));
    report.put(Figure::new(
        "live.flame_samples_per_s",
        samples,
        "samples/s",
    ));
    for (name, request) in [("compared", COMPARED), ("inverted", INVERTED)] {
        let [reader, server, _] = refresh(&live, request, REFRESHES / 2)?;
        let name = format!("live.flame_ms.{name}");
        report.put(Figure::new(name, reader + server, "ms"));
    }
    let body = ask(&live, PAGE)?;
    let kib = body.len() as f64 / 1024.0;
    report.put(Figure::new("live.flame_answer_kib", kib, "KiB"));
    rest(&scene, &live, report)?;
    drop(live);
    scene.end()?;
    many_stacks(report)
}

/// Measures the cost of an open page whose processes record nothing, because they are stopped.
fn rest(scene: &Scene, live: &LiveServer, report: &mut Report) -> Result<()> {
    scene.stop()?;
    refresh(live, PAGE, WARM_UP)?;
    #[allow(clippy::disallowed_methods)] // the client's own time
    let start = Instant::now();
    let ms: f64 = refresh(live, PAGE, REFRESHES)?.iter().sum();
    let seconds = start.elapsed().as_secs_f64();
    let pct = ms * REFRESHES as f64 / 1e3 / seconds * 100.0;
    let figure = Figure::new("live.flame_rest_pct", pct, "% of a CPU");
    report.put(figure.promised(Promise::Below(1.0)));
    Ok(())
}

/// Measures a refresh if each process has many different stacks.
fn many_stacks(report: &mut Report) -> Result<()> {
    let scene = Scene::start("live-many-stacks")?;
    let live = scene.serve()?;
    refresh(&live, PAGE, WARM_UP)?;
    let [reader, server, _] = refresh(&live, PAGE, REFRESHES / 2)?;
    let figure = Figure::new("live.flame_ms.many_stacks", reader + server, "ms");
    report.put(figure);
    let answer: serde_json::Value = serde_json::from_str(&ask(&live, PAGE)?)?;
    let functions = answer["table"]["total"].as_f64().context("no functions")?;
    report.put(Figure::new(
        "live.flame_functions.many_stacks",
        functions,
        "functions",
    ));
    drop(live);
    scene.end()
}

/// A session with children that write samples.
struct Scene {
    session: Session,
    workers: Vec<Worker>,
}

impl Scene {
    fn start(mode: &str) -> Result<Self> {
        let session = workers::quiet_session(256 << 20)?;
        let workers = workers::start_all(&session, PROCESSES, "child", mode, |number| number)?;
        Ok(Self { session, workers })
    }

    fn serve(&self) -> Result<LiveServer> {
        Ok(self.session.serve_live(([127, 0, 0, 1], 0).into())?)
    }

    /// Stops all children, as a debugger does.
    fn stop(&self) -> Result<()> {
        for worker in &self.workers {
            let pid = worker.child.id().get();
            let known = Pid::from_raw(pid.cast_signed()).context("no process")?;
            kill_process(known, Signal::STOP)?;
            ensure!(
                until(|| state_of(pid) == Some('T')),
                "a child does not stop"
            );
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.child.kill().context("cannot end a child")?;
        }
        Ok(())
    }
}

/// Measures how long a page that has just been opened waits for its first numbers, for a flame
/// graph that has samples of all processes, and for one that has all samples of the last ten
/// seconds. The requests are those of a browser: what one file refers to is requested at the same
/// time, and the page requests its numbers and its flame graph at the same time.
fn first_numbers(live: &LiveServer, report: &mut Report) -> Result<()> {
    let page = PageAddress::of(live)?;
    #[allow(clippy::disallowed_methods)] // the client's own time
    let start = Instant::now();
    let ms = || start.elapsed().as_secs_f64() * 1e3;
    page.ask("")?;
    page.ask_at_once(["live.css", "live.js"])?;
    page.ask("flame.js")?;
    let flames = || -> Result<[f64; 2]> {
        let mut first = None;
        loop {
            let answer: serde_json::Value = serde_json::from_str(&page.ask(PAGE)?)?;
            if answer["process_count"] == PROCESSES {
                let first = *first.get_or_insert_with(ms);
                if answer["is_window_read"] == true {
                    return Ok([first, ms()]);
                }
            }
            ensure!(ms() < 60_000.0, "not all time is shown: {answer}");
            std::thread::sleep(Duration::from_millis(100)); // as the page does
        }
    };
    let (numbers, flames) = std::thread::scope(|scope| {
        let flames = scope.spawn(flames);
        let numbers = page.ask("live.json?psort=cpu").map(|_| ms());
        (numbers, flames.join())
    });
    let [first, whole] = flames.ok().context("a client panicked")??;
    for (name, ms) in [
        ("live.first_numbers_ms", numbers?),
        ("live.first_flame_ms", first),
    ] {
        report.put(Figure::new(name, ms, "ms").promised(Promise::AtMost(300.0)));
    }
    report.put(Figure::new("live.whole_flame_ms", whole, "ms"));
    Ok(())
}

/// Asks once a second. Returns the milliseconds of processor time per refresh of each of
/// [`THREADS`].
fn refresh(live: &LiveServer, request: &str, times: usize) -> Result<[f64; 3]> {
    let before = thread_cpu_ns(THREADS)?;
    for _ in 0..times {
        ask(live, request)?;
        std::thread::sleep(Duration::from_secs(1));
    }
    let after = thread_cpu_ns(THREADS)?;
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

/// In a child: writes samples with this number of different stacks until standard input is closed.
pub(crate) fn write_samples(child: u64, count: u64) -> ! {
    let module = define_module(&ModuleDefinition {
        path: std::env::current_exe()
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default(),
        build_id: Vec::new(),
        base: 0,
        start: 0,
        end: 1 << 32,
    });
    let stacks: Vec<Vec<Frame>> = (0..count)
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
            let stack = usize::try_from(random % count * (random >> 32 & 1)).unwrap_or(0);
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
        let address = 0x10_0000 + (depth as u64 * (MANY_STACKS + 1) + own) * 512 + process * 16;
        module.map_or(Frame::Unknown(address), |module| {
            Frame::Code(module, address)
        })
    };
    (0..DEPTH).map(frame).collect()
}
