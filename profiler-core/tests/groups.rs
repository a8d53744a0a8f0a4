//! Groups in a real session of this process: guards, futures, threads, the pool and its reader.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::support::{self, RunningSession};
use profiler_core::groups::{
    self, Group, GroupKind, Groups, InGroups, Probes, blocking, custom_loop, nested_loop,
};
use profiler_core::internal::reader::ByteSource;
use profiler_core::internal::reader::groups::{GroupReader, GroupTotals, PoolGroups};
use profiler_core::session::{self, SessionParams};
use profiler_core::{blocking, group};
use test_support::own_process;

/// A session of one test.
struct Recording {
    reader: GroupReader<File>,
    _session: RunningSession,
}

impl Recording {
    fn start(probes: Probes) -> Self {
        groups::set_probes(probes);
        let session = RunningSession::start(SessionParams::default());
        Self { reader: GroupReader::open(session::pool_file().unwrap()).unwrap(), _session: session }
    }

    fn all(&mut self) -> PoolGroups {
        self.reader.read().unwrap()
    }

    fn find(&mut self, kind: GroupKind, name: &str) -> Option<GroupTotals> {
        let all = self.all();
        let is_it = |row: &&_| {
            let row: &profiler_core::internal::reader::groups::GroupReading = row;
            row.definition.kind == kind && row.definition.name == name
        };
        all.groups.iter().find(is_it).map(|row| row.totals.clone())
    }

    fn totals(&mut self, kind: GroupKind, name: &str) -> GroupTotals {
        self.find(kind, name).unwrap_or_else(GroupTotals::nothing)
    }
}

/// When something happened, on another clock than the one that is tested.
fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // a stopwatch
    Instant::now()
}

/// Whether so much was measured of a time that took no longer than `most`, in a test that took `whole`: by two clocks that agree
/// to a tenth of that.
fn is_at_most(measured_ns: u64, most: Duration, whole: Duration) -> bool {
    u128::from(measured_ns) <= (most + whole / 10).as_nanos()
}

/// Runs a body on a thread of this name.
fn on_thread<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder.spawn_scoped(scope, body).unwrap().join().unwrap()
    })
}

/// Keeps a processor busy for so much of its time.
fn spin(time: Duration) {
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let ns = || cpu().tv_sec * 1_000_000_000 + cpu().tv_nsec;
    let end = ns() + i64::try_from(time.as_nanos()).unwrap();
    while ns() < end {}
}

#[test]
fn p1_a_unit_of_work_counts_for_plugin_tenant_thread_and_process() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let tenant = Group::register(GroupKind::Tenant, "p1 tenant 7");
    on_thread("p1 worker", || {
        let _both = Groups::of([group!("plugin:p1 A"), &tenant]).enter();
        std::thread::sleep(Duration::from_millis(3));
    });
    let plugin = recording.totals(GroupKind::Plugin, "p1 A");
    assert_eq!((plugin.ticks, plugin.runs), (1, 1));
    assert!(plugin.wall_ns >= 3_000_000 && plugin.is_settled, "{plugin:?}");
    for (kind, name) in [(GroupKind::Tenant, "p1 tenant 7"), (GroupKind::Thread, "p1 worker")] {
        assert_eq!(recording.totals(kind, name), plugin, "{name}");
    }
    let process = recording.totals(GroupKind::Process, "process");
    assert!(process.wall_ns >= plugin.wall_ns && process.cpu_ns >= plugin.cpu_ns);
}

#[test]
fn p3_entries_are_counted_on_all_threads_with_all_probes_off() {
    own_process!();
    let mut recording = Recording::start(Probes::NONE);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| drop(group!("plugin:p3").enter())));
        }
    });
    drop(group!("plugin:p3").enter()); // brings ticks along that were kept while the cell was being made
    let totals = recording.totals(GroupKind::Plugin, "p3");
    assert_eq!((totals.ticks, totals.wall_ns, totals.runs), (40_001, 0, 0));
}

