//! The same work, sampled at the same frequency by others: by the `pprof` crate, and by `perf record -g`.
//!
//! Each does it in a process of its own, since `pprof` and we use the same signal; all of them in every round, one after
//! the other, so that a machine that changes its pace changes all. `pprof`'s timer counts in the kernel's ticks: at
//! 250 Hz of these it takes 250 samples a second whatever it is asked for. So what is compared is what one sample costs:
//! the processor time that the same work takes more than alone, by the samples that were taken. `ratio` counts the
//! thread that works, `cpu_ratio` all threads of the process: our sampler's too. For `perf`, whose samples the
//! kernel takes, only the slowdown is printed.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};

use super::session::{Sampling, at_depth};
use crate::figure::{Figure, Promise, Report};
use crate::measure::{cpu_ns_of, median, median_ratio};
use crate::workers::CHILD;

const ROUNDS: usize = 9;
/// About 0.7 s of work, so that there are some hundred samples at the least.
const WORK: u64 = 700_000_000;
const DEPTH: u32 = 30;
const HZ: i32 = 1000;
/// So many samples are too few to say what one costs.
const FEW: f64 = 50.0;

/// Who samples, by the number that a child is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nobody = 0,
    Us = 1,
    Pprof = 2,
}

/// What the work took, in nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    thread: f64,
    process: f64,
    samples: f64,
}

/// All rounds of one of them.
#[derive(Debug, Default)]
struct Rounds(Vec<Took>);

impl Rounds {
    fn column(&self, of: impl Fn(&Took) -> f64) -> Vec<f64> {
        self.0.iter().map(of).collect()
    }

    /// What a sample costs more than working alone, round by round.
    fn each(&self, alone: &Self, of: impl Fn(&Took) -> f64) -> Vec<f64> {
        let both = self.0.iter().zip(&alone.0);
        both.map(|(sampled, alone)| (of(sampled) - of(alone)) / sampled.samples).collect()
    }

    fn slowdown_pct(&self, alone: &Self) -> f64 {
        (median_ratio(&self.column(|took| took.thread), &alone.column(|took| took.thread)) - 1.0) * 100.0
    }
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let program = std::env::current_exe()?;
    let (mut alone, mut ours, mut pprof) = (Rounds::default(), Rounds::default(), Rounds::default());
    let (mut perf, mut no_perf) = (Rounds::default(), None);
    let directory = tempfile::tempdir()?;
    for _ in 0..ROUNDS {
        alone.0.push(child(&program, By::Nobody)?);
        ours.0.push(child(&program, By::Us)?);
        pprof.0.push(child(&program, By::Pprof)?);
        if no_perf.is_none() {
            match under_perf(&program, &directory.path().join("perf.data")) {
                Ok(took) => perf.0.push(took),
                Err(error) => no_perf = Some(format!("{error:#}")),
            }
        }
    }
    put(report, &alone, &ours, &pprof);
    let slowdown = perf.slowdown_pct(&alone);
    report.put(Figure::new("sample.vs_perf.slowdown_pct", slowdown, "%").or_left_out(no_perf));
    Ok(())
}

fn put(report: &mut Report, alone: &Rounds, ours: &Rounds, pprof: &Rounds) {
    let few = |rounds: &Rounds| median(&rounds.column(|took| took.samples)) < FEW;
    let few = (few(ours) || few(pprof)).then(|| "too few samples".to_owned());
    let ratio = |of: fn(&Took) -> f64| median(&ours.each(alone, of)) / median(&pprof.each(alone, of));
    let thread = ratio(|took| took.thread);
    let figure = Figure::new("sample.vs_pprof.ratio", thread, "x pprof's loss per sample");
    report.put(figure.promised(Promise::Below(1.0)).unless(few.clone()));
    let process = ratio(|took| took.process);
    report.put(Figure::new("sample.vs_pprof.cpu_ratio", process, "x pprof's cpu per sample").unless(few));
    for (name, rounds) in [("ours", ours), ("pprof", pprof)] {
        let us = median(&rounds.each(alone, |took| took.thread)) / 1e3;
        let rate = median(&rounds.column(|took| took.samples * 1e9 / took.thread));
        let name = format!("sample.vs_pprof.{name}");
        report.put(Figure::new(format!("{name}.loss_us"), us, "µs per sample"));
        report.put(Figure::new(format!("{name}.slowdown_pct"), rounds.slowdown_pct(alone), "%"));
        report.put(Figure::new(format!("{name}.samples"), rate, "per second of work"));
    }
}

/// The work in a child; `said` is what [`work`] prints.
fn child(program: &Path, by: By) -> Result<Took> {
    let mut child = Command::new(program);
    run(child.args([CHILD, "peer", &(by as u32).to_string()]))
}

fn under_perf(program: &Path, file: &Path) -> Result<Took> {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-F", "1000", "-g", "-o"]).arg(file).arg("--").arg(program);
    let took = run(perf.args([CHILD, "peer", "0"])).context("perf record")?;
    let size = std::fs::metadata(file)?.len();
    ensure!(size > 10_000, "perf record took no samples");
    Ok(took)
}

fn run(command: &mut Command) -> Result<Took> {
    let output = command.stdin(std::process::Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let error = error.lines().next().unwrap_or_default();
    ensure!(output.status.success(), "{:?}: {error}", command.get_program().to_string_lossy());
    let numbers: Vec<f64> = said.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [thread, process, samples] = numbers[..] else { bail!("it said {said:?}: {error}") };
    Ok(Took { thread, process, samples })
}

/// In the child: works, sampled by whom the number says, and prints what it took.
pub(crate) fn work(by: u64) -> Result<()> {
    let (took, samples) = match by {
        0 => (took(), 0),
        1 => {
            let sampling = Sampling::start()?;
            let took = took();
            (took, sampling.stats()?.taken)
        }
        _ => {
            let profiler = pprof::ProfilerGuardBuilder::default().frequency(HZ).build()?;
            let took = took();
            let report = profiler.report().build_unresolved()?;
            (took, report.data.values().map(|count| count.cast_unsigned() as u64).sum())
        }
    };
    println!("{} {} {samples}", took.0, took.1);
    Ok(())
}

/// Processor time of the work: of this thread, and of all.
fn took() -> (f64, f64) {
    let process_ns = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let before = process_ns();
    let (thread, _) = cpu_ns_of(|| at_depth(DEPTH, &mut || (0..WORK).for_each(|number| _ = black_box(number))));
    (thread, process_ns() - before)
}
