//! The counts of entries by their outcome, as the log of a profile lists them.
//!
//! Parsed by [`super::gecko`] and [`super::processed`]. Both formats write the same keys.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::Value;

/// The keys of the counts of a process or a thread.
pub const COUNTS: [&str; 6] = [
    "recorded",
    "delivered",
    "outside",
    "evicted",
    "dropped",
    "unfinished",
];

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
        let field = |name: &str| json[name].as_u64();
        let reasons = json
            .as_object()?
            .iter()
            .filter(|(name, _)| !["tid", "name"].iter().chain(&COUNTS).any(|key| key == name));
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

/// Checks that the rows of `profiler info` equal those of the gathering log.
///
/// # Errors
/// When a row is missing or differs.
pub fn same_rows(rows: &Value, log: &Value) -> anyhow::Result<()> {
    let rows = rows.as_array().context("no rows")?;
    let log = log.as_array().context("no log")?;
    ensure!(rows.len() == log.len(), "{rows:?}");
    for (row, logged) in rows.iter().zip(log) {
        for key in ["name", "pid", "threads", "verdict"].iter().chain(&COUNTS) {
            let (found, expected) = (&row[*key], &logged[*key]);
            ensure!(
                found == expected && !found.is_null(),
                "{key}: {row} {logged}"
            );
        }
    }
    Ok(())
}
