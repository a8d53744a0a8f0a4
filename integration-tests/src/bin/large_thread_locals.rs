//! A program with a megabyte of static thread-locals, which the C library places on every thread's
//! stack.
//!
//! Run by `tests/large_thread_locals.rs`. `large_thread_locals` is a parent that records, is
//! sampled, starts itself as a child (`large_thread_locals child`), and uses every feature for
//! which the profiler has a thread. It prints `ok`, and the touched part of the stack of each of
//! the profiler's threads in KiB, including the thread-locals.

#![allow(clippy::disallowed_methods)] // deadlines of its own

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::own::join_session;
use integration_tests::patience::{LONG, until};
use profiler_core::marker;
use profiler_core::marker::category;
use profiler_parent::core::session::Features;
use profiler_parent::observe::Filter;
use profiler_parent::{
    AlertRules, AlertTarget, CapturePolicy, CaptureTrigger, EvidenceOptions, Format, ProcessState,
    Session,
};

const BYTES: usize = 1 << 20;

thread_local! {
    static LARGE: Cell<[u8; BYTES]> = const { Cell::new([0; BYTES]) };
}

fn main() -> Result<()> {
    // The use keeps the linker from removing the static.
    LARGE.with(|large| black_box(large.as_ptr()));
    match std::env::args().nth(1).as_deref() {
        Some("child") => child(),
        _ => parent(),
    }
}

/// Records until its parent closes the pipe.
fn child() -> Result<()> {
    join_session()?;
    let recording = std::thread::spawn(|| {
        loop {
            marker!("child", &category::TEST);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", touched()?);
    drop(recording);
    Ok(())
}

fn parent() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = Session::builder()
        .features(features)
        .name("parent")
        .start()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = session.spawn("child", command)?;
    let connected = || {
        session
            .processes()
            .iter()
            .any(|process| process.state == ProcessState::Connected)
    };
    ensure!(until(connected), "the child does not connect");
    let observer = session.observe(Filter::default())?;
    let alerts = session.alerts(AlertRules::default(), EvidenceOptions::none())?;
    alerts.add(AlertTarget::All, "test", |_| ())?;
    let policy = CapturePolicy::in_directory(directory.path());
    let captures = session.capture_on(CaptureTrigger::crash(), policy)?;
    let live = session.serve_live((Ipv4Addr::LOCALHOST, 0).into())?;
    for name in ["", "processes", "groups"] {
        let answer = ask(live.address(), &live.url(), name)?;
        ensure!(answer.starts_with("HTTP/1.1"), "the page answered {answer}");
    }
    ensure!(
        until(|| session.wait_one_periodic_sampling().is_complete()),
        "a process does not sample"
    );
    for format in [Format::Processed, Format::Gecko] {
        let report = session
            .capture()
            .format(format)
            .save(directory.path().join("profile.json.gz"))?;
        ensure!(report.processes.len() == 2, "{report:?}");
    }
    ensure!(observer.next(LONG).is_ok(), "nothing is observed");
    let own = touched()?;
    drop(captures);
    drop(child.stdin.take());
    let mut child_output = String::new();
    child
        .stdout
        .take()
        .context("no pipe")?
        .read_to_string(&mut child_output)?;
    let status = child.wait().context("the child does not end")?;
    ensure!(status.success(), "the child ended with {status}");
    session.stop();
    println!("ok {own}{child_output}");
    Ok(())
}

/// Sends one request for `name` below the page's path. Returns the start of the answer.
fn ask(address: std::net::SocketAddr, url: &str, name: &str) -> Result<String> {
    let path = url.splitn(4, '/').nth(3).context("no path")?;
    let mut stream = TcpStream::connect_timeout(&address, LONG)?;
    stream.set_read_timeout(Some(LONG))?;
    let request =
        format!("GET /{path}{name} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(64).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the touched KiB of the stacks of the profiler's threads: for each thread name the
/// largest.
fn touched() -> Result<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps")?;
    let mut most = BTreeMap::<String, u64>::new();
    for task in std::fs::read_dir("/proc/self/task")?.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let name = read("comm").trim().to_owned();
        let call = read("syscall");
        let pointer = call
            .split_ascii_whitespace()
            .rev()
            .nth(1)
            .and_then(|word| word.strip_prefix("0x"));
        let Some(pointer) = pointer.and_then(|word| u64::from_str_radix(word, 16).ok()) else {
            continue;
        };
        if name.starts_with("profiler-") {
            let kib = resident_kib(&maps, pointer).unwrap_or(0);
            most.entry(name)
                .and_modify(|most| *most = kib.max(*most))
                .or_insert(kib);
        }
    }
    Ok(most
        .into_iter()
        .map(|(name, kib)| format!("{name} {kib} KiB, "))
        .collect())
}

/// Returns the resident KiB of the memory mapping that contains an address.
fn resident_kib(maps: &str, address: u64) -> Option<u64> {
    let range = |line: &str| {
        let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    let mut lines = maps
        .lines()
        .skip_while(|line| !range(line).is_some_and(|range| range.contains(&address)));
    lines
        .find_map(|line| line.strip_prefix("Rss:"))?
        .trim()
        .split(' ')
        .next()?
        .parse()
        .ok()
}
