//! Compares the stacks of waiting threads with those that `eu-stack` finds for the same threads.
//!
//! The programs do not contain the profiler. The library `examples/preload.rs` is loaded into them
//! and samples them. While a program waits, the figure reads its samples from its pool. `eu-stack`
//! then stops the program and reads its registers. Two stacks agree if all their addresses are
//! equal, out to the outermost frame. Only the innermost address may differ, by the length of the
//! system call instruction: `eu-stack` interrupts the system call, and the kernel restarts it.
//!
//! A program that is not installed is left out.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::patience::{Stopwatch, until};
use rustix::process::{Pid, Signal, kill_process};

use super::session::{at_depth, each_sample};
use crate::roles::{Role, role};

/// The user ID and the group ID of programs that refuse to run as root.
const UNPRIVILEGED: u32 = 65534;
/// A thread that uses no processor time for this long is taken to wait.
const QUIET: Duration = Duration::from_millis(300);
/// After this time, a thread without a sample counts as one whose stack differs.
const LONGEST_START: Duration = Duration::from_secs(20);
/// How long a program may take to end.
const END_TIME: Duration = Duration::from_secs(5);
const PROMISE: Promise = Promise::AtLeast(99.0);

const PYTHON: &str = "
import threading, select, queue, socket, time, subprocess
def here(wait): wait()
listener = socket.create_server(('127.0.0.1', 0))
for wait in [threading.Lock().acquire, queue.Queue().get, listener.accept, threading.Event().wait,
             lambda: time.sleep(1000), lambda: select.select([listener], [], []),
             lambda: threading.Event().wait(1000), lambda: sorted([0], key=lambda _: time.sleep(1000))]:
    if getattr(wait, '__name__', '') == 'acquire': wait()
    threading.Thread(target=here, args=[wait], daemon=True).start()
select.select([listener], [], [])
";

const JAVA: &str = "
import java.util.concurrent.*;
public class Waits { public static void main(String[] all) throws Exception {
  ExecutorService pool = Executors.newFixedThreadPool(4);
  for (int i = 0; i < 8; i++) pool.submit(() -> 1).get();
  Thread.sleep(1000000);
} }
";

/// The roles of this program for this group: a Rust program that waits.
pub(crate) const ROLES: &[(&str, Role)] = &[("waits", wait_in_rust)];

/// A program that waits.
struct WaitingProgram {
    name: &'static str,
    /// Returns the command that starts the program, which may use the directory.
    command: fn(&Path) -> Result<Command>,
}

const PROGRAMS: &[WaitingProgram] = &[
    WaitingProgram {
        name: "sleep",
        command: |_| Ok(with_arguments("sleep", &["1000"])),
    },
    WaitingProgram {
        name: "rust",
        command: |_| role("waits"),
    },
    WaitingProgram {
        name: "python3",
        command: |_| Ok(with_arguments("python3", &["-c", PYTHON])),
    },
    WaitingProgram {
        name: "perl",
        command: |_| {
            Ok(with_arguments(
                "perl",
                &["-e", "select(undef, undef, undef, 1000)"],
            ))
        },
    },
    WaitingProgram {
        name: "postgres",
        command: postgres,
    },
    WaitingProgram {
        name: "java",
        command: |directory| {
            std::fs::write(directory.join("Waits.java"), JAVA)?;
            let mut java = with_arguments("java", &["Waits.java"]);
            java.current_dir(directory);
            Ok(java)
        },
    },
];

