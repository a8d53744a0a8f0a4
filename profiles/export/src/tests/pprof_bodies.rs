//! Tests of pprof: a body for each process, and groups as labels of samples.

use std::collections::BTreeMap;

use super::formats::fields;
use super::otlp::{encoded, profile};
use crate::bodies::BodyKind;
use crate::encode::Encoding;

/// The labels and the bytes of each body.
fn bodies(most: usize) -> Vec<(BTreeMap<&'static str, String>, Vec<u8>)> {
    let kept = encoded(&profile(), Encoding::Pprof, most);
    let labels = |kind| match kind {
        BodyKind::Pprof(series) => {
            assert!(series.from_ns <= series.until_ns);
            let service = ("service_name", series.service);
            series.labels.into_iter().chain([service]).collect()
        }
        other => panic!("{other:?}"),
    };
    kept.0
        .into_iter()
        .map(|(kind, bytes)| (labels(kind), bytes))
        .collect()
}

/// The number of samples of each process and group.
fn counts(most: usize) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for (labels, bytes) in bodies(most) {
        let all = fields(&bytes);
        let texts = all.iter().filter(|(field, _)| *field == 6);
        let texts: Vec<_> = texts.map(|(_, text)| text.clone().unwrap_err()).collect();
        let text = |at: u64| String::from_utf8(texts[at as usize].clone()).unwrap();
        for (_, sample) in all.iter().filter(|(field, _)| *field == 2) {
            let (mut group, mut count) = (String::new(), 0);
            for (field, value) in fields(sample.as_ref().unwrap_err()) {
                match (field, value) {
                    (2, Err(values)) => count = u64::from(values[0]),
                    (3, Err(label)) => {
                        let label: BTreeMap<_, _> = fields(&label).into_iter().collect();
                        let key = text(*label[&1].as_ref().unwrap());
                        if key == "group" {
                            group = text(*label[&2].as_ref().unwrap());
                        }
                    }
                    _ => {}
                }
            }
            *counts
                .entry((labels["process"].clone(), group))
                .or_insert(0) += count;
        }
    }
    counts
}

#[test]
fn each_process_has_bodies_of_its_own_with_its_labels() {
    let all: Vec<_> = bodies(1 << 20)
        .into_iter()
        .map(|(labels, _)| labels)
        .collect();
    let labels = |process: &str| {
        let pairs = [
            ("service_name", "app"),
            ("process", process),
            ("host", "node-1"),
        ];
        BTreeMap::from(pairs.map(|(key, value)| (key, value.to_owned())))
    };
    assert_eq!(all, [labels("app"), labels("worker")]);
}

#[test]
fn samples_have_the_group_of_the_innermost_span() {
    let row = |process: &str, group: &str| (process.to_owned(), group.to_owned());
    let expected = [
        (row("app", ""), 5),
        (row("app", "tenants"), 4),
        (row("worker", ""), 5),
    ];
    assert_eq!(counts(1 << 20), BTreeMap::from(expected));
}

#[test]
fn a_limit_divides_the_samples_of_a_process() {
    let limit = 700;
    let longest = bodies(limit).iter().map(|(_, bytes)| bytes.len()).max();
    assert!(
        bodies(limit).len() > 2 && longest <= Some(limit),
        "{longest:?}"
    );
    assert_eq!(counts(limit), counts(1 << 20));
}
