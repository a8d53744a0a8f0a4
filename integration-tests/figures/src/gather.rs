//! Gathering: the time of a capture relative to the slowest child's own writing, and the memory
//! that a capture costs the parent.
//!
//! Four children record 64 MiB each, then captures are saved as plain JSON, in each format. In the
//! Gecko format the wall ratio divides the time of the whole capture by the longest time that a
//! child spent writing its part. In the processed format the parent does all of the work. The
//! hardest recording for the parent's memory is one without repeated names and stacks:
//! `gather.*.varied`.

use std::time::{Duration, Instant};

use anyhow::Result;
use profiler_core::ids::ByteLimit;
use profiler_parent::core::session::Features;
use profiler_parent::{CaptureReport, Format, Session, Verdict};

use crate::workers;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{PeakMemory, median};

const CHILDREN: usize = 4;
const BYTES_EACH: u64 = 64 << 20;
const RUNS: usize = 5;
const STARTS: usize = 25;

/// All figures of gathering.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    child_init(report)?;
    let session = workers::quiet_session(512 << 20)?;
    let mut workers = workers::start_all(&session, CHILDREN, "fill", "fill", |_| BYTES_EACH)?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("profile.json");
    let runs = |format| {
        (0..RUNS)
            .map(|_| capture(&session, &path, format))
            .collect::<Result<Vec<_>>>()
    };
    put(report, &runs(Format::Gecko)?);
    put_processed(report, &runs(Format::Processed)?);
    for worker in &mut workers {
        worker.child.wait()?;
    }
    drop(session);
    varied(report)
}

/// Measures the parent's memory when no name and no stack occurs twice.
fn varied(report: &mut Report) -> Result<()> {
    let session = workers::quiet_session(512 << 20)?;
    let mut workers = workers::start_all(&session, CHILDREN, "vary", "vary", |_| BYTES_EACH)?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("profile.json");
    // The processed format comes first: memory that a capture returns to the allocator stays
    // resident, so the next capture grows less. The tables of the Gecko format are not bounded.
    // They are in the parent's memory when it writes a part for a late child.
    let formats = [
        (
            "gather.processed.varied",
            Format::Processed,
            Promise::AtMost(64.0),
        ),
        ("gather.varied", Format::Gecko, Promise::None),
    ];
    for (name, format, promise) in formats {
        let run = capture(&session, &path, format)?;
        let late = run
            .report
            .processes
            .iter()
            .filter(|process| process.verdict != Verdict::Complete);
        late.for_each(|process| eprintln!("{name}: {}: {}", process.name, process.verdict));
        run.report
            .left_out
            .iter()
            .for_each(|remark| eprintln!("{name}: {remark}"));
        report.put(Figure::new(
            format!("{name}.entries"),
            delivered(&run) as f64,
            "entries",
        ));
        let growth = Figure::new(
            format!("{name}.parent_rss_growth_mib"),
            run.growth_mib,
            "MiB",
        );
        report.put(growth.promised(promise));
    }
    for worker in &mut workers {
        worker.child.wait()?;
    }
    Ok(())
}

fn delivered(run: &Run) -> u64 {
    run.report
        .processes
        .iter()
        .map(|process| process.counts.delivered)
        .sum()
}

/// Returns why figures over these runs are not valid.
fn objection(runs: &[Run]) -> Option<String> {
    let delivered = runs.last().map_or(0, delivered);
    let expected = CHILDREN as u64 * BYTES_EACH / 56;
    (delivered < expected * 9 / 10).then(|| format!("{delivered} of {expected} entries"))
}

struct Run {
    wall: Duration,
    growth_mib: f64,
    report: CaptureReport,
}

fn capture(session: &Session, path: &std::path::Path, format: Format) -> Result<Run> {
    let memory = PeakMemory::begin()?;
    #[allow(clippy::disallowed_methods)] // a stopwatch around the capture
    let start = Instant::now();
    let report = session.capture().format(format).save(path)?;
    let wall = start.elapsed();
    let growth_mib = memory.growth_mib()?;
    Ok(Run {
        wall,
        growth_mib,
        report,
    })
}