fn with_arguments(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Returns the command that starts a server with an empty database, not as root.
fn postgres(directory: &Path) -> Result<Command> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")?;
    let version = versions
        .flatten()
        .next()
        .context("no version of postgres")?;
    let programs = version.path().join("bin");
    let data = directory.join("data");
    let as_user = |program: &str| {
        let mut command = Command::new(programs.join(program));
        command
            .uid(UNPRIVILEGED)
            .gid(UNPRIVILEGED)
            .current_dir(directory);
        command
    };
    std::os::unix::fs::chown(directory, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    let output = as_user("initdb").arg("-D").arg(&data).output()?;
    ensure!(output.status.success(), "initdb failed");
    let mut command = as_user("postgres");
    command
        .arg("-D")
        .arg(&data)
        .args(["-c", "listen_addresses=", "-c"])
        .arg(format!("unix_socket_directories={}", directory.display()));
    Ok(command)
}

/// Waits in several functions of the standard library.
fn wait_in_rust(_: &[String]) -> Result<()> {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let (pipe, _writer) = std::io::pipe()?;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let mutex: &Mutex<()> = Box::leak(Box::default());
    let _guard = mutex.lock();
    let condition: &(Mutex<()>, Condvar) = Box::leak(Box::default());
    let waits: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(|| std::thread::sleep(Duration::from_secs(1000))),
        Box::new(std::thread::park),
        Box::new(move || _ = receiver.recv()),
        Box::new(move || _ = (&pipe).read(&mut [0])),
        Box::new(move || _ = listener.accept()),
        Box::new(|| drop(mutex.lock())),
        Box::new(|| {
            if let Ok(guard) = condition.0.lock() {
                drop(condition.1.wait_timeout(guard, Duration::from_secs(1000)));
            }
        }),
    ];
    for wait in waits {
        let mut wait = Some(wait);
        Builder::new().spawn(move || at_depth(5, &mut || wait.take().map(|wait| wait())))?;
    }
    std::thread::park();
    Ok(())
}

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let library = preload()?;
    let mut all = Agreement::default();
    for program in PROGRAMS {
        let found = compare(program, &library);
        let error = found.as_ref().err();
        let reason = error.map(|error| format!("{error:#}"));
        let is_missing = error.is_some_and(is_not_installed);
        let found = found.unwrap_or_default();
        all.add(&found);
        let figure = Figure::new(
            format!("sample.wait_stack_agree_pct.{}", program.name),
            found.percent(),
            "%",
        )
        .promised(PROMISE);
        report.put(if is_missing {
            figure.or_left_out(reason)
        } else {
            figure.unless(reason)
        });
        for line in found.differences {
            eprintln!("{}: {line}", program.name);
        }
    }
    let none = (all.threads == 0).then(|| "no program could be compared".to_owned());
    let figure = Figure::new("sample.wait_stack_agree_pct", all.percent(), "%");
    report.put(figure.promised(PROMISE).or_left_out(none));
    Ok(())
}

/// Whether a program, or `eu-stack`, is not installed here.
fn is_not_installed(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The number of compared stacks and the number of equal stacks.
#[derive(Debug, Default)]
struct Agreement {
    threads: u32,
    equal: u32,
    /// A line for each stack that differs.
    differences: Vec<String>,
}

impl Agreement {
    fn add(&mut self, other: &Self) {
        self.threads += other.threads;
        self.equal += other.equal;
    }

    fn percent(&self) -> f64 {
        f64::from(self.equal) * 100.0 / f64::from(self.threads.max(1))
    }
}

/// Builds the library that samples the programs, and returns its path.
fn preload() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--quiet", "-p", "integration-tests"]);
    command.args(["--example", "preload"]);
    ensure!(
        command.status()?.success(),
        "the library could not be built"
    );
    let own = std::env::current_exe()?;
    let directory = own.parent().context("the executable has no directory")?;
    Ok(directory.join("examples/libpreload.so"))
}

