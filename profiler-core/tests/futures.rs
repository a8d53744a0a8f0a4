//! Tests of recorded futures: their intervals, their labels, and the steps of their flows.

use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use profiler_core::flow::Flow;
use profiler_core::future::RecordFuture;
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::entry::{Entry, Timing};
use profiler_core::internal::payload::PayloadReader;
use profiler_core::marker::{MarkerOptions, MarkerStack};
use profiler_core::time::Timestamp;
use profiler_core::{marker, thread};
use test_support::counting::allocations_of;
use test_support::own_process;
use test_support::threads::on_thread;

use crate::support::{self, RunningSession, for_each_entry};

/// A recorded marker.
#[derive(Debug)]
struct Seen {
    name: String,
    timing: Timing,
    /// The thread that it belongs to, if another one has recorded it.
    thread: Option<ThreadId>,
    /// The values of its fields.
    fields: Vec<String>,
    labels: Vec<String>,
}

impl Seen {
    fn interval(&self) -> [Timestamp; 2] {
        match self.timing {
            Timing::Interval(start, end) => [start, end],
            other => panic!("{other:?}"),
        }
    }
}

fn seen() -> Vec<Seen> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(snapshot.counts().dropped.total(), 0);
    let definitions = &snapshot.definitions;
    let label = |frame| match frame {
        Frame::Label(id) => definitions.label(id).unwrap().name.clone(),
        other => panic!("{other:?}"),
    };
    let mut all = Vec::new();
    for_each_entry(&reader, &snapshot, |entry| {
        let Entry::Marker(marker) = entry else { return };
        let site = definitions.site(marker.site).unwrap();
        let values = PayloadReader::new(marker.payload);
        all.push(Seen {
            name: marker.name.unwrap_or(&site.name).to_owned(),
            timing: marker.timing,
            thread: marker.foreign,
            fields: values
                .map(|value| format!("{:?}", value.unwrap()))
                .collect(),
            labels: marker.stack.frames().map(label).collect(),
        });
    });
    all
}

fn named(name: &str) -> Vec<Seen> {
    let mut all = seen();
    all.retain(|seen| seen.name == name);
    all
}

/// Polls a future once.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A future that is ready after this many polls, each of which calls `each`.
fn ready_after(polls: u32, mut each: impl FnMut()) -> impl Future<Output = u32> {
    let mut done = 0;
    poll_fn(move |_| {
        each();
        done += 1;
        match done < polls {
            true => Poll::Pending,
            false => Poll::Ready(done),
        }
    })
}

#[test]
fn a_scoped_future_is_one_interval_from_its_first_poll_to_its_completion() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let mut future = pin!(ready_after(3, || ()).scoped("request"));
    let before = Timestamp::now();
    assert_eq!(poll(future.as_mut()), Poll::Pending);
    let polled = Timestamp::now();
    assert_eq!(poll(future.as_mut()), Poll::Pending);
    assert!(seen().is_empty(), "recorded while it is open");
    let last = Timestamp::now();
    assert_eq!(poll(future.as_mut()), Poll::Ready(3));
    let after = Timestamp::now();
    let seen = seen();
    let [request] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(request.name, "request");
    assert_eq!(request.fields, ["U64(3)", "Str(\"completed\")"]);
    let [start, end] = request.interval();
    assert!((before..=polled).contains(&start));
    assert!((last..=after).contains(&end));
}

#[test]
fn a_future_that_is_dropped_or_panics_is_an_interval_that_says_so() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    drop(async {}.scoped("never polled"));
    let mut dropped = Box::pin(ready_after(2, || ()).scoped("dropped"));
    assert_eq!(poll(dropped.as_mut()), Poll::Pending);
    drop(dropped);
    let mut panics = Box::pin(async { panic!("on purpose") }.scoped("panics"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _: Poll<()> = poll(panics.as_mut());
    }));
    assert!(panicked.is_err());
    marker!(
        "after",
        options = MarkerOptions::default().with_stack(MarkerStack::Labels)
    );
    drop(panics);
    assert!(named("never polled").is_empty());
    assert_eq!(named("dropped")[0].fields, ["U64(1)", "Str(\"dropped\")"]);
    assert_eq!(named("panics")[0].fields, ["U64(1)", "Str(\"panicked\")"]);
    let open = &named("after")[0].labels;
    assert!(open.is_empty(), "a panic has left a label open: {open:?}");
}

