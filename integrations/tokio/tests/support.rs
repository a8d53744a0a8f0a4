//! Code that the tests share: runtimes, and what is recorded of tasks and threads.

use profiler_tokio::{ProfiledRuntime, RuntimeRules};
use recorded_session::{Phase, Seen, pool};
use tokio::runtime::Builder;

/// A runtime with two workers.
pub(crate) fn two_workers(rules: &RuntimeRules) -> ProfiledRuntime {
    let mut builder = Builder::new_multi_thread();
    rules.build(builder.worker_threads(2).enable_all()).unwrap()
}

/// A runtime without threads of its own.
pub(crate) fn one_thread(rules: &RuntimeRules) -> ProfiledRuntime {
    rules
        .build(Builder::new_current_thread().enable_all())
        .unwrap()
}

/// The names of all threads that have recorded something or were named.
pub(crate) fn thread_names() -> Vec<String> {
    let snapshot = pool().snapshot().unwrap();
    let threads = snapshot.threads.iter();
    threads.map(|thread| thread.name.clone()).collect()
}

/// The number of markers of this phase whose names contain `part`.
#[cfg(tokio_unstable)]
pub(crate) fn count(phase: Phase, part: &str) -> usize {
    let mut count = 0;
    recorded_session::for_each_marker(|snapshot, _, marker| {
        let site = snapshot.definitions.site(marker.site).unwrap();
        count += usize::from(Phase::of(marker.timing) == phase && site.name.contains(part));
    });
    count
}

/// The recorded markers of this name, the starts first.
pub(crate) fn named(name: &str) -> Vec<Seen> {
    let mut all = recorded_session::named(name);
    all.sort_by_key(|seen| seen.phase == Phase::End);
    all
}

/// The start and the end of the only task of this name.
pub(crate) fn start_and_end(name: &str) -> [Seen; 2] {
    let mut all = named(name);
    all.retain(|seen| matches!(seen.phase, Phase::Start | Phase::End));
    let both: [Seen; 2] = all.try_into().unwrap();
    assert_eq!([both[0].phase, both[1].phase], [Phase::Start, Phase::End]);
    assert_eq!(both[0].span(), both[1].span());
    both
}

/// Uses the processor until the session's clock has advanced by this many milliseconds.
pub(crate) fn spin(milliseconds: u64) {
    let watch = test_support::patience::Stopwatch::start();
    while watch.elapsed() < std::time::Duration::from_millis(milliseconds) {
        std::hint::spin_loop();
    }
}
