//! What is recorded of a runtime, and how the hooks and the counters get to it.
//!
//! Used by applications when they build a runtime.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::runtime_hooks::RuntimeHooks;
use crate::runtime_reader::RuntimeReader;
use crate::runtime_threads::RuntimeThreads;
use crate::session_number::follow_sessions;
use crate::task_rules::TaskRules;
use crate::watched_runtimes::{self, WatchedPlace};

/// The name of a runtime that has none.
const UNNAMED: &str = "tokio";

/// What is recorded of a runtime.
///
/// ```
/// use profiler_tokio::RuntimeRules;
/// use tokio::runtime::Builder;
///
/// let mut builder = Builder::new_multi_thread();
/// let runtime = RuntimeRules::named("server").build(builder.worker_threads(2).enable_all())?;
/// runtime.block_on(async { /* … */ });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeRules {
    name: Option<String>,
    tasks: Option<TaskRules>,
}

impl Default for RuntimeRules {
    /// A runtime without a name of the profiler's, whose tasks are recorded by the default rules.
    fn default() -> Self {
        Self {
            name: None,
            tasks: Some(TaskRules::default()),
        }
    }
}

impl RuntimeRules {
    /// The default rules for a runtime of this name. The name is a part of the names of its threads
    /// and counters.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// Records the tasks of the runtime by these rules; `None` for no tasks. Only a program that is
    /// compiled with `--cfg tokio_unstable` records the tasks of a runtime. Without it, a task is
    /// recorded if its future is wrapped: see [`ProfileFuture`](crate::ProfileFuture).
    #[must_use]
    pub fn tasks(mut self, tasks: impl Into<Option<TaskRules>>) -> Self {
        self.tasks = tasks.into();
        self
    }

    /// The hooks for one runtime, for a program that has hooks of its own and calls these from
    /// them. A builder has one hook of each kind, and the latest one counts.
    pub fn hooks(&self) -> RuntimeHooks {
        follow_sessions();
        let name = self.name.as_deref().unwrap_or(UNNAMED);
        RuntimeHooks::new(name, self.tasks)
    }

    /// Builds a runtime with the hooks of the profiler, and watches it. The hooks replace those
    /// that the builder has for the same events: see [`RuntimeHooks`].
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(&self, builder: &mut Builder) -> io::Result<ProfiledRuntime> {
        let hooks = self.hooks();
        hooks.install(builder);
        let runtime = builder.build()?;
        let watched = self.watch_with(runtime.handle(), Some(hooks.threads()));
        Ok(ProfiledRuntime { watched, runtime })
    }

    /// Watches a runtime until the value that is returned is dropped: its counters are in the
    /// profile. Drop it before the runtime, because it keeps the resources of a runtime that has
    /// shut down.
    ///
    /// ```
    /// use tokio::runtime::{Builder, Handle};
    ///
    /// async fn run() {
    ///     let _watched = profiler_tokio::RuntimeRules::named("main").watch(&Handle::current());
    ///     // …
    /// }
    /// Builder::new_current_thread().build()?.block_on(run());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn watch(&self, handle: &Handle) -> WatchedRuntime {
        self.watch_with(handle, None)
    }

    fn watch_with(&self, handle: &Handle, threads: Option<Arc<RuntimeThreads>>) -> WatchedRuntime {
        follow_sessions();
        let name = self.name.as_deref().or(handle.name()).unwrap_or(UNNAMED);
        let reader = RuntimeReader::new(handle, name, threads);
        WatchedRuntime {
            _place: watched_runtimes::add(reader),
        }
    }
}

/// A runtime is watched while this exists, see [`RuntimeRules::watch`].
#[derive(Debug)]
#[must_use = "the runtime is watched until this is dropped; bind it: let _watched = …"]
pub struct WatchedRuntime {
    _place: WatchedPlace,
}

/// A runtime that is watched, see [`RuntimeRules::build`]. Shuts down when it is dropped, like the
/// runtime itself.
#[derive(Debug)]
pub struct ProfiledRuntime {
    // Before the runtime, so that no runtime is read that has shut down.
    watched: WatchedRuntime,
    runtime: Runtime,
}

impl ProfiledRuntime {
    /// The runtime itself, for a function that takes it, such as `Runtime::shutdown_timeout`. It is
    /// no longer watched.
    pub fn into_inner(self) -> Runtime {
        drop(self.watched);
        self.runtime
    }
}

impl Deref for ProfiledRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}
