//! The context of jobs: the groups, the name and the parent span that a thread carries into them.
//!
//! Applications make a [`JobContext`] where work begins, and run jobs in it. Invariants: a context
//! never changes, so any number of jobs may use it at once; making one without a session, and
//! without anything to carry, allocates nothing.

use std::sync::Arc;

use profiler_core::blocking;
use profiler_core::groups::Group;
use rayon::ThreadPool;

use crate::carried::{Carried, MAX_GROUPS};
use crate::job_marks::record_origin;
use crate::job_site::JobSite;
use crate::job_stack::{JobLevel, LevelAddress, top_address, with_top};
use crate::running_job::{is_recorded, is_same, run};

/// A context has [`MAX_GROUPS`] groups already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a job cannot work for more than {MAX_GROUPS} groups at once")]
pub struct TooManyGroupsError;

/// What jobs are for: performance groups, a name, and a parent span.
///
/// A job that runs in a context works for exactly the groups of the context, and for the group of
/// its pool. Groups that the thread has entered before are paused until the job ends. So a worker
/// that waits in a job and executes another one meanwhile counts each for its own groups.
///
/// ```
/// use profiler_core::group;
/// use profiler_rayon::{JobContext, job_site};
/// use rayon::prelude::*;
///
/// let context = JobContext::of([group!("tenant:acme")]).named(job_site!("sum"));
/// let numbers = [1_u64; 1000];
/// let sums = numbers.par_chunks(100).map(|chunk| context.run(|| chunk.iter().sum::<u64>()));
/// assert_eq!(sums.sum::<u64>(), 1000);
/// ```
///
/// # Costs
/// While no session runs, a job costs one load, and with the feature `tracing` also entering the
/// span. While one runs, a job costs about as much as entering and leaving its groups, and an
/// interval two entries more. So run chunks of items in a context, not items.
#[derive(Clone, Debug, Default)]
pub struct JobContext(Option<Arc<Carried>>);

impl JobContext {
    /// A context without groups, name and parent.
    pub const fn new() -> Self {
        Self(None)
    }

    /// A context with these groups, at most [`MAX_GROUPS`]; more are an error of the compiler. The
    /// first use of a group's handle waits briefly for a lock, as [`Group::register`] does.
    pub fn of<const N: usize>(groups: [&Group; N]) -> Self {
        const { assert!(N <= MAX_GROUPS, "a context has at most MAX_GROUPS groups") };
        Self::new().with(|carried| carried.groups = groups.map(Group::clone).to_vec())
    }

    /// The context of the job that the calling thread is in; its span is the parent of the jobs
    /// that run in the returned context. The name stays, the intervals do not: see
    /// [`Self::intervals`].
    ///
    /// Outside of jobs, and while no session runs, the returned context is empty. Groups that the
    /// program has entered without a context are not in it, because the core does not list them:
    /// give them to [`Self::of`]. With the feature `tracing` it has the current span of `tracing`,
    /// also outside of jobs and while no session runs.
    pub fn current() -> Self {
        let of_job = is_recorded().then(|| with_top(|top| top.map(Self::of_level)));
        of_job
            .flatten()
            .unwrap_or_default()
            .with_current_tracing_span()
    }

    /// The context for jobs that a job makes.
    fn of_level(level: &JobLevel<'_>) -> Self {
        let context = Self(level.carried.cloned());
        let has_own =
            |carried: &Arc<Carried>| carried.parent != level.span || carried.has_intervals;
        if !level.carried.is_some_and(has_own) {
            return context;
        }
        context.with(|carried| {
            carried.parent = level.span;
            (carried.has_intervals, carried.flow) = (false, None);
        })
    }

    #[cfg(not(feature = "tracing"))]
    fn with_current_tracing_span(self) -> Self {
        self
    }

    #[cfg(feature = "tracing")]
    fn with_current_tracing_span(self) -> Self {
        let current = tracing::Span::current();
        if current.is_none() || self.tracing_span() == Some(&current) {
            return self;
        }
        self.in_tracing_span(current)
    }

