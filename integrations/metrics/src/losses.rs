//! What is not in the profile as the program has measured it, counted in counters of the profile.
//!
//! Used by all kinds of metrics. A counter is only in a profile that has such a loss.

use profiler_core::counter::Counter;

use crate::tracks::CATEGORY;

/// Changes that are in the profile without their labels.
pub(crate) static WITHOUT_LABELS: Counter = Counter::new(
    "Metrics: changes without their labels",
    CATEGORY,
    "Changes of counters and histograms that are in a track of other labels, because there are too \
     many different labels",
);
/// Changes that are not in the profile.
pub(crate) static LEFT_OUT: Counter = Counter::new(
    "Metrics: changes left out",
    CATEGORY,
    "Changes of metrics that are not in this profile, because there are too many metrics or labels",
);
/// Values of histograms that have no marker.
pub(crate) static WITHOUT_MARKER: Counter = Counter::new(
    "Metrics: histogram values without a marker",
    CATEGORY,
    "Values of histograms that are in the counts and the sums, and have no marker, because there \
     were too many in a short time",
);
