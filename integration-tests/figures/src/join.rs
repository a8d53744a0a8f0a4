//! Joining: the time for which a process that joins by itself holds up its host, alone and among a
//! thousand, and without a session.
//!
//! The processes are started with `std::process::Command`. `join.ms` is the time of
//! `profiler_child::init()` on the main thread of the process, until it records. The crowd is a
//! thousand processes that are started at once and stay; its time is from the first start until the
//! session is connected with the last. With the default wait, a thread of the profiler goes on
//! waiting in the processes that the session does not serve in time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipc_protocol::environment::{SESSION_VARIABLE, SessionAddress, Token};
use profiler_core::ids::ByteLimit;
use profiler_parent::core::session::Features;
use profiler_parent::{ProcessState, Session};

use crate::workers::CHILD;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::median;
use integration_tests::patience::until;

const STARTS: usize = 25;
const CROWD: usize = 1000;

/// All figures of joining.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let alone = join_ms(Features::NONE)?;
    report.put(Figure::new("join.ms", alone, "ms").promised(Promise::AtMost(2.0)));
    let sampling = join_ms(Features::STACK_WALK.with(Features::CPU))?;
    report.put(Figure::new("join.sampling_ms", sampling, "ms"));
    let wait = wait_without_session_ms()?;
    let wait = Figure::new("join.host_wait_ms.no_parent", wait, "ms");
    report.put(wait.promised(Promise::AtMost(1.0)));
    let patient = crowd("join-patiently")?;
    let all = (patient.joined < CROWD).then(|| format!("{} joined", patient.joined));
    let seconds = patient.took.as_secs_f64();
    report.put(Figure::new("join.crowd_1000_s", seconds, "s").unless(all));
    let hurried = crowd("join")?;
    let unprofiled = (CROWD - hurried.joined.min(CROWD)) as f64;
    let unprofiled = Figure::new("join.crowd_1000_unprofiled", unprofiled, "processes");
    report.put(unprofiled.promised(Promise::AtMost(0.0)));
    Ok(())
}

fn session(features: Features, limit: u64) -> Result<Session> {
    let builder = Session::builder().features(features);
    Ok(builder.memory_limit(ByteLimit::new(limit)).start()?)
}

/// Returns this program as a child in a mode.
fn command(mode: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([CHILD, mode, "0"]);
    Ok(command)
}

/// Starts a child, and returns the milliseconds and the status that it prints.
fn run(mut command: Command) -> Result<(f64, String)> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    child.wait()?;
    let (ns, status) = line.trim().split_once(' ').context("no status")?;
    Ok((ns.parse::<f64>()? / 1e6, status.to_owned()))
}

/// Returns the median time of `init` over [`STARTS`] processes that join.
fn join_ms(features: Features) -> Result<f64> {
    let session = session(features, 64 << 20)?;
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let mut command = command("join")?;
        session.prepare(&mut command)?;
        let (ms, status) = run(command)?;
        ensure!(status == "Recording", "{status}");
        times.push(ms);
    }
    Ok(median(&times))
}

/// Returns the median time of `init` over [`STARTS`] processes whose session is over.
fn wait_without_session_ms() -> Result<f64> {
    let place = tempfile::tempdir()?;
    let path = place.path().join("socket");
    let address = SessionAddress::new(path, Token::generate()?).to_value();
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let mut command = command("join")?;
        command.env(SESSION_VARIABLE, &address);
        let (ms, status) = run(command)?;
        ensure!(status.starts_with("Off"), "{status}");
        times.push(ms);
    }
    Ok(median(&times))
}

/// The result of a crowd.
struct Crowd {
    joined: usize,
    took: Duration,
}

/// Starts [`CROWD`] processes at once, and waits until all have joined, or for a long time.
fn crowd(mode: &str) -> Result<Crowd> {
    let session = session(Features::NONE, 512 << 20)?;
    let environment = session.environment()?;
    let (input, keeps_them) = std::io::pipe()?;
    let (output, lines) = std::io::pipe()?;
    #[allow(clippy::disallowed_methods)] // a stopwatch around the crowd
    let start = Instant::now();
    let mut children: Vec<Child> = Vec::new();
    for _ in 0..CROWD {
        let mut command = command(mode)?;
        command.envs(environment.iter().cloned());
        command.stdin(input.try_clone()?).stdout(lines.try_clone()?);
        children.push(command.spawn()?);
    }
    drop((input, lines));
    let mut statuses = BufReader::new(output).lines();
    for _ in 0..CROWD {
        statuses.next().context("a process has ended")??;
    }
    let connected = || {
        let processes = session.processes();
        let connected = processes
            .iter()
            .filter(|process| process.state == ProcessState::Connected);
        connected.count()
    };
    until(|| connected() >= CROWD); // otherwise some run unprofiled
    let took = start.elapsed();
    let joined = connected();
    drop(keeps_them); // now they end
    for mut child in children {
        child.wait()?;
    }
    Ok(Crowd { joined, took })
}
