//! What is recorded of tasks.
//!
//! Made by the application, used by the hooks of a runtime and by the wrapped futures.

use std::time::Duration;

use profiler_core::session;

/// A poll of 10 ms keeps the other tasks of its worker waiting for a noticeable time.
const LONG_POLL: Duration = Duration::from_millis(10);

/// What is recorded of tasks: each poll, polls that take long, and groups.
///
/// ```
/// use std::time::Duration;
///
/// let rules = profiler_tokio::TaskRules::default()
///     .polls(true)
///     .long_poll(Some(Duration::from_millis(50)));
/// # drop(rules);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TaskRules {
    pub(crate) polls: bool,
    /// In nanoseconds; `u64::MAX` for none.
    pub(crate) long_poll_ns: u64,
    pub(crate) groups: bool,
}

impl Default for TaskRules {
    /// Polls of 10 ms and more, no other polls, and groups.
    fn default() -> Self {
        Self {
            polls: false,
            long_poll_ns: nanoseconds(LONG_POLL),
            groups: true,
        }
    }
}

impl TaskRules {
    /// Records each poll as an interval. By default it does not: the number of polls, their total
    /// time and the longest one are part of the end of a task.
    #[must_use]
    pub const fn polls(mut self, polls: bool) -> Self {
        self.polls = polls;
        self
    }

    /// Records a poll that takes at least this time as an interval "long poll"; `None` for no such
    /// intervals. By default 10 ms. A poll that calls `tokio::task::block_in_place` is long by its
    /// nature.
    #[must_use]
    pub fn long_poll(mut self, long_poll: Option<Duration>) -> Self {
        self.long_poll_ns = long_poll.map_or(u64::MAX, nanoseconds);
        self
    }

    /// Counts each poll as an iteration of a group of the kind `Task`, whose name is that of the
    /// task: its place in the source, or the name that it was given. Then the alerts of a session
    /// report slow polls, with a profile of that time. By default it does, while alerts or a
    /// monitor of the session are active; otherwise it costs one load.
    #[must_use]
    pub const fn groups(mut self, groups: bool) -> Self {
        self.groups = groups;
        self
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether anything is recorded now: one load.
#[inline]
pub(crate) fn is_recording() -> bool {
    cfg!(feature = "enabled") && session::is_active()
}
