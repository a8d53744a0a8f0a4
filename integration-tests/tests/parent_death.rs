//! The parent is killed, or stands still: its children go on unharmed, and nothing of them is left.

use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions, TreeChild};
use integration_tests::profile::Profile;
use rustix::process::Signal;

const WISHES: ProcessTreeOptions<'static> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: env!("CARGO_BIN_EXE_child"),
    limit: 16 << 20,
    in_files: false,
};

/// A child's own books.
#[derive(Debug)]
struct Books {
    recorded: u64,
    lost_otherwise: u64,
}

/// Asks a child for its books, and checks that they add up and that nothing was dropped but for
/// want of memory.
fn books(kid: &mut TreeChild) -> anyhow::Result<Books> {
    let said = kid.ask("books")?;
    let mut words = said.split(' ').skip(1);
    let mut number = || -> anyhow::Result<u64> { Ok(words.next().context("too few")?.parse()?) };
    let (recorded, delivered, evicted, unfinished) = (number()?, number()?, number()?, number()?);
    let (mut dropped, mut lost_otherwise) = (0, 0);
    for word in words {
        let (reason, count) = word.split_once('=').context("no reason")?;
        let count: u64 = count.parse()?;
        dropped += count;
        lost_otherwise += if ["full", "no-budget"].contains(&reason) { 0 } else { count };
    }
    ensure!(recorded == delivered + evicted + unfinished + dropped, "{said}");
    ensure!(lost_otherwise == 0, "{said}");
    Ok(Books { recorded, lost_otherwise })
}

/// Waits until a child has recorded more than at a time before.
fn records_on(kid: &mut TreeChild, before: &Books) -> anyhow::Result<()> {
    let enough = before.recorded + 10_000;
    ensure!(until(|| books(kid).is_ok_and(|now| now.recorded > enough)), "{}: {before:?}", kid.name);
    Ok(())
}

#[test]
fn children_of_a_killed_parent_go_on_and_leave_nothing() -> anyhow::Result<()> {
    own_process!();
    let mut family = ProcessTree::start(&WISHES, |_| {})?;
    family.spawn_kids(&WISHES, 4)?;
    family.kids.iter_mut().try_for_each(|kid| kid.ask("flood 2").map(|_| ()))?;
    std::thread::sleep(Duration::from_millis(100)); // in the middle of chunk switches and evictions
    family.kill_parent()?;
    for kid in &mut family.kids {
        let before = books(kid)?;
        assert_eq!(before.lost_otherwise, 0);
        records_on(kid, &before)?;
        kid.ask("calm")?;
        kid.ask("record 2 100")?; // new threads, and their rows
        books(kid)?;
        kid.tell("exit 0")?;
        assert_eq!(kid.wait()?.exit_status(), Some(0), "{}", kid.name);
    }
    assert_eq!(family.left_over(), [] as [std::path::PathBuf; 0]);
    Ok(())
}

#[test]
fn a_child_that_starts_as_its_parent_dies_records_unharmed() -> anyhow::Result<()> {
    own_process!();
    let mut family = ProcessTree::start(&WISHES, |_| {})?;
    for _ in 0..4 {
        family.spawn(&format!("{} init", WISHES.child))?; // connected or not
    }
    family.kill_parent()?;
    for kid in &mut family.kids {
        kid.ask("record 2 500")?;
        // A parent that dies before its first word may have ended its session: recording may stop then.
        assert!(books(kid)?.recorded <= 1000);
        kid.tell("exit 0")?;
        assert_eq!(kid.wait()?.exit_status(), Some(0));
    }
    Ok(())
}

#[test]
fn the_socket_of_a_child_that_never_connected_goes_with_the_next_session_and_a_living_one_stays()
-> anyhow::Result<()> {
    own_process!();
    let silent = format!("{} no-init", WISHES.child); // it runs, and is never heard of
    let mut killed = ProcessTree::start(&WISHES, |_| {})?;
    killed.spawn(&silent)?;
    assert_eq!(killed.left_over().len(), 1, "where it could connect");
    let place = killed.path("tmp");
    let mut living = ProcessTree::start(&WISHES, |parent| _ = parent.env("TMPDIR", &place))?;
    living.spawn(&silent)?;
    killed.kill_parent()?; // before its child, or it removes the socket when it sees the child end
    killed.kids[0].signal(Signal::KILL);
    assert_eq!(killed.left_over().len(), 2);
    let mut next = ProcessTree::start(&WISHES, |parent| _ = parent.env("TMPDIR", &place))?;
    assert_eq!(killed.left_over().len(), 1, "that of the living session");
    next.dismiss()?;
    living.kids[0].signal(Signal::KILL);
    living.dismiss()?;
    assert_eq!(killed.left_over(), [] as [std::path::PathBuf; 0], "it ends in order");
    Ok(())
}

#[test]
fn a_session_that_is_killed_as_a_whole_leaves_no_files() -> anyhow::Result<()> {
    own_process!();
    let mut family = ProcessTree::start(&WISHES, |_| {})?;
    family.spawn_kids(&WISHES, 4)?;
    family.kids.iter_mut().try_for_each(|kid| kid.ask("flood 2").map(|_| ()))?;
    family.kill_all()?;
    assert_eq!(family.left_over(), [] as [std::path::PathBuf; 0]);
    Ok(())
}

#[test]
fn children_of_a_parent_that_stands_still_record_on_and_the_books_hold_afterwards() -> anyhow::Result<()> {
    own_process!();
    let mut family = ProcessTree::start(&WISHES, |_| {})?;
    family.spawn_kids(&WISHES, 3)?;
    family.kids.iter_mut().try_for_each(|kid| kid.ask("flood 2").map(|_| ()))?;
    family.signal_parent(Signal::STOP);
    let pid = family.parent_pid();
    assert!(until(|| integration_tests::own::state_of(pid) == Some('T')));
    std::thread::sleep(Duration::from_millis(500)); // socket buffers and queues have time to fill
    for kid in &mut family.kids {
        let before = books(kid)?;
        records_on(kid, &before)?;
    }
    assert_eq!(integration_tests::own::state_of(pid), Some('T'), "all the while");
    family.kids.iter_mut().try_for_each(|kid| kid.ask("calm").map(|_| ()))?;
    family.signal_parent(Signal::CONT);
    let path = family.path("after.json");
    family.ask(&format!("capture {}", path.display()))?;
    let profile = Profile::read(&path)?;
    for kid in &family.kids {
        assert_eq!(profile.verdict(&kid.name)?, "complete");
        let books = profile.process(&kid.name)?.books()?;
        assert!(books.recorded > 10_000, "{books:?}");
        assert!(books.reasons.keys().all(|reason| ["full", "no budget"].contains(&reason.as_str())));
    }
    Ok(())
}
