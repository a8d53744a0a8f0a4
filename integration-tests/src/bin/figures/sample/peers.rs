//! The same work, sampled at the same frequency by others: by the `pprof` crate, and by `perf record -g`.
//!
//! Each does it in a process of its own, so that neither's handler, timer or thread is in the other's way. In it the work is
//! done again and again, in turn alone and sampled: a machine that changes its pace changes both. `pprof`'s timer counts in the kernel's
//! ticks: where there are 250 of them a second it takes 250 samples, whatever it is asked for. So what is compared is what one
//! sample costs: the processor time that the work takes more than alone, by the samples that were taken. `ratio` counts
//! the thread that works, `cpu_ratio` all threads of the process, so our sampler too. `bare` is what a signal from another thread costs
//! whose handler does nothing: in a virtual machine most of it all, for interrupting another processor is dear there, and `pprof`'s timer
//! shares the interrupt with the kernel's tick. Of `perf`, whose samples the
//! kernel takes, only the slowdown is printed.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};

use super::held::{handle, signal};
use super::session::{Sampling, at_depth};
use crate::figure::{Figure, Promise, Report};
use crate::measure::{cpu_ns_of, median, median_ratio};
use crate::workers::CHILD;

/// Processes of each.
const ROUNDS: usize = 3;
/// Times that each process does the work alone and sampled.
const PAIRS: usize = 20;
/// About 0.2 s of work.
const WORK: u64 = 700_000_000;
const DEPTH: u32 = 30;
const HZ: i32 = 1000;
/// So many samples each time are too few to say what one costs.
const FEW: f64 = 20.0;

/// Who samples, as a child is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nobody = 0,
    Us = 1,
    Pprof = 2,
    /// Signals as often as ours, whose handler does nothing.
    Signals = 3,
}

/// What a child found, each number the median of its pairs; times are nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// The work alone.
    alone: f64,
    /// What a sample costs the thread that works, and the process.
    thread: f64,
    process: f64,
    slowdown_pct: f64,
    /// Each time.
    samples: f64,
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let program = std::env::current_exe()?;
    let directory = tempfile::tempdir()?;
    let (mut alone, mut ours, mut pprof, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut perf, mut no_perf) = (Vec::new(), None);
    for _ in 0..ROUNDS {
        ours.push(child(&program, By::Us)?);
        pprof.push(child(&program, By::Pprof)?);
        bare.push(child(&program, By::Signals)?);
        alone.push(child(&program, By::Nobody)?.alone);
        if no_perf.is_none() {
            match under_perf(&program, &directory.path().join("perf.data")) {
                Ok(found) => perf.push(found.alone),
                Err(error) => no_perf = Some(format!("{error:#}")),
            }
        }
    }
    put(report, &ours, &pprof, &bare);
    let slowdown = (median_ratio(&perf, &alone) - 1.0) * 100.0;
    report.put(Figure::new("sample.vs_perf.slowdown_pct", slowdown, "%").or_left_out(no_perf));
    Ok(())
}

fn put(report: &mut Report, ours: &[Found], pprof: &[Found], bare: &[Found]) {
    let middle = |all: &[Found], of: fn(&Found) -> f64| median(&all.iter().map(of).collect::<Vec<_>>());
    let all = [("ours", ours), ("pprof", pprof), ("bare", bare)];
    let few = all.iter().find(|(_, all)| middle(all, |found| found.samples) < FEW);
    let few = few.map(|(name, _)| format!("too few samples of {name}"));
    let lost = middle(pprof, |found| found.thread);
    let none =
        (lost <= 0.0).then(|| "the machine is too busy: pprof costs nothing that can be seen".to_owned());
    let signal = middle(bare, |found| found.thread);
    let dear = (signal >= lost).then(|| {
        format!("a signal alone costs {:.1} µs here, a sample of pprof's {:.1}", signal / 1e3, lost / 1e3)
    });
    let thread = middle(ours, |found| found.thread) / lost;
    let figure = Figure::new("sample.vs_pprof.ratio", thread, "x pprof's loss per sample");
    report.put(figure.promised(Promise::Below(1.0)).unless(few.clone()).unless(none.clone()).unless(dear));
    let process = middle(ours, |found| found.process) / middle(pprof, |found| found.process);
    let figure = Figure::new("sample.vs_pprof.cpu_ratio", process, "x pprof's cpu per sample");
    report.put(figure.unless(few).unless(none));
    for (name, all) in all {
        let us = middle(all, |found| found.thread) / 1e3;
        let rate = middle(all, |found| found.samples * 1e9 / found.alone);
        let name = format!("sample.vs_pprof.{name}");
        report.put(Figure::new(format!("{name}.loss_us"), us, "µs per sample"));
        report.put(Figure::new(format!("{name}.slowdown_pct"), middle(all, |found| found.slowdown_pct), "%"));
        report.put(Figure::new(format!("{name}.samples"), rate, "per second of work"));
    }
}

