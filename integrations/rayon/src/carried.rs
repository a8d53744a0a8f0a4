//! What a context carries into jobs, as plain data.
//!
//! Made by `context`, used by `running_job`. Invariant: at most [`MAX_GROUPS`] groups, so that the
//! groups of all jobs that a thread may have interrupted have room in its stopwatch.

use std::sync::atomic::{AtomicU64, Ordering};

use profiler_core::groups::{Entered, Group, Groups};

use crate::job_site::JobSite;

/// Maximum number of groups of a context.
pub const MAX_GROUPS: usize = 4;

static LAST_ORIGIN: AtomicU64 = AtomicU64::new(0);

/// The groups, the name and the parent of jobs.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// The number of the context that was made first. Contexts that are made from it have the same.
    pub(crate) origin: u64,
    /// At most [`MAX_GROUPS`].
    pub(crate) groups: Vec<Group>,
    pub(crate) site: Option<&'static JobSite>,
    /// The number of the parent span.
    pub(crate) parent: Option<u64>,
    /// Whether each job is an interval.
    pub(crate) has_intervals: bool,
    /// The flow of the intervals.
    pub(crate) flow: Option<u64>,
    /// The span of the crate `tracing`.
    #[cfg(feature = "tracing")]
    pub(crate) tracing_span: Option<tracing::Span>,
}

impl Carried {
    /// Nothing, for a new context.
    pub(crate) fn nothing() -> Self {
        Self {
            origin: LAST_ORIGIN.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            groups: Vec::new(),
            site: None,
            parent: None,
            has_intervals: false,
            flow: None,
            #[cfg(feature = "tracing")]
            tracing_span: None,
        }
    }

    /// The site whose intervals are recorded, if they are.
    pub(crate) fn site_of_intervals(&self) -> Option<&'static JobSite> {
        self.site.filter(|_| self.has_intervals)
    }
}

/// Enters the groups of a context and the group of a pool, all at the same instant. `None` if there
/// are none.
pub(crate) fn enter_groups(carried: Option<&Carried>, of_pool: Option<&Group>) -> Option<Entered> {
    let own = carried.map_or(&[][..], |carried| &carried.groups);
    let mut groups = own.iter().take(MAX_GROUPS).chain(of_pool);
    let groups: [Option<&Group>; MAX_GROUPS + 1] = std::array::from_fn(|_| groups.next());
    match groups {
        [None, ..] => None,
        [Some(a), None, ..] => Some(a.enter()),
        [Some(a), Some(b), None, ..] => Some(Groups::of([a, b]).enter()),
        [Some(a), Some(b), Some(c), None, ..] => Some(Groups::of([a, b, c]).enter()),
        [Some(a), Some(b), Some(c), Some(d), None] => Some(Groups::of([a, b, c, d]).enter()),
        [Some(a), Some(b), Some(c), Some(d), Some(e)] => Some(Groups::of([a, b, c, d, e]).enter()),
    }
}
