//! The functions that tokio calls on the threads and for the tasks of one runtime.
//!
//! Installed by `runtime_rules`, or called by the program's own hooks. Invariant: no hook panics,
//! blocks or calls into the runtime.

use std::sync::Arc;

use tokio::runtime::Builder;
#[cfg(tokio_unstable)]
use tokio::runtime::TaskMeta;

use crate::runtime_threads::RuntimeThreads;
#[cfg(tokio_unstable)]
use crate::task_hooks;
use crate::task_rules::TaskRules;
#[cfg(tokio_unstable)]
use crate::task_rules::is_recording;

/// The hooks of one runtime. Clones are the hooks of the same runtime.
///
/// A builder of tokio has one hook of each kind. A program that has a hook of its own for one of
/// these events sets it after [`install`](Self::install), and calls the function for this event
/// from it:
///
/// ```
/// use profiler_tokio::RuntimeRules;
/// use tokio::runtime::Builder;
///
/// let hooks = RuntimeRules::named("server").hooks();
/// let mut builder = Builder::new_multi_thread();
/// hooks.install(&mut builder);
/// builder.on_thread_start(move || {
///     hooks.thread_start();
///     // the program's own
/// });
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeHooks {
    name: Arc<str>,
    threads: Arc<RuntimeThreads>,
    #[cfg_attr(not(tokio_unstable), allow(dead_code))] // there are no hooks of tasks
    tasks: Option<TaskRules>,
}

impl RuntimeHooks {
    pub(crate) fn new(name: &str, tasks: Option<TaskRules>) -> Self {
        Self {
            name: Arc::from(name),
            threads: Arc::default(),
            tasks,
        }
    }

    pub(crate) fn threads(&self) -> Arc<RuntimeThreads> {
        Arc::clone(&self.threads)
    }

    /// Sets the hooks of a builder: `on_thread_start`, `on_thread_stop` and `on_thread_park`, and
    /// with `tokio_unstable`, if tasks are recorded, `on_task_spawn`, `on_before_task_poll`,
    /// `on_after_task_poll` and `on_task_terminate`. They replace hooks that were set before, and
    /// hooks that are set later replace them.
    pub fn install(&self, builder: &mut Builder) {
        let [start, stop, park] = [(); 3].map(|()| self.clone());
        builder.on_thread_start(move || start.thread_start());
        builder.on_thread_stop(move || stop.thread_stop());
        builder.on_thread_park(move || park.thread_park());
        #[cfg(tokio_unstable)]
        self.install_for_tasks(builder);
    }

    #[cfg(tokio_unstable)]
    fn install_for_tasks(&self, builder: &mut Builder) {
        if self.tasks.is_some() {
            let [spawn, before, after, end] = [(); 4].map(|()| self.clone());
            builder.on_task_spawn(move |task| spawn.task_spawn(task));
            builder.on_before_task_poll(move |task| before.before_task_poll(task));
            builder.on_after_task_poll(move |task| after.after_task_poll(task));
            builder.on_task_terminate(move |task| end.task_terminate(task));
        }
    }

    /// For `on_thread_start`: names the thread, and counts it.
    pub fn thread_start(&self) {
        self.threads.start(&self.name);
    }

    /// For `on_thread_stop`: counts the thread.
    pub fn thread_stop(&self) {
        self.threads.stop();
    }

    /// For `on_thread_park`: names the thread if it has become a worker.
    pub fn thread_park(&self) {
        self.threads.name_worker(&self.name);
    }

    /// For `on_task_spawn`: begins the interval of the task. Only with `tokio_unstable`, as the
    /// following ones.
    #[cfg(tokio_unstable)]
    #[inline]
    pub fn task_spawn(&self, task: &TaskMeta<'_>) {
        if self.tasks.is_some() {
            task_hooks::spawned(task);
        }
    }

    /// For `on_before_task_poll`.
    #[cfg(tokio_unstable)]
    #[inline]
    pub fn before_task_poll(&self, task: &TaskMeta<'_>) {
        if let Some(rules) = self.tasks.as_ref().filter(|_| is_recording()) {
            self.threads.name_new_worker(&self.name);
            let local = 0_u8;
            let address = std::ptr::from_ref(&local).addr() as u64;
            task_hooks::before_poll(task, rules, address);
        }
    }

    /// For `on_after_task_poll`. It must be called if
    /// [`before_task_poll`](Self::before_task_poll) is.
    #[cfg(tokio_unstable)]
    #[inline]
    pub fn after_task_poll(&self, task: &TaskMeta<'_>) {
        if let Some(rules) = &self.tasks {
            task_hooks::after_poll(task, rules);
        }
    }

    /// For `on_task_terminate`: ends the interval of the task.
    #[cfg(tokio_unstable)]
    #[inline]
    pub fn task_terminate(&self, task: &TaskMeta<'_>) {
        if self.tasks.is_some() {
            task_hooks::terminated(task);
        }
    }
}