#[test]
fn p4_processor_time_is_not_wall_time() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    {
        let _sleeps = group!("p4 sleeps").enter();
        std::thread::sleep(Duration::from_millis(200));
    }
    {
        let _spins = group!("p4 spins").enter();
        spin(Duration::from_millis(200));
    }
    let sleeps = recording.totals(GroupKind::Component, "p4 sleeps");
    assert!(sleeps.wall_ns >= 199_900_000 && sleeps.cpu_ns < 10_000_000, "{sleeps:?}");
    assert!(sleeps.off_cpu_ns > 180_000_000);
    let spins = recording.totals(GroupKind::Component, "p4 spins");
    assert!((190_000_000..220_000_000).contains(&spins.cpu_ns), "{spins:?}");
}

#[test]
fn p8_nothing_changes_before_the_iteration_ends() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let mut turns = custom_loop();
    (0..3).for_each(|_| drop(group!("p8").enter()));
    assert_eq!(recording.totals(GroupKind::Component, "p8").ticks, 0);
    turns.turn();
    let after = recording.totals(GroupKind::Component, "p8");
    turns.turn();
    assert_eq!((after.ticks, after.runs), (3, 1));
    assert_eq!(recording.totals(GroupKind::Component, "p8"), after, "the second end tells nothing");
}

#[test]
fn p8_a_custom_loop_that_ends_inside_of_a_nested_one_leaves_that_as_it_is() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let outer = custom_loop();
    let nested = nested_loop();
    let mut turns = custom_loop();
    drop(outer);
    drop(group!("p8 nested").enter());
    assert_eq!(recording.totals(GroupKind::Component, "p8 nested").ticks, 0, "it has not turned");
    turns.turn();
    assert_eq!(recording.totals(GroupKind::Component, "p8 nested").ticks, 1);
    drop(nested);
    drop(group!("p8 outer").enter());
    assert_eq!(
        recording.totals(GroupKind::Component, "p8 outer").ticks,
        1,
        "the outer one is custom no more"
    );
    turns.turn();
    drop(turns); // its loop is over
}

#[test]
fn p8_a_custom_loop_turns_only_itself_and_goes_on_when_the_nested_one_is_over() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let mut turns = custom_loop();
    drop(group!("p8 around").enter());
    let nested = nested_loop();
    turns.turn();
    drop(group!("p8 inside").enter());
    assert_eq!(recording.totals(GroupKind::Component, "p8 inside").ticks, 1, "the nested one is not custom");
    drop(nested);
    assert_eq!(recording.totals(GroupKind::Component, "p8 around").ticks, 0);
    turns.turn();
    assert_eq!(recording.totals(GroupKind::Component, "p8 around").ticks, 1);
}

#[test]
fn p8_a_custom_loop_that_ends_leaves_the_turns_to_the_one_around_it() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let mut outer = custom_loop();
    let inner = custom_loop();
    drop(group!("p8 shared").enter());
    drop(inner);
    drop(group!("p8 shared").enter());
    assert_eq!(recording.totals(GroupKind::Component, "p8 shared").ticks, 0, "it has not turned");
    outer.turn();
    assert_eq!(recording.totals(GroupKind::Component, "p8 shared").ticks, 2);
}

#[test]
fn p8_whatever_loop_ends_first_the_thread_goes_on_counting() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let around = group!("p8 crossed").enter();
    let turns = custom_loop();
    let nested = nested_loop();
    drop(turns);
    drop(nested);
    drop(around);
    assert_eq!(recording.totals(GroupKind::Component, "p8 crossed").ticks, 1);
    (0..3).for_each(|_| drop(group!("p8 crossed").enter()));
    assert_eq!(recording.totals(GroupKind::Component, "p8 crossed").ticks, 4);
}

