//! Group `always_on`: what the profiler costs an application that always runs with it.
//!
//! Four processes, each with a busy thread per core, work for some seconds: without a session, with
//! everything at defaults, at 100 Hz, and with an overhead budget. The ways alternate, so a change
//! of the machine's speed affects all of them. Each figure is the median of the rounds.
//!
//! `throughput_loss_pct` is the work that is missing, compared with the run without a session of
//! the same round. `own_cpu_pct` is the processor time of the profiler's threads in the children
//! and in the parent, and of the signal handlers, in percent of the time of all cores. All cores
//! are busy.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{cores, median, median_ratio, monotonic_ns};
use profiler_core::session;
use profiler_parent::{ProfiledChild, Session, SessionBuilder};

use crate::roles::{Role, role};

const BUSY: &str = "always-on";

pub(crate) const ROLES: &[(&str, Role)] = &[(BUSY, play_busy)];

const PROCESSES: usize = 4;
const ROUNDS: usize = 7;
/// Time until the sampler knows all threads, and a budget has its interval.
const SETTLED: Duration = Duration::from_secs(6);
const TIME: Duration = Duration::from_secs(4);
/// The first letters of the names of the profiler's threads.
const OWN_THREADS: &str = "profiler-";

/// A way to run the processes beside a session.
struct Way {
    /// The figures' names begin with it.
    name: &'static str,
    options: fn(SessionBuilder) -> SessionBuilder,
    loss: Promise,
    own_cpu: Promise,
}

const WAYS: [Way; 3] = [
    Way {
        name: "always_on",
        options: |builder| builder,
        loss: Promise::AtMost(1.5),
        own_cpu: Promise::AtMost(2.0),
    },
    Way {
        name: "always_on.100hz",
        options: |builder| builder.interval(Duration::from_millis(10)),
        loss: Promise::None,
        own_cpu: Promise::AtMost(0.5),
    },
    Way {
        name: "always_on.budget",
        options: |builder| builder.overhead_budget(0.1),
        loss: Promise::None,
        own_cpu: Promise::None,
    },
];

/// What all processes did in one run.
#[derive(Clone, Copy, Debug)]
struct Done {
    /// Rounds of work per second.
    work: f64,
    own_cpu_pct: f64,
}

/// Measures the group.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let mut alone = Vec::new();
    let mut beside = WAYS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        alone.push(run_alone()?);
        for (way, done) in WAYS.iter().zip(&mut beside) {
            done.push(run_beside(way)?);
        }
    }
    let work = |done: &[Done]| done.iter().map(|done| done.work).collect::<Vec<_>>();
    for (way, done) in WAYS.iter().zip(&beside) {
        let loss = (1.0 - median_ratio(&work(done), &work(&alone))) * 100.0;
        let figure = Figure::new(format!("{}.throughput_loss_pct", way.name), loss, "%");
        report.put(figure.promised(way.loss));
        let own_cpu: Vec<f64> = done.iter().map(|done| done.own_cpu_pct).collect();
        let figure = Figure::new(
            format!("{}.own_cpu_pct", way.name),
            median(&own_cpu),
            "% of all cores",
        );
        report.put(figure.promised(way.own_cpu));
    }
    Ok(())
}

fn run_alone() -> Result<Done> {
    let mut all: Vec<Child> = (0..PROCESSES)
        .map(|_| Ok(busy()?.spawn()?))
        .collect::<Result<_>>()?;
    let done = run(all
        .iter_mut()
        .map(|child| Pipes::of(child.stdin.take(), child.stdout.take())))?;
    all.iter_mut()
        .try_for_each(|child| child.wait().map(drop))?;
    Ok(done)
}

