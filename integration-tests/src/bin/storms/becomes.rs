//! A process that executes a new program repeatedly while it is sampled: `storms reexec SECONDS`.
//!
//! A signal that is pending for the process at that moment is delivered to the new program, which
//! has no handler for it. The new program is this one, so this happens hundreds of times. Its third
//! argument is the number of executions so far. Its fourth is the time of the end, on a clock that
//! continues across programs.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profiler_core::session;
use rustix::time::{ClockId, clock_gettime};

/// The smallest number of programs that shows something. A slow machine takes longer for them.
const FEWEST_ROUNDS: u64 = 10;

/// The state that a program passes to the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Number of executions so far.
    done: u64,
    /// The time of the end, in nanoseconds of the monotonic clock.
    ends: u64,
}

impl Round {
    /// Parses the words after the number of seconds. The first program has none.
    pub(crate) fn parse(seconds: u64, mut words: impl Iterator<Item = String>) -> Result<Self> {
        let Some(done) = words.next() else {
            return Ok(Self {
                done: 0,
                ends: clock_ns() + seconds * 1_000_000_000,
            });
        };
        Ok(Self {
            done: done.parse()?,
            ends: words.next().context("until when?")?.parse()?,
        })
    }
}

fn clock_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Continues where the previous program stopped. Returns only in the last round.
pub(crate) fn reexec(seconds: u64, round: Round) -> Result<()> {
    let Round { done, ends } = round;
    if clock_ns() >= ends && done >= FEWEST_ROUNDS {
        // A signal that was pending for the previous program is delivered before this ends.
        session::wait_one_periodic_sampling();
        println!("ok {done} programs after the first");
        return Ok(());
    }
    let next = || -> Result<()> {
        let mut command = Command::new(std::env::current_exe().context("no executable")?);
        command.args([
            "reexec",
            &seconds.to_string(),
            &(done + 1).to_string(),
            &ends.to_string(),
        ]);
        compute(Duration::from_millis(3));
        let error = command.exec();
        bail!("the program cannot be executed: {error}")
    };
    std::thread::scope(|scope| {
        // The other threads end with the old program while they compute.
        scope.spawn(|| compute(Duration::from_secs(60)));
        // The system handles this differently on the main thread and on other threads.
        if done.is_multiple_of(2) {
            next()
        } else {
            scope
                .spawn(next)
                .join()
                .unwrap_or_else(|_| bail!("panicked"))
        }
    })
}

fn compute(time: Duration) {
    let ends = Instant::now() + time;
    while Instant::now() < ends {
        (0..1000_u64).for_each(|number| _ = black_box(number));
    }
}
