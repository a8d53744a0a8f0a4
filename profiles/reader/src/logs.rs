//! The logs of a profile: the entry counts of its processes, and how complete each of them is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The logs of one process's object. In the processed format they contain all processes.
#[derive(Debug, Default)]
pub struct Logs {
    /// `profilingLog`, by process.
    pub profiling: BTreeMap<String, ProfilingLog>,
    /// `profileGatheringLog`, by process.
    pub gathering: BTreeMap<String, GatheringLog>,
}

/// A process's log of its entries.
#[derive(Debug, Deserialize)]
pub struct ProfilingLog {
    /// The sum over all of its threads.
    pub total: Option<EntryTotals>,
    /// Its remarks about missing data.
    #[serde(default)]
    pub notices: Vec<String>,
}

/// Entry counts of a process.
#[derive(Debug, Deserialize)]
pub struct EntryTotals {
    /// All entries.
    pub recorded: u64,
    /// Entries in the profile.
    pub delivered: u64,
    /// Entries outside of the profile's range.
    #[serde(default)]
    pub outside: u64,
    /// Entries that were evicted.
    pub evicted: u64,
    /// Entries that were incomplete.
    pub unfinished: u64,
    /// The sum of the drops, and the count of each reason by its name.
    #[serde(flatten)]
    drop_counts: BTreeMap<String, Value>,
}

impl EntryTotals {
    /// Dropped entries by reason.
    pub fn into_dropped(self) -> BTreeMap<String, u64> {
        let dropped = self.dropped();
        dropped
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }

    /// Dropped entries by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&str, u64)> {
        let reasons = self
            .drop_counts
            .iter()
            .filter(|(name, _)| *name != "dropped");
        reasons.filter_map(|(name, count)| Some((name.as_str(), count.as_u64()?)))
    }
}

/// A capture's log.
#[derive(Debug, Deserialize)]
pub struct GatheringLog {
    /// Every process of the session.
    #[serde(default)]
    pub processes: Vec<GatheredProcess>,
    /// What pushers have sent before the capture, by destination.
    #[serde(default)]
    pub pushed: Vec<PushedLog>,
    /// The processor time of observed processes, if there were any.
    #[serde(default)]
    pub observed: Option<ObservedTimeLog>,
}

/// The processor time of processes that were observed from outside.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all(deserialize = "camelCase"), default)]
pub struct ObservedTimeLog {
    /// The time that the system accounts to them, in microseconds.
    pub used_us: u64,
    /// The time in samples, with or without stacks, in microseconds.
    pub recorded_us: u64,
    /// The time in samples with stacks, in microseconds.
    pub sampled_us: u64,
}

/// What a destination of a pusher has got.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all(deserialize = "camelCase"), default)]
pub struct PushedLog {
    /// Its address.
    pub address: String,
    /// Batches that it has accepted.
    pub sent: PushedBatches,
    /// Batches that were lost before they were sent.
    pub lost: PushedBatches,
    /// Batches of which it has refused a part.
    pub rejected: PushedBatches,
    /// Batches that waited.
    pub waiting_batches: u64,
    /// Entries that were evicted before a batch contained them.
    pub missed_entries: u64,
    /// Captures of batches that failed.
    pub failed_captures: u64,
}

/// A number of batches, and of the entries in them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PushedBatches {
    /// Batches.
    pub batches: u64,
    /// Entries.
    pub entries: u64,
}

/// One process in a capture.
#[derive(Debug, Default, Deserialize)]
pub struct GatheredProcess {
    /// Display name.
    pub name: String,
    /// Process id in the system.
    pub pid: u64,
    /// The host in a merged profile of several hosts.
    #[serde(default)]
    pub host: Option<String>,
    /// The process that started it.
    #[serde(rename = "parentPid", default)]
    pub parent: Option<u64>,
    /// The process whose session records it, if that is another session.
    #[serde(rename = "recordedByPid", default)]
    pub recorded_by: Option<u64>,
    /// When the session learned of it, in milliseconds since the session's start.
    #[serde(rename = "began_TSms", default)]
    pub began_ms: Option<f64>,
    /// When it ended, in milliseconds since the session's start.
    #[serde(rename = "ended_TSms", default)]
    pub ended_ms: Option<f64>,
    /// Whether its data is in the profile.
    #[serde(default)]
    pub present: bool,
    /// How complete its data is, in words.
    pub verdict: String,
    /// Threads in the profile.
    pub threads: u64,
    /// Its processor time, if it was observed from outside.
    #[serde(default)]
    pub observed: Option<ObservedTimeLog>,
    /// All entries.
    pub recorded: u64,
    /// Entries in the profile.
    pub delivered: u64,
    /// Entries outside of the profile's range.
    #[serde(default)]
    pub outside: u64,
    /// Entries that were evicted.
    pub evicted: u64,
    /// Entries that were incomplete.
    pub unfinished: u64,
    /// Dropped entries by reason.
    pub dropped: BTreeMap<String, u64>,
    /// What earlier profiles of the same series contain; `None` for a profile of its own.
    #[serde(default)]
    pub series: Option<SeriesLog>,
}

/// The entries of a process in a series of profiles that share them, as a pusher makes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SeriesLog {
    /// The number of the process in the threads of all profiles of the series, such as `12.1`.
    pub number: String,
    /// Entries in earlier profiles.
    pub earlier: u64,
    /// Entries that no profile up to this one contains, because they were evicted before.
    pub missed: u64,
    /// The missed entries since the profile before this one.
    #[serde(rename = "newlyMissed")]
    pub newly_missed: u64,
}

impl GatheredProcess {
    /// The number of entries that were recorded and are not in this profile, nor in an earlier one
    /// of its series: of a series, since the profile before this one.
    pub fn newly_evicted(&self) -> u64 {
        self.series
            .as_ref()
            .map_or(self.evicted, |series| series.newly_missed)
    }

    /// The number of entries outside of the profile's range, without those in earlier profiles of
    /// its series.
    pub fn outside_of_range(&self) -> u64 {
        let earlier = self.series.as_ref().map_or(0, |series| series.earlier);
        self.outside.saturating_sub(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_profiles_of_a_series_contain_is_neither_lost_nor_outside() {
        let process = |series: &str| {
            let text = format!(
                r#"{{"name": "", "pid": 1, "verdict": "", "threads": 1, "recorded": 100,
                "delivered": 10, "outside": 40, "evicted": 50, "unfinished": 0,
                "dropped": {{}}{series}}}"#
            );
            serde_json::from_str::<GatheredProcess>(&text).unwrap()
        };
        let alone = process("");
        assert_eq!((alone.newly_evicted(), alone.outside_of_range()), (50, 40));
        let series = r#", "series": {"number": "1", "earlier": 38, "missed": 7, "newlyMissed": 2}"#;
        let continued = process(series);
        assert_eq!(continued.newly_evicted(), 2);
        assert_eq!(continued.outside_of_range(), 2);
    }
}
