//! What is known about a process: its threads, and what happened to all of its entries.
//!
//! Made from a capture, from pools, or by `profile` from the log of a profile. Printed as a
//! line of `process_table`, or as JSON.

use std::collections::BTreeMap;

use profiler_parent::EntryCounts;
use profiler_parent::recover::{Life, SurveyedProcess};
use profiler_parent::{CapturedProcess, Verdict};
use profiler_reader::ObservedTimeLog;
use serde::Serialize;

/// The row of one process.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) pid: u64,
    /// The host in a merged profile of several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// The process that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_pid: Option<u64>,
    pub(crate) threads: u64,
    pub(crate) recorded: u64,
    pub(crate) delivered: u64,
    /// Entries outside of the profile's range of time.
    pub(crate) outside: u64,
    pub(crate) evicted: u64,
    /// Dropped entries, by reason.
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) unfinished: u64,
    pub(crate) verdict: String,
    /// Its processor time in the samples of a profile, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_ms: Option<f64>,
    /// How much of its processor time is in samples, if it was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed: Option<ObservedTimeLog>,
    /// The process whose session records it, if that is another session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recorded_by_pid: Option<u64>,
    /// When the session learned of it, and when it ended: milliseconds since the session's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) began_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_ms: Option<f64>,
    /// Whether it is running; known only for a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alive: Option<bool>,
    /// The bytes that its pool holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_bytes: Option<u64>,
}

impl Row {
    pub(crate) fn of_captured(process: &CapturedProcess) -> Self {
        let CapturedProcess {
            name,
            pid,
            parent,
            threads,
            counts,
            verdict,
            ..
        } = process;
        let row = Self::new(
            name,
            u64::from(pid.get()),
            u64::from(*threads),
            counts,
            verdict,
        );
        Self {
            parent_pid: parent.map(|parent| u64::from(parent.get())),
            ..row
        }
    }

    pub(crate) fn of_surveyed(process: &SurveyedProcess) -> Self {
        let SurveyedProcess {
            name,
            pid,
            threads,
            counts,
            held_bytes,
            life,
            ..
        } = process;
        let row = Self::new(
            name,
            u64::from(pid.get()),
            u64::from(*threads),
            counts,
            &process.verdict(),
        );
        let verdict = match life {
            Life::Running => "running".to_owned(),
            _ => row.verdict,
        };
        Self {
            verdict,
            alive: Some(*life == Life::Running),
            held_bytes: Some(*held_bytes),
            ..row
        }
    }

    fn new(name: &str, pid: u64, threads: u64, counts: &EntryCounts, verdict: &Verdict) -> Self {
        Self {
            name: name.to_owned(),
            pid,
            threads,
            recorded: counts.recorded(),
            delivered: counts.delivered,
            outside: counts.outside,
            evicted: counts.evicted,
            dropped: counts
                .dropped
                .iter()
                .map(|(reason, n)| (reason.name().to_owned(), n))
                .collect(),
            unfinished: counts.unfinished,
            verdict: verdict.to_string(),
            ..Self::default()
        }
    }
}