#[test]
fn p10_fine_groups_are_nothing_until_somebody_wants_them() {
    own_process!();
    static FINE: Group = Group::fine(GroupKind::Component, "p10 fine");
    let mut recording = Recording::start(Probes::JANK);
    (0..5).for_each(|_| drop(FINE.enter()));
    assert!(recording.find(GroupKind::Component, "p10 fine").is_none());
    assert_eq!(recording.totals(GroupKind::Process, "process").ticks, 0);
    groups::set_probes(Probes::JANK.with(Probes::FINE));
    (0..3).for_each(|_| drop(FINE.enter()));
    assert_eq!(recording.totals(GroupKind::Component, "p10 fine").ticks, 3);
    groups::set_probes(Probes::JANK);
    drop(FINE.enter());
    assert!(recording.find(GroupKind::Component, "p10 fine").is_none(), "inactive again");
    groups::set_probes(Probes::FINE);
    assert_eq!(recording.totals(GroupKind::Component, "p10 fine").ticks, 3);
}

#[test]
fn p13_no_number_falls_in_a_thousand_snapshots_under_load() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    let _all = Groups::of([group!("plugin:p13"), group!("tenant:p13")]).enter();
                    drop(group!("p13 inner").enter());
                }
            });
        }
        let mut before: Vec<GroupTotals> = Vec::new();
        for _ in 0..1000 {
            let now: Vec<GroupTotals> = recording.all().groups.into_iter().map(|row| row.totals).collect();
            for (before, now) in before.iter().zip(&now) {
                assert_not_less(before, now);
            }
            assert!(now.len() >= before.len());
            before = now;
        }
        STOP.store(true, Ordering::Relaxed);
    });
    let (plugin, tenant) =
        (recording.totals(GroupKind::Plugin, "p13"), recording.totals(GroupKind::Tenant, "p13"));
    assert!(plugin.is_settled && plugin.runs > 0);
    assert_eq!((plugin.ticks, plugin.runs, plugin.wall_ns), (tenant.ticks, tenant.runs, tenant.wall_ns));
    assert_eq!(plugin.histogram.total(), plugin.runs);
}

fn assert_not_less(before: &GroupTotals, now: &GroupTotals) {
    // All that there are: a new one has to be named here.
    let fields = |t: &GroupTotals| {
        let GroupTotals {
            ticks,
            runs,
            wall_ns,
            measured_ns,
            cpu_ns,
            off_cpu_ns: _, // a difference, below
            blocking_ns,
            discarded,
            moved,
            nested,
            durations: _, // number by number, below
            histogram: _,
            longest_ns,
            peaks: _, // of the last seconds
            is_settled: _,
        } = t;
        let times = [wall_ns, measured_ns, cpu_ns, blocking_ns, longest_ns];
        [ticks, runs, discarded, moved, nested].into_iter().chain(times).copied().collect::<Vec<u64>>()
    };
    assert!(fields(before).iter().zip(fields(now)).all(|(a, b)| *a <= b), "{before:?} {now:?}");
    let are_settled = before.is_settled && now.is_settled;
    assert!(!are_settled || before.off_cpu_ns <= now.off_cpu_ns, "{before:?} {now:?}");
    assert!(before.durations.iter().zip(&now.durations).all(|(a, b)| a <= b));
    let later: BTreeMap<u64, u64> = now.histogram.counts().collect();
    let falls = |(place, count)| later.get(&place).is_none_or(|later| *later < count);
    assert!(!before.histogram.counts().any(falls), "{before:?} {now:?}");
}

#[test]
fn p15_waiting_in_a_guard_is_blocking_time() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    {
        let _works = group!("plugin:p15").enter();
        let _waits = blocking!("p15 database");
        std::thread::sleep(Duration::from_millis(100));
    }
    for (kind, name) in [(GroupKind::Plugin, "p15"), (GroupKind::Blocking, "p15 database")] {
        let totals = recording.totals(kind, name);
        assert!(totals.blocking_ns >= 99_900_000 && totals.cpu_ns < 10_000_000, "{name}: {totals:?}");
    }
    groups::set_probes(Probes::JANK);
    drop(blocking(&Group::register(GroupKind::Blocking, "p15 database")));
    assert_eq!(
        recording.totals(GroupKind::Blocking, "p15 database").ticks,
        2,
        "without the probe a tick only"
    );
}

