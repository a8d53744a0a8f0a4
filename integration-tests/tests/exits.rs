//! Tests of processes that call `exit` in a signal handler.
//!
//! Such a process does not hang because of the profiler, and loses no entry. The profiler's code in
//! `exit` and around `fork` allocates nothing.

#![cfg(all(target_os = "linux", not(profiler_portable)))]

use profiler_core::ids::ByteLimit;
use std::process::Command;

use integration_tests::exits::{Ends, FIRST_ENTRIES, WAYS};
use integration_tests::own_process;
use integration_tests::session;

const HOST: &str = env!("CARGO_BIN_EXE_host");
/// Processes for each way to end.
const RUNS: u64 = 50;

#[test]
fn a_process_that_exits_in_a_signal_handler_ends_and_its_profile_is_complete() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(512 << 20)))?;
    let command = |way: &str, run: u64| {
        let mut command = Command::new(HOST);
        command.args(["exit", way, &run.to_string()]);
        Ok(command)
    };
    let ends = Ends::of(&session, RUNS, command)?;
    assert_eq!((ends.runs, ends.hung), (RUNS * WAYS.len() as u64, 0));
    let (_, profile) = session.capture()?;
    for (way, run) in WAYS
        .iter()
        .flat_map(|way| (0..RUNS).map(move |run| (way, run)))
    {
        let name = format!("{way} {run}");
        assert_eq!(profile.verdict(&name)?, "complete", "{name}");
        let process = profile.process(&name)?;
        process.counts()?;
        let numbers = process.numbers()?;
        assert!(
            numbers
                .get(&1)
                .is_some_and(|all| all.iter().copied().eq(0..FIRST_ENTRIES)),
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn what_runs_in_exit_and_around_forks_allocates_nothing_in_a_handler_that_interrupted_malloc()
-> anyhow::Result<()> {
    own_process!();
    let output = Command::new(HOST).args(["interrupted", "1000"]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(said.trim(), "handled 1000 allocations 0 strange 0");
    Ok(())
}
