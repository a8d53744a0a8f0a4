//! The counts of entries by their outcome, as the log of a profile lists them.
//!
//! Parsed by [`super::gecko`] and [`super::processed`]. Both formats write the same keys.

use std::collections::BTreeMap;

use serde_json::Value;

/// The counts of a thread's entries by their outcome, as the profile lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LoggedCounts {
    pub recorded: u64,
    pub delivered: u64,
    pub outside: u64,
    pub evicted: u64,
    pub dropped: u64,
    pub unfinished: u64,
    /// The number of dropped entries for each reason.
    pub reasons: BTreeMap<String, u64>,
}

impl LoggedCounts {
    pub(super) fn parse(json: &Value) -> Option<Self> {
        const SUMS: [&str; 8] = [
            "tid",
            "recorded",
            "delivered",
            "outside",
            "evicted",
            "dropped",
            "unfinished",
            "name",
        ];
        let field = |name: &str| json[name].as_u64();
        let reasons = json
            .as_object()?
            .iter()
            .filter(|(name, _)| !SUMS.contains(&name.as_str()));
        Some(Self {
            reasons: reasons
                .filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)))
                .collect(),
            recorded: field("recorded")?,
            delivered: field("delivered")?,
            outside: field("outside")?,
            evicted: field("evicted")?,
            dropped: field("dropped")?,
            unfinished: field("unfinished")?,
        })
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
        self.recorded += other.recorded;
        self.delivered += other.delivered;
        self.outside += other.outside;
        self.evicted += other.evicted;
        self.dropped += other.dropped;
        self.unfinished += other.unfinished;
    }
}

/// The counts of the threads in the log of one process, by thread number. Of threads with the same
/// number, the first has them.
pub(super) fn by_thread(log: &Value) -> Option<BTreeMap<u64, LoggedCounts>> {
    let rows = log["threads"].as_array()?.iter().rev();
    let row = |row: &Value| Some((row["tid"].as_u64()?, LoggedCounts::parse(row)?));
    Some(rows.filter_map(row).collect())
}
