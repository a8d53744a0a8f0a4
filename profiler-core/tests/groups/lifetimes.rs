//! Groups and the ends of sessions, threads and processes: guards and totals of what has ended.

use std::cell::Cell;
use std::fs::File;
use std::io;

use profiler_core::group;
use profiler_core::groups::{GroupKind, Probes, custom_loop};
use profiler_core::internal::reader::ByteSource;
use profiler_core::internal::reader::groups::GroupReader;
use profiler_core::session;
use test_support::forks::in_forked_child;
use test_support::own_process;

use super::{Recording, on_thread};

/// A pool whose session ends after `reads` reads.
struct EndsInBetween {
    file: File,
    reads: Cell<u32>,
}

impl ByteSource for EndsInBetween {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.reads.get() == 0 {
            session::stop();
        }
        self.reads.set(self.reads.get().wrapping_sub(1));
        ByteSource::read_at(&self.file, buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ByteSource::len(&self.file)
    }
}

#[test]
fn p13_a_session_that_ends_during_a_read_gives_exact_totals_or_none() {
    own_process!();
    for reads in 0..12 {
        let recording = Recording::start(Probes::JANK);
        (0..3).for_each(|_| drop(group!("p13 ends").enter()));
        let file = session::pool_file().unwrap();
        let source = EndsInBetween {
            file,
            reads: Cell::new(u32::MAX),
        };
        let mut reader = GroupReader::open(&source).unwrap();
        source.reads.set(reads);
        let found = reader.read().unwrap();
        let ticks = found
            .groups
            .iter()
            .find(|row| row.definition.name == "p13 ends");
        let ticks = ticks.map(|row| row.totals.ticks);
        let is_right = if found.epoch == 0 {
            found.groups.is_empty()
        } else {
            ticks == Some(3)
        };
        assert!(
            is_right,
            "ended at read {reads}: session {} with {ticks:?}",
            found.epoch
        );
        drop(recording);
    }
}

#[test]
fn a_guard_of_an_earlier_session_has_no_effect_in_a_later_one() {
    own_process!();
    let recording = Recording::start(Probes::ALL);
    let left_over = group!("left over").enter();
    drop(recording);
    let mut recording = Recording::start(Probes::ALL);
    let own = group!("own").enter();
    drop(left_over);
    drop(own);
    assert_eq!(recording.totals(GroupKind::Component, "left over").ticks, 0);
    assert_eq!(recording.totals(GroupKind::Component, "own").ticks, 1);
    session::stop();
    drop(group!("own").enter());
    assert!(
        recording.all().groups.is_empty(),
        "the totals are gone with the session"
    );
}

#[test]
fn a_panic_leaves_the_group() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let panicked = std::panic::catch_unwind(|| {
        let _in = group!("panics").enter();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err());
    drop(group!("panics").enter());
    let totals = recording.totals(GroupKind::Component, "panics");
    assert_eq!((totals.ticks, totals.runs), (2, 2), "{totals:?}");
}

#[test]
fn threads_with_one_name_are_one_group_and_its_totals_outlive_them() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    (0..3).for_each(|_| on_thread("pool worker", || drop(group!("threads").enter())));
    assert_eq!(recording.totals(GroupKind::Thread, "pool worker").ticks, 3);
}

#[test]
fn a_renamed_thread_counts_for_its_new_name_from_the_next_iteration_on() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    on_thread("first name", || {
        let around = group!("named").enter();
        profiler_core::thread::register("second name");
        drop(around);
        (0..2).for_each(|_| drop(group!("named").enter()));
    });
    let ticks =
        ["first name", "second name"].map(|name| recording.totals(GroupKind::Thread, name).ticks);
    assert_eq!(ticks, [1, 2]);
}

#[test]
fn a_thread_that_ends_in_a_custom_loop_commits_its_counts() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    on_thread("ends", || {
        let turns = custom_loop();
        drop(group!("ends").enter());
        std::mem::forget(turns); // the thread never leaves its loop
    });
    assert_eq!(recording.totals(GroupKind::Component, "ends").ticks, 1);
}

#[cfg(target_os = "linux")]
#[test]
#[allow(unsafe_code)]
fn a_forked_child_counts_nothing_and_is_not_harmed_by_inherited_guards() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let mut inherited = Some(group!("forked").enter());
    let in_child = || {
        drop(inherited.take()); // the parent is still inside
        drop(group!("forked").enter());
        0
    };
    // SAFETY: the child only leaves and enters a group, which takes no lock and allocates nothing
    // in a forked child.
    let status = unsafe { in_forked_child(in_child) };
    assert_eq!(status, 0, "the child was harmed");
    drop(inherited);
    assert_eq!(recording.totals(GroupKind::Component, "forked").ticks, 1);
}
