//! Test of a thread that is delayed in the middle of an entry while one session stops and another
//! begins in the same pool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::{self, snapshot};
use profiler_core::internal::reader::{Snapshot, ThreadInfo};
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::session::{Drops, EntryCounts};
use profiler_core::{marker, scope};
use test_support::own_process;
use test_support::patience::until;

static HOLD: AtomicBool = AtomicBool::new(false);
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// A payload whose encoding is delayed while [`HOLD`] is set, and then fails.
#[derive(serde::Serialize)]
struct Slow {
    value: Held,
}

struct Held;

impl serde::Serialize for Held {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !HOLD.load(Ordering::SeqCst) {
            return serializer.serialize_u8(1);
        }
        IS_HELD.store(true, Ordering::SeqCst);
        while HOLD.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(serde::ser::Error::custom("held up"))
    }
}

impl ProfilerMarker for Slow {
    const TYPE_NAME: &'static str = "Slow";
    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Slow")
    }
}

fn slow() {
    marker!(
        "slow",
        &category::TEST,
        MarkerOptions::default(),
        &Slow { value: Held }
    );
}

fn attach() {
    let params = SessionParams::default();
    let spec = support::pool_spec(&params);
    session::attach(spec.create_pool().unwrap()).unwrap();
}

fn start(interval_ns: u64) {
    let params = SessionParams {
        interval_ns,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .unwrap()
}

fn named(snapshot: &Snapshot, name: &str) -> Option<ThreadInfo> {
    snapshot
        .threads
        .iter()
        .find(|thread| thread.name == name)
        .cloned()
}

#[test]
fn a_thread_held_up_across_a_stop_and_a_start_does_not_change_another_threads_row() {
    own_process!();
    attach();
    start(1_000_000);
    let held_up = thread("held up", || {
        (0..50).for_each(|_| marker!("first session"));
        slow();
        HOLD.store(true, Ordering::SeqCst);
        slow(); // returns when the second session runs
    });
    assert!(
        until(|| IS_HELD.load(Ordering::SeqCst)),
        "the thread is not held up"
    );
    start(2_000_000);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let new = thread("new", move || {
        marker!("second session");
        released.recv().unwrap();
        let _scope = scope!("second session");
    });
    let has_recorded = || named(&snapshot(), "new").is_some_and(|new| new.committed() == 1);
    assert!(until(has_recorded), "the new thread has no entry");
    assert!(
        named(&snapshot(), "held up").is_none(),
        "a thread of the ended session has a row"
    );
    HOLD.store(false, Ordering::SeqCst);
    held_up.join().unwrap();
    let counts = named(&snapshot(), "new").unwrap();
    assert_eq!(
        (counts.ended, counts.dropped, counts.committed()),
        (None, Drops::default(), 1)
    );
    release.send(()).unwrap();
    new.join().unwrap();
    let expected = EntryCounts {
        delivered: 2,
        ..EntryCounts::default()
    };
    assert_eq!(snapshot().counts(), expected);
    session::stop();
}
