//! The source of the samples of running threads.
//!
//! | source | how a sample is taken | resolution |
//! |---|---|---|
//! | timer | a timer on the thread's processor time signals it | the system's tick, 1 to 10 ms |
//! | sigtrap | a perf event on the time in the program's code signals it | the session's interval |
//! | signal | the sampler's thread signals it | the session's interval |
//!
//! The signal handler copies the stack (`sample_handler`); nothing waits for it. Timers are the
//! default. Perf events are for programs that need intervals below the tick, where the system
//! allows them. The source `signal` is for systems that give neither.

use std::time::Duration;

use super::control::{SamplerConfig, is_periodic};
use super::sample_handler;
use super::timer_rights;
use crate::params::{Features, SampleSource, SessionParams};
use crate::pool::layout::header as at;
use crate::sys;
use crate::sys::native::perf_event;
use crate::sys::native::timer::{self, FilterMode};

/// Chooses the source of a session, and writes it to the pool.
pub(super) fn choose(config: &SamplerConfig) -> SampleSource {
    let walks = config.features.contains(Features::STACK_WALK);
    let chosen = if walks && is_periodic(config.features) {
        chosen(config.source, gives_events, gives_timers)
    } else {
        SampleSource::Signal // no stacks at intervals
    };
    let pool = config.manager.pool();
    pool.set_header(at::SAMPLE_SOURCE, chosen.to_word());
    chosen
}

fn chosen(
    wanted: SampleSource,
    gives_events: impl FnOnce() -> bool,
    gives_timers: impl FnOnce() -> bool,
) -> SampleSource {
    match wanted {
        SampleSource::Signal => SampleSource::Signal,
        SampleSource::Sigtrap if gives_events() => SampleSource::Sigtrap,
        _ if gives_timers() => SampleSource::Timer,
        _ => SampleSource::Signal,
    }
}

/// Whether the system gives a perf event to this thread, and the program has no handler for its
/// signal.
fn gives_events() -> bool {
    timer_rights::begin_session()
        && perf_event::is_allowed(sys::current_thread_id())
        && sample_handler::install_for_events().unwrap_or(false)
}

/// Whether the system gives a timer to this thread, and timers do no harm.
fn gives_timers() -> bool {
    timer_rights::begin_session()
        && !timer::restarts_forks()
        && timer::create(sys::current_thread_id(), 0)
            .map(timer::delete)
            .is_ok()
}

/// The interval of a session with these parameters. With timers, it is at least the system's tick.
pub(crate) fn effective_interval(params: &SessionParams) -> Duration {
    let interval = Duration::from_nanos(params.interval_ns);
    let walks = params.features.contains(Features::STACK_WALK) && is_periodic(params.features);
    let is_fine = match params.source {
        SampleSource::Signal => true,
        SampleSource::Sigtrap => {
            // A filter of system calls may end the process for the question.
            timer::filter_mode() == FilterMode::None
                && perf_event::is_allowed(sys::current_thread_id())
        }
        SampleSource::Timer | SampleSource::Automatic => false,
    };
    if walks && !is_fine {
        interval.max(timer::tick())
    } else {
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_used_unless_another_source_is_asked_for_or_there_are_none() {
        assert!(gives_timers());
        for wanted in [SampleSource::Automatic, SampleSource::Timer] {
            let not_asked_for = || unreachable!("not asked for");
            assert_eq!(chosen(wanted, not_asked_for, || true), SampleSource::Timer);
            assert_eq!(
                chosen(wanted, not_asked_for, || false),
                SampleSource::Signal
            );
        }
        let events = |are_given, timers| chosen(SampleSource::Sigtrap, || are_given, || timers);
        assert_eq!(events(true, true), SampleSource::Sigtrap);
        assert_eq!(events(false, true), SampleSource::Timer);
        assert_eq!(events(false, false), SampleSource::Signal);
        let never = || unreachable!("not asked for");
        assert_eq!(
            chosen(SampleSource::Signal, never, never),
            SampleSource::Signal
        );
    }

    #[test]
    fn a_timer_is_not_finer_than_the_systems_tick() {
        let with = |source, interval_ns| {
            effective_interval(&SessionParams {
                source,
                interval_ns,
                features: Features::STACK_WALK,
                ..SessionParams::default()
            })
        };
        assert_eq!(with(SampleSource::Automatic, 1), timer::tick());
        assert_eq!(with(SampleSource::Signal, 1), Duration::from_nanos(1));
        let second = Duration::from_secs(1);
        assert_eq!(with(SampleSource::Timer, 1_000_000_000), second);
    }
}
