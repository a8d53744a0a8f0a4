//! Laws of the text for any names and numbers: every series is there once, with its exact labels
//! and number; buckets contain each other; the number of series is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use profiler_core::groups::GroupKind;
use profiler_core::ids::PoolId;
use proptest::prelude::*;

use super::metrics;
use super::parsed::{Series, parse};
use crate::TextFormat;
use profiler_parent::internal::session_metrics::{
    GroupKey, GroupSum, MAX_GROUPS, MAX_NAMES, OTHER, ProcessName, ProcessSum, SessionSums,
};
use profiler_parent::internal::session_metrics::{
    MetricsReading, PresentProcesses, ProcessMetricsRow,
};

const FORMATS: [TextFormat; 2] = [TextFormat::Prometheus, TextFormat::OpenMetrics];

fn sum() -> impl Strategy<Value = GroupSum> {
    (any::<[u64; 6]>(), any::<[u64; 10]>()).prop_map(|(numbers, mut within)| {
        let [entries, runs, wall_ns, measured_ns, cpu_ns, blocking_ns] = numbers;
        within = within.map(|runs_within| runs_within.min(runs));
        within.sort_unstable();
        GroupSum {
            entries,
            runs,
            wall_ns,
            measured_ns,
            cpu_ns,
            blocking_ns,
            within,
        }
    })
}

fn kind() -> impl Strategy<Value = GroupKind> {
    const KINDS: &[GroupKind] = &[GroupKind::Thread, GroupKind::Plugin, GroupKind::Other];
    prop::sample::select(KINDS)
}

/// Few letters, so that names are equal, are `other`, and need escapes.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\\\\\"\n,={} \0]{0,3}", "other", "\\PC{0,9}"]
}

/// What a session shows of these groups.
fn shown(groups: &[(GroupKey, GroupSum)]) -> MetricsReading {
    let mut sums = SessionSums::default();
    let rows = groups.iter().map(|(key, sum)| (key, sum));
    let groups_in_other = sums.groups.read(&PoolId::new(1), rows);
    let shown = sums.groups.show();
    MetricsReading {
        groups: shown.own,
        other_groups: shown.other,
        groups_in_other,
        ..MetricsReading::default()
    }
}

fn series(name: &str, labels: &[(&str, &str)]) -> Series {
    let labels = labels.iter();
    let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (name.to_owned(), labels.collect())
}

/// The series of the entries into a group.
fn entries_of(key: &GroupKey) -> Series {
    let labels = [
        ("process", &*key.process),
        ("kind", key.kind.name()),
        ("group", &*key.name),
    ];
    series("profiler_group_entries_total", &labels)
}

/// The buckets of each histogram, in the order of their bounds.
fn buckets(all: &BTreeMap<Series, f64>) -> BTreeMap<Series, Vec<(f64, f64)>> {
    let mut histograms = BTreeMap::<Series, Vec<(f64, f64)>>::new();
    for ((name, labels), value) in all {
        let Some(name) = name.strip_suffix("_bucket") else {
            continue;
        };
        let mut labels = labels.clone();
        let bound = labels.remove("le").unwrap().parse().unwrap();
        let histogram = histograms.entry((name.to_owned(), labels)).or_default();
        histogram.push((bound, *value));
    }
    for histogram in histograms.values_mut() {
        histogram.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    histograms
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_names_and_numbers_give_each_series_once_and_exactly(
        groups in prop::collection::vec((name(), kind(), name(), sum()), 0..20),
    ) {
        let groups: Vec<(GroupKey, GroupSum)> = groups
            .into_iter()
            .map(|(process, kind, name, sum)| {
                let process = ProcessName::new(&process).0;
                (GroupKey::new(&process, kind, &name), sum)
            })
            .collect();
        let mut expected = BTreeMap::<Series, u64>::new();
        for (key, sum) in &groups {
            let entries = expected.entry(entries_of(key)).or_default();
            *entries = entries.saturating_add(sum.entries);
        }
        let metrics = metrics(shown(&groups));
        for format in FORMATS {
            let all = parse(&metrics.text(format));
            let mut found = all.clone();
            found.retain(|(name, _), _| name == "profiler_group_entries_total");
            let expected: BTreeMap<Series, f64> = expected
                .iter()
                .map(|(series, entries)| (series.clone(), entries.to_string().parse().unwrap()))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn buckets_contain_each_other_and_the_last_has_all_runs(
        groups in prop::collection::vec(sum(), 1..5),
    ) {
        let process = Arc::<str>::from("p");
        let key = |number: usize| GroupKey::new(&process, GroupKind::Plugin, &number.to_string());
        let groups = groups.into_iter().enumerate();
        let groups: Vec<_> = groups.map(|(number, sum)| (key(number), sum)).collect();
        let all = parse(&metrics(shown(&groups)).text(TextFormat::Prometheus));
        let histograms = buckets(&all);
        prop_assert_eq!(histograms.len(), groups.len());
        for ((name, labels), buckets) in histograms {
            prop_assert_eq!(buckets.len(), 11);
            prop_assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{:?}", buckets);
            let count = all.get(&(format!("{name}_count"), labels.clone()));
            prop_assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count.unwrap())));
            let sum = (format!("{name}_sum"), labels);
            prop_assert!(all.contains_key(&sum));
        }
    }
}

