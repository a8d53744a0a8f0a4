//! Converts the timing in a marker's options to the time of its entry.

use super::MarkerTiming;
use crate::entry::Timing;
use crate::time::Timestamp;

impl MarkerTiming {
    /// The time of the entry. Reads the clock if the timing depends on the present time.
    #[inline(always)]
    pub(crate) fn resolve(self) -> Timing {
        match self {
            Self::InstantNow => Timing::Instant(Timestamp::now()),
            Self::InstantAt(at) => Timing::Instant(at),
            Self::Interval(start, end) => Timing::Interval(start, end),
            Self::IntervalUntilNowFrom(start) => Timing::Interval(start, Timestamp::now()),
            Self::IntervalStart => Timing::Start(Timestamp::now()),
            Self::IntervalEnd => Timing::End(Timestamp::now()),
        }
    }
}