fn put(report: &mut Report, runs: &[Run]) {
    let slowest = |run: &Run| {
        run.report
            .processes
            .iter()
            .map(|process| process.writing)
            .max()
            .unwrap_or_default()
    };
    let ratio = |run: &Run| run.wall.as_secs_f64() / slowest(run).as_secs_f64();
    let median_of =
        |figure: &dyn Fn(&Run) -> f64| median(&runs.iter().map(figure).collect::<Vec<_>>());
    let bytes = runs.last().map_or(0, |run| run.report.bytes);
    let too_few = objection(runs);
    report.put(Figure::new(
        "gather.entries",
        runs.last().map_or(0, delivered) as f64,
        "entries",
    ));
    report.put(Figure::new(
        "gather.json_mib",
        bytes as f64 / f64::from(1 << 20),
        "MiB",
    ));
    report.put(Figure::new(
        "gather.wall_s",
        median_of(&|run| run.wall.as_secs_f64()),
        "s",
    ));
    report.put(Figure::new(
        "gather.slowest_child_s",
        median_of(&|run| slowest(run).as_secs_f64()),
        "s",
    ));
    let wall =
        Figure::new("gather.wall_ratio", median_of(&ratio), "x").promised(Promise::AtMost(1.3));
    report.put(wall.unless(too_few.clone()));
    let growth = runs.iter().map(|run| run.growth_mib).fold(0.0, f64::max);
    let growth =
        Figure::new("gather.parent_rss_growth_mib", growth, "MiB").promised(Promise::AtMost(64.0));
    report.put(growth.unless(too_few));
}

/// Reports the default format, for which the parent reads all pools itself.
fn put_processed(report: &mut Report, runs: &[Run]) {
    let walls: Vec<f64> = runs.iter().map(|run| run.wall.as_secs_f64()).collect();
    let bytes = runs.last().map_or(0, |run| run.report.bytes);
    let entries = runs.last().map_or(0, delivered) as f64;
    report.put(Figure::new("gather.processed.entries", entries, "entries"));
    report.put(Figure::new(
        "gather.processed.json_mib",
        bytes as f64 / f64::from(1 << 20),
        "MiB",
    ));
    report.put(Figure::new("gather.processed.wall_s", median(&walls), "s"));
    let growth = runs.iter().map(|run| run.growth_mib).fold(0.0, f64::max);
    let growth = Figure::new("gather.processed.parent_rss_growth_mib", growth, "MiB");
    report.put(
        growth
            .promised(Promise::AtMost(64.0))
            .unless(objection(runs)),
    );
}

/// Measures `child.init_ms`, the time of `profiler_child::init()` on the child's own main thread,
/// and `child.init_sampling_ms`, the same with sampling, where `init` waits for the first scan of
/// the program's modules.
fn child_init(report: &mut Report) -> Result<()> {
    let recording = init_ms(Features::NONE)?;
    report.put(Figure::new("child.init_ms", recording, "ms").promised(Promise::Below(1.0)));
    let sampling = init_ms(Features::STACK_WALK.with(Features::CPU))?;
    report.put(Figure::new("child.init_sampling_ms", sampling, "ms"));
    Ok(())
}

/// Returns the median time of `init` over [`STARTS`] children.
fn init_ms(features: Features) -> Result<f64> {
    let session = Session::builder()
        .features(features)
        .memory_limit(ByteLimit::new(64 << 20))
        .start()?;
    let mut times = Vec::new();
    for number in 0..STARTS {
        let mut worker = workers::start(&session, &format!("init {number}"), "init", 0)?;
        times.push(worker.line.parse::<f64>()? / 1e6);
        worker.child.wait()?;
    }
    Ok(median(&times))
}
