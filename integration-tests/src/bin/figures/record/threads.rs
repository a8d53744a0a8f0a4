//! Two threads recording at once on two cores, against one alone.
//!
//! Every round has three turns: the first thread alone, the second alone, both together. Nothing
//! is shared between them but the chunk manager, so together must cost each what alone does.
//! With fewer than two cores there is nothing to measure.

use std::sync::Barrier;

use profiler_core::session::SessionParams;

use super::kinds::{BATCH, instant};
use crate::figure::{Figure, Promise, Report};
use crate::measure::{cores, median_ratio, ns_each, pin_to};
use crate::recording::{Recording, objection};

const ROUNDS: usize = 201;

/// A thread's times alone and together with the other, round by round.
#[derive(Default)]
struct Times {
    alone: Vec<f64>,
    together: Vec<f64>,
}

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let figure =
        |value| Figure::new("record.threads2.ratio", value, "x one thread").promised(Promise::AtMost(1.1));
    let &[first, second, ..] = &*cores() else {
        report.put(figure(f64::NAN).unless(Some("there is one core only".to_owned())));
        return Ok(());
    };
    let recording = Recording::start(SessionParams::DEFAULT_LIMIT.get())?;
    let turns = Barrier::new(2);
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| record_in_turns(&turns, second, 1));
        (record_in_turns(&turns, first, 0), other.join())
    });
    let other = other.map_err(|_| anyhow::anyhow!("the second thread panicked"))?;
    let worse = [one, other].iter().map(|t| median_ratio(&t.together, &t.alone)).fold(0.0, f64::max);
    let objection = objection(&recording.counts()?, 4 * ROUNDS as u64 * u64::from(BATCH));
    report.put(figure(worse).unless(objection));
    Ok(())
}

/// What one of the two threads does; its own turn alone is `turn`, the last one is for both.
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
