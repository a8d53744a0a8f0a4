//! Measures each subject in processes of its own, and prints the figures.
//!
//! The figures of the profiler are `tracing.OPERATION.ns`, those of another subject
//! `tracing.SUBJECT.OPERATION.ns`. Exit code 1: a promise was missed.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use crate::operations;
use crate::subjects::Install;

/// The argument before the name of the subject to measure.
const SUBJECT: &str = "--subject";
/// The number of processes per subject.
const TURNS: usize = 5;
/// The largest cost of a span with a field, in two reads of the clock.
const MOST_CLOCK_READS: f64 = 2.5;
/// The largest share of the cost of the best peer.
const MOST_OF_PEER: f64 = 0.5;

/// Nanoseconds by subject and operation.
type Costs = BTreeMap<(String, String), f64>;

/// Measures the subject that the arguments name, or all subjects.
pub(crate) fn run(subjects: &[(&str, Install)]) -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let named = words.windows(2).find(|pair| pair[0] == SUBJECT);
    if let Some([_, name]) = named {
        let install = subjects.iter().find(|(known, _)| known == name);
        let _installed = install.map(|(_, install)| install());
        for (operation, ns) in operations::measure_all() {
            println!("{operation} {ns}");
        }
        return ExitCode::SUCCESS;
    }
    let mut costs = Costs::new();
    for (name, _) in (0..TURNS).flat_map(|_| subjects) {
        measure(name, &mut costs);
    }
    report(subjects, &costs)
}

/// Measures one subject in a process of its own.
fn measure(name: &str, costs: &mut Costs) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([SUBJECT, name]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{name}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    for (operation, ns) in text.lines().filter_map(|line| line.split_once(' ')) {
        let Ok(ns) = ns.parse::<f64>() else { continue };
        let key = (name.to_owned(), operation.to_owned());
        let least = costs.entry(key).or_insert(f64::INFINITY);
        *least = least.min(ns);
    }
}

fn report(subjects: &[(&str, Install)], costs: &Costs) -> ExitCode {
    let cost = |subject: &str, operation: &str| {
        let key = (subject.to_owned(), operation.to_owned());
        costs.get(&key).copied().unwrap_or(f64::NAN)
    };
    put(
        "tracing.disabled.ns",
        cost("disabled", "span_with_field"),
        "ns",
        None,
    );
    for operation in ["span", "span_with_field", "event"] {
        put(
            &format!("tracing.{operation}.ns"),
            cost("profiler", operation),
            "ns",
            None,
        );
    }
    put(
        "tracing.enter_exit.ns",
        cost("profiler", "poll"),
        "ns",
        None,
    );
    put(
        "tracing.poll.ns",
        cost("profiler_polls", "poll"),
        "ns",
        None,
    );
    let clock = cost("profiler", "two_clock_reads");
    put("tracing.two_clock_reads.ns", clock, "ns", None);
    let ours = cost("profiler", "span_with_field");
    let is_kept = put(
        "tracing.span_with_field.ratio",
        ours / clock,
        "x",
        Some(MOST_CLOCK_READS),
    );
    let others = subjects.iter().map(|(name, _)| *name);
    for name in others
        .clone()
        .filter(|name| !matches!(*name, "disabled" | "profiler"))
    {
        for operation in ["span", "span_with_field", "poll", "event"] {
            put(
                &format!("tracing.{name}.{operation}.ns"),
                cost(name, operation),
                "ns",
                None,
            );
        }
    }
    let peers = others.filter_map(|name| name.strip_prefix("peer_"));
    let best = peers.map(|name| cost(&format!("peer_{name}"), "span_with_field"));
    // A peer without a figure leaves no best one, so the promise counts as missed.
    let best = best.reduce(least_known).unwrap_or(f64::NAN);
    let is_kept = is_kept
        & put(
            "tracing.vs_best_peer.ratio",
            ours / best,
            "x",
            Some(MOST_OF_PEER),
        );
    ExitCode::from(u8::from(!is_kept))
}

/// The smaller of two figures; not a number if one of them is not.
fn least_known(first: f64, second: f64) -> f64 {
    if first.is_nan() || second.is_nan() {
        f64::NAN
    } else {
        first.min(second)
    }
}

/// Prints a figure; true if its promise is kept.
fn put(name: &str, value: f64, unit: &str, most: Option<f64>) -> bool {
    let promise = most.map_or("-".to_owned(), |most| format!("<= {most}"));
    println!("{name}\t{value:.3}\t{unit}\t{promise}");
    most.is_none_or(|most| value <= most)
}
