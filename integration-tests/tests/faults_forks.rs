//! Forks of every kind: nothing of theirs is recorded, nothing of ours is lost, nobody's end goes
//! unseen.

use integration_tests::fixture::Fixture;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::profile::Profile;
use profiler_core::ids::ByteLimit;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// The child records before, during and after; `command` makes kin and ends with `answer`.
fn only_the_maker_records(command: &str, answer: &str, expected: &[(u32, u64)]) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("maker", "init")?;
    helper.ask("mark 10")?;
    assert_eq!(helper.ask(command)?, answer);
    helper.ask("mark 10")?;
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("maker")?, "complete");
    recorded(&profile, expected)?;
    assert!(helper.end("exit 0")?.success());
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("maker")?, "complete");
    recorded(&profile, expected)?;
    scene.end()
}

/// These threads' numbers, all of them, in order, and no others.
fn recorded(profile: &Profile, expected: &[(u32, u64)]) -> anyhow::Result<()> {
    let process = profile.process("maker")?;
    let mut numbers = std::collections::BTreeMap::<u32, Vec<u64>>::new();
    for mark in process.named("numbered") {
        let (thread, sequence) = mark.number()?;
        numbers.entry(thread).or_default().push(sequence);
    }
    assert_eq!(
        numbers.keys().copied().collect::<Vec<_>>(),
        expected.iter().map(|of| of.0).collect::<Vec<_>>()
    );
    for (thread, count) in expected {
        assert!(numbers[thread].iter().copied().eq(0..*count), "{thread}: {:?}", numbers[thread]);
    }
    assert_eq!(process.books()?.delivered, expected.iter().map(|of| of.1).sum::<u64>());
    Ok(())
}

#[test]
fn a_fork_that_goes_on_records_nothing_and_its_maker_everything() -> anyhow::Result<()> {
    own_process!();
    only_the_maker_records("fork 50", "ok 0", &[(1000, 20), (2000, 50)])
}

#[test]
fn a_fork_that_exits_in_order_after_its_threads_does_not_end_its_makers_profile() -> anyhow::Result<()> {
    own_process!();
    only_the_maker_records("fork-exit 50", "ok 0", &[(1000, 20), (2000, 50)])
}

#[test]
fn a_fork_that_becomes_another_program_changes_nothing() -> anyhow::Result<()> {
    own_process!();
    only_the_maker_records("fork-exec 50", "ok 0", &[(1000, 20), (2000, 50)])
}

#[test]
fn a_process_in_our_memory_records_as_the_thread_that_it_stands_in_for() -> anyhow::Result<()> {
    own_process!();
    only_the_maker_records("vfork 50", "ok 0", &[(1000, 20), (2000, 100)])
}

#[test]
fn a_process_in_our_memory_that_exits_does_not_end_its_makers_profile() -> anyhow::Result<()> {
    own_process!();
    only_the_maker_records("vfork-exit 50", "ok 0", &[(1000, 20), (2000, 100)])
}

#[test]
fn forks_from_threads_disturb_nobody_who_records_meanwhile() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(256 << 20)))?;
    let mut helper = scene.child("maker", "init")?;
    helper.ask("flood 2 200")?;
    assert_eq!(helper.ask("fork-in-threads 3 20")?, "ok 60");
    helper.ask("calm")?;
    let all = helper.ask("flooded")?;
    let (report, profile) = scene.capture()?;
    let counts = report.processes.iter().find(|process| process.name == "maker").expect("it").counts;
    assert_eq!(format!("ok {}", counts.recorded()), all, "{counts:?}");
    assert_eq!(profile.process("maker")?.numbers()?.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_grandchild_started_the_usual_way_gets_nothing_of_ours() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("maker", "init")?;
    assert!(helper.ask("grandchild")?.starts_with("ok no-variable"));
    helper.ask("mark 10")?;
    let (_, profile) = scene.capture()?;
    recorded(&profile, &[(1000, 10)])?;
    scene.end()
}

/// Says the number of the process that lives on.
fn daemon(helper: &mut HelperProcess, command: &str) -> anyhow::Result<Daemon> {
    let answer = helper.ask(command)?;
    Ok(Daemon(answer.strip_prefix("ok ").expect("a number").parse()?))
}

/// Nobody's child any more; killed in the end.
struct Daemon(i32);

impl Drop for Daemon {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: sends a signal to a process that lives until then, since it never ends by itself.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

#[test]
fn a_death_is_seen_although_a_daemon_holds_the_channel_open() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let before = (own::Possessions::count(), own::thread_names());
    let mut helper = scene.child("maker", "init")?;
    helper.ask("mark 10")?;
    let daemon = daemon(&mut helper, "daemon")?;
    assert!(helper.end("exit 0")?.success());
    assert!(scene.has_ended("maker"));
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("maker")?, "complete");
    recorded(&profile, &[(1000, 10)])?;
    // Nor does the daemon keep anything of the parent's.
    let ended = || own::Possessions::count().threads <= before.0.threads;
    assert!(until(ended), "{:?}, then {:?}", before.1, own::thread_names());
    drop(daemon);
    scene.end()
}

#[test]
fn a_daemon_that_scribbles_over_a_dead_pool_harms_nobody() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(4 << 20)))?;
    let mut helper = scene.child("maker", "init")?;
    helper.ask("record 4 2000")?;
    let daemon = daemon(&mut helper, "daemon scribble")?;
    assert!(helper.end("exit 0")?.success());
    assert!(scene.has_ended("maker"));
    for _ in 0..20 {
        scene.capture_among_liars()?;
    }
    // The dead pool goes by age, whatever its tables say.
    let mut flood = scene.child("flood", "init")?;
    flood.ask("flood 2 100")?;
    for _ in 0..20 {
        scene.session()?.capture().format(profiler_parent::Format::Gecko).save(scene.path("flooded.json"))?;
    }
    drop(daemon);
    Ok(())
}
