//! Tests of a parent that is killed or stopped while its children record.
//!
//! The children continue unharmed, their counts add up, and no file remains.

use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions, TreeChild};
use integration_tests::profile::Profile;
use rustix::process::Signal;

const OPTIONS: ProcessTreeOptions<'static> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: env!("CARGO_BIN_EXE_child"),
    limit: 16 << 20,
    in_files: false,
};

/// The counts that a child reports.
#[derive(Debug)]
struct LoggedCounts {
    recorded: u64,
    lost_otherwise: u64,
}

/// Asks a child for its counts. Checks that they add up, and that entries were dropped only because
/// of a lack of memory.
fn counts(kid: &mut TreeChild) -> anyhow::Result<LoggedCounts> {
    let said = kid.ask("counts")?;
    let mut words = said.split(' ').skip(1);
    let mut number = || -> anyhow::Result<u64> { Ok(words.next().context("too few")?.parse()?) };
    let recorded = number()?;
    let delivered = number()?;
    let evicted = number()?;
    let unfinished = number()?;
    let mut dropped = 0;
    let mut lost_otherwise = 0;
    for word in words {
        let (reason, count) = word.split_once('=').context("no reason")?;
        let count: u64 = count.parse()?;
        dropped += count;
        lost_otherwise += if ["full", "no-budget"].contains(&reason) {
            0
        } else {
            count
        };
    }
    ensure!(
        recorded == delivered + evicted + unfinished + dropped,
        "{said}"
    );
    ensure!(lost_otherwise == 0, "{said}");
    Ok(LoggedCounts {
        recorded,
        lost_otherwise,
    })
}

/// Waits until a child has recorded many more entries than `before`.
fn records_on(kid: &mut TreeChild, before: &LoggedCounts) -> anyhow::Result<()> {
    let enough = before.recorded + 10_000;
    ensure!(
        until(|| counts(kid).is_ok_and(|now| now.recorded > enough)),
        "{}: {before:?}",
        kid.name
    );
    Ok(())
}

#[test]
fn children_of_a_killed_parent_continue_and_leave_only_the_address() -> anyhow::Result<()> {
    own_process!();
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    tree.spawn_kids(&OPTIONS, 4)?;
    tree.ask_kids("flood 2")?;
    std::thread::sleep(Duration::from_millis(100)); // so that chunks are switched and evicted
    tree.kill_parent()?;
    for kid in &mut tree.kids {
        let before = counts(kid)?;
        assert_eq!(before.lost_otherwise, 0);
        records_on(kid, &before)?;
        kid.ask("calm")?;
        kid.ask("record 2 100")?; // starts new threads, which need rows
        counts(kid)?;
        kid.tell("exit 0")?;
        assert_eq!(kid.wait()?.exit_status(), Some(0), "{}", kid.name);
    }
    assert!(tree.leaves_only_its_address(), "{:?}", tree.left_over());
    Ok(())
}

#[test]
fn a_child_that_starts_as_its_parent_dies_records_unharmed() -> anyhow::Result<()> {
    own_process!();
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    for _ in 0..4 {
        tree.spawn(&format!("{} init", OPTIONS.child))?; // connected or not
    }
    tree.kill_parent()?;
    for kid in &mut tree.kids {
        kid.ask("record 2 500")?;
        // A parent that dies before it sent a message counts as a session that ended, so the child
        // may stop recording.
        assert!(counts(kid)?.recorded <= 1000);
        kid.tell("exit 0")?;
        assert_eq!(kid.wait()?.exit_status(), Some(0));
    }
    Ok(())
}

