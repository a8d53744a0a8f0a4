//! A future whose threads are steps of a flow.
//!
//! Invariant: a step is recorded when the thread or the session differs from that of the poll
//! before; no other poll records anything.

#![allow(unsafe_code)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::is_recording;
use crate::category;
use crate::flow::{Flow, FlowStep};
use crate::ids::ThreadId;
use crate::marker::span_number::this_thread;
use crate::marker::{MarkerOptions, MarkerSite};
use crate::pinned::parts_of_pinned;
use crate::pool::tag::pool_tag;

/// The call site of all steps of futures.
static POLLED: MarkerSite = MarkerSite::new("polled");

/// A future that is part of a flow, see [`RecordFuture::in_flow`](super::RecordFuture::in_flow).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct InFlow<F> {
    future: F,
    steps: Steps,
}

parts_of_pinned!(InFlow {
    future,
    steps: Steps
});

impl<F> InFlow<F> {
    pub(super) const fn new(future: F, flow: Flow) -> Self {
        let steps = Steps { flow, last: None };
        Self { future, steps }
    }
}

impl<F: Future> Future for InFlow<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (future, steps) = self.parts();
        if is_recording() {
            steps.pass();
        }
        future.poll(context)
    }
}

/// A flow, and where it was last.
#[derive(Debug)]
struct Steps {
    flow: Flow,
    /// The thread of the last poll, and the tag of the pool of its session.
    last: Option<(ThreadId, u64)>,
}

impl Steps {
    /// Records a step if the flow is on another thread now.
    #[inline]
    fn pass(&mut self) {
        let here = Some((this_thread(), pool_tag()));
        if self.last != here {
            self.last = here;
            POLLED.add_typed(
                &category::OTHER,
                MarkerOptions::default(),
                &FlowStep::new(self.flow),
            );
        }
    }
}