#[test]
fn every_poll_of_a_future_is_one_entry() {
    own_process!();
    struct Thrice(u32);
    impl Future for Thrice {
        type Output = u32;
        fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
            self.0 += 1;
            if self.0 == 3 { Poll::Ready(self.0) } else { Poll::Pending }
        }
    }
    let mut recording = Recording::start(Probes::JANK);
    let tenant = Group::register(GroupKind::Tenant, "polled");
    let mut future = pin!(Thrice(0).in_group(group!("task:polled")).in_group(&tenant));
    let mut context = Context::from_waker(Waker::noop());
    let polls = (1..).find(|_| future.as_mut().poll(&mut context).is_ready());
    assert_eq!(polls, Some(3));
    for kind in [GroupKind::Task, GroupKind::Tenant] {
        let totals = recording.totals(kind, "polled");
        assert_eq!((totals.ticks, totals.runs), (3, 3), "{kind}");
    }
}

#[test]
fn p7_work_in_a_nested_loop_is_counted_in_it_alone() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let begin = now();
    let outer = group!("p7 outer").enter();
    let nested = nested_loop();
    let nested_from = now();
    let inner = group!("p7 inner").enter();
    std::thread::sleep(Duration::from_millis(20));
    drop(inner);
    let in_nested = nested_from.elapsed();
    drop(nested);
    drop(outer);
    let whole = begin.elapsed();
    let (outer, inner) = (
        recording.totals(GroupKind::Component, "p7 outer"),
        recording.totals(GroupKind::Component, "p7 inner"),
    );
    assert_eq!((outer.nested, inner.nested, outer.ticks, inner.ticks), (1, 0, 1, 1));
    assert!(inner.wall_ns >= 19_900_000, "{inner:?}");
    assert!(
        is_at_most(outer.wall_ns, whole - in_nested, whole),
        "{outer:?} of {whole:?}, {in_nested:?} inside"
    );
}

#[test]
fn p7_a_loop_that_is_left_before_those_inside_of_it_takes_them_with_it() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let outer = group!("p7 left").enter();
    let (first, second) = (nested_loop(), nested_loop());
    let begin = now();
    let inside = group!("p7 inside").enter();
    drop(first);
    let in_first = begin.elapsed();
    std::thread::sleep(Duration::from_millis(20));
    let whole = begin.elapsed();
    drop((second, inside)); // their loops are over
    drop(outer);
    let (left, inside) = (
        recording.totals(GroupKind::Component, "p7 left"),
        recording.totals(GroupKind::Component, "p7 inside"),
    );
    assert_eq!((left.ticks, left.nested, inside.ticks), (1, 1, 1));
    assert!(left.wall_ns >= 19_900_000, "it goes on: {left:?}");
    assert!(is_at_most(inside.wall_ns, in_first, whole), "{inside:?}, {in_first:?} of {whole:?}");
}

#[test]
fn p15_a_wait_that_is_left_in_another_loop_is_over() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    {
        let _outer = group!("p15 outer").enter();
        let waits = blocking!("p15 crossed");
        let nested = nested_loop();
        drop(waits);
        drop(nested);
    }
    {
        let _after = group!("p15 after").enter();
        spin(Duration::from_millis(50));
    }
    let after = recording.totals(GroupKind::Component, "p15 after");
    assert_eq!(after.blocking_ns, 0, "{after:?}");
    assert!(after.cpu_ns >= 49_000_000, "{after:?}");
}

