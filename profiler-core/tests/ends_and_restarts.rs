//! Tests of threads that end or unregister, and of sessions that stop and start, at unfavourable
//! moments: the counts stay exact.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::support::{Worker, snapshot};
use profiler_core::ids::ByteLimit;
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker, add_untyped_marker, category};
use profiler_core::session::DropReason;
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::{marker, thread};
use test_support::own_process;
use test_support::patience::until;

fn start(params: SessionParams) {
    session::start(params, StartOptions::default()).unwrap();
}

#[test]
fn a_thread_that_is_not_selected_does_not_end_the_process_row() {
    own_process!();
    start(SessionParams {
        filters: vec!["chosen".to_owned()],
        ..SessionParams::default()
    });
    let chosen = Worker::new("chosen");
    chosen.run(|| marker!("kept"));
    let other = Worker::new("other");
    other.run(|| marker!("not selected"));
    other.end();
    for _ in 0..40 {
        let short = Worker::new("chosen too");
        short.run(|| marker!("kept"));
        short.end();
    }
    let snapshot = snapshot();
    assert_eq!(snapshot.counts().recorded(), 41);
    assert_eq!(
        snapshot
            .threads
            .iter()
            .filter(|thread| thread.name == "chosen too")
            .count(),
        40
    );
    chosen.end();
    session::stop();
}

/// Whether [`Leave`] unregisters its thread.
static LEAVE: AtomicBool = AtomicBool::new(false);

#[derive(serde::Serialize)]
struct Leaver {
    value: Leave,
}

struct Leave;

impl serde::Serialize for Leave {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if LEAVE.load(Ordering::SeqCst) {
            thread::unregister();
        }
        serializer.serialize_u8(1)
    }
}

impl ProfilerMarker for Leaver {
    const TYPE_NAME: &'static str = "Leaver";
    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Leaver")
    }
}

#[test]
fn a_payload_that_unregisters_its_own_thread_is_still_recorded() {
    own_process!();
    start(SessionParams::default());
    let leave = || {
        marker!(
            "leaver",
            &category::TEST,
            MarkerOptions::default(),
            &Leaver { value: Leave }
        )
    };
    leave();
    LEAVE.store(true, Ordering::SeqCst);
    leave();
    LEAVE.store(false, Ordering::SeqCst);
    leave();
    let counts = snapshot().counts();
    assert_eq!(
        (counts.delivered, counts.recorded(), counts.unfinished),
        (3, 3, 0)
    );
    session::stop();
}

#[test]
fn stops_and_starts_during_recording_leave_nothing_of_an_old_session() {
    own_process!();
    static RECORD: AtomicBool = AtomicBool::new(true);
    static ROUNDS: AtomicU32 = AtomicU32::new(0);
    let body = || {
        while RECORD.load(Ordering::Relaxed) {
            marker!("entry");
            marker!(
                "text",
                &category::TEST,
                MarkerOptions::default(),
                &Leaver { value: Leave }
            );
            ROUNDS.fetch_add(1, Ordering::Relaxed);
        }
    };
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::Builder::new().spawn(body).unwrap())
        .collect();
    for round in 0..100_u64 {
        let limit = ByteLimit::new((1 << 20) + round * 4096);
        start(SessionParams {
            limit,
            ..SessionParams::default()
        });
        let seen = ROUNDS.load(Ordering::Relaxed);
        assert!(
            until(|| ROUNDS.load(Ordering::Relaxed) > seen),
            "no thread records"
        );
        let file = session::pool_file().unwrap();
        let snapshot = snapshot();
        for chunk in snapshot.chunks() {
            assert!(
                chunk.start >= snapshot.header.recording_start,
                "a chunk of an earlier session"
            );
        }
        session::stop();
        // Memory is returned on Linux only; elsewhere, idle threads keep their chunks. The tables
        // and names remain, and the chunk of each thread that was preempted in the middle of an
        // entry. A pool of this size has chunks of at most 16 pages.
        let most = (16 + 16 * threads.len() as u64) * 4096;
        let is_returned = || {
            profiler_sys::allocated_bytes(&file).unwrap() <= most
                || cfg!(any(profiler_portable, not(target_os = "linux")))
        };
        assert!(until(is_returned), "more memory is left after the stop");
    }
    RECORD.store(false, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_refused_entry_is_counted_once() {
    own_process!();
    // Space for the tables and a chunk, but not for the rows of a hundred threads.
    start(SessionParams {
        limit: ByteLimit::new(10 * 4096),
        ..SessionParams::default()
    });
    let workers: Vec<_> = (0..100).map(|_| Worker::new("many")).collect();
    let record = || add_untyped_marker("one", &category::TEST, MarkerOptions::default());
    workers.iter().for_each(|worker| worker.run(record));
    let counts = snapshot().counts();
    assert_eq!(counts.recorded(), 100, "{counts:?}");
    assert!(
        counts.dropped.of(DropReason::NoDefinitions) > 0,
        "{counts:?}"
    );
    workers.into_iter().for_each(Worker::end);
    session::stop();
}
