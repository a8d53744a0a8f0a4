//! Runs one job in its context, on top of whatever the calling thread is inside.
//!
//! Called by `context`. The thread works for the groups of the job and for no others, until the job
//! ends: a worker that waits executes other jobs, and their time must not count for the one that
//! waits. Up to [`MAX_NESTED`] jobs deep, each job is a nested loop of the core's stopwatch, which
//! pauses all groups around it, also those that the program itself has entered. Below that the
//! stopwatch has no room: then the job around it leaves its groups, and enters them again
//! afterwards.
//!
//! Invariant: everything that a job opens is closed by guards in the frame of [`run`], innermost
//! first, also in a panic.

use std::cell::Cell;
use std::sync::Arc;

use profiler_core::groups::{NestedLoop, nested_loop};
use profiler_core::label::{Label, LabelScope};
use profiler_core::marker::category;

use crate::carried::{Carried, enter_groups};
use crate::job_marks::JobInterval;
use crate::job_stack::{JobLevel, on_top, with_top};

/// Maximum depth of nested loops in the stopwatch of the core.
const MAX_NESTED: u32 = 7;

/// The frame between a job that waits and a job of another context on top of it.
static OTHER_JOB: Label = Label::new("job inside another job", file!(), line!());

/// Whether jobs are recorded now.
#[inline(always)]
pub(crate) fn is_recorded() -> bool {
    cfg!(feature = "enabled") && profiler_core::session::is_active()
}

/// Runs a job with what its context carries. Called while a session runs.
#[inline(never)]
pub(crate) fn run<R>(carried: Option<&Arc<Carried>>, op: impl FnOnce() -> R) -> R {
    with_top(|outer| {
        let of_pool = outer.and_then(|outer| outer.of_pool);
        let depth = outer.map_or(0, |outer| outer.depth).saturating_add(1);
        let _paused = PausedGroups::begin(outer, depth);
        let entered = enter_groups(carried.map(Arc::as_ref), of_pool);
        let interval = begin_interval(carried);
        let parent = carried.and_then(|carried| carried.parent);
        let level = JobLevel {
            carried,
            of_pool,
            span: interval.as_ref().map(|it| it.number).or(parent),
            depth,
            entered: Cell::new(entered),
        };
        let _other = open_other_label(outer, carried);
        let _label = match carried.and_then(|carried| carried.site) {
            Some(site) => LabelScope::new(&site.label, site.category),
            None => LabelScope::disabled(),
        };
        on_top(&level, op)
    })
}

fn begin_interval(carried: Option<&Arc<Carried>>) -> Option<JobInterval> {
    let carried = carried?;
    let site = carried.site_of_intervals()?;
    Some(JobInterval::begin(site, carried.parent, carried.flow))
}

/// Opens a label if the job interrupts a job of another context, so that stacks show where the
/// frames of the one end and those of the other begin. A context that was made from the context of
/// the interrupted job is no other one.
#[inline(always)]
fn open_other_label(outer: Option<&JobLevel<'_>>, carried: Option<&Arc<Carried>>) -> LabelScope {
    let origin = |carried: Option<&Arc<Carried>>| carried.map(|carried| carried.origin);
    let job_around = outer.filter(|outer| outer.depth > 0);
    if job_around.is_some_and(|around| origin(around.carried) != origin(carried)) {
        LabelScope::new(&OTHER_JOB, &category::OTHER)
    } else {
        LabelScope::disabled()
    }
}

/// Whether a level is a job of this very context.
pub(crate) fn is_same(level: &JobLevel<'_>, carried: Option<&Arc<Carried>>) -> bool {
    match (level.carried, carried) {
        (Some(of_level), Some(carried)) => Arc::ptr_eq(of_level, carried),
        (None, None) => level.depth > 0,
        _ => false,
    }
}

/// The groups around a job, which count nothing until this is dropped.
enum PausedGroups<'a> {
    /// Paused by the stopwatch.
    Loop { _nested: NestedLoop },
    /// Left by the job around it.
    Left(Option<&'a JobLevel<'a>>),
}

impl<'a> PausedGroups<'a> {
    #[inline]
    fn begin(outer: Option<&'a JobLevel<'a>>, depth: u32) -> Self {
        if depth <= MAX_NESTED {
            return Self::Loop {
                _nested: nested_loop(),
            };
        }
        if let Some(outer) = outer {
            drop(outer.entered.take());
        }
        Self::Left(outer)
    }
}

impl Drop for PausedGroups<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Self::Left(Some(outer)) = self {
            let entered = enter_groups(outer.carried.map(Arc::as_ref), outer.of_pool);
            outer.entered.set(entered);
        }
    }
}
