//! Groups: continuous, cheap stopwatches that measure for whom each process spends its time.
//!
//! A unit of work belongs to several groups at once: the plugin whose code runs, the tenant that it
//! is done for, the thread and the process that it runs in. The totals are in the pool, so the
//! parent can read them for all processes at any time without asking the processes.
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
//! - **Ticks**: entries from outside. Entering a group again inside itself counts nothing, so time
//!   is never counted twice; the thread leaves the group when it drops its last guard.
//! - An **iteration** of a thread begins when the thread enters its first group, and ends when it
//!   leaves the last. A program can set other ends with [`custom_loop`] and [`turn`]. Totals change
//!   only at the end of an iteration, all totals of the thread at once.
//! - A **run** is the result of one iteration for one group. Runs have wall time, processor time,
//!   buckets and a histogram.
//! - A [`nested_loop`] pauses the groups around it.
//!
//! A group is a sum, not a mark in the timeline: entering it records nothing. So observers of a
//! group's markers get the markers set with
//! [`SpanOptions::group`](crate::marker::SpanOptions::group), not the markers recorded inside a
//! guard.
//!
//! # What it costs
//! While no session runs, and for fine groups while they are not requested: one relaxed load. With
//! all probes off an entry reads no clock. Otherwise entering and leaving read the session's clock
//! once each; an iteration reads the thread's processor clock twice if [`Probes::CPU`] is requested
//! (a system call each), and adds to each of its groups' cells without a lock. `figures -- groups`
//! measures all of these costs.
//!
//! ```text
//! Group ─▶ local (guards, thread-local) ─▶ stopwatch (laps, loops; pure) ─▶ cells in the pool
//!            └─ one word: on, probes          └─ clock, injected in tests
//! ```

mod clock;
mod future;
mod group;
mod local;
mod registered;
mod registry;
mod stopwatch;

#[doc(inline)]
pub use crate::group_kind::{GroupKind, Probes};
pub use future::{InGroup, InGroups};
pub use group::Group;
pub(crate) use local::begin_session;
#[doc(hidden)]
pub use local::set_probes;
pub use local::{CustomLoop, Entered, NestedLoop, custom_loop, nested_loop, probes, turn};
pub(crate) use registered::{MAX_LABELS, MAX_NAME_BYTES};

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
    /// All of these groups.
    pub const fn of(groups: [&'a Group; N]) -> Self {
        Self(groups)
    }

    /// Works for all groups until the guard is dropped. All start and end at the same instants.
    #[inline]
    pub fn enter(&self) -> Entered {
        local::enter_all(&self.0)
    }
}

/// Marks the calling thread as waiting until the guard is dropped: for a synchronous call to
/// another process, a lock, the disk, a database. The time counts as blocking time of all entered
/// groups, not as their processor time. `what` is a group of its own that measures how long threads
/// wait for it; it may be entered already. [`crate::blocking!`] makes one by name.
#[inline]
pub fn blocking(what: &Group) -> Entered {
    local::enter_blocking(what)
}
