//! The rules of alerts: thresholds, the buffering period, and limits on their number.
//!
//! Made by applications, applied by [`super::machine`].

use std::collections::BTreeMap;
use std::time::Duration;

/// Which runs raise an alert.
///
/// By default, a run of 64 ms or more raises an alert, except in the groups of whole processes and
/// threads, which are slow whenever one of their parts is slow. Alerts are collected for a second.
/// None is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "rules do nothing until they are given to Session::alerts"]
pub struct AlertRules {
    threshold: Threshold,
    of_kinds: BTreeMap<String, Threshold>,
    of_groups: BTreeMap<String, Threshold>,
    pub(super) buffering_ns: i64,
    pub(super) warm_up_ns: i64,
    pub(super) at_once: usize,
    pub(super) repeat_ns: i64,
}

/// The shortest run that raises an alert, in nanoseconds; `None` for no alerts.
type Threshold = Option<u64>;

impl Default for AlertRules {
    fn default() -> Self {
        Self {
            threshold: Some(64_000_000),
            of_kinds: BTreeMap::from([("process".to_owned(), None), ("thread".to_owned(), None)]),
            of_groups: BTreeMap::new(),
            buffering_ns: 1_000_000_000,
            warm_up_ns: 0,
            at_once: usize::MAX,
            repeat_ns: 0,
        }
    }
}

impl AlertRules {
    /// Sets the threshold for groups without a more specific one. A run of exactly this length
    /// raises an alert.
    pub fn threshold(mut self, threshold: Duration) -> Self {
        self.threshold = Some(nanos(threshold));
        self
    }

    /// Sets the threshold for groups of a kind, by the kind's name; `None` for no alerts.
    pub fn threshold_of_kind(
        mut self,
        kind: impl Into<String>,
        threshold: Option<Duration>,
    ) -> Self {
        self.of_kinds.insert(kind.into(), threshold.map(nanos));
        self
    }

    /// Sets the threshold for groups of a name. It takes precedence over the threshold of the kind.
    pub fn threshold_of_group(
        mut self,
        name: impl Into<String>,
        threshold: Option<Duration>,
    ) -> Self {
        self.of_groups.insert(name.into(), threshold.map(nanos));
        self
    }

    /// Sets how long alerts are collected after the first slow run. Each collection contains a
    /// group at most once.
    pub fn buffering(mut self, buffering: Duration) -> Self {
        self.buffering_ns = signed(buffering);
        self
    }

    /// Ignores slow runs of a process within this time after it was first seen.
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up_ns = signed(warm_up);
        self
    }

    /// Withholds collections with more slow groups than this, because then the machine itself is
    /// slow.
    pub const fn at_once(mut self, groups: usize) -> Self {
        self.at_once = groups;
        self
    }

    /// Withholds alerts for this time after an alert for a group of the same kind and name.
    pub fn repeat(mut self, repeat: Duration) -> Self {
        self.repeat_ns = signed(repeat);
        self
    }

    /// The threshold that applies to a group.
    pub(super) fn threshold_for(&self, kind: &str, name: &str) -> Threshold {
        let specific = self.of_groups.get(name).or_else(|| self.of_kinds.get(kind));
        specific.copied().unwrap_or(self.threshold)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
