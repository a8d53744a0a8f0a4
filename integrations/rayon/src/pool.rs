//! Pools whose workers have names in the profile, and a group for their jobs.
//!
//! Called by applications, which build their pools with a [`PoolProfile`]. It is the spawn handler
//! of the builder, and no other handler, so the program's own start handlers, exit handlers and
//! thread names go on working. Invariant: a worker is registered before its start handler runs, and
//! its registration ends with its thread.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::thread;

use profiler_core::groups::Group;
use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::job_stack::{JobLevel, on_top};

/// How the workers of a pool appear in a profile: as "NAME worker 0", "NAME worker 1" and so on.
///
/// ```
/// use profiler_core::groups::{Group, GroupKind};
/// use profiler_rayon::PoolProfile;
/// use rayon::ThreadPoolBuilder;
///
/// let group = Group::register(GroupKind::Component, "images");
/// let profile = PoolProfile::new("images").group(group);
/// let pool = profile.build(ThreadPoolBuilder::new().num_threads(2))?;
/// # drop(pool);
/// # Ok::<(), rayon::ThreadPoolBuildError>(())
/// ```
///
/// A builder that has a spawn handler of its own has another type and is not accepted: its handler
/// calls [`PoolProfile::run_worker`]. The thread of
/// [`use_current_thread`](ThreadPoolBuilder::use_current_thread) keeps its own name, and its jobs
/// are not in the group of the pool, because rayon does not start it.
#[derive(Clone, Debug)]
pub struct PoolProfile(Arc<Described>);

#[derive(Clone, Debug)]
struct Described {
    name: String,
    group: Option<Group>,
}

impl PoolProfile {
    /// Workers with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(Arc::new(Described {
            name: name.into(),
            group: None,
        }))
    }

    /// Counts the jobs of the pool that run in a [`JobContext`](crate::JobContext) for this group,
    /// besides those of their context.
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        Arc::make_mut(&mut self.0).group = Some(group);
        self
    }

    /// Builds a pool. All settings of the builder stay. If it has no thread names, the threads get
    /// the names that they have in the profile, of which Linux shows 15 bytes.
    ///
    /// # Errors
    /// Those of [`ThreadPoolBuilder::build`].
    pub fn build(&self, builder: ThreadPoolBuilder) -> Result<ThreadPool, ThreadPoolBuildError> {
        builder
            .spawn_handler(|worker| self.spawn_worker(worker))
            .build()
    }

    /// Builds the global pool, as [`Self::build`] builds a pool of its own.
    ///
    /// # Errors
    /// Those of [`ThreadPoolBuilder::build_global`]: the global pool is built once.
    pub fn build_global(&self, builder: ThreadPoolBuilder) -> Result<(), ThreadPoolBuildError> {
        builder
            .spawn_handler(|worker| self.spawn_worker(worker))
            .build_global()
    }

    /// Runs a worker on the calling thread until the pool ends: in a spawn handler, in place of
    /// [`ThreadBuilder::run`], and in the wrapper of [`ThreadPoolBuilder::build_scoped`].
    ///
    /// ```
    /// use profiler_rayon::PoolProfile;
    /// use rayon::ThreadPoolBuilder;
    ///
    /// let profile = PoolProfile::new("scoped");
    /// ThreadPoolBuilder::new().num_threads(1).build_scoped(
    ///     |worker| profile.run_worker(worker),
    ///     |pool| pool.install(|| ()),
    /// )?;
    /// # Ok::<(), rayon::ThreadPoolBuildError>(())
    /// ```
    pub fn run_worker(&self, worker: ThreadBuilder) {
        profiler_core::thread::register(&self.name_of(worker.index()));
        let level = JobLevel {
            carried: None,
            of_pool: self.0.group.as_ref(),
            span: None,
            depth: 0,
            entered: Cell::new(None),
        };
        on_top(&level, || worker.run());
    }

    fn name_of(&self, index: usize) -> String {
        format!("{} worker {index}", self.0.name)
    }

    /// Starts the thread of a worker, as rayon does.
    fn spawn_worker(&self, worker: ThreadBuilder) -> io::Result<()> {
        let name = worker.name().map(str::to_owned);
        let name = name.unwrap_or_else(|| self.name_of(worker.index()));
        // A name with a zero byte would be a panic.
        let mut builder = thread::Builder::new().name(name.replace('\0', " "));
        if let Some(size) = worker.stack_size() {
            builder = builder.stack_size(size);
        }
        let profile = self.clone();
        builder.spawn(move || profile.run_worker(worker))?;
        Ok(())
    }
}
