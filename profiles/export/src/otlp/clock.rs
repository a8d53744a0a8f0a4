//! Times of a profile as nanoseconds since 1970.

use profiler_reader::Meta;

/// Limit on the session's start, in nanoseconds (146 years), so that sums with session times do not
/// overflow.
const MAX_NS: i64 = 1 << 62;

/// Converts session times to times of day. A profile without a start begins in 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnixClock {
    start_ns: i64,
}

impl UnixClock {
    pub(super) fn of(meta: &Meta) -> Self {
        let exact = meta.start_unix_ns.and_then(|ns| i64::try_from(ns).ok());
        let rounded = || meta.start_time.map_or(0.0, |ms| ms * 1e6) as i64;
        Self {
            start_ns: exact.unwrap_or_else(rounded).clamp(0, MAX_NS),
        }
    }

    /// Converts nanoseconds since the session's start.
    pub(super) const fn at(self, ns: i64) -> u64 {
        let at = self.start_ns.saturating_add(ns);
        if at < 0 { 0 } else { at.unsigned_abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_start_counts_if_the_profile_has_it() {
        let clock = |meta: &str| UnixClock::of(&serde_json::from_str(meta).unwrap());
        let exact = clock(r#"{"startTime":2000.25,"startUnixNs":2000250007}"#);
        assert_eq!((exact.at(3), exact.at(i64::MIN)), (2_000_250_010, 0));
        assert_eq!(clock(r#"{"startTime":2000.25}"#).at(3), 2_000_250_003);
        assert_eq!(clock("{}").at(3), 3);
    }
}
