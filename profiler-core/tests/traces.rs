//! Tests of the application's traces: the markers of a thread have the trace that it works for.

use std::future::{Future, pending};
use std::pin::pin;
use std::task::{Context, Waker};

use profiler_core::future::RecordFuture;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ChunkBuffer, Follower};
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::trace::{TraceContext, TraceScope};
use profiler_core::{marker, session, text_marker};
use test_support::own_process;

use crate::support::{self, RunningSession, for_each_entry};

fn context() -> TraceContext {
    TraceContext::from_bytes([1; 16], [2; 8], 1).unwrap()
}

fn record_text(bytes: usize) {
    let text = "x".repeat(bytes);
    text_marker!("text", &category::TEST, MarkerOptions::default(), &text);
}

/// The traces of all markers with this name.
fn traces_of(name: &str) -> Vec<Option<TraceContext>> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let mut traces = Vec::new();
    for_each_entry(&reader, &snapshot, |entry| {
        if let Entry::Marker(marker) = entry {
            let site = snapshot.definitions.site(marker.site).unwrap();
            if marker.name.unwrap_or(&site.name) == name {
                traces.push(marker.trace);
            }
        }
    });
    traces
}

#[test]
fn markers_after_one_that_has_no_room_for_its_trace_keep_theirs() {
    own_process!();
    let _session = RunningSession::with_limit(64 << 20);
    let _scope = TraceScope::enter(context());
    // The largest entry fills a chunk, so its trace has no room before it.
    (0..256).step_by(8).any(|less| {
        record_text((1 << 20) - less);
        !traces_of("text").is_empty()
    });
    marker!("after");
    record_text(1_100_000); // more than that
    marker!("after");
    assert_eq!(traces_of("text"), [None]);
    assert_eq!(traces_of("after"), [Some(context()); 2]);
}

#[test]
fn a_large_marker_leaves_no_row_of_nearly_empty_chunks() {
    own_process!();
    let _session = RunningSession::with_limit(64 << 20);
    let _scope = TraceScope::enter(context());
    record_text(300_000);
    assert_eq!(traces_of("text"), [Some(context())]);
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let mut buffer = ChunkBuffer::default();
    let mut sizes = Vec::new();
    for chunk in snapshot.chunks() {
        let entries = reader.read_chunk(chunk, &mut buffer).unwrap();
        sizes.push(entries.map_or(0, Iterator::count));
    }
    // The first chunk was there before the marker. Those that were too small for it are empty.
    let filled = sizes.iter().filter(|size| **size > 0).count();
    assert!(filled <= 2, "{sizes:?}");
}

#[test]
fn a_dropped_future_belongs_to_the_trace_in_which_it_was_polled() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    {
        let mut future = pin!(pending::<()>().scoped("cancelled").in_trace(context()));
        let mut waits = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut waits).is_pending());
    }
    marker!("of no trace");
    assert_eq!(traces_of("cancelled"), [Some(context())]);
    assert_eq!(traces_of("of no trace"), [None]);
}

#[test]
fn a_follower_knows_the_trace_that_it_has_read_before() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let _scope = TraceScope::enter(context());
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    for _ in 0..3 {
        marker!("one");
        let mut traces = Vec::new();
        let advanced = follower.advance(|followed| {
            if let Entry::Marker(marker) = &followed.entry {
                traces.push(marker.trace);
            }
        });
        advanced.unwrap();
        assert_eq!(traces, [Some(context())]);
    }
}
