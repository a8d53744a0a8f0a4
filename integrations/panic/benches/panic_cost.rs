//! Figures: the cost of a panic that is caught, without the hook of this crate and with it.
//!
//! ```text
//! cargo bench -p profiler-panic
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! A process has one panic hook, so each subject is measured in a process of its own, which this
//! program starts. The subjects take turns, and the smallest value of all turns counts. The first
//! row is the cost without a session.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::panic::{catch_unwind, set_hook};
use std::process::{Command, ExitCode};

use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::patience::Stopwatch;

/// The argument before the name of the subject to measure.
const SUBJECT: &str = "--subject";
/// The number of processes per subject.
const TURNS: usize = 5;
const ROUNDS: u32 = 200;
const REPETITIONS: u32 = 50;

/// The subjects: `disabled` has the hook and no session, `none` has no hook of this crate. The
/// figures of the others are what they cost more than `none`.
const SUBJECTS: [&str; 3] = ["disabled", "none", "recorded"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let Some([_, name]) = words.windows(2).find(|pair| pair[0] == SUBJECT) {
        set_up(name);
        println!("{}", nanoseconds());
        return ExitCode::SUCCESS;
    }
    let mut costs = BTreeMap::new();
    for name in (0..TURNS).flat_map(|_| SUBJECTS) {
        let cost = measure(name);
        let least = costs.entry(name).or_insert(f64::INFINITY);
        *least = least.min(cost);
    }
    put("panic.disabled.ns", costs["disabled"] - costs["none"]);
    put("panic.recorded.ns", costs["recorded"] - costs["none"]);
    put("panic.none.ns", costs["none"]);
    ExitCode::SUCCESS
}

/// Measures one subject in a process of its own.
fn measure(name: &str) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([SUBJECT, name]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{name}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    text.trim().parse().expect("a number")
}

/// Installs a subject. The hook of the program prints nothing.
fn set_up(name: &str) {
    set_hook(Box::new(|info| _ = black_box(info.location())));
    if name != "none" {
        profiler_panic::install();
    }
    if name == "recorded" {
        session::start(SessionParams::default(), StartOptions::default()).expect("a session");
    }
}

/// The nanoseconds of one caught panic in the fastest round.
fn nanoseconds() -> f64 {
    let round = || {
        let watch = Stopwatch::start();
        for number in 0..REPETITIONS {
            let _ = catch_unwind(|| assert!(black_box(number) > REPETITIONS, "no"));
        }
        watch.elapsed()
    };
    let fastest = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    fastest.as_secs_f64() * 1e9 / f64::from(REPETITIONS)
}

/// Prints a figure without a promise.
fn put(name: &str, value: f64) {
    println!("{name}\t{value:.3}\tns\t-");
}
