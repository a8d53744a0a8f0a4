//! The parameters of a session, shared by parent and children.
//!
//! Built by the parent's session builder, written into every pool's header and sent with `Start`
//! and `EnsureStarted`. Invariant: [`SessionParams`] values are always within their bounds;
//! [`SessionParams::normalized`] replaces values out of bounds, as Gecko does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::ByteLimit;

/// The features of a session, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Features(u64);

impl Features {
    /// Only the data that is always recorded (markers, counters).
    pub const NONE: Self = Self(0);
    /// Walk the stack when a sample is taken.
    pub const STACK_WALK: Self = Self(1);
    /// CPU use of each selected thread.
    pub const CPU: Self = Self(1 << 1);
    /// CPU use of all registered threads.
    pub const CPU_ALL_THREADS: Self = Self(1 << 2);
    /// Markers of all registered threads, including those that the filters exclude.
    pub const MARKERS_ALL_THREADS: Self = Self(1 << 3);
    /// CPU use of the process.
    pub const PROCESS_CPU: Self = Self(1 << 4);
    /// Memory counters.
    pub const MEMORY: Self = Self(1 << 5);
    /// No periodic sampling: markers and counters only.
    pub const NO_SAMPLING: Self = Self(1 << 6);

    /// Sampled allocations with their stacks, in programs with
    /// [`crate::alloc::ProfilingAllocator`].
    pub const NATIVE_ALLOCATIONS: Self = Self(1 << 7);

    const NAMES: [(Self, &'static str); 8] = [
        (Self::STACK_WALK, "stackwalk"),
        (Self::CPU, "cpu"),
        (Self::CPU_ALL_THREADS, "cpuallthreads"),
        (Self::MARKERS_ALL_THREADS, "markersallthreads"),
        (Self::PROCESS_CPU, "processcpu"),
        (Self::MEMORY, "memory"),
        (Self::NO_SAMPLING, "nostacksampling"),
        (Self::NATIVE_ALLOCATIONS, "nativeallocations"),
    ];

    /// The bits as a number.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A set from its number. Unknown bits are kept: a newer parent may use them.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether every feature of `other` is in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names of the features in the set, as shown in a profile.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(feature, _)| self.contains(*feature))
            .map(|(_, name)| name)
    }
}

/// All parameters of a session. The limit is that of the whole session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionParams {
    /// The bytes that all processes of the session may hold together.
    pub limit: ByteLimit,
    /// Time between two samples of a thread, in nanoseconds.
    pub interval_ns: u64,
    /// The features that are recorded.
    pub features: Features,
    /// The threads that are recorded; empty selects all. See [`crate::thread::ThreadFilter`].
    pub filters: Vec<String>,
    /// The time window that is kept, in nanoseconds; 0 keeps everything that fits the limit.
    pub window_ns: u64,
}

impl SessionParams {
    /// Default limit: 128 MiB, as in Gecko.
    pub const DEFAULT_LIMIT: ByteLimit = ByteLimit::new(128 * 1024 * 1024);
    /// Largest limit: 1 TiB of sparse memory.
    pub const MAX_LIMIT: ByteLimit = ByteLimit::new(1 << 40);
    /// Default sampling interval: 1 ms.
    pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(1);
    /// Longest sampling interval: 5 s.
    pub const MAX_INTERVAL: Duration = Duration::from_secs(5);
    /// Longest filter, in bytes; longer filters are cut.
    pub const MAX_FILTER_BYTES: usize = 256;
    /// Maximum number of filters; further ones are ignored.
    pub const MAX_FILTERS: usize = 128;

    /// Replaces values out of bounds: an interval of 0 by the default, an interval that is too long
    /// by the longest one, and a limit that is too large by the largest one. Cuts filters that are
    /// too long or too many.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if self.interval_ns == 0 {
            self.interval_ns = nanos(Self::DEFAULT_INTERVAL);
        }
        self.interval_ns = self.interval_ns.min(nanos(Self::MAX_INTERVAL));
        self.limit = self.limit.min(Self::MAX_LIMIT);
        self.filters.truncate(Self::MAX_FILTERS);
        for filter in &mut self.filters {
            let mut end = filter.len().min(Self::MAX_FILTER_BYTES);
            while !filter.is_char_boundary(end) {
                end -= 1;
            }
            filter.truncate(end);
        }
        self
    }
}

impl Default for SessionParams {
    fn default() -> Self {
        Self {
            limit: Self::DEFAULT_LIMIT,
            interval_ns: 1_000_000,
            features: Features::NONE,
            filters: Vec::new(),
            window_ns: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_bounds_are_replaced() {
        let params = SessionParams {
            interval_ns: 0,
            limit: ByteLimit::new(u64::MAX),
            ..SessionParams::default()
        };
        let params = params.normalized();
        assert_eq!(params.interval_ns, 1_000_000);
        assert_eq!(params.limit, SessionParams::MAX_LIMIT);
    }

    #[test]
    fn a_long_filter_is_cut_at_a_character() {
        let params = SessionParams {
            filters: vec!["ä".repeat(200)],
            ..SessionParams::default()
        };
        let params = params.normalized();
        assert_eq!(params.filters[0].len(), SessionParams::MAX_FILTER_BYTES);
    }

    #[test]
    fn features_have_names() {
        let features = Features::CPU.with(Features::MEMORY);
        assert_eq!(features.names().collect::<Vec<_>>(), ["cpu", "memory"]);
        assert!(!features.contains(Features::STACK_WALK));
    }
}
