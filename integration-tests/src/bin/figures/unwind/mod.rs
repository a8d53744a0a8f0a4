//! Group `unwind`: where to unwind. An experiment beside the profiler: nothing of it is in what ships.
//!
//! Two signal handlers on the same thread, at the same depth, one after the other in every round: `copy` takes registers
//! and stack, and another thread unwinds (what the sampler does); `walk` unwinds in the handler, over a list of
//! modules that nobody changes, with memory set aside before. Neither has anything else of the sampler. Three states:
//!
//! | state | before each signal |
//! |---|---|
//! | `warm` | the thread runs on as it did |
//! | `cold` | the thread has gone through more memory than all caches hold |
//! | `new` | the unwinder's cache is empty: no function was met before |
//!
//! `held_us`: what the thread's own clock misses around a signal. `inside_us`: the copying or walking alone. `cpu_us`: that, and what the other thread unwinds
//! afterwards. `handler_stack_bytes`: what handler and signal take of the stack that they run on.
//! `docs/where-to-unwind.md` says what follows from it.

mod handler;
mod memory;
mod modules;
mod stage;

use anyhow::{Context, Result};

use crate::figure::{Figure, Report};
use handler::Method;
use stage::{Stage, State, Took};

const DEPTHS: [u32; 3] = [10, 30, 100];
const ROUNDS: usize = 4;
const METHODS: [Method; 2] = [Method::Copy, Method::Walk];

/// All figures of the group.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    handler::install(modules::all()?)?;
    for depth in DEPTHS {
        measure_depth(report, depth)?;
    }
    for method in METHODS {
        let bytes = handler::most_stack(method) as f64;
        report.put(Figure::new(format!("unwind.{}.handler_stack_bytes", method.name()), bytes, "bytes"));
    }
    Ok(())
}

fn measure_depth(report: &mut Report, depth: u32) -> Result<()> {
    let stage = Stage::new(depth);
    let mut size = (0, 0);
    for state in [State::Warm, State::Cold, State::New] {
        let mut took = [Took::default(), Took::default()];
        for _ in 0..ROUNDS {
            for (took, method) in took.iter_mut().zip(METHODS) {
                took.add(stage.run(method, state)?);
            }
        }
        for (took, method) in took.iter().zip(METHODS) {
            put(report, took, &format!("unwind.{}.depth_{depth}.{}", method.name(), state.name()))?;
        }
        size = took[0].size;
        // Otherwise two different things were compared.
        let differ = took[0].size.0.abs_diff(took[1].size.0) > 1;
        let reason = differ.then(|| format!("{} and {} frames", took[0].size.0, took[1].size.0));
        let more = took[1].inside_us() - took[0].inside_us();
        let name = format!("unwind.depth_{depth}.{}.walk_holds_longer_us", state.name());
        report.put(Figure::new(name, more, "µs").unless(reason));
    }
    report.put(Figure::new(format!("unwind.depth_{depth}.frames"), size.0 as f64, "frames"));
    report.put(Figure::new(format!("unwind.depth_{depth}.stack_bytes"), size.1 as f64, "bytes"));
    Ok(())
}

fn put(report: &mut Report, took: &Took, name: &str) -> Result<()> {
    let held = |part| took.held(part).context("nothing was taken");
    report.put(Figure::new(format!("{name}.held_us.p50"), held(0.5)?, "µs"));
    report.put(Figure::new(format!("{name}.held_us.p99"), held(0.99)?, "µs"));
    report.put(Figure::new(format!("{name}.inside_us"), took.inside_us(), "µs"));
    report.put(Figure::new(format!("{name}.cpu_us"), held(0.5)? + took.unwinding_us(), "µs per sample"));
    Ok(())
}
