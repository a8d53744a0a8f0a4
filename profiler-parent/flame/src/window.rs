//! The periods of time that a flame graph can cover.
//!
//! Time is divided into periods of one second for the last ten seconds, and of six seconds for the
//! last minute. A window is a whole number of periods, the last of which has not ended. So its
//! length differs from its name by up to one period; answers contain the exact range.

const SECOND: i64 = 1_000_000_000;
/// Periods of a window, including the present one.
const PERIODS: u32 = 10;

/// The length of the periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// One second.
    Fine,
    /// Six seconds.
    Coarse,
}

impl Resolution {
    /// Both resolutions.
    pub(crate) const ALL: [Self; 2] = [Self::Fine, Self::Coarse];
    /// Number of periods that are kept: two windows, and the period before them, for data that
    /// arrives late.
    pub(crate) const KEPT: u32 = 2 * PERIODS + 1;

    const fn length_ns(self) -> i64 {
        match self {
            Self::Fine => SECOND,
            Self::Coarse => 6 * SECOND,
        }
    }

    /// The period that contains this point in session time.
    pub(crate) fn period_of(self, at_ns: i64) -> Period {
        let number = at_ns.max(0) / self.length_ns();
        Period(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// The first point in session time of a period.
    pub(crate) fn start_of(self, period: Period) -> i64 {
        i64::from(period.0).saturating_mul(self.length_ns())
    }
}

/// Number of a period since the session's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Period(pub(crate) u32);

impl Period {
    /// The next period.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The period this many periods earlier, at least the first.
    const fn before(self, periods: u32) -> Self {
        Self(self.0.saturating_sub(periods))
    }
}

/// The time that a flame graph covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Window {
    /// The last ten seconds.
    #[default]
    TenSeconds,
    /// The last minute.
    Minute,
    /// Everything that was read.
    Start,
}

impl Window {
    const NAMES: [(&'static str, Self); 3] = [
        ("10s", Self::TenSeconds),
        ("60s", Self::Minute),
        ("start", Self::Start),
    ];

    /// The window of this name; the default for an unknown name.
    pub(crate) fn named(name: &str) -> Self {
        let known = Self::NAMES.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, window)| window).unwrap_or_default()
    }

    /// Its name in requests and answers.
    pub(crate) fn name(self) -> &'static str {
        let known = Self::NAMES.into_iter().find(|(_, window)| *window == self);
        known.map_or("", |(name, _)| name)
    }

    const fn resolution(self) -> Option<Resolution> {
        match self {
            Self::TenSeconds => Some(Resolution::Fine),
            Self::Minute => Some(Resolution::Coarse),
            Self::Start => None,
        }
    }

    /// The periods of the window that ends now; `None` for everything.
    pub(crate) fn now(self, now_ns: i64) -> Option<PeriodRange> {
        let resolution = self.resolution()?;
        let last = resolution.period_of(now_ns);
        Some(PeriodRange {
            resolution,
            first: last.before(PERIODS - 1),
            end: last.next(),
        })
    }

    /// The periods of the window before [`Self::now`]; `None` if there is no such window.
    pub(crate) fn before(self, now_ns: i64) -> Option<PeriodRange> {
        let now = self.now(now_ns)?;
        let range = PeriodRange {
            first: now.first.before(PERIODS),
            end: now.first,
            ..now
        };
        (range.first < range.end).then_some(range)
    }
}

/// A range of periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeriodRange {
    pub(crate) resolution: Resolution,
    pub(crate) first: Period,
    /// The period after the last.
    pub(crate) end: Period,
}

impl PeriodRange {
    /// Whether the range contains the period.
    pub(crate) fn contains(&self, period: Period) -> bool {
        (self.first..self.end).contains(&period)
    }

    /// The range in session time, up to now.
    pub(crate) fn times(&self, now_ns: i64) -> (i64, i64) {
        let start = self.resolution.start_of(self.first);
        (start, self.resolution.start_of(self.end).min(now_ns))
    }
}

/// The length of a range of time; 0 if its end is before its start.
pub(crate) fn length_ns((from_ns, to_ns): (i64, i64)) -> u64 {
    u64::try_from(to_ns.saturating_sub(from_ns)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_ten_periods_and_the_window_before_ends_where_it_starts() {
        for (window, ns) in [(Window::TenSeconds, SECOND), (Window::Minute, 6 * SECOND)] {
            let now = 100 * ns + 7;
            let range = window.now(now).unwrap();
            assert_eq!(range.times(now), (91 * ns, now));
            let before = window.before(now).unwrap();
            assert_eq!(before.times(now), (81 * ns, 91 * ns));
            assert!(range.contains(Period(100)) && !range.contains(Period(101)));
        }
        assert_eq!(
            (Window::Start.now(5), Window::Start.before(5)),
            (None, None)
        );
    }

    #[test]
    fn at_the_start_there_is_no_window_before() {
        assert_eq!(Window::TenSeconds.before(3 * SECOND), None);
        let range = Window::TenSeconds.before(12 * SECOND).unwrap();
        assert_eq!(range.times(12 * SECOND), (0, 3 * SECOND));
        assert_eq!(Window::named("60s").name(), "60s");
        assert_eq!(Window::named("?"), Window::TenSeconds);
    }
}
