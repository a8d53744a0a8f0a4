//! The spans and events of the crate `tracing`, in the profiles of the profiler.
//!
//! Called by applications, which install the subscriber of this crate around their own, or add its
//! layer to their registry. The profiler's sessions are those of `profiler-parent` and
//! `profiler-child`; this crate starts none.
//!
//! ```
//! use tracing_subscriber::fmt;
//!
//! let subscriber = profiler_tracing::around(fmt().finish());
//! tracing::subscriber::set_global_default(subscriber)?;
//! # Ok::<(), tracing::subscriber::SetGlobalDefaultError>(())
//! ```
//!
//! # What is recorded
//! What the program's own subscriber wants, up to the level `DEBUG`. **Spans below the level of the
//! program's log are missing**, also those of `#[instrument]`, whose level is `INFO`: with a log at
//! `WARN`, the profile has none of them. With [`RecordingRules::beyond_filters`], the subscriber of
//! this crate also records what the filters of the program's own refuse; the layer ignores this
//! rule:
//!
//! ```
//! use profiler_tracing::RecordingRules;
//! use tracing_subscriber::{filter::LevelFilter, fmt};
//!
//! let log = fmt().with_max_level(LevelFilter::WARN).finish();
//! let subscriber = RecordingRules::default().beyond_filters(true).around(log);
//! # drop(subscriber);
//! ```
//!
//! - A span is an interval from its creation to the drop of its last handle, on any thread. Its
//!   start is recorded with its fields at once, so a span that is open when its process is killed
//!   is in the profile.
//! - While a thread is inside a span, samples of the thread show the span as a frame.
//! - With [`RecordingRules::polls`], each time a thread enters and leaves a span is an interval.
//! - An event is a marker, with the number of its span.
//! - Values that are recorded later are a marker of their own, with the number of the span.
//! - An explicit parent, and `follows_from`, are two markers that a flow connects.
//! - A [`SpanFlow`] connects spans of different processes.
//!
//! Numbers and booleans keep their types. Other values are texts of at most 1 KiB; longer ones end
//! with "…".
//!
//! # Costs
//! While no session runs, the profiler is interested in nothing: a call site that the program's own
//! subscriber does not want costs one load. When a session starts or stops, a thread of the
//! profiler makes `tracing` ask all subscribers again. While a session runs, a span costs about as
//! much as its two entries, unless the inner subscriber wants it, too.
//!
//! # What is lost
//! The profiler drops and counts:
//! - spans and events of call sites after the 8191st,
//! - spans and events that a `Debug` emits,
//! - spans that the inner subscriber wants, too, while about two million of them are open.
//!
//! If half a million spans have clones, a further cloned span has no end in the profile. Some later
//! spans then have no end, either. The clone is counted.
//!
//! A `Debug` that panics ends its own
//! value only: the panic hook runs, and the panic is caught. In a program that is compiled to abort
//! at a panic, it ends the program.
//!
//! # Limitations
//! - With [`RecordingRules::beyond_filters`], a span that the program's own filter disables is
//!   enabled during a session, with a number that the inner subscriber does not know.
//!   `Span::current` never returns such a span if the inner subscriber keeps track of its current
//!   span, as a registry does. `Span::or_current` returns it. Do not use the rule with an extension
//!   that panics if it does not find the number, such as `OpenTelemetrySpanExt::set_parent`.
//! - With this rule, the profiler calls `Debug` for values that the program's own filter refuses. The
//!   caller may hold a lock at that time. A `Debug` that takes the same lock then deadlocks.
//! - The `Debug` of a value that is recorded runs once more than without the profiler, and twice
//!   more if the chunk of the thread is full.
//! - An event whose explicit parent the inner subscriber refuses reaches it with a parent that it
//!   does not know.
//! - Numbers of an inner subscriber must not have the bits 34 to 36, 62 and 63 all set: counters,
//!   pointers and the registry's numbers do not; random numbers may.
//! - An inner subscriber that does not report in `try_close` that a span is closed leaves its spans
//!   open. They keep their places, which all subscribers of the process share.
//! - Only one subscriber or layer of this crate may be in a stack of subscribers. Layers go inside
//!   of [`around`], not around it: its subscriber is no registry.
//! - A bridge for the crate `log` that is installed during a session keeps the session's level.
//! - A subscriber in a `Box` or an `Arc` follows sessions only if it is the default of all threads.
//! - Without a session, the layer's filter refuses everything, so that `tracing` asks the registry
//!   for each event that another layer wants.
//! - After a stop or a start, a thread of the profiler may drop the last reference to a subscriber.
//! - Threads that a subscriber starts while `tracing` asks it again block all signals, as the
//!   profiler's thread does.
//! - A recursion through more than 32 spans shows the 32 outermost ones in stacks.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod call_site;
mod clone_counts;
mod dispatches;
mod entered;
mod field_values;
mod growing;
mod inner_interests;
mod inner_spans;
#[cfg(feature = "layer")]
mod layer;
mod recording;
mod rules;
mod site_schema;
mod span_flow;
mod span_id;
mod span_map;
mod span_marks;
mod subscriber;
#[cfg(feature = "layer")]
mod trace_layer;

#[cfg(feature = "layer")]
pub use layer::{ProfilerLayer, RecordingLayer, WhileRecording};
pub use rules::RecordingRules;
pub use span_flow::{ParseSpanFlowError, SpanFlow};
pub use subscriber::ProfilerSubscriber;
#[cfg(feature = "layer")]
pub use trace_layer::{TraceLayer, trace_layer};
use tracing_core::subscriber::NoSubscriber;

/// A subscriber that records by the default rules what `inner` wants, and passes it on.
pub fn around<S>(inner: S) -> ProfilerSubscriber<S> {
    RecordingRules::default().around(inner)
}

/// A subscriber that records by the default rules, for a program that has no other one.
///
/// ```
/// tracing::subscriber::set_global_default(profiler_tracing::subscriber())?;
/// # Ok::<(), tracing::subscriber::SetGlobalDefaultError>(())
/// ```
pub fn subscriber() -> ProfilerSubscriber<NoSubscriber> {
    RecordingRules::default().subscriber()
}

/// A layer that records by the default rules.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// let subscriber = tracing_subscriber::registry()
///     .with(tracing_subscriber::fmt::layer())
///     .with(profiler_tracing::layer());
/// # drop(subscriber);
/// ```
#[cfg(feature = "layer")]
pub fn layer<S>() -> ProfilerLayer<S> {
    RecordingRules::default().layer()
}

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
