//! Group `export`: how fast a profile is written as another tool's file, and how fast `profiler
//! info` reads it, in megabytes of the profile's text per second (1 MB = 1,000,000 bytes); and the
//! growth of memory during an export.
//!
//! The profile is in the processed format, not compressed: it has samples of eight threads that
//! share a tree of calls, with files, lines and processor times, and markers. It contains
//! everything that the target formats can represent. The time includes reading the profile twice,
//! writing, and the file on disk; for `profiler info`, the start of the command.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use profiler_export::{ExportOptions, Target, export};

use integration_tests::figure::{Figure, Report};
use integration_tests::measure::{PeakMemory, median};

pub(crate) const THREADS: u64 = 8;
pub(crate) const SAMPLES: u64 = 100_000;
const MARKERS: u64 = 10_000;
const STACKS: u64 = 50_000;
const FUNCTIONS: u64 = 5_000;
const RUNS: usize = 3;

/// All figures of exports and of `profiler info`.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let from = directory.path().join("profile.json");
    write_profile(&from)?;
    let megabytes = std::fs::metadata(&from)?.len() as f64 / 1e6;
    let targets = [
        ("cpuprofile", Target::CpuProfile),
        ("chrome_trace", Target::ChromeTrace),
        ("pprof", Target::Pprof),
        ("speedscope", Target::Speedscope),
        ("folded", Target::Folded),
        ("perfetto", Target::Perfetto),
    ];
    for (name, target) in targets {
        let mut seconds = Vec::new();
        let mut peak = 0.0_f64;
        for _ in 0..RUNS {
            let memory = PeakMemory::begin()?;
            seconds.push(timed(&from, &directory.path().join(name), target)?);
            peak = peak.max(memory.growth_mib()?);
        }
        report.put(Figure::new(
            format!("export.{name}.mb_s"),
            megabytes / median(&seconds),
            "MB/s",
        ));
        let name = format!("export.{name}.peak_mib");
        report.put(Figure::new(name, peak, "MiB"));
    }
    let mut seconds = Vec::new();
    for _ in 0..RUNS {
        seconds.push(timed_info(&from)?);
    }
    let rate = megabytes / median(&seconds);
    report.put(Figure::new("info.mb_s", rate, "MB/s"));
    Ok(())
}

#[allow(clippy::disallowed_methods)] // a stopwatch
fn timed(from: &Path, to: &Path, target: Target) -> Result<f64> {
    let begin = Instant::now();
    let done = export(from, to, &ExportOptions::to(target))?;
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(
        done.samples == THREADS * SAMPLES,
        "{} samples are missing",
        THREADS * SAMPLES - done.samples
    );
    Ok(seconds)
}

/// The time of `profiler info`, which must be built beside this program.
#[allow(clippy::disallowed_methods)] // a stopwatch
fn timed_info(from: &Path) -> Result<f64> {
    let command = std::env::current_exe()?.with_file_name("profiler");
    ensure!(
        command.exists(),
        "not built: cargo build --release -p profiler-cli"
    );
    let begin = Instant::now();
    let mut info = Command::new(command);
    let status = info.arg("info").arg(from).stdout(Stdio::null()).status()?;
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(status.success(), "profiler info: {status}");
    Ok(seconds)
}

/// Returns a pseudo-random number less than `below`. It is the same in every run.
fn draw(seed: u64, below: u64) -> u64 {
    let mixed = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed >> 7))
        .wrapping_mul(0xd1b5_4a32_d192_ed03);
    (mixed >> 33) % below
}

/// Writes the profile that is exported.
pub(crate) fn write_profile(path: &Path) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    write!(
        out,
        r#"{{"meta":{{"preprocessedProfileVersion":60,"interval":1,"product":"figures","startTime":0,"#
    )?;
    write!(
        out,
        r#""markerSchema":[],"categories":[{{"name":"Other","color":"grey"}}],"sampleUnits":{{"threadCPUDelta":"ns"}}}},"libs":[],"threads":["#
    )?;
    for thread in 0..THREADS {
        let comma = if thread > 0 { "," } else { "" };
        write!(
            out,
            r#"{comma}{{"name":"worker {thread}","isMainThread":false,"processName":"p","pid":"{}","#,
            thread % 2
        )?;
        write!(
            out,
            r#""tid":{thread},"samples":{{"length":{SAMPLES},"weight":null,"weightType":"samples","#
        )?;
        column(&mut out, "stack", SAMPLES, |row| {
            draw(row / 3 + thread * SAMPLES, STACKS).to_string()
        })?;
        column(&mut out, "timeDeltas", SAMPLES, |row| {
            format!("{}.{:06}", 1, draw(row, 1000))
        })?;
        column(&mut out, "threadCPUDelta", SAMPLES, |row| {
            (draw(row, 4) * 300_000).to_string()
        })?;
        write!(out, r#""end":0}},"markers":{{"length":{MARKERS},"#)?;
        column(&mut out, "name", MARKERS, |row| {
            draw(row, FUNCTIONS).to_string()
        })?;
        column(&mut out, "startTime", MARKERS, |row| (row * 10).to_string())?;
        column(&mut out, "endTime", MARKERS, |row| {
            (row * 10 + draw(row, 15)).to_string()
        })?;
        column(&mut out, "phase", MARKERS, |_| "1".to_owned())?;
        column(&mut out, "category", MARKERS, |_| "0".to_owned())?;
        column(&mut out, "data", MARKERS, |row| {
            format!(r#"{{"type":"Text","name":"request {row}"}}"#)
        })?;
        write!(out, r#""end":0}}}}"#)?;
    }
    write!(out, r#"],"shared":{{"stackTable":{{"length":{STACKS},"#)?;
    column(&mut out, "frame", STACKS, |row| {
        draw(row, FUNCTIONS * 2).to_string()
    })?;
    column(&mut out, "prefix", STACKS, |row| match row {
        0 => "null".to_owned(),
        // A stack has a dozen callers on average, and some have far more.
        row => (row - 1 - draw(row, row.min(4000))).to_string(),
    })?;
    write!(
        out,
        r#""end":0}},"frameTable":{{"length":{},"#,
        FUNCTIONS * 2
    )?;
    column(&mut out, "func", FUNCTIONS * 2, |row| (row / 2).to_string())?;
    column(&mut out, "line", FUNCTIONS * 2, |row| (row + 1).to_string())?;
    column(&mut out, "address", FUNCTIONS * 2, |row| {
        (row * 16).to_string()
    })?;
    write!(out, r#""end":0}},"funcTable":{{"length":{FUNCTIONS},"#)?;
    column(&mut out, "name", FUNCTIONS, |row| row.to_string())?;
    column(&mut out, "source", FUNCTIONS, |row| (row % 300).to_string())?;
    write!(out, r#""end":0}},"sources":{{"length":300,"#)?;
    column(&mut out, "filename", 300, |row| row.to_string())?;
    write!(out, r#""end":0}},"#)?;
    column(&mut out, "stringArray", FUNCTIONS, |row| {
        format!(r#""application::module_{}::function_{row}""#, row % 90)
    })?;
    write!(out, r#""end":0}}}}"#)?;
    Ok(out.flush()?)
}

fn column(
    out: &mut impl Write,
    name: &str,
    rows: u64,
    value: impl Fn(u64) -> String,
) -> Result<()> {
    write!(out, r#""{name}":["#)?;
    for row in 0..rows {
        write!(out, "{}{}", if row > 0 { "," } else { "" }, value(row))?;
    }
    Ok(write!(out, "],")?)
}
