//! Scopes whose jobs run in a context, also the jobs that their jobs spawn.
//!
//! Called by applications, over `rayon::scope`. Invariant: the context outlives the scope, so that
//! a job needs no copy of it.

use rayon::Scope;

use crate::context::JobContext;
use crate::job_stack::top_address;

/// A scope of rayon in which jobs run in a [`JobContext`]. Made by [`JobContext::scope`].
#[derive(Debug)]
pub struct JobScope<'a, 'scope> {
    scope: &'a Scope<'scope>,
    context: &'scope JobContext,
}

impl JobContext {
    /// [`rayon::scope`] in this context: the jobs that are spawned in the scope run in the context,
    /// and so does `op`.
    ///
    /// ```
    /// use profiler_rayon::{JobContext, job_site};
    ///
    /// let context = JobContext::current().named(job_site!("halves"));
    /// let mut halves = [0, 0];
    /// let [first, second] = &mut halves;
    /// context.scope(|scope| {
    ///     scope.spawn(|_| *first = 1);
    ///     scope.spawn(|scope| scope.spawn(|_| *second = 2));
    /// });
    /// assert_eq!(halves, [1, 2]);
    /// ```
    pub fn scope<'scope, OP, R>(&'scope self, op: OP) -> R
    where
        OP: FnOnce(&JobScope<'_, 'scope>) -> R + Send,
        R: Send,
    {
        let caller = top_address();
        rayon::scope(|scope| {
            let scope = JobScope {
                scope,
                context: self,
            };
            self.run_or_go_on(caller, || op(&scope))
        })
    }
}

impl<'scope> JobScope<'_, 'scope> {
    /// Spawns a job that runs in the context of the scope.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce(&JobScope<'_, 'scope>) + Send + 'scope,
    {
        let context = self.context;
        self.scope.spawn(move |scope| {
            context.run(|| op(&JobScope { scope, context }));
        });
    }

    /// The context of the scope.
    pub const fn context(&self) -> &'scope JobContext {
        self.context
    }
}
