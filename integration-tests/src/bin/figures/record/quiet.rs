//! System calls and allocations of a thread that records into a warm chunk: there are none.
//!
//! All four kinds of marker are recorded in short windows, with every system call of the thread seen by
//! the kernel's own filter ([`super::syscalls`]) and every call of the allocator counted. A window in
//! which the thread changed its chunk is set aside, because a change may wake the profiler's own
//! thread with one futex call; that is a figure of its own. So is what such windows allocate:
//! nothing, unless no chunk was ready and the thread went the slow way.

use anyhow::{Context, Result, ensure};
use profiler_core::session::SessionParams;

use super::kinds::{instant, interval, text, typed};
use super::syscalls::Watched;
use crate::figure::{Figure, Promise, Report};
use crate::recording::{Recording, objection};
use integration_tests::counting::allocations_of;

/// Entries that must have been recorded in windows without a change of chunk.
const ENTRIES: u64 = 1_000_000;
/// Rounds of all four kinds per window: about a third of the largest chunk.
const ROUNDS: u64 = 2_000;
const KINDS: u64 = 4;
/// Windows before the first that counts.
const WARM_UP: u64 = 20;

/// What the windows showed.
#[derive(Default)]
struct Seen {
    entries: u64,
    syscalls: u64,
    allocations: u64,
    /// All windows, those with a change of chunk too.
    windows: u64,
    switches: u64,
    switch_syscalls: u64,
    switch_allocations: u64,
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let recording = Recording::start(SessionParams::DEFAULT_LIMIT.get())?;
    let seen = std::thread::scope(|scope| {
        let thread = scope.spawn(|| record_watched(&recording));
        thread.join().map_err(|_| anyhow::anyhow!("the watched thread panicked"))?
    })?;
    let counts = recording.counts()?;
    ensure!(counts.evicted == 0, "chunks were recycled, so changes of chunk could not be counted");
    let objection = objection(&counts, (WARM_UP + seen.windows) * ROUNDS * KINDS);
    let per_million = |count: u64| count as f64 * 1e6 / seen.entries as f64;
    let per_switch = |count: u64| count as f64 / seen.switches as f64;
    let figures = [
        ("record.allocations", per_million(seen.allocations), "per million", Promise::AtMost(0.0)),
        ("record.syscalls", per_million(seen.syscalls), "per million", Promise::AtMost(0.0)),
        ("record.switch.syscalls", per_switch(seen.switch_syscalls), "per switch", Promise::AtMost(1.0)),
        (
            "record.switch.allocations",
            per_switch(seen.switch_allocations),
            "per switch",
            Promise::AtMost(0.0),
        ),
    ];
    for (name, value, unit, promise) in figures {
        report.put(Figure::new(name, value, unit).promised(promise).unless(objection.clone()));
    }
    Ok(())
}

/// Records on the calling thread, whose system calls are watched from here on.
fn record_watched(recording: &Recording) -> Result<Seen> {
    (0..WARM_UP).for_each(|_| window()); // the sites become known, the chunks grow to their largest
    let mut watched = Watched::start().context("system calls cannot be watched here")?;
    ensure!(watched.syscalls_of(three_calls)? == 3, "the watch does not see system calls");
    let mut seen = Seen::default();
    while seen.entries < ENTRIES {
        let before = chunks(recording)?;
        let mut syscalls = Ok(0);
        let allocations = allocations_of(|| syscalls = watched.syscalls_of(window));
        seen.add(syscalls?, allocations, chunks(recording)? - before);
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

/// How many chunks there are; none goes while the session's limit is far.
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

/// Something whose system calls are known.
fn three_calls() {
    (0..3).for_each(|_| {
        std::hint::black_box(rustix::process::getppid());
    });
}
