//! The cost of recording for a fork: fork and wait of a large process, with and without the
//! profiler.
//!
//! Two processes of the same size and with the same threads fork in turn; one of them records. The
//! ratio is the median of the ratios per round.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use profiler_core::marker;
use profiler_core::session::{self, SessionParams, StartOptions};

use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{median, median_ratio, ns_of};

const ROUNDS: usize = 101;
/// Memory that the process has touched.
const RESIDENT: usize = 256 << 20;
/// Pause of the second thread between two markers, so that it does not compete for the cores.
const PAUSE: Duration = Duration::from_micros(500);

/// A process that forks on request.
struct Forker {
    process: Child,
    output: BufReader<ChildStdout>,
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let mut plain = Forker::start("plain")?;
    let mut recording = Forker::start("recording")?;
    let mut without = Vec::new();
    let mut with = Vec::new();
    for _ in 0..ROUNDS {
        without.push(plain.fork()?);
        with.push(recording.fork()?);
    }
    plain.end()?;
    recording.end()?;
    report.put(Figure::new("fork.plain_us", median(&without) / 1e3, "us"));
    let ratio = Figure::new(
        "fork.latency_ratio",
        median_ratio(&with, &without),
        "x without",
    );
    report.put(ratio.promised(Promise::AtMost(1.1)));
    Ok(())
}

impl Forker {
    fn start(kind: &str) -> Result<Self> {
        let mut process = role("forker")?
            .arg(kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        let mut forker = Self { process, output };
        forker.line()?;
        Ok(forker)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the process that forks has ended");
        }
        Ok(line.trim().to_owned())
    }

    /// Returns the nanoseconds of one fork and the wait for its end.
    fn fork(&mut self) -> Result<f64> {
        writeln!(self.process.stdin.as_mut().context("no input")?, "fork")?;
        Ok(self.line()?.parse()?)
    }

    fn end(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        self.process.wait()?;
        Ok(())
    }
}

/// `forker plain|recording`: forks once for every line on standard input, and prints the
/// nanoseconds.
pub(super) fn play_forker(words: &[String]) -> Result<()> {
    if words.first().is_some_and(|kind| kind == "recording") {
        session::start(SessionParams::default(), StartOptions::default())?;
    }
    std::thread::Builder::new().spawn(|| {
        loop {
            marker!("beside");
            std::thread::sleep(PAUSE);
        }
    })?;
    let memory = std::hint::black_box(vec![1_u8; RESIDENT]);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        println!("{}", ns_of(fork_and_wait));
    }
    drop(memory);
    Ok(())
}

#[allow(unsafe_code)]
fn fork_and_wait() {
    // SAFETY: the child calls only `_exit`, which needs no lock.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: `_exit` may be called in a forked child: it runs no handlers and takes no lock.
        unsafe { libc::_exit(0) }
    }
    assert!(pid > 0, "no process is left to fork");
    let mut status = 0;
    // SAFETY: `status` is a valid local for the result.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
}
