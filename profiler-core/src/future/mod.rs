//! Futures that are recorded: as intervals with labels, and as parts of flows. On every executor.
//!
//! Called by applications. [`RecordFuture::scoped`] is for a future what
//! [`scope!`](crate::scope!) and [`label!`](crate::label!) are for a block, and
//! [`RecordFuture::in_flow`] records where the work of a [`Flow`] goes on. A future may be wrapped
//! in both, and in [groups](crate::groups::InGroups).
//!
//! ```
//! use profiler_core::flow;
//! use profiler_core::flow::Flow;
//! use profiler_core::future::RecordFuture;
//!
//! async fn answer(url: &str) -> usize {
//!     url.len()
//! }
//!
//! async fn handle(header: &str) -> usize {
//!     let Ok(request) = header.parse::<Flow>() else {
//!         return answer("index.html").scoped("answer").await;
//!     };
//!     let length = answer("index.html").scoped("answer").in_flow(request).await;
//!     flow!(end request, "answered");
//!     length
//! }
//! # let mut handled = std::pin::pin!(handle("00f067aa0ba902b7"));
//! # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! # assert!(handled.as_mut().poll(&mut context).is_ready());
//! ```
//!
//! # What it costs
//! While no session runs: one relaxed load per poll. While one runs, a poll costs as much as a
//! label (`scoped`) or a comparison of thread numbers (`in_flow`). No poll allocates, except the
//! first one of a thread or of a call site in a session. Records of 112 and 32 bytes make the
//! futures larger.

mod in_flow;
mod in_trace;
mod scoped;

use std::future::Future;
use std::panic::Location;

pub use in_flow::InFlow;
pub use in_trace::InTrace;
pub use scoped::Scoped;

use crate::flow::Flow;
use crate::trace::TraceContext;

/// Records futures.
pub trait RecordFuture: Future + Sized {
    /// Records the future as an interval marker of this name, from its first poll to its completion
    /// or its drop. While a thread polls the future, the name is a [label](mod@crate::label) of the
    /// thread: samples and stacks of markers show it. Use constant names.
    ///
    /// The marker has the number of polls, and whether the future was completed, dropped, or has
    /// panicked. It belongs to the thread of the first poll, also if other threads poll the future
    /// later. It is recorded at the end: a future that is open when the process dies is not in the
    /// profile. To see open tasks, their polls and who spawned them, use `profiler-tokio`.
    ///
    /// ```
    /// use profiler_core::future::RecordFuture;
    ///
    /// async fn load() -> u32 {
    ///     let bytes = async { 17 }.scoped("read").await;
    ///     async move { bytes + 1 }.scoped("parse").await
    /// }
    /// ```
    #[track_caller]
    fn scoped(self, name: &'static str) -> Scoped<Self> {
        Scoped::new(self, name, Location::caller())
    }

    /// Records a step of this flow when a thread first polls the future, and again when another
    /// thread than at the poll before polls it. Other polls record nothing. Nothing ends the flow:
    /// see [`flow!`](crate::flow!).
    ///
    /// The marker is called "polled". So the arrows of a flow lead to each thread that works on the
    /// future, for example to the workers of a runtime, in the order in which they did.
    fn in_flow(self, flow: Flow) -> InFlow<Self> {
        InFlow::new(self, flow)
    }

    /// Lets the threads that poll the future work for this trace during each poll: see
    /// [`trace`](crate::trace).
    fn in_trace(self, context: TraceContext) -> InTrace<Self> {
        InTrace::new(self, context)
    }
}

impl<F: Future> RecordFuture for F {}

/// Whether futures are recorded now. Without the feature `enabled` none is, as with the macros.
#[inline(always)]
fn is_recording() -> bool {
    cfg!(feature = "enabled") && crate::record::session_state::is_active()
}