#[test]
fn the_label_of_a_future_is_open_only_while_it_is_polled() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let options = MarkerOptions::default().with_stack(MarkerStack::Labels);
    let inside = move || marker!("inside", options = options);
    for _ in 0..2 {
        let inner = ready_after(2, inside).scoped("inner");
        let mut outer = pin!(inner.scoped("outer"));
        while poll(outer.as_mut()).is_pending() {
            marker!("between", options = options);
        }
    }
    let labels = |name: &str| named(name).into_iter().map(|seen| seen.labels);
    assert!(labels("inside").eq(vec![["outer", "inner"]; 4]));
    assert!(labels("between").all(|labels| labels.is_empty()));
    let snapshot = support::snapshot();
    let defined = snapshot.definitions.labels();
    assert_eq!(defined.len(), 2, "a definition per name and place");
}

#[test]
fn the_interval_of_a_future_belongs_to_the_thread_of_its_first_poll() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let first = thread::current();
    let mut future = Box::pin(ready_after(2, || ()).scoped("moves"));
    assert_eq!(poll(future.as_mut()), Poll::Pending);
    let polled = on_thread(move || poll(future.as_mut()));
    assert_eq!(polled, Poll::Ready(2));
    assert_eq!(named("moves")[0].thread, Some(first));
}

#[test]
fn a_future_in_a_flow_is_a_step_for_each_thread_that_it_moves_to() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let flow = Flow::from(NonZeroU64::MAX);
    let mut future = Box::pin(ready_after(u32::MAX, || ()).in_flow(flow));
    let mut poll_twice = move || {
        assert_eq!(poll(future.as_mut()), Poll::Pending);
        assert_eq!(poll(future.as_mut()), Poll::Pending);
    };
    poll_twice();
    poll_twice();
    assert_eq!(named("polled").len(), 1);
    let mut poll_twice = on_thread(move || {
        poll_twice();
        poll_twice
    });
    assert_eq!(named("polled").len(), 2);
    poll_twice();
    let steps = named("polled");
    assert_eq!(steps.len(), 3, "back on the first thread");
    for step in steps {
        assert_eq!(step.fields, [format!("U64({})", u64::MAX)]);
    }
}

#[test]
fn a_poll_of_a_recorded_future_allocates_nothing() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let work = ready_after(u32::MAX, || ());
    let mut future = pin!(work.scoped("work").in_flow(Flow::new()));
    assert_eq!(poll(future.as_mut()), Poll::Pending);
    let allocations = allocations_of(|| {
        for _ in 0..1000 {
            assert_eq!(poll(future.as_mut()), Poll::Pending);
        }
    });
    assert_eq!(allocations, 0, "allocations in 1000 polls");
}

#[test]
fn a_future_that_outlives_its_session_begins_anew_in_the_next_one() {
    own_process!();
    let first = RunningSession::with_limit(1 << 20);
    let mut open = Box::pin(ready_after(3, || ()).scoped("open").in_flow(Flow::new()));
    let mut forgotten = Box::pin(ready_after(3, || ()).scoped("forgotten"));
    assert_eq!(poll(open.as_mut()), Poll::Pending);
    assert_eq!(poll(forgotten.as_mut()), Poll::Pending);
    drop(first);
    let start = Timestamp::now();
    let _second = RunningSession::with_limit(1 << 20);
    drop(forgotten);
    assert_eq!(poll(open.as_mut()), Poll::Pending);
    drop(open);
    assert!(named("forgotten").is_empty());
    let open = &named("open")[0];
    assert_eq!(open.fields, ["U64(1)", "Str(\"dropped\")"]);
    assert!(open.interval()[0] >= start);
    assert_eq!(named("polled").len(), 1);
}

#[test]
fn a_wrapper_is_as_large_as_the_documentation_says() {
    let nothing = std::future::pending::<()>;
    assert_eq!(size_of_val(&nothing().scoped("name")), 112);
    assert_eq!(size_of_val(&nothing().in_flow(Flow::new())), 32);
}

#[test]
fn without_a_session_a_future_only_runs() {
    own_process!();
    let flow = Flow::new();
    let mut future = pin!(ready_after(2, || ()).scoped("early").in_flow(flow));
    assert_eq!(poll(future.as_mut()), Poll::Pending);
    let _session = RunningSession::with_limit(1 << 20);
    assert_eq!(poll(future.as_mut()), Poll::Ready(2));
    let early = &named("early")[0];
    assert_eq!(early.fields, ["U64(1)", "Str(\"completed\")"]);
}
