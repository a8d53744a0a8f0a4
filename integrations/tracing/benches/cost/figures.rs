//! Measures each subject in processes of its own, and prints the figures.
//!
//! The figures of the profiler are `tracing.OPERATION.ns`, those of another subject
//! `tracing.SUBJECT.OPERATION.ns`. Exit code 1: a promise was missed.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use crate::subjects::Subject;

/// The argument before the name of the subject to measure.
const SUBJECT: &str = "--subject";
/// The number of processes per subject.
const TURNS: usize = 5;
/// The beginning of the names of other profilers.
const PEER: &str = "peer_";
/// The largest cost of a span with a field, in two reads of the clock.
const MAX_CLOCK_READS: f64 = 2.5;
/// The largest share of the cost of the best peer.
const MAX_OF_PEER: f64 = 0.5;
/// The largest share of entries that find no room: a round that drops entries is too fast.
const MAX_DROPPED_PCT: f64 = 0.0;

/// The share of entries that found no room, among the operations of a subject.
const DROPPED: &str = "dropped_pct";

/// Nanoseconds by subject and operation.
#[derive(Default)]
struct Costs(BTreeMap<(String, String), f64>);

/// The rows that were printed.
struct Rows {
    are_kept: bool,
}

/// Measures the subject that the arguments name, or all subjects.
pub(crate) fn run(subjects: &[Subject]) -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let named = words.windows(2).find(|pair| pair[0] == SUBJECT);
    if let Some([_, name]) = named {
        let subject = subjects.iter().find(|subject| subject.name == name);
        let costs = subject.map_or_else(Vec::new, |subject| (subject.measure)());
        costs
            .iter()
            .for_each(|(operation, ns)| println!("{operation} {ns}"));
        return ExitCode::SUCCESS;
    }
    let mut costs = Costs::default();
    for subject in (0..TURNS).flat_map(|_| subjects) {
        costs.measure(subject.name);
    }
    report(subjects, &costs)
}

impl Costs {
    /// Measures one subject in a process of its own.
    fn measure(&mut self, name: &str) {
        let program = std::env::current_exe().expect("this program has a path");
        let output = Command::new(program).args([SUBJECT, name]).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{name}: {}", output.status);
        let text = String::from_utf8(output.stdout).unwrap_or_default();
        for (operation, ns) in text.lines().filter_map(|line| line.split_once(' ')) {
            let Ok(ns) = ns.parse::<f64>() else { continue };
            let key = (name.to_owned(), operation.to_owned());
            let known = self.0.entry(key).or_insert(ns);
            let is_share = operation == DROPPED;
            *known = if is_share {
                known.max(ns)
            } else {
                known.min(ns)
            };
        }
    }

    fn of(&self, subject: &str, operation: &str) -> f64 {
        let key = (subject.to_owned(), operation.to_owned());
        self.0.get(&key).copied().unwrap_or(f64::NAN)
    }
}

fn report(subjects: &[Subject], costs: &Costs) -> ExitCode {
    let mut rows = Rows { are_kept: true };
    rows.put(
        "tracing.disabled.ns",
        costs.of("disabled", "span_with_field"),
        "ns",
        None,
    );
    for operation in [
        "span",
        "span_with_field",
        "span_beside_clone",
        "event",
        "two_clock_reads",
    ] {
        rows.put(
            &format!("tracing.{operation}.ns"),
            costs.of("profiler", operation),
            "ns",
            None,
        );
    }
    rows.put(
        "tracing.enter_exit.ns",
        costs.of("profiler", "poll"),
        "ns",
        None,
    );
    rows.put(
        "tracing.poll.ns",
        costs.of("profiler_polls", "poll"),
        "ns",
        None,
    );
    let ours = costs.of("profiler", "span_with_field");
    let clock = costs.of("profiler", "two_clock_reads");
    rows.put(
        "tracing.span_with_field.ratio",
        ours / clock,
        "x",
        Some(MAX_CLOCK_READS),
    );
    rows.put(
        "tracing.dropped_pct",
        costs.of("profiler", DROPPED),
        "%",
        Some(MAX_DROPPED_PCT),
    );
    let names = || subjects.iter().map(|subject| subject.name);
    for name in names().filter(|name| !matches!(*name, "disabled" | "profiler")) {
        rows.put_subject(name, costs);
    }
    let peers = names().filter(|name| name.starts_with(PEER));
    let best = peers
        .map(|name| costs.of(name, "span_with_field"))
        .reduce(least_known);
    if let Some(best) = best {
        // Most peers are layers of a registry.
        let layer = costs.of("profiler_layer", "span_with_field");
        rows.put(
            "tracing.profiler_layer.vs_best_peer.ratio",
            layer / best,
            "x",
            None,
        );
        rows.put(
            "tracing.vs_best_peer.ratio",
            ours / best,
            "x",
            Some(MAX_OF_PEER),
        );
    }
    ExitCode::from(u8::from(!rows.are_kept))
}

/// The smaller of two figures; not a number if one of them is not, so that its promise is missed.
fn least_known(first: f64, second: f64) -> f64 {
    if first.is_nan() || second.is_nan() {
        f64::NAN
    } else {
        first.min(second)
    }
}

impl Rows {
    /// Prints all figures of a subject.
    fn put_subject(&mut self, name: &str, costs: &Costs) {
        for operation in ["span", "span_with_field", "poll", "event"] {
            let figure = format!("tracing.{name}.{operation}.ns");
            let ns = costs.of(name, operation);
            if !ns.is_nan() {
                self.put(&figure, ns, "ns", None);
            }
        }
    }

    /// Prints a figure.
    fn put(&mut self, name: &str, value: f64, unit: &str, most: Option<f64>) {
        let promise = most.map_or("-".to_owned(), |most| format!("<= {most}"));
        println!("{name}\t{value:.3}\t{unit}\t{promise}");
        self.are_kept &= most.is_none_or(|most| value <= most);
    }
}
