//! Counts the system calls and allocations of a thread that records into a warm chunk. There must
//! be none.
//!
//! All four kinds of marker are recorded in short windows. The kernel's own filter reports every
//! system call of the thread ([`super::syscalls`]), and every call of the allocator is counted.
//! Windows in which the thread switched its chunk are counted separately, because a switch may wake
//! the profiler's own thread with one futex call. Such windows allocate nothing either, unless no
//! chunk was ready and the thread took the slow path.

use anyhow::{Context, Result, ensure};
use profiler_core::session::SessionParams;

use super::kinds::{instant, interval, text, typed};
use super::syscalls::Watched;
use crate::recording::{Recording, objection};
use integration_tests::counting::allocations_of;
use integration_tests::figure::{Figure, Promise, Report};

/// Number of entries to record in windows without a chunk switch.
const ENTRIES: u64 = 1_000_000;
/// Rounds of all four kinds per window: about a third of the largest chunk.
const ROUNDS: u64 = 2_000;
const KINDS: u64 = 4;
/// Windows before the measurement.
const WARM_UP: u64 = 20;

/// The results of the windows.
#[derive(Default)]
struct Seen {
    entries: u64,
    syscalls: u64,
    allocations: u64,
    /// All windows, including those with a chunk switch.
    windows: u64,
    switches: u64,
    switch_syscalls: u64,
    switch_allocations: u64,
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let recording = Recording::start(SessionParams::DEFAULT_LIMIT.get())?;
    let seen = std::thread::scope(|scope| {
        let thread = scope.spawn(|| record_watched(&recording));
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("the watched thread panicked"))?
    })?;
    let counts = recording.counts()?;
    ensure!(
        counts.evicted == 0,
        "chunks were recycled, so chunk switches could not be counted"
    );
    let objection = objection(&counts, (WARM_UP + seen.windows) * ROUNDS * KINDS);
    let per_million = |count: u64| count as f64 * 1e6 / seen.entries as f64;
    let per_switch = |count: u64| count as f64 / seen.switches as f64;
    let figures = [
        (
            "record.allocations",
            per_million(seen.allocations),
            "per million",
            Promise::AtMost(0.0),
        ),
        (
            "record.syscalls",
            per_million(seen.syscalls),
            "per million",
            Promise::AtMost(0.0),
        ),
        (
            "record.switch.syscalls",
            per_switch(seen.switch_syscalls),
            "per switch",
            Promise::AtMost(1.0),
        ),
        (
            "record.switch.allocations",
            per_switch(seen.switch_allocations),
            "per switch",
            Promise::AtMost(0.0),
        ),
    ];
    for (name, value, unit, promise) in figures {
        report.put(
            Figure::new(name, value, unit)
                .promised(promise)
                .unless(objection.clone()),
        );
    }
    Ok(())
}

/// Records on the calling thread, and watches its system calls from here on.
fn record_watched(recording: &Recording) -> Result<Seen> {
    (0..WARM_UP).for_each(|_| window()); // registers the sites, grows the chunks
    let mut watched = Watched::start().context("system calls cannot be watched here")?;
    ensure!(
        watched.syscalls_of(three_calls) == 3,
        "the watch does not see system calls"
    );
    let mut seen = Seen::default();
    while seen.entries < ENTRIES {
        let before = chunks(recording)?;
        let mut syscalls = 0;
        let allocations = allocations_of(|| syscalls = watched.syscalls_of(window));
        seen.add(syscalls, allocations, chunks(recording)? - before);
    }
    Ok(seen)
}

impl Seen {
    fn add(&mut self, syscalls: u64, allocations: u64, switches: u64) {
        self.windows += 1;
        self.switches += switches;
        if switches == 0 {
            self.entries += ROUNDS * KINDS;
            self.syscalls += syscalls;
            self.allocations += allocations;
        } else {
            self.switch_syscalls += syscalls;
            self.switch_allocations += allocations;
        }
    }
}

/// Returns the number of chunks. None is removed while the session is far from its limit.
fn chunks(recording: &Recording) -> Result<u64> {
    Ok(recording.snapshot()?.chunks().count() as u64)
}

fn window() {
    for _ in 0..ROUNDS {
        instant();
        interval();
        text();
        typed();
    }
}

/// Makes three system calls, to test the watch.
fn three_calls() {
    (0..3).for_each(|_| {
        std::hint::black_box(rustix::process::getppid());
    });
}