#[test]
fn p15_a_wait_for_a_group_that_is_entered_is_blocking_time() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let store = Group::register(GroupKind::Component, "p15 store");
    {
        let _works = store.enter();
        let _waits = blocking(&store);
        std::thread::sleep(Duration::from_millis(20));
    }
    let totals = recording.totals(GroupKind::Component, "p15 store");
    assert!(totals.blocking_ns >= 19_900_000 && totals.ticks == 1, "{totals:?}");
}

#[test]
fn p2_a_group_is_left_with_the_last_of_its_guards() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let first = group!("p2 held").enter();
    let second = group!("p2 held").enter();
    drop(first);
    std::thread::sleep(Duration::from_millis(20));
    drop(second);
    let totals = recording.totals(GroupKind::Component, "p2 held");
    assert!(totals.wall_ns >= 19_900_000 && totals.ticks == 1, "{totals:?}");
}

/// A pool whose session ends after so many reads.
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
fn p13_what_a_session_leaves_when_it_ends_is_not_told_as_its_numbers() {
    own_process!();
    for reads in 0..12 {
        let recording = Recording::start(Probes::JANK);
        (0..3).for_each(|_| drop(group!("p13 ends").enter()));
        let file = session::pool_file().unwrap();
        let source = EndsInBetween { file, reads: Cell::new(u32::MAX) };
        let mut reader = GroupReader::open(&source).unwrap();
        source.reads.set(reads);
        let found = reader.read().unwrap();
        let ticks = found.groups.iter().find(|row| row.definition.name == "p13 ends");
        let ticks = ticks.map(|row| row.totals.ticks);
        let is_right = if found.epoch == 0 { found.groups.is_empty() } else { ticks == Some(3) };
        assert!(is_right, "ended at read {reads}: session {} with {ticks:?}", found.epoch);
        drop(recording);
    }
}

#[test]
fn a_guard_of_an_earlier_session_means_nothing_in_a_later_one() {
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
    assert!(recording.all().groups.is_empty(), "what was counted is gone with the session");
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
fn the_profile_has_the_same_numbers_as_a_counter() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    for _ in 0..50 {
        let _in = group!("plugin:tracked").enter();
        std::thread::sleep(Duration::from_micros(50));
    }
    let totals = recording.totals(GroupKind::Plugin, "tracked");
    let snapshot = support::snapshot();
    let track = snapshot.counters.iter().find(|counter| counter.definition.name == "plugin tracked").unwrap();
    assert_eq!((track.value.unsigned_abs(), track.number), (totals.wall_ns, totals.ticks));
    assert_eq!((totals.ticks, totals.runs), (50, 50));
}

#[test]
fn threads_of_one_name_are_one_group_and_those_that_end_keep_their_totals() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    (0..3).for_each(|_| on_thread("pool worker", || drop(group!("threads").enter())));
    assert_eq!(recording.totals(GroupKind::Thread, "pool worker").ticks, 3);
}

#[test]
fn a_thread_that_is_named_anew_is_in_the_group_of_its_new_name_from_the_next_iteration_on() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    on_thread("first name", || {
        let around = group!("named").enter();
        profiler_core::thread::register("second name");
        drop(around);
        (0..2).for_each(|_| drop(group!("named").enter()));
    });
    let ticks = ["first name", "second name"].map(|name| recording.totals(GroupKind::Thread, name).ticks);
    assert_eq!(ticks, [1, 2]);
}

#[test]
fn a_thread_that_ends_in_a_custom_loop_hands_over_what_it_did() {
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
fn a_forked_child_counts_nothing_and_is_not_harmed_by_guards_it_was_born_with() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let born_with = group!("forked").enter();
    // SAFETY: the child does nothing but leave and enter a group, which takes no lock and allocates nothing there, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(born_with);
        drop(group!("forked").enter());
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0, "the child was harmed");
    drop(born_with);
    assert_eq!(recording.totals(GroupKind::Component, "forked").ticks, 1);
}
