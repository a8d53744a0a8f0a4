//! Groups: who is slow. Cheap stopwatches that say for whom time is spent, all the time, in every process.
//!
//! A unit of work belongs to several groups at once: the plugin whose code it is, the tenant it is done for, the thread and the
//! process it runs in. Their totals lie in the pool, so the parent reads those of all processes at any time without
//! asking them.
//!
//! ```
//! use profiler_core::groups::{Group, GroupKind, Groups};
//!
//! let tenant = Group::register(GroupKind::Tenant, "tenant 42");
//! let guard = Groups::of([profiler_core::group!("plugin:spell checker"), &tenant]).enter();
//! // … work for both …
//! {
//!     let _waits = profiler_core::blocking!("database");
//!     // … waits, for both …
//! }
//! drop(guard);
//! ```
//!
//! # What is counted
//! - **Ticks**: entries from outside. Entering a group again inside of itself counts nothing, so time is never counted twice; it is
//!   left with the last of its guards.
//! - An **iteration** of a thread begins when it enters its first group, and ends when it leaves the last. For loops that
//!   know better: [`custom_loop`], [`turn`]. All totals change only then, all of one thread's at once.
//! - A **run** is what one iteration came to for one group. Runs have wall time, processor time, buckets and a histogram.
//! - Inside of [`nested_loop`] the groups around it are paused.
//!
//! A group is a sum, and no mark in the timeline: nothing is recorded when it is entered, so observers that want the markers of
//! a group get those of [`SpanOptions::group`](crate::marker::SpanOptions::group), not those recorded inside of a guard.
//!
//! # What it costs
//! While no session runs, and for fine groups while nobody wants them: one relaxed load. With all probes off an entry reads no
//! clock. Else entering and leaving read the session's clock once each; an iteration reads the thread's processor clock twice if
//! [`Probes::CPU`] is wanted (a system call each), and adds to each of its groups' cells without a lock. `figures -- groups`
//! measures all of it.
//!
//! ```text
//! Group ─▶ local (guards, thread-local) ─▶ stopwatch (laps, loops; a pure state machine) ─▶ cells in the pool
//!            └─ one word: on, probes          └─ clock, injected in tests
//! ```

mod clock;
mod future;
mod group;
mod local;
mod stopwatch;

#[doc(inline)]
pub use crate::group_kind::{GroupKind, Probes};
pub use future::{InGroup, InGroups};
pub use group::Group;
pub(crate) use group::{MAX_LABELS, MAX_NAME_BYTES};
pub(crate) use local::begin_session;
#[doc(hidden)]
pub use local::set_probes;
pub use local::{CustomLoop, Entered, NestedLoop, custom_loop, nested_loop, probes, turn};

impl Group {
    /// Works for this group until the guard is dropped.
    #[inline(always)]
    pub fn enter(&self) -> Entered {
        local::enter(self)
    }
}

/// Several groups that a unit of work belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a, const N: usize>([&'a Group; N]);

impl<'a, const N: usize> Groups<'a, N> {
    /// All of these.
    pub const fn of(groups: [&'a Group; N]) -> Self {
        Self(groups)
    }

    /// Works for all of them until the guard is dropped, from the same instant to the same instant.
    #[inline]
    pub fn enter(&self) -> Entered {
        local::enter_all(&self.0)
    }
}

/// Waits for something until the guard is dropped: a synchronous call to another process, a lock, the disk, a database. It counts as
/// blocking time of all groups that are entered, and not as their processor time; `what` is a group of its own, so that it can
/// be seen how long was waited for it. It may be one that is entered already. [`crate::blocking!`] makes one by name.
#[inline]
pub fn blocking(what: &Group) -> Entered {
    local::enter_blocking(what)
}