fn child(program: &Path, by: By) -> Result<Found> {
    run(Command::new(program).args([CHILD, "peer", &(by as u32).to_string()]))
}

fn under_perf(program: &Path, file: &Path) -> Result<Found> {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-F", &HZ.to_string(), "-g", "-o"]).arg(file).arg("--").arg(program);
    let found = run(perf.args([CHILD, "peer", "0"])).context("perf record")?;
    ensure!(std::fs::metadata(file)?.len() > 100_000, "perf record took no samples");
    Ok(found)
}

/// Runs a child that does as [`work`] does.
fn run(command: &mut Command) -> Result<Found> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let error = error.lines().next().unwrap_or_default();
    ensure!(output.status.success(), "{}: {said} {error}", output.status);
    let numbers: Vec<f64> = said.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [alone, thread, process, slowdown_pct, samples] = numbers[..] else {
        bail!("it said {said:?}: {error}")
    };
    Ok(Found { alone, thread, process, slowdown_pct, samples })
}

/// In the child: works alone and sampled in turn, and prints what was found.
pub(crate) fn work(by: u64) -> Result<()> {
    let mut pairs = Vec::new();
    took(); // what is done for the first time is in no pair
    for _ in 0..PAIRS {
        let alone = took();
        let (sampled, samples) = match by {
            0 => (took(), 0),
            1 => {
                let sampling = Sampling::start()?;
                (took(), sampling.stats()?.taken)
            }
            2 => by_pprof()?,
            _ => by_signals()?,
        };
        let one_thread = |took: Took| Took { process: took.thread, ..took };
        // The clock of a process with `pprof`'s timer counts in ticks, but that process has one thread.
        let [alone, sampled] = if by == 2 { [alone, sampled].map(one_thread) } else { [alone, sampled] };
        pairs.push((alone, sampled, samples as f64));
    }
    let middle = |of: &dyn Fn(&(Took, Took, f64)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
    let alone = middle(&|(alone, ..)| alone.thread);
    let thread = middle(&|(alone, sampled, samples)| (sampled.thread - alone.thread) / samples.max(1.0));
    let process = middle(&|(alone, sampled, samples)| (sampled.process - alone.process) / samples.max(1.0));
    let slowdown = middle(&|(alone, sampled, _)| (sampled.thread / alone.thread - 1.0) * 100.0);
    let samples = middle(&|(.., samples)| *samples);
    println!("{alone} {thread} {process} {slowdown} {samples}");
    Ok(())
}

fn by_pprof() -> Result<(Took, u64)> {
    let profiler = pprof::ProfilerGuardBuilder::default().frequency(HZ).build()?;
    let took = took();
    let report = profiler.report().build_unresolved()?;
    Ok((took, report.data.values().map(|count| count.unsigned_abs() as u64).sum()))
}

/// Signals from another thread, at the rate of samples.
fn by_signals() -> Result<(Took, u64)> {
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let thread = profiler_core::thread::current();
    let send = || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(950));
            signal(thread);
            sent.fetch_add(1, Ordering::Relaxed);
        }
    };
    handle(ignore as extern "C" fn(libc::c_int))?;
    std::thread::scope(|scope| {
        scope.spawn(send);
        let took = took();
        stop.store(true, Ordering::Relaxed);
        Ok((took, sent.load(Ordering::Relaxed)))
    })
}

extern "C" fn ignore(_: libc::c_int) {}

/// Processor time of the work: of the thread, and of the process.
#[derive(Clone, Copy, Debug)]
struct Took {
    thread: f64,
    process: f64,
}

fn took() -> Took {
    let process_ns = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let before = process_ns();
    let work = || at_depth(DEPTH, &mut || (0..WORK).for_each(|number| _ = black_box(number)));
    let (thread, _) = cpu_ns_of(work);
    Took { thread, process: process_ns() - before }
}
