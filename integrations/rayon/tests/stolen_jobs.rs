//! A worker that waits executes another job on top of the one that waits. Each counts for its own
//! groups, and has its own labels.
//!
//! The first worker waits in `rayon::join` for a job that the second worker has taken. That job
//! ends when a third job, of another context, has run, so only the first worker can execute it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ThreadId, current};

use profiler_core::group;
use profiler_core::groups::GroupKind;
use profiler_rayon::{JobContext, job_site};
use rayon::ThreadPool;
use test_support::own_process;
use test_support::patience::until;

use crate::support::{MeasuredSession, labels_at, mark, pool, work};

fn waiting() -> JobContext {
    JobContext::of([group!("waiting")]).named(job_site!("waiting"))
}

fn stolen() -> JobContext {
    JobContext::of([group!("stolen")]).named(job_site!("stolen"))
}

#[derive(Default)]
struct Event(AtomicBool);

impl Event {
    fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn wait(&self) {
        assert!(until(|| self.0.load(Ordering::SeqCst)), "no such event");
    }
}

/// Lets the worker that waits execute `on_top`. Returns the thread that has waited.
fn steal(pool: &ThreadPool, on_top: impl FnOnce() + Send) -> ThreadId {
    let [is_taken, may_end] = [(); 2].map(|()| Event::default());
    let context = waiting();
    let wait_for_other = || {
        let first = || {
            is_taken.wait();
            current().id()
        };
        let second = || {
            is_taken.set();
            may_end.wait();
        };
        let (waits, ()) = context.join(first, second);
        mark("after the wait");
        waits
    };
    pool.in_place_scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let context = &context;
        scope.spawn(move |_| sender.send(context.run(wait_for_other)).unwrap());
        is_taken.wait();
        scope.spawn(|_| {
            let _ends = SetAtEnd(&may_end);
            on_top();
        });
        receiver.recv().unwrap()
    })
}

struct SetAtEnd<'a>(&'a Event);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

#[test]
fn a_stolen_job_counts_for_its_own_groups_only() {
    own_process!();
    let session = MeasuredSession::start();
    let mut ran_on = None;
    let waits = steal(&pool("steals", 2), || {
        stolen().run(|| {
            assert_eq!(JobContext::current().groups(), 1);
            mark("in the stolen job");
            (0..10).for_each(|_| work());
            ran_on = Some(current().id());
        });
    });
    assert_eq!(
        ran_on,
        Some(waits),
        "the job was not executed on top of the other"
    );
    let [of_waiting, of_stolen] =
        ["waiting", "stolen"].map(|name| session.totals(GroupKind::Component, name));
    assert_eq!(
        (of_stolen.ticks, of_stolen.runs, of_stolen.nested),
        (1, 1, 0)
    );
    // The job that waits, and the second job of its join.
    assert_eq!((of_waiting.ticks, of_waiting.runs), (2, 2));
    assert_eq!(of_waiting.nested, 1, "it was not paused");
    let sum = of_waiting.wall_ns + of_stolen.wall_ns;
    // Each run is rounded.
    assert!(sum <= session.process_ns() + 10, "time counts twice");
    assert_eq!(
        labels_at("in the stolen job"),
        ["waiting", "job inside another job", "stolen"]
    );
    assert_eq!(labels_at("after the wait"), ["waiting"]);
}

#[test]
fn a_panic_in_a_stolen_job_leaves_the_job_that_waits_as_it_was() {
    own_process!();
    let session = MeasuredSession::start();
    let mut ran_on = None;
    let pool = pool("panics", 2);
    let waits = steal(&pool, || {
        let job = || {
            ran_on = Some(current().id());
            panic!("a stolen job")
        };
        let caught = catch_unwind(AssertUnwindSafe(|| stolen().intervals().run(job)));
        assert!(caught.is_err());
        mark("after the panic");
    });
    assert_eq!(ran_on, Some(waits));
    assert_eq!(labels_at("after the panic"), ["waiting"]);
    assert_eq!(labels_at("after the wait"), ["waiting"]);
    let of_waiting = session.totals(GroupKind::Component, "waiting");
    assert_eq!(
        (of_waiting.ticks, of_waiting.runs, of_waiting.nested),
        (2, 2, 1)
    );
    assert_eq!(session.counts("stolen"), (1, 1));
    assert_eq!(pool.broadcast(|_| JobContext::current().groups()), [0, 0]);
}

#[test]
fn a_stolen_job_pauses_groups_that_the_program_has_entered_itself() {
    own_process!();
    let session = MeasuredSession::start();
    let [is_taken, may_end] = [(); 2].map(|()| Event::default());
    let pool = pool("own groups", 2);
    pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            let _own = group!("own").enter();
            rayon::join(
                || is_taken.wait(),
                || {
                    is_taken.set();
                    may_end.wait();
                },
            );
        });
        is_taken.wait();
        scope.spawn(|_| {
            stolen().run(work);
            may_end.set();
        });
    });
    let own = session.totals(GroupKind::Component, "own");
    assert_eq!((own.ticks, own.nested), (1, 1));
    assert_eq!(session.counts("stolen"), (1, 1));
}
