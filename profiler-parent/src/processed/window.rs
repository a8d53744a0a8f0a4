//! The range of time in a profile: the whole session, its last part, or a given range.

use profiler_core::internal::entry::{Entry, Timing};
use profiler_core::time::Timestamp;

/// A range of time. The profile contains the entries that overlap it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

impl Window {
    /// Whether a marker of this time overlaps the range.
    pub(super) fn has(&self, timing: Timing) -> bool {
        let first = match timing {
            Timing::Interval(start, _) => start,
            Timing::Instant(at) | Timing::Start(at) | Timing::End(at) => at,
        };
        self.contains(first, timing.last())
    }

    /// Whether an entry overlaps the range. Ticks of the sampler are `tick` apart. An entry without
    /// a time always counts.
    pub(super) fn has_entry(&self, entry: &Entry<'_>, tick: u64) -> bool {
        match entry {
            Entry::Marker(marker) => self.has(marker.timing),
            Entry::Sample(sample) => {
                self.contains(first_tick(sample.at, sample.ticks, tick), sample.at)
            }
            other => other.last().is_none_or(|at| self.contains(at, at)),
        }
    }

    /// Cuts a sample to the range. The sample stands for `ticks` ticks up to `at`. Returns the time
    /// of the last tick and the number of ticks, at least one.
    pub(super) fn clip(&self, at: Timestamp, ticks: u64, tick: u64) -> (Timestamp, u64) {
        if ticks <= 1 || tick == 0 {
            return (at, ticks);
        }
        let first = first_tick(at, ticks, tick);
        let begin = self.since.map_or(first, |since| since.max(first));
        let end = self.until.map_or(at, |until| until.min(at));
        let inside = end.raw().saturating_sub(begin.raw()) / tick + 1;
        (end, inside.min(ticks))
    }

    fn contains(&self, first: Timestamp, last: Timestamp) -> bool {
        self.since.is_none_or(|since| last >= since)
            && self.until.is_none_or(|until| first <= until)
    }
}

/// The time of the first of `ticks` ticks. The last tick is at `at`.
fn first_tick(at: Timestamp, ticks: u64, tick: u64) -> Timestamp {
    Timestamp::from_raw(
        at.raw()
            .saturating_sub(ticks.saturating_sub(1).saturating_mul(tick)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ticks_of_a_sample_in_the_range_count() {
        let at = Timestamp::from_raw;
        let window = Window {
            since: Some(at(1000)),
            until: Some(at(1200)),
        };
        assert_eq!(window.clip(at(1100), 1, 10), (at(1100), 1));
        assert_eq!(
            window.clip(at(1100), 1000, 10),
            (at(1100), 11),
            "the first tick is before the range"
        );
        assert_eq!(
            window.clip(at(5000), 1000, 10),
            (at(1200), 21),
            "the last tick is after the range"
        );
        assert_eq!(window.clip(at(1250), 10, 10), (at(1200), 5));
        assert_eq!(Window::default().clip(at(5000), 100, 10), (at(5000), 100));
        assert_eq!(
            window.clip(at(1100), 7, 0),
            (at(1100), 7),
            "an unknown interval"
        );
    }

    #[test]
    fn an_interval_that_overlaps_the_range_is_in_it() {
        let at = Timestamp::from_raw;
        let window = Window {
            since: Some(at(10)),
            until: Some(at(20)),
        };
        let has = |first, last| window.has(Timing::Interval(at(first), at(last)));
        assert!(has(0, 10) && has(20, 30) && has(0, 30) && has(12, 13));
        assert!(!has(0, 9) && !has(21, 30));
        assert!(window.has(Timing::Start(at(20))) && !window.has(Timing::Instant(at(21))));
        assert!(Window::default().has(Timing::Instant(at(0))));
    }
}
