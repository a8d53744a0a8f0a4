//! Measures subjects in processes of their own, which take turns.
//!
//! Used by the figures of `integrations/log` and `integrations/metrics`: a process has one logger
//! and one recorder. The program starts itself with the name of a subject. Each operation is
//! repeated in short rounds, and the fastest round of all turns counts: a round that was
//! interrupted says nothing about the operation.

use std::collections::BTreeMap;
use std::process::Command;

use test_support::patience::Stopwatch;

/// The argument before the name of the subject to measure.
const SUBJECT: &str = "--subject";
/// The number of processes per subject.
const TURNS: usize = 5;
const ROUNDS: u32 = 400;
const REPETITIONS: u32 = 500;

/// The operations to measure, with their names.
pub(crate) type Operations = Vec<(&'static str, Box<dyn Fn()>)>;

/// Installs a subject.
pub(crate) type Install = fn() -> Operations;

/// The nanoseconds of one call in the fastest round.
fn nanoseconds(operation: &dyn Fn()) -> f64 {
    let round = || {
        let watch = Stopwatch::start();
        (0..REPETITIONS).for_each(|_| operation());
        watch.elapsed()
    };
    let fastest = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    fastest.as_secs_f64() * 1e9 / f64::from(REPETITIONS)
}

/// Measures the subject that the arguments name, or prints `PREFIX.SUBJECT.OPERATION.ns` for all.
pub(crate) fn run(prefix: &str, subjects: &[(&str, Install)]) {
    let words: Vec<String> = std::env::args().collect();
    let named = words.windows(2).find(|pair| pair[0] == SUBJECT);
    if let Some([_, name]) = named {
        let install = subjects.iter().find(|(known, _)| known == name);
        for (operation, body) in install.map(|(_, install)| install()).unwrap_or_default() {
            println!("{operation} {}", nanoseconds(&body));
        }
        return;
    }
    let mut costs: Vec<BTreeMap<String, f64>> = vec![BTreeMap::new(); subjects.len()];
    for _ in 0..TURNS {
        for ((name, _), costs) in subjects.iter().zip(&mut costs) {
            measure(name, costs);
        }
    }
    for ((name, _), costs) in subjects.iter().zip(&costs) {
        for (operation, ns) in costs {
            println!("{prefix}.{name}.{operation}.ns\t{ns:.3}\tns\t-");
        }
    }
}

/// Measures one subject in a process of its own.
fn measure(name: &str, costs: &mut BTreeMap<String, f64>) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([SUBJECT, name]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{name}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    for (operation, ns) in text.lines().filter_map(|line| line.split_once(' ')) {
        let Ok(ns) = ns.parse::<f64>() else { continue };
        let least = costs.entry(operation.to_owned()).or_insert(f64::INFINITY);
        *least = least.min(ns);
    }
}
