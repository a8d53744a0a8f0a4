//! The trace of an application that a thread works for: W3C Trace Context, and the record in which
//! a thread keeps it.
//!
//! Used by `profiler-core`. The interface for applications is its module `trace`.
//!
//! ```text
//! header traceparent ─▶ TraceContext ─▶ ThreadRecord ─┬▶ samples and markers of the profiler
//!                                                     └▶ otel_thread_ctx_v1: readers outside
//! ```
//!
//! Invariants: nothing here allocates, takes a lock or makes a system call, except for the text of
//! a context and for the process context, which an application publishes once; a reader of a record
//! gets a whole context or none.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod context;
#[cfg(not(all(feature = "process-context", target_os = "linux")))]
mod no_process_context;
#[cfg(all(feature = "process-context", target_os = "linux"))]
mod process_context;
mod publish_error;
mod record;
mod slot;
mod traceparent;

pub use context::TraceContext;
#[cfg(not(all(feature = "process-context", target_os = "linux")))]
pub use no_process_context::publish_process_context;
#[cfg(all(feature = "process-context", target_os = "linux"))]
pub use process_context::publish_process_context;
pub use publish_error::PublishError;
pub use record::ThreadRecord;
pub use traceparent::{Traceparent, TraceparentError};
