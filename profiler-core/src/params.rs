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

    /// All features with the names that a profile shows.
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

    /// All features that have a name, one by one.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(feature, _)| feature)
    }

    /// The feature with this name, one of [`Self::names`].
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::NAMES.into_iter();
        all.find_map(|(feature, known)| (known == name).then_some(feature))
    }

    /// The names of the features in the set, as shown in a profile.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(feature, _)| self.contains(*feature))
            .map(|(_, name)| name)
    }
}

/// Where the samples of running threads come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SampleSource {
    /// [`SampleSource::Timer`] where the system gives timers, otherwise [`SampleSource::Signal`].
    #[default]
    Automatic,
    /// A timer on the processor time of each thread. Two samples are at least one tick of the
    /// system (1 to 10 ms) apart. This source costs least, and never ends a wait.
    Timer,
    /// The sampler's thread signals each thread that runs. For systems that give neither timers nor
    /// perf events. It takes about a tenth of a processor at 1 ms.
    Signal,
    /// A perf event of each thread, which sends it a `SIGTRAP`. For intervals below the system's
    /// tick. Time that the system spends for the thread triggers no sample: it is in the next
    /// sample. Each thread takes a descriptor, and a debugger stops at each sample. If the system
    /// gives no perf events, or the program handles `SIGTRAP`, timers are used.
    ///
    /// The program must not change the action of `SIGTRAP` during the session: a handler of its own
    /// receives the signals of the next samples, and without a handler they end the process.
    Sigtrap,
}

impl SampleSource {
    /// The source as a number, for the header of a pool; never 0.
    pub(crate) const fn to_word(self) -> u64 {
        match self {
            Self::Automatic => 1,
            Self::Timer => 2,
            Self::Signal => 3,
            Self::Sigtrap => 4,
        }
    }

    /// The source of a number; `None` if no sampler has run, or if a newer profiler has written the
    /// number.
    pub(crate) const fn from_word(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Automatic),
            2 => Some(Self::Timer),
            3 => Some(Self::Signal),
            4 => Some(Self::Sigtrap),
            _ => None,
        }
    }

    /// The name that profiles show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Timer => "timer",
            Self::Signal => "signal",
            Self::Sigtrap => "sigtrap",
        }
    }
}

/// The part of a process's processor time that the profiler may use in it for sampling, in
/// hundredths of a percent of the time that the process itself uses.
///
/// To keep the budget, the profiler makes the interval between samples longer. This takes some
/// seconds. The budget is exceeded if samples that are one second apart still cost more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OverheadBudget(u32);

impl OverheadBudget {
    /// The smallest budget: 0.01 %.
    pub const MIN: Self = Self(1);
    /// The largest budget: 100 %, as much as the process itself uses.
    pub const MAX: Self = Self(10_000);

    /// A budget of this many hundredths of a percent.
    pub const fn new(hundredths: u32) -> Self {
        Self(hundredths)
    }

    /// A budget of this many percent, rounded to hundredths, between [`Self::MIN`] and
    /// [`Self::MAX`]. A value that is not a number gives [`Self::MIN`].
    pub fn from_percent(percent: f64) -> Self {
        let hundredths = (percent * 100.0).round();
        // A float becomes the nearest integer of the type, and NaN becomes 0.
        Self(hundredths as u32).normalized()
    }

    /// The budget in percent.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// The budget's part of this processor time.
    pub fn part_of_ns(self, ns: u64) -> u64 {
        let part = u128::from(ns) * u128::from(self.0) / 10_000;
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// The nearest budget within the bounds.
    fn normalized(self) -> Self {
        self.clamp(Self::MIN, Self::MAX)
    }
}

/// All parameters of a session. The limit is that of the whole session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionParams {
    /// The bytes that all processes of the session may hold together.
    pub limit: ByteLimit,
    /// Time between two samples of a thread, in nanoseconds. The source may allow only a longer
    /// time.
    pub interval_ns: u64,
    /// The features that are recorded.
    pub features: Features,
    /// The threads that are recorded; empty selects all. See [`crate::thread::ThreadFilter`].
    pub filters: Vec<String>,
    /// The time window that is kept, in nanoseconds; 0 keeps everything that fits the limit.
    pub window_ns: u64,
    /// Where the samples of running threads come from.
    pub source: SampleSource,
    /// The overhead budget of each process; `None` sets no limit.
    pub overhead_budget: Option<OverheadBudget>,
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
    /// by the longest one, a limit that is too large by the largest one, and an overhead budget by
    /// the nearest one. Cuts filters that are too long, and removes filters beyond
    /// [`Self::MAX_FILTERS`].
    #[must_use]
    pub fn normalized(mut self) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if self.interval_ns == 0 {
            self.interval_ns = nanos(Self::DEFAULT_INTERVAL);
        }
        self.interval_ns = self.interval_ns.min(nanos(Self::MAX_INTERVAL));
        self.limit = self.limit.min(Self::MAX_LIMIT);
        self.overhead_budget = self.overhead_budget.map(OverheadBudget::normalized);
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
            source: SampleSource::Automatic,
            overhead_budget: None,
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
    fn an_overhead_budget_out_of_bounds_is_replaced_by_the_nearest_one() {
        let normalized = |hundredths| {
            let params = SessionParams {
                overhead_budget: Some(OverheadBudget::new(hundredths)),
                ..SessionParams::default()
            };
            params.normalized().overhead_budget
        };
        assert_eq!(normalized(0), Some(OverheadBudget::MIN));
        assert_eq!(normalized(250), Some(OverheadBudget::new(250)));
        assert_eq!(normalized(u32::MAX), Some(OverheadBudget::MAX));
    }

    #[test]
    fn percents_become_hundredths_within_the_bounds() {
        let budgets = [0.1, 0.014, -1.0, f64::NAN, 1e300].map(OverheadBudget::from_percent);
        let [min, max] = [OverheadBudget::MIN, OverheadBudget::MAX];
        assert_eq!(budgets, [OverheadBudget::new(10), min, min, min, max]);
        assert_eq!(OverheadBudget::new(250).percent(), 2.5);
        assert_eq!(OverheadBudget::new(10).part_of_ns(1_000_000_000), 1_000_000);
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

    #[test]
    fn every_feature_is_found_by_its_name() {
        for feature in Features::all() {
            let name = feature.names().next().unwrap();
            assert_eq!(Features::from_name(name), Some(feature));
        }
        assert_eq!(Features::from_name("everything"), None);
    }
}