/// What one of two processes of a name has done at a reading; `None` if it cannot be read.
fn part() -> impl Strategy<Value = Option<GroupSum>> {
    prop::option::weighted(0.8, sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any numbers, so also those of processes that overwrite theirs with less.
    #[test]
    fn no_number_of_a_group_falls_from_one_text_to_the_next(
        readings in prop::collection::vec((part(), part(), any::<bool>()), 1..5),
    ) {
        let key = GroupKey::new(&"p".into(), GroupKind::Plugin, "checker");
        let mut sums = SessionSums::default();
        let mut before = BTreeMap::new();
        for (number, (first, second, ends)) in (0..).zip(readings) {
            sums.groups.read(&PoolId::new(1), first.as_ref().map(|sum| (&key, sum)));
            // The second process is a new one if the one before has ended.
            sums.groups.read(&PoolId::new(2 + number), second.as_ref().map(|sum| (&key, sum)));
            if ends {
                sums.groups.finish(&PoolId::new(2 + number), []);
            }
            let shown = sums.groups.show();
            let reading = MetricsReading { groups: shown.own, ..MetricsReading::default() };
            let now = parse(&metrics(reading).text(TextFormat::Prometheus));
            for (series, earlier) in &before {
                prop_assert!(now.get(series) >= Some(earlier), "{:?}", series);
            }
            before = now;
        }
    }
}

#[test]
fn ten_thousand_groups_have_a_bounded_number_of_series_and_none_is_lost() {
    const GROUPS: u64 = 10_000;
    let process = Arc::<str>::from("p");
    let groups: Vec<_> = (0..GROUPS)
        .map(|number| {
            let key = GroupKey::new(&process, GroupKind::Tenant, &format!("tenant {number}"));
            (key, super::group(number))
        })
        .collect();
    let all = parse(&metrics(shown(&groups)).text(TextFormat::Prometheus));
    let of = |wanted: &str| {
        let found = all.iter().filter(|((name, _), _)| name == wanted);
        found.map(|(_, value)| *value).collect::<Vec<f64>>()
    };
    let entries = of("profiler_group_entries_total");
    assert_eq!(entries.len(), MAX_GROUPS + 1);
    let expected: u64 = (0..GROUPS).map(|number| number + 2).sum();
    assert_eq!(entries.iter().sum::<f64>(), expected as f64);
    let in_other = (GROUPS - MAX_GROUPS as u64) as f64;
    assert_eq!(of("profiler_groups_in_other"), [in_other]);
    let other = [("process", OTHER), ("kind", OTHER), ("group", OTHER)];
    let other = series("profiler_group_run_duration_seconds_count", &other);
    assert!(all.get(&other) > Some(&0.0));
}

#[test]
fn further_names_of_processes_share_one_row() {
    let mut sums = SessionSums::default();
    let lives: Vec<(ProcessName, ProcessSum)> = (0..MAX_NAMES + 50)
        .map(|number| {
            let sum = ProcessSum {
                starts: 1,
                ..ProcessSum::default()
            };
            (ProcessName::new(&format!("process {number:03}")), sum)
        })
        .collect();
    let lives_of_all = lives.iter().map(|(name, sum)| (name, sum));
    sums.processes.read(&PoolId::new(1), lives_of_all);
    let shown = sums.processes.show();
    let other = shown.other.map(|sum| (ProcessName::other(), sum));
    let rows = shown.own.into_iter().chain(other);
    let processes = rows.map(|(name, sum)| ProcessMetricsRow {
        name: name.0,
        sum,
        present: PresentProcesses::default(),
    });
    let reading = MetricsReading {
        processes: processes.collect(),
        ..MetricsReading::default()
    };
    let all = parse(&metrics(reading).text(TextFormat::OpenMetrics));
    let starts = all
        .iter()
        .filter(|((name, _), _)| name == "profiler_process_starts_total");
    let starts: Vec<f64> = starts.map(|(_, value)| *value).collect();
    assert_eq!(starts.len(), MAX_NAMES + 1);
    assert_eq!(starts.iter().sum::<f64>(), lives.len() as f64);
    let other = series("profiler_process_starts_total", &[("process", OTHER)]);
    assert_eq!(all.get(&other), Some(&50.0));
}
