//! Tests that recording makes no system call except the wake of a futex, and allocates nothing.
//!
//! The program `src/bin/silence.rs` records under a filter that kills the process at any other
//! call. The profiler's code in `exit` and around `fork` may also call `getpid`.

use integration_tests::own_process;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_silence");

fn run(words: &[&str]) -> std::io::Result<Output> {
    Command::new(PROGRAM).args(words).output()
}

/// Entries and chunk switches of a run.
const ENTRIES: u64 = 5_000_000;
const SWITCHES: u64 = 1_000;

/// Records under the filter. Returns the named numbers that the program prints.
fn record_silently() -> anyhow::Result<BTreeMap<String, u64>> {
    let output = run(&["record", &ENTRIES.to_string(), &SWITCHES.to_string()])?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words
        .chunks(2)
        .map(|pair| Ok((pair[0].to_owned(), pair[1].parse()?)))
        .collect()
}

/// On a busy machine the maintenance thread may provide a chunk too late for a burst. The burst
/// then takes the slow path, which keeps lists and may allocate. The program recognises such bursts
/// and does not count them.
#[test]
fn a_recording_thread_makes_no_system_call_but_a_wake_and_allocates_nothing() -> anyhow::Result<()>
{
    own_process!();
    let seen = record_silently()?;
    assert!(
        seen["entries"] >= ENTRIES && seen["switches"] >= SWITCHES,
        "{seen:?}"
    );
    assert!(
        seen["evicted"] > ENTRIES / 2,
        "hardly anything was evicted: {seen:?}"
    );
    assert!(seen["burst_switches"] >= SWITCHES / 5, "{seen:?}");
    assert_eq!(seen["allocations"], 0, "{seen:?}");
    Ok(())
}

#[test]
fn the_filter_kills_every_call_that_is_not_a_wake() -> anyhow::Result<()> {
    own_process!();
    for call in ["getppid", "wait"] {
        let output = run(&[call])?;
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGSYS),
            "{call}: {output:?}"
        );
    }
    let output = run(&["wake"])?;
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(0), &b"alive\n"[..]),
        "{output:?}"
    );
    Ok(())
}

#[test]
fn nothing_of_ours_runs_in_exit_or_around_a_fork_but_atomics_and_a_getpid() -> anyhow::Result<()> {
    own_process!();
    let output = run(&["exit"])?;
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "allocations 0 active false Closed\n"
    );
    Ok(())
}
