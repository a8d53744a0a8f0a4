//! Tests of children that fork, vfork, execute programs or leave a daemon.
//!
//! A fork records nothing, the child that made it loses nothing, and the parent notices the end of
//! every child.

use std::process::Command;

use integration_tests::fixture::Fixture;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own;
use integration_tests::patience::until;
use integration_tests::profile::Profile;
use integration_tests::reports::captured;
use integration_tests::session;
use integration_tests::{own_process, own_process_tests};
use profiler_core::ids::ByteLimit;
use profiler_parent::Format;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// The child records before, during and after `command`, which starts other processes and is
/// answered with `answer`. Only the entries of the child are delivered.
fn only_the_maker_records(
    command: &str,
    answer: &str,
    expected: &[(u32, u64)],
) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("maker", "init")?;
    helper.ask("mark 10")?;
    assert_eq!(helper.ask(command)?, answer);
    helper.ask("mark 10")?;
    for (_, profile) in scene.capture_both()? {
        assert_eq!(profile.verdict("maker")?, "complete");
        recorded(&profile, expected)?;
    }
    assert!(helper.end("exit 0")?.success());
    for (_, profile) in scene.capture_both()? {
        assert_eq!(profile.verdict("maker")?, "complete");
        recorded(&profile, expected)?;
    }
    scene.end()
}

/// Checks that the profile has exactly the markers of these threads, in order. Each pair is the
/// number of a thread and its number of markers.
fn recorded(profile: &Profile, expected: &[(u32, u64)]) -> anyhow::Result<()> {
    let process = profile.process("maker")?;
    let mut numbers = std::collections::BTreeMap::<u32, Vec<u64>>::new();
    for mark in process.named("numbered") {
        let (thread, sequence) = mark.number()?;
        numbers.entry(thread).or_default().push(sequence);
    }
    assert_eq!(
        numbers.keys().copied().collect::<Vec<_>>(),
        expected
            .iter()
            .map(|(thread, _)| *thread)
            .collect::<Vec<_>>()
    );
    for (thread, count) in expected {
        assert!(
            numbers[thread].iter().copied().eq(0..*count),
            "{thread}: {:?}",
            numbers[thread]
        );
    }
    assert_eq!(
        process.counts()?.delivered,
        expected.iter().map(|(_, count)| count).sum::<u64>()
    );
    Ok(())
}

own_process_tests! {
    a_fork_that_goes_on_records_nothing_and_its_maker_everything:
        only_the_maker_records("fork 50", "ok 0", &[(1000, 20), (2000, 50)]);
    a_fork_that_exits_in_order_after_its_threads_does_not_end_its_makers_profile:
        only_the_maker_records("fork-exit 50", "ok 0", &[(1000, 20), (2000, 50)]);
    a_fork_that_becomes_another_program_changes_nothing:
        only_the_maker_records("fork-exec 50", "ok 0", &[(1000, 20), (2000, 50)]);
    a_process_in_our_memory_records_as_the_thread_that_called_vfork:
        only_the_maker_records("vfork 50", "ok 0", &[(1000, 20), (2000, 100)]);
    a_process_in_our_memory_that_exits_does_not_end_its_makers_profile:
        only_the_maker_records("vfork-exit 50", "ok 0", &[(1000, 20), (2000, 100)]);
}

#[test]
fn forks_from_threads_do_not_disturb_threads_that_record() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| {
        builder.memory_limit(ByteLimit::new(256 << 20))
    })?;
    let mut helper = scene.child("maker", "init")?;
    helper.ask("flood 2 200")?;
    assert_eq!(helper.ask("fork-in-threads 3 20")?, "ok 60");
    helper.ask("calm")?;
    let all = helper.ask("flooded")?;
    let (report, profile) = scene.capture()?;
    let counts = captured(&report, "maker").counts;
    assert_eq!(format!("ok {}", counts.recorded()), all, "{counts:?}");
    assert_eq!(
        profile
            .process("maker")?
            .numbers()?
            .keys()
            .copied()
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_grandchild_started_the_usual_way_inherits_nothing_from_the_profiler() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("maker", "init")?;
    assert!(helper.ask("grandchild")?.starts_with("ok no-variable"));
    helper.ask("mark 10")?;
    let (_, profile) = scene.capture()?;
    recorded(&profile, &[(1000, 10)])?;
    scene.end()
}

#[test]
fn the_second_program_of_a_spawned_shell_keeps_nothing_of_what_was_handed_to_the_first()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let said = session.path("said");
    let script = "echo exit 0 | \"$0\" init >/dev/null; \
                  printf 'grandchild\\nexit 0\\n' | \"$0\" init >\"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, CHILD]).arg(&said);
    assert!(session.spawn("sh", command)?.wait()?.success());
    let said = std::fs::read_to_string(said)?;
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("Recording"), "it joins by itself");
    // It passes on what it has, and the kinds of the files are in the answer.
    let inherited = lines.next().unwrap_or_default();
    assert!(inherited.starts_with("ok "), "{said}");
    for kind in ["memfd:", "socket:"] {
        assert!(!inherited.contains(kind), "{inherited}");
    }
    Ok(())
}

/// Gives a command that leaves a daemon behind.
fn daemon(helper: &mut HelperProcess, command: &str) -> anyhow::Result<Daemon> {
    let answer = helper.ask(command)?;
    Ok(Daemon(
        answer.strip_prefix("ok ").expect("a number").parse()?,
    ))
}

/// A process that outlives its parent. Killed when dropped.
struct Daemon(i32);

impl Drop for Daemon {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the daemon ends only by this signal, so the number still names it.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

#[test]
fn a_death_is_seen_although_a_daemon_holds_the_channel_open() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let before = (own::Possessions::count_named()?, own::thread_names());
    let mut helper = scene.child("maker", "init")?;
    helper.ask("mark 10")?;
    let daemon = daemon(&mut helper, "daemon")?;
    assert!(helper.end("exit 0")?.success());
    assert!(scene.has_ended("maker"));
    for (_, profile) in scene.capture_both()? {
        assert_eq!(profile.verdict("maker")?, "complete");
        recorded(&profile, &[(1000, 10)])?;
    }
    // The daemon keeps no thread of the parent busy.
    let ended = || own::Possessions::count().threads <= before.0.threads;
    assert!(
        until(ended),
        "{:?}, then {:?}",
        before.1,
        own::thread_names()
    );
    drop(daemon);
    scene.end()
}

#[test]
fn a_daemon_that_scribbles_over_a_dead_pool_does_no_harm() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| {
        builder.memory_limit(ByteLimit::new(4 << 20))
    })?;
    let mut helper = scene.child("maker", "init")?;
    helper.ask("record 4 2000")?;
    let daemon = daemon(&mut helper, "daemon scribble")?;
    assert!(helper.end("exit 0")?.success());
    assert!(scene.has_ended("maker"));
    for _ in 0..20 {
        scene.capture_among_liars()?;
    }
    // Captures still work while the flood evicts the dead pool, whose tables contain random bytes.
    let mut flood = scene.child("flood", "init")?;
    flood.ask("flood 2 100")?;
    for format in [Format::Processed, Format::Gecko].repeat(20) {
        let capture = scene.session()?.capture().format(format);
        capture.save(scene.path("flooded.json"))?;
    }
    drop(daemon);
    Ok(())
}
