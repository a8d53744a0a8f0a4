//! The results of an iteration: its processor time, and each group's share of it.
//!
//! Called by the stopwatch when an iteration ends. Both are pure functions of the measurements.

use super::{Clock, Lap, Loop, Probes, Reading, Run};

/// Processor time of the iteration until now.
pub(super) fn sum_of(it: Loop, now: Option<u64>) -> Option<u64> {
    match (it.cpu, it.cpu_since, now) {
        (Some(sum), Some(since), Some(now)) => Some(sum.saturating_add(now.saturating_sub(since))),
        (Some(sum), None, None) => Some(sum), // it is paused
        _ => None,
    }
}

/// The run of a lap.
pub(super) fn run_of<C: Clock>(lap: &Lap, ended: &Loop, clock: &C, now: Reading) -> Run {
    let wall = clock.ns_of(lap.ticks);
    let whole = ended.ticks.saturating_sub(ended.blocked);
    let own = lap.ticks.saturating_sub(lap.blocked).min(whole);
    let share = |cpu: u64| u128::from(cpu) * u128::from(own) / u128::from(whole.max(1));
    let cpu = ended
        .cpu
        .map(|cpu| u64::try_from(share(cpu)).unwrap_or(u64::MAX).min(wall));
    let is_timed = lap.spans > 0 && (ended.probes.contains(Probes::JANK) || cpu.is_some());
    Run {
        wall_ns: is_timed.then_some(wall),
        cpu_ns: cpu.filter(|_| is_timed),
        counts_as_run: is_timed && ended.probes.contains(Probes::JANK),
        blocking_ns: if ended.probes.contains(Probes::BLOCKING) {
            clock.ns_of(lap.blocked)
        } else {
            0
        },
        ended_ns: if is_timed { clock.session_ns(now) } else { 0 },
        ..lap.sums
    }
}
