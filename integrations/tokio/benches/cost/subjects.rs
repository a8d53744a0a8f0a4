//! The subjects: which runtime, whether its futures are wrapped, and whether a session runs.

use profiler_core::groups::{Probes, set_probes};
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use profiler_tokio::{ProfiledRuntime, RuntimeRules, TaskRules};
use tokio::runtime::{Builder, Runtime};

/// What is measured.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// The futures are wrapped.
    pub(crate) is_wrapped: bool,
    has_session: bool,
    /// The rules of a runtime of this crate; `None` for a runtime of tokio alone.
    rules: Option<fn() -> RuntimeRules>,
}

/// The subjects, in the order in which they take turns. The first two are the cost of the profiler
/// in a program that is not profiled.
pub(crate) const SUBJECTS: &[Subject] = &[
    subject("disabled_hooks", false, false, Some(hooks)),
    subject("disabled_wrapped", true, false, Some(no_tasks)),
    subject("tokio", false, false, None),
    subject("hooks", false, true, Some(hooks)),
    subject("hooks_groups", false, true, Some(hooks)),
    subject("hooks_polls", false, true, Some(polls)),
    subject("wrapped", true, true, Some(no_tasks)),
];

const fn subject(
    name: &'static str,
    is_wrapped: bool,
    has_session: bool,
    rules: Option<fn() -> RuntimeRules>,
) -> Subject {
    Subject {
        name,
        is_wrapped,
        has_session,
        rules,
    }
}

fn hooks() -> RuntimeRules {
    RuntimeRules::named("measured")
}

fn polls() -> RuntimeRules {
    hooks().tasks(TaskRules::default().polls(true))
}

fn no_tasks() -> RuntimeRules {
    hooks().tasks(None)
}

/// A runtime, with or without the profiler.
pub(crate) enum AnyRuntime {
    Plain(Runtime),
    Profiled(ProfiledRuntime),
}

impl AnyRuntime {
    pub(crate) fn get(&self) -> &Runtime {
        match self {
            Self::Plain(runtime) => runtime,
            Self::Profiled(runtime) => runtime,
        }
    }
}

impl Subject {
    /// Starts the session, if there is one, with the probe that alerts need for one subject.
    pub(crate) fn begin(&self) {
        if self.has_session {
            let params = SessionParams {
                features: Features::NO_SAMPLING,
                ..SessionParams::default()
            };
            session::start(params, StartOptions::default()).expect("a session");
            if self.name == "hooks_groups" {
                set_probes(Probes::JANK);
            }
        }
    }

    /// A runtime without threads, or with one worker.
    pub(crate) fn runtime(&self, has_worker: bool) -> AnyRuntime {
        let mut builder = if has_worker {
            Builder::new_multi_thread()
        } else {
            Builder::new_current_thread()
        };
        if has_worker {
            builder.worker_threads(1);
        }
        match self.rules {
            None => AnyRuntime::Plain(builder.build().expect("a runtime")),
            Some(rules) => AnyRuntime::Profiled(rules().build(&mut builder).expect("a runtime")),
        }
    }
}
