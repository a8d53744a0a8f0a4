//! Tests of processes that join a session which answers only after the host has stopped waiting: a
//! thread of the profiler goes on waiting, and the process records from when the answer comes.

use std::process::Command;

use anyhow::Context;
use integration_tests::helper_process::command;
use integration_tests::joined::{self, JoinedHelper};
use integration_tests::own::state_of;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions};
use integration_tests::profile::Profile;
use integration_tests::session;
use ipc_protocol::environment::SESSION_VARIABLE;
use rustix::process::Signal;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const OPTIONS: ProcessTreeOptions<'_> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: CHILD,
    limit: 64 << 20,
    in_files: false,
};

/// A session whose process is stopped, and a process that has asked it for memory and does not wait
/// any more.
fn late_helper() -> anyhow::Result<(ProcessTree, JoinedHelper)> {
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    let answer = tree.ask("address")?;
    let address = answer.strip_prefix("ok ").context("no address")?;
    tree.signal_parent(Signal::STOP);
    let pid = tree.parent_pid();
    assert!(until(|| state_of(pid) == Some('T')));
    let mut command: Command = command(CHILD, "init-briefly");
    command.env(SESSION_VARIABLE, address);
    let helper = JoinedHelper::start_by(command)?;
    assert_eq!(helper.status, "Joining");
    Ok((tree, helper))
}

fn capture(tree: &mut ProcessTree) -> anyhow::Result<Profile> {
    let path = tree.path("late.json");
    tree.ask(&format!("capture {}", path.display()))?;
    Profile::read(&path)
}

#[test]
fn a_process_records_from_when_a_stopped_session_goes_on() -> anyhow::Result<()> {
    own_process!();
    let (mut tree, mut helper) = late_helper()?;
    assert_eq!(helper.ask("is-recording")?, "false");
    helper.ask("record 1 50")?;
    tree.signal_parent(Signal::CONT);
    helper.ask("await-recording")?;
    helper.ask("record 1 100")?;
    let profile = capture(&mut tree)?;
    let lives = profile.lives_of(helper.pid());
    assert_eq!(lives.len(), 1, "{lives:?}");
    let numbers: Vec<u64> = lives[0].numbers()?.into_values().flatten().collect();
    assert!(numbers.iter().copied().eq(50..150), "{numbers:?}");
    helper.continues()
}

#[test]
fn a_process_that_ends_its_profiler_before_the_answer_does_not_record() -> anyhow::Result<()> {
    own_process!();
    let (mut tree, mut helper) = late_helper()?;
    helper.ask("leave")?;
    tree.signal_parent(Signal::CONT);
    // The session answers in order: once this one records, the answer to the first is settled.
    let answer = tree.ask("address")?;
    let address = answer.strip_prefix("ok ").context("no address")?;
    let mut command: Command = command(CHILD, "join");
    command.env(SESSION_VARIABLE, address);
    let mut other = JoinedHelper::start_by(command)?;
    assert_eq!(other.status, "Recording");
    assert_eq!(helper.ask("is-recording")?, "false");
    let profile = capture(&mut tree)?;
    let verdicts = profile.verdicts_of(helper.pid())?;
    let is_listed = |verdict: &String| verdict.contains("stopped waiting");
    assert!(verdicts.iter().all(is_listed), "{verdicts:?}");
    other.continues()?;
    helper.continues()
}

#[test]
fn a_process_whose_session_is_killed_before_the_answer_goes_on_alone() -> anyhow::Result<()> {
    own_process!();
    let (mut tree, mut helper) = late_helper()?;
    tree.kill_parent()?;
    helper.ask("await-alone")?;
    assert_eq!(helper.ask("is-recording")?, "false");
    helper.continues()
}

#[test]
fn each_of_many_processes_that_begin_at_once_is_recorded() -> anyhow::Result<()> {
    own_process!();
    const COUNT: usize = 32;
    let session = session::start(|builder| builder)?;
    let start = || {
        let mut command = command(CHILD, "init-briefly");
        session.prepare(&mut command)?;
        Ok(command.spawn()?)
    };
    // All begin before the first one is asked.
    let children: Vec<_> = (0..COUNT).map(|_| start()).collect::<anyhow::Result<_>>()?;
    let mut helpers = children
        .into_iter()
        .map(JoinedHelper::of_child)
        .collect::<anyhow::Result<Vec<_>>>()?;
    for helper in &mut helpers {
        helper.ask("await-recording")?;
        helper.ask("record 1 100")?;
        assert!(helper.end("exit 0")?.success());
    }
    let reports = joined::wait_until_ended(&session, COUNT)?;
    let (_, profile) = session.capture()?;
    for report in &reports {
        let pid = report.pid.get();
        assert_eq!(profile.verdicts_of(pid)?, ["complete"]);
        for life in profile.lives_of(pid) {
            life.numbers_up_to(100, 1)?;
        }
    }
    Ok(())
}
