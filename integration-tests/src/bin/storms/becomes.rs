//! A process that becomes another program while it is sampled, again and again: `storms reexec SECONDS`.
//!
//! What is on its way to the process at that instant comes to the new program, which has no handler for it. The new
//! program is this one, so that it happens hundreds of times; how often so far is its third argument, and when it is to
//! end, by a clock that goes on across programs, its fourth.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profiler_core::session;
use rustix::time::{ClockId, clock_gettime};

/// Fewer programs would say nothing: a slow machine takes longer for them.
const FEWEST_ROUNDS: u64 = 10;

/// Where the program before this one left off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    done: u64,
    /// Nanoseconds of the monotonic clock.
    ends: u64,
}

impl Round {
    /// What the words after the number of seconds say; the first program has none.
    pub(crate) fn parse(seconds: u64, mut words: impl Iterator<Item = String>) -> Result<Self> {
        let Some(done) = words.next() else {
            return Ok(Self { done: 0, ends: clock_ns() + seconds * 1_000_000_000 });
        };
        Ok(Self { done: done.parse()?, ends: words.next().context("until when?")?.parse()? })
    }
}

fn clock_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Goes on where the program before this one left off; does not return before the last round.
pub(crate) fn reexec(seconds: u64, round: Round) -> Result<()> {
    let Round { done, ends } = round;
    if clock_ns() >= ends && done >= FEWEST_ROUNDS {
        // What the last one left behind has come by now.
        session::wait_one_periodic_sampling();
        println!("ok {done} programs after the first");
        return Ok(());
    }
    let next = || -> Result<()> {
        let mut command = Command::new(std::env::current_exe().context("no executable")?);
        command.args(["reexec", &seconds.to_string(), &(done + 1).to_string(), &ends.to_string()]);
        compute(Duration::from_millis(3));
        let error = command.exec();
        bail!("no other program: {error}")
    };
    std::thread::scope(|scope| {
        // All others end with the old program, in the middle of something.
        scope.spawn(|| compute(Duration::from_secs(60)));
        // The main thread and others go different ways through the system.
        if done.is_multiple_of(2) {
            next()
        } else {
            scope.spawn(next).join().unwrap_or_else(|_| bail!("panicked"))
        }
    })
}

fn compute(time: Duration) {
    let ends = Instant::now() + time;
    while Instant::now() < ends {
        (0..1000_u64).for_each(|number| _ = black_box(number));
    }
}
