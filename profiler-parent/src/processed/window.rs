//! The time of which a profile is: all of it, the last part of it, or a range.

use profiler_core::entry::{Entry, Timing};
use profiler_core::time::Timestamp;

/// What happened at least partly between these is in the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

impl Window {
    /// Whether a marker of that time is in it.
    pub(super) fn has(&self, timing: Timing) -> bool {
        let first = match timing {
            Timing::Interval(start, _) => start,
            Timing::Instant(at) | Timing::Start(at) | Timing::End(at) => at,
        };
        self.contains(first, timing.last())
    }

    /// Whether an entry is in it. What has no time is always.
    pub(super) fn has_entry(&self, entry: &Entry<'_>) -> bool {
        match entry {
            Entry::Marker(marker) => self.has(marker.timing),
            other => other.last().is_none_or(|at| self.contains(at, at)),
        }
    }

    fn contains(&self, first: Timestamp, last: Timestamp) -> bool {
        self.since.is_none_or(|since| last >= since) && self.until.is_none_or(|until| first <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_in_it_if_any_of_it_is() {
        let at = Timestamp::from_raw;
        let window = Window { since: Some(at(10)), until: Some(at(20)) };
        let has = |first, last| window.has(Timing::Interval(at(first), at(last)));
        assert!(has(0, 10) && has(20, 30) && has(0, 30) && has(12, 13));
        assert!(!has(0, 9) && !has(21, 30));
        assert!(window.has(Timing::Start(at(20))) && !window.has(Timing::Instant(at(21))));
        assert!(Window::default().has(Timing::Instant(at(0))));
    }
}
