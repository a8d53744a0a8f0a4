//! When things happened, told without the processes that the clock belonged to.
//!
//! While the machine has not been started again its clocks go on, and an anchor taken now converts
//! all times as one taken by the session would. After that the session's own beginning is known, and
//! only the pace of the clock has to be taken from what this machine's clock does now.

use std::time::Duration;

use profiler_core::internal::reader::{ByteSource, ChunkBuffer, ChunkRead, PoolReader, Snapshot};
use profiler_core::internal::sys;
use profiler_core::time::{
    Anchor, MonotonicNs, SessionClock, TimeConverter, Timestamp, join_line, use_clock,
};

use super::survey::{Life, SurveyedProcess};

/// How long the clock's pace is measured.
const MEASURE: Duration = Duration::from_millis(50);
/// Shortest time between the two anchors of a conversion.
const SHORTEST_NS: u64 = 1_000_000;

/// When the last entry of a pool was recorded, by a look into the last chunk of each thread.
pub(super) fn last_entry<S: ByteSource>(reader: &PoolReader<S>, snapshot: &Snapshot) -> Timestamp {
    let mut buffer = ChunkBuffer::default();
    let mut last = PoolReader::<S>::last_seen(snapshot);
    for chunk in snapshot.threads.iter().filter_map(|thread| thread.chunks.last()) {
        if let Ok(ChunkRead::Entries(entries)) = reader.read_chunk(chunk, &mut buffer) {
            let ends = entries.filter_map(|entry| entry.last());
            last = ends.fold(last, Timestamp::max);
        }
    }
    last
}

/// Converts the times of a session.
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
        ticks: Timestamp::from_raw(clock.start.ticks.raw().saturating_add(second.ticks.since(first.ticks))),
        monotonic: MonotonicNs(
            clock.start.monotonic.0.saturating_add(second.monotonic.0.saturating_sub(first.monotonic.0)),
        ),
    })
}

fn is_of_this_boot(processes: &[SurveyedProcess]) -> bool {
    let boot = sys::boot_id();
    boot.get() != 0 && processes.first().is_some_and(|process| process.header.boot == boot)
}

/// Says when each process recorded.
pub(super) fn place(clock: &SessionClock, processes: &mut [SurveyedProcess]) {
    let converter = converter(clock, processes);
    for process in processes.iter_mut() {
        let began = converter.since_start_ns(process.header.recording_start);
        let last = converter.since_start_ns(process.last_seen);
        process.recorded_ns = (began.min(last), last);
    }
}

/// The anchor that ends the profile: now while anybody runs, else when the last entry was
/// recorded, so that a profile does not show the time since then.
pub(super) fn end(clock: &SessionClock, processes: &[SurveyedProcess]) -> Anchor {
    let of_this_boot = is_of_this_boot(processes);
    let converter = converter(clock, processes);
    if processes.iter().any(|process| process.life == Life::Running) {
        return Anchor::take();
    }
    let shortest =
        Timestamp::from_raw(clock.start.ticks.raw().saturating_add(converter.ticks_in(SHORTEST_NS)));
    let last = processes.iter().map(|process| process.last_seen).fold(shortest, Timestamp::max);
    // A pool may say anything; nothing of this boot was recorded later than now.
    let last = if of_this_boot { last.min(Timestamp::now()) } else { last };
    let ns = u64::try_from(converter.since_start_ns(last)).unwrap_or(0);
    Anchor { ticks: last, monotonic: MonotonicNs(clock.start.monotonic.0.saturating_add(ns)) }
}
