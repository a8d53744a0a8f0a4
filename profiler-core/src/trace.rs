//! The application's own traces (W3C Trace Context), such as those of OpenTelemetry.
//!
//! Called by applications and by the integrations. A thread that works for a trace carries it: the
//! samples of the thread and the markers that it records contain the trace and the span. A profile
//! shows them, `profiler info --trace` finds them, and exports to OTLP link to the application's
//! own spans. Profilers outside the process read the trace of a thread from OpenTelemetry's thread
//! context (OTEP 4947).
//!
//! ```
//! use profiler_core::trace::{TraceContext, TraceScope};
//!
//! fn handle(traceparent: &str) {
//!     let _trace = traceparent.parse::<TraceContext>().ok().map(TraceScope::enter);
//!     // Samples and markers of this thread belong to the trace until `_trace` is dropped.
//! }
//! handle("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
//! ```
//!
//! A thread carries a trace even if no session runs. For futures, use
//! [`RecordFuture::in_trace`](crate::future::RecordFuture::in_trace), because a scope must not be
//! held across an `.await`.
//!
//! # What it costs
//! A change costs about 5 ns, without a system call, a lock or an allocation. The first change of a
//! thread allocates its record. The first marker after a change takes 48 bytes more. While the
//! thread has a trace, the first marker in each chunk takes 48 bytes more, and each sample takes 32
//! bytes more.

use std::marker::PhantomData;

pub use profiler_trace::{PublishError, TraceContext, TraceparentError, publish_process_context};

use crate::carried;
use crate::label::registry;
use crate::record::local;

/// Sets the trace that the calling thread works for, and returns the one before. `None` means that
/// the thread works for no trace.
///
/// Must not be called in a signal handler.
///
/// For code that knows when a thread changes from one trace to another, such as a layer of a
/// tracing library. Others use [`TraceScope`].
///
/// Nothing changes if the program's allocator calls this while the calling thread allocates its
/// record, or if the calling thread is ending.
#[inline]
pub fn set_trace(context: Option<TraceContext>) -> Option<TraceContext> {
    if !cfg!(feature = "enabled") {
        return None;
    }
    let own = match context {
        None => carried::own(),
        Some(_) => registry::carried(),
    }?;
    let before = own.record.get();
    if before != context {
        own.record.set(context);
        local::note_other_trace();
    }
    before
}

/// The trace that the calling thread works for.
#[inline]
pub fn current_trace() -> Option<TraceContext> {
    carried::own_trace()
}

/// Makes the calling thread work for a trace until this is dropped. The thread then works for the
/// previous trace again.
///
/// Belongs to the thread that created it. Scopes must be dropped in the reverse order in which they
/// were entered.
#[derive(Debug)]
#[must_use = "the trace is left at once"]
pub struct TraceScope {
    before: Option<TraceContext>,
    _of_thread: PhantomData<*const ()>,
}

impl TraceScope {
    /// Begins to work for this trace.
    #[inline]
    pub fn enter(context: TraceContext) -> Self {
        Self {
            before: set_trace(Some(context)),
            _of_thread: PhantomData,
        }
    }
}

impl Drop for TraceScope {
    #[inline]
    fn drop(&mut self) {
        set_trace(self.before);
    }
}