#[test]
fn the_next_session_removes_the_sockets_of_a_dead_session_and_not_those_of_a_live_one()
-> anyhow::Result<()> {
    own_process!();
    let silent = format!("{} no-init", OPTIONS.child); // it runs and never connects
    let mut killed = ProcessTree::start(&OPTIONS, |_| {})?;
    killed.spawn(&silent)?;
    let count = killed.left_over().len();
    assert_eq!(count, 2, "not exactly its address and its socket");
    let place = killed.path("tmp");
    let mut living = ProcessTree::start(&OPTIONS, |parent| _ = parent.env("TMPDIR", &place))?;
    living.spawn(&silent)?;
    killed.kill_parent()?; // first, because a parent removes the socket when its child ends
    killed.kids[0].signal(Signal::KILL);
    assert_eq!(killed.left_over().len(), 4);
    let mut next = ProcessTree::start(&OPTIONS, |parent| _ = parent.env("TMPDIR", &place))?;
    assert_eq!(
        killed.left_over().len(),
        2,
        "not exactly the sockets of the live session"
    );
    next.dismiss()?;
    living.kids[0].signal(Signal::KILL);
    living.dismiss()?;
    assert_eq!(
        killed.left_over(),
        [] as [std::path::PathBuf; 0],
        "the live session left its sockets behind"
    );
    Ok(())
}

#[test]
fn a_session_that_is_killed_as_a_whole_leaves_only_its_address() -> anyhow::Result<()> {
    own_process!();
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    tree.spawn_kids(&OPTIONS, 4)?;
    tree.ask_kids("flood 2")?;
    tree.kill_all()?;
    assert!(tree.leaves_only_its_address(), "{:?}", tree.left_over());
    Ok(())
}

#[test]
fn children_of_a_stopped_parent_continue_and_the_counts_add_up_afterwards() -> anyhow::Result<()> {
    own_process!();
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    tree.spawn_kids(&OPTIONS, 3)?;
    tree.ask_kids("flood 2")?;
    tree.signal_parent(Signal::STOP);
    let pid = tree.parent_pid();
    assert!(until(|| integration_tests::own::state_of(pid) == Some('T')));
    std::thread::sleep(Duration::from_millis(500)); // socket buffers and queues have time to fill
    for kid in &mut tree.kids {
        let before = counts(kid)?;
        records_on(kid, &before)?;
    }
    assert_eq!(
        integration_tests::own::state_of(pid),
        Some('T'),
        "the parent is not stopped any more"
    );
    tree.ask_kids("calm")?;
    tree.signal_parent(Signal::CONT);
    let path = tree.path("after.json");
    tree.ask(&format!("capture {}", path.display()))?;
    let profile = Profile::read(&path)?;
    for kid in &tree.kids {
        assert_eq!(profile.verdict(&kid.name)?, "complete");
        let counts = profile.process(&kid.name)?.counts()?;
        assert!(counts.recorded > 10_000, "{counts:?}");
        assert!(
            counts
                .reasons
                .keys()
                .all(|reason| ["full", "no budget"].contains(&reason.as_str()))
        );
    }
    Ok(())
}

#[test]
fn a_burst_of_ten_megabytes_is_kept_while_the_parent_cannot_answer() -> anyhow::Result<()> {
    own_process!();
    const COUNT: u64 = 200_000; // about 50 bytes each
    let options = ProcessTreeOptions {
        limit: 128 << 20,
        ..OPTIONS
    };
    let mut tree = ProcessTree::start(&options, |_| {})?;
    tree.spawn_kids(&options, 3)?;
    tree.signal_parent(Signal::STOP);
    let pid = tree.parent_pid();
    assert!(until(|| integration_tests::own::state_of(pid) == Some('T')));
    tree.kids[2].ask(&format!("burst 1 {COUNT}"))?;
    tree.signal_parent(Signal::CONT);
    let path = tree.path("burst.json");
    tree.ask(&format!("capture {}", path.display()))?;
    let profile = Profile::read(&path)?;
    let counts = profile.process(&tree.kids[2].name)?.counts()?;
    assert_eq!(counts.delivered, COUNT, "{counts:?}");
    assert!(
        counts.reasons.is_empty() && counts.evicted == 0,
        "{counts:?}"
    );
    Ok(())
}
