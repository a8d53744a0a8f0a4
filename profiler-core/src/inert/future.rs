//! Futures that are not recorded.

#![allow(unsafe_code)]

use std::future::Future;

use crate::flow::Flow;
use profiler_trace::TraceContext;

/// Records futures.
pub trait RecordFuture: Future + Sized {
    /// Wraps the future, and records nothing.
    fn scoped(self, _name: &'static str) -> Scoped<Self> {
        Scoped(self)
    }

    /// Wraps the future, and records nothing.
    fn in_flow(self, _flow: Flow) -> InFlow<Self> {
        InFlow(self)
    }

    /// Wraps the future, and records nothing.
    fn in_trace(self, _context: TraceContext) -> InTrace<Self> {
        InTrace(self)
    }
}

impl<F: Future> RecordFuture for F {}

/// A future that is not recorded.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Scoped<F>(F);

plain_future!(Scoped);

/// A future whose threads are not recorded.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct InFlow<F>(F);

plain_future!(InFlow);

/// A future whose trace no thread carries.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct InTrace<F>(F);

plain_future!(InTrace);
