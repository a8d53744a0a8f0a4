//! Compares two threads that record at the same time on two cores with one thread alone.
//!
//! Every round has three turns: the first thread alone, the second alone, both together. The
//! threads share only the chunk manager, so recording together must cost each thread what recording
//! alone costs. With fewer than two cores there is nothing to measure.

use std::sync::Barrier;

use profiler_core::session::SessionParams;

use super::kinds::{BATCH, instant};
use crate::recording::{Recording, objection};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{cores, median_ratio, ns_each, pin_to};

const ROUNDS: usize = 201;

/// A thread's times alone and together with the other thread, per round.
#[derive(Default)]
struct Times {
    alone: Vec<f64>,
    together: Vec<f64>,
}

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let figure = |value| {
        Figure::new("record.threads2.ratio", value, "x one thread").promised(Promise::AtMost(1.1))
    };
    let &[first, second, ..] = &*cores() else {
        report.put(figure(f64::NAN).unless(Some("there is one core only".to_owned())));
        return Ok(());
    };
    let recording = Recording::start(SessionParams::DEFAULT_LIMIT.get())?;
    let turns = Barrier::new(2);
    let (first_times, second_times) = std::thread::scope(|scope| {
        let second_thread = scope.spawn(|| record_in_turns(&turns, second, 1));
        (record_in_turns(&turns, first, 0), second_thread.join())
    });
    let second_times = second_times.map_err(|_| anyhow::anyhow!("the second thread panicked"))?;
    let worse = [first_times, second_times]
        .iter()
        .map(|times| median_ratio(&times.together, &times.alone))
        .fold(0.0, f64::max);
    let objection = objection(&recording.counts()?, 4 * ROUNDS as u64 * u64::from(BATCH));
    report.put(figure(worse).unless(objection));
    Ok(())
}

/// Runs one of the two threads. It records alone in turn number `turn`, and together with the other
/// thread in the last turn.
fn record_in_turns(turns: &Barrier, core: usize, turn: usize) -> Times {
    let _pinned = pin_to(core);
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        for now in 0..3 {
            turns.wait();
            if now == turn {
                times.alone.push(ns_each(BATCH, instant));
            } else if now == 2 {
                times.together.push(ns_each(BATCH, instant));
            }
        }
    }
    times
}
