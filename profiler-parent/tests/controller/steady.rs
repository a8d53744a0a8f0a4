//! Tests of the scenarios for which the controller's rule was designed: the peak memory, the spans
//! of time that processes keep, and the number of messages.

use profiler_parent::internal::controller::Policy;

use super::simulation::{MIB, MS, Outcome, Scenario, fitting, simulate};

/// Chunks of 64 KiB for all processes.
fn equal_chunks(_: u64) -> u64 {
    64 * 1024
}

pub(crate) fn check(name: &str, scenario: Scenario, least_spread: f64, least_use: f64) -> Outcome {
    let outcome = simulate(scenario.clone());
    println!(
        "{name}: limit {} MiB, {} processes: peak/limit {:.3}, in use {:.2}, spread {:.2}, dropped {}, \
         messages {} = {:.1} per MiB, {:.0} ns per event, \
         at most {} commands, {} refused",
        scenario.limit / MIB,
        scenario.rates.len(),
        outcome.peak as f64 / scenario.limit as f64,
        outcome.in_use,
        outcome.spread,
        outcome.dropped,
        outcome.messages,
        outcome.messages_per_mib(),
        outcome.handle_ns as f64 / outcome.events as f64,
        outcome.most_commands,
        outcome.refused,
    );
    assert!(outcome.peak <= scenario.limit);
    assert!(
        outcome.spread >= least_spread,
        "{name}: spread {}",
        outcome.spread
    );
    assert!(
        outcome.in_use >= least_use,
        "{name}: in use {}",
        outcome.in_use
    );
    outcome
}

fn steady(limit: u64, rates: Vec<u64>) -> Scenario {
    let policy = Policy::new(128 * 1024 + 4096, 4096);
    Scenario {
        limit: limit * MIB,
        rates,
        chunk: equal_chunks,
        seconds: 10,
        bursts: false,
        starts_within: 10 * MS,
        policy,
        keep_events: false,
    }
}

fn doubling() -> Vec<u64> {
    (0..8).map(|power| MIB << power).collect()
}

#[test]
fn equal_processes_keep_equal_spans() {
    check("8 equal", steady(64, vec![8 * MIB; 8]), 0.93, 0.9);
}

#[test]
fn slow_and_fast_processes_keep_similar_spans() {
    check("1:2:..:128", steady(64, doubling()), 0.75, 0.9);
    check(
        "1:2:..:128, bursts",
        Scenario {
            bursts: true,
            ..steady(64, doubling())
        },
        0.7,
        0.9,
    );
}

/// The policy of a session: a few processes begin with most of the limit.
#[test]
fn large_first_allowances_leave_no_difference_between_spans() {
    for rates in [vec![8 * MIB; 8], doubling()] {
        let mut scenario = Scenario {
            chunk: fitting,
            ..steady(64, rates)
        };
        scenario.policy.initial = u64::MAX;
        check("large first allowances", scenario, 0.85, 0.9);
    }
}

/// Processes that fill the limit for the first time report and are answered. They are rarely asked
/// to give back what they were given.
#[test]
fn processes_that_fill_the_limit_cause_few_requests() {
    let mut scenario = Scenario {
        chunk: |_| 16 * 1024,
        seconds: 7,
        ..steady(128, vec![2 * MIB; 8])
    };
    scenario.policy.initial = u64::MAX;
    let outcome = check("while memory is free", scenario, 0.9, 0.7);
    // An update and an answer for each chunk.
    let usual = 2 * outcome.recorded / (16 * 1024);
    assert!(outcome.messages < usual + usual / 10, "{outcome:?}");
}

#[test]
fn chunk_sizes_that_fit_the_rate_make_spans_more_similar() {
    check(
        "1:2:..:128, fitting chunks",
        Scenario {
            chunk: fitting,
            ..steady(64, doubling())
        },
        0.9,
        0.9,
    );
}

#[test]
fn many_busy_processes_keep_similar_spans() {
    check("32 at 16 MiB/s", steady(64, vec![16 * MIB; 32]), 0.82, 0.9);
}

#[test]
fn very_fast_processes_keep_similar_spans() {
    check("8 at 100 MiB/s", steady(64, vec![100 * MIB; 8]), 0.85, 0.9);
    check(
        "8 at 100 MiB/s, large",
        steady(512, vec![100 * MIB; 8]),
        0.93,
        0.9,
    );
}
