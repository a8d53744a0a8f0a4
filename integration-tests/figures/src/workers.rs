//! The children of the groups that need some: this program, started again.
//!
//! `figures --child MODE ARGUMENT` is internal. In each mode a child does one thing and prints a
//! line when it is ready. It ends when its standard input is closed, or in mode `peer` at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use integration_tests::patience::LONG;
use profiler_core::ids::{ByteLimit, ThreadId};
use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
use profiler_core::sampler::{Frame, Sample, SampleWriter};
use profiler_core::time::Timestamp;
use profiler_core::{marker, text_marker};
use profiler_parent::core::session::Features;
use profiler_parent::{ProfiledChild, Session};

use crate::live_flame;

/// The argument that makes this program a child.
pub(crate) const CHILD: &str = "--child";

/// Runs as a child if the arguments start with [`CHILD`].
pub(crate) fn run_as_child() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(CHILD) {
        return None;
    }
    #[allow(clippy::disallowed_methods)] // measures the time of the host's own thread
    let start = Instant::now();
    let status = match std::env::args().nth(2).as_deref() {
        Some("join-patiently") => profiler_child::init_within(LONG),
        _ => profiler_child::init(),
    };
    let init = start.elapsed();
    let argument = arguments
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    match std::env::args().nth(2).as_deref() {
        Some("init") => println!("{}", init.as_nanos()),
        Some("join" | "join-patiently") => println!("{} {status:?}", init.as_nanos()),
        Some("fill") => fill(argument),
        Some("vary") => vary(argument),
        Some("burst") => burst(argument),
        Some("flood") => flood(),
        Some("pace") => pace(argument),
        Some("open") => return Some(finish(crate::open::record(argument), true)),
        Some("groups") => crate::groups::enter_some(argument),
        Some("live-groups") => crate::live::enter_groups(argument),
        Some("live-samples") => live_flame::write_samples(argument, live_flame::STACKS),
        Some("live-many-stacks") => live_flame::write_samples(argument, live_flame::MANY_STACKS),
        Some("peer") => return Some(finish(crate::sample::work(argument), false)),
        _ => return Some(ExitCode::from(2)),
    }
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read(&mut [0]);
    Some(ExitCode::SUCCESS)
}

/// Prints a child's error, if any, and ends the child. With `waits`, it ends when standard input is
/// closed.
fn finish(result: Result<()>, waits: bool) -> ExitCode {
    if let Err(error) = result {
        println!("{error:#}");
        return ExitCode::FAILURE;
    }
    let _ = std::io::stdout().flush();
    if waits {
        let _ = std::io::stdin().read(&mut [0]);
    }
    ExitCode::SUCCESS
}

/// Records about `bytes` bytes of text markers, slowly enough that none is dropped.
fn fill(bytes: u64) {
    const ENTRY_BYTES: u64 = 56;
    for index in 0..bytes / ENTRY_BYTES {
        text_marker!(
            "fill",
            &category::TEST,
            MarkerOptions::default(),
            "twenty-four letters here"
        );
        if index % 4096 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
    println!("filled");
}

/// Records about `bytes` bytes with little repetition: each marker has a unique name, and each
/// sample a unique stack.
fn vary(bytes: u64) {
    const ROUND_BYTES: u64 = 56 + 24 + 8 + 16 * 8;
    let mut writer = SampleWriter::new();
    let tid = ThreadId::new(u64::from(std::process::id()));
    for index in 0..bytes / ROUND_BYTES {
        add_untyped_marker(
            &format!("a name of its own {index}"),
            &category::TEST,
            MarkerOptions::default(),
        );
        let frames: [Frame; 16] = std::array::from_fn(|depth| match depth {
            0..8 => Frame::Unknown(0x1000 + depth as u64),
            _ => Frame::Unknown(0x10_0000 + (index << 8) + depth as u64),
        });
        let at = Timestamp::now();
        writer.sample(
            tid,
            &Sample {
                at,
                cpu_ns: Some(1),
                frames: &frames,
                cut: false,
                failed: false,
            },
        );
        if index % 1024 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
    println!("varied");
}

/// Prints a line, and makes the process end when standard input is closed.
pub(crate) fn until_closed(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
    let body = || {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    };
    let _ = std::thread::Builder::new().spawn(body);
}

/// Records this number of markers at full speed.
fn burst(markers: u64) {
    (0..markers).for_each(|_| marker!("burst"));
    println!("burst");
}

/// Records at full speed until standard input is closed.
fn flood() -> ! {
    until_closed("flooding");
    loop {
        marker!("flood");
    }
}

/// Records `bytes_per_second` bytes per second, in entries of 1 KiB, until standard input is
/// closed. Entries that are late because the thread did not run are skipped.
fn pace(bytes_per_second: u64) -> ! {
    const ENTRY_BYTES: u64 = 1024;
    const LATEST: f64 = 0.02;
    until_closed("pacing");
    let text = "x".repeat(1000 - 8);
    #[allow(clippy::disallowed_methods)] // a pace of wall time, not a timestamp
    let start = Instant::now();
    let rate = bytes_per_second as f64 / ENTRY_BYTES as f64;
    let mut done = 0.0;
    loop {
        let due = start.elapsed().as_secs_f64() * rate;
        done = f64::max(done, due - LATEST * rate);
        while done < due {
            text_marker!("numbered", &category::TEST, MarkerOptions::default(), &text);
            done += 1.0;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A child and its first line of output.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) child: ProfiledChild,
    pub(crate) line: String,
}

/// Starts a session without a sampler, whose pools hold at most this number of bytes.
pub(crate) fn quiet_session(limit: u64) -> Result<Session> {
    let builder = Session::builder().features(Features::NONE);
    Ok(builder.memory_limit(ByteLimit::new(limit)).start()?)
}

/// Starts `count` children in a mode, as [`start`]. `argument` returns the argument of each.
pub(crate) fn start_all(
    session: &Session,
    count: impl TryInto<u64>,
    name: &str,
    mode: &str,
    argument: impl Fn(u64) -> u64,
) -> Result<Vec<Worker>> {
    let start = |number| start(session, &format!("{name} {number}"), mode, argument(number));
    let count = count.try_into().ok().context("too many children")?;
    (0..count).map(start).collect()
}

/// Starts a child in a mode and waits for its first line.
pub(crate) fn start(session: &Session, name: &str, mode: &str, argument: u64) -> Result<Worker> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([CHILD, mode, &argument.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = session.spawn(name, command)?;
    if !child.is_profiled() {
        bail!("{name} runs unprofiled");
    }
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    Ok(Worker {
        child,
        line: line.trim().to_owned(),
    })
}
