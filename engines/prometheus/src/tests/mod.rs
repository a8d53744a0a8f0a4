//! Tests of the text: the whole text of fixed numbers, and the laws that hold for any.

mod laws;
mod parsed;
mod pushed;

use std::sync::Arc;

use profiler_core::groups::GroupKind;

use super::{Metrics, TextFormat};
use profiler_parent::internal::session_metrics::PoolMemory;
use profiler_parent::internal::session_metrics::{
    Budget, MetricsReading, PresentProcesses, ProcessMetricsRow, ScrapeCost,
};
use profiler_parent::internal::session_metrics::{GroupKey, GroupSum, OTHER, ProcessSum};

/// The metrics of these numbers.
fn metrics(reading: MetricsReading) -> Metrics {
    let cost = ScrapeCost {
        scrapes: 12,
        readings: 11,
        busy_ns: 34_500_000,
    };
    let reading = Arc::new(reading);
    Metrics { reading, cost }
}

/// A group with this number of runs: a tenth each longer than 1, 2, 4 ms and so on.
fn group(runs: u64) -> GroupSum {
    let within = |bucket: usize| runs - runs * (10 - bucket as u64) / 10;
    GroupSum {
        entries: runs + 2,
        runs,
        wall_ns: runs * 40_000_000,
        measured_ns: runs * 39_000_001,
        cpu_ns: runs * 30_500_000,
        blocking_ns: runs * 8_000_000,
        within: std::array::from_fn(within),
    }
}

fn process(name: &str, starts: u64) -> ProcessMetricsRow {
    ProcessMetricsRow {
        name: name.into(),
        sum: ProcessSum {
            starts,
            ends: [starts - 1, 0, 0, 1, 0, 0, 0, 0],
            recorded: 1000 * starts,
            evicted: 300,
            dropped: [1, 2, 3, 4, 5, 6, 7],
            unfinished: 1,
        },
        present: PresentProcesses {
            by_activity: [0, 1, 1, 0, 2, 0],
            memory: PoolMemory {
                held: 4096 * starts,
                allowance: 8192 * starts,
                owed: 512,
                excess: 0,
            },
            left_out: 9,
        },
    }
}

/// The numbers of a session with two names of processes, and of more groups than have series of
/// their own.
fn fixed() -> MetricsReading {
    let worker = Arc::<str>::from("worker \"1\"\n\\");
    MetricsReading {
        session_start_unix_ns: 1_764_120_000_250_000_000,
        budget: Budget {
            limit: 1 << 20,
            charged: 900_000,
            peak: 1_000_000,
        },
        processes: vec![process("host", 1), process(&worker, 3), process(OTHER, 7)],
        groups: vec![
            (
                GroupKey::new(&"host".into(), GroupKind::Thread, "main"),
                GroupSum::default(),
            ),
            (
                GroupKey::new(&worker, GroupKind::Process, "its own name is not used"),
                group(10),
            ),
            (
                GroupKey::new(&worker, GroupKind::Plugin, "ad blocker"),
                group(7),
            ),
        ],
        other_groups: Some(group(1)),
        groups_in_other: 5,
        unread: 1,
        pushed: None,
    }
}

#[test]
fn the_whole_text_for_prometheus() {
    insta::assert_snapshot!(metrics(fixed()).text(TextFormat::Prometheus));
}

#[test]
fn the_whole_text_in_open_metrics() {
    insta::assert_snapshot!(metrics(fixed()).text(TextFormat::OpenMetrics));
}

#[test]
fn a_session_without_groups_and_processes_has_a_text() {
    let text = metrics(MetricsReading::default()).text(TextFormat::OpenMetrics);
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(parsed::parse(&text).len(), 11, "{text}");
}
