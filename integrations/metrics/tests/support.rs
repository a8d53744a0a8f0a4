//! Code that the tests share: the session of a test, and the counters of its metrics.

use recorded_session::{RunningSession, pool};

/// Installs the recorder of this crate alone, and starts a session.
pub(crate) fn start_alone() -> RunningSession {
    profiler_metrics::alone().install().unwrap();
    RunningSession::start()
}

/// A counter of the profile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenCounter {
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) description: String,
    pub(crate) value: i64,
    pub(crate) changes: u64,
}

/// The counters that metrics have made.
pub(crate) fn counters() -> Vec<SeenCounter> {
    let snapshot = pool().snapshot().unwrap();
    let seen = snapshot.counters.iter().map(|counter| SeenCounter {
        name: counter.definition.name.clone(),
        category: counter.definition.category.clone(),
        description: counter.definition.description.clone(),
        value: counter.value,
        changes: counter.number,
    });
    seen.filter(|seen| !matches!(&*seen.name, "processCPU" | "Resident memory"))
        .collect()
}

pub(crate) fn counter_named(name: &str) -> Option<SeenCounter> {
    counters().into_iter().find(|counter| counter.name == name)
}

/// The value of a counter; 0 if it is not in the profile.
pub(crate) fn value(name: &str) -> i64 {
    counter_named(name).map_or(0, |counter| counter.value)
}