fn run_beside(way: &Way) -> Result<Done> {
    let session = (way.options)(Session::builder()).start()?;
    let mut all: Vec<ProfiledChild> = (0..PROCESSES)
        .map(|_| Ok(session.spawn("busy", busy()?)?))
        .collect::<Result<_>>()?;
    let done = run(all
        .iter_mut()
        .map(|child| Pipes::of(child.stdin.take(), child.stdout.take())))?;
    all.iter_mut()
        .try_for_each(|child| child.wait().map(drop))?;
    Ok(done)
}

/// A command for one of the busy processes.
fn busy() -> Result<Command> {
    let mut command = role(BUSY)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// The pipes to a child.
struct Pipes {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Pipes {
    fn of(to: Option<ChildStdin>, from: Option<ChildStdout>) -> Result<Self> {
        Ok(Self {
            to: to.context("no input")?,
            from: BufReader::new(from.context("no output")?),
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line)
    }
}

/// Lets all children work at the same time, and adds up what they did.
fn run(pipes: impl Iterator<Item = Result<Pipes>>) -> Result<Done> {
    let mut all: Vec<Pipes> = pipes.collect::<Result<_>>()?;
    for child in &mut all {
        child.line()?; // it is ready
    }
    for child in &mut all {
        child.to.write_all(b"\n")?;
    }
    std::thread::sleep(SETTLED);
    let own = own_threads_ns()?;
    std::thread::sleep(TIME);
    let mut own_ns = (own_threads_ns()? - own) as f64;
    let mut work = 0.0;
    for child in &mut all {
        let line = child.line()?;
        let numbers: Vec<f64> = line
            .split_ascii_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [rounds, seconds, profiler_ns] = numbers[..] else {
            return Err(anyhow!("a child says {line:?}"));
        };
        work += rounds / seconds;
        // As if it had measured as long as this process.
        own_ns += profiler_ns * TIME.as_secs_f64() / seconds;
    }
    let available_ns = TIME.as_nanos() as f64 * cores().len() as f64;
    Ok(Done {
        work,
        own_cpu_pct: own_ns * 100.0 / available_ns,
    })
}

/// The role of a child: works, and prints the rounds of work, the seconds that they took, and the
/// processor time of the profiler.
fn play_busy(_: &[String]) -> Result<()> {
    let _ = profiler_child::init();
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let stop = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in cores() {
            std::thread::Builder::new().spawn_scoped(scope, || work(&stop, &rounds))?;
        }
        std::thread::sleep(SETTLED);
        let measured = measure_here(&rounds);
        stop.store(true, Ordering::Relaxed);
        let [rounds, seconds, profiler_ns] = measured?;
        println!("{rounds} {seconds} {profiler_ns}");
        Ok(())
    })
}

/// The rounds of work in some seconds, these seconds, and the profiler's processor time in them.
fn measure_here(rounds: &AtomicU64) -> Result<[f64; 3]> {
    let costs = || Ok::<_, anyhow::Error>(own_threads_ns()? + handlers_ns());
    let before = costs()?;
    let first = rounds.load(Ordering::Relaxed);
    let begin = monotonic_ns();
    std::thread::sleep(TIME);
    let seconds = (monotonic_ns() - begin) / 1e9;
    let done = rounds.load(Ordering::Relaxed) - first;
    // Reading the pool takes time, which is in no number.
    let profiler_ns = costs()?.saturating_sub(before);
    Ok([done as f64, seconds, profiler_ns as f64])
}

/// Computes until the flag is set, and counts rounds of about 50 µs.
fn work(stop: &AtomicBool, rounds: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        (0..100_000_u64).for_each(|number| _ = std::hint::black_box(number));
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Processor time of the profiler's threads in this process.
fn own_threads_ns() -> Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // A thread may end meanwhile.
        let read = |name| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        if read("comm").starts_with(OWN_THREADS) {
            let times = read("schedstat");
            let ns = times.split_ascii_whitespace().next().unwrap_or("0");
            sum += ns.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// Time of the signal handlers in this process so far.
fn handlers_ns() -> u64 {
    session::sampling_stats().map_or(0, |stats| stats.handlers_ns)
}
