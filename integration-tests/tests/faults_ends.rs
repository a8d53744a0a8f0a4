//! Tests of every kind of end of a child: exits, panics, signals, faults and lack of memory.
//!
//! The profile contains every committed entry, the verdict names the end, and no other process is
//! harmed. `deaths` tests the moments of a death.

use std::path::PathBuf;

use integration_tests::fixture::Fixture;
use integration_tests::helper_process::HelperProcess;
use integration_tests::profile::{KILLED, Profile};
use integration_tests::{own_process, own_process_tests};
use profiler_parent::ProcessState;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// A child records on two threads and its main thread, ends by `command`, and is captured twice, in
/// both formats.
fn ends(command: &str, verdict: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    record(&mut helper)?;
    helper.end(command)?;
    for (_, profile) in scene.capture_both()? {
        check(&profile, verdict)?;
    }
    scene.end()
}

fn record(helper: &mut HelperProcess) -> anyhow::Result<()> {
    helper.ask("hold 2 500")?;
    helper.ask("mark 200")?;
    Ok(())
}

/// Checks that the profile has exactly the committed entries, the verdict, and a marker in the
/// parent if the child is incomplete.
fn check(profile: &Profile, verdict: &str) -> anyhow::Result<()> {
    let process = profile.process("faulty")?;
    let numbers = process.numbers()?;
    assert!(
        (0..2).all(|thread| numbers[&thread].iter().copied().eq(0..500)),
        "{numbers:?}"
    );
    assert!(numbers[&1000].iter().copied().eq(0..200), "{numbers:?}");
    let counts = process.counts()?;
    assert_eq!(
        (counts.recorded, counts.delivered),
        (1200, 1200),
        "{counts:?}"
    );
    let found = profile.verdict("faulty")?;
    assert!(found.starts_with(verdict), "{found}");
    let incomplete = profile.incomplete();
    let expected = if verdict == "complete" {
        vec![]
    } else {
        vec![("faulty".to_owned(), found)]
    };
    assert_eq!(incomplete, expected);
    Ok(())
}

own_process_tests! {
    a_child_that_exits_in_order_is_complete: ends("exit 0", "complete");
    a_child_that_exits_with_an_error_is_complete: ends("exit 7", "complete");
    a_child_that_exits_without_any_handler_is_complete: ends("quit 9", "complete");
}

#[test]
fn a_child_whose_main_thread_panics_is_complete_and_its_exit_code_is_known() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    record(&mut helper)?;
    assert_eq!(helper.end("panic")?.code(), Some(101));
    let ProcessState::Exited(Some(status)) = scene.report_of("faulty").state else {
        panic!("it lives")
    };
    assert_eq!(status.code(), Some(101));
    let (_, profile) = scene.capture()?;
    check(&profile, "complete")?;
    scene.end()
}

#[test]
fn a_child_one_of_whose_threads_panics_goes_on() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    assert_eq!(helper.ask("panic-thread")?, "ok true");
    record(&mut helper)?;
    for (_, profile) in scene.capture_both()? {
        check(&profile, "complete")?;
    }
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

own_process_tests! {
    a_child_that_aborts_is_recovered: ends("abort", "recovered: crashed with signal 6 (SIGABRT");
    a_child_that_writes_where_nothing_is_mapped_is_recovered:
        ends("segv", "recovered: crashed with signal 11 (SIGSEGV");
    a_child_that_reads_a_file_that_was_cut_is_recovered:
        ends("bus", "recovered: crashed with signal 7 (SIGBUS");
    a_child_with_an_illegal_instruction_is_recovered:
        ends("ill", "recovered: crashed with signal 4 (SIGILL");
    a_child_whose_stack_overflows_is_recovered:
        ends("overflow", "recovered: crashed with signal 6 (SIGABRT");
    a_child_that_is_killed_is_recovered: ends("kill", KILLED);
    a_child_that_is_terminated_is_recovered:
        ends("term", "recovered: ended by signal 15 (SIGTERM)");
}

#[test]
fn a_child_that_finds_no_more_memory_aborts_and_is_recovered() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    record(&mut helper)?;
    helper.ask("without hoard")?;
    helper.end("hoard")?;
    let (_, profile) = scene.capture()?;
    check(&profile, "recovered: crashed with signal 6 (SIGABRT")?;
    scene.end()
}

/// Needs the right to create a memory cgroup. Without it, the test prints so and kills the child
/// itself. The pages of the pool are charged to the child, and remain readable after its death.
#[test]
fn a_child_that_the_system_kills_for_memory_is_recovered() -> anyhow::Result<()> {
    own_process!();
    let Some(group) = MemoryGroup::make(96 << 20) else {
        println!("skipped: no memory cgroup can be made here; ran as: killed by hand");
        return ends("kill", KILLED);
    };
    println!("ran in the memory cgroup {}", group.0.display());
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    group.put(helper.pid())?;
    record(&mut helper)?;
    helper.end("hoard")?;
    let (_, profile) = scene.capture()?;
    check(&profile, KILLED)?;
    scene.end()
}

/// A memory cgroup of one test.
#[derive(Debug)]
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn make(limit: u64) -> Option<Self> {
        let v1 = "/sys/fs/cgroup/memory";
        let v2 = "/sys/fs/cgroup";
        [(v1, "memory.limit_in_bytes"), (v2, "memory.max")]
            .into_iter()
            .find_map(|(root, file)| {
                let group = Self(
                    PathBuf::from(root).join(format!("profiler-faults-{}", std::process::id())),
                );
                std::fs::create_dir(&group.0).ok()?;
                std::fs::write(group.0.join(file), limit.to_string())
                    .ok()
                    .map(|()| group)
            })
    }

    fn put(&self, pid: u32) -> anyhow::Result<()> {
        Ok(std::fs::write(
            self.0.join("cgroup.procs"),
            pid.to_string(),
        )?)
    }
}

impl Drop for MemoryGroup {
    /// Retries, because the last process has been reaped but may still be in the group.
    fn drop(&mut self) {
        integration_tests::patience::until(|| std::fs::remove_dir(&self.0).is_ok());
    }
}