    /// Runs the jobs inside a span of the crate `tracing`. [`Self::current`] has the current span
    /// already.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn in_tracing_span(self, span: tracing::Span) -> Self {
        self.with(|carried| carried.tracing_span = Some(span))
    }

    /// Adds a group.
    ///
    /// # Errors
    /// If the context has [`MAX_GROUPS`] groups.
    pub fn with_group(self, group: &Group) -> Result<Self, TooManyGroupsError> {
        if self.groups() >= MAX_GROUPS {
            return Err(TooManyGroupsError);
        }
        Ok(self.with(|carried| carried.groups.push(group.clone())))
    }

    /// The number of its groups.
    pub fn groups(&self) -> usize {
        self.0.as_ref().map_or(0, |carried| carried.groups.len())
    }

    /// Names the jobs: samples that are taken in a job show this name as a frame.
    #[must_use]
    pub fn named(self, site: &'static JobSite) -> Self {
        self.with(|carried| carried.site = Some(site))
    }

    /// The number of the span that the jobs are made for, as
    /// [`MarkerSpan::id`](profiler_core::marker::MarkerSpan::id) returns it.
    #[must_use]
    pub fn parent(self, span: Option<u64>) -> Self {
        self.with(|carried| carried.parent = span)
    }

    /// Records each job as an interval with the number of the parent span, and a marker here. A
    /// flow connects them. A job that is running when its process is killed is in the profile.
    ///
    /// Only for a context with a name; the name and the parent come before. Each interval costs two
    /// entries. Jobs of a session that begins later have intervals without a flow.
    #[must_use]
    pub fn intervals(self) -> Self {
        self.with(|carried| {
            carried.has_intervals = true;
            let origin = carried.site.filter(|_| is_recorded());
            carried.flow = origin.map(|site| record_origin(site, carried.parent));
        })
    }

    fn with(mut self, change: impl FnOnce(&mut Carried)) -> Self {
        let carried = self.0.get_or_insert_with(|| Arc::new(Carried::nothing()));
        change(Arc::make_mut(carried));
        self
    }

    /// Runs a job in this context on the calling thread, and returns what it returns.
    ///
    /// # Panics
    /// If the job panics, after everything that was opened for it is closed.
    #[inline]
    pub fn run<R>(&self, op: impl FnOnce() -> R) -> R {
        // Inside of the groups and labels of the job, so that the span is not shown in a job that
        // this one interrupts.
        let op = || {
            #[cfg(feature = "tracing")]
            let _span = self.tracing_span().map(tracing::Span::enter);
            op()
        };
        if is_recorded() {
            run(self.0.as_ref(), op)
        } else {
            op()
        }
    }

    #[cfg(feature = "tracing")]
    fn tracing_span(&self) -> Option<&tracing::Span> {
        self.0.as_ref()?.tracing_span.as_ref()
    }

    /// The job `op` in this context, for functions that the context has no method for, such as
    /// [`ThreadPool::spawn`] and [`ThreadPool::spawn_broadcast`].
    ///
    /// ```
    /// # use profiler_rayon::JobContext;
    /// # let pool = rayon::ThreadPoolBuilder::new().build()?;
    /// pool.spawn(JobContext::current().bind(|| println!("later")));
    /// # Ok::<(), rayon::ThreadPoolBuildError>(())
    /// ```
    pub fn bind<F: FnOnce() -> R, R>(&self, op: F) -> impl FnOnce() -> R + use<F, R> {
        let context = self.clone();
        move || context.run(op)
    }

    /// [`rayon::join`] of two jobs in this context. If the calling thread is in this context, and
    /// is a worker, it goes on with the first as a part of the job that it is in.
    pub fn join<A, B, RA, RB>(&self, first: A, second: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let caller = top_address();
        rayon::join(|| self.run_or_go_on(caller, first), || self.run(second))
    }

    /// [`rayon::spawn`] of a job in this context.
    pub fn spawn(&self, op: impl FnOnce() + Send + 'static) {
        rayon::spawn(self.bind(op));
    }

    /// [`ThreadPool::install`] of a job in this context. A thread that is not a worker of the pool
    /// waits: meanwhile it counts as blocked, by `blocking:rayon`.
    pub fn install<R: Send>(&self, pool: &ThreadPool, op: impl FnOnce() -> R + Send) -> R {
        let is_worker = pool.current_thread_index().is_some();
        let _waits = (!is_worker).then(|| blocking!("rayon"));
        pool.install(|| self.run(op))
    }

    /// Runs a closure that rayon executes at once. If this thread is the one that has called rayon,
    /// and is in this context, the closure is a part of the job that it is in.
    pub(crate) fn run_or_go_on<R>(&self, caller: LevelAddress, op: impl FnOnce() -> R) -> R {
        let is_here = || with_top(|top| top.is_some_and(|level| is_same(level, self.0.as_ref())));
        if top_address() == caller && is_here() {
            op()
        } else {
            self.run(op)
        }
    }
}
