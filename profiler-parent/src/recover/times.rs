//! Converts the times of a session whose processes may be dead.
//!
//! Until the machine is restarted, its clocks continue, and an anchor taken now converts times like
//! an anchor taken by the session. After a restart, the session's start is still known from its
//! pools, and only the rate of the clock is measured on this machine.

use std::time::Duration;

use profiler_core::time::{
    Anchor, MonotonicNs, SessionClock, TimeConverter, Timestamp, join_line, use_clock,
};

use super::survey::{Life, SurveyedProcess};

/// How long the rate of the clock is measured.
const MEASURE: Duration = Duration::from_millis(50);
/// Shortest time between the two anchors of a conversion.
const SHORTEST_NS: u64 = 1_000_000;

/// Returns a converter for the times of a session.
fn converter(clock: &SessionClock, processes: &[SurveyedProcess]) -> TimeConverter {
    use_clock(clock.kind);
    if let Some(process) = processes.first().filter(|_| is_of_this_boot(processes)) {
        join_line(&process.header.made);
        return clock.converter(Anchor::take());
    }
    let first = Anchor::take();
    std::thread::sleep(MEASURE);
    let second = Anchor::take();
    clock.converter(Anchor {
        ticks: Timestamp::from_raw(
            clock
                .start
                .ticks
                .raw()
                .saturating_add(second.ticks.since(first.ticks)),
        ),
        monotonic: MonotonicNs(
            clock
                .start
                .monotonic
                .0
                .saturating_add(second.monotonic.0.saturating_sub(first.monotonic.0)),
        ),
    })
}

fn is_of_this_boot(processes: &[SurveyedProcess]) -> bool {
    let first = processes.first();
    first.is_some_and(|process| process.header.is_of_this_boot())
}

/// Sets the recording time of each process.
pub(super) fn place(clock: &SessionClock, processes: &mut [SurveyedProcess]) {
    let converter = converter(clock, processes);
    for process in processes.iter_mut() {
        let began = converter.since_start_ns(process.header.recording_start);
        let last = converter.since_start_ns(process.last_seen);
        process.recorded_ns = (began.min(last), last);
    }
}

/// The anchor at the end of the profile: now if a process runs, otherwise the time of the last
/// entry, so that a profile does not show the time since then.
pub(super) fn end(clock: &SessionClock, processes: &[SurveyedProcess]) -> Anchor {
    let of_this_boot = is_of_this_boot(processes);
    let converter = converter(clock, processes);
    if processes
        .iter()
        .any(|process| process.life == Life::Running)
    {
        return Anchor::take();
    }
    let shortest = Timestamp::from_raw(
        clock
            .start
            .ticks
            .raw()
            .saturating_add(converter.ticks_in(SHORTEST_NS)),
    );
    let last = processes
        .iter()
        .map(|process| process.last_seen)
        .fold(shortest, Timestamp::max);
    // Times in a pool are not trusted: no entry of this boot can be later than now.
    let last = if of_this_boot {
        last.min(Timestamp::now())
    } else {
        last
    };
    let ns = u64::try_from(converter.since_start_ns(last)).unwrap_or(0);
    Anchor {
        ticks: last,
        monotonic: MonotonicNs(clock.start.monotonic.0.saturating_add(ns)),
    }
}
