//! Measures each subject in processes of its own, and prints the figures
//! `tokio.SUBJECT.OPERATION.ns`.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use crate::operations;
use crate::subjects::Subject;

/// The argument before the name of the subject to measure.
const SUBJECT: &str = "--subject";
/// The number of processes per subject.
const TURNS: usize = 5;
const OPERATIONS: [&str; 3] = ["task", "task_on_worker", "poll"];

/// Nanoseconds of each process, by subject and operation.
type Costs = BTreeMap<(String, String), Vec<f64>>;

/// Measures the subject that the arguments name, or all subjects.
pub(crate) fn run(subjects: &[Subject]) -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let named = words.windows(2).find(|pair| pair[0] == SUBJECT);
    if let Some([_, name]) = named {
        let subject = subjects.iter().find(|subject| subject.name == name);
        let subject = subject.expect("a known subject");
        for (operation, ns) in operations::measure_all(subject) {
            println!("{operation} {ns}");
        }
        return ExitCode::SUCCESS;
    }
    let mut costs = Costs::new();
    for subject in (0..TURNS).flat_map(|_| subjects) {
        measure(subject.name, &mut costs);
    }
    report(subjects, costs);
    ExitCode::SUCCESS
}

/// Measures one subject in a process of its own.
fn measure(name: &str, costs: &mut Costs) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([SUBJECT, name]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{name}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    for (operation, ns) in text.lines().filter_map(|line| line.split_once(' ')) {
        let key = (name.to_owned(), operation.to_owned());
        costs.entry(key).or_default().extend(ns.parse::<f64>());
    }
}

fn report(subjects: &[Subject], mut costs: Costs) {
    for subject in subjects {
        for operation in OPERATIONS {
            let key = (subject.name.to_owned(), operation.to_owned());
            let median = costs
                .get_mut(&key)
                .map_or(f64::NAN, |values| median(values));
            println!("tokio.{}.{operation}.ns\t{median:.1}\tns\t-", subject.name);
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