/// A running program. It is ended when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A server ends its processes and frees its shared memory only if it is not killed.
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process(pid, Signal::INT);
        }
        let watch = Stopwatch::start();
        while matches!(self.0.try_wait(), Ok(None)) && watch.elapsed() < END_TIME {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program until its threads wait, and compares their stacks.
fn compare(program: &WaitingProgram, library: &Path) -> Result<Agreement> {
    let directory = tempfile::tempdir()?;
    let mut command = (program.command)(directory.path())?;
    let child = command
        .env("LD_PRELOAD", library)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{} does not start", program.name))?;
    let mut running = Running(child);
    let pid = running.0.id();
    let mut last = Err(anyhow!("the program does not run"));
    until(|| {
        let ended = running.0.try_wait().ok().flatten();
        last = match ended {
            Some(status) => Err(anyhow!("the program ended with {status}")),
            None => compare_once(pid),
        };
        ended.is_some() || last.is_ok()
    });
    last
}

/// Compares the stacks of the waiting threads of a process. Fails if one is not sampled yet.
fn compare_once(pid: u32) -> Result<Agreement> {
    let before = run_times(pid)?;
    std::thread::sleep(QUIET);
    let after = run_times(pid)?;
    ensure!(
        before.len() == after.len(),
        "the program still starts threads"
    );
    let sampled = sampled_stacks(pid)?;
    let is_sampled = |tid: &u64| sampled.contains_key(tid);
    ensure!(
        after.keys().all(is_sampled) || running_for(pid)? > LONGEST_START,
        "not all threads have a sample yet"
    );
    let expected = eu_stack_stacks(pid)?;
    let mut found = Agreement::default();
    for (tid, time) in after {
        if before.get(&tid) != Some(&time) {
            continue; // the thread did not wait
        }
        let expected = expected
            .get(&tid)
            .with_context(|| format!("eu-stack has no stack of thread {tid}"))?;
        let sampled = sampled.get(&tid).map_or(&[][..], Vec::as_slice);
        found.threads += 1;
        if agree(sampled, expected) {
            found.equal += 1;
        } else {
            found
                .differences
                .push(format!("{tid}: {sampled:x?}, eu-stack: {expected:x?}"));
        }
    }
    ensure!(found.threads > 0, "no thread waits");
    Ok(found)
}

/// How long a process has existed.
fn running_for(pid: u32) -> Result<Duration> {
    let started = std::fs::metadata(format!("/proc/{pid}"))?.modified()?;
    Ok(started.elapsed()?)
}

fn agree(sampled: &[u64], expected: &[u64]) -> bool {
    /// The length of a system call instruction in bytes.
    const SYSCALL_BYTES: u64 = if cfg!(target_arch = "x86_64") { 2 } else { 4 };
    match (sampled.split_first(), expected.split_first()) {
        (Some((sampled_pc, sampled)), Some((expected_pc, expected))) => {
            sampled_pc.abs_diff(*expected_pc) <= SYSCALL_BYTES && sampled == expected
        }
        _ => false,
    }
}

/// The processor time of each thread of a process, in nanoseconds, without the profiler's threads.
fn run_times(pid: u32) -> Result<HashMap<u64, String>> {
    let mut times = HashMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm"))?;
        let statistics = std::fs::read_to_string(task.join("schedstat"))?;
        let tid = task
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let time = statistics.split(' ').next().map(ToOwned::to_owned);
        if !name.starts_with("profiler-") {
            times.insert(
                tid.context("no thread ID")?,
                time.context("no processor time")?,
            );
        }
    }
    Ok(times)
}

/// The stack of each thread's last sample, innermost address first.
fn sampled_stacks(pid: u32) -> Result<HashMap<u64, Vec<u64>>> {
    let mut found = HashMap::new();
    each_sample(pool_of(pid)?, |sample, addresses| {
        if let Some(thread) = sample.foreign {
            found.insert(thread.get(), addresses.iter().rev().copied().collect());
        }
    })?;
    Ok(found)
}

fn pool_of(pid: u32) -> Result<File> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        let target = std::fs::read_link(&path);
        if target.is_ok_and(|target| target.to_string_lossy().contains("profiler-pool")) {
            return Ok(File::open(path)?);
        }
    }
    bail!("the program has no pool")
}

/// The stacks that `eu-stack` finds, innermost address first.
fn eu_stack_stacks(pid: u32) -> Result<HashMap<u64, Vec<u64>>> {
    let output = Command::new("eu-stack")
        .args(["-q", "-n", "0", "-p", &pid.to_string()])
        .output()
        .context("eu-stack")?;
    let mut found = HashMap::new();
    let mut stack: &mut Vec<u64> = &mut Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        if let Some(tid) = line.strip_prefix("TID ") {
            stack = found.entry(tid.trim_end_matches(':').parse()?).or_default();
        } else if line.starts_with('#') {
            let address = line.split_whitespace().nth(1).context("no address")?;
            stack.push(u64::from_str_radix(address.trim_start_matches("0x"), 16)?);
        }
    }
    Ok(found)
}
