//! A future whose threads work for a trace while they poll it.

#![allow(unsafe_code)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::pinned::parts_of_pinned;
use crate::trace::{TraceContext, TraceScope};

/// A future of a trace, see [`RecordFuture::in_trace`](super::RecordFuture::in_trace).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct InTrace<F> {
    future: F,
    trace: TraceContext,
}

parts_of_pinned!(InTrace {
    future,
    trace: TraceContext
});

impl<F> InTrace<F> {
    pub(super) const fn new(future: F, trace: TraceContext) -> Self {
        Self { future, trace }
    }
}

impl<F: Future> Future for InTrace<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (future, trace) = self.parts();
        let _scope = TraceScope::enter(*trace);
        future.poll(context)
    }
}
