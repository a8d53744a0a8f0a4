//! `perf record -g` of the calling process, as a sampler to compare with.
//!
//! Used by `peers`. `perf` starts without recording, is told to record while the work runs, and
//! confirms both. So neither its start nor its end is part of the measurement.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration_tests::pairs::make_pipe;

/// A running `perf record`, which can be told to record and to pause. Killed when dropped.
#[derive(Debug)]
pub(super) struct PerfRecord {
    perf: Child,
    commands: File,
    answers: BufReader<File>,
}

impl PerfRecord {
    /// Starts `perf` for this process, at this frequency. It does not record yet.
    pub(super) fn start(directory: &Path, hz: i32) -> Result<Self> {
        let commands = directory.join("commands");
        let answers = directory.join("answers");
        make_pipe(&commands)?;
        make_pipe(&answers)?;
        let control = format!("fifo:{},{}", commands.display(), answers.display());
        let perf = Command::new("perf")
            .args(["record", "-g", "-D", "-1", "--control", &control])
            .args(["-F", &hz.to_string(), "-p", &std::process::id().to_string()])
            .arg("-o")
            .arg(directory.join("perf.data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("perf record")?;
        // Open for reading and writing: otherwise an open waits for `perf`, which may have failed.
        let open = |path| File::options().read(true).write(true).open(path);
        Ok(Self {
            perf,
            commands: open(&commands)?,
            answers: BufReader::new(open(&answers)?),
        })
    }

    /// Begins to record, and returns the processor time that `perf` has used so far.
    pub(super) fn enable(&mut self) -> Result<u64> {
        self.tell("enable")?;
        self.cpu_ns()
    }

    /// Stops recording, and returns the processor time that `perf` has used so far.
    pub(super) fn disable(&mut self) -> Result<u64> {
        self.tell("disable")?;
        self.cpu_ns()
    }

    /// Ends `perf` and returns the number of samples in its file.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.commands.write_all(b"stop\n")?;
        let mut said = String::new();
        let mut error = self.perf.stderr.take().context("no pipe")?;
        error.read_to_string(&mut said)?;
        ensure!(self.perf.wait()?.success(), "perf record: {said}");
        samples_in(&said).with_context(|| format!("perf record says {said:?}"))
    }

    fn tell(&mut self, command: &str) -> Result<()> {
        if let Some(status) = self.perf.try_wait()? {
            let mut said = String::new();
            let mut error = self.perf.stderr.take().context("no pipe")?;
            error.read_to_string(&mut said)?;
            anyhow::bail!("perf record: {status}: {}", said.trim());
        }
        writeln!(self.commands, "{command}")?;
        let mut answer = Vec::new();
        self.answers.read_until(b'\n', &mut answer)?;
        // `perf` also sends the zero byte that ends its string, after the line.
        answer.retain(|byte| *byte != 0);
        ensure!(answer.starts_with(b"ack"), "perf answers {answer:?}");
        Ok(())
    }

    /// Processor time of all threads of `perf`.
    fn cpu_ns(&self) -> Result<u64> {
        let mut sum = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.perf.id()))?.flatten() {
            let times = std::fs::read_to_string(thread.path().join("schedstat"))?;
            let running = times.split_ascii_whitespace().next().context("no times")?;
            sum += running.parse::<u64>()?;
        }
        Ok(sum)
    }
}

impl Drop for PerfRecord {
    fn drop(&mut self) {
        // It has ended, or it is of no use any more.
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// The number in `[ perf record: Captured and wrote 0.123 MB FILE (1234 samples) ]`.
fn samples_in(said: &str) -> Option<u64> {
    let (before, _) = said.split_once(" samples)")?;
    before.rsplit('(').next()?.trim().parse().ok()
}
